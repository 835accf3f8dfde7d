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

Choices wait in a heap (`accumulus.theory.methods.choices`), so a score that is lowered by a change further away is
noticed late. (Markowitz degrees and relative ones only change next to what is eliminated.) Time: some microseconds for
each product and each score, and a score takes time linear in the degrees around. None is within a constant factor of
the optimum. Greedy edges and faces may go wrong without bound (Griewank and Naumann, Accumulating Jacobians as chained
sparse matrix products, 2003, warn of it): a sequence of four times the products of the Markowitz order, or of more than
`_LONGEST`, is given up, and that order is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal

from accumulus.deadline import Deadline
from accumulus.elimination.vertex import Limit, markowitz_order
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Options
from accumulus.search.greedy import markowitz
from accumulus.search.registry import SearchResult, register
from accumulus.theory.methods.choices import (
    Choices,
    EdgeChoices,
    FaceChoices,
    FaceDegrees,
    SideView,
    VertexChoices,
    run,
)

__all__ = ["HEURISTICS", "Heuristic"]

#: Times the products of the Markowitz order, and besides, after which edges and faces are given up; and in any case.
_MOST: Final = (4, 1_000)
_LONGEST: Final = {"edge": 200_000, "face": 50_000}


def _missing(some: Collection[int], others: Collection[int]) -> int:
    """How many of some are not among the others."""
    if isinstance(some, set):
        return len(some.difference(others))
    return sum(v not in others for v in some)


# Scores of vertices: by the graph, the reversed graph, and the vertex.


def _vertex_relative(up: SideView, down: SideView, k: int) -> int:
    return len(up.P[k]) * len(up.S[k]) - up.above[k] * down.above[k]


def _vertex_fill_in(up: SideView, down: SideView, k: int) -> int:
    return sum(_missing(up.S[k], up.S[p]) for p in up.P[k])


def _vertex_damage(up: SideView, down: SideView, k: int) -> int:
    return sum(
        len(side.P[p]) * (_missing(side.S[k], side.S[p]) - 1) for side in (up, down) for p in side.P[k] if side.P[p]
    )


def _vertex_lmmd(up: SideView, down: SideView, k: int) -> int:
    return len(up.P[k]) * len(up.S[k]) + _vertex_damage(up, down, k)


def _vertex_momr(up: SideView, down: SideView, k: int) -> int:
    return _vertex_damage(up, down, k) - len(up.P[k]) * len(up.S[k])


# Scores of edges ⟨j,i⟩ from the front; from the back they are those of ⟨i,j⟩ in the reversed graph.


def _edge_markowitz(side: SideView, j: int, i: int) -> int:
    return len(side.P[j])


def _edge_relative(side: SideView, j: int, i: int) -> int:
    return len(side.P[j]) - side.above[j]


def _edge_fill_in(side: SideView, j: int, i: int) -> int:
    return _missing(side.P[j], side.P[i])


def _edge_damage(side: SideView, j: int, i: int) -> int:
    P, S = side.P, side.S
    # i has new predecessors and loses j; a new predecessor has one successor more; without ⟨j,i⟩, j may be gone
    damage = len(S[i]) * (_missing(P[j], P[i]) - 1)
    damage += sum(len(P[p]) for p in P[j] if p not in P[i])
    return damage - sum(len(P[p]) for p in P[j]) * (len(S[j]) == 1)


def _edge_lmmd(side: SideView, j: int, i: int) -> int:
    return len(side.P[j]) + _edge_damage(side, j, i)


def _edge_momr(side: SideView, j: int, i: int) -> int:
    return _edge_damage(side, j, i) - len(side.P[j])


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
    def find(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
        if row.level == "vertex":
            assert row.score is not None
            choices = VertexChoices(graph, row.score)
            order = choices.start()
            run(choices, order, len(graph.vertices), deadline)
            return SearchResult(graph, row.name, tuple(order.steps))
        longest = _LONGEST[row.level]
        fewest = markowitz_order(graph, Objective.FMA, Limit(longest), deadline)
        most = longest if fewest is None else min(longest, _MOST[0] * fewest[0].cost[0] + _MOST[1])
        found = None if fewest is None else _sequence(graph, row, most, deadline)
        return found or markowitz(graph, options, deadline)


def _sequence(graph: DifferentiationGraph, row: Heuristic, limit: int, deadline: Deadline) -> SearchResult | None:
    """The greedy edges or faces; None if they make more products than the limit."""
    choices: Choices
    if row.level == "edge":
        assert row.score is not None
        choices = EdgeChoices(graph, row.score)
    else:
        choices = FaceDegrees(graph) if row.name == "markowitz-face" else FaceChoices(graph)
    state = choices.start()
    if not run(choices, state, limit, deadline):
        return None
    return SearchResult(graph, row.name, _accumulation=state.finish())


for _row in HEURISTICS:
    _register(_row)
