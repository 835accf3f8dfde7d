"""Slots of the block that `accumulus.search.compiled.passes_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.passes`.
STEPS, VALUES, SIZES, TO, FROM_FIRST, FROM_SECOND, RESULTS, FIRST, SECOND = range(9)
#: Integers: what to do, how many steps or terms, the reference of the first step, what counts.
MODE, COUNT, REFERENCE, EVERY = range(9, 13)
SLOTS: Final = 13

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
