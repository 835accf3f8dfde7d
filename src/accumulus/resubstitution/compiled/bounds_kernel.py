"""Compiled arithmetic of a tape at real points, with first-order bounds on the error of each value.

Sums, products, quotients, changes of sign and choices; at the first operation that is none of these it hands back.
About two nanoseconds an operation and point.
"""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.resubstitution.compiled.bounds_state import BOUNDED, BoundsState
from accumulus.tape.operations import BY_NAME

__all__ = ["perform"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
SELECT: Final = BY_NAME["select"].code


@compiled
def place(state: BoundsState, reference: int) -> int:
    """Where the values of a reference begin."""
    return (reference if reference >= 0 else reference + state.places) * state.points


@compiled
def run_arithmetic(state: BoundsState, r: int, code: int) -> None:
    """A sum, difference, product, quotient or change of sign at all points."""
    own, first, second = place(state, r), place(state, state.rows[r, 1]), place(state, state.rows[r, 2])
    values = state.values
    for p in range(state.points):
        x, y = values[first + p], values[second + p]
        if code == ADD:
            values[own + p] = x + y
        elif code == SUBTRACT:
            values[own + p] = x - y
        elif code == MULTIPLY:
            values[own + p] = x * y
        elif code == DIVIDE:
            values[own + p] = x / y
        else:
            values[own + p] = -x
        if abs(values[own + p]) > state.largest:
            values[own + p] = math.inf if values[own + p] > 0.0 else -math.inf


@compiled
def times(size: float, error: float) -> float:
    """What a factor makes of an error: nothing of one that is unbounded, if it is 0 itself."""
    return 0.0 if size == 0.0 or error == 0.0 else size * error


@compiled
def bound_arithmetic(state: BoundsState, r: int, code: int) -> None:
    """Bounds of one of these, once its values are there."""
    own, first, second = place(state, r), place(state, state.rows[r, 1]), place(state, state.rows[r, 2])
    values, errors = state.values, state.errors
    for p in range(state.points):
        size, by_first, by_second = abs(values[own + p]), errors[first + p], errors[second + p]
        if code == MULTIPLY:
            of_first, of_second = times(abs(values[second + p]), by_first), times(abs(values[first + p]), by_second)
            errors[own + p] = of_second + of_first + size
        elif code == DIVIDE:
            errors[own + p] = (by_first + size * by_second) / abs(values[second + p]) + size
        elif code == NEGATIVE:
            errors[own + p] = by_first
        else:
            errors[own + p] = by_first + by_second + size
        if size > state.largest:
            errors[own + p] = math.inf
        elif 0.0 < size < state.smallest:
            errors[own + p] += state.smallest


@compiled
def choose(state: BoundsState, r: int) -> None:
    """One of two values, by a third, at all points."""
    own, condition = place(state, r), place(state, state.rows[r, 1])
    first, second = place(state, state.rows[r, 2]), place(state, state.rows[r, 3])
    for p in range(state.points):
        taken = (first if state.values[condition + p] != 0.0 else second) + p
        state.values[own + p] = state.values[taken]
        if state.mode == BOUNDED:
            state.errors[own + p] = state.errors[taken]


def perform(state: BoundsState) -> int:
    """Run operations from `begin` on; returns the first that is left, `end` if there is none."""
    for r in range(state.begin, state.end):
        code = state.rows[r, 0]
        if code in (ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE):
            run_arithmetic(state, r, code)
            if state.mode == BOUNDED:
                bound_arithmetic(state, r, code)
        elif code == SELECT:
            choose(state, r)
        else:
            return r
    return state.end
