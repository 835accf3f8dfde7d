"""Compiled branch and bound over face and edge eliminations, on a line graph of at most 64 vertices.

State. The line graph (`accumulus.elimination.face`) as bitset rows: predecessors P and successors S of every vertex,
where its label starts and ends in the graph, and its level (`accumulus.search.elimination`). Roots and terminals are
no vertices here; a label that starts at a root has no predecessor. Merging needs equal starts and ends, too. Edge
elimination moves in the same states: front elimination takes all faces into a vertex, back elimination all
faces out of it. Products: `accumulus.theory.compiled.faces_graph`.

Bound. For every intermediate vertex v of the graph, pairs of disjoint paths have been chosen that need one product at v
each (`accumulus.theory.bounds`). They are tracked: each vertex of the line graph knows, as bits, which of these
paths go through it. A product at v pays for those tracked pairs of v that go through both of its factors; what is
not paid for is still to come. So the bound falls by at most what a move costs.

Memo. What is left to do depends only on the line graph up to isomorphism. A state's code is its adjacency in the order
of its colours after colour refinement; among equal colours one vertex is singled out and refinement goes on. States of
equal code are isomorphic, whatever the ties. Codes are kept as 128 random bits. An entry says what the rest of
a state costs at least: where a search with limit L left a state of cost g with nothing found, L - g + 1. The
table has a fixed size; an entry that is lost costs time only. Both: `accumulus.theory.compiled.faces_table`.

Moves that are taken at once (`series`). If S_i = {j} and P_j = {i}, and all vertices are scalars, then taking ⟨i,j⟩
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

from accumulus.native.decorators import compiled
from accumulus.native.words import bit, lowest, without_lowest
from accumulus.theory.compiled.faces_graph import copy_graph, cost_of, labels_at, product
from accumulus.theory.compiled.faces_state import (
    BACK,
    DONE,
    FRONT,
    MORE,
    MOST_DEPTH,
    MOST_MOVES,
    MOST_STEPS,
    FacesState,
    Move,
)
from accumulus.theory.compiled.faces_table import store_bound, stored_bound, write_hash

__all__ = ["prove"]


@compiled
def record(state: FacesState, a: int, b: int, c: int) -> None:
    """Write a step down."""
    log, length = state.log, state.length
    if length >= MOST_STEPS:
        state.overflow = 1
        return
    log[length, 0], log[length, 1], log[length, 2] = a, b, c
    state.length = length + 1


@compiled
def make(state: FacesState, depth: int, a: int, b: int) -> int:
    """Make a move in the line graph at a depth and return its cost: face ⟨a,b⟩, or edge a from side b."""
    labels = labels_at(state, depth)
    if not state.edges:
        cost = cost_of(state, labels[a], labels[b])
        record(state, a, b, product(state, depth, a, b))
        return cost
    record(state, labels[a].start, labels[a].end, b)
    cost = 0
    bits = labels[a].above if b == FRONT else labels[a].below
    while bits != 0 and not state.overflow:
        other = lowest(bits)
        bits = without_lowest(bits)
        i, j = (other, a) if b == FRONT else (a, other)
        cost += cost_of(state, labels[i], labels[j])
        product(state, depth, i, j)
    return cost


@compiled
def series(state: FacesState, depth: int) -> int:
    """Make all moves that are never a mistake, and return what they cost."""
    cost = 0
    if not state.series:
        return cost
    labels, again = labels_at(state, depth), True
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
                cost += make(state, depth, j, FRONT) if state.edges else make(state, depth, i, j)
                again = True
                break
    return cost


@compiled
def is_done(state: FacesState, depth: int) -> bool:
    """Whether no face is left at a depth."""
    labels, bits, faces = labels_at(state, depth), state.frames[depth].present, 0
    while bits != 0:
        faces |= labels[lowest(bits)].below
        bits = without_lowest(bits)
    return faces == 0


@compiled
def keep_plan(state: FacesState, cost: int) -> None:
    """Keep a plan that is complete, and cheaper than those before."""
    state.best, state.limit, state.best_length = cost, cost - 1, state.length
    for k in range(state.length):
        for part in range(3):
            state.best_log[k, part] = state.log[k, part]


@compiled
def enter(state: FacesState, depth: int, cost: int) -> int:
    """Settle a depth that moves of some cost have led to; returns the bound on plans through it."""
    frame = state.frames[depth]
    cost += series(state, depth)
    frame.cost, frame.length = cost, state.length
    bound = cost + frame.left
    if bound > state.limit or state.overflow:
        return bound
    if is_done(state, depth):
        keep_plan(state, cost)
        return cost
    write_hash(state, depth)
    return max(bound, cost + stored_bound(state, frame))


@compiled
def descend(state: FacesState, depth: int, a: int, b: int) -> int:
    """Make a move from a depth to the next; returns the bound on plans that go on from there."""
    frame = state.frames[depth]
    copy_graph(state, depth)
    state.length = frame.length
    return enter(state, depth + 1, frame.cost + make(state, depth + 1, a, b))


@compiled
def set_move(move: Move, bound: int, a: int, b: int) -> None:
    """Write a move into a list."""
    move.bound, move.a, move.b = bound, a, b


@compiled
def offer(state: FacesState, depth: int, a: int, b: int) -> None:
    """Try a move from a depth, and list it there unless it leads to nothing."""
    state.tried += 1
    bound = descend(state, depth, a, b)
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
        set_move(moves[at + 1], moves[at].bound, moves[at].a, moves[at].b)
    set_move(moves[at], bound, a, b)


@compiled
def expand(state: FacesState, depth: int) -> None:
    """List the moves from a depth, the most promising first."""
    frame, labels = state.frames[depth], labels_at(state, depth)
    frame.moves = frame.next = 0
    bits = frame.present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        if state.edges:
            if labels[x].above != 0:
                offer(state, depth, x, FRONT)
            if labels[x].below != 0:
                offer(state, depth, x, BACK)
            continue
        below = labels[x].below
        while below != 0:
            offer(state, depth, x, lowest(below))
            below = without_lowest(below)


def prove(state: FacesState) -> int:
    """Search until nothing cheaper than `limit` is left, or `budget` moves have been tried.

    `depth` = -1 begins with a copy of the line graph at depth 0, which stays as it is. Returns DONE or MORE.
    """
    if state.depth < 0:
        state.length, state.depth = 0, 1
        copy_graph(state, 0)
        if enter(state, 1, 0) > state.limit:
            return DONE
        expand(state, 1)
    stop = state.tried + state.budget
    while state.tried < stop:
        if state.overflow:
            return DONE
        depth = state.depth
        frame = state.frames[depth]
        move = state.moves[depth * MOST_MOVES + frame.next]
        if frame.next >= frame.moves or move.bound > state.limit:
            store_bound(state, frame, state.limit - frame.cost + 1)
            if depth == 1:
                return DONE
            state.depth = depth - 1
            continue
        frame.next += 1
        if depth + 2 >= MOST_DEPTH:
            state.overflow = 1
            return DONE
        if descend(state, depth, move.a, move.b) <= state.limit:
            state.depth = depth + 1
            expand(state, depth + 1)
    return MORE
