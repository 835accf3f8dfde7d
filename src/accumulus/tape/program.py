"""Programs: straight-line code, or loops over bodies, without storing each instance.

Straight-line code is one `Tape`. With loops, a program is a list of blocks. A block is one operation on columns of
operands, with an instance for each entry; or sums over segments of a column; or a matrix operation; or a recurrence,
whose body takes results of earlier instances. Its results have consecutive references, so that an array of results is a
range, and slicing or indexing an array is slicing or indexing its references. As on a `Tape`, inputs come first and
constants have negative references. A million instances cost as much as a few arrays.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.memory import check_fits
from accumulus.tape.blocks import (
    FACTORS,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    SCAN,
    SCATTER,
    SPARSE_PRODUCT,
    SUM,
    Block,
    Opaque,
)
from accumulus.tape.columns import (
    Column,
    Range,
    References,
    are_equal,
    check_steps,
    column,
    entry,
    fingerprint,
    owners_in,
    references_in,
    relative,
    spread,
    unshared,
)
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.live import SEES_ZERO_SIGNS, seeing_zero_signs, sees_zero_signs
from accumulus.tape.matrices import MatrixOperations
from accumulus.tape.operations import BY_NAME, INPUT, OPERATIONS, Operation
from accumulus.tape.prices import MOST_IN_RECURRENCES
from accumulus.tape.segments import NOWHERE, Lines, Segment
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape, to_bytes

#: Size of an array from which on available memory is checked before its operations are recorded. A smaller one checks
#: often for nothing, a larger one may run out of memory without an explanation.
LARGE: Final = 1 << 24
#: Size of an array from which on it is not written out entry by entry within the body of a loop, and its entries, if
#: they are indices, may stay numbers of the program. A smaller one makes loops of few iterations within others; with a
#: larger one, bodies take longer to prepare.
LONG: Final = 64
#: Maximum number of operations on array entries that are written out while a program is recorded.
MOST_UNROLLED: Final = MOST_IN_RECURRENCES
#: Maximum number of operations of a recurrence that is written out; recurrences lose little as loops. More take longer
#: to prepare, as one long chain; with fewer, short recurrences lose simplifications between steps.
MOST_UNROLLED_STEPS: Final = 200
#: Maximum number of products in the elimination of a system that is written out. More take longer to prepare; with
#: fewer, small and sparse systems call LAPACK, whose calls take longer than the operations.
MOST_UNROLLED_SYSTEM: Final = 10_000
#: Number of blocks from which on a program counts as loops over numbers rather than operations on arrays. With more,
#: Python works for seconds on blocks of a few operations; with fewer, programs of many array operations are written
#: out.
MANY_BLOCKS: Final = 20_000
#: Number of scalar terms from which on a sum becomes a separate block: shorter sums cost more as blocks than as
#: additions, longer ones make as many additions to differentiate one by one.
LONG_SUM: Final = 16
#: Converts a number to bytes, the key of a constant.
_BYTES: Final = struct.Struct("=d").pack


def _bytes_of(value: float | None) -> bytes | None:
    return None if value is None else _BYTES(value)  # zeros of either sign differ


def _range(start: int, count: int) -> Range:
    return Range(start, 1 if count > 1 else 0, count)


class OpenIndicesError(Exception):
    """Error for differentiated inputs that depend on indices in an unsupported way."""


class ManyBlocksError(SizeError):
    """Error for a program over arrays that exceeds its limit of blocks."""


class Program(MatrixOperations):
    """Program that is straight-line code until the first loop is recorded on it.

    Args:
        inputs: number of inputs of the program.
        signed_zeros: if True, formulas keep the sign of every zero, see `Tape`.
        most: largest number of blocks; more raise `ManyBlocksError`.
        joins: if True, equal blocks share one.
        scalar: if True, operations on numbers are on one tape until the first operation on an array, or loop.
        loops: if False, there are no loops, and all operations are on that tape.
        literal: if True, that tape keeps operations as they are recorded, see `Tape`.

    Attributes:
        scalars: that tape, until there is a loop; it has the references and outputs of the program.
        unrolled: number of operations on entries of arrays, if they are written out.
        is_long: True if these are too many to be written out.
        is_mixed: True if operations were written out number by number before they turned out to be too many.
        blocks: blocks in an order of computation.
        outputs: references of the values that the program returns.

    >>> tape = Program(inputs=3)
    >>> x = np.arange(3)
    >>> y = tape.apply("multiply", x, np.roll(x, 1))
    >>> tape.outputs = tape.sums(y, [0, 1, 3])
    >>> from accumulus.tape.interpreter import evaluate
    >>> print(evaluate(tape, np.array([1.0, 2.0, 5.0])))
    [ 5. 12.]
    >>> len(tape.summands(int(tape.outputs[1])))
    2
    >>> product = int(y[0])
    >>> tape.operation(product).name, tape.arguments(product), tape.name(product), tape.is_boolean(product)
    ('multiply', (0, 2), 't3', False)
    >>> tape.settle()
    >>> tape.needed().tolist(), tape.sensitive().tolist(), tape.owners(column(y)), tape.lines_of([0])
    ([True, True], [False, False], [0], frozenset())
    >>> tape.reached([column(y)]).tolist(), tape.in_loops(3), tape.uniform(Range(tape.constant(0.5), 0, 3))
    ([True, False], True, 0.5)
    >>> tape.values_of(tape.constant_array(np.array([0.5, 2.0]))).tolist(), tape.value_of(tape.constant_apart(0.5))
    ([0.5, 2.0], 0.5)
    >>> with tape.unsigned_zeros(), tape.located(frozenset([("model.py", 7)])):
    ...     twice = tape.map(lambda tape: lambda x: tape.add(x, x), [x])
    ...     cube = tape.apply_code(BY_NAME["multiply"].code, (column(y), Range(0, 1, 3)))
    ...     sine = tape.compute(lambda tape: lambda x: tape.apply("sin", x), [Range(0, 1, 3)])

    Matrices are operands of one block:

    >>> tape = Program(inputs=4)
    >>> matrix = np.arange(4).reshape(2, 2)
    >>> sign, logarithm = tape.log_determinant(matrix)
    >>> tape.outputs = np.array([tape.sum([sign, logarithm]), *tape.cholesky(matrix)[1]])
    >>> print(evaluate(tape, np.array([4.0, 2.0, 2.0, 2.0])))
    [2.38629436 1.         1.        ]
    >>> rebuilt = Program.of_blocks(tape.inputs, tape, tape.blocks, tape.lines)
    >>> rebuilt.outputs = tape.outputs
    >>> print(evaluate(rebuilt, np.array([4.0, 2.0, 2.0, 2.0])))
    [2.38629436 1.         1.        ]
    >>> Program.of(Tape(2)).inputs, Program(inputs=1).adopt_constants(tape)
    (2, True)
    >>> rebuilt.content() == tape.content() != Program(inputs=4).content(), rebuilt.uses(BY_NAME["log"].code)
    (True, False)
    """

    def __init__(
        self,
        inputs: int,
        *,
        signed_zeros: bool = False,
        most: int | None = None,
        joins: bool = True,
        scalar: bool = False,
        loops: bool = True,
        literal: bool = False,
    ) -> None:
        self.inputs, self._most, self._joins, self.may_loop = inputs, most, joins, loops
        #: True if formulas keep the sign of every zero.
        self.signed_zeros = signed_zeros
        #: True if builders have folded an operation that depends on the signs of zeros.
        self.folded_zero_signs = False
        #: True if linear algebra has been recorded, which a library rounds relative to the largest entry of a result.
        self.has_linear_algebra = False
        self._outputs: References = np.empty(0, np.int64)
        #: Number of copies of arguments that derivatives within the program have made.
        self.copies = 0
        #: Function that returns the source lines of new blocks, if any; and the lines of each block.
        self.locate: Callable[[], Lines] | None = None
        self.scalars: Tape | None = Tape(inputs, signed_zeros=signed_zeros, literal=literal) if scalar else None
        self.unrolled, self.is_long, self.is_mixed = 0, not scalar, False
        self._size = inputs
        self._blocks: list[Block] = []
        self._lines: list[Lines] = []
        #: The last scalar operations, which are not blocks yet.
        self._segment: Segment | None = None
        #: Loop whose values have references in advance, from `base` on; it ends before anything else is recorded.
        self.promised: Any = None
        #: What is known of loops of Python, by their position in the source, see `promised`.
        self.loop_facts: dict[Any, Any] = {}
        #: Function that is called when an operation of a loop depends on the signs of zeros, if any.
        self.tell_zero_signs: Callable[[], None] | None = None
        self._values: list[NDArray[np.float64]] = []
        self._constant_count = 0
        self._constants: NDArray[np.float64] | None = None
        self._references: dict[bytes, int] = {}
        #: Blocks by a key that equal blocks share.
        self._blocks_by_key: dict[Hashable, list[Block]] = {}
        self._starts: NDArray[np.int64] = np.empty(0, np.int64)
        #: Columns by their identity, and the blocks that they refer to.
        self._owners: dict[int, tuple[Column, list[int]]] = {}
        #: Number of blocks whose ranges are among these.
        self._noted = 0
        #: Formulas by their identity and the constants among their operands, and the operations that they write.
        self._bodies: dict[Hashable, tuple[object, Tape]] = {}

    @classmethod
    def of(cls, tape: Tape) -> Program:
        """Return a program of straight-line code, which cannot have loops."""
        program = cls(tape.inputs, signed_zeros=tape.signed_zeros, loops=False)
        program.scalars, program.folded_zero_signs = tape, tape.folded_zero_signs
        return program

    @classmethod
    def of_blocks(cls, inputs: int, source: Program, blocks: Sequence[Block], lines: Sequence[Lines]) -> Program:
        """Return a program of `blocks` in an order of computation.

        Args:
            inputs: number of inputs.
            source: program with the constants of the blocks.
            blocks: the blocks.
            lines: source lines of each block.
        """
        program = cls(inputs, signed_zeros=source.signed_zeros)
        program.adopt_constants(source)
        program._blocks, program._lines = [*blocks], [*lines]
        program._size = blocks[-1].start + blocks[-1].size
        return program

    def __getstate__(self) -> dict[str, Any]:
        self._close()
        return vars(self) | {"_bodies": {}}  # their keys are the identities of formulas

    @property
    def outputs(self) -> References:
        """References of the program's results."""
        return self._outputs if self.scalars is None else np.array(self.scalars.outputs, np.int64)

    @outputs.setter
    def outputs(self, references: References) -> None:
        if self.scalars is None:
            self._outputs = references
        else:
            self.scalars.outputs = references.tolist()

    @property
    def blocks(self) -> list[Block]:
        """All blocks so far."""
        self.settle()
        if self._segment is not None:
            self._close()
        return self._blocks

    @property
    def lines(self) -> list[Lines]:
        """Source lines of each block."""
        self.settle()
        if self._segment is not None:
            self._close()
        return self._lines

    @property
    def is_straight(self) -> bool:
        """Return True for straight-line code, `scalars`, without any loop."""
        return self.scalars is not None

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return True if an operation of that size is recorded as a loop; from then on, all other operations are, too.

        Args:
            entries: number of array entries of the operation.
            work: number of operations if it is written out; by default `entries`.
            steps: number of operations in a recurrence.
        """
        if not self.may_loop:
            return False
        work = entries if work is None else work
        if work >= LONG:
            self.unrolled += work
        self.is_long |= self.unrolled > MOST_UNROLLED or steps > MOST_UNROLLED_STEPS
        if self.scalars is not None and (entries > 1 or steps > MOST_UNROLLED_STEPS):
            self.begin_loops()
        return self.scalars is None

    def begin_loops(self) -> None:
        """Convert the scalar operations so far to blocks, unless there are blocks already."""
        if self.scalars is None:
            return
        assert self.may_loop
        scalars, self.scalars = self.scalars, None
        self._size = len(scalars)
        self._values, self._constant_count = [np.array(scalars.constants)], len(scalars.constants)
        self._references = {np.float64(value).tobytes(): -k for k, value in enumerate(scalars.constants, 1)}
        self.folded_zero_signs |= scalars.folded_zero_signs
        if scalars.operations:
            self._segment = Segment.of(self, scalars)
        # freeze the old tape: recording on it would give references that other values have now
        scalars.codes, scalars.constants = bytes(scalars.codes), ()  # type: ignore[assignment]

    def settle(self) -> None:
        """End what is recorded in other ways than as blocks, but for the last scalar operations."""
        if self.scalars is not None:
            self.begin_loops()
        if self.promised is not None:
            self.promised.close()

    @property
    def open(self) -> Any:
        """The tape on which operations on numbers are recorded, or the program itself."""
        return self if self.scalars is None else self.scalars

    def _close(self) -> None:
        """Convert the last scalar operations to blocks."""
        segment, self._segment = self._segment, None
        if segment is not None:
            self.folded_zero_signs |= segment.folded_zero_signs
            for block, lines in segment.blocks():
                self._blocks.append(block)
                self._lines.append(lines)

    @contextmanager
    def unsigned_zeros(self) -> Iterator[None]:
        """Record linear algebra within the context: builders ignore signs of zeros, and look up source lines once."""
        before, locate = self.signed_zeros, self.locate
        self.has_linear_algebra = True
        if locate is not None:
            lines = locate()
            self.locate = lambda: lines
        self._keep_signs(False)
        try:
            yield
        finally:
            self._keep_signs(before)
            self.locate = locate

    def _keep_signs(self, keeps: bool) -> None:
        self.signed_zeros = keeps
        for scalars in (self._segment, self.scalars):
            if scalars is not None:
                scalars.signed_zeros = keeps

    @contextmanager
    def located(self, lines: Lines) -> Iterator[None]:
        """Attribute blocks that are appended within the context to these lines."""
        before, self.locate = self.locate, lambda: lines
        try:
            yield
        finally:
            self.locate = before

    def lines_of(self, blocks: Iterable[int]) -> Lines:
        """Return the lines that some blocks come from."""
        return frozenset().union(*(self.lines[block] for block in blocks))

    def __len__(self) -> int:
        """Return the number of inputs and results; references below it are valid."""
        return self._size if self.scalars is None else len(self.scalars)

    @property
    def sees_zero_signs(self) -> bool:
        """Return True if an operation depends on the signs of zeros."""
        if self.scalars is not None:
            return len(seeing_zero_signs(self.scalars)) > 0
        return any(code in SEES_ZERO_SIGNS for block in self.blocks for code in block.codes)

    @property
    def operations(self) -> int:
        """Number of operations of all instances together; a sum of n terms is n - 1."""
        return sum(block.operations for block in self.blocks) if self.scalars is None else self.scalars.operations

    @property
    def text(self) -> int:
        """Number of operations in the program text, with one instance of each loop."""
        return sum(block.text for block in self.blocks)

    @property
    def calls(self) -> list[Opaque]:
        """The opaque functions that the program calls."""
        blocks = self.blocks if self.scalars is None else []
        called = [block.opaque for block in blocks if block.opaque is not None]
        return [each for each in called if not isinstance(each, SparseSystem | SparseMatrix)]

    @property
    def has_lookups(self) -> bool:
        """Return True if the program takes or adds rows by indices that it computes or receives."""
        return self.scalars is None and any(block.code in (GATHER, SCATTER) for block in self.blocks)

    @property
    def is_writable(self) -> bool:
        """Return True if it can be written out: without calls, lookups by index, and large factorisations."""
        codes = {GATHER, SCATTER, *FACTORS}
        return self.is_straight or not any(
            block.code in codes or not isinstance(block.opaque, SparseMatrix | None) for block in self.blocks
        )

    @property
    def has_loops(self) -> bool:
        """Return True if a block has several instances or terms, or is an operation on matrices."""
        return not self.is_straight and any(
            block.count > 1 or block.offsets is not None or block.shape is not None for block in self.blocks
        )

    @property
    def starts(self) -> NDArray[np.int64]:
        """Reference of the first result of each block."""
        count = len(self._starts)
        if count < len(self.blocks):
            self._starts = np.append(self._starts, [block.start for block in self.blocks[count:]])
        return self._starts

    # Constants ---------------------------------------------------------------------------------------------------

    @property
    def constants(self) -> NDArray[np.float64]:
        """Values of constants; that with reference r < 0 is at -1 - r."""
        if self.scalars is not None:
            return np.array(self.scalars.constants)
        if self._constants is None or len(self._constants) < self._constant_count:
            self._constants = np.concatenate(self._values) if self._values else np.empty(0)
            self._values = [self._constants]
        return self._constants

    def value_of(self, reference: int) -> float:
        """Return the value of the constant with a negative reference."""
        if self.scalars is not None:
            return self.scalars.value_of(reference)
        return float(self.constants[-1 - reference])

    def values_of(self, references: References) -> NDArray[np.float64]:
        """Return the values of constants, in the shape of their references."""
        if self.scalars is not None:
            return self.scalars.values_of(references)
        return np.asarray(self.constants[-1 - references])

    def constant(self, value: float) -> int:
        """Return the reference of a constant; equal values share one, and zeros of either sign differ."""
        if self.scalars is not None:
            return self.scalars.constant(value)
        reference = self._references.get(_BYTES(value))
        return int(self.constant_array(np.float64(value))) if reference is None else reference

    def constant_apart(self, value: float) -> int:
        """Return the reference of a new constant, even if another has the same value."""
        self.begin_loops()
        self._values.append(np.array([value]))
        self._constant_count += 1
        return -self._constant_count

    def adopt_constants(self, other: Program) -> bool:
        """Adopt the constants of another program with their references; return False if this program has constants."""
        if self.scalars is not None or other.scalars is not None or self._constant_count:
            return False
        self._values, self._constant_count = [other.constants], other._constant_count
        self._references = dict(other._references)
        return True

    def constant_array(self, values: NDArray[np.float64] | np.float64) -> References:
        """Return ascending references of many constants, in their shape; equal arrays share references."""
        numbers = np.ascontiguousarray(values, np.float64)
        flat = numbers.reshape(-1)
        if len(flat) > 1 and (flat.view(np.int64) == flat.view(np.int64)[0]).all():
            return np.full(numbers.shape, self.constant(flat[0]), np.int64)
        if self.scalars is not None:
            if len(flat) < LONG or not self.may_loop:
                return self.scalars.constant_array(numbers.reshape(np.shape(values)))
            self.begin_loops()
        key = flat.tobytes()
        start = self._references.get(key)
        if start is None:
            self._values.append(flat[::-1].copy())
            self._constant_count += len(flat)
            start = self._references[key] = -self._constant_count
        return np.asarray(start + np.arange(len(flat), dtype=np.int64).reshape(np.shape(values)))

    # Writing -----------------------------------------------------------------------------------------------------

    def apply(self, name: str, *operands: Any) -> Any:
        """Return the results of an operation on references, of the broadcast shape of the operands."""
        if all(type(operand) is int for operand in operands):
            return self._scalar("apply", operands, name)
        results = self.map(lambda body: partial(body.apply, name), operands)
        return results if results.shape else int(results)

    @overload
    def apply_code(self, code: int, operands: Sequence[Column]) -> Range: ...
    @overload
    def apply_code(self, code: int, operands: Sequence[int]) -> int: ...
    def apply_code(self, code: int, operands: Sequence[Any]) -> Range | int:
        """Apply an operation to columns of one length; equal blocks share one, and only scalars are simplified."""
        if type(operands[0]) is int:
            return self._scalar("apply", operands, OPERATIONS[code].name)
        return self._append(code, tuple(operands), len(operands[0]), None)

    def sums(self, terms: References, offsets: Any) -> References:
        """Return the sum of each segment of the terms; no segment may be empty.

        Args:
            terms: references of the terms of all segments, shape (terms,).
            offsets: position of the first term of each segment, and the end of the last, shape (segments + 1,).
        """
        where = np.asarray(offsets, np.int64)
        return self._append(SUM, (unshared(terms),), len(where) - 1, where).references

    def scan(self, body: Tape, operands: Callable[[list[Range]], Sequence[Column]], steps: Any) -> list[Range]:
        """Return a recurrence: a body with many instances, computed step by step.

        Args:
            body: tape of one instance; its inputs are the operands, its outputs the results. It must not change
                afterwards.
            operands: function from the references of the future results, a range for each output, to a column for each
                input.
            steps: position of the first instance of each step, and the end of the last, shape (steps + 1,).

        Returns:
            The references of the results, a range for each output of the body.

        Raises:
            ArgumentError: if instances take results of their own or of later steps.

        >>> tape = Program(inputs=3)
        >>> body = Tape(2)
        >>> body.outputs = [body.add(0, 1)]
        >>> (totals,) = tape.scan(body, lambda results: [
        ...     column(np.append(tape.constant(0.0), results[0].references[:-1])), Range(0, 1, 3)], range(4))
        >>> tape.outputs = totals.references
        >>> from accumulus.tape.interpreter import evaluate
        >>> print(evaluate(tape, np.array([1.0, 2.0, 5.0])))
        [1. 3. 8.]
        """
        self.settle()
        offsets = np.unique(np.asarray(steps, np.int64))
        count, outputs = int(offsets[-1]), len(body.outputs)
        listed = operands([_range(self._size + k * count, count) for k in range(outputs)])
        columns = tuple(unshared(each) if isinstance(each, np.ndarray) else each for each in listed)
        check_steps(columns, self._size, outputs, offsets, -self._constant_count)
        start = self._append(SCAN, columns, count, None, body, offsets).start
        return [_range(start + k * count, count) for k in range(outputs)]

    def loop(self, body: Tape, operands: Sequence[Column], count: int) -> list[Column]:
        """Return columns of the outputs of `body` for `count` independent instances.

        Each of the `operands` is a column of shape (count,), one for each input of the body.

        >>> tape = Program(inputs=3)
        >>> body = Tape(1)
        >>> body.outputs = [body.multiply(0, 0), 0]
        >>> squares, _ = tape.loop(body, [Range(0, 1, 3)], 3)
        >>> len(tape.blocks), squares
        (1, Range(start=3, step=1, count=3))
        """
        outputs = list(body.outputs)
        made = body.copy()
        made.outputs = list(dict.fromkeys(output for output in outputs if output >= body.inputs))
        ranges = self.scan(made, lambda _: operands, [0, count]) if made.outputs else []
        columns: dict[int, Column] = dict(zip(made.outputs, ranges, strict=True))
        for output in outputs:
            if output < 0:
                columns[output] = Range(self.constant(body.value_of(output)), 0, count)
            elif output < body.inputs:
                columns[output] = operands[output]
        return [columns[output] for output in outputs]

    def of_matrices(
        self,
        code: int,
        shape: tuple[int, int, int],
        operands: Sequence[References],
        opaque: Opaque | SparseSystem | SparseMatrix | None = None,
    ) -> References:
        """Return the results of a matrix operation, row by row, or of a call."""
        if code not in (MATMUL, SPARSE_PRODUCT):
            self.begin_loops()
            self.is_long = True
        count = 2 if code == LOG_DETERMINANT else shape[0] * shape[2]
        if code in FACTORS:
            count = sum(FACTORISATIONS[code].sizes(*shape[:2]))
        return self._append(code, tuple(map(unshared, operands)), count, None, shape=shape, opaque=opaque).references

    def map(
        self, build: Callable[[Tape], Callable[..., int]], operands: Sequence[Any], shape: tuple[int, ...] | None = None
    ) -> References:
        """Apply a formula to arrays of references, see `Tape.map` for `build`, `operands` and `shape`."""
        if shape is None:
            shape = np.broadcast_shapes(*map(np.shape, operands))
        if not shape:
            return np.asarray(build(self.open)(*map(int, operands)), np.int64)
        count = math.prod(shape)
        if not self.in_loops(count):
            return self.open.map(build, operands, shape)  # type: ignore[no-any-return]
        if count > LARGE:
            check_fits(
                8 * count * (len(operands) + 1),
                f"an operation on arrays of shape {' × '.join(map(str, shape))} that is recorded",
                "expected smaller arrays, or sums that are written as products of matrices",
            )
        columns = [spread(operand, shape, count) for operand in operands]
        return references_in(self.compute(build, columns)).reshape(shape)

    def compute(self, build: Callable[[Tape], Callable[..., int]], operands: Sequence[Column]) -> Column:
        """Record the operations that `build` writes for columns of shape (n,), and return the column of results."""
        values = tuple([self.uniform(operand) for operand in operands])
        key = id(build), self.signed_zeros, *map(_bytes_of, values)
        if key in self._bodies:
            return self.extend(self._bodies[key][1], operands)[0]
        body = Tape(len(operands), signed_zeros=self.signed_zeros)
        arguments = [k if value is None else body.constant(value) for k, value in enumerate(values)]
        body.outputs = [build(body)(*arguments)]
        self._bodies[key] = build, body  # the formula lives on, so that no other has its identity
        return self.extend(body, operands)[0]

    def uniform(self, operands: Column) -> float | None:
        """Return the constant that a column of shape (n,) has for all instances; None for any other column."""
        if isinstance(operands, Range) and operands.step == 0 and operands.start < 0:
            return self.value_of(operands.start)
        return None

    def extend(self, body: Tape, operands: Sequence[Column]) -> list[Column]:
        """Add a block for each operation of a tape, whose inputs are the operands; return columns of its outputs."""
        count = len(operands[0])
        if len(body) == len(operands) + 1 == body.outputs[0] + 1 and len(body.outputs) == 1 and not body.constants:
            arguments = [operands[a] for a in body.arguments(len(operands))]  # one operation, as most are
            return [self._append(body.codes[-1], tuple(arguments), count, None)]
        columns: list[Column] = list(operands)

        def at(reference: int) -> Column:
            if reference < 0:
                return Range(self.constant(body.value_of(reference)), 0, count)
            return columns[reference]

        for reference in range(body.inputs, len(body)):
            arguments = [columns[a] if a >= 0 else at(a) for a in body.arguments(reference)]
            columns.append(self._append(body.codes[reference], tuple(arguments), count, None))
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
        opaque: Opaque | SparseSystem | SparseMatrix | None = None,
    ) -> Range:
        self.settle()
        if self._segment is not None:
            self._close()
        if not count:  # no instances
            return _range(self._size, 0)
        if self._most is not None and len(self._blocks) >= self._most:
            raise ManyBlocksError(f"a program over arrays has more than {self._most:,} blocks; expected fewer")
        if self.tell_zero_signs is not None and (code in SEES_ZERO_SIGNS if body is None else sees_zero_signs(body)):
            self.tell_zero_signs()
        block = Block(code, self._size, count, operands, offsets, body, steps, shape, opaque)
        every = _compared(block)
        key = (code, shape, opaque, *map(fingerprint, every), None if body is None else to_bytes(body))
        alike = self._blocks_by_key.get(key)
        if alike is None:
            self._blocks_by_key[key] = [block]
        else:
            for earlier in alike:
                if self._joins and all(map(are_equal, every, _compared(earlier))):
                    return earlier.results
            alike.append(block)
        self._blocks.append(block)
        self._lines.append(NOWHERE if self.locate is None else self.locate())
        self._size += block.size
        return block.results

    # Single numbers, with the builders of a `Tape`
    # ----------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in BY_NAME:
            return partial(self._scalar_of, name) if self.scalars is None else getattr(self.scalars, name)
        raise AttributeError(f"'Program' object has no attribute {name!r}")

    def _scalar_of(self, name: str, *operands: int) -> int:
        return self._scalar(name, operands) if hasattr(Tape, name) else self._scalar("apply", operands, name)

    def _scalar(self, builder: str, operands: Sequence[int], *before: str) -> int:
        """Return the reference of the value that a builder of `Tape` makes from operands."""
        if self.scalars is not None:
            return int(getattr(self.scalars, builder)(*before, *operands))
        if self.promised is not None:
            self.promised.close()
        segment = self._segment
        if segment is None:
            segment = self._segment = Segment(self)
        here = segment.here
        arguments = [here[r] if r in here else segment.enter(r) for r in operands]
        reference: int = getattr(segment, builder)(*before, *arguments)
        return segment.there[reference] if reference >= 0 else self.constant(segment.constants[-1 - reference])

    def sum(self, terms: Iterable[int]) -> int:
        """Return the terms added from left to right; 0 if there are none."""
        if self.scalars is not None:
            return self.scalars.sum(terms)
        references = [*terms]
        if len(references) >= LONG_SUM:
            return int(self.sums(np.array(references, np.int64), [0, len(references)])[0])
        total = None
        for term in references:
            total = term if total is None else self._scalar("add", (total, term))
        return self.constant(0.0) if total is None else total

    def name(self, reference: int) -> str:
        """Return the name of `reference` in print, as on a `Tape`."""
        if reference < 0:
            return repr(self.value_of(reference))
        return f"{'x' if reference < self.inputs else 't'}{reference}"

    def operation(self, reference: int) -> Operation:
        """Return the row of the table for a value; the row of inputs if it is not a single operation."""
        maker = self._maker(reference)
        return OPERATIONS[INPUT if maker is None else maker[0]]

    def arguments(self, reference: int) -> tuple[int, ...]:
        """Return the references of a value's arguments; empty for inputs, and if an argument is within a body."""
        maker = self._maker(reference)
        return () if maker is None else maker[1]

    def summands(self, reference: int) -> list[tuple[int, ...]]:
        """Return the products whose sum a value is, as references of their factors; none of other values.

        Values of sums, and of products of matrices, have no single operation.
        """
        in_blocks = self.scalars is None and reference >= self.inputs
        if not in_blocks or (self.promised is not None and reference >= self.promised.base):
            return []
        if self._segment is not None and reference in self._segment.here:
            return []
        block = self._blocks[bisect_right(self._blocks, reference, key=lambda block: block.start) - 1]
        at = reference - block.start
        if block.code == SUM and block.offsets is not None:
            (terms,) = block.operands
            return [(entry(terms, k),) for k in range(*block.offsets[at : at + 2].tolist())]
        if block.code == MATMUL and block.opaque is None and block.shape is not None:
            _, inner, n = block.shape
            (left, right), (i, j) = block.operands, divmod(at, n)
            return [(entry(left, i * inner + k), entry(right, k * n + j)) for k in range(inner)]
        return []

    def is_boolean(self, reference: int) -> bool:
        """Return True for the result of a comparison or of a logical operation."""
        return reference >= 0 and self.operation(reference).result == "boolean"

    def _maker(self, reference: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the code and the arguments of the operation that made a value; None if there is no such operation."""
        if reference < self.inputs:
            return None
        if self.scalars is not None:
            return self.scalars.codes[reference], self.scalars.arguments(reference)
        if self.promised is not None and reference >= self.promised.base:
            made: tuple[int, tuple[int, ...]] | None = self.promised.maker(reference)
            return made
        segment = self._segment
        if segment is not None and reference in segment.here:
            here = segment.here[reference]
            if segment.codes[here] != INPUT:
                return segment.codes[here], tuple(map(segment._at, segment.arguments(here)))
        block = self._blocks[bisect_right(self._blocks, reference, key=lambda block: block.start) - 1]
        offset = reference - block.start
        if block.body is not None:
            output, instance = divmod(offset, block.count)
            end, body = block.body.outputs[output], block.body
            if end < body.inputs:
                return None
            arguments = []
            for a in body.arguments(end):
                output = a - body.outputs[0]  # outputs of scalar operations are consecutive
                if a < 0:
                    arguments.append(self.constant(body.value_of(a)))
                elif a < body.inputs:
                    arguments.append(entry(block.operands[a], instance))
                elif 0 <= output < len(body.outputs) and body.outputs[output] == a:
                    arguments.append(block.start + output * block.count + instance)
                else:  # values within a body have no reference
                    return body.codes[end], ()
            return body.codes[end], tuple(arguments)
        if block.code == SUM or block.shape is not None:
            return None
        return block.code, tuple(entry(operands, offset) for operands in block.operands)

    # Reading -----------------------------------------------------------------------------------------------------

    def needed(self) -> NDArray[np.bool_]:
        """Return the mask of the blocks that outputs depend on."""
        return self.reached([column(self.outputs)])

    def reached(self, required: Sequence[Column], through: Collection[int] | None = None) -> NDArray[np.bool_]:
        """Return the mask of blocks on which required references, columns of shape (n,), depend.

        `through` limits the codes to follow.
        """
        blocks = self.blocks
        self._note_owners()
        is_reached = bytearray(len(blocks) + 1)  # the last entry is for inputs and constants
        for operands in required:
            for owner in owners_in(self.starts, operands):
                is_reached[owner] = 1
        for position in reversed(range(len(blocks))):
            if is_reached[position] and (through is None or blocks[position].code in through):
                for operands in blocks[position].operands:
                    for owner in self.owners(operands):
                        is_reached[owner] = 1
        return np.frombuffer(is_reached, np.bool_)[:-1].copy()

    def sensitive(self) -> NDArray[np.bool_]:
        """Return the mask of blocks that reach a jump or depend on signs of zeros; they are computed as recorded.

        Arguments of opaque functions, which may have either, and indices are included.
        """
        blocks = self.blocks
        self._note_owners()
        is_sensitive = np.zeros(len(blocks) + 1, bool)  # the last entry is for inputs and constants
        for position in reversed(range(len(blocks))):
            block = blocks[position]
            rows = [OPERATIONS[code] for code in block.codes]
            sees = (block.opaque is not None and block.code != SPARSE_PRODUCT) or any(
                row.jumps or row.zero_signs == "seen" for row in rows
            )
            if sees or is_sensitive[position]:
                for operands in block.operands:
                    is_sensitive[self.owners(operands)] = True
            if block.code in (GATHER, SCATTER):
                is_sensitive[self.owners(block.operands[1])] = True
        return is_sensitive[:-1]

    def uses(self, code: int) -> bool:
        """Return True if there is an operation with this code."""
        return any(code in part.codes for part in (self.blocks if self.scalars is None else [self.scalars]))

    def content(self) -> tuple[Hashable, ...]:
        """Return a key that programs share if their blocks, constants (bit for bit) and outputs are equal, alone.

        It may contain opaque functions, which need not have a hash.
        """
        if self.scalars is not None:
            return (to_bytes(self.scalars),)
        columns = [column(self.outputs), *(each for block in self.blocks for each in _compared(block))]
        tables = b"".join(each.tobytes() for each in columns if not isinstance(each, Range))
        ranges = tuple(each if isinstance(each, Range) else len(each) for each in columns)
        bodies = [None if block.body is None else to_bytes(block.body) for block in self.blocks]
        parts = [(block.code, block.count, block.shape, block.opaque) for block in self.blocks]
        return self.inputs, self.constants.tobytes(), ranges, tables, *zip(parts, bodies, strict=True)

    def _note_owners(self) -> None:
        """Find the owners of all ranges of new blocks at once."""
        new, starts = self.blocks[self._noted :], self.starts
        self._noted += len(new)
        ranges = [each for block in new for each in block.operands if isinstance(each, Range) and each.count]
        if not ranges:
            return
        first, step, count = (
            np.fromiter(map(attrgetter(name), ranges), np.int64, len(ranges)) for name in ("start", "step", "count")
        )
        ends = np.sort([first, first + step * (count - 1)], axis=0)
        lows, highs = (starts.searchsorted(ends, "right") - 1).tolist()
        for operands, low, high in zip(ranges, lows, highs, strict=True):
            self._owners[id(operands)] = operands, [low] if low == high else list(range(low, high + 1))

    def owners(self, operands: Column) -> list[int]:
        """Return the blocks to which an operand of shape (n,) refers; -1 for inputs and constants."""
        cached = self._owners.get(id(operands))
        if cached is None or cached[0] is not operands:
            cached = self._owners[id(operands)] = operands, owners_in(self.starts, operands)
        return cached[1]


def _compared(block: Block) -> tuple[Column, ...]:
    """Return the columns that are equal for equal blocks of one code and body."""
    if block.steps is not None:  # each block refers to its own results
        return (*(relative(operands, block.start) for operands in block.operands), block.steps)
    return block.operands if block.offsets is None else (*block.operands, block.offsets)


assert INPUT == 0
