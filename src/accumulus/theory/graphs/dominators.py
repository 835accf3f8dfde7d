"""Dominators of a differentiation graph, and the regions that they bound.

**Dominators.** Vertex b dominates v from a root if every path from the root to v goes through b. It postdominates v
from a terminal if every path from v to the terminal goes through b. D* uses both to find its factor subgraphs (Guenter,
Efficient Symbolic Differentiation for Graphics Applications, 2007). The graph of one derivative ∂y/∂x contains only the
vertices on paths from y to x. Its dominators are the dominators from y in the whole graph, and its postdominators are
the postdominators from x, because all vertices on paths from y to a vertex of the smaller graph belong to the smaller
graph. So one tree for each root and one for each terminal serve all derivatives.

In an acyclic graph one pass in topological order suffices: the immediate dominator of v is the deepest vertex above all
predecessors of v in the tree so far (the intersection of Cooper, Harvey and Kennedy, A Simple, Fast Dominance
Algorithm, 2001). Jump pointers (Myers, An Applicative Random-Access Stack, 1983) find it in O(log vertices), so a tree
takes O(edges · log vertices) time in the worst case, and O(vertices) memory.

**Regions.** A region ⟨i,j⟩ is a connected set of vertices such that all edges from outside come from i and all edges to
the outside go to j. i and j may have other edges. Except for chains, regions are nested or disjoint. The nested
decomposition of a graph replaces regions by substitute edges, from the smallest to the largest, with series-parallel
reduction in between. The remainder of a region at its turn is a core, in the notes a complex block without simple
parts. Triconnected components give the same parts, for other purposes (Tarjan and Valdes, Prime Subprogram Parsing of a
Program, 1980; Vanhatalo, Völzer and Koehler, The Refined Process Structure Tree, 2009). In an acyclic graph dominators
suffice:

If no vertex of a region ⟨i,j⟩ is on all paths through it, none dominates j, so the region is a union of whole subtrees
below children of i in the dominator tree. Every edge ⟨u,w⟩ becomes an edge between two children of the immediate
dominator of w: from the child whose subtree contains u to the child w. At the dominators of u below that, the edge
leads to the outside. The regions at i are

* the connected components of the graph on the children of i from which all edges to the outside lead to one vertex j,
* and the connected components of this graph without a vertex j, if they have no edges to the outside and every edge
  between them and j leads to j.

One depth-first search finds both, as for biconnected components (Hopcroft and Tarjan 1973), since the conditions are
sums over its subtrees. For the edges of a subtree to the outside, it suffices to store the two targets that lead
highest. Time: O(edges · log vertices), for the dominators; memory: O(edges).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from accumulus.graph.graph import DifferentiationGraph, vertex_numbers
from accumulus.theory.graphs.traversal import topological_order

#: Immediate dominator of a vertex without one.
NONE: Final = -1


class DominatorTree:
    """Tree of the dominators from given starts; made by `dominators` and `postdominators`.

    The parent of the starts is an origin, which is not a vertex. Its number is the number of vertices.
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
        """Return the deepest vertex that dominates both; a vertex dominates itself. Return `origin` if none does."""
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
        """Return the closest vertex other than v that dominates v; −1 for a start, or if there is none."""
        parent = self._parent[v]
        return NONE if parent == self.origin else parent

    def dominates(self, b: int, v: int) -> bool:
        """Return True if every path from a start to v goes through b; False if there is no path.

        Every reached vertex dominates itself. Time: O(log vertices).
        """
        depth = self._depth[b]
        return 0 < depth <= self._depth[v] and self.ancestor(v, depth) == b

    def chain(self, v: int) -> tuple[int, ...]:
        """Return all vertices that dominate v, from v up to the start; () if no start reaches v."""
        vertices = []
        while v != NONE and self._depth[v] != NONE:
            vertices.append(v)
            v = self.immediate(v)
        return tuple(vertices)

    @property
    def children(self) -> list[list[int]]:
        """Vertices that each vertex dominates immediately, ascending."""
        below: list[list[int]] = [[] for _ in range(self.origin)]
        for v in range(self.origin):
            if (parent := self.immediate(v)) != NONE:
                below[parent].append(v)
        return below


def dominators(graph: DifferentiationGraph, roots: int | Iterable[int]) -> DominatorTree:
    """Return the dominators from a root, or from any vertex or vertices.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x")])
    >>> tree = dominators(graph, graph.roots[0])
    >>> graph.vertices[tree.immediate(graph.terminals[0])], tree.dominates(2, 4)
    ('a', False)
    """
    return _tree(graph, roots, graph.topological_order[::-1], graph.in_edges, graph.sources.tolist())


def postdominators(graph: DifferentiationGraph, terminals: int | Iterable[int]) -> DominatorTree:
    """Return the postdominators from a terminal, or from any vertices: the dominators of the reversed graph.

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
    """Return the dominator tree; `order` is topological: the ends of a vertex's edges come before the vertex."""
    numbers = vertex_numbers(graph, starts)
    tree, first = DominatorTree(len(graph.vertices), numbers), set(numbers)
    for v in order:
        tree.add(v, (ends[e] for e in edges[v]), at_origin=v in first)
    return tree


# Regions -------------------------------------------------------------------------------------------------------------


#: Target outside the graph, for vertices that have no outgoing edge or are protected.
AWAY: Final = -1


class Region(NamedTuple):
    """Vertices with one entry and one exit vertex outside; regions sort from small to large."""

    #: Number of vertices in the region.
    weight: int
    entry: int
    exit: int
    #: One of the vertices in the region.
    seed: int


def regions(
    out: Mapping[int, Mapping[int, object]], into: Mapping[int, Mapping[int, object]], protected: frozenset[int]
) -> list[Region]:
    """Return the regions of an acyclic graph in which no vertex is on all paths, from small to large.

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
    """Keep the two distinct targets whose immediate dominators are highest, with the depths of these."""
    if (level, w) not in nearest:
        nearest.append((level, w))
        nearest.sort()
        del nearest[2:]


class _Siblings:
    """Depth-first search of the graph on the children of one vertex in the dominator tree."""

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
        self.visit_number: dict[int, int] = {}

    def regions(self) -> list[Region]:
        collected = []
        for start in self.children:
            if start not in self.visit_number:
                visited, above = self._search(start)
                if len(visited) > 1:
                    collected.extend(self._in_component(visited, above))
        return collected

    def _search(self, start: int) -> tuple[list[int], dict[int, int]]:
        """Return the vertices of a component in depth-first order, and the parent of each in the search tree."""
        visited = [start]
        above: dict[int, int] = {}
        self.visit_number[start] = 0
        open_lists = [iter(self.neighbours[start])]
        path = [start]
        while path:
            w = next(open_lists[-1], None)
            if w is None:
                open_lists.pop()
                path.pop()
            elif w not in self.visit_number:
                self.visit_number[w] = len(visited)
                visited.append(w)
                above[w] = path[-1]
                path.append(w)
                open_lists.append(iter(self.neighbours[w]))
        return visited, above

    def _in_component(self, visited: list[int], above: dict[int, int]) -> list[Region]:
        position = self.visit_number
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
                if low[t] >= position[j]:  # only j joins this subtree to the rest
                    rest[0] -= count[t]
                    rest[1] -= weight[t]
                    rest_leaving -= leaving[t] + into_subtree[t]
                    if count[t] > 1 and leaving[t] + into_subtree[t] == 0:
                        collected.append(Region(weight[t], self.entry, j, t))
            if rest[0] > 1 and rest_leaving == 0:
                collected.append(Region(rest[1], self.entry, j, above[j]))
        return collected
