"""Paths: how many there are, through which edges, which, and Bauer's formula, the sum over all of them.

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
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from accumulus.errors import ArgumentError
from accumulus.graph.graph import DifferentiationGraph, edge_numbers, vertex_numbers

__all__ = ["PathSet", "bauer", "paths", "paths_at", "paths_between_edges"]


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
        """For each edge, the number of ways from a start up to and including it, and from it on to an end."""
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
        """Number of the paths that go through the edge; in the notes the overlapping degree O_P(e).

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
        found = {v for v in self._from_vertices if v in self._to_vertices}
        found.update(self.graph.sources[edges].tolist(), self.graph.targets[edges].tolist())
        return tuple(sorted(found))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """The paths one by one, in the order of their edges' numbers; nothing is stored but the path at hand."""
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
    """All paths from the start vertices to the end vertices; in the notes P_{V'→V''}, by default P_{Y→X}.

    Args:
        starts, ends: a vertex by number or several; by default the roots and the terminals. A path may run through
            other starts and ends.

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
    """All paths whose first edge is one of the starts and whose last is one of the ends; in the notes P_{E'→E''}.

    Raises:
        GraphError: for a number that is not an edge of the graph.
    """
    return PathSet(graph, from_edges=edge_numbers(graph, starts), to_edges=edge_numbers(graph, ends))


def paths_at(graph: DifferentiationGraph, vertex: int) -> PathSet:
    """The adjacent edge paths of a vertex, one for each of its faces; in the notes P_{v_i} ≡ P_{v_i⁻→v_i⁺}.

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
    """Jacobian of the graph for given labels, by Bauer's formula.

    Args:
        labels: one for each edge, unit edges and constants included; of any ring.
        multiply: product of two labels, the one nearer to the root on the left: for NumPy matrices
            ``operator.matmul``.
        add: sum of two labels.
        expanded: whether to add up path by path.

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
