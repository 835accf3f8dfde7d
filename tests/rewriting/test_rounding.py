"""Tapes at real points in compiled code: Python's own numbers, and bounds as they are defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import SMOOTH, programs

from accumulus import Tape
from accumulus.rewriting.rounding import DOUBLE, SINGLE, RealRuns, run_at_points

FIELD = ("add", "subtract", "multiply", "divide", "negative")


@settings(max_examples=30)
@given(
    program=st.one_of(
        programs(FIELD, constants=(0.0, 1.0, -3.0, 1e200, 1e-300), inputs=3, steps=25),
        programs((*FIELD, *SMOOTH), constants=(0.5, 2.0), exponents=(-2.5, 0.5, 3.0), steps=20),
    ),
    seed=st.integers(0, 99),
    span=st.sampled_from([DOUBLE, SINGLE]),
)
def test_arithmetic_is_that_of_python(program, seed, span):
    tape, draw = program.tape(), np.random.default_rng(seed)
    points = draw.normal(size=(2, tape.inputs)) * draw.choice([0.0, 1.0, 1e-25, 1e25], size=(2, tape.inputs))
    runs = RealRuns(tape, len(points), span)
    runs.at(points)
    for p in range(2):
        at, errors = runs._values[:, p].tolist(), runs._errors[:, p].tolist()  # constants, too
        for r in range(tape.inputs, len(tape)):
            name, arguments = tape.operation(r).name, tape.arguments(r)
            x, errors_of = [at[a] for a in arguments], [errors[a] for a in arguments]
            if name not in FIELD:
                continue
            value, bound = arithmetic(name, x, errors_of)
            if 0.0 < abs(value) < span.smallest:
                bound += span.smallest
            if abs(value) > span.largest:
                value, bound = math.copysign(math.inf, value), math.inf
            assert same(at[r], value), (name, x)
            assert errors[r] == pytest.approx(bound, rel=1e-12, nan_ok=True)


def arithmetic(name, values, errors):
    """An operation of Python, and the bound of its error by definition."""
    x, dx = values[0], errors[0]
    if name == "negative":
        return -x, dx
    y, dy = values[1], errors[1]
    if name == "multiply":
        return x * y, times(x, dy) + times(y, dx) + abs(x * y)
    if name == "divide":
        with np.errstate(all="ignore"):
            quotient = np.float64(x) / y
            return float(quotient), float((np.float64(dx) + abs(quotient) * dy) / abs(y) + abs(quotient))
    result = x + y if name == "add" else x - y
    return result, dx + dy + abs(result)


def times(size, error):
    """What is 0 has no error, and what has no error stays so, however large the other is."""
    return 0.0 if 0.0 in (size, error) else abs(size) * error


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def test_functions_are_themselves_and_truths_choose():
    tape = Tape(2)
    truth = tape.apply("less", 0, 1)
    select = tape.apply("select", truth, tape.apply("sin", 0), tape.apply("logical_not", truth))
    tape.outputs = [select, tape.apply("exp", 1)]
    values, errors = run_at_points(tape, np.array([[0.3, 0.7], [0.3, -0.7]]))
    assert values[select].tolist() == [pytest.approx(math.sin(0.3), rel=1e-15), 1.0]
    assert errors[select, 0] >= math.sin(0.3)
    assert errors[select, 1] == 0.0
    assert values[truth].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(values[tape.outputs[1]], np.exp([0.7, -0.7]), rtol=1e-15)
