"""Reduction of independent parts of a graph, and searches for their best edge and face eliminations.

**Reductions** simplify a graph before the search for a vertex elimination, and preserve an optimum.

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
  (from disjoint paths, `accumulus.theory.bounds`), and the roots together are no larger than v. After earlier
  eliminations, any other vertex has the roots in place of v among its predecessors, so it costs no more. If kinds
  matter, all labels of v on the other side have to be variables, so that the labels of the roots cost no more than the
  labels of v. The same holds for terminals.
* **Twins.** Vertices with the same predecessors and the same successors may be eliminated consecutively (Bentert,
  Crane, Drange, Mizutani and Sullivan, Structural Optimal Jacobian Accumulation and Minimum Edge Count are NP-Complete
  Under Vertex Elimination, 2025). So they are merged into one vertex with the sum of their sizes. Roots, and terminals,
  with equal neighbours are merged likewise. If kinds matter, the labels have to be equal, and none may be ±1.

The tests compare each reduction with all orders, on all graphs of up to three intermediates with one or two roots or
terminals, and on many larger graphs, with kinds and sizes. The reductions hold for vertex elimination; only parts,
series and copies also hold for edges and faces (`accumulus.theory.compiled.faces_kernel`).

**Orders.** `accumulus.theory.exact.orders` searches vertex eliminations.

**Edges and faces.** `accumulus.theory.compiled.faces_kernel` searches below a limit, which increases from the lower
bound to the cost of the best known plan. A limit without a solution gives a new lower bound, and the bounds of states
stay in the table (iterative deepening with a transposition table: Korf 1985; Reinefeld and Marsland 1994). After each
solution the search continues below its cost; if there is no further one, the last solution is optimal.

Independent parts of the graph are searched separately. A part of more than `faces_kernel.MOST` edges is not searched
and has only the bound of `accumulus.theory.bounds`.

"Proven" means by a computer search whose table compares states by 128 random bits: the probability that two different
states agree in these is about 10⁻²⁶ for a million states.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from accumulus.elimination.edges_and_faces import Side
from accumulus.native.machine import kernel
from accumulus.native.state import Records, zeros
from accumulus.search.elimination import Elimination
from accumulus.theory.bounds import disjoint_pairs, least_costs
from accumulus.theory.compiled import faces_kernel as faces
from accumulus.theory.graphs.traversal import UnionFind
from accumulus.theory.methods.edges_and_faces import Lines, words

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


def reduced_part(state: Elimination, intermediates: Sequence[int], *, programs: bool = False) -> ReducedPart:
    """Return the reduction of an independent part of a graph; the graph is not changed.

    Args:
        state: graph before any elimination.
        intermediates: intermediates of the part.
        programs: if True, only series of scalars are eliminated, and only if every product counts. Then the reduction
            preserves the least cost of every program, not only of orders (``docs/research.md``).
    """
    whole = _extracted(state, intermediates, {v: (v,) for v in range(len(state.sizes))}, [], 0)
    if programs:
        if state.objective.every_product and max(whole.state.sizes, default=1) == 1:
            _eliminate_safe(whole, (_is_series,))
        left = [v for v in whole.state.intermediates if whole.state.predecessors[v]]
        return _extracted(whole.state, left, dict(enumerate(whole.members)), whole.first, whole.cost)
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


def _eliminate_safe(part: ReducedPart, rules: Sequence[Callable[[Elimination, int], bool]] = ()) -> None:
    """Eliminate vertices by some rules, by default those for series, copies and ends, until no rule applies."""
    state = part.state
    left = [v for v in state.intermediates if state.predecessors[v]]
    again = True
    while again:
        again = False
        for v in tuple(left):
            state.deadline.check()
            if any(rule(state, v) for rule in rules or (_is_series, _is_copy, _is_at_end)):
                part.cost += state.cost(v)[0]
                state.eliminate(v)
                part.first.extend(part.members[v])
                left.remove(v)
                again = True


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


# Searches ------------------------------------------------------------------------------------------------------------


class PartSearch:
    """Base class of searches of a part of a graph.

    Attributes:
        cost: cost of the best known elimination.
        lower_bound: lower bound on the cost of all eliminations.
    """

    cost: int
    lower_bound: int

    @property
    def proven(self) -> bool:
        """Return True if the best known cost is optimal."""
        return self.lower_bound >= self.cost


# Edges and faces ------------------------------------------------------------------------------------------------------


#: Largest number of words of the bit set of tracked paths; paths with the smallest weights are left out. More words
#: slow down each move, fewer weaken the bound.
_MOST_WORDS: Final = 8
#: Number of entries of the table as a power of two; an entry has 24 bytes. With fewer entries, states are searched
#: again.
_TABLE_BITS: Final = 20
#: Moves for each call of the kernel, some tens of milliseconds, and seconds of work for each. More moves react later to
#: the deadline and Ctrl-C, fewer make more calls.
_MOVES: Final = 5_000
_MOVE_SECONDS: Final = 4e-6
#: Largest number of steps in which the limit increases to the best known cost. More steps raise the proven bound more
#: often, but each repeats the search of the previous one; with fewer, the bound stays low for longer.
_STEPS: Final = 32


class LineSearch(PartSearch):
    """Branch and bound over the face or edge eliminations of a part of a graph.

    Args:
        state: graph before any elimination.
        intermediates: intermediates of an independent part.
        cost: cost of the best known plan of the part; the search is for cheaper ones.
        lower_bound: known lower bound on the cost, or 0.
        edges: if True, eliminate edges instead of faces.
        moves: largest number of moves to try.

    Attributes:
        steps: steps of the best elimination found, None if none is cheaper than the known one: faces as slots
            (i, j, product), or edges (source, target, side).
        failed: True if the part is too large, so that `run` does nothing, or if the search has overflowed.
    """

    def __init__(
        self,
        state: Elimination,
        intermediates: Sequence[int],
        cost: int,
        lower_bound: int = 0,
        *,
        edges: bool,
        moves: int = sys.maxsize,
    ) -> None:
        self.cost = cost
        self.steps: list[tuple[int, int, int]] | None = None
        self.edges = edges
        #: Encoding of the part; edge k is label k of the kernel.
        self.lines = Lines(state, intermediates)
        self.lower_bound = max(lower_bound, sum(least_costs(state, intermediates).values()))
        self.failed = len(self.lines.edges) > faces.MOST
        self.tried, self._deadline = 0, state.deadline
        self._most_moves = moves
        if not self.failed and self.lower_bound < cost:
            self._search = self._encoded(state, intermediates)

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven or all moves are tried; yield the best cost from time to time."""
        if self.failed or self.proven:
            return
        prove = kernel("theory.faces")
        search = self._search
        step = max(1, -(-(self.cost - self.lower_bound) // _STEPS))
        while not (self.proven or self.failed):
            search.limit = min(self.cost - 1, self.lower_bound + step - 1)
            search.best, search.depth = -1, -1
            more = True
            while more:
                search.budget = min(_MOVES, self._most_moves)
                more = prove(search.address) == faces.MORE
                self._deadline.spend(_MOVE_SECONDS * (search.tried - self.tried))
                self.tried = search.tried
                if 0 <= search.best < self.cost:
                    self.cost = search.best
                    self.steps = [(a, b, c) for a, b, c in search.best_log[: search.best_length].tolist()]
                yield self.cost
                if more and self.tried >= self._most_moves:
                    return
            if search.overflow:
                self.failed = True
            else:
                self.lower_bound = search.limit + 1

    def named_edges(self) -> list[tuple[int, int, Side]]:
        """Return the best edge elimination found, as vertices of the graph."""
        assert self.edges
        assert self.steps is not None
        sides: tuple[Side, Side] = ("front", "back")
        vertices = self.lines.vertices
        return [(vertices[j], vertices[i], sides[side]) for j, i, side in self.steps]

    def _encoded(self, state: Elimination, intermediates: Sequence[int]) -> faces.FacesState:
        lines = self.lines
        weights, masks, middles = self._tracked(state, intermediates)
        count = max(1, -(-len(weights) // 64))
        fields = lines.encoded(1, count)
        for k, edge in enumerate(lines.edges):
            fields["paths"][k] = words(masks.get(edge, 0), count)
        tracked = np.zeros((len(lines.vertices), count), np.int64)
        for v, bits in middles.items():
            tracked[lines.numbers[v]] = words(bits, count)
        frames = Records.zeros(faces.Frame, faces.MOST_DEPTH)
        frames[0].left = sum(weights)
        snapshots = np.zeros((faces.MOST_DEPTH, fields["size"]), np.int64)
        snapshots[0] = fields["graph"]
        return faces.FacesState(
            **fields,
            frames=frames,
            snapshots=snapshots,
            moves=Records.zeros(faces.Move, faces.MOST_DEPTH * faces.MOST_MOVES),
            log=np.zeros((faces.MOST_STEPS, 3), np.int64),
            best_log=np.zeros((faces.MOST_STEPS, 3), np.int64),
            table=Records.zeros(faces.StoredBound, (1 << _TABLE_BITS) + faces.PROBES),
            weights=np.array([*weights, 0], np.int64),
            tracked=tracked,
            **zeros(faces.MOST, "colours recoloured ranks order"),
            sums=np.zeros(len(lines.vertices), np.int64),
            vertices=len(lines.vertices),
            table_bits=_TABLE_BITS,
            fma=state.objective.every_product,
            edges=self.edges,
            series=bool((lines.sizes == 1).all()),
        )

    def _tracked(
        self, state: Elimination, intermediates: Sequence[int]
    ) -> tuple[list[int], dict[tuple[int, int], int], dict[int, int]]:
        """Return the pairs of disjoint paths that need a product.

        Returns:
            The weights of the pairs, the bit set of pairs for each edge, and the bit set of pairs for each vertex.
        """
        fma = state.objective.every_product
        pairs = [
            (state.sizes[v] * p.width * q.width, v, path)
            for v, p, q, path in disjoint_pairs(state, intermediates)
            if fma or p.level == 3 or q.level == 3
        ]
        pairs.sort(key=lambda pair: -pair[0])
        masks: dict[tuple[int, int], int] = {}
        middles: dict[int, int] = {}
        chosen = pairs[: 64 * _MOST_WORDS]
        for k, (_, v, path) in enumerate(chosen):
            middles[v] = middles.get(v, 0) | 1 << k
            for edge in pairwise(path):
                masks[edge] = masks.get(edge, 0) | 1 << k
        return [weight for weight, _, _ in chosen], masks, middles
