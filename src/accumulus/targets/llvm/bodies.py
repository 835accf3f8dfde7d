"""LLVM functions that programs over arrays call: a loop for each body, sums, and the drivers that make all calls.

A body is compiled once for each combination of kinds of columns, for all lengths and places: every call passes the
addresses of operands, of tables of indices and of results. Lanes of vectors are instances, or, for batches, points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.cache import digest_of_parts
from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape, to_bytes
from accumulus.targets.llvm.host import compile_modules, host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.library import Library, MachineCode, load_code, objects, store_code, version
from accumulus.targets.llvm.module import Text
from accumulus.targets.llvm.products import PRODUCTS, product_functions
from accumulus.targets.llvm.rows import (
    ARGUMENTS,
    LOOKUPS,
    SMALLER,
    SPARSE_LANES,
    SPARSE_ROWS,
    rows_by_indices,
    sparse_rows,
)
from accumulus.targets.llvm.vectors import POISON, UNOPTIMISED, Vectors, again, unless, when
from accumulus.targets.schedule import fusible

# Loops and sums -------------------------------------------------------------------------------------------------------

#: Functions that sum consecutive terms, and terms that a table locates.
SUMS: Final = ("sums_next", "sums_table")
#: Function that sums terms of neighbouring sums at once, see `accumulus.targets.llvm.grids.Across`.
ACROSS: Final = "sums_across"
#: Function that makes calls, each a row of four words: function, addresses, first instance, instance after the last.
DRIVER: Final = "run"
#: Function that makes these calls for several iterations, see `repeating`.
REPEAT: Final = "repeat"
#: Number of words of a row that describes a move: target, source, number of entries, steps of both in bytes, 1 to add.
MOVE: Final = 6
#: Number of entries that one vector instruction moves: more need vectors that not every processor has, and leave a
#: longer rest; fewer take more instructions.
MOVED_TOGETHER: Final = 4
#: Kinds of operands of a body: consecutive for its instances, backwards, the same for all, or located by a table.
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UNIFORM: Final = "uniform"
TABLE: Final = "table"
#: Kinds of operands by rows: consecutive within a row, the same for a row, or with a distance; see
#: `accumulus.targets.llvm.grids`.
ROW_FORWARD: Final = "row forward"
ROW_UNIFORM: Final = "row uniform"
ROW_STRIDED: Final = "row strided"
BY_ROWS: Final = frozenset([ROW_FORWARD, ROW_UNIFORM, ROW_STRIDED])
#: Beginning of the kind of an operand beside one with a distance: the number of that one, and the offset, follow.
BESIDE: Final = "beside"
#: Number of lines above which a body that computes one instance at a time is compiled without optimisation, in half of
#: the time or less: compile time grows faster than the number of lines. A larger number delays first results; a smaller
#: one hardly helps them, and makes short loops slower.
LONG: Final = 1000
#: Number of lines of such a body for each of LLVM's blocks, which it works on one at a time, some of them for a time
#: that grows with the square of their length: larger blocks and much smaller ones take longer to compile.
LINES: Final = 300
#: Kind of a result that each instance stores at a position from a table.
SCATTERED: Final = "scattered"


def beside(variable: int, offset: int) -> str:
    """Return the kind of an operand at an offset, less than a vector's lanes, from one with a distance."""
    return f"{BESIDE} {variable} {offset}"


def _columns(v: Vectors, kinds: Sequence[str], variable: int) -> dict[int, str]:
    """Return the vectors of an operand with a distance, and of those beside it, from the vectors that begin there."""
    if kinds[variable].startswith(BESIDE):
        variable = int(kinds[variable].split()[1])
    begin = v.let(f"getelementptr double, ptr %row.p{variable}, i64 {v.let(f'mul i64 %j, %step{variable}')}")
    rows = [v.load(begin, 0)]
    for _ in range(1, v.lanes):
        begin = v.let(f"getelementptr double, ptr {begin}, i64 %step{variable}")
        rows.append(v.load(begin, 0))
    columns, found = v.transpose(rows), {variable: 0}
    for k, kind in enumerate(kinds):
        if kind.startswith(f"{BESIDE} {variable} "):
            found[k] = int(kind.split()[2])
    return {k: columns[offset] for k, offset in found.items()}


