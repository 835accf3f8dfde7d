"""Machine code of programs over arrays for many points at once: loops over instances, whose lanes are points.

What `maps` computes for one point, with lanes for instances, is computed here for as many points as a vector has
lanes, one instance after the other. So steps of recurrences that have few instances are vectors, too, and what a call
costs is paid once for all of these points. Each number of the workspace is a vector; arguments are brought there, and
results back, by NumPy.

Sums add their terms in the order in which `maps` does, so that a point has the results in a batch that it has alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Range
from accumulus.tape.fusion import Map
from accumulus.targets.kernel import LongSegment, aligned
from accumulus.targets.llvm import maps
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.instructions import Functions
from accumulus.targets.llvm.library import Library
from accumulus.targets.llvm.maps import (
    BACKWARD,
    DRIVER,
    FORWARD,
    ROW,
    SCATTERED,
    UNIFORM,
    Body,
    LLVMLoops,
    WorkspaceLayout,
)
from accumulus.targets.llvm.vectors import Vectors
from accumulus.targets.nests import Nest, Place

__all__ = ["BatchedLoops", "PointsInLanes"]

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


def loop(given: Body, functions: Functions) -> list[str]:
    """A function that computes instances one by one, of as many points as a vector has lanes."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = given.written(vectors, _Leaves(given.kinds), functions)
    for k, (value, kind) in enumerate(zip(results, given.stores, strict=True)):
        index = vectors.let(f"sext i32 {_entry(vectors, f'%t{k}x')} to i64") if kind == SCATTERED else "%i"
        vectors.store(value, vectors.let(f"getelementptr {vectors.type}, ptr %r{k}x, i64 {index}"), 0, 8)
    return [
        f'define void @{given.name}(ptr %at, i64 %first, i64 %stop) nounwind "prefer-vector-width"="512" {{',
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

    def term(tag: str, index: str) -> list[str]:
        """The term of an index."""
        if table:
            found = [
                f"%{tag}.t = getelementptr i32, ptr %terms, i64 {index}",
                f"%{tag}.x = load i32, ptr %{tag}.t, align 4",
                f"%{tag}.p = getelementptr {v}, ptr %w, i32 %{tag}.x",
            ]
        else:
            found = [f"%{tag}.p = getelementptr {v}, ptr %terms, i64 {index}"]
        return [*found, f"%{tag} = load {v}, ptr %{tag}.p, align 8"]

    wide, joined = [], []
    for k in range(partial):
        wide += [f"%j{k} = add i64 %j, {k}", *term(f"y{k}", f"%j{k}"), f"%sum{k}.next = fadd {v} %sum{k}, %y{k}"]
    names, half = [f"%sum{k}.next" for k in range(partial)], partial // 2
    while half:  # as LLVM adds the lanes of a vector: one half to the other
        joined += [f"%h{half}.{k} = fadd {v} {names[k]}, {names[k + half]}" for k in range(half)]
        names, half = [f"%h{half}.{k}" for k in range(half)], half // 2
    return [
        f'define void @{name}(ptr %at, i64 %first, i64 %stop) nounwind "prefer-vector-width"="512" {{',
        "start:",
        "%w = load ptr, ptr %at",
        *(
            line
            for k, pointer in enumerate(("terms", "offsets", "results"), 1)
            for line in (f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}")
        ),
        "br label %segment",
        "segment:",
        "%s = phi i64 [ %first, %start ], [ %s.next, %closed ]",
        "%o = getelementptr i64, ptr %offsets, i64 %s",
        "%begin = load i64, ptr %o",
        "%s.next = add i64 %s, 1",
        "%o.next = getelementptr i64, ptr %offsets, i64 %s.next",
        "%end = load i64, ptr %o.next",
        "%length = sub i64 %end, %begin",
        f"%whole = and i64 %length, {-partial}",
        "%vectors.end = add i64 %begin, %whole",
        "%some = icmp ne i64 %whole, 0",
        "br i1 %some, label %wide, label %narrow",
        "wide:",
        "%j = phi i64 [ %begin, %segment ], [ %j.next, %wide ]",
        *(f"%sum{k} = phi {v} [ zeroinitializer, %segment ], [ %sum{k}.next, %wide ]" for k in range(partial)),
        *wide,
        f"%j.next = add i64 %j, {partial}",
        "%more = icmp slt i64 %j.next, %vectors.end",
        "br i1 %more, label %wide, label %joined",
        "joined:",
        *joined,
        f"%joint = fadd {v} zeroinitializer, {names[0]}",
        "br label %narrow",
        "narrow:",
        f"%before = phi {v} [ zeroinitializer, %segment ], [ %joint, %joined ]",
        "%rest = icmp slt i64 %vectors.end, %end",
        "br i1 %rest, label %single, label %closed",
        "single:",
        "%k = phi i64 [ %vectors.end, %narrow ], [ %k.next, %single ]",
        f"%so.far = phi {v} [ %before, %narrow ], [ %so.next, %single ]",
        *term("oy", "%k"),
        f"%so.next = fadd {v} %so.far, %oy",
        "%k.next = add i64 %k, 1",
        "%further = icmp slt i64 %k.next, %end",
        "br i1 %further, label %single, label %closed",
        "closed:",
        f"%total = phi {v} [ %before, %narrow ], [ %so.next, %single ]",
        f"%r = getelementptr {v}, ptr %results, i64 %s",
        f"store {v} %total, ptr %r, align 8",
        "%ends = icmp eq i64 %s.next, %stop",
        "br i1 %ends, label %done, label %segment",
        "done:",
        "ret void",
        "}",
    ]


def _compiled(bodies: Sequence[Body], lanes: int, cache: bool) -> Library:
    functions = Functions(lanes, "float64")

    def others() -> tuple[list[str], list[str]]:
        sums = [
            line
            for (name, is_wide), own in SUMS.items()
            for line in _sums(own, lanes, lanes if is_wide else 1, name == maps.SUMS[1])
        ]
        return [], [*sums, *maps.driver()]

    return maps.code_of("lanes", bodies, functions, lambda body: loop(body, functions), cache, [*SUMS.values()], others)


# Programs -------------------------------------------------------------------------------------------------------------


#: Bytes of the numbers of all points that are computed at once, at most: they have to stay near the processor.
MOST_IN_LANES: Final = 1 << 20
#: Seconds that compiling for points in lanes takes, and each operation of a body; those of a call beside its loops.
LANES, LANES_AN_OPERATION, CALL = 1e-2, 2e-4, 1e-5


class BatchedLoops(LLVMLoops):
    """A program over arrays as machine code, for one point, and for points in lanes once so many were asked for.

    Args:
        tape, maps, segments, cache: as for `LLVMLoops`.
    """

    def __init__(
        self, tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], cache: bool = False
    ) -> None:
        super().__init__(tape, maps, segments, cache)
        self._in_lanes: Any = None
        self._points = 0
        self._seconds = CALL + sum(step.seconds for step in self._steps)
        self._operations = sum(body.tape.operations for body in self._bodies.values())

    def together(self, points: int) -> PointsInLanes | None:
        """Return what computes as many points at once as a vector has lanes, once enough were asked for."""
        self._points += points
        if self._in_lanes is None and self._points * self._seconds >= LANES + LANES_AN_OPERATION * self._operations:
            self._in_lanes = False  # for other threads, until it is there
            _, _, segments, _ = self._given
            numbers = self._layout.size + sum(segment.length for segment in segments)
            if not self._products and 8 * self._lanes * numbers <= MOST_IN_LANES:
                self._in_lanes = self._compiled_lanes()
        return self._in_lanes or None

    def _compiled_lanes(self) -> PointsInLanes:
        _, _, segments, cache = self._given
        nests = [
            (SUMS.get((step.function, bool(step.parts(self._lanes)[1][0])), step.function), step.nest)
            for step in self._steps
        ]
        lengths = [segment.length for segment in segments]
        bodies = [*self._bodies.values()]
        return PointsInLanes(nests, bodies, self._layout, self._tables, lengths, self._constants, cache)


