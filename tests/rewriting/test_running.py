"""Tapes at complex points in compiled code: Python's own complex numbers, and bounds as they are defined."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import SMOOTH, programs

from accumulus.errors import VerificationError
from accumulus.rewriting.running import FUNCTIONS, SLACK, UNIT, At, Run
from accumulus.tape.tape import Tape

FIELD = ("add", "subtract", "multiply", "divide", "negative")
NAN = complex(math.nan)


def size(z):
    return math.hypot(z.real, z.imag)


@settings(max_examples=30)
@given(
    program=st.one_of(
        programs(FIELD, constants=(0.0, 1.0, -3.0, 1e200, 1e-300), inputs=3, steps=25),
        programs((*FIELD, *SMOOTH), constants=(0.5, 2.0), exponents=(-2.5, 0.5, 3.0), steps=20),
    ),
    seed=st.integers(0, 99),
)
def test_arithmetic_is_that_of_python(program, seed):
    tape, rng = program.tape(), random.Random(seed)
    points = [[complex(rng.gauss(0, 1), rng.choice([0.0, rng.gauss(0, 1)])) for _ in range(tape.inputs)] for _ in "ab"]
    run = Run(tape, [At(point, oracle, {}) for oracle, point in enumerate(points, 1)], [{}, {}])
    for p in range(2):
        real, imaginary, errors = run.real[:, p].tolist(), run.imaginary[:, p].tolist(), run.errors[:, p].tolist()
        at = [complex(x, y) for x, y in zip(real, imaginary, strict=True)]
        for r in range(tape.inputs, len(tape)):
            name, arguments = tape.operation(r).name, tape.arguments(r)
            z, errors_of = [at[a] for a in arguments], [errors[a] for a in arguments]
            if name not in FIELD:
                continue
            expected, bound = arithmetic(name, z, errors_of)
            assert same(at[r], expected), (name, z)
            assert errors[r] == pytest.approx(bound, rel=1e-12, nan_ok=True)


def arithmetic(name, z, errors):
    """An operation of Python, and the bound of its error by definition."""
    x, dx = z[0], errors[0]
    if name == "negative":
        return -x, dx
    y, dy = z[1], errors[1]
    if name == "multiply":
        return x * y, dx * size(y) + dy * size(x) + SLACK * UNIT * dx * dy + 3 * size(x * y)
    if name == "divide":
        if 2 * SLACK * UNIT * dy >= size(y) or y == 0:
            return NAN, math.inf
        return x / y, (dx + dy * size(x / y)) / size(y) + 3 * size(x / y)
    return (x + y if name == "add" else x - y), dx + dy + size(x) + size(y)


def same(a, b):
    return all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in ((a.real, b.real), (a.imag, b.imag)))


def test_functions_are_their_stand_ins_and_truths_choose():
    tape = Tape(2)
    truth = tape.apply("less", 0, 1)
    select = tape.apply("select", truth, tape.apply("sin", 0), tape.apply("logical_not", truth))
    tape.outputs = [select, tape.apply("exp", 1)]
    point = [0.3 + 0.2j, -0.7 + 0.1j]
    run = Run(tape, [At(point, 0, {}), At(point, 0, {})], [{truth: True}, {truth: False}])
    values, errors = run.outputs()
    assert values[0, 0] == FUNCTIONS[tape.codes[tape.arguments(select)[1]]](point[0])
    assert (values[1, 0], errors[1, 0]) == (1.0, 0.0)
    assert values[0, 1] == FUNCTIONS[tape.codes[tape.outputs[1]]](point[1])
    assert list(run.is_truth) == [0, 0, *(int(r in (truth, truth + 2, select)) for r in range(2, len(tape)))]
    with pytest.raises(VerificationError, match="not there before"):
        Run(tape, [At(point, 0, {})], None)
