"""Machine code of programs over arrays: a loop for each body, whose lanes are instances.

A body is compiled once for each combination of kinds of columns, for all lengths and places: every call passes the
addresses of operands, of tables of indices and of results. Results that other loops use are in one array of numbers,
the workspace; other results are stored in the returned arrays directly, if possible.

Sums are separate loops; terms of a sum are added lane by lane, and the lanes at the end. Recurrences are computed step
by step: in vectors where a step has enough instances; consecutive narrow steps are one call, one instance after the
other. One function calls all loops, from a table of calls; several threads may each compute a part of long loops. BLAS
computes products of matrices, and opaque functions are called, between loops. Products with constant sparse matrices
are loops over rows, several products with one matrix together.

For one point, lanes are instances. For as many points as a vector has lanes, lanes are points, and instances run one
after the other. Then steps of recurrences with few instances use vectors, too, and all of these points share the cost
of a call. Each number of the workspace is a vector; NumPy copies arguments into it, and results out of it. Sums add
their terms in the same order, so that a point has the same results in a batch as alone.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.cache import digest_of_parts
from accumulus.tape.blocks import GATHER, SCATTER, SPARSE_PRODUCT, operand_shapes
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.live import as_written, time_of
from accumulus.tape.operations import SECONDS
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.tape import Tape, to_bytes
from accumulus.targets.kernel import (
    FEWEST_POINTS,
    MINIMUM_WORK,
    MOVING,
    Batch,
    CompiledLoops,
    Floats,
    Rows,
    Unit,
    aligned,
    pool,
    taken,
)
from accumulus.targets.llvm.host import compile_modules, host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.library import Code, Library, load_code, objects, store_code, version
from accumulus.targets.llvm.module import Text
from accumulus.targets.llvm.rows import (
    ARGUMENTS,
    LOOKUPS,
    SMALLER,
    SPARSE_LANES,
    SPARSE_ROWS,
    rows_by_indices,
    sparse_rows,
)
from accumulus.targets.llvm.vectors import POISON, Vectors, again, unless, when
from accumulus.targets.nests import Entries, Nest, Nests, OfMatrices, Place, WorkspaceLayout, placed

# Functions: one for each body, some for sums, and the driver that calls them ------------------------------------------

#: Functions that sum consecutive terms, and terms that a table locates.
SUMS: Final = ("sums_next", "sums_table")
#: Function that makes calls, each a row of four words: function, addresses, first instance, instance after the last.
DRIVER: Final = "run"
#: Function that makes these calls for several iterations, see `repeating`.
REPEAT: Final = "repeat"
#: Words of a row that says what an iteration moves: target, source, numbers, steps of both in bytes, and 1 to add.
MOVE: Final = 6
#: Numbers that it moves together.
MOVED_TOGETHER: Final = 4
#: Kinds of operands of a body: consecutive for its instances, backwards, the same for all, or located by a table.
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UNIFORM: Final = "uniform"
TABLE: Final = "table"
#: Kind of a result that each instance stores at a position from a table.
SCATTERED: Final = "scattered"


def _load(v: Vectors, kind: str, variable: int) -> str:
    """Return the vector of one input of a body."""
    if kind == UNIFORM:
        return v.splat(f"%p{variable}", 0)
    if kind == FORWARD:
        return v.load(v.let(f"getelementptr double, ptr %p{variable}, i64 %i"), 0)
    if kind == BACKWARD:
        back = v.let(f"sub i64 {1 - v.lanes}, %i")
        loaded = v.load(v.let(f"getelementptr double, ptr %p{variable}, i64 {back}"), 0)
        reverse = ", ".join(f"i32 {k}" for k in reversed(range(v.lanes)))
        return v.let(f"shufflevector {v.type} {loaded}, {v.type} {POISON}, <{v.lanes} x i32> <{reverse}>")
    table = v.let(f"getelementptr i32, ptr %p{variable}, i64 %i")
    if v.lanes == 1:
        index = v.let(f"load i32, ptr {table}, align 4")
        return v.load(v.let(f"getelementptr double, ptr %w, i32 {index}"), 0)
    indices = v.let(f"load <{v.lanes} x i32>, ptr {table}, align 4")
    places = v.let(f"getelementptr double, ptr %w, <{v.lanes} x i32> {indices}")
    return v.let(f"call {_gathered(v.lanes, places)}")


def _gathered(lanes: int, places: str = "") -> str:
    """Return the declaration of the function that gathers a vector of numbers, or a call of it with `places`."""
    vector, mask = f"<{lanes} x double>", f"<{lanes} x i1>"
    arguments = f"<{lanes} x ptr>, i32, {mask}, {vector}"
    if places:
        every = ", ".join(["i1 true"] * lanes)
        arguments = f"<{lanes} x ptr> {places}, i32 8, {mask} <{every}>, {vector} {POISON}"
    return f"{vector} @llvm.masked.gather.v{lanes}f64.v{lanes}p0({arguments})"


@dataclass(frozen=True, slots=True)
class BodyFunction:
    """A body to compile, once for all loops over it."""

    name: str  # name of the function
    tape: Tape  # operations of one instance
    kinds: tuple[str, ...]  # kinds of its operands
    stores: tuple[str, ...]  # kinds of its results
    sensitive: int  # number of leading results that are computed operation by operation as recorded

    def written(
        self, vectors: Vectors, load: Callable[[Vectors, str, int], str], functions: Functions
    ) -> tuple[list[str], list[str]]:
        """Write the operations of instances; return instructions that load addresses, and the names of results.

        Args:
            vectors: writer of vector instructions.
            load: function that writes the load of an input.
            functions: mathematical functions.
        """
        body = self.tape

        def loaded(variable: int) -> dict[int, str]:
            return {variable: load(vectors, self.kinds[variable], variable)}

        exact = frozenset(reference for reference, mark in enumerate(as_written(body, self.sensitive)) if mark)
        instructions = Instructions(body, vectors, loaded, functions, contract=True, exact=exact)
        for reference in range(body.inputs, len(body)):
            instructions.operation(reference)
        results = []
        for output in body.outputs:
            value = instructions.value(output)
            if body.is_boolean(output):
                value = vectors.let(f"uitofp {vectors.mask} {value} to {vectors.type}")
            results.append(value)
        pointers = [f"p{k}" for k in range(body.inputs)] + [f"r{k}x" for k in range(len(body.outputs))]
        pointers += [f"t{k}x" for k, kind in enumerate(self.stores) if kind == SCATTERED]
        opening = ["%w = load ptr, ptr %at"]
        for k, pointer in enumerate(pointers, 1):
            opening += [f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}"]
        return opening, results


def _loop(body: BodyFunction, functions: Functions) -> list[str]:
    """Return a function that computes instances, at least as many as a vector has lanes; the last two may overlap."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = body.written(vectors, _load, functions)
    for k, value in enumerate(results):
        _store(vectors, body.stores[k], k, value)
    lanes = functions.lanes
    return [
        f'define void @{body.name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        f"%last = sub i64 %stop, {lanes}",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %next ]",
        *vectors.lines,
        "br label %next",
        "next:",
        # the last vector ends with the last instance; instances that are computed twice have the same results
        f"%on = add i64 %i, {lanes}",
        "%beyond = icmp sgt i64 %on, %last",
        "%following = select i1 %beyond, i64 %last, i64 %on",
        *when("over", "icmp eq i64 %i, %last", "done", "loop"),
        "ret void",
        "}",
    ]


