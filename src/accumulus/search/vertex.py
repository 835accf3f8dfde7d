"""The best vertex elimination order that simulated annealing finds.

Anneals from the best greedy order, and again with other random numbers until that finds nothing better. Always hands back the best order
so far: when the time is over, on Ctrl-C, and where there is nothing to search. Graphs of more than
`accumulus.search.annealing.LARGEST` intermediates get the best greedy order.

Not proven optimal; on graphs of up to seven intermediates the tests find it optimal, on the public graphs of about 100 vertices
every seed reaches the best values known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.annealing import DEAREST, LARGEST, Annealing, seed_of
from accumulus.search.elimination import Elimination
from accumulus.search.greedy import greedy_orders
from accumulus.search.options import Options
from accumulus.search.registry import Found, register

__all__ = ["vertex"]


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Sweeps of the first run, their factor from run to run, and the runs without improvement that end a search."""

    sweeps: int
    growth: float
    patience: int


_SCHEDULES: Final = {
    "fast": _Schedule(sweeps=20, growth=1.0, patience=0),
    "balanced": _Schedule(sweeps=25, growth=1.3, patience=1),
    "thorough": _Schedule(sweeps=100, growth=1.5, patience=4),
}
#: Kernel steps a second, at least, on a machine of today; the sweeps of a run are cut to what the time limit allows.
SPEED: Final = 20_000_000


@register("vertex", "simulated annealing over vertex elimination orders", covers=("forward", "reverse", "markowitz"))
def vertex(graph: DifferentiationGraph, options: Options) -> Found:
    """Search for the best vertex elimination order."""
    name, cost, start = min(greedy_orders(graph, options.objective), key=lambda found: found[1])
    state = Elimination(graph, options.objective)
    inner = len(state.intermediates)
    if inner < 2 or inner > LARGEST or not 0 < cost[0] < DEAREST or options.time_limit == 0 or options.iterations == 0:
        return Found(graph, name, start)
    annealing = Annealing(state, options.objective)
    try:
        deadline = time.perf_counter() + options.time_limit
        for found in _runs(annealing, start, options):
            if options.progress is not None:
                options.progress(found)
            if time.perf_counter() > deadline:
                break
    except KeyboardInterrupt:
        pass
    found_cost, order = annealing.best
    return Found(graph, "vertex", (*order, *state.dead)) if found_cost < cost else Found(graph, name, start)


def _runs(annealing: Annealing, start: tuple[int, ...], options: Options) -> Iterator[int]:
    """Anneal until the search stalls, or the iterations are used up; yields the best cost so far."""
    schedule = _SCHEDULES[options.effort]
    affordable = options.time_limit * SPEED / annealing.sweep_steps
    left = options.iterations
    misses = 0
    for run in count():
        sweeps = max(1.0, min(schedule.sweeps * schedule.growth**run, affordable))
        visits = int(sweeps * (annealing.count - 1))
        if left is not None:
            visits = min(visits, left)
            left -= visits
        before = annealing.best[0]
        for cost in annealing.run(start, visits, seed_of(options.seed, run), heat=min(1.0, sweeps / 20)):
            yield cost[0]
        after, start = annealing.best
        misses = misses + 1 if after == before else 0
        if after[0] == 0 or (misses > schedule.patience if left is None else left == 0):
            return
