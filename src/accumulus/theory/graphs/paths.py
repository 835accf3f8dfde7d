"""Paths: counts, enumeration, sums over all paths (Bauer's formula), and sums between two sets of vertices.

**Path sets.** P_{v_j→v_i} is the set of all paths from v_j to v_i, |P| is their number, and the overlapping degree
O_P(e) of an edge e is the number of paths in P through e (the notes, section 3). The ends may be sets of vertices or
sets of edges. A path from an edge to an edge includes both. The notes define P_{e_j→e_i} ≡ P_{e_j⁺→e_i⁻}, which has the
same number of paths, but need the end edges for P_{v_i} ≡ P_{v_i⁻→v_i⁺}, whose paths have two edges, and for the pages
P_{Y⁺→X⁻}. So an edge that is both a start and an end is a path by itself.

Counts are computed by dynamic programming in exact integers, with one pass up and one pass down: O(edges) additions of
numbers with at most as many bits as there are edges. Paths are enumerated lazily, and only along edges from which an
end can be reached, so the time to the next path is linear in the lengths of two paths.

**Bauer's formula.** ∂v_y/∂v_x = Σ_{p ∈ P_{y→x}} Π_{e ∈ p} e (Bauer 1974; the notes, section 3). It is the reference for
all accumulations. Labels may be elements of any ring. Factors are never exchanged, so labels may be matrices of
matching shapes.

By default sums are formed at every vertex, which uses only distributivity: O(roots · edges) products.
``expanded=True`` adds path by path, as the formula says, which takes exponential time.

**Local Jacobians** are the derivatives between two sets of vertices, in the notes J⟨S₁|S₂⟩. Entry (j, i) is the sum
over paths from j ∈ S₁ to i ∈ S₂ of the products of their labels. If every such path is one edge, as between
neighbouring levels of a segmented graph or in J⟨v|v^#⟩, the entries are labels of the graph. Otherwise the vertices
between the sets are eliminated, those with the fewest faces first (Markowitz), and the entries are references to
products and sums, as in an accumulation: references 0 … edges − 1 are the labels of the edges, and reference edges + k
is the result of step k. Products with unit edges are not recorded.

The notes assume that no member of a set depends on another one. If members depend on each other, there are two
definitions. "direct", the default, holds every member fixed: paths through other members of S₁ or S₂ do not count, as
in J⟨v|v^#⟩ when one successor depends on another. "all" counts every path, as in Bauer's formula. For sets without such
dependences both agree, and J⟨S₁|S₂⟩ × J⟨S₂|S₃⟩ = J⟨S₁|S₃⟩ if every path from S₁ to S₃ goes through S₂.

Time: an elimination in compiled code; linear if no vertices are between the sets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from accumulus.elimination.vertex import eliminate_vertices, markowitz_order
from accumulus.errors import ArgumentError, unknown_name
from accumulus.graph.graph import UNIT, DifferentiationGraph, Kind, derive, edge_numbers, vertex_numbers
from accumulus.options import Objective
from accumulus.theory.graphs.traversal import UnionFind, reached


class PathSet:
    """All paths between given starts and ends; made by `paths`, `paths_at` and `paths_between_edges`.

    A path is the tuple of its edges. The only path from a vertex to itself has no edges.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        *,
        from_vertices: Iterable[int] = (),
        to_vertices: Iterable[int] = (),
        from_edges: Iterable[int] = (),
        to_edges: Iterable[int] = (),
    ) -> None:
        self.graph = graph
        self._from_vertices = vertex_numbers(graph, from_vertices)
        self._to_vertices = frozenset(vertex_numbers(graph, to_vertices))
        self._from_edges = edge_numbers(graph, from_edges)
        self._to_edges = frozenset(edge_numbers(graph, to_edges))
        self._above, self._below = self._counts()

    def _counts(self) -> tuple[list[int], list[int]]:
        """Return for each edge the number of paths from a start that end with it, and to an end that start with it."""
        graph = self.graph
        sources: list[int] = graph.sources.tolist()
        above = [0] * len(sources)
        below = [0] * len(sources)
        for e in self._from_edges:
            above[e] = 1
        for e in self._to_edges:
            below[e] = 1
        starts = set(self._from_vertices)
        for v in reversed(graph.topological_order):
            here = sum(above[e] for e in graph.in_edges[v]) + (v in starts)
            if here:
                for e in graph.out_edges[v]:
                    above[e] += here
        #: Number of paths from each vertex to an end.
        self._from_vertex = [0] * len(graph.vertices)
        for v in graph.topological_order:
            here = sum(below[e] for e in graph.out_edges[v]) + (v in self._to_vertices)
            self._from_vertex[v] = here
            if here:
                for e in graph.in_edges[v]:
                    below[e] += here
        return above, below

    @property
    def count(self) -> int:
        """Exact number of paths; in the notes |P|.

        >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x"), ("c", "x")])
        >>> paths(graph).count
        4
        """
        starts = sum(self._from_vertex[v] for v in self._from_vertices)
        return starts + sum(self._below[e] for e in self._from_edges)

    def overlap(self, edge: int) -> int:
        """Return the number of paths through the edge; in the notes the overlapping degree O_P(e).

        Raises:
            GraphError: for a number that is not an edge of the graph.
        """
        (e,) = edge_numbers(self.graph, edge)
        return self._above[e] * self._below[e]

    @property
    def edges(self) -> tuple[int, ...]:
        """Edges that lie on one of the paths, ascending."""
        return tuple(
            e for e, (above, below) in enumerate(zip(self._above, self._below, strict=True)) if above and below
        )

    @property
    def vertices(self) -> tuple[int, ...]:
        """Vertices that lie on one of the paths, ascending."""
        edges = list(self.edges)
        inside = {v for v in self._from_vertices if v in self._to_vertices}
        inside.update(self.graph.sources[edges].tolist(), self.graph.targets[edges].tolist())
        return tuple(sorted(inside))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the paths in lexicographic order of their edges, for each start in turn; paths are not stored."""
        graph, below = self.graph, self._below
        for v in self._from_vertices:
            if v in self._to_vertices:
                yield ()
            yield from self._continued([], iter([e for e in graph.out_edges[v] if below[e]]))
        for e in self._from_edges:
            if below[e]:
                yield from self._continued([], iter([e]))

    def _continued(self, path: list[int], choices: Iterator[int]) -> Iterator[tuple[int, ...]]:
        graph, below, targets = self.graph, self._below, self.graph.targets
        open_choices = [choices]
        while open_choices:
            e = next(open_choices[-1], None)
            if e is None:
                open_choices.pop()
                if path:
                    path.pop()
                continue
            path.append(e)
            v = int(targets[e])
            if e in self._to_edges or v in self._to_vertices:
                yield tuple(path)
            open_choices.append(iter([out for out in graph.out_edges[v] if below[out]]))


def paths(
    graph: DifferentiationGraph,
    starts: int | Iterable[int] | None = None,
    ends: int | Iterable[int] | None = None,
) -> PathSet:
    """Return all paths from the start to the end vertices; in the notes P_{V'→V''}, by default P_{Y→X}.

    Args:
        graph: graph of the paths.
        starts: first vertex by number, or several; by default the roots.
        ends: last vertex by number, or several; by default the terminals. Paths may go through other starts and ends.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "x"), ("a", "x")])
    >>> list(paths(graph)), paths(graph).overlap(2), list(paths(graph, 1, 2))
    ([(0, 2), (1,)], 1, [(2,)])
    """
    return PathSet(
        graph,
        from_vertices=graph.roots if starts is None else vertex_numbers(graph, starts),
        to_vertices=graph.terminals if ends is None else vertex_numbers(graph, ends),
    )


def paths_between_edges(graph: DifferentiationGraph, starts: int | Iterable[int], ends: int | Iterable[int]) -> PathSet:
    """Return all paths from one of the start edges to one of the end edges; in the notes P_{E'→E''}.

    Raises:
        GraphError: for a number that is not an edge of the graph.
    """
    return PathSet(graph, from_edges=edge_numbers(graph, starts), to_edges=edge_numbers(graph, ends))


def paths_at(graph: DifferentiationGraph, vertex: int) -> PathSet:
    """Return the adjacent edge paths of a vertex, one for each of its faces; in the notes P_{v_i} ≡ P_{v_i⁻→v_i⁺}.

    O_{P_{v_i}}(e) is the out-degree of the vertex for its incoming edges, and the in-degree for its outgoing edges.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    (v,) = vertex_numbers(graph, vertex)
    return PathSet(graph, from_edges=graph.in_edges[v], to_edges=graph.out_edges[v])


# Bauer's formula -----------------------------------------------------------------------------------------------------


Label = TypeVar("Label")


def bauer(
    graph: DifferentiationGraph,
    labels: Sequence[Label],
    *,
    multiply: Callable[[Label, Label], Label] = operator.mul,
    add: Callable[[Label, Label], Label] = operator.add,
    expanded: bool = False,
) -> dict[tuple[int, int], Label]:
    """Return the Jacobian of the graph for given labels, by Bauer's formula.

    Args:
        graph: graph of the labels.
        labels: label of each edge, also of unit edges and constants; elements of any ring.
        multiply: product of two labels; the left one is nearer to the root. For NumPy matrices, use
            ``operator.matmul``.
        add: sum of two labels.
        expanded: if True, sum path by path.

    Returns:
        The entries by (position in ``graph.roots``, position in ``graph.terminals``), for pairs that a path joins.

    Raises:
        ArgumentError: if the number of labels is not the number of edges.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")])
    >>> bauer(graph, [2, 3, 5, 7])
    {(0, 0): 31}
    >>> bauer(graph, ["2", "3", "5", "7"], multiply="{}·{}".format, add="{}+{}".format, expanded=True)
    {(0, 0): '2·5+3·7'}
    """
    if len(labels) != len(graph.sources):
        raise ArgumentError(f"{len(labels)} labels for {len(graph.sources)} edges; expected one for each edge")
    targets: list[int] = graph.targets.tolist()

    def terms(root: int, sums: dict[int, Label]) -> Iterator[tuple[int, Label]]:
        """Yield vertices and terms of their sums: products of whole paths, or of a predecessor's sum with a label."""
        if expanded:
            for path in filter(None, paths(graph, root)):
                term = labels[path[0]]
                for e in path[1:]:
                    term = multiply(term, labels[e])
                yield targets[path[-1]], term
            return
        for v in reversed(graph.topological_order):
            if v == root or v in sums:
                for e in graph.out_edges[v]:
                    yield targets[e], labels[e] if v == root else multiply(sums[v], labels[e])

    entries: dict[tuple[int, int], Label] = {}
    for row, root in enumerate(graph.roots):
        sums: dict[int, Label] = {}
        for i, term in terms(root, sums):
            sums[i] = add(sums[i], term) if i in sums else term
        for column, terminal in enumerate(graph.terminals):
            if terminal in sums:
                entries[row, column] = sums[terminal]
    return entries


# Local Jacobians -----------------------------------------------------------------------------------------------------


Sides = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LocalJacobian:
    """Local Jacobian J⟨rows|columns⟩ of a graph as a sparse matrix of references.

    Attributes:
        graph: graph of the labels.
        rows, columns: vertices by number, ascending.
        steps: products and sums (is a product, left, right); the left factor is nearer to the root.
        entries: reference of every structural nonzero by (position in `rows`, position in `columns`). `UNIT` (−1) is
            the label 1 between a vertex and itself, for vertices in both sets.
    """

    graph: DifferentiationGraph
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[tuple[bool, int, int], ...]
    entries: Mapping[tuple[int, int], int]

    @property
    def components(self) -> tuple[Sides, ...]:
        """Rows and columns, by position, of each connected component of the bipartite graph of the entries.

        The components can be multiplied independently; the notes call a connected bipartite graph undivided. A row or
        column without entries is a component by itself. The components are ordered by their first rows, then columns.
        Time: near-linear.
        """
        rows, places = len(self.rows), len(self.rows) + len(self.columns)
        joined = UnionFind(places)
        for row, column in self.entries:
            joined.merge(row, rows + column)
        parts: dict[int, list[int]] = {}
        for v in range(places):
            parts.setdefault(joined.find(v), []).append(v)
        return tuple(
            (tuple(v for v in vertices if v < rows), tuple(v - rows for v in vertices if v >= rows))
            for vertices in parts.values()
        )

    @property
    def is_undivided(self) -> bool:
        """Return True if all rows and columns are one connected component."""
        return len(self.components) <= 1


def local_jacobian(
    graph: DifferentiationGraph,
    rows: int | Iterable[int],
    columns: int | Iterable[int],
    *,
    paths: Literal["direct", "all"] = "direct",
) -> LocalJacobian:
    """Return the Jacobian of the vertices in `rows` with respect to those in `columns`; in the notes J⟨S₁|S₂⟩.

    Args:
        graph: graph of the vertices.
        rows: dependent vertex by number, or several.
        columns: vertex to differentiate with respect to, by number, or several.
        paths: "direct" holds the members of both sets fixed, "all" counts paths through them, too.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
        UnknownNameError: if `paths` is neither "direct" nor "all".

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> local_jacobian(graph, [1, 2], 3).entries
    {(0, 0): 2, (1, 0): 3}
    >>> local = local_jacobian(graph, 0, 3)
    >>> local.steps, local.entries
    (((True, 1, 3), (True, 0, 2), (False, 5, 6)), {(0, 0): 7})
    """
    if paths not in ("direct", "all"):
        raise unknown_name("paths", paths, ("direct", "all"))
    starts, ends = vertex_numbers(graph, rows), vertex_numbers(graph, columns)
    between, origins = _between(graph, starts, ends, through=paths == "all")
    order = markowitz_order(between, Objective.FMA)
    assert order is not None
    accumulation = eliminate_vertices(between, order[1])
    steps: list[tuple[bool, int, int]] = []
    units = {UNIT, *np.flatnonzero(graph.kinds == Kind.ONE).tolist()}
    references = list(origins)
    for is_product, left, right in accumulation.steps:
        pair = references[left], references[right]
        if is_product and not units.isdisjoint(pair):
            # drop `UNIT`, which is not a reference, rather than a unit edge, so that it is never an operand of a sum
            one = pair.index(UNIT) if UNIT in pair else int(pair[0] not in units)
            references.append(pair[1 - one])
        else:
            references.append(len(graph.sources) + len(steps))
            steps.append((bool(is_product), *pair))
    entries = {entry: references[reference] for entry, reference in accumulation.entries.items()}
    return LocalJacobian(graph, starts, ends, tuple(steps), entries)


def _between(
    graph: DifferentiationGraph, rows: tuple[int, ...], columns: tuple[int, ...], *, through: bool
) -> tuple[DifferentiationGraph, list[int]]:
    """Return the graph of the paths from rows to columns, and each edge's origin in `graph`.

    The roots are new vertices for the rows, the terminals new vertices for the columns. Unit edges join a row or column
    that paths go through to its new vertex, and the two new vertices of a vertex that is both.
    """
    held = frozenset() if through else frozenset((*rows, *columns))
    sources: list[int] = graph.sources.tolist()
    targets: list[int] = graph.targets.tolist()
    down = reached(rows, lambda v: [targets[e] for e in graph.out_edges[v] if targets[e] not in held])
    up = reached(columns, lambda v: [sources[e] for e in graph.in_edges[v] if sources[e] not in held])
    inside = sorted(e for v in down for e in graph.out_edges[v] if targets[e] in up)
    count = len(graph.vertices)
    start_of = {v: count + k for k, v in enumerate(rows)}
    end_of = {v: count + len(rows) + k for k, v in enumerate(columns)}
    if through:
        edges = [(sources[e], targets[e], e) for e in inside]
        edges += [(start, v, UNIT) for v, start in start_of.items()] + [(v, end, UNIT) for v, end in end_of.items()]
    else:
        # a path starts at its last row and ends at its first column
        edges = [(start_of.get(sources[e], sources[e]), end_of.get(targets[e], targets[e]), e) for e in inside]
        edges += [(start, end_of[v], UNIT) for v, start in start_of.items() if v in end_of]
    names = range(count + len(rows) + len(columns))
    return derive(graph, names, list(start_of.values()), list(end_of.values()), edges), [e for *_, e in edges]
