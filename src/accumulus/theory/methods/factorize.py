"""Factorization: split vertices until only chains and blocks remain, which form one expression for each entry.

**Strands.** The label of an edge of the factorized graph is a *strand*: an edge of the graph, a chain of two strands
through a vertex (a product), or a block of two strands between the same ends (a sum). Strands are references to steps.
A strand with a name is computed once and may be used several times. A strand without a name is computed, and drawn, at
each occurrence, like a repeated subexpression (the notes, section 4). No function recurses, since chains may be long.

**Factorization.** Simple chains and blocks are replaced by single strands, from the inside out, at first and after
every split (the notes, section 4). The remaining vertices between roots and terminals are split:

* backward: vertices whose successors are all terminals, from the bottom up. Each vertex gets one copy for each incoming
  edge, and each copy gets its own copy of everything below, so that paths no longer overlap;
* forward: vertices whose predecessors are all roots, from the top down, with copies of everything above;
* both: one level from the top, then one from the bottom, and so on until the two sides meet;
* middle: vertices equally far from the roots and the terminals first, then outwards; a split vertex gets a copy for
  each pair of an incoming and an outgoing edge.

With references, each copied strand except a single edge gets a name, and the copies refer to it. This is vertex
elimination in the same order, with the same products. Without references, every copy is computed again. There may be
exponentially many copies, so there is a limit. `factorize` splits explicitly, and `factorization_steps` draws the
copies. `factorize_faces` splits implicitly, by face eliminations in the same order.

With references time and memory are linear in the steps. With "both", each vertex where the sides meet may be between
all roots and all terminals, which gives up to |such vertices| · |roots| · |terminals| products.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Literal, get_args

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.edges_and_faces import (
    EdgeElimination,
    edges_of_vertex,
    edges_of_vertices,
    eliminate_faces,
    faces_of_edges,
)
from accumulus.errors import GraphError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.elimination import Workload
from accumulus.search.registry import SearchResult, register_method
from accumulus.theory.graphs.traversal import longest_ways, series_vertices

Direction = Literal["forward", "backward", "both", "middle"]


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
        graph: graph to accumulate.
        direction: position of the first split: ``"backward"``, ``"forward"``, ``"both"`` or ``"middle"``.
        references: if True, copied subexpressions are computed once.
        limit: largest number of labels in all strands without references.
        deadline: deadline of the computation.

    Raises:
        GraphError: if the strands without references have more than `limit` labels.
        OutOfTimeError: if the deadline passes first.
        UnknownNameError: for another direction.

    >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
    >>> [sum(factorize(graph, references=shared).steps.is_product) for shared in (True, False)]
    [3, 4]
    """
    accumulation = _Factorization(graph, None if references else limit, deadline).run(direction).finish()
    return accumulation if references else _written_out(accumulation)


def factorize_faces(graph: DifferentiationGraph, direction: Direction = "backward") -> Accumulation:
    """Accumulate by factorization with implicit splitting: face eliminations in the same order.

    Raises:
        UnknownNameError: for another direction.
    """
    return eliminate_faces(
        graph, faces_of_edges(graph, edges_of_vertices(graph, factorization_order(graph, direction)))
    )


def factorization_order(graph: DifferentiationGraph, direction: Direction = "backward") -> list[int]:
    """Return the intermediates in the order in which factorization replaces them by chains; dead ones come last."""
    gone = _Factorization(graph).run(direction).gone
    seen = set(gone)
    return gone + [v for v in graph.intermediates if v not in seen]


def factorization_steps(
    graph: DifferentiationGraph, direction: Direction = "backward", *, references: bool = True, limit: int = 10_000
) -> Iterator[DifferentiationGraph]:
    """Yield drawings of the graph: before the first split, after every level of splits, and after new names.

    Args:
        graph: graph to factorize.
        direction: position of the first split, as for `factorize`.
        references: if True, copied subexpressions get names.
        limit: largest number of labels in all strands without references.

    Raises:
        GraphError: if the strands without references have more than `limit` labels.
        UnknownNameError: for another direction.
    """
    factorization = _Factorization(graph, None if references else limit)
    begun = False
    yield factorization.drawn()
    for v in factorization.levels(direction):
        if factorization.new_level and begun:
            yield factorization.drawn()
        begun = True
        if references and factorization.name_copied(v):
            yield factorization.drawn()
        factorization.split(v)
    if begun:
        yield factorization.drawn()


