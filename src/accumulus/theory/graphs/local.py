"""Local Jacobians: the derivatives between any two sets of vertices, in the notes J⟨S₁|S₂⟩.

Entry (j, i) is the sum over paths from j ∈ S₁ to i ∈ S₂ of the products of their labels. Where every such path is
one edge, as between neighbouring levels of a segmented graph or in J⟨v|v^#⟩, the entries are labels of the graph.
Otherwise the vertices between the sets are eliminated, those with the fewest faces first (Markowitz), and the entries
are references to products and sums, recorded in the form of an accumulation: references 0 … edges−1 are the labels
of the edges, reference edges+k is the result of step k. Unit edges cost no product.

The notes speak of sets none of whose members depends on another. Where members do depend on each other there are two
meanings. "direct", the default, holds every member fixed: paths through other members of S₁ or S₂ do not count,
as in J⟨v|v^#⟩ when one successor depends on another. "all" counts every path, as in Bauer's formula. For sets
without such dependences the two agree, and J⟨S₁|S₂⟩ × J⟨S₂|S₃⟩ = J⟨S₁|S₃⟩ if every path from S₁ to S₃ meets S₂.

Time: that of the elimination, in compiled code; linear where nothing lies between the sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from accumulus.elimination.vertex import eliminate_vertices, markowitz_order
from accumulus.errors import unknown_name
from accumulus.graph.graph import UNIT, DifferentiationGraph, Kind, derive, vertex_numbers
from accumulus.objective import Objective
from accumulus.theory.graphs.traversal import UnionFind, reached

__all__ = ["LocalJacobian", "local_jacobian"]

Sides = tuple[tuple[int, ...], tuple[int, ...]]
_ROW: Final = 0
_COLUMN: Final = 1


@dataclass(frozen=True, slots=True)
class LocalJacobian:
    """J⟨rows|columns⟩ of a graph as a sparse matrix of references."""

    graph: DifferentiationGraph
    #: The sets, as vertices by number, ascending.
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    #: Steps (is a product, left, right) that form what is not a label of the graph; the left factor is nearer to
    #: the root.
    steps: tuple[tuple[bool, int, int], ...]
    #: Reference by (position in rows, position in columns) of every structural nonzero; `UNIT` (−1) is the label 1
    #: between a vertex and itself, where the sets share it.
    entries: Mapping[tuple[int, int], int]

    @property
    def components(self) -> tuple[Sides, ...]:
        """The undivided parts: (rows, columns) by position, of each connected component of the bipartite graph.

        They can be multiplied independently of each other. In the notes an undivided bipartite graph is one in which
        every vertex is joined to every other if edges may be walked both ways. A row or column without entries is a
        part by itself. In the order of their first rows, then columns; found in near-linear time.
        """
        places = len(self.rows) + len(self.columns)
        joined = UnionFind(places)
        for row, column in self.entries:
            joined.merge(row, len(self.rows) + column)
        parts: dict[int, tuple[list[int], list[int]]] = {}
        for v in range(places):
            part = parts.setdefault(joined.find(v), ([], []))
            if v < len(self.rows):
                part[_ROW].append(v)
            else:
                part[_COLUMN].append(v - len(self.rows))
        return tuple((tuple(part[_ROW]), tuple(part[_COLUMN])) for part in parts.values())

    @property
    def is_undivided(self) -> bool:
        """Return whether all rows and columns are one connected part."""
        return len(self.components) <= 1


def local_jacobian(
    graph: DifferentiationGraph,
    rows: int | Iterable[int],
    columns: int | Iterable[int],
    *,
    paths: Literal["direct", "all"] = "direct",
) -> LocalJacobian:
    """The Jacobian of the vertices in `rows` with respect to those in `columns`; in the notes J⟨S₁|S₂⟩.

    Args:
        rows, columns: a vertex by number or several.
        paths: "direct" holds the members of both sets fixed, "all" counts paths through them, too.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
        UnknownNameError: for other paths.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> local_jacobian(graph, [1, 2], 3).entries
    {(0, 0): 2, (1, 0): 3}
    >>> local = local_jacobian(graph, 0, 3)
    >>> local.steps, local.entries
    (((True, 1, 3), (True, 0, 2), (False, 5, 6)), {(0, 0): 7})
    """
    if paths not in ("direct", "all"):
        raise unknown_name("paths", paths, ("direct", "all"))
    starts, ends = vertex_numbers(graph, rows), vertex_numbers(graph, columns)
    between, origins = _between(graph, starts, ends, through=paths == "all")
    order = markowitz_order(between, Objective.FMA)
    assert order is not None
    found = eliminate_vertices(between, order[1])
    steps: list[tuple[bool, int, int]] = []
    units = {UNIT, *np.flatnonzero(graph.kinds == Kind.ONE).tolist()}
    references = list(origins)
    for is_product, left, right in found.steps:
        pair = references[left], references[right]
        if is_product and not units.isdisjoint(pair):
            # first the 1 that has no reference, so that a sum never meets it
            one = pair.index(UNIT) if UNIT in pair else int(pair[0] not in units)
            references.append(pair[1 - one])
        else:
            references.append(len(graph.sources) + len(steps))
            steps.append((bool(is_product), *pair))
    entries = {place: references[reference] for place, reference in found.entries.items()}
    return LocalJacobian(graph, starts, ends, tuple(steps), entries)


def _between(
    graph: DifferentiationGraph, rows: tuple[int, ...], columns: tuple[int, ...], *, through: bool
) -> tuple[DifferentiationGraph, list[int]]:
    """Return the graph of the paths from rows, its roots, to columns, its terminals, and what each edge is in `graph`.

    Every row has a place of its own that nothing is above, every column one that nothing is below: a row or column
    that paths go through, and one that is both, stands at two places joined by a unit edge.
    """
    held = frozenset() if through else frozenset((*rows, *columns))
    sources: list[int] = graph.sources.tolist()
    targets: list[int] = graph.targets.tolist()
    down = reached(rows, lambda v: [targets[e] for e in graph.out_edges[v] if targets[e] not in held])
    up = reached(columns, lambda v: [sources[e] for e in graph.in_edges[v] if sources[e] not in held])
    inside = sorted(e for v in down for e in graph.out_edges[v] if targets[e] in up)
    count = len(graph.vertices)
    start_of = {v: count + k for k, v in enumerate(rows)}
    end_of = {v: count + len(rows) + k for k, v in enumerate(columns)}
    if through:
        edges = [(sources[e], targets[e], e) for e in inside]
        edges += [(start, v, UNIT) for v, start in start_of.items()] + [(v, end, UNIT) for v, end in end_of.items()]
    else:
        # a path begins where it leaves its last row and ends at the first column that it meets
        edges = [(start_of.get(sources[e], sources[e]), end_of.get(targets[e], targets[e]), e) for e in inside]
        edges += [(start, end_of[v], UNIT) for v, start in start_of.items() if v in end_of]
    names = range(count + len(rows) + len(columns))
    return derive(graph, names, list(start_of.values()), list(end_of.values()), edges), [e for *_, e in edges]
