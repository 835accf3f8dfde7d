"""Compiled vertex elimination of large sparse graphs: along an order, or the cheapest vertex next (Markowitz).

Does what `accumulus.search.elimination`, `accumulus.search.greedy` and `accumulus.accumulate.vertex` do, step by step
and tie by tie, so that a plan does not depend on which of them made it; the tests hold them against each other.

State. An edge is a record of one cache line in two doubly linked lists, of those that leave its source and of those
that enter its target. A hash table finds an edge by its ends; the columns of a row lie side by side in it, so that the
products of a vertex stay in few lines. A vertex holds how many neighbours it has, by level of the edge, so its cost is
a few operations. The heap knows where each vertex is, and moves it when its cost changes.

Time: some tens of nanoseconds a product in graphs that fit the cache, some hundred beyond. Memory: 128 bytes a vertex,
128 an edge that is there at one time. The caller owns all memory, and gives more when a call says that it is needed.
"""

from __future__ import annotations

from accumulus.native.memory import compiled, get, put, shifted_right, whole
from accumulus.search.compiled.elimination_slots import (
    ABOVE,
    ARRANGE,
    AT,
    BELOW,
    BUDGET,
    CAPACITY,
    COST,
    COSTS,
    CURSORS,
    DONE,
    EARLIER,
    EDGE,
    EDGES,
    END,
    ENTERING,
    EVERY,
    EXCEEDED,
    FIRST_IN,
    FIRST_OUT,
    FOLLOW,
    FREE,
    FULL,
    GREEDY,
    HALF,
    HEAP,
    HEAP_AT,
    HEAPED,
    LAST_OUT,
    LEAVING,
    LEVEL,
    LIMIT,
    LIST,
    LIVE,
    LOAD,
    LOADED,
    LOW,
    MADE,
    MASK,
    MERGED,
    MODE,
    MOST,
    NARROW,
    NEXT,
    NEXT_IN,
    NEXT_OUT,
    NOTED,
    ORDER,
    PAUSED,
    PREVIOUS_IN,
    PREVIOUS_OUT,
    REFERENCE,
    REHASH,
    REMOVED,
    ROOM,
    SCRATCH,
    SECOND,
    SIZE,
    SOURCE,
    SPREAD,
    STACK,
    STARTS,
    STEPPED,
    STEPS,
    TABLE,
    TARGET,
    TIE,
    TOTAL,
    TURN,
    USED,
    VERTEX,
    VERTICES,
)

__all__ = ["perform"]


@compiled
def edge_at(block: int, e: int) -> int:
    """Address of the record of an edge."""
    return get(block, EDGES) + 8 * EDGE * e


@compiled
def vertex_at(block: int, v: int) -> int:
    """Address of the record of a vertex."""
    return get(block, VERTICES) + 8 * VERTEX * v


@compiled
def home(block: int, key: int) -> int:
    """Where the table looks for an edge first."""
    return (shifted_right((key >> HALF) * SPREAD, 20) + (key & LOW)) & get(block, MASK)


@compiled
def place_of(block: int, key: int) -> int:
    """Where the table holds an edge, or would hold it."""
    table, mask = get(block, TABLE), get(block, MASK)
    place = home(block, key)
    while get(table, 2 * place + 1) != 0 and get(table, 2 * place) != key:
        place = (place + 1) & mask
    return place


@compiled
def drop(block: int, key: int) -> None:
    """Take an edge out of the table, and move up those behind it that would not be found otherwise."""
    table, mask = get(block, TABLE), get(block, MASK)
    gap = place_of(block, key)
    place = gap
    while True:
        place = (place + 1) & mask
        if get(table, 2 * place + 1) == 0:
            break
        wanted = home(block, get(table, 2 * place))
        if (place - wanted) & mask >= (place - gap) & mask:
            put(table, 2 * gap, get(table, 2 * place))
            put(table, 2 * gap + 1, get(table, 2 * place + 1))
            gap = place
    put(table, 2 * gap + 1, 0)


@compiled
def weigh(record: int, side: int, level: int, size: int) -> None:
    """Count a neighbour of that size on a side of a vertex, by an edge of that level."""
    for least in range(level):
        put(record, side + least, get(record, side + least) + size)


