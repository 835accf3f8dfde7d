"""Compiled branch and bound over face and edge eliminations, on a line graph of at most 64 vertices.

State. The line graph (`accumulus.elimination.face`) as bitset rows: predecessors P and successors S of every vertex,
where its label starts and ends in the graph, and its level (`accumulus.search.elimination`). Roots and terminals are
no vertices here; a label that starts at a root has no predecessor. Merging needs equal starts and ends, too. Edge
elimination moves in the same states: front elimination takes all faces into a vertex, back elimination all
faces out of it.

Bound. For every intermediate vertex v of the graph, pairs of disjoint paths have been chosen that need one product at v
each (`accumulus.theory.bounds`). They are tracked: each vertex of the line graph knows, as bits, which of these
paths go through it. A product at v pays for those tracked pairs of v that go through both of its factors; what is
not paid for is still to come. So the bound falls by at most what a move costs.

Memo. What is left to do depends only on the line graph up to isomorphism. A state's code is its adjacency in the order
of its colours after colour refinement; among equal colours one vertex is singled out and refinement goes on. States of
equal code are isomorphic, whatever the ties. Codes are kept as 128 random bits. An entry says what the rest of
a state costs at least: where a search with limit L left a state of cost g with nothing found, L - g + 1. The
table has a fixed size; an entry that is lost costs time only.

Moves that are taken at once (`_series`). If S_i = {j} and P_j = {i}, and all vertices are scalars, then taking ⟨i,j⟩
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
from accumulus.native.state import Axes, Integers, Record, Records, State
from accumulus.native.words import bit, lowest, scattered, without_lowest, wrapped

__all__ = [
    "INNER",
    "MORE",
    "MOST",
    "MOST_DEPTH",
    "MOST_MOVES",
    "MOST_STEPS",
    "PROBES",
    "ROOT",
    "TERMINAL",
    "FacesState",
    "Frame",
    "LineLabel",
    "Move",
    "StoredBound",
    "prove",
]

#: Labels of a line graph, at most: they are bits of one word.
MOST: Final = 64
#: Levels of the search, moves in each, steps of a plan, at most.
MOST_DEPTH: Final = 256
MOST_MOVES: Final = 512
MOST_STEPS: Final = 2048
#: Entries of the table that a state may have its own in, from the one that its hash says on.
PROBES: Final = 4

#: Kinds of the vertices of the graph.
INNER, ROOT, TERMINAL = range(3)
#: Sides from which edges are eliminated.
FRONT, BACK = range(2)
#: What a call says: it is over, it may go on.
DONE, MORE = range(2)


class LineLabel(Record):
    """A vertex of a line graph.

    Attributes:
        above, below: its predecessors and successors, as bits.
        start, end: where it starts and ends in the graph.
        level: see `accumulus.search.elimination`.
    """

    above: int
    below: int
    start: int
    end: int
    level: int


class Frame(Record):
    """A depth of the search: its line graph, and how far it is done with.

    Attributes:
        present: the labels that there are, as bits.
        left: what is left to do costs at least so much.
        cost: so far.
        length: steps that led here.
        moves: that are listed.
        next: the first move that has not been made.
        first, second: halves of the line graph's hash.
    """

    present: int
    left: int
    cost: int
    length: int
    moves: int
    next: int
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
        rest: what is left to do costs at least so much; 0 for an entry that is free.
    """

    first: int
    second: int
    rest: int


