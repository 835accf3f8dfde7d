"""The LLVM module of a program: its parts, the loop over blocks of points, and entry points for Python.

    batch, point    called by Python (`entry_points`)
      run           a range of points (`ranges`)
        blocks      a loop over blocks of as many points as a vector has lanes
          part0 …   a stretch of the tape; a program of one part is in the loop itself

LLVM takes more than linear time for functions of more than some thousand instructions. So a larger program is cut into
parts that pass values through memory, and emitting and compiling take time linear in the number of operations. LLVM
cannot be interrupted, so many parts are compiled in several modules, one after the other.

A `Variant` defines how a program is compiled; `tune` selects the one that suits the program and this machine.

A block has to do arithmetic, at about two instructions a cycle, to transpose points and results, at log₂(lanes)
shuffles per variable, and to store results, including structural zeros. Meanwhile it waits for the longest chain of
dependent operations; elementary functions, square roots and divisions make long chains.

* If the chain takes nearly as long as the rest, two blocks at a time fill the gaps. They need twice as many registers:
  with shorter chains, that costs more than it wins. In a transposed batch, half as long a chain suffices if all values
  fit the registers anyway: two blocks write two neighbouring cache lines of each variable. With vectors of 32 bytes, of
  which two fill a cache line, a chain of half that time suffices, and operations come in an order with fewer live
  values.
* If the chain takes a large part of that time, operations come in the order of the critical path; for two blocks only
  if the live values in that order fit the registers, or nearly.
* If there is little arithmetic and much to store, half as wide a block writes half as many rows at a time, which suits
  caches better. In a transposed batch, a block as wide as a cache line fills one at once.
* If a long program, one that is cut into functions, has many more live values than there are registers, operations come
  in an order with fewer, if there is one.

Each of the first three gained 8 to 17 per cent on the examples to which it applies (vectors of 64 bytes), and 4 to 25
in transposed batches. The last gained 12 to 70 per cent on recurrences of thousands of operations, 8 on two Runge-Kutta
steps of a ring of ten variables, and 5 on a walking model; compiling took up to a fifth longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.live import needed, time_of
from accumulus.tape.operations import BY_NAME, LATENCY, OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment, Unit
from accumulus.targets.llvm.entry_points import entry_points, point_entry
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS
from accumulus.targets.llvm.ranges import run_columns, run_one, run_rows
from accumulus.targets.llvm.scipy_functions import PREFIX
from accumulus.targets.llvm.special_functions import SPECIAL_FUNCTIONS
from accumulus.targets.llvm.tables import Slotted, by_tables, loop_functions, result_sources, scatter_function
from accumulus.targets.llvm.vectors import ATTRIBUTES, Columns, Layout, Rows, Signature, Vectors, unless
from accumulus.targets.schedule import (
    ResultGroup,
    Runs,
    Stretch,
    cut,
    groups,
    handed_on,
    most_alive,
    order,
    order_by_critical_path,
    order_by_registers,
    width,
)
from accumulus.targets.schedule import runs as sorted_into_runs

# Variants -------------------------------------------------------------------------------------------------------------

#: Largest numbers of operations and of results of a program in one function; others are cut every `PART_SIZE` steps.
#: Longer functions take LLVM time that grows faster than their length, shorter ones pass more values through memory.
LARGEST_UNCUT, PART_SIZE = 1000, 300


@dataclass(frozen=True, slots=True)
class Variant:
    """A way of compiling a program."""

    lanes: int  # number of points computed at once
    dtype: str = "float64"  # "float64" or "float32"
    transposed: bool = False  # True for variables × points instead of points × variables
    zeroed: bool = False  # True if structural zeros are already in the result arrays
    offsets: tuple[int, ...] = ()  # position within a vector of the first entry of each result array; all 0 if empty
    contract: bool = True  # True if products and sums may be fused
    exact: frozenset[int] = frozenset()  # references of operations that may not be fused
    part_size: int = 0  # operations and stores in one function; 0 for the default of the program's length
    critical_path: bool = False  # True for the order of the critical path, False for the order of results
    steps: tuple[int | ResultGroup, ...] | None = (
        None  # operations and results in another order; None for one of these two
    )
    single: bool = False  # True for one point at a time, without batches
    shared: tuple[bool, ...] = ()  # for each argument, True if all points share it; all False if empty

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 8 if self.dtype == "float64" else 4

    def parts(self, tape: Tape, segments: Sequence[Segment]) -> tuple[list[Stretch], int]:
        """Return operations and results in order, cut into functions; and the number of slots in the frame."""
        results = results_of(tape, segments)
        if self.steps is not None:
            steps: Sequence[int | ResultGroup] = self.steps
        elif self.critical_path:
            steps = list(order_by_critical_path(tape, results, sines_and_cosines(tape)))
        else:
            steps = list(order(tape, results, sines_and_cosines(tape)))
        uncut = max(len(results), len(steps) - len(results)) <= LARGEST_UNCUT
        size = self.part_size or (len(steps) if uncut else PART_SIZE)
        return cut(tape, steps, size, 1 if self.transposed else self.lanes)


def results_of(tape: Tape, segments: Sequence[Segment]) -> list[ResultGroup]:
    """Return the stored results in order: entries of result arrays, or the distinct values as one array."""
    if not by_tables(segments):
        return groups(tape, segments, 1)
    return [ResultGroup(0, slot, (reference,)) for slot, reference in enumerate(result_sources(tape, segments)[1])]


def sines_and_cosines(tape: Tape) -> dict[int, int]:
    """Return pairs of sine and cosine of one angle, which share a call: a map from each to the other."""
    sin, cos = BY_NAME["sin"].code, BY_NAME["cos"].code
    if sin not in tape.codes or cos not in tape.codes:
        return {}
    marks = needed(tape)
    by_angle: dict[int, dict[int, int]] = {sin: {}, cos: {}}
    for reference in range(tape.inputs, len(tape)):
        code = tape.codes[reference]
        if code in by_angle and marks[reference]:
            by_angle[code][tape.first[reference]] = reference
    pairs = {}
    for angle, sine in by_angle[sin].items():
        cosine = by_angle[cos].get(angle)
        if cosine is not None:
            pairs[sine], pairs[cosine] = cosine, sine
    return pairs


# The variant that suits a program -------------------------------------------------------------------------------------

#: Least length of the longest chain, relative to all other work, for which blocks are twice as wide; the same with
#: vectors of 32 bytes, for rows only if arithmetic takes longer than shuffles and stores; and for which operations come
#: in the order of the critical path. Smaller lengths run out of registers, and values go through memory; larger ones
#: leave the processor waiting for chains.
WIDE_FROM, WIDE_FROM_AVX2, CRITICAL_FROM = 0.72, 0.5, 0.29
#: The same relative to arithmetic and stores, for which transposed blocks are twice as wide if registers are left: a
#: smaller length needs more registers for no gain, a larger one leaves the processor waiting.
WIDE_TRANSPOSED_FROM: Final = 0.5
#: Blocks are half as wide if shuffles take this many times as long as arithmetic, and at most half as many zeros are
#: stored as there are variables. Narrower blocks save shuffles, but compute half as much with each instruction, and
#: store zeros in more of them.
NARROW_FROM, ZEROS = 1.8, 0.5
#: Longer programs, in operations, have enough work while they wait, and too few registers for more; a smaller number
#: leaves programs waiting that could be wide.
LONGEST_WIDE: Final = 500
#: In programs that are cut into functions, up to this number of operations, register pressure is high if live values
#: exceed the registers this many times: then another order is tried. Longer programs and less pressure take preparation
#: time to order, the opposite leaves values that pass through memory.
LONGEST_ORDERED, HIGH_PRESSURE = 10_000, 4
#: That order is used if it passes at most this fraction of the values between functions. It leaves some registers for
#: temporaries besides live values. A larger fraction accepts orders that gain nothing, a smaller one gives up gains;
#: more spare registers keep fewer values, fewer spill temporaries.
WORTH_IT, SPARE = 0.9, 4
#: Functions for which this package has code.
OWN: Final = VECTOR_FUNCTIONS.keys() | SPECIAL_FUNCTIONS.keys()


def tune(
    tape: Tape, segments: Sequence[Segment], dtype: str, transposed: bool = False, *, single: bool = False
) -> Variant:
    """Return the variant that suits this machine and the program.

    Args:
        tape: tape of the program.
        segments: result arrays.
        dtype: dtype of the code.
        transposed: if True, for transposed batches instead of those in C order.
        single: if True, for one point, for which only the order of operations matters.
    """
    if single and tape.operations <= LARGEST_UNCUT:
        return Variant(1, dtype)
    machine = host()
    lanes = machine.vector_bytes // (8 if dtype == "float64" else 4)
    marks = needed(tape)
    live = [reference for reference in range(tape.inputs, len(tape)) if marks[reference]]
    if len(live) > LARGEST_UNCUT:
        few = Variant(lanes, dtype, transposed)
        return few if len(live) > LONGEST_ORDERED else _by_registers(tape, segments, few)
    chain, called = _chain(tape, live)
    moved = tape.inputs + sum(segment.count for segment in segments)
    work = time_of(tape) / 2
    shuffles = (lanes.bit_length() - 1) * moved / 2
    stores = sum(segment.length for segment in segments)
    busy = work + shuffles + stores
    if _has_own_functions(called, dtype) and len(live) <= LONGEST_WIDE:
        results, registers = results_of(tape, segments), machine.registers
        is_avx2 = machine.vector_bytes == 32
        wide = chain > WIDE_FROM * busy
        if is_avx2 and (transposed or work > shuffles + stores):
            wide = wide or chain > WIDE_FROM_AVX2 * busy
        if transposed and not wide and chain > WIDE_TRANSPOSED_FROM * (work + moved - tape.inputs):
            wide = 2 * most_alive(tape, list(order(tape, results))) <= registers
        if wide:
            variant, uncut = Variant(2 * lanes, dtype, transposed), _is_uncut(tape, segments)
            fits = most_alive(tape, list(order_by_critical_path(tape, results))) <= registers
            if fits or not uncut or not is_avx2:
                return replace(variant, critical_path=fits and uncut)
            if transposed and most_alive(tape, list(order(tape, results))) > 2 * registers:
                return variant  # values are spilled in any order
            pairs = sines_and_cosines(tape)
            return replace(variant, steps=tuple(order_by_registers(tape, results, registers, pairs)))
    few_zeros = stores + tape.inputs <= (1 + ZEROS) * moved
    if machine.vector_bytes == 64 and not (called or transposed) and few_zeros and shuffles > NARROW_FROM * work:
        return Variant(lanes // 2, dtype, transposed)
    critical_path = chain > CRITICAL_FROM * busy and _is_uncut(tape, segments)
    return Variant(lanes, dtype, transposed, critical_path=critical_path)


def _is_uncut(tape: Tape, segments: Sequence[Segment]) -> bool:
    """Return True if a short program stays in one function, that is, if it has few enough results.

    Otherwise a point and a batch need the same order: a product is only fused with a sum in the same part.
    """
    return len(results_of(tape, segments)) <= LARGEST_UNCUT


def values_in_registers(variant: Variant) -> int:
    """Return the number of vectors of a variant that fit the registers."""
    machine = host()
    return machine.registers // max(1, variant.lanes * variant.size // machine.vector_bytes)


def _by_registers(tape: Tape, segments: Sequence[Segment], variant: Variant) -> Variant:
    """Return the variant, with `order_by_registers` if too many values are live and that passes fewer on."""
    registers = values_in_registers(variant)
    if most_alive(tape, list(order(tape, groups(tape, segments, 1)))) <= HIGH_PRESSURE * registers:
        return variant
    results, pairs = results_of(tape, segments), sines_and_cosines(tape)
    steps = tuple(order_by_registers(tape, results, registers - SPARE, pairs))
    usual = list(order(tape, results, pairs))
    pays = handed_on(tape, steps, PART_SIZE) <= WORTH_IT * handed_on(tape, usual, PART_SIZE)
    return replace(variant, steps=steps) if pays else variant


def runs_in_one_lane(tape: Tape, dtype: str) -> bool:
    """Return True if one lane gives the same bits as many; vector functions of a library may differ."""
    marks = np.frombuffer(needed(tape), np.uint8)[tape.inputs :] != 0
    codes = np.unique(np.frombuffer(tape.codes, np.uint8)[tape.inputs :][marks]).tolist()
    called = {OPERATIONS[code].llvm[1:] for code in codes if OPERATIONS[code].llvm.startswith("@")}
    return _has_own_functions(called, dtype)


def _has_own_functions(called: set[str], dtype: str) -> bool:
    """Return True if the code calls only elementary functions of this package, for vectors of any width."""
    called = {each for each in called if not each.startswith(PREFIX)}  # these are called lane by lane
    return not called or (dtype == "float64" and host().fused and called <= OWN)


def _chain(tape: Tape, live: Sequence[int]) -> tuple[int, set[str]]:
    """Return the length of the longest chain in cycles, and the elementary functions that the program calls."""
    ready: dict[int, int] = {}
    called: set[str] = set()
    for reference in live:
        row = OPERATIONS[tape.codes[reference]]
        ready[reference] = LATENCY[row.code] + max(ready.get(argument, 0) for argument in tape.arguments(reference))
        if row.llvm.startswith("@"):
            called.add(row.llvm[1:])
    return max(ready.values(), default=0), called


# The module -----------------------------------------------------------------------------------------------------------

#: Approximate number of lines of LLVM IR that are compiled at a time, in a third of a second. More lines delay Ctrl-C
#: (`make bench ARGS=interrupts`), fewer start the compiler more often.
LINES: Final = 12_000

#: Length, in operations, above which a program becomes loops over kinds of operations, and their least mean run length.
#: Longer straight lines take longer to compile, shorter ones give up speed, since loops pass values through memory;
#: shorter runs cost more to enter than they save.
LARGEST_STRAIGHT_LINE, SHORTEST_RUN = 15_000, 16
#: Number of cache lines across a tile of the transposed layout, and the bytes of a tile above which it is narrower.
#: Wider tiles leave the cache, narrower ones copy shorter runs: with two lines, and variables an even number of lines
#: apart, points took up to 3.5 times as long.
TILE_LINES, TILE_BYTES = 8, 1 << 20
#: Least number of structural zeros of one point that a call clears before anything is stored: with fewer, clearing
#: writes memory twice for little; with more, zeros are stored one by one.
WORTH_CLEARING: Final = 16
#: If a batch's results take more than `BEYOND_CACHES` bytes, lines are prefetched `AHEAD` bytes ahead of the stores,
#: for blocks of up to `LARGEST_FETCHED` bytes. Points then take 0.5 to 0.9 of the time. With smaller batches or larger
#: blocks, they would take up to 1.2 times as long.
BEYOND_CACHES, AHEAD, LARGEST_FETCHED = 12 << 20, 1 << 13, 1 << 14
#: Bytes of a cache line.
LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Text:
    """LLVM IR of a program, as one module or as several that are compiled one after the other."""

    shared: Sequence[str]  # declarations and internal definitions that every module needs
    parts: Mapping[str, Sequence[str]]  # functions that can be compiled separately, line by line, by name
    rest: Sequence[str]  # functions that call them

    def __str__(self) -> str:
        return in_module([*self.shared, *(line for lines in self.parts.values() for line in lines), *self.rest])

    def modules(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield modules of about `LINES` lines, each with the names of the parts in it; the last also has the rest."""
        left = len(self.rest) + sum(map(len, self.parts.values()))
        declared: list[str] = []
        chunk: dict[str, Sequence[str]] = {}
        for name, part in self.parts.items():
            chunk[name] = part
            size = sum(map(len, chunk.values()))
            if left > LINES and size > LINES:
                heads = [head for head, *_ in chunk.values()]
                # only internal functions, since others are called by address
                declared += [f"declare{head[15:].rstrip('{ ')}" for head in heads if head.startswith("define internal")]
                lines = [
                    line.replace("define internal", "define", 1) for part_lines in chunk.values() for line in part_lines
                ]
                yield in_module([*self.shared, *lines]), tuple(chunk)
                left, chunk = left - size, {}
        remaining = (line for lines in chunk.values() for line in lines)
        yield in_module([*self.shared, *declared, *remaining, *self.rest]), ()


