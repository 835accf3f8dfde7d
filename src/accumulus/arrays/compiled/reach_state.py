"""What `accumulus.arrays.compiled.reach_kernel` works on."""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.state import NOTHING, Integers, State

#: Marks of outputs in a word.
BITS: Final = 62
#: Beyond all columns.
NONE: Final = np.iinfo(np.int64).max


class ReachState(State):
    """A recurrence, and which columns of a sparse matrix each of its instances has something of.

    Attributes:
        at, end: the next instance, and the one after the last.
        count: of instances.
        slots: operands of an instance that may be results of earlier ones.
        directs: lists of columns that an instance has of its own.
        words: of the marks of outputs.
        source: (slots, count), the instance that an operand is a result of, below 0 if it is none.
        source_output: (slots, count), which of its outputs it is.
        direct_begins: (directs * count + 1,), where the columns of each list begin.
        direct_columns: those columns, increasing in each list.
        wakes, direct_wakes: (slots, words) and (directs, words): marks of the outputs that depend on each.
        begins: (count + 1,), where the columns of each instance begin among all that were found.
        found, room: how many were found, and how many there is room for.
        columns: those, increasing for each instance.
        operands: (room, slots), which of those found before each takes, below 0 where none.
        lists: (room, directs), which entry of each list it takes, below 0 where none.
        marks: (room, words), the outputs that are not zero.
        heads, ends: room for a number for each operand and list.
    """

    at: int = 0
    end: int = 0
    count: int = 0
    slots: int = 0
    directs: int = 0
    words: int = 1
    source: Integers = NOTHING
    source_output: Integers = NOTHING
    direct_begins: Integers = NOTHING
    direct_columns: Integers = NOTHING
    wakes: Integers = NOTHING
    direct_wakes: Integers = NOTHING
    begins: Integers = NOTHING
    found: int = 0
    room: int = 0
    columns: Integers = NOTHING
    operands: Integers = NOTHING
    lists: Integers = NOTHING
    marks: Integers = NOTHING
    heads: Integers = NOTHING
    ends: Integers = NOTHING
