"""Values of a program at real points, each with a first-order bound on its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.resubstitution.compiled.bounds_state import BOUNDED, PLAIN, BoundsState
from accumulus.resubstitution.definitions import ADD, COPY, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from accumulus.rewriting.equivalence import SLACK, UNIT
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

__all__ = ["Reals", "agree", "operation", "run"]

Reals = NDArray[np.float64]

SELECT: Final = BY_NAME["select"].code
#: The relative step that shows how an elementary function magnifies errors.
STEP: Final = 1e-7
#: Of two values that have lost more than this, as a part of themselves, nothing can be said.
LOST: Final = 1e-3


def run(tape: Tape, points: Reals, *, bounds: bool = True) -> tuple[Reals, Reals]:
    """Values of a tape at real points, and bounds in units of rounding, (inputs and operations, points) each."""
    values = np.empty((len(tape) + len(tape.constants), len(points)))
    errors = np.zeros_like(values) if bounds else values
    values[: tape.inputs] = points.T
    values[len(tape) :] = np.array(tape.constants[::-1]).reshape(-1, 1)
    state = BoundsState(
        mode=BOUNDED if bounds else PLAIN,
        points=len(points),
        places=len(values),
        rows=rows_of(tape),
        begin=tape.inputs,
        end=len(tape),
        values=values.reshape(-1),
        errors=errors.reshape(-1),
    )
    arithmetic = kernel("resubstitution.bounds")
    with np.errstate(all="ignore"):
        while (r := arithmetic(state.address)) < len(tape):
            code, arguments = tape.codes[r], tape.arguments(r)
            at = [values[a] for a in arguments]
            if bounds:
                values[r], errors[r] = operation(code, at, [errors[a] for a in arguments])
            else:
                values[r] = OPERATIONS[code].by_numpy(*(_as_given(code, k, x) for k, x in enumerate(at)))
            state.begin = r + 1
    return values[: len(tape)], errors[: len(tape)]


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


def operation(code: int, at: Sequence[Reals], errors: Sequence[Reals]) -> tuple[Reals, Reals]:
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
    for k, error in enumerate(errors):
        if row.arguments[k] != "real":
            continue
        step = STEP * np.abs(at[k]) + 1e-300
        slopes = []
        for moved in (at[k] + step, at[k] - step):
            others = [*given[:k], moved, *given[k + 1 :]]
            slopes.append(np.abs(np.asarray(run(*others), float) - v) / step)
        slope = np.fmax(*slopes)  # at the border of a domain one of them is NaN
        total = total + _times(slope, error)
    return v, total


def _times(size: Reals, error: Reals) -> Reals:
    """What a factor makes of an error: nothing of one that is unbounded, if it is 0 itself."""
    return np.where((size == 0) | (error == 0), 0.0, size * error)
