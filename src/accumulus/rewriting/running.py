"""Evaluation of tapes with a bound on each value's rounding error: at random complex points, and at real ones.

Compiled code (`running_kernel`) does the arithmetic at all points; Python computes the few functions of a tape.

**Stand-ins.** At complex points, functions are replaced by others that have the same symmetries and never overflow;
sine and cosine become points of the unit circle. Identities of the stand-ins hold because of the form of the program
alone, and no part of it is hidden. Only operations that occur in identities are computed as they are. Floor, ceil,
sign, fmod and comparisons are arbitrary functions of the last bits of their arguments. These arguments are not
rewritten, and any other choice would hide branches.

At real points, the functions themselves are computed, with first-order bounds.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import VerificationError
from accumulus.native.machine import kernel
from accumulus.rewriting.compiled.running_kernel import BOUNDED, COMPLEX, PLAIN, RunningState
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT, Tape

#: Largest difference of results relative to the running bound; first-order bounds hold up to a small factor. A larger
#: one accepts differences that are mistakes, a smaller one refuses correct programs.
SLACK: Final = 16.0
UNIT: Final = 2.0**-53
Complexes = NDArray[np.complex128]
Reals = NDArray[np.float64]

Function = Callable[..., Any]


def _size(z: Any) -> float:
    """Return the magnitude; infinite where Python's `abs` raises an error."""
    return math.hypot(z.real, z.imag)


def _odd(k: float) -> Function:
    return lambda z: cmath.asinh(k * z)


def _even(k: float) -> Function:
    return lambda z: cmath.asinh(k * z) ** 2


def _general(k: float) -> Function:
    def run(z: Any) -> Any:
        w = cmath.asinh(k * z)
        return w + k * (w * w + 1.0)

    return run


def _of_two(k: float) -> Function:
    return lambda y, z: (cmath.asinh(k * y) + 0.3) * (1.0 + k * cmath.asinh(z) ** 2) + cmath.asinh(k * z + 0.2)


def _commutative(k: float) -> Function:
    general = _general(k)
    return lambda y, z: general(y) + general(z) + cmath.asinh(k * y) * cmath.asinh(k * z)


def _sine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z)
    return 2.0 * w / (1.0 + w * w)


def _cosine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z) ** 2
    return (1.0 - w) / (1.0 + w)


#: Functions that are computed as they are, or as points of the unit circle. All others have stand-ins with the same
#: symmetries. A stand-in must not satisfy identities that are not rules, and grows like a logarithm, so that it never
#: overflows.
_THEMSELVES: Final[dict[str, Function]] = {
    "sqrt": cmath.sqrt,
    "sin": _sine,
    "cos": _cosine,
    "power": lambda x, y: cmath.exp(y * cmath.log(x)),
    # of outcomes that are mixed, too
    "logical_and": lambda x, y: x * y,
    "logical_or": lambda x, y: x + y - x * y,
    "logical_not": lambda x: 1.0 - x,
    "attach": lambda x, _: x,
}


def _stand_in(row: Operation) -> Function:
    k = 0.3 + 0.017 * row.code
    if row.name in _THEMSELVES:
        return _THEMSELVES[row.name]
    if row.arity == 2:
        return _commutative(k) if row.commutative else _of_two(k)
    return {"odd": _odd, "even": _even, None: _general}[row.parity](k)


#: Stand-ins, by the code of the operation.
FUNCTIONS: Final = {row.code: _stand_in(row) for row in OPERATIONS}
#: Factor of the exponent in the stand-in for exponentials, so that none overflows: their laws hold for b^x with any b.
#: It is a number that programs do not contain.
_SLOWER: Final = 0.0937214856130


def _exponential(z: Any) -> Any:
    return cmath.exp(_SLOWER * z)


def _logarithm(z: Any) -> Any:
    return cmath.log(z) / _SLOWER


