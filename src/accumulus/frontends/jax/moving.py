"""Primitives that move or join entries, reductions, products, sorting, and windows over arrays.

Entries are moved by NumPy's functions on arrays of references. If an index depends on the function's arguments and can
take few values, the result is computed for each value and selected. If it can take many, its value at the given point
is used and kept as a guard.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.decisions import sorting_order, whole
from accumulus.frontends.jax.equations import Equation, is_constant, records
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.lookups import is_lookup
from accumulus.frontends.numpy.operands import concrete, depends, references_of
from accumulus.frontends.numpy.products import contract

#: Primitives that update entries → function that joins old and new entries; None for replacement.
SCATTERS: Final[dict[str, Any]] = {
    "scatter": None,
    **dict.fromkeys(("scatter-add", "scatter_add"), np.add),
    **dict.fromkeys(("scatter-sub", "scatter_sub"), np.subtract),
    **dict.fromkeys(("scatter-mul", "scatter_mul"), np.multiply),
    **dict.fromkeys(("scatter-min", "scatter_min"), np.minimum),
    **dict.fromkeys(("scatter-max", "scatter_max"), np.maximum),
}
#: Maximum number of positions among which a traced index selects. A larger number takes as many selects; with a smaller
#: one, more indices are decisions, and each of their values is a case of its own.
MOST_PLACES: Final = 64


def _moved(call: Equation, function: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function that moves entries to an array or to its references; for several results, return a list."""
    if is_constant(x):
        return function(x)
    moved = function(references_of(call.tape, x, x.boolean))
    if isinstance(moved, list):
        return [TracedArray(call.tape, entries, boolean=x.boolean) for entries in moved]
    return TracedArray(call.tape, np.asarray(moved), boolean=x.boolean)


