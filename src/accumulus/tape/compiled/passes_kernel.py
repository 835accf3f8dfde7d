"""Compiled passes over a tape: writing many operations at once, and spreading marks along edges.

`_make` applies the rules of the builders of `accumulus.tape.tape.Tape`, so both write the same tape; the tests
compare them. Where builders call each other, this code loops: a rule either ends with a reference, or continues with
another operation.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Floats, Integers, Record, Records, State
from accumulus.native.words import bits_of, definition_hash, shifted_right
from accumulus.tape.operations import BY_NAME

#: Modes: fill the hash tables, run commands, spread marks along edges, sort vertices.
INDEX, WRITE, SPREAD, SORT = range(4)
#: Results of running commands: done; an operation on constants has to be evaluated (it is in the row after the last);
#: no room is left.
DONE, FOLD, FULL = range(3)
#: Commands beyond the table of operations: the argument itself; a quotient as in `accumulus.rewriting.canonical`, with
#: or without a shared reciprocal.
TAKE: Final = 0
QUOTIENT: Final = 254
SHARED_QUOTIENT: Final = 255
#: Flags of a command: zeros keep their sign; the operation is written without simplification.
SIGNED: Final = 256
VERBATIM: Final = 512
#: Mask of a command's code without these flags.
CODE: Final = 255
#: Largest number of rows and of constants that one command adds.
ROOM: Final = 8
#: Bits of an operation's properties; the number of arguments is below them.
ARITY: Final = 3
COMMUTATIVE, ODD, EVEN, JUMPS = 4, 8, 16, 32


class Row(Record):
    """An operation of a tape, or a command.

    Attributes:
        code: code of the operation.
        first, second, third: its arguments; 0 where it takes fewer.
    """

    code: int
    first: int
    second: int
    third: int


class PassesState(State):
    """A tape to write, or edges of a graph.

    Attributes:
        mode: one of the modes above.
        inputs: number of inputs of the tape.
        rows: rows by reference; the rows of inputs are ignored.
        length: number of rows.
        row_limit: capacity for rows.
        constants: the constant −1 − k is at k.
        constant_count, constant_limit: number of constants, and capacity.
        table, constant_table: hash tables of operations and of constants: 1 + reference, 1 + index, 0 for a free entry.
        table_bits, constant_bits: a table has 2 ** bits entries.
        properties: of the operations, by code.
        commands: commands to run; their arguments are indices of values, or constants.
        at, end: the next command, and the one after the last.
        values: references: the inputs, then the result of each command.
        input_count: number of inputs.
        signed_zeros: 1 if zeros keep their sign in the current command.
        negations: changes of sign to apply after the operation that the caller evaluates.
        answered: 1 if the caller has evaluated it.
        answer: the caller's value.
        marks: of the vertices, each a set of bits.
        start, to: ends of edges; for SORT the starts alone, grouped by target.
        count: number of edges for SPREAD.
        first_edge: begin of each vertex's group, (vertices + 1,).
        waiting: number of vertices that each vertex waits for.
        order, ordered: sorted vertices, and their number.
    """

    mode: int = 0
    inputs: int = 0
    rows: Records[Row] = Records.zeros(Row, 0)
    length: int = 0
    row_limit: int = 0
    constants: Floats = np.zeros(0)
    constant_count: int = 0
    constant_limit: int = 0
    table: Integers = NOTHING
    table_bits: int = 0
    constant_table: Integers = NOTHING
    constant_bits: int = 0
    properties: Integers = NOTHING
    commands: Records[Row] = Records.zeros(Row, 0)
    at: int = 0
    end: int = 0
    values: Integers = NOTHING
    input_count: int = 0
    signed_zeros: int = 0
    negations: int = 0
    answered: int = 0
    answer: float = 0.0
    marks: Integers = NOTHING
    start: Integers = NOTHING
    to: Integers = NOTHING
    count: int = 0
    first_edge: Integers = NOTHING
    waiting: Integers = NOTHING
    order: Integers = NOTHING
    ordered: int = 0


# Rows and constants of a tape, found by hash tables ------------------------------------------------------------------

NEGATIVE: Final = BY_NAME["negative"].code
#: Bits of a float below its sign.
MAGNITUDE: Final = (1 << 63) - 1


@compiled
def _number(state: PassesState, reference: int) -> float:
    """Return the value of a constant."""
    value: float = state.constants[-1 - reference]
    return value


@compiled
def _key_of(value: float) -> int:
    """Return a key that is equal for constants with the same reference: equal bits, or both NaN."""
    return bits_of(math.nan if math.isnan(value) else value)


@compiled
def _constant_place(state: PassesState, key: int) -> int:
    """Return the slot of a key in the table of constants, or its free slot."""
    table, bits = state.constant_table, state.constant_bits
    x = key ^ shifted_right(key, 29)
    slot = shifted_right(x * 0x2545F4914F6CDD1D, 64 - bits)
    while True:
        entry = table[slot]
        if entry == 0 or _key_of(state.constants[entry - 1]) == key:
            return slot
        slot = (slot + 1) & ((1 << bits) - 1)


@compiled
def _constant(state: PassesState, value: float) -> int:
    """Return the reference of a constant, as `Tape.constant` does."""
    slot = _constant_place(state, _key_of(value))
    entry: int = state.constant_table[slot]
    if entry == 0:
        entry = state.constant_count + 1
        state.constants[entry - 1] = value
        state.constant_count = entry
        state.constant_table[slot] = entry
    return -entry


@compiled
def _code_of(state: PassesState, reference: int) -> int:
    """Return the operation of a reference; constants have none."""
    return state.rows[reference].code if reference >= 0 else 0


@compiled
def _place_of(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Return the slot of an operation in the table, or its free slot."""
    table, bits, rows = state.table, state.table_bits, state.rows
    slot = definition_hash(code, a, b, c, bits)
    while True:
        reference = table[slot] - 1
        if reference < 0:
            return slot
        row = rows[reference]
        if row.code == code and row.first == a and row.second == b and row.third == c:
            return slot
        slot = (slot + 1) & ((1 << bits) - 1)


