"""Compiled passes over a tape: many operations written at once, and marks spread along edges.

`make` does what the builders of `accumulus.tape.tape.Tape` do, rule by rule, so that a tape comes out the same
whichever wrote it; the tests hold one against the other. Where those call each other, there is a loop here: a rule
either ends with a reference, or goes on with another operation.
"""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.memory import bits_of, compiled, get, get_float, put, put_float, shifted_right, whole
from accumulus.tape.compiled.passes_slots import (
    ARITY,
    AT,
    CODE,
    COMMANDS,
    COMMUTATIVE,
    CONSTANT_BITS,
    CONSTANT_COUNT,
    CONSTANT_LIMIT,
    CONSTANT_TABLE,
    CONSTANTS,
    COUNT,
    DONE,
    END,
    EVEN,
    FIRST_EDGE,
    FOLD,
    FOLD_CODE,
    FOLD_FIRST,
    FOLD_SECOND,
    FOLD_THIRD,
    FOLD_VALUE,
    FOLDED,
    FROM,
    FULL,
    GIVEN,
    INDEX,
    INPUTS,
    JUMPS,
    LENGTH,
    MARKS,
    MODE,
    NEGATIONS,
    ODD,
    ORDER,
    ORDERED,
    PROPERTIES,
    QUOTIENT,
    ROOM,
    ROW_LIMIT,
    ROWS,
    SHARED_QUOTIENT,
    SIGNED,
    SIGNED_ZEROS,
    SPREAD,
    TABLE,
    TABLE_BITS,
    TAKE,
    TO,
    VALUES,
    VERBATIM,
    WAITING,
    WIDTH,
    WRITE,
)
from accumulus.tape.operations import BY_NAME

