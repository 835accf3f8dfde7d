"""Places in memory for the values of a long program: a place is taken again when its value is needed no more."""

from __future__ import annotations

from accumulus.targets.compiled.slots_state import SlotsState


def perform(state: SlotsState) -> int:
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
