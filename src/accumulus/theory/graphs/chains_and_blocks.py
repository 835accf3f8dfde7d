"""Chains and blocks, simple and complex: the notes' definitions 3.1 to 3.3, decided for any graph.

**Reduction.** Series-parallel reduction replaces chains and blocks by substitute edges, and records the replaced parts
as a tree.

A vertex with one incoming and one outgoing edge is replaced by one edge (series composition, in the notes a chain).
Edges between the same two vertices are replaced by one (parallel composition, a block). A graph that reduces to a
single edge is a two-terminal series-parallel graph (Valdes, Tarjan and Lawler, The Recognition of Series Parallel
Digraphs, 1982), in the notes a simple chain or simple block. The remaining edges do not depend on the order.

A composition joins two parts. The returned tree merges nested compositions of the same kind, so the children of a chain
are all of its links. Time and memory: O(edges).

**Decomposition.** `decompose` returns a tree of series (chains), parallels (blocks), edges, and cores, the parts of
complex blocks that are no compositions. It reduces chains and parallel edges (`Reduction`), then replaces the remainder
of each region, from the smallest to the largest (`accumulus.theory.graphs.dominators`), in O(edges · log edges) time
and O(edges) memory. `block` decides definition 3.1 for one pair of vertices, within the same bound.

docs/notes.md, section 3, explains the interpretation of the definitions. `decompose` also finds parts that have no
edges from or to the outside, but are not blocks, because another path from v_i to v_j has such an edge. They are as
useful in calculations. `Decomposition.blocks` leaves them out, since definition 3.1 requires *all* paths from v_i to
v_j.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final

from accumulus.graph.graph import DifferentiationGraph, vertex_numbers
from accumulus.theory.graphs.dominators import regions
from accumulus.theory.graphs.traversal import reached, series_vertices


class Shape(Enum):
    """Kind of a part."""

    EDGE = "edge"
    SERIES = "series"
    PARALLEL = "parallel"
    CORE = "core"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """A subgraph that edges enter and leave only at its source and sink, as a tree of such parts."""

    shape: Shape
    source: int
    sink: int
    #: Links of a series, from source to sink; strands of a parallel or members of a core, ordered by first edges.
    children: tuple[Part, ...] = ()
    #: Number of the edge, −1 unless the shape is `Shape.EDGE`.
    edge: int = -1
    #: Number of edges in the part.
    size: int = 1
    #: True if the part is series-parallel, that is, contains no core; in the notes simple.
    simple: bool = True
    #: True for an edge, for a series of edges, and for a parallel whose strands are edges or series of edges.
    direct: bool = True

    @property
    def kind(self) -> str:
        """Term of the notes' definitions 3.1 to 3.3: "edge", "complex chain", "indirect simple block" and so on."""
        if self.shape is Shape.EDGE:
            return "edge"
        noun = "chain" if self.shape is Shape.SERIES else "block"
        if not self.simple:
            return f"complex {noun}"
        return f"{'direct' if self.direct else 'indirect'} simple {noun}"

    @property
    def is_block(self) -> bool:
        """Return True if the part has two paths that share only its ends."""
        return self.shape in (Shape.PARALLEL, Shape.CORE)

    @property
    def is_chain(self) -> bool:
        """Return True if the part is a series of edges and blocks."""
        return self.shape is Shape.SERIES

    def walk(self) -> Iterator[Part]:
        """Yield the part and all nested parts, outer parts first, children in order."""
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
    """State of a reduction, which replaces parts of a graph by substitute edges.

    Args:
        graph: graph to reduce.
        edges: edges of the graph to consider.
        protected: vertices that must not be inside a part.
    """

    def __init__(self, graph: DifferentiationGraph, edges: Iterable[int], protected: Iterable[int] = ()) -> None:
        self.protected: Final = frozenset(protected)
        self.source: Final[list[int]] = []
        self.sink: Final[list[int]] = []
        #: Current parts by source and sink, and by sink and source.
        self.out: Final[dict[int, dict[int, int]]] = {}
        self.into: Final[dict[int, dict[int, int]]] = {}
        self._shape: list[Shape] = []
        #: Members of each part: two for a composition, all members for a core.
        self._members: list[Sequence[int]] = []
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
        """Replace the parts between two vertices by one core, unless they are already a single part.

        Args:
            entry: vertex through which all paths enter.
            exit_: vertex through which all paths leave.
            seed: any vertex in between.
        """
        if entry in self._swallowed_by or exit_ in self._swallowed_by:
            return  # an end is inside a part, which has become a single edge
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
        """Return the remaining parts as trees, ordered by first edges."""
        tops = [part for row in self.out.values() for part in row.values()]
        made: dict[int, Part] = {}
        pending = [(part, False) for part in tops]
        while pending:
            part, ready = pending.pop()
            if self._shape[part] is Shape.EDGE:
                made[part] = Part(Shape.EDGE, self.source[part], self.sink[part], edge=self._first[part])
                continue
            members = self._flat(part)
            if not ready:
                pending.append((part, True))
                pending.extend((member, False) for member in members)
                continue
            made[part] = self._part(part, tuple(made.pop(member) for member in members))
        return tuple(made[part] for part in sorted(tops, key=self._first.__getitem__))

    def _flat(self, part: int) -> list[int]:
        """Return the members of a part, nested compositions of its kind flattened; links in order, others by edge."""
        shape, flat = self._shape[part], []
        pending = list(reversed(self._members[part]))
        while pending:
            member = pending.pop()
            if self._shape[member] is shape is not Shape.CORE:
                pending.extend(reversed(self._members[member]))
            else:
                flat.append(member)
        return flat if shape is Shape.SERIES else sorted(flat, key=self._first.__getitem__)

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
        self._members.append(members)
        for member in members:
            self._outer[member] = part
        return part

    def _place(self, part: int) -> None:
        """Insert a part between its ends; if there is a part already, compose both in parallel."""
        j, i = self.source[part], self.sink[part]
        for v in (j, i):
            self.out.setdefault(v, {})
            self.into.setdefault(v, {})
        parallel = self.out[j].get(i)
        if parallel is not None:
            part = self._joined(Shape.PARALLEL, parallel, part)
        self.out[j][i] = self.into[i][j] = part

    def _remove(self, part: int) -> None:
        j, i = self.source[part], self.sink[part]
        del self.out[j][i], self.into[i][j]

    def _drop(self, v: int, part: int) -> None:
        del self.out[v], self.into[v]
        self._swallowed_by[v] = part

    def _reduce(self, pending: list[int]) -> None:
        """Apply series reductions, and the resulting parallel ones, until there are no more."""
        for v in series_vertices(self.into, self.out, pending, lambda v: v not in self.protected and v in self.out):
            (above,) = self.into[v].values()
            (below,) = self.out[v].values()
            self._remove(above)
            self._remove(below)
            part = self._joined(Shape.SERIES, above, below)
            self._drop(v, part)
            self._place(part)

    def _joined(self, shape: Shape, first: int, second: int) -> int:
        """Return the composition of two parts; in a series the first is nearer to the root."""
        lowest = min(self._first[first], self._first[second])
        return self._new(shape, self.source[first], self.sink[second], lowest, (first, second))

    def _outermost(self, part: int) -> int:
        """Return the outermost part that contains a part."""
        outer = self._outer
        while outer[part] != part:
            outer[part] = outer[outer[part]]
            part = outer[part]
        return part