__all__ = ["perform"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
POWER: Final = BY_NAME["power"].code
SQRT: Final = BY_NAME["sqrt"].code
SELECT: Final = BY_NAME["select"].code
EQUAL: Final = BY_NAME["equal"].code
NOT_EQUAL: Final = BY_NAME["not_equal"].code
NOT: Final = BY_NAME["logical_not"].code
AND: Final = BY_NAME["logical_and"].code
OR: Final = BY_NAME["logical_or"].code

#: What `make` returns for an operation on constants that the caller has to evaluate.
ASKED: Final = 1 << 62
#: Bits of a float below its sign, and those of its fraction.
MAGNITUDE: Final = (1 << 63) - 1
FRACTION: Final = (1 << 52) - 1
#: Reciprocals below this are not taken for exact enough to multiply by.
LEAST: Final = 1e-300


# Constants ---------------------------------------------------------------------------------------------------------


@compiled
def number(block: int, reference: int) -> float:
    """Value of a constant."""
    return get_float(get(block, CONSTANTS), -1 - reference)


@compiled
def key_of(value: float) -> int:
    """Equal for constants that have one reference: equal bits, or both no number."""
    return bits_of(math.nan if math.isnan(value) else value)


@compiled
def constant_place(block: int, key: int) -> int:
    """Where the table of constants has a key, or would have it."""
    table, bits = get(block, CONSTANT_TABLE), get(block, CONSTANT_BITS)
    x = key ^ shifted_right(key, 29)
    place = shifted_right(x * 0x2545F4914F6CDD1D, 64 - bits)
    while True:
        found = get(table, place)
        if found == 0 or key_of(get_float(get(block, CONSTANTS), found - 1)) == key:
            return place
        place = (place + 1) & ((1 << bits) - 1)


@compiled
def constant(block: int, value: float) -> int:
    """As `Tape.constant`."""
    table = get(block, CONSTANT_TABLE)
    place = constant_place(block, key_of(value))
    found = get(table, place)
    if found == 0:
        found = get(block, CONSTANT_COUNT) + 1
        put_float(get(block, CONSTANTS), found - 1, value)
        put(block, CONSTANT_COUNT, found)
        put(table, place, found)
    return -found


@compiled
def is_power_of_two(value: float) -> bool:
    """Whether a number is one, or the negative of one."""
    bits = bits_of(value) & MAGNITUDE
    fraction = bits & FRACTION
    if bits <= FRACTION:  # subnormal, or 0
        return bits != 0 and fraction & (fraction - 1) == 0
    return fraction == 0 and abs(value) < math.inf


# Operations --------------------------------------------------------------------------------------------------------


@compiled
def code_of(block: int, reference: int) -> int:
    """Operation of a reference; that of constants is none."""
    return get(get(block, ROWS) + 8 * WIDTH * reference, 0) if reference >= 0 else 0


@compiled
def argument(block: int, reference: int, k: int) -> int:
    """Argument of an operation."""
    return get(get(block, ROWS) + 8 * WIDTH * reference, k + 1)


@compiled
def place_of(block: int, code: int, a: int, b: int, c: int) -> int:
    """Where the table has an operation, or would have it."""
    table, bits, rows = get(block, TABLE), get(block, TABLE_BITS), get(block, ROWS)
    x = (a * 0x9E3779B97F4A7C15) ^ (b * 0x2545F4914F6CDD1D) ^ (c * 0x632BE59BD9B4E019) ^ (code << 56)
    x ^= shifted_right(x, 29)
    place = shifted_right(x * 0x2545F4914F6CDD1D, 64 - bits)
    while True:
        reference = get(table, place) - 1
        row = rows + 8 * WIDTH * reference
        if reference < 0:
            return place
        if get(row, 0) == code and get(row, 1) == a and get(row, 2) == b and get(row, 3) == c:
            return place
        place = (place + 1) & ((1 << bits) - 1)


@compiled
def record(block: int, code: int, a: int, b: int, c: int) -> int:
    """The reference of an operation that nothing simplifies."""
    place = place_of(block, code, a, b, c)
    reference = get(get(block, TABLE), place) - 1
    if reference < 0:
        reference = get(block, LENGTH)
        row = get(block, ROWS) + 8 * WIDTH * reference
        put(row, 0, code)
        put(row, 1, a)
        put(row, 2, b)
        put(row, 3, c)
        put(block, LENGTH, reference + 1)
        put(get(block, TABLE), place, reference + 1)
    return reference


@compiled
def negative(block: int, a: int) -> int:
    """As `Tape.negative`."""
    if a < 0:
        return constant(block, -number(block, a))
    if code_of(block, a) == NEGATIVE:
        return argument(block, a, whole(0))
    return record(block, whole(NEGATIVE), a, whole(0), whole(0))


@compiled
def ask(block: int, code: int, a: int, b: int, c: int) -> int:
    """Leave an operation on constants to the caller."""
    put(block, FOLD_CODE, code)
    put(block, FOLD_FIRST, a)
    put(block, FOLD_SECOND, b)
    put(block, FOLD_THIRD, c)
    return ASKED


@compiled
def is_nothing(block: int, reference: int) -> bool:
    """As `Tape._is_nothing`."""
    bits = bits_of(number(block, reference))
    return bits & MAGNITUDE == 0 and (bits != 0 or get(block, SIGNED_ZEROS) == 0)


@compiled
def make(block: int, code: int, a: int, b: int, c: int) -> int:
    """As `Tape.apply_code`; ASKED where constants have to be evaluated first."""
    # changes of sign of the result, one after the other as the builders make them
    negations = 0
    while True:
        if code == ADD:
            if a > b:
                a, b = b, a
            if a < 0:
                if b < 0:
                    result = constant(block, number(block, a) + number(block, b))
                    break
                if is_nothing(block, a):
                    result = b
                    break
            elif a == b:
                code, a = whole(MULTIPLY), constant(block, 2.0)
                continue
            if code_of(block, b) == NEGATIVE:
                code, b = whole(SUBTRACT), argument(block, b, whole(0))
            elif code_of(block, a) == NEGATIVE:
                code, a, b = whole(SUBTRACT), b, argument(block, a, whole(0))
            else:
                result = record(block, code, a, b, whole(0))
                break
        elif code == SUBTRACT:
            if b < 0:
                code, b = whole(ADD), constant(block, -number(block, b))
            elif a < 0 and is_nothing(block, a):
                result = negative(block, b)
                break
            elif code_of(block, b) == NEGATIVE:
                code, b = whole(ADD), argument(block, b, whole(0))
            elif get(block, SIGNED_ZEROS):
                result = record(block, code, a, b, whole(0))
                break
            elif code_of(block, a) == NEGATIVE:
                code, a = whole(ADD), argument(block, a, whole(0))
                negations += 1
            else:
                opposite = -1
                known = get(get(block, TABLE), place_of(block, code, a, b, whole(0))) - 1
                if a >= 0 and a != b and known < 0:
                    opposite = get(get(block, TABLE), place_of(block, code, b, a, whole(0))) - 1
                if opposite >= 0:
                    result = opposite
                    negations += 1
                else:
                    result = record(block, code, a, b, whole(0))
                break
        elif code == MULTIPLY:
            if a > b:
                a, b = b, a
            if a < 0:
                factor = number(block, a)
                if b < 0:
                    result = constant(block, factor * number(block, b))
                    break
                if factor == 1.0:
                    result = b
                    break
                if factor == 0.0 and get(block, SIGNED_ZEROS) == 0:
                    result = constant(block, 0.0)
                    break
                if factor == -1.0:
                    result = negative(block, b)
                    break
                if code_of(block, b) != NEGATIVE:
                    result = record(block, code, a, b, whole(0))
                    break
                a, b = constant(block, -factor), argument(block, b, whole(0))
            elif code_of(block, a) == NEGATIVE:
                a = argument(block, a, whole(0))
                negations += 1
            elif code_of(block, b) == NEGATIVE:
                b = argument(block, b, whole(0))
                negations += 1
            else:
                result = record(block, code, a, b, whole(0))
                break
        elif code == DIVIDE:
            if b < 0:
                if a < 0:
                    result = ask(block, code, a, b, c)
                    break
                divisor = number(block, b)
                if is_power_of_two(divisor) and abs(1.0 / divisor) < math.inf:
                    code, b = whole(MULTIPLY), constant(block, 1.0 / divisor)
                    continue
            elif code_of(block, b) == NEGATIVE:
                b = argument(block, b, whole(0))
                negations += 1
                continue
            if a < 0 and number(block, a) == 0.0 and get(block, SIGNED_ZEROS) == 0:
                result = constant(block, 0.0)
                break
            if a < 0 and number(block, a) == -1.0:
                a = constant(block, 1.0)
                negations += 1
            elif code_of(block, a) == NEGATIVE:
                a = argument(block, a, whole(0))
                negations += 1
            else:
                result = record(block, code, a, b, whole(0))
                break
        elif code == NEGATIVE:
            result = negative(block, a)
            break
        elif code == SELECT:
            if a >= 0 and b != c:
                result = record(block, code, a, b, c)
            else:
                result = c if a < 0 and number(block, a) == 0.0 else b
            break
        else:
            if code == POWER and b < 0 <= a:
                exponent = number(block, b)
                if exponent == 0.0:
                    result = constant(block, 1.0)
                    break
                if exponent == 1.0:
                    result = a
                    break
                if exponent == 2.0:
                    code, b = whole(MULTIPLY), a
                    continue
                if exponent in (-0.5, -1.0):
                    b = record(block, whole(SQRT), a, whole(0), whole(0)) if exponent == -0.5 else a
                    code, a = whole(DIVIDE), constant(block, 1.0)
                    continue
                if exponent == 0.5:
                    code, b = whole(SQRT), whole(0)
            elif code in (AND, OR):
                if a > b:
                    a, b = b, a
                if a < 0:
                    holds = number(block, a) != 0.0
                    result = b if holds == (code == AND) else constant(block, 1.0 if holds else 0.0)
                    break
                if a == b:
                    result = a
                    break
            elif code == NOT and a >= 0:
                other = code_of(block, a)
                if other == NOT:
                    result = argument(block, a, whole(0))
                    break
                if other in (EQUAL, NOT_EQUAL):
                    code = NOT_EQUAL if other == EQUAL else EQUAL
                    a, b = argument(block, a, whole(0)), argument(block, a, whole(1))
            properties = get(get(block, PROPERTIES), code)
            arity = properties & ARITY
            if arity < 2:
                b = whole(0)
            if a < 0 and (arity < 2 or b < 0):
                result = ask(block, code, a, b, c)
                break
            # the sign of either zero is 0
            parity = properties & (ODD | EVEN)
            if properties & JUMPS and get(block, SIGNED_ZEROS):
                parity = 0
            if parity and code_of(block, a) == NEGATIVE:
                a = argument(block, a, whole(0))
                if properties & ODD:
                    negations += 1
            elif a > b and properties & COMMUTATIVE:
                a, b = b, a
            result = record(block, code, a, b, whole(0))
            break
    if result == ASKED:
        put(block, NEGATIONS, negations)
        return result
    for _ in range(negations):
        result = negative(block, result)
    return result


@compiled
def run(block: int, code: int, a: int, b: int, c: int) -> int:
    """Reference of what a command says."""
    if code == TAKE:
        return a
    if code in (QUOTIENT, SHARED_QUOTIENT):
        shared = code == SHARED_QUOTIENT
        one = constant(block, 1.0)
        code = DIVIDE
        if b < 0:
            reciprocal = 1.0 / number(block, b)
            if LEAST < abs(reciprocal) < math.inf:
                code, b = whole(MULTIPLY), constant(block, reciprocal)
        elif shared:
            code, b = whole(MULTIPLY), make(block, whole(DIVIDE), one, b, whole(0))
    return make(block, code, a, b, c)


@compiled
def as_given(block: int, code: int, a: int, b: int, c: int) -> int:
    """The reference of an operation that nobody tries to simplify."""
    arity = get(get(block, PROPERTIES), code) & ARITY
    return record(block, code, a, b if arity > 1 else whole(0), c if arity > 2 else whole(0))


@compiled
def value_at(block: int, place: int) -> int:
    """Reference that an argument of a command stands for: a value before it, or a constant."""
    return get(get(block, VALUES), place) if place >= 0 else place


@compiled
def write(block: int) -> int:
    """Run commands from AT to END, each of which has one more of the VALUES."""
    commands, values, given = get(block, COMMANDS), get(block, VALUES), get(block, GIVEN)
    for t in range(get(block, AT), get(block, END)):
        put(block, AT, t)
        if get(block, LENGTH) + ROOM > get(block, ROW_LIMIT):
            return FULL
        if get(block, CONSTANT_COUNT) + ROOM > get(block, CONSTANT_LIMIT):
            return FULL
        if get(block, FOLDED):
            put(block, FOLDED, 0)
            result = constant(block, get_float(block, FOLD_VALUE))
            for _ in range(get(block, NEGATIONS)):
                result = negative(block, result)
        else:
            row = commands + 8 * WIDTH * t
            a, b, c = value_at(block, get(row, 1)), value_at(block, get(row, 2)), value_at(block, get(row, 3))
            code = get(row, 0)
            if code & VERBATIM:
                result = as_given(block, code & CODE, a, b, c)
            else:
                put(block, SIGNED_ZEROS, code & SIGNED)
                result = run(block, code & CODE, a, b, c)
                if result == ASKED:
                    return FOLD
        put(values, given + t, result)
    put(block, AT, get(block, END))
    return DONE


@compiled
def index(block: int) -> None:
    """Enter what is there into empty tables."""
    for k in range(get(block, CONSTANT_COUNT)):
        key = key_of(get_float(get(block, CONSTANTS), k))
        put(get(block, CONSTANT_TABLE), constant_place(block, key), k + 1)
    for reference in range(get(block, INPUTS), get(block, LENGTH)):
        row = get(block, ROWS) + 8 * WIDTH * reference
        place = place_of(block, get(row, 0), get(row, 1), get(row, 2), get(row, 3))
        put(get(block, TABLE), place, reference + 1)


@compiled
def spread(block: int) -> None:
    """Mark where each edge leads to whose start is marked, edge by edge."""
    marks, start, to = get(block, MARKS), get(block, FROM), get(block, TO)
    for t in range(get(block, COUNT)):
        if get(marks, get(start, t)):
            put(marks, get(to, t), 1)


@compiled
def sort(block: int) -> None:
    """Append vertices to ORDER as soon as they wait for none; `FROM` has the starts of edges, grouped by their ends."""
    first, start = get(block, FIRST_EDGE), get(block, FROM)
    waiting, order, count = get(block, WAITING), get(block, ORDER), get(block, ORDERED)
    t = 0
    while t < count:
        v = get(order, t)
        for edge in range(get(first, v), get(first, v + 1)):
            user = get(start, edge)
            put(waiting, user, get(waiting, user) - 1)
            if get(waiting, user) == 0:
                put(order, count, user)
                count += 1
        t += 1
    put(block, ORDERED, count)


def perform(block: int) -> int:
    """Do what MODE says; of WRITE, returns how it ended."""
    mode = get(block, MODE)
    if mode == WRITE:
        return write(block)
    if mode == INDEX:
        index(block)
    elif mode == SPREAD:
        spread(block)
    else:
        sort(block)
    return DONE
