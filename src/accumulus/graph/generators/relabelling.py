"""The same graph with other labels or other sizes, at random."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.graph.generators.draws import Draws, fraction, whole
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["with_labels", "with_sizes"]

_VALUES: Final = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}


def with_labels(
    graph: DifferentiationGraph, one: float = 0.2, minus_one: float = 0.1, constant: float = 0.1, seed: int = 0
) -> DifferentiationGraph:
    """The graph with labels drawn anew: 1, −1, constants of unknown value, and variables for the rest.

    1 and −1 are drawn only between vertices of one size.

    Args:
        one, minus_one, constant: probability of each; together at most 1.

    Raises:
        ArgumentError: if they are not.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> [Kind(kind).name for kind in with_labels(graph, one=1.0, minus_one=0.0, constant=0.0).kinds]
    ['ONE', 'ONE']
    """
    shares = [fraction("one", one), fraction("minus_one", minus_one), fraction("constant", constant)]
    if sum(shares) > 1 + 1e-12:
        raise ArgumentError(f"the shares of labels are {', '.join(map(str, shares))}; expected at most 1 together")
    draws = Draws(seed)
    count = len(graph.sources)
    kinds = np.full(count, Kind.VARIABLE, np.uint8)
    same_size = graph.sizes[graph.sources] == graph.sizes[graph.targets]
    left = 1.0
    for kind, share in zip((Kind.ONE, Kind.MINUS_ONE, Kind.CONSTANT), shares, strict=True):
        # of the labels that are still free, so many as make the share of all
        free = draws.chances(min(1.0, share / left) if left > 0 else 0.0, count) & (kinds == Kind.VARIABLE)
        # units are numbers, which join vertices of one size
        kinds[free & (same_size if kind < Kind.CONSTANT else True)] = kind
        left -= share
    constants = {e: _VALUES[Kind(int(kinds[e]))] for e in np.flatnonzero(kinds < Kind.CONSTANT).tolist()}
    return _changed(graph, kinds, constants, graph.sizes)


def with_sizes(graph: DifferentiationGraph, largest: int = 10, seed: int = 0) -> DifferentiationGraph:
    """The graph with vector-valued vertices of 1 to `largest` entries, and all labels variable."""
    sizes = 1 + Draws(seed).below(whole("largest", largest), len(graph.vertices))
    return _changed(graph, np.full(len(graph.sources), Kind.VARIABLE, np.uint8), {}, sizes)


def _changed(
    graph: DifferentiationGraph, kinds: NDArray[np.uint8], constants: dict[int, float], sizes: NDArray[np.int64]
) -> DifferentiationGraph:
    return DifferentiationGraph.from_arrays(
        graph.sources,
        graph.targets,
        kinds,
        vertices=graph.vertices,
        roots=graph.roots,
        terminals=graph.terminals,
        constants=constants,
        sizes=sizes,
        name=graph.name,
    )
