"""Differentiation graphs for all tests: one seeded generator a shape, and one Hypothesis strategy over all shapes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from accumulus import DifferentiationGraph, Kind

LABELS = (None, "a", 1, -1, 2.5, 0.0, Kind.CONSTANT, Kind.VARIABLE, Kind.ONE)
#: Labels whose values a file keeps.
VALUED = (None, "a", 1.0, -1.0, 2.5, Kind.CONSTANT)

Pairs = list[tuple[int, int]]


def _sparse(size: int, rng: random.Random, chance: float | None = None) -> Pairs:
    likely = 2.0 / size if chance is None else chance
    return [(j, i) for j in range(size) for i in range(j + 1, size) if rng.random() < likely]


def _dense(size: int, rng: random.Random) -> Pairs:
    return _sparse(size, rng, 0.6)


def _layered(size: int, rng: random.Random) -> Pairs:
    width = max(2, round(size**0.5))
    pairs: Pairs = []
    for v in range(size - width):
        level = v // width + 1
        below = range(level * width, min((level + 1) * width, size))
        pairs += [(v, rng.choice(below)) for _ in range(rng.randint(1, 3)) if below]
    return pairs


def _series_parallel(size: int, rng: random.Random) -> Pairs:
    pairs = [(0, 1)]
    while len(pairs) < 1.5 * size:
        k = rng.randrange(len(pairs))
        j, i = pairs[k]
        new = 1 + max(max(pair) for pair in pairs)
        pairs += [(j, new), (new, i)]
        if rng.random() < 0.5:
            pairs[k] = pairs.pop()
            pairs[k], pairs[-1] = (j, new), (new, i)
    return pairs


def _nested(size: int, rng: random.Random) -> Pairs:
    """Chains, blocks, parallel edges and bridges in the place of edges, and a few edges more."""
    pairs, order, new = [(0, 1)], [0, 1], 2
    while new < size - 1:
        j, i = pairs.pop(rng.randrange(len(pairs)))
        a, b = new, new + 1
        grown = {
            "chain": [(j, a), (a, i)],
            "parallel": [(j, i), (j, i)],
            "strands": [(j, a), (a, i), (j, b), (b, i)],
            "bridge": [(j, a), (j, b), (a, b), (a, i), (b, i)],
        }
        shape = rng.choice(list(grown))
        pairs += grown[shape]
        made = {"chain": [a], "parallel": []}.get(shape, [a, b])
        position = order.index(j) + 1
        order[position:position] = made
        new += len(made)
    for _ in range(rng.choice([0, 0, 1, 2])):
        above, below = sorted(rng.sample(range(len(order)), 2))
        pairs.append((order[above], order[below]))
    return pairs


def _deep(size: int, rng: random.Random) -> Pairs:
    pairs = [(v, v + 1) for v in range(size - 1)]
    return pairs + [tuple(sorted(rng.sample(range(size), 2))) for _ in range(size // 3)]  # type: ignore[misc]


def _star(size: int, rng: random.Random) -> Pairs:
    centre = size // 2
    pairs = [(v, centre) for v in range(centre)] + [(centre, v) for v in range(centre + 1, size)]
    return pairs + [tuple(sorted(rng.sample(range(size), 2))) for _ in range(3)]  # type: ignore[misc]


def _many_ends(size: int, rng: random.Random) -> Pairs:
    """A third roots, a third terminals, each of them with few edges to what is between."""
    third = max(1, size // 3)
    inner = range(third, size - third)
    pairs: Pairs = [(j, rng.choice(range(third, size))) for j in range(third) for _ in range(2)]
    pairs += [(rng.choice(range(size - third)), i) for i in range(size - third, size) for _ in range(2)]
    return pairs + [(j, rng.choice(range(j + 1, size))) for j in inner]


_SHAPES: dict[str, Callable[[int, random.Random], Pairs]] = {
    "sparse": _sparse,
    "dense": _dense,
    "layered": _layered,
    "series-parallel": _series_parallel,
    "deep": _deep,
    "star": _star,
    "nested": _nested,
    "many ends": _many_ends,
}
SHAPES = tuple(_SHAPES)


def random_graph(shape: str, size: int, seed: int) -> DifferentiationGraph:
    """A graph of about `size` vertices; vertex numbers are not in topological order, some labels units or constant."""
    rng = random.Random(seed)
    pairs = _SHAPES[shape](size, rng)
    names = list(range(1 + max((max(pair) for pair in pairs), default=1)))
    rng.shuffle(names)
    labels = [None, None, None, None, Kind.ONE, Kind.MINUS_ONE, 2.5]
    edges = [(names[j], names[i], rng.choice(labels)) for j, i in pairs] or [("y", "x")]
    rng.shuffle(edges)
    return DifferentiationGraph(edges)


@st.composite
def graphs(
    draw: Callable[..., Any],
    vertices: int = 8,
    *,
    shapes: Sequence[str] = ("any", *SHAPES),
    labels: Sequence[Any] = LABELS,
    odd: bool = True,
    sized: bool = False,
) -> DifferentiationGraph:
    """Graphs of every shape, with parallel edges; the roots and terminals all that there are, or some, others dead.

    Args:
        vertices: at most, or about that.
        shapes: of `SHAPES`, or "any", whose edges are drawn one by one, so that failures shrink.
        labels: what edges may carry.
        odd: whether there may be inputs that nothing uses, outputs that are inputs, inner vertices or given twice, and
            names that are text.
        sized: whether vertices have sizes; edges that join different ones carry no numbers then: 1 is the identity.
    """
    shape = draw(st.sampled_from(list(shapes)))
    rng = random.Random(draw(st.integers(0, 10**6))) if shape != "any" else None
    if rng is None:
        count = draw(st.integers(1 if odd else 2, vertices))
        every = list(combinations(range(count), 2))
        pairs = draw(st.lists(st.sampled_from(every), min_size=not odd, max_size=2 * count)) if every else []
    else:
        pairs = _SHAPES[shape](draw(st.integers(min(5, vertices), vertices)), rng) or [(0, 1)]
        count = 1 + max(max(pair) for pair in pairs)
    names = draw(st.permutations([f"v{k}" for k in range(count)]))
    if rng is None:
        edges = [(names[j], names[i], draw(st.sampled_from(list(labels)))) for j, i in draw(st.permutations(pairs))]
    else:
        rng.shuffle(pairs)
        edges = [(names[j], names[i], rng.choice(labels)) for j, i in pairs]

    left, entered = {j for j, _, _ in edges}, {i for _, i, _ in edges}
    ends = draw(st.sampled_from(["all", "some", "odd"] if odd else ["all", "some"])) if edges else "odd"
    roots, terminals = sorted(left - entered), sorted(entered - left)
    if ends == "some":
        roots = draw(st.lists(st.sampled_from(roots), min_size=1, unique=True))
        terminals = draw(st.lists(st.sampled_from(terminals), min_size=1, unique=True))
    elif ends == "odd":
        roots = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
        leaves = [name for name in names if name not in left]
        terminals = draw(st.lists(st.sampled_from(leaves), min_size=1, unique=True))
        if edges:  # one of each at least is on an edge: else their names are taken for misspelt
            roots.append(draw(st.sampled_from(sorted(left))))
            terminals = sorted({*terminals, draw(st.sampled_from(sorted(entered - left)))})
    sizes = {name: draw(st.integers(1, 3)) for name in sorted({*left, *entered, *roots, *terminals}) if sized}
    if sized:
        free = (None, Kind.CONSTANT, Kind.VARIABLE)
        edges = [
            (j, i, label if sizes[j] == sizes[i] or label in free or isinstance(label, str) else None)
            for j, i, label in edges
        ]
    return DifferentiationGraph(edges, roots, terminals, sizes=sizes, name=draw(st.text(max_size=3)) if odd else "")


def orders(graph: DifferentiationGraph) -> st.SearchStrategy[list[int]]:
    """Elimination orders of the graph."""
    return st.permutations(graph.intermediates)


def every_dag(vertices: int) -> Iterator[DifferentiationGraph]:
    """All acyclic graphs on so many vertices without parallel edges, called by numbers in topological order."""
    pairs = list(combinations(range(vertices), 2))
    for mask in range(1 << len(pairs)):
        yield DifferentiationGraph([pair for k, pair in enumerate(pairs) if mask >> k & 1])
