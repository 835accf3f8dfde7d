"""All small differentiation graphs, up to isomorphism and reversal, that the question has to be asked for.

**The class.** A *reduced* graph is connected, every vertex lies on a path from a root to a terminal, and there are no
parallel edges, no edges from a root to a terminal, and no intermediate vertices with one edge in and one out. That
other graphs need not be looked at is proven in docs/research.md.

**The enumeration.** In a reduced graph a root is a set of intermediates, those that its edges go to, and a terminal is
one, too. So a reduced graph is an acyclic graph on k intermediates with a multiset of root sets and one of terminal
sets, and its canonical form is the least of their images under the k! renumberings. The k intermediates have degrees of
3k or more in all, which bounds k by 2(edges − 1)/3.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import permutations, product
from operator import or_

from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph

Edges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, order=True, slots=True)
class ReducedGraph:
    """A reduced graph.

    >>> lion = ReducedGraph(2, ((0, 1),), (1, 1), (2, 2, 2, 3))
    >>> lion.key, lion.edges
    ('2:01:0,0:1,1,1,01', 8)
    """

    intermediates: int  # how many
    inner: Edges  # edges between intermediates
    roots: tuple[int, ...]  # the intermediates that each root's edges go to, as bits, ascending
    terminals: tuple[int, ...]  # those that each terminal's edges come from

    @property
    def edges(self) -> int:
        """Return how many edges the graph has."""
        return len(self.inner) + sum(map(int.bit_count, self.roots + self.terminals))

    @property
    def key(self) -> str:
        """The graph as text: intermediates, edges between them, those of each root, those of each terminal."""
        inner = ",".join(f"{i}{j}" for i, j in self.inner)
        sides = (",".join("".join(map(str, _members(s))) for s in side) for side in (self.roots, self.terminals))
        return ":".join((str(self.intermediates), inner, *sides))

    @classmethod
    def parse(cls, key: str) -> ReducedGraph:
        """The graph of a key.

        Raises:
            GraphError: if the text is no key.
        """
        try:
            count, inner, *sides = key.split(":")
            roots, terminals = (tuple(sum(1 << int(v) for v in s) for s in side.split(",")) for side in sides)
            edges = tuple((int(pair[:1]), int(pair[1:])) for pair in inner.split(",")) if inner else ()
            graph = cls(int(count), edges, roots, terminals)
        except ValueError:
            graph = None
        if graph is None or graph.key != key or not _is_reduced(graph):
            raise GraphError(f"{key!r} is no graph of the census; expected a key such as 2:01:0,0:1,1,1,01")
        return graph

    def named_edges(self) -> list[tuple[str, str]]:
        """The edges between vertices y1, …, v1, …, x1, …."""
        return [
            *((f"y{k}", f"v{v + 1}") for k, s in enumerate(self.roots, 1) for v in _members(s)),
            *((f"v{i + 1}", f"v{j + 1}") for i, j in self.inner),
            *((f"v{v + 1}", f"x{k}") for k, s in enumerate(self.terminals, 1) for v in _members(s)),
        ]

    def graph(self) -> DifferentiationGraph:
        """The differentiation graph, all labels variable."""
        return DifferentiationGraph(
            self.named_edges(),
            [f"y{k}" for k in range(1, len(self.roots) + 1)],
            [f"x{k}" for k in range(1, len(self.terminals) + 1)],
            name=self.key,
        )

    def canonical(self) -> ReducedGraph:
        """The least isomorphic graph."""
        inner, ways = _ways(self.intermediates, self.inner)
        roots, terminals = min(
            (tuple(sorted(_image(s, way) for s in self.roots)), tuple(sorted(_image(s, way) for s in self.terminals)))
            for way in ways
        )
        return ReducedGraph(self.intermediates, inner, roots, terminals)

    def reversed(self) -> ReducedGraph:
        """The graph with every edge turned round; not canonical."""
        return ReducedGraph(self.intermediates, tuple((j, i) for i, j in self.inner), self.terminals, self.roots)


def reduced_graphs(edges: int) -> Iterator[ReducedGraph]:
    """Every reduced graph with so many edges, once up to isomorphism and reversal, in canonical form.

    >>> [len(list(reduced_graphs(edges))) for edges in range(3, 8)]
    [1, 2, 8, 28, 113]
    """
    for intermediates in range(1, max(1, 2 * (edges - 1) // 3) + 1):
        for inner in range(edges - 1):
            yield from _with_inner(intermediates, inner, edges - inner)


def random_reduced_graph(edges: int, rng: random.Random) -> ReducedGraph:
    """A random reduced graph with so many edges (5 or more), in canonical form, no distribution promised.

    Two to five intermediates, inner edges by chance; roots and terminals mostly with one or two edges, now and then
    several alike, since what is worth sharing depends on how many use it.

    >>> random_reduced_graph(12, random.Random(1)).edges
    12
    """
    while True:
        k = rng.randint(2, max(2, min(5, 2 * (edges - 1) // 3)))
        pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
        inner = rng.sample(pairs, min(rng.randint(k - 1, len(pairs)), edges - 2))
        left = edges - len(inner)
        sides: tuple[list[int], list[int]] = ([], [])
        while left > 0:
            members = rng.sample(range(k), min(k, left, rng.choice((1, 1, 1, 2, 2, 3))))
            copies = min(left // len(members), rng.choice((1, 1, 2, 3)))
            sides[rng.randrange(2)].extend([sum(1 << v for v in members)] * copies)
            left -= copies * len(members)
        graph = ReducedGraph(k, tuple(sorted(inner)), tuple(sorted(sides[0])), tuple(sorted(sides[1])))
        if _is_reduced(graph):
            return graph.canonical()


def _is_reduced(graph: ReducedGraph) -> bool:
    """Return whether a graph that has no cycle is one of the class."""
    k, inner = graph.intermediates, graph.inner
    if any(v >= k for edge in inner for v in edge) or any(s >> k for s in (*graph.roots, *graph.terminals)):
        return False
    into = [sum(j == v for _, j in inner) + sum(s >> v & 1 for s in graph.roots) for v in range(k)]
    out = [sum(i == v for i, _ in inner) + sum(s >> v & 1 for s in graph.terminals) for v in range(k)]
    return all(a and b and a + b > 2 for a, b in zip(into, out, strict=True)) and _connected(graph)


def _with_inner(k: int, inner_edges: int, outer: int) -> Iterator[ReducedGraph]:
    if 2 * inner_edges + outer < 3 * k:
        return
    for inner in _acyclic(k, inner_edges):
        into = [sum(j == v for _, j in inner) for v in range(k)]
        out = [sum(i == v for i, _ in inner) for v in range(k)]
        _, ways = _ways(k, inner)
        for above in range(1, outer):
            roots = list(_sides(k, above, into))
            terminals = list(_sides(k, outer - above, out)) if roots else []
            for one, in_degrees in roots:
                for other, out_degrees in terminals:
                    if any(a == 1 == b for a, b in zip(in_degrees, out_degrees, strict=True)):
                        continue
                    graph = ReducedGraph(k, inner, one, other)
                    if _is_least(graph, ways) and _connected(graph) and graph <= graph.reversed().canonical():
                        yield graph


def _is_least(graph: ReducedGraph, ways: Sequence[tuple[int, ...]]) -> bool:
    """Return whether no automorphism of the inner edges gives lesser roots and terminals."""
    for way in ways:
        roots = tuple(sorted(_image(s, way) for s in graph.roots))
        if roots > graph.roots:
            continue
        if (roots, tuple(sorted(_image(s, way) for s in graph.terminals))) < (graph.roots, graph.terminals):
            return False
    return True


@lru_cache(maxsize=64)
def _acyclic(k: int, edges: int) -> tuple[Edges, ...]:
    """Acyclic graphs on k vertices up to isomorphism, connected or not, by adding an edge to those with one fewer."""
    if edges == 0:
        return ((),)
    found = set()
    for inner in _acyclic(k, edges - 1):
        reach = _reach(k, inner)
        for i, j in product(range(k), repeat=2):
            if i != j and (i, j) not in inner and not reach[j] >> i & 1:
                found.add(_ways(k, tuple(sorted((*inner, (i, j)))))[0])
    return tuple(sorted(found))


def _reach(k: int, inner: Edges) -> list[int]:
    reach = [1 << v for v in range(k)]
    for _ in range(k):
        for i, j in inner:
            reach[i] |= reach[j]
    return reach


@lru_cache(maxsize=1 << 16)
def _ways(k: int, inner: Edges) -> tuple[Edges, tuple[tuple[int, ...], ...]]:
    """The least image of the edges under renumbering, and every renumbering that gives it."""
    colour = [0] * k
    for _ in range(k):
        finer = [
            (
                colour[v],
                tuple(sorted(colour[i] for i, j in inner if j == v)),
                tuple(sorted(colour[j] for i, j in inner if i == v)),
            )
            for v in range(k)
        ]
        order = {c: n for n, c in enumerate(sorted(set(finer)))}
        colour = [order[c] for c in finer]
    classes = [[v for v in range(k) if colour[v] == c] for c in range(max(colour) + 1)]
    best: Edges | None = None
    ways: list[tuple[int, ...]] = []
    for arrangement in product(*(permutations(members) for members in classes)):
        way = [0] * k
        for number, v in enumerate(v for members in arrangement for v in members):
            way[v] = number
        image = tuple(sorted((way[i], way[j]) for i, j in inner))
        if best is None or image < best:
            best, ways = image, []
        if image == best:
            ways.append(tuple(way))
    assert best is not None
    return best, tuple(ways)


def _sides(k: int, edges: int, degrees: Sequence[int]) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Multisets of sets of vertices with so many members in all, that leave no vertex without an edge on this side."""
    for sets in _multisets(k, edges, 1):
        total = [degrees[v] + sum(s >> v & 1 for s in sets) for v in range(k)]
        if min(total) >= 1:
            yield sets, total


def _multisets(k: int, members: int, least: int) -> Iterator[tuple[int, ...]]:
    if members == 0:
        yield ()
        return
    for s in range(least, 1 << k):
        if s.bit_count() <= members:
            for rest in _multisets(k, members - s.bit_count(), s):
                yield (s, *rest)


def _connected(graph: ReducedGraph) -> bool:
    groups = [1 << v for v in range(graph.intermediates)]
    for s in (*graph.roots, *graph.terminals, *((1 << i) | (1 << j) for i, j in graph.inner)):
        touched = reduce(or_, (group for group in groups if group & s), s)
        groups = [*(group for group in groups if not group & s), touched]
    return len(groups) == 1


def _image(members: int, way: Sequence[int]) -> int:
    return sum(1 << way[v] for v in _members(members))


def _members(members: int) -> list[int]:
    return [v for v in range(members.bit_length()) if members >> v & 1]
