"""Moves of products and quotients: each returns the value that a node is to be computed as, or 0."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Records
from accumulus.rewriting.compiled.rewrite_nodes import is_constant, make_product, make_quotient, make_sum, sign_of
from accumulus.rewriting.compiled.rewrite_state import ONE, Entry, RewriteState
from accumulus.rewriting.compiled.rewrite_trees import leaf, partner, pick, rebuild
from accumulus.rewriting.compiled.rewrite_uses import push
from accumulus.tape.operations import BY_NAME

__all__ = ["distribute", "pair_factors", "split_quotient", "times"]

ADD: Final = BY_NAME["add"].code
DIVIDE: Final = BY_NAME["divide"].code


@compiled
def times(state: RewriteState, a: int, b: int) -> int:
    """a · b; a reciprocal that nothing uses becomes a division."""
    for _ in range(2):
        m = abs(b)
        new = state.uses[m] == 0
        if new and state.codes[m] == DIVIDE and state.arguments[m, 0] == ONE:
            sign: int = state.signs[m]
            return make_quotient(state, a, state.arguments[m, 1]) * sign_of(b) * sign
        a, b = b, a
    return make_product(state, a, b)


@compiled
def product_of(state: RewriteState, a: int, b: int) -> int:
    """a · b by an identity, or 0: (x + y) · (x - y)."""
    if state.codes[a] != ADD or state.codes[b] != ADD:
        return 0
    x, y = state.arguments[a, 0], state.arguments[a, 1]
    sign: int = state.signs[a] * state.signs[b]
    # the first argument of a sum has no sign
    if state.arguments[b, 0] != x or state.arguments[b, 1] != -y:
        return 0
    y = abs(y)
    square = make_product(state, x, x)
    return sign * make_sum(state, square, -make_product(state, y, y))


@compiled
def pair_factors(state: RewriteState, count: int, guided: bool) -> int:
    """Two factors of a product are multiplied, or divided, first."""
    i = leaf(state, state.tree, count)
    state.tree[i].removed = 1
    j = partner(state, state.tree, count, i, False) if guided else leaf(state, state.tree, count)
    if j < 0:
        return 0
    state.tree[j].removed = 1
    rest = rebuild(state, state.tree, count, False)
    x, y = state.tree[i].node, state.tree[j].node
    above, below = state.tree[i].sign > 0, state.tree[j].sign < 0
    if above != below:
        pair = product_of(state, x, y) if pick(state, 2) else 0
        if pair == 0:
            pair = make_product(state, x, y)
        return times(state, pair, rest) if above else make_quotient(state, rest, pair)
    if above:
        return times(state, make_quotient(state, x, y), rest)
    return times(state, make_quotient(state, y, x), rest)


@compiled
def split_quotient(state: RewriteState, count: int) -> int:
    """One over a divisor is computed by itself."""
    i = leaf(state, state.tree, count)
    if state.tree[i].sign > 0:
        return 0
    state.tree[i].removed = 1
    rest = rebuild(state, state.tree, count, False)
    x = state.tree[i].node
    return make_product(state, rest, make_quotient(state, ONE, x))


@compiled
def distribute(state: RewriteState, tree: Records[Entry], count: int) -> bool:
    """A sum among the factors of a product is multiplied out: two terms on the stack; whether there is one.

    Sums with a number stay whole: x - 1 is often exact where its terms times a factor are not, and numbers that have
    been added to others are not told apart again.
    """
    i = leaf(state, tree, count)
    n = tree[i].node
    if tree[i].sign < 0 or state.codes[n] != ADD:
        return False
    x, y = state.arguments[n, 0], state.arguments[n, 1]
    if is_constant(state, x) or is_constant(state, y):
        return False
    tree[i].removed = 1
    rest = rebuild(state, tree, count, False) * state.signs[n]
    push(state, times(state, x, rest))
    push(state, times(state, y, rest))
    return True
