"""Orders of symmetric elimination of one graph: what the compiled kernel works on, and how it is driven.

Temperatures are in units of what a value costs on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import Annealing, thresholds
from accumulus.elimination.symmetric import SymmetricGraph
from accumulus.graph.graph import Kind
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.objective import Objective
from accumulus.search.compiled.pairs_state import ABOVE, ANNEAL, BELOW, COST, CROSSING, GREEDY, SETS, PairsState

__all__ = ["LARGEST", "PairsAnnealing"]

#: Values, at most: beyond, bitset rows take too much memory and time.
LARGEST: Final = 2_000
#: Positions that a move changes, at most.
WINDOW: Final = 24
#: Under objectives of products, what one of them costs where an addition costs 1.
PRODUCT: Final = 64
#: Thresholds of moves, as the kernel has them.
THRESHOLDS: Final = 1024
#: Seconds of a slice, after which whoever drives this looks at the clock.
SLICE: Final = 4e-3
#: Seconds of a visit on a machine of today: at least, and more for each word of all rows.
VISIT: Final = (6e-6, 0.6e-9)


class PairsAnnealing(Annealing):
    """Annealing of the orders of one graph; a visit tries two moves.

    Args:
        graph: at least two values that are eliminated.
        objective: "operations" anneals products and additions.
    """

    HOT, COLD = 0.5, 0.01
    _state: PairsState

    def __init__(self, graph: SymmetricGraph, objective: Objective) -> None:
        self._values = graph.inner
        count = self.count = len(self._values)
        others = [v for v, is_value in enumerate(graph.values) if is_value and v in set(graph.graph.terminals)]
        number = {v: k for k, v in enumerate([*self._values, *others])}
        words = -(-len(number) // 64)
        rows = _rows(graph, number, count, words)
        inner = np.zeros((1, 64 * words), np.uint8)
        inner[0, :count] = 1
        weights = (1, 1) if objective.on_tape else (PRODUCT, 1)
        self._number = number
        self._state = PairsState(
            base=rows,
            rows=np.empty_like(rows),
            scratch=np.empty_like(rows),
            inner=_words(inner).ravel(),
            order=np.arange(count)[::-1].copy(),
            best_order=np.zeros(count, np.int64),
            costs=np.zeros(count, np.int64),
            tried=np.zeros(count, np.int64),
            thresholds=thresholds(THRESHOLDS),
            random=np.ones(1, np.int64),
            values=count,
            words=words,
            every=objective.every_product,
            products=weights[0],
            additions=weights[1],
            window=WINDOW,
            best=np.iinfo(np.int64).max,
        )
        self._kernel = kernel("search.pairs")
        self._seconds = VISIT[0] + VISIT[1] * rows.size

    def cost(self, order: Sequence[int]) -> int:
        """What an order costs, in the kernel's own units."""
        state = self._state
        state.order[:] = [self._number[v] for v in order]
        self._call(COST)
        return state.total

    def greedy(self) -> tuple[int, ...]:
        """The value of the fewest products next, the one nearest to the result among equals."""
        self._state.order[:] = np.arange(self.count)[::-1]
        self._call(GREEDY)
        return self._named(self._state.order)

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds / (self._seconds * self.count)

    @property
    def best_cost(self) -> int:
        """Cost of the best order so far, in the kernel's own units."""
        return self._state.best

    @property
    def best(self) -> tuple[int, tuple[int, ...]]:
        """The best order of all runs so far, and its cost."""
        return self._state.best, self._named(self._state.best_order)

    def forget(self) -> None:
        """Begin again: no order is the best so far."""
        self._state.best = np.iinfo(np.int64).max

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.order[:] = [self._number[v] for v in start]
        state.at, state.visits = -1, 0
        self._call(ANNEAL)
        return max(1.0, state.total / self.count)

    def _visit(self, visits: int) -> int:
        self._state.visits = min(visits, max(1, int(self.count * self.sweeps_in(SLICE))))
        self._call(ANNEAL)
        return self._state.visits

    def _call(self, mode: int) -> None:
        self._state.mode = mode
        self._kernel(self._state.address)

    def _named(self, order: Integers) -> tuple[int, ...]:
        return tuple(self._values[k] for k in order.tolist())


def _rows(graph: SymmetricGraph, number: dict[int, int], count: int, words: int) -> Integers:
    """Rows of the values that are eliminated, (count, SETS, words)."""
    kinds = graph.graph.kinds
    bits = np.zeros((SETS, count, 64 * words), np.uint8)
    for v, k in number.items():
        for i, e in graph.arguments[v].items():
            varies = kinds[e] not in (Kind.ONE, Kind.MINUS_ONE)
            bits[BELOW : BELOW + 2, k, number[i]] = 1, varies
            if number[i] < count:
                bits[ABOVE : ABOVE + 2, number[i], k] = 1, varies
        if k < count:
            for m in graph.crossing[v]:
                bits[CROSSING, k, number[m]] = 1
    return np.ascontiguousarray(_words(bits).transpose(1, 0, 2))


def _words(bits: NDArray[np.uint8]) -> Integers:
    """The last axis, of bits, as words of 64."""
    packed = np.packbits(bits, axis=-1, bitorder="little")
    found: Integers = packed.view(np.dtype(np.int64).newbyteorder("<")).astype(np.int64)
    return found
