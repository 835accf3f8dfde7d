"""Reductions and statistics: sums, products, extremes, means, cumulative sums, medians, quantiles and covariances.

Sums are added from left to right; NumPy adds long lines pairwise, which differs only in rounding. Functions that ignore
NaN do so by selects, at every point. Medians and quantiles take entries that are sorted by compare-exchange steps of
selects, so that the program holds for every order. For Jacobian and Hessian matrices, more than `MOST_EXCHANGED`
entries are taken in their order at the given point, which is kept as a guard.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from accumulus.frontends.active import refuse
from accumulus.frontends.decisions import sorting_order
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.elementwise import ELEMENTWISE
from accumulus.frontends.numpy.operands import concrete, depends, references_of
from accumulus.frontends.numpy.ordering import exchanged, is_sorted_anywhere
from accumulus.frontends.numpy.table import by_name, implements
from accumulus.frontends.numpy.ufuncs import accumulate, fold
from accumulus.tape.tape import Tape

# Folds and means ------------------------------------------------------------------------------------------------------


def _enter_fold(row: str, *functions: Callable[..., Any]) -> None:
    @implements(*functions)
    @by_name
    def record(
        tape: Tape, a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        return fold(tape, ELEMENTWISE[row], a, axis, keepdims, initial, where)


def _enter_running(row: str, function: Callable[..., Any]) -> None:
    @implements(function)
    @by_name
    def record(tape: Tape, a: Any, axis: int | None = None) -> Any:
        operand = np.ravel(as_array(tape, a)) if axis is None else a
        return accumulate(tape, ELEMENTWISE[row], operand, axis or 0)


_enter_fold("add", np.sum)
_enter_fold("multiply", np.prod)
_enter_fold("maximum", np.max, np.amax)
_enter_fold("minimum", np.min, np.amin)
_enter_fold("logical_and", np.all)
_enter_fold("logical_or", np.any)
_enter_running("add", np.cumsum)
_enter_running("multiply", np.cumprod)


def _count(tape: Tape, shape: tuple[int, ...], axis: Any, where: Any, keepdims: bool) -> Any:
    """Return the number of entries along the axes that `where` selects; traced if `where` is a traced array."""
    if where is True:
        axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
        return math.prod(shape[k] for k in axes)
    meant = np.broadcast_to(np.where(where, 1.0, 0.0), shape)
    return fold(tape, ELEMENTWISE["add"], meant, axis, keepdims)


@implements(np.mean)
@by_name
def mean(tape: Tape, a: Any, axis: Any = None, keepdims: bool = False, where: Any = True) -> Any:
    """Return the mean: the sum divided by the number of entries."""
    a = as_array(tape, a)
    total = fold(tape, ELEMENTWISE["add"], a, axis, keepdims, None, where)
    return total / _count(tape, a.shape, axis, where, keepdims)


@implements(np.average)
def _average(
    tape: Tape, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Return the mean, or the weighted sum divided by the sum of the weights."""
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
@by_name
def _var(
    tape: Tape,
    a: Any,
    axis: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Return the sum of squared deviations from the mean, divided by the number of entries less `ddof`."""
    a = as_array(tape, a)
    centre = np.mean(a, axis=axis, keepdims=True, where=where) if mean is None else mean
    deviations = a - centre
    squares = fold(tape, ELEMENTWISE["add"], deviations * deviations, axis, keepdims, None, where)
    return squares / (_count(tape, a.shape, axis, where, keepdims) - (ddof if correction is None else correction))


@implements(np.std)
@by_name
@functools.wraps(_var)
def _std(*arguments: Any, **keywords: Any) -> Any:
    """Return the square root of the variance."""
    return np.sqrt(_var(*arguments, **keywords))


@implements(np.ptp)
@by_name
def _ptp(tape: Tape, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the difference of the largest and the smallest entry."""
    greatest = fold(tape, ELEMENTWISE["maximum"], a, axis, keepdims)
    return greatest - fold(tape, ELEMENTWISE["minimum"], a, axis, keepdims)


# Statistics that ignore NaN -------------------------------------------------------------------------------------------


def _enter_nan_sum(function: Callable[..., Any], of_all: Callable[..., Any], neutral: float) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, *arguments: Any, **keywords: Any) -> Any:
        a = as_array(tape, a)
        return of_all(np.where(np.isnan(a), neutral, a), *arguments, **keywords)


