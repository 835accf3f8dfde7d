"""Decorators of the functions of kernels, which do nothing but in the process that compiles a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["compile_with", "compiled", "primitive"]

_F = TypeVar("_F", bound=Callable[..., Any])
#: The compiler, in the process of one.
_COMPILER: Final[list[Any]] = []


def compile_with(compiler: Any) -> None:
    """From now on the decorators are those of a compiler, `accumulus.native.lowering`; before a kernel is imported."""
    assert "accumulus.native.words" not in sys.modules, "what kernels import is there already, as Python"
    _COMPILER[:] = [compiler]


def compiled(function: _F) -> _F:
    """A function of a kernel. Its annotations are the types that it is compiled for."""
    return _COMPILER[0].compiled(function) if _COMPILER else function


def primitive(function: _F) -> _F:
    """A function that the compiler has code of its own for, by its name."""
    return _COMPILER[0].primitive(function) if _COMPILER else function
