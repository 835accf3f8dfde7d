"""Eigenvalues of symmetric matrices, singular values, least squares, pseudoinverses, norms and ranks.

Small matrices are decomposed by Jacobi's rotations. A rotation turns two columns such that one entry of a symmetric
matrix becomes zero, or such that the columns are orthogonal. Two angles do so. A rotation takes the smaller one, or the
one that also sorts the two values: equal values at distant positions would slow down the convergence, which is
quadratic otherwise. A sweep rotates each pair once. The number of sweeps is fixed: one more than random, clustered,
graded and badly scaled matrices have needed.

* Symmetric n×n matrices take n + 2 sweeps, of which the first three do not sort: about 6·n³·(n + 2) operations.
* For singular values, the rows of R in A = Q·R are rotated. They are nearly orthogonal, so that n // 2 + 4 sweeps
  suffice: about 7·n³·(n // 2 + 4) operations.

LAPACK decomposes larger matrices, as equations of the program (`accumulus.tape.factorisations`), with the same signs
and derivatives. In programs of operations alone they are refused.

Values and vectors are implicit functions. For a symmetric A with eigenvectors v, dλᵢ is vᵢᵀ·dA·vᵢ, and vᵢ turns towards
vⱼ by vⱼᵀ·dA·vᵢ / (λᵢ - λⱼ). Values therefore always have derivatives. For equal values these are derivatives along the
computed vectors, as in JAX, and correct for functions that treat equal values alike, such as their sum. Vectors of
equal values have no derivatives: these are infinite or NaN. The derivative of a singular value of 0 is 0, the middle of
the slopes -1 and 1 on both sides.

Vectors are determined up to their sign. Here the last entry of each vector is positive or zero (for singular vectors,
of the right one); LAPACK's sign is arbitrary.

`lstsq` returns the solution of a least-squares problem from Q and R of the matrix, or of its transpose if it is wide.
Columns, or rows, must be linearly independent; otherwise results are NaN. `pinv` returns the pseudoinverse from
singular values, except for values that NumPy cuts off as small. It accepts matrices of any rank, but only small ones.

Both are implicit functions of matrices of constant rank. With P the pseudoinverse and r = b - A·x,
dP is -P·dA·P + P·Pᵀ·dAᵀ·(I - A·P) + (I - P·A)·dAᵀ·Pᵀ·P, and dx is P·(db - dA·x) + P·Pᵀ·dAᵀ·r + (I - P·A)·dAᵀ·Pᵀ·x.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.linalg.factorisations import (
    array_of_zeros,
    attached,
    by_lapack,
    check_constant,
    constant_matrix,
    fixed,
    householder,
    inverse_of_triangular,
    is_structural_zero,
    matrices_of,
    reflected,
    result_type,
    square_of,
)
from accumulus.frontends.numpy.linalg.systems import is_equation
from accumulus.frontends.numpy.operands import concrete, depends, references_of
from accumulus.frontends.numpy.table import implements
from accumulus.tape.blocks import EIGENVECTORS, ORTHOGONAL, SINGULAR_VECTORS
from accumulus.tape.tape import Tape

#: Maximum number of columns, or of rows of a wide matrix, in decompositions by rotations. Operations grow with its
#: fourth power; a smaller number refuses matrices, or leaves them to LAPACK.
LARGEST: Final = 8


def _sweeps(n: int, count: int, unsorted: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the pairs of columns of `count` sweeps, each with True if the sweep sorts: not the first `unsorted`."""
    for sweep in range(count):
        yield from ((p, q, sweep >= unsorted) for p, q in combinations(range(n), 2))


def _check_size(columns: int, name: str) -> None:
    if columns > LARGEST:
        raise refuse(
            f"{name} is recorded for matrices with at most {LARGEST} rows or {LARGEST} columns; this one has "
            f"{columns}, and would take some {6 * columns**3 * (columns + 2) // 1000 * 1000:,} operations. Compute it "
            "outside of the function."
        )


