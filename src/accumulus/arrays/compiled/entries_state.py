"""Memory that `accumulus.arrays.compiled.entries_kernel` works on."""

from __future__ import annotations

from typing import Final

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
    writes: int = 0  # whether terms and offsets have room: 0 if they are only counted
    term_count: int = 0  # of all these
