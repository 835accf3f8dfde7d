"""Recording of calls that NumPy dispatches: of universal functions and their methods, and of array functions.

Reductions go from left to right. NumPy sums long lines pairwise, which differs only in rounding.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate as running
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from accumulus.frontends.active import ACTIVE, FILLING, refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array, as_constant, make
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, PARTS, SEVERAL, Elementwise, apply, complex_rows, row_of
from accumulus.frontends.numpy.lookups import add, is_lookup
from accumulus.frontends.numpy.operands import (
    Entries,
    Operand,
    concrete,
    depends,
    entries_of,
    holds_complex,
    map_references,
    of_kind,
    references_of,
)
from accumulus.frontends.numpy.scalars import TracedScalar, make_scalar
from accumulus.frontends.numpy.table import COMPLEX_FUNCTIONS, FUNCTIONS, PROTOCOLS, check_dtype, unsupported
from accumulus.frontends.recorder import References
from accumulus.tape.columns import Column, Range, column
from accumulus.tape.program import LONG
from accumulus.tape.tape import Tape

#: Rows that take reals, by NumPy's universal function.
ROWS: Final = {
    getattr(np, name): row for name, row in ELEMENTWISE.items() if hasattr(np, name) and not row.takes_boolean
}


def _call(tape: Tape, ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    loop = ACTIVE.loop
    if loop is None:
        return _applied(tape, ufunc, inputs, keywords)
    out = keywords.pop("out", None) if "where" not in keywords else None
    result = loop.recorded(tape, _applied, ufunc, inputs, keywords)
    return result if out is None else _store(result, out)


def _applied(tape: Tape, ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if not keywords and (references := _scalars(tape, inputs)) is not None and (row := ROWS.get(ufunc)) is not None:
        return make_scalar(tape, row.bind(tape)(*references), row.gives_boolean)
    if not keywords and ufunc not in FUNCTIONS and (row := ROWS.get(ufunc)) is not None:
        entries = _reals(tape, inputs)
        if entries is not None:
            return make(tape, map_references(tape, row.bind, entries), row.gives_boolean)
    out, where = keywords.pop("out", None), keywords.pop("where", True)
    if where is not True:
        return _call_where(ufunc, inputs, keywords, out, where)
    result: Any
    if ufunc in (np.equal, np.not_equal) and any(value is None or isinstance(value, str | bytes) for value in inputs):
        numbers = next(value for value in inputs if isinstance(value, Operand))
        result = np.full(getattr(numbers, "shape", ()), ufunc is np.not_equal)[()]  # a number is no text
    elif not depends(inputs) and not depends(keywords):
        result = as_constant(tape, ufunc(*concrete(inputs), **concrete(keywords)))
    elif any(map(holds_complex, inputs)):
        function = COMPLEX_FUNCTIONS.get(ufunc)
        if function is None:
            result = PROTOCOLS["complex ufunc"](tape, ufunc, inputs, keywords)
        else:
            result = function(tape, *inputs, **keywords)
    elif (function := FUNCTIONS.get(ufunc)) is not None:
        _check_keywords(ufunc, keywords)
        result = function(tape, inputs, keywords)
    elif (names := SEVERAL.get(ufunc.__name__)) is not None:
        _check_keywords(ufunc, keywords)
        result = tuple(apply(tape, ELEMENTWISE.get(name) or PARTS[name], inputs) for name in names)
    elif not isinstance(getattr(np, ufunc.__name__, None), np.ufunc) and (
        parts := complex_rows(ufunc, of_complex=False)
    ):
        _check_keywords(ufunc, keywords)
        result = PROTOCOLS["complex results"](tape, ufunc, parts, inputs)
    elif row_of(ufunc) is None and (each := function_of_entries(ufunc)) is not None:
        _check_keywords(ufunc, keywords)
        result = entry_by_entry(tape, each, inputs)
    else:
        result = apply(tape, _row(ufunc, keywords), inputs)
    return result if out is None else _store(result, out)


def _call_where(ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any], out: Any, where: Any) -> Any:
    """Record a call with ``where=``: entries of `out` for which it is false keep their values.

    There the function is evaluated at 1 instead, so that a NaN or an infinite derivative at the actual argument (a
    division by zero that ``where`` avoids) does not enter the derivative of the result.
    """
    if out is None or any(target is None for target in out):
        raise refuse(
            f"np.{ufunc.__name__}(…, where=…) leaves entries undefined. Write np.where(condition, "
            f"np.{ufunc.__name__}(…), otherwise), or pass out=, an array that defines them."
        )
    result = ufunc(*(np.where(where, operand, 1.0) for operand in inputs), **keywords)
    results = result if isinstance(result, tuple) else (result,)
    return _store(tuple(np.where(where, value, old) for value, old in zip(results, out, strict=True)), out)


def _scalars(tape: Tape, inputs: tuple[Any, ...]) -> list[int] | None:
    """Return references if all inputs are real scalars, which is a fast path for most calls; else None."""
    references = []
    for value in inputs:
        if isinstance(value, Operand):
            if type(value) is not TracedScalar or value.tape is not tape:
                return None
            references.append(value.reference)
        elif isinstance(value, float) or type(value) is int:
            references.append(tape.constant(value))
        else:
            return None
    return references


def _reals(tape: Tape, inputs: tuple[Any, ...]) -> list[Entries] | None:
    """Return the entries of inputs that are real arrays and numbers of the tape, one of them no constant; else None."""
    entries: list[Entries] = []
    depends_on_inputs = False
    for value in inputs:
        kind = type(value)
        if kind is TracedArray:
            references = value.references
            if value.tape is not tape or value.boolean or not references.size:
                return None
            depends_on_inputs |= references.item(0) >= 0  # of those that do, nearly all do with the first entry
            entries.append(references)
        elif kind is TracedScalar and value.tape is tape:
            depends_on_inputs |= value.reference >= 0
            entries.append(value.reference)
        elif kind is float or kind is int:
            entries.append(tape.constant(value))
        else:
            return None
    return entries if depends_on_inputs else None


def _row(ufunc: np.ufunc, keywords: dict[str, Any]) -> Elementwise:
    row = row_of(ufunc)
    if row is None:
        raise refuse(unsupported(ufunc))
    _check_keywords(ufunc, keywords, row.gives_boolean)
    return row


def _check_keywords(ufunc: np.ufunc, keywords: Mapping[str, Any], gives_boolean: bool = False) -> None:
    """Refuse options that would round arguments or results; options about memory are ignored.

    Raises:
        TraceError: for such an option.
    """
    name = f"np.{ufunc.__name__}"
    dtype = keywords.get("dtype")
    if not (gives_boolean and dtype is not None and np.dtype(dtype) == bool):
        check_dtype(dtype, name)
    if keywords.get("signature") is not None:
        raise refuse(f"{name}(…, signature=…) is not recorded: leave it out, values are float64.")


def _store(result: Any, out: tuple[Any, ...]) -> Any:
    """Write results into the arrays passed as `out`, in place, as in ``y += x``."""
    results = result if isinstance(result, tuple) else (result,)
    stored = []
    for value, target in zip(results, out, strict=True):
        if isinstance(target, TracedArray) and holds_complex(value):
            raise TypeError(f"Cannot cast a complex result to an array of {target.dtype}: assign to .real or .imag")
        if isinstance(target, Operand):
            target[...] = value  # type: ignore[index]  # an array, complex or not
        elif target is not None:
            if depends(value):
                raise refuse(FILLING)
            np.copyto(target, concrete(value), casting="same_kind")
        stored.append(value if target is None else target)
    return tuple(stored) if len(stored) > 1 else stored[0]


# Reductions ------------------------------------------------------------------------------------------------------


def fold(
    tape: Tape,
    row: Elementwise,
    operand: Any,
    axis: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """Return a reduction by `row` along one axis, several, or all (None), from left to right, where a mask holds."""
    if where is not True:
        operand = np.where(where, operand, _neutral(row, initial))
    references, row = _operand_of_fold(tape, row, operand)
    if not references.ndim and axis in (0, -1):  # a number has these axes in NumPy's reductions
        axis = None
    axes = tuple(range(references.ndim)) if axis is None else normalize_axis_tuple(axis, references.ndim)
    remaining = [k for k in range(references.ndim) if k not in axes]
    count = math.prod(references.shape[k] for k in axes)
    shape = tuple(references.shape[k] for k in remaining)
    table = references.transpose(*remaining, *axes).reshape(math.prod(shape), count)
    if keepdims:
        shape = tuple(1 if k in axes else length for k, length in enumerate(references.shape))
    if tape.in_loops(table.size):
        folded = _folded_lines(tape, row, table, initial)
        return make(tape, folded.reshape(shape) if shape else int(folded[0]), row.gives_boolean)
    lines = table.tolist()
    join = row.bind(tape.open)
    if initial is not None:
        start = int(references_of(tape, initial, row.takes_boolean))
        lines = [[start, *line] for line in lines]
    if count or initial is not None:
        are_extremes = row.name in ("maximum", "minimum") and count + (initial is not None) > 2
        results = [reduce(join, dict.fromkeys(line) if are_extremes else line) for line in lines]
        if are_extremes:
            results = [_shared_evenly(tape, *pair) for pair in zip(results, lines, strict=True)]
    elif row.identity is not None:
        results = [tape.constant(row.identity)] * len(lines)
    else:
        raise ValueError(f"zero-size array to reduction operation {row.name} which has no identity")
    if not shape:
        return make(tape, results[0], row.gives_boolean)
    return make(tape, np.array(results, np.int64).reshape(shape), row.gives_boolean)


def _neutral(row: Elementwise, initial: Any) -> Any:
    """Return the neutral number for entries that a mask omits.

    Raises:
        ValueError: if the operation has none, and there is no initial value.
    """
    if row.identity is None and initial is None:
        raise ValueError(
            f"reduction operation '{row.name}' does not have an identity, so to use a where mask one has to specify "
            "'initial'"
        )
    return initial if row.identity is None else bool(row.identity) if row.takes_boolean else row.identity


def _folded_lines(tape: Any, row: Elementwise, lines: References, initial: Any) -> References:
    """Return the reduction of each line of a table: sums as one block, other operations by halves."""
    if initial is not None:
        start = references_of(tape, initial, row.takes_boolean)
        lines = np.concatenate([np.broadcast_to(start, (len(lines), 1)), lines], axis=1)
    count = lines.shape[1]
    if not count:
        if row.identity is None:
            raise ValueError(f"zero-size array to reduction operation {row.name} which has no identity")
        return np.full(len(lines), tape.constant(row.identity))
    if row.name in ("maximum", "minimum") and count > 2:
        return _extremes(tape, row, lines)
    if row.name == "add" and count > 2:
        folded: References = tape.sums(lines.reshape(-1), np.arange(0, lines.size + 1, count))
        return folded
    return _by_halves(tape, row, lines)


def _by_halves(tape: Any, row: Elementwise, lines: References) -> References:
    """Return the reduction of each line: from left to right if it is short, as in NumPy, else by halves."""
    if 1 < lines.shape[1] < LONG:
        folded: References = reduce(lambda left, right: tape.map(row.bind, [left, right]), lines.T)
        return folded
    while (count := lines.shape[1]) > 1:
        half = count // 2
        joined = tape.map(row.bind, [lines[:, :half], lines[:, half : 2 * half]])
        lines = np.concatenate([joined, lines[:, 2 * half :]], axis=1)
    return lines[:, 0]


def _extremes(tape: Any, row: Elementwise, lines: References) -> References:
    """Return the extremes of each line of a table, with derivatives shared as in `_shared_evenly`."""
    ordered = np.sort(lines, axis=1)
    different = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    firsts = np.count_nonzero(ordered == ordered[:, :1], axis=1)
    few = (different == 1) | ((different == 2) & (2 * firsts == lines.shape[1]))
    if few.any():  # the rule of a single operation suffices for two entries, each as often as the other
        results = np.empty(len(lines), np.int64)
        results[few] = [reduce(row.bind(tape), dict.fromkeys(line)) for line in lines[few].tolist()]
        if not few.all():
            results[~few] = _extremes(tape, row, lines[~few])
        return results
    extremes = _by_halves(tape, row, lines)
    ends = np.arange(0, lines.size + 1, lines.shape[1])
    one, zero = tape.constant(1.0), tape.constant(0.0)
    chosen = tape.apply("equal", extremes[:, np.newaxis], lines)
    counts = tape.sums(tape.apply("select", chosen, one, zero).reshape(-1), ends)
    shares = tape.apply("divide", one, counts)[:, np.newaxis]
    parts = tape.apply("multiply", tape.apply("select", chosen, shares, zero), lines)
    return np.asarray(tape.apply("attach", extremes, tape.sums(parts.reshape(-1), ends)))


def _shared_evenly(tape: Tape, extreme: int, line: Sequence[int]) -> int:
    """Return the extreme of several values; equal ones share the derivative in equal parts, as in JAX."""
    counts = Counter(line)
    if extreme < 0 or len(counts) < 2 or (len(counts) == 2 and len({*counts.values()}) == 1):
        return extreme
    one, zero = tape.constant(1.0), tape.constant(0.0)
    conditions = [tape.apply("equal", extreme, reference) for reference in line]
    share = tape.divide(one, tape.sum(tape.select(condition, one, zero) for condition in conditions))
    weights = [tape.select(condition, share, zero) for condition in conditions]
    weighted = tape.sum(tape.multiply(weight, reference) for weight, reference in zip(weights, line, strict=True))
    return tape.apply("attach", extreme, weighted)


def accumulate(tape: Tape, row: Elementwise, operand: Any, axis: int = 0) -> TracedArray:
    """Return the cumulative reduction along one axis."""
    references, row = _operand_of_fold(tape, row, operand)
    moved = np.moveaxis(np.atleast_1d(references), axis, -1)
    length = moved.shape[-1]
    if tape.in_loops(moved.size, steps=moved.size if length >= LONG else 0):
        result = _running_lines(tape, row, moved.reshape(-1, length)).reshape(moved.shape) if moved.size else moved
    else:
        join = row.bind(tape.open)
        lines = [list(running(line, join)) for line in moved.reshape(-1, length).tolist()] if moved.size else []
        result = np.array(lines, np.int64).reshape(moved.shape)
    return TracedArray(tape, np.moveaxis(result, -1, axis).copy(), boolean=row.gives_boolean)


def _running_lines(tape: Any, row: Elementwise, lines: References) -> References:
    """Return the cumulative reduction of each line of a table, as a loop whose steps take an entry of every line."""
    count, steps = lines.shape[0], lines.shape[1] - 1
    if not steps:
        return lines
    body = Tape(2, signed_zeros=tape.signed_zeros)
    entries = [0, 1]
    if row.takes_boolean:  # truth values are stored as numbers
        entries = [body.apply("not_equal", entry, body.constant(0.0)) for entry in entries]
    body.outputs = [row.bind(body)(*entries)]

    def operands(results: list[Range]) -> list[Column]:
        before = np.concatenate([lines[:, 0], results[0].references[: (steps - 1) * count]])
        return [column(before), column(lines[:, 1:].T.copy())]

    (running,) = tape.scan(body, operands, np.arange(0, steps * count + 1, count))
    return np.concatenate([lines[:, :1], running.references.reshape(steps, count).T], axis=1)


def _operand_of_fold(tape: Tape, row: Elementwise, operand: Any) -> tuple[References, Elementwise]:
    entries, boolean = entries_of(tape, operand)
    if boolean and row.of_booleans is not None and row.name in ("maximum", "minimum"):
        row = ELEMENTWISE[row.of_booleans]  # but sums and products of truth values are numbers
    return np.asarray(of_kind(tape, entries, boolean, boolean=row.takes_boolean), np.int64), row


def _foldable(ufunc: np.ufunc) -> Elementwise:
    row = _row(ufunc, {})
    if len(row.domain) != 2 or (row.gives_boolean and not row.takes_boolean):
        raise refuse(f"np.{ufunc.__name__} cannot be folded along an axis.")
    return row


def _folds(method: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of ``ufunc.method`` for real numbers."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        def call(tape: Tape, ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            out = keywords.pop("out", None)
            if not depends(inputs) and not depends(keywords):
                result = as_constant(tape, getattr(ufunc, method)(*concrete(inputs), **concrete(keywords)))
            elif any(map(holds_complex, inputs)):
                result = PROTOCOLS[f"complex {method}"](tape, ufunc, inputs, keywords)
            else:
                result = record(tape, ufunc, *inputs, **keywords)
            return result if out is None else _store(result, out)

        PROTOCOLS[method] = call
        return record

    return enter


@_folds("reduce")
def _reduce(
    tape: Tape,
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    check_dtype(dtype, f"np.{ufunc.__name__}.reduce")
    return fold(tape, _foldable(ufunc), array, axis, keepdims, initial, where)


@_folds("accumulate")
def _accumulate(tape: Tape, ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    check_dtype(dtype, f"np.{ufunc.__name__}.accumulate")
    return accumulate(tape, _foldable(ufunc), array, axis)


@_folds("reduceat")
def _reduceat(
    tape: Tape, ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    """Return reductions of the entries from each index to the next; of one entry if the next index is not larger."""
    check_dtype(dtype, f"np.{ufunc.__name__}.reduceat")
    if depends(indices):
        raise refuse(f"np.{ufunc.__name__}.reduceat: the indices must be constants.")
    lines, places = np.moveaxis(as_array(tape, array), axis, -1), np.asarray(concrete(indices)).tolist()
    ends = [*places[1:], lines.shape[-1]]
    if any(not 0 <= index < lines.shape[-1] for index in places):
        raise IndexError(f"an index of reduceat is not in [0, {lines.shape[-1]})")
    if ufunc is np.add and tape.in_loops(lines.size):
        return np.moveaxis(_added_between(tape, lines, np.array(places), np.array(ends)), -1, axis)
    folds = [
        fold(tape, _foldable(ufunc), lines[..., begin : max(end, begin + 1)], -1)
        for begin, end in zip(places, ends, strict=True)
    ]
    return np.stack(folds, axis=axis)


def _added_between(tape: Tape, lines: Any, begins: References, ends: References) -> Any:
    """Return the sums of the entries of each line between positions; a single entry if the end is not larger."""
    lengths = np.maximum(ends - begins, 1)
    first = np.cumsum(lengths) - lengths
    chosen = np.repeat(begins - first, lengths) + np.arange(lengths.sum())
    terms = references_of(tape, lines)[..., chosen].reshape(-1)
    several = np.arange(0, len(terms), len(chosen))[:, np.newaxis]
    sums = sums_of_segments(tape, terms, (several + first).reshape(-1))
    return TracedArray(tape, sums.reshape(*lines.shape[:-1], len(begins)))


def _outer(tape: Tape, ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    first, second = inputs
    if holds_complex(first) or holds_complex(second):
        first, second = as_array(tape, first), as_array(tape, second)
        spread = np.reshape(first, (*np.shape(first), *(1,) * np.ndim(second)))
        return _call(tape, ufunc, (spread, second), keywords)
    entries, boolean = entries_of(tape, first)
    spread = np.asarray(entries)[(..., *(None,) * np.ndim(entries_of(tape, second)[0]))]
    return _call(tape, ufunc, (TracedArray(tape, spread, boolean=boolean), second), keywords)


def _at(tape: Tape, ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Record ``ufunc.at(array, index, values)``; repeated entries are changed repeatedly, in order of the index."""
    array, index, *values = inputs
    if any(map(holds_complex, inputs)) and depends(inputs):
        PROTOCOLS["complex at"](tape, ufunc, inputs, keywords)
        return
    if not isinstance(array, TracedArray):
        if depends(inputs):
            raise refuse(FILLING)
        ufunc.at(array, *concrete(inputs[1:]))
        return
    array.check_writable()
    row = _row(ufunc, keywords)
    if row.gives_boolean != array.boolean or row.takes_boolean != array.boolean:
        raise refuse(f"np.{ufunc.__name__}.at of an array of {array.dtype} is not recorded.")
    if row.name in ("add", "subtract") and is_lookup(tape, index):
        terms = references_of(tape, values[0] if row.name == "add" else -values[0])
        if add(tape, array.references, array.open_index(index), terms):
            return
    positions = np.arange(array.size).reshape(array.shape)[array.constant_index(index)]
    operands = [
        np.broadcast_to(references_of(tape, value, array.boolean), positions.shape).ravel().tolist() for value in values
    ]
    if tape.in_loops(positions.size) and row.name == "add":
        _add_at(tape, array.references, positions.ravel(), references_of(tape, values[0], array.boolean))
        return
    join, flat = row.bind(tape.open), array.references.flat
    for position, *arguments in zip(positions.ravel().tolist(), *operands, strict=True):
        flat[position] = join(int(flat[position]), *arguments)


