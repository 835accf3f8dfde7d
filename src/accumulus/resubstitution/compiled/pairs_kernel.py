"""Compiled search for pairs of values that make a third, and for new values, helpers, that make several others cheaper.

Pairs: each pair is computed at the first point, and the result is looked up among the values; a match is then compared
at all points. Some nanoseconds a pair.

Helpers: for each value, count the values that would make it in one more operation; then look up the results of all
pairs among these. Only one point is used; chance matches are rejected when helpers are read. Some ten nanoseconds a
pair.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Floats, Integers, Record, Records, State
from accumulus.native.words import bit, bits_of, scattered, shifted_right, wrapped
from accumulus.resubstitution.compiled.reading_kernel import KEY_BITS

# Pairs ---------------------------------------------------------------------------------------------------------------

#: Operations on two values.
SUM, DIFFERENCE, PRODUCT, QUOTIENT = range(4)
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
    """Values at points, and the table that finds them."""

    points: int  # number of points
    # values at the points, (values · points,); value 0 does not exist
    real: Floats
    imaginary: Floats
    errors: Floats  # error bounds in units of rounding, (values · points,)
    open: Integers  # 1 if a value may get another definition, (values,)
    count: int  # number of values
    keys: Integers  # key of each value: the leading bits of its real part at the first point
    table: Integers  # values by their keys, open addressing; 0 for a free slot
    table_bits: int  # logarithm of its length
    filter: Integers  # one bit for each key, with false positives, (2 ** FILTER_BITS / 64,)
    inverses: Floats  # reciprocal of the squared magnitude of each value at the first point
    rounding: float  # largest difference of equal values, for each unit of their errors
    # range of first values of the pairs that a call tries; 0 to fill the table
    begin: int = 0
    end: int = 0
    matches: Records[Found]  # matches
    match_count: int = 0  # their number
    match_limit: int  # capacity


#: Distance of a mantissa's last bits from a change of the key, at which the neighbouring key is tried, too.
NEAR: Final = 1 << 13
#: Odd multiplier that spreads keys over the filter.
SPREAD: Final = 0x9E3779B97F4A7C15 - (1 << 64)


@compiled
def _made(way: int, a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """Return the real and imaginary part of an operation on a + ib and c + id."""
    if way == SUM:
        return a + c, b + d
    if way == DIFFERENCE:
        return a - c, b - d
    if way == PRODUCT:
        return a * c - b * d, a * d + b * c
    size = c * c + d * d
    return (a * c + b * d) / size, (b * c - a * d) / size


@compiled
def _is_made(state: ValuePairsState, node: int, sign: float, way: int, i: int, j: int) -> bool:
    """Return True if a pair makes a value at all points."""
    points = state.points
    for p in range(points):
        a, b = state.real[i * points + p], state.imaginary[i * points + p]
        c, d = state.real[j * points + p], state.imaginary[j * points + p]
        x, y = state.real[node * points + p], state.imaginary[node * points + p]
        real, imaginary = _made(way, a, b, c, d)
        off = abs(sign * real - x) + abs(sign * imaginary - y)
        first, second, third = abs(a) + abs(b), abs(c) + abs(d), abs(x) + abs(y)
        error_first, error_second = state.errors[i * points + p], state.errors[j * points + p]
        if way <= DIFFERENCE:
            error = error_first + error_second + first + second
        else:
            error = (error_first / first + error_second / second + 4.0) * third
        if not off <= state.rounding * (error + state.errors[node * points + p]):
            return False
    return True


@compiled
def _filter_place(key: int) -> int:
    """Return the position of a key's bit in the filter."""
    return shifted_right(wrapped(key * SPREAD), 64 - FILTER_BITS)


@compiled
def _look_up(state: ValuePairsState, key: int, sign: float, way: int, i: int, j: int) -> None:
    """Store all values with this key that a pair makes."""
    slot = _filter_place(key)
    if shifted_right(state.filter[slot >> 6], slot & 63) & 1 == 0:
        return  # the usual case
    mask = (1 << state.table_bits) - 1
    slot = shifted_right(scattered(key), 64 - state.table_bits)
    while state.table[slot]:
        node = state.table[slot]
        if (
            state.keys[node] == key
            and state.open[node]
            and node not in (i, j)
            and state.match_count < state.match_limit
            and _is_made(state, node, sign, way, i, j)
        ):
            pair = state.matches[state.match_count]
            pair.node = node if sign > 0.0 else -node
            pair.way = way
            pair.first = i
            pair.second = j
            state.match_count += 1
        slot = (slot + 1) & mask


@compiled
def _try_value(state: ValuePairsState, value: float, way: int, i: int, j: int) -> None:
    """Store the values that a pair makes, for a result with this real part at the first point."""
    sign = 1.0 if value > 0.0 else -1.0
    bits = bits_of(abs(value))
    key = bits >> KEY_BITS
    last = bits & ((1 << KEY_BITS) - 1)
    _look_up(state, key, sign, way, i, j)
    if last < NEAR:
        _look_up(state, key - 1, sign, way, i, j)
    elif last >= (1 << KEY_BITS) - NEAR:
        _look_up(state, key + 1, sign, way, i, j)


