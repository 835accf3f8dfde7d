"""Compiled pass over a recurrence: which columns of a sparse matrix each instance has something of.

The columns of an instance are those of the results that it takes, and those of its own lists, merged in order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.decorators import compiled
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
    # column_count, room: columns found so far, and the most that fit
    column_count: int = 0
    room: int = 0
    columns: Integers = NOTHING  # those, increasing for each instance
    operands: Integers = NOTHING  # (room, slots), which of those found before each takes, below 0 where none
    lists: Integers = NOTHING  # (room, directs), which entry of each list it takes, below 0 where none
    marks: Integers = NOTHING  # (room, words), the outputs that are not zero
    # heads, ends: room for a number for each operand and list
    heads: Integers = NOTHING
    ends: Integers = NOTHING


@compiled
def next_of_operand(state: ReachState, s: int, i: int) -> int:
    """Return the next column that an operand has something of, with the head moved there."""
    heads, ends, words = state.heads, state.ends, state.words
    output = state.source_output[s * state.count + i]
    word, bit = output // BITS, 1 << (output % BITS)
    while heads[s] < ends[s]:
        if state.marks[heads[s] * words + word] & bit != 0:
            column: int = state.columns[heads[s]]
            return column
        heads[s] += 1
    return NONE


@compiled
def begin(state: ReachState, i: int) -> int:
    """Set the heads of all lists of an instance; returns how many columns it may have at most."""
    heads, ends, total = state.heads, state.ends, 0
    for s in range(state.slots):
        before = state.source[s * state.count + i]
        heads[s] = state.begins[before] if before >= 0 else 0
        ends[s] = state.begins[before + 1] if before >= 0 else 0
        total += ends[s] - heads[s]
    for k in range(state.directs):
        index = state.slots + k
        heads[index] = state.direct_begins[k * state.count + i]
        ends[index] = state.direct_begins[k * state.count + i + 1]
        total += ends[index] - heads[index]
    return total


@compiled
def smallest(state: ReachState, i: int) -> int:
    """Return the next column of an instance."""
    heads, ends, column = state.heads, state.ends, NONE
    for s in range(state.slots):
        column = min(column, next_of_operand(state, s, i))
    for k in range(state.directs):
        index = state.slots + k
        if heads[index] < ends[index]:
            column = min(column, state.direct_columns[heads[index]])
    return column


@compiled
def take(state: ReachState, i: int, column: int) -> None:
    """Note one column of an instance, and move on all heads that are there."""
    heads, ends, words, j = state.heads, state.ends, state.words, state.column_count
    state.columns[j] = column
    for w in range(words):
        state.marks[j * words + w] = 0
    for s in range(state.slots):
        state.operands[j * state.slots + s] = -1
        if heads[s] < ends[s] and state.columns[heads[s]] == column:
            state.operands[j * state.slots + s] = heads[s]
            for w in range(words):
                state.marks[j * words + w] |= state.wakes[s * words + w]
            heads[s] += 1
    for k in range(state.directs):
        index = state.slots + k
        state.lists[j * state.directs + k] = -1
        if heads[index] < ends[index] and state.direct_columns[heads[index]] == column:
            state.lists[j * state.directs + k] = heads[index]
            for w in range(words):
                state.marks[j * words + w] |= state.direct_wakes[k * words + w]
            heads[index] += 1
    alive = 0
    for w in range(words):
        alive |= state.marks[j * words + w]
    if alive != 0:
        state.column_count = j + 1


def run_reach(state: ReachState) -> int:
    """Go on until the end, or until there may be no room for the next instance; returns the room that it needs."""
    for i in range(state.at, state.end):
        state.at = i
        needed = begin(state, i)
        if state.column_count + needed + 1 > state.room:
            return state.column_count + needed + 1
        column = smallest(state, i)
        while column != NONE:
            take(state, i, column)
            column = smallest(state, i)
        state.begins[i + 1] = state.column_count
    state.at = state.end
    return 0
