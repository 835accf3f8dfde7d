"""Results of an accumulation by other routes: sums of paths, in letters that do not commute, modulo a prime."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from inside import count

from accumulus import Accumulation, DifferentiationGraph, Kind


def paths(graph: DifferentiationGraph, source: int, target: int) -> Iterator[tuple[int, ...]]:
    """All paths between two vertices, as their edges."""
    if source == target:
        yield ()
    for edge in graph.out_edges[source]:
        for rest in paths(graph, int(graph.targets[edge]), target):
            yield (edge, *rest)


def all_paths(graph: DifferentiationGraph) -> dict[tuple[int, int], Counter[tuple[int, ...]]]:
    """The paths of each entry of the Jacobian that has any, by the positions of its root and terminal."""
    results = {
        (row, column): Counter(paths(graph, root, terminal))
        for row, root in enumerate(graph.roots)
        for column, terminal in enumerate(graph.terminals)
    }
    return {entry: counts for entry, counts in results.items() if counts}


def polynomials(accumulation: Accumulation) -> dict[tuple[int, int], Counter[tuple[int, ...]]]:
    """Each entry as a polynomial in the labels that do not commute: how often it adds each sequence of edges."""
    values = [Counter({(edge,): 1}) for edge in range(len(accumulation.graph.sources))]
    for is_product, left, right in accumulation.steps:
        values.append(_times(values[left], values[right]) if is_product else values[left] + values[right])
    return {entry: values[reference] for entry, reference in accumulation.entries.items()}


def _times(a: Counter[tuple[int, ...]], b: Counter[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    product: Counter[tuple[int, ...]] = Counter()
    for left, m in a.items():
        for right, n in b.items():
            product[left + right] += m * n
    return product


def as_numbers(
    graph: DifferentiationGraph, entries: Mapping[Any, Counter[tuple[int, ...]]], minus_one: int = -1
) -> dict[Any, Any]:
    """Return the same polynomials with 1 and `minus_one` for units."""
    signs = {Kind.ONE: 1, Kind.MINUS_ONE: minus_one}
    result = {}
    for entry, terms in entries.items():
        sums: Counter[tuple[int, ...]] = Counter()
        for word, times in terms.items():
            units = [signs[kind] for kind in map(Kind, graph.kinds[list(word)].tolist()) if kind in signs]
            rest = tuple(edge for edge in word if graph.kinds[edge] not in signs)
            sums[rest] += times * math.prod(units)
        result[entry] = {monomial: times for monomial, times in sums.items() if times}
    return result


def evaluate(accumulation: Accumulation, labels: list[int], prime: int) -> dict[tuple[int, int], int]:
    """The Jacobian that the accumulation computes, modulo a prime."""
    values = list(labels)
    for is_product, left, right in accumulation.steps:
        values.append((values[left] * values[right] if is_product else values[left] + values[right]) % prime)
    return {key: values[reference] for key, reference in accumulation.entries.items()}


def bauer(graph: DifferentiationGraph, labels: list[int], prime: int) -> dict[tuple[int, int], int]:
    """The Jacobian as the sum over all paths, one by one; entries without a path are left out."""
    column = {terminal: position for position, terminal in enumerate(graph.terminals)}
    entries: dict[tuple[int, int], int] = {}
    for position, root in enumerate(graph.roots):
        stack = [(root, 1)]
        while stack:
            v, product = stack.pop()
            if v in column:
                key = (position, column[v])
                entries[key] = (entries.get(key, 0) + product) % prime
            stack += [(int(graph.targets[e]), product * labels[e] % prime) for e in graph.out_edges[v]]
    return entries


def check(accumulation: Accumulation) -> None:
    """verify(), every entry against Bauer's formula, and the cost recounted."""
    accumulation.verify()
    graph = accumulation.graph
    assert count(accumulation, "fma") == sum(is_product for is_product, _, _ in accumulation.steps)
    paths = dict.fromkeys(graph.terminals, 1)
    for v in graph.topological_order:
        paths.setdefault(v, sum(paths[int(graph.targets[e])] for e in graph.out_edges[v]))
    if sum(paths[root] for root in graph.roots) < 5000:
        prime = 2**61 - 1
        rng = random.Random(1)
        labels = [{1: 1, 2: prime - 1}.get(kind) or rng.randrange(prime) for kind in graph.kinds.tolist()]
        assert evaluate(accumulation, labels, prime) == bauer(graph, labels, prime)


class Words:
    """A polynomial in letters that do not commute: the freest ring there is. Maps words to their factors."""

    def __init__(self, words: dict[tuple[str, ...], float]) -> None:
        self.words = {word: factor for word, factor in words.items() if factor}

    def __mul__(self, other: Words) -> Words:
        results: dict[tuple[str, ...], float] = {}
        for a, x in self.words.items():
            for b, y in other.words.items():
                results[a + b] = results.get(a + b, 0) + x * y
        return Words(results)

    def __add__(self, other: Words) -> Words:
        result = dict(self.words)
        for word, factor in other.words.items():
            result[word] = result.get(word, 0) + factor
        return Words(result)

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
    """Return True if graphs are equal in names, edges, labels, ends, sizes and, if `ordered`, the order of edges."""

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
