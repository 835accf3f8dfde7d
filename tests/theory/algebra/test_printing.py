from __future__ import annotations

import sys
from collections import Counter

import pytest
from equations import B_REFERENCE
from hypothesis import given
from random_sets import expressions

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Reference, Symbol, expand, folded, latex_name, parse, quoted


def test_latex():
    assert parse("e18*(e3*e7 + e4*e8)*e15").latex() == "e_{18} (e_{3} e_{7} + e_{4} e_{8}) e_{15}"
    assert B_REFERENCE.latex() == (
        "\\begin{align*}\n"
        "s_{1} &= e_{8} e_{11} + e_{9} e_{12} \\\\\n"
        "\\frac{\\partial v_{1}}{\\partial v_{9}} &= "
        "e_{1} (e_{3} e_{7} e_{11} + e_{4} s_{1}) + e_{2} (e_{5} s_{1} + e_{6} e_{10} e_{12})\n"
        "\\end{align*}"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("e18", "e_{18}"),
        ("v-2", "v_{-2}"),
        ("x", "x"),
        ("e1′", "e_{1}'"),
        ("x′", "x'"),
        ("e_{10}", "e_{10}"),
        ("flux", r"\mathrm{flux}"),
        ("a_b", r"\mathrm{a\_b}"),
        ("50%", r"\mathrm{50\%}"),
    ],
)
def test_latex_names(name, shown):
    assert latex_name(name) == shown


def test_quoted_names():
    assert [quoted(name) for name in ("e1", "x′", "a b", "e_{1}", "v_1", "`\n")] == [
        "e1",
        "x′",
        "`a b`",
        "`e_{1}`",
        "`v_1`",
        "`' `",
    ]


@given(expressions)
def test_sympy_expands_to_the_same_polynomial(expression):
    sympy = pytest.importorskip("sympy")

    def without_references(node, children):
        if isinstance(node, (Symbol, Reference)):
            return Symbol(node.name)
        return type(node)(tuple(children))

    expression = folded([expression], without_references)[expression]
    words = Counter()
    for term in sympy.Add.make_args(expression.sympy().expand()):
        coefficient, factors = term.args_cnc()
        word = [base.name for factor in factors for base, power in [factor.as_base_exp()] for _ in range(power)]
        words[tuple(word)] += int(sympy.Mul(*coefficient))
    assert words == expand(expression)


def test_sympy_of_a_set():
    sympy = pytest.importorskip("sympy")
    replacements, entries = B_REFERENCE.sympy()
    ((name, definition),) = replacements
    assert name == sympy.Symbol("s1", commutative=False)
    assert str(definition) == "e8*e11 + e9*e12"
    assert name in entries["v1", "v9"].free_symbols


def test_without_sympy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(ExpressionError, match="pip install sympy"):
        parse("a").sympy()
