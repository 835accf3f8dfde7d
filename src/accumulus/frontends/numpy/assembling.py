"""`accumulus.assemble`: one function for many index sets into vectors, its results added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.kinds import StandIn
from accumulus.frontends.location import name_of
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.mapping import map as map_over
from accumulus.frontends.numpy.operands import constants
from accumulus.frontends.trees import flatten


def assemble(
    element: Callable[..., Any],
    indices: Any,
    *,
    rows: Any = None,
    size: int | None = None,
) -> Callable[..., Any]:
    """A function of vectors that adds up what `element` computes for each of many index sets into them.

    For finite elements, networks, sums of residual blocks: `element` is recorded once, its Jacobian is found once, and
    both are run for all index sets in a loop; ``acc.jacobian(residual, sparse="csr")`` is the assembled sparse matrix.

    Args:
        element: a function of what one index set names of each vector, then of one entry of each further argument.
            What it returns is added to the result where `rows` says.
        indices: for each element where it takes its values along the first axis of the vector: integers of shape
            (elements, values), or (elements,) for one value each. A tuple of such arrays, if there are several vectors.
        rows: where the results are added along the first axis, of shape (elements, results) or (elements,) likewise;
            by default where the values are taken.
        size: length of the result; by default that of the vector, or the greatest of `rows` and one more.

    Returns:
        A function of the vectors, and of arrays of data with one entry along the first axis for each element.

    Raises:
        ArgumentError: for indices that are no integers or negative, or of different lengths; when the function is
            called for indices beyond the vector, data of another length, results of another shape than `rows`.

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
            f"indices are given for {len(taken)} vectors, and no rows; expected rows that say where results are added"
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


def _checked(given: Any, name: str) -> NDArray[np.int64]:
    """Indices as an array of its own."""
    if isinstance(given, StandIn):
        raise ArgumentError(f"{name} depend on the function's arguments; expected constant integers")
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise ArgumentError(
            f"{name} is an array of {array.dtype} of shape {array.shape}; expected integers of shape (elements,) or "
            "(elements, values of each)"
        )
    if array.size and (least := int(array.min())) < 0:
        where = np.unravel_index(int(array.argmin()), array.shape)
        raise ArgumentError(f"{name}{list(map(int, where))} is {least}; expected indices from 0 on")
    checked = np.array(array, np.int64)
    checked.flags.writeable = False
    return checked


def _check_inside(indices: NDArray[np.int64], length: int, name: str, what: str) -> None:
    if indices.size and (greatest := int(indices.max())) >= length:
        where = np.unravel_index(int(indices.argmax()), indices.shape)
        raise ArgumentError(
            f"{name}{list(map(int, where))} is {greatest}, and {what} has {length} entries along its first axis; "
            f"expected indices below {length}"
        )


def _assembled(
    element: Callable[..., Any],
    indices: Sequence[NDArray[np.int64]],
    rows: NDArray[np.int64],
    size: int | None,
    *arguments: Any,
) -> Any:
    """The sum of what all elements compute, where `rows` say."""
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
    for position, given in enumerate(data, count):
        for path, leaf in flatten(given)[1]:
            if np.shape(leaf)[:1] != (elements,):
                raise ArgumentError(
                    f"argument {position} of {name}{path} has the shape {np.shape(leaf)}; expected data of {elements} "
                    "elements along the first axis"
                )
    length = len(vectors[0]) if size is None else size
    found = map_over(element, *taken, *data)
    shape = np.shape(found) if isinstance(found, np.ndarray | TracedArray) else None
    if shape is None or shape[: rows.ndim] != rows.shape:
        what = "no array" if shape is None else f"an array of shape {shape[1:]}"
        raise ArgumentError(
            f"{name} returned {what} for one element; expected the shape {rows.shape[1:]}, or one that begins so, for "
            "the rows that results are added to"
        )
    zeros = np.zeros((length, *shape[rows.ndim :]), np.result_type(found.dtype, float))
    total: Any = zeros if ACTIVE.tape is None else TracedArray(ACTIVE.tape, constants(ACTIVE.tape, zeros))
    np.add.at(total, rows, found)
    return total
