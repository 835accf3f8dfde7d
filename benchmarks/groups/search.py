"""Results of the search: the best known costs, proven where possible, on graphs with published results.

Five tables, `make bench-search`: small graphs with their optima, proven; five public graphs with what is known and
with lower bounds; how soon the published counts of another system are reached on those; random graphs whose best
vertex elimination is proven; and what a search gains that processes share in. A number counts as reached only if the
plan is verified, proven where that is asked for, and in time.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import accumulus as acc
from accumulus.graph.generators import bat, layered, lion, random_dag
from accumulus.search.plan import Plan
from groups import Settings
from groups.counts import ALPHAGRAD, FOLDER, REACH
from groups.methods import known_graphs
from tables import Goal, Row, Table

VECTORS: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "vector_graphs.json"
#: Seconds for a proof, for one at a hundred intermediates, and for the best plan of a public graph.
PROOF: Final = 10.0
LONG: Final = 60.0
PUBLIC: Final = 10.0
#: Of which the search may take so many; a busy machine needs the rest to write the plan down.
LIMIT: Final = 9.0
#: Seconds within which published counts are to be reached.
START: Final = 1.0
SEEDS: Final = 5
KINDS: Final = ("vertex", "edge", "face")
#: Random graphs, by intermediates and edges; and by layers, width and degree.
RANDOM: Final = ((12, 30), (16, 40), (20, 50), (24, 60), (24, 96))
LAYERED: Final = ((4, 6, 2), (6, 4, 2), (4, 6, 3), (6, 5, 2), (10, 4, 3))
#: Intermediates and edges of random graphs with two roots and two terminals, for face elimination.
TWO_ROOTS: Final = ((32, 72), (48, 107), (64, 142), (72, 160), (80, 178), (96, 213))
#: Layers, width and degree of graphs that one search does not exhaust.
SHARED: Final = ((8, 8, 3), (12, 14, 3), (38, 5, 3))


def small(settings: Settings) -> Table:
    """Optima of small graphs, each with its proof."""
    for kind in KINDS:  # the kernels of all searches are compiled once a machine, which is not measured here
        _planned(lion(), f"exact-{kind}", "fma", PROOF, settings.seed)
    rows = []
    for name, graph, method, optimum, seconds in _small():
        plan, taken = _planned(graph, method, "fma", seconds, settings.seed)
        missed = _missed(plan, taken, seconds)
        rows.append(
            Row(
                {
                    "graph": name,
                    "method": method,
                    "bound": plan.lower_bound,
                    "proven": "yes" if plan.is_optimal else "no",
                    "seconds": taken,
                    "limit": seconds,
                },
                Goal(optimum, plan.cost, missed=missed),
            )
        )
    notes = [
        "Reached: products of the plan, every product 1, for vectors the product of the three sizes. Proven: no "
        "elimination of that kind has fewer. lion, bat: Naumann 2004. Vectors: ADMission's examples.",
        "Figures of the notes: see the group known.",
    ]
    return Table("search-small", "Proven optima of small graphs", rows, notes)


def public(settings: Settings) -> Table:
    """The best plans of five public graphs, and how far from the best they can be."""
    rows = []
    for objective, reach in REACH.items():
        for name, known in reach.items():
            plan, taken = _planned(_public(name), "auto", objective, LIMIT, settings.seed, effort="thorough")
            gap = plan.gap
            cells = {
                "graph": name,
                "objective": objective,
                "method": plan.method,
                "bound": plan.lower_bound,
                "gap": "unknown" if gap is None else f"{gap:.0%}",
                "below": "yes" if plan.cost < known else "no",
                "seconds": taken,
            }
            rows.append(Row(cells, Goal(known, plan.cost, missed="" if taken <= PUBLIC else "late")))
    notes = [
        "To reach: the best vertex orders known. fma: every product 1; multiplications: products with ±1 free.",
        f"bound: no elimination has fewer. Method auto, effort thorough, time limit {LIMIT:g} s.",
    ]
    return Table("search-public", "Products of the best plan for public graphs", rows, notes)


def start(settings: Settings) -> Table:
    """Return the times until AlphaGrad's published counts are reached."""
    rows = []
    for objective, published in ALPHAGRAD.items():
        for name, count in published.items():
            seconds, cost = _seconds_to(_public(name), objective, count, settings.seed)
            cells = {"graph": name, "objective": objective, "AlphaGrad": count, f"after {START:g} s": cost}
            rows.append(Row(cells, Goal(START, seconds, unit=" s")))
    notes = [
        "To reach: seconds until a plan has as few products as the published order, from the call of acc.plan on.",
        "AlphaGrad: Lohoff and Neftci, arXiv 2406.05027; its orders counted by the same rules on the same graphs.",
    ]
    return Table("search-start", "Published counts, how soon", rows, notes)


