"""Entries that sparse derivatives through a recurrence have, before any of them is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.reach_state import BITS, ReachState
from accumulus.native.machine import kernel

Integers = NDArray[np.int64]
#: Instances of one call of the kernel; between calls Ctrl-C is heard.
CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Lists:
    """For each of several places and each instance a list of entries."""

    begins: Integers  # (places * instances + 1,), where the lists begin
    columns: Integers  # of the entries, increasing in each list
    values: Integers  # of the entries


@dataclass(frozen=True, slots=True)
class Reached:
    """Pairs of an instance and a column that it has something of, by instances, then by columns."""

    # instances, columns: of each pair
    instances: Integers
    columns: Integers
    operands: NDArray[np.int32]  # (pairs, slots), the earlier pair that each operand is a result of, -1 where it is 0
    lists: NDArray[np.int32]  # (pairs, places), the entry of each list, -1 where it is 0
    marks: Integers  # words of marks of the outputs that are not 0

    def __len__(self) -> int:
        return len(self.columns)

    def has(self, output: int) -> NDArray[np.bool_]:
        """Mask of the outputs that are not 0."""
        found: NDArray[np.bool_] = (self.marks[:, output // BITS] >> (output % BITS)) & 1 != 0
        return found


def reach(
    source: Integers,
    source_output: Integers,
    lists: Lists,
    wakes: NDArray[np.bool_],
    list_wakes: NDArray[np.bool_],
    most: int,
) -> Reached | None:
    """The pairs of a recurrence; None if there are more than `most`.

    Args:
        source: (slots, instances), the instance that an operand is a result of, below 0 if it is none.
        source_output: which of its outputs.
        wakes: (slots, outputs), whether an output depends on an operand.
        list_wakes: (places, outputs), whether an output depends on an entry of a list.
    """
    slots, count = source.shape
    directs, words = len(list_wakes), -(-wakes.shape[1] // BITS)
    state = ReachState(
        count=count,
        slots=slots,
        directs=directs,
        words=words,
        source=np.ascontiguousarray(source).reshape(-1),
        source_output=np.ascontiguousarray(source_output).reshape(-1),
        direct_begins=lists.begins,
        direct_columns=lists.columns,
        wakes=_marks(wakes, words),
        direct_wakes=_marks(list_wakes, words),
        begins=np.zeros(count + 1, np.int64),
        heads=np.zeros(slots + directs, np.int64),
        ends=np.zeros(slots + directs, np.int64),
    )
    _make_room(state, 2 * (count + len(lists.columns)) + 64)
    while state.at < count:
        state.end = min(state.at + CHUNK, count)
        needed = kernel("arrays.reach")(state.address)
        if needed > most or state.found > most:
            return None
        if needed:
            _make_room(state, min(2 * needed, most + 1))
    found = state.found
    tables = ((state.operands, slots), (state.lists, directs))
    operands, own = (table[: found * width].reshape(found, width).astype(np.int32) for table, width in tables)
    return Reached(
        np.repeat(np.arange(count), np.diff(state.begins)),
        state.columns[:found].copy(),
        operands,
        own,
        state.marks[: found * words].reshape(found, words).copy(),
    )


def _marks(matrix: NDArray[np.bool_], words: int) -> Integers:
    """The rows of a matrix as words of bits."""
    bits = np.zeros((len(matrix), words * BITS), np.int64)
    bits[:, : matrix.shape[1]] = matrix
    marks: Integers = (bits.reshape(-1, words, BITS) << np.arange(BITS)).sum(axis=2)
    return marks.reshape(-1)


def _make_room(state: ReachState, room: int) -> None:
    for name, width in (("columns", 1), ("operands", state.slots), ("lists", state.directs), ("marks", state.words)):
        grown = np.empty(room * width, np.int64)
        filled = state.found * width
        grown[:filled] = getattr(state, name)[:filled]
        setattr(state, name, grown)
    state.room = room
