from __future__ import annotations

import pytest
from equations import A_FULL, A_SIMPLE, B_REFERENCE, B_SIMPLE, CHEAPER, D_SIMPLE, SIX, SIX_FULL, six_graph
from figures import figure
from inside import count, eliminate_vertices

from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.methods.factorize import factorize

FIGURE_A = figure("fig:complex-dag-and-complete-path-dag", "a")
FIGURE_B = figure("fig:complex-dag-and-complete-path-dag", "b")
SIX_GRAPH = six_graph()


@pytest.mark.parametrize(
    ("expressions", "graph", "cost"),
    [
        (A_SIMPLE, FIGURE_A, 5),
        (A_FULL, FIGURE_A, 12),
        (B_SIMPLE, FIGURE_B, 12),
        (D_SIMPLE, FIGURE_B, 12),
        (B_REFERENCE, FIGURE_B, 10),
        (SIX, SIX_GRAPH, 26),
        (CHEAPER, SIX_GRAPH, 22),
    ],
)
def test_costs(expressions, graph, cost):
    accumulation = expressions.to_accumulation(graph)
    accumulation.verify()
    assert count(accumulation, "fma") == expressions.cost() == expressions.multiplications == cost


def test_references():
    assert B_SIMPLE.shared() == B_REFERENCE
    assert B_SIMPLE.shared().cost() == D_SIMPLE.shared().cost() == 10
    assert B_REFERENCE.inlined() == B_SIMPLE
    assert SIX.inlined() == SIX_FULL
    assert SIX_FULL.shared().cost() == SIX.shared().cost() == SIX.cost()


def test_equal_polynomials():
    assert A_SIMPLE.equivalent(A_FULL)
    assert B_SIMPLE.equivalent(D_SIMPLE)
    assert B_SIMPLE.equivalent(B_REFERENCE)
    assert not A_SIMPLE.equivalent(B_SIMPLE)
    assert SIX.equivalent(SIX_FULL)
    assert SIX.equivalent(CHEAPER)


def test_all_paths():
    for graph, simple, cost in ((FIGURE_A, A_SIMPLE, 12), (FIGURE_B, B_SIMPLE, 18)):
        (expression,) = simple.entries.values()
        paths = expand_to_text(simple)
        full = ExpressionSet.parse(" + ".join(paths))
        assert full.to_accumulation(graph).entries
        assert full.cost(graph=graph) == cost == sum(path.count("*") for path in paths)
        assert expression.multiplications < cost


def expand_to_text(expressions):
    from accumulus.theory.algebra.expression import expand

    (expression,) = expressions.entries.values()
    return sorted("*".join(word) for word in expand(expression))


@pytest.mark.parametrize(
    ("direction", "references", "expected"),
    [
        ("backward", False, B_SIMPLE),
        ("backward", True, B_REFERENCE),
        ("forward", False, D_SIMPLE),
        ("forward", True, D_SIMPLE.shared()),
    ],
)
def test_factorization_gives_the_equations(direction, references, expected):
    accumulation = factorize(FIGURE_B, direction, references=references)
    assert ExpressionSet.from_accumulation(accumulation) == expected


def test_other_methods_give_equal_expressions():
    order = [FIGURE_B.vertices.index(f"v{k}") for k in (5, 4, 6, 2, 3, 7, 8)]
    result = ExpressionSet.from_accumulation(eliminate_vertices(FIGURE_B, order))
    assert result.equivalent(B_SIMPLE)
    assert result != B_SIMPLE


def test_the_cheaper_set_is_vertex_elimination():
    order = [SIX_GRAPH.vertices.index(f"v{k}") for k in (2, 3, 4, 6, 5, 7, 8, 9)]
    accumulation = eliminate_vertices(SIX_GRAPH, order)
    assert count(accumulation, "fma") == 22
    assert ExpressionSet.from_accumulation(accumulation).equivalent(SIX)
