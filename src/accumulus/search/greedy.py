"""Vertex orders without a search: forward, reverse, Markowitz.

Forward and reverse elimination are forward and reverse mode on sparse derivatives. Markowitz always eliminates the
vertex that is cheapest now under the objective (Griewank and Reese 1991, after Markowitz 1957 for sparse
factorization). None of them is optimal, or within a constant factor.

Products that are free under the objective, and additions, still have to be recorded, verified and emitted. So orders of
many more products than the better sweep are given up, whatever their cost. The counts of forward and reverse
elimination are known without running them (`accumulus.search.sweeps`).
"""

from __future__ import annotations

from typing import Final

from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.elimination.vertex import UNLIMITED, Limit, Priced, markowitz_order, price
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.registry import SearchResult, register
from accumulus.search.sweeps import Greedy, cheapest_sweep, forward_order, reverse_order, sweep_counts

__all__ = ["greedy_orders"]

#: Products up to which all greedy orders are compared, however few the best of them makes.
CHEAP: Final = 10_000
#: An order is given up after `MANY` times the products of the better sweep. Where sweeps cannot be counted, the first
#: limit is `FEW` products for each edge, and each further limit `MANY` times the last.
FEW: Final = 4
MANY: Final = 8


def greedy_orders(graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> list[Greedy]:
    """The three orders, simplest first, without those that were given up or not finished before the deadline.

    An order is given up once it makes `MANY` times the products of the better sweep; where sweeps cannot be counted, a
    limit rises until one of the three stays below. Under objectives of eliminations, also once it costs more than an
    order before. Under objectives that are counted on the tape, costs are multiplications.
    """
    counted, exact = sweep_counts(graph)
    orders = {"forward": forward_order(graph), "reverse": reverse_order(graph)}
    some_choice = orders["forward"] != orders["reverse"]
    with deadline.paused():
        prepare("elimination.vertex", "elimination.labels")  # side by side, where they have to be compiled
    least = min((priced.products for priced in counted.values()), default=FEW * len(graph.sources) // MANY)
    most = max(CHEAP, MANY * least)
    found: dict[str, Greedy] = {}

    def limit() -> Limit:
        """The limit of the next order."""
        known = [greedy.priced for greedy in found.values()]
        if not known:
            return Limit(products=most)
        if objective.on_tape:
            return Limit(products=min(most, max(CHEAP, 2 * min(priced.products for priced in known))))
        return Limit(min(priced.cost[0] for priced in known), most)

    def priced_sweep(name: str) -> Priced | None:
        if not exact:
            return price(graph, orders[name], objective, limit(), deadline)
        known, within = counted[name], limit()
        return known if known.cost[0] <= within.cost and known.products <= within.products else None

    try:
        while not found:
            for name in sorted(orders, key=lambda name: counted[name].products if counted else 0):
                priced = priced_sweep(name)
                if priced is not None:
                    found[name] = Greedy(name, orders[name], priced)
            # of one vertex there is one order
            markowitz = markowitz_order(graph, objective, limit(), deadline) if some_choice else None
            if markowitz is not None:
                found["markowitz"] = Greedy("markowitz", markowitz[1], markowitz[0])
            most *= MANY
    except OutOfTimeError:
        if not found:
            found["sweep"] = cheapest_sweep(graph)
    return [found[name] for name in ("forward", "reverse", "markowitz", "sweep") if name in found]


@register("forward", seconds=lambda work: 2e-6 * work.forward)
def forward(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Eliminate vertices from the terminals to the roots."""
    return SearchResult(graph, "forward", forward_order(graph))


@register("reverse", seconds=lambda work: 2e-6 * work.reverse)
def reverse(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Eliminate vertices from the roots to the terminals."""
    return SearchResult(graph, "reverse", reverse_order(graph))


@register("markowitz", seconds=lambda work: 20e-6 * work.fewest)
def markowitz(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Eliminate the cheapest vertex of those left, under the objective."""
    found = markowitz_order(graph, options.objective, UNLIMITED, deadline)
    assert found is not None
    return SearchResult(graph, "markowitz", found[1])
