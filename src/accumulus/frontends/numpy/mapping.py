"""Functions that are recorded once and run many times: `accumulus.map` and `accumulus.assemble`.

`map` runs a function for the entries along the first axis of arrays. `assemble` runs it for index sets into vectors,
and adds the results up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
from accumulus.frontends.numpy.operands import concrete, constants, depends, entries_of, references_of
from accumulus.frontends.trees import Structure, flatten, unflatten
from accumulus.tape.columns import column
from accumulus.tape.interpreter import evaluate

#: Minimum number of instances on numbers that are computed together: recording takes longer than running a few, and
#: running many one by one takes longer than recording.
MANY: Final = 64
#: Number of instances computed at once, such that intermediate values stay in the processor's cache: more leave it,
#: fewer make more calls of NumPy.
CHUNK: Final = 4096


def map(f: Callable[..., Any], *xs: Any) -> Any:  # noqa: A001  # like jax.lax.map
    """Return the results of `f` for each entry along the first axis of arrays, stacked, like ``jax.lax.map``.

    While a derivative is prepared, `f` is recorded once, independently of the number of entries, and becomes one loop.
    It may use variables of the enclosing function, including traced values. The operations must be the same for all
    entries; in particular `f` cannot use the entry as an index.

    Args:
        f: function of one entry of each of `xs` that returns a number, an array, or a list, tuple or dict of these.
        xs: arrays of shape (n, …), with the same n, or lists, tuples and dicts of such arrays. `f` receives their
            entries of shape (…) in the same structure.

    Returns:
        The results of `f`, with an additional leading axis of length n in each array.

    Raises:
        ArgumentError: for arguments that are not such arrays, and for results whose shape or structure varies.

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
    """Return the structure and leaves of each argument, and the common length of their first axes."""
    structures: list[Structure] = []
    leaves: list[list[Any]] = []
    lengths: dict[str, int] = {}
    for position, x in enumerate(xs):
        structure, named_leaves = flatten(x)
        structures.append(structure)
        leaves.append([])
        for path, leaf in named_leaves:
            array = leaf if isinstance(leaf, StandIn) else np.asarray(leaf)
            name = f"argument {position} of {name_of(f)}{path}"
            if not isinstance(array, StandIn) and array.dtype.kind not in "fiubcO":
                raise ArgumentError(f"{name} is {type(leaf).__name__} {leaf!r:.60}; expected an array of numbers")
            if not np.ndim(array):  # type: ignore[arg-type]
                raise ArgumentError(
                    f"{name} is one number; expected an array, whose entries along its first axis are passed to the "
                    "function one at a time. The function can read values that are the same for all entries from its "
                    "enclosing scope"
                )
            lengths[name] = len(array)  # type: ignore[arg-type]
            leaves[-1].append(array)
    if not lengths:
        raise ArgumentError(f"there is nothing to map {name_of(f)} over; expected at least one array")
    if len(set(lengths.values())) > 1:
        listing = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ArgumentError(f"first axes of different lengths ({listing}); expected one length for all")
    return structures, leaves, next(iter(lengths.values()))


def _one_by_one(
    tape: Any, f: Callable[..., Any], structures: Sequence[Structure], entries: Sequence[Sequence[Any]], count: int
) -> Any:
    """Record `f` for each entry separately, like a loop in Python; used for functions of long arrays."""
    results = []
    for instance in range(count):
        arguments = [
            unflatten(structure, [make(tape, _entry(references, instance), boolean) for references, boolean in each])
            for structure, each in zip(structures, entries, strict=True)
        ]
        results.append(f(*arguments))
    structure, first = flatten(results[0])
    leaves = [[leaf for _, leaf in flatten(result)[1]] for result in results]
    kinds = [bool(getattr(leaf, "boolean", False)) for _, leaf in first]
    columns = [np.stack([references_of(tape, each[k], boolean) for each in leaves]) for k, boolean in enumerate(kinds)]
    return unflatten(
        structure, [TracedArray(tape, column, boolean=boolean) for column, boolean in zip(columns, kinds, strict=True)]
    )


def _entry(references: Any, instance: int) -> Any:
    entry = np.asarray(references)[instance]
    return entry if isinstance(entry, np.ndarray) else int(entry)


