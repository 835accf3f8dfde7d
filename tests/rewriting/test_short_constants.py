"""Constants that rounding has left beside short ones become these; those that somebody has written stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.rewriting.scaling import UNITS, with_short_constants
from accumulus.tape.interpreter import evaluate
from accumulus.tape.tape import Tape


def scaled(*numbers):
    tape = Tape(1)
    tape.outputs = [tape.multiply(tape.constant(number), 0) for number in numbers]
    return tape


@pytest.mark.parametrize(
    ("number", "short"),
    [
        (math.sqrt(0.5) * math.sqrt(0.5), 0.5),
        (-0.1 * 3.0, -0.3),
        (0.17 * 312.5, 53.125),
        (1e300 * 1.1 * 1.1, 1.21e300),
        (math.pi, math.pi),
        (1.0 / 3.0, 1.0 / 3.0),
        (0.5 + 1e-13, 0.5 + 1e-13),
        (math.inf, math.inf),
    ],
)
def test_numbers(number, short):
    assert with_short_constants(scaled(number), []).constants == [short]


def test_nan_stays():
    tape = scaled(math.nan)
    assert with_short_constants(tape, []) is tape


def test_constants_written_by_the_user_stay():
    tape = scaled(0.1 * 3.0, 0.2 * 3.0)
    assert with_short_constants(tape, [0.1 * 3.0]).constants == [0.1 * 3.0, 0.6]
    assert with_short_constants(tape, [-0.1 * 3.0, 0.2 * 3.0]) is tape
    x = np.array([0.7, 0.9])
    program = acc.compile(lambda x: (0.1 * 3.0) * x, cache=False).compile(x)
    assert 0.1 * 3.0 in program.tape.constants
    assert 0.3 not in program.tape.constants


def test_equal_numbers_are_one():
    shorter = with_short_constants(scaled(0.5, math.sqrt(0.5) * math.sqrt(0.5)), [0.5])
    assert shorter.operations == 1
    assert shorter.outputs[0] == shorter.outputs[1]


def test_rewritten_programs_have_them():
    root = math.sqrt(0.5)
    tape = Tape(1)
    tape.outputs = [tape.multiply(tape.constant(root), tape.multiply(tape.constant(root), 0))]
    made = optimise(tape)
    assert str(made) == "t1 = multiply(0.5, x0)\nreturn t1"


def test_no_operation_is_added():
    """Few changes of sign stay so."""
    tape = Tape(2)
    tape.outputs = [tape.subtract(tape.multiply(tape.constant(-0.1 * 3.0), 0), tape.multiply(tape.constant(2.0), 1))]
    shorter = with_short_constants(tape, [])
    assert shorter.operations == tape.operations
    assert -0.3 in shorter.constants


def test_signs_of_zeros_stay_where_they_are_seen():
    tape = Tape(1, signed_zeros=True)
    halves = [tape.multiply(tape.constant(number), 0) for number in (0.5, math.sqrt(0.5) * math.sqrt(0.5))]
    tape.outputs = [tape.apply("atan2", tape.add(0, tape.constant(0.0)), half) for half in halves]
    shorter = with_short_constants(tape, [0.5])
    assert shorter.operations == tape.operations
    assert evaluate(shorter, [-0.0])[0] == evaluate(tape, [-0.0])[0]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False).filter(bool), min_size=1, max_size=4, unique_by=abs))
def test_no_number_changes_by_more_than_a_few_units(numbers):
    shorter = with_short_constants(scaled(*numbers), [])
    for number, output in zip(numbers, shorter.outputs, strict=True):
        if output == 0:  # the input itself
            made = 1.0
        else:
            (made,) = (shorter.value_of(a) for a in shorter.arguments(output) if a < 0)
        assert abs(made - number) <= UNITS * math.ulp(number)
