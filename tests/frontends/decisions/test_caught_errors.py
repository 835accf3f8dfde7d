"""Errors that `math` raises for a number, and that the function catches, in compiled code."""

import math

import numpy as np
import pytest

import accumulus as acc


def root_or(x):
    try:
        y = math.sqrt(x)
    except ValueError:
        y = -x
    return 3.0 * y


def exponential_or(x):
    try:
        return math.exp(x)
    except OverflowError:
        return 2.0 * x


def logarithm(v):
    return math.log(v) + 1.0


def in_a_helper(x):
    total = 0.0
    for factor in (1.0, -1.0):
        try:
            total += factor * logarithm(factor * x)
        except (ValueError, ZeroDivisionError):
            total += x**2
        finally:
            total += x
    return total


def in_a_branch(x):
    if x > 1:
        try:
            return math.asin(x - 1.0)
        except Exception:
            return x**3
    return x


def nested(x):
    try:
        try:
            return math.acosh(x)
        except OverflowError:
            return 0.0
    except ValueError:
        return math.pow(x, 3)


@pytest.mark.parametrize(
    ("f", "points"),
    [
        (root_or, [4.0, -4.0, 0.25, -1.0]),
        (exponential_or, [1.0, 1000.0, -3.0, 710.0]),
        (in_a_helper, [2.0, -2.0, 0.5]),
        (in_a_branch, [0.5, 1.5, 2.5]),
        (nested, [2.0, 0.5, -3.0]),
    ],
)
def test_the_way_of_the_handler_is_taken_where_python_takes_it(f, points):
    jac = acc.value_and_jacobian(f)
    X = np.array(points)
    values, slopes = jac.batch(X)
    for x, value, slope in zip(points, values, slopes, strict=True):
        step = 1e-6 * max(1.0, abs(x))
        expected = (f(x + step) - f(x - step)) / (2 * step)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        np.testing.assert_allclose(slope, expected, rtol=1e-7)
        assert jac(x) == (value, slope)
