"""Programs as tables, for programs that are too large for LLVM to have an instruction for each operation or store.

A store costs LLVM as much time as an operation, and there are often more results than operations: the Jacobian of a
running sum of squares has n distinct values and n²/2 positions, with zeros between them. So programs with more than
`LARGEST_WRITTEN_OUT` results put their distinct values into slots of the frame. A loop over a table of slots and
positions copies them to the result arrays, which are filled with zeros before, or with a copy of a row of constants.

The largest programs are loops over runs of equal operations (`accumulus.targets.schedule`). All values are in the
frame, each a vector of the block's points. One function copies the inputs there, one computes, and one copies the
results to their positions. For each kind of operation there is one loop, over rows of a table: the slot of the result,
and the slots of the arguments.

Tables are NumPy arrays beside the code, imported by name: as text they would take longer to read than the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment, indices
from accumulus.targets.llvm.instructions import Functions, Instructions
from accumulus.targets.llvm.vectors import ATTRIBUTES, POISON, Layout, Signature, Vectors, again
from accumulus.targets.schedule import PRODUCT_MINUS, TAKEN, WITHOUT_PRODUCT, ResultGroup, Runs

# Results --------------------------------------------------------------------------------------------------------------

#: Programs with more results than this are stored by tables; zeros in runs shorter than the second count as results.
#: More written-out stores take longer to compile; with fewer, each call reads tables as well.
LARGEST_WRITTEN_OUT, SHORT_RUN = 3000, 32
#: Entries that one iteration of the loop stores for a single point; tables are padded to whole iterations. More entries
#: pad more, fewer branch more often.
UNROLLED: Final = 4


@dataclass(frozen=True, slots=True)
class WithTables:
    """Functions, and the arrays that they read."""

    text: list[str]  # LLVM IR
    tables: dict[str, NDArray[Any]]  # the arrays, by name


@dataclass(frozen=True, slots=True)
class ResultSources:
    """Sources of the entries of one result array."""

    length: int  # number of entries of the array
    positions: NDArray[np.int64]  # positions of computed entries, ascending
    slots: NDArray[np.int64]  # number of the distinct value of each
    # constant_positions, constants: entries that are constants; all others are zeros
    constant_positions: NDArray[np.int64]
    constants: NDArray[np.float64]

    @property
    def zeros(self) -> int:
        """Number of entries that are structural zeros."""
        return self.length - len(self.positions) - len(self.constants)


def by_tables(segments: Sequence[Segment]) -> bool:
    """Return True if a program has too many separate results to store without tables."""
    count = 0
    for segment in segments:
        occupied = np.sort(indices(segment.positions))
        gaps = np.diff(occupied, prepend=-1, append=segment.length) - 1
        count += len(occupied) + int(gaps[gaps < SHORT_RUN].sum())
    return count > LARGEST_WRITTEN_OUT


def result_sources(tape: Tape, segments: Sequence[Segment]) -> tuple[list[ResultSources], list[int]]:
    """Return sources of the results, and references of the distinct values, ordered by first position."""
    outputs = np.array(tape.outputs, np.int64)
    constants = np.array(tape.constants, np.float64)
    arrays = []
    for segment in segments:
        positions = indices(segment.positions)
        ascending = np.argsort(positions)
        arrays.append((positions[ascending], outputs[segment.outputs][ascending]))
    every = np.concatenate([np.empty(0, np.int64), *(references for _, references in arrays)])
    distinct, first = np.unique(every[every >= 0], return_index=True)
    in_turn = np.argsort(first)
    slot = np.empty(len(distinct), np.int64)
    slot[in_turn] = np.arange(len(distinct))
    sources = []
    for segment, (positions, references) in zip(segments, arrays, strict=True):
        computed = references >= 0
        sources.append(
            ResultSources(
                segment.length,
                positions[computed],
                slot[np.searchsorted(distinct, references[computed])],
                positions[~computed],
                constants[-1 - references[~computed]],
            )
        )
    return sources, distinct[in_turn].tolist()


class Slotted(Layout):
    """Layout with the loads of another layout, and results in slots of the frame from `first` on."""

    def __init__(self, layout: Layout, first: int) -> None:
        super().__init__(layout.signature)
        self._layout, self._first = layout, first

    def begin(self, vectors: Vectors, value: Callable[[int], str]) -> None:
        """Begin a function."""
        super().begin(vectors, value)
        self._layout.begin(vectors, value)

    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """Load entries as the other layout does."""
        return self._layout.load_entries(argument, entry)

    def store(self, group: ResultGroup) -> None:
        """Store values in their slots."""
        v = self.vectors
        for slot, reference in enumerate(group.references, self._first + group.start):
            if reference is not None:
                v.store(self.value(reference), "%frame", slot * v.lanes, v.lanes * v.bytes)


def scatter_function(
    arrays: Sequence[ResultSources], slots: NDArray[np.int64], lanes: int, dtype: str, tile: int, zeroed: bool
) -> WithTables:
    """Return the function ``scatter(%o0, …, %frame)``, which moves the results of a block to their positions.

    Args:
        arrays: positions of the results.
        slots: slot of the frame for each distinct value.
        lanes: points of a block.
        dtype: dtype of the results.
        tile: distance between the entries of a result, for results (entries, points) in memory that has been cleared;
            0 for (points, entries).
        zeroed: if True, structural zeros are already in place.
    """
    writer = _Writer(lanes, np.dtype(dtype), tile)
    for k, array in enumerate(arrays):
        if array.constants.size and not (tile or zeroed):
            row = writer.tables[f"row_{k}"] = np.zeros(array.length, dtype)
            with np.errstate(over="ignore"):
                row[array.constant_positions] = array.constants
            writer.fill(k, array.length, "memcpy.p0.p0", f"ptr @row_{k}")
        else:
            if array.zeros and not (tile or zeroed):
                writer.fill(k, array.length, "memset.p0", "i8 0")
            # by their bits, since zeros of both signs compare equal
            bits, indices = np.unique(array.constants.view(np.int64), return_inverse=True)
            with np.errstate(over="ignore"):
                writer.tables[f"constants_{k}"] = np.repeat(bits.view(np.float64).astype(dtype), lanes)
            writer.loop(f"constants_{k}_at", f"@constants_{k}", k, array.length, indices, array.constant_positions)
        writer.loop(f"results_{k}_at", "%frame", k, array.length, slots[array.slots], array.positions)
    pointers = ", ".join(f"ptr noalias %{name}" for name in [*(f"o{k}" for k in range(len(arrays))), "frame"])
    head = [f"@{name} = external constant i8" for name in writer.tables]
    head.append(f"define internal void @scatter({pointers}) nounwind noinline {{")
    return WithTables([*head, "start:", *writer.lines, "ret void", "}"], writer.tables)


class _Writer:
    """Writer of the function's instructions and tables."""

    def __init__(self, lanes: int, dtype: np.dtype[Any], tile: int) -> None:
        self.lines: list[str] = []
        self.tables: dict[str, NDArray[Any]] = {}
        self._lanes, self._dtype, self._tile = lanes, dtype, tile
        self._real = "double" if dtype.itemsize == 8 else "float"
        self._label = "start"

    def fill(self, k: int, length: int, function: str, source: str) -> None:
        """Write the fill of each point's row by one call."""
        size = length * self._dtype.itemsize
        for lane in range(self._lanes):
            self.lines += [
                f"%row.{k}.{lane} = getelementptr inbounds {self._real}, ptr %o{k}, i64 {lane * length}",
                f"call void @llvm.{function}.i64(ptr %row.{k}.{lane}, {source}, i64 {size}, i1 false)",
            ]

    def loop(
        self, name: str, source: str, k: int, length: int, indices: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> None:
        """Write a loop that copies vectors from `source` to their positions."""
        if not len(positions):
            return
        turn = UNROLLED if self._lanes == 1 else 1
        pairs = np.stack([indices * self._lanes, positions * (self._tile or 1)], axis=1)
        missing = pairs[-1:].repeat(-len(pairs) % turn, axis=0)  # storing an entry twice is harmless
        kind = np.dtype(np.int32 if pairs.max() < 1 << 31 else np.int64)
        table = self.tables[name] = np.concatenate([pairs, missing]).astype(kind)
        word = f"i{8 * kind.itemsize}"
        self.lines += [
            f"br label %{name}",
            f"{name}:",
            f"%{name}.k = phi i64 [ 0, %{self._label} ], [ %{name}.next, %{name} ]",
        ]
        for step in range(turn):
            tag = f"{name}.{step}"
            self.lines += [
                f"%{tag} = add i64 %{name}.k, {step}",
                f"%{tag}.pair = getelementptr inbounds [2 x {word}], ptr @{name}, i64 %{tag}",
                f"%{tag}.index = load {word}, ptr %{tag}.pair",
                f"%{tag}.second = getelementptr inbounds {word}, ptr %{tag}.pair, i64 1",
                f"%{tag}.position = load {word}, ptr %{tag}.second",
                f"%{tag}.from = getelementptr inbounds {self._real}, ptr {source}, {word} %{tag}.index",
                f"%{tag}.to = getelementptr inbounds {self._real}, ptr %o{k}, {word} %{tag}.position",
                *self._moved(tag, length),
            ]
        self.lines += [
            f"%{name}.next = add i64 %{name}.k, {turn}",
            f"%{name}.more = icmp slt i64 %{name}.next, {len(table)}",
            f"br i1 %{name}.more, label %{name}, label %{name}.done",
            f"{name}.done:",
        ]
        self._label = f"{name}.done"

    def _moved(self, tag: str, length: int) -> list[str]:
        kind, size = f"<{self._lanes} x {self._real}>", self._dtype.itemsize
        lines = [f"%{tag}.value = load {kind}, ptr %{tag}.from, align {size}"]
        if self._tile:
            return [*lines, f"store {kind} %{tag}.value, ptr %{tag}.to, align {size}"]
        for lane in range(self._lanes):
            lines += [
                f"%{tag}.{lane}.entry = extractelement {kind} %{tag}.value, i32 {lane}",
                f"%{tag}.{lane}.to = getelementptr inbounds {self._real}, ptr %{tag}.to, i64 {lane * length}",
                f"store {self._real} %{tag}.{lane}.entry, ptr %{tag}.{lane}.to",
            ]
        return lines


# Operations -----------------------------------------------------------------------------------------------------------

#: Operations of one iteration of a loop for a single point: each waits for memory, so several begin side by side. More
#: pad runs with useless operations, fewer wait.
BEGUN: Final = 4
WIDTH: Final = 4


def loop_functions(
    program: Runs, constants: Sequence[float], signature: Signature, functions: Functions, tile: int
) -> WithTables:
    """Return the functions ``inputs(%x0, …, %frame)`` and ``operations(%frame)``; the frame has one additional slot.

    Args:
        program: operations sorted into runs.
        constants: constants of the tape.
        signature: arguments and results of the function.
        functions: mathematical functions.
        tile: distance between the entries of an argument, for arguments (entries, points); 0 for (points, entries).
    """
    lanes, dtype = functions.lanes, functions.dtype
    turn = BEGUN if lanes == 1 else 1
    with np.errstate(over="ignore"):
        values = np.array(constants, np.float64).astype(dtype)
    tables = _tables(program, lanes, turn) | {"constants": values}
    text = [
        *(f"@{name} = external constant i8" for name in tables),
        *_inputs(signature, lanes, dtype, tile),
        *_operations(program, functions, turn, len(tables["runs"]), f"i{8 * tables['rows'].itemsize}"),
    ]
    return WithTables(text, tables)


def _tables(program: Runs, lanes: int, turn: int) -> dict[str, NDArray[Any]]:
    """Return the kind and end of each run, and the rows; rows that pad an iteration store to the additional slot."""
    lengths = program.runs[:, 1]
    padded = lengths + -lengths % turn
    ends = np.cumsum(padded)
    # the row of each entry of the table; padding repeats the last row of the run
    position = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - padded, padded)
    length = np.repeat(lengths, padded)
    filled = position >= length
    chosen = np.repeat(np.cumsum(lengths) - lengths, padded) + np.minimum(position, length - 1)
    rows = program.rows[chosen]
    rows[filled, 0] = program.slots
    is_constant = np.array([constant for _, constant in program.kinds], bool).reshape(-1, 3)
    scaled = np.ones_like(rows)
    scaled[:, 0] = lanes
    scaled[:, 1:] = np.where(is_constant[np.repeat(program.runs[:, 0], padded)], 1, lanes)
    rows = rows * scaled
    kind = np.int32 if (rows.max() if rows.size else 0) < 1 << 31 else np.int64
    return {"runs": np.stack([program.runs[:, 0], ends], axis=1), "rows": rows.astype(kind)}


