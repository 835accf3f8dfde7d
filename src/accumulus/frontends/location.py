"""Positions in the user's code, for error messages.

The position is the innermost frame outside of this package and the array libraries. Python stores the columns of every
instruction, so that messages can quote the expression, and the called function can be looked up.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import opcode
import os
import re
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

#: Packages whose frames are not the user's, and whose own calls of NumPy are not recorded.
LIBRARIES: Final = frozenset(
    (
        *("casadi", "jax", "jaxlib", "llvmlite", "matplotlib", "mpmath", "numba", "numpy", "pandas", "pint", "scipy"),
        *("sklearn", "sympy", "torch", "xarray"),
    )
)
#: These packages, the standard library and this package: their objects hold no code of the user's.
_FOREIGN: Final = LIBRARIES | frozenset(sys.stdlib_module_names) | {"accumulus"}
#: Name of the function that runs the recorded function; frames outside of it are not recorded.
RECORDED: Final = "_recorded"
#: A name in a replacement field of a format, after its brace, a dot or a bracket.
_FIELD: Final = re.compile(r"[{.\[]([^\W\d]\w*)")
#: Flag of classes that are made while Python runs.
_HEAP: Final = 1 << 9
_IMPORT: Final = opcode.opmap["IMPORT_NAME"]
PACKAGE_DIRECTORY: Final = str(Path(__file__).parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class CodePosition:
    """A position in the user's code, with the instruction there if it is Python code."""

    file: str
    line: int
    function: str
    #: Source line without indentation; empty if there is no source.
    source: str
    #: A second line that underlines the expression in the source line.
    marks: str = ""
    #: Name of the instruction.
    instruction: str = ""
    #: Called object, if the position is a call whose callee can be looked up.
    callee: object = None
    #: Name of the library module that the user's code called directly; empty if there is none.
    library: str = ""

    def __str__(self) -> str:
        header = f"{self.file}, line {self.line}, in {self.function}"
        return f"{header}:\n    {self.source}\n{self.marks}" if self.source else f"{header}: "


@lru_cache(maxsize=1 << 16)
def is_foreign(module: str) -> bool:
    """Return True if a module name belongs to the standard library, this package or an array library."""
    return module.partition(".")[0] in _FOREIGN


def package_of(kind: type) -> str:
    """Return the name of the package or top-level module that defines a class; "None" if the class hides it.

    A class in text that `exec` runs without a module's name has that of the builtins.

    >>> scope = {}
    >>> exec("class Model: pass", scope)
    >>> scope["Model"].__module__, package_of(scope["Model"]), package_of(dict)
    ('builtins', 'None', 'builtins')
    """
    package = str(kind.__module__).partition(".")[0]
    return "None" if package == "builtins" and kind.__flags__ & _HEAP else package


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the code objects of all functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> frozenset[str]:
    """Return the names of globals and attributes in code and its inner functions.

    Text constants may be names as well, or paths of names as for `operator.attrgetter`, or formats.
    """
    codes = list(codes_in(code))
    names = set[str]().union(*[each.co_names for each in codes])
    for text in (constant for each in codes for constant in each.co_consts if isinstance(constant, str)):
        path = text.split(".")
        names.update([text, *path] if all(map(str.isidentifier, path)) else fields_in(text))
    return frozenset(names)


def fields_in(text: str) -> list[str]:
    """Return the names in the replacement fields of a format.

    >>> fields_in("{0.mass:.{digits}f} of {body[1].name!r}")
    ['mass', 'digits', 'body', 'name']
    """
    return _FIELD.findall(text) if "{" in text else []


@lru_cache(maxsize=4096)
def imports_in(code: CodeType) -> frozenset[str]:
    """Return the modules that ``import`` statements in code and its inner functions name, relative ones with dots.

    Names imported from a module are included as its submodules, which they may be.
    """
    found = set()
    for each in codes_in(code):
        if _IMPORT not in each.co_code[::2]:
            continue
        module, instructions = "", list(dis.get_instructions(each))
        for k, instruction in enumerate(instructions):
            if instruction.opname == "IMPORT_NAME":  # after instructions that load its level and its names
                module = "." * instructions[k - 2].argval + instruction.argval
                found.add(module)
            elif instruction.opname == "IMPORT_FROM":
                found.add(f"{module}{'' if module.endswith('.') else '.'}{instruction.argval}")
    return frozenset(found)


def cells(function: FunctionType) -> list[CellType]:
    """Return the closure cells of a function that have a value."""
    filled = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            _ = cell.cell_contents
            filled.append(cell)
    return filled


def dispatchers() -> frozenset[type]:
    """Return the types of functions compiled by ``numba.njit``, which are user code; empty if Numba is not loaded."""
    registry = sys.modules.get("numba.core.registry")
    return frozenset() if registry is None else frozenset({registry.CPUDispatcher})


