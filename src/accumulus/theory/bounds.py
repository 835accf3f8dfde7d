"""Lower bounds on the cost of every program: from disjoint paths, and from brackets.

Both hold for vertex, edge and face elimination, and for all other programs of sums and products of labels. Both are
computed on what the reductions for programs leave (`accumulus.theory.reductions`).

**Flow bound.** The sum of the bounds of all vertices (`accumulus.theory.flows`).

**Bracketing bound.** Every path from a root to a terminal is a term of the Jacobian, and every program multiplies its
labels in some order: it brackets the path. The product that joins the part from u to v with the part from v to w
belongs to the triple (u, v, w), and costs size(u)·size(v)·size(w), however many other paths it serves. So a program
costs at least as much as the cheapest set of triples that brackets each path. Any set of paths gives a bound, and the
set of all paths gives the best. If products with ±1 and of two constants are free, they need no triple.

The bound is an integer program. x = 1 for each triple of the set. For each path p₀ … p_L, y_ab = 1 if its part from p_a
to p_b is formed, and z_amb = 1 if that part is formed by joining at p_m:

    y_0L = 1,   y_ab = Σ_m z_amb,   y_ab = Σ of the z that join it to another part,   z_amb ≤ x(p_a, p_m, p_b)

Only x has to be integer, since every fractional y and z is a combination of bracketings.

**Prices.** The dual of the linear relaxation gives each path a price of each of its triples, such that no triple costs
more than its cost in all paths together. A bracketing of a path costs at least the cheapest one by the path's prices,
so the sum of these over all paths is a bound. A dynamic program finds the cheapest bracketing of a path, as for a chain
of matrices. So the bound does not depend on the solver, which only has to find good prices: HiGHS (Huangfu and Hall
2018), by an interior point method through SciPy, since the simplex method takes ten times as long here.

**Paths.** Few paths decide. The linear program begins with the disjoint paths through each vertex. The paths that its
triples bracket worst are added, as long as there are any: those first that lack most, and no two for the same triples.
Paths whose prices add nothing to the bound leave, which halves the time on larger graphs. If the bound is not an
integer then, or the known cost is larger, branch and bound solves the integer program of these paths (HiGHS). Its dual
bound is lowered by a millionth, and by at least 10⁻⁴.

A program may need several products for one triple, and a set of triples need not come from an elimination, so the bound
can be below the optimum. It equals the optimum for the "lion" and the "bat" graphs of the literature.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.vertex import LEVELS
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.state import Integers
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.flows import FLOW_WORK, disjoint_pairs, least_costs
from accumulus.theory.reductions import without_bridges

# Flow bound ----------------------------------------------------------------------------------------------------------


#: Number of parallel edges up to which the sums of their labels are tried. Each further edge doubles the sums, each one
#: fewer weakens the bound.
_MOST_PARALLEL: Final = 8


def lower_bound(
    graph: DifferentiationGraph, objective: Objective, flow_work: int = FLOW_WORK, deadline: Deadline = FOREVER
) -> int | None:
    """Return a lower bound on the cost of every elimination; None for objectives that are counted on the tape.

    Args:
        graph: graph to eliminate.
        objective: objective of the costs.
        flow_work: product of vertices and edges up to which flows are exact.
        deadline: deadline of the computation.

    Raises:
        OutOfTimeError: if the deadline passes first.

    >>> lion = [("0a", "1"), ("0b", "1"), ("1", "2"), ("1", "5"), ("2", "3a"), ("2", "3b"), ("2", "4"), ("2", "5")]
    >>> lower_bound(DifferentiationGraph(lion), Objective.FMA)
    8
    """
    if objective.on_tape:
        return None
    smaller, costs = without_bridges(unmerged(graph, objective, deadline), flow_work)
    return sum(costs.values()) + sum(least_costs(smaller, flow_work=flow_work).values())


def unmerged(graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> Elimination:
    """Return the graph in which parallel edges have the highest of their levels instead of the level of their sum.

    Two edges with the label 1 become a constant only when they are added, which a program need not do. Known numbers
    some of which add up to ±1 may cost nothing, so they have the level of ±1. So bounds on the returned graph hold for
    every program.
    """
    state = Elimination.of(graph, objective, deadline)
    highest: dict[tuple[int, int], int] = {}
    for j, i, kind in zip(graph.sources.tolist(), graph.targets.tolist(), graph.kinds.tolist(), strict=True):
        highest[j, i] = max(highest.get((j, i), 0), LEVELS[Kind(kind)])
    for pair, group in graph.constant_sums.items():
        if _has_unit_sum([value for _, value in group]):
            highest[pair] = 1
    edges = [(j, i, highest[j, i]) for j, row in enumerate(state.successors) for i in row]
    return Elimination(edges, state.sizes, state.intermediates, objective, deadline, state.dead)


def _has_unit_sum(values: Sequence[float]) -> bool:
    """Return False only if no sum of some of these numbers is ±1, in whatever order they are added."""
    sums = (sum(some) for count in range(1, len(values) + 1) for some in combinations(values, count))
    return len(values) > _MOST_PARALLEL or any(math.isclose(abs(total), 1.0) for total in sums)


# Bracketing bound ----------------------------------------------------------------------------------------------------


#: Largest number of columns of the linear program: triples of positions on a path. Larger programs take minutes,
#: smaller ones give weaker bounds.
MOST_COLUMNS: Final = 40_000
#: Seconds of work for each column, and for each pair of columns. Estimates above the true time give up programs,
#: estimates below exceed the work.
_COLUMN: Final = (7e-6, 7e-9)
#: Largest number of columns of the integer program, whose first relaxation is solved by the simplex method, and of its
#: nodes. More take time, fewer give up bounds of a part that are not integers.
_MOST_WHOLE: Final = 6_000
_MOST_NODES: Final = 1_000_000
#: SciPy's status of a program that reached its iteration or time limit.
_TIME: Final = 1
#: Largest number of paths that are enumerated completely, and of their splits for each column of the program: more take
#: time and memory, fewer leave a random selection, whose bound is weaker.
_MOST_PATHS: Final = 10_000
_SPLITS: Final = 50
#: Number of random paths of a selection, and of consecutive ones that are known or too long, after which the search for
#: paths ends. More take time for the last paths, fewer leave paths, and a weaker bound.
_RANDOM_PATHS: Final = 3_000
_MOST_MISSES: Final = 200
#: Paths that are added at once, as a fraction of those that are there, and at least. More make the linear program
#: larger than necessary, fewer solve it more often.
_ADDED: Final = (0.25, 10)
#: Smallest part of a triple that a path must lack to be added, and largest fraction of its triples that it may share
#: with others that are added. A larger deficit leaves paths, a smaller one adds paths that change nothing; a larger
#: fraction adds paths that say the same, a smaller one adds too few.
_DEFICIT: Final = 0.3
_SHARED: Final = 0.5
#: Part of the bound, as a fraction of the largest cost, below which a path leaves the program. With a larger one, paths
#: that matter leave and come back, with a smaller one, paths of which rounding leaves something stay, and programs
#: grow.
_NOTHING: Final = 1e-7
#: Absolute and relative errors of sums of prices, and of the solver's bound. Larger ones weaken bounds, smaller ones
#: may claim more than is proven.
_ROUNDING: Final = (1e-6, 1e-9)
_TOLERANCE: Final = (1e-4, 1e-6)


#: Key and number of the triple of products that cost nothing.
_NO_TRIPLE: Final = -1
_FREE: Final = 0


class Brackets:
    """The bracketing bound of an independent part, from more and more paths.

    Args:
        state: graph before any elimination.
        intermediates: vertices of the part.
        columns: largest number of columns of a program: triples, and splits of paths.

    Attributes:
        bound: the best bound so far.
    """

    def __init__(self, state: Elimination, intermediates: Sequence[int], columns: int = MOST_COLUMNS) -> None:
        self._state, self._most, self.bound = state, columns, 0
        #: True if no path would raise the bound.
        self._is_complete = False
        first, others = paths_to_bracket(state, intermediates, _SPLITS * columns)
        by_length: dict[int, list[tuple[int, ...]]] = {}
        for path in (*first, *others):
            by_length.setdefault(len(path) - 1, []).append(path)
        keys = [self._keys(np.array(paths, np.int64)) for paths in by_length.values()]
        count, sizes = len(state.sizes), np.array(state.sizes, np.int64)
        known, numbers = np.unique(np.concatenate([[_NO_TRIPLE], *map(np.ravel, keys)]), return_inverse=True)
        ends = np.cumsum([1, *map(np.size, keys)])
        self._groups = []
        for (length, paths), of_paths, end in zip(by_length.items(), keys, ends[:-1], strict=True):
            group = _Paths(length, numbers[end : end + of_paths.size].reshape(of_paths.shape))
            group.chosen[: sum(path in first for path in paths)] = True
            self._groups.append(group)
        costs = sizes[known // count**2] * sizes[known // count % count] * sizes[known % count]
        costs[_FREE] = 0
        self._costs = costs.astype(float)
        #: Greatest common divisor of all costs.
        self._unit = int(np.gcd.reduce(costs)) or 1

    def improve(self, work: Callable[[], float]) -> Iterator[int]:
        """Raise the bound by programs of more and more paths, from those of the last call on; yield it after each.

        Args:
            work: function that returns the largest number of seconds of work for the next program.

        Raises:
            OutOfTimeError: if the deadline passes first.
        """
        deadline = self._state.deadline
        while not self._is_complete and any(group.chosen.any() for group in self._groups):
            deadline.check()
            if sum(int(group.chosen.sum()) * group.triples.shape[1] for group in self._groups) > self._most:
                return  # its matrices alone would take longer than a brief proof
            program = _Program(self._groups, self._costs)
            seconds = _COLUMN[0] * program.columns + _COLUMN[1] * program.columns**2
            if program.columns > self._most or seconds > work():
                return
            deadline.spend(seconds)
            relaxed = program.relaxed(deadline)
            if relaxed is None:
                return
            x, parts = relaxed
            self._raise(sum(float(part.sum()) for part in parts), _ROUNDING)
            yield self.bound
            chosen = [group for group in self._groups if group.chosen.any()]
            for group, part in zip(chosen, parts, strict=True):
                group.chosen[np.flatnonzero(group.chosen)[part < _NOTHING * self._costs.max()]] = False
            if not self._add(x):
                self._is_complete = True
                nodes = min(int(work() / seconds), _MOST_NODES)
                if nodes and program.columns <= _MOST_WHOLE:
                    bound, nodes = program.whole(deadline, nodes)
                    deadline.spend(seconds * nodes)
                    self._raise(bound, _TOLERANCE)
                    yield self.bound
                return

    def _raise(self, value: float, errors: tuple[float, float]) -> None:
        below = value - max(errors[0], errors[1] * value)
        self.bound = max(self.bound, math.ceil(below / self._unit) * self._unit)

    def _keys(self, paths: Integers) -> Integers:
        """Return keys of the triples of paths of equal length, shape (paths, splits)."""
        state, count = self._state, len(self._state.sizes)
        levels = np.array([[state.successors[j][i] for j, i in pairwise(path)] for path in paths.tolist()], np.int64)
        keys = np.empty((len(paths), len(_splits(levels.shape[1]))), np.int64)
        for k, (a, m, b) in enumerate(_splits(levels.shape[1])):
            keys[:, k] = (paths[:, a] * count + paths[:, m]) * count + paths[:, b]
            if not state.objective.every_product:
                left, right = levels[:, a:m].max(axis=1), levels[:, m:b].max(axis=1)
                keys[np.minimum(left, right) == 1, k] = keys[(left == 2) & (right == 2), k] = _NO_TRIPLE
        return keys

    def _add(self, x: NDArray[np.float64]) -> bool:
        """Add those paths to the program that the triples in x bracket worst; return False if there are none."""
        lacking = []
        for number, group in enumerate(self._groups):
            deficits = least_bracketings(1.0 - x[group.triples], group.length)
            deficits[group.chosen] = 0.0
            lacking += [(-deficits[k], number, k) for k in np.flatnonzero(deficits > _DEFICIT).tolist()]
        most = max(_ADDED[1], int(_ADDED[0] * sum(int(group.chosen.sum()) for group in self._groups)))
        taken = np.zeros(len(x), bool)
        for _, number, k in sorted(lacking):
            group = self._groups[number]
            missing = group.triples[k][x[group.triples[k]] < 0.5]
            if taken[missing].sum() <= _SHARED * len(missing):
                taken[missing] = group.chosen[k] = True
                most -= 1
            if not most:
                break
        return bool(lacking)


class _Paths:
    """Paths of equal length.

    Args:
        length: number of edges of a path, at least 2.
        triples: numbers of the triples, shape (paths, splits).

    Attributes:
        chosen: mask of the paths of the program.
    """

    def __init__(self, length: int, triples: Integers) -> None:
        self.length, self.triples = length, triples
        self.chosen = np.zeros(len(triples), bool)


class _Program:
    """Linear or integer program of the chosen paths.

    Its columns are the triples, then the splits of all paths.

    Args:
        groups: the paths.
        costs: costs of the triples.
    """

    def __init__(self, groups: Sequence[_Paths], costs: NDArray[np.float64]) -> None:
        from scipy.sparse import block_diag, csr_array, eye_array, hstack, kron

        self._groups = [(group.length, group.triples[group.chosen]) for group in groups if group.chosen.any()]
        splits = np.concatenate([triples.ravel() for _, triples in self._groups])
        #: Splits that cost something, and the columns of their triples.
        self._priced = np.flatnonzero(splits != _FREE)
        self._triples, self._column = np.unique(splits[self._priced], return_inverse=True)
        self._size, self._costs = len(costs), costs[self._triples]
        self.columns = len(self._triples) + len(splits)
        # each path is formed, and so is each part that is joined to another
        parts = [kron(eye_array(len(triples)), _parts(length)) for length, triples in self._groups]
        formed = csr_array(block_diag(parts))
        self._formed = csr_array(hstack([csr_array((formed.shape[0], len(self._triples))), formed]))
        self._ends = np.concatenate([np.tile(_ends(length), len(triples)) for length, triples in self._groups])
        # a split needs its triple
        each, ones = np.arange(len(self._priced)), np.ones(len(self._priced))
        used = csr_array((ones, (each, self._priced)), shape=(len(each), len(splits)))
        there = csr_array((ones, (each, self._column)), shape=(len(each), len(self._triples)))
        self._covered = csr_array(hstack([-there, used]))

    def relaxed(self, deadline: Deadline) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]] | None:
        """Solve the linear relaxation.

        Returns:
            The fraction of each triple, 1 for the free one, and for each group the parts of the bound that the prices
            of its paths prove; None if the program is not solved in time.
        """
        from scipy.optimize import linprog

        scale, cost = self._objective()
        covered: Any = self._covered
        formed: Any = self._formed
        result: Any = linprog(
            cost,
            covered,
            np.zeros(len(self._priced)),
            formed,
            self._ends.astype(float),
            method="highs-ipm",
            options={"time_limit": deadline.clock_left / 2},
        )
        if result.status == _TIME:
            deadline.cut()
        if result.x is None:
            return None
        x = np.zeros(self._size)
        x[self._triples] = np.clip(result.x[: len(self._triples)], 0.0, 1.0)
        x[_FREE] = 1.0
        return x, self._proven(-scale * result.ineqlin.marginals)

    def whole(self, deadline: Deadline, nodes: int) -> tuple[float, int]:
        """Return the bound of the integer program, or 0, and the number of nodes of the search."""
        from scipy.optimize import LinearConstraint, milp

        scale, cost = self._objective()
        result: Any = milp(
            cost,
            integrality=(np.arange(self.columns) < len(self._triples)).astype(np.int64),
            constraints=[
                LinearConstraint(self._covered, -np.inf, 0.0),
                LinearConstraint(self._formed, self._ends, self._ends),
            ],
            options={"time_limit": deadline.clock_left / 2, "node_limit": nodes, "mip_rel_gap": 0.0},
        )
        if result.status == _TIME:
            deadline.cut()
        bound = result.mip_dual_bound
        return 0.0 if bound is None or not math.isfinite(bound) else scale * bound, max(1, result.mip_node_count or 1)

    def _objective(self) -> tuple[float, NDArray[np.float64]]:
        """Return the largest cost, and the costs of all columns as fractions of it."""
        scale = max(1.0, self._costs.max(initial=0.0))
        return scale, np.concatenate([self._costs / scale, np.zeros(self.columns - len(self._costs))])

    def _proven(self, prices: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return what each path adds to the bound by prices of splits, which are lowered to the costs of triples."""
        prices = np.maximum(prices, 0.0)
        total = np.bincount(self._column, prices, len(self._triples))
        prices *= (self._costs / np.maximum(total, self._costs))[self._column]
        of_all = np.zeros(self.columns - len(self._triples))
        of_all[self._priced] = prices
        ends = np.cumsum([triples.size for _, triples in self._groups])
        groups = zip(self._groups, np.split(of_all, ends[:-1]), strict=True)
        return [least_bracketings(prices.reshape(triples.shape), length) for (length, triples), prices in groups]


