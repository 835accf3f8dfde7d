"""LLVM IR of the functions that Python calls: they check their arguments and run the program on them.

``point(*x, *out)`` computes one point, ``batch(*x, *out)`` all points of a batch, ``batch(*x, *out, first, last)`` a
range of them. Both return None. Arguments that they cannot take (another shape or dtype, a subclass of arrays,
results that overlap) make them return NotImplemented, and the caller converts or raises; `python_objects` says which
they take. The GIL is released in batches.

``batch`` returns Ellipsis if it did its work, but with results across the boundaries of vectors, which code for memory
that starts elsewhere would avoid: put the address of such code's function ``run`` into the global ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import gcd, prod
from typing import Final

from accumulus.targets.llvm.kernel_signature import UNOPTIMISED, Signature
from accumulus.targets.llvm.python_abi import UNPACK
from accumulus.targets.llvm.python_objects import LENGTH_OF, declared, readers

__all__ = ["entry_points", "point_entry"]

#: Functions and objects of Python that code for one point uses.
_OF_POINT: Final = ("Py_IncRef", "PyErr_NoMemory", "PyMem_RawMalloc", "PyMem_RawFree", "object_none", "object_refused")


def entry_points(
    signature: Signature, transposed: bool, lanes: int, offsets: Sequence[int]
) -> tuple[list[str], tuple[str, ...]]:
    """``batch`` and, for batches in C order, ``point``; and the names that they need from outside.

    Args:
        transposed: arrays are entries × points.
        lanes: entries of a vector.
        offsets: where in a vector the first entry of each result array is expected to lie.
    """
    lines, names = readers(signature.size, numbers=() in signature.shapes, transposed=transposed)
    lines += [f"@shape.{k} = internal constant {_integers(shape)}" for k, shape in enumerate(signature.shapes) if shape]
    lines += ["@other = global ptr null", LENGTH_OF, _OVERLAP, *_batch(signature, transposed)]
    if transposed:
        lines += [*_MISALIGNED, "ret i1 false", "}"]
    else:
        lines += [*_misaligned(signature, lanes, offsets), *_point(signature)]
    return lines, names


def point_entry(signature: Signature) -> tuple[list[str], tuple[str, ...]]:
    """As `entry_points`, but ``point`` alone, by the function of `python_objects.unpacking` in another library."""
    table = [len(signature.names), len(signature.shapes)]
    for shape in signature.shapes:
        table += [len(shape), *shape]
    table += signature.lengths
    lines = [
        *declared(_OF_POINT),
        f"declare i1 @{UNPACK}(ptr, i64, ptr, ptr, ptr)",
        f"@signature = internal constant {_integers(table)}",
        f"define ptr @point(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        f"%pointers = alloca ptr, i64 {len(signature.names)}",
        f"%numbers = alloca i64, i64 {len(signature.shapes)}",
        f"%right = call i1 @{UNPACK}(ptr %objects, i64 %given, ptr @signature, ptr %pointers, ptr %numbers)",
        "br i1 %right, label %unpacked, label %refuse",
        "unpacked:",
    ]
    for k, name in enumerate(signature.names):
        lines += [f"%{name}.at = getelementptr ptr, ptr %pointers, i64 {k}", f"%{name} = load ptr, ptr %{name}.at"]
    return [*lines, *_run_on_point(signature)], (*_OF_POINT, UNPACK)


def _integers(values: Sequence[int]) -> str:
    return f"[{len(values)} x i64] [{', '.join(f'i64 {value}' for value in values)}]"


#: Whether two stretches of memory have a byte in common.
_OVERLAP: Final = f"""\
define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) {UNOPTIMISED} {{
%a.end = getelementptr i8, ptr %a, i64 %a.bytes
%b.end = getelementptr i8, ptr %b, i64 %b.bytes
%a.first = icmp ult ptr %a, %b.end
%b.first = icmp ult ptr %b, %a.end
%both = and i1 %a.first, %b.first
ret i1 %both
}}"""


def _given(name: str, index: int) -> list[str]:
    """The object %name.object that was given at a position."""
    return [
        f"%{name}.slot = getelementptr ptr, ptr %objects, i64 {index}",
        f"%{name}.object = load ptr, ptr %{name}.slot",
    ]


def _found(name: str, call: str) -> list[str]:
    """The pointer %name to the entries of an object, or refuse."""
    return [
        f"%{name} = call ptr {call}",
        f"%{name}.wrong = icmp eq ptr %{name}, null",
        f"br i1 %{name}.wrong, label %refuse, label %{name}.right",
        f"{name}.right:",
    ]


def _arguments(signature: Signature, points: Iterable[str]) -> list[str]:
    """Pointers to the entries of all arguments, which have so many points, "-1" for one without an axis of them."""
    lines = []
    for k, (shape, count) in enumerate(zip(signature.shapes, points, strict=True)):
        if shape or count != "-1":
            lengths = f"@shape.{k}" if shape else "null"
            call = f"@argument_of(ptr %x{k}.object, i32 {len(shape)}, ptr {lengths}, i64 {count})"
        else:
            call = f"@number_of(ptr %x{k}.object, ptr %x{k}.number)"
        lines += [*_given(f"x{k}", k), *_found(f"x{k}", call)]
    return lines


def _numbers(signature: Signature) -> list[str]:
    """Memory for numbers that are given as Python's objects."""
    return [f"%x{k}.number = alloca i64" for k, shape in enumerate(signature.shapes) if not shape]


def _pointers(signature: Signature) -> str:
    return ", ".join(f"ptr %{name}" for name in signature.names)


