"""Programs with and without the tape's optimiser, as users call them."""

from __future__ import annotations

import numpy as np
import pytest
from inside import canonical, emit

import accumulus as acc


def camera(x):
    """A point seen by a turned camera: products, quotients and roots that derivatives share."""
    angle = np.sqrt(x[0] ** 2 + x[1] ** 2 + x[2] ** 2)
    axis = x[:3] / angle
    point = x[3:6]
    turned = point * np.cos(angle) + np.cross(axis, point) * np.sin(angle)
    turned = turned + axis * (axis @ point) * (1 - np.cos(angle))
    return turned[:2] / turned[2] * x[6]


POINT = np.array([0.3, -0.2, 0.5, 1.0, -2.0, 4.0, 2.0])


@pytest.fixture(scope="module")
def points():
    return POINT + np.random.default_rng(0).uniform(-0.1, 0.1, (50, 7))


@pytest.fixture(scope="module")
def plainly():
    return acc.value_and_jacobian(camera, optimise=False)


@pytest.mark.parametrize("options", [{}, {"exact_order": True}, {"effort": "fast"}, {"target": "numpy"}])
def test_fewer_operations_and_the_same_numbers(options, points, plainly):
    optimised = acc.value_and_jacobian(camera, **options)
    same_search = acc.value_and_jacobian(camera, optimise=False, **options)
    assert optimised.compile(POINT).operations < same_search.compile(POINT).operations
    for one, other in zip(optimised.batch(points), plainly.batch(points), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_without_the_optimiser_the_program_is_that_of_the_plan(plainly):
    program = plainly.compile(POINT)
    assert program.operations == canonical(emit(program.plan.accumulation)).operations
    assert "rewritten" not in str(program.report())


def test_the_report_has_the_gain():
    program = acc.jacobian(camera).compile(POINT)
    report = program.report()
    assert report.operations == program.operations < report.emitted
    assert f"from {report.emitted} operations of the plan" in str(report)


def test_the_same_function_gives_the_same_program():
    tapes = [str(acc.jacobian(camera).compile(POINT).tape) for _ in range(2)]
    assert tapes[0] == tapes[1]


def test_functions_alone_are_rewritten_too(points):
    tape = acc.trace(camera, POINT).tape
    assert acc.optimise(tape).operations < canonical(tape).operations
    with pytest.raises(acc.errors.ArgumentError, match="expected a Tape, such as trace"):
        acc.optimise(camera)
    with pytest.raises(acc.errors.UnknownNameError, match="hurried"):
        acc.optimise(tape, effort="hurried")
    with pytest.raises(acc.errors.ArgumentError, match="the tape has 2 outputs"):
        acc.optimise(tape, kept_outputs=3)


def test_unverified_programs_are_not_used(monkeypatch):
    def refuse(*_, **__):
        raise acc.errors.VerificationError("output 0 of the optimised tape is off")

    monkeypatch.setattr("accumulus.rewriting.equivalence.Verification.check", refuse)
    tape = acc.trace(camera, POINT).tape
    with pytest.warns(acc.errors.RewritingWarning, match="output 0 .* is used as it was before"):
        result = acc.optimise(tape)
    assert str(result) == str(canonical(tape))


def test_float32_keeps_its_range_by_default():
    h, k = 6.6e-34, 1.4e-23

    def f(x):
        return np.array([x[0] * h * (x[1] * k), (x[0] * h + x[1] * h) * k * x[2]])

    x = np.array([1e30, 1e25, 1e10])
    value, slope = acc.value_and_jacobian(f, dtype="float32")(x)
    assert np.all(value > 0)
    np.testing.assert_allclose(value, f(x), rtol=1e-4)
    assert slope[0, 0] > 0
    single = acc.value_and_jacobian(camera, dtype="float32", optimise=True).compile(POINT)
    assert single.operations < acc.value_and_jacobian(camera, dtype="float32").compile(POINT).operations


@pytest.mark.parametrize("setting", ["no", 2])
def test_optimise_is_a_choice(setting):
    with pytest.raises(acc.errors.ArgumentError, match="expected True, False or None"):
        acc.jacobian(camera, optimise=setting)