class _Factorization(EdgeElimination):
    """State of a factorization: a graph whose edges are strands.

    Args:
        graph: graph to factorize.
        limit: largest number of labels in all strands, if each counts at every occurrence; None for no limit.
        deadline: deadline of the computation.
    """

    def __init__(self, graph: DifferentiationGraph, limit: int | None = None, deadline: Deadline = FOREVER) -> None:
        super().__init__(graph)
        self._limit, self._deadline = limit, deadline
        #: Vertices in the order of their replacement by chains.
        self.gone: list[int] = []
        #: True if the last vertex that `levels` yielded is the first of its level.
        self.new_level = False
        #: For each step the vertex that was replaced; −1 for the sums of parallel edges of the graph.
        self._through: list[int] = []
        #: Number of each strand that has a name, from 1.
        self._names: dict[int, int] = {}
        #: Number of labels in each strand, if it is limited, and in all strands of the graph.
        self._sizes = [1] * self.steps.edges
        self._written = 0
        self._note_steps(-1)
        self._write(int(graph.live_edges.sum()))
        #: Neighbours of the vertices removed since the start of the level.
        self._touched: dict[int, None] = {}
        self._reduce([v for v in reversed(graph.topological_order) if self.intermediate[v]])

    def run(self, direction: Direction) -> _Factorization:
        """Split until every entry is a single strand; return the factorization itself."""
        for v in self.levels(direction):
            self.split(v)
        return self

    def levels(self, direction: Direction) -> Iterator[int]:
        """Yield the vertices to split; the caller has to split each before the next iteration."""
        if direction not in get_args(Direction):
            raise unknown_name("direction", direction, get_args(Direction))
        if direction == "middle":
            yield from self._from_the_middle()
            return
        sides = [direction] if direction != "both" else ["forward", "backward"]
        turn = 0
        due = {side: self._due(side, range(len(self.intermediate))) for side in sides}
        while any(due.values()):
            side = sides[turn % len(sides)]
            turn += 1
            level, due[side] = due[side], []
            self._touched = {}
            self.new_level = True
            for v in level:
                if self._present(v):
                    yield v
                    self.new_level = False
            for other in sides:
                vertices = dict.fromkeys([*due[other], *self._due(other, self._touched)])
                due[other] = [v for v in vertices if self._present(v)]

    def name_copied(self, v: int) -> bool:
        """Name the strands at v that its split copies; return True if there are new names."""
        before = len(self._names)
        above, below = self._strands_at(v)
        for strands, copies in ((above, len(below)), (below, len(above))):
            for strand in strands if copies > 1 else ():
                if strand >= self.steps.edges:
                    self._names.setdefault(strand, len(self._names) + 1)
        return len(self._names) > before

    def split(self, v: int) -> None:
        """Split v into a copy for each pair of an incoming and an outgoing strand, and replace each copy by a chain."""
        near = (*self.predecessors[v], *self.successors[v])
        self._join(v)
        self._reduce([*near])

    def drawn(self) -> DifferentiationGraph:
        """Return the graph with all strands expanded, except named ones, which are edges; copied vertices have primes.

        Labels are the graph's symbols, or e1, e2, … by edge for variables without a symbol. Named strands are s1, s2, …
        """
        graph, steps = self.graph, self.steps
        times: dict[int, int] = {}
        taken = set(map(str, graph.vertices))

        def copy(v: int) -> Hashable:
            times[v] = times.get(v, -1) + 1
            if times[v] == 0:
                return graph.vertices[v]
            name = f"{graph.vertices[v]}{'′' * times[v]}"
            while name in taken:
                name += "′"
            taken.add(name)
            return name

        strands = [(j, i, strand) for j, row in enumerate(self.successors) for i, strand in row.items()]
        ends = {*graph.roots, *graph.terminals, *(v for j, i, _ in strands for v in (j, i))}
        names = {v: copy(v) for v in sorted(ends)}
        edges: list[tuple[Hashable, Hashable, Any]] = []
        for j, i, strand in strands:
            pending = [(names[j], names[i], strand)]
            while pending:
                source, sink, top = pending.pop()
                step = top - steps.edges
                if step < 0:
                    edges.append((source, sink, _label(graph, top)))
                elif top in self._names:
                    edges.append((source, sink, f"s{self._names[top]}"))
                elif steps.is_product[step]:
                    middle = copy(self._through[step])
                    pending += [(middle, sink, steps.right[step]), (source, middle, steps.left[step])]
                else:
                    pending += [(source, sink, steps.right[step]), (source, sink, steps.left[step])]
        roots, terminals = ([graph.vertices[v] for v in side] for side in (graph.roots, graph.terminals))
        return DifferentiationGraph(edges, roots, terminals, name=graph.name)

    def _from_the_middle(self) -> Iterator[int]:
        order = self.graph.topological_order
        height = longest_ways(order, self.predecessors.__getitem__)
        depth = longest_ways(reversed(order), self.successors.__getitem__)
        rank = {v: (abs(depth[v] - height[v]), depth[v]) for v in order if self._present(v)}
        last = None
        for v in sorted(rank, key=rank.__getitem__):
            if self._present(v):
                self.new_level, last = last != rank[v], rank[v]
                yield v

    def _due(self, side: str, vertices: Iterable[int]) -> list[int]:
        near = self.successors if side == "backward" else self.predecessors
        return [v for v in sorted(vertices) if self._present(v) and not any(self.intermediate[end] for end in near[v])]

    def _present(self, v: int) -> bool:
        return bool(self.intermediate[v]) and bool(self.successors[v])

    def _strands_at(self, v: int) -> tuple[list[int], list[int]]:
        """Return the incoming and the outgoing strands of a vertex."""
        return [self.successors[u][v] for u in self.predecessors[v]], list(self.successors[v].values())

    def _reduce(self, pending: list[int]) -> None:
        """Replace simple chains and blocks by strands, until there are no more."""
        for v in series_vertices(self.predecessors, self.successors, pending, lambda v: bool(self.intermediate[v])):
            self._join(v)

    def _join(self, v: int) -> None:
        """Replace each pair of strands at v by a chain through v."""
        if self._limit is not None:
            above, below = self._strands_at(v)
            more = (len(below) - 1, above), (len(above) - 1, below)
            self._write(sum(copies * self._sizes[strand] for copies, strands in more for strand in strands))
        self._touched.update(dict.fromkeys((*self.predecessors[v], *self.successors[v])))
        self.gone.append(v)
        for step in edges_of_vertex(self, v):
            self._deadline.check()
            self.eliminate(*step)
        self._note_steps(v)

    def _note_steps(self, v: int) -> None:
        """Record for each new step the replaced vertex and the number of labels."""
        steps, noted = self.steps, len(self._through)
        self._through += [v] * (len(steps) - noted)
        if self._limit is not None:
            for left, right in zip(steps.left[noted:], steps.right[noted:], strict=True):
                self._sizes.append(self._sizes[left] + self._sizes[right])

    def _write(self, more: int) -> None:
        """Count more labels, and raise `GraphError` beyond the limit."""
        self._written += more
        if self._limit is not None and self._written > self._limit:
            raise GraphError(
                f"factorization without references writes out more than {self._limit} labels; expected a smaller "
                "graph. Use references=True, which computes each copied value once, or raise the limit"
            )


