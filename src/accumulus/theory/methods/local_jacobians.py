"""Local Jacobian accumulation: the graph as a product of sparse matrices between depth levels, in the best bracketing.

The level of a vertex is the longest way to it from a root; terminals share the last level. Edges that cross levels
are segmented with unit edges (copies of their tail or of their head, shared by edges with the same end), so that
every edge joins neighbouring levels and the Jacobian is J⁰₁ J¹₂ … (the notes, section 4). Multiplying Jᵃₖ Jᵏᵦ
makes, at every vertex v of level k, a product for each pair of entries in the column and the row of v; where one of
the two is a single path of unit edges, none.

* `local_jacobians` takes the bracketing of least products, found by dynamic programming over the real sparsity:
  which entries of Jᵃᵦ are nonzero, and which are units, does not depend on the bracketing. What lies between two
  levels falls apart into connected components, the undivided parts of the local Jacobian; each has its own
  bracketing, at every stage. So do parts of the graph that only roots and terminals connect, with levels of their
  own. Simple chains and blocks are eliminated first. This is optimal among all bracketings by components, for these
  levels and this segmentation.
* A bracketing of one's own is given as nested pairs: ((0, 1), (2, 3)) is (J⁰₁ J¹₂)(J²₃ J³₄).
* `multiply` forms the product of local Jacobians between any sets of vertices, such as J⟨v₁,v₁₁|v₂,v₃,v₁₂,v₁₃⟩ ×
  J⟨v₂,v₃,v₁₂,v₁₃|v₄,v₁₄⟩.

Time for L levels with N vertices and M edges after segmentation: O(L³) bracketings, O(L·M) set operations, O(L²·N) for
the components. Beyond `WINDOW` levels the graph is cut at its narrowest levels into windows, each bracketed by itself
first; there the result is the best only among bracketings that respect the cuts, and no worse than a sweep from either
end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edge import EdgeElimination, edges_of_vertex
from accumulus.errors import ArgumentError, OrderError, unknown_name
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.graphs.traversal import Classes, eliminate_series
from accumulus.theory.methods.levelled import Levelled, Side
from accumulus.theory.shared_steps import SharedSteps

__all__ = ["Bracketing", "accumulate_edges", "local_jacobians", "multiply"]

#: Nested pairs of level numbers; k stands for the local Jacobian from level k to level k+1.
Bracketing = Any

WINDOW: Final = 40
_NAMES: Final = ("best", "left", "right")
#: The split level of each component between two levels.
Splits = dict[tuple[int, int], NDArray[np.int64]]


def local_jacobians(
    graph: DifferentiationGraph,
    bracketing: Literal["best", "left", "right"] | Bracketing = "best",
    *,
    simple_first: bool = True,
    components: bool = True,
    side: Side | Literal["best"] = "best",
    unit_products: bool = False,
    deadline: Deadline = FOREVER,
) -> Accumulation:
    """Accumulate by products of local Jacobians.

    Args:
        bracketing: ``"best"``; ``"left"``, from the roots; ``"right"``, from the terminals; or nested pairs of
            level numbers, which apply to the levels of each part, so the next two should be false.
        simple_first: whether simple chains and blocks are eliminated first.
        components: whether parts that only roots and terminals connect are accumulated separately.
        side: of which end cross-level edges are segmented, ``"tail"``, ``"head"``, or whichever costs less.
        unit_products: whether products with unit edges of the graph are formed, as the measure "fma" counts them. Those
            with the unit edges of segmentation never are.

    Raises:
        ArgumentError: for nested pairs that are not a bracketing of the levels.
        OutOfTimeError: if the deadline passes before.
        UnknownNameError: for another side or name of a bracketing.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x"), ("y", "x")])
    >>> for way in ("left", "right", ((0, 1), 2)):
    ...     plan = local_jacobians(graph, way, simple_first=False, components=False)
    ...     print(sum(plan.steps.is_product))
    4
    3
    4
    """
    if isinstance(bracketing, str) and bracketing not in _NAMES:
        raise unknown_name("bracketing", bracketing, _NAMES)
    if side not in ("tail", "head", "best"):
        raise unknown_name("side", side, ("tail", "head", "best"))
    steps = SharedSteps(len(graph.sources))
    elimination = EdgeElimination(graph, steps)
    if simple_first:
        eliminate_series(elimination, deadline)
    edges = [(j, i, label) for j, row in enumerate(elimination.successors) for i, label in row.items()]
    found = accumulate_edges(
        graph,
        edges,
        steps,
        bracketing,
        components=components,
        side=side,
        unit_products=unit_products,
        deadline=deadline,
    )
    position = {root: k for k, root in enumerate(graph.roots)}
    column = {terminal: k for k, terminal in enumerate(graph.terminals)}
    entries = {(position[j], column[i]): label for (j, i), label in found.items()}
    return Accumulation(graph, steps, dict(sorted(entries.items())))


def accumulate_edges(
    graph: DifferentiationGraph,
    edges: list[tuple[int, int, int]],
    steps: SharedSteps,
    bracketing: Literal["best", "left", "right"] | Bracketing = "best",
    *,
    components: bool = True,
    side: Side | Literal["best"] = "best",
    unit_products: bool = False,
    deadline: Deadline = FOREVER,
) -> dict[tuple[int, int], int]:
    """Multiply the local Jacobians of labelled edges between vertices of a graph.

    Args:
        edges: (source, target, label) by number; all on paths between roots and terminals of `graph`.
        steps: where products and sums are recorded.
        bracketing, components, side, unit_products, deadline: as for `local_jacobians`.

    Returns:
        entries by (root, terminal).
    """
    found: dict[tuple[int, int], int] = {}
    for part in _parts(graph, edges, components):
        sides: list[Side] = ["tail", "head"] if side == "best" else [side]
        levelled = [Levelled(graph, part, each, unit_products, deadline) for each in sides]
        plans = [_splits(each, bracketing) for each in levelled]
        cheapest = min(range(len(plans)), key=lambda k: plans[k][0])
        for place, label in levelled[cheapest].multiply(plans[cheapest][1], steps).items():
            found[place] = steps.sum(found[place], label) if place in found else label
    return found


def multiply(elimination: EdgeElimination, rows: Iterable[int], middle: Iterable[int], columns: Iterable[int]) -> None:
    """Replace J⟨rows|middle⟩ and J⟨middle|columns⟩ by their product J⟨rows|columns⟩ in the graph.

    Args:
        rows, middle, columns: vertices by number. All edges into `middle` must come from `rows`, all out of it go
            to `columns`.

    Raises:
        OrderError: naming an edge of `middle` that does not, or a vertex that is no intermediate.
    """
    above, through, below = dict.fromkeys(rows), dict.fromkeys(middle), dict.fromkeys(columns)
    for v in through:
        if not elimination.intermediate[v]:
            raise OrderError(
                f"{elimination.vertex_name(v)} is a root or a terminal; expected intermediates in the middle"
            )
        for near, known, what in (
            (elimination.predecessors[v], above, "rows"),
            (elimination.successors[v], below, "columns"),
        ):
            for end in near:
                if end not in known:
                    raise OrderError(
                        f"{elimination.vertex_name(v)} has an edge with {elimination.vertex_name(end)}, which is "
                        f"not one of the {what}; the product would leave paths out. Add it there"
                    )
    for v in through:
        for step in edges_of_vertex(elimination, v):
            elimination.eliminate(*step)


def _parts(
    graph: DifferentiationGraph, edges: list[tuple[int, int, int]], separate: bool
) -> list[list[tuple[int, int, int]]]:
    """The edges (source, target, label), grouped by what only roots and terminals connect."""
    ends = {*graph.roots, *graph.terminals}
    if not separate:
        return [edges] if edges else []
    joined = Classes(len(graph.vertices))
    for j, i, _ in edges:
        if j not in ends and i not in ends:
            joined.merge(i, j)
    parts: dict[Any, list[tuple[int, int, int]]] = {}
    for j, i, label in edges:
        key = joined.find(j) if j not in ends else joined.find(i) if i not in ends else (j, i)
        parts.setdefault(key, []).append((j, i, label))
    return list(parts.values())


def _splits(levelled: Levelled, bracketing: Bracketing) -> tuple[int, Splits]:
    """Cost, and where to split what lies between two levels."""
    last = levelled.last
    splits: Splits = {}
    cost = 0
    if bracketing == "best":
        cost = _best(levelled, splits)
        if last < WINDOW:
            return cost, splits
        # the cuts may be worse than no bracketing at all
        sweeps = {"left": levelled.sweep_cost(from_roots=True), "right": levelled.sweep_cost(from_roots=False)}
        bracketing = min(sweeps, key=lambda way: sweeps[way])
        if sweeps[bracketing] >= cost:
            return cost, splits
        cost = sweeps[bracketing]
    if bracketing == "left":
        chosen = {(0, b): b - 1 for b in range(2, last + 1)}
    elif bracketing == "right":
        chosen = {(a, last): a + 1 for a in range(last - 1)}
    else:
        chosen = {}
        _read(bracketing, last, chosen)
    for (a, b), k in chosen.items():
        splits[a, b] = np.full(levelled.components(a, b)[0], k, np.int64)
    return cost, splits


def _read(bracketing: Bracketing, last: int, chosen: dict[tuple[int, int], int]) -> None:
    """Levels between which each pair of a bracketing stands, and where it splits."""

    def read(part: Bracketing) -> tuple[int, int]:
        if isinstance(part, int):
            return part, part + 1
        if not isinstance(part, tuple) or len(part) != 2:
            raise ArgumentError(f"bracketing {bracketing!r}: expected nested pairs of level numbers, not {part!r}")
        (a, k), (start, b) = read(part[0]), read(part[1])
        if k != start:
            raise ArgumentError(
                f"bracketing {bracketing!r}: {part!r} joins level {k} with level {start}; expected neighbours"
            )
        chosen[a, b] = k
        return a, b

    if (ends := read(bracketing)) != (0, last):
        raise ArgumentError(
            f"bracketing {bracketing!r} goes from level {ends[0]} to {ends[1]}; expected from 0 to {last}, the last of "
            "this graph"
        )


def _best(levelled: Levelled, splits: Splits) -> int:
    """Fill in the cheapest splits; returns their cost."""
    costs: dict[tuple[int, int], NDArray[np.int64]] = {}
    levels = list(range(levelled.last + 1))
    while len(levels) > WINDOW:
        cuts = _cuts(levels, levelled.width)
        for start, end in pairwise(cuts):
            if end - start > 1:
                _optimise(levelled, levels[start : end + 1], costs, splits)
        levels = [levels[cut] for cut in cuts]
    if len(levels) == 2:
        return int(costs[levels[0], levels[1]].sum()) if (levels[0], levels[1]) in costs else 0
    _optimise(levelled, levels, costs, splits)
    return int(costs[levels[0], levels[-1]].sum())


def _cuts(levels: list[int], width: Callable[[int], int]) -> list[int]:
    """Positions of narrow levels, about half a window apart, the first and the last among them."""
    cuts = [0]
    while len(levels) - 1 - cuts[-1] > WINDOW - 1:
        near = range(cuts[-1] + WINDOW // 2, cuts[-1] + WINDOW - 1)
        cuts.append(min(near, key=lambda k: (width(levels[k]), -k)))
    return [*cuts, len(levels) - 1]


def _optimise(
    levelled: Levelled, levels: list[int], costs: dict[tuple[int, int], NDArray[np.int64]], splits: Splits
) -> None:
    """Cheapest splits, for each component, between any two of the levels; as if only these levels were there."""
    above, below = levelled.counts(levels)
    for length in range(2, len(levels)):
        for first in range(len(levels) - length):
            levelled.deadline.check()
            a, b = levels[first], levels[first + length]
            number, label = levelled.components(a, b)
            start = levelled.first(a + 1)
            best = np.full(number, np.iinfo(np.int64).max)
            best_split = np.zeros(number, np.int64)
            for k in levels[first + 1 : first + length]:
                at = slice(levelled.first(k), levelled.first(k + 1))
                products = above[a, k] * below[k, b]
                cost = np.bincount(label[at.start - start : at.stop - start], products, number).astype(np.int64)
                for low, high in ((a, k), (k, b)):
                    if (low, high) in costs:
                        inside = levelled.representatives(low, high) - start
                        cost += np.bincount(label[inside], costs[low, high], number).astype(np.int64)
                better = cost < best
                best[better], best_split[better] = cost[better], k
            costs[a, b], splits[a, b] = best, best_split
