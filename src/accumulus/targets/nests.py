"""Loop nests: the common form from which every target writes loops.

A nest runs over instances. It *loads* an operand for each input of its body: with a start and a stride, which may be 0,
or by a table. The *body* is a straight-line program over scalars; sums, products of matrices and systems of equations
have none, but are nests of separate kinds. A nest *stores* each result: in memory for other nests, or directly in the
returned array, in consecutive places or scattered by a table. With steps, instances load results of earlier ones. A
scalar program is one body whose instances are the points of a batch.

An array of results that no other nest uses is stored in the returned array directly, if it is returned whole and in
order. All other returned values are copied at the end, by nests with an empty body.

Products of matrices may be left to NumPy, which calls BLAS, on the numbers between loops, if machine code does not call
it itself (`accumulus.targets.llvm.products`); LAPACK solves systems of equations; opaque functions are called. Operands
that lie row by row or column by column, also with gaps between rows, are used in place; others are gathered first. So a
product has the same result as in the function itself, to the last bit if its operands have the same layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from accumulus.errors import OpaqueError, SizeError
from accumulus.tape.blocks import (
    CHOLESKY,
    EIGENVECTORS,
    FACTORS,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    SCATTER,
    SINGULAR_VECTORS,
    SOLVE,
    SPARSE_PRODUCT,
    Opaque,
    operand_shapes,
)
from accumulus.tape.columns import Column, Range, column, owners_in
from accumulus.tape.factorisations import FACTORISATIONS, Factorisation
from accumulus.tape.fusion import Map
from accumulus.tape.interpreter import whole_indices
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape
from accumulus.targets.blas import cholesky, solve_triangular
from accumulus.targets.kernel import Unit

#: Least average length of consecutive stretches of references for which each stretch is copied separately. Shorter
#: stretches spend their time on starting copies, longer ones leave consecutive entries to a table.
LONG: Final = 256
#: Number of references that are examined at once: more take memory beside the references, fewer make more calls of
#: NumPy.
PART: Final = 1 << 16
#: If less than one entry in this many of an array is filled, it is cleared, and its entries are scattered. A larger
#: number writes zeros through tables, a smaller one clears entries that are overwritten.
SPARSE: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Place in a returned array: the array, and the first entry."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop over instances."""

    count: int  # number of instances
    loads: tuple[Column, ...]  # a column of references for each operand
    starts: tuple[int, ...] = ()  # first references of the results, an array for each output of the body
    stores: tuple[int | Place, ...] = ()  # destination of each: its reference, or a place in a returned array
    body: Tape | None = None  # operations of one instance; None for sums and operations on matrices
    sensitive: int = 0  # number of leading outputs that are computed operation by operation as recorded
    # of a recurrence, (steps + 1,): first instance of each step, then the number of instances
    steps: NDArray[np.int64] | None = None
    offsets: NDArray[np.int64] | None = None  # of sums, (sums + 1,): first term of each, then the number of terms
    shape: tuple[int, int, int] | None = None  # of operations on matrices, see `accumulus.tape.blocks.Block`
    code: int = 0  # code of the operation on matrices
    opaque: Opaque | SparseSystem | SparseMatrix | None = None  # see `accumulus.tape.blocks.Block`
    # where each instance stores its result, relative to the place; None for consecutive positions
    positions: NDArray[np.int32] | None = None
    blocks: tuple[int, ...] = ()  # blocks of the program that it computes


def nests_of(tape: Program, maps: Sequence[Map]) -> list[Nest]:
    """Return the nests of a program, in order; all results are stored in memory."""
    nests = []
    for each in maps:
        if not each.count or not each.results:
            continue
        starts, loads = tuple(each.arrays(tape)), tuple(each.operands(tape))
        nest = Nest(each.count, loads, starts, starts, blocks=tuple(each.blocks))
        if each.is_body:
            nest = replace(nest, body=each.body, sensitive=each.sensitive, steps=each.steps)
        else:
            block = tape.blocks[each.blocks[0]]
            if block.shape is not None:
                loads = tuple(_with_zeros_in_memory(tape, operands) for operands in loads)
            nest = replace(
                nest, loads=loads, offsets=block.offsets, shape=block.shape, code=block.code, opaque=block.opaque
            )
        nests.append(nest)
    return nests


