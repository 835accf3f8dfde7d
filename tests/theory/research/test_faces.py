"""The least number of face eliminations: against every sequence, and against the elimination itself."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from slow_minima import least_faces_by_trying

from accumulus.elimination.face import FaceElimination, eliminate_faces
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.research.census import random_reduced_graph, reduced_graphs
from accumulus.theory.research.faces import FaceState, face_optimum, greedy_faces


def products(graph, sequence):
    accumulation = eliminate_faces(graph, sequence)
    accumulation.verify()
    return sum(accumulation.steps.is_product)


@pytest.mark.parametrize(("edges", "every"), [(3, 1), (4, 1), (5, 1), (6, 2), (7, 20)])
def test_the_optimum_by_trying_every_sequence(edges, every):
    for reduced in islice(reduced_graphs(edges), 0, None, every):
        graph = reduced.graph()
        number, sequence = face_optimum(graph)
        assert number == len(sequence) == products(graph, sequence)
        if number <= 7:  # more take the slow route too long
            assert number == least_faces_by_trying(graph), reduced.key


def test_states_are_those_of_face_elimination():
    rng = random.Random(3)
    for _ in range(30):
        graph = random_reduced_graph(rng.randint(5, 14), rng).graph()
        state, elimination = FaceState.of(graph), FaceElimination(graph)
        while True:
            assert state.faces() == elimination.faces()
            for v in elimination.vertices():
                assert state.predecessors[v] == sum(1 << p for p in elimination.predecessors[v])
                assert state.successors[v] == sum(1 << s for s in elimination.successors[v])
            if not state.faces():
                break
            i, j = rng.choice(state.faces())
            state = state.eliminate(i, j)
            elimination.eliminate(i, j)


def test_the_bound_is_never_too_high():
    rng = random.Random(5)
    for _ in range(40):
        graph = random_reduced_graph(rng.randint(5, 12), rng).graph()
        sequence = greedy_faces(graph, restarts=20)
        assert products(graph, sequence) == len(sequence)
        state = FaceState.of(graph)
        for left, face in zip(range(len(sequence), 0, -1), sequence, strict=True):
            assert state.outstanding() <= left
            state = state.eliminate(*face)
        assert state.outstanding() == 0


def test_equal_keys_are_isomorphic_states():
    # one graph in two numberings, and one that differs
    edges = [("a", 1), ("b", 1), (1, 2), (1, "x"), (2, "x"), (2, "z")]
    one, other = (FaceState.of(DifferentiationGraph(e, ["a", "b"], ["x", "z"])) for e in (edges, edges[::-1]))
    assert one.key() == other.key()
    different = FaceState.of(DifferentiationGraph([*edges[:5], (1, "z")], ["a", "b"], ["x", "z"]))
    assert one.key() != different.key()


def test_limits():
    graph = DifferentiationGraph([("a", 1), ("b", 1), (1, 2), (1, "x"), (2, "x"), (2, "z"), (2, "w"), (2, "u")])
    assert face_optimum(graph, below=11) == (11, None)
    number, sequence = face_optimum(graph, at_least=11, steps=1)
    assert number == 11
    assert sequence is None
    assert len(greedy_faces(graph, restarts=200, at_least=11)) == 11
    assert greedy_faces(graph, restarts=5) == greedy_faces(graph, restarts=5)
