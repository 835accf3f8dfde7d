"""What `accumulus.resubstitution.compiled.helpers_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Floats, Integers, Record, Records, State

__all__ = ["KEY_BITS", "Helper", "HelpersState", "Wanted"]

#: Bits of a mantissa that are left out of keys.
KEY_BITS: Final = 20


class Wanted(Record):
    """What would make values that are there by one more operation.

    Attributes:
        key: of it; 0 where there is none.
        last: the value that wanted it last.
        count: how many values want it; 0 if it is there.
    """

    key: int
    last: int
    count: int


class Helper(Record):
    """A value that is not there, and that several that are would be made by.

    Attributes:
        count: how many.
        way: how it is made, as `accumulus.resubstitution.compiled.pairs_state` has it.
        first, second: of what.
    """

    count: int
    way: int
    first: int
    second: int


class HelpersState(State):
    """Values at one point, and what is wanted there.

    Attributes:
        real, imaginary: of each value, (values,).
        count: of values.
        open: whether a value may have another definition, (values,).
        divides: whether something is divided by a value, (values,).
        wanted: by their keys, open addressing.
        table_bits: of its size.
        found: helpers, each once.
        found_count: how many.
        found_limit: how many there is room for.
    """

    real: Floats
    imaginary: Floats
    count: int
    open: Integers
    divides: Integers
    wanted: Records[Wanted]
    table_bits: int
    found: Records[Helper]
    found_count: int = 0
    found_limit: int
