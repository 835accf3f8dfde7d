from __future__ import annotations

import pytest
from equations import B_REFERENCE, CHEAPER, SIX
from hypothesis import given
from hypothesis import strategies as st
from inside import count
from random_sets import plain_graphs, random_accumulation, vertex_elimination

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.relations import lemma1_violations
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import value_program

#: e·(b + c) and e·b in one set, with the sibling e·c right beside, as in the notes' proof.
SIBLING = ExpressionSet.parse("∂y/∂x = a*(b + c)*d + g*d; ∂y/∂z = (a*b + a*c + g)*e")


def test_the_proof_of_the_notes():
    first, second = lemma1_violations(SIBLING)
    assert {str(first.face), str(second.face)} == {"⟨a, b⟩", "⟨a, c⟩"}
    assert str(first.relation) == "a|b"
    for violation in (first, second):
        assert (violation.cost, violation.cheaper_cost, violation.by) == (6, 4, "rewriting")
        assert str(violation.cheaper) == "s1 = a*(b + c)\n∂y/∂x = g*d + s1*d\n∂y/∂z = (g + s1)*e"


def test_the_other_side_and_both_sides():
    mirrored = ExpressionSet.parse("∂y/∂x = d*(b + c)*a + d*g; ∂z/∂x = e*(b*a + c*a + g)")
    assert {v.cheaper_cost for v in lemma1_violations(mirrored)} == {4}
    both = ExpressionSet.parse("∂y/∂x = k*(a + b)*(c + d); s = a*c; ∂z/∂x = l*(s + a*d + b*c + b*d) ")
    assert {str(violation.face) for violation in lemma1_violations(both)} == {
        "⟨a, c⟩",
        "⟨a, d⟩",
        "⟨b, c⟩",
        "⟨b, d⟩",
    }
    assert all(violation.cheaper_cost < violation.cost == 7 for violation in lemma1_violations(both))


def test_siblings_elsewhere():
    # a·c of the same paths is cut elsewhere: (a·c1)(c2·e) beside (a·b)·e
    apart = ExpressionSet.parse("""
        t = a*b; u = a*c1; w = c2*e
        ∂y/∂x = a*(b + c1*c2)*d; ∂y/∂z = t*e + u*w; ∂y/∂q = u*p
        ∂y1/∂x = h*c2*d; ∂y1/∂z = h*w; ∂y1/∂q = h*p
    """)
    (violation,) = lemma1_violations(apart)
    assert str(violation.face) == "⟨a, b⟩"
    assert violation.cheaper_cost < violation.cost
    assert violation.cheaper.equivalent(apart)


def test_good_sets_have_none():
    for expressions in (SIX, CHEAPER, B_REFERENCE):
        assert lemma1_violations(expressions) == ()


@given(plain_graphs(), st.integers(0, 10**6))
def test_cheaper_sets_are_cheaper_and_equal(graph, seed):
    accumulation = random_accumulation(graph, seed)
    expressions = ExpressionSet.from_accumulation(accumulation)
    for violation in lemma1_violations(accumulation):
        assert violation.cost == value_program(accumulation).multiplications
        if violation.cheaper is not None:
            cheaper = violation.cheaper.to_accumulation(graph)
            cheaper.verify()
            assert count(cheaper, "fma") == violation.cheaper_cost < violation.cost
            assert violation.cheaper.equivalent(expressions)


@given(plain_graphs(), st.integers(0, 10**6))
def test_eliminations_have_none(graph, seed):
    # they merge whatever has the same ends
    assert lemma1_violations(vertex_elimination(graph, seed)) == ()


def test_limit():
    with pytest.raises(ExpressionError, match="6 paths; expected at most 3"):
        lemma1_violations(SIBLING, limit=3)
