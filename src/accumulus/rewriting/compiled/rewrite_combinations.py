"""Sums as linear combinations: a move that returns the value that a node is to be computed as, or 0."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.rewriting.compiled.rewrite_nodes import constant, is_constant, make_product, make_sum, number, sign_of
from accumulus.rewriting.compiled.rewrite_state import CONSTANT, ONE, TERM_COUNT, ZERO, RewriteState, Term
from accumulus.rewriting.compiled.rewrite_trees import looked_into
from accumulus.tape.operations import BY_NAME

__all__ = ["combine_terms"]

ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code


@compiled
def put(term: Term, m: int, coefficient: float) -> None:
    """Let a term be a multiple of a node."""
    term.node = m
    term.coefficient = coefficient


@compiled
def combine_terms(state: RewriteState, n: int) -> int:
    """A sum as a linear combination: what counts several times is added up, terms of one coefficient have it once.

    Sums and multiples that are used elsewhere, too, are sometimes looked into.
    """
    found, waiting = state.found, state.waiting
    put(waiting[0], n, 1.0)
    left, count, merged = 1, 0, False
    while left:
        left -= 1
        m, scale = waiting[left].node, waiting[left].coefficient
        code = state.codes[m]
        opened = m == n
        if not opened and code in (ADD, MULTIPLY):
            opened = state.uses[m] == 1
            if not opened:
                opened = looked_into(state)
        if opened and left + 2 > TERM_COUNT:
            return 0
        a, b = state.arguments[m, 0], state.arguments[m, 1]
        if opened and code == ADD:
            scale *= state.signs[m]
            put(waiting[left], abs(a), scale * sign_of(a))
            put(waiting[left + 1], abs(b), scale * sign_of(b))
            left += 2
            continue
        if opened and code == MULTIPLY and is_constant(state, a) != is_constant(state, b):
            if is_constant(state, b):
                a, b = b, a
            put(waiting[left], b, scale * number(state, a) * state.signs[m])
            left += 1
            continue
        if code == CONSTANT:
            scale *= number(state, m)
            m = ONE
        k = 0
        while k < count and found[k].node != m:
            k += 1
        if k == count:
            if count == TERM_COUNT:
                return 0
            put(found[k], m, scale)
            count += 1
        else:
            merged = merged or m != ONE
            found[k].coefficient += scale
            if found[k].coefficient == 0.0:  # what cancels is left alone, see `rewrite_sums.common_factor`
                return 0
    if not merged:
        return 0
    total = ZERO
    for k in range(count):
        m, scale = found[k].node, found[k].coefficient
        if m == 0:
            continue
        if m == ONE:
            total = make_sum(state, total, constant(state, scale))
            continue
        inner = ZERO
        for t in range(k, count):
            other = found[t]
            if other.node > ONE and abs(other.coefficient) == abs(scale):
                value = other.node if other.coefficient == scale else -other.node
                inner = make_sum(state, inner, value)
                other.node = 0
        scaled = make_product(state, constant(state, scale), inner)
        total = make_sum(state, total, scaled)
    return total