@compiled
def write(block: int, is_product: int, left: int, right: int) -> int:
    """Note a step, and return its reference."""
    reference = get(block, NEXT)
    if reference == 0:
        return 0
    count = get(block, STEPPED)
    put(get(block, STEPS), count, is_product << 2 * HALF | left << HALF | right)
    put(block, STEPPED, count + 1)
    put(block, NEXT, reference + 1)
    return reference


@compiled
def connect(block: int, j: int, i: int, level: int, reference: int) -> None:
    """Add an edge, or add it up with the one that is there."""
    key = j << HALF | i
    place = place_of(block, key)
    table = get(block, TABLE)
    e = get(table, 2 * place + 1)
    source, target = vertex_at(block, j), vertex_at(block, i)
    if e != 0:
        edge = edge_at(block, e)
        put(edge, REFERENCE, write(block, whole(0), get(edge, REFERENCE), reference))
        old = get(edge, LEVEL)
        level = max(old, level, 2)
        if level != old:
            put(edge, LEVEL, level)
            for least in range(old, level):
                put(source, BELOW + least, get(source, BELOW + least) + get(target, SIZE))
                put(target, ABOVE + least, get(target, ABOVE + least) + get(source, SIZE))
        return
    e = get(block, FREE)
    if e != 0:
        put(block, FREE, get(edge_at(block, e), NEXT_OUT))
    else:
        e = get(block, USED) + 1
        put(block, USED, e)
    put(block, LIVE, get(block, LIVE) + 1)
    put(table, 2 * place, key)
    put(table, 2 * place + 1, e)
    edge = edge_at(block, e)
    put(edge, SOURCE, j)
    put(edge, TARGET, i)
    put(edge, LEVEL, level)
    put(edge, REFERENCE, reference)
    # behind the others that leave its source, as in a dictionary
    last = get(source, LAST_OUT)
    put(edge, NEXT_OUT, 0)
    put(edge, PREVIOUS_OUT, last)
    if last != 0:
        put(edge_at(block, last), NEXT_OUT, e)
    else:
        put(source, FIRST_OUT, e)
    put(source, LAST_OUT, e)
    first = get(target, FIRST_IN)
    put(edge, NEXT_IN, first)
    put(edge, PREVIOUS_IN, 0)
    if first != 0:
        put(edge_at(block, first), PREVIOUS_IN, e)
    put(target, FIRST_IN, e)
    put(source, LEAVING, get(source, LEAVING) + 1)
    put(target, ENTERING, get(target, ENTERING) + 1)
    weigh(source, whole(BELOW), level, get(target, SIZE))
    weigh(target, whole(ABOVE), level, get(source, SIZE))


@compiled
def disconnect(block: int, e: int) -> None:
    """Take an edge out of everything, and free its record."""
    edge = edge_at(block, e)
    j, i, level = get(edge, SOURCE), get(edge, TARGET), get(edge, LEVEL)
    source, target = vertex_at(block, j), vertex_at(block, i)
    drop(block, j << HALF | i)
    before, behind = get(edge, PREVIOUS_OUT), get(edge, NEXT_OUT)
    if before != 0:
        put(edge_at(block, before), NEXT_OUT, behind)
    else:
        put(source, FIRST_OUT, behind)
    if behind != 0:
        put(edge_at(block, behind), PREVIOUS_OUT, before)
    else:
        put(source, LAST_OUT, before)
    before, behind = get(edge, PREVIOUS_IN), get(edge, NEXT_IN)
    if before != 0:
        put(edge_at(block, before), NEXT_IN, behind)
    else:
        put(target, FIRST_IN, behind)
    if behind != 0:
        put(edge_at(block, behind), PREVIOUS_IN, before)
    put(source, LEAVING, get(source, LEAVING) - 1)
    put(target, ENTERING, get(target, ENTERING) - 1)
    weigh(source, whole(BELOW), level, -get(target, SIZE))
    weigh(target, whole(ABOVE), level, -get(source, SIZE))
    put(edge, LEVEL, 0)
    put(edge, NEXT_OUT, get(block, FREE))
    put(block, FREE, e)
    put(block, LIVE, get(block, LIVE) - 1)


