"""Factorization: split vertices until only chains and blocks are left, which are one expression for each entry.

Simple chains and blocks are replaced by single strands first and after every split, from the inside out (the notes,
section 4). What then remains between roots and terminals is split:

* backward: vertices from which only terminals are left, from the bottom up. Each gets one copy per incoming edge,
  and each copy its own copy of all that is below, so that nothing overlaps any more;
* forward: vertices that only roots lead to, from the top down, with what is above;
* both: a level from the top and a level from the bottom by turns, so that the two sides meet;
* middle: vertices as far from the roots as from the terminals first, then outwards; a split vertex has a copy for
  each pair of an incoming and an outgoing edge.

With references what is copied, unless it is a single edge, is first given a name, and the copies refer to it. Then
the products are those of the vertex elimination in the same order. Without, every copy is computed again, as in an
expression without variables; that may be exponentially many, so it stops at a limit.

`factorize` splits explicitly: the copies are there, and `factorization_steps` draws them. `factorize_faces` splits
implicitly: in the line graph the face eliminations at each vertex, in the same order, make the same products
without copying vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from accumulus.accumulate.accumulation import Accumulation, Steps
from accumulus.accumulate.edge import edges_of_vertices
from accumulus.accumulate.face import eliminate_faces, faces_of_edges
from accumulus.accumulate.strands import Shape, Strand, block, chain, draw, edge_strand, evaluate, reference
from accumulus.errors import GraphError, unknown_name
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["Direction", "factorization_order", "factorization_steps", "factorize", "factorize_faces"]

Direction = Literal["forward", "backward", "both", "middle"]


def factorize(
    graph: DifferentiationGraph,
    direction: Direction = "backward",
    *,
    references: bool = True,
    limit: int = 1_000_000,
) -> Accumulation:
    """Accumulate by factorization with explicit splitting.

    Args:
        direction: where to split first: ``"backward"``, ``"forward"``, ``"both"`` or ``"middle"``.
        references: whether what is copied is computed once.
        limit: of the labels that are written out without references.

    Raises:
        GraphError: if more labels than `limit` would be written out.
        UnknownNameError: for another direction.

    >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
    >>> [sum(factorize(graph, references=shared).steps.is_product) for shared in (True, False)]
    [3, 4]
    """
    factorization = _Factorization(graph, references, limit)
    for v in factorization.levels(direction):
        factorization.split(v)
    return factorization.finish()


def factorize_faces(graph: DifferentiationGraph, direction: Direction = "backward") -> Accumulation:
    """Accumulate by factorization with implicit splitting: the same order, face by face in the line graph.

    Raises:
        UnknownNameError: for another direction.
    """
    return eliminate_faces(
        graph, faces_of_edges(graph, edges_of_vertices(graph, factorization_order(graph, direction)))
    )


def factorization_order(graph: DifferentiationGraph, direction: Direction = "backward") -> list[int]:
    """The intermediates in the order in which factorization makes them disappear into chains; dead ones last."""
    factorization = _Factorization(graph, True, 0)
    for v in factorization.levels(direction):
        factorization.split(v)
    seen = set(factorization.gone)
    return factorization.gone + [v for v in graph.intermediates if v not in seen]


def factorization_steps(
    graph: DifferentiationGraph, direction: Direction = "backward", *, references: bool = True, limit: int = 10_000
) -> Iterator[DifferentiationGraph]:
    """Draw the graph as it is, after every level of splits, and where a level needs references, after naming them.

    Raises:
        GraphError: if more labels than `limit` would be written out.
        UnknownNameError: for another direction.
    """
    factorization = _Factorization(graph, references, limit)
    level: list[int] = []

    def drawn() -> DifferentiationGraph:
        return draw(graph, factorization.strands())

    yield drawn()
    named = 0
    for v in factorization.levels(direction):
        if factorization.new_level and level:
            yield drawn()
            level = []
        level.append(v)
        factorization.name_copied(v)
        if factorization.references_made > named:
            named = factorization.references_made
            yield drawn()
        factorization.split(v)
    if level:
        yield drawn()


class _Factorization:
    """A graph whose edges are strands."""

    def __init__(self, graph: DifferentiationGraph, references: bool, limit: int) -> None:
        self.graph = graph
        self.shared = references
        self.limit = limit
        self.out: list[dict[int, Strand]] = [{} for _ in graph.vertices]
        self.into: list[dict[int, Strand]] = [{} for _ in graph.vertices]
        self.inner = bytearray(len(graph.vertices))
        for v in graph.intermediates:
            self.inner[v] = 1
        self.references_made = 0
        self.written = 0
        #: Vertices in the order in which they disappeared.
        self.gone: list[int] = []
        #: Whether the vertex that `levels` gave last begins a new level.
        self.new_level = False
        self._pending: list[int] = []
        #: Neighbours of what disappeared since the last level began.
        self._touched: dict[int, None] = {}
        for e in graph.live_edges.nonzero()[0].tolist():
            self._place(int(graph.sources[e]), int(graph.targets[e]), edge_strand(e))
        self._pending = [v for v in reversed(graph.topological_order) if self.inner[v]]
        self._reduce()

    def strands(self) -> list[tuple[int, int, Strand]]:
        """All strands with their ends."""
        return [(j, i, strand) for j, row in enumerate(self.out) for i, strand in row.items()]

    def finish(self) -> Accumulation:
        """Compute what is left: one strand an entry."""
        graph = self.graph
        row = {root: position for position, root in enumerate(graph.roots)}
        column = {terminal: position for position, terminal in enumerate(graph.terminals)}
        found = {(row[j], column[i]): strand for j, i, strand in self.strands()}
        places = sorted(found)
        steps = Steps(len(graph.sources))
        values = evaluate([found[place] for place in places], steps)
        return Accumulation(graph, steps, dict(zip(places, values, strict=True)))

    def levels(self, direction: Direction) -> Iterator[int]:
        """Vertices to split, as they become due; each is to be split before the next is asked for."""
        if direction not in get_args(Direction):
            raise unknown_name("direction", direction, get_args(Direction))
        if direction == "middle":
            yield from self._from_the_middle()
            return
        sides = [direction] if direction != "both" else ["forward", "backward"]
        turn = 0
        due = {side: self._due(side, [v for v in range(len(self.inner)) if self.inner[v]]) for side in sides}
        while any(due.values()):
            side = sides[turn % len(sides)]
            turn += 1
            level = due[side]
            due[side] = []
            self._touched = {}
            self.new_level = True
            for v in level:
                if not self._present(v):
                    continue
                yield v
                self.new_level = False
            for other in sides:
                found = dict.fromkeys([*due[other], *self._due(other, list(self._touched))])
                due[other] = [v for v in found if self._present(v)]

    def name_copied(self, v: int) -> None:
        """Give names to the strands at v that its split copies, if they are more than an edge."""
        if not self.shared:
            return
        ends = ((self.into, self.out, len(self.out[v])), (self.out, self.into, len(self.into[v])))
        for near, far, copies in ends:
            if copies > 1:
                for u, strand in near[v].items():
                    if strand.shape not in (Shape.EDGE, Shape.REFERENCE):
                        self.references_made += 1
                        near[v][u] = far[u][v] = reference(strand, self.references_made)

    def split(self, v: int) -> None:
        """Split v into one copy for each pair of an incoming and an outgoing strand, which become one strand each."""
        self.name_copied(v)
        into, out = self.into[v], self.out[v]
        self._remove(v)
        for u, above in into.items():
            for w, below in out.items():
                self._place(u, w, chain(above, below, v))
        self._reduce()

    def _from_the_middle(self) -> Iterator[int]:
        graph = self.graph
        depth, height = [0] * len(graph.vertices), [0] * len(graph.vertices)
        order = graph.topological_order
        for v in order:
            for u in self.into[v]:
                height[u] = max(height[u], height[v] + 1)
        for v in reversed(order):
            for w in self.out[v]:
                depth[w] = max(depth[w], depth[v] + 1)
        due = [v for v in order if self._present(v)]
        due.sort(key=lambda v: (abs(depth[v] - height[v]), depth[v]))
        last = None
        for v in due:
            if self._present(v):
                self.new_level = last != (abs(depth[v] - height[v]), depth[v])
                last = (abs(depth[v] - height[v]), depth[v])
                yield v

    def _due(self, side: str, vertices: list[int]) -> list[int]:
        near = self.out if side == "backward" else self.into
        return [v for v in sorted(vertices) if self._present(v) and not any(self.inner[end] for end in near[v])]

    def _present(self, v: int) -> bool:
        return bool(self.inner[v]) and bool(self.out[v])

    def _remove(self, v: int) -> None:
        for u, strand in self.into[v].items():
            del self.out[u][v]
            self.written -= strand.size
        for w, strand in self.out[v].items():
            del self.into[w][v]
            self.written -= strand.size
        near = [*self.into[v], *self.out[v]]
        self._pending += near
        self._touched.update(dict.fromkeys(near))
        self.into[v], self.out[v] = {}, {}
        self.gone.append(v)

    def _place(self, j: int, i: int, strand: Strand) -> None:
        known = self.out[j].get(i)
        self.written += strand.size
        if known is not None:
            strand = block(known, strand)
        self.out[j][i] = self.into[i][j] = strand
        if self.written > self.limit and not self.shared:
            raise GraphError(
                f"factorization without references writes out more than {self.limit} labels; expected a smaller graph. "
                "Use references=True, which computes what is copied once, or raise the limit"
            )

    def _reduce(self) -> None:
        """Replace chains and blocks by strands, until none is left."""
        while self._pending:
            v = self._pending.pop()
            if self.inner[v] and len(self.into[v]) == len(self.out[v]) == 1:
                ((u, above),) = self.into[v].items()
                ((w, below),) = self.out[v].items()
                self._remove(v)
                self._place(u, w, chain(above, below, v))
