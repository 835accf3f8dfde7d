from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_sets import expressions

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import (
    Product,
    Reference,
    Sum,
    Symbol,
    folded,
    operands,
    postorder,
    product_of_factors,
    sum_of_terms,
)

A, B, C = Symbol("a"), Symbol("b"), Symbol("c")


def test_products_are_ordered_and_sums_are_not():
    assert A * B != B * A
    assert A + B == B + A
    assert hash(A + B) == hash(B + A)
    assert (A + B) * C == product_of_factors([B + A, C])
    assert A + A != A
    assert A != "a"


def test_flattening():
    assert Product((Product((A, B)), C)).factors == (A, B, C) == (A * (B * C)).factors
    assert set(operands((A + B) + C)) == {A, B, C}
    assert operands(A) == ()
    assert product_of_factors([A]) == sum_of_terms([A]) == A


def test_symbols_and_references_differ():
    assert Symbol("s1") != Reference("s1")
    assert Symbol("s1") * A != Reference("s1") * A


@given(expressions, st.randoms())
def test_order_of_terms_is_canonical(expression, rng):
    def shuffled(node, children):
        if isinstance(node, Sum):
            rng.shuffle(children)
        return (
            product_of_factors(children) if isinstance(node, Product) else sum_of_terms(children) if children else node
        )

    other = folded([expression], shuffled)[expression]
    assert other == expression
    assert hash(other) == hash(expression)
    assert str(other) == str(expression)


def test_natural_order_of_terms():
    assert str(Symbol("e10") + Symbol("e9") * A + Symbol("e9") + Symbol("e1")) == "e1 + e9 + e9*a + e10"


@given(expressions)
def test_multiplications_are_those_written(expression):
    assert expression.multiplications == str(expression).count("*")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product((A,)), "at least two"),
        (lambda: Sum(()), "at least two"),
        (lambda: Product((A, "b")), "expected an expression"),
        (lambda: Symbol(""), "nonempty"),
        (lambda: Symbol(3), "nonempty"),
    ],
)
def test_bad_parts(make, message):
    with pytest.raises(ExpressionError, match=message):
        make()


def test_operators_reject_other_types():
    with pytest.raises(TypeError):
        A * 2
    with pytest.raises(TypeError):
        A + "b"


def test_depth_is_no_limit():
    expression = A
    for k in range(5_000):
        expression = expression * B if k % 2 else expression + C
    assert expression.multiplications == 2_500
    assert expression == folded([expression], lambda node, _: node)[expression]


def test_shared_structure_is_visited_once():
    expression = A
    for _ in range(200):
        expression = (expression + B) * (expression + C)
    assert expression.multiplications == 2**200 - 1


def test_postorder_around_a_cycle():
    assert sorted(postorder([0], lambda k: [(k + 1) % 3])) == [0, 1, 2]