def _store(vectors: Vectors, kind: str, k: int, value: str) -> None:
    """Write the store of one result's vector."""
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
    """Return a function that sums segments of terms, consecutive ones or terms that a table locates."""
    v = f"<{lanes} x double>"
    if table:
        several = [
            "%t = getelementptr i32, ptr %terms, i64 %j",
            f"%x = load <{lanes} x i32>, ptr %t, align 4",
            f"%p = getelementptr double, ptr %w, <{lanes} x i32> %x",
            f"%y = call {_gathered(lanes, '%p')}",
        ]
    else:
        several = ["%p = getelementptr double, ptr %terms, i64 %j", f"%y = load {v}, ptr %p, align 8"]
    joined, left, half = [], "%sum0.next", lanes // 2
    while half:  # an explicit order, the same on every machine: add one half to the other
        whole = f"<{2 * half} x double>"
        for side, first in (("low", 0), ("high", half)):
            chosen = ", ".join(f"i32 {k}" for k in range(first, first + half))
            joined.append(f"%{side}{half} = shufflevector {whole} {left}, {whole} poison, <{half} x i32> <{chosen}>")
        joined.append(f"%left{half} = fadd <{half} x double> %low{half}, %high{half}")
        left, half = f"%left{half}", half // 2
    joined.append(f"%left = extractelement <1 x double> {left}, i32 0")
    wide = [*several, f"%sum0.next = fadd {v} %sum0, %y"]
    return summing(name, "double", lanes, [v], wide, joined, term("double", "oy", "%k", table))


