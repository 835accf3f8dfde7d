"""Vectors in LLVM IR: their types, how rows of memory become columns of lanes, and back.

A block of `lanes` points is a matrix, points × variables, in the caller's memory. `lanes` neighbouring variables of
all its points are loaded row by row and transposed in registers, so that one register holds one variable of all points;
results go the other way. Transposition exchanges off-diagonal blocks, first inside 128-bit lanes, where shuffles are
cheap, then between them: log₂(lanes) shuffles a register and no memory access that is not a whole vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["POISON", "Vectors"]

POISON: Final = "poison"


class Vectors:
    """Writes instructions on vectors of one type to a list of lines.

    Args:
        lanes: entries of a vector, a power of two.
        dtype: "float64" or "float32".

    Attributes:
        lines: what has been written.
        real: LLVM's name of the scalar type.
        type, mask: LLVM's names of the vector type, and of that of truth values.
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
        """Write ``%name = text``; the name."""
        self._names += 1
        name = f"%r{self._names}"
        self.lines.append(f"{name} = {text}")
        return name

    def address(self, base: str, offset: int) -> str:
        """Pointer to the entry at `offset` behind `base`."""
        return self.let(f"getelementptr inbounds {self.real}, ptr {base}, i64 {offset}") if offset else base

    def load(self, base: str, offset: int, align: int = 0) -> str:
        """The vector at `offset`."""
        return self.let(f"load {self.type}, ptr {self.address(base, offset)}, align {align or self.bytes}")

    def splat(self, base: str, offset: int) -> str:
        """The entry at `offset`, in all lanes."""
        entry = self.let(f"load {self.real}, ptr {self.address(base, offset)}, align {self.bytes}")
        first = self.let(f"insertelement {self.type} {POISON}, {self.real} {entry}, i32 0")
        lanes = f"<{self.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {self.type} {first}, {self.type} {POISON}, {lanes}")

    def store(self, value: str, base: str, offset: int, align: int = 0) -> None:
        """Store a vector at `offset`."""
        self.lines.append(f"store {self.type} {value}, ptr {self.address(base, offset)}, align {align or self.bytes}")

    def load_columns(self, rows: Sequence[str], start: int, count: int) -> list[str]:
        """Columns start … start+count-1 of the matrix whose rows begin at the given pointers."""
        return self.transpose([self._load_part(row, start, count) for row in rows])[:count]

    def transpose(self, rows: Sequence[str]) -> list[str]:
        """Columns of a square matrix."""
        found = list(rows)
        distance = 1
        while distance < self.lanes:
            found = self._exchange(found, distance)
            distance *= 2
        return found

    def _exchange(self, rows: list[str], distance: int) -> list[str]:
        """Exchange the off-diagonal blocks of side `distance` of all diagonal blocks twice that size."""
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
        """`count` entries in the first lanes; not a byte behind them is read."""
        if count == self.lanes:
            return self.load(base, offset)
        value, filled = POISON, 0
        for size in _powers(count):
            pointer = self.address(base, offset + filled)
            if size == 1:
                entry = self.let(f"load {self.real}, ptr {pointer}, align {self.bytes}")
                value = self.let(f"insertelement {self.type} {value}, {self.real} {entry}, i32 {filled}")
            else:
                part = f"<{size} x {self.real}>"
                loaded = self.let(f"load {part}, ptr {pointer}, align {self.bytes}")
                spread = [str(i - filled) if filled <= i < filled + size else POISON for i in range(self.lanes)]
                mask = f"<{self.lanes} x i32> <{', '.join(f'i32 {i}' for i in spread)}>"
                wide = self.let(f"shufflevector {part} {loaded}, {part} poison, {mask}")
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
        """Of two vectors of blocks of `distance` lanes: the even blocks of both, or the odd ones, in turns."""
        n = self.lanes
        if a == b == "zeroinitializer":
            return a
        if upper:
            return self._shuffle(a, b, [j + distance if not j & distance else n + j for j in range(n)])
        return self._shuffle(a, b, [j if not j & distance else n + j - distance for j in range(n)])

    def store_part(self, value: str, lane: int, count: int, base: str, offset: int) -> None:
        """Store `count` lanes, a power of two, from `lane` on; not a byte beside them is written."""
        if count == self.lanes:
            self.store(value, base, offset)
            return
        if value == "zeroinitializer":
            part, kind = (value, f"<{count} x {self.real}>") if count > 1 else ("0.0", self.real)
        elif count == 1:
            part, kind = self.let(f"extractelement {self.type} {value}, i32 {lane}"), self.real
        else:
            kind = f"<{count} x {self.real}>"
            part = self._shuffle(value, POISON, range(lane, lane + count))
        self.lines.append(f"store {kind} {part}, ptr {self.address(base, offset)}, align {self.bytes}")


def _powers(count: int) -> list[int]:
    """The count as a sum of falling powers of two."""
    return [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]