# Decomposition -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathBlock:
    """Block b⟨source,sink⟩ of definition 3.1: all paths from its source to its sink.

    Attributes:
        source, sink: ends of the block.
        vertices: vertices of the block, source and sink included, ascending.
        edges: edges of the block, ascending.
        part: decomposition of the block.
    """

    source: int
    sink: int
    vertices: tuple[int, ...]
    edges: tuple[int, ...]
    part: Part

    @property
    def simple(self) -> bool:
        """Return True if the block is series-parallel: a nested expression represents it."""
        return self.part.simple


@dataclass(frozen=True)
class Decomposition:
    """A graph as trees of chains, blocks and cores; made by `decompose`.

    Attributes:
        graph: the graph.
        parts: the outermost parts, ordered by first edges; a single part if the whole graph is a chain or block from
            its root to its terminal.
        protected: vertices that had to stay outside all parts.
    """

    graph: DifferentiationGraph
    parts: tuple[Part, ...]
    protected: frozenset[int] = field(default_factory=frozenset)

    def walk(self) -> Iterator[Part]:
        """Yield all parts at all depths, outer parts before nested ones."""
        for part in self.parts:
            yield from part.walk()

    @property
    def simple(self) -> bool:
        """Return True if the graph is an edge, a simple chain or a simple block: a nested expression represents it."""
        return len(self.parts) == 1 and self.parts[0].simple

    def blocks(self) -> tuple[Part, ...]:
        """Return every block of definition 3.1, outer blocks first; takes O(edges) for each parallel and core."""
        return tuple(part for part in self.walk() if part.is_block and self.is_complete(part))

    def is_complete(self, part: Part) -> bool:
        """Return True if the part contains all paths from its source to its sink, as definition 3.1 requires."""
        return len(_between(self.graph, part.source, part.sink)[1]) == part.size

    def owns_source(self, part: Part) -> bool:
        """Return True if every outgoing edge of the part's source is in the part: definition 3.3, taken literally."""
        inside = set(part.edges)
        return inside.issuperset(self.graph.out_edges[part.source])


