"""Reductions of a graph that keep the least cost: of vertex orders, and of every program.

**For orders.** These come before the search for a vertex elimination.

* Vertices and edges that lie on no path from a root to a terminal are left out, and parallel edges are merged
  (`Elimination` does both).
* **Parts.** Intermediates that are not joined by a path through intermediates are independent: each connected part has
  its own optimal order.
* **Series** (`_is_series`). A vertex v with one predecessor u and one successor w is eliminated, if the sizes allow it.
  Let i and j be the labels ⟨u,v⟩ and ⟨v,w⟩, and let A·i and j·B be the labels that an order makes of them before v is
  eliminated. If k = i·j is made first, A·i becomes A·k, j·B is not needed, and (A·i)·(j·B) becomes (A·k)·B. The saved
  products pay for k: the order makes some j·B, or multiplies every A·i by j. This needs size(w) ≤ size(v) and
  size(u) = 1, or the same with u and w exchanged. If products with ±1 and of two constants are free, both labels have
  to be constant, or both variable, and size(u) = size(w) = 1 (with other sizes, a factor ±1 may save less).
* **Copies** (`_is_copy`). Suppose that products with ±1 are free. A vertex v is eliminated if its only label on one
  side is ±1, to a vertex u that is no larger, and no label on the other side is ±1. Any A·i becomes A, and j·B becomes
  (i·j)·B, at equal cost. (If there were labels ±1 on both sides, u would get a label ±1. A later sum could turn it into
  another constant, whose products are not free, so it can be cheaper to wait.)
* **Ends** (`_is_at_end`). A vertex v whose dependents are all roots is eliminated if its cost equals its lower bound
  (from disjoint paths, `accumulus.theory.flows`), and the roots together are no larger than v. After earlier
  eliminations, any other vertex has the roots in place of v among its predecessors, so it costs no more. If kinds
  matter, all labels of v on the other side have to be variables, so that the labels of the roots cost no more than the
  labels of v. The same holds for terminals.
* **Twins.** Vertices with the same predecessors and the same successors may be eliminated consecutively (Bentert,
  Crane, Drange, Mizutani and Sullivan, Structural Optimal Jacobian Accumulation and Minimum Edge Count are NP-Complete
  Under Vertex Elimination, 2025). So they are merged into one vertex with the sum of their sizes. Roots, and terminals,
  with equal neighbours are merged likewise. If kinds matter, the labels have to be equal, and none may be ±1.

Only parts, series and copies also hold for edge and face eliminations (`accumulus.theory.compiled.faces_kernel`).

**For programs.** Parts are independent for every program, and one more rule eliminates vertices.

* **Bridges** (`is_behind_bridge`). Let e = ⟨u,v⟩ be the only edge into v. Then v is eliminated if its elimination takes
  no more products than every program spends on products of which e alone is a factor (`docs/proofs.md` has the proof):
  there are as many disjoint paths from v to terminals as edges out of v, and at least as many from u to roots, or u is
  a root. u is no larger than v. If kinds matter, only paths count whose first edges make a product with e cost, and no
  label out of v is of a lower level than e, unless e is ±1. The same holds with roots and terminals exchanged.

So the least number of products of any program is that of the reduced graph, and those of the eliminations. Whether
some best vertex order, edge elimination and face elimination of the graph begin with them is not known.

The tests compare each reduction with all orders, or with the smallest programs, of all small graphs, and of many larger
ones, with kinds and sizes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, Labels, Steps
from accumulus.elimination.edges_and_faces import EdgeElimination, edges_of_vertex
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.flows import FLOW_WORK, FOLLOW, disjoint_paths, least_costs, ways
from accumulus.theory.graphs.traversal import UnionFind

#: Largest number of rounds of reduction; a round ends with the merge of twins. More take time, fewer leave larger
#: graphs to search.
_ROUNDS: Final = 20


@dataclass(slots=True)
class ReducedPart:
    """A reduced independent part of a graph.

    Attributes:
        state: reduced graph with its own vertex numbers, before any elimination.
        members: vertices of the original graph for each vertex of `state`.
        first: vertices of the original graph that the reduction has eliminated, in order.
        cost: cost of these eliminations.
    """

    state: Elimination
    members: list[tuple[int, ...]]
    first: list[int]
    cost: int

    def named(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return an order of the reduced part as vertices of the graph, after the vertices in `first`."""
        return (*self.first, *(v for k in order for v in self.members[k]))

    @property
    def form(self) -> tuple[object, ...]:
        """Return a key that is equal for parts of equal form, whose vertices are numbered in the same order."""
        rows = (tuple(row.items()) for row in self.state.successors)
        return len(self.state.intermediates), *self.state.sizes, *rows


