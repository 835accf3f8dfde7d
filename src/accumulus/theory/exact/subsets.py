"""The best vertex order of an independent part of a graph, by dynamic programming over eliminated sets.

Drives `accumulus.theory.compiled.subsets_kernel`. Time O(2ⁿ·n) for n vertices at worst, of which the bounds leave a
part only; memory 8·2ⁿ bytes: 128 MB and some seconds at `MOST` vertices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.search.elimination import Elimination
from accumulus.search.encoding import BitRows
from accumulus.theory.bounds import least_costs
from accumulus.theory.compiled.subsets_state import HALF, UNREACHED, SubsetsState

__all__ = ["MOST", "SubsetSearch"]

#: Vertices of a part, at most.
MOST: Final = 24
#: Sets looked at by one call, some milliseconds; seconds of work of each.
_SLICE: Final = 1 << 14
_SET: Final = 3e-7


class SubsetSearch:
    """Search for the best order of a part.

    Args:
        state: the part, nothing eliminated: its intermediates are those to be eliminated.
        cost: of the best order that is known; only cheaper ones are looked for.

    Attributes:
        lower_bound: no order costs less.
        cost: of the best order that is known.
        order: the best one that was found, None if none was cheaper than what was known.
        failed: whether the part is too large, so that `run` does nothing.
    """

    def __init__(self, state: Elimination, cost: int) -> None:
        self._state = state
        self.cost = cost
        self.order: tuple[int, ...] | None = None
        self._least = least_costs(state)
        self.lower_bound = sum(self._least.values())
        self.failed = len(state.intermediates) > MOST
        self.expanded = 0

    @property
    def proven(self) -> bool:
        """Whether the best known cost is the least."""
        return self.lower_bound >= self.cost

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven; yields the best cost from time to time."""
        if self.failed or self.proven:
            return
        vertices = self._state.intermediates
        everything = (1 << len(vertices)) - 1
        search, prove = self._encoded(vertices), kernel("theory.subsets")
        table = search.table
        while prove(search.address) < everything:
            self._state.deadline.spend(_SET * _SLICE)
            yield self.cost
        self.expanded = search.expanded
        if table[everything] < self.cost:
            self.cost = int(table[everything])
            self.order = self._order(vertices, table)
        self.lower_bound = self.cost
        yield self.cost

    def _encoded(self, vertices: Sequence[int]) -> SubsetsState:
        state, count = self._state, len(vertices)
        bits = BitRows.of(state)
        words = bits.rows.shape[2]
        table: NDArray[np.int64] = np.full(1 << count, UNREACHED, np.int64)
        table[0] = 0
        low, high = (self._rest(vertices[first : first + HALF]) for first in (0, HALF))
        products, multiplications = state.objective.ranked(1, 0)
        return SubsetsState(
            base=bits.rows,
            mask=np.zeros(words, np.int64),
            sizes=bits.sizes,
            vertices=count,
            words=words,
            scalar=bool((bits.sizes == 1).all()),
            products=products,
            multiplications=multiplications,
            buffers=np.zeros((count, *bits.rows.shape), np.int64),
            owners=np.zeros(count, np.int64),
            table=table,
            low=low,
            high=high,
            limit=self.cost - 1,
            budget=_SLICE,
        )

    def _rest(self, vertices: Sequence[int]) -> NDArray[np.int64]:
        """What those vertices that are left cost at least, by the set that is gone."""
        rest: NDArray[np.int64] = np.zeros(1, np.int64)
        for v in vertices:
            rest = np.concatenate([rest + self._least[v], rest])
        return rest

    def _order(self, vertices: Sequence[int], table: NDArray[np.int64]) -> tuple[int, ...]:
        """The order whose costs add up to the table's last entry, from its end."""
        gone = (1 << len(vertices)) - 1
        order: list[int] = []
        while gone:
            for k, v in enumerate(vertices):
                before = gone & ~(1 << k)
                if before != gone and table[before] <= table[gone]:
                    price = self._price(v, [u for t, u in enumerate(vertices) if before >> t & 1])
                    if table[before] + price == table[gone]:
                        order.append(v)
                        gone = before
                        break
        return tuple(reversed(order))

    def _price(self, v: int, gone: Sequence[int]) -> int:
        now = self._state
        edges = [(j, i, level) for j, row in enumerate(now.successors) for i, level in row.items()]
        state = Elimination.of_edges(edges, now.sizes, now.intermediates, now.objective)
        for u in gone:
            state.eliminate(u)
        return state.cost(v)[0]
