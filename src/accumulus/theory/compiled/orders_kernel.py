"""Compiled search for the best order of vertices: the block bound, and branching on the last vertex.

`accumulus.theory.exact.orders` has both, with proofs.

**Blocks.** After a set S of the block is eliminated, and nothing else, let a and b be the maximum flows from a vertex v
to both sides of the graph (every vertex lets its size through). The block's vertices that are left are ends of flows,
like roots and terminals. One dynamic program over all S adds up the costs of the cheapest order of the block, at
size(v)·a·b each.

A flow is found by shortest augmenting paths (Edmonds and Karp 1972). Where nothing more can be pushed, the search has
entered the vertices on the near side of a lightest cut. Eliminating a vertex that was not entered, and at which no flow
ends, leaves the cut and the flow as they are. So a flow is computed only if every vertex of S matters in this way
without it. Of most pairs (v, S) none has to be.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers, Record, Records
from accumulus.native.words import (
    bit,
    copy,
    copy_many,
    lowest,
    population,
    scattered,
    shifted_right,
    without_lowest,
    wrapped,
)
from accumulus.search.compiled.order_kernel import SETS, SIDE, RowsState, cost_of, eliminate, join_word, weight

#: Bits of each of the two flows of a vertex to one side; the set of the block's vertices that it depends on is above.
FLOW: Final = 23
_FLOW: Final = (1 << FLOW) - 1
#: Cost of sets that were not reached.
UNREACHED: Final = 1 << 62


class FlowsState(RowsState):
    """A flow from a vertex through vertices in `mask` to any other vertex.

    Attributes:
        through, between: flow through each vertex by bit, and between each two.
        into: sources of the flow into each vertex, (bits, words).
        came, queue: of the nodes of the search: a vertex is entered at twice its number, and left at the next node.
        entered, left, near: sets of vertices, (words,).
    """

    through: Integers
    between: Integers
    into: Integers
    came: Integers
    queue: Integers
    entered: Integers
    left: Integers
    near: Integers
    total: int  # vertices, roots and terminals included


class BlocksState(FlowsState):
    """A block of vertices, or all vertices in pairs.

    Attributes:
        block: its vertices, (count,).
        buffers, owners: rows of a graph for each vertex of the block, and the set that is eliminated in each.
        flows: of each set and each remaining vertex, to both sides, (2**count, count, 2).
        table: least cost of each set, (2**count,); or lower bounds on the cost of each vertex after none or one is
        eliminated, then as long as one is kept, (1 + 2*vertices, vertices).
    """

    block: Integers
    buffers: Integers
    owners: Integers
    flows: Integers
    table: Integers
    count: int
    budget: int  # sets of a call
    next: int = 0  # first set that has not been processed


# Flows ---------------------------------------------------------------------------------------------------------------


@compiled
def _send(state: FlowsState, last: int) -> int:
    """Send as much flow as fits along the path that ends at a node."""
    came, sizes, through, between = state.came, state.sizes, state.through, state.between
    width, amount, node = state.words << 6, 1 << FLOW, last
    while node >= 0:
        u, before = node >> 1, came[node]
        w = before >> 1
        if node & 1:
            amount = min(amount, sizes[u] - through[u] if w == u else between[u * width + w])
        elif w == u:
            amount = min(amount, through[u])
        node = before
    node = last
    while node >= 0:
        u, before = node >> 1, came[node]
        w = before >> 1
        if w == u:
            through[u] += amount if node & 1 else -amount
        elif before >= 0:
            # forward from w to u, or back from u to w
            source, to = (u, w) if node & 1 else (w, u)
            between[source * width + to] += -amount if node & 1 else amount
            word = to * state.words + (source >> 6)
            state.into[word] |= bit(source & 63)
            if between[source * width + to] == 0:
                state.into[word] &= ~bit(source & 63)
        node = before
    return amount


@compiled
def _augment(state: FlowsState, rows: Integers, side: int, firsts: Integers) -> int:
    """Augment the flow from some vertices to an end; if there is no path, keep the vertices that were entered."""
    words, came, queue, entered, left = state.words, state.came, state.queue, state.entered, state.left
    head, tail = 0, 0
    for w in range(words):
        left[w] = 0
        bits = firsts[w]
        entered[w] = bits
        while bits != 0:
            node = ((w << 6) + lowest(bits)) << 1
            bits = without_lowest(bits)
            came[node] = -2
            queue[tail] = node
            tail += 1
    while head < tail:
        node = queue[head]
        head += 1
        u = node >> 1
        word, one = u >> 6, bit(u & 63)
        if node & 1:
            if state.mask[word] & one == 0:
                return _send(state, node)
            near = rows[(u * SETS + side) * words :]
            for w in range(words):
                bits = near[w] & ~entered[w]
                entered[w] |= bits
                while bits != 0:
                    to = ((w << 6) + lowest(bits)) << 1
                    bits = without_lowest(bits)
                    came[to] = node
                    queue[tail] = to
                    tail += 1
            if state.through[u] > 0 and entered[word] & one == 0:
                entered[word] |= one
                came[node - 1] = node
                queue[tail] = node - 1
                tail += 1
            continue
        if state.through[u] < state.sizes[u] and left[word] & one == 0:
            left[word] |= one
            came[node + 1] = node
            queue[tail] = node + 1
            tail += 1
        for w in range(words):
            bits = state.into[u * words + w] & ~left[w]
            left[w] |= bits
            while bits != 0:
                to = (((w << 6) + lowest(bits)) << 1) + 1
                bits = without_lowest(bits)
                came[to] = node
                queue[tail] = to
                tail += 1
    return 0


@compiled
def _clear(state: FlowsState) -> None:
    """Reset the flow."""
    words = state.words
    for u in range(state.total):
        state.through[u] = 0
        for w in range(words):
            bits = state.into[u * words + w]
            state.into[u * words + w] = 0
            while bits != 0:
                state.between[((w << 6) + lowest(bits)) * (words << 6) + u] = 0
                bits = without_lowest(bits)


@compiled
def _filled(state: FlowsState, rows: Integers, side: int, firsts: Integers, flow: int) -> int:
    """Return the maximum flow that leaves through `firsts`, starting from a flow through some of them."""
    words, most = state.words, weight(state, firsts)
    for w in range(words):  # direct edges to ends
        bits = firsts[w] & ~state.mask[w]
        while bits != 0:
            u = (w << 6) + lowest(bits)
            bits = without_lowest(bits)
            flow += state.sizes[u] - state.through[u]
            state.through[u] = state.sizes[u]
    more = 1
    while more != 0 and flow < most:
        more = _augment(state, rows, side, firsts)
        flow += more
    for w in range(words):
        state.near[w] |= firsts[w] if more != 0 else state.entered[w]
    return flow


@compiled
def _flows(state: FlowsState, rows: Integers, v: int, side: int) -> int:
    """Compute flows from a vertex by variable labels, and by all with a cost; they depend on the vertices in `near`."""
    words = state.words
    firsts = rows[(v * SETS + side) * words :]
    _clear(state)
    if state.products:
        for w in range(words):
            state.near[w] = 0
        both = _filled(state, rows, side, firsts, 0)
        return both << FLOW | both
    copy_many(state.near, firsts, words)
    variable = _filled(state, rows, side, firsts[2 * words :], 0)
    return variable << FLOW | _filled(state, rows, side, firsts[words:], variable)


@compiled
def _product(above: int, below: int, size: int) -> int:
    """Return the cost of the pairs of disjoint paths through a vertex; pairs of two constants are free."""
    variable, every = above >> FLOW & _FLOW, above & _FLOW
    return size * (variable * (below & _FLOW) + (every - variable) * (below >> FLOW & _FLOW))


# Sets ----------------------------------------------------------------------------------------------------------------


@compiled
def _graph_after(state: BlocksState, gone: int) -> Integers:
    """Return rows of the graph after a set of the block is eliminated, from those of a smaller set."""
    owners, words = state.owners, state.words
    size = state.vertices * words * SETS
    have = gone
    while have != 0 and owners[lowest(have)] != have:
        have &= have - 1
    rows = state.base if have == 0 else state.buffers[lowest(have) * size :]
    rest = gone ^ have
    while have != gone:
        k = 0
        bits = rest
        while bits != 0:  # the highest remaining vertex first
            k = lowest(bits)
            bits &= bits - 1
        to = state.buffers[k * size :]
        copy_many(to, rows, size)
        have |= 1 << k
        rest ^= 1 << k
        eliminate(to, state.block[k], state.mask, words, (state.vertices + 63) >> 6)
        owners[k] = have
        rows = to
    return rows


@compiled
def _flows_after(state: BlocksState, gone: int, k: int, side: int) -> int:
    """Return the flows of a vertex of the block after a set is eliminated; those of a smaller set if they are equal."""
    bits = gone
    while bits != 0:
        x = lowest(bits)
        bits &= bits - 1
        smaller: int = state.flows[((gone ^ 1 << x) * state.count + k) * 2 + side]
        if smaller >> (2 * FLOW + x) & 1 == 0:
            return smaller
    rows = _graph_after(state, gone)
    for x in range(state.count):  # the others of the block are ends
        if gone >> x & 1 == 0:
            state.mask[state.block[x] >> 6] &= ~bit(state.block[x] & 63)
    flows = _flows(state, rows, state.block[k], side * SIDE)
    for x in range(state.count):
        u = state.block[x]
        state.mask[u >> 6] |= bit(u & 63)
        if state.near[u >> 6] & bit(u & 63) or state.through[u] > 0:
            flows |= 1 << (2 * FLOW + x)
    return flows


@compiled
def _pairs(state: BlocksState, gone: int) -> None:
    """Compute lower bounds on the cost of every vertex after one is eliminated, or as long as one is kept."""
    vertices, words = state.vertices, state.words
    rows, other = state.base, gone - 1
    if gone > vertices:
        other -= vertices
        state.mask[other >> 6] &= ~bit(other & 63)
    elif gone != 0:
        rows = state.buffers
        copy_many(rows, state.base, vertices * words * SETS)
        eliminate(rows, other, state.mask, words, (vertices + 63) >> 6)
    for v in range(vertices):
        if v != other:
            above, below = _flows(state, rows, v, 0), _flows(state, rows, v, SIDE)
            state.table[gone * vertices + v] = _product(above, below, state.sizes[v])
    if gone > vertices:
        state.mask[other >> 6] |= bit(other & 63)


@compiled
def _set(state: BlocksState, gone: int) -> None:
    """Extend a set of the block by each remaining vertex."""
    table, flows, count = state.table, state.flows, state.count
    bits = ((1 << count) - 1) & ~gone
    while bits != 0:
        k = lowest(bits)
        bits &= bits - 1
        entry = (gone * count + k) * 2
        above, below = _flows_after(state, gone, k, 0), _flows_after(state, gone, k, 1)
        flows[entry], flows[entry + 1] = above, below
        cost = table[gone] + _product(above, below, state.sizes[state.block[k]])
        table[gone | 1 << k] = min(cost, table[gone | 1 << k])


def run_blocks(state: BlocksState) -> int:
    """Process `budget` sets, or eliminated vertices for pairs; return the first that remains."""
    last = min((1 << state.count) - 1 if state.count else 2 * state.vertices + 1, state.next + state.budget)
    for gone in range(state.next, last):
        if state.count:
            _set(state, gone)
        else:
            _pairs(state, gone)
    state.next = last
    return last


# Orders --------------------------------------------------------------------------------------------------------------

#: Bits of a vertex in an entry of the memory or of the list of choices.
LAST: Final = 12
_LAST: Final = (1 << LAST) - 1
#: Number of slots of the memory that may hold a set.
PROBES: Final = 8
#: Words of an entry after its set: bound, exactness and last vertex in one; number of nodes that the search took.
VALUE: Final = 2


class SetFrame(Record):
    """A connected set whose best order is searched."""

    limit: int  # largest accepted cost
    best: int  # cost of the best order so far; -1 for none
    last: int  # its last vertex
    floor: int  # lower bound on the cost of orders with the last vertices tried so far
    choices: int  # number of last vertices to try
    choice: int  # the current one
    parts: int  # number of connected parts without it; 0 before it is taken up
    part: int  # the current part
    total: int  # cost of the last vertex, and lower bounds of the parts
    began: int  # nodes before this set


class OrdersState(FlowsState):
    """Connected sets of vertices as bitsets; blocks have consecutive bits.

    Attributes:
        neighbours: of each vertex among the intermediates, (vertices, inner).
        reach: vertices reached from each vertex through a set, in the form of rows.
        block, bit: number of each vertex's block, and its bit there, (vertices,).
        starts: begin of each block's table, (blocks,).
        tables: of all blocks.
        gone, sums: of a set, the vertices outside it in each block, and bounds on the others' costs, (blocks,).
        frames, sets: a stack, with the set of each frame, (vertices, inner).
        choices: of each frame, bounds and last vertices, in the order of trial, (vertices, vertices).
        prices, least: of each frame, the cost of each vertex as the last one, and a lower bound, (vertices, vertices).
        flows, nears: of each frame and vertex, the flows to both sides, and the vertices that these depend on,
        (vertices, vertices, 2) and (vertices, vertices, 2, inner).
        parts, floors: of each frame, the connected parts without a vertex, and their lower bounds, as 2·bound + exact.
        memory: bounds of sets, (2**bits + PROBES, inner + VALUE).
    """

    neighbours: Integers
    reach: Integers
    block: Integers
    bit: Integers
    starts: Integers
    gone: Integers
    sums: Integers
    tables: Integers
    frames: Records[SetFrame]
    sets: Integers
    choices: Integers
    prices: Integers
    least: Integers
    flows: Integers
    nears: Integers
    parts: Integers
    floors: Integers
    memory: Integers
    blocks: int
    inner: int  # words of a set of intermediates
    memory_bits: int
    nodes: int  # sets that a call may process
    depth: int = -1
    looked_at: int = 0
    result: int = 0  # lower bound of the first set, doubled; plus 1 if it is exact
    last: int = -1


@compiled
def _place(state: OrdersState, vertices: Integers) -> int:
    """Return the index of a set in the memory; -1 - (its first slot) if it is not there."""
    inner, key = state.inner, 0
    for w in range(inner):
        key = scattered(key ^ vertices[w])
    start = shifted_right(key, 64 - state.memory_bits)
    for probe in range(start, start + PROBES):
        entry = state.memory[probe * (inner + VALUE) :]
        same = entry[inner] != 0
        for w in range(inner):
            same = same and entry[w] == vertices[w]
        if same:
            return probe
    return -1 - start


@compiled
def _remember(state: OrdersState, vertices: Integers, bound: int, exact: int, last: int, nodes: int) -> None:
    """Store the bound of a set, in place of the entry that took the fewest nodes."""
    inner, slot = state.inner, _place(state, vertices)
    if slot < 0:
        first = -1 - slot
        slot = first
        for probe in range(first, first + PROBES):
            if state.memory[probe * (inner + VALUE) + inner + 1] < state.memory[slot * (inner + VALUE) + inner + 1]:
                slot = probe
    entry = state.memory[slot * (inner + VALUE) :]
    copy(entry, vertices, inner)
    entry[inner] = (bound << 1 | exact) << LAST | last
    entry[inner + 1] = nodes + 1


@compiled
def _by_blocks(state: OrdersState, vertices: Integers, least: Integers) -> int:
    """Return a lower bound on the cost of a set, by its blocks."""
    gone, sums, total = state.gone, state.sums, 0
    for b in range(state.blocks):
        gone[b], sums[b] = 0, 0
    for w in range(state.inner):
        bits = vertices[w]
        while bits != 0:
            v = (w << 6) + lowest(bits)
            bits = without_lowest(bits)
            gone[state.block[v]] += state.bit[v]
            sums[state.block[v]] += least[v]
    for b in range(state.blocks):
        total += max(state.tables[state.starts[b] + gone[b]], sums[b])
    return total


@compiled
def _floor(state: OrdersState, vertices: Integers, least: Integers) -> int:
    """Return a lower bound on the cost of a connected set, doubled; plus 1 if it is exact."""
    count, v = 0, 0
    for w in range(state.inner):
        bits = vertices[w]
        count += population(bits)
        if bits != 0:
            v = (w << 6) + lowest(bits)
    if count == 1:
        return cost_of(state, state.base, v) << 1 | 1
    slot = _place(state, vertices)
    bound: int = state.memory[slot * (state.inner + VALUE) + state.inner] >> LAST if slot >= 0 else 0
    return bound if bound & 1 else max(bound, _by_blocks(state, vertices, least) << 1)


@compiled
def _split(state: OrdersState, vertices: Integers, v: int, depth: int) -> int:
    """Find the connected parts of a set without a vertex, and their lower bounds; return their number."""
    inner, count = state.inner, 0
    rest, frontier = state.entered, state.left
    copy(rest, vertices, inner)
    rest[v >> 6] &= ~bit(v & 63)
    base = depth * state.vertices
    for w in range(inner):
        while rest[w] != 0:
            to = state.parts[(base + count) * inner :]
            for k in range(inner):
                to[k], frontier[k] = 0, 0
            frontier[w] = rest[w] & -rest[w]
            rest[w] ^= frontier[w]
            more = 1
            while more != 0:
                more = 0
                for k in range(inner):
                    bits = frontier[k]
                    frontier[k] = 0
                    to[k] |= bits
                    while bits != 0:
                        near = state.neighbours[((k << 6) + lowest(bits)) * inner :]
                        bits = without_lowest(bits)
                        for j in range(inner):
                            new = near[j] & rest[j]
                            rest[j] ^= new
                            frontier[j] |= new
                for k in range(inner):
                    more |= frontier[k]
            state.floors[base + count] = _floor(state, to, state.least[base:])
            count += 1
    return count


@compiled
def _reach(state: OrdersState, vertices: Integers) -> None:
    """Find the edges of each vertex of a set if it is eliminated last: the vertices it reaches through the others."""
    words, base, reach = state.words, state.base, state.reach
    for side in range(0, SETS, SIDE):
        for t in range(state.vertices):
            v = t if side != 0 else state.vertices - 1 - t  # dependencies come before dependents
            if vertices[v >> 6] & bit(v & 63) == 0:
                continue
            row, to = base[(v * SETS + side) * words :], reach[(v * SETS + side) * words :]
            if state.products:  # kinds of labels do not matter
                for w in range(words):
                    to[w] = row[w] & ~state.mask[w]
                for w in range(state.inner):
                    bits = row[w] & vertices[w]
                    while bits != 0:
                        source = reach[(((w << 6) + lowest(bits)) * SETS + side) * words :]
                        bits = without_lowest(bits)
                        for k in range(words):
                            to[k] |= source[k]
                continue
            for s in range(SIDE):
                for w in range(words):
                    to[s * words + w] = row[s * words + w] & ~state.mask[w]
            for w in range(state.inner):
                bits = row[w] & vertices[w]
                while bits != 0:
                    low = wrapped(bits & -bits)
                    source = reach[(((w << 6) + lowest(bits)) * SETS + side) * words :]
                    bits ^= low
                    constant = -1 if row[words + w] & low else 0
                    variable = -1 if row[2 * words + w] & low else 0
                    for k in range(words):
                        join_word(to[k:], source[k:], words, constant, variable)


@compiled
def _expand(state: OrdersState, depth: int, gone: int) -> None:
    """Compute the cost of each vertex of a frame's set as the last one, and sort the choices by their bounds."""
    frame, base = state.frames[depth], depth * state.vertices
    vertices = state.sets[depth * state.inner :]
    prices, least, choices = state.prices[base:], state.least[base:], state.choices[base:]
    inner, below = state.inner, base - state.vertices
    copy(state.mask, vertices, inner)
    for w in range(inner):
        bits = vertices[w]
        while bits != 0:
            v = (w << 6) + lowest(bits)
            bits = without_lowest(bits)
            for side in range(2):
                entry, old = (base + v) * 2 + side, (below + v) * 2 + side
                if depth != 0 and state.nears[old * inner + (gone >> 6)] & bit(gone & 63) == 0:
                    state.flows[entry] = state.flows[old]
                    copy(state.nears[entry * inner :], state.nears[old * inner :], inner)
                else:
                    state.flows[entry] = _flows(state, state.base, v, side * SIDE)
                    copy(state.nears[entry * inner :], state.near, inner)
            entry = (base + v) * 2
            least[v] = _product(state.flows[entry], state.flows[entry + 1], state.sizes[v])
    bound, count = _by_blocks(state, vertices, least), 0
    if bound > frame.limit:
        frame.floor = bound
        return
    _reach(state, vertices)
    for w in range(inner):
        bits = vertices[w]
        while bits != 0:
            v = (w << 6) + lowest(bits)
            bits = without_lowest(bits)
            prices[v] = cost_of(state, state.reach, v)
            # the block's bound without v
            table, had, now = (
                state.tables[state.starts[state.block[v]] :],
                state.gone[state.block[v]],
                state.sums[state.block[v]],
            )
            total = prices[v] + bound - max(table[had], now) + max(table[had - state.bit[v]], now - least[v])
            if total > frame.limit:
                frame.floor = min(frame.floor, total)
            else:
                choices[count] = total << LAST | v
                count += 1
    tried, count = count, 0
    for t in range(tried):
        v, total = choices[t] & _LAST, prices[choices[t] & _LAST]
        for k in range(_split(state, vertices, v, depth)):
            total += state.floors[base + k] >> 1
        total = max(total, choices[t] >> LAST)
        if total > frame.limit:
            frame.floor = min(frame.floor, total)
            continue
        at = count
        while at > 0 and choices[at - 1] > (total << LAST | v):
            choices[at] = choices[at - 1]
            at -= 1
        choices[at] = total << LAST | v
        count += 1
    frame.choices = count


