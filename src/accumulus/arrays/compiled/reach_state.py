"""Memory that `accumulus.arrays.compiled.reach_kernel` works on."""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.state import NOTHING, Integers, State

#: Marks of outputs in a word.
BITS: Final = 62
#: Beyond all columns.
NONE: Final = np.iinfo(np.int64).max


class ReachState(State):
    """A recurrence, and which columns of a sparse matrix each of its instances has something of."""

    # at, end: the next instance, and the one after the last
    at: int = 0
    end: int = 0
    count: int = 0  # of instances
    slots: int = 0  # operands of an instance that may be results of earlier ones
    directs: int = 0  # lists of columns that an instance has of its own
    words: int = 1  # of the marks of outputs
    source: Integers = NOTHING  # (slots, count), the instance that an operand is a result of, below 0 if it is none
    source_output: Integers = NOTHING  # (slots, count), which of its outputs it is
    direct_begins: Integers = NOTHING  # (directs * count + 1,), where the columns of each list begin
    direct_columns: Integers = NOTHING  # those columns, increasing in each list
    # wakes, direct_wakes: (slots, words) and (directs, words): marks of the outputs that depend on each
    wakes: Integers = NOTHING
    direct_wakes: Integers = NOTHING
    begins: Integers = NOTHING  # (count + 1,), where the columns of each instance begin among all that were found
    # found, room: how many were found, and how many there is room for
    found: int = 0
    room: int = 0
    columns: Integers = NOTHING  # those, increasing for each instance
    operands: Integers = NOTHING  # (room, slots), which of those found before each takes, below 0 where none
    lists: Integers = NOTHING  # (room, directs), which entry of each list it takes, below 0 where none
    marks: Integers = NOTHING  # (room, words), the outputs that are not zero
    # heads, ends: room for a number for each operand and list
    heads: Integers = NOTHING
    ends: Integers = NOTHING
