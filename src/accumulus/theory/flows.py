"""Numbers of disjoint paths, and the lower bounds on the cost of each vertex that they give.

A maximum flow counts the disjoint paths from a vertex to the roots, or to the terminals.

The capacity of every other vertex is its size. By Menger's theorem the flow equals the weight of the lightest set of
vertices that separates the vertex from the roots or terminals (Ford and Fulkerson 1956; shortest augmenting paths:
Edmonds and Karp 1972). The cost of a product depends on the labels at the vertex itself, so the edges that leave it are
added in groups, by level. Augmentation never removes the flow through an edge of an earlier group, so each group adds
to the previous ones.

Time: O(edges) for every augmenting path; if all sizes are 1, the augmenting paths are as many as the disjoint paths.

**Lemma.** Let p₁ … p_a be paths from roots to an intermediate vertex v, and q₁ … q_b paths from v to terminals, such
that no two of the p share a vertex but v, and no two of the q. Then at least a·b products join labels at v.

*Proof.* For every i and j, the path p_i q_j is a term of the Jacobian. At some step the part of the path that ends in v
is multiplied by the part that starts there. Let the left factor start at u, and let the right factor end at w. All
paths in a factor have the same two ends. Since u lies on p_i and on no other p, it determines i, and w determines j. So
the a·b pairs need different products. ∎

The proof uses only that a product joins, at one vertex, a sum of paths that end there with a sum of paths that start
there. So the bound holds for vertex, edge and face elimination, and also for programs that split vertices, share, and
factor. A maximum flow gives the number of disjoint paths. With vector-valued vertices, a vertex of size s carries up to
s paths of unit width, and a product u–v–w, which costs the product of the three sizes, serves size(u)·size(w) pairs. So
the bound is size(v) times both flows. If products with ±1 and of two constants are free, only pairs count whose labels
at v make the product cost: a label that includes a variable edge is a variable, and a label that includes an edge other
than ±1 is not ±1. A flow that prefers variable edges, then constants, maximises both numbers.

Lower bounds of this kind for vertex and edge elimination go back to Mosenkis and Naumann, On lower bounds for optimal
Jacobian accumulation (2018).

Exact flows take O(vertices · edges · width). Graphs beyond `FLOW_WORK` get forests instead: every vertex follows one
edge up and one edge down, so the neighbours of v that lead to different roots start disjoint paths. Forests take linear
time, and the bound is slightly weaker.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.graphs.traversal import topological_order

#: Levels of labels in the order in which a flow prefers them.
_GROUPS: Final = {Objective.FMA: ((1, 2, 3),), Objective.MULTIPLICATIONS: ((3,), (2,))}

#: For each vertex the levels of its labels by neighbour; see `accumulus.search.elimination`.
Neighbours = Sequence[Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Path:
    """A path of a flow, from a vertex to a root or terminal.

    Attributes:
        vertices: vertices of the path after the first.
        width: flow along the path.
        level: level of the label of the first edge.
    """

    vertices: tuple[int, ...]
    width: int
    level: int


def disjoint_paths(state: Elimination, v: int, neighbours: Neighbours) -> list[Path]:
    """Return a maximum flow from a vertex to the roots or terminals, as paths; a vertex's capacity is its size.

    Unless every product counts, no path leaves v through an edge with the label ±1.

    Args:
        state: graph of the paths.
        v: first vertex of the paths.
        neighbours: predecessors of every vertex for paths to the roots, successors for paths to the terminals.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    flow = _Flow(v, neighbours, state.sizes)
    for levels in _GROUPS[state.objective.of_eliminations]:
        firsts = [u for u, level in neighbours[v].items() if level in levels]
        flow.fill(firsts)
        while flow.augment(firsts):
            state.deadline.check()
    return flow.paths()


