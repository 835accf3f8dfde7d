"""The LLVM module of a program: its parts, the loop over blocks of points, and what Python calls.

    batch, point    called by Python (`python_abi`)
      run           a range of points (`ranges`)
        blocks      a loop over blocks of as many points as a vector has lanes
          part0 …   a stretch of the tape; a program of one part is in the loop itself

LLVM takes more than linear time for functions of more than some thousand instructions. So a larger program is cut into
parts that pass values through memory, and emitting and compiling take time linear in the number of operations. LLVM
cannot be interrupted, so long parts are compiled some at a time, as modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment, Shape
from accumulus.targets.llvm.callees import Functions
from accumulus.targets.llvm.entry_points import entry_points, point_entry
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.instructions import Instructions
from accumulus.targets.llvm.kernel_signature import ATTRIBUTES, Signature
from accumulus.targets.llvm.layouts import Columns, Layout, Rows
from accumulus.targets.llvm.loops import loops
from accumulus.targets.llvm.ranges import run_columns, run_one, run_rows
from accumulus.targets.llvm.scatter import Slotted, by_tables, places, scatter
from accumulus.targets.llvm.variant import Variant
from accumulus.targets.llvm.vectors import Vectors
from accumulus.targets.parts import Part
from accumulus.targets.runs import Runs, width
from accumulus.targets.runs import runs as sorted_into_runs
from accumulus.targets.schedule import Group, groups, order

__all__ = ["Module", "Text", "in_module", "module"]

#: Lines of LLVM IR that are compiled at a time, about: in a third of a second.
LINES: Final = 12_000

#: A program of more operations is a loop for each kind of them, if runs of equal ones are that long on average.
LARGEST_STRAIGHT_LINE, SHORTEST_RUN = 15_000, 16
#: A tile of the transposed layout is as wide as two cache lines, narrower if it would take more bytes than this.
TILE_LINES, TILE_BYTES = 2, 1 << 18
#: As many structural zeros of one point are cleared by a call, before anything is stored.
WORTH_CLEARING: Final = 16
#: In batches whose results take more bytes than the first, more than caches hold, lines are fetched so many bytes ahead
#: of the stores, where a block has up to the third. Points take 0.5 to 0.9 of the time then; smaller batches, or those
#: of larger blocks, would take up to 1.2 times as long.
BEYOND_CACHES, AHEAD, LARGEST_FETCHED = 12 << 20, 1 << 13, 1 << 14
#: Bytes of a cache line.
LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Text:
    """LLVM IR of a program, as one module or as several that are compiled one after the other.

    Attributes:
        shared: declarations, and definitions that no other module sees.
        parts: functions that can be compiled apart, line by line, by name.
        rest: all else, which calls them.
    """

    shared: Sequence[str]
    parts: Mapping[str, Sequence[str]]
    rest: Sequence[str]

    def __str__(self) -> str:
        return in_module([*self.shared, *(line for lines in self.parts.values() for line in lines), *self.rest])

    def modules(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Modules of about `LINES` lines, each with the names of the parts in it; the last has the rest, too."""
        left = len(self.rest) + sum(map(len, self.parts.values()))
        declared: list[str] = []
        chunk: dict[str, Sequence[str]] = {}
        for name, part in self.parts.items():
            chunk[name] = part
            size = sum(map(len, chunk.values()))
            if left > LINES and size > LINES:
                heads = [head for head, *_ in chunk.values()]
                # others are called by their addresses
                declared += [f"declare{head[15:].rstrip('{ ')}" for head in heads if head.startswith("define internal")]
                lines = [line.replace("define internal", "define", 1) for own in chunk.values() for line in own]
                yield in_module([*self.shared, *lines]), tuple(chunk)
                left, chunk = left - size, {}
        kept = (line for lines in chunk.values() for line in lines)
        yield in_module([*self.shared, *declared, *kept, *self.rest]), ()


@dataclass(frozen=True, slots=True)
class Module:
    """An LLVM module.

    Attributes:
        text: LLVM IR.
        imports: names of functions and objects that it needs from outside.
        tables: arrays that it reads, by name.
        is_short: whether it is one block of code for one point, which need not be compiled as carefully as loops.
    """

    text: Text
    imports: tuple[str, ...]
    tables: Mapping[str, NDArray[Any]]
    is_short: bool = False


