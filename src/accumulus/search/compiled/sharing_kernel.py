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
from accumulus.search.compiled.sharing_slots import (
    ALL,
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
    EVEN,
    FIRST,
    GUARD,
    GUARDS,
    KEY_BITS,
    KEYS,
    LOG,
    LOG_LIMIT,
    LOGGED,
    NEGATIVE,
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
    SIGN_BIT,
    SPREAD,
    SUM,
    TEMPERATURE,
    THRESHOLD_COUNT,
    THRESHOLDS,
    TOTAL,
    TRIED,
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
def intern(block: int, key: int, price: int, sign: int) -> int:
    """Value of a key; if it is new, a new node with that sign, which costs `price`."""
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
    put(get(block, NODES), place, sign * node)
    put(get(block, CONSTANT), node, price == 0)
    put(block, NEXT, node + 1)
    put(block, COST, get(block, COST) + price)
    return sign * node


@compiled
def key_of(operation: int, a: int, b: int) -> int:
    """Key of an operation on two nodes; the order of the operands does not matter."""
    if a > b:
        a, b = b, a
    return (((operation << NODE_BITS) | a) << NODE_BITS) | b


@compiled
def product(block: int, a: int, b: int) -> int:
    """The value a · b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if a == 1:
        return sign * b
    if b == 1:
        return sign * a
    constants = get(get(block, CONSTANT), a) + get(get(block, CONSTANT), b)
    key = key_of(whole(PRODUCT), a, b)
    if constants == 1 and sign < 0:  # the constant takes the sign
        key |= 1 << SIGN_BIT
        sign = 1
    return sign * intern(block, key, whole(constants < 2), whole(1))


@compiled
def closed(block: int, value: int, guard: int) -> int:
    """The value where all conditions of the guard hold, 0 elsewhere."""
    if guard == 0:
        return value
    conditions = intern(block, (GUARD << 2 * NODE_BITS) | guard, population(guard) - 1, whole(1))
    if value < 0:
        value = intern(block, key_of(whole(NEGATIVE), 0, -value), whole(1), whole(1))
    return intern(block, key_of(whole(SELECT), conditions, value), whole(1), whole(1))


@compiled
def total(block: int, a: int, guard_a: int, b: int, guard_b: int) -> int:
    """The value a + b, under the conditions that both guards have in common."""
    common = guard_a & guard_b
    guard_a, guard_b = guard_a & ~common, guard_b & ~common
    if population(guard_a) == 1 and (guard_a << 1 if guard_a & EVEN else guard_a >> 1) == guard_b:
        # one condition and its opposite
        key = key_of(whole(SELECT), abs(a), abs(b))
        return intern(block, key | (whole((a < 0) != (b < 0)) << SIGN_BIT), whole(1), whole(1))
    a, b = closed(block, a, guard_a), closed(block, b, guard_b)
    x, y = abs(a), abs(b)
    price = 1 - (get(get(block, CONSTANT), x) & get(get(block, CONSTANT), y))
    if (a < 0) == (b < 0):
        value = intern(block, key_of(whole(SUM), x, y), price, whole(1))
        return value if a > 0 else -value
    # its key stands for the lower number less the higher one; the difference that is computed first has no sign
    sign = 1 if (a > 0) == (x < y) else -1
    return sign * intern(block, key_of(whole(DIFFERENCE), x, y), price, sign)


@compiled
def eliminate(block: int, rows: int, k: int) -> bool:
    """Eliminate k; False if there is no room for so many products."""
    words, inner, n = get(block, WORDS), get(block, VERTICES), get(block, ALL)
    values, guards = get(block, VALUES), get(block, GUARDS)
    above = rows + k * words * 16
    below = above + words * 8
    over, under = 0, 0
    for w in range(words):
        over += population(get(above, w))
        under += population(get(below, w))
    pairs = over * under
    # a pair makes a product and a sum, each operand of which may have to be closed
    if get(block, LOGGED) + 10 * pairs > get(block, LOG_LIMIT) or get(block, NEXT) + 8 * pairs > get(block, NODE_LIMIT):
        return False
    for w in range(words):
        from_above = get(above, w)
        while from_above != 0:
            j = (w << 6) + lowest(from_above)
            from_above &= from_above - 1
            a, guard_a = get(values, j * n + k), get(guards, j * n + k)
            for v in range(words):
                from_below = get(below, v)
                while from_below != 0:
                    i = (v << 6) + lowest(from_below)
                    from_below &= from_below - 1
                    value, guard = product(block, a, get(values, k * n + i)), guard_a | get(guards, k * n + i)
                    place = (j * n + i) * 8
                    old, old_guard = get(values + place, 0), get(guards + place, 0)
                    if old != 0:
                        value = total(block, old, old_guard, value, guard)
                        guard &= old_guard
                    write(block, values + place, value)
                    if guard != old_guard:
                        write(block, guards + place, guard)
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
    entries, values, guards = get(block, ENTRIES), get(block, VALUES), get(block, GUARDS)
    for t in range(get(block, ENTRY_COUNT)):
        place = get(entries, t)
        value = closed(block, get(values, place), get(guards, place))
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
    for _ in range(get(block, VISITS)):
        if at <= 0:
            undo(block, whole(0))
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
            window = min(window, m - 1 - at)
            source, to = at, at + 1 + (bits >> 2 & 0xFFFFF) % window
            if bits & 2:
                source, to = to, source
            threshold = get_float(get(block, THRESHOLDS), (bits >> 30) % THRESHOLD_COUNT)
            limit = whole(threshold * temperature)
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
