"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

Functions for bodies and sums (`accumulus.targets.llvm.bodies`) take addresses from a table. Results that other loops
use are in one array of numbers, the workspace; other results are stored in the returned arrays directly, if possible.

Sums are separate loops; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed step
by step: in vectors where a step has enough instances; consecutive narrow steps are one call, one instance after the
other. One function calls all loops, from a table of calls; several threads may each compute a part of long loops.

For one point, lanes are instances. For as many points as a vector has lanes, lanes are points, and instances run one
after the other. Then steps of recurrences with few instances use vectors, too, and all of these points share the cost
of a call. Each number of the workspace is a vector; NumPy copies arguments into it, and results out of it. Sums add
their terms in the same order, so that a point has the same results in a batch as alone. Which way is quicker is
measured on points of the batch.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.columns import Range
from accumulus.tape.operations import SECONDS
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.targets.kernel import (
    MINIMUM_WORK,
    SLICE,
    Batch,
    CallRows,
    Floats,
    Unit,
    aligned,
    pool,
    reused,
)
from accumulus.targets.llvm.bodies import APART, DRIVER, REPEAT, compile_loops, compiled_for_points, repeating
from accumulus.targets.llvm.entry_points import unpacking_table
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.library import EITHER, LOOPS, POINTS, Library, builtin
from accumulus.targets.llvm.llvm_kernel import MakesResults, shared_library
from accumulus.targets.llvm.rows import LOOKUPS, SPARSE_ROWS
from accumulus.targets.llvm.shared_code import STATE
from accumulus.targets.llvm.steps import Step, Steps, address_of, overlap
from accumulus.targets.llvm.vectors import Signature
from accumulus.targets.nests import Place

#: Part of the table of calls: address, number of rows, and True if threads share them; without rows, number of a step.
Stage = tuple[int, int, bool]
#: Bytes of a row in the table of calls.
ROW: Final = 32

#: Rows are copied if they have fewer numbers than this for each of their addresses, and for four more. A larger number
#: copies rows of long arrays, a smaller one changes addresses of short ones.
COPIED: Final = 32

#: Largest workspace of the compiled function for one point, in bytes. Programs with larger ones take longer than Python
#: does between their loops; with fewer, it does in more of them.
MOST_OF_ENTRY: Final = 1 << 22
#: Largest number of bytes of all points that are computed together. More would take memory that other programs need;
#: fewer leave points of long loops to be computed in turn.
MOST_IN_LANES: Final = 1 << 27
#: Number of vectors of points whose time is compared with that of points one after the other; the first one makes code
#: and memory. Fewer let noise decide, more compute more points in the slower way.
MEASURED: Final = 3
#: Number of points that pass through the stages together, if functions that the program calls compute many points at
#: once. With fewer, such functions have less to share; with more, less memory stays in caches.
MOST_TOGETHER: Final = 1024
#: Seconds to compile for points in lanes, and for each operation of a body; and seconds of a call besides its loops.
#: Larger times of compiling keep batches out of lanes for longer, smaller ones compile for batches that end sooner.
LANES, LANES_AN_OPERATION, CALL = 1e-2, 1e-4, 1e-5


