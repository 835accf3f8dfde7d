"""Dominators of a differentiation graph, and the regions that they bound.

**Dominators.** Vertex b dominates v, seen from a root, if every path from the root to v goes through b; it
postdominates v, seen from a terminal, if every path from v to the terminal goes through b. D* finds its factor
subgraphs with them (Guenter, Efficient Symbolic Differentiation for Graphics Applications, 2007). In the graph of one
derivative ∂y/∂x, which holds the vertices on paths from y to x only, dominators are those seen from y, and
postdominators those seen from x, in the whole graph: a vertex on a path to a vertex of the smaller graph is in it, too.
So one tree for each root and one for each terminal serve all derivatives.

In an acyclic graph one pass in topological order suffices: the immediate dominator of v is the deepest vertex
above all predecessors of v in the tree built so far (the intersection of Cooper, Harvey and Kennedy, A Simple, Fast
Dominance Algorithm, 2001). Jump pointers (Myers, An Applicative Random-Access Stack, 1983) find it in O(log vertices),
so a tree takes O(edges · log vertices) in the worst case, and O(vertices) memory.

**Regions.** A region ⟨i,j⟩ is a connected set of vertices all of whose edges from outside come from i and all of whose
edges to outside go to j. i and j may have other edges. Chains apart, regions are nested or disjoint, and replacing them
by substitute edges from the smallest to the largest, with series-parallel reduction in between, gives the nested
decomposition of a graph: what is left of a region by the time its turn comes is a core, in the notes a complex block
without simple parts. The same parts are found, with a different aim, by way of triconnected components (Tarjan and
Valdes, Prime Subprogram Parsing of a Program, 1980; Vanhatalo, Völzer and Koehler, The Refined Process Structure Tree,
2009). Here dominators are enough, since the graph is acyclic:

If no vertex of a region ⟨i,j⟩ is on all of its paths, none dominates j, so that the region is a union of whole
subtrees below children of i in the dominator tree. Every edge ⟨u,w⟩ joins, at the immediate dominator of w, the
child whose subtree holds u to the child w; at the dominators of u below it leaves to the outside. The regions at i are

* the connected components of the graph on the children of i whose only way to the outside is one vertex j, and
* the connected components of that graph without one of its vertices j, if they have no way to the outside and every
  edge between them and j goes to j.

Both are found in one depth-first search, as for biconnected components (Hopcroft and Tarjan 1973), since the sums that
decide are over subtrees of it. Which ways to the outside a subtree has is known from the two that lead highest. Time
O(edges · log vertices), for the dominators; memory O(edges).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from accumulus.graph.graph import DifferentiationGraph, vertex_numbers
from accumulus.theory.graphs.traversal import topological_order

#: Immediate dominator of vertices that have none.
NONE: Final = -1


class DominatorTree:
    """Tree of the dominators seen from its starts; made by `dominators` and `postdominators`.

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
        """Return the deepest vertex that dominates both, each being taken to dominate itself; else the `origin`."""
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
        """Return the vertex at this depth that dominates v; the origin has depth 0, the starts depth 1."""
        depths, jump = self._depth, self._jump
        while depths[v] > depth:
            v = jump[v] if depths[jump[v]] >= depth else self._parent[v]
        return v

    def depth(self, v: int) -> int:
        """Return the number of vertices that dominate v, itself included; −1 if no start reaches it."""
        return self._depth[v]

    def immediate(self, v: int) -> int:
        """Return the closest vertex that dominates v and is not v; −1 for a start, or where there is none."""
        parent = self._parent[v]
        return NONE if parent == self.origin else parent

    def dominates(self, b: int, v: int) -> bool:
        """Return True if every path from a start to v goes through b; false if there is no path. O(log vertices).

        Every vertex that is reached dominates itself.
        """
        depth = self._depth[b]
        return 0 < depth <= self._depth[v] and self.ancestor(v, depth) == b

    def chain(self, v: int) -> tuple[int, ...]:
        """Return all vertices that dominate v, from v itself up to the start; empty if no start reaches it."""
        vertices = []
        while v != NONE and self._depth[v] != NONE:
            vertices.append(v)
            v = self.immediate(v)
        return tuple(vertices)

    @property
    def children(self) -> list[list[int]]:
        """For each vertex, those that it dominates immediately, ascending."""
        below: list[list[int]] = [[] for _ in range(self.origin)]
        for v in range(self.origin):
            if (parent := self.immediate(v)) != NONE:
                below[parent].append(v)
        return below