@implements(np.linalg.eigh)
def eigh(tape: Tape, a: Any, UPLO: str = "L") -> Any:
    """Return ascending eigenvalues of symmetric matrices, and their vectors in columns; one triangle is read."""
    with tape.unsigned_zeros():
        matrices, stack = _symmetric(tape, a, UPLO, "np.linalg.eigh")
        shape = (*stack, *matrices.shape[1:])
        decomposition: Any
        if _is_large(tape, matrices):
            decomposition = by_lapack(tape, EIGENVECTORS, matrices)
        else:
            values, vectors = _diagonalised(tape, matrices)
            decomposition = (
                _values_by_rule(tape, matrices, values, vectors),
                _vectors_by_rule(tape, matrices, values, vectors),
            )
        return result_type("eigh")(decomposition[0].reshape(shape[:-1]), decomposition[1].reshape(shape))


@implements(np.linalg.eigvalsh)
def eigvalsh(tape: Tape, a: Any, UPLO: str = "L") -> Any:
    """Return ascending eigenvalues of symmetric matrices; one triangle is read."""
    with tape.unsigned_zeros():
        matrices, stack = _symmetric(tape, a, UPLO, "np.linalg.eigvalsh")
        if _is_large(tape, matrices):
            eigenvalues, _ = by_lapack(tape, EIGENVECTORS, matrices)
        else:
            eigenvalues = _values_by_rule(tape, matrices, *_diagonalised(tape, matrices))
        return eigenvalues.reshape(*stack, matrices.shape[-1])


