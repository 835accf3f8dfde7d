"""Annealing of the vertex orders of one graph: what the compiled kernel works on, and how it is driven.

Temperatures are in units of what a vertex costs on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import Annealing
from accumulus.elimination.vertex import Cost
from accumulus.native.machine import kernel
from accumulus.objective import Objective
from accumulus.search.compiled.order_state import SHIFT, TABLE_LENGTH, TABLE_STEP, OrderState
from accumulus.search.elimination import Elimination
from accumulus.search.encoding import BitRows

__all__ = ["DEAREST", "LARGEST", "OrderAnnealing"]

#: Intermediates, at most: beyond, bitset rows take too much memory and time.
LARGEST: Final = 4_000
#: Costs, at most, for two totals to fit one integer with room for worse orders.
DEAREST: Final = 1 << 27
#: Vertices behind its own place among which one is placed, at most.
WINDOW: Final = 128
#: Weight of the total that breaks ties. It gives plateaus of the first total a slope.
TIE: Final = 0.125
#: Seconds of a slice, after which whoever drives this looks at the clock.
SLICE: Final = 4e-3
#: Seconds of a step on a machine of today: at least, and more for each word of a row.
STEP: Final = (25e-9, 6e-9)


class OrderAnnealing(Annealing):
    """Annealing of the orders of one graph. A visit takes out a vertex and puts it back, twice.

    Args:
        state: the graph, nothing eliminated; at least two intermediates.
        objective: "operations" anneals multiplications.
        start: an order to begin with; vertices that are not on any path are passed over, here and in runs.
    """

    HOT, COLD = 2.0, 0.05
    _state: OrderState

    def __init__(self, state: Elimination, objective: Objective, start: Sequence[int]) -> None:
        bits = BitRows.of(state)
        rows, sizes = bits.rows, bits.sizes
        self._vertices, self._number = state.intermediates, bits.number
        count = self.count = len(self._vertices)
        words = rows.shape[2]
        first, tie = 1 << SHIFT, 1
        products, multiplications = objective.ranked(first, tie)
        self._state = OrderState(
            base=rows,
            mask=np.zeros(words, np.int64),
            sizes=sizes,
            vertices=count,
            words=words,
            scalar=bool(objective.on_tape or (sizes == 1).all()),  # operations count the entries of vectors as one
            products=products,
            multiplications=multiplications,
            rows=np.empty_like(rows),
            scratch=np.empty_like(rows),
            order=np.zeros(count, np.int64),
            best_order=np.zeros(count, np.int64),
            costs=np.zeros(count + 1, np.int64),
            own=np.zeros(count + 1, np.int64),
            changed=np.zeros(count + 1, np.int64),
            stack=np.zeros(count + 1, np.int64),
            waiting=np.zeros(count + 1, np.int64),
            spare=np.zeros(count + 1, np.int64),
            sums=np.zeros(count + 1),
            table=np.exp(-np.arange(TABLE_LENGTH) / TABLE_STEP),
            random=np.ones(1, np.int64),
            window=WINDOW,
            best=np.iinfo(np.int64).max,
        )
        self._run = kernel("search.order")
        self._sweep_steps = 2 * count * min(WINDOW, count // 2 + 1)
        self._words: int = words
        self._begin(start)

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds / (self._sweep_steps * (STEP[0] + STEP[1] * self._words))

    @property
    def best_cost(self) -> int:
        """Cost of the best order so far, under the objective."""
        return _costs(self._state.best)[0]

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """The best order of all runs so far, and its cost."""
        return _costs(self._state.best), self._named(self._state.best_order)

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.order[:] = [self._number[v] for v in start if v in self._number]
        state.at, state.visits, state.sweeps = -1, 0, 0
        self._run(state.address)
        scale = max(1.0, _costs(state.total)[0] / self.count / 4)
        state.primary, state.secondary = 1 / scale, TIE / scale
        return 1.0  # the weights of the totals hold the unit

    def _visit(self, visits: int) -> int:
        state = self._state
        state.visits = min(visits, max(1, int(self.count * self.sweeps_in(SLICE))))
        self._run(state.address)
        return state.visits

    def _named(self, order: NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(self._vertices[k] for k in order.tolist())


def _costs(total: int) -> Cost:
    first = (total + (1 << (SHIFT - 1))) >> SHIFT
    return first, total - (first << SHIFT)
