"""Passes over whole tapes in compiled code: many operations appended at once, and what depends on what.

Same results as the builders of `accumulus.tape.tape.Tape`, to the reference; some tens of nanoseconds an operation.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.tape.compiled import passes_slots as slot
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Integers", "commands", "extended", "moved", "rows_of", "spread", "topological"]

#: Commands and edges of one call of the kernel, some ten milliseconds; between calls Ctrl-C is heard.
CHUNK: Final = 1 << 17

Integers = NDArray[np.int64]


def rows_of(tape: Tape, start: int = 0) -> Integers:
    """Code and three arguments of each reference from `start` on, (n, 4); 0 where an operation takes fewer."""
    rows = np.zeros((len(tape) - start, slot.WIDTH), np.int64)
    rows[:, 0] = np.frombuffer(tape.codes, np.uint8)[start:]
    rows[:, 1] = np.frombuffer(tape.first, np.intc)[start:]
    rows[:, 2] = np.frombuffer(tape.second, np.intc)[start:]
    if tape.third:
        references, thirds = (np.fromiter(part, np.int64) for part in (tape.third.keys(), tape.third.values()))
        rows[references[references >= start] - start, 3] = thirds[references >= start]
    return rows


def moved(references: Any, to: Integers) -> Integers:
    """Where each reference is now, constants being where they were."""
    old = np.asarray(references, np.int64)
    new: Integers = old.copy()
    new[old >= 0] = to[old[old >= 0]]
    return new


def commands(count: int, code: Any = 0, first: Any = 0, second: Any = 0, third: Any = 0) -> Integers:
    """Rows for `extended`, (count, 4); each column an array of that length, or one number for all."""
    rows = np.empty((count, slot.WIDTH), np.int64)
    for column, given in enumerate((code, first, second, third)):
        rows[:, column] = given
    return rows


def extended(tape: Tape, rows: Integers, given: Any = None) -> tuple[Tape, Integers]:
    """A copy of the tape with operations appended, each simplified as the tape's builders do; and the values.

    Args:
        tape: what is copied; its outputs are, too.
        rows: code of each operation and its three arguments, (n, 4): from 0 on positions among the values before it,
            below 0 constants of the tape. Codes beyond the table's: `TAKE`, `QUOTIENT` and `SHARED_QUOTIENT` of
            `accumulus.tape.compiled.passes_slots`; plus its `SIGNED`, where zeros keep their sign.
        given: references that are values before the first operation; by default all of the tape.

    Returns:
        The tape, and the reference that each value is, (given + n).
    """
    start = np.arange(len(tape)) if given is None else np.asarray(given, np.int64)
    writer = _Writer(tape, rows, start)
    writer.run()
    return writer.tape(tape.outputs), writer.values


class _Writer:
    """The kernel's block for one tape, grown when it is full."""

    def __init__(self, tape: Tape, rows: Integers, given: Integers) -> None:
        self._inputs, self._end = tape.inputs, len(rows)
        block = self._block = Block(slot.SLOTS)
        block.point(slot.PROPERTIES, _PROPERTIES)
        block.point(slot.COMMANDS, np.ascontiguousarray(rows, np.int64))
        self.values = block.point(slot.VALUES, np.empty(len(given) + len(rows), np.int64))
        self.values[: len(given)] = given
        block.integers[[slot.INPUTS, slot.LENGTH, slot.GIVEN]] = tape.inputs, len(tape), len(given)
        block.integers[slot.CONSTANT_COUNT] = len(tape.constants)
        self._make_room(rows_of(tape), np.array(tape.constants, np.float64), len(rows))

    def run(self) -> None:
        block, integers = self._block, self._block.integers
        while integers[slot.AT] < self._end:
            integers[slot.MODE] = slot.WRITE
            integers[slot.END] = min(integers[slot.AT] + CHUNK, self._end)
            ended = kernel("tape.passes")(block.address)
            if ended == slot.FULL:
                rows, constants = self._filled()
                self._make_room(rows, constants, len(rows) + len(constants))
            elif ended == slot.FOLD:
                operation = OPERATIONS[integers[slot.FOLD_CODE]]
                places = -1 - integers[slot.FOLD_FIRST : slot.FOLD_FIRST + operation.arity]
                # NumPy's numbers, because Python's raise where IEEE gives infinity or NaN
                block.floats[slot.FOLD_VALUE] = operation.evaluate(*block.array(slot.CONSTANTS)[places])
                integers[slot.FOLDED] = 1

    def tape(self, outputs: list[int]) -> Tape:
        rows, constants = self._filled()
        return Tape.of_rows(self._inputs, rows, constants.tolist(), outputs[:])

    def _filled(self) -> tuple[Integers, NDArray[np.float64]]:
        block = self._block
        length, count = block.integers[[slot.LENGTH, slot.CONSTANT_COUNT]]
        return block.array(slot.ROWS)[:length], block.array(slot.CONSTANTS)[:count]

    def _make_room(self, rows: Integers, constants: NDArray[np.float64], more: int) -> None:
        """Let there be room for more rows, and as many constants; and index what is there."""
        block, integers = self._block, self._block.integers
        for name, what, limit, table, bits in (
            (slot.ROWS, rows, slot.ROW_LIMIT, slot.TABLE, slot.TABLE_BITS),
            (slot.CONSTANTS, constants, slot.CONSTANT_LIMIT, slot.CONSTANT_TABLE, slot.CONSTANT_BITS),
        ):
            room = len(what) + (more if name == slot.ROWS else min(more, len(what) + 64)) + 64
            array = np.empty((room, *what.shape[1:]), what.dtype)
            array[: len(what)] = what
            block.point(name, array)
            integers[limit] = room
            integers[bits] = (2 * room - 1).bit_length()
            block.point(table, np.zeros(1 << int(integers[bits]), np.int64))
        integers[slot.MODE] = slot.INDEX
        kernel("tape.passes")(block.address)


