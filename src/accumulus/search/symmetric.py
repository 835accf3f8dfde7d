"""Orders of symmetric elimination: of graphs with a mirror, which those of gradients are.

Every value is eliminated together with its adjoint (`accumulus.elimination.symmetric`). Edge pushing takes them from
the last operation to the first. `symmetric` compares that with a greedy order, which takes the value of the fewest
products next, with orders that simulated annealing finds, and with orders of `vertex`, which may eliminate an adjoint
long after its value; the last not where the effort is "fast". Under objectives that are counted on the tape, the
cheapest program wins.

A graph without a mirror is one whose vertices have no partners: there edge pushing is reverse elimination, and
`symmetric` is `vertex`.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Final

from accumulus.annealing import Schedule, seed_of
from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.elimination.symmetric import SymmetricGraph, eliminate_pairs
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.pairs import LARGEST, PairsAnnealing
from accumulus.search.programs import Candidate, cheapest_program
from accumulus.search.registry import SearchResult, get, register
from accumulus.search.sweeps import reverse_order

__all__ = ["edge_pushing", "symmetric"]

#: Orders that are annealed, by effort, and the schedule of each.
_ORDERS: Final = {"fast": 1, "balanced": 3, "thorough": 12}
_SCHEDULE: Final = {
    "fast": Schedule(10, growth=1.0, stalls=0),
    "balanced": Schedule(30, growth=1.0, stalls=0),
    "thorough": Schedule(100, growth=1.5, stalls=2),
}
#: Orders of more than this, as a multiple of what the cheapest costs, are not counted on the tape.
_MORE: Final = 1.3
#: Part of the time for these; the rest is for orders of vertices.
_OWN: Final = 0.6
#: Seconds of one run on a machine of today, which are turned into a number of sweeps.
_RUN: Final = {"fast": 0.02, "balanced": 0.06, "thorough": math.inf}


@register("edge-pushing", seconds=lambda work: 4e-6 * work.reverse)
def edge_pushing(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Eliminate values from the roots to the terminals, each with its adjoint."""
    if graph.mirror is None:
        return SearchResult(graph, "edge-pushing", reverse_order(graph))
    return _eliminated(graph, "edge-pushing", SymmetricGraph(graph).inner[::-1])


@register("symmetric")
def symmetric(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Search for the best order of values, each eliminated with its adjoint."""
    if graph.mirror is None:
        return get("vertex").find(graph, options, deadline)
    candidates: list[SearchResult] = []
    interrupted = False
    try:
        for name, order in _orders(SymmetricGraph(graph), options, deadline.part(_OWN)):
            candidates.append(_eliminated(graph, name, order))
        if options.effort != "fast" and not (options.searches and deadline.passed):
            other = get("vertex").find(graph, options, deadline)
            candidates.append(other)
            interrupted = other.interrupted
    except KeyboardInterrupt:
        interrupted = True
        candidates = candidates or [edge_pushing(graph, options, deadline)]
    found = _cheapest(candidates, options, deadline)
    if callable(options.progress) and not interrupted:
        try:
            options.tell(deadline, "plan", found.cost(options.objective))
        except KeyboardInterrupt:
            interrupted = True
    return replace(found, interrupted=True) if interrupted else found


def _orders(pairs: SymmetricGraph, options: Options, deadline: Deadline) -> list[tuple[str, tuple[int, ...]]]:
    """Edge pushing, a greedy order, and annealed ones, as far as there is time: those that may be the best."""
    pushing = pairs.inner[::-1]
    if not 2 <= len(pairs.inner) <= LARGEST:
        return [("edge-pushing", pushing)]
    with deadline.paused():
        prepare("search.pairs")
    annealing = PairsAnnealing(pairs, options.objective)
    greedy = annealing.greedy()
    costs = {order: annealing.cost(order) for order in (greedy, pairs.inner, pushing)}
    start = min(costs, key=lambda order: costs[order])
    orders = _ORDERS[options.effort] if options.searches else 0
    iterations = None if options.iterations is None else -(-options.iterations // max(1, orders))
    for number in range(orders):
        if deadline.passed:
            break
        annealing.forget()
        sweeps = annealing.sweeps_in(min(deadline.seconds, _RUN[options.effort]))
        seed = seed_of(options.seed, number) if number else options.seed
        with suppress(OutOfTimeError):
            for _ in annealing.until_stalled(_SCHEDULE[options.effort], seed, sweeps, iterations, start, deadline):
                pass
        cost, order = annealing.best
        costs[order] = cost
    # one alone, where there is little time: each is to be eliminated, and its program counted
    limit = min(costs.values()) * (1.0 if options.effort == "fast" else _MORE)
    found = [order for order, cost in costs.items() if cost <= limit]
    names = {pushing: "edge-pushing"}
    return [(names.get(order, "symmetric"), order) for order in (found[-1:] if options.effort == "fast" else found)]


def _eliminated(graph: DifferentiationGraph, method: str, order: tuple[int, ...]) -> SearchResult:
    return SearchResult(graph, method, _accumulation=eliminate_pairs(graph, order))


def _cheapest(found: list[SearchResult], options: Options, deadline: Deadline) -> SearchResult:
    """The cheapest result under the objective; the first among equals."""
    if not options.objective.on_tape:
        return min(found, key=lambda result: result.cost(options.objective))
    candidates = [
        Candidate(result, (result.cost(Objective.MULTIPLICATIONS), result.cost(Objective.FMA))) for result in found
    ]
    return cheapest_program(candidates, options, deadline if options.searches else FOREVER)
