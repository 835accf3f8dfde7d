"""Functions that select values (where, clip), and functions of no other group (interp, linspace)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.decisions import truths
from accumulus.frontends.numpy.arrays import TracedArray, as_array, as_constant, make
from accumulus.frontends.numpy.elementwise import apply, apply_elementwise, composed, near_zero, operation
from accumulus.frontends.numpy.operands import (
    concrete,
    depends,
    entries_of,
    holds_complex,
    map_references,
    of_kind,
    references_of,
)
from accumulus.frontends.numpy.ordering import interpolated
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.numpy.table import CALLED, by_name, check_dtype, implements, unsupported
from accumulus.tape.partials import SERIES, terms
from accumulus.tape.tape import Tape

#: Maximum number of knots of a table for which all are compared at every point, if it is evaluated at up to
#: `FEW_PLACES` points; with more evaluations, any number. More knots take as many selects, fewer make each interval a
#: case of its own; more places make too many combinations of cases.
MOST_KNOTS: Final = 16
FEW_PLACES: Final = 4


@implements(np.where)
def _where(tape: Tape, condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return x where the condition holds, else y, entry by entry; both are evaluated at every point."""
    if x is None and y is None and ACTIVE.decisions is not None:
        return np.nonzero(truths(tape, references_of(tape, condition, boolean=True)))
    if x is None or y is None:
        raise refuse(unsupported(np.where))
    operands = [entries_of(tape, operand) for operand in (condition, x, y)]
    boolean = operands[1][1] and operands[2][1]
    kinds = (True, boolean, boolean)
    entries = [of_kind(tape, *operand, boolean=kind) for operand, kind in zip(operands, kinds, strict=True)]
    if boolean:
        return make(tape, map_references(tape, lambda body: partial(_select_boolean, body), entries), True)
    return make(tape, map_references(tape, lambda body: body.select, entries))


def _select_boolean(tape: Tape, condition: int, a: int, b: int) -> int:
    first = tape.logical_and(condition, a)
    return tape.logical_or(first, tape.logical_and(tape.logical_not(condition), b))


