"""What `accumulus.rewriting.compiled.signs_kernel` works on."""

from __future__ import annotations

from typing import Annotated

from accumulus.native.state import NOTHING, Axes, Floats, Integers, State

__all__ = [
    "COUNT",
    "EVEN",
    "EXACT_SUM",
    "FREE",
    "ODD",
    "OTHER",
    "OUTPUT",
    "PRODUCT",
    "SELECT",
    "SORT",
    "SUM",
    "TURN",
    "SignsState",
]

#: What to do: anneal signs; count changes; bring the nodes that outputs need into an order, arguments first.
TURN, COUNT, SORT = range(3)
#: Kinds of nodes. Of a free one no sign is wrong: a constant among its arguments takes any. An exact sum never turns.
FREE, PRODUCT, SUM, SELECT, ODD, EVEN, OTHER, OUTPUT, EXACT_SUM = range(9)


class SignsState(State):
    """Nodes, from 1 on; either they are brought into an order, or their signs are annealed.

    Attributes:
        mode: what to do.
        arguments: nodes that each is computed from, negative where the negative is meant, 0 where there is none.
        arities: for SORT, how many of them there are; 0 for what is no operation.
        roots: for SORT, the outputs: nodes, negative where the negative is meant.
        root_count: their number.
        seen: for SORT, 1 for nodes that have been met; 0 at first.
        stack: for SORT, room for each node, and for each of its uses, and one more.
        order: where SORT writes.
        kinds: of each node.
        own: sign of what defines the node.
        spins: sign that the node is computed with.
        heads: the place in `arguments` of the first use of each node, in words from the beginning; 0 if there is none.
        nexts: for each such place, that of the next use of the same node; 0 ends the list.
        thresholds: -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,).
        random: state of the generator, (1,).
        count: nodes of which COUNT says how many changes of sign they take.
        first, nodes: for TURN, the first that may turn, and how many may.
        visits: to make in a call.
        temperature, cooling: and its factor for each visit.
    """

    mode: int = TURN
    arguments: Annotated[Integers, Axes(3)]
    arities: Integers = NOTHING
    roots: Integers = NOTHING
    root_count: int = 0
    seen: Integers = NOTHING
    stack: Integers = NOTHING
    order: Integers = NOTHING
    kinds: Integers = NOTHING
    own: Integers = NOTHING
    spins: Integers = NOTHING
    heads: Integers = NOTHING
    nexts: Integers = NOTHING
    thresholds: Floats
    random: Integers = NOTHING
    count: int = 0
    first: int = 0
    nodes: int = 0
    visits: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
