"""Graphs to and from NetworkX."""

from __future__ import annotations

import networkx
import pytest
from graph_strategies import graphs
from hypothesis import given
from path_sums import same

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.exchange import from_networkx, to_networkx
from accumulus.theory.graphs.paths import paths


@given(graphs(sized=True))
def test_round_trip_through_networkx(graph):
    there = to_networkx(graph)
    assert there.number_of_edges() == len(graph.sources)
    assert networkx.is_directed_acyclic_graph(there)
    assert same(from_networkx(there), graph)
    digraph = networkx.MultiDiGraph(there)
    digraph.remove_edges_from(list(digraph.edges(keys=True)))
    digraph.add_edges_from((j, i, about) for j, i, about in there.edges(data=True))
    assert same(from_networkx(digraph), graph, ordered=False)


def test_graphs_that_networkx_makes():
    """A digraph without any attribute: what has no incoming edges is a root, what has no outgoing a terminal."""
    graph = from_networkx(networkx.DiGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")]))
    assert (graph.roots, graph.terminals, paths(graph).count) == ((0,), (3,), 2)
    labelled = networkx.DiGraph()
    labelled.add_edge("y", "x", label="e1", weight=3)
    assert from_networkx(labelled).symbols == ("e1",)
    with pytest.raises(GraphError, match="have no direction"):
        from_networkx(networkx.path_graph(3))


def digraph(nodes, edges, kind=networkx.DiGraph):
    made = kind()
    made.add_nodes_from(nodes)
    made.add_edges_from(edges)
    return made


def test_graph_from_elsewhere():
    """Numbers and symbols as labels, nothing else said."""
    given_graph = digraph([("y", {}), ("a", {"colour": "red"})], [("y", "a", {"label": 2.0}), ("a", "x", {})])
    graph = from_networkx(given_graph)
    assert graph.vertices == ("y", "a", "x")
    assert [Kind(kind) for kind in graph.kinds] == [Kind.CONSTANT, Kind.VARIABLE]
    assert from_networkx(given_graph, roots=["a"]).vertices == ("y", "a", "x", "a′")


#: Digraphs that are no differentiation graphs, and the message.
REFUSED = {
    "no direction": (digraph([], [], networkx.MultiGraph), "have no direction"),
    "loose": (digraph(["z"], []), "vertex 'z' has no edges"),
    "cycle": (digraph([], [("a", "b"), ("b", "a")]), "the graph has a cycle: "),
    "kind": (
        digraph([], [("a", "b", {"kind": "zero"})]),
        r"edge \('a', 'b'\) has the kind 'zero'; expected one of",
    ),
    "label": (digraph([], [("a", "b", {"label": [1]})]), "expected a number, a symbol"),
    "root": (digraph([("a", {"root": "first"})], [("a", "b")]), "vertex 'a' has the root 'first'"),
    "size": (digraph([("a", {"size": "wide"})], [("a", "b")]), "vertex 'a' has the size 'wide'"),
    "name": (networkx.DiGraph(name=1), "the name of the graph is 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    given_graph, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        from_networkx(given_graph)


@pytest.mark.parametrize("given_graph", [None, [("y", "x")], DifferentiationGraph([("y", "x")])])
def test_objects_that_are_no_networkx_graph(given_graph):
    with pytest.raises(ArgumentError, match=f"a {type(given_graph).__name__}; expected a networkx.DiGraph"):
        from_networkx(given_graph)
