"""Compiled search over vertex orders under the number of operations that the emitted tape will hold.

Equal operations count once, whether the Jacobian or the function needs them, so an operation is only known by its
operands. The kernel runs the elimination on values as the tape does (`accumulus.elimination.emit`): a value is the
number of a node, negative if the node is to be negated. A node is interned by its operation and operands; signs are
pulled out of products and sums; the conditions under which a value counts are kept beside it, as a guard, until it is
added to others or leaves as a result (`accumulus.elimination.guards`). Left out: what the tape's optimiser rewrites
later, the values of constants, and that a sum of guarded values is 0 where all of them are. So the count guides the
search, and `accumulus.elimination.cost` has the last word; on graphs of symbols the two differ by the same for all
orders.

A visit at position a of the order moves one vertex between a and a window behind it, replays the elimination from a,
and accepts by the rule of Metropolis et al. (1953). A replay that is behind the window, and more than the threshold
and MARGIN above the count of the current order there, gives up: what follows rarely makes up for it. All writes are
logged, and undone after each replay.

Time: some ten nanoseconds for each product that is replayed. No allocation, no GIL.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers
from accumulus.native.words import (
    bit,
    copy,
    copy_many,
    logged,
    lowest,
    population,
    random_bits,
    shifted_right,
    undo,
    without_lowest,
)
from accumulus.search.compiled.sharing_state import THRESHOLD_COUNT, SharingState
from accumulus.search.compiled.sharing_values import closed, product, total

__all__ = ["anneal"]

#: Operations by which a replay may exceed the current order beyond the window, above the threshold.
MARGIN: Final = 3


@compiled
def multiply_through(state: SharingState, k: int, above: Integers, below: Integers) -> None:
    """Add the product of each edge into k and each out of it to the edge that bypasses k."""
    safe, words, n = logged(state), state.words, state.every
    values, guards = state.values, state.guards
    for w in range(words):
        from_above = above[w]
        while from_above != 0:
            j = (w << 6) + lowest(from_above)
            from_above = without_lowest(from_above)
            a, guard_a = values[j * n + k], guards[j * n + k]
            for v in range(words):
                from_below = below[v]
                while from_below != 0:
                    i = (v << 6) + lowest(from_below)
                    from_below = without_lowest(from_below)
                    value, guard = product(state, a, values[k * n + i]), guard_a | guards[k * n + i]
                    place = j * n + i
                    old, old_guard = values[place], guards[place]
                    if old != 0:
                        value = total(state, old, old_guard, value, guard)
                        guard &= old_guard
                    safe.values[place] = value
                    if guard != old_guard:
                        safe.guards[place] = guard


@compiled
def eliminate(state: SharingState, rows: Integers, k: int) -> bool:
    """Eliminate k; False if there is no room for so many products."""
    words, inner = state.words, state.vertices
    above = rows[k * words * 2 :]
    below = above[words:]
    over, under = 0, 0
    for w in range(words):
        over += population(above[w])
        under += population(below[w])
    pairs = over * under
    # a pair makes a product and a sum, each operand of which may have to be closed
    if state.logged + 10 * pairs > state.log_limit or state.next + 8 * pairs > state.node_limit:
        return False
    multiply_through(state, k, above, below)
    keep = ~bit(k & 63)
    for w in range((inner + 63) >> 6):
        from_above = above[w]
        bits = from_above | below[w]
        while bits != 0:
            position = lowest(bits)
            bits = without_lowest(bits)
            neighbour = (w << 6) + position
            if neighbour < inner:
                # a neighbour above takes over what k depends on, one below what depends on k
                side = words if from_above >> position & 1 != 0 else 0
                to, taken = rows[neighbour * words * 2 + side :], above[side:]
                to[k >> 6] &= keep
                for v in range(words):
                    to[v] |= taken[v]
    return True


@compiled
def replay(state: SharingState, rows: Integers, first: int, watched: int, limit: int) -> bool:
    """Eliminate order[first:], and count what its results need; False if that exceeds the current count by `limit`.

    The count after each vertex from the one at `watched` on is compared with that of the current order.
    """
    order, passed, tried = state.order, state.passed, state.tried
    for t in range(first, state.vertices):
        if not eliminate(state, rows, order[t]):
            return False
        cost = state.cost
        tried[t] = cost
        if t >= watched and cost > passed[t] + limit + MARGIN:
            return False
    for t in range(state.entry_count):
        place = state.entries[t]
        value = closed(state, state.values[place], state.guards[place])
        state.cost += 1 if value < 0 else 0
    return state.cost <= state.total + limit


@compiled
def shift(order: Integers, source: int, to: int) -> None:
    """Move a vertex within the order."""
    x = order[source]
    step = 1 if source < to else -1
    for t in range(source, to, step):
        order[t] = order[t + step]
    order[to] = x


def anneal(state: SharingState) -> int:
    """Run `visits` visits, from wherever the last call stopped; `at` = -1 starts with a new order.

    Cutting a run into calls does not change it. Returns the least count so far.
    """
    m, order, rows, scratch = state.vertices, state.order, state.rows, state.scratch
    passed, tried, row = state.passed, state.tried, state.words * 2
    at = state.at
    for _ in range(state.visits):
        if at <= 0:
            undo(state, 0)
            state.next = state.first
            state.cost = 0
            copy_many(rows, state.base, m * row)
        length, node, cost = state.logged, state.next, state.cost
        source, to, limit = 0, 0, 1 << 40
        if at >= 0:
            bits = shifted_right(random_bits(state.random), 1)
            window = state.window
            if bits & 1 != 0:
                window = 8
            window = min(window, m - 1 - at)
            source, to = at, at + 1 + (bits >> 2 & 0xFFFFF) % window
            if bits & 2 != 0:
                source, to = to, source
            limit = int(state.thresholds[(bits >> 30) % THRESHOLD_COUNT] * state.temperature)
            shift(order, source, to)
        watched = source if source > to else to
        copy_many(scratch, rows, m * row)
        first = at if at > 0 else 0
        accepted = replay(state, scratch, first, watched, limit)
        count = state.cost
        undo(state, length)
        state.next = node
        state.cost = cost
        if accepted:
            copy(passed[first:], tried[first:], m - first)
            state.total = count
            if count < state.best:
                state.best = count
                copy(state.best_order, order, m)
        elif at >= 0:
            shift(order, to, source)
        if at < 0:
            at = 0
        else:
            state.temperature *= state.cooling
            eliminate(state, rows, order[at])
            at += 1
            if at == m - 1:
                at = 0
    state.at = at
    return state.best
