"""What vertex elimination does to a graph, without the expressions: which edges are left, their kinds, what
each vertex costs.

A label matters to the cost by its level only: ±1, another constant, or variable. A product takes the higher
level of its factors, and a sum of two labels is at least a constant. Costs are pairs, so that orders which are
equal under the objective are told apart: (fma, multiplications) for the objective "fma", (multiplications, fma)
for the others.

Time: a dictionary operation or two for every product, on all graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.objective import Objective

__all__ = ["LARGE", "LEVELS", "Cost", "Elimination", "cost_of_order", "count_live", "is_large"]

#: Cost under the objective, then under the one that breaks ties.
Cost = tuple[int, int]

#: Level of a label by its kind: ±1, constant, variable.
LEVELS: Final = {Kind.ONE: 1, Kind.MINUS_ONE: 1, Kind.CONSTANT: 2, Kind.VARIABLE: 3}

#: Edges beyond which orders are priced, and written down, by `accumulus.search.large`.
LARGE: Final = 5_000

# Three counters in one integer: sizes of the neighbours by all edges, by those of level 2 and 3, by those of level 3.
_BITS: Final = 40
_MASK: Final = (1 << _BITS) - 1
_COUNTS: Final = (0, 1, 1 + (1 << _BITS), 1 + (1 << _BITS) + (1 << 2 * _BITS))


class Elimination:
    """A graph from which vertices are eliminated one by one.

    Attributes:
        successors, predecessors: level of each edge, by vertex and neighbour.
        intermediates: intermediate vertices on a path from a root to a terminal, dependencies before dependents.
        dead: the other intermediates; they cost nothing, whenever they are eliminated.
    """

    def __init__(self, graph: DifferentiationGraph, objective: Objective) -> None:
        count = len(graph.vertices)
        self.objective = objective
        self.sizes: list[int] = graph.sizes.tolist()
        self.successors: list[dict[int, int]] = [{} for _ in range(count)]
        self.predecessors: list[dict[int, int]] = [{} for _ in range(count)]
        self._above, self._below = [0] * count, [0] * count
        live = graph.live_edges
        ends = zip(graph.sources[live].tolist(), graph.targets[live].tolist(), graph.kinds[live].tolist(), strict=True)
        for j, i, kind in ends:
            self._connect(j, i, LEVELS[Kind(kind)])
        inner = set(graph.intermediates)
        on_a_path = {v for v in inner if self.successors[v]}
        self.intermediates = tuple(v for v in graph.topological_order if v in on_a_path)
        self.dead = tuple(sorted(inner - on_a_path))

    @classmethod
    def of_edges(
        cls,
        edges: Iterable[tuple[int, int, int]],
        sizes: Sequence[int],
        intermediates: Sequence[int],
        objective: Objective,
    ) -> Elimination:
        """Edges (source, target, level) between vertices that are numbered from 0; the intermediates in their order."""
        state = cls.__new__(cls)
        count = len(sizes)
        state.objective, state.sizes = objective, list(sizes)
        state.successors, state.predecessors = [{} for _ in range(count)], [{} for _ in range(count)]
        state._above, state._below = [0] * count, [0] * count
        for j, i, level in edges:
            state._connect(j, i, level)
        state.intermediates, state.dead = tuple(intermediates), ()
        return state

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
        """What it costs to eliminate k now."""
        above, below = self._above[k], self._below[k]
        variable = above >> 2 * _BITS
        constant = (above >> _BITS & _MASK) - variable
        fma = (above & _MASK) * (below & _MASK) * self.sizes[k]
        multiplications = variable * (below >> _BITS & _MASK) + constant * (below >> 2 * _BITS)
        multiplications *= self.sizes[k]
        return self.objective.ranked(fma, multiplications)

    def eliminate(self, k: int) -> None:
        """Replace the edges at k by edges from what depends on it to what it depends on."""
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


def cost_of_order(
    graph: DifferentiationGraph, order: Iterable[int], objective: Objective, limit: int | None = None
) -> Cost | None:
    """Cost of eliminating the vertices of `graph` in that order; None once it exceeds `limit`."""
    if is_large(graph):
        from accumulus.search.large import large_cost

        return large_cost(graph, order, objective, limit)
    state = Elimination(graph, objective)
    total = tie = 0
    for k in order:
        cost, second = state.cost(k)
        total += cost
        tie += second
        if limit is not None and total > limit:
            return None
        state.eliminate(k)
    return total, tie


def count_live(graph: DifferentiationGraph) -> int:
    """Number of intermediates on a path from a root to a terminal."""
    inner = np.ones(len(graph.vertices), bool)
    inner[[*graph.roots, *graph.terminals]] = False
    on_a_path = np.zeros_like(inner)
    on_a_path[graph.sources[graph.live_edges]] = True
    return int(np.count_nonzero(inner & on_a_path))


def is_large(graph: DifferentiationGraph) -> bool:
    """Whether the graph is eliminated by compiled code, with the same results."""
    return len(graph.sources) > LARGE