def _of_numbers(
    f: Callable[..., Any], structures: Sequence[Structure], leaves: Sequence[Sequence[NDArray[Any]]], count: int
) -> Any:
    """Return results on numbers: many instances at once if `f` can be recorded and samples agree, else individually."""
    real = all(leaf.dtype == np.float64 or leaf.dtype.kind == "b" for each in leaves for leaf in each)
    if not count or (count >= MANY and real):
        arguments: list[tuple[Structure, list[Place]]] = [
            (structure, [(leaf.shape[1:], leaf.dtype.kind == "b") for leaf in each])
            for structure, each in zip(structures, leaves, strict=True)
        ]
        try:
            body = recorded_body(f, arguments, None)
        except (TraceError, LongBodyError):  # it branches on numbers: it can only be run
            if not count:
                raise
        else:
            evaluated = _evaluated(body, leaves, count)
            if not count or _agrees(f, structures, leaves, evaluated, count):
                return evaluated
    results = [_one(f, structures, leaves, instance) for instance in range(count)]
    structure, _ = flatten(results[0])
    columns: list[list[Any]] = []
    for instance, result in enumerate(results):
        other, parts = flatten(result)
        arrays = [as_numbers(result_leaf, path) for path, result_leaf in parts]
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
    """Return the entries of an array as a matrix with a row for each instance."""
    return array.reshape(count, int(np.prod(array.shape[1:])))


def _evaluated(body: Body, leaves: Sequence[Sequence[NDArray[Any]]], count: int) -> Any:
    """Return the results of a body for all instances on numbers."""
    tables = [_table(leaf, count) for each in leaves for leaf in each]
    kinds = [boolean for shape, boolean in body.results for _ in range(int(np.prod(shape)))]
    results = [np.empty(count, bool if boolean else float) for boolean in kinds]
    for first in range(0, count, CHUNK):
        chunk = slice(first, min(first + CHUNK, count))
        inputs = [table[chunk, k] for table in tables for k in range(table.shape[1])]
        for result, values in zip(results, evaluate(body.tape, inputs), strict=True):
            result[chunk] = values
    arrays, offset = [], 0
    for shape, boolean in body.results:
        size = int(np.prod(shape))
        entries = np.empty((count, size), bool if boolean else float)
        for k in range(size):
            entries[:, k] = results[offset + k]
        arrays.append(entries.reshape(count, *shape))
        offset += size
    return unflatten(body.structure, arrays)


