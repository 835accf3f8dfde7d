"""Compiled search over vertex elimination orders: simulated annealing by heat bath on bitset rows.

State. Every intermediate k has six bitset rows: what it depends on and what depends on it (P and S), each as
three nested sets A ⊇ N ⊇ X: all edges, those whose label is not ±1, those whose label varies. Roots and
terminals only occur as bits. Eliminating k updates the rows of its neighbours with a few word operations, and
its cost under every objective is a product of population counts. (Labels of one kind less:
`accumulus.accumulate.cost`; the tests hold the two against each other.)

Moves. What eliminating a vertex costs depends only on the *set* eliminated before it. So if x moves within the
order, the vertices between its old and its new place see one change, x itself there or gone, whatever the
distance: one replay of the window with x present, and one with x absent, price every place of x in the window
at once. x then draws one of them with probability ∝ exp(-energy / temperature) (heat bath; Geman and Geman
1984). A sweep visits every position; at position a, whose state is at hand, the vertex there may move later,
and a random later one may move up to anywhere behind a.

Between sweeps the order is rewritten as another one of equal cost (a depth-first linear extension of
"neighbours at the time of elimination"), which lets the next windows see other neighbours.

Time: a step (one vertex eliminated in a replay) takes a few tens of nanoseconds for graphs of up to 128
vertices; a visit replays at most 2.5 windows. Memory: 144 n²/64 bytes for n vertices, and a few arrays. No
allocation, no reference counting, no GIL: the kernel is handed one block of integers and addresses, and works
on memory that its caller owns.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.memory import (
    compiled,
    copy,
    get,
    get_float,
    lowest,
    population,
    put,
    put_float,
    random_bits,
    shifted_right,
    whole,
)
from accumulus.search.compiled.order_slots import (
    AT,
    BASE,
    BEST,
    BEST_ORDER,
    CHANGED,
    COOLING,
    COSTS,
    MASK,
    MULTIPLICATIONS,
    ORDER,
    OWN,
    PRIMARY,
    PRODUCTS,
    RANDOM,
    ROWS,
    SCRATCH,
    SECONDARY,
    SHIFT,
    SIZES,
    SPARE,
    STACK,
    SUMS,
    SWEEPS,
    TABLE,
    TABLE_LENGTH,
    TABLE_STEP,
    TEMPERATURE,
    TOTAL,
    VERTICES,
    VISITS,
    WAITING,
    WINDOW,
    WORDS,
)

__all__ = ["anneal"]

HALF: Final = 1 << (SHIFT - 1)
#: Sets of a vertex; bytes that its rows, and those of one of its sides, take for each word.
SETS: Final = 6
ROW: Final = 8 * SETS
SIDE: Final = ROW // 2
#: Cost that is still to be computed.
UNKNOWN: Final = -(1 << 62)


@compiled
def weight_beyond(row: int, words: int, sizes: int) -> int:
    """Sum of the sizes of a row's vertices: the general case of `weight`."""
    total = 0
    for w in range(words):
        bits = get(row, w)
        if sizes == 0:
            total += population(bits)
        else:
            while bits != 0:
                total += get(sizes, (w << 6) + lowest(bits))
                bits &= bits - 1
    return total


@compiled
def weight(row: int, words: int, sizes: int) -> int:
    """Sum of the sizes of a row's vertices; scalars in two words are counted without a loop."""
    if words == 2 and sizes == 0:
        return population(get(row, 0)) + population(get(row, 1))
    return weight_beyond(row, words, sizes)


@compiled
def cost_of(rows: int, k: int, words: int, sizes: int, block: int) -> int:
    """Cost of eliminating k from the graph in `rows`: both totals in one number."""
    above = rows + k * words * ROW
    below = above + words * SIDE
    P, S = weight(above, words, sizes), weight(below, words, sizes)
    pn, sn = weight(above + words * 8, words, sizes), weight(below + words * 8, words, sizes)
    px, sx = weight(above + words * 16, words, sizes), weight(below + words * 16, words, sizes)
    cost = get(block, PRODUCTS) * (P * S) + get(block, MULTIPLICATIONS) * (px * sn + (pn - px) * sx)
    if sizes != 0:
        cost *= get(sizes, k)
    return cost


@compiled
def join_word(to: int, source: int, words: int, constant: int, variable: int) -> None:
    """Add a row to another, one word of their three sets, through an edge of the given kind."""
    a = get(source, 0)
    old = get(to, 0)
    put(to, 0, old | a)
    put(to, words, get(to, words) | get(source, words) | (a & (constant | old)))
    put(to, 2 * words, get(to, 2 * words) | get(source, 2 * words) | (a & variable))


@compiled
def join_beyond(to: int, source: int, words: int, constant: int, variable: int) -> None:
    """The third and later words."""
    for w in range(2, words):
        join_word(to + w * 8, source + w * 8, words, constant, variable)


