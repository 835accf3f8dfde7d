"""Compiled search over orders of symmetric elimination, on bitset rows: greedy, and simulated annealing.

It counts the products and additions of `accumulus.elimination.gradient_graph`. The graph after a set of values is
eliminated does not depend on their order, so a move within a window of the order changes only eliminations in the
window. A sweep visits every position, whose state is available: the value there may move later (up to a window), and a
random one of the window may move there; each move is replayed, and given up once it costs too much.

Time: a step (one value eliminated in a replay) takes some tens of nanoseconds for each neighbour in graphs of up to 128
values; a replay begins with a copy of the rows. Memory: 120 n²/64 bytes for n values.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Floats, Integers, State
from accumulus.native.words import bit, copy, copy_many, lowest, population, random_bits, shifted_right, wrapped

#: Sets of a value in its bitset rows: its operands, its users, each followed by the subset whose label is not ±1; and
#: the values on which its adjoint depends.
BELOW: Final = 0
ABOVE: Final = 2
CROSSING: Final = 4
SETS: Final = 5
#: Modes of the kernel.
COST, GREEDY, ANNEAL = range(3)


class PairsState(State):
    """An order of values to make, or to anneal; eliminated values have the lowest numbers.

    Attributes:
        base: rows of the whole graph, (values, SETS, words); terminals have bits but no rows.
        rows, scratch: of the graph at position `at`, and of a replay; like `base`.
        inner: bits of the eliminated values, (words,).
        order, best_order: the present one and the best so far, (values,).
        costs, tried: of each position of the order, and of a replay, (values,).
        thresholds: accepted cost increases of moves, in units of the temperature.
        random: state of the generator, (1,).
        values: number of eliminated values.
        words: words of a set.
        every: 1 to count products with ±1, too.
        products, additions: weights of one product and one addition.
        window: largest number of positions that a move changes.
        visits: visits of a call.
        at: position of the next visit; -1 starts with a new order.
        total, best: cost of the present and of the best order.
        temperature, cooling: the temperature, and its factor for each visit.
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


# Search --------------------------------------------------------------------------------------------------------------


#: Bits of a random number that select a threshold.
THRESHOLDS: Final = 1024
NO_COST: Final = 1 << 62


@compiled
def _terms(state: PairsState, rows: Integers, k: int, additions: int) -> int:
    """Count the products of eliminating k; or the contributions to labels, each an addition or a new label."""
    words = state.words
    row = rows[k * words * SETS :]
    own_word, own_bit = k >> 6, bit(k & 63)
    p, q, s, r, outside, both, varying = 0, 0, 0, 0, 0, 0, 0
    for w in range(words):
        below, across = row[w], row[CROSSING * words + w]
        if w == own_word:
            across &= ~own_bit
        p += population(below)
        q += population(row[words + w])
        s += population(row[ABOVE * words + w])
        r += population(row[(ABOVE + 1) * words + w])
        outside += population(across & ~below)
        both += population(across & below)
        varying += population(across & row[words + w])
    squared = row[CROSSING * words + own_word] & own_bit != 0
    if state.every != 0 or additions != 0:
        q, r, varying = p, s, both
    total = q * r
    if squared:
        # for a pair with a label ±1, one of two products remains if k crosses both; see `eliminate_pairs`
        total += shifted_right(q * (q + 1), 1) + shifted_right(varying * (varying - 1), 1)
        total += q * (outside + both - varying)
        total += 2 * both if additions != 0 else q
    else:
        total += q * (outside + both)
        if additions != 0:
            total += both
    return total


@compiled
def _join(to: Integers, source: Integers, words: int, varies: int) -> int:
    """Add a set, and its subset of labels other than ±1, to another through an edge; return how many are new."""
    new = 0
    for w in range(words):
        labels, there = source[w], to[w]
        new += population(labels & ~there)
        to[w] = there | labels
        to[words + w] |= source[words + w] | (labels & (there | varies))
    return new


@compiled
def cross(to: Integers, source: Integers, words: int, i: int) -> int:
    """Add a set to those on which the adjoint of i depends; return the number of new elements from i on."""
    new, own_word = 0, i >> 6
    for w in range(words):
        fresh = source[w] & ~to[w]
        to[w] |= fresh
        if w > own_word:
            new += population(fresh)
        elif w == own_word:
            new += population(fresh & ~(bit(i & 63) - 1))
    return new