def _inputs(signature: Signature, lanes: int, dtype: str, tile: int) -> list[str]:
    """Return the function that copies the inputs to the first slots."""
    v = Vectors(lanes, dtype)
    lines, label, first = ["start:"], "start", 0
    for k, (name, shape) in enumerate(zip(signature.arguments, signature.shapes, strict=True)):
        count = prod(shape)
        if not count:
            continue
        lines += [f"br label %{name}.loop", f"{name}.loop:"]
        v.lines = []
        if signature.shared[k]:
            value = v.splat(v.let(f"getelementptr inbounds {v.real}, ptr %{name}, i64 %{name}.k"), 0)
        elif tile:
            at = v.let(f"mul i64 %{name}.k, {tile}")
            value = v.load(v.let(f"getelementptr inbounds {v.real}, ptr %{name}, i64 {at}"), 0)
        else:
            value = POISON
            base = v.let(f"getelementptr inbounds {v.real}, ptr %{name}, i64 %{name}.k")
            for lane in range(lanes):
                entry = v.let(f"load {v.real}, ptr {v.address(base, lane * count)}, align {v.bytes}")
                value = v.let(f"insertelement {v.type} {value}, {v.real} {entry}, i32 {lane}")
        slot = v.let(f"add i64 %{name}.k, {first}")
        to = v.let(f"mul i64 {slot}, {lanes}")
        v.store(value, v.let(f"getelementptr inbounds {v.real}, ptr %frame, i64 {to}"), 0)
        lines += [
            f"%{name}.k = phi i64 [ 0, %{label} ], [ %{name}.next, %{name}.loop ]",
            *v.lines,
            f"%{name}.next = add i64 %{name}.k, 1",
            f"%{name}.more = icmp slt i64 %{name}.next, {count}",
            f"br i1 %{name}.more, label %{name}.loop, label %{name}.done",
            f"{name}.done:",
        ]
        label, first = f"{name}.done", first + count
    pointers = ", ".join(f"ptr noalias %{name}" for name in (*signature.arguments, "frame"))
    return [f"define internal void @inputs({pointers}) {ATTRIBUTES} {{", *lines, "ret void", "}"]


