"""Slots of the block that `accumulus.search.compiled.sharing_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.sharing`.
BASE, ROWS, SCRATCH, ORDER, BEST_ORDER, PASSED, TRIED, VALUES, GUARDS, KEYS, NODES, CONSTANT = range(12)
ENTRIES, LOG, THRESHOLDS = range(12, 15)
#: Integers: sizes of the problem and of the arrays, visits to make.
VERTICES, ALL, WORDS, FIRST, KEY_BITS, NODE_LIMIT, LOG_LIMIT, ENTRY_COUNT, WINDOW, VISITS = range(15, 25)
#: State of a run: position, costs, next free node, length of the log, random numbers.
AT, COST, TOTAL, BEST, NEXT, LOGGED, RANDOM = range(25, 32)
#: Floats: temperature and its factor per visit.
TEMPERATURE, COOLING = range(32, 34)
SLOTS: Final = 34

#: What a key says beside the numbers of two nodes. SIGN_BIT is set if the operands have different signs and
#: that matters.
PRODUCT, SUM, DIFFERENCE, SELECT, NEGATIVE, GUARD = range(1, 7)
#: Bits of a node's number in a key, and the multiplier that spreads keys.
NODE_BITS: Final = 29
SIGN_BIT: Final = 62
SPREAD: Final = 0x2545F4914F6CDD1D
#: A guard is a set of conditions: bit 2c for condition c, bit 2c+1 for its opposite. What is beyond is not
#: known as a condition.
CONDITIONS: Final = NODE_BITS
EVEN: Final = 0x5555555555555555
#: -ln of the middles of THRESHOLD_COUNT equal parts of (0, 1).
THRESHOLD_COUNT: Final = 1024
