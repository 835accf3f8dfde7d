"""Slots of the block that `accumulus.rewriting.compiled.signs_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Addresses of arrays over nodes: kind, three arguments, sign of the definition, sign that it is computed with, first
#: use; over arguments: the next use of the same node; -ln of random numbers.
KINDS, ARGUMENTS, OWN, SPINS, HEADS, NEXTS, THRESHOLDS = range(7)
#: Integers: number of nodes that may turn, of all with the outputs, visits to make, random numbers.
NODES, ALL, VISITS, RANDOM = range(7, 11)
#: Floats: temperature and its factor per visit.
TEMPERATURE, COOLING = range(11, 13)
#: Addresses, for the order of nodes: arguments of each, outputs, whether a node has been met, stack, the order.
ARITIES, ROOTS, SEEN, STACK, ORDER = range(13, 18)
#: Integers: what to do, number of outputs.
MODE, ROOT_COUNT = range(18, 20)
#: Integer: the first node that may turn.
FIRST: Final = 20
SLOTS: Final = 21

#: What to do: anneal signs; count changes; bring the nodes that outputs need into an order, arguments first.
TURN, COUNT, SORT = range(3)

#: Kinds of nodes. Of a free one no sign is wrong: a constant among its arguments takes any. An exact sum never turns.
FREE, PRODUCT, SUM, SELECT, ODD, EVEN, OTHER, OUTPUT, EXACT_SUM = range(9)
THRESHOLD_COUNT: Final = 1024