def _answer(label: str, name: str) -> list[str]:
    """Return one of Python's objects."""
    return [f"{label}:", f"call void @Py_IncRef(ptr @object_{name})", f"ret ptr @object_{name}"]


#: How functions that Python calls end: with None, with NotImplemented, or with an error.
_ENDINGS: Final = (
    *_answer("none", "none"),
    *_answer("refuse", "refused"),
    "no.memory:",
    "%error = call ptr @PyErr_NoMemory()",
    "ret ptr %error",
    "}",
)


def _batch(signature: Signature, transposed: bool) -> list[str]:
    last = str(transposed).lower()
    arguments, results = signature.arguments, signature.results
    count = len(signature.names)
    lines = [
        f"define ptr @batch(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        *_numbers(signature),
        f"%all = icmp eq i64 %given, {count}",
        f"%some.of.them = icmp eq i64 %given, {count + 2}",
        "%enough = or i1 %all, %some.of.them",
        "br i1 %enough, label %counted, label %refuse",
        "counted:",
        *_given("first.array", signature.shared.index(False)),
        f"%points = call i64 @length_of(ptr %first.array.object, i1 {last})",
        "%no.points = icmp slt i64 %points, 0",
        "br i1 %no.points, label %refuse, label %points.known",
        "points.known:",
        *_arguments(signature, ["-1" if shared else "%points" for shared in signature.shared]),
    ]
    for k, (name, length) in enumerate(zip(results, signature.lengths, strict=True), len(arguments)):
        lines += [f"%{name}.entries = mul i64 %points, {length}", *_given(name, k)]
        lines += _found(name, f"@result_of(ptr %{name}.object, i64 %{name}.entries, i64 %points, i1 {last})")
    lengths = [*map(prod, signature.shapes), *signature.lengths]
    for name, length in zip(signature.names, lengths, strict=True):
        points = "%points" if name in signature.moving else "1"
        lines.append(f"%{name}.bytes = mul i64 {points}, {length * signature.size}")
    for a, b in (*product(arguments, results), *combinations(results, 2)):
        lines += [
            f"%{a}.over.{b} = call i1 @overlap(ptr %{a}, i64 %{a}.bytes, ptr %{b}, i64 %{b}.bytes)",
            f"br i1 %{a}.over.{b}, label %refuse, label %{a}.beside.{b}",
            f"{a}.beside.{b}:",
        ]
    widest = "null" if signature.widest is None else f"%o{signature.widest}"
    return [
        *lines,
        "br i1 %all, label %whole, label %range",
        "whole:",
        "br label %start",
        "range:",
        *_given("first", count),
        *_given("last", count + 1),
        "%first.given = call i64 @PyLong_AsSsize_t(ptr %first.object)",
        "%last.given = call i64 @PyLong_AsSsize_t(ptr %last.object)",
        "br label %start",
        "start:",
        "%first = phi i64 [ 0, %whole ], [ %first.given, %range ]",
        "%last = phi i64 [ %points, %whole ], [ %last.given, %range ]",
        "%some = icmp slt i64 %first, %last",
        "br i1 %some, label %compute, label %none",
        "compute:",
        f"%misaligned = call i1 @misaligned(ptr {widest})",
        "%other = load ptr, ptr @other",
        "%has.other = icmp ne ptr %other, null",
        "%use.other = and i1 %misaligned, %has.other",
        "%run = select i1 %use.other, ptr %other, ptr @run",
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 %run({_pointers(signature)}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %done",
        "done:",
        "%not.other = xor i1 %has.other, true",
        "%warn = and i1 %misaligned, %not.other",
        "br i1 %warn, label %misaligned.answer, label %none",
        *_answer("misaligned.answer", "misaligned"),
        *_ENDINGS,
    ]


_MISALIGNED: Final = ["define internal i1 @misaligned(ptr %o) nounwind {"]


def _misaligned(signature: Signature, lanes: int, offsets: Sequence[int]) -> list[str]:
    """Whether no row of the widest result array begins where blocks expect it; see also `ranges`.

    Rows begin at multiples of what their length has in common with a vector, counted from the first.
    """
    widest = signature.widest
    if widest is None or not signature.lengths[widest]:
        return [*_MISALIGNED, "ret i1 false", "}"]
    return [
        *_MISALIGNED,
        "%at = ptrtoint ptr %o to i64",
        f"%entry = udiv i64 %at, {signature.size}",
        f"%off = sub i64 %entry, {offsets[widest]}",
        f"%lane = and i64 %off, {gcd(signature.lengths[widest], lanes) - 1}",
        "%beside = icmp ne i64 %lane, 0",
        "ret i1 %beside",
        "}",
    ]


def _point(signature: Signature) -> list[str]:
    lines = [
        f"define ptr @point(ptr %self, ptr %objects, i64 %given) {UNOPTIMISED} {{",
        *_numbers(signature),
        f"%all = icmp eq i64 %given, {len(signature.names)}",
        "br i1 %all, label %counted, label %refuse",
        "counted:",
        *_arguments(signature, ["-1"] * len(signature.shapes)),
    ]
    for k, (name, length) in enumerate(zip(signature.results, signature.lengths, strict=True), len(signature.shapes)):
        lines += _given(name, k)
        lines += _found(name, f"@result_of(ptr %{name}.object, i64 {length}, i64 -1, i1 false)")
    return [*lines, *_run_on_point(signature)]


def _run_on_point(signature: Signature) -> list[str]:
    """What ``point`` does once it knows where everything is."""
    return [
        f"%status = call i32 @run({_pointers(signature)}, i64 0, i64 1, i64 1)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %none",
        *_ENDINGS,
    ]