def _load(v: Vectors, kinds: Sequence[str], variable: int) -> dict[int, str]:
    """Return the vector of one input of a body, and of others if that is cheaper."""
    kind = kinds[variable]
    if kind == ROW_STRIDED or kind.startswith(BESIDE):
        return _columns(v, kinds, variable)
    return {variable: _loaded(v, kind, variable)}


def _loaded(v: Vectors, kind: str, variable: int) -> str:
    if kind == UNIFORM:
        return v.splat(f"%p{variable}", 0)
    if kind == ROW_UNIFORM:
        return f"%row.all{variable}"
    if kind == ROW_FORWARD:
        return v.load(v.let(f"getelementptr double, ptr %row.p{variable}, i64 %j"), 0)
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

    @property
    def is_by_rows(self) -> bool:
        """True for a loop over rows of instances."""
        return not BY_ROWS.isdisjoint(self.kinds)

    def written(
        self, vectors: Vectors, load: Callable[[Vectors, Sequence[str], int], dict[int, str]], functions: Functions
    ) -> tuple[list[str], list[str]]:
        """Write the operations of instances; return instructions that load addresses, and the names of results.

        Args:
            vectors: writer of vector instructions.
            load: function that writes the load of an input, given the kinds of all, and of others if that is cheaper.
            functions: mathematical functions.
        """
        body = self.tape

        def loaded(variable: int) -> dict[int, str]:
            return load(vectors, self.kinds, variable)

        steps = range(body.inputs, len(body))
        exact = frozenset(reference for reference, mark in enumerate(as_written(body, self.sensitive)) if mark)
        # products are fused here, not by LLVM, so that they are the same ones for lanes of instances and of points
        fused = fusible(body, steps, exact) if host().fused else {}
        instructions = Instructions(body, vectors, loaded, functions, fused=fused)
        gone = {each.product for each in fused.values()}
        for reference in steps:
            if reference not in gone:
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
        if self.is_by_rows:
            words = ["length", *(f"step{k}" for k, kind in enumerate(self.kinds) if kind == ROW_STRIDED)]
            for k, word in enumerate(words, 1 + len(pointers)):
                opening += [f"%at{k} = getelementptr i64, ptr %at, i64 {k}", f"%{word} = load i64, ptr %at{k}"]
        return opening, results


def _attributes(body: Vectors) -> str:
    """Return the attributes of a loop over a body.

    Long bodies that compute one instance at a time are compiled without optimisation; bodies over vectors never are.
    """
    is_quick = len(body.lines) > LONG and body.lanes == 1 and host().is_x86
    return UNOPTIMISED if is_quick else 'nounwind "prefer-vector-width"="512"'


def _in_blocks(lines: list[str], attributes: str) -> list[str]:
    """Return the lines of a long body without optimisation as several blocks, each with a jump to the next one."""
    if attributes != UNOPTIMISED or any(line.endswith(":") for line in lines):
        return lines
    parted: list[str] = []
    for first in range(0, len(lines), LINES):
        parted += [*([f"br label %lines{first}", f"lines{first}:"] if first else []), *lines[first : first + LINES]]
    return parted


def _loop(body: BodyFunction, functions: Functions) -> list[str]:
    """Return a function that computes one vector of instances or more; the last two vectors may overlap."""
    vectors = Vectors(functions.lanes, "float64")
    opening, results = body.written(vectors, _load, functions)
    for k, value in enumerate(results):
        _store(vectors, body.stores[k], k, value)
    lanes, attributes = functions.lanes, _attributes(vectors)
    if body.is_by_rows:
        return _loop_over_rows(body, lanes, opening, vectors.lines)
    return [
        f"define void @{body.name}({ARGUMENTS}) {attributes} {{",
        "start:",
        *opening,
        f"%last = sub i64 %stop, {lanes}",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ %first, %start ], [ %following, %next ]",
        *_in_blocks(vectors.lines, attributes),
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


