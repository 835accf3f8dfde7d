"""Tapes at random complex points, with a bound on the rounding error of each value.

Functions have `accumulus.rewriting.stand_ins`. Arithmetic is done at all points in compiled code, the few functions
that a tape has in Python, point by point.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import VerificationError
from accumulus.native.machine import kernel
from accumulus.rewriting.compiled.running_kernel import RunningState
from accumulus.rewriting.stand_ins import COMPARISONS, FUNCTIONS, JUMPS, Function, comparison, jump, size
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

__all__ = ["SLACK", "UNIT", "Run"]

#: By how many units of rounding of the running bound results may differ; first-order bounds hold to a small factor.
SLACK: Final = 16.0
UNIT: Final = 2.0**-53
SLACK_UNIT: Final = SLACK * UNIT
#: The relative step that shows how an elementary function magnifies errors.
STEP: Final = 1e-6

_SQRT, _POWER, _SELECT, _ATTACH = (BY_NAME[name].code for name in ("sqrt", "power", "select", "attach"))
_IS_TRUTH: Final = np.array([row.result == "boolean" for row in OPERATIONS])


class Run:
    """One tape at some points.

    Args:
        points: complex, (points, inputs).
        oracles: of each point: by which floor, ceil, sign and fmod give arbitrary numbers.
        holds: of each point: what is known of comparisons; added to if there are choices.
        chosen: of each point: comparisons by reference, and whether they are to hold. If None, a comparison that is not
            known is refused.
        functions: what stands in for functions, by the code of the operation.

    Attributes:
        real, imaginary: values of inputs, operations and constants in the order of `RunningState`, (places, points);
            of truths 0 or 1.
        errors: bounds on their errors, in units of rounding.
        sizes: their magnitudes.
        is_truth: 1 for those that are truths, else 0.
    """

    def __init__(
        self,
        tape: Tape,
        points: Sequence[Sequence[complex]],
        oracles: Sequence[int],
        holds: Sequence[dict[Hashable, bool]],
        chosen: Sequence[Mapping[int, bool]] | None,
        functions: Mapping[int, Function] = FUNCTIONS,
    ) -> None:
        self._functions = functions
        self.tape, self.points = tape, len(points)
        self._oracles, self._holds, self._chosen = oracles, holds, chosen
        size, places = len(tape), len(tape) + len(tape.constants)
        self._rows = rows_of(tape)
        real, imaginary, self.errors, self.sizes = np.zeros((4, places, self.points))
        self.real, self.imaginary = real, imaginary
        at = np.array(points, complex).reshape(self.points, tape.inputs).T
        real[: tape.inputs], imaginary[: tape.inputs] = at.real, at.imag
        real[size:] = np.array(tape.constants[::-1]).reshape(-1, 1)
        self.sizes[: tape.inputs] = np.hypot(at.real, at.imag)
        self.sizes[size:] = np.abs(real[size:])
        self.is_truth = bytearray(places)
        self.is_truth[:size] = _IS_TRUTH[self._rows[:, 0]].tobytes()
        # numbers are read and written one by one faster there than in arrays
        numbers: Any = (real, imaginary, self.errors, self.sizes)
        self._parts = tuple(memoryview(each.reshape(-1)) for each in numbers)
        self._state = RunningState(
            points=self.points,
            places=places,
            rows=self._rows,
            begin=tape.inputs,
            end=size,
            real=real.reshape(-1),
            imaginary=imaginary.reshape(-1),
            errors=self.errors.reshape(-1),
            sizes=self.sizes.reshape(-1),
            rounding=SLACK_UNIT,
        )
        self._fill()

    def outputs(self) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Outputs and bounds on their errors, that of a constant being its own size, (points, outputs) each."""
        places = np.array(self.tape.outputs, np.int64)
        values = np.empty((len(places), self.points), complex)
        values.real, values.imag = self.real[places], self.imaginary[places]
        errors = np.where(places[:, np.newaxis] >= 0, self.errors[places], self.sizes[places])
        return values.T, errors.T

    def _fill(self) -> None:
        """Run the tape: compiled code as far as that goes, then one operation here, by turns."""
        state, run, end = self._state, kernel("rewriting.running"), len(self.tape)
        for r in np.flatnonzero((self._rows[:, 0] == _SELECT) | (self._rows[:, 0] == _ATTACH)).tolist():
            code, *arguments = self._rows[r].tolist()
            self.is_truth[r] = any(self.is_truth[k] for k in (arguments[1:] if code == _SELECT else arguments[:1]))
        while (r := run(state.address)) < end:
            code, a, b, _ = self._rows[r].tolist()
            for p in range(self.points):
                self._put(r, p, *self._operation(r, code, a, b, p))
            state.begin = r + 1

    def _at(self, reference: int, p: int) -> tuple[Any, float]:
        """The value of a reference at a point, and the bound on its error."""
        place = (reference if reference >= 0 else reference + len(self.is_truth)) * self.points + p
        real, imaginary, errors, _ = self._parts
        if self.is_truth[reference]:
            return bool(real[place]), 0.0
        return complex(real[place], imaginary[place]), errors[place]

    def _put(self, r: int, p: int, value: Any, error: float) -> None:
        place = r * self.points + p
        numbers = value.real, value.imag, error, size(value)
        for part, number in zip(self._parts, numbers, strict=True):
            part[place] = number

    def _operation(self, r: int, code: int, a: int, b: int, p: int) -> tuple[Any, float]:
        """Value and error of what is not arithmetic, at a point."""
        x, dx = self._at(a, p)
        try:
            if code in COMPARISONS:
                return self._compare(r, code, x, self._at(b, p)[0], p), 0.0
            if code in JUMPS:
                others = [self._at(b, p)[0]] if OPERATIONS[code].arity == 2 else []
                return jump(code, (x, *others), self._oracles[p]), 0.0
            if OPERATIONS[code].arity == 1:
                return _of_one(code, self._functions[code], x, dx)
            return _of_two(code, self._functions[code], x, dx, *self._at(b, p))
        except (OverflowError, ZeroDivisionError, ValueError):
            return complex(math.nan), math.inf

    def _compare(self, r: int, code: int, x: Any, y: Any, p: int) -> bool:
        key, negated = comparison(code, x, y)
        holds = self._holds[p]
        if key not in holds:
            if self._chosen is None:
                raise VerificationError(
                    f"{self.tape.name(r)} of the optimised tape is a comparison that was not there before, to the last "
                    "bit. This is a mistake of the optimiser; please report the function"
                )
            by_chance = bool(hash((self._oracles[p], key)) * 0x9E3779B97F4A7C15 >> 40 & 1)
            holds[key] = self._chosen[p].get(r, by_chance) != negated
        return holds[key] != negated