@compiled
def _eliminate(state: PairsState, rows: Integers, k: int) -> int:
    """Eliminate k and its adjoint; return the cost."""
    words = state.words
    size = words * SETS
    row_of_k = rows[k * size :]
    own_word, own_bit = k >> 6, bit(k & 63)
    keep = ~own_bit
    products = _terms(state, rows, k, 0)
    added = _terms(state, rows, k, 1)
    across = row_of_k[CROSSING * words :]
    squared = across[own_word] & own_bit != 0
    across[own_word] &= keep
    for w in range(words):
        bits = row_of_k[ABOVE * words + w]
        while bits != 0:
            low = wrapped(bits & -bits)
            row = rows[((w << 6) + lowest(bits)) * size :]
            bits ^= low
            row[own_word] &= keep
            row[words + own_word] &= keep
            added -= _join(row, row_of_k, words, -1 if row_of_k[(ABOVE + 1) * words + w] & low else 0)
        bits = row_of_k[w] & state.inner[w]
        while bits != 0:
            low = wrapped(bits & -bits)
            i = (w << 6) + lowest(bits)
            row = rows[i * size :]
            bits ^= low
            row[ABOVE * words + own_word] &= keep
            row[(ABOVE + 1) * words + own_word] &= keep
            _join(row[ABOVE * words :], row_of_k[ABOVE * words :], words, -1 if row_of_k[words + w] & low else 0)
            added -= cross(row[CROSSING * words :], across, words, i)
            if squared:
                added -= cross(row[CROSSING * words :], row_of_k, words, i)
        bits = across[w] & state.inner[w]
        while bits != 0:
            i = (w << 6) + lowest(bits)
            row = rows[i * size :]
            bits ^= wrapped(bits & -bits)
            row[CROSSING * words + own_word] &= keep
            added -= cross(row[CROSSING * words :], row_of_k, words, i)
    return state.products * products + state.additions * added


@compiled
def keep_best(state: PairsState) -> None:
    """Store the current order if it is the best so far."""
    if state.total < state.best:
        state.best = state.total
        copy(state.best_order, state.order, state.values)


@compiled
def _cost_order(state: PairsState) -> None:
    """Cost the order from its start."""
    copy_many(state.rows, state.base, state.values * state.words * SETS)
    state.at, state.total = 0, 0
    for t in range(state.values):
        state.costs[t] = _eliminate(state, state.rows, state.order[t])
        state.total += state.costs[t]
    copy_many(state.rows, state.base, state.values * state.words * SETS)
    keep_best(state)


@compiled
def _greedy(state: PairsState) -> None:
    """Write a greedy order: the fewest products first; ties keep their order."""
    rows, order = state.rows, state.order
    copy_many(rows, state.base, state.values * state.words * SETS)
    for t in range(state.values):
        least, best = NO_COST, t
        for u in range(t, state.values):
            cost = _terms(state, rows, order[u], 0)
            if cost < least:
                least, best = cost, u
        k = order[best]
        for u in range(best, t, -1):
            order[u] = order[u - 1]
        order[t] = k
        _eliminate(state, rows, k)


@compiled
def shift(order: Integers, origin: int, to: int) -> None:
    """Move one element of an order to another position."""
    k = order[origin]
    if origin < to:
        for t in range(origin, to):
            order[t] = order[t + 1]
    else:
        for t in range(origin, to, -1):
            order[t] = order[t - 1]
    order[to] = k


@compiled
def _attempt(state: PairsState, origin: int, to: int) -> None:
    """Move a value to or from position `at`; undo it if the cost increases by a random threshold or more."""
    first, last = state.at, max(origin, to) + 1
    allowed = 0
    for t in range(first, last):
        allowed += state.costs[t]
    before = allowed
    drawn = shifted_right(random_bits(state.random), 3) & (THRESHOLDS - 1)
    allowed += int(state.temperature * state.thresholds[drawn])
    shift(state.order, origin, to)
    copy_many(state.scratch, state.rows, state.values * state.words * SETS)
    cost = 0
    for t in range(first, last):
        state.tried[t] = _eliminate(state, state.scratch, state.order[t])
        cost += state.tried[t]
        if cost > allowed:
            shift(state.order, to, origin)
            return
    for t in range(first, last):
        state.costs[t] = state.tried[t]
    state.total += cost - before
    keep_best(state)


@compiled
def sweep(state: PairsState) -> None:
    """Make `visits` visits, continuing the last call; `at` = -1 starts with a new order."""
    count = state.values
    if state.at < 0:
        _cost_order(state)
    for _ in range(state.visits):
        if state.at == 0:
            copy_many(state.rows, state.base, count * state.words * SETS)
        at = state.at
        length = min(state.window, count - 1 - at)
        _attempt(state, at, at + 1 + shifted_right(random_bits(state.random), 1) % length)
        _attempt(state, at + 1 + shifted_right(random_bits(state.random), 1) % length, at)
        state.temperature *= state.cooling
        _eliminate(state, state.rows, state.order[at])
        state.at = 0 if at == count - 2 else at + 1


def run_pairs(state: PairsState) -> int:
    """Run `mode`; return the best total so far."""
    if state.mode == COST:
        _cost_order(state)
    elif state.mode == GREEDY:
        _greedy(state)
        _cost_order(state)
    elif state.mode == ANNEAL:
        sweep(state)
    return state.best
