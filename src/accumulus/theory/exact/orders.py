"""The best vertex order: reductions without loss, then dynamic programming over eliminated sets.

**Reductions.** Reductions without loss: what can be done to a graph before vertex elimination is searched, and never
is a mistake.

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

**Sets**, by dynamic programming. Drives `accumulus.theory.compiled.subsets_kernel`. Time O(2ⁿ·n) for n vertices at
worst, of which the bounds leave a part only; memory 8·2ⁿ bytes: 128 MB and some seconds at `MOST` vertices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.search.elimination import BitRows, Elimination
from accumulus.theory.bounds import least_costs
from accumulus.theory.compiled.subsets_kernel import HALF, UNREACHED, SubsetsState
from accumulus.theory.graphs.traversal import UnionFind

__all__ = ["MOST", "ReducedPart", "SubsetSearch", "independent_parts", "reduced_part"]

#: Rounds of reduction of a part; each begins anew after twins were merged.
_ROUNDS: Final = 20


@dataclass(slots=True)
class ReducedPart:
    """An independent part of a graph, reduced.

    Attributes:
        state: what is left, with numbers of its own; nothing eliminated.
        members: the vertices of the graph that each of its vertices stands for.
        first: vertices that are eliminated before, and what that costs.
    """

    state: Elimination
    members: list[tuple[int, ...]]
    first: list[int]
    cost: int

    def named(self, order: Iterable[int]) -> tuple[int, ...]:
        """An order of the part's vertices by the numbers of the graph, with what is eliminated before."""
        return (*self.first, *(v for k in order for v in self.members[k]))


def independent_parts(state: Elimination) -> list[tuple[int, ...]]:
    """Intermediates that are joined by paths through intermediates; in their own order."""
    inner = set(state.intermediates)
    joined = UnionFind(len(state.sizes))
    for v in inner:
        for u in state.successors[v]:
            if u in inner:
                joined.merge(v, u)
    found: dict[int, list[int]] = defaultdict(list)
    for v in state.intermediates:
        found[joined.find(v)].append(v)
    return list(map(tuple, found.values()))


def reduced_part(state: Elimination, part: Sequence[int]) -> ReducedPart:
    """A part of a graph, reduced; the graph itself stays as it is."""
    whole = _extracted(state, part, {v: (v,) for v in range(len(state.sizes))}, [], 0)
    for _ in range(_ROUNDS):
        _eliminate_safe(whole)
        groups = _twins(whole.state)
        if all(len(group) == 1 for group in groups):
            break
        whole = _merged(whole, groups)
    left = [v for v in whole.state.intermediates if whole.state.predecessors[v]]
    return _extracted(whole.state, left, dict(enumerate(whole.members)), whole.first, whole.cost)


def _extracted(
    state: Elimination, part: Sequence[int], members: dict[int, tuple[int, ...]], first: list[int], cost: int
) -> ReducedPart:
    """The vertices of a part and their neighbours, with numbers of their own."""
    number = {v: k for k, v in enumerate(part)}
    edges = {}
    for v in part:
        for j, level in state.predecessors[v].items():
            edges[number.setdefault(j, len(number)), number[v]] = level
        for i, level in state.successors[v].items():
            edges[number[v], number.setdefault(i, len(number))] = level
    sizes = [state.sizes[v] for v in number]
    triples = [(j, i, level) for (j, i), level in edges.items()]
    smaller = Elimination.of_edges(triples, sizes, range(len(part)), state.objective, state.deadline)
    return ReducedPart(smaller, [members[v] for v in number], first, cost)


def _eliminate_safe(part: ReducedPart) -> None:
    """Eliminate what it is never a mistake to eliminate next, until there is no such vertex."""
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
    """Vertices by equal neighbours, in the order of the first of each group."""
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
    """Each group as one vertex."""
    state = part.state
    kept = {group[0] for group in groups}
    sizes = list(state.sizes)
    members = dict(enumerate(part.members))
    for first, *others in groups:
        for v in others:
            sizes[first] += sizes[v]
            members[first] += members[v]
    edges = [(j, i, level) for j in kept for i, level in state.successors[j].items() if i in kept]
    inner = [v for v in state.intermediates if v in kept]
    merged = Elimination.of_edges(edges, sizes, inner, state.objective, state.deadline)
    return _extracted(merged, inner, members, part.first, part.cost)


