"""Lower bounds that hold for every way to eliminate, from disjoint paths.

**Lemma.** Let p₁ … p_a be paths from roots to an intermediate vertex v, and q₁ … q_b paths from v to terminals, such
that no two of the p share a vertex but v, and no two of the q. Then at least a·b products join labels at v.

*Proof.* For every i and j, the path p_i q_j is a term of the Jacobian. At some step the part of it that ends in v is
multiplied by the part that starts there; let u be where the left factor starts, and w where the right one ends. All
paths in a factor run between the same two vertices. Since u lies on p_i and on no other p, it tells i, and w tells j;
so the a·b pairs take different products. ∎

Nothing but this is used: a product joins, at one vertex, a sum of paths that end there with a sum of paths that
start there. So the bound holds for vertex, edge and face elimination, and also for programs that split vertices,
share, and factor. How many disjoint paths there are is what a maximum flow finds. With vector-valued vertices a
vertex of size s is shared by s paths of unit width, and a product u–v–w, which costs the product of the three sizes,
serves size(u)·size(w) pairs: the bound is size(v) times both flows. Where products with ±1 and of two constants are
free, only those pairs count whose labels at v make them cost: a label that has a variable edge in it varies, one
that has any edge in it but ±1 is not ±1. A flow that prefers variable edges, then constants, gives the most of both.

The sum over all v is the bound. Lower bounds of this kind for vertex and edge elimination go back to Mosenkis and
Naumann, On lower bounds for optimal Jacobian accumulation (2018).

Exact flows take O(vertices · edges · width); graphs beyond `FLOW_WORK` get forests instead: every vertex follows one
edge up, and one down, so the neighbours of v that end at different roots start disjoint paths. That is linear, and
a little weaker.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.vertex import LEVELS
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.objective import Objective
from accumulus.search.elimination import Elimination
from accumulus.theory.flows import Neighbours, Path, disjoint_paths
from accumulus.theory.graphs.traversal import topological

__all__ = ["FLOW_WORK", "Ways", "least_costs", "lower_bound", "pair_cost", "paths_down", "paths_up", "unmerged", "ways"]

#: Vertices times edges up to which flows are exact.
FLOW_WORK: Final = 200_000
#: Edges followed, at most, by all forests together.
_FOREST_WORK: Final = 400_000
_MOST_FORESTS: Final = 8
#: Seconds of work to follow an edge, of a flow from a vertex or of a forest.
_FOLLOW: Final = 1e-6
#: Levels of labels in the order in which a flow prefers them.
_GROUPS: Final = {Objective.FMA: ((1, 2, 3),), Objective.MULTIPLICATIONS: ((3,), (2,))}


class Ways(NamedTuple):
    """Disjoint ways from a vertex to one side: through variable labels, and through labels that are not ±1."""

    variable: int
    nonunit: int


def lower_bound(
    graph: DifferentiationGraph, objective: Objective, flow_work: int = FLOW_WORK, deadline: Deadline = FOREVER
) -> int | None:
    """What every elimination of the graph costs at least; None under "operations", of which nothing is proven.

    Args:
        flow_work: vertices times edges up to which flows are exact.

    Raises:
        OutOfTimeError: if the deadline passes before.

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
    """What the products at each vertex cost at least, in any elimination of the graph as it is left.

    Args:
        vertices: intermediates that are left; all that are on a path by default.
    """
    chosen = state.intermediates if vertices is None else tuple(vertices)
    edges = sum(map(len, state.successors))
    if len(chosen) * edges <= flow_work:
        exact = {}
        for v in chosen:
            state.deadline.spend(_FOLLOW * edges)
            above, below = ways(paths_up(state, v), state.objective), ways(paths_down(state, v), state.objective)
            exact[v] = pair_cost(state.sizes[v], above, below)
        return exact
    # vertices with edges, each after all that it depends on
    waiting = {v: len(below) for v, below in enumerate(state.successors) if below or state.predecessors[v]}
    order = topological(waiting, state.predecessors.__getitem__)
    least = dict.fromkeys(chosen, 0)
    for k in range(max(1, min(_MOST_FORESTS, _FOREST_WORK // max(1, edges)))):
        state.deadline.check(_FOLLOW * edges)
        rng = random.Random(k)
        to_roots = _forest_ways(order[::-1], state.predecessors, state, rng)
        to_terminals = _forest_ways(order, state.successors, state, rng)
        for v in chosen:
            least[v] = max(least[v], pair_cost(state.sizes[v], to_roots[v], to_terminals[v]))
    return least


def paths_up(state: Elimination, v: int) -> list[Path]:
    """Disjoint paths from v to the roots; under "multiplications" without those that leave v through ±1."""
    return disjoint_paths(v, state.predecessors, state.sizes, _groups(state), state.deadline)


def paths_down(state: Elimination, v: int) -> list[Path]:
    """Disjoint paths from v to the terminals; under "multiplications" without those that leave v through ±1."""
    return disjoint_paths(v, state.successors, state.sizes, _groups(state), state.deadline)


def _groups(state: Elimination) -> tuple[tuple[int, ...], ...]:
    return _GROUPS[state.objective.of_eliminations]


def ways(paths: Iterable[Path], objective: Objective) -> Ways:
    """Widths of paths by the level of their first edge."""
    variable = nonunit = 0
    for path in paths:
        nonunit += path.width
        if path.level == 3 or objective.every_product:
            variable += path.width
    return Ways(variable, nonunit)


def pair_cost(size: int, above: Ways, below: Ways) -> int:
    """What the pairs of ways through a vertex cost."""
    return size * (above.variable * below.nonunit + (above.nonunit - above.variable) * below.variable)


def unmerged(graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> Elimination:
    """The graph with the highest level of parallel edges instead of that of their sum.

    Two edges 1 become a constant only where they are added up, which a program need not do. So what is a bound there is
    one for every program.
    """
    state = Elimination(graph, objective, deadline)
    highest: dict[tuple[int, int], int] = {}
    for j, i, kind in zip(graph.sources.tolist(), graph.targets.tolist(), graph.kinds.tolist(), strict=True):
        highest[j, i] = max(highest.get((j, i), 0), LEVELS[Kind(kind)])
    for j, row in enumerate(state.successors):
        for i in row:
            row[i] = state.predecessors[i][j] = highest[j, i]
    return state


def _forest_ways(
    order: Sequence[int], neighbours: Neighbours, state: Elimination, rng: random.Random
) -> dict[int, Ways]:
    """Ways from each vertex along a random forest; ends of the graph come first in the order."""
    sizes, fma = state.sizes, state.objective.every_product
    tree: dict[int, int] = {}
    width: dict[int, int] = {}
    found = {}
    for v in order:
        row = neighbours[v]
        if not row:
            tree[v], width[v] = v, sizes[v]
            continue
        parent = rng.choice(tuple(row))
        tree[v], width[v] = tree[parent], min(width[parent], sizes[v])
        # the widest way into each tree, through a variable label if there is one
        best: dict[int, tuple[bool, int]] = {}
        for u, level in row.items():
            if level == 1 and not fma:
                continue
            way = (fma or level == 3, width[u])
            if way > best.get(tree[u], (False, 0)):
                best[tree[u]] = way
        variable = sum(wide for varies, wide in best.values() if varies)
        found[v] = Ways(variable, sum(wide for _, wide in best.values()))
    return found
