"""Moves of sums: each returns the value that a node is to be computed as, or 0."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.rewriting.compiled.rewrite_nodes import lookup, make_product, make_quotient, make_sum, sign_of
from accumulus.rewriting.compiled.rewrite_products import times
from accumulus.rewriting.compiled.rewrite_state import ONE, ZERO, RewriteState
from accumulus.rewriting.compiled.rewrite_trees import gather, leaf, partner, pick, rebuild, term
from accumulus.tape.operations import BY_NAME

__all__ = ["common_factor", "pair_terms"]

MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
SIN: Final = BY_NAME["sin"].code
COS: Final = BY_NAME["cos"].code


@compiled
def square_of(state: RewriteState, a: int) -> int:
    """The node of which the value is the square, 0 if it is none; of the number 1, that."""
    if a == ONE:
        return ONE
    if state.codes[a] != MULTIPLY:
        return 0
    x: int = state.arguments[a, 0]
    return x if x == state.arguments[a, 1] else 0


@compiled
def sum_of(state: RewriteState, a: int, b: int) -> int:
    """a + b by an identity, or 0: squares of sine and cosine, and differences of squares."""
    m, n = abs(a), abs(b)
    x, y = square_of(state, m), square_of(state, n)
    if x == 0 or y == 0:
        return 0
    sign_a: int = sign_of(a) * state.signs[m]
    sign_b = sign_of(b) * state.signs[n]
    code_x, code_y = state.codes[x], state.codes[y]
    if sign_a == sign_b:
        angles = (code_x == SIN and code_y == COS) or (code_x == COS and code_y == SIN)
        same = state.arguments[x, 0] == state.arguments[y, 0]
        return sign_a * ONE if angles and same else 0
    for _ in range(2):
        if x == ONE and code_y in (SIN, COS):  # 1 - sin² is cos²
            other = lookup(state, COS if code_y == SIN else SIN, state.arguments[y, 0], 0, 0)
            if other > 0:
                return sign_a * make_product(state, other, other)
        x, y, code_x, code_y, sign_a = y, x, code_y, code_x, -sign_a
    plus = make_sum(state, x, y)
    return sign_a * make_product(state, plus, make_sum(state, x, -y))


@compiled
def pair_terms(state: RewriteState, count: int, guided: bool) -> int:
    """Two terms of a sum are added first."""
    i = leaf(state, state.tree, count)
    state.tree[i].removed = 1
    j = partner(state, state.tree, count, i, True) if guided else leaf(state, state.tree, count)
    if j < 0:
        return 0
    state.tree[j].removed = 1
    rest = rebuild(state, state.tree, count, True)
    a, b = term(state.tree[i]), term(state.tree[j])
    pair = 0
    if pick(state, 2):
        pair = sum_of(state, a, b)
    if pair == 0:
        pair = make_sum(state, a, b)
    return make_sum(state, pair, rest)


@compiled
def lacks(state: RewriteState, n: int, x: int, side: int) -> bool:
    """Whether a term is seen at once not to have that factor, or divisor where the side is -1.

    Most terms are no products, or products of two that are none: trees of these take longer to gather than to tell.
    """
    code = state.codes[n]
    if code not in (MULTIPLY, DIVIDE):
        return n != x or side < 0
    a, b = abs(state.arguments[n, 0]), abs(state.arguments[n, 1])
    if state.codes[a] in (MULTIPLY, DIVIDE) or state.codes[b] in (MULTIPLY, DIVIDE):
        return False
    return (a != x or side < 0) and (b != x or side != (-1 if code == DIVIDE else 1))


@compiled
def common_factor(state: RewriteState, count: int) -> int:
    """A factor, or divisor, of several terms of a sum is taken out."""
    i = leaf(state, state.tree, count)
    factors = gather(state, state.part, state.tree[i].node, False)
    f = leaf(state, state.part, factors)
    x, side = state.part[f].node, state.part[f].sign
    if x == ONE:
        return 0
    state.part[f].removed = 1
    every = pick(state, 2)
    start = pick(state, count)
    inner = 0
    for t in range(count):
        j = start + t
        if j >= count:
            j -= count
        if j == i or state.tree[j].left >= 0:
            continue
        other = state.tree[j].node
        if lacks(state, other, x, side):
            continue
        others = gather(state, state.other, other, False)
        for g in range(others):
            entry = state.other[g]
            if entry.left < 0 and entry.node == x and entry.sign == side:
                entry.removed = 1
                state.tree[j].removed = 1
                if inner == 0:
                    inner = rebuild(state, state.part, factors, False) * state.tree[i].sign
                other = rebuild(state, state.other, others, False) * state.tree[j].sign
                inner = make_sum(state, inner, other)
                break
        if inner != 0 and not every:
            break
    # what cancels is left alone: it may be there to show what rounding took, or to be NaN where a term is infinite
    if inner == 0 or abs(inner) == ZERO:
        return 0
    state.tree[i].removed = 1
    rest = rebuild(state, state.tree, count, True)
    product = times(state, x, inner) if side > 0 else make_quotient(state, inner, x)
    return make_sum(state, product, rest)
