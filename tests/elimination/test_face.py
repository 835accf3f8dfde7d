from __future__ import annotations

import pytest
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from line_graphs import consistent
from path_sums import check

from accumulus import DifferentiationGraph
from accumulus.elimination.edges_and_faces import (
    EdgeElimination,
    FaceElimination,
    eliminate_edges,
    eliminate_faces,
    faces_of_edges,
)
from accumulus.elimination.emit import count
from accumulus.errors import OrderError

randoms = st.randoms(use_true_random=False)


@given(graphs(), randoms)
def test_any_sequence_of_faces_gives_the_jacobian(graph, rng):
    elimination = FaceElimination(graph)
    sequence = []
    while faces := elimination.faces():
        sequence.append(rng.choice(faces))
        elimination.eliminate(*sequence[-1])
        if len(sequence) < 40:
            consistent(elimination)
        if len(sequence) > 1000:  # some random orders grow exponentially
            return
    accumulation = elimination.finish()
    check(accumulation)
    assert count(accumulation, "fma") == sum(accumulation.steps.is_product)
    again = eliminate_faces(graph, sequence)
    assert list(again.steps) == list(accumulation.steps)


@given(graphs(), randoms)
def test_splitting_any_vertex_changes_nothing(graph, rng):
    elimination = FaceElimination(graph)
    steps = 0
    while faces := elimination.faces():
        v = rng.choice(elimination.vertices())
        P, S = list(elimination.predecessors[v]), list(elimination.successors[v])
        if len(P) > 1 and rng.random() < 0.5:
            elimination.split(v, predecessors=rng.sample(P, rng.randint(1, len(P) - 1)))
        elif len(S) > 1 and rng.random() < 0.5:
            elimination.split(v, successors=rng.sample(S, rng.randint(1, len(S) - 1)))
        else:
            elimination.eliminate(*rng.choice(faces))
        consistent(elimination)
        steps += 1
        if steps > 60:
            return
    check(elimination.finish())


@given(graphs(), randoms)
def test_edge_elimination_is_a_sequence_of_face_eliminations(graph, rng):
    edges = EdgeElimination(graph)
    sequence = []
    while left := edges.edges():
        j, i = rng.choice(left)
        sides = ["front"] * edges.intermediate[j] + ["back"] * edges.intermediate[i]
        sequence.append((j, i, rng.choice(sides)))
        edges.eliminate(*sequence[-1])
    by_faces = eliminate_faces(graph, faces_of_edges(graph, sequence))
    check(by_faces)
    assert count(by_faces, "fma") == count(eliminate_edges(graph, sequence), "fma")


def test_the_faces_of_an_edge():
    graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "x")])
    assert faces_of_edges(graph, [(1, 3, "front")]) == [(0, 2), (1, 2)]
    with pytest.raises(OrderError, match="⟨y,x⟩"):
        faces_of_edges(graph, [(0, 3, "back")])


def test_fill_in_reuses_a_vertex_with_one_neighbour():
    chain = FaceElimination(DifferentiationGraph([("y", "a"), ("a", "x")]))
    assert chain.eliminate(0, 1) == 0
    fork = FaceElimination(DifferentiationGraph([("y", "a"), ("a", "x"), ("a", "z")]))
    assert fork.eliminate(0, 1) == 1
    biclique = FaceElimination(DifferentiationGraph([("y", "a"), ("w", "a"), ("a", "x"), ("a", "z")]))
    assert biclique.eliminate(0, 2) == 8


def test_an_impossible_elimination_names_the_face():
    graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    with pytest.raises(OrderError, match="⟨y,a⟩, ⟨b,x⟩"):
        FaceElimination(graph).eliminate(0, 2)
    with pytest.raises(OrderError, match="root y"):
        FaceElimination(graph).eliminate(3, 0)
    with pytest.raises(OrderError, match="terminal x"):
        FaceElimination(graph).eliminate(2, 4)
    with pytest.raises(OrderError, match="vertex number 99"):
        FaceElimination(graph).eliminate(0, 99)
    with pytest.raises(OrderError, match=r"\(⟨y,a⟩, ⟨b,x⟩\) are left"):
        eliminate_faces(graph, [(0, 1)])
    with pytest.raises(OrderError, match="some, not all"):
        FaceElimination(graph).split(1, predecessors=[0])
    with pytest.raises(OrderError, match="cannot split root y"):
        FaceElimination(graph).split(3, successors=[0])


def test_a_face_is_named_by_numbers():
    elimination = FaceElimination(DifferentiationGraph([("y", "v", "e1"), ("v", "x", "e2")]))
    with pytest.raises(OrderError, match=r"there is no face \('e1', 'e2'\)"):
        elimination.eliminate("e1", "e2")
