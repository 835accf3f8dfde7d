"""Local Jacobians, against sums over paths in the freest ring."""

from __future__ import annotations

from itertools import pairwise

import pytest
from figures import figure
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from path_sums import ONE, letters

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import GraphError, UnknownNameError
from accumulus.graph.degrees import level_sets, segmented, successors
from accumulus.graph.graph import UNIT
from accumulus.theory.graphs.paths import bauer, local_jacobian, paths

LABELS = (None, None, Kind.ONE, Kind.MINUS_ONE)


def values(graph, steps):
    result = letters(graph)
    for is_product, left, right in steps:
        result.append(result[left] * result[right] if is_product else result[left] + result[right])
    return result


def evaluated(local):
    by_reference = values(local.graph, local.steps)
    return {entry: ONE if ref == UNIT else by_reference[ref] for entry, ref in local.entries.items()}


def summed(graph, rows, columns, held):
    """Sum over all paths from rows to columns none of whose inner vertices is held."""
    labels = letters(graph)
    results = {}
    for row, j in enumerate(rows):
        for column, i in enumerate(columns):
            for path in paths(graph, j, i):
                if held & {int(graph.targets[e]) for e in path[:-1]}:
                    continue
                term = ONE
                for e in path:
                    term = term * labels[e]
                results[row, column] = results[row, column] + term if (row, column) in results else term
    return results


@given(graphs(8, odd=False, labels=LABELS), st.data())
def test_any_two_sets(graph, data):
    vertex = st.integers(0, len(graph.vertices) - 1)
    rows, columns = data.draw(st.sets(vertex)), data.draw(st.sets(vertex))
    for counted, held in (("direct", rows | columns), ("all", set())):
        local = local_jacobian(graph, rows, columns, paths=counted)
        assert (local.rows, local.columns) == (tuple(sorted(rows)), tuple(sorted(columns)))
        assert evaluated(local) == summed(graph, local.rows, local.columns, held)
        units = {e for e, kind in enumerate(graph.kinds) if kind == Kind.ONE} | {UNIT}
        assert not any(is_product and units & {left, right} for is_product, left, right in local.steps)


@given(graphs(odd=False, labels=LABELS))
def test_the_global_jacobian(graph):
    local = local_jacobian(graph, graph.roots, graph.terminals)
    rows = [graph.roots.index(v) for v in local.rows]
    columns = [graph.terminals.index(v) for v in local.columns]
    results = {(rows[row], columns[column]): value for (row, column), value in evaluated(local).items()}
    assert results == bauer(graph, letters(graph))


@given(graphs(odd=False, labels=LABELS))
def test_neighbouring_levels_hold_labels(graph):
    """In a segmented graph J^l_{l+1} is a part of the graph, but for parallel edges; their product is the Jacobian."""
    cut = segmented(graph)
    sets = level_sets(cut)
    product = None
    for above, below in pairwise(sets):
        local = local_jacobian(cut, above, below)
        assert not any(is_product for is_product, *_ in local.steps)
        entries = {(above[row], below[column]): value for (row, column), value in evaluated(local).items()}
        product = entries if product is None else multiplied(product, entries)
    ends = {v: k for k, v in enumerate(cut.roots)}, {v: k for k, v in enumerate(cut.terminals)}
    results = {(ends[0][j], ends[1][i]): value for (j, i), value in (product or {}).items() if i in ends[1]}
    assert results == bauer(cut, letters(cut))


def multiplied(first, second):
    results = {}
    for (a, b), x in first.items():
        for (c, d), y in second.items():
            if b == c:
                results[a, d] = results[a, d] + x * y if (a, d) in results else x * y
    return results


@given(graphs(odd=False), st.data())
def test_components(graph, data):
    """Walking both ways from any row or column meets its component, and nothing else."""
    vertex = st.integers(0, len(graph.vertices) - 1)
    local = local_jacobian(graph, data.draw(st.sets(vertex)), data.draw(st.sets(vertex)))
    components = local.components
    assert sorted(row for rows, _ in components for row in rows) == list(range(len(local.rows)))
    assert sorted(column for _, columns in components for column in columns) == list(range(len(local.columns)))
    for rows, columns in components:
        seen = {("row", rows[0]) if rows else ("column", columns[0])}
        while True:
            more = {
                end
                for row, column in local.entries
                for end in (("row", row), ("column", column))
                if {("row", row), ("column", column)} & seen
            }
            if more <= seen:
                break
            seen |= more
        assert seen == {("row", row) for row in rows} | {("column", column) for column in columns}
    assert local.is_undivided == (len(components) <= 1)


def named(graph, *names):
    return [graph.vertices.index(name) for name in names]


def test_figure_of_conflicting_orders():
    """J⟨v1,v11|v2,v3,v12,v13⟩ × J⟨v2,v3,v12,v13|v4,v14⟩ = J⟨v1,v11|v4,v14⟩ = (s1, s2), two undivided parts each."""
    graph = figure("fig:conflicting-depth-accumulation-order", "a")
    tops, middle, bottoms = (
        named(graph, *names) for names in (("v1", "v11"), ("v2", "v3", "v12", "v13"), ("v4", "v14"))
    )
    first, second = local_jacobian(graph, tops, middle), local_jacobian(graph, middle, bottoms)
    assert not first.steps
    assert not second.steps
    assert len(first.components) == len(second.components) == 2
    whole = local_jacobian(graph, tops, bottoms)
    assert {entry: repr(value) for entry, value in evaluated(whole).items()} == {
        (0, 0): "1·e1·e3 + 1·e2·e4",
        (1, 1): "1·e11·e13 + 1·e12·e14",
    }
    assert multiplied(evaluated(first), evaluated(second)) == evaluated(whole)
    assert sum(is_product for is_product, *_ in whole.steps) == 4


def test_successors_that_depend_on_each_other():
    graph = DifferentiationGraph([("y", "a", "e1"), ("y", "b", "e2"), ("a", "b", "e3"), ("b", "x", "e4")])
    y, a, b = named(graph, "y", "a", "b")
    assert local_jacobian(graph, y, successors(graph, y)).entries == {(0, 0): 0, (0, 1): 1}
    through = local_jacobian(graph, y, [a, b], paths="all")
    assert repr(evaluated(through)[0, 1]) == "1·e1·e3 + 1·e2"


def test_refusals():
    graph = DifferentiationGraph([("y", "x")])
    with pytest.raises(GraphError, match="no vertex 4"):
        local_jacobian(graph, 0, [4])
    with pytest.raises(UnknownNameError, match="unknown paths 'some'"):
        local_jacobian(graph, 0, 1, paths="some")
