"""Dominators and postdominators of a differentiation graph.

Vertex b dominates v, seen from a root, if every path from the root to v goes through b; it postdominates v, seen
from a terminal, if every path from v to the terminal goes through b. D* finds its factor subgraphs with them (Guenter,
Efficient Symbolic Differentiation for Graphics Applications, 2007). In the graph of one derivative ∂y/∂x, which
holds the vertices on paths from y to x only, dominators are those seen from y, and postdominators those seen from x, in
the whole graph: a vertex on a path to a vertex of the smaller graph is in it, too. So one tree for each root and
one for each terminal serve all derivatives.

In an acyclic graph one pass in topological order suffices: the immediate dominator of v is the deepest vertex
above all predecessors of v in the tree built so far (the intersection of Cooper, Harvey and Kennedy, A Simple, Fast
Dominance Algorithm, 2001). Jump pointers (Myers, An Applicative Random-Access Stack, 1983) find it in O(log vertices),
so a tree takes O(edges · log vertices) in the worst case, and O(vertices) memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from accumulus.graph.derive import vertex_numbers
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["DominatorTree", "dominators", "postdominators"]

#: Immediate dominator of vertices that have none.
NONE: Final = -1


class DominatorTree:
    """Which vertices dominate which, seen from its starts; made by `dominators` and `postdominators`.

    Above the starts stands an origin, which is not a vertex; its number is the number of vertices.
    """

    def __init__(self, vertices: int, starts: Sequence[int]) -> None:
        self.starts = tuple(starts)
        self.origin = vertices
        self._parent = [NONE] * vertices + [vertices]
        self._jump = [NONE] * vertices + [vertices]
        self._depth = [NONE] * vertices + [0]

    def add(self, v: int, predecessors: Iterable[int], *, at_origin: bool = False) -> None:
        """Place a vertex below all of its predecessors that are in the tree, or below the origin."""
        parent = self.origin if at_origin else NONE
        for u in predecessors:
            if self._depth[u] != NONE:
                parent = u if parent == NONE else self.common(parent, u)
        if parent == NONE:
            return
        jump = self._jump[parent]
        depth = self._depth
        equal = depth[parent] - depth[jump] == depth[jump] - depth[self._jump[jump]]
        self._parent[v], depth[v] = parent, depth[parent] + 1
        self._jump[v] = self._jump[jump] if equal else parent

    def common(self, u: int, v: int) -> int:
        """The deepest vertex that dominates both, each being taken to dominate itself; else the `origin`."""
        depth, jump, parent = self._depth, self._jump, self._parent
        if depth[u] < depth[v]:
            u, v = v, u
        u = self.ancestor(u, depth[v])
        while u != v:
            if jump[u] != jump[v]:
                u, v = jump[u], jump[v]
            else:
                u, v = parent[u], parent[v]
        return u

    def ancestor(self, v: int, depth: int) -> int:
        """The vertex at this depth that dominates v; the origin has depth 0, the starts depth 1."""
        depths, jump = self._depth, self._jump
        while depths[v] > depth:
            v = jump[v] if depths[jump[v]] >= depth else self._parent[v]
        return v

    def depth(self, v: int) -> int:
        """Number of vertices that dominate v, itself included; −1 if no start reaches it."""
        return self._depth[v]

    def immediate(self, v: int) -> int:
        """The closest vertex that dominates v and is not v; −1 for a start, or where there is none."""
        parent = self._parent[v]
        return NONE if parent == self.origin else parent

    def dominates(self, b: int, v: int) -> bool:
        """Whether every path from a start to v goes through b; false if there is no path. O(log vertices).

        Every vertex that is reached dominates itself.
        """
        depth = self._depth[b]
        return 0 < depth <= self._depth[v] and self.ancestor(v, depth) == b

    def chain(self, v: int) -> tuple[int, ...]:
        """All vertices that dominate v, from v itself up to the start; empty if no start reaches it."""
        found = []
        while v != NONE and self._depth[v] != NONE:
            found.append(v)
            v = self.immediate(v)
        return tuple(found)

    @property
    def children(self) -> list[list[int]]:
        """For each vertex, those that it dominates immediately, ascending."""
        below: list[list[int]] = [[] for _ in range(self.origin)]
        for v in range(self.origin):
            if (parent := self.immediate(v)) != NONE:
                below[parent].append(v)
        return below


def dominators(graph: DifferentiationGraph, roots: int | Iterable[int]) -> DominatorTree:
    """Dominators seen from a root, or from any vertex or vertices.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x")])
    >>> tree = dominators(graph, graph.roots[0])
    >>> graph.vertices[tree.immediate(graph.terminals[0])], tree.dominates(2, 4)
    ('a', False)
    """
    starts = vertex_numbers(graph, roots)
    tree = DominatorTree(len(graph.vertices), starts)
    sources: list[int] = graph.sources.tolist()
    first = set(starts)
    for v in reversed(graph.topological_order):
        tree.add(v, (sources[e] for e in graph.in_edges[v]), at_origin=v in first)
    return tree


def postdominators(graph: DifferentiationGraph, terminals: int | Iterable[int]) -> DominatorTree:
    """Postdominators seen from a terminal, or from any vertex or vertices: dominators with every edge turned round.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    starts = vertex_numbers(graph, terminals)
    tree = DominatorTree(len(graph.vertices), starts)
    targets: list[int] = graph.targets.tolist()
    first = set(starts)
    for v in graph.topological_order:
        tree.add(v, (targets[e] for e in graph.out_edges[v]), at_origin=v in first)
    return tree
