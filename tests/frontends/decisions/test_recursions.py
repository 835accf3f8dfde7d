"""Functions that call themselves: shallow ones are merged, and deep ones take time in proportion to their path."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc


def two_ways(n, x, y):
    if n == 0:
        return x * y
    return two_ways(n - 1, x + 0.1, y) + 0.5 if x > y else two_ways(n - 1, y, x)


def by_statements(n, x, y):
    if n == 0:
        return np.sin(x) * y
    if x > y:  # noqa: SIM108
        result = by_statements(n - 1, x * 0.9, y + 0.1) * x
    else:
        result = by_statements(n - 1, y, x + 0.05) + y
    return result


def among_functions(n, x, y):
    return other_function(n, x, y) if x > 0.3 * y else x


def other_function(n, x, y):
    if n == 0:
        return x + y
    return among_functions(n - 1, x * y, y) if x * y > 0.1 else among_functions(n - 1, x + 0.3, y * 1.1)


@pytest.mark.parametrize("depth", [1, 3, 6, 12, 40])
@pytest.mark.parametrize("f", [two_ways, by_statements, among_functions])
def test_recursions_of_any_depth(f, depth):
    derivative = acc.value_and_gradient(lambda z: f(depth, z[0], z[1]), cache=False)
    for z in (np.array([0.312, 0.731]), np.array([0.917, 0.243])):
        value, gradient = derivative(z)
        assert value == pytest.approx(f(depth, *z), rel=1e-13)
        slopes = [(f(depth, *(z + h)) - f(depth, *(z - h))) / 2e-7 for h in 1e-7 * np.eye(2)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


def test_shallow_recursions_are_one_program():
    derivative = acc.gradient(lambda z: two_ways(3, z[0], z[1]), cache=False)
    derivative(np.array([0.3, 0.7]))
    assert not derivative.compile(np.array([0.3, 0.7])).is_guarded


def series(x, count):
    total = 0.0
    for k in range(count):
        total = total + np.sin(k * x) / (k + 1.0)
    return total


@pytest.mark.parametrize("count", [40, 600])
def test_a_long_branch_is_computed_only_where_it_is_taken(count):
    def f(x):
        scale = np.exp(x)
        if x > 0.5:  # noqa: SIM108
            value = series(x, count)
        else:
            value = 2.0 * x
        return value * scale

    derivative = acc.value_and_gradient(f, cache=False)
    for x in (0.25, 0.75, 0.3):
        value, gradient = derivative(x)
        assert value == pytest.approx(f(x), rel=1e-13)
        assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6)
    assert acc.gradient(f, cache=False).compile(0.25).is_guarded is (count > 100)
    assert not acc.gradient(f, cache=False).compile(0.75).is_guarded  # what the long branch adds is little


def test_long_branches_in_a_loop_stay_one_program():
    def f(x):
        total = 0.0
        for k in range(12):
            total = total + (series(x[k], 200) if x[k] > 0.5 else x[k])
        return total

    x = np.linspace(0.0, 0.45, 12)
    derivative = acc.gradient(f, cache=False)
    derivative(x)
    assert not derivative.compile(x).is_guarded
