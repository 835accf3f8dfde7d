"""Searches for the best elimination of an independent part of a graph: of vertices, of edges, of faces.

**Reductions** without loss simplify a graph before the search for a vertex elimination, and preserve an optimum.

* What is on no path from a root to a terminal is left out, parallel edges are added up (`Elimination` does both).
* **Parts.** Intermediates that no path through intermediates joins do not matter to each other: each connected part has
  an optimal order of its own.
* **Series** (`_is_series`). A vertex v with one predecessor u and one successor w is eliminated, if sizes allow. Let i
  and j be the labels ⟨u,v⟩ and ⟨v,w⟩, A·i and j·B what an order makes of them before v goes. With k = i·j made first,
  A·i becomes A·k, j·B is left out, (A·i)·(j·B) becomes (A·k)·B. Leaving out pays for k: the order makes some j·B, or
  multiplies every A·i by j. Sizes: this needs size(w) ≤ size(v) and size(u) = 1, or the same with u and w exchanged.
  Kinds, where products with ±1 and of two constants are free: both labels constant, or both variable, and
  size(u) = size(w) = 1 (a factor ±1 of another size may pay for less).
* **Copies** (`_is_copy`). A vertex v whose only label on one side is ±1, to a vertex u that is no larger, is
  eliminated, where such products are free, if no label on the other side is ±1. Any A·i becomes A, and j·B becomes
  (i·j)·B, at equal cost. (Labels ±1 on both sides would make u a label ±1, and what is added to that later a
  constant, whose products are not free: waiting can be better.)
* **Ends** (`_is_at_end`). A vertex v that only roots depend on is eliminated if it never can cost less than now (its
  disjoint paths, `accumulus.theory.bounds`), and the roots are together no larger than v: whatever is eliminated
  before, any other vertex then has the roots for v among its predecessors, so it costs no more. Where kinds
  matter, all labels of v on the other side have to vary, so that those of the roots are no dearer than those of v.
  Likewise with terminals.
* **Twins.** Vertices with the same predecessors and the same successors may be eliminated one right after the other
  (Bentert, Crane, Drange, Mizutani and Sullivan, Structural Optimal Jacobian Accumulation and Minimum Edge Count are
  NP-Complete Under Vertex Elimination, 2025), so they are one vertex of their sizes' sum. For roots and terminals with
  equal neighbours this is plain. Where kinds matter, labels have to be equal and none ±1.

Each of them is tested against all orders of all graphs of up to three intermediates and a root or terminal or two,
and of many larger ones, with kinds and sizes. They are for vertex elimination; only parts, series and copies carry
over to edges and faces (`accumulus.theory.compiled.faces_kernel`).

**Orders** of vertices: `accumulus.theory.exact.orders`.

**Edges and faces.** `accumulus.theory.compiled.faces_kernel` searches below a limit. The limit rises from the lower
bound to the cost of the best plan that is known: while nothing is found below it, it is a new lower bound, and what has
been learnt about states stays in the table (iterative deepening with a table of transpositions: Korf 1985; Reinefeld
and Marsland 1994). Once something is found, the search goes on below it until nothing is left: then it is the optimum.

Independent parts of the graph are searched one by one. A part of more than `faces_kernel.MOST` edges is not searched;
for it the bound of `accumulus.theory.bounds` is what is known.

"Proven" stands for a computer search whose table compares states by 128 random bits: that two different states agree in
them has a probability of about 10⁻²⁶ for a million states.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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

#: Rounds of reduction of a part; each begins anew after twins were merged.
_ROUNDS: Final = 20


@dataclass(slots=True)
class ReducedPart:
    """An independent part of a graph, reduced."""

    state: Elimination  # the remaining graph, with numbers of its own; nothing eliminated
    members: list[tuple[int, ...]]  # the vertices of the graph that each of its vertices stands for
    first: list[int]  # vertices that are eliminated before, and the cost of that
    cost: int

    def named(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return an order of the part in the numbers of the graph, after the vertices eliminated by reduction."""
        return (*self.first, *(v for k in order for v in self.members[k]))


def independent_parts(state: Elimination) -> list[tuple[int, ...]]:
    """Return the sets of intermediates joined by paths through intermediates, each in the order of the state."""
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


def reduced_part(state: Elimination, intermediates: Sequence[int]) -> ReducedPart:
    """Return the reduction of an independent part of a graph; the graph is not changed."""
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
    """Return the vertices of a part and their neighbours, with numbers of their own."""
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
    """Eliminate vertices that some optimal order eliminates next, until none is left."""
    state = part.state
    left = [v for v in state.intermediates if state.predecessors[v]]
    again = True
    while again:
        again = False
        for v in tuple(left):
            state.deadline.check()
            if _is_series(state, v) or _is_copy(state, v) or _is_at_end(state, v):
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
    """Return vertices by equal neighbours, in the order of the first of each group."""
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
    """Return each group as one vertex."""
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
    """A search of a part of a graph.

    Attributes:
        cost: cost of the best elimination that is known.
        lower_bound: no elimination costs less.
    """

    cost: int
    lower_bound: int

    @property
    def proven(self) -> bool:
        """Return True if the best known cost is optimal."""
        return self.lower_bound >= self.cost


# Edges and faces ------------------------------------------------------------------------------------------------------


#: Words of tracked paths, at most; beyond, the paths that count least are not tracked.
_MOST_WORDS: Final = 8
#: Entries of the table, as a power of two: 24 bytes each.
_TABLE_BITS: Final = 20
#: Moves tried by one call, some tens of milliseconds; seconds of work of each.
_MOVES: Final = 5_000
_MOVE_SECONDS: Final = 4e-6
#: In how many steps the limit rises to the best known cost, at most.
_STEPS: Final = 32


class LineSearch(PartSearch):
    """Branch and bound over the face or edge eliminations of a part of a graph.

    Args:
        state: the graph, nothing eliminated.
        part: intermediates of an independent part.
        cost: cost of the best plan of the part that is known; only cheaper ones are looked for.
        lower_bound: on the cost, if one is known.
        edges: True if to eliminate edges instead of faces.
        moves: tried, at most.

    Attributes:
        steps: steps of the best one that was found, None if none was cheaper than what was known: faces as slots
            (i, j, product), or edges (source, target, side).
        failed: whether the part is too large, so that `run` does nothing, or has turned out to be.
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
        #: The part; edge number k is label k of the kernel.
        self.lines = Lines(state, intermediates)
        self.lower_bound = max(lower_bound, sum(least_costs(state, intermediates).values()))
        self.failed = len(self.lines.edges) > faces.MOST
        self.tried, self._deadline = 0, state.deadline
        self._most_moves = moves
        if not self.failed and self.lower_bound < cost:
            self._search = self._encoded(state, intermediates)

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven; yields the best cost from time to time."""
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
        """Return the best edge elimination that was found, by vertices of the graph."""
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
        """Return disjoint path pairs that need a product: weights, their edges, and the pairs of each vertex."""
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