def independent_parts(state: Elimination) -> list[tuple[int, ...]]:
    """Return the sets of intermediates that are joined by edges, each in the order of ``state.intermediates``."""
    inner = set(state.intermediates)
    joined = UnionFind(len(state.sizes))
    for v in inner:
        for u in state.successors[v]:
            if u in inner:
                joined.merge(v, u)
    groups: dict[int, list[int]] = defaultdict(list)
    for v in state.intermediates:
        groups[joined.find(v)].append(v)
    return list(map(tuple, groups.values()))


def on_its_own(state: Elimination, part: Collection[int]) -> ReducedPart:
    """Return a part with its own numbers, in the order of the graph's; so parts of equal form are equal."""
    inner = sorted(part)
    near = {u for v in inner for rows in (state.predecessors, state.successors) for u in rows[v]}
    members = [*inner, *sorted(near.difference(inner))]
    number = {v: k for k, v in enumerate(members)}
    edges = {(number[j], number[v], level) for v in inner for j, level in state.predecessors[v].items()}
    edges |= {(number[v], number[i], level) for v in inner for i, level in state.successors[v].items()}
    sizes = [state.sizes[v] for v in members]
    alone = Elimination(sorted(edges), sizes, range(len(inner)), state.objective, state.deadline)
    return ReducedPart(alone, [(v,) for v in members], [], 0)


# For orders ----------------------------------------------------------------------------------------------------------


def reduced_part(state: Elimination, intermediates: Sequence[int]) -> ReducedPart:
    """Return the reduction for orders of an independent part of a graph; the graph is not changed.

    Args:
        state: graph before any elimination.
        intermediates: intermediates of the part.
    """
    whole = _extracted(state, intermediates, {v: (v,) for v in range(len(state.sizes))}, [], 0)
    for _ in range(_ROUNDS):
        _eliminate_safe(whole)
        groups = _twins(whole.state)
        if all(len(group) == 1 for group in groups):
            break
        whole = _merged(whole, groups)
    left = [v for v in whole.state.intermediates if whole.state.predecessors[v]]
    return _extracted(whole.state, left, dict(enumerate(whole.members)), whole.first, whole.cost)


def _extracted(
    state: Elimination, intermediates: Sequence[int], members: dict[int, tuple[int, ...]], first: list[int], cost: int
) -> ReducedPart:
    """Return the vertices of a part and their neighbours as a graph with its own numbers, the part's vertices first."""
    number = {v: k for k, v in enumerate(intermediates)}
    edges = {}
    for v in intermediates:
        for j, level in state.predecessors[v].items():
            edges[number.setdefault(j, len(number)), number[v]] = level
        for i, level in state.successors[v].items():
            edges[number[v], number.setdefault(i, len(number))] = level
    sizes = [state.sizes[v] for v in number]
    triples = [(j, i, level) for (j, i), level in edges.items()]
    smaller = Elimination(triples, sizes, range(len(intermediates)), state.objective, state.deadline)
    return ReducedPart(smaller, [members[v] for v in number], first, cost)


def _eliminate_safe(part: ReducedPart) -> None:
    """Eliminate vertices by the rules for series, copies and ends, until no rule applies."""
    state = part.state
    left = [v for v in state.intermediates if state.predecessors[v]]
    again = True
    while again:
        again, before, left = False, left, []
        for v in before:
            state.deadline.check()
            if _is_series(state, v) or _is_copy(state, v) or _is_at_end(state, v):
                part.cost += state.cost(v)[0]
                state.eliminate(v)
                part.first.extend(part.members[v])
                again = True
            else:
                left.append(v)


def _is_series(state: Elimination, v: int) -> bool:
    if len(state.predecessors[v]) != 1 or len(state.successors[v]) != 1:
        return False
    ((u, i),) = state.predecessors[v].items()
    ((w, j),) = state.successors[v].items()
    above, size, below = state.sizes[u], state.sizes[v], state.sizes[w]
    if not state.objective.every_product:
        return i == j and i > 1 and above == below == 1
    return (above == 1 and below <= size) or (below == 1 and above <= size)


