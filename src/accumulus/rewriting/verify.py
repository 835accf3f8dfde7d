"""Whether two tapes compute the same: both run at random complex points, with bounds on what rounding may do.

At complex points nothing is out of its domain, and identities that hold there hold. Operations that are defined for
real numbers only are given others in their place that have the same symmetries, and comparisons look at real parts:
what holds for these holds because of the form of the program alone. Beside each value runs a bound on its rounding
error, so that what is allowed to differ is what rounding explains, and not more.

A mistake passes where the bound of an output is as large as its value, at all points: where the tape's numbers have
lost all their digits.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable
from typing import Any, Final

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
    return lambda z: cmath.sinh(k * z)


def _even(k: float) -> Function:
    return lambda z: cmath.cosh(k * z)


def _general(k: float) -> Function:
    return lambda z: cmath.exp(1j * k * z) + k * z


def _of_two(k: float) -> Function:
    return lambda y, z: cmath.sin(k * y + 0.3) * (1.0 + k * z * z) + y


#: What stands for itself; all other functions of one or two numbers get something with their symmetries.
_THEMSELVES: Final[dict[str, Function]] = {
    "sqrt": cmath.sqrt,
    "exp": cmath.exp,
    "log": cmath.log,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "power": lambda x, y: cmath.exp(y * cmath.log(x)),
    "less": lambda x, y: x.real < y.real,
    "less_equal": lambda x, y: x.real <= y.real,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_not": lambda x: not x,
    "minimum": lambda x, y: x if x.real < y.real else y,
    "maximum": lambda x, y: y if x.real < y.real else x,
    "attach": lambda x, _: x,
}


def _stand_ins() -> dict[int, Function]:
    found: dict[int, Function] = {}
    for row in OPERATIONS:
        k = 0.3 + 0.017 * row.code
        if row.name in _THEMSELVES:
            found[row.code] = _THEMSELVES[row.name]
        elif row.arity == 2:
            found[row.code] = _of_two(k)
        else:
            found[row.code] = {"odd": _odd, "even": _even, None: _general}[row.parity](k)
    return found


_FUNCTIONS: Final = _stand_ins()
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
            off = abs(a - b)
            if off > SLACK * UNIT * (error_a + error_b) + 1e-300:
                raise VerificationError(
                    f"output {k} of the optimised tape is off by {off:.3g} at a complex point where it is {a:.6g}. "
                    "This is a mistake of the optimiser; please report the function, and use optimise=False meanwhile"
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
                error = dx * abs(y) + dy * abs(x) + 3 * abs(v)
            elif code in (add, subtract):
                y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
                v = x + y if code == add else x - y
                # what a sum loses by cancelling depends on how its terms are grouped, so all of them count
                error = dx + dy + abs(x) + abs(y)
            elif code == divide:
                y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
                v = x / y
                error = (dx + dy * abs(v)) / abs(y) + 3 * abs(v)
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
        (values[output], errors[output]) if output >= 0 else (constants[-1 - output], abs(constants[-1 - output]))
        for output in tape.outputs
    ]


def _function(
    code: int, arity: int, x: Any, dx: float, b: int, values: list[Any], errors: list[float], constants: list[complex]
) -> tuple[Any, float]:
    """Value of an elementary function at x, and at the reference b if it takes two arguments, and its error."""
    run = _FUNCTIONS[code]
    if arity == 1:
        v = run(x)
        if isinstance(v, bool):
            return v, 0.0
        slope = abs(run(x * (1 + STEP)) - v) / (STEP * abs(x)) if x else 1.0
        return v, slope * dx + 4 * abs(v)
    y, dy = (values[b], errors[b]) if b >= 0 else (constants[-1 - b], 0.0)
    v = run(x, y)
    if isinstance(v, bool):
        return v, 0.0
    by_x = abs(run(x * (1 + STEP), y) - v) / (STEP * abs(x)) if x else 1.0
    by_y = abs(run(x, y * (1 + STEP)) - v) / (STEP * abs(y)) if y else 1.0
    return v, by_x * dx + by_y * dy + 4 * abs(v)
