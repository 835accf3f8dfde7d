"""Small graphs for the property tests of this room: all of a size, or drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from accumulus.graph.graph import DifferentiationGraph, Kind


def every_dag(vertices: int) -> Iterator[DifferentiationGraph]:
    """All acyclic graphs on so many vertices without parallel edges, with numbers in topological order."""
    pairs = list(combinations(range(vertices), 2))
    for chosen in range(1 << len(pairs)):
        edges = [pair for k, pair in enumerate(pairs) if chosen >> k & 1]
        yield numbered(vertices, edges)


def numbered(vertices: int, edges: list[tuple[Any, ...]]) -> DifferentiationGraph:
    """A graph whose vertices are called by their numbers; isolated ones are left out."""
    return DifferentiationGraph(edges)


@st.composite
def dags(
    draw: Callable[..., Any], vertices: int = 9, edges: int = 18, labels: tuple[Any, ...] = (None,)
) -> DifferentiationGraph:
    """Sparse and dense graphs, with parallel edges; now and then some ends are given, so that others are dead."""
    count = draw(st.integers(2, vertices))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda ends: ends[0] != ends[1])
    chosen = [tuple(sorted(ends)) for ends in draw(st.lists(pair, min_size=1, max_size=edges))]
    names = draw(st.permutations(range(count)))
    made = [(names[j], names[i], draw(st.sampled_from(labels))) for j, i in chosen]
    if draw(st.booleans()):
        return DifferentiationGraph(made)
    tops = sorted({j for j, _, _ in made} - {i for _, i, _ in made})
    leaves = sorted({i for _, i, _ in made} - {j for j, _, _ in made})
    roots = draw(st.lists(st.sampled_from(tops), min_size=1, unique=True))
    terminals = draw(st.lists(st.sampled_from(leaves), min_size=1, unique=True))
    return DifferentiationGraph(made, roots, terminals)


@st.composite
def nested(draw: Callable[..., Any], depth: int = 12) -> DifferentiationGraph:
    """Graphs grown from one edge by putting chains, blocks and bridges in the place of edges, and a few edges more."""
    edges = [(0, 1)]
    vertices = 2
    for _ in range(draw(st.integers(0, depth))):
        j, i = edges.pop(draw(st.integers(0, len(edges) - 1)))
        a, b = vertices, vertices + 1
        bridge = [(j, a), (j, b), (a, b), (a, i), (b, i)]
        shape = draw(st.sampled_from(["chain", "parallel", "strands", "bridge"]))
        edges += {
            "chain": [(j, a), (a, i)],
            "parallel": [(j, i), (j, i)],
            "strands": [(j, a), (a, i), (j, b), (b, i)],
            "bridge": bridge,
        }[shape]
        vertices += {"chain": 1, "parallel": 0, "strands": 2, "bridge": 2}[shape]
    graph = DifferentiationGraph(edges)
    place = {v: k for k, v in enumerate(reversed(graph.topological_order))}
    names = [int(str(v)) for v in graph.vertices]
    for _ in range(draw(st.integers(0, 2))):
        u, v = draw(st.permutations(range(len(names))))[:2] if len(names) > 1 else (0, 0)
        if place[u] < place[v]:
            edges.append((names[u], names[v]))
    return DifferentiationGraph(draw(st.permutations(edges)))


ALL_LABELS = (None, "a", 1.0, -1.0, 2.5, Kind.CONSTANT)


class Words:
    """A polynomial in letters that do not commute: the freest ring there is. Maps words to their factors."""

    def __init__(self, words: dict[tuple[str, ...], float]) -> None:
        self.words = {word: factor for word, factor in words.items() if factor}

    def __mul__(self, other: Words) -> Words:
        found: dict[tuple[str, ...], float] = {}
        for a, x in self.words.items():
            for b, y in other.words.items():
                found[a + b] = found.get(a + b, 0) + x * y
        return Words(found)

    def __add__(self, other: Words) -> Words:
        found = dict(self.words)
        for word, factor in other.words.items():
            found[word] = found.get(word, 0) + factor
        return Words(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words) and self.words == other.words

    def __hash__(self) -> int:
        return hash(frozenset(self.words.items()))

    def __repr__(self) -> str:
        return " + ".join(f"{factor}·{'·'.join(word)}" for word, factor in sorted(self.words.items())) or "0"


ONE = Words({(): 1})


def letters(graph: DifferentiationGraph) -> list[Words]:
    """A letter for each label: the edge's symbol, or its number, and ±1 for unit edges."""
    fixed = {Kind.ONE: Words({(): 1}), Kind.MINUS_ONE: Words({(): -1})}
    return [
        fixed.get(Kind(int(kind)), Words({(graph.symbols[e] or f"edge {e}",): 1})) for e, kind in enumerate(graph.kinds)
    ]


def lettered(graph: DifferentiationGraph) -> DifferentiationGraph:
    """The graph with a symbol of its own for every label that is not a unit."""
    names = graph.vertices
    edges = [
        (names[j], names[i], Kind(int(k)) if k in (Kind.ONE, Kind.MINUS_ONE) else f"e{e}")
        for e, (j, i, k) in enumerate(zip(graph.sources, graph.targets, graph.kinds, strict=True))
    ]
    return DifferentiationGraph(edges, [names[v] for v in graph.roots], [names[v] for v in graph.terminals])


def same(first: DifferentiationGraph, second: DifferentiationGraph, *, ordered: bool = True) -> bool:
    """Whether two graphs are equal in names, edges, labels, ends and sizes; edges in the same order if `ordered`."""

    def described(graph: DifferentiationGraph) -> tuple[Any, ...]:
        names = graph.vertices
        edges = [
            (names[j], names[i], kind, graph.symbols[e], graph.constants.get(e))
            for e, (j, i, kind) in enumerate(zip(graph.sources, graph.targets, graph.kinds.tolist(), strict=True))
        ]
        return (
            graph.name,
            [names[v] for v in graph.roots],
            [names[v] for v in graph.terminals],
            edges if ordered else sorted(edges, key=repr),
            dict(zip(names, graph.sizes.tolist(), strict=True)),
        )

    return described(first) == described(second)
