"""What `accumulus.resubstitution.compiled.pairs_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Floats, Integers, Record, Records, State

__all__ = ["DIFFERENCE", "FILTER_BITS", "INDEX", "KEY_BITS", "PRODUCT", "QUOTIENT", "SUM", "TRY", "Found", "PairsState"]

#: What to do: fill the table, try pairs.
INDEX, TRY = range(2)
#: How two values make a third.
SUM, DIFFERENCE, PRODUCT, QUOTIENT = range(4)
#: Bits of a mantissa that are left out of keys.
KEY_BITS: Final = 22
#: Logarithm of the number of bits by which keys of no value are told before they are looked up.
FILTER_BITS: Final = 16


class Found(Record):
    """A value that is made of two others.

    Attributes:
        node: the value, its negative where that is what is made.
        way: how.
        first, second: of what.
    """

    node: int
    way: int
    first: int
    second: int


class PairsState(State):
    """Values at points, and the table by which they are found.

    Attributes:
        mode: what to do.
        points: at which there are values.
        real, imaginary: of each value at each point, (values · points,); of the first, 0, there is none.
        errors: bounds on the error of each, in units of rounding, (values · points,).
        open: whether a value may have another definition, (values,).
        count: of values.
        keys: of each value: its first part at the first point, without the last bits.
        table: values by their keys, open addressing; 0 where there is none.
        table_bits: of its size.
        filter: a bit for each key that there is, and some that there are not, (2 ** FILTER_BITS / 64,).
        inverses: of the squared size of each value at the first point.
        rounding: by how much equal values may differ for each unit of their errors.
        begin, end: the first values of the pairs that are tried in a call.
        found: what they make.
        found_count: how many.
        found_limit: how many there is room for.
    """

    mode: int = INDEX
    points: int
    real: Floats
    imaginary: Floats
    errors: Floats
    open: Integers
    count: int
    keys: Integers
    table: Integers
    table_bits: int
    filter: Integers
    inverses: Floats
    rounding: float
    begin: int = 0
    end: int = 0
    found: Records[Found]
    found_count: int = 0
    found_limit: int
