"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.linalg.implicit import check_constant
from accumulus.frontends.numpy.linalg.spectral import eigvalsh, svdvals
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["cond", "matrix_rank", "norm", "vector_norm"]


@implements(np.linalg.norm)
def norm(tape: Tape, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Any norm of vectors or matrices; 2, -2 and "nuc" of matrices by their singular values."""
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
    if ord in (2, -2, "nuc"):
        values = svdvals(tape, np.moveaxis(array, (rows, columns), (-2, -1)))
        result = np.sum(values, axis=-1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
        return np.expand_dims(result, axes) if keepdims else result
    raise ValueError(f"norm: ord={ord!r} is not a norm of matrices")


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


@implements(np.linalg.cond)
def cond(tape: Tape, x: Any, p: Any = None) -> Any:
    """The condition number: the quotient of singular values, or the norm of the matrix times that of its inverse."""
    check_constant("np.linalg.cond", p=p)
    if p in (None, 2, -2):
        values = svdvals(tape, x)
        greatest, smallest = values[..., 0], values[..., -1]
        return smallest / greatest if p == -2 else greatest / smallest
    return norm(tape, x, p, (-2, -1)) * norm(tape, np.linalg.inv(as_array(tape, x)), p, (-2, -1))


@implements(np.linalg.matrix_rank)
def matrix_rank(tape: Tape, A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """How many singular values are greater than `tol`, or than `rtol` times the greatest."""
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
