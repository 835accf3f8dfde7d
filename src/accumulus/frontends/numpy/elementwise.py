"""Table of universal functions: one row each, from NumPy's name to operations on the tape.

Operations of `accumulus.tape.operations` are used directly; the others are formulas of these. Formulas for SciPy's
functions are in `accumulus.frontends.scipy.special_rows`. Formulas agree with NumPy up to rounding, and ``x % y`` and
``x // y`` to the last bit. However, ``copysign`` and ``heaviside`` ignore the sign of a zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import make
from accumulus.frontends.numpy.operands import entries_of, map_references, of_kind
from accumulus.frontends.numpy.scalars import Traced, TracedBoolean, TracedScalar
from accumulus.frontends.numpy.table import load_rows
from accumulus.tape.operations import BY_NAME, INFINITY, OPERATIONS
from accumulus.tape.partials import SERIES, removable
from accumulus.tape.scipy_rows import ROWS
from accumulus.tape.tape import Tape

Interval = tuple[float, float]
REAL: Final[Interval] = (-INFINITY, INFINITY)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One universal function.

    `bind` returns, for a tape, a function from references to a reference. `domain` has the intervals from which tests
    draw arguments. `of_booleans` names the row to use if all arguments are truth values, since NumPy defines true +
    true as true. `strict` refuses reals instead of truth values. `identity` is the result of a reduction of no entries.
    """

    name: str
    bind: Callable[[Tape], Callable[..., int]]
    domain: tuple[Interval, ...] = (REAL,)
    takes_boolean: bool = False
    gives_boolean: bool = False
    of_booleans: str | None = None
    strict: bool = False
    identity: float | None = None


#: Rows of one of several results, or of a part of a complex number, which are no universal functions.
_PARTS: Final = frozenset(row.name for row in ROWS if row.result is not None)

# Rows of the tape's table ----------------------------------------------------------------------------------------


def _of_the_table() -> dict[str, Elementwise]:
    rows = {}
    for row in OPERATIONS:
        if not row.arity or row.name == "select" or "order" in row.arguments or row.numpy.startswith("_"):
            continue
        rows[row.name if row.name in _PARTS else row.ufunc] = Elementwise(
            row.ufunc,
            _builder_of(row.name),
            row.domain,
            takes_boolean=row.arguments[0] == "boolean",
            gives_boolean=row.result == "boolean",
            of_booleans=row.of_truths,
            identity=row.identity,
        )
    return rows


def _builder_of(name: str) -> Callable[[Tape], Callable[..., int]]:
    if hasattr(Tape, name):
        builder: Callable[[Tape], Callable[..., int]] = attrgetter(name)
        return builder
    return lambda tape: partial(tape.apply, name)


# Rows composed of operations -----------------------------------------------------------------------------------------


def operation(name: str) -> Callable[..., Any]:
    """Return the tape's operation `name` as a function of traced scalars and numbers, for formulas."""
    kind = TracedBoolean if BY_NAME[name].result == "boolean" else TracedScalar

    def call(*arguments: Any) -> Any:
        tape: Tape = next(argument.tape for argument in arguments if isinstance(argument, Traced))
        return kind(tape, tape.apply(name, *(int(entries_of(tape, argument)[0]) for argument in arguments)))

    return call


_abs, _floor, _ceil, _fmod, _exp, _exp2, _log, _log1p, _maximum, _minimum, _select, _attach = map(
    operation,
    [
        *("abs", "floor", "ceil", "fmod", "exp", "exp2", "log", "log1p", "maximum", "minimum", "select"),
        "attach",
    ],
)
_and, _or, _not = map(operation, ["logical_and", "logical_or", "logical_not"])


def near_zero(
    series: str | Callable[[int], float],
    x: Any,
    closed: Callable[[Any], Any],
    radius: float,
    *,
    even: bool = True,
    factor: Any = None,
) -> Any:
    """Return a function of a scalar by its power series for |x| < radius, and by its closed form elsewhere.

    `series` has the coefficients, or names them. `closed` receives the truth value of |x| < radius; see
    `accumulus.tape.partials`.
    """
    tape = x.tape

    def written(near: int) -> int:
        return int(closed(TracedBoolean(tape, near)).reference)

    times = None if factor is None else factor.reference
    coefficient = SERIES[series] if isinstance(series, str) else series
    return TracedScalar(tape, removable(tape, x.reference, coefficient, written, radius, even=even, factor=times))


def is_nan(x: Any) -> Any:
    """Return a truth value: a number is NaN."""
    return x != x  # noqa: PLR0124


def _trunc(x: Any) -> Any:
    return _select(x < 0, _ceil(x), _floor(x))


