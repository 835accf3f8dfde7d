"""Neighbours, degrees, index ranges and index domains, against reachability by enumeration and the drawn degrees."""

from __future__ import annotations

import pytest
from figures import degrees as drawn_degrees
from figures import figure
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st

from accumulus import DifferentiationGraph
from accumulus.errors import GraphError
from accumulus.graph.degrees import (
    in_degrees,
    incoming,
    index_domains,
    index_ranges,
    out_degrees,
    outgoing,
    predecessors,
    root_degrees,
    roots_of,
    successors,
    terminal_degrees,
    terminals_of,
)


def connected(graph):
    """All pairs that a path joins, by transitive closure."""
    count = len(graph.vertices)
    joined = {(v, v) for v in range(count)}
    joined.update(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    for k in range(count):
        joined.update((j, i) for j in range(count) if (j, k) in joined for i in range(count) if (k, i) in joined)
    return joined


@given(graphs(odd=False), st.data())
def test_sets_of_neighbours(graph, data):
    selected = data.draw(st.lists(st.integers(0, len(graph.vertices) - 1)))
    ends = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert predecessors(graph, selected) == tuple(sorted({j for j, i in ends if i in selected}))
    assert successors(graph, selected) == tuple(sorted({i for j, i in ends if j in selected}))
    assert incoming(graph, selected) == tuple(e for e, (_, i) in enumerate(ends) if i in selected)
    assert outgoing(graph, selected) == tuple(e for e, (j, _) in enumerate(ends) if j in selected)
    for v in range(len(graph.vertices)):
        assert predecessors(graph, v) == predecessors(graph, [v])
        assert successors(graph, v) == successors(graph, [v])
        assert in_degrees(graph)[v] == len(incoming(graph, v))
        assert out_degrees(graph)[v] == len(outgoing(graph, v))


@given(graphs(odd=False), st.data())
def test_reachability(graph, data):
    joined = connected(graph)
    for v in range(len(graph.vertices)):
        assert roots_of(graph, v) == tuple(y for y in graph.roots if (y, v) in joined)
        assert terminals_of(graph, v) == tuple(x for x in graph.terminals if (v, x) in joined)
        assert root_degrees(graph)[v] == len(roots_of(graph, v))
        assert terminal_degrees(graph)[v] == len(terminals_of(graph, v))
    some = data.draw(st.lists(st.integers(0, len(graph.vertices) - 1)))
    above, below = index_ranges(graph, some), index_domains(graph, some)
    for v in range(len(graph.vertices)):
        assert [above[v] >> k & 1 for k in range(len(some))] == [(u, v) in joined for u in some]
        assert [below[v] >> k & 1 for k in range(len(some))] == [(v, u) in joined for u in some]


#: Vertices at which a drawing prints other degrees than the definition gives, with those that it gives: (a) to (c) have
#: an edge from v-2 to v1 that the graph they were drawn after has not, so v-2 reaches v3 and v6, too.
SLIPS = {
    ("fig:multi-root-terminal-graph", "a"): {},
    ("fig:multi-root-terminal-factorization", "a"): {"v3": (4, 4), "v6": (4, 3)},
    ("fig:multi-root-terminal-factorization", "b"): {"v3": (4, 4)},
    ("fig:multi-root-terminal-factorization", "c"): {"v3": (4, 4)},
    **{("fig:multi-root-terminal-factorization", part): {} for part in "defghi"},
}


@pytest.mark.parametrize("case", SLIPS, ids=" ".join)
def test_drawn_degrees(case):
    graph = figure(*case)
    drawn = drawn_degrees(*case)
    results = {
        name: (root_degrees(graph)[v], terminal_degrees(graph)[v])
        for v, name in enumerate(graph.vertices)
        if name in drawn
    }
    assert results == drawn | SLIPS[case]


def test_unknown_vertices_are_named():
    graph = DifferentiationGraph([("y", "x")])
    for call in (predecessors, successors, roots_of, terminals_of):
        for wrong in (2, -1, "y", None):
            with pytest.raises(GraphError, match=f"no vertex {wrong!r}"):
                call(graph, wrong)
    with pytest.raises(GraphError, match="no vertex 9"):
        index_domains(graph, [0, 9])


def test_more_ends_than_a_number_has_bits():
    edges = [(("y", k), ("a", k % 7)) for k in range(150)] + [
        (("a", k % 7), ("x", j)) for k in range(7) for j in range(130)
    ]
    graph = DifferentiationGraph([*dict.fromkeys(edges), (("y", 0), ("a", 1))])
    degrees = dict(zip(graph.vertices, zip(root_degrees(graph), terminal_degrees(graph), strict=True), strict=True))
    assert degrees["a", 3] == (len(range(3, 150, 7)), 130)
    assert degrees["a", 1] == (len(range(1, 150, 7)) + 1, 130)
    assert degrees["x", 129] == (150, 1)
    assert degrees["y", 0] == (1, 130)
