"""Compiled search for the signs with which nodes are computed, so that few have to be changed.

Each node is computed with a sign of its own: as its value, or as the negative of that. Whether that takes a change of
sign depends on it and on those of its arguments: a product has the product of their signs, a difference can be taken
either way round, a choice wants both of its values alike, an output its own. An exact sum is never turned. Annealing
over single signs: what is wrong with a node depends on its neighbours only, so a visit takes some ten nanoseconds, and
what is wrong wanders along products at no cost until it meets its like, or a difference.
"""

from __future__ import annotations

from accumulus.native.memory import (
    compiled,
    get,
    get_float,
    put,
    random_bits,
    shifted_right,
    whole,
)
from accumulus.rewriting.compiled.signs_slots import (
    ALL,
    ARGUMENTS,
    ARITIES,
    COOLING,
    COUNT,
    EVEN,
    EXACT_SUM,
    FIRST,
    FREE,
    HEADS,
    KINDS,
    MODE,
    NEXTS,
    NODES,
    ODD,
    ORDER,
    OTHER,
    OUTPUT,
    OWN,
    PRODUCT,
    RANDOM,
    ROOT_COUNT,
    ROOTS,
    SEEN,
    SELECT,
    SORT,
    SPINS,
    STACK,
    SUM,
    TEMPERATURE,
    THRESHOLD_COUNT,
    THRESHOLDS,
    VISITS,
)

__all__ = ["anneal"]


@compiled
def sign_at(block: int, n: int, k: int) -> int:
    """The sign with which an argument comes; 0 where there is none that matters."""
    a = get(get(block, ARGUMENTS), 3 * n + k)
    if a == 0:
        return 0
    spin = get(get(block, SPINS), abs(a))
    return spin if a > 0 else -spin


@compiled
def wrong(block: int, n: int) -> int:
    """How many changes of sign a node takes."""
    kind = get(get(block, KINDS), n)
    if kind == FREE:
        return 0
    spin = get(get(block, SPINS), n) * get(get(block, OWN), n)
    x = sign_at(block, n, whole(0))
    if kind == PRODUCT:
        return 1 if x * sign_at(block, n, whole(1)) != spin else 0
    if kind in (SUM, EXACT_SUM):
        return 1 if x == sign_at(block, n, whole(1)) and x != spin else 0
    if kind == ODD:
        return 1 if x != spin else 0
    if kind == EVEN:
        return 1 if spin < 0 else 0
    if kind == OUTPUT:
        return 1 if x < 0 else 0
    y = sign_at(block, n, whole(1))
    if kind == SELECT:
        z = sign_at(block, n, whole(2))
        return (1 if y == -spin else 0) + (1 if z == -spin else 0)
    assert kind == OTHER
    return (1 if spin < 0 else 0) + (1 if x < 0 else 0) + (1 if y < 0 else 0)


@compiled
def around(block: int, n: int) -> int:
    """How many changes a node and those that use it take."""
    total = wrong(block, n)
    place = get(get(block, HEADS), n)
    while place:
        total += wrong(block, place // 3)
        place = get(get(block, NEXTS), place)
    return total


@compiled
def sort(block: int) -> int:
    """Order the operations that the outputs need, arguments first; returns how many they are."""
    arities, seen, stack, order = get(block, ARITIES), get(block, SEEN), get(block, STACK), get(block, ORDER)
    count = 0
    for k in range(get(block, ROOT_COUNT)):
        put(stack, 0, abs(get(get(block, ROOTS), k)))
        height = 1
        while height:
            height -= 1
            n = get(stack, height)
            if n < 0:  # all that it needs is there
                put(order, count, ~n)
                count += 1
            elif not get(seen, n) and get(arities, n):
                put(seen, n, 1)
                put(stack, height, ~n)
                height += 1
                for j in range(get(arities, n) - 1, -1, -1):
                    put(stack, height, abs(get(get(block, ARGUMENTS), 3 * n + j)))
                    height += 1
    return count


@compiled
def count_wrong(block: int) -> int:
    """How many changes of sign all nodes and outputs take."""
    total = 0
    for n in range(1, get(block, ALL) + 1):
        total += wrong(block, n)
    return total


@compiled
def turn(block: int) -> None:
    """Visit VISITS random nodes among the NODES from FIRST on."""
    first, count, spins = get(block, FIRST), get(block, NODES), get(block, SPINS)
    temperature, cooling = get_float(block, TEMPERATURE), get_float(block, COOLING)
    for _ in range(get(block, VISITS)):
        bits = shifted_right(random_bits(block + RANDOM * 8), 8)
        n = first + ((bits & 0xFFFFFFFF) * count >> 32)
        temperature *= cooling
        if get(get(block, KINDS), n) == EXACT_SUM:
            continue
        before = around(block, n)
        put(spins, n, -get(spins, n))
        change = around(block, n) - before
        if change > temperature * get_float(get(block, THRESHOLDS), (bits >> 32) % THRESHOLD_COUNT):
            put(spins, n, -get(spins, n))


def anneal(block: int) -> int:
    """Do what MODE says; of SORT and COUNT, returns the number."""
    mode = get(block, MODE)
    if mode == SORT:
        return sort(block)
    if mode == COUNT:
        return count_wrong(block)
    turn(block)
    return 0
