"""What Python calls: compiled functions that take NumPy arrays as Python objects and read their pointers themselves.

A call through ctypes, and asking an array for its address, take microseconds; for a small function that is most of the
time of a call. So a module has two functions with the signature of CPython's fast built-in functions. They read the
fields of the array object, whose order is part of NumPy's binary interface (every compiled extension has it built in);
`accumulus.targets.llvm.python_abi.supported` checks it against this process before the first kernel is made.

``point(x, *out)`` checks x and returns NotImplemented if it is not a contiguous array of the right length and dtype.
``batch(X, *out, first, last, points)`` checks nothing, releases the GIL, and computes points first … last-1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.errors import CompileError

__all__ = ["UNOPTIMISED", "builtin", "check_supported", "entry_points", "objects"]

#: Fields of an array object, by their distance in bytes from the end of the header of all Python objects.
DATA, AXES, SHAPE, DTYPE, FLAGS = 0, 8, 16, 40, 48
TYPE: Final = -8
#: C-contiguous, aligned.
WANTED_FLAGS: Final = 0x0101
METH_FASTCALL: Final = 0x0080
#: Straight code that runs once a call is compiled the quick way.
UNOPTIMISED: Final = "nounwind noinline optnone"
HEADER: Final = object.__basicsize__

_FUNCTIONS: Final = {
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "PyLong_AsSsize_t": "declare i64 @PyLong_AsSsize_t(ptr)",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyErr_NoMemory": "declare ptr @PyErr_NoMemory()",
    "PyMem_RawMalloc": "declare ptr @PyMem_RawMalloc(i64)",
    "PyMem_RawFree": "declare void @PyMem_RawFree(ptr)",
}
_OBJECTS: Final = ("accumulus_none", "accumulus_not_implemented", "accumulus_array_type", "accumulus_dtype")


def objects(dtype: np.dtype[Any]) -> dict[str, int]:
    """Addresses of the names that `entry_points` needs from outside."""
    found = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS
    }
    for name, value in zip(_OBJECTS, (None, NotImplemented, np.ndarray, dtype), strict=True):
        found[name] = id(value)
    return found


def entry_points(inputs: int, segments: int, transposed: bool) -> tuple[list[str], tuple[str, ...]]:
    """LLVM IR of the functions that Python calls, and the names that they need from outside."""
    lines = [*_FUNCTIONS.values(), *(f"@{name} = external global i8" for name in _OBJECTS)]
    arrays = ["x", *(f"o{k}" for k in range(segments))]

    def field(name: str, of: str, offset: int, kind: str = "ptr") -> list[str]:
        return [
            f"%{name}.at = getelementptr i8, ptr {of}, i64 {HEADER + offset}",
            f"%{name} = load {kind}, ptr %{name}.at",
        ]

    def argument(name: str, index: int) -> list[str]:
        return [
            f"%{name}.slot = getelementptr ptr, ptr %arguments, i64 {index}",
            f"%{name} = load ptr, ptr %{name}.slot",
        ]

    opened = [
        line
        for k, name in enumerate(arrays)
        for line in (*argument(f"{name}.object", k), *field(name, f"%{name}.object", DATA))
    ]
    pointers = ", ".join(f"ptr %{name}" for name in arrays)
    numbers = [
        line
        for k, name in enumerate(("first", "last", "points"))
        for line in (
            *argument(f"{name}.object", len(arrays) + k),
            f"%{name} = call i64 @PyLong_AsSsize_t(ptr %{name}.object)",
        )
    ]
    answer = [
        "%failed = icmp ne i32 %status, 0",
        "br i1 %failed, label %no_memory, label %done",
        "no_memory:",
        "%error = call ptr @PyErr_NoMemory()",
        "ret ptr %error",
        "done:",
        "call void @Py_IncRef(ptr @accumulus_none)",
        "ret ptr @accumulus_none",
    ]
    lines += [
        f"define ptr @batch(ptr %self, ptr %arguments, i64 %count) {UNOPTIMISED} {{",
        *opened,
        *numbers,
        "%thread = call ptr @PyEval_SaveThread()",
        f"%status = call i32 @run({pointers}, i64 %first, i64 %last, i64 %points)",
        "call void @PyEval_RestoreThread(ptr %thread)",
        *answer,
        "}",
    ]
    if not transposed:
        lines += [
            f"define ptr @point(ptr %self, ptr %arguments, i64 %count) {UNOPTIMISED} {{",
            *argument("object", 0),
            *field("type", "%object", TYPE),
            "%is_array = icmp eq ptr %type, @accumulus_array_type",
            "br i1 %is_array, label %array, label %refuse",
            "array:",
            *field("axes", "%object", AXES, "i32"),
            *field("shape", "%object", SHAPE),
            *field("dtype", "%object", DTYPE),
            *field("flags", "%object", FLAGS, "i32"),
            "%one_axis = icmp eq i32 %axes, 1",
            "%right_dtype = icmp eq ptr %dtype, @accumulus_dtype",
            f"%wanted = and i32 %flags, {WANTED_FLAGS}",
            f"%plain = icmp eq i32 %wanted, {WANTED_FLAGS}",
            "%both = and i1 %one_axis, %right_dtype",
            "%all = and i1 %both, %plain",
            "br i1 %all, label %sized, label %refuse",
            "sized:",
            "%length = load i64, ptr %shape",
            f"%right_length = icmp eq i64 %length, {inputs}",
            "br i1 %right_length, label %compute, label %refuse",
            "refuse:",
            "call void @Py_IncRef(ptr @accumulus_not_implemented)",
            "ret ptr @accumulus_not_implemented",
            "compute:",
            *opened,
            f"%status = call i32 @run({pointers}, i64 0, i64 1, i64 1)",
            *answer,
            "}",
        ]
    return lines, (*_FUNCTIONS, *_OBJECTS)


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

    shape = (ctypes.c_ssize_t * 2).from_address(field(SHAPE, ctypes.c_void_p))
    as_expected = (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and field(DATA, ctypes.c_void_p) == probe.ctypes.data
        and field(AXES, ctypes.c_int) == 2
        and tuple(shape) == (2, 3)
        and field(DTYPE, ctypes.c_void_p) == id(probe.dtype)
        and field(FLAGS, ctypes.c_int) & WANTED_FLAGS == WANTED_FLAGS
        and field(TYPE, ctypes.c_void_p) == id(np.ndarray)
    )
    if not as_expected:
        raise CompileError(
            "arrays of this version of NumPy are laid out in a way that target 'llvm' does not know; use target='numpy'"
        )
