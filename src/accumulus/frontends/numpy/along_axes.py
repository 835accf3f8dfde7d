"""Functions along axes: sums, products, extremes, means, running sums.

Sums go from left to right; NumPy adds long lines pairwise, which differs in rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.elementwise import ELEMENTWISE
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
        where: Any = True,
    ) -> Any:
        return fold(tape, ELEMENTWISE[row], a, axis, keepdims, initial, where)


def _enter_extreme(row: str, *functions: Callable[..., Any]) -> None:
    @implements(*functions)
    def record(
        tape: Tape,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        return fold(tape, ELEMENTWISE[row], a, axis, keepdims, initial, where)


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


def _count(tape: Tape, shape: tuple[int, ...], axis: Any, where: Any, keepdims: bool) -> Any:
    """How many entries there are along the axes; of those that are meant, traced if need be."""
    if where is True:
        axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
        return math.prod(shape[k] for k in axes)
    meant = np.broadcast_to(np.where(where, 1.0, 0.0), shape)
    return fold(tape, ELEMENTWISE["add"], meant, axis, keepdims)


@implements(np.mean)
def mean(
    tape: Tape,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """The sum by the number of entries."""
    a = as_array(tape, a)
    total = fold(tape, ELEMENTWISE["add"], a, axis, keepdims, None, where)
    return total / _count(tape, a.shape, axis, where, keepdims)


@implements(np.average)
def average(
    tape: Tape, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean, or the weighted sum by the sum of the weights."""
    a = as_array(tape, a)
    weights = np.ones(a.shape) if weights is None else as_array(tape, weights)
    if weights.shape != a.shape:
        if not isinstance(axis, int) or weights.shape != (a.shape[axis],):
            raise refuse("np.average: weights have the shape of the array, or the length of its one axis.")
        weights = np.reshape(weights, [-1 if k == axis % a.ndim else 1 for k in range(a.ndim)])
        weights = np.broadcast_to(weights, a.shape)
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    result = np.sum(weights * a, axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


@implements(np.var)
def var(
    tape: Tape,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """The mean of the squared deviations, or their sum by the number of entries less `ddof`."""
    a = as_array(tape, a)
    centre = np.mean(a, axis=axis, keepdims=True, where=where) if mean is None else mean
    deviations = a - centre
    squares = fold(tape, ELEMENTWISE["add"], deviations * deviations, axis, keepdims, None, where)
    return squares / (_count(tape, a.shape, axis, where, keepdims) - (ddof if correction is None else correction))


@implements(np.std)
def std(
    tape: Tape,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    **options: Any,
) -> Any:
    """The square root of the variance."""
    return np.sqrt(var(tape, a, axis, dtype, out, ddof, keepdims, **options))


@implements(np.ptp)
def ptp(tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The greatest less the smallest entry."""
    greatest = fold(tape, ELEMENTWISE["maximum"], a, axis, keepdims)
    return greatest - fold(tape, ELEMENTWISE["minimum"], a, axis, keepdims)
