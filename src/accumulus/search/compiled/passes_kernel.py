"""Compiled passes over the steps of a large plan: their values modulo 2⁶¹ − 1, and what they cost.

Does what `accumulus.accumulate.accumulation.Accumulation.verify` and `accumulus.accumulate.cost.count` do, with three
words, and with one word, of memory for each step. Time: a few nanoseconds a step that is near the steps it uses.
"""

from __future__ import annotations

from typing import Final

from accumulus.graph.graph import Kind
from accumulus.native.memory import compiled, get, put
from accumulus.search.compiled.passes_slots import (
    ADD_UP,
    COUNT,
    EVALUATE,
    EVERY,
    FIRST,
    FROM_FIRST,
    FROM_SECOND,
    HALF,
    LOW,
    MODE,
    PRIME,
    PRIME_BITS,
    REFERENCE,
    RESULTS,
    SECOND,
    SIZES,
    STEPS,
    TO,
    VALUES,
    VERTEX,
    VERTEX_BITS,
)

__all__ = ["perform"]

ONE: Final = int(Kind.ONE)
MINUS_ONE: Final = int(Kind.MINUS_ONE)
CONSTANT: Final = int(Kind.CONSTANT)
#: Half of a residue's bits.
PART: Final = PRIME_BITS // 2
PART_LOW: Final = (1 << PART) - 1
LONGER: Final = PRIME_BITS - PART
LONGER_LOW: Final = (1 << LONGER) - 1


@compiled
def residue(number: int) -> int:
    """A number that is not negative, modulo the prime."""
    number = (number & PRIME) + (number >> PRIME_BITS)
    return number - PRIME if number >= PRIME else number


@compiled
def times(a: int, b: int) -> int:
    """Product of two residues; 2⁶¹ = 1, and all that is added up stays below 2⁶³."""
    high_a, low_a = a >> LONGER, a & LONGER_LOW
    high_b, low_b = b >> LONGER, b & LONGER_LOW
    middle = low_a * high_b + high_a * low_b
    return residue(2 * high_a * high_b + (middle >> PART) + ((middle & PART_LOW) << LONGER) + low_a * low_b)


@compiled
def evaluate(block: int) -> None:
    """Values of COUNT steps: triangular matrices (a b; 0 d), three words each."""
    steps, values = get(block, STEPS), get(block, VALUES)
    result = values + 24 * get(block, REFERENCE)
    for t in range(get(block, COUNT)):
        step = get(steps, t)
        left, right = values + 24 * (step >> HALF & LOW), values + 24 * (step & LOW)
        a, b, d = get(left, 0), get(left, 1), get(left, 2)
        if step >> 2 * HALF != 0:
            put(result, 0, times(a, get(right, 0)))
            put(result, 1, residue(times(a, get(right, 1)) + times(b, get(right, 2))))
            put(result, 2, times(d, get(right, 2)))
        else:
            put(result, 0, residue(a + get(right, 0)))
            put(result, 1, residue(b + get(right, 1)))
            put(result, 2, residue(d + get(right, 2)))
        result += 24


@compiled
def add_up(block: int) -> None:
    """Add COUNT products, each of a matrix of FIRST and a vector of SECOND, to RESULTS."""
    to, one, other = get(block, TO), get(block, FROM_FIRST), get(block, FROM_SECOND)
    first, second, results = get(block, FIRST), get(block, SECOND), get(block, RESULTS)
    for t in range(get(block, COUNT)):
        matrix, vector = first + 24 * get(one, t), second + 16 * get(other, t)
        result = results + 16 * get(to, t)
        y = get(vector, 1)
        sum_ = residue(times(get(matrix, 0), get(vector, 0)) + times(get(matrix, 1), y))
        put(result, 0, residue(get(result, 0) + sum_))
        put(result, 1, residue(get(result, 1) + times(get(matrix, 2), y)))


@compiled
def is_unit(kind: int) -> bool:
    """Whether a label is ±1."""
    return kind in (ONE, MINUS_ONE)


@compiled
def kind_of(a: int, b: int) -> int:
    """Kind of a product."""
    if is_unit(a):
        return b if a == ONE or not is_unit(b) else ONE + MINUS_ONE - b
    return a if is_unit(b) else max(a, b)


@compiled
def price(block: int) -> int:
    """What COUNT steps cost; -1 if they join labels whose sizes do not match."""
    steps, labels, first = get(block, STEPS), get(block, VALUES), get(block, REFERENCE)
    sizes, every = get(block, SIZES), get(block, EVERY)
    total = 0
    for t in range(get(block, COUNT)):
        step = get(steps, t)
        left, right = get(labels, step >> HALF & LOW), get(labels, step & LOW)
        a, b = left >> 2 * VERTEX_BITS, right >> 2 * VERTEX_BITS
        row, middle, column = left >> VERTEX_BITS & VERTEX, left & VERTEX, right & VERTEX
        other = right >> VERTEX_BITS & VERTEX
        kind = max(a, b, CONSTANT)
        if step >> 2 * HALF == 0:
            if get(sizes, row) != get(sizes, other) or get(sizes, middle) != get(sizes, column):
                return -1
        else:
            if get(sizes, middle) != get(sizes, other):
                return -1
            kind = kind_of(a, b)
            free = is_unit(a) or is_unit(b) or (a == CONSTANT and b == CONSTANT)
            if every != 0 or not free:
                total += get(sizes, row) * get(sizes, middle) * get(sizes, column)
        put(labels, first + t, (kind << VERTEX_BITS | row) << VERTEX_BITS | column)
    return total


def perform(block: int) -> int:
    """Do what MODE says; of PRICE, returns the cost."""
    mode = get(block, MODE)
    if mode == EVALUATE:
        evaluate(block)
    elif mode == ADD_UP:
        add_up(block)
    else:
        return price(block)
    return 0
