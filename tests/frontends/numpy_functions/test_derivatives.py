"""Derivatives of what is composed of several operations, where formulas easily go wrong: ties, zeros, overflow."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import special

import accumulus as acc

A4 = np.random.default_rng(3).normal(size=(4, 4))
RIGHT = np.array([1.0, -2.0, 0.5, 3.0])


def jacobian(f, x):
    return np.asarray(acc.jacobian(f, target="numpy", method="reverse")(x))


def assigned(x):
    y = x * x
    y[x < 0] = 5.0
    y[x > 1] = 2.0
    return y + np.where(x > 1, 2.0 * x, 0.0)


def scattered(x):
    total = np.zeros(2)
    np.add.at(total, [0, 0], x)
    return total


CASES = {
    "logaddexp at a tie": (lambda x: np.logaddexp(x[0], x[1]), [3.0, 3.0], [0.5, 0.5]),
    "logaddexp far apart": (lambda x: np.logaddexp(x[0], x[1]), [-900.0, 900.0], [0.0, 1.0]),
    "logaddexp2 at a tie": (lambda x: np.logaddexp2(x[0], x[1]), [3.0, 3.0], [0.5, 0.5]),
    "expit at 0": (lambda x: special.expit(x[0]), [0.0], [0.25]),
    "expit of large numbers": (special.expit, [-900.0, 900.0], np.zeros((2, 2))),
    "log_expit": (lambda x: special.log_expit(x[0]), [0.0], [0.5]),
    "xlogy at 0": (lambda x: special.xlogy(x[0], x[1]), [0.0, 2.0], [np.log(2.0), 0.0]),
    "sinc at 0": (lambda x: np.sinc(x[0]), [0.0], [0.0]),
    "remainder": (lambda x: x[0] % x[1], [7.5, 2.0], [1.0, -3.0]),
    "remainder of a negative number": (lambda x: x[0] % x[1], [-7.5, 2.0], [1.0, 4.0]),
    "remainder by a negative number": (lambda x: x[0] % x[1], [7.5, -2.0], [1.0, 4.0]),
    "remainder of a multiple": (lambda x: x[0] % x[1], [-6.0, -2.0], [1.0, -3.0]),
    "remainder by a number": (lambda x: x[0] % 2.0 + x[0] % -2.0, [-6.0], [2.0]),
    "remainder where the quotient rounds to a whole number": (lambda x: x[0] % x[1], [1.0, 0.1], [1.0, -9.0]),
    "fmod of a negative number": (lambda x: np.fmod(x[0], x[1]), [-7.5, 2.0], [1.0, 3.0]),
    "fmod by an infinite number": (lambda x: np.fmod(x[0], x[1]), [7.5, np.inf], [1.0, 0.0]),
    "floor_divide": (lambda x: x[0] // x[1], [7.5, -2.0], [0.0, 0.0]),
    "trunc": (lambda x: x[0] - np.trunc(x[0]), [-1.5], [1.0]),
    "fmax with NaN": (lambda x: np.fmax(x[0], np.nan), [2.0], [1.0]),
    "copysign": (lambda x: np.copysign(x[0], x[1]), [2.0, -3.0], [-1.0, 0.0]),
    "division where it is possible": (
        lambda x: np.divide(1.0, x, out=np.zeros(2), where=x != 0),
        [0.0, 2.0],
        [[0.0, 0.0], [0.0, -0.25]],
    ),
    "assignment by a condition": (assigned, [-1.0, 2.0], [[0.0, 0.0], [0.0, 2.0]]),
    "interpolation": (lambda x: np.interp(x[0], [0.0, 1.0, 3.0], [0.0, 2.0, 8.0]), [2.0], [3.0]),
    "norm": (np.linalg.norm, [3.0, 4.0], [0.6, 0.8]),
    "det": (lambda x: np.linalg.det(A4 * x[0]), [1.0], [4 * np.linalg.det(A4)]),
    "solve": (lambda x: np.linalg.solve(A4, RIGHT * x[0])[:1], [1.0], [[np.linalg.solve(A4, RIGHT)[0]]]),
    "inv": (lambda x: np.linalg.inv(A4 * x[0])[0, :1], [1.0], [[-np.linalg.inv(A4)[0, 0]]]),
    "scatter": (scattered, [1.0, 2.0], [[1.0, 1.0], [0.0, 0.0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    f, x, expected = CASES[name]
    result = jacobian(f, np.array(x))
    np.testing.assert_allclose(result.reshape(np.shape(expected)), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimise", [True, False])
def test_ties_of_several_are_shared_evenly(optimise):
    """The derivative of an extreme is shared evenly by all equal entries, as in JAX."""

    def f(x):
        return np.array(
            [np.max(x), np.min(-x), np.linalg.norm(x, np.inf), np.maximum.reduce(x), np.max(x, initial=1.0)]
        )

    jacobian = acc.jacobian(f, optimise=optimise)
    for x in (
        [2.0, 2.0, 2.0, 1.0],
        [2.0, 1.0, 2.0, 2.0],
        [2.0, 2.0, 2.0, 2.0],
        [1.0, 2.0, 2.0, 0.0],
        [1.0, 0.5, 3.0, 2.0],
    ):
        share = np.equal(x, max(x)) / x.count(max(x))
        np.testing.assert_array_equal(jacobian(np.array(x)), [share, -share, share, share, share])
    np.testing.assert_array_equal(jacobian(np.array([1.0, 0.0, 1.0, 0.0]))[4], [1 / 3, 0.0, 1 / 3, 0.0])
    pairs = acc.jacobian(lambda x: np.max(x.reshape(3, 2), axis=1))(np.array([1.0, 1.0, 2.0, 1.0, 0.0, 3.0]))
    np.testing.assert_array_equal(pairs[np.arange(3).repeat(2), np.arange(6)], [0.5, 0.5, 1.0, 0.0, 0.0, 1.0])


def test_unselected_arguments_of_a_maximum_do_not_count():
    f = lambda x: np.max(np.array([x[0], np.sqrt(x[1]), x[2]]))  # noqa: E731
    np.testing.assert_array_equal(acc.jacobian(f)(np.array([2.0, 0.0, 1.0])), [1.0, 0.0, 0.0])


@cache
def derivatives_of_sinc(source):
    """Return derivatives of the first three orders."""
    if source == "numpy":
        sinc = np.sinc
    elif source == "jax":
        sinc = pytest.importorskip("jax.numpy").sinc
    else:
        sympy = pytest.importorskip("sympy")
        t = sympy.Symbol("t")
        sinc = sympy.Lambda(t, sympy.sinc(np.pi * t))
    return [acc.gradient(sinc), acc.hessian(sinc), acc.gradient(acc.hessian(sinc))]


@pytest.mark.parametrize("x", [0.0, 1e-9, -1e-4, 0.15, 0.17, 2.5])
@pytest.mark.parametrize("source", ["numpy", "jax", "sympy"])
def test_derivatives_of_sinc_do_not_cancel(x, source):
    actual = [derivative(x) for derivative in derivatives_of_sinc(source)]
    with mpmath.workdps(60):
        expected = [float(mpmath.diff(lambda t: mpmath.sinc(mpmath.pi * t), x, k)) for k in (1, 2, 3)]
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)
