"""Counts of a graph before anything is run: forward and reverse elimination, and what deterministic methods will take.

**Sweeps.** Forward and reverse elimination are forward and reverse mode on sparse derivatives. The products at a vertex
follow from its degree and from how many roots reach it, or how many terminals it reaches.

**Workload.** Forward elimination makes, at each vertex, a product for every pair of an incoming edge and a terminal
that the vertex reaches; reverse elimination one for every pair of an outgoing edge and a root that reaches it. So both
are counted before they are run. Estimates never depend on a clock: the same graph is judged the same way everywhere.

Time: a bit set operation for each edge. Where the bit sets would be large, all terminals (roots) are counted instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.elimination.vertex import Priced
from accumulus.graph.degrees import root_degrees, terminal_degrees
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.levels import levels
from accumulus.objective import Objective

__all__ = ["Greedy", "Workload", "cheapest_sweep", "forward_order", "reverse_order", "sweep_counts"]

#: Vertices times roots (or terminals), at most, for which reachability is computed.
COUNTED: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy order and its cost; an upper bound, if there was no time to count it."""

    name: str
    order: tuple[int, ...]
    priced: Priced

    def rank(self, objective: Objective) -> tuple[int, int]:
        """Sort key, the lowest is the best; for objectives counted on the tape, costly products and additions."""
        cost, tie = self.priced.cost
        return (cost + self.priced.additions, tie) if objective.on_tape else (cost, tie)


def forward_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the terminals to the roots."""
    inner = set(graph.intermediates)
    return tuple(v for v in graph.topological_order if v in inner)


def reverse_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """All intermediates, from the roots to the terminals."""
    return forward_order(graph)[::-1]


def cheapest_sweep(graph: DifferentiationGraph) -> Greedy:
    """Forward or reverse elimination, whichever makes fewer steps, without running either.

    Where the steps cannot be counted, the one that starts from fewer roots or terminals.
    """
    known, _ = sweep_counts(graph)
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


def sweep_counts(graph: DifferentiationGraph) -> tuple[dict[str, Priced], bool]:
    """Counts of forward and of reverse elimination, and whether these are exact costs, not upper bounds.

    Empty where vertices times ends exceed `COUNTED`.

    When forward elimination comes to a vertex, the edges into it are still those of the graph, and those out of it lead
    to the terminals that it reaches. So products and additions are known. All products cost one, if all labels vary and
    all vertices are scalars. Where not all entries are wanted these are upper bounds of the products.
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
    for name, near, reach, far in (
        ("forward", pairs % count, terminal_degrees(graph), graph.roots),
        ("reverse", pairs // count, root_degrees(graph), graph.terminals),
    ):
        degree = np.bincount(near, minlength=count)
        inner = ~ends & (degree > 0) & (reach > 0)
        products = int((degree * reach)[inner].sum())
        entries = int(reach[list(far)].sum())
        created = entries - len(pairs) + int((degree + reach)[inner].sum())
        # where not all entries are wanted, what is created for others is counted with those that are
        counts[name] = Priced((widest * products, products), products, max(0, products - created))
    varies = not (graph.kinds[live] != Kind.VARIABLE).any() and graph.wanted is None
    return counts, varies and widest == 1 and len(pairs) == int(live.sum())


# Workload ------------------------------------------------------------------------------------------------------------


#: Vertices times roots (or terminals), at most, for which reachability is computed.
_COUNTED: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Counts of a graph.

    Attributes:
        edges: of the graph.
        pairs: roots times terminals.
        levels: edges of the longest path from a root.
        segments: edges once all that cross levels are segmented.
        forward, reverse: products of forward and of reverse elimination; bounds where the graph is large.
    """

    edges: int
    pairs: int
    levels: int
    segments: int
    forward: int
    reverse: int

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> Workload:
        """Count a graph."""
        count, roots, terminals = len(graph.vertices), len(graph.roots), len(graph.terminals)
        if count * max(roots, terminals) <= _COUNTED:
            below, above = terminal_degrees(graph), root_degrees(graph)
        else:
            below, above = np.full(count, terminals), np.full(count, roots)
        inner = list(graph.intermediates)
        into, out_of = (np.bincount(ends, minlength=count) for ends in (graph.targets, graph.sources))
        level = levels(graph)
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        return cls(
            edges=len(graph.sources),
            pairs=roots * terminals,
            levels=max(level, default=0),
            segments=sum(level[i] - level[j] for j, i in ends if level[j] >= 0),
            forward=int((into * below)[inner].sum()),
            reverse=int((out_of * above)[inner].sum()),
        )

    @property
    def fewest(self) -> int:
        """Products of forward or of reverse elimination, whichever makes fewer."""
        return min(self.forward, self.reverse)