@dataclass(frozen=True, slots=True)
class Module:
    """An LLVM module."""

    text: Text  # LLVM IR
    imports: tuple[str, ...]  # names of functions and objects that it imports
    tables: Mapping[str, NDArray[Any]]  # arrays that it reads, by name
    # True for straight-line code for one point, which can be compiled with less care than loops
    is_short: bool = False


def module(unit: Unit, variant: Variant) -> Module:
    """Return the module of a program."""
    tape, segments, lanes, size = unit.tape, unit.segments, variant.lanes, variant.size
    lengths, shapes = tuple(unit.lengths), unit.shapes
    signature = Signature(shapes, variant.shared or (False,) * len(shapes), lengths, size)
    variant = replace(variant, offsets=variant.offsets or (0,) * len(lengths))
    functions = Functions(lanes, variant.dtype, single=variant.single)
    tile, pitch = _tile(signature, lanes) if variant.transposed else (0, 0)
    runs = _runs(tape, segments, variant)
    if runs is None:
        block = _straight_line(tape, segments, signature, variant, functions, pitch)
    else:
        block = _in_loops(tape, segments, runs, signature, variant, functions, pitch)
    slots = block.slots
    text = list(block.functions)
    if variant.single:
        text += run_one(signature, slots, lanes, block.body)
    elif variant.transposed:
        text += _blocks(block.body, signature, variant)
        text += run_columns(
            signature, groups(tape, segments, 1), slots, lanes, tile, pitch, variant.zeroed, block.direct
        )
    else:
        text += _blocks(block.body, signature, variant)
        text += run_rows(signature, slots, lanes, variant.offsets, variant.zeroed)
    if variant.single:
        entries, names = point_entry(signature)
    else:
        entries, names = entry_points(signature, variant.transposed, lanes, variant.offsets)
    whole = Text(functions.text(), block.parts, [*text, *entries])
    # the functions of the C library are complete only after the text is generated
    is_short = variant.single and not block.functions and not block.parts
    return Module(whole, (*sorted(functions.imported), *names), block.tables, is_short)


