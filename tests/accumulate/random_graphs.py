"""Random differentiation graphs for the property tests of this room, and Bauer's formula by plain recursion."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from accumulus.accumulate.accumulation import Accumulation
from accumulus.accumulate.cost import count
from accumulus.graph.graph import DifferentiationGraph, Kind

LION = [("0a", "1"), ("0b", "1"), ("1", "2"), ("1", "5"), ("2", "3a"), ("2", "3b"), ("2", "4"), ("2", "5")]
BAT = [("0a", "2"), ("0b", "2"), ("1a", "3"), ("1b", "3"), ("2", "4"), ("3", "4"), ("2", "5"), ("3", "7")]
BAT += [("4", "5"), ("4", "6a"), ("4", "6b"), ("4", "7")]

SHAPES = ("sparse", "dense", "layered", "series-parallel", "deep", "star")


def lion() -> DifferentiationGraph:
    return DifferentiationGraph(LION)


def bat() -> DifferentiationGraph:
    return DifferentiationGraph(BAT)


def _label(rng: random.Random) -> Any:
    return rng.choice([None, None, None, None, Kind.ONE, Kind.MINUS_ONE, 2.5])


def random_graph(shape: str, size: int, seed: int) -> DifferentiationGraph:
    """A graph of about `size` vertices; vertex numbers are not in topological order."""
    rng = random.Random(seed)
    pairs: list[tuple[int, int]] = []
    if shape in ("sparse", "dense"):
        chance = 2.0 / size if shape == "sparse" else 0.6
        pairs = [(j, i) for j in range(size) for i in range(j + 1, size) if rng.random() < chance]
    elif shape == "layered":
        width = max(2, round(size**0.5))
        for v in range(size - width):
            level = v // width + 1
            below = range(level * width, min((level + 1) * width, size))
            pairs += [(v, rng.choice(below)) for _ in range(rng.randint(1, 3)) if below]
    elif shape == "series-parallel":
        pairs = [(0, 1)]
        while len(pairs) < 1.5 * size:
            k = rng.randrange(len(pairs))
            j, i = pairs[k]
            new = 1 + max(max(pair) for pair in pairs)
            pairs += [(j, new), (new, i)]
            if rng.random() < 0.5:
                pairs[k] = pairs.pop()
                pairs[k], pairs[-1] = (j, new), (new, i)
    elif shape == "deep":
        pairs = [(v, v + 1) for v in range(size - 1)]
        pairs += [tuple(sorted(rng.sample(range(size), 2))) for _ in range(size // 3)]  # type: ignore[misc]
    else:
        centre = size // 2
        pairs = [(v, centre) for v in range(centre)] + [(centre, v) for v in range(centre + 1, size)]
        pairs += [tuple(sorted(rng.sample(range(size), 2))) for _ in range(3)]  # type: ignore[misc]
    names = list(range(1 + max((max(pair) for pair in pairs), default=1)))
    rng.shuffle(names)
    edges = [(names[j], names[i], _label(rng)) for j, i in pairs] or [("y", "x")]
    rng.shuffle(edges)
    return DifferentiationGraph(edges)


@st.composite
def graphs(draw: Any, largest: int = 14) -> DifferentiationGraph:
    """Graphs of every shape, with unit and constant labels and parallel edges, some with an output that others use."""
    graph = random_graph(draw(st.sampled_from(SHAPES)), draw(st.integers(4, largest)), draw(st.integers(0, 10**6)))
    if graph.intermediates and draw(st.booleans()):
        extra = draw(st.sampled_from(graph.intermediates))
        edges = [
            (graph.vertices[j], graph.vertices[i], Kind(kind) if e not in graph.constants else graph.constants[e])
            for e, (j, i, kind) in enumerate(zip(graph.sources, graph.targets, graph.kinds.tolist(), strict=True))
        ]
        edges = [(j, i, None if label is Kind.VARIABLE else label) for j, i, label in edges]
        graph = DifferentiationGraph(edges, roots=[graph.vertices[v] for v in (*graph.roots, extra)])
    return graph


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