class PointsInLanes:
    """A program over arrays as machine code for as many points as a vector has lanes.

    Args:
        nests: what it computes, and the names of their functions; none is a product of matrices.
        bodies: of the nests, and the names of their functions.
        layout: of the workspace.
        tables: where the values of columns are, by the identity of these.
        lengths: of the arrays that are returned.
        constants: of the program, the last first.
        cache: whether code is stored on disk, and loaded from there.

    Attributes:
        lanes: points that are computed at once.
    """

    def __init__(
        self,
        nests: Sequence[tuple[str, Nest]],
        bodies: Sequence[Body],
        layout: WorkspaceLayout,
        tables: dict[int, NDArray[np.int32] | None],
        lengths: Sequence[int],
        constants: NDArray[np.float64],
        cache: bool,
    ) -> None:
        self.lanes = host().vector_bytes // 8
        self._nests, self._layout, self._tables, self._lengths = nests, layout, tables, lengths
        self._constants = constants
        self._library = _compiled(bodies, self.lanes, cache)
        self._run: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._library.addresses[DRIVER])
        self._idle: list[_Workspace] = []

    def run(
        self,
        X: Sequence[Floats],
        out: Sequence[Floats],
        first: int,
        last: int,
        transposed: bool,
        shared: Sequence[bool],
    ) -> int:
        """Compute points from `first` on as far as they fill lanes; the point after these."""
        lanes = self.lanes
        workspace = self._idle.pop() if self._idle else _Workspace(self)
        rows, begin = [], self._layout.first
        for x, same in zip(X, shared, strict=True):
            size = x.size if same else x.size // max(1, x.shape[-1 if transposed else 0])
            rows.append(workspace.values[begin : begin + size])
            begin += size
        for x, same, row in zip(X, shared, rows, strict=True):
            if same:
                row[:] = x.reshape(-1, 1)
        calls = workspace.calls.ctypes.data
        while first + lanes <= last:
            points = slice(first, first + lanes)
            for x, same, row in zip(X, shared, rows, strict=True):
                if not same:
                    row[:] = x[..., points].reshape(row.shape) if transposed else x[points].reshape(lanes, len(row)).T
            self._run(calls, len(workspace.calls))
            for array, result in zip(out, workspace.results, strict=True):
                if transposed:
                    array[:, points] = result
                else:
                    array[points] = result.T
            first += lanes
        self._idle.append(workspace)
        return first


