"""The heap of `accumulus.elimination.compiled.vertex_kernel`: it knows where each vertex is, and moves it."""

from __future__ import annotations

from accumulus.elimination.compiled.vertex_state import HALF, LOW, EliminationState, Vertex
from accumulus.native.decorators import compiled

__all__ = ["fill_heap", "price", "price_again", "take_cheapest"]


@compiled
def price(state: EliminationState, vertex: Vertex) -> None:
    """Set the key of a vertex: what it costs now, under the objective and under the one that breaks ties, and its turn.

    Its neighbours' numbers of predecessors change before they are moved in the heap, so that is part of the key, too.
    """
    products = vertex.above * vertex.below * vertex.size
    constant = vertex.above_scaled - vertex.above_varying
    multiplications = (vertex.above_varying * vertex.below_scaled + constant * vertex.below_varying) * vertex.size
    vertex.cost = products if state.every != 0 else multiplications
    vertex.tie = multiplications if state.every != 0 else products
    vertex.turn = vertex.entering << HALF | vertex.turn & LOW


@compiled
def comes_before(one: Vertex, other: Vertex) -> bool:
    """Whether a vertex comes before another in the heap: cost, tie, fewest predecessors, nearest to the roots."""
    if one.cost != other.cost:
        return one.cost < other.cost
    if one.tie != other.tie:
        return one.tie < other.tie
    return one.turn < other.turn


@compiled
def rise(state: EliminationState, at: int) -> int:
    """Move a vertex towards the top of the heap; returns where it ends."""
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
    """All vertices of the order into the heap; of equal ones the last comes first."""
    count = state.end
    for t in range(count):
        v = state.order[t]
        vertex = state.vertices[v]
        state.heap[t + 1] = v
        vertex.heap_at = t + 1
        vertex.turn = LOW - t
        price(state, vertex)
    state.heaped = count
    for at in range(count >> 1, 0, -1):
        sink(state, at)


@compiled
def take_cheapest(state: EliminationState) -> None:
    """Take the vertex on the top out of the heap."""
    heap, vertices, count = state.heap, state.vertices, state.heaped
    vertices[heap[1]].heap_at = 0
    state.heaped = count - 1
    if count > 1:
        heap[1] = heap[count]
        vertices[heap[1]].heap_at = 1
        sink(state, 1)


@compiled
def price_again(state: EliminationState, v: int) -> None:
    """Move a vertex in the heap to where its cost belongs now, if it is there."""
    vertex = state.vertices[v]
    if vertex.heap_at != 0:
        price(state, vertex)
        sink(state, rise(state, vertex.heap_at))
