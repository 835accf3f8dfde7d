"""The compiled reader of programs, against one in plain Python; and tapes at points, against arithmetic of Python."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import RATIONAL, SMOOTH, programs
from slow_values import SlowValues, at_real_points

from accumulus.errors import RewritingWarning
from accumulus.resubstitution.bounds import run
from accumulus.resubstitution.points import points_of
from accumulus.resubstitution.values import Values
from accumulus.rewriting import optimise as rules
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import Verification, all_choices
from accumulus.tape.evaluate import evaluate

DYADIC = (0.0, 1.0, -1.0, 2.0, 0.5)
FIELD = ("add", "subtract", "multiply", "divide", "negative")
CHOICES = ("less", "equal", "logical_or", "logical_not", "select", "minimum", "abs", "floor", "sign", "atan2", "fmod")
PROGRAMS = st.one_of(
    programs(RATIONAL, constants=DYADIC, exponents=(-2.0, -1.0, 2.0, 3.0), steps=20),
    programs(FIELD, constants=(1.0, 2.0), inputs=2, steps=30),
    programs((*FIELD, *CHOICES, "sqrt"), constants=DYADIC, inputs=3, steps=20),
    programs((*SMOOTH, *FIELD), constants=DYADIC, exponents=(-2.5, 0.5, 3.0), steps=20),
)


@settings(max_examples=80)
@given(program=PROGRAMS, kept=st.integers(0, 1), seed=st.integers(0, 9))
def test_the_same_values_and_definitions_as_by_plain_python(program, kept, seed):
    tape = program.tape()
    base = canonical(tape, min(kept, len(tape.outputs)))
    choices = all_choices(base, 4)
    if choices is None or not base.operations:
        return
    check = Verification(base, seed, choices=choices * -(-8 // len(choices)), reaches=(1.0, 6.0, 3.0))
    points = points_of(base, None, np.random.default_rng(seed))
    kept = min(kept, len(tape.outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RewritingWarning)
        others = [tape, rules.optimise(tape, effort="fast", kept_outputs=kept)]
    fast, slow = Values(base, check, points, kept), SlowValues(base, check, points, kept)

    def read(reading):
        return reading and (reading.meanings, reading.exact, spelt(reading.own), reading.outputs)

    def spelt(numbers):
        return {node: fast.definitions[number] for node, number in numbers.items()}

    assert read(fast.base) == slow.base
    for other in others:
        assert read(fast.read(other)) == slow.read(other)
    assert len(fast) == len(slow.known)
    fixed = set(fast.fixed.values())
    assert [each for k, each in enumerate(fast.definitions) if k not in fixed] == list(slow.definitions)
    assert (fast.inputs, spelt(fast.fixed)) == (slow.inputs, slow.fixed)
    np.testing.assert_equal(fast.numbers, slow.numbers)
    for node, (values, bounds) in enumerate(slow.seen[1:], 1):
        np.testing.assert_array_equal(fast.reals[node], values)
        np.testing.assert_allclose(fast.bounds[node], bounds, rtol=1e-12)


@settings(max_examples=40)
@given(program=PROGRAMS, seed=st.integers(0, 9))
def test_values_at_real_points(program, seed):
    tape = program.tape()
    points = np.random.default_rng(seed).normal(size=(7, tape.inputs))
    points[0] = 0.0
    values, bounds = run(tape, points)
    expected = at_real_points(tape, points)
    for r, (value, bound) in enumerate(expected[: len(tape)]):
        np.testing.assert_array_equal(values[r], value)
        np.testing.assert_allclose(bounds[r], bound, rtol=1e-12)
    plain, _ = run(tape, points, bounds=False)
    np.testing.assert_array_equal(plain, values)
    with np.errstate(all="ignore"):
        for output, value in zip(tape.outputs, evaluate(tape, list(points.T)), strict=True):
            if output >= 0:
                np.testing.assert_allclose(values[output], value, rtol=1e-15)
