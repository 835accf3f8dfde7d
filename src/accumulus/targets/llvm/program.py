"""The LLVM module of a program: its parts, the loop over blocks of points, and what Python calls.

    batch, point    called by Python: arrays → pointers; the GIL is released in batches
      run           a range of points: whole blocks, and what is left over
        blocks      a loop over blocks of as many points as a vector has lanes
          part0 …   a stretch of the tape; a program of one part is written into the loop

Points left over are computed once more together with the ones before them, in a block that ends at the last point. A
range of fewer points than lanes goes through scratch memory, in which the last point fills the lanes that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from accumulus.tape.operations import BY_NAME
from accumulus.tape.optimise import needed
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.layouts import Columns, Layout, Rows
from accumulus.targets.llvm.mathematics import definition, patch
from accumulus.targets.llvm.python_abi import UNOPTIMISED, entry_points
from accumulus.targets.llvm.vectors import Vectors
from accumulus.targets.schedule import Group, Part, groups, order, parts

__all__ = ["Module", "Variant", "module"]

#: Operations in one function; larger programs are cut.
PART_SIZE: Final = 1000
#: Scratch memory above this is taken from the heap.
LARGEST_ON_STACK: Final = 1 << 16
#: Points in a tile of the transposed layout, at most; and bytes that a tile may take before it becomes narrower.
TILE: Final = 16
TILE_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Variant:
    """How a program is compiled.

    Attributes:
        lanes: points computed at once.
        dtype: "float64" or "float32".
        transposed: variables × points instead of points × variables.
        zeroed: structural zeros are in place already.
        contract: products and sums may be fused.
        part_size: operations in one function.
    """

    lanes: int
    dtype: str = "float64"
    transposed: bool = False
    zeroed: bool = False
    contract: bool = True
    part_size: int = PART_SIZE
    phases: tuple[int, ...] = ()

    @classmethod
    def of_host(cls, dtype: str, *, transposed: bool = False, zeroed: bool = False) -> Variant:
        """As wide as this machine's vectors."""
        return cls(host().vector_bytes // (8 if dtype == "float64" else 4), dtype, transposed, zeroed)


@dataclass(frozen=True, slots=True)
class Module:
    """A module ready to be compiled: its text, and the names that it needs from outside."""

    text: str
    imports: tuple[str, ...]


def module(tape: Tape, segments: Sequence[Segment], variant: Variant) -> Module:
    """Write the module of a program.

    Time and size are linear in the number of operations.
    """
    functions = Functions(variant.lanes, variant.dtype)
    lengths = [segment.length for segment in segments]
    plan = groups(tape, segments, 1)
    reach = 1 if variant.transposed else variant.lanes
    pieces, slots = parts(tape, order(tape, plan, _partners(tape)), variant.part_size, reach)
    layout = _layout(tape.inputs, lengths, variant)
    bodies = [_body(tape, part, layout, functions, variant) for part in pieces]
    pointers = ["%x", *(f"%o{k}" for k in range(len(lengths))), "%frame"]
    signature = ", ".join(f"ptr noalias {pointer}" for pointer in pointers)
    text: list[str] = []
    if len(bodies) > 1:
        for k, body in enumerate(bodies):
            text += [f"define internal void @part{k}({signature}) {ATTRIBUTES} {{", *body, "ret void", "}"]
        call = ", ".join(f"ptr {pointer}" for pointer in pointers)
        bodies = [[f"call void @part{k}({call})" for k in range(len(bodies))]]
    text += _blocks(signature, bodies[0], tape.inputs, lengths, variant)
    if variant.transposed:
        text += _run_columns(tape.inputs, lengths, plan, slots, variant)
    else:
        text += _run_rows(tape.inputs, lengths, slots, variant)
    entries, needed_by_entries = entry_points(tape.inputs, len(lengths), variant.transposed)
    text += entries

    arities = sorted({function.arity for function in functions.vectors})
    head = [
        f'target triple = "{host().triple}"',
        f'target datalayout = "{host().layout}"',
        *sorted(functions.intrinsics),
        *(functions.imported[name] for name in sorted(functions.imported)),
        *_intrinsics(variant.lanes, functions),
        *(functions.definitions[name] for name in sorted(functions.definitions)),
        *(definition(function, variant.lanes) for function in functions.vectors),
        *(patch(arity, variant.lanes) for arity in arities),
    ]
    tail = ['!0 = !{!"branch_weights", i32 1, i32 1000000}', "!1 = !{}"]
    imports = (*sorted(functions.imported), *needed_by_entries)
    return Module("\n".join([*head, *text, *tail, ""]), imports)


#: Vectors as wide as the text says, and a stack on which spilled ones do not straddle cache lines.
ATTRIBUTES: Final = 'nounwind noinline "prefer-vector-width"="512" "stackrealign"'


def _layout(inputs: int, lengths: Sequence[int], variant: Variant) -> Layout:
    if variant.transposed:
        return Columns(inputs, lengths, _tile(inputs, lengths, variant))
    return Rows(inputs, lengths, variant.lanes, variant.zeroed, variant.phases or [0] * len(lengths))


def _tile(inputs: int, lengths: Sequence[int], variant: Variant) -> int:
    size = 8 if variant.dtype == "float64" else 4
    widest = max(TILE * 8 // size, variant.lanes)
    while widest > variant.lanes and widest * size * (inputs + sum(lengths)) > TILE_BYTES:
        widest //= 2
    return widest


def _partners(tape: Tape) -> dict[int, int]:
    """Sine and cosine of one angle, each beside the other."""
    sin, cos = BY_NAME["sin"].code, BY_NAME["cos"].code
    marks = needed(tape)
    found: dict[int, dict[int, int]] = {sin: {}, cos: {}}
    for reference in range(tape.inputs, len(tape)):
        code = tape.codes[reference]
        if code in found and marks[reference]:
            found[code][tape.first[reference]] = reference
    partners = {}
    for angle, sine in found[sin].items():
        cosine = found[cos].get(angle)
        if cosine is not None:
            partners[sine], partners[cosine] = cosine, sine
    return partners


def _body(tape: Tape, part: Part, layout: Layout, functions: Functions, variant: Variant) -> list[str]:
    vectors = Vectors(variant.lanes, variant.dtype)
    instructions = Instructions(tape, vectors, layout, functions, part.slots, variant.contract)
    for step in part.steps:
        if isinstance(step, Group):
            layout.store(step)
        else:
            instructions.operation(step)
    return vectors.lines


def _intrinsics(lanes: int, functions: Functions) -> list[str]:
    """Declarations that the functions written out here, and the copying, need."""
    found = [
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare i64 @llvm.smin.i64(i64, i64)",
    ]
    if functions.vectors:
        kind = f"<{lanes} x double>"
        for name, arity in (("fma", 3), ("fabs", 1), ("sqrt", 1)):
            declaration = f"declare {kind} @llvm.{name}.v{lanes}f64({', '.join([kind] * arity)})"
            if declaration not in functions.intrinsics:
                found.append(declaration)
    return found


def _blocks(
    signature: str, body: list[str], inputs: int, lengths: Sequence[int], variant: Variant
) -> list[str]:
    """Loop over %count points, a whole number of blocks."""
    real = "double" if variant.dtype == "float64" else "float"
    strides = [1] * (1 + len(lengths)) if variant.transposed else [inputs, *lengths]
    names = ["x", *(f"o{k}" for k in range(len(lengths)))]
    lines = [
        f"define internal void @blocks({signature.replace('%', '%all.').replace('%all.frame', '%frame')}, "
        f"i64 %count) {ATTRIBUTES} {{",
        "entry:",
        "br label %loop",
        "loop:",
        "%i = phi i64 [ 0, %entry ], [ %next, %after ]",
    ]
    for name, stride in zip(names, strides, strict=True):
        lines.append(f"%at.{name} = mul i64 %i, {stride}")
        lines.append(f"%{name} = getelementptr inbounds {real}, ptr %all.{name}, i64 %at.{name}")
    return [
        *lines,
        *body,
        "br label %after",
        "after:",
        f"%next = add i64 %i, {variant.lanes}",
        "%more = icmp slt i64 %next, %count",
        "br i1 %more, label %loop, label %end",
        "end:",
        "ret void",
        "}",
    ]


def _scratch(size: int) -> tuple[list[str], list[str]]:
    """Instructions that make %scratch, of `size` bytes from a cache line on, and that give it back."""
    if size <= LARGEST_ON_STACK:
        return [f"%scratch = alloca i8, i64 {max(size, 1)}, align 64"], []
    taken = [
        f"%heap = call ptr @PyMem_RawMalloc(i64 {size + 64})",
        "%none = icmp eq ptr %heap, null",
        "br i1 %none, label %out_of_memory, label %start",
        "out_of_memory:",
        "ret i32 1",
        "start:",
        "%heap.at = ptrtoint ptr %heap to i64",
        "%heap.up = add i64 %heap.at, 63",
        "%heap.line = and i64 %heap.up, -64",
        "%heap.skip = sub i64 %heap.line, %heap.at",
        "%scratch = getelementptr i8, ptr %heap, i64 %heap.skip",
    ]
    return taken, ["call void @PyMem_RawFree(ptr %heap)"]


class _Pieces:
    """Pieces of the scratch memory, each from a cache line on."""

    def __init__(self) -> None:
        self.size = 0
        self.lines: list[str] = []

    def take(self, name: str, size: int) -> None:
        self.lines.append(f"%{name} = getelementptr inbounds i8, ptr %scratch, i64 {self.size}")
        self.size += size + -size % 64


def _run_rows(inputs: int, lengths: Sequence[int], slots: int, variant: Variant) -> list[str]:
    size = 8 if variant.dtype == "float64" else 4
    lanes = variant.lanes
    row_bytes = [inputs * size, *(length * size for length in lengths)]
    names = ["x", *(f"o{k}" for k in range(len(lengths)))]
    pieces = _Pieces()
    pieces.take("frame", slots * lanes * size)
    for name, row in zip(names, row_bytes, strict=True):
        pieces.take(f"few.{name}", row * lanes)
    take, release = _scratch(pieces.size)

    def call(prefix: str, count: str) -> str:
        return f"call void @blocks({', '.join(f'ptr %{prefix}{name}' for name in names)}, ptr %frame, i64 {count})"

    def moved(prefix: str, count: str) -> list[str]:
        lines = []
        for name, row in zip(names, row_bytes, strict=True):
            lines.append(f"%{prefix}by.{name} = mul i64 {count}, {row}")
            source = f"%first.{name}" if prefix != "first." else f"%{name}"
            lines.append(f"%{prefix}{name} = getelementptr inbounds i8, ptr {source}, i64 %{prefix}by.{name}")
        return lines

    def copy(to: str, source: str, index: str, row: int, tag: str) -> list[str]:
        return [
            f"%to.{tag} = mul i64 {index}, {row}",
            f"%top.{tag} = getelementptr inbounds i8, ptr {to}, i64 %to.{tag}",
            f"call void @llvm.memcpy.p0.p0.i64(ptr %top.{tag}, ptr {source}, i64 {row}, i1 false)",
        ]

    gather = copy("%few.x", "%from.x", "%lane", row_bytes[0], "x")
    scatter = []
    for name, row in zip(names[1:], row_bytes[1:], strict=True):
        scatter.append(f"%of.{name} = mul i64 %point, {row}")
        scatter.append(f"%from.{name} = getelementptr inbounds i8, ptr %few.{name}, i64 %of.{name}")
        scatter += copy(f"%first.{name}", f"%from.{name}", "%point", row, name)
    pointers = ", ".join(f"ptr %{name}" for name in names)
    return [
        f"define internal i32 @run({pointers}, i64 %first, i64 %last, i64 %points) {UNOPTIMISED} {{",
        "entry:",
        *take,
        *pieces.lines,
        "%count = sub i64 %last, %first",
        *moved("first.", "%first"),
        f"%enough = icmp sge i64 %count, {lanes}",
        "br i1 %enough, label %whole, label %gather",
        "whole:",
        f"%full = and i64 %count, {-lanes}",
        call("first.", "%full"),
        "%exact = icmp eq i64 %full, %count",
        "br i1 %exact, label %done, label %rest",
        "rest:",
        f"%back = sub i64 %count, {lanes}",
        *moved("rest.", "%back"),
        call("rest.", str(lanes)),
        "br label %done",
        "gather:",
        f"%lane = phi i64 [ 0, %{'start' if release else 'entry'} ], [ %lane.next, %gather ]",
        "%last.one = sub i64 %count, 1",
        "%chosen = call i64 @llvm.smin.i64(i64 %lane, i64 %last.one)",
        f"%of.x = mul i64 %chosen, {row_bytes[0]}",
        "%from.x = getelementptr inbounds i8, ptr %first.x, i64 %of.x",
        *gather,
        "%lane.next = add i64 %lane, 1",
        f"%lane.more = icmp slt i64 %lane.next, {lanes}",
        "br i1 %lane.more, label %gather, label %few",
        "few:",
        call("few.", str(lanes)),
        "br label %scatter",
        "scatter:",
        "%point = phi i64 [ 0, %few ], [ %point.next, %scatter ]",
        *scatter,
        "%point.next = add i64 %point, 1",
        "%point.more = icmp slt i64 %point.next, %count",
        "br i1 %point.more, label %scatter, label %done",
        "done:",
        *release,
        "ret i32 0",
        "}",
    ]


def _run_columns(
    inputs: int, lengths: Sequence[int], plan: Sequence[Group], slots: int, variant: Variant
) -> list[str]:
    size = 8 if variant.dtype == "float64" else 4
    lanes, tile = variant.lanes, _tile(inputs, lengths, variant)
    names = ["x", *(f"o{k}" for k in range(len(lengths)))]
    rows = [inputs, *lengths]
    pieces = _Pieces()
    pieces.take("frame", slots * lanes * size)
    cleared = pieces.size
    for name, count in zip(names, rows, strict=True):
        pieces.take(f"tile.{name}", count * tile * size)
    take, release = _scratch(pieces.size)

    def copy(to: str, step: str, source: str, source_step: str, count: int) -> str:
        return (
            f"call void @copy(ptr {to}, i64 {step}, ptr {source}, i64 {source_step}, i64 {count}, i64 %bytes)"
        )

    # results are copied in runs of neighbouring entries; a run of structural zeros is left out where they are in place
    runs: list[tuple[int, int, int]] = []
    for group in plan:
        if group.is_zero and variant.zeroed:
            continue
        if runs and runs[-1][0] == group.segment and sum(runs[-1][1:]) == group.start:
            runs[-1] = (group.segment, runs[-1][1], runs[-1][2] + len(group.references))
        else:
            runs.append((group.segment, group.start, len(group.references)))
    outward = []
    for k, (segment, start, count) in enumerate(runs):
        outward += [
            f"%skip{k} = mul i64 %line, {start}",
            f"%to{k} = getelementptr inbounds i8, ptr %here.o{segment}, i64 %skip{k}",
            f"%from{k} = getelementptr inbounds i8, ptr %tile.o{segment}, i64 {start * tile * size}",
            copy(f"%to{k}", "%line", f"%from{k}", str(tile * size), count),
        ]
    pointers = ", ".join(f"ptr %{name}" for name in names)
    tiles = ", ".join(f"ptr %tile.{name}" for name in names)
    return [
        *_copy(tile * size),
        *_pad(tile, "double" if size == 8 else "float"),
        f"define internal i32 @run({pointers}, i64 %first, i64 %last, i64 %points) {UNOPTIMISED} {{",
        "entry:",
        *take,
        *pieces.lines,
        f"%results = getelementptr inbounds i8, ptr %scratch, i64 {cleared}",
        f"call void @llvm.memset.p0.i64(ptr %results, i8 0, i64 {pieces.size - cleared}, i1 false)",
        f"%line = mul i64 %points, {size}",
        "br label %loop",
        "loop:",
        f"%at = phi i64 [ %first, %{'start' if release else 'entry'} ], [ %next, %loop ]",
        "%left = sub i64 %last, %at",
        f"%here = call i64 @llvm.smin.i64(i64 %left, i64 {tile})",
        f"%bytes = mul i64 %here, {size}",
        *(f"%here.{name} = getelementptr inbounds {'double' if size == 8 else 'float'}, ptr %{name}, i64 %at" for name in names),
        copy("%tile.x", str(tile * size), "%here.x", "%line", inputs),
        f"call void @pad(ptr %tile.x, i64 {inputs}, i64 %here)",
        f"%up = add i64 %here, {lanes - 1}",
        f"%whole = and i64 %up, {-lanes}",
        f"call void @blocks({tiles}, ptr %frame, i64 %whole)",
        *outward,
        f"%next = add i64 %at, {tile}",
        "%more = icmp slt i64 %next, %last",
        "br i1 %more, label %loop, label %done",
        "done:",
        *release,
        "ret i32 0",
        "}",
    ]


def _copy(full: int) -> list[str]:
    """Copy %count runs of %bytes each; of `full` bytes without a call."""
    return [
        "define internal void @copy(ptr noalias %to, i64 %to.step, ptr noalias %from, i64 %from.step, i64 %count, "
        "i64 %bytes) nounwind noinline {",
        "entry:",
        "%some = icmp sgt i64 %count, 0",
        "br i1 %some, label %start, label %done",
        "start:",
        f"%full = icmp eq i64 %bytes, {full}",
        "br i1 %full, label %whole, label %part",
        *(
            line
            for label, size in (("whole", str(full)), ("part", "%bytes"))
            for line in (
                f"{label}:",
                f"%k.{label} = phi i64 [ 0, %start ], [ %next.{label}, %{label} ]",
                f"%to.by.{label} = mul i64 %k.{label}, %to.step",
                f"%from.by.{label} = mul i64 %k.{label}, %from.step",
                f"%to.{label} = getelementptr inbounds i8, ptr %to, i64 %to.by.{label}",
                f"%from.{label} = getelementptr inbounds i8, ptr %from, i64 %from.by.{label}",
                f"call void @llvm.memcpy.p0.p0.i64(ptr %to.{label}, ptr %from.{label}, i64 {size}, i1 false)",
                f"%next.{label} = add i64 %k.{label}, 1",
                f"%more.{label} = icmp slt i64 %next.{label}, %count",
                f"br i1 %more.{label}, label %{label}, label %done",
            )
        ),
        "done:",
        "ret void",
        "}",
    ]


def _pad(tile: int, real: str) -> list[str]:
    """Fill each of %count runs of `tile` entries from %used on with the entry before."""
    return [
        "define internal void @pad(ptr %tile, i64 %count, i64 %used) nounwind noinline {",
        "entry:",
        f"%full = icmp eq i64 %used, {tile}",
        "%none = icmp eq i64 %count, 0",
        "%nothing = or i1 %full, %none",
        "br i1 %nothing, label %done, label %run",
        "run:",
        "%k = phi i64 [ 0, %entry ], [ %k.next, %run.end ]",
        f"%start = mul i64 %k, {tile}",
        "%end = add i64 %start, %used",
        "%before = sub i64 %end, 1",
        f"%from = getelementptr inbounds {real}, ptr %tile, i64 %before",
        f"%value = load {real}, ptr %from",
        "br label %entry.next",
        "entry.next:",
        "%j = phi i64 [ %used, %run ], [ %j.next, %entry.next ]",
        "%at = add i64 %start, %j",
        f"%to = getelementptr inbounds {real}, ptr %tile, i64 %at",
        f"store {real} %value, ptr %to",
        "%j.next = add i64 %j, 1",
        f"%j.more = icmp slt i64 %j.next, {tile}",
        "br i1 %j.more, label %entry.next, label %run.end",
        "run.end:",
        "%k.next = add i64 %k, 1",
        "%k.more = icmp slt i64 %k.next, %count",
        "br i1 %k.more, label %run, label %done",
        "done:",
        "ret void",
        "}",
    ]
