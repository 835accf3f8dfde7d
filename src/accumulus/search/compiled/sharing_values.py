"""Values of `accumulus.search.compiled.sharing_kernel`: nodes, interned by what they compute, and their arithmetic."""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.words import logged, population, shifted_right
from accumulus.search.compiled.sharing_state import (
    DIFFERENCE,
    EVEN,
    GUARD,
    NEGATIVE,
    NODE_BITS,
    PRODUCT,
    SELECT,
    SIGN_BIT,
    SPREAD,
    SUM,
    SharingState,
)

__all__ = ["closed", "product", "total"]


@compiled
def intern(state: SharingState, key: int, price: int, sign: int) -> int:
    """Value of a key; if it is new, a new node with that sign, which costs `price`."""
    keys, mask = state.keys, (1 << state.key_bits) - 1
    place = shifted_right(key * SPREAD, 64 - state.key_bits)
    while True:
        known = keys[place]
        if known == key:
            value: int = state.nodes[place]
            return value
        if known == 0:
            break
        place = (place + 1) & mask
    node = state.next
    logged(state).keys[place] = key
    state.nodes[place] = sign * node
    state.constant[node] = 1 if price == 0 else 0
    state.next = node + 1
    state.cost += price
    return sign * node


@compiled
def key_of(operation: int, a: int, b: int) -> int:
    """Key of an operation on two nodes; the order of the operands does not matter."""
    if a > b:
        a, b = b, a
    return (((operation << NODE_BITS) | a) << NODE_BITS) | b


@compiled
def product(state: SharingState, a: int, b: int) -> int:
    """The value a · b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if a == 1:
        return sign * b
    if b == 1:
        return sign * a
    constants = state.constant[a] + state.constant[b]
    key = key_of(PRODUCT, a, b)
    if constants == 1 and sign < 0:  # the constant takes the sign
        key |= 1 << SIGN_BIT
        sign = 1
    return sign * intern(state, key, 1 if constants < 2 else 0, 1)


@compiled
def closed(state: SharingState, value: int, guard: int) -> int:
    """The value where all conditions of the guard hold, 0 elsewhere."""
    if guard == 0:
        return value
    conditions = intern(state, (GUARD << 2 * NODE_BITS) | guard, population(guard) - 1, 1)
    if value < 0:
        value = intern(state, key_of(NEGATIVE, 0, -value), 1, 1)
    return intern(state, key_of(SELECT, conditions, value), 1, 1)


@compiled
def total(state: SharingState, a: int, guard_a: int, b: int, guard_b: int) -> int:
    """The value a + b, under the conditions that both guards have in common."""
    common = guard_a & guard_b
    guard_a, guard_b = guard_a & ~common, guard_b & ~common
    if population(guard_a) == 1 and (guard_a << 1 if guard_a & EVEN != 0 else guard_a >> 1) == guard_b:
        # one condition and its opposite
        key = key_of(SELECT, abs(a), abs(b))
        if (a < 0) != (b < 0):
            key |= 1 << SIGN_BIT
        return intern(state, key, 1, 1)
    a, b = closed(state, a, guard_a), closed(state, b, guard_b)
    x, y = abs(a), abs(b)
    price = 1 - (state.constant[x] & state.constant[y])
    if (a < 0) == (b < 0):
        value = intern(state, key_of(SUM, x, y), price, 1)
        return value if a > 0 else -value
    # its key stands for the lower number less the higher one; the difference that is computed first has no sign
    sign = 1 if (a > 0) == (x < y) else -1
    return sign * intern(state, key_of(DIFFERENCE, x, y), price, sign)
