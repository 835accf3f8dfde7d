"""Sums of waves whose strengths add up to a jump: found in fluxes by Roe's averages alone, with right derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import within
from exact import exact_jacobian, exact_values
from inside import canonical, evaluate

import accumulus as acc
from accumulus.programs import derivation, waves
from accumulus.programs.waves import with_sums_of_waves

GAMMA = 1.4
Q = np.array([1.0, 0.4, 2.6, 0.8, 0.5, 1.9])


def speed(value):
    return np.abs(value)


def fixed(value):
    """The absolute value, with an entropy fix."""
    return np.where(np.abs(value) < 0.1, (value * value + 0.01) / 0.2, np.abs(value))


def by_waves(q, speed=speed, weights=np.sqrt, turns=1.0):
    """Flux between two states (density, momentum, energy) of a gas, by Roe's method."""
    (r, m, e), (s, n, f) = q[:3], q[3:]
    u, v = m / r, n / s
    p, k = (GAMMA - 1.0) * (e - 0.5 * m * u), (GAMMA - 1.0) * (f - 0.5 * n * v)
    h, i = (e + p) / r, (f + k) / s
    a, b = weights(r), weights(s)
    mean_u, mean_h = (a * u + b * v) / (a + b), (a * h + b * i) / (a + b)
    sound = np.sqrt((GAMMA - 1.0) * (mean_h - 0.5 * mean_u**2))
    density = np.sqrt(r * s)
    left = 0.5 * (k - p - density * sound * (v - u)) / sound**2
    right = 0.5 * (k - p + density * sound * (v - u)) / sound**2
    middle = s - r - (k - p) / sound**2
    slow, still, fast = speed(mean_u - sound) * left, speed(mean_u) * middle, turns * speed(mean_u + sound) * right
    return 0.5 * np.array(
        [
            m + n - slow - still - fast,
            m * u + p + n * v + k - slow * (mean_u - sound) - still * mean_u - fast * (mean_u + sound),
            m * h
            + n * i
            - slow * (mean_h - mean_u * sound)
            - still * 0.5 * mean_u**2
            - fast * (mean_h + mean_u * sound),
        ]
    )


#: Fluxes with Roe's property, and their names.
FLUXES = {"absolute values": by_waves, "entropy fix": lambda q: by_waves(q, fixed)}
#: Functions with speeds, but without the property.
OTHERS = {
    "arithmetic averages": lambda q: by_waves(q, weights=lambda r: 1.0 + 0.0 * r),
    "a wave that counts twice": lambda q: by_waves(q, turns=2.0),
    "a sum for small numbers alone": lambda q: (
        np.abs(q[0]) * (np.minimum(q[1], 1e6) - q[2] ** 2) + np.abs(q[3]) * q[2] ** 2 * np.ones(2)
    ),
    "one speed": lambda q: np.abs(q[0] + q[1]) * (q[2] - q[3]) * np.ones(2),
    "products of speeds": lambda q: np.abs(q[0] + q[1]) * np.abs(q[2] - q[3]) * (q[4] - q[5]) * np.ones(2),
    "truth values": lambda q: (
        np.where(q[0] > 0.5, q[1] > 0.3, q[2] > 0.1) * q[3]
        + np.where(q[4] > 0.2, q[5] > 0.3, q[2] > 0.1) * (q[0] - q[3]) * np.ones(2)
    ),
    "strengths without a short sum": lambda q: (
        np.abs(q[0]) * q[1] * q[2] ** 2 + np.abs(q[3]) * np.exp(q[4]) * np.ones(2)
    ),
}


def found(f):
    tape = acc.trace(f, Q).tape
    return with_sums_of_waves(tape, len(tape.outputs), within(), Q[np.newaxis])


@pytest.mark.parametrize("name", FLUXES)
def test_sums_of_strengths_are_jumps(name):
    tape, made = canonical(acc.trace(FLUXES[name], Q).tape), found(FLUXES[name])
    draw = np.random.default_rng(1)
    for point in Q * (1.0 + 0.1 * draw.normal(size=(8, 6))):
        np.testing.assert_allclose(evaluate(made, point), evaluate(tape, point), rtol=1e-12, atol=1e-13)
        exact = [float(value) for value in exact_values(tape, point)]
        np.testing.assert_allclose(evaluate(made, point), exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", FLUXES)
def test_derivatives_are_right_and_shorter(name, monkeypatch):
    flux, draw = FLUXES[name], np.random.default_rng(2)
    jacobian = acc.value_and_jacobian(flux, cache=False)
    program = jacobian.compile(Q)
    assert program.report().theorem.startswith("Roe's property") or name == "entropy fix"
    tape = acc.trace(flux, Q).tape
    for point in Q * (1.0 + 0.1 * draw.normal(size=(4, 6))):
        exact = np.array(exact_jacobian(tape, point), float)
        np.testing.assert_allclose(jacobian(point)[1], exact, rtol=1e-10, atol=1e-11)
    monkeypatch.setattr("accumulus.programs.graphs.with_sums_of_waves", lambda *_: None)
    before = acc.value_and_jacobian(flux, cache=False).compile(Q)
    assert program.operations < 0.97 * before.operations or name == "entropy fix"
    assert program.operations <= before.operations


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_stay(name):
    f = OTHERS[name]
    # the strengths of mass add up to its jump by any averages, and those of truth values to an input
    assert found(f) is None or name in ("arithmetic averages", "truth values")
    exact = np.array(exact_jacobian(acc.trace(f, Q).tape, Q), float)
    np.testing.assert_allclose(acc.jacobian(f, cache=False)(Q), exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("by", [1.0 + 1e-7, 2.0])
def test_wrong_sums_are_refused(by, monkeypatch):
    short, agreed, check = waves._short, [], derivation.has_results_of
    monkeypatch.setattr(
        waves,
        "_short",
        lambda tape, *args: None if (made := short(tape, *args)) is None else tape.multiply(tape.constant(by), made),
    )
    monkeypatch.setattr(
        derivation, "has_results_of", lambda *args, **options: agreed.append(check(*args, **options)) or agreed[-1]
    )
    result = acc.jacobian(by_waves, cache=False)
    exact = np.array(exact_jacobian(acc.trace(by_waves, Q).tape, Q), float)
    np.testing.assert_allclose(result(Q), exact, rtol=1e-10, atol=1e-11)
    assert agreed == [False]
    assert not result.report().theorem


def test_points_outside_of_the_domain_find_nothing():
    tape = acc.trace(by_waves, Q).tape
    assert with_sums_of_waves(tape, len(tape.outputs), within(), -Q[np.newaxis]) is None