def in_module(lines: Iterable[str]) -> str:
    """Return LLVM IR of a module for this machine."""
    head = [f'target triple = "{host().triple}"', f'target datalayout = "{host().layout}"']
    tail = ['!0 = !{!"branch_weights", i32 1, i32 1000000}', "!1 = !{}", "!2 = !{i32 1}", ""]
    return "\n".join([*head, *lines, *tail])


@dataclass(frozen=True, slots=True)
class _Block:
    """Code that computes one block of points."""

    functions: list[str]  # LLVM IR of functions that it calls
    parts: dict[str, list[str]]  # functions of the parts of the tape, by name
    body: list[str]  # its instructions; %x0, …, %o0, … and %frame point to its memory
    slots: int  # number of vectors in the frame
    tables: Mapping[str, NDArray[Any]]  # arrays that it reads, by name
    # True if it can work on the arrays of a transposed batch themselves; False if it needs tiles
    direct: bool = False


def _straight_line(
    tape: Tape, segments: Sequence[Segment], signature: Signature, variant: Variant, functions: Functions, tile: int
) -> _Block:
    """Return code with an instruction for every operation, in one function or several."""
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
        arrays, distinct = result_sources(tape, segments)
        at = np.arange(slots, slots + len(distinct))
        slots += len(distinct)
        scattered = scatter_function(arrays, at, variant.lanes, variant.dtype, tile, variant.zeroed)
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
    """Return code with a loop for each kind of operation."""
    made = loop_functions(runs, tape.constants, signature, functions, tile)
    arrays, distinct = result_sources(tape, segments)
    at = runs.slot_of[np.array(distinct, np.int64)]
    scattered = scatter_function(arrays, at, variant.lanes, variant.dtype, tile, variant.zeroed)
    body = [
        _call("inputs", [*signature.arguments, "frame"]),
        _call("operations", ["frame"]),
        _call("scatter", [*signature.results, "frame"]),
    ]
    return _Block([*made.text, *scattered.text], {}, body, runs.slots + 1, {**made.tables, **scattered.tables})


