from __future__ import annotations

import pytest
from equations import B_REFERENCE, SIX
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import count
from random_sets import attempt, plain_graphs, random_accumulation

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.relations import elimination_dependencies
from accumulus.theory.algebra.sequence import least_splits
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import running_order, value_program

CIRCULAR = ExpressionSet.parse("""
    s1 = b*c;  s2 = a1*b;  s3 = c*d1
    ∂y1/∂x1 = a1*s1*d1;  ∂y1/∂x2 = s2*c*d2
    ∂y2/∂x1 = a2*b*s3;   ∂y2/∂x2 = a2*s1*d2
""")


def test_acyclic_sets_need_none():
    for expressions in (SIX, B_REFERENCE):
        result = least_splits(expressions)
        assert result.splits == ()
        assert result.faces == expressions.multiplications == count(result.accumulation, "fma")


def test_a_circle_of_two_faces():
    assert not elimination_dependencies(CIRCULAR).is_acyclic
    result = least_splits(CIRCULAR)
    assert [str(split) for split in result.splits] == [
        "b with predecessors a2 on its own",
        "c with successors d1 on its own",
    ]
    assert count(result.accumulation, "fma") == CIRCULAR.multiplications == 11
    assert result.faces >= 11


def test_lemma_1_takes_one_split():
    # b for itself where it is not added to c: the merge that the notes allow for S_k ⊃ S_i
    wasteful = ExpressionSet.parse("s1 = a*b; ∂y/∂x = a*(b + c)*d; ∂y/∂z = s1*e + a*c*e; ∂y/∂w = s1*f + a*c*f")
    result = least_splits(wasteful)
    assert 1 <= len(result.splits) <= 2
    assert count(result.accumulation, "fma") == value_program(wasteful).multiplications


def test_bounds():
    with pytest.raises(ExpressionError, match="at most 1 splits"):
        least_splits(CIRCULAR, most=1)
    many = "*".join(f"(a{k} + b{k})" for k in range(12))
    with pytest.raises(ExpressionError, match="more than 2000 paths"):
        least_splits(ExpressionSet.parse(many))


@settings(max_examples=150)
@given(plain_graphs(vertices=7), st.integers(0, 10**6))
def test_splits_keep_the_cost(graph, seed):
    assume(len(graph.sources) <= 12)
    accumulation = random_accumulation(graph, seed)
    program = value_program(accumulation)
    complete = running_order(program).complete
    actual, error = attempt(least_splits, accumulation, most=3, states=150)
    if error:
        assert "no way with at most 3 splits" in error
        assert not complete
        return
    assert bool(actual.splits) != complete
    actual.accumulation.verify()
    assert count(actual.accumulation, "fma") == program.multiplications <= actual.faces
