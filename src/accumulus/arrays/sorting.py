"""Entries of sparse matrices in order: sorted by rows and columns, taken together, and matched, in compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.entries_state import COMPRESS, COUNT, GIVEN, JOIN, PLACE, SORT, EntriesState
from accumulus.native.machine import kernel
from accumulus.tape.columns import Column, Range

Integers = NDArray[np.int64]
#: Marks places that are named several times; far from all references.
_MARK: Final = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Sorted:
    """Entries row by row, each place once.

    Attributes:
        begins: where those of each row begin, and where those of the last end.
        columns, values: of each entry.
    """

    begins: Integers
    columns: Integers
    values: Integers

    def rows(self, dtype: type[np.signedinteger[Any]] = np.int64) -> NDArray[Any]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.begins) - 1, dtype=dtype), np.diff(self.begins))


def sorted_entries(
    entries: Sequence[tuple[Column, Column, Column]],
    first: int,
    rows: int,
    sums: Callable[[Integers, Integers], Integers],
) -> Sorted:
    """Entries in order, each place once.

    Args:
        entries: columns of rows, of columns and of values.
        first: the first row.
        rows: how many there are.
        sums: what values become whose places are the same: given all of them, place by place, and where those of each
            begin, and those of the last end.
    """
    state = _placed(entries, first, rows)
    _sort(state)
    state.value_start = _MARK
    _run(state, COMPRESS)
    if not state.groups:
        return Sorted(state.begins[:-1], state.columns, state.placed)
    state.terms, state.offsets = np.empty(state.term_count, np.int64), np.empty(state.groups + 1, np.int64)
    state.writes = 1
    _run(state, COMPRESS)
    columns, values = state.columns, state.placed
    for array in (columns, values):  # in place: they may be most of the memory that there is
        array.resize(state.total, refcheck=False)
    values[values <= _MARK] = sums(state.terms, state.offsets)
    return Sorted(state.begins[:-1], columns, values)


def distinct(rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """An order of places by rows and columns, and where in it each place comes first."""
    state = _placed([(rows, columns, Range(0, 1, len(rows)))], 0, int(rows.max(initial=-1)) + 1)
    _sort(state)
    order = state.placed
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(state.columns) != 0) | (np.diff(rows[order]) != 0)
    return order, np.flatnonzero(new)


def joined(outer: Integers, inner: Integers, size: int) -> tuple[Integers, Integers]:
    """Places of an array of so many that both name: positions in the one and in the other, in the order of the one."""
    state = _placed([(inner, Range(0, 0, len(inner)), Range(0, 1, len(inner)))], 0, size)
    _give(state, "head", outer)
    state.count = len(outer)
    _run(state, JOIN)
    state.terms, state.offsets = np.empty((2, state.total), np.int64)
    state.writes = 1
    _run(state, JOIN)
    return state.terms, state.offsets


def _placed(entries: Sequence[tuple[Column, Column, Column]], first: int, rows: int) -> EntriesState:
    """Entries row by row, those of a row in the order in which they are given."""
    total = sum(len(heads) for heads, _, _ in entries)
    state = EntriesState(rows=rows, begins=np.zeros(rows + 2, np.int64))
    for heads, _, _ in entries:
        _give(state, "head", heads, first)
        _run(state, COUNT)
    np.cumsum(state.begins, out=state.begins)
    state.columns, state.placed = np.empty(total, np.int64), np.empty(total, np.int64)
    for heads, tails, values in entries:
        _give(state, "head", heads, first)
        _give(state, "tail", tails)
        _give(state, "value", values)
        _run(state, PLACE)
    return state


def _sort(state: EntriesState) -> None:
    """Sort the entries of each row by their columns."""
    longest = int(np.diff(state.begins[:-1]).max(initial=0))
    state.spare_columns, state.spare_placed = np.empty((2, longest), np.int64)
    _run(state, SORT)


def _give(state: EntriesState, name: str, operands: Column, first: int = 0) -> None:
    """Let the kernel read a column."""
    if isinstance(operands, Range):
        setattr(state, f"{name}_start", operands.start - first)
        setattr(state, f"{name}_step", operands.step)
    else:
        setattr(state, f"{name}s", operands)
        setattr(state, f"{name}_start", -first)
        setattr(state, f"{name}_step", GIVEN)
    if name == "head":
        state.count = len(operands)


def _run(state: EntriesState, mode: int) -> None:
    state.mode = mode
    kernel("arrays.entries")(state.address)
