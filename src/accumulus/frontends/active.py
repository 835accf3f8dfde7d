"""Current tape of each thread, and the errors for calls that cannot be recorded.

Creation functions such as ``np.zeros`` take no traced argument that could name the tape, so each thread has a current
tape. Recordings nest: a function may itself record another one.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import numpy as np

from accumulus.errors import TraceError
from accumulus.frontends.location import LIBRARIES, CodePosition, user_entries, user_position


class _Active(threading.local):
    #: Program or loop body that this thread records on; None if it records nothing.
    tape: Any = None
    #: Function that returns the position of the recorded code.
    position: Callable[[], CodePosition | None] = staticmethod(user_position)
    #: Last refusal, with the file and line that it names, if any. It is kept because NumPy and the user's code may
    #: catch a refusal and raise another error.
    refusal: tuple[TraceError, tuple[str, int] | None] | None = None
    #: Answers to decisions on values (`accumulus.frontends.decisions.Decisions`); None if they are refused.
    decisions: Any = None
    #: Number of merged branches being recorded. Inside of one, no decision can be kept as a guard.
    merging: int = 0
    #: Most recent tapes of loop bodies and nested functions in this recording.
    inner: Any = None
    #: `sys.stdout` at the start of the recording. The program may read text that is printed to any other stream.
    console: Any = None
    #: Number of enclosing blocks that catch errors. There, an error that `math` raises for a number changes the path.
    trying: int = 0
    #: True while an opaque function runs, whose code is not watched.
    is_opaque: bool = False
    #: The loop of Python that runs, if it may be recorded as one; see `accumulus.frontends.numpy.python_loops`.
    loop: Any = None
    #: Programs of derivatives that a function requests while its recording is compared with it; None outside.
    prepared: Any = None
    #: Functions that run on numbers to tell whether these raise an error of their recording, too; results do not count.
    explained: tuple[Any, ...] = ()


ACTIVE: Final = _Active()


@contextmanager
def recording_on(
    tape: Any,
    position: Callable[[], CodePosition | None] = user_position,
    *,
    in_body: bool = False,
    nested: bool = False,
    decisions: Any = None,
) -> Iterator[None]:
    """Record on `tape` in this thread, or not at all if it is None.

    Args:
        tape: tape to record on; None to stop recording.
        position: function that returns the position of the recorded code.
        in_body: if True, the code is one instance of a loop body.
        nested: if True, the code is a function whose derivatives are recorded as part of the enclosing code.
        decisions: answers to decisions on values; None to refuse decisions. Ignored if `in_body` or `nested`: the
            enclosing recording answers there.
    """
    before = vars(ACTIVE).copy()
    vars(ACTIVE).update(tape=tape, position=position, refusal=None)
    if (in_body or nested) and ACTIVE.inner is not None:
        ACTIVE.inner.append(tape)
    if not (in_body or nested):
        vars(ACTIVE).update(decisions=decisions, merging=0, trying=0, console=sys.stdout, is_opaque=False, loop=None)
    try:
        yield
    finally:
        vars(ACTIVE).clear()
        vars(ACTIVE).update(before)


@contextmanager
def sharing_programs() -> Iterator[None]:
    """Share the programs of equal recordings among derivatives in this thread.

    A function that differentiates another one makes new derivatives at each call, and each would be prepared anew.
    """
    before = ACTIVE.prepared
    ACTIVE.prepared = {} if before is None else before
    try:
        yield
    finally:
        ACTIVE.prepared = before


@contextmanager
def in_opaque() -> Iterator[None]:
    """Run code of an opaque function in this thread, without recording or watching it."""
    with recording_on(None):
        ACTIVE.is_opaque = True
        yield


class RecordAnewError(BaseException):
    """Signal that a function is recorded anew, with what is known of it now.

    It is not an `Exception`, so that the user's code does not catch it.
    """


class LoopFactError(RecordAnewError):
    """Signal that iterations of a loop of Python differ in a known way."""


class ZeroSignsError(RecordAnewError):
    """Signal that an operation depends on the signs of zeros, which the program does not keep."""


def refuse(message: str, kind: type[TraceError] = TraceError) -> TraceError:
    """Return an error of class `kind` with `message`, preceded by the user's line and its source."""
    position = ACTIVE.position()
    error = kind(message if position is None else f"{position}{message}")
    ACTIVE.refusal = error, None if position is None else (position.file, position.line)
    return error