for _function, _of_all, _neutral in (
    (np.nansum, np.sum, 0.0),
    (np.nanprod, np.prod, 1.0),
    (np.nancumsum, np.cumsum, 0.0),
    (np.nancumprod, np.cumprod, 1.0),
):
    _enter_nan_sum(_function, _of_all, _neutral)


def _enter_nan_mean(function: Callable[..., Any], of_all: Callable[..., Any]) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, *arguments: Any, where: Any = True, **keywords: Any) -> Any:
        a = as_array(tape, a)
        there = np.logical_not(np.isnan(a))
        there = there if where is True else there & where
        # omitted entries are replaced by 0, since derivatives through NaN would be NaN
        return of_all(np.where(there, a, 0.0), *arguments, where=there, **keywords)


_enter_nan_mean(np.nanmean, np.mean)
_enter_nan_mean(np.nanvar, np.var)
_enter_nan_mean(np.nanstd, np.std)


def _enter_nan_extreme(function: Callable[..., Any], of_all: Callable[..., Any], worst: float) -> None:
    @implements(function)
    @by_name
    def record(tape: Tape, a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        a = as_array(tape, a)
        missing = np.isnan(a)
        options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
        extreme = of_all(np.where(missing, worst, a), **options, **({} if initial is None else {"initial": initial}))
        return extreme if initial is not None else np.where(np.all(missing, **options), np.nan, extreme)


_enter_nan_extreme(np.nanmax, np.max, -np.inf)
_enter_nan_extreme(np.nanmin, np.min, np.inf)


# Orders ---------------------------------------------------------------------------------------------------------------

#: Maximum number of entries of a line that is sorted by compare-exchange steps in any case: 8 take 19 steps, 16 take
#: 63. With fewer entries, more orders are cases of their own.
MOST_EXCHANGED: Final = 16


def in_order(tape: Tape, lines: Any) -> Any:
    """Return the entries along the last axis in ascending order; all are NaN if one is, as in medians."""
    if not is_sorted_anywhere(lines.shape, most=MOST_EXCHANGED):
        references = references_of(tape, lines).copy()
        for k in np.ndindex(references.shape[:-1]):
            references[k] = references[k][sorting_order(tape, references[k])]
        ordered: Any = TracedArray(tape, references)
        return np.where(np.isnan(ordered[..., -1:]), np.nan, ordered)
    (columns,) = exchanged([np.moveaxis(lines, -1, 0)], lambda one, other: other < one)
    return np.moveaxis(np.where(np.any(np.isnan(lines), axis=-1), np.nan, columns), 0, -1)


# Quantiles -----------------------------------------------------------------------------------------------------------

#: Method → position of the quantile q among n sorted entries, counted from 0 (Hyndman and Fan, 1996).
_PLACES: Final[dict[str, Callable[[float, int], float]]] = {
    "linear": lambda q, n: q * (n - 1),
    "lower": lambda q, n: np.floor(q * (n - 1)),
    "higher": lambda q, n: np.ceil(q * (n - 1)),
    "nearest": lambda q, n: np.rint(q * (n - 1)),
    "midpoint": lambda q, n: 0.5 * (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))),
    "interpolated_inverted_cdf": lambda q, n: n * q - 1.0,
    "hazen": lambda q, n: n * q - 0.5,
    "weibull": lambda q, n: (n + 1) * q - 1.0,
    "median_unbiased": lambda q, n: n * q + (q + 1.0) / 3.0 - 1.0,
    "normal_unbiased": lambda q, n: n * q + 0.25 * q + 0.375 - 1.0,
}


def _lines(tape: Tape, a: Any, axis: Any) -> tuple[Any, list[int]]:
    """Return `a` with the selected axes joined as the last one, and these axes."""
    a = as_array(tape, a)
    axes = list(range(a.ndim)) if axis is None else [k % a.ndim for k in np.atleast_1d(axis).tolist()]
    remaining = [k for k in range(a.ndim) if k not in axes]
    return a.transpose([*remaining, *axes]).reshape((*(a.shape[k] for k in remaining), -1)), axes


