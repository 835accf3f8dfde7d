from __future__ import annotations

import random

import pytest
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from path_sums import check

from accumulus import DifferentiationGraph
from accumulus.elimination.edges_and_faces import EdgeElimination, edges_of_vertices, eliminate_edges
from accumulus.elimination.emit import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import OrderError


@given(graphs(), st.integers(0, 10**6))
def test_any_sequence_of_edges_gives_the_jacobian(graph, seed):
    rng = random.Random(seed)
    elimination = EdgeElimination(graph)
    sequence = []
    while edges := elimination.edges():
        j, i = rng.choice(edges)
        sides = ["front"] * elimination.intermediate[j] + ["back"] * elimination.intermediate[i]
        sequence.append((j, i, rng.choice(sides)))
        elimination.eliminate(*sequence[-1])
    accumulation = elimination.finish()
    check(accumulation)
    again = eliminate_edges(graph, sequence)
    assert list(again.steps) == list(accumulation.steps)
    assert again.entries == accumulation.entries


@given(graphs(), st.sampled_from(["front", "back"]), st.randoms(use_true_random=False))
def test_vertex_elimination_is_a_sequence_of_edge_eliminations(graph, side, rng):
    order = list(graph.intermediates)
    rng.shuffle(order)
    by_edges = eliminate_edges(graph, edges_of_vertices(graph, order, side))
    check(by_edges)
    assert count(by_edges, "fma") == count(eliminate_vertices(graph, order), "fma")


def test_an_impossible_elimination_names_the_edge():
    graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    with pytest.raises(OrderError, match="⟨y,b⟩"):
        EdgeElimination(graph).eliminate(0, 2, "back")
    with pytest.raises(OrderError, match=r"⟨y,a⟩.*y is a root"):
        EdgeElimination(graph).eliminate(0, 1, "front")
    with pytest.raises(OrderError, match=r"⟨b,x⟩.*x is a terminal"):
        EdgeElimination(graph).eliminate(2, 3, "back")
    with pytest.raises(OrderError, match="middle"):
        EdgeElimination(graph).eliminate(0, 1, "middle")
    with pytest.raises(OrderError, match="vertex number 9"):
        EdgeElimination(graph).eliminate(0, 9, "back")
    with pytest.raises(OrderError, match="⟨y,b⟩, ⟨b,x⟩ are left"):
        eliminate_edges(graph, [(0, 1, "back")])
