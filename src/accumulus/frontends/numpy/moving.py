"""Functions that only move entries: NumPy's own functions, applied to the references.

There is one row for each function. Views remain views of the same references, so that ``np.reshape(dy, …)[0] = x``
changes ``dy`` exactly if it does in NumPy. For this reason they are recorded for constant arrays, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import FILLING, refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.operands import Operand, concrete, depends, entries_of, holds_none, references_of
from accumulus.frontends.numpy.scalars import make_scalar
from accumulus.frontends.numpy.table import check_dtype, function_name, implements
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape

#: Number of leading arguments of functions that take arrays only.
ALL: Final = -1
#: Functions → number of leading arguments that are arrays or lists of arrays.
MOVING: Final[dict[Callable[..., Any], int]] = {
    **dict.fromkeys((np.reshape, np.ravel, np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes), 1),
    **dict.fromkeys((np.moveaxis, np.rollaxis, np.expand_dims, np.squeeze, np.diagonal, np.broadcast_to), 1),
    **dict.fromkeys((np.tile, np.repeat, np.roll, np.flip, np.fliplr, np.flipud, np.rot90, np.copy), 1),
    **dict.fromkeys((np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit), 1),
    **dict.fromkeys((np.take, np.take_along_axis, np.delete), 1),
    **dict.fromkeys((np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.block), 1),
    **{getattr(np, name): 1 for name in ("unstack", "row_stack") if hasattr(np, name)},
    **dict.fromkeys((np.linalg.matrix_transpose, np.linalg.diagonal), 1),
    np.lib.stride_tricks.sliding_window_view: 1,
    np.append: 2,
    **dict.fromkeys((np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.meshgrid), ALL),
}
#: The same, for functions that fill with zeros.
ZERO_FILLING: Final[dict[Callable[..., Any], int]] = dict.fromkeys(
    (np.diag, np.diagflat, np.tril, np.triu, np.resize), 1
)
#: Options that do not affect values.
_IGNORED: Final = ("casting",)


def _move(tape: Tape, function: Callable[..., Any], arrays: int, arguments: Sequence[Any], keywords: Any) -> Any:
    """Apply `function` to the references of its first `arrays` arguments."""
    arguments, keywords = positional(function, arguments, dict(keywords))
    if function in (np.take, np.take_along_axis) and depends(arguments[1:2]) and keywords.keys() <= {"axis"}:
        return _taken(as_array(tape, arguments[0]), function, *arguments[1:], **keywords)
    count = len(arguments) if arrays == ALL else arrays
    if depends(arguments[count:]) or depends(keywords):
        raise refuse(f"{function_name(function)}: indices, shapes and axes must be constants.")
    if any(map(holds_none, arguments[:count])):
        return function(*map(_objects, arguments[:count]), *concrete(tuple(arguments[count:])), **concrete(keywords))
    boolean = all(_kinds(tape, arguments[:count]))
    moved = [_referenced(tape, argument, boolean) for argument in arguments[:count]]
    zero = tape.constant(0.0)
    if function in ZERO_FILLING:  # these fill with the reference 0, which is shifted to the constant 0
        moved = [np.asarray(references) - zero for references in moved]
    result = function(*moved, *concrete(tuple(arguments[count:])), **concrete(keywords))
    if function in ZERO_FILLING:
        result = result + zero
    return _handed_out(tape, result, boolean)


def _objects(value: Any) -> Any:
    """Return an array of objects, traced numbers among them, in place of a traced array, also in a list."""
    if isinstance(value, list | tuple):
        return type(value)(map(_objects, value))
    return value.__array__(object) if isinstance(value, TracedArray) else value


def _taken(array: Any, function: Callable[..., Any], indices: Any, axis: int | None = None) -> Any:
    """Take entries along an axis at indices that depend on the arguments, by indexing."""
    if axis is None:
        array, axis = np.ravel(array), 0
        indices = np.ravel(indices) if function is np.take_along_axis else indices
    axis = axis % array.ndim
    if function is np.take:
        return array[(*[slice(None)] * axis, indices)]
    shape = np.shape(indices)
    places = np.ogrid[tuple(map(slice, (*shape[:axis], 1, *shape[axis + 1 :])))]
    return array[(*places[:axis], indices, *places[axis + 1 :])]


def positional(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with arrays by position, and the remaining keywords without options that do not affect values.

    Raises:
        TraceError: for ``out``, and for a data type other than float64.
    """
    if keywords.pop("out", None) is not None:
        raise refuse(f"{function_name(function)}(…, out=…) is not recorded: assign the result, out[...] = ….")
    check_dtype(keywords.pop("dtype", None), function_name(function))
    for name in _IGNORED:
        keywords.pop(name, None)
    if keywords and any(isinstance(value, Operand | list) for value in keywords.values()):
        bound = inspect.signature(function).bind(*arguments, **keywords)
        return bound.args, bound.kwargs
    return tuple(arguments), keywords


