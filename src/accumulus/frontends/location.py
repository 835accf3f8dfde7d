"""Positions in the user's code where something cannot be recorded.

The position is the innermost frame outside this package and the array libraries. Python stores the columns of every
instruction, so the message quotes the expression, and the called function can be looked up.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import opcode
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, Final

import numpy as np

from accumulus.frontends.calls import Restructured, function_of

#: Packages whose frames are not the user's, and whose own calls of NumPy are left alone.
LIBRARIES: Final = frozenset(
    (
        *("casadi", "jax", "jaxlib", "llvmlite", "matplotlib", "mpmath", "numba", "numpy", "pandas", "pint", "scipy"),
        *("sklearn", "sympy", "torch", "xarray"),
    )
)
#: The same and the standard library: their objects hold nothing of the user's.
_FOREIGN: Final = LIBRARIES | frozenset(sys.stdlib_module_names) | {"accumulus"}
#: Name of the function that runs the recorded function: its callers are not recorded.
RECORDED: Final = "_recorded"
PACKAGE_DIRECTORY: Final = str(Path(__file__).parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the user's code; of Python code, the instruction there."""

    file: str
    line: int
    function: str
    #: The line, without its indentation; empty where there is no source.
    source: str
    #: A second line that marks the expression in the first.
    marks: str = ""
    #: Name of the instruction.
    instruction: str = ""
    #: The callee, if the place is a call whose callee can be looked up.
    callee: object = None
    #: Module of the library code that it called, directly; empty if there is none.
    library: str = ""

    def __str__(self) -> str:
        header = f"{self.file}, line {self.line}, in {self.function}"
        return f"{header}:\n    {self.source}\n{self.marks}" if self.source else f"{header}: "


@lru_cache(maxsize=1 << 16)
def is_foreign(module: str) -> bool:
    """Return True if a module, by its name, is of the standard library, this package or an array library."""
    return module.partition(".")[0] in _FOREIGN


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code, and that of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> frozenset[str]:
    """Return names of globals and attributes in code and in the functions that it defines; text may be names, too."""
    codes = list(codes_in(code))
    texts = [text for each in codes for text in each.co_consts if isinstance(text, str) and text.isidentifier()]
    return frozenset(texts).union(*[each.co_names for each in codes])


def cells(function: FunctionType) -> list[CellType]:
    """Return the variables that a function closes over, without those that have no value yet."""
    filled = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            _ = cell.cell_contents
            filled.append(cell)
    return filled


def dispatchers() -> frozenset[type]:
    """Return the types of functions compiled by ``numba.njit``, the user's code; none if Numba is not loaded."""
    registry = sys.modules.get("numba.core.registry")
    return frozenset() if registry is None else frozenset({registry.CPUDispatcher})


def name_of(function: object) -> str:
    """Return a function's name."""
    if isinstance(function, Restructured):
        return NameOfCall(name_of(function.function), function.names)
    return str(getattr(function, "__name__", type(function).__name__))


class NameOfCall(str):
    """The name of a function whose arguments are numbers in containers, with how to get to each of them."""

    def __new__(cls, name: str, names: Sequence[str]) -> NameOfCall:
        """Make the string, and give it the names."""
        made = super().__new__(cls, name)
        made.names = tuple(names)
        return made

    names: tuple[str, ...]

    def __getnewargs__(self) -> tuple[str, tuple[str, ...]]:  # type: ignore[override]
        return str(self), self.names


def numbered(name: str, k: int) -> str:
    """Return the name of the argument at a position, for messages, from the function's name.

    >>> numbered("f", 1), numbered(NameOfCall("f", ["argument 0 (x)['a']", "argument 0 (x)['b']"]), 1)
    ('argument 1 of f', "argument 0 (x)['b'] of f")
    """
    return f"{name.names[k] if isinstance(name, NameOfCall) else f'argument {k}'} of {name}"


def described(function: Callable[..., Any]) -> str:
    """Return a function's name, with file and line where it has any."""
    function = function_of(function)
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"{getattr(function, '__qualname__', repr(function))}{where}"


def argument_name(function: Callable[..., Any], position: int) -> str:
    """Return the argument at a position, with its name if it has one; the name of a number in an argument."""
    if isinstance(function, Restructured):
        return function.names[position]
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return f"argument {position}" + (f" ({names[position]})" if position < len(names) else "")


def in_library(frame: FrameType) -> bool:
    """Return True if `frame` belongs to this package or to an array library."""
    return is_library_code(frame.f_code, frame.f_globals)


