"""Where the results of a program over arrays go: straight to the arrays that are returned, or by a copy in the end.

An array of results that nobody else takes is stored where it is returned, if it is returned as a whole and in its
order. All else that is returned is copied from the workspace, as a stretch or by a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Column, Range, column
from accumulus.tape.columns import owners_in
from accumulus.targets.kernel import LongSegment

__all__ = ["Copy", "Place", "Returned"]

#: Stretches of references that follow each other are copied one by one if they are that long on average.
LONG: Final = 256
#: References that are looked at at once.
PART: Final = 1 << 16
#: An array that is filled to less than one part in so many is cleared, and its entries are stored one by one.
SPARSE: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an array that is returned: which array, and from which entry on."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Values that go from the workspace to an array that is returned.

    Attributes:
        source: their references.
        place: where the first goes.
        positions: where each goes, counted from there; None if they follow each other.
    """

    source: Column
    place: Place
    positions: NDArray[np.int32] | None


class Returned:
    """The results of a program, by where they go.

    Args:
        tape: the program; its references and that of a zero, -1 - the number of constants, are what is copied.
        segments: which outputs go where.
        arrays: of results that are computed, by their first references: how many there are.
        operands: what is computed takes results of these.

    Attributes:
        places: of the arrays that are stored where they are returned, by their first references.
        copies: of all others.
        cleared: which segments have to hold zeros before.
    """

    def __init__(
        self,
        tape: BlockTape,
        segments: Sequence[LongSegment],
        arrays: Mapping[int, int],
        operands: Iterable[Column],
    ) -> None:
        self.places: dict[int, Place] = {}
        self.copies: list[Copy] = []
        self.cleared: list[bool] = []
        self._arrays, self._starts = arrays, sorted(arrays)
        self._firsts = np.array(self._starts, np.int64)
        zero = -1 - len(tape.constants)
        stretches: list[tuple[Place, Range]] = []
        blocks = {block for each in operands for block in tape.owners(each)}
        homes = np.searchsorted(tape.starts, self._firsts, side="right") - 1
        taken = {array for array, block in enumerate(homes.tolist()) if block in blocks}
        for k, segment in enumerate(segments):
            references = tape.outputs[segment.outputs]
            self.cleared.append(False)
            positions = segment.positions
            if not segment.is_filled:
                if SPARSE * len(references) < segment.length:
                    self.cleared[k] = True
                    if isinstance(positions, slice):
                        positions = np.arange(positions.start, positions.stop)
                    self.copies.append(Copy(column(references), Place(k, 0), positions.astype(np.int32)))
                    taken.update(self._arrays_in(column(references)))
                    continue
                every = np.full(segment.length, zero, np.int64)
                every[positions] = references
                references = every
            found = _stretches(references)
            if found is None:
                self.copies.append(Copy(references, Place(k, 0), None))
                taken.update(self._arrays_in(references))
            else:
                stretches += [(Place(k, at), stretch) for at, stretch in found]
        self._place(stretches, taken)

    def _place(self, stretches: Sequence[tuple[Place, Range]], taken: set[int]) -> None:
        touched = Counter(array for _, stretch in stretches for array in self._arrays_in(stretch))
        once = {array for array, times in touched.items() if times == 1 and array not in taken}
        for place, stretch in stretches:
            at, end = stretch.start, stretch.start + stretch.count
            for array in self._arrays_in(stretch):
                start = self._starts[array]
                if array in once and at <= start and start + self._arrays[start] <= end:
                    self._copy(place, stretch.start, at, start)
                    self.places[start] = Place(place.segment, place.offset + start - stretch.start)
                    at = start + self._arrays[start]
            self._copy(place, stretch.start, at, end)

    def _arrays_in(self, references: Column) -> list[int]:
        return [array for array in owners_in(self._firsts, references) if array >= 0]

    def _copy(self, place: Place, start: int, first: int, end: int) -> None:
        if first < end:
            source = Range(first, 1 if end - first > 1 else 0, end - first)
            self.copies.append(Copy(source, Place(place.segment, place.offset + first - start), None))


def _stretches(references: NDArray[np.int64]) -> list[tuple[int, Range]] | None:
    """References in stretches that follow each other, each with where it begins; None if they are too many."""
    count = len(references)
    if not count:
        return []
    begins = [0]
    for first in range(0, count - 1, PART):
        part = references[first : first + PART + 1]
        breaks = np.flatnonzero(part[1:] - part[:-1] != 1)
        if (len(begins) + len(breaks)) * LONG > max(count, LONG):
            return None
        begins += (breaks + (first + 1)).tolist()
    return [
        (begin, Range(int(references[begin]), 1 if end - begin > 1 else 0, end - begin))
        for begin, end in zip(begins, [*begins[1:], count], strict=True)
    ]
