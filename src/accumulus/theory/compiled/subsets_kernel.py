"""Compiled dynamic programming over sets of eliminated vertices: the best order of a graph of up to some 24 vertices.

What eliminating a vertex costs depends on the *set* eliminated before it, not on its order. So the least cost g(S) of
eliminating a set S is the least g(S - v) + cost(v after S - v), and sets in the order of their numbers (bits are
vertices) come after all of their subsets (O*(2ⁿ): Bentert, Crane, Drange, Mizutani and Sullivan, Structural Optimal
Jacobian Accumulation and Minimum Edge Count are NP-Complete Under Vertex Elimination, 2025).

A set is passed over when g(S), and what the other vertices cost at least, exceed the limit.

The graph after S is made from the graph after S without its lowest vertex. That one is still in its buffer: between
the two come only sets with lower lowest vertices. Rows are as in `accumulus.search.compiled.order_kernel`.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers
from accumulus.native.words import copy_many, lowest
from accumulus.search.compiled.order_kernel import SETS, RowsState, cost_of, eliminate

#: Sets of the first HALF vertices have their bound in `low`, of the others in `high`.
HALF: Final = 12
#: Bits of the last vertex of an order.
LAST: Final = 5
#: Entry of sets that no order within the limit reaches.
UNREACHED: Final = 1 << 62


class SubsetsState(RowsState):
    """Sets of eliminated vertices, by their bits."""

    buffers: Integers  # rows of a graph for each vertex, (vertices, vertices, SETS, words)
    owners: Integers  # the set that is gone in each of them
    # least cost of eliminating each set, and the last vertex of an order that costs that, (2**vertices,)
    table: Integers
    # low, high: what the vertices that are left cost at least, by the lower and by the higher bits of the set
    low: Integers
    high: Integers
    limit: int  # the most that an order may cost
    budget: int  # sets that a call looks at
    next: int = 0  # the first set that has not been looked at
    expanded: int = 0  # sets that were not passed over


# Search --------------------------------------------------------------------------------------------------------------


LOWER: Final = (1 << HALF) - 1


@compiled
def _graph_after(state: SubsetsState, gone: int) -> Integers:
    """Rows of the graph after a set of vertices is gone."""
    buffers, owners, mask, words = state.buffers, state.owners, state.mask, state.words
    size = state.vertices * words * SETS
    # leave out lowest vertices until there is a graph to begin with
    have = gone
    while have != 0 and owners[lowest(have)] != have:
        have &= have - 1
    rows = state.base if have == 0 else buffers[lowest(have) * size :]
    rest = gone ^ have
    everything = (1 << state.vertices) - 1
    while have != gone:
        v = 0
        bits = rest
        while bits != 0:  # the highest of the rest comes first
            v = lowest(bits)
            bits &= bits - 1
        to = buffers[v * size :]
        copy_many(to, rows, size)
        have |= 1 << v
        rest ^= 1 << v
        mask[0] = everything & ~have
        eliminate(to, v, mask, words, 1)
        owners[v] = have
        rows = to
    return rows


def perform(state: SubsetsState) -> int:
    """Look at `budget` sets from `next` on; returns the next one that has not been looked at."""
    table = state.table
    everything = (1 << state.vertices) - 1
    gone = state.next
    last = min(everything, gone + state.budget)
    while gone < last:
        known = table[gone] >> LAST
        if known + state.low[gone & LOWER] + state.high[gone >> HALF] <= state.limit:
            state.expanded += 1
            rows = _graph_after(state, gone)
            bits = everything & ~gone
            while bits != 0:
                v = lowest(bits)
                bits &= bits - 1
                entry = ((known + cost_of(state, rows, v)) << LAST) | v
                table[gone | (1 << v)] = min(entry, table[gone | (1 << v)])
        gone += 1
    state.next = gone
    return gone
