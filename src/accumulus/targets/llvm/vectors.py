"""Vectors in LLVM IR: their types, transposition between rows of memory and lanes, and layouts of blocks of points.

A block of `lanes` points is a matrix, points × variables, in the caller's memory. `lanes` neighbouring variables of all
its points are loaded row by row and transposed in registers, so that one register holds one variable of all points;
results go the other way. Transposition exchanges off-diagonal blocks, first inside 128-bit lanes, where shuffles are
cheap, then between them. It takes log₂(lanes) shuffles per register, and accesses memory in whole vectors only.

`Rows` is the C-ordered batch, points × variables. `Columns` is the transposed one, variables × points: the batch
itself, or a small tile to and from which a few of its points are copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Final

from accumulus.targets.kernel import Shape
from accumulus.targets.schedule import ResultGroup

# Vectors --------------------------------------------------------------------------------------------------------------


POISON: Final = "poison"


class Vectors:
    """Writer of instructions on vectors of one type.

    Args:
        lanes: entries of a vector, a power of two.
        dtype: "float64" or "float32".

    Attributes:
        lines: instructions written so far.
        real: LLVM's name of the scalar type.
        type, mask: LLVM's names of the vector type, and of the vector type of truth values.
        bytes: size of a scalar.
    """

    def __init__(self, lanes: int, dtype: str) -> None:
        self.lanes = lanes
        self.real, self.bytes = ("double", 8) if dtype == "float64" else ("float", 4)
        self.type = f"<{lanes} x {self.real}>"
        self.mask = f"<{lanes} x i1>"
        self.lines: list[str] = []
        self._names = 0

    def let(self, text: str) -> str:
        """Write ``%name = text``, and return the name."""
        self._names += 1
        name = f"%r{self._names}"
        self.lines.append(f"{name} = {text}")
        return name

    def address(self, base: str, offset: int) -> str:
        """Return the pointer to the entry at an offset from `base`."""
        return self.let(f"getelementptr inbounds {self.real}, ptr {base}, i64 {offset}") if offset else base

    def load(self, base: str, offset: int, align: int = 0) -> str:
        """Return the vector at an offset from `base`."""
        return self.let(f"load {self.type}, ptr {self.address(base, offset)}, align {align or self.bytes}")

    def splat(self, base: str, offset: int) -> str:
        """Return a vector with the entry at an offset from `base` in all lanes."""
        entry = self.let(f"load {self.real}, ptr {self.address(base, offset)}, align {self.bytes}")
        first = self.let(f"insertelement {self.type} {POISON}, {self.real} {entry}, i32 0")
        lanes = f"<{self.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {self.type} {first}, {self.type} {POISON}, {lanes}")

    def store(self, value: str, base: str, offset: int, align: int = 0) -> None:
        """Store a vector at an offset from `base`."""
        self.lines.append(f"store {self.type} {value}, ptr {self.address(base, offset)}, align {align or self.bytes}")

    def load_columns(self, rows: Sequence[str], start: int, count: int) -> list[str]:
        """Return columns start … start+count-1 of the matrix whose rows begin at the given pointers."""
        return self.transpose([self._load_part(row, start, count) for row in rows])[:count]

    def transpose(self, rows: Sequence[str]) -> list[str]:
        """Return the columns of a square matrix, given its rows."""
        columns = list(rows)
        distance = 1
        while distance < self.lanes:
            columns = self._exchange(columns, distance)
            distance *= 2
        return columns

    def _exchange(self, rows: list[str], distance: int) -> list[str]:
        """Exchange the off-diagonal blocks of side `distance` of all diagonal blocks of twice that side."""
        result = rows[:]
        for i in range(self.lanes):
            if not i & distance:
                a, b = rows[i], rows[i + distance]
                result[i] = self.merge(a, b, distance, upper=False)
                result[i + distance] = self.merge(a, b, distance, upper=True)
        return result

    def _shuffle(self, a: str, b: str, chosen: Iterable[int | None]) -> str:
        if a == b == POISON:
            return POISON
        indices = [POISON if i is None else str(i) for i in chosen]
        mask = f"<{len(indices)} x i32> <{', '.join(f'i32 {i}' for i in indices)}>"
        return self.let(f"shufflevector {self.type} {a}, {self.type} {b}, {mask}")

    def _load_part(self, base: str, offset: int, count: int) -> str:
        """Return a vector with `count` entries in its first lanes; no byte beyond them is read."""
        if count == self.lanes:
            return self.load(base, offset)
        value, filled = POISON, 0
        # falling powers of two
        for size in [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]:
            pointer = self.address(base, offset + filled)
            if size == 1:
                entry = self.let(f"load {self.real}, ptr {pointer}, align {self.bytes}")
                value = self.let(f"insertelement {self.type} {value}, {self.real} {entry}, i32 {filled}")
            else:
                vector = f"<{size} x {self.real}>"
                loaded = self.let(f"load {vector}, ptr {pointer}, align {self.bytes}")
                spread = [str(i - filled) if filled <= i < filled + size else POISON for i in range(self.lanes)]
                mask = f"<{self.lanes} x i32> <{', '.join(f'i32 {i}' for i in spread)}>"
                wide = self.let(f"shufflevector {vector} {loaded}, {vector} poison, {mask}")
                if value == POISON:
                    value = wide
                else:
                    n = self.lanes
                    value = self._shuffle(
                        value, wide, (i if i < filled else n + i if i < filled + size else None for i in range(n))
                    )
            filled += size
        return value

    def merge(self, a: str, b: str, distance: int, *, upper: bool) -> str:
        """Merge two vectors of blocks of `distance` lanes: the even or the odd blocks of both, alternating."""
        n = self.lanes
        if a == b == "zeroinitializer":
            return a
        if upper:
            return self._shuffle(a, b, [j + distance if not j & distance else n + j for j in range(n)])
        return self._shuffle(a, b, [j if not j & distance else n + j - distance for j in range(n)])

    def store_part(self, value: str, lane: int, count: int, base: str, offset: int) -> None:
        """Store `count` lanes, a power of two, from `lane` on; no byte beside them is written."""
        if count == self.lanes:
            self.store(value, base, offset)
            return
        if value == "zeroinitializer":
            piece, kind = (value, f"<{count} x {self.real}>") if count > 1 else ("0.0", self.real)
        elif count == 1:
            piece, kind = self.let(f"extractelement {self.type} {value}, i32 {lane}"), self.real
        else:
            kind = f"<{count} x {self.real}>"
            piece = self._shuffle(value, POISON, range(lane, lane + count))
        self.lines.append(f"store {kind} {piece}, ptr {self.address(base, offset)}, align {self.bytes}")


# Branches -------------------------------------------------------------------------------------------------------------


def when(name: str, test: str, yes: str, no: str) -> list[str]:
    """Return a branch on a condition, which is stored as %name; the following instructions run if it holds."""
    return [f"%{name} = {test}", f"br i1 %{name}, label %{yes}, label %{no}", f"{yes}:"]


def unless(name: str, test: str, yes: str, no: str) -> list[str]:
    """Return a branch as `when` does; the following instructions run if the condition does not hold."""
    return [f"%{name} = {test}", f"br i1 %{name}, label %{yes}, label %{no}", f"{no}:"]


def again(index: str, step: str, stop: str, name: str, loop: str, done: str) -> list[str]:
    """Return the end of a loop over %index: its next value, the branch back, and the label after the loop."""
    return [
        f"%{index}.next = add i64 %{index}, {step}",
        *unless(name, f"icmp slt i64 %{index}.next, {stop}", loop, done),
    ]


# Parameters and attributes of functions -------------------------------------------------------------------------------

#: Attributes of code that runs once per call, which is compiled quickly.
UNOPTIMISED: Final = "nounwind noinline optnone"
#: Attributes of functions that compute blocks of points: vectors as wide as written, and a stack aligned so that
#: spilled vectors do not straddle cache lines.
ATTRIBUTES: Final = 'nounwind noinline "prefer-vector-width"="512" "stackrealign"'


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a program's functions."""

    shapes: tuple[Shape, ...]  # shapes of the arguments at one point
    shared: tuple[bool, ...]  # for each argument, True if all points of a batch share it
    lengths: tuple[int, ...]  # number of entries of each result array at one point
    size: int  # bytes of an entry

    @property
    def arguments(self) -> list[str]:
        """Names of the arguments."""
        return [f"x{k}" for k in range(len(self.shapes))]

    @property
    def results(self) -> list[str]:
        """Names of the result arrays."""
        return [f"o{k}" for k in range(len(self.lengths))]

    @property
    def names(self) -> list[str]:
        """Names of the arguments and the result arrays."""
        return [*self.arguments, *self.results]

    @property
    def moving(self) -> list[str]:
        """Names of the arrays that differ from point to point."""
        return [name for name, shared in zip(self.arguments, self.shared, strict=True) if not shared] + self.results

    @property
    def strides(self) -> dict[str, int]:
        """Number of entries from one point to the next in C order, by name; 0 for shared arguments."""
        sizes = [0 if shared else prod(shape) for shape, shared in zip(self.shapes, self.shared, strict=True)]
        return dict(zip(self.names, (*sizes, *self.lengths), strict=True))

    @property
    def widest(self) -> int | None:
        """Number of the result array with the longest rows; None without results."""
        return max(range(len(self.lengths)), key=lambda k: self.lengths[k], default=None)


