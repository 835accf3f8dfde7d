"""Compiled vertex elimination of large sparse graphs: along an order, or the cheapest vertex next (Markowitz).

Steps and ties are those of `accumulus.search.elimination`, `accumulus.search.vertex_orders` and
`accumulus.elimination.vertex`, so plans do not depend on which implementation made them; tests compare them.

Data structures. An edge is a record of one cache line in two doubly linked lists: the edges that leave its source,
and the edges that enter its target. A hash table finds an edge by its ends; columns of a row are adjacent in it, so the
products of a vertex touch few cache lines. Each vertex counts its neighbours by level of the edge, so that its cost
takes a few operations. The heap stores the position of each vertex, and moves a vertex when its cost changes.

Time: some tens of nanoseconds a product in graphs that fit the cache, some hundred beyond. Memory: 128 bytes a vertex,
128 bytes for each edge that exists at one time. The caller owns all memory, and adds more when a call asks for it.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Integers, Record, Records, State
from accumulus.native.words import shifted_right

#: Modes: load edges, eliminate in the given order, eliminate the cheapest, fill the hash table again, list the edges at
#: some vertices, write an order of equal cost.
LOAD, FOLLOW, GREEDY, REHASH, LIST, ARRANGE = range(6)
#: Results: done, the budget is used up, more edge records or more memory for steps are needed, the limit is exceeded.
DONE, PAUSED, NARROW, FULL, EXCEEDED = range(5)

#: Bits of a step in one word: product or sum, left and right reference. Also of the source and target of an edge, and
#: of a predecessor with the number of its edge.
HALF: Final = 31
LOW: Final = (1 << HALF) - 1
#: Level of loaded parallel edges whose labels add up to ±1.
UNIT_SUM: Final = 4


class Edge(Record):
    """An edge, one cache line; its number is never 0, which ends lists."""

    # source, target: its ends
    source: int
    target: int
    level: int  # of its label (`accumulus.search.elimination`); 0 if the record is free
    reference: int  # of its label, where steps are written
    # next_out, previous_out: next and previous edge that leaves the same source. In a free record,
    # `next_out` is the next free one.
    next_out: int
    previous_out: int
    # next_in, previous_in: next and previous edge that enters the same target
    next_in: int
    previous_in: int


class Vertex(Record):
    """A vertex, two cache lines."""

    # first_out, last_out, first_in: ends of the lists of its edges
    first_out: int
    last_out: int
    first_in: int
    # entering, leaving: their lengths
    entering: int
    leaving: int
    size: int  # of the vertex
    # above, above_scaled, above_varying: sizes of its predecessors by all edges, by those of levels 2 and 3, by those
    # of level 3
    above: int
    above_scaled: int
    above_varying: int
    # below, below_scaled, below_varying: the same of its successors
    below: int
    below_scaled: int
    below_varying: int
    heap_at: int  # its position in the heap, from 1; 0 if it is not in the heap
    # cost, tie, turn: its key in the heap, most significant first. The high bits of `turn` are the number of its
    # predecessors, the low bits a number that differs for all vertices.
    cost: int
    tie: int
    turn: int


class Entry(Record):
    """An entry of the hash table that finds edges by their ends.

    Attributes:
        ends: source and target in one word.
        edge: its number; 0 if the entry is free.
    """

    ends: int
    edge: int


class EliminationState(State):
    """A graph from which vertices are eliminated."""

    # vertices, edges: the graph; edges from 1 on
    vertices: Records[Vertex]
    edges: Records[Edge]
    table: Records[Entry]  # hash table of edges by their ends; its length is a power of two
    mask: int = 0  # length of the table, minus 1
    capacity: int = 0  # capacity for edges
    # live, used: number of edges, and of records that were ever used
    live: int = 0
    used: int = 0
    free: int = 0  # first free record; 0 if there is none
    order: Integers  # vertices in the order of their elimination
    # at, end: range of positions in the order
    at: int = 0
    end: int = 0
    costs: Integers = NOTHING  # of each vertex of the order that is followed
    heap: Integers = NOTHING  # vertices, the cheapest at 1, (intermediates + 1,)
    heaped: int = -1  # vertices in it; negative until it is filled
    touched: Integers = NOTHING  # neighbours of a vertex, (vertices,)
    # scratch, merged: two words for each vertex; LIST writes to `scratch`, ARRANGE reads its start vertices from it
    scratch: Integers
    merged: Integers
    loaded: Integers  # edges to load, two words each: source and target, level and reference
    every: int  # 1 if every product counts under the objective, 0 if only multiplications do
    # limit, most: largest accepted cost, and number of products
    limit: int
    most: int
    # total, tie: cost so far, under the objective and under the one that breaks ties
    total: int = 0
    tie: int = 0
    # made, removed: number of products so far, free ones included, and of edges removed with their vertices
    made: int = 0
    removed: int = 0
    budget: int = 0  # products and vertices until the kernel returns
    steps: Integers = NOTHING  # steps that the caller has not collected yet; or the recorded neighbours
    # stepped, room: their number, and the capacity
    stepped: int = 0
    room: int = 0
    next: int = 0  # reference of the next step; 0 if no steps are written
    noted: int = 0  # 1 to record the neighbours of each eliminated vertex instead of steps
    listed: int = 0  # largest number of edges that LIST writes
    # starts, earlier: for ARRANGE, the neighbours of each vertex v that were eliminated before it: from starts[v] to
    # starts[v + 1] of `earlier`; (vertices + 1,)
    starts: Integers = NOTHING
    earlier: Integers = NOTHING
    cursors: Integers = NOTHING  # for ARRANGE, progress at each vertex; −1 until it is reached
    stack: Integers = NOTHING  # for ARRANGE, (vertices,)
    mode: int = 0  # one of the modes above


# The graph: insertion, removal and look-up of edges ------------------------------------------------------------------


#: Multiplier that spreads rows over the table; entries of a row lie side by side.
SPREAD: Final = 0x2545F4914F6CDD1D


# The table ---------------------------------------------------------------------------------------------------------


@compiled
def _home(state: EliminationState, ends: int) -> int:
    """Return the first position at which the table looks for an edge."""
    return (shifted_right((ends >> HALF) * SPREAD, 20) + (ends & LOW)) & state.mask


@compiled
def _place_of(state: EliminationState, ends: int) -> int:
    """Return the position of an edge in the table, or the free position for it."""
    table, mask = state.table, state.mask
    slot = _home(state, ends)
    while table[slot].edge != 0 and table[slot].ends != ends:
        slot = (slot + 1) & mask
    return slot


@compiled
def _fill(entry: Entry, ends: int, e: int) -> None:
    """Store an edge in an entry of the table."""
    entry.ends = ends
    entry.edge = e


@compiled
def _drop(state: EliminationState, ends: int) -> None:
    """Remove an edge from the table, and move later entries so that searches still find them."""
    table, mask = state.table, state.mask
    gap = _place_of(state, ends)
    slot = (gap + 1) & mask
    while table[slot].edge != 0:
        home = _home(state, table[slot].ends)
        if (slot - home) & mask >= (slot - gap) & mask:
            _fill(table[gap], table[slot].ends, table[slot].edge)
            gap = slot
        slot = (slot + 1) & mask
    table[gap].edge = 0


@compiled
def rehash(state: EliminationState) -> None:
    """Put all edges into an empty table."""
    for e in range(1, state.used + 1):
        edge = state.edges[e]
        if edge.level != 0:
            ends = edge.source << HALF | edge.target
            _fill(state.table[_place_of(state, ends)], ends, e)


# Edges -------------------------------------------------------------------------------------------------------------


@compiled
def weigh_above(vertex: Vertex, counted: int, level: int, size: int) -> None:
    """Count a predecessor by its size and the level of its edge; levels up to `counted` are counted already."""
    vertex.above += size if counted < 1 else 0
    vertex.above_scaled += size if counted < 2 <= level else 0
    vertex.above_varying += size if counted < 3 <= level else 0


@compiled
def weigh_below(vertex: Vertex, counted: int, level: int, size: int) -> None:
    """Count a successor by its size and the level of its edge; levels up to `counted` are counted already."""
    vertex.below += size if counted < 1 else 0
    vertex.below_scaled += size if counted < 2 <= level else 0
    vertex.below_varying += size if counted < 3 <= level else 0


@compiled
def _write(state: EliminationState, is_product: int, left: int, right: int) -> int:
    """Write a step, and return its reference."""
    reference = state.next
    if reference == 0:
        return 0
    state.steps[state.stepped] = is_product << 2 * HALF | left << HALF | right
    state.stepped += 1
    state.next = reference + 1
    return reference


@compiled
def new_edge(state: EliminationState) -> int:
    """Return the number of a free record."""
    e = state.free
    if e != 0:
        state.free = state.edges[e].next_out
        return e
    state.used += 1
    return state.used


@compiled
def connect(state: EliminationState, j: int, i: int, level: int, reference: int) -> None:
    """Add an edge, or add its label to that of an existing edge."""
    edges = state.edges
    ends = j << HALF | i
    entry = state.table[_place_of(state, ends)]
    source, target = state.vertices[j], state.vertices[i]
    if entry.edge != 0:
        edge = edges[entry.edge]
        edge.reference = _write(state, 0, edge.reference, reference)
        previous = edge.level
        level = 1 if level == UNIT_SUM else max(previous, level, 2)
        if level != previous:
            edge.level = level
            weigh_below(source, previous, level, target.size)
            weigh_above(target, previous, level, source.size)
        return
    level = 1 if level == UNIT_SUM else level
    e = new_edge(state)
    _fill(entry, ends, e)
    state.live += 1
    edge = edges[e]
    edge.source, edge.target = j, i
    edge.level, edge.reference = level, reference
    # append to the edges that leave its source, as a dictionary would
    last = source.last_out
    edge.next_out, edge.previous_out = 0, last
    if last != 0:
        edges[last].next_out = e
    else:
        source.first_out = e
    source.last_out = e
    first = target.first_in
    edge.next_in, edge.previous_in = first, 0
    if first != 0:
        edges[first].previous_in = e
    target.first_in = e
    source.leaving += 1
    target.entering += 1
    weigh_below(source, 0, level, target.size)
    weigh_above(target, 0, level, source.size)


@compiled
def disconnect(state: EliminationState, e: int) -> None:
    """Remove an edge from the lists and the table, and free its record."""
    edges = state.edges
    edge = edges[e]
    j, i, level = edge.source, edge.target, edge.level
    source, target = state.vertices[j], state.vertices[i]
    _drop(state, j << HALF | i)
    before, behind = edge.previous_out, edge.next_out
    if before != 0:
        edges[before].next_out = behind
    else:
        source.first_out = behind
    if behind != 0:
        edges[behind].previous_out = before
    else:
        source.last_out = before
    before, behind = edge.previous_in, edge.next_in
    if before != 0:
        edges[before].next_in = behind
    else:
        target.first_in = behind
    if behind != 0:
        edges[behind].previous_in = before
    source.leaving -= 1
    target.entering -= 1
    weigh_below(source, 0, level, -target.size)
    weigh_above(target, 0, level, -source.size)
    edge.level, edge.next_out = 0, state.free
    state.free = e
    state.live -= 1


@compiled
def _load(state: EliminationState) -> None:
    """Load `end` edges."""
    loaded = state.loaded
    for t in range(state.end):
        ends, rest = loaded[2 * t], loaded[2 * t + 1]
        connect(state, ends >> HALF, ends & LOW, rest >> HALF, rest & LOW)


# The heap, with the position of each vertex --------------------------------------------------------------------------


@compiled
def _price(state: EliminationState, vertex: Vertex) -> None:
    """Set the key of a vertex: its present cost, under the objective and under the one that breaks ties, and its turn.

    The heap order includes the numbers of predecessors, which change before the heap does, so they are part of the key.
    """
    products = vertex.above * vertex.below * vertex.size
    constant = vertex.above_scaled - vertex.above_varying
    multiplications = (vertex.above_varying * vertex.below_scaled + constant * vertex.below_varying) * vertex.size
    vertex.cost = products if state.every != 0 else multiplications
    vertex.tie = multiplications if state.every != 0 else products
    vertex.turn = vertex.entering << HALF | vertex.turn & LOW


@compiled
def comes_before(one: Vertex, other: Vertex) -> bool:
    """Return True if a vertex precedes another in the heap: by cost, tie, fewest predecessors, nearest to the roots."""
    if one.cost != other.cost:
        return one.cost < other.cost
    if one.tie != other.tie:
        return one.tie < other.tie
    return one.turn < other.turn


@compiled
def rise(state: EliminationState, at: int) -> int:
    """Move a vertex towards the top of the heap; return its new position."""
    heap, vertices = state.heap, state.vertices
    v = heap[at]
    while at > 1:
        above = heap[at >> 1]
        if not comes_before(vertices[v], vertices[above]):
            break
        heap[at] = above
        vertices[above].heap_at = at
        at >>= 1
    heap[at] = v
    vertices[v].heap_at = at
    return at


@compiled
def sink(state: EliminationState, at: int) -> None:
    """Move a vertex away from the top of the heap."""
    heap, vertices, count = state.heap, state.vertices, state.heaped
    v = heap[at]
    while 2 * at <= count:
        below = 2 * at
        if below < count and comes_before(vertices[heap[below + 1]], vertices[heap[below]]):
            below += 1
        u = heap[below]
        if not comes_before(vertices[u], vertices[v]):
            break
        heap[at] = u
        vertices[u].heap_at = at
        at = below
    heap[at] = v
    vertices[v].heap_at = at


@compiled
def fill_heap(state: EliminationState) -> None:
    """Put all vertices of the order into the heap; among equal ones, the last one on top."""
    count = state.end
    for t in range(count):
        v = state.order[t]
        vertex = state.vertices[v]
        state.heap[t + 1] = v
        vertex.heap_at = t + 1
        vertex.turn = LOW - t
        _price(state, vertex)
    state.heaped = count
    for at in range(count >> 1, 0, -1):
        sink(state, at)


@compiled
def take_cheapest(state: EliminationState) -> None:
    """Remove the vertex on top of the heap."""
    heap, vertices, count = state.heap, state.vertices, state.heaped
    vertices[heap[1]].heap_at = 0
    state.heaped = count - 1
    if count > 1:
        heap[1] = heap[count]
        vertices[heap[1]].heap_at = 1
        sink(state, 1)


@compiled
def price_again(state: EliminationState, v: int) -> None:
    """Update the cost of a vertex, and its position in the heap if it is there."""
    vertex = state.vertices[v]
    if vertex.heap_at != 0:
        _price(state, vertex)
        sink(state, rise(state, vertex.heap_at))


# Elimination ---------------------------------------------------------------------------------------------------------


@compiled
def _sort(numbers: Integers, other: Integers, count: int) -> Integers:
    """Sort numbers by merging, with `other` as scratch memory of the same size; return the array with the result."""
    run = 1
    while run < count:
        start = 0
        while start < count:
            middle, end = min(start + run, count), min(start + 2 * run, count)
            a, b = start, middle
            for k in range(start, end):
                if a < middle and (b >= end or numbers[a] <= numbers[b]):
                    other[k] = numbers[a]
                    a += 1
                else:
                    other[k] = numbers[b]
                    b += 1
            start = end
        numbers, other = other, numbers
        run *= 2
    return numbers


@compiled
def entering(state: EliminationState, k: int) -> Integers:
    """Return the edges that enter a vertex: source in the high bits, edge number in the low bits."""
    entries, count = state.scratch, 0
    e = state.vertices[k].first_in
    while e != 0:
        edge = state.edges[e]
        entries[count] = edge.source << HALF | e
        count += 1
        e = edge.next_in
    # the order matters only if steps are written
    return _sort(entries, state.merged, count) if state.next != 0 else entries


@compiled
def _eliminate(state: EliminationState, k: int) -> None:
    """Replace the edges at k by edges from its predecessors to its successors."""
    edges, vertex = state.edges, state.vertices[k]
    entries, count = entering(state, k), vertex.entering
    for t in range(count):
        e = entries[t] & LOW
        j, level, left = edges[e].source, edges[e].level, edges[e].reference
        disconnect(state, e)
        f = vertex.first_out
        while f != 0:
            edge = edges[f]
            f = edge.next_out
            product = _write(state, 1, left, edge.reference)
            connect(state, j, edge.target, max(level, edge.level), product)
    while vertex.first_out != 0:
        disconnect(state, vertex.first_out)


@compiled
def obstacle(state: EliminationState, k: int) -> int:
    """Count one elimination and return DONE; return the reason if a limit or memory does not allow it."""
    vertex = state.vertices[k]
    _price(state, vertex)
    removed, products = vertex.entering + vertex.leaving, vertex.entering * vertex.leaving
    if state.total + vertex.cost > state.limit or state.made + products > state.most:
        return EXCEEDED
    if state.live + products > state.capacity:
        return NARROW
    if state.next != 0 and state.stepped + 2 * products > state.room:
        return FULL
    if state.noted != 0 and state.stepped + removed > state.room:
        return FULL
    if state.budget <= 0:
        return PAUSED
    state.budget -= 1 + products
    state.total += vertex.cost
    state.tie += vertex.tie
    state.made += products
    state.removed += removed
    return DONE


@compiled
def neighbours(state: EliminationState, k: int, vertices: Integers) -> int:
    """Write the neighbours of k to an array; return their number."""
    edges, vertex, count = state.edges, state.vertices[k], 0
    e = vertex.first_in
    while e != 0:
        vertices[count] = edges[e].source
        count += 1
        e = edges[e].next_in
    e = vertex.first_out
    while e != 0:
        vertices[count] = edges[e].target
        count += 1
        e = edges[e].next_out
    return count


@compiled
def _note(state: EliminationState, k: int) -> None:
    """Record the neighbours of k, each in the bits above k."""
    noted = state.steps[state.stepped :]
    count = neighbours(state, k, noted)
    for t in range(count):
        noted[t] = noted[t] << HALF | k
    state.stepped += count


@compiled
def follow(state: EliminationState) -> int:
    """Eliminate the vertices from `at` to `end` of the order."""
    while state.at < state.end:
        k = state.order[state.at]
        problem = obstacle(state, k)
        if problem != DONE:
            return problem
        state.costs[state.at] = state.vertices[k].cost
        if state.noted != 0:
            _note(state, k)
        _eliminate(state, k)
        state.at += 1
    return DONE


@compiled
def _greedy(state: EliminationState) -> int:
    """Eliminate the cheapest vertex until none is left; write the order from `at` on."""
    touched = state.touched
    while state.heaped > 0:
        k = state.heap[1]
        problem = obstacle(state, k)
        if problem != DONE:
            return problem
        take_cheapest(state)
        count = neighbours(state, k, touched)
        _eliminate(state, k)
        for t in range(count):
            price_again(state, touched[t])
        state.order[state.at] = k
        state.at += 1
    return DONE


@compiled
def list_edges(state: EliminationState) -> int:
    """Write the edges at the vertices `at` to `end` of the order to `scratch`; return their number.

    Two words each: source and target, level. An edge between two of these vertices is written once, from its source.
    """
    order, edges, vertices, listed = state.order, state.edges, state.vertices, state.scratch
    count = 0
    for t in range(state.at, state.end):
        vertices[order[t]].turn = 1
    for t in range(state.at, state.end):
        e = vertices[order[t]].first_out
        while e != 0 and count < state.listed:
            edge = edges[e]
            listed[2 * count] = edge.source << HALF | edge.target
            listed[2 * count + 1] = edge.level
            count += 1
            e = edge.next_out
        e = vertices[order[t]].first_in
        while e != 0 and count < state.listed:
            edge = edges[e]
            if vertices[edge.source].turn != 1:
                listed[2 * count] = edge.source << HALF | edge.target
                listed[2 * count + 1] = edge.level
                count += 1
            e = edge.next_in
    for t in range(state.at, state.end):
        vertices[order[t]].turn = 0
    return count


@compiled
def arrange(state: EliminationState) -> None:
    """Write another order of equal cost: each vertex comes after all neighbours that were eliminated before it.

    A depth-first search from the `end` vertices in `scratch` brings neighbours close together.
    """
    starts, earlier, cursors, stack = state.starts, state.earlier, state.cursors, state.stack
    at = 0
    for t in range(state.end):
        v = state.scratch[t]
        if cursors[v] >= 0:
            continue
        cursors[v] = starts[v]
        stack[0] = v
        depth = 1
        while depth > 0:
            v = stack[depth - 1]
            cursor = cursors[v]
            if cursor == starts[v + 1]:
                state.order[at] = v
                at += 1
                depth -= 1
                continue
            cursors[v] = cursor + 1
            u = earlier[cursor]
            if cursors[u] < 0:
                cursors[u] = starts[u]
                stack[depth] = u
                depth += 1


def run_vertex(state: EliminationState) -> int:
    """Run `mode`; return the result, for LIST the number of edges."""
    mode = state.mode
    if mode == LOAD:
        _load(state)
    elif mode == FOLLOW:
        return follow(state)
    elif mode == GREEDY:
        if state.heaped < 0:
            fill_heap(state)
        return _greedy(state)
    elif mode == REHASH:
        rehash(state)
    elif mode == LIST:
        return list_edges(state)
    elif mode == ARRANGE:
        arrange(state)
    return DONE
