from __future__ import annotations

import pytest
from figures import figure
from graph_strategies import graphs, random_graph
from hypothesis import given
from hypothesis import strategies as st
from inside import count
from path_sums import check

from accumulus import DifferentiationGraph
from accumulus.errors import UnknownNameError
from accumulus.theory.methods.dstar import dstar


@given(graphs(20), st.sampled_from(["frequency", "inner"]), st.sampled_from([None, "both", "roots", "terminals"]))
def test_the_jacobian(graph, order, sides):
    check(dstar(graph, order=order, sides=sides))


def test_nested_subgraphs_come_first():
    simple = figure("fig:complex-dag-and-complete-path-dag", "a")
    assert count(dstar(simple), "fma") == count(dstar(simple, order="inner"), "fma") == 5
    assert count(dstar(figure("fig:complex-dag-and-complete-path-dag", "b")), "fma") <= 12


def test_subgraph_edges_are_shared_between_entries():
    # a lens between two roots and two terminals: formed once, then two products on one side and four for the entries
    edges = [("y", "a"), ("z", "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "x"), ("d", "w")]
    assert count(dstar(DifferentiationGraph(edges)), "fma") == 2 + 2 + 4


def test_overlapping_subgraphs_are_distinguished_by_their_values():
    # ⟨b,d⟩ is all of ∂b/∂d for some entries and a part of it for others, whose other part went with a dominator
    for seed in range(40):
        dstar(random_graph("dense", 10, seed)).verify()


@pytest.mark.parametrize("shape", ["sparse", "layered", "deep", "series-parallel", "star"])
def test_larger_graphs(shape):
    dstar(random_graph(shape, 200, 1)).verify()


def test_an_unknown_order():
    with pytest.raises(UnknownNameError, match="frequency"):
        dstar(random_graph("sparse", 5, 1), order="outer")
    with pytest.raises(UnknownNameError, match="terminals"):
        dstar(random_graph("sparse", 5, 1), sides="left")
