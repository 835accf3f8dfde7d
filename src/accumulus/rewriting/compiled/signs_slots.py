"""Slots of the block that `accumulus.rewriting.compiled.signs_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Addresses of arrays over nodes: kind, three arguments, sign of the definition, sign that it is computed with, first
#: use; over arguments: the next use of the same node; -ln of random numbers.
KINDS, ARGUMENTS, OWN, SPINS, HEADS, NEXTS, THRESHOLDS = range(7)
#: Integers: number of nodes that are computed, of all with the outputs, visits to make, random numbers.
NODES, ALL, VISITS, RANDOM = range(7, 11)
#: Floats: temperature and its factor per visit.
TEMPERATURE, COOLING = range(11, 13)
SLOTS: Final = 13

#: Kinds of nodes. Of a free one no sign is wrong: a constant among its arguments takes any.
FREE, PRODUCT, SUM, SELECT, ODD, EVEN, OTHER, OUTPUT = range(8)
THRESHOLD_COUNT: Final = 1024
