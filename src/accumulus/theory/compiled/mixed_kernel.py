"""Compiled search over elimination sequences that mix vertices, edges and faces: simulated annealing.

Sequence. A list of items of fixed length. Each intermediate vertex is an item: it eliminates all faces that are left at
it. The others are edges, from the front or from the back, single faces, or nothing. An item whose labels do not
exist has no effect. So every list ends in the Jacobian; a vertex order is a list without other items, and any edge or
face sequence can come before the vertices.

State. The line graph as in `accumulus.theory.compiled.line_state`; costs as in `accumulus.search.elimination`.

Moves. An item moves to another position, often a near one; or an item that is no vertex is removed, or replaced by
an edge or a face that exists at some position. The acceptance threshold is drawn first (Metropolis et al.
1953), so that a trial ends as soon as it costs more.

Increments. The state before every STEP-th item is saved: a trial begins at the last one before the first change. It
also ends early when it meets a saved state after the last change, since the rest costs the same. States are compared by
fingerprints: the values of edges are random, and the fingerprint adds up a hash of every label and its successors. A
best sequence is run again from its start.

Time: about a fifth of a microsecond for a product. The caller owns the memory. A call makes a number of moves or
products, and the next one continues; the division into calls does not change the result.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers
from accumulus.native.words import copy_many, random_bits, scattered, shifted_right, wrapped
from accumulus.theory.compiled.line_state import LineState, common, element, eliminate_face, is_free, settle_labels

#: Two totals share an integer: the cost, and the number of all products.
SHIFT: Final = 32
#: Items between two saved states.
STEP: Final = 8
#: Length of the table of -log(u).
TABLE: Final = 1024

#: Kinds of items: nothing; a vertex; an edge from the front, from the back; a single face. An item also has its
#: vertices: the middle one, its start and its end.
NOTHING, VERTEX, FRONT, BACK, FACE = range(5)
KIND_BITS: Final = 3
ID_BITS: Final = 20


class MixedState(LineState):
    """A sequence to anneal; the line graph is that of the current trial."""

    snapshots: Integers  # memory of saved line graphs, (snapshots, size)
    # costs, prints: of each snapshot, its cost and fingerprint
    costs: Integers
    prints: Integers
    # snapshot before every STEP-th item of the current list; the first is the start
    current: Integers
    tried: Integers  # snapshots of the list on trial, from its first change; else free ones
    # items, trial, best_items: the current list, the one on trial and the best so far, (length,)
    items: Integers
    trial: Integers
    best_items: Integers
    logarithms: Floats  # -log(u), (TABLE,)
    log: Annotated[Integers, Axes(3)]  # eliminated faces and their products, -1 if these are not kept, (products, 3)
    random: Integers  # state of the generator, (1,)
    length: int  # length of the list
    best: int  # total of the best list
    faces: int = 0  # 1 if single faces may be items
    moves: int = 0  # moves that a call may make
    work: int = 0  # products and moves that a call may make
    cost: int = 0  # of the line graph in `graph`
    total: int = 0  # of the current list
    logged: int = -1  # number of logged faces; -1 to log none
    started: int = 0  # 0 to begin with the list in `items`
    # temperature, cooling: the temperature, and its factor for each move
    temperature: float = 0.0
    cooling: float = 0.0
    tie: float  # weight of the total that breaks ties


# The line graph ------------------------------------------------------------------------------------------------------


@compiled
def _product(state: MixedState, i: int, j: int) -> None:
    """Eliminate the face ⟨i,j⟩."""
    sizes, logged = state.sizes, state.logged
    price = sizes[state.starts[i]] * sizes[state.ends[i]] * sizes[state.ends[j]]
    counted = 0 if is_free(state.levels[i], state.levels[j]) else price
    high, low = (price, counted) if state.fma else (counted, price)
    state.cost += (high << SHIFT) + low
    k = eliminate_face(state, i, j)
    if state.overflow:
        return
    if logged >= 0:
        state.log[logged, 0], state.log[logged, 1], state.log[logged, 2] = i, j, k
        state.logged = logged + 1
    state.work -= 1
    settle_labels(state)


@compiled
def _fingerprint(state: MixedState) -> int:
    """Return a number that is equal for equal line graphs, independent of the numbers of labels."""
    words, present, values = state.words, state.present, state.values
    total = 0
    x = element(present, words, 0)
    while x >= 0:
        inner, beneath = 0, state.beneath[x * words :]
        y = element(beneath, words, 0)
        while y >= 0:
            inner += scattered(values[y])
            y = element(beneath, words, y + 1)
        about = state.starts[x] | (state.ends[x] << ID_BITS) | (state.levels[x] << (2 * ID_BITS))
        total += scattered(values[x] + scattered(inner + 3 * about))
        x = element(present, words, x + 1)
    return wrapped(total)


# Search --------------------------------------------------------------------------------------------------------------


IDS: Final = (1 << ID_BITS) - 1
KINDS: Final = (1 << KIND_BITS) - 1
#: Larger than any energy.
ANY: Final = 1e300


@compiled
def _drawn(state: MixedState, number: int) -> int:
    """Return a random number from 0 to number - 1."""
    return shifted_right(random_bits(state.random), 2) % number


@compiled
def _face_of(state: MixedState, item: int) -> tuple[int, int]:
    """Return the first face of an item that exists; -1 for a label that does not."""
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
def _take(state: MixedState, item: int) -> None:
    """Eliminate the faces of an item that exist."""
    kind = item & KINDS
    while kind != NOTHING and not state.overflow:
        i, j = _face_of(state, item)
        if i < 0 or j < 0:
            break
        _product(state, i, j)
        if kind == FACE:
            break


@compiled
def _found(state: MixedState) -> int:
    """Return a random edge or face that exists now, as an item; nothing if no face is left."""
    words, x = state.words, _drawn(state, state.words << 6)
    again = True
    while True:
        x = element(state.present, words, x)
        if x < 0:
            if not again:
                return NOTHING
            x, again = 0, False
            continue
        beneath = state.beneath[x * words :]
        y = element(beneath, words, _drawn(state, words << 6))
        if y < 0:
            y = element(beneath, words, 0)
        if y >= 0:
            kind = min(FRONT + _drawn(state, 4 if state.faces else 2), FACE)  # faces are drawn as often as edges
            item: int = kind | (state.starts[y] << KIND_BITS) | (state.starts[x] << (KIND_BITS + ID_BITS))
            item |= state.ends[y] << (KIND_BITS + 2 * ID_BITS)
            return item
        x += 1


@compiled
def _energy(state: MixedState, total: int) -> float:
    """Return the energy of a total."""
    high = shifted_right(total, SHIFT)
    return high + state.tie * (total - (high << SHIFT))


@compiled
def _snapshot(state: MixedState, number: int) -> Integers:
    """Return the memory of a snapshot."""
    return state.snapshots[number * state.size :]


@compiled
def _attempt(state: MixedState, begin: int, last: int, new: int, limit: float) -> bool:
    """Evaluate the list on trial from a snapshot on; return True if it became the current list.

    Args:
        state: list on trial, and its snapshots.
        begin: snapshot to continue from.
        last: last changed item; a saved snapshot after it may be met again.
        new: item that is replaced by an existing one when its turn comes, or -1.
        limit: largest accepted energy.
    """
    size, length, trial, costs, prints = state.size, state.length, state.trial, state.costs, state.prints
    current, tried = state.current, state.tried
    copy_many(state.graph, _snapshot(state, current[begin]), size)
    state.cost = costs[current[begin]]
    count = (length + STEP - 1) // STEP
    change, met = 0, count
    for t in range(begin * STEP, length):
        c = t // STEP
        if t == c * STEP and c > begin:
            now = _fingerprint(state)
            if t > last and now == prints[current[c]]:
                change, met = state.cost - costs[current[c]], c
                state.cost = state.total + change
                break
            copy_many(_snapshot(state, tried[c]), state.graph, size)
            costs[tried[c]], prints[tried[c]] = state.cost, now
        if t == new:
            trial[t] = _found(state)
        _take(state, trial[t])
        if state.overflow or _energy(state, state.cost) > limit:
            state.overflow = 0
            for w in range(state.words):
                state.touched[w] = 0
            return False
    if _energy(state, state.cost) > limit:
        return False
    for c in range(begin + 1, met):
        current[c], tried[c] = tried[c], current[c]
    for c in range(met, count):
        costs[current[c]] += change
    state.total = state.cost
    copy_many(state.items, trial, length)
    return True


@compiled
def _go_through(state: MixedState) -> None:
    """Run the current list from its start; store it if it is the best."""
    copy_many(state.trial, state.items, state.length)
    _attempt(state, 0, state.length, -1, ANY)
    if state.total < state.best:
        state.best = state.total
        copy_many(state.best_items, state.items, state.length)


def run_mixed(state: MixedState) -> int:
    """Make `moves` moves, or fewer if they take `work` products; begin with the list in `items` if not `started` yet.

    Return the best total so far.
    """
    length, items, trial = state.length, state.items, state.trial
    if not state.started:
        state.started = 1
        _go_through(state)
    while state.moves > 0 and state.work > 0:
        state.moves -= 1
        state.work -= 1
        state.temperature *= state.cooling
        at, kind, new = _drawn(state, length), _drawn(state, 8), -1
        to = _drawn(state, length)
        item = items[at]
        if kind < 2:
            to = min(max(at + _drawn(state, 9) - 4, 0), length - 1)
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
        slack = state.temperature * state.logarithms[_drawn(state, TABLE)]
        limit = _energy(state, state.total) + slack + 1e-9
        if _attempt(state, min(at, to) // STEP, max(at, to), new, limit) and state.total < state.best:
            # the list that was met again may have other label numbers, and another order of labels
            _go_through(state)
    return state.best