def term(kind: str, name: str, index: str, table: bool) -> list[str]:
    """Return instructions that load the term of an index: a number, or the vector of many points."""
    lines = [f"%{name}.p = getelementptr {kind}, ptr %terms, i64 {index}"]
    if table:
        lines = [
            f"%{name}.t = getelementptr i32, ptr %terms, i64 {index}",
            f"%{name}.x = load i32, ptr %{name}.t, align 4",
            f"%{name}.p = getelementptr {kind}, ptr %w, i32 %{name}.x",
        ]
    return [*lines, f"%{name} = load {kind}, ptr %{name}.p, align 8"]


def summing(
    name: str, kind: str, step: int, partial: Sequence[str], wide: list[str], joined: list[str], one: list[str]
) -> list[str]:
    """Return a function that sums segments: `step` terms at a time in partial sums, then the remaining terms.

    Args:
        name: name of the function.
        kind: type of a sum: a number, or the vector of many points.
        step: number of terms of an iteration.
        partial: types of the partial sums, ``%sum0``, ``%sum1``, ….
        wide: instructions that add the terms from ``%j`` on to these, as ``%sum0.next``, ….
        joined: instructions that add these up, as ``%left``.
        one: instructions that load term ``%k``, as ``%oy``.
    """
    pointers = [
        line
        for k, pointer in enumerate(("terms", "offsets", "results"), 1)
        for line in (f"%at{k} = getelementptr ptr, ptr %at, i64 {k}", f"%{pointer} = load ptr, ptr %at{k}")
    ]
    return [
        f'define void @{name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        "%w = load ptr, ptr %at",
        *pointers,
        "br label %segment",
        "segment:",
        "%s = phi i64 [ %first, %start ], [ %s.next, %closed ]",
        "%o = getelementptr i64, ptr %offsets, i64 %s",
        "%begin = load i64, ptr %o",
        "%s.next = add i64 %s, 1",
        "%o.next = getelementptr i64, ptr %offsets, i64 %s.next",
        "%end = load i64, ptr %o.next",
        "%length = sub i64 %end, %begin",
        f"%whole = and i64 %length, {-step}",
        "%vectors.end = add i64 %begin, %whole",
        *when("some", "icmp ne i64 %whole, 0", "wide", "narrow"),
        "%j = phi i64 [ %begin, %segment ], [ %j.next, %wide ]",
        *(f"%sum{k} = phi {v} [ zeroinitializer, %segment ], [ %sum{k}.next, %wide ]" for k, v in enumerate(partial)),
        *wide,
        *again("j", f"{step}", "%vectors.end", "more", "wide", "joined"),
        *joined,
        f"%joint = fadd {kind} zeroinitializer, %left",
        "br label %narrow",
        "narrow:",
        f"%before = phi {kind} [ zeroinitializer, %segment ], [ %joint, %joined ]",
        *when("rest", "icmp slt i64 %vectors.end, %end", "single", "closed"),
        "%k = phi i64 [ %vectors.end, %narrow ], [ %k.next, %single ]",
        f"%so.far = phi {kind} [ %before, %narrow ], [ %so.next, %single ]",
        *one,
        f"%so.next = fadd {kind} %so.far, %oy",
        *again("k", "1", "%end", "further", "single", "closed"),
        f"%total = phi {kind} [ %before, %narrow ], [ %so.next, %single ]",
        f"%r = getelementptr {kind}, ptr %results, i64 %s",
        f"store {kind} %total, ptr %r, align 8",
        *when("ends", "icmp eq i64 %s.next, %stop", "done", "segment"),
        "ret void",
        "}",
    ]


