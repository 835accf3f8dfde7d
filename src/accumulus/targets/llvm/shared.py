"""Code that programs for one point have in common: access to Python objects, and the elementary functions.

LLVM takes longer for this code than for a small program, so it is compiled once a machine, cached
(`accumulus.cache`), and linked once a process. Where nothing can be cached, each process compiles it for itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import numpy as np

from accumulus.errors import CompileError
from accumulus.forks import Lock
from accumulus.tape.tape import digest
from accumulus.targets.llvm.library import Code, Library, load, store, version
from accumulus.targets.llvm.python_abi import UNPACK, objects

__all__ = ["needs_from_outside"]

_LOADED: Final[dict[str, Library]] = {}
_LOCK: Final = Lock()


def needs_from_outside(code: Code, dtype: np.dtype[Any]) -> dict[str, int]:
    """Addresses of imports, of code for that type of numbers, that are not functions of a library of this process.

    Raises:
        CompileError: if the shared code cannot be compiled or linked in this process.
    """
    shared = _library(dtype).addresses if UNPACK in code.imports else {}
    return {**objects(dtype), **shared}


def _library(dtype: np.dtype[Any]) -> Library:
    """The shared code for one type of numbers."""
    name = str(dtype)
    with _LOCK:
        if name not in _LOADED:
            key = digest([version(), f"shared by programs of {name}".encode()])
            known = load(key)
            library = None
            if known is not None:
                with suppress(CompileError):  # a library that it calls is not there
                    library = _linked(known, dtype)
            if library is None:
                code = _compiled(dtype)
                library = _linked(code, dtype)
                store(key, code)
            _LOADED[name] = library
        return _LOADED[name]


def _linked(code: Code, dtype: np.dtype[Any]) -> Library:
    return Library(code, code.exports, objects(dtype))


def _compiled(dtype: np.dtype[Any]) -> Code:
    from accumulus.targets.llvm.callees import Functions
    from accumulus.targets.llvm.host import compile_ir
    from accumulus.targets.llvm.module import in_module
    from accumulus.targets.llvm.python_objects import unpacking
    from accumulus.targets.llvm.vector_functions import VECTOR_FUNCTIONS

    functions = Functions(1, str(dtype))
    exports = [UNPACK]
    if dtype == np.float64:
        for function in dict.fromkeys(function for function, _ in VECTOR_FUNCTIONS.values()):
            functions.define(function)
            exports.append(function.name)
    text = functions.text(visible=True)
    lines, names = unpacking(dtype.itemsize)
    image = compile_ir(in_module([*text, *lines]))
    return Code(((image, ()),), (*sorted(functions.imported), *names), {}, tuple(exports))
