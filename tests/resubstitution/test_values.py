"""The compiled reader of programs, against one in plain Python; and tapes at points, against arithmetic of Python."""

from __future__ import annotations

import warnings

import numpy as np
from contexts import rewritten_by_rules
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import DIVIDE, Verification, canonical, evaluate, outputs_at, points_of, with_folding
from programs import RATIONAL, SMOOTH, programs
from slow_values import SlowValues, at_real_points

import accumulus as acc
from accumulus import Tape
from accumulus.errors import RewritingWarning
from accumulus.programs import rewritten
from accumulus.resubstitution.universe import Rounding
from accumulus.resubstitution.values import Definition, Values
from accumulus.rewriting.rounding import DOUBLE, SINGLE, SPANS, WORSE, Limits, RealPoints, RealRuns, run_at_points

DYADIC = (0.0, 1.0, -1.0, 2.0, 0.5)
FIELD = ("add", "subtract", "multiply", "divide", "negative")
CHOICES = ("less", "equal", "logical_or", "logical_not", "select", "minimum", "abs", "floor", "sign", "atan2", "fmod")
PROGRAMS = st.one_of(
    programs(RATIONAL, constants=DYADIC, exponents=(-2.0, -1.0, 2.0, 3.0), steps=20),
    programs(FIELD, constants=(1.0, 2.0), inputs=2, steps=30),
    programs((*FIELD, *CHOICES, "sqrt"), constants=DYADIC, inputs=3, steps=20),
    programs((*SMOOTH, *FIELD), constants=DYADIC, exponents=(-2.5, 0.5, 3.0), steps=20),
)