class FacesState(State):
    """A search over face or edge eliminations.

    Attributes:
        frames: of each depth, (MOST_DEPTH,); depth 0 holds the line graph that every search begins with.
        labels: of the line graph at each depth, (MOST_DEPTH, MOST).
        paths: the tracked paths that go through each label, (MOST_DEPTH, MOST, words).
        moves: of each depth, the most promising first, (MOST_DEPTH, MOST_MOVES).
        log, best_log: steps of the present and of the best plan, (MOST_STEPS, 3): two labels and their product, or
            the ends of an edge and its side.
        table: what is known of line graphs, (2**table_bits + PROBES,).
        weights: of the tracked paths.
        tracked: the tracked paths that belong to each vertex of the graph, (vertices, words).
        sizes, kinds: of each vertex of the graph.
        colours, recoloured, ranks: of labels, before and after a round, and in their order, (MOST,).
        order: labels by colour, (MOST,).
        sums: of colours, for each vertex of the graph.
        words: of a set of tracked paths.
        vertices: of the graph.
        table_bits: see `table`.
        fma: 1 if all products count.
        edges: 1 if edges are eliminated instead of faces.
        series: 1 if there are moves that are never a mistake; see the kernel.
        limit: the most that a plan may cost.
        best: cost of the plan in `best_log`; -1 if none was found.
        best_length: of `best_log`, in steps.
        depth: of the search; -1 to begin.
        length: of `log`, in steps.
        budget: moves that a call tries.
        tried: moves of all calls.
        overflow: 1 if there was no room for a label, a move, a step or a depth.
    """

    frames: Records[Frame]
    labels: Records[LineLabel]
    paths: Integers
    moves: Records[Move]
    log: Annotated[Integers, Axes(3)]
    best_log: Annotated[Integers, Axes(3)]
    table: Records[StoredBound]
    weights: Integers
    tracked: Integers
    sizes: Integers
    kinds: Integers
    colours: Integers
    recoloured: Integers
    ranks: Integers
    order: Integers
    sums: Integers
    words: int
    vertices: int
    table_bits: int
    fma: int
    edges: int
    series: int
    limit: int = 0
    best: int = -1
    best_length: int = 0
    depth: int = -1
    length: int = 0
    budget: int = 0
    tried: int = 0
    overflow: int = 0


# Line graphs: what products cost, and what they change ---------------------------------------------------------------


@compiled
def _labels_at(state: FacesState, depth: int) -> Records[LineLabel]:
    """Labels of the line graph at a depth."""
    return state.labels[depth * MOST :]


@compiled
def _paths_at(state: FacesState, depth: int) -> Integers:
    """Tracked paths through the labels at a depth."""
    return state.paths[depth * MOST * state.words :]


@compiled
def _copy_graph(state: FacesState, depth: int) -> None:
    """Copy the line graph at a depth to the next."""
    frame, following, words = state.frames[depth], state.frames[depth + 1], state.words
    labels, paths = _labels_at(state, depth), _paths_at(state, depth)
    next_labels, next_paths = _labels_at(state, depth + 1), _paths_at(state, depth + 1)
    following.present, following.left = frame.present, frame.left
    bits = frame.present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        label, copied = labels[x], next_labels[x]
        copied.above, copied.below = label.above, label.below
        copied.start, copied.end, copied.level = label.start, label.end, label.level
        for w in range(x * words, (x + 1) * words):
            next_paths[w] = paths[w]


@compiled
def _cost_of(state: FacesState, first: LineLabel, second: LineLabel) -> int:
    """Cost of the product of two labels."""
    if not state.fma:
        a, b = first.level, second.level
        if a == 1 or b == 1 or (a == 2 and b == 2):
            return 0
    sizes = state.sizes
    cost: int = sizes[first.start] * sizes[first.end] * sizes[second.end]
    return cost


@compiled
def _add_level(label: LineLabel, level: int) -> None:
    """Level of a label after another one of that level has been added to it."""
    label.level = max(label.level, level, 2)


@compiled
def _unlink(frame: Frame, labels: Records[LineLabel], x: int) -> int:
    """Remove a label and return its neighbours."""
    above, below = labels[x].above, labels[x].below
    keep = ~bit(x)
    bits = above
    while bits != 0:
        labels[lowest(bits)].below &= keep
        bits = without_lowest(bits)
    bits = below
    while bits != 0:
        labels[lowest(bits)].above &= keep
        bits = without_lowest(bits)
    frame.present &= keep
    return above | below


