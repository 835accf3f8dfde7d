"""Jacobians by complex steps: one column an evaluation, exact to rounding, NumPy only.

f(x + i h e_j) = f(x) + i h ∂f/∂x_j + O(h²) without cancellation, so that h = 1e-30 leaves no truncation error.

Source: W. Squire, G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40 (1998).
Gap: functions that are not analytic need a continuation of their own; those that the examples use have one here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers.object_arrays import ObjectNamespace, Scalar, lifted, plain

STEP = 1e-30
INVERSE = ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")

Matrix = NDArray[np.float64]


def absolute(x: Any) -> Any:
    """|x| continued along the imaginary axis."""
    return np.where(np.real(x) < 0.0, -x, x)[()]


def arctan2(y: Any, x: Any) -> Any:
    """The angle of (x, y), to first order in the imaginary parts."""
    slope = (np.real(x) * np.imag(y) - np.real(y) * np.imag(x)) / (np.real(x) ** 2 + np.real(y) ** 2)
    return np.arctan2(np.real(y), np.real(x)) + 1j * slope


def erf(x: Any) -> Any:
    """The error function of complex numbers."""
    from scipy import special

    return special.erf(x)


def jacobian(example: Example) -> Callable[[Matrix], Matrix]:
    """Function from a point (inputs,) to the Jacobian (outputs, inputs)."""
    function = example.running_on(_ComplexNamespace())

    def at(x: Matrix) -> Matrix:
        steps = x + 1j * STEP * np.eye(x.size)
        return np.stack([np.imag(function(row)) / STEP for row in steps], axis=1)

    return at


def perturbed(example: Example, size: float, count: int) -> Callable[[Matrix, int], Matrix]:
    """Function from a point and a seed to exact values and Jacobians of f with every number in it slightly wrong.

    They have the shape (count, outputs, 1 + inputs), values first. Every variable and every result of an operation in f
    as written is multiplied by 1 + size ξ, ξ normally distributed, one ξ each for all columns, others in each of the
    `count` runs. What results move by shows how far they are determined by f's own arithmetic (Monte Carlo arithmetic:
    D. S. Parker, B. Pierce, P. R. Eggert, Computing in Science & Engineering 2, 2000).
    """
    names = ("sqrt", "cbrt", "exp", "expm1", "log", "log1p", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    functions = {name: lifted(getattr(np, name)) for name in (*names, *INVERSE, "maximum", "minimum")}
    functions |= {"absolute": lifted(absolute), "arctan2": lifted(arctan2), "erf": lifted(erf)}
    # a scalar holds all runs and columns, which are all close to one number
    function = example.running_on(ObjectNamespace(functions, pivot=lambda scalar: np.mean(np.abs(plain(scalar)))))

    def at(x: Matrix, seed: int) -> Matrix:
        normal = np.random.default_rng(seed).normal

        def wrong(value: Matrix) -> Matrix:
            return value * (1.0 + size * normal(size=(count, 1)))

        heights = STEP * np.where(x == 0.0, 1.0, np.abs(x))
        steps = x[:, None] + 1j * np.diag(heights)
        result = function(np.array([Scalar(wrong(step), wrong) for step in steps], dtype=object))
        found = np.stack([np.broadcast_to(plain(value), (count, x.size)) for value in result], axis=1)
        return np.concatenate([np.real(found[:, :, :1]), np.imag(found) / heights], axis=2)

    return at


class _ComplexNamespace:
    """Looks like the module `numpy`, with complex arrays and analytic continuations."""

    abs = absolute = staticmethod(absolute)
    arctan2 = staticmethod(arctan2)
    erf = staticmethod(erf)

    def __init__(self) -> None:
        self.special = self
        self.linalg = _ComplexLinearAlgebra()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def zeros(shape: Any) -> NDArray[np.complex128]:
        """Complex zeros."""
        return np.zeros(shape, dtype=complex)

    empty = zeros


class _ComplexLinearAlgebra:
    solve = staticmethod(np.linalg.solve)

    @staticmethod
    def norm(x: Any) -> Any:
        """The analytic square root of the sum of squares."""
        return np.sqrt(np.sum(x * x))