def module(tape: Tape, arguments: Sequence[Shape], segments: Sequence[Segment], variant: Variant) -> Module:
    """Write the module of a program whose inputs are the entries of the arguments."""
    lanes, size = variant.lanes, variant.size
    lengths = tuple(segment.length for segment in segments)
    signature = Signature(tuple(arguments), variant.shared or (False,) * len(arguments), lengths, size)
    variant = replace(variant, offsets=variant.offsets or (0,) * len(lengths))
    functions = Functions(lanes, variant.dtype, shared=variant.single)
    tile = _tile(signature, lanes) if variant.transposed else 0
    runs = _runs(tape, segments, variant)
    if runs is None:
        block = _straight_line(tape, segments, signature, variant, functions, tile)
    else:
        block = _in_loops(tape, segments, runs, signature, variant, functions, tile)
    slots = block.slots
    text = list(block.functions)
    if variant.single:
        text += run_one(signature, slots, lanes, block.body)
    elif variant.transposed:
        text += _blocks(block.body, signature, variant)
        text += run_columns(signature, groups(tape, segments, 1), slots, lanes, tile, variant.zeroed, block.direct)
    else:
        text += _blocks(block.body, signature, variant)
        text += run_rows(signature, slots, lanes, variant.offsets, variant.zeroed)
    if variant.single:
        entries, names = point_entry(signature)
    else:
        entries, names = entry_points(signature, variant.transposed, lanes, variant.offsets)
    whole = Text(functions.text(), block.parts, [*text, *entries])
    # functions of the C library are known only once the text has asked for them
    is_short = variant.single and not block.functions and not block.parts
    return Module(whole, (*sorted(functions.imported), *names), block.tables, is_short)


def in_module(lines: Iterable[str]) -> str:
    """LLVM IR of a module for this machine."""
    head = [f'target triple = "{host().triple}"', f'target datalayout = "{host().layout}"']
    tail = ['!0 = !{!"branch_weights", i32 1, i32 1000000}', "!1 = !{}", ""]
    return "\n".join([*head, *lines, *tail])


@dataclass(frozen=True, slots=True)
class _Block:
    """The code that computes one block of points.

    Attributes:
        functions: LLVM IR of functions that it calls.
        parts: of the stretches of the tape, by name.
        body: its instructions; %x0, …, %o0, … and %frame point to its memory.
        slots: vectors that the frame holds.
        tables: arrays that it reads, by name.
        direct: whether it can load from and store to the arrays of a transposed batch; else only tiles of them.
    """

    functions: list[str]
    parts: dict[str, list[str]]
    body: list[str]
    slots: int
    tables: Mapping[str, NDArray[Any]]
    direct: bool = False


def _straight_line(
    tape: Tape, segments: Sequence[Segment], signature: Signature, variant: Variant, functions: Functions, tile: int
) -> _Block:
    """Every operation an instruction, in one function or several."""
    pieces, slots = variant.parts(tape, segments)
    fill, zeroed = [], variant.zeroed
    if variant.single and not zeroed:
        fill = _cleared(segments, variant)
        zeroed = bool(fill)
    layout: Layout
    layout = Columns(signature) if variant.transposed else Rows(signature, variant.lanes, zeroed, variant.offsets)
    scattered = None
    if by_tables(segments):
        layout = Slotted(layout, slots)
        arrays, distinct = places(tape, segments)
        at = np.arange(slots, slots + len(distinct))
        slots += len(distinct)
        scattered = scatter(arrays, at, variant.lanes, variant.dtype, tile, variant.zeroed)
    bodies = [_body(tape, piece, layout, functions, variant) for piece in pieces]

    text: dict[str, list[str]] = {}
    names = [*signature.names, "frame"]
    if len(bodies) > 1:
        line = ["i64 %line"] if variant.transposed else []
        parameters = ", ".join([*(f"ptr noalias %{name}" for name in names), *line])
        for k, body in enumerate(bodies):
            head = f"define internal void @part{k}({parameters}) {ATTRIBUTES} {{"
            text[f"part{k}"] = [head, *body, "ret void", "}"]
        bodies = [[_call(f"part{k}", names, *line) for k in range(len(bodies))]]
    if scattered is None:
        return _Block([], text, [*fill, *bodies[0]], slots, {}, direct=True)
    body = [*fill, *bodies[0], _call("scatter", [*signature.results, "frame"])]
    return _Block(scattered.text, text, body, slots, scattered.tables)


def _in_loops(
    tape: Tape,
    segments: Sequence[Segment],
    runs: Runs,
    signature: Signature,
    variant: Variant,
    functions: Functions,
    tile: int,
) -> _Block:
    """Every kind of operation a loop."""
    made = loops(runs, tape.constants, signature, functions, tile)
    arrays, distinct = places(tape, segments)
    at = runs.slot_of[np.array(distinct, np.int64)]
    scattered = scatter(arrays, at, variant.lanes, variant.dtype, tile, variant.zeroed)
    body = [
        _call("inputs", [*signature.arguments, "frame"]),
        _call("operations", ["frame"]),
        _call("scatter", [*signature.results, "frame"]),
    ]
    return _Block([*made.text, *scattered.text], {}, body, runs.slots + 1, {**made.tables, **scattered.tables})