@compiled
def eliminate(rows: int, k: int, mask: int, words: int, inner: int) -> None:
    """Eliminate k as far as the rows of the intermediates in `mask` are concerned."""
    above = rows + k * words * ROW
    side = words * SIDE
    word, keep = k >> 6, ~(1 << (k & 63))
    for w in range(inner):
        from_above = get(above, w)
        bits = (from_above | get(above + side, w)) & get(mask, w)
        while bits != 0:
            low = bits & -bits
            neighbour = (w << 6) + lowest(bits)
            bits ^= low
            # a neighbour above takes over what k depends on, one below what depends on k
            take = side if from_above & low else 0
            label = above + side - take
            constant = -whole((get(label, words + w) & low) != 0)
            variable = -whole((get(label, 2 * words + w) & low) != 0)
            to = rows + neighbour * words * ROW + take
            put(to, word, get(to, word) & keep)
            put(to, words + word, get(to, words + word) & keep)
            put(to, 2 * words + word, get(to, 2 * words + word) & keep)
            join_word(to, above + take, words, constant, variable)
            join_word(to + 8, above + take + 8, words, constant, variable)
            if words > 2:
                join_beyond(to, above + take, words, constant, variable)


@compiled
def mark(mask: int, order: int, first: int, last: int, inner: int) -> None:
    """Mask of the vertices order[first:last]."""
    for w in range(inner):
        put(mask, w, 0)
    for t in range(first, last):
        u = get(order, t)
        put(mask, u >> 6, get(mask, u >> 6) | (1 << (u & 63)))


@compiled
def later_neighbours(
    rows: int, u: int, words: int, inner: int, mask: int, waiting: int, step: int, stack: int, top: int
) -> int:
    """Add `step` to what each later neighbour of u waits for; push those that wait for nothing any more."""
    above = rows + u * words * ROW
    for w in range(inner):
        bits = (get(above, w) | get(above + words * SIDE, w)) & get(mask, w)
        while bits != 0:
            p = (w << 6) + lowest(bits)
            bits &= bits - 1
            left = get(waiting, p) + step
            put(waiting, p, left)
            if left == 0:
                put(stack, top, p)
                top += 1
    return top


@compiled
def rewrite(block: int, words: int, inner: int) -> None:
    """Replace the order by an equivalent one: depth first along "is a later neighbour of, when eliminated".

    Two vertices that are not neighbours when the first of them goes can swap without any effect, so every linear
    extension of that relation costs the same.
    """
    m, rows, order = get(block, VERTICES), get(block, ROWS), get(block, ORDER)
    mask, waiting, stack, spare = get(block, MASK), get(block, WAITING), get(block, STACK), get(block, SPARE)
    mark(mask, order, get(block, AT), m, inner)
    for u in range(m):
        put(waiting, u, 0)
    top = whole(0)
    for t in range(m):
        later_neighbours(rows, get(order, t), words, inner, mask, waiting, whole(1), stack, top)
    for t in range(m - 1, -1, -1):
        u = get(order, t)
        if get(waiting, u) == 0:
            put(stack, top, u)
            top += 1
    for t in range(m):
        top -= 1
        u = get(stack, top)
        put(spare, t, u)
        top = later_neighbours(rows, u, words, inner, mask, waiting, whole(-1), stack, top)
    copy(order, spare, m)


@compiled
def cost_order(block: int, words: int, inner: int) -> None:
    """Cost the order from its start; it becomes the best one if it is."""
    m, rows, order, mask = get(block, VERTICES), get(block, ROWS), get(block, ORDER), get(block, MASK)
    put(block, AT, 0)
    copy(rows, get(block, BASE), m * words * SETS)
    mark(mask, order, get(block, AT), m, inner)
    total = 0
    for t in range(m):
        k = get(order, t)
        cost = cost_of(rows, k, words, get(block, SIZES), block)
        put(get(block, COSTS), k, cost)
        total += cost
        eliminate(rows, k, mask, words, inner)
    put(block, TOTAL, total)
    if total < get(block, BEST):
        put(block, BEST, total)
        copy(get(block, BEST_ORDER), order, m)


@compiled
def replay(block: int, x: int, first: int, length: int, gone: int, costing: bool) -> None:
    """Eliminate order[first:first+length] in the scratch rows, while x is there all the time, or gone before.

    While x is there: writes what x would cost before each of them (OWN), and which of them are its neighbours
    when they go (CHANGED is UNKNOWN). What those cost is written to CHANGED if `costing`.
    """
    scratch, order, mask, words = get(block, SCRATCH), get(block, ORDER), get(block, MASK), get(block, WORDS)
    own, changed, sizes = get(block, OWN), get(block, CHANGED), get(block, SIZES)
    rows, costs = get(block, ROWS), get(block, COSTS)
    inner, row = (get(block, VERTICES) + 63) >> 6, words * ROW
    copy(scratch + x * row, rows + x * row, words * SETS)
    for t in range(first, first + length):
        u = get(order, t)
        copy(scratch + u * row, rows + u * row, words * SETS)
    if not gone:
        put(own, 0, cost_of(scratch, x, words, sizes, block))
    else:
        eliminate(scratch, x, mask, words, inner)
    for t in range(length):
        u = get(order, first + t)
        if not gone:
            above = scratch + u * row + (x >> 6) * 8
            near = ((get(above, 0) | get(above, 3 * words)) >> (x & 63)) & 1 != 0
            put(changed, t, UNKNOWN if near else get(costs, u))
        else:
            near = get(changed, t) == UNKNOWN
        if near and costing:
            put(changed, t, cost_of(scratch, u, words, sizes, block))
        eliminate(scratch, u, mask, words, inner)
        if not gone:
            put(own, t + 1, cost_of(scratch, x, words, sizes, block) if near else get(own, t))


