"""Series-parallel reduction: chains and blocks replaced by substitute edges, and the tree of what was replaced.

A vertex with one incoming and one outgoing edge is replaced by one edge (series composition, in the notes a chain);
edges between the same two vertices are replaced by one (parallel composition, a block). What can be reduced to a single
edge is a two-terminal series-parallel graph (Valdes, Tarjan and Lawler, The Recognition of Series Parallel
Digraphs, 1982), in the notes a simple chain or simple block. Which edges remain does not depend on the order.

Compositions of one kind that meet are merged, the smaller into the larger, so a chain has all of its links as children
and not two of them. Time O(edges · log edges), of which the logarithm is for those mergers; memory O(edges).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.graphs.traversal import series_vertices

__all__ = ["Part", "Reduction", "Shape"]


class Shape(Enum):
    """How a part is put together."""

    EDGE = "edge"
    SERIES = "series"
    PARALLEL = "parallel"
    CORE = "core"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """A subgraph between two vertices that nothing else enters or leaves in between, as a tree of such parts."""

    shape: Shape
    source: int
    sink: int
    #: Links of a series from source to sink; strands of a parallel and members of a core by their first edges.
    children: tuple[Part, ...] = ()
    #: Number of the edge, −1 unless the shape is `Shape.EDGE`.
    edge: int = -1
    #: Number of edges in the part.
    size: int = 1
    #: Whether the part is series-parallel, that is, has no core in it; in the notes simple.
    simple: bool = True
    #: For a series, whether all links are edges; for a parallel, whether all strands are edges or such series.
    direct: bool = True

    @property
    def kind(self) -> str:
        """The notes' word (definitions 3.1 to 3.3): "edge", "complex chain", "complex block", or one of "direct" and
        "indirect" before "simple chain" or "simple block".
        """
        if self.shape is Shape.EDGE:
            return "edge"
        noun = "chain" if self.shape is Shape.SERIES else "block"
        if not self.simple:
            return f"complex {noun}"
        return f"{'direct' if self.direct else 'indirect'} simple {noun}"

    @property
    def is_block(self) -> bool:
        """Whether there are two paths through the part that share nothing but its ends."""
        return self.shape in (Shape.PARALLEL, Shape.CORE)

    @property
    def is_chain(self) -> bool:
        """Whether the part is a row of edges and blocks."""
        return self.shape is Shape.SERIES

    def walk(self) -> Iterator[Part]:
        """The part and all parts nested in it, outer ones first, children in their order."""
        pending = [self]
        while pending:
            part = pending.pop()
            yield part
            pending.extend(reversed(part.children))

    @property
    def edges(self) -> tuple[int, ...]:
        """Numbers of all edges in the part, ascending."""
        return tuple(sorted(part.edge for part in self.walk() if part.shape is Shape.EDGE))

    def __repr__(self) -> str:
        return f"Part({self.kind} ⟨{self.source},{self.sink}⟩, {self.size} edges)"


class Reduction:
    """A graph while its parts are replaced by substitute edges.

    Args:
        edges: the edges of `graph` to look at.
        kept: vertices that must not disappear into a part.
    """

    def __init__(self, graph: DifferentiationGraph, edges: Iterable[int], kept: Iterable[int] = ()) -> None:
        self.kept: Final = frozenset(kept)
        self.source: Final[list[int]] = []
        self.sink: Final[list[int]] = []
        #: Current part by source and sink, and by sink and source.
        self.out: Final[dict[int, dict[int, int]]] = {}
        self.into: Final[dict[int, dict[int, int]]] = {}
        self._shape: list[Shape] = []
        #: Of compositions only: most parts are edges, and a deque is large.
        self._members: dict[int, deque[int]] = {}
        self._first: list[int] = []
        self._outer: list[int] = []
        self._swallowed_by: dict[int, int] = {}
        pending: list[int] = []
        sources: list[int] = graph.sources.tolist()
        targets: list[int] = graph.targets.tolist()
        for e in edges:
            part = self._new(Shape.EDGE, sources[e], targets[e], e)
            self._place(part)
            pending += (self.source[part], self.sink[part])
        self._reduce(pending)

    def collapse(self, entry: int, exit_: int, seed: int) -> None:
        """Replace what lies between two vertices around an intermediate vertex by one core, unless that is done.

        Args:
            entry, exit_: the only vertices through which paths enter and leave.
            seed: any vertex in between.
        """
        if entry in self._swallowed_by or exit_ in self._swallowed_by:
            return  # only what has become a single edge lets its ends disappear
        if seed in self._swallowed_by:
            part = self._outermost(self._swallowed_by[seed])
            if self.source[part] != entry:
                seed = self.source[part]
            elif self.sink[part] != exit_:
                seed = self.sink[part]
            else:
                return
        inner = {seed}
        pending = [seed]
        while pending:
            v = pending.pop()
            for u in (*self.out[v], *self.into[v]):
                if u not in inner and u not in (entry, exit_):
                    inner.add(u)
                    pending.append(u)
        members = sorted({part for v in inner for part in (*self.out[v].values(), *self.into[v].values())})
        core = self._new(Shape.CORE, entry, exit_, min(self._first[part] for part in members), members)
        for part in members:
            self._remove(part)
        for v in inner:
            self._drop(v, core)
        self._place(core)
        self._reduce([entry, exit_])

    def parts(self) -> tuple[Part, ...]:
        """The parts that are left, with all that is nested in them."""
        tops = [part for row in self.out.values() for part in row.values()]
        made: dict[int, Part] = {}
        pending = [(part, False) for part in tops]
        while pending:
            part, ready = pending.pop()
            if self._shape[part] is Shape.EDGE:
                made[part] = Part(Shape.EDGE, self.source[part], self.sink[part], edge=self._first[part])
                continue
            members: Iterable[int] = self._members[part]
            if not ready:
                pending.append((part, True))
                pending.extend((member, False) for member in members)
                continue
            if self._shape[part] is not Shape.SERIES:
                members = sorted(members, key=self._first.__getitem__)
            made[part] = self._part(part, tuple(made.pop(member) for member in members))
        return tuple(made[part] for part in sorted(tops, key=self._first.__getitem__))

    def _part(self, part: int, children: tuple[Part, ...]) -> Part:
        shape = self._shape[part]
        simple = shape is not Shape.CORE and all(child.simple for child in children)
        straight = (Shape.EDGE,) if shape is Shape.SERIES else (Shape.EDGE, Shape.SERIES)
        direct = simple and all(child.direct and child.shape in straight for child in children)
        size = sum(child.size for child in children)
        return Part(shape, self.source[part], self.sink[part], children, size=size, simple=simple, direct=direct)

    def _new(self, shape: Shape, source: int, sink: int, first: int, members: Sequence[int] = ()) -> int:
        part = len(self._shape)
        self._shape.append(shape)
        self.source.append(source)
        self.sink.append(sink)
        self._first.append(first)
        self._outer.append(part)
        if members:
            self._members[part] = deque(members)
            for member in members:
                self._outer[member] = part
        return part

    def _place(self, part: int) -> None:
        """Put a part between its ends, in parallel with what is there."""
        j, i = self.source[part], self.sink[part]
        for v in (j, i):
            self.out.setdefault(v, {})
            self.into.setdefault(v, {})
        known = self.out[j].get(i)
        if known is not None:
            part = self._joined(Shape.PARALLEL, known, part)
        self.out[j][i] = self.into[i][j] = part

    def _remove(self, part: int) -> None:
        j, i = self.source[part], self.sink[part]
        del self.out[j][i], self.into[i][j]

    def _drop(self, v: int, part: int) -> None:
        del self.out[v], self.into[v]
        self._swallowed_by[v] = part

    def _reduce(self, pending: list[int]) -> None:
        """Series reductions, and the parallel ones that they cause, until none is left."""
        for v in series_vertices(self.into, self.out, pending, lambda v: v not in self.kept and v in self.out):
            (above,) = self.into[v].values()
            (below,) = self.out[v].values()
            self._remove(above)
            self._remove(below)
            part = self._joined(Shape.SERIES, above, below)
            self._drop(v, part)
            self._place(part)

    def _joined(self, shape: Shape, first: int, second: int) -> int:
        """The composition of two parts, as one flat part; first is nearer to the root in a series."""
        source, sink = self.source[first], self.sink[second]
        lowest = min(self._first[first], self._first[second])
        mine = self._members[first] if self._shape[first] is shape else None
        other = self._members[second] if self._shape[second] is shape else None
        if mine is None and other is None:
            return self._new(shape, source, sink, lowest, (first, second))
        if other is None or (mine is not None and len(mine) >= len(other)):
            assert mine is not None
            mine.extend((second,) if other is None else other)
            result, inner = first, second
        else:
            other.extendleft((first,) if mine is None else reversed(mine))
            result, inner = second, first
        if mine is not None and other is not None:
            del self._members[inner]
        self._outer[inner] = result
        self.source[result], self.sink[result], self._first[result] = source, sink, lowest
        return result

    def _outermost(self, part: int) -> int:
        """The current part that a part has been put into."""
        outer = self._outer
        while outer[part] != part:
            outer[part] = outer[outer[part]]
            part = outer[part]
        return part