#: Stand-ins that also satisfy the laws of exponentials and logarithms.
EXPONENTIALS: Final[dict[int, Function]] = {
    BY_NAME[name].code: run
    for name, run in {
        "exp": _exponential,
        "expm1": lambda z: _exponential(z) - 1.0,
        "exp2": lambda z: _exponential(math.log(2.0) * z),
        "log": _logarithm,
        "log1p": lambda z: _logarithm(1.0 + z),
        "log2": lambda z: _logarithm(z) / math.log(2.0),
        "log10": lambda z: _logarithm(z) / math.log(10.0),
        "sinh": lambda z: cmath.sinh(_SLOWER * z),
        "cosh": lambda z: cmath.cosh(_SLOWER * z),
        "tanh": lambda z: cmath.tanh(_SLOWER * z),
        "asinh": lambda z: cmath.asinh(z) / _SLOWER,
        "acosh": lambda z: cmath.acosh(z) / _SLOWER,
        "atanh": lambda z: cmath.atanh(z) / _SLOWER,
    }.items()
}
WITH_EXPONENTIALS: Final = FUNCTIONS | EXPONENTIALS
#: Stand-ins that also satisfy the laws of sines and cosines of sums; the angles have to cover part of the circle.
_TURNS: Final = 0.7318504926
ANGLES: Final[dict[int, Function]] = {
    BY_NAME["sin"].code: lambda z: cmath.sin(_TURNS * z),
    BY_NAME["cos"].code: lambda z: cmath.cos(_TURNS * z),
}
WITH_LAWS: Final = WITH_EXPONENTIALS | ANGLES
#: Codes of comparisons of two numbers, and of other operations with jumps.
COMPARISONS: Final = frozenset(row.code for row in OPERATIONS if row.jumps and row.result == "boolean")
JUMPS: Final = frozenset(row.code for row in OPERATIONS if row.jumps) - COMPARISONS

_EQUAL, _NOT_EQUAL = BY_NAME["equal"].code, BY_NAME["not_equal"].code


def _bits(z: Any) -> tuple[float | None, float | None]:
    """Return parts that are equal if two values are equal to the last bit; zeros of both signs are equal."""
    # None, since NaN is not equal to itself
    return z.real + 0.0 if math.isfinite(z.real) else None, z.imag + 0.0 if math.isfinite(z.imag) else None


def _comparison(code: int, x: Any, y: Any) -> tuple[Hashable, bool]:
    """Return an identifier of a comparison that it shares with its negation, and True if it is the negation."""
    a, b = _bits(x), _bits(y)
    if code in (_EQUAL, _NOT_EQUAL):
        return (_EQUAL, *sorted((a, b), key=str)), code == _NOT_EQUAL
    return (code, a, b), False


def _jump(code: int, arguments: Sequence[Any], seed: int) -> complex:
    """Return an arbitrary number that depends on the arguments, with the parity of the operation."""
    sign = 1.0
    if OPERATIONS[code].parity == "odd":
        (z,) = arguments
        if not z:
            return 0j
        if (z.real, z.imag) < (0.0, 0.0):
            arguments, sign = (-z,), -1.0
    mixed = hash((seed, code, *map(_bits, arguments))) * 0x9E3779B97F4A7C15
    return sign * _spread(mixed)


def _spread(bits: int) -> complex:
    """Return a number near 1 made from random bits."""
    return complex(0.5 + (bits >> 20 & 0xFFFFF) / 2.0**20, (bits >> 40 & 0xFFFFF) / 2.0**20 - 0.5)


# Complex points ------------------------------------------------------------------------------------------------------

#: Relative step of the differences that show how an elementary function magnifies errors. A larger one leaves the
#: neighbourhood of the point, a smaller one loses the difference in rounding.
STEP: Final = 1e-6
_SQRT, _POWER, _ATTACH = (BY_NAME[name].code for name in ("sqrt", "power", "attach"))
_IS_TRUTH: Final = np.array([row.result == "boolean" for row in OPERATIONS])


class At(NamedTuple):
    """A complex point: inputs, the seed of arbitrary functions, and known outcomes of comparisons, which accumulate.

    If outcomes are mixed, each is a random complex number c, and a select is c·a + (1 - c)·b. What is equal so is equal
    for all numbers c, and thus for all combinations of outcomes at once.
    """

    inputs: list[complex]
    oracle: int
    holds: dict[Hashable, complex]
    is_mixed: bool = False


