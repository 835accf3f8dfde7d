"""Searches for the best edge and face eliminations of independent parts of a graph.

`accumulus.theory.compiled.faces_kernel` searches below a limit, which increases from the lower bound to the cost of the
best known plan. A limit without a solution gives a new lower bound, and the bounds of states stay in the table
(iterative deepening with a transposition table: Korf 1985; Reinefeld and Marsland 1994). After each solution the search
continues below its cost; if there is no further one, the last solution is optimal.

Independent parts of the graph are searched separately. A part of more than `faces_kernel.MOST` edges is not searched
and has only the bound of `accumulus.theory.flows`.

"Proven" means by a computer search whose table compares states by 128 random bits: the probability that two different
states agree in these is about 10⁻²⁶ for a million states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from accumulus.elimination.edges_and_faces import Side
from accumulus.native.machine import kernel
from accumulus.native.state import Records, zeros
from accumulus.search.elimination import Elimination
from accumulus.theory.compiled import faces_kernel as faces
from accumulus.theory.flows import disjoint_pairs, least_costs
from accumulus.theory.methods.edges_and_faces import Lines, words


class PartSearch:
    """Base class of searches of a part of a graph.

    Attributes:
        cost: cost of the best known elimination.
        lower_bound: lower bound on the cost of all eliminations.
    """

    cost: int
    lower_bound: int

    @property
    def proven(self) -> bool:
        """Return True if the best known cost is optimal."""
        return self.lower_bound >= self.cost


#: Largest number of words of the bit set of tracked paths; paths with the smallest weights are left out. More words
#: slow down each move, fewer weaken the bound.
_MOST_WORDS: Final = 8
#: Number of entries of the table as a power of two; an entry has 24 bytes. With fewer entries, states are searched
#: again.
_TABLE_BITS: Final = 20
#: Moves for each call of the kernel, some tens of milliseconds, and seconds of work for each. More moves react later to
#: the deadline and Ctrl-C, fewer make more calls.
_MOVES: Final = 5_000
_MOVE_SECONDS: Final = 1e-6
#: Largest number of steps in which the limit increases to the best known cost. More steps raise the proven bound more
#: often, but each repeats the search of the previous one; with fewer, the bound stays low for longer.
_STEPS: Final = 32


class LineSearch(PartSearch):
    """Branch and bound over the face or edge eliminations of a part of a graph.

    Args:
        state: graph before any elimination.
        intermediates: intermediates of an independent part.
        cost: cost of the best known plan of the part; the search is for cheaper ones.
        lower_bound: known lower bound on the cost, or 0.
        edges: if True, eliminate edges instead of faces.
        moves: largest number of moves to try.

    Attributes:
        steps: steps of the best elimination found, None if none is cheaper than the known one: faces as slots
            (i, j, product), or edges (source, target, side).
        failed: True if the part is too large, so that `run` does nothing, or if the search has overflowed.
    """

    def __init__(
        self,
        state: Elimination,
        intermediates: Sequence[int],
        cost: int,
        lower_bound: int = 0,
        *,
        edges: bool,
        moves: int = sys.maxsize,
    ) -> None:
        self.cost = cost
        self.steps: list[tuple[int, int, int]] | None = None
        self.edges = edges
        #: Encoding of the part; edge k is label k of the kernel.
        self.lines = Lines(state, intermediates)
        self.lower_bound = max(lower_bound, sum(least_costs(state, intermediates).values()))
        self.failed = len(self.lines.edges) > faces.MOST
        self.tried, self._deadline = 0, state.deadline
        self._most_moves = moves
        if not self.failed and self.lower_bound < cost:
            self._search = self._encoded(state, intermediates)

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven or all moves are tried; yield the best cost from time to time."""
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
                search.budget = min(_MOVES, self._most_moves)
                more = prove(search.address) == faces.MORE
                self._deadline.spend(_MOVE_SECONDS * (search.tried - self.tried))
                self.tried = search.tried
                if 0 <= search.best < self.cost:
                    self.cost = search.best
                    self.steps = [(a, b, c) for a, b, c in search.best_log[: search.best_length].tolist()]
                yield self.cost
                if more and self.tried >= self._most_moves:
                    return
            if search.overflow:
                self.failed = True
            else:
                self.lower_bound = search.limit + 1

    def named_edges(self) -> list[tuple[int, int, Side]]:
        """Return the best edge elimination found, as vertices of the graph."""
        assert self.edges
        assert self.steps is not None
        sides: tuple[Side, Side] = ("front", "back")
        vertices = self.lines.vertices
        return [(vertices[j], vertices[i], sides[side]) for j, i, side in self.steps]

    def _encoded(self, state: Elimination, intermediates: Sequence[int]) -> faces.FacesState:
        lines = self.lines
        weights, masks, middles = self._tracked(state, intermediates)
        count = max(1, -(-len(weights) // 64))
        fields = lines.encoded(1, count)
        for k, edge in enumerate(lines.edges):
            fields["paths"][k] = words(masks.get(edge, 0), count)
        tracked = np.zeros((len(lines.vertices), count), np.int64)
        for v, bits in middles.items():
            tracked[lines.numbers[v]] = words(bits, count)
        frames = Records.zeros(faces.Frame, faces.MOST_DEPTH)
        frames[0].left = sum(weights)
        snapshots = np.zeros((faces.MOST_DEPTH, fields["size"]), np.int64)
        snapshots[0] = fields["graph"]
        return faces.FacesState(
            **fields,
            frames=frames,
            snapshots=snapshots,
            moves=Records.zeros(faces.Move, faces.MOST_DEPTH * faces.MOST_MOVES),
            log=np.zeros((faces.MOST_STEPS, 3), np.int64),
            best_log=np.zeros((faces.MOST_STEPS, 3), np.int64),
            table=Records.zeros(faces.StoredBound, (1 << _TABLE_BITS) + faces.PROBES),
            weights=np.array([*weights, 0], np.int64),
            tracked=tracked,
            **zeros(faces.MOST, "colours recoloured ranks order"),
            sums=np.zeros(len(lines.vertices), np.int64),
            vertices=len(lines.vertices),
            table_bits=_TABLE_BITS,
            fma=state.objective.every_product,
            edges=self.edges,
            series=bool((lines.sizes == 1).all()),
        )

    def _tracked(
        self, state: Elimination, intermediates: Sequence[int]
    ) -> tuple[list[int], dict[tuple[int, int], int], dict[int, int]]:
        """Return the pairs of disjoint paths that need a product.

        Returns:
            The weights of the pairs, the bit set of pairs for each edge, and the bit set of pairs for each vertex.
        """
        fma = state.objective.every_product
        pairs = [
            (state.sizes[v] * p.width * q.width, v, path)
            for v, p, q, path in disjoint_pairs(state, intermediates)
            if fma or p.level == 3 or q.level == 3
        ]
        pairs.sort(key=lambda pair: -pair[0])
        masks: dict[tuple[int, int], int] = {}
        middles: dict[int, int] = {}
        chosen = pairs[: 64 * _MOST_WORDS]
        for k, (_, v, path) in enumerate(chosen):
            middles[v] = middles.get(v, 0) | 1 << k
            for edge in pairwise(path):
                masks[edge] = masks.get(edge, 0) | 1 << k
        return [weight for weight, _, _ in chosen], masks, middles
