from __future__ import annotations

import pytest
from figures import figure
from inside import count

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import edge_names, plain_name
from accumulus.theory.algebra.sets import ExpressionSet

GRAPH = figure("fig:complex-dag-and-complete-path-dag", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("∂v1/∂v9 = e1*e99", "unknown label 'e99'; did you mean 'e9'"),
        ("∂v1/∂v99 = e1", "unknown terminal 'v99'"),
        ("∂v9/∂v9 = e1", "unknown root 'v9'"),
        ("∂v1/∂v9 = e1*e5*e8*e11", r"e1 runs from 'v1' to 'v2', e5 runs from 'v3' to 'v5'"),
        ("∂v1/∂v9 = e1*(e4 + e5)*e8*e11", "e4 \\+ e5 is no sum of paths between two vertices"),
        ("∂v1/∂v9 = e1*e4*e8", "the expression runs from 'v1' to 'v7'"),
        ("∂v1/∂v9 = e8*e4", "e8 runs from 'v5' to 'v7', e4 runs from 'v2' to 'v5'"),
        ("∂v1/∂v9 = e1*e3*e7*e11", r"∂v1/∂v9 lacks the path e\d+\*"),
        ("s = e8*e11; ∂v1/∂v9 = (e1*e4 + e2*e5)*(s + e9*e12) + e1*e3*e7*e11", r"lacks the path e2\*e6\*e10\*e12"),
        (
            "s = e8*e11; ∂v1/∂v9 = (e1*e4 + e2*e5)*(s + e9*e12) + e1*e3*e7*e11 + e2*e6*e10*e12 + e1*e4*s",
            r"counts the path e1\*e4\*e8\*e11 2 times instead of once",
        ),
    ],
)
def test_culprits(text, message):
    with pytest.raises(ExpressionError, match=message):
        ExpressionSet.parse(text).to_accumulation(GRAPH)


def test_a_missing_entry():
    graph = DifferentiationGraph([("y", "x", "a"), ("z", "x", "b")])
    with pytest.raises(ExpressionError, match="∂z/∂x lacks the path b"):
        ExpressionSet.parse("∂y/∂x = a").to_accumulation(graph)


def test_an_expression_alone_fits_one_root_and_terminal():
    text = "(e1*e4 + e2*e5)*(e8*e11 + e9*e12) + e1*e3*e7*e11 + e2*e6*e10*e12"
    assert count(ExpressionSet.parse(text).to_accumulation(GRAPH), "fma") == 11


def test_split_vertices_share_labels():
    # the copies of e11 and e12 are told apart by what comes before them
    split = figure("fig:2-step-factorization", "b")
    text = "e1*(e3*e7*e11 + e4*(e8*e11 + e9*e12)) + e2*(e6*e10*e12 + e5*(e8*e11 + e9*e12))"
    accumulation = ExpressionSet.parse(text).to_accumulation(split)
    accumulation.verify()
    assert count(accumulation, "fma") == 12
    # one reference for both copies of s1 would be one value for edges that are not the same
    shared = ExpressionSet.parse("s1 = e8*e11 + e9*e12; e1*(e3*e7*e11 + e4*s1) + e2*(e6*e10*e12 + e5*s1)")
    assert count(shared.to_accumulation(split), "fma") == 12


def test_unit_edges_may_be_left_out():
    graph = DifferentiationGraph(
        [("y", "a", "e1"), ("a", "b", Kind.ONE), ("b", "x", "e2"), ("a", "c", "e3"), ("c", "x", Kind.ONE)],
        roots=["y", "b"],
    )
    for text in ("∂y/∂x = e1*(e2 + e3); ∂b′/∂x = e2", "∂y/∂x = e1*e2 + e1*e3*e5; ∂b′/∂x = e6*e2"):
        ExpressionSet.parse(text).to_accumulation(graph).verify()


def test_names():
    assert plain_name("a_{bc}") == "abc"
    assert plain_name("a_{b_c}") == "a_{b_c}"
    graph = DifferentiationGraph([("y", "a", "e_{2}"), ("a", "x", None), ("y", "x", None)])
    assert edge_names(graph) == ["e2", "e2′", "e3"]
    both = DifferentiationGraph([("y", "a", "x_1"), ("a", "x", "x1")])
    assert edge_names(both) == ["x_1", "x1"]
    parallel = DifferentiationGraph([("y", "x", "a"), ("y", "x", "a")])
    assert edge_names(parallel) == ["a", "a′"]
    assert edge_names(figure("fig:2-step-factorization", "b")).count("e11") == 3
