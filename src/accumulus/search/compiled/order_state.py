"""What `accumulus.search.compiled.order_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Floats, Integers, State

__all__ = ["SETS", "SHIFT", "TABLE_LENGTH", "TABLE_STEP", "OrderState", "RowsState"]

#: Sets of a vertex in its bitset rows: three of what it depends on, three of what depends on it.
SETS: Final = 6
#: Two totals share an integer, so that orders are compared by the first and then by the second.
SHIFT: Final = 32
#: exp(-k / TABLE_STEP) for k < TABLE_LENGTH; what is less likely does not happen.
TABLE_STEP: Final = 16
TABLE_LENGTH: Final = 24 * TABLE_STEP


class RowsState(State):
    """Bitset rows, and what eliminating a vertex costs.

    Attributes:
        base: rows of the whole graph, (vertices, SETS, words).
        mask: the vertices whose rows are kept up to date, (words,).
        sizes: of the vertices, by bit.
        vertices: number of intermediates.
        words: of a set.
        scalar: 1 if all sizes are 1, so that bits are counted.
        products, multiplications: weights of the two in a cost.
    """

    base: Integers
    mask: Integers
    sizes: Integers
    vertices: int
    words: int
    scalar: int
    products: int
    multiplications: int


class OrderState(RowsState):
    """An order that is annealed.

    Attributes:
        rows, scratch: of the graph at position `at`, and of a replay; like `base`.
        order, best_order: the present one and the best so far, (vertices,).
        costs: of each vertex where it stands.
        own, changed: of a replay: what the moved vertex costs at each place, and what the others cost then.
        sums: of the probabilities of places.
        stack, waiting, spare: for writing down an equivalent order.
        table: see TABLE_STEP.
        random: state of the generator, (1,).
        window: vertices behind its own place among which one is placed, at most.
        visits: to make in a call.
        at: position of the next visit; -1 starts with a new order.
        total, best: cost of the present and of the best order.
        sweeps: that were begun.
        temperature, cooling: and its factor for each visit.
        primary, secondary: weights of the two totals.
    """

    rows: Integers
    scratch: Integers
    order: Integers
    best_order: Integers
    costs: Integers
    own: Integers
    changed: Integers
    sums: Floats
    stack: Integers
    waiting: Integers
    spare: Integers
    table: Floats
    random: Integers
    window: int
    best: int
    visits: int = 0
    at: int = 0
    total: int = 0
    sweeps: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
    primary: float = 0.0
    secondary: float = 0.0
