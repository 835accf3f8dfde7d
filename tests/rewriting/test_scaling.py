"""Numbers where they save products: fewer operations, the same values, and nothing that is fixed."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from contexts import verify
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate
from programs import RATIONAL, programs

import accumulus as acc
from accumulus import Tape
from accumulus.rewriting import optimise
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.scaling import with_scaled_forms

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import suite


def form(tape, *coefficients):
    return tape.sum([tape.multiply(tape.constant(c), k) for k, c in enumerate(coefficients)])


def times(tape, number, reference):
    return tape.multiply(tape.constant(number), reference)


def test_a_form_takes_the_number_of_a_user():
    tape = Tape(3)
    user = form(tape, 2.0, 3.0, -7.0)
    tape.outputs = [times(tape, number, user) for number in (5.0, -2.5, 1.5)]
    scaled = with_scaled_forms(tape)
    assert scaled.operations == tape.operations - 1
    verify(tape, scaled)


def test_the_most_frequent_number_is_taken():
    tape = Tape(2)
    user = form(tape, 2.0, 3.0)
    tape.outputs = [tape.add(times(tape, 5.0, user), k) for k in (0, 1)] + [times(tape, 7.0, user)]
    scaled = with_scaled_forms(tape)
    assert scaled.operations == tape.operations - 1
    verify(tape, scaled)


def test_products_pass_it_to_values_used_once():
    tape = Tape(3)
    slope = tape.subtract(tape.constant(1.0), tape.multiply(2, 2))
    user = tape.negative(tape.multiply(slope, form(tape, 2.0, 3.0)))
    tape.outputs = [times(tape, 5.0, user), times(tape, 7.0, user), slope]
    tape = canonical(tape)
    scaled = with_scaled_forms(tape)
    assert scaled.operations == tape.operations - 1
    verify(tape, scaled)


def test_forms_of_forms():
    tape = Tape(3)
    inner = form(tape, 2.0, 3.0)
    outer = tape.add(times(tape, 5.0, inner), times(tape, 7.0, 2))
    tape.outputs = [times(tape, 11.0, outer), times(tape, 13.0, outer)]
    scaled = with_scaled_forms(tape)
    assert scaled.operations == tape.operations - 2
    verify(tape, scaled)


@pytest.mark.parametrize("change", ["output", "other use", "shared part", "input alone", "too large"])
def test_unscalable_operations_stay(change):
    tape = Tape(3)
    factor = times(tape, 3.0, 1)
    user = tape.add(times(tape, 2.0, 0), 1 if change == "input alone" else factor)
    first = 1e12 if change == "too large" else 5.0
    tape.outputs = [times(tape, first, user), times(tape, first + first, user)]
    tape.outputs += {"output": [user], "other use": [tape.multiply(user, 2)], "shared part": [factor]}.get(change, [])
    assert with_scaled_forms(tape) is tape


def test_operations_rounded_as_written_stay():
    tape = Tape(2)
    user = form(tape, 2.0, 3.0)
    tape.outputs = [tape.apply("floor", times(tape, 5.0, user)), tape.apply("floor", times(tape, 7.0, user))]
    assert with_scaled_forms(tape) is tape
    tape.outputs = [times(tape, 5.0, user), times(tape, 7.0, user)]
    assert with_scaled_forms(tape, 1) is tape
    assert with_scaled_forms(tape) is not tape


def test_where_signs_of_zeros_are_seen_nothing_is_scaled():
    tape = Tape(2)
    user = form(tape, 2.0, 3.0)
    tape.outputs = [tape.apply("atan2", times(tape, -5.0, user), times(tape, 7.0, user))]
    assert with_scaled_forms(tape) is tape


def test_long_forms_are_left_alone():
    tape = Tape(2)
    user = times(tape, 1.5, 0)
    for k in range(3000):
        user = tape.add(user, times(tape, 2.0 + k, 1))
    tape.outputs = [times(tape, 5.0, user), times(tape, 7.0, user)]
    assert with_scaled_forms(tape) is tape


def test_constants_written_by_the_user_stay():
    """A rounded one is not taken for the short number beside it."""
    x = np.array([0.7, 0.9])
    program = acc.compile(lambda x: (0.1 * 3.0) * x, cache=False).compile(x)
    assert 0.1 * 3.0 in program.tape.constants
    assert 0.3 not in program.tape.constants


#: Of which quotients are exact.
POWERS = (2.0, -4.0, 0.5, 8.0)


@settings(max_examples=75)
@given(
    program=st.one_of(
        programs(("add", "subtract", "multiply", "negative"), constants=POWERS, exponents=(), inputs=2, steps=25),
        programs(RATIONAL, constants=POWERS, exponents=(2.0,), steps=20),
    ),
    point=st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 4),
)
def test_exactly_the_same_values(program, point):
    tape = canonical(program.tape())
    scaled = with_scaled_forms(tape)
    assert scaled.operations <= tape.operations
    try:
        expected = evaluate(tape, point[: tape.inputs], RATIONAL, Fraction)
    except ZeroDivisionError:
        return
    assert evaluate(scaled, point[: tape.inputs], RATIONAL, Fraction) == expected


def test_derivatives_of_networks(monkeypatch):
    """Each unit of a layer goes into all outputs: one weight of it is saved for each input."""
    (network,) = (each for each in suite() if each.name == "neural_network")
    derivative = acc.value_and_jacobian(network.function, cache=False)
    plain = acc.value_and_jacobian(network.function, cache=False, optimise=False)
    for actual, expected in zip(derivative(network.point), plain(network.point), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    monkeypatch.setattr(optimise, "with_scaled_forms", lambda tape, kept_outputs: tape)
    without = acc.value_and_jacobian(network.function, cache=False)
    saved = without.compile(network.point).operations - derivative.compile(network.point).operations
    assert saved == network.inputs * 6
