"""The best edge and face sequences that greedy choices and repairs find.

Every vertex order is an edge sequence, every edge sequence a face sequence. So both begin with the best order of the
method `vertex`, `face` runs `edge`, too, and neither is ever worse than that.

Single edges and faces pay on small graphs only: on none of some sixty graphs of more than 30 products, examples,
public ones and random ones, did any sequence improve on the annealed order. So sequences of more than `MOST` products
are not touched, and on what is touched the work is limited by counts, as long as the time limit allows. Always hands
back the best so far: when the time is over, and on Ctrl-C.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from accumulus.accumulate.cost import Objective
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.options import Options
from accumulus.search.registry import Found, register
from accumulus.search.vertex import vertex

__all__ = ["edge", "face"]


@dataclass(frozen=True, slots=True)
class _Effort:
    #: Products of a sequence that is touched, at most.
    most: int
    #: Rounds of repairs for each product.
    rounds: int
    #: Score evaluations, at most; one takes one or two microseconds.
    work: int


_EFFORTS: Final = {
    "fast": _Effort(16, 2, 1_000),
    "balanced": _Effort(32, 15, 60_000),
    "thorough": _Effort(300, 200, 2_000_000),
}


@register("edge", "eliminates edges, beginning with the best vertex order", covers=("vertex",))
def edge(graph: DifferentiationGraph, options: Options) -> Found:
    """Search for an edge sequence that is better than the best vertex order."""
    return _search(graph, options, ("edge",))


@register("face", "eliminates faces, beginning with the best vertex order", covers=("edge",))
def face(graph: DifferentiationGraph, options: Options) -> Found:
    """Search for an edge sequence, then for a face sequence that is better still."""
    return _search(graph, options, ("edge", "face"))


def _search(graph: DifferentiationGraph, options: Options, levels: tuple[Literal["edge", "face"], ...]) -> Found:
    deadline = time.perf_counter() + options.time_limit
    start = best = vertex(graph, options)
    if best.interrupted or options.time_limit == 0 or options.iterations == 0:
        return best
    products = sum(best.accumulation.steps.is_product)
    if products > _EFFORTS[options.effort].most or _is_least(best, options.objective):
        return best
    for left, level in zip(range(len(levels), 0, -1), levels, strict=True):
        now = time.perf_counter()
        best = _repaired(level, start, best, options, now + (deadline - now) / left)
        if best.interrupted or _is_least(best, options.objective):
            break
    return best


def _is_least(found: Found, objective: Objective) -> bool:
    """Whether no plan makes fewer products that count."""
    from accumulus.search.exact.bounds import lower_bound

    # nothing is known of operations, but without fewer products there are hardly fewer of them
    counted: Objective = "multiplications" if objective == "operations" else objective
    bound = lower_bound(found.graph, counted)
    return bound is not None and found.cost(counted) <= bound


def _repaired(level: Literal["edge", "face"], start: Found, best: Found, options: Options, deadline: float) -> Found:
    """What repairs make of a vertex order, if that is better than the best so far."""
    from accumulus.accumulate.edge import edges_of_vertices
    from accumulus.accumulate.face import faces_of_edges
    from accumulus.accumulate.greedy import Repair

    assert start.order is not None
    edges = edges_of_vertices(start.graph, start.order)
    products = sum(start.accumulation.steps.is_product)
    sequence: list[Any] = list(edges) if level == "edge" else list(faces_of_edges(start.graph, edges))
    effort = _EFFORTS[options.effort]
    rounds = effort.rounds * products
    if options.iterations is not None:
        rounds = min(rounds, options.iterations)
    repair = Repair(start.graph, level, (start.accumulation, sequence), options.objective)
    interrupted = False
    try:
        for cost in repair.run(rounds, effort.work, options.seed):
            if options.progress is not None:
                options.progress(min(cost, best.cost(options.objective)))
            if time.perf_counter() > deadline:
                break
    except KeyboardInterrupt:
        interrupted = True
    if repair.cost < best.cost(options.objective):
        best = Found(start.graph, level, _accumulation=repair.best)
    return replace(best, interrupted=True) if interrupted else best
