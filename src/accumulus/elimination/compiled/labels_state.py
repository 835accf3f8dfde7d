"""What `accumulus.elimination.compiled.labels_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import NOTHING, Axes, Integers, State

__all__ = [
    "ADD_UP",
    "EVALUATE",
    "HALF",
    "LOW",
    "PRICE",
    "PRIME",
    "PRIME_BITS",
    "VERTEX",
    "VERTEX_BITS",
    "LabelsState",
]

#: What to do: values of steps, sums of products, costs of steps.
EVALUATE, ADD_UP, PRICE = range(3)

#: A step in one word: whether it is a product, left and right reference.
HALF: Final = 31
LOW: Final = (1 << HALF) - 1
#: A label in one word: its kind, row and column.
VERTEX_BITS: Final = 29
VERTEX: Final = (1 << VERTEX_BITS) - 1
#: Residues are modulo 2⁶¹ − 1.
PRIME_BITS: Final = 61
PRIME: Final = (1 << PRIME_BITS) - 1


class LabelsState(State):
    """Steps, their values or labels, and sums of products.

    Attributes:
        mode: what to do.
        count: how many steps or terms.
        steps: of EVALUATE and PRICE, (count,).
        reference: of the first step.
        values: of all edges and steps: triangular matrices (a b; 0 d), by their residues a, b and d.
        labels: kind, row and column of all edges and steps.
        sizes: of the vertices.
        every: 1 if every product counts, 0 if only multiplications do.
        to, from_first, from_second: of ADD_UP, which vector each term is added to, and its factors, (count,).
        first: matrices, as in `values`.
        second, results: vectors of two residues.
    """

    mode: int = 0
    count: int = 0
    steps: Integers = NOTHING
    reference: int = 0
    values: Annotated[Integers, Axes(3)] = NOTHING
    labels: Integers = NOTHING
    sizes: Integers = NOTHING
    every: int = 0
    to: Integers = NOTHING
    from_first: Integers = NOTHING
    from_second: Integers = NOTHING
    first: Annotated[Integers, Axes(3)] = NOTHING
    second: Annotated[Integers, Axes(2)] = NOTHING
    results: Annotated[Integers, Axes(2)] = NOTHING