def _symmetric(tape: Tape, a: Any, triangle: str, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return stacked symmetric matrices from one triangle, "L" or "U", and the shape of the original stack."""
    if triangle.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO is 'L' or 'U', not {triangle!r}")
    matrices, stack = square_of(tape, a, name)
    if not _is_large(tape, matrices):
        _check_size(matrices.shape[-1], name)
    entries = references_of(tape, matrices.mT if triangle.upper() == "U" else matrices)
    return TracedArray(tape, np.where(np.tri(matrices.shape[-1], dtype=bool), entries, entries.mT)), stack


def _is_large(tape: Any, matrices: Any) -> bool:
    """Return True if LAPACK decomposes stacked matrices, as equations of the program."""
    n = min(matrices.shape[1:])
    return len(matrices) > 0 and n > LARGEST and is_equation(tape, 6 * n**3 * (n + 2))


def _singular_parts(tape: Tape, matrices: Any) -> list[Any]:
    """Return singular values, left vectors and right vectors of large matrices."""
    if matrices.shape[1] >= matrices.shape[2]:
        return by_lapack(tape, SINGULAR_VECTORS, matrices)
    values, right, left = by_lapack(tape, SINGULAR_VECTORS, matrices.mT)
    return [values, left, right]


def _diagonalised(tape: Tape, a: Any) -> tuple[Any, Any]:
    """Return sorted eigenvalues and the matrices of their vectors, with derivative zero."""
    n = a.shape[-1]
    a, scale = _scaled(fixed(tape, a))
    vectors = constant_matrix(tape, len(a), np.eye(n))
    is_sorted = False
    # one rotation diagonalises two columns
    for p, q, sorts in _sweeps(n, n + 2, 3) if n > 2 else _sweeps(n, 1, 0):
        if not sorts and is_structural_zero(a[:, p, q]):
            continue
        if (p, q) == (0, 1):
            if is_sorted and all(is_structural_zero(a[:, i, j]) for i, j in combinations(range(n), 2)):
                break
            is_sorted = sorts
        cosine, sine, *diagonal = _rotation(a[:, p, p], a[:, q, q], a[:, p, q], sorts)
        for k, row in zip((p, q), _turned(a[:, p], a[:, q], cosine, sine), strict=True):
            a[:, k, :] = row
            a[:, :, k] = row
        a[:, p, p], a[:, q, q] = diagonal
        a[:, p, q] = a[:, q, p] = 0.0
        vectors[:, :, p], vectors[:, :, q] = _turned(vectors[:, :, p], vectors[:, :, q], cosine, sine)
    values = np.maximum.accumulate(np.stack([a[:, k, k] for k in range(n)], axis=-1), axis=-1)  # corrects rounding
    _make_positive(vectors, [])
    return values * scale[:, np.newaxis], vectors


def _scaled(a: Any) -> tuple[Any, Any]:
    """Return matrices divided by their largest entries, so that fourth powers do not overflow, and these entries."""
    entries = np.unique(a.references.reshape(len(a), -1), axis=1)
    scale = reduce(np.maximum, (abs(a._like(column)) for column in entries.T)) if entries.size else a[:, 0, 0]
    scale = np.where(scale == 0.0, 1.0, scale)
    return a / scale[:, np.newaxis, np.newaxis], scale


def _rotation(first: Any, second: Any, between: Any, sorts: bool) -> tuple[Any, Any, Any, Any]:
    """Return cosine and sine of an angle that diagonalises a symmetric 2×2 matrix, and the resulting diagonal.

    The angle is the smaller of two; if the rotation `sorts`, it is the angle that makes the diagonal ascending.
    """
    apart, twice = second - first, between + between
    reach = abs(apart) + np.sqrt(apart * apart + twice * twice)
    steep = np.where(reach == 0.0, 0.0, twice / reach)
    falls = apart < 0.0
    tangent = np.where(falls, -steep, steep)
    cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
    sine, change = tangent * cosine, tangent * between
    first, second = first - change, second + change
    if not sorts:
        return cosine, sine, first, second
    return (
        *(np.where(falls, -sine, cosine), np.where(falls, cosine, sine)),
        *(np.where(falls, second, first), np.where(falls, first, second)),
    )


def _turned(p: Any, q: Any, cosine: Any, sine: Any) -> tuple[Any, Any]:
    cosine, sine = cosine[:, np.newaxis], sine[:, np.newaxis]
    return cosine * p - sine * q, sine * p + cosine * q


def _make_positive(columns: Any, matrices: list[Any]) -> None:
    """Flip columns, and the same ones in `matrices`, such that their last entries in `columns` are positive or zero."""
    negative = (columns[:, -1] < 0.0)[:, np.newaxis]
    for matrix in (*matrices, columns):
        matrix[...] = np.where(negative, -matrix, matrix)


def _values_by_rule(tape: Tape, a: Any, values: Any, vectors: Any) -> Any:
    """Return eigenvalues with their derivatives as implicit functions; each pair of symmetric entries counts twice."""
    derivative = array_of_zeros(tape, *values.shape)
    n = a.shape[-1]
    for i in range(n):
        for j in range(i + 1):
            weight = vectors[:, i] * vectors[:, j]
            derivative += (weight if i == j else 2.0 * weight) * a[:, i, j, np.newaxis]
    return attached(tape, values, derivative)


def _vectors_by_rule(tape: Tape, a: Any, values: Any, vectors: Any) -> Any:
    """Return eigenvectors with their derivatives as implicit functions."""
    products = vectors.mT @ (a @ vectors)
    turning = array_of_zeros(tape, *a.shape)
    for i, j in combinations(range(a.shape[-1]), 2):
        angle = products[:, i, j] / (values[:, j] - values[:, i])
        turning[:, i, j], turning[:, j, i] = angle, -angle
    return attached(tape, vectors, vectors @ turning)


# Singular values ----------------------------------------------------------------------------------------------------


@implements(np.linalg.svdvals)
def svdvals(tape: Tape, x: Any, /) -> Any:
    """Return descending singular values."""
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, x, "np.linalg.svdvals")
        if _is_large(tape, matrices):
            singular_values = _singular_parts(tape, matrices)[0]
            return singular_values.reshape(*stack, singular_values.shape[-1])
        left, values, right = singular(tape, matrices, "np.linalg.svdvals")
        return _singular_by_rule(tape, matrices, left, values, right).reshape(*stack, values.shape[-1])


@implements(np.linalg.svd)
def svd(tape: Tape, a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return descending singular values and the singular vectors; `hermitian` reads the lower triangle only."""
    if not compute_uv:
        return svdvals(tape, a)
    name = "np.linalg.svd"
    with tape.unsigned_zeros():
        matrices, stack = _symmetric(tape, a, "L", name) if hermitian else matrices_of(tape, a, name)
        if _is_large(tape, matrices):
            if full_matrices and matrices.shape[1] != matrices.shape[2]:
                raise refuse(
                    f"{name} of large matrices is recorded only with full_matrices=False, without vectors that belong "
                    "to no singular value."
                )
            s, u, v = (factor.reshape(*stack, *factor.shape[1:]) for factor in _singular_parts(tape, matrices))
            return result_type("svd")(u, s, v.mT)
        left, values, right = singular(tape, matrices, name)
        singular_values = _singular_by_rule(tape, matrices, left, values, right)
        tall = matrices.shape[1] >= matrices.shape[2]
        u, v = (
            _tall_by_rule(tape, matrices, left, values, right, full_matrices)
            if tall
            else reversed(_tall_by_rule(tape, matrices.mT, right, values, left, full_matrices))
        )
        vh = v.mT
        return result_type("svd")(*(factor.reshape(*stack, *factor.shape[1:]) for factor in (u, singular_values, vh)))


def singular(tape: Tape, a: Any, name: str) -> tuple[Any, Any, Any]:
    """Return left vectors, singular values and right vectors of stacked matrices, with derivative zero.

    Vectors are in columns, as many as there are values. If a value is exactly 0, one of its vectors is zero.
    """
    _check_size(min(a.shape[1:]), name)
    tall = a.shape[1] >= a.shape[2]
    left, values, right = _tall(tape, fixed(tape, a if tall else a.mT))
    if not tall:
        left, right = right, left
    _make_positive(right, [left])
    return left, values, right


def _tall(tape: Tape, a: Any) -> tuple[Any, Any, Any]:
    """Return left vectors, singular values and right vectors of matrices with at least as many rows as columns."""
    count, m, n = a.shape
    a, scale = _scaled(a)
    upper, reflections = householder(tape, a)
    rows, turns = upper.mT.copy(), constant_matrix(tape, count, np.eye(m, n))
    squares: list[Any] = []
    for p, q, sorts in _sweeps(n, n // 2 + 4 if n > 2 else 2, 0):
        if (p, q) == (0, 1):  # a new sweep
            squares = [np.sum(rows[:, :, k] * rows[:, :, k], axis=-1) for k in range(n)]
        product = np.sum(rows[:, :, p] * rows[:, :, q], axis=-1)
        # negated values ascend: the largest comes first
        cosine, sine, *negated = _rotation(-squares[p], -squares[q], -product, sorts)
        squares[p], squares[q] = -negated[0], -negated[1]
        for matrix in (rows, turns):
            matrix[:, :, p], matrix[:, :, q] = _turned(matrix[:, :, p], matrix[:, :, q], cosine, sine)
    lengths = np.sqrt(np.sum(rows * rows, axis=1))
    right = rows * np.where(lengths == 0.0, 0.0, 1.0 / lengths)[:, np.newaxis]
    values = np.minimum.accumulate(lengths, axis=-1) * scale[:, np.newaxis]
    return reflected(reflections, turns), values, right


def _singular_by_rule(tape: Tape, a: Any, left: Any, values: Any, right: Any) -> Any:
    """Return singular values with their derivatives as implicit functions, uᵢᵀ·dA·vᵢ."""
    weights = left[:, :, np.newaxis] * right[:, np.newaxis]
    return attached(tape, values, np.sum(weights * a[..., np.newaxis], axis=(1, 2)))


def _tall_by_rule(tape: Tape, a: Any, left: Any, values: Any, right: Any, full: bool) -> tuple[Any, Any]:
    """Return the vectors of matrices with at least as many rows as columns, with their derivatives."""
    m, n = a.shape[1:]
    scaled = a @ right
    products = left.mT @ scaled
    turning_left, turning_right = array_of_zeros(tape, len(a), n, n), array_of_zeros(tape, len(a), n, n)
    for i, j in combinations(range(n), 2):
        s, t = values[:, i], values[:, j]
        gap = (t - s) * (t + s)
        for turning, (x, y) in ((turning_left, (t, s)), (turning_right, (s, t))):
            angle = (products[:, i, j] * x + products[:, j, i] * y) / gap
            turning[:, i, j], turning[:, j, i] = angle, -angle
    by_left = left @ turning_left
    inverse = (1.0 / values)[:, np.newaxis]
    if m > n:
        by_left += (scaled - left @ products) * inverse
    u = attached(tape, left, by_left)
    if full and m > n:
        # the complement of the vectors turns towards the vectors, but not in itself
        columns = constant_matrix(tape, len(a), np.eye(m)[:, n:])
        rest = fixed(tape, reflected(householder(tape, a)[1], columns))
        u = np.concatenate([u, attached(tape, rest, -((left * inverse) @ (scaled.mT @ rest)))], axis=-1)
    return u, attached(tape, right, right @ turning_right)


# Least squares --------------------------------------------------------------------------------------------------------


@implements(np.linalg.lstsq)
def lstsq(tape: Tape, a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the solution, sums of squared residuals, the rank, which is assumed to be full, and singular values.

    In programs of operations alone, the singular values of matrices with more than `LARGEST` columns are NaN.
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
    is_known = rank <= LARGEST or _is_large(tape, matrix[np.newaxis])
    values = svdvals(tape, matrix) if is_known else as_array(tape, np.full(rank, np.nan))
    return solution if sides.ndim == 2 else solution[:, 0], squares, rank, values


def _solved(tape: Tape, a: Any, b: Any) -> Any:
    """Return the solutions of stacked least-squares problems as implicit functions."""
    m, n = a.shape[1:]
    tall = m >= n
    if is_equation(tape, m * n * min(m, n) * 2 // 3):
        return _solved_by_lapack(tape, a, b, tall)
    at, side = fixed(tape, a), fixed(tape, b)
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


def _solved_by_lapack(tape: Any, a: Any, b: Any, tall: bool) -> Any:
    """Solve least squares as equations: R·x = Qᵀ·b, or x = Q·y with Rᵀ·y = b; NaN for dependent columns."""
    r, q = by_lapack(tape, ORTHOGONAL, a if tall else a.mT)
    r = np.triu(r)
    pivots = abs(np.diagonal(r, axis1=-2, axis2=-1))
    threshold = np.finfo(float).eps * max(a.shape[1:]) * np.max(abs(r), axis=(-2, -1))
    pairs = zip(*(references_of(tape, each) for each in ((r, q.mT @ b) if tall else (r.mT, b))), strict=True)
    solved = TracedArray(tape, np.stack([tape.solve(*pair) for pair in pairs]))
    solutions = solved if tall else q @ solved
    return np.where((np.min(pivots, axis=-1) > threshold)[:, np.newaxis, np.newaxis], solutions, np.nan)


@implements(np.linalg.pinv)
def pinv(tape: Tape, a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """Return the pseudoinverse from the singular values that NumPy does not cut off as small."""
    name = "np.linalg.pinv"
    check_constant(name, rcond=rcond, rtol=rtol)
    with tape.unsigned_zeros():
        matrices, stack = _symmetric(tape, a, "L", name) if hermitian else matrices_of(tape, a, name)
        m, n = matrices.shape[1:]
        if rcond is None:
            rcond = 1e-15 if rtol is np._NoValue else max(m, n) * np.finfo(float).eps if rtol is None else rtol
        left, values, right = singular(tape, matrices, name)
        threshold = np.reshape(rcond, (-1, 1)) * values[:, :1]
        inverted = np.where(values > threshold, 1.0 / values, 0.0)
        inverse = (right * inverted[:, np.newaxis]) @ left.mT
        return _pseudoinverse(tape, matrices, inverse).reshape(*stack, n, m)


def _pseudoinverse(tape: Tape, a: Any, p: Any) -> Any:
    """Return pseudoinverses of stacked matrices of constant rank, with their derivatives."""
    m, n = a.shape[1:]
    at = fixed(tape, a)
    rest, kernel = np.eye(m) - at @ p, np.eye(n) - p @ at
    derivative = (p @ p.mT) @ (a.mT @ rest) + (kernel @ a.mT) @ (p.mT @ p) - p @ (a @ p)
    return attached(tape, p, derivative)


# Norms ----------------------------------------------------------------------------------------------------------------


@implements(np.linalg.norm)
def norm(tape: Tape, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Return any norm of vectors or matrices; singular values give the norms 2, -2 and "nuc" of matrices."""
    array = as_array(tape, x)
    if depends(ord):
        raise refuse("np.linalg.norm: ord must be a constant.")
    if axis is None:
        if ord is None or (ord == 2 and array.ndim == 1) or (ord == "fro" and array.ndim == 2):
            total = np.sqrt(_squares(array.ravel(), 0))
            return np.reshape(total, (1,) * array.ndim) if keepdims else total
        axis = tuple(range(array.ndim))
    axes = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    if len(axes) == 1:
        return _vector_norm(tape, array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"norm: one axis or two, {axes} were given")
    rows, columns = (k % array.ndim for k in axes)
    if ord is None or ord == "fro":
        return np.sqrt(_squares(array, axes, keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        extreme = np.max if ord > 0 else np.min
        return extreme(np.sum(abs(array), axis=first, keepdims=True), axis=(first, second), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values = svdvals(tape, np.moveaxis(array, (rows, columns), (-2, -1)))
        result = np.sum(values, axis=-1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
        return np.expand_dims(result, axes) if keepdims else result
    raise ValueError(f"norm: ord={ord!r} is not a norm of matrices")


def _squares(array: TracedArray, axis: Any, keepdims: bool = False) -> Any:
    return np.sum(array * array, axis=axis, keepdims=keepdims)


@implements(np.linalg.vector_norm)
def _vector_norm(tape: Tape, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """Return a vector norm of order inf, -inf, 0 or any power."""
    array = as_array(tape, x)
    if depends(ord):
        raise refuse("np.linalg.norm: ord must be a constant.")
    ord = concrete(ord)  # noqa: A001
    if isinstance(ord, str):
        raise ValueError(f"norm: ord={ord!r} is not a norm of vectors")
    if abs(ord) == np.inf:
        return (np.max if ord > 0 else np.min)(abs(array), axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(array != 0, axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(abs(array), axis=axis, keepdims=keepdims)
    if ord == 2:
        return np.sqrt(_squares(array, axis, keepdims))
    return np.sum(abs(array) ** ord, axis=axis, keepdims=keepdims) ** (1.0 / ord)


@implements(np.linalg.cond)
def _cond(tape: Tape, x: Any, p: Any = None) -> Any:
    """Return the condition number: a quotient of singular values, or the product of the norms of x and its inverse."""
    check_constant("np.linalg.cond", p=p)
    if p in (None, 2, -2):
        values = svdvals(tape, x)
        greatest, smallest = values[..., 0], values[..., -1]
        return smallest / greatest if p == -2 else greatest / smallest
    return norm(tape, x, p, (-2, -1)) * norm(tape, np.linalg.inv(as_array(tape, x)), p, (-2, -1))


@implements(np.linalg.matrix_rank)
def _matrix_rank(tape: Tape, A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Return the number of singular values above `tol`, or above `rtol` times the largest one."""
    array = as_array(tape, A)
    if array.ndim < 2:
        return np.any(array != 0.0) * 1.0
    values = abs(eigvalsh(tape, array)) if hermitian else svdvals(tape, array)
    if tol is None:
        relative = max(array.shape[-2:]) * np.finfo(float).eps if rtol is None else rtol
        tol = np.max(values, axis=-1, keepdims=True) * np.expand_dims(relative, -1)
    else:
        tol = np.expand_dims(tol, -1)
    return np.sum(values > tol, axis=-1)
