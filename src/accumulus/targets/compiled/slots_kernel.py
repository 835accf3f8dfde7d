"""Compiled allocation of memory slots for the values of a long program: a slot is reused after its value's last use."""

from __future__ import annotations

from accumulus.native.state import NOTHING, Integers, State


class SlotsState(State):
    """Values in the order of their computation, and their slots."""

    count: int = 0  # values, in the order in which they are computed
    arguments: Integers = NOTHING  # (count, 3), operands of each value; -1 for none, or for one with a permanent slot
    last: Integers = NOTHING  # last use of each value; `count` if it is kept to the end
    slots: Integers = NOTHING  # slot of each value
    free: Integers = NOTHING  # stack of free slots; the last one freed is reused first, while it is in the cache
    free_count: int = 0  # number of free slots
    used: int = 0  # number of slots so far


def run_slots(state: SlotsState) -> int:
    """Assign a slot to each value; return the number of slots."""
    arguments, last, slots, free = state.arguments, state.last, state.slots, state.free
    for value in range(state.count):
        for k in range(3):
            argument = arguments[3 * value + k]
            if argument >= 0 and last[argument] == value:
                last[argument] = -1  # an operand may occur twice
                free[state.free_count] = slots[argument]
                state.free_count += 1
        if state.free_count > 0:
            state.free_count -= 1
            slots[value] = free[state.free_count]
        else:
            slots[value] = state.used
            state.used += 1
    return state.used
