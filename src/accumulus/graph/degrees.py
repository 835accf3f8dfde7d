"""Neighbours, degrees and levels of vertices, and the roots and terminals connected to them.

The notes write v⁻, v⁺ for the incoming and outgoing edges of a vertex, v⁼ (or v⁻⁻) and v^# (or v⁺⁺) for its
predecessors and successors, and the same for sets of vertices; Y_i for the roots that reach v_i (its index range) and
X_i for the terminals that it reaches (its index domain); D⁻, D⁺, D_r⁻ = |Y_i|, D_t⁺ = |X_i| for the four degrees
(section 3; index domain and range: Griewank and Walther, Evaluating Derivatives, 2008, p. 147).

The time for neighbours is linear in the size of the result. Ranges and domains are bit sets, computed in one pass over
the edges: for r roots or terminals this takes O(edges · r / 64) time and vertices · r / 8 bytes. A vertex is connected
to itself by the path without edges.

**Depth levels** (the notes, definition "depth level"). All roots are on level 0, all terminals on the last level L(X) =
L(G), and an intermediate is on the level of the longest path from a root to it. An edge whose ends are more than one
level apart is a cross-level edge. Segmentation puts a copy of one of its ends on every level that it crosses, joined by
unit edges; then every edge joins two neighbouring levels, and the Jacobian is the product of the local Jacobians
between them.

Levels and segmentation take time linear in the graph and the result. The definition leaves two cases open. A vertex
that no root reaches has no level (−1), and its edges are not cross-level edges. A dead end, which reaches no terminal,
has the level of the longest path from a root, and all terminals are on a later level.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import unknown_name
from accumulus.graph.graph import UNIT, DifferentiationGraph, derive, vertex_numbers
from accumulus.tape.passes import counts_of_sets


def incoming(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """Return the edges that enter a vertex, or any vertex of a set, ascending; in the notes v⁻ and V'⁻."""
    return tuple(sorted(e for v in vertex_numbers(graph, vertices) for e in graph.in_edges[v]))


