"""Compiled search for values that are not there, and by which several that are take one operation each.

It goes from both ends: what would make a value together with another one is counted, and what two values make is looked
up there. All of that at one point; what is the same there by chance is told apart when helpers are read. Some ten
nanoseconds a pair.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, scattered, shifted_right
from accumulus.resubstitution.compiled.helpers_state import KEY_BITS, HelpersState
from accumulus.resubstitution.compiled.pairs_state import DIFFERENCE, PRODUCT, SUM

__all__ = ["perform"]

#: What is less is zero but for rounding, and what is more is of no use.
SMALLEST: Final = 1e-12
LARGEST: Final = 1e12
#: Half of the last bit of a key.
HALF: Final = 1 << (KEY_BITS - 1)


@compiled
def key_of(real: float) -> int:
    """The same for a value and its negative, and nearly always for what is equal up to rounding; 0 for none."""
    size = abs(real)
    if size > SMALLEST and size < LARGEST:
        return (bits_of(size) + HALF) >> KEY_BITS
    return 0


@compiled
def place_of(state: HelpersState, key: int) -> int:
    """Where a key is in the table, or would be."""
    mask = (1 << state.table_bits) - 1
    place = shifted_right(scattered(key), 64 - state.table_bits)
    while state.wanted[place].key != 0 and state.wanted[place].key != key:
        place = (place + 1) & mask
    return place


@compiled
def want(state: HelpersState, real: float, node: int) -> None:
    """Note that a value would be made by one with that real part."""
    key = key_of(real)
    if key == 0:
        return
    wanted = state.wanted[place_of(state, key)]
    wanted.key = key
    if wanted.last != node:
        wanted.last = node
        wanted.count += 1


@compiled
def want_for(state: HelpersState, node: int) -> None:
    """Note all that would make a value by a sum, a difference, a product or a quotient with another one."""
    a, b = state.real[node], state.imaginary[node]
    for other in range(1, state.count):
        if other != node:
            c, d = state.real[other], state.imaginary[other]
            want(state, a - c, node)
            want(state, a + c, node)
            want(state, (a * c + b * d) / (c * c + d * d), node)
            if state.divides[other]:
                want(state, a * c - b * d, node)


@compiled
def take_off(state: HelpersState, real: float) -> None:
    """What is there, or found, is wanted no more."""
    key = key_of(real)
    if key:
        wanted = state.wanted[place_of(state, key)]
        wanted.key = key
        wanted.count = 0


@compiled
def offer(state: HelpersState, real: float, way: int, i: int, j: int) -> None:
    """Note a pair that makes what several values want."""
    key = key_of(real)
    if key == 0:
        return
    count = state.wanted[place_of(state, key)].count
    if count > 1 and state.found_count < state.found_limit:
        helper = state.found[state.found_count]
        helper.count = count
        helper.way = way
        helper.first = i
        helper.second = j
        state.found_count += 1
        take_off(state, real)


def perform(state: HelpersState) -> int:
    """Find helpers; returns how many."""
    for node in range(1, state.count):
        if state.open[node]:
            want_for(state, node)
    for node in range(1, state.count):
        take_off(state, state.real[node])
    for i in range(1, state.count):
        a, b = state.real[i], state.imaginary[i]
        for j in range(i, state.count):
            c, d = state.real[j], state.imaginary[j]
            offer(state, a * c - b * d, PRODUCT, i, j)
            if i != j:
                offer(state, a + c, SUM, i, j)
                offer(state, a - c, DIFFERENCE, i, j)
    return state.found_count
