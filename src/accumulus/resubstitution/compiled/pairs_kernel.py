"""Compiled search for values that are a sum, a difference, a product or a quotient of two others.

Each pair is computed at the first point, and what it makes is looked up there; what is found is held against the value
at all points. Some nanoseconds a pair.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, scattered, shifted_right
from accumulus.resubstitution.compiled.pairs_state import (
    DIFFERENCE,
    INDEX,
    KEY_BITS,
    PRODUCT,
    QUOTIENT,
    SUM,
    PairsState,
)

__all__ = ["perform"]

#: Last bits of a mantissa with which the next key may be the one.
NEAR: Final = 1 << 13


@compiled
def real_part(way: int, a: float, b: float, c: float, d: float) -> float:
    """Of a + ib and c + id."""
    if way == SUM:
        return a + c
    if way == DIFFERENCE:
        return a - c
    if way == PRODUCT:
        return a * c - b * d
    return (a * c + b * d) / (c * c + d * d)


@compiled
def imaginary_part(way: int, a: float, b: float, c: float, d: float) -> float:
    """Of a + ib and c + id."""
    if way == SUM:
        return b + d
    if way == DIFFERENCE:
        return b - d
    if way == PRODUCT:
        return a * d + b * c
    return (b * c - a * d) / (c * c + d * d)


@compiled
def is_made(state: PairsState, node: int, sign: float, way: int, i: int, j: int) -> bool:
    """Whether a pair makes a value at all points."""
    points = state.points
    for p in range(points):
        a, b = state.real[i * points + p], state.imaginary[i * points + p]
        c, d = state.real[j * points + p], state.imaginary[j * points + p]
        x, y = state.real[node * points + p], state.imaginary[node * points + p]
        off = abs(sign * real_part(way, a, b, c, d) - x) + abs(sign * imaginary_part(way, a, b, c, d) - y)
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
def look_up(state: PairsState, key: int, sign: float, way: int, i: int, j: int) -> None:
    """Note all values with a key that a pair makes."""
    mask = (1 << state.table_bits) - 1
    place = shifted_right(scattered(key), 64 - state.table_bits)
    while state.table[place]:
        node = state.table[place]
        if (
            state.keys[node] == key
            and state.open[node]
            and node not in (i, j)
            and state.found_count < state.found_limit
            and is_made(state, node, sign, way, i, j)
        ):
            found = state.found[state.found_count]
            found.node = node if sign > 0.0 else -node
            found.way = way
            found.first = i
            found.second = j
            state.found_count += 1
        place = (place + 1) & mask


@compiled
def try_pair(state: PairsState, way: int, i: int, j: int) -> None:
    """Note which values a pair makes."""
    points = state.points
    value = real_part(
        way,
        state.real[i * points],
        state.imaginary[i * points],
        state.real[j * points],
        state.imaginary[j * points],
    )
    sign = 1.0 if value > 0.0 else -1.0
    bits = bits_of(abs(value))
    key = bits >> KEY_BITS
    last = bits & ((1 << KEY_BITS) - 1)
    look_up(state, key, sign, way, i, j)
    if last < NEAR:
        look_up(state, key - 1, sign, way, i, j)
    elif last >= (1 << KEY_BITS) - NEAR:
        look_up(state, key + 1, sign, way, i, j)


@compiled
def fill(state: PairsState) -> None:
    """Enter the values that may have other definitions into the table."""
    mask = (1 << state.table_bits) - 1
    for node in range(1, state.count):
        if state.open[node]:
            place = shifted_right(scattered(state.keys[node]), 64 - state.table_bits)
            while state.table[place]:
                place = (place + 1) & mask
            state.table[place] = node


def perform(state: PairsState) -> int:
    """Fill the table, or try all pairs whose first value is between `begin` and `end`; returns how many are found."""
    if state.mode == INDEX:
        fill(state)
        return 0
    for i in range(state.begin, state.end):
        for j in range(i, state.count):
            try_pair(state, PRODUCT, i, j)
            if i != j:
                try_pair(state, SUM, i, j)
                try_pair(state, DIFFERENCE, i, j)
                try_pair(state, QUOTIENT, i, j)
                try_pair(state, QUOTIENT, j, i)
    return state.found_count
