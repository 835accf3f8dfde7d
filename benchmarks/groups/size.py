"""Plans of large sparse graphs: seconds and memory from 10⁴ edges to 10⁶, and the cost beside forward and reverse.

Each graph is made and planned in a process of its own, whose peak is reported with everything: the interpreter, the
graph, and the trace that it comes from, if there is one. What compiling the kernels takes once a machine is not
counted: a small large graph is planned before. A row's seconds are those of `acc.plan` as users call it, the writing of
the plan to the cache of plans included (the folder is a temporary one).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import accumulus as acc
from accumulus.elimination.emit import count
from accumulus.elimination.vertex import Limit, price
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Objective
from accumulus.search.elimination import forward_order, reverse_order
from groups import Settings
from groups.methods import peak
from tables import Goal, Row, Table

SIZES: Final = (10_000, 100_000, 1_000_000)
#: To stay within at the largest size.
SECONDS: Final = 20.0
MEGABYTES: Final = 2_000.0
#: Forward and reverse elimination are counted up to so many times the plan's cost.
BEYOND: Final = 100
#: Edges and seconds of the search in windows, to show what the effort balanced adds.
SEARCHED: Final = 100_000
LIMIT: Final = 10.0


def lorenz(edges: int) -> DifferentiationGraph:
    """Explicit Euler steps of the Lorenz system, traced."""

    def steps(x: Any) -> Any:
        for _ in range(edges // 19):
            slope = np.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])
            x = x + 0.01 * slope
        return x

    return acc.trace(steps, np.ones(3)).linearize()


def burgers(edges: int) -> DifferentiationGraph:
    """Explicit steps of Burgers' equation on a periodic grid of ten points, traced."""

    def steps(u: Any) -> Any:
        for _ in range(edges // 130):
            right, left = np.roll(u, -1), np.roll(u, 1)
            u = u - 0.1 * u * (right - left) + 0.05 * (right - 2 * u + left)
        return u

    return acc.trace(steps, np.ones(10)).linearize()


#: Name → graph of about so many edges.
GRAPHS: Final[dict[str, Callable[[int], DifferentiationGraph]]] = {
    "random": lambda edges: acc.graphs.random_dag(edges // 2, edges, 4, 4),
    "layered": lambda edges: acc.graphs.layered(edges // 32, 16, 2),
    "banded": lambda edges: acc.graphs.banded(edges // 3, 5, 0.5),
    "stencil, long": lambda edges: acc.graphs.stencil(20, edges // 58),
    "stencil, wide": lambda edges: acc.graphs.stencil(edges // 30, 10),
    "series-parallel": lambda edges: acc.graphs.series_parallel(edges - edges // 1_000, edges // 1_000),
    "dense layers": lambda edges: acc.graphs.dense_layers([8] * (edges // 64)),
    "trace: Lorenz": lorenz,
    "trace: Burgers": burgers,
}


@dataclass(frozen=True)
class _Run:
    edges: int
    seconds: float
    megabytes: float
    cost: int
    forward: int | None
    reverse: int | None
    searched: int | None


def table(settings: Settings) -> Table:
    """One row a graph and size, then the largest peak."""
    rows, peaks = [], []
    for name in GRAPHS:
        for size in SIZES:
            run = _apart(name, size, settings.seed)
            largest = size == SIZES[-1]
            if largest:
                peaks.append(run.megabytes)
            cells: dict[str, Any] = {"graph": name, "edges": run.edges, "s": run.seconds}
            cells |= {
                "µs/edge": 1e6 * run.seconds / run.edges,
                "MB": round(run.megabytes),
            }
            cells |= {"cost": run.cost, "fwd ×": _times(run.forward, run), "rev ×": _times(run.reverse, run)}
            cells["win ×"] = "" if run.searched is None else f"{run.searched / run.cost:.3f}"
            rows.append(Row(cells, Goal(SECONDS, run.seconds, unit=" s") if largest else None))
    rows.append(Row({"graph": "all", "edges": SIZES[-1], "MB": round(max(peaks))}, Goal(MEGABYTES, max(peaks))))
    notes = [
        "s: acc.plan(graph, effort='fast'), verified and kept on disk; MB: peak of the whole process, graph included.",
        f"×: products beside the plan's: forward, reverse ('>': given up), and balanced (windows) within {LIMIT:g} s.",
    ]
    return Table("size", "Large sparse graphs", rows, notes)


def _times(cost: int | None, run: _Run) -> str:
    return f"> {BEYOND}" if cost is None else f"{cost / run.cost:.3g}"


def _apart(name: str, edges: int, seed: int) -> _Run:
    """`_run` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, name, edges, seed).result()


def _run(name: str, edges: int, seed: int) -> _Run:
    # the plan goes to a folder of its own, with the kernels that are compiled already
    acc.plan(acc.graphs.layered(700, 8, 2), effort="fast", cache=False)
    graph = GRAPHS[name](edges)
    with tempfile.TemporaryDirectory() as folder:
        prepare("search.order")
        known = {key: os.environ.get(key) for key in ("ACCUMULUS_CACHE", "ACCUMULUS_CACHE_PLANS")}
        os.environ |= {"ACCUMULUS_CACHE": folder, "ACCUMULUS_CACHE_PLANS": "1"}
        start = time.perf_counter()
        plan = acc.plan(graph, effort="fast", seed=seed)
        seconds = time.perf_counter() - start
        for key, value in known.items():
            os.environ.pop(key)
            if value is not None:
                os.environ[key] = value
    megabytes = peak()
    limit = BEYOND * plan.cost
    if edges == SIZES[0]:
        assert plan.cost == count(plan.accumulation, Objective.MULTIPLICATIONS)
    orders = forward_order(graph), reverse_order(graph)
    sweeps = [price(graph, order, Objective.MULTIPLICATIONS, Limit(limit)) for order in orders]
    forward, reverse = (None if each is None else each.cost[0] for each in sweeps)
    searched = None
    if edges == SEARCHED:
        searched = acc.plan(graph, "vertex", effort="balanced", time_limit=LIMIT, seed=seed, cache=False).cost
    return _Run(len(graph.sources), seconds, megabytes, plan.cost, forward, reverse, searched)
