"""A plan, step by step: products and sums of each step, their costs, and the remaining graph and line graph.

Everything follows from the plan's own steps. A value is an edge of the graph or the result of a step. It is alive from
the step that makes it to the last step that uses it; entries of the Jacobian are alive to the end. The alive values are
the edges of the graph and the vertices of the line graph.

**Line graph.** A product of l and r removes the face ⟨l,r⟩ and makes a vertex with the predecessors of l and the
successors of r. A sum makes a vertex with the common neighbours of its terms, and removes these from the terms. A value
that no later step uses disappears. For vertex, edge and face elimination, these are the line graphs that
`accumulus.elimination.edges_and_faces.FaceElimination` passes through. Plans that share or factor more have no such
line graphs: there, a value keeps its faces until it disappears, and the sum over all paths of the drawing may count
some of them twice in between. Unit edges that a plan leaves out are left out of the line graph. The line graph of a
symmetric graph, where one value stands for two mirrored edges, is not followed.

**Groups.** Consecutive steps belong to one *face* (a product with the sums that take its result), *edge* (products with
a common factor), *vertex* (products that meet in one vertex), *block* (within one part of the graph's decomposition),
or *page* (up to the next entries of the Jacobian).

Time: linear in steps and faces, except `operations`, which emits the program once for each requested number of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate, groupby
from typing import Any, Final

from accumulus.elimination.accumulation import Accumulation, Labels, Steps
from accumulus.elimination.edges_and_faces import line_graph_faces
from accumulus.elimination.emit import count, emit
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.rewriting.canonical import canonical
from accumulus.search.plan import Plan

Face = tuple[int, int]

#: Maximum number of faces of a line graph, including later ones; a larger line graph is not followed, since it would
#: take long and make large pages.
MOST_FACES: Final = 12_000
#: Kinds of groups of steps, the smallest first.
GROUPS: Final = ("face", "edge", "vertex", "block", "page")


@dataclass(slots=True)
class Change:
    """Faces and values that a step removes or adds, and vertices that it eliminates."""

    removed_faces: list[Face] = field(default_factory=list)
    added_faces: list[Face] = field(default_factory=list)
    removed_values: list[int] = field(default_factory=list)
    removed_vertices: list[int] = field(default_factory=list)


class Frames:
    """A plan, step by step.

    Args:
        plan: any plan.
        line_graph: if True, follow the line graph, too.

    Attributes:
        values: number of values: edges, followed by results of steps. The next numbers are roots, followed by
            terminals.
        ends: source and target of each value.
        kinds: kind of each value.
        products, left, right: for each step, True if it is a product; and its operands.
        middles: the vertex at which each product's factors meet; −1 for sums.
        fma, multiplications: cumulative cost after each step.
        alive: values at the beginning.
        faces: faces of the line graph at the beginning; None if it is not followed.
        changes: changes of each step.
        born, gone: for each value, the number of steps after which it exists, and after which it no longer exists; the
            latter is `steps + 1` for a value that stays.

    >>> from accumulus import DifferentiationGraph, plan
    >>> frames = Frames(plan(DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")]), "forward"))
    >>> [frames.values, frames.fma, frames.changes[0].added_faces, frames.changes[1].removed_vertices]
    [5, [1, 2], [(0, 3), (3, 6)], [1]]
    """

    def __init__(self, plan: Plan, *, line_graph: bool = True) -> None:
        graph, steps = plan.graph, plan.accumulation.steps
        self.plan, self.graph = plan, graph
        self.edges, self.steps = len(graph.sources), len(steps)
        self.values = self.edges + self.steps
        self.products, self.left, self.right = (column.tolist() for column in steps.columns())
        labels = Labels(graph, steps, every_product=True)
        sources, targets = labels.ends(slice(None))
        self.ends: list[tuple[int, int]] = list(zip(sources.tolist(), targets.tolist(), strict=True))
        self.middles = [
            self.ends[left][1] if product else -1 for product, left in zip(self.products, self.left, strict=True)
        ]
        if graph.mirror is not None:
            self._mirror(graph.mirror.tolist())
        self.kinds: list[int] = labels.kinds.tolist()
        self.entries: set[int] = set(plan.accumulation.entries.values())
        self.fma, self.multiplications = self._costs()
        self.born = [0] * self.edges + list(range(1, self.steps + 1))
        self.gone = [self.steps + 1] * self.values
        self._follow(line_graph)

    def _mirror(self, mirror: list[int]) -> None:
        """Find the ends of products whose factors meet only if one is replaced by its mirror image."""
        for k, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            made = self.edges + k
            if not self.products[k]:
                self.ends[made] = self.ends[left]
                continue
            images = [(ends, (mirror[ends[1]], mirror[ends[0]])) for ends in (self.ends[left], self.ends[right])]
            pairs = [pair for one in images[0] for other in images[1] for pair in ((one, other), (other, one))]
            met = next(((a, b) for a, b in pairs if a[1] == b[0]), None)
            if met is not None:
                self.ends[made], self.middles[k] = (met[0][0], met[1][1]), met[0][1]

    def _costs(self) -> tuple[list[int], list[int]]:
        sizes, every, counted = self.graph.sizes.tolist(), [], []
        for product, left, right in zip(self.products, self.left, self.right, strict=True):
            (row, middle), (_, column) = self.ends[left], self.ends[right]
            every.append(sizes[row] * sizes[middle] * sizes[column] if product else 0)
            a, b = self.kinds[left], self.kinds[right]
            units = {a, b} & {Kind.ONE, Kind.MINUS_ONE}
            counted.append(0 if units or a == b == Kind.CONSTANT else every[-1])
        return list(accumulate(every)), list(accumulate(counted))

    def _follow(self, line_graph: bool) -> None:
        """Find the values that are alive, and the changes of the line graph."""
        uses = Counter(self.entries)
        uses.update(self.left)
        uses.update(self.right)
        live = self.graph.live_edges.nonzero()[0].tolist()
        into, out = Counter(self.graph.targets[live].tolist()), Counter(self.graph.sources[live].tolist())
        line = _Line(self.values, self.edges)
        followed = (
            line_graph
            and self.graph.mirror is None
            and sum(into[v] * out[v] for v in into) + sum(self.products) <= MOST_FACES
        )
        for i, j in line_graph_faces(self.graph) if followed else ():
            line.add(line.number(i), line.number(j))
        ends = {*self.graph.roots, *self.graph.terminals}
        degree = Counter(v for e in live for v in self.ends[e])
        self.alive = []
        for e in live:
            if uses[e]:
                self.alive.append(e)
            elif self.kinds[e] == Kind.ONE:
                self.alive.append(e)
                line.pass_over(e)
            else:
                self.gone[e] = 0
                line.drop(e)
                degree.subtract(self.ends[e])
        line.change()
        self.faces = sorted(line.faces()) if followed else None
        self.changes: list[Change] = []
        for k in range(self.steps):
            left, right, made = self.left[k], self.right[k], self.edges + k
            (line.product if self.products[k] else line.sum)(left, right, made, self._is_unit)
            degree.update(self.ends[made])
            uses.subtract((left, right))
            over = [v for v in dict.fromkeys((left, right, made)) if not uses[v] and self.gone[v] > self.steps]
            for v in over:
                if self.kinds[v] == Kind.ONE and (line.joins(v) or not followed):
                    line.pass_over(v)
                    continue
                line.drop(v)
                self.gone[v] = k + 1
                degree.subtract(self.ends[v])
            change = line.change()
            change.removed_values = [v for v in over if self.gone[v] == k + 1]
            touched = {v for value in (left, right, made) for v in self.ends[value]}
            change.removed_vertices = sorted(v for v in touched if not degree[v] and v not in ends)
            self.changes.append(change)

    def _is_unit(self, value: int) -> bool:
        return value < self.values and self.kinds[value] == Kind.ONE

    def alive_after(self, steps: int) -> list[int]:
        """Return the values that exist after a number of steps."""
        first = set(self.alive)
        return [
            v
            for v in range(self.edges + steps)
            if self.born[v] <= steps < self.gone[v] and (v >= self.edges or v in first)
        ]

    def faces_after(self, steps: int) -> set[Face]:
        """Return the faces that exist after a number of steps."""
        faces = set(self.faces or ())
        for change in self.changes[:steps]:
            faces.difference_update(change.removed_faces)
            faces.update(change.added_faces)
        return faces

    # Groups ----------------------------------------------------------------------------------------------------

    def groups(self, kind: str) -> list[int]:
        """Return the number of steps after which each group ends."""
        ends = self._faces()
        if kind == "edge":
            return list(self._edges(ends))
        if kind == "face":
            return ends
        key = {"vertex": lambda: self._middle, "block": self._block, "page": self._page}[kind]()
        return [run[-1] for run in _runs(ends, key)]

    def _faces(self) -> list[int]:
        """Return the step counts after which a product ends, with the sums that take its result; or a separate sum."""
        ends: list[int] = []
        for k in range(self.steps):
            if not self.products[k] and ends and self.edges + k - 1 in (self.left[k], self.right[k]):
                ends.pop()
            ends.append(k + 1)
        return ends

    def _first(self, end: int) -> int:
        """Return the first step of the face group that ends after a number of steps."""
        k = end - 1
        while k and not self.products[k] and self.edges + k - 1 in (self.left[k], self.right[k]):
            k -= 1
        return k

    def _edges(self, ends: Sequence[int]) -> Iterator[int]:
        """Yield the ends of groups, greedily: the longest run of products with a common left or right factor."""
        firsts = [self._first(end) for end in ends]
        at = 0
        while at < len(ends):
            length = 1
            if self.products[firsts[at]]:
                length = max(
                    next(
                        (n for n, k in enumerate(firsts[at:]) if not self.products[k] or side[k] != side[firsts[at]]),
                        len(ends) - at,
                    )
                    for side in (self.left, self.right)
                )
            at += length
            yield ends[at - 1]

    def _middle(self, end: int) -> Hashable:
        k = self._first(end)
        return self.middles[k]

    def _block(self) -> Callable[[int], Hashable]:
        # imported by name, since the theory package depends on this one
        decomposition = import_module("accumulus.theory.graphs.chains_and_blocks").decompose(self.graph)
        innermost: dict[Hashable, int] = {}
        for number, component in enumerate(decomposition.walk()):
            innermost.update(dict.fromkeys(inner_vertices(self.graph, component), number))
        return lambda end: innermost.get(self._middle(end), -1)

    def _page(self) -> Callable[[int], Hashable]:
        page, done, pages = 0, False, {}
        for end in self._faces():
            made = self.edges + end - 1 in self.entries
            page += done and not made
            done = made
            pages[end] = page
        return pages.__getitem__

    # Operations ------------------------------------------------------------------------------------------------

    def operations(self, after: Iterable[int]) -> list[int]:
        """Return the operations of the function, its partials and the first steps, with all values that are then alive.

        After all steps, these are the operations of the plan.
        """
        return [self._operations(steps) for steps in after]

    def _operations(self, steps: int) -> int:
        whole = self.plan.accumulation
        if steps == self.steps:
            return count(whole, "operations")
        whole_steps = whole.steps
        first = Steps(
            whole_steps.edges, whole_steps.is_product[:steps], whole_steps.left[:steps], whole_steps.right[:steps]
        )
        entries = {(0, k): value for k, value in enumerate(self.alive_after(steps))}
        return canonical(emit(Accumulation(self.graph, first, entries))).operations


def inner_vertices(graph: DifferentiationGraph, component: Any) -> set[int]:
    """Return the vertices of a component of a decomposition, without its two ends."""
    edges = list(component.edges)
    return {*graph.sources[edges].tolist(), *graph.targets[edges].tolist()} - {component.source, component.sink}


def _runs(ends: Sequence[int], key: Callable[[int], Hashable]) -> Iterator[list[int]]:
    for _, run in groupby(ends, key):
        yield list(run)


class _Line:
    """A line graph that steps change; its vertices are values, roots and terminals by number."""

    def __init__(self, values: int, edges: int) -> None:
        self._values, self._edges = values, edges
        self.predecessors: dict[int, dict[int, None]] = {}
        self.successors: dict[int, dict[int, None]] = {}
        self._changed: dict[Face, bool] = {}

    def number(self, v: int) -> int:
        """Return the number of a vertex of the original graph's line graph."""
        return v if v < self._edges else v - self._edges + self._values

    def faces(self) -> Iterator[Face]:
        """Return all faces."""
        return ((i, j) for i, row in self.successors.items() for j in row)

    def add(self, i: int, j: int) -> None:
        """Add a face, unless it exists."""
        row = self.successors.setdefault(i, {})
        if j not in row:
            row[j] = None
            self.predecessors.setdefault(j, {})[i] = None
            self._note(i, j, there=True)

    def remove(self, i: int, j: int) -> None:
        """Remove a face, if it exists."""
        if j in self.successors.get(i, ()):
            del self.successors[i][j], self.predecessors[j][i]
            self._note(i, j, there=False)

    def _note(self, i: int, j: int, *, there: bool) -> None:
        # a face that is added and removed within a step is no change
        if self._changed.pop((i, j), there) is there:
            self._changed[i, j] = there

    def change(self) -> Change:
        """Return the faces removed and added since the previous call."""
        noted, self._changed = self._changed, {}
        return Change([face for face, there in noted.items() if not there], [f for f, there in noted.items() if there])

    def above(self, v: int) -> list[int]:
        """Return the predecessors of a vertex."""
        return list(self.predecessors.get(v, ()))

    def below(self, v: int) -> list[int]:
        """Return the successors of a vertex."""
        return list(self.successors.get(v, ()))

    def joins(self, v: int) -> bool:
        """Return True if paths pass through a vertex."""
        return bool(self.predecessors.get(v)) and bool(self.successors.get(v))

    def drop(self, v: int) -> None:
        """Remove a vertex with its faces."""
        for p in self.above(v):
            self.remove(p, v)
        for s in self.below(v):
            self.remove(v, s)

    def pass_over(self, unit: int) -> None:
        """Remove a vertex whose label is 1, and join its neighbours."""
        above, below = self.above(unit), self.below(unit)
        self.drop(unit)
        for p in above:
            for s in below:
                self.add(p, s)

    def product(self, left: int, right: int, made: int, is_unit: Callable[[int], bool]) -> None:
        """Replace a face by a vertex; remove units between its two ends first."""
        while right not in self.successors.get(left, ()):
            unit = next((u for u in self.below(left) if is_unit(u)), None)
            if unit is None:
                break
            self.remove(left, unit)
            for s in self.below(unit):
                self.add(left, s)
        self.remove(left, right)
        for p in self.above(left):
            self.add(p, made)
        for s in self.below(right):
            self.add(made, s)

    def sum(self, left: int, right: int, made: int, is_unit: Callable[[int], bool]) -> None:
        """Merge common neighbours of two vertices; without common ones, remove units around the vertices first."""
        terms = (left, right)
        while not {*self.above(left)} & {*self.above(right)}:
            edge = next(((u, v) for v in terms for u in self.above(v) if is_unit(u)), None)
            if edge is None:
                break
            self.remove(*edge)
            for p in self.above(edge[0]):
                self.add(p, edge[1])
        while not {*self.below(left)} & {*self.below(right)}:
            edge = next(((v, u) for v in terms for u in self.below(v) if is_unit(u)), None)
            if edge is None:
                break
            self.remove(*edge)
            for s in self.below(edge[1]):
                self.add(edge[0], s)
        above = [p for p in self.above(left) if p in self.predecessors.get(right, ())]
        below = [s for s in self.below(left) if s in self.successors.get(right, ())]
        for v in terms:
            if len(above) == len(self.above(v)):
                for s in below:
                    self.remove(v, s)
            elif len(below) == len(self.below(v)):
                for p in above:
                    self.remove(p, v)
        for p in above:
            self.add(p, made)
        for s in below:
            self.add(made, s)
