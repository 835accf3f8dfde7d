"""Comparison of words anywhere in memory, in about a nanosecond each."""

from __future__ import annotations

from accumulus.native.state import Integers, State


class MemoryState(State):
    """Words of memory, and the words that are expected there."""

    memory: Integers  # all memory, from address 0 on
    # the number of words; then for each its index, which is its address divided by 8, and the expected word
    table: Integers


def run_memory(state: MemoryState) -> int:
    """Return 1 if there are words, all as expected, else 0; words after the first that differs are not read."""
    count = state.table[0]
    for k in range(count):
        if state.memory[state.table[2 * k + 1]] != state.table[2 * k + 2]:
            return 0
    return 1 if count > 0 else 0
