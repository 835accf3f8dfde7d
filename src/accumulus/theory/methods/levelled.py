"""A segmented graph as levels of vertices, and the products of local Jacobians between them.

Vertices are numbered level by level, so what lies between two levels is a range. Entries of local Jacobians are
references, with a mark for those that are a single path of unit edges: products with them are not formed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.graphs.traversal import Classes
from accumulus.theory.shared_steps import SharedSteps

__all__ = ["Levelled", "Side"]

Side = Literal["tail", "head"]
#: Label of the unit edges that segmentation adds.
_UNIT: Final = -1

#: Up to so many levels, components are found by extending those of fewer.
_NEAR: Final = 64

#: An entry: reference, and whether it is a unit.
Entry = tuple[int, bool]
Matrix = dict[int, dict[int, Entry]]


class Levelled:
    """Edges between levels.

    Args:
        graph: what the labels belong to.
        edges: (source, target, label); roots and terminals are those of `graph`.
        side: whose copies segment cross-level edges.
        unit_products: whether products with unit edges of `graph` are formed.
        deadline: when it passes, `OutOfTimeError` is raised.
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
        #: The level of the terminals.
        self.last = max(level.values())
        place: dict[tuple[int, int], int] = {}
        by_level: list[list[tuple[int, int]]] = [[] for _ in range(self.last + 1)]
        links: list[tuple[tuple[int, int], tuple[int, int], int]] = []

        def vertex(v: int, depth: int) -> tuple[int, int]:
            if (v, depth) not in place:
                place[v, depth] = -1
                by_level[depth].append((v, depth))
            return v, depth

        for v, depth in level.items():
            vertex(v, depth)
        for j, i, label in edges:
            deadline.check()
            if side == "tail":
                known = level[i] - 1
                while (j, known) not in place:
                    vertex(j, known)
                    known -= 1
                links.append(((j, level[i] - 1), (i, level[i]), label))
            else:
                known = level[j] + 1
                while (i, known) not in place:
                    vertex(i, known)
                    known += 1
                links.append(((j, level[j]), (i, level[j] + 1), label))
        for v, depth in place:
            following = (v, depth + 1)
            if following in place:
                links.append(((v, depth), following, _UNIT))
        self._first = [0]
        self._names: list[int] = []
        for vertices in by_level:
            for key in sorted(vertices):
                place[key] = len(self._names)
                self._names.append(key[0])
            self._first.append(len(self._names))
        unit_kinds = (graph.kinds == Kind.ONE) & (not unit_products)
        self.edges: list[list[tuple[int, int, bool]]] = [[] for _ in self._names]
        for source, target, label in links:
            unit = label == _UNIT or (label < len(unit_kinds) and bool(unit_kinds[label]))
            self.edges[place[source]].append((place[target], label, unit))
        for row in self.edges:
            row.sort()
        self._sources = np.repeat(np.arange(len(self.edges)), [len(row) for row in self.edges])
        self._targets = np.array([target for row in self.edges for target, _, _ in row], np.int64)
        self._level_edges = np.searchsorted(self._sources, self._first)
        self._components: dict[tuple[int, int], tuple[int, NDArray[np.int64]]] = {}
        self._representatives: dict[tuple[int, int], NDArray[np.int64]] = {}

    def first(self, level: int) -> int:
        """Number of the first vertex of a level."""
        return self._first[level]

    def width(self, level: int) -> int:
        """Number of vertices of a level."""
        return self._first[level + 1] - self._first[level]

    def components(self, a: int, b: int) -> tuple[int, NDArray[np.int64]]:
        """Connected components of what lies strictly between two levels: their number, and that of each vertex."""
        known = self._components.get((a, b))
        if known is None:
            if b - a == 2:
                width = self.width(a + 1)
                known = width, np.arange(width)
            elif (a, b - 1) in self._components or b - a <= _NEAR:
                known = self._extended(a, b - 1)
            else:
                known = self._connected(a, b)
            self._components[a, b] = known
        return known

    def _extended(self, a: int, b: int) -> tuple[int, NDArray[np.int64]]:
        """Components between levels a and b+1 from those between a and b: level b joins some of them."""
        number, label = self.components(a, b)
        here = self.width(b)
        joined = Classes(number + here)
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
        """A vertex of each component between two levels."""
        known = self._representatives.get((a, b))
        if known is None:
            _, first = np.unique(self.components(a, b)[1], return_index=True)
            known = self._representatives[a, b] = first + self._first[a + 1]
        return known

    def counts(
        self, levels: list[int]
    ) -> tuple[dict[tuple[int, int], NDArray[np.int64]], dict[tuple[int, int], NDArray[np.int64]]]:
        """Entries that are no units: in the column of each vertex of level k of Jᵃₖ, and in its row of Jᵏᵦ.

        Returns:
            the counts by (a, k), and by (k, b), for all a < k < b of the levels.
        """
        back, forth = self._neighbours()
        above: dict[tuple[int, int], NDArray[np.int64]] = {}
        below: dict[tuple[int, int], NDArray[np.int64]] = {}
        low, high = levels[0], levels[-1]
        wanted = set(levels)
        for a in levels:
            for k, counts in self._counts_from(a, range(a + 1, high + 1), back, wanted):
                above[a, k] = counts
            for k, counts in self._counts_from(a, range(a - 1, low - 1, -1), forth, wanted):
                below[k, a] = counts
        return above, below

    def sweep_cost(self, *, from_roots: bool) -> int:
        """Products of the bracketing that goes from one end to the other."""
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
        """For each vertex its neighbours one level up, and one level down, and whether the edge is a unit."""
        back: list[list[tuple[int, bool]]] = [[] for _ in self.edges]
        for v, row in enumerate(self.edges):
            for w, _, unit in row:
                back[w].append((v, unit))
        return back, [[(w, unit) for w, _, unit in row] for row in self.edges]

    def _counts_from(
        self, a: int, order: range, near: list[list[tuple[int, bool]]], wanted: set[int]
    ) -> list[tuple[int, NDArray[np.int64]]]:
        """For each wanted level, to how many vertices of level a its vertices have entries, units apart."""
        origin = self._first[a]
        once = {origin + k: 1 << k for k in range(self.width(a))}
        units = dict(once)
        found = []
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
            if level in wanted:
                found.append((level, np.array(counts, np.int64)))
        return found

    def multiply(
        self, splits: dict[tuple[int, int], NDArray[np.int64]], steps: SharedSteps
    ) -> dict[tuple[int, int], int]:
        """Multiply all levels together, split as given; entries by (root, terminal).

        Args:
            splits: by two levels, the level at which each component between them is split.
        """
        tasks: list[tuple[int, int, int, bool]] = [(0, self.last, c, False) for c in self._all(0, self.last)]
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
                tasks.extend((*part, False) for part in reversed(parts))
                continue
            matrices = {low: [done.pop(part) for part in parts if part[0] == low] for low in (a, k)}
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

    def _all(self, a: int, b: int) -> range:
        return range(self.components(a, b)[0]) if b - a > 1 else range(0)

    def _within(self, low: int, high: int, a: int, b: int, component: int) -> list[int]:
        """Components between two levels that belong to one between levels further apart."""
        if high - low == 1:
            return []
        label = self.components(a, b)[1]
        inside = self.representatives(low, high) - self._first[a + 1]
        found: list[int] = (label[inside] == component).nonzero()[0].tolist()
        return found

    def _direct(self, level: int, k: int, whole: tuple[int, int, int]) -> Matrix:
        """The edges from one level to the next, as far as their ends on level k belong to a component."""
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
            known = total.setdefault(u, row)
            if known is row:
                continue
            for w, entry in row.items():
                known[w] = (steps.sum(known[w][0], entry[0]), False) if w in known else entry
    return total


def _levels(graph: DifferentiationGraph, edges: list[tuple[int, int, int]]) -> dict[int, int]:
    """Longest way from a root, for all vertices of the edges; terminals on the last level."""
    following: dict[int, list[int]] = {}
    for j, i, _ in edges:
        following.setdefault(j, []).append(i)
    used = {*following, *(i for _, i, _ in edges)}
    terminals = set(graph.terminals) & used
    level = dict.fromkeys(used, 0)
    for v in reversed(graph.topological_order):
        for i in following.get(v, ()):
            level[i] = max(level[i], level[v] + 1)
    last = max(level.values())
    return {v: last if v in terminals else level[v] for v in sorted(used)}


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
