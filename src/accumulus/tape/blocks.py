"""Programs over arrays: blocks of equal operations on many operands, without a line for each.

A block is one operation of the table on columns of operands, one instance an entry; or sums over segments of a column;
or a product of two matrices; or a recurrence, a body whose instances are computed step by step, since they take results
of earlier ones.
Its results have references that follow each other, so that an array of results is a range, and slices, rolls,
transpositions and index arrays of any kind are what NumPy makes of arrays of references. As on a `Tape`, inputs come
first and constants have negative references. A million instances cost what a few arrays cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.memory import check_fits
from accumulus.tape.bytes import to_bytes
from accumulus.tape.columns import (
    Column,
    Range,
    References,
    are_equal,
    column,
    fingerprint,
    own,
    owners_in,
    references_in,
)
from accumulus.tape.matrices import matrix_product
from accumulus.tape.operations import BY_NAME, INPUT, OPERATIONS
from accumulus.tape.scans import check_order, relative, run_steps
from accumulus.tape.tape import Tape

__all__ = [
    "MATMUL",
    "SCAN",
    "SUM",
    "Block",
    "BlockTape",
    "Column",
    "Lines",
    "NotInBlocksError",
    "Range",
    "are_equal",
    "column",
    "fingerprint",
    "references_in",
]

#: The code of blocks that are sums over segments; no row of the table has it.
SUM: Final = 255
#: The code of blocks that are recurrences: bodies whose instances take results of earlier ones.
SCAN: Final = 254
#: The code of blocks that are products of two matrices.
MATMUL: Final = 253

#: Lines of source: files and numbers.
Lines = frozenset[tuple[str, int]]
NOWHERE: Final[Lines] = frozenset()
#: Entries of an array, from which on it is asked whether there is memory for what is recorded of it.
LARGE: Final = 1 << 24
#: Blocks, at most: more are loops over numbers rather than operations on arrays.
MOST_BLOCKS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Block:
    """Equal operations on many operands.

    Attributes:
        code: of the operation, `SUM`, `SCAN` or `MATMUL`.
        start: reference of the first result; the others follow.
        count: of instances.
        operands: a column for each argument; of sums one for all terms of all of them; of recurrences one for each
            input of the body, in which there may be results of earlier steps of the very same block; of products of
            matrices one for each matrix, row by row.
        offsets: of sums, where the terms of each begin in the column, and where those of the last end; (count + 1,).
        body: of recurrences, one instance; results of one of its outputs follow those of the one before.
        steps: of recurrences, where the instances of each step begin, and where those of the last end; those of one
            step do not depend on each other.
        shape: of products of matrices, (m, k, n): of (m, k) and (k, n) entries.
    """

    code: int
    start: int
    count: int
    operands: tuple[Column, ...]
    offsets: NDArray[np.int64] | None = None
    body: Tape | None = None
    steps: NDArray[np.int64] | None = None
    shape: tuple[int, int, int] | None = None

    @property
    def size(self) -> int:
        """Number of results."""
        return self.count if self.body is None else self.count * len(self.body.outputs)

    @property
    def results(self) -> Range:
        """References of the results."""
        return _range(self.start, self.size)

    @property
    def operations(self) -> int:
        """Of all instances together; a sum of n terms is n - 1."""
        if self.body is not None:
            return self.count * self.body.operations
        if self.shape is not None:
            return self.count * (2 * self.shape[1] - 1)
        return len(self.operands[0]) - self.count if self.code == SUM else self.count

    @property
    def codes(self) -> set[int]:
        """Codes of the operations of the table that are in it."""
        return set(self.body.codes[self.body.inputs :]) if self.body is not None else {self.code} - {SUM, MATMUL}


def _range(start: int, count: int) -> Range:
    return Range(start, 1 if count > 1 else 0, count)


class NotInBlocksError(BaseException):
    """An operation has no form in blocks; not an `Exception`, so that the user's code does not catch it."""