def _operations(program: Runs, functions: Functions, turn: int, runs: int, word: str) -> list[str]:
    """Return a loop for each kind of operation, inside a loop over the runs; `word` is the type of table entries."""
    v = Vectors(functions.lanes, functions.dtype)
    cases = " ".join(f"i64 {k}, label %kind.{k}" for k in range(len(program.kinds)))
    lines = [
        f"define internal void @operations(ptr noalias %frame) {ATTRIBUTES} {{",
        "start:",
        f"br label %{'next' if runs else 'done'}",
        "next:",
        "%run = phi i64 [ 0, %start ], [ %run.next, %advance ]",
        "%at = phi i64 [ 0, %start ], [ %end, %advance ]",
        "%run.at = getelementptr inbounds [2 x i64], ptr @runs, i64 %run",
        "%kind = load i64, ptr %run.at",
        "%end.at = getelementptr inbounds i64, ptr %run.at, i64 1",
        "%end = load i64, ptr %end.at",
        f"switch i64 %kind, label %advance [ {cases} ]",
    ]
    for k, (code, constant) in enumerate(program.kinds):
        label = f"kind.{k}"
        v.lines = []
        rows = [f"%at.{k}", *(v.let(f"add i64 %at.{k}, {step}") for step in range(1, turn))]
        _turn(v, functions, code, constant, rows, word)
        lines += [
            f"{label}:",
            f"%at.{k} = phi i64 [ %at, %next ], [ %at.{k}.next, %{label} ]",
            *v.lines,
            f"%at.{k}.next = add i64 %at.{k}, {turn}",
            f"%more.{k} = icmp slt i64 %at.{k}.next, %end",
            f"br i1 %more.{k}, label %{label}, label %advance",
        ]
    return [*lines, "advance:", *again("run", "1", f"{runs}", "another", "next", "done"), "ret void", "}"]


