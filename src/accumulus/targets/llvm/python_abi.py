"""Compiled functions as Python's own, which read numbers and arrays where these lie.

A call through ctypes, and asking an array for its address, take microseconds: for a small function most of the time of
a call. So a module has functions with the signature of CPython's built-in functions (`entry_points`). They check the
objects that they are given and read their fields, whose order is part of the binary interface of Python and NumPy
(every compiled extension has it built in); `check_supported` compares it with this process before the first kernel is
made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.errors import CompileError

__all__ = [
    "AXES",
    "DATA",
    "DTYPE",
    "FLAGS",
    "FUNCTIONS",
    "HEADER",
    "OBJECTS",
    "READABLE",
    "SHAPE",
    "TYPE",
    "UNPACK",
    "VALUE",
    "WRITABLE",
    "builtin",
    "check_supported",
    "objects",
]

#: Fields of an array object, by their distance in bytes from the end of the header of all Python objects.
DATA, AXES, SHAPE, DTYPE, FLAGS = 0, 8, 16, 40, 48
#: The value of a number of Python's or NumPy's.
VALUE: Final = 0
#: The type is the header's last field.
TYPE: Final = -8
HEADER: Final = object.__basicsize__
#: Flags of an array that is C-contiguous and aligned; writeable too.
READABLE: Final = 0x0101
WRITABLE: Final = 0x0501
METH_FASTCALL: Final = 0x0080

#: The function that looks at the arguments of one point, for all programs; see `accumulus.targets.llvm.shared`.
UNPACK: Final = "accumulus_unpack"
#: Functions of Python's that entries call.
FUNCTIONS: Final = {
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "PyLong_AsSsize_t": "declare i64 @PyLong_AsSsize_t(ptr)",
    "PyLong_AsDouble": "declare double @PyLong_AsDouble(ptr)",
    "PyErr_Occurred": "declare ptr @PyErr_Occurred()",
    "PyErr_Clear": "declare void @PyErr_Clear()",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyErr_NoMemory": "declare ptr @PyErr_NoMemory()",
    "PyMem_RawMalloc": "declare ptr @PyMem_RawMalloc(i64)",
    "PyMem_RawFree": "declare void @PyMem_RawFree(ptr)",
}
#: Objects whose addresses entries compare with, or return.
OBJECTS: Final[dict[str, object]] = {
    "object_none": None,
    "object_refused": NotImplemented,
    "object_misaligned": Ellipsis,
    "object_array_type": np.ndarray,
    "object_float": float,
    "object_int": int,
    "object_float64": np.float64,
    "object_float32": np.float32,
    "object_int64": np.int64,
}


def objects(dtype: np.dtype[Any]) -> dict[str, int]:
    """Addresses of the names that entries need from outside."""
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS}
    return {**addresses, **{name: id(value) for name, value in OBJECTS.items()}, "object_dtype": id(dtype)}


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

    def field(offset: int, kind: Any, of: object = probe) -> Any:
        return kind.from_address(id(of) + HEADER + offset).value or 0

    numbers = ((0.1, ctypes.c_double), (np.float64(0.1), ctypes.c_double), (np.int64(-7), ctypes.c_int64))

    as_expected = (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and field(TYPE, ctypes.c_void_p) == id(np.ndarray)
        and field(DATA, ctypes.c_void_p) == probe.ctypes.data
        and field(AXES, ctypes.c_int) == 2
        and field(DTYPE, ctypes.c_void_p) == id(probe.dtype)
        and field(FLAGS, ctypes.c_int) & WRITABLE == WRITABLE
        and tuple((ctypes.c_ssize_t * 2).from_address(field(SHAPE, ctypes.c_void_p))) == probe.shape
        and all(field(VALUE, kind, number) == number for number, kind in numbers)
        and field(VALUE, ctypes.c_float, np.float32(0.5)) == 0.5
    )
    if not as_expected:
        raise CompileError(
            "arrays or numbers of this version of NumPy are laid out in a way that target 'llvm' does not know; use "
            "target='numpy'"
        )
