"""Compiled search for signs of nodes that need few changes of sign.

Each node is computed as its value or as the negative. A node needs a change of sign depending on its sign and those of
its arguments: a product has the product of their signs, a difference can be taken either way round, both values of a
choice need the same sign, an output needs its own. An exact sum is never negated. Annealing flips single signs: the
changes at a node depend on its neighbours only, so a visit takes some ten nanoseconds, and a change moves along
products at no cost until it meets another one, or a difference.
"""

from __future__ import annotations

from typing import Annotated

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Axes, Floats, Integers, State
from accumulus.native.words import random_bits, shifted_right
from accumulus.rewriting.compiled.rewrite_nodes import THRESHOLD_COUNT

#: Modes: anneal signs; count changes; sort the nodes that outputs need, arguments first.
TURN, COUNT, SORT = range(3)
#: Kinds of nodes. A free node needs no change: a constant among its arguments can have either sign. An exact sum keeps
#: its sign.
FREE, PRODUCT, SUM, SELECT, ODD, EVEN, OTHER, OUTPUT, EXACT_SUM = range(9)


class SignsState(State):
    """Nodes, from 1 on; they are sorted, or their signs are annealed."""

    mode: int = TURN  # what to do
    # arguments of each node, negative for a negative, 0 for none
    arguments: Annotated[Integers, Axes(3)]
    arities: Integers = NOTHING  # for SORT, number of arguments; 0 if the node is no operation
    roots: Integers = NOTHING  # for SORT, the outputs: nodes, negative where the negative is meant
    root_count: int = 0  # their number
    seen: Integers = NOTHING  # for SORT, 1 for visited nodes; 0 at first
    stack: Integers = NOTHING  # for SORT, a number for each node and each use, and one more
    order: Integers = NOTHING  # result of SORT
    kinds: Integers = NOTHING  # of each node
    own: Integers = NOTHING  # sign of each node's definition
    spins: Integers = NOTHING  # sign with which each node is computed
    # index in `arguments` of each node's first use, in words; 0 if there is none
    heads: Integers = NOTHING
    nexts: Integers = NOTHING  # for each such index, that of the node's next use; 0 ends the list
    thresholds: Floats  # -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,)
    random: Integers = NOTHING  # state of the generator, (1,)
    count: int = 0  # for COUNT, number of nodes
    # for TURN, first node that may be negated, and their number
    first: int = 0
    nodes: int = 0
    visits: int = 0  # visits of a call
    # and its factor for each visit
    temperature: float = 0.0
    cooling: float = 0.0


@compiled
def sign_at(state: SignsState, n: int, k: int) -> int:
    """Return the sign of an argument; 0 if it does not matter."""
    a = state.arguments[n, k]
    if a == 0:
        return 0
    spin: int = state.spins[abs(a)]
    return spin if a > 0 else -spin


@compiled
def wrong(state: SignsState, n: int) -> int:
    """Return the number of changes of sign at a node."""
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
    """Return the number of changes of sign at a node and its users."""
    total = wrong(state, n)
    use = state.heads[n]
    while use:
        total += wrong(state, use // 3)
        use = state.nexts[use]
    return total


@compiled
def _sort(state: SignsState) -> int:
    """Sort the operations that the outputs need, arguments first; return their number."""
    arities, seen, stack = state.arities, state.seen, state.stack
    count = 0
    for k in range(state.root_count):
        stack[0] = abs(state.roots[k])
        height = 1
        while height:
            height -= 1
            n = stack[height]
            if n < 0:  # all its arguments are visited
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
    """Return the number of changes of sign at all nodes and outputs."""
    total = 0
    for n in range(1, state.count + 1):
        total += wrong(state, n)
    return total


@compiled
def turn(state: SignsState) -> None:
    """Visit random nodes that may be negated."""
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
    """Run `mode`; return the number for SORT and COUNT, else 0."""
    if state.mode == SORT:
        return _sort(state)
    if state.mode == COUNT:
        return count_wrong(state)
    turn(state)
    return 0