def _turn(
    v: Vectors, functions: Functions, code: int, constant: Sequence[bool], rows: Sequence[str], word: str
) -> None:
    """Write the operations of some rows; all arguments are loaded before any store, since none is a result."""
    decoded = []
    kinds = OPERATIONS[code].arguments if code < len(OPERATIONS) else ("real",) * 3
    for row in rows:
        at = v.let(f"getelementptr inbounds [{WIDTH} x {word}], ptr @rows, i64 {row}")
        fields = range(1 + int(TAKEN[code]))
        places = [
            v.let(f"load {word}, ptr {v.let(f'getelementptr inbounds {word}, ptr {at}, i64 {field}')}")
            for field in fields
        ]
        arguments = [
            _argument(v, f"{word} {slot}", is_constant, kind == "boolean")
            for slot, is_constant, kind in zip(places[1:], constant, kinds, strict=False)
        ]
        decoded.append((places[0], arguments))
    for slot, arguments in decoded:
        value = _computed(v, functions, code, arguments)
        v.store(value, v.let(f"getelementptr inbounds {v.real}, ptr %frame, {word} {slot}"), 0)


def _argument(v: Vectors, slot: str, is_constant: bool, is_truth: bool) -> str:
    """Return the vector of an argument; truth values are stored as numbers."""
    source = "@constants" if is_constant else "%frame"
    base = v.let(f"getelementptr inbounds {v.real}, ptr {source}, {slot}")
    value = v.splat(base, 0) if is_constant else v.load(base, 0)
    return v.let(f"fcmp une {v.type} {value}, zeroinitializer") if is_truth else value


def _computed(v: Vectors, functions: Functions, code: int, arguments: Sequence[str]) -> str:
    if code >= len(OPERATIONS):
        a, b, c = arguments
        if code == WITHOUT_PRODUCT:
            a = v.let(f"fneg {v.type} {a}")
        if code == PRODUCT_MINUS:
            c = v.let(f"fneg {v.type} {c}")
        fused = functions.intrinsic("llvm.fma", 3)
        return v.let(f"call {v.type} {fused}({v.type} {a}, {v.type} {b}, {v.type} {c})")
    operation = OPERATIONS[code]
    template = Tape.of_rows(3, np.array([[0, 0, 0, 0]] * 3 + [[code, 0, 1, 2]]), [], [])
    instructions = Instructions(template, v, lambda argument: {}, functions)
    instructions.values = dict(enumerate(arguments))
    instructions.operation(3)
    value = instructions.values[3]
    return v.let(f"uitofp {v.mask} {value} to {v.type}") if operation.result == "boolean" else value
