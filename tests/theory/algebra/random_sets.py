"""Random expressions, and random accumulations of a graph, sensible and silly: any bracketing, any sharing."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from inside import Steps, eliminate_vertices

from accumulus import Accumulation, DifferentiationGraph, Kind
from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Reference, Symbol, product_of_factors, sum_of_terms

NAMES = ["a", "b", "e1", "e2", "e10", "x′", "two words", "e_{3}", "∂f", "v-2", "é"]

leaves = st.sampled_from(NAMES).map(Symbol) | st.sampled_from(["s1", "s2"]).map(Reference)
#: Expressions of every form; not path sums of any graph.
expressions = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(product_of_factors)
        | st.lists(inner, min_size=2, max_size=3).map(sum_of_terms)
    ),
    max_leaves=12,
)


@st.composite
def plain_graphs(draw: Any, vertices: int = 8, units: bool = False) -> DifferentiationGraph:
    """Graphs with symbols on all edges, and some unit edges if `units`."""
    size = draw(st.integers(3, vertices))
    rng = random.Random(draw(st.integers(0, 10**6)))
    density = draw(st.sampled_from([0.25, 0.4, 0.6]))
    pairs = [(j, i) for j in range(size) for i in range(j + 1, size) if rng.random() < density] or [(0, 1)]
    names = [f"v{k}" for k in rng.sample(range(size), size)]
    labels: list[Any] = [f"e{k}" for k in range(1, len(pairs) + 1)]
    if units:
        labels = [Kind.ONE if rng.random() < 0.2 else label for label in labels]
    return DifferentiationGraph([(names[j], names[i], label) for (j, i), label in zip(pairs, labels, strict=True)])


@st.composite
def simple_graphs(draw: Any, edges: int = 20) -> DifferentiationGraph:
    """Series-parallel graphs between one root and one terminal, parallel edges included."""
    rng = random.Random(draw(st.integers(0, 10**6)))
    pairs = [(0, 1)]
    for new in range(2, draw(st.integers(2, edges))):
        k = rng.randrange(len(pairs))
        j, i = pairs[k]
        pairs[k : k + 1] = [(j, i), (j, i)] if rng.random() < 0.4 else [(j, new), (new, i)]
    rng.shuffle(pairs)
    return DifferentiationGraph([(f"v{j}", f"v{i}", f"e{k}") for k, (j, i) in enumerate(pairs, 1)])


def vertex_elimination(graph: DifferentiationGraph, seed: int) -> Accumulation:
    """Vertex elimination in a random order."""
    return eliminate_vertices(graph, random.Random(seed).sample(graph.intermediates, len(graph.intermediates)))


def random_accumulation(graph: DifferentiationGraph, seed: int) -> Accumulation:
    """Cut paths anywhere, share what happens to be there: valid, mostly wasteful, often circular."""
    rng = random.Random(seed)
    sharing = rng.random()
    steps = Steps(len(graph.sources))
    sources, targets, live = graph.sources.tolist(), graph.targets.tolist(), graph.live_edges.tolist()
    values: dict[object, list[int]] = {}

    def added(terms: list[int]) -> int:
        rng.shuffle(terms)
        value = terms[0]
        for term in terms[1:]:
            value = steps.sum(value, term)
        return value

    def between(s: int, t: int, avoided: frozenset[int]) -> list[int]:
        """Edges on paths from s to t that avoid some vertices."""
        down, stack = {s}, [s]
        while stack:
            for e in graph.out_edges[stack.pop()]:
                if live[e] and targets[e] not in down and targets[e] not in avoided:
                    down.add(targets[e])
                    stack.append(targets[e])
        up, stack = {t}, [t]
        while stack:
            for e in graph.in_edges[stack.pop()]:
                if sources[e] in down and sources[e] not in up:
                    up.add(sources[e])
                    stack.append(sources[e])
        return [e for v in sorted(down & up) for e in graph.out_edges[v] if live[e] and targets[e] in down & up]

    def value(s: int, t: int, avoided: frozenset[int]) -> int:
        """The sum over all paths from s to t that avoid some vertices."""
        edges = between(s, t, avoided)
        key = (s, t, frozenset(edges))
        if values.get(key) and rng.random() < sharing:
            return rng.choice(values[key])
        terms = [e for e in edges if sources[e] == s and targets[e] == t]
        inner = sorted({v for e in edges for v in (sources[e], targets[e])} - {s, t})
        if inner:
            way = rng.choice(["front", "back", "middle", "middle"])
            if way == "middle":
                m = rng.choice(inner)
                terms.append(steps.product(value(s, m, avoided), value(m, t, avoided)))
                avoided |= {m}
                edges = between(s, t, avoided)
            if way == "back":
                last = [e for e in edges if targets[e] == t and sources[e] != s]
                terms += [steps.product(value(s, sources[e], avoided), e) for e in last]
            else:
                first = [e for e in edges if sources[e] == s and targets[e] != t]
                terms += [steps.product(e, value(targets[e], t, avoided)) for e in first]
        values.setdefault(key, []).append(added(terms))
        return values[key][-1]

    entries = {
        (row, column): value(root, terminal, frozenset())
        for row, root in enumerate(graph.roots)
        for column, terminal in enumerate(graph.terminals)
        if between(root, terminal, frozenset())
    }
    return Accumulation(graph, steps, entries)


def attempt(function: Any, *arguments: Any, **options: Any) -> tuple[Any, str]:
    """Return the result of the function, or None and the text of its ExpressionError."""
    try:
        return function(*arguments, **options), ""
    except ExpressionError as error:
        return None, str(error)