class Run:
    """Evaluation of a tape at some complex points.

    Args:
        tape: tape to evaluate.
        at: the points.
        chosen: for each point, outcomes of comparisons, by reference; other outcomes are random. If None, an unknown
            comparison is an error.
        functions: stand-ins for functions, by the code of the operation.

    Attributes:
        real, imaginary: (places, points), values of inputs, operations and constants in the order of `RunningState`;
            truth values are 0 or 1.
        errors: bounds on their errors, in units of rounding.
        sizes: their magnitudes.
        is_truth: 1 for truth values, else 0.
    """

    def __init__(
        self,
        tape: Tape,
        at: Sequence[At],
        chosen: Sequence[Mapping[int, bool]] | None,
        functions: Mapping[int, Function] = FUNCTIONS,
    ) -> None:
        self.tape, self._at, self._chosen, self._functions = tape, at, chosen, functions
        size, places = len(tape), len(tape) + len(tape.constants)
        rows = rows_of(tape)
        real, imaginary, self.errors, self.sizes = np.zeros((4, places, len(at)))
        self.real, self.imaginary = real, imaginary
        inputs = np.array([each.inputs for each in at], complex).reshape(len(at), tape.inputs).T
        real[: tape.inputs], imaginary[: tape.inputs] = inputs.real, inputs.imag
        real[size:] = np.array(tape.constants[::-1]).reshape(-1, 1)
        self.sizes[: tape.inputs] = np.hypot(inputs.real, inputs.imag)
        self.sizes[size:] = np.abs(real[size:])
        self.is_truth = bytearray(places)
        self.is_truth[:size] = _IS_TRUTH[rows[:, 0]].tobytes()
        for r in np.flatnonzero((rows[:, 0] == SELECT) | (rows[:, 0] == _ATTACH)).tolist():
            code, *arguments = rows[r].tolist()
            self.is_truth[r] = any(self.is_truth[k] for k in (arguments[1:] if code == SELECT else arguments[:1]))
        # memory views read and write single numbers faster than arrays do
        numbers: Any = [each.reshape(-1) for each in (real, imaginary, self.errors, self.sizes)]
        self._buffers = tuple(memoryview(each) for each in numbers)
        state = RunningState(
            mode=COMPLEX, points=len(at), places=places, rows=rows, begin=tape.inputs, end=size,
            real=numbers[0], imaginary=numbers[1], errors=numbers[2], sizes=numbers[3], rounding=SLACK * UNIT,
        )  # fmt: skip
        _complete(state, self._compute)

    def outputs(self) -> tuple[Complexes, Reals]:
        """Return outputs and bounds on their errors, (points, outputs) each; the bound of a constant is its size."""
        places = np.array(self.tape.outputs, np.int64)
        values = np.empty((len(places), len(self._at)), complex)
        values.real, values.imag = self.real[places], self.imaginary[places]
        errors = np.where(places[:, np.newaxis] >= 0, self.errors[places], self.sizes[places])
        return values.T, errors.T

    def _compute(self, r: int) -> None:
        """Compute an operation other than arithmetic at all points."""
        code, arguments, count = self.tape.codes[r], self.tape.arguments(r), len(self._at)
        for p in range(count):
            try:
                value, error = self._operation(r, code, p, *zip(*(self._value(a, p) for a in arguments), strict=True))
            except (OverflowError, ZeroDivisionError, ValueError):
                value, error = complex(math.nan), math.inf
            for array, number in zip(self._buffers, (value.real, value.imag, error, _size(value)), strict=True):
                array[r * count + p] = number

    def _value(self, reference: int, p: int) -> tuple[Any, float]:
        """Return the value of a reference at a point, and the bound on its error."""
        index = (reference if reference >= 0 else reference + len(self.is_truth)) * len(self._at) + p
        real, imaginary, errors, _ = self._buffers
        if self.is_truth[reference]:
            return complex(real[index], imaginary[index]), 0.0
        return complex(real[index], imaginary[index]), errors[index]

    def _operation(
        self, r: int, code: int, p: int, arguments: tuple[Any, ...], errors: tuple[float, ...]
    ) -> tuple[Any, float]:
        if code in COMPARISONS:
            return self._compare(r, code, p, *arguments), 0.0
        if code in JUMPS:
            return _jump(code, arguments, self._at[p].oracle), 0.0
        run = self._functions[code]
        if self.is_truth[r]:
            return run(*arguments), 0.0
        # real up to rounding: the value does not depend on the point
        if all(abs(z.imag) <= SLACK * UNIT * dz for z, dz in zip(arguments, errors, strict=True)):
            return _of_reals(code, arguments, errors)
        by_errors = 0.0
        v = run(*arguments)
        for k, (z, dz) in enumerate(zip(arguments, errors, strict=True)):
            # first-order bounds mean nothing if rounding has left no digit
            is_divisor = dz * UNIT > STEP or (k == 0 and code in (_SQRT, _POWER))
            if is_divisor and 2 * SLACK * UNIT * dz >= _size(z):
                raise ZeroDivisionError
            moved = run(*arguments[:k], z * (1 + STEP), *arguments[k + 1 :])
            by_errors += (_size(moved - v) / (STEP * _size(z)) if z else 1.0) * dz
        return v, by_errors + 4 * _size(v)

    def _compare(self, r: int, code: int, p: int, x: Any, y: Any) -> complex:
        key, negated = _comparison(code, x, y)
        _, oracle, holds, is_mixed = self._at[p]
        if key not in holds:
            if self._chosen is None:
                raise VerificationError(
                    f"{self.tape.name(r)} of the optimised tape is a comparison that was not there before, to the last "
                    "bit. This is a mistake of the optimiser; please report the function"
                )
            mixed = hash((oracle, key)) * 0x9E3779B97F4A7C15
            if is_mixed:
                holds[key] = _spread(mixed)
            else:
                holds[key] = float(self._chosen[p].get(r, bool(mixed >> 40 & 1)) != negated)
        return 1.0 - holds[key] if negated else holds[key]


