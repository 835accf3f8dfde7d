"""Linear algebra for small matrices: solve, inv, det, norms.

The recorded program must be right at every point, so it cannot decide while it is recorded:

* up to 3×3, cofactors: no decision is needed, and the program is shortest;
* beyond, Gaussian elimination with partial pivoting, in which each exchange of rows is a `select` of every entry
  (``n³/3`` products and as many selects, besides the right-hand sides). Structural zeros are never pivots and cost
  nothing. The columns of an inverse are the solutions for the unit vectors.

A singular matrix gives infinities or NaN where NumPy raises `LinAlgError`. Beyond some tens of rows, leave the
factorization outside of the recorded function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.arrays import TracedArray, as_array, make
from accumulus.frontends.operands import References, concrete, depends, references_of
from accumulus.frontends.refusals import refuse
from accumulus.frontends.registry import implements
from accumulus.tape.tape import Tape

__all__ = ["det", "inv", "norm", "solve"]

#: A matrix or vector of references.
Rows = list[list[int]]


@implements(np.linalg.solve)
def solve(tape: Tape, a: Any, b: Any) -> Any:
    """The solutions of a·x = b, for stacks of matrices too."""
    matrices, sides = _square(tape, a), references_of(tape, b)
    vector = sides.ndim == 1
    if vector:
        sides = sides[:, None]
    if sides.shape[-2] != matrices.shape[-1]:
        raise ValueError(f"solve: a matrix of shape {matrices.shape} and a right-hand side of shape {np.shape(b)}")
    stack = np.broadcast_shapes(matrices.shape[:-2], sides.shape[:-2])
    matrices = np.broadcast_to(matrices, stack + matrices.shape[-2:])
    sides = np.broadcast_to(sides, stack + sides.shape[-2:])
    result = np.empty(sides.shape, np.int64)
    for k in np.ndindex(stack):
        result[k] = np.array(_solve(tape, matrices[k].tolist(), sides[k].tolist()), np.int64).reshape(sides.shape[-2:])
    return TracedArray(tape, result[..., 0] if vector else result)


@implements(np.linalg.inv)
def inv(tape: Tape, a: Any) -> Any:
    """The inverse, of stacks of matrices too."""
    matrices = _square(tape, a)
    n = matrices.shape[-1]
    unit = [[tape.constant(float(i == j)) for j in range(n)] for i in range(n)]
    result = np.empty(matrices.shape, np.int64)
    for k in np.ndindex(matrices.shape[:-2]):
        result[k] = np.array(_solve(tape, matrices[k].tolist(), unit), np.int64).reshape(n, n)
    return TracedArray(tape, result)


@implements(np.linalg.det)
def det(tape: Tape, a: Any) -> Any:
    """The determinant, of stacks of matrices too."""
    matrices = _square(tape, a)
    result = np.empty(matrices.shape[:-2], np.int64)
    for k in np.ndindex(result.shape):
        rows = matrices[k].tolist()
        result[k] = _cofactors(tape, rows)[1] if len(rows) <= 3 else _triangular(tape, rows, [[] for _ in rows])
    return make(tape, result if result.ndim else int(result))


def _square(tape: Tape, a: Any) -> References:
    matrices = references_of(tape, a)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise np.linalg.LinAlgError(f"the last two axes must be of equal length; the shape is {matrices.shape}")
    return matrices


def _solve(tape: Tape, a: Rows, b: Rows) -> Rows:
    n = len(a)
    if n <= 3:
        adjugate, determinant = _cofactors(tape, a)
        columns = list(zip(*b, strict=True))
        return [
            [tape.divide(tape.sum(map(tape.multiply, row, column)), determinant) for column in columns]
            for row in adjugate
        ]
    b = [row.copy() for row in b]
    _triangular(tape, a, b)
    for i in reversed(range(n)):
        for column in range(len(b[i])):
            rest = b[i][column]
            for j in range(i + 1, n):
                rest = tape.subtract(rest, tape.multiply(a[i][j], b[j][column]))
            b[i][column] = tape.divide(rest, a[i][i])
    return b


def _cofactors(tape: Tape, a: Rows) -> tuple[Rows, int]:
    """The adjugate and the determinant of a matrix of at most three rows."""
    n = len(a)
    if n == 0:
        return [], tape.constant(1.0)
    if n == 1:
        return [[tape.constant(1.0)]], a[0][0]
    if n == 2:
        (p, q), (r, s) = a
        return [[s, tape.negative(q)], [tape.negative(r), p]], _minor(tape, p, q, r, s)
    adjugate = [
        [
            # cyclic indices give the minor with its sign
            _minor(tape, *(a[(j + u) % 3][(i + v) % 3] for u in (1, 2) for v in (1, 2)))
            for j in range(3)
        ]
        for i in range(3)
    ]
    return adjugate, tape.sum(tape.multiply(a[0][j], adjugate[j][0]) for j in range(3))


def _minor(tape: Tape, p: int, q: int, r: int, s: int) -> int:
    return tape.subtract(tape.multiply(p, s), tape.multiply(q, r))


def _triangular(tape: Tape, a: Rows, b: Rows) -> int:
    """Make `a` upper triangular in place, the right-hand sides `b` with it; returns the determinant."""
    n = len(a)
    sign = tape.constant(1.0)
    for k in range(n):
        for i in range(k + 1, n):
            sign = _exchange(tape, a, b, k, i, sign)
        for i in range(k + 1, n):
            if _is_zero(tape, a[i][k]):
                continue
            factor = tape.divide(a[i][k], a[k][k])
            for rows in (a, b):
                for j in range(k + 1 if rows is a else 0, len(rows[i])):
                    rows[i][j] = tape.subtract(rows[i][j], tape.multiply(factor, rows[k][j]))
    product = sign
    for k in range(n):
        product = tape.multiply(product, a[k][k])
    return product


def _exchange(tape: Tape, a: Rows, b: Rows, k: int, i: int, sign: int) -> int:
    """Exchange the rows k and i where that gives the greater pivot; returns the sign of the permutation so far."""
    if _is_zero(tape, a[i][k]):
        return sign
    if _is_zero(tape, a[k][k]):
        for rows in (a, b):
            rows[k], rows[i] = rows[i], rows[k]
        return tape.negative(sign)
    greater = tape.apply("less", tape.apply("abs", a[k][k]), tape.apply("abs", a[i][k]))
    for rows in (a, b):
        for j in range(k if rows is a else 0, len(rows[k])):
            x, y = rows[k][j], rows[i][j]
            rows[k][j], rows[i][j] = tape.select(greater, y, x), tape.select(greater, x, y)
    return tape.select(greater, tape.negative(sign), sign)


def _is_zero(tape: Tape, reference: int) -> bool:
    return reference < 0 and tape.value_of(reference) == 0.0


# Norms -------------------------------------------------------------------------------------------------------------


@implements(np.linalg.norm)
def norm(tape: Tape, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Any norm of vectors, and of matrices those that are sums and extremes of absolute values or squares."""
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
        return vector_norm(tape, array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"norm: one axis or two, {axes} were given")
    rows, columns = (k % array.ndim for k in axes)
    if ord is None or ord == "fro":
        return np.sqrt(_squares(array, axes, keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        extreme = np.max if ord > 0 else np.min
        return extreme(np.sum(abs(array), axis=first, keepdims=True), axis=(first, second), keepdims=keepdims)
    raise refuse(
        f"np.linalg.norm of a matrix with ord={ord!r} needs its singular values, by an iteration that is not recorded. "
        "Recorded are 'fro', 1, -1, inf and -inf."
    )


def _squares(array: TracedArray, axis: Any, keepdims: bool = False) -> Any:
    return np.sum(array * array, axis=axis, keepdims=keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(tape: Tape, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """A norm of vectors: inf, -inf, 0, or any power."""
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


@implements(np.linalg.matrix_norm)
def matrix_norm(tape: Tape, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    """A norm of the matrices in the last two axes."""
    return norm(tape, x, ord, (-2, -1), keepdims)
