from __future__ import annotations

import pytest
from equations import B_REFERENCE, B_SIMPLE
from graph_strategies import graphs, orders
from hypothesis import given
from hypothesis import strategies as st
from inside import count, eliminate_vertices
from path_sums import polynomials
from random_sets import plain_graphs, random_accumulation, vertex_elimination

import accumulus as acc
from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ExpressionError, UnknownNameError
from accumulus.theory.algebra.expression import parse
from accumulus.theory.algebra.sets import ExpressionSet, expressions

SEEDS = st.integers(0, 10**6)


def live_cost(accumulation):
    """Products that the entries depend on."""
    steps = accumulation.steps
    needed = set(accumulation.entries.values())
    products = 0
    for step in reversed(range(len(steps))):
        if steps.edges + step in needed:
            needed.update((steps.left[step], steps.right[step]))
            products += steps.is_product[step]
    return products


@pytest.mark.parametrize(
    ("labels", "sizes", "order", "cost"),
    [
        ([None, None, None], {"y": 3, "p": 3, "q": 3}, ["q", "p"], 18),  # 3·3·3 + 3·3 from left to right: 36
        ([None, None, None], {"p": 3, "q": 3, "x": 3}, ["p", "q"], 18),
        ([None, 2.0, 3.0], {}, ["q", "p"], 1),  # 2 from left to right
    ],
)
def test_products_stay_bracketed_where_it_matters(labels, sizes, order, cost):
    chain = [(j, i, label) for (j, i), label in zip(["yp", "pq", "qx"], labels, strict=True)]
    graph = DifferentiationGraph(chain, sizes=sizes)
    plan = acc.plan(graph, order=order)
    assert expressions(plan).cost("multiplications", graph) == plan.cost == cost


@given(graphs(sized=True), SEEDS, st.sampled_from(["fma", "multiplications"]))
def test_expressions_cost_as_much_as_the_accumulation(graph, seed, objective):
    accumulation = random_accumulation(graph, seed)
    assert ExpressionSet.from_accumulation(accumulation).cost(objective, graph) <= count(accumulation, objective)


@given(plain_graphs(units=True), SEEDS, st.sampled_from([vertex_elimination, random_accumulation]))
def test_from_and_to_accumulation(graph, seed, make):
    accumulation = make(graph, seed)
    expressions = ExpressionSet.from_accumulation(accumulation)
    again = expressions.to_accumulation(graph)
    again.verify()
    assert polynomials(again) == polynomials(accumulation)
    assert count(again, "fma") == live_cost(accumulation) == expressions.multiplications
    assert expressions.cost(graph=graph) == expressions.multiplications
    assert ExpressionSet.from_accumulation(again) == expressions
    assert ExpressionSet.parse(str(expressions)) == expressions


@given(st.data())
def test_any_graph(data):
    graph = data.draw(graphs())
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    expressions = ExpressionSet.from_accumulation(accumulation)
    again = expressions.to_accumulation(graph)
    again.verify()
    assert polynomials(again) == polynomials(accumulation)


@given(plain_graphs(), SEEDS, st.sampled_from([vertex_elimination, random_accumulation]))
def test_inlined_and_shared(graph, seed, make):
    expressions = ExpressionSet.from_accumulation(make(graph, seed))
    inlined, shared = expressions.inlined(), expressions.shared()
    assert not inlined.references
    assert inlined.multiplications >= expressions.multiplications >= shared.multiplications
    assert inlined.shared().multiplications <= inlined.multiplications
    for other in (inlined, shared, inlined.shared()):
        assert other.equivalent(expressions)
        assert other.words() == expressions.words()
        other.to_accumulation(graph).verify()
    assert shared.shared().multiplications <= shared.multiplications


def test_shared_finds_references_that_are_there():
    expressions = ExpressionSet.parse("t = b*c + d; u = b*c + d; w = e*f; ∂y/∂x = a*t + g*u; ∂y/∂z = w*(d + b*c)")
    assert str(expressions.shared()) == "t = b*c + d\n∂y/∂x = a*t + g*t\n∂y/∂z = e*f*t"


def test_inlined_stops_at_a_limit():
    lines = ["s0 = a*b"] + [f"s{k} = s{k - 1}*c + s{k - 1}*d" for k in range(1, 40)]
    expressions = ExpressionSet.parse("\n".join([*lines, "s39"]))
    with pytest.raises(ExpressionError, match="at most 10000000"):
        expressions.inlined()


def test_parse_statements():
    expressions = ExpressionSet.parse("""
        # references may come in any order
        ∂v_{-2}/∂v_{12} = s2*a; s2 = s1*b
        d `y 1` / d x = a

        s1 = c + d
    """)
    assert list(expressions.references) == ["s1", "s2"]
    assert list(expressions.entries) == [("v-2", "v12"), ("y 1", "x")]
    assert ExpressionSet.parse(str(expressions)) == expressions
    assert list(ExpressionSet.parse("a*b").entries) == [("y", "x")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no entry"),
        ("s1 = a", "no entry"),
        ("a; b", "∂y/∂x is defined a second time"),
        ("s1 = a; s1 = b; s1", "s1 is defined a second time"),
        ("s1 = s2*a; s2 = s1*b; s1", "depends on itself"),
        ("s1 = a*s1; s1", "'s1' depends on itself"),
        ("2 = a; b", "expected a name, or ∂root/∂terminal"),
        ("∂y/x = a", "expected a name"),
        ("∂y/∂x =", "end of the expression"),
    ],
)
def test_bad_sets(text, message):
    with pytest.raises(ExpressionError, match=message):
        ExpressionSet.parse(text)


def test_undefined_reference():
    with pytest.raises(ExpressionError, match="'s1' is used but not defined"):
        ExpressionSet({}, {("y", "x"): parse("s1", ["s1"])})


def test_equivalent_needs_the_same_entries():
    assert B_REFERENCE.equivalent(B_SIMPLE)
    assert not ExpressionSet.parse("∂y/∂x = a").equivalent(ExpressionSet.parse("∂y/∂z = a"))


def test_objectives():
    graph = DifferentiationGraph([("y", "a", Kind.MINUS_ONE), ("a", "x", "b")])
    expressions = ExpressionSet.from_accumulation(eliminate_vertices(graph, graph.intermediates))
    assert [expressions.cost(objective, graph) for objective in ("fma", "multiplications")] == [1, 0]
    with pytest.raises(UnknownNameError):
        expressions.cost("adds")


def test_expressions_come_from_text():
    with pytest.raises(ExpressionError, match="bytes b'e1' was given; expected text"):
        ExpressionSet.parse(b"e1")
