"""Machine code of programs over arrays for many points at once: loops over instances, whose lanes are points.

What `maps` computes for one point, with lanes for instances, is computed here for as many points as a vector has
lanes, one instance after the other. So steps of recurrences that have few instances are vectors, too, and what a call
costs is paid once for all of these points. Each number of the workspace is a vector; arguments are brought there, and
results back, by NumPy.

Sums add their terms in the order in which `maps` does, so that a point has the results in a batch that it has alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.targets.kernel import Batch, Unit, aligned
from accumulus.targets.llvm import maps
from accumulus.targets.llvm.instructions import Functions
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.maps import (
    BACKWARD,
    FORWARD,
    ROW,
    SCATTERED,
    UNIFORM,
    Body,
    LLVMLoops,
)
from accumulus.targets.llvm.vectors import Vectors

Floats = NDArray[np.float64]
#: Names of functions that sum, by those of `maps` and whether there they are functions of vectors, not of one lane.
SUMS: Final = {
    (name, is_wide): f"{name}_{'wide' if is_wide else 'narrow'}" for name in maps.SUMS for is_wide in (True, False)
}


# Functions ------------------------------------------------------------------------------------------------------------


class _Leaves:
    """Writes the loads of a body's inputs, of all points; a layout, as `Instructions` takes one."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def begin(self, vectors: Vectors, value: Any) -> None:
        """Start a function."""
        self._vectors = vectors

    def load(self, variable: int) -> dict[int, str]:
        """The vector of one input."""
        v, kind, base = self._vectors, self._kinds[variable], f"%p{variable}"
        if kind == UNIFORM:
            return {variable: v.load(base, 0, 8)}
        if kind in (FORWARD, BACKWARD):
            index = "%i" if kind == FORWARD else v.let("sub i64 0, %i")
        else:
            index, base = v.let(f"sext i32 {_entry(v, base)} to i64"), "%w"
        return {variable: v.load(v.let(f"getelementptr {v.type}, ptr {base}, i64 {index}"), 0, 8)}


def _entry(v: Vectors, table: str) -> str:
    """The entry of a table for this instance."""
    return v.let(f"load i32, ptr {v.let(f'getelementptr i32, ptr {table}, i64 %i')}, align 4")


