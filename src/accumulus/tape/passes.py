"""Passes over whole tapes in compiled code: appending many operations at once, and dependences.

Results have the same references as with the builders of `accumulus.tape.tape.Tape`; an operation takes some tens of
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.native.state import Floats, Integers, Records
from accumulus.tape.compiled.passes_kernel import (
    COMMUTATIVE,
    EVEN,
    FOLD,
    FULL,
    INDEX,
    JUMPS,
    ODD,
    SORT,
    SPREAD,
    WRITE,
    PassesState,
    Row,
)
from accumulus.tape.folding import Folding
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

#: Commands or edges of one kernel call, about ten milliseconds; Ctrl-C is handled between calls: more delay it, fewer
#: make more calls.
CHUNK: Final = 1 << 17
#: Bits of the sets that are spread at once.
_BITS: Final = 62
#: Words of a row: code and three arguments.
WIDTH: Final = len(Row.fields)


#: Arguments that operations have, by code.
USED: Final = np.array([[k < row.arity for k in range(WIDTH - 1)] for row in OPERATIONS])


def with_folding(tape: Tape) -> Tape:
    """Return the tape, or a copy of it, so that tapes made of it note what folded constants stand for."""
    if tape.folding is None:
        tape = tape.copy()
        tape.folding = Folding(tape.constants)
    return tape


def with_noted_folding(made: Tape, source: Tape) -> Tape:
    """Return a tape made of another one, which notes what the constants stand for that are new in it."""
    made.folding = source.folding
    if made.folding is not None:
        made.folding.note_folded(made.constants, source.constants)
    return made


def rows_of(tape: Tape, start: int = 0) -> Integers:
    """Return code and three arguments of each reference from `start` on, (n, 4); 0 for missing arguments."""
    rows = np.zeros((len(tape) - start, WIDTH), np.int64)
    rows[:, 0] = np.frombuffer(tape.codes, np.uint8)[start:]
    rows[:, 1] = np.frombuffer(tape.first, np.intc)[start:]
    rows[:, 2] = np.frombuffer(tape.second, np.intc)[start:]
    if tape.third:
        references, thirds = (np.fromiter(each, np.int64) for each in (tape.third.keys(), tape.third.values()))
        rows[references[references >= start] - start, 3] = thirds[references >= start]
    return rows


def moved(references: Any, to: Integers) -> Integers:
    """Return the new reference of each reference; constants keep theirs."""
    old = np.asarray(references, np.int64)
    new: Integers = old.copy()
    inside = old >= 0
    new[inside] = to[old[inside]]
    return new


def commands(count: int, code: Any = 0, first: Any = 0, second: Any = 0, third: Any = 0) -> Integers:
    """Return rows for `extended`, (count, 4); each column is an array of that length, or one number for all rows."""
    rows = np.empty((count, WIDTH), np.int64)
    for column, entries in enumerate((code, first, second, third)):
        rows[:, column] = entries
    return rows


def extended(tape: Tape, rows: Integers, initial: Any = None) -> tuple[Tape, Integers]:
    """Return a copy of the tape with operations appended and simplified as by the tape's builders; and all values.

    Args:
        tape: tape to copy, with its outputs.
        rows: code and three arguments of each operation, (n, 4). Arguments from 0 on are positions among the earlier
            values; negative ones are constants of the tape. Codes beyond the table's are `TAKE`, `QUOTIENT` and
            `SHARED_QUOTIENT` of `accumulus.tape.compiled.passes_kernel`; its `SIGNED` is added where zeros keep their
            sign.
        initial: references of the values before the first operation; by default all of the tape.

    Returns:
        The tape, and the reference of each value, (initial + n).

    Raises:
        IndexError: for an argument that is not computed yet, since compiled code would read uninitialised memory.
    """
    start = np.arange(len(tape)) if initial is None else np.asarray(initial, np.int64)
    latest = np.maximum(np.maximum(rows[:, 1], rows[:, 2]), rows[:, 3])
    if (latest >= np.arange(len(start), len(start) + len(rows))).any():
        raise IndexError("an operation comes before one of its arguments")
    writer = _Writer(tape, rows, start)
    writer.run()
    return with_noted_folding(writer.tape(tape.outputs), tape), writer.values


class _Writer:
    """The kernel's state for one tape; its arrays grow when they are full."""

    def __init__(self, tape: Tape, rows: Integers, initial: Integers) -> None:
        self.values = np.empty(len(initial) + len(rows), np.int64)
        self.values[: len(initial)] = initial
        self._commands = len(rows)
        self._state = PassesState(
            inputs=tape.inputs,
            length=len(tape),
            constant_count=len(tape.constants),
            properties=PROPERTIES,
            commands=_records(rows),
            values=self.values,
            input_count=len(initial),
        )
        self._reserve(rows_of(tape), np.array(tape.constants, np.float64), len(rows))

    def run(self) -> None:
        state = self._state
        while state.at < self._commands:
            state.end = min(state.at + CHUNK, self._commands)
            ended = _perform(state, WRITE)
            if ended == FULL:
                rows, constants = self._filled()
                self._reserve(rows, constants, len(rows) + len(constants))
            elif ended == FOLD:
                code, *arguments = state.rows.words[WIDTH * state.length :][:WIDTH].tolist()
                operation = OPERATIONS[code]
                # NumPy's numbers, since Python's raise errors where IEEE 754 gives infinity or NaN
                numbers = (state.constants[-1 - reference] for reference in arguments[: operation.arity])
                state.answer, state.answered = operation.evaluate(*numbers), 1

    def tape(self, outputs: list[int]) -> Tape:
        rows, constants = self._filled()
        return Tape.of_rows(self._state.inputs, rows, constants.tolist(), outputs[:])

    def _filled(self) -> tuple[Integers, Floats]:
        state = self._state
        return state.rows.words.reshape(-1, WIDTH)[: state.length], state.constants[: state.constant_count]

    def _reserve(self, rows: Integers, constants: Floats, more: int) -> None:
        """Reserve memory for `more` rows and as many constants, and index the present ones."""
        state = self._state
        state.row_limit = len(rows) + more + 64
        state.constant_limit = len(constants) + min(more, len(constants) + 64) + 64
        state.rows = _records(_grown(rows, state.row_limit))
        state.constants = _grown(constants, state.constant_limit)
        state.table_bits, state.constant_bits = _bits(state.row_limit), _bits(state.constant_limit)
        state.table = np.zeros(1 << state.table_bits, np.int64)
        state.constant_table = np.zeros(1 << state.constant_bits, np.int64)
        _perform(state, INDEX)


