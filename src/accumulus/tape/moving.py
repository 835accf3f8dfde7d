"""Copying of programs over arrays onto others: as a whole, restricted to the needed parts, or as scalar operations."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import OpaqueError, SizeError
from accumulus.tape.blocks import CALL, CHOLESKY, FACTORS, GATHER, LOG_DETERMINANT, SCATTER, SOLVE, SPARSE_SOLVE, Block
from accumulus.tape.columns import Column, Range, References, column, references_in
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.interpreter import Writing, applied, copied
from accumulus.tape.live import settled
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.systems import logarithm, lower_factor, solutions
from accumulus.tape.tape import Tape

#: Reference in the new program of values that are not in it.
_NOWHERE: Final = np.iinfo(np.int64).min
#: Description of programs that are straight-line code, for messages.
_WRITTEN_OUT: Final = (
    "a program that is written out operation by operation (to be planned by hand, of too many blocks, or for second "
    "derivatives of small systems of equations, factorisations and implicit functions)"
)


class Moving:
    """References of one program in another program that is made from it.

    Args:
        original: program that is read.
        made: program that is written.
        inputs: references in `made` of all inputs of `original`, or of the first ones.
        used: all columns that are moved, whose constants are copied; None to copy all constants.
    """

    def __init__(
        self, original: Program, made: Program, inputs: References, used: Sequence[Column] | None = None
    ) -> None:
        self.original, self.made = original, made
        # stored relative to `_NOWHERE`, so that values that are never moved take no memory
        self._moved = np.zeros(len(original), np.int64)
        #: Consecutive references that are consecutive in the new program, too: their starts, in order; and for each
        #: start, the end, and the start in the new program.
        self._firsts: list[int] = []
        self._stretches: dict[int, tuple[int, int]] = {}
        self.note(0, column(inputs))
        #: References of constants in `made`, indexed by those in `original`; None if they are the same.
        self._constants: References | None = None
        count = len(original.constants)
        if used is None and made.adopt_constants(original):
            self._add_stretch(-count, Range(-count, 1, count))
            return
        self._constants = np.zeros(count, np.int64)
        is_used = np.ones(count, bool) if used is None else _constants_in(used, count)
        if is_used.any():
            self._constants[is_used] = made.constant_array(original.constants[::-1][is_used])

    @property
    def has_constants(self) -> bool:
        """Return True if the original program has constants."""
        return len(self.original.constants) > 0

    def note(self, start: int, references: Column) -> None:
        """Store the references in `made` of consecutive results of `original` from `start` on."""
        self._moved[start : start + len(references)] = references_in(references) - _NOWHERE
        if isinstance(references, Range) and references.step == 1:
            self._add_stretch(start, references)

    def _add_stretch(self, start: int, references: Range) -> None:
        if start not in self._stretches:
            insort(self._firsts, start)
        self._stretches[start] = start + references.count, references.start

    def note_each(self, these: References, references: References) -> None:
        """Store the references in `made` of any values of `original`."""
        self._moved[these] = references - _NOWHERE

    def at(self, references: References) -> References:
        """Return the references in `made` of values of `original`."""
        constant = references < 0
        new = self._moved[np.maximum(references, 0)]
        new += _NOWHERE
        if constant.any():
            new[constant] = references[constant] if self._constants is None else self._constants[references[constant]]
        return new

    def column_at(self, operands: Column) -> Column:
        """Return the column in `made` for a column of `original`."""
        if isinstance(operands, Range) and operands.step == 0:
            return Range(int(self.at(np.array([operands.start]))[0]), 0, operands.count)
        if isinstance(operands, Range):
            low, high = operands.ends
            k = bisect_right(self._firsts, low) - 1
            if k >= 0 and high < (stretch := self._stretches[self._firsts[k]])[0]:
                return Range(operands.start - self._firsts[k] + stretch[1], operands.step, operands.count)
        return column(self.at(references_in(operands)))

    def copy(self, block: Block) -> None:
        """Add a block to `made`; all its operands have to be there."""
        made = self.made
        if block.steps is not None:
            body = block.body
            assert body is not None

            def operands(results: list[Range]) -> list[Column]:
                for k, range_ in enumerate(results):
                    self.note(block.start + k * block.count, range_)
                return [self.column_at(each) for each in block.operands]

            operands(made.scan(body, operands, block.steps))  # again, since `scan` may return an equal earlier block
        elif block.offsets is not None:
            self.note(block.start, made.sums(self.at(references_in(block.operands[0])), block.offsets))
        elif block.shape is not None:
            matrices = [self.at(references_in(each)) for each in block.operands]
            self.note(block.start, made.of_matrices(block.code, block.shape, matrices, block.opaque))
        else:
            columns = [self.column_at(each) for each in block.operands]
            self.note(block.start, made.apply_code(block.code, columns))

    def join(self, block: Block) -> None:
        """Add a block to `made`; operations on numbers join those before them in one block."""
        body = block.body
        if block.count > 1 or block.shape is not None or block.offsets is not None:
            self.copy(block)
            return
        numbers = [int(self.at(references_in(each))[0]) for each in block.operands]
        produced = [applied(self.made, block.code, numbers)] if body is None else copied(body, self.made, numbers)
        self.note_each(block.start + np.arange(len(produced)), np.array(produced, np.int64))


def _constants_in(used: Sequence[Column], count: int) -> NDArray[np.bool_]:
    """Return True for each of `count` constants that columns refer to, the last constant first."""
    is_used = np.zeros(count, bool)
    for operands in used:
        if isinstance(operands, Range) and operands.start >= 0 and operands.start + operands.step * len(operands) >= 0:
            continue
        references = references_in(operands)
        is_used[references[references < 0]] = True
    return is_used


def replayed(program: Program, made: Program, inputs: References, *, joins: bool = False) -> References:
    """Add a program's operations to another one, and return the references of its outputs there.

    Args:
        program: the program.
        made: program to add its operations to.
        inputs: references in `made` of the program's inputs.
        joins: True to join operations on numbers with those before them, see `Moving.join`.

    >>> program, made = Program(2), Program(1)
    >>> program.outputs = np.array([program.apply("multiply", 0, 1)])
    >>> made.outputs = replayed(program, made, np.array([0, 0]))
    >>> from accumulus.tape.interpreter import evaluate
    >>> print(evaluate(made, np.array([3.0])))
    [9.]
    """
    if program.scalars is not None:
        return np.array(copied(program.scalars, made, inputs.tolist()), np.int64)
    chosen = np.flatnonzero(program.needed()).tolist()
    used = [column(program.outputs), *(each for position in chosen for each in program.blocks[position].operands)]
    moving = Moving(program, made, inputs, used)
    for position in chosen:
        with made.located(program.lines[position]):
            (moving.join if joins else moving.copy)(program.blocks[position])
    return moving.at(program.outputs)


def expanded(program: Program, method: str = "replay") -> Program:
    """Return the program with what `method` writes in place of calls that have it; `replay` of loops writes blocks."""
    replays = [] if program.scalars is not None else [getattr(each.opaque, method, None) for each in program.blocks]
    if not any(replays):
        return program
    made = Program(program.inputs)
    moving = Moving(program, made, np.arange(program.inputs))
    for block, lines, replay in zip(program.blocks, program.lines, replays, strict=True):
        with made.located(lines):
            if replay is not None:
                numbers = moving.at(references_in(block.operands[0]))
                moving.note(block.start, column(replay(made, numbers)))
            else:
                moving.copy(block)
    made.outputs = moving.at(program.outputs)
    return made


# Restriction to the instances that outputs need ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a block: some of its instances, or a recurrence up to a step.

    Attributes:
        block: the block.
        operands: references of the operands.
        results: references of the results.
        offsets: for sums, the start of each sum, and the end of the last.
        shape: for matrix operations, m, k and n of the needed rows and columns.
    """

    block: Block
    operands: list[References]
    results: References
    offsets: NDArray[np.int64] | None = None
    shape: tuple[int, int, int] | None = None


