"""The best vertex elimination order that simulated annealing finds.

Starts from the best greedy order and anneals its products until that stalls. Under objectives that are counted on the
tape, several orders are annealed briefly, from other seeds, and `accumulus.search.programs` chooses among them and the
greedy ones: orders of equally few products make programs of different lengths. Always hands back the best order so far:
when the time is over, on Ctrl-C, and where there is nothing to search. In graphs of more than
`accumulus.search.orders.LARGEST` intermediates, windows of the best greedy order are annealed
(`accumulus.search.windows`), unless the effort is fast.

Not proven optimal. On all graphs of up to seven intermediates that the tests draw it is; on the public graphs of
about 100 vertices nearly every seed reaches the best values known at the default effort.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import Final

from accumulus.annealing import Schedule, seed_of
from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.elimination import Elimination, count_live
from accumulus.search.greedy import greedy_orders
from accumulus.search.orders import DEAREST, LARGEST, OrderAnnealing
from accumulus.search.programs import Candidate, cheapest_program
from accumulus.search.registry import SearchResult, register
from accumulus.search.windows import Windows

__all__ = ["vertex"]

#: Runs of annealing by effort.
_ANNEALING: Final = {
    "fast": Schedule(20, growth=1.0, stalls=0),
    "balanced": Schedule(25, growth=1.3, stalls=2),
    "thorough": Schedule(100, growth=1.5, stalls=5),
}
#: Under objectives that are counted on the tape: number of orders that are annealed, and their schedule; longer ones
#: gain nothing.
_ORDERS: Final = {"fast": 1, "balanced": 4, "thorough": 16}
_BRIEF: Final = Schedule(6, growth=1.0, stalls=0, gives_up=True)
#: Seconds of one run on a machine of today, so that the first result takes a fraction of a second on graphs of some
#: hundreds of vertices, too. They are turned into a number of sweeps, so that results do not depend on the clock.
_RUN: Final = {"fast": 0.02, "balanced": 0.04, "thorough": math.inf}


@register("vertex")
def vertex(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Search for the best vertex elimination order."""
    # with a time limit of 0 the best greedy plan is found without a limit
    until = deadline if options.searches else FOREVER
    candidates = [
        Candidate(SearchResult(graph, greedy.name, greedy.order), greedy.priced.cost, greedy.priced.additions)
        for greedy in greedy_orders(graph, options.objective, until)
    ]
    interrupted = False
    if _searchable(graph, candidates, options) and not until.passed:
        try:
            with deadline.paused():
                prepare("search.order")
            with closing(_search(graph, options, deadline, candidates)) as search:
                for cost in search:
                    options.tell(deadline, "plan", cost)
                    if deadline.passed:
                        break
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            interrupted = True
    if options.objective.on_tape:
        found = cheapest_program(candidates, options, until)
        if callable(options.progress) and not interrupted:
            try:
                options.tell(deadline, "plan", found.cost(options.objective))
            except KeyboardInterrupt:
                interrupted = True
    else:
        found = _cheapest(candidates).found
    return replace(found, interrupted=True) if interrupted else found


def _searchable(graph: DifferentiationGraph, candidates: list[Candidate], options: Options) -> bool:
    if not options.searches:
        return False
    least, _ = _cheapest(candidates).cost
    live = count_live(graph)
    if live > LARGEST:
        return options.effort != "fast" and least > 0
    return live >= 2 and 0 < least < DEAREST


def _search(
    graph: DifferentiationGraph, options: Options, deadline: Deadline, candidates: list[Candidate]
) -> Generator[int]:
    """Yield the best cost from time to time; on exit, by an exception too, add the best order to the candidates."""
    start = _cheapest(candidates)
    assert start.found.order is not None
    if count_live(graph) > LARGEST:
        windows = Windows(graph, options.objective, start.found.order, start.cost, deadline)
        try:
            yield from windows.run(options.effort, options.seed, options.iterations)
        finally:
            if windows.cost < start.cost:
                candidates.append(Candidate(SearchResult(graph, "vertex", windows.order), windows.cost))
        return
    on_tape = options.objective.on_tape
    # progress tells the objective's cost, which is counted once: annealing lowers products, not that
    told = start.found.cost(options.objective) if on_tape and callable(options.progress) else None
    orders, schedule = (_ORDERS[options.effort], _BRIEF) if on_tape else (1, _ANNEALING[options.effort])
    iterations = None if options.iterations is None else -(-options.iterations // orders)
    state = Elimination(graph, options.objective)
    for number in range(orders):
        annealing = OrderAnnealing(state, options.objective, start.found.order)
        sweeps = annealing.sweeps_in(min(deadline.seconds, _RUN[options.effort]))
        seed = seed_of(options.seed, number) if number else options.seed
        try:
            for best in annealing.until_stalled(schedule, seed, sweeps, iterations, deadline=deadline):
                yield best if told is None else told
        finally:
            cost, order = annealing.best
            if cost < start.cost:
                candidates.append(Candidate(SearchResult(graph, "vertex", (*order, *state.dead)), cost))


def _cheapest(candidates: list[Candidate]) -> Candidate:
    """The cheapest candidate; the simplest among equals."""
    return min(candidates, key=lambda candidate: candidate.cost)
