"""Places in memory for the values of a long program: a place is taken again when its value is needed no more."""

from __future__ import annotations

from accumulus.native.state import NOTHING, Integers, State


class SlotsState(State):
    """Values that take places in memory one after the other, and leave them."""

    count: int = 0  # values, in the order in which they are computed
    arguments: Integers = NOTHING  # of each value, three; -1 where there is none, or one that has a place for good
    last: Integers = NOTHING  # of each value, the last that takes it; `count` if it stays to the end
    slots: Integers = NOTHING  # the place of each
    free: Integers = NOTHING  # places that are free again; the last freed is the next taken, while it is in the cache
    free_count: int = 0  # how many of them there are
    used: int = 0  # places that there are, so far


def run_slots(state: SlotsState) -> int:
    """Give a place to each value; returns how many places there are."""
    arguments, last, slots, free = state.arguments, state.last, state.slots, state.free
    for value in range(state.count):
        for k in range(3):
            argument = arguments[3 * value + k]
            if argument >= 0 and last[argument] == value:
                last[argument] = -1  # it may be there twice
                free[state.free_count] = slots[argument]
                state.free_count += 1
        if state.free_count > 0:
            state.free_count -= 1
            slots[value] = free[state.free_count]
        else:
            slots[value] = state.used
            state.used += 1
    return state.used
