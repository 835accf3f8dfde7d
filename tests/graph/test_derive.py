"""Subgraphs, and the numbers of vertices and edges that everything in this room is called with."""

from __future__ import annotations

import numpy as np
import pytest
from graph_strategies import VALUED, graphs
from hypothesis import given
from hypothesis import strategies as st
from path_sums import letters

from accumulus import DifferentiationGraph, Tape
from accumulus.errors import GraphError
from accumulus.graph.graph import edge_numbers, subgraph, vertex_numbers
from accumulus.graph.linearize import linearize
from accumulus.theory.graphs.paths import bauer


@given(graphs(odd=False, labels=VALUED), st.data())
def test_subgraph(graph, data):
    selected = sorted(data.draw(st.sets(st.integers(0, len(graph.sources) - 1))))
    derived = subgraph(graph, selected)

    def described(made, numbers):
        return [
            (made.vertices[made.sources[e]], made.vertices[made.targets[e]], made.kinds[e], made.symbols[e])
            for e in numbers
        ]

    assert described(derived, range(len(derived.sources))) == described(graph, selected)
    assert [derived.vertices[v] for v in derived.roots] == [graph.vertices[v] for v in graph.roots]
    assert [derived.vertices[v] for v in derived.terminals] == [graph.vertices[v] for v in graph.terminals]
    assert [derived.constants.get(k) for k in range(len(selected))] == [graph.constants.get(e) for e in selected]


@given(graphs(odd=False))
def test_dead_edges_do_not_matter(graph):
    alive = graph.live_edges.nonzero()[0].tolist()
    labels = letters(graph)
    assert bauer(subgraph(graph, alive), [labels[e] for e in alive]) == bauer(graph, labels)


def test_labels_on_a_tape():
    tape = Tape(1)
    tape.outputs = [tape.apply("sin", tape.apply("exp", 0)), tape.apply("exp", 0)]
    graph = linearize(tape).graph
    derived = subgraph(graph, [1])
    assert derived.labels == (graph.labels[1],)
    assert len(derived.roots) == 2


def test_numbers():
    graph = DifferentiationGraph([("y", "a"), ("a", "x")], sizes={"a": 3})
    assert vertex_numbers(graph, (2, 0, 2)) == (0, 2)
    assert edge_numbers(graph, np.int64(1)) == (1,)
    assert subgraph(graph, [0]).sizes.tolist() == [1, 3, 1]
    for wrong in (2, -1, "e", None, 1.0, True):
        with pytest.raises(GraphError, match=f"the graph has no edge {wrong!r}; expected a number out of 0 … 1"):
            edge_numbers(graph, wrong)
    with pytest.raises(GraphError, match="the graph has no edge 0; expected none at all"):
        edge_numbers(DifferentiationGraph([], ["y"], ["x"]), 0)