def _joined(call: Equation, parts: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function that moves entries of several arrays to the arrays or to their references."""
    if all(map(is_constant, parts)):
        return function(parts)
    boolean = call.operands[0] == "b"
    references = function([references_of(call.tape, operand, boolean) for operand in parts])
    return TracedArray(call.tape, references, boolean=boolean)


def _spread(entries: Any, shape: tuple[int, ...], axes: Any) -> Any:
    """Return an array broadcast along given axes of a larger shape."""
    lengths = dict(zip(axes, entries.shape, strict=True))
    return np.broadcast_to(entries.reshape([lengths.get(k, 1) for k in range(len(shape))]), shape)


def _sliced(call: Equation, entries: Any) -> Any:
    begins, ends = call.params["start_indices"], call.params["limit_indices"]
    steps = call.params["strides"] or (1,) * len(begins)
    return entries[tuple(map(slice, begins, ends, steps))]


#: Primitives that move the entries of an array → function of the call and of the array or its references.
MOVES: Final[dict[str, Callable[[Equation, Any], Any]]] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), lambda call, x: x.reshape(call.shapes[0])),
    "transpose": lambda call, x: x.transpose(call.params["permutation"]),
    "rev": lambda call, x: np.flip(x, call.params["dimensions"]),
    "broadcast_in_dim": lambda call, x: _spread(x, call.shapes[0], call.params["broadcast_dimensions"]),
    "tile": lambda call, x: np.tile(x, call.params["reps"]),
    "slice": _sliced,
    "split": lambda call, x: np.split(x, np.cumsum(call.params["sizes"])[:-1], call.params["axis"]),
    "unstack": lambda call, x: list(np.moveaxis(x, call.params["axis"], 0)),
}
#: Primitives that join several arrays into one.
JOINS: Final[dict[str, Callable[[Equation, Any], Any]]] = {
    "concatenate": lambda call, parts: np.concatenate(parts, call.params["dimension"]),
    "stack": lambda call, parts: np.stack(parts, call.params["axis"]),
    "pad": lambda call, parts: _padded(parts[0], parts[1], call.params["padding_config"]),
}


@records(*MOVES)
def _move(call: Equation, x: Any, *_: Any) -> Any:
    return _moved(call, lambda entries: MOVES[call.name](call, entries), x)


@records(*JOINS)
def _join(call: Equation, *parts: Any) -> Any:
    return _joined(call, parts, lambda entries: JOINS[call.name](call, entries))


def _padded(entries: Any, filling: Any, config: Any) -> Any:
    """Pad an array before, after and between its entries; negative widths remove entries."""
    for axis, (low, high, inside) in enumerate(config):
        length = entries.shape[axis]
        inner = max(length + inside * (length - 1), 0)
        shape = list(entries.shape)
        shape[axis] = max(low, 0) + inner + max(high, 0)
        result = np.empty(shape, entries.dtype)
        result[...] = filling
        window: list[Any] = [slice(None)] * entries.ndim
        window[axis] = slice(max(low, 0), max(low, 0) + inner, inside + 1)
        result[tuple(window)] = entries
        window[axis] = slice(max(-low, 0), shape[axis] - max(-high, 0))
        entries = result[tuple(window)]
    return entries


@records("iota")
def _iota(call: Equation, *_: Any) -> Any:
    shape, axis = call.shapes[0], call.params["dimension"]
    return _spread(np.arange(shape[axis]), shape, (axis,))


# Lookups with traced indices ------------------------------------------------------------------------------------------


@records("dynamic_slice", "dynamic_update_slice")
def _dynamic_slice(call: Equation, x: Any, *operands: Any) -> Any:
    """Return a window of an array, or the array with the window replaced by `update`."""
    update, starts = (None, operands) if call.name == "dynamic_slice" else (operands[0], operands[1:])
    sizes = call.params["slice_sizes"] if update is None else np.shape(update)
    most = [length - size for length, size in zip(np.shape(x), sizes, strict=True)]

    def at(places: tuple[int, ...]) -> Any:
        window = tuple(slice(start, start + size) for start, size in zip(places, sizes, strict=True))

        def change(parts: Any) -> Any:
            result = parts[0].copy()
            result[window] = parts[1]
            return result

        return (
            _moved(call, lambda entries: entries[window], x) if update is None else _joined(call, (x, update), change)
        )

    return _by_cases(at, starts, most)


def _by_cases(at: Callable[[tuple[int, ...]], Any], starts: Any, most: list[int]) -> Any:
    """Return ``at(starts)`` for start positions, each clipped to the range from 0 to its value in `most`."""
    begins = [
        start if not is_constant(start) else int(np.clip(start, 0, last))
        for start, last in zip(starts, most, strict=True)
    ]
    axis = next((k for k, start in enumerate(begins) if not isinstance(start, int)), None)
    if axis is None:
        return at(tuple(begins))

    def of(position: int) -> Any:
        rest = [np.asarray(start) if isinstance(start, int) else start for start in begins]
        return _by_cases(at, [*rest[:axis], np.asarray(position), *rest[axis + 1 :]], most)

    if most[axis] >= MOST_PLACES:
        return of(int(_decided(begins[axis])))
    return _one_of(begins[axis], most[axis], of)


def _one_of(number: Any, last: int, of: Callable[[int], Any]) -> Any:
    """Return ``of(number)`` for a traced number from 0 to `last`, selected from the results for all these numbers."""
    result = of(0)
    for candidate in range(1, last + 1):
        result = np.where(np.greater_equal(number, candidate), of(candidate), result)
    return result


def _is_inside(number: Any, last: int) -> Any:
    return np.logical_and(np.less(-1, number), np.less_equal(number, last))


def _decided(indices: Any) -> NDArray[np.int64]:
    """Return indices at the given point, and keep them as guards."""
    numbers = [whole(indices.tape, reference) for reference in indices.references.reshape(-1).tolist()]
    return np.array(numbers, np.int64).reshape(indices.shape)


@records("gather")
def _gather(call: Equation, x: Any, indices: Any) -> Any:
    numbers, sizes = call.params["dimension_numbers"], call.params["slice_sizes"]
    windows = _axes_left(np.ndim(x), numbers.collapsed_slice_dims, numbers.operand_batching_dims)

    def at(constant: Any) -> Any:
        places, inside = _positions(
            np.shape(x),
            np.asarray(constant),
            numbers.start_index_map,
            dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)),
            windows,
            [sizes[axis] for axis in windows],
        )
        count = len(windows)
        turned = [np.moveaxis(a, range(a.ndim - count, a.ndim), numbers.offset_dims) for a in (places, inside)]
        mode = _mode(call)
        gathered = _moved(call, lambda entries: entries.reshape(-1)[turned[0]] if entries.size else turned[0] * 0, x)
        if mode != "FILL_OR_DROP" or turned[1].all():
            return gathered
        return np.where(turned[1], gathered, _filling(call))

    if is_constant(indices):
        return at(indices)
    axes = numbers.start_index_map
    if is_lookup(indices.tape, indices) and not numbers.operand_batching_dims:
        rows = _looked_up(x, indices, axes, sizes, windows)
        if rows is not None:
            return np.moveaxis(rows, range(rows.ndim - len(windows), rows.ndim), numbers.offset_dims)
    if np.shape(indices)[-1] != 1 or np.shape(x)[axes[0]] - sizes[axes[0]] >= MOST_PLACES:
        return at(_decided(indices))
    last = np.shape(x)[axes[0]] - sizes[axes[0]]
    batch = tuple(k for k in range(len(call.shapes[0])) if k not in numbers.offset_dims)
    chosen = _moved(call, lambda entries: _spread(entries[..., 0], call.shapes[0], batch), indices)
    result = _one_of(chosen, last, lambda candidate: at(np.full(np.shape(indices), candidate)))
    return np.where(_is_inside(chosen, last), result, _filling(call)) if _mode(call) == "FILL_OR_DROP" else result


def _looked_up(x: Any, indices: Any, axes: Sequence[int], sizes: Sequence[int], windows: Sequence[int]) -> Any:
    """Return entries along one axis at traced indices, index axes first; None for any other form of lookup.

    Args:
        x: array to index.
        indices: indices, of shape (…, number of named axes).
        axes: axes that the indices name.
        sizes: length of the window along each axis.
        windows: axes of the array that the result retains.
    """
    columns = [indices[..., k] for k in range(len(axes))]
    (axis, places), *rest = [pair for pair in zip(axes, columns, strict=True) if depends(pair[1])]
    starts = {k: np.unique(concrete(each)) for k, each in zip(axes, columns, strict=True) if k != axis}
    if rest or sizes[axis] != 1 or axis in windows or any(len(start) != 1 for start in starts.values()):
        return None
    begins = [min(max(int(starts[k][0]), 0), n - sizes[k]) if k in starts else 0 for k, n in enumerate(np.shape(x))]
    spans = zip(begins, sizes, strict=True)
    within = tuple(slice(None) if k == axis else slice(begin, begin + n) for k, (begin, n) in enumerate(spans))
    moved = np.moveaxis(as_array(indices.tape, x)[within], axis, 0)
    try:
        return moved.reshape(np.shape(x)[axis], *(sizes[k] for k in windows))[places]
    except IndexError:  # JAX clips indices or fills instead
        return None


def _filling(call: Equation) -> Any:
    """Return the value of entries outside of the array."""
    value = call.params["fill_value"]
    if value is not None:
        return value
    return np.nan if call.kinds[0] == "f" else call.kinds[0] == "b" if call.kinds[0] in "bu" else np.iinfo(np.int64).min


def _mode(call: Equation) -> str:
    return str(call.params["mode"].name)


def _axes_left(count: int, *without: Any) -> list[int]:
    gone = {axis for axes in without for axis in axes}
    return [axis for axis in range(count) if axis not in gone]


def _positions(
    shape: tuple[int, ...],
    indices: NDArray[Any],
    named: Any,
    batching: dict[int, int],
    windows: list[int],
    sizes: list[int],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the flat positions, in C order, of the entries of an array in windows at the given indices.

    Args:
        shape: shape of the array.
        indices: array of shape (…, number of named axes).
        named: axes of the array that the last axis of `indices` refers to, in order.
        batching: axes of the array → batch axis of the indices.
        windows: axes of the array along which windows extend.
        sizes: extents of the windows along each axis.

    Returns:
        Positions, with windows clipped to the array, and True for windows that are inside of it; both of shape
        (…, *sizes).
    """
    ahead = indices.shape[:-1]
    extents = dict(zip(windows, sizes, strict=True))
    places = np.zeros((*ahead, *sizes), np.int64)
    inside = np.ones((*ahead, *sizes), bool)
    behind = (1,) * len(sizes)
    stride = 1
    for axis in reversed(range(len(shape))):
        start = np.zeros(ahead, np.int64)
        if axis in named:
            start = np.asarray(indices[..., list(named).index(axis)], np.int64)
        elif axis in batching:
            start = _spread(np.arange(ahead[batching[axis]]), ahead, (batching[axis],))
        last = shape[axis] - extents.get(axis, 1)
        inside &= ((start >= 0) & (start <= last)).reshape(ahead + behind)
        along = np.clip(start, 0, max(last, 0)).reshape(ahead + behind)
        if axis in extents:
            window = windows.index(axis)
            offsets = np.arange(extents[axis]).reshape([-1 if k == window else 1 for k in range(len(sizes))])
            along = along + offsets
        places += along * stride
        stride *= shape[axis]
    return places, inside


# Updates of entries ---------------------------------------------------------------------------------------------------


@records(*SCATTERS)
def _scatter(call: Equation, x: Any, indices: Any, updates: Any) -> Any:
    numbers = call.params["dimension_numbers"]
    windows = _axes_left(np.ndim(x), numbers.inserted_window_dims, numbers.operand_batching_dims)
    of_updates = numbers.update_window_dims
    sizes = [np.shape(updates)[axis] for axis in of_updates]
    order = [*_axes_left(np.ndim(updates), of_updates), *of_updates]
    function = SCATTERS[call.name]

    def at(constant: Any) -> Any:
        places, inside = _positions(
            np.shape(x),
            np.asarray(constant),
            numbers.scatter_dims_to_operand_dims,
            dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)),
            windows,
            sizes,
        )
        selected = inside if _mode(call) != "CLIP" else np.ones_like(inside)
        values = _moved(call, lambda entries: entries.transpose(order)[selected], updates)
        return _changed(call, x, places[selected], values, function)

    if is_constant(indices):
        return at(indices)
    axes = numbers.scatter_dims_to_operand_dims
    if np.size(indices) != 1 or len(axes) != 1 or np.shape(x)[axes[0]] > MOST_PLACES:
        return at(_decided(indices))
    last = np.shape(x)[axes[0]] - (sizes[windows.index(axes[0])] if axes[0] in windows else 1)
    which = np.reshape(indices, ())
    result = _one_of(which, last, lambda candidate: at(np.full(np.shape(indices), candidate)))
    return np.where(_is_inside(which, last), result, x) if _mode(call) != "CLIP" else result


