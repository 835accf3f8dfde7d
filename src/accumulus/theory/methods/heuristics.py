"""The heuristics of the literature: what to eliminate next, by a score, for vertices, edges and faces.

All go back to Albrecht, Gottschling and Naumann, Markowitz-type heuristics for computing Jacobian matrices efficiently
(ICCS 2003, LNCS 2658, 575–584), and to the library Angel of the same authors, whose definitions are taken here:

* **Markowitz**: the fewest products. For a vertex |P|·|S|, its Markowitz degree; for an edge |P_j| from the front,
  |S_i| from the back; for a face the number of faces at the same vertex of the graph, its Markowitz degree there.
* **Relative Markowitz**: the Markowitz degree less that which is due in any order, (roots above)·(terminals below) for
  a vertex; for an edge |P_j| less the roots above j, or |S_i| less the terminals below i.
* **Lowest fill-in**: the fewest edges that are new.
* **LMMD**, lowest Markowitz minimal damage: the least sum of the Markowitz degree and the damage, which is what
  the Markowitz degrees of all other vertices grow by.
* **MOMR**, maximal overall Markowitz reduction: what lowers the sum of all Markowitz degrees, which is the number
  of faces, by the most: the Markowitz degree less the damage. For faces, LMMD is the same.

Scores count edges, whatever their labels and the sizes of their ends. Relative Markowitz and lowest fill-in are not
defined for faces there. Ties go to what is nearest to the roots, then to the lowest numbers (of faces under MOMR, to
these at once); so every heuristic is deterministic.

Choices wait in a heap. When something is eliminated, the scores of what is next to it are renewed, others when their
turn comes. So a score that is lowered by a change further away is noticed late. (Markowitz degrees and relative ones
only change next to what is eliminated.) Time: some microseconds for each product and each score, and a score takes
time linear in the degrees around. None is within a constant factor of the optimum. Greedy edges and faces may go wrong
without bound (Griewank and Naumann, Accumulating Jacobians as chained sparse matrix products, 2003, warn
of it): a sequence of four times the products of the Markowitz order, or of more than `_LONGEST`, is given up, and that
order is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from accumulus.deadline import Deadline
from accumulus.elimination.edge import EdgeElimination
from accumulus.elimination.face import FaceElimination
from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.elimination import Limit
from accumulus.search.greedy import markowitz, markowitz_order
from accumulus.search.registry import Found, register
from accumulus.theory.methods.greedy import EdgeChoices, FaceChoices, Problem, Step, run_heap

__all__ = ["HEURISTICS", "Heuristic"]

#: Times the products of the Markowitz order, and besides, after which edges and faces are given up; and in any case.
_MOST: Final = (4, 1_000)
_LONGEST: Final = {"edge": 200_000, "face": 50_000}
Neighbours = Sequence[Collection[int]]


@dataclass(frozen=True, slots=True)
class _Side:
    """A graph seen from one side: predecessors, successors, and how many roots are above each vertex; or reversed."""

    P: Any
    S: Any
    above: Sequence[int]


def _missing(some: Collection[int], others: Collection[int]) -> int:
    """How many of some are not among the others."""
    if isinstance(some, set):
        return len(some.difference(others))
    return sum(v not in others for v in some)


# Scores of vertices: by the graph, the reversed graph, and the vertex.


def _vertex_relative(up: _Side, down: _Side, k: int) -> int:
    return len(up.P[k]) * len(up.S[k]) - up.above[k] * down.above[k]


def _vertex_fill_in(up: _Side, down: _Side, k: int) -> int:
    return sum(_missing(up.S[k], up.S[p]) for p in up.P[k])


def _vertex_damage(up: _Side, down: _Side, k: int) -> int:
    return sum(
        len(side.P[p]) * (_missing(side.S[k], side.S[p]) - 1) for side in (up, down) for p in side.P[k] if side.P[p]
    )


def _vertex_lmmd(up: _Side, down: _Side, k: int) -> int:
    return len(up.P[k]) * len(up.S[k]) + _vertex_damage(up, down, k)


def _vertex_momr(up: _Side, down: _Side, k: int) -> int:
    return _vertex_damage(up, down, k) - len(up.P[k]) * len(up.S[k])


# Scores of edges ⟨j,i⟩ from the front; from the back they are those of ⟨i,j⟩ in the reversed graph.


def _edge_markowitz(side: _Side, j: int, i: int) -> int:
    return len(side.P[j])


def _edge_relative(side: _Side, j: int, i: int) -> int:
    return len(side.P[j]) - side.above[j]


def _edge_fill_in(side: _Side, j: int, i: int) -> int:
    return _missing(side.P[j], side.P[i])


def _edge_damage(side: _Side, j: int, i: int) -> int:
    P, S = side.P, side.S
    # i has new predecessors and loses j; a new predecessor has one successor more; without ⟨j,i⟩, j may be gone
    damage = len(S[i]) * (_missing(P[j], P[i]) - 1)
    damage += sum(len(P[p]) for p in P[j] if p not in P[i])
    return damage - sum(len(P[p]) for p in P[j]) * (len(S[j]) == 1)


def _edge_lmmd(side: _Side, j: int, i: int) -> int:
    return len(side.P[j]) + _edge_damage(side, j, i)


def _edge_momr(side: _Side, j: int, i: int) -> int:
    return _edge_damage(side, j, i) - len(side.P[j])


class _Places:
    """Where vertices stand: what is nearest to the roots comes first; and how many roots and terminals they join."""

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.place = {v: -position for position, v in enumerate(graph.topological_order)}
        self.roots = [bits.bit_count() for bits in index_ranges(graph)]
        self.terminals = [bits.bit_count() for bits in index_domains(graph)]


class _Vertices:
    """Vertex elimination as a choice; the state is the eliminated vertices in their order."""

    def __init__(self, graph: DifferentiationGraph, score: Callable[[_Side, _Side, int], int]) -> None:
        places = _Places(graph)
        self._place, self._score = places.place, score
        P: list[set[int]] = [set() for _ in graph.vertices]
        S: list[set[int]] = [set() for _ in graph.vertices]
        for e in graph.live_edges.nonzero()[0].tolist():
            j, i = int(graph.sources[e]), int(graph.targets[e])
            S[j].add(i)
            P[i].add(j)
        self._up, self._down = _Side(P, S, places.roots), _Side(S, P, places.terminals)
        self._left = dict.fromkeys(graph.intermediates)

    def start(self, graph: DifferentiationGraph) -> _Order:
        return _Order()

    def scores(self, state: _Order) -> Iterator[tuple[tuple[int, int], Step]]:
        return ((self.score(state, (k,)), (k,)) for k in self._left)

    def is_choice(self, state: _Order, step: Step) -> bool:
        return step[0] in self._left

    def score(self, state: _Order, step: Step) -> tuple[int, int]:
        return self._score(self._up, self._down, step[0]), self._place[step[0]]

    def take(self, state: _Order, step: Step) -> list[Step]:
        (k,) = step
        P, S = self._up.P, self._up.S
        del self._left[k]
        state.steps.append(k)
        for p in P[k]:
            S[p].discard(k)
            S[p] |= S[k]
        for s in S[k]:
            P[s].discard(k)
            P[s] |= P[k]
        return [(v,) for v in (*P[k], *S[k]) if v in self._left]


class _Order:
    """Vertices in the order in which they were eliminated."""

    def __init__(self) -> None:
        self.steps: list[int] = []


class _Edges(EdgeChoices):
    """Edge elimination as a choice, by any score."""

    def __init__(self, graph: DifferentiationGraph, score: Callable[[_Side, int, int], int]) -> None:
        self._places, self._score = _Places(graph), score

    def start(self, graph: DifferentiationGraph) -> EdgeElimination:
        state = super().start(graph)
        self._front = _Side(state.predecessors, state.successors, self._places.roots)
        self._back = _Side(state.successors, state.predecessors, self._places.terminals)
        return state

    def score(self, state: EdgeElimination, step: Step) -> Any:
        j, i, side = step
        if side == "front":
            return self._score(self._front, j, i), self._places.place[j]
        return self._score(self._back, i, j), self._places.place[i]


class _FaceDegrees(FaceChoices):
    """Faces by the Markowitz degree of the vertex between them; a step is that vertex, and takes one face there."""

    def __init__(self, graph: DifferentiationGraph) -> None:
        self._graph, self._place = graph, _Places(graph).place

    def start(self, graph: DifferentiationGraph) -> FaceElimination:
        state = super().start(graph)
        self._ends = {e: (int(graph.sources[e]), int(graph.targets[e])) for e in state.vertices()}
        self._into: list[dict[int, None]] = [{} for _ in graph.vertices]
        for e, (_, i) in self._ends.items():
            self._into[i][e] = None
        return state

    def scores(self, state: FaceElimination) -> Iterator[tuple[Any, Step]]:
        return ((self.score(state, (k,)), (k,)) for k in self._graph.intermediates if self.is_choice(state, (k,)))

    def is_choice(self, state: FaceElimination, step: Step) -> bool:
        return any(state.inner_successors(i) for i in self._labels(state, step[0]))

    def score(self, state: FaceElimination, step: Step) -> Any:
        return sum(state.inner_successors(i) for i in self._labels(state, step[0])), self._place[step[0]]

    def take(self, state: FaceElimination, step: Step) -> list[Step]:
        i = min(i for i in self._labels(state, step[0]) if state.inner_successors(i))
        j = min(state.successors[i])
        start, end = self._ends[i][0], self._ends[j][1]
        k = state.eliminate(i, j)
        if k in state:
            self._ends[k] = start, end
            self._into[end][k] = None
        return [(v,) for v in (step[0], start, end) if self.is_choice(state, (v,))]

    def _labels(self, state: FaceElimination, v: int) -> list[int]:
        """Vertices of the line graph whose labels end at v."""
        into = self._into[v]
        for gone in [i for i in into if i not in state or self._ends[i][1] != v]:
            del into[gone]
        return list(into)


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A row of the table: what is eliminated, and by which score.

    Attributes:
        seconds: for each product of the better of forward and reverse elimination, roughly.
    """

    name: str
    level: Literal["vertex", "edge", "face"]
    score: Callable[..., int] | None
    seconds: float


