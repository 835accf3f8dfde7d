"""Paths: their number, their enumeration, the sum over all (Bauer's formula), and sums over those between two sets.

**Path sets.** P_{v_j→v_i} is the set of all paths from v_j to v_i, |P| their number, O_P(e) the overlapping degree of
edge e, the number of paths in P through e (the notes, section 3). Ends may be sets of vertices or sets of edges. A path
from an edge to an edge contains both: the notes set P_{e_j→e_i} ≡ P_{e_j⁺→e_i⁻}, equally many paths, but need the end
edges for P_{v_i} ≡ P_{v_i⁻→v_i⁺}, whose paths have two edges, and for the pages P_{Y⁺→X⁻}; so an edge that is both a
start and an end is a path by itself.

Counts are found by dynamic programming in exact integers, one pass up and one down: O(edges) additions of numbers
of at most as many bits as there are vertices. Paths are enumerated lazily, and only along edges from which an end is
within reach, so that the wait for the next path is at most the length of two, however many there are.

**Bauer's formula.** ∂v_y/∂v_x = Σ_{p ∈ P_{y→x}} Π_{e ∈ p} e (Bauer 1974; the notes, section 3). It is the oracle for
everything that accumulates: labels may come from any ring, and no product is ever turned round, so matrices of any
matching shapes do.

By default sums are formed at every vertex, which uses nothing but distributivity: O(roots · edges) products.
``expanded=True`` adds up path by path, literally: independent of everything else, and exponential.

**Local Jacobians** are the derivatives between any two sets of vertices, in the notes J⟨S₁|S₂⟩. Entry (j, i) is the sum
over paths from j ∈ S₁ to i ∈ S₂ of the products of their labels. Where every such path is one edge, as between
neighbouring levels of a segmented graph or in J⟨v|v^#⟩, the entries are labels of the graph. Otherwise the vertices
between the sets are eliminated, those with the fewest faces first (Markowitz), and the entries are references to
products and sums, recorded in the form of an accumulation: references 0 … edges−1 are the labels of the edges,
reference edges+k is the result of step k. Unit edges cost no product.

The notes speak of sets none of whose members depends on another. Where members do depend on each other there are two
meanings. "direct", the default, holds every member fixed: paths through other members of S₁ or S₂ do not count,
as in J⟨v|v^#⟩ when one successor depends on another. "all" counts every path, as in Bauer's formula. For sets
without such dependences the two agree, and J⟨S₁|S₂⟩ × J⟨S₂|S₃⟩ = J⟨S₁|S₃⟩ if every path from S₁ to S₃ meets S₂.

Time: that of the elimination, in compiled code; linear where nothing lies between the sets.
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
    """All paths of a graph that start and end in given places; made by `paths`, `paths_at`, `paths_between_edges`.

    A path is the tuple of its edges. From a vertex to itself runs the one path without edges.
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
        """Return for each edge, the number of ways from a start up to and including it, and from it on to an end."""
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
        #: Number of ways from each vertex on to an end.
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
        """Number of paths, exactly; in the notes |P|.

        >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x"), ("c", "x")])
        >>> paths(graph).count
        4
        """
        starts = sum(self._from_vertex[v] for v in self._from_vertices)
        return starts + sum(self._below[e] for e in self._from_edges)

    def overlap(self, edge: int) -> int:
        """Return the number of the paths that go through the edge; in the notes the overlapping degree O_P(e).

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
        """Yield the paths one by one, in the order of their edges' numbers; nothing is stored but the path at hand."""
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
        ends: last vertex by number, or several; by default the terminals. Paths may run through other starts and ends.

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

    O_{P_{v_i}}(e) is the out-degree of the vertex for its incoming, the in-degree for its outgoing edges.

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
        labels: one for each edge, unit edges and constants included; elements of any ring.
        multiply: product of two labels, the one nearer to the root on the left: for NumPy matrices
            ``operator.matmul``.
        add: sum of two labels.
        expanded: if True, sum path by path.

    Returns:
        The entries by (position in ``graph.roots``, position in ``graph.terminals``), for the pairs that a path joins.

    Raises:
        ArgumentError: if there is not one label for each edge.

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
        """Yield vertices and terms of their sums: of whole paths, or of the sums of the vertices before."""
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
    """J⟨rows|columns⟩ of a graph as a sparse matrix of references."""

    graph: DifferentiationGraph
    #: The sets, as vertices by number, ascending.
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    #: Steps (is a product, left, right) that form values besides the labels of the graph; the left factor is nearer
    #: to the root.
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
        """Return True if all rows and columns are one connected part."""
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
        rows: vertex by number, or several: the dependent ones.
        columns: vertex by number, or several: those differentiated with respect to.
        paths: "direct" holds the members of both sets fixed, "all" counts paths through them, too.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
        UnknownNameError: for other paths.

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
            # first the 1 that has no reference, so that a sum never meets it
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
    """Return the graph of the paths from rows, its roots, to columns, its terminals, and each edge's origin in `graph`.

    Every row has a place of its own that nothing is above, every column one that nothing is below: a row or column
    that paths go through, and one that is both, stands at two places joined by a unit edge.
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
        # a path begins where it leaves its last row and ends at the first column that it meets
        edges = [(start_of.get(sources[e], sources[e]), end_of.get(targets[e], targets[e]), e) for e in inside]
        edges += [(start, end_of[v], UNIT) for v, start in start_of.items() if v in end_of]
    names = range(count + len(rows) + len(columns))
    return derive(graph, names, list(start_of.values()), list(end_of.values()), edges), [e for *_, e in edges]
