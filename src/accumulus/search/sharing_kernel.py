"""Compiled search over vertex orders under the number of operations that the emitted tape will hold.

Equal operations count once, whether the Jacobian or the function needs them, so an operation is only known by its operands. The kernel runs the
elimination on values as the tape does (`accumulus.accumulate.emit`): a value is the number of a node, negative if the
node is to be negated; a node is interned by its operation and operands; signs are pulled out of products and sums; a product with a
select that switches a branch off goes into the branch. Left out: what the tape's optimiser does later, and values of constants. So
the count guides the search, and `accumulus.accumulate.cost` has the last word.

A visit at position a of the order moves one vertex between a and a window behind it, replays the elimination from a, and accepts by
Metropolis et al. (1953). A replay that, beyond the window, is more than the threshold and MARGIN above the count of the
current order gives up, as what follows rarely differs. All writes are logged, and undone after each replay.

Time: about 10 ns for each product in the replayed part. No allocation, no GIL.
"""

from __future__ import annotations

from typing import Final

import numba

from accumulus.search.memory import (
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
)
from accumulus.search.sharing_slots import (
    ALL,
    AND,
    AT,
    BASE,
    BEST,
    BEST_ORDER,
    CONSTANT,
    COOLING,
    COST,
    DIFFERENCE,
    ENTRIES,
    ENTRY_COUNT,
    FIRST,
    INNER,
    KEY_BITS,
    KEYS,
    LOG,
    LOG_LIMIT,
    LOGGED,
    NEXT,
    NODE_BITS,
    NODE_LIMIT,
    NODES,
    ORDER,
    PASSED,
    PRODUCT,
    RANDOM,
    ROWS,
    SCRATCH,
    SELECT,
    SPREAD,
    SUM,
    SWITCH,
    TEMPERATURE,
    THRESHOLD_COUNT,
    THRESHOLDS,
    TOTAL,
    TRIED,
    USED,
    VALUES,
    VERTICES,
    VISITS,
    WINDOW,
    WORDS,
)

__all__ = ["anneal"]

#: Operations by which a replay may exceed the current order beyond the window, above the threshold.
MARGIN: Final = 3


@compiled
def write(block: int, address: int, value: int) -> None:
    """Write to an address what `undo` takes back."""
    logged = get(block, LOGGED)
    log = get(block, LOG)
    put(log, 2 * logged, address)
    put(log, 2 * logged + 1, get(address, 0))
    put(address, 0, value)
    put(block, LOGGED, logged + 1)


@compiled
def undo(block: int, logged: int) -> None:
    """Take back all that was written since the log had that length."""
    log = get(block, LOG)
    for t in range(get(block, LOGGED) - 1, logged - 1, -1):
        put(get(log, 2 * t), 0, get(log, 2 * t + 1))
    put(block, LOGGED, logged)


@compiled
def intern(block: int, key: int, price: int) -> int:
    """Node of a key; if it is new, it costs `price`."""
    keys = get(block, KEYS)
    mask = (1 << get(block, KEY_BITS)) - 1
    place = shifted_right(key * SPREAD, 64 - get(block, KEY_BITS))
    while True:
        known = get(keys, place)
        if known == key:
            return get(get(block, NODES), place)
        if known == 0:
            break
        place = (place + 1) & mask
    node = get(block, NEXT)
    write(block, keys + place * 8, key)
    put(get(block, NODES), place, node)
    put(get(block, CONSTANT), node, price == 0)
    put(get(block, SWITCH), node, 0)
    put(get(block, USED), node, 0)
    put(block, NEXT, node + 1)
    put(block, COST, get(block, COST) + price)
    return node


@compiled
def key_of(operation: int, a: int, b: int) -> int:
    """Key of an operation on two nodes; the order of the operands does not matter."""
    if a > b:
        a, b = b, a
    return (((operation << NODE_BITS) | a) << NODE_BITS) | b