def _is_copy(state: Elimination, v: int) -> bool:
    if state.objective.every_product:
        return False
    for one, other in ((state.predecessors, state.successors), (state.successors, state.predecessors)):
        if len(one[v]) == 1:
            ((u, level),) = one[v].items()
            if level == 1 and state.sizes[u] <= state.sizes[v] and min(other[v].values()) > 1:
                return True
    return False


def _is_at_end(state: Elimination, v: int) -> bool:
    for one, other in ((state.predecessors, state.successors), (state.successors, state.predecessors)):
        if (
            not any(one[u] for u in one[v])
            and sum(state.sizes[u] for u in one[v]) <= state.sizes[v]
            and (state.objective.every_product or min(other[v].values()) == 3)
            and least_costs(state, (v,))[v] == state.cost(v)[0]
        ):
            return True
    return False


def _twins(state: Elimination) -> list[list[int]]:
    """Return groups of twins, in the order of their first vertices."""
    groups: dict[object, list[int]] = defaultdict(list)
    inner = {v for v in state.intermediates if state.predecessors[v]}
    for v in range(len(state.sizes)):
        above, below = state.predecessors[v], state.successors[v]
        if not above and not below:
            continue
        key: object = (frozenset(above), frozenset(below), v in inner)
        if not state.objective.every_product:
            levels = {*above.values(), *below.values()}
            key = v if 1 in levels else (frozenset(above.items()), frozenset(below.items()), v in inner)
        groups[key].append(v)
    return list(groups.values())


def _merged(part: ReducedPart, groups: Sequence[Sequence[int]]) -> ReducedPart:
    """Return the part with each group merged into one vertex."""
    state = part.state
    representatives = {group[0] for group in groups}
    sizes = list(state.sizes)
    members = dict(enumerate(part.members))
    for first, *rest in groups:
        for v in rest:
            sizes[first] += sizes[v]
            members[first] += members[v]
    edges = [(j, i, level) for j in representatives for i, level in state.successors[j].items() if i in representatives]
    inner = [v for v in state.intermediates if v in representatives]
    merged = Elimination(edges, sizes, inner, state.objective, state.deadline)
    return _extracted(merged, inner, members, part.first, part.cost)


# For programs --------------------------------------------------------------------------------------------------------


#: Lowest level of the labels whose products with a label cost, by its level, if not every product does; the products
#: with ±1 cost nothing.
_LEAST: Final = {2: 3, 3: 2}


def without_bridges(state: Elimination, flow_work: int = FLOW_WORK) -> tuple[Elimination, dict[int, int]]:
    """Return what is left of a graph after the eliminations behind bridges, and the cost of each of these, in order.

    Args:
        state: graph before any elimination; it is not changed.
        flow_work: product of vertices and edges up to which paths are counted; in larger graphs only those vertices are
            eliminated that need no count.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """
    smaller, costs = state.copy(), dict[int, int]()
    edges = sum(map(len, state.successors))
    counts = len(state.intermediates) * edges <= flow_work
    queue = deque(state.intermediates)
    inner, waiting = frozenset(queue), {*queue}
    while queue:
        v = queue.popleft()
        waiting.remove(v)
        if v in costs or not _is_behind_bridge(smaller, v, FOLLOW * edges if counts else 0.0):
            continue
        costs[v] = smaller.cost(v)[0]
        above, below = smaller.predecessors[v], smaller.successors[v]
        smaller.eliminate(v)
        # the numbers of edges and of disjoint paths have changed for these alone
        near = {*above, *below}
        near.update(*(rows[u] for u in tuple(near) for rows in (smaller.predecessors, smaller.successors)))
        changed = (near & inner) - waiting
        queue.extend(sorted(changed))
        waiting |= changed
    smaller.intermediates = tuple(v for v in state.intermediates if v not in costs)
    return smaller, costs