@implements(np.select)
def _record_select(tape: Tape, condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return the choice for the first condition that holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: {len(condlist)} conditions and {len(choicelist)} choices")
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = _where(tape, condition, choice, result)
    return result


@implements(np.piecewise)
def _piecewise(tape: Tape, x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Return each piece, a function or a number, where its condition holds; later pieces take precedence."""
    x = as_array(tape, x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) or np.ndim(condlist) > x.ndim else [condlist]
    pieces = [CALLED[0](piece)(x, *args, **kw) if callable(piece) else piece for piece in funclist]
    result = pieces.pop() if len(pieces) == len(conditions) + 1 else 0.0
    for condition, piece in zip(conditions, pieces, strict=True):
        result = _where(tape, condition, piece, result)
    return result


#: The universal function that the method `clip` of a plain array calls, by which it dispatches.
_CLIP: Final = sys.modules["numpy._core.umath"].clip


@implements(np.clip, _CLIP)
def _clip(tape: Tape, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **bounds: Any) -> Any:
    """Return values limited to the range from `a_min` to `a_max`; the upper bound takes precedence."""
    lower, upper = bounds.pop("min", a_min), bounds.pop("max", a_max)
    if bounds:
        raise refuse(f"np.clip: {', '.join(bounds)} is not recorded.")
    a = as_array(tape, a)
    a = a if lower is None else np.maximum(a, lower)
    return a if upper is None else np.minimum(a, upper)


@implements(np.unwrap)
def _unwrap(tape: Tape, p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2.0 * np.pi) -> Any:
    """Return phases without jumps of more than half a period; the subtracted periods have no derivatives."""
    lines, half = np.moveaxis(as_array(tape, p), axis, -1), period / 2.0
    steps = np.diff(lines)
    small = np.mod(steps + half, period) - half
    small = np.where((small == -half) & (steps > 0.0), small + period, small)
    corrections = np.where(np.absolute(steps) < (half if discont is None else discont), 0.0, small - steps)
    whole = np.concatenate([lines[..., :1], lines[..., 1:] + np.cumsum(corrections, axis=-1)], axis=-1)
    return np.moveaxis(whole, -1, axis)


def sine_by_argument(y: Any) -> Any:
    """Return sin(y) / y."""
    if not isinstance(y, Traced):
        return np.sinc(np.divide(y, np.pi))
    is_complex = getattr(y, "dtype", np.dtype(float)).kind == "c"
    return _sine_by_complex_argument(y) if is_complex else apply(y.tape, _SINE_BY_ARGUMENT, [y])


def _sine_by_complex_argument(y: Any) -> Any:
    near: Any = np.abs(y) < _RADIUS
    total: Any = 0.0
    square, safe = np.where(near, y * y, 0.0), np.where(near, 1.0, y)
    for each in reversed(terms(SERIES["sin(x)/x"], _RADIUS**2)):
        total = total * square + each
    return np.where(near, total, np.sin(safe) / safe)


def _sine_by_argument(y: Any) -> Any:
    def closed(near: Any) -> Any:
        safe = _select(near, 1.0, y)
        return _sin(safe) / safe

    return near_zero("sin(x)/x", y, closed, _RADIUS)


#: Magnitude of y from which the closed form of sin(y) / y is used. A larger one takes more terms of the series at every
#: point, a smaller one loses digits of higher derivatives to cancellation.
_RADIUS: Final = 2.0
_sin, _select = operation("sin"), operation("select")
_SINE_BY_ARGUMENT: Final = composed("sinc", _sine_by_argument, ((-np.inf, np.inf),))


@implements(np.round, np.around)
def _round(tape: Tape, a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Return values rounded to a number of decimals; halves are rounded to even."""
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return np.rint(as_array(tape, a) * scale) / scale
    return np.rint(as_array(tape, a) / scale) * scale


@implements(np.astype, constants=True)
def _astype(tape: Tape, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype)


@implements(np.nan_to_num)
def _nan_to_num(
    tape: Tape, x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Return values with NaN and infinities replaced, by default by 0 and the largest finite numbers."""
    if not copy:
        raise refuse("np.nan_to_num(…, copy=False) is not recorded: leave copy=False out.")
    x = as_array(tape, x)
    greatest = np.finfo(float).max
    x = np.where(x == np.inf, greatest if posinf is None else posinf, x)
    x = np.where(x == -np.inf, -greatest if neginf is None else neginf, x)
    return np.where(np.isnan(x), nan, x)


@implements(np.isclose)
def _isclose(tape: Tape, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return traced truth values: a and b differ by at most atol + rtol·|b|."""
    a, b = as_array(tape, a), as_array(tape, b)
    close = (abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


@implements(np.array_equal)
def _array_equal(tape: Tape, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Return a traced truth value: all entries are equal; False for different shapes."""
    a, b = as_array(tape, a1), as_array(tape, a2)
    if a.shape != b.shape:
        return False
    same = a == b
    return np.all(same | (np.isnan(a) & np.isnan(b)) if equal_nan else same)


@implements(np.array_equiv)
def _array_equiv(tape: Tape, a1: Any, a2: Any) -> Any:
    """Return a traced truth value: all entries are equal after broadcasting; False if shapes do not broadcast."""
    a, b = as_array(tape, a1), as_array(tape, a2)
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return np.all(a == b)


@implements(np.choose)
def _choose(tape: Tape, a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Return, for each entry, the choice that a constant index selects."""
    if depends(a):
        raise refuse("np.choose is recorded for constant numbers. Write np.select, with a condition for each choice.")
    arrays = [references_of(tape, choice) for choice in choices]
    chosen: Any = np.choose
    return make(tape, chosen(np.asarray(concrete(a)), np.broadcast_arrays(*arrays), mode=mode))


@implements(np.ldexp)
def _ldexp(tape: Tape, x1: Any, x2: Any) -> Any:
    """Return x1·2^x2 for a constant x2."""
    if depends(x2):
        raise refuse("np.ldexp is recorded for a constant exponent; write x * 2.0 ** k.")
    return as_array(tape, x1) * np.ldexp(1.0, concrete(x2))


@implements(np.interp)
def _interp(
    tape: Tape, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Any:
    """Return piecewise linear interpolation; the values at the knots may be traced.

    Between few constant knots, or for many points, one comparison and three selects for each knot find the slope, knot
    and value of the segment. Otherwise the position among the knots is a decision, unless both are constant.
    """
    many = len(xp) > MOST_KNOTS and np.size(x) <= FEW_PLACES
    is_decision = (depends(xp) or many) and ACTIVE.decisions is not None
    if period is None and (is_decision or not (depends(x) or depends(xp))):
        return interpolated(tape, as_array(tape, x)[()], as_array(tape, xp), as_array(tape, fp), left, right)
    if depends(xp) or period is not None:
        raise refuse("np.interp is recorded for knots (its second argument) that are constants, without period=.")
    knots = np.asarray(concrete(xp), float)
    x, values = as_array(tape, x), as_array(tape, fp)
    if knots.ndim != 1 or knots.shape != values.shape or not knots.size:
        raise ValueError(f"interp: knots of shape {knots.shape} and values of shape {values.shape}")
    first, last = values[0], values[-1]
    segments = [
        (knot, value, (following - value) / (after - knot) if after > knot else 0.0)
        for (knot, after), (value, following) in zip(pairwise(knots.tolist()), pairwise(values), strict=True)
    ]
    knot, value, slope = segments[0] if segments else (knots[0], first, 0.0)
    if segments:  # the last knot has its exact value, and the slope of the last segment
        segments.append((knots[-1], last, segments[-1][2]))
    for next_knot, next_value, next_slope in segments[1:]:
        inside = x >= next_knot
        knot, value, slope = (
            np.where(inside, b, a) if a is not b else a
            for a, b in ((knot, next_knot), (value, next_value), (slope, next_slope))
        )
    result = value + slope * (x - knot)
    result = np.where(x < knots[0], first if left is None else left, result)
    return np.where(x > knots[-1], last if right is None else right, result)


@implements(np.linspace)
@by_name
def _linspace(
    tape: Tape, start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, axis: int = 0
) -> Any:
    """Return a constant number of equidistant values between ends that may be traced."""
    divisions = num - 1 if endpoint else num
    start, stop = as_array(tape, start), as_array(tape, stop)
    step = (stop - start) / divisions if divisions > 0 else np.nan
    values = [start + k * step if k else start + 0.0 * stop for k in range(num)]
    if endpoint and num > 1:
        values[-1] = stop + 0.0 * start
    result = np.stack([as_array(tape, value) for value in values], axis=axis)
    return (result, step) if retstep else result


@implements(np.logspace)
def _logspace(
    tape: Tape, start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, *, axis: int = 0
) -> Any:
    """Return a constant number of powers of a base, whose exponents are equidistant."""
    return np.power(base, np.linspace(as_array(tape, start), stop, num, endpoint, axis=axis))


@implements(np.geomspace)
def _geomspace(tape: Tape, start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, axis: int = 0) -> Any:
    """Return a constant number of values between ends of equal signs, each the same multiple of the one before."""
    start = as_array(tape, start)
    return start * np.exp(np.linspace(0.0 * start, np.log(stop / start), num, endpoint, axis=axis))


@implements(np.apply_along_axis)
def _apply_along_axis(tape: Tape, func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the results of a function of vectors for every line along one axis."""
    lines = np.moveaxis(as_array(tape, arr), axis, -1)
    func1d = CALLED[0](func1d)
    results = [as_array(tape, func1d(lines[k], *args, **kwargs)) for k in np.ndindex(lines.shape[:-1])]
    stacked = np.stack(results).reshape(lines.shape[:-1] + results[0].shape)
    first, ahead = axis % lines.ndim, lines.ndim - 1
    count = stacked.ndim - ahead
    return np.moveaxis(stacked, range(ahead, stacked.ndim), range(first, first + count)) if count else stacked


#: Functions → formulas, which take the tape and the arguments of NumPy's function.
FORMULAS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    np.sinc: lambda tape, x: sine_by_argument(np.pi * as_array(tape, x)),
    np.i0: lambda tape, x: apply_elementwise(tape, "i0", x),
    np.fix: lambda tape, x, out=None: np.trunc(as_array(tape, x)),
    np.real: lambda tape, a: as_array(tape, a) if isinstance(a, list | tuple) else a,  # nothing is complex
    np.real_if_close: lambda tape, a: as_array(tape, a) if isinstance(a, list | tuple) else a,
    np.imag: lambda tape, a: as_array(tape, a) * 0.0,
    np.isposinf: lambda tape, x, out=None: as_array(tape, x) == np.inf,
    np.isneginf: lambda tape, x, out=None: as_array(tape, x) == -np.inf,
    np.allclose: lambda tape, a, b, rtol=1e-5, atol=1e-8, equal_nan=False: np.all(
        np.isclose(a, b, rtol, atol, equal_nan)
    ),
}
for _function, _formula in FORMULAS.items():
    implements(_function)(_formula)


# Functions of shapes and data types -----------------------------------------------------------------------------------


def _enter_query(function: Callable[..., Any]) -> None:
    @implements(function, constants=True)
    def record(tape: Tape, a: Any, *arguments: Any) -> Any:
        return function(np.broadcast_to(0.0, references_of(tape, a).shape), *arguments)


for _function in (
    *(np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.iscomplex, np.isreal),
    *(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from),
):
    _enter_query(_function)


def _type_of(value: Any) -> Any:
    """Return the data type of the array that NumPy makes from a value."""
    dtype = getattr(value, "dtype", None)
    return dtype if dtype is not None else float if depends(value) else np.asarray(concrete(value)).dtype


def _filled_like(tape: Tape, prototype: Any, value: Any, dtype: Any, shape: Any) -> Any:
    is_complex = holds_complex(prototype)
    if shape is None:
        shape = np.shape(prototype) if is_complex else np.shape(entries_of(tape, prototype)[0])
    kind = np.dtype(dtype if dtype is not None else complex if holds_complex(value) else _type_of(prototype))
    if kind == np.complex128:
        result = as_constant(tape, np.zeros(shape, complex))
        result[...] = value
        return result
    if kind.kind == "b":
        return TracedArray(tape, np.full(shape, references_of(tape, value, boolean=True)), boolean=True)
    if kind != np.float64:
        if depends(value):
            check_dtype(kind, "np.full_like")
        return np.full(shape, concrete(value), kind)
    return TracedArray(tape, np.full(shape, references_of(tape, value)))


def _enter_like(function: Callable[..., Any], value: float) -> None:
    @implements(function, constants=True)
    def record(tape: Tape, a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Any:
        return _filled_like(tape, a, value, dtype, shape)


for _like, _value in ((np.zeros_like, 0.0), (np.ones_like, 1.0), (np.empty_like, np.nan)):
    _enter_like(_like, _value)


implements(np.full_like, constants=True)(
    lambda tape, a, fill_value, dtype=None, order="K", subok=True, shape=None: _filled_like(
        tape, a, fill_value, dtype, shape
    )
)


@implements(np.result_type, constants=True)
def _result_type(tape: Tape, *arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the data type of a result of these operands."""
    return np.result_type(*(_as_type(value) for value in arrays_and_dtypes))


def _as_type(value: Any) -> Any:
    return value.dtype if isinstance(value, TracedArray) or hasattr(value, "entries") else value


def _text_by(function: Callable[..., str]) -> Callable[..., str]:
    def text(tape: Tape, a: Any, *arguments: Any, **keywords: Any) -> str:
        return str(a) if depends(a) else function(concrete(a), *arguments, **keywords)

    return text


for _writes in (np.array_str, np.array_repr, np.array2string):
    implements(_writes, constants=True)(_text_by(_writes))