class _Workspace:
    """Memory of one run: a vector for each number, the arrays that are returned, and the calls with their addresses."""

    def __init__(self, program: PointsInLanes) -> None:
        lanes, layout = program.lanes, program._layout
        size = 8 * lanes
        self.values = aligned((layout.size, lanes), np.dtype(float))
        self.values[:] = 0.0
        self.values[1 : layout.first] = np.reshape(program._constants, (-1, 1))
        # where a result has entries that are 0 whatever is computed, nothing is stored
        self.results = [np.zeros((length, lanes)) for length in program._lengths]
        base = self.values.ctypes.data
        addresses: list[list[int]] = []
        for _, nest in program._nests:
            found = [base]
            for operands in nest.loads:
                table = program._tables[id(operands)]
                if table is None:
                    assert isinstance(operands, Range)
                    found.append(base + size * layout.place(operands.start))
                else:
                    found.append(table.ctypes.data)
            if nest.offsets is not None:
                found.append(nest.offsets.ctypes.data)
            for result in nest.stores:
                if isinstance(result, Place):
                    found.append(self.results[result.segment].ctypes.data + size * result.offset)
                else:
                    found.append(base + size * layout.place(result))
            if nest.positions is not None:
                found.append(nest.positions.ctypes.data)
            addresses.append(found)
        self._addresses = np.array([word for found in addresses for word in found], np.int64)
        begins = np.cumsum([0, *map(len, addresses)])[:-1]
        self.calls = np.zeros((len(addresses), ROW // 8), np.int64)
        for k, (name, nest) in enumerate(program._nests):
            at = self._addresses.ctypes.data + 8 * int(begins[k])
            self.calls[k] = program._library.addresses[name], at, 0, nest.count
