"""Whether two tapes compute the same: both run at random complex points, with bounds on what rounding may do.

At complex points nothing is out of its domain, and identities that hold there hold. Functions are given others in their
place that have the same symmetries, sine and cosine points of the unit circle, and none of them overflows: what holds
for these holds because of the form of the program alone, and no part of it is out of sight. Beside each value runs a
bound on its rounding error, so that what is allowed to differ is what rounding explains, and not more.

Comparisons look at real parts, and take for equal what rounding may have made different: whether a + (b + c) equals
(a + b) + c is nothing that a program can depend on. Values that are real up to rounding do not depend on the point.
They may have become numbers, and functions of numbers are folded, so of these it is the functions' own value that
counts.

A mistake passes where the bound of an output is as large as its value, at all points: where the tape's numbers have
lost all their digits; and where values are infinite or NaN.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.errors import VerificationError
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["verify"]

#: Points at which tapes are compared; one if they are large.
POINTS: Final = 2
LARGE: Final = 100_000
#: By how many units of rounding of the running bound results may differ; first-order bounds hold to a small factor.
SLACK: Final = 16.0
UNIT: Final = 2.0**-53
#: The relative step that shows how an elementary function magnifies errors.
STEP: Final = 1e-6

Function = Callable[..., Any]


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


def _sine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z)
    return 2.0 * w / (1.0 + w * w)


def _cosine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z) ** 2
    return (1.0 - w) / (1.0 + w)


#: What stands for itself, or for points of the unit circle; all other functions of one or two numbers get something
#: with their symmetries. Identities that are no rules must not hold, and no argument may lead to infinity, so that
#: nothing is lost from sight behind it: they grow like logarithms.
_OTHERS: Final[dict[str, Function]] = {
    "sqrt": cmath.sqrt,
    "sin": _sine,
    "cos": _cosine,
    "power": lambda x, y: cmath.exp(y * cmath.log(x)),
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_not": lambda x: not x,
    "attach": lambda x, _: x,
}
#: Comparisons of real parts, or of values, by how much one is less than the other; a tie is what rounding explains.
_COMPARISONS: Final[dict[str, Function]] = {
    "less": lambda x, y, tie: x.real - y.real < -tie,
    "less_equal": lambda x, y, tie: x.real - y.real <= tie,
    "equal": lambda x, y, tie: _size(x - y) <= tie,
    "not_equal": lambda x, y, tie: not _size(x - y) <= tie,
    "minimum": lambda x, y, tie: x if x.real - y.real < -tie else y,
    "maximum": lambda x, y, tie: y if x.real - y.real < -tie else x,
}


def _size(z: Any) -> float:
    """The magnitude; infinite where that of Python raises."""
    return math.hypot(z.real, z.imag)


def _stand_ins() -> dict[int, Function]:
    found: dict[int, Function] = {}
    for row in OPERATIONS:
        k = 0.3 + 0.017 * row.code
        if row.name in _OTHERS:
            found[row.code] = _OTHERS[row.name]
        elif row.name in _COMPARISONS:
            found[row.code] = _COMPARISONS[row.name]
        elif row.arity == 2:
            found[row.code] = _of_two(k)
        else:
            found[row.code] = {"odd": _odd, "even": _even, None: _general}[row.parity](k)
    return found


_FUNCTIONS: Final = _stand_ins()
_COMPARED: Final = {row.code for row in OPERATIONS if row.name in _COMPARISONS}
_CODES: Final = {row.name: row.code for row in OPERATIONS}


def verify(tape: Tape, other: Tape, seed: int = 0) -> None:
    """Check that two tapes with the same inputs have the same outputs.

    Raises:
        VerificationError: naming the first output that differs.
    """
    if (tape.inputs, len(tape.outputs)) != (other.inputs, len(other.outputs)):
        raise VerificationError(
            f"a tape of {tape.inputs} inputs and {len(tape.outputs)} outputs became one of {other.inputs} and "
            f"{len(other.outputs)}"
        )
    rng = random.Random(seed)
    for _ in range(POINTS if tape.operations < LARGE else 1):
        point = [complex(rng.uniform(0.5, 1.5), rng.uniform(-0.5, 0.5)) for _ in range(tape.inputs)]
        for k, ((a, error_a), (b, error_b)) in enumerate(zip(_run(tape, point), _run(other, point), strict=True)):
            off = _size(a - b)
            if off > SLACK * UNIT * (error_a + error_b) + 1e-300:
                raise VerificationError(
                    f"output {k} of the optimised tape is off by {off:.3g} at a complex point where it is {a:.6g}. "
                    "This is a mistake of the optimiser; please report the function"
                )


def _run(tape: Tape, point: list[complex]) -> list[tuple[complex, float]]:
    """Each output with a bound on its error, in units of rounding."""
    add, subtract, multiply, divide = (_CODES[name] for name in ("add", "subtract", "multiply", "divide"))
    negative, select = _CODES["negative"], _CODES["select"]
    values: list[Any] = list(point)
    errors = [0.0] * len(point)
    constants = [complex(value) for value in tape.constants]
    codes, first, second, third = tape.codes, tape.first, tape.second, tape.third
    for r in range(tape.inputs, len(tape)):
        code, a, b = codes[r], first[r], second[r]
        x, dx = (values[a], errors[a]) if a >= 0 else (constants[-1 - a], 0.0)
        try:
            if code == multiply:
                y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], UNIT)
                v = x * y
                error = dx * _size(y) + dy * _size(x) + SLACK * UNIT * dx * dy + 3 * _size(v)
            elif code in (add, subtract):
                y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
                v = x + y if code == add else x - y
                # what a sum loses by cancelling depends on how its terms are grouped, so all of them count
                error = dx + dy + _size(x) + _size(y)
            elif code == divide:
                y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
                if _is_lost(y, dy):
                    raise ZeroDivisionError
                v = x / y
                error = (dx + dy * _size(v)) / _size(y) + 3 * _size(v)
            elif code == negative:
                v, error = -x, dx
            elif code == select:
                c = third[r]
                chosen = b if x else c
                v, error = (values[chosen], errors[chosen]) if chosen >= 0 else (constants[-1 - chosen], 0.0)
            else:
                v, error = _function(code, OPERATIONS[code].arity, x, dx, b, values, errors, constants)
        except (OverflowError, ZeroDivisionError, ValueError):
            v, error = complex(math.nan), math.inf
        values.append(v)
        errors.append(error)
    return [
        (values[output], errors[output]) if output >= 0 else (constants[-1 - output], _size(constants[-1 - output]))
        for output in tape.outputs
    ]


def _function(
    code: int, arity: int, x: Any, dx: float, b: int, values: list[Any], errors: list[float], constants: list[complex]
) -> tuple[Any, float]:
    """Value of an elementary function at x, and at the reference b if it takes two arguments, and its error."""
    run = _FUNCTIONS[code]
    if arity == 1:
        if isinstance(x, bool):
            return run(x), 0.0
        if _is_real(x, dx):
            return _of_reals(code, (x,), (dx,))
        if _is_lost(x, dx) and (code == _CODES["sqrt"] or dx * UNIT > STEP):
            raise ZeroDivisionError
        v = run(x)
        return v, _slope(run, x, v) * dx + 4 * _size(v)
    y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
    if code in _COMPARED:
        v = run(x, y, SLACK * UNIT * (dx + dy))
        return v, 0.0 if isinstance(v, bool) else max(dx, dy)
    if isinstance(x, bool):
        return run(x, y), 0.0
    if _is_real(x, dx) and _is_real(y, dy):
        return _of_reals(code, (x, y), (dx, dy))
    if (_is_lost(x, dx) and (code == _CODES["power"] or dx * UNIT > STEP)) or (_is_lost(y, dy) and dy * UNIT > STEP):
        raise ZeroDivisionError
    v = run(x, y)
    by_x, by_y = _slope(lambda x: run(x, y), x, v), _slope(lambda y: run(x, y), y, v)
    return v, by_x * dx + by_y * dy + 4 * _size(v)


def _is_real(z: Any, error: float) -> bool:
    """Whether a value is a real number up to rounding: one that does not depend on the point."""
    return bool(abs(z.imag) <= SLACK * UNIT * error)


def _is_lost(z: Any, error: float) -> bool:
    """Whether rounding has left no digit of a value, so that bounds of first order mean nothing for a divisor."""
    return 2 * SLACK * UNIT * error >= _size(z)


def _slope(run: Function, z: Any, v: Any) -> float:
    return _size(run(z * (1 + STEP)) - v) / (STEP * _size(z)) if z else 1.0


def _of_reals(code: int, arguments: tuple[Any, ...], errors: tuple[float, ...]) -> tuple[Any, float]:
    """The table's own function of what would be numbers if they were folded."""
    run = OPERATIONS[code].evaluate
    if not all(map(math.isfinite, errors)):
        raise OverflowError
    reals = [np.float64(z.real) for z in arguments]
    v = float(run(*reals))
    error = 4 * abs(v)
    for k, dx in enumerate(errors):
        step = SLACK * UNIT * dx
        for x in (reals[k] - step, reals[k] + step):  # jumps between them count as errors, too
            other = float(run(*reals[:k], x, *reals[k + 1 :]))
            error += abs(other - v) / (SLACK * UNIT)
    return complex(v), error