def narrowed(tape: Program) -> Program:
    """Return the program with only the instances that outputs need; recurrences run up to the last needed step.

    >>> tape = Program(inputs=1000)
    >>> tape.outputs = tape.apply("multiply", np.arange(1000), 2)[5:7]
    >>> narrowed(tape).operations
    2
    """
    parts, used = _parts(tape)
    made = Program(tape.inputs, signed_zeros=tape.signed_zeros)
    moving = Moving(tape, made, np.arange(tape.inputs), used)
    for position, part in parts:
        with made.located(tape.lines[position]):
            if part.block.steps is not None:
                _write_recurrence(part, moving)
                continue
            operands = [moving.at(each) for each in part.operands]
            if part.offsets is not None:
                results = made.sums(operands[0], part.offsets)
            elif part.shape is not None:
                results = made.of_matrices(part.block.code, part.shape, operands, part.block.opaque)
            else:
                results = made.apply_code(part.block.code, [column(each) for each in operands]).references
            moving.note_each(part.results, results)
    made.outputs = moving.at(tape.outputs)
    return made


def _parts(tape: Program) -> tuple[list[tuple[int, _Part]], list[Column]]:
    """Return the needed part of each block with the block's position, and all columns that parts and outputs use."""
    needed = np.zeros(len(tape), bool)
    needed[tape.outputs[tape.outputs >= 0]] = True
    parts: list[tuple[int, _Part]] = []
    for position in reversed(range(len(tape.blocks))):
        block = tape.blocks[position]
        needed_results = needed[block.start : block.start + block.size]
        if not needed_results.any():
            continue
        part = _part(block, needed_results)
        parts.append((position, part))
        for references in part.operands:
            needed[references[references >= 0]] = True
    used: list[Column] = [column(tape.outputs), *(each for _, part in parts for each in part.operands)]
    return parts[::-1], used


