"""Vertex elimination of small graphs in Python, bit rows for kernels, and counts of products for graphs of any size.

**Elimination.** Annealing encodes an `Elimination` for its kernel, exact searches reduce it, and lower bounds are
computed on it. `accumulus.elimination.vertex` defines the levels and costs, and eliminates graphs of any size. Time:
one or two dictionary operations for every product.

**Sweeps.** Forward and reverse elimination are forward and reverse mode with sparse derivatives. The degree of a vertex
and the number of roots that reach it, or of terminals that it reaches, determine the number of products at the vertex.

**Workload.** At each vertex, forward elimination makes a product for every pair of an incoming edge and a terminal that
the vertex reaches. Reverse elimination makes a product for every pair of an outgoing edge and a root that reaches the
vertex. So both are counted without running them. The counts use no clock, so they are the same on every machine.

Time: a bit set operation for each edge. If the bit sets would be too large, every vertex is taken to reach all
terminals, and to be reached by all roots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.vertex import Cost, Priced, merged_levels
from accumulus.graph.degrees import levels, root_degrees, terminal_degrees
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.options import Objective

# Three counters in one integer: total size of the neighbours by all edges, by edges of level 2 or 3, and by edges of
# level 3.
_BITS: Final = 40
_MASK: Final = (1 << _BITS) - 1
_COUNTS: Final = (0, 1, 1 + (1 << _BITS), 1 + (1 << _BITS) + (1 << 2 * _BITS))


class Elimination:
    """State of a vertex elimination, as dictionaries of edges.

    Args:
        edges: (source, target, level), between vertices that are numbered from 0.
        sizes: sizes of the vertices.
        intermediates: intermediate vertices on a path of a selected entry, dependencies before dependents.
        objective: objective of the costs.
        deadline: when it passes, searches of the graph raise `OutOfTimeError`.
        dead: the other intermediates, which cost nothing at any position of an order.

    Attributes:
        successors, predecessors: level of each edge, by vertex and neighbour.
    """

    def __init__(
        self,
        edges: Iterable[Sequence[int]],
        sizes: Sequence[int],
        intermediates: Iterable[int],
        objective: Objective,
        deadline: Deadline = FOREVER,
        dead: Iterable[int] = (),
    ) -> None:
        count, self.deadline = len(sizes), deadline
        self.objective, self._fma_first = objective, objective.every_product
        self.sizes = list(sizes)
        self.successors: list[dict[int, int]] = [{} for _ in range(count)]
        self.predecessors: list[dict[int, int]] = [{} for _ in range(count)]
        self._above, self._below = [0] * count, [0] * count
        for j, i, level in edges:
            self._connect(j, i, level)
        self.intermediates, self.dead = tuple(intermediates), tuple(dead)

    @classmethod
    def of(cls, graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> Elimination:
        """Return the state before any elimination, without edges that are on no path of a selected entry."""
        live, alive = graph.live_edges, graph.live_intermediates.tolist()
        levels, units = merged_levels(graph)
        columns = np.stack([graph.sources, graph.targets, levels])
        edges = (*columns[:, live & ~units].T.tolist(), *np.unique(columns[:, live & units], axis=1).T.tolist())
        dead = sorted(set(graph.intermediates).difference(alive))
        return cls(edges, graph.sizes.tolist(), alive, objective, deadline, dead)

    def copy(self) -> Elimination:
        """Return a copy of the state."""
        made = copy(self)
        made.successors, made.predecessors = (
            [row.copy() for row in rows] for rows in (self.successors, self.predecessors)
        )
        made._above, made._below = self._above.copy(), self._below.copy()
        return made

    def _connect(self, j: int, i: int, level: int) -> None:
        row = self.successors[j]
        old = row.get(i, 0)
        if old:
            level = max(old, level, 2)
            if level == old:
                return
        row[i] = self.predecessors[i][j] = level
        more = _COUNTS[level] - _COUNTS[old]
        self._below[j] += self.sizes[i] * more
        self._above[i] += self.sizes[j] * more

    def cost(self, k: int) -> Cost:
        """Return the cost of eliminating k in the present state."""
        above, below = self._above[k], self._below[k]
        variable = above >> 2 * _BITS
        constant = (above >> _BITS & _MASK) - variable
        fma = (above & _MASK) * (below & _MASK) * self.sizes[k]
        multiplications = variable * (below >> _BITS & _MASK) + constant * (below >> 2 * _BITS)
        multiplications *= self.sizes[k]
        # `Objective.ranked`, inlined for speed
        return (fma, multiplications) if self._fma_first else (multiplications, fma)

    def eliminate(self, k: int) -> None:
        """Replace the edges at k by edges from its predecessors to its successors."""
        above, below = self.predecessors[k], self.successors[k]
        size = self.sizes[k]
        for j, level in above.items():
            del self.successors[j][k]
            self._below[j] -= size * _COUNTS[level]
        for i, level in below.items():
            del self.predecessors[i][k]
            self._above[i] -= size * _COUNTS[level]
        for j, a in above.items():
            for i, b in below.items():
                self._connect(j, i, a if a > b else b)
        self.predecessors[k], self.successors[k] = {}, {}


# Bitset rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BitRows:
    """Edges of a graph as bit sets.

    Attributes:
        number: bit of each vertex that has an edge; the intermediates come first, in their own order.
        rows: six bit sets of each intermediate, (intermediates, 6, words) with words of 64 bits: its dependents by
            edges of any level, of level 2 or 3, and of level 3; then its dependencies by the same levels.
        sizes: sizes of the vertices, by bit.
    """

    number: dict[int, int]
    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, state: Elimination) -> BitRows:
        """Return the rows of a graph in its present state."""
        inner = len(state.intermediates)
        number = {v: k for k, v in enumerate(state.intermediates)}
        edges = [
            (number.setdefault(j, len(number)), number.setdefault(i, len(number)), level)
            for j, row in enumerate(state.successors)
            for i, level in row.items()
        ]
        words = max(2, -(-len(number) // 64))
        rows = np.zeros((inner, 6, words), np.int64)
        j, i, level = np.array(edges, np.int64).reshape(-1, 3).T
        for side, (vertex, other) in enumerate(((i, j), (j, i))):
            for threshold in (1, 2, 3):
                has = (level >= threshold) & (vertex < inner)
                sets = rows[:, 3 * side + threshold - 1]
                np.bitwise_or.at(sets, (vertex[has], other[has] // 64), np.left_shift(1, other[has] % 64))
        sizes = np.ones(64 * words, np.int64)
        for v, k in number.items():
            sizes[k] = state.sizes[v]
        return cls(number, rows, sizes)


#: Largest product of vertices and roots (or terminals) for which reachability is computed. Counts for larger graphs
#: take time and memory in proportion to it; beyond it, the choice between forward and reverse elimination is a guess.
COUNTED: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy order and its counts, which are an upper bound if the deadline left no time to count exactly."""

    name: str
    order: tuple[int, ...]
    priced: Priced


