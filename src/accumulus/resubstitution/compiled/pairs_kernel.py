"""Compiled search for pairs of values that make a third.

Each pair is computed at the first point, and the result is looked up among the values; a match is then compared at all
points. Some nanoseconds a pair.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Floats, Integers, Record, Records, State
from accumulus.native.words import bit, scattered, shifted_right, wrapped
from accumulus.rewriting.compiled.fields import (
    SMALL_BITS,
    SMALL_PRIME,
    difference,
    inverse,
    is_turned,
    minus,
    plus,
    product,
    small_times,
)

# Pairs ---------------------------------------------------------------------------------------------------------------

#: Operations on two values.
SUM, DIFFERENCE, PRODUCT, QUOTIENT = range(4)
RECIPROCAL: Final = 1.0 / SMALL_PRIME
#: Logarithm of the number of bits of the filter, which rejects most keys before they are looked up.
FILTER_BITS: Final = 16


class Found(Record):
    """A match: a value that two others make."""

    node: int  # number of the value; negative if the pair makes its negative
    way: int  # operation
    # operands
    first: int
    second: int


class ValuePairsState(State):
    """Residues of values at points, and the table that finds them. The first point has `SMALL_PRIME`."""

    points: int  # number of points
    primes: Integers  # (points,)
    reciprocals: Floats  # of the primes
    # values at the points, (values · points,); value 0 does not exist
    real: Integers
    imaginary: Integers
    # reciprocals at the first point, (values,)
    inverse_real: Integers
    inverse_imaginary: Integers
    open: Integers  # 1 if a value may get another definition, (values,)
    count: int  # number of values
    keys: Integers  # key of each value, (values,)
    table: Integers  # values by their keys, open addressing; 0 for a free slot
    table_bits: int  # logarithm of its length
    filter: Integers  # one bit for each key, with false positives, (2 ** FILTER_BITS / 64,)
    # range of first values of the pairs that a call tries; 0 to prepare
    begin: int = 0
    end: int = 0
    matches: Records[Found]  # matches
    match_count: int = 0  # their number
    match_limit: int  # capacity


#: Odd multiplier that spreads keys over the filter.
SPREAD: Final = 0x9E3779B97F4A7C15 - (1 << 64)


@compiled
def small_key(real: int, imaginary: int) -> int:
    """Return a key that a residue modulo `SMALL_PRIME` and its negative share, and no others."""
    if is_turned(real, imaginary, SMALL_PRIME):
        real, imaginary = minus(real, SMALL_PRIME), minus(imaginary, SMALL_PRIME)
    return real | imaginary << SMALL_BITS


@compiled
def small_product(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    """Return the product of a + b·i and c + d·i modulo `SMALL_PRIME`."""
    if b == 0 and d == 0:
        return small_times(a, c), 0
    real = difference(small_times(a, c), small_times(b, d), SMALL_PRIME)
    return real, plus(small_times(a, d), small_times(b, c), SMALL_PRIME)


@compiled
def _made_sign(state: ValuePairsState, node: int, way: int, i: int, j: int) -> int:
    """Return 1 if a pair makes a value at all points, -1 if it makes the negative, 0 if it makes neither."""
    points, sign = state.points, 0
    for p in range(points):
        prime, reciprocal = state.primes[p], state.reciprocals[p]
        a, b = state.real[i * points + p], state.imaginary[i * points + p]
        c, d = state.real[j * points + p], state.imaginary[j * points + p]
        x, y = state.real[node * points + p], state.imaginary[node * points + p]
        if way == SUM:
            a, b = plus(a, c, prime), plus(b, d, prime)
        elif way == DIFFERENCE:
            a, b = difference(a, c, prime), difference(b, d, prime)
        elif way == PRODUCT:
            a, b = product(a, b, c, d, prime, reciprocal)
        else:
            x, y = product(x, y, c, d, prime, reciprocal)
        if sign >= 0 and a == x and b == y:
            sign = 1
        elif sign <= 0 and minus(a, prime) == x and minus(b, prime) == y:
            sign = -1
        else:
            return 0
    return sign


@compiled
def _filter_place(key: int) -> int:
    """Return the position of a key's bit in the filter."""
    return shifted_right(wrapped(key * SPREAD), 64 - FILTER_BITS)


@compiled
def _look_up(state: ValuePairsState, real: int, imaginary: int, way: int, i: int, j: int) -> None:
    """Store all values that a pair makes, whose result is given at the first point."""
    key = small_key(real, imaginary)
    slot = _filter_place(key)
    if shifted_right(state.filter[slot >> 6], slot & 63) & 1 == 0:
        return  # the usual case
    mask = (1 << state.table_bits) - 1
    slot = shifted_right(scattered(key), 64 - state.table_bits)
    while state.table[slot]:
        node = state.table[slot]
        if state.keys[node] == key and node not in (i, j) and state.match_count < state.match_limit:
            sign = _made_sign(state, node, way, i, j)
            if sign != 0:
                pair = state.matches[state.match_count]
                pair.node = sign * node
                pair.way = way
                pair.first = i
                pair.second = j
                state.match_count += 1
        slot = (slot + 1) & mask


@compiled
def _try_pair(state: ValuePairsState, i: int, j: int) -> None:
    """Store the values that a pair makes, by all operations."""
    points = state.points
    a, b = state.real[i * points], state.imaginary[i * points]
    c, d = state.real[j * points], state.imaginary[j * points]
    real, imaginary = small_product(a, b, c, d)
    _look_up(state, real, imaginary, PRODUCT, i, j)
    if i != j:
        _look_up(state, plus(a, c, SMALL_PRIME), plus(b, d, SMALL_PRIME), SUM, i, j)
        _look_up(state, difference(a, c, SMALL_PRIME), difference(b, d, SMALL_PRIME), DIFFERENCE, i, j)
        real, imaginary = small_product(a, b, state.inverse_real[j], state.inverse_imaginary[j])
        _look_up(state, real, imaginary, QUOTIENT, i, j)
        real, imaginary = small_product(c, d, state.inverse_real[i], state.inverse_imaginary[i])
        _look_up(state, real, imaginary, QUOTIENT, j, i)


@compiled
def _fill(state: ValuePairsState) -> None:
    """Compute keys and reciprocals, and enter the values that may get other definitions into the table."""
    mask = (1 << state.table_bits) - 1
    for node in range(1, state.count):
        real, imaginary = state.real[node * state.points], state.imaginary[node * state.points]
        key = small_key(real, imaginary)
        state.keys[node] = key
        state.inverse_real[node], state.inverse_imaginary[node] = inverse(real, imaginary, SMALL_PRIME, RECIPROCAL)
        if state.open[node]:
            slot = shifted_right(scattered(key), 64 - state.table_bits)
            while state.table[slot]:
                slot = (slot + 1) & mask
            state.table[slot] = node
            at = _filter_place(key)
            state.filter[at >> 6] = state.filter[at >> 6] | bit(at & 63)


def run_value_pairs(state: ValuePairsState) -> int:
    """Fill the table if `begin` is 0, else try all pairs with first values in the range; return the match count."""
    if state.begin == 0:
        _fill(state)
        return 0
    for i in range(state.begin, state.end):
        for j in range(i, state.count):
            _try_pair(state, i, j)
    return state.match_count
