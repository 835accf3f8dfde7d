"""Vertex elimination: remove the intermediate vertices in some order, joining their dependents to their dependencies.

The elimination of k replaces each pair of edges ⟨j,k⟩, ⟨k,i⟩ by c_ji += c_jk · c_ki, which takes |P_k|·|S_k| products
(Griewank and Reese 1991). After all intermediates are eliminated, the remaining edges are the Jacobian. The order
determines the cost. The graph after the elimination of a set of vertices does not depend on their order.

The elimination is compiled (`accumulus.elimination.compiled.vertex_kernel`), for graphs from a few edges to a million.
The cost depends only on the levels of labels: ±1, other constant, or variable. A product has the higher level of its
factors, and a sum has at least the level of a constant. Only parallel edges of the graph are added up by value: known
numbers whose sum is ±1 are ±1. A cost is a pair whose second number breaks ties: (fma,
multiplications) for the objective "fma", (multiplications, fma) for the others.

Time is linear in the products, some five million a second. Memory is linear in the edges that exist at one time: 0.4 GB
for a million edges, and 9 bytes for each recorded step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, JacobianEntries, Steps
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
    UNIT_SUM,
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

#: Cost under the objective, and under the objective that breaks ties.
Cost = tuple[int, int]

#: Level of a label by its kind: ±1, constant, variable.
LEVELS: Final = {Kind.ONE: 1, Kind.MINUS_ONE: 1, Kind.CONSTANT: 2, Kind.VARIABLE: 3}

#: Products for each call of the kernel, some 10 ms; between calls the deadline is checked and Ctrl-C takes effect: more
#: delay them, fewer make more calls.
_SLICE: Final = 50_000
#: Seconds of work for each product: an estimate above the true time ends searches early, one below exceeds their work.
_PRODUCT: Final = 2e-7
#: Smallest capacity of the kernel's buffer of steps, and the largest that it grows to; a vertex may need more. Larger
#: buffers take memory, smaller ones make more calls.
_WAITING: Final = (1 << 10, 1 << 20)
_NO_LIMIT: Final = 1 << 62
_FIRST: Final = 1 << 10


def merged_levels(graph: DifferentiationGraph) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the levels of all labels, and a mask of parallel edges whose labels add up to ±1; these have level 1."""
    by_kind = np.zeros(1 + max(LEVELS), np.int64)
    by_kind[list(LEVELS)] = list(LEVELS.values())
    levels, units = by_kind[graph.kinds], np.zeros(len(graph.sources), bool)
    for group in graph.constant_sums.values():
        units[[e for e, _ in group]] = abs(sum(value for _, value in group)) == 1.0
    levels[units] = 1
    return levels, units


class Priced(NamedTuple):
    """Cost of an order, with its numbers of products and of additions of labels."""

    cost: Cost
    products: int
    additions: int

    @property
    def steps(self) -> int:
        """Number of products and additions."""
        return self.products + self.additions


class Limit(NamedTuple):
    """Limits beyond which an order is abandoned: cost under the objective, and number of products."""

    cost: float = math.inf
    products: float = math.inf


UNLIMITED: Final = Limit()