def _is_behind_bridge(state: Elimination, v: int, work: float) -> bool:
    """Return True if v may be eliminated first, whatever the program; without work, if this takes no count of paths."""
    sizes = state.sizes
    for one, other in ((state.predecessors, state.successors), (state.successors, state.predecessors)):
        if len(one[v]) != 1:
            continue
        ((u, level),) = one[v].items()
        if sizes[u] > sizes[v]:
            continue
        least = 1
        if not state.objective.every_product:
            if level == 1:
                # two labels ±1 would add up to another constant
                if all(each > 1 or other[u].get(w, 2) > 1 for w, each in other[v].items()):
                    return True
                continue
            if min(other[v].values()) < level:
                continue
            least = _LEAST[level]
        count = sum(sizes[w] for w, each in other[v].items() if each >= least)
        ends = [(v, other), (u, one)] if one[u] else [(v, other)]
        if all(_paths(state, end, near, least, count, work) >= count for end, near in ends):
            return True
    return False


def _paths(state: Elimination, v: int, near: Sequence[Mapping[int, int]], least: int, enough: int, work: float) -> int:
    """Return a number of disjoint paths from v to the ends of the graph, as first edges of some level or above.

    Args:
        state: graph of the paths.
        v: vertex that is not an end of the graph.
        near: neighbours on the side of the paths.
        least: lowest level of the first edges.
        enough: number beyond which the paths are not counted.
        work: seconds of work to count paths; 0 if they must not be counted.
    """
    rows = [w for w, each in near[v].items() if each >= least]
    most = sum(state.sizes[w] for w in rows)
    if most < enough or enough == 0:
        return 0
    # each vertex is on a path, and ends are ends of disjoint ones
    known = max(sum(state.sizes[w] for w in rows if not near[w]), min(1, most))
    if known >= enough or not work:
        return known
    state.deadline.spend(work)
    found = ways(disjoint_paths(state, v, near), state.objective)
    return found.variable if least == 3 else found.nonunit


class SmallerGraph:
    """The rest of a graph after the eliminations behind bridges, as a graph of its own.

    Args:
        graph: graph without a mirror.
        objective: objective of the eliminations.
        deadline: deadline of the reduction.

    Attributes:
        graph: graph whose edges carry labels of the original or products; names, roots and terminals are the same.
        number: number in `graph` of each vertex of the original that is left.
        cost: cost of the eliminations.

    Raises:
        OutOfTimeError: if the deadline passes first.
    """

    def __init__(self, graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> None:
        self._original = graph
        state = Elimination.of(graph, objective, deadline)
        _, costs = without_bridges(state)
        self.cost = sum(costs.values())
        elimination = EdgeElimination(graph)
        for v in costs:
            for step in edges_of_vertex(elimination, v):
                elimination.eliminate(*step)
        self._first, self._steps = tuple(costs), elimination.steps
        edges = [(j, i, label) for j, row in enumerate(elimination.successors) for i, label in row.items()]
        left = sorted({*graph.roots, *graph.terminals, *(v for j, i, _ in edges for v in (j, i))})
        self.number = {v: k for k, v in enumerate(left)}
        self._labels = [label for _, _, label in edges]
        kinds = Labels(graph, self._steps, every_product=True).kinds[self._labels]
        constants = {k: graph.constants[label] for k, label in enumerate(self._labels) if label in graph.constants}
        self.graph = DifferentiationGraph.from_arrays(
            [self.number[j] for j, _, _ in edges],
            [self.number[i] for _, i, _ in edges],
            kinds,
            vertices=[graph.vertices[v] for v in left],
            roots=[self.number[v] for v in graph.roots],
            terminals=[self.number[v] for v in graph.terminals],
            constants=constants,
            sizes=graph.sizes[left],
            name=graph.name,
        )
        self.graph.selected = graph.selected

    def restricted(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return an order of the original's intermediates as one of those that are left."""
        return tuple(self.number[v] for v in order if v in self.number)

    def extended_order(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return the order of all intermediates of the original that goes on with one of the smaller graph."""
        names = {k: v for v, k in self.number.items()}
        known = (*self._first, *(names[k] for k in order))
        return (*known, *sorted({*self._original.intermediates}.difference(known)))

    def extended(self, accumulation: Accumulation) -> Accumulation:
        """Return the accumulation of the original graph that goes on with one of the smaller graph."""
        first, steps = self._steps, accumulation.steps
        later = first.edges + len(first) + np.arange(len(steps))
        references = np.concatenate([np.array(self._labels, np.int64), later])
        is_product, left, right = steps.columns()
        columns = zip(first.columns(), (is_product, references[left], references[right]), strict=True)
        entries = {place: int(references[label]) for place, label in accumulation.entries.items()}
        return Accumulation(self._original, Steps.of(first.edges, *map(np.concatenate, columns)), entries)