def dominators(graph: DifferentiationGraph, roots: int | Iterable[int]) -> DominatorTree:
    """Return dominators seen from a root, or from any vertex or vertices.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x")])
    >>> tree = dominators(graph, graph.roots[0])
    >>> graph.vertices[tree.immediate(graph.terminals[0])], tree.dominates(2, 4)
    ('a', False)
    """
    return _tree(graph, roots, graph.topological_order[::-1], graph.in_edges, graph.sources.tolist())


def postdominators(graph: DifferentiationGraph, terminals: int | Iterable[int]) -> DominatorTree:
    """Return postdominators seen from a terminal, or from given vertices: dominators of the reversed graph.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    return _tree(graph, terminals, graph.topological_order, graph.out_edges, graph.targets.tolist())


def _tree(
    graph: DifferentiationGraph,
    starts: int | Iterable[int],
    order: Sequence[int],
    edges: Sequence[Sequence[int]],
    ends: Sequence[int],
) -> DominatorTree:
    """Return the tree of the graph in an order in which the ends of the edges at a vertex come before it."""
    numbers = vertex_numbers(graph, starts)
    tree, first = DominatorTree(len(graph.vertices), numbers), set(numbers)
    for v in order:
        tree.add(v, (ends[e] for e in edges[v]), at_origin=v in first)
    return tree


# Regions -------------------------------------------------------------------------------------------------------------


#: Where vertices lead to that have no outgoing edge, or must be kept.
AWAY: Final = -1


class Region(NamedTuple):
    """Vertices that can only be entered through one vertex and left through another; sorts from small to large."""

    #: Number of vertices in the region.
    weight: int
    entry: int
    exit: int
    #: One of the vertices in the region.
    seed: int


def regions(
    out: Mapping[int, Mapping[int, object]], into: Mapping[int, Mapping[int, object]], protected: frozenset[int]
) -> list[Region]:
    """Return regions of an acyclic graph in which two entry-exit paths share no vertex, from small to large.

    Args:
        out: successors of each vertex.
        into: predecessors of each vertex.
        protected: vertices that must not be inside a region.
    """
    order = topological_order({v: len(above) for v, above in into.items()}, out.__getitem__)
    number = {v: k for k, v in enumerate(order)}
    tree = DominatorTree(len(order), ())
    for k, v in enumerate(order):
        tree.add(k, [number[u] for u in into[v]], at_origin=v in protected or not into[v])

    nearest: list[list[tuple[int, int]]] = [[] for _ in order]
    weights = [1] * len(order)
    arcs: list[list[tuple[int, int]]] = [[] for _ in order]
    for u, v in enumerate(order):
        leaving = [number[w] for w in out[v]]
        if v in protected or not leaving:
            nearest[u] = [(AWAY, AWAY)]
        for w in leaving:
            level = tree.depth(w) - 1
            _offer(nearest[u], level, w)
            dominator = tree.immediate(w)
            if dominator not in (u, AWAY):
                arcs[dominator].append((tree.ancestor(u, level + 1), w))
    for u in reversed(range(len(order))):
        parent = tree.immediate(u)
        if parent != AWAY:
            weights[parent] += weights[u]
            for level, w in nearest[u]:
                _offer(nearest[parent], level, w)

    numbered: list[Region] = []
    for i, children in enumerate(tree.children):
        if len(children) > 1:
            ways = {c: [w for level, w in nearest[c] if level < tree.depth(i)] for c in children}
            numbered.extend(_Siblings(i, children, arcs[i], ways, weights).regions())
    return sorted(Region(weight, order[i], order[j], order[seed]) for weight, i, j, seed in numbered)


def _offer(nearest: list[tuple[int, int]], level: int, w: int) -> None:
    """Keep the two different vertices that lead highest, with the depth of their immediate dominators."""
    if (level, w) not in nearest:
        nearest.append((level, w))
        nearest.sort()
        del nearest[2:]


class _Siblings:
    """The graph on the children of one vertex in the dominator tree, as a depth-first search goes through it."""

    def __init__(
        self,
        entry: int,
        children: Sequence[int],
        arcs: Sequence[tuple[int, int]],
        ways: Mapping[int, Sequence[int]],
        weights: Sequence[int],
    ) -> None:
        self.entry, self.children, self.ways, self.weights = entry, children, ways, weights
        self.targets: dict[int, list[int]] = {c: [] for c in children}
        self.neighbours: dict[int, list[int]] = {c: [] for c in children}
        for c, w in dict.fromkeys(arcs):
            self.targets[c].append(w)
            self.neighbours[c].append(w)
            self.neighbours[w].append(c)
        self.place: dict[int, int] = {}

    def regions(self) -> list[Region]:
        collected = []
        for start in self.children:
            if start not in self.place:
                visited, above = self._search(start)
                if len(visited) > 1:
                    collected.extend(self._in_component(visited, above))
        return collected

    def _search(self, start: int) -> tuple[list[int], dict[int, int]]:
        """Return vertices of a component in depth-first order, and for each the one it was reached from."""
        visited = [start]
        above: dict[int, int] = {}
        self.place[start] = 0
        open_lists = [iter(self.neighbours[start])]
        path = [start]
        while path:
            w = next(open_lists[-1], None)
            if w is None:
                open_lists.pop()
                path.pop()
            elif w not in self.place:
                self.place[w] = len(visited)
                visited.append(w)
                above[w] = path[-1]
                path.append(w)
                open_lists.append(iter(self.neighbours[w]))
        return visited, above

    def _in_component(self, visited: list[int], above: dict[int, int]) -> list[Region]:
        position = self.place
        count = dict.fromkeys(visited, 1)
        weight = {v: self.weights[v] for v in visited}
        leaving = {v: int(bool(self.ways[v])) for v in visited}
        low = {v: min(position[w] for w in self.neighbours[v]) for v in visited}
        below: dict[int, list[int]] = {v: [] for v in visited}
        for v in reversed(visited[1:]):
            parent = above[v]
            below[parent].append(v)
            low[parent] = min(low[parent], low[v])
            for sums in (count, weight, leaving):
                sums[parent] += sums[v]

        collected = []
        start = visited[0]
        ways = {w for v in visited for w in self.ways[v]}
        if len(ways) == 1 and AWAY not in ways:
            collected.append(Region(weight[start], self.entry, ways.pop(), start))
        for j in visited:
            subtrees = below[j][::-1]
            places = [position[t] for t in subtrees]
            into_subtree = dict.fromkeys(subtrees, 0)
            for w in self.targets[j]:
                if position[w] > position[j]:
                    into_subtree[subtrees[bisect_right(places, position[w]) - 1]] += 1
            rest = [count[start] - 1, weight[start] - self.weights[j]]
            rest_leaving = leaving[start] - int(bool(self.ways[j])) + len(self.targets[j])
            for t in subtrees:
                if low[t] >= position[j]:  # nothing joins this subtree to the rest but j
                    rest[0] -= count[t]
                    rest[1] -= weight[t]
                    rest_leaving -= leaving[t] + into_subtree[t]
                    if count[t] > 1 and leaving[t] + into_subtree[t] == 0:
                        collected.append(Region(weight[t], self.entry, j, t))
            if rest[0] > 1 and rest_leaving == 0:
                collected.append(Region(rest[1], self.entry, j, above[j]))
        return collected