def _on_the_other_side(remainder: Any, y: Any) -> Any:
    """Return a truth value: the remainder of fmod has the opposite sign of y, so the floor is smaller by one."""
    return _or(_and(remainder < 0, 0 < y), _and(0 < remainder, y < 0))


def _remainder(x: Any, y: Any) -> Any:
    """Return x % y, rounded as in NumPy: the remainder of fmod, plus y if the signs differ."""
    remainder = _fmod(x, y)
    value = remainder + _select(_on_the_other_side(remainder, y), y, 0.0)
    # a zero remainder has the sign of y, which does not affect derivatives
    signed = _select(y < 0, -_abs(value), value)
    return value if signed.reference == value.reference else _attach(signed, value)


def _floor_divide(x: Any, y: Any) -> Any:
    """Return x // y, rounded as in NumPy: x less the remainder is a multiple of y, and is divided instead of x."""
    remainder = _fmod(x, y)
    quotient = (x - remainder) / y - _select(_on_the_other_side(remainder, y), 1.0, 0.0)
    below = _floor(quotient)
    whole = _select(0.5 < quotient - below, below + 1.0, below)
    # take the sign of a zero, and the result of a division by zero, from x / y
    return _select(_or(quotient == 0, y == 0), _floor(x / y), whole)


def rint(x: Any) -> Any:
    """Return the nearest whole number, the even one if there are two."""
    below = _floor(x)
    above_half = x - below  # NaN for infinite x, which is then returned unchanged
    # ceil instead of sums with 1, which would lose the sign of zeros
    return _select(0.5 < above_half, _ceil(x), _select(above_half == 0.5, 2 * _ceil(below / 2), below))


def logaddexp(x: Any, y: Any, exp: Callable[[Any], Any], unit: float) -> Any:
    """Return max + log1p(exp(min - max)); a single comparison selects both, so that partials at x = y are ½."""
    first = y <= x
    larger, difference = _select(first, x, y), _select(first, y - x, x - y)
    equal_infinities = _and(x == y, _abs(x) == math.inf)  # their difference is NaN
    return _select(equal_infinities, x, larger + unit * _log1p(exp(difference)))


_POSITIVE: Final[Interval] = (0.0, INFINITY)
_UNIT: Final[Interval] = (0.0, 1.0)
_DEGREE: Final = math.pi / 180.0

#: Formulas and the domains of their arguments.
_COMPOSED: Final[dict[str, tuple[Callable[..., Any], tuple[Interval, ...]]]] = {
    "square": (lambda x: x * x, (REAL,)),
    "reciprocal": (lambda x: 1.0 / x, (REAL,)),
    "positive": (lambda x: x, (REAL,)),
    "conjugate": (lambda x: x, (REAL,)),
    "deg2rad": (lambda x: x * _DEGREE, (REAL,)),
    "rad2deg": (lambda x: x * (1.0 / _DEGREE), (REAL,)),
    "floor_divide": (_floor_divide, (REAL, REAL)),
    "remainder": (_remainder, (REAL, REAL)),
    "trunc": (_trunc, (REAL,)),
    "rint": (rint, (REAL,)),
    "logaddexp": (lambda x, y: logaddexp(x, y, _exp, 1.0), (REAL, REAL)),
    "logaddexp2": (lambda x, y: logaddexp(x, y, _exp2, 1.0 / math.log(2.0)), (REAL, REAL)),
    "fmax": (lambda x, y: _select(is_nan(x), y, _select(is_nan(y), x, _maximum(x, y))), (REAL, REAL)),
    "fmin": (lambda x, y: _select(is_nan(x), y, _select(is_nan(y), x, _minimum(x, y))), (REAL, REAL)),
    "greater": (lambda x, y: x > y, (REAL, REAL)),
    "greater_equal": (lambda x, y: x >= y, (REAL, REAL)),
    "isnan": (is_nan, (REAL,)),
    "isinf": (lambda x: _abs(x) == math.inf, (REAL,)),
    "isfinite": (lambda x: _abs(x) < math.inf, (REAL,)),
    "copysign": (lambda x, y: _select(y < 0, -_abs(x), _abs(x)), (REAL, REAL)),
    "heaviside": (
        lambda x, y: _select(x < 0, 0.0, _select(x > 0, 1.0, _select(x == 0, y, x))),
        (REAL, REAL),
    ),
    "logical_xor": (lambda x, y: _and(_or(x, y), _not(_and(x, y))), (_UNIT, _UNIT)),
}


def composed(name: str, formula: Callable[..., Any], domain: tuple[Interval, ...]) -> Elementwise:
    """Return the row of a formula for traced scalars."""
    boolean = name.startswith(("greater", "is", "logical"))
    kind = TracedBoolean if name.startswith("logical") else TracedScalar

    def bind(tape: Tape) -> Callable[..., int]:
        return lambda *references: formula(*(kind(tape, r) for r in references)).entries

    return Elementwise(name, bind, domain, takes_boolean=kind is TracedBoolean, gives_boolean=boolean)