def _kinds(tape: Tape, tree: Sequence[Any]) -> Iterator[bool]:
    for item in tree:
        if isinstance(item, list | tuple):
            yield from _kinds(tape, item)
        else:
            yield entries_of(tape, item)[1]


def _referenced(tape: Tape, tree: Any, boolean: bool) -> Any:
    if isinstance(tree, list | tuple):
        return [_referenced(tape, item, boolean) for item in tree]
    return references_of(tape, tree, boolean)


def _handed_out(tape: Tape, result: Any, boolean: bool) -> Any:
    if isinstance(result, np.ndarray):
        return TracedArray(tape, result, boolean=boolean)
    if isinstance(result, list | tuple):
        return type(result)([_handed_out(tape, item, boolean) for item in result])
    return make_scalar(tape, int(result), boolean)


def _enter(function: Callable[..., Any], arrays: int) -> None:
    @implements(function, constants=True)
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        return _move(tape, function, arrays, arguments, keywords)


for _function, _arrays in (MOVING | ZERO_FILLING).items():
    _enter(_function, _arrays)


@implements(np.insert)
def _insert(tape: Tape, arr: Any, obj: Any, values: Any, axis: int | None = None) -> TracedArray:
    """Return the array with `values` inserted before the positions `obj`."""
    array, items = references_of(tape, arr), references_of(tape, values)
    return TracedArray(tape, np.insert(array, concrete(obj), items, axis))


@implements(np.pad)
def _pad(tape: Tape, array: Any, pad_width: Any, mode: str = "constant", **keywords: Any) -> Any:
    """Return an array with a border: constant, a linear ramp, or repeated entries."""
    if mode == "linear_ramp":
        return _ramps(tape, as_array(tape, array), pad_width, keywords.get("end_values", 0.0))
    if mode == "reflect" and keywords.get("reflect_type") == "odd":
        mode = "odd reflection"
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap", "empty"):
        raise refuse(
            f"np.pad(…, mode={mode!r}) is not recorded; the modes constant, edge, linear_ramp, reflect, symmetric and "
            "wrap are. Write np.concatenate with the border."
        )
    if mode == "empty":
        mode, keywords = "constant", {"constant_values": np.nan}
    if mode == "constant":
        keywords["constant_values"] = references_of(tape, keywords.get("constant_values", 0.0))
    bordered: Any = np.pad
    return TracedArray(tape, bordered(references_of(tape, array), pad_width, mode, **keywords))


def _ramps(tape: Tape, array: Any, pad_width: Any, end_values: Any) -> Any:
    """Return an array with linear ramps from end values to the outermost entries, along each axis."""
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).tolist()
    ends = np.broadcast_to(end_values, (array.ndim, 2))
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, ends, strict=True)):
        lines = np.moveaxis(array, axis, -1)
        left = first + (lines[..., :1] - first) * (np.arange(before) / max(before, 1))
        right = last + (lines[..., -1:] - last) * (np.arange(after)[::-1] / max(after, 1))
        array = np.moveaxis(np.concatenate([left, lines, right], axis=-1), -1, axis)
    return array


def _written(array: Any) -> References:
    """Return the references of an array before a write, after checking that it can be written to."""
    if not isinstance(array, TracedArray):
        raise refuse(FILLING)
    array.check_writable()
    return array.references


@implements(np.fill_diagonal, constants=True)
def _fill_diagonal(tape: Tape, a: Any, val: Any, wrap: bool = False) -> None:
    """Set the diagonal of a traced array."""
    np.fill_diagonal(_written(a), references_of(tape, val, a.boolean), wrap)


@implements(np.copyto, constants=True)
def _copyto(tape: Tape, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Copy values into a traced array."""
    if not isinstance(dst, TracedArray):
        raise refuse(FILLING)
    dst[...] = src if where is True else np.where(where, src, dst)


@implements(np.put, constants=True)
def _put(tape: Tape, a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """Set the entries with the flat indices `ind`."""
    np.put(_written(a), concrete(ind), references_of(tape, v, a.boolean), mode)


def _enter_mask(function: Callable[..., Any]) -> None:
    """Register a function that writes where a mask holds; a traced mask is decided, unless one value is written."""

    @implements(function, constants=True)
    def record(tape: Tape, arr: Any, mask: Any, vals: Any) -> None:
        if not isinstance(arr, TracedArray):
            raise refuse(FILLING)
        if depends(mask) and references_of(tape, vals).size == 1:
            arr[...] = np.where(mask, np.reshape(vals, ()), arr)
            return
        function(_written(arr), arr.constant_index(mask), references_of(tape, vals, arr.boolean))


_enter_mask(np.place)
_enter_mask(np.putmask)


@implements(np.put_along_axis, constants=True)
def _put_along_axis(tape: Tape, arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    """Set the entries at constant indices along one axis."""
    np.put_along_axis(_written(arr), arr.constant_index(indices), references_of(tape, values, arr.boolean), axis)
