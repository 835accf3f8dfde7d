"""Entries of sparse matrices sorted by rows and columns, equal places taken together, and places of two arrays paired.

All of it takes time in proportion to the entries, but for rows of many that are not in order.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Integers, State

#: What to do: count the entries of each row; place them in their rows; sort each row; take equal places together; pair
#: what is placed with what names the same rows.
COUNT, PLACE, SORT, COMPRESS, JOIN = range(5)
#: The step of a column that is given entry by entry.
GIVEN: Final = 2


class EntriesState(State):
    """Entries of a sparse matrix that are sorted by rows, then columns."""

    mode: int = 0  # what to do
    count: int = 0  # entries that are given, of PLACE and JOIN
    # heads, head_start, head_step: the row of entry k is the start, and `heads[k]` more if the step is `GIVEN`, else k
    # steps more
    heads: Integers = NOTHING
    head_start: int = 0
    head_step: int = 0
    # tails, tail_start, tail_step: its column, likewise; of JOIN not read
    tails: Integers = NOTHING
    tail_start: int = 0
    tail_step: int = 0
    # values, value_start, value_step: what it is; likewise
    values: Integers = NOTHING
    value_start: int = 0
    value_step: int = 0
    rows: int = 0  # of the matrix
    # where the entries of each row begin, and where those of the last end; (rows + 2,). Until all are placed, it is one
    # place behind.
    begins: Integers = NOTHING
    # columns, placed: of what is placed, row by row
    columns: Integers = NOTHING
    placed: Integers = NOTHING
    # spare_columns, spare_placed: memory as long as the longest row
    spare_columns: Integers = NOTHING
    spare_placed: Integers = NOTHING
    total: int = 0  # entries that are left, of COMPRESS; pairs, of JOIN
    # terms, offsets: of COMPRESS, values of places that are named several times, one after the other, and where those
    # of each begin; of JOIN, what is paired
    terms: Integers = NOTHING
    offsets: Integers = NOTHING
    groups: int = 0  # places that are named several times
    writes: int = 0  # 1 if terms and offsets have room; 0 to count them only
    term_count: int = 0  # of all these


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
    """Add the entries of each row to what is two places behind it."""
    begins = state.begins
    for k in range(state.count):
        begins[head(state, k) + 2] += 1


@compiled
def store_entries(state: EntriesState) -> None:
    """Put entries behind those that are in their rows already.

    Before the first, `begins` has where each row begins one place behind it; after the last, where it ends.
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
    """Merge two sorted stretches of a row; of equal columns the first stay first."""
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
    """Sort a short stretch of a row."""
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
    """Sort a row by columns; of equal ones the first stay first."""
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
    """Leave one entry for each place; of those named several times collect the terms, and mark them by -1 - group.

    Without `writes`, all of it is only counted.
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
    """Pair each of what is given with all that is placed in its row; only counted without `writes`."""
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
    """Do what `mode` says."""
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
