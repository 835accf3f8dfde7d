"""Compiled branch and bound over face and edge eliminations, on a line graph of at most 64 vertices.

State. The line graph as in `accumulus.theory.compiled.line_state`, with rows of one word. Edge elimination moves in
the same states: front elimination takes all faces into a label, back elimination all faces out of it.

Bound. For every intermediate vertex v of the graph, pairs of disjoint paths have been chosen that need one product at v
each (`accumulus.theory.flows`). They are tracked: each label knows, as bits, which of these paths go through it. A
product at v pays for those tracked pairs of v that go through both of its factors; what is not paid for is still to
come. So the bound falls by at most what a move costs.

Memo. The rest of a search depends only on the line graph up to isomorphism. A state's code is its adjacency in the
order of its colours after colour refinement; among equal colours one vertex is singled out and refinement goes on.
States of equal code are isomorphic, however ties are broken. Codes are kept as 128 random bits. An entry has a lower
bound on the cost of the rest: where a search with limit L left a state of cost g with nothing found, L - g + 1. The
table has a fixed size; losing an entry costs time only.

Moves without alternatives (`_series`). If S_i = {j} and P_j = {i}, and all vertices are scalars, then taking ⟨i,j⟩
next is never a mistake, if all products count, or just one of the two labels is ±1, or both are constant or both
variable. Let A·i and j·B be the labels that any plan makes at this vertex. With k = i·j instead: A·i becomes A·k, which
costs the same; j·B is left out; (A·i)·(j·B) becomes (A·k)·B. If the plan makes a j·B, leaving that out pays for k; if
not, every A·i is multiplied by j, and leaving these out does. If only i is ±1, A·i becomes A and j·B becomes k·B, and
all costs stay; likewise for j. (A constant and a variable are different: A·i may be free for a constant A. So
are two labels ±1: their product would be one, and what is added to it later a constant.)

Search. Depth first, the most promising move first, under a limit that falls with every plan that is found. The caller
owns the memory and raises the limit from the lower bound upwards. A call tries `budget` moves and can be followed by
the next; where it is cut does not matter to the result.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Integers, Record, Records
from accumulus.native.words import bit, copy_many, lowest, scattered, without_lowest, wrapped
from accumulus.theory.compiled.line_state import ROOT, TERMINAL, LineState, eliminate_face, is_free, settle_labels

#: Largest number of labels of a line graph: they are bits of one word.
MOST: Final = 64
#: Largest numbers of levels of the search, moves in each, and steps of a plan. No line graph of MOST labels has more
#: faces.
MOST_DEPTH: Final = 256
MOST_MOVES: Final = 1024
MOST_STEPS: Final = 2048
#: Number of entries, from the one of its hash on, that may hold a state.
PROBES: Final = 4

#: Sides from which edges are eliminated.
FRONT, BACK = range(2)
#: Results of a call: the search is done, or may continue.
DONE, MORE = range(2)


class Frame(Record):
    """A depth of the search, and its progress."""

    left: int  # lower bound on the cost of the rest
    cost: int  # so far
    length: int  # steps so far
    moves: int  # number of listed moves
    next: int  # first move that has not been made
    # first, second: halves of the line graph's hash
    first: int
    second: int


class Move(Record):
    """A move from a line graph.

    Attributes:
        bound: on plans that make it.
        a, b: the labels of a face, or an edge's label and its side.
    """

    bound: int
    a: int
    b: int


class StoredBound(Record):
    """Bound on a line graph, and on those that are isomorphic to it.

    Attributes:
        first, second: halves of its hash.
        rest: lower bound on the cost of the rest; 0 for a free entry.
    """

    first: int
    second: int
    rest: int


class FacesState(LineState):
    """A search over face or edge eliminations; the line graph is the one at work."""

    frames: Records[Frame]  # of each depth, (MOST_DEPTH,)
    # the line graph at each depth, (MOST_DEPTH, size); at depth 0 the start of every search
    snapshots: Integers
    moves: Records[Move]  # of each depth, the most promising first, (MOST_DEPTH, MOST_MOVES)
    # log, best_log: steps of the present and of the best plan, (MOST_STEPS, 3): two labels and their product, -1 if it
    # is not kept; or the ends of an edge and its side
    log: Annotated[Integers, Axes(3)]
    best_log: Annotated[Integers, Axes(3)]
    table: Records[StoredBound]  # bounds of line graphs, (2**table_bits + PROBES,)
    weights: Integers  # of the tracked paths
    tracked: Integers  # tracked paths of each vertex of the graph, (vertices, path_words)
    # colours, recoloured, ranks: colours of labels before and after a round, and ranks of labels, (MOST,)
    colours: Integers
    recoloured: Integers
    ranks: Integers
    order: Integers  # labels by colour, (MOST,)
    sums: Integers  # sums of colours, for each vertex of the graph
    vertices: int  # of the graph
    table_bits: int  # see `table`
    edges: int  # 1 if edges are eliminated instead of faces
    series: int  # 1 to make moves without alternatives first
    limit: int = 0  # largest cost of a plan
    best: int = -1  # cost of the plan in `best_log`; -1 if none was found
    best_length: int = 0  # of `best_log`, in steps
    depth: int = -1  # of the search; -1 to begin
    left: int = 0  # lower bound on the rest of the current line graph
    length: int = 0  # of `log`, in steps
    budget: int = 0  # moves that a call may try
    tried: int = 0  # moves of all calls so far


# Line graphs ---------------------------------------------------------------------------------------------------------


@compiled
def _snapshot(state: FacesState, depth: int) -> Integers:
    """Return the memory of the line graph at a depth."""
    return state.snapshots[depth * state.size :]


@compiled
def _load(state: FacesState, depth: int) -> None:
    """Restore the line graph at a depth, and the number of its steps."""
    copy_many(state.graph, _snapshot(state, depth), state.size)
    state.left, state.length = state.frames[depth].left, state.frames[depth].length


@compiled
def _record(state: FacesState, a: int, b: int, c: int) -> None:
    """Append a step to the log."""
    log, length = state.log, state.length
    if length >= MOST_STEPS:
        state.overflow = 1
        return
    log[length, 0], log[length, 1], log[length, 2] = a, b, c
    state.length = length + 1


@compiled
def _product(state: FacesState, i: int, j: int) -> int:
    """Eliminate the face ⟨i,j⟩ and return its cost; the tracked paths that it pays for leave the bound."""
    weights, paths, words, cost = state.weights, state.paths, state.path_words, 0
    middle = state.ends[i]
    if state.fma or not is_free(state.levels[i], state.levels[j]):
        cost = state.sizes[state.starts[i]] * state.sizes[middle] * state.sizes[state.ends[j]]
    k = eliminate_face(state, i, j)
    for w in range(words):
        joined = paths[i * words + w] & paths[j * words + w]
        paths[i * words + w] &= ~joined
        paths[j * words + w] &= ~joined
        if k >= 0:
            paths[k * words + w] |= joined
        paid = joined & state.tracked[middle * words + w]
        while paid != 0:
            state.left -= weights[(w << 6) + lowest(paid)]
            paid = without_lowest(paid)
    settle_labels(state)
    if not state.edges:
        _record(state, i, j, k)
    return cost


@compiled
def _make(state: FacesState, a: int, b: int) -> int:
    """Make a move and return its cost: face ⟨a,b⟩, or edge a from side b."""
    if not state.edges:
        return _product(state, a, b)
    _record(state, state.starts[a], state.ends[a], b)
    cost = 0
    while not state.overflow:
        near = state.above[a] if b == FRONT else state.beneath[a]
        if near == 0:
            break
        i, j = (lowest(near), a) if b == FRONT else (a, lowest(near))
        cost += _product(state, i, j)
    return cost


# The table: hashes up to isomorphism, and bounds ---------------------------------------------------------------------


@compiled
def _refine(state: FacesState, rounds: int) -> None:
    """Recolour each label by its colour and its neighbours' colours, a number of rounds."""
    kinds, sums, colours, recoloured = state.kinds, state.sums, state.colours, state.recoloured
    starts, ends, present = state.starts, state.ends, state.present[0]
    for _ in range(rounds):
        for v in range(state.vertices):
            sums[v] = 0
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            colour, start, end = colours[x], starts[x], ends[x]
            if kinds[start] == ROOT:
                sums[start] = wrapped(sums[start] + scattered(colour ^ 0x1F3D5B79))
            if kinds[end] == TERMINAL:
                sums[end] = wrapped(sums[end] + scattered(colour ^ 0x2E4C6A88))
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            total, start, end = colours[x] * 0x1B873593, starts[x], ends[x]
            if kinds[start] == ROOT:
                total += scattered(sums[start] ^ 0x5851F42D)
            if kinds[end] == TERMINAL:
                total += scattered(sums[end] ^ 0x4C957F2D)
            near = state.above[x]
            while near != 0:
                total += scattered(colours[lowest(near)] ^ 0x27D4EB2F)
                near = without_lowest(near)
            near = state.beneath[x]
            while near != 0:
                total += scattered(colours[lowest(near)] ^ 0x165667B1)
                near = without_lowest(near)
            recoloured[x] = scattered(total)
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            colours[x] = recoloured[x]


