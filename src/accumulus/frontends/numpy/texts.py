"""Conversion of traced values to text: free if only displayed, guarded if rounded, else refused.

Code may compare text, look it up in a dict, or read a number from it. Making text is therefore a decision, unless the
text can only be displayed. This is the case if `logging` or a similar module makes it; if it is made directly inside of
a call of ``print``, of a logger or of ``warnings.warn``; or inside of ``raise`` or ``assert`` where nothing catches
errors. The source of the running instruction shows which case applies; without source, only a plain print statement
counts.

Formatting is monotonic, so numbers with the same rounded text form an interval, which is the guard.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import struct
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from types import FrameType, ModuleType
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE, no_number, refuse
from accumulus.frontends.decisions import keep, point_at, truth, values_at_point
from accumulus.frontends.inner import InnerTape
from accumulus.frontends.location import in_library
from accumulus.frontends.numpy.operands import Operand, concrete, depends

#: Modules that only display their arguments.
_SHOWING: Final = frozenset(
    (
        *("IPython", "_pytest", "bdb", "cmd", "code", "debugpy", "doctest", "ipykernel", "logging", "loguru", "pdb"),
        *("pydevd", "rich", "structlog", "tqdm", "traceback", "unittest", "warnings"),
    )
)
#: Methods that convert objects to text; their callers determine the use of the text.
_WRITING: Final = frozenset(("__format__", "__repr__", "__str__"))
#: Functions that make text, and methods of strings that return strings.
_MAKERS: Final = (str, repr, format, ascii, np.array_str, np.array_repr, np.array2string)
_METHODS: Final = frozenset(("center", "format", "format_map", "join", "ljust", "lower", "rjust", "strip", "upper"))
#: Functions and methods of `logging` that emit a record.
_LOGGING: Final = frozenset(("critical", "debug", "error", "exception", "fatal", "info", "log", "warn", "warning"))
#: Expressions, other than calls, that pass on text inside of them.
_CARRIERS: Final = (
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.keyword),
    *(ast.GeneratorExp, ast.ListComp, ast.IfExp),
)
INFINITY_BITS: Final = 0x7FF0000000000000

ALL_DIGITS: Final = (
    "A value that depends on the function's arguments is converted to text with all its digits here. Other "
    'arguments give other text, so code that uses the text cannot be recorded. Round the value, as f"{x:.3f}" '
    "does: the recording then holds as long as the text is the same. Within print(…), calls of a logger, and "
    "raise, any text is allowed, since it decides nothing there; or make the argument static (static_argnums)."
)


def formatted(value: Operand, specification: str) -> str:
    """Return the formatted value at the given point; keep the text as a guard if code may depend on it.

    Raises:
        TraceError: if the recording has no point.
        ValueError, TypeError: for specifications that Python's floats do not accept.
    """
    reference = value.entries
    if not depends(value):
        return format(np.asarray(concrete(value)).item(), specification)
    if not isinstance(reference, int):
        raise TypeError(f"unsupported format string passed to {type(value).__name__}.__format__: {specification!r}")
    point = point_at(value.tape, np.array(reference))
    if point is None:
        raise no_number("format")
    shown = is_shown()
    if value.boolean:
        return format(bool(point) if shown else truth(value.tape, reference), specification)
    text = format(point.item(), specification)
    if not shown:
        _guard(value.tape, reference, lambda number: format(number, specification))
    return text


def in_full(value: Operand, name: str, how: Callable[[Any], str] = str) -> str:
    """Return the name of a traced value if the text can only be displayed.

    Raises:
        TraceError: if code may depend on the text.
    """
    if ACTIVE.tape is None or is_shown():
        return name
    if not depends(value):
        return how(concrete(value))
    if value.boolean and how is str and isinstance(value.entries, int):
        return str(truth(value.tape, value.entries))
    error = refuse(ALL_DIGITS)
    if ACTIVE.decisions is not None and not isinstance(ACTIVE.tape, InnerTape):
        # code that catches the error, as `reprlib` does, takes another path: the recording holds only for these numbers
        references = np.ravel(value.entries)
        pairs = zip(references, values_at_point(value.tape, references), strict=True)
        keep(value.tape, np.array([value.tape.apply("equal", r, value.tape.constant(x)) for r, x in pairs]), "text")
    raise error


def printed_number(value: Operand) -> float | None:
    """Return the number at the given point if ``%`` formats text that can only be displayed; else None."""
    if ACTIVE.decisions is None or not isinstance(value.entries, int) or not is_shown(by_percent=True):
        return None
    point = point_at(value.tape, np.array(value.entries))
    return None if point is None else float(point)


def _guard(tape: Any, reference: int, text: Callable[[float], str]) -> None:
    """Keep as a guard that the text of a number is unchanged."""
    number = float(values_at_point(tape, np.array(reference)))
    zero = tape.constant(0.0)
    if number == 0.0:  # zeros of both signs are equal, but have different texts
        sign = tape.apply("divide", tape.constant(1.0), reference)
        sides = (sign, zero) if np.signbit(number) else (zero, sign)
        conditions = [tape.apply("less", *sides), tape.apply("equal", reference, zero)]
    elif np.isnan(number):
        conditions = [tape.apply("not_equal", reference, reference)]
    else:
        lower, upper = map(tape.constant, same_text(number, text))
        conditions = [tape.apply("less_equal", lower, reference), tape.apply("less_equal", reference, upper)]
    keep(tape, np.array(conditions), repr(text(number)))


def same_text(number: float, text: Callable[[float], str]) -> tuple[float, float]:
    """Return the smallest and the largest number with the same text and sign as a nonzero number.

    >>> same_text(1.26, lambda number: f"{number:.1f}")
    (1.2500000000000002, 1.3499999999999999)
    """
    sign, expected, ends = -1.0 if number < 0 else 1.0, text(number), []

    def at(bits: int) -> float:
        return sign * float(struct.unpack("<d", struct.pack("<q", bits))[0])

    for outside in (0, INFINITY_BITS + 1):  # positive floats have the order of their bits
        (inside,), beyond = struct.unpack("<q", struct.pack("<d", abs(number))), outside
        while abs(beyond - inside) > 1:
            middle = (inside + beyond) // 2
            inside, beyond = (middle, beyond) if text(at(middle)) == expected else (inside, middle)
        ends.append(at(inside))
    return min(ends), max(ends)


def is_shown(by_percent: bool = False) -> bool:
    """Return True if the text being made can only be displayed; with `by_percent`, only if ``%`` makes it."""
    frame: FrameType | None = sys._getframe(1)
    returned = ""
    while frame is not None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in _SHOWING or (in_library(frame) and dis.opname[code.co_code[frame.f_lasti]].startswith("FORMAT")):
            return True  # the latter formats an error message
        if not (in_library(frame) or module in sys.stdlib_module_names or code.co_name in _WRITING):
            verdict = _fate(frame, returned, by_percent)
            if verdict is not None:
                return verdict
            returned, by_percent = code.co_name, False
        frame = frame.f_back
    return not by_percent


def _fate(frame: FrameType, returned: str, by_percent: bool) -> bool | None:
    """Return True if the running instruction can only display the text; None if it returns the text to the caller.

    Args:
        frame: frame that makes the text.
        returned: name of the function that returns the text to this instruction, or an empty text.
        by_percent: if True, the text is made by the % operator.
    """
    path = _path(frame)
    if path is None:
        return not by_percent and _only_prints(frame)
    node = path.pop()
    if by_percent and not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
        return False
    if isinstance(node, ast.Call):
        if _shows(node, frame):
            return True
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if not (_makes(node, frame) or name == returned):
            return False
    elif not isinstance(node, _CARRIERS):
        return False
    while path:
        child, node = node, path.pop()
        match node:
            case ast.Return():
                return None
            case ast.Raise() | ast.Assert():
                return not ACTIVE.trying and child is not getattr(node, "test", None)
            case ast.Call():
                if _shows(node, frame):
                    return True
                if not (_makes(node, frame) or isinstance(path[-1], ast.Raise)):
                    return False
            case ast.Attribute() if node.attr in _METHODS:
                pass
            case ast.IfExp() if child is node.test:
                return False
            case ast.GeneratorExp() | ast.ListComp() if child is not node.elt:
                return False
            case _ if not isinstance(node, _CARRIERS):
                return False
    return False


def _shows(call: ast.Call, frame: FrameType) -> bool:
    """Return True if a call only displays its arguments."""
    callee = _looked_up(call.func, frame)
    if callee is print:
        files = [each.value for each in call.keywords if each.arg not in ("sep", "end", "flush")]
        return sys.stdout is ACTIVE.console and all(ast.unparse(f) in ("sys.stderr", "sys.stdout") for f in files)
    name = getattr(callee, "__name__", "")
    return callee is warnings.warn or (getattr(callee, "__module__", "") == "logging" and name in _LOGGING)


def _makes(call: ast.Call, frame: FrameType) -> bool:
    """Return True if a call makes text from its arguments."""
    if not isinstance(call.func, ast.Attribute):
        return _looked_up(call.func, frame) in _MAKERS
    text = call.func.value
    is_text = isinstance(text, ast.JoinedStr) or isinstance(
        text.value if isinstance(text, ast.Constant) else _looked_up(text, frame), str
    )
    return is_text and call.func.attr in _METHODS


def _looked_up(node: ast.expr, frame: FrameType) -> object:
    """Return the value of a name or an attribute without running user code; None if unknown."""
    if isinstance(node, ast.Name):
        scopes = (frame.f_locals, frame.f_globals, vars(builtins))
        return next((scope[node.id] for scope in scopes if node.id in scope), None)
    owner = _looked_up(node.value, frame) if isinstance(node, ast.Attribute) else None
    if owner is None or not isinstance(node, ast.Attribute):
        return None
    look_up: Any = getattr if type(owner) is ModuleType else inspect.getattr_static
    return look_up(owner, node.attr, None)


def _path(frame: FrameType) -> list[ast.AST] | None:
    """Return the syntax-tree nodes around the running instruction, outermost first; None without source."""
    code = frame.f_code
    span = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    if not lines or None in span:
        return None
    try:
        path: list[Any] = [_tree("".join(lines))]
    except (SyntaxError, RecursionError, ValueError):
        return None
    first, last, start, end = span
    while inner := [n for n in _children(path[-1]) if (n.lineno, n.col_offset) <= (first, start)]:
        inner = [n for n in inner if (last, end) <= (n.end_lineno, n.end_col_offset)]
        if not inner:
            break
        path.append(inner[0])
    while isinstance(path[-1], ast.Constant):  # in Python 3.11 all parts of an f-string have its position
        path.pop()
    return path


@lru_cache(maxsize=16)
def _tree(source: str) -> ast.AST:
    return ast.parse(source)


def _children(node: ast.AST) -> list[Any]:
    """Return the nearest descendants of a node that have a position."""
    parts = ast.iter_child_nodes(node)
    return [child for inner in parts for child in ([inner] if hasattr(inner, "lineno") else _children(inner))]


def _only_prints(frame: FrameType) -> bool:
    """Return True if the running instruction is in a statement that only calls ``print``."""
    statement: list[dis.Instruction] = []
    reached, depth = False, 0
    for each in dis.get_instructions(frame.f_code):
        statement.append(each)
        reached |= each.offset == frame.f_lasti
        depth += dis.stack_effect(each.opcode, each.arg if each.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        if depth <= 0 or each.opname.startswith(("JUMP", "POP_JUMP", "RETURN", "STORE")):
            if reached:
                break
            statement, depth = [], 0
    names = [each.opname for each in statement]
    loads = [each.argval for each in statement if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    calls = [name for name in names if name.startswith(("CALL", "LOAD_METHOD", "KW_NAMES", "STORE", "SEND"))]
    is_print = frame.f_globals.get("print", print) is print and sys.stdout is ACTIVE.console
    return is_print and names[-1:] == ["POP_TOP"] and loads[:1] == ["print"] and calls == ["CALL"]