def _complete(state: RunningState, compute: Callable[[int], None]) -> None:
    """Run a tape, alternating between compiled code and single operations in Python."""
    arithmetic, end = kernel("rewriting.operations"), state.end
    while (r := arithmetic(state.address)) < end:
        compute(r)
        state.begin = r + 1


def _of_reals(code: int, arguments: tuple[Any, ...], errors: tuple[float, ...]) -> tuple[Any, float]:
    """Return the operation's own function, with an error bound, for values that folding would turn into numbers."""
    run = OPERATIONS[code].evaluate
    if not all(map(math.isfinite, errors)):
        raise OverflowError
    reals = [np.float64(z.real) for z in arguments]
    v = float(run(*reals))
    error = 4 * abs(v)
    for k, dx in enumerate(errors):
        step = SLACK * UNIT * dx
        for x in (reals[k] - step, reals[k] + step):  # a jump between them counts as an error, too
            other = float(run(*reals[:k], x, *reals[k + 1 :]))
            error += abs(other - v) / (SLACK * UNIT)
    return complex(v), error


# Real points ---------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """Range of a type's numbers with full precision: the `largest`, and the `smallest` positive one.

    Attributes:
        has_rounded_angles: True if the error of an angle is at least a unit of rounding; else none could be a sum.
    """

    largest: float
    smallest: float
    has_rounded_angles: bool = False


#: Overflow of doubles is infinite in the evaluation itself.
DOUBLE: Final = Span(math.inf, float(np.finfo(np.float64).tiny))
SINGLE: Final = Span(float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny))
SPANS: Final = {"float64": DOUBLE, "float32": SINGLE}
#: Relative step of the differences that show how an elementary function magnifies errors. A larger one leaves the
#: neighbourhood of the point, a smaller one loses the difference in rounding.
REAL_STEP: Final = 1e-7
_OF_ANGLES: Final = frozenset(BY_NAME[name].code for name in ("sin", "cos", "tan"))
#: Largest relative error bound up to which two values are compared. With a larger one, comparisons of nearly lost
#: values prove little; with a smaller one, values stay uncompared at points where they could be.
LOST: Final = 1e-3


class RealRuns:
    """Evaluations of a tape at a fixed number of real points each, in the same memory.

    Args:
        tape: tape to evaluate.
        count: number of points of an evaluation.
        span: range of the type.
        bounds: True to compute bounds on errors, too.
    """

    def __init__(self, tape: Tape, count: int, span: Span = DOUBLE, *, bounds: bool = True) -> None:
        self._tape, self._span, self._bounds = tape, span, bounds
        self._values = np.empty((len(tape) + len(tape.constants), count))
        self._errors = np.empty_like(self._values) if bounds else self._values
        self._state = RunningState(
            mode=BOUNDED if bounds else PLAIN, points=count, places=len(self._values), rows=rows_of(tape),
            end=len(tape), real=self._values.reshape(-1), errors=self._errors.reshape(-1), largest=span.largest,
            smallest=span.smallest,
        )  # fmt: skip
        self._give(slice(len(tape), None), np.array(tape.constants[::-1]).reshape(-1, 1))

    def _give(self, places: slice, numbers: Reals) -> None:
        """Set inputs or constants, rounded to the type."""
        self._values[places] = numbers
        values = self._values[places]
        self._values[places], uncertain = within(self._span, values, np.zeros_like(values))
        if self._bounds:
            self._errors[places] = uncertain

    def at(self, points: Reals) -> tuple[Reals, Reals]:
        """Return values and bounds at points, (inputs and operations, points) each; the next run overwrites them."""
        inputs, size = self._tape.inputs, len(self._tape)
        self._give(slice(inputs), points.T)
        self._state.begin = inputs
        with np.errstate(all="ignore"):
            _complete(self._state, self._compute)
        return self._values[:size], self._errors[:size]

    def _compute(self, r: int) -> None:
        code, arguments, values, span = self._tape.codes[r], self._tape.arguments(r), self._values, self._span
        at = [values[a] for a in arguments]
        if self._bounds:
            v, error = operation_with_bounds(code, at, [self._errors[a] for a in arguments], span)
            values[r], self._errors[r] = within(span, v, error)
        else:
            v = OPERATIONS[code].by_numpy(*_with_truth_values(code, at))
            values[r] = v if span.largest == math.inf else within(span, np.asarray(v, float), v)[0]


def run_at_points(tape: Tape, points: Reals, span: Span = DOUBLE) -> tuple[Reals, Reals]:
    """Return values of a tape at real points, and bounds in units of rounding, (inputs and operations, points) each.

    Values beyond the span are infinite, and values below it have errors of their size.
    """
    return RealRuns(tape, len(points), span).at(points)


def within(span: Span, values: Reals, errors: Reals) -> tuple[Reals, Reals]:
    """Return values and bounds rounded to a type: overflow is infinite, underflow loses digits."""
    size = np.abs(values)
    if span.largest == math.inf:
        is_small = (size < span.smallest) & (size > 0.0)
        return values, np.where(is_small, errors + span.smallest, errors) if is_small.any() else errors
    values = np.where(size > span.largest, np.copysign(np.inf, values), values)
    errors = np.where((size < span.smallest) & (size > 0.0), errors + span.smallest, errors)
    return values, np.where(size > span.largest, np.inf, errors)


def agree(a: Reals, bound: Reals, b: Reals, other: Reals) -> NDArray[np.bool_]:
    """Return True where two values are equal up to rounding, or their bounds are too large to compare them."""
    with np.errstate(all="ignore"):
        allowed = SLACK * UNIT * (bound + other)
        says = np.isfinite(a) & np.isfinite(b) & (allowed < LOST * np.fmax(np.abs(a), np.abs(b)))
        same: NDArray[np.bool_] = ~says | (np.abs(a - b) <= allowed)
    return same


def _with_truth_values(code: int, at: Sequence[Reals]) -> list[Any]:
    """Return arguments as the operation expects them: truth values are stored as numbers."""
    kinds = OPERATIONS[code].arguments
    return [x != 0 if kind == "boolean" else x for x, kind in zip(at, kinds, strict=True)]


def operation_with_bounds(
    code: int, at: Sequence[Reals], errors: Sequence[Reals], span: Span = DOUBLE
) -> tuple[Reals, Reals]:
    """Return the values of an operation at all points, and first-order bounds on their errors."""
    row = OPERATIONS[code]
    arguments = _with_truth_values(code, at)
    v = np.asarray(row.by_numpy(*arguments), float)
    if code in (ADD, SUBTRACT):
        return v, errors[0] + errors[1] + np.abs(v)
    if code == MULTIPLY:
        return v, _times(np.abs(at[0]), errors[1]) + _times(np.abs(at[1]), errors[0]) + np.abs(v)
    if code == DIVIDE:
        return v, (errors[0] + np.abs(v) * errors[1]) / np.abs(at[1]) + np.abs(v)
    if code == NEGATIVE:
        return v, errors[0]
    if code == SELECT:
        return v, np.where(arguments[0], errors[1], errors[2])
    if row.jumps or row.result == "boolean":
        return v, np.zeros_like(v)
    total = 2 * np.abs(v)
    is_rounded = span.has_rounded_angles and code in _OF_ANGLES
    for k, error in enumerate(errors):
        if row.arguments[k] != "real":
            continue
        step = REAL_STEP * np.abs(at[k]) + 1e-300
        slopes = []
        for moved in (at[k] + step, at[k] - step):
            displaced = [*arguments[:k], moved, *arguments[k + 1 :]]
            slopes.append(np.abs(np.asarray(row.by_numpy(*displaced), float) - v) / step)
        slope = np.fmax(*slopes)  # at the border of a domain one of them is NaN
        total = total + _times(slope, np.maximum(error, np.abs(at[k])) if is_rounded else error)
    return v, total


def _times(size: Reals, error: Reals) -> Reals:
    """Return the product of an error and a factor; 0 if either is 0, even if the other is infinite."""
    return np.where((size == 0) | (error == 0), 0.0, size * error)
