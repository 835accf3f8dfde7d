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

from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.objective import Objective
from accumulus.search.compiled import order_slots as slot
from accumulus.search.elimination import Cost, Elimination
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
        block = self._block = Block(slot.SLOTS)
        block.point(slot.BASE, rows)
        for name in (slot.ROWS, slot.SCRATCH):
            block.point(name, np.empty_like(rows))
        self._order = block.point(slot.ORDER, np.zeros(count, np.int64))
        self._best_order = block.point(slot.BEST_ORDER, np.zeros(count, np.int64))
        for name in (slot.COSTS, slot.CHANGED, slot.OWN, slot.STACK, slot.WAITING, slot.SPARE):
            block.point(name, np.zeros(count + 1, np.int64))
        block.point(slot.SUMS, np.zeros(count + 1))
        block.point(slot.MASK, np.zeros(words, np.int64))
        block.point(slot.TABLE, np.exp(-np.arange(slot.TABLE_LENGTH) / slot.TABLE_STEP))
        if not objective.on_tape and (sizes != 1).any():  # operations count the entries of vectors as one
            block.point(slot.SIZES, sizes)
        first, tie = 1 << slot.SHIFT, 1
        products, multiplications = objective.ranked(first, tie)
        values = block.integers
        values[[slot.VERTICES, slot.WORDS, slot.WINDOW]] = count, words, WINDOW
        values[[slot.PRODUCTS, slot.MULTIPLICATIONS]] = products, multiplications
        values[slot.BEST] = np.iinfo(np.int64).max
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
        return _costs(int(self._block.integers[slot.BEST])), self._named(self._best_order)

    def run(self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float = 1.0) -> Iterator[int]:
        """Anneal once; yields the best cost of all runs after each slice.

        Args:
            start: order of the graph's vertices; those that are not on any path are passed over.
            visits: vertices taken out and put back, twice each.
            heat: factor of the temperature at the start; a small one keeps most of the start.
        """
        integers, floats = self._block.integers, self._block.floats
        scale = max(1.0, self._set(start) / self.count / 4)
        floats[[slot.PRIMARY, slot.SECONDARY]] = 1 / scale, TIE / scale
        floats[slot.TEMPERATURE] = HOT * heat
        floats[slot.COOLING] = (COLD / (HOT * heat)) ** (1 / max(1, visits))
        integers[slot.RANDOM] = seed_of(*seed)
        visits_of_slice = max(1, int(self.count * self.sweeps_in(SLICE)))
        while visits > 0:
            integers[slot.VISITS] = min(visits_of_slice, visits)
            visits -= visits_of_slice
            yield _costs(self._run(self._block.address))[0]

    def _set(self, start: Sequence[int]) -> int:
        """Begin with an order; returns its cost."""
        integers = self._block.integers
        self._order[:] = [self._number[v] for v in start if v in self._number]
        integers[[slot.AT, slot.VISITS, slot.SWEEPS]] = -1, 0, 0
        self._run(self._block.address)
        return _costs(int(integers[slot.TOTAL]))[0]

    def _named(self, order: NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(self._vertices[k] for k in order.tolist())


def seed_of(*parts: int) -> int:
    """A random 62-bit number that depends on all parts, never 0."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2 | 1


def _costs(total: int) -> Cost:
    first = (total + (1 << (slot.SHIFT - 1))) >> slot.SHIFT
    return first, total - (first << slot.SHIFT)
