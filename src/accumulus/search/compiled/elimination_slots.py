"""Slots of the block that `accumulus.search.compiled.elimination_kernel` works on, and the fields of its records."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.large`.
EDGES, VERTICES, TABLE, ORDER, COSTS, HEAP, SCRATCH, MERGED, STEPS, LOADED = range(10)
#: Addresses for ARRANGE: of each vertex the first of its earlier neighbours, these, how far each is, a stack.
STARTS, EARLIER, CURSORS, STACK = range(27, 31)
#: Whether the neighbours of each vertex that is eliminated are noted, in place of steps.
NOTED: Final = 31
#: Products so far, whatever they cost, how many may be made, and the edges that were removed with the vertices.
MADE, MOST, REMOVED = range(32, 35)
#: Integers: what to do, sizes of the arrays, whether every product counts, limits.
MODE, CAPACITY, MASK, ROOM, EVERY, LIMIT, BUDGET = range(10, 17)
#: State: position in the order and its end, both totals, vertices in the heap, edges, records ever used, first free
#: record, steps in the buffer, and the reference of the next step (0: nothing is written).
AT, END, TOTAL, TIE, HEAPED, LIVE, USED, FREE, STEPPED, NEXT = range(17, 27)
SLOTS: Final = 35

#: What to do: take in edges, eliminate in the given order, eliminate the cheapest, fill the table anew, list the edges
#: at some vertices, write an equal order.
LOAD, FOLLOW, GREEDY, REHASH, LIST, ARRANGE = range(6)
#: How it ended: all is done, the budget is used up, there have to be more edge records or more room for steps, the
#: limit is exceeded.
DONE, PAUSED, NARROW, FULL, EXCEEDED = range(5)

#: Record of an edge; its number is never 0, which ends lists.
SOURCE, TARGET, LEVEL, REFERENCE, NEXT_OUT, PREVIOUS_OUT, NEXT_IN, PREVIOUS_IN = range(8)
EDGE: Final = 8
#: Record of a vertex: ends of its lists and their lengths, its size, sizes of its neighbours by all edges, by those of
#: levels 2 and 3, by those of level 3, its position in the heap (from 1) and its key there; in TURN, the number of its
#: predecessors is above what tells apart all others.
FIRST_OUT, LAST_OUT, FIRST_IN, ENTERING, LEAVING, SIZE, ABOVE = range(7)
BELOW: Final = 9
HEAP_AT, COST, SECOND, TURN = range(12, 16)
VERTEX: Final = 16

#: A step in one word: whether it is a product, left and right reference. Also source and target of an edge, and a
#: predecessor with the number of its edge.
HALF: Final = 31
LOW: Final = (1 << HALF) - 1
#: Multiplier that spreads rows over the table; entries of a row lie side by side.
SPREAD: Final = 0x2545F4914F6CDD1D
