"""Least squares: the solution of least residual (`lstsq`) and the pseudoinverse (`pinv`).

`lstsq` goes by Q and R of the matrix, or of its transpose if it is wide, and needs independent columns, or rows; where
they depend on each other, its results are NaN. `pinv` goes by singular values, of which it cuts off the small ones as
NumPy does, and so takes matrices of any rank, but only small ones.

Both are implicit functions, of matrices of constant rank. With P the pseudoinverse and r = b - A·x,
dP is -P·dA·P + P·Pᵀ·dAᵀ·(I - A·P) + (I - P·A)·dAᵀ·Pᵀ·P, and dx is P·(db - dA·x) + P·Pᵀ·dAᵀ·r + (I - P·A)·dAᵀ·Pᵀ·x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.linalg.factorisations import (
    householder,
    inverse_of_triangular,
    reflected,
)
from accumulus.frontends.numpy.linalg.implicit import attached, check_constant, constant_matrix, fixed, matrices_of
from accumulus.frontends.numpy.linalg.spectral import LARGEST, singular, svdvals, symmetric
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["lstsq", "pinv"]


@implements(np.linalg.lstsq)
def lstsq(tape: Tape, a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution, the sums of squares of residuals, the rank, which is taken to be full, and the singular values.

    Singular values of more than `LARGEST` columns are NaN.
    """
    check_constant("np.linalg.lstsq", rcond=rcond)
    matrix, sides = as_array(tape, a), as_array(tape, b)
    if matrix.ndim != 2:
        raise np.linalg.LinAlgError(f"lstsq: {matrix.ndim}-dimensional array given, a matrix is needed")
    if sides.ndim not in (1, 2) or len(sides) != len(matrix):
        shapes = f"{matrix.shape} and right-hand sides of shape {sides.shape}"
        raise np.linalg.LinAlgError(f"lstsq: a matrix of shape {shapes}")
    m, n = matrix.shape
    columns = sides if sides.ndim == 2 else sides[:, np.newaxis]
    with tape.unsigned_zeros():
        solution = _solved(tape, matrix[np.newaxis], columns[np.newaxis])[0]
        residuals = columns - matrix @ solution
        squares = np.sum(residuals * residuals, axis=0) if m > n else as_array(tape, np.empty(0))
    rank = min(m, n)
    values = svdvals(tape, matrix) if rank <= LARGEST else as_array(tape, np.full(rank, np.nan))
    return solution if sides.ndim == 2 else solution[:, 0], squares, rank, values


def _solved(tape: Tape, a: Any, b: Any) -> Any:
    """The solutions of stacked problems, as implicit functions."""
    m, n = a.shape[1:]
    at, side = fixed(tape, a), fixed(tape, b)
    tall = m >= n
    upper, reflections = householder(tape, at if tall else at.mT)
    inverse = inverse_of_triangular(tape, upper)
    rank = min(m, n)
    bounds = abs(upper).reshape(len(a), -1)
    smallest = np.min(np.stack([abs(upper[:, k, k]) for k in range(rank)], axis=-1), axis=-1)
    independent = smallest > np.finfo(float).eps * max(m, n) * np.max(bounds, axis=-1)
    inverse = np.where(independent[:, np.newaxis, np.newaxis], inverse, np.nan)
    first = reflected(reflections, constant_matrix(tape, len(a), np.eye(max(m, n), rank)))
    if tall:
        pseudoinverse = inverse @ first.mT
        solution = inverse @ (first.mT @ side)
        turned = pseudoinverse @ pseudoinverse.mT @ (a.mT @ (side - at @ solution))
    else:
        pseudoinverse = first @ inverse.mT
        solution = first @ (inverse.mT @ side)
        along = a.mT @ (pseudoinverse.mT @ solution)
        turned = along - first @ (first.mT @ along)
    return attached(tape, solution, pseudoinverse @ (b - a @ solution) + turned)


@implements(np.linalg.pinv)
def pinv(tape: Tape, a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """The pseudoinverse, from the singular values that are not small beside the greatest, as NumPy cuts them off."""
    name = "np.linalg.pinv"
    check_constant(name, rcond=rcond, rtol=rtol)
    with tape.unsigned_zeros():
        matrices, stack = symmetric(tape, a, "L", name) if hermitian else matrices_of(tape, a, name)
        m, n = matrices.shape[1:]
        if rcond is None:
            rcond = 1e-15 if rtol is np._NoValue else max(m, n) * np.finfo(float).eps if rtol is None else rtol
        left, values, right = singular(tape, matrices, name)
        least = np.reshape(rcond, (-1, 1)) * values[:, :1]
        inverted = np.where(values > least, 1.0 / values, 0.0)
        found = (right * inverted[:, np.newaxis]) @ left.mT
        return _pseudoinverse(tape, matrices, found).reshape(*stack, n, m)


def _pseudoinverse(tape: Tape, a: Any, p: Any) -> Any:
    """The pseudoinverses of stacked matrices of constant rank, with their derivatives."""
    m, n = a.shape[1:]
    at = fixed(tape, a)
    rest, kernel = np.eye(m) - at @ p, np.eye(n) - p @ at
    derivative = (p @ p.mT) @ (a.mT @ rest) + (kernel @ a.mT) @ (p.mT @ p) - p @ (a @ p)
    return attached(tape, p, derivative)
