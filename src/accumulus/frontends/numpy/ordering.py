"""Sorting and searching functions, and selections of entries by a traced mask.

Arrays are sorted at every point, if their Jacobian is not a matrix: selects compare and exchange pairs of entries, in
stages of pairs that do not overlap. For matrices, which would be full, longer arrays are sorted at the given point, and
their order is a guard (`accumulus.frontends.decisions`), as are positions. Each call and line has one guard, which
costs comparisons at every point.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import index
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.decisions import apply_each, keep, listed, truth, truths, values_at_point, whole, wholes
from accumulus.frontends.decisions import sorting_order as find_order
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.lookups import is_lookup, opens_indices
from accumulus.frontends.numpy.operands import concrete, depends, references_of
from accumulus.frontends.numpy.table import PROTOCOLS, implements, unsupported
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape

# Sorting at every point -----------------------------------------------------------------------------------------------


#: Largest number of exchanges, of all lines, by which arrays are sorted at every point. More take time and memory in
#: every call, fewer leave more orders that are cases of their own.
MOST_EXCHANGES: Final = 1_500_000
#: Maximum number of entries that are sorted by selects in any case. The selects grow with its square; with fewer
#: entries, more orders are cases of their own.
MOST_MERGED: Final = 8
#: Largest number of entries among which a position is computed at every point, by as many selects for each line.
MOST_COMPARED: Final = 64


def exchanges(count: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return stages of pairs to compare, in order: Batcher's merge exchange, 19 pairs in six stages for eight entries.

    References:
        D. Knuth, The Art of Computer Programming 3, algorithm 5.2.2M.

    >>> [list(zip(*map(np.ndarray.tolist, stage))) for stage in exchanges(3)]
    [[(0, 2)], [(0, 1)], [(1, 2)]]
    """
    stages = []
    top = step = 1 << (count - 1).bit_length() >> 1
    while step:
        reach, remainder, distance = top, 0, step
        while True:
            places = np.arange(count - distance)
            first = places[places & step == remainder]
            if len(first):
                stages.append((first, first + distance))
            if reach == step:
                break
            distance, remainder, reach = reach - step, step, reach >> 1
        step >>= 1
    return stages


def exchanged(tables: Sequence[Any], wrong: Callable[..., Any]) -> list[Any]:
    """Return arrays sorted along the first axis.

    Args:
        tables: arrays of equal shapes.
        wrong: function of the first entries of pairs, array by array, and of the second ones, that returns traced truth
            values: they must be exchanged.
    """
    result = [table.copy() for table in tables]
    for one, other in exchanges(len(result[0])):
        first, second = ([table[places] for table in result] for places in (one, other))
        swap = wrong(*first, *second)
        for table, before, after in zip(result, first, second, strict=True):
            table[one], table[other] = np.where(swap, after, before), np.where(swap, before, after)
    return result


def is_sorted_anywhere(shape: Sequence[int], axis: int = -1, most: int = MOST_MERGED) -> bool:
    """Return True if lines along an axis are sorted at every point; up to `most` entries are in any case."""
    count = shape[axis]
    if count <= most:
        return True
    decisions, stages = ACTIVE.decisions, (count - 1).bit_length()
    in_all = math.prod(shape) * stages * (stages + 1) // 4
    return in_all <= MOST_EXCHANGES and (decisions is None or decisions.opens_indices)


# Decided functions ----------------------------------------------------------------------------------------------------


