"""What `accumulus.arrays.compiled.steps_kernel` works on."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.state import NOTHING, Axes, Integers, State

#: Operations.
ADD, SUBTRACT, MULTIPLY, NEGATIVE, SELECT, SAME = range(6)


class StepsState(State):
    """A recurrence modulo a prime, some instances at a time.

    Attributes:
        prime: below 2³¹.
        begin, end: the first of these instances, and the one after the last.
        count: of all instances.
        inputs: of the body.
        operations: (operations, 4), kind of each and the registers of its arguments.
        operation_count: how many there are.
        registers: inputs, then operations, then constants.
        outputs: registers.
        output_count: how many there are.
        source: (inputs, end - begin), the result that an input is, below 0 if it is given.
        given: (inputs, end - begin), its value then.
        results: (outputs, count).
    """

    prime: int
    begin: int = 0
    end: int = 0
    count: int = 0
    inputs: int = 0
    operations: Annotated[Integers, Axes(4)]
    operation_count: int = 0
    registers: Integers = NOTHING
    outputs: Integers = NOTHING
    output_count: int = 0
    source: Integers = NOTHING
    given: Integers = NOTHING
    results: Integers = NOTHING