# Layouts --------------------------------------------------------------------------------------------------------------

#: A run of structural zeros longer than this many bytes is cleared by a call. Longer runs of stores make code longer,
#: calls for shorter ones take longer than the stores.
LONGEST_WRITTEN_OUT: Final = 256
ZERO: Final = "zeroinitializer"


class Layout(ABC):
    """Writer of the loads and stores of one block of points; %x0, %x1, … and %o0, %o1, … point to its first.

    A program that is cut into several functions keeps one layout: results that wait for their neighbours at the end of
    one function are stored in the next.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.lengths = signature.lengths
        self._sizes = [prod(shape) for shape in signature.shapes]
        self._firsts = [0, *accumulate(self._sizes)]

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Begin a function, given the writer of its instructions and a function from references to names of vectors."""
        self.vectors = vectors
        self.value = value

    def load(self, variable: int) -> dict[int, str]:
        """Load an input, and its neighbours if that is cheaper; return a map from variables to vectors."""
        argument = bisect(self._firsts, variable) - 1
        first = self._firsts[argument]
        if self.signature.shared[argument]:
            return {variable: self.vectors.splat(f"%x{argument}", variable - first)}
        return {first + k: vector for k, vector in self.load_entries(argument, variable - first).items()}

    @abstractmethod
    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """Load an entry of an argument that is not shared, and its neighbours if that is cheaper."""

    @abstractmethod
    def store(self, group: ResultGroup) -> None:
        """Store a result, or a run of structural zeros."""


