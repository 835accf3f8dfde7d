"""Compiled arithmetic of a tape at real points, with a running bound on the error of each value.

It computes sums, products, quotients, changes of sign and choices, and returns at the first other operation.
About two nanoseconds an operation and point.
"""

from __future__ import annotations

import math
from typing import Annotated

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, State
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT

#: Modes: values alone, or with bounds on their errors.
PLAIN, BOUNDED = range(2)


class RunningState(State):
    """A tape at points: the value of a reference at a point is at reference · points + point.

    Constants follow the operations in reverse order: reference -1 is the last row.
    """

    mode: int
    points: int
    places: int  # number of inputs, operations and constants
    rows: Annotated[Integers, Axes(4)]  # code and three arguments of each input and operation, (references, 4)
    # range of operations of a call
    begin: int = 0
    end: int
    # values, (places · points,)
    real: Floats
    errors: Floats  # bounds on their errors, in units of rounding
    # values beyond the first are infinite; those below the second have errors of their own size
    largest: float = math.inf
    smallest: float = 0.0


@compiled
def _place(state: RunningState, reference: int) -> int:
    """Return the index of a reference's first value."""
    return (reference if reference >= 0 else reference + state.places) * state.points


@compiled
def _run(state: RunningState, r: int, code: int) -> None:
    """Compute a sum, difference, product, quotient or change of sign at all points."""
    start, first, second = _place(state, r), _place(state, state.rows[r, 1]), _place(state, state.rows[r, 2])
    values = state.real
    for p in range(state.points):
        x, y = values[first + p], values[second + p]
        if code == ADD:
            values[start + p] = x + y
        elif code == SUBTRACT:
            values[start + p] = x - y
        elif code == MULTIPLY:
            values[start + p] = x * y
        elif code == DIVIDE:
            values[start + p] = x / y
        else:
            values[start + p] = -x
        if abs(values[start + p]) > state.largest:
            values[start + p] = math.inf if values[start + p] > 0.0 else -math.inf


@compiled
def scaled_error(size: float, error: float) -> float:
    """Return an error multiplied by a factor; 0 if the factor is 0, even if the error is unbounded."""
    return 0.0 if size == 0.0 or error == 0.0 else size * error


@compiled
def bound_of(code: int, x: float, y: float, v: float, by_first: float, by_second: float) -> float:
    """Return a bound on the error of v: a sum, difference, product or quotient of x and y, with errors of their own."""
    if code == MULTIPLY:
        return scaled_error(abs(x), by_second) + scaled_error(abs(y), by_first) + abs(v)
    if code == DIVIDE:
        return (by_first + abs(v) * by_second) / abs(y) + abs(v)
    return by_first + by_second + abs(v)


@compiled
def _bound(state: RunningState, r: int, code: int) -> None:
    """Compute the bounds of an operation whose values are known."""
    start, first, second = _place(state, r), _place(state, state.rows[r, 1]), _place(state, state.rows[r, 2])
    values, errors = state.real, state.errors
    for p in range(state.points):
        v, error = values[start + p], errors[first + p]
        if code != NEGATIVE:
            error = bound_of(code, values[first + p], values[second + p], v, error, errors[second + p])
        errors[start + p] = error
        size = abs(v)
        if size > state.largest:
            errors[start + p] = math.inf
        elif 0.0 < size < state.smallest:
            errors[start + p] += state.smallest


@compiled
def _choose(state: RunningState, r: int) -> None:
    """Select one of two values by a condition, at all points."""
    start, condition = _place(state, r), _place(state, state.rows[r, 1])
    first, second = _place(state, state.rows[r, 2]), _place(state, state.rows[r, 3])
    values, errors = state.real, state.errors
    for p in range(state.points):
        taken = first + p if values[condition + p] != 0.0 else second + p
        values[start + p] = values[taken]
        if state.mode == BOUNDED:
            errors[start + p] = errors[taken]


def run_operations(state: RunningState) -> int:
    """Run operations from `begin` on; return the first one that is not supported, or `end`."""
    for r in range(state.begin, state.end):
        code = state.rows[r, 0]
        if code in (ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE):
            _run(state, r, code)
            if state.mode == BOUNDED:
                _bound(state, r, code)
        elif code == SELECT:
            _choose(state, r)
        else:
            return r
    return state.end
