"""Greedy elimination of vertices, edges and faces by the scores of the literature.

The scores are from Albrecht, Gottschling and Naumann, Markowitz-type heuristics for computing Jacobian matrices
efficiently (ICCS 2003, LNCS 2658, 575–584), with the definitions of the same authors' library Angel:

* **Markowitz**: the fewest products. For a vertex this is its Markowitz degree |P|·|S|; for an edge |P_j| from the
  front, |S_i| from the back; for a face the Markowitz degree of its vertex in the graph, the number of faces there.
* **Relative Markowitz**: the Markowitz degree of a vertex minus its lower bound in any order, (roots above)·(terminals
  below); for an edge |P_j| minus the number of roots above j, or |S_i| minus the number of terminals below i.
* **Lowest fill-in**: the fewest new edges.
* **LMMD**, lowest Markowitz minimal damage: the smallest sum of the Markowitz degree and the damage, which is the
  increase of the Markowitz degrees of all other vertices.
* **MOMR**, maximal overall Markowitz reduction: the largest decrease of the sum of all Markowitz degrees, which is the
  number of faces: the Markowitz degree minus the damage. For faces, LMMD is the same.

Scores count edges, independently of their labels and the sizes of their ends. The paper does not define relative
Markowitz and lowest fill-in for faces. Ties go to the vertex nearest to the roots, then to the lowest numbers (for
faces with MOMR directly to the lowest numbers). So every heuristic is deterministic.

The choices are in a heap (`run_greedily`). After an elimination, only the scores of adjacent choices are updated; other
scores are updated when they reach the top, so a score that has decreased elsewhere is noticed late. (Markowitz degrees
and relative ones only change for adjacent choices.) Time: some microseconds for each product and each score; a score
takes time linear in the degrees of the vertices nearby. No heuristic is within a constant factor of the optimum. Greedy
edges and faces may take arbitrarily many products (Griewank and Naumann, Accumulating Jacobians as chained sparse
matrix products, 2003). So a sequence with some four times the products of the Markowitz order, or more than `_LONGEST`,
is abandoned, and the Markowitz order is the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.edges_and_faces import EdgeElimination, FaceElimination
from accumulus.elimination.vertex import Limit, markowitz_order
from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import Objective
from accumulus.search.registry import SearchResult, register_method
from accumulus.search.vertex_orders import markowitz

Step = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SideView:
    """A graph or its reverse.

    Attributes:
        P: predecessors of each vertex.
        S: successors of each vertex.
        above: number of roots above each vertex.
    """

    P: Sequence[Collection[int]]
    S: Sequence[Collection[int]]
    above: Sequence[int]


class _Choices:
    """Base class of the choices of a greedy elimination.

    Attributes:
        first: all choices before the first elimination.
        steps: products and sums of the elimination so far, or its vertices.
        elimination: elimination of edges or faces.
    """

    first: list[Step]
    steps: Any
    elimination: Any

    def score(self, step: Step) -> Any:
        """Return the score of a choice, None if it no longer exists; the choice with the smallest score comes next."""
        raise NotImplementedError

    def take(self, step: Step) -> list[Step]:
        """Eliminate a choice, and return the choices that are new or may have a lower score."""
        raise NotImplementedError


def run_greedily(choices: _Choices, limit: int, deadline: Deadline = FOREVER) -> bool:
    """Eliminate the choice with the smallest known score until none is left.

    Returns:
        False if the elimination is abandoned, because it has more than 2 · `limit` steps.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    heap: list[tuple[Any, Step]] = []
    for step in choices.first:
        deadline.check()
        heap.append((choices.score(step), step))
    heapq.heapify(heap)
    scores = {step: score for score, step in heap}
    while heap:
        score, step = heapq.heappop(heap)
        if scores.get(step) != score:
            continue
        now = choices.score(step)
        if now is not None and now > score:
            scores[step] = now
            heapq.heappush(heap, (now, step))
            continue
        del scores[step]
        for other in choices.take(step) if now is not None else ():
            deadline.check()
            now = choices.score(other)
            if now is not None and scores.get(other) != now:
                scores[other] = now
                heapq.heappush(heap, (now, other))
        if len(choices.steps) > 2 * limit:
            return False
    return True


class _VertexChoices(_Choices):
    """Vertices by score; ties go to the vertex nearest to the roots.

    Args:
        graph: graph to eliminate.
        score: function of the graph, the reversed graph and the vertex.
    """

    def __init__(self, graph: DifferentiationGraph, score: Callable[[SideView, SideView, int], int]) -> None:
        edges = EdgeElimination(graph)
        self._P, self._S = list(map(set, edges.predecessors)), list(map(set, edges.successors))
        self._up, self._down = _views(graph, self._P, self._S)
        self._score, self._rank = score, _tie_ranks(graph)
        self._left = dict.fromkeys(graph.intermediates)
        self.first: list[Step] = [(k,) for k in self._left]
        self.steps: list[int] = []

    def score(self, step: Step) -> tuple[int, int] | None:
        (k,) = step
        return (self._score(self._up, self._down, k), self._rank[k]) if k in self._left else None

    def take(self, step: Step) -> list[Step]:
        (k,) = step
        P, S = self._P, self._S
        del self._left[k]
        self.steps.append(k)
        for p in P[k]:
            S[p].discard(k)
            S[p] |= S[k]
        for s in S[k]:
            P[s].discard(k)
            P[s] |= P[k]
        return [(v,) for v in (*P[k], *S[k]) if v in self._left]


