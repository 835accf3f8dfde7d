"""Proven optima: the best vertex, edge and face elimination, and the largest gap of a plan from it.

**Proofs.** A proof holds the known bounds and plans of each part of a graph, and runs searches that improve them.

There are three optima: the cost of the best *vertex* elimination, of the best *edge* elimination, and of the best
*face* elimination. A vertex order is an edge sequence, and an edge sequence is a face sequence. So the costs of one are
upper bounds for the next, and lower bounds hold in the other direction. Bounds that hold for every program
(`accumulus.theory.bounds`) hold for all three.

Independent parts of the graph are searched one by one. Every search is a generator that yields the best total cost
from time to time and may be dropped at any yield.

**Methods.** Each method begins with what the heuristic method of its kind finds, and then proves that nothing is
better, or finds what is: by bounds that hold for every program, and by searches of its own kind. What it cannot finish
in its time, or in the iterations that it is given, stays open: the plan is the best so far, and its lower bound less
than its cost.

What a lower bound is about: `exact-vertex` speaks of vertex eliminations, `exact-edge` of edge eliminations, all other
methods of face eliminations, of which vertex and edge eliminations are a part. Under "operations" nothing is proven:
what an emitted tape saves by sharing is not the elimination's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final, Literal, NamedTuple

import numpy as np

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edges_and_faces import (
    EdgeElimination,
    FaceElimination,
    Side,
    edges_of_vertex,
    eliminate_edges,
    eliminate_faces,
    faces_of_edges,
)
from accumulus.elimination.vertex import VertexElimination
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.search.registry import SearchResult, register
from accumulus.search.vertex_orders import vertex
from accumulus.theory.bounds import MOST_COLUMNS, bracketing_bound, least_costs, lower_bound, unmerged
from accumulus.theory.exact.orders import LARGE_BLOCK, MOST_VERTICES, SMALL_BLOCK, OrderSearch
from accumulus.theory.exact.searches import LineSearch, independent_parts, reduced_part
from accumulus.theory.methods.edges_and_faces import edge, face

Level = Literal["vertex", "edge", "face"]
#: From the narrowest to the widest class of eliminations.
LEVELS: Final[tuple[Level, ...]] = ("vertex", "edge", "face")


@dataclass(slots=True)
class _KnownPart:
    """An independent part: its vertices in the best order so far, with its costs, bounds and sequences."""

    order: tuple[int, ...]
    cost: dict[Level, int]  # of the best elimination that is known, by level; of a wider class never more
    # no elimination costs less, by level; of a wider class never more
    bound: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    # the best edge elimination that is known, if it is better than the order
    edges: list[tuple[int, int, Side]] | None = None
    faces: LineSearch | None = None  # the search that found a better face elimination than both, with its steps

    def proven(self, level: Level) -> bool:
        return self.bound[level] >= self.cost[level]

    def improve(self, level: Level, cost: int) -> None:
        for wider in LEVELS[LEVELS.index(level) :]:
            self.cost[wider] = min(self.cost[wider], cost)

    def raise_bound(self, level: Level, bound: int) -> None:
        for narrower in LEVELS[: LEVELS.index(level) + 1]:
            self.bound[narrower] = max(self.bound[narrower], bound)


class OptimumProof:
    """Lower bounds, and plans, of one graph under one objective.

    Args:
        graph: to be searched.
        objective: "fma" or "multiplications"; nothing is proven about "operations".
        order: order of all intermediates, the best that is known.
        deadline: when it passes, `OutOfTimeError` is raised; what is known by then is there all the same.
    """

    def __init__(
        self, graph: DifferentiationGraph, objective: Objective, order: Sequence[int], deadline: Deadline = FOREVER
    ) -> None:
        assert not objective.on_tape
        self.graph = graph
        self._state = Elimination.of(graph, objective, deadline)
        #: With parallel edges unmerged: bounds there hold for every program.
        self._unmerged = unmerged(graph, objective, deadline)
        self._parts: list[_KnownPart] = []
        position = {v: t for t, v in enumerate(order)}
        costs = np.zeros(len(order), np.int64)
        VertexElimination(graph, objective, deadline=deadline).follow(np.array(order, np.int64), costs=costs)
        prices = dict(zip(order, costs.tolist(), strict=True))
        for vertices in independent_parts(self._state):
            cost = sum(prices[v] for v in vertices)
            in_order = tuple(sorted(vertices, key=position.__getitem__))
            self._parts.append(_KnownPart(in_order, dict.fromkeys(LEVELS, cost)))
        least = least_costs(self._unmerged)
        for part in self._parts:
            part.raise_bound("face", sum(least[v] for v in part.order))

    def cost(self, level: Level) -> int:
        """Return the cost of the best known elimination."""
        return sum(part.cost[level] for part in self._parts)

    def bound(self, level: Level) -> int:
        """Return the lower bound: no elimination costs less."""
        return sum(part.bound[level] for part in self._parts)

    def proven(self, level: Level) -> bool:
        """Return True if no elimination is cheaper than the best that is known."""
        return all(part.proven(level) for part in self._parts)

    def raise_bound(self, level: Level, bound: int) -> None:
        """Raise the bounds of all parts, as no elimination of the whole graph costs less than `bound`."""
        for part in self._parts:
            # the other parts cost at most their known costs
            part.raise_bound(level, bound - self.cost(level) + part.cost[level])

    def bracket(self, work: Callable[[], float], columns: int, *, partial: bool) -> Iterator[int]:
        """Raise the bounds of all levels by the cheapest bracketing of each part.

        Args:
            work: seconds of it that are left.
            columns: columns of the integer program of a part, at most.
            partial: True if to leave out paths where there are too many.
        """
        for part in self._parts:
            if not part.proven("face"):
                bound = bracketing_bound(self._unmerged, part.order, work(), columns, partial=partial)
                part.raise_bound("face", bound)
                yield self.cost("face")

    def search_orders(self, nodes: int, block: int, most: int = MOST_VERTICES) -> Iterator[int]:
        """Bound each part by blocks and search its orders from the last vertex, after reduction.

        Args:
            nodes: sets of vertices searched for each part, at most.
            block: vertices of a block, at most.
            most: vertices of a part that is searched.
        """
        for part in sorted(self._parts, key=lambda part: len(part.order)):
            if part.proven("vertex"):
                continue
            smaller = reduced_part(self._state, part.order)
            if len(smaller.state.intermediates) > most:
                part.raise_bound("vertex", smaller.cost + sum(least_costs(smaller.state).values()))
                continue
            search = OrderSearch(smaller.state, part.cost["vertex"] - smaller.cost, nodes, block)
            try:
                for _ in search.run():
                    part.raise_bound("vertex", smaller.cost + search.lower_bound)
                    yield self.cost("vertex")
            finally:
                if search.order is not None:
                    part.order = smaller.named(search.order)
                part.improve("vertex", smaller.cost + search.cost)
                part.raise_bound("vertex", smaller.cost + search.lower_bound)
            yield self.cost("vertex")

    def search_sequences(self, level: Literal["edge", "face"], moves: int) -> Iterator[int]:
        """Search the edge or face eliminations of each part by branch and bound.

        Args:
            level: "edge" or "face".
            moves: largest number of eliminations tried for each part.
        """
        for part in self._parts:
            if part.proven(level):
                continue
            search = LineSearch(
                self._state, part.order, part.cost[level], part.bound[level], edges=level == "edge", moves=moves
            )
            try:
                for _ in search.run():
                    part.improve(level, search.cost)
                    yield self.cost(level)
            finally:
                part.improve(level, search.cost)
                part.raise_bound(level, search.lower_bound)
                if search.steps is not None and level == "edge":
                    part.edges = search.named_edges()
                elif search.steps is not None:
                    part.faces = search
            yield self.cost(level)

    def order(self) -> tuple[int, ...]:
        """Return the best order that is known, of all intermediates."""
        return (*(v for part in self._parts for v in part.order), *self._state.dead)

    def accumulation(self, level: Literal["edge", "face"]) -> Accumulation:
        """Return the best edge or face elimination that is known."""
        if level == "edge":
            return eliminate_edges(self.graph, self._edges(self._parts))
        return eliminate_faces(self.graph, self.faces())

    def faces(self) -> list[tuple[int, int]]:
        """Return the best known face elimination, for `accumulus.elimination.edges_and_faces.eliminate_faces`."""
        elimination = FaceElimination(self.graph)
        # parts are independent: edges first, then the parts with better face sequences
        faces = faces_of_edges(self.graph, self._edges(part for part in self._parts if part.faces is None))
        for each in faces:
            elimination.eliminate(*each)
        for part in self._parts:
            if part.faces is not None:
                assert part.faces.steps is not None
                faces += part.faces.lines.faces(elimination, part.faces.steps)
        return faces

    def _edges(self, parts: Iterable[_KnownPart]) -> list[tuple[int, int, Side]]:
        """Return the best edge elimination of some parts: as it was found, or by their orders."""
        elimination, sequence = EdgeElimination(self.graph), list[tuple[int, int, Side]]()
        for part in parts:
            ordered = (each for k in part.order for each in edges_of_vertex(elimination, k))
            for each in ordered if part.edges is None else part.edges:
                elimination.eliminate(*each)
                sequence.append(each)
        return sequence


# Methods -------------------------------------------------------------------------------------------------------------


class Patience(NamedTuple):
    """Limits of a proof."""

    vertices: int = MOST_VERTICES  # of a part whose orders are searched
    nodes: int = sys.maxsize  # sets of vertices that are searched for orders
    block: int = LARGE_BLOCK  # vertices of a block
    columns: int = MOST_COLUMNS  # of an integer program
    moves: int = sys.maxsize  # of a search for edges or faces


#: For proofs that were not asked for: some tens of milliseconds.
BRIEF: Final = Patience(vertices=24, nodes=1_000, block=SMALL_BLOCK, columns=4_000, moves=20_000)
#: Sets of vertices that are searched on the way to edges and faces.
_ON_THE_WAY: Final = 50_000
#: Of graphs of more edges, only the flow bound is found.
_LARGEST: Final = 5_000
#: Seconds for each edge that this bound takes.
_BOUND: Final = 5e-5
#: Part of the time that the heuristic method may take.
_SHARE: Final = 0.4
#: Part of the work that is left, and seconds of it, that the search for orders takes before integer programs do.
_FIRST: Final = 0.25
_FIRST_SECONDS: Final = 3.0
#: Part of the work that is left which an integer program may take.
_BRACKETS: Final = 0.5
#: Part of the vertices' least cost that a small program has to reach, or no larger ones are solved.
_PROMISING: Final = 0.9
_BASES: Final = {"vertex": vertex, "edge": edge, "face": face}


def _register(level: Level) -> None:
    @register(f"exact-{level}")
    def find(graph: DifferentiationGraph, context: Context) -> SearchResult:
        best = _BASES[level](graph, context.part(_SHARE))
        if best.interrupted or context.options.objective.on_tape or not context.options.searches or context.passed:
            return best
        return proven(graph, context, best, level)


for _level in LEVELS:
    _register(_level)


def proven(
    graph: DifferentiationGraph,
    context: Context,
    best: SearchResult,
    level: Level,
    *,
    brief: bool = False,
) -> SearchResult:
    """Return the plan, improved if the search finds a better one, with a lower bound for its level.

    Args:
        graph: graph to eliminate.
        context: options and deadline.
        best: plan of the graph; its order, if it has one, is where the search begins.
        level: class of the eliminations to search, after all narrower ones.
        brief: if True, stop after some tens of milliseconds.
    """
    options = context.options
    if options.objective.on_tape:
        return best
    if len(graph.sources) > _LARGEST:
        if _BOUND * len(graph.sources) > context.seconds:
            return best
        try:
            least = lower_bound(graph, options.objective, deadline=context)
        except OutOfTimeError:
            return best
        return replace(best, lower_bound=None if least is None else min(least, best.cost(options.objective)))
    start = best
    if start.order is None:
        start = vertex(graph, context.having(effort="fast", executor=None))
    assert start.order is not None
    try:
        proof = OptimumProof(graph, options.objective, start.order, context)
    except OutOfTimeError:
        return best
    run = _Run(proof, level, best, context)
    patience = BRIEF if brief else Patience()
    if options.iterations is not None:
        columns, moves = min(MOST_COLUMNS, 5 * options.iterations), 20 * options.iterations
        patience = Patience(24, moves, SMALL_BLOCK, columns, moves)
    interrupted = False
    try:
        with closing(run.steps(patience)) as steps:
            for _ in steps:
                context.tell("plan", min(run.cost, proof.cost(level)))
                if context.passed:
                    break
    except OutOfTimeError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    best = _best_of(proof, level) if proof.cost(level) < run.cost else run.best
    bound = min(proof.bound(level), best.cost(options.objective))
    return replace(best, lower_bound=bound, interrupted=best.interrupted or interrupted)


class _Run:
    """Bounds and searches in turn, until one of them shows that nothing is better than the best plan that is known."""

    def __init__(self, proof: OptimumProof, level: Level, best: SearchResult, context: Context) -> None:
        self.proof, self.level, self._context = proof, level, context
        self.best, self.cost = best, best.cost(context.options.objective)

    def done(self) -> bool:
        return self.proof.bound(self.level) >= min(self.cost, self.proof.cost(self.level))

    def steps(self, patience: Patience) -> Generator[None]:
        """Run every search that the patience allows, until one proves optimality."""
        first = Patience(*map(min, BRIEF, patience))
        searches = [self._searches(first), self._searches(patience)]
        brackets = [self._brackets(first, partial=False), self._brackets(patience, partial=True)]
        if self.level == "vertex":
            # a search either ends soon or takes all the time; a bound from an integer program can spare it
            until = self._context.left - min(_FIRST * self._context.left, _FIRST_SECONDS)
            soon = takewhile(lambda _: self._context.left > until, searches[1])
            in_turn = [searches[0], soon, *brackets, searches[1]]
        else:
            in_turn = [searches[0], *brackets, self._repairs(patience), searches[1]]
        for steps in in_turn:
            if not self.done():
                yield from steps

    def _brackets(self, patience: Patience, *, partial: bool) -> Generator[None]:
        if patience == BRIEF and partial:
            return
        columns = patience.columns
        sizes = [columns // 12, columns // 3, columns] if partial else [columns]
        for size in sizes:  # large programs may not be solved in time, and then say less than small ones
            promising = self.proof.bound("face") >= _PROMISING * self.proof.bound(self.level)
            if not self.done() and (promising or size == sizes[0]):
                for _ in self.proof.bracket(lambda: _BRACKETS * self._context.left, size, partial=partial):
                    yield

    def _searches(self, patience: Patience) -> Generator[None]:
        for level in LEVELS[: LEVELS.index(self.level) + 1]:
            if self.done():
                return
            if level == "vertex":
                self._prepare("theory.blocks", "theory.orders")
                nodes = patience.nodes if level == self.level else min(patience.nodes, _ON_THE_WAY)
                search = self.proof.search_orders(nodes, patience.block, patience.vertices)
            else:
                self._prepare("theory.faces")
                moves = patience.moves if level == self.level else min(patience.moves, BRIEF.moves)
                search = self.proof.search_sequences(level, moves)
            for _ in search:
                yield

    def _repairs(self, patience: Patience) -> Generator[None]:
        """Run the level's heuristic method again with thorough effort: it finds plans that the search misses."""
        if patience == Patience():
            repaired = _BASES[self.level](self.best.graph, self._context.having(effort="thorough").part(_SHARE))
            cost = repaired.cost(self._context.options.objective)
            if cost < self.cost:
                self.best, self.cost = repaired, cost
            if repaired.interrupted:
                raise KeyboardInterrupt
            yield

    def _prepare(self, *kernels: str) -> None:
        """Prepare the kernels: the first use on a machine compiles them, which is not the search's time."""
        with self._context.paused():
            prepare(*kernels)


def _best_of(proof: OptimumProof, level: Level) -> SearchResult:
    """Return the best plan, of the narrowest level that has one of its cost."""
    narrowest = next(each for each in LEVELS if proof.cost(each) == proof.cost(level))
    if narrowest == "vertex":
        return SearchResult(proof.graph, "exact-vertex", proof.order())
    return SearchResult(proof.graph, f"exact-{narrowest}", _accumulation=proof.accumulation(narrowest))