def _changed(call: Equation, x: Any, places: NDArray[np.int64], values: Any, function: Any) -> Any:
    """Return an array with the entries at some positions replaced by values, or joined with them by `function`."""
    shape = np.shape(x)
    if is_constant(x) and is_constant(values):
        result = np.array(x).reshape(-1)
        if function is None:
            result[places] = values
        else:
            function.at(result, places, values)
        return result.reshape(shape)
    boolean = call.kinds[0] == "b"
    references = references_of(call.tape, x, boolean).reshape(-1).copy()
    if function is None:
        references[places] = references_of(call.tape, values, boolean)
        return TracedArray(call.tape, references.reshape(shape), boolean=boolean)
    changed = TracedArray(call.tape, references, boolean=boolean)
    if function in (np.maximum, np.minimum):  # equal values for one place share the derivative in equal parts
        order = np.argsort(places, axis=None, kind="stable")
        entries = np.ravel(references_of(call.tape, values))[order]
        numbers, starts, counts = np.unique(places.reshape(-1)[order], return_index=True, return_counts=True)
        for count in np.unique(counts).tolist():
            at = counts == count
            among = entries[starts[at][:, np.newaxis] + np.arange(count)]
            candidates = np.concatenate([references[numbers[at]][:, np.newaxis], among], axis=1)
            extremes = function.reduce(TracedArray(call.tape, candidates), axis=1)
            references[numbers[at]] = references_of(call.tape, extremes)
        return TracedArray(call.tape, references.reshape(shape))
    function.at(changed, places, values)
    return TracedArray(call.tape, changed.references.reshape(shape), boolean=boolean)