def name_of(function: object) -> str:
    """Return a function's name; for a `Restructured`, a `NameOfCall` with the names of its numbers."""
    if isinstance(function, Restructured):
        return NameOfCall(name_of(function.function), function.names)
    return str(getattr(function, "__name__", type(function).__name__))


class NameOfCall(str):
    """The name of a function whose arguments are numbers in containers, with the path of each number."""

    def __new__(cls, name: str, names: Sequence[str]) -> NameOfCall:
        """Create the string with its names."""
        made = super().__new__(cls, name)
        made.names = tuple(names)
        return made

    names: tuple[str, ...]

    def __getnewargs__(self) -> tuple[str, tuple[str, ...]]:  # type: ignore[override]
        return str(self), self.names


def numbered(name: str, k: int) -> str:
    """Return a text for the argument at a position, from the name of its function.

    >>> numbered("f", 1), numbered(NameOfCall("f", ["argument 0 (x)['a']", "argument 0 (x)['b']"]), 1)
    ('argument 1 of f', "argument 0 (x)['b'] of f")
    """
    return f"{name.names[k] if isinstance(name, NameOfCall) else f'argument {k}'} of {name}"


def described(function: Callable[..., Any]) -> str:
    """Return a function's name, with its file and line if it has any."""
    function = function_of(function)
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"{getattr(function, '__qualname__', repr(function))}{where}"


def argument_name(function: Callable[..., Any], position: int) -> str:
    """Return a text for the argument at a position, with its name if it has one, or with its path in a container."""
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
    """Return True for a module of an array library; cached, since every scalar operation checks several frames.

    `contextlib` counts as a library: context managers run library code between frames of the same library.
    """
    return module.partition(".")[0] in LIBRARIES or module == "contextlib"


def user_position() -> CodePosition | None:
    """Return the innermost position of the running stack in the user's code; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    library = ""
    while frame is not None and in_library(frame):
        library = str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    innermost = frame
    while innermost is not None and _is_between(innermost):  # lines of the standard library do not help a user
        innermost = None if innermost.f_code.co_name == RECORDED and in_library(innermost) else innermost.f_back
    innermost = innermost or frame
    return None if innermost is None else _position(innermost, "" if library.startswith("accumulus") else library)


def error_position(traceback: TracebackType | None) -> CodePosition | None:
    """Return the position in the user's code that raised an error, directly or in a call; None if there is none."""
    entries = [entry for entry in user_entries(traceback) if not _is_between(entry.tb_frame)]
    return _position(entries[-1].tb_frame, "") if entries else None


def is_raised_by_user(traceback: TracebackType | None) -> bool:
    """Return True if a ``raise`` statement of the user's code raised the error."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (
        traceback is not None
        and not _is_between(traceback.tb_frame)
        and opcode.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]].startswith(("RAISE", "RERAISE"))
    )


def _is_between(frame: FrameType) -> bool:
    """Return True if a frame belongs to a library, this package or the standard library."""
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return in_library(frame) or (module in sys.stdlib_module_names and module != "__main__")


#: Code of libraries by its identity: every operation that is recorded passes some ten frames of it.
_LIBRARY_CODE: Final[dict[int, CodeType]] = {}


def user_line() -> frozenset[tuple[str, int]]:
    """Return the file and line of the innermost user frame, quickly, as a set of one pair; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if _LIBRARY_CODE.get(id(code)) is not code:
            if not is_library_code(code, frame.f_globals):
                return frozenset({(code.co_filename, frame.f_lineno)})
            _LIBRARY_CODE[id(code)] = code
        frame = frame.f_back
    return frozenset()


def user_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return `traceback` reduced to frames outside of libraries and this package."""
    reduced: TracebackType | None = None
    for entry in reversed(list(user_entries(traceback))):
        reduced = TracebackType(reduced, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return reduced


def user_entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of `traceback` outside of libraries and this package, outermost first."""
    while traceback is not None:
        if not in_library(traceback.tb_frame):
            yield traceback
        traceback = traceback.tb_next


def _position(frame: FrameType, library: str) -> CodePosition:
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
    return CodePosition(code.co_filename, line, code.co_name, source, marks, instruction, callee, library)


def _expression(code: CodeType, instruction: int, frame: FrameType) -> tuple[str, int, int]:
    """Return the source of an instruction, its first column in its first line, and its end column in its last line."""
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
        # attribute lookups run no user code only for modules and plain arrays
        callee = getattr(callee, name, None) if type(callee) in (ModuleType, np.ndarray) else None
    if isinstance(callee, FunctionType) and callee.__code__.co_filename.startswith(PACKAGE_DIRECTORY):
        return getattr(callee, "__wrapped__", callee)  # the original function behind a replacement
    return callee
