"""Slots of the block that `accumulus.search.compiled.order_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.annealing`.
BASE, ROWS, SCRATCH, ORDER, BEST_ORDER, COSTS, CHANGED, OWN, SUMS, MASK, STACK, WAITING, SPARE, TABLE = range(14)
#: Integers: sizes of the problem, weights of the cost, visits to make.
VERTICES, WORDS, SIZES, WINDOW, PRODUCTS, MULTIPLICATIONS, VISITS = range(14, 21)
#: State of a run: position, totals, random numbers, sweeps done.
AT, TOTAL, BEST, RANDOM, SWEEPS = range(21, 26)
#: Floats: temperature and its factor per visit, weights of the two totals.
TEMPERATURE, COOLING, PRIMARY, SECONDARY = range(26, 30)
SLOTS: Final = 30

#: Two totals share an integer, so that orders are compared by the first and then by the second.
SHIFT: Final = 32
#: exp(-k / TABLE_STEP) for k < TABLE_LENGTH; what is less likely does not happen.
TABLE_STEP: Final = 16
TABLE_LENGTH: Final = 24 * TABLE_STEP
