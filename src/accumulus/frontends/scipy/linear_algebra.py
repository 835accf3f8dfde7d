"""Functions of `scipy.linalg`: systems, factorisations, functions of matrices, and structured matrices.

Options that do not change the result (`check_finite`, `overwrite_a`, the driver of LAPACK) are ignored.

LU has LAPACK's permutation: the position of the first largest entry of each column is a traced value. L and U are
differentiated through the elimination. In the result of `scipy.linalg.lu_factor` the permutation is an array of traced
numbers, which `lu_solve` applies by comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any, Final

import numpy as np

from accumulus.frontends import decisions
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_functions import doubled
from accumulus.frontends.numpy.complex_numbers import make_complex, parts_of
from accumulus.frontends.numpy.linalg import factorisations, spectral, systems
from accumulus.frontends.numpy.linalg.factorisations import (
    array_of_zeros,
    attached,
    check_constant,
    constant_matrix,
    fixed,
    is_structural_zero,
    matrices_of,
    plain,
    square_of,
)
from accumulus.frontends.numpy.linalg.spectral import singular
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex, references_of
from accumulus.frontends.numpy.table import borrows, by_name, refuses
from accumulus.tape.tape import Tape

#: SciPy's names of matrix structures.
SYMMETRIC = ("sym", "symmetric", "her", "hermitian", "pos", "positive definite")
POSITIVE = ("pos", "positive definite")


def _structured(tape: Tape, a: Any, assume_a: str | None, lower: bool) -> Any:
    """Return a matrix with only the entries that `assume_a` refers to.

    A triangle is mirrored for symmetric structures, and conjugated for Hermitian ones.

    Raises:
        ValueError: for an unknown structure.
    """
    a = as_array(tape, a)
    if assume_a in SYMMETRIC:
        triangle = np.tril(a) if lower else np.triu(a)
        rest = np.tril(a, -1) if lower else np.triu(a, 1)
        return triangle + (rest if assume_a in ("sym", "symmetric") else np.conj(rest)).mT
    if assume_a == "diagonal":
        return np.tril(np.triu(a))
    if assume_a == "tridiagonal":
        return np.tril(np.triu(a, -1), 1)
    if assume_a in ("upper triangular", "lower triangular"):
        return np.triu(a) if assume_a.startswith("upper") else np.tril(a)
    if assume_a in (None, "gen", "general", "banded"):
        return a
    raise ValueError(f"{assume_a!r} is not a structure of scipy.linalg")


def _records(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of ``scipy.linalg.name``, without the options it ignores."""
    return lambda record: borrows("scipy.linalg", name)(by_name(record))


@_records("solve")
def _solve(tape: Tape, a: Any, b: Any, lower: bool = False, assume_a: Any = None, transposed: bool = False) -> Any:
    """Return the solutions of a·x = b; by Cholesky's factor for a positive definite matrix."""
    matrix = _structured(tape, a, assume_a, lower)
    if matrix.ndim == 2 and assume_a in ("upper triangular", "lower triangular"):
        return _solve_triangular(tape, matrix, b, trans=int(transposed), lower=assume_a.startswith("lower"))
    if matrix.ndim == 2 and assume_a in POSITIVE:
        return _solve_definite(tape, matrix, as_array(tape, b))
    return systems.solve(tape, matrix.mT if transposed else matrix, b)