def decompose(graph: DifferentiationGraph, keep: Iterable[int] = ()) -> Decomposition:
    """Decompose a graph into nested chains, blocks and cores.

    All edges of the graph count, also dead ones.

    Args:
        graph: graph to decompose.
        keep: intermediate vertices that must stay outside all parts, as roots and terminals always do.

    Raises:
        GraphError: if `keep` names a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> (chain,) = decompose(graph).parts
    >>> chain, chain.children
    (Part(indirect simple chain ⟨0,4⟩, 5 edges), (Part(direct simple block ⟨0,3⟩, 4 edges), Part(edge ⟨3,4⟩, 1 edges)))
    """
    protected = frozenset(vertex_numbers(graph, keep))
    return Decomposition(graph, _reduced(graph, range(len(graph.sources)), protected), protected)


def block(graph: DifferentiationGraph, source: int, sink: int) -> PathBlock | None:
    """Return the block of definition 3.1 from one vertex to another, or None if there is none.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> block(graph, 0, 3).simple, block(graph, 0, 4)
    (True, None)
    """
    vertex_numbers(graph, (source, sink))
    inside, edges = _between(graph, source, sink)
    if source == sink or not inside:
        return None
    among = set(edges)
    if not all(among.issuperset((*graph.in_edges[v], *graph.out_edges[v])) for v in inside - {source, sink}):
        return None
    (part,) = _reduced(graph, edges, frozenset())
    return PathBlock(source, sink, tuple(sorted(inside)), tuple(edges), part) if part.is_block else None


def block_degrees(graph: DifferentiationGraph) -> tuple[list[int], list[int]]:
    """Return in- and out-degrees that count a simple block as one edge, except at the vertices inside the block.

    The notes use these degrees for factorization (section 4). Simple parts that `Decomposition.blocks` leaves out also
    count as one edge.

    Returns:
        In-degrees and out-degrees by vertex.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> block_degrees(graph)
    ([0, 1, 1, 1, 1], [1, 1, 1, 1, 0])
    """
    decomposition = decompose(graph)
    into = [0] * len(graph.vertices)
    out = [0] * len(graph.vertices)
    widths: dict[Part, tuple[int, int]] = {}
    for part in reversed(list(decomposition.walk())):
        widths[part] = _widths(part, widths)
        if part.shape is Shape.SERIES:
            for above, below in pairwise(part.children):
                into[above.sink] += widths[above][1]
                out[below.source] += widths[below][0]
        elif part.shape is Shape.CORE:
            for member in part.children:
                if member.source != part.source:
                    out[member.source] += widths[member][0]
                if member.sink != part.sink:
                    into[member.sink] += widths[member][1]
    for part in decomposition.parts:
        out[part.source] += widths[part][0]
        into[part.sink] += widths[part][1]
    return into, out


def _between(graph: DifferentiationGraph, source: int, sink: int) -> tuple[set[int], list[int]]:
    """Return the vertices and edges on the paths from one vertex to another."""
    sources: list[int] = graph.sources.tolist()
    targets: list[int] = graph.targets.tolist()
    inside = reached([source], lambda v: [targets[e] for e in graph.out_edges[v]])
    inside &= reached([sink], lambda v: [sources[e] for e in graph.in_edges[v]])
    return inside, sorted(e for v in inside for e in graph.out_edges[v] if targets[e] in inside)


def _reduced(graph: DifferentiationGraph, edges: Iterable[int], protected: frozenset[int]) -> tuple[Part, ...]:
    reduction = Reduction(graph, edges, protected)
    for region in regions(reduction.out, reduction.into, protected):
        reduction.collapse(region.entry, region.exit, region.seed)
    return reduction.parts()


def _widths(part: Part, widths: dict[Part, tuple[int, int]]) -> tuple[int, int]:
    """Return the degrees that a part contributes to its source and to its sink."""
    if part.simple:
        return 1, 1
    if part.shape is Shape.SERIES:
        return widths[part.children[0]][0], widths[part.children[-1]][1]
    if part.shape is Shape.PARALLEL:
        together = int(any(strand.simple for strand in part.children))
        complex_ = [widths[strand] for strand in part.children if not strand.simple]
        return together + sum(w[0] for w in complex_), together + sum(w[1] for w in complex_)
    return (
        sum(widths[member][0] for member in part.children if member.source == part.source),
        sum(widths[member][1] for member in part.children if member.sink == part.sink),
    )