def swallowed(error: Exception) -> TraceError | None:
    """Return the refusal that NumPy caught before it raised `error` on the same line or in a call from it."""
    module = type(error).__module__
    if ACTIVE.refusal is not None and isinstance(error, SystemError):
        return ACTIVE.refusal[0]  # compiled code called a function, and returned in spite of its error
    if ACTIVE.refusal is None or not (
        isinstance(error, TypeError | ValueError | IndexError)
        or module.startswith("_")
        or module.partition(".")[0] in LIBRARIES
    ):
        return None
    refusal, line = ACTIVE.refusal
    places = [(entry.tb_frame.f_code.co_filename, entry.tb_lineno) for entry in user_entries(error.__traceback__)]
    return refusal if line in places else None


# Calls that ended a recording ----------------------------------------------------------------------------------------
#
# When a recording ends, its tapes change their class. Traced values that outlive the recording then raise a refusal
# wherever they are used.

T = TypeVar("T")
#: Maximum number of inner tapes that a recording remembers, to end them with itself. More take memory; with fewer,
#: values of the oldest tapes are not refused when they are used later.
MOST_INNER: Final = 1000
ENDED: Final = (
    "A traced value is used here whose recording has ended: it was stored (in a global, an attribute, a list, a "
    "closure) while the function was recorded. Return it from the function, or compute it again from the arguments."
)


def _refused(tape: Any, name: str) -> Any:
    """Return the method `name` for a tape whose recording has ended; refuse all other attributes."""
    if name == "name":
        return lambda reference: f"t{reference}"
    raise refuse(ENDED)


@cache
def _ended(kind: Any) -> Any:
    """Return the subclass of `kind` for tapes whose recording has ended."""
    return type("EndedTape", (kind,), {"__slots__": (), "__getattribute__": _refused})


def has_ended(tape: object) -> bool:
    """Return True if the recording of a tape has ended."""
    return type(tape).__name__ == "EndedTape"


def ending(record: Callable[..., T]) -> Callable[..., T]:
    """Return a function that calls `record` with a tape, and then ends this tape and all tapes inside of it."""

    def recorded(tape: Any, **keywords: Any) -> T:
        around, ACTIVE.inner = ACTIVE.inner, deque(maxlen=MOST_INNER)
        try:
            return record(tape, **keywords)
        finally:
            for each in (tape, *ACTIVE.inner):
                kind: Any = type(each)
                each.__class__ = _ended(kind)
            ACTIVE.inner = around

    return recorded


# Refusals ------------------------------------------------------------------------------------------------------------
#
# Errors for code that needs the number or the truth of a traced value. Each names the cause and a replacement.

FILLING: Final = (
    "A value that depends on the function's arguments is stored in an array of plain numbers: the array was made "
    "outside of the function, by a method of such an array, or for integers or single precision, to which NumPy would "
    "round. Inside the function, np.array(M, float) makes a copy of an array M that can be filled, as do np.zeros and "
    "the like."
)


OWN_CODE: Final = (
    "pandas computes {} in its own code, which needs plain numbers, and the values depend on the function's arguments. "
    "Write the formula with NumPy's functions of series.to_numpy() or table.to_numpy(), such as series.to_numpy() @ x."
)


#: What to write instead of solvers that are not recorded, by the beginning of their name.
SOLVED: Final = {
    "scipy.optimize": "Equations are solved by acc.implicit(residual)(guess, …), or by scipy.optimize.root, "
    "least_squares, fsolve and brentq, which have derivatives. At a minimum of f the gradient is zero: solve "
    "acc.gradient(f) = 0 by these.",
    "scipy.integrate": "Integrals are taken by scipy.integrate.quad, and differential equations are solved by "
    "acc.odeint or scipy.integrate.solve_ivp at given times (t_eval), which have derivatives.",
}


#: NumPy's names for functions of `math`, and replacements for functions that NumPy lacks.
_RENAMED: Final = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "ceil": "ceil", "dist": "linalg.norm", "fsum": "sum", "pow": "power",
}  # fmt: skip
_WRITTEN: Final = {
    "erf": "scipy.special.erf", "erfc": "scipy.special.erfc",
    "remainder": "x - y * np.rint(x / y)",  # np.remainder is another
}  # fmt: skip


