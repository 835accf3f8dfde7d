"""Counts of a graph, by which the time of a deterministic method is estimated.

Forward elimination makes, at each vertex, a product for every pair of an incoming edge and a terminal that the vertex
reaches; reverse elimination one for every pair of an outgoing edge and a root that reaches it. So both are counted
before they are run. Estimates never depend on a clock: the same graph is judged the same way everywhere.

Time: a bit set operation for each edge. Where the bit sets would be large, all terminals (roots) are counted instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accumulus.graph.degrees import index_domains, index_ranges
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
            below = [bits.bit_count() for bits in index_domains(graph)]
            above = [bits.bit_count() for bits in index_ranges(graph)]
        else:
            below, above = [terminals] * count, [roots] * count
        inner = graph.intermediates
        level = levels(graph)
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        return cls(
            edges=len(graph.sources),
            pairs=roots * terminals,
            levels=max(level, default=0),
            segments=sum(level[i] - level[j] for j, i in ends if level[j] >= 0),
            forward=sum(len(graph.in_edges[v]) * below[v] for v in inner),
            reverse=sum(len(graph.out_edges[v]) * above[v] for v in inner),
        )

    @property
    def fewest(self) -> int:
        """Products of forward or of reverse elimination, whichever makes fewer."""
        return min(self.forward, self.reverse)