@compiled
def _twin(labels: Records[LineLabel], others: int, start: int, end: int, above: int, below: int) -> int:
    """The first of those labels with these ends, predecessors and successors; -1 if there is none."""
    while others != 0:
        y = lowest(others)
        others = without_lowest(others)
        other = labels[y]
        if other.start == start and other.end == end and other.above == above and other.below == below:
            return y
    return -1


@compiled
def _settle(state: FacesState, depth: int, touched: int) -> None:
    """Remove what is isolated and merge what has equal neighbours, until nothing changes."""
    kinds, words, frame = state.kinds, state.words, state.frames[depth]
    labels, paths = _labels_at(state, depth), _paths_at(state, depth)
    while touched != 0:
        x = lowest(touched)
        touched = without_lowest(touched)
        if frame.present & bit(x) == 0:
            continue
        label = labels[x]
        if (label.above == 0 and kinds[label.start] != ROOT) or (label.below == 0 and kinds[label.end] != TERMINAL):
            touched |= _unlink(frame, labels, x)
            continue
        others = frame.present & ~bit(x)
        y = _twin(labels, others, label.start, label.end, label.above, label.below)
        while y >= 0:
            _add_level(label, labels[y].level)
            for w in range(words):
                paths[x * words + w] |= paths[y * words + w]
            touched |= _unlink(frame, labels, y)
            others &= ~bit(y)
            y = _twin(labels, others, label.start, label.end, label.above, label.below)


@compiled
def _product(state: FacesState, depth: int, i: int, j: int) -> int:
    """Eliminate the face ⟨i,j⟩; returns the label that is the product, -1 if there is no room for it."""
    words, weights, tracked, frame = state.words, state.weights, state.tracked, state.frames[depth]
    labels, paths = _labels_at(state, depth), _paths_at(state, depth)
    above, below, start, end = labels[i].above, labels[j].below, labels[i].start, labels[j].end
    middle, level = labels[i].end, max(labels[i].level, labels[j].level)
    k = _twin(labels, frame.present, start, end, above, below)
    if k >= 0:
        _add_level(labels[k], level)
    else:
        room = ~frame.present
        if room == 0:
            state.overflow = 1
            return -1
        k = lowest(room)
        made = labels[k]
        frame.present |= bit(k)
        made.above, made.below, made.start, made.end, made.level = above, below, start, end, level
        for w in range(words):
            paths[k * words + w] = 0
        bits = above
        while bits != 0:
            labels[lowest(bits)].below |= bit(k)
            bits = without_lowest(bits)
        bits = below
        while bits != 0:
            labels[lowest(bits)].above |= bit(k)
            bits = without_lowest(bits)
    for w in range(words):
        joined = paths[i * words + w] & paths[j * words + w]
        paths[i * words + w] &= ~joined
        paths[j * words + w] &= ~joined
        paths[k * words + w] |= joined
        paid = joined & tracked[middle * words + w]
        while paid != 0:
            frame.left -= weights[(w << 6) + lowest(paid)]
            paid = without_lowest(paid)
    labels[i].below &= ~bit(j)
    labels[j].above &= ~bit(i)
    _settle(state, depth, bit(i) | bit(j) | bit(k) | above | below)
    return k


# The table: hashes up to isomorphism, and bounds ---------------------------------------------------------------------


