"""Iterations of loops over arrays: consecutive groups of blocks that are alike.

A loop in Python over long arrays, or `accumulus.scan` with a long state, is recorded block by block. Here the groups of
blocks of its iterations are found, and one iteration becomes a program. It takes the values that the previous iteration
hands on (the carry), values from outside of the loop that differ between iterations, and values from outside that are
the same in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.repetition.cones import periods
from accumulus.tape.blocks import MATMUL, MOST_REPEATS, Block, Opaque
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.interpreter import evaluate
from accumulus.tape.moving import Moving, replayed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.tape import to_bytes

Integers = NDArray[np.int64]
#: Least number of iterations, and of blocks in all of them. Fewer blocks are written out: a first gradient takes less
#: than a second then, and a call up to half the time. More take 3 ms each, and calls are as fast (no command measures
#: this).
FEWEST: Final = 8
FEWEST_BLOCKS: Final = 400
#: Least number of blocks if some are solutions, factorisations or calls, which Python makes one by one: with fewer,
#: calls through Python take longer than the blocks written out; with more, first results of long loops do.
FEWEST_WITH_CALLS: Final = 2_000
#: Largest number of periods that are tried: more take preparation time, fewer may miss the period of the loop.
MOST_PERIODS: Final = 4
#: Largest number of results of a loop that are kept: a recording is evaluated at three points, and at few more.
MOST_RESULTS: Final = 8
_MULTIPLY: Final = BY_NAME["multiply"].code


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """A loop in a program over arrays.

    Attributes:
        body: program of one iteration: inputs are the carry, the varying and the common values; outputs are the next
            carry, the values that are used outside of the loop, and those used outside after the last iteration only.
        count: number of iterations.
        first, last: position of its first block, and of the first block after it.
        carry: references of the first carry.
        varying: references of the varying values, (iterations, values).
        common: references of the common values.
        every: references of the values used outside, (iterations, values).
        final: references of the values of the last iteration that are used outside.
    """

    body: Program
    count: int
    first: int
    last: int
    carry: Integers
    varying: Integers
    common: Integers
    every: Integers
    final: Integers

    @property
    def arguments(self) -> Integers:
        """References of the carry, of the varying values of all iterations, and of the common values."""
        return np.concatenate([self.carry, self.varying.reshape(-1), self.common])

    @property
    def results(self) -> Integers:
        """References of all values that are used outside."""
        return np.concatenate([self.every.reshape(-1), self.final])


class Repeated:
    """A loop as a function that programs call, see `accumulus.tape.blocks.Opaque`; its iterations are interpreted.

    Its arguments are those of `Iterations`, its results the values that are used outside.

    Args:
        body: program of an iteration, see `Iterations`.
        count: number of iterations.
        sizes: sizes of the carry, of the varying values of an iteration, and of the common values.
        used: number of values of each iteration that are results, and of further ones of the last iteration.
    """

    #: Relative error of results: rounding adds up over iterations.
    accuracy = 1e-9

    def __init__(self, body: Program, count: int, sizes: tuple[int, int, int], used: tuple[int, int]) -> None:
        self.body, self.count, self.sizes, (self.every, self.final) = body, count, sizes, used
        self.name, self.title = f"a loop of {self.count:,} iterations", f"{self.count:,} iterations"
        self.argument_count = sizes[0] + count * sizes[1] + sizes[2]
        self.result_count = count * self.every + self.final
        #: Arguments and results of the last calls: a recording is compared with the function, and a program with both.
        self._results: dict[bytes, NDArray[np.float64]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_results": {}}

    @property
    def operations(self) -> int:
        """Number of operations of all iterations."""
        return self.count * self.body.operations

    @property
    def derivative(self) -> Opaque:
        """Raise an error: loops with derivatives are compiled, or written out."""
        raise SizeError(f"{self.name} is interpreted; expected one that is compiled or written out")

    def __call__(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the results; the first number is the condition of calls."""
        return self.at_points(numbers[:, np.newaxis])[:, 0]

    def at_points(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the results for arguments of shape (1 + arguments, points), as (results, points)."""
        keys = [each.tobytes() for each in np.ascontiguousarray(numbers.T)]
        new = [k for k, key in enumerate(keys) if key not in self._results]
        if new:
            if len(self._results) + len(new) > MOST_RESULTS:
                self._results = {key: self._results[key] for key in keys if key in self._results}
            carry, varying, common = self.split(numbers[1:, new])
            used = np.empty((self.count, self.every + self.final, len(new)))
            for k, values in enumerate(varying):
                outputs: Any = evaluate(self.body, np.concatenate([carry, values, common[0]]))
                carry, used[k] = outputs[: self.sizes[0]], outputs[self.sizes[0] :]
            self._results |= dict(zip([keys[k] for k in new], self.gathered(used).T, strict=True))
        return np.stack([self._results[key] for key in keys], axis=1)

    def split(self, x: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the first carry, the varying values (iterations, values) and the common values (1, values)."""
        carry, varying, _ = self.sizes
        end = carry + self.count * varying
        return x[:carry], x[carry:end].reshape(self.count, varying, *x.shape[1:]), x[np.newaxis, end:]

    def gathered(self, used: NDArray[Any]) -> NDArray[Any]:
        """Return the results from the values of all iterations that are used outside, (iterations, values)."""
        return np.concatenate([used[:, : self.every].reshape(-1, *used.shape[2:]), used[-1, self.every :]])

    def replay(self, made: Program, numbers: Integers) -> Integers:
        """Write all iterations as blocks, and return the references of the results.

        Args:
            made: program to write to.
            numbers: references of a condition, which is not written, and of the arguments.
        """
        return self.replayed(made, numbers[1:])[1]

    def replayed(self, made: Program, arguments: Integers) -> tuple[list[Integers], Integers]:
        """Write all iterations as blocks; return the references of all carries, and of the results."""
        carry, varying, (common,) = self.split(arguments)
        carries, rows = [carry], []
        for values in varying:
            outputs = replayed(self.body, made, np.concatenate([carries[-1], values, common]))
            carries.append(outputs[: self.sizes[0]])
            rows.append(outputs[self.sizes[0] :])
        return carries, self.gathered(np.stack(rows))


def iterations_of(program: Program) -> Iterations | None:
    """Return the longest loop of a program over arrays; None if there is none.

    >>> program = Program(100)
    >>> x = np.arange(100)
    >>> for _ in range(300):
    ...     x = program.apply("sin", program.apply("multiply", x, np.roll(x, 1)))
    >>> program.outputs = x
    >>> loop = iterations_of(program)
    >>> loop.count, len(loop.body.blocks), len(loop.carry)
    (300, 2, 100)
    """
    blocks = program.blocks
    if len(blocks) < FEWEST_BLOCKS:
        return None
    labels: dict[object, int] = {}
    sequence = np.array([labels.setdefault(_label(block), len(labels)) for block in blocks])
    for period in islice(periods(sequence), MOST_PERIODS):
        again = np.concatenate([[False], sequence[period:] == sequence[:-period], [False]]).astype(np.int8)
        begins, ends = (np.flatnonzero(np.diff(again) == turn) for turn in (1, -1))
        longest = int(np.argmax(ends - begins))
        first, last = int(begins[longest]), int(ends[longest]) + period
        if (last - first) // period < FEWEST + 1 or last - first < FEWEST_BLOCKS:
            continue
        first += _offset(program, first, last, period)
        if last - first < FEWEST_WITH_CALLS and any(map(is_called, blocks[first : first + period])):
            continue
        loop = _Finding(program, first, period, (last - first) // period).loop()
        if loop is not None:
            return loop
    return None


def is_called(block: Block) -> bool:
    """Return True for operations on matrices other than products, which machine code calls."""
    return block.shape is not None and block.code != MATMUL


def _label(block: Block) -> object:
    """Return a key that blocks with equal operations share."""
    body = None if block.body is None else to_bytes(block.body)
    tables = [None if table is None else table.tobytes() for table in (block.offsets, block.steps)]
    return block.code, block.count, block.shape, id(block.opaque), body, *tables


def _offset(program: Program, first: int, last: int, period: int) -> int:
    """Return the number of blocks before the iterations, such that they hand on the fewest values."""
    blocks = program.blocks
    middle = first + (last - first) // period // 2 * period
    last_use: dict[int, int] = {}
    for user in range(middle, min(middle + 2 * period, last)):
        for operands in blocks[user].operands:
            last_use |= dict.fromkeys(program.owners(operands), user)

    def handed_on(cut: int) -> int:
        return sum(blocks[k].size for k in range(cut - period, cut) if last_use.get(k, -1) >= cut)

    return (min(range(middle, middle + period), key=handed_on) - first) % period


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a block of the body: where the entries come from."""

    count: int  # number of instances
    inner: NDArray[np.bool_]  # mask of entries that iterations compute; of one entry if all are equal
    local: Integers  # for these, the distance from the iteration's first result; negative for the previous iteration
    outer: Integers  # for the others, their references if they are the same in all iterations, else varying values
    varies: NDArray[np.bool_]  # mask of the varying ones


class _Finding:
    """Comparison of iterations.

    Args:
        program: program with the loop.
        first: position of its first block.
        period: number of blocks of an iteration.
        count: number of iterations.
    """

    def __init__(self, program: Program, first: int, period: int, count: int) -> None:
        self.program, self.first, self.period, self.count = program, first, period, count
        starts = program.starts[first : first + period * count].reshape(count, period)
        #: Reference of the first result of each iteration, and number of results of one.
        self.bases, self.size = starts[:, 0], int(starts[1, 0] - starts[0, 0])
        self.is_regular = bool((starts - starts[:, :1] == starts[0] - starts[0, 0]).all())
        self.is_regular &= bool((np.diff(self.bases) == self.size).all())
        #: Values of the previous iteration that are used, and the first ones.
        self._carried: list[Integers] = []
        self._begun: list[Integers] = []
        #: Varying values, one row each, by their bytes.
        self._varying: dict[bytes, int] = {}
        self._rows: list[Integers] = []

    def loop(self) -> Iterations | None:
        """Return the loop; None if iterations differ."""
        if not self.is_regular:
            return None
        operands: list[list[_Operand]] = []
        blocks = self.program.blocks[self.first : self.first + self.period * self.count]
        for k in range(self.period):
            rows = [
                self._compared(each)
                for each in zip(*(block.operands for block in blocks[k :: self.period]), strict=True)
            ]
            if None in rows:
                return None
            operands.append([each for each in rows if each is not None])
        carried, positions = np.unique(np.concatenate([np.empty(0, np.int64), *self._carried]), return_index=True)
        begun = np.concatenate([np.empty(0, np.int64), *self._begun])
        carry = begun[positions]
        if not len(carry) or (begun != carry[np.searchsorted(carried, np.concatenate(self._carried))]).any():
            return None
        outer = [each.outer[~each.varies] for row in operands for each in row]
        common = np.unique(np.concatenate(outer))
        common = common[common >= 0]
        body = self._body(operands, carried, common)
        every, final = self._used_outside()
        body.outputs = len(carry) + len(self._rows) + len(common) + np.concatenate([carried + self.size, every, final])
        varying = np.array(self._rows, np.int64).reshape(-1, self.count).T
        last = self.first + self.period * self.count
        every_reference = self.bases[:, np.newaxis] + every
        return Iterations(
            body, self.count, self.first, last, carry, varying, common, every_reference, self.bases[-1] + final
        )

    def _compared(self, columns: Sequence[Column]) -> _Operand | None:
        """Return the common form of an operand's columns in all iterations; None if they differ."""
        references = self._stacked(columns)
        if references is None:
            return None
        relative = references - self.bases[:, np.newaxis]
        inner = relative[1] >= -self.size
        local = relative[1, inner]
        outer = references[:, ~inner]
        is_own = local >= 0
        begun = references[0, inner]
        if (
            (relative[1:, inner] != local).any()
            or (outer >= self.bases[0]).any()
            or (begun[is_own] - self.bases[0] != local[is_own]).any()
            or (begun[~is_own] >= self.bases[0]).any()
        ):
            return None
        self._carried.append(local[~is_own])
        self._begun.append(begun[~is_own])
        varies = (outer != outer[0]).any(axis=0)
        taken = outer[0].copy()
        for k in np.flatnonzero(varies).tolist():
            row = outer[:, k]
            taken[k] = self._varying.setdefault(row.tobytes(), len(self._rows))
            if taken[k] == len(self._rows):
                self._rows.append(row.copy())
        return _Operand(len(columns[0]), inner, local, taken, varies)

    def _stacked(self, columns: Sequence[Column]) -> Integers | None:
        """Return the references of an operand in all iterations, (iterations, entries); None for different lengths.

        There is one entry if the operand is the same for all instances.
        """
        first = columns[0]
        if any(len(each) != len(first) for each in columns):
            return None
        ranges = [each for each in columns if isinstance(each, Range)]
        if len(ranges) == len(columns) and len({each.step for each in ranges}) == 1:
            entries = np.arange(len(first) if ranges[0].step else 1)
            return np.array([each.start for each in ranges])[:, np.newaxis] + ranges[0].step * entries
        return np.stack([references_in(each) for each in columns])

    def _body(self, operands: list[list[_Operand]], carried: Integers, common: Integers) -> Program:
        """Return the program of one iteration, without its outputs."""
        before = len(carried) + len(self._rows)
        inputs, base = before + len(common), int(self.bases[1])

        def column_of(operand: _Operand) -> Column:
            references = np.empty(len(operand.inner), np.int64)
            handed_on = np.searchsorted(carried, np.minimum(operand.local, -1))
            references[operand.inner] = np.where(operand.local >= 0, inputs + operand.local, handed_on)
            same = np.where(operand.outer < 0, operand.outer, before + np.searchsorted(common, operand.outer))
            references[~operand.inner] = np.where(operand.varies, len(carried) + operand.outer, same)
            if len(references) < operand.count:
                return Range(int(references[0]), 0, operand.count)
            return column(references)

        second = slice(self.first + self.period, self.first + 2 * self.period)
        blocks = [
            replace(block, start=inputs + block.start - base, operands=tuple([column_of(each) for each in row]))
            for block, row in zip(self.program.blocks[second], operands, strict=True)
        ]
        lines = self.program.lines[second]
        return Program.of_blocks(inputs, self.program, blocks, lines)

    def _used_outside(self) -> tuple[Integers, Integers]:
        """Return the results that are used outside after any iteration, and those used after the last one only."""
        blocks = self.program.blocks[self.first + self.period * self.count :]
        end = int(self.bases[-1]) + self.size
        used = [self.program.outputs, *(references_in(each) for block in blocks for each in block.operands)]
        inside = np.concatenate([each[(each >= self.bases[0]) & (each < end)] for each in used]) - self.bases[0]
        iteration, local = inside // self.size, inside % self.size
        every = np.unique(local[iteration < self.count - 1])
        return every, np.setdiff1d(local[iteration == self.count - 1], every)


def apart(made: Program, arguments: Integers) -> Integers:
    """Return arguments of a call in which none repeats often: those that do are copies, each of its own.

    Derivatives with respect to equal arguments are added to each other, so that its Jacobian would have to be formed.
    """
    distinct, where, times = np.unique(arguments, return_inverse=True, return_counts=True)
    often = (times[where] > MOST_REPEATS) & (distinct[where] >= 0)
    if not often.any():
        return arguments
    made_apart = arguments.copy()
    ones = np.full(int(often.sum()), made.constant_apart(1.0))
    made_apart[often] = made.apply_code(_MULTIPLY, [column(arguments[often]), column(ones)]).references
    return made_apart


def with_call(program: Program, loop: Iterations, results: Opaque) -> Program:
    """Return the program with one call in place of a loop.

    Args:
        program: program with the loop.
        loop: the loop.
        results: the opaque function of the loop's arguments, which returns its results.
    """
    made = Program(program.inputs)
    moving = Moving(program, made, np.arange(program.inputs))
    for position, block in enumerate(program.blocks):
        if position == loop.first:
            with made.located(frozenset().union(*loop.body.lines)):
                numbers = np.append(made.constant(1.0), apart(made, moving.at(loop.arguments)))
                moving.note_each(loop.results, made.call(results, numbers))
        elif not loop.first < position < loop.last:
            with made.located(program.lines[position]):
                moving.copy(block)
    made.outputs = moving.at(program.outputs)
    return made
