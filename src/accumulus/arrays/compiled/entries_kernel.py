"""Compiled sorting of sparse matrices: entries by rows and columns, duplicates collected, and joins of two arrays.

Time is proportional to the number of entries, except in rows with many entries out of order.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Integers, State

#: Modes: count the entries of each row; store them by rows; sort each row; collect duplicate positions; pair stored
#: entries with entries of the same row.
COUNT, PLACE, SORT, COMPRESS, JOIN = range(5)
#: The step of a column that is listed entry by entry.
GIVEN: Final = 2


class EntriesState(State):
    """Entries of a sparse matrix, and the memory to sort them by rows, then columns."""

    mode: int = 0  # one of the modes above
    count: int = 0  # number of input entries, for PLACE and JOIN
    # heads, head_start, head_step: row of entry k: the start, plus `heads[k]` if the step is `GIVEN`, else plus k steps
    heads: Integers = NOTHING
    head_start: int = 0
    head_step: int = 0
    # tails, tail_start, tail_step: its column, in the same form; JOIN does not read it
    tails: Integers = NOTHING
    tail_start: int = 0
    tail_step: int = 0
    # values, value_start, value_step: its value, in the same form
    values: Integers = NOTHING
    value_start: int = 0
    value_step: int = 0
    rows: int = 0  # of the matrix
    # begin of the entries of each row, and the end of the last; (rows + 2,). Until all are stored, each begin is one
    # index further on
    begins: Integers = NOTHING
    # columns, placed: columns and values of the stored entries, row by row
    columns: Integers = NOTHING
    placed: Integers = NOTHING
    # spare_columns, spare_placed: scratch memory as long as the longest row
    spare_columns: Integers = NOTHING
    spare_placed: Integers = NOTHING
    total: int = 0  # number of entries after COMPRESS; number of pairs after JOIN
    # terms, offsets: after COMPRESS, values of duplicate positions, group by group, and the begin of each group; after
    # JOIN, the two sides of the pairs
    terms: Integers = NOTHING
    offsets: Integers = NOTHING
    groups: int = 0  # number of positions with duplicates
    writes: int = 0  # 1 if terms and offsets have room; 0 to count only
    term_count: int = 0  # total number of values in these groups


@compiled
def head(state: EntriesState, k: int) -> int:
    """Return the row of an entry."""
    return state.head_start + (state.heads[k] if state.head_step == GIVEN else state.head_step * k)


@compiled
def tail(state: EntriesState, k: int) -> int:
    """Return the column of an entry."""
    return state.tail_start + (state.tails[k] if state.tail_step == GIVEN else state.tail_step * k)


@compiled
def value(state: EntriesState, k: int) -> int:
    """Return the value of an entry."""
    return state.value_start + (state.values[k] if state.value_step == GIVEN else state.value_step * k)


@compiled
def count_rows(state: EntriesState) -> None:
    """Count the entries of each row, two indices behind it."""
    begins = state.begins
    for k in range(state.count):
        begins[head(state, k) + 2] += 1


@compiled
def store_entries(state: EntriesState) -> None:
    """Store entries behind those that their rows hold already.

    Before the first entry, the begin of each row is one index further on in `begins`; afterwards, `begins` has the
    ends.
    """
    begins, columns, placed = state.begins, state.columns, state.placed
    for k in range(state.count):
        row = head(state, k)
        at = begins[row + 1]
        begins[row + 1] = at + 1
        columns[at] = tail(state, k)
        placed[at] = value(state, k)


@compiled
def merge(state: EntriesState, begin: int, middle: int, end: int) -> None:
    """Merge two sorted runs of a row, stably."""
    columns, placed = state.columns, state.placed
    spare_columns, spare_placed = state.spare_columns, state.spare_placed
    length = middle - begin
    for k in range(length):
        spare_columns[k] = columns[begin + k]
        spare_placed[k] = placed[begin + k]
    left, right, at = 0, middle, begin
    while left < length:
        if right < end and columns[right] < spare_columns[left]:
            columns[at] = columns[right]
            placed[at] = placed[right]
            right += 1
        else:
            columns[at] = spare_columns[left]
            placed[at] = spare_placed[left]
            left += 1
        at += 1


@compiled
def insert(state: EntriesState, begin: int, end: int) -> None:
    """Sort a short run of a row by insertion."""
    columns, placed = state.columns, state.placed
    for k in range(begin + 1, end):
        column, moved = columns[k], placed[k]
        at = k
        while at > begin and columns[at - 1] > column:
            columns[at] = columns[at - 1]
            placed[at] = placed[at - 1]
            at -= 1
        columns[at] = column
        placed[at] = moved


@compiled
def sort_row(state: EntriesState, begin: int, end: int) -> None:
    """Sort a row by columns, stably."""
    columns = state.columns
    k = begin + 1
    while k < end and columns[k - 1] <= columns[k]:
        k += 1
    if k >= end:
        return
    width = 32
    at = begin
    while at < end:
        insert(state, at, min(at + width, end))
        at += width
    while width < end - begin:
        at = begin
        while at + width < end:
            if columns[at + width - 1] > columns[at + width]:
                merge(state, at, at + width, min(at + 2 * width, end))
            at += 2 * width
        width *= 2


@compiled
def compress(state: EntriesState) -> None:
    """Leave one entry for each position; collect the terms of duplicates, and mark their entry by -1 - group.

    Without `writes`, count only.
    """
    begins, columns, placed, terms, offsets = state.begins, state.columns, state.placed, state.terms, state.offsets
    writes = state.writes != 0
    total, groups, term_count = 0, 0, 0
    begin = begins[0]
    for row in range(state.rows):
        end = begins[row + 1]
        if writes:
            begins[row] = total
        k = begin
        while k < end:
            after = k + 1
            while after < end and columns[after] == columns[k]:
                after += 1
            if after - k > 1:
                if writes:
                    offsets[groups] = term_count
                    for term in range(k, after):
                        terms[term_count + term - k] = placed[term]
                    columns[total] = columns[k]
                    placed[total] = state.value_start - groups
                groups += 1
                term_count += after - k
            elif writes:
                columns[total] = columns[k]
                placed[total] = placed[k]
            total += 1
            k = after
        begin = end
    if writes:
        begins[state.rows] = total
        offsets[groups] = term_count
    state.total, state.groups, state.term_count = total, groups, term_count


@compiled
def join(state: EntriesState) -> None:
    """Pair each input entry with all stored entries of its row; without `writes`, count only."""
    begins, placed, left, right = state.begins, state.placed, state.terms, state.offsets
    writes = state.writes != 0
    total = 0
    for k in range(state.count):
        row = head(state, k)
        begin, end = begins[row], begins[row + 1]
        if writes:
            for at in range(begin, end):
                left[total + at - begin] = k
                right[total + at - begin] = placed[at]
        total += end - begin
    state.total = total


def run_entries(state: EntriesState) -> int:
    """Run `mode`; return 0."""
    if state.mode == COUNT:
        count_rows(state)
    elif state.mode == PLACE:
        store_entries(state)
    elif state.mode == COMPRESS:
        compress(state)
    elif state.mode == JOIN:
        join(state)
    else:
        for row in range(state.rows):
            sort_row(state, state.begins[row], state.begins[row + 1])
    return 0