def _of_one(code: int, run: Function, x: Any, dx: float) -> tuple[Any, float]:
    """Value of an elementary function and its error."""
    if isinstance(x, bool):
        return run(x), 0.0
    if _is_real(x, dx):
        return _of_reals(code, (x,), (dx,))
    if _is_lost(x, dx) and (code == _SQRT or dx * UNIT > STEP):
        raise ZeroDivisionError
    v = run(x)
    return v, _slope(run, x, v) * dx + 4 * size(v)


def _of_two(code: int, run: Function, x: Any, dx: float, y: Any, dy: float) -> tuple[Any, float]:
    """Return the value and the bound of an operation of two arguments."""
    if isinstance(x, bool):
        return run(x, y), 0.0
    if _is_real(x, dx) and _is_real(y, dy):
        return _of_reals(code, (x, y), (dx, dy))
    if (_is_lost(x, dx) and (code == _POWER or dx * UNIT > STEP)) or (_is_lost(y, dy) and dy * UNIT > STEP):
        raise ZeroDivisionError
    v = run(x, y)
    by_x, by_y = _slope(lambda x: run(x, y), x, v), _slope(lambda y: run(x, y), y, v)
    return v, by_x * dx + by_y * dy + 4 * size(v)


def _is_real(z: Any, error: float) -> bool:
    """Return True if a value is a real number up to rounding: one that does not depend on the point."""
    return bool(abs(z.imag) <= SLACK * UNIT * error)


def _is_lost(z: Any, error: float) -> bool:
    """Return True if rounding has left no digit of a value: bounds of first order mean nothing for such a divisor."""
    return 2 * SLACK * UNIT * error >= size(z)


def _slope(run: Function, z: Any, v: Any) -> float:
    return size(run(z * (1 + STEP)) - v) / (STEP * size(z)) if z else 1.0


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
