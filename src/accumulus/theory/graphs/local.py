"""Local Jacobians: the derivatives between any two sets of vertices, in the notes J⟨S₁|S₂⟩.

Entry (j, i) is the sum over paths from j ∈ S₁ to i ∈ S₂ of the products of their labels. Where every such path is
one edge, as between neighbouring levels of a segmented graph or in J⟨v|v^#⟩, the entries are labels of the graph.
Otherwise the vertices between the sets are eliminated, those with the fewest faces first (Markowitz), and the entries
are references to products and sums, recorded in the form of an accumulation: references 0 … edges−1 are the labels
of the edges, reference edges+k is the result of step k. Unit edges cost no product.

The notes speak of sets none of whose members depends on another. Where members do depend on each other there are two
meanings. "direct", the default, holds every member fixed: paths through other members of S₁ or S₂ do not count,
as in J⟨v|v^#⟩ when one successor depends on another. "all" counts every path, as in Bauer's formula. For sets
without such dependences the two agree, and J⟨S₁|S₂⟩ × J⟨S₂|S₃⟩ = J⟨S₁|S₃⟩ if every path from S₁ to S₃ meets S₂.

Time: linear where nothing lies between the sets; otherwise that of the elimination, O(fill · log vertices).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from accumulus.errors import unknown_name
from accumulus.graph.graph import UNIT, DifferentiationGraph, Kind, vertex_numbers
from accumulus.theory.graphs.traversal import Classes, reached

__all__ = ["LocalJacobian", "local_jacobian"]

Sides = tuple[tuple[int, ...], tuple[int, ...]]
_ROW: Final = 0
_COLUMN: Final = 1


@dataclass(frozen=True, slots=True)
class LocalJacobian:
    """J⟨rows|columns⟩ of a graph as a sparse matrix of references."""

    graph: DifferentiationGraph
    #: The sets, as vertices by number, ascending.
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    #: Steps (is a product, left, right) that form what is not a label of the graph; the left factor is nearer to
    #: the root.
    steps: tuple[tuple[bool, int, int], ...]
    #: Reference by (position in rows, position in columns) of every structural nonzero; `UNIT` (−1) is the label 1
    #: between a vertex and itself, where the sets share it.
    entries: Mapping[tuple[int, int], int]

    @property
    def components(self) -> tuple[Sides, ...]:
        """The undivided parts: (rows, columns) by position, of each connected component of the bipartite graph.

        They can be multiplied independently of each other. In the notes an undivided bipartite graph is one in which
        every vertex is joined to every other if edges may be walked both ways. A row or column without entries is a
        part by itself. In the order of their first rows, then columns; found in near-linear time.
        """
        places = len(self.rows) + len(self.columns)
        joined = Classes(places)
        for row, column in self.entries:
            joined.merge(row, len(self.rows) + column)
        parts: dict[int, tuple[list[int], list[int]]] = {}
        for v in range(places):
            part = parts.setdefault(joined.find(v), ([], []))
            if v < len(self.rows):
                part[_ROW].append(v)
            else:
                part[_COLUMN].append(v - len(self.rows))
        return tuple((tuple(part[_ROW]), tuple(part[_COLUMN])) for part in parts.values())

    @property
    def is_undivided(self) -> bool:
        """Whether all rows and columns are one connected part."""
        return len(self.components) <= 1


def local_jacobian(
    graph: DifferentiationGraph,
    rows: int | Iterable[int],
    columns: int | Iterable[int],
    *,
    paths: Literal["direct", "all"] = "direct",
) -> LocalJacobian:
    """The Jacobian of the vertices in `rows` with respect to those in `columns`; in the notes J⟨S₁|S₂⟩.

    Args:
        rows, columns: a vertex by number or several.
        paths: "direct" holds the members of both sets fixed, "all" counts paths through them, too.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
        UnknownNameError: for other paths.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> local_jacobian(graph, [1, 2], 3).entries
    {(0, 0): 2, (1, 0): 3}
    >>> local = local_jacobian(graph, 0, 3)
    >>> local.steps, local.entries
    (((True, 0, 2), (True, 1, 3), (False, 5, 6)), {(0, 0): 7})
    """
    if paths not in ("direct", "all"):
        raise unknown_name("paths", paths, ("direct", "all"))
    starts, ends = vertex_numbers(graph, rows), vertex_numbers(graph, columns)
    between = _Between(graph, starts, ends, through=paths == "all")
    between.eliminate()
    found = {
        (row, column): between.below[start][end]
        for row, start in enumerate(between.starts)
        for column, end in enumerate(between.ends)
        if end in between.below[start]
    }
    return LocalJacobian(graph, starts, ends, tuple(between.steps), found)


class _Between:
    """The part of a graph on the paths from rows to columns, while what lies between is eliminated.

    Every row has a place of its own that nothing is above, every column one that nothing is below: a row or column
    that paths go through, and one that is both, stands at two places joined by a unit edge.
    """

    def __init__(
        self, graph: DifferentiationGraph, rows: tuple[int, ...], columns: tuple[int, ...], *, through: bool
    ) -> None:
        self.edges = len(graph.sources)
        self.units = [kind == Kind.ONE for kind in graph.kinds.tolist()]
        self.steps: list[tuple[bool, int, int]] = []
        count = len(graph.vertices)
        self.starts = [count + k for k in range(len(rows))]
        self.ends = [count + len(rows) + k for k in range(len(columns))]
        #: reference by target, for each place
        self.below: dict[int, dict[int, int]] = {place: {} for place in (*self.starts, *self.ends)}
        self.above: dict[int, set[int]] = {place: set() for place in self.below}
        start_of = dict(zip(rows, self.starts, strict=True))
        end_of = dict(zip(columns, self.ends, strict=True))
        sources: list[int] = graph.sources.tolist()
        targets: list[int] = graph.targets.tolist()
        for e in self._edges_between(graph, rows, columns, through=through):
            j, i = sources[e], targets[e]
            if through:
                self._join(j, i, e)
            else:
                # a path begins where it leaves its last row and ends at the first column that it meets
                tail = start_of.get(j, j)
                head = end_of.get(i, i)
                self._join(tail, head, e)
        for row, start in start_of.items():
            if through and row in self.below:
                self._join(start, row, UNIT)
            elif row in end_of:
                self._join(start, end_of[row], UNIT)
        if through:
            for column, end in end_of.items():
                if column in self.above:
                    self._join(column, end, UNIT)

    @staticmethod
    def _edges_between(
        graph: DifferentiationGraph, rows: tuple[int, ...], columns: tuple[int, ...], *, through: bool
    ) -> list[int]:
        """Edges on a path from a row to a column, ascending; unless `through`, with no row or column inside."""
        held = frozenset() if through else frozenset((*rows, *columns))
        sources: list[int] = graph.sources.tolist()
        targets: list[int] = graph.targets.tolist()
        down = reached(rows, lambda v: [targets[e] for e in graph.out_edges[v] if targets[e] not in held])
        up = reached(columns, lambda v: [sources[e] for e in graph.in_edges[v] if sources[e] not in held])
        return sorted(e for v in down for e in graph.out_edges[v] if targets[e] in up)

    def _join(self, j: int, i: int, reference: int) -> None:
        for place in (j, i):
            self.below.setdefault(place, {})
            self.above.setdefault(place, set())
        row = self.below[j]
        row[i] = reference if i not in row else self._step(False, row[i], reference)
        self.above[i].add(j)

    def _step(self, is_product: bool, left: int, right: int) -> int:
        self.steps.append((is_product, left, right))
        return self.edges + len(self.steps) - 1

    def _product(self, left: int, right: int) -> int:
        # first the 1 that has no reference, so that a sum never meets it
        if UNIT in (left, right):
            return right if left == UNIT else left
        if left < self.edges and self.units[left]:
            return right
        if right < self.edges and self.units[right]:
            return left
        return self._step(True, left, right)

    def eliminate(self) -> None:
        """Eliminate all places but the ends, each time one with the fewest faces."""
        ends = {*self.starts, *self.ends}
        heap = [(len(self.above[k]) * len(self.below[k]), k) for k in self.below if k not in ends]
        heapq.heapify(heap)
        gone: set[int] = set()
        while heap:
            faces, k = heapq.heappop(heap)
            if k in gone or faces != len(self.above[k]) * len(self.below[k]):
                continue
            gone.add(k)
            touched = (self.above[k] | self.below[k].keys()) - ends
            for j in sorted(self.above[k]):
                left = self.below[j].pop(k)
                for i, right in self.below[k].items():
                    self._join(j, i, self._product(left, right))
            for i in self.below[k]:
                self.above[i].discard(k)
            for v in touched:
                heapq.heappush(heap, (len(self.above[v]) * len(self.below[v]), v))
