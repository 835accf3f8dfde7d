"""Functions whose results are places, orders or selections: what they find depends on values, and is decided.

What is sorted by few comparisons is sorted at every point, by choices. All else is found as at the given point and kept
as a guard (`accumulus.frontends.decisions`), one a call and line; it costs some comparisons at every point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.decisions import apply_each, keep, listed, truths, values_of, wholes
from accumulus.frontends.decisions import order as find_order
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.exchanging import exchanged
from accumulus.frontends.numpy.operands import References, concrete, depends, references_of
from accumulus.frontends.numpy.table import implements, unsupported
from accumulus.tape.tape import Tape

__all__ = ["MOST_MERGED", "interpolated", "nonzero", "sort"]

#: Entries that are sorted by choices, at most.
MOST_MERGED: Final = 8


def _decides(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `implements`, for what is refused where decisions are."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(record)
        def decided(*arguments: Any, **keywords: Any) -> Any:
            if ACTIVE.decisions is None:
                raise refuse(unsupported(functions[0]))
            return record(*arguments, **keywords)

        return implements(*functions)(decided)

    return enter


def _along(tape: Tape, a: Any, axis: int | None, find: Callable[[References], Any]) -> NDArray[np.int64]:
    """What is found for each line along an axis, which comes last; along all entries, if `axis` is None."""
    references = references_of(tape, a)
    lines = references.reshape(-1) if axis is None else np.moveaxis(references, axis, -1)
    found = [find(lines[k]) for k in np.ndindex(lines.shape[:-1])]
    return np.array(found, np.int64).reshape((*lines.shape[:-1], *(np.shape(found[0]) if found else ())))


# Orders --------------------------------------------------------------------------------------------------------------


@_decides(np.sort)
def sort(tape: Tape, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The entries along an axis, the smallest first."""
    a = np.ravel(a) if axis is None else as_array(tape, a)
    axis = -1 if axis is None else axis
    if a.shape[axis] > MOST_MERGED:
        return np.take_along_axis(a, argsort(tape, a, axis), axis)
    # what is not a number comes last
    columns = exchanged(list(np.moveaxis(a, axis, 0)), lambda one, other: (other < one) | np.isnan(one))
    return np.stack(columns, axis=axis) if columns else a


