"""Lower bounds on the cost of every accumulation: from disjoint paths, and from brackets.

**Flows.** A maximum flow counts the disjoint paths from a vertex to the roots, or to the terminals.

The capacity of every other vertex is its size. By Menger's theorem the flow equals the weight of the lightest set of
vertices that separates the vertex from the roots or terminals (Ford and Fulkerson 1956; shortest augmenting paths:
Edmonds and Karp 1972). The cost of a product depends on the labels at the vertex itself, so the edges that leave it are
added in groups, by level. Augmentation never removes the flow through an edge of an earlier group, so each group adds
to the previous ones.

Time: O(edges) for every augmenting path; if all sizes are 1, the augmenting paths are as many as the disjoint paths.

**Lemma.** Let p₁ … p_a be paths from roots to an intermediate vertex v, and q₁ … q_b paths from v to terminals, such
that no two of the p share a vertex but v, and no two of the q. Then at least a·b products join labels at v.

*Proof.* For every i and j, the path p_i q_j is a term of the Jacobian. At some step the part of the path that ends in v
is multiplied by the part that starts there. Let the left factor start at u, and let the right factor end at w. All
paths in a factor have the same two ends. Since u lies on p_i and on no other p, it determines i, and w determines j. So
the a·b pairs need different products. ∎

The proof uses only that a product joins, at one vertex, a sum of paths that end there with a sum of paths that start
there. So the bound holds for vertex, edge and face elimination, and also for programs that split vertices, share, and
factor. A maximum flow gives the number of disjoint paths. With vector-valued vertices, a vertex of size s carries up to
s paths of unit width, and a product u–v–w, which costs the product of the three sizes, serves size(u)·size(w) pairs. So
the bound is size(v) times both flows. If products with ±1 and of two constants are free, only pairs count whose labels
at v make the product cost: a label that includes a variable edge is a variable, and a label that includes an edge other
than ±1 is not ±1. A flow that prefers variable edges, then constants, maximises both numbers.

The bound is the sum over all v. Lower bounds of this kind for vertex and edge elimination go back to Mosenkis and
Naumann, On lower bounds for optimal Jacobian accumulation (2018).

Exact flows take O(vertices · edges · width). Graphs beyond `FLOW_WORK` get forests instead: every vertex follows one
edge up and one edge down, so the neighbours of v that lead to different roots start disjoint paths. Forests take linear
time, and the bound is slightly weaker.

**Bracketing bound.** A stronger lower bound, also for every program, is the smallest cost of products that bracket all
paths.

Every path from a root to a terminal is a term of the Jacobian, and every program multiplies its labels in some order:
it brackets the path. The product that joins the part from u to v with the part from v to w belongs to the triple
(u, v, w), and costs size(u)·size(v)·size(w), however many other paths it serves. So a program costs at least as much as
the cheapest set of triples that brackets each path. Any set of paths gives a bound, and the set of all paths gives the
best. If products with ±1 and of two constants are free, they need no triple.

The bound is an integer program. x = 1 for each triple of the set. For each path p₀ … p_L, y_ab = 1 if its part from p_a
to p_b is formed, and z_amb = 1 if that part is formed by joining at p_m:

    y_0L = 1,   y_ab = Σ_m z_amb,   y_ab = Σ of the z that join it to another part,   z_amb ≤ x(p_a, p_m, p_b)

Only x has to be integer, since every fractional y and z is a combination of bracketings. HiGHS (Huangfu and Hall 2018)
solves the program through SciPy, in double precision. Its dual bound is also valid if it runs out of nodes or time. The
bound is lowered by a millionth, and by at least 10⁻⁴, and then rounded up to the next possible sum of costs.

A program may need several products for one triple, and a set of triples need not come from an elimination, so the bound
can be below the optimum. It equals the optimum for the "lion" and the "bat" graphs of the literature.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.vertex import LEVELS
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.graphs.traversal import topological_order

#: Levels of labels in the order in which a flow prefers them.
_GROUPS: Final = {Objective.FMA: ((1, 2, 3),), Objective.MULTIPLICATIONS: ((3,), (2,))}

#: For each vertex the levels of its labels by neighbour; see `accumulus.search.elimination`.
Neighbours = Sequence[Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Path:
    """A path of a flow, from a vertex to a root or terminal.

    Attributes:
        vertices: vertices of the path after the first.
        width: flow along the path.
        level: level of the label of the first edge.
    """

    vertices: tuple[int, ...]
    width: int
    level: int


def disjoint_paths(state: Elimination, v: int, neighbours: Neighbours) -> list[Path]:
    """Return a maximum flow from a vertex to the roots or terminals, as paths; a vertex's capacity is its size.

    Unless every product counts, no path leaves v through an edge with the label ±1.

    Args:
        state: graph of the paths.
        v: first vertex of the paths.
        neighbours: predecessors of every vertex for paths to the roots, successors for paths to the terminals.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    flow = _Flow(v, neighbours, state.sizes)
    for levels in _GROUPS[state.objective.of_eliminations]:
        firsts = [u for u, level in neighbours[v].items() if level in levels]
        flow.fill(firsts)
        while flow.augment(firsts):
            state.deadline.check()
    return flow.paths()


