"""Decorators of kernel functions; they take effect only in the process that compiles a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
#: The compiler, in the process that compiles a kernel; else None.
_COMPILER: Final[list[Any]] = []


def compile_with(compiler: Any) -> None:
    """Use the decorators of a compiler, `accumulus.native.lowering`, and import all kernels again.

    Modules that call a kernel import its constants and its state, so it may have been imported before, as Python.
    """
    for name in [name for name in sys.modules if ".compiled." in name or name == "accumulus.native.words"]:
        del sys.modules[name]
    _COMPILER[:] = [compiler]


def compiled(function: _F) -> _F:
    """Return a function of a kernel, compiled for the types of its annotations."""
    return _COMPILER[0].compile_function(function) if _COMPILER else function


def primitive(function: _F) -> _F:
    """Return a function for which the compiler has special code, found by its name."""
    return _COMPILER[0].code_of_primitive(function) if _COMPILER else function