def copying() -> Tape:
    """Return the body of a loop that copies."""
    body = Tape(1)
    body.outputs = [0]
    return body


def _with_zeros_in_memory(tape: Program, operands: Column) -> Column:
    """Return a column without constants if they are the zeros beside Cholesky's factor in memory.

    The stored factor is 0 above its diagonal. Operands with constant zeros there would need a table of references.
    """
    if isinstance(operands, Range) or operands[0] < tape.inputs:
        return operands
    block = tape.blocks[int(np.searchsorted(tape.starts, operands[0], side="right")) - 1]
    if block.code != CHOLESKY or len(operands) != block.size or operands[0] != block.start:
        return operands
    assert block.shape is not None
    n = block.shape[0]
    factor = block.results.references.reshape(n, n)
    constant = operands < 0
    is_zero = constant.copy()
    values = tape.values_of(operands[constant])
    is_zero[constant] = (values == 0.0) & ~np.signbit(values)
    above = ~np.tri(n, dtype=bool)
    for whole, outside in ((factor, above), (factor.T, above.T)):
        filled = np.where(is_zero & outside.reshape(-1), whole.reshape(-1), operands)
        if np.array_equal(filled, whole.reshape(-1)):
            return column(filled)
    return operands


def check_written(nests: Sequence[Nest], language: str, has_factors: bool = False) -> None:
    """Check that all nests can be written in a language.

    Args:
        nests: nests to check.
        language: name of the language.
        has_factors: True if the language has eigenvalue and singular value decompositions.

    Raises:
        OpaqueError: for opaque functions, and for decompositions that the language lacks.
    """
    for nest in nests:
        if nest.opaque is not None and nest.code != SPARSE_PRODUCT:
            raise OpaqueError.of(nest.opaque.name, f"source in {language}")
        if nest.code in (EIGENVECTORS, SINGULAR_VECTORS) and not has_factors:
            raise OpaqueError.of(f"LAPACK for {FACTORISATIONS[nest.code].name}", f"source in {language}")