def spread(marks: NDArray[Any], start: NDArray[Any], to: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark `to` of each edge whose `start` is marked, edge by edge in the order given.

    Args:
        marks: whether each vertex is marked before.
        start, to: vertices of the edges.
    """
    block = Block(slot.SLOTS)
    spread_to = block.point(slot.MARKS, marks.astype(np.int64))
    for k in range(0, len(start), CHUNK):
        ends = [np.ascontiguousarray(column[k : k + CHUNK], np.int64) for column in (start, to)]
        block.point(slot.FROM, ends[0])
        block.point(slot.TO, ends[1])
        block.integers[[slot.MODE, slot.COUNT]] = slot.SPREAD, len(ends[0])
        kernel("tape.passes")(block.address)
    return spread_to.astype(bool)


def topological(vertices: int, start: NDArray[Any], to: NDArray[Any]) -> Integers:
    """Vertices, each after all that its edges lead to; those on a cycle, and what leads there, are left out.

    Args:
        vertices: how many there are.
        start, to: vertices of the edges.
    """
    block = Block(slot.SLOTS)
    waiting = block.point(slot.WAITING, np.bincount(start, minlength=vertices))
    ready = np.flatnonzero(waiting == 0)
    order = block.point(slot.ORDER, np.empty(vertices, np.int64))
    order[: len(ready)] = ready
    block.point(slot.FIRST_EDGE, np.concatenate([[0], np.cumsum(np.bincount(to, minlength=vertices))]))
    block.point(slot.FROM, start[np.argsort(to, kind="stable")].astype(np.int64))
    block.integers[[slot.MODE, slot.ORDERED]] = slot.SORT, len(ready)
    kernel("tape.passes")(block.address)
    return order[: block.integers[slot.ORDERED]]


_PROPERTIES: Final = np.zeros(256, np.int64)
for _row in OPERATIONS:
    _PROPERTIES[_row.code] = (
        _row.arity
        | slot.COMMUTATIVE * _row.commutative
        | slot.ODD * (_row.parity == "odd")
        | slot.EVEN * (_row.parity == "even")
        | slot.JUMPS * _row.jumps
    )