def _runs(tape: Tape, segments: Sequence[Segment], variant: Variant) -> Runs | None:
    """The program in runs of equal operations, if it is so large that loops are worth it, and runs are long enough."""
    if tape.operations <= LARGEST_STRAIGHT_LINE or variant.part_size:
        return None
    if width(tape) < SHORTEST_RUN:  # what is sorted by kind, too, has shorter runs
        return None
    distinct = places(tape, segments)[1]
    results = [Group(0, slot, (reference,)) for slot, reference in enumerate(distinct)]
    steps = [step for step in order(tape, results) if not isinstance(step, Group)]
    if len(steps) <= LARGEST_STRAIGHT_LINE:
        return None
    found = sorted_into_runs(tape, steps, distinct, variant.exact, fuse=variant.contract and host().fused)
    return found if found.mean >= SHORTEST_RUN else None


def _call(function: str, pointers: Iterable[str], *others: str) -> str:
    return f"call void @{function}({', '.join([*(f'ptr %{name}' for name in pointers), *others])})"


def _cleared(segments: Sequence[Segment], variant: Variant) -> list[str]:
    """Instructions that clear the result arrays of a block, if that is worth it."""
    if by_tables(segments) or sum(segment.length - len(segment.positions) for segment in segments) < WORTH_CLEARING:
        return []
    return [
        f"call void @llvm.memset.p0.i64(ptr %o{k}, i8 0, i64 {variant.lanes * segment.length * variant.size}, i1 false)"
        for k, segment in enumerate(segments)
        if len(segment.positions) < segment.length
    ]


def _tile(signature: Signature, lanes: int) -> int:
    size, entries = signature.size, sum(signature.strides.values())
    tile = max(TILE_LINES * 64 // size, lanes)
    while tile > lanes and tile * size * entries > TILE_BYTES:
        tile //= 2
    return tile


def _body(tape: Tape, part: Part, layout: Layout, functions: Functions, variant: Variant) -> list[str]:
    vectors = Vectors(variant.lanes, variant.dtype)
    instructions = Instructions(tape, vectors, layout, functions, part.slots, variant.contract, variant.exact)
    for step in part.steps:
        if isinstance(step, Group):
            layout.store(step)
        else:
            instructions.operation(step)
    return vectors.lines


def _blocks(body: list[str], signature: Signature, variant: Variant) -> list[str]:
    """Loop over %count points, a whole number of blocks. Transposed, %line is the distance of variables in bytes."""
    real = "double" if variant.dtype == "float64" else "float"
    parameters = [*(f"ptr noalias %all.{name}" for name in signature.names), "ptr noalias %frame", "i64 %count"]
    # loaded again for each block, so that LLVM does not keep the distance to every variable at hand, and run out of
    # registers
    line = ["%line = load volatile i64, ptr %line.at"] if variant.transposed else []
    large, fetch = ([], []) if variant.transposed else _fetched(signature, variant.lanes)
    lines = [
        f"define internal void @blocks({', '.join([*parameters, *['ptr %line.at'] * len(line)])}) {ATTRIBUTES} {{",
        "start:",
        *large,
        "br label %loop",
        "loop:",
        f"%i = phi i64 [ 0, %start ], [ %next, {'%compute' if fetch else '%loop'} ]",
        *line,
    ]
    for name, stride in signature.strides.items():
        lines.append(f"%at.{name} = mul i64 %i, {min(stride, 1) if variant.transposed else stride}")
        lines.append(f"%{name} = getelementptr inbounds {real}, ptr %all.{name}, i64 %at.{name}")
    return [
        *lines,
        *fetch,
        *body,
        f"%next = add i64 %i, {variant.lanes}",
        "%more = icmp slt i64 %next, %count",
        "br i1 %more, label %loop, label %done",
        "done:",
        "ret void",
        "}",
    ]


def _fetched(signature: Signature, lanes: int) -> tuple[list[str], list[str]]:
    """Instructions before the loop over blocks and at the start of each, which fetch lines that results will lie in.

    Blocks store to several rows at a time, so that processors do not see by themselves what comes next. The last blocks
    fetch what lies behind the array: that is no access, and fails nowhere.
    """
    block = lanes * signature.size * max(signature.lengths, default=0)
    if not 0 < block <= LARGEST_FETCHED:
        return [], []
    distance = max(1, round(AHEAD / block)) * block
    large = [
        f"%all.bytes = mul i64 %count, {block // lanes}",
        f"%is.large = icmp ugt i64 %all.bytes, {BEYOND_CACHES}",
    ]
    fetch = [
        "br i1 %is.large, label %fetch, label %compute",
        "fetch:",
        "%fetched = phi i64 [ 0, %loop ], [ %fetched.next, %fetch ]",
        f"%ahead.by = add i64 %fetched, {distance}",
        f"%ahead = getelementptr i8, ptr %o{signature.widest}, i64 %ahead.by",
        "call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 2, i32 1)",
        f"%fetched.next = add i64 %fetched, {LINE}",
        f"%fetches = icmp ult i64 %fetched.next, {block}",
        "br i1 %fetches, label %fetch, label %compute",
        "compute:",
    ]
    return large, fetch