def is_library_code(code: CodeType, scope: Mapping[str, object]) -> bool:
    """Return True if code with these global variables belongs to this package or to an array library."""
    return code.co_filename.startswith(PACKAGE_DIRECTORY) or _is_of_library(str(scope.get("__name__", "")))


@cache
def _is_of_library(module: str) -> bool:
    """Return True for a module of an array library; asked for every frame around every scalar operation.

    So is that of context managers, by which libraries are called from their own code, never from a user's.
    """
    return module.partition(".")[0] in LIBRARIES or module == "contextlib"


def user_place() -> Place | None:
    """Return the innermost place of the running stack that is the user's; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    library = ""
    while frame is not None and in_library(frame):
        library = str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    innermost = frame
    while innermost is not None and _is_between(innermost):  # the standard library's own lines say nothing to a user
        innermost = None if innermost.f_code.co_name == RECORDED and in_library(innermost) else innermost.f_back
    innermost = innermost or frame
    return None if innermost is None else _place(innermost, "" if library.startswith("accumulus") else library)


def place_of_error(traceback: TracebackType | None) -> Place | None:
    """Return the place of the user's code that raised an error, itself or in a call."""
    entries = [entry for entry in user_entries(traceback) if not _is_between(entry.tb_frame)]
    return _place(entries[-1].tb_frame, "") if entries else None


def is_raised_by_user(traceback: TracebackType | None) -> bool:
    """Return True if an error comes from a statement ``raise`` of the user's code."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (
        traceback is not None
        and not _is_between(traceback.tb_frame)
        and opcode.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]].startswith(("RAISE", "RERAISE"))
    )


def _is_between(frame: FrameType) -> bool:
    """Return True if a frame is of a library, or of the standard library."""
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return in_library(frame) or (module in sys.stdlib_module_names and module != "__main__")


def user_line() -> frozenset[tuple[str, int]]:
    """Return the file and line of that place, quickly; none if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_code(frame.f_code, frame.f_globals):
        frame = frame.f_back
    return frozenset() if frame is None else frozenset({(frame.f_code.co_filename, frame.f_lineno)})


def user_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return `traceback` reduced to the frames of the user's code."""
    reduced: TracebackType | None = None
    for entry in reversed(list(user_entries(traceback))):
        reduced = TracebackType(reduced, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return reduced


def user_entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of `traceback` in the user's code, outermost first."""
    while traceback is not None:
        if not in_library(traceback.tb_frame):
            yield traceback
        traceback = traceback.tb_next


def _place(frame: FrameType, library: str) -> Place:
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line, frame.f_globals)
    source = text.strip()
    expression, start, end = _expression(code, frame.f_lasti, frame)
    marks = ""
    if expression and "\n" not in expression and expression != source:
        indentation = len(text) - len(text.lstrip())
        marks = f"    {' ' * (start - indentation)}{'^' * (end - start)}\n"
    instruction = opcode.opname[code.co_code[frame.f_lasti]]
    callee = _callee(expression or source, frame)
    return Place(code.co_filename, line, code.co_name, source, marks, instruction, callee, library)


def _expression(code: CodeType, instruction: int, frame: FrameType) -> tuple[str, int, int]:
    """Return the source of an instruction, and the columns between which it stands if it is on one line."""
    first, last, start, end = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if first is None or last is None or start is None or end is None:
        return "", 0, 0
    lines = [linecache.getline(code.co_filename, number, frame.f_globals).encode() for number in range(first, last + 1)]
    columns = len(lines[0][:start].decode(errors="replace")), len(lines[-1][:end].decode(errors="replace"))
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace"), *columns


def _callee(expression: str, frame: FrameType) -> object:
    """Return the callee of `expression` in the frame, without running anything; None if it is not a plain call."""
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(node, ast.Call):
        return None
    names: list[str] = []
    function = node.func
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return None
    callee: object = None
    for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
        if function.id in scope:
            callee = scope[function.id]
            break
    for name in reversed(names):
        # getting an attribute runs nothing of the user's only for modules and plain arrays
        callee = getattr(callee, name, None) if type(callee) in (ModuleType, np.ndarray) else None
    if isinstance(callee, FunctionType) and callee.__code__.co_filename.startswith(PACKAGE_DIRECTORY):
        return getattr(callee, "__wrapped__", callee)  # which a replacement stands for while something is recorded
    return callee