def _loop(given: Body, functions: Functions) -> list[str]:
    """A function that computes instances one by one, of as many points as a vector has lanes."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = given.written(vectors, _Leaves(given.kinds), functions)
    for k, (value, kind) in enumerate(zip(results, given.stores, strict=True)):
        index = vectors.let(f"sext i32 {_entry(vectors, f'%t{k}x')} to i64") if kind == SCATTERED else "%i"
        vectors.store(value, vectors.let(f"getelementptr {vectors.type}, ptr %r{k}x, i64 {index}"), 0, 8)
    return [
        f'define void @{given.name}({maps.ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %loop ]",
        *vectors.lines,
        "%following = add i64 %i, 1",
        "%more = icmp slt i64 %following, %stop",
        "br i1 %more, label %loop, label %done",
        "done:",
        "ret void",
        "}",
    ]


def _sums(name: str, lanes: int, partial: int, table: bool) -> list[str]:
    """A function that sums segments, each by as many partial sums as `maps` has lanes for it."""
    v = f"<{lanes} x double>"
    wide, joined = [], []
    for k in range(partial):
        wide += [f"%j{k} = add i64 %j, {k}", *maps.term(v, f"y{k}", f"%j{k}", table)]
        wide.append(f"%sum{k}.next = fadd {v} %sum{k}, %y{k}")
    names, half = [f"%sum{k}.next" for k in range(partial)], partial // 2
    while half:
        joined += [f"%left{half}.{k} = fadd {v} {names[k]}, {names[k + half]}" for k in range(half)]
        names, half = [f"%left{half}.{k}" for k in range(half)], half // 2
    joined.append(f"%left = select i1 true, {v} {names[0]}, {v} {names[0]}")
    return maps.summing(name, v, partial, [v] * partial, wide, joined, maps.term(v, "oy", "%k", table))


def _compiled(bodies: Sequence[Body], lanes: int, cache: bool) -> Library:
    functions = Functions(lanes, "float64")

    def others() -> tuple[list[str], list[str]]:
        sums = [
            line
            for (name, is_wide), own in SUMS.items()
            for line in _sums(own, lanes, lanes if is_wide else 1, name == maps.SUMS[1])
        ]
        return [], [*sums, *maps.driver()]

    return maps.library_of(
        "lanes", bodies, functions, lambda body: _loop(body, functions), cache, [*SUMS.values()], others
    )


# Programs -------------------------------------------------------------------------------------------------------------


#: Bytes of the numbers of all points that are computed at once, at most: they have to stay near the processor.
MOST_IN_LANES: Final = 1 << 20
#: Seconds that compiling for points in lanes takes, and each operation of a body; those of a call beside its loops.
LANES, LANES_AN_OPERATION, CALL = 1e-2, 2e-4, 1e-5


class BatchedLoops(LLVMLoops):
    """A program over arrays as machine code, for one point, and for points in lanes once so many were asked for."""

    #: As many as there are.
    most_threads = sys.maxsize

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self._lengths = unit.lengths
        bytes_of_points = 8 * self._lanes * (self._layout.size + sum(self._lengths))
        self._may_be_in_lanes = not self._products and bytes_of_points <= MOST_IN_LANES
        operations = sum(body.tape.operations for body in self._bodies.values())
        #: Points from which on they are, since they take as long as compiling.
        self._enough = (LANES + LANES_AN_OPERATION * operations) / (CALL + sum(step.seconds for step in self._steps))
        self._asked_for = 0
        self._library: Library | None = None
        self._unused: list[_Lanes] = []

    def run(self, batch: Batch, first: int, last: int) -> int:
        """Compute points from `first` on as far as they fill lanes; the point after these."""
        lanes, transposed = self._lanes, batch.transposed
        self._asked_for += last - first
        if not self._may_be_in_lanes or self._asked_for < self._enough or last - first < lanes:
            return first
        memory = self._unused.pop() if self._unused else self._memory()
        rows, begin = [], self._layout.first
        for x, same in zip(batch.X, batch.shared, strict=True):
            size = x.size if same else x.size // x.shape[-1 if transposed else 0]
            rows.append(memory.values[begin : begin + size])
            begin += size
            if same:
                rows[-1][:] = x.reshape(-1, 1)
        calls = memory.calls.ctypes.data
        while first + lanes <= last:
            points = slice(first, first + lanes)
            for x, same, row in zip(batch.arguments(points), batch.shared, rows, strict=True):
                if not same:
                    row[:] = x.reshape(row.shape) if transposed else x.reshape(lanes, len(row)).T
            self._run(calls, len(memory.calls))
            batch.store(points, memory.results)
            first += lanes
        self._unused.append(memory)
        return first

    def _memory(self) -> _Lanes:
        """Memory of a run, and the calls with their addresses in it; code is compiled where there is none yet."""
        library = self._library
        if library is None:
            library = self._library = _compiled([*self._bodies.values()], self._lanes, self._unit.cache)
        lanes, width = self._lanes, 8 * self._lanes
        values = aligned((self._layout.size, lanes), np.dtype(float))
        values[:] = 0.0
        values[1 : self._layout.first] = np.reshape(self._constants, (-1, 1))
        # where a result has entries that are 0 whatever is computed, nothing is stored
        results = [np.zeros((length, lanes)) for length in self._lengths]
        given, calls = [], np.zeros((len(self._steps), ROW // 8), np.int64)
        for call, step in zip(calls, self._steps, strict=True):
            words, places = self._addresses(step.nest, values.ctypes.data, width)
            for at, place in places:
                words[at] = results[place.segment].ctypes.data + width * place.offset
            given.append(np.array(words, np.int64))
            is_wide = bool(step.parts(lanes)[1][0])
            name = SUMS.get((step.function, is_wide), step.function)
            call[:] = library.addresses[name], given[-1].ctypes.data, 0, step.nest.count
        return _Lanes(values, results, calls, given)


@dataclass(frozen=True, slots=True, eq=False)
class _Lanes:
    """Memory of one run: a vector for each number, the arrays that are returned, calls, and the addresses of each."""

    values: Floats
    results: list[Floats]
    calls: NDArray[np.int64]
    addresses: list[NDArray[np.int64]]