def _part(block: Block, needed: NDArray[np.bool_]) -> _Part:
    columns = [references_in(each) for each in block.operands]
    every = np.arange(block.start, block.start + block.size)
    if block.steps is not None:
        assert block.body is not None
        alive = needed.reshape(len(block.body.outputs), block.count).any(axis=0)
        end = int(block.steps[np.searchsorted(block.steps, int(np.flatnonzero(alive)[-1]), side="right")])
        results = every.reshape(-1, block.count)[:, :end].reshape(-1)
        return _Part(block, [each[:end] for each in columns], results)
    if block.offsets is not None:
        lengths = np.diff(block.offsets)
        offsets = np.append(0, np.cumsum(lengths[needed]))
        return _Part(block, [columns[0][np.repeat(needed, lengths)]], every[needed], offsets=offsets)
    if block.code in (LOG_DETERMINANT, CHOLESKY, CALL, SPARSE_SOLVE, GATHER, SCATTER, *FACTORS):
        return _Part(block, columns, every, shape=block.shape)
    if block.shape is not None:
        m, k, n = block.shape
        table = needed.reshape(m, n)
        down, along = table.any(axis=1), table.any(axis=0)
        down |= block.code == SOLVE  # a solution needs all equations
        factors = [columns[-1].reshape(k, n)[:, along].reshape(-1)]
        if isinstance(block.opaque, SparseMatrix):
            block = replace(block, opaque=block.opaque.of_rows(np.asarray(down)))
        else:
            factors.insert(0, columns[0].reshape(m, k)[down].reshape(-1))
        results = every.reshape(m, n)[down][:, along].reshape(-1)
        return _Part(block, factors, results, shape=(int(down.sum()), k, int(along.sum())))
    return _Part(block, [each[needed] for each in columns], every[needed])


def _write_recurrence(part: _Part, moving: Moving) -> None:
    block = part.block
    assert block.body is not None
    assert block.steps is not None
    results = part.results.reshape(len(block.body.outputs), -1)
    steps = block.steps[block.steps <= results.shape[1]]

    def operands(ranges: list[Range]) -> list[Column]:
        for these, references in zip(results, ranges, strict=True):
            moving.note_each(these, references.references)
        return [column(moving.at(each)) for each in part.operands]

    operands(moving.made.scan(block.body, operands, steps))  # again, since `scan` may return an equal earlier block


# Scalar operations of the instances that outputs need ----------------------------------------------------------------


