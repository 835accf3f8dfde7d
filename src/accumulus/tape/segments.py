"""Scalar operations among the loops of a program, while it is recorded: they become one block, or one each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from accumulus.tape.blocks import SCAN, Block
from accumulus.tape.columns import Range
from accumulus.tape.operations import INPUT
from accumulus.tape.passes import USED, moved, rows_of
from accumulus.tape.tape import TAKES_TRUTH, Tape

#: Source lines, as pairs of file and line number.
Lines = frozenset[tuple[str, int]]
NOWHERE: Final[Lines] = frozenset()
#: Number of consecutive scalar operations from which on they become one block with a body, since derivatives take time
#: for each block. A smaller one compiles more bodies, a larger one leaves more blocks of one operation.
LONG_SEGMENT: Final = 8


class Segment(Tape):
    """Consecutive scalar operations, while a program over arrays is recorded.

    The segment has separate references. An operand from outside becomes an input between operations.

    Args:
        program: the `accumulus.tape.program.Program` that contains the operations.
    """

    __slots__ = ("here", "lines", "program", "there")

    def __init__(self, program: Any) -> None:
        super().__init__(0, signed_zeros=program.signed_zeros)
        self.program = program
        #: References here by reference in the program; references in the program by reference here; lines of each
        #: operation.
        self.here: dict[int, int] = {}
        self.there: list[int] = []
        self.lines: list[Lines] = []

    @classmethod
    def of(cls, program: Any, scalars: Tape) -> Segment:
        """Return the operations at the beginning of a program, whose references in the program stay the same."""
        segment = cls(program)
        segment.constants, segment.folded_zero_signs = list(scalars.constants), scalars.folded_zero_signs
        rows = rows_of(scalars)[scalars.inputs :]
        taken = np.unique(rows[:, 1:][USED[rows[:, 0]] & (rows[:, 1:] >= 0)])
        taken = taken[taken < scalars.inputs]
        here = np.zeros(len(scalars), np.int64)
        here[taken] = np.arange(len(taken))
        here[scalars.inputs :] = np.arange(len(taken), len(taken) + len(rows))
        rows[:, 1:] = np.where(USED[rows[:, 0]], moved(rows[:, 1:], here), 0)
        entered = np.concatenate([np.zeros((len(taken), 4), np.int64), rows])
        made = Tape.of_rows(0, entered, (), ())
        segment.codes, segment.first, segment.second, segment.third = made.codes, made.first, made.second, made.third
        segment.there = [*taken.tolist(), *range(scalars.inputs, len(scalars))]
        segment.here = {there: here for here, there in enumerate(segment.there)}
        segment.here |= {-k: -k for k in range(1, len(scalars.constants) + 1)}
        segment.lines = [NOWHERE] * len(rows)
        del segment._operation_references, segment._constant_references  # made again at their first use
        return segment

    def enter(self, reference: int) -> int:
        """Return the reference here of a value of the program that has no reference yet."""
        reference = int(reference)
        if reference < 0:
            here = self.here[reference] = self.constant(self.program.value_of(reference))
            return here
        here = self.here[reference] = len(self.codes)
        self.codes.append(INPUT)
        self.first.append(0)
        self.second.append(0)
        self.there.append(reference)
        return here

    def _append(self, key: int, code: int, a: int, b: int) -> int:
        here, program = super()._append(key, code, a, b), self.program
        for reference in (a, b):
            if reference < 0:  # the program has all constants, including those that builders make
                self._at(reference)
        self.here[program._size] = here
        self.there.append(program._size)
        self.lines.append(NOWHERE if program.locate is None else program.locate())
        program._size += 1
        return here

    def blocks(self) -> Iterator[tuple[Block, Lines]]:
        """Yield the blocks of the operations: one for all if they are many, else one for each."""
        if len(self.lines) >= LONG_SEGMENT:
            yield self._one_block(), frozenset().union(*self.lines)
            return
        lines = iter(self.lines)
        for k, code in enumerate(self.codes):
            if code != INPUT:
                operands = tuple(Range(self._at(a), 0, 1) for a in self.arguments(k))
                yield Block(code, self.there[k], 1, operands), next(lines)

    def _at(self, reference: int) -> int:
        return self.there[reference] if reference >= 0 else self.program.constant(self.value_of(reference))

    def _one_block(self) -> Block:
        """Return all operations as the body of one instance, with each operation as a result."""
        rows = rows_of(self)
        codes, arguments = rows[:, 0], rows[:, 1:]
        inside = codes != INPUT
        taken = np.flatnonzero(~inside)
        body = Tape(len(taken), signed_zeros=self.signed_zeros)
        body.constants = list(self.constants)
        to = np.zeros(len(rows), np.int64)
        to[taken] = np.arange(len(taken))
        # a body stores truth values from outside as numbers
        outside = TAKES_TRUTH[codes] & (arguments >= 0) & ~inside[np.maximum(arguments, 0)]
        compared, first_uses = np.unique(arguments[outside], return_index=True)
        truths = to.copy()
        for a in compared[np.argsort(first_uses)].tolist():
            truths[a] = body.apply("not_equal", int(to[a]), body.constant(0.0))
        first, count = len(body), int(np.count_nonzero(inside))
        to[inside] = np.arange(first, first + count)
        places = np.where(outside, moved(arguments, truths), moved(arguments, to))
        made = np.column_stack([codes, np.where(USED[codes], places, 0)])[inside]
        keeps = body.signed_zeros
        body = Tape.of_rows(
            len(taken), np.concatenate([rows_of(body), made]), body.constants, range(first, first + count)
        )
        body.signed_zeros = keeps
        columns = tuple(Range(self.there[k], 0, 1) for k in taken.tolist())
        start = self.there[int(np.flatnonzero(inside)[0])]
        return Block(SCAN, start, 1, columns, None, body, np.array([0, 1], np.int64))
