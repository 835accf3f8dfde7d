"""Bauer's formula: each entry of the Jacobian is the sum over all paths of the product over their edges.

∂v_y/∂v_x = Σ_{p ∈ P_{y→x}} Π_{e ∈ p} e (Bauer 1974; the notes, section 3). It is the oracle for everything that
accumulates: labels may come from any ring, and no product is ever turned round, so matrices of any matching shapes do.

By default sums are formed at every vertex, which uses nothing but distributivity: O(roots · edges) products.
``expanded=True`` adds up path by path, literally: independent of everything else, and exponential.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from accumulus.errors import ArgumentError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.graphs.paths import paths

__all__ = ["bauer"]

Label = TypeVar("Label")


def bauer(
    graph: DifferentiationGraph,
    labels: Sequence[Label],
    *,
    multiply: Callable[[Label, Label], Label] = operator.mul,
    add: Callable[[Label, Label], Label] = operator.add,
    expanded: bool = False,
) -> dict[tuple[int, int], Label]:
    """Jacobian of the graph for given labels, by Bauer's formula.

    Args:
        labels: one for each edge, unit edges and constants included; of any ring.
        multiply: product of two labels, the one nearer to the root on the left: for NumPy matrices
            ``operator.matmul``.
        add: sum of two labels.
        expanded: whether to add up path by path.

    Returns:
        The entries by (position in ``graph.roots``, position in ``graph.terminals``), for the pairs that a path joins.

    Raises:
        ArgumentError: if there is not one label for each edge.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")])
    >>> bauer(graph, [2, 3, 5, 7])
    {(0, 0): 31}
    >>> bauer(graph, ["2", "3", "5", "7"], multiply="{}·{}".format, add="{}+{}".format, expanded=True)
    {(0, 0): '2·5+3·7'}
    """
    if len(labels) != len(graph.sources):
        raise ArgumentError(f"{len(labels)} labels for {len(graph.sources)} edges; expected one for each edge")
    entries: dict[tuple[int, int], Label] = {}
    for row, root in enumerate(graph.roots):
        if expanded:
            sums: dict[int, Any] = _by_paths(graph, labels, root, multiply, add)
        else:
            sums = _by_vertices(graph, labels, root, multiply, add)
        for column, terminal in enumerate(graph.terminals):
            if terminal in sums:
                entries[row, column] = sums[terminal]
    return entries


def _by_vertices(
    graph: DifferentiationGraph,
    labels: Sequence[Label],
    root: int,
    multiply: Callable[[Label, Label], Label],
    add: Callable[[Label, Label], Label],
) -> dict[int, Label]:
    targets: list[int] = graph.targets.tolist()
    sums: dict[int, Label] = {}
    for v in reversed(graph.topological_order):
        if v != root and v not in sums:
            continue
        for e in graph.out_edges[v]:
            term = labels[e] if v == root else multiply(sums[v], labels[e])
            i = targets[e]
            sums[i] = add(sums[i], term) if i in sums else term
    return sums


def _by_paths(
    graph: DifferentiationGraph,
    labels: Sequence[Label],
    root: int,
    multiply: Callable[[Label, Label], Label],
    add: Callable[[Label, Label], Label],
) -> dict[int, Label]:
    sums: dict[int, Label] = {}
    for path in paths(graph, root):
        if not path:
            continue
        term = labels[path[0]]
        for e in path[1:]:
            term = multiply(term, labels[e])
        i = int(graph.targets[path[-1]])
        sums[i] = add(sums[i], term) if i in sums else term
    return sums
