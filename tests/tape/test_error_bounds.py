"""Bounds on rounding errors hold against 50-digit arithmetic, and are no larger than they have to be."""

from __future__ import annotations

import numpy as np
import pytest
from exact import EXACT, mpf
from hypothesis import given
from hypothesis import strategies as st
from strategies import points, tapes

from accumulus import Tape
from accumulus.errors import ArgumentError
from accumulus.tape.error_bounds import UNIT, compare, evaluate_with_bounds
from accumulus.tape.interpreter import evaluate


@given(st.data())
def test_bounds_hold(data):
    tape = data.draw(tapes())
    X = data.draw(points(3, tape.inputs, special=False))
    values, bounds = evaluate_with_bounds(tape, list(X.T))
    if not tape.inputs:
        X = np.zeros((1, 0))
    assert values.shape == bounds.shape == (len(tape.outputs), len(X))
    assert (bounds >= 0).all()
    for k, x in enumerate(X):
        exact = evaluate(tape, [mpf(float(entry)) for entry in x], EXACT, lambda number: mpf(float(number)))
        for row, reference in enumerate(exact):
            if np.isfinite(bounds[row, k]):
                assert abs(mpf(float(values[row, k])) - reference) <= mpf(float(bounds[row, k]))


@given(st.data())
def test_bounds_of_float32_hold(data):
    tape = data.draw(tapes())
    X = data.draw(points(3, tape.inputs, special=False))
    values, bounds = evaluate_with_bounds(tape, list(X.T), "float32")
    if not tape.inputs:
        X = np.zeros((1, 0))
    whole = tape.copy()
    whole.outputs = list(range(tape.inputs, len(tape)))
    with np.errstate(all="ignore"):
        single = evaluate(tape, list(X.T.astype(np.float32)), number=np.float32)
        # single precision ends where double does not
        inside = np.array([np.abs(np.broadcast_to(row, len(X))) < 1e37 for row in evaluate(whole, list(X.T))])
    for row, bound, actual in zip(values, bounds, single, strict=True):
        comparable = np.isfinite(bound) & inside.reshape(-1, len(X)).all(axis=0)
        assert (np.abs(np.broadcast_to(actual, row.shape) - row)[comparable] <= bound[comparable]).all()


@pytest.mark.parametrize("constant", [0.1, 2.0**24 + 1.0])
def test_constants_are_rounded_to_the_type(constant):
    tape = Tape(1)
    number = tape.constant(constant)
    tape.outputs = [tape.select(tape.apply("less_equal", 0, number), 0, tape.multiply(tape.constant(2.0), 0))]
    x = np.array([np.float64(np.float32(constant)), 3.0 * constant])
    for dtype, expected in (("float64", 0.0), ("float32", x[0])):
        _, bounds = evaluate_with_bounds(tape, [x], dtype)
        assert expected <= bounds[0, 0] <= expected + 64 * UNIT * 2.0**29 * x[0]
        assert bounds[0, 1] < 1e-4 * x[1]


@given(st.data())
def test_values_are_the_interpreter_s(data):
    tape = data.draw(tapes())
    X = data.draw(points(3, tape.inputs))
    values, bounds = evaluate_with_bounds(tape, list(X.T))
    for row, bound, expected in zip(values, bounds, evaluate(tape, list(X.T)), strict=True):
        np.testing.assert_array_equal(row, np.broadcast_to(expected, row.shape))
        assert not np.isnan(bound).any()
        assert np.isinf(bound[~np.isfinite(row)]).all()


@pytest.mark.parametrize("name", ["floor", "ceil", "sign"])
def test_a_jump_counts_where_rounding_may_reach_it(name):
    tape = Tape(2)
    tape.outputs = [tape.apply(name, tape.subtract(tape.divide(0, 1), tape.constant(1.0)))]
    _, bounds = evaluate_with_bounds(tape, [np.array([49.0, 49.5]), np.array([49.0, 49.0])])
    assert bounds[0, 0] >= 0.9
    assert bounds[0, 1] <= 2 * UNIT


def test_a_remainder_jumps_at_multiples_other_than_zero():
    tape = Tape(2)
    tape.outputs = [tape.apply("fmod", tape.multiply(0, tape.constant(0.1)), 1)]
    _, bounds = evaluate_with_bounds(tape, [np.array([30.0, -29.0, 4.5, 0.0]), np.array([1.0, 2.9, 1.0, 1.0])])
    assert (bounds[0, :2] >= [1.0, 2.9]).all()
    assert (bounds[0, 2:] <= 4 * UNIT).all()


def test_a_choice_counts_where_rounding_may_turn_the_condition():
    tape = Tape(1)
    condition = tape.apply("less", tape.multiply(0, tape.constant(0.1)), tape.constant(1.0))
    tape.outputs = [tape.select(condition, tape.constant(3.0), tape.constant(5.0))]
    _, bounds = evaluate_with_bounds(tape, [np.array([10.0, 11.0])])
    assert bounds[0, 0] >= 2.0
    assert bounds[0, 1] == 0.0


def test_the_number_of_inputs_is_checked():
    with pytest.raises(ArgumentError, match="2 inputs, 1 values"):
        evaluate_with_bounds(Tape(2), [np.zeros(1)])


@pytest.mark.parametrize(
    ("number", "other", "differs"), [(49.0, 49.0 + 1e-13, True), (np.cosh(49.0), 9.5367328624754806e20, False)]
)
def test_constants_above_all_fractions_may_be_rounded(number, other, differs):
    """cosh(49), folded, is a whole number, and XLA's is 17 units off."""
    tape = Tape(1)
    tape.outputs = [tape.constant(number)]
    assert compare(tape, np.zeros((1, 1)), np.array([[other]])).differs.any() == differs
