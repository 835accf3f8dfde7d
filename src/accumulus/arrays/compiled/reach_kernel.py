"""Compiled pass over a recurrence: the columns of a sparse matrix in which each instance has entries.

The columns of an instance are the union of the columns of its operands and of its own lists, merged in order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Integers, State

#: Outputs whose marks fit into one word.
BITS: Final = 62
#: Larger than any column.
NONE: Final = np.iinfo(np.int64).max


class ReachState(State):
    """A recurrence, and the columns of a sparse matrix in which its instances have entries."""

    # at, end: the next instance, and the one after the last
    at: int = 0
    end: int = 0
    count: int = 0  # number of instances
    slots: int = 0  # operands of an instance that may be results of earlier instances
    directs: int = 0  # lists of columns that belong to each instance alone
    words: int = 1  # words of a set of outputs
    source: Integers = NOTHING  # (slots, count), instance whose result is the operand; below 0 if none is
    source_output: Integers = NOTHING  # (slots, count), output of that instance
    direct_begins: Integers = NOTHING  # (directs * count + 1,), begin of the columns of each list
    direct_columns: Integers = NOTHING  # the columns, increasing in each list
    # wakes, direct_wakes: (slots, words) and (directs, words): sets of outputs that depend on each operand or list
    wakes: Integers = NOTHING
    direct_wakes: Integers = NOTHING
    begins: Integers = NOTHING  # (count + 1,), begin of the columns of each instance
    # column_count, room: number of columns so far, and capacity
    column_count: int = 0
    room: int = 0
    columns: Integers = NOTHING  # columns, increasing within each instance
    operands: Integers = NOTHING  # (room, slots), index of the operand's column; below 0 if it has none there
    lists: Integers = NOTHING  # (room, directs), index of the list's column; below 0 if it has none there
    marks: Integers = NOTHING  # (room, words), set of the outputs that are not zero
    # heads, ends: for each operand and list, the next column and the end
    heads: Integers = NOTHING
    ends: Integers = NOTHING


@compiled
def next_of_operand(state: ReachState, s: int, i: int) -> int:
    """Return an operand's next column that reaches an output; moves its head there."""
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
    """Set the heads of all lists of an instance; return an upper bound on its number of columns."""
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
    """Store one column of an instance, and advance the heads that point to it."""
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
    """Process instances until the end, or until memory may not suffice; return the capacity that is needed then."""
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
