"""Vertex orders without a search: forward, reverse, Markowitz.

Forward and reverse elimination are forward and reverse mode on sparse derivatives. Markowitz eliminates next
what is cheapest now (Griewank and Reese 1991, after Markowitz 1957 for sparse factorization); cheapest under
the objective, so that edges labelled ±1 count when that is what the plan is to be judged by. None of them is
optimal, or within a constant factor.

Time: Markowitz takes a few dictionary operations and a heap operation for each product and each edge that is
filled in.
"""

from __future__ import annotations

import heapq
from typing import Final

from accumulus.accumulate.cost import Objective
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.elimination import Cost, Elimination, cost_of_order
from accumulus.search.options import Options
from accumulus.search.registry import Found, register

__all__ = ["forward_order", "greedy_orders", "markowitz_order", "reverse_order"]

#: Costs up to which all greedy orders are compared, whatever the best of them costs.
CHEAP: Final = 10_000


def forward_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the terminals to the roots."""
    inner = set(graph.intermediates)
    return tuple(v for v in graph.topological_order if v in inner)


def reverse_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the roots to the terminals."""
    return forward_order(graph)[::-1]


def markowitz_order(
    graph: DifferentiationGraph, objective: Objective, limit: int | None = None
) -> tuple[Cost, tuple[int, ...]] | None:
    """All intermediates, each the cheapest of those left when it goes, and what they cost; None once over `limit`.

    Ties go to the one that the fewest others depend on, then to the one nearest to the roots.
    """
    state = Elimination(graph, objective)
    place = {k: -position for position, k in enumerate(state.intermediates)}

    def key(k: int) -> tuple[Cost, int, int]:
        return state.cost(k), len(state.predecessors[k]), place[k]

    current = {k: key(k) for k in state.intermediates}
    heap = [(known, k) for k, known in current.items()]
    heapq.heapify(heap)
    order: list[int] = []
    total = tie = 0
    while heap:
        known, k = heapq.heappop(heap)
        if current.get(k) != known:
            continue  # has been pushed again with another key, or is gone
        total += known[0][0]
        tie += known[0][1]
        if limit is not None and total > limit:
            return None
        del current[k]
        order.append(k)
        neighbours = [v for v in (*state.predecessors[k], *state.successors[k]) if v in current]
        state.eliminate(k)
        for v in neighbours:
            new = key(v)
            if new != current[v]:
                current[v] = new
                heapq.heappush(heap, (new, v))
    return (total, tie), (*order, *state.dead)


def greedy_orders(graph: DifferentiationGraph, objective: Objective) -> list[tuple[str, Cost, tuple[int, ...]]]:
    """Name, cost and order of the three, simplest first; of those that cost no more than about four times the best.

    Forward or reverse elimination can cost more than there is time for. So all are tried up to a limit, which rises
    until one of them stays below; that takes no longer than a small multiple of the best one alone. Costs are under
    `objective`; those of "operations" are multiplications.
    """
    sweeps = (("forward", forward_order(graph)), ("reverse", reverse_order(graph)))
    limit = CHEAP
    found: list[tuple[str, Cost, tuple[int, ...]]] = []
    while not found:
        for name, order in sweeps:
            cost = cost_of_order(graph, order, objective, limit)
            if cost is not None:
                found.append((name, cost, order))
        greedy = markowitz_order(graph, objective, limit)
        if greedy is not None:
            found.append(("markowitz", *greedy))
        limit *= 4
    return found


@register(
    "forward",
    "eliminates from the inputs to the outputs, as forward mode does",
    seconds=lambda work: 2e-6 * work.forward,
)
def forward(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate vertices from the terminals to the roots."""
    return Found(graph, "forward", forward_order(graph))


@register(
    "reverse",
    "eliminates from the outputs to the inputs, as reverse mode does",
    seconds=lambda work: 2e-6 * work.reverse,
)
def reverse(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate vertices from the roots to the terminals."""
    return Found(graph, "reverse", reverse_order(graph))


@register(
    "markowitz",
    "always eliminates what is cheapest at the moment",
    seconds=lambda work: 20e-6 * work.fewest,
)
def markowitz(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate the cheapest vertex of those left, under the objective."""
    found = markowitz_order(graph, options.objective)
    assert found is not None
    return Found(graph, "markowitz", found[1])
