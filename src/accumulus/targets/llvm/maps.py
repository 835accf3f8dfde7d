"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

A body is compiled once for the kinds of columns that it takes, whatever their lengths and places: the addresses of
operands, of tables of indices and of results are given with each call. Results that other loops take are in one
array of numbers, the workspace: constants, the last first, then inputs, then results.

Sums are loops of their own; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed
step by step: lanes where a step has instances enough, and narrow steps in one call, one instance after the other. One
function, which is handed a table of calls, calls all loops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.bytes import to_bytes
from accumulus.tape.fusion import Map
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.map_functions import DRIVER, SUMS, compiled, kind_of

__all__ = ["Loops"]

#: Numbers in the workspace, at most: tables of indices have 32 bits.
MOST: Final = 2**31


@dataclass(frozen=True, slots=True)
class _Step:
    """Calls of a loop, one after the other.

    Attributes:
        function: its name.
        parts: the first instance of each call, and the one after the last; (calls, 2).
        wide: which calls are of functions of vectors; their parts have no fewer instances than lanes.
        operands, offsets, results: its arguments.
    """

    function: str
    parts: NDArray[np.int64]
    wide: NDArray[np.bool_]
    operands: tuple[Column, ...]
    offsets: NDArray[np.int64] | None
    results: tuple[int, ...]


def _parts(each: Map, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The calls of a loop: one for all instances, or one for each wide step and each stretch of narrow ones."""
    steps = np.array([0, each.count]) if each.steps is None else each.steps
    wide = np.diff(steps) >= lanes
    begins = wide.copy()
    begins[1:] |= wide[:-1]
    begins[0] = True
    firsts = np.flatnonzero(begins)
    ends = np.append(firsts[1:], len(wide))
    return np.stack([steps[firsts], steps[ends]], axis=1), wide[firsts]


class Loops:
    """A program over arrays as machine code.

    Args:
        tape: the program.
        maps: its bodies, in order.
        cache: whether code is stored on disk, and loaded from there.
    """

    def __init__(self, tape: BlockTape, maps: Sequence[Map], cache: bool = False) -> None:
        if len(tape) + len(tape.constants) >= MOST:
            raise SizeError(f"{len(tape):,} numbers between loops; index tables have room for {MOST:,}")
        self._given = tape, tuple(maps), cache
        self._tape = tape
        self._constants = tape.constants[::-1].copy()
        lanes = host().vector_bytes // 8
        names: dict[object, str] = {}
        bodies: list[tuple[str, Tape, tuple[str, ...], int]] = []
        self._steps: list[_Step] = []
        for each in maps:
            if not each.count:
                continue  # loops run at least once
            parts, wide = _parts(each, lanes)
            if each.is_sum:
                block = tape.blocks[each.blocks[0]]
                (terms,) = block.operands
                is_next = isinstance(terms, Range) and terms.step == 1
                function, operands = (SUMS[0], terms) if is_next else (SUMS[1], references_in(terms))
                self._steps.append(_Step(function, parts, wide, (operands,), block.offsets, (block.start,)))
                continue
            if not each.results:
                continue
            kinds = tuple(map(kind_of, each.leaves))
            key = (to_bytes(each.body), kinds, each.sensitive)
            if key not in names:
                names[key] = f"map{len(names)}"
                bodies.append((names[key], each.body, kinds, each.sensitive))
            self._steps.append(_Step(names[key], parts, wide, tuple(each.leaves), None, tuple(each.starts)))
        # functions of vectors, and of one lane where there are fewer instances than a vector has lanes
        self._libraries: dict[bool, Library] = {}
        for is_wide, width in ((True, lanes), (False, 1)):
            wanted = {step.function for step in self._steps if (step.wide == is_wide).any()}
            if wanted:
                self._libraries[is_wide] = compiled([body for body in bodies if body[0] in wanted], width, cache)
        self._run: Any = None
        for library in self._libraries.values():
            self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses[DRIVER])
        self._tables = {id(operands): self._table(operands) for step in self._steps for operands in step.operands}
        self._outputs = tape.outputs + len(self._constants)
        self._idle: list[_Workspace] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Loops, self._given  # machine code does not travel

    def _table(self, operands: Column) -> NDArray[np.int32] | None:
        if isinstance(operands, Range):
            return None
        return (operands + len(self._constants)).astype(np.int32)

    def __call__(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the outputs at one point; inputs of shape (inputs,)."""
        workspace = self._idle.pop() if self._idle else self._workspace()
        first = len(self._constants)
        workspace.values[first : first + self._tape.inputs] = inputs
        if self._steps:
            self._run(workspace.calls_at, len(workspace.calls))
        results = workspace.values[self._outputs]
        self._idle.append(workspace)
        return results

    def _workspace(self) -> _Workspace:
        values = np.zeros(len(self._constants) + len(self._tape))
        values[: len(self._constants)] = self._constants
        base, first = values.ctypes.data, len(self._constants)
        addresses: list[int] = []
        begins: list[int] = []
        for step in self._steps:
            begins.append(len(addresses))
            addresses.append(base)
            for operands in step.operands:
                table = self._tables[id(operands)]
                addresses.append(
                    base + 8 * (first + operands.start) if isinstance(operands, Range) else table.ctypes.data  # type: ignore[union-attr]
                )
            if step.offsets is not None:
                addresses.append(step.offsets.ctypes.data)
            addresses += [base + 8 * (first + start) for start in step.results]
        places = np.array(addresses, np.int64)
        calls = np.empty((sum(len(step.parts) for step in self._steps), 4), np.int64)
        done = 0
        for step, begin in zip(self._steps, begins, strict=True):
            own = calls[done : done + len(step.parts)]
            for is_wide, library in self._libraries.items():
                own[step.wide == is_wide, 0] = library.addresses.get(step.function, 0)
            own[:, 1] = places.ctypes.data + 8 * begin
            own[:, 2:] = step.parts
            done += len(own)
        return _Workspace(values, places, calls, calls.ctypes.data)


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Memory of one call: values, addresses that loops are given, and the table of calls."""

    values: NDArray[np.float64]
    places: NDArray[np.int64]
    calls: NDArray[np.int64]
    calls_at: int
