"""Proven optima of face and of edge elimination: what the compiled branch and bound works on, and how it is driven.

`accumulus.theory.compiled.faces_kernel` searches below a limit. The limit rises from the lower bound to the cost of the
best plan that is known: while nothing is found below it, it is a new lower bound, and what has been learnt about states
stays in the table (iterative deepening with a table of transpositions: Korf 1985; Reinefeld and Marsland 1994). Once
something is found, the search goes on below it until nothing is left: then it is the optimum.

Independent parts of the graph are searched one by one. A part of more than `faces_state.MOST` edges is not searched;
for it the bound of `accumulus.theory.bounds` is what is known.

"Proven" stands for a computer search whose table compares states by 128 random bits: that two different states agree in
them has a probability of about 10⁻²⁶ for a million states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from accumulus.elimination.edge import Side
from accumulus.native.machine import kernel
from accumulus.native.state import Records
from accumulus.search.elimination import Elimination
from accumulus.theory.bounds import least_costs, paths_down, paths_up
from accumulus.theory.compiled.faces_kernel import (
    MORE,
    MOST,
    MOST_DEPTH,
    MOST_MOVES,
    MOST_STEPS,
    PROBES,
    FacesState,
    Frame,
    LineLabel,
    Move,
    StoredBound,
)
from accumulus.theory.methods.edges_and_faces import Lines, words

__all__ = ["LineSearch"]

#: Words of tracked paths, at most; beyond, the paths that count least are not tracked.
_MOST_WORDS: Final = 8
#: Entries of the table, as a power of two: 24 bytes each.
_TABLE_BITS: Final = 20
#: Moves tried by one call, some tens of milliseconds; seconds of work of each.
_SLICE: Final = 5_000
_MOVE: Final = 4e-6
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
        #: The part; edge number k is label k of the kernel.
        self.lines = Lines(state, part)
        self.lower_bound = max(lower_bound, sum(least_costs(state, part).values()))
        self.failed = len(self.lines.edges) > MOST
        self.tried, self._deadline = 0, state.deadline
        self._most_moves = moves
        if not self.failed and self.lower_bound < cost:
            self._search = self._encoded(state, part)

    @property
    def proven(self) -> bool:
        """Return whether the best known cost is the least."""
        return self.lower_bound >= self.cost

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven; yields the best cost from time to time."""
        if self.failed or self.proven:
            return
        prove = kernel("theory.faces")
        search = self._search
        step = max(1, -(-(self.cost - self.lower_bound) // _STEPS))
        while not (self.proven or self.failed):
            search.limit = min(self.cost - 1, self.lower_bound + step - 1)
            search.best, search.depth = -1, -1
            more = True
            while more:
                search.budget = min(_SLICE, self._most_moves)
                more = prove(search.address) == MORE
                self._deadline.spend(_MOVE * (search.tried - self.tried))
                self.tried = search.tried
                if 0 <= search.best < self.cost:
                    self._keep(search)
                yield self.cost
                if more and self.tried >= self._most_moves:
                    return
            if search.overflow:
                self.failed = True
            else:
                self.lower_bound = search.limit + 1

    def named_edges(self) -> list[tuple[int, int, Side]]:
        """The best edge elimination that was found, by vertices of the graph."""
        assert self.edges
        assert self.steps is not None
        sides: tuple[Side, Side] = ("front", "back")
        vertices = self.lines.vertices
        return [(vertices[j], vertices[i], sides[side]) for j, i, side in self.steps]

    def _keep(self, search: FacesState) -> None:
        self.cost = search.best
        self.steps = [(a, b, c) for a, b, c in search.best_log[: search.best_length].tolist()]

    def _encoded(self, state: Elimination, part: Sequence[int]) -> FacesState:
        lines = self.lines
        weights, masks, middles = self._tracked(state, part)
        count = max(1, -(-len(weights) // 64))
        tracked = np.zeros((len(lines.vertices), count), np.int64)
        for v, bits in middles.items():
            tracked[lines.numbers[v]] = words(bits, count)
        paths = np.zeros((MOST_DEPTH, MOST, count), np.int64)
        labels = Records.zeros(LineLabel, MOST_DEPTH * MOST)
        for k, edge in enumerate(lines.edges):
            label = labels[k]
            label.above, label.below = _word(lines.above[k]), _word(lines.below[k])
            label.start, label.end, label.level = lines.starts[k], lines.ends[k], lines.levels[k]
            paths[0, k] = words(masks.get(edge, 0), count)
        frames = Records.zeros(Frame, MOST_DEPTH)
        frames[0].present, frames[0].left = _word((1 << len(lines.edges)) - 1), sum(weights)
        return FacesState(
            frames=frames,
            labels=labels,
            paths=paths,
            moves=Records.zeros(Move, MOST_DEPTH * MOST_MOVES),
            log=np.zeros((MOST_STEPS, 3), np.int64),
            best_log=np.zeros((MOST_STEPS, 3), np.int64),
            table=Records.zeros(StoredBound, (1 << _TABLE_BITS) + PROBES),
            weights=np.array([*weights, 0], np.int64),
            tracked=tracked,
            sizes=lines.sizes,
            kinds=lines.kinds,
            colours=np.zeros(MOST, np.int64),
            recoloured=np.zeros(MOST, np.int64),
            ranks=np.zeros(MOST, np.int64),
            order=np.zeros(MOST, np.int64),
            sums=np.zeros(len(lines.vertices), np.int64),
            words=count,
            vertices=len(lines.vertices),
            table_bits=_TABLE_BITS,
            fma=state.objective.every_product,
            edges=self.edges,
            series=bool((lines.sizes == 1).all()),
        )

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


def _word(bits: int) -> int:
    """64 bits, as a signed integer."""
    return int(words(bits, 1)[0])