@_decides(np.argsort)
def argsort(
    tape: Tape, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """Places of the entries along an axis, that of the smallest first; of equal ones as they come."""
    found = _along(tape, a, axis, lambda line: find_order(tape, line))
    return found if axis is None else np.moveaxis(found, -1, axis)


@_decides(np.partition)
def partition(tape: Tape, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """As NumPy does it: smaller entries in front of the kth, larger ones behind."""
    a = np.ravel(a) if axis is None else as_array(tape, a)
    axis = -1 if axis is None else axis
    return np.take_along_axis(a, argpartition(tape, a, kth, axis), axis)


@_decides(np.argpartition)
def argpartition(tape: Tape, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The places of these; what NumPy does depends on the whole order, which is kept."""

    def find(line: References) -> NDArray[np.intp]:
        find_order(tape, line)
        return np.argpartition(values_of(tape, line), kth)

    found = _along(tape, a, axis, find)
    return found if axis is None else np.moveaxis(found, -1, axis)


@_decides(np.lexsort)
def lexsort(tape: Tape, keys: Any, axis: int = -1) -> Any:
    """Places in the order of the last key, of equal ones in that of the key before, and so on."""
    rows = [references_of(tape, key) for key in keys]
    if any(row.ndim > 1 for row in rows):
        raise refuse("np.lexsort is recorded for keys of one dimension.")
    numbers = [values_of(tape, row) for row in rows]
    if any(np.isnan(row).any() for row in numbers):
        raise refuse("np.lexsort: a key is NaN at the given point.")
    places = np.lexsort(numbers)
    checks: list[int] = []
    for a, b in pairwise(places.tolist()):
        for row, values in zip(reversed(rows), reversed(numbers), strict=True):
            less = bool(values[a] < values[b])
            checks.append(tape.apply("less" if less else "equal", int(row[a]), int(row[b])))
            if less:
                break
    keep(tape, np.array(checks, np.int64), listed("order", places))
    return places


@_decides(np.unique)
def unique(
    tape: Tape,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,  # noqa: A002  # NumPy's name
) -> Any:
    """The different entries in ascending order."""
    if axis is not None:
        raise refuse("np.unique(…, axis=…) is not recorded.")
    shape = np.shape(ar)
    references = references_of(tape, ar).reshape(-1)
    if np.isnan(values_of(tape, references)).any():
        raise refuse("np.unique: an entry is NaN at the given point.")
    places = np.array(find_order(tape, references), np.int64)
    sorted_references = references[places]
    differs = truths(tape, apply_each(tape, "not_equal", sorted_references[1:], sorted_references[:-1]))
    first = np.append(np.ones(min(len(places), 1), bool), differs)
    starts = np.flatnonzero(first)
    results: list[Any] = [TracedArray(tape, sorted_references[starts])]
    if return_index:
        results.append(places[starts])
    if return_inverse:
        inverse = np.empty(len(places), np.int64)
        inverse[places] = np.cumsum(first) - 1
        results.append(inverse.reshape(shape))
    if return_counts:
        results.append(np.diff(np.append(starts, len(places))))
    return results[0] if len(results) == 1 else tuple(results)


# Places --------------------------------------------------------------------------------------------------------------


def _enter_extreme(function: Callable[..., Any], at_numbers: Callable[..., Any], greatest: bool) -> None:
    @_decides(function)
    def record(tape: Tape, a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        def find(line: References) -> int:
            values = values_of(tape, line)
            place = int(at_numbers(values))
            before, best, after = line[:place], line[place : place + 1], line[place + 1 :]
            if np.isnan(values[place]):
                checks = [apply_each(tape, "not_equal", best, best), apply_each(tape, "equal", before, before)]
            else:
                sides = (("less", before), ("less_equal", after))
                checks = [
                    apply_each(tape, name, *((some, one) if greatest else (one, some)))
                    for name, some in sides
                    for one in [np.broadcast_to(best, some.shape)]
                ]
            keep(tape, np.concatenate(checks), f"place {place}")
            return place

        found = _along(tape, a, axis, find)
        if keepdims:
            found = found.reshape((1,) * np.ndim(a)) if axis is None else np.expand_dims(found, axis)
        return found if found.ndim else found[()]


_enter_extreme(np.argmax, np.argmax, True)
_enter_extreme(np.argmin, np.argmin, False)


@_decides(np.searchsorted)
def searchsorted(tape: Tape, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where numbers belong among sorted ones."""
    known = references_of(tape, a)
    if sorter is not None:
        known = known[concrete(sorter)]
    given = references_of(tape, v)
    ends, numbers = values_of(tape, known), values_of(tape, given)
    if np.isnan(ends).any() or (np.diff(ends) < 0).any():
        raise refuse("np.searchsorted: the entries to search among are not sorted at the given point.")
    places = np.asarray(np.searchsorted(ends, numbers, side))  # type: ignore[call-overload]
    flat, where = given.reshape(-1), places.reshape(-1)
    unknown = np.isnan(numbers.reshape(-1))
    above, below = (where > 0) & ~unknown, (where < len(known)) & ~unknown
    from_below, from_above = ("less", "less_equal") if side == "left" else ("less_equal", "less")
    checks = [
        apply_each(tape, from_below, known[where[above] - 1], flat[above]),
        apply_each(tape, from_above, flat[below], known[where[below]]),
        apply_each(tape, "not_equal", flat[unknown], flat[unknown]),
    ]
    keep(tape, np.concatenate(checks), listed("place", places))
    return places if places.ndim else places[()]


@_decides(np.digitize)
def digitize(tape: Tape, x: Any, bins: Any, right: bool = False) -> Any:
    """In which bin each number is."""
    ends = references_of(tape, bins)
    numbers = values_of(tape, ends)
    side = "left" if right else "right"
    if (np.diff(numbers) >= 0).all():
        return searchsorted(tape, bins, x, side)
    return len(ends) - searchsorted(tape, TracedArray(tape, ends[::-1]), x, side)


@_decides(np.bincount)
def bincount(tape: Tape, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each whole number is there, or the sums of weights."""
    places = wholes(tape, references_of(tape, x), "index") if depends(x) else np.asarray(concrete(x))
    if weights is None:
        return np.bincount(places, minlength=minlength)
    sums = as_array(tape, np.zeros(len(np.bincount(places, minlength=minlength))))
    np.add.at(sums, places, weights)
    return sums


# Selections ----------------------------------------------------------------------------------------------------------


@_decides(np.nonzero)
def nonzero(tape: Tape, a: Any) -> Any:
    """Places of what is not zero, an array an axis."""
    return np.nonzero(_mask(tape, a))


@_decides(np.flatnonzero)
def flatnonzero(tape: Tape, a: Any) -> Any:
    """Places of what is not zero in C order."""
    return np.flatnonzero(_mask(tape, a))


@_decides(np.argwhere)
def argwhere(tape: Tape, a: Any) -> Any:
    """Places of what is not zero, a row each."""
    return np.argwhere(_mask(tape, a))


@implements(np.count_nonzero)
def count_nonzero(tape: Tape, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many are not zero: counted at every point."""
    numbers = references_of(tape, TracedArray(tape, references_of(tape, a, boolean=True), boolean=True))
    return np.sum(TracedArray(tape, numbers), axis=axis, keepdims=keepdims)


@_decides(np.compress)
def compress(tape: Tape, condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """The entries, or slices along an axis, where a condition holds."""
    mask = _mask(tape, condition) if depends(condition) else np.asarray(concrete(condition), bool)
    return np.take(as_array(tape, a), np.flatnonzero(mask), axis)


@_decides(np.extract)
def extract(tape: Tape, condition: Any, arr: Any) -> Any:
    """The entries where a condition holds."""
    return compress(tape, np.ravel(condition), np.ravel(arr))


def _mask(tape: Tape, a: Any) -> NDArray[np.bool_]:
    """Which entries are not zero."""
    return truths(tape, references_of(tape, a, boolean=True))


# Tables --------------------------------------------------------------------------------------------------------------


def interpolated(tape: Tape, x: Any, knots: Any, values: Any, left: Any, right: Any) -> Any:
    """Piecewise linear interpolation, as np.interp does it, between the knots where x is."""
    first, last = values[0], values[-1]
    count = len(knots)
    places = np.asarray(searchsorted(tape, knots, x, "right"))
    below = np.clip(places, 1, max(count - 1, 1)) - 1
    above = np.minimum(below + 1, count - 1)
    slope = (values[above] - values[below]) / (knots[above] - knots[below]) if count > 1 else 0.0
    result = values[below] + slope * (x - knots[below])
    at_end = np.where(x > knots[-1], last if right is None else right, last) if (places == count).any() else last
    result = np.where(places == 0, first if left is None else left, np.where(places == count, at_end, result))
    return np.where(np.isnan(x), x, result)
