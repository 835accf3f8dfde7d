"""What `accumulus.search.compiled.pairs_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Floats, Integers, State

__all__ = ["ABOVE", "ANNEAL", "BELOW", "COST", "CROSSING", "GREEDY", "SETS", "PairsState"]

#: Sets of a value in its bitset rows: what it depends on, what depends on it, each followed by those of which the label
#: is not ±1; and the values on which its adjoint depends.
BELOW: Final = 0
ABOVE: Final = 2
CROSSING: Final = 4
SETS: Final = 5
#: Modes of the kernel.
COST, GREEDY, ANNEAL = range(3)


class PairsState(State):
    """An order of values that is made, or annealed; numbers of values that are eliminated come first.

    Attributes:
        base: rows of the whole graph, (values, SETS, words); none of terminals, which occur as bits only.
        rows, scratch: of the graph at position `at`, and of a replay; like `base`.
        inner: bits of the values that are eliminated, (words,).
        order, best_order: the present one and the best so far, (values,).
        costs, tried: of each position of the order, and of a replay, (values,).
        thresholds: what a move may cost more, in units of the temperature.
        random: state of the generator, (1,).
        values: that are eliminated.
        words: of a set.
        every: 1 if products with ±1 count, too.
        products, additions: what one of them costs.
        window: positions that a move changes, at most.
        visits: to make in a call.
        at: position of the next visit; -1 starts with a new order.
        total, best: cost of the present and of the best order.
        temperature, cooling: and its factor for each visit.
    """

    base: Integers
    rows: Integers
    scratch: Integers
    inner: Integers
    order: Integers
    best_order: Integers
    costs: Integers
    tried: Integers
    thresholds: Floats
    random: Integers
    values: int
    words: int
    every: int
    products: int
    additions: int
    window: int
    best: int
    mode: int = 0
    visits: int = 0
    at: int = 0
    total: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
