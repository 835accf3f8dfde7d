"""Values of a program at real points, each with a first-order bound on its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.resubstitution.compiled.bounds_state import BOUNDED, PLAIN, BoundsState
from accumulus.resubstitution.definitions import ADD, COPY, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from accumulus.rewriting.equivalence import SLACK, UNIT
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

__all__ = ["DOUBLE", "LOST", "SINGLE", "SPANS", "Reals", "Runs", "Span", "agree", "operation", "run", "within"]

Reals = NDArray[np.float64]


class Span(NamedTuple):
    """Numbers of a type with all their digits: the `largest` and the `smallest` that is positive.

    Attributes:
        has_rounded_angles: whether angles are never known better than to a unit of rounding, or none could be a sum.
    """

    largest: float
    smallest: float
    has_rounded_angles: bool = False


#: Doubles that overflow are infinite here, too.
DOUBLE: Final = Span(math.inf, float(np.finfo(np.float64).tiny))
SINGLE: Final = Span(float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny))
SPANS: Final = {"float64": DOUBLE, "float32": SINGLE}
SELECT: Final = BY_NAME["select"].code
#: The relative step that shows how an elementary function magnifies errors.
STEP: Final = 1e-7
#: Functions of angles.
_OF_ANGLES: Final = frozenset(BY_NAME[name].code for name in ("sin", "cos", "tan"))
#: Of two values that have lost more than this, as a part of themselves, nothing can be said.
LOST: Final = 1e-3


class Runs:
    """Runs of a tape, each at as many real points as the others, in the same memory.

    Args:
        count: of the points.
        bounds: whether there are bounds on errors, too.
    """

    def __init__(self, tape: Tape, count: int, span: Span = DOUBLE, *, bounds: bool = True) -> None:
        self._tape, self._span, self._bounds = tape, span, bounds
        self._values = np.empty((len(tape) + len(tape.constants), count))
        self._errors = np.empty_like(self._values) if bounds else self._values
        self._state = BoundsState(
            mode=BOUNDED if bounds else PLAIN,
            points=count,
            places=len(self._values),
            rows=rows_of(tape),
            end=len(tape),
            values=self._values.reshape(-1),
            errors=self._errors.reshape(-1),
            largest=span.largest,
            smallest=span.smallest,
        )
        self._give(slice(len(tape), None), np.array(tape.constants[::-1]).reshape(-1, 1))

    def _give(self, places: slice, numbers: Reals) -> None:
        """Let inputs or constants be some numbers."""
        self._values[places] = numbers
        given = self._values[places]
        self._values[places], uncertain = within(self._span, given, np.zeros_like(given))
        if self._bounds:
            self._errors[places] = uncertain

    def at(self, points: Reals) -> tuple[Reals, Reals]:
        """Values and bounds at points, (inputs and operations, points) each; the next run overwrites them."""
        tape, state, span, values, errors = self._tape, self._state, self._span, self._values, self._errors
        self._give(slice(tape.inputs), points.T)
        state.begin = tape.inputs
        arithmetic = kernel("resubstitution.bounds")
        with np.errstate(all="ignore"):
            while (r := arithmetic(state.address)) < len(tape):
                code, arguments = tape.codes[r], tape.arguments(r)
                at = [values[a] for a in arguments]
                if self._bounds:
                    v, error = operation(code, at, [errors[a] for a in arguments], span)
                    values[r], errors[r] = within(span, v, error)
                else:
                    v = OPERATIONS[code].by_numpy(*(_as_given(code, k, x) for k, x in enumerate(at)))
                    values[r] = v if span.largest == math.inf else within(span, np.asarray(v, float), v)[0]
                state.begin = r + 1
        return values[: len(tape)], errors[: len(tape)]


def run(tape: Tape, points: Reals, span: Span = DOUBLE) -> tuple[Reals, Reals]:
    """Values of a tape at real points, and bounds in units of rounding, (inputs and operations, points) each.

    What is beyond the span is infinite, and what is below it has errors of its size.
    """
    return Runs(tape, len(points), span).at(points)


def within(span: Span, values: Reals, errors: Reals) -> tuple[Reals, Reals]:
    """Values and bounds as numbers of a type have them: what overflows is infinite, what vanishes has lost digits."""
    size = np.abs(values)
    if span.largest == math.inf:
        is_small = (size < span.smallest) & (size > 0.0)
        return values, np.where(is_small, errors + span.smallest, errors) if is_small.any() else errors
    values = np.where(size > span.largest, np.copysign(np.inf, values), values)
    errors = np.where((size < span.smallest) & (size > 0.0), errors + span.smallest, errors)
    return values, np.where(size > span.largest, np.inf, errors)


def agree(a: Reals, bound: Reals, b: Reals, other: Reals) -> NDArray[np.bool_]:
    """Whether two values are one up to rounding, as far as their bounds say anything."""
    with np.errstate(all="ignore"):
        allowed = SLACK * UNIT * (bound + other)
        says = np.isfinite(a) & np.isfinite(b) & (allowed < LOST * np.fmax(np.abs(a), np.abs(b)))
        same: NDArray[np.bool_] = ~says | (np.abs(a - b) <= allowed)
    return same


def _as_given(code: int, place: int, x: Reals) -> Any:
    """An argument as the operation takes it: truths are numbers here."""
    return x != 0 if OPERATIONS[code].arguments[place] == "boolean" else x


def operation(code: int, at: Sequence[Reals], errors: Sequence[Reals], span: Span = DOUBLE) -> tuple[Reals, Reals]:
    """What an operation makes of values at all points, and the bound of that, to first order."""
    if code == COPY:
        return at[0], errors[0]
    row = OPERATIONS[code]
    if code == ADD:
        v = at[0] + at[1]
        return v, errors[0] + errors[1] + np.abs(v)
    if code == SUBTRACT:
        v = at[0] - at[1]
        return v, errors[0] + errors[1] + np.abs(v)
    if code == MULTIPLY:
        v = at[0] * at[1]
        return v, _times(np.abs(at[0]), errors[1]) + _times(np.abs(at[1]), errors[0]) + np.abs(v)
    if code == DIVIDE:
        v = at[0] / at[1]
        return v, (errors[0] + np.abs(v) * errors[1]) / np.abs(at[1]) + np.abs(v)
    if code == NEGATIVE:
        return -at[0], errors[0]
    if code == SELECT:
        taken = at[0] != 0
        return np.where(taken, at[1], at[2]), np.where(taken, errors[1], errors[2])
    run = row.by_numpy
    given = [_as_given(code, k, x) for k, x in enumerate(at)]
    v = np.asarray(run(*given), float)
    if row.jumps or row.result == "boolean":
        return v, np.zeros_like(v)
    total = 2 * np.abs(v)
    is_rounded = span.has_rounded_angles and code in _OF_ANGLES
    for k, error in enumerate(errors):
        if row.arguments[k] != "real":
            continue
        step = STEP * np.abs(at[k]) + 1e-300
        slopes = []
        for moved in (at[k] + step, at[k] - step):
            others = [*given[:k], moved, *given[k + 1 :]]
            slopes.append(np.abs(np.asarray(run(*others), float) - v) / step)
        slope = np.fmax(*slopes)  # at the border of a domain one of them is NaN
        total = total + _times(slope, np.maximum(error, np.abs(at[k])) if is_rounded else error)
    return v, total


def _times(size: Reals, error: Reals) -> Reals:
    """What a factor makes of an error: nothing of one that is unbounded, if it is 0 itself."""
    return np.where((size == 0) | (error == 0), 0.0, size * error)
