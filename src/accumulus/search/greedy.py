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
from collections.abc import Sequence
from typing import Final

import numpy as np

from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.machine import prepare
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.elimination import Cost, Elimination, cost_of_order, is_large
from accumulus.search.registry import Found, register

__all__ = ["forward_order", "greedy_orders", "markowitz_order", "reverse_order"]

#: Costs up to which all greedy orders are compared, whatever the best of them costs.
CHEAP: Final = 10_000
#: Products for each edge of a large graph after which a sweep is first given up, and how many times as many Markowitz,
#: and the next round, may make.
FEW: Final = 4
MANY: Final = 8
#: Vertices times ends up to which it is counted which vertex reaches which end.
COUNTED: Final = 50_000_000


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
    if is_large(graph):
        from accumulus.search.large import large_markowitz

        return large_markowitz(graph, objective, limit)
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

    Of large graphs only those that are the cheapest, or were when they were tried.

    Forward or reverse elimination can cost more than there is time for. So all are tried up to a limit, which rises
    until one of them stays below; that takes no longer than a small multiple of the best one alone. Costs are under
    `objective`; those of "operations" are multiplications.
    """
    sweeps = (("forward", forward_order(graph)), ("reverse", reverse_order(graph)))
    if is_large(graph):
        return _cheapest_orders(graph, objective, sweeps)
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


def _cheapest_orders(
    graph: DifferentiationGraph, objective: Objective, sweeps: Sequence[tuple[str, tuple[int, ...]]]
) -> list[tuple[str, Cost, tuple[int, ...]]]:
    """Of the three orders, the cheapest, and those that cost no more than what had been found before them.

    A sweep that makes many products is given up soon, and tried again once Markowitz says what it has to stay below;
    unless its products can be counted without doing it. Where Markowitz fills the graph in, it is given up at the cost
    of a sweep.
    """
    prepare("search.elimination", "search.passes")  # side by side, where they have to be compiled
    known = _sweep_costs(graph)
    limit = max(FEW * len(graph.sources), min(known.values(), default=0))
    found: dict[str, tuple[Cost, tuple[int, ...]]] = {}

    def least(otherwise: int) -> int:
        return min((cost[0] for cost, _ in found.values()), default=otherwise)

    def price(name: str, order: tuple[int, ...]) -> Cost | None:
        if name not in known:
            return cost_of_order(graph, order, objective, least(limit))
        return (known[name], known[name]) if known[name] <= least(limit) else None

    while not found:
        for name, order in sweeps:
            cost = price(name, order)
            if cost is not None:
                found[name] = cost, order
        greedy = markowitz_order(graph, objective, least(MANY * limit))
        if greedy is not None:
            found["markowitz"] = greedy
        given_up, limit = limit, MANY * limit
    for name, order in sweeps:
        if name not in found and least(limit) > given_up:
            cost = price(name, order)
            if cost is not None:
                found[name] = cost, order
    return [(name, *found[name]) for name in ("forward", "reverse", "markowitz") if name in found]


def _sweep_costs(graph: DifferentiationGraph) -> dict[str, int]:
    """Costs of forward and reverse elimination where they can be counted: scalars, all labels vary, few ends.

    When forward elimination comes to a vertex, the edges into it are still those of the graph, and those out of it lead
    to the terminals that it reaches.
    """
    live = graph.live_edges
    ends = graph.sources[live].astype(np.int64) * len(graph.vertices) + graph.targets[live]
    many = len(graph.vertices) * max(len(graph.roots), len(graph.terminals))
    if (
        many > COUNTED
        or (graph.kinds[live] != Kind.VARIABLE).any()
        or (graph.sizes != 1).any()
        or len(np.unique(ends)) < len(ends)
    ):
        return {}
    inner = np.ones(len(graph.vertices), bool)
    inner[[*graph.roots, *graph.terminals]] = False
    costs = {}
    for name, near, reached in (
        ("forward", graph.targets, index_domains(graph)),
        ("reverse", graph.sources, index_ranges(graph)),
    ):
        degrees = np.bincount(near[live], minlength=len(graph.vertices))
        reach = np.fromiter((bits.bit_count() for bits in reached), np.int64, len(reached))
        costs[name] = int((degrees * reach)[inner].sum())
    return costs


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