@compiled
def draw(block: int, first: int, length: int, sign: int) -> int:
    """Draw one of the places 0 … length for x, from what the replays wrote.

    Before its place, vertices cost what they do with x there, behind it what they do without. CHANGED holds the former
    if x stands first now (sign 1), and the latter if it stands last (sign -1).
    """
    own, changed, sums, table = get(block, OWN), get(block, CHANGED), get(block, SUMS), get(block, TABLE)
    order, costs = get(block, ORDER), get(block, COSTS)
    primary = get_float(block, PRIMARY) / get_float(block, TEMPERATURE)
    secondary = get_float(block, SECONDARY) / get_float(block, TEMPERATURE)
    price, least = 0, 1e300
    for t in range(length + 1):
        total = price + get(own, t)
        high = (total + HALF) >> SHIFT
        energy = primary * high + secondary * (total - (high << SHIFT))
        put_float(sums, t, energy)
        least = min(least, energy)
        if t < length:
            price += sign * (get(changed, t) - get(costs, get(order, first + t)))
    sum_of_all = 0.0
    for t in range(length + 1):
        steps = (get_float(sums, t) - least) * TABLE_STEP
        if steps < TABLE_LENGTH:
            sum_of_all += get_float(table, whole(steps))
        put_float(sums, t, sum_of_all)
    drawn = shifted_right(random_bits(block + RANDOM * 8), 11) * (sum_of_all / 9007199254740992.0)
    place = 0
    while place < length and get_float(sums, place) <= drawn:
        place += 1
    return place


@compiled
def move(block: int, x: int, at: int, place: int, here: int) -> int:
    """Move x from at+here to at+place and return by how much the total changes."""
    own, changed, order, costs = get(block, OWN), get(block, CHANGED), get(block, ORDER), get(block, COSTS)
    difference = get(own, place) - get(own, here)
    if here == 0:
        for t in range(place):
            u = get(order, at + t + 1)
            put(order, at + t, u)
            difference += get(changed, t) - get(costs, u)
            put(costs, u, get(changed, t))
    else:
        for t in range(here - 1, place - 1, -1):
            u = get(order, at + t)
            put(order, at + t + 1, u)
            difference += get(changed, t) - get(costs, u)
            put(costs, u, get(changed, t))
    put(order, at + place, x)
    put(costs, x, get(own, place))
    return difference


def anneal(block: int) -> int:
    """Run VISITS visits, from wherever the last call stopped; AT = -1 starts with a new order.

    Cutting a run into calls does not change it. Returns the best total so far.
    """
    m, words, order, rows = get(block, VERTICES), get(block, WORDS), get(block, ORDER), get(block, ROWS)
    mask, inner = get(block, MASK), (m + 63) >> 6
    if get(block, AT) < 0:
        cost_order(block, words, inner)
    at, best, total = get(block, AT), get(block, BEST), get(block, TOTAL)
    temperature, cooling = get_float(block, TEMPERATURE), get_float(block, COOLING)
    for _ in range(get(block, VISITS)):
        if at == 0:
            put(block, AT, 0)
            put(block, SWEEPS, get(block, SWEEPS) + 1)
            if get(block, SWEEPS) & 1 == 0:
                rewrite(block, words, inner)
            copy(rows, get(block, BASE), m * words * SETS)
        for later in range(2):
            length = min(get(block, WINDOW), m - 1 - at)
            first, here = at + 1, 0
            if later:
                length = 1 + shifted_right(random_bits(block + RANDOM * 8), 1) % length
                first, here = at, length
            x = get(order, at + here)
            mark(mask, order, at, at + length + 1, inner)
            for gone in range(later + 1):
                replay(block, x, first, length, gone, gone == later)
            put_float(block, TEMPERATURE, temperature)
            place = draw(block, first, length, 1 - 2 * later)
            if place != here:
                total += move(block, x, at, place, here)
                if total < best:
                    best = total
                    copy(get(block, BEST_ORDER), order, m)
        temperature *= cooling
        mark(mask, order, at + 1, m, inner)
        eliminate(rows, get(order, at), mask, words, inner)
        at += 1
        if at == m - 1:
            at = 0
    put(block, AT, at)
    put(block, BEST, best)
    put(block, TOTAL, total)
    put_float(block, TEMPERATURE, temperature)
    return best
