"""Linear relations: found where they are planted, right where they are found, and none that only nearly hold."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from contexts import verify, within
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import RATIONAL, SMOOTH, programs

import accumulus as acc
from accumulus.graph.linearize import linearize
from accumulus.programs.rewritten import alternatives_for
from accumulus.resubstitution.relations import with_relations
from accumulus.rewriting.canonical import canonical
from accumulus.tape.interpreter import evaluate
from accumulus.tape.tape import Tape


def forms(tape: Tape, matrix, arguments, constants=None) -> list[int]:
    """References of the rows of a matrix times some references, term by term."""
    rows = []
    for k, row in enumerate(np.asarray(matrix, float).tolist()):
        terms = [tape.multiply(tape.constant(c), a) for c, a in zip(row, arguments, strict=True) if c]
        rows.append(tape.sum(terms if constants is None else [*terms, tape.constant(constants[k])]))
    return rows


def layers(matrices, biases) -> Tape:
    """A network in canonical form."""
    tape = Tape(matrices[0].shape[1])
    values = list(range(tape.inputs))
    for k, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        values = forms(tape, matrix, values, bias)
        if k < len(matrices) - 1:
            values = [tape.apply("tanh", value) for value in values]
    tape.outputs = values
    return canonical(tape)


def low_rank(rng, rows, columns, rank):
    return rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))


@settings(max_examples=15)
@given(rows=st.integers(3, 9), columns=st.integers(3, 9), rank=st.integers(1, 3), seed=st.integers(0, 99))
def test_matrices_of_low_rank(rows, columns, rank, seed):
    rng = np.random.default_rng(seed)
    matrix, bias = low_rank(rng, rows, columns, rank), rng.normal(size=rows)
    tape = layers([matrix], [bias])
    actual = with_relations(tape)
    rank = min(rank, rows, columns)
    # the rows that others are made of, and these, each with a constant
    expected = rank * 2 * columns + (rows - rank) * 2 * rank
    if expected >= tape.operations:
        assert actual is None or actual.operations < tape.operations
        return
    assert actual.operations <= expected
    x = rng.normal(size=columns)
    np.testing.assert_allclose(evaluate(actual, x), matrix @ x + bias, rtol=1e-11, atol=1e-11)
    verify(tape, actual)


def test_conservation_laws_are_exact():
    stoichiometry = np.array([[-1, 1, 0, 0, 2], [1, -1, -3, 1, 0], [0, 0, 3, -1, -2], [2, -2, -3, 1, -2]])
    tape = Tape(5)
    rates = [tape.apply("exp", tape.multiply(k, k)) for k in range(5)]
    tape.outputs = forms(tape, stoichiometry, rates)
    tape = canonical(tape)
    result = with_relations(tape)
    assert result.operations < tape.operations
    assert {abs(number) for number in result.constants} <= {0.0, 0.5, 1.0, 2.0, 3.0}
    verify(tape, result)


@pytest.mark.parametrize("off", [1e-9, 1e-11])
def test_nearly_valid_relations_are_not_used(off):
    rng = np.random.default_rng(3)
    matrix = low_rank(rng, 7, 6, 2)
    assert with_relations(layers([matrix], [np.zeros(7)])) is not None
    matrix *= 1.0 + off * rng.normal(size=matrix.shape)
    assert with_relations(layers([matrix], [np.zeros(7)])) is None


def test_full_rank_has_none():
    rng = np.random.default_rng(4)
    assert with_relations(layers([rng.normal(size=(5, 6))], [np.zeros(5)])) is None


def test_operations_rounded_as_written_stay():
    rng = np.random.default_rng(5)
    matrix, tape = low_rank(rng, 6, 5, 1), Tape(5)
    tape.outputs = [tape.apply("floor", row) for row in forms(tape, matrix, range(5))]
    assert with_relations(canonical(tape)) is None
    tape.outputs = forms(tape, matrix, range(5))
    assert with_relations(canonical(tape, 6), kept_outputs=6) is None


def test_nothing_is_rewritten_if_signs_of_zeros_matter():
    rng = np.random.default_rng(5)
    tape = Tape(5)
    rows = forms(tape, low_rank(rng, 6, 5, 1), range(5))
    tape.outputs = rows
    assert with_relations(canonical(tape)) is not None
    tape.outputs = [*rows, tape.apply("atan2", rows[0], rows[1])]
    assert with_relations(canonical(tape)) is None


def test_layer_after_layer():
    rng = np.random.default_rng(6)
    sizes = (5, 7, 6, 4)
    matrices = [low_rank(rng, n, m, 2) for m, n in pairwise(sizes)]
    biases = [rng.normal(size=n) for n in sizes[1:]]
    tape = layers(matrices, biases)
    result = with_relations(tape)
    assert result.operations < 0.7 * tape.operations
    verify(tape, result)


def test_a_form_used_by_others_may_be_replaced():
    tape = Tape(3)
    x, y, z = range(3)
    # of rank two, each a sum of the one before and something else
    first = tape.add(x, tape.multiply(tape.constant(2.0), y))
    second = tape.add(first, tape.add(tape.multiply(tape.constant(3.0), x), tape.multiply(tape.constant(-1.0), y)))
    third = tape.add(second, tape.add(tape.multiply(tape.constant(0.7), x), tape.multiply(tape.constant(5.0), y)))
    tape.outputs = [tape.multiply(each, z) for each in (first, second, third)] + [first, second, third]
    result = with_relations(canonical(tape)) or tape
    np.testing.assert_allclose(evaluate(result, [0.3, 0.7, 1.1]), evaluate(tape, [0.3, 0.7, 1.1]), rtol=1e-13)


@settings(max_examples=50)
@given(
    program=st.one_of(
        programs(("add", "subtract", "multiply", "negative"), constants=(2.0, 3.0, 0.1, -1.0), inputs=3, steps=40),
        programs(RATIONAL, constants=(2.0, 0.1), steps=30),
        programs((*SMOOTH, "add", "subtract"), constants=(0.3, 2.0), steps=30),
        programs(("add", "subtract", "less", "select", "floor"), constants=(2.0,), inputs=3, steps=30),
    )
)
def test_programs_stay_unchanged(program):
    tape = canonical(program.tape())
    result = with_relations(tape)
    if result is not None:
        assert result.operations < tape.operations
        verify(tape, result)


def network(matrices):
    def rates(x):
        for matrix in matrices[:-1]:
            x = np.tanh(matrix @ x)
        return matrices[-1] @ x

    return rates


def test_derivatives_of_the_function_by_relations():
    rng = np.random.default_rng(7)
    rates = network([low_rank(rng, 6, 4, 2), low_rank(rng, 6, 6, 2), low_rank(rng, 4, 6, 2)])
    tape = acc.trace(rates, np.ones(4)).tape
    linearization = linearize(tape)
    point = [0.4, -0.2, 0.9, 0.1]
    *orders, related, again = alternatives_for(linearization, within(math.inf, effort="thorough"))
    expected = evaluate(orders[0], point)
    for other in (*orders, related, again):
        np.testing.assert_allclose(evaluate(other, point), expected, rtol=1e-10, atol=1e-12)
    assert max(related.operations, again.operations) < 0.7 * min(order.operations for order in orders)


def test_entries_that_relations_make_zero_are_there():
    matrix = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 4.0], [2.0, 4.0, 4.0], [3.0, 6.0, 8.0]])

    def rates(x):
        return matrix @ np.exp(x) + np.array([x[0], 0.0, 0.0, 0.0]) * x[1]

    linearization = linearize(acc.trace(rates, np.ones(3)).tape)
    tapes = list(alternatives_for(linearization, within(math.inf, effort="thorough")))
    point = [0.4, -0.2, 0.9]
    expected = evaluate(tapes[0], point)
    for other in tapes:
        np.testing.assert_allclose(evaluate(other, point), expected, rtol=1e-12, atol=1e-13)


def test_thorough_programs_have_them():
    rng = np.random.default_rng(8)
    rates = network([low_rank(rng, 5, 4, 1), low_rank(rng, 4, 5, 1)])
    plain = acc.compile(rates, cache=False).compile(np.ones(4))
    result = acc.compile(rates, effort="thorough", time_limit=1.0, cache=False).compile(np.ones(4))
    assert result.operations < 0.6 * plain.operations
    x = np.array([0.3, -0.1, 0.8, 0.2])
    np.testing.assert_allclose(result(x), rates(x), rtol=1e-12, atol=1e-14)