def _tables() -> tuple[dict[str, Elementwise], dict[str, Elementwise], dict[str, Elementwise]]:
    rows = _of_the_table()
    rows |= {name: composed(name, *row) for name, row in _COMPOSED.items()}
    aliases = {"fabs": "absolute", "float_power": "power", "degrees": "rad2deg", "radians": "deg2rad"}
    rows |= {alias: replace(rows[name], name=alias) for alias, name in aliases.items()}
    bitwise = {"and": "and", "or": "or", "xor": "xor", "invert": "not"}
    for end, name in bitwise.items():
        alias = end if end == "invert" else f"bitwise_{end}"
        rows[alias] = replace(rows[f"logical_{name}"], name=alias, strict=True)
    # SciPy has its own universal functions with the same names as some of NumPy's
    scipys = [row.ufunc for row in OPERATIONS if row.numpy.startswith("special.") and row.name not in _PARTS]
    parts = {name: rows.pop(name) for name in _PARTS}
    shared = {name: rows.pop(name) for name in scipys if name in rows}
    shared |= {name: rows[name] for name in ("cbrt", "exp2", "expm1", "log1p")}
    return rows, shared, parts


#: Rows of NumPy's universal functions and of SciPy's, by name; and of parts of results of SciPy's.
ELEMENTWISE, SPECIAL, PARTS = _tables()
#: Rows of SciPy's functions whose first argument is a constant order.
OF_ORDER: Final[dict[str, Elementwise]] = {}
#: SciPy's functions of real numbers with complex results → rows of the real and the imaginary part of each.
COMPLEX_RESULTS: Final[dict[str, tuple[Elementwise, ...]]] = {}
#: Universal functions with several results → rows of all.
SEVERAL: Final[dict[str, tuple[str, ...]]] = {
    "divmod": ("floor_divide", "remainder"),
    "modf": ("fraction", "trunc"),
    **{
        function: tuple(row.name for row in ROWS if row.function == function and isinstance(row.result, int))
        for function in dict.fromkeys(row.function for row in ROWS if isinstance(row.result, int))
    },
}
ELEMENTWISE["fraction"] = composed("fraction", lambda x: x - _trunc(x), (REAL,))


def row_of(ufunc: np.ufunc) -> Elementwise | None:
    """Return the row of a universal function, without importing SciPy; None if it has none."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return ELEMENTWISE.get(name)
    return OF_ORDER.get(name) or SPECIAL.get(name) if _is_scipys(ufunc) else None


def complex_rows(ufunc: np.ufunc, *, of_complex: bool) -> Sequence[Elementwise]:
    """Return the rows of real and imaginary parts of SciPy's results for a complex argument, or for real ones, if any.

    Those for a complex argument take its real and imaginary part.
    """
    if not _is_scipys(ufunc):
        return ()
    name = ufunc.__name__
    parts = [PARTS.get(f"{name}_{part}") for part in ("re", "im")] if of_complex else COMPLEX_RESULTS.get(name, ())
    return [row for row in parts if row is not None]


def _is_scipys(ufunc: np.ufunc) -> bool:
    load_rows()
    special = sys.modules.get("scipy.special")
    return special is not None and getattr(special, ufunc.__name__, None) is ufunc


def apply(tape: Tape, row: Elementwise, operands: Sequence[Any]) -> Any:
    """Record a row on operands of any kind, which are broadcast, and return the result."""
    pairs = [entries_of(tape, operand) for operand in operands]
    if row.of_booleans is not None and all(boolean for _, boolean in pairs):
        row = ELEMENTWISE[row.of_booleans]
    if row.strict and not all(boolean for _, boolean in pairs):
        raise refuse("&, |, ^ and ~ combine booleans, such as x > 0; one operand is a number.")
    entries = [of_kind(tape, *pair, boolean=row.takes_boolean) for pair in pairs]
    return make(tape, map_references(tape, row.bind, entries), row.gives_boolean)


def apply_elementwise(tape: Tape, name: str, *operands: Any) -> Any:
    """Record an operation of the tape on real operands of any kind, which are broadcast, and return the result."""
    entries = [entries_of(tape, operand)[0] for operand in operands]
    return make(tape, map_references(tape, lambda tape: partial(tape.apply, name), entries))


def of_special(name: str) -> Callable[..., Any]:
    """Return a function of `scipy.special`; the call imports SciPy, which takes a tenth of a second."""

    def call(*arguments: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*arguments)

    return call
