"""Compiled branch and bound over face and edge eliminations, on a line graph of at most 64 vertices.

State. The line graph (`accumulus.accumulate.face`) as bitset rows: predecessors P and successors S of every vertex,
where its label starts and ends in the graph, and its level (`accumulus.search.elimination`). Roots and terminals are
no vertices here; a label that starts at a root has no predecessor. Merging needs equal starts and ends, too. Edge
elimination moves in the same states: front elimination takes all faces into a vertex, back elimination all
faces out of it.

Bound. For every intermediate vertex v of the graph, pairs of disjoint paths have been chosen that need one product at v
each (`accumulus.search.exact.bounds`). They are tracked: each vertex of the line graph knows, as bits, which of these
paths go through it. A product at v pays for those tracked pairs of v that go through both of its factors; what is
not paid for is still to come. So the bound falls by at most what a move costs.

Memo. What is left to do depends only on the line graph up to isomorphism. A state's code is its adjacency in the order
of its colours after colour refinement; among equal colours one vertex is singled out and refinement goes on. States of
equal code are isomorphic, whatever the ties. Codes are kept as 128 random bits. An entry says what the rest of
a state costs at least: where a search with limit L left a state of cost g with nothing found, L - g + 1. The
table has a fixed size; an entry that is lost costs time only.

Moves that are taken at once (`series`). If S_i = {j} and P_j = {i}, and all vertices are scalars, then taking ⟨i,j⟩
next is never a mistake, if all products count, or just one of the two labels is ±1, or both are constant or both
variable. Let A·i and j·B be the labels that any plan makes at this vertex. With k = i·j instead: A·i becomes A·k, which
costs the same; j·B is left out; (A·i)·(j·B) becomes (A·k)·B. If the plan makes a j·B, leaving that out pays for k; if
not, every A·i is multiplied by j, and leaving these out does. If only i is ±1, A·i becomes A and j·B becomes k·B, and
all costs stay; likewise for j. (A constant and a variable are different: A·i may be free for a constant A. So
are two labels ±1: their product would be one, and what is added to it later a constant.)

Search. Depth first, the most promising move first, under a limit that falls with every plan that is found. The caller
owns the memory and raises the limit from the lower bound upwards. A call does BUDGET moves and can be followed by the
next; where it is cut does not matter to the result.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.memory import compiled, copy, get, lowest, put, shifted_right
from accumulus.search.compiled.faces_slots import (
    ABOVE,
    BELOW,
    BEST,
    BEST_LENGTH,
    BEST_LOG,
    BUDGET,
    DEPTH,
    DONE,
    EDGES,
    ENDS,
    ENTRY,
    FMA,
    FRAME,
    FRAME_COST,
    FRAME_HASH,
    FRAME_HASH_2,
    FRAME_LENGTH,
    FRAME_MOVES,
    FRAME_NEXT,
    FRAMES,
    ID_BITS,
    INFO,
    LEFT,
    LENGTH,
    LIMIT,
    LOG,
    MORE,
    MOST,
    MOST_DEPTH,
    MOST_MOVES,
    MOST_STEPS,
    MOVE,
    MOVES,
    OVERFLOW,
    PATHS,
    PRESENT,
    PROBES,
    SCRATCH,
    SERIES,
    SIZES,
    STATES,
    TABLE,
    TABLE_BITS,
    TRACKED,
    TRIED,
    VERTICES,
    WEIGHTS,
    WORDS,
)

__all__ = ["prove"]

IDS: Final = (1 << ID_BITS) - 1
ROOT: Final = 1
TERMINAL: Final = 2
FRONT: Final = 0
BACK: Final = 1
#: Parts of the scratch memory: colours, new colours, order, ranks, sums by vertex of the graph.
COLOUR, NEXT, SORTED, RANK, SUMS = 0, MOST, 2 * MOST, 3 * MOST, 4 * MOST


@compiled
def mixed(x: int) -> int:
    """A bijection that scatters bits (the finaliser of splitmix64, with other constants)."""
    x = (x ^ shifted_right(x, 30)) * 0x3F58476D1CE4E5B9
    x = (x ^ shifted_right(x, 27)) * 0x14D049BB133111EB
    return x ^ shifted_right(x, 31)


@compiled
def start_of(state: int, x: int) -> int:
    """Vertex of the graph where a label starts."""
    return get(state, INFO + x) & IDS


@compiled
def end_of(state: int, x: int) -> int:
    """Vertex of the graph where a label ends."""
    return shifted_right(get(state, INFO + x), ID_BITS) & IDS


@compiled
def level_of(state: int, x: int) -> int:
    """Level of a label."""
    return shifted_right(get(state, INFO + x), 2 * ID_BITS)


@compiled
def raise_level(state: int, x: int, level: int) -> None:
    """Level of a label after another one of that level has been added to it."""
    info = get(state, INFO + x)
    level = max(shifted_right(info, 2 * ID_BITS), level, 2)
    put(state, INFO + x, (info & ((1 << (2 * ID_BITS)) - 1)) | (level << (2 * ID_BITS)))


@compiled
def cost_of(block: int, state: int, i: int, j: int) -> int:
    """Cost of the product of two labels."""
    if get(block, FMA) == 0:
        a, b = level_of(state, i), level_of(state, j)
        if a == 1 or b == 1 or (a == 2 and b == 2):
            return 0
    sizes = get(block, SIZES)
    return get(sizes, start_of(state, i)) * get(sizes, end_of(state, i)) * get(sizes, end_of(state, j))


@compiled
def same(state: int, x: int, y: int) -> bool:
    """Whether two vertices have equal predecessors and successors, roots and terminals included."""
    both = (1 << (2 * ID_BITS)) - 1
    return (
        get(state, ABOVE + x) == get(state, ABOVE + y)
        and get(state, BELOW + x) == get(state, BELOW + y)
        and (get(state, INFO + x) ^ get(state, INFO + y)) & both == 0
    )


@compiled
def unlink(state: int, x: int) -> int:
    """Remove a vertex and return its neighbours."""
    above, below = get(state, ABOVE + x), get(state, BELOW + x)
    keep = ~(1 << x)
    bits = above
    while bits != 0:
        p = lowest(bits)
        bits &= bits - 1
        put(state, BELOW + p, get(state, BELOW + p) & keep)
    bits = below
    while bits != 0:
        s = lowest(bits)
        bits &= bits - 1
        put(state, ABOVE + s, get(state, ABOVE + s) & keep)
    put(state, PRESENT, get(state, PRESENT) & keep)
    return above | below


@compiled
def settle(block: int, state: int, touched: int) -> None:
    """Remove what is isolated and merge what has equal neighbours, until nothing changes."""
    ends, words = get(block, ENDS), get(block, WORDS)
    while touched != 0:
        x = lowest(touched)
        touched &= touched - 1
        if (get(state, PRESENT) >> x) & 1 == 0:
            continue
        if (get(state, ABOVE + x) == 0 and get(ends, start_of(state, x)) != ROOT) or (
            get(state, BELOW + x) == 0 and get(ends, end_of(state, x)) != TERMINAL
        ):
            touched |= unlink(state, x)
            continue
        others = get(state, PRESENT) & ~(1 << x)
        while others != 0:
            y = lowest(others)
            others &= others - 1
            if same(state, x, y):
                raise_level(state, x, level_of(state, y))
                for w in range(words):
                    at = PATHS + x * words + w
                    put(state, at, get(state, at) | get(state, PATHS + y * words + w))
                touched |= unlink(state, y)


@compiled
def product(block: int, state: int, i: int, j: int) -> int:
    """Eliminate the face ⟨i,j⟩; returns the vertex that holds the product, -1 if there is no room for it."""
    words, above, below = get(block, WORDS), get(state, ABOVE + i), get(state, BELOW + j)
    level = max(level_of(state, i), level_of(state, j))
    ends = start_of(state, i) | (end_of(state, j) << ID_BITS)
    middle = end_of(state, i)
    k = -1
    others = get(state, PRESENT)
    while others != 0:
        x = lowest(others)
        others &= others - 1
        if (
            get(state, INFO + x) & ((1 << (2 * ID_BITS)) - 1) == ends
            and get(state, ABOVE + x) == above
            and get(state, BELOW + x) == below
        ):
            k = x
            break
    if k >= 0:
        raise_level(state, k, level)
    else:
        room = ~get(state, PRESENT)
        if room == 0:
            put(block, OVERFLOW, 1)
            return -1
        k = lowest(room)
        bit = 1 << k
        put(state, PRESENT, get(state, PRESENT) | bit)
        put(state, INFO + k, ends | (level << (2 * ID_BITS)))
        put(state, ABOVE + k, above)
        put(state, BELOW + k, below)
        for w in range(words):
            put(state, PATHS + k * words + w, 0)
        bits = above
        while bits != 0:
            p = lowest(bits)
            bits &= bits - 1
            put(state, BELOW + p, get(state, BELOW + p) | bit)
        bits = below
        while bits != 0:
            s = lowest(bits)
            bits &= bits - 1
            put(state, ABOVE + s, get(state, ABOVE + s) | bit)
    tracked, weights = get(block, TRACKED), get(block, WEIGHTS)
    for w in range(words):
        of_i, of_j, of_k = PATHS + i * words + w, PATHS + j * words + w, PATHS + k * words + w
        joined = get(state, of_i) & get(state, of_j)
        put(state, of_i, get(state, of_i) & ~joined)
        put(state, of_j, get(state, of_j) & ~joined)
        put(state, of_k, get(state, of_k) | joined)
        paid = joined & get(tracked, middle * words + w)
        while paid != 0:
            put(state, LEFT, get(state, LEFT) - get(weights, (w << 6) + lowest(paid)))
            paid &= paid - 1
    put(state, BELOW + i, get(state, BELOW + i) & ~(1 << j))
    put(state, ABOVE + j, get(state, ABOVE + j) & ~(1 << i))
    settle(block, state, (1 << i) | (1 << j) | (1 << k) | above | below)
    return k


@compiled
def record(block: int, a: int, b: int, c: int) -> None:
    """Write a step down."""
    log, length = get(block, LOG), get(block, LENGTH)
    if length >= MOST_STEPS:
        put(block, OVERFLOW, 1)
        return
    put(log, 3 * length, a)
    put(log, 3 * length + 1, b)
    put(log, 3 * length + 2, c)
    put(block, LENGTH, length + 1)


@compiled
def make(block: int, state: int, a: int, b: int) -> int:
    """Make a move and return its cost: face ⟨a,b⟩, or edge a from side b."""
    if get(block, EDGES) == 0:
        cost = cost_of(block, state, a, b)
        record(block, a, b, product(block, state, a, b))
        return cost
    record(block, start_of(state, a), end_of(state, a), b)
    cost = 0
    bits = get(state, ABOVE + a) if b == FRONT else get(state, BELOW + a)
    while bits != 0 and get(block, OVERFLOW) == 0:
        other = lowest(bits)
        bits &= bits - 1
        i, j = (other, a) if b == FRONT else (a, other)
        cost += cost_of(block, state, i, j)
        product(block, state, i, j)
    return cost


@compiled
def series(block: int, state: int) -> int:
    """Make all moves that are never a mistake, and return what they cost."""
    cost = 0
    if get(block, SERIES) == 0:
        return cost
    again = True
    while again and get(block, OVERFLOW) == 0:
        again = False
        bits = get(state, PRESENT)
        while bits != 0:
            i = lowest(bits)
            bits &= bits - 1
            below = get(state, BELOW + i)
            if below == 0 or below & (below - 1) != 0:
                continue
            j = lowest(below)
            if get(state, ABOVE + j) != 1 << i:
                continue
            a, b = level_of(state, i), level_of(state, j)
            if get(block, FMA) != 0 or (a == b and a != 1) or (a == 1) != (b == 1):
                cost += make(block, state, i, j) if get(block, EDGES) == 0 else make(block, state, j, FRONT)
                again = True
                break
    return cost


@compiled
def refine(block: int, state: int, rounds: int) -> None:
    """Colour each vertex by its colour and those around it."""
    scratch, ends, vertices = get(block, SCRATCH), get(block, ENDS), get(block, VERTICES)
    present = get(state, PRESENT)
    sums = scratch + 8 * SUMS
    for _ in range(rounds):
        for v in range(vertices):
            put(sums, v, 0)
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits &= bits - 1
            colour = get(scratch, COLOUR + x)
            start, end = start_of(state, x), end_of(state, x)
            if get(ends, start) == ROOT:
                put(sums, start, get(sums, start) + mixed(colour ^ 0x1F3D5B79))
            if get(ends, end) == TERMINAL:
                put(sums, end, get(sums, end) + mixed(colour ^ 0x2E4C6A88))
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits &= bits - 1
            total = get(scratch, COLOUR + x) * 0x1B873593
            start, end = start_of(state, x), end_of(state, x)
            if get(ends, start) == ROOT:
                total += mixed(get(sums, start) ^ 0x5851F42D)
            if get(ends, end) == TERMINAL:
                total += mixed(get(sums, end) ^ 0x4C957F2D)
            near = get(state, ABOVE + x)
            while near != 0:
                total += mixed(get(scratch, COLOUR + lowest(near)) ^ 0x27D4EB2F)
                near &= near - 1
            near = get(state, BELOW + x)
            while near != 0:
                total += mixed(get(scratch, COLOUR + lowest(near)) ^ 0x165667B1)
                near &= near - 1
            put(scratch, NEXT + x, mixed(total))
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits &= bits - 1
            put(scratch, COLOUR + x, get(scratch, NEXT + x))


@compiled
def sort(block: int, state: int) -> int:
    """Vertices by colour; returns how many there are."""
    scratch, count = get(block, SCRATCH), 0
    bits = get(state, PRESENT)
    while bits != 0:
        x = lowest(bits)
        bits &= bits - 1
        colour, at = get(scratch, COLOUR + x), count
        while at > 0 and get(scratch, COLOUR + get(scratch, SORTED + at - 1)) > colour:
            put(scratch, SORTED + at, get(scratch, SORTED + at - 1))
            at -= 1
        put(scratch, SORTED + at, x)
        count += 1
    return count


@compiled
def code(block: int, state: int, frame: int) -> None:
    """Write the hash of a state up to isomorphism into a frame."""
    scratch, ends, sizes = get(block, SCRATCH), get(block, ENDS), get(block, SIZES)
    bits = get(state, PRESENT)
    while bits != 0:
        x = lowest(bits)
        bits &= bits - 1
        start, end = start_of(state, x), end_of(state, x)
        colour = mixed(get(sizes, start) * 3 + get(ends, start)) + 5 * mixed(get(sizes, end) * 3 + get(ends, end) + 7)
        put(scratch, COLOUR + x, mixed(colour + level_of(state, x)))
    refine(block, state, 3)
    while True:
        count = sort(block, state)
        tie = -1
        for t in range(count - 1):
            x, y = get(scratch, SORTED + t), get(scratch, SORTED + t + 1)
            if get(scratch, COLOUR + x) == get(scratch, COLOUR + y):
                tie = x
                break
        if tie < 0:
            break
        put(scratch, COLOUR + tie, mixed(get(scratch, COLOUR + tie) + 1))
        refine(block, state, 2)
    for t in range(count):
        put(scratch, RANK + get(scratch, SORTED + t), t)
    # roots and terminals are numbered as they first occur
    sums = scratch + 8 * SUMS
    for v in range(get(block, VERTICES)):
        put(sums, v, 0)
    seen = 0
    first, second = count, ~count
    for t in range(count):
        x = get(scratch, SORTED + t)
        start, end = start_of(state, x), end_of(state, x)
        above = below = 0
        if get(ends, start) == ROOT:
            if get(sums, start) == 0:
                seen += 1
                put(sums, start, seen)
            above = get(sums, start)
        if get(ends, end) == TERMINAL:
            if get(sums, end) == 0:
                seen += 1
                put(sums, end, seen)
            below = get(sums, end)
        row = 0
        near = get(state, BELOW + x)
        while near != 0:
            row |= 1 << get(scratch, RANK + lowest(near))
            near &= near - 1
        about = (above << 24) | (below << 8) | level_of(state, x)
        extent = (get(sizes, start) << 31) ^ get(sizes, end)
        first = mixed(mixed(mixed(first ^ row) + about) ^ extent)
        second = mixed(mixed(mixed(second + row) ^ (about << 7)) + extent * 0x1B873593)
    put(frame, FRAME_HASH, first)
    put(frame, FRAME_HASH_2, second)


@compiled
def known(block: int, frame: int) -> int:
    """What the rest of a state costs at least, as far as the table knows; 0 if it does not."""
    table, mask = get(block, TABLE), (1 << get(block, TABLE_BITS)) - 1
    first, second = get(frame, FRAME_HASH), get(frame, FRAME_HASH_2)
    for probe in range(PROBES):
        at = ((first + probe) & mask) * ENTRY
        if get(table, at) == first and get(table, at + 1) == second:
            return get(table, at + 2)
    return 0


@compiled
def remember(block: int, frame: int, rest: int) -> None:
    """Enter what the rest of a state costs at least."""
    table, mask = get(block, TABLE), (1 << get(block, TABLE_BITS)) - 1
    first, second = get(frame, FRAME_HASH), get(frame, FRAME_HASH_2)
    chosen = ((first + (second & (PROBES - 1))) & mask) * ENTRY
    for probe in range(PROBES):
        at = ((first + probe) & mask) * ENTRY
        if get(table, at + 2) == 0 or (get(table, at) == first and get(table, at + 1) == second):
            chosen = at
            break
    put(table, chosen, first)
    put(table, chosen + 1, second)
    put(table, chosen + 2, rest)


@compiled
def enter(block: int, state: int, frame: int, cost: int) -> int:
    """Settle a state that a move has led to; returns the bound on plans through it, written into its frame.

    A plan that is complete, and cheaper than those before, is kept.
    """
    cost += series(block, state)
    put(frame, FRAME_COST, cost)
    put(frame, FRAME_LENGTH, get(block, LENGTH))
    bound = cost + get(state, LEFT)
    if bound > get(block, LIMIT) or get(block, OVERFLOW) != 0:
        return bound
    faces = 0
    bits = get(state, PRESENT)
    while bits != 0:
        faces |= get(state, BELOW + lowest(bits))
        bits &= bits - 1
    if faces == 0:
        put(block, BEST, cost)
        put(block, LIMIT, cost - 1)
        put(block, BEST_LENGTH, get(block, LENGTH))
        copy(get(block, BEST_LOG), get(block, LOG), 3 * get(block, LENGTH))
        return cost
    code(block, state, frame)
    return max(bound, cost + known(block, frame))


@compiled
def offer(block: int, depth: int, a: int, b: int) -> None:
    """Try a move from the state of a depth, and list it there unless it leads to nothing."""
    size = PATHS + MOST * get(block, WORDS)
    state, frame = get(block, STATES) + depth * size * 8, get(block, FRAMES) + depth * FRAME * 8
    moves = get(block, MOVES) + depth * MOST_MOVES * MOVE * 8
    copy(state + size * 8, state, size)
    put(block, TRIED, get(block, TRIED) + 1)
    put(block, LENGTH, get(frame, FRAME_LENGTH))
    cost = get(frame, FRAME_COST) + make(block, state + size * 8, a, b)
    bound = enter(block, state + size * 8, frame + FRAME * 8, cost)
    if bound > get(block, LIMIT):
        return
    count = get(frame, FRAME_MOVES)
    if count >= MOST_MOVES:
        put(block, OVERFLOW, 1)
        return
    at = count
    while at > 0 and get(moves, (at - 1) * MOVE) > bound:
        copy(moves + at * MOVE * 8, moves + (at - 1) * MOVE * 8, MOVE)
        at -= 1
    put(moves, at * MOVE, bound)
    put(moves, at * MOVE + 1, a)
    put(moves, at * MOVE + 2, b)
    put(frame, FRAME_MOVES, count + 1)


@compiled
def expand(block: int, depth: int) -> None:
    """List the moves from the state of a depth, the most promising first."""
    size = PATHS + MOST * get(block, WORDS)
    state, frame = get(block, STATES) + depth * size * 8, get(block, FRAMES) + depth * FRAME * 8
    put(frame, FRAME_MOVES, 0)
    put(frame, FRAME_NEXT, 0)
    bits = get(state, PRESENT)
    while bits != 0:
        x = lowest(bits)
        bits &= bits - 1
        if get(block, EDGES) != 0:
            if get(state, ABOVE + x) != 0:
                offer(block, depth, x, FRONT)
            if get(state, BELOW + x) != 0:
                offer(block, depth, x, BACK)
            continue
        below = get(state, BELOW + x)
        while below != 0:
            offer(block, depth, x, lowest(below))
            below &= below - 1


def prove(block: int) -> int:
    """Search until nothing cheaper than LIMIT is left, or BUDGET moves have been tried.

    DEPTH = -1 begins with a copy of the state of depth 0, which stays as it is.
    """
    size = PATHS + MOST * get(block, WORDS)
    if get(block, DEPTH) < 0:
        put(block, LENGTH, 0)
        put(block, DEPTH, 1)
        first = get(block, STATES) + size * 8
        copy(first, get(block, STATES), size)
        if enter(block, first, get(block, FRAMES) + FRAME * 8, 0) > get(block, LIMIT):
            return DONE
        expand(block, 1)
    depth = get(block, DEPTH)
    stop = get(block, TRIED) + get(block, BUDGET)
    while get(block, TRIED) < stop:
        if get(block, OVERFLOW) != 0:
            return DONE
        frame = get(block, FRAMES) + depth * FRAME * 8
        moves = get(block, MOVES) + depth * MOST_MOVES * MOVE * 8
        following = get(frame, FRAME_NEXT)
        if following >= get(frame, FRAME_MOVES) or get(moves, following * MOVE) > get(block, LIMIT):
            remember(block, frame, get(block, LIMIT) - get(frame, FRAME_COST) + 1)
            depth -= 1
            if depth == 0:
                return DONE
            put(block, DEPTH, depth)
            continue
        put(frame, FRAME_NEXT, following + 1)
        if depth + 2 >= MOST_DEPTH:
            put(block, OVERFLOW, 1)
            return DONE
        state = get(block, STATES) + depth * size * 8
        copy(state + size * 8, state, size)
        put(block, LENGTH, get(frame, FRAME_LENGTH))
        a, b = get(moves, following * MOVE + 1), get(moves, following * MOVE + 2)
        cost = get(frame, FRAME_COST) + make(block, state + size * 8, a, b)
        if enter(block, state + size * 8, frame + FRAME * 8, cost) <= get(block, LIMIT):
            depth += 1
            put(block, DEPTH, depth)
            expand(block, depth)
    return MORE