@compiled
def _sort(state: FacesState) -> int:
    """Sort labels by colour; return their number."""
    colours, order, count = state.colours, state.order, 0
    bits = state.present[0]
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        at = count
        while at > 0 and colours[order[at - 1]] > colours[x]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = x
        count += 1
    return count


@compiled
def _canonical_order(state: FacesState) -> int:
    """Put labels in an order that depends on the graph up to isomorphism only; return their number."""
    sizes, kinds, colours, order = state.sizes, state.kinds, state.colours, state.order
    bits = state.present[0]
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        start, end = state.starts[x], state.ends[x]
        colour = scattered(sizes[start] * 3 + kinds[start])
        colour += 5 * scattered(sizes[end] * 3 + kinds[end] + 7)
        colours[x] = scattered(colour + state.levels[x])
    _refine(state, 3)
    while True:
        count = _sort(state)
        tie = -1
        for t in range(count - 1):
            if colours[order[t]] == colours[order[t + 1]]:
                tie = order[t]
                break
        if tie < 0:
            return count
        colours[tie] = scattered(colours[tie] + 1)
        _refine(state, 2)


@compiled
def _write_hash(state: FacesState, frame: Frame) -> None:
    """Write the hash of the line graph into the frame of its depth."""
    count = _canonical_order(state)
    sizes, kinds, sums, ranks, order = state.sizes, state.kinds, state.sums, state.ranks, state.order
    for t in range(count):
        ranks[order[t]] = t
    # roots and terminals are numbered as they first occur
    for v in range(state.vertices):
        sums[v] = 0
    seen = 0
    first, second = count, ~count
    for t in range(count):
        x = order[t]
        start, end = state.starts[x], state.ends[x]
        above = below = 0
        if kinds[start] == ROOT:
            if sums[start] == 0:
                seen += 1
                sums[start] = seen
            above = sums[start]
        if kinds[end] == TERMINAL:
            if sums[end] == 0:
                seen += 1
                sums[end] = seen
            below = sums[end]
        row, near = 0, state.beneath[x]
        while near != 0:
            row |= bit(ranks[lowest(near)])
            near = without_lowest(near)
        about = (above << 24) | (below << 8) | state.levels[x]
        extent = (sizes[start] << 31) ^ sizes[end]
        first = scattered(scattered(scattered(first ^ row) + about) ^ extent)
        second = scattered(scattered(scattered(second + row) ^ (about << 7)) + extent * 0x1B873593)
    frame.first, frame.second = first, second