def _add_at(tape: Any, references: References, positions: References, values: References) -> None:
    """Add values to the entries at positions, which may repeat, by one block of sums."""
    terms = np.broadcast_to(values, positions.shape) if values.ndim == 0 else values.reshape(-1)
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    places = ordered[first]
    before = references.flat[places]
    nonzero = before != tape.constant(0.0)  # the previous value is the first term, unless it is zero
    together = np.insert(terms[order], first[nonzero], before[nonzero])
    begins = first + np.concatenate([[0], np.cumsum(nonzero)[:-1]])
    references.flat[places] = sums_of_segments(tape, together, begins)


def sums_of_segments(tape: Any, terms: References, begins: References) -> References:
    """Return the sum of each segment of the terms, from left to right; a single term is its own sum.

    Args:
        tape: tape to record on.
        terms: references of the terms of all segments, concatenated.
        begins: ascending positions of the first term of each segment; segments are not empty.
    """
    lengths = np.diff(np.append(begins, len(terms)))
    sums = terms[begins]
    several = lengths > 1
    if several.any() and not tape.in_loops(len(terms)):
        for k in np.flatnonzero(several).tolist():
            sums[k] = tape.sum(terms[begins[k] : begins[k] + lengths[k]].tolist())
    elif several.any():
        counts = lengths[several]
        sums[several] = tape.sums(terms[np.repeat(several, lengths)], np.append(0, np.cumsum(counts)))
    return sums


