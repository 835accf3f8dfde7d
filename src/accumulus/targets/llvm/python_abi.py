"""What Python calls: compiled functions that take NumPy arrays as Python objects and read their pointers themselves.

A call through ctypes, and asking an array for its address, take microseconds: for a small function most of the time of
a call. So a module has functions with the signature of CPython's built-in functions. They check the arrays and read
their fields, whose order is part of NumPy's binary interface (every compiled extension has it built in);
`check_supported` compares it with this process before the first kernel is made.

``point(x, *out)`` and ``batch(X, *out)`` return None. ``batch(X, *out, first, last)`` computes a range of the points.
In C order, the numbers of a point may have several axes. The GIL is released in batches. What they cannot take
(another shape or dtype, a subclass of arrays, arrays that overlap) they refuse with NotImplemented, for the caller to
say what is wrong. ``batch`` returns Ellipsis if it did its work, but with results across the boundaries of vectors,
which code for memory that starts elsewhere would avoid: put the address of such code's function ``run`` into the global
``other``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from math import gcd
from typing import Any, Final

import numpy as np

from accumulus.errors import CompileError

__all__ = ["UNOPTIMISED", "builtin", "check_supported", "entry_points", "objects", "point_entry"]

#: Straight code that runs once a call is compiled the quick way.
UNOPTIMISED: Final = "nounwind noinline optnone"

#: Fields of an array object, by their distance in bytes from the end of the header of all Python objects.
DATA, AXES, SHAPE, DTYPE, FLAGS = 0, 8, 16, 40, 48
#: The type is the header's last field.
TYPE: Final = -8
HEADER: Final = object.__basicsize__
#: C-contiguous and aligned; writeable too.
READABLE: Final = 0x0101
WRITABLE: Final = 0x0501
METH_FASTCALL: Final = 0x0080

_FUNCTIONS: Final = {
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "PyLong_AsSsize_t": "declare i64 @PyLong_AsSsize_t(ptr)",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyErr_NoMemory": "declare ptr @PyErr_NoMemory()",
    "PyMem_RawMalloc": "declare ptr @PyMem_RawMalloc(i64)",
    "PyMem_RawFree": "declare void @PyMem_RawFree(ptr)",
}
_OBJECTS: Final[dict[str, object]] = {
    "object_none": None,
    "object_refused": NotImplemented,
    "object_misaligned": Ellipsis,
    "object_array_type": np.ndarray,
}


def objects(dtype: np.dtype[Any]) -> dict[str, int]:
    """Addresses of the names that `entry_points` needs from outside."""
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS}
    return {**addresses, **{name: id(value) for name, value in _OBJECTS.items()}, "object_dtype": id(dtype)}


def entry_points(
    inputs: int, lengths: Sequence[int], transposed: bool, lanes: int, size: int, phases: Sequence[int]
) -> tuple[list[str], tuple[str, ...]]:
    """LLVM IR of the functions that Python calls, and the names that they need from outside.

    Args:
        inputs, lengths: entries a point, of the points and of each result array.
        transposed: arrays are entries × points.
        lanes, size: entries of a vector, and bytes of an entry.
        phases: where in a vector the first entry of each result array is expected to lie.
    """
    declarations, names = _declarations()
    lines = [
        *declarations,
        "@other = global ptr null",
        *_OVERLAP,
        *_batch(inputs, lengths, transposed, size),
    ]
    if transposed:
        lines += ["define internal i1 @misaligned(ptr %o, i64 %first) nounwind {", "ret i1 false", "}"]
    else:
        lines += [*_misaligned(lengths, lanes, size, phases), *_point(inputs, lengths)]
    return lines, names


def point_entry(inputs: int, lengths: Sequence[int]) -> tuple[list[str], tuple[str, ...]]:
    """As `entry_points`, but ``point`` alone: a third of the code of a small program."""
    declarations, names = _declarations()
    return [*declarations, *_point(inputs, lengths)], names


def _declarations() -> tuple[list[str], tuple[str, ...]]:
    """What every entry point uses, and the names that it needs from outside."""
    names = (*_FUNCTIONS, *_OBJECTS, "object_dtype")
    external = [f"@{name} = external global i8" for name in names if name not in _FUNCTIONS]
    return [*_FUNCTIONS.values(), *external, *_DATA_OF], names


#: Where an array's entries are, null if it is not one of the given axes, shape (-1: any length) and flags. With axes 0
#: it may have any number of them: the first has the length %rows, all others together %columns entries.
_DATA_OF: Final = (
    f"define internal ptr @data_of(ptr %object, i32 %axes, i64 %rows, i64 %columns, i32 %wanted) {UNOPTIMISED} {{",
    f"%type.at = getelementptr i8, ptr %object, i64 {HEADER + TYPE}",
    "%type = load ptr, ptr %type.at",
    "%is.array = icmp eq ptr %type, @object_array_type",
    "br i1 %is.array, label %array, label %refuse",
    "array:",
    f"%axes.at = getelementptr i8, ptr %object, i64 {HEADER + AXES}",
    "%axes.given = load i32, ptr %axes.at",
    f"%dtype.at = getelementptr i8, ptr %object, i64 {HEADER + DTYPE}",
    "%dtype = load ptr, ptr %dtype.at",
    f"%flags.at = getelementptr i8, ptr %object, i64 {HEADER + FLAGS}",
    "%flags = load i32, ptr %flags.at",
    "%axes.equal = icmp eq i32 %axes.given, %axes",
    "%axes.some = icmp ne i32 %axes.given, 0",
    "%axes.free = icmp eq i32 %axes, 0",
    "%axes.right = select i1 %axes.free, i1 %axes.some, i1 %axes.equal",
    "%dtype.right = icmp eq ptr %dtype, @object_dtype",
    "%flags.wanted = and i32 %flags, %wanted",
    "%flags.right = icmp eq i32 %flags.wanted, %wanted",
    "%two.right = and i1 %axes.right, %dtype.right",
    "%three.right = and i1 %two.right, %flags.right",
    "br i1 %three.right, label %sized, label %refuse",
    "sized:",
    f"%shape.at = getelementptr i8, ptr %object, i64 {HEADER + SHAPE}",
    "%shape = load ptr, ptr %shape.at",
    "%rows.given = load i64, ptr %shape",
    "%rows.equal = icmp eq i64 %rows.given, %rows",
    "%rows.any = icmp eq i64 %rows, -1",
    "%rows.right = or i1 %rows.equal, %rows.any",
    "%has.columns = icmp ne i32 %axes, 1",
    "%check.columns = and i1 %rows.right, %has.columns",
    "br i1 %check.columns, label %others, label %first",
    "others:",
    "%axis = phi i32 [ 1, %sized ], [ %axis.next, %another ]",
    "%product = phi i64 [ 1, %sized ], [ %product.next, %another ]",
    "%is.axis = icmp slt i32 %axis, %axes.given",
    "br i1 %is.axis, label %another, label %compare",
    "another:",
    "%length.at = getelementptr i64, ptr %shape, i32 %axis",
    "%length = load i64, ptr %length.at",
    "%product.next = mul i64 %product, %length",
    "%axis.next = add i32 %axis, 1",
    "br label %others",
    "compare:",
    "%columns.equal = icmp eq i64 %product, %columns",
    "%columns.any = icmp eq i64 %columns, -1",
    "%columns.right = or i1 %columns.equal, %columns.any",
    "br i1 %columns.right, label %found, label %refuse",
    "first:",
    "br i1 %rows.right, label %found, label %refuse",
    "found:",
    f"%data.at = getelementptr i8, ptr %object, i64 {HEADER + DATA}",
    "%data = load ptr, ptr %data.at",
    "ret ptr %data",
    "refuse:",
    "ret ptr null",
    "}",
)


#: Whether two stretches of memory have a byte in common.
_OVERLAP: Final = (
    f"define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) {UNOPTIMISED} {{",
    "%a.end = getelementptr i8, ptr %a, i64 %a.bytes",
    "%b.end = getelementptr i8, ptr %b, i64 %b.bytes",
    "%a.first = icmp ult ptr %a, %b.end",
    "%b.first = icmp ult ptr %b, %a.end",
    "%both = and i1 %a.first, %b.first",
    "ret i1 %both",
    "}",
)


def _argument(name: str, index: int) -> list[str]:
    return [
        f"%{name}.slot = getelementptr ptr, ptr %arguments, i64 {index}",
        f"%{name}.object = load ptr, ptr %{name}.slot",
    ]


def _opened(name: str, axes: int, shape: tuple[str, str], flags: int) -> list[str]:
    """Read the pointer %name of an argument, or refuse."""
    rows, columns = shape
    return [
        f"%{name} = call ptr @data_of(ptr %{name}.object, i32 {axes}, i64 {rows}, i64 {columns}, i32 {flags})",
        f"%{name}.wrong = icmp eq ptr %{name}, null",
        f"br i1 %{name}.wrong, label %refuse, label %{name}.right",
        f"{name}.right:",
    ]


def _answers(*objects_: str) -> list[str]:
    return [
        line
        for name in objects_
        for line in (f"{name}:", f"call void @Py_IncRef(ptr @object_{name})", f"ret ptr @object_{name}")
    ]


_REFUSE: Final = ["refuse:", "call void @Py_IncRef(ptr @object_refused)", "ret ptr @object_refused"]
_NO_MEMORY: Final = ["no.memory:", "%error = call ptr @PyErr_NoMemory()", "ret ptr %error"]


def _batch(inputs: int, lengths: Sequence[int], transposed: bool, size: int) -> list[str]:
    results = [f"o{k}" for k in range(len(lengths))]
    lines = [f"define ptr @batch(ptr %self, ptr %arguments, i64 %given) {UNOPTIMISED} {{"]
    lines += _argument("x", 0)
    axes = 2 if transposed else 0
    lines += _opened("x", axes, (str(inputs), "-1") if transposed else ("-1", str(inputs)), READABLE)
    lines += [
        f"%shape.at = getelementptr i8, ptr %x.object, i64 {HEADER + SHAPE}",
        "%shape = load ptr, ptr %shape.at",
        f"%points.at = getelementptr i64, ptr %shape, i64 {int(transposed)}",
        "%points = load i64, ptr %points.at",
    ]
    for k, (name, length) in enumerate(zip(results, lengths, strict=True)):
        lines += _argument(name, 1 + k)
        lines += _opened(name, axes, (str(length), "%points") if transposed else ("%points", str(length)), WRITABLE)
    lines += [
        f"%{name}.bytes = mul i64 %points, {length * size}"
        for name, length in zip(("x", *results), (inputs, *lengths), strict=True)
    ]
    for a, b in combinations(("x", *results), 2):
        lines += [
            f"%{a}.over.{b} = call i1 @overlap(ptr %{a}, i64 %{a}.bytes, ptr %{b}, i64 %{b}.bytes)",
            f"br i1 %{a}.over.{b}, label %refuse, label %{a}.beside.{b}",
            f"{a}.beside.{b}:",
        ]
    pointers = ", ".join(f"ptr %{name}" for name in ("x", *results))
    widest = f"%o{max(range(len(lengths)), key=lambda k: lengths[k])}" if lengths else "%x"
    return [
        *lines,
        f"%all = icmp eq i64 %given, {1 + len(lengths)}",
        "br i1 %all, label %whole, label %range",
        "whole:",
        "br label %start",
        "range:",
        *_argument("first", 1 + len(lengths)),
        *_argument("last", 2 + len(lengths)),
        "%first.given = call i64 @PyLong_AsSsize_t(ptr %first.object)",
        "%last.given = call i64 @PyLong_AsSsize_t(ptr %last.object)",
        "br label %start",
        "start:",
        "%first = phi i64 [ 0, %whole ], [ %first.given, %range ]",
        "%last = phi i64 [ %points, %whole ], [ %last.given, %range ]",
        "%some = icmp slt i64 %first, %last",
        "br i1 %some, label %compute, label %none",
        "compute:",
        f"%misaligned = call i1 @misaligned(ptr {widest}, i64 %first)",
        "%other = load ptr, ptr @other",
        "%has.other = icmp ne ptr %other, null",
        "%use.other = and i1 %misaligned, %has.other",
        "%run = select i1 %use.other, ptr %other, ptr @run",
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 %run({pointers}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %done",
        "done:",
        "%not.other = xor i1 %has.other, true",
        "%warn = and i1 %misaligned, %not.other",
        "br i1 %warn, label %misaligned.answer, label %none",
        "misaligned.answer:",
        "call void @Py_IncRef(ptr @object_misaligned)",
        "ret ptr @object_misaligned",
        *_answers("none"),
        *_REFUSE,
        *_NO_MEMORY,
        "}",
    ]


def _misaligned(lengths: Sequence[int], lanes: int, size: int, phases: Sequence[int]) -> list[str]:
    """Whether no row of the widest result array begins where blocks expect it; see also `ranges`.

    Rows begin at multiples of what their length has in common with a vector, counted from the first.
    """
    head = "define internal i1 @misaligned(ptr %o, i64 %first) nounwind {"
    if not any(lengths):
        return [head, "ret i1 false", "}"]
    widest = max(range(len(lengths)), key=lambda k: lengths[k])
    return [
        head,
        "%at = ptrtoint ptr %o to i64",
        f"%entry = udiv i64 %at, {size}",
        f"%off = sub i64 %entry, {phases[widest]}",
        f"%lane = and i64 %off, {gcd(lengths[widest], lanes) - 1}",
        "%beside = icmp ne i64 %lane, 0",
        "ret i1 %beside",
        "}",
    ]


def _point(inputs: int, lengths: Sequence[int]) -> list[str]:
    results = [f"o{k}" for k in range(len(lengths))]
    lines = [f"define ptr @point(ptr %self, ptr %arguments, i64 %given) {UNOPTIMISED} {{"]
    lines += [*_argument("x", 0), *_opened("x", 1, (str(inputs), "-1"), READABLE)]
    for k, (name, length) in enumerate(zip(results, lengths, strict=True)):
        lines += [*_argument(name, 1 + k), *_opened(name, 1, (str(length), "-1"), WRITABLE)]
    pointers = ", ".join(f"ptr %{name}" for name in ("x", *results))
    return [
        *lines,
        f"%status = call i32 @run({pointers}, i64 0, i64 1, i64 1)",
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no.memory, label %none",
        *_answers("none"),
        *_REFUSE,
        *_NO_MEMORY,
        "}",
    ]


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def builtin(name: str, address: int, owner: object) -> Callable[..., Any]:
    """A built-in function of Python's that runs the code at `address`, and keeps `owner` alive as long as it lives."""
    method = _MethodDefinition(name.encode(), address, METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = (ctypes.POINTER(_MethodDefinition), ctypes.py_object, ctypes.c_void_p)
    make.restype = ctypes.py_object
    # the function refers to its definition for as long as it lives, so its `self` holds that too
    return make(ctypes.byref(method), (method, owner), None)  # type: ignore[no-any-return]


@cache
def check_supported() -> None:
    """Raise `CompileError` if array objects of this process are not laid out as expected."""
    probe = np.arange(6.0).reshape(2, 3)

    def field(offset: int, kind: Any) -> int:
        return kind.from_address(id(probe) + HEADER + offset).value or 0

    as_expected = (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and field(TYPE, ctypes.c_void_p) == id(np.ndarray)
        and field(DATA, ctypes.c_void_p) == probe.ctypes.data
        and field(AXES, ctypes.c_int) == 2
        and field(DTYPE, ctypes.c_void_p) == id(probe.dtype)
        and field(FLAGS, ctypes.c_int) & WRITABLE == WRITABLE
        and tuple((ctypes.c_ssize_t * 2).from_address(field(SHAPE, ctypes.c_void_p))) == probe.shape
    )
    if not as_expected:
        raise CompileError(
            "arrays of this version of NumPy are laid out in a way that target 'llvm' does not know; use target='numpy'"
        )
