"""Greedy heuristics: their scores against what an elimination changes, counted anew."""

from __future__ import annotations

import pytest
from contexts import within
from graph_strategies import graphs, random_graph
from hypothesis import given
from hypothesis import strategies as st
from inside import FaceElimination, get, layered

from accumulus import DifferentiationGraph
from accumulus.elimination.edges_and_faces import EdgeElimination, edges_of_vertex
from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.options import Objective
from accumulus.theory.methods import heuristics
from accumulus.theory.methods.heuristics import HEURISTICS

ROWS = {row.name: row for row in HEURISTICS}


def degrees(state: EdgeElimination) -> dict[int, int]:
    """Markowitz degrees of the intermediates."""
    return {k: len(state.predecessors[k]) * len(state.successors[k]) for k in state.graph.intermediates}


def pairs(state: EdgeElimination) -> set[tuple[int, int]]:
    return {(j, i) for j, row in enumerate(state.successors) for i in row}


def expected(state: EdgeElimination, steps, candidates) -> dict[str, int]:
    """Return the effects of some steps: products, new edges, growth of the degrees of some other vertices."""
    degrees_before, edges_before, products = degrees(state), pairs(state), sum(state.steps.is_product)
    for step in steps:
        state.eliminate(*step)
    after = degrees(state)
    made = sum(state.steps.is_product) - products
    damage = sum(after[k] - degrees_before[k] for k in candidates)
    return {"made": made, "fill": len(pairs(state) - edges_before), "damage": damage}


@given(graph=graphs(), data=st.data())
def test_scores_of_vertices_are_the_changes_by_elimination(graph, data):
    inner = [k for k in graph.intermediates if graph.live_edges[list(graph.in_edges[k])].any()]
    if not inner:
        return
    k = data.draw(st.sampled_from(inner))
    state = EdgeElimination(graph)
    changes = expected(state, edges_of_vertex(state, k), [v for v in graph.intermediates if v != k])
    due = index_ranges(graph)[k].bit_count() * index_domains(graph)[k].bit_count()
    scores = {
        "relative-markowitz": changes["made"] - due,
        "lowest-fill-in": changes["fill"],
        "lmmd": changes["made"] + changes["damage"],
        "momr": changes["damage"] - changes["made"],
    }
    for name, value in scores.items():
        assert heuristics._VertexChoices(graph, ROWS[name].score).score((k,))[0] == value, name


@given(graph=graphs(), data=st.data())
def test_scores_of_edges_are_the_changes_by_elimination(graph, data):
    markowitz = heuristics._EdgeChoices(graph, ROWS["markowitz-edge"].score)
    steps = markowitz.first
    if not steps:
        return
    j, i, side = step = data.draw(st.sampled_from(steps))
    end = j if side == "front" else i
    changes = expected(EdgeElimination(graph), [step], [v for v in graph.intermediates if v != end])
    reached = (index_ranges if side == "front" else index_domains)(graph)[end].bit_count()
    scores = {
        "markowitz-edge": changes["made"],
        "relative-markowitz-edge": changes["made"] - reached,
        "lowest-fill-in-edge": changes["fill"],
        "lmmd-edge": changes["made"] + changes["damage"],
        "momr-edge": changes["damage"] - changes["made"],
    }
    for name, value in scores.items():
        edges = heuristics._EdgeChoices(graph, ROWS[name].score)
        assert edges.score(step)[0] == value, name


@given(graph=graphs())
def test_degrees_of_faces_are_those_of_vertices_at_first(graph):
    faces = heuristics._FaceDegrees(graph)
    results = {step[0]: faces.score(step)[0] for step in faces.first}
    assert results == {k: degree for k, degree in degrees(EdgeElimination(graph)).items() if degree}


@given(graph=graphs(), data=st.data())
def test_maximal_reduction_counts_faces(graph, data):
    by_number = heuristics._FaceChoices(graph)
    state = by_number.elimination
    faces = state.faces()
    if faces:
        face = data.draw(st.sampled_from(faces))
        change = by_number.score(face)
        state.eliminate(*face)
        # what is isolated or merged in consequence goes beyond the score
        assert len(state.faces()) - len(faces) <= change


def test_the_first_vertex_is_the_one_of_least_score():
    # fill-in: b adds one edge, a none; Markowitz would take b, with two products, first
    edges = [(j, i) for j in "yza" for i in "uv"] + [("y", "a"), ("z", "a"), ("w", "b"), ("b", "u"), ("b", "x")]
    graph = DifferentiationGraph(edges)
    names = {name: graph.vertices.index(name) for name in "ab"}
    assert get("markowitz")(graph, within(objective=Objective.MULTIPLICATIONS)).order == (names["b"], names["a"])
    assert get("lowest-fill-in")(graph, within(objective=Objective.MULTIPLICATIONS)).order == (names["a"], names["b"])


@pytest.mark.parametrize("row", HEURISTICS, ids=lambda row: row.name)
def test_larger_graphs(row):
    for graph in (layered(layers=12, width=8, degree=2, seed=1), random_graph("deep", 200, 1)):
        first, again = (get(row.name)(graph, within(objective=Objective.MULTIPLICATIONS)) for _ in range(2))
        first.accumulation.verify()
        assert list(first.accumulation.steps) == list(again.accumulation.steps)
        assert (first.order is not None) == (row.level == "vertex")


@pytest.mark.parametrize("row", [row for row in HEURISTICS if row.level != "vertex"], ids=lambda row: row.name)
def test_sequences_that_become_too_long_are_dropped(row, monkeypatch):
    monkeypatch.setitem(heuristics._LONGEST, row.level, 20)
    graph = layered(layers=6, width=6, degree=3, seed=1)
    result = get(row.name)(graph, within(objective=Objective.MULTIPLICATIONS))
    assert result.method == "markowitz"
    assert result.order == get("markowitz")(graph, within(objective=Objective.MULTIPLICATIONS)).order


def test_faces_are_numbered_as_the_line_graph_does():
    graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    assert FaceElimination(graph).faces() == [(0, 1), (1, 2)]
    assert len(get("momr-face")(graph, within(objective=Objective.MULTIPLICATIONS)).accumulation.steps) == 2