class _EdgeChoices(_Choices):
    """Edges from either side by score; ties go to the vertex nearest to the roots.

    Args:
        graph: graph to eliminate.
        score: function of the graph, j and i that returns the score of ⟨j,i⟩ from the front. The score from the back
            is the score of ⟨i,j⟩ in the reversed graph.
    """

    def __init__(self, graph: DifferentiationGraph, score: Callable[[SideView, int, int], int]) -> None:
        state = self.elimination = EdgeElimination(graph)
        self._front, self._back = _views(graph, state.predecessors, state.successors)
        self._score, self._rank = score, _tie_ranks(graph)
        self.first = [step for edge in state.edges() for step in _sides(state, *edge)]
        self.steps = state.steps

    def score(self, step: Step) -> tuple[int, int] | None:
        j, i, side = step
        if i not in self.elimination.successors[j]:
            return None
        if side == "front":
            return self._score(self._front, j, i), self._rank[j]
        return self._score(self._back, i, j), self._rank[i]

    def take(self, step: Step) -> list[Step]:
        j, i, side = step
        P, S = self.elimination.predecessors, self.elimination.successors
        pairs = [(p, i) for p in P[j]] if side == "front" else [(j, s) for s in S[i]]
        self.elimination.eliminate(j, i, side)
        pairs += [(j, s) for s in S[j]] if side == "front" else [(p, i) for p in P[i]]
        return [choice for pair in pairs for choice in _sides(self.elimination, *pair)]


class _FaceChoices(_Choices):
    """Faces by the change of the number of faces that their elimination causes."""

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.elimination = FaceElimination(graph)
        self.first = [*self.elimination.faces()]
        self.steps = self.elimination.steps

    def score(self, step: Step) -> int | None:
        i, j = step
        state = self.elimination
        if i not in state or j not in state or j not in state.successors[i]:
            return None
        above, below = state.inner_predecessors(i), state.inner_successors(j)
        change = -1 if state.find(i, j) is not None else above + below - 1
        if len(state.successors[i]) == 1:
            change -= above
        if len(state.predecessors[j]) == 1:
            change -= below
        return change

    def take(self, step: Step) -> list[Step]:
        state = self.elimination
        k = state.eliminate(*step)
        changed: list[Step] = []
        for v in {k: None, step[0]: None, step[1]: None}:
            if v in state:
                if state.inner_predecessors(v):
                    changed += [(p, v) for p in state.predecessors[v]]
                if state.inner_successors(v):
                    changed += [(v, s) for s in state.successors[v]]
        return changed


class _FaceDegrees(_Choices):
    """Faces by the Markowitz degree of their vertex in the graph; a step is the vertex, and takes one of its faces."""

    def __init__(self, graph: DifferentiationGraph) -> None:
        state = self.elimination = FaceElimination(graph)
        self.steps = state.steps
        self._rank = _tie_ranks(graph)
        ends = graph.ends
        self._ends = {e: ends[e] for e in state.vertices()}
        #: Vertices of the line graph by the end of their labels; some may no longer exist.
        self._into: list[dict[int, None]] = [{} for _ in graph.vertices]
        for e, (_, i) in self._ends.items():
            self._into[i][e] = None
        self.first: list[Step] = [(k,) for k in graph.intermediates if self.score((k,)) is not None]

    def score(self, step: Step) -> tuple[int, int] | None:
        state, (v,) = self.elimination, step
        into = self._into[v]
        for gone in [i for i in into if i not in state or self._ends[i][1] != v]:
            del into[gone]
        faces = sum(map(state.inner_successors, into))
        return (faces, self._rank[v]) if faces else None

    def take(self, step: Step) -> list[Step]:
        state = self.elimination
        i = min(i for i in self._into[step[0]] if state.inner_successors(i))
        j = min(state.successors[i])
        start, end = self._ends[i][0], self._ends[j][1]
        k = state.eliminate(i, j)
        if k in state:
            self._ends[k] = start, end
            self._into[end][k] = None
        return [step, (start,), (end,)]


def _tie_ranks(graph: DifferentiationGraph) -> dict[int, int]:
    """Return the rank of each vertex among ties: vertices nearest to the roots come first."""
    return {v: -position for position, v in enumerate(graph.topological_order)}


def _sides(state: EdgeElimination, j: int, i: int) -> list[Step]:
    front: list[Step] = [(j, i, "front")] if state.intermediate[j] else []
    return [*front, (j, i, "back")] if state.intermediate[i] else front


