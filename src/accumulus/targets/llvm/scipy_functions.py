"""C functions of `scipy.special`, which machine code calls by name.

`scipy.special.cython_special` publishes its functions in capsules with their signatures. The name of an import holds
the function and its signature, so that code from the cache is never linked to a function with another one. SciPy is
imported when the first program needs it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from accumulus.errors import CompileError

#: Beginning of the names of these functions, in the table of operations and among the imports of code.
PREFIX: Final = "scipy."
#: Letters of C's types in the names of imports. Pointers are those to results, and integers are 0.
_LETTERS: Final = {"double": "d", "__pyx_t_double_complex": "c", "double *": "p", "int": "i", "void": "v"}


@dataclass(frozen=True, slots=True)
class Function:
    """A C function: the name of its import, and its signature in letters."""

    symbol: str
    returned: str
    parameters: str


@cache
def function_of(name: str, arity: int, *, is_complex: bool) -> Function:
    """Return the function of real numbers, or of a complex number in two parts, that computes `scipy.special.<name>`.

    Raises:
        CompileError: if this version of SciPy does not have it.
    """
    wanted = "c:ci?" if is_complex else f"(d:d{{{arity}}}i?|v:d{{{arity}}}p+)"
    for capsule in _capsules():
        if re.fullmatch(rf"(__pyx_fuse_\d(_\d)?)?{name}", capsule) and re.fullmatch(
            wanted, letters := _letters(capsule)
        ):
            return Function(f"{PREFIX}{capsule}.{letters.replace(':', '.')}", *letters.split(":"))
    raise CompileError(
        f"this version of SciPy does not publish scipy.special.{name} as a C function, which target 'llvm' calls; use "
        "target='numpy'"
    )


def addresses(names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of those among the imports of code that are functions of SciPy.

    Raises:
        CompileError: if this version of SciPy has no such function, or one with another signature.
    """
    found = {}
    for name in names:
        if name.startswith(PREFIX):
            capsule, returned, parameters = name.removeprefix(PREFIX).split(".")
            if capsule not in _capsules() or _letters(capsule) != f"{returned}:{parameters}":
                raise CompileError(f"this version of SciPy has no C function {capsule} of the expected signature")
            found[name] = _pointer(_capsules()[capsule], _c_signature(capsule))
    return found


@cache
def _capsules() -> dict[str, Any]:
    from scipy.special import cython_special

    return dict(sorted(cython_special.__pyx_capi__.items()))


@cache
def _letters(capsule: str) -> str:
    """Return the signature of a function in letters: ``d:ddi`` of ``double (double, double, int)``."""
    returned, _, parameters = _c_signature(capsule).decode().rstrip(")").partition(" (")
    kinds = [re.sub(r"^int \w+$", "int", kind) for kind in parameters.split(", ")]
    return f"{_LETTERS.get(returned, '?')}:{''.join(_LETTERS.get(kind, '?') for kind in kinds)}"


def _c_signature(capsule: str) -> bytes:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    return name(_capsules()[capsule])  # type: ignore[no-any-return]


def _pointer(capsule: Any, signature: bytes) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return int(pointer(capsule, signature))
