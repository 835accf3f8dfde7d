"""`accumulus.map`: one function for the entries along the first axis of arrays, recorded once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, TraceError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.kinds import StandIn
from accumulus.frontends.location import name_of
from accumulus.frontends.numpy.arrays import TracedArray, as_constant, make
from accumulus.frontends.numpy.bodies import Body, Place, as_numbers, instances, recorded_body
from accumulus.frontends.numpy.operands import concrete, depends, entries_of, references_of
from accumulus.frontends.trees import Structure, flatten, unflatten
from accumulus.tape.columns import column
from accumulus.tape.interpreter import evaluate

#: Instances, from which on those of numbers are computed together.
MANY: Final = 64
#: Instances that are computed at once: what is in between stays in the processor's cache.
CHUNK: Final = 4096


def map(f: Callable[..., Any], *xs: Any) -> Any:  # noqa: A001  # as jax.lax has it
    """The results of `f` for each entry along the first axis of arrays, stacked: ``jax.lax.map`` for several arguments.

    While a derivative is prepared, `f` is recorded once, however many entries there are, and becomes one loop. It may
    use what is around it, traced values included. What it computes for one entry can depend on that entry only through
    its numbers: it cannot use it as an index.

    Args:
        f: a function of one entry of each of `xs` that returns a number, an array, or a list, tuple or dict of those.
        xs: arrays whose first axes have one length; lists, tuples and dicts of such arrays are handed to `f` as such.

    Returns:
        What `f` returns, with one more axis in front of each array.

    Raises:
        ArgumentError: for arguments that are no such arrays, and for results that change their shape or structure.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> def energy(positions, strength):
    ...     pairs = np.array([[0, 1], [1, 2], [0, 2]])
    ...     spring = lambda ends, k: 0.5 * strength * k * np.sum((ends[0] - ends[1]) ** 2)
    ...     return np.sum(acc.map(spring, positions[pairs], np.array([1.0, 2.0, 3.0])))
    >>> acc.gradient(energy)(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]), 1.0)
    array([[-4., -6.],
           [ 1., -4.],
           [ 3., 10.]])
    """
    if not callable(f):
        raise ArgumentError(f"f is {f!r:.60}; expected a function of one entry of each of the arrays")
    structures, leaves, count = _arguments(f, xs)
    tape = ACTIVE.tape
    if tape is None:
        return _of_numbers(f, structures, [[np.asarray(leaf) for leaf in each] for each in leaves], count)
    entries = [[entries_of(tape, leaf) for leaf in each] for each in leaves]
    arguments = [
        (structure, [(np.shape(references)[1:], boolean) for references, boolean in each])
        for structure, each in zip(structures, entries, strict=True)
    ]
    try:
        body = recorded_body(f, arguments, tape)
    except LongBodyError:
        return _one_by_one(tape, f, structures, entries, count)
    if not depends(leaves) and not len(body.taken):
        numbers = [[np.asarray(concrete(leaf)) for leaf in each] for each in leaves]
        return as_constant(tape, _evaluated(body, numbers, count))
    tables = [_table(np.asarray(references), count) for each in entries for references, _ in each]
    columns = [column(table[:, k].copy()) for table in tables for k in range(table.shape[1])]
    return instances(tape, body, columns, count)


def _arguments(f: Any, xs: Sequence[Any]) -> tuple[list[Structure], list[list[Any]], int]:
    """Structure and leaves of each argument, and the one length of their first axes."""
    structures: list[Structure] = []
    leaves: list[list[Any]] = []
    lengths: dict[str, int] = {}
    for position, x in enumerate(xs):
        structure, found = flatten(x)
        structures.append(structure)
        leaves.append([])
        for path, leaf in found:
            array = leaf if isinstance(leaf, StandIn) else np.asarray(leaf)
            name = f"argument {position} of {name_of(f)}{path}"
            if not isinstance(array, StandIn) and array.dtype.kind not in "fiubcO":
                raise ArgumentError(f"{name} is {type(leaf).__name__} {leaf!r:.60}; expected an array of numbers")
            if not np.ndim(array):  # type: ignore[arg-type]
                raise ArgumentError(
                    f"{name} is one number; expected an array whose entries along the first axis are taken one by one. "
                    "The function may use what is the same for all of them from around it"
                )
            lengths[name] = len(array)  # type: ignore[arg-type]
            leaves[-1].append(array)
    if not lengths:
        raise ArgumentError(f"there is nothing to map {name_of(f)} over; expected at least one array")
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ArgumentError(f"first axes of different lengths ({given}); expected one length for all")
    return structures, leaves, next(iter(lengths.values()))


def _one_by_one(
    tape: Any, f: Callable[..., Any], structures: Sequence[Structure], entries: Sequence[Sequence[Any]], count: int
) -> Any:
    """The entries recorded one after the other, as a loop in Python: for a function that works on long arrays."""
    results = []
    for instance in range(count):
        given = [
            unflatten(structure, [make(tape, _entry(references, instance), boolean) for references, boolean in each])
            for structure, each in zip(structures, entries, strict=True)
        ]
        results.append(f(*given))
    structure, first = flatten(results[0])
    leaves = [[leaf for _, leaf in flatten(result)[1]] for result in results]
    kinds = [bool(getattr(leaf, "boolean", False)) for _, leaf in first]
    columns = [np.stack([references_of(tape, each[k], boolean) for each in leaves]) for k, boolean in enumerate(kinds)]
    return unflatten(
        structure,
        [TracedArray(tape, found, boolean=boolean) for found, boolean in zip(columns, kinds, strict=True)],
    )


def _entry(references: Any, instance: int) -> Any:
    found = np.asarray(references)[instance]
    return found if isinstance(found, np.ndarray) else int(found)


def _of_numbers(
    f: Callable[..., Any], structures: Sequence[Structure], leaves: Sequence[Sequence[NDArray[Any]]], count: int
) -> Any:
    """One after the other; many together, if the function can be recorded, and if some show that it does the same."""
    real = all(leaf.dtype == np.float64 or leaf.dtype.kind == "b" for each in leaves for leaf in each)
    if not count or (count >= MANY and real):
        arguments: list[tuple[Structure, list[Place]]] = [
            (structure, [(leaf.shape[1:], leaf.dtype.kind == "b") for leaf in each])
            for structure, each in zip(structures, leaves, strict=True)
        ]
        try:
            body = recorded_body(f, arguments, None)
        except (TraceError, LongBodyError):  # it decides by numbers: it cannot be recorded, but it can be run
            if not count:
                raise
        else:
            found = _evaluated(body, leaves, count)
            if not count or _agrees(f, structures, leaves, found, count):
                return found
    results = [_one(f, structures, leaves, instance) for instance in range(count)]
    structure, _ = flatten(results[0])
    columns: list[list[Any]] = []
    for instance, result in enumerate(results):
        other, parts = flatten(result)
        arrays = [as_numbers(part, path) for path, part in parts]
        if other != structure or (columns and [a.shape for a in arrays] != [column[0].shape for column in columns]):
            raise ArgumentError(
                f"{name_of(f)} returned {_shapes(results[0])} for entry 0, and {_shapes(result)} for entry {instance}; "
                "expected one structure and shape for all"
            )
        columns = columns or [[] for _ in arrays]
        for each, array in zip(columns, arrays, strict=True):
            each.append(array)
    return unflatten(structure, [np.stack(each) for each in columns])


def _shapes(result: Any) -> str:
    structure, leaves = flatten(result)
    return repr(unflatten(structure, [np.shape(leaf) for _, leaf in leaves]))


def _one(
    f: Callable[..., Any], structures: Sequence[Structure], leaves: Sequence[Sequence[NDArray[Any]]], instance: int
) -> Any:
    return f(
        *(
            unflatten(structure, [leaf[instance] for leaf in each])
            for structure, each in zip(structures, leaves, strict=True)
        )
    )


def _table(array: NDArray[Any], count: int) -> NDArray[Any]:
    """A row for each instance."""
    return array.reshape(count, int(np.prod(array.shape[1:])))


def _evaluated(body: Body, leaves: Sequence[Sequence[NDArray[Any]]], count: int) -> Any:
    """All instances, on numbers."""
    tables = [_table(leaf, count) for each in leaves for leaf in each]
    kinds = [boolean for shape, boolean in body.results for _ in range(int(np.prod(shape)))]
    results = [np.empty(count, bool if boolean else float) for boolean in kinds]
    for first in range(0, count, CHUNK):
        part = slice(first, min(first + CHUNK, count))
        inputs = [table[part, k] for table in tables for k in range(table.shape[1])]
        for result, values in zip(results, evaluate(body.tape, inputs), strict=True):
            result[part] = values
    arrays, place = [], 0
    for shape, boolean in body.results:
        size = int(np.prod(shape))
        entries = np.empty((count, size), bool if boolean else float)
        for k in range(size):
            entries[:, k] = results[place + k]
        arrays.append(entries.reshape(count, *shape))
        place += size
    return unflatten(body.structure, arrays)


def _agrees(
    f: Callable[..., Any],
    structures: Sequence[Structure],
    leaves: Sequence[Sequence[NDArray[Any]]],
    found: Any,
    count: int,
) -> bool:
    """True if the function itself computes the same for the first entry, the last, and one in between."""
    structure, arrays = flatten(found)
    for instance in (0, count // 2, count - 1):
        other, parts = flatten(_one(f, structures, leaves, instance))
        if other != structure:
            return False
        for (_, array), (_, part) in zip(arrays, parts, strict=True):
            mine, theirs = array[instance], np.asarray(part)
            if mine.shape != theirs.shape or not np.allclose(mine, theirs, rtol=1e-9, atol=0.0, equal_nan=True):
                return False
    return True