def random(settings: Settings) -> Table:
    """The best elimination of random graphs, proven."""
    rows = []
    for name, method, make in _random():
        seconds, proven, gaps = [], 0, []
        for seed in range(settings.seed, settings.seed + SEEDS):
            plan, taken = _planned(make(seed=seed), method, "fma", PROOF, seed)
            proven += plan.is_optimal
            seconds.append(taken if plan.is_optimal else math.inf)
            gaps.append(1.0 if plan.gap is None else plan.gap)
        cells = {
            "graph": name,
            "method": method,
            "proven": f"{proven} of {SEEDS}",
            "slowest": max(seconds),
            "largest gap": f"{max(gaps):.1%}",
        }
        rows.append(Row(cells, Goal(PROOF, statistics.median(seconds), unit=" s")))
    notes = [
        f"To reach: median seconds until the optimum of the method's class is proven, {SEEDS} seeds; inf: not within "
        f"{PROOF:g} s."
    ]
    return Table("search-random", "Proven optima of random graphs", rows, notes)


def shared(settings: Settings) -> Table:
    """A search alone and one that processes share in, each with the same time."""
    jobs = os.cpu_count() or 1
    graphs = {name: _public(name) for name in REACH["fma"]}
    graphs |= {f"layered, {a} × {b}, degree {c}": layered(layers=a, width=b, degree=c) for a, b, c in SHARED}
    rows = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, graph in graphs.items():
            _planned(graph, "vertex", "fma", START, settings.seed, executor=pool)  # processes have started
            for effort in ("balanced", "thorough"):
                options = {"effort": effort}
                alone, seconds = _planned(graph, "vertex", "fma", START, settings.seed, **options)
                plan, taken = _planned(graph, "vertex", "fma", START, settings.seed, executor=pool, **options)
                cells = {"graph": name, "effort": effort, "s alone": seconds, "s shared": taken}
                rows.append(Row(cells, Goal(alone.cost, plan.cost)))
    notes = [
        f"To reach: products of the plan of one process in at most {START:g} s, method vertex, every product 1.",
        f"Reached: the same with {jobs} processes beside it, one for each core.",
    ]
    return Table("search-shared", "A search that processes share in", rows, notes)


def _small() -> list[tuple[str, acc.DifferentiationGraph, str, int, float]]:
    """Name, graph, method, optimum, and seconds to stay within."""
    rows = [("lion", lion(), f"exact-{kind}", best, 1.0) for kind, best in zip(KINDS, (12, 11, 11), strict=True)]
    rows += [("bat", bat(), f"exact-{kind}", best, PROOF) for kind, best in zip(KINDS, (24, 23, 22), strict=True)]
    rows += [
        (name, _public(name), "exact-vertex", REACH["fma"][name], LONG)
        for name in ("RoeFlux_1d", "BlackScholes_Jacobian")
    ]
    for drawn in json.loads(VECTORS.read_text(encoding="utf-8"))["graphs"]:
        graph = acc.DifferentiationGraph(drawn["edges"], sizes=drawn["sizes"], name=drawn["name"])
        seconds = 1.0 if drawn["name"] == "R2" else PROOF
        rows.append((f"{drawn['name']}, vectors", graph, "exact-face", drawn["face_elimination_optimum"], seconds))
    for name, (make, numbers) in known_graphs().items():
        rows += [(f"notes, {name}", make(), "exact-face", best, PROOF) for best in numbers if numbers[best] is None]
    return rows


def _random() -> list[tuple[str, str, Callable[..., acc.DifferentiationGraph]]]:
    """Return name and method of each kind of graph, and a function of a seed that draws one."""
    return [
        *(
            (f"random_dag, {count} intermediates, {edges} edges", "exact-vertex", partial(random_dag, count, edges))
            for count, edges in RANDOM
        ),
        *(
            (f"layered, {layers} × {width}, degree {degree}", "exact-vertex", partial(layered, layers, width, degree))
            for layers, width, degree in LAYERED
        ),
        *(
            (
                f"random_dag, {count} intermediates, {edges} edges, 2 roots",
                "exact-face",
                partial(random_dag, count, edges, inputs=2, outputs=2),
            )
            for count, edges in TWO_ROOTS
        ),
    ]


def _public(name: str) -> acc.DifferentiationGraph:
    return acc.load_graph(FOLDER / f"{name}.json")


def _planned(
    graph: acc.DifferentiationGraph, method: str, objective: str, seconds: float, seed: int, **options: Any
) -> tuple[Plan, float]:
    """A verified plan, and the seconds that it took."""
    began = time.perf_counter()
    plan = acc.plan(graph, method, objective, time_limit=seconds, seed=seed, **options)
    taken = time.perf_counter() - began
    plan.verify()
    return plan, taken


def _missed(plan: Plan, taken: float, seconds: float) -> str:
    if not plan.is_optimal:
        return "not proven"
    return "" if taken <= seconds else "late"


def _seconds_to(graph: acc.DifferentiationGraph, objective: str, count: int, seed: int) -> tuple[float, int]:
    """Seconds until the search has a plan of at most `count` products, inf if it never has; and what it ends with."""
    reached: list[float] = []
    began = time.perf_counter()

    def watch(cost: int | None) -> None:
        if cost is not None and cost <= count and not reached:
            reached.append(time.perf_counter() - began)

    plan = acc.plan(
        graph, "auto", objective, time_limit=START, seed=seed, progress=lambda progress: watch(progress.cost)
    )
    watch(plan.cost)
    return (reached[0] if reached else math.inf), plan.cost
