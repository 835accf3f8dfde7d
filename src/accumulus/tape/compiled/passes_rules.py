"""The rules by which a tape's builders simplify operations, in compiled code.

`make` does what the builders of `accumulus.tape.tape.Tape` do, rule by rule, so that a tape comes out the same
whichever wrote it; the tests hold one against the other. Where those call each other, there is a loop here: a rule
either ends with a reference, or goes on with another operation.
"""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of
from accumulus.tape.compiled.passes_state import (
    ARITY,
    COMMUTATIVE,
    EVEN,
    JUMPS,
    ODD,
    QUOTIENT,
    SHARED_QUOTIENT,
    TAKE,
    PassesState,
)
from accumulus.tape.compiled.passes_tables import (
    MAGNITUDE,
    NEGATIVE,
    code_of,
    constant,
    fill,
    known,
    negative,
    number,
    record,
)
from accumulus.tape.operations import BY_NAME

__all__ = ["ASKED", "as_given", "run"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
POWER: Final = BY_NAME["power"].code
SQRT: Final = BY_NAME["sqrt"].code
SELECT: Final = BY_NAME["select"].code
EQUAL: Final = BY_NAME["equal"].code
NOT_EQUAL: Final = BY_NAME["not_equal"].code
NOT: Final = BY_NAME["logical_not"].code
AND: Final = BY_NAME["logical_and"].code
OR: Final = BY_NAME["logical_or"].code

#: The result of an operation on constants that the caller has to evaluate.
ASKED: Final = 1 << 62
#: Bits of a float's fraction.
FRACTION: Final = (1 << 52) - 1
#: Reciprocals below this are not taken for exact enough to multiply by.
LEAST: Final = 1e-300


@compiled
def is_power_of_two(value: float) -> bool:
    """Whether a number is one, or the negative of one."""
    bits = bits_of(value) & MAGNITUDE
    fraction = bits & FRACTION
    if bits <= FRACTION:  # subnormal, or 0
        return bits != 0 and fraction & (fraction - 1) == 0
    return fraction == 0 and abs(value) < math.inf


@compiled
def ask(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Leave an operation on constants to the caller: in the row behind the last."""
    fill(state.rows[state.length], code, a, b, c)
    return ASKED


@compiled
def is_nothing(state: PassesState, reference: int) -> bool:
    """As `Tape._is_nothing`."""
    bits = bits_of(number(state, reference))
    return bits & MAGNITUDE == 0 and (bits != 0 or state.signed_zeros == 0)


@compiled
def make(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """As `Tape.apply_code`; ASKED where constants have to be evaluated first."""
    # changes of sign of the result, one after the other as the builders make them
    negations = 0
    while True:
        if code == ADD:
            if a > b:
                a, b = b, a
            if a < 0:
                if b < 0:
                    result = constant(state, number(state, a) + number(state, b))
                    break
                if is_nothing(state, a):
                    result = b
                    break
            elif a == b:
                code, a = MULTIPLY, constant(state, 2.0)
                continue
            if code_of(state, b) == NEGATIVE:
                code, b = SUBTRACT, state.rows[b].first
            elif code_of(state, a) == NEGATIVE:
                code, a, b = SUBTRACT, b, state.rows[a].first
            else:
                result = record(state, code, a, b, 0)
                break
        elif code == SUBTRACT:
            if b < 0:
                code, b = ADD, constant(state, -number(state, b))
            elif a < 0 and is_nothing(state, a):
                result = negative(state, b)
                break
            elif code_of(state, b) == NEGATIVE:
                code, b = ADD, state.rows[b].first
            elif state.signed_zeros != 0:
                result = record(state, code, a, b, 0)
                break
            elif code_of(state, a) == NEGATIVE:
                code, a = ADD, state.rows[a].first
                negations += 1
            else:
                opposite = -1
                if a >= 0 and a != b and known(state, code, a, b) < 0:
                    opposite = known(state, code, b, a)
                if opposite >= 0:
                    result = opposite
                    negations += 1
                else:
                    result = record(state, code, a, b, 0)
                break
        elif code == MULTIPLY:
            if a > b:
                a, b = b, a
            if a < 0:
                factor = number(state, a)
                if b < 0:
                    result = constant(state, factor * number(state, b))
                    break
                if factor == 1.0:
                    result = b
                    break
                if factor == 0.0 and state.signed_zeros == 0:
                    result = constant(state, 0.0)
                    break
                if factor == -1.0:
                    result = negative(state, b)
                    break
                if code_of(state, b) != NEGATIVE:
                    result = record(state, code, a, b, 0)
                    break
                a, b = constant(state, -factor), state.rows[b].first
            elif code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                negations += 1
            elif code_of(state, b) == NEGATIVE:
                b = state.rows[b].first
                negations += 1
            else:
                result = record(state, code, a, b, 0)
                break
        elif code == DIVIDE:
            if b < 0:
                if a < 0:
                    result = ask(state, code, a, b, c)
                    break
                divisor = number(state, b)
                if is_power_of_two(divisor) and abs(1.0 / divisor) < math.inf:
                    code, b = MULTIPLY, constant(state, 1.0 / divisor)
                    continue
            elif code_of(state, b) == NEGATIVE:
                b = state.rows[b].first
                negations += 1
                continue
            if a < 0 and number(state, a) == 0.0 and state.signed_zeros == 0:
                result = constant(state, 0.0)
                break
            if a < 0 and number(state, a) == -1.0:
                a = constant(state, 1.0)
                negations += 1
            elif code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                negations += 1
            else:
                result = record(state, code, a, b, 0)
                break
        elif code == NEGATIVE:
            result = negative(state, a)
            break
        elif code == SELECT:
            if a >= 0 and b != c:
                result = record(state, code, a, b, c)
            else:
                result = c if a < 0 and number(state, a) == 0.0 else b
            break
        else:
            if code == POWER and b < 0 <= a:
                exponent = number(state, b)
                if exponent == 0.0:
                    result = constant(state, 1.0)
                    break
                if exponent == 1.0:
                    result = a
                    break
                if exponent == 2.0:
                    code, b = MULTIPLY, a
                    continue
                if exponent in (-0.5, -1.0):
                    b = record(state, SQRT, a, 0, 0) if exponent == -0.5 else a
                    code, a = DIVIDE, constant(state, 1.0)
                    continue
                if exponent == 0.5:
                    code, b = SQRT, 0
            elif code in (AND, OR):
                if a > b:
                    a, b = b, a
                if a < 0:
                    holds = number(state, a) != 0.0
                    result = b if holds == (code == AND) else constant(state, 1.0 if holds else 0.0)
                    break
                if a == b:
                    result = a
                    break
            elif code == NOT and a >= 0:
                other = code_of(state, a)
                if other == NOT:
                    result = state.rows[a].first
                    break
                if other in (EQUAL, NOT_EQUAL):
                    code = NOT_EQUAL if other == EQUAL else EQUAL
                    a, b = state.rows[a].first, state.rows[a].second
            properties = state.properties[code]
            arity = properties & ARITY
            if arity < 2:
                b = 0
            if a < 0 and (arity < 2 or b < 0):
                result = ask(state, code, a, b, c)
                break
            # the sign of either zero is 0
            parity = properties & (ODD | EVEN)
            if properties & JUMPS != 0 and state.signed_zeros != 0:
                parity = 0
            if parity != 0 and code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                if properties & ODD != 0:
                    negations += 1
            elif a > b and properties & COMMUTATIVE != 0:
                a, b = b, a
            result = record(state, code, a, b, 0)
            break
    if result == ASKED:
        state.negations = negations
        return result
    for _ in range(negations):
        result = negative(state, result)
    return result


@compiled
def run(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Reference of what a command says; ASKED where constants have to be evaluated first."""
    if code == TAKE:
        return a
    if code in (QUOTIENT, SHARED_QUOTIENT):
        shared = code == SHARED_QUOTIENT
        one = constant(state, 1.0)
        code = DIVIDE
        if code_of(state, b) == NEGATIVE and state.rows[b].first < 0:
            # a number whose sign was written as given; nobody could be asked for its reciprocal here
            b = negative(state, state.rows[b].first)
        if b < 0:
            divisor = number(state, b)
            if divisor != 0.0 and LEAST < abs(1.0 / divisor) < math.inf:
                code, b = MULTIPLY, constant(state, 1.0 / divisor)
        elif shared:
            code, b = MULTIPLY, make(state, DIVIDE, one, b, 0)
    return make(state, code, a, b, c)


@compiled
def as_given(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """The reference of an operation that nobody tries to simplify."""
    arity = state.properties[code] & ARITY
    return record(state, code, a, b if arity > 1 else 0, c if arity > 2 else 0)