def _views(
    graph: DifferentiationGraph, P: Sequence[Collection[int]], S: Sequence[Collection[int]]
) -> tuple[SideView, SideView]:
    """Return the graph and the reversed graph."""
    roots = [bits.bit_count() for bits in index_ranges(graph)]
    terminals = [bits.bit_count() for bits in index_domains(graph)]
    return SideView(P, S, roots), SideView(S, P, terminals)


# Scores --------------------------------------------------------------------------------------------------------------


#: Limit of the products of edge and face sequences: a multiple of the Markowitz order's products, and an addition.
#: Larger limits spend time on hopeless sequences, smaller ones abandon sequences that begin expensively.
_MOST: Final = (4, 1_000)
#: Largest limit for edges and for faces: larger ones take seconds on large graphs, smaller ones give up more sequences.
_LONGEST: Final = {"edge": 200_000, "face": 50_000}


def _missing(some: Collection[int], present: Collection[int]) -> int:
    """Return the number of elements of `some` that are not in `present`."""
    if isinstance(some, set):
        return len(some.difference(present))
    return sum(v not in present for v in some)


# Scores of vertices: functions of the graph, the reversed graph, and the vertex.


def _vertex_degree(up: SideView, down: SideView, k: int) -> int:
    return len(up.P[k]) * len(up.S[k])


def _vertex_damage(up: SideView, down: SideView, k: int) -> int:
    return sum(
        len(side.P[p]) * (_missing(side.S[k], side.S[p]) - 1) for side in (up, down) for p in side.P[k] if side.P[p]
    )


# Scores of edges ⟨j,i⟩ from the front; a score from the back is the score of ⟨i,j⟩ in the reversed graph.


def _edge_degree(side: SideView, j: int, i: int) -> int:
    return len(side.P[j])


def _edge_damage(side: SideView, j: int, i: int) -> int:
    P, S = side.P, side.S
    # i has new predecessors and loses j; each new predecessor has one more successor; j may disappear without ⟨j,i⟩
    damage = len(S[i]) * (_missing(P[j], P[i]) - 1)
    damage += sum(len(P[p]) for p in P[j] if p not in P[i])
    return damage - sum(len(P[p]) for p in P[j]) * (len(S[j]) == 1)


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A greedy heuristic.

    Attributes:
        name: name of the method.
        level: kind of the eliminated items.
        score: score of vertices or edges; for faces the subclass of `_Choices`.
        seconds: estimated seconds for each edge and each product of the better of forward and reverse elimination.
    """

    name: str
    level: Literal["vertex", "edge", "face"]
    score: Callable[..., Any]
    seconds: float


HEURISTICS: Final = (
    Heuristic(
        "relative-markowitz",
        "vertex",
        lambda up, down, k: _vertex_degree(up, down, k) - up.above[k] * down.above[k],
        1e-5,
    ),
    Heuristic("lowest-fill-in", "vertex", lambda up, down, k: sum(_missing(up.S[k], up.S[p]) for p in up.P[k]), 1e-5),
    Heuristic("lmmd", "vertex", lambda *at: _vertex_degree(*at) + _vertex_damage(*at), 1e-5),
    Heuristic("momr", "vertex", lambda *at: _vertex_damage(*at) - _vertex_degree(*at), 1e-5),
    Heuristic("markowitz-edge", "edge", _edge_degree, 1e-4),
    Heuristic("relative-markowitz-edge", "edge", lambda side, j, i: len(side.P[j]) - side.above[j], 1e-4),
    Heuristic("lowest-fill-in-edge", "edge", lambda side, j, i: _missing(side.P[j], side.P[i]), 1e-4),
    Heuristic("lmmd-edge", "edge", lambda *at: _edge_degree(*at) + _edge_damage(*at), 1e-4),
    Heuristic("momr-edge", "edge", lambda *at: _edge_damage(*at) - _edge_degree(*at), 1e-4),
    Heuristic("markowitz-face", "face", _FaceDegrees, 1e-4),
    Heuristic("momr-face", "face", _FaceChoices, 2e-4),
)


def _register(row: Heuristic) -> None:
    @register_method(row.name, lambda work: row.seconds * (work.fewest + work.edges))
    def find(graph: DifferentiationGraph, context: Context) -> SearchResult:
        if row.level == "vertex":
            vertices = _VertexChoices(graph, row.score)
            run_greedily(vertices, len(graph.vertices), context)
            return SearchResult(graph, row.name, tuple(vertices.steps))
        longest = _LONGEST[row.level]
        fewest = markowitz_order(graph, Objective.FMA, Limit(longest), context)
        most = longest if fewest is None else min(longest, _MOST[0] * fewest[0].cost[0] + _MOST[1])
        if fewest is not None:
            choices: _Choices = _EdgeChoices(graph, row.score) if row.level == "edge" else row.score(graph)
            if run_greedily(choices, most, context):
                return SearchResult(graph, row.name, _accumulation=choices.elimination.finish())
        return markowitz(graph, context)


for _row in HEURISTICS:
    _register(_row)
