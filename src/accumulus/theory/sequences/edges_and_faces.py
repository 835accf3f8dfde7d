"""The best edge and face sequences that local search finds, beginning with the best vertex order.

Every vertex order is an edge sequence, every edge sequence a face sequence. So both begin with the best order of the
method `vertex`, `face` runs `edge`, too, and neither is ever worse than that.

Sequences that mix vertices, edges and faces are annealed (`accumulus.theory.sequences.mixed`), every second run from
the order, the others from the best so far, until that stalls. Under "operations", where the emitted tape is counted,
they are annealed by their multiplications, and only the best is counted.

Single edges and faces pay on small graphs, and on few others: then it takes minutes to find out. So at the default
effort, sequences of more than `most` products are not touched, and nothing is where a bound says that it is the best.
Always hands back the best so far: when the time is over, and on Ctrl-C.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, Literal

from accumulus.annealing import Schedule
from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.elimination import Elimination
from accumulus.search.orders import DEAREST
from accumulus.search.registry import SearchResult, register
from accumulus.search.vertex_annealing import vertex
from accumulus.theory.sequences.mixed import MOST_EDGES, MixedAnnealing

__all__ = ["edge", "face"]

Level = Literal["edge", "face"]


@dataclass(frozen=True, slots=True)
class _Effort:
    """How much is done.

    Attributes:
        most: products of a sequence that is touched, at most.
        annealing: visits are moves.
    """

    most: float
    annealing: Schedule


_EFFORTS: Final = {
    "fast": _Effort(16, Schedule(200, growth=1.0, stalls=0)),
    "balanced": _Effort(32, Schedule(1_000, growth=1.0, stalls=2)),
    "thorough": _Effort(math.inf, Schedule(1_500, growth=1.1, stalls=10)),
}
#: Part of the time that edges may take, where faces follow.
_EDGES: Final = 0.25


@register("edge")
def edge(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Search for an edge sequence that is better than the best vertex order."""
    return _search(graph, options, deadline, ("edge",))


@register("face")
def face(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Search for an edge sequence, then for a face sequence that is better still."""
    return _search(graph, options, deadline, ("edge", "face"))


def _search(
    graph: DifferentiationGraph, options: Options, deadline: Deadline, levels: tuple[Level, ...]
) -> SearchResult:
    start = best = vertex(graph, options, deadline)
    if best.interrupted or not options.searches or deadline.passed:
        return best
    products = best.accumulation.steps.is_product.count(1)
    if products > _EFFORTS[options.effort].most or _is_least(best, options.objective, deadline):
        return best
    search = _search_from(start, options, deadline)
    if search is None:
        return best
    for level in levels:
        until = deadline.part(_EDGES) if level == "edge" and "face" in levels else deadline
        interrupted = False
        try:
            with closing(search.steps(level, until)) as costs:
                for cost in costs:
                    options.tell(deadline, "plan", min(cost, best.cost(options.objective)))
                    if until.passed:
                        break
        except KeyboardInterrupt:
            interrupted = True
        found = search.found(level)
        if found.cost(options.objective) < best.cost(options.objective):
            best = found
        if interrupted:
            return replace(best, interrupted=True)
        if deadline.passed or _is_least(best, options.objective, deadline):
            break
    return best


def _is_least(found: SearchResult, objective: Objective, deadline: Deadline) -> bool:
    """Whether no plan makes fewer products that count, as far as there is time to know."""
    from accumulus.theory.bounds import lower_bound

    # nothing is known of operations, but without fewer products there are hardly fewer of them
    counted = objective.of_eliminations
    try:
        bound = lower_bound(found.graph, counted, deadline=deadline)
    except OutOfTimeError:
        return False
    return bound is not None and found.cost(counted) <= bound


def _search_from(start: SearchResult, options: Options, deadline: Deadline) -> _Annealed | None:
    """The search from an order; None for what is too large for it."""
    if start.graph.live_edges.sum() > MOST_EDGES or not 0 < start.cost(Objective.FMA) < DEAREST:
        return None
    with deadline.paused():
        prepare("theory.mixed")
    return _Annealed(start, options)


class _Annealed:
    """Annealing of edges, then of faces, with what edges found in hand."""

    def __init__(self, start: SearchResult, options: Options) -> None:
        assert start.order is not None
        self._graph, self._options = start.graph, options
        self._known = start.cost(options.objective) if options.objective.on_tape else None
        self._annealing = MixedAnnealing(Elimination(start.graph, options.objective), start.order)
        #: The order's own items: the best sequence can be hard to leave.
        self._order = self._annealing.best[1]

    def steps(self, level: Level, deadline: Deadline) -> Generator[int]:
        """Anneal; yields the best cost from time to time."""
        annealing, options = self._annealing, self._options
        annealing.faces = level == "face"
        schedule = _EFFORTS[options.effort].annealing
        sweeps, known = annealing.sweeps_in(deadline.seconds), self._order
        for cost in annealing.until_stalled(schedule, options.seed, sweeps, options.iterations, known, deadline):
            yield cost if self._known is None else self._known

    def found(self, level: Level) -> SearchResult:
        """The best so far."""
        return SearchResult(self._graph, level, _accumulation=self._annealing.accumulation(self._graph))