@compiled
def sort(numbers: int, other: int, count: int) -> int:
    """Sort numbers by merging, with room for as many in `other`; returns which of the two holds them."""
    run = 1
    while run < count:
        start = 0
        while start < count:
            middle, end = min(start + run, count), min(start + 2 * run, count)
            a, b = start, middle
            for k in range(start, end):
                if a < middle and (b >= end or get(numbers, a) <= get(numbers, b)):
                    put(other, k, get(numbers, a))
                    a += 1
                else:
                    put(other, k, get(numbers, b))
                    b += 1
            start = end
        numbers, other = other, numbers
        run *= 2
    return numbers


@compiled
def entering(block: int, k: int) -> int:
    """Edges that enter a vertex, by their sources: where they are listed, the sources above the edges' numbers."""
    found, count = get(block, SCRATCH), 0
    e = get(vertex_at(block, k), FIRST_IN)
    while e != 0:
        edge = edge_at(block, e)
        put(found, count, get(edge, SOURCE) << HALF | e)
        count += 1
        e = get(edge, NEXT_IN)
    # who only counts need not care
    return sort(found, get(block, MERGED), count) if get(block, NEXT) != 0 else found


@compiled
def eliminate(block: int, k: int) -> None:
    """Replace the edges at k by edges from what depends on it to what it depends on."""
    record = vertex_at(block, k)
    found, count = entering(block, k), get(record, ENTERING)
    for t in range(count):
        e = get(found, t) & LOW
        edge = edge_at(block, e)
        j, level, left = get(edge, SOURCE), get(edge, LEVEL), get(edge, REFERENCE)
        disconnect(block, e)
        f = get(record, FIRST_OUT)
        while f != 0:
            other = edge_at(block, f)
            following = get(other, NEXT_OUT)
            product = write(block, whole(1), left, get(other, REFERENCE))
            connect(block, j, get(other, TARGET), max(level, get(other, LEVEL)), product)
            f = following
    while get(record, FIRST_OUT) != 0:
        disconnect(block, get(record, FIRST_OUT))


@compiled
def price(block: int, record: int) -> None:
    """Set the key of a vertex: what it costs now, under the objective and under the one that breaks ties, and its turn.

    Its neighbours' numbers of predecessors change before they are moved in the heap, so that is part of the key, too.
    """
    size = get(record, SIZE)
    every = get(record, ABOVE) * get(record, BELOW) * size
    varying = get(record, ABOVE + 2)
    constant = get(record, ABOVE + 1) - varying
    counted = (varying * get(record, BELOW + 1) + constant * get(record, BELOW + 2)) * size
    put(record, COST, every if get(block, EVERY) != 0 else counted)
    put(record, SECOND, counted if get(block, EVERY) != 0 else every)
    put(record, TURN, get(record, ENTERING) << HALF | get(record, TURN) & LOW)


@compiled
def comes_before(one: int, other: int) -> bool:
    """Whether a vertex comes before another in the heap: cost, tie, fewest predecessors, nearest to the roots."""
    for field in (COST, SECOND, TURN):
        if get(one, field) != get(other, field):
            return get(one, field) < get(other, field)
    return False


@compiled
def rise(block: int, at: int) -> int:
    """Move a vertex towards the top of the heap; returns where it ends."""
    heap = get(block, HEAP)
    v = get(heap, at)
    record = vertex_at(block, v)
    while at > 1:
        above = get(heap, at >> 1)
        if not comes_before(record, vertex_at(block, above)):
            break
        put(heap, at, above)
        put(vertex_at(block, above), HEAP_AT, at)
        at >>= 1
    put(heap, at, v)
    put(record, HEAP_AT, at)
    return at


@compiled
def sink(block: int, at: int) -> None:
    """Move a vertex away from the top of the heap."""
    heap, count = get(block, HEAP), get(block, HEAPED)
    v = get(heap, at)
    record = vertex_at(block, v)
    while 2 * at <= count:
        below = 2 * at
        if below < count and comes_before(vertex_at(block, get(heap, below + 1)), vertex_at(block, get(heap, below))):
            below += 1
        u = get(heap, below)
        if not comes_before(vertex_at(block, u), record):
            break
        put(heap, at, u)
        put(vertex_at(block, u), HEAP_AT, at)
        at = below
    put(heap, at, v)
    put(record, HEAP_AT, at)


