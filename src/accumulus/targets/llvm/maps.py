"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

Functions for bodies and sums (`accumulus.targets.llvm.bodies`) take addresses from a table. Results that other loops
use are in one array of numbers, the workspace; other results are stored in the returned arrays directly, if possible.

Sums are separate loops; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed step
by step: in vectors where a step has enough instances; consecutive narrow steps are one call, one instance after the
other. One function calls all loops, from a table of calls; several threads may each compute a part of long loops. BLAS
computes products of matrices. Python calls LAPACK and opaque functions between loops. Products with constant sparse
matrices are loops over rows, several products with one matrix together.

For one point, lanes are instances. For as many points as a vector has lanes, lanes are points, and instances run one
after the other. Then steps of recurrences with few instances use vectors, too, and all of these points share the cost
of a call. Each number of the workspace is a vector; NumPy copies arguments into it, and results out of it. Sums add
their terms in the same order, so that a point has the same results in a batch as alone. Which way is quicker is
measured on points of the batch, where both are possible.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from accumulus.targets.kernel import (
    FEWEST_POINTS,
    MINIMUM_WORK,
    MOVING,
    SLICE,
    Batch,
    CallRows,
    CompiledLoops,
    Floats,
    Unit,
    aligned,
    pool,
    reused,
)
from accumulus.targets.llvm.bodies import (
    ACROSS,
    APART,
    BACKWARD,
    DRIVER,
    FORWARD,
    POINT_SUMS,
    REPEAT,
    ROW_FORWARD,
    ROW_STRIDED,
    ROW_UNIFORM,
    SCATTERED,
    SUMS,
    TABLE,
    UNIFORM,
    BodyFunction,
    beside,
    compile_loops,
    compiled_for_points,
    repeating,
)
from accumulus.targets.llvm.grids import Across, Rows, divided, grid_of
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.products import PRODUCTS, OperandLayout, call_of_product
from accumulus.targets.llvm.rows import LOOKUPS, SPARSE_LANES, SPARSE_ROWS
from accumulus.targets.nests import Entries, Nest, Nests, OfMatrices, Place, WorkspaceLayout, copying, placed

#: Bytes of a row in the table of calls.
ROW: Final = 32
#: Approximate seconds to locate a number by a table. A larger estimate starts threads and compiles lanes for too little
#: work, a smaller one leaves cores idle.
FINDING: Final = 6e-10


#: Rows are copied if they have fewer numbers than this for each of their addresses, and for four more. A larger number
#: copies rows of long arrays, a smaller one changes addresses of short ones.
COPIED: Final = 32

#: Sums of this many vectors of terms in the mean add vectors, however few sums there are. A larger number adds terms of
#: long sums one by one, a smaller one adds vectors up that have few terms.
LONG_SUMS: Final = 2
#: Largest number of bytes of all points that are computed together: half of what processors' last caches hold. With
#: eight lanes, gradients through 6,000 steps of a loop (4.6 MB) take 30 us a point instead of 115, and sums over 30,000
#: gathered numbers (4.4 MB) 69 instead of 167; elementwise operations on 100,000 numbers (26 MB) would take 926 instead
#: of 690 (no command measures this).
MOST_IN_LANES: Final = 1 << 27
#: Number of vectors of points whose time is compared with that of points one after the other; the first one makes code
#: and memory. Fewer let noise decide, more compute more points in the slower way.
MEASURED: Final = 3
#: Seconds to compile for points in lanes, and for each operation of a body; and seconds of a call besides its loops.
#: Larger times of compiling keep batches out of lanes for longer, smaller ones compile for batches that end sooner.
LANES, LANES_AN_OPERATION, CALL = 1e-2, 1e-4, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Rows of instances of a loop, see `accumulus.targets.llvm.grids`."""

    rows: int  # number of rows
    length: int  # number of instances of each
    tables: tuple[NDArray[np.int32] | None, ...]  # of operands: places of rows, or of all instances; None for ranges
    steps: tuple[int, ...]  # distances of neighbours, of the operands that need them

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Calls of a loop, a product of matrices, or an operation that Python calls."""

    function: str  # name of its function; empty for operations that Python calls
    nest: Nest  # loop nest that it computes
    seconds: float  # approximate time
    # of products: for each operand its place in the workspace, or its constants; and the further arguments
    operands: tuple[int | Floats, ...] = ()
    numbers: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()  # of products: numbers from the first to the last of each operand
    of_points: str = ""  # name of its function for points in lanes
    grid: _Grid | Across | None = None  # how a single point finds its operands, instead of by tables
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