def driver() -> list[str]:
    """Return a function that makes `%count` calls in turn, each a row: function, addresses, instances."""
    return [
        f"define void @{DRIVER}(ptr %calls, i64 %count) nounwind {{",
        "start:",
        *when("some", "icmp sgt i64 %count, 0", "call", "done"),
        "%k = phi i64 [ 0, %start ], [ %k.next, %call ]",
        "%row = getelementptr { ptr, ptr, i64, i64 }, ptr %calls, i64 %k",
        "%words = load { ptr, ptr, i64, i64 }, ptr %row, align 8",
        *(f"%word{k} = extractvalue {{ ptr, ptr, i64, i64 }} %words, {k}" for k in range(4)),
        "call void %word0(ptr %word1, i64 %word2, i64 %word3)",
        *again("k", "1", "%count", "more", "call", "done"),
        "ret void",
        "}",
    ]


def compile_loops(bodies: Sequence[BodyFunction], lanes: int, cache: bool, functions: Collection[str]) -> Library:
    """Return a library of loops over bodies, sums, lookups and sparse products, with the driver that calls them."""
    kind, lookups = "maps", not {*LOOKUPS.values()}.isdisjoint(functions)
    sums = [*_sums(SUMS[0], lanes, table=False), *_sums(SUMS[1], lanes, table=True)]
    declarations, names = [f"declare {_gathered(lanes)}"], [*SUMS]
    if lookups:
        sums += [line for code in LOOKUPS for line in rows_by_indices(code)]
        declarations.append("declare i64 @llvm.fptosi.sat.i64.f64(double)")
        names += LOOKUPS.values()
        kind += " by indices"
    if not {SPARSE_ROWS, SPARSE_LANES}.isdisjoint(functions):
        sums += [*sparse_rows(SPARSE_ROWS, 1), *sparse_rows(SPARSE_LANES, lanes)]
        declarations.append(SMALLER)
        names += [SPARSE_ROWS, SPARSE_LANES]
        kind += " sparse"
    return library_of(kind, bodies, lanes, _loop, cache, names, declarations, sums)


def library_of(
    kind: str,
    bodies: Sequence[BodyFunction],
    lanes: int,
    loop: Callable[[BodyFunction, Functions], list[str]],
    cache: bool,
    names: Sequence[str],
    declarations: Sequence[str],
    sums: Sequence[str],
) -> Library:
    """Compile a function for each body, and the given functions for sums, or load them from the cache.

    Args:
        kind: kind of the functions, part of the cache's key.
        bodies: bodies of the loops.
        lanes: entries of a vector.
        loop: function that writes a body's loop.
        cache: if True, use the cache.
        names: names of the functions for sums.
        declarations: declarations that these need.
        sums: their code.
    """
    functions = Functions(lanes, "float64")
    parts = [repr((lanes, [(body.name, body.kinds, body.stores, body.sensitive) for body in bodies])).encode()]
    parts += [to_bytes(body.tape) for body in bodies]
    key = digest_of_parts([version(), kind.encode(), *parts])
    code = load_code(key) if cache else None
    if code is None:
        loops = {body.name: loop(body, functions) for body in bodies}
        images = compile_modules(Text([*functions.text(), *declarations], loops, [*sums, *driver()]).modules())
        code = Code(images, tuple(sorted(functions.imported)), {})
        if cache:
            store_code(key, code)
    return Library(code, [*(body.name for body in bodies), *names, DRIVER], objects(np.dtype(float)))


def _moved(kind: str, index: str) -> list[str]:
    """Return instructions that move one number, or a vector, from %word1 to %word0 at an index, or add it there."""
    return [
        f"%to.{index} = getelementptr double, ptr %word0, i64 %{index}",
        f"%from.{index} = getelementptr double, ptr %word1, i64 %{index}",
        f"%new.{index} = load {kind}, ptr %from.{index}, align 8",
        f"%old.{index} = load {kind}, ptr %to.{index}, align 8",
        f"%sum.{index} = fadd {kind} %old.{index}, %new.{index}",
        f"%stored.{index} = select i1 %adds, {kind} %sum.{index}, {kind} %new.{index}",
        f"store {kind} %stored.{index}, ptr %to.{index}, align 8",
    ]


