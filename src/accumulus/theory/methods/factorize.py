"""Factorization: split vertices until only chains and blocks are left, which are one expression for each entry.

**Strands.** Strands: what runs between two vertices of a simple graph, as a tree of labels, chains, blocks and
references.

A strand is an edge, a chain of two strands through a vertex, a block of two strands between the same ends, or a
reference: a strand that has a name and is computed once, however often it is used. Everything else is computed
where it stands; so a strand that stands in several places without a reference costs several times, and is drawn
several times, like a subexpression that is written out again (the notes, section 4). All walks are iterative:
chains may be long.

**Factorization.** Simple chains and blocks are replaced by single strands first and after every split, from the inside
out (the notes, section 4). What then remains between roots and terminals is split:

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

With references every strand is computed once, wherever it goes, so its steps are written when it is put together and
the strand is no more than their result: time and memory are linear in the steps. From both sides, where the two meet
each vertex may stand between all roots and all terminals: up to |vertices met| · |roots| · |terminals| products.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar, get_args

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.edge import edges_of_vertices
from accumulus.elimination.face import eliminate_faces, faces_of_edges
from accumulus.errors import GraphError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.elimination import Workload
from accumulus.search.registry import SearchResult, register
from accumulus.theory.graphs.traversal import series_vertices

__all__ = ["Direction", "factorization_order", "factorization_steps", "factorize", "factorize_faces"]


class StrandShape(Enum):
    """How a strand is put together."""

    EDGE = "edge"
    CHAIN = "chain"
    BLOCK = "block"
    REFERENCE = "reference"


@dataclass(slots=True, eq=False, repr=False)
class Strand:
    """A strand, not to be changed; equal only to itself. (Not frozen: that makes construction several times slower.)"""

    shape: StrandShape
    #: Parts of a chain from source to sink, of a block in the order of their making; what a reference stands for.
    parts: tuple[Strand, ...] = ()
    #: Edge of the graph, of an edge; vertex between the parts, of a chain; number from 1, of a reference.
    number: int = 0
    #: Labels that are written out.
    size: int = 1


def _edge(edge: int) -> Strand:
    """A strand that is an edge of the graph."""
    return Strand(StrandShape.EDGE, (), edge)


def _chain(first: Strand, second: Strand, through: int) -> Strand:
    """Two strands one after the other, through a vertex."""
    return Strand(StrandShape.CHAIN, (first, second), through, first.size + second.size)


def _block(first: Strand, second: Strand) -> Strand:
    """Two strands side by side."""
    return Strand(StrandShape.BLOCK, (first, second), 0, first.size + second.size)


def _reference(strand: Strand, number: int) -> Strand:
    """A name for a strand, so that it is computed once."""
    return Strand(StrandShape.REFERENCE, (strand,), number)


def _evaluate(strands: Iterable[Strand], steps: Steps) -> list[int]:
    """Write the steps that compute the strands, innermost first; the references of their values."""
    known: dict[int, int] = {}
    results = []
    for strand in strands:
        pending: list[tuple[Strand, bool]] = [(strand, False)]
        values: list[int] = []
        while pending:
            top, ready = pending.pop()
            if top.shape is StrandShape.EDGE:
                values.append(top.number)
            elif top.shape is StrandShape.REFERENCE and top.number in known:
                values.append(known[top.number])
            elif not ready:
                pending.append((top, True))
                pending.extend((part, False) for part in reversed(top.parts))
            elif top.shape is StrandShape.REFERENCE:
                known[top.number] = values[-1]
            else:
                right, left = values.pop(), values.pop()
                join = steps.product if top.shape is StrandShape.CHAIN else steps.sum
                values.append(join(left, right))
        results.append(values[-1])
    return results


def _draw(graph: DifferentiationGraph, strands: Iterable[tuple[int, int, Strand]]) -> DifferentiationGraph:
    """The graph of which strands (source, sink, strand) are made: copies of a vertex have primes, references are edges.

    Labels are the graph's symbols, or e1, e2, … by edge where a variable has none; references are s1, s2, ….
    """
    times: dict[int, int] = {}
    taken = set(map(str, graph.vertices))
    names: dict[int, Hashable] = {}

    def copy(v: int) -> Hashable:
        times[v] = times.get(v, -1) + 1
        if times[v] == 0:
            return graph.vertices[v]
        name = f"{graph.vertices[v]}{'′' * times[v]}"
        while name in taken:
            name += "′"
        taken.add(name)
        return name

    strands = list(strands)
    ends = {*graph.roots, *graph.terminals, *(v for j, i, _ in strands for v in (j, i))}
    for v in sorted(ends):
        names[v] = copy(v)
    edges: list[tuple[Hashable, Hashable, Any]] = []
    for j, i, strand in strands:
        pending = [(names[j], names[i], strand)]
        while pending:
            source, sink, top = pending.pop()
            if top.shape is StrandShape.EDGE:
                edges.append((source, sink, _label(graph, top.number)))
            elif top.shape is StrandShape.REFERENCE:
                edges.append((source, sink, f"s{top.number}"))
            elif top.shape is StrandShape.BLOCK:
                pending.extend((source, sink, part) for part in reversed(top.parts))
            else:
                middle = copy(top.number)
                pending += [(middle, sink, top.parts[1]), (source, middle, top.parts[0])]
    roots, terminals = ([graph.vertices[v] for v in side] for side in (graph.roots, graph.terminals))
    return DifferentiationGraph(edges, roots, terminals, name=graph.name)


def _label(graph: DifferentiationGraph, edge: int) -> Any:
    kind = Kind(int(graph.kinds[edge]))
    return graph.symbols[edge] or graph.constants.get(edge, f"e{edge + 1}" if kind is Kind.VARIABLE else kind)


# Factorization -------------------------------------------------------------------------------------------------------


Direction = Literal["forward", "backward", "both", "middle"]
T = TypeVar("T")


def factorize(
    graph: DifferentiationGraph,
    direction: Direction = "backward",
    *,
    references: bool = True,
    limit: int = 1_000_000,
    deadline: Deadline = FOREVER,
) -> Accumulation:
    """Accumulate by factorization with explicit splitting.

    Args:
        direction: where to split first: ``"backward"``, ``"forward"``, ``"both"`` or ``"middle"``.
        references: whether what is copied is computed once.
        limit: of the labels that are written out without references.

    Raises:
        GraphError: if more labels than `limit` would be written out.
        OutOfTimeError: if the deadline passes before.
        UnknownNameError: for another direction.

    >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
    >>> [sum(factorize(graph, references=shared).steps.is_product) for shared in (True, False)]
    [3, 4]
    """
    steps = Steps(len(graph.sources))
    if references:
        return Accumulation(graph, steps, _entries(graph, _Factorization(graph, _Results(steps), deadline), direction))
    strands = _entries(graph, _Factorization(graph, _Strands(shared=False, limit=limit), deadline), direction)
    return Accumulation(graph, steps, dict(zip(strands, _evaluate(strands.values(), steps), strict=True)))


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
    factorization = _Factorization(graph, _Results(Steps(len(graph.sources))))
    _entries(graph, factorization, direction)
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
    parts = _Strands(shared=references, limit=limit)
    factorization = _Factorization(graph, parts)
    level: list[int] = []

    def drawn() -> DifferentiationGraph:
        return _draw(graph, factorization.strands())

    yield drawn()
    named = 0
    for v in factorization.levels(direction):
        if factorization.new_level and level:
            yield drawn()
            level = []
        level.append(v)
        factorization.name_copied(v)
        if parts.references_made > named:
            named = parts.references_made
            yield drawn()
        factorization.split(v)
    if level:
        yield drawn()


class _Parts(Generic[T]):
    """Makers of strands; the hooks do nothing for strands that are computed at once, and so only once."""

    edge: Callable[[int], T]
    chain: Callable[[T, T, int], T]
    block: Callable[[T, T], T]

    def copied(self, strand: T) -> T:
        """Return what is copied in place of a strand: with references, its name."""
        return strand

    def placed(self, strand: T) -> None:
        """Take note that a strand is now part of the graph."""

    def removed(self, strand: T) -> None:
        """Take note that a strand is no longer part of the graph, or part of another strand."""


class _Results(_Parts[int]):
    """Strands that are references of their results."""

    def __init__(self, steps: Steps) -> None:
        self.edge = lambda edge: edge
        self.chain = lambda first, second, through: steps.product(first, second)
        self.block = steps.sum


class _Strands(_Parts[Strand]):
    """Strands as trees, to be drawn, or written out without references up to a limit."""

    def __init__(self, *, shared: bool, limit: int) -> None:
        self._shared = shared
        self._limit = limit
        self._written = 0
        self.references_made = 0
        self.edge, self.chain, self.block = _edge, _chain, _block

    def copied(self, strand: Strand) -> Strand:
        if not self._shared or strand.shape in (StrandShape.EDGE, StrandShape.REFERENCE):
            return strand
        self.references_made += 1
        return _reference(strand, self.references_made)

    def placed(self, strand: Strand) -> None:
        self._written += strand.size
        if self._written > self._limit and not self._shared:
            raise GraphError(
                f"factorization without references writes out more than {self._limit} labels; expected a smaller "
                "graph. Use references=True, which computes what is copied once, or raise the limit"
            )

    def removed(self, strand: Strand) -> None:
        self._written -= strand.size


class _Factorization(Generic[T]):
    """A graph whose edges are strands."""

    def __init__(self, graph: DifferentiationGraph, parts: _Parts[T], deadline: Deadline = FOREVER) -> None:
        self.graph, self._deadline = graph, deadline
        self.parts = parts
        self.out: list[dict[int, T]] = [{} for _ in graph.vertices]
        self.into: list[dict[int, T]] = [{} for _ in graph.vertices]
        self.inner = bytearray(len(graph.vertices))
        for v in graph.intermediates:
            self.inner[v] = 1
        #: Vertices in the order in which they disappeared.
        self.gone: list[int] = []
        #: Whether the vertex that `levels` gave last begins a new level.
        self.new_level = False
        #: Neighbours of what disappeared since the last level began.
        self._touched: dict[int, None] = {}
        for e in graph.live_edges.nonzero()[0].tolist():
            self._place(int(graph.sources[e]), int(graph.targets[e]), parts.edge(e))
        self._reduce([v for v in reversed(graph.topological_order) if self.inner[v]])

    def strands(self) -> list[tuple[int, int, T]]:
        """All strands with their ends."""
        return [(j, i, strand) for j, row in enumerate(self.out) for i, strand in row.items()]

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
        """Put names in place of the strands at v that its split copies."""
        ends = ((self.into, self.out, len(self.out[v])), (self.out, self.into, len(self.into[v])))
        for near, far, copies in ends:
            if copies > 1:
                for u, strand in near[v].items():
                    near[v][u] = far[u][v] = self.parts.copied(strand)

    def split(self, v: int) -> None:
        """Split v into one copy for each pair of an incoming and an outgoing strand, which become one strand each."""
        self.name_copied(v)
        into, out = self.into[v], self.out[v]
        self._remove(v)
        for u, above in into.items():
            self._deadline.check()
            for w, below in out.items():
                self._place(u, w, self.parts.chain(above, below, v))
        self._reduce([*into, *out])

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
            self.parts.removed(strand)
        for w, strand in self.out[v].items():
            del self.into[w][v]
            self.parts.removed(strand)
        self._touched.update(dict.fromkeys((*self.into[v], *self.out[v])))
        self.into[v], self.out[v] = {}, {}
        self.gone.append(v)

    def _place(self, j: int, i: int, strand: T) -> None:
        known = self.out[j].get(i)
        self.parts.placed(strand)
        if known is not None:
            strand = self.parts.block(known, strand)
        self.out[j][i] = self.into[i][j] = strand

    def _reduce(self, pending: list[int]) -> None:
        """Replace chains and blocks by strands, until none is left."""
        for v in series_vertices(self.into, self.out, pending, lambda v: bool(self.inner[v])):
            ((u, above),) = self.into[v].items()
            ((w, below),) = self.out[v].items()
            self._remove(v)
            self._place(u, w, self.parts.chain(above, below, v))


def _entries(
    graph: DifferentiationGraph, factorization: _Factorization[T], direction: Direction
) -> dict[tuple[int, int], T]:
    """Split until one strand an entry is left."""
    for v in factorization.levels(direction):
        factorization.split(v)
    row = {root: position for position, root in enumerate(graph.roots)}
    column = {terminal: position for position, terminal in enumerate(graph.terminals)}
    found = {(row[j], column[i]): strand for j, i, strand in factorization.strands()}
    return {place: found[place] for place in sorted(found)}


def _register(name: str, direction: Direction) -> None:
    def seconds(work: Workload) -> float:
        products = {"forward": work.reverse, "backward": work.forward}.get(direction, work.forward + work.reverse)
        return 3e-6 * products + 4e-6 * work.edges

    @register(name, seconds)
    def find(graph: DifferentiationGraph, context: Context) -> SearchResult:
        return SearchResult(graph, name, _accumulation=factorize(graph, direction, deadline=context))


_register("forward-factorization", "forward")
_register("backward-factorization", "backward")
_register("both-sides-factorization", "both")
_register("middle-factorization", "middle")
