"""Decorators of kernel functions; they take effect only in the process that compiles a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
#: The compiler, in a process that compiles kernels; else empty.
_COMPILER: Final[list[Any]] = []


def compile_with(compiler: Any) -> None:
    """Apply the decorators of a compiler, `accumulus.native.lowering`, and import all kernels again.

    Modules that call a kernel import its constants and its state, so it may have been imported as Python before.
    """
    for name in [name for name in sys.modules if ".compiled." in name or name == "accumulus.native.words"]:
        del sys.modules[name]
    _COMPILER[:] = [compiler]


def compiled(function: _F) -> _F:
    """Compile a function of a kernel for the types of its annotations; leave it as Python outside the compiler."""
    return _COMPILER[0].compile_function(function) if _COMPILER else function


def primitive(function: _F) -> _F:
    """Replace a function by the compiler's own code of this name; leave it as Python outside the compiler."""
    return _COMPILER[0].code_of_primitive(function) if _COMPILER else function
