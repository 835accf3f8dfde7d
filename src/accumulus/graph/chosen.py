"""Graphs of which not the whole Jacobian is wanted: symmetric ones, of which a triangle is, and chosen entries.

A symmetric Jacobian, such as a Hessian, has a graph with a mirror: a vertex stands for each vertex when all edges are
reversed, and mirrored edges have the same label. So there is a mirrored path for each path, with the same product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import GraphError

if TYPE_CHECKING:
    from accumulus.graph.graph import DifferentiationGraph

__all__ = ["are_wanted", "check_mirror", "mirrored_edges", "on_wanted_paths", "sorted_places"]

Integers = NDArray[np.int64]


def mirrored_edges(graph: DifferentiationGraph) -> Integers:
    """The mirror of each edge; itself, if its ends mirror each other.

    Raises:
        GraphError: if there is none.
    """
    assert graph.mirror is not None
    count = len(graph.vertices)
    mirror = graph.mirror.astype(np.int64)
    keys = graph.sources.astype(np.int64) * count + graph.targets
    mirrored = mirror[graph.targets] * count + mirror[graph.sources]
    order = np.argsort(keys, kind="stable")
    places = np.minimum(np.searchsorted(keys[order], mirrored), max(0, len(keys) - 1))
    found: Integers = order[places] if len(keys) else np.zeros(0, np.int64)
    if (keys[found] != mirrored).any() or len(np.unique(found)) < len(found):
        raise GraphError("mirror: an edge has no mirror among the edges; expected one for each")
    return found


def check_mirror(graph: DifferentiationGraph) -> None:
    """Refuse what is no symmetry of a graph from a tape.

    Raises:
        GraphError: saying what is not mirrored.
    """
    mirror = graph.mirror
    assert mirror is not None
    own = np.arange(len(mirror))
    if (mirror[mirror] != own).any() or (mirror == own).any():
        raise GraphError("mirror: expected another vertex for each, whose mirror is that vertex again")
    if len(graph.roots) != len(graph.terminals) or (mirror[list(graph.terminals)] != list(graph.roots)).any():
        raise GraphError("mirror: expected the root of the same position for each terminal")
    labels = np.array(graph.labels, np.int64)
    if (labels[mirrored_edges(graph)] != labels).any():
        raise GraphError("mirror: two edges that mirror each other have different labels; expected the same")


def sorted_places(wanted: Sequence[Sequence[int]] | NDArray[Any], rows: int, columns: int) -> Integers:
    """Places (root, terminal) of a matrix of that size in row-major order, (n, 2), each once.

    Raises:
        GraphError: if there are others.
    """
    places = np.asarray(wanted)
    if places.size == 0:
        return np.zeros((0, 2), np.int64)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iu":
        raise GraphError(f"wanted is {wanted!r:.60}; expected pairs of positions, of a root and a terminal")
    if places.min() < 0 or (places.max(axis=0) >= (rows, columns)).any():
        raise GraphError(f"wanted names an entry outside of {rows} × {columns}; expected positions from 0 on")
    return np.unique(places.astype(np.int64), axis=0)


def are_wanted(graph: DifferentiationGraph, places: Integers) -> NDArray[np.bool_]:
    """Which of the places (root, terminal), (n, 2), are wanted."""
    found = np.ones(len(places), bool)
    if graph.mirror is not None:
        found &= places[:, 0] >= places[:, 1]
    if graph.wanted is not None:
        columns = max(1, len(graph.terminals))
        keys = graph.wanted[:, 0] * columns + graph.wanted[:, 1]
        found &= np.isin(places[:, 0] * columns + places[:, 1], keys)
    return found


def on_wanted_paths(graph: DifferentiationGraph, edges: Integers) -> NDArray[np.bool_]:
    """Which edges are on a path from a root to a terminal whose entry is wanted.

    Time: a set operation of as many bits as there are terminals for each edge and wanted entry.
    """
    assert graph.wanted is not None
    places = graph.wanted
    if graph.mirror is not None:  # a path and its mirror are eliminated together, so both have to be there
        places = np.concatenate([places, places[:, ::-1]])
    # terminals, as bits, that are wanted of a root above each vertex, and that are below each vertex
    wanted, below = [0] * len(graph.vertices), [0] * len(graph.vertices)
    for row, column in places.tolist():
        wanted[graph.roots[row]] |= 1 << column
    for column, terminal in enumerate(graph.terminals):
        below[terminal] = 1 << column
    sources, targets = (ends.tolist() for ends in graph.edges_in_order)
    for j, i in zip(sources, targets, strict=True):
        below[j] |= below[i]
    for j, i in zip(reversed(sources), reversed(targets), strict=True):
        wanted[i] |= wanted[j]
    ends = zip(graph.sources[edges].tolist(), graph.targets[edges].tolist(), strict=True)
    return np.array([wanted[j] & below[i] != 0 for j, i in ends], bool)
