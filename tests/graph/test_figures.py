"""The figures as data: all of them load, and the comparison up to naming tells graphs apart."""

from __future__ import annotations

import pytest
from figures import LINE_GRAPHS, figure, isomorphic, line_figure, parts
from graph_strategies import VALUED, graphs
from hypothesis import given
from hypothesis import strategies as st

from accumulus import DifferentiationGraph
from accumulus.errors import GraphError

#: Drawn with the self-loop dx/dx, which the text removes in the next step.
SELF_LOOP = ("fig:graph-factoring-terminal", "a")


@pytest.mark.parametrize("case", parts(), ids=" ".join)
def test_every_figure_loads(case):
    if case in LINE_GRAPHS:
        assert list(line_figure(*case).faces)
    elif case == SELF_LOOP:
        with pytest.raises(GraphError, match="the graph has a cycle: 'q14' → 'q14'"):
            figure(*case)
    else:
        graph = figure(*case)
        assert graph.roots
        assert graph.terminals
        assert len(set(graph.vertices)) == len(graph.vertices)


def renamed(graph, numbers, dropped=None):
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    edges = [
        (numbers[j], numbers[i], graph.symbols[e] or graph.constants.get(e))
        for e, (j, i) in enumerate(ends)
        if e != dropped
    ]
    return DifferentiationGraph(edges, [numbers[v] for v in graph.roots], [numbers[v] for v in graph.terminals])


@given(graphs(odd=False, labels=VALUED[:-1]), st.data())
def test_isomorphism(graph, data):
    count = len(graph.vertices)
    other = renamed(graph, data.draw(st.permutations(range(count))))
    assert isomorphic(graph, other, fixed=True)
    assert isomorphic(other, graph)
    dropped = data.draw(st.integers(0, len(graph.sources) - 1))
    try:
        less = renamed(graph, range(count), dropped)
    except GraphError:  # that was the last edge of all roots or terminals
        return
    assert not isomorphic(graph, less)


def test_labels_and_ends_count():
    graph = DifferentiationGraph([("y", "x", "a"), ("z", "x", "b")], ["y", "z"])
    turned = DifferentiationGraph([("y", "x", "b"), ("z", "x", "a")], ["y", "z"])
    assert isomorphic(graph, turned)
    assert not isomorphic(graph, turned, fixed=True)
    assert not isomorphic(graph, DifferentiationGraph([("y", "x", "a"), ("z", "x", "c")], ["y", "z"]))
