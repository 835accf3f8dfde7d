"""Simulated annealing over the vertex orders of one graph: what the compiled kernel works on, and how it is driven.

A run cools geometrically from HOT to COLD, in units of what a vertex costs on average. It proceeds in slices of a few
milliseconds; between them the caller looks at the clock, and Ctrl-C is heard.

Deterministic: what a run finds depends on its start, its seed and its number of visits, not on where it is cut
into slices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.vertex import Cost
from accumulus.native.machine import kernel
from accumulus.objective import Objective
from accumulus.search.compiled.order_state import SHIFT, TABLE_LENGTH, TABLE_STEP, OrderState
from accumulus.search.elimination import Elimination
from accumulus.search.encoding import BitRows

__all__ = ["LARGEST", "Annealing", "seed_of"]

#: Intermediates, at most: beyond, bitset rows take too much memory and time.
LARGEST: Final = 4_000
#: Costs, at most, for two totals to fit one integer with room for worse orders.
DEAREST: Final = 1 << 27
#: Vertices behind its own place among which one is placed, at most.
WINDOW: Final = 128
#: Temperatures at the start and at the end of a run.
HOT: Final = 2.0
COLD: Final = 0.05
#: Weight of the total that breaks ties. It gives plateaus of the first total a slope.
TIE: Final = 0.125
#: Seconds of a slice, after which whoever drives this looks at the clock.
SLICE: Final = 4e-3
#: Seconds of a step on a machine of today: at least, and more for each word of a row.
STEP: Final = (25e-9, 6e-9)


class Annealing:
    """Annealing of one graph; the graph and the objective are fixed, the start of each run is not.

    Args:
        state: the graph, nothing eliminated; at least two intermediates.
        objective: "operations" anneals multiplications.
        start: an order to begin with.
    """

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
        self._set(start)

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds / (self._sweep_steps * (STEP[0] + STEP[1] * self._words))

    @property
    def least(self) -> int:
        """Cost of the best order so far, under the objective."""
        return self.best[0][0]

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """The best order of all runs so far, and its cost."""
        return _costs(self._state.best), self._named(self._state.best_order)

    def run(self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float = 1.0) -> Iterator[int]:
        """Anneal once; yields the best cost of all runs after each slice.

        Args:
            start: order of the graph's vertices; those that are not on any path are passed over.
            visits: vertices taken out and put back, twice each.
            heat: factor of the temperature at the start; a small one keeps most of the start.
        """
        state = self._state
        scale = max(1.0, self._set(start) / self.count / 4)
        state.primary, state.secondary = 1 / scale, TIE / scale
        state.temperature = HOT * heat
        state.cooling = (COLD / (HOT * heat)) ** (1 / max(1, visits))
        state.random[0] = seed_of(*seed)
        visits_of_slice = max(1, int(self.count * self.sweeps_in(SLICE)))
        while visits > 0:
            state.visits = min(visits_of_slice, visits)
            visits -= visits_of_slice
            yield _costs(self._run(self._state.address))[0]

    def _set(self, start: Sequence[int]) -> int:
        """Begin with an order; returns its cost."""
        state = self._state
        state.order[:] = [self._number[v] for v in start if v in self._number]
        state.at, state.visits, state.sweeps = -1, 0, 0
        self._run(self._state.address)
        return _costs(state.total)[0]

    def _named(self, order: NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(self._vertices[k] for k in order.tolist())


def seed_of(*parts: int) -> int:
    """A random 62-bit number that depends on all parts, never 0."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2 | 1


def _costs(total: int) -> Cost:
    first = (total + (1 << (SHIFT - 1))) >> SHIFT
    return first, total - (first << SHIFT)
