"""Random graphs with every odd shape, and what an accumulation computes as sums of paths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from accumulus.accumulate.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph, Kind

LABELS = (None, "a", 1, -1, 2.5, 0.0, Kind.CONSTANT, Kind.VARIABLE, Kind.ONE)


@st.composite
def graphs(draw: Callable[..., Any], vertices: int = 8, sized: bool = False) -> DifferentiationGraph:
    """With parallel edges, dead parts, inputs that nothing uses, and outputs that are inputs or inner vertices."""
    names = draw(st.permutations([f"v{k}" for k in range(draw(st.integers(1, vertices)))]))
    pairs = [(j, i) for j in range(len(names)) for i in range(j)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2 * len(names))) if pairs else []
    edges = [(names[j], names[i], draw(st.sampled_from(LABELS))) for j, i in draw(st.permutations(chosen))]
    leaves = [name for name in names if all(name != source for source, _, _ in edges)]
    terminals = draw(st.lists(st.sampled_from(leaves), min_size=1, unique=True))
    roots = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    known = {end for edge in edges for end in edge[:2]} | {*roots, *terminals}
    sizes = {name: draw(st.integers(1, 3)) for name in names if sized and name in known}
    return DifferentiationGraph(edges, roots, terminals, sizes=sizes, name=draw(st.text(max_size=3)))


def orders(graph: DifferentiationGraph) -> st.SearchStrategy[list[int]]:
    """Elimination orders of the graph."""
    return st.permutations(graph.intermediates)


def paths(graph: DifferentiationGraph, source: int, target: int) -> Iterator[tuple[int, ...]]:
    """All paths between two vertices, as their edges."""
    if source == target:
        yield ()
    for edge in graph.out_edges[source]:
        for rest in paths(graph, int(graph.targets[edge]), target):
            yield (edge, *rest)


def all_paths(graph: DifferentiationGraph) -> dict[tuple[int, int], Counter[tuple[int, ...]]]:
    """The paths of each entry of the Jacobian that has any, by the positions of its root and terminal."""
    found = {
        (row, column): Counter(paths(graph, root, terminal))
        for row, root in enumerate(graph.roots)
        for column, terminal in enumerate(graph.terminals)
    }
    return {entry: counts for entry, counts in found.items() if counts}


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


def as_numbers(graph: DifferentiationGraph, entries: Mapping[Any, Counter[tuple[int, ...]]]) -> dict[Any, Any]:
    """The same polynomials where labels commute and units are ±1; entries that are zero then are left out."""
    signs = {Kind.ONE: 1, Kind.MINUS_ONE: -1}
    result = {}
    for entry, terms in entries.items():
        sums: Counter[tuple[int, ...]] = Counter()
        for word, times in terms.items():
            units = [signs[kind] for kind in map(Kind, graph.kinds[list(word)].tolist()) if kind in signs]
            rest = sorted(edge for edge in word if graph.kinds[edge] not in signs)
            sums[tuple(rest)] += times * math.prod(units)
        left = {monomial: times for monomial, times in sums.items() if times}
        if left:
            result[entry] = left
    return result
