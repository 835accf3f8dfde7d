"""Slots of the block that `accumulus.search.sharing_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.sharing`.
BASE, ROWS, SCRATCH, ORDER, BEST_ORDER, PASSED, TRIED, VALUES, KEYS, NODES, CONSTANT, SWITCH, INNER, USED = range(14)
ENTRIES, LOG, THRESHOLDS = range(14, 17)
#: Integers: sizes of the problem and of the arrays, visits to make.
VERTICES, ALL, WORDS, FIRST, KEY_BITS, NODE_LIMIT, LOG_LIMIT, ENTRY_COUNT, WINDOW, VISITS = range(17, 27)
#: State of a run: position, costs, next free node, length of the log, random numbers.
AT, COST, TOTAL, BEST, NEXT, LOGGED, RANDOM = range(27, 34)
#: Floats: temperature and its factor per visit.
TEMPERATURE, COOLING = range(34, 36)
SLOTS: Final = 36

#: What a key says, beside the numbers of two nodes.
PRODUCT, SUM, DIFFERENCE, SELECT, AND = range(1, 6)
#: Bits of a node's number in a key, and the multiplier that spreads keys.
NODE_BITS: Final = 29
SPREAD: Final = 0x2545F4914F6CDD1D
#: -ln of the middles of THRESHOLD_COUNT equal parts of (0, 1).
THRESHOLD_COUNT: Final = 1024
