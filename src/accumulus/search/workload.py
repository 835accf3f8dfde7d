"""Counts of a graph, by which the time of a deterministic method is estimated.

Forward elimination makes, at each vertex, a product for every pair of an incoming edge and a terminal that the vertex
reaches; reverse elimination one for every pair of an outgoing edge and a root that reaches it. So both are counted
before they are run. Estimates never depend on a clock: the same graph is judged the same way everywhere.

Time: a bit set operation for each edge. Where the bit sets would be large, all terminals (roots) are counted instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.graph.degrees import root_degrees, terminal_degrees
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.levels import levels

__all__ = ["Workload"]

#: Vertices times roots (or terminals), at most, for which reachability is computed.
_COUNTED: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Counts of a graph.

    Attributes:
        edges: of the graph.
        pairs: roots times terminals.
        levels: edges of the longest path from a root.
        segments: edges once all that cross levels are segmented.
        forward, reverse: products of forward and of reverse elimination; bounds where the graph is large.
    """

    edges: int
    pairs: int
    levels: int
    segments: int
    forward: int
    reverse: int

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> Workload:
        """Count a graph."""
        count, roots, terminals = len(graph.vertices), len(graph.roots), len(graph.terminals)
        if count * max(roots, terminals) <= _COUNTED:
            below, above = terminal_degrees(graph), root_degrees(graph)
        else:
            below, above = np.full(count, terminals), np.full(count, roots)
        inner = list(graph.intermediates)
        into, out_of = (np.bincount(ends, minlength=count) for ends in (graph.targets, graph.sources))
        level = levels(graph)
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        return cls(
            edges=len(graph.sources),
            pairs=roots * terminals,
            levels=max(level, default=0),
            segments=sum(level[i] - level[j] for j, i in ends if level[j] >= 0),
            forward=int((into * below)[inner].sum()),
            reverse=int((out_of * above)[inner].sum()),
        )

    @property
    def fewest(self) -> int:
        """Products of forward or of reverse elimination, whichever makes fewer."""
        return min(self.forward, self.reverse)
