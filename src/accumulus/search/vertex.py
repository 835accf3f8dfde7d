"""The best vertex elimination order that simulated annealing finds.

Starts from the best greedy order and anneals until that stalls. Under "operations", what is found for multiplications
is annealed further by the operations of the emitted tape, as `accumulus.search.sharing` models them, and the tapes of
the best orders are counted. Always hands back the best order so far: when the time is over, on Ctrl-C, and where
there is nothing to search. In graphs of more than `accumulus.search.annealing.LARGEST` intermediates, windows of the
best greedy order are annealed (`accumulus.search.windows`), unless the effort is fast.

Not proven optimal. On all graphs of up to seven intermediates that the tests draw it is; on the public graphs of
about 100 vertices nearly every seed reaches the best values known at the default effort.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.annealing import DEAREST, LARGEST, Annealing
from accumulus.search.elimination import Cost, Elimination, count_live
from accumulus.search.greedy import greedy_orders
from accumulus.search.parallel import in_parts
from accumulus.search.registry import Found, register
from accumulus.search.restarts import Schedule, until_stalled
from accumulus.search.sharing import MOST_PRODUCTS, MOST_VERTICES, Sharing
from accumulus.search.windows import Windows

__all__ = ["vertex"]

#: Annealing under "fma" and "multiplications", by effort.
_ANNEALING: Final = {
    "fast": Schedule(20, growth=1.0, patience=-1),
    "balanced": Schedule(25, growth=1.3, patience=1),
    "thorough": Schedule(100, growth=1.5, patience=4),
}
#: The two stages under "operations". Where a tape is rewritten after a fast search, twice as many sweeps win nothing.
_FIRST: Final = {
    "fast": Schedule(6, growth=1.0, patience=-1, gives_up=True),
    "balanced": _ANNEALING["fast"],
    "thorough": _ANNEALING["fast"],
}
_SHARING: Final = {
    "fast": Schedule(4, growth=1.0, patience=-1, gives_up=True),
    "balanced": Schedule(25, growth=1.0, patience=0),
    "thorough": Schedule(200, growth=1.5, patience=2),
}
#: Seconds that one run of either stage may take on a machine of today: what is waited for before the first result
#: stays a fraction of a second on graphs of some hundreds of vertices, too. Sweeps, not time, are what it limits.
_RUN: Final = {"fast": 0.02, "balanced": 0.04, "thorough": math.inf}
#: Orders whose modelled operations exceed the least by more than this part and number are not worth their tape. The
#: model is right but for what writing a tape down simplifies: a fast search takes its word.
_DOUBTFUL: Final = (0.15, 20)


@dataclass(slots=True)
class _Candidate:
    """An order that may be the best, with its cost and steps, or the operations that the model gives it."""

    found: Found
    cost: Cost | None = None
    rank: tuple[int, int] = (0, 0)
    modelled: int | None = None


@register("vertex")
@in_parts
def vertex(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
    """Search for the best vertex elimination order."""
    # the best greedy plan is found without a limit, where that is all that is asked for
    until = deadline if options.searches else FOREVER
    greedy = greedy_orders(graph, options.objective, until)
    candidates = [
        _Candidate(Found(graph, each.name, each.order), each.priced.cost, each.rank(options.objective))
        for each in greedy
    ]
    interrupted = False
    if _searchable(graph, candidates, options) and not until.passed:
        try:
            with deadline.paused():
                prepare("search.order", *["search.sharing"] * options.objective.on_tape)
            with closing(_search(graph, options, deadline, candidates)) as search:
                for cost in search:
                    options.tell(deadline, "plan", cost)
                    if deadline.passed:
                        break
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            interrupted = True
    on_tape = options.objective.on_tape
    found = _cheapest_tape(candidates, options, until) if on_tape else _cheapest(candidates).found
    return replace(found, interrupted=True) if interrupted else found


def _searchable(graph: DifferentiationGraph, candidates: list[_Candidate], options: Options) -> bool:
    if not options.searches:
        return False
    least = min(candidate.cost[0] for candidate in candidates if candidate.cost)
    live = count_live(graph)
    if live > LARGEST:
        return options.effort != "fast" and least > 0
    return live >= 2 and 0 < least < DEAREST


def _search(
    graph: DifferentiationGraph, options: Options, deadline: Deadline, candidates: list[_Candidate]
) -> Generator[int]:
    """Yield the best cost from time to time, and add what is found to the candidates, however this ends."""
    if count_live(graph) > LARGEST:
        yield from _search_windows(graph, options, deadline, candidates)
        return
    start = _cheapest(candidates).found
    state = Elimination(graph, options.objective)
    annealing = Annealing(state, options.objective, _order(start))
    by_operations = options.objective.on_tape
    schedule = (_FIRST if by_operations else _ANNEALING)[options.effort]
    iterations = options.iterations
    if by_operations and iterations is not None:
        iterations = (iterations + 1) // 2
    sweeps = annealing.sweeps_in(min(deadline.seconds, _RUN[options.effort]))
    try:
        for least in until_stalled(annealing, schedule, options.seed, sweeps, iterations):
            yield _told(start, options) if by_operations else least
    finally:
        cost, order = annealing.best
        candidates.append(_Candidate(Found(graph, "vertex", (*order, *state.dead)), cost, cost))
    if by_operations and len(state.intermediates) <= MOST_VERTICES:
        iterations = None if options.iterations is None else options.iterations - (options.iterations + 1) // 2
        if iterations != 0:
            yield from _search_by_operations(graph, state, options, deadline, candidates, iterations)


def _search_windows(
    graph: DifferentiationGraph, options: Options, deadline: Deadline, candidates: list[_Candidate]
) -> Generator[int]:
    """The same for large graphs: the best greedy order, searched in windows."""
    start = min((c for c in candidates if c.cost is not None), key=lambda c: c.cost or (0, 0))
    assert start.cost is not None
    windows = Windows(graph, options.objective, _order(start.found), start.cost, deadline)
    try:
        yield from windows.run(options.effort, options.seed, options.iterations)
    finally:
        if windows.cost < start.cost:
            candidates.append(_Candidate(Found(graph, "vertex", windows.order), windows.cost, windows.cost))


def _search_by_operations(
    graph: DifferentiationGraph,
    state: Elimination,
    options: Options,
    deadline: Deadline,
    candidates: list[_Candidate],
    iterations: int | None,
) -> Generator[int]:
    """The second stage, from the order that the model likes best."""
    cheapest = _cheapest(candidates)
    assert cheapest.cost is not None
    products = cheapest.cost[1]  # multiplications come first, and all products where these are equal
    if products > MOST_PRODUCTS:
        return
    sharing = Sharing(graph, state, products)
    for candidate in candidates:
        candidate.modelled = sharing.count_operations(_order(candidate.found))
    start = min(candidates, key=lambda candidate: candidate.modelled or 0).found
    beside = _told(start, options) - sharing.best[0]
    sweeps = sharing.sweeps_in(min(deadline.seconds, _RUN[options.effort]))
    try:
        for modelled in until_stalled(sharing, _SHARING[options.effort], options.seed, sweeps, iterations):
            yield modelled + beside
    finally:
        least, order = sharing.best
        candidates.append(_Candidate(Found(graph, "vertex", (*order, *state.dead)), modelled=least))


def _told(found: Found, options: Options) -> int:
    """What whoever listens is told that an order costs; nobody's time is spent on counting it where nobody does."""
    return 0 if options.progress is None else found.cost(options.objective)


