"""Annealed sequences of vertices, edges and faces: what the kernel says they cost, against the accumulation itself."""

from __future__ import annotations

import pytest
from graph_strategies import graphs, random_graph
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import Elimination, count, interpret
from slow_sequences import SlowEdges, SlowFaces, TooMany

from accumulus import Accumulation, DifferentiationGraph, load_graph, plan
from accumulus.graph.generators import bat, gadgets, lion, with_labels, with_sizes
from accumulus.options import Objective
from accumulus.theory.compiled import mixed_kernel
from accumulus.theory.methods import edges_and_faces
from accumulus.theory.methods.edges_and_faces import MixedAnnealing

OBJECTIVES = (Objective.FMA, Objective.MULTIPLICATIONS)


def annealing(graph: DifferentiationGraph, objective: str, faces: bool) -> MixedAnnealing:
    state = Elimination.of(graph, objective)
    search = MixedAnnealing(state, (*state.intermediates, *state.dead))
    search.faces = faces
    return search


def accumulated(search: MixedAnnealing, graph: DifferentiationGraph) -> Accumulation:
    copies = edges_and_faces._Copies(search, [], [list(range(len(graph.vertices)))])
    return edges_and_faces._accumulation(graph, [copies])


def annealed(graph, objective, faces, moves=500, seed=0):
    search = annealing(graph, objective, faces)
    costs = list(search.run(search.best[1], moves, (seed,)))
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == search.best_cost
    return search


@given(graph=graphs(sized=True), objective=st.sampled_from(OBJECTIVES), faces=st.booleans(), seed=st.integers(0, 99))
def test_sequences_are_verified_and_have_the_cost_of_the_kernel(graph, objective, faces, seed):
    assume(Elimination.of(graph, objective).intermediates)
    search = annealed(graph, objective, faces, seed=seed)
    made = accumulated(search, graph)
    made.verify()
    assert count(made, objective) == search.best_cost
    other = Objective.MULTIPLICATIONS if objective is Objective.FMA else Objective.FMA
    assert count(made, other) == search.best[0][1]


@pytest.mark.parametrize("shape", ["sparse", "dense", "layered", "deep"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_larger_sequences_have_the_cost_of_the_kernel(shape, objective):
    graph = with_sizes(with_labels(random_graph(shape, 30, 4), seed=1), largest=3, seed=2)
    search = annealed(graph, objective, faces=True, moves=3_000)
    made = accumulated(search, graph)
    made.verify()
    assert count(made, objective) == search.best_cost


@settings(max_examples=25)
@given(graph=graphs(vertices=6), objective=st.sampled_from(OBJECTIVES), faces=st.booleans())
def test_no_sequence_is_cheaper_than_the_optimum(graph, objective, faces):
    assume(Elimination.of(graph, objective).intermediates)
    try:
        minimum = (SlowFaces if faces else SlowEdges)(graph, objective, 2_000).least()
    except TooMany:
        assume(False)
    assert annealed(graph, objective, faces).best_cost >= minimum


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_slices_do_not_change_a_run(monkeypatch, objective):
    graph = gadgets("bat", 2)
    expected = annealed(graph, objective, faces=True).best
    for work in (1, 50):
        monkeypatch.setattr(edges_and_faces, "_SLICE", work)
        assert annealed(graph, objective, faces=True).best == expected


@pytest.mark.parametrize("faces", [True, False])
@pytest.mark.parametrize("shape", ["layered", "dense"])
def test_machine_code_agrees_with_python(shape, faces):
    graph = with_sizes(with_labels(random_graph(shape, 14, 2), seed=1), largest=3, seed=2)
    compiled, python = (annealing(graph, Objective.MULTIPLICATIONS, faces) for _ in range(2))
    python._run = lambda _: interpret(mixed_kernel.run_mixed, python._state)
    expected, actual = ([*search.run(search.best[1], 200, (3,))] for search in (compiled, python))
    assert actual == expected
    assert python.best == compiled.best
    for name in ("snapshots", "costs", "prints", "items", "random"):
        assert getattr(python._state, name).tolist() == getattr(compiled._state, name).tolist()
    made = accumulated(python, graph)
    made.verify()
    assert count(made, Objective.MULTIPLICATIONS) == compiled.best_cost


@pytest.mark.parametrize("seed", range(8))
def test_faces_beat_orders_and_edges(seed):
    for graph, edges, faces in ((lion(), 11, 11), (bat(), 23, 22)):
        assert plan(graph, "edge", "fma", time_limit=1e9, seed=seed, cache=False).cost == edges
        assert plan(graph, "face", "fma", time_limit=1e9, seed=seed, cache=False).cost == faces


def test_single_edges_improve_on_the_best_order_of_a_larger_graph():
    graph = gadgets("bat", 3)
    vertex, edge = (
        plan(graph, method, "fma", effort="thorough", iterations=30_000, time_limit=1e9, cache=False)
        for method in ("vertex", "edge")
    )
    edge.verify()
    assert edge.method == "edge"
    assert edge.cost < vertex.cost


def test_edges_improve_on_the_best_order_known_of_a_public_graph(graph_folder):
    graph = load_graph(graph_folder / "BlackScholes_Jacobian.json")
    made = plan(graph, "edge", "fma", effort="thorough", iterations=60_000, time_limit=1e9, seed=1, cache=False)
    made.verify()
    assert made.cost < 297


def test_labels_beyond_capacity_end_only_a_trial(monkeypatch):
    monkeypatch.setattr(edges_and_faces, "_ROOM", (0.0, 0))
    graph = random_graph("dense", 12, 1)
    search = annealed(graph, Objective.FMA, faces=True)
    made = accumulated(search, graph)
    made.verify()
    assert count(made, "fma") == search.best_cost


def test_graphs_of_too_many_edges_keep_the_order(monkeypatch):
    monkeypatch.setattr(edges_and_faces, "MOST_EDGES", 5)
    assert plan(bat(), "face", "fma", cache=False).order is not None