HEURISTICS: Final = (
    Heuristic("relative-markowitz", "vertex", _vertex_relative, 1e-5),
    Heuristic("lowest-fill-in", "vertex", _vertex_fill_in, 1e-5),
    Heuristic("lmmd", "vertex", _vertex_lmmd, 1e-5),
    Heuristic("momr", "vertex", _vertex_momr, 1e-5),
    Heuristic("markowitz-edge", "edge", _edge_markowitz, 1e-4),
    Heuristic("relative-markowitz-edge", "edge", _edge_relative, 1e-4),
    Heuristic("lowest-fill-in-edge", "edge", _edge_fill_in, 1e-4),
    Heuristic("lmmd-edge", "edge", _edge_lmmd, 1e-4),
    Heuristic("momr-edge", "edge", _edge_momr, 1e-4),
    Heuristic("markowitz-face", "face", None, 1e-4),
    Heuristic("momr-face", "face", None, 2e-4),
)


def _register(row: Heuristic) -> None:
    @register(row.name, lambda work: row.seconds * (work.fewest + work.edges))
    def find(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
        if row.level == "vertex":
            assert row.score is not None
            problem = _Vertices(graph, row.score)
            order = _Order()
            run_heap(problem, order, len(graph.vertices), deadline)
            return Found(graph, row.name, tuple(order.steps))
        longest = _LONGEST[row.level]
        fewest = markowitz_order(graph, Objective.FMA, Limit(longest), deadline)
        most = longest if fewest is None else min(longest, _MOST[0] * fewest[0].cost[0] + _MOST[1])
        found = None if fewest is None else _sequence(graph, row, most, deadline)
        return found or markowitz(graph, options, deadline)


def _sequence(graph: DifferentiationGraph, row: Heuristic, limit: int, deadline: Deadline) -> Found | None:
    """The greedy edges or faces; None if they make more products than the limit."""
    problem: Problem
    if row.level == "edge":
        assert row.score is not None
        problem = _Edges(graph, row.score)
    else:
        problem = _FaceDegrees(graph) if row.name == "markowitz-face" else FaceChoices()
    state = problem.start(graph)
    if run_heap(problem, state, limit, deadline) is None:
        return None
    return Found(graph, row.name, _accumulation=state.finish())


for _row in HEURISTICS:
    _register(_row)
