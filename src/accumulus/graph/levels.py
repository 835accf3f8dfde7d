"""Depth levels, the edges that cross them, and their segmentation (the notes, definition "depth level").

All roots are on level 0, all terminals on the last level L(X) = L(G), and an intermediate is on the level of the
longest path from a root to it. An edge whose ends are more than one level apart is a cross-level edge. Segmentation
puts a copy of one of its ends on every level that it crosses, joined by unit edges; then every edge joins two
neighbouring levels, and the Jacobian is the product of the local Jacobians between them.

Everything here is linear in the graph and the result. Where the definition leaves a choice: a vertex that no root
reaches has no level (−1), and its edges cross nothing; a dead end, from which no terminal is within reach, has the
level that the definition gives it, and the terminals come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Literal

from accumulus.errors import unknown_name
from accumulus.graph.graph import UNIT, DifferentiationGraph, derive

__all__ = ["cross_level_edges", "level_sets", "levels", "segmented"]

#: The level of vertices that no root reaches.
NONE: Final = -1


def levels(graph: DifferentiationGraph) -> list[int]:
    """Depth level of each vertex, −1 where no root reaches it; in the notes L(v).

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x"), ("y", "b"), ("y", "x")])
    >>> levels(graph)
    [0, 1, 2, 3]
    """
    level = [NONE] * len(graph.vertices)
    for root in graph.roots:
        level[root] = 0
    targets: list[int] = graph.targets.tolist()
    terminals = set(graph.terminals)
    for v in reversed(graph.topological_order):
        if level[v] != NONE:
            for e in graph.out_edges[v]:
                level[targets[e]] = max(level[targets[e]], level[v] + 1)
    last = 1 + max((depth for v, depth in enumerate(level) if v not in terminals), default=NONE)
    for terminal in terminals:
        level[terminal] = last
    return level


def level_sets(graph: DifferentiationGraph) -> list[tuple[int, ...]]:
    """The vertices on each level, from the roots to the terminals; in the notes V⁰ = Y, V¹, …, Vʰ = X.

    >>> level_sets(DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "x")]))
    [(0,), (1,), (2,)]
    """
    level = levels(graph)
    sets: list[list[int]] = [[] for _ in range(1 + max(level, default=NONE))]
    for v, depth in enumerate(level):
        if depth != NONE:
            sets[depth].append(v)
    return [tuple(vertices) for vertices in sets]


def cross_level_edges(graph: DifferentiationGraph) -> tuple[int, ...]:
    """Edges ⟨j,i⟩ with L(i) − L(j) > 1, ascending."""
    level = levels(graph)
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return tuple(e for e, (j, i) in enumerate(ends) if level[j] != NONE and level[i] - level[j] > 1)


def segmented(
    graph: DifferentiationGraph, side: Literal["tail", "head"] = "tail", *, shared: bool = False
) -> DifferentiationGraph:
    """The graph with every cross-level edge cut into one edge for each level that it crosses.

    Args:
        side: which end the new vertices are copies of. From the "tail" (the source, the dependent variable) the unit
            edges come first and the label last; from the "head" (the target) the label comes first. In the notes,
            figure "Cross-level edge segmentation", (b) and (c).
        shared: whether edges that are cut at the same end share its copies. Not shared, as in the notes, each cut
            edge is a direct simple chain; shared, the levels have fewer vertices.

    Returns:
        A graph with the same Jacobian: the vertices of the given graph keep their numbers, copies have primes. An
        edge keeps its label; unit edges are of kind `Kind.ONE` and cost nothing.

    Raises:
        UnknownNameError: for another side.

    >>> graph = DifferentiationGraph([("y", "a", "e1"), ("a", "x", "e2"), ("y", "x", "e3")])
    >>> cut = segmented(graph)
    >>> [(cut.vertices[j], cut.vertices[i]) for j, i in zip(cut.sources, cut.targets)]
    [('y', 'a'), ('a', 'x'), ('y', 'y′'), ('y′', 'x')]
    """
    if side not in ("tail", "head"):
        raise unknown_name("side", side, ("tail", "head"))
    level = levels(graph)
    crossing = set(cross_level_edges(graph))
    names: list[Hashable] = list(graph.vertices)
    sizes: list[int] = graph.sizes.tolist()
    fresh = _namer(graph)
    copies: dict[tuple[int, int], int] = {}
    edges: list[tuple[int, int, int]] = []

    def copied(v: int) -> int:
        names.append(fresh(graph.vertices[v]))
        sizes.append(sizes[v])
        return len(names) - 1

    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    for e, (j, i) in enumerate(ends):
        if e not in crossing:
            edges.append((j, i, e))
            continue
        tail = side == "tail"
        near = own = j if tail else i
        units: list[tuple[int, int, int]] = []
        for depth in range(level[j] + 1, level[i]) if tail else range(level[i] - 1, level[j], -1):
            known = copies.get((own, depth)) if shared else None
            if known is None:
                known = copies[own, depth] = copied(own)
                units.append((near, known, UNIT) if tail else (known, near, UNIT))
            near = known
        edges += [*units, (near, i, e)] if tail else [(j, near, e), *reversed(units)]
    return derive(graph, names, graph.roots, graph.terminals, edges, sizes)


def _namer(graph: DifferentiationGraph) -> Callable[[Hashable], str]:
    """Gives names that the graph does not have yet: v′, v′2, v′3, …"""
    taken = set(graph.vertices)
    counts: dict[Hashable, int] = {}

    def fresh(name: Hashable) -> str:
        while True:
            count = counts[name] = counts.get(name, 0) + 1
            new = f"{name}′{'' if count == 1 else count}"
            if new not in taken:
                taken.add(new)
                return new

    return fresh
