"""Local Jacobian accumulation: the graph as a product of sparse matrices between depth levels, in the best bracketing.

**Levels.** Vertices are numbered level by level, so the vertices between two levels form a range. Entries of local
Jacobians are references, with a flag for entries that are a single path of unit edges (units): products with them are
free.

**Bracketings.** The level of a vertex is the length of the longest path to it from a root; terminals share the last
level. Edges that cross levels are segmented with unit edges (copies of their tail or head, shared by edges with the
same end). Then every edge joins neighbouring levels, and the Jacobian is J⁰₁ J¹₂ … (the notes, section 4). The product
Jᵃₖ Jᵏᵦ takes, at every vertex v of level k, a product for each pair of entries in the column and the row of v, except
for pairs with a unit.

* `local_jacobians` uses the bracketing with the fewest products, by dynamic programming over the exact sparsity: the
  nonzero entries of Jᵃᵦ and its units do not depend on the bracketing. The vertices between two levels form connected
  components, the undivided parts of the local Jacobian. Each component has its own bracketing, at every stage, and so
  do parts of the graph that only roots and terminals connect, which have their own levels. Simple chains and blocks are
  eliminated first. The result is optimal among all bracketings by components, for these levels and this segmentation.
* Nested pairs specify a bracketing: ((0, 1), (2, 3)) is (J⁰₁ J¹₂)(J²₃ J³₄).
* `multiply` computes the product of local Jacobians between any sets of vertices, such as J⟨v₁,v₁₁|v₂,v₃,v₁₂,v₁₃⟩ ×
  J⟨v₂,v₃,v₁₂,v₁₃|v₄,v₁₄⟩.

Time for L levels with N vertices and M edges after segmentation: O(L³) bracketings, O(L·M) set operations, and O(L²·N)
for the components. A graph of more than `WINDOW` levels is cut at its narrowest levels into windows, which are
bracketed first. Then the result is the best among bracketings that respect the cuts, and no worse than a sweep from
either end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, SharedSteps
from accumulus.elimination.edges_and_faces import EdgeElimination, edges_of_vertex
from accumulus.errors import ArgumentError, OrderError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.search.elimination import Workload
from accumulus.search.registry import SearchResult, register_method
from accumulus.theory.graphs.traversal import UnionFind, eliminate_series, longest_ways

Side = Literal["tail", "head"]
#: Label of the unit edges that segmentation adds.
_UNIT: Final = -1

#: Largest distance of two levels for which the components are always computed by extension. A larger one computes, and
#: keeps in memory, the components of more pairs of levels; a smaller one computes more of them anew from all edges
#: between.
_NEAR: Final = 64

#: An entry: reference, and True if it is a unit.
Entry = tuple[int, bool]
Matrix = dict[int, dict[int, Entry]]


class Levelled:
    """Edges between neighbouring levels, after segmentation.

    Args:
        graph: graph of the vertices and labels.
        edges: (source, target, label), all on paths from roots to terminals of `graph`.
        side: end of cross-level edges whose copies segment them.
        unit_products: if True, products with unit edges of `graph` are made; if False, only products without units.
        deadline: when it passes, the methods raise `OutOfTimeError`.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        edges: Iterable[tuple[int, int, int]],
        side: Side,
        unit_products: bool = False,
        deadline: Deadline = FOREVER,
    ) -> None:
        self.deadline = deadline
        edges = list(edges)
        level = _levels(graph, edges)
        #: Level of the terminals.
        self.last = max(level.values())
        number: dict[tuple[int, int], int] = {}
        by_level: list[list[tuple[int, int]]] = [[] for _ in range(self.last + 1)]
        links: list[tuple[tuple[int, int], tuple[int, int], int]] = []

        def vertex(v: int, depth: int) -> None:
            number[v, depth] = -1
            by_level[depth].append((v, depth))

        for v, depth in level.items():
            vertex(v, depth)
        for j, i, label in edges:
            deadline.check()
            copied, depth, step = (j, level[i] - 1, -1) if side == "tail" else (i, level[j] + 1, 1)
            upper = depth if side == "tail" else level[j]
            while (copied, depth) not in number:
                vertex(copied, depth)
                depth += step
            links.append(((j, upper), (i, upper + 1), label))
        for v, depth in number:
            following = (v, depth + 1)
            if following in number:
                links.append(((v, depth), following, _UNIT))
        self._first = [0]
        self._names: list[int] = []
        for vertices in by_level:
            for key in sorted(vertices):
                number[key] = len(self._names)
                self._names.append(key[0])
            self._first.append(len(self._names))
        unit_kinds = (graph.kinds == Kind.ONE) & (not unit_products)
        self.edges: list[list[tuple[int, int, bool]]] = [[] for _ in self._names]
        for source, target, label in links:
            unit = label == _UNIT or (label < len(unit_kinds) and bool(unit_kinds[label]))
            self.edges[number[source]].append((number[target], label, unit))
        for row in self.edges:
            row.sort()
        self._sources = np.repeat(np.arange(len(self.edges)), [len(row) for row in self.edges])
        self._targets = np.array([target for row in self.edges for target, _, _ in row], np.int64)
        self._level_edges = np.searchsorted(self._sources, self._first)
        self._components: dict[tuple[int, int], tuple[int, NDArray[np.int64]]] = {}
        self._representatives: dict[tuple[int, int], NDArray[np.int64]] = {}

    def first(self, level: int) -> int:
        """Return the number of the first vertex of a level."""
        return self._first[level]

    def width(self, level: int) -> int:
        """Return the number of vertices of a level."""
        return self._first[level + 1] - self._first[level]

    def components(self, a: int, b: int) -> tuple[int, NDArray[np.int64]]:
        """Return the number of components strictly between two levels, and the component of each vertex."""
        cached = self._components.get((a, b))
        if cached is None:
            if b - a == 2:
                width = self.width(a + 1)
                cached = width, np.arange(width)
            elif (a, b - 1) in self._components or b - a <= _NEAR:
                cached = self._extended(a, b - 1)
            else:
                cached = self._connected(a, b)
            self._components[a, b] = cached
        return cached

    def _extended(self, a: int, b: int) -> tuple[int, NDArray[np.int64]]:
        """Return the components between levels a and b + 1: level b joins some of the components between a and b."""
        number, label = self.components(a, b)
        here = self.width(b)
        joined = UnionFind(number + here)
        edges = slice(self._level_edges[b - 1], self._level_edges[b])
        sources = label[self._sources[edges] - self._first[a + 1]].tolist()
        targets = (self._targets[edges] - self._first[b] + number).tolist()
        for j, i in zip(sources, targets, strict=True):
            joined.merge(j, i)
        numbers: dict[int, int] = {}
        renamed = np.array([numbers.setdefault(joined.find(k), len(numbers)) for k in range(number + here)], np.int64)
        return len(numbers), np.concatenate([renamed[label], renamed[number:]])

    def _connected(self, a: int, b: int) -> tuple[int, NDArray[np.int64]]:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        start, end = self._first[a + 1], self._first[b]
        inside = slice(self._level_edges[a + 1], self._level_edges[b - 1])
        ends = (self._sources[inside] - start, self._targets[inside] - start)
        links = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(end - start, end - start))
        number, label = connected_components(links.tocsr(), directed=False)
        return int(number), label.astype(np.int64)

    def representatives(self, a: int, b: int) -> NDArray[np.int64]:
        """Return one vertex of each component between two levels."""
        cached = self._representatives.get((a, b))
        if cached is None:
            _, first = np.unique(self.components(a, b)[1], return_index=True)
            cached = self._representatives[a, b] = first + self._first[a + 1]
        return cached

    def counts(
        self, levels: list[int]
    ) -> tuple[dict[tuple[int, int], NDArray[np.int64]], dict[tuple[int, int], NDArray[np.int64]]]:
        """Return the numbers of nonunit entries in the column of each vertex of level k in Jᵃₖ, and in its row in Jᵏᵦ.

        Returns:
            The counts by (a, k), and by (k, b), for all a < k and k < b of the levels.
        """
        back, forth = self._neighbours()
        above: dict[tuple[int, int], NDArray[np.int64]] = {}
        below: dict[tuple[int, int], NDArray[np.int64]] = {}
        low, high = levels[0], levels[-1]
        requested = set(levels)
        for a in levels:
            for k, counts in self._counts_from(a, range(a + 1, high + 1), back, requested):
                above[a, k] = counts
            for k, counts in self._counts_from(a, range(a - 1, low - 1, -1), forth, requested):
                below[k, a] = counts
        return above, below

    def sweep_cost(self, *, from_roots: bool) -> int:
        """Return the number of products of the bracketing that goes from one end to the other."""
        back, forth = self._neighbours()
        everything = set(range(self.last + 1))
        if from_roots:
            counts = self._counts_from(0, range(1, self.last), back, everything)
        else:
            counts = self._counts_from(self.last, range(self.last - 1, 0, -1), forth, everything)
        total = 0
        for level, entries in counts:
            here = range(self._first[level], self._first[level + 1])
            edges = [sum(not unit for _, unit in (forth if from_roots else back)[v]) for v in here]
            total += int(entries @ np.array(edges))
        return total

    def _neighbours(self) -> tuple[list[list[tuple[int, bool]]], list[list[tuple[int, bool]]]]:
        """Return the neighbours of each vertex one level up, and one level down, with True for units."""
        back: list[list[tuple[int, bool]]] = [[] for _ in self.edges]
        for v, row in enumerate(self.edges):
            for w, _, unit in row:
                back[w].append((v, unit))
        return back, [[(w, unit) for w, _, unit in row] for row in self.edges]

    def _counts_from(
        self, a: int, order: range, near: list[list[tuple[int, bool]]], requested: set[int]
    ) -> list[tuple[int, NDArray[np.int64]]]:
        """Return, for each requested level, the numbers of nonunit entries between level a and its vertices."""
        origin = self._first[a]
        once = {origin + k: 1 << k for k in range(self.width(a))}
        units = dict(once)
        by_level = []
        for level in order:
            self.deadline.check()
            reach, unit_reach, counts = {}, {}, []
            for v in range(self._first[level], self._first[level + 1]):
                seen = twice = unit = 0
                for u, is_unit in near[v]:
                    bits = once.get(u, 0)
                    twice |= seen & bits
                    seen |= bits
                    if is_unit:
                        unit |= units.get(u, 0)
                unit &= ~twice
                reach[v], unit_reach[v] = seen, unit
                counts.append(seen.bit_count() - unit.bit_count())
            once, units = reach, unit_reach
            if level in requested:
                by_level.append((level, np.array(counts, np.int64)))
        return by_level

    def multiply(
        self, splits: dict[tuple[int, int], NDArray[np.int64]], steps: SharedSteps
    ) -> dict[tuple[int, int], int]:
        """Return the entries of the product of all local Jacobians by (root, terminal).

        Args:
            splits: for each pair of levels, the level at which each component between them is split.
            steps: steps to which the products and sums are appended.
        """
        number = self.components(0, self.last)[0] if self.last > 1 else 0
        tasks: list[tuple[int, int, int, bool]] = [(0, self.last, c, False) for c in range(number)]
        done: dict[tuple[int, int, int], Matrix] = {}
        while tasks:
            self.deadline.check()
            a, b, component, ready = tasks.pop()
            if b - a == 1:
                continue
            k = int(splits[a, b][component])
            parts = [(low, high, c) for low, high in ((a, k), (k, b)) for c in self._within(low, high, a, b, component)]
            if not ready:
                tasks.append((a, b, component, True))
                tasks.extend((*piece, False) for piece in reversed(parts))
                continue
            matrices = {low: [done.pop(piece) for piece in parts if piece[0] == low] for low in (a, k)}
            left = _sum(matrices[a], steps) if k - a > 1 else self._direct(a, k, (a, b, component))
            right = _sum(matrices[k], steps) if b - k > 1 else self._direct(k, k, (a, b, component))
            done[a, b, component] = _product(left, right, steps, self.deadline)
        result: dict[tuple[int, int], int] = {}
        if self.last == 1:
            done[0, 1, 0] = {u: {w: (e, unit) for w, e, unit in row} for u, row in enumerate(self.edges)}
        for u, row in _sum(list(done.values()), steps).items():
            for w, (label, _) in row.items():
                result[self._names[u], self._names[w]] = label
        return result

    def _within(self, low: int, high: int, a: int, b: int, component: int) -> list[int]:
        """Return the components between levels `low` and `high` that are inside a component between a and b."""
        if high - low == 1:
            return []
        label = self.components(a, b)[1]
        inside = self.representatives(low, high) - self._first[a + 1]
        components: list[int] = (label[inside] == component).nonzero()[0].tolist()
        return components

    def _direct(self, level: int, k: int, whole: tuple[int, int, int]) -> Matrix:
        """Return the edges from one level to the next whose ends on level k belong to a component."""
        a, b, component = whole
        label = self.components(a, b)[1]
        start = self._first[a + 1]
        here = {v for v in range(self._first[k], self._first[k + 1]) if label[v - start] == component}
        sources = sorted(here) if level == k else range(self._first[level], self._first[level + 1])
        matrix: Matrix = {}
        for u in sources:
            row = {w: (e, unit) for w, e, unit in self.edges[u] if level == k or w in here}
            if row:
                matrix[u] = row
        return matrix


