"""The true values and Jacobian: central differences in 90 digits of the same source run on mpmath's numbers.

A step of 1e-30 relative to the variable leaves a truncation error near 1e-60 of the derivative, 44 digits below what a
double can show.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers import require
from peers.object_arrays import ObjectNamespace, Objects

DIGITS = 90
STEP_DIGITS = 30


def value_and_jacobian(example: Example, digits: int = DIGITS) -> Callable[[NDArray[np.float64]], Objects]:
    """Function from a point (inputs,) to values and Jacobian, (outputs, 1 + inputs) mpmath numbers, values first.

    Args:
        digits: to calculate with. Sums of terms of very different magnitude need more than usual.
    """
    mp = require("mpmath").mp.clone()
    mp.dps = digits
    functions = {name: getattr(mp, name) for name in ("sqrt", "cbrt", "exp", "expm1", "log", "log1p", "log10")}
    functions |= {name: getattr(mp, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    functions |= {"arcsin": mp.asin, "arccos": mp.acos, "arctan": mp.atan, "arctan2": mp.atan2}
    functions |= {"arcsinh": mp.asinh, "arccosh": mp.acosh, "arctanh": mp.atanh}
    functions |= {"absolute": abs, "sign": mp.sign, "maximum": max, "minimum": min, "erf": mp.erf}
    function = example.running_on(ObjectNamespace(functions, pivot=abs))

    def at(x: NDArray[np.float64]) -> Objects:
        point = np.array([mp.mpf(float(value)) for value in x], dtype=object)
        columns = [function(point)]
        for j in range(x.size):
            step = mp.mpf(10) ** -STEP_DIGITS * (abs(point[j]) or 1)
            above, below = point.copy(), point.copy()
            above[j] += step
            below[j] -= step
            columns.append((function(above) - function(below)) / (2 * step))
        return np.stack(columns, axis=1)

    return at


def jacobian(example: Example) -> Callable[[NDArray[np.float64]], Objects]:
    """Function from a point (inputs,) to the Jacobian (outputs, inputs) of mpmath numbers."""
    both = value_and_jacobian(example)
    return lambda x: both(x)[:, 1:]
