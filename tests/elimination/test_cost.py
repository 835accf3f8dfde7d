"""Costs, counted again by another route: eliminating on a dictionary of kinds, and running the emitted tape."""

from __future__ import annotations

from collections import Counter

import pytest
from graph_strategies import graphs, orders
from hypothesis import given
from hypothesis import strategies as st
from inside import canonical, evaluate, linearize
from programs import NUMPY, programs

from accumulus import DifferentiationGraph, Kind
from accumulus.elimination.emit import count, emit
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import UnknownNameError
from accumulus.options import Objective

UNITS = {Kind.ONE: 1, Kind.MINUS_ONE: -1}


def kind_of_product(a: Kind, b: Kind) -> Kind:
    if a in UNITS and b in UNITS:
        return Kind.of(UNITS[a] * UNITS[b])
    return Kind.VARIABLE if Kind.VARIABLE in (a, b) else Kind.CONSTANT


def kind_of_sum(a: Kind, b: Kind) -> Kind:
    return Kind.VARIABLE if Kind.VARIABLE in (a, b) else Kind.CONSTANT


def recount(graph: DifferentiationGraph, order: list[int]) -> dict[str, int]:
    """Products of vertex elimination, from the kinds of the edges alone."""
    total = dict.fromkeys(("fma", "multiplications"), 0)
    kinds: dict[tuple[int, int], Kind] = {}

    def put(edge: tuple[int, int], kind: Kind) -> None:
        kinds[edge] = kind_of_sum(kinds[edge], kind) if edge in kinds else kind

    for e in graph.live_edges.nonzero()[0]:
        put((int(graph.sources[e]), int(graph.targets[e])), Kind(int(graph.kinds[e])))
    for k in order:
        into = [(j, kind) for (j, i), kind in kinds.items() if i == k]
        out = [(i, kind) for (j, i), kind in kinds.items() if j == k]
        for j, a in into:
            for i, b in out:
                price = int(graph.sizes[j] * graph.sizes[k] * graph.sizes[i])
                free = a in UNITS or b in UNITS or (a == b == Kind.CONSTANT)
                total["fma"] += price
                total["multiplications"] += 0 if free else price
                put((j, i), kind_of_product(a, b))
        kinds = {edge: kind for edge, kind in kinds.items() if k not in edge}
    return total


@given(graph=graphs(sized=True), data=st.data())
def test_products_recounted(graph, data):
    order = data.draw(orders(graph))
    accumulation = eliminate_vertices(graph, order)
    assert {objective: count(accumulation, objective) for objective in ("fma", "multiplications")} == recount(
        graph, order
    )


@given(graph=graphs(), data=st.data())
def test_objectives_are_ordered(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    products = sum(is_product for is_product, _, _ in accumulation.steps)
    assert 0 <= count(accumulation, "multiplications") <= count(accumulation, "fma") == products


@given(program=programs(), data=st.data())
def test_operations_are_those_that_run(program, data):
    graph = linearize(program.tape()).graph
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    run: Counter[str] = Counter()

    def counted(name):
        def call(*arguments):
            run[name] += 1
            return NUMPY[name](*arguments)

        return call

    evaluate(canonical(emit(accumulation)), [0.5, 0.7, 1.1], {name: counted(name) for name in NUMPY})
    assert count(accumulation, "operations") == run.total()


#: Labels of y→a, a→x, and what the one product costs.
PRICES = [
    ((None, None), 1, 1),
    ((None, "s"), 1, 1),
    ((1, None), 1, 0),
    ((None, -1), 1, 0),
    ((Kind.ONE, Kind.MINUS_ONE), 1, 0),
    ((2.0, 3.0), 1, 0),
    ((Kind.CONSTANT, 3.0), 1, 0),
    ((2.0, None), 1, 1),
    ((None, Kind.CONSTANT), 1, 1),
]


@pytest.mark.parametrize(("labels", "fma", "multiplications"), PRICES)
def test_price_of_one_product(labels, fma, multiplications):
    graph = DifferentiationGraph([("y", "a", labels[0]), ("a", "x", labels[1])], sizes=dict.fromkeys("yax", 3))
    accumulation = eliminate_vertices(graph, graph.intermediates)
    assert count(accumulation, "fma") == 27 * fma
    assert count(accumulation, "multiplications") == 27 * multiplications


def test_a_sum_of_units_is_a_constant_and_minus_one_squared_is_one():
    graph = DifferentiationGraph([("y", "a"), ("a", "b", 1), ("a", "b", 1), ("b", "x", -1)])
    a, b = (graph.vertices.index(name) for name in "ab")
    assert count(eliminate_vertices(graph, [a, b]), "multiplications") == 1
    assert count(eliminate_vertices(graph, [b, a]), "multiplications") == 1
    graph = DifferentiationGraph([("y", "a"), ("a", "b", -1), ("b", "x", -1)])
    a, b = (graph.vertices.index(name) for name in "ab")
    assert count(eliminate_vertices(graph, [b, a]), "multiplications") == 0


def test_unknown_objective():
    assert [Objective.of(objective.value) for objective in Objective] == list(Objective)
    graph = DifferentiationGraph([("y", "x")])
    with pytest.raises(UnknownNameError, match=r"unknown objective 'multiplication'; did you mean 'multiplications'\?"):
        count(eliminate_vertices(graph, []), "multiplication")