def _runs(tape: Tape, segments: Sequence[Segment], variant: Variant) -> Runs | None:
    """Return a large program as runs of equal operations; None if these are too short for loops."""
    if tape.operations <= LARGEST_STRAIGHT_LINE or variant.part_size:
        return None
    if width(tape) < SHORTEST_RUN:  # sorting by kind makes runs shorter still
        return None
    distinct = result_sources(tape, segments)[1]
    results = [ResultGroup(0, slot, (reference,)) for slot, reference in enumerate(distinct)]
    steps = [step for step in order(tape, results) if not isinstance(step, ResultGroup)]
    if len(steps) <= LARGEST_STRAIGHT_LINE:
        return None
    runs = sorted_into_runs(tape, steps, distinct, variant.exact, fuse=variant.contract and host().fused)
    return runs if runs.mean >= SHORTEST_RUN else None


def _call(function: str, pointers: Iterable[str], *arguments: str) -> str:
    return f"call void @{function}({', '.join([*(f'ptr %{name}' for name in pointers), *arguments])})"


def _cleared(segments: Sequence[Segment], variant: Variant) -> list[str]:
    """Return instructions that clear the result arrays of a block; none if that does not pay."""
    if by_tables(segments) or sum(segment.length - segment.count for segment in segments) < WORTH_CLEARING:
        return []
    return [
        f"call void @llvm.memset.p0.i64(ptr %o{k}, i8 0, i64 {variant.lanes * segment.length * variant.size}, i1 false)"
        for k, segment in enumerate(segments)
        if segment.count < segment.length
    ]


