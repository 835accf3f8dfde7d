"""Functions of `scipy.linalg`, most of them those of `numpy.linalg` with other arguments.

Options that say how SciPy computes, not what (`check_finite`, `overwrite_a`, the driver of LAPACK), are passed over.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.linalg import factorisations, least_squares, norms, spectral, systems
from accumulus.frontends.numpy.linalg.implicit import check_constant, matrices_of, zeros
from accumulus.frontends.numpy.operands import concrete
from accumulus.frontends.numpy.table import ArrayFunction
from accumulus.frontends.scipy import lu
from accumulus.tape.tape import Tape

__all__: list[str] = []

#: What SciPy calls the structures of a matrix.
SYMMETRIC = ("sym", "symmetric", "her", "hermitian", "pos", "positive definite")
POSITIVE = ("pos", "positive definite")


def _structured(tape: Tape, a: Any, assume_a: str | None, lower: bool) -> Any:
    """A matrix of which only the entries count that its structure says."""
    a = as_array(tape, a)
    if assume_a in SYMMETRIC:
        triangle = np.tril(a) if lower else np.triu(a)
        rest = np.tril(a, -1) if lower else np.triu(a, 1)
        return triangle + rest.mT
    if assume_a == "diagonal":
        return np.tril(np.triu(a))
    if assume_a == "tridiagonal":
        return np.tril(np.triu(a, -1), 1)
    if assume_a in ("upper triangular", "lower triangular"):
        return np.triu(a) if assume_a.startswith("upper") else np.tril(a)
    if assume_a in (None, "gen", "general", "banded"):
        return a
    raise ValueError(f"{assume_a!r} is not a structure that scipy.linalg knows")


#: Options that are passed over.
PASSED_OVER: Final = frozenset(
    {"check_finite", "driver", "lapack_driver", "lwork", "overwrite_a", "overwrite_ab", "overwrite_b"}
)


def _records(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function as what records ``scipy.linalg.name``, by names, of what is not passed over."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        @borrows("scipy.linalg", name)
        def call(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
            original = getattr(sys.modules["scipy.linalg"], name)
            given = inspect.signature(original).bind(*arguments, **keywords).arguments
            meant = {name: value for name, value in given.items() if name not in PASSED_OVER}
            return ArrayFunction(original, record)(tape, (), meant)

        return record

    return enter


@_records("solve")
def solve(tape: Tape, a: Any, b: Any, lower: bool = False, assume_a: Any = None, transposed: bool = False) -> Any:
    """The solutions of a·x = b; of a positive definite matrix by Cholesky's factor."""
    matrix = _structured(tape, a, assume_a, lower)
    if matrix.ndim == 2 and assume_a in ("upper triangular", "lower triangular"):
        return solve_triangular(tape, matrix, b, trans=int(transposed), lower=assume_a.startswith("lower"))
    if matrix.ndim == 2 and assume_a in POSITIVE:
        return cho_solve(tape, (np.linalg.cholesky(matrix), True), b)
    return systems.solve(tape, matrix.mT if transposed else matrix, b)


@_records("inv")
def inv(tape: Tape, a: Any, *, assume_a: str | None = None, lower: bool = False) -> Any:
    """The inverse."""
    return systems.inv(tape, _structured(tape, a, assume_a, lower))


@_records("det")
def det(tape: Tape, a: Any) -> Any:
    """The determinant."""
    return systems.det(tape, a)


