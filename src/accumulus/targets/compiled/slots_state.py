"""What `accumulus.targets.compiled.slots_kernel` works on."""

from __future__ import annotations

from accumulus.native.state import NOTHING, Integers, State


class SlotsState(State):
    """Values that take places in memory one after the other, and leave them.

    Attributes:
        count: values, in the order in which they are computed.
        arguments: of each value, three; -1 where there is none, or one that has a place for good.
        last: of each value, the last that takes it; `count` if it stays to the end.
        slots: the place of each.
        free: places that are free again; the last freed is the next taken, while it is in the cache.
        free_count: how many of them there are.
        used: places that there are, so far.
    """

    count: int = 0
    arguments: Integers = NOTHING
    last: Integers = NOTHING
    slots: Integers = NOTHING
    free: Integers = NOTHING
    free_count: int = 0
    used: int = 0