@compiled
def _stored_bound(state: FacesState, frame: Frame) -> int:
    """Return the table's lower bound on the rest of a line graph."""
    mask = (1 << state.table_bits) - 1
    for probe in range(PROBES):
        entry = state.table[(frame.first + probe) & mask]
        if entry.first == frame.first and entry.second == frame.second:
            return entry.rest
    return 0


@compiled
def _store_bound(state: FacesState, frame: Frame, rest: int) -> None:
    """Store a lower bound on the rest of a line graph."""
    mask, first, second = (1 << state.table_bits) - 1, frame.first, frame.second
    chosen = state.table[(first + (second & (PROBES - 1))) & mask]
    for probe in range(PROBES):
        entry = state.table[(first + probe) & mask]
        if entry.rest == 0 or (entry.first == first and entry.second == second):
            chosen = entry
            break
    chosen.first, chosen.second, chosen.rest = first, second, rest


# Search --------------------------------------------------------------------------------------------------------------


@compiled
def _series(state: FacesState) -> int:
    """Make all moves without alternatives, and return their cost."""
    cost, again = 0, bool(state.series)
    while again and not state.overflow:
        again = False
        bits = state.present[0]
        while bits != 0:
            i = lowest(bits)
            bits = without_lowest(bits)
            below = state.beneath[i]
            if below == 0 or without_lowest(below) != 0:
                continue
            j = lowest(below)
            if state.above[j] != bit(i):
                continue
            a, b = state.levels[i], state.levels[j]
            if state.fma or (a == b and a != 1) or (a == 1) != (b == 1):
                cost += _make(state, j, FRONT) if state.edges else _make(state, i, j)
                again = True
                break
    return cost


