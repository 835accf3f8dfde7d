"""Loops whose operands lie in grids: rows of equally spaced numbers, found in tables of their places.

What NumPy broadcasts, slices, transposes or sums along an axis is recorded as one table of references. A table takes as
much time to read as the numbers, and numbers at scattered places are loaded one at a time. Where all rows of a table,
of one length for all operands of a loop, are equally spaced, a loop over rows has the place of each row alone, and
loads vectors of neighbours. Rows with gaps that are used again and again are copied once, without the gaps.

Sums of as many terms each that are equally spaced, with one distance, are computed for neighbouring sums at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.tape import Tape
from accumulus.targets.nests import Nest, Place

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


# Stretches ------------------------------------------------------------------------------------------------------------

#: Largest number of parts of a loop: more make more calls, fewer leave operands to tables.
PARTS: Final = 8
#: Approximate seconds of a call of a part. A larger estimate leaves operands of short loops to tables, a smaller one
#: makes more calls.
CALL_OF_PART: Final = 2e-8


def divided(nest: Nest, lanes: int, finding: float) -> list[Nest]:
    """Return a loop as parts whose operands are consecutive, if there are few of them; and sums of few terms as loops.

    Operands of a shifted array, of a ring or with boundaries are consecutive but at a few places. Sums of as many terms
    each, fewer than a vector has lanes, are a loop over a body that adds them, in the same order.

    Args:
        nest: loop over a body, or sums; others are returned as they are.
        lanes: number of instances in a vector.
        finding: seconds to load an operand that a table locates.
    """
    if nest.count < 2 * lanes or nest.steps is not None or nest.positions is not None:
        return [nest]
    if nest.offsets is not None:
        by_length = _sums_by_length(nest, lanes)
        return [part for each in by_length for part in divided(each, lanes, finding)] if by_length else [nest]
    tables = [each for each in nest.loads if not isinstance(each, Range)]
    if nest.body is None or not tables:
        return [nest]
    cuts: set[int] = set()
    for each in tables:
        breaks = _breaks(each)
        if breaks is None:
            return [nest]
        cuts.update(breaks)
    if not 0 < len(cuts) < PARTS or len(cuts) * CALL_OF_PART > finding * len(tables) * nest.count:
        return [nest]
    bounds = list(pairwise([0, *sorted(cuts), nest.count]))
    first, stop = max(bounds, key=lambda each: each[1] - each[0])
    longest = [_part(each, first, stop, None) for each in nest.loads]
    parts = []
    for first, stop in bounds:
        loads = tuple(_part(each, first, stop, like) for each, like in zip(nest.loads, longest, strict=True))
        parts.append(_of_instances(nest, first, stop, loads))
    return parts


def _of_instances(nest: Nest, first: int, stop: int, loads: tuple[Column, ...]) -> Nest:
    """Return a loop over some instances, given their operands."""
    stores = tuple(
        replace(each, offset=each.offset + first) if isinstance(each, Place) else each + first for each in nest.stores
    )
    return replace(nest, count=stop - first, loads=loads, starts=tuple(at + first for at in nest.starts), stores=stores)


def _part(operands: Column, first: int, stop: int, like: Column | None) -> Column:
    """Return some operands; a single one with the step of others, so that they are loaded by the same function."""
    if isinstance(operands, Range):
        start, step = operands.start + operands.step * first, operands.step
        return Range(start, step if stop - first > 1 or like is not None else 0, stop - first)
    found = column(operands[first:stop])
    if stop - first == 1 and isinstance(found, Range) and isinstance(like, Range):
        return Range(found.start, like.step, 1)
    return found


def _breaks(references: NDArray[np.int64]) -> list[int] | None:
    """Return where stretches of references with a step of -1, 0 or 1 begin, but for the first; None for many."""
    steps = np.diff(references)
    changes = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    if len(changes) > 2 * PARTS:
        return None
    breaks: list[int] = []
    begin = 0
    for first, stop in pairwise([0, *changes.tolist(), len(steps)]):
        if abs(int(steps[first])) > 1:  # all of these steps lead to another stretch
            if stop - first >= PARTS:
                return None
            breaks += range(max(first, begin) + 1, stop + 1)
            begin = stop
        elif first > begin:  # the stretch has another step so far
            breaks.append(first + 1)
            begin = first + 1
    return breaks if len(breaks) < PARTS else None


def _sums_by_length(nest: Nest, lanes: int) -> list[Nest]:
    """Return sums as loops over bodies that add as many terms each; none if some have many terms, or none."""
    assert nest.offsets is not None
    lengths = np.diff(nest.offsets)
    cuts = np.flatnonzero(np.diff(lengths)) + 1
    if len(cuts) >= PARTS or not 0 < lengths.min() <= lengths.max() < lanes:
        return []
    (terms,) = nest.loads
    parts = []
    for first, stop in pairwise([0, *cuts.tolist(), nest.count]):
        count = int(lengths[first])
        begin, end = int(nest.offsets[first]), int(nest.offsets[stop])
        table = references_in(terms)[begin:end].reshape(-1, count)
        body = Tape(count, signed_zeros=True)
        total = body.constant(0.0)
        for term in range(count):
            total = body.add(total, term)
        body.outputs = [total]
        part = _of_instances(nest, first, stop, tuple(column(table[:, k].copy()) for k in range(count)))
        parts.append(replace(part, body=body, offsets=None, code=0))
    return parts
