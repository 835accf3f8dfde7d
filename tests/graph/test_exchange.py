"""Graphs to and from NetworkX."""

from __future__ import annotations

import builtins

import networkx
import pytest
from graph_strategies import graphs
from hypothesis import given
from path_sums import same

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.exchange import edge_attributes, from_networkx, to_networkx, vertex_attributes
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.graphs.paths import paths


class Plain:
    """As much of a NetworkX digraph as is read; what is written is taken down by the graph's attributes."""

    def __init__(self, nodes, edges, directed=True, **about):
        self._nodes, self._edges, self._directed, self.graph = nodes, edges, directed, about

    def is_directed(self):
        return self._directed

    def nodes(self, data):
        assert data
        return self._nodes

    def edges(self, data):
        assert data
        return self._edges


def plain(graph):
    nodes = list(zip(graph.vertices, vertex_attributes(graph), strict=True))
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    edges = [(graph.vertices[j], graph.vertices[i], edge_attributes(graph, e)) for e, (j, i) in enumerate(ends)]
    about = {"roots": len(graph.roots), "terminals": len(graph.terminals)}
    return Plain(nodes, edges, name=graph.name, **about)


@given(graphs(sized=True))
def test_attributes_hold_all(graph):
    assert same(from_networkx(plain(graph)), graph)


@given(graphs(sized=True))
def test_round_trip_through_networkx(graph):
    there = to_networkx(graph)
    assert there.number_of_edges() == len(graph.sources)
    assert networkx.is_directed_acyclic_graph(there)
    assert same(from_networkx(there), graph, ordered=False)


def test_graphs_that_networkx_makes():
    """A digraph without any attribute: what has no incoming edges is a root, what has no outgoing a terminal."""
    graph = from_networkx(networkx.DiGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")]))
    assert (graph.roots, graph.terminals, paths(graph).count) == ((0,), (3,), 2)
    labelled = networkx.DiGraph()
    labelled.add_edge("y", "x", label="e1", weight=3)
    assert from_networkx(labelled).symbols == ("e1",)
    with pytest.raises(GraphError, match="have no direction"):
        from_networkx(networkx.path_graph(3))


def test_graph_from_elsewhere():
    """Numbers and symbols as labels, nothing else said."""
    given_graph = Plain([("y", {}), ("a", {"colour": "red"}), ("x", {})], [("y", "a", {"label": 2.0}), ("a", "x", {})])
    graph = from_networkx(given_graph)
    assert graph.vertices == ("y", "a", "x")
    assert [Kind(kind) for kind in graph.kinds] == [Kind.CONSTANT, Kind.VARIABLE]
    assert from_networkx(given_graph, roots=["a"]).vertices == ("y", "a", "x", "a′")


#: Digraphs that are no differentiation graphs, and the message.
REFUSED = {
    "no direction": (Plain([], [], directed=False), "have no direction"),
    "loose": (Plain([("z", {})], []), "vertex 'z' has no edges"),
    "cycle": (Plain([], [("a", "b", {}), ("b", "a", {})]), "the graph has a cycle: "),
    "kind": (Plain([], [("a", "b", {"kind": "zero"})]), r"edge \('a', 'b'\) has the kind 'zero'; expected one of one,"),
    "label": (Plain([], [("a", "b", {"label": [1]})]), "expected a number, a symbol"),
    "root": (Plain([("a", {"root": "first"})], [("a", "b", {})]), "vertex 'a' has the root 'first'"),
    "size": (Plain([("a", {"size": "wide"})], [("a", "b", {})]), "vertex 'a' has the size 'wide'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    given_graph, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        from_networkx(given_graph)


@pytest.mark.parametrize("given_graph", [None, [("y", "x")], DifferentiationGraph([("y", "x")])])
def test_what_is_no_networkx_graph(given_graph):
    with pytest.raises(ArgumentError, match=f"a {type(given_graph).__name__}; expected a networkx.DiGraph"):
        from_networkx(given_graph)


def test_without_networkx(monkeypatch):
    imported = builtins.__import__

    def refuse(name, *rest):
        if name == "networkx":
            raise ModuleNotFoundError(name)
        return imported(name, *rest)

    monkeypatch.setattr("accumulus.graph.exchange.import_module", refuse)
    with pytest.raises(ArgumentError, match=r"needs NetworkX; install it: pip install .accumulus\[networkx\]"):
        to_networkx(DifferentiationGraph([("y", "x")]))
