"""Dominators and postdominators, against what is cut off when a vertex is removed."""

from __future__ import annotations

from functools import partial

import pytest
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st

from accumulus import DifferentiationGraph
from accumulus.errors import GraphError
from accumulus.graph.degrees import predecessors, successors
from accumulus.theory.graphs.dominators import dominators, postdominators
from accumulus.theory.graphs.paths import paths


def reached(adjacent, starts, without):
    results = set(starts) - {without}
    pending = list(results)
    while pending:
        for v in adjacent(pending.pop()):
            if v not in results and v != without:
                results.add(v)
                pending.append(v)
    return results


def check(tree, count, adjacent, starts):
    every = reached(adjacent, starts, None)
    for v in range(count):
        assert (tree.depth(v) >= 0) == (v in every)
        expected = {b for b in every if v in every and (b == v or v not in reached(adjacent, starts, b))}
        assert {b for b in range(count) if tree.dominates(b, v)} == expected
        assert set(tree.chain(v)) == expected
        assert tree.depth(v) == (len(expected) if v in every else -1)
        above = expected - {v}
        closest = [b for b in above if all(tree.dominates(other, b) for other in above)]
        assert tree.immediate(v) == (closest[0] if closest else -1)
        if closest:
            assert v in tree.children[closest[0]]
    assert sum(map(len, tree.children)) == sum(tree.immediate(v) >= 0 for v in range(count))


@given(graphs(odd=False), st.data())
def test_both_directions(graph, data):
    count = len(graph.vertices)
    for root in graph.roots:
        check(dominators(graph, root), count, partial(successors, graph), [root])
    for terminal in graph.terminals:
        check(postdominators(graph, terminal), count, partial(predecessors, graph), [terminal])
    starts = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    top = {v for v in starts if not any(paths(graph, u, v).count for u in starts - {v})}
    check(dominators(graph, top), count, partial(successors, graph), top)


@given(graphs(odd=False))
def test_one_tree_serves_all_derivatives(graph):
    """In the graph of ∂y/∂x dominators are those seen from y, and postdominators those seen from x."""
    for y in graph.roots:
        for x in graph.terminals:
            both = paths(graph, y, x)
            inside = set(both.vertices)
            ends = [(int(graph.sources[e]), int(graph.targets[e])) for e in both.edges]
            check_within(dominators(graph, y), inside, ends, y)
            check_within(postdominators(graph, x), inside, [(i, j) for j, i in ends], x)


def check_within(tree, inside, ends, start):
    for v in inside:
        for b in inside:
            without = reached(lambda u: [i for j, i in ends if j == u], [start], b)
            assert tree.dominates(b, v) == (b == v or v not in without)


def test_long_chains_and_ladders():
    """Depths of thousands, where walking up vertex by vertex would take quadratic time."""
    edges = [(k, k + 1) for k in range(5000)] + [(k, 5001) for k in range(5001)]
    graph = DifferentiationGraph(edges)
    tree = dominators(graph, graph.vertices.index(0))
    assert tree.immediate(graph.vertices.index(5001)) == graph.vertices.index(0)
    assert tree.depth(graph.vertices.index(5000)) == 5001


def test_unknown_root():
    with pytest.raises(GraphError, match="no vertex 3"):
        dominators(DifferentiationGraph([("y", "x")]), 3)