def _solve_definite(tape: Tape, matrix: Any, b: Any) -> Any:
    """Return the solutions for a positive definite matrix, by Cholesky's factor.

    They are implicit functions: the factor is not differentiated, unless LAPACK computes it.
    """
    factor, n = np.linalg.cholesky(matrix), len(matrix)
    solutions = _cho_solve(tape, (factor, True), b)
    if systems.is_equation(tape, n * n * n // 6):
        return solutions
    step = _cho_solve(tape, (fixed(tape, factor), True), b - matrix @ fixed(tape, solutions))
    return attached(tape, solutions, step)


@_records("cho_factor")
def _cho_factor(tape: Tape, a: Any, lower: bool = False) -> tuple[Any, bool]:
    """Return Cholesky's factor and `lower`; the other triangle is copied from the matrix, as in SciPy."""
    a = as_array(tape, a)
    rest = np.triu(a, 1) if lower else np.tril(a, -1)
    return factorisations.cholesky(tape, a, upper=not lower) + rest, lower


@_records("cho_solve")
def _cho_solve(tape: Tape, c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """Return the solutions of a system with the factor from `cho_factor`."""
    factor, lower = c_and_lower
    first = _solve_triangular(tape, factor, b, trans=0 if lower else 1, lower=lower)
    return _solve_triangular(tape, factor, first, trans=1 if lower else 0, lower=lower)


@_records("solve_triangular")
def _solve_triangular(
    tape: Tape, a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """Return the solutions of a triangular system, or of its transpose."""
    matrix, sides = as_array(tape, a), as_array(tape, b)
    if sides.is_complex:
        parts = parts_of(tape, sides)
        return make_complex(tape, *(_solve_triangular(tape, a, part, trans, lower, unit_diagonal) for part in parts))
    if matrix.ndim != 2 or sides.ndim not in (1, 2) or matrix.shape != (len(sides), len(sides)):
        raise ValueError(f"solve_triangular: shapes {matrix.shape} and {sides.shape} are incompatible")
    if trans in (1, 2, "T", "C"):
        matrix, lower = matrix.T, not lower
    with tape.unsigned_zeros():
        n, columns = len(sides), sides.reshape(1, len(sides), -1)
        if systems.is_equation(tape, max(n * n * n // 6, n * sides.size // 2)):  # its factor may be one, too
            triangle = np.tril(matrix, -1 if unit_diagonal else 0) if lower else np.triu(matrix, int(unit_diagonal))
            return systems.solve(tape, triangle + np.eye(n) if unit_diagonal else triangle, sides)
        solutions = factorisations.solve_triangular(tape, matrix[np.newaxis], columns, lower=lower, unit=unit_diagonal)
    return solutions.reshape(sides.shape)


@_records("lu_factor")
def _lu_factor(tape: Tape, a: Any) -> tuple[Any, Any]:
    """Return L and U in one matrix, and the row that each row was exchanged with, as traced numbers."""
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.lu_factor")
        factors, pivots = _factored(tape, matrices)
    return factors.reshape(*stack, *factors.shape[1:]), pivots.reshape(*stack, pivots.shape[-1])


@_records("lu_solve")
def _lu_solve(tape: Tape, lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0) -> Any:
    """Return the solutions of a system with the factors from `lu_factor`."""
    factors, pivots, sides = as_array(tape, lu_and_piv[0]), as_array(tape, lu_and_piv[1]), as_array(tape, b)
    if factors.ndim != 2 or sides.ndim not in (1, 2):
        raise refuse("scipy.linalg.lu_solve is recorded for one matrix, and one or two axes of right-hand sides.")
    columns, stacked, places = sides.reshape(1, len(sides), -1), factors[np.newaxis], pivots[np.newaxis]
    by = factorisations.solve_triangular
    with tape.unsigned_zeros():
        if trans:
            columns = by(tape, stacked.mT, by(tape, stacked.mT, columns, lower=True), unit=True)
            columns = _exchanged(tape, columns, places, back=True)
        else:
            columns = _exchanged(tape, columns, places)
            columns = by(tape, stacked, by(tape, stacked, columns, lower=True, unit=True))
    return columns.reshape(sides.shape)


@_records("lu")
def _lu(tape: Tape, a: Any, permute_l: bool = False, p_indices: bool = False) -> tuple[Any, ...]:
    """Return P, L and U, or P·L and U."""
    if p_indices:
        raise refuse("scipy.linalg.lu(…, p_indices=True): the permutation depends on values. Leave p_indices out.")
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.lu")
        count, m, n = matrices.shape
        factors, pivots = _factored(tape, matrices)
        k = min(m, n)
        first = np.tril(factors[:, :, :k], -1) + np.eye(m, k)
        parts = [_permutation(tape, count, m, pivots), first, np.triu(factors[:, :k])]
        if permute_l:
            parts = [parts[0] @ first, parts[2]]
    return tuple(factor.reshape(*stack, *factor.shape[1:]) for factor in parts)


@_records("qr")
def _qr(tape: Tape, a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    """Return a tuple of Q and R, or of R alone."""
    if pivoting or mode not in ("full", "r", "economic"):
        raise refuse("scipy.linalg.qr is recorded without pivoting, with mode 'full', 'economic' or 'r'.")
    q, r = factorisations.qr(tape, a, "reduced" if mode == "economic" else "complete")
    return (r,) if mode == "r" else (q, r)


@_records("eigh")
def _eigh(
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
    """Return ascending eigenvalues, and vectors, of a·v = w·b·v, for Hermitian a and real positive definite b."""
    if subset_by_value is not None or type != 1:
        raise refuse(
            "scipy.linalg.eigh is recorded of a·v = w·b·v (type=1); how many eigenvalues are in an interval depends on "
            "values: use subset_by_index."
        )
    check_constant("scipy.linalg.eigh", subset_by_index=subset_by_index)
    if holds_complex(b):
        raise refuse("scipy.linalg.eigh is recorded with a second matrix b of real numbers only.")
    matrix = _structured(tape, a, "hermitian", lower)
    triangle: Any = "L" if lower else "U"  # it determines the phases of vectors
    first, last = (0, len(matrix) - 1) if subset_by_index is None else concrete(subset_by_index)
    chosen = slice(int(first), int(last) + 1)
    if b is None:
        if eigvals_only:
            return np.linalg.eigvalsh(matrix)[chosen]
        values, vectors = np.linalg.eigh(matrix, triangle)
    else:
        factor = np.linalg.cholesky(_structured(tape, b, "symmetric", lower))
        half = _solve_triangular(tape, factor, matrix, lower=True)
        both = _solve_triangular(tape, factor, half.T, lower=True).T
        if eigvals_only:
            return np.linalg.eigvalsh(both)[chosen]
        values, vectors = np.linalg.eigh(both)
        vectors = _solve_triangular(tape, factor, vectors, trans=1, lower=True)
    return values[chosen], vectors[:, chosen]


@_records("pinv")
def _pinv(tape: Tape, a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    """Return the pseudoinverse from the singular values above rtol times the largest one."""
    if atol is not None or return_rank:
        raise refuse(
            "scipy.linalg.pinv is recorded only with the option rtol; np.linalg.matrix_rank counts singular values."
        )
    return spectral.pinv(tape, a, rtol=rtol)


for _name, _record in dict[str, Callable[..., Any]](
    inv=lambda tape, a, *, assume_a=None, lower=False: systems.inv(tape, _structured(tape, a, assume_a, lower)),
    det=systems.det,
    norm=lambda tape, a, ord=None, axis=None, keepdims=False: spectral.norm(tape, a, ord, axis, keepdims),  # noqa: A006
    cholesky=lambda tape, a, lower=False: factorisations.cholesky(tape, a, upper=not lower),
    eigvalsh=lambda tape, a, b=None, **options: _eigh(tape, a, b, eigvals_only=True, **options),
    svd=lambda tape, a, full_matrices=True, compute_uv=True: (
        tuple(spectral.svd(tape, a, full_matrices)) if compute_uv else spectral.svdvals(tape, a)
    ),
    svdvals=lambda tape, *, a: spectral.svdvals(tape, a),
).items():
    _records(_name)(_record)


@_records("lstsq")
def _lstsq(tape: Tape, a: Any, b: Any, cond: Any = None) -> Any:
    """Return the results of `np.linalg.lstsq`; for one right-hand side, the sum of squares is a number."""
    solution, squares, rank, values = spectral.lstsq(tape, a, b, cond)
    return solution, (squares[0] if solution.ndim == 1 and squares.size else squares), rank, values


@_records("solve_banded")
def _solve_banded(tape: Tape, l_and_u: Any, ab: Any, b: Any) -> Any:
    """Return the solutions for a banded matrix in SciPy's diagonal form; zeros outside of the bands cost nothing."""
    lower, upper = map(int, concrete(l_and_u))
    bands = as_array(tape, ab)
    if bands.ndim != 2 or len(bands) != lower + upper + 1:
        raise ValueError(f"solve_banded: {lower} + {upper} + 1 diagonals, and an array of shape {bands.shape}")
    matrix = array_of_zeros(tape, bands.shape[1], bands.shape[1])
    for i, j in np.ndindex(matrix.shape):
        if -lower <= j - i <= upper:
            matrix[i, j] = bands[upper + i - j, j]
    return systems.solve(tape, matrix, b, banded=True)


@_records("solveh_banded")
def _solveh_banded(tape: Tape, ab: Any, b: Any, lower: bool = False) -> Any:
    """Return the solutions for a positive definite banded matrix in SciPy's diagonal form, by Cholesky's factor."""
    bands = as_array(tape, ab)
    width, n = len(bands) - 1, bands.shape[1]
    matrix = array_of_zeros(tape, n, n)
    for i, j in np.ndindex(n, n):
        if 0 <= i - j <= width:
            matrix[i, j] = bands[i - j, j] if lower else bands[width + j - i, i]
    return _cho_solve(tape, (np.linalg.cholesky(matrix), True), b)


# LU -------------------------------------------------------------------------------------------------------------------


def _factored(tape: Tape, a: Any) -> tuple[Any, Any]:
    """Return stacked L, below the diagonal, and U in one array, and the row that each row was exchanged with."""
    a = a.copy()
    m, n = a.shape[1:]
    pivots = array_of_zeros(tape, len(a), min(m, n))
    for k in range(min(m, n)):
        pivot, greatest = as_array(tape, np.full(len(a), float(k))), abs(a[:, k, k])
        for i in range(k + 1, m):
            if not is_structural_zero(a[:, i, k]):
                size = abs(a[:, i, k])
                pivot, greatest = np.where(size > greatest, float(i), pivot), np.maximum(greatest, size)
        pivots[:, k] = pivot
        a = _exchanged_once(tape, a, k, pivot)
        if k + 1 < m:
            a[:, k + 1 :, k] = a[:, k + 1 :, k] / a[:, k, k, np.newaxis]
            a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, np.newaxis] * a[:, k, np.newaxis, k + 1 :]
    return a, pivots


def _exchanged_once(tape: Tape, a: Any, k: int, pivot: Any) -> Any:
    """Return stacked matrices with row k exchanged with the row at `pivot`, which is not before row k."""
    result = a.copy()
    pivot = as_array(tape, pivot)
    if not depends(pivot) and len(set(map(float, np.asarray(pivot)))) == 1:
        i = int(np.asarray(pivot)[0])
        result[:, [k, i]] = a[:, [i, k]]
        return result
    for i in range(k + 1, a.shape[1]):
        here = (pivot == float(i))[:, np.newaxis]
        result[:, k] = np.where(here, a[:, i], result[:, k])
        result[:, i] = np.where(here, a[:, k], a[:, i])
    return result


def _exchanged(tape: Tape, b: Any, pivots: Any, *, back: bool = False) -> Any:
    """Return stacked matrices with all pairs of rows exchanged in order, or in reverse order with `back`."""
    places = range(pivots.shape[-1])
    for k in reversed(places) if back else places:
        b = _exchanged_once(tape, b, k, pivots[:, k])
    return b


def _permutation(tape: Tape, count: int, m: int, pivots: Any) -> Any:
    """Return the matrices P with a = P·L·U."""
    return _exchanged(tape, constant_matrix(tape, count, np.eye(m)), pivots).mT


# Functions of matrices ------------------------------------------------------------------------------------------------

#: Padé's approximant of degree 13 and its derivative are exact to double precision for 1-norms up to this radius. Even
#: coefficients belong to the even part.
#: Source: A. H. Al-Mohy, N. J. Higham, Computing the Fréchet derivative of the matrix exponential, SIAM J. Matrix Anal.
#: Appl. 30 (2009), table 6.1.
RADIUS: Final = 4.74
COEFFICIENTS: Final = tuple(
    c / 64764752532480000.0
    for c in (
        *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
        *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
    )
)
#: Maximum number of squarings: if it is a decision, and if all are recorded and one result is selected. More of the
#: latter multiply matrices at every point, fewer make results of larger norms NaN.
MOST_DECIDED: Final = 60
MOST_CHOSEN: Final = 8


def exponential(a: Any) -> Any:
    """Return the exponential of traced square matrices, by Padé's approximant with scaling and squaring.

    The number of squarings is a decision, kept as a guard. Where decisions are not taken, it is selected for each
    matrix, up to eight, and the result is NaN for 1-norms beyond 1,200.
    """
    if holds_complex(a):
        both, n = exponential(doubled(a)), a.shape[-1]
        return make_complex(a.tape, both[..., :n, :n], both[..., n:, :n])
    tape = a.tape
    with tape.unsigned_zeros():
        matrices, stack = square_of(tape, a, "scipy.linalg.expm")
        n = matrices.shape[-1]
        if n == 0:
            return matrices.reshape(*stack, n, n)
        norms = np.max(np.sum(abs(fixed(tape, matrices)), axis=1), axis=-1)
        if ACTIVE.decisions is not None and ACTIVE.decisions.tape is tape:
            result = _squared_as_decided(tape, matrices, norms)
        else:
            result = _squared_as_chosen(matrices, norms)
        return result.reshape(*stack, n, n)


borrows("scipy.linalg", "expm")(lambda tape, A: exponential(as_array(tape, A)))


def _squared_as_decided(tape: Tape, a: Any, norms: Any) -> Any:
    count, greatest = 0, np.max(norms)
    while count < MOST_DECIDED:
        above = references_of(tape, greatest > RADIUS * 2.0**count, boolean=True)
        if not decisions.truth(tape, int(above)):
            break
        count += 1
    result = _approximant(a * 2.0**-count)
    for _ in range(count):
        result = result @ result
    return result


def _squared_as_chosen(a: Any, norms: Any) -> Any:
    scale: Any = 1.0
    for k in range(MOST_CHOSEN):
        scale = np.where(norms > RADIUS * 2.0**k, 0.5 ** (k + 1), scale)
    result = _approximant(a * np.reshape(scale, (-1, 1, 1)))
    for k in range(MOST_CHOSEN):
        result = np.where((norms > RADIUS * 2.0**k)[:, np.newaxis, np.newaxis], result @ result, result)
    return np.where((norms > RADIUS * 2.0**MOST_CHOSEN)[:, np.newaxis, np.newaxis], np.nan, result)


def _approximant(a: Any) -> Any:
    """Return Padé's approximant of the exponential: (V - U)⁻¹·(V + U), with U and V the odd and the even part."""
    c = COEFFICIENTS
    identity = np.eye(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * identity
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * identity
    odd = a @ odd
    return np.linalg.solve(even - odd, even + odd)


@borrows("scipy.linalg", "polar")
def _polar(tape: Tape, a: Any, side: str = "right") -> tuple[Any, Any]:
    """Return the orthogonal u and symmetric p with a = u·p, or a = p·u for the left side."""
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "scipy.linalg.polar")
        if side not in ("left", "right"):
            raise ValueError(f"polar: side is 'left' or 'right', not {side!r}")
        u = orthogonal_factor(tape, matrices)
        symmetric = u.mT @ matrices if side == "right" else matrices @ u.mT
        p = 0.5 * (symmetric + symmetric.mT)
        return u.reshape(*stack, *u.shape[1:]), p.reshape(*stack, *p.shape[1:])


def orthogonal_factor(tape: Tape, a: Any) -> Any:
    """Return the nearest matrices with orthogonal columns, or rows, as implicit functions of full-rank matrices.

    With a = u·p, the residuals are R = (uᵀ·u - 1)/2, S = uᵀ·a - aᵀ·u and the part of a that is orthogonal to u. A
    Newton step is u·(Ω - R) in the space of u, with Ω·p + p·Ω = S - R·p + p·R. This equation has a solution for equal
    singular values, too.
    """
    m, n = a.shape[1:]
    if m < n:
        return orthogonal_factor(tape, a.mT).mT
    left, _, right = (plain(tape, factor) for factor in singular(tape, a, "scipy.linalg.polar"))
    value = left @ right.mT
    u, at = fixed(tape, value), fixed(tape, a)
    p, lengths, along = u.mT @ at, 0.5 * (u.mT @ u - np.eye(n)), u.mT @ a
    p = 0.5 * (p + p.mT)
    skew = along - along.mT - lengths @ p + p @ lengths
    step = u @ (_turning(tape, p, skew) - lengths)
    if m > n:
        beside = a - u @ along
        step += np.linalg.solve(p, (beside - u @ (u.mT @ beside)).mT).mT
    return attached(tape, value, step)


def _turning(tape: Tape, p: Any, skew: Any) -> Any:
    """Return the skew-symmetric Ω with Ω·p + p·Ω = `skew`, for symmetric p."""
    pairs = list(combinations(range(p.shape[-1]), 2))
    index_of = {pair: k for k, pair in enumerate(pairs)}
    matrix = array_of_zeros(tape, len(p), len(pairs), len(pairs))
    for (i, j), k in product(pairs, range(p.shape[-1])):
        for row, column, factor in ((i, k, p[:, k, j]), (k, j, p[:, i, k])):
            if row != column:
                sign = 1.0 if row < column else -1.0
                matrix[:, index_of[i, j], index_of[min(row, column), max(row, column)]] += sign * factor
    result = array_of_zeros(tape, *p.shape)
    if pairs:
        solution = np.linalg.solve(matrix, np.stack([skew[:, i, j] for i, j in pairs], axis=-1)[..., np.newaxis])
        for (i, j), k in index_of.items():
            result[:, i, j], result[:, j, i] = solution[:, k, 0], -solution[:, k, 0]
    return result


# Special matrices -----------------------------------------------------------------------------------------------------


@borrows("scipy.linalg", "block_diag")
def _block_diag(tape: Tape, *arrs: Any) -> Any:
    """Return a matrix with blocks along the diagonal, and zeros elsewhere."""
    blocks = [np.atleast_2d(as_array(tape, block)) for block in arrs]
    ends = np.cumsum([block.shape for block in blocks], axis=0).tolist()
    result = array_of_zeros(tape, *ends[-1])
    for block, (row, column) in zip(blocks, ends, strict=True):
        result[row - block.shape[0] : row, column - block.shape[1] : column] = block
    return result


@borrows("scipy.linalg", "toeplitz")
def _toeplitz(tape: Tape, c: Any, r: Any = None) -> Any:
    """Return the matrix with the first column c and the first row r (or c) that is constant along diagonals."""
    column = as_array(tape, c).ravel()
    row = column if r is None else as_array(tape, r).ravel()
    places = np.arange(len(column))[:, np.newaxis] - np.arange(len(row))
    return np.concatenate([row[:0:-1], column])[places + len(row) - 1]


@borrows("scipy.linalg", "hankel")
def _hankel(tape: Tape, c: Any, r: Any = None) -> Any:
    """Return the matrix with the first column c and the last row r (or zeros) that is constant along antidiagonals."""
    column = as_array(tape, c).ravel()
    row = as_array(tape, np.zeros(len(column)) if r is None else r).ravel()
    places = np.arange(len(column))[:, np.newaxis] + np.arange(len(row))
    return np.concatenate([column, row[1:]])[places]


@borrows("scipy.linalg", "circulant")
def _circulant(tape: Tape, c: Any) -> Any:
    """Return the circulant matrix of c: each column is the previous one, shifted down cyclically by one."""
    column = as_array(tape, c)
    if column.ndim != 1:
        raise refuse("scipy.linalg.circulant is recorded of one vector.")
    places = np.arange(len(column))[:, np.newaxis] - np.arange(len(column))
    return column[places % len(column)]


def _tridiagonal(d: Any, e: Any) -> Any:
    return np.diag(d) + np.diag(e, 1) + np.diag(e, -1)


def _toeplitz_of(tape: Tape, c_or_cr: Any) -> Any:
    return _toeplitz(tape, *c_or_cr) if isinstance(c_or_cr, tuple) else _toeplitz(tape, c_or_cr)


for _name, _record in dict[str, Callable[..., Any]](
    companion=lambda tape, a: np.concatenate([(-a[1:] / a[0])[np.newaxis], np.eye(len(a) - 2, len(a) - 1)]),
    eigvalsh_tridiagonal=lambda tape, d, e: np.linalg.eigvalsh(_tridiagonal(as_array(tape, d), as_array(tape, e))),
    khatri_rao=lambda tape, a, b: np.einsum("ij,kj->ikj", a, b).reshape((-1, np.shape(a)[1])),
    matmul_toeplitz=lambda tape, c_or_cr, x: _toeplitz_of(tape, c_or_cr) @ as_array(tape, x),
    solve_toeplitz=lambda tape, c_or_cr, b: systems.solve(tape, _toeplitz_of(tape, c_or_cr), b),
).items():
    _records(_name)(_record)


# Functions that are not recorded -------------------------------------------------------------------------------------


refuses(
    "scipy.linalg",
    "it depends on complex numbers, the eigenvalues of a general matrix. Those of symmetric matrices are "
    "recorded: eigh, eigvalsh; and functions made of them, (vectors * np.sqrt(values)) @ vectors.T.",
    *("eig", "eigvals", "schur", "rsf2csf", "qz", "ordqz"),
)
refuses(
    "scipy.linalg",
    "the size of its result is a rank, which depends on values. np.linalg.svd has the vectors of all singular values.",
    *("null_space", "orth"),
)
