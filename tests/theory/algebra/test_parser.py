from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_sets import expressions

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Product, Reference, Sum, Symbol, parse
from accumulus.theory.algebra.sets import ExpressionSet


@given(expressions)
def test_text_is_read_back(expression):
    assert parse(str(expression), ["s1", "s2"]) == expression


def test_grammar():
    a, b, c = map(Symbol, "abc")
    assert parse("a*(b + c)") == Product((a, Sum((b, c))))
    assert parse(" a · ( (b)+\tc ) ") == Product((a, Sum((b, c))))
    assert parse("((a))") == a
    assert parse("a*(b*c)") == parse("(a*b)*c") == parse("a*b*c")
    assert parse("e_{10}*v_1*x′*`sin(x)`") == Product(tuple(map(Symbol, ("e10", "v1", "x′", "sin(x)"))))
    assert parse("s1*a", ["s1"]) == Product((Reference("s1"), a))


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("", 0, "the end of the expression"),
        ("   ", 3, "the end of the expression"),
        ("a*", 2, "the end of the expression"),
        ("a + ) * b", 4, r"found '\)'"),
        ("a b", 2, r"write products as e3\*e7"),
        ("a(b)", 1, "expected"),
        ("a**b", 2, "found"),
        ("(a + b", 0, "never closed"),
        ("a*(b + (c)", 2, "never closed"),
        ("a + b)", 5, "closes nothing"),
        ("a - b", 2, "no differences"),
        ("a / b", 2, "no quotients"),
        ("a^2", 1, "no powers"),
        ("2*a", 0, "begins with a letter"),
        ("a + __import__('os')", 14, "expected"),
        ("a; b", 1, "not part"),
        ("a*`b", 2, "not part"),
    ],
)
def test_errors_point_at_the_character(text, character, message):
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    _, line, caret = str(caught.value).split("\n")
    assert line == "  " + text
    assert caret == "  " + " " * character + "^"


def test_errors_in_long_lines_and_in_sets():
    with pytest.raises(ExpressionError) as caught:
        parse("a*" * 500 + "+" + "*a" * 500)
    _, line, caret = str(caught.value).split("\n")
    assert line[len(caret) - 1] == "+"
    assert len(line) < 130
    with pytest.raises(ExpressionError, match=r"\(line 2\)\n  ∂y/∂x = s1 s1\n             \^"):
        ExpressionSet.parse("s1 = a*b\n∂y/∂x = s1 s1")


@given(st.text(max_size=20) | st.text("ab*+() =;∂/`\n", max_size=30))
def test_any_text_is_an_expression_or_a_typed_error(text):
    for read in (parse, ExpressionSet.parse):
        with suppress(ExpressionError):
            read(text)


def test_depth_is_no_limit():
    deep = "(" * 10_000 + "a" + " + b)*c" * 10_000
    assert parse(deep).multiplications == 10_000
    with pytest.raises(ExpressionError, match="the end"):
        parse("(" * 20_000)
