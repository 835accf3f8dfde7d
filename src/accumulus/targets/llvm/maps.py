"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

A body is compiled once for the kinds of columns that it takes, whatever their lengths and places: the addresses of
operands, of tables of indices and of results are given with each call. Results that other loops take are in one
array of numbers, the workspace: constants, the last first, then inputs, then results.

Sums are loops of their own; terms of a sum are added lane by lane, and the lanes at the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.tape.blocks import BlockTape, Column, Range, references_in
from accumulus.tape.bytes import digest, to_bytes
from accumulus.tape.fusion import Map
from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.callees import Functions
from accumulus.targets.llvm.host import compile_ir, host
from accumulus.targets.llvm.instructions import Instructions
from accumulus.targets.llvm.library import Code, Library, load, store, version
from accumulus.targets.llvm.module import in_module
from accumulus.targets.llvm.python_abi import objects
from accumulus.targets.llvm.vectors import POISON, Vectors

__all__ = ["Loops"]

#: Numbers in the workspace, at most: tables of indices have 32 bits.
MOST: Final = 2**31
#: How the instances of a body find an operand: next to each other, backwards, the same for all, or by a table.
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UNIFORM: Final = "uniform"
TABLE: Final = "table"


def _kind(operands: Column) -> str:
    if isinstance(operands, Range):
        return {1: FORWARD, -1: BACKWARD, 0: UNIFORM}[operands.step]
    return TABLE


class _Leaves:
    """Writes the loads of a body's inputs; a layout, as `Instructions` takes one."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Start a function."""
        self._vectors = vectors

    def load(self, variable: int) -> dict[int, str]:
        """The vector of one input."""
        v, kind = self._vectors, self._kinds[variable]
        if kind == UNIFORM:
            return {variable: v.splat(f"%p{variable}", 0)}
        if kind == FORWARD:
            at = v.let(f"getelementptr double, ptr %p{variable}, i64 %i")
            return {variable: v.load(at, 0)}
        if kind == BACKWARD:
            back = v.let(f"sub i64 {1 - v.lanes}, %i")
            at = v.let(f"getelementptr double, ptr %p{variable}, i64 {back}")
            loaded = v.load(at, 0)
            reverse = ", ".join(f"i32 {k}" for k in reversed(range(v.lanes)))
            return {
                variable: v.let(f"shufflevector {v.type} {loaded}, {v.type} {POISON}, <{v.lanes} x i32> <{reverse}>")
            }
        table = v.let(f"getelementptr i32, ptr %p{variable}, i64 %i")
        if v.lanes == 1:
            index = v.let(f"load i32, ptr {table}, align 4")
            at = v.let(f"getelementptr double, ptr %w, i32 {index}")
            return {variable: v.load(at, 0)}
        indices = v.let(f"load <{v.lanes} x i32>, ptr {table}, align 4")
        places = v.let(f"getelementptr double, ptr %w, <{v.lanes} x i32> {indices}")
        every = ", ".join(["i1 true"] * v.lanes)
        return {
            variable: v.let(
                f"call {v.type} @llvm.masked.gather.v{v.lanes}f64.v{v.lanes}p0(<{v.lanes} x ptr> {places}, i32 8, "
                f"<{v.lanes} x i1> <{every}>, {v.type} {POISON})"
            )
        }


def _loop(name: str, body: Tape, kinds: Sequence[str], sensitive: int, functions: Functions) -> list[str]:
    """A function that computes vectors of instances, at least one; the last may overlap the one before."""
    vectors = Vectors(functions.lanes, "float64")
    leaves = _Leaves(kinds)
    exact = frozenset(reference for reference, mark in enumerate(as_written(body, sensitive)) if mark)
    instructions = Instructions(body, vectors, leaves, functions, {}, contract=True, exact=exact)  # type: ignore[arg-type]
    for reference in range(body.inputs, len(body)):
        instructions.operation(reference)
    for k, output in enumerate(body.outputs):
        value = instructions.value(output)
        if body.is_boolean(output):
            value = vectors.let(f"uitofp {vectors.mask} {value} to {vectors.type}")
        at = vectors.let(f"getelementptr double, ptr %r{k}x, i64 %i")
        vectors.store(value, at, 0)
    lanes = functions.lanes
    pointers = [f"p{k}" for k in range(body.inputs)] + [f"r{k}x" for k in range(len(body.outputs))]
    opening = ["%w = load ptr, ptr %at"]
    for k, pointer in enumerate(pointers, 1):
        opening += [f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}"]
    return [
        f'define void @{name}(ptr %at, i64 %count) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        f"%last = sub i64 %count, {lanes}",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ 0, %start ], [ %following, %next ]",
        *vectors.lines,
        "br label %next",
        "next:",
        # the last vector begins where it ends with the last instance; those computed twice have the same results
        f"%on = add i64 %i, {lanes}",
        "%beyond = icmp sgt i64 %on, %last",
        "%following = select i1 %beyond, i64 %last, i64 %on",
        "%over = icmp eq i64 %i, %last",
        "br i1 %over, label %done, label %loop",
        "done:",
        "ret void",
        "}",
    ]


