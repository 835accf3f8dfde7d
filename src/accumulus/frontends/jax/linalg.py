"""Linear algebra: linear systems, triangular systems, and factorizations of small matrices."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.jax.equations import Equation, evaluated, records
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import references_of

#: Maximum number of unknowns of a system, and of rows and columns of a matrix that is factorized with pivoting.
#: Operations grow with the cube of these numbers; smaller ones exclude systems that could be recorded.
MOST_UNKNOWNS: Final = 400
MOST_ROWS: Final = 16


def _of_system(equation: Any) -> list[Any]:
    """Return the operands that a linear solve needs: the constants of its matrix product, and the right-hand side."""
    lengths = equation.params["const_lengths"]
    return [*equation.invars[: lengths.matvec], *equation.invars[sum(lengths) :]]


@records("custom_linear_solve", folds=False, reads=_of_system)
def _system(call: Equation, *operands: Any) -> Any:
    """Return the solution as an implicit function; products with unit vectors give the columns of the matrix."""
    count = call.params["const_lengths"].matvec
    times = call.params["jaxprs"].matvec
    constants, sides = operands[:count], operands[count:]
    if len(sides) != 1:
        raise refuse("A linear solve for several unknown arrays at once (lax.custom_linear_solve) is not recorded.")
    shape = np.shape(sides[0])
    size = math.prod(shape)
    if size > MOST_UNKNOWNS:
        raise refuse(
            f"A linear system with {size} unknowns that depends on the function's arguments is solved here; at most "
            f"{MOST_UNKNOWNS} unknowns are recorded. Solve larger ones outside of the function."
        )
    columns = []
    for k in range(size):
        unit = np.zeros(size)
        unit[k] = 1.0
        (column,) = evaluated(times.jaxpr, times.consts, [*constants, unit.reshape(shape)])
        columns.append(references_of(call.tape, column).reshape(-1))
    matrix = np.stack(columns, axis=1)
    right = references_of(call.tape, sides[0]).reshape(-1)
    solution = np.empty(size, np.int64)
    for systems in _independent_systems(matrix, call.tape.constant(0.0)):
        block = TracedArray(call.tape, matrix[np.ix_(systems[0], systems[0])])
        right_sides = TracedArray(call.tape, right[np.array(systems)].T)
        solutions = np.linalg.solve(block, right_sides)
        solution[np.array(systems)] = references_of(call.tape, solutions).T
    return [TracedArray(call.tape, solution.reshape(shape))]


def _independent_systems(matrix: Any, zero: int) -> list[list[list[int]]]:
    """Split the unknowns into independent systems, grouped by equal matrices."""
    size = len(matrix)
    linked = matrix != zero
    remaining, components = set(range(size)), []
    while remaining:
        reached, front = set(), {min(remaining)}
        while front:
            reached |= front
            rows = sorted(front)
            front = {*np.flatnonzero(linked[rows].any(0) | linked[:, rows].any(1)).tolist()} - reached
        remaining -= reached
        components.append(sorted(reached))
    by_matrix: dict[bytes, list[list[int]]] = {}
    for component in components:
        by_matrix.setdefault(matrix[np.ix_(component, component)].tobytes(), []).append(component)
    return list(by_matrix.values())


@records("triangular_solve", folds=False)
def _triangular(call: Equation, a: Any, b: Any) -> Any:
    """Solve a triangular system by substitution, row by row; only the selected triangle is read."""
    params = call.params
    lower = params["lower"]
    if not params["left_side"]:  # x·a = b is aᵀ·xᵀ = bᵀ
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    if params["transpose_a"]:
        a, lower = np.swapaxes(a, -1, -2), not lower
    count = np.shape(a)[-1]
    rows: dict[int, Any] = {}
    for i in range(count) if lower else reversed(range(count)):
        row = b[..., i, :]
        for j, solved in rows.items():
            row = row - a[..., i, j, None] * solved
        rows[i] = row if params["unit_diagonal"] else row / a[..., i, i, None]
    result = np.stack([rows[i] for i in range(count)], axis=-2)
    return result if params["left_side"] else np.swapaxes(result, -1, -2)


@records("lu", folds=False)
def _lu(call: Equation, a: Any) -> Any:
    """Eliminate with partial pivoting, where selects exchange rows; return factors, pivots and permutation."""
    height, width = np.shape(a)[-2:]
    if max(height, width) > MOST_ROWS:
        raise refuse(
            f"A matrix of {height} × {width} that depends on the function's arguments is factorized with pivots here; "
            f"at most {MOST_ROWS} rows and columns are recorded."
        )
    rows = [a[..., i, :] for i in range(height)]
    order: list[Any] = [np.full(np.shape(a)[:-2], float(i)) for i in range(height)]
    pivots = []
    for k in range(min(height, width)):
        best, pivot_row = np.abs(rows[k][..., k]), np.full(np.shape(a)[:-2], float(k))
        for i in range(k + 1, height):
            size = np.abs(rows[i][..., k])
            larger = np.greater(size, best)
            best, pivot_row = np.where(larger, size, best), np.where(larger, float(i), pivot_row)
        pivots.append(pivot_row)
        for i in range(k + 1, height):
            swap = np.equal(pivot_row, float(i))
            wide = np.expand_dims(swap, -1)
            rows[k], rows[i] = np.where(wide, rows[i], rows[k]), np.where(wide, rows[k], rows[i])
            order[k], order[i] = np.where(swap, order[i], order[k]), np.where(swap, order[k], order[i])
        pivot = rows[k][..., k]
        for i in range(k + 1, height):
            factor = np.where(np.equal(pivot, 0.0), 0.0, rows[i][..., k] / pivot)
            wide = np.expand_dims(factor, -1)
            parts = [rows[i][..., :k], wide, rows[i][..., k + 1 :] - wide * rows[k][..., k + 1 :]]
            rows[i] = np.concatenate(parts, axis=-1)
    return [np.stack(rows, axis=-2), np.stack(pivots, axis=-1), np.stack(order, axis=-1)]


records("cholesky", folds=False)(lambda call, a: np.linalg.cholesky(a))


@records("qr", folds=False)
def _qr(call: Equation, a: Any) -> Any:
    if call.params.get("pivoting"):
        raise refuse("A factorization Q·R with pivots is not recorded.")
    q, r = np.linalg.qr(a, mode="complete" if call.params["full_matrices"] else "reduced")
    return [q, r]


@records("eigh", folds=False)
def _eigh(call: Equation, a: Any) -> Any:
    values, vectors = np.linalg.eigh(a, "L" if call.params["lower"] else "U")
    return [vectors, values]


@records("svd", folds=False)
def _svd(call: Equation, a: Any) -> Any:
    if not call.params["compute_uv"]:
        return [np.linalg.svd(a, compute_uv=False)]
    u, s, vt = np.linalg.svd(a, full_matrices=call.params["full_matrices"])
    return [s, u, vt]