def _sum(matrices: list[Matrix], steps: SharedSteps) -> Matrix:
    total: Matrix = {}
    for matrix in matrices:
        for u, row in matrix.items():
            merged = total.setdefault(u, row)
            if merged is row:
                continue
            for w, entry in row.items():
                merged[w] = (steps.sum(merged[w][0], entry[0]), False) if w in merged else entry
    return total


def _levels(graph: DifferentiationGraph, edges: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return the level of each vertex of the edges: the longest path from a root; terminals on the last level."""
    following: dict[int, list[int]] = {v: [] for v in sorted({v for j, i, _ in edges for v in (j, i)})}
    for j, i, _ in edges:
        following[j].append(i)
    order = (v for v in reversed(graph.topological_order) if v in following)
    level = longest_ways(order, following.__getitem__)
    last = max(level.values())
    return {v: level[v] for v in following} | {v: last for v in graph.terminals if v in following}


def _product(left: Matrix, right: Matrix, steps: SharedSteps, deadline: Deadline) -> Matrix:
    result: Matrix = {}
    for u, row in left.items():
        deadline.check()
        sums: dict[int, Entry] = {}
        for v, (first, first_unit) in row.items():
            for w, (second, second_unit) in right.get(v, {}).items():
                if first_unit or second_unit:
                    one, other = (first, second) if first_unit else (second, first)
                    unit = first_unit and second_unit
                    term = one if unit and other == _UNIT else other
                else:
                    unit = False
                    term = steps.product(first, second)
                sums[w] = (steps.sum(sums[w][0], term), False) if w in sums else (term, unit)
        result[u] = sums
    return result


# Bracketings ---------------------------------------------------------------------------------------------------------


#: Nested pairs of level numbers; k denotes the local Jacobian from level k to level k + 1.
Bracketing = Any

#: Levels of a window: the cube of its length in time, against brackets across the cuts. Not measured.
WINDOW: Final = 40
_NAMES: Final = ("best", "left", "right")
#: For each pair of levels the level at which each component is split.
Splits = dict[tuple[int, int], NDArray[np.int64]]


def local_jacobians(
    graph: DifferentiationGraph,
    bracketing: Literal["best", "left", "right"] | Bracketing = "best",
    *,
    simple_first: bool = True,
    components: bool = True,
    side: Side | Literal["best"] = "best",
    unit_products: bool = False,
    deadline: Deadline = FOREVER,
) -> Accumulation:
    """Accumulate by products of local Jacobians.

    Args:
        graph: graph to accumulate.
        bracketing: ``"best"``; ``"left"``, from the roots; ``"right"``, from the terminals; or nested pairs of level
            numbers. Nested pairs apply to the levels of each part, so use them with `simple_first` and `components`
            set to False.
        simple_first: if True, simple chains and blocks are eliminated first.
        components: if True, parts that only roots and terminals connect are accumulated separately.
        side: end at which cross-level edges are segmented: ``"tail"`` or ``"head"``. ``"best"`` is the cheaper one for
            each part with the best bracketing, and ``"tail"`` with any other bracketing.
        unit_products: if True, products with unit edges of the graph are made, and counted when brackets are compared,
            as under the objective "fma". Products with the unit edges of segmentation are never made.
        deadline: deadline of the computation.

    Raises:
        ArgumentError: for nested pairs that are not a bracketing of the levels.
        OutOfTimeError: if the deadline passes first.
        UnknownNameError: for another side or name of a bracketing.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x"), ("y", "x")])
    >>> for way in ("left", "right", ((0, 1), 2)):
    ...     plan = local_jacobians(graph, way, simple_first=False, components=False)
    ...     print(sum(plan.steps.is_product))
    4
    3
    4
    """
    if isinstance(bracketing, str) and bracketing not in _NAMES:
        raise unknown_name("bracketing", bracketing, _NAMES)
    if side not in ("tail", "head", "best"):
        raise unknown_name("side", side, ("tail", "head", "best"))
    steps = SharedSteps(len(graph.sources))
    elimination = EdgeElimination(graph, steps)
    if simple_first:
        eliminate_series(elimination, deadline)
    edges = [(j, i, label) for j, row in enumerate(elimination.successors) for i, label in row.items()]
    entries = accumulate_edges(
        graph,
        edges,
        steps,
        bracketing,
        components=components,
        side=side,
        unit_products=unit_products,
        deadline=deadline,
    )
    return Accumulation.between(graph, steps, entries)


def accumulate_edges(
    graph: DifferentiationGraph,
    edges: list[tuple[int, int, int]],
    steps: SharedSteps,
    bracketing: Literal["best", "left", "right"] | Bracketing = "best",
    *,
    components: bool = True,
    side: Side | Literal["best"] = "best",
    unit_products: bool = False,
    deadline: Deadline = FOREVER,
) -> dict[tuple[int, int], int]:
    """Multiply the local Jacobians of labelled edges between vertices of a graph.

    Args:
        graph: graph of the vertices.
        edges: (source, target, label) by number; all on paths from roots to terminals of `graph`.
        steps: steps to which the products and sums are appended.
        bracketing: as for `local_jacobians`.
        components: as for `local_jacobians`.
        side: as for `local_jacobians`.
        unit_products: as for `local_jacobians`.
        deadline: deadline of the computation.

    Returns:
        The references of the entries by (root, terminal), as vertex numbers.
    """
    entries: dict[tuple[int, int], int] = {}
    for component in _parts(graph, edges, components):
        sides: list[Side] = ["tail", "head"] if side == "best" else [side]
        levelled = [Levelled(graph, component, each, unit_products, deadline) for each in sides]
        plans = [_splits(each, bracketing) for each in levelled]
        cheapest = min(range(len(plans)), key=lambda k: plans[k][0])
        for pair, label in levelled[cheapest].multiply(plans[cheapest][1], steps).items():
            entries[pair] = steps.sum(entries[pair], label) if pair in entries else label
    return entries


def multiply(elimination: EdgeElimination, rows: Iterable[int], middle: Iterable[int], columns: Iterable[int]) -> None:
    """Replace J⟨rows|middle⟩ and J⟨middle|columns⟩ by their product J⟨rows|columns⟩ in the graph.

    Args:
        elimination: elimination of the graph; it is modified.
        rows: vertices by number; they must include all predecessors of `middle`.
        middle: intermediates by number, which are eliminated.
        columns: vertices by number; they must include all successors of `middle`.

    Raises:
        OrderError: if `rows` or `columns` lack a neighbour, or `middle` includes a root or a terminal; the message
            names the vertex.
    """
    above, through, below = dict.fromkeys(rows), dict.fromkeys(middle), dict.fromkeys(columns)
    for v in through:
        if not elimination.intermediate[v]:
            raise OrderError(
                f"{elimination.vertex_name(v)} is a root or a terminal; expected intermediates in the middle"
            )
        for near, allowed, side in (
            (elimination.predecessors[v], above, "rows"),
            (elimination.successors[v], below, "columns"),
        ):
            for end in near:
                if end not in allowed:
                    raise OrderError(
                        f"{elimination.vertex_name(v)} has an edge with {elimination.vertex_name(end)}, which is "
                        f"not one of the {side}; the product would leave paths out. Add it there"
                    )
    for v in through:
        for step in edges_of_vertex(elimination, v):
            elimination.eliminate(*step)


def _parts(
    graph: DifferentiationGraph, edges: list[tuple[int, int, int]], separate: bool
) -> list[list[tuple[int, int, int]]]:
    """Return the edges (source, target, label), grouped into components that only roots and terminals connect."""
    ends = {*graph.roots, *graph.terminals}
    if not separate:
        return [edges] if edges else []
    joined = UnionFind(len(graph.vertices))
    for j, i, _ in edges:
        if j not in ends and i not in ends:
            joined.merge(i, j)
    parts: dict[Any, list[tuple[int, int, int]]] = {}
    for j, i, label in edges:
        key = joined.find(j) if j not in ends else joined.find(i) if i not in ends else (j, i)
        parts.setdefault(key, []).append((j, i, label))
    return list(parts.values())


def _splits(levelled: Levelled, bracketing: Bracketing) -> tuple[int, Splits]:
    """Return the cost, which is 0 unless the bracketing is "best", and the level at which each component is split."""
    last = levelled.last
    splits: Splits = {}
    cost = 0
    if bracketing == "best":
        cost = _best(levelled, splits)
        if last < WINDOW:
            return cost, splits
        # with cuts the result may be worse than a sweep
        sweeps = {"left": levelled.sweep_cost(from_roots=True), "right": levelled.sweep_cost(from_roots=False)}
        bracketing = min(sweeps, key=lambda way: sweeps[way])
        if sweeps[bracketing] >= cost:
            return cost, splits
        cost = sweeps[bracketing]
    if bracketing == "left":
        chosen = {(0, b): b - 1 for b in range(2, last + 1)}
    elif bracketing == "right":
        chosen = {(a, last): a + 1 for a in range(last - 1)}
    else:
        chosen = {}
        _read(bracketing, last, chosen)
    for (a, b), k in chosen.items():
        splits[a, b] = np.full(levelled.components(a, b)[0], k, np.int64)
    return cost, splits


def _read(bracketing: Bracketing, last: int, chosen: dict[tuple[int, int], int]) -> None:
    """Store the split level of each pair of a bracketing in `chosen`, by the first and last level of the pair."""

    def read(bracket: Bracketing) -> tuple[int, int]:
        if isinstance(bracket, int):
            return bracket, bracket + 1
        if not isinstance(bracket, tuple) or len(bracket) != 2:
            raise ArgumentError(f"bracketing {bracketing!r}: expected nested pairs of level numbers, not {bracket!r}")
        (a, k), (start, b) = read(bracket[0]), read(bracket[1])
        if k != start:
            raise ArgumentError(
                f"bracketing {bracketing!r}: {bracket!r} joins level {k} with level {start}; expected neighbours"
            )
        chosen[a, b] = k
        return a, b

    if (ends := read(bracketing)) != (0, last):
        raise ArgumentError(
            f"bracketing {bracketing!r} goes from level {ends[0]} to {ends[1]}; expected from 0 to {last}, the last of "
            "this graph"
        )


def _best(levelled: Levelled, splits: Splits) -> int:
    """Store the cheapest splits in `splits`, and return their cost."""
    costs: dict[tuple[int, int], NDArray[np.int64]] = {}
    levels = list(range(levelled.last + 1))
    while len(levels) > WINDOW:
        cuts = _cuts(levels, levelled.width)
        for start, end in pairwise(cuts):
            if end - start > 1:
                _optimise(levelled, levels[start : end + 1], costs, splits)
        levels = [levels[cut] for cut in cuts]
    if len(levels) == 2:
        return int(costs[levels[0], levels[1]].sum()) if (levels[0], levels[1]) in costs else 0
    _optimise(levelled, levels, costs, splits)
    return int(costs[levels[0], levels[-1]].sum())


def _cuts(levels: list[int], width: Callable[[int], int]) -> list[int]:
    """Return positions of narrow levels, half a window to a window apart, including the first and the last."""
    cuts = [0]
    while len(levels) - 1 - cuts[-1] > WINDOW - 1:
        near = range(cuts[-1] + WINDOW // 2, cuts[-1] + WINDOW - 1)
        cuts.append(min(near, key=lambda k: (width(levels[k]), -k)))
    return [*cuts, len(levels) - 1]


def _optimise(
    levelled: Levelled, levels: list[int], costs: dict[tuple[int, int], NDArray[np.int64]], splits: Splits
) -> None:
    """Store the costs and the levels of the cheapest splits between any two of the levels, by component.

    Splits are only at these levels; `costs` may already contain the costs between neighbouring ones.
    """
    above, below = levelled.counts(levels)
    for length in range(2, len(levels)):
        for first in range(len(levels) - length):
            levelled.deadline.check()
            a, b = levels[first], levels[first + length]
            number, label = levelled.components(a, b)
            start = levelled.first(a + 1)
            best = np.full(number, np.iinfo(np.int64).max)
            best_split = np.zeros(number, np.int64)
            for k in levels[first + 1 : first + length]:
                at = slice(levelled.first(k), levelled.first(k + 1))
                products = above[a, k] * below[k, b]
                cost = np.bincount(label[at.start - start : at.stop - start], products, number).astype(np.int64)
                for low, high in ((a, k), (k, b)):
                    if (low, high) in costs:
                        inside = levelled.representatives(low, high) - start
                        cost += np.bincount(label[inside], costs[low, high], number).astype(np.int64)
                better = cost < best
                best[better], best_split[better] = cost[better], k
            costs[a, b], splits[a, b] = best, best_split


def bracketing_seconds(work: Workload) -> float:
    """Return the estimated seconds of local Jacobians, without the effect of eliminating simple chains first."""
    width = min(work.levels, WINDOW)
    bracketings = width**3 / 6 * max(1.0, work.levels / 30)
    return 17e-6 * bracketings + 5e-6 * work.segments + 4e-6 * work.fewest


@register_method("local-jacobians", bracketing_seconds)
def _method(graph: DifferentiationGraph, context: Context) -> SearchResult:
    accumulation = local_jacobians(graph, unit_products=context.options.objective.every_product, deadline=context)
    return SearchResult(graph, "local-jacobians", _accumulation=accumulation)