def _decides(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a recorder as `implements` does; it raises an error where decisions are refused."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(record)
        def decided(*arguments: Any, **keywords: Any) -> Any:
            _check_decides(functions[0])
            return record(*arguments, **keywords)

        return implements(*functions)(decided)

    return enter


def _check_decides(function: Callable[..., Any]) -> None:
    """Raise an error where decisions are refused.

    Raises:
        TraceError: there.
    """
    if ACTIVE.decisions is None:
        raise refuse(unsupported(function))


def _along(tape: Tape, a: Any, axis: int | None, find: Callable[[References], Any]) -> NDArray[np.int64]:
    """Return ``find(line)`` for each line along an axis, in the last axes; for all entries if `axis` is None."""
    references = references_of(tape, a)
    lines = references.reshape(-1) if axis is None else np.moveaxis(np.atleast_1d(references), axis, -1)
    results = [find(lines[k]) for k in np.ndindex(lines.shape[:-1])]
    return np.array(results, np.int64).reshape((*lines.shape[:-1], *(np.shape(results[0]) if results else ())))


# Orders --------------------------------------------------------------------------------------------------------------


def _line_of(tape: Tape, a: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array and the axis along which it is ordered; the flattened array for no axis."""
    return (as_array(tape, np.ravel(a)), -1) if axis is None else (as_array(tape, a), axis)


@implements(np.sort)
def _sort(tape: Tape, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Return the entries along an axis in ascending order."""
    a, axis = _line_of(tape, a, axis)
    if not a.size:
        return a
    if not is_sorted_anywhere(a.shape, axis):
        return np.take_along_axis(a, _order(tape, a, axis), axis)
    # NaN comes last
    (columns,) = exchanged([np.moveaxis(a, axis, 0)], lambda one, other: (other < one) | np.isnan(one))
    return np.moveaxis(columns, 0, axis)


@implements(np.argsort)
def _argsort(
    tape: Tape, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """Return the positions of the entries along an axis in ascending order; the sort is stable."""
    a, axis = _line_of(tape, a, axis)
    if not (opens_indices(tape, a.size) and is_sorted_anywhere(a.shape, axis)):
        return _order(tape, a, axis)
    table = np.moveaxis(a, axis, 0)
    places = np.broadcast_to(np.arange(len(table)).reshape(-1, *(1,) * (table.ndim - 1)), table.shape)

    def wrong(one: Any, place: Any, other: Any, other_place: Any) -> Any:
        is_before = (other < one) | (np.isnan(one) & ~np.isnan(other))
        is_equal = (other == one) | (np.isnan(one) & np.isnan(other))
        return is_before | (is_equal & (other_place < place))

    return np.moveaxis(exchanged([table, as_array(tape, places.astype(float))], wrong)[1], 0, axis)


def _order(tape: Tape, a: Any, axis: int) -> NDArray[np.int64]:
    """Return the positions at the given point, whose order is kept as a guard."""
    _check_decides(np.argsort)
    return np.moveaxis(_along(tape, a, axis, lambda line: find_order(tape, line)), -1, axis)


@implements(np.partition)
def _partition(tape: Tape, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """Return entries with smaller ones before the kth, and larger ones after it; sorted, or in NumPy's order."""
    a, axis = _line_of(tape, a, axis)
    if is_sorted_anywhere(a.shape, axis, 1):
        np.partition(np.zeros(a.shape), kth, axis)  # raises NumPy's error for a wrong place
        return _sort(tape, a, axis)
    return np.take_along_axis(a, _argpartition(tape, a, kth, axis), axis)


@implements(np.argpartition)
def _argpartition(tape: Tape, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """Return the positions that partition the entries; the order is a guard, since NumPy's choice depends on it."""
    a, axis = _line_of(tape, a, axis)
    if opens_indices(tape, a.size) and is_sorted_anywhere(a.shape, axis):
        np.partition(np.zeros(a.shape), kth, axis)
        return _argsort(tape, a, axis)
    _check_decides(np.argpartition)

    def find(line: References) -> NDArray[np.intp]:
        find_order(tape, line)
        return np.argpartition(values_at_point(tape, line), kth)

    return np.moveaxis(_along(tape, a, axis, find), -1, axis)


@_decides(np.lexsort)
def _lexsort(tape: Tape, keys: Any, axis: int = -1) -> Any:
    """Return the positions that sort by the last key, with ties in the order of the key before it, and so on."""
    rows = [references_of(tape, key) for key in keys]
    if any(row.ndim > 1 for row in rows):
        raise refuse("np.lexsort is recorded for keys of one dimension.")
    numbers = [values_at_point(tape, row) for row in rows]
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
def _unique(
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
    """Return the distinct entries in ascending order."""
    if axis is not None:
        raise refuse("np.unique(…, axis=…) is not recorded.")
    shape = np.shape(ar)
    references = references_of(tape, ar).reshape(-1)
    if np.isnan(values_at_point(tape, references)).any():
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


# Positions -----------------------------------------------------------------------------------------------------------


def _place(a: Any, axis: int, greatest: bool) -> Any:
    """Return the places of extremes along an axis at every point: of the first NaN, or of the first of equal ones."""
    best, *others = np.moveaxis(a, axis, 0)
    place: Any = np.zeros(best.shape)
    for k, each in enumerate(others, 1):
        is_better = (each > best if greatest else each < best) | (np.isnan(each) & ~np.isnan(best))
        best, place = np.where(is_better, each, best), np.where(is_better, float(k), place)
    return place


def _enter_extreme(function: Callable[..., Any], greatest: bool) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        shape, axis = references_of(tape, a).shape, None if axis is None else index(axis)
        count = shape[axis] if axis is not None and -len(shape) <= axis < len(shape) else 0
        if axis is not None and 0 < count <= MOST_COMPARED and opens_indices(tape, math.prod(shape) // count):
            place = _place(as_array(tape, a), axis, greatest)
            return np.expand_dims(place, axis) if keepdims else place
        _check_decides(function)

        def find(line: References) -> int:
            values = values_at_point(tape, line)
            position = int(function(values))
            before, best, after = line[:position], line[position : position + 1], line[position + 1 :]
            if np.isnan(values[position]):
                checks = [apply_each(tape, "not_equal", best, best), apply_each(tape, "equal", before, before)]
            else:
                sides = (("less", before), ("less_equal", after))
                checks = [
                    apply_each(tape, name, *((some, one) if greatest else (one, some)))
                    for name, some in sides
                    for one in [np.broadcast_to(best, some.shape)]
                ]
            keep(tape, np.concatenate(checks), f"place {position}")
            return position

        positions = _along(tape, a, axis, find)
        if keepdims:
            positions = positions.reshape((1,) * np.ndim(a)) if axis is None else np.expand_dims(positions, axis)
        return positions if positions.ndim else positions[()]


_enter_extreme(np.argmax, True)
_enter_extreme(np.argmin, False)


@_decides(np.searchsorted)
def _searchsorted(tape: Tape, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the positions of numbers among sorted entries."""
    ordered = references_of(tape, a)
    if sorter is not None:
        ordered = ordered[concrete(sorter)]
    queries = references_of(tape, v)
    ends, numbers = values_at_point(tape, ordered), values_at_point(tape, queries)
    if np.isnan(ends).any() or (np.diff(ends) < 0).any():
        raise refuse("np.searchsorted: the entries to search among are not sorted at the given point.")
    places = np.asarray(np.searchsorted(ends, numbers, side))  # type: ignore[call-overload]
    flat, where = queries.reshape(-1), places.reshape(-1)
    unknown = np.isnan(numbers.reshape(-1))
    above, below = (where > 0) & ~unknown, (where < len(ordered)) & ~unknown
    from_below, from_above = ("less", "less_equal") if side == "left" else ("less_equal", "less")
    checks = [
        apply_each(tape, from_below, ordered[where[above] - 1], flat[above]),
        apply_each(tape, from_above, flat[below], ordered[where[below]]),
        apply_each(tape, "not_equal", flat[unknown], flat[unknown]),
    ]
    keep(tape, np.concatenate(checks), listed("place", places))
    return places if places.ndim else places[()]


@_decides(np.digitize)
def _digitize(tape: Tape, x: Any, bins: Any, right: bool = False) -> Any:
    """Return the bin of each number."""
    ends = references_of(tape, bins)
    numbers = values_at_point(tape, ends)
    side = "left" if right else "right"
    if (np.diff(numbers) >= 0).all():
        return _searchsorted(tape, bins, x, side)
    return len(ends) - _searchsorted(tape, TracedArray(tape, ends[::-1]), x, side)


@_decides(np.bincount)
def _bincount(tape: Tape, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Return the number of occurrences of each integer, or sums of weights."""
    if weights is not None and is_lookup(tape, x) and np.max(values_at_point(tape, references_of(tape, x))) < minlength:
        sums = as_array(tape, np.zeros(minlength))
        np.add.at(sums, x, weights)
        return sums
    places = wholes(tape, references_of(tape, x), "index") if depends(x) else np.asarray(concrete(x))
    if weights is None:
        return np.bincount(places, minlength=minlength)
    sums = as_array(tape, np.zeros(len(np.bincount(places, minlength=minlength))))
    np.add.at(sums, places, weights)
    return sums


# Selections ----------------------------------------------------------------------------------------------------------


def _enter_mask_positions(function: Callable[..., Any]) -> None:
    @_decides(function)
    def record(tape: Tape, a: Any) -> Any:
        return function(_mask(tape, a))


for _function in (np.nonzero, np.flatnonzero, np.argwhere):
    _enter_mask_positions(_function)


@implements(np.count_nonzero)
def _count_nonzero(tape: Tape, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the number of nonzero entries, counted at every point."""
    numbers = references_of(tape, TracedArray(tape, references_of(tape, a, boolean=True), boolean=True))
    return np.sum(TracedArray(tape, numbers), axis=axis, keepdims=keepdims)


@_decides(np.compress)
def _compress(tape: Tape, condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the entries, or slices along an axis, for which a condition holds."""
    mask = _mask(tape, condition) if depends(condition) else np.asarray(concrete(condition), bool)
    return np.take(as_array(tape, a), np.flatnonzero(mask), axis)


_decides(np.extract)(lambda tape, condition, arr: _compress(tape, np.ravel(condition), np.ravel(arr)))


def _mask(tape: Tape, a: Any) -> NDArray[np.bool_]:
    """Return the mask of nonzero entries at the given point, kept as a guard."""
    return truths(tape, references_of(tape, a, boolean=True))


# Tables --------------------------------------------------------------------------------------------------------------


def interpolated(tape: Tape, x: Any, knots: Any, values: Any, left: Any, right: Any) -> Any:
    """Return piecewise linear interpolation like ``np.interp``; the segment at the given point is kept as a guard.

    At constant points between constant knots, there is nothing to be decided.
    """
    first, last = values[0], values[-1]
    count = len(knots)
    if depends(x) or depends(knots):
        places = np.asarray(_searchsorted(tape, knots, x, "right"))
    else:
        x, knots = concrete(x), concrete(knots)
        places = np.asarray(np.searchsorted(knots, x, "right"))
    below = np.clip(places, 1, max(count - 1, 1)) - 1
    above = np.minimum(below + 1, count - 1)
    slope = (values[above] - values[below]) / (knots[above] - knots[below]) if count > 1 else 0.0
    result = values[below] + slope * (x - knots[below])
    at_end = last
    if (places == count).any():  # the last knot has the derivative of the last segment
        at_end = np.where(x > knots[-1], last if right is None else right, last + slope * (x - knots[-1]))
    result = np.where(places == 0, first if left is None else left, np.where(places == count, at_end, result))
    return np.where(np.isnan(x), x, result)


#: Products of two vectors.
_PRODUCTS: Final = frozenset({np.dot, np.vdot, np.inner})
#: Elementwise functions of one array that are not universal functions.
_ELEMENTWISE: Final = frozenset({np.clip, np.round, np.around, np.nan_to_num, np.zeros_like, np.ones_like, np.copy})
#: Functions that need no entries, and the attribute that each returns.
_ATTRIBUTES: Final = {np.ndim: "ndim", np.shape: "shape", np.size: "size"}


class MaskedEntries(TracedArray):
    """Entries of an array that a traced mask selects, ``u[u > 0]``, without deciding which ones these are.

    The number of entries depends on values, but operations on them often do not: ``du[m] = g(u[m])`` and
    ``np.sum(u[m])`` are the same at every point, if all entries are computed and the mask selects at the end. A
    selection therefore keeps all entries and its mask. Elementwise functions of selections with the same mask are
    selections. Sums and products of all entries, and assignments to the same positions, become selects. Any other
    operation (access to an entry, another mask, another axis) settles the selection: the mask is decided as at the
    given point, kept as a guard, and the selection becomes an ordinary array. The length alone is a guard on the number
    of entries only.

    Args:
        everything: array with all entries.
        mask: references of truth values, for the leading axes.
    """

    __slots__ = ("_settled", "everything", "mask")

    def __init__(self, everything: TracedArray, mask: References) -> None:
        self.tape = everything.tape
        self.boolean = everything.boolean
        self.everything = everything
        self.mask = mask
        #: References of the selected entries after it is settled; None before.
        self._settled: References | None = None

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """True if the mask is not decided yet."""
        return self._settled is None

    @property
    def references(self) -> References:
        """References of the selected entries; access settles the selection."""
        if self._settled is None:
            self._settled = self.everything.references[truths(self.tape, self.mask)]
        return self._settled

    @references.setter
    def references(self, references: References) -> None:
        self._settled = references

    @property
    def ndim(self) -> int:
        """Number of axes."""
        if self._settled is not None:
            return self._settled.ndim
        return self.everything.ndim - self.mask.ndim + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis; the first is the number of selected entries at the given point."""
        if self._settled is not None:
            return self._settled.shape
        return (self._count(), *self.everything.shape[self.mask.ndim :])

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self.references = self.references.reshape(shape, copy=False)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def copy(self, order: str = "C") -> TracedArray:
        """Return a copy that can be written to."""
        return self._with(self.everything.copy()) if self.is_open else super().copy(order)

    def is_selection_by(self, mask: References) -> bool:
        """Return True if this is an open selection by the given mask."""
        return self.is_open and (self.mask is mask or np.array_equal(self.mask, mask))

    def __getitem__(self, index: Any) -> Any:
        rest = index[1:] if isinstance(index, tuple) else ()
        if not self.is_open or not rest or index[0] != slice(None) or any(x is None or x is ... for x in rest):
            return super().__getitem__(index)
        return self._with(self.everything[(*(slice(None),) * self.mask.ndim, *rest)])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.pop("out", ())
        first = next((x for x in inputs if isinstance(x, MaskedEntries)), self)
        targets = [x for x in out if x is not None]
        if ufunc is np.matmul and isinstance(inputs[0], MaskedEntries) and not (out or keywords):
            product = inputs[0].without_deciding(np.dot, inputs, {})
            if product is not NotImplemented:
                return product
        if (
            method != "__call__"
            or ufunc.signature is not None
            or keywords
            or ACTIVE.merging
            or not all(map(first._goes_with, inputs))
            or not all(isinstance(x, MaskedEntries) and x.is_selection_by(first.mask) for x in targets)
        ):
            return super().__array_ufunc__(ufunc, method, *inputs, **keywords, **({"out": out} if targets else {}))
        result = ufunc(*(x.everything if isinstance(x, MaskedEntries) else x for x in inputs))
        if targets:
            (target,) = targets
            target.everything = result
            return target
        return tuple(map(first._with, result)) if isinstance(result, tuple) else first._with(result)

    def without_deciding(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """Return the result of an array function on the open selection; NotImplemented if it needs a decision."""
        if function in _ATTRIBUTES and len(arguments) == 1:
            return getattr(self, _ATTRIBUTES[function])
        if ACTIVE.merging or not all(map(self._goes_with, arguments)):
            return NotImplemented
        if function in _ELEMENTWISE and all(map(self._goes_with, keywords.values())):
            operands = [x.everything if isinstance(x, MaskedEntries) else x for x in arguments]
            return self._with(function(*operands, **keywords))
        if function in _PRODUCTS and len(arguments) == 2 and not keywords:
            one, other = arguments
            return (
                np.sum(one * other) if isinstance(other, MaskedEntries) and one.everything.ndim == 1 else NotImplemented
            )
        fold = _FOLDS.get(function)
        if fold is None or len(arguments) > 1 or keywords or self.everything.ndim > self.mask.ndim:
            return NotImplemented
        return fold(self, TracedArray(self.tape, self.mask, boolean=True))

    def _goes_with(self, operand: Any) -> bool:
        """Return True if an operand is selected by the same mask, or is constant along the selected axes."""
        if isinstance(operand, MaskedEntries):
            return operand.is_selection_by(self.mask)
        return self.is_open and np.ndim(operand) <= self.everything.ndim - self.mask.ndim

    def _with(self, everything: Any) -> MaskedEntries:
        return MaskedEntries(everything, self.mask)

    def _count(self) -> int:
        """Return the number of selected entries at the given point, and keep it as a guard."""
        count = np.sum(TracedArray(self.tape, self.mask, boolean=True))
        return whole(self.tape, count.entries, "index")


def _filled(selection: MaskedEntries, mask: TracedArray, neutral: float) -> Any:
    return np.where(mask, selection.everything, neutral)


def _extreme_of_selected(function: Callable[[Any], Any], neutral: float) -> Callable[[MaskedEntries, TracedArray], Any]:
    def fold(selection: MaskedEntries, mask: TracedArray) -> Any:
        some: Any = np.any(mask)
        if not (truth(selection.tape, some.entries) if depends(some) else some):  # NumPy raises for none
            return function(np.zeros(0))
        return function(_filled(selection, mask, neutral))

    return fold


#: Reductions of all entries, as functions of the selection and its mask.
_FOLDS: Final[dict[Any, Callable[[MaskedEntries, TracedArray], Any]]] = {
    np.sum: lambda selection, mask: np.sum(_filled(selection, mask, 0.0)),
    np.prod: lambda selection, mask: np.prod(_filled(selection, mask, 1.0)),
    np.mean: lambda selection, mask: np.sum(_filled(selection, mask, 0.0)) / np.sum(mask),
    np.var: lambda selection, mask: np.mean((selection - np.mean(selection)) ** 2),
    np.std: lambda selection, mask: np.sqrt(np.var(selection)),
    np.linalg.norm: lambda selection, mask: np.linalg.norm(_filled(selection, mask, 0.0)),
    np.any: lambda selection, mask: np.any(np.logical_and(mask, selection.everything)),
    np.all: lambda selection, mask: np.all(np.logical_or(np.logical_not(mask), selection.everything)),
    **dict.fromkeys((np.max, np.amax), _extreme_of_selected(np.max, -np.inf)),
    **dict.fromkeys((np.min, np.amin), _extreme_of_selected(np.min, np.inf)),
}


def _make_selection(tape: Tape, everything: TracedArray, mask: References, keywords: Any) -> MaskedEntries:
    return MaskedEntries(everything.copy(), mask)


def _without_deciding(tape: Tape, function: Any, arguments: Any, keywords: Any) -> Any:
    return arguments[0].without_deciding(function, arguments, keywords)


PROTOCOLS.update({"selection": _make_selection, "without deciding": _without_deciding})