@compiled
def _is_done(state: FacesState) -> bool:
    """Return True if no face is left."""
    bits, faces = state.present[0], 0
    while bits != 0:
        faces |= state.beneath[lowest(bits)]
        bits = without_lowest(bits)
    return faces == 0


@compiled
def _keep_plan(state: FacesState, cost: int) -> None:
    """Store a complete plan that is cheaper than all before."""
    state.best, state.limit, state.best_length = cost, cost - 1, state.length
    for k in range(state.length):
        for field in range(3):
            state.best_log[k, field] = state.log[k, field]


@compiled
def _enter(state: FacesState, depth: int, cost: int) -> int:
    """Begin a depth after moves of some cost; return the bound on plans through it."""
    frame = state.frames[depth]
    cost += _series(state)
    frame.cost, frame.left, frame.length = cost, state.left, state.length
    bound = cost + frame.left
    if bound > state.limit or state.overflow:
        return bound
    if _is_done(state):
        _keep_plan(state, cost)
        return cost
    _write_hash(state, frame)
    return max(bound, cost + _stored_bound(state, frame))


@compiled
def _descend(state: FacesState, depth: int, a: int, b: int) -> int:
    """Make a move from a depth to the next; return the bound on plans through it."""
    _load(state, depth)
    return _enter(state, depth + 1, state.frames[depth].cost + _make(state, a, b))


@compiled
def _set_move(move: Move, bound: int, a: int, b: int) -> None:
    """Write a move into a list."""
    move.bound, move.a, move.b = bound, a, b


@compiled
def _expand(state: FacesState, depth: int) -> None:
    """List the moves from a depth that has just been entered, the most promising first."""
    frame, moves, count = state.frames[depth], state.moves[depth * MOST_MOVES :], 0
    copy_many(_snapshot(state, depth), state.graph, state.size)
    bits = state.present[0]
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        if not state.edges:
            below = state.beneath[x]
            while below != 0:
                _set_move(moves[count], 0, x, lowest(below))
                below = without_lowest(below)
                count += 1
            continue
        if state.above[x] != 0:
            _set_move(moves[count], 0, x, FRONT)
            count += 1
        if state.beneath[x] != 0:
            _set_move(moves[count], 0, x, BACK)
            count += 1
    frame.moves = frame.next = 0
    # insertion sort by bound; moves beyond the limit are left out
    for k in range(count):
        a, b, at = moves[k].a, moves[k].b, frame.moves
        state.tried += 1
        bound = _descend(state, depth, a, b)
        if bound > state.limit:
            continue
        frame.moves += 1
        while at > 0 and moves[at - 1].bound > bound:
            at -= 1
            _set_move(moves[at + 1], moves[at].bound, moves[at].a, moves[at].b)
        _set_move(moves[at], bound, a, b)


def run_faces(state: FacesState) -> int:
    """Search until nothing cheaper than `limit` is left, or `budget` moves have been tried.

    `depth` = -1 begins with the line graph at depth 0, which is not changed. Returns DONE or MORE.
    """
    if state.depth < 0:
        state.depth = 1
        _load(state, 0)
        if _enter(state, 1, 0) > state.limit:
            return DONE
        _expand(state, 1)
    stop = state.tried + state.budget
    while state.tried < stop:
        if state.overflow:
            return DONE
        depth = state.depth
        frame = state.frames[depth]
        move = state.moves[depth * MOST_MOVES + frame.next]
        if frame.next >= frame.moves or move.bound > state.limit:
            _store_bound(state, frame, state.limit - frame.cost + 1)
            if depth == 1:
                return DONE
            state.depth = depth - 1
            continue
        frame.next += 1
        if depth + 2 >= MOST_DEPTH:
            state.overflow = 1
            return DONE
        if _descend(state, depth, move.a, move.b) <= state.limit:
            state.depth = depth + 1
            _expand(state, depth + 1)
    return MORE