class VertexElimination:
    """State of a vertex elimination in the kernel.

    Args:
        graph: graph to eliminate; edges on no path of a selected entry are left out.
        objective: objective of the costs.
        steps: steps to which the products and sums are appended; None to record none.
        deadline: when it passes, `follow`, `markowitz` and `arranged` raise `OutOfTimeError`.

    Attributes:
        intermediates: intermediates on a path of a selected entry, dependencies before dependents.
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
        self._graph = graph
        vertices = Records.zeros(Vertex, count)
        vertices.column("size")[:] = graph.sizes
        loaded = np.empty((len(live), 2), np.int64)
        loaded[:, 0] = sources << HALF | targets
        levels, units = merged_levels(graph)
        loaded[:, 1] = np.where(units, UNIT_SUM, levels)[live] << HALF | live
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
            self._reserve(len(live))
        self._widen(len(live) + len(live) // 4 + _FIRST)
        state.end = len(live)
        self._perform(LOAD)
        state.loaded = NOTHING
        self._initial_edges = state.live

    @property
    def dead(self) -> Integers:
        """Return the intermediates on no path of a selected entry."""
        return np.setdiff1d(np.array(self._graph.intermediates, np.int64), self.intermediates)

    @property
    def cost(self) -> Cost:
        """Return the cost of the eliminations so far, under the objective and under the objective that breaks ties."""
        return self._state.total, self._state.tie

    @property
    def priced(self) -> Priced:
        """Return the cost, products and additions so far."""
        state = self._state
        created = state.live - self._initial_edges + state.removed
        return Priced(self.cost, state.made, state.made - created)

    def follow(self, order: Integers, limit: Limit = UNLIMITED, costs: Integers | None = None) -> bool:
        """Eliminate the vertices in order; return False as soon as the total exceeds the limit.

        Args:
            order: vertices to eliminate, by number.
            limit: cost and number of products beyond which the order is abandoned.
            costs: array that receives the cost of each vertex, or None.
        """
        state = self._state
        state.order[: len(order)] = order
        state.costs = np.empty(len(order), np.int64) if costs is None else costs
        state.at, state.end = 0, len(order)
        self._limit(limit)
        return self._run(FOLLOW)

    def markowitz(self, limit: Limit = UNLIMITED) -> Integers | None:
        """Eliminate the cheapest vertex until none is left; return the order, or None if it exceeds the limit."""
        state, count = self._state, len(self.intermediates)
        state.order[:count] = self.intermediates
        state.heap, state.touched = np.zeros(count + 1, np.int64), np.zeros(self._count, np.int64)
        state.at, state.end, state.heaped = 0, count, -1
        self._limit(limit)
        return state.order[:count].copy() if self._run(GREEDY) else None

    def arranged(self, order: Integers, ends: Integers) -> tuple[Integers, Cost]:
        """Eliminate the vertices in order; return a depth-first order of equal cost, and the cost.

        Two consecutive vertices can be exchanged if they are not neighbours when the first is eliminated (Griewank and
        Reese 1991). So every order that keeps the relative order of such neighbours costs the same. The returned order
        is depth first from `ends`: the earlier neighbours of a vertex come right before it.
        """
        state, count = self._state, self._count
        state.noted = True
        self._reserve(0)
        self.follow(order)
        state.noted = False
        noted = np.concatenate([*self._noted, np.zeros(0, np.int64)])
        self._noted = []
        inner = np.zeros(count, bool)
        inner[order] = True
        noted = noted[inner[noted >> HALF]]
        # grouped by the later vertex; its earlier neighbours in ascending order
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
        """Return source, target and level of the vertices' present edges; None if there are too many.

        Args:
            vertices: vertices by number.
            most: largest number of edges to return. If the graph has no more vertices than this, the result is also
                None for as many edges as vertices.
        """
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
                    self._reserve(2 * products + self._count)

    def _perform(self, mode: int) -> int:
        self._state.mode = mode
        result = self._call(self._state.address)
        self._write()
        return result

    def _widen(self, capacity: int) -> None:
        """Grow the tables to hold `capacity` edges at one time."""
        state = self._state
        edges = Records.zeros(Edge, capacity + 1)
        edges.words[: len(state.edges.words)] = state.edges.words
        places = 1 << (2 * capacity).bit_length()
        state.edges, state.table = edges, Records.zeros(Entry, places)
        state.capacity, state.mask = capacity, places - 1
        self._perform(REHASH)

    def _reserve(self, steps: int) -> None:
        """Grow the buffer of steps to at least `steps`."""
        state = self._state
        capacity = max(steps, min(4 * state.room, _WAITING[1]), _WAITING[0])
        if capacity > state.room:
            state.steps, state.room = np.empty(capacity, np.int64), capacity

    def _write(self) -> None:
        """Move the steps in the kernel's buffer to the accumulation's steps, or to the notes of `arranged`."""
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
                f"the order makes more than {LOW:,} products and sums, the most that an accumulation can hold; "
                "expected an order with less fill-in, or the graph of a part of the function"
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
    """Return the cost of eliminating the vertices of `graph` in the given order; None if it exceeds the limit.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    state = VertexElimination(graph, objective, deadline=deadline)
    return state.priced if state.follow(np.fromiter(order, np.int64), limit) else None


def markowitz_order(
    graph: DifferentiationGraph, objective: Objective, limit: Limit = UNLIMITED, deadline: Deadline = FOREVER
) -> tuple[Priced, tuple[int, ...]] | None:
    """Return the cost of the Markowitz order, and the order of all intermediates; None if it exceeds the limit.

    The next vertex is the cheapest of the remaining ones. Ties go to the vertex with the fewest dependents, then to the
    vertex nearest to the roots.

    Raises:
        OutOfTimeError: if the deadline passes first.
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
        OrderError: if the order is not a permutation of the intermediates, or if edges and steps together exceed
            2³¹ − 1, the largest reference.
    """
    check_order(graph, order)
    steps = Steps(len(graph.sources))
    state = VertexElimination(graph, Objective.FMA, steps)
    state.follow(np.fromiter(order, np.int64))
    position = np.zeros(len(graph.vertices), np.int64)
    for ends in (graph.roots, graph.terminals):  # no vertex is both
        position[list(ends)] = np.arange(len(ends))
    sources, targets, references = state.left()
    return Accumulation(graph, steps, JacobianEntries(position[sources], position[targets], references)).selected()


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