# Sums, extremes, products and sorting ---------------------------------------------------------------------------------

#: Maximum number of entries along an axis that a network of comparisons sorts. The network grows with the square of
#: this number; with a smaller one, the order of more arrays is a decision, and fewer are sorted by several keys.
MOST_SORTED: Final = 32

REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "reduce_sum": np.add,
    "reduce_prod": np.multiply,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
    "reduce_and": np.logical_and,
    "reduce_or": np.logical_or,
}
RUNNING: Final[dict[str, np.ufunc]] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}


@records(*REDUCTIONS)
def _reduce(call: Equation, x: Any) -> Any:
    ufunc, axes = REDUCTIONS[call.name], tuple(call.params["axes"])
    if call.operands[0] in "iu" and ufunc in (np.logical_and, np.logical_or):
        raise refuse(f"JAX's {call.name} of integers works on their bits, which is not recorded.")
    if not x.size and ufunc in (np.maximum, np.minimum):
        return ufunc.reduce(x, axis=axes, initial=-np.inf if ufunc is np.maximum else np.inf)
    return ufunc.reduce(x, axis=axes) if axes else x


@records(*RUNNING)
def _accumulate(call: Equation, x: Any) -> Any:
    ufunc, axis = RUNNING[call.name], call.params["axis"]
    along = np.moveaxis(np.flip(x, axis) if call.params["reverse"] else x, axis, 0)
    is_extreme = ufunc in (np.maximum, np.minimum) and not is_constant(x)
    result = np.moveaxis(_running_extremes(ufunc, along) if is_extreme else ufunc.accumulate(along, axis=0), 0, axis)
    return np.flip(result, axis) if call.params["reverse"] else result


