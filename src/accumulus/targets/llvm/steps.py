"""Steps of a program over arrays: which function of machine code computes each loop nest, and where it finds operands.

A loop over a body finds each operand in consecutive places, by rows (`accumulus.targets.llvm.grids`), or by a table.
Products of matrices are calls of BLAS, those with constant sparse matrices are loops over rows, several products with
one matrix together. Python calls LAPACK and opaque functions between loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import GATHER, MATMUL, SCATTER, SPARSE_PRODUCT, operand_shapes
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.live import time_of
from accumulus.tape.operations import SECONDS
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.tape import Tape, to_bytes
from accumulus.targets.blas import blas
from accumulus.targets.kernel import FEWEST_POINTS, MINIMUM_WORK, MOVING, Floats, Unit
from accumulus.targets.llvm.bodies import (
    ACROSS,
    BACKWARD,
    FORWARD,
    POINT_SUMS,
    ROW_FORWARD,
    ROW_STRIDED,
    ROW_UNIFORM,
    SCATTERED,
    SUMS,
    TABLE,
    UNIFORM,
    BodyFunction,
    beside,
)
from accumulus.targets.llvm.grids import Across, Rows, divided, grid_of
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.products import PRODUCTS, OperandLayout, call_of_product
from accumulus.targets.llvm.rows import LOOKUPS, SPARSE_LANES, SPARSE_ROWS
from accumulus.targets.nests import Entries, Nest, Nests, OfMatrices, Place, WorkspaceLayout, copying, placed

#: Approximate seconds to locate a number by a table. A larger estimate starts threads and compiles lanes for too little
#: work, a smaller one leaves cores idle.
FINDING: Final = 6e-10
#: Largest number of operands with distances, but for those beside others, in a body. More take long to compile, since
#: each is the transposition of as many vectors as these have lanes; fewer leave operands to tables.
MOST_STRIDED: Final = 12
#: Sums of this many vectors of terms in the mean add vectors, however few sums there are. A larger number adds terms of
#: long sums one by one, a smaller one adds vectors up that have few terms.
LONG_SUMS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Rows of instances of a loop, see `accumulus.targets.llvm.grids`."""

    rows: int  # number of rows
    length: int  # number of instances of each
    tables: tuple[NDArray[np.int32] | None, ...]  # of operands: places of rows, or of all instances; None for ranges
    steps: tuple[int, ...]  # distances of neighbours, of the operands that need them

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Calls of a loop, a product of matrices, or an operation that Python calls."""

    function: str  # name of its function; empty for operations that Python calls
    nest: Nest  # loop nest that it computes
    seconds: float  # approximate time
    # of products: for each operand its place in the workspace, or its constants; and the further arguments
    operands: tuple[int | Floats, ...] = ()
    numbers: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()  # of products: numbers from the first to the last of each operand
    of_points: str = ""  # name of its function for points in lanes
    grid: Grid | Across | None = None  # how a single point finds its operands, instead of by tables
    has_wide_sums: bool = False  # of sums: True if they add vectors of terms

    @property
    def is_apart(self) -> bool:
        """True for functions that compute one point of many at a time."""
        return self.function in (SPARSE_LANES, *PRODUCTS, *LOOKUPS.values())

    @property
    def count(self) -> int:
        """Number of instances; for lookups the number of indices, and for sparse matrices the number of rows."""
        nest = self.nest
        if nest.code == SPARSE_PRODUCT and nest.shape is not None:
            return nest.shape[0]
        return nest.count if nest.shape is None else len(nest.loads[1])

    def finds(self, operands: Column, tables: Mapping[int, NDArray[np.int32] | None]) -> bool:
        """Return True if a call finds operands by their table, of these by the identity of their columns."""
        if self.grid is None or isinstance(self.grid, Across):
            return self.grid is None
        table = tables.get(id(operands))
        return table is None or any(each is table for each in self.grid.tables)

    def parts(self, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the range of instances of each call, (calls, 2), and the mask of calls with vectors.

        There is one call for all instances; in recurrences one for each wide step, and one for consecutive narrow ones.
        In grids, rows or vectors take the place of instances.
        """
        if self.grid is not None:
            return np.array([[0, len(self.grid)]]), np.array([True])
        if self.nest.offsets is not None:
            return np.array([[0, self.count]]), np.array([self.has_wide_sums])
        steps = np.array([0, self.count]) if self.nest.steps is None else self.nest.steps
        wide = np.diff(steps) >= lanes
        begins = wide.copy()
        begins[1:] |= wide[:-1]
        begins[0] = True
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(wide))
        return np.stack([steps[firsts], steps[ends]], axis=1), wide[firsts]

    def shares(self, threads: int) -> NDArray[np.int64]:
        """Return the ranges of instances of a division among threads; one range if a division does not pay."""
        calls = min(threads, int(self.seconds / MINIMUM_WORK), self.count // FEWEST_POINTS)
        bounds = [0, self.count]
        if self.grid is not None:
            rows = len(self.grid)
            bounds = sorted({rows * k // max(calls, 1) for k in range(max(calls, 1) + 1)})
            return np.array(list(pairwise(bounds)))
        if calls > 1 and self.nest.steps is None and self.nest.code != SCATTER:
            parts = np.arange(1, calls) / calls
            if self.nest.offsets is None:
                ends = (parts * self.count).astype(np.int64)
            else:
                ends = np.searchsorted(self.nest.offsets, parts * self.nest.offsets[-1])
            # whole cache lines of results; a share has at least as many instances as a vector has lanes
            ends -= ends % FEWEST_POINTS
            bounds = sorted({0, *ends.tolist(), self.count})
            if bounds[-1] - bounds[-2] < FEWEST_POINTS and len(bounds) > 2:
                del bounds[-2]
        return np.array(list(pairwise(bounds)))


class Steps:
    """The steps of a program, in order.

    Args:
        unit: a program over arrays.

    Attributes:
        every: the steps.
        layout: layout of the workspace.
        bodies: bodies for a single point.
        bodies_of_points: bodies for points in lanes.
        cleared: for each result array, True if it has to hold zeros before a call.

    Raises:
        SizeError: if there are too many numbers between loops.
    """

    def __init__(self, unit: Unit) -> None:
        self.constants = unit.tape.constants[::-1]
        nests = Nests(unit)
        self.cleared = nests.cleared
        self.layout = WorkspaceLayout(unit.tape, nests.kept)
        self.bodies: dict[object, BodyFunction] = {}
        self.bodies_of_points: dict[object, BodyFunction] = {}
        self.every: list[Step] = []
        #: Tables of the places of operands, by the identity of their columns; first places of rows that are copied
        #: without gaps; and columns that sparse matrices are multiplied with, by step.
        self._tables: dict[int, NDArray[np.int32] | None] = {}
        self._packed: dict[bytes, NDArray[np.int32]] = {}
        self._sparse: dict[int, list[tuple[int, NDArray[np.int32], int]]] = {}
        self._lanes = host().vector_bytes // 8
        for nest in nests.every:
            for part in divided(nest, self._lanes, FINDING):
                self._add(part)
        # tables that rows took the place of: where points are computed in lanes, they are made again
        needed = {id(each) for step in self.every for each in step.nest.loads if step.finds(each, self._tables)}
        self._tables = {column: table for column, table in self._tables.items() if column in needed}

    def _add(self, nest: Nest) -> None:
        if nest.body is not None:
            self._add_body(nest, nest.body)
        elif nest.code in LOOKUPS and self._entries(nest) is not None:
            self.every.append(Step(LOOKUPS[nest.code], nest, nest.count * (FINDING + MOVING)))
        elif isinstance(nest.opaque, SparseMatrix):
            self._add_sparse(nest, nest.opaque)
        elif nest.shape is not None:
            self.every.append(self._product(nest) or Step("", nest, 0.0))
        else:
            (terms,) = nest.loads
            is_next = isinstance(terms, Range) and terms.step == 1
            if not is_next:
                nest = replace(nest, loads=(references_in(terms),))
            is_wide = nest.count >= self._lanes or len(terms) >= LONG_SUMS * self._lanes * nest.count
            table, across = self.table(nest.loads[0]), None
            if table is not None and nest.offsets is not None:
                across = Across.of(table, nest.offsets, self._lanes)
            seconds = len(terms) * (SECONDS + (MOVING if is_next or across else FINDING))
            function, of_points = SUMS[not is_next], POINT_SUMS[SUMS[not is_next], is_wide]
            function = ACROSS if across else function
            step = Step(function, nest, seconds, of_points=of_points, grid=across, has_wide_sums=is_wide)
            self.every.append(step)

    def _add_body(self, nest: Nest, body: Tape) -> None:
        """Add a loop over a body, by rows where its operands lie in a grid."""
        ranges = {1: FORWARD, -1: BACKWARD, 0: UNIFORM}
        kinds = tuple(ranges[each.step] if isinstance(each, Range) else TABLE for each in nest.loads)
        stores = (FORWARD if nest.positions is None else SCATTERED,) * len(nest.stores)
        computing = SECONDS * time_of(body)
        of_points = self._function(self.bodies_of_points, nest, body, kinds, stores)
        grid = None
        if nest.steps is None and nest.positions is None and TABLE in kinds and nest.count >= 2 * self._lanes:
            tables = [None if isinstance(each, Range) else self.table(each) for each in nest.loads]
            found = grid_of(tables, self._lanes, computing + MOVING * len(nest.stores), FINDING, MOVING)
            if found is not None:
                kinds, grid = self._grid(nest, kinds, tables, *found)
        moving = sum(FINDING if kind == TABLE else MOVING for kind in kinds) + MOVING * len(nest.stores)
        function = self._function(self.bodies, nest, body, kinds, stores)
        seconds = nest.count * (computing + moving)
        self.every.append(Step(function, nest, seconds, of_points=of_points, grid=grid))

    @staticmethod
    def _function(
        bodies: dict[object, BodyFunction], nest: Nest, body: Tape, kinds: tuple[str, ...], stores: tuple[str, ...]
    ) -> str:
        key = (to_bytes(body), kinds, stores, nest.sensitive)
        function = BodyFunction(f"map{len(bodies)}", body, kinds, stores, nest.sensitive)
        return bodies.setdefault(key, function).name

    def _grid(
        self,
        nest: Nest,
        kinds: tuple[str, ...],
        tables: Sequence[NDArray[np.int32] | None],
        length: int,
        rows: Sequence[Rows | None],
    ) -> tuple[tuple[str, ...], Grid]:
        """Return the kinds of operands of a loop over rows, and its grid; copy rows with gaps that are used again."""
        chosen, places, strided = list(kinds), list(tables), {}
        for k, (each, operands) in enumerate(zip(rows, nest.loads, strict=True)):
            if each is None:
                continue
            packed = each.without_gaps()
            used = each if packed is None else Rows(self._without_gaps(operands, length, each, *packed), 1)
            places[k] = used.starts
            chosen[k] = {0: ROW_UNIFORM, 1: ROW_FORWARD}.get(used.step, ROW_STRIDED)
            if chosen[k] == ROW_STRIDED:
                strided[k] = used
        # operands of one row of a matrix, as the coordinates of points are, are loaded together
        leaders: dict[int, Rows] = {}
        for k, used in sorted(strided.items(), key=lambda each: int(each[1].starts[0])):
            for leader, of_leader in leaders.items():
                offset = used.beside(of_leader)
                if offset is not None and offset < self._lanes:
                    chosen[k] = beside(leader, offset)
                    break
            else:
                if len(leaders) < MOST_STRIDED:
                    leaders[k] = used
                else:
                    chosen[k], places[k] = TABLE, tables[k]
        steps = [leaders[k].step for k in sorted(leaders)]
        return tuple(chosen), Grid(nest.count // length, length, tuple(places), tuple(steps))

    def _without_gaps(
        self, operands: Column, length: int, rows: Rows, different: NDArray[np.int32], which: NDArray[np.intp]
    ) -> NDArray[np.int32]:
        """Return the first places of rows that are copied without gaps; add the copy, if it is a new one."""
        key = different.tobytes() + bytes(str((rows.step, length)), "ascii")
        starts = self._packed.get(key)
        if starts is None:
            firsts = np.zeros(len(different), np.intp)
            firsts[which] = np.arange(len(which))
            copied = references_in(operands).reshape(-1, length)[firsts].reshape(-1)
            first = self.layout.reserve(len(copied))
            self._add_body(Nest(len(copied), (copied,), (first,), (first,), body=copying()), copying())
            starts = self.layout.place(first) + length * np.arange(len(different), dtype=np.int32)
            self._packed[key] = starts
        return starts[which]

    def table(self, operands: Column) -> NDArray[np.int32] | None:
        """Return the places of operands; None for ranges."""
        if id(operands) not in self._tables:  # of several threads that are here, all take the table of the first
            self._tables.setdefault(id(operands), self.layout.table(operands))
        return self._tables[id(operands)]

    def _add_sparse(self, nest: Nest, matrix: SparseMatrix) -> None:
        """Add products with a sparse matrix; join them to the previous ones with the same matrix, if independent."""
        assert nest.shape is not None
        n, seconds = nest.shape[2], matrix.nnz * (2 * SECONDS + FINDING)
        if self._in_lanes(nest):
            self.every.append(Step(SPARSE_LANES, nest, n // self._lanes * seconds))
            if n % self._lanes:
                self.every.append(Step(SPARSE_ROWS, nest, n % self._lanes * seconds))
            return
        before = self.every[-1].nest if self.every else nest
        if before.opaque is matrix and before.shape == nest.shape and not self._in_lanes(before) and before is not nest:
            taken, size = nest.loads[0], matrix.shape[0] * n
            if not any(overlap(taken, start, size) for start in before.starts):
                self.every.pop()
                joined = [getattr(before, name) + getattr(nest, name) for name in ("loads", "starts", "stores")]
                nest = replace(nest, loads=joined[0], starts=joined[1], stores=joined[2])
        self.every.append(Step(SPARSE_ROWS, nest, n * len(nest.loads) * seconds))

    def _in_lanes(self, nest: Nest) -> bool:
        """Return True if the columns that a sparse matrix is multiplied with are adjacent, and fill vectors."""
        (m, _, n), taken = nest.shape or (0, 0, 0), nest.loads[0]
        return min(m, n) >= self._lanes and isinstance(taken, Range) and taken.step == 1

    def _columns(self, step: Step, matrix: SparseMatrix) -> list[tuple[int, NDArray[np.int32], int]]:
        """Return the columns that a sparse matrix is multiplied with, operand by operand.

        Each is (first place, offset of each entry's factor from there, position among the results).
        """
        factors, nest = self._sparse.get(id(step)), step.nest
        if factors is None:
            assert nest.shape is not None
            factors, columns, n = [], matrix.columns, nest.shape[2]
            each = range(n)
            if self._in_lanes(nest):
                whole = n - n % self._lanes
                each = range(0, whole, self._lanes) if step.function == SPARSE_LANES else range(whole, n)
            for operands in nest.loads:
                table = self.layout.table(operands)
                if table is None:
                    assert isinstance(operands, Range)
                    start, along = self.layout.place(operands.start), operands.step
                    places = columns if n * along == 1 else columns * np.int32(n * along)
                    factors += [(start + along * j, places, j) for j in each]
                else:
                    factors += [(0, table[j::n][columns], j) for j in each]
            self._sparse.setdefault(id(step), factors)  # of several threads, all take those of the first
        return self._sparse[id(step)]

    def _entries(self, nest: Nest) -> list[int] | None:
        """Return the arguments of a function for a gather or scatter: places of its matrix and indices, and numbers.

        Return None if the operands are not equally spaced in memory.
        """
        assert nest.shape is not None
        shapes = operand_shapes(nest.code, nest.shape, nest.opaque, len(nest.loads))
        (_, matrix, steps, _), (_, indices, apart, _) = (
            placed(self._operand_entries(each, self.layout.table(each)), shape, by_blas=False)
            for each, shape in zip(nest.loads, shapes, strict=True)
        )
        if not (steps and apart):
            return None
        rows = nest.shape[1 if nest.code == GATHER else 0]
        return [matrix, indices, rows, nest.shape[2], *steps, apart[0]]

    def _product(self, nest: Nest) -> Step | None:
        """Return the call of BLAS for a product of matrices, after copies of what is scattered; None for all others."""
        if nest.code != MATMUL or nest.opaque is not None or nest.shape is None or not blas():
            return None
        constant = [bool((references_in(operands) < 0).all()) for operands in nest.loads]
        if all(constant):
            return None
        matrices, operands = [], []
        shapes = operand_shapes(nest.code, nest.shape, nest.opaque, len(nest.loads))
        for load, shape, is_constant in zip(nest.loads, shapes, constant, strict=True):
            _, start, strides, table = placed(self._operand_entries(load, self.layout.table(load)), shape)
            if table is None:
                operand: int | Floats = start
            elif is_constant:
                operand = np.append(0.0, self.constants)[table]
            else:
                first = self.layout.reserve(len(load))
                self._add(Nest(len(load), (load,), (first,), (first,), body=copying()))
                operand = self.layout.place(first)
            matrices.append(OperandLayout(*shape, *(strides or (shape[1], 1))))
            operands.append(operand)
        starts = [operand for operand in operands if isinstance(operand, int)]
        chosen = call_of_product(*matrices, is_square=len(starts) == 2 and starts[0] == starts[1])
        if chosen is None:
            return None
        lengths = [(each.rows - 1) * each.down + (each.columns - 1) * each.along + 1 for each in matrices]
        return Step(chosen[0], nest, 0.0, tuple(operands), tuple(chosen[1]), tuple(lengths))

    def of_matrices(self, step: Step) -> OfMatrices:
        """Return an operation that Python calls."""
        constant = [bool((references_in(operands) < 0).all()) for operands in step.nest.loads]
        places = [self._operand_entries(operands, self.table(operands)) for operands in step.nest.loads]
        return OfMatrices(step.nest, places, constant)

    def _operand_entries(self, operands: Column, table: NDArray[np.int32] | None) -> Entries:
        if isinstance(operands, Range):
            return self.layout.place(operands.start), operands.step
        assert table is not None
        return table

    def addresses(self, step: Step, base: int, size: int = 8) -> tuple[list[int], list[tuple[int, Place]]]:
        """Return the addresses that a loop takes, 0 for returned arrays, and (position, place) of the latter.

        Args:
            step: step of the program.
            base: address of the workspace.
            size: bytes of a number in the workspace.
        """
        nest, words, places = step.nest, [base], []
        if isinstance(nest.opaque, SparseMatrix):
            assert nest.shape is not None
            held, columns, n = nest.opaque, self._columns(step, nest.opaque), nest.shape[2]
            words += [address_of(held.starts), address_of(held.entries), len(columns)]
            for k, (start, where, at) in enumerate(columns):
                words += [base + size * start, address_of(where), 0, n]
                result = nest.stores[k // n if len(nest.stores) > 1 else 0]
                if isinstance(result, Place):
                    places.append((len(words) - 2, replace(result, offset=result.offset + at)))
                else:
                    words[-2] = base + size * (self.layout.place(result) + at)
            return words, places
        if step.operands:
            (result,), (function, *numbers) = nest.stores, step.numbers
            words.append(function)
            words += [base + size * at if isinstance(at, int) else address_of(at) for at in step.operands]
            words += [0, *numbers]
            if isinstance(result, Place):
                return words, [(4, result)]
            words[4] = base + size * self.layout.place(result)
            return words, []
        if nest.code in LOOKUPS:
            (result,), entries = nest.stores, self._entries(nest)
            assert entries is not None
            matrix, indices, *numbers = entries
            words += [base + size * matrix, base + size * indices, 0, *numbers]
            if isinstance(result, Place):
                return words, [(3, result)]
            words[3] = base + size * self.layout.place(result)
            return words, []
        grid = step.grid if size == 8 else None
        if isinstance(grid, Across):
            words += [address_of(grid.starts), address_of(grid.positions), grid.terms, grid.step]
        else:
            for k, operands in enumerate(nest.loads):
                table = self.table(operands) if grid is None else grid.tables[k]
                if table is None:
                    assert isinstance(operands, Range)
                    words.append(base + size * self.layout.place(operands.start))
                else:
                    words.append(address_of(table))
            if nest.offsets is not None:
                words.append(address_of(nest.offsets))
        for result in nest.stores:
            if isinstance(result, Place):
                places.append((len(words), result))
                words.append(0)
            else:
                words.append(base + size * self.layout.place(result))
        if nest.positions is not None:
            words.append(address_of(nest.positions))
        if isinstance(grid, Grid):
            words += [grid.length, *grid.steps]
        return words, places


def overlap(operands: Column, start: int, count: int) -> bool:
    """Return True if a column has any of `count` references from `start` on."""
    if isinstance(operands, Range):
        low, high = operands.ends
        return low < start + count and high >= start
    return bool(((operands >= start) & (operands < start + count)).any())


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first entry."""
    address: int = array.__array_interface__["data"][0]
    return address
