"""Compiled search over vertex elimination orders: simulated annealing by heat bath on bitset rows.

State. Every intermediate k has six bitset rows: the vertices that it depends on and those that depend on it (S and P),
each as three nested sets A ⊇ N ⊇ X: all edges, those whose label is not ±1, those whose label varies. Roots and
terminals only occur as bits. Eliminating k updates the rows of its neighbours with a few word operations, and
its cost under every objective is a product of population counts. (Labels of one kind less:
`accumulus.elimination.emit`; the tests compare both.)

Moves. The cost of eliminating a vertex depends only on the *set* eliminated before it. So if x moves within the
order, the vertices between its old and its new position see one change, x itself present or eliminated, whatever the
distance: one replay of the window with x present, and one with x absent, price every position of x in the window
at once. x then draws one of them with probability ∝ exp(-energy / temperature) (heat bath; Geman and Geman
1984). A sweep visits every position; at position a, whose state is available, the vertex there may move later,
and a random later one may move up to any position from a on.

Between sweeps the order is rewritten as another one of equal cost (a depth-first linear extension of
"neighbours at the time of elimination"), which lets the next windows see other neighbours.

Time: a step (one vertex eliminated in a replay) takes a few tens of nanoseconds for graphs of up to 128
vertices; a visit replays at most 2.5 windows. Memory: 144 n²/64 bytes for n vertices, and a few arrays. No
allocation, no reference counting, no GIL: the kernel gets the address of one block of integers and addresses, and works
on memory that its caller owns.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Floats, Integers, State
from accumulus.native.words import bit, copy, lowest, population, random_bits, shifted_right, without_lowest, wrapped

#: Sets of a vertex in its bitset rows: three of its successors, three of its predecessors.
SETS: Final = 6
#: Two totals share an integer, so that orders are compared by the first and then by the second.
SHIFT: Final = 32
#: exp(-k / TABLE_STEP) for k < TABLE_LENGTH; moves of smaller probability are never made.
TABLE_STEP: Final = 16
TABLE_LENGTH: Final = 24 * TABLE_STEP


class RowsState(State):
    """Bitset rows, and the weights of costs."""

    base: Integers  # rows of the whole graph, (vertices, SETS, words)
    mask: Integers  # the vertices whose rows are kept up to date, (words,)
    sizes: Integers  # of the vertices, by bit
    vertices: int  # number of intermediates
    words: int  # of a set
    scalar: int  # 1 if all sizes are 1, so that bits are counted
    # products, multiplications: weights of the two in a cost
    products: int
    multiplications: int


class OrderState(RowsState):
    """An order to anneal.

    Attributes:
        rows, scratch: of the graph at position `at`, and of a replay; like `base`.
        order, best_order: the present one and the best so far, (vertices,).
        costs: of each vertex at its position.
        costs_of_x, changed: results of a replay: cost of the moved vertex at each position, and changed costs of the
        others. sums: cumulated probabilities of positions.
        stack, waiting, spare: scratch memory to rewrite the order.
        table: see TABLE_STEP.
        random: state of the generator, (1,).
        window: largest distance that a vertex moves.
        visits: visits of a call.
        at: position of the next visit; -1 starts with a new order.
        total, best: cost of the current and of the best order.
        sweeps: sweeps that were begun.
        temperature, cooling: the temperature, and its factor for each visit.
        primary, secondary: weights of the two totals.
    """

    rows: Integers
    scratch: Integers
    order: Integers
    best_order: Integers
    costs: Integers
    costs_of_x: Integers
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


# Search --------------------------------------------------------------------------------------------------------------


HALF: Final = 1 << (SHIFT - 1)
#: Sets of one side of a vertex.
SIDE: Final = SETS // 2
#: Marks a cost that has to be computed.
UNKNOWN: Final = -(1 << 62)


@compiled
def weight_beyond(state: RowsState, row: Integers) -> int:
    """Return the sum of the sizes of a set's vertices: the general case of `weight`."""
    total = 0
    for w in range(state.words):
        bits = row[w]
        if state.scalar:
            total += population(bits)
        else:
            while bits != 0:
                total += state.sizes[(w << 6) + lowest(bits)]
                bits = without_lowest(bits)
    return total


@compiled
def weight(state: RowsState, row: Integers) -> int:
    """Return the sum of the sizes of a set's vertices; scalars in two words are counted without a loop."""
    if state.words == 2 and state.scalar:
        return population(row[0]) + population(row[1])
    return weight_beyond(state, row)


