"""Compiled search for values that two others make, and for values that are not there and make several that are.

Of the first kind each pair is computed at the first point, and what it makes is looked up there; what is found is held
against the value at all points. Some nanoseconds a pair.

The second goes from both ends: what would make a value together with another one is counted, and what two values make
is looked up there. All of that at one point; what is the same there by chance is told apart when helpers are read. Some
ten nanoseconds a pair.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Floats, Integers, Record, Records, State
from accumulus.native.words import bit, bits_of, scattered, shifted_right, wrapped
from accumulus.resubstitution.compiled.reading_kernel import KEY_BITS

# Pairs ---------------------------------------------------------------------------------------------------------------

#: How two values make a third.
SUM, DIFFERENCE, PRODUCT, QUOTIENT = range(4)
#: Logarithm of the number of bits by which keys of no value are told before they are looked up.
FILTER_BITS: Final = 16


class Found(Record):
    """A value that is made of two others."""

    node: int  # the value, its negative where that is what is made
    way: int  # how
    # of what
    first: int
    second: int


class ValuePairsState(State):
    """Values at points, and the table by which they are found."""

    points: int  # at which there are values
    # of each value at each point, (values · points,); of the first, 0, there is none
    real: Floats
    imaginary: Floats
    errors: Floats  # bounds on the error of each, in units of rounding, (values · points,)
    open: Integers  # 1 if a value may have another definition, (values,)
    count: int  # of values
    keys: Integers  # of each value: its first part at the first point, without the last bits
    table: Integers  # values by their keys, open addressing; 0 where there is none
    table_bits: int  # of its size
    filter: Integers  # a bit for each key that there is, and some that there are not, (2 ** FILTER_BITS / 64,)
    inverses: Floats  # of the squared size of each value at the first point
    rounding: float  # by how much equal values may differ for each unit of their errors
    # the first values of the pairs that are tried in a call; 0 to fill the table
    begin: int = 0
    end: int = 0
    matches: Records[Found]  # what they make
    match_count: int = 0  # how many
    match_limit: int  # how many there is room for


#: Last bits of a mantissa with which the next key may be the one.
NEAR: Final = 1 << 13
#: An odd multiplier that spreads keys over the filter.
SPREAD: Final = 0x9E3779B97F4A7C15 - (1 << 64)


@compiled
def _made(way: int, a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """Return the real and the imaginary part of what a + ib and c + id make."""
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
    """Return the bit of a key among those of the filter."""
    return shifted_right(wrapped(key * SPREAD), 64 - FILTER_BITS)


@compiled
def _look_up(state: ValuePairsState, key: int, sign: float, way: int, i: int, j: int) -> None:
    """Note all values with a key that a pair makes."""
    slot = _filter_place(key)
    if shifted_right(state.filter[slot >> 6], slot & 63) & 1 == 0:
        return  # as nearly always
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
    """Note which values a pair makes whose real part at the first point is that."""
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
    """Note which values a pair makes, in all ways."""
    a, b = state.real[i * state.points], state.imaginary[i * state.points]
    c, d = state.real[j * state.points], state.imaginary[j * state.points]
    _try_value(state, a * c - b * d, PRODUCT, i, j)
    if i != j:
        _try_value(state, a + c, SUM, i, j)
        _try_value(state, a - c, DIFFERENCE, i, j)
        # of x / y and of y / x that is the same, but for the size of the divisor
        scaled = a * c + b * d
        _try_value(state, scaled * state.inverses[j], QUOTIENT, i, j)
        _try_value(state, scaled * state.inverses[i], QUOTIENT, j, i)


@compiled
def _fill(state: ValuePairsState) -> None:
    """Enter the values that may have other definitions into the table."""
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
    """Try all pairs whose first value is from `begin` to `end`, or fill the table if `begin` is 0; returns a count."""
    if state.begin == 0:
        _fill(state)
        return 0
    for i in range(state.begin, state.end):
        for j in range(i, state.count):
            _try_pair(state, i, j)
    return state.match_count


# Helpers -------------------------------------------------------------------------------------------------------------

#: Bits of a mantissa that are left out of keys.
HELPER_KEY_BITS: Final = 20


class WantedPair(Record):
    """A value that would make others that are there by one more operation."""

    key: int  # of it; 0 where there is none
    last: int  # the value that wanted it last
    count: int  # how many values want it; 0 if it is there


class Helper(Record):
    """A value that is not there, and that several that are would be made by."""

    count: int  # how many
    way: int  # how it is made, as `accumulus.resubstitution.compiled.states` has it
    # of what
    first: int
    second: int


class HelpersState(State):
    """Values at one point, and what is wanted there."""

    # of each value, (values,)
    real: Floats
    imaginary: Floats
    count: int  # of values
    open: Integers  # 1 if a value may have another definition, (values,)
    divides: Integers  # 1 if something is divided by a value, (values,)
    targets: Records[WantedPair]  # by their keys, open addressing
    table_bits: int  # of its size
    helpers: Records[Helper]  # helpers, each once
    helper_count: int = 0  # how many
    helper_limit: int  # how many there is room for


#: What is less is zero but for rounding, and what is more is of no use.
SMALLEST: Final = 1e-12
LARGEST: Final = 1e12
#: Half of the last bit of a key.
HALF: Final = 1 << (HELPER_KEY_BITS - 1)


@compiled
def _helper_key(real: float) -> int:
    """Return a key that a value, its negative and, nearly always, what is equal up to rounding share; 0 for none."""
    size = abs(real)
    if size > SMALLEST and size < LARGEST:
        return (bits_of(size) + HALF) >> HELPER_KEY_BITS
    return 0


@compiled
def _place_of(state: HelpersState, key: int) -> int:
    """Return the place of a key in the table, or for it."""
    mask = (1 << state.table_bits) - 1
    slot = shifted_right(scattered(key), 64 - state.table_bits)
    while state.targets[slot].key != 0 and state.targets[slot].key != key:
        slot = (slot + 1) & mask
    return slot


@compiled
def _want(state: HelpersState, real: float, node: int) -> None:
    """Note that a value would be made by one with that real part."""
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
    """Note all that would make a value by a sum, a difference, a product or a quotient with another one."""
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
    """Take off a value that is there, or found."""
    key = _helper_key(real)
    if key:
        pair = state.targets[_place_of(state, key)]
        pair.key = key
        pair.count = 0


@compiled
def _offer(state: HelpersState, real: float, way: int, i: int, j: int) -> None:
    """Note a pair that makes what several values want."""
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
    """Find helpers; returns how many."""
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
