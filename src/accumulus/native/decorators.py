"""Decorators of the functions of kernels, which do nothing but in the process that compiles a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
#: The compiler, in the process of one.
_COMPILER: Final[list[Any]] = []


def compile_with(compiler: Any) -> None:
    """Make the decorators those of a compiler, `accumulus.native.lowering`, and have kernels imported anew.

    What drives a kernel imports its constants and its state from it, so that kernels may be there already, as Python.
    """
    for name in [name for name in sys.modules if ".compiled." in name or name == "accumulus.native.words"]:
        del sys.modules[name]
    _COMPILER[:] = [compiler]


def compiled(function: _F) -> _F:
    """Return a function of a kernel. Its annotations are the types that it is compiled for."""
    return _COMPILER[0].compiled(function) if _COMPILER else function


def primitive(function: _F) -> _F:
    """Return a function that the compiler has code of its own for, by its name."""
    return _COMPILER[0].primitive(function) if _COMPILER else function