def _agrees(
    f: Callable[..., Any],
    structures: Sequence[Structure],
    leaves: Sequence[Sequence[NDArray[Any]]],
    results: Any,
    count: int,
) -> bool:
    """Return True if the function itself gives the same results for the first, the last and the middle entry."""
    structure, arrays = flatten(results)
    for instance in (0, count // 2, count - 1):
        other, parts = flatten(_one(f, structures, leaves, instance))
        if other != structure:
            return False
        for (_, array), (_, leaf) in zip(arrays, parts, strict=True):
            mine, theirs = array[instance], np.asarray(leaf)
            if mine.shape != theirs.shape or not np.allclose(mine, theirs, rtol=1e-9, atol=0.0, equal_nan=True):
                return False
    return True


# Assembly -----------------------------------------------------------------------------------------------------------


def assemble(
    element: Callable[..., Any], indices: Any, *, rows: Any = None, size: int | None = None
) -> Callable[..., Any]:
    """Return a function of vectors that assembles the results of `element` over many index sets.

    Use it for finite elements, networks, and sums of residual blocks. `element` is recorded once, its Jacobian is
    planned once, and both run for all index sets in a loop; ``acc.jacobian(residual, sparse="csr")`` is the assembled
    sparse matrix.

    Args:
        element: function of the values that one index set selects from each vector, followed by one entry of each
            further argument. Its result is added to the assembled result at `rows`.
        indices: for each element, the positions of its values along the first axis of the vector: integers of shape
            (elements, values), or (elements,) for a single value. For several vectors, a tuple of such arrays.
        rows: for each element, the positions along the first axis at which its results are added: integers of shape
            (elements, results) or (elements,). Default: `indices`.
        size: length of the result. Default: the largest row plus one if `rows` is passed, else the length of the
            vector.

    Returns:
        A function of the vectors, and of arrays of data with one entry along the first axis for each element.

    Raises:
        ArgumentError: for indices that are not integers, negative, or of different lengths. When the function is
            called, for indices beyond the vector, data of another length, and results of another shape than `rows`.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> def spring(ends, stiffness):
    ...     force = stiffness * np.sin(ends[1] - ends[0])
    ...     return np.array([force, -force])
    >>> chain = acc.assemble(spring, [[0, 1], [1, 2], [2, 3]])
    >>> chain(np.zeros(4), np.ones(3))
    array([0., 0., 0., 0.])
    >>> acc.jacobian(chain, sparse="csr")(np.zeros(4), np.array([1.0, 2.0, 3.0])).toarray()
    array([[-1.,  1.,  0.,  0.],
           [ 1., -3.,  2.,  0.],
           [ 0.,  2., -5.,  3.],
           [ 0.,  0.,  3., -3.]])
    """
    if not callable(element):
        raise ArgumentError(f"element is {element!r:.60}; expected a function of the values of one element")
    several = isinstance(indices, tuple)
    taken = (
        [_checked(each, f"indices[{k}]" if several else "indices") for k, each in enumerate(indices)]
        if several
        else [_checked(indices, "indices")]
    )
    if not taken:
        raise ArgumentError("indices is an empty tuple; expected an array of integers for each vector")
    if rows is None and several:
        raise ArgumentError(
            f"indices are given for {len(taken)} vectors, but no rows; expected rows, the positions to which results "
            "are added"
        )
    added = taken[0] if rows is None else _checked(rows, "rows")
    lengths = [len(each) for each in (*taken, added)]
    if len(set(lengths)) > 1:
        raise ArgumentError(f"indices and rows are for {lengths} elements; expected one number of elements")
    if size is None and rows is not None:
        size = int(added.max(initial=-1)) + 1
    if size is not None:
        _check_inside(added, size, "rows" if rows is not None else "indices", "the result")
    residual = partial(_assembled, element, tuple(taken), added, size)
    residual.__name__ = name_of(element)  # type: ignore[attr-defined]
    residual.__doc__ = f"What {name_of(element)} makes of {len(added)} index sets, added up."
    return residual


def _checked(indices: Any, name: str) -> NDArray[np.int64]:
    """Return a read-only copy of indices as an array of integers.

    Raises:
        ArgumentError: if they are traced, not integers, or negative.
    """
    if isinstance(indices, StandIn):
        raise ArgumentError(f"{name} depend on the function's arguments; expected constant integers")
    array = np.asarray(indices)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise ArgumentError(
            f"{name} is an array of {array.dtype} of shape {array.shape}; expected integers of shape (elements,) or "
            "(elements, values of each)"
        )
    if array.size and (smallest := int(array.min())) < 0:
        where = np.unravel_index(int(array.argmin()), array.shape)
        raise ArgumentError(f"{name}{[int(k) for k in where]} is {smallest}; expected indices of at least 0")
    checked = np.array(array, np.int64)
    checked.flags.writeable = False
    return checked


def _check_inside(indices: NDArray[np.int64], length: int, name: str, array_name: str) -> None:
    if indices.size and (greatest := int(indices.max())) >= length:
        where = np.unravel_index(int(indices.argmax()), indices.shape)
        raise ArgumentError(
            f"{name}{[int(k) for k in where]} is {greatest}, and {array_name} has {length} entries along its first "
            f"axis; expected indices below {length}"
        )


def _assembled(
    element: Callable[..., Any],
    indices: Sequence[NDArray[np.int64]],
    rows: NDArray[np.int64],
    size: int | None,
    *arguments: Any,
) -> Any:
    """Return the sum of the results of all elements, each added at its rows."""
    name, count, elements = name_of(element), len(indices), len(rows)
    if len(arguments) < count:
        raise ArgumentError(
            f"{name} is assembled from {count} vectors, and {len(arguments)} arguments are given; expected {count} "
            "vectors, then data of the elements"
        )
    vectors, data = arguments[:count], arguments[count:]
    taken = []
    for position, (vector, where) in enumerate(zip(vectors, indices, strict=True)):
        array: Any = vector if isinstance(vector, StandIn) else np.asarray(vector)
        if not np.ndim(array):
            raise ArgumentError(f"argument {position} of {name} is one number; expected a vector")
        _check_inside(where, len(array), "indices", f"argument {position}")
        taken.append(array[where])
    for position, argument in enumerate(data, count):
        for path, leaf in flatten(argument)[1]:
            if np.shape(leaf)[:1] != (elements,):
                raise ArgumentError(
                    f"argument {position} of {name}{path} has the shape {np.shape(leaf)}; expected data of {elements} "
                    "elements along the first axis"
                )
    length = len(vectors[0]) if size is None else size
    contributions = map(element, *taken, *data)
    shape = np.shape(contributions) if isinstance(contributions, np.ndarray | TracedArray) else None
    if shape is None or shape[: rows.ndim] != rows.shape:
        description = "no array" if shape is None else f"an array of shape {shape[1:]}"
        raise ArgumentError(
            f"{name} returned {description} for one element; expected the shape {rows.shape[1:]}, or one that begins "
            "with it: results are added to rows of this shape"
        )
    zeros = np.zeros((length, *shape[rows.ndim :]), np.result_type(contributions.dtype, float))
    total: Any = zeros if ACTIVE.tape is None else TracedArray(ACTIVE.tape, constants(ACTIVE.tape, zeros))
    np.add.at(total, rows, contributions)
    return total
