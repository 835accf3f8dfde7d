"""Linear algebra of complex numbers: a system of linear equations is a real one of twice as many unknowns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_numbers.values import make_complex
from accumulus.frontends.numpy.table import implements_complex
from accumulus.tape.tape import Tape

__all__ = ["det", "inv", "norm", "solve"]

#: Determinants of complex matrices are recorded up to here.
MOST_ROWS: Final = 4


def _doubled(a: Any) -> Any:
    """The real matrix that does to real and imaginary parts, one above the other, what `a` does."""
    return np.block([[a.real, -a.imag], [a.imag, a.real]])


@implements_complex(np.linalg.solve)
def solve(tape: Tape, a: Any, b: Any) -> Any:
    """The solution of a·x = b."""
    matrix, side = as_array(tape, a) + 0j, as_array(tape, b) + 0j
    if matrix.shape[-1] == 1:
        return side / (matrix[..., 0] if side.ndim == 1 else matrix)
    vector = side.ndim == 1
    columns = side[:, None] if vector else side
    both = np.linalg.solve(_doubled(matrix), np.concatenate([columns.real, columns.imag], axis=-2))
    n = matrix.shape[-1]
    solution = make_complex(tape, both[..., :n, :], both[..., n:, :])
    return solution[..., 0] if vector else solution


@implements_complex(np.linalg.inv)
def inv(tape: Tape, a: Any) -> Any:
    """The inverse."""
    a = as_array(tape, a)
    return solve(tape, a, np.broadcast_to(np.eye(a.shape[-1]), a.shape))


@implements_complex(np.linalg.det)
def det(tape: Tape, a: Any) -> Any:
    """The determinant, by cofactors, of up to four rows."""
    a = as_array(tape, a)
    n = a.shape[-1]
    if n > MOST_ROWS:
        raise refuse(
            f"np.linalg.det of a complex matrix of {n} rows is not recorded, of up to {MOST_ROWS} it is: its pivots "
            "would be chosen by absolute value. np.linalg.solve and inv are recorded for any number of rows."
        )
    return _by_cofactors(a, list(range(n)))


def _by_cofactors(a: Any, columns: list[int]) -> Any:
    row = a.shape[-1] - len(columns)
    if len(columns) == 1:
        return a[..., row, columns[0]]
    terms = []
    for k, column in enumerate(columns):
        product = a[..., row, column] * _by_cofactors(a, columns[:k] + columns[k + 1 :])
        terms.append(-product if k % 2 else product)
    return sum(terms[1:], terms[0])


@implements_complex(np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm)
def norm(tape: Tape, x: Any, *arguments: Any, **keywords: Any) -> Any:
    """The norm of the absolute values, which is that of the vector or matrix unless it is a spectral one."""
    return np.linalg.norm(np.absolute(as_array(tape, x)), *arguments, **keywords)
