"""Functions of `scipy.linalg` that only move entries; and those that are not recorded, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows, refuses
from accumulus.frontends.numpy.linalg.implicit import zeros
from accumulus.tape.tape import Tape

__all__: list[str] = []


@borrows("scipy.linalg", "block_diag")
def block_diag(tape: Tape, *arrs: Any) -> Any:
    """Matrices along the diagonal, zeros elsewhere."""
    blocks = [np.atleast_2d(as_array(tape, block)) for block in arrs]
    ends = np.cumsum([block.shape for block in blocks], axis=0).tolist()
    result = zeros(tape, *ends[-1])
    for block, (row, column) in zip(blocks, ends, strict=True):
        result[row - block.shape[0] : row, column - block.shape[1] : column] = block
    return result


@borrows("scipy.linalg", "toeplitz")
def toeplitz(tape: Tape, c: Any, r: Any = None) -> Any:
    """The matrix with the first column c and the first row r (or c) that is constant along diagonals."""
    column = as_array(tape, c).ravel()
    row = column if r is None else as_array(tape, r).ravel()
    places = np.arange(len(column))[:, np.newaxis] - np.arange(len(row))
    return np.concatenate([row[:0:-1], column])[places + len(row) - 1]


@borrows("scipy.linalg", "hankel")
def hankel(tape: Tape, c: Any, r: Any = None) -> Any:
    """The matrix with the first column c and the last row r (or zeros) that is constant along antidiagonals."""
    column = as_array(tape, c).ravel()
    row = as_array(tape, np.zeros(len(column)) if r is None else r).ravel()
    places = np.arange(len(column))[:, np.newaxis] + np.arange(len(row))
    return np.concatenate([column, row[1:]])[places]


@borrows("scipy.linalg", "circulant")
def circulant(tape: Tape, c: Any) -> Any:
    """The matrix of which each column is the one before, moved down by one."""
    column = as_array(tape, c)
    if column.ndim != 1:
        raise refuse("scipy.linalg.circulant is recorded of one vector.")
    places = np.arange(len(column))[:, np.newaxis] - np.arange(len(column))
    return column[places % len(column)]


# What is not recorded, and why ---------------------------------------------------------------------------------------


refuses(
    "scipy.linalg",
    "it depends on complex numbers, the eigenvalues of a general matrix. Those of symmetric matrices are "
    "recorded: eigh, eigvalsh; and functions made of them, (vectors * np.sqrt(values)) @ vectors.T.",
    *("eig", "eigvals", "schur", "rsf2csf", "qz", "ordqz", "sqrtm", "logm", "funm", "signm", "fractional_matrix_power"),
    *("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm", "solve_sylvester", "solve_continuous_are"),
    *("solve_discrete_are", "solve_continuous_lyapunov"),
)
refuses(
    "scipy.linalg",
    "the size of its result is a rank, which depends on values. np.linalg.svd has the vectors of all singular values.",
    *("null_space", "orth"),
)