class LLVMLoops(MakesResults):
    """Kernel of loops in machine code: for one point, and for points in lanes once many were computed.

    Raises:
        SizeError: if there are too many numbers between loops.
    """

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        start = time.perf_counter()
        self._lowered = Steps(unit)
        self._steps, self._layout = self._lowered.every, self._lowered.layout
        #: For each result array, True if it has to hold zeros before a call.
        self._cleared = self._lowered.cleared
        self._lanes = host().vector_bytes // 8
        # functions of vectors, and of one lane for parts with fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, self._lanes), (False, 1)):
            loops = [step for step in self._steps if step.function]
            functions = {step.function for step in loops if (step.parts(self._lanes)[1] == is_wide).any()}
            if functions:
                bodies = [body for body in self._lowered.bodies.values() if body.name in functions]
                self._libraries[is_wide] = compile_loops(bodies, width, unit.cache, functions)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        self._products = {k: self._lowered.of_matrices(step) for k, step in enumerate(self._steps) if not step.function}
        #: Workspaces that no call uses, by the number of points in lanes.
        self._idle: dict[int, list[_Workspace]] = {1: [], self._lanes: []}
        #: Addresses of repeated calls, by the number of points in lanes and of the entries of each argument.
        self._followed: dict[tuple[int, ...], _Followed] = {}
        self._lengths = unit.lengths
        #: Compiled functions for one point, by the number of threads.
        self._compiled: dict[int, _Entry | None] = {}
        #: Seconds in which points of batches were computed one after the other, number of these points, and seconds of
        #: the first vectors of points.
        self._spent, self._points_in_turn = 0.0, 0
        self._spent_in_lanes: list[float] = []
        #: The code for points in lanes, once there is any; and whether it takes less time than one point after another.
        self._library: Library | None = None
        self._compiling = threading.Lock()
        self._pays_in_lanes: bool | None = None
        self.seconds["compile"] = time.perf_counter() - start

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Compute the results at one point; see `Kernel`."""
        results = tuple(
            np.zeros(length) if cleared else aligned((length,), self.dtype)
            for length, cleared in zip(self._lengths, self._cleared, strict=True)
        )
        self._compute_arrays(self._point(x), results, self._unit.threads, 1)
        return results

    def compute(self, arguments: Sequence[Floats], results: Sequence[Floats]) -> None:
        """Compute one point; see `Kernel.compute`."""
        for result, cleared in zip(results, self._cleared, strict=True):
            if cleared:
                result[:] = 0.0
        self._compute_arrays(arguments, results, self._unit.threads, 1)

    def in_lanes(self, arguments: Sequence[Floats], results: Sequence[Floats]) -> None:
        """Compute points in lanes; see `Kernel.in_lanes`."""
        self._compute_arrays(arguments, results, 1, self._lanes)

    def point(self) -> Callable[..., Any]:
        """Return a function for calls at one point, compiled if the workspace is small; see `Kernel.point`."""
        compute, entry = super().point(), self._entry_for(self._unit.threads)
        if entry is None:
            return compute
        shared = shared_library(self.dtype)
        return builtin("point", shared.addresses[EITHER], entry.point, compute, shared)

    def _entry_for(self, threads: int) -> _Entry | None:
        if threads not in self._compiled:
            self._compiled[threads] = self._entry(threads)
        return self._compiled[threads]

    def _entry(self, threads: int) -> _Entry | None:
        """Return compiled functions for one point and for many, with a workspace of their own, if that is small."""
        shapes = self.arguments
        if self._products or any(self._cleared) or 8 * self._layout.size > MOST_OF_ENTRY:
            return None
        workspace = self._workspace(1)
        stages = workspace.stages(self, threads)
        if len(stages) != 1 or stages[0][2]:
            return None
        ((calls, rows, _),) = stages
        signature = Signature(shapes, (False,) * len(shapes), tuple(self._lengths), 8)
        table = np.array(unpacking_table(signature), np.int64)
        sizes = np.array([math.prod(shape) for shape in shapes], np.int64)
        returned = [(index, len(shapes) + segment, offset) for index, segment, offset in workspace.returned]
        places = np.array(returned, np.int64).reshape(-1, 3)
        library = next(iter(self._libraries.values()))
        words = {
            "busy": 0,
            "table": address_of(table),
            "arguments": len(shapes),
            "objects": len(signature.names),
            "first": address_of(workspace.values) + 8 * self._layout.first,
            "sizes": address_of(sizes),
            "addresses": address_of(workspace.addresses),
            "returned": len(places),
            "places": address_of(places),
            "calls": calls,
            "rows": rows,
            "run": library.addresses[DRIVER],
        }
        state = np.array([words[name] for name in STATE], np.int64)
        shared = shared_library(np.dtype(float))
        owners = (table, sizes, places, workspace, self._libraries, shared)
        pointers = [ctypes.c_void_p] * 3
        points = ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(shared.addresses[POINTS])
        return _Entry(builtin("point", shared.addresses[LOOPS], state, owners), points, state, owners)

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
        self._run_stages(workspace, workspace.stages(self, threads), results, threads)

    def _run_stages(
        self, workspace: _Workspace, stages: Sequence[Stage], results: Sequence[Floats], threads: int = 1
    ) -> None:
        for index, segment, offset in workspace.returned:
            workspace.addresses[index] = address_of(results[segment]) + offset
        for calls, rows, together in stages:
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
        """Make calls in turn; see `Kernel.repeat`."""
        if self._products:
            super().repeat(count, arguments, results)
            return
        lanes = arguments[0].array.shape[2] if arguments[0].points else 1
        workspace = self._reused(lanes)
        sizes = [rows.array.shape[1] for rows in arguments]
        cleared = self._cleared
        if True in cleared:
            cleared = [is_cleared and not rows.zeroed for rows, is_cleared in zip(results, cleared, strict=True)]
        key = (lanes, *sizes, *cleared)
        followed = self._followed.get(key)
        if followed is None:
            followed = self._followed[key] = self._addresses_of(sizes, cleared, workspace)
        moves: list[tuple[int, ...]] = []
        # addresses of the first rows that are followed, and distances in bytes to the next ones
        starts, steps = [0] * len(followed.copied), [0] * len(followed.copied)
        base, at = address_of(workspace.values), self._layout.first
        for k, (rows, size) in enumerate(zip(arguments, sizes, strict=True)):
            row = 8 * size * lanes
            start, step = address_of(rows.array) + row * rows.first, row * rows.step
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
            start, step = address_of(rows.array) + row * rows.first, row * rows.step
            if rows.adds or followed.copied[k]:
                made.append(np.zeros(size))
                moves.append((start, address_of(made[-1]), size, step, 0, rows.adds))
                start = moves[-1][1]
            else:
                steps[k] = step
            starts[k] = start
        table = np.array(moves, np.int64)
        for index, segment, offset in workspace.returned:
            workspace.addresses[index] = starts[len(arguments) + segment] + offset
        calls, length, _ = next(iter(workspace.stages(self, 1)), (0, 0, False))  # none if all results are constants
        repeated = calls, length, address_of(table), before, len(moves) - before
        positions = followed.positions
        if not len(positions):
            self._repeat(*repeated, None, 0, count)
        else:
            original, moving = workspace.addresses[positions], np.array([starts, steps])[:, followed.owners]
            workspace.addresses[positions] = moving[0] + followed.offsets
            words = np.array([address_of(workspace.addresses) + 8 * positions, moving[1]]).T.copy()
            self._repeat(*repeated, address_of(words), len(words), count)
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
                if not overlap(operands, start, size):
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
        values[1 : self._layout.first] = np.reshape(self._lowered.constants, (-1, 1))
        flat = values.reshape(-1)
        if lanes == 1:
            values = flat
        one = None
        if lanes > 1 and (self._products or any(step.is_apart for step in self._steps)):
            one = self._workspace(1)
            one.results.extend(np.zeros(length) for length in self._lengths)
            for index, segment, offset in one.returned:
                one.addresses[index] = address_of(one.results[segment]) + offset
        base = address_of(values)
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
            words, places = self._lowered.addresses(step, base, 8 * lanes)
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
        step, places = self._steps[k], self._places(k)
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

    def _places(self, k: int) -> list[NDArray[np.int32]]:
        """Return the places of the operands of a step in the workspace, one array for each operand."""
        places = []
        for operands in self._steps[k].nest.loads:
            table = self._lowered.table(operands)
            if table is None:
                assert isinstance(operands, Range)
                table = self._layout.place(operands.start) + operands.step * np.arange(operands.count, dtype=np.int32)
            places.append(table)
        return places

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
                table = self._lowered.table(operands)
                if table is None:
                    assert isinstance(operands, Range)
                    low, high = operands.ends
                    spans.append((self._layout.place(low), high - low + 1))
                else:
                    spans.append((int(table.min()), int(np.ptp(table)) + 1))
        read = [(at, count) for at, count in spans if isinstance(at, int)]
        ((first, stop),), (is_wide,) = step.parts(lanes)
        words = [base, self._libraries[bool(is_wide)].addresses[step.function]]
        words += [address_of(one.addresses) + 8 * one.begins[k], first, stop, len(read), 1]
        alone = address_of(one.values)
        for at, count in read:
            words += [alone + 8 * at, base + 8 * lanes * at, count, 1, lanes]
        (result,), size = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            made = address_of(one.results[result.segment]) + 8 * result.offset
            return [*words, 0, made, size, lanes, 1], [(len(words), result)]
        at = self._layout.place(result)
        return [*words, base + 8 * lanes * at, alone + 8 * at, size, lanes, 1], []

    def _target(self, values: Floats, step: Step) -> Callable[[Sequence[Floats]], Floats]:
        """Return a function from the returned arrays to the memory in which a product is stored."""
        ((result,), size) = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            segment, positions = result.segment, slice(result.offset, result.offset + size)
            return lambda results: results[segment][positions]
        stored = values[self._layout.place(result) :][:size]
        return lambda results: stored

    def _rows(self, step: Step, threads: int) -> tuple[NDArray[np.int64], bool]:
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

    def _row_of_points(self, step: Step) -> NDArray[np.int64]:
        """Return the call of a step for points in lanes without its addresses; compile missing code."""
        with self._compiling:  # a second library would free the code of the first one, which a thread may run
            if self._library is None:
                is_sparse = any(each.function == SPARSE_ROWS for each in self._steps)
                bodies = [*self._lowered.bodies_of_points.values()]
                self._library = compiled_for_points(bodies, self._lanes, self._unit.cache, is_sparse)
        name = APART if step.is_apart else step.of_points or step.function
        return np.array([[self._library.addresses[name], 0, 0, step.count]], np.int64)

    def calls(self, workspace: _Workspace, threads: int) -> tuple[NDArray[np.int64], list[Stage]]:
        """Return the table of calls, and its stages: address, number of rows, and True if threads share the rows.

        Operations on matrices are stages without rows, with the number of the step instead of an address.
        """
        tables: list[NDArray[np.int64]] = []
        stages: list[Stage] = []
        first = address_of(workspace.addresses)
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
        at = address_of(calls)
        return calls, [(at + ROW * row if count else row, count, together) for row, count, together in stages]

    # Many points ---------------------------------------------------------------------------------------------------

    @cached_property
    def fills_lanes(self) -> bool:  # type: ignore[override]
        """True if the memory of points in lanes fits caches."""
        called = [self._steps[k].nest.opaque for k in self._products]
        numbers = self._layout.size + sum(self._lengths) + sum(getattr(each, "numbers_kept", 0) for each in called)
        return 8 * self._lanes * numbers <= MOST_IN_LANES

    @property
    def fewest_points(self) -> int:  # type: ignore[override]
        """Number of points of which a thread computes a multiple: vectors of them, if they fill lanes."""
        return self._lanes if self.fills_lanes else 1

    @cached_property
    def point_seconds(self) -> float:
        """Approximate seconds of a call; functions of unknown length take long enough for threads."""
        return self._seconds(MINIMUM_WORK)

    @cached_property
    def most_points(self) -> int:
        """Number of points between two checks for Ctrl-C; functions of unknown length check for themselves.

        They may take less time for many points at once, so that their number does not divide batches.
        """
        return max(1, int(SLICE / self.fewest_points / self._seconds(0.0))) * self.fewest_points

    def _seconds(self, unknown: float) -> float:
        """Return the approximate seconds of a call, with so many for functions of unknown length."""
        called = [getattr(self._steps[k].nest.opaque, "operations", unknown / SECONDS) for k in self._products]
        return float(CALL + sum(step.seconds for step in self._steps) + SECONDS * sum(called))

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points of a batch; see `Kernel.run`."""
        lanes = self._lanes
        together = {k for k in self._products if batch.points >= self._points_together(k)}
        if together:
            self._stage_by_stage(batch, first, last, together)
            return
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
        operations = sum(body.tape.operations for body in self._lowered.bodies_of_points.values())
        operations += sum(getattr(self._steps[k].nest.opaque, "text", 0) for k in self._products)
        return self._spent >= LANES + LANES_AN_OPERATION * operations

    def _together(self, batch: Batch, first: int, last: int) -> None:
        """Compute points in lanes, as many at a time as there are lanes."""
        lanes = self._lanes
        workspace = self._reused_in_lanes()
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

    def _reused_in_lanes(self) -> _Workspace:
        """Return a workspace of points in lanes, with memory for their results."""
        workspace = self._reused(self._lanes)
        if not workspace.results:  # structural zeros of a result are not stored
            workspace.results.extend(np.zeros((length, self._lanes)) for length in self._lengths)
        return workspace

    def _points_together(self, k: int) -> int:
        """Return the number of points of a batch from which on a step computes all of them at once."""
        points: int = getattr(self._steps[k].nest.opaque, "points_together", sys.maxsize)
        return points

    def _stage_by_stage(self, batch: Batch, first: int, last: int, together: Collection[int]) -> None:
        """Compute points in lanes; steps that compute all points at once wait until all are there."""
        lanes, workspace = self._lanes, self._reused_in_lanes()
        parts: list[tuple[list[Stage], int]] = [([], -1)]
        for stage in workspace.stages(self, 1):
            if not stage[1] and stage[0] in together:
                parts[-1] = parts[-1][0], stage[0]
                parts.append(([], -1))
            else:
                parts[-1][0].append(stage)
        most = lanes * min(MOST_TOGETHER // lanes, 1 + MOST_IN_LANES // (workspace.values.nbytes + 1))
        for start in range(first, last, most):
            points = slice(start, min(start + most, last))
            # vectors of points, one after the other: memory that each has in the workspace, and its results
            groups = -(-(points.stop - start) // lanes)
            kept = [np.repeat(array[np.newaxis], groups, axis=0) for array in (workspace.values, *workspace.results)]
            values, results = kept[0], kept[1:]
            begin = self._layout.first
            for x, same in zip(batch.arguments(points), batch.shared, strict=True):
                count = 1 if same else points.stop - start
                columns = x.reshape(-1, count) if same or batch.transposed else x.reshape(count, -1).T
                values[:, begin : begin + len(columns)] = _in_groups(columns, lanes)
                begin += len(columns)
            for stages, call in parts:
                for arrays in zip(*kept, strict=True) if stages else ():
                    for array, saved in zip((workspace.values, *workspace.results), arrays, strict=True):
                        array[:] = saved
                    self._run_stages(workspace, stages, workspace.results)
                    for array, saved in zip((workspace.values, *workspace.results), arrays, strict=True):
                        saved[:] = array
                if call >= 0:
                    self._call_together(call, values, results, points.stop - start)
            batch.store(points, [_in_columns(each, points.stop - start) for each in results])
        self._idle[lanes].append(workspace)

    def _call_together(self, k: int, values: Floats, results: Sequence[Floats], count: int) -> None:
        """Call the function of a step for all points, whose workspaces are (groups, numbers, lanes)."""
        step, (places,) = self._steps[k], self._places(k)
        opaque: Any = step.nest.opaque
        made = opaque.in_lanes(_in_columns(values[:, places], count))
        ((result,), size) = step.nest.stores, step.nest.count
        into = results[result.segment] if isinstance(result, Place) else values
        at = result.offset if isinstance(result, Place) else self._layout.place(result)
        into[:, at : at + size] = _in_groups(made, self._lanes)

    def _in_turn(self, batch: Batch, first: int, last: int) -> None:
        """Compute one point after the other, without Python in between where that is possible."""
        if self._products or batch.transposed:
            super().run(batch, first, last)
            return
        entry = self._entry_for(1)
        if entry is not None and entry.run(batch, first, last):
            return
        if not batch.zeroed:
            for array, cleared in zip(batch.out, self._cleared, strict=True):
                if cleared:
                    array[first:last] = 0.0
        arguments = [
            CallRows(x.reshape(1, -1), step=0) if same else CallRows(x.reshape(len(x), -1), first)
            for x, same in zip(batch.X, batch.shared, strict=True)
        ]
        self.repeat(last - first, arguments, [CallRows(array, first, zeroed=True) for array in batch.out])


def _in_groups(columns: Floats, lanes: int) -> Floats:
    """Return columns in vectors, (vectors, rows, lanes); the last column fills the last vector, one column all."""
    rows, count = columns.shape
    if count > 1 or lanes == 1:
        columns = np.pad(columns, ((0, 0), (0, -count % lanes)), mode="edge")
        return np.moveaxis(columns.reshape(rows, -1, lanes), 1, 0)
    return columns


def _in_columns(vectors: Floats, count: int) -> Floats:
    """Return the first `count` columns of vectors, (rows, count); see `_in_groups`."""
    return np.moveaxis(vectors, 1, 0).reshape(vectors.shape[1], -1)[:, :count]


class _Entry(NamedTuple):
    """Compiled functions for one point and for many, see `accumulus.targets.llvm.shared_code`."""

    point: Callable[..., Any]  # that Python calls
    points: Callable[..., int]  # of addresses, their distances, and a number of points
    state: NDArray[np.int64]
    owners: tuple[Any, ...]  # what the state has addresses of

    def run(self, batch: Batch, first: int, last: int) -> bool:
        """Compute points of a batch in C order; return False if another thread runs the loops."""
        steps = [0 if same else x.strides[0] for x, same in zip(batch.X, batch.shared, strict=True)]
        steps += [array.strides[0] for array in batch.out]
        distances = np.array(steps, np.int64)
        starts = np.array([address_of(x) for x in (*batch.X, *batch.out)], np.int64) + first * distances
        return bool(self.points(address_of(self.state), address_of(starts), address_of(distances), last - first))


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
    tables: dict[int, tuple[NDArray[np.int64], list[Stage]]]  # tables of calls, by number of threads
    one: _Workspace | None = None  # of points in lanes: memory for one of them, with results
    results: list[Floats] = field(default_factory=list)  # results of points in lanes: (entries, points)

    @property
    def lanes(self) -> int:
        """Number of points in lanes."""
        return math.prod(self.values.shape[1:])

    def stages(self, loops: LLVMLoops, threads: int) -> list[Stage]:
        """Return the stages of the table of calls; see `LLVMLoops.calls`."""
        table = self.tables.get(threads)
        if table is None:
            table = self.tables[threads] = loops.calls(self, threads)
        return table[1]