def _running_extremes(ufunc: np.ufunc, x: Any) -> Any:
    """Return running extremes along the first axis, in JAX's order, by which equal values share the derivative."""
    count = len(x)
    if count < 2:
        return x
    odd = _running_extremes(ufunc, ufunc(x[:-1:2], x[1::2]))
    even = ufunc(odd[: (count - 1) // 2], x[2::2])
    result = np.empty(x.shape, np.int64)
    result[0], result[1::2] = references_of(x.tape, x[0]), references_of(x.tape, odd)
    result[2::2] = references_of(x.tape, even)
    return TracedArray(x.tape, result)


@records("argmax", "argmin", folds=False)
def _extreme_position(call: Equation, x: Any) -> Any:
    """Return the position of the first largest or smallest entry, by one comparison for each entry."""
    (axis,) = call.params["axes"]
    entries = np.moveaxis(x, axis, 0)
    better = np.greater if call.name == "argmax" else np.less
    best: Any = entries[0]
    position: Any = np.zeros(np.shape(best))
    for k in range(1, len(entries)):
        chosen = better(entries[k], best)
        best, position = np.where(chosen, entries[k], best), np.where(chosen, float(k), position)
    return position


# Products of arrays -----------------------------------------------------------------------------------------------


@records("dot_general", folds=False)
def _dot_general(call: Equation, x: Any, y: Any) -> Any:
    (summed_x, summed_y), (batch_x, batch_y) = call.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    first = [next(letters) for _ in range(np.ndim(x))]
    second = [next(letters) for _ in range(np.ndim(y))]
    for i, j in (*zip(batch_x, batch_y, strict=True), *zip(summed_x, summed_y, strict=True)):
        second[j] = first[i]
    gone = {first[i] for i in summed_x}
    batch = [first[i] for i in batch_x]
    result = [*batch, *(label for label in (*first, *second) if label not in gone and label not in batch)]
    return sum_of_products(call, [(x, "".join(first)), (y, "".join(second))], "".join(result))


def sum_of_products(call: Equation, operands: list[tuple[Any, str]], result: str) -> Any:
    """Return a sum of products with labelled axes, as ``np.einsum``, summed over all labels outside of `result`."""
    labelled = [(references_of(call.tape, x), labels) for x, labels in operands]
    return TracedArray(call.tape, np.asarray(contract(call.tape, labelled, result), np.int64))


# Sorting ----------------------------------------------------------------------------------------------------------


@records("sort", folds=False)
def _sort(call: Equation, *operands: Any) -> Any:
    return _sorted(operands, call.params["dimension"], call.params["num_keys"])


@records("top_k", folds=False)
def _top_k(call: Equation, x: Any) -> Any:
    count = call.params["k"]
    places = np.broadcast_to(np.arange(np.shape(x)[-1]), np.shape(x))
    smallest, order = _sorted((np.negative(x), places), np.ndim(x) - 1, 1)
    return [np.negative(smallest[..., :count]), order[..., :count]]


def _sorted(operands: Any, axis: int, keys: int) -> list[Any]:
    """Sort operands by the first `keys` of them, by odd-even transposition in as many rounds as entries."""
    length = np.shape(operands[0])[axis]
    if length > MOST_SORTED and keys == 1 and not is_constant(operands[0]):
        return _by_order(operands, axis)
    if length > MOST_SORTED:
        raise refuse(
            f"{length} entries are sorted by several keys that depend on the function's arguments; at most "
            f"{MOST_SORTED} are recorded, as comparisons and selections."
        )
    columns = [[np.moveaxis(x, axis, 0)[k] for k in range(length)] for x in operands]
    for turn in range(length):
        for k in range(turn % 2, length - 1, 2):
            later = _is_later(columns[:keys], k)
            for column in columns:
                low, high = column[k], column[k + 1]
                column[k], column[k + 1] = np.where(later, high, low), np.where(later, low, high)
    return [np.moveaxis(np.stack(column), 0, axis) for column in columns]


def _by_order(operands: Any, axis: int) -> list[Any]:
    """Sort many entries in the order of the first operand at the given point, which is kept as guards."""
    keys = np.moveaxis(operands[0].references, axis, -1)
    places = np.empty(keys.shape, np.int64)
    for line in np.ndindex(keys.shape[:-1]):
        places[line] = sorting_order(operands[0].tape, keys[line].tolist())
    return [np.take_along_axis(x, np.moveaxis(places, -1, axis), axis) for x in operands]


def _is_later(keys: Any, k: int) -> Any:
    """Return a traced truth value: entry k belongs after entry k + 1, by the first key, then by later keys in ties."""
    later: Any = False
    for column in reversed(keys):
        tied = np.equal(column[k], column[k + 1])
        later = np.logical_or(np.greater(column[k], column[k + 1]), np.logical_and(tied, later))
    return later


# Sliding windows and convolutions -------------------------------------------------------------------------------------

#: Function that reduces a window, and the value that pads the array.
WINDOWS: Final[dict[str, tuple[np.ufunc, float]]] = {
    "reduce_window_sum": (np.add, 0.0),
    "reduce_window_max": (np.maximum, -np.inf),
    "reduce_window_min": (np.minimum, np.inf),
}


@records(*WINDOWS, folds=False)
def _window(call: Equation, x: Any) -> Any:
    params, (ufunc, around) = call.params, WINDOWS[call.name]
    inside = [step - 1 for step in params["base_dilation"]]
    config = [(low, high, between) for (low, high), between in zip(params["padding"], inside, strict=True)]
    wide = _joined(call, (x, np.asarray(around)), lambda parts: _padded(parts[0], parts[1], config))
    places = _windows(wide.shape, params["window_dimensions"], params["window_strides"], params["window_dilation"])
    if ufunc is np.add:
        return ufunc.reduce(wide[places], axis=tuple(range(x.ndim, 2 * x.ndim)))
    windows = np.reshape(wide[places], (*call.shapes[0], -1))
    return reduce(partial(_first_extreme, ufunc), [windows[..., k] for k in range(windows.shape[-1])])


def _first_extreme(ufunc: np.ufunc, first: Any, second: Any) -> Any:
    """Return the extreme of two values, with the derivative of the first if they are equal; NaN wins."""
    is_first = first >= second if ufunc is np.maximum else first <= second
    return np.where(is_first, first, ufunc(first, second))


def _windows(
    shape: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[NDArray[np.int64], ...]:
    """Return the indices of all windows, for each axis, that broadcast to (positions along each axis, window sizes)."""
    axes, indices = len(shape), []
    for k, (length, size, stride, step) in enumerate(zip(shape, sizes, strides, dilation, strict=True)):
        count = max((length - (size - 1) * step - 1) // stride + 1, 0)
        places = stride * np.arange(count)[:, None] + step * np.arange(size)
        around = [1] * (2 * axes)
        around[k], around[axes + k] = places.shape
        indices.append(places.reshape(around))
    return tuple(indices)


@records("conv_general_dilated", folds=False)
def _convolution(call: Equation, x: Any, kernel: Any) -> Any:
    params = call.params
    of_x, of_kernel, of_result = params["dimension_numbers"]
    left = references_of(call.tape, x).transpose(of_x)
    right = references_of(call.tape, kernel).transpose(of_kernel)
    axes = left.ndim - 2
    around = [(*ends, step - 1) for ends, step in zip(params["padding"], params["lhs_dilation"], strict=True)]
    config = [(0, 0, 0), (0, 0, 0), *around]
    wide = _padded(left, call.tape.constant(0.0), config)
    places = _windows(wide.shape[2:], right.shape[2:], params["window_strides"], params["rhs_dilation"])
    patches = wide[(slice(None), slice(None), *places)]
    along, within = string.ascii_uppercase[:axes], string.ascii_lowercase[:axes]
    of_batches, of_features = params["batch_group_count"], params["feature_group_count"]
    groups = of_batches * of_features
    patches = patches.reshape(
        of_batches, left.shape[0] // of_batches, of_features, left.shape[1] // of_features, *patches.shape[2:]
    )
    if of_batches > 1:
        patches, first = patches[:, :, 0], "xyz" + along + within
    else:
        patches, first = patches[0], "yxz" + along + within
    right = right.reshape(groups, right.shape[0] // groups, *right.shape[1:])
    operands = [(patches, first), (right, "xwz" + within)]
    values = [(TracedArray(call.tape, references), labels) for references, labels in operands]
    result = sum_of_products(call, values, "yxw" + along)
    references = result.references.reshape(result.shape[0], -1, *result.shape[3:])
    return TracedArray(call.tape, references.transpose(np.argsort(of_result)))
