"""Functions around a program's ``run`` for callers other than Python: libraries that take C function pointers, and XLA.

A function with a C signature calls ``run`` at one point, with the results on the stack, and returns one of them. It
returns NaN, or an error if the signature has one, for a wrong number of inputs and where guards fail.

XLA's functions pass its buffers to a program's code in place. XLA passes one *call frame* (``xla/ffi/api/c_api.h``):
addresses of arguments and results, and attributes of the call. The fields that are read have had the same offsets since
the first version of that interface, whose structures only grow at their ends. A handler serves all programs with equal
numbers of arguments and results. The attributes of a call are the address of the program's ``run``, and the number of
entries of one result at one point, from which the handler computes the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

from accumulus.targets.kernel import Shape
from accumulus.targets.llvm.library import Library, MachineCode
from accumulus.targets.llvm.vectors import when

# Functions of C -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Callback:
    """A signature that a library requires."""

    signature: str  # as SciPy writes it
    head: str  # head of the function in LLVM IR; the inputs are `x`, and `n` is their number
    count: str  # type of `n`
    success: tuple[str, ...]  # instructions that return the number `value`
    failed: str  # instructions that report a failure


#: Signatures by the part of SciPy that requires them.
CALLBACKS: Final = {
    "quad": Callback(
        "double (int, double *, void *)",
        "double @callback(i32 %n, ptr %x, ptr %user)",
        "i32",
        ("ret double %value",),
        "ret double 0x7FF8000000000000",
    ),
    "ndimage": Callback(
        "int (double *, intptr_t, double *, void *)",
        "i32 @callback(ptr %x, i64 %n, ptr %result, ptr %user)",
        "i64",
        ("store double %value, ptr %result", "ret i32 1"),
        "ret i32 0",
    ),
}


def callback(
    kind: Callback, run: int, arguments: Sequence[Shape], lengths: Sequence[int], entry: int, *, guarded: bool
) -> Library:
    """Return the function ``callback`` for a program; the code at `run` must outlive all calls.

    Args:
        kind: the signature.
        run: address of the program's function for batches in C order.
        arguments: shapes of the program's arguments at one point.
        lengths: number of entries of each result array at one point.
        entry: position of the returned entry in the concatenated results.
        guarded: True if the last array is positive where guards hold.
    """
    from accumulus.targets.llvm.host import compile_ir
    from accumulus.targets.llvm.module import in_module

    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    first = [sum(map(prod, arguments[:k])) for k in range(len(arguments))]
    names = [*(f"ptr %x{k}" for k in range(len(arguments))), *(f"ptr %o{k}" for k in range(len(lengths)))]
    lines = [
        f"define {kind.head} {{",
        f"%results = alloca [{max(sum(lengths), 1)} x double], align 64",
        *when("right", f"icmp eq {kind.count} %n, {sum(map(prod, arguments))}", "compute", "failed"),
        *(f"%x{k} = getelementptr double, ptr %x, i64 {start}" for k, start in enumerate(first)),
        *(f"%o{k} = getelementptr double, ptr %results, i64 {start}" for k, start in enumerate(starts)),
        f"%run = inttoptr i64 {run} to ptr",
        f"%status = call i32 %run({', '.join(names)}, i64 0, i64 1, i64 1)",
        *when("done", "icmp eq i32 %status, 0", "computed", "failed"),
        *(
            (
                f"%guards = load double, ptr %o{len(lengths) - 1}",
                "%hold = fcmp ogt double %guards, 0.0",
                "br i1 %hold, label %found, label %failed",
            )
            if guarded
            else ("br label %found",)
        ),
        "found:",
        f"%value.at = getelementptr double, ptr %results, i64 {entry}",
        "%value = load double, ptr %value.at",
        *kind.success,
        "failed:",
        kind.failed,
        "}",
    ]
    return Library(MachineCode(((compile_ir(in_module(lines)), ()),), (), {}), ("callback",), {})


# Functions that XLA calls on the CPU ----------------------------------------------------------------------------------

#: Names of the attributes of a call, in alphabetical order.
ENTRIES: Final = "entries"
RUN: Final = "run"

#: Offsets, in bytes, of the fields of each structure that are read or written.
_FRAME: Final = {"extension": 8, "api": 16, "stage": 32, "arguments": 72, "results": 112, "attributes": 160}
_EXTENSION: Final = {"type": 8, "metadata": 24}
_METADATA: Final = {"major": 24, "minor": 28, "traits": 32}
_API: Final = {"major": 32, "minor": 36, "error": 48}
_BUFFER: Final = {"data": 24, "rank": 32, "lengths": 40}
_SCALAR: Final = {"value": 8}
#: Stage that computes arrays, type of the query for the interface's version, and code of an error.
_EXECUTE, _ASKS_FOR_METADATA, _EXHAUSTED = 3, 1, 8
_MESSAGE: Final = "accumulus: memory ran out while derivatives were computed"

#: Number of points: entries of the counted result divided by its entries at one point.
_POINTS: Final = f"""\
define internal i64 @points(ptr %buffer, i64 %entries) {{
%rank.at = getelementptr i8, ptr %buffer, i64 {_BUFFER["rank"]}
%rank = load i64, ptr %rank.at
%lengths.at = getelementptr i8, ptr %buffer, i64 {_BUFFER["lengths"]}
%lengths = load ptr, ptr %lengths.at
br label %next
next:
%k = phi i64 [ 0, %0 ], [ %k.next, %more ]
%size = phi i64 [ 1, %0 ], [ %size.next, %more ]
%is.more = icmp slt i64 %k, %rank
br i1 %is.more, label %more, label %done
more:
%length.at = getelementptr i64, ptr %lengths, i64 %k
%length = load i64, ptr %length.at
%size.next = mul i64 %size, %length
%k.next = add i64 %k, 1
br label %next
done:
%count = sdiv i64 %size, %entries
ret i64 %count
}}"""


@cache
def handler(arguments: int, results: int, counted: int) -> int:
    """Return the address of the handler for programs with these numbers of arguments and results.

    Args:
        arguments: number of arguments.
        results: number of results.
        counted: position of the result that gives the number of points; it has entries at every point.
    """
    from accumulus.targets.llvm.host import compile_ir
    from accumulus.targets.llvm.module import in_module

    image = compile_ir(in_module([_POINTS, *_handler(arguments, results, counted)]))
    library = Library(MachineCode(((image, ()),), (), {}), ("handler",), {})
    _KEPT.append(library)
    return library.addresses["handler"]


#: Handlers stay loaded: compiled functions of JAX call them, and their lifetime is unknown.
_KEPT: Final[list[Library]] = []


def _loaded(name: str, base: str, offset: int, kind: str = "ptr") -> list[str]:
    """Return instructions that load a field of a structure, at an offset in bytes."""
    return [f"%{name}.at = getelementptr i8, ptr %{base}, i64 {offset}", f"%{name} = load {kind}, ptr %{name}.at"]


def _stored(name: str, base: str, offset: int, kind: str, value: str) -> list[str]:
    return [f"%{name}.to = getelementptr i8, ptr %{base}, i64 {offset}", f"store {kind} {value}, ptr %{name}.to"]


def _handler(arguments: int, results: int, counted: int) -> list[str]:
    text = _MESSAGE.encode() + b"\0"
    lines = [
        f'@message = internal constant [{len(text)} x i8] c"{_MESSAGE}\\00"',
        "define ptr @handler(ptr %frame) {",
        "%error = alloca [32 x i8], align 8",
        *_loaded("api", "frame", _FRAME["api"]),
        *_loaded("extension", "frame", _FRAME["extension"]),
        *when("is.extended", "icmp ne ptr %extension, null", "extended", "plain"),
        *_loaded("type", "extension", _EXTENSION["type"], "i32"),
        *when("asks", f"icmp eq i32 %type, {_ASKS_FOR_METADATA}", "asked", "plain"),
        *_loaded("metadata", "extension", _EXTENSION["metadata"]),
        *_loaded("major", "api", _API["major"], "i32"),
        *_loaded("minor", "api", _API["minor"], "i32"),
        *_stored("major", "metadata", _METADATA["major"], "i32", "%major"),
        *_stored("minor", "metadata", _METADATA["minor"], "i32", "%minor"),
        *_stored("traits", "metadata", _METADATA["traits"], "i32", "0"),
        "ret ptr null",
        "plain:",
        *_loaded("stage", "frame", _FRAME["stage"], "i32"),
        *when("is.run", f"icmp eq i32 %stage, {_EXECUTE}", "compute", "done"),
        *_loaded("attributes", "frame", _FRAME["attributes"]),
        *_attribute("entries", 0),
        *_attribute("run", 1),
        "%function = inttoptr i64 %run to ptr",
    ]
    names = []
    for field, letter, count in (("arguments", "x", arguments), ("results", "o", results)):
        lines += _loaded(field, "frame", _FRAME[field])
        for k in range(count):
            lines += _loaded(f"{letter}{k}.buffer", field, 8 * k)
            lines += _loaded(f"{letter}{k}", f"{letter}{k}.buffer", _BUFFER["data"])
            names.append(f"ptr %{letter}{k}")
    lines += [
        f"%points = call i64 @points(ptr %o{counted}.buffer, i64 %entries)",
        f"%status = call i32 %function({', '.join(names)}, i64 0, i64 %points, i64 %points)",
        *when("failed", "icmp ne i32 %status, 0", "wrong", "done"),
        *_stored("size", "error", 0, "i64", "28"),
        *_stored("next", "error", 8, "ptr", "null"),
        *_stored("text", "error", 16, "ptr", "@message"),
        *_stored("code", "error", 24, "i32", str(_EXHAUSTED)),
        *_loaded("create", "api", _API["error"]),
        "%made = call ptr %create(ptr %error)",
        "ret ptr %made",
        "done:",
        "ret ptr null",
        "}",
    ]
    return lines


def _attribute(name: str, position: int) -> list[str]:
    """Return instructions that load an integer attribute."""
    return [
        *_loaded(f"{name}.scalar", "attributes", 8 * position),
        *_loaded(f"{name}.value", f"{name}.scalar", _SCALAR["value"]),
        f"%{name} = load i64, ptr %{name}.value",
    ]
