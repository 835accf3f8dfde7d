"""Small graphs on which vertex, edge and face elimination differ, and larger ones made of many of them.

They are known as the lion and the bat, and are here as among the examples of the public ADMission planner (STCE, RWTH
Aachen); the three ways to eliminate are compared by Naumann (Optimal accumulation of Jacobian matrices by elimination
methods on the dual computational graph, 2004). Optima, every product 1:

| graph | vertices | edges | faces |
| --- | --- | --- | --- |
| lion | 12 | 11 | 11 |
| bat | 24 | 23 | 22 with vectors, at most 22 without |

With `vectors` the pairs 0a and 0b, 1a and 1b, 3a and 3b, 6a and 6b are one vertex of two entries each, which cannot be
torn apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.errors import unknown_name
from accumulus.graph.generators.draws import chosen, whole
from accumulus.graph.generators.generator import assembled, generator
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["SHAPES", "bat", "gadgets", "lion"]

SHAPES: Final = ("apart", "chain", "tree")


@dataclass(frozen=True, slots=True)
class _Gadget:
    """Edges from dependent to dependency by vertex, and how many entries each vertex has, inputs first."""

    edges: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    def split(self) -> _Gadget:
        """The same with a vertex for each entry."""
        first = np.cumsum([0, *self.sizes]).tolist()
        entries = [range(first[v], first[v + 1]) for v in range(len(self.sizes))]
        edges = tuple((j, i) for source, target in self.edges for j in entries[source] for i in entries[target])
        return _Gadget(edges, (1,) * first[-1])


_LION: Final = _Gadget(((1, 0), (2, 1), (5, 1), (3, 2), (4, 2), (5, 2)), (2, 1, 1, 2, 1, 1))
_BAT: Final = _Gadget(
    ((2, 0), (3, 1), (4, 2), (4, 3), (5, 2), (7, 3), (5, 4), (6, 4), (7, 4)), (2, 2, 1, 1, 1, 1, 2, 1)
)
_GADGETS: Final = {"lion": _LION, "bat": _BAT}


@generator
def lion(vectors: bool = False) -> DifferentiationGraph:
    """A small graph on which eliminating edges is better than any order of vertices: 11 products, not 12."""
    return gadgets("lion", 1, "apart", vectors)


@generator
def bat(vectors: bool = False) -> DifferentiationGraph:
    """A small graph on which edges are better than vertices, and faces better than edges: 24, 23, at most 22."""
    return gadgets("bat", 1, "apart", vectors)


@generator
def gadgets(kind: str = "lion", count: int = 4, shape: str = "chain", vectors: bool = False) -> DifferentiationGraph:
    """Many lions or bats: apart, in a chain, or in a binary tree.

    Optimum apart: that of one times `count`.

    Args:
        kind: "lion" or "bat".
        shape: "apart"; "chain", in which the first input of each is the last output of the one before; "tree", in
            which the first input of each is an output of its parent, the last for one child, the first for the other.
        vectors: whether entries that belong together are one vertex.
    """
    if kind not in _GADGETS:
        raise unknown_name("kind of gadget", kind, _GADGETS)
    count, shape = whole("count", count), chosen("shape", shape, SHAPES)
    gadget = _GADGETS[kind] if vectors else _GADGETS[kind].split()
    width = len(gadget.sizes)
    vertices = np.arange(count * width).reshape(count, width)
    if shape != "apart" and count > 1:
        left = {source for source, _ in gadget.edges}
        entered = {target for _, target in gadget.edges}
        # an input may only be joined to an output of as many entries
        first = next(v for v in range(width) if v not in left)
        outputs = [v for v in range(width) if v not in entered and gadget.sizes[v] == gadget.sizes[first]]
        child = np.arange(1, count)
        parent, output = (child - 1, -1) if shape == "chain" else ((child - 1) // 2, -(child % 2))
        vertices[1:, first] = vertices[parent, np.array(outputs)[output]]
    ends = np.array(gadget.edges)
    # vertices that were joined have left gaps in the numbers
    _, (sources, targets) = np.unique(vertices[:, ends.T].transpose(1, 0, 2).reshape(2, -1), return_inverse=True)
    sizes = np.tile(gadget.sizes, count)[np.unique(vertices)]
    return assembled(sources, targets, len(sizes), sizes)
