"""Proven optima of face and of edge elimination: what the compiled branch and bound works on, and how it is driven.

`accumulus.search.compiled.faces_kernel` searches below a limit. The limit rises from the lower bound to the cost of the
best plan that is known: while nothing is found below it, it is a new lower bound, and what has been learnt about states
stays in the table (iterative deepening with a table of transpositions: Korf 1985; Reinefeld and Marsland 1994). Once
something is found, the search goes on below it until nothing is left: then it is the optimum.

Independent parts of the graph are searched one by one. A part of more than `faces_slots.MOST` edges is not searched;
for it the bound of `accumulus.search.exact.bounds` is what is known.

"Proven" stands for a computer search whose table compares states by 128 random bits: that two different states agree in
them has a probability of about 10⁻²⁶ for a million states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from accumulus.accumulate.edge import Side
from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.search.compiled import faces_slots as slot
from accumulus.search.elimination import Elimination
from accumulus.search.exact.bounds import least_costs, paths_down, paths_up

__all__ = ["LineSearch"]

#: Words of tracked paths, at most; beyond, the paths that count least are not tracked.
_MOST_WORDS: Final = 8
#: Entries of the table, as a power of two: 24 bytes each.
_TABLE_BITS: Final = 20
#: Moves tried by one call: some tens of milliseconds.
_SLICE: Final = 5_000
#: In how many steps the limit rises to the best known cost, at most.
_STEPS: Final = 32


class LineSearch:
    """Branch and bound over the face or edge eliminations of a part of a graph.

    Args:
        state: the graph, nothing eliminated.
        part: intermediates of an independent part.
        cost: of the best plan of the part that is known; only cheaper ones are looked for.
        lower_bound: on the cost, if one is known.
        edges: whether to eliminate edges instead of faces.
        moves: tried, at most.

    Attributes:
        lower_bound: no elimination of that kind costs less.
        cost: of the best one that is known.
        steps: of the best one that was found, None if none was cheaper than what was known: faces as slots
            (i, j, product), or edges (source, target, side).
        failed: whether the part is too large, so that `run` does nothing, or has turned out to be.
    """

    def __init__(
        self,
        state: Elimination,
        part: Sequence[int],
        cost: int,
        lower_bound: int = 0,
        *,
        edges: bool,
        moves: int = sys.maxsize,
    ) -> None:
        self.cost = cost
        self.steps: list[tuple[int, int, int]] | None = None
        self.edges = edges
        inner = set(part)
        #: The edges of the part; edge number k is slot k of the kernel.
        self.lines = [(j, i) for j, row in enumerate(state.successors) for i in row if j in inner or i in inner]
        self.lower_bound = max(lower_bound, sum(least_costs(state, part).values()))
        self.failed = len(self.lines) > slot.MOST
        self.tried = 0
        self._most_moves = moves
        if not self.failed and self.lower_bound < cost:
            self._encode(state, part)

    @property
    def proven(self) -> bool:
        """Whether the best known cost is the least."""
        return self.lower_bound >= self.cost

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven; yields the best cost from time to time."""
        if self.failed or self.proven:
            return
        prove = kernel("search.faces")
        values = self._block.integers
        step = max(1, -(-(self.cost - self.lower_bound) // _STEPS))
        while not (self.proven or self.failed):
            limit = min(self.cost - 1, self.lower_bound + step - 1)
            values[slot.LIMIT], values[slot.BEST], values[slot.DEPTH] = limit, -1, -1
            more = True
            while more:
                values[slot.BUDGET] = min(_SLICE, self._most_moves)
                more = prove(self._block.address) == slot.MORE
                self.tried = int(values[slot.TRIED])
                if 0 <= values[slot.BEST] < self.cost:
                    self._keep(int(values[slot.BEST]))
                yield self.cost
                if more and self.tried >= self._most_moves:
                    return
            if values[slot.OVERFLOW]:
                self.failed = True
            else:
                self.lower_bound = int(values[slot.LIMIT]) + 1

    def named_edges(self) -> list[tuple[int, int, Side]]:
        """The best edge elimination that was found, by vertices of the graph."""
        assert self.edges
        assert self.steps is not None
        sides: tuple[Side, Side] = ("front", "back")
        return [(self._vertices[j], self._vertices[i], sides[side]) for j, i, side in self.steps]

    def _keep(self, cost: int) -> None:
        self.cost = cost
        length = int(self._block.integers[slot.BEST_LENGTH])
        steps = self._best_log[: 3 * length].reshape(-1, 3).tolist()
        self.steps = [(a, b, c) for a, b, c in steps]

    def _encode(self, state: Elimination, part: Sequence[int]) -> None:
        numbers: dict[int, int] = {}
        for line in self.lines:
            for v in line:
                numbers.setdefault(v, len(numbers))
        self._vertices = list(numbers)
        inner = set(part)
        weights, masks, middles = self._tracked(state, part)
        words = max(1, -(-len(weights) // 64))
        size = slot.PATHS + slot.MOST * words
        block = self._block = Block(slot.SLOTS)
        states = block.point(slot.STATES, np.zeros(slot.MOST_DEPTH * size, np.int64))
        block.point(slot.FRAMES, np.zeros(slot.MOST_DEPTH * slot.FRAME, np.int64))
        block.point(slot.MOVES, np.zeros(slot.MOST_DEPTH * slot.MOST_MOVES * slot.MOVE, np.int64))
        block.point(slot.LOG, np.zeros(3 * slot.MOST_STEPS, np.int64))
        self._best_log = block.point(slot.BEST_LOG, np.zeros(3 * slot.MOST_STEPS, np.int64))
        block.point(slot.TABLE, np.zeros(slot.ENTRY * ((1 << _TABLE_BITS) + slot.PROBES), np.int64))
        block.point(slot.WEIGHTS, np.array([*weights, 0], np.int64))
        tracked = block.point(slot.TRACKED, np.zeros(len(numbers) * words, np.int64))
        block.point(slot.SIZES, np.array([state.sizes[v] for v in numbers], np.int64))
        sides = [0 if v in inner else 1 if not state.predecessors[v] else 2 for v in numbers]
        block.point(slot.ENDS, np.array(sides, np.int64))
        block.point(slot.SCRATCH, np.zeros(4 * slot.MOST + len(numbers), np.int64))
        values = block.integers
        values[[slot.WORDS, slot.VERTICES, slot.TABLE_BITS]] = words, len(numbers), _TABLE_BITS
        values[[slot.FMA, slot.EDGES]] = state.objective.every_product, self.edges
        values[slot.SERIES] = all(state.sizes[v] == 1 for v in numbers)
        for v, bits in middles.items():
            tracked[numbers[v] * words : (numbers[v] + 1) * words] = _words(bits, words)

        slots = {line: k for k, line in enumerate(self.lines)}
        states[slot.PRESENT] = _words((1 << len(self.lines)) - 1, 1)[0]
        states[slot.LEFT] = sum(weights)
        for (j, i), k in slots.items():
            above = sum(1 << slots[p, j] for p in state.predecessors[j]) if j in inner else 0
            below = sum(1 << slots[i, s] for s in state.successors[i]) if i in inner else 0
            states[slot.ABOVE + k], states[slot.BELOW + k] = _words(above, 1)[0], _words(below, 1)[0]
            level = state.successors[j][i]
            states[slot.INFO + k] = numbers[j] | numbers[i] << slot.ID_BITS | level << 2 * slot.ID_BITS
            at = slot.PATHS + k * words
            states[at : at + words] = _words(masks.get((j, i), 0), words)

    def _tracked(
        self, state: Elimination, part: Sequence[int]
    ) -> tuple[list[int], dict[tuple[int, int], int], dict[int, int]]:
        """Pairs of disjoint paths that need a product: their weights, which of them use an edge, and by vertex."""
        fma = state.objective.every_product
        pairs = []
        for v in part:
            below = paths_down(state, v)
            for p in paths_up(state, v):
                for q in below:
                    if fma or p.level == 3 or q.level == 3:
                        path = (*reversed(p.vertices), v, *q.vertices)
                        pairs.append((state.sizes[v] * p.width * q.width, v, path))
        pairs.sort(key=lambda pair: -pair[0])
        masks: dict[tuple[int, int], int] = {}
        middles: dict[int, int] = {}
        chosen = pairs[: 64 * _MOST_WORDS]
        for k, (_, v, path) in enumerate(chosen):
            middles[v] = middles.get(v, 0) | 1 << k
            for edge in pairwise(path):
                masks[edge] = masks.get(edge, 0) | 1 << k
        return [weight for weight, _, _ in chosen], masks, middles


def _words(bits: int, count: int) -> list[int]:
    """Bits in words of 64, as signed integers."""
    raw = bits.to_bytes(8 * count, "little")
    return [int.from_bytes(raw[8 * k : 8 * k + 8], "little", signed=True) for k in range(count)]