@cache
def _splits(length: int) -> list[tuple[int, int, int]]:
    """Return the splits (a, m, b) of a path into parts from position a to m and from m to b, short ones first."""
    starts = [(a, a + width) for width in range(2, length + 1) for a in range(length + 1 - width)]
    return [(a, m, b) for a, b in starts for m in range(a + 1, b)]


@cache
def _parts(length: int) -> Any:
    """Return a sparse matrix, parts by splits: +1 if the split forms the part, −1 if it joins the part to another."""
    from scipy.sparse import csr_array

    number: dict[tuple[int, int], int] = {}
    entries = []
    for k, (a, m, b) in enumerate(_splits(length)):
        entries.append((number.setdefault((a, b), len(number)), k, 1.0))
        entries += [(number[part], k, -1.0) for part in ((a, m), (m, b)) if part in number]
    rows, columns, values = zip(*entries, strict=True)
    return csr_array((values, (rows, columns)), shape=(len(number), len(_splits(length))))


def _ends(length: int) -> NDArray[np.bool_]:
    """Return for each part of a path whether it is the path itself, which comes last."""
    parts = np.zeros(length * (length - 1) // 2, bool)
    parts[-1] = True
    return parts


def least_bracketings(costs: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Return the cost of the cheapest bracketing of each path.

    Args:
        costs: costs of the splits of each path, shape (paths, splits).
        length: number of edges of the paths.
    """
    best: dict[tuple[int, int], Any] = {}
    for k, (a, m, b) in enumerate(_splits(length)):
        total = costs[:, k] + best.get((a, m), 0.0) + best.get((m, b), 0.0)
        best[a, b] = np.minimum(best[a, b], total) if (a, b) in best else total
    result: NDArray[np.float64] = best[0, length]
    return result


# Paths ---------------------------------------------------------------------------------------------------------------


def paths_to_bracket(
    state: Elimination, intermediates: Sequence[int], splits: int
) -> tuple[dict[tuple[int, ...], None], list[tuple[int, ...]]]:
    """Return disjoint paths through each vertex of a part, and all other paths, or random ones if they are too many.

    Args:
        state: graph before any elimination.
        intermediates: vertices of the part.
        splits: largest number of splits of all paths.
    """
    first = dict[tuple[int, ...], None]()
    for _, _, _, path in disjoint_pairs(state, intermediates):
        if path not in first and (count := _count_splits(path)) <= splits:
            splits -= count
            first[path] = None
    complete = all_paths(state, intermediates, splits)
    if complete is not None:
        return first, [path for path in complete if path not in first]
    others: dict[tuple[int, ...], None] = {}
    rng, misses = random.Random(len(intermediates)), 0
    while misses < _MOST_MISSES and len(others) < _RANDOM_PATHS:
        state.deadline.check()
        path = _random_path(state, rng.choice(intermediates), rng)
        if path in first or path in others or _count_splits(path) > splits:
            misses += 1
            continue
        misses = 0
        splits -= _count_splits(path)
        others[path] = None
    return first, list(others)


def _random_path(state: Elimination, v: int, rng: random.Random) -> tuple[int, ...]:
    up, down = [v], [v]
    while state.predecessors[up[-1]]:
        up.append(rng.choice(tuple(state.predecessors[up[-1]])))
    while state.successors[down[-1]]:
        down.append(rng.choice(tuple(state.successors[down[-1]])))
    return (*reversed(up), *down[1:])


def all_paths(state: Elimination, intermediates: Iterable[int], splits: int) -> list[tuple[int, ...]] | None:
    """Return all paths through a part; None if they are too many or have too many splits."""
    inner = set(intermediates)
    paths: list[tuple[int, ...]] = []
    roots = sorted({j for v in inner for j in state.predecessors[v] if not state.predecessors[j]})
    stack: list[tuple[int, ...]] = [(root,) for root in reversed(roots)]
    looked_at = 0
    while stack:
        path = stack.pop()
        state.deadline.check()
        looked_at += 1
        below = state.successors[path[-1]]
        if not below:
            paths.append(path)
            splits -= _count_splits(path)
        if splits < 0 or looked_at > _MOST_PATHS * 4 or len(paths) > _MOST_PATHS:
            return None
        stack += [(*path, s) for s in below if s in inner or (len(path) > 1)]
    return paths


def _count_splits(path: Sequence[int]) -> int:
    length = len(path)
    return length * (length - 1) * (length - 2) // 6