class LLVMLoops(CompiledLoops):
    """A program over arrays as machine code: for one point, and for points in lanes once many were computed.

    Raises:
        SizeError: if there are too many numbers between loops.
    """

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self._constants = unit.tape.constants[::-1]
        nests = Nests(unit)
        self.cleared = nests.cleared
        self._layout = WorkspaceLayout(unit.tape, nests.kept)
        #: Bodies for a single point, and for points in lanes.
        self._bodies: dict[object, BodyFunction] = {}
        self._bodies_of_points: dict[object, BodyFunction] = {}
        #: Tables of the places of operands, by the identity of their columns; and the operands of each packed row.
        self._tables: dict[int, NDArray[np.int32] | None] = {}
        self._packed: dict[bytes, NDArray[np.int32]] = {}
        self._steps: list[_Step] = []
        #: Columns that sparse matrices are multiplied with, by step.
        self._sparse: dict[int, list[tuple[int, NDArray[np.int32], int]]] = {}
        self._lanes = host().vector_bytes // 8
        for nest in nests.every:
            for part in divided(nest, self._lanes, FINDING):
                self._add(part)
        # functions of vectors, and of one lane for parts with fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, self._lanes), (False, 1)):
            loops = [step for step in self._steps if step.function]
            functions = {step.function for step in loops if (step.parts(self._lanes)[1] == is_wide).any()}
            if functions:
                bodies = [body for body in self._bodies.values() if body.name in functions]
                self._libraries[is_wide] = compile_loops(bodies, width, unit.cache, functions)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        # tables that rows took the place of: where points are computed in lanes, they are made again
        needed = {id(each) for step in self._steps for each in step.nest.loads if step.finds(each, self._tables)}
        self._tables = {column: table for column, table in self._tables.items() if column in needed}
        self._products = {k: self._of_matrices(step) for k, step in enumerate(self._steps) if not step.function}
        #: Workspaces that no call uses, by the number of points in lanes.
        self._idle: dict[int, list[_Workspace]] = {1: [], self._lanes: []}
        #: Addresses of repeated calls, by the number of points in lanes and of the entries of each argument.
        self._followed: dict[tuple[int, ...], _Followed] = {}
        self._lengths = unit.lengths
        #: Seconds in which points of batches were computed one after the other, number of these points, and seconds of
        #: the first vectors of points.
        self._spent, self._points_in_turn = 0.0, 0
        self._spent_in_lanes: list[float] = []
        #: The code for points in lanes, once there is any; and whether it takes less time than one point after another.
        self._library: Library | None = None
        self._compiling = threading.Lock()
        self._pays_in_lanes: bool | None = None

    # Construction --------------------------------------------------------------------------------------------------

    def _add(self, nest: Nest) -> None:
        if nest.body is not None:
            self._add_body(nest, nest.body)
        elif nest.code in LOOKUPS and self._entries(nest) is not None:
            self._steps.append(_Step(LOOKUPS[nest.code], nest, nest.count * (FINDING + MOVING)))
        elif isinstance(nest.opaque, SparseMatrix):
            self._add_sparse(nest, nest.opaque)
        elif nest.shape is not None:
            self._steps.append(self._product(nest) or _Step("", nest, 0.0))
        else:
            (terms,) = nest.loads
            is_next = isinstance(terms, Range) and terms.step == 1
            if not is_next:
                nest = replace(nest, loads=(references_in(terms),))
            is_wide = nest.count >= self._lanes or len(terms) >= LONG_SUMS * self._lanes * nest.count
            table, across = self._table(nest.loads[0]), None
            if table is not None and nest.offsets is not None:
                across = Across.of(table, nest.offsets, self._lanes)
            seconds = len(terms) * (SECONDS + (MOVING if is_next or across else FINDING))
            function, of_points = SUMS[not is_next], POINT_SUMS[SUMS[not is_next], is_wide]
            function = ACROSS if across else function
            step = _Step(function, nest, seconds, of_points=of_points, grid=across, has_wide_sums=is_wide)
            self._steps.append(step)

    def _add_body(self, nest: Nest, body: Tape) -> None:
        """Add a loop over a body, by rows where its operands lie in a grid."""
        ranges = {1: FORWARD, -1: BACKWARD, 0: UNIFORM}
        kinds = tuple(ranges[each.step] if isinstance(each, Range) else TABLE for each in nest.loads)
        stores = (FORWARD if nest.positions is None else SCATTERED,) * len(nest.stores)
        computing = SECONDS * time_of(body)
        of_points = self._function(self._bodies_of_points, nest, body, kinds, stores)
        grid = None
        if nest.steps is None and nest.positions is None and TABLE in kinds and nest.count >= 2 * self._lanes:
            tables = [None if isinstance(each, Range) else self._table(each) for each in nest.loads]
            found = grid_of(tables, self._lanes, computing + MOVING * len(nest.stores), FINDING, MOVING)
            if found is not None:
                kinds, grid = self._grid(nest, kinds, tables, *found)
        moving = sum(FINDING if kind == TABLE else MOVING for kind in kinds) + MOVING * len(nest.stores)
        function = self._function(self._bodies, nest, body, kinds, stores)
        seconds = nest.count * (computing + moving)
        self._steps.append(_Step(function, nest, seconds, of_points=of_points, grid=grid))

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
    ) -> tuple[tuple[str, ...], _Grid]:
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
                leaders[k] = used
        steps = [leaders[k].step for k in sorted(leaders)]
        return tuple(chosen), _Grid(nest.count // length, length, tuple(places), tuple(steps))

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
            first = self._layout.reserve(len(copied))
            self._add_body(Nest(len(copied), (copied,), (first,), (first,), body=copying()), copying())
            starts = self._layout.place(first) + length * np.arange(len(different), dtype=np.int32)
            self._packed[key] = starts
        return starts[which]

    def _table(self, operands: Column) -> NDArray[np.int32] | None:
        """Return the places of operands; None for ranges."""
        if id(operands) not in self._tables:  # of several threads that are here, all take the table of the first
            self._tables.setdefault(id(operands), self._layout.table(operands))
        return self._tables[id(operands)]

    def _add_sparse(self, nest: Nest, matrix: SparseMatrix) -> None:
        """Add products with a sparse matrix; join them to the previous ones with the same matrix, if independent."""
        assert nest.shape is not None
        n, seconds = nest.shape[2], matrix.nnz * (2 * SECONDS + FINDING)
        if self._in_lanes(nest):
            self._steps.append(_Step(SPARSE_LANES, nest, n // self._lanes * seconds))
            if n % self._lanes:
                self._steps.append(_Step(SPARSE_ROWS, nest, n % self._lanes * seconds))
            return
        before = self._steps[-1].nest if self._steps else nest
        if before.opaque is matrix and before.shape == nest.shape and not self._in_lanes(before) and before is not nest:
            taken, size = nest.loads[0], matrix.shape[0] * n
            if not any(_overlap(taken, start, size) for start in before.starts):
                self._steps.pop()
                joined = [getattr(before, name) + getattr(nest, name) for name in ("loads", "starts", "stores")]
                nest = replace(nest, loads=joined[0], starts=joined[1], stores=joined[2])
        self._steps.append(_Step(SPARSE_ROWS, nest, n * len(nest.loads) * seconds))

    def _in_lanes(self, nest: Nest) -> bool:
        """Return True if the columns that a sparse matrix is multiplied with are adjacent, and fill vectors."""
        (m, _, n), taken = nest.shape or (0, 0, 0), nest.loads[0]
        return min(m, n) >= self._lanes and isinstance(taken, Range) and taken.step == 1

    def _columns(self, step: _Step, matrix: SparseMatrix) -> list[tuple[int, NDArray[np.int32], int]]:
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
                table = self._layout.table(operands)
                if table is None:
                    assert isinstance(operands, Range)
                    start, along = self._layout.place(operands.start), operands.step
                    places = columns if n * along == 1 else columns * np.int32(n * along)
                    factors += [(start + along * j, places, j) for j in each]
                else:
                    factors += [(0, table[j::n][columns], j) for j in each]
            self._sparse[id(step)] = factors
        return factors

    def _entries(self, nest: Nest) -> list[int] | None:
        """Return the arguments of a function for a gather or scatter: places of its matrix and indices, and numbers.

        Return None if the operands are not equally spaced in memory.
        """
        assert nest.shape is not None
        shapes = operand_shapes(nest.code, nest.shape, nest.opaque, len(nest.loads))
        (_, matrix, steps, _), (_, indices, apart, _) = (
            placed(self._operand_entries(each, self._layout.table(each)), shape, by_blas=False)
            for each, shape in zip(nest.loads, shapes, strict=True)
        )
        if not (steps and apart):
            return None
        rows = nest.shape[1 if nest.code == GATHER else 0]
        return [matrix, indices, rows, nest.shape[2], *steps, apart[0]]

    def _product(self, nest: Nest) -> _Step | None:
        """Return the call of BLAS for a product of matrices, after copies of what is scattered; None for all others."""
        if nest.code != MATMUL or nest.opaque is not None or nest.shape is None or not blas():
            return None
        constant = [bool((references_in(operands) < 0).all()) for operands in nest.loads]
        if all(constant):
            return None
        matrices, operands = [], []
        shapes = operand_shapes(nest.code, nest.shape, nest.opaque, len(nest.loads))
        for load, shape, is_constant in zip(nest.loads, shapes, constant, strict=True):
            _, start, strides, table = placed(self._operand_entries(load, self._layout.table(load)), shape)
            if table is None:
                operand: int | Floats = start
            elif is_constant:
                operand = np.append(0.0, self._constants)[table]
            else:
                first = self._layout.reserve(len(load))
                self._add(Nest(len(load), (load,), (first,), (first,), body=copying()))
                operand = self._layout.place(first)
            matrices.append(OperandLayout(*shape, *(strides or (shape[1], 1))))
            operands.append(operand)
        starts = [operand for operand in operands if isinstance(operand, int)]
        chosen = call_of_product(*matrices, is_square=len(starts) == 2 and starts[0] == starts[1])
        if chosen is None:
            return None
        lengths = [(each.rows - 1) * each.down + (each.columns - 1) * each.along + 1 for each in matrices]
        return _Step(chosen[0], nest, 0.0, tuple(operands), tuple(chosen[1]), tuple(lengths))

    def _of_matrices(self, step: _Step) -> OfMatrices:
        constant = [bool((references_in(operands) < 0).all()) for operands in step.nest.loads]
        places = [self._operand_entries(operands, self._table(operands)) for operands in step.nest.loads]
        return OfMatrices(step.nest, places, constant)

    def _operand_entries(self, operands: Column, table: NDArray[np.int32] | None) -> Entries:
        if isinstance(operands, Range):
            return self._layout.place(operands.start), operands.step
        assert table is not None
        return table

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point; see `accumulus.targets.kernel.CompiledLoops`."""
        self._compute_arrays(arguments, results, threads, 1)

    def in_lanes(self, arguments: Sequence[Floats], results: Sequence[Floats]) -> None:
        """Compute points in lanes; see `accumulus.targets.kernel.CompiledLoops`."""
        self._compute_arrays(arguments, results, 1, self._lanes)

    def _compute_arrays(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int, lanes: int) -> None:
        workspace = self._reused(lanes)
        at = self._layout.first * lanes
        for argument in arguments:
            end = at + argument.size
            workspace.flat[at:end] = argument.reshape(-1)
            at = end
        self._compute(workspace, results, threads)
        self._idle[lanes].append(workspace)

    def _compute(self, workspace: _Workspace, results: Sequence[Floats], threads: int = 1) -> None:
        """Compute the results of the arguments in a workspace."""
        for index, segment, offset in workspace.returned:
            workspace.addresses[index] = _address(results[segment]) + offset
        for calls, rows, together in workspace.stages(self, threads):
            if not rows:
                workspace.products[calls](results)
            elif together:
                futures = [pool().submit(self._run, calls + ROW * row, 1) for row in range(1, rows)]
                self._run(calls, 1)
                for future in futures:
                    future.result()
            else:
                self._run(calls, rows)

    def _reused(self, lanes: int) -> _Workspace:
        return reused(self._idle[lanes], lambda: self._workspace(lanes))

    def repeat(self, count: int, arguments: Sequence[CallRows], results: Sequence[CallRows]) -> None:
        """Make calls in turn; see `accumulus.targets.kernel.CompiledLoops`."""
        if self._products:
            super().repeat(count, arguments, results)
            return
        lanes = arguments[0].array.shape[2] if arguments[0].points else 1
        workspace = self._reused(lanes)
        sizes = [rows.array.shape[1] for rows in arguments]
        cleared = self.cleared
        if True in cleared:
            cleared = [is_cleared and not rows.zeroed for rows, is_cleared in zip(results, cleared, strict=True)]
        key = (lanes, *sizes, *cleared)
        followed = self._followed.get(key)
        if followed is None:
            followed = self._followed[key] = self._addresses_of(sizes, cleared, workspace)
        moves: list[tuple[int, ...]] = []
        # addresses of the first rows that are followed, and distances in bytes to the next ones
        starts, steps = [0] * len(followed.copied), [0] * len(followed.copied)
        base, at = _address(workspace.values), self._layout.first
        for k, (rows, size) in enumerate(zip(arguments, sizes, strict=True)):
            row = 8 * size * lanes
            start, step = _address(rows.array) + row * rows.first, row * rows.step
            if not followed.copied[k]:
                starts[k], steps[k] = start, step
            elif step:
                moves.append((base + 8 * at * lanes, start, size * lanes, 0, step, 0))
            else:
                workspace.values[at : at + size] = rows.at(0)
            at += size
        before, made = len(moves), []
        for k, rows in enumerate(results, len(arguments)):
            size = rows.array.shape[1] * lanes
            row = 8 * size
            start, step = _address(rows.array) + row * rows.first, row * rows.step
            if rows.adds or followed.copied[k]:
                made.append(np.zeros(size))
                moves.append((start, _address(made[-1]), size, step, 0, rows.adds))
                start = moves[-1][1]
            else:
                steps[k] = step
            starts[k] = start
        table = np.array(moves, np.int64)
        for index, segment, offset in workspace.returned:
            workspace.addresses[index] = starts[len(arguments) + segment] + offset
        calls, length, _ = next(iter(workspace.stages(self, 1)), (0, 0, False))  # none if all results are constants
        repeated = calls, length, _address(table), before, len(moves) - before
        positions = followed.positions
        if not len(positions):
            self._repeat(*repeated, None, 0, count)
        else:
            original, moving = workspace.addresses[positions], np.array([starts, steps])[:, followed.owners]
            workspace.addresses[positions] = moving[0] + followed.offsets
            words = np.array([_address(workspace.addresses) + 8 * positions, moving[1]]).T.copy()
            self._repeat(*repeated, _address(words), len(words), count)
            workspace.addresses[positions] = original
        self._idle[lanes].append(workspace)

    def _addresses_of(self, sizes: Sequence[int], cleared: Sequence[bool], workspace: _Workspace) -> _Followed:
        """Return the addresses that loops take in arguments with so many entries, and in results.

        Results that have to be cleared are computed in memory of their own, and copied.
        """
        copied, found, end = [], [], 0
        lanes = workspace.lanes
        for owner, size in enumerate(sizes):
            start, end = end, end + size
            places = self._addresses_in(start, size, workspace.begins)
            copied.append(places is None or size * lanes < COPIED * (len(places) + 4))
            if not copied[-1]:
                found += [(position, offset * lanes, owner) for position, offset in places or ()]
        places_in = Counter(segment for _, segment, _ in workspace.returned)
        copied += [
            is_cleared or size * lanes < COPIED * (places_in[segment] + 4)
            for segment, (size, is_cleared) in enumerate(zip(self._lengths, cleared, strict=True))
        ]
        for index, segment, offset in workspace.returned:
            if not copied[len(sizes) + segment]:
                found.append((index, offset, len(sizes) + segment))
        positions, offsets, owners = np.array(found, np.int64).reshape(-1, 3).T
        return _Followed(positions, offsets, owners, copied)

    def _addresses_in(self, start: int, size: int, begins: Sequence[int]) -> list[tuple[int, int]] | None:
        """Return the addresses in an argument that loops take: the position of each, and its offset in bytes.

        None if it is also found by tables, in a range with others, or by other operations than loops.

        Args:
            start: reference of its first entry.
            size: number of its entries.
            begins: position of the first address of each step.
        """
        places = []
        for step, begin in zip(self._steps, begins, strict=True):
            nest = step.nest
            is_loop = not (step.operands or nest.code in LOOKUPS or isinstance(nest.opaque, SparseMatrix))
            for k, operands in enumerate(nest.loads):
                if not _overlap(operands, start, size):
                    continue
                if not (is_loop and isinstance(operands, Range)):
                    return None
                low, high = operands.ends
                if low < start or high >= start + size:
                    return None
                places.append((begin + 1 + k, 8 * (operands.start - start)))
        return places

    @cached_property
    def _repeat(self) -> Any:
        address = repeating(self._unit.cache).addresses[REPEAT]
        pairs = [ctypes.c_void_p, ctypes.c_int64]
        return ctypes.CFUNCTYPE(None, *pairs, *pairs, ctypes.c_int64, *pairs, ctypes.c_int64)(address)

    def _workspace(self, lanes: int) -> _Workspace:
        """Return memory for one point, or for points in lanes: a vector for each number."""
        # rows of operands with distances are loaded in whole vectors, of which the last ones may end behind all numbers
        values = aligned((self._layout.size + self._lanes, lanes), np.dtype(float))
        values[:] = 0.0
        values[1 : self._layout.first] = np.reshape(self._constants, (-1, 1))
        flat = values.reshape(-1)
        if lanes == 1:
            values = flat
        one = None
        if lanes > 1 and (self._products or any(step.is_apart for step in self._steps)):
            one = self._workspace(1)
            one.results.extend(np.zeros(length) for length in self._lengths)
            for index, segment, offset in one.returned:
                one.addresses[index] = _address(one.results[segment]) + offset
        base = _address(values)
        addresses: list[int] = []
        begins: list[int] = []
        returned: list[tuple[int, int, int]] = []
        products: dict[int, Callable[[Sequence[Floats]], None]] = {}
        for k, step in enumerate(self._steps):
            begins.append(len(addresses))
            if k in self._products:
                target = self._target(values, step)
                products[k] = (
                    self._products[k].bind(values, target)
                    if one is None
                    else self._bound_in_lanes(k, values, target, one)
                )
                continue
            words, places = self._addresses(step, base, 8 * lanes)
            if one is not None and step.is_apart:
                words, places = self._words_apart(k, base, one)
            returned += [(len(addresses) + at, result.segment, 8 * lanes * result.offset) for at, result in places]
            addresses += words
        return _Workspace(values, flat, np.array(addresses, np.int64), begins, returned, products, {}, one)

    def _bound_in_lanes(
        self, k: int, values: Floats, target: Callable[[Sequence[Floats]], Floats], one: _Workspace
    ) -> Callable[[Sequence[Floats]], None]:
        """Return a function of the returned arrays that computes a step for points in lanes, as Python does.

        Args:
            k: number of the step.
            values: the workspace of points in lanes.
            target: function that returns the result's memory, given the returned arrays.
            one: workspace of one point, for steps that compute one point at a time.
        """
        step, places = self._steps[k], []
        for operands in step.nest.loads:
            table = self._table(operands)
            if table is None:
                assert isinstance(operands, Range)
                table = self._layout.place(operands.start) + operands.step * np.arange(operands.count, dtype=np.int32)
            places.append(table)
        opaque: Any = step.nest.opaque
        if getattr(opaque, "fills_lanes", False):
            return lambda results: np.copyto(target(results), opaque.in_lanes(values[places[0]]))
        read, compute, made = np.unique(np.concatenate(places)), one.products[k], self._target(one.values, step)

        def run(results: Sequence[Floats]) -> None:
            result = target(results)
            for lane in range(values.shape[1]):
                one.values[read] = values[read, lane]
                compute(one.results)
                result[:, lane] = made(one.results)

        return run

    def _words_apart(self, k: int, base: int, one: _Workspace) -> tuple[list[int], list[tuple[int, Place]]]:
        """Return what `_addresses` does for a step that computes one point of many at a time, see `APART`.

        Args:
            k: number of the step.
            base: address of the workspace of points in lanes.
            one: workspace of one point.
        """
        step, lanes = self._steps[k], self._lanes
        if step.operands:
            spans = list(zip(step.operands, step.lengths, strict=True))
        else:
            spans = []
            for operands in step.nest.loads:
                table = self._table(operands)
                if table is None:
                    assert isinstance(operands, Range)
                    low, high = operands.ends
                    spans.append((self._layout.place(low), high - low + 1))
                else:
                    spans.append((int(table.min()), int(np.ptp(table)) + 1))
        read = [(at, count) for at, count in spans if isinstance(at, int)]
        ((first, stop),), (is_wide,) = step.parts(lanes)
        words = [base, self._libraries[bool(is_wide)].addresses[step.function]]
        words += [_address(one.addresses) + 8 * one.begins[k], first, stop, len(read), 1]
        alone = _address(one.values)
        for at, count in read:
            words += [alone + 8 * at, base + 8 * lanes * at, count, 1, lanes]
        (result,), size = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            made = _address(one.results[result.segment]) + 8 * result.offset
            return [*words, 0, made, size, lanes, 1], [(len(words), result)]
        at = self._layout.place(result)
        return [*words, base + 8 * lanes * at, alone + 8 * at, size, lanes, 1], []

    def _addresses(self, step: _Step, base: int, size: int = 8) -> tuple[list[int], list[tuple[int, Place]]]:
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
            words += [_address(held.starts), _address(held.entries), len(columns)]
            for k, (start, where, at) in enumerate(columns):
                words += [base + size * start, _address(where), 0, n]
                result = nest.stores[k // n if len(nest.stores) > 1 else 0]
                if isinstance(result, Place):
                    places.append((len(words) - 2, replace(result, offset=result.offset + at)))
                else:
                    words[-2] = base + size * (self._layout.place(result) + at)
            return words, places
        if step.operands:
            (result,), (function, *numbers) = nest.stores, step.numbers
            words.append(function)
            words += [base + size * at if isinstance(at, int) else _address(at) for at in step.operands]
            words += [0, *numbers]
            if isinstance(result, Place):
                return words, [(4, result)]
            words[4] = base + size * self._layout.place(result)
            return words, []
        if nest.code in LOOKUPS:
            (result,), entries = nest.stores, self._entries(nest)
            assert entries is not None
            matrix, indices, *numbers = entries
            words += [base + size * matrix, base + size * indices, 0, *numbers]
            if isinstance(result, Place):
                return words, [(3, result)]
            words[3] = base + size * self._layout.place(result)
            return words, []
        grid = step.grid if size == 8 else None
        if isinstance(grid, Across):
            words += [_address(grid.starts), _address(grid.positions), grid.terms, grid.step]
        else:
            for k, operands in enumerate(nest.loads):
                table = self._table(operands) if grid is None else grid.tables[k]
                if table is None:
                    assert isinstance(operands, Range)
                    words.append(base + size * self._layout.place(operands.start))
                else:
                    words.append(_address(table))
            if nest.offsets is not None:
                words.append(_address(nest.offsets))
        for result in nest.stores:
            if isinstance(result, Place):
                places.append((len(words), result))
                words.append(0)
            else:
                words.append(base + size * self._layout.place(result))
        if nest.positions is not None:
            words.append(_address(nest.positions))
        if isinstance(grid, _Grid):
            words += [grid.length, *grid.steps]
        return words, places

    def _target(self, values: Floats, step: _Step) -> Callable[[Sequence[Floats]], Floats]:
        """Return a function from the returned arrays to the memory in which a product is stored."""
        ((result,), size) = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            segment, positions = result.segment, slice(result.offset, result.offset + size)
            return lambda results: results[segment][positions]
        stored = values[self._layout.place(result) :][:size]
        return lambda results: stored

    def _rows(self, step: _Step, threads: int) -> tuple[NDArray[np.int64], bool]:
        """Return the calls of a step for one point without its addresses, and True if threads share them."""
        parts, wide = step.parts(self._lanes)
        shares = step.shares(threads)
        together = len(shares) > 1
        if together:
            parts, wide = shares, np.ones(len(shares), bool)
        table = np.empty((len(parts), ROW // 8), np.int64)
        for is_wide, library in self._libraries.items():
            table[wide == is_wide, 0] = library.addresses.get(step.function, 0)
        table[:, 2:] = parts
        return table, together

    def _row_of_points(self, step: _Step) -> NDArray[np.int64]:
        """Return the call of a step for points in lanes without its addresses; compile missing code."""
        with self._compiling:  # a second library would free the code of the first one, which a thread may run
            if self._library is None:
                is_sparse = any(each.function == SPARSE_ROWS for each in self._steps)
                bodies = [*self._bodies_of_points.values()]
                self._library = compiled_for_points(bodies, self._lanes, self._unit.cache, is_sparse)
        name = APART if step.is_apart else step.of_points or step.function
        return np.array([[self._library.addresses[name], 0, 0, step.count]], np.int64)

    def calls(self, workspace: _Workspace, threads: int) -> tuple[NDArray[np.int64], list[tuple[int, int, bool]]]:
        """Return the table of calls, and its stages: address, number of rows, and True if threads share the rows.

        Operations on matrices are stages without rows, with the number of the step instead of an address.
        """
        tables: list[NDArray[np.int64]] = []
        stages: list[tuple[int, int, bool]] = []
        first = _address(workspace.addresses)
        done = 0
        for k, (step, begin) in enumerate(zip(self._steps, workspace.begins, strict=True)):
            if k in self._products:
                stages.append((k, 0, False))
                continue
            if workspace.lanes == 1:
                table, together = self._rows(step, threads)
            else:
                table, together = self._row_of_points(step), False
            table[:, 1] = first + 8 * begin
            tables.append(table)
            if stages and not together and stages[-1][1] and not stages[-1][2]:
                stages[-1] = (stages[-1][0], stages[-1][1] + len(table), False)
            else:
                stages.append((done, len(table), together))
            done += len(table)
        calls = np.concatenate(tables) if tables else np.empty((0, ROW // 8), np.int64)
        at = _address(calls)
        return calls, [(at + ROW * row if count else row, count, together) for row, count, together in stages]

    # Many points ---------------------------------------------------------------------------------------------------

    @cached_property
    def fills_lanes(self) -> bool:  # type: ignore[override]
        """True if the memory of points in lanes fits caches."""
        called = [self._steps[k].nest.opaque for k in self._products]
        numbers = self._layout.size + sum(self._lengths) + sum(getattr(each, "numbers_kept", 0) for each in called)
        return 8 * self._lanes * numbers <= MOST_IN_LANES

    @cached_property
    def _seconds(self) -> float:
        """Approximate seconds of a call."""
        called = [getattr(self._steps[k].nest.opaque, "operations", 0) for k in self._products]
        return CALL + sum(step.seconds for step in self._steps) + SECONDS * sum(called)

    @cached_property
    def most_points(self) -> int:  # type: ignore[override]
        """Number of points between two checks for Ctrl-C."""
        return max(1, int(SLICE / self._seconds / self._lanes)) * self._lanes

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points of a batch; see `accumulus.targets.kernel.CompiledLoops`."""
        lanes = self._lanes
        while first + lanes <= last and self._is_to_be_measured():
            start = time.perf_counter()
            self._together(batch, first, first + lanes)
            self._spent_in_lanes.append(time.perf_counter() - start)
            first += lanes
            if len(self._spent_in_lanes) >= MEASURED:
                self._pays_in_lanes = min(self._spent_in_lanes) * self._points_in_turn < lanes * self._spent
        if self._pays_in_lanes and first + lanes <= last:
            stop = last - (last - first) % lanes
            self._together(batch, first, stop)
            first = stop
        if first < last:
            start = time.perf_counter()
            self._in_turn(batch, first, last)
            self._spent += time.perf_counter() - start
            self._points_in_turn += last - first

    def _is_to_be_measured(self) -> bool:
        """Return True if it is open which way takes less time, and points took as long as compiling for lanes."""
        if self._pays_in_lanes is not None or not self.fills_lanes:
            return False
        operations = sum(body.tape.operations for body in self._bodies_of_points.values())
        operations += sum(getattr(self._steps[k].nest.opaque, "text", 0) for k in self._products)
        return self._spent >= LANES + LANES_AN_OPERATION * operations

    def _together(self, batch: Batch, first: int, last: int) -> None:
        """Compute points in lanes, as many at a time as there are lanes."""
        lanes = self._lanes
        workspace = self._reused(lanes)
        if not workspace.results:  # structural zeros of a result are not stored
            workspace.results.extend(np.zeros((length, lanes)) for length in self._lengths)
        rows, begin = [], self._layout.first
        for x, same in zip(batch.X, batch.shared, strict=True):
            size = x.size if same else x.size // x.shape[-1 if batch.transposed else 0]
            rows.append(workspace.values[begin : begin + size])
            begin += size
            if same:
                rows[-1][:] = x.reshape(-1, 1)
        for start in range(first, last, lanes):
            points = slice(start, start + lanes)
            for x, same, row in zip(batch.arguments(points), batch.shared, rows, strict=True):
                if not same:
                    row[:] = x.reshape(row.shape) if batch.transposed else x.reshape(lanes, len(row)).T
            self._compute(workspace, workspace.results)
            batch.store(points, workspace.results)
        self._idle[lanes].append(workspace)

    def _in_turn(self, batch: Batch, first: int, last: int) -> None:
        """Compute one point after the other, without Python in between where that is possible."""
        if self._products or batch.transposed:
            super().run(batch, first, last)
            return
        if not batch.zeroed:
            for array, cleared in zip(batch.out, self.cleared, strict=True):
                if cleared:
                    array[first:last] = 0.0
        arguments = [
            CallRows(x.reshape(1, -1), step=0) if same else CallRows(x.reshape(len(x), -1), first)
            for x, same in zip(batch.X, batch.shared, strict=True)
        ]
        self.repeat(last - first, arguments, [CallRows(array, first, zeroed=True) for array in batch.out])


@dataclass(frozen=True, slots=True)
class _Followed:
    """Addresses that loops take in arguments and results of repeated calls, which follow their rows."""

    positions: NDArray[np.int64]  # of the addresses
    offsets: NDArray[np.int64]  # bytes from the beginning of the row
    owners: NDArray[np.int64]  # arguments, then results
    copied: list[bool]  # True for arguments and results whose rows are copied instead, from and to the workspace


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Memory of one call."""

    values: Floats  # the workspace: (numbers,), or (numbers, points in lanes)
    flat: Floats  # the same, as one row
    addresses: NDArray[np.int64]  # addresses that loops take
    begins: list[int]  # position of the first address of each step
    # addresses in returned arrays: position, segment, and offset in bytes
    returned: list[tuple[int, int, int]]
    products: dict[int, Callable[[Sequence[Floats]], None]]  # operations on matrices, by step
    tables: dict[int, tuple[NDArray[np.int64], list[tuple[int, int, bool]]]]  # tables of calls, by number of threads
    one: _Workspace | None = None  # of points in lanes: memory for one of them, with results
    results: list[Floats] = field(default_factory=list)  # results of points in lanes: (entries, points)

    @property
    def lanes(self) -> int:
        """Number of points in lanes."""
        return math.prod(self.values.shape[1:])

    def stages(self, loops: LLVMLoops, threads: int) -> list[tuple[int, int, bool]]:
        """Return the stages of the table of calls; see `LLVMLoops.calls`."""
        table = self.tables.get(threads)
        if table is None:
            table = self.tables[threads] = loops.calls(self, threads)
        return table[1]


def _overlap(operands: Column, start: int, count: int) -> bool:
    """Return True if a column has any of `count` references from `start` on."""
    if isinstance(operands, Range):
        low, high = operands.ends
        return low < start + count and high >= start
    return bool(((operands >= start) & (operands < start + count)).any())


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
