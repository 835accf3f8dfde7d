"""Disjoint paths: how many ways lead from a vertex to the roots, or to the terminals, without meeting.

Maximum flow from a vertex, where every other vertex lets through as much as its size: by Menger's theorem the weight
of the lightest set of vertices that cuts it off (Ford and Fulkerson 1956; shortest augmenting paths: Edmonds and Karp
1972). Labels at the vertex itself matter to what a product costs, so the edges that leave it are offered in
groups, by level; augmenting never gives up an edge of an earlier group, so each group adds to those before.

Time: O(edges) for every augmenting path, of which there are as many as disjoint paths if all sizes are 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from accumulus.deadline import FOREVER, Deadline

__all__ = ["Path", "disjoint_paths"]

#: Level of labels by successor or predecessor, for each vertex; see `accumulus.search.elimination`.
Neighbours = Sequence[Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Path:
    """A way from a vertex to an end of the graph: the vertices behind the first, its share of the flow, and the level
    of its first edge."""

    vertices: tuple[int, ...]
    width: int
    level: int


def disjoint_paths(
    v: int,
    neighbours: Neighbours,
    sizes: Sequence[int],
    groups: Iterable[Collection[int]],
    deadline: Deadline = FOREVER,
) -> list[Path]:
    """A maximum flow from a vertex to the ends of the graph, as paths.

    Args:
        v: where the paths start.
        neighbours: predecessors of every vertex for paths to the roots, successors for paths to the terminals.
        sizes: how much each vertex lets through.
        groups: levels of the first edges, those first that are to be used most.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    flow = _Flow(v, neighbours, sizes)
    for levels in groups:
        firsts = [u for u, level in neighbours[v].items() if level in levels]
        flow.fill(firsts)
        while flow.augment(firsts):
            deadline.check()
    return flow.paths()


class _Flow:
    """A flow from `start`; a vertex u is two nodes, 2u where it is entered and 2u+1 where it is left."""

    def __init__(self, start: int, neighbours: Neighbours, sizes: Sequence[int]) -> None:
        self.start, self.neighbours, self.sizes = start, neighbours, sizes
        self.through: dict[int, int] = {}
        #: Flow into each vertex, by where it comes from.
        self.into: dict[int, dict[int, int]] = {}

    def fill(self, firsts: Iterable[int]) -> None:
        """Push what goes to those of `firsts` that are ends: the shortest augmenting paths, all at once."""
        for u in firsts:
            room = self.sizes[u] - self.through.get(u, 0)
            if room and not self.neighbours[u]:
                self._add(u, self.start, room)
                self.through[u] = self.sizes[u]

    def augment(self, firsts: Iterable[int]) -> bool:
        """Push more along a shortest augmenting path whose first edge leads to one of `firsts`."""
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
        amount = min(self._room(a, b) for a, b in pairwise(nodes))
        self._add(nodes[0] >> 1, self.start, amount)
        for a, b in pairwise(nodes):
            u, w = a >> 1, b >> 1
            if u == w:
                self.through[u] = self.through.get(u, 0) + (amount if b & 1 else -amount)
            elif b & 1:
                self._add(u, w, -amount)
            else:
                self._add(w, u, amount)

    def _room(self, a: int, b: int) -> int:
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
        """The flow as paths; the graph is acyclic, so nothing else is in it."""
        out: dict[int, dict[int, int]] = {}
        for u, row in self.into.items():
            for origin, amount in row.items():
                out.setdefault(origin, {})[u] = amount
        found = []
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
            found.append(Path(tuple(vertices[1:]), width, self.neighbours[self.start][vertices[1]]))
        return found