class _Flow:
    """A flow from `start`; a vertex u has two nodes, 2u for the incoming and 2u + 1 for the outgoing flow."""

    def __init__(self, start: int, neighbours: Neighbours, sizes: Sequence[int]) -> None:
        self.start, self.neighbours, self.sizes = start, neighbours, sizes
        self.through: dict[int, int] = {}
        #: Flow into each vertex, by the previous vertex.
        self.into: dict[int, dict[int, int]] = {}

    def fill(self, firsts: Iterable[int]) -> None:
        """Push flow to all roots or terminals among `firsts`: the shortest augmenting paths."""
        for u in firsts:
            capacity = self.sizes[u] - self.through.get(u, 0)
            if capacity and not self.neighbours[u]:
                self._add(u, self.start, capacity)
                self.through[u] = self.sizes[u]

    def augment(self, firsts: Iterable[int]) -> bool:
        """Push flow along a shortest augmenting path that starts with one of `firsts`; return False if none exists."""
        came_from: dict[int, int] = {2 * u: -1 for u in firsts}
        queue = deque(came_from)
        while queue:
            node = queue.popleft()
            u = node >> 1
            if node & 1:
                if not self.neighbours[u]:
                    self._push(node, came_from)
                    return True
                steps = [2 * w for w in self.neighbours[u]]
                if self.through.get(u, 0):
                    steps.append(2 * u)
            else:
                steps = [2 * w + 1 for w in self.into.get(u, ()) if w != self.start]
                if self.through.get(u, 0) < self.sizes[u]:
                    steps.append(2 * u + 1)
            for step in steps:
                if step not in came_from:
                    came_from[step] = node
                    queue.append(step)
        return False

    def _push(self, last: int, came_from: Mapping[int, int]) -> None:
        nodes = [last]
        while nodes[-1] >= 0:
            nodes.append(came_from[nodes[-1]])
        nodes = nodes[-2::-1]
        amount = min(self._capacity(a, b) for a, b in pairwise(nodes))
        self._add(nodes[0] >> 1, self.start, amount)
        for a, b in pairwise(nodes):
            u, w = a >> 1, b >> 1
            if u == w:
                self.through[u] = self.through.get(u, 0) + (amount if b & 1 else -amount)
            elif b & 1:
                self._add(u, w, -amount)
            else:
                self._add(w, u, amount)

    def _capacity(self, a: int, b: int) -> int:
        u, w = a >> 1, b >> 1
        if u == w:
            return self.sizes[u] - self.through.get(u, 0) if b & 1 else self.through[u]
        return self.into[u][w] if b & 1 else self.sizes[w]

    def _add(self, u: int, origin: int, amount: int) -> None:
        row = self.into.setdefault(u, {})
        row[origin] = row.get(origin, 0) + amount
        if not row[origin]:
            del row[origin]

    def paths(self) -> list[Path]:
        """Return the decomposition of the flow into paths; there are no cycles, since the graph is acyclic."""
        out: dict[int, dict[int, int]] = {}
        for u, row in self.into.items():
            for origin, amount in row.items():
                out.setdefault(origin, {})[u] = amount
        flow_paths = []
        while out.get(self.start):
            vertices = [self.start]
            while self.neighbours[vertices[-1]]:
                vertices.append(next(iter(out[vertices[-1]])))
            hops = list(pairwise(vertices))
            width = min(out[a][b] for a, b in hops)
            for a, b in hops:
                out[a][b] -= width
                if not out[a][b]:
                    del out[a][b]
            flow_paths.append(Path(tuple(vertices[1:]), width, self.neighbours[self.start][vertices[1]]))
        return flow_paths


# The bound of each vertex ---------------------------------------------------------------------------------------------


#: Product of vertices and edges up to which flows are exact: a larger one takes seconds on large graphs, a smaller one
#: leaves weaker bounds.
FLOW_WORK: Final = 200_000
#: Largest number of edges that all forests together visit, and largest number of forests. More take time, fewer leave
#: weaker bounds.
_FOREST_WORK: Final = 400_000
_MOST_FORESTS: Final = 8
#: Seconds of work for each edge in the flow from a vertex, or in a forest. Estimates above the true time give up
#: bounds, estimates below exceed the work.
FOLLOW: Final = 1e-6


