"""Memory that `accumulus.targets.compiled.slots_kernel` works on."""

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
