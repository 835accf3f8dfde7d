"""Loop nests: what every printer of a language writes.

A nest runs over instances. It *loads* an operand for each input of its body: the same for all, by start and stride, or
by a table. The *body* is a straight-line program over scalars; sums and products of matrices have none, they are nests
of their own kind. It *stores* each result: where it is kept for other nests, or at once where it is returned, next to
each other or scattered by a table. With steps, instances load results of earlier ones. A scalar program is one body
whose instances are the points of a batch.

An array of results that nobody else takes is stored where it is returned, if it is returned as a whole and in its
order. All else that is returned is copied in the end, by nests with an empty body.

Products of matrices may be left to NumPy, which is BLAS, on the numbers between loops. Operands that lie row by row or
column by column, also with more than one row's length from row to row, are taken where they are; others are brought
together first. So what a product computes is what the function itself would, to the last bit where its operands lie
alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape
from accumulus.tape.columns import Column, Range, column, owners_in
from accumulus.tape.fusion import Map
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import LongSegment, Unit

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


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop over instances."""

    count: int  # number of instances
    loads: tuple[Column, ...]  # a column of references for each operand
    starts: tuple[int, ...] = ()  # first references of the results, an array for each output of the body
    stores: tuple[int | Place, ...] = ()  # where these go: references of what is kept, or places in what is returned
    body: Tape | None = None  # operations of one instance; None of sums and of products of matrices
    sensitive: int = 0  # number of outputs, the first, that are computed operation by operation as they stand
    # of a recurrence, where the instances of each step begin, and where those of the last end
    steps: NDArray[np.int64] | None = None
    offsets: NDArray[np.int64] | None = None  # of sums, where the terms of each begin, and where those of the last end
    shape: tuple[int, int, int] | None = None  # of products of matrices, (m, k, n)
    # where each instance stores its result, counted from its place; None if they follow each other
    positions: NDArray[np.int32] | None = None
    blocks: tuple[int, ...] = ()  # of the program that it computes


def nests_of(tape: BlockTape, maps: Sequence[Map]) -> list[Nest]:
    """Return the nests of a program, in their order; all results are kept."""
    found = []
    for each in maps:
        if not each.count or not each.results:
            continue
        starts, loads = tuple(each.arrays(tape)), tuple(each.operands(tape))
        nest = Nest(each.count, loads, starts, starts, blocks=tuple(each.blocks))
        if each.is_body:
            nest = replace(nest, body=each.body, sensitive=each.sensitive, steps=each.steps)
        else:
            block = tape.blocks[each.blocks[0]]
            nest = replace(nest, offsets=block.offsets, shape=block.shape)
        found.append(nest)
    return found


class Nests:
    """The nests of a program whose results are arrays in memory.

    Args:
        unit: the program; references of its tape, and that of a zero, -1 - the number of constants, are what is copied.

    Attributes:
        every: the nests, those that copy at the end.
        kept: how many results are kept for other nests from some references on.
        cleared: which segments have to hold zeros before.
    """

    def __init__(self, unit: Unit) -> None:
        computed = nests_of(unit.tape, unit.maps or ())
        arrays = {start: nest.count for nest in computed for start in nest.starts}
        loads = [column for nest in computed for column in nest.loads]
        returned = _Returned(unit.tape, unit.segments, arrays, loads)
        self.cleared = returned.cleared
        self.kept = {start: count for start, count in arrays.items() if start not in returned.places}
        self.every = [
            replace(nest, stores=tuple(returned.places.get(start, start) for start in nest.starts)) for nest in computed
        ]
        copying = Tape(1)
        copying.outputs = [0]
        for source, place, positions in returned.copies:
            if len(source):
                count = len(source)
                self.every.append(Nest(count, (source,), (), (place,), body=copying, positions=positions))