def _order(found: Found) -> tuple[int, ...]:
    assert found.order is not None
    return found.order


def _cheapest(candidates: list[_Candidate]) -> _Candidate:
    """The least cost; the simplest among equals."""
    priced = [(candidate.cost, candidate) for candidate in candidates if candidate.cost is not None]
    return min(priced, key=lambda pair: pair[0])[1]


def _cheapest_tape(candidates: list[_Candidate], options: Options, deadline: Deadline) -> Found:
    """The least cost of the emitted tape, counted as far as there is time; the simplest among equals."""
    least = min((candidate.modelled for candidate in candidates if candidate.modelled is not None), default=0)
    fast = options.effort == "fast"
    limit = least if fast else least + _DOUBTFUL[0] * least + _DOUBTFUL[1]
    worth = [(k, c) for k, c in enumerate(candidates) if c.modelled is None or c.modelled <= limit]
    # the likeliest first: it may be the only one that there is time for
    worth.sort(key=lambda pair: (pair[1].modelled or math.inf, pair[1].found.method != "vertex", pair[1].rank))
    best = worth[0][1].found
    if len(worth) == 1 or (fast and all(candidate.modelled is not None for _, candidate in worth)):
        return best
    counted = []
    for k, candidate in worth:
        before = deadline.left
        counted.append((candidate.found.cost(options.objective), k, candidate.found))
        if 2 * (before - deadline.left) > deadline.left:
            break
    return min(counted, key=lambda item: item[:2])[2]
