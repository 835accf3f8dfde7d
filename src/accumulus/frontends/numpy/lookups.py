"""Lookups with long arrays of traced indices, which stay numbers of the program.

The program looks the entries up when it runs, so that other indices need no new recording: minibatches, neighbours, the
corners of a mesh. Guards check that indices are in range. In all other cases the values of an index are constants of
the recording (`accumulus.frontends.decisions`): if it is short, if entries are assigned, or if the shape of the result
depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.decisions import in_range
from accumulus.frontends.numpy.operands import depends
from accumulus.frontends.recorder import References
from accumulus.tape import program as sizes


def opens_indices(tape: Any, size: int) -> bool:
    """Return True if arrays of so many indices may stay numbers of the program."""
    decisions = ACTIVE.decisions
    if decisions is None or not decisions.opens_indices or decisions.tape is not tape or not tape.may_loop:
        return False
    return size >= sizes.LONG


def is_lookup(tape: Any, index: Any) -> bool:
    """Return True if an index contains long arrays whose values may stay numbers of the program."""
    if not opens_indices(tape, sizes.LONG):
        return False
    parts = index if isinstance(index, tuple) else (index,)
    return any(_is_open(item) and item.size >= sizes.LONG for item in parts)


def read(tape: Any, references: References, index: Any) -> References:
    """Return the entries of an array at an index, in the shape of NumPy's result.

    Raises:
        IndexError, TypeError: for invalid indices at the given point, as in NumPy.
        UnmergeableError: in a branch that is recorded next to the other.
    """
    layout = _Layout(tape, references.shape, index)
    rows = tape.gather(layout.matrix(references)[:, layout.used_columns], layout.indices)
    return np.asarray(rows[layout.row, layout.column])


def add(tape: Any, references: References, index: Any, values: References) -> bool:
    """Add values to the entries at an index, repeatedly for repeated entries; return False if not possible.

    Raises:
        IndexError, TypeError, UnmergeableError: see `read`.
    """
    layout = _Layout(tape, references.shape, index)
    if layout.row.size != len(layout.indices) * len(layout.used_columns):
        return False  # constant indices select an entry repeatedly
    terms = np.empty((len(layout.indices), len(layout.used_columns)), np.int64)
    terms[layout.row, layout.column] = np.broadcast_to(values, layout.row.shape)
    sums = tape.scatter(terms, layout.indices, layout.count)
    places = layout.matrix(np.arange(references.size).reshape(references.shape))[:, layout.used_columns]
    before = references.flat[places]
    is_new = bool((before == tape.constant(0.0)).all())
    references.flat[places] = sums if is_new else tape.apply("add", before, sums)
    return True


def _is_open(item: Any) -> bool:
    return isinstance(getattr(item, "references", None), np.ndarray) and not item.boolean and depends(item)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An index that stays a number of the program.

    Attributes:
        axis: axis of the array that it indexes.
        position: position in the tuple of indices.
    """

    axis: int
    position: int


class _Layout:
    """Reduction of an index with open parts to a lookup of rows in a matrix.

    The axes with open indices form the rows of the matrix, all other axes its columns. The row and column of each
    result entry follow from NumPy's indexing of arrays of numbers.

    Attributes:
    count: number of rows of the matrix.
    indices: references of the row indices.
    used_columns: columns that are read from each row.
    row, column: for each entry of the result, its position among `indices`, and among `used_columns`.
    """

    def __init__(self, tape: Any, shape: tuple[int, ...], index: Any) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        self._axes = _open_axes(parts, len(shape))
        lengths = [shape[each.axis] for each in self._axes]
        self.count, self._shape = math.prod(lengths), shape
        indices = [parts[each.position].references for each in self._axes]
        for references, length in zip(indices, lengths, strict=True):
            in_range(tape, references, length)
        broadcast = np.broadcast_arrays(*indices)
        counter = np.arange(broadcast[0].size).reshape(broadcast[0].shape)
        axes, places = ([getattr(each, name) for each in self._axes] for name in ("axis", "position"))
        zeros = dict.fromkeys(places, np.zeros_like(counter))
        columns = [1 if axis in axes else length for axis, length in enumerate(shape)]
        along = np.arange(counter.size).reshape([-1 if axis == axes[0] else 1 for axis in range(len(shape))])
        counted = np.broadcast_to(along, np.broadcast_shapes(along.shape, columns))
        self.row = counted[_replaced(index, zeros | {places[0]: counter})]
        chosen = np.arange(math.prod(columns)).reshape(columns)[_replaced(index, zeros)]
        is_chosen = np.zeros(math.prod(columns), bool)
        is_chosen[chosen] = True
        self.used_columns, self.column = np.flatnonzero(is_chosen), (np.cumsum(is_chosen) - 1)[chosen]
        self.indices = _flat_index(tape, broadcast, lengths)

    def matrix(self, references: References) -> References:
        """Return the references of an array of this shape as a matrix."""
        axes = [each.axis for each in self._axes]
        return np.moveaxis(references, axes, range(len(axes))).reshape(self.count, -1)


def _open_axes(parts: Sequence[Any], axes: int) -> list[_Axis]:
    """Return the open indices and the axes that they index."""
    widths = [_width(item) for item in parts]
    rest = axes - sum(width for width in widths if width is not None)
    open_axes, axis = [], 0
    for position, (item, width) in enumerate(zip(parts, widths, strict=True)):
        if _is_open(item):
            open_axes.append(_Axis(axis, position))
        axis += rest if width is None else width
    return open_axes


def _width(item: Any) -> int | None:
    """Return the number of axes that an item of an index uses; None for an ellipsis, which uses the remaining ones."""
    if item is Ellipsis:
        return None
    if item is None:
        return 0
    kind = getattr(item, "dtype", None)
    return item.ndim if kind is not None and kind.kind == "b" else 1


def _replaced(index: Any, arrays: dict[int, Any]) -> tuple[Any, ...]:
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(arrays.get(position, item) for position, item in enumerate(parts))


def _flat_index(tape: Any, indices: Sequence[References], lengths: Sequence[int]) -> References:
    """Return row indices from the index along each axis; negative indices remain if there is a single axis."""
    if len(indices) == 1:
        return indices[0].reshape(-1)
    total: Any = None
    for index, length in zip(indices, lengths, strict=True):
        flat, limit = index.reshape(-1), tape.constant(float(length))
        is_negative = tape.apply("less", flat, tape.constant(0.0))
        from_front = tape.apply("select", is_negative, tape.apply("add", flat, limit), flat)
        total = from_front if total is None else tape.apply("add", tape.apply("multiply", total, limit), from_front)
    return np.asarray(total, np.int64)
