"""What `accumulus.theory.compiled.subsets_kernel` works on."""

from __future__ import annotations

from typing import Final

from accumulus.native.state import Integers
from accumulus.search.compiled.order_state import RowsState

__all__ = ["HALF", "UNREACHED", "SubsetsState"]

#: Sets of the first HALF vertices have their bound in `low`, of the others in `high`.
HALF: Final = 12
#: Cost of sets that no order within the limit reaches.
UNREACHED: Final = 1 << 62


class SubsetsState(RowsState):
    """Sets of eliminated vertices, by their bits.

    Attributes:
        buffers: rows of a graph for each vertex, (vertices, vertices, SETS, words).
        owners: the set that is gone in each of them.
        table: least cost of eliminating each set, (2**vertices,).
        low, high: what the vertices that are left cost at least, by the lower and by the higher bits of the set.
        limit: the most that an order may cost.
        budget: sets that a call looks at.
        next: the first set that has not been looked at.
        expanded: sets that were not passed over.
    """

    buffers: Integers
    owners: Integers
    table: Integers
    low: Integers
    high: Integers
    limit: int
    budget: int
    next: int = 0
    expanded: int = 0
