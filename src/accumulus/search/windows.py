"""Local search on orders of large graphs: one window of the order after the other is annealed by itself.

The cost of eliminating a set of vertices after another set does not depend on later vertices, and their cost does not
depend on the order within the set. So the vertices of a window, those between two positions of the order, form a small
graph with their neighbours, after the elimination of all vertices before. The kernel carries the large graph from
window to window, `accumulus.search.orders` orders each, and the gain of a window is a gain of the whole order.

A window is worth its time if its vertices are neighbours. So the order is rewritten first as one of equal cost, depth
first (`VertexElimination.arranged`). Then the dearest windows are searched, then the dearest of the others, then the
rest; then the order is rewritten again, so that other windows are cut, until such rounds gain too little.

Deterministic, as long as neither the time limit nor Ctrl-C ends it. Time: that of one elimination for each pass over
the graph, and some ten milliseconds a window. Memory: as for an elimination, and 16 bytes for each neighbour that a
vertex has when it is eliminated, while the order is rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import rounds
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.vertex import Cost, VertexElimination
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Effort
from accumulus.search.elimination import Elimination
from accumulus.search.orders import DEAREST, OrderAnnealing

__all__ = ["Windows"]

#: Vertices of a window, in the first round, the second, and so on; small ones gain most in the time they take.
WINDOWS: Final = (64, 128, 48)
#: Vertices of a window with their neighbours, at most, and their edges.
MOST_VERTICES: Final = 1_024
MOST_EDGES: Final = 50_000
#: Sweeps of annealing in a window.
SWEEPS: Final = 15
#: Parts of the windows that are searched in the passes of a round, the dearest first.
PASSES: Final = (1 / 16, 1 / 4, 1.0)
#: Part of the cost below which a round gains too little, and so many such rounds in a row end the search.
_GAIN: Final = {"fast": 1.0, "balanced": 0.005, "thorough": 0.0}
_STALLS: Final = {"fast": 1, "balanced": 2, "thorough": 9}

Integers = NDArray[np.int64]


class Windows:
    """Search in windows of the order of one graph.

    Args:
        order: of all intermediates, to begin with.
        deadline: when it passes, a search raises `OutOfTimeError`; the best order so far is there all the same.

    Attributes:
        cost: of the best order so far, under the objective and under the one that breaks ties.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        objective: Objective,
        order: Sequence[int],
        cost: Cost,
        deadline: Deadline = FOREVER,
    ) -> None:
        self._graph, self._deadline = graph, deadline
        # annealing leaves sizes out of operations, greedy orders do not
        self._objective = objective.of_eliminations
        state = self._whole()
        matters = np.zeros(len(graph.vertices), bool)
        matters[state.intermediates] = True
        given = np.array(order, np.int64)
        self._order, self._dead = given[matters[given]], state.dead
        self._sizes: list[int] = graph.sizes.tolist()
        self.cost = cost

    @property
    def order(self) -> tuple[int, ...]:
        """The best order so far."""
        return (*self._order.tolist(), *self._dead.tolist())

    def run(self, effort: Effort, seed: int, iterations: int | None = None) -> Iterator[int]:
        """Search until rounds gain too little; yields the best cost after each window.

        Args:
            iterations: vertices visited, at most.
        """
        left = math.inf if iterations is None else iterations
        for round_ in rounds(_STALLS[effort], lambda: self.cost[0], _GAIN[effort]):
            size = WINDOWS[round_ % len(WINDOWS)]
            rng = np.random.Generator(np.random.PCG64([seed, round_]))
            costs = self._arrange(rng if round_ else None)
            yield self.cost[0]
            first = int(rng.integers(size)) if round_ else 0
            bounds = np.array([0, *range(first or size, len(self._order), size), len(self._order)])
            cost_of = np.add.reduceat(costs, bounds[:-1])
            dear = np.argsort(-cost_of, kind="stable")
            # a window of one product for each vertex cannot gain, and larger costs do not fit the kernel
            dear = dear[((cost_of > np.diff(bounds)) & (cost_of < DEAREST))[dear]]
            done = 0
            for part in PASSES:
                until = math.ceil(part * len(dear))
                chosen, done = np.sort(dear[done:until]).tolist(), until
                for visits, cost in self._sweep(bounds.tolist(), chosen, (seed, round_)):
                    yield cost
                    left -= visits
                    if left <= 0:
                        return

    def _whole(self) -> VertexElimination:
        """The graph, nothing eliminated."""
        return VertexElimination(self._graph, self._objective, deadline=self._deadline)

    def _arrange(self, rng: np.random.Generator | None) -> Integers:
        """Rewrite the order as one of equal cost; returns what each vertex costs."""
        state = self._whole()
        ends = self._order[::-1].copy()
        if rng is not None:
            rng.shuffle(ends)
        order, cost = state.arranged(self._order, ends)
        del state
        costs = np.zeros(len(order), np.int64)
        again = self._whole()
        again.follow(order, costs=costs)
        assert again.cost == cost, "an order that was to cost the same does not"
        self._order = order
        return costs

    def _sweep(self, bounds: Sequence[int], chosen: Sequence[int], seed: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Search in the chosen windows, one after the other; yields vertices visited and the best cost."""
        state = self._whole()
        at = 0
        for number in chosen:
            start, end = bounds[number], bounds[number + 1]
            state.follow(self._order[at:start])
            visits = self._anneal(state, start, end, (*seed, number))
            state.follow(self._order[start:end])
            at = end
            yield visits, self.cost[0]

    def _anneal(self, state: VertexElimination, start: int, end: int, seed: tuple[int, ...]) -> int:
        """Order the vertices of a window anew, if that is better; returns how many were visited."""
        window = self._order[start:end]
        edges = state.edges_at(window, MOST_EDGES)
        if edges is None or end - start < 2:
            return 0
        number = {v: k for k, v in enumerate(window.tolist())}
        local = [(number.setdefault(j, len(number)), number.setdefault(i, len(number)), level) for j, i, level in edges]
        if len(number) > MOST_VERTICES:
            return 0
        sizes = [self._sizes[v] for v in number]
        inside = Elimination.of_edges(local, sizes, range(end - start), self._objective)
        annealing = OrderAnnealing(inside, self._objective, range(end - start))
        before, _ = annealing.best
        visits = SWEEPS * (end - start)
        for _ in annealing.run(range(end - start), visits, seed, deadline=self._deadline):
            self._deadline.check()
        after, order = annealing.best
        if after < before:
            self._order[start:end] = window[list(order)]
            self.cost = self.cost[0] - before[0] + after[0], self.cost[1] - before[1] + after[1]
        return visits