@functools.cache
def repeating(cache: bool) -> Library:
    """Return a function that makes the calls of `driver` again and again, and moves numbers before and after these.

    Each move is a row: target, source, numbers, the steps in bytes to target and source of the next iteration, and 1 if
    numbers are added to the target. The first `%before` rows are moved before the calls, `%after` more after them.
    """
    row = "{ ptr, ptr, i64, i64, i64, i64 }"
    code = [
        "define internal void @move(ptr %moves, i64 %first, i64 %stop) nounwind {",
        "start:",
        *when("some", "icmp slt i64 %first, %stop", "move", "done"),
        "%k = phi i64 [ %first, %start ], [ %k.next, %moved ]",
        f"%row = getelementptr {row}, ptr %moves, i64 %k",
        f"%words = load {row}, ptr %row, align 8",
        *(f"%word{k} = extractvalue {row} %words, {k}" for k in range(MOVE)),
        "%adds = icmp ne i64 %word5, 0",
        f"%whole = and i64 %word2, {-MOVED_TOGETHER}",
        *when("any", "icmp sgt i64 %whole, 0", "vector", "rest"),
        "%j = phi i64 [ 0, %move ], [ %j.next, %vector ]",
        *_moved(f"<{MOVED_TOGETHER} x double>", "j"),
        *again("j", f"{MOVED_TOGETHER}", "%whole", "more.vectors", "vector", "rest"),
        *when("left", "icmp slt i64 %whole, %word2", "number", "moved"),
        "%i = phi i64 [ %whole, %rest ], [ %i.next, %number ]",
        *_moved("double", "i"),
        *again("i", "1", "%word2", "more.numbers", "number", "moved"),
        "%to.next = getelementptr i8, ptr %word0, i64 %word3",
        "store ptr %to.next, ptr %row, align 8",
        f"%source = getelementptr {row}, ptr %row, i64 0, i32 1",
        "%from.next = getelementptr i8, ptr %word1, i64 %word4",
        "store ptr %from.next, ptr %source, align 8",
        *again("k", "1", "%stop", "more.moves", "move", "done"),
        "ret void",
        "}",
        f"define void @{REPEAT}(ptr %calls, i64 %count, ptr %moves, i64 %before, i64 %after, i64 %turns) nounwind {{",
        "start:",
        "%stop = add i64 %before, %after",
        *when("some", "icmp sgt i64 %turns, 0", "turn", "done"),
        "%t = phi i64 [ 0, %start ], [ %t.next, %turn ]",
        "call void @move(ptr %moves, i64 0, i64 %before)",
        f"call void @{DRIVER}(ptr %calls, i64 %count)",
        "call void @move(ptr %moves, i64 %before, i64 %stop)",
        *again("t", "1", "%turns", "more", "turn", "done"),
        "ret void",
        "}",
    ]
    return library_of("repeat", [], 1, _loop, cache, [REPEAT], [], code)


# Batches: lanes are points, and instances are computed one after the other --------------------------------------------

#: Names of the functions that sum for many points, by the name in `SUMS`, and True if these use vectors for one point.
POINT_SUMS: Final = {
    (name, is_wide): f"{name}_{'wide' if is_wide else 'narrow'}" for name in SUMS for is_wide in (True, False)
}


def _load_points(v: Vectors, kind: str, variable: int) -> str:
    """Return the vector of one input of a body, for all points."""
    base = f"%p{variable}"
    if kind == UNIFORM:
        return v.load(base, 0, 8)
    if kind in (FORWARD, BACKWARD):
        index = "%i" if kind == FORWARD else v.let("sub i64 0, %i")
    else:
        index, base = v.let(f"sext i32 {_entry(v, base)} to i64"), "%w"
    return v.load(v.let(f"getelementptr {v.type}, ptr {base}, i64 {index}"), 0, 8)


def _entry(v: Vectors, table: str) -> str:
    """Return the entry of a table for the current instance."""
    return v.let(f"load i32, ptr {v.let(f'getelementptr i32, ptr {table}, i64 %i')}, align 4")


