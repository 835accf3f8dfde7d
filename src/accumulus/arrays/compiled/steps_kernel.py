"""Compiled evaluation of a recurrence modulo a prime, one instance after the other."""

from __future__ import annotations

from accumulus.arrays.compiled.steps_state import ADD, MULTIPLY, NEGATIVE, SAME, SUBTRACT, StepsState
from accumulus.native.decorators import compiled


@compiled
def operate(state: StepsState, k: int) -> int:
    """The value of one operation."""
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