@compiled
def _known(state: PassesState, code: int, a: int, b: int) -> int:
    """Return the reference of a binary operation; −1 if the tape does not have it."""
    reference: int = state.table[_place_of(state, code, a, b, 0)] - 1
    return reference


@compiled
def _fill(row: Row, code: int, a: int, b: int, c: int) -> None:
    """Fill a row."""
    row.code = code
    row.first = a
    row.second = b
    row.third = c


@compiled
def _record(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Return the reference of an operation, added to the tape if it is new."""
    slot = _place_of(state, code, a, b, c)
    reference: int = state.table[slot] - 1
    if reference < 0:
        reference = state.length
        _fill(state.rows[reference], code, a, b, c)
        state.length = reference + 1
        state.table[slot] = reference + 1
    return reference


@compiled
def _negative(state: PassesState, a: int) -> int:
    """Return the negative, as `Tape.negative` does."""
    if a < 0:
        return _constant(state, -_number(state, a))
    if _code_of(state, a) == NEGATIVE:
        return state.rows[a].first
    return _record(state, NEGATIVE, a, 0, 0)


@compiled
def _index(state: PassesState) -> None:
    """Enter all rows and constants into empty tables."""
    for k in range(state.constant_count):
        state.constant_table[_constant_place(state, _key_of(state.constants[k]))] = k + 1
    for reference in range(state.inputs, state.length):
        row = state.rows[reference]
        state.table[_place_of(state, row.code, row.first, row.second, row.third)] = reference + 1


# The rules by which builders simplify operations ---------------------------------------------------------------------

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
MINIMUM: Final = BY_NAME["minimum"].code
MAXIMUM: Final = BY_NAME["maximum"].code

#: Result for an operation on constants that the caller has to evaluate.
ASKED: Final = 1 << 62
#: Bits of a float's fraction.
FRACTION: Final = (1 << 52) - 1
#: Smallest reciprocal that is exact enough to multiply by.
LEAST: Final = 1e-300


@compiled
def _is_power_of_two(value: float) -> bool:
    """Return True if a number is a power of two, or the negative of one."""
    bits = bits_of(value) & MAGNITUDE
    fraction = bits & FRACTION
    if bits <= FRACTION:  # subnormal, or 0
        return bits != 0 and fraction & (fraction - 1) == 0
    return fraction == 0 and abs(value) < math.inf


@compiled
def _ask(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Write an operation on constants to the row after the last, for the caller to evaluate; return ASKED."""
    _fill(state.rows[state.length], code, a, b, c)
    return ASKED


@compiled
def _is_nothing(state: PassesState, reference: int) -> bool:
    """Return the result of `Tape._is_nothing`."""
    bits = bits_of(_number(state, reference))
    return bits & MAGNITUDE == 0 and (bits != 0 or state.signed_zeros == 0)


@compiled
def _make(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Write an operation as `Tape.apply_code` does; return ASKED if constants have to be evaluated first."""
    # changes of sign of the result, in the builders' order
    negations = 0
    while True:
        if code == ADD:
            if a > b:
                a, b = b, a
            if a < 0:
                if b < 0:
                    result = _constant(state, _number(state, a) + _number(state, b))
                    break
                if _is_nothing(state, a):
                    result = b
                    break
            elif a == b:
                code, a = MULTIPLY, _constant(state, 2.0)
                continue
            if _code_of(state, b) == NEGATIVE:
                code, b = SUBTRACT, state.rows[b].first
            elif _code_of(state, a) == NEGATIVE:
                code, a, b = SUBTRACT, b, state.rows[a].first
            else:
                result = _record(state, code, a, b, 0)
                break
        elif code == SUBTRACT:
            if b < 0:
                code, b = ADD, _constant(state, -_number(state, b))
            elif a < 0 and _is_nothing(state, a):
                result = _negative(state, b)
                break
            elif _code_of(state, b) == NEGATIVE:
                code, b = ADD, state.rows[b].first
            elif state.signed_zeros != 0:
                result = _record(state, code, a, b, 0)
                break
            elif _code_of(state, a) == NEGATIVE:
                code, a = ADD, state.rows[a].first
                negations += 1
            else:
                opposite = -1
                if a >= 0 and a != b and _known(state, code, a, b) < 0:
                    opposite = _known(state, code, b, a)
                if opposite >= 0:
                    result = opposite
                    negations += 1
                else:
                    result = _record(state, code, a, b, 0)
                break
        elif code == MULTIPLY:
            if a > b:
                a, b = b, a
            if a < 0:
                factor = _number(state, a)
                if b < 0:
                    result = _constant(state, factor * _number(state, b))
                    break
                if factor == 1.0:
                    result = b
                    break
                if factor == 0.0 and state.signed_zeros == 0:
                    result = _constant(state, 0.0)
                    break
                if factor == -1.0:
                    result = _negative(state, b)
                    break
                if _code_of(state, b) != NEGATIVE:
                    result = _record(state, code, a, b, 0)
                    break
                a, b = _constant(state, -factor), state.rows[b].first
            elif _code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                negations += 1
            elif _code_of(state, b) == NEGATIVE:
                b = state.rows[b].first
                negations += 1
            else:
                result = _record(state, code, a, b, 0)
                break
        elif code == DIVIDE:
            if b < 0:
                if a < 0:
                    result = _ask(state, code, a, b, c)
                    break
                divisor = _number(state, b)
                if _is_power_of_two(divisor) and abs(1.0 / divisor) < math.inf:
                    code, b = MULTIPLY, _constant(state, 1.0 / divisor)
                    continue
            elif _code_of(state, b) == NEGATIVE:
                b = state.rows[b].first
                negations += 1
                continue
            if a < 0 and _number(state, a) == 0.0 and state.signed_zeros == 0:
                result = _constant(state, 0.0)
                break
            if a < 0 and _number(state, a) == -1.0:
                a = _constant(state, 1.0)
                negations += 1
            elif _code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                negations += 1
            else:
                result = _record(state, code, a, b, 0)
                break
        elif code == NEGATIVE:
            result = _negative(state, a)
            break
        elif code == SELECT:
            if a >= 0 and b != c:
                result = _record(state, code, a, b, c)
            else:
                result = c if a < 0 and _number(state, a) == 0.0 else b
            break
        else:
            if code == POWER and b < 0 <= a:
                exponent = _number(state, b)
                if exponent == 0.0:
                    result = _constant(state, 1.0)
                    break
                if exponent == 1.0:
                    result = a
                    break
                if exponent == 2.0:
                    code, b = MULTIPLY, a
                    continue
                if exponent in (-0.5, -1.0):
                    b = _record(state, SQRT, a, 0, 0) if exponent == -0.5 else a
                    code, a = DIVIDE, _constant(state, 1.0)
                    continue
                if exponent == 0.5:
                    code, b = SQRT, 0
            elif code in (AND, OR):
                if a > b:
                    a, b = b, a
                if a < 0:
                    holds = _number(state, a) != 0.0
                    result = b if holds == (code == AND) else _constant(state, 1.0 if holds else 0.0)
                    break
                if a == b:
                    result = a
                    break
            elif code == NOT and a >= 0:
                other = _code_of(state, a)
                if other == NOT:
                    result = state.rows[a].first
                    break
                if other in (EQUAL, NOT_EQUAL):
                    code = NOT_EQUAL if other == EQUAL else EQUAL
                    a, b = state.rows[a].first, state.rows[a].second
            elif code in (MINIMUM, MAXIMUM):
                if a > b:
                    a, b = b, a
                if a < 0 <= b and _number(state, a) == (math.inf if code == MINIMUM else -math.inf):
                    result = b
                    break
            properties = state.properties[code]
            arity = properties & ARITY
            if arity < 2:
                b = 0
            if arity < 3:
                c = 0
            if a < 0 and (arity < 2 or b < 0) and (arity < 3 or c < 0):
                result = _ask(state, code, a, b, c)
                break
            # the sign of a zero is 0
            parity = properties & (ODD | EVEN)
            if properties & JUMPS != 0 and state.signed_zeros != 0:
                parity = 0
            if parity != 0 and _code_of(state, a) == NEGATIVE:
                a = state.rows[a].first
                if properties & ODD != 0:
                    negations += 1
            elif a > b and properties & COMMUTATIVE != 0:
                a, b = b, a
            result = _record(state, code, a, b, c)
            break
    if result == ASKED:
        state.negations = negations
        return result
    for _ in range(negations):
        result = _negative(state, result)
    return result


@compiled
def _run(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Return the reference of a command's result; ASKED if constants have to be evaluated first."""
    if code == TAKE:
        return a
    if code in (QUOTIENT, SHARED_QUOTIENT):
        shared = code == SHARED_QUOTIENT
        one = _constant(state, 1.0)
        code = DIVIDE
        if _code_of(state, b) == NEGATIVE and state.rows[b].first < 0:
            # a number with a fixed sign; the caller cannot evaluate its reciprocal here
            b = _negative(state, state.rows[b].first)
        if b < 0:
            divisor = _number(state, b)
            if divisor != 0.0 and LEAST < abs(1.0 / divisor) < math.inf:
                code, b = MULTIPLY, _constant(state, 1.0 / divisor)
        elif shared:
            code, b = MULTIPLY, _make(state, DIVIDE, one, b, 0)
    return _make(state, code, a, b, c)


@compiled
def _as_given(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Return the reference of an operation that is not simplified."""
    arity = state.properties[code] & ARITY
    return _record(state, code, a, b if arity > 1 else 0, c if arity > 2 else 0)


# The passes ----------------------------------------------------------------------------------------------------------


@compiled
def _value_at(state: PassesState, position: int) -> int:
    """Return the reference of a command's argument: an earlier value, or a constant."""
    return state.values[position] if position >= 0 else position


@compiled
def _write(state: PassesState) -> int:
    """Run commands in order, each of which appends a value; return DONE, FOLD or FULL."""
    for t in range(state.at, state.end):
        state.at = t
        if state.length + ROOM > state.row_limit:
            return FULL
        if state.constant_count + ROOM > state.constant_limit:
            return FULL
        if state.answered != 0:
            state.answered = 0
            result = _constant(state, state.answer)
            for _ in range(state.negations):
                result = _negative(state, result)
        else:
            command = state.commands[t]
            a, b, c = _value_at(state, command.first), _value_at(state, command.second), _value_at(state, command.third)
            code = command.code
            if code & VERBATIM != 0:
                result = _as_given(state, code & CODE, a, b, c)
            else:
                state.signed_zeros = code & SIGNED
                result = _run(state, code & CODE, a, b, c)
                if result == ASKED:
                    return FOLD
        state.values[state.input_count + t] = result
    state.at = state.end
    return DONE


@compiled
def _spread(state: PassesState) -> None:
    """Add the marks of each edge's start to its target, edge by edge."""
    marks, start, to = state.marks, state.start, state.to
    for t in range(state.count):
        marks[to[t]] |= marks[start[t]]


@compiled
def _sort(state: PassesState) -> None:
    """Append vertices to the order as soon as they wait for none."""
    first, start, waiting, order, count = state.first_edge, state.start, state.waiting, state.order, state.ordered
    t = 0
    while t < count:
        v = order[t]
        for edge in range(first[v], first[v + 1]):
            user = start[edge]
            waiting[user] -= 1
            if waiting[user] == 0:
                order[count] = user
                count += 1
        t += 1
    state.ordered = count


def run_passes(state: PassesState) -> int:
    """Run `mode`; return the result of WRITE, else 0."""
    if state.mode == WRITE:
        return _write(state)
    if state.mode == INDEX:
        _index(state)
    elif state.mode == SPREAD:
        _spread(state)
    else:
        _sort(state)
    return DONE
