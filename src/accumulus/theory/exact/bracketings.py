"""A strong lower bound that holds for every way to accumulate: the fewest products that bracket all paths.

Every path from a root to a terminal is a term of the Jacobian, and every program multiplies it together somehow: it
brackets the path. The product that joins the part from u to v with the part from v to w is one for the triple
(u, v, w), and costs size(u)·size(v)·size(w), whatever other paths it serves. So a program costs at least as much as
the cheapest set of triples with which each path can be bracketed. Any set of paths gives a bound, all of them the
best; a product of ±1 or of two constants needs no triple where such products are free.

As an integer program: x says which triples there are; for each path p₀ … p_L, y_ab says whether its part from p_a to
p_b is formed, z_amb that it is formed by joining at p_m:

    y_0L = 1,   y_ab = Σ_m z_amb,   y_ab = Σ of the z that join it to another part,   z_amb ≤ x(p_a, p_m, p_b)

Only x has to be whole: the tree of a bracketing can be read off any y and z. Solved by HiGHS (Huangfu and Hall 2018)
through SciPy, in double precision; its bound is valid when its nodes or its time are up, too. It is lowered by a
millionth, and by 10⁻⁴ at least, before it is rounded up to what a sum of costs can be.

Products for one triple may be needed more than once, and a set of triples need not come from an elimination, so the
bound can be less than the optimum. It is the optimum for the "lion" and the "bat" graphs of the literature.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.search.elimination import Elimination
from accumulus.theory.bounds import paths_down, paths_up

__all__ = ["MOST_COLUMNS", "BracketingBound", "all_paths", "bracketing_bound", "chosen_paths"]

#: Ways to join parts of paths, over all paths, at most: columns of the integer program.
MOST_COLUMNS: Final = 60_000
#: Seconds of work for each row, and for each two of them; nearly all programs are solved at their first node.
_ROW: Final = (3e-5, 1e-9)
_MOST_NODES: Final = 1_000_000
#: SciPy's status of a program whose time was up.
_TIME: Final = 1
#: Paths looked at when all are to be found.
_MOST_PATHS: Final = 3_000
#: Random paths in a row that are known or too long, before no more are looked for.
_MOST_MISSES: Final = 200
#: How much too high the solver's bound may be: at least, and as a part of it.
_TOLERANCE: Final = 1e-4
_RELATIVE: Final = 1e-6


class BracketingBound(NamedTuple):
    """What is known about the cheapest bracketing.

    `bound` is what it costs at least, `solved` whether it costs just that.
    """

    bound: int
    solved: bool


def bracketing_bound(
    state: Elimination, part: Sequence[int], work: float, columns: int = MOST_COLUMNS, *, partial: bool = True
) -> BracketingBound:
    """What the products at the vertices of an independent part cost at least, in any program.

    Args:
        state: the graph, nothing eliminated.
        part: its intermediates.
        work: seconds of it, by what it takes an integer program of so many rows to be solved.
        columns: of the integer program, at most; paths beyond are left out.
        partial: whether to try at all if paths are left out.
    """
    paths = chosen_paths(state, part, columns) if partial else all_paths(state, part, columns)
    if paths is None or work <= 0:
        return BracketingBound(0, False)
    program = _Program(state)
    for path in paths:
        state.deadline.check()
        program.add(path)
    if not program.rows:
        return BracketingBound(0, True)
    own = _ROW[0] * len(program.low) + _ROW[1] * len(program.low) ** 2
    if own > work:
        return BracketingBound(0, False)
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
            "node_limit": int(min(work / own, _MOST_NODES)),
            "mip_rel_gap": 0.0,
        },
    )
    state.deadline.spend(own * max(1, result.mip_node_count or 1))
    if result.status == _TIME:
        state.deadline.cut()
    bound = result.mip_dual_bound
    if bound is None or not math.isfinite(bound):
        return BracketingBound(0, False)
    # costs are whole multiples of what they have in common
    common = math.gcd(*program.cost) or 1
    total = bound * scale
    least = math.ceil((total - max(_TOLERANCE, _RELATIVE * total)) / common) * common
    return BracketingBound(max(0, least), result.status == 0)


def chosen_paths(state: Elimination, part: Sequence[int], columns: int) -> list[tuple[int, ...]]:
    """Paths from roots to terminals through a part: all if they are few, else disjoint ones through each vertex, and as
    many at random as there is room for."""
    found = all_paths(state, part, columns)
    if found is not None:
        return found
    chosen: dict[tuple[int, ...], None] = {}
    for v in part:
        below = paths_down(state, v)
        for p in paths_up(state, v):
            for q in below:
                path = (*reversed(p.vertices), v, *q.vertices)
                if path not in chosen and _columns(path) <= columns:
                    columns -= _columns(path)
                    chosen[path] = None
    rng, misses = random.Random(len(part)), 0
    while misses < _MOST_MISSES:
        state.deadline.check()
        path = _random_path(state, rng.choice(part), rng)
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


def all_paths(state: Elimination, part: Iterable[int], columns: int) -> list[tuple[int, ...]] | None:
    """All paths through a part, unless they need too many columns."""
    inner = set(part)
    found: list[tuple[int, ...]] = []
    roots = sorted({j for v in inner for j in state.predecessors[v] if not state.predecessors[j]})
    stack: list[tuple[int, ...]] = [(root,) for root in reversed(roots)]
    looked_at = 0
    while stack:
        path = stack.pop()
        state.deadline.check()
        looked_at += 1
        below = state.successors[path[-1]]
        if not below:
            found.append(path)
            columns -= _columns(path)
        if columns < 0 or looked_at > _MOST_PATHS * 4 or len(found) > _MOST_PATHS:
            return None
        stack += [(*path, s) for s in below if s in inner or (len(path) > 1)]
    return found


def _columns(path: Sequence[int]) -> int:
    length = len(path)
    return length * (length - 1) * (length - 2) // 6


class _Program:
    """The integer program, path by path."""

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
        """Demand a bracketing of a path."""
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
                    if self._costs(max(levels[a:m]), max(levels[m:b])):
                        self._row({z: -1.0, self._triple(path[a], path[m], path[b]): 1.0}, 0.0, math.inf)
        for ends, columns in formed.items():
            row = dict.fromkeys(columns, 1.0)
            if ends == (0, last):
                self._row(row, 1.0, 1.0)
            else:
                self._row(row | dict.fromkeys(used[ends], -1.0), 0.0, 0.0)

    def _costs(self, left: int, right: int) -> bool:
        return self.state.objective.every_product or not (left == 1 or right == 1 or left == right == 2)

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
