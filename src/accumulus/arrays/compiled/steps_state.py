"""Memory that `accumulus.arrays.compiled.steps_kernel` works on."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.state import NOTHING, Axes, Integers, State

#: Operations.
ADD, SUBTRACT, MULTIPLY, NEGATIVE, SELECT, SAME = range(6)


class StepsState(State):
    """A recurrence modulo a prime, some instances at a time."""

    prime: int  # below 2³¹
    # begin, end: the first of these instances, and the one after the last
    begin: int = 0
    end: int = 0
    count: int = 0  # of all instances
    inputs: int = 0  # of the body
    operations: Annotated[Integers, Axes(4)]  # (operations, 4), kind of each and the registers of its arguments
    operation_count: int = 0  # how many there are
    registers: Integers = NOTHING  # inputs, then operations, then constants
    outputs: Integers = NOTHING  # registers
    output_count: int = 0  # how many there are
    source: Integers = NOTHING  # (inputs, end - begin), the result that an input is, below 0 if it is given
    given: Integers = NOTHING  # (inputs, end - begin), its value then
    results: Integers = NOTHING  # (outputs, count)
