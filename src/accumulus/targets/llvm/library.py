"""Machine code of a program: as the compiler returns it, in the cache, and in memory.

The machine code of a program depends on the tape, the result arrays, the shapes of the arguments, the variant, the
versions of the emitting and compiling code, and the processor. A hash of all these is the key of the code in the cache
(`accumulus.cache`), so that a second process emits no text and does not load LLVM. Cached code has no addresses: it
names the functions and tables that it uses, and every process links it anew.

Python calls the code as it calls its built-in functions, which read numbers and arrays in place. A call through ctypes,
and a request for the address of an array, take microseconds: for a small function, most of the time of a call. So a
module has functions with the signature of CPython's built-in functions (`entry_points`). They check the objects that
they receive and read their fields, whose order is part of the binary interface of Python and NumPy (every compiled
extension relies on it); `check_supported` compares it with this process before the first kernel is made.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus import cache
from accumulus.cache import digest_of_parts, processor
from accumulus.errors import CompileError
from accumulus.native.linker import Linked, UnknownObjectError, is_supported
from accumulus.tape.tape import to_bytes
from accumulus.targets.kernel import Unit, indices
from accumulus.targets.llvm.scipy_functions import addresses

# Python objects and functions -----------------------------------------------------------------------------------------

#: Offsets, in bytes, of the fields of an array object from the end of the header of all Python objects.
DATA, AXES, SHAPE, DTYPE, FLAGS = 0, 8, 16, 40, 48
#: Offset of the value of a Python or NumPy number.
VALUE: Final = 0
#: Offset of the type, the header's last field.
TYPE: Final = -8
HEADER: Final = object.__basicsize__
#: Flags of an array that is C-contiguous and aligned; and of one that is also writable.
READABLE: Final = 0x0101
WRITABLE: Final = 0x0501
METH_FASTCALL: Final = 0x0080

#: Offset of the items of a tuple.
ITEMS: Final = tuple.__basicsize__
#: Functions for all programs (`accumulus.targets.llvm.shared_code`): they unpack the arguments of one point, compute
#: one or many points of loops, make or take the arrays for results, and call another function where one refuses.
UNPACK, LOOPS, POINTS = "accumulus_unpack", "accumulus_loops", "accumulus_points_of_loops"
FRESH, TAKEN, EITHER = "accumulus_fresh", "accumulus_taken", "accumulus_either"
#: Python functions that entry points call.
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
#: Functions that make the arrays for results, and their tuple.
MAKING: Final = {
    "Py_DecRef": "declare void @Py_DecRef(ptr)",
    "PyObject_Vectorcall": "declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyTuple_New": "declare ptr @PyTuple_New(i64)",
    "PyTuple_SetItem": "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "PyArray_New": "declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)",
    "PyArray_Return": "declare ptr @PyArray_Return(ptr)",
}
#: Places of NumPy's functions in the table of its C API.
NUMPY_API: Final = {"PyArray_Return": 76, "PyArray_New": 93}
#: Objects whose addresses entry points compare with, or return.
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
    "object_tuple": tuple,
    "object_list": list,
    "object_one": 1,
}


def objects(dtype: np.dtype[Any]) -> dict[str, int]:
    """Return addresses of the names that entry points import."""
    names = [name for name in (*FUNCTIONS, *MAKING) if name not in NUMPY_API]
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names}
    addresses |= _numpy_functions()
    return {**addresses, **{name: id(value) for name, value in OBJECTS.items()}, "object_dtype": id(dtype)}


@functools.cache
def _numpy_functions() -> dict[str, int]:
    """Return addresses of functions of NumPy's C API, from the table that extensions take them from."""
    module: Any = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    table = ctypes.cast(pointer(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return {name: table[place] or 0 for name, place in NUMPY_API.items()}


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def builtin(name: str, address: int, *owners: object) -> Callable[..., Any]:
    """Return a Python built-in function that runs the code at `address`, and keeps `owners` alive.

    The code gets a tuple of this function's definition and the owners.
    """
    method = _MethodDefinition(name.encode(), address, METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = (ctypes.POINTER(_MethodDefinition), ctypes.py_object, ctypes.c_void_p)
    make.restype = ctypes.py_object
    # the function refers to its definition as long as it lives, so its `self` holds the definition, too
    return make(ctypes.byref(method), (method, *owners), None)  # type: ignore[no-any-return]


@functools.cache
def check_supported() -> None:
    """Raise `CompileError` if array objects of this process have another layout than expected."""
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
            "arrays or numbers of this version of NumPy have a memory layout that target 'llvm' does not support; use "
            "target='numpy'"
        )


# Machine code ---------------------------------------------------------------------------------------------------------

#: An object file, and names of functions in it that other code calls.
Image = tuple[bytes, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Compiled code before linking."""

    images: tuple[Image, ...]  # object files, each with the names of functions that are exported or called by the last
    imports: tuple[str, ...]  # names of functions and variables that it imports
    tables: Mapping[str, NDArray[Any]]  # arrays that it reads, by name
    exports: tuple[str, ...] = ()  # names of functions that other code calls

    def to_bytes(self) -> bytes:
        """Return the code as bytes, for the cache."""
        tables = [(name, table.dtype.str, table.shape) for name, table in self.tables.items()]
        names = {"imports": self.imports, "exports": self.exports}
        images = [(len(image), names) for image, names in self.images]
        head = json.dumps({**names, "tables": tables, "images": images}).encode()
        contents = (image for image, _ in self.images)
        return b"".join([head, b"\n", *contents, *(table.tobytes() for table in self.tables.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> MachineCode:
        """Return the code whose `to_bytes` returned this content."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        images, tables, at = [], {}, 0
        for size, names in head["images"]:
            images.append((rest[at : at + size], tuple(names)))
            at += size
        for name, kind, shape in head["tables"]:
            count = int(np.prod(shape, dtype=np.int64))
            # copied, so that entries are aligned
            tables[name] = np.frombuffer(rest, kind, count, at).reshape(shape).copy()
            at += tables[name].nbytes
        return cls(tuple(images), tuple(head["imports"]), tables, tuple(head["exports"]))


class Library:
    """Compiled code in memory, which stays there as long as this object lives.

    Args:
        code: the compiled code.
        exports: functions and variables whose addresses are needed.
        objects: addresses of imports that are not functions of a library of this process, by name.

    Attributes:
        addresses: addresses of the exports, by name.

    Raises:
        CompileError: if the code cannot be linked in this process.
    """

    __slots__ = ("__weakref__", "_linked", "_tables", "addresses")

    def __init__(self, code: MachineCode, exports: Sequence[str], objects: Mapping[str, int]) -> None:
        imports = {name: objects[name] for name in code.imports if name in objects}
        imports |= {name: table.ctypes.data for name, table in code.tables.items()} | addresses(code.imports)
        self._tables = code.tables  # the code may read them as long as it lives
        apart = {name for _, names in code.images[:-1] for name in names}
        exported: dict[str, int] = {}
        self._linked: list[Any] = []
        for image, names in (*code.images[:-1], (code.images[-1][0], [name for name in exports if name not in apart])):
            self._linked.append(_linked(image, names, imports | exported, code.imports))
            exported |= self._linked[-1].addresses
        self.addresses: dict[str, int] = exported


def _linked(image: bytes, exports: Sequence[str], imports: Mapping[str, int], names: Sequence[str]) -> Any:
    """Return an object file in memory, linked by this package, or by LLVM if that is not possible."""
    if is_supported():
        with suppress(UnknownObjectError):
            return Linked(image, exports, imports)
    from accumulus.targets.llvm.host import LinkedByLLVM

    return LinkedByLLVM(image, exports, imports, names)


def code_key(unit: Unit, changes: Mapping[str, object]) -> str:
    """Return the key of a program's code for one purpose.

    Args:
        unit: program to compile.
        changes: attributes in which its variant differs from the tuned one, by name.
    """
    return digest_of_parts(
        [
            version(),
            to_bytes(unit.tape),
            *(
                indices(positions).astype(np.int64).tobytes()
                for segment in unit.segments
                for positions in (segment.outputs, segment.positions)
            ),
            bytes(array("q", sorted(unit.exact))),
            repr((unit.shapes, unit.lengths, unit.dtype, sorted(changes.items()))).encode(),
        ]
    )


def load_code(key: str) -> MachineCode | None:
    """Return the code in the cache under a key; None if there is none."""
    content = cache.fetch("programs", key)
    try:
        return None if content is None else MachineCode.from_bytes(content)
    except (ValueError, KeyError, TypeError):
        return None


def store_code(key: str, code: MachineCode) -> None:
    """Store code in the cache, if the cache can be used."""
    cache.store("programs", key, code.to_bytes())


@functools.cache
def version() -> bytes:
    """Return the common part of all keys: the versions of the compiling code, and the processor."""
    return cache.version_of_kind("programs") + f"\n{processor()}".encode()
