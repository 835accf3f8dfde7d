"""Annealing of a vertex order under the operations of the emitted tape, equal ones counted once: how the kernel
is driven.

Deterministic like `accumulus.search.annealing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.graph.degrees import members
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import kernel
from accumulus.search.annealing import seed_of
from accumulus.search.compiled.sharing_state import SPREAD, THRESHOLD_COUNT, SharingState
from accumulus.search.elimination import Elimination
from accumulus.search.encoding import BitRows
from accumulus.search.nodes import Nodes

__all__ = ["MOST_PRODUCTS", "MOST_VERTICES", "Sharing"]

#: Vertices and products, at most, of graphs that are searched.
MOST_VERTICES: Final = 1_500
MOST_PRODUCTS: Final = 20_000
#: Operations that a move may cost at the start and at the end of a run.
HOT: Final = 1.0
COLD: Final = 0.15
#: Places by which a vertex moves, at most; half of the moves are within eight.
WINDOW: Final = 64
#: Count of an order of far more products than were expected, for which there is no room.
UNCOUNTED: Final = 1 << 41
#: Seconds of a slice, after which whoever drives this looks at the clock.
SLICE: Final = 4e-3
#: Products a second, at least, on a machine of today.
SPEED: Final = 100e6


class Sharing:
    """Annealing of one graph under "operations".

    Args:
        graph: the graph.
        state: the same, nothing eliminated; at least two intermediates.
        products: of an order such as those to be searched; room is made for a few times as many.
    """

    def __init__(self, graph: DifferentiationGraph, state: Elimination, products: int) -> None:
        self._products = products
        bits = BitRows.of(state)
        self._vertices, self._number = state.intermediates, bits.number
        count = self.count = len(self._vertices)
        every, words = len(bits.number), bits.rows.shape[2]
        nodes = Nodes(graph)
        values, guards = np.zeros((2, every, every), np.int64)
        for e in graph.live_edges.nonzero()[0].tolist():
            place = self._number[int(graph.sources[e])], self._number[int(graph.targets[e])]
            value, guard = nodes.labels[e]
            old = int(values[place])
            values[place] = nodes.add(old, value) if old else value
            guards[place] = guards[place] & guard if old else guard
        places = [self._number[root] * every + self._number[terminal] for root, terminal in _nonzeros(graph, state)]
        nodes_limit = nodes.count + 12 * products + 1_000
        log_limit = 16 * products + 1_000
        most_nodes = nodes_limit + 3 * len(places)  # entries may have to be closed
        key_bits = (2 * most_nodes).bit_length()
        keys, numbers = np.zeros((2, 1 << key_bits), np.int64)
        _insert(nodes.keys, keys, numbers, key_bits)
        constant = np.zeros(most_nodes, np.int64)
        constant[sorted(nodes.constants)] = 1
        base = np.ascontiguousarray(bits.rows[:, [0, 3]])
        self._state = SharingState(
            base=base,
            rows=np.empty_like(base),
            scratch=np.empty_like(base),
            vertices=count,
            every=every,
            words=words,
            values=values,
            guards=guards,
            entries=np.array(places, np.int64),
            entry_count=len(places),
            order=np.zeros(count, np.int64),
            best_order=np.zeros(count, np.int64),
            passed=np.zeros(count, np.int64),
            tried=np.zeros(count, np.int64),
            keys=keys,
            nodes=numbers,
            key_bits=key_bits,
            constant=constant,
            first=nodes.count,
            node_limit=nodes_limit,
            log_limit=log_limit,
            log=np.zeros(2 * (log_limit + 3 * len(places)), np.int64),
            thresholds=-np.log((np.arange(THRESHOLD_COUNT) + 0.5) / THRESHOLD_COUNT),
            random=np.zeros(1, np.int64),
            window=WINDOW,
            best=UNCOUNTED,
        )
        self._run = kernel("search.sharing")

    @property
    def least(self) -> int:
        """Operations of the best order so far."""
        return self._state.best

    @property
    def best(self) -> tuple[int, tuple[int, ...]]:
        """The best order of all runs so far, and its operations beyond those of the function and its partials."""
        return self.least, tuple(self._vertices[k] for k in self._state.best_order.tolist())

    def count_operations(self, order: Sequence[int]) -> int:
        """The operations of an order as the kernel counts them, UNCOUNTED if there is no room for them."""
        state = self._state
        state.order[:] = [self._number[v] for v in order if v in self._number]
        state.at, state.total, state.visits = -1, UNCOUNTED, 1
        self._run(state.address)
        return state.total

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds * SPEED / ((200 + self._products) * self.count)

    def run(self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float = 1.0) -> Iterator[int]:
        """Anneal once from an order; yields the least count of all runs after each slice."""
        state = self._state
        if self.count_operations(start) == UNCOUNTED:
            return
        state.random[0] = seed_of(*seed)
        state.temperature = HOT * heat
        state.cooling = (COLD / (HOT * heat)) ** (1 / max(1, visits))
        visits_of_slice = max(1, int(self.count * self.sweeps_in(SLICE)))
        while visits > 0:
            state.visits = min(visits_of_slice, visits)
            visits -= visits_of_slice
            yield self._run(state.address)


def _nonzeros(graph: DifferentiationGraph, state: Elimination) -> list[tuple[int, int]]:
    """Root and terminal of each structural nonzero of the Jacobian: a path leads from one to the other.

    An order that is written down has them, too, but that takes as long as the products that it makes.
    """
    reached = {terminal: 1 << position for position, terminal in enumerate(graph.terminals)}
    for v in (*state.intermediates, *graph.roots):
        reached[v] = reduce(or_, (reached.get(s, 0) for s in state.successors[v]), 0)
    return [(root, terminal) for root in graph.roots for terminal in members(reached[root], graph.terminals)]


def _insert(keys: dict[int, int], table: NDArray[np.int64], values: NDArray[np.int64], bits: int) -> None:
    """Fill the kernel's hash table, as its `intern` does."""
    for key, value in keys.items():
        place = (key * SPREAD & (1 << 64) - 1) >> 64 - bits
        while table[place]:
            place = (place + 1) & (1 << bits) - 1
        table[place], values[place] = key, value