class Nests:
    """The nests of a program whose results are arrays in memory.

    Args:
        unit: the program. Nests have the references of its tape; -1 - the number of constants is a zero.

    Attributes:
        every: the nests, including the copies at the end.
        kept: number of results that stay in memory for other nests, by the first reference.
        cleared: for each segment, True if it has to hold zeros before.

    Raises:
        SizeError: if results are scattered in an array with more entries than index tables have room for.
    """

    def __init__(self, unit: Unit) -> None:
        tape: Program = unit.tape
        computed = nests_of(tape, unit.maps or ())
        self._arrays = {start: nest.count for nest in computed for start in nest.starts}
        self._starts = sorted(self._arrays)
        self._firsts = np.array(self._starts, np.int64)
        #: Arrays that are stored where they are returned, by first reference.
        self._places: dict[int, Place] = {}
        #: All other returned values: their references, the first place, and offsets from there (None if consecutive).
        self._copies: list[tuple[Column, Place, NDArray[np.int32] | None]] = []
        self.cleared = [False] * len(unit.segments)
        # blocks whose results other nests load
        blocks = {block for nest in computed for each in nest.loads for block in tape.owners(each)}
        homes = np.searchsorted(tape.starts, self._firsts, side="right") - 1
        taken = {array for array, block in enumerate(homes.tolist()) if block in blocks}
        self._place(self._returned(unit, taken), taken)
        self.kept = {start: count for start, count in self._arrays.items() if start not in self._places}
        self.every = [
            replace(nest, stores=tuple(self._places.get(start, start) for start in nest.starts)) for nest in computed
        ]
        body = copying()
        for source, place, positions in self._copies:
            if len(source):
                self.every.append(Nest(len(source), (source,), (), (place,), body=body, positions=positions))

    def _returned(self, unit: Unit, taken: set[int]) -> list[tuple[Place, Range]]:
        """Return results as stretches of references; other results become copies, whose sources count as taken."""
        stretches: list[tuple[Place, Range]] = []
        for k, segment in enumerate(unit.segments):
            references = unit.tape.outputs[segment.outputs]
            positions = segment.positions
            if not segment.is_filled:
                if SPARSE * len(references) < segment.length:
                    if segment.length > MOST:
                        raise SizeError(
                            f"{segment.length:,} entries of a result, most of them 0; index tables have room for "
                            f"{MOST:,}: ask for sparse matrices, with sparse=True"
                        )
                    self.cleared[k] = True
                    if isinstance(positions, slice):
                        positions = np.arange(positions.start, positions.stop)
                    self._copies.append((column(references), Place(k, 0), positions.astype(np.int32)))
                    taken.update(self._arrays_in(column(references)))
                    continue
                every = np.full(segment.length, -1 - len(unit.tape.constants), np.int64)
                every[positions] = references
                references = every
            stretched = _stretches(references)
            if stretched is None:
                self._copies.append((references, Place(k, 0), None))
                taken.update(self._arrays_in(references))
            else:
                stretches += [(Place(k, at), stretch) for at, stretch in stretched]
        return stretches

    def _place(self, stretches: Sequence[tuple[Place, Range]], taken: set[int]) -> None:
        touched = Counter(array for _, stretch in stretches for array in self._arrays_in(stretch))
        once = {array for array, times in touched.items() if times == 1 and array not in taken}
        for place, stretch in stretches:
            at, end = stretch.start, stretch.start + stretch.count
            for array in self._arrays_in(stretch):
                start = self._starts[array]
                if array in once and at <= start and start + self._arrays[start] <= end:
                    self._copy(place, stretch.start, at, start)
                    self._places[start] = Place(place.segment, place.offset + start - stretch.start)
                    at = start + self._arrays[start]
            self._copy(place, stretch.start, at, end)

    def _arrays_in(self, references: Column) -> list[int]:
        return [array for array in owners_in(self._firsts, references) if array >= 0]

    def _copy(self, place: Place, start: int, first: int, end: int) -> None:
        if first < end:
            source = Range(first, 1 if end - first > 1 else 0, end - first)
            self._copies.append((source, Place(place.segment, place.offset + first - start), None))


def _stretches(references: NDArray[np.int64]) -> list[tuple[int, Range]] | None:
    """Return references as consecutive stretches, each with its position; None if there are too many."""
    count = len(references)
    if not count:
        return []
    begins = [0]
    for first in range(0, count - 1, PART):
        part = references[first : first + PART + 1]
        breaks = np.flatnonzero(part[1:] - part[:-1] != 1)
        if (len(begins) + len(breaks)) * LONG > max(count, LONG):
            return None
        begins += (breaks + (first + 1)).tolist()
    return [
        (begin, Range(int(references[begin]), 1 if end - begin > 1 else 0, end - begin))
        for begin, end in zip(begins, [*begins[1:], count], strict=True)
    ]


# Layout of numbers while a program runs: one array, the workspace ----------------------------------------------------

#: Upper bound on the numbers in the workspace, and in an array that results are scattered in: tables of indices have 32
#: bits.
MOST: Final = 2**31


