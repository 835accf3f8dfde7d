"""Every registered method on graphs of two sizes, and on the graphs whose best numbers of products are known.

A new method appears by itself. Each method plans in a process of its own, so that its memory is its own too:
reported is by how much the process grew at its peak, with everything imported and a small graph planned before.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import accumulus as acc
from accumulus.errors import AccumulusError
from accumulus.graph.generators import bat, layered, lion
from accumulus.options import Effort
from groups import Settings
from tables import Goal, Row, Table

FIGURES: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "figures.json"
OBJECTIVE: Final = "fma"
SEEDS: Final = 3
#: Time limit of methods that search, in seconds.
SECONDS: Final = 1.0
#: size → shapes as layers of intermediates, width and degree, and seconds to stay within
SIZES: Final = {
    "200": ([(12, 14, 3), (38, 5, 3), (3, 40, 3)], 2.0),
    "2,000": ([(43, 44, 3), (198, 10, 3), (18, 100, 3)], 30.0),
}


def table(settings: Settings) -> Table:
    """One row a method and size: the shapes together, medians over the seeds of each."""
    rows, failures = [], []
    for size, (shapes, limit) in SIZES.items():
        runs: dict[str, list[_Runs]] = {}
        for name in acc.methods():
            try:
                runs[name] = [_apart(name, shape, range(settings.seed, settings.seed + SEEDS)) for shape in shapes]
            except AccumulusError as error:
                failures.append(f"{name} failed at {size} vertices: {error}")
                rows.append(Row({"vertices": size, "method": name}, Goal(limit, None)))
        best = [[min(of[k].products[s] for of in runs.values()) for s in range(SEEDS)] for k in range(len(shapes))]
        for name, of in runs.items():
            seconds = [statistics.median(run.seconds) for run in of]
            ratios = [
                statistics.median(products / fewest for products, fewest in zip(run.products, least, strict=True))
                for run, least in zip(of, best, strict=True)
            ]
            cells: dict[str, Any] = {"vertices": size, "method": name}
            cells |= {
                f"s {what}": round(taken, 2) for what, taken in zip(("even", "long", "wide"), seconds, strict=True)
            }
            cells |= {f"× {what}": ratio for what, ratio in zip(("even", "long", "wide"), ratios, strict=True)}
            cells["MB"] = round(max(run.megabytes for run in of))
            rows.append(Row(cells, Goal(limit, max(seconds), unit=" s")))
    notes = [
        f"s: median seconds over {SEEDS} seeds; ×: products beside the best method's; MB: growth at the peak.",
        "2,000 vertices have up to 6,000 edges. Shapes: layered(layers, width, degree) with "
        + "; ".join(str(shape) for shapes, _ in SIZES.values() for shape in shapes),
        f"Objective {OBJECTIVE}, time limit {SECONDS:g} s for methods that search.",
        *failures,
    ]
    return Table("methods", "Every method at size", rows, notes)


def known_numbers(settings: Settings) -> Table:
    """Return a row for each number of the literature or of the notes, with the cost that each method finds."""
    found: dict[str, dict[str, int]] = {}
    for name, (make, _) in known_graphs().items():
        graph = make()
        found[name] = {method: _plan(graph, method, settings.seed, "thorough").cost for method in acc.methods()}
    rows = [Row({"method": method, **{name: of[method] for name, of in found.items()}}) for method in acc.methods()]
    for name, (_, numbers) in known_graphs().items():
        for number, method in numbers.items():
            reached = min(found[name].values()) if method is None else found[name][method]
            goal = Goal(number, reached)
            rows.append(
                Row({"method": f"{method or 'best of all'}: {name}", **dict.fromkeys(found, ""), name: reached}, goal)
            )
    notes = [
        "dag: fig:complex-dag-and-complete-path-dag. roots: fig:multi-root-terminal-graph. factorization: ",
        "fig:multi-root-terminal-factorization, (e) with v4 and v6. lion and bat: Naumann 2004.",
    ]
    return Table("known", "Products on graphs whose best numbers are known", rows, notes)


def known_graphs() -> dict[str, tuple[Callable[[], acc.DifferentiationGraph], dict[int, str | None]]]:
    """Graph → the numbers to reach, each by a method, or by the best of all."""
    several = "fig:multi-root-terminal-"
    # the notes' figure (e) leaves v4 and v6 out; with them it is the first graph less what separates its pages
    return {
        "dag (a)": (partial(_figure, "fig:complex-dag-and-complete-path-dag", "a"), {5: None}),
        "dag (b)": (partial(_figure, "fig:complex-dag-and-complete-path-dag", "b"), {10: None}),
        "roots (a)": (partial(_figure, f"{several}graph", "a"), {40: None}),
        "factorization (a)": (partial(_figure, f"{several}factorization", "a"), {44: None}),
        "(e)": (
            partial(_figure, f"{several}graph", "a", ("e0", "e17", "e1", "e2")),
            {22: None},
        ),
        "lion": (lion, {12: "vertex", 11: "edge"}),
        "bat": (bat, {24: "vertex", 23: "edge", 22: "face"}),
    }


def _figure(name: str, part: str, without: tuple[str, ...] = ()) -> acc.DifferentiationGraph:
    """A figure of the notes, less the edges with the given labels."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    drawn = next(
        each["edges"]
        for figure in figures
        if figure["figure"] == name
        for each in figure["parts"]
        if each["part"] == part
    )
    edges = [(j, i, label and label.replace("_", "").replace("{", "").replace("}", "")) for j, i, label in drawn]
    return acc.DifferentiationGraph([(j, i, 1 if e == "1" else e) for j, i, e in edges if e not in without])


def _plan(graph: acc.DifferentiationGraph, method: str, seed: int, effort: Effort = "balanced") -> Any:
    plan = acc.plan(graph, method=method, objective=OBJECTIVE, time_limit=SECONDS, seed=seed, effort=effort)
    plan.verify()
    return plan


@dataclass(frozen=True)
class _Runs:
    """Times of the plans for the graphs of a shape, one entry a seed, and the peak of memory in megabytes."""

    seconds: list[float]
    products: list[int]
    megabytes: float


def _apart(method: str, shape: tuple[int, int, int], seeds: range) -> _Runs:
    """`_run` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, method, shape, seeds).result()


def _run(method: str, shape: tuple[int, int, int], seeds: range) -> _Runs:
    layers, width, degree = shape
    graphs = [layered(layers=layers, width=width, degree=degree, seed=seed) for seed in seeds]
    _plan(lion(), method, seeds[0])
    before = peak()
    seconds, products = [], []
    for graph, seed in zip(graphs, seeds, strict=True):
        start = time.perf_counter()
        plan = acc.plan(graph, method=method, objective=OBJECTIVE, time_limit=SECONDS, seed=seed)
        seconds.append(time.perf_counter() - start)
        plan.verify()
        products.append(plan.cost)
    return _Runs(seconds, products, peak() - before)


def peak() -> float:
    """Megabytes that this process has held at most.

    Linux lets a process inherit the other number, `ru_maxrss`, from the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