def _loop_over_points(body: BodyFunction, functions: Functions) -> list[str]:
    """Return a function that computes one instance at a time, for as many points as a vector has lanes."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = body.written(vectors, _load_points, functions)
    for k, (value, kind) in enumerate(zip(results, body.stores, strict=True)):
        index = vectors.let(f"sext i32 {_entry(vectors, f'%t{k}x')} to i64") if kind == SCATTERED else "%i"
        vectors.store(value, vectors.let(f"getelementptr {vectors.type}, ptr %r{k}x, i64 {index}"), 0, 8)
    return [
        f'define void @{body.name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %loop ]",
        *vectors.lines,
        "%following = add i64 %i, 1",
        *unless("more", "icmp slt i64 %following, %stop", "loop", "done"),
        "ret void",
        "}",
    ]


def _sums_of_points(name: str, lanes: int, partial: int, table: bool) -> list[str]:
    """Return a function that sums segments for many points, in as many partial sums as lanes are used for one point."""
    v = f"<{lanes} x double>"
    wide, joined = [], []
    for k in range(partial):
        wide += [f"%j{k} = add i64 %j, {k}", *term(v, f"y{k}", f"%j{k}", table)]
        wide.append(f"%sum{k}.next = fadd {v} %sum{k}, %y{k}")
    names, half = [f"%sum{k}.next" for k in range(partial)], partial // 2
    while half:
        joined += [f"%left{half}.{k} = fadd {v} {names[k]}, {names[k + half]}" for k in range(half)]
        names, half = [f"%left{half}.{k}" for k in range(half)], half // 2
    joined.append(f"%left = select i1 true, {v} {names[0]}, {v} {names[0]}")
    return summing(name, v, partial, [v] * partial, wide, joined, term(v, "oy", "%k", table))


def compiled_for_points(bodies: Sequence[BodyFunction], lanes: int, cache: bool, is_sparse: bool) -> Library:
    """Return the library of `compile_loops` for batches of points."""
    sums = [
        line
        for (name, is_wide), function in POINT_SUMS.items()
        for line in _sums_of_points(function, lanes, lanes if is_wide else 1, name == SUMS[1])
    ]
    names, declarations, kind = [*POINT_SUMS.values()], [], "lanes"
    if is_sparse:
        sums += sparse_rows(SPARSE_ROWS, lanes)
        names, declarations, kind = [*names, SPARSE_ROWS], [SMALLER], "lanes sparse"
    return library_of(kind, bodies, lanes, _loop_over_points, cache, names, declarations, sums)


# Programs -------------------------------------------------------------------------------------------------------------

#: Bytes of a row in the table of calls.
ROW: Final = 32
#: Approximate seconds to locate a number by a table.
FINDING: Final = 6e-10


#: Largest number of bytes of all points that are computed together: half of what processors' last caches hold. With
#: eight lanes, gradients through 6,000 steps of a loop (4.6 MB) take 30 us a point instead of 115, and sums over 30,000
#: gathered numbers (4.4 MB) 69 instead of 167; elementwise operations on 100,000 numbers (26 MB) would take 926 instead
#: of 690 (no command measures this).
MOST_IN_LANES: Final = 1 << 24
#: Seconds to compile for points in lanes, and for each operation of a body; and seconds of a call besides its loops.
LANES, LANES_AN_OPERATION, CALL = 1e-2, 2e-4, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Calls of a loop, or an operation on matrices."""

    function: str  # name of its function; empty for operations on matrices
    nest: Nest  # loop nest that it computes
    seconds: float  # approximate time

    @property
    def count(self) -> int:
        """Number of instances; for lookups the number of indices, and for sparse matrices the number of rows."""
        nest = self.nest
        if nest.code == SPARSE_PRODUCT and nest.shape is not None:
            return nest.shape[0]
        return nest.count if nest.shape is None else len(nest.loads[1])

    def parts(self, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the range of instances of each call, (calls, 2), and the mask of calls with vectors.

        There is one call for all instances; in recurrences one for each wide step, and one for consecutive narrow ones.
        """
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
        self._bodies: dict[object, BodyFunction] = {}
        self._steps: list[_Step] = []
        #: Columns that sparse matrices are multiplied with, by step.
        self._sparse: dict[int, list[tuple[int, NDArray[np.int32], int]]] = {}
        self._lanes = host().vector_bytes // 8
        for nest in nests.every:
            self._add(nest)
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
        self._tables = {id(column): self._layout.table(column) for step in self._steps for column in step.nest.loads}
        self._products = {k: self._of_matrices(step) for k, step in enumerate(self._steps) if not step.function}
        self._idle: list[_Workspace] = []
        self._lengths = unit.lengths
        bytes_of_points = 8 * self._lanes * (self._layout.size + sum(self._lengths))
        has_matrices = any(step.function in ("", SPARSE_LANES, *LOOKUPS.values()) for step in self._steps)
        self._may_be_in_lanes = not has_matrices and bytes_of_points <= MOST_IN_LANES
        operations = sum(body.tape.operations for body in self._bodies.values())
        #: Number of points whose computation takes as long as compiling for points in lanes, which is then done.
        self._enough = (LANES + LANES_AN_OPERATION * operations) / (CALL + sum(step.seconds for step in self._steps))
        self._points_requested = 0
        self._library: Library | None = None
        self._unused: list[_Memory] = []

    # Construction --------------------------------------------------------------------------------------------------

    def _add(self, nest: Nest) -> None:
        if nest.body is not None:
            ranges = {1: FORWARD, -1: BACKWARD, 0: UNIFORM}
            kinds = tuple(ranges[each.step] if isinstance(each, Range) else TABLE for each in nest.loads)
            stores = (FORWARD if nest.positions is None else SCATTERED,) * len(nest.stores)
            key = (to_bytes(nest.body), kinds, stores, nest.sensitive)
            name = f"map{len(self._bodies)}"
            body = self._bodies.setdefault(key, BodyFunction(name, nest.body, kinds, stores, nest.sensitive))
            moving = sum(MOVING if isinstance(column, Range) else FINDING for column in nest.loads)
            moving += MOVING * len(nest.stores)
            self._steps.append(_Step(body.name, nest, nest.count * (SECONDS * time_of(nest.body) + moving)))
        elif nest.code in LOOKUPS and self._entries(nest) is not None:
            self._steps.append(_Step(LOOKUPS[nest.code], nest, nest.count * (FINDING + MOVING)))
        elif isinstance(nest.opaque, SparseMatrix):
            self._add_sparse(nest, nest.opaque)
        elif nest.shape is not None:
            self._steps.append(_Step("", nest, 0.0))
        else:
            (terms,) = nest.loads
            is_next = isinstance(terms, Range) and terms.step == 1
            if not is_next:
                nest = replace(nest, loads=(references_in(terms),))
            seconds = len(terms) * (SECONDS + (MOVING if is_next else FINDING))
            self._steps.append(_Step(SUMS[not is_next], nest, seconds))

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
            placed(self._operand_entries(each, self._layout.table(each)), shape)
            for each, shape in zip(nest.loads, shapes, strict=True)
        )
        if not (steps and apart):
            return None
        rows = nest.shape[1 if nest.code == GATHER else 0]
        return [matrix, indices, rows, nest.shape[2], *steps, apart[0]]

    def _of_matrices(self, step: _Step) -> OfMatrices:
        constant = [bool((references_in(operands) < 0).all()) for operands in step.nest.loads]
        places = [self._operand_entries(operands, self._tables[id(operands)]) for operands in step.nest.loads]
        return OfMatrices(step.nest, places, constant)

    def _operand_entries(self, operands: Column, table: NDArray[np.int32] | None) -> Entries:
        if isinstance(operands, Range):
            return self._layout.place(operands.start), operands.step
        assert table is not None
        return table

    # Calls -------------------------------------------------------------------------------------------------------

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point; see `accumulus.targets.kernel.CompiledLoops`."""
        workspace = taken(self._idle, self._workspace)
        at = self._layout.first
        for argument in arguments:
            end = at + argument.size
            workspace.values[at:end] = argument.reshape(-1)
            at = end
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
        self._idle.append(workspace)

    def repeat(self, count: int, arguments: Sequence[Rows], results: Sequence[Rows]) -> None:
        """Make calls in turn; see `accumulus.targets.kernel.CompiledLoops`."""
        if self._products:
            super().repeat(count, arguments, results)
            return
        workspace = taken(self._idle, self._workspace)
        made = [np.zeros(rows.array.shape[1]) for rows in results]
        for index, segment, offset in workspace.returned:
            workspace.addresses[index] = _address(made[segment]) + offset
        moves, at = [], self._layout.first
        base = _address(workspace.values)
        for rows in arguments:
            size = rows.array.shape[1]
            if rows.step:
                source = _address(rows.array) + 8 * size * rows.first
                moves.append((base + 8 * at, source, size, 0, 8 * size * rows.step, 0))
            else:
                workspace.values[at : at + size] = rows.at(0)
            at += size
        before = len(moves)
        for rows, result in zip(results, made, strict=True):
            size = rows.array.shape[1]
            target = _address(rows.array) + 8 * size * rows.first
            moves.append((target, _address(result), size, 8 * size * rows.step, 0, int(rows.adds)))
        table = np.array(moves, np.int64)
        ((calls, length, _),) = workspace.stages(self, 1)
        self._repeat(calls, length, _address(table), before, len(results), count)
        self._idle.append(workspace)

    @cached_property
    def _repeat(self) -> Any:
        address = repeating(self._unit.cache).addresses[REPEAT]
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2, ctypes.c_int64, ctypes.c_int64)(address)

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
            words, places = self._addresses(step, base)
            returned += [(len(addresses) + at, place.segment, 8 * place.offset) for at, place in places]
            addresses += words
        return _Workspace(values, np.array(addresses, np.int64), begins, returned, products, {})

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
        if nest.code in LOOKUPS:
            (result,), entries = nest.stores, self._entries(nest)
            assert entries is not None
            matrix, indices, *numbers = entries
            words += [base + size * matrix, base + size * indices, 0, *numbers]
            if isinstance(result, Place):
                return words, [(3, result)]
            words[3] = base + size * self._layout.place(result)
            return words, []
        for operands in nest.loads:
            table = self._tables[id(operands)]
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
        return words, places

    def _target(self, values: Floats, step: _Step) -> Callable[[Sequence[Floats]], Floats]:
        """Return a function from the returned arrays to the memory in which a product is stored."""
        ((result,), size) = step.nest.stores, step.nest.count
        if isinstance(result, Place):
            segment, positions = result.segment, slice(result.offset, result.offset + size)
            return lambda results: results[segment][positions]
        stored = values[self._layout.place(result) :][:size]
        return lambda results: stored

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

    # Many points ---------------------------------------------------------------------------------------------------

    def run(self, batch: Batch, first: int, last: int) -> int:
        """Compute points from `first` on while they fill lanes; return the point after these."""
        lanes, transposed = self._lanes, batch.transposed
        self._points_requested += last - first
        if not self._may_be_in_lanes or self._points_requested < self._enough or last - first < lanes:
            return first
        memory = taken(self._unused, self._memory)
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

    def _memory(self) -> _Memory:
        """Return the memory of a batch, with calls that have addresses in it; compile missing code."""
        library = self._library
        if library is None:
            is_sparse = any(step.function == SPARSE_ROWS for step in self._steps)
            bodies = [*self._bodies.values()]
            library = self._library = compiled_for_points(bodies, self._lanes, self._unit.cache, is_sparse)
        lanes, width = self._lanes, 8 * self._lanes
        values = aligned((self._layout.size, lanes), np.dtype(float))
        values[:] = 0.0
        values[1 : self._layout.first] = np.reshape(self._constants, (-1, 1))
        # structural zeros of a result are not stored
        results = [np.zeros((length, lanes)) for length in self._lengths]
        addresses, calls = [], np.zeros((len(self._steps), ROW // 8), np.int64)
        for call, step in zip(calls, self._steps, strict=True):
            words, places = self._addresses(step, values.ctypes.data, width)
            for at, place in places:
                words[at] = results[place.segment].ctypes.data + width * place.offset
            addresses.append(np.array(words, np.int64))
            is_wide = bool(step.parts(lanes)[1][0])
            name = POINT_SUMS.get((step.function, is_wide), step.function)
            call[:] = library.addresses[name], addresses[-1].ctypes.data, 0, step.nest.count
        return _Memory(values, results, calls, addresses)


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Memory of one call."""

    values: Floats  # the workspace
    addresses: NDArray[np.int64]  # addresses that loops take
    begins: list[int]  # position of the first address of each step
    # addresses in returned arrays: position, segment, and offset in bytes
    returned: list[tuple[int, int, int]]
    products: dict[int, Callable[[Sequence[Floats]], None]]  # operations on matrices, by step
    tables: dict[int, tuple[NDArray[np.int64], list[tuple[int, int, bool]]]]  # tables of calls, by number of threads

    def stages(self, loops: LLVMLoops, threads: int) -> list[tuple[int, int, bool]]:
        """Return the stages of the table of calls; see `LLVMLoops.calls`."""
        table = self.tables.get(threads)
        if table is None:
            table = self.tables[threads] = loops.calls(self, threads)
        return table[1]


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """Memory of one batch: a vector for each number, result arrays, calls, and the addresses that each call takes."""

    values: Floats
    results: list[Floats]
    calls: NDArray[np.int64]
    addresses: list[NDArray[np.int64]]


def _overlap(operands: Column, start: int, count: int) -> bool:
    """Return True if a column has any of `count` references from `start` on."""
    if isinstance(operands, Range):
        low, high = operands.ends
        return low < start + count and high >= start
    return bool(((operands >= start) & (operands < start + count)).any())


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