@compiled
def _refine(state: FacesState, depth: int, rounds: int) -> None:
    """Colour each label by its colour and those around it."""
    kinds, sums, colours, recoloured = state.kinds, state.sums, state.colours, state.recoloured
    labels, present = _labels_at(state, depth), state.frames[depth].present
    for _ in range(rounds):
        for v in range(state.vertices):
            sums[v] = 0
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            colour, start, end = colours[x], labels[x].start, labels[x].end
            if kinds[start] == ROOT:
                sums[start] = wrapped(sums[start] + scattered(colour ^ 0x1F3D5B79))
            if kinds[end] == TERMINAL:
                sums[end] = wrapped(sums[end] + scattered(colour ^ 0x2E4C6A88))
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            total, start, end = colours[x] * 0x1B873593, labels[x].start, labels[x].end
            if kinds[start] == ROOT:
                total += scattered(sums[start] ^ 0x5851F42D)
            if kinds[end] == TERMINAL:
                total += scattered(sums[end] ^ 0x4C957F2D)
            near = labels[x].above
            while near != 0:
                total += scattered(colours[lowest(near)] ^ 0x27D4EB2F)
                near = without_lowest(near)
            near = labels[x].below
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
def _sort(state: FacesState, depth: int) -> int:
    """Labels by colour; returns how many there are."""
    colours, order, count = state.colours, state.order, 0
    bits = state.frames[depth].present
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
def _canonical_order(state: FacesState, depth: int) -> int:
    """Labels in an order that depends on the graph up to isomorphism only; returns how many there are."""
    sizes, kinds, colours, order = state.sizes, state.kinds, state.colours, state.order
    labels, bits = _labels_at(state, depth), state.frames[depth].present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        label = labels[x]
        colour = scattered(sizes[label.start] * 3 + kinds[label.start])
        colour += 5 * scattered(sizes[label.end] * 3 + kinds[label.end] + 7)
        colours[x] = scattered(colour + label.level)
    _refine(state, depth, 3)
    while True:
        count = _sort(state, depth)
        tie = -1
        for t in range(count - 1):
            if colours[order[t]] == colours[order[t + 1]]:
                tie = order[t]
                break
        if tie < 0:
            return count
        colours[tie] = scattered(colours[tie] + 1)
        _refine(state, depth, 2)


@compiled
def _write_hash(state: FacesState, depth: int) -> None:
    """Write the hash of the line graph at a depth into its frame."""
    count = _canonical_order(state, depth)
    sizes, kinds, sums, ranks, order = state.sizes, state.kinds, state.sums, state.ranks, state.order
    labels, frame = _labels_at(state, depth), state.frames[depth]
    for t in range(count):
        ranks[order[t]] = t
    # roots and terminals are numbered as they first occur
    for v in range(state.vertices):
        sums[v] = 0
    seen = 0
    first, second = count, ~count
    for t in range(count):
        label = labels[order[t]]
        start, end = label.start, label.end
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
        row, near = 0, label.below
        while near != 0:
            row |= bit(ranks[lowest(near)])
            near = without_lowest(near)
        about = (above << 24) | (below << 8) | label.level
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
    """Enter what the rest of a line graph costs at least."""
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
def _record(state: FacesState, a: int, b: int, c: int) -> None:
    """Write a step down."""
    log, length = state.log, state.length
    if length >= MOST_STEPS:
        state.overflow = 1
        return
    log[length, 0], log[length, 1], log[length, 2] = a, b, c
    state.length = length + 1


@compiled
def _make(state: FacesState, depth: int, a: int, b: int) -> int:
    """Make a move in the line graph at a depth and return its cost: face ⟨a,b⟩, or edge a from side b."""
    labels = _labels_at(state, depth)
    if not state.edges:
        cost = _cost_of(state, labels[a], labels[b])
        _record(state, a, b, _product(state, depth, a, b))
        return cost
    _record(state, labels[a].start, labels[a].end, b)
    cost = 0
    bits = labels[a].above if b == FRONT else labels[a].below
    while bits != 0 and not state.overflow:
        other = lowest(bits)
        bits = without_lowest(bits)
        i, j = (other, a) if b == FRONT else (a, other)
        cost += _cost_of(state, labels[i], labels[j])
        _product(state, depth, i, j)
    return cost


