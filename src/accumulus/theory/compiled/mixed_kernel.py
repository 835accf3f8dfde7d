"""Compiled search over elimination sequences that mix vertices, edges and faces: simulated annealing.

Sequence. A list of items of fixed length. Each intermediate vertex is an item: it eliminates all faces that are left at
it. The others are edges, from the front or from the back, single faces, or nothing. An item that names what is not
there does nothing. So every list ends in the Jacobian; a vertex order is a list without other items, and any edge or
face sequence can come before the vertices.

State. The line graph (`accumulus.elimination.face`) as bitset rows: predecessors and successors of each label, and for
each vertex of the graph the labels that start and end there. Roots and terminals are no labels, and what goes from a
root to a terminal is never kept: nothing depends on it any more. Levels and costs as in
`accumulus.search.elimination`. Products: `accumulus.theory.compiled.mixed_graph`.

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

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers
from accumulus.native.words import copy_many, random_bits, shifted_right
from accumulus.theory.compiled.mixed_graph import common, element, fingerprint, product
from accumulus.theory.compiled.mixed_state import (
    FACE,
    FRONT,
    ID_BITS,
    KIND_BITS,
    NOTHING,
    SHIFT,
    STEP,
    TABLE,
    VERTEX,
    MixedState,
)

__all__ = ["anneal"]

IDS: Final = (1 << ID_BITS) - 1
KINDS: Final = (1 << KIND_BITS) - 1
#: More than any energy.
ANY: Final = 1e300


@compiled
def drawn(state: MixedState, number: int) -> int:
    """A random number from 0 to number - 1."""
    return shifted_right(random_bits(state.random), 2) % number


@compiled
def face_of(state: MixedState, item: int) -> tuple[int, int]:
    """The first face that an item names and that is there; -1 for a label of it that is not."""
    words, kind = state.words, item & KINDS
    v, p, s = (item >> KIND_BITS) & IDS, (item >> (KIND_BITS + ID_BITS)) & IDS, item >> (KIND_BITS + 2 * ID_BITS)
    into, far = state.into[v * words :], state.into[s * words :]
    if kind == FRONT:
        j = common(state.out[v * words :], far, words, 0)
        return (element(state.above[j * words :], words, 0) if j >= 0 else -1), j
    near = into if kind == VERTEX else state.out[p * words :]
    i = common(into, near, words, 0)
    while i >= 0:
        beneath = state.beneath[i * words :]
        j = common(beneath, far, words, 0) if kind == FACE else element(beneath, words, 0)
        if j >= 0:
            return i, j
        i = common(into, near, words, i + 1)
    return -1, -1


@compiled
def take(state: MixedState, item: int) -> None:
    """Eliminate what an item names, as far as it is there."""
    kind = item & KINDS
    while kind != NOTHING and not state.overflow:
        i, j = face_of(state, item)
        if i < 0 or j < 0:
            break
        product(state, i, j)
        if kind == FACE:
            break


@compiled
def found(state: MixedState) -> int:
    """A random edge or face that is there now, as an item; nothing if no face is left."""
    words, x = state.words, drawn(state, state.words << 6)
    again = True
    while True:
        x = element(state.present, words, x)
        if x < 0:
            if not again:
                return NOTHING
            x, again = 0, False
            continue
        beneath = state.beneath[x * words :]
        y = element(beneath, words, drawn(state, words << 6))
        if y < 0:
            y = element(beneath, words, 0)
        if y >= 0:
            kind = min(FRONT + drawn(state, 4 if state.faces else 2), FACE)  # faces are drawn as often as edges
            item: int = kind | (state.starts[y] << KIND_BITS) | (state.starts[x] << (KIND_BITS + ID_BITS))
            item |= state.ends[y] << (KIND_BITS + 2 * ID_BITS)
            return item
        x += 1


@compiled
def energy(state: MixedState, total: int) -> float:
    """Of a total."""
    high = shifted_right(total, SHIFT)
    return high + state.tie * (total - (high << SHIFT))


@compiled
def snapshot(state: MixedState, number: int) -> Integers:
    """Memory of a snapshot."""
    return state.snapshots[number * state.size :]


@compiled
def attempt(state: MixedState, begin: int, last: int, new: int, limit: float) -> bool:
    """Go through the list on trial from snapshot `begin` on; returns whether it became the current list.

    Args:
        last: changed item; behind it, a kept snapshot may be met again.
        new: item that becomes something that is there when it is its turn, or -1.
        limit: of the energy.
    """
    size, length, trial, costs, prints = state.size, state.length, state.trial, state.costs, state.prints
    kept, tried = state.kept, state.tried
    copy_many(state.graph, snapshot(state, kept[begin]), size)
    state.cost = costs[kept[begin]]
    count = (length + STEP - 1) // STEP
    change, met = 0, count
    for t in range(begin * STEP, length):
        c = t // STEP
        if t == c * STEP and c > begin:
            now = fingerprint(state)
            if t > last and now == prints[kept[c]]:
                change, met = state.cost - costs[kept[c]], c
                state.cost = state.total + change
                break
            copy_many(snapshot(state, tried[c]), state.graph, size)
            costs[tried[c]], prints[tried[c]] = state.cost, now
        if t == new:
            trial[t] = found(state)
        take(state, trial[t])
        if state.overflow or energy(state, state.cost) > limit:
            state.overflow = 0
            for w in range(state.words):
                state.touched[w] = 0
            return False
    if energy(state, state.cost) > limit:
        return False
    for c in range(begin + 1, met):
        kept[c], tried[c] = tried[c], kept[c]
    for c in range(met, count):
        costs[kept[c]] += change
    state.total = state.cost
    copy_many(state.items, trial, length)
    return True


@compiled
def go_through(state: MixedState) -> None:
    """Go through the current list from its start; it becomes the best one if it is."""
    copy_many(state.trial, state.items, state.length)
    attempt(state, 0, state.length, -1, ANY)
    if state.total < state.best:
        state.best = state.total
        copy_many(state.best_items, state.items, state.length)


def anneal(state: MixedState) -> int:
    """Make `moves` moves, or fewer if that is `work` products; begins with the list in `items` if not `started` yet.

    Returns the best total so far.
    """
    length, items, trial = state.length, state.items, state.trial
    if not state.started:
        state.started = 1
        go_through(state)
    while state.moves > 0 and state.work > 0:
        state.moves -= 1
        state.work -= 1
        state.temperature *= state.cooling
        at, kind, new = drawn(state, length), drawn(state, 8), -1
        to = drawn(state, length)
        item = items[at]
        if kind < 2:
            to = min(max(at + drawn(state, 9) - 4, 0), length - 1)
        elif kind >= 3 and item & KINDS != VERTEX:
            new = to
            if kind == 5 and item != NOTHING:
                to, new, item = at, -1, NOTHING
        if to == at and new < 0 and item == items[at]:
            continue
        copy_many(trial, items, length)
        for t in range(at, to):
            trial[t] = items[t + 1]
        for t in range(at, to, -1):
            trial[t] = items[t - 1]
        trial[to] = item
        slack = state.temperature * state.logarithms[drawn(state, TABLE)]
        limit = energy(state, state.total) + slack + 1e-9
        if attempt(state, min(at, to) // STEP, max(at, to), new, limit) and state.total < state.best:
            # what was met again may have gone on with other numbers, and in another order
            go_through(state)
    return state.best