class WorkspaceLayout:
    """Layout of the workspace: a zero, the constants in reverse, the inputs, then the kept results in order.

    Args:
        tape: the program; -1 - the number of constants stands for the zero.
        kept: number of results that are kept, by first reference; places of others must not be requested.

    Attributes:
        first: place of the first input.
        size: size of the workspace.

    Raises:
        SizeError: if it has too many numbers.
    """

    def __init__(self, tape: Program, counts_by_start: Mapping[int, int]) -> None:
        counts = np.array([counts_by_start[start] for start in sorted(counts_by_start)], np.int64)
        self._starts = np.array([0, *sorted(counts_by_start)], np.int64)
        self.first = 1 + len(tape.constants)
        places = self.first + tape.inputs + np.cumsum(counts) - counts
        #: Offset of places from references, from each start on.
        self._shifts = np.concatenate([[self.first], places - self._starts[1:]])
        self.size = self.first + tape.inputs
        self._grow(int(counts.sum()))
        #: First reference that no value of the program has.
        self._unused = len(tape)

    def reserve(self, count: int) -> int:
        """Add an array at the end; return a reference of its first number, which no other value has.

        Raises:
            SizeError: if there are too many numbers.
        """
        start = self._unused
        self._unused += count
        self._starts = np.append(self._starts, start)
        self._shifts = np.append(self._shifts, self.size - start)
        self._grow(count)
        return start

    def _grow(self, count: int) -> None:
        self.size += count
        if self.size >= MOST:
            raise SizeError(f"{self.size:,} numbers between loops; index tables have room for {MOST:,}")

    def place(self, reference: int) -> int:
        """Return the place of the value of a reference."""
        return reference + int(self._shifts[self._owner(reference)])

    def table(self, operands: Column) -> NDArray[np.int32] | None:
        """Return places of the values of a column; None for ranges, whose values are equally spaced in memory, too."""
        if isinstance(operands, Range):
            return None
        table = np.empty(len(operands), np.int32)
        for first in range(0, len(operands), PART):
            part = operands[first : first + PART]
            low, high = self._owner(int(part.min())), self._owner(int(part.max()))
            if low == high:
                shifts = self._shifts[low]
            else:
                shifts = self._shifts[np.maximum(np.searchsorted(self._starts, part, side="right") - 1, 0)]
            np.add(part, shifts, out=table[first : first + PART], casting="unsafe")
        return table

    def _owner(self, reference: int) -> int:
        return max(int(np.searchsorted(self._starts, reference, side="right")) - 1, 0)


# Operations on matrices -----------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
#: Places of a matrix's entries in the workspace, row by row: a table, or (start, step).
Entries = NDArray[np.int32] | tuple[int, int]
#: Shape, first entry, strides, and table of a matrix.
_Operand = tuple[tuple[int, int], int, tuple[int, ...], NDArray[np.intp] | None]
#: Least number of rows for which a matrix is checked for being triangular, which saves two thirds of the work: a
#: smaller number checks matrices whose solution takes no longer, a larger one solves triangular ones as full ones.
TRIANGULAR: Final = 64
#: Bytes of a number.
_SIZE: Final = 8


def _solve(matrix: Floats, sides: Floats, out: Floats) -> None:
    if len(matrix) >= TRIANGULAR:
        for lower, corner, turned in ((True, matrix[0, -1], matrix), (False, matrix[-1, 0], matrix.T)):
            if corner == 0.0 and _is_lower(turned):
                out[...] = sides
                return solve_triangular(matrix, out, lower=lower)
    out[...] = np.linalg.solve(matrix, sides)
    return None


def _is_lower(matrix: Floats) -> bool:
    """Return True if all entries above the diagonal are 0."""
    half = len(matrix) // 2
    if half < TRIANGULAR:
        return not np.triu(matrix, 1).any()
    return not matrix[:half, half:].any() and _is_lower(matrix[:half, :half]) and _is_lower(matrix[half:, half:])


def _log_determinant(matrix: Floats, out: Floats) -> None:
    out[...] = np.linalg.slogdet(matrix)


def _cholesky(matrix: Floats, out: Floats) -> None:
    if len(matrix) < TRIANGULAR:
        out[...] = np.linalg.cholesky(matrix)
        return
    cholesky(matrix, out)


def _gather(rows: Floats, indices: Floats, out: Floats) -> None:
    np.take(rows, whole_indices(indices[:, 0], len(rows)), axis=0, out=out, mode="clip")  # "raise" would buffer


def _scatter(terms: Floats, indices: Floats, out: Floats) -> None:
    at, rows = whole_indices(indices[:, 0], len(out)), len(out)
    for k in range(out.shape[1]):
        out[:, k] = np.bincount(at, terms[:, k], rows)


def _factorise(row: Factorisation, matrix: Floats, out: Floats) -> None:
    out[...] = row.flat(matrix)


def _calling(opaque: Opaque | SparseSystem) -> Callable[..., Any]:
    if isinstance(opaque, SparseSystem):

        def solve(data: Floats, sides: Floats, out: Floats) -> None:
            out[...] = opaque.solve(data.reshape(-1), sides)

        return solve

    def call(numbers: Floats, out: Floats) -> None:
        out[...] = opaque(numbers.reshape(-1))

    return call