@compiled
def cost_of(state: RowsState, rows: Integers, k: int) -> int:
    """Return the cost of eliminating k from the graph in `rows`: both totals in one number."""
    words = state.words
    above = rows[k * words * SETS :]
    below = above[words * SIDE :]
    P, S = weight(state, above), weight(state, below)
    pn, sn = weight(state, above[words:]), weight(state, below[words:])
    px, sx = weight(state, above[2 * words :]), weight(state, below[2 * words :])
    cost = state.products * (P * S) + state.multiplications * (px * sn + (pn - px) * sx)
    return cost if state.scalar else cost * state.sizes[k]


@compiled
def join_word(to: Integers, source: Integers, words: int, constant: int, variable: int) -> None:
    """Add a vertex's sets to another's through an edge of the given kind: one of the three words."""
    new, old = source[0], to[0]
    to[0] = old | new
    to[words] |= source[words] | (new & (constant | old))
    to[2 * words] |= source[2 * words] | (new & variable)


@compiled
def join_beyond(to: Integers, source: Integers, words: int, constant: int, variable: int) -> None:
    """Compute the third and later words."""
    for w in range(2, words):
        join_word(to[w:], source[w:], words, constant, variable)


@compiled
def eliminate(rows: Integers, k: int, mask: Integers, words: int, inner: int) -> None:
    """Eliminate k: update the rows of its neighbours in `mask`."""
    above = rows[k * words * SETS :]
    side = words * SIDE
    word, keep = k >> 6, ~bit(k & 63)
    for w in range(inner):
        from_above = above[w]
        bits = (from_above | above[side + w]) & mask[w]
        while bits != 0:
            low = wrapped(bits & -bits)
            neighbour = (w << 6) + lowest(bits)
            bits ^= low
            # a neighbour above gets k's successors, one below gets k's predecessors
            take = side if from_above & low else 0
            label = above[side - take :]
            constant = -1 if label[words + w] & low else 0
            variable = -1 if label[2 * words + w] & low else 0
            to, source = rows[neighbour * words * SETS + take :], above[take:]
            to[word] &= keep
            to[words + word] &= keep
            to[2 * words + word] &= keep
            join_word(to, source, words, constant, variable)
            join_word(to[1:], source[1:], words, constant, variable)
            if words > 2:
                join_beyond(to, source, words, constant, variable)


@compiled
def mark(mask: Integers, order: Integers, first: int, last: int, inner: int) -> None:
    """Set the mask of the vertices order[first:last]."""
    for w in range(inner):
        mask[w] = 0
    for t in range(first, last):
        u = order[t]
        mask[u >> 6] |= bit(u & 63)


@compiled
def later_neighbours(state: OrderState, u: int, inner: int, step: int, top: int) -> int:
    """Add `step` to the waiting count of each later neighbour of u; push neighbours whose count becomes 0."""
    words, waiting = state.words, state.waiting
    above = state.rows[u * words * SETS :]
    for w in range(inner):
        bits = (above[w] | above[words * SIDE + w]) & state.mask[w]
        while bits != 0:
            p = (w << 6) + lowest(bits)
            bits = without_lowest(bits)
            waiting[p] += step
            if waiting[p] == 0:
                state.stack[top] = p
                top += 1
    return top


@compiled
def _rewrite(state: OrderState, inner: int) -> None:
    """Replace the order by an equivalent one: depth first along "is a later neighbour of, when eliminated".

    Two vertices that are not neighbours when the first of them goes can swap without any effect, so every linear
    extension of that relation costs the same.
    """
    m, order, waiting, stack = state.vertices, state.order, state.waiting, state.stack
    mark(state.mask, order, state.at, m, inner)
    for u in range(m):
        waiting[u] = 0
    top = 0
    for t in range(m):
        later_neighbours(state, order[t], inner, 1, top)
    for t in range(m - 1, -1, -1):
        if waiting[order[t]] == 0:
            stack[top] = order[t]
            top += 1
    for t in range(m):
        top -= 1
        state.spare[t] = stack[top]
        top = later_neighbours(state, stack[top], inner, -1, top)
    copy(order, state.spare, m)


@compiled
def _cost_order(state: OrderState, inner: int) -> None:
    """Cost the order from its start; store it if it is the best."""
    m, words, rows, order = state.vertices, state.words, state.rows, state.order
    state.at = 0
    copy(rows, state.base, m * words * SETS)
    mark(state.mask, order, 0, m, inner)
    total = 0
    for t in range(m):
        k = order[t]
        cost = cost_of(state, rows, k)
        state.costs[k] = cost
        total += cost
        eliminate(rows, k, state.mask, words, inner)
    state.total = total
    if total < state.best:
        state.best = total
        copy(state.best_order, order, m)


