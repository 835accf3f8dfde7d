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

from accumulus.native.memory import compiled, copy, get, lowest, put
from accumulus.search.compiled.order_kernel import SETS, cost_of, eliminate
from accumulus.search.compiled.subsets_slots import (
    BASE,
    BUDGET,
    BUFFERS,
    EXPANDED,
    HALF,
    HIGH,
    LIMIT,
    LOW,
    MASK,
    NEXT,
    OWNERS,
    SIZES,
    TABLE,
    VERTICES,
    WORDS,
)

__all__ = ["prove"]

LOWER: Final = (1 << HALF) - 1


@compiled
def graph_after(block: int, gone: int) -> int:
    """Rows of the graph after a set of vertices is gone."""
    base, buffers, owners = get(block, BASE), get(block, BUFFERS), get(block, OWNERS)
    mask, words = get(block, MASK), get(block, WORDS)
    size = get(block, VERTICES) * words * SETS
    # leave out lowest vertices until there is a graph to begin with
    have = gone
    while have != 0 and get(owners, lowest(have)) != have:
        have &= have - 1
    rows = base if have == 0 else buffers + lowest(have) * size * 8
    rest = gone ^ have
    everything = (1 << get(block, VERTICES)) - 1
    while have != gone:
        v = 0
        bits = rest
        while bits != 0:  # the highest of the rest comes first
            v = lowest(bits)
            bits &= bits - 1
        to = buffers + v * size * 8
        copy(to, rows, size)
        have |= 1 << v
        rest ^= 1 << v
        put(mask, 0, everything & ~have)
        eliminate(to, v, mask, words, 1)
        put(owners, v, have)
        rows = to
    return rows


def prove(block: int) -> int:
    """Look at BUDGET sets from NEXT on; returns the next one that has not been looked at."""
    table, words, sizes = get(block, TABLE), get(block, WORDS), get(block, SIZES)
    low, high, limit = get(block, LOW), get(block, HIGH), get(block, LIMIT)
    everything = (1 << get(block, VERTICES)) - 1
    gone = get(block, NEXT)
    last = min(everything, gone + get(block, BUDGET))
    while gone < last:
        known = get(table, gone)
        if known + get(low, gone & LOWER) + get(high, gone >> HALF) <= limit:
            put(block, EXPANDED, get(block, EXPANDED) + 1)
            rows = graph_after(block, gone)
            bits = everything & ~gone
            while bits != 0:
                v = lowest(bits)
                bits &= bits - 1
                cost = known + cost_of(rows, v, words, sizes, block)
                if cost < get(table, gone | (1 << v)):
                    put(table, gone | (1 << v), cost)
        gone += 1
    put(block, NEXT, gone)
    return gone