class Rows(Layout):
    """Layout in C order: the points of a block are consecutive rows.

    Results are transposed in registers and stored in vectors that are aligned in memory: if the length of rows is not a
    multiple of a vector, each row has its own boundaries. A vector with 2ʲ columns of every 2ʲ-th row combines two
    vectors with half as many columns each, so different boundaries of neighbouring rows need no more shuffles than
    equal ones. Columns at the ends of a row that fill no vector are stored in parts of vectors.
    """

    def __init__(self, signature: Signature, lanes: int, zeroed: bool, offsets: Sequence[int]) -> None:
        super().__init__(signature)
        self.zeroed = zeroed
        self.offsets = offsets
        self._rows: dict[str, list[str]] = {}
        # first column of each row of each result array that is not stored yet
        self._starts = [[0] * lanes for _ in self.lengths]
        # references of columns that some row has not stored yet; None for structural zeros
        self._columns: list[dict[int, int | None]] = [{} for _ in self.lengths]
        self._merged: list[dict[tuple[int, int, int], str]] = [{} for _ in self.lengths]

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Begin a function, with pointers to the rows of each array."""
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
        """Return all entries of the vector that contains this one."""
        v = self.vectors
        if self._sizes[argument] == 1:
            return {0: v.load(f"%x{argument}", 0)}
        start = entry - entry % v.lanes
        count = min(v.lanes, self._sizes[argument] - start)
        columns = v.load_columns(self._rows[f"%x{argument}"], start, count)
        return {start + k: column for k, column in enumerate(columns)}

    def store(self, group: ResultGroup) -> None:
        """Store columns, each once its neighbours are complete."""
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
        """Store the vectors that are complete once all columns up to this one are known."""
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
        """Return the vector of `size` columns from `start` on, for the rows with this remainder modulo `size`."""
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
    """Layout of variables × points, with %line bytes from one variable to the next."""

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Begin a function; each pointer to a variable is computed from the previous one."""
        super().begin(vectors, value)
        self._last: dict[str, tuple[int, str]] = {}

    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """Return the vector of one entry."""
        return {entry: self.vectors.load(self._at(f"%x{argument}", entry), 0)}

    def store(self, group: ResultGroup) -> None:
        """Store one vector for each result; structural zeros are cleared elsewhere, once for all blocks."""
        for entry, reference in enumerate(group.references, group.start):
            if reference is not None:
                self.vectors.store(self.value(reference), self._at(f"%o{group.segment}", entry), 0)

    def _at(self, array: str, entry: int) -> str:
        """Return the pointer to a variable at the first point."""
        before, pointer = self._last.get(array, (0, array))
        if entry != before:
            distance = self.vectors.let(f"mul i64 %line, {entry - before}") if entry - before != 1 else "%line"
            pointer = self.vectors.let(f"getelementptr i8, ptr {pointer}, i64 {distance}")
        self._last[array] = entry, pointer
        return pointer
