"""Compiled search for the signs with which nodes are computed, so that few have to be changed.

Each node is computed with a sign of its own: as its value, or as the negative of that. Whether that takes a change of
sign depends on it and on those of its arguments: a product has the product of their signs, a difference can be taken
either way round, a choice wants both of its values alike, an output its own. An exact sum is never turned. Annealing
over single signs: what is wrong with a node depends on its neighbours only, so a visit takes some ten nanoseconds, and
what is wrong wanders along products at no cost until it meets its like, or a difference.
"""

from __future__ import annotations

from typing import Annotated

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Axes, Floats, Integers, State
from accumulus.native.words import random_bits, shifted_right
from accumulus.rewriting.compiled.rewrite_nodes import THRESHOLD_COUNT

#: What to do: anneal signs; count changes; bring the nodes that outputs need into an order, arguments first.
TURN, COUNT, SORT = range(3)
#: Kinds of nodes. Of a free one no sign is wrong: a constant among its arguments takes any. An exact sum never turns.
FREE, PRODUCT, SUM, SELECT, ODD, EVEN, OTHER, OUTPUT, EXACT_SUM = range(9)


class SignsState(State):
    """Nodes, from 1 on; either they are brought into an order, or their signs are annealed."""

    mode: int = TURN  # what to do
    # nodes that each is computed from, negative where the negative is meant, 0 where there is none
    arguments: Annotated[Integers, Axes(3)]
    arities: Integers = NOTHING  # for SORT, how many of them there are; 0 for what is no operation
    roots: Integers = NOTHING  # for SORT, the outputs: nodes, negative where the negative is meant
    root_count: int = 0  # their number
    seen: Integers = NOTHING  # for SORT, 1 for nodes that have been met; 0 at first
    stack: Integers = NOTHING  # for SORT, room for each node, and for each of its uses, and one more
    order: Integers = NOTHING  # where SORT writes
    kinds: Integers = NOTHING  # of each node
    own: Integers = NOTHING  # sign of what defines the node
    spins: Integers = NOTHING  # sign that the node is computed with
    # the place in `arguments` of the first use of each node, in words from the beginning; 0 if there is none
    heads: Integers = NOTHING
    nexts: Integers = NOTHING  # for each such place, that of the next use of the same node; 0 ends the list
    thresholds: Floats  # -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,)
    random: Integers = NOTHING  # state of the generator, (1,)
    count: int = 0  # nodes of which COUNT says how many changes of sign they take
    # for TURN, the first that may turn, and how many may
    first: int = 0
    nodes: int = 0
    visits: int = 0  # to make in a call
    # and its factor for each visit
    temperature: float = 0.0
    cooling: float = 0.0


@compiled
def sign_at(state: SignsState, n: int, k: int) -> int:
    """Return the sign with which an argument comes; 0 where there is none that matters."""
    a = state.arguments[n, k]
    if a == 0:
        return 0
    spin: int = state.spins[abs(a)]
    return spin if a > 0 else -spin


@compiled
def wrong(state: SignsState, n: int) -> int:
    """Return the number of changes of sign that a node takes."""
    kind = state.kinds[n]
    if kind == FREE:
        return 0
    spin = state.spins[n] * state.own[n]
    x = sign_at(state, n, 0)
    if kind == PRODUCT:
        return 1 if x * sign_at(state, n, 1) != spin else 0
    if kind in (SUM, EXACT_SUM):
        return 1 if x == sign_at(state, n, 1) and x != spin else 0
    if kind == ODD:
        return 1 if x != spin else 0
    if kind == EVEN:
        return 1 if spin < 0 else 0
    if kind == OUTPUT:
        return 1 if x < 0 else 0
    y = sign_at(state, n, 1)
    if kind == SELECT:
        z = sign_at(state, n, 2)
        return (1 if y == -spin else 0) + (1 if z == -spin else 0)
    assert kind == OTHER
    return (1 if spin < 0 else 0) + (1 if x < 0 else 0) + (1 if y < 0 else 0)


@compiled
def around(state: SignsState, n: int) -> int:
    """Return the number of changes that a node and its users take."""
    total = wrong(state, n)
    use = state.heads[n]
    while use:
        total += wrong(state, use // 3)
        use = state.nexts[use]
    return total


@compiled
def _sort(state: SignsState) -> int:
    """Order the operations that the outputs need, arguments first; returns how many they are."""
    arities, seen, stack = state.arities, state.seen, state.stack
    count = 0
    for k in range(state.root_count):
        stack[0] = abs(state.roots[k])
        height = 1
        while height:
            height -= 1
            n = stack[height]
            if n < 0:  # all that it needs is there
                state.order[count] = ~n
                count += 1
            elif not seen[n] and arities[n]:
                seen[n] = 1
                stack[height] = ~n
                height += 1
                for j in range(arities[n] - 1, -1, -1):
                    stack[height] = abs(state.arguments[n, j])
                    height += 1
    return count


@compiled
def count_wrong(state: SignsState) -> int:
    """Return the number of changes of sign that all nodes and outputs take."""
    total = 0
    for n in range(1, state.count + 1):
        total += wrong(state, n)
    return total


@compiled
def turn(state: SignsState) -> None:
    """Visit random nodes among those that may turn."""
    first, nodes, spins = state.first, state.nodes, state.spins
    temperature, cooling = state.temperature, state.cooling
    for _ in range(state.visits):
        bits = shifted_right(random_bits(state.random), 8)
        n = first + ((bits & 0xFFFFFFFF) * nodes >> 32)
        temperature *= cooling
        if state.kinds[n] == EXACT_SUM:
            continue
        before = around(state, n)
        spins[n] = -spins[n]
        change = around(state, n) - before
        if change > temperature * state.thresholds[(bits >> 32) % THRESHOLD_COUNT]:
            spins[n] = -spins[n]


def run_signs(state: SignsState) -> int:
    """Do what the mode says; of SORT and COUNT, returns the number."""
    if state.mode == SORT:
        return _sort(state)
    if state.mode == COUNT:
        return count_wrong(state)
    turn(state)
    return 0