@compiled
def _begin(state: OrdersState, depth: int, vertices: Integers, limit: int, gone: int) -> None:
    """Push a set onto the stack."""
    copy(state.sets[depth * state.inner :], vertices, state.inner)
    frame = state.frames[depth]
    frame.limit, frame.best, frame.last, frame.floor = limit, -1, 0, UNREACHED
    frame.choices, frame.choice, frame.parts, frame.part = 0, 0, 0, 0
    frame.began = state.looked_at
    state.looked_at += 1
    state.depth = depth
    _expand(state, depth, gone)


@compiled
def _next_choice(state: OrdersState, frame: SetFrame) -> None:
    frame.choice += 1
    frame.parts, frame.part = 0, 0


@compiled
def _go_on(state: OrdersState, frame: SetFrame) -> None:
    """Skip parts with known costs; store the order if no other part is left."""
    base = state.depth * state.vertices
    while frame.part < frame.parts and state.floors[base + frame.part] & 1:
        frame.part += 1
    if frame.part == frame.parts:
        frame.best, frame.limit = frame.total, frame.total - 1
        frame.last = state.choices[base + frame.choice] & _LAST
        _next_choice(state, frame)


@compiled
def _take_up(state: OrdersState, frame: SetFrame) -> None:
    """Begin with the next choice, unless its bound exceeds the limit."""
    depth = state.depth
    base = depth * state.vertices
    v = state.choices[base + frame.choice] & _LAST
    frame.parts = _split(state, state.sets[depth * state.inner :], v, depth)
    frame.part, frame.total = 0, state.prices[base + v]
    for k in range(frame.parts):
        frame.total += state.floors[base + k] >> 1
    if frame.total > frame.limit:
        frame.floor = min(frame.floor, frame.total)
        _next_choice(state, frame)
    else:
        _go_on(state, frame)


