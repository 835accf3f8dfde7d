from __future__ import annotations

import pytest
from equations import B_REFERENCE, B_SIMPLE, D_SIMPLE, SIX, SIX_FULL, six_graph
from figures import figure, isomorphic
from hypothesis import given
from hypothesis import strategies as st
from random_sets import plain_graphs, random_accumulation, simple_graphs, vertex_elimination

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ExpressionError, UnknownNameError
from accumulus.theory.algebra.expression import edge_names
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.methods.dstar import dstar
from accumulus.theory.methods.factorize import factorize

METHODS = [vertex_elimination, random_accumulation, lambda graph, _: factorize(graph), lambda graph, _: dstar(graph)]


def same_live_part(graph, drawn):
    """Return True if labels join the same vertices in both, up to names of intermediates and without dead parts."""
    match, names = {}, edge_names(graph)
    number = {name: e for e, name in enumerate(edge_names(drawn))}
    live = graph.live_edges.nonzero()[0].tolist()
    used = {names[e] for e in live}
    assert used == {name for name, e in number.items() if drawn.symbols[e] is not None}
    for e in live:
        f = number[names[e]]
        for v, w in ((graph.sources[e], drawn.sources[f]), (graph.targets[e], drawn.targets[f])):
            assert match.setdefault(int(v), int(w)) == int(w)
    assert len(set(match.values())) == len(match)
    for ends, actual in ((graph.roots, drawn.roots), (graph.terminals, drawn.terminals)):
        assert {str(graph.vertices[v]) for v in ends if v in match} == {str(drawn.vertices[v]) for v in actual}
        assert all(graph.vertices[v] == drawn.vertices[match[v]] for v in ends if v in match)
    return True


@given(plain_graphs(), st.integers(0, 10**6), st.sampled_from(METHODS))
def test_expressions_of_any_method_give_the_graph_back(graph, seed, method):
    assert same_live_part(graph, ExpressionSet.from_accumulation(method(graph, seed)).to_graph())


@given(simple_graphs())
def test_simple_graphs(graph):
    expressions = ExpressionSet.from_graph(graph)
    assert not expressions.references
    assert expressions.cost(graph=graph) == expressions.multiplications
    for symbols in ("shared", "split"):
        drawn = expressions.to_graph(symbols)
        assert isomorphic(drawn, graph, fixed=True)
        assert ExpressionSet.from_graph(drawn) == expressions


@given(plain_graphs(), st.integers(0, 10**6), st.sampled_from([vertex_elimination, random_accumulation]))
def test_split_graphs_are_simple(graph, seed, make):
    expressions = ExpressionSet.from_accumulation(make(graph, seed)).inlined()
    drawn = expressions.to_graph("split")
    assert ExpressionSet.from_graph(drawn).equivalent(expressions)
    again = ExpressionSet.from_graph(drawn)
    assert ExpressionSet.from_graph(again.to_graph("split")) == again


def test_figures():
    complex_block = figure("fig:complex-dag-and-complete-path-dag", "b")
    for expressions in (B_SIMPLE, D_SIMPLE, B_REFERENCE):
        assert isomorphic(expressions.to_graph(), complex_block)
    assert isomorphic(B_SIMPLE.to_graph("split"), figure("fig:2-step-factorization", "b"))
    assert isomorphic(D_SIMPLE.to_graph("split"), figure("fig:2-step-factorization", "d"))
    assert isomorphic(B_REFERENCE.to_graph("split"), figure("fig:factorization-with-reference", "c"))
    assert ExpressionSet.from_graph(figure("fig:2-step-factorization", "b")) == B_SIMPLE
    assert ExpressionSet.from_graph(figure("fig:2-step-factorization", "d")) == D_SIMPLE
    drawn = ExpressionSet.from_graph(figure("fig:complex-dag-and-complete-path-dag", "a"))
    assert str(drawn) == "∂v1/∂v7 = (e1*e3 + e2*e4)*(e5*e7 + e6*e8)"
    for expressions in (SIX, SIX_FULL):
        assert isomorphic(expressions.to_graph(), six_graph())


def test_a_complex_graph_has_no_single_expression():
    with pytest.raises(ExpressionError, match=r"vertex 'v2' keeps 1 edges in and 2 out.*from_accumulation"):
        ExpressionSet.from_graph(figure("fig:complex-dag-and-complete-path-dag", "b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a*b + b*a", "the labels a → a form a cycle"),
        ("∂y/∂x = a*b*c; ∂z/∂x = c*d*a", "form a cycle"),
        ("a*c + b*d + a*d", r"lacks the path b\*c"),
        ("a*b + a*b", r"counts the path a\*b 2 times"),
    ],
)
def test_no_graph(text, message):
    with pytest.raises(ExpressionError, match=message):
        ExpressionSet.parse(text).to_graph()
    ExpressionSet.parse(text).to_graph("split")


def test_roots_and_terminals_that_other_vertices_use():
    graph = ExpressionSet.parse("∂y/∂x = a*b; ∂z/∂x = b; ∂z/∂w = c; ∂y/∂w = a*c; ∂z/∂t = c*d; ∂y/∂t = a*c*d").to_graph()
    assert [graph.vertices[v] for v in graph.roots] == ["y", "z"]
    assert [graph.vertices[v] for v in graph.terminals] == ["x", "w", "t"]
    assert graph.kinds.tolist().count(Kind.ONE) == 2


def test_vertices_are_named_apart():
    graph = ExpressionSet.parse("∂v2/∂v1 = a*b*c").to_graph()
    assert graph.vertices == ("v2", "v3", "v4", "v1")
    with pytest.raises(UnknownNameError, match="split"):
        ExpressionSet.parse("a").to_graph("splitt")


def test_chains_of_any_length():
    edges = [(k, k + 1, f"e{k}") for k in range(1500)] + [(0, k + 1, f"f{k}") for k in range(1, 1500)]
    expressions = ExpressionSet.from_graph(DifferentiationGraph(edges))
    assert expressions.multiplications == 1499
    assert ExpressionSet.from_graph(expressions.to_graph("split")) == ExpressionSet.from_graph(expressions.to_graph())
