from __future__ import annotations

import json
from collections import Counter

import pytest
from figures import DATA, figure, isomorphic, plain
from graph_strategies import graphs, random_graph
from hypothesis import given
from hypothesis import strategies as st
from inside import FaceElimination, count, eliminate_vertices
from path_sums import bauer, check

from accumulus.errors import GraphError, UnknownNameError
from accumulus.theory.methods.factorize import factorization_order, factorization_steps, factorize, factorize_faces

DIRECTIONS = ["forward", "backward", "both", "middle"]
SIMPLE = figure("fig:complex-dag-and-complete-path-dag", "a")
COMPLEX = figure("fig:complex-dag-and-complete-path-dag", "b")


@given(graphs(), st.sampled_from(DIRECTIONS))
def test_with_references_it_is_vertex_elimination(graph, direction):
    accumulation = factorize(graph, direction)
    check(accumulation)
    order = factorization_order(graph, direction)
    assert count(accumulation, "fma") == count(eliminate_vertices(graph, order), "fma")
    implicit = factorize_faces(graph, direction)
    check(implicit)
    assert count(implicit, "fma") == count(accumulation, "fma")


@given(graphs(10), st.sampled_from(DIRECTIONS))
def test_without_references(graph, direction):
    accumulation = factorize(graph, direction, references=False)
    check(accumulation)
    assert count(accumulation, "fma") >= count(factorize(graph, direction), "fma")


@given(graphs(10, labels=(None, 1, -1, 2.5, 0.0)), st.sampled_from(DIRECTIONS))
def test_every_step_is_a_graph_with_the_same_jacobian(graph, direction):
    prime = 2**61 - 1
    fixed = {1: 1, 2: prime - 1, 3: 25}
    labels = [fixed.get(kind, 1000 + e) for e, kind in enumerate(graph.kinds.tolist())]
    for step in factorization_steps(graph, direction, references=False):
        symbols = [int(symbol[1:]) - 1 if symbol else None for symbol in step.symbols]
        copied = [fixed[kind] if e is None else labels[e] for e, kind in zip(symbols, step.kinds.tolist(), strict=True)]
        assert bauer(step, copied, prime) == bauer(graph, labels, prime)
    assert all(count(factorize(step, way), "fma") == count(factorize(step), "fma") for way in DIRECTIONS)
    assert count(factorize(step), "fma") == count(factorize(graph, direction, references=False), "fma")


def test_a_simple_graph_is_not_split():
    for direction in DIRECTIONS:
        assert count(factorize(SIMPLE, direction, references=False), "fma") == 5
        assert len(list(factorization_steps(SIMPLE, direction))) == 1


@pytest.mark.parametrize(
    ("direction", "without", "with_references"), [("backward", 12, 10), ("forward", 12, 10), ("both", 11, 11)]
)
def test_products_of_the_complex_block(direction, without, with_references):
    assert count(factorize(COMPLEX, direction, references=False), "fma") == without
    assert count(factorize(COMPLEX, direction), "fma") == with_references


@pytest.mark.parametrize(("direction", "panels"), [("backward", "ab"), ("forward", "cd")])
def test_the_figure_of_factorization(direction, panels):
    first, *steps = factorization_steps(COMPLEX, direction, references=False)
    assert isomorphic(first, COMPLEX)
    assert len(steps) == 2
    for step, panel in zip(steps, panels, strict=True):
        assert isomorphic(step, figure("fig:2-step-factorization", panel))


def test_the_figure_of_factorization_with_reference():
    _, *steps = factorization_steps(COMPLEX, "backward")
    assert len(steps) == 3
    for step, panel in zip(steps, "abc", strict=True):
        assert isomorphic(step, figure("fig:factorization-with-reference", panel))


def relations(elimination: FaceElimination) -> Counter:
    """The edges of the line graph by the labels of their ends; a sum is called s1."""
    graph = elimination.graph
    text = list(graph.symbols)
    for is_product, left, right in elimination.steps:
        text.append(text[left] + text[right] if is_product else "s1")

    def name(v):
        return text[elimination.labels[v]] if v in elimination else elimination.name(v).split()[1]

    return Counter((name(v), name(s)) for v in range(len(elimination.labels)) for s in elimination.successors[v])


def drawn(panel: str) -> Counter:
    """The figure's edges by labels, named as above; in (e) one edge of the drawing names its vertex as (d) does."""
    figures = json.loads(DATA.read_text(encoding="utf-8"))["figures"]
    (panels,) = (figure["parts"] for figure in figures if figure["figure"] == "fig:chain-block-elimination")
    (result,) = (each for each in panels if each["part"] == panel)
    names = {"y1": "v1", "x9": "v9"}
    if panel == "e":
        names["e3e7"] = "e3e7e11"

    def name(end):
        return names.get(end) or plain(result["vertices"][end])

    return Counter((name(j), name(i)) for j, i, _ in result["edges"])


def test_the_figure_of_chain_block_elimination():
    e = {symbol: number for number, symbol in enumerate(COMPLEX.symbols)}
    explicit = FaceElimination(COMPLEX)
    assert relations(explicit) == drawn("a")
    copies = [explicit.split(e[end], predecessors=[e[start]]) for start, end in (("e8", "e11"), ("e9", "e12"))]
    assert relations(explicit) == drawn("b")
    for start, copy in zip(("e8", "e9"), copies, strict=True):
        explicit.eliminate(e[start], copy)
    assert relations(explicit) == drawn("c")

    implicit = FaceElimination(COMPLEX)
    for pairs, panel in (
        ([("e3", "e7"), ("e6", "e10")], "d"),
        ([("e3", "e11"), ("e8", "e11")], "e"),
        ([("e6", "e12"), ("e9", "e12")], "f"),
    ):
        for start, end in pairs:
            implicit.eliminate(e[start], e[end])
        assert relations(implicit) == drawn(panel)


def test_without_references_there_is_a_limit():
    ladder = random_graph("dense", 30, 1)
    with pytest.raises(GraphError, match="references=True"):
        factorize(ladder, references=False, limit=10_000)
    with pytest.raises(UnknownNameError, match="backward"):
        factorize(SIMPLE, "backwards")


@pytest.mark.parametrize("shape", ["sparse", "layered", "deep", "series-parallel", "star"])
def test_larger_graphs(shape):
    graph = random_graph(shape, 300, 1)
    for direction in DIRECTIONS:
        factorize(graph, direction).verify()
