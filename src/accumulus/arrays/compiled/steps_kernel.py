"""Compiled evaluation of a recurrence modulo a prime, one instance after the other."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.decorators import compiled
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


@compiled
def operate(state: StepsState, k: int) -> int:
    """Return the value of one operation."""
    registers, kind = state.registers, state.operations[k, 0]
    a: int = registers[state.operations[k, 1]]
    if kind == SAME:
        return a
    if kind == NEGATIVE:
        return state.prime - a % state.prime
    b: int = registers[state.operations[k, 2]]
    if kind == ADD:
        return (a + b) % state.prime
    if kind == SUBTRACT:
        return (a - b + 2 * state.prime) % state.prime
    if kind == MULTIPLY:
        return a * b % state.prime
    c: int = registers[state.operations[k, 3]]
    return (c + a * ((b - c + 2 * state.prime) % state.prime)) % state.prime


def perform(state: StepsState) -> int:
    """Compute the results of some instances."""
    width, registers = state.end - state.begin, state.registers
    for t in range(width):
        for k in range(state.inputs):
            source = state.source[k * width + t]
            registers[k] = state.results[source] if source >= 0 else state.given[k * width + t]
        for k in range(state.operation_count):
            registers[state.inputs + k] = operate(state, k)
        for k in range(state.output_count):
            state.results[k * state.count + state.begin + t] = registers[state.outputs[k]]
    return 0