def _loop_over_rows(body: BodyFunction, lanes: int, opening: list[str], lines: list[str]) -> list[str]:
    """Return a function that computes rows of instances, each as `_loop` does; a row has at least one vector."""
    vector, zeros, header = f"<{lanes} x double>", f"<{lanes} x i32> zeroinitializer", []
    for k, kind in enumerate(body.kinds):
        if kind not in BY_ROWS:
            continue
        header += [
            f"%row.t{k} = getelementptr i32, ptr %p{k}, i64 %row",
            f"%row.i{k} = load i32, ptr %row.t{k}, align 4",
            f"%row.p{k} = getelementptr double, ptr %w, i32 %row.i{k}",
        ]
        if kind == ROW_UNIFORM:
            header += [
                f"%row.x{k} = load double, ptr %row.p{k}, align 8",
                f"%row.one{k} = insertelement {vector} {POISON}, double %row.x{k}, i32 0",
                f"%row.all{k} = shufflevector {vector} %row.one{k}, {vector} {POISON}, {zeros}",
            ]
    return [
        f'define void @{body.name}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        *opening,
        f"%last = sub i64 %length, {lanes}",
        "br label %row.begins",
        "row.begins:",
        "%row = phi i64 [ %first, %start ], [ %row.next, %row.ends ]",
        "%row.start = mul i64 %row, %length",
        *header,
        "br label %loop",
        "loop:",
        "%j = phi i64 [ 0, %row.begins ], [ %following, %next ]",
        "%i = add i64 %row.start, %j",
        *lines,
        "br label %next",
        "next:",
        f"%on = add i64 %j, {lanes}",
        "%beyond = icmp sgt i64 %on, %last",
        "%following = select i1 %beyond, i64 %last, i64 %on",
        *when("over", "icmp eq i64 %j, %last", "row.ends", "loop"),
        *again("row", "1", "%stop", "more", "row.begins", "done"),
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


def _sums_across(lanes: int) -> list[str]:
    """Return a function that sums neighbouring sums in vectors, each in the order of `_sums`.

    Its words are, after the workspace: places of the first terms, positions of sums, terms of a sum, their distance,
    and the results.
    """
    vector, wide, joined = f"<{lanes} x double>", [], []
    for k in range(lanes):
        wide += [f"%j{k} = add i64 %j, {k}", *_term_across(vector, f"y{k}", f"%j{k}")]
        wide.append(f"%sum{k}.next = fadd {vector} %sum{k}, %y{k}")
    names, half = [f"%sum{k}.next" for k in range(lanes)], lanes // 2
    while half:
        joined += [f"%left{half}.{k} = fadd {vector} {names[k]}, {names[k + half]}" for k in range(half)]
        names, half = [f"%left{half}.{k}" for k in range(half)], half // 2
    return [
        f'define void @{ACROSS}({ARGUMENTS}) nounwind "prefer-vector-width"="512" {{',
        "start:",
        "%w = load ptr, ptr %at",
        *(
            line
            for k, name in enumerate(("starts", "positions", "terms", "step", "results"), 1)
            for line in (
                f"%at{k} = getelementptr i64, ptr %at, i64 {k}",
                f"%{name} = load {'i64' if name in ('terms', 'step') else 'ptr'}, ptr %at{k}",
            )
        ),
        f"%whole = and i64 %terms, {-lanes}",
        "br label %segment",
        "segment:",
        "%s = phi i64 [ %first, %start ], [ %s.next, %closed ]",
        "%place.p = getelementptr i32, ptr %starts, i64 %s",
        "%place = load i32, ptr %place.p, align 4",
        "%base = getelementptr double, ptr %w, i32 %place",
        *when("some", "icmp ne i64 %whole, 0", "wide", "narrow"),
        "%j = phi i64 [ 0, %segment ], [ %j.next, %wide ]",
        *(f"%sum{k} = phi {vector} [ zeroinitializer, %segment ], [ %sum{k}.next, %wide ]" for k in range(lanes)),
        *wide,
        *again("j", f"{lanes}", "%whole", "more", "wide", "joined"),
        *joined,
        f"%joint = fadd {vector} zeroinitializer, {names[0]}",
        "br label %narrow",
        "narrow:",
        f"%before = phi {vector} [ zeroinitializer, %segment ], [ %joint, %joined ]",
        *when("rest", "icmp slt i64 %whole, %terms", "single", "closed"),
        "%k = phi i64 [ %whole, %narrow ], [ %k.next, %single ]",
        f"%so.far = phi {vector} [ %before, %narrow ], [ %so.next, %single ]",
        *_term_across(vector, "oy", "%k"),
        f"%so.next = fadd {vector} %so.far, %oy",
        *again("k", "1", "%terms", "further", "single", "closed"),
        f"%total = phi {vector} [ %before, %narrow ], [ %so.next, %single ]",
        f"%stored = mul i64 %s, {lanes}",
        *(
            line
            for lane in range(lanes)
            for line in (
                f"%to{lane} = add i64 %stored, {lane}",
                f"%at.{lane} = getelementptr i32, ptr %positions, i64 %to{lane}",
                f"%position{lane} = load i32, ptr %at.{lane}, align 4",
                f"%result{lane} = getelementptr double, ptr %results, i32 %position{lane}",
                f"%entry{lane} = extractelement {vector} %total, i32 {lane}",
                f"store double %entry{lane}, ptr %result{lane}, align 8",
            )
        ),
        *again("s", "1", "%stop", "segments.left", "segment", "done"),
        "ret void",
        "}",
    ]


def _term_across(vector: str, name: str, index: str) -> list[str]:
    """Return instructions that load the terms of an index of neighbouring sums."""
    return [
        f"%{name}.at = mul i64 {index}, %step",
        f"%{name}.p = getelementptr double, ptr %base, i64 %{name}.at",
        f"%{name} = load {vector}, ptr %{name}.p, align 8",
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
    """Return a library of loops over bodies, sums, lookups and products, with the driver that calls them."""
    kind, lookups = "maps", not {*LOOKUPS.values()}.isdisjoint(functions)
    sums = [*_sums(SUMS[0], lanes, table=False), *_sums(SUMS[1], lanes, table=True)]
    declarations, names = [f"declare {_gathered(lanes)}"], [*SUMS]
    if ACROSS in functions:
        sums += _sums_across(lanes)
        names.append(ACROSS)
        kind += " across"
    if lookups:
        sums += [line for code in LOOKUPS for line in rows_by_indices(code)]
        declarations.append("declare i64 @llvm.fptosi.sat.i64.f64(double)")
        names += LOOKUPS.values()
        kind += " by indices"
    if not {*PRODUCTS}.isdisjoint(functions):
        sums += product_functions(lanes)
        names += PRODUCTS
        kind += " products"
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
        code = MachineCode(images, tuple(sorted(functions.imported)), {})
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
    """Return a function that repeats the calls of `driver`, with other addresses each time.

    Each row of `%words` has an address that the calls take, by its place, and what is added to it after each
    repetition. Numbers that are not addressed like that are moved before and after. Each move is a row: target, source,
    numbers, the steps in bytes to target and source of the next repetition, and 1 if numbers are added to the target.
    The first `%before` rows are moved before the calls, `%after` more after them.
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
        "define internal void @advance(ptr %words, i64 %count) nounwind {",
        "start:",
        *when("some", "icmp sgt i64 %count, 0", "word", "done"),
        "%k = phi i64 [ 0, %start ], [ %k.next, %word ]",
        "%row = getelementptr { ptr, i64 }, ptr %words, i64 %k",
        "%pair = load { ptr, i64 }, ptr %row, align 8",
        "%place = extractvalue { ptr, i64 } %pair, 0",
        "%step = extractvalue { ptr, i64 } %pair, 1",
        "%before = load i64, ptr %place, align 8",
        "%after = add i64 %before, %step",
        "store i64 %after, ptr %place, align 8",
        *again("k", "1", "%count", "more", "word", "done"),
        "ret void",
        "}",
        f"define void @{REPEAT}(ptr %calls, i64 %count, ptr %moves, i64 %before, i64 %after, ptr %words, i64 %moving, "
        "i64 %turns) nounwind {",
        "start:",
        "%stop = add i64 %before, %after",
        *when("some", "icmp sgt i64 %turns, 0", "turn", "done"),
        "%t = phi i64 [ 0, %start ], [ %t.next, %turn ]",
        "call void @move(ptr %moves, i64 0, i64 %before)",
        f"call void @{DRIVER}(ptr %calls, i64 %count)",
        "call void @move(ptr %moves, i64 %before, i64 %stop)",
        "call void @advance(ptr %words, i64 %moving)",
        *again("t", "1", "%turns", "more", "turn", "done"),
        "ret void",
        "}",
    ]
    return library_of("repeat", [], 1, _loop, cache, [REPEAT], [], code)


# Batches: lanes are points, and instances are computed one after the other --------------------------------------------

#: Names of the functions that sum for many points, by the name in `SUMS`, and True if sums for one point use vectors.
POINT_SUMS: Final = {
    (name, is_wide): f"{name}_{'wide' if is_wide else 'narrow'}" for name in SUMS for is_wide in (True, False)
}


#: Function that computes one point of many at a time by another one, see `_apart`.
APART: Final = "apart"
#: Number of words of a row that describes a copy: target, source, number of entries, and distances of both's entries.
COPY: Final = 5


def _apart(lanes: int) -> list[str]:
    """Return a function that computes points in lanes by a function for one point, in memory of its own.

    Its words are, after the workspace: the function and its three arguments, and the numbers of copies before and after
    each call. The copies follow, rows of `COPY` words.
    """
    fields = ("function", "arguments", "from", "to", "before", "after")
    row = "{ ptr, ptr, i64, i64, i64 }"
    return [
        "define internal void @copied(ptr %rows, i64 %count, i64 %lane) nounwind {",
        "start:",
        *when("some", "icmp sgt i64 %count, 0", "row", "done"),
        "%k = phi i64 [ 0, %start ], [ %k.next, %stored ]",
        f"%place = getelementptr {row}, ptr %rows, i64 %k",
        f"%words = load {row}, ptr %place, align 8",
        *(f"%word{k} = extractvalue {row} %words, {k}" for k in range(COPY)),
        *(
            line
            for name, word, step in (("target", 0, 3), ("source", 1, 4))
            for line in (
                f"%{name}.alone = icmp eq i64 %word{step}, 1",
                f"%{name}.at = select i1 %{name}.alone, i64 0, i64 %lane",
                f"%{name} = getelementptr double, ptr %word{word}, i64 %{name}.at",
            )
        ),
        *when("any", "icmp sgt i64 %word2, 0", "entry", "stored"),
        "%i = phi i64 [ 0, %row ], [ %i.next, %entry ]",
        "%into = mul i64 %i, %word3",
        "%out.of = mul i64 %i, %word4",
        "%into.p = getelementptr double, ptr %target, i64 %into",
        "%out.p = getelementptr double, ptr %source, i64 %out.of",
        "%x = load double, ptr %out.p, align 8",
        "store double %x, ptr %into.p, align 8",
        *again("i", "1", "%word2", "more", "entry", "stored"),
        *again("k", "1", "%count", "further", "row", "done"),
        "ret void",
        "}",
        f"define void @{APART}({ARGUMENTS}) nounwind {{",
        "start:",
        *(
            line
            for k, name in enumerate(fields, 1)
            for line in (
                f"%at{k} = getelementptr i64, ptr %at, i64 {k}",
                f"%{name} = load {'ptr' if k < 3 else 'i64'}, ptr %at{k}",
            )
        ),
        f"%copies = getelementptr i64, ptr %at, i64 {1 + len(fields)}",
        f"%made = getelementptr {row}, ptr %copies, i64 %before",
        "br label %lane",
        "lane:",
        "%l = phi i64 [ 0, %start ], [ %l.next, %lane ]",
        "call void @copied(ptr %copies, i64 %before, i64 %l)",
        "call void %function(ptr %arguments, i64 %from, i64 %to)",
        "call void @copied(ptr %made, i64 %after, i64 %l)",
        *again("l", "1", f"{lanes}", "next", "lane", "done"),
        "ret void",
        "}",
    ]


def _load_points(v: Vectors, kinds: Sequence[str], variable: int) -> dict[int, str]:
    """Return the vector of one input of a body, for all points."""
    kind = kinds[variable]
    base = f"%p{variable}"
    if kind == UNIFORM:
        return {variable: v.load(base, 0, 8)}
    if kind in (FORWARD, BACKWARD):
        index = "%i" if kind == FORWARD else v.let("sub i64 0, %i")
    else:
        index, base = v.let(f"sext i32 {_entry(v, base)} to i64"), "%w"
    return {variable: v.load(v.let(f"getelementptr {v.type}, ptr {base}, i64 {index}"), 0, 8)}


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
        f"define void @{body.name}({ARGUMENTS}) {_attributes(vectors)} {{",
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
    sums += _apart(lanes)
    names, declarations, kind = [*POINT_SUMS.values(), APART], [], "lanes"
    if is_sparse:
        sums += sparse_rows(SPARSE_ROWS, lanes)
        names, declarations, kind = [*names, SPARSE_ROWS], [SMALLER], "lanes sparse"
    return library_of(kind, bodies, lanes, _loop_over_points, cache, names, declarations, sums)