class BlockTape:
    """Straight-line program over arrays.

    Args:
        inputs: numbers that the program takes.
        signed_zeros: whether formulas keep the sign of every zero, as `Tape` has it.

    Attributes:
        blocks: in an order in which they can be computed.
        outputs: references of what the program returns.

    >>> tape = BlockTape(inputs=3)
    >>> x = np.arange(3)
    >>> y = tape.apply("multiply", x, np.roll(x, 1))
    >>> tape.outputs = tape.sums(y, [0, 1, 3])
    >>> print(tape.evaluate(np.array([1.0, 2.0, 5.0])))
    [ 5. 12.]
    """

    def __init__(self, inputs: int, *, signed_zeros: bool = False) -> None:
        self.inputs = inputs
        #: Whether formulas are written so that they keep the sign of every zero.
        self.signed_zeros = signed_zeros
        self.blocks: list[Block] = []
        self.outputs: References = np.empty(0, np.int64)
        #: Whether something was asked of it that has no form in blocks: what it holds is not the whole function then.
        self.abandoned = False
        #: How often arguments of derivatives within the program were copied.
        self.copies = 0
        #: Says which lines of source what is appended comes from, if anything does; and those of each block.
        self.locate: Callable[[], Lines] | None = None
        self.lines: list[Lines] = []
        self._size = inputs
        self._values: list[NDArray[np.float64]] = []
        self._constant_count = 0
        self._constants: NDArray[np.float64] | None = None
        self._references: dict[bytes, int] = {}
        #: Blocks by what equal ones have in common.
        self._known: dict[Hashable, list[Block]] = {}
        self._starts: NDArray[np.int64] = np.empty(0, np.int64)
        #: Columns by their identity, and which blocks they have references of.
        self._owners: dict[int, tuple[Column, list[int]]] = {}

    def abandon(self) -> NotInBlocksError:
        """The error for what has no form in blocks; the tape remembers it, should somebody catch everything."""
        self.abandoned = True
        return NotInBlocksError()

    @contextmanager
    def located(self, lines: Lines) -> Iterator[None]:
        """In its block, what is appended comes from these lines."""
        before, self.locate = self.locate, lambda: lines
        try:
            yield
        finally:
            self.locate = before

    def lines_of(self, blocks: Iterable[int]) -> Lines:
        """The lines that some blocks come from."""
        return frozenset().union(*(self.lines[block] for block in blocks))

    def __len__(self) -> int:
        """Number of inputs and results; references below it are valid."""
        return self._size

    @property
    def sees_zero_signs(self) -> bool:
        """Whether an operation tells zeros of different signs apart."""
        return any(OPERATIONS[code].zero_signs == "seen" for block in self.blocks for code in block.codes)

    @property
    def operations(self) -> int:
        """Operations of all instances together; a sum of n terms is n - 1."""
        return sum(block.operations for block in self.blocks)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Reference of the first result of each block."""
        if len(self._starts) < len(self.blocks):
            self._starts = np.array([block.start for block in self.blocks], np.int64)
        return self._starts

    # Constants ---------------------------------------------------------------------------------------------------

    @property
    def constants(self) -> NDArray[np.float64]:
        """Value of the constant with reference r < 0 at -1 - r."""
        if self._constants is None or len(self._constants) < self._constant_count:
            self._constants = np.concatenate(self._values) if self._values else np.empty(0)
            self._values = [self._constants]
        return self._constants

    def value_of(self, reference: int) -> float:
        """Value of the constant with a negative reference."""
        return float(self.constants[-1 - reference])

    def constant(self, value: float) -> int:
        """Reference of a constant; equal ones (zeros of either sign apart) have one reference."""
        return int(self.constant_array(np.float64(value)))

    def constant_apart(self, value: float) -> int:
        """Reference of a constant that is no other's, though others may be equal."""
        self._values.append(np.array([value]))
        self._constant_count += 1
        return -self._constant_count

    def constant_array(self, values: NDArray[np.float64] | np.float64) -> References:
        """References of many constants, in their shape, ascending; of equal arrays the same."""
        numbers = np.ascontiguousarray(values, np.float64)
        flat = numbers.reshape(-1)
        if len(flat) > 1 and (flat.view(np.int64) == flat.view(np.int64)[0]).all():
            return np.full(numbers.shape, self.constant(flat[0]), np.int64)
        key = flat.tobytes()
        start = self._references.get(key)
        if start is None:
            self._values.append(flat[::-1].copy())
            self._constant_count += len(flat)
            start = self._references[key] = -self._constant_count
        return np.asarray(start + np.arange(len(flat), dtype=np.int64).reshape(np.shape(values)))

    # Writing -----------------------------------------------------------------------------------------------------

    def apply(self, name: str, *operands: Any) -> Any:
        """Results of an operation of the table on arrays of references, broadcast; a number if they are numbers."""
        results = self.map(lambda body: partial(body.apply, name), operands)
        return results if results.shape else int(results)

    def apply_code(self, code: int, operands: Sequence[Column]) -> Range:
        """The same for columns of one length; equal blocks are one. Nothing is simplified."""
        return self._append(code, tuple(operands), len(operands[0]), None)

    def sums(self, terms: References, offsets: Any) -> References:
        """The sum of each segment of the terms; segments have at least one.

        Args:
            offsets: where each begins, and where the last one ends.
        """
        where = np.asarray(offsets, np.int64)
        return self._append(SUM, (own(terms),), len(where) - 1, where).references

    def scan(self, body: Tape, operands: Callable[[list[Range]], Sequence[Column]], steps: Any) -> list[Range]:
        """A recurrence: a body for each of many instances, which are computed step by step.

        Args:
            body: of one instance; its inputs are the operands, its outputs the results. It must not change any more.
            operands: given the references of the results as they will be, a range for each output of the body, a column
                for each of its inputs; there may be results of earlier steps in them.
            steps: where the instances of each step begin, and where those of the last end.

        Returns:
            The references of the results, a range for each output of the body.

        Raises:
            ArgumentError: if instances take results of their own or of later steps.

        >>> tape = BlockTape(inputs=3)
        >>> body = Tape(2)
        >>> body.outputs = [body.add(0, 1)]
        >>> (totals,) = tape.scan(body, lambda results: [
        ...     column(np.append(tape.constant(0.0), results[0].references[:-1])), Range(0, 1, 3)], range(4))
        >>> tape.outputs = totals.references
        >>> print(tape.evaluate(np.array([1.0, 2.0, 5.0])))
        [1. 3. 8.]
        """
        offsets = np.unique(np.asarray(steps, np.int64))
        count, outputs = int(offsets[-1]), len(body.outputs)
        given = operands([_range(self._size + k * count, count) for k in range(outputs)])
        columns = tuple(own(each) if isinstance(each, np.ndarray) else each for each in given)
        check_order(columns, self._size, outputs, offsets, -self._constant_count)
        start = self._append(SCAN, columns, count, None, body, offsets).start
        return [_range(start + k * count, count) for k in range(outputs)]

    def matmul(self, left: References, right: References) -> References:
        """The product of a matrix of references and another; of at least one entry each.

        >>> tape = BlockTape(inputs=6)
        >>> tape.outputs = tape.matmul(np.arange(4).reshape(2, 2), np.arange(4, 6).reshape(2, 1)).ravel()
        >>> print(tape.evaluate(np.array([1.0, 2.0, 3.0, 4.0, 10.0, 1.0])))
        [12. 34.]
        """
        (m, k), n = left.shape, right.shape[1]
        results = self._append(MATMUL, (own(left), own(right)), m * n, None, shape=(m, k, n))
        return results.references.reshape(m, n)

    def map(self, build: Callable[[Tape], Callable[..., int]], operands: Sequence[Any]) -> References:
        """A formula on arrays of references, broadcast: what its builder writes onto a tape for one instance."""
        shape = np.broadcast_shapes(*(np.shape(operand) for operand in operands))
        count = math.prod(shape)
        if count > LARGE:
            check_fits(
                8 * count * (len(operands) + 1),
                f"an operation on arrays of shape {' × '.join(map(str, shape))} that is recorded",
                "expected smaller arrays, or sums that are written as products of matrices",
            )
        columns = [own(np.broadcast_to(np.asarray(operand, np.int64), shape)) for operand in operands]
        return references_in(self.compute(build, columns)).reshape(shape)

    def compute(self, build: Callable[[Tape], Callable[..., int]], operands: Sequence[Column]) -> Column:
        """The same for columns of one length."""
        body = Tape(len(operands), signed_zeros=self.signed_zeros)
        arguments = [
            k if (value := self.uniform(given)) is None else body.constant(value) for k, given in enumerate(operands)
        ]
        body.outputs = [build(body)(*arguments)]
        return self.extend(body, operands)[0]

    def uniform(self, operands: Column) -> float | None:
        """The number that a column is for all instances, if it is one."""
        if isinstance(operands, Range) and operands.step == 0 and operands.start < 0:
            return self.value_of(operands.start)
        return None

    def extend(self, body: Tape, operands: Sequence[Column]) -> list[Column]:
        """A block for each operation of a tape, whose inputs the operands are; columns of the tape's outputs."""
        count = len(operands[0])
        columns: list[Column] = list(operands)

        def at(reference: int) -> Column:
            if reference < 0:
                return Range(self.constant(body.value_of(reference)), 0, count)
            return columns[reference]

        for reference in range(body.inputs, len(body)):
            columns.append(self.apply_code(body.codes[reference], [at(a) for a in body.arguments(reference)]))
        return [at(output) for output in body.outputs]

    def _append(
        self,
        code: int,
        operands: tuple[Column, ...],
        count: int,
        offsets: NDArray[np.int64] | None,
        body: Tape | None = None,
        steps: NDArray[np.int64] | None = None,
        shape: tuple[int, int, int] | None = None,
    ) -> Range:
        if len(self.blocks) >= MOST_BLOCKS:
            raise self.abandon()
        block = Block(code, self._size, count, operands, offsets, body, steps, shape)
        every = _compared(block)
        key = (code, shape, *map(fingerprint, every), None if body is None else to_bytes(body))
        for known in self._known.setdefault(key, []):
            if all(map(are_equal, every, _compared(known))):
                return known.results
        self._known[key].append(block)
        self.blocks.append(block)
        self.lines.append(NOWHERE if self.locate is None else self.locate())
        self._size += block.size
        return block.results

    # Numbers one by one, as the builders of a `Tape` write them ------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in BY_NAME or name == "sum":
            return partial(self._sum if name == "sum" else partial(self._scalar, name))
        if hasattr(Tape, name):
            raise self.abandon()
        raise AttributeError(f"'BlockTape' object has no attribute {name!r}")

    def _scalar(self, name: str, *operands: int) -> int:
        return int(self.map(lambda body: partial(body.apply, name), operands))

    def _sum(self, terms: Iterable[int]) -> int:
        found = np.fromiter(terms, np.int64)
        if len(found) < 3:
            return reduce(partial(self._scalar, "add"), found.tolist(), self.constant(0.0))
        return int(self.sums(found, [0, len(found)])[0])

    # Reading -----------------------------------------------------------------------------------------------------

    def needed(self) -> NDArray[np.bool_]:
        """Which blocks an output needs results of."""
        return self.reached([column(self.outputs)])

    def reached(self, wanted: Sequence[Column], through: Collection[int] | None = None) -> NDArray[np.bool_]:
        """Which blocks the references that are wanted need results of, as far as blocks of certain codes need them."""
        found = np.zeros(len(self.blocks) + 1, bool)  # the last stands for inputs and constants
        for operands in wanted:
            found[owners_in(self.starts, operands)] = True
        for position in reversed(range(len(self.blocks))):
            if found[position] and (through is None or self.blocks[position].code in through):
                for operands in self.blocks[position].operands:
                    found[self.owners(operands)] = True
        return found[:-1]

    def sensitive(self) -> NDArray[np.bool_]:
        """Which blocks have results that reach a jump, or what sees zeros' signs: they are computed as recorded."""
        found = np.zeros(len(self.blocks) + 1, bool)  # the last stands for inputs and constants
        for position in reversed(range(len(self.blocks))):
            block = self.blocks[position]
            rows = [OPERATIONS[code] for code in block.codes]
            sees = any(row.jumps or row.zero_signs == "seen" for row in rows)
            if sees or found[position]:
                for operands in block.operands:
                    found[self.owners(operands)] = True
        return found[:-1]

    def owners(self, operands: Column) -> list[int]:
        """Which blocks an operand of a block has references of; -1 for inputs and constants."""
        known = self._owners.get(id(operands))
        if known is None or known[0] is not operands:
            known = self._owners[id(operands)] = operands, owners_in(self.starts, operands)
        return known[1]

    def evaluate(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the outputs by NumPy, block by block: the slow, obvious reference.

        Args:
            inputs: of shape (inputs,) or (inputs, points).

        Returns:
            An array of shape (outputs,) or (outputs, points).
        """
        points = inputs.shape[1:]
        count = len(self.constants)
        # constants, the last first, before all else: a reference and where its value is differ by their number
        values = np.empty((count + len(self), *points))
        values[:count] = self.constants[::-1].reshape(-1, *(1,) * len(points))
        values[count : count + self.inputs] = inputs
        self.run(values)
        return values[count + self.outputs]

    def run(self, values: NDArray[np.float64], first: int = 0) -> None:
        """Compute blocks from the first that is given on.

        Args:
            values: of constants, the last first, then of inputs and results, in rows; all before that block are there.
        """
        count = len(self.constants)

        def at(operands: Column) -> Any:
            if isinstance(operands, Range) and operands.step >= 0:
                first = count + operands.start
                return values[first : first + (operands.count if operands.step else 1)]
            return values[count + references_in(operands)]

        with np.errstate(all="ignore"):
            for block in self.blocks[first:]:
                place = slice(count + block.start, count + block.start + block.size)
                if block.steps is not None:
                    assert block.body is not None
                    columns = [count + references_in(operands) for operands in block.operands]
                    run_steps(block.body, columns, block.steps, values, values[place])
                elif block.offsets is not None:
                    terms = values[count + references_in(block.operands[0])]
                    values[place] = np.add.reduceat(terms, block.offsets[:-1], axis=0)
                elif block.shape is not None:
                    left, right = (values[count + references_in(operands)] for operands in block.operands)
                    values[place] = matrix_product(left, right, block.shape)
                else:
                    values[place] = OPERATIONS[block.code].by_numpy(*map(at, block.operands))


def _compared(block: Block) -> tuple[Column, ...]:
    """What equal blocks of one code and body have equal."""
    if block.steps is not None:  # each takes its own results
        return (*(relative(operands, block.start) for operands in block.operands), block.steps)
    return block.operands if block.offsets is None else (*block.operands, block.offsets)


assert INPUT == 0
assert len(OPERATIONS) < MATMUL
