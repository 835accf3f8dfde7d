"""Factorisations of one matrix as blocks of programs: one row for each, computed by LAPACK.

A row has the parts of the result and the function that computes them. The derivative is a rule of
`accumulus.arrays.factors` under the same code. The operand is an m × n matrix. The parts follow each other, each row by
row.

Vectors have the sign that makes their last entry nonnegative; for singular vectors, the last entry of the right one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import DETERMINANT, EIGENVECTORS, ORTHOGONAL, SINGULAR_VECTORS

Floats = NDArray[np.float64]
Parts = tuple[Floats, ...]


@dataclass(frozen=True, slots=True)
class Factorisation:
    """Method to factorise a matrix, or a stack of matrices along the leading axes.

    Attributes:
        name: name in reports and messages.
        shapes: function from the rows and columns of the matrix to the shapes of the parts.
        compute: function from the matrix to the parts.
        text: source text of a tuple of the parts of the matrix {0}, for NumPy or JAX.
        sensitivity: function from the parts to the change of each for a unit change of the matrix, in Frobenius norm:
            a number, or one for each column.
    """

    name: str
    shapes: Callable[[int, int], list[tuple[int, ...]]]
    compute: Callable[[Floats], Parts]
    text: str
    sensitivity: Callable[[Sequence[Floats]], list[Any]]

    def sizes(self, rows: int, columns: int) -> list[int]:
        """Return the number of entries of each part."""
        return list(map(math.prod, self.shapes(rows, columns)))

    def flat(self, matrix: Floats) -> Floats:
        """Return the parts of one matrix, or of a stack, one after the other along the last axis."""
        stack = matrix.shape[:-2]
        return np.concatenate([factor.reshape(*stack, -1) for factor in self.compute(matrix)], axis=-1)


def _signs(last: Floats) -> Any:
    return np.where(last < 0.0, -1.0, 1.0)[..., np.newaxis, :]


def eigenvectors(matrix: Floats) -> Parts:
    """Return eigenvalues of a symmetric matrix, ascending, and the eigenvectors in columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors * _signs(vectors[..., -1, :])


def orthogonal(matrix: Floats) -> Parts:
    """Return R and Q of a matrix with at least as many rows as columns."""
    q, r = np.linalg.qr(matrix)
    return r, q


def singular_vectors(matrix: Floats) -> Parts:
    """Return singular values, descending, and as many left and right singular vectors in columns."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    signs = _signs(right[..., -1])
    return values, left * signs, np.swapaxes(right, -1, -2) * signs


def _nearest(values: Floats) -> Floats:
    """Return the distance of each value from its nearest neighbour in the sequence."""
    gaps = np.abs(np.diff(values))
    ends = np.full(1, np.inf)
    nearest: Floats = np.minimum(np.append(gaps, ends), np.append(ends, gaps))
    return nearest


def _of_singular(parts: Sequence[Floats]) -> list[Any]:
    with np.errstate(all="ignore"):
        by_column = 2.0 / np.minimum(_nearest(parts[0]), np.abs(parts[0]))
    return [1.0, by_column, by_column]


def _of_orthogonal(parts: Sequence[Floats]) -> list[Any]:
    with np.errstate(all="ignore"):
        values = np.linalg.svd(parts[0], compute_uv=False)
        lost = 2.0 / values[-1]
    return [lost * values[0], lost]


def _of_eigenvectors(parts: Sequence[Floats]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [1.0, 2.0 / _nearest(parts[0])]


FACTORISATIONS: Final[dict[int, Factorisation]] = {
    EIGENVECTORS: Factorisation(
        "eigenvectors",
        lambda n, _: [(n,), (n, n)],
        eigenvectors,
        "(lambda w, v: (w, v * {library}.where(v[-1] < 0, -1.0, 1.0)))(*{library}.linalg.eigh({0}))",
        _of_eigenvectors,
    ),
    ORTHOGONAL: Factorisation(
        "orthogonal factors",
        lambda m, n: [(n, n), (m, n)],
        orthogonal,
        "tuple({library}.linalg.qr({0}))[::-1]",
        _of_orthogonal,
    ),
    SINGULAR_VECTORS: Factorisation(
        "singular vectors",
        lambda m, n: [(min(m, n),), (m, min(m, n)), (n, min(m, n))],
        singular_vectors,
        "(lambda u, s, v: (lambda g: (s, u * g, v.T * g))({library}.where(v[:, -1] < 0, -1.0, 1.0)))"
        "(*{library}.linalg.svd({0}, full_matrices=False))",
        _of_singular,
    ),
    DETERMINANT: Factorisation(
        "determinant",
        lambda n, _: [()],
        lambda matrix: (np.asarray(np.linalg.det(matrix)),),
        "({library}.linalg.det({0}),)",
        lambda parts: [np.inf],  # unknown without the inverse
    ),
}
