"""Path sets, against enumeration by plain recursion."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from figures import figure
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st

from accumulus import DifferentiationGraph
from accumulus.errors import GraphError
from accumulus.theory.graphs.paths import PathSet, paths, paths_at, paths_between_edges


def recursed(graph, v, ends):
    """All paths from v to any of the ends."""
    results = [()] if v in ends else []
    for e in graph.out_edges[v]:
        results += [(e, *rest) for rest in recursed(graph, int(graph.targets[e]), ends)]
    return results


def check(path_set, expected):
    assert Counter(path_set) == Counter(expected)
    assert path_set.count == len(expected)
    through = Counter(e for path in expected for e in path)
    assert path_set.edges == tuple(sorted(through))
    for e in range(len(path_set.graph.sources)):
        assert path_set.overlap(e) == through[e]


@given(graphs(7, odd=False), st.data())
def test_between_vertices(graph, data):
    vertex = st.integers(0, len(graph.vertices) - 1)
    starts, ends = data.draw(st.sets(vertex)), data.draw(st.sets(vertex))
    expected = [path for v in starts for path in recursed(graph, v, ends)]
    actual = paths(graph, starts, ends)
    check(actual, expected)
    touched = {v for path in expected for e in path for v in (graph.sources[e], graph.targets[e])}
    assert set(actual.vertices) == touched | (starts & ends)


@given(graphs(7, odd=False))
def test_from_roots_to_terminals(graph):
    expected = [path for root in graph.roots for path in recursed(graph, root, set(graph.terminals))]
    check(paths(graph), expected)
    assert set(paths(graph).edges) == set(graph.live_edges.nonzero()[0].tolist())
    assert [paths(graph).overlap(e) for e in range(len(graph.sources))] == [
        sum(e in path for path in expected) for e in range(len(graph.sources))
    ]


@given(graphs(7, odd=False), st.data())
def test_between_edges(graph, data):
    edge = st.integers(0, len(graph.sources) - 1)
    starts, ends = data.draw(st.sets(edge)), data.draw(st.sets(edge))
    every = [path for v in range(len(graph.vertices)) for path in recursed(graph, v, set(range(len(graph.vertices))))]
    expected = [path for path in every if path and path[0] in starts and path[-1] in ends]
    check(paths_between_edges(graph, starts, ends), expected)


@given(graphs(7, odd=False), st.data())
def test_mixed_ends(graph, data):
    """From all outgoing edges of a vertex, or to all incoming ones, is from or to the vertex, but for empty paths."""
    v = data.draw(st.integers(0, len(graph.vertices) - 1))
    ends = graph.terminals
    expected = [path for path in recursed(graph, v, set(ends)) if path]
    check(PathSet(graph, from_edges=graph.out_edges[v], to_vertices=ends), expected)
    incoming = [e for end in ends for e in graph.in_edges[end]]
    check(PathSet(graph, from_vertices=[v], to_edges=incoming), expected)


@given(graphs(odd=False))
def test_faces_of_a_vertex(graph):
    """The equation of section 3 for the overlapping degree in P_v."""
    for v in range(len(graph.vertices)):
        result = paths_at(graph, v)
        assert all(len(path) == 2 for path in result)
        assert result.count == len(graph.in_edges[v]) * len(graph.out_edges[v])
        assert all(result.overlap(e) == len(graph.out_edges[v]) for e in graph.in_edges[v])
        assert all(result.overlap(e) == len(graph.in_edges[v]) for e in graph.out_edges[v])


def test_counts_beyond_any_machine_integer():
    """2⁴⁰⁰⁰ paths: counted exactly, enumerated as far as one likes, without recursion."""
    edges = [(k, k + 1) for k in range(4000) for _ in range(2)]
    graph = DifferentiationGraph(edges)
    assert paths(graph).count == 2**4000
    assert paths(graph).overlap(0) == 2**3999
    first, second = islice(paths(graph), 2)
    assert len(first) == len(second) == 4000
    assert first[:-1] == second[:-1]


def test_enumeration_never_enters_a_dead_end():
    """A fan of exponentially many paths that lead nowhere does not hold up the only one that arrives."""
    edges = [(k, k + 1) for k in range(200) for _ in range(2)] + [(0, "x")]
    assert list(paths(DifferentiationGraph(edges, terminals=["x"]))) == [(400,)]


def test_figures():
    """The overlapping degrees that section 4 names for the complex block."""
    graph = figure("fig:complex-dag-and-complete-path-dag", "b")
    edge = {symbol: e for e, symbol in enumerate(graph.symbols)}
    number = {name: v for v, name in enumerate(graph.vertices)}
    assert paths(graph).count == 6
    assert paths_at(graph, number["v7"]).overlap(edge["e11"]) == 2
    assert paths_at(graph, number["v8"]).overlap(edge["e12"]) == 2
    multi = figure("fig:multi-root-terminal-graph", "a")
    number = {name: v for v, name in enumerate(multi.vertices)}
    relevant = paths(multi, number["v-2"], number["v12"])
    assert {multi.symbols[e] for e in relevant.edges} == {"e18", "e3", "e7", "e4", "e8", "e15"}
    assert all(paths(multi).overlap(e) > 1 for e in relevant.edges)


def test_unknown_edges_are_named():
    graph = DifferentiationGraph([("y", "x")])
    for wrong in (1, -1, "e1"):
        with pytest.raises(GraphError, match=f"no edge {wrong!r}"):
            paths(graph).overlap(wrong)