def forward_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """Return all intermediates, from the terminals to the roots."""
    inner = set(graph.intermediates)
    return tuple(v for v in graph.topological_order if v in inner)


def reverse_order(graph: DifferentiationGraph) -> tuple[int, ...]:
    """Return all intermediates, from the roots to the terminals."""
    return forward_order(graph)[::-1]


def cheapest_sweep(graph: DifferentiationGraph) -> Greedy:
    """Return forward or reverse elimination, whichever makes fewer steps, without running either.

    If the graph is too large for counts of the steps, return forward elimination if the graph has fewer terminals than
    roots, else reverse elimination.
    """
    counts, _ = sweep_counts(graph)
    if counts:
        name = min(counts, key=lambda name: counts[name].steps)
        priced = counts[name]
    else:
        roots, terminals = len(graph.roots), len(graph.terminals)
        name = "forward" if terminals < roots else "reverse"
        products = len(graph.sources) * min(roots, terminals)
        priced = Priced((products, products), products, products)
    order = forward_order(graph) if name == "forward" else reverse_order(graph)
    return Greedy(name, order, priced)


def sweep_counts(graph: DifferentiationGraph) -> tuple[dict[str, Priced], bool]:
    """Return counts of forward and reverse elimination by name, and True if they are exact, False for upper bounds.

    There are no counts if the number of vertices times the number of roots or terminals exceeds `COUNTED`.

    When forward elimination reaches a vertex, its incoming edges are unchanged, and its outgoing edges lead to the
    terminals that it reaches. This determines the products and additions. If all labels are variables, all vertices are
    scalars and there are no parallel edges, each product costs one. If entries are selected, the counts include the
    products for all other entries.
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
        # an upper bound if entries are selected, since products for all other entries count, too
        counts[name] = Priced((widest * products, products), products, max(0, products - created))
    varies = not (graph.kinds[live] != Kind.VARIABLE).any() and graph.selected is None
    return counts, varies and widest == 1 and len(pairs) == int(live.sum())


# Workload ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Workload:
    """Counts of a graph, from which the time of methods is estimated.

    Attributes:
        edges: number of edges.
        pairs: number of roots times number of terminals.
        levels: number of edges of the longest path from a root.
        segments: number of edges after segmentation of the cross-level edges.
        forward, reverse: number of products of forward and of reverse elimination; upper bounds for large graphs.
    """

    edges: int
    pairs: int
    levels: int
    segments: int
    forward: int
    reverse: int

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> Workload:
        """Return the counts of a graph."""
        count, roots, terminals = len(graph.vertices), len(graph.roots), len(graph.terminals)
        if count * max(roots, terminals) <= COUNTED:
            below, above = terminal_degrees(graph), root_degrees(graph)
        else:
            below, above = np.full(count, terminals), np.full(count, roots)
        inner = list(graph.intermediates)
        into, out_of = (np.bincount(ends, minlength=count) for ends in (graph.targets, graph.sources))
        level = levels(graph)
        return cls(
            edges=len(graph.sources),
            pairs=roots * terminals,
            levels=max(level, default=0),
            segments=sum(level[i] - level[j] for j, i in graph.ends if level[j] >= 0),
            forward=int((into * below)[inner].sum()),
            reverse=int((out_of * above)[inner].sum()),
        )

    @property
    def fewest(self) -> int:
        """Return the number of products of forward or reverse elimination, whichever makes fewer."""
        return min(self.forward, self.reverse)
