"""What `accumulus.elimination.compiled.vertex_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import NOTHING, Integers, Record, Records, State

__all__ = [
    "ARRANGE",
    "DONE",
    "EXCEEDED",
    "FOLLOW",
    "FULL",
    "GREEDY",
    "HALF",
    "LIST",
    "LOAD",
    "LOW",
    "NARROW",
    "PAUSED",
    "REHASH",
    "Edge",
    "EliminationState",
    "Entry",
    "Vertex",
]

#: What to do: take in edges, eliminate in the given order, eliminate the cheapest, fill the table anew, list the edges
#: at some vertices, write an equal order.
LOAD, FOLLOW, GREEDY, REHASH, LIST, ARRANGE = range(6)
#: How it ended: all is done, the budget is used up, there have to be more edge records or more room for steps, the
#: limit is exceeded.
DONE, PAUSED, NARROW, FULL, EXCEEDED = range(5)

#: A step in one word: whether it is a product, left and right reference. Also source and target of an edge, and a
#: predecessor with the number of its edge.
HALF: Final = 31
LOW: Final = (1 << HALF) - 1


class Edge(Record):
    """An edge, one cache line; its number is never 0, which ends lists.

    Attributes:
        source, target: its ends.
        level: of its label (`accumulus.search.elimination`); 0 if the record is free.
        reference: of its label, where steps are written.
        next_out, previous_out: the edges behind and before it among those that leave its source. Of a free record,
            `next_out` is the next free one.
        next_in, previous_in: the same among those that enter its target.
    """

    source: int
    target: int
    level: int
    reference: int
    next_out: int
    previous_out: int
    next_in: int
    previous_in: int


class Vertex(Record):
    """A vertex, two cache lines.

    Attributes:
        first_out, last_out, first_in: ends of the lists of its edges.
        entering, leaving: their lengths.
        size: of the vertex.
        above, above_scaled, above_varying: sizes of its predecessors by all edges, by those of levels 2 and 3, by those
            of level 3.
        below, below_scaled, below_varying: the same of its successors.
        heap_at: its position in the heap, from 1; 0 if it is not there.
        cost, tie, turn: its key in the heap, most significant first. In `turn`, the number of its predecessors is above
            what tells apart all others.
    """

    first_out: int
    last_out: int
    first_in: int
    entering: int
    leaving: int
    size: int
    above: int
    above_scaled: int
    above_varying: int
    below: int
    below_scaled: int
    below_varying: int
    heap_at: int
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
    """A graph from which vertices are eliminated.

    Attributes:
        vertices, edges: the graph; edges from 1 on.
        table: finds edges by their ends; as many entries as a power of two says.
        mask: that number less 1.
        capacity: edges that there is room for.
        live, used: edges that there are, and records that were ever used.
        free: the first record that was used and is free; 0 if there is none.
        order: vertices, in the order in which they go.
        at, end: position in the order, and where it ends.
        costs: of each vertex of the order that is followed.
        heap: vertices, the cheapest at 1, (intermediates + 1,).
        heaped: vertices in it; negative until it is filled.
        touched: neighbours of a vertex, (vertices,).
        scratch, merged: room for two words a vertex, and what LIST writes and ARRANGE begins with.
        loaded: edges to take in, two words each: source and target, level and reference.
        every: 1 if every product counts under the objective, 0 if only multiplications do.
        limit, most: what all vertices may cost, and how many products they may make.
        total, tie: cost so far, under the objective and under the one that breaks ties.
        made, removed: products so far, whatever they cost, and the edges that went with the vertices.
        budget: products and vertices until the kernel returns.
        steps: steps that wait to be taken away; or the noted neighbours.
        stepped, room: their number, and how many there can be.
        next: reference of the next step; 0 if no steps are written.
        noted: 1 if the neighbours of each vertex that is eliminated are noted, in place of steps.
        listed: edges that LIST writes, at most.
        starts, earlier: for ARRANGE, the neighbours of each vertex v that went before it: from starts[v] to
            starts[v + 1] of `earlier`; starts has one more number than there are vertices.
        cursors: for ARRANGE, how far each vertex is; −1 until it is reached.
        stack: for ARRANGE, (vertices,).
        mode: what to do.
    """

    vertices: Records[Vertex]
    edges: Records[Edge]
    table: Records[Entry]
    mask: int = 0
    capacity: int = 0
    live: int = 0
    used: int = 0
    free: int = 0
    order: Integers
    at: int = 0
    end: int = 0
    costs: Integers = NOTHING
    heap: Integers = NOTHING
    heaped: int = -1
    touched: Integers = NOTHING
    scratch: Integers
    merged: Integers
    loaded: Integers
    every: int
    limit: int
    most: int
    total: int = 0
    tie: int = 0
    made: int = 0
    removed: int = 0
    budget: int = 0
    steps: Integers = NOTHING
    stepped: int = 0
    room: int = 0
    next: int = 0
    noted: int = 0
    listed: int = 0
    starts: Integers = NOTHING
    earlier: Integers = NOTHING
    cursors: Integers = NOTHING
    stack: Integers = NOTHING
    mode: int = 0
