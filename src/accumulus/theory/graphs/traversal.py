"""Graph traversal: reachability, topological order, longest paths, union-find, series-parallel reduction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.edges_and_faces import EdgeElimination

#: Neighbours of vertices, by number.
Near: TypeAlias = Sequence[Collection[int]] | Mapping[int, Collection[int]]


def reached(starts: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    """Return the starts and all vertices that can be reached from them.

    >>> sorted(reached([3], lambda v: [v - 1] if v > 1 else []))
    [1, 2, 3]
    """
    seen = set(starts)
    pending = list(seen)
    while pending:
        for v in following(pending.pop()):
            if v not in seen:
                seen.add(v)
                pending.append(v)
    return seen


def topological_order(waiting: dict[int, int], following: Callable[[int], Iterable[int]]) -> list[int]:
    """Return the vertices in topological order, without vertices on a cycle or after one.

    Args:
        waiting: in-degree of each vertex. It is modified: on return, the number of incoming edges that come from
            vertices outside the order.
        following: function that returns the targets of a vertex's outgoing edges.

    >>> topological_order({1: 0, 2: 2, 3: 0}, {1: [2], 3: [2], 2: []}.__getitem__)
    [1, 3, 2]
    """
    order = [v for v, count in waiting.items() if count == 0]
    for v in order:
        for w in following(v):
            waiting[w] -= 1
            if waiting[w] == 0:
                order.append(w)
    return order


def longest_ways(order: Iterable[int], following: Callable[[int], Iterable[int]]) -> dict[int, int]:
    """Return the number of edges of the longest path that ends at each vertex.

    Args:
        order: all vertices in topological order.
        following: function that returns the targets of a vertex's outgoing edges.

    >>> longest_ways([1, 3, 2], {1: [2, 3], 3: [2], 2: []}.__getitem__)
    {1: 0, 2: 2, 3: 1}
    """
    lengths: dict[int, int] = {}
    for v in order:
        depth = lengths.setdefault(v, 0)
        for w in following(v):
            lengths[w] = max(lengths.get(w, 0), depth + 1)
    return lengths


class UnionFind:
    """Disjoint sets of numbers (union-find), each represented by its smallest member.

    >>> classes = UnionFind(4)
    >>> classes.merge(3, 1)
    >>> [classes.find(k) for k in range(4)]
    [0, 1, 2, 1]
    """

    def __init__(self, count: int = 0) -> None:
        self._up = list(range(count))

    def new(self) -> int:
        """Add the next number in a set of its own, and return it."""
        self._up.append(len(self._up))
        return len(self._up) - 1

    def find(self, k: int) -> int:
        """Return the smallest number in the set of k."""
        up = self._up
        while up[k] != k:
            up[k] = up[up[k]]
            k = up[k]
        return k

    def merge(self, one: int, other: int) -> None:
        """Merge the sets of two numbers."""
        one, other = self.find(one), self.find(other)
        self._up[max(one, other)] = min(one, other)


def series_vertices(into: Near, out: Near, pending: list[int], is_inner: Callable[[int], bool]) -> Iterator[int]:
    """Yield vertices with one incoming and one outgoing edge, for series-parallel reduction.

    Before the next iteration, the caller replaces the vertex by an edge between its neighbours and merges parallel
    edges. The neighbours are then examined again, so the remaining graph has no such vertex, in every order (Valdes,
    Tarjan and Lawler 1982; in the notes, simple chains and blocks).

    Args:
        into: predecessors of each vertex.
        out: successors of each vertex.
        pending: vertices to examine, the last one first; it is modified.
        is_inner: function that returns True for vertices that may be replaced.
    """
    while pending:
        v = pending.pop()
        if is_inner(v) and len(into[v]) == 1 and len(out[v]) == 1:
            near = (*into[v], *out[v])
            yield v
            pending += near


def eliminate_series(elimination: EdgeElimination, deadline: Deadline = FOREVER) -> None:
    """Eliminate simple chains and blocks, which leaves single edges.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    P, S = elimination.predecessors, elimination.successors
    order = list(elimination.graph.topological_order)
    for v in series_vertices(P, S, order, lambda v: bool(elimination.intermediate[v])):
        deadline.check()
        (j,) = P[v]
        elimination.eliminate(j, v, "back")
