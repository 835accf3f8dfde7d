"""Moves of choices: each returns the value that a node is to be computed as, or 0."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.rewriting.compiled.rewrite_nodes import make, make_choice, make_quotient, make_sum, sign_of
from accumulus.rewriting.compiled.rewrite_products import times
from accumulus.rewriting.compiled.rewrite_state import ONE, ZERO, RewriteState
from accumulus.rewriting.compiled.rewrite_trees import gather, leaf, pick, rebuild
from accumulus.tape.operations import BY_NAME

__all__ = ["select_outside", "select_within"]

ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
SELECT: Final = BY_NAME["select"].code


@compiled
def select_within(state: RewriteState, n: int) -> int:
    """An operation on choices under one condition becomes a choice between operations."""
    code: int = state.codes[n]
    sign: int = state.signs[n]
    a, b = state.arguments[n, 0], state.arguments[n, 1]
    chosen_a, chosen_b = state.codes[abs(a)] == SELECT, state.codes[abs(b)] == SELECT
    if not chosen_a and not chosen_b:
        return 0
    condition = state.arguments[abs(a if chosen_a else b), 0]
    sign_a, sign_b = sign_of(a), sign_of(b)
    a1, a2, b1, b2 = a, a, b, b
    if chosen_a:
        sign_a *= state.signs[abs(a)]
        a1 = sign_a * state.arguments[abs(a), 1]
        a2 = sign_a * state.arguments[abs(a), 2]
    if chosen_b and state.arguments[abs(b), 0] == condition:
        sign_b *= state.signs[abs(b)]
        b1 = sign_b * state.arguments[abs(b), 1]
        b2 = sign_b * state.arguments[abs(b), 2]
    first = make(state, code, a1, b1, 0)
    second = make(state, code, a2, b2, 0)
    return make_choice(state, condition, first, second) * sign


@compiled
def select_outside(state: RewriteState, n: int) -> int:
    """A choice between two operations becomes an operation on a choice: what both have in common comes out."""
    condition, a, b = state.arguments[n, 0], state.arguments[n, 1], state.arguments[n, 2]
    code = state.codes[abs(a)]
    sign: int = state.signs[n]
    sums = pick(state, 2) == 0
    first = gather(state, state.tree, abs(a), sums)
    second = gather(state, state.part, abs(b), sums)
    i = leaf(state, state.tree, first)
    x, side = state.tree[i].node, state.tree[i].sign
    if x in (ONE, ZERO):
        return 0
    if sums:
        side *= sign_of(a)
    for j in range(second):
        if state.part[j].left < 0 and state.part[j].node == x:
            other = state.part[j].sign * (sign_of(b) if sums else 1)
            if other == side:
                state.tree[i].removed = 1
                state.part[j].removed = 1
                u = rebuild(state, state.tree, first, sums) * sign_of(a)
                v = rebuild(state, state.part, second, sums) * sign_of(b)
                chosen = make_choice(state, condition, u, v) * sign
                if sums:
                    return make_sum(state, chosen, side * sign * x)
                if side > 0:
                    return times(state, x, chosen)
                return make_quotient(state, chosen, x)
    if code == state.codes[abs(b)] and code in (ADD, MULTIPLY, DIVIDE):
        # nothing in common: arguments are chosen one by one
        sign_a = sign_of(a) * state.signs[abs(a)]
        sign_b = sign_of(b) * state.signs[abs(b)]
        a1, a2 = state.arguments[abs(a), 0], state.arguments[abs(a), 1]
        b1, b2 = state.arguments[abs(b), 0], state.arguments[abs(b), 1]
        if code == ADD:
            a1, a2, b1, b2 = a1 * sign_a, a2 * sign_a, b1 * sign_b, b2 * sign_b
        else:
            a1, b1 = a1 * sign_a, b1 * sign_b
        if code != DIVIDE and pick(state, 2):
            b1, b2 = b2, b1
        left = make_choice(state, condition, a1, b1)
        right = make_choice(state, condition, a2, b2)
        return make(state, code, left, right, 0) * sign
    return 0
