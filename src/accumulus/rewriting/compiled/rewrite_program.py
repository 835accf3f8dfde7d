"""A program read as a network of nodes, and a network kept."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, copy
from accumulus.rewriting.compiled.rewrite_nodes import constant, intern, make, touch
from accumulus.rewriting.compiled.rewrite_state import CONSTANT, FOR_LIFE, OUTPUT, RewriteState
from accumulus.rewriting.compiled.rewrite_uses import hold, settle
from accumulus.tape.operations import BY_NAME

__all__ = ["build", "keep"]

INPUT: Final = BY_NAME["input"].code
ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
NEGATIVE: Final = BY_NAME["negative"].code
SELECT: Final = BY_NAME["select"].code


@compiled
def meaning(state: RewriteState, reference: int) -> int:
    """The value of a reference of the program that is read."""
    if reference >= 0:
        value: int = state.meanings[reference]
        return value
    return constant(state, state.numbers[-1 - reference])


@compiled
def keep(state: RewriteState) -> None:
    """The program as it is now becomes the best."""
    count = state.next
    state.unkept = 0
    state.best = state.cost
    state.best_next = count
    copy(state.best_codes, state.codes, count)
    copy(state.best_signs, state.signs, count)
    for n in range(count):
        for k in range(3):
            state.best_arguments[n, k] = state.arguments[n, k]


@compiled
def build(state: RewriteState) -> None:
    """Read a program: its inputs, operations and outputs become nodes."""
    state.next = 1
    state.touched_count = 0
    for value in range(3):
        intern(state, CONSTANT, bits_of(float(value)), 0, 0)
    meanings, inputs = state.meanings, state.inputs
    for n in range(inputs):
        meanings[n] = intern(state, INPUT, n, 0, 0)
    for n in range(1, state.next):
        hold(state, n)
    for r in range(state.length):
        state.logged = 0
        state.touched_count = 0
        operation = state.program[r]
        code = operation.code
        a = meaning(state, operation.first)
        value = -a
        if code != NEGATIVE:
            arity = state.arities[code]
            b = meaning(state, operation.second) if arity > 1 else 0
            c = meaning(state, operation.third) if arity > 2 else 0
            if code == SUBTRACT:
                code, b = ADD, -b
            if code == SELECT:
                state.choices = 1
            value = make(state, code, a, b, c)
        meanings[inputs + r] = value
        if operation.stays:
            state.frozen[abs(value)] = 1
    outputs = state.outputs
    for k in range(state.output_count):
        outputs[k] = meaning(state, outputs[k])
    state.first_output = state.next
    for k in range(state.output_count):
        state.logged = 0
        state.touched_count = 0
        value = outputs[k]
        n = state.next
        state.next += 1
        state.codes[n] = OUTPUT
        state.arguments[n, 0] = value
        hold(state, n)
    for r in range(state.length):
        if state.program[r].stays == FOR_LIFE:
            state.logged = 0
            hold(state, abs(meanings[inputs + r]))
    for n in range(4 + inputs, state.first_output):
        state.logged = 0
        state.touched_count = 0
        if state.uses[n] == 0:
            touch(state, n)
            settle(state)
    state.logged = 0
    state.touched_count = 0
    keep(state)
