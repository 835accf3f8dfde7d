"""LLVM IR of the loops of programs over arrays: one function a body, one for sums, and what calls them in their order.

Each function computes a part of the instances of a map: it is given addresses, the first instance, and the one after
the last. The addresses are those of the workspace, of operands or of their tables of indices, and of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.tape.blocks import Column, Range
from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape, digest, to_bytes
from accumulus.targets.llvm.callees import Functions
from accumulus.targets.llvm.host import compile_modules
from accumulus.targets.llvm.instructions import Instructions
from accumulus.targets.llvm.library import Code, Library, load, store, version
from accumulus.targets.llvm.module import Text
from accumulus.targets.llvm.python_abi import objects
from accumulus.targets.llvm.vectors import POISON, Vectors

__all__ = ["DRIVER", "FORWARD", "SCATTERED", "SUMS", "Body", "compiled", "kind_of"]

#: Functions that sum terms that lie next to each other, and that find them by a table.
SUMS: Final = ("sums_next", "sums_table")
#: The function that makes calls, each a row of four words: function, addresses, first instance, the one after the last.
DRIVER: Final = "run"
#: How the instances of a body find an operand: next to each other, backwards, the same for all, or by a table.
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UNIFORM: Final = "uniform"
TABLE: Final = "table"
#: A result of which each instance has a place of its own, by a table.
SCATTERED: Final = "scattered"
#: Of every function: where the addresses are, the first instance, and the one after the last.
_ARGUMENTS: Final = "ptr %at, i64 %first, i64 %stop"


def kind_of(operands: Column) -> str:
    """How the instances of a body find an operand."""
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


@dataclass(frozen=True, slots=True)
class Body:
    """What is compiled once for all loops over one body.

    Attributes:
        name: of the function.
        tape: of one instance.
        kinds: how operands are found.
        stores: how results are stored.
        sensitive: how many of these, the first, are computed as they stand.
    """

    name: str
    tape: Tape
    kinds: tuple[str, ...]
    stores: tuple[str, ...]
    sensitive: int


def _loop(given: Body, functions: Functions) -> list[str]:
    """A function that computes instances, as many as a vector has lanes or more; the last vector may overlap."""
    body = given.tape
    vectors = Vectors(functions.lanes, "float64")
    leaves = _Leaves(given.kinds)
    exact = frozenset(reference for reference, mark in enumerate(as_written(body, given.sensitive)) if mark)
    instructions = Instructions(body, vectors, leaves, functions, {}, contract=True, exact=exact)  # type: ignore[arg-type]
    for reference in range(body.inputs, len(body)):
        instructions.operation(reference)
    for k, output in enumerate(body.outputs):
        value = instructions.value(output)
        if body.is_boolean(output):
            value = vectors.let(f"uitofp {vectors.mask} {value} to {vectors.type}")
        _store(vectors, given.stores[k], k, value)
    lanes = functions.lanes
    pointers = [f"p{k}" for k in range(body.inputs)] + [f"r{k}x" for k in range(len(body.outputs))]
    pointers += [f"t{k}x" for k, kind in enumerate(given.stores) if kind == SCATTERED]
    opening = ["%w = load ptr, ptr %at"]
    for k, pointer in enumerate(pointers, 1):
        opening += [f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}"]
    return [
        f'define void @{given.name}({_ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        f"%last = sub i64 %stop, {lanes}",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %next ]",
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


def _store(vectors: Vectors, kind: str, k: int, value: str) -> None:
    """Store the vector of one result."""
    v = vectors
    if kind == FORWARD:
        v.store(value, v.let(f"getelementptr double, ptr %r{k}x, i64 %i"), 0)
        return
    table = v.let(f"getelementptr i32, ptr %t{k}x, i64 %i")
    indices = v.let(f"load <{v.lanes} x i32>, ptr {table}, align 4")
    for lane in range(v.lanes):
        index = v.let(f"extractelement <{v.lanes} x i32> {indices}, i32 {lane}")
        at = v.let(f"getelementptr double, ptr %r{k}x, i32 {index}")
        entry = v.let(f"extractelement {v.type} {value}, i32 {lane}")
        v.lines.append(f"store double {entry}, ptr {at}, align 8")


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
        f'define void @{name}({_ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
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
        "%s = phi i64 [ %first, %start ], [ %s.next, %closed ]",
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
        "%ends = icmp eq i64 %s.next, %stop",
        "br i1 %ends, label %done, label %segment",
        "done:",
        "ret void",
        "}",
    ]


def _driver() -> list[str]:
    """A function that makes so many calls one after the other, each a row: function, addresses, instances."""
    return [
        f"define void @{DRIVER}(ptr %calls, i64 %count) nounwind {{",
        "start:",
        "%some = icmp sgt i64 %count, 0",
        "br i1 %some, label %call, label %done",
        "call:",
        "%k = phi i64 [ 0, %start ], [ %k.next, %call ]",
        "%row = getelementptr { ptr, ptr, i64, i64 }, ptr %calls, i64 %k",
        "%words = load { ptr, ptr, i64, i64 }, ptr %row, align 8",
        *(f"%word{k} = extractvalue {{ ptr, ptr, i64, i64 }} %words, {k}" for k in range(4)),
        "call void %word0(ptr %word1, i64 %word2, i64 %word3)",
        "%k.next = add i64 %k, 1",
        "%more = icmp slt i64 %k.next, %count",
        "br i1 %more, label %call, label %done",
        "done:",
        "ret void",
        "}",
    ]


def compiled(bodies: Sequence[Body], lanes: int, cache: bool) -> Library:
    """Loops over bodies, loops of sums, and what calls them all."""
    parts = [repr((lanes, [(body.name, body.kinds, body.stores, body.sensitive) for body in bodies])).encode()]
    parts += [to_bytes(body.tape) for body in bodies]
    key = digest([version(), b"maps", *parts])
    code = load(key) if cache else None
    exports = [*(body.name for body in bodies), *SUMS, DRIVER]
    if code is None:
        functions = Functions(lanes, "float64")
        loops = {body.name: _loop(body, functions) for body in bodies}
        vector = f"<{lanes} x double>"
        gather = f"{vector} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})"
        reduce = f"double @llvm.vector.reduce.fadd.v{lanes}f64(double, {vector})"
        shared = [*functions.text(), f"declare {gather}", f"declare {reduce}"]
        others = [*_sums(SUMS[0], lanes, table=False), *_sums(SUMS[1], lanes, table=True), *_driver()]
        images = compile_modules(Text(shared, loops, others).modules())
        code = Code(images, tuple(sorted(functions.imported)), {})
        if cache:
            store(key, code)
    return Library(code, exports, objects(np.dtype(float)))
