"""The least number of products: against two slow routes, and against what is known."""

from __future__ import annotations

from itertools import islice

import pytest
from figures import figure
from slow_minima import least_by_integers, least_by_trying

from accumulus import DifferentiationGraph
from accumulus.errors import GraphError
from accumulus.theory.algebra.values import value_program
from accumulus.theory.research import minimum
from accumulus.theory.research.minimum import true_minimum
from accumulus.theory.research.survey import ReducedGraph, reduced_graphs

LION = "a>1 b>1 1>2 1>5 2>x 2>y 2>4 2>5"
BAT = "0a>2 0b>2 1a>3 1b>3 2>4 3>4 2>5 3>7 4>5 4>6a 4>6b 4>7"


def graph_of(text):
    return DifferentiationGraph([tuple(edge.split(">")) for edge in text.split()])


@pytest.mark.parametrize("edges", range(3, 7))
def test_the_minimum_of_every_small_graph_by_trying_all_programs(edges):
    for reduced in reduced_graphs(edges):
        graph = reduced.graph()
        result = true_minimum(graph)
        if result.upper <= 6:  # more take the slow route too long
            assert result.upper == least_by_trying(graph), reduced.key


@pytest.mark.parametrize(("edges", "every"), [(5, 1), (6, 1), (7, 3), (8, 40), (9, 400)])
def test_the_minimum_as_an_integer_program(edges, every):
    for reduced in islice(reduced_graphs(edges), 0, None, every):
        assert true_minimum(reduced.graph()).upper == least_by_integers(reduced.graph()), reduced.key


@pytest.mark.parametrize(
    ("graph", "products"),
    [
        (graph_of(LION), 11),
        (graph_of(BAT), 22),
        (figure("fig:complex-dag-and-complete-path-dag", "a"), 5),
        (figure("fig:complex-dag-and-complete-path-dag", "b"), 10),
        # two complete bipartite graphs in a row: 7 with subtraction (Strassen 1969)
        (graph_of("a>1 a>2 b>1 b>2 1>x 1>y 2>x 2>y"), 8),
    ],
    ids=["lion", "bat", "complex-dag (a)", "complex-dag (b)", "2×2 matrices"],
)
def test_known_minima(graph, products):
    result = true_minimum(graph)
    assert (result.lower, result.upper) == (products, products)
    assert value_program(result.accumulation).multiplications == products


def test_a_vertex_with_one_edge_in_and_one_out_costs_exactly_one_product():
    for reduced in reduced_graphs(6):
        minimum = true_minimum(reduced.graph()).upper
        edges = reduced.named_edges()
        for j, i in edges:
            beside = DifferentiationGraph([*edges, (j, "w"), ("w", i)])
            inside = DifferentiationGraph([*(edge for edge in edges if edge != (j, i)), (j, "w"), ("w", i)])
            assert true_minimum(beside).upper == true_minimum(inside).upper == minimum + 1


def test_parallel_and_direct_edges_and_components_change_nothing():
    lion = [tuple(edge.split(">")) for edge in LION.split()]
    more = [*lion, ("1", "2"), ("a", "x"), ("b", "5"), ("a", "1")]
    assert true_minimum(DifferentiationGraph(more)).upper == 11
    twice = [*lion, *((f"{j}′", f"{i}′") for j, i in lion)]
    assert true_minimum(DifferentiationGraph(twice)).upper == 22
    assert true_minimum(DifferentiationGraph([("y", "x")])).upper == 0


def test_reversal_changes_nothing():
    for reduced in islice(reduced_graphs(8), 0, None, 11):
        assert true_minimum(reduced.graph()).upper == true_minimum(reduced.reversed().graph()).upper


def test_bounds_where_the_steps_or_the_limit_end_the_search():
    bat = graph_of(BAT)
    few = true_minimum(bat, steps=3)
    assert few.lower <= 22
    assert few.upper is None
    assert few.accumulation is None
    below = true_minimum(bat, below=22)
    assert (below.lower, below.upper) == (22, None)
    assert true_minimum(bat, below=23).upper == 22


def test_too_large_a_graph(monkeypatch):
    monkeypatch.setattr(minimum, "LARGEST", 20)
    with pytest.raises(GraphError, match="more than 20 path pieces"):
        true_minimum(graph_of(BAT))


def test_values_shared_in_part():
    # (v1, x2) is needed whole and in part: α(βγ + δ) beside βγ on its own
    graph = ReducedGraph.parse("2:01:0,0:01,1,1,1").graph()
    assert true_minimum(graph).upper == least_by_integers(graph) == 11
