"""LLVM IR of programs as loops over runs of equal operations (`accumulus.targets.runs`).

All values are in the frame, each a vector of the block's points. One function brings the inputs there, one computes,
and one carries the results to their places (`scatter`). For each kind of operation there is one loop, over rows of a
table: the slot of the result, and those of the arguments. Tables are arrays beside the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.callees import Functions
from accumulus.targets.llvm.instructions import Instructions
from accumulus.targets.llvm.kernel_signature import ATTRIBUTES, Signature
from accumulus.targets.llvm.layouts import Layout
from accumulus.targets.llvm.scatter import WithTables
from accumulus.targets.llvm.vectors import POISON, Vectors
from accumulus.targets.runs import ARITY, PRODUCT_MINUS, WITHOUT_PRODUCT, Runs
from accumulus.targets.schedule import Group

__all__ = ["loops"]

#: Operations of one turn of a loop that computes one point: each waits for memory, so several begin side by side.
UNROLLED: Final = 4
WIDTH: Final = 4


def loops(
    program: Runs, constants: Sequence[float], signature: Signature, functions: Functions, tile: int
) -> WithTables:
    """The functions ``inputs(%x0, …, %frame)`` and ``operations(%frame)``; they use one slot more than the program.

    Args:
        constants: of the tape.
        tile: distance between the entries of an argument, for arguments that are entries × points; 0 for points ×
            entries.
    """
    lanes, dtype = functions.lanes, functions.dtype
    turn = UNROLLED if lanes == 1 else 1
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
    """Kind and end of each run, and the rows; rows that fill up whole turns store to the additional slot."""
    lengths = program.runs[:, 1]
    padded = lengths + -lengths % turn
    ends = np.cumsum(padded)
    # the row of each entry of the table; entries that fill up a turn repeat the last row of the run
    place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - padded, padded)
    length = np.repeat(lengths, padded)
    filled = place >= length
    chosen = np.repeat(np.cumsum(lengths) - lengths, padded) + np.minimum(place, length - 1)
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
    """Bring the inputs to the first slots."""
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
    """One loop for each kind of operation, and one around them over the runs; `word` is the type of a table's entry."""
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
        _turn(v, functions, code, constant, [f"%at.{k}"] if turn == 1 else _following(v, f"%at.{k}", turn), word)
        lines += [
            f"{label}:",
            f"%at.{k} = phi i64 [ %at, %next ], [ %at.{k}.next, %{label} ]",
            *v.lines,
            f"%at.{k}.next = add i64 %at.{k}, {turn}",
            f"%more.{k} = icmp slt i64 %at.{k}.next, %end",
            f"br i1 %more.{k}, label %{label}, label %advance",
        ]
    return [
        *lines,
        "advance:",
        "%run.next = add i64 %run, 1",
        f"%another = icmp slt i64 %run.next, {runs}",
        "br i1 %another, label %next, label %done",
        "done:",
        "ret void",
        "}",
    ]


def _following(v: Vectors, first: str, count: int) -> list[str]:
    return [first, *(v.let(f"add i64 {first}, {step}") for step in range(1, count))]


def _turn(
    v: Vectors, functions: Functions, code: int, constant: Sequence[bool], rows: Sequence[str], word: str
) -> None:
    """Compute the operations of some rows. All arguments are loaded before anything is stored, as none is a result."""
    found = []
    for row in rows:
        at = v.let(f"getelementptr inbounds [{WIDTH} x {word}], ptr @rows, i64 {row}")
        places = [_field(v, at, field, word) for field in range(1 + int(ARITY[code]))]
        arguments = [
            _argument(v, f"{word} {place}", is_constant, _is_truth(code, k))
            for k, (place, is_constant) in enumerate(zip(places[1:], constant, strict=False))
        ]
        found.append((places[0], arguments))
    for place, arguments in found:
        value = _computed(v, functions, code, arguments)
        v.store(value, v.let(f"getelementptr inbounds {v.real}, ptr %frame, {word} {place}"), 0)


def _field(v: Vectors, at: str, field: int, word: str) -> str:
    return v.let(f"load {word}, ptr {v.let(f'getelementptr inbounds {word}, ptr {at}, i64 {field}')}")


def _is_truth(code: int, argument: int) -> bool:
    return code < len(OPERATIONS) and OPERATIONS[code].arguments[argument] == "boolean"


def _argument(v: Vectors, place: str, is_constant: bool, is_truth: bool) -> str:
    """The vector of an argument; truth values are stored as numbers."""
    source = "@constants" if is_constant else "%frame"
    base = v.let(f"getelementptr inbounds {v.real}, ptr {source}, {place}")
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
    instructions = Instructions(template, v, _Given(), functions, {}, contract=False)
    instructions.values = dict(enumerate(arguments))
    instructions.operation(3)
    value = instructions.values[3]
    return v.let(f"uitofp {v.mask} {value} to {v.type}") if operation.result == "boolean" else value


class _Given(Layout):
    """Of operations whose arguments are there, and whose results go nowhere from here."""

    def __init__(self) -> None:
        super().__init__(Signature((), (), (), 0))

    def load_entries(self, argument: int, entry: int) -> dict[int, str]:
        """Nothing is loaded."""
        raise AssertionError("all arguments are given")

    def store(self, group: Group) -> None:
        """Nothing is stored."""
        raise AssertionError("no results are stored")