def no_number(kind: str = "float") -> TraceError:
    """Return the error for a traced value whose number is needed as `kind`: float, int, index, complex and so on."""
    position = user_position()
    callee = None if position is None else position.callee
    name = str(getattr(callee, "__name__", ""))
    if position is not None and position.library.startswith("pandas"):
        return refuse(OWN_CODE.format("this"))
    if kind not in ("float", "int"):
        return refuse(
            f"A plain number is needed here, and the value depends on the function's arguments. {ADVICE[kind]}"
        )
    if position is not None and position.instruction == "STORE_SUBSCR":
        return refuse(FILLING)
    needs = "needs a plain number, and its argument depends on the arguments of the function."
    if callee is not None and getattr(math, name, None) is callee:
        instead = _WRITTEN.get(name) or f"np.{_RENAMED.get(name, name)}"
        return refuse(f"math.{name} {needs} Write {instead} instead.")
    if isinstance(callee, type) and issubclass(callee, float | int | np.generic):
        return refuse(f"{name}() {needs} {ADVICE[kind]}")
    if isinstance(getattr(callee, "__self__", None), np.ndarray):
        return refuse(
            f"The method .{name} of a plain array {needs} Write np.{name}(array, …), or @ for a product of matrices; "
            "or make the array traced first, by np.array(…)."
        )
    if position is not None and position.library.startswith("scipy.sparse"):
        return refuse(
            "A sparse matrix takes plain numbers here, and this array depends on the arguments of the function. Write "
            "M @ x, which is recorded, M.toarray(), whose zeros cost nothing, or spsolve instead of an iteration."
        )
    if position is not None and (library := _library_of(callee) or _public(position.library)):
        recorded = next((text for module, text in SOLVED.items() if library.startswith(module)), None)
        return refuse(
            f"{library} {needs} "
            + (
                recorded
                or "Recorded are most functions of NumPy and SciPy that are called by their names or through their "
                "modules, not through another object or a table, and with arrays, np.array([…]), rather than lists of "
                "traced values: write the formula with those."
            )
        )
    return refuse(f"A plain number is needed here, and the value depends on the function's arguments. {ADVICE[kind]}")


#: Advice for each kind of number that code may ask for.
ADVICE: Final = {
    "float": "Leave the conversion out, use NumPy's functions, or make the argument static (static_argnums).",
    "int": "Leave the conversion out: np.floor, np.ceil, np.trunc and np.rint round and can be recorded; or make the "
    "argument static (static_argnums).",
    "index": "An index or the bound of a loop must be a constant: make the argument static (static_argnums), or write "
    "the number.",
    "complex": "complex() makes a plain number: write x + 1j * y, which is recorded.",
    "format": 'It has no value to format here: decisions are refused (guards="error"), or the code is recorded once '
    "for many points. Leave the format out, then its name is printed.",
    "digits": "The digits of a number that depends on the arguments are not recorded: make the argument static "
    "(static_argnums).",
    "hash": "It cannot be a key of a dict or set, or the argument of a cached function.",
}


def no_decision() -> TraceError:
    """Return the error for a decision on a traced value."""
    position = user_position()
    callee = None if position is None else position.callee
    source = "" if position is None else position.source
    if callee in (max, min):
        name = getattr(callee, "__name__", "")
        advice = f"Python's {name}() compares. Write np.{name}imum(a, b), or np.{name} of an array."
    elif callee is sorted:
        advice = "Sorting compares values, and the order would be fixed for all points, so it cannot be recorded."
    elif callee in (any, all):
        name = getattr(callee, "__name__", "")
        advice = f"Write np.{name} and choose with np.where(condition, a, b)."
    elif callee is not None and _library_of(callee):
        library = _library_of(callee)
        advice = (
            f"{library} received a list of traced values: pass an array, np.array([…])."
            if library.startswith("np.")
            else f"{library} cannot be recorded: write the formula with NumPy's functions."
        )
    elif source.startswith("while"):
        advice = "A loop must run a constant number of times: for … in range(constant), with np.where inside."
    elif source.startswith("assert"):
        advice = "Check the values outside of the function."
    elif position is not None and position.instruction == "CONTAINS_OP":
        advice = "`in` compares: write np.any(array == value), and choose with np.where."
    else:
        advice = (
            "Write np.where(condition, a, b), np.maximum or np.minimum, which record both branches; conditions are "
            "joined by & and |, negated by ~."
        )
    return refuse(f"A decision here depends on the arguments of the function. {advice}")


def _library_of(callee: object) -> str:
    """Return the public name of a function or class of an array library; empty for all other callees."""
    module = str(getattr(callee, "__module__", None) or "numpy" * isinstance(callee, np.ufunc))
    if module.partition(".")[0] not in LIBRARIES:
        return ""
    return f"{_public(module)}.{getattr(callee, '__name__', type(callee).__name__)}"


def _public(module: str) -> str:
    """Return the public part of a module's name."""
    return ".".join(
        "np" if segment == "numpy" else segment for segment in module.split(".") if not segment.startswith("_")
    )