class _Returned:
    """The results of a program, by where they go.

    Args:
        tape: the program; its references and that of a zero, -1 - the number of constants, are what is copied.
        segments: which outputs go where.
        arrays: of results that are computed, by their first references: how many there are.
        operands: what is computed takes results of these.

    Attributes:
        places: of the arrays that are stored where they are returned, by their first references.
        copies: of all others: references of values, where the first goes, and where each goes, counted from there; None
            if they follow each other.
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
        self.copies: list[tuple[Column, Place, NDArray[np.int32] | None]] = []
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
                    self.copies.append((column(references), Place(k, 0), positions.astype(np.int32)))
                    taken.update(self._arrays_in(column(references)))
                    continue
                every = np.full(segment.length, zero, np.int64)
                every[positions] = references
                references = every
            found = _stretches(references)
            if found is None:
                self.copies.append((references, Place(k, 0), None))
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
            self.copies.append((source, Place(place.segment, place.offset + first - start), None))


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


# Products of matrices -------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
#: Where the entries of a matrix are among the numbers between loops, row by row: one by one, or those that begin there,
#: with a step.
Entries = NDArray[np.int32] | tuple[int, int]
#: Bytes of a number.
_SIZE: Final = 8


class MatrixProduct:
    """A product of an m × k matrix and a k × n one.

    Args:
        shape: (m, k, n).
        left, right: where their entries are.
        constant: whether the entries of each are constants.
    """

    def __init__(self, shape: tuple[int, int, int], left: Entries, right: Entries, constant: Sequence[bool]) -> None:
        m, k, n = shape
        self._shape = m, n
        self._is_constant = all(constant)
        self._operands = _Operand(left, (m, k), constant[0]), _Operand(right, (k, n), constant[1])

    def bind(self, values: Floats, target: Callable[[Sequence[Floats]], Floats]) -> Callable[[Sequence[Floats]], None]:
        """The product of numbers in one array, as a function of the arrays that are returned.

        Args:
            target: where it goes, given those.
        """
        (left, fill_left), (right, fill_right) = (operand.bind(values) for operand in self._operands)
        if self._is_constant:
            known = np.matmul(left, right).reshape(-1)
            return lambda results: np.copyto(target(results), known)
        fills = [fill for fill in (fill_left, fill_right) if fill is not None]
        shape = self._shape

        def run(results: Sequence[Floats]) -> None:
            for fill in fills:
                fill()
            np.matmul(left, right, out=target(results).reshape(shape))

        return run


class _Operand:
    """Place of a matrix: its first entry and its strides, or a table."""

    def __init__(self, places: Entries, shape: tuple[int, int], is_constant: bool) -> None:
        self._shape, self._is_constant = shape, is_constant
        if isinstance(places, tuple):
            start, step = places
            places = (start + step * np.arange(shape[0] * shape[1])).astype(np.int32)
        table = places.reshape(shape)
        self._start, self._strides = int(table[0, 0]), _strides(table)
        self._table = None if self._strides else table.astype(np.intp)

    def bind(self, values: Floats) -> tuple[Floats, Callable[[], Any] | None]:
        """The matrix, and what brings its entries together, where that has to be done again at each call."""
        if self._strides is not None:
            rows, columns = self._strides
            return as_strided(values[self._start :], self._shape, (_SIZE * rows, _SIZE * columns)), None
        matrix, table = np.empty(self._shape), self._table
        assert table is not None

        def fill(table: NDArray[np.intp] = table) -> None:
            np.take(values, table, out=matrix, mode="clip")  # "raise" would take a copy

        fill()
        return matrix, None if self._is_constant else fill


def _strides(table: NDArray[np.int32]) -> tuple[int, int] | None:
    """Distances from row to row and from column to column, if they are such as BLAS takes."""
    rows, columns = table.shape
    down = int(table[1, 0]) - int(table[0, 0]) if rows > 1 else 0
    along = int(table[0, 1]) - int(table[0, 0]) if columns > 1 else 0
    if rows == 1:
        down = max(columns * along, columns)
    if columns == 1:
        along = 1 if down != 1 else rows
    if not ((along == 1 and down >= columns) or (down == 1 and along >= rows)):
        return None
    expected = table[0, 0] + down * np.arange(rows)[:, np.newaxis] + along * np.arange(columns)
    return (down, along) if np.array_equal(table, expected) else None