class _Flow:
    """A flow from `start`; a vertex u has two nodes, 2u for the incoming and 2u + 1 for the outgoing flow."""

    def __init__(self, start: int, neighbours: Neighbours, sizes: Sequence[int]) -> None:
        self.start, self.neighbours, self.sizes = start, neighbours, sizes
        self.through: dict[int, int] = {}
        #: Flow into each vertex, by the previous vertex.
        self.into: dict[int, dict[int, int]] = {}

    def fill(self, firsts: Iterable[int]) -> None:
        """Push flow to all roots or terminals among `firsts`: the shortest augmenting paths."""
        for u in firsts:
            capacity = self.sizes[u] - self.through.get(u, 0)
            if capacity and not self.neighbours[u]:
                self._add(u, self.start, capacity)
                self.through[u] = self.sizes[u]

    def augment(self, firsts: Iterable[int]) -> bool:
        """Push flow along a shortest augmenting path that starts with one of `firsts`; return False if none exists."""
        came_from: dict[int, int] = {2 * u: -1 for u in firsts}
        queue = deque(came_from)
        while queue:
            node = queue.popleft()
            u = node >> 1
            if node & 1:
                if not self.neighbours[u]:
                    self._push(node, came_from)
                    return True
                steps = [2 * w for w in self.neighbours[u]]
                if self.through.get(u, 0):
                    steps.append(2 * u)
            else:
                steps = [2 * w + 1 for w in self.into.get(u, ()) if w != self.start]
                if self.through.get(u, 0) < self.sizes[u]:
                    steps.append(2 * u + 1)
            for step in steps:
                if step not in came_from:
                    came_from[step] = node
                    queue.append(step)
        return False

    def _push(self, last: int, came_from: Mapping[int, int]) -> None:
        nodes = [last]
        while nodes[-1] >= 0:
            nodes.append(came_from[nodes[-1]])
        nodes = nodes[-2::-1]
        amount = min(self._capacity(a, b) for a, b in pairwise(nodes))
        self._add(nodes[0] >> 1, self.start, amount)
        for a, b in pairwise(nodes):
            u, w = a >> 1, b >> 1
            if u == w:
                self.through[u] = self.through.get(u, 0) + (amount if b & 1 else -amount)
            elif b & 1:
                self._add(u, w, -amount)
            else:
                self._add(w, u, amount)

    def _capacity(self, a: int, b: int) -> int:
        u, w = a >> 1, b >> 1
        if u == w:
            return self.sizes[u] - self.through.get(u, 0) if b & 1 else self.through[u]
        return self.into[u][w] if b & 1 else self.sizes[w]

    def _add(self, u: int, origin: int, amount: int) -> None:
        row = self.into.setdefault(u, {})
        row[origin] = row.get(origin, 0) + amount
        if not row[origin]:
            del row[origin]

    def paths(self) -> list[Path]:
        """Return the decomposition of the flow into paths; there are no cycles, since the graph is acyclic."""
        out: dict[int, dict[int, int]] = {}
        for u, row in self.into.items():
            for origin, amount in row.items():
                out.setdefault(origin, {})[u] = amount
        flow_paths = []
        while out.get(self.start):
            vertices = [self.start]
            while self.neighbours[vertices[-1]]:
                vertices.append(next(iter(out[vertices[-1]])))
            hops = list(pairwise(vertices))
            width = min(out[a][b] for a, b in hops)
            for a, b in hops:
                out[a][b] -= width
                if not out[a][b]:
                    del out[a][b]
            flow_paths.append(Path(tuple(vertices[1:]), width, self.neighbours[self.start][vertices[1]]))
        return flow_paths


