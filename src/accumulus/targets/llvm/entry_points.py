"""LLVM IR of the functions that Python calls: they check their arguments and run the program on them.

``point(*x, *out)`` computes one point, ``batch(*x, *out)`` all points of a batch, ``batch(*x, *out, first, last)`` a
range of them. All return None. For arguments that they cannot take (another shape or dtype, a subclass of arrays,
results that overlap) they return NotImplemented, and the caller converts or raises; see `readers` for the arguments
that they take. Batches release the GIL. ``point`` compares the memory of results only if None follows them, since new
arrays do not overlap; in code for batches it refuses that None.

``batch`` returns Ellipsis if it did its work, but stored results across vector boundaries. Code for other alignments
avoids that: put the address of its function ``run`` into the global ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import gcd, prod
from typing import Final

from accumulus.targets.llvm.library import UNPACK
from accumulus.targets.llvm.python_objects import LENGTH_OF, OVERLAP, declared, readers
from accumulus.targets.llvm.vectors import UNOPTIMISED, Signature, unless, when

#: Python functions and objects that code for one point uses.
_OF_POINT: Final = ("Py_IncRef", "PyErr_NoMemory", "PyMem_RawMalloc", "PyMem_RawFree", "object_none", "object_refused")


def entry_points(
    signature: Signature, transposed: bool, lanes: int, offsets: Sequence[int]
) -> tuple[list[str], tuple[str, ...]]:
    """Return ``batch`` and, for batches in C order, ``point``; and the names that they import.

    Args:
        signature: arguments and results of the program.
        transposed: if True, arrays are (entries, points).
        lanes: entries of a vector.
        offsets: expected position, within a vector, of the first entry of each result array.
    """
    lines, names = readers(signature.size, numbers=() in signature.shapes, transposed=transposed)
    lines += [f"@shape.{k} = internal constant {_integers(shape)}" for k, shape in enumerate(signature.shapes) if shape]
    lines += ["@other = global ptr null", LENGTH_OF, OVERLAP, *_batch(signature, transposed)]
    if transposed:
        lines += [*_MISALIGNED, "ret i1 false", "}"]
    else:
        lines += [*_misaligned(signature, lanes, offsets), *_point(signature)]
    return lines, names


def unpacking_table(signature: Signature) -> list[int]:
    """Return the table for the function of `unpacking`."""
    # an array without entries counts as one: the caller decides if the same array may be there twice
    sizes = [max(length, 1) * signature.size for length in (*map(prod, signature.shapes), *signature.lengths)]
    table = [len(signature.names), len(signature.shapes), *sizes]
    for shape in signature.shapes:
        table += [len(shape), *shape]
    return [*table, *signature.lengths]


def point_entry(signature: Signature) -> tuple[list[str], tuple[str, ...]]:
    """Return ``point`` alone; it calls the function of `unpacking`, which is in another library."""
    table = unpacking_table(signature)
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


def _load_argument(name: str, index: int) -> list[str]:
    """Return instructions that load the argument %name.object at an index."""
    return [
        f"%{name}.slot = getelementptr ptr, ptr %objects, i64 {index}",
        f"%{name}.object = load ptr, ptr %{name}.slot",
    ]


def _address_or_refuse(name: str, call: str) -> list[str]:
    """Return instructions that define %name as the address of an object's entries, or return NotImplemented."""
    return [
        f"%{name} = call ptr {call}",
        f"%{name}.wrong = icmp eq ptr %{name}, null",
        f"br i1 %{name}.wrong, label %refuse, label %{name}.right",
        f"{name}.right:",
    ]


def _arguments(signature: Signature, points: Iterable[str]) -> list[str]:
    """Return instructions that find the entries of all arguments, given their number of points, "-1" for none."""
    lines = []
    for k, (shape, count) in enumerate(zip(signature.shapes, points, strict=True)):
        if shape or count != "-1":
            lengths = f"@shape.{k}" if shape else "null"
            call = f"@argument_of(ptr %x{k}.object, i32 {len(shape)}, ptr {lengths}, i64 {count})"
        else:
            call = f"@number_of(ptr %x{k}.object, ptr %x{k}.number)"
        lines += [*_load_argument(f"x{k}", k), *_address_or_refuse(f"x{k}", call)]
    return lines