@compiled
def fill_heap(block: int) -> None:
    """All vertices of the order into the heap; of equal ones the last comes first."""
    heap, count, order = get(block, HEAP), get(block, END), get(block, ORDER)
    for t in range(count):
        v = get(order, t)
        record = vertex_at(block, v)
        put(heap, t + 1, v)
        put(record, HEAP_AT, t + 1)
        put(record, TURN, LOW - t)
        price(block, record)
    put(block, HEAPED, count)
    for at in range(count >> 1, 0, -1):
        sink(block, at)


@compiled
def take_cheapest(block: int) -> None:
    """Take the vertex on the top out of the heap."""
    heap, count = get(block, HEAP), get(block, HEAPED)
    put(vertex_at(block, get(heap, 1)), HEAP_AT, 0)
    last = get(heap, count)
    put(block, HEAPED, count - 1)
    if count > 1:
        put(heap, 1, last)
        put(vertex_at(block, last), HEAP_AT, 1)
        sink(block, 1)


@compiled
def price_again(block: int, v: int) -> None:
    """Move a vertex in the heap to where its cost belongs now, if it is there."""
    record = vertex_at(block, v)
    at = get(record, HEAP_AT)
    if at != 0:
        price(block, record)
        sink(block, rise(block, at))


@compiled
def obstacle(block: int, k: int) -> int:
    """DONE if k can be eliminated now, else what has to be done before."""
    record = vertex_at(block, k)
    price(block, record)
    products = get(record, ENTERING) * get(record, LEAVING)
    if get(block, TOTAL) + get(record, COST) > get(block, LIMIT) or get(block, MADE) + products > get(block, MOST):
        return EXCEEDED
    if get(block, LIVE) + products > get(block, CAPACITY):
        return NARROW
    if get(block, NEXT) != 0 and get(block, STEPPED) + 2 * products > get(block, ROOM):
        return FULL
    if get(block, NOTED) != 0 and get(block, STEPPED) + get(record, ENTERING) + get(record, LEAVING) > get(block, ROOM):
        return FULL
    if get(block, BUDGET) <= 0:
        return PAUSED
    put(block, BUDGET, get(block, BUDGET) - 1 - products)
    put(block, TOTAL, get(block, TOTAL) + get(record, COST))
    put(block, TIE, get(block, TIE) + get(record, SECOND))
    put(block, MADE, get(block, MADE) + products)
    put(block, REMOVED, get(block, REMOVED) + get(record, ENTERING) + get(record, LEAVING))
    return DONE


@compiled
def note(block: int, k: int) -> None:
    """Write the neighbours of k, each above k itself."""
    record, noted, count = vertex_at(block, k), get(block, STEPS), get(block, STEPPED)
    e = get(record, FIRST_IN)
    while e != 0:
        put(noted, count, get(edge_at(block, e), SOURCE) << HALF | k)
        count += 1
        e = get(edge_at(block, e), NEXT_IN)
    e = get(record, FIRST_OUT)
    while e != 0:
        put(noted, count, get(edge_at(block, e), TARGET) << HALF | k)
        count += 1
        e = get(edge_at(block, e), NEXT_OUT)
    put(block, STEPPED, count)


@compiled
def follow(block: int) -> int:
    """Eliminate the vertices from AT to END of the order."""
    order, costs = get(block, ORDER), get(block, COSTS)
    at = get(block, AT)
    while at < get(block, END):
        k = get(order, at)
        problem = obstacle(block, k)
        if problem != DONE:
            return problem
        if costs != 0:
            put(costs, at, get(vertex_at(block, k), COST))
        if get(block, NOTED) != 0:
            note(block, k)
        eliminate(block, k)
        at += 1
        put(block, AT, at)
    return DONE


@compiled
def greedy(block: int) -> int:
    """Eliminate the cheapest vertex until none is left; the order is written from AT on."""
    order, others = get(block, ORDER), get(block, HEAP) + 8 * (get(block, END) + 1)
    while get(block, HEAPED) > 0:
        k = get(get(block, HEAP), 1)
        problem = obstacle(block, k)
        if problem != DONE:
            return problem
        take_cheapest(block)
        record = vertex_at(block, k)
        count = 0
        e = get(record, FIRST_IN)
        while e != 0:
            put(others, count, get(edge_at(block, e), SOURCE))
            count += 1
            e = get(edge_at(block, e), NEXT_IN)
        e = get(record, FIRST_OUT)
        while e != 0:
            put(others, count, get(edge_at(block, e), TARGET))
            count += 1
            e = get(edge_at(block, e), NEXT_OUT)
        eliminate(block, k)
        for t in range(count):
            price_again(block, get(others, t))
        at = get(block, AT)
        put(order, at, k)
        put(block, AT, at + 1)
    return DONE