def outgoing(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """Return the edges that leave a vertex, or any vertex of a set, ascending; in the notes v⁺ and V'⁺."""
    return tuple(sorted(e for v in vertex_numbers(graph, vertices) for e in graph.out_edges[v]))


def predecessors(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """Return vertices with an edge to a vertex, or to any of a set, ascending; in the notes v⁼ and V'⁼.

    Args:
        graph: graph of the vertices.
        vertices: one vertex by number, or several; a vertex of the set is returned if it precedes another one.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "x"), ("a", "x")])
    >>> predecessors(graph, 2), predecessors(graph, [1, 2]), successors(graph, 0)
    ((0, 1), (0, 1), (1, 2))
    """
    sources = graph.sources
    return tuple(sorted({int(sources[e]) for v in vertex_numbers(graph, vertices) for e in graph.in_edges[v]}))


def successors(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """Return vertices with an edge from a vertex, or from any of a set, ascending; in the notes v^# and V'^#.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    targets = graph.targets
    return tuple(sorted({int(targets[e]) for v in vertex_numbers(graph, vertices) for e in graph.out_edges[v]}))


def in_degrees(graph: DifferentiationGraph) -> list[int]:
    """Return the number of edges that enter each vertex; parallel edges count separately. In the notes D⁻.

    `accumulus.theory.graphs.chains_and_blocks.block_degrees` counts a simple block as one edge.
    """
    return [len(edges) for edges in graph.in_edges]


def out_degrees(graph: DifferentiationGraph) -> list[int]:
    """Return the number of edges that leave each vertex; parallel edges count separately. In the notes D⁺."""
    return [len(edges) for edges in graph.out_edges]


def index_ranges(graph: DifferentiationGraph, starts: Sequence[int] | None = None) -> list[int]:
    """Return for each vertex the bit set of roots that reach it, bit k for ``graph.roots[k]``; in the notes Y_i.

    Args:
        graph: graph of the vertices.
        starts: vertices that replace the roots; the vertices of a depth level V^a give the notes' V^a_i.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    order, marked = graph.topological_order[::-1], graph.roots if starts is None else starts
    return _handed_on(graph, marked, order, graph.out_edges, graph.targets.tolist())


def index_domains(graph: DifferentiationGraph, ends: Sequence[int] | None = None) -> list[int]:
    """Return for each vertex the bit set of terminals that it reaches, by position; in the notes X_i.

    Args:
        graph: graph of the vertices.
        ends: vertices that replace the terminals; the vertices of a depth level V^c give the notes' V^c_i.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    order, marked = graph.topological_order, graph.terminals if ends is None else ends
    return _handed_on(graph, marked, order, graph.in_edges, graph.sources.tolist())


def _handed_on(
    graph: DifferentiationGraph,
    marked: Sequence[int],
    order: Sequence[int],
    edges: Sequence[Sequence[int]],
    ends: Sequence[int],
) -> list[int]:
    """Return for each vertex the bit set of marked vertices that reach it; `order` is topological along the edges."""
    vertex_numbers(graph, marked)
    sets = [0] * len(graph.vertices)
    for bit, v in enumerate(marked):
        sets[v] |= 1 << bit
    for v in order:
        if sets[v]:
            for e in edges[v]:
                sets[ends[e]] |= sets[v]
    return sets


def roots_of(graph: DifferentiationGraph, vertex: int) -> tuple[int, ...]:
    """Return the roots with a path to a vertex; for all vertices at once, use `index_ranges`.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    reached = index_domains(graph, vertex_numbers(graph, vertex))
    return tuple(root for root in graph.roots if reached[root])


def terminals_of(graph: DifferentiationGraph, vertex: int) -> tuple[int, ...]:
    """Return the terminals with a path from a vertex; for all vertices at once, use `index_domains`.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    reached = index_ranges(graph, vertex_numbers(graph, vertex))
    return tuple(terminal for terminal in graph.terminals if reached[terminal])


def root_degrees(graph: DifferentiationGraph) -> NDArray[np.int64]:
    """Return the number of roots with a path to each vertex, (vertices,); in the notes the r-degree D_r⁻."""
    sources, targets = graph.edges_in_order
    return counts_of_sets(len(graph.vertices), graph.roots, sources[::-1], targets[::-1])


def terminal_degrees(graph: DifferentiationGraph) -> NDArray[np.int64]:
    """Return the number of terminals with a path from each vertex, (vertices,); in the notes the t-degree D_t⁺."""
    sources, targets = graph.edges_in_order
    return counts_of_sets(len(graph.vertices), graph.terminals, targets, sources)


# Levels --------------------------------------------------------------------------------------------------------------


#: The level of vertices that no root reaches.
_NONE: Final = -1


def levels(graph: DifferentiationGraph) -> list[int]:
    """Return the depth level of each vertex, −1 if no root reaches it; in the notes L(v).

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x"), ("y", "b"), ("y", "x")])
    >>> levels(graph)
    [0, 1, 2, 3]
    """
    level = [_NONE] * len(graph.vertices)
    for root in graph.roots:
        level[root] = 0
    targets: list[int] = graph.targets.tolist()
    terminals = set(graph.terminals)
    for v in reversed(graph.topological_order):
        if level[v] != _NONE:
            for e in graph.out_edges[v]:
                level[targets[e]] = max(level[targets[e]], level[v] + 1)
    last = 1 + max((depth for v, depth in enumerate(level) if v not in terminals), default=_NONE)
    for terminal in terminals:
        level[terminal] = last
    return level


def level_sets(graph: DifferentiationGraph) -> list[tuple[int, ...]]:
    """Return the vertices on each level, from the roots to the terminals; in the notes V⁰ = Y, V¹, …, Vʰ = X.

    >>> level_sets(DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "x")]))
    [(0,), (1,), (2,)]
    """
    level = levels(graph)
    sets: list[list[int]] = [[] for _ in range(1 + max(level, default=_NONE))]
    for v, depth in enumerate(level):
        if depth != _NONE:
            sets[depth].append(v)
    return [tuple(vertices) for vertices in sets]


def cross_level_edges(graph: DifferentiationGraph) -> tuple[int, ...]:
    """Return the edges ⟨j,i⟩ with L(i) − L(j) > 1, ascending."""
    level = levels(graph)
    return tuple(e for e, (j, i) in enumerate(graph.ends) if level[j] != _NONE and level[i] - level[j] > 1)


def segmented(
    graph: DifferentiationGraph, side: Literal["tail", "head"] = "tail", *, shared: bool = False
) -> DifferentiationGraph:
    """Return the graph with every cross-level edge cut into one edge for each level that it crosses.

    Args:
        graph: graph to cut.
        side: end of the edge that the new vertices copy. With "tail" (the source, the dependent variable) the unit
            edges come first and the label last; with "head" (the target) the label comes first. In the notes, figure
            "Cross-level edge segmentation", (b) and (c).
        shared: if True, edges that are cut at the same end share its copies, so that levels have fewer vertices. If
            False, each cut edge becomes a direct simple chain of its own, as in the notes.

    Returns:
        A graph with the same Jacobian. The vertices of `graph` keep their numbers, and the names of the copies have
        primes. Each edge keeps its label; the unit edges are of kind `Kind.ONE` and cost nothing.

    Raises:
        UnknownNameError: if `side` is neither "tail" nor "head".

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

    for e, (j, i) in enumerate(graph.ends):
        if e not in crossing:
            edges.append((j, i, e))
            continue
        tail = side == "tail"
        near = end = j if tail else i
        units: list[tuple[int, int, int]] = []
        for depth in range(level[j] + 1, level[i]) if tail else range(level[i] - 1, level[j], -1):
            copy = copies.get((end, depth)) if shared else None
            if copy is None:
                copy = copies[end, depth] = copied(end)
                units.append((near, copy, UNIT) if tail else (copy, near, UNIT))
            near = copy
        edges += [*units, (near, i, e)] if tail else [(j, near, e), *reversed(units)]
    return derive(graph, names, graph.roots, graph.terminals, edges, sizes)


def _namer(graph: DifferentiationGraph) -> Callable[[Hashable], str]:
    """Return a function that makes unused names for copies of a vertex v: v′, v′2 and so on."""
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