@compiled
def replay(state: OrderState, x: int, first: int, length: int, gone: int, costing: bool) -> None:
    """Eliminate order[first:first+length] in the scratch rows, with x present throughout, or eliminated before.

    With x present, write the cost of x before each of them (`costs_of_x`), and mark its neighbours at their elimination
    by `changed` = UNKNOWN. If `costing`, write the neighbours' costs to `changed`.
    """
    scratch, order, mask, words = state.scratch, state.order, state.mask, state.words
    costs_of_x, changed = state.costs_of_x, state.changed
    inner, row = (state.vertices + 63) >> 6, words * SETS
    copy(scratch[x * row :], state.rows[x * row :], row)
    for t in range(first, first + length):
        u = order[t]
        copy(scratch[u * row :], state.rows[u * row :], row)
    if not gone:
        costs_of_x[0] = cost_of(state, scratch, x)
    else:
        eliminate(scratch, x, mask, words, inner)
    for t in range(length):
        u = order[first + t]
        if not gone:
            above = scratch[u * row + (x >> 6) :]
            near = ((above[0] | above[words * SIDE]) >> (x & 63)) & 1 != 0
            changed[t] = UNKNOWN if near else state.costs[u]
        else:
            near = changed[t] == UNKNOWN
        if near and costing:
            changed[t] = cost_of(state, scratch, u)
        eliminate(scratch, u, mask, words, inner)
        if not gone:
            costs_of_x[t + 1] = cost_of(state, scratch, x) if near else costs_of_x[t]


@compiled
def draw(state: OrderState, first: int, length: int, sign: int) -> int:
    """Draw one of the positions 0 … length for x, from the results of the replays.

    Vertices before this position cost as much as with x present, later ones as much as without. `changed` holds the
    former if x is first now (sign 1), and the latter if it is last (sign -1).
    """
    costs_of_x, changed, sums, order, costs = state.costs_of_x, state.changed, state.sums, state.order, state.costs
    primary, secondary = state.primary / state.temperature, state.secondary / state.temperature
    price, least = 0, 1e300
    for t in range(length + 1):
        total = price + costs_of_x[t]
        high = (total + HALF) >> SHIFT
        sums[t] = primary * high + secondary * (total - (high << SHIFT))
        least = min(least, sums[t])
        if t < length:
            price += sign * (changed[t] - costs[order[first + t]])
    sum_of_all = 0.0
    for t in range(length + 1):
        steps = (sums[t] - least) * TABLE_STEP
        if steps < TABLE_LENGTH:
            sum_of_all += state.table[int(steps)]
        sums[t] = sum_of_all
    drawn = shifted_right(random_bits(state.random), 11) * (sum_of_all / 9007199254740992.0)
    drawn_position = 0
    while drawn_position < length and sums[drawn_position] <= drawn:
        drawn_position += 1
    return drawn_position


@compiled
def _move(state: OrderState, x: int, at: int, to: int, here: int) -> int:
    """Move x from at+here to at+to; return the change of the total."""
    costs_of_x, changed, order, costs = state.costs_of_x, state.changed, state.order, state.costs
    difference: int = costs_of_x[to] - costs_of_x[here]
    if here == 0:
        for t in range(to):
            u = order[at + t + 1]
            order[at + t] = u
            difference += changed[t] - costs[u]
            costs[u] = changed[t]
    else:
        for t in range(here - 1, to - 1, -1):
            u = order[at + t]
            order[at + t + 1] = u
            difference += changed[t] - costs[u]
            costs[u] = changed[t]
    order[at + to] = x
    costs[x] = costs_of_x[to]
    return difference


def run_order(state: OrderState) -> int:
    """Make `visits` visits, continuing the last call; `at` = -1 starts with a new order.

    The division into calls does not change the result. Return the best total so far.
    """
    m, words, order, rows, mask = state.vertices, state.words, state.order, state.rows, state.mask
    inner = (m + 63) >> 6
    if state.at < 0:
        _cost_order(state, inner)
    for _ in range(state.visits):
        if state.at == 0:
            state.sweeps += 1
            if state.sweeps & 1 == 0:
                _rewrite(state, inner)
            copy(rows, state.base, m * words * SETS)
        at = state.at
        for later in range(2):
            length = min(state.window, m - 1 - at)
            first, here = at + 1, 0
            if later:
                length = 1 + shifted_right(random_bits(state.random), 1) % length
                first, here = at, length
            x = order[at + here]
            mark(mask, order, at, at + length + 1, inner)
            for gone in range(later + 1):
                replay(state, x, first, length, gone, gone == later)
            position = draw(state, first, length, 1 - 2 * later)
            if position != here:
                state.total += _move(state, x, at, position, here)
                if state.total < state.best:
                    state.best = state.total
                    copy(state.best_order, order, m)
        state.temperature *= state.cooling
        mark(mask, order, at + 1, m, inner)
        eliminate(rows, order[at], mask, words, inner)
        state.at = 0 if at == m - 2 else at + 1
    return state.best