def _sums(name: str, lanes: int, table: bool) -> list[str]:
    """A function that sums segments: of terms next to each other, or found by a table."""
    v = f"<{lanes} x double>"
    if table:
        indices = [
            "%t = getelementptr i32, ptr %terms, i64 %j",
            f"%x = load <{lanes} x i32>, ptr %t, align 4",
            f"%p = getelementptr double, ptr %w, <{lanes} x i32> %x",
            f"%y = call {v} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr> %p, i32 8, "
            f"<{lanes} x i1> <{', '.join(['i1 true'] * lanes)}>, {v} poison)",
        ]
        one = [
            "%ot = getelementptr i32, ptr %terms, i64 %k",
            "%ox = load i32, ptr %ot, align 4",
            "%op = getelementptr double, ptr %w, i32 %ox",
            "%oy = load double, ptr %op, align 8",
        ]
    else:
        indices = ["%p = getelementptr double, ptr %terms, i64 %j", f"%y = load {v}, ptr %p, align 8"]
        one = ["%op = getelementptr double, ptr %terms, i64 %k", "%oy = load double, ptr %op, align 8"]
    return [
        f'define void @{name}(ptr %at, i64 %count) nounwind "prefer-vector-width"="512" {{',
        "start:",
        "%w = load ptr, ptr %at",
        "%at1 = getelementptr ptr, ptr %at, i64 1",
        "%terms = load ptr, ptr %at1",
        "%at2 = getelementptr ptr, ptr %at, i64 2",
        "%offsets = load ptr, ptr %at2",
        "%at3 = getelementptr ptr, ptr %at, i64 3",
        "%results = load ptr, ptr %at3",
        "br label %segment",
        "segment:",
        "%s = phi i64 [ 0, %start ], [ %s.next, %closed ]",
        "%o = getelementptr i64, ptr %offsets, i64 %s",
        "%begin = load i64, ptr %o",
        "%s.next = add i64 %s, 1",
        "%o.next = getelementptr i64, ptr %offsets, i64 %s.next",
        "%end = load i64, ptr %o.next",
        "%length = sub i64 %end, %begin",
        f"%whole = and i64 %length, {-lanes}",
        "%vectors.end = add i64 %begin, %whole",
        "%some = icmp ne i64 %whole, 0",
        "br i1 %some, label %wide, label %narrow",
        "wide:",
        "%j = phi i64 [ %begin, %segment ], [ %j.next, %wide ]",
        f"%sum = phi {v} [ zeroinitializer, %segment ], [ %sum.next, %wide ]",
        *indices,
        f"%sum.next = fadd {v} %sum, %y",
        f"%j.next = add i64 %j, {lanes}",
        "%more = icmp slt i64 %j.next, %vectors.end",
        "br i1 %more, label %wide, label %joined",
        "joined:",
        f"%joint = call reassoc double @llvm.vector.reduce.fadd.v{lanes}f64(double 0.0, {v} %sum.next)",
        "br label %narrow",
        "narrow:",
        "%before = phi double [ 0.0, %segment ], [ %joint, %joined ]",
        "%rest = icmp slt i64 %vectors.end, %end",
        "br i1 %rest, label %single, label %closed",
        "single:",
        "%k = phi i64 [ %vectors.end, %narrow ], [ %k.next, %single ]",
        "%so.far = phi double [ %before, %narrow ], [ %so.next, %single ]",
        *one,
        "%so.next = fadd double %so.far, %oy",
        "%k.next = add i64 %k, 1",
        "%further = icmp slt i64 %k.next, %end",
        "br i1 %further, label %single, label %closed",
        "closed:",
        "%total = phi double [ %before, %narrow ], [ %so.next, %single ]",
        "%r = getelementptr double, ptr %results, i64 %s",
        "store double %total, ptr %r",
        "%ends = icmp eq i64 %s.next, %count",
        "br i1 %ends, label %done, label %segment",
        "done:",
        "ret void",
        "}",
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """A call of a loop: its function, the number of instances, and its arguments."""

    function: str
    count: int
    operands: tuple[Column, ...]
    offsets: NDArray[np.int64] | None
    results: tuple[int, ...]


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
            if each.is_sum:
                block = tape.blocks[each.blocks[0]]
                (terms,) = block.operands
                is_next = _kind(terms) == FORWARD
                function, operands = ("sums_next", terms) if is_next else ("sums_table", references_in(terms))
                self._steps.append(_Step(function, each.count, (operands,), block.offsets, (block.start,)))
                continue
            if not each.results:
                continue
            kinds = tuple(map(_kind, each.leaves))
            key = (to_bytes(each.body), kinds, each.sensitive)
            if key not in names:
                names[key] = f"map{len(names)}"
                bodies.append((names[key], each.body, kinds, each.sensitive))
            results = tuple(tape.blocks[position].start for position in each.results)
            self._steps.append(_Step(names[key], each.count, tuple(each.leaves), None, results))
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._libraries: list[Library] = []
        self._functions: list[Any] = [None] * len(self._steps)
        # bodies of fewer instances than a vector has lanes have code of one lane
        for width in dict.fromkeys((lanes, 1)):
            used = [k for k, step in enumerate(self._steps) if (step.count < lanes) == (width < lanes)]
            wanted = {self._steps[k].function for k in used}
            if wanted:
                library = _compiled([body for body in bodies if body[0] in wanted], width, cache)
                self._libraries.append(library)
                functions = {name: prototype(library.addresses[name]) for name in wanted}
                for k in used:
                    self._functions[k] = functions[self._steps[k].function]
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
        for function, step, place in zip(self._functions, self._steps, workspace.places, strict=True):
            function(place.ctypes.data, step.count)
        results = workspace.values[self._outputs]
        self._idle.append(workspace)
        return results

    def _workspace(self) -> _Workspace:
        values = np.zeros(len(self._constants) + len(self._tape))
        values[: len(self._constants)] = self._constants
        base, first = values.ctypes.data, len(self._constants)
        places = []
        for step in self._steps:
            addresses = [base]
            for operands in step.operands:
                table = self._tables[id(operands)]
                addresses.append(
                    base + 8 * (first + operands.start) if isinstance(operands, Range) else table.ctypes.data  # type: ignore[union-attr]
                )
            if step.offsets is not None:
                addresses.append(step.offsets.ctypes.data)
            addresses += [base + 8 * (first + start) for start in step.results]
            places.append(np.array(addresses, np.int64))
        return _Workspace(values, places)


@dataclass(frozen=True, slots=True)
class _Workspace:
    values: NDArray[np.float64]
    places: list[NDArray[np.int64]]


def _compiled(bodies: Sequence[tuple[str, Tape, tuple[str, ...], int]], lanes: int, cache: bool) -> Library:
    """Code of loops over bodies, each with its name and the kinds of its operands, and of sums."""
    parts = [repr((lanes, [(name, *others) for name, _, *others in bodies])).encode()]
    parts += [to_bytes(body) for _, body, _, _ in bodies]
    key = digest([version(), b"maps", *parts])
    code = load(key) if cache else None
    exports = [*(name for name, *_ in bodies), "sums_next", "sums_table"]
    if code is None:
        functions = Functions(lanes, "float64")
        text = [
            line for name, body, kinds, sensitive in bodies for line in _loop(name, body, kinds, sensitive, functions)
        ]
        vector = f"<{lanes} x double>"
        gather = f"{vector} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})"
        lines = [
            *functions.text(),
            f"declare {gather}",
            f"declare double @llvm.vector.reduce.fadd.v{lanes}f64(double, {vector})",
            *text,
            *_sums("sums_next", lanes, table=False),
            *_sums("sums_table", lanes, table=True),
        ]
        code = Code(compile_ir(in_module(lines)), tuple(sorted(functions.imported)), {})
        if cache:
            store(key, code)
    return Library(code, exports, objects(np.dtype(float)))