def _written_out(accumulation: Accumulation) -> Accumulation:
    """Return the accumulation in which every use of a step computes it again."""
    first, steps = accumulation.steps, Steps(accumulation.steps.edges)
    entries = {}
    for entry, strand in accumulation.entries.items():
        pending: list[tuple[int, bool]] = [(strand, False)]
        values: list[int] = []
        while pending:
            top, ready = pending.pop()
            step = top - first.edges
            if step < 0:
                values.append(top)
            elif not ready:
                pending += [(top, True), (first.right[step], False), (first.left[step], False)]
            else:
                right, left = values.pop(), values.pop()
                values.append(steps.product(left, right) if first.is_product[step] else steps.sum(left, right))
        entries[entry] = values[-1]
    return Accumulation(accumulation.graph, steps, entries)


def _label(graph: DifferentiationGraph, edge: int) -> Any:
    kind = Kind(int(graph.kinds[edge]))
    return graph.symbols[edge] or graph.constants.get(edge, f"e{edge + 1}" if kind is Kind.VARIABLE else kind)


def _register(name: str, direction: Direction) -> None:
    def seconds(work: Workload) -> float:
        products = {"forward": work.reverse, "backward": work.forward}.get(direction, work.forward + work.reverse)
        return 3e-6 * products + 4e-6 * work.edges

    @register_method(name, seconds)
    def find(graph: DifferentiationGraph, context: Context) -> SearchResult:
        return SearchResult(graph, name, _accumulation=factorize(graph, direction, deadline=context))


_register("forward-factorization", "forward")
_register("backward-factorization", "backward")
_register("both-sides-factorization", "both")
_register("middle-factorization", "middle")
