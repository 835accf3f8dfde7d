"""Vertex orders without a search: forward, reverse, Markowitz.

Forward and reverse elimination are forward and reverse mode on sparse derivatives. Markowitz eliminates next what is cheapest
now (Griewank and Reese 1991, after Markowitz 1957 for sparse factorization); cheapest under the objective, so that edges
labelled ±1 count when that is what the plan is to be judged by. None of them is optimal, or within a constant factor.

Time: Markowitz takes a few dictionary operations and a heap operation for each product and each edge that is filled in.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from accumulus.accumulate.cost import Objective
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.elimination import Cost, Elimination, cost_of_order
from accumulus.search.options import Options
from accumulus.search.registry import Found, register

__all__ = ["forward_order", "greedy_orders", "markowitz_order", "reverse_order"]


def forward_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the terminals to the roots."""
    inner = set(graph.intermediates)
    return tuple(v for v in graph.topological_order if v in inner)


def reverse_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the roots to the terminals."""
    return forward_order(graph)[::-1]


def markowitz_order(graph: DifferentiationGraph, objective: Objective) -> tuple[int, ...]:
    """All intermediates, each the cheapest of those left when it goes.

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
    while heap:
        known, k = heapq.heappop(heap)
        if current.get(k) != known:
            continue  # has been pushed again with another key, or is gone
        del current[k]
        order.append(k)
        neighbours = [v for v in (*state.predecessors[k], *state.successors[k]) if v in current]
        state.eliminate(k)
        for v in neighbours:
            new = key(v)
            if new != current[v]:
                current[v] = new
                heapq.heappush(heap, (new, v))
    return (*order, *state.dead)


def greedy_orders(graph: DifferentiationGraph, objective: Objective) -> Iterator[tuple[str, Cost, tuple[int, ...]]]:
    """The three orders with their costs, by method; forward and reverse only as far as they can be the best.

    Costs are under `objective`, with "operations" taken as multiplications.
    """
    markowitz = markowitz_order(graph, objective)
    cost = cost_of_order(graph, markowitz, objective)
    assert cost is not None
    yield "markowitz", cost, markowitz
    for name, order in (("forward", forward_order(graph)), ("reverse", reverse_order(graph))):
        swept = cost_of_order(graph, order, objective, limit=cost[0])
        if swept is not None:
            yield name, swept, order


@register("forward", "forward elimination: from the inputs to the outputs, as forward mode does")
def forward(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate vertices from the terminals to the roots."""
    return Found(graph, "forward", forward_order(graph))


@register("reverse", "reverse elimination: from the outputs to the inputs, as reverse mode does")
def reverse(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate vertices from the roots to the terminals."""
    return Found(graph, "reverse", reverse_order(graph))


@register("markowitz", "always eliminates what is cheapest at the moment")
def markowitz(graph: DifferentiationGraph, options: Options) -> Found:
    """Eliminate the cheapest vertex of those left, under the objective."""
    return Found(graph, "markowitz", markowitz_order(graph, options.objective))