def _at_shares(tape: Tape, a: Any, q: Any, axis: Any, method: str, keepdims: bool, of_numbers: bool = False) -> Any:
    """Return quantiles along axes; with `of_numbers`, of the entries that are not NaN, whose number may vary."""
    if depends(q):
        raise refuse("Quantiles are recorded for constant q.")
    if method not in _PLACES:
        raise refuse(f"The method {method!r} of quantiles is not recorded; recorded are {', '.join(_PLACES)}.")
    shares = np.asarray(concrete(q), float)
    if not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise ValueError("Quantiles must be in the range [0, 1]")
    lines, axes = _lines(tape, a, axis)
    count = lines.shape[-1]
    if not count:
        raise IndexError("the quantiles of no entries")
    if of_numbers:
        missing = np.isnan(lines)
        ordered = in_order(tape, np.where(missing, np.inf, lines))  # missing entries come last
        present = np.sum(np.where(missing, 0.0, 1.0), axis=-1)
        results = []
        for share in shares.ravel().tolist():
            value: Any = np.nan
            for k in range(1, count + 1):
                value = np.where(present == k, _at_share(ordered, share, k, method), value)
            results.append(value)
    else:
        ordered = in_order(tape, lines)
        results = [_at_share(ordered, share, count, method) for share in shares.ravel().tolist()]
    shape: tuple[int, ...] = np.shape(results[0])
    if keepdims:
        shape = tuple(1 if k in axes else n for k, n in enumerate(np.shape(a)))
    stacked = np.reshape(np.stack(results), (*shares.shape, *shape))
    return stacked if stacked.ndim else stacked[()]


def _at_share(ordered: Any, share: float, count: int, method: str) -> Any:
    """Return one quantile of the first `count` entries of sorted lines."""
    position = min(max(float(_PLACES[method](share, count)), 0.0), count - 1.0)
    below = int(position)
    rest = position - below
    value = ordered[..., below]
    return value + (ordered[..., below + 1] - value) * rest if rest else value


def _enter_quantiles(function: Callable[..., Any], whole: float, of_numbers: bool = False) -> None:
    """Register a function of shares whose largest value is `whole`."""

    @implements(function)
    @by_name
    def record(tape: Tape, a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
        return _at_shares(tape, a, np.true_divide(q, whole), axis, method, keepdims, of_numbers)


_enter_quantiles(np.quantile, 1.0)
_enter_quantiles(np.percentile, 100.0)
_enter_quantiles(np.nanquantile, 1.0, of_numbers=True)
_enter_quantiles(np.nanpercentile, 100.0, of_numbers=True)


def _enter_median(function: Callable[..., Any], of_numbers: bool) -> None:
    @implements(function)
    @by_name
    def record(tape: Tape, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return _at_shares(tape, a, 0.5, axis, "linear", keepdims, of_numbers)


_enter_median(np.median, of_numbers=False)
_enter_median(np.nanmedian, of_numbers=True)


# Covariances ---------------------------------------------------------------------------------------------------------


@implements(np.cov)
@by_name
def _cov(
    tape: Tape,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    """Return the covariances of variables in rows, or in columns."""
    rows = _rows(tape, m, rowvar, True)
    if y is not None:
        rows = np.concatenate([rows, _rows(tape, y, rowvar, False)])
    count = rows.shape[1]
    correction = ddof if ddof is not None else 0 if bias else 1
    weights = 1.0 if fweights is None else as_array(tape, fweights)
    if aweights is not None:
        weights = weights * as_array(tape, aweights)
    if np.ndim(weights) == 0:
        centred = rows - np.mean(rows, axis=1, keepdims=True)
        result = centred @ np.conjugate(centred.T) / (count - correction)
    else:
        total = np.sum(weights)
        if aweights is None or not correction:
            divisor = total - correction
        else:
            divisor = total - correction * np.sum(weights * aweights) / total
        centred = rows - np.sum(rows * weights, axis=1, keepdims=True) / total
        result = centred @ np.conjugate((centred * weights).T) / divisor
    return np.squeeze(result) if result.size == 1 else result


def _rows(tape: Tape, values: Any, rowvar: bool, first: bool) -> Any:
    """Return a matrix with a row for each variable."""
    values = as_array(tape, values)
    if values.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    if values.ndim < 2:
        return np.reshape(values, (1, -1))
    return values if rowvar or (first and values.shape[0] == 1) else values.T


@implements(np.corrcoef)
@by_name
def _corrcoef(tape: Tape, x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """Return the correlations of variables in rows, or in columns."""
    covariances = _cov(tape, x, y, rowvar)
    if not np.ndim(covariances):
        return covariances / covariances
    deviations = np.sqrt(np.real(np.diagonal(covariances)))
    return np.clip(covariances / deviations[:, None] / deviations[None, :], -1.0, 1.0)