class Ways(NamedTuple):
    """Numbers of disjoint paths from a vertex to the roots or terminals, by the label of their first edge."""

    variable: int
    nonunit: int


def least_costs(
    state: Elimination,
    vertices: Iterable[int] | None = None,
    flow_work: int = FLOW_WORK,
) -> dict[int, int]:
    """Return for each vertex a lower bound on the cost of the products at it, in any elimination of the graph.

    Args:
        state: graph in its present state.
        vertices: remaining intermediates; by default all intermediates of the state.
        flow_work: product of vertices and edges up to which flows are exact.
    """
    chosen = state.intermediates if vertices is None else tuple(vertices)
    edges = sum(map(len, state.successors))
    if len(chosen) * edges <= flow_work:
        exact = {}
        for v in chosen:
            state.deadline.spend(FOLLOW * edges)
            above, below = (
                ways(disjoint_paths(state, v, near), state.objective) for near in (state.predecessors, state.successors)
            )
            exact[v] = pair_cost(state.sizes[v], above, below)
        return exact
    # vertices with edges, dependencies first
    waiting = {v: len(below) for v, below in enumerate(state.successors) if below or state.predecessors[v]}
    order = topological_order(waiting, state.predecessors.__getitem__)
    costs = dict.fromkeys(chosen, 0)
    for k in range(max(1, min(_MOST_FORESTS, _FOREST_WORK // max(1, edges)))):
        state.deadline.check(FOLLOW * edges)
        rng = random.Random(k)
        to_roots = _forest_ways(order[::-1], state.predecessors, state, rng)
        to_terminals = _forest_ways(order, state.successors, state, rng)
        for v in chosen:
            costs[v] = max(costs[v], pair_cost(state.sizes[v], to_roots[v], to_terminals[v]))
    return costs


def disjoint_pairs(
    state: Elimination, intermediates: Iterable[int]
) -> Iterator[tuple[int, Path, Path, tuple[int, ...]]]:
    """Yield for each vertex all pairs of a disjoint path up and one down, and the joined path from root to terminal."""
    for v in intermediates:
        below = disjoint_paths(state, v, state.successors)
        for p in disjoint_paths(state, v, state.predecessors):
            for q in below:
                yield v, p, q, (*reversed(p.vertices), v, *q.vertices)


def ways(paths: Iterable[Path], objective: Objective) -> Ways:
    """Return the total widths of the paths by the levels of their first edges."""
    variable = nonunit = 0
    for path in paths:
        nonunit += path.width
        if path.level == 3 or objective.every_product:
            variable += path.width
    return Ways(variable, nonunit)


def pair_cost(size: int, above: Ways, below: Ways) -> int:
    """Return the cost of the pairs of paths through a vertex of this size."""
    return size * (above.variable * below.nonunit + (above.nonunit - above.variable) * below.variable)


def _forest_ways(
    order: Sequence[int], neighbours: Neighbours, state: Elimination, rng: random.Random
) -> dict[int, Ways]:
    """Return the numbers of disjoint paths along a random forest; the roots or terminals come first in the order."""
    sizes, fma = state.sizes, state.objective.every_product
    tree: dict[int, int] = {}
    width: dict[int, int] = {}
    forest = {}
    for v in order:
        row = neighbours[v]
        if not row:
            tree[v], width[v] = v, sizes[v]
            continue
        parent = rng.choice(tuple(row))
        tree[v], width[v] = tree[parent], min(width[parent], sizes[v])
        # the best path into each tree: through a variable label if there is one, then the widest
        best: dict[int, tuple[bool, int]] = {}
        for u, level in row.items():
            if level == 1 and not fma:
                continue
            way = (fma or level == 3, width[u])
            if way > best.get(tree[u], (False, 0)):
                best[tree[u]] = way
        variable = sum(wide for varies, wide in best.values() if varies)
        forest[v] = Ways(variable, sum(wide for _, wide in best.values()))
    return forest
