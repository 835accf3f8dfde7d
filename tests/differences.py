"""Derivatives against central differences of the function itself, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import accumulus as acc


def differences(function: Callable[..., Any], x: Any, step: float = 1e-4) -> Any:
    """The Jacobian by differences of the sixth order, off by 1e-11 where function and argument are of unit size."""
    x = np.asarray(x, float)
    columns = []
    for index in np.ndindex(x.shape):
        column = 0.0
        for reach, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
            above, below = x.copy(), x.copy()
            above[index] += reach * step
            below[index] -= reach * step
            column = column + weight * (np.asarray(function(above), float) - np.asarray(function(below), float))
        columns.append(column / (60.0 * step))
    return np.stack(columns, axis=-1).reshape(np.shape(function(x)) + x.shape)


def differentiates(function: Callable[..., Any]) -> Callable[..., None]:
    """Compare the Jacobian of `function` with differences at a point; it is compiled once for each shape."""
    derivative = acc.jacobian(function, optimise=False, effort="fast", time_limit=0.0)

    def compare(x: Any, tolerance: float = 1e-7) -> None:
        x = np.asarray(x, float)
        expected = differences(function, x)
        allowed = tolerance * (1.0 + np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(derivative(x), expected, rtol=0.0, atol=allowed)

    return compare
