"""Iterations that end by comparing: what is said where the derivative is that of the path, and not of the solution."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import IterationWarning


def bisection(a, tolerance=1e-3):
    low, high = 0.0 * a, a + 1.0
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        if middle * middle > a:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def nearly_linear(a):
    """Return 0.4 a^1.12 by halves of an interval that ends at `a`: the path is 12 % less steep than the solution."""
    low, high = 0.0 * a, a
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        if middle > 0.4 * a**1.12:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def halves(a):
    low, high = 0.0, 3.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle * middle > a else (middle, high)
    return 0.5 * (low + high) + 0.0 * a


def golden_section(a):
    low, high, ratio = 0.0, 5.0, 0.6180339887498949
    while high - low > 1e-4:
        one, other = high - ratio * (high - low), low + ratio * (high - low)
        if (one - a) ** 2 < (other - a) ** 2:
            high = other
        else:
            low = one
    return 0.5 * (low + high)


def rotations(a):
    x, y, left = 0.6072529350088813, 0.0, a
    for k in range(30):
        side = 1.0 if left > 0 else -1.0
        x, y, left = x - side * y * 2.0**-k, y + side * x * 2.0**-k, left - side * np.arctan(2.0**-k)
    return y


def ternary_digits(a):
    total, left = 0.0, a
    for k in range(1, 30):
        digit = 2.0 if left >= 2.0 * 3.0**-k else 1.0 if left >= 3.0**-k else 0.0
        total, left = total + digit * 3.0**-k, left - digit * 3.0**-k
    return total


def of_a_tuple(x):
    """The roots of several numbers, and what is right beside what is not."""
    return np.array([bisection(x[0]), x[1] ** 2, halves(x[1])])


def newton(a):
    x = a
    for _ in range(100):
        change = (x * x - a) / (2.0 * x)
        x = x - change
        if abs(change) < 1e-9:
            break
    return x


def false_position(a):
    low, high = 0.1, a + 2.0
    for _ in range(60):
        at_low, at_high = low * low - a, high * high - a
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = middle * middle - a
        if abs(value) < 1e-10:
            break
        if value > 0:
            high = middle
        else:
            low = middle
    return middle


def steps_of_their_own_size(p):
    time, y, step = 0.0, p[0], 0.1
    while time < 1.0:
        one = -p[1] * y
        other = -p[1] * (y + step * one)
        if abs(step * (other - one) / 2) < 1e-3:
            y, time = y + step * (one + other) / 2, time + step
            step = min(step * 1.2, 1.0 - time) if time < 1.0 else step
        else:
            step = step / 2
    return y


def rectified(x):
    total = 0.0
    for each in x:
        if each > 0:  # noqa: SIM108
            total = total + each * each
        else:
            total = total - 0.1 * each
    return total


def counted(a):
    """The number of turns is the result: nothing is said of points with other numbers."""
    turns, total = 0, 0.0
    while total < a:
        total, turns = total + 0.01, turns + 1
    return turns * 0.01 + 0.0 * a


def largest_so_far(x):
    best = x[0]
    for each in x[1:]:
        best = each * 1.1 if each > best else best
    return best


OF_PATHS = [bisection, nearly_linear, halves, golden_section, rotations, ternary_digits, of_a_tuple]
OF_SOLUTIONS = [newton, false_position, steps_of_their_own_size, rectified, counted, largest_so_far]
POINTS = {
    of_a_tuple: np.array([2.0, 1.7]),
    steps_of_their_own_size: np.array([1.0, 2.0]),
    rectified: np.random.default_rng(0).normal(size=40),
    counted: 0.505,
    largest_so_far: np.array([0.3, 0.8, 0.5, 1.2, 0.9, 1.9]),
    rotations: 0.7,
    ternary_digits: 0.4,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("f", OF_PATHS)
def test_the_derivative_of_a_path_is_said(f):
    with pytest.warns(IterationWarning, match=r"path that its iteration takes.*acc\.implicit") as caught:
        acc.jacobian(f, cache=False)(POINTS.get(f, 2.0))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = acc.check(f, POINTS.get(f, 2.0), points=2, time_limit=0.0, target="numpy")
    assert not report.passed
    assert "slopes across paths of an iteration" in str(report)


@pytest.mark.parametrize("n", [1, 2, 30, 100])
def test_the_derivative_of_a_path_of_arrays_is_said(n):
    def roots(a):
        low, high = np.zeros(n), np.full(n, 3.0)
        for _ in range(20):
            middle = 0.5 * (low + high)
            is_above = middle * middle > a
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        return 0.5 * (low + high)

    with pytest.warns(IterationWarning, match=r"path that its iteration takes.*acc\.implicit"):
        acc.jacobian(roots, cache=False)(np.linspace(2.0, 2.5, n))


@pytest.mark.parametrize("f", OF_SOLUTIONS)
def test_nothing_is_said_of_other_derivatives(f):
    with warnings.catch_warnings():
        warnings.simplefilter("error", IterationWarning)
        acc.jacobian(f, cache=False)(POINTS.get(f, 2.0))


WEIGHTS = np.random.default_rng(1).normal(size=6)
#: Functions that select in turn.
OF_KINKS = {
    "sorted": lambda x: np.sort(x) @ WEIGHTS,
    "smallest": lambda x: np.sum(np.sort(x)[:3]) * np.median(x),
    "largest": lambda x: max(x[0], 2 * x[1] - 1, x[2] * 1.5 - 0.5, x[3], x[4] * 3 - 2),
    "limits": lambda x: np.clip(np.clip(np.clip(np.clip(x, 0.9, 1.1) * 2, 1.9, 2.1) - 1, 0.95, 1.02), 0.97, 1) @ x,
}


@pytest.mark.parametrize("apart", [1e-3, 1e-2, 0.03, 0.1])
@pytest.mark.parametrize("name", OF_KINKS)
def test_nothing_is_said_of_kinks(name, apart):
    """Among nearly equal entries, slopes nearby are others."""
    random = np.random.default_rng(0)
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("error", IterationWarning)
            acc.gradient(OF_KINKS[name], cache=False, time_limit=0.0)(1.0 + apart * random.normal(size=6))


def test_the_line_of_the_iteration_is_named():
    with pytest.warns(IterationWarning, match=r"line \d+: while high - low > tolerance"):
        acc.gradient(bisection, cache=False)(2.0)


def test_nothing_is_compared_without_the_check():
    with warnings.catch_warnings():
        warnings.simplefilter("error", IterationWarning)
        acc.gradient(bisection, cache=False, check=False)(2.0)
