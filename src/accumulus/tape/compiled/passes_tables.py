"""The rows and constants of a tape, each found by a hash table, in compiled code."""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, definition_hash, shifted_right
from accumulus.tape.compiled.passes_state import PassesState, Row
from accumulus.tape.operations import BY_NAME

__all__ = ["MAGNITUDE", "NEGATIVE", "code_of", "constant", "fill", "index", "known", "negative", "number", "record"]

NEGATIVE: Final = BY_NAME["negative"].code
#: Bits of a float below its sign.
MAGNITUDE: Final = (1 << 63) - 1


@compiled
def number(state: PassesState, reference: int) -> float:
    """Value of a constant."""
    value: float = state.constants[-1 - reference]
    return value


@compiled
def key_of(value: float) -> int:
    """Equal for constants that have one reference: equal bits, or both no number."""
    return bits_of(math.nan if math.isnan(value) else value)


@compiled
def constant_place(state: PassesState, key: int) -> int:
    """Where the table of constants has a key, or would have it."""
    table, bits = state.constant_table, state.constant_bits
    x = key ^ shifted_right(key, 29)
    place = shifted_right(x * 0x2545F4914F6CDD1D, 64 - bits)
    while True:
        found = table[place]
        if found == 0 or key_of(state.constants[found - 1]) == key:
            return place
        place = (place + 1) & ((1 << bits) - 1)


@compiled
def constant(state: PassesState, value: float) -> int:
    """As `Tape.constant`."""
    place = constant_place(state, key_of(value))
    found: int = state.constant_table[place]
    if found == 0:
        found = state.constant_count + 1
        state.constants[found - 1] = value
        state.constant_count = found
        state.constant_table[place] = found
    return -found


@compiled
def code_of(state: PassesState, reference: int) -> int:
    """Operation of a reference; that of constants is none."""
    return state.rows[reference].code if reference >= 0 else 0


@compiled
def place_of(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """Where the table has an operation, or would have it."""
    table, bits, rows = state.table, state.table_bits, state.rows
    place = definition_hash(code, a, b, c, bits)
    while True:
        reference = table[place] - 1
        if reference < 0:
            return place
        row = rows[reference]
        if row.code == code and row.first == a and row.second == b and row.third == c:
            return place
        place = (place + 1) & ((1 << bits) - 1)


@compiled
def known(state: PassesState, code: int, a: int, b: int) -> int:
    """The reference of an operation of two arguments, −1 if the tape has none."""
    reference: int = state.table[place_of(state, code, a, b, 0)] - 1
    return reference


@compiled
def fill(row: Row, code: int, a: int, b: int, c: int) -> None:
    """Write a row down."""
    row.code = code
    row.first = a
    row.second = b
    row.third = c


@compiled
def record(state: PassesState, code: int, a: int, b: int, c: int) -> int:
    """The reference of an operation that nothing simplifies."""
    place = place_of(state, code, a, b, c)
    reference: int = state.table[place] - 1
    if reference < 0:
        reference = state.length
        fill(state.rows[reference], code, a, b, c)
        state.length = reference + 1
        state.table[place] = reference + 1
    return reference


@compiled
def negative(state: PassesState, a: int) -> int:
    """As `Tape.negative`."""
    if a < 0:
        return constant(state, -number(state, a))
    if code_of(state, a) == NEGATIVE:
        return state.rows[a].first
    return record(state, NEGATIVE, a, 0, 0)


@compiled
def index(state: PassesState) -> None:
    """Enter what is there into empty tables."""
    for k in range(state.constant_count):
        state.constant_table[constant_place(state, key_of(state.constants[k]))] = k + 1
    for reference in range(state.inputs, state.length):
        row = state.rows[reference]
        state.table[place_of(state, row.code, row.first, row.second, row.third)] = reference + 1
