"""Depth levels and segmentation, against longest paths and the freest ring."""

from __future__ import annotations

import pytest
from figures import figure, isomorphic
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from inside import count, eliminate_vertices, evaluate
from path_sums import lettered, letters

from accumulus import DifferentiationGraph, Kind, Tape
from accumulus.errors import UnknownNameError
from accumulus.graph.degrees import cross_level_edges, level_sets, levels, segmented
from accumulus.graph.linearize import linearize
from accumulus.theory.graphs.paths import bauer, paths

SIDES = ("tail", "head")


@given(graphs(7, odd=False))
def test_levels_are_longest_paths(graph):
    level = levels(graph)
    longest = [max((len(p) for p in paths(graph, graph.roots, v)), default=-1) for v in range(len(graph.vertices))]
    last = max(longest)
    for v, depth in enumerate(level):
        assert levels(graph)[v] == depth
        if v in graph.roots:
            assert depth == 0
        elif v in graph.terminals:
            assert depth >= max(1, longest[v])
        else:
            assert depth == longest[v]
            last = max(last, depth + 1)
    assert {level[x] for x in graph.terminals} == {max(1, last)}
    sets = level_sets(graph)
    assert sorted(v for vertices in sets for v in vertices) == [v for v, depth in enumerate(level) if depth >= 0]
    assert set(sets[0]) == set(graph.roots)
    assert set(sets[-1]) >= set(graph.terminals)


@given(graphs(odd=False, labels=(None, Kind.ONE, Kind.MINUS_ONE)), st.sampled_from(SIDES), st.booleans())
def test_segmentation(graph, side, shared):
    graph = lettered(graph)
    cut = segmented(graph, side, shared=shared)
    level = levels(cut)
    assert cross_level_edges(cut) == ()
    for e in cut.live_edges.nonzero()[0]:
        assert level[cut.targets[e]] == level[cut.sources[e]] + 1
    assert cut.vertices[: len(graph.vertices)] == graph.vertices
    assert len(set(cut.vertices)) == len(cut.vertices)
    assert level[: len(graph.vertices)] == levels(graph)
    assert bauer(cut, letters(cut)) == bauer(graph, letters(graph))
    copies = range(len(graph.vertices), len(cut.vertices))
    if not shared:
        assert all(len(cut.in_edges[v]) == len(cut.out_edges[v]) == 1 for v in copies)
        added = sum(levels(graph)[i] - levels(graph)[j] - 1 for j, i in crossing(graph))
        assert len(copies) == added
    else:
        assert len(copies) <= len(segmented(graph, side).vertices) - len(graph.vertices)


def crossing(graph):
    return [(int(graph.sources[e]), int(graph.targets[e])) for e in cross_level_edges(graph)]


def test_figure():
    whole, tail, head = (figure("fig:cross-level-edge-segmentation", panel) for panel in "abc")
    assert [whole.symbols[e] for e in cross_level_edges(whole)] == ["e5"]
    assert isomorphic(segmented(whole, "tail"), tail)
    assert isomorphic(segmented(whole, "head"), head)
    assert not isomorphic(tail, head)


@pytest.mark.parametrize("side", SIDES)
def test_units_cost_nothing(side):
    """(e1 e3 + 1·e5 + e2 e4) takes two products."""
    cut = segmented(figure("fig:cross-level-edge-segmentation", "a"), side)
    assert count(eliminate_vertices(cut, cut.intermediates), "multiplications") == 2


@pytest.mark.parametrize("side", SIDES)
def test_labels_of_a_traced_function(side):
    tape = Tape(2)
    sine = tape.apply("sin", 0)
    product = tape.multiply(sine, 1)
    tape.outputs = [tape.multiply(tape.add(product, 0), sine), tape.apply("exp", product)]
    graph = linearize(tape).graph
    cut = segmented(graph, side)
    assert cross_level_edges(cut) == ()
    assert isinstance(cut.tape, Tape)

    def jacobian(made):
        labels = made.tape.copy()
        labels.outputs = list(made.labels)
        return bauer(made, [float(value) for value in evaluate(labels, [0.3, 0.7])])

    assert jacobian(cut) == pytest.approx(jacobian(graph))


def test_names_and_sizes_of_copies():
    edges = [("y", "a"), ("a", "b"), ("b", "x"), ("y", "x"), ("y", "y′"), ("y′", "x")]
    graph = DifferentiationGraph(edges, sizes={"y": 2, "x": 3})
    cut = segmented(graph)
    assert cut.vertices[5:] == ("y′2", "y′3", "y′′")
    assert cut.sizes.tolist()[5:] == [2, 2, 1]
    assert segmented(graph, "head").sizes.tolist()[5:] == [3, 3, 3]


def test_dead_parts():
    """Vertices that no root reaches have no level; a dead end has one, and the terminals come after it."""
    graph = DifferentiationGraph([("y", "x"), ("t", "x"), ("y", "a"), ("a", "b")], roots=["y"], terminals=["x"])
    number = {name: v for v, name in enumerate(graph.vertices)}
    assert {name: levels(graph)[v] for name, v in number.items()} == {"y": 0, "x": 3, "t": -1, "a": 1, "b": 2}
    assert [graph.vertices[graph.sources[e]] for e in cross_level_edges(graph)] == ["y"]


def test_unknown_side():
    with pytest.raises(UnknownNameError, match="unknown side 'top'"):
        segmented(DifferentiationGraph([("y", "x")]), "top")