@_records("norm")
def norm(tape: Tape, a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """A norm of vectors or matrices."""
    return norms.norm(tape, a, ord, axis, keepdims)


@_records("cholesky")
def cholesky(tape: Tape, a: Any, lower: bool = False) -> Any:
    """The triangular factor, of which only that triangle of the matrix is read."""
    return factorisations.cholesky(tape, a, upper=not lower)


@_records("cho_factor")
def cho_factor(tape: Tape, a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The factor, with what the matrix has in the other triangle, for `cho_solve`."""
    a = as_array(tape, a)
    rest = np.triu(a, 1) if lower else np.tril(a, -1)
    return factorisations.cholesky(tape, a, upper=not lower) + rest, lower


@_records("cho_solve")
def cho_solve(tape: Tape, c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """Solutions by Cholesky's factor."""
    factor, lower = c_and_lower
    first = solve_triangular(tape, factor, b, trans=0 if lower else 1, lower=lower)
    return solve_triangular(tape, factor, first, trans=1 if lower else 0, lower=lower)


@_records("solve_triangular")
def solve_triangular(
    tape: Tape, a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The solutions of a triangular system, or of its transpose."""
    matrix, sides = as_array(tape, a), as_array(tape, b)
    if matrix.ndim != 2 or sides.ndim not in (1, 2) or matrix.shape != (len(sides), len(sides)):
        raise ValueError(f"solve_triangular: shapes {matrix.shape} and {sides.shape} are incompatible")
    if trans in (1, 2, "T", "C"):
        matrix, lower = matrix.T, not lower
    with tape.unsigned_zeros():
        columns = sides.reshape(1, len(sides), -1)
        found = factorisations.solve_triangular(tape, matrix[np.newaxis], columns, lower=lower, unit=unit_diagonal)
    return found.reshape(sides.shape)


@_records("lu_factor")
def lu_factor(tape: Tape, a: Any) -> tuple[Any, Any]:
    """L and U in one matrix, and with which row each was exchanged, as traced numbers."""
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.lu_factor")
        factors, pivots = lu.factored(tape, matrices)
    return factors.reshape(*stack, *factors.shape[1:]), pivots.reshape(*stack, pivots.shape[-1])


@_records("lu_solve")
def lu_solve(tape: Tape, lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0) -> Any:
    """Solutions by what `lu_factor` has returned."""
    factors, pivots, sides = as_array(tape, lu_and_piv[0]), as_array(tape, lu_and_piv[1]), as_array(tape, b)
    if factors.ndim != 2 or sides.ndim not in (1, 2):
        raise refuse("scipy.linalg.lu_solve is recorded for one matrix, and one or two axes of right-hand sides.")
    columns, stacked, places = sides.reshape(1, len(sides), -1), factors[np.newaxis], pivots[np.newaxis]
    by = factorisations.solve_triangular
    with tape.unsigned_zeros():
        if trans:
            columns = by(tape, stacked.mT, by(tape, stacked.mT, columns, lower=True), unit=True)
            columns = lu.exchanged(tape, columns, places, back=True)
        else:
            columns = lu.exchanged(tape, columns, places)
            columns = by(tape, stacked, by(tape, stacked, columns, lower=True, unit=True))
    return columns.reshape(sides.shape)


@_records("lu")
def lu_(tape: Tape, a: Any, permute_l: bool = False, p_indices: bool = False) -> tuple[Any, ...]:
    """P, L and U, or P·L and U."""
    if p_indices:
        raise refuse("scipy.linalg.lu(…, p_indices=True): the permutation depends on values. Leave p_indices away.")
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.lu")
        count, m, n = matrices.shape
        factors, pivots = lu.factored(tape, matrices)
        k = min(m, n)
        first = np.tril(factors[:, :, :k], -1) + np.eye(m, k)
        parts = [lu.permutation(tape, count, m, pivots), first, np.triu(factors[:, :k])]
        if permute_l:
            parts = [parts[0] @ first, parts[2]]
    return tuple(part.reshape(*stack, *part.shape[1:]) for part in parts)


@_records("qr")
def qr(tape: Tape, a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    """Q and R, or R alone, in a tuple."""
    if pivoting or mode not in ("full", "r", "economic"):
        raise refuse("scipy.linalg.qr is recorded without pivoting, with mode 'full', 'economic' or 'r'.")
    q, r = factorisations.qr(tape, a, "reduced" if mode == "economic" else "complete")
    return (r,) if mode == "r" else (q, r)


@_records("eigh")
def eigh(
    tape: Tape,
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    type: int = 1,  # noqa: A002
    subset_by_index: Any = None,
    subset_by_value: Any = None,
) -> Any:
    """Eigenvalues, ascending, and vectors of a·v = w·b·v, for a symmetric a and a positive definite b."""
    if subset_by_value is not None or type != 1:
        raise refuse(
            "scipy.linalg.eigh is recorded of a·v = w·b·v (type=1); how many eigenvalues are in an interval depends on "
            "values: use subset_by_index."
        )
    check_constant("scipy.linalg.eigh", subset_by_index=subset_by_index)
    matrix = _structured(tape, a, "symmetric", lower)
    first, last = (0, len(matrix) - 1) if subset_by_index is None else concrete(subset_by_index)
    chosen = slice(int(first), int(last) + 1)
    if b is None:
        if eigvals_only:
            return spectral.eigvalsh(tape, matrix)[chosen]
        values, vectors = spectral.eigh(tape, matrix)
    else:
        factor = np.linalg.cholesky(_structured(tape, b, "symmetric", lower))
        half = solve_triangular(tape, factor, matrix, lower=True)
        both = solve_triangular(tape, factor, half.T, lower=True)
        if eigvals_only:
            return spectral.eigvalsh(tape, both)[chosen]
        values, vectors = spectral.eigh(tape, both)
        vectors = solve_triangular(tape, factor, vectors, trans=1, lower=True)
    return values[chosen], vectors[:, chosen]


@_records("eigvalsh")
def eigvalsh(tape: Tape, a: Any, b: Any = None, **options: Any) -> Any:
    """Eigenvalues, ascending."""
    return eigh(tape, a, b, eigvals_only=True, **options)


@_records("svd")
def svd(tape: Tape, a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors."""
    return tuple(spectral.svd(tape, a, full_matrices)) if compute_uv else spectral.svdvals(tape, a)


@_records("svdvals")
def svdvals(tape: Tape, a: Any) -> Any:
    """Singular values."""
    return spectral.svdvals(tape, a)


@_records("pinv")
def pinv(tape: Tape, a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    """The pseudoinverse, from the singular values above atol + rtol times the greatest."""
    if atol is not None or return_rank:
        raise refuse("scipy.linalg.pinv is recorded with rtol alone; np.linalg.matrix_rank counts singular values.")
    return least_squares.pinv(tape, a, rtol=rtol)


@_records("lstsq")
def lstsq(tape: Tape, a: Any, b: Any, cond: Any = None) -> Any:
    """As `np.linalg.lstsq`; of one right-hand side the sum of squares is a number."""
    solution, squares, rank, values = least_squares.lstsq(tape, a, b, cond)
    return solution, (squares[0] if solution.ndim == 1 and squares.size else squares), rank, values


@_records("solve_banded")
def solve_banded(tape: Tape, l_and_u: Any, ab: Any, b: Any) -> Any:
    """Solutions for a banded matrix in diagonals, the upper ones first; what is outside of the bands costs nothing."""
    lower, upper = map(int, concrete(l_and_u))
    bands = as_array(tape, ab)
    if bands.ndim != 2 or len(bands) != lower + upper + 1:
        raise ValueError(f"solve_banded: {lower} + {upper} + 1 diagonals, and an array of shape {bands.shape}")
    n = bands.shape[1]
    matrix = zeros(tape, n, n)
    for i, j in np.ndindex(n, n):
        if -lower <= j - i <= upper:
            matrix[i, j] = bands[upper + i - j, j]
    return systems.solve(tape, matrix, b, banded=True)


@_records("solveh_banded")
def solveh_banded(tape: Tape, ab: Any, b: Any, lower: bool = False) -> Any:
    """Solutions for a positive definite banded matrix in diagonals, by Cholesky's factor."""
    bands = as_array(tape, ab)
    width, n = len(bands) - 1, bands.shape[1]
    matrix = zeros(tape, n, n)
    for i, j in np.ndindex(n, n):
        if 0 <= i - j <= width:
            matrix[i, j] = bands[i - j, j] if lower else bands[width + j - i, i]
    return cho_solve(tape, (np.linalg.cholesky(matrix), True), b)