def _numbers(signature: Signature) -> list[str]:
    """Return instructions that reserve memory for numbers that are passed as Python objects."""
    return [f"%x{k}.number = alloca i64" for k, shape in enumerate(signature.shapes) if not shape]


def _pointers(signature: Signature) -> str:
    return ", ".join(f"ptr %{name}" for name in signature.names)


def _answer(label: str, name: str) -> list[str]:
    """Return a block that returns a Python object."""
    return [f"{label}:", f"call void @Py_IncRef(ptr @object_{name})", f"ret ptr @object_{name}"]


#: Endings of functions that Python calls: return None, NotImplemented, or an error.
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
        *when("enough", "or i1 %all, %some.of.them", "counted", "refuse"),
        *_load_argument("first.array", signature.shared.index(False)),
        f"%points = call i64 @length_of(ptr %first.array.object, i1 {last})",
        *unless("no.points", "icmp slt i64 %points, 0", "refuse", "points.known"),
        *_arguments(signature, ["-1" if shared else "%points" for shared in signature.shared]),
    ]
    for k, (name, length) in enumerate(zip(results, signature.lengths, strict=True), len(arguments)):
        lines += [f"%{name}.entries = mul i64 %points, {length}", *_load_argument(name, k)]
        lines += _address_or_refuse(
            name, f"@result_of(ptr %{name}.object, i64 %{name}.entries, i64 %points, i1 {last})"
        )
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
        *_load_argument("first", count),
        *_load_argument("last", count + 1),
        "%first.given = call i64 @PyLong_AsSsize_t(ptr %first.object)",
        "%last.given = call i64 @PyLong_AsSsize_t(ptr %last.object)",
        "br label %start",
        "start:",
        "%first = phi i64 [ 0, %whole ], [ %first.given, %range ]",
        "%last = phi i64 [ %points, %whole ], [ %last.given, %range ]",
        *when("some", "icmp slt i64 %first, %last", "compute", "none"),
        f"%misaligned = call i1 @misaligned(ptr {widest})",
        "%other = load ptr, ptr @other",
        "%has.other = icmp ne ptr %other, null",
        "%use.other = and i1 %misaligned, %has.other",
        "%run = select i1 %use.other, ptr %other, ptr @run",
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 %run({_pointers(signature)}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        *unless("failed", "icmp ne i32 %status, 0", "no.memory", "done"),
        "%not.other = xor i1 %has.other, true",
        "%warn = and i1 %misaligned, %not.other",
        "br i1 %warn, label %misaligned.answer, label %none",
        *_answer("misaligned.answer", "misaligned"),
        *_ENDINGS,
    ]


_MISALIGNED: Final = ["define internal i1 @misaligned(ptr %o) nounwind {"]


def _misaligned(signature: Signature, lanes: int, offsets: Sequence[int]) -> list[str]:
    """Return the function that returns true if no row of the widest result begins where blocks expect; see `ranges`.

    Rows begin at multiples of the greatest common divisor of their length and a vector's, counted from the first.
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
        *when("all", f"icmp eq i64 %given, {len(signature.names)}", "counted", "refuse"),
        *_arguments(signature, ["-1"] * len(signature.shapes)),
    ]
    for k, (name, length) in enumerate(zip(signature.results, signature.lengths, strict=True), len(signature.shapes)):
        lines += _load_argument(name, k)
        lines += _address_or_refuse(name, f"@result_of(ptr %{name}.object, i64 {length}, i64 -1, i1 false)")
    return [*lines, *_run_on_point(signature)]


def _run_on_point(signature: Signature) -> list[str]:
    """Return the part of ``point`` after all addresses are known."""
    return [
        f"%status = call i32 @run({_pointers(signature)}, i64 0, i64 1, i64 1)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %none",
        *_ENDINGS,
    ]
