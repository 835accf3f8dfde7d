"""Loops whose operands lie in grids: rows of equally spaced numbers, found in tables of their places.

What NumPy broadcasts, slices, transposes or sums along an axis is recorded as one table of references. A table takes as
much time to read as the numbers, and numbers at scattered places are loaded one at a time. Where all rows of a table,
of one length for all operands of a loop, are equally spaced, a loop over rows has the place of each row alone, and
loads vectors of neighbours. Rows with gaps that are used again and again are copied once, without the gaps.

Sums of as many terms each that are equally spaced, with one distance, are computed for neighbouring sums at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]
#: Rows are copied without gaps if they are used as many times as this in the mean. A smaller number copies rows that
#: are hardly used again, a larger one loads numbers of short rows one at a time.
USED: Final = 4
#: Number of lengths of rows that are tried: more take time, fewer miss rows that one operand alone has.
LENGTHS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Places of an operand, row by row: the first one of each row, and the distance of neighbours in all rows."""

    starts: Places
    step: int

    def without_gaps(self) -> tuple[Places, NDArray[np.intp]] | None:
        """Return the first places of different rows, and the row of each among these; None if few are used again."""
        if abs(self.step) < 2 and self.step != -1:
            return None
        different, which = np.unique(self.starts, return_inverse=True)
        return (different, which.reshape(-1)) if USED * len(different) <= len(self.starts) else None

    def beside(self, other: Rows) -> int | None:
        """Return the offset from another operand's rows, if it is the same for all, and not negative."""
        offset = int(self.starts[0]) - int(other.starts[0])
        is_same = self.step == other.step and offset >= 0 and bool((self.starts - other.starts == offset).all())
        return offset if is_same else None


def rows_of(places: Places, length: int) -> Rows | None:
    """Return a table as rows of some length; None if neighbours in all rows have not one distance."""
    if len(places) % length:
        return None
    table = places.reshape(-1, length)
    step = int(table[0, 1]) - int(table[0, 0])
    if not all((table[:, k + 1] - table[:, k] == step).all() for k in (length // 2 - 1, length - 2)):
        return None  # without looking at all of it
    expected = table[:, :1] + np.int32(step) * np.arange(length, dtype=np.int32)
    return Rows(table[:, 0].copy(), step) if np.array_equal(table, expected) else None


def _first_length(places: Places) -> int:
    """Return the number of leading places with one distance."""
    step, done, part = int(places[1]) - int(places[0]), 1, 64
    while done < len(places):
        others = np.flatnonzero(np.diff(places[done - 1 : done + part]) != step)
        if len(others):
            return done + int(others[0])
        done, part = done + part, 2 * part
    return len(places)


def grid_of(
    tables: Sequence[Places | None], lanes: int, computing: float, finding: float, moving: float
) -> tuple[int, list[Rows | None]] | None:
    """Return the length of rows, and the operands' rows, with which a loop takes the least time; None if tables do.

    Args:
        tables: places of operands for all instances; None for those without a table.
        lanes: number of instances in a vector, also the least length of a row.
        computing: seconds for an instance, besides its operands.
        finding: seconds to load an operand that a table locates.
        moving: seconds to load one of neighbours.
    """
    located = [each for each in tables if each is not None]
    if not located or len(located[0]) < 2 * lanes:
        return None
    lengths = {length for each in located if (length := _first_length(each)) >= lanes}
    best, found = computing + finding * len(located), None
    for length in sorted(lengths, reverse=True)[:LENGTHS]:
        rows = [None if each is None else rows_of(each, length) for each in tables]
        by_rows = sum(each is not None for each in rows)
        # the last two vectors of a row overlap
        wasted = -(-length // lanes) * lanes / length
        seconds = wasted * (computing + finding * (len(located) - by_rows) + moving * by_rows)
        seconds += finding * by_rows / length
        if by_rows and seconds < best:
            best, found = seconds, (length, rows)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Across:
    """Sums of neighbours: the place of the first term of each vector of sums, and where its sums are stored."""

    starts: Places  # (vectors,)
    positions: Places  # (vectors · lanes,)
    terms: int
    step: int

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, places: Places, offsets: NDArray[np.int64], lanes: int) -> Across | None:
        """Return sums of the numbers at some places in vectors; None for others."""
        count, terms = len(offsets) - 1, int(offsets[1] - offsets[0])
        if count < lanes or terms < 2 or terms * count != len(places) or not (np.diff(offsets) == terms).all():
            return None
        rows = rows_of(places, terms)
        if rows is None:
            return None
        order = np.argsort(rows.starts, kind="stable").astype(np.int32)
        ordered = rows.starts[order]
        breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
        begins, ends = np.concatenate([[0], breaks]), np.concatenate([breaks, [count]])
        if (ends - begins).min() < lanes:
            return None
        # the last two vectors of a run of neighbours may overlap
        firsts = np.concatenate(
            [
                np.minimum(np.arange(begin, end, lanes), end - lanes)
                for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
        )
        positions = order[firsts[:, np.newaxis] + np.arange(lanes)]
        return cls(ordered[firsts], np.ascontiguousarray(positions.reshape(-1)), terms, rows.step)