def unroll(program: Program) -> Tape:
    """Return the tape of scalar operations that a program's outputs need.

    Raises:
        OpaqueError: if the program calls an opaque function, or has factorisations.
        SizeError: if the program takes or adds rows by computed indices.

    >>> program = Program(inputs=2)
    >>> program.outputs = program.sums(program.apply("multiply", np.arange(2), np.arange(2)), [0, 2])
    >>> print(unroll(program))
    t2 = multiply(x0, x0)
    t3 = multiply(x1, x1)
    t4 = add(t2, t3)
    return t4
    """
    program = expanded(program)
    tape = Tape(program.inputs, signed_zeros=program.signed_zeros)
    values = np.zeros(len(program), np.int64)
    values[: program.inputs] = np.arange(program.inputs)
    parts, used = _parts(program)
    #: References on the tape of the program's constants, indexed by their references in the program.
    constants = np.zeros(len(program.constants), np.int64)
    is_used = _constants_in(used, len(constants))
    constants[is_used] = [tape.constant(value) for value in program.constants[::-1][is_used].tolist()]

    def at(references: NDArray[np.int64]) -> list[int]:
        new = values[np.maximum(references, 0)]
        constant = references < 0
        if constant.any():
            new[constant] = constants[references[constant]]
        return new.tolist()  # type: ignore[no-any-return]

    for _, part in parts:
        _write(tape, part, at, values)
    tape.outputs = at(program.outputs)
    return settled(tape) if tape.signed_zeros else tape


def _write(tape: Tape, part: _Part, at: Callable[[NDArray[np.int64]], list[int]], values: NDArray[np.int64]) -> None:
    """Record the instances of a block on a tape, and store the references of their results in `values`."""
    block, columns = part.block, part.operands
    if block.body is not None:
        write = Writing(tape).routine(block.body)
        results = part.results.reshape(len(block.body.outputs), -1)
        for instance in range(results.shape[1]):  # in order, since instances take earlier results
            values[results[:, instance]] = write(*at(np.array([each[instance] for each in columns], np.int64)))
        return
    if isinstance(block.opaque, SparseMatrix):
        assert part.shape is not None
        matrix, (_, k, n) = block.opaque, part.shape
        entries = [tape.constant(value) for value in matrix.entries.tolist()]
        taken = np.reshape(at(columns[0]), (k, n))[matrix.columns].T.tolist()  # one row for each column of the product
        products = [[tape.multiply(x, a) for x, a in zip(line, entries, strict=True)] for line in taken]
        ends = list(pairwise(matrix.starts.tolist()))
        values[part.results] = [tape.sum(line[first:last]) for first, last in ends for line in products]
        return
    if block.opaque is not None:
        raise OpaqueError.of(block.opaque.name, _WRITTEN_OUT)
    if block.code in (GATHER, SCATTER):
        raise SizeError(
            "rows by indices among the arguments cannot be written out operation by operation; expected a program of "
            "loops"
        )
    if block.code in FACTORS:
        raise OpaqueError.of(FACTORISATIONS[block.code].name, _WRITTEN_OUT)
    instances: list[int]
    if part.offsets is not None:
        terms = at(columns[0])
        instances = [tape.sum(terms[first:last]) for first, last in pairwise(part.offsets.tolist())]
    elif part.shape is not None:
        m, k, n = part.shape
        left, *rest = map(at, columns)
        rows = [left[k * i : k * i + k] for i in range(m)]
        if block.code == LOG_DETERMINANT:
            instances = [*logarithm(tape, rows)]
        elif block.code == CHOLESKY:
            instances = [entry for row in lower_factor(tape, rows) for entry in row]
        elif block.code == SOLVE:
            sides = [rest[0][n * i : n * i + n] for i in range(k)]
            instances = [entry for row in solutions(tape, rows, sides) for entry in row]
        else:
            lines = [rest[0][j::n] for j in range(n)]
            instances = [tape.sum(map(tape.multiply, row, line)) for row in rows for line in lines]
    else:
        instances = [applied(tape, block.code, operands) for operands in zip(*map(at, columns), strict=True)]
    values[part.results] = instances
