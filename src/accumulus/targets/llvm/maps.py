"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

A body is compiled once for the kinds of columns that it takes, whatever their lengths and places: the addresses of
operands, of tables of indices and of results are given with each call. Results that other loops take are in one
array of numbers, the workspace; what is returned is stored in the arrays that are returned, where that can be.

Sums are loops of their own; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed
step by step: lanes where a step has instances enough, and narrow steps in one call, one instance after the other. One
function, which is handed a table of calls, calls all loops; of long loops several threads may compute a part each.
Products of matrices are BLAS's, between loops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.bytes import to_bytes
from accumulus.tape.fusion import Map
from accumulus.tape.tape import Tape
from accumulus.tape.weights import SECONDS, time_of
from accumulus.targets.kernel import FEWEST_POINTS, MINIMUM_WORK, MOVING, LongSegment, pool
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.map_functions import DRIVER, FORWARD, SCATTERED, SUMS, Body, compiled, kind_of
from accumulus.targets.llvm.map_layout import Layout
from accumulus.targets.matrix_products import MatrixProduct, Places
from accumulus.targets.returned import Place, Returned

__all__ = ["Loops"]

#: Bytes of a row in the table of calls.
ROW: Final = 32
#: Seconds to find a number by a table, roughly.
FINDING: Final = 6e-10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Step:
    """Calls of a loop, or a product of matrices.

    Attributes:
        function: its name; of products none.
        count: of instances.
        steps: of recurrences, where the instances of each step begin, and where those of the last end.
        operands, offsets: its arguments.
        results: first references of what is kept, or places in what is returned.
        positions: where in what is returned each result goes; None if they follow each other.
        seconds: that it takes, roughly.
        shape: of products, (m, k, n).
    """

    function: str
    count: int
    steps: NDArray[np.int64] | None
    operands: tuple[Column, ...]
    offsets: NDArray[np.int64] | None
    results: tuple[int | Place, ...]
    positions: NDArray[np.int32] | None
    seconds: float
    shape: tuple[int, int, int] | None = None

    def parts(self, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """First instance, and the one after the last, of each call, (calls, 2); which calls are of vectors.

        There is one for all instances, or one for each wide step and each stretch of narrow ones.
        """
        steps = np.array([0, self.count]) if self.steps is None else self.steps
        wide = np.diff(steps) >= lanes
        begins = wide.copy()
        begins[1:] |= wide[:-1]
        begins[0] = True
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(wide))
        return np.stack([steps[firsts], steps[ends]], axis=1), wide[firsts]

    def shares(self, threads: int) -> NDArray[np.int64]:
        """The same for threads, as many as are worth it, each of which makes one call; one share if that is none."""
        wanted = min(threads, int(self.seconds / MINIMUM_WORK), self.count // FEWEST_POINTS)
        bounds = [0, self.count]
        if wanted > 1 and self.steps is None:
            parts = np.arange(1, wanted) / wanted
            if self.offsets is None:
                ends = (parts * self.count).astype(np.int64)
            else:
                ends = np.searchsorted(self.offsets, parts * self.offsets[-1])
            # whole cache lines of results each; a share has as many instances as a vector has lanes, or it is none
            ends -= ends % FEWEST_POINTS
            bounds = sorted({0, *ends.tolist(), self.count})
            if bounds[-1] - bounds[-2] < FEWEST_POINTS and len(bounds) > 2:
                del bounds[-2]
        return np.array(list(pairwise(bounds)))


class Loops:
    """A program over arrays as machine code.

    Args:
        tape: the program.
        maps: its bodies, in order.
        segments: which outputs go where.
        cache: whether code is stored on disk, and loaded from there.

    Attributes:
        cleared: which arrays that are returned have to hold zeros before.

    Raises:
        SizeError: if there are too many numbers between loops.
    """

    def __init__(
        self, tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], cache: bool = False
    ) -> None:
        self._given = tape, tuple(maps), tuple(segments), cache
        self._constants = tape.constants[::-1]
        computed = [each for each in maps if each.count and each.results]
        arrays = {start: each.count for each in computed for start in each.arrays(tape)}
        operands = (column for each in computed for column in each.operands(tape))
        returned = Returned(tape, segments, arrays, operands)
        self.cleared = returned.cleared
        self._layout = Layout(tape, {start: arrays[start] for start in arrays if start not in returned.places})
        self._bodies: dict[object, Body] = {}
        self._steps: list[_Step] = []
        for each in computed:
            self._add(tape, each, tuple(returned.places.get(start, start) for start in each.arrays(tape)))
        copying = Tape(1)
        copying.outputs = [0]
        for copy in returned.copies:
            if len(copy.source):
                self._add_body(copying, len(copy.source), (copy.source,), (copy.place,), positions=copy.positions)
        self._lanes = host().vector_bytes // 8
        # functions of vectors, and of one lane where there are fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, self._lanes), (False, 1)):
            loops = [step for step in self._steps if step.shape is None]
            wanted = {step.function for step in loops if (step.parts(self._lanes)[1] == is_wide).any()}
            if wanted:
                bodies = [body for body in self._bodies.values() if body.name in wanted]
                self._libraries[is_wide] = compiled(bodies, width, cache)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        self._tables = {id(column): self._layout.table(column) for step in self._steps for column in step.operands}
        self._products = {k: self._product(step) for k, step in enumerate(self._steps) if step.shape is not None}
        self._idle: list[_Workspace] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Loops, self._given  # machine code does not travel

    # What is called -------------------------------------------------------------------------------------------------

    def _add(self, tape: BlockTape, each: Map, results: tuple[int | Place, ...]) -> None:
        if each.is_body:
            self._add_body(each.body, each.count, tuple(each.leaves), results, each.sensitive, each.steps)
            return
        block = tape.blocks[each.blocks[0]]
        if block.shape is not None:
            self._steps.append(_Step("", block.count, None, block.operands, None, results, None, 0.0, block.shape))
            return
        (terms,) = block.operands
        is_next = isinstance(terms, Range) and terms.step == 1
        function, operands = (SUMS[0], terms) if is_next else (SUMS[1], references_in(terms))
        seconds = len(terms) * (SECONDS + (MOVING if is_next else FINDING))
        self._steps.append(_Step(function, each.count, None, (operands,), block.offsets, results, None, seconds))

    def _add_body(
        self,
        body: Tape,
        count: int,
        operands: tuple[Column, ...],
        results: tuple[int | Place, ...],
        sensitive: int = 0,
        steps: NDArray[np.int64] | None = None,
        positions: NDArray[np.int32] | None = None,
    ) -> None:
        kinds = tuple(map(kind_of, operands))
        stores = (FORWARD if positions is None else SCATTERED,) * len(results)
        key = (to_bytes(body), kinds, stores, sensitive)
        known = self._bodies.setdefault(key, Body(f"map{len(self._bodies)}", body, kinds, stores, sensitive))
        moving = sum(MOVING if isinstance(column, Range) else FINDING for column in operands) + MOVING * len(results)
        seconds = count * (SECONDS * time_of(body) + moving)
        self._steps.append(_Step(known.name, count, steps, operands, None, results, positions, seconds))

    def _product(self, step: _Step) -> MatrixProduct:
        assert step.shape is not None
        left, right = map(self._places, step.operands)
        constant = [bool((references_in(operands) < 0).all()) for operands in step.operands]
        return MatrixProduct(step.shape, left, right, constant)

    def _places(self, operands: Column) -> Places:
        if isinstance(operands, Range):
            return self._layout.place(operands.start), operands.step
        table = self._tables[id(operands)]
        assert table is not None
        return table

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point, see `accumulus.targets.kernel.CompiledLoops`."""
        workspace = self._idle.pop() if self._idle else self._workspace()
        at = self._layout.first
        for argument in arguments:
            end = at + argument.size
            workspace.values[at:end] = argument.reshape(-1)
            at = end
        for place, segment, offset in workspace.returned:
            workspace.addresses[place] = _address(results[segment]) + offset
        for calls, rows, together in workspace.stages(self, threads):
            if not rows:
                workspace.products[calls](results)
            elif together:
                others = [pool().submit(self._run, calls + ROW * row, 1) for row in range(1, rows)]
                self._run(calls, 1)
                for other in others:
                    other.result()
            else:
                self._run(calls, rows)
        self._idle.append(workspace)

    def _workspace(self) -> _Workspace:
        values = np.zeros(self._layout.size)
        values[1 : self._layout.first] = self._constants
        base = _address(values)
        addresses: list[int] = []
        begins: list[int] = []
        returned: list[tuple[int, int, int]] = []
        products: dict[int, Callable[[Sequence[Floats]], None]] = {}
        for k, step in enumerate(self._steps):
            begins.append(len(addresses))
            if k in self._products:
                products[k] = self._products[k].bind(values, self._target(values, step))
                continue
            addresses.append(base)
            for operands in step.operands:
                table = self._tables[id(operands)]
                if table is None:
                    assert isinstance(operands, Range)
                    addresses.append(base + 8 * self._layout.place(operands.start))
                else:
                    addresses.append(_address(table))
            if step.offsets is not None:
                addresses.append(_address(step.offsets))
            for result in step.results:
                if isinstance(result, Place):
                    returned.append((len(addresses), result.segment, 8 * result.offset))
                    addresses.append(0)
                else:
                    addresses.append(base + 8 * self._layout.place(result))
            if step.positions is not None:
                addresses.append(_address(step.positions))
        return _Workspace(values, np.array(addresses, np.int64), begins, returned, products, {})

    def _target(self, values: Floats, step: _Step) -> Callable[[Sequence[Floats]], Floats]:
        """Where a product goes, given the arrays that are returned."""
        ((result,), size) = step.results, step.count
        if isinstance(result, Place):
            segment, place = result.segment, slice(result.offset, result.offset + size)
            return lambda results: results[segment][place]
        kept = values[self._layout.place(result) :][:size]
        return lambda results: kept

    def calls(self, workspace: _Workspace, threads: int) -> tuple[NDArray[np.int64], list[tuple[int, int, bool]]]:
        """The table of calls, and stretches of it: address, number of rows, and whether they are made together.

        Products of matrices are stretches of no rows, with the number of the step in the place of an address.
        """
        tables: list[NDArray[np.int64]] = []
        stages: list[tuple[int, int, bool]] = []
        first = _address(workspace.addresses)
        done = 0
        for k, (step, begin) in enumerate(zip(self._steps, workspace.begins, strict=True)):
            if k in self._products:
                stages.append((k, 0, False))
                continue
            parts, wide = step.parts(self._lanes)
            shares = step.shares(threads)
            together = len(shares) > 1
            if together:
                parts, wide = shares, np.ones(len(shares), bool)
            table = np.empty((len(parts), ROW // 8), np.int64)
            for is_wide, library in self._libraries.items():
                table[wide == is_wide, 0] = library.addresses.get(step.function, 0)
            table[:, 1], table[:, 2:] = first + 8 * begin, parts
            tables.append(table)
            if stages and not together and stages[-1][1] and not stages[-1][2]:
                stages[-1] = (stages[-1][0], stages[-1][1] + len(parts), False)
            else:
                stages.append((done, len(parts), together))
            done += len(parts)
        calls = np.concatenate(tables) if tables else np.empty((0, ROW // 8), np.int64)
        at = _address(calls)
        return calls, [(at + ROW * row if count else row, count, together) for row, count, together in stages]


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Memory of one call.

    Attributes:
        values: the workspace.
        addresses: that loops are given.
        begins: where in them those of each step begin.
        returned: which of them are in arrays that are returned: position, segment, and bytes from its beginning.
        products: of matrices, by the numbers of their steps.
        tables: of calls, by the number of threads.
    """

    values: Floats
    addresses: NDArray[np.int64]
    begins: list[int]
    returned: list[tuple[int, int, int]]
    products: dict[int, Callable[[Sequence[Floats]], None]]
    tables: dict[int, tuple[NDArray[np.int64], list[tuple[int, int, bool]]]]

    def stages(self, loops: Loops, threads: int) -> list[tuple[int, int, bool]]:
        """Stretches of the table of calls, see `Loops.calls`."""
        found = self.tables.get(threads)
        if found is None:
            found = self.tables[threads] = loops.calls(self, threads)
        return found[1]


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