_COMPUTE: Final[dict[int, Callable[..., Any]]] = {
    MATMUL: np.matmul, SOLVE: _solve, LOG_DETERMINANT: _log_determinant, CHOLESKY: _cholesky, GATHER: _gather,
    SCATTER: _scatter
}  # fmt: skip


class OfMatrices:
    """An operation on matrices: product, solution, determinant, factorisation, gather, scatter, or opaque call.

    Args:
        nest: the operation.
        places: places of the entries of each matrix.
        constant: for each matrix, True if all its entries are constants.
    """

    def __init__(self, nest: Nest, places: Sequence[Entries], constant: Sequence[bool]) -> None:
        assert nest.shape is not None
        assert not isinstance(nest.opaque, SparseMatrix)
        m, _, n = nest.shape
        if nest.code in FACTORS:
            self._compute: Callable[..., Any] = partial(_factorise, FACTORISATIONS[nest.code])
        else:
            self._compute = _COMPUTE[nest.code] if nest.opaque is None else _calling(nest.opaque)
        self._constant = constant
        self._shape: tuple[int, ...] = (nest.count,) if nest.code in (LOG_DETERMINANT, *FACTORS) else (m, n)
        shapes = operand_shapes(nest.code, nest.shape, nest.opaque, len(places))
        self._operands = [placed(each, shape) for each, shape in zip(places, shapes, strict=True)]

    def bind(self, values: Floats, target: Callable[[Sequence[Floats]], Floats]) -> Callable[[Sequence[Floats]], None]:
        """Return a function of the returned arrays that computes the results from the workspace.

        Args:
            values: the workspace.
            target: function that returns the result's memory, given the returned arrays.
        """
        matrices, fills = [], []
        for (shape, start, strides, table), is_constant in zip(self._operands, self._constant, strict=True):
            if table is None:
                steps = tuple(_SIZE * stride for stride in strides)
                matrices.append(as_strided(values[start:], shape, steps))
                continue
            matrices.append(np.empty(shape))
            # gathers the entries, at each call if they change; "raise" would buffer
            fill = partial(np.take, values, table, out=matrices[-1], mode="clip")
            fill()
            fills += [] if is_constant else [fill]
        compute, result = self._compute, self._shape
        if all(self._constant):
            constant = np.empty(result)
            compute(*matrices, out=constant)
            return lambda results: np.copyto(target(results), constant.reshape(-1))

        def run(results: Sequence[Floats]) -> None:
            for fill in fills:
                fill()
            compute(*matrices, out=target(results).reshape(result))

        return run


def placed(places: Entries, shape: tuple[int, int], *, by_blas: bool = True) -> _Operand:
    """Return shape, first entry, strides and table of a matrix; either the strides or the table are used.

    Args:
        places: places of its entries.
        shape: its shape.
        by_blas: True for strides that BLAS accepts, False for any.
    """
    if isinstance(places, tuple):
        start, step = places
        places = (start + step * np.arange(shape[0] * shape[1])).astype(np.int32)
    table = places.reshape(shape)
    strides = _strides(table, by_blas=by_blas)
    return shape, int(table[0, 0]), strides or (), None if strides else table.astype(np.intp)


def _strides(table: NDArray[np.int32], *, by_blas: bool) -> tuple[int, int] | None:
    """Return the distances between rows and between columns; None if they vary, or if BLAS does not accept them."""
    rows, columns = table.shape
    down = int(table[1, 0]) - int(table[0, 0]) if rows > 1 else 0
    along = int(table[0, 1]) - int(table[0, 0]) if columns > 1 else 0
    if rows == 1:
        down = max(columns * along, columns)
    if columns == 1:
        along = 1 if down != 1 else rows
    if by_blas and not ((along == 1 and down >= columns) or (down == 1 and along >= rows)):
        return None
    expected = table[0, 0] + down * np.arange(rows)[:, np.newaxis] + along * np.arange(columns)
    return (down, along) if np.array_equal(table, expected) else None
