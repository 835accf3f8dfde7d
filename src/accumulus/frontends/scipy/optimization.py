"""Rosenbrock's function in `scipy.optimize`, its gradient, its Hessian, and products of this with a vector.

SciPy makes plain arrays of what these are given before it computes, so that it has to be told what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.tape.tape import Tape

__all__ = ["rosen", "rosen_der", "rosen_hess", "rosen_hess_prod"]


@borrows("scipy.optimize", "rosen")
def rosen(tape: Tape, x: Any) -> Any:
    """Σ 100·(xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)² along the first axis."""
    x = as_array(tape, x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2, axis=0)


@borrows("scipy.optimize", "rosen_der")
def rosen_der(tape: Tape, x: Any) -> Any:
    """The gradient, of the shape of x."""
    x = as_array(tape, x)
    residuals = x[1:] - x[:-1] ** 2
    result = as_array(tape, np.zeros(x.shape))
    result[1:] = 200.0 * residuals
    result[:-1] -= 400.0 * x[:-1] * residuals + 2.0 * (1.0 - x[:-1])
    return result


@borrows("scipy.optimize", "rosen_hess")
def rosen_hess(tape: Tape, x: Any) -> Any:
    """The Hessian, tridiagonal, of a vector x."""
    diagonal, beside = _bands(tape, x)
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


@borrows("scipy.optimize", "rosen_hess_prod")
def rosen_hess_prod(tape: Tape, x: Any, p: Any) -> Any:
    """The product of the Hessian and a vector p."""
    diagonal, beside = _bands(tape, x)
    p = as_array(tape, p)
    result = diagonal * p
    result[:-1] += beside * p[1:]
    result[1:] += beside * p[:-1]
    return result


def _bands(tape: Tape, x: Any) -> tuple[Any, Any]:
    """The diagonal of the Hessian, and the one beside it."""
    x = np.atleast_1d(as_array(tape, x))
    if x.ndim != 1:
        raise ValueError(f"Rosenbrock's Hessian is that of a vector; x has shape {x.shape}")
    diagonal = as_array(tape, np.zeros(x.shape))
    diagonal[1:] = 200.0
    diagonal[:-1] += 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    return diagonal, -400.0 * x[:-1]