# Functions of numbers that are called for each entry: np.vectorize, np.frompyfunc, numba.vectorize --------------------


def vectorized(original: np.vectorize, called: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the replacement for an `np.vectorize` object while a function is recorded.

    Args:
        original: `np.vectorize` object.
        called: function that returns the replacement of its own function.
    """

    def function(*arguments: Any, **keywords: Any) -> Any:
        if not depends(arguments) and not depends(keywords):
            return original(*arguments, **keywords)
        if original.signature is not None or original.excluded or keywords:
            raise refuse(
                "np.vectorize with a signature, excluded arguments or keywords is not recorded: write a loop over "
                "the entries."
            )
        return entry_by_entry(ACTIVE.tape, called(original.pyfunc), arguments)

    return function


def function_of_entries(ufunc: Any) -> Callable[..., Any] | None:
    """Return the scalar function that a universal function was made from; None if there is none."""
    numba = sys.modules.get("numba.np.ufunc.dufunc")
    if numba is not None and isinstance(ufunc, numba.DUFunc):
        return ufunc.__wrapped__  # type: ignore[no-any-return]
    if (
        ufunc.signature is None and ufunc.types and all(set(kinds) <= set("O->") for kinds in ufunc.types)
    ):  # np.frompyfunc

        def each(*entries: Any) -> Any:
            boxes = [np.empty((), object) for _ in entries]
            for box, entry in zip(boxes, entries, strict=True):
                box[()] = entry
            return ufunc(*boxes)

        return each
    return None


def entry_by_entry(tape: Any, each: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a scalar function for each entry of broadcast arguments; return an array for each of its results."""
    pairs = [entries_of(tape, argument) for argument in arguments]
    operands = np.broadcast_arrays(*(TracedArray(tape, np.asarray(r), boolean=b) for r, b in pairs))
    shape = operands[0].shape
    results = [each(*(operand[index] for operand in operands)) for index in np.ndindex(shape)]
    if results and isinstance(results[0], tuple):
        return tuple(_gathered(tape, list(outputs), shape) for outputs in zip(*results, strict=True))
    return _gathered(tape, results, shape)


def _gathered(tape: Any, results: list[Any], shape: tuple[int, ...]) -> Any:
    entries, boolean = entries_of(tape, results)
    references = np.asarray(entries, np.int64).reshape(shape)
    return make(tape, references if shape else references.item(), boolean)


# Array functions -----------------------------------------------------------------------------------------------------


def _call_function(tape: Tape, function: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    """Record an array function by its row, or call it if everything is constant.

    Raises:
        TraceError: for a function without a row.
    """
    loop, row = ACTIVE.loop, FUNCTIONS.get(function)
    if loop is None or (row is not None and row.constants):  # which may change arguments, or return views
        return _applied_function(tape, function, arguments, keywords)
    return loop.recorded(tape, _applied_function, function, arguments, keywords)


def _applied_function(tape: Tape, function: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    if arguments and isinstance(arguments[0], Operand) and arguments[0].is_open:
        result = PROTOCOLS["without deciding"](tape, function, arguments, keywords)
        if result is not NotImplemented:
            return result
    row = FUNCTIONS.get(function)
    if holds_complex(arguments) or holds_complex(list(keywords.values())):
        complex_row = COMPLEX_FUNCTIONS.get(function)
        if complex_row is not None and (depends(arguments) or depends(keywords) or (row and row.constants)):
            return complex_row(tape, *arguments, **keywords)
    traced = depends(arguments) or depends(keywords)
    if row is not None and (traced or row.constants):
        return row(tape, arguments, keywords)
    if traced:
        raise refuse(unsupported(function))
    return as_constant(tape, function(*concrete(tuple(arguments)), **concrete(dict(keywords))))


PROTOCOLS.update({"__array_function__": _call_function, "__call__": _call, "outer": _outer, "at": _at})
