"""Linear systems: solve, inv, det, slogdet, tensorsolve.

Small systems are written out (`accumulus.tape.systems`), which makes calls faster. A system that would take many
operations becomes one equation of the program, which LAPACK solves (`Program.solve`). A singular matrix then raises
NumPy's `LinAlgError`, as in the function itself. This also holds for determinants; written-out ones have
derivatives at singular matrices, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.numpy.arrays import TracedArray, as_array, make
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.table import implements
from accumulus.frontends.recorder import References
from accumulus.tape.blocks import DETERMINANT
from accumulus.tape.columns import column, references_in
from accumulus.tape.program import MOST_UNROLLED_SYSTEM
from accumulus.tape.systems import Rows, determinant, logarithm, solutions
from accumulus.tape.tape import Tape

#: Operations for each product of an elimination with pivoting: for 20 rows, 17,844 of 41,087 select between rows. A
#: larger estimate leaves systems to LAPACK that are quicker written out, a smaller one writes out systems that take
#: long to prepare.
PIVOTED: Final = 3
#: Maximum number of equations that are solved by cofactors.
MOST_COFACTORS: Final = 3


@implements(np.linalg.solve)
def solve(tape: Tape, a: Any, b: Any, *, banded: bool = False) -> Any:
    """Return the solutions of a·x = b, also for stacks; the elimination of banded matrices is itself differentiated."""
    matrices, sides = _square(tape, a), references_of(tape, b)
    vector = sides.ndim == 1
    if vector:
        sides = sides[:, None]
    if sides.shape[-2] != matrices.shape[-1]:
        raise ValueError(f"solve: a matrix of shape {matrices.shape} and a right-hand side of shape {np.shape(b)}")
    stack = np.broadcast_shapes(matrices.shape[:-2], sides.shape[:-2])
    matrices = np.broadcast_to(matrices, stack + matrices.shape[-2:])
    sides = np.broadcast_to(sides, stack + sides.shape[-2:])
    n, m = sides.shape[-2:]

    def written(tape: Tape, entries: list[int]) -> list[int]:
        rows = solutions(tape, _rows(entries[: n * n], n, n), _rows(entries[n * n :], n, m), banded)
        return [entry for row in rows for entry in row]

    with tape.unsigned_zeros():
        if not banded and m and is_equation(tape, PIVOTED * n * n * (n // 3 + m)):
            result = np.empty(sides.shape, np.int64)
            for k in np.ndindex(stack):
                result[k] = tape.solve(matrices[k], sides[k])
        else:
            entries = [each.reshape(*stack, -1) for each in (matrices, sides)]
            result = _for_each(tape, np.concatenate(entries, axis=-1), n * m, written).reshape(sides.shape)
    return TracedArray(tape, result[..., 0] if vector else result)


def solve_as_equation(tape: Any, a: Any, b: Any) -> Any:
    """Return the solutions of a·x = b as one equation of the program, also for few unknowns.

    An elimination has second derivatives only in a program that is written out, which cannot call opaque functions.
    """
    matrix, sides = references_of(tape, a), references_of(tape, b)
    if len(matrix) <= MOST_COFACTORS or not sides.size or not getattr(tape, "may_loop", False):
        return solve(tape, a, b)
    tape.begin_loops()
    columns = sides if sides.ndim == 2 else sides[:, np.newaxis]
    return TracedArray(tape, tape.solve(matrix, columns).reshape(sides.shape))


@implements(np.linalg.inv)
def inv(tape: Tape, a: Any) -> Any:
    """Return the inverse of a matrix, or of each matrix of a stack."""
    return solve(tape, a, np.eye(_square(tape, a).shape[-1]))


@implements(np.linalg.det)
def det(tape: Any, a: Any) -> Any:
    """Return the determinant of a matrix, or of each matrix of a stack."""
    matrices = _square(tape, a)
    *stack, n, _ = matrices.shape
    with tape.unsigned_zeros():
        if is_equation(tape, 4 * n * n * (n // 3)):  # most of the written-out operations are minors
            result = np.empty(stack, np.int64)
            for k in np.ndindex(*stack):
                result[k] = tape.factorise(DETERMINANT, matrices[k])[0]
            return make(tape, result if result.ndim else int(result))
        entries = matrices.reshape(*stack, n * n)
        result = _for_each(tape, entries, 1, lambda tape, each: [determinant(tape, _rows(each, n, n))])[..., 0]
    return make(tape, result if result.ndim else int(result))


@implements(np.linalg.tensorsolve)
def _tensorsolve(tape: Tape, a: Any, b: Any, axes: Any = None) -> Any:
    """Return the array x whose product with `a`, summed over all axes of x, is `b`."""
    array, side = as_array(tape, a), as_array(tape, b)
    if axes is not None:
        array = np.moveaxis(array, axes, range(array.ndim - len(axes), array.ndim))
    last = array.shape[side.ndim :]
    return solve(tape, array.reshape(side.size, -1), side.ravel()).reshape(last)


@implements(np.linalg.slogdet)
def _slogdet(tape: Tape, a: Any) -> Any:
    """Return the sign of the determinant and the logarithm of its magnitude: 0 and -inf for a singular matrix."""
    matrices = _square(tape, a)
    *stack, n, _ = matrices.shape
    with tape.unsigned_zeros():
        if is_equation(tape, PIVOTED * n * n * (n // 3)):
            result = np.empty((*stack, 2), np.int64)
            for k in np.ndindex(*stack):
                result[k] = tape.log_determinant(matrices[k])
        else:
            entries = matrices.reshape(*stack, n * n)
            result = _for_each(tape, entries, 2, lambda tape, each: [*logarithm(tape, _rows(each, n, n))])
    parts = (
        make(tape, references if references.ndim else int(references))
        for references in (result[..., 0], result[..., 1])
    )
    return type(np.linalg.slogdet(np.eye(1)))(*parts)


def _for_each(
    tape: Any, entries: References, results: int, write: Callable[[Tape, list[int]], list[int]]
) -> References:
    """Return the results of `write` for each row of a stack, in a loop if the stack is long."""
    stack = entries.shape[:-1]
    rows = entries.reshape(math.prod(stack), entries.shape[-1])
    if len(rows) < 2 or not results or not tape.in_loops(len(rows), rows.size):
        return np.array([write(tape.open, row) for row in rows.tolist()], np.int64).reshape(*stack, results)
    columns = [column(each.copy()) for each in rows.T]
    body = Tape(len(columns), signed_zeros=tape.signed_zeros)
    numbers = map(tape.uniform, columns)
    body.outputs = write(body, [k if number is None else body.constant(number) for k, number in enumerate(numbers)])
    return np.stack([references_in(each) for each in tape.extend(body, columns)], axis=-1).reshape(*stack, results)


def _rows(entries: list[int], count: int, length: int) -> Rows:
    return [entries[length * k : length * (k + 1)] for k in range(count)]


def is_equation(tape: Any, products: int) -> bool:
    """Return True if a system with this many products is an equation of the program, and not written out."""
    return products > MOST_UNROLLED_SYSTEM and tape.in_loops(products, products)


def _square(tape: Tape, a: Any) -> References:
    matrices = references_of(tape, a)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise np.linalg.LinAlgError(f"the last two axes must be of equal length; the shape is {matrices.shape}")
    return matrices