def _grown(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return a longer array that begins with the entries of `array`."""
    grown = np.empty((capacity, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _bits(capacity: int) -> int:
    """Return the binary logarithm of the size of a hash table for `capacity` entries that stays at most half full."""
    return (2 * capacity - 1).bit_length()


def _records(rows: Integers) -> Records[Row]:
    """Return rows, (n, 4), in the kernel's format."""
    return Records(Row, np.ascontiguousarray(rows, np.int64).reshape(-1))


def _perform(state: PassesState, mode: int) -> int:
    state.mode = mode
    return kernel("tape.passes")(state.address)


def spread(marks: NDArray[Any], start: NDArray[Any], to: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark `to` of each edge whose `start` is marked, edge by edge in order.

    Args:
        marks: initial truth value of each vertex.
        start: source of each edge.
        to: target of each edge.
    """
    return spread_sets(marks.astype(np.int64), start, to).astype(bool)


def spread_sets(marks: Integers, start: NDArray[Any], to: NDArray[Any]) -> Integers:
    """Spread several marks at once, as `spread` does: the bits of an integer for each vertex."""
    state = PassesState(marks=marks.copy())
    for k in range(0, len(start), CHUNK):
        state.start, state.to = (np.ascontiguousarray(column[k : k + CHUNK], np.int64) for column in (start, to))
        state.count = len(state.start)
        _perform(state, SPREAD)
    return state.marks


def counts_of_sets(count: int, ends: Sequence[int], start: NDArray[Any], to: NDArray[Any]) -> Integers:
    """Return the number of `ends` that reach each vertex, (count,); edges as for `spread`."""
    counts = np.zeros(count, np.int64)
    for k in range(0, len(ends), _BITS):
        some = list(ends[k : k + _BITS])
        marks = np.zeros(count, np.int64)
        marks[some] = 1 << np.arange(len(some))
        counts += np.bitwise_count(spread_sets(marks, start, to))
    return counts


def topological(vertices: int, start: NDArray[Any], to: NDArray[Any]) -> Integers:
    """Return the vertices, each after its edges' targets, without those that are on a cycle or reach one.

    Args:
        vertices: number of vertices.
        start: source of each edge.
        to: target of each edge.
    """
    waiting = np.bincount(start, minlength=vertices)
    ready = np.flatnonzero(waiting == 0)
    order = np.empty(vertices, np.int64)
    order[: len(ready)] = ready
    state = PassesState(
        start=start[np.argsort(to, kind="stable")].astype(np.int64),
        first_edge=np.concatenate([[0], np.cumsum(np.bincount(to, minlength=vertices))]),
        waiting=waiting,
        order=order,
        ordered=len(ready),
    )
    _perform(state, SORT)
    return order[: state.ordered]


#: Properties of operations, by code; see `accumulus.tape.compiled.passes_kernel`.
PROPERTIES: Final = np.zeros(256, np.int64)
for _row in OPERATIONS:
    PROPERTIES[_row.code] = (
        _row.arity
        | COMMUTATIVE * _row.commutative
        | ODD * (_row.parity == "odd")
        | EVEN * (_row.parity == "even")
        | JUMPS * _row.jumps
    )
