"""What `accumulus.search.compiled.sharing_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Floats, Integers, Undoable

__all__ = [
    "CONDITIONS",
    "DIFFERENCE",
    "EVEN",
    "GUARD",
    "NEGATIVE",
    "NODE_BITS",
    "PRODUCT",
    "SELECT",
    "SIGN_BIT",
    "SPREAD",
    "SUM",
    "THRESHOLD_COUNT",
    "SharingState",
]

#: What a key says beside the numbers of two nodes. SIGN_BIT is set if the operands have different signs and
#: that matters.
PRODUCT, SUM, DIFFERENCE, SELECT, NEGATIVE, GUARD = range(1, 7)
#: Bits of a node's number in a key, and the multiplier that spreads keys.
NODE_BITS: Final = 29
SIGN_BIT: Final = 62
SPREAD: Final = 0x2545F4914F6CDD1D
#: A guard is a set of conditions: bit 2c for condition c, bit 2c+1 for its opposite. What is beyond is not
#: known as a condition.
CONDITIONS: Final = NODE_BITS
EVEN: Final = 0x5555555555555555
#: -ln of the middles of THRESHOLD_COUNT equal parts of (0, 1).
THRESHOLD_COUNT: Final = 1024


class SharingState(Undoable):
    """An order that is annealed, and the nodes that the graph's values are.

    Attributes:
        base: bitset rows of the whole graph: what depends on a vertex, what it depends on, (vertices, 2, words).
        rows, scratch: of the graph at position `at`, and of a replay; like `base`.
        vertices, every: numbers of intermediates and of all vertices.
        words: of a set.
        values, guards: of each edge, by its two vertices, (every, every); 0 where there is none.
        entries: the places in them of the Jacobian's structural nonzeros, (entry_count,).
        order, best_order: the present one and the best so far, (vertices,).
        passed, tried: operations after each vertex of the present order and of a replay, (vertices,).
        keys, nodes: hash table: a key, 0 where there is none, and its value.
        key_bits: the table has 2 ** key_bits places.
        constant: 1 for each node that is a constant.
        first: the first node that is no part of the function or its partials.
        next: the next node.
        node_limit, log_limit: how many nodes and logged writes there is room for before the entries are closed.
        thresholds: see THRESHOLD_COUNT.
        random: state of the generator, (1,).
        window: places by which a vertex moves, at most.
        visits: to make in a call.
        at: position of the next visit; −1 starts with a new order.
        cost: operations so far.
        total, best: operations of the present and of the best order.
        temperature, cooling: and its factor for each visit.
    """

    base: Integers
    rows: Integers
    scratch: Integers
    vertices: int
    every: int
    words: int
    values: Integers
    guards: Integers
    entries: Integers
    entry_count: int
    order: Integers
    best_order: Integers
    passed: Integers
    tried: Integers
    keys: Integers
    nodes: Integers
    key_bits: int
    constant: Integers
    first: int
    next: int = 0
    node_limit: int
    log_limit: int
    thresholds: Floats
    random: Integers
    window: int
    visits: int = 0
    at: int = 0
    cost: int = 0
    total: int = 0
    best: int
    temperature: float = 0.0
    cooling: float = 0.0
