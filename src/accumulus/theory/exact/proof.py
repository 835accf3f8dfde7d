"""What is known about the optimum of a graph, part by part, and the searches that find out more.

Three questions, of which each is as hard as there is room in it: what the best *vertex* elimination costs, the best
*edge* elimination, and the best *face* elimination. An order is an edge sequence, and an edge sequence a face sequence;
so costs of one are upper bounds for the next, and lower bounds the other way round. Bounds that hold for every program
(`accumulus.theory.bounds`, `accumulus.theory.exact.bracketings`) hold for all three.

Independent parts of the graph are looked at one by one. Every search is a generator that yields the best total cost
from time to time and may be dropped at any yield.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edge import EdgeElimination, Side, edges_of_vertex, eliminate_edges
from accumulus.elimination.face import FaceElimination, eliminate_faces, faces_of_edges
from accumulus.elimination.vertex import VertexElimination
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.bounds import least_costs, unmerged
from accumulus.theory.exact.bracketings import bracketing_bound
from accumulus.theory.exact.line_optima import LineSearch
from accumulus.theory.exact.reductions import parts, reduced
from accumulus.theory.exact.subsets import SubsetSearch

__all__ = ["LEVELS", "Level", "Proof"]

Level = Literal["vertex", "edge", "face"]
#: From the narrowest to the widest class of eliminations.
LEVELS: Final[tuple[Level, ...]] = ("vertex", "edge", "face")


@dataclass(slots=True)
class _KnownPart:
    """An independent part: its vertices in the best order that is known, and what is known beyond that.

    Attributes:
        cost: of the best elimination that is known, by level; of a wider class never more.
        bound: no elimination costs less, by level; of a wider class never more.
        edges: the best edge elimination that is known, if it is better than the order.
        faces: the search that found a better face elimination than both, with its steps.
    """

    order: tuple[int, ...]
    cost: dict[Level, int]
    bound: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    edges: list[tuple[int, int, Side]] | None = None
    faces: LineSearch | None = None

    def proven(self, level: Level) -> bool:
        return self.bound[level] >= self.cost[level]

    def improve(self, level: Level, cost: int) -> None:
        for wider in LEVELS[LEVELS.index(level) :]:
            self.cost[wider] = min(self.cost[wider], cost)

    def raise_bound(self, level: Level, bound: int) -> None:
        for narrower in LEVELS[: LEVELS.index(level) + 1]:
            self.bound[narrower] = max(self.bound[narrower], bound)


class Proof:
    """Lower bounds, and plans, of one graph under one objective.

    Args:
        graph: to be searched.
        objective: "fma" or "multiplications"; nothing is proven about "operations".
        order: of all intermediates, the best that is known.
        deadline: when it passes, `OutOfTimeError` is raised; what is known by then is there all the same.
    """

    def __init__(
        self, graph: DifferentiationGraph, objective: Objective, order: Sequence[int], deadline: Deadline = FOREVER
    ) -> None:
        assert not objective.on_tape
        self.graph = graph
        self._state = Elimination(graph, objective, deadline)
        #: With parallel edges as they are: what holds there holds for every program.
        self._unmerged = unmerged(graph, objective, deadline)
        self._parts: list[_KnownPart] = []
        position = {v: t for t, v in enumerate(order)}
        prices = self._prices(order, deadline)
        for part in parts(self._state):
            cost = sum(prices[v] for v in part)
            in_order = tuple(sorted(part, key=position.__getitem__))
            self._parts.append(_KnownPart(in_order, dict.fromkeys(LEVELS, cost)))
        least = least_costs(self._unmerged)
        for known in self._parts:
            known.raise_bound("face", sum(least[v] for v in known.order))

    def cost(self, level: Level) -> int:
        """Of the best elimination that is known."""
        return sum(part.cost[level] for part in self._parts)

    def bound(self, level: Level) -> int:
        """No elimination costs less."""
        return sum(part.bound[level] for part in self._parts)

    def proven(self, level: Level) -> bool:
        """Whether no elimination is cheaper than the best that is known."""
        return all(part.proven(level) for part in self._parts)

    def raise_bound(self, level: Level, bound: int) -> None:
        """Take note that no elimination of the whole graph costs less than `bound`."""
        for part in self._parts:
            # the others cost no more than what is known
            part.raise_bound(level, bound - self.cost(level) + part.cost[level])

    def bracket(self, work: Callable[[], float], columns: int, *, partial: bool) -> Iterator[int]:
        """Raise the bounds of all levels by the cheapest bracketing of each part.

        Args:
            work: seconds of it that are left.
            columns: of the integer program of a part, at most.
            partial: whether to leave out paths where there are too many.
        """
        for part in self._parts:
            if not part.proven("face"):
                found = bracketing_bound(self._unmerged, part.order, work(), columns, partial=partial)
                part.raise_bound("face", found.bound)
                yield self.cost("face")

    def search_orders(self, most: int) -> Iterator[int]:
        """Dynamic programming over the sets of each part of at most so many vertices, after reduction."""
        for part in self._parts:
            if part.proven("vertex"):
                continue
            smaller = reduced(self._state, part.order)
            if len(smaller.state.intermediates) > most:
                part.raise_bound("vertex", smaller.cost + sum(least_costs(smaller.state).values()))
                continue
            search = SubsetSearch(smaller.state, part.cost["vertex"] - smaller.cost)
            for _ in search.run():
                yield self.cost("vertex")
            if search.order is not None:
                part.order = smaller.named(search.order)
            part.improve("vertex", smaller.cost + search.cost)
            part.raise_bound("vertex", smaller.cost + search.lower_bound)
            yield self.cost("vertex")

    def search_sequences(self, level: Literal["edge", "face"], moves: int) -> Iterator[int]:
        """Branch and bound over the edge or face eliminations of each part.

        Args:
            moves: tried for each part, at most.
        """
        for part in self._parts:
            if part.proven(level):
                continue
            search = LineSearch(
                self._state, part.order, part.cost[level], part.bound[level], edges=level == "edge", moves=moves
            )
            try:
                for _ in search.run():
                    if search.steps is not None and search.cost < part.cost[level]:
                        self._keep(part, level, search)
                    yield self.cost(level)
            finally:
                if search.steps is not None and search.cost < part.cost[level]:
                    self._keep(part, level, search)
                part.raise_bound(level, search.lower_bound)
            yield self.cost(level)

    def order(self) -> tuple[int, ...]:
        """The best order that is known, of all intermediates."""
        return (*(v for part in self._parts for v in part.order), *self._state.dead)

    def accumulation(self, level: Literal["edge", "face"]) -> Accumulation:
        """The best edge or face elimination that is known."""
        if level == "edge":
            return eliminate_edges(self.graph, self._edges(self._parts))
        return eliminate_faces(self.graph, self.faces())

    def faces(self) -> list[tuple[int, int]]:
        """The best face elimination that is known, for `accumulus.elimination.face.eliminate_faces`."""
        elimination = FaceElimination(self.graph)
        # parts are independent: edges first, and then what only faces do
        faces = faces_of_edges(self.graph, self._edges(part for part in self._parts if part.faces is None))
        for face in faces:
            elimination.eliminate(*face)
        for part in self._parts:
            if part.faces is not None:
                assert part.faces.steps is not None
                faces += part.faces.lines.faces(elimination, part.faces.steps)
        return faces

    def _edges(self, parts: Iterable[_KnownPart]) -> list[tuple[int, int, Side]]:
        """The best edge elimination of some parts: as it was found, or by their orders."""
        elimination, sequence = EdgeElimination(self.graph), list[tuple[int, int, Side]]()
        for part in parts:
            ordered = (edge for k in part.order for edge in edges_of_vertex(elimination, k))
            for edge in ordered if part.edges is None else part.edges:
                elimination.eliminate(*edge)
                sequence.append(edge)
        return sequence

    def _keep(self, part: _KnownPart, level: Literal["edge", "face"], search: LineSearch) -> None:
        part.improve(level, search.cost)
        if level == "edge":
            part.edges = search.named_edges()
        else:
            part.faces = search

    def _prices(self, order: Sequence[int], deadline: Deadline) -> dict[int, int]:
        """What each vertex costs in an order."""
        costs = np.zeros(len(order), np.int64)
        state = VertexElimination(self.graph, self._state.objective, deadline=deadline)
        state.follow(np.array(order, np.int64), costs=costs)
        return dict(zip(order, costs.tolist(), strict=True))