@compiled
def _end(state: OrdersState, frame: SetFrame) -> None:
    """Pop a set from the stack, and pass its result to the set below."""
    depth = state.depth
    exact = 1 if frame.best >= 0 else 0
    bound = frame.best if exact else frame.floor
    vertices = state.sets[depth * state.inner :]
    _remember(state, vertices, bound, exact, frame.last, state.looked_at - frame.began)
    state.depth = depth - 1
    if depth == 0:
        state.result, state.last = bound << 1 | exact, frame.last
        return
    below = state.frames[depth - 1]
    index = (depth - 1) * state.vertices + below.part
    below.total += bound - (state.floors[index] >> 1)
    state.floors[index] = bound << 1 | exact
    if below.total > below.limit:
        below.floor = min(below.floor, below.total)
        _next_choice(state, below)
    else:
        _go_on(state, below)


def run_orders(state: OrdersState) -> int:
    """Process `nodes` sets, starting with the one in `sets` if the stack is empty. Return 1 if more remain, else 0."""
    if state.depth < 0:
        start = _place(state, state.sets)
        if start >= 0:
            value = state.memory[start * (state.inner + VALUE) + state.inner]
            state.result, state.last = value >> LAST, value & _LAST
            if state.result & 1 or state.result >> 1 > state.frames[0].limit:
                return 0
        _begin(state, 0, state.sets, state.frames[0].limit, 0)
    until = state.looked_at + state.nodes
    while state.depth >= 0 and state.looked_at < until:
        depth = state.depth
        frame = state.frames[depth]
        base = depth * state.vertices
        if frame.choice == frame.choices:
            _end(state, frame)
        elif frame.parts == 0:
            _take_up(state, frame)
        else:
            start = base + frame.part
            limit = frame.limit - frame.total + (state.floors[start] >> 1)
            _begin(
                state, depth + 1, state.parts[start * state.inner :], limit, state.choices[base + frame.choice] & _LAST
            )
    return 1 if state.depth >= 0 else 0
