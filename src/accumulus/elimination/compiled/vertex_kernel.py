"""Compiled vertex elimination of large sparse graphs: along an order, or the cheapest vertex next (Markowitz).

Does what `accumulus.search.elimination`, `accumulus.search.greedy` and `accumulus.elimination.vertex` do, step by step
and tie by tie, so that a plan does not depend on which of them made it; the tests hold them against each other.

State. An edge is a record of one cache line in two doubly linked lists, of those that leave its source and of those
that enter its target. A hash table finds an edge by its ends; the columns of a row lie side by side in it, so that the
products of a vertex stay in few lines (`accumulus.elimination.compiled.vertex_graph`). A vertex holds how many
neighbours it has, by level of the edge, so its cost is a few operations. The heap knows where each vertex is, and moves
it when its cost changes (`accumulus.elimination.compiled.vertex_heap`).

Time: some tens of nanoseconds a product in graphs that fit the cache, some hundred beyond. Memory: 128 bytes a vertex,
128 an edge that is there at one time. The caller owns all memory, and gives more when a call says that it is needed.
"""

from __future__ import annotations

from accumulus.elimination.compiled.vertex_graph import connect, disconnect, load, rehash, write
from accumulus.elimination.compiled.vertex_heap import fill_heap, price, price_again, take_cheapest
from accumulus.elimination.compiled.vertex_state import (
    ARRANGE,
    DONE,
    EXCEEDED,
    FOLLOW,
    FULL,
    GREEDY,
    HALF,
    LIST,
    LOAD,
    LOW,
    NARROW,
    PAUSED,
    REHASH,
    EliminationState,
)
from accumulus.native.decorators import compiled
from accumulus.native.state import Integers

__all__ = ["perform"]


@compiled
def sort(numbers: Integers, other: Integers, count: int) -> Integers:
    """Sort numbers by merging, with room for as many in `other`; returns which of the two holds them."""
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
    """Edges that enter a vertex, by their sources: the sources above the edges' numbers."""
    found, count = state.scratch, 0
    e = state.vertices[k].first_in
    while e != 0:
        edge = state.edges[e]
        found[count] = edge.source << HALF | e
        count += 1
        e = edge.next_in
    # who only counts need not care
    return sort(found, state.merged, count) if state.next != 0 else found


@compiled
def eliminate(state: EliminationState, k: int) -> None:
    """Replace the edges at k by edges from what depends on it to what it depends on."""
    edges, vertex = state.edges, state.vertices[k]
    found, count = entering(state, k), vertex.entering
    for t in range(count):
        e = found[t] & LOW
        j, level, left = edges[e].source, edges[e].level, edges[e].reference
        disconnect(state, e)
        f = vertex.first_out
        while f != 0:
            edge = edges[f]
            f = edge.next_out
            product = write(state, 1, left, edge.reference)
            connect(state, j, edge.target, max(level, edge.level), product)
    while vertex.first_out != 0:
        disconnect(state, vertex.first_out)


@compiled
def obstacle(state: EliminationState, k: int) -> int:
    """DONE if k can be eliminated now, and is counted; else what has to be done before."""
    vertex = state.vertices[k]
    price(state, vertex)
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
def neighbours(state: EliminationState, k: int, found: Integers) -> int:
    """Write the neighbours of k; returns how many there are."""
    edges, vertex, count = state.edges, state.vertices[k], 0
    e = vertex.first_in
    while e != 0:
        found[count] = edges[e].source
        count += 1
        e = edges[e].next_in
    e = vertex.first_out
    while e != 0:
        found[count] = edges[e].target
        count += 1
        e = edges[e].next_out
    return count


@compiled
def note(state: EliminationState, k: int) -> None:
    """Write the neighbours of k, each above k itself."""
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
            note(state, k)
        eliminate(state, k)
        state.at += 1
    return DONE


@compiled
def greedy(state: EliminationState) -> int:
    """Eliminate the cheapest vertex until none is left; the order is written from `at` on."""
    touched = state.touched
    while state.heaped > 0:
        k = state.heap[1]
        problem = obstacle(state, k)
        if problem != DONE:
            return problem
        take_cheapest(state)
        count = neighbours(state, k, touched)
        eliminate(state, k)
        for t in range(count):
            price_again(state, touched[t])
        state.order[state.at] = k
        state.at += 1
    return DONE


@compiled
def list_edges(state: EliminationState) -> int:
    """Write the edges at the vertices from `at` to `end` of the order to `scratch`; their number.

    Two words each: source and target, level. An edge between two of the vertices is written by its source.
    """
    order, edges, vertices, found = state.order, state.edges, state.vertices, state.scratch
    count = 0
    for t in range(state.at, state.end):
        vertices[order[t]].turn = 1
    for t in range(state.at, state.end):
        e = vertices[order[t]].first_out
        while e != 0 and count < state.listed:
            edge = edges[e]
            found[2 * count] = edge.source << HALF | edge.target
            found[2 * count + 1] = edge.level
            count += 1
            e = edge.next_out
        e = vertices[order[t]].first_in
        while e != 0 and count < state.listed:
            edge = edges[e]
            if vertices[edge.source].turn != 1:
                found[2 * count] = edge.source << HALF | edge.target
                found[2 * count + 1] = edge.level
                count += 1
            e = edge.next_in
    for t in range(state.at, state.end):
        vertices[order[t]].turn = 0
    return count


@compiled
def arrange(state: EliminationState) -> None:
    """Write another order that costs the same: each vertex after all that were its neighbours when they went.

    Depth first from the `end` vertices of `scratch`, so that what belongs together comes together.
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
            place = cursors[v]
            if place == starts[v + 1]:
                state.order[at] = v
                at += 1
                depth -= 1
                continue
            cursors[v] = place + 1
            u = earlier[place]
            if cursors[u] < 0:
                cursors[u] = starts[u]
                stack[depth] = u
                depth += 1


def perform(state: EliminationState) -> int:
    """Do what `mode` says; returns how it ended, of LIST the number of edges."""
    mode = state.mode
    if mode == LOAD:
        load(state)
    elif mode == FOLLOW:
        return follow(state)
    elif mode == GREEDY:
        if state.heaped < 0:
            fill_heap(state)
        return greedy(state)
    elif mode == REHASH:
        rehash(state)
    elif mode == LIST:
        return list_edges(state)
    elif mode == ARRANGE:
        arrange(state)
    return DONE