# Sets ----------------------------------------------------------------------------------------------------------------


#: Vertices of a part, at most.
MOST: Final = 24
#: Sets looked at by one call, some milliseconds; seconds of work of each.
_SLICE: Final = 1 << 14
_SET: Final = 3e-7


class SubsetSearch:
    """Search for the best order of a part.

    Args:
        state: the part, nothing eliminated: its intermediates are those to be eliminated.
        cost: of the best order that is known; only cheaper ones are looked for.

    Attributes:
        lower_bound: no order costs less.
        cost: of the best order that is known.
        order: the best one that was found, None if none was cheaper than what was known.
        failed: whether the part is too large, so that `run` does nothing.
    """

    def __init__(self, state: Elimination, cost: int) -> None:
        self._state = state
        self.cost = cost
        self.order: tuple[int, ...] | None = None
        self._least = least_costs(state)
        self.lower_bound = sum(self._least.values())
        self.failed = len(state.intermediates) > MOST
        self.expanded = 0

    @property
    def proven(self) -> bool:
        """Return whether the best known cost is the least."""
        return self.lower_bound >= self.cost

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven; yields the best cost from time to time."""
        if self.failed or self.proven:
            return
        vertices = self._state.intermediates
        everything = (1 << len(vertices)) - 1
        search, prove = self._encoded(vertices), kernel("theory.subsets")
        table = search.table
        while prove(search.address) < everything:
            self._state.deadline.spend(_SET * _SLICE)
            yield self.cost
        self.expanded = search.expanded
        if table[everything] < self.cost:
            self.cost = int(table[everything])
            self.order = self._order(vertices, table)
        self.lower_bound = self.cost
        yield self.cost

    def _encoded(self, vertices: Sequence[int]) -> SubsetsState:
        state, count = self._state, len(vertices)
        bits = BitRows.of(state)
        words = bits.rows.shape[2]
        table: NDArray[np.int64] = np.full(1 << count, UNREACHED, np.int64)
        table[0] = 0
        low, high = (self._rest(vertices[first : first + HALF]) for first in (0, HALF))
        products, multiplications = state.objective.ranked(1, 0)
        return SubsetsState(
            base=bits.rows,
            mask=np.zeros(words, np.int64),
            sizes=bits.sizes,
            vertices=count,
            words=words,
            scalar=bool((bits.sizes == 1).all()),
            products=products,
            multiplications=multiplications,
            buffers=np.zeros((count, *bits.rows.shape), np.int64),
            owners=np.zeros(count, np.int64),
            table=table,
            low=low,
            high=high,
            limit=self.cost - 1,
            budget=_SLICE,
        )

    def _rest(self, vertices: Sequence[int]) -> NDArray[np.int64]:
        """Return what those vertices that are left cost at least, by the set that is gone."""
        rest: NDArray[np.int64] = np.zeros(1, np.int64)
        for v in vertices:
            rest = np.concatenate([rest + self._least[v], rest])
        return rest

    def _order(self, vertices: Sequence[int], table: NDArray[np.int64]) -> tuple[int, ...]:
        """The order whose costs add up to the table's last entry, from its end."""
        gone = (1 << len(vertices)) - 1
        order: list[int] = []
        while gone:
            for k, v in enumerate(vertices):
                before = gone & ~(1 << k)
                if before != gone and table[before] <= table[gone]:
                    price = self._price(v, [u for t, u in enumerate(vertices) if before >> t & 1])
                    if table[before] + price == table[gone]:
                        order.append(v)
                        gone = before
                        break
        return tuple(reversed(order))

    def _price(self, v: int, gone: Sequence[int]) -> int:
        now = self._state
        edges = [(j, i, level) for j, row in enumerate(now.successors) for i, level in row.items()]
        state = Elimination.of_edges(edges, now.sizes, now.intermediates, now.objective)
        for u in gone:
            state.eliminate(u)
        return state.cost(v)[0]
