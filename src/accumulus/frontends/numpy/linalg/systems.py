"""Linear systems: solve, inv, det, slogdet.

Small ones are written out (`accumulus.tape.systems`), since that is quicker to call. Where that would be many
operations a system is one equation of the program, which LAPACK solves (`Program.solve`): then a singular matrix is
NumPy's `LinAlgError`, as in the function itself. Determinants are written out whatever their size, because they have
derivatives at singular matrices, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import TracedArray, as_array, make
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.table import implements
from accumulus.frontends.recorder import References
from accumulus.tape.program import MOST_UNROLLED_SYSTEM
from accumulus.tape.systems import determinant, logarithm, solutions
from accumulus.tape.tape import Tape


@implements(np.linalg.solve)
def solve(tape: Tape, a: Any, b: Any, *, banded: bool = False) -> Any:
    """The solutions of a·x = b, for stacks of matrices too; of banded ones the elimination itself is differentiated."""
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
    with tape.unsigned_zeros():
        n, m = sides.shape[-2:]
        for k in np.ndindex(stack):
            if not banded and m and _is_long(tape, n * n * (n // 3 + m)):
                result[k] = tape.solve(matrices[k], sides[k])
            else:
                found = solutions(tape, matrices[k].tolist(), sides[k].tolist(), banded)
                result[k] = np.array(found, np.int64).reshape(n, m)
    return TracedArray(tape, result[..., 0] if vector else result)


@implements(np.linalg.inv)
def inv(tape: Tape, a: Any) -> Any:
    """The inverse, of stacks of matrices too."""
    return solve(tape, a, np.eye(_square(tape, a).shape[-1]))


@implements(np.linalg.det)
def det(tape: Tape, a: Any) -> Any:
    """The determinant, of stacks of matrices too."""
    matrices = _square(tape, a)
    result = np.empty(matrices.shape[:-2], np.int64)
    with tape.unsigned_zeros():
        for k in np.ndindex(result.shape):
            result[k] = determinant(tape, matrices[k].tolist())
    return make(tape, result if result.ndim else int(result))


@implements(np.linalg.tensorsolve)
def _tensorsolve(tape: Tape, a: Any, b: Any, axes: Any = None) -> Any:
    """The array x for which the product of `a` and x over all axes of x is `b`."""
    array, side = as_array(tape, a), as_array(tape, b)
    if axes is not None:
        array = np.moveaxis(array, axes, range(array.ndim - len(axes), array.ndim))
    last = array.shape[side.ndim :]
    return solve(tape, array.reshape(side.size, -1), side.ravel()).reshape(last)


@implements(np.linalg.slogdet)
def _slogdet(tape: Tape, a: Any) -> Any:
    """The sign of the determinant and the logarithm of its magnitude: 0 and -inf of a singular matrix."""
    matrices = _square(tape, a)
    signs, logarithms = (np.empty(matrices.shape[:-2], np.int64) for _ in range(2))
    with tape.unsigned_zeros():
        for k in np.ndindex(signs.shape):
            n = matrices.shape[-1]
            if _is_long(tape, n * n * (n // 3)):
                signs[k], logarithms[k] = tape.log_determinant(matrices[k])
            else:
                signs[k], logarithms[k] = logarithm(tape, matrices[k].tolist())
    parts = (make(tape, part if part.ndim else int(part)) for part in (signs, logarithms))
    return type(np.linalg.slogdet(np.eye(1)))(*parts)


def _is_long(tape: Any, products: int) -> bool:
    """Return True if a system of so many products is an equation of the program, rather than written out."""
    return products > MOST_UNROLLED_SYSTEM and tape.in_loops(products, products)


def _square(tape: Tape, a: Any) -> References:
    matrices = references_of(tape, a)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise np.linalg.LinAlgError(f"the last two axes must be of equal length; the shape is {matrices.shape}")
    return matrices