@compiled
def _series(state: FacesState, depth: int) -> int:
    """Make all moves that are never a mistake, and return what they cost."""
    cost = 0
    if not state.series:
        return cost
    labels, again = _labels_at(state, depth), True
    while again and not state.overflow:
        again = False
        bits = state.frames[depth].present
        while bits != 0:
            i = lowest(bits)
            bits = without_lowest(bits)
            below = labels[i].below
            if below == 0 or without_lowest(below) != 0:
                continue
            j = lowest(below)
            if labels[j].above != bit(i):
                continue
            a, b = labels[i].level, labels[j].level
            if state.fma or (a == b and a != 1) or (a == 1) != (b == 1):
                cost += _make(state, depth, j, FRONT) if state.edges else _make(state, depth, i, j)
                again = True
                break
    return cost


@compiled
def _is_done(state: FacesState, depth: int) -> bool:
    """Return True if no face is left at a depth."""
    labels, bits, faces = _labels_at(state, depth), state.frames[depth].present, 0
    while bits != 0:
        faces |= labels[lowest(bits)].below
        bits = without_lowest(bits)
    return faces == 0


@compiled
def _keep_plan(state: FacesState, cost: int) -> None:
    """Keep a plan that is complete, and cheaper than those before."""
    state.best, state.limit, state.best_length = cost, cost - 1, state.length
    for k in range(state.length):
        for part in range(3):
            state.best_log[k, part] = state.log[k, part]


@compiled
def _enter(state: FacesState, depth: int, cost: int) -> int:
    """Settle a depth that moves of some cost have led to; returns the bound on plans through it."""
    frame = state.frames[depth]
    cost += _series(state, depth)
    frame.cost, frame.length = cost, state.length
    bound = cost + frame.left
    if bound > state.limit or state.overflow:
        return bound
    if _is_done(state, depth):
        _keep_plan(state, cost)
        return cost
    _write_hash(state, depth)
    return max(bound, cost + _stored_bound(state, frame))


@compiled
def _descend(state: FacesState, depth: int, a: int, b: int) -> int:
    """Make a move from a depth to the next; returns the bound on plans that go on from there."""
    frame = state.frames[depth]
    _copy_graph(state, depth)
    state.length = frame.length
    return _enter(state, depth + 1, frame.cost + _make(state, depth + 1, a, b))


@compiled
def _set_move(move: Move, bound: int, a: int, b: int) -> None:
    """Write a move into a list."""
    move.bound, move.a, move.b = bound, a, b


@compiled
def _offer(state: FacesState, depth: int, a: int, b: int) -> None:
    """Try a move from a depth, and list it there unless it leads to nothing."""
    state.tried += 1
    bound = _descend(state, depth, a, b)
    if bound > state.limit:
        return
    frame, moves = state.frames[depth], state.moves[depth * MOST_MOVES :]
    at = frame.moves
    if at >= MOST_MOVES:
        state.overflow = 1
        return
    frame.moves += 1
    while at > 0 and moves[at - 1].bound > bound:
        at -= 1
        _set_move(moves[at + 1], moves[at].bound, moves[at].a, moves[at].b)
    _set_move(moves[at], bound, a, b)


@compiled
def _expand(state: FacesState, depth: int) -> None:
    """List the moves from a depth, the most promising first."""
    frame, labels = state.frames[depth], _labels_at(state, depth)
    frame.moves = frame.next = 0
    bits = frame.present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        if state.edges:
            if labels[x].above != 0:
                _offer(state, depth, x, FRONT)
            if labels[x].below != 0:
                _offer(state, depth, x, BACK)
            continue
        below = labels[x].below
        while below != 0:
            _offer(state, depth, x, lowest(below))
            below = without_lowest(below)


def prove(state: FacesState) -> int:
    """Search until nothing cheaper than `limit` is left, or `budget` moves have been tried.

    `depth` = -1 begins with a copy of the line graph at depth 0, which stays as it is. Returns DONE or MORE.
    """
    if state.depth < 0:
        state.length, state.depth = 0, 1
        _copy_graph(state, 0)
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
