"""Compiled reading of tapes: which value each operation has, and how the tape defines it.

What is not told by its value is told by its form: the operation and the values that it takes. See
`accumulus.resubstitution.values`. About a microsecond an operation.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.resubstitution.compiled.reading_state import COPY, FIXED, INDEX, OTHER, ReadingState
from accumulus.resubstitution.compiled.reading_values import (
    find,
    find_form,
    improve,
    index,
    input_of,
    new,
    note_form,
    number_of,
    value_of_reference,
)
from accumulus.tape.operations import BY_NAME

__all__ = ["perform"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code


@compiled
def normal(state: ReadingState, node: int, code: int, a: int, b: int, c: int, sign: int) -> None:
    """Write a definition behind the others, in one way: as `accumulus.resubstitution.definitions.normal` has it."""
    if code in (ADD, MULTIPLY) and abs(a) > abs(b):
        a, b = b, a
    if code in (MULTIPLY, DIVIDE):
        sign = sign if (a > 0) == (b > 0) else -sign
        a, b = abs(a), abs(b)
    elif code == ADD and a < 0:
        sign, a, b = -sign, -a, -b
    made = state.made[state.made_count]
    made.node = node
    made.code = code
    made.first = a
    made.second = b
    made.third = c
    made.sign = sign
    made.fixed = 0


@compiled
def trivial(state: ReadingState, code: int, a: int, b: int) -> int:
    """What an operation makes of equal values, of 0 and of 1, wherever it is defined; 0 of all others."""
    if code not in (ADD, MULTIPLY, DIVIDE):
        return 0
    zero, one = number_of(state, 0.0), number_of(state, 1.0)
    if not (state.value_finite[abs(a)] and state.value_finite[abs(b)]):
        return 0  # what is undefined in places stays so
    if code == ADD:
        if a == -b:
            return zero
        return b if abs(a) == zero else a if abs(b) == zero else 0
    sign = 1 if (a > 0) == (b > 0) else -1
    if abs(a) == zero or (code == MULTIPLY and abs(b) == zero):
        return zero
    if abs(b) == one:
        return sign * abs(a)
    if code == MULTIPLY:
        return sign * abs(b) if abs(a) == one else 0
    return sign * one if abs(a) == abs(b) else 0


@compiled
def value_of(state: ReadingState, r: int, code: int, a: int, b: int, c: int) -> int:
    """The value of an operation on values."""
    value = find_form(state, code, a, b, c)
    if value != 0:
        return value
    if not state.told[r]:
        return note_form(state, code, a, b, c, new(state, r, 1.0, False))
    sign = 1 if state.real[r * state.complex_points] > 0.0 else -1
    node = find(state, r, float(sign))
    if node == 0:
        node = new(state, r, float(sign), True)
    else:
        improve(state, node, r, float(sign))
    return note_form(state, code, a, b, c, sign * node)


@compiled
def exact_value(state: ReadingState, r: int, code: int, a: int, b: int, c: int) -> int:
    """The value of what is rounded as it is written; 0 if no base has it."""
    normal(state, 0, code, a, b, c, 1)
    made = state.made[state.made_count]
    sign = made.sign
    node = find_form(state, FIXED + made.code, made.first, made.second, made.third)
    if node == 0:
        if not state.is_base:
            return 0
        node = new(state, r, float(sign), False)
        note_form(state, FIXED + made.code, made.first, made.second, made.third, node)
        made.node = node
        made.sign = 1
        made.fixed = 1
        state.made_count += 1
    return sign * node


@compiled
def read(state: ReadingState, r: int) -> bool:
    """Find the value of an operation; whether it may be there."""
    code, a, b, c = state.rows[r, 0], state.rows[r, 1], state.rows[r, 2], state.rows[r, 3]
    fixed = state.fixed[r] != 0
    if code == NEGATIVE:
        state.meanings[r] = -value_of_reference(state, False, a)
        state.exact[r] = -value_of_reference(state, True, a)
        return True
    arity = state.arities[code]
    first = value_of_reference(state, fixed, a)
    second = value_of_reference(state, fixed, b) if arity > 1 else 0
    third = value_of_reference(state, fixed, c) if arity > 2 else 0
    if code == SUBTRACT:
        code, second = ADD, -second
    if fixed:
        exact = exact_value(state, r, code, first, second, third)
        if exact == 0:
            return False
        state.exact[r] = exact
        code, first, second, third = COPY, exact, 0, 0
    value = trivial(state, code, first, second)
    if value == 0:
        value = value_of(state, r, code, first, second, third)
    state.meanings[r] = value
    if not fixed:
        state.exact[r] = value
    node = abs(value)
    if state.kinds[node] == OTHER and node not in (abs(first), abs(second), abs(third)):
        normal(state, node, code, first, second, third, 1 if value > 0 else -1)
        state.made_count += 1
    return True


def perform(state: ReadingState) -> int:
    """Fill the tables, or read a tape; returns 0 if what is rounded as written is written in another way there."""
    if state.mode == INDEX:
        index(state)
        return 1
    state.made_count = 0
    for r in range(state.inputs):
        state.meanings[r] = state.exact[r] = input_of(state, r)
    for r in range(state.inputs, state.size):
        if not read(state, r):
            return 0
    for k in range(state.output_count):
        state.outputs[k] = value_of_reference(state, k < state.kept_outputs, state.outputs[k])
    return 1
