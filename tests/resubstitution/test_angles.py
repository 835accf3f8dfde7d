"""Sines and cosines of sums: found where they are planted, right where they are found."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from contexts import within
from exact import exact_values
from hypothesis import given, settings
from inside import BY_NAME, Verification, canonical, evaluate
from programs import programs

import accumulus as acc
from accumulus import Tape, optimise
from accumulus.resubstitution import optimise as optimiser
from accumulus.resubstitution.angles import with_sums_of_angles
from accumulus.rewriting.rounding import DOUBLE, Limits, operation_with_bounds


def names(tape):
    return sorted(tape.operation(r).name for r in range(tape.inputs, len(tape)))


def turned(tape, angle, x, y):
    """A vector of the plane, turned."""
    c, s = tape.apply("cos", angle), tape.apply("sin", angle)
    return (
        tape.subtract(tape.multiply(c, x), tape.multiply(s, y)),
        tape.add(tape.multiply(s, x), tape.multiply(c, y)),
    )


def verify(tape, other, kept_outputs=0):
    """Check that two tapes have the same outputs, by the addition theorems."""
    Verification(tape, kept_outputs=kept_outputs, sums_of_angles=True).check(other)


def chain(links):
    """Directions of the links of a chain, each turned against the one before."""
    tape = Tape(links)
    x, y = tape.apply("cos", 0), tape.apply("sin", 0)
    tape.outputs = [x, y]
    for joint in range(1, links):
        x, y = turned(tape, joint, x, y)
        tape.outputs += [x, y]
    return canonical(tape)


@pytest.mark.parametrize("links", [2, 3, 6])
def test_chains_of_links(links):
    tape = chain(links)
    result = with_sums_of_angles(tape)
    # the sums, and two functions of each
    assert names(result) == sorted(["add"] * (links - 1) + ["cos", "sin"] * links)
    verify(tape, result)
    x = np.linspace(-2.0, 3.0, links)
    np.testing.assert_allclose(evaluate(result, x), evaluate(tape, x), atol=1e-14)


@pytest.mark.parametrize(("kept_outputs", "functions"), [(0, 2), (1, 5)])
def test_values_of_either_sign(kept_outputs, functions):
    tape = Tape(3)
    (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    product, other = tape.multiply(c, t), tape.multiply(s, d)
    tape.outputs = [tape.subtract(product, other), tape.multiply(2, tape.negative(tape.add(other, product)))]
    tape = canonical(tape, kept_outputs)
    result = with_sums_of_angles(tape, kept_outputs)
    verify(tape, result, kept_outputs)
    assert sum(name in ("sin", "cos") for name in names(result)) == functions


def test_twice_an_angle():
    tape = Tape(1)
    s, c = tape.apply("sin", 0), tape.apply("cos", 0)
    tape.outputs = [tape.subtract(tape.multiply(c, c), tape.multiply(s, s))]
    result = with_sums_of_angles(canonical(tape))
    assert names(result) == ["add", "cos"] or names(result) == ["cos", "multiply"]
    assert evaluate(result, [0.3])[0] == pytest.approx(math.cos(0.6), rel=1e-14)


def test_expressions_that_are_no_function_of_a_sum():
    tape = Tape(2)
    (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    tape.outputs = [
        tape.subtract(tape.multiply(c, d), tape.multiply(tape.constant(1.0 + 1e-7), tape.multiply(s, t))),
        tape.add(tape.multiply(c, t), tape.multiply(c, d)),
    ]
    assert with_sums_of_angles(canonical(tape)) is None
    tape = Tape(1)
    tape.outputs = [tape.apply("exp", 0)]
    assert with_sums_of_angles(tape) is None


def test_operations_rounded_as_written_stay():
    tape = Tape(2)
    (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    tape.outputs = [tape.apply("floor", tape.subtract(tape.multiply(c, d), tape.multiply(s, t)))]
    assert with_sums_of_angles(canonical(tape)) is None


def test_nothing_is_rewritten_if_signs_of_zeros_matter():
    tape = chain(2)
    tape.outputs.append(tape.apply("atan2", *tape.outputs[-2:]))
    assert with_sums_of_angles(tape) is None


@settings(max_examples=20)
@given(programs(("add", "subtract", "multiply", "sin", "cos"), constants=(1.0, 2.0), exponents=(), steps=20))
def test_programs_stay_unchanged(program):
    tape = canonical(program.tape())
    result = with_sums_of_angles(tape)
    if result is None:
        return
    verify(tape, result)
    point = [0.3, -1.1, 0.7, 2.0][: tape.inputs]
    np.testing.assert_allclose(evaluate(result, point), [float(x) for x in exact_values(tape, point)], atol=1e-9)


def planar_arm(q):
    """Return position and direction of the tool of a planar arm of four links, as a chain of frames."""
    x, y, c, s = 0.0, 0.0, 1.0, 0.0
    for angle, length in zip(q, (0.7, 0.5, 0.4, 0.2), strict=True):
        c, s = c * np.cos(angle) - s * np.sin(angle), s * np.cos(angle) + c * np.sin(angle)
        x, y = x + length * c, y + length * s
    return np.array([x, y, c, s])


def test_an_arm_is_as_short_as_with_sums_by_hand():
    """Four sums but one, eight functions, the position from the tool backwards, whose parts are derivatives."""
    point = np.array([0.3, -0.5, 0.7, 1.1])
    derivative = acc.value_and_jacobian(planar_arm, effort="thorough", cache=False)
    program = derivative.compile(point)
    # 3 sums; 8 functions; 8 products and 6 sums for the positions; and as many signs at most as are wanted
    assert program.operations <= 3 + 8 + 8 + 6 + 5
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (50, 4))
    value, jacobian = derivative.batch(X)
    plain = acc.value_and_jacobian(planar_arm, optimise=False, cache=False).batch(X)
    np.testing.assert_allclose(value, plain[0], atol=1e-14)
    np.testing.assert_allclose(jacobian, plain[1], atol=1e-14)
    identities = {str(each) for each in program.by_value.identities}
    assert "cos(x0)·cos(x1) - sin(x0)·sin(x1) = cos(x0 + x1)" in identities
    assert program.by_value.unexplained == 0


def test_sums_of_small_angles_keep_their_digits():
    """cos(a)·sin(b) - sin(a)·cos(b) near a = b has what a - b has."""
    tape = Tape(2)
    (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    tape.outputs = [tape.subtract(tape.multiply(c, t), tape.multiply(s, d))]
    result = optimise(tape, effort="thorough")
    for a in (1.0, 1e-8):
        b = a * (1.0 + 1e-9)
        assert evaluate(result, [a, b])[0] == pytest.approx(math.sin(b - a), rel=1e-6, abs=0.0)


def test_angles_are_exact_where_none_is_a_sum():
    angle = np.array([0.5, 300.0])
    (size, bound), (_, rounded) = (
        operation_with_bounds(BY_NAME["sin"].code, [angle], [np.zeros(2)], span)
        for span in (DOUBLE, DOUBLE._replace(has_rounded_angles=True))
    )
    np.testing.assert_allclose(bound, 2.0 * np.abs(size))
    np.testing.assert_allclose(rounded - bound, np.abs(angle * np.cos(angle)), rtol=1e-3)


def many_links(links):
    """Tips of chains of links, in the plane: every sum of consecutive angles, and lengths between all joints."""

    def f(q):
        results = []
        for first in range(links):
            x, y, c, s = 0.0, 0.0, 1.0, 0.0
            for joint in range(first, links):
                c, s = c * np.cos(q[joint]) - s * np.sin(q[joint]), s * np.cos(q[joint]) + c * np.sin(q[joint])
                x, y = x + q[links + joint] * c, y + q[links + joint] * s
            results += [x * q[-1], y * x, np.sqrt(x * x + y * y + 1.0)]
        return np.array(results)

    return f, np.linspace(0.2, 0.9, 2 * links + 1)


def test_long_jacobians_have_them_by_default(monkeypatch):
    # by work alone, however busy the machine is
    monkeypatch.setattr("accumulus.deadline.time", SimpleNamespace(monotonic=lambda: 0.0))
    f, x = many_links(12)
    program = acc.value_and_jacobian(f, cache=False).compile(x)
    monkeypatch.setattr(optimiser, "with_sums_of_angles", lambda *_: None)
    without = acc.value_and_jacobian(f, cache=False).compile(x)
    assert program.operations < 0.95 * without.operations
    for one, other in zip(program(x), without(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_they_are_not_taken_where_rounding_forbids_them(monkeypatch):
    tape = chain(6)
    context = within(1.0)
    assert optimiser.shorter_by_angles(tape, context, None) is not tape
    monkeypatch.setattr(Limits, "worse", lambda *_: [0])
    assert optimiser.shorter_by_angles(tape, context, None) is tape