@compiled
def use(block: int, value: int) -> None:
    """Count a select that is needed itself, not only its branch."""
    node = abs(value)
    if get(get(block, SWITCH), node) != 0 and get(get(block, USED), node) == 0:
        write(block, get(block, USED) + node * 8, 1)
        put(block, COST, get(block, COST) + 1 + (get(get(block, INNER), node) < 0))


@compiled
def switched(block: int, condition: int, value: int) -> int:
    """The value where the condition holds, 0 elsewhere; counted when it is used."""
    if condition == 0:
        return value
    key = key_of(numba.int64(SELECT), condition, abs(value)) | (numba.int64(value < 0) << 62)
    before = get(block, NEXT)
    node = intern(block, key, numba.int64(0))
    if node == before:
        put(get(block, CONSTANT), node, 0)
        put(get(block, SWITCH), node, condition)
        put(get(block, INNER), node, value)
    return node


@compiled
def product(block: int, a: int, b: int) -> int:
    """The value a · b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    switch, inner = get(block, SWITCH), get(block, INNER)
    condition = get(switch, a)
    if condition != 0:
        a = get(inner, a)
    other = get(switch, b)
    if other != 0:
        b = get(inner, b)
        if condition == 0 or condition == other:
            condition = other
        else:
            condition = intern(block, key_of(numba.int64(AND), condition, other), numba.int64(1))
    within = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if a == 1:
        node = b
    elif b == 1:
        node = a
    else:
        constant = get(block, CONSTANT)
        price = 1 - (get(constant, a) & get(constant, b))
        node = intern(block, key_of(numba.int64(PRODUCT), a, b), price)
    return sign * switched(block, condition, within * node)


@compiled
def total(block: int, a: int, b: int) -> int:
    """The value a + b."""
    switch, inner, constant = get(block, SWITCH), get(block, INNER), get(block, CONSTANT)
    condition = get(switch, a) if a > 0 and b > 0 else 0
    if condition != 0 and condition == get(switch, b):
        a, b = get(inner, a), get(inner, b)
    else:
        condition = 0
        use(block, a)
        use(block, b)
    x, y = abs(a), abs(b)
    price = 1 - (get(constant, x) & get(constant, y))
    if (a < 0) == (b < 0):
        node = intern(block, key_of(numba.int64(SUM), x, y), price)
        value = node if a > 0 else -node
    else:
        node = intern(block, key_of(numba.int64(DIFFERENCE), x, y), price)  # the lower number less the higher one
        value = node if (a > 0) == (x < y) else -node
    return switched(block, condition, value)


@compiled
def eliminate(block: int, rows: int, k: int) -> bool:
    """Eliminate k; False if there is no room for so many products."""
    words, inner, n, values = get(block, WORDS), get(block, VERTICES), get(block, ALL), get(block, VALUES)
    above = rows + k * words * 16
    below = above + words * 8
    over, under = 0, 0
    for w in range(words):
        over += population(get(above, w))
        under += population(get(below, w))
    pairs = over * under
    if get(block, LOGGED) + 8 * pairs > get(block, LOG_LIMIT) or get(block, NEXT) + 4 * pairs > get(block, NODE_LIMIT):
        return False
    for w in range(words):
        from_above = get(above, w)
        while from_above != 0:
            j = (w << 6) + lowest(from_above)
            from_above &= from_above - 1
            a = get(values, j * n + k)
            for v in range(words):
                from_below = get(below, v)
                while from_below != 0:
                    i = (v << 6) + lowest(from_below)
                    from_below &= from_below - 1
                    value = product(block, a, get(values, k * n + i))
                    place = values + (j * n + i) * 8
                    old = get(place, 0)
                    if old != 0:
                        value = total(block, old, value)
                    write(block, place, value)
    keep = ~(1 << (k & 63))
    for w in range((inner + 63) >> 6):
        from_above = get(above, w)
        bits = from_above | get(below, w)
        while bits != 0:
            low = bits & -bits
            neighbour = (w << 6) + lowest(bits)
            bits ^= low
            if neighbour < inner:
                # a neighbour above takes over what k depends on, one below what depends on k
                take = words * 8 if from_above & low else 0
                to = rows + neighbour * words * 16 + take
                put(to, k >> 6, get(to, k >> 6) & keep)
                for v in range(words):
                    put(to, v, get(to, v) | get(above + take, v))
    return True


@compiled
def replay(block: int, rows: int, first: int, watched: int, limit: int) -> bool:
    """Eliminate order[first:], and count what its results need; False if that exceeds the current count by `limit`.

    The count after each vertex from the one at `watched` on is compared with that of the current order.
    """
    order, passed, tried = get(block, ORDER), get(block, PASSED), get(block, TRIED)
    for t in range(first, get(block, VERTICES)):
        if not eliminate(block, rows, get(order, t)):
            return False
        cost = get(block, COST)
        put(tried, t, cost)
        if t >= watched and cost > get(passed, t) + limit + MARGIN:
            return False
    entries, values = get(block, ENTRIES), get(block, VALUES)
    for t in range(get(block, ENTRY_COUNT)):
        value = get(values, get(entries, t))
        use(block, value)
        put(block, COST, get(block, COST) + (value < 0))
    return get(block, COST) <= get(block, TOTAL) + limit


@compiled
def shift(order: int, source: int, to: int) -> None:
    """Move a vertex within the order."""
    x = get(order, source)
    step = 1 if source < to else -1
    for t in range(source, to, step):
        put(order, t, get(order, t + step))
    put(order, to, x)


def anneal(block: int) -> int:
    """Run VISITS visits, from wherever the last call stopped; AT = -1 starts with a new order.

    Cutting a run into calls does not change it. Returns the least count so far.
    """
    m, order, rows, scratch = get(block, VERTICES), get(block, ORDER), get(block, ROWS), get(block, SCRATCH)
    passed, tried, row = get(block, PASSED), get(block, TRIED), get(block, WORDS) * 2
    temperature, cooling = get_float(block, TEMPERATURE), get_float(block, COOLING)
    at = get(block, AT)
    for visit in range(get(block, VISITS)):
        if at <= 0:
            undo(block, numba.int64(0))
            put(block, NEXT, get(block, FIRST))
            put(block, COST, 0)
            copy(rows, get(block, BASE), m * row)
        logged, node, cost = get(block, LOGGED), get(block, NEXT), get(block, COST)
        source, to, limit = 0, 0, 1 << 40
        if at >= 0:
            bits = shifted_right(random_bits(block + RANDOM * 8), 1)
            window = get(block, WINDOW)
            if bits & 1:
                window = 8
            if window > m - 1 - at:
                window = m - 1 - at
            source, to = at, at + 1 + (bits >> 2 & 0xFFFFF) % window
            if bits & 2:
                source, to = to, source
            threshold = get_float(get(block, THRESHOLDS), (bits >> 30) % THRESHOLD_COUNT)
            limit = numba.int64(threshold * temperature)
            shift(order, source, to)
        watched = source if source > to else to
        copy(scratch, rows, m * row)
        first = at if at > 0 else 0
        accepted = replay(block, scratch, first, watched, limit)
        total_cost = get(block, COST)
        undo(block, logged)
        put(block, NEXT, node)
        put(block, COST, cost)
        if accepted:
            copy(passed + first * 8, tried + first * 8, m - first)
            put(block, TOTAL, total_cost)
            if total_cost < get(block, BEST):
                put(block, BEST, total_cost)
                copy(get(block, BEST_ORDER), order, m)
        elif at >= 0:
            shift(order, to, source)
        if at < 0:
            at = 0
        else:
            temperature *= cooling
            eliminate(block, rows, get(order, at))
            at += 1
            if at == m - 1:
                at = 0
    put(block, AT, at)
    put_float(block, TEMPERATURE, temperature)
    return get(block, BEST)
