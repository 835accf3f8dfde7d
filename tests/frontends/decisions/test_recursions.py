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
