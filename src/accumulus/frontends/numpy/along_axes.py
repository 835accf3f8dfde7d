"""Functions along axes: sums, products, extremes, means, running sums, differences.

Sums go from left to right; NumPy adds long lines pairwise, which differs in rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.elementwise import ELEMENTWISE
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.table import implements
from accumulus.frontends.numpy.ufuncs import accumulate, fold
from accumulus.tape.tape import Tape

__all__ = ["mean"]


def _enter_fold(row: str, *functions: Callable[..., Any]) -> None:
    @implements(*functions)
    def record(
        tape: Tape,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
    ) -> Any:
        return fold(tape, ELEMENTWISE[row], a, axis, keepdims, initial)


def _enter_extreme(row: str, *functions: Callable[..., Any]) -> None:
    @implements(*functions)
    def record(
        tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None
    ) -> Any:
        return fold(tape, ELEMENTWISE[row], a, axis, keepdims, initial)


def _enter_running(row: str, function: Callable[..., Any]) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        operand = np.ravel(as_array(tape, a)) if axis is None else a
        return accumulate(tape, ELEMENTWISE[row], operand, axis or 0)


_enter_fold("add", np.sum)
_enter_fold("multiply", np.prod)
_enter_extreme("maximum", np.max, np.amax)
_enter_extreme("minimum", np.min, np.amin)
_enter_extreme("logical_and", np.all)
_enter_extreme("logical_or", np.any)
_enter_running("add", np.cumsum)
_enter_running("multiply", np.cumprod)


def _lengths(shape: tuple[int, ...], axis: Any) -> int:
    axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    return math.prod(shape[k] for k in axes)


@implements(np.mean)
def mean(tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The sum by the number of entries."""
    a = as_array(tape, a)
    return fold(tape, ELEMENTWISE["add"], a, axis, keepdims) / _lengths(a.shape, axis)


@implements(np.average)
def average(tape: Tape, a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    """The mean, or the weighted sum by the sum of the weights."""
    if weights is None:
        return mean(tape, a, axis, keepdims=keepdims)
    a, weights = as_array(tape, a), as_array(tape, weights)
    if weights.shape != a.shape:
        if not isinstance(axis, int) or weights.shape != (a.shape[axis],):
            raise refuse("np.average: weights have the shape of the array, or the length of its one axis.")
        weights = np.reshape(weights, [-1 if k == axis % a.ndim else 1 for k in range(a.ndim)])
        weights = np.broadcast_to(weights, a.shape)
    total = fold(tape, ELEMENTWISE["add"], weights * a, axis, keepdims)
    return total / fold(tape, ELEMENTWISE["add"], weights, axis, keepdims)


@implements(np.var)
def var(
    tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """The mean of the squared deviations, or their sum by the number of entries less `ddof`."""
    a = as_array(tape, a)
    deviations = a - mean(tape, a, axis, keepdims=True)
    squares = fold(tape, ELEMENTWISE["add"], deviations * deviations, axis, keepdims)
    return squares / (_lengths(a.shape, axis) - ddof)


@implements(np.std)
def std(
    tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """The square root of the variance."""
    return np.sqrt(var(tape, a, axis, dtype, out, ddof, keepdims))


@implements(np.ptp)
def ptp(tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The greatest less the smallest entry."""
    greatest = fold(tape, ELEMENTWISE["maximum"], a, axis, keepdims)
    return greatest - fold(tape, ELEMENTWISE["minimum"], a, axis, keepdims)


@implements(np.diff)
def diff(tape: Tape, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours, n times over."""
    array = np.moveaxis(as_array(tape, a), axis, -1)
    ends = [None if end is None else _end(tape, end, array.shape[:-1], axis) for end in (prepend, append)]
    array = np.concatenate([part for part in (ends[0], array, ends[1]) if part is not None], axis=-1)
    for _ in range(n):
        array = array[..., 1:] - array[..., :-1]
    return np.moveaxis(array, -1, axis)


@implements(np.ediff1d)
def ediff1d(tape: Tape, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours, whatever the shape, between entries that are given."""
    entries = np.ravel(as_array(tape, ary))
    ends = [None if end is None else np.ravel(as_array(tape, end)) for end in (to_begin, to_end)]
    parts = [ends[0], entries[1:] - entries[:-1], ends[1]]
    return np.concatenate([part for part in parts if part is not None])


def _end(tape: Tape, end: Any, shape: tuple[int, ...], axis: int) -> Any:
    references = references_of(tape, end)
    if not references.ndim:
        return TracedArray(tape, np.broadcast_to(references, (*shape, 1)))
    return TracedArray(tape, np.moveaxis(references, axis, -1))


@implements(np.gradient)
def gradient(tape: Tape, f: Any, *varargs: Any, axis: int | None = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends, along one axis of constant or given spacing."""
    f = as_array(tape, f)
    if (f.ndim != 1 and axis is None) or edge_order != 1 or len(varargs) > 1:
        raise refuse("np.gradient is recorded along one axis, with edge_order=1 and one spacing.")
    f = np.moveaxis(f, axis or 0, -1)
    spacing = as_array(tape, varargs[0] if varargs else 1.0)
    if not spacing.ndim:
        slopes = (f[..., 1:] - f[..., :-1]) / spacing
        inner = (f[..., 2:] - f[..., :-2]) / (2.0 * spacing)
    else:
        steps = np.diff(spacing)
        slopes = (f[..., 1:] - f[..., :-1]) / steps
        before, after = steps[:-1], steps[1:]
        inner = (before * slopes[..., 1:] + after * slopes[..., :-1]) / (before + after)
    result = np.concatenate([slopes[..., :1], inner, slopes[..., -1:]], axis=-1)
    return np.moveaxis(result, -1, axis or 0)


@implements(np.trapezoid)
def trapezoid(tape: Tape, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The trapezoidal rule along one axis."""
    y = np.moveaxis(as_array(tape, y), axis, -1)
    if x is None:
        widths = dx
    else:
        x = as_array(tape, x)
        widths = np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
    return np.sum(widths * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
