from __future__ import annotations

from itertools import permutations

import pytest
from graph_strategies import graphs, random_graph
from hypothesis import given, settings
from path_sums import check

from accumulus.elimination.cost import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.generators import bat, lion
from accumulus.theory.methods.greedy import edge, face


@settings(max_examples=25)
@given(graphs())
def test_faces_are_never_worse_than_edges_and_these_than_vertices(graph):
    inner = set(graph.intermediates)
    forward = [v for v in graph.topological_order if v in inner]
    by_vertices = min(count(eliminate_vertices(graph, order), "fma") for order in (forward, forward[::-1]))
    by_edges, by_faces = edge(graph, "fma", rounds=5), face(graph, "fma", rounds=5)
    check(by_edges)
    check(by_faces)
    assert count(by_faces, "fma") <= count(by_edges, "fma") <= by_vertices


@pytest.mark.parametrize(("graph", "vertex", "edges", "faces"), [(lion(), 12, 11, 11), (bat(), 24, 23, 22)])
def test_known_optima(graph, vertex, edges, faces):
    orders = permutations(graph.intermediates)
    assert min(count(eliminate_vertices(graph, order), "fma") for order in orders) == vertex
    assert count(edge(graph), "fma") == edges
    assert count(face(graph), "fma") <= faces
    check(face(graph))


def test_the_same_seed_gives_the_same_plan():
    graph = random_graph("layered", 20, 3)
    first, again = face(graph, rounds=20, seed=7), face(graph, rounds=20, seed=7)
    assert list(first.steps) == list(again.steps)


@pytest.mark.parametrize("shape", ["sparse", "layered", "deep"])
def test_larger_graphs(shape):
    graph = random_graph(shape, 200, 1)
    for method in (edge, face):
        method(graph).verify()
