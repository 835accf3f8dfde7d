"""Slots of the block that `accumulus.search.compiled.faces_kernel` works on, and how it lays out its memory."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.exact.lines`.
STATES, FRAMES, MOVES, LOG, BEST_LOG, TABLE, WEIGHTS, TRACKED, SIZES, ENDS, SCRATCH = range(11)
#: Integers: the problem.
WORDS, VERTICES, TABLE_BITS, FMA, EDGES, SERIES = range(11, 17)
#: Integers: state of the search. BEST is the cost of what LOG recorded, LIMIT the most that a plan may cost.
LIMIT, BEST, BEST_LENGTH, DEPTH, LENGTH, BUDGET, TRIED, OVERFLOW = range(17, 25)
SLOTS: Final = 25

#: Vertices of a line graph, at most: they are bits of one word.
MOST: Final = 64
#: Offsets in a state: which vertices there are, the bound on what is left; for each vertex its predecessors,
#: successors, start, end and level; the tracked paths that go through it.
PRESENT, LEFT, ABOVE, BELOW, INFO, PATHS = 0, 1, 2, 2 + MOST, 2 + 2 * MOST, 2 + 3 * MOST
#: Bits of start, of end; then the level.
ID_BITS: Final = 20

#: Levels of the search, moves in each, steps of a plan, at most.
MOST_DEPTH: Final = 256
MOST_MOVES: Final = 512
MOST_STEPS: Final = 2048
#: Words of a frame: cost so far, moves, next move, steps recorded, two halves of the hash.
FRAME_COST, FRAME_MOVES, FRAME_NEXT, FRAME_LENGTH, FRAME_HASH, FRAME_HASH_2 = range(6)
FRAME: Final = 6
#: Words of a move: bound, then the two ends of a face, or an edge and its side.
MOVE: Final = 3
#: Words of an entry of the table: two halves of the hash, what is left costs at least so much; entries looked at.
ENTRY: Final = 3
PROBES: Final = 4

#: What a call says: it is over, it may go on.
DONE, MORE = range(2)
