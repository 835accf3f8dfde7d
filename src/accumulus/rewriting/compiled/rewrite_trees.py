"""Trees of sums, and of products and quotients: what the moves take nodes apart into, and put together again."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Records
from accumulus.native.words import random_bits, shifted_right
from accumulus.rewriting.compiled.rewrite_nodes import make, sign_of
from accumulus.rewriting.compiled.rewrite_state import ONE, TREE_SIZE, ZERO, Entry, RewriteState
from accumulus.tape.operations import BY_NAME

__all__ = ["gather", "leaf", "looked_into", "partner", "pick", "rebuild", "term"]

ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code

#: Uses of a node that are looked at for a pair that is computed elsewhere.
LOOK: Final = 24


@compiled
def pick(state: RewriteState, bound: int) -> int:
    """A random number below a bound."""
    return (shifted_right(random_bits(state.random), 24) & 0xFFFFFFFF) * bound >> 32


@compiled
def looked_into(state: RewriteState) -> bool:
    """Whether chance will have it that a sum or product is looked into that is used elsewhere, too."""
    return (shifted_right(random_bits(state.random), 20) & 1023) < state.inline


@compiled
def enter(entry: Entry, n: int, sign: int) -> None:
    """Let an entry be a leaf of a tree."""
    entry.node = n
    entry.sign = sign
    entry.left = -1
    entry.removed = 0


@compiled
def gather(state: RewriteState, tree: Records[Entry], root: int, sums: bool) -> int:
    """The terms of a sum, or the factors of a product, as the leaves of a tree; the number of its entries.

    The sign of a term is that with which it counts; that of a factor is -1 if it divides. Terms and factors that are
    used elsewhere, too, are sometimes looked into.
    """
    count = 1
    enter(tree[0], root, 1)
    place = 0
    while place < count and count + 2 <= TREE_SIZE:
        entry = tree[place]
        n = entry.node
        code = state.codes[n]
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            opened = place == 0 or state.uses[n] == 1
            if not opened and state.inline:
                opened = looked_into(state)
            if opened:
                a, b = state.arguments[n, 0], state.arguments[n, 1]
                sign = entry.sign
                if sums:
                    sign *= state.signs[n]
                    enter(tree[count], abs(a), sign * sign_of(a))
                    enter(tree[count + 1], abs(b), sign * sign_of(b))
                else:
                    enter(tree[count], abs(a), sign)
                    enter(tree[count + 1], abs(b), -sign if code == DIVIDE else sign)
                entry.left = count
                entry.right = count + 1
                count += 2
        place += 1
    return count


@compiled
def rebuild(state: RewriteState, tree: Records[Entry], count: int, sums: bool) -> int:
    """The value of the root without the leaves that were removed; what has not changed stays as it is."""
    neutral = ZERO if sums else ONE
    for place in range(count - 1, -1, -1):
        entry = tree[place]
        n = entry.node
        value = n
        if entry.removed:
            value = neutral
        elif entry.left >= 0:
            left, right = tree[entry.left], tree[entry.right]
            a, b = left.value, right.value
            if a != left.node or b != right.node:
                x, y = state.arguments[n, 0], state.arguments[n, 1]
                value = make(state, state.codes[n], sign_of(x) * a, sign_of(y) * b, 0) * state.signs[n]
        entry.value = value
    return tree[0].value


@compiled
def leaf(state: RewriteState, tree: Records[Entry], count: int) -> int:
    """A random leaf that was not removed, or -1."""
    start = pick(state, count)
    for t in range(count):
        place = start + t
        if place >= count:
            place -= count
        if tree[place].left < 0 and not tree[place].removed:
            return place
    return -1


@compiled
def partner(state: RewriteState, tree: Records[Entry], count: int, i: int, sums: bool) -> int:
    """A leaf that the leaf i is paired with elsewhere, or -1."""
    x, sign = tree[i].node, tree[i].sign
    place = state.heads[x]
    for _ in range(pick(state, 4)):
        if place:
            place = state.nexts[place]
    looked = 0
    while place and looked < LOOK:
        looked += 1
        user = place // 3
        code = state.codes[user]
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            k = place - 3 * user
            mine, other = state.arguments[user, k], state.arguments[user, 1 - k]
            y = abs(other)
            relative = -1 if code == DIVIDE or (sums and (mine < 0) != (other < 0)) else 1
            for j in range(count):
                if j != i and tree[j].left < 0 and tree[j].node == y and tree[j].sign * sign == relative:
                    return j
        place = state.nexts[place]
    return -1


@compiled
def term(entry: Entry) -> int:
    """The value that a term of a sum contributes."""
    return entry.node * entry.sign
