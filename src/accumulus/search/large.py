"""Vertex elimination of large sparse graphs, compiled: costs of orders, Markowitz, and the steps of an order.

Drives `accumulus.search.compiled.elimination_kernel`. Its results are those of `accumulus.search.elimination`,
`accumulus.search.greedy` and `accumulus.accumulate.vertex` on the same graph, so which of them runs (`is_large`)
decides nothing but time and memory. The kernel is compiled when the first large graph comes.

Time and memory are those of the products and of the edges that are there at one time: some five million products a
second; 0.4 GB for a million edges, and 9 bytes for each step that is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.accumulate.accumulation import Accumulation, Steps
from accumulus.accumulate.entries import Entries
from accumulus.accumulate.vertex import check_order, eliminate_vertices
from accumulus.deadline import FOREVER, Deadline
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.objective import Objective
from accumulus.search.compiled import elimination_slots as slot
from accumulus.search.elimination import LEVELS, UNLIMITED, Cost, Limit, Priced, is_large

__all__ = ["LargeElimination", "accumulation_of", "large_markowitz", "large_price"]

#: Products of one call of the kernel, some 10 ms; between calls it looks at the deadline, and Ctrl-C is heard.
_SLICE: Final = 50_000
#: Steps that wait to be written, at least.
_WAITING: Final = 1 << 20
_NO_LIMIT: Final = 1 << 62
_FIRST: Final = 1 << 10


Integers = NDArray[np.int64]


class LargeElimination:
    """A graph from which the kernel eliminates vertices.

    Args:
        graph: taken without what is on no path from a root to a terminal.
        objective: what costs are of.
        steps: where the products and sums are written, if they are wanted.
        deadline: when it passes, what eliminates raises `OutOfTimeError`.

    Attributes:
        intermediates: those on a path from a root to a terminal, dependencies before dependents.
        dead: the other intermediates.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        objective: Objective,
        steps: Steps | None = None,
        deadline: Deadline = FOREVER,
    ) -> None:
        self._deadline = deadline
        live = np.flatnonzero(graph.live_edges)
        sources, targets = graph.sources[live].astype(np.int64), graph.targets[live].astype(np.int64)
        count = self._count = len(graph.vertices)
        inner = np.ones(count, bool)
        inner[[*graph.roots, *graph.terminals]] = False
        on_a_path = np.zeros(count, bool)
        on_a_path[sources] = True
        order = np.array(graph.topological_order, np.int64)
        self.intermediates: Integers = order[(inner & on_a_path)[order]]
        self.dead: Integers = np.flatnonzero(inner & ~on_a_path)

        block = self._block = Block(slot.SLOTS)
        self._call = kernel("search.elimination")
        self._steps = steps
        self._noted: list[Integers] = []
        vertices = block.point(slot.VERTICES, np.zeros((count, slot.VERTEX), np.int64))
        vertices[:, slot.SIZE] = graph.sizes
        self._order = block.point(slot.ORDER, np.zeros(count, np.int64))
        for name in (slot.SCRATCH, slot.MERGED):
            block.point(name, np.zeros(2 * count + _FIRST, np.int64))
        self._edges = np.zeros((0, slot.EDGE), np.int64)
        values = block.integers
        values[slot.EVERY] = objective.every_product
        values[[slot.LIMIT, slot.MOST]] = _NO_LIMIT
        values[slot.HEAPED] = -1
        if steps is not None:
            values[slot.NEXT] = steps.edges
            self._make_room(len(live))
        self._widen(len(live) + len(live) // 4 + _FIRST)

        loaded = np.empty((len(live), 2), np.int64)
        loaded[:, 0] = sources << slot.HALF | targets
        levels = np.zeros(1 + max(LEVELS), np.int64)
        levels[list(LEVELS)] = list(LEVELS.values())
        loaded[:, 1] = levels[graph.kinds[live]] << slot.HALF | live
        block.point(slot.LOADED, loaded)
        values[slot.END] = len(live)
        self._perform(slot.LOAD)
        block.point(slot.LOADED, np.zeros(0, np.int64))
        self._edges_given = int(values[slot.LIVE])

    @property
    def cost(self) -> Cost:
        """What was eliminated so far costs, under the objective and under the one that breaks ties."""
        return int(self._block.integers[slot.TOTAL]), int(self._block.integers[slot.TIE])

    @property
    def priced(self) -> Priced:
        """What was eliminated so far took."""
        values = self._block.integers
        created = int(values[slot.LIVE]) - self._edges_given + int(values[slot.REMOVED])
        products = int(values[slot.MADE])
        return Priced(self.cost, products, products - created)

    def follow(self, order: Integers, limit: Limit = UNLIMITED, costs: Integers | None = None) -> bool:
        """Eliminate the vertices of an order; False once all together exceed the limit.

        Args:
            costs: where the cost of each is written, if it is wanted.
        """
        values = self._block.integers
        self._order[: len(order)] = order
        values[slot.COSTS] = 0
        if costs is not None:
            self._block.point(slot.COSTS, costs)
        values[[slot.AT, slot.END]] = 0, len(order)
        self._limit(limit)
        return self._run(slot.FOLLOW)

    def markowitz(self, limit: Limit = UNLIMITED) -> Integers | None:
        """Eliminate the cheapest vertex until none is left: their order, or None once they exceed the limit."""
        values, count = self._block.integers, len(self.intermediates)
        self._order[:count] = self.intermediates
        self._block.point(slot.HEAP, np.zeros(count + 2 + 2 * self._count, np.int64))
        values[[slot.AT, slot.END, slot.HEAPED]] = 0, count, -1
        self._limit(limit)
        return self._order[:count].copy() if self._run(slot.GREEDY) else None

    def arranged(self, order: Integers, ends: Integers) -> tuple[Integers, Cost]:
        """Eliminate the vertices of an order; returns another order that costs the same, and what it costs.

        Vertices that are no neighbours when the first of them goes do not care which of them that is (Griewank and
        Reese 1991). So any order will do in which neighbours at that time keep theirs. Here it is the one depth first
        from `ends`, all vertices of the order: those that a vertex needs come right before it.
        """
        values, count = self._block.integers, self._count
        values[slot.NOTED] = 1
        self._make_room(_WAITING)
        self.follow(order)
        values[slot.NOTED] = 0
        noted = np.concatenate([*self._noted, np.zeros(0, np.int64)])
        self._noted = []
        inner = np.zeros(count, bool)
        inner[order] = True
        noted = noted[inner[noted >> slot.HALF]]
        # by the later one; of its earlier neighbours the one with the lowest number first
        noted.sort()
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(noted >> slot.HALF, minlength=count), out=starts[1:])
        noted &= slot.LOW
        for name, column in (
            (slot.STARTS, starts),
            (slot.EARLIER, noted),
            (slot.CURSORS, np.full(count, -1)),
            (slot.STACK, np.zeros(count, np.int64)),
        ):
            self._block.point(name, column)
        self._block.array(slot.SCRATCH)[: len(ends)] = ends
        values[slot.END] = len(ends)
        self._perform(slot.ARRANGE)
        return self._order[: len(order)].copy(), self.cost

    def edges_at(self, vertices: Integers, most: int) -> list[tuple[int, int, int]] | None:
        """Source, target and level of the edges that these vertices have now; None if they are more than `most`."""
        room = min(most + 1, self._count)
        values = self._block.integers
        self._order[: len(vertices)] = vertices
        values[[slot.AT, slot.END, slot.ROOM]] = 0, len(vertices), room
        count = self._perform(slot.LIST)
        if count >= room:
            return None
        found = self._block.array(slot.SCRATCH)[: 2 * count].reshape(-1, 2)
        ends = found[:, 0]
        return list(zip((ends >> slot.HALF).tolist(), (ends & slot.LOW).tolist(), found[:, 1].tolist(), strict=True))

    def left(self) -> tuple[Integers, Integers, Integers]:
        """Source, target and reference of the edges that are left."""
        edges = self._edges[1 : int(self._block.integers[slot.USED]) + 1]
        there = np.flatnonzero(edges[:, slot.LEVEL] > 0)
        sources, targets, references = (edges[there, column] for column in (slot.SOURCE, slot.TARGET, slot.REFERENCE))
        return sources, targets, references

    def _limit(self, limit: Limit) -> None:
        self._block.integers[[slot.LIMIT, slot.MOST]] = [int(min(most, _NO_LIMIT)) for most in limit]

    def _run(self, mode: int) -> bool:
        values = self._block.integers
        while True:
            self._deadline.check()
            values[slot.BUDGET] = _SLICE
            result = self._perform(mode)
            if result in (slot.DONE, slot.EXCEEDED):
                return result == slot.DONE
            if result != slot.PAUSED:
                products = self._products_of_next(mode)
                if result == slot.NARROW:
                    self._widen(max(len(self._edges) * 3 // 2, int(values[slot.LIVE]) + products + _FIRST))
                else:
                    self._make_room(2 * products + self._count)

    def _products_of_next(self, mode: int) -> int:
        """Pairs of edges at the vertex that the kernel stopped before."""
        values = self._block.integers
        k = self._block.array(slot.HEAP)[1] if mode == slot.GREEDY else self._order[values[slot.AT]]
        record = self._block.array(slot.VERTICES)[k]
        return int(record[slot.ENTERING]) * int(record[slot.LEAVING])

    def _perform(self, mode: int) -> int:
        self._block.integers[slot.MODE] = mode
        result = self._call(self._block.address)
        self._write()
        return result

    def _widen(self, capacity: int) -> None:
        """Room for so many edges at one time."""
        edges = np.zeros((capacity + 1, slot.EDGE), np.int64)
        edges[: len(self._edges)] = self._edges
        self._edges = self._block.point(slot.EDGES, edges)
        places = 1 << (2 * capacity).bit_length()
        self._block.point(slot.TABLE, np.zeros(2 * places, np.int64))
        self._block.integers[[slot.CAPACITY, slot.MASK]] = capacity, places - 1
        self._perform(slot.REHASH)

    def _make_room(self, steps: int) -> None:
        """Room for so many steps before they are written."""
        room = max(steps, _WAITING)
        if room > self._block.integers[slot.ROOM]:
            self._block.point(slot.STEPS, np.zeros(room, np.int64))
            self._block.integers[slot.ROOM] = room

    def _write(self) -> None:
        """Move the steps that wait to where they belong."""
        count = int(self._block.integers[slot.STEPPED])
        if count == 0:
            return
        waiting = self._block.array(slot.STEPS)[:count]
        self._block.integers[slot.STEPPED] = 0
        if self._steps is None:
            self._noted.append(waiting.copy())
            return
        if self._steps.edges + len(self._steps) + count > slot.LOW:
            raise OrderError(
                f"the order makes more than {slot.LOW:,} products and sums, as many as an accumulation can hold; "
                "expected an order that fills the graph in less, or a graph of a part of the function"
            )
        self._steps.is_product.extend((waiting >> 2 * slot.HALF).astype(np.uint8).tobytes())
        for column, shift in ((self._steps.left, slot.HALF), (self._steps.right, 0)):
            column.frombytes((waiting >> shift & slot.LOW).astype(np.dtype(f"i{column.itemsize}")).tobytes())


def large_price(
    graph: DifferentiationGraph, order: Iterable[int], objective: Objective, limit: Limit, deadline: Deadline
) -> Priced | None:
    """`accumulus.search.elimination.price`, compiled."""
    state = LargeElimination(graph, objective, deadline=deadline)
    return state.priced if state.follow(np.fromiter(order, np.int64), limit) else None


def large_markowitz(
    graph: DifferentiationGraph, objective: Objective, limit: Limit, deadline: Deadline
) -> tuple[Priced, tuple[int, ...]] | None:
    """`accumulus.search.greedy.markowitz_order`, compiled."""
    state = LargeElimination(graph, objective, deadline=deadline)
    order = state.markowitz(limit)
    return None if order is None else (state.priced, (*order.tolist(), *state.dead.tolist()))


def accumulation_of(graph: DifferentiationGraph, order: Sequence[int]) -> Accumulation:
    """`accumulus.accumulate.vertex.eliminate_vertices`, compiled if the graph is large.

    Raises:
        OrderError: if the order leaves a vertex out, names one twice, or one that is not an intermediate; or if it
            makes more steps than references can tell apart, two thousand million.
    """
    if not is_large(graph):
        return eliminate_vertices(graph, order)
    check_order(graph, order)
    steps = Steps(len(graph.sources))
    state = LargeElimination(graph, Objective.FMA, steps)
    state.follow(np.fromiter(order, np.int64))
    place = np.zeros(len(graph.vertices), np.int64)
    for ends in (graph.roots, graph.terminals):  # no vertex is both
        place[list(ends)] = np.arange(len(ends))
    sources, targets, references = state.left()
    return Accumulation(graph, steps, Entries(place[sources], place[targets], references))