@settings(max_examples=40)
@given(program=PROGRAMS, kept_outputs=st.integers(0, 1), seed=st.integers(0, 9))
def test_the_same_values_and_definitions_as_by_plain_python(program, kept_outputs, seed):
    tape = with_folding(program.tape())
    base = canonical(tape, min(kept_outputs, len(tape.outputs)))
    if not base.operations:
        return
    check = Verification(base, seed, kept_outputs=kept_outputs, count=3, has_small=True)
    points = points_of(base, None, np.random.default_rng(seed))
    kept_outputs = min(kept_outputs, len(tape.outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RewritingWarning)
        sources = [tape, rewritten_by_rules(tape, effort="fast", kept_outputs=kept_outputs)]
    fast, slow = Values(base, check, points, kept_outputs), SlowValues(base, check, points, kept_outputs)

    def read(reading):
        return reading and (reading.meanings, reading.exact, spelt(reading.first_definitions), reading.outputs)

    def spelt(numbers):
        return {node: fast.definitions[number] for node, number in numbers.items()}

    assert read(fast.base) == slow.base
    for other in sources:
        assert read(fast.read(other)) == slow.read(other)
    assert len(fast) == len(slow)
    fixed = set(fast.fixed.values())
    assert [each for k, each in enumerate(fast.definitions) if k not in fixed] == list(slow.definitions)
    assert (fast.inputs, spelt(fast.fixed)) == (slow.inputs, slow.fixed)
    np.testing.assert_equal(fast.numbers, slow.numbers)
    for node, (values, bounds) in enumerate(slow.seen[1:], 1):
        np.testing.assert_array_equal(fast.reals[node], values)
        np.testing.assert_allclose(fast.bounds[node], bounds, rtol=1e-12)


@settings(max_examples=20)
@given(program=PROGRAMS, seed=st.integers(0, 9), span=st.sampled_from([DOUBLE, SINGLE]))
def test_values_at_real_points(program, seed, span):
    tape = program.tape()
    points = np.random.default_rng(seed).normal(size=(7, tape.inputs)) * np.logspace(-20, 20, 7)[:, np.newaxis]
    points[3] = 0.0
    values, bounds = run_at_points(tape, points, span)
    expected = at_real_points(tape, points, span)
    for r, (value, bound) in enumerate(expected[: len(tape)]):
        np.testing.assert_array_equal(values[r], value)
        np.testing.assert_allclose(bounds[r], bound, rtol=1e-12)
    plain, _ = RealRuns(tape, len(points), span, bounds=False).at(points)
    np.testing.assert_array_equal(plain, values)
    if span is SINGLE:
        assert not (np.isfinite(values) & (np.abs(values) > span.largest)).any()
        return
    with np.errstate(all="ignore"):
        for output, value in zip(tape.outputs, evaluate(tape, list(points.T)), strict=True):
            if output >= 0:
                np.testing.assert_allclose(values[output], value, rtol=1e-15)


def test_programs_beyond_single_precision_are_not_used():
    """exp(x)⁵ / exp(x)⁴ is exp(x), but exp(30)⁵ is more than the largest float32, and exp(-30)⁵ less than the least."""
    tape = Tape(1)
    powers = [tape.apply("exp", 0)]
    for _ in range(4):
        powers.append(tape.multiply(powers[0], powers[-1]))
    tape.outputs = [*powers, tape.divide(tape.constant(1.0), powers[3])]
    base = canonical(tape)
    excess = {}
    for dtype, span in SPANS.items():
        points = RealPoints(np.linspace(-30.0, 30.0, 13)[:, np.newaxis], *np.ones((3, 13), bool), span)
        values = Values(base, Verification(base, 1, has_small=True), points)
        exp, fourth, fifth = (abs(values.base.outputs[k]) for k in (0, 3, 4))
        quotient = values.definitions.add(Definition(exp, DIVIDE, (fifth, fourth), 1))
        rounding = Rounding(values, [values.base])
        (excess[dtype],) = rounding.excess(values.definitions, np.array([quotient]), 4.0)
    assert excess["float64"] < 10.0
    assert np.isinf(excess["float32"])


def test_the_type_of_numbers_reaches_the_rewriter(monkeypatch):
    seen = []

    def noted(tape, context, **rest):
        seen.append(context.options.dtype)
        return canonical(tape)

    monkeypatch.setattr(rewritten, "rewrite", noted)
    for dtype in ("float64", "float32"):
        acc.jacobian(lambda x: x * x[0], dtype=dtype, optimise=True, cache=False)(np.ones(2, dtype))
    assert seen == ["float64", "float32"]


def test_programs_of_single_precision_are_as_good_as_before():
    def function(x):
        e = np.exp(x)
        return np.array([e[0] ** 4, e[0] ** 5, 1.0 / (1.0 + e[0]), e[1] * e[0]])

    compiled = acc.jacobian(function, dtype="float32", optimise=True, effort="thorough", time_limit=0.3, cache=False)
    exact = acc.jacobian(function, optimise=False, cache=False)
    for x in (-15.0, -5.0, 0.5, 10.0):
        point = np.array([x, 1.0], np.float32)
        np.testing.assert_allclose(compiled(point), exact(point.astype(float)), rtol=2e-5)


def test_points_near_zeros_of_intermediate_values_are_in_the_domain():
    tape = Tape(3)
    product = tape.multiply(tape.apply("sin", 0), 2)
    tape.outputs = [tape.divide(product, tape.add(0, 1))]
    points = np.array([[0.5, 1.5, -0.25], [0.6, 1.0, 0.25]])
    every = points_of(tape, points, np.random.default_rng(3))
    near = every.inside & ~every.common & every.generic
    assert near.any()
    # of the third input and its product alone, in between the points
    sizes = np.abs(run_at_points(tape, every.at[near])[0])
    assert (sizes[product] < 1e-2).all()
    assert (sizes[product] > 0.0).all()


def test_values_stay_where_their_bounds_are_not_numbers():
    """x/x·x is no number at 0, where x is 0; the error bound of another program says nothing there."""
    same, other = Tape(1), Tape(1)
    same.outputs = [0]
    other.outputs = [other.multiply(other.divide(0, 0), 0)]
    points = RealPoints(np.array([[0.0], [1.0]]), *np.ones((3, 2), bool))
    rounding = Limits(points, [(np.array([[0.0, 1.0]]), np.array([[np.nan, 0.0]]))])
    with np.errstate(all="ignore"):
        assert rounding.is_worse(other, WORSE)
        assert not rounding.is_worse(same, WORSE)


def test_values_that_are_rounding_alone_everywhere_stay_numbers():
    """x + 0.2 - 0.3 - (x - 0.1) has no digit anywhere; that is no pole, at which another program may be undefined."""
    points = RealPoints(np.array([[0.0], [1.1], [2.3]]), *np.array([[False, True, True]] * 3))
    tape = Tape(1)
    difference = tape.subtract(tape.add(0, tape.constant(0.2)), tape.constant(0.3))
    tape.outputs = [tape.subtract(difference, tape.subtract(0, tape.constant(0.1)))]
    other = tape.copy()
    other.outputs = [other.multiply(tape.outputs[0], other.divide(0, 0))]
    with np.errstate(all="ignore"):
        assert np.isnan(outputs_at(other, points.at)[0, 0])
        assert Limits.of(tape, points).is_worse(other, WORSE)


def test_errors_of_what_underflows_do_not_count():
    same, other = Tape(2), Tape(2)
    same.outputs = [0]
    other.outputs = [other.subtract(other.add(0, 1), 1)]
    for size, counts in ((1e-307, False), (1e-280, True)):
        points = RealPoints(np.array([[0.0, size]]), *np.ones((3, 1), bool))
        assert Limits.of(same, points).is_worse(other, WORSE) == counts


def test_values_beside_a_pole_need_not_stay():
    """At 0.1, x + 0.2 - 0.3 is rounding alone: its inverse may be anything, but the difference stays a number."""
    points = RealPoints(np.array([[0.1], [1.0], [2.0]]), *np.array([[False, True, True]] * 3))
    for inverted in (True, False):
        tape = Tape(1)
        difference = tape.subtract(tape.add(0, tape.constant(0.2)), tape.constant(0.3))
        shifted = tape.subtract(0, tape.constant(0.1))
        one = tape.constant(1.0)
        tape.outputs = [tape.divide(one, difference) if inverted else difference]
        other = tape.copy()
        # infinite, or no number, where the shifted value is zero
        nothing = other.multiply(difference, other.divide(shifted, shifted))
        other.outputs = [other.divide(one, shifted) if inverted else nothing]
        rounding = Limits.of(tape, points)
        with np.errstate(all="ignore"):
            assert np.isfinite(outputs_at(tape, points.at)).all()
            assert not np.isfinite(outputs_at(other, points.at)[0, 0])
            assert rounding.is_worse(other, WORSE) == (not inverted)