@compiled
def _try_pair(state: ValuePairsState, i: int, j: int) -> None:
    """Store the values that a pair makes, by all operations."""
    a, b = state.real[i * state.points], state.imaginary[i * state.points]
    c, d = state.real[j * state.points], state.imaginary[j * state.points]
    _try_value(state, a * c - b * d, PRODUCT, i, j)
    if i != j:
        _try_value(state, a + c, SUM, i, j)
        _try_value(state, a - c, DIFFERENCE, i, j)
        # x / y and y / x differ in the divisor's magnitude alone
        scaled = a * c + b * d
        _try_value(state, scaled * state.inverses[j], QUOTIENT, i, j)
        _try_value(state, scaled * state.inverses[i], QUOTIENT, j, i)


@compiled
def _fill(state: ValuePairsState) -> None:
    """Enter the values that may get other definitions into the table."""
    mask = (1 << state.table_bits) - 1
    for node in range(1, state.count):
        if state.open[node]:
            slot = shifted_right(scattered(state.keys[node]), 64 - state.table_bits)
            while state.table[slot]:
                slot = (slot + 1) & mask
            state.table[slot] = node
            at = _filter_place(state.keys[node])
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


# Helpers -------------------------------------------------------------------------------------------------------------

#: Bits of a mantissa that are not part of keys.
HELPER_KEY_BITS: Final = 20


class WantedPair(Record):
    """A missing value that would make others in one more operation."""

    key: int  # its key; 0 for a free slot
    last: int  # last value that it would make
    count: int  # number of values that it would make; 0 if it exists


class Helper(Record):
    """A new value that would make several existing values in one more operation each."""

    count: int  # number of these values
    way: int  # operation that makes the helper
    # its operands
    first: int
    second: int


class HelpersState(State):
    """Values at one point, and the missing values that would make them."""

    # values, (values,)
    real: Floats
    imaginary: Floats
    count: int  # number of values
    open: Integers  # 1 if a value may get another definition, (values,)
    divides: Integers  # 1 if a value is a divisor, (values,)
    targets: Records[WantedPair]  # missing values by their keys, open addressing
    table_bits: int  # logarithm of its length
    helpers: Records[Helper]  # helpers, each once
    helper_count: int = 0  # their number
    helper_limit: int  # capacity


#: Smallest magnitude that is not a rounded zero, and largest useful magnitude.
SMALLEST: Final = 1e-12
LARGEST: Final = 1e12
#: Half a unit of a key's last bit.
HALF: Final = 1 << (HELPER_KEY_BITS - 1)


@compiled
def _helper_key(real: float) -> int:
    """Return a key that a value, its negative and, nearly always, values within rounding of it share; 0 for none."""
    size = abs(real)
    if size > SMALLEST and size < LARGEST:
        return (bits_of(size) + HALF) >> HELPER_KEY_BITS
    return 0


@compiled
def _place_of(state: HelpersState, key: int) -> int:
    """Return the slot of a key in the table, or its free slot."""
    mask = (1 << state.table_bits) - 1
    slot = shifted_right(scattered(key), 64 - state.table_bits)
    while state.targets[slot].key != 0 and state.targets[slot].key != key:
        slot = (slot + 1) & mask
    return slot


@compiled
def _want(state: HelpersState, real: float, node: int) -> None:
    """Count a value that would be made by one with this real part."""
    key = _helper_key(real)
    if key == 0:
        return
    pair = state.targets[_place_of(state, key)]
    pair.key = key
    if pair.last != node:
        pair.last = node
        pair.count += 1


@compiled
def _want_for(state: HelpersState, node: int) -> None:
    """Count a value for each missing value that makes it, with a third, by a sum, difference, product or quotient."""
    a, b = state.real[node], state.imaginary[node]
    for other in range(1, state.count):
        if other != node:
            c, d = state.real[other], state.imaginary[other]
            _want(state, a - c, node)
            _want(state, a + c, node)
            _want(state, (a * c + b * d) / (c * c + d * d), node)
            if state.divides[other]:
                _want(state, a * c - b * d, node)


@compiled
def _take_off(state: HelpersState, real: float) -> None:
    """Remove a value that exists, or that is a helper already."""
    key = _helper_key(real)
    if key:
        pair = state.targets[_place_of(state, key)]
        pair.key = key
        pair.count = 0


@compiled
def _offer(state: HelpersState, real: float, way: int, i: int, j: int) -> None:
    """Store a pair as a helper if its result would make several values."""
    key = _helper_key(real)
    if key == 0:
        return
    count = state.targets[_place_of(state, key)].count
    if count > 1 and state.helper_count < state.helper_limit:
        helper = state.helpers[state.helper_count]
        helper.count = count
        helper.way = way
        helper.first = i
        helper.second = j
        state.helper_count += 1
        _take_off(state, real)


def run_helpers(state: HelpersState) -> int:
    """Find helpers; return their number."""
    for node in range(1, state.count):
        if state.open[node]:
            _want_for(state, node)
    for node in range(1, state.count):
        _take_off(state, state.real[node])
    for i in range(1, state.count):
        a, b = state.real[i], state.imaginary[i]
        for j in range(i, state.count):
            c, d = state.real[j], state.imaginary[j]
            _offer(state, a * c - b * d, PRODUCT, i, j)
            if i != j:
                _offer(state, a + c, SUM, i, j)
                _offer(state, a - c, DIFFERENCE, i, j)
    return state.helper_count
