"""Vertex elimination: remove intermediate vertices one by one, joining their dependents to their dependencies.

Eliminating k replaces each pair of edges ⟨j,k⟩, ⟨k,i⟩ by c_ji += c_jk · c_ki, |P_k|·|S_k| products at a time
(Griewank and Reese 1991). When all intermediates are gone the edges that remain are the Jacobian. The order
decides the cost; the graph after a set of vertices is gone does not depend on their order.

Compiled (`accumulus.elimination.compiled.vertex_kernel`), for graphs of a few edges and of a million. A label matters
to the cost by its level only: ±1, another constant, or variable. A product takes the higher level of its factors, and a
sum of two labels is at least a constant. Costs are pairs, so that orders which are equal under the objective are told
apart: (fma, multiplications) for the objective "fma", (multiplications, fma) for the others.

Time and memory are those of the products and of the edges that are there at one time: some five million products a
second; 0.4 GB for a million edges, and 9 bytes for each step that is recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, Entries, Steps
from accumulus.elimination.compiled.vertex_kernel import (
    ARRANGE,
    DONE,
    EXCEEDED,
    FOLLOW,
    GREEDY,
    HALF,
    LIST,
    LOAD,
    LOW,
    NARROW,
    PAUSED,
    REHASH,
    Edge,
    EliminationState,
    Entry,
    Vertex,
)
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.machine import kernel
from accumulus.native.state import NOTHING, Integers, Records
from accumulus.options import Objective
from accumulus.text import some_of

#: Cost under the objective, then under the one that breaks ties.
Cost = tuple[int, int]

#: Level of a label by its kind: ±1, constant, variable.
LEVELS: Final = {Kind.ONE: 1, Kind.MINUS_ONE: 1, Kind.CONSTANT: 2, Kind.VARIABLE: 3}

#: Products of one call of the kernel, some 10 ms; between calls it looks at the deadline, and Ctrl-C is heard. And the
#: seconds of work of each.
_SLICE: Final = 50_000
_PRODUCT: Final = 2e-7
#: Room for steps that wait in the kernel: the least, and the most by growth; a vertex may need more.
_WAITING: Final = (1 << 10, 1 << 20)
_NO_LIMIT: Final = 1 << 62
_FIRST: Final = 1 << 10


class Priced(NamedTuple):
    """Counts of an order: its cost, all products of labels, and additions of labels."""

    cost: Cost
    products: int
    additions: int

    @property
    def steps(self) -> int:
        """Products and additions."""
        return self.products + self.additions


class Limit(NamedTuple):
    """Limit beyond which an order is abandoned: its cost under the objective, and the number of its products."""

    cost: float = math.inf
    products: float = math.inf


UNLIMITED: Final = Limit()


class VertexElimination:
    """Graph from which the kernel eliminates vertices.

    Args:
        graph: taken without what is on no path from a root to a terminal.
        objective: what costs are of.
        steps: where the products and sums are recorded, if they are wanted.
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
        self.intermediates = graph.live_intermediates
        self.dead = np.setdiff1d(np.array(graph.intermediates, np.int64), self.intermediates)
        vertices = Records.zeros(Vertex, count)
        vertices.column("size")[:] = graph.sizes
        loaded = np.empty((len(live), 2), np.int64)
        loaded[:, 0] = sources << HALF | targets
        levels = np.zeros(1 + max(LEVELS), np.int64)
        levels[list(LEVELS)] = list(LEVELS.values())
        loaded[:, 1] = levels[graph.kinds[live]] << HALF | live
        self._call = kernel("elimination.vertex")
        self._steps = steps
        self._noted: list[Integers] = []
        state = self._state = EliminationState(
            vertices=vertices,
            edges=Records.zeros(Edge, 0),
            table=Records.zeros(Entry, 0),
            order=np.zeros(count, np.int64),
            scratch=np.zeros(2 * count + _FIRST, np.int64),
            merged=np.zeros(2 * count + _FIRST, np.int64),
            loaded=loaded.ravel(),
            every=objective.every_product,
            limit=_NO_LIMIT,
            most=_NO_LIMIT,
            next=0 if steps is None else steps.edges,
        )
        if steps is not None:
            self._make_room(len(live))
        self._widen(len(live) + len(live) // 4 + _FIRST)
        state.end = len(live)
        self._perform(LOAD)
        state.loaded = NOTHING
        self._edges_given = state.live

    @property
    def cost(self) -> Cost:
        """Return the cost of the eliminations so far, under the objective and under the one that breaks ties."""
        return self._state.total, self._state.tie

    @property
    def priced(self) -> Priced:
        """Return the cost, products and additions so far."""
        state = self._state
        created = state.live - self._edges_given + state.removed
        return Priced(self.cost, state.made, state.made - created)

    def follow(self, order: Integers, limit: Limit = UNLIMITED, costs: Integers | None = None) -> bool:
        """Eliminate the vertices of an order; return False once all together exceed the limit.

        Args:
            order: vertices to eliminate, by number.
            limit: cost and number of products at which the order is abandoned.
            costs: array that receives the cost of each vertex, or None.
        """
        state = self._state
        state.order[: len(order)] = order
        state.costs = np.empty(len(order), np.int64) if costs is None else costs
        state.at, state.end = 0, len(order)
        self._limit(limit)
        return self._run(FOLLOW)

    def markowitz(self, limit: Limit = UNLIMITED) -> Integers | None:
        """Eliminate the cheapest vertex until none is left; return the order, or None once it exceeds the limit."""
        state, count = self._state, len(self.intermediates)
        state.order[:count] = self.intermediates
        state.heap, state.touched = np.zeros(count + 1, np.int64), np.zeros(self._count, np.int64)
        state.at, state.end, state.heaped = 0, count, -1
        self._limit(limit)
        return state.order[:count].copy() if self._run(GREEDY) else None

    def arranged(self, order: Integers, ends: Integers) -> tuple[Integers, Cost]:
        """Eliminate the vertices of an order; return another order of equal cost, and the costs of its vertices.

        Two vertices can be exchanged if they are not neighbours when the first of them is eliminated (Griewank and
        Reese 1991). So every order that keeps the order of such neighbours costs the same. The returned order is depth
        first from `ends`: the vertices that a vertex needs come right before it.
        """
        state, count = self._state, self._count
        state.noted = True
        self._make_room(0)
        self.follow(order)
        state.noted = False
        noted = np.concatenate([*self._noted, np.zeros(0, np.int64)])
        self._noted = []
        inner = np.zeros(count, bool)
        inner[order] = True
        noted = noted[inner[noted >> HALF]]
        # by the later one; of its earlier neighbours the one with the lowest number first
        noted.sort()
        state.starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(noted >> HALF, minlength=count), out=state.starts[1:])
        noted &= LOW
        state.earlier = noted
        state.cursors, state.stack = np.full(count, -1), np.zeros(count, np.int64)
        state.scratch[: len(ends)] = ends
        state.end = len(ends)
        self._perform(ARRANGE)
        return state.order[: len(order)].copy(), self.cost

    def edges_at(self, vertices: Integers, most: int) -> list[tuple[int, int, int]] | None:
        """Return source, target and level of these vertices' present edges; None if they are more than `most`."""
        state = self._state
        state.order[: len(vertices)] = vertices
        state.at, state.end, state.listed = 0, len(vertices), min(most + 1, self._count)
        count = self._perform(LIST)
        if count >= state.listed:
            return None
        ends, levels = state.scratch[: 2 * count].reshape(-1, 2).T
        return list(zip((ends >> HALF).tolist(), (ends & LOW).tolist(), levels.tolist(), strict=True))

    def left(self) -> tuple[Integers, Integers, Integers]:
        """Return source, target and reference of the remaining edges."""
        edges = self._state.edges
        there = np.flatnonzero(edges.column("level"))
        sources, targets, references = (edges.column(name)[there] for name in ("source", "target", "reference"))
        return sources, targets, references

    def _limit(self, limit: Limit) -> None:
        self._state.limit, self._state.most = (int(min(most, _NO_LIMIT)) for most in limit)

    def _run(self, mode: int) -> bool:
        state = self._state
        while True:
            self._deadline.check()
            state.budget = _SLICE
            result = self._perform(mode)
            self._deadline.spend(_PRODUCT * (_SLICE - state.budget))
            if result in (DONE, EXCEEDED):
                return result == DONE
            if result != PAUSED:
                vertex = state.vertices[state.heap[1] if mode == GREEDY else state.order[state.at]]
                products = vertex.entering * vertex.leaving
                if result == NARROW:
                    self._widen(max((state.capacity + 1) * 3 // 2, state.live + products + _FIRST))
                else:
                    self._make_room(2 * products + self._count)

    def _perform(self, mode: int) -> int:
        self._state.mode = mode
        result = self._call(self._state.address)
        self._write()
        return result

    def _widen(self, capacity: int) -> None:
        """Make room for a number of edges at one time."""
        state = self._state
        edges = Records.zeros(Edge, capacity + 1)
        edges.words[: len(state.edges.words)] = state.edges.words
        places = 1 << (2 * capacity).bit_length()
        state.edges, state.table = edges, Records.zeros(Entry, places)
        state.capacity, state.mask = capacity, places - 1
        self._perform(REHASH)

    def _make_room(self, steps: int) -> None:
        """Make room for a number of steps before they are recorded."""
        state = self._state
        room = max(steps, min(4 * state.room, _WAITING[1]), _WAITING[0])
        if room > state.room:
            state.steps, state.room = np.empty(room, np.int64), room

    def _write(self) -> None:
        """Move recorded steps from the kernel's buffer to the accumulation."""
        count = self._state.stepped
        if count == 0:
            return
        waiting = self._state.steps[:count]
        self._state.stepped = 0
        if self._steps is None:
            self._noted.append(waiting.copy())
            return
        if self._steps.edges + len(self._steps) + count > LOW:
            raise OrderError(
                f"the order makes more than {LOW:,} products and sums, as many as an accumulation can hold; "
                "expected an order that fills the graph in less, or a graph of a part of the function"
            )
        self._steps.is_product.extend((waiting >> 2 * HALF).astype(np.uint8).tobytes())
        for column, shift in ((self._steps.left, HALF), (self._steps.right, 0)):
            column.frombytes((waiting >> shift & LOW).astype(np.dtype(f"i{column.itemsize}")).tobytes())


def price(
    graph: DifferentiationGraph,
    order: Iterable[int],
    objective: Objective,
    limit: Limit = UNLIMITED,
    deadline: Deadline = FOREVER,
) -> Priced | None:
    """Return the cost of eliminating the vertices of `graph` in that order; None once it exceeds the limit.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    state = VertexElimination(graph, objective, deadline=deadline)
    return state.priced if state.follow(np.fromiter(order, np.int64), limit) else None


def markowitz_order(
    graph: DifferentiationGraph, objective: Objective, limit: Limit = UNLIMITED, deadline: Deadline = FOREVER
) -> tuple[Priced, tuple[int, ...]] | None:
    """Return all intermediates, the cheapest of the remaining ones next, and their cost; None once over the limit.

    Ties go to the one that the fewest others depend on, then to the one nearest to the roots.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    state = VertexElimination(graph, objective, deadline=deadline)
    order = state.markowitz(limit)
    return None if order is None else (state.priced, (*order.tolist(), *state.dead.tolist()))


def eliminate_vertices(graph: DifferentiationGraph, order: Sequence[int]) -> Accumulation:
    """Eliminate the intermediates of `graph` in the given order.

    Args:
        graph: graph to eliminate.
        order: all intermediate vertices, each once, by number.

    Raises:
        OrderError: if the order leaves a vertex out, names one twice, or one that is not an intermediate; or if it
            makes more steps than references can tell apart, two thousand million.
    """
    check_order(graph, order)
    steps = Steps(len(graph.sources))
    state = VertexElimination(graph, Objective.FMA, steps)
    state.follow(np.fromiter(order, np.int64))
    position = np.zeros(len(graph.vertices), np.int64)
    for ends in (graph.roots, graph.terminals):  # no vertex is both
        position[list(ends)] = np.arange(len(ends))
    sources, targets, references = state.left()
    return Accumulation(graph, steps, Entries(position[sources], position[targets], references)).wanted()


def check_order(graph: DifferentiationGraph, order: Sequence[int]) -> None:
    """Raise `OrderError` unless the order names every intermediate vertex once."""
    expected = set(graph.intermediates)
    for vertex, count in Counter(order).items():
        if vertex not in expected:
            name = graph.vertices[vertex] if vertex in range(len(graph.vertices)) else vertex
            raise OrderError(f"the order names {name!r}, which is not an intermediate vertex of the graph")
        if count > 1:
            raise OrderError(f"the order names {graph.vertices[vertex]!r} {count} times; expected every vertex once")
    missing = expected.difference(order)
    if missing:
        names = some_of(repr(graph.vertices[v]) for v in sorted(missing))
        raise OrderError(f"the order leaves out {names}; expected every intermediate vertex once")
