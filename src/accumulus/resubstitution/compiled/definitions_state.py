"""What `accumulus.resubstitution.compiled.definitions_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np

from accumulus.native.state import NOTHING, Axes, Floats, Integers, State

__all__ = [
    "ARGUMENTS",
    "CODE",
    "ENTER",
    "EXCESS",
    "FIRST",
    "NODE",
    "ORDER",
    "SECOND",
    "SIGN",
    "THIRD",
    "WIDTH",
    "DefinitionsState",
]

#: What to do: enter definitions into the table, find how uncertain they are, choose some without circles.
ENTER, EXCESS, ORDER = range(3)
#: Columns of definitions.
NODE, CODE, FIRST, SECOND, THIRD, SIGN = range(6)
WIDTH: Final = 6
ARGUMENTS: Final = slice(FIRST, THIRD + 1)
_NO_FLOATS: Final[Floats] = np.zeros(0)


class DefinitionsState(State):
    """Definitions of values; see `accumulus.resubstitution.definitions.Definition`.

    Attributes:
        mode: what to do.
        rows: definitions, by their columns.
        count: of them.
        table: for ENTER, numbers of definitions, plus one, by what they say; open addressing, 0 where there is none.
        table_bits: of its size.
        indexed: so many definitions are in the table.
        given: definitions to be entered, (given_count, WIDTH).
        given_count: how many.
        numbers: for ENTER, written: which definition each of these is. Else the definitions in question, so many.
        number_count: how many.
        points: for EXCESS, the number of real points.
        reals, bounds: of each value at each point, (values · points,).
        generic: which points are in general position, (points,); and which `inside` of the domain.
        outside: how many times more uncertain definitions may be elsewhere.
        largest, smallest: what is beyond the first is infinite; what is below the second has errors of its size.
        slack: so many units of rounding are not more uncertain.
        rounding: by how much equal values may differ for each unit of their errors.
        lost: of two values that have lost more than this, as a part of themselves, nothing can be said.
        excess: written: how many times as uncertain each definition makes its value, at worst, (number_count,).
        is_given: for ORDER, which values are numbers or inputs, (values,).
        preferred: the definition that each value has rather than another, plus one; 0 for none.
        chosen: written: the definition of each value, plus one; 0 for what none makes, (values,).
        missing: room for a number for each definition in question.
        heads: room for a number for each value; `nexts`, for each definition and argument.
        queue: room for a number for each definition, twice.
    """

    mode: int = ENTER
    rows: Annotated[Integers, Axes(WIDTH)] = NOTHING
    count: int = 0
    table: Integers = NOTHING
    table_bits: int = 0
    indexed: int = 0
    given: Annotated[Integers, Axes(WIDTH)] = NOTHING
    given_count: int = 0
    numbers: Integers = NOTHING
    number_count: int = 0
    points: int = 0
    reals: Floats = _NO_FLOATS
    bounds: Floats = _NO_FLOATS
    generic: Integers = NOTHING
    inside: Integers = NOTHING
    outside: float = 1.0
    largest: float = 0.0
    smallest: float = 0.0
    slack: float = 0.0
    rounding: float = 0.0
    lost: float = 0.0
    excess: Floats = _NO_FLOATS
    is_given: Integers = NOTHING
    preferred: Integers = NOTHING
    chosen: Integers = NOTHING
    missing: Integers = NOTHING
    heads: Integers = NOTHING
    nexts: Annotated[Integers, Axes(3)] = NOTHING
    queue: Integers = NOTHING
