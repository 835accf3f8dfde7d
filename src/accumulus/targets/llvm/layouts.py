"""Where a block of points lies in memory, and how the program's inputs and results get from and to there.

`Rows` is the C-ordered batch, points × variables. `Columns` is the transposed one, variables × points: the batch
itself, or a small tile that a few of its points are copied to and from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from accumulus.targets.llvm.kernel_signature import Signature
from accumulus.targets.llvm.vectors import Vectors
from accumulus.targets.schedule import Group

__all__ = ["Columns", "Layout", "Rows"]

#: A run of structural zeros longer than this many bytes is cleared by a call.
LONGEST_WRITTEN_OUT: Final = 256
ZERO: Final = "zeroinitializer"


class Layout(ABC):
    """Writes the loads and stores of one block of points; %x0, %x1, … and %o0, %o1, … point to its first.

    A program that is cut into several functions keeps one layout: results that wait for their neighbours at the end
    of one function are stored in the next.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.lengths = signature.lengths
        self._sizes = [prod(shape) for shape in signature.shapes]
        self._firsts = [0, *accumulate(self._sizes)]

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Start a function: where its instructions go, and how the vector of a tape's reference is called in it."""
        self.vectors = vectors
        self.value = value

    def load(self, variable: int) -> dict[int, str]:
        """Load an input, and its neighbours where that is cheaper: variable → vector."""
        argument = bisect(self._firsts, variable) - 1
        first = self._firsts[argument]
        if self.signature.shared[argument]:
            return {variable: self.vectors.splat(f"%x{argument}", variable - first)}
        return {first + k: vector for k, vector in self.load_entries(argument, variable - first).items()}

    @abstractmethod
    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """Load an entry of an argument that is not shared, and its neighbours where that is cheaper."""

    @abstractmethod
    def store(self, group: Group) -> None:
        """Store a result, or a run of structural zeros."""


