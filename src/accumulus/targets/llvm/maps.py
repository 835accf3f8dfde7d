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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.bytes import to_bytes
from accumulus.tape.fusion import Map
from accumulus.tape.weights import SECONDS, time_of
from accumulus.targets.block_kernel import LongSegment
from accumulus.targets.kernel import FEWEST_POINTS, MINIMUM_WORK, MOVING, pool
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.map_functions import DRIVER, FORWARD, SCATTERED, SUMS, Body, compiled, kind_of
from accumulus.targets.llvm.map_layout import Layout
from accumulus.targets.matrix_products import MatrixProduct, Places
from accumulus.targets.nests import Nest, Nests, Place

__all__ = ["Loops"]

#: Bytes of a row in the table of calls.
ROW: Final = 32
#: Seconds to find a number by a table, roughly.
FINDING: Final = 6e-10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Calls of a loop, or a product of matrices.

    Attributes:
        function: its name; of products none.
        nest: what it computes.
        seconds: that it takes, roughly.
    """

    function: str
    nest: Nest
    seconds: float

    def parts(self, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """First instance, and the one after the last, of each call, (calls, 2); which calls are of vectors.

        There is one for all instances, or one for each wide step and each stretch of narrow ones.
        """
        steps = np.array([0, self.nest.count]) if self.nest.steps is None else self.nest.steps
        wide = np.diff(steps) >= lanes
        begins = wide.copy()
        begins[1:] |= wide[:-1]
        begins[0] = True
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(wide))
        return np.stack([steps[firsts], steps[ends]], axis=1), wide[firsts]

    def shares(self, threads: int) -> NDArray[np.int64]:
        """The same for threads, as many as are worth it, each of which makes one call; one share if that is none."""
        wanted = min(threads, int(self.seconds / MINIMUM_WORK), self.nest.count // FEWEST_POINTS)
        bounds = [0, self.nest.count]
        if wanted > 1 and self.nest.steps is None:
            parts = np.arange(1, wanted) / wanted
            if self.nest.offsets is None:
                ends = (parts * self.nest.count).astype(np.int64)
            else:
                ends = np.searchsorted(self.nest.offsets, parts * self.nest.offsets[-1])
            # whole cache lines of results each; a share has as many instances as a vector has lanes, or it is none
            ends -= ends % FEWEST_POINTS
            bounds = sorted({0, *ends.tolist(), self.nest.count})
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
        nests = Nests(tape, maps, segments)
        self.cleared = nests.cleared
        self._layout = Layout(tape, nests.kept)
        self._bodies: dict[object, Body] = {}
        self._steps: list[_Step] = []
        for nest in nests.every:
            self._add(nest)
        self._lanes = host().vector_bytes // 8
        # functions of vectors, and of one lane where there are fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, self._lanes), (False, 1)):
            loops = [step for step in self._steps if step.nest.shape is None]
            wanted = {step.function for step in loops if (step.parts(self._lanes)[1] == is_wide).any()}
            if wanted:
                bodies = [body for body in self._bodies.values() if body.name in wanted]
                self._libraries[is_wide] = compiled(bodies, width, cache)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        self._tables = {id(column): self._layout.table(column) for step in self._steps for column in step.nest.loads}
        self._products = {k: self._product(step) for k, step in enumerate(self._steps) if step.nest.shape is not None}
        self._idle: list[_Workspace] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Loops, self._given  # machine code does not travel

    # What is called -------------------------------------------------------------------------------------------------

    def _add(self, nest: Nest) -> None:
        if nest.body is not None:
            kinds = tuple(map(kind_of, nest.loads))
            stores = (FORWARD if nest.positions is None else SCATTERED,) * len(nest.stores)
            key = (to_bytes(nest.body), kinds, stores, nest.sensitive)
            name = f"map{len(self._bodies)}"
            known = self._bodies.setdefault(key, Body(name, nest.body, kinds, stores, nest.sensitive))
            moving = sum(MOVING if isinstance(column, Range) else FINDING for column in nest.loads)
            moving += MOVING * len(nest.stores)
            self._steps.append(_Step(known.name, nest, nest.count * (SECONDS * time_of(nest.body) + moving)))
        elif nest.shape is not None:
            self._steps.append(_Step("", nest, 0.0))
        else:
            (terms,) = nest.loads
            is_next = isinstance(terms, Range) and terms.step == 1
            if not is_next:
                nest = replace(nest, loads=(references_in(terms),))
            seconds = len(terms) * (SECONDS + (MOVING if is_next else FINDING))
            self._steps.append(_Step(SUMS[not is_next], nest, seconds))

    def _product(self, step: _Step) -> MatrixProduct:
        assert step.nest.shape is not None
        left, right = map(self._places, step.nest.loads)
        constant = [bool((references_in(operands) < 0).all()) for operands in step.nest.loads]
        return MatrixProduct(step.nest.shape, left, right, constant)

    def _places(self, operands: Column) -> Places:
        if isinstance(operands, Range):
            return self._layout.place(operands.start), operands.step
        table = self._tables[id(operands)]
        assert table is not None
        return table

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point, see `accumulus.targets.block_kernel.Loops`."""
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
            for operands in step.nest.loads:
                table = self._tables[id(operands)]
                if table is None:
                    assert isinstance(operands, Range)
                    addresses.append(base + 8 * self._layout.place(operands.start))
                else:
                    addresses.append(_address(table))
            if step.nest.offsets is not None:
                addresses.append(_address(step.nest.offsets))
            for result in step.nest.stores:
                if isinstance(result, Place):
                    returned.append((len(addresses), result.segment, 8 * result.offset))
                    addresses.append(0)
                else:
                    addresses.append(base + 8 * self._layout.place(result))
            if step.nest.positions is not None:
                addresses.append(_address(step.nest.positions))
        return _Workspace(values, np.array(addresses, np.int64), begins, returned, products, {})

    def _target(self, values: Floats, step: _Step) -> Callable[[Sequence[Floats]], Floats]:
        """Where a product goes, given the arrays that are returned."""
        ((result,), size) = step.nest.stores, step.nest.count
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
