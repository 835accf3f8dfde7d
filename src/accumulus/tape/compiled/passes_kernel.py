"""Compiled passes over a tape: many operations written at once, and marks spread along edges."""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.tape.compiled.passes_rules import ASKED, as_given, run
from accumulus.tape.compiled.passes_state import (
    CODE,
    DONE,
    FOLD,
    FULL,
    INDEX,
    ROOM,
    SIGNED,
    SPREAD,
    VERBATIM,
    WRITE,
    PassesState,
)
from accumulus.tape.compiled.passes_tables import constant, index, negative

__all__ = ["perform"]


@compiled
def value_at(state: PassesState, place: int) -> int:
    """Reference that an argument of a command stands for: a value before it, or a constant."""
    return state.values[place] if place >= 0 else place


@compiled
def write(state: PassesState) -> int:
    """Run commands, each of which has one more of the values; returns how it ended."""
    for t in range(state.at, state.end):
        state.at = t
        if state.length + ROOM > state.row_limit:
            return FULL
        if state.constant_count + ROOM > state.constant_limit:
            return FULL
        if state.answered != 0:
            state.answered = 0
            result = constant(state, state.answer)
            for _ in range(state.negations):
                result = negative(state, result)
        else:
            command = state.commands[t]
            a, b, c = value_at(state, command.first), value_at(state, command.second), value_at(state, command.third)
            code = command.code
            if code & VERBATIM != 0:
                result = as_given(state, code & CODE, a, b, c)
            else:
                state.signed_zeros = code & SIGNED
                result = run(state, code & CODE, a, b, c)
                if result == ASKED:
                    return FOLD
        state.values[state.given + t] = result
    state.at = state.end
    return DONE


@compiled
def spread(state: PassesState) -> None:
    """Hand the marks of each edge's start to where it leads, edge by edge."""
    marks, start, to = state.marks, state.start, state.to
    for t in range(state.count):
        marks[to[t]] |= marks[start[t]]


@compiled
def sort(state: PassesState) -> None:
    """Append vertices to the order as soon as they wait for none."""
    first, start, waiting, order, count = state.first_edge, state.start, state.waiting, state.order, state.ordered
    t = 0
    while t < count:
        v = order[t]
        for edge in range(first[v], first[v + 1]):
            user = start[edge]
            waiting[user] -= 1
            if waiting[user] == 0:
                order[count] = user
                count += 1
        t += 1
    state.ordered = count


def perform(state: PassesState) -> int:
    """Do what `mode` says; of WRITE, returns how it ended."""
    if state.mode == WRITE:
        return write(state)
    if state.mode == INDEX:
        index(state)
    elif state.mode == SPREAD:
        spread(state)
    else:
        sort(state)
    return DONE
