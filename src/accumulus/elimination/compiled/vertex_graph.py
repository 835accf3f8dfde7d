"""The graph of `accumulus.elimination.compiled.vertex_kernel`: edges come, go, and are found by their ends."""

from __future__ import annotations

from typing import Final

from accumulus.elimination.compiled.vertex_state import HALF, LOW, EliminationState, Entry, Vertex
from accumulus.native.decorators import compiled
from accumulus.native.words import shifted_right

__all__ = ["connect", "disconnect", "load", "rehash", "write"]

#: Multiplier that spreads rows over the table; entries of a row lie side by side.
SPREAD: Final = 0x2545F4914F6CDD1D


# The table ---------------------------------------------------------------------------------------------------------


@compiled
def home(state: EliminationState, ends: int) -> int:
    """Where the table looks for an edge first."""
    return (shifted_right((ends >> HALF) * SPREAD, 20) + (ends & LOW)) & state.mask


@compiled
def place_of(state: EliminationState, ends: int) -> int:
    """Where the table holds an edge, or would hold it."""
    table, mask = state.table, state.mask
    place = home(state, ends)
    while table[place].edge != 0 and table[place].ends != ends:
        place = (place + 1) & mask
    return place


@compiled
def fill(entry: Entry, ends: int, e: int) -> None:
    """Let an entry of the table be that of an edge."""
    entry.ends = ends
    entry.edge = e


@compiled
def drop(state: EliminationState, ends: int) -> None:
    """Take an edge out of the table, and move up those behind it that would not be found otherwise."""
    table, mask = state.table, state.mask
    gap = place_of(state, ends)
    place = (gap + 1) & mask
    while table[place].edge != 0:
        wanted = home(state, table[place].ends)
        if (place - wanted) & mask >= (place - gap) & mask:
            fill(table[gap], table[place].ends, table[place].edge)
            gap = place
        place = (place + 1) & mask
    table[gap].edge = 0


@compiled
def rehash(state: EliminationState) -> None:
    """Put all edges into an empty table."""
    for e in range(1, state.used + 1):
        edge = state.edges[e]
        if edge.level != 0:
            ends = edge.source << HALF | edge.target
            fill(state.table[place_of(state, ends)], ends, e)


# Edges -------------------------------------------------------------------------------------------------------------


@compiled
def weigh_above(vertex: Vertex, known: int, level: int, size: int) -> None:
    """Count a predecessor of that size, by an edge of that level; up to the level `known` it is counted already."""
    vertex.above += size if known < 1 else 0
    vertex.above_scaled += size if known < 2 <= level else 0
    vertex.above_varying += size if known < 3 <= level else 0


@compiled
def weigh_below(vertex: Vertex, known: int, level: int, size: int) -> None:
    """Count a successor likewise."""
    vertex.below += size if known < 1 else 0
    vertex.below_scaled += size if known < 2 <= level else 0
    vertex.below_varying += size if known < 3 <= level else 0


@compiled
def write(state: EliminationState, is_product: int, left: int, right: int) -> int:
    """Note a step, and return its reference."""
    reference = state.next
    if reference == 0:
        return 0
    state.steps[state.stepped] = is_product << 2 * HALF | left << HALF | right
    state.stepped += 1
    state.next = reference + 1
    return reference


@compiled
def new_edge(state: EliminationState) -> int:
    """Number of a record that is free."""
    e = state.free
    if e != 0:
        state.free = state.edges[e].next_out
        return e
    state.used += 1
    return state.used


@compiled
def connect(state: EliminationState, j: int, i: int, level: int, reference: int) -> None:
    """Add an edge, or add it up with the one that is there."""
    edges = state.edges
    ends = j << HALF | i
    entry = state.table[place_of(state, ends)]
    source, target = state.vertices[j], state.vertices[i]
    if entry.edge != 0:
        edge = edges[entry.edge]
        edge.reference = write(state, 0, edge.reference, reference)
        known = edge.level
        level = max(known, level, 2)
        if level != known:
            edge.level = level
            weigh_below(source, known, level, target.size)
            weigh_above(target, known, level, source.size)
        return
    e = new_edge(state)
    fill(entry, ends, e)
    state.live += 1
    edge = edges[e]
    edge.source, edge.target = j, i
    edge.level, edge.reference = level, reference
    # behind the others that leave its source, as in a dictionary
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
    """Take an edge out of everything, and free its record."""
    edges = state.edges
    edge = edges[e]
    j, i, level = edge.source, edge.target, edge.level
    source, target = state.vertices[j], state.vertices[i]
    drop(state, j << HALF | i)
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
def load(state: EliminationState) -> None:
    """Take in `end` edges."""
    loaded = state.loaded
    for t in range(state.end):
        ends, rest = loaded[2 * t], loaded[2 * t + 1]
        connect(state, ends >> HALF, ends & LOW, rest >> HALF, rest & LOW)