def _tile(signature: Signature, lanes: int) -> tuple[int, int]:
    """Return the points of a tile, and the distance between its variables in entries: an odd number of lines."""
    size, entries = signature.size, sum(signature.strides.values())
    tile = max(TILE_LINES * 64 // size, lanes)
    while tile > lanes and tile * size * entries > TILE_BYTES:
        tile //= 2
    return tile, tile + LINE // size * (tile * size // LINE % 2 == 0)


def _body(tape: Tape, part: Stretch, layout: Layout, functions: Functions, variant: Variant) -> list[str]:
    vectors = Vectors(variant.lanes, variant.dtype)
    instructions = Instructions(tape, vectors, layout.load, functions, part.slots, variant.contract, variant.exact)
    layout.begin(vectors, instructions.value)
    for step in part.steps:
        if isinstance(step, ResultGroup):
            layout.store(step)
        else:
            instructions.operation(step)
    return vectors.lines


def _blocks(body: list[str], signature: Signature, variant: Variant) -> list[str]:
    """Return the loop over %count points in whole blocks; if transposed, %line is the byte distance of variables."""
    real = "double" if variant.dtype == "float64" else "float"
    parameters = [*(f"ptr noalias %all.{name}" for name in signature.names), "ptr noalias %frame", "i64 %count"]
    # loaded for each block, so that LLVM does not keep the distances to all variables, and run out of registers
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
        *unless("more", "icmp slt i64 %next, %count", "loop", "done"),
        "ret void",
        "}",
    ]


def _fetched(signature: Signature, lanes: int) -> tuple[list[str], list[str]]:
    """Return instructions, before the loop over blocks and in each, that prefetch lines of results.

    Blocks store to several rows at a time, so that processors do not predict the next lines. The last blocks prefetch
    beyond the array, which is no access and never fails.
    """
    block = lanes * signature.size * max(signature.lengths, default=0)
    if not 0 < block <= LARGEST_FETCHED:
        return [], []
    distance = max(1, round(AHEAD / block)) * block
    large = [f"%all.bytes = mul i64 %count, {block // lanes}", f"%is.large = icmp ugt i64 %all.bytes, {BEYOND_CACHES}"]
    fetch = [
        "br i1 %is.large, label %fetch, label %compute",
        "fetch:",
        "%fetched = phi i64 [ 0, %loop ], [ %fetched.next, %fetch ]",
        f"%ahead.by = add i64 %fetched, {distance}",
        f"%ahead = getelementptr i8, ptr %o{signature.widest}, i64 %ahead.by",
        "call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 2, i32 1)",
        f"%fetched.next = add i64 %fetched, {LINE}",
        *unless("fetches", f"icmp ult i64 %fetched.next, {block}", "fetch", "compute"),
    ]
    return large, fetch