# Flow bound ----------------------------------------------------------------------------------------------------------


#: Product of vertices and edges up to which flows are exact: a larger one takes seconds on large graphs, a smaller one
#: leaves weaker bounds.
FLOW_WORK: Final = 200_000
#: Largest number of edges that all forests together visit, and largest number of forests. More take time, fewer leave
#: weaker bounds.
_FOREST_WORK: Final = 400_000
_MOST_FORESTS: Final = 8
#: Number of parallel edges up to which the sums of their labels are tried. Each further edge doubles the sums, each one
#: fewer weakens the bound.
_MOST_PARALLEL: Final = 8
#: Seconds of work for each edge in the flow from a vertex, or in a forest. Estimates above the true time give up
#: bounds, estimates below exceed the work.
_FOLLOW: Final = 1e-6


class Ways(NamedTuple):
    """Numbers of disjoint paths from a vertex to the roots or terminals, by the label of their first edge."""

    variable: int
    nonunit: int


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
    return sum(least_costs(unmerged(graph, objective, deadline), flow_work=flow_work).values())


def least_costs(
    state: Elimination,
    vertices: Iterable[int] | None = None,
    flow_work: int = FLOW_WORK,
) -> dict[int, int]:
    """Return for each vertex a lower bound on the cost of the products at it, in any elimination of the graph.

    Args:
        state: graph in its present state.
        vertices: remaining intermediates; by default all intermediates of the state.
        flow_work: product of vertices and edges up to which flows are exact.
    """
    chosen = state.intermediates if vertices is None else tuple(vertices)
    edges = sum(map(len, state.successors))
    if len(chosen) * edges <= flow_work:
        exact = {}
        for v in chosen:
            state.deadline.spend(_FOLLOW * edges)
            above, below = (
                ways(disjoint_paths(state, v, near), state.objective) for near in (state.predecessors, state.successors)
            )
            exact[v] = pair_cost(state.sizes[v], above, below)
        return exact
    # vertices with edges, dependencies first
    waiting = {v: len(below) for v, below in enumerate(state.successors) if below or state.predecessors[v]}
    order = topological_order(waiting, state.predecessors.__getitem__)
    costs = dict.fromkeys(chosen, 0)
    for k in range(max(1, min(_MOST_FORESTS, _FOREST_WORK // max(1, edges)))):
        state.deadline.check(_FOLLOW * edges)
        rng = random.Random(k)
        to_roots = _forest_ways(order[::-1], state.predecessors, state, rng)
        to_terminals = _forest_ways(order, state.successors, state, rng)
        for v in chosen:
            costs[v] = max(costs[v], pair_cost(state.sizes[v], to_roots[v], to_terminals[v]))
    return costs


def disjoint_pairs(
    state: Elimination, intermediates: Iterable[int]
) -> Iterator[tuple[int, Path, Path, tuple[int, ...]]]:
    """Yield for each vertex all pairs of a disjoint path up and one down, and the joined path from root to terminal."""
    for v in intermediates:
        below = disjoint_paths(state, v, state.successors)
        for p in disjoint_paths(state, v, state.predecessors):
            for q in below:
                yield v, p, q, (*reversed(p.vertices), v, *q.vertices)


def ways(paths: Iterable[Path], objective: Objective) -> Ways:
    """Return the total widths of the paths by the levels of their first edges."""
    variable = nonunit = 0
    for path in paths:
        nonunit += path.width
        if path.level == 3 or objective.every_product:
            variable += path.width
    return Ways(variable, nonunit)


def pair_cost(size: int, above: Ways, below: Ways) -> int:
    """Return the cost of the pairs of paths through a vertex of this size."""
    return size * (above.variable * below.nonunit + (above.nonunit - above.variable) * below.variable)


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
    for j, row in enumerate(state.successors):
        for i in row:
            row[i] = state.predecessors[i][j] = highest[j, i]
    return state


def _has_unit_sum(values: Sequence[float]) -> bool:
    """Return False only if no sum of some of these numbers is ±1, in whatever order they are added."""
    sums = (sum(some) for count in range(1, len(values) + 1) for some in combinations(values, count))
    return len(values) > _MOST_PARALLEL or any(math.isclose(abs(total), 1.0) for total in sums)


def _forest_ways(
    order: Sequence[int], neighbours: Neighbours, state: Elimination, rng: random.Random
) -> dict[int, Ways]:
    """Return the numbers of disjoint paths along a random forest; the roots or terminals come first in the order."""
    sizes, fma = state.sizes, state.objective.every_product
    tree: dict[int, int] = {}
    width: dict[int, int] = {}
    forest = {}
    for v in order:
        row = neighbours[v]
        if not row:
            tree[v], width[v] = v, sizes[v]
            continue
        parent = rng.choice(tuple(row))
        tree[v], width[v] = tree[parent], min(width[parent], sizes[v])
        # the best path into each tree: through a variable label if there is one, then the widest
        best: dict[int, tuple[bool, int]] = {}
        for u, level in row.items():
            if level == 1 and not fma:
                continue
            way = (fma or level == 3, width[u])
            if way > best.get(tree[u], (False, 0)):
                best[tree[u]] = way
        variable = sum(wide for varies, wide in best.values() if varies)
        forest[v] = Ways(variable, sum(wide for _, wide in best.values()))
    return forest


# Bracketing bound ----------------------------------------------------------------------------------------------------


#: Largest number of columns of the integer program for all paths: triples of positions on a path. Programs with more
#: columns may not be solved in time, those with fewer give weaker bounds.
MOST_COLUMNS: Final = 60_000
#: Seconds of work for each row, and for each pair of rows; nearly all programs are solved at their first node.
#: Estimates above the true time give up programs, estimates below exceed the work.
_ROW: Final = (3e-5, 1e-9)
_MOST_NODES: Final = 1_000_000
#: SciPy's status of a program that reached its iteration or time limit.
_TIME: Final = 1
#: Largest number of paths that are enumerated completely: more take time and memory, fewer leave a random selection,
#: whose bound is weaker.
_MOST_PATHS: Final = 3_000
#: Number of consecutive random paths that are known or too long, after which the search for paths ends. More take time
#: for the last paths, fewer leave paths, and a weaker bound.
_MOST_MISSES: Final = 200
#: Absolute and relative error of the solver's bound; the larger one is subtracted. Larger ones weaken bounds, smaller
#: ones may claim more than the solver has proven.
_TOLERANCE: Final = 1e-4
_RELATIVE: Final = 1e-6


def bracketing_bound(
    state: Elimination, intermediates: Sequence[int], work: float, columns: int = MOST_COLUMNS, *, partial: bool = True
) -> int:
    """Return a lower bound on the products at the vertices of an independent part, in any program.

    Args:
        state: graph before any elimination.
        intermediates: vertices of the part.
        work: largest number of seconds of work for the integer program, estimated from its number of rows.
        columns: largest number of columns of the integer program for the paths.
        partial: if True, leave out paths that do not fit; if False, return 0 unless all paths fit.
    """
    paths = chosen_paths(state, intermediates, columns) if partial else all_paths(state, intermediates, columns)
    program = _Program(state)
    for path in () if paths is None or work <= 0 else paths:
        state.deadline.check()
        program.add(path)
    node_work = _ROW[0] * len(program.low) + _ROW[1] * len(program.low) ** 2
    if not program.rows or node_work > work:
        return 0
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    cost = np.array(program.cost, float)
    scale = max(1.0, cost.max())
    matrix = csr_array((program.values, (program.rows, program.columns)), shape=(len(program.low), len(cost)))
    result: Any = milp(
        cost / scale,
        integrality=np.array(program.whole),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, np.array(program.low), np.array(program.high)),
        options={
            "time_limit": state.deadline.clock_left / 2,
            "node_limit": int(min(work / node_work, _MOST_NODES)),
            "mip_rel_gap": 0.0,
        },
    )
    state.deadline.spend(node_work * max(1, result.mip_node_count or 1))
    if result.status == _TIME:
        state.deadline.cut()
    bound = result.mip_dual_bound
    if bound is None or not math.isfinite(bound):
        return 0
    # costs are multiples of their greatest common divisor
    common = math.gcd(*program.cost) or 1
    total = bound * scale
    rounded: int = math.ceil((total - max(_TOLERANCE, _RELATIVE * total)) / common) * common
    return max(0, rounded)


def chosen_paths(state: Elimination, intermediates: Sequence[int], columns: int) -> list[tuple[int, ...]]:
    """Return paths from roots to terminals through a part of the graph.

    If there are too many paths, return disjoint paths through each vertex, then random paths up to the limit.
    """
    complete = all_paths(state, intermediates, columns)
    if complete is not None:
        return complete
    chosen: dict[tuple[int, ...], None] = {}
    for _, _, _, path in disjoint_pairs(state, intermediates):
        if path not in chosen and _columns(path) <= columns:
            columns -= _columns(path)
            chosen[path] = None
    rng, misses = random.Random(len(intermediates)), 0
    while misses < _MOST_MISSES:
        state.deadline.check()
        path = _random_path(state, rng.choice(intermediates), rng)
        if path in chosen or _columns(path) > columns:
            misses += 1
            continue
        misses = 0
        columns -= _columns(path)
        chosen[path] = None
    return list(chosen)


def _random_path(state: Elimination, v: int, rng: random.Random) -> tuple[int, ...]:
    up, down = [v], [v]
    while state.predecessors[up[-1]]:
        up.append(rng.choice(tuple(state.predecessors[up[-1]])))
    while state.successors[down[-1]]:
        down.append(rng.choice(tuple(state.successors[down[-1]])))
    return (*reversed(up), *down[1:])


def all_paths(state: Elimination, intermediates: Iterable[int], columns: int) -> list[tuple[int, ...]] | None:
    """Return all paths through a part; None if they are too many or need too many columns."""
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
            columns -= _columns(path)
        if columns < 0 or looked_at > _MOST_PATHS * 4 or len(paths) > _MOST_PATHS:
            return None
        stack += [(*path, s) for s in below if s in inner or (len(path) > 1)]
    return paths


def _columns(path: Sequence[int]) -> int:
    length = len(path)
    return length * (length - 1) * (length - 2) // 6


class _Program:
    """Integer program of the bracketing bound, built path by path."""

    def __init__(self, state: Elimination) -> None:
        self.state = state
        self.cost: list[int] = []
        self.whole: list[int] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self._triples: dict[tuple[int, int, int], int] = {}

    def add(self, path: Sequence[int]) -> None:
        """Add the constraints of a path's bracketing."""
        last = len(path) - 1
        levels = [self.state.successors[j][i] for j, i in pairwise(path)]
        formed: dict[tuple[int, int], list[int]] = {}
        used: dict[tuple[int, int], list[int]] = {}
        for width in range(2, last + 1):
            for a in range(last + 1 - width):
                b = a + width
                for m in range(a + 1, b):
                    z = self._column(0, 0)
                    formed.setdefault((a, b), []).append(z)
                    for inner in ((a, m), (m, b)):
                        if inner[1] - inner[0] > 1:
                            used.setdefault(inner, []).append(z)
                    left, right = max(levels[a:m]), max(levels[m:b])
                    is_free = left == 1 or right == 1 or left == right == 2
                    if self.state.objective.every_product or not is_free:
                        self._row({z: -1.0, self._triple(path[a], path[m], path[b]): 1.0}, 0.0, math.inf)
        for ends, columns in formed.items():
            row = dict.fromkeys(columns, 1.0)
            if ends == (0, last):
                self._row(row, 1.0, 1.0)
            else:
                self._row(row | dict.fromkeys(used[ends], -1.0), 0.0, 0.0)

    def _triple(self, u: int, v: int, w: int) -> int:
        if (u, v, w) not in self._triples:
            sizes = self.state.sizes
            self._triples[u, v, w] = self._column(sizes[u] * sizes[v] * sizes[w], 1)
        return self._triples[u, v, w]

    def _column(self, cost: int, whole: int) -> int:
        self.cost.append(cost)
        self.whole.append(whole)
        return len(self.cost) - 1

    def _row(self, entries: dict[int, float], low: float, high: float) -> None:
        self.rows += [len(self.low)] * len(entries)
        self.columns += entries
        self.values += entries.values()
        self.low.append(low)
        self.high.append(high)
