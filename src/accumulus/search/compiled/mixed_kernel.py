"""Compiled search over elimination sequences that mix vertices, edges and faces: simulated annealing.

Sequence. A list of items of fixed length. Each intermediate vertex is an item: it eliminates all faces that are left at
it. The others are edges, from the front or from the back, single faces, or nothing. An item that names what is not
there does nothing. So every list ends in the Jacobian; a vertex order is a list without other items, and any edge or
face sequence can come before the vertices.

State. The line graph (`accumulus.accumulate.face`) as bitset rows: predecessors and successors of each label, and for
each vertex of the graph the labels that start and end there. Roots and terminals are no labels, and what goes from a
root to a terminal is never kept: nothing depends on it any more. Levels and costs as in
`accumulus.search.elimination`.

Moves. An item goes to another place, often a near one; or an item that is no vertex is forgotten, or goes elsewhere
and becomes an edge or a face that is there at that time. The acceptance threshold is drawn first (Metropolis et al.
1953), so that a trial ends as soon as it costs more.

Increments. The state before every STEP-th item is kept: a trial begins at the last one before the first change. It also
ends early when it meets a kept state behind the last change: what follows costs the same. States are compared by their
fingerprints: each label has a value modulo 2⁶⁴, random for edges, otherwise the product or sum of what it was made of;
the fingerprint adds up a hash of every label and its successors. A best sequence is gone through again from its start.

Time: about a fifth of a microsecond for a product. The caller owns the memory. A call makes so many moves, or does so
much work, and can be followed by the next; where it is cut does not matter to the result.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.memory import (
    compiled,
    copy,
    get,
    get_float,
    lowest,
    put,
    put_float,
    random_bits,
    shifted_right,
)
from accumulus.search.compiled.mixed_slots import (
    BACK,
    BEST,
    BEST_ITEMS,
    COOLING,
    COST,
    ENDS,
    FACE,
    FACES,
    FMA,
    FRONT,
    ID_BITS,
    ITEMS,
    KEPT,
    KIND_BITS,
    LENGTH,
    LOG,
    LOGARITHMS,
    LOGGED,
    MOVES,
    NOTHING,
    OVERFLOW,
    PRESENT,
    PRINT,
    RANDOM,
    SHIFT,
    SIZES,
    STARTED,
    STATE,
    STATE_WORDS,
    STEP,
    TABLE,
    TEMPERATURE,
    TIE,
    TOTAL,
    TOUCHED,
    TRIAL,
    TRIED,
    VERTEX,
    VERTICES,
    WORDS,
    WORK,
)

__all__ = ["anneal"]

IDS: Final = (1 << ID_BITS) - 1
ENDS_MASK: Final = (1 << (2 * ID_BITS)) - 1
ROOT: Final = 1
TERMINAL: Final = 2
HALF: Final = 1 << (SHIFT - 1)


@compiled
def mixed(x: int) -> int:
    """A bijection that scatters bits (after the finaliser of splitmix64)."""
    x = (x ^ shifted_right(x, 30)) * 0x3F58476D1CE4E5B9
    x = (x ^ shifted_right(x, 27)) * 0x14D049BB133111EB
    return x ^ shifted_right(x, 31)


@compiled
def below(block: int, number: int) -> int:
    """A random number from 0 to number - 1."""
    return shifted_right(random_bits(block + RANDOM * 8), 2) % number


@compiled
def row(block: int, part: int, x: int) -> int:
    """Address of a bitset row of the state. Parts: predecessors, successors of a label; starts, ends at a vertex."""
    words = get(block, WORDS)
    labels = words << 6
    at = PRESENT + words + x * words
    if part == 1:
        at += labels * words
    elif part >= 2:
        at += 2 * labels * (words + 1)
        if part == 3:
            at += get(block, VERTICES) * words
    return get(block, STATE) + at * 8


@compiled
def about(block: int) -> int:
    """Address of ends and level of all labels; their values follow."""
    words = get(block, WORDS)
    return get(block, STATE) + (PRESENT + words + 2 * (words << 6) * words) * 8


@compiled
def flip(rows: int, x: int) -> None:
    """Take an element into a row, or out of it."""
    put(rows, x >> 6, get(rows, x >> 6) ^ (1 << (x & 63)))


@compiled
def first(a: int, b: int, words: int, x: int) -> int:
    """The first element that two rows have in common, from x on; -1 if there is none."""
    w = x >> 6
    if w >= words:
        return -1
    bits = get(a, w) & get(b, w) & ((-1) << (x & 63))
    while bits == 0:
        w += 1
        if w >= words:
            return -1
        bits = get(a, w) & get(b, w)
    return (w << 6) + lowest(bits)


@compiled
def equal(a: int, b: int, words: int) -> bool:
    """Whether two rows are equal."""
    w = 0
    while w < words and get(a, w) == get(b, w):
        w += 1
    return w == words


@compiled
def link(block: int, x: int) -> None:
    """Put a label into the rows of its neighbours and ends, or take it out of them."""
    words, info = get(block, WORDS), get(about(block), x)
    for part in range(2):
        near = row(block, part, x)
        other = first(near, near, words, 0)
        while other >= 0:
            flip(row(block, 1 - part, other), x)
            other = first(near, near, words, other + 1)
    flip(row(block, 2, info & IDS), x)
    flip(row(block, 3, shifted_right(info, ID_BITS) & IDS), x)
    flip(get(block, STATE) + PRESENT * 8, x)


@compiled
def twin(block: int, x: int, above: int, beneath: int, ends: int) -> int:
    """A label but x with these ends, predecessors and successors; -1 if there is none."""
    words = get(block, WORDS)
    starts, stops = row(block, 2, ends & IDS), row(block, 3, shifted_right(ends, ID_BITS) & IDS)
    y = first(starts, stops, words, 0)
    while y >= 0:
        if y != x and equal(row(block, 0, y), above, words) and equal(row(block, 1, y), beneath, words):
            return y
        y = first(starts, stops, words, y + 1)
    return -1


@compiled
def add(block: int, x: int, level: int, value: int) -> None:
    """Add something of that level and value to a label."""
    infos = about(block)
    values = infos + (get(block, WORDS) << 9)
    info = get(infos, x)
    level = max(shifted_right(info, 2 * ID_BITS), level, 2)
    put(infos, x, (info & ENDS_MASK) | (level << (2 * ID_BITS)))
    put(values, x, get(values, x) + value)


@compiled
def touch(block: int, near: int) -> None:
    """Have all labels of a row looked at by `settle`."""
    touched = get(block, TOUCHED)
    for w in range(get(block, WORDS)):
        put(touched, w, get(touched, w) | get(near, w))


@compiled
def settle(block: int) -> None:
    """Remove what is isolated, and merge what has equal neighbours, among the labels that were touched and around."""
    words, infos, ends, touched = get(block, WORDS), about(block), get(block, ENDS), get(block, TOUCHED)
    present = get(block, STATE) + PRESENT * 8
    x = first(touched, touched, words, 0)
    while x >= 0:
        flip(touched, x)
        if (get(present, x >> 6) >> (x & 63)) & 1 != 0:
            info, above, beneath = get(infos, x), row(block, 0, x), row(block, 1, x)
            y = -1
            gone = (get(ends, info & IDS) != ROOT and first(above, above, words, 0) < 0) or (
                get(ends, shifted_right(info, ID_BITS) & IDS) != TERMINAL and first(beneath, beneath, words, 0) < 0
            )
            if not gone:
                y = twin(block, x, above, beneath, info)
                if y >= 0:
                    add(block, y, shifted_right(info, 2 * ID_BITS), get(infos + (words << 9), x))
            if gone or y >= 0:
                link(block, x)
                touch(block, above)
                touch(block, beneath)
        x = first(touched, touched, words, 0)


@compiled
def product(block: int, i: int, j: int) -> None:
    """Eliminate the face ⟨i,j⟩."""
    words, infos, state, sizes = get(block, WORDS), about(block), get(block, STATE), get(block, SIZES)
    ends, present, touched = get(block, ENDS), state + PRESENT * 8, get(block, TOUCHED)
    values = infos + (words << 9)
    a, b = get(infos, i), get(infos, j)
    start, end = a & IDS, shifted_right(b, ID_BITS) & IDS
    level, other = shifted_right(a, 2 * ID_BITS), shifted_right(b, 2 * ID_BITS)
    price = get(sizes, start) * get(sizes, b & IDS) * get(sizes, end)
    counted = price
    if level == 1 or other == 1 or (level == 2 and other == 2):
        counted = 0
    high, low = counted, price
    if get(block, FMA) != 0:
        high, low = price, counted
    put(state, COST, get(state, COST) + (high << SHIFT) + low)
    level, value = max(level, other), get(values, i) * get(values, j)
    above, beneath = row(block, 0, i), row(block, 1, j)
    flip(row(block, 1, i), j)
    flip(row(block, 0, j), i)
    flip(touched, i)
    flip(touched, j)
    k = -1
    if get(ends, start) != ROOT or get(ends, end) != TERMINAL:
        ends_of_both = start | (end << ID_BITS)
        k = twin(block, -1, above, beneath, ends_of_both)
        if k >= 0:
            add(block, k, level, value)
        else:
            for w in range(words):
                room = ~get(present, w)
                if room != 0:
                    k = (w << 6) + lowest(room)
                    break
            if k < 0:
                put(block, OVERFLOW, 1)
                return
            put(infos, k, ends_of_both | (level << (2 * ID_BITS)))
            put(values, k, value)
            copy(row(block, 0, k), above, words)
            copy(row(block, 1, k), beneath, words)
            link(block, k)
            touch(block, above)
            touch(block, beneath)
    logged = get(block, LOGGED)
    if logged >= 0:
        log = get(block, LOG) + 24 * logged
        put(log, 0, i)
        put(log, 1, j)
        put(log, 2, k)
        put(block, LOGGED, logged + 1)
    put(block, WORK, get(block, WORK) - 1)
    settle(block)


@compiled
def take(block: int, item: int) -> None:
    """Eliminate what an item names, as far as it is there."""
    words, kind = get(block, WORDS), item & 7
    v, p, s = (item >> KIND_BITS) & IDS, (item >> (KIND_BITS + ID_BITS)) & IDS, item >> (KIND_BITS + 2 * ID_BITS)
    into, out, far = row(block, 3, v), row(block, 2, v), row(block, 3, s)
    near = into
    if kind >= BACK:
        near = row(block, 2, p)
    more = kind != NOTHING
    while more and get(block, OVERFLOW) == 0:
        if kind == FRONT:
            j = first(out, far, words, 0)
            i = j
            if j >= 0:
                above = row(block, 0, j)
                i = first(above, above, words, 0)
        else:
            i = first(into, near, words, 0)
            j = i
            if i >= 0:
                beneath = row(block, 1, i)
                if kind == FACE:
                    j = first(beneath, far, words, 0)
                    while j < 0 and i >= 0:
                        i = first(into, near, words, i + 1)
                        if i >= 0:
                            j = first(row(block, 1, i), far, words, 0)
                else:
                    j = first(beneath, beneath, words, 0)
        if i >= 0 and j >= 0:
            product(block, i, j)
        else:
            more = False
        if kind == FACE:
            more = False


@compiled
def found(block: int) -> int:
    """A random edge or face that is there now, as an item; nothing if no face is left."""
    words = get(block, WORDS)
    present = get(block, STATE) + PRESENT * 8
    start = below(block, words << 6)
    x, round_ = start, 0
    while round_ < 2:
        x = first(present, present, words, x)
        if x < 0:
            x, round_ = 0, round_ + 1
            continue
        beneath = row(block, 1, x)
        y = first(beneath, beneath, words, below(block, words << 6))
        if y < 0:
            y = first(beneath, beneath, words, 0)
        if y >= 0:
            a, b = get(about(block), x), get(about(block), y)
            kind = FRONT + below(block, 2 + 2 * get(block, FACES))
            kind = min(kind, FACE)
            item = kind | ((b & IDS) << KIND_BITS) | ((a & IDS) << (KIND_BITS + ID_BITS))
            return item | ((shifted_right(b, ID_BITS) & IDS) << (KIND_BITS + 2 * ID_BITS))
        x += 1
    return NOTHING


@compiled
def fingerprint(block: int) -> int:
    """A number that is equal for equal states, whatever the numbers of their labels."""
    words, infos = get(block, WORDS), about(block)
    values, present = infos + (words << 9), get(block, STATE) + PRESENT * 8
    total = 0
    x = first(present, present, words, 0)
    while x >= 0:
        inner, beneath = 0, row(block, 1, x)
        y = first(beneath, beneath, words, 0)
        while y >= 0:
            inner += mixed(get(values, y))
            y = first(beneath, beneath, words, y + 1)
        total += mixed(get(values, x) + mixed(inner + 3 * get(infos, x)))
        x = first(present, present, words, x + 1)
    return total


@compiled
def energy(block: int, total: int) -> float:
    """Of a total."""
    high = shifted_right(total, SHIFT)
    return high + get_float(block, TIE) * (total - (high << SHIFT))


@compiled
def keep(block: int, start: int, stop: int) -> None:
    """Keep the states that were tried."""
    kept, tried = get(block, KEPT), get(block, TRIED)
    for c in range(start, stop):
        state = get(kept, c)
        put(kept, c, get(tried, c))
        put(tried, c, state)


@compiled
def attempt(block: int, begin: int, last: int, new: int, limit: float) -> bool:
    """Go through the list on trial from state number `begin`; returns whether it became the current list.

    Args:
        last: changed item; behind it, a kept state may be met again.
        new: item that becomes something that is there when it is its turn, or -1.
        limit: of the energy.
    """
    size, length, state = get(block, STATE_WORDS), get(block, LENGTH), get(block, STATE)
    trial, kept, tried = get(block, TRIAL), get(block, KEPT), get(block, TRIED)
    copy(state, get(kept, begin), size)
    change, met = 0, (length + STEP - 1) // STEP
    for t in range(begin * STEP, length):
        c = t // STEP
        if t == c * STEP and c > begin:
            put(state, PRINT, fingerprint(block))
            if t > last and get(state, PRINT) == get(get(kept, c), PRINT):
                change, met = get(state, COST) - get(get(kept, c), COST), c
                put(state, COST, get(block, TOTAL) + change)
                break
            copy(get(tried, c), state, size)
        if t == new:
            put(trial, t, found(block))
        take(block, get(trial, t))
        if get(block, OVERFLOW) != 0 or energy(block, get(state, COST)) > limit:
            put(block, OVERFLOW, 0)
            touched = get(block, TOUCHED)
            for w in range(get(block, WORDS)):
                put(touched, w, 0)
            return False
    total = get(state, COST)
    if energy(block, total) > limit:
        return False
    keep(block, begin + 1, met)
    for c in range(met, (length + STEP - 1) // STEP):
        other = get(kept, c)
        put(other, COST, get(other, COST) + change)
    put(block, TOTAL, total)
    copy(get(block, ITEMS), trial, length)
    return True


def anneal(block: int) -> int:
    """Make MOVES moves, or fewer if that is WORK products; begins with the list in ITEMS if not STARTED yet.

    Returns the best total so far.
    """
    length, items, trial = get(block, LENGTH), get(block, ITEMS), get(block, TRIAL)
    if get(block, STARTED) == 0:
        put(block, STARTED, 1)
        copy(trial, items, length)
        attempt(block, 0, length, -1, 1e300)
        if get(block, TOTAL) < get(block, BEST):
            put(block, BEST, get(block, TOTAL))
            copy(get(block, BEST_ITEMS), items, length)
    temperature, cooling = get_float(block, TEMPERATURE), get_float(block, COOLING)
    while get(block, MOVES) > 0 and get(block, WORK) > 0:
        put(block, MOVES, get(block, MOVES) - 1)
        put(block, WORK, get(block, WORK) - 1)
        temperature *= cooling
        at, kind, new = below(block, length), below(block, 8), -1
        to = below(block, length)
        item = get(items, at)
        if kind < 2:
            to = min(max(at + below(block, 9) - 4, 0), length - 1)
        elif kind >= 3 and item & 7 != VERTEX:
            new = to
            if kind == 5 and item != NOTHING:
                to, new, item = at, -1, NOTHING
        if to == at and new < 0 and item == get(items, at):
            continue
        copy(trial, items, length)
        for t in range(at, to):
            put(trial, t, get(items, t + 1))
        for t in range(at, to, -1):
            put(trial, t, get(items, t - 1))
        put(trial, to, item)
        slack = temperature * get_float(get(block, LOGARITHMS), below(block, TABLE))
        low = min(at, to)
        if attempt(block, low // STEP, max(at, to), new, energy(block, get(block, TOTAL)) + slack + 1e-9) and (
            get(block, TOTAL) < get(block, BEST)
        ):
            # what was met again may have gone on with other numbers, and in another order
            copy(trial, items, length)
            attempt(block, 0, length, -1, 1e300)
            if get(block, TOTAL) < get(block, BEST):
                put(block, BEST, get(block, TOTAL))
                copy(get(block, BEST_ITEMS), items, length)
    put_float(block, TEMPERATURE, temperature)
    return get(block, BEST)
