"""Graphs made from graphs: the same labels on other vertices.

Segmentation, subgraphs and line graphs turned back all keep the labels of a given graph and only change which
vertices they join, or add unit edges. `derive` makes such a graph with the numbering it is given, whether the
labels are symbols or references of a tape. Linear in the size of the result, and of the tape where there is one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["UNIT", "derive", "edge_numbers", "subgraph", "vertex_numbers"]

#: Stands for the label 1 where an edge number is expected.
UNIT: Final = -1


def derive(
    graph: DifferentiationGraph,
    vertices: Sequence[Hashable],
    roots: Sequence[int],
    terminals: Sequence[int],
    edges: Iterable[tuple[int, int, int]],
    sizes: Sequence[int] | None = None,
) -> DifferentiationGraph:
    """A graph whose edges carry labels of `graph`.

    Args:
        vertices: names, by number.
        roots, terminals: vertices by number; roots without incoming, terminals without outgoing edges.
        edges: triples (source, target, e): the edge carries the label of edge e of `graph`, or 1 if e is `UNIT`.
        sizes: of the vertices, by number; all 1 if not given.
    """
    sources: list[int] = []
    targets: list[int] = []
    origins: list[int] = []
    for source, target, origin in edges:
        sources.append(source)
        targets.append(target)
        origins.append(origin)
    if graph.tape is not None:
        tape = graph.tape.copy()
        one = tape.constant(1.0)
        labels = [one if e == UNIT else graph.labels[e] for e in origins]
        # all of whose vertices are numbers
        return DifferentiationGraph.from_tape(
            tape, labels, vertices, roots, terminals, sources, targets, name=graph.name
        )
    kinds = [Kind.ONE if e == UNIT else Kind(int(graph.kinds[e])) for e in origins]
    symbols = [None if e == UNIT else graph.symbols[e] for e in origins]
    constants = {k: 1.0 if e == UNIT else graph.constants[e] for k, e in enumerate(origins) if _known(graph, e)}
    derived = DifferentiationGraph.__new__(DifferentiationGraph)
    widths = np.ones(len(vertices), np.int64) if sizes is None else np.asarray(sizes, np.int64)
    # the public constructor numbers vertices by their names, which a derived graph must not depend on
    derived._set(vertices, roots, terminals, sources, targets, kinds, symbols, constants, widths, graph.name)
    return derived


def subgraph(graph: DifferentiationGraph, edges: Iterable[int]) -> DifferentiationGraph:
    """The given edges of `graph` in ascending order, between the same lines of roots and terminals.

    Intermediates that no given edge touches are left out; names, labels and sizes stay.

    Raises:
        GraphError: for a number that is not an edge of the graph.

    >>> graph = DifferentiationGraph([("y", "a", "e1"), ("a", "x", "e2"), ("y", "b", "e3"), ("b", "x", "e4")])
    >>> subgraph(graph, [0, 1]).vertices
    ('y', 'a', 'x')
    """
    chosen = edge_numbers(graph, edges)
    used = {*graph.roots, *graph.terminals}
    used.update(graph.sources[list(chosen)].tolist(), graph.targets[list(chosen)].tolist())
    kept = sorted(used)
    number = {v: k for k, v in enumerate(kept)}
    return derive(
        graph,
        [graph.vertices[v] for v in kept],
        [number[v] for v in graph.roots],
        [number[v] for v in graph.terminals],
        [(number[int(graph.sources[e])], number[int(graph.targets[e])], e) for e in chosen],
        graph.sizes[kept].tolist(),
    )


def vertex_numbers(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """One vertex or several as an ascending tuple without repetition.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    return _numbers(vertices, len(graph.vertices), "vertex")


def edge_numbers(graph: DifferentiationGraph, edges: int | Iterable[int]) -> tuple[int, ...]:
    """One edge or several as an ascending tuple without repetition.

    Raises:
        GraphError: for a number that is not an edge of the graph.
    """
    return _numbers(edges, len(graph.sources), "edge")


def _numbers(given: int | Iterable[int], count: int, what: str) -> tuple[int, ...]:
    several: Iterable[object] = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    numbers = set()
    for number in several:
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or not 0 <= number < count:
            known = f"a number out of 0 … {count - 1}" if count else "none at all"
            raise GraphError(f"the graph has no {what} {number!r}; expected {known}")
        numbers.add(int(number))
    return tuple(sorted(numbers))


def _known(graph: DifferentiationGraph, edge: int) -> bool:
    return edge == UNIT or edge in graph.constants
