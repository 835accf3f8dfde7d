"""Compiled passes over the steps of an accumulation: values modulo 2⁶¹ − 1, and costs.

A step takes one word, and its value three. Time: some nanoseconds a step if its operands are near.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.graph.graph import Kind
from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Axes, Integers, State

#: Modes: evaluate steps, sum products, price steps.
EVALUATE, ADD_UP, PRICE = range(3)

#: Fields of a step in one word: whether it is a product, left and right reference.
HALF: Final = 31
LOW: Final = (1 << HALF) - 1
#: Fields of a label in one word: kind, row and column.
VERTEX_BITS: Final = 29
VERTEX: Final = (1 << VERTEX_BITS) - 1
#: Residues are modulo 2⁶¹ − 1.
PRIME_BITS: Final = 61
PRIME: Final = (1 << PRIME_BITS) - 1


class LabelsState(State):
    """Steps, their values or labels, and sums of products."""

    mode: int = 0  # one of the modes above
    count: int = 0  # number of steps or terms
    steps: Integers = NOTHING  # for EVALUATE and PRICE, (count,)
    reference: int = 0  # of the first step
    # triangular matrices (a b; 0 d) of all edges and steps, by the residues a, b and d
    values: Annotated[Integers, Axes(3)] = NOTHING
    # labels: kind, row and column of all edges and steps; a step whose kind is given keeps it
    labels: Integers = NOTHING
    sizes: Integers = NOTHING  # of the vertices
    every: int = 0  # 1 if every product counts, 0 if only multiplications do
    # to, from_first, from_second: for ADD_UP, the vector that each term is added to, and its two factors, (count,)
    to: Integers = NOTHING
    from_first: Integers = NOTHING
    from_second: Integers = NOTHING
    first: Annotated[Integers, Axes(3)] = NOTHING  # matrices, as in `values`
    # second, results: vectors of two residues
    second: Annotated[Integers, Axes(2)] = NOTHING
    results: Annotated[Integers, Axes(2)] = NOTHING


# Passes --------------------------------------------------------------------------------------------------------------


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
    """Return a number that is not negative, modulo the prime."""
    number = (number & PRIME) + (number >> PRIME_BITS)
    return number - PRIME if number >= PRIME else number


@compiled
def _times(a: int, b: int) -> int:
    """Return the product of two residues; 2⁶¹ = 1, and all sums stay below 2⁶³."""
    high_a, low_a = a >> LONGER, a & LONGER_LOW
    high_b, low_b = b >> LONGER, b & LONGER_LOW
    middle = low_a * high_b + high_a * low_b
    return residue(2 * high_a * high_b + (middle >> PART) + ((middle & PART_LOW) << LONGER) + low_a * low_b)


@compiled
def _evaluate(state: LabelsState) -> None:
    """Compute the values of steps."""
    steps, values, first = state.steps, state.values, state.reference
    for t in range(state.count):
        step, k = steps[t], first + t
        left, right = step >> HALF & LOW, step & LOW
        a, b, d = values[left, 0], values[left, 1], values[left, 2]
        if step >> 2 * HALF != 0:
            values[k, 0] = _times(a, values[right, 0])
            values[k, 1] = residue(_times(a, values[right, 1]) + _times(b, values[right, 2]))
            values[k, 2] = _times(d, values[right, 2])
        else:
            values[k, 0] = residue(a + values[right, 0])
            values[k, 1] = residue(b + values[right, 1])
            values[k, 2] = residue(d + values[right, 2])


@compiled
def add_up(state: LabelsState) -> None:
    """Add products of matrices and vectors to vectors."""
    first, second, results = state.first, state.second, state.results
    for t in range(state.count):
        matrix, vector, result = state.from_first[t], state.from_second[t], state.to[t]
        x, y = second[vector, 0], second[vector, 1]
        total = residue(_times(first[matrix, 0], x) + _times(first[matrix, 1], y))
        results[result, 0] = residue(results[result, 0] + total)
        results[result, 1] = residue(results[result, 1] + _times(first[matrix, 2], y))


@compiled
def is_unit(kind: int) -> bool:
    """Return True if a label is ±1."""
    return kind in (ONE, MINUS_ONE)


@compiled
def _kind_of(a: int, b: int) -> int:
    """Return the label kind of a product."""
    if is_unit(a):
        return b if a == ONE or not is_unit(b) else ONE + MINUS_ONE - b
    return a if is_unit(b) else max(a, b)


@compiled
def _price(state: LabelsState) -> int:
    """Return the cost of all steps; -1 - t if the sizes of the two labels of step t do not match."""
    steps, labels, sizes, first = state.steps, state.labels, state.sizes, state.reference
    total = 0
    for t in range(state.count):
        step = steps[t]
        left, right = labels[step >> HALF & LOW], labels[step & LOW]
        a, b = left >> 2 * VERTEX_BITS, right >> 2 * VERTEX_BITS
        row, middle, column = left >> VERTEX_BITS & VERTEX, left & VERTEX, right & VERTEX
        other = right >> VERTEX_BITS & VERTEX
        kind = labels[first + t] >> 2 * VERTEX_BITS  # known if the label is a sum of numbers that is ±1
        kind = max(a, b, CONSTANT) if kind == 0 else kind
        if step >> 2 * HALF == 0:
            if sizes[row] != sizes[other] or sizes[middle] != sizes[column]:
                return -1 - t
        else:
            if sizes[middle] != sizes[other]:
                return -1 - t
            kind = _kind_of(a, b)
            free = is_unit(a) or is_unit(b) or (a == CONSTANT and b == CONSTANT)
            if state.every != 0 or not free:
                total += sizes[row] * sizes[middle] * sizes[column]
        labels[first + t] = (kind << VERTEX_BITS | row) << VERTEX_BITS | column
    return total


def run_labels(state: LabelsState) -> int:
    """Run `mode`; return the cost for PRICE, else 0."""
    if state.mode == EVALUATE:
        _evaluate(state)
    elif state.mode == ADD_UP:
        add_up(state)
    else:
        return _price(state)
    return 0
