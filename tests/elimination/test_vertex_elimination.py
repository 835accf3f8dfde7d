"""Vertex elimination: every order adds every path once, in the order of its edges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from graph_strategies import graphs, orders
from hypothesis import given
from hypothesis import strategies as st
from path_sums import all_paths, polynomials

from accumulus import DifferentiationGraph
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import OrderError


@given(graph=graphs(), data=st.data())
def test_every_order_adds_each_path_once(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    assert polynomials(accumulation) == all_paths(graph)


@given(graph=graphs(), data=st.data())
def test_jacobian_in_rational_numbers(graph, data):
    labels = [Fraction(data.draw(st.integers(-9, 9)), data.draw(st.integers(1, 9))) for _ in graph.sources]
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    values = list(labels)
    for is_product, left, right in accumulation.steps:
        values.append(values[left] * values[right] if is_product else values[left] + values[right])
    expected = {
        entry: sum(
            np.prod([labels[edge] for edge in path], initial=Fraction(1)) * times for path, times in actual.items()
        )
        for entry, actual in all_paths(graph).items()
    }
    assert {entry: values[reference] for entry, reference in accumulation.entries.items()} == expected


@given(graph=graphs(), data=st.data())
def test_deterministic(graph, data):
    order = data.draw(orders(graph))
    first, again = eliminate_vertices(graph, order), eliminate_vertices(graph, tuple(np.array(order, np.int32)))
    assert list(first.steps) == list(again.steps)
    assert list(first.entries.items()) == list(again.entries.items())


@given(graph=graphs(), data=st.data())
def test_every_step_is_used(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    used = set(accumulation.entries.values())
    for _, left, right in accumulation.steps:
        used |= {left, right}
    edges = len(graph.sources)
    assert used >= set(range(edges, edges + len(accumulation.steps)))


#: Orders for a graph with the intermediates a and b, and what the message says.
ORDERS = {
    "one left out": (["a"], r"leaves out 'b'; expected every intermediate vertex once"),
    "all left out": ([], r"leaves out 'a', 'b'"),
    "one twice": (["a", "b", "a"], "names 'a' 2 times"),
    "root": (["a", "b", "y"], "names 'y', which is not an intermediate"),
    "terminal": (["x", "a", "b"], "names 'x', which is not an intermediate"),
    "unknown number": (["a", "b", 99], "names 99, which is not an intermediate"),
    "negative number": (["a", "b", -1], "names -1, which is not an intermediate"),
    "name": (["a", "b", "'a'"], "names \"'a'\", which is not an intermediate"),
}


@pytest.mark.parametrize("case", ORDERS)
def test_order_errors(case):
    order, message = ORDERS[case]
    graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    number = {name: k for k, name in enumerate(graph.vertices)}
    with pytest.raises(OrderError, match=message):
        eliminate_vertices(graph, [number.get(v, v) for v in order])


def test_many_left_out_are_named_in_part():
    graph = DifferentiationGraph([(k, k + 1) for k in range(20)])
    with pytest.raises(OrderError, match="leaves out 1, 2, 3, 4, 5 and 14 more"):
        eliminate_vertices(graph, [])
