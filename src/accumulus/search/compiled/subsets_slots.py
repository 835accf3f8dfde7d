"""Slots of the block that `accumulus.search.compiled.subsets_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.search.compiled import order_slots

#: Where `accumulus.search.compiled.order_kernel` looks for the weights of the two costs.
PRODUCTS: Final = order_slots.PRODUCTS
MULTIPLICATIONS: Final = order_slots.MULTIPLICATIONS
#: Slots that hold addresses of arrays; see `accumulus.search.exact.vertex`.
BASE, BUFFERS, OWNERS, MASK, TABLE, LOW, HIGH = range(7)
#: Integers: the problem, the most that an order may cost, the next set, how many sets a call looks at.
VERTICES, WORDS, SIZES, LIMIT, NEXT, BUDGET, EXPANDED = range(7, 14)
SLOTS: Final = order_slots.SLOTS

#: Sets of the first HALF vertices have their bound in LOW, of the others in HIGH.
HALF: Final = 12
#: Cost of sets that no order within the limit reaches.
UNREACHED: Final = 1 << 62