@compiled
def load(block: int) -> None:
    """Take in END edges: source and target in one word, level and reference in the next."""
    loaded = get(block, LOADED)
    for t in range(get(block, END)):
        key, rest = get(loaded, 2 * t), get(loaded, 2 * t + 1)
        connect(block, key >> HALF, key & LOW, rest >> HALF, rest & LOW)


@compiled
def rehash(block: int) -> None:
    """Put all edges into an empty table."""
    table = get(block, TABLE)
    for e in range(1, get(block, USED) + 1):
        edge = edge_at(block, e)
        if get(edge, LEVEL) != 0:
            key = get(edge, SOURCE) << HALF | get(edge, TARGET)
            place = place_of(block, key)
            put(table, 2 * place, key)
            put(table, 2 * place + 1, e)


@compiled
def listed(block: int) -> int:
    """Write the edges at the vertices from AT to END of the order to SCRATCH, as `load` reads them; their number.

    An edge between two of them is written by its source.
    """
    order, found, count = get(block, ORDER), get(block, SCRATCH), 0
    room = get(block, ROOM)
    first, last = get(block, AT), get(block, END)
    for t in range(first, last):
        put(vertex_at(block, get(order, t)), TURN, 1)
    for t in range(first, last):
        record = vertex_at(block, get(order, t))
        e = get(record, FIRST_OUT)
        while e != 0 and count < room:
            edge = edge_at(block, e)
            put(found, 2 * count, get(edge, SOURCE) << HALF | get(edge, TARGET))
            put(found, 2 * count + 1, get(edge, LEVEL))
            count += 1
            e = get(edge, NEXT_OUT)
        e = get(record, FIRST_IN)
        while e != 0 and count < room:
            edge = edge_at(block, e)
            if get(vertex_at(block, get(edge, SOURCE)), TURN) != 1:
                put(found, 2 * count, get(edge, SOURCE) << HALF | get(edge, TARGET))
                put(found, 2 * count + 1, get(edge, LEVEL))
                count += 1
            e = get(edge, NEXT_IN)
    for t in range(first, last):
        put(vertex_at(block, get(order, t)), TURN, 0)
    return count


@compiled
def arrange(block: int) -> None:
    """Write another order that costs the same: each vertex after all that were its neighbours when they went.

    Depth first from the END vertices of SCRATCH, so that what belongs together comes together. In CURSORS is −1 for
    each vertex that was not reached yet.
    """
    starts, earlier = get(block, STARTS), get(block, EARLIER)
    cursors, stack, order = get(block, CURSORS), get(block, STACK), get(block, ORDER)
    at = 0
    for t in range(get(block, END)):
        v = get(get(block, SCRATCH), t)
        if get(cursors, v) >= 0:
            continue
        put(cursors, v, get(starts, v))
        put(stack, 0, v)
        depth = 1
        while depth > 0:
            v = get(stack, depth - 1)
            place = get(cursors, v)
            if place == get(starts, v + 1):
                put(order, at, v)
                at += 1
                depth -= 1
                continue
            put(cursors, v, place + 1)
            u = get(earlier, place)
            if get(cursors, u) < 0:
                put(cursors, u, get(starts, u))
                put(stack, depth, u)
                depth += 1


def perform(block: int) -> int:
    """Do what MODE says; returns how it ended, of LIST the number of edges."""
    mode = get(block, MODE)
    if mode == LOAD:
        load(block)
    elif mode == FOLLOW:
        return follow(block)
    elif mode == GREEDY:
        if get(block, HEAPED) < 0:
            fill_heap(block)
        return greedy(block)
    elif mode == REHASH:
        rehash(block)
    elif mode == LIST:
        return listed(block)
    elif mode == ARRANGE:
        arrange(block)
    return DONE