class Rows(Layout):
    """C order: the points of a block are rows, one behind the other.

    Results are transposed in registers and stored in vectors that are aligned in memory: where the rows' length is no
    multiple of a vector, each row has its own boundaries. A vector that holds 2ʲ columns of every 2ʲ-th row is made of
    two that hold half as many columns each, so the boundaries of neighbouring rows cost no shuffle more than if they
    were the same. Columns at the ends of a row that fill no vector are stored in parts of vectors.
    """

    def __init__(self, signature: Signature, lanes: int, zeroed: bool, offsets: Sequence[int]) -> None:
        super().__init__(signature)
        self.zeroed = zeroed
        self.offsets = offsets
        self._rows: dict[str, list[str]] = {}
        # first column that is not stored yet, for each row of each result array
        self._starts = [[0] * lanes for _ in self.lengths]
        # references of columns that some row still waits to store; None for structural zeros
        self._columns: list[dict[int, int | None]] = [{} for _ in self.lengths]
        self._merged: list[dict[tuple[int, int, int], str]] = [{} for _ in self.lengths]

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Start a function with pointers to the rows of each array."""
        super().begin(vectors, value)
        for merged in self._merged:
            merged.clear()
        v = vectors
        self._rows = {
            f"%{name}": [v.address(f"%{name}", point * stride) for point in range(v.lanes)]
            for name, stride in self.signature.strides.items()
            if stride
        }

    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """All entries of the vector that holds this one."""
        v = self.vectors
        if self._sizes[argument] == 1:
            return {0: v.load(f"%x{argument}", 0)}
        start = entry - entry % v.lanes
        count = min(v.lanes, self._sizes[argument] - start)
        columns = v.load_columns(self._rows[f"%x{argument}"], start, count)
        return {start + k: column for k, column in enumerate(columns)}

    def store(self, group: Group) -> None:
        """Columns, each stored when those beside it are there."""
        if not group.is_zero:
            for column, reference in enumerate(group.references, group.start):
                self._put(group.segment, column, reference)
            return
        start, end = group.start, group.start + len(group.references)
        lanes = self.vectors.lanes
        column = start
        while column < end:
            self._put(group.segment, column, None)
            column += 1
            skipped = (end - column) // lanes * lanes
            if column == start + lanes and skipped * self.vectors.bytes > LONGEST_WRITTEN_OUT:
                # every row's next vector starts within these zeros, and does so again after whole vectors
                self._skip(group.segment, skipped)
                column += skipped
                self._flush(group.segment, column - 1)

    def _skip(self, segment: int, count: int) -> None:
        v = self.vectors
        columns, starts = self._columns[segment], self._starts[segment]
        for row, start in enumerate(starts):
            if not self.zeroed:
                pointer = v.address(self._rows[f"%o{segment}"][row], start)
                size = count * v.bytes
                v.lines.append(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")
            starts[row] = start + count
        for column in [*columns]:
            columns[column + count] = columns.pop(column)
        self._merged[segment].clear()

    def _put(self, segment: int, column: int, reference: int | None) -> None:
        self._columns[segment][column] = reference
        self._flush(segment, column)

    def _flush(self, segment: int, column: int) -> None:
        """Store the vectors that are complete once all columns up to this one are there."""
        columns, starts = self._columns[segment], self._starts[segment]
        length = self.lengths[segment]
        for row in range(self.vectors.lanes):
            while (start := starts[row]) <= column:
                at = self.offsets[segment] + row * length + start
                size = self.vectors.lanes
                while at % size or start + size > length:
                    size //= 2
                if start + size > column + 1:
                    break
                self._store(segment, row, start, size)
                starts[row] = start + size
        oldest = min(starts)
        for old in [c for c in columns if c < oldest]:
            del columns[old]
        merged = self._merged[segment]
        for key in [key for key in merged if key[1] < oldest]:
            del merged[key]

    def _store(self, segment: int, row: int, start: int, size: int) -> None:
        v = self.vectors
        if self.zeroed and all(self._columns[segment][c] is None for c in range(start, start + size)):
            return
        value = self._merge(segment, size, start, row % size)
        v.store_part(value, row - row % size, size, self._rows[f"%o{segment}"][row], start)

    def _merge(self, segment: int, size: int, start: int, remainder: int) -> str:
        """Vector whose lanes hold `size` columns from `start` on of the rows with that remainder modulo `size`."""
        if size == 1:
            reference = self._columns[segment][start]
            return ZERO if reference is None else self.value(reference)
        key = (size, start, remainder)
        merged = self._merged[segment]
        if key not in merged:
            half = size // 2
            low = self._merge(segment, half, start, remainder % half)
            high = self._merge(segment, half, start + half, remainder % half)
            merged[key] = self.vectors.merge(low, high, half, upper=remainder >= half)
        return merged[key]


class Columns(Layout):
    """Variables × points, %line bytes from one variable to the next."""

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Start a function; the pointer to a variable is made of that to the one before."""
        super().begin(vectors, value)
        self._last: dict[str, tuple[int, str]] = {}

    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """One vector."""
        return {entry: self.vectors.load(self._at(f"%x{argument}", entry), 0)}

    def store(self, group: Group) -> None:
        """One vector a result; structural zeros nowhere, as they are cleared once."""
        for entry, reference in enumerate(group.references, group.start):
            if reference is not None:
                self.vectors.store(self.value(reference), self._at(f"%o{group.segment}", entry), 0)

    def _at(self, array: str, entry: int) -> str:
        """Pointer to a variable at the first point."""
        before, pointer = self._last.get(array, (0, array))
        if entry != before:
            distance = self.vectors.let(f"mul i64 %line, {entry - before}") if entry - before != 1 else "%line"
            pointer = self.vectors.let(f"getelementptr i8, ptr {pointer}, i64 {distance}")
        self._last[array] = entry, pointer
        return pointer
