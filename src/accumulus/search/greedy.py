"""Vertex orders without a search: forward, reverse, Markowitz.

Forward and reverse elimination are forward and reverse mode on sparse derivatives. Markowitz eliminates next
what is cheapest now (Griewank and Reese 1991, after Markowitz 1957 for sparse factorization); cheapest under
the objective, so that edges labelled ±1 count when that is what the plan is to be judged by. None of them is
optimal, or within a constant factor.

An order is counted by what it does, too: products that are free under the objective, and additions, are steps that
have to be written, verified and emitted. So orders of many more products than the better sweep are given up, however
little they cost. What forward and reverse elimination do is known without doing it, from how many roots and terminals
each vertex joins.

Time: Markowitz takes a few dictionary operations and a heap operation for each product and each edge that is
filled in.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.machine import prepare
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.elimination import UNLIMITED, Cost, Elimination, Limit, Priced, is_large, price
from accumulus.search.registry import Found, register

__all__ = ["Greedy", "cheapest_sweep", "forward_order", "greedy_orders", "markowitz_order", "reverse_order"]

#: Products up to which all greedy orders are compared, whatever the best of them makes.
CHEAP: Final = 10_000
#: Products for each edge after which an order is first given up where sweeps cannot be counted, and times those of the
#: better sweep, or of the last limit, after which any is.
FEW: Final = 4
MANY: Final = 8
#: Vertices times ends up to which it is counted which vertex reaches which end.
COUNTED: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy order and what it takes; as an upper bound, if there was no time to find out."""

    name: str
    order: tuple[int, ...]
    priced: Priced

    def rank(self, objective: Objective) -> tuple[int, int]:
        """What is least is best: of objectives that are counted on the tape, products that cost, and additions."""
        cost, tie = self.priced.cost
        return (cost + self.priced.additions, tie) if objective.on_tape else (cost, tie)


def forward_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the terminals to the roots."""
    inner = set(graph.intermediates)
    return tuple(v for v in graph.topological_order if v in inner)


def reverse_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the roots to the terminals."""
    return forward_order(graph)[::-1]


def markowitz_order(
    graph: DifferentiationGraph, objective: Objective, limit: Limit = UNLIMITED, deadline: Deadline = FOREVER
) -> tuple[Priced, tuple[int, ...]] | None:
    """All intermediates, each the cheapest of those left when it goes, and what they take; None once over the limit.

    Ties go to the one that the fewest others depend on, then to the one nearest to the roots.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    if is_large(graph):
        from accumulus.search.large import large_markowitz

        return large_markowitz(graph, objective, limit, deadline)
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
        deadline.check()
        total += known[0][0]
        tie += known[0][1]
        if total > limit.cost or state.products_with(k) > limit.products:
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
    return Priced((total, tie), state.products, state.additions), (*order, *state.dead)


def greedy_orders(graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> list[Greedy]:
    """The three orders, simplest first, as far as they are worth it and there is time.

    An order is given up once it makes `MANY` times the products of the better sweep; where sweeps cannot be counted, a
    limit rises until one of the three stays below. Of large graphs under objectives of eliminations, also once it costs
    more than what was found before. Costs of objectives that are counted on the tape are multiplications.
    """
    counted, exact = _sweep_counts(graph)
    orders = {"forward": forward_order(graph), "reverse": reverse_order(graph)}
    some_choice = orders["forward"] != orders["reverse"]
    large = is_large(graph)
    if large:
        with deadline.paused():
            prepare("search.elimination", "search.passes")  # side by side, where they have to be compiled
    least = min((priced.products for priced in counted.values()), default=FEW * len(graph.sources) // MANY)
    most = max(CHEAP, MANY * least)
    found: dict[str, Greedy] = {}

    def limit() -> Limit:
        """For what is tried next."""
        known = [greedy.priced for greedy in found.values()]
        if not large or not known:
            return Limit(products=most)
        if objective.on_tape:
            return Limit(products=min(most, 2 * min(priced.products for priced in known)))
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


def cheapest_sweep(graph: DifferentiationGraph) -> Greedy:
    """Forward or reverse elimination, whichever makes fewer steps, without doing either.

    Where that cannot be counted, from the side with fewer ends.
    """
    known, _ = _sweep_counts(graph)
    if known:
        name = min(known, key=lambda name: known[name].steps)
        priced = known[name]
    else:
        roots, terminals = len(graph.roots), len(graph.terminals)
        name = "forward" if terminals < roots else "reverse"
        products = len(graph.sources) * min(roots, terminals)
        priced = Priced((products, products), products, products)
    order = forward_order(graph) if name == "forward" else reverse_order(graph)
    return Greedy(name, order, priced)


def _sweep_counts(graph: DifferentiationGraph) -> tuple[dict[str, Priced], bool]:
    """What forward and reverse elimination take, and whether that is their cost, too, and not only a bound of it.

    Nothing is counted where vertices and ends are too many.

    When forward elimination comes to a vertex, the edges into it are still those of the graph, and those out of it lead
    to the terminals that it reaches. So products and additions are known. All products cost one, if all labels vary and
    all vertices are scalars.
    """
    count = len(graph.vertices)
    if count * max(len(graph.roots), len(graph.terminals)) > COUNTED:
        return {}, False
    live = graph.live_edges
    pairs = np.unique(graph.sources[live].astype(np.int64) * count + graph.targets[live])
    ends = np.zeros(count, bool)
    ends[[*graph.roots, *graph.terminals]] = True
    widest = int(graph.sizes.max(initial=1)) ** 3
    counts = {}
    for name, near, reached, far in (
        ("forward", pairs % count, index_domains(graph), graph.roots),
        ("reverse", pairs // count, index_ranges(graph), graph.terminals),
    ):
        degree = np.bincount(near, minlength=count)
        reach = np.fromiter((bits.bit_count() for bits in reached), np.int64, count)
        inner = ~ends & (degree > 0) & (reach > 0)
        products = int((degree * reach)[inner].sum())
        entries = int(reach[list(far)].sum())
        created = entries - len(pairs) + int((degree + reach)[inner].sum())
        counts[name] = Priced((widest * products, products), products, products - created)
    varies = not (graph.kinds[live] != Kind.VARIABLE).any()
    return counts, varies and widest == 1 and len(pairs) == int(live.sum())


@register("forward", seconds=lambda work: 2e-6 * work.forward)
def forward(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
    """Eliminate vertices from the terminals to the roots."""
    return Found(graph, "forward", forward_order(graph))


@register("reverse", seconds=lambda work: 2e-6 * work.reverse)
def reverse(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
    """Eliminate vertices from the roots to the terminals."""
    return Found(graph, "reverse", reverse_order(graph))


@register("markowitz", seconds=lambda work: 20e-6 * work.fewest)
def markowitz(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
    """Eliminate the cheapest vertex of those left, under the objective."""
    found = markowitz_order(graph, options.objective, UNLIMITED, deadline)
    assert found is not None
    return Found(graph, "markowitz", found[1])
