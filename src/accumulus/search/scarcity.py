"""Scarcity: choice of intermediates to eliminate, so that products with the Jacobian take few multiplications.

A product J·v or w·J does not need the Jacobian: it can go through the graph, with one multiplication for each edge
whose label is not ±1. The elimination of a vertex replaces its edges by edges between its neighbours, which may be
fewer. The remaining edges do not depend on the order of the eliminations. So the search is for the set of vertices
whose elimination leaves the fewest multiplications (Griewank 2003; Griewank and Vogel 2005; Griewank and Walther 2008,
chapter 10). The empty set gives the graph, the full set the Jacobian, so the result is no worse than either.

A greedy search runs first: it always eliminates the vertex that adds the fewest multiplications, up to the Jacobian
unless there is too much fill-in, and returns the best of all intermediate graphs. On graphs of up to `ANNEALED` edges
annealing follows; a move eliminates or keeps one vertex. With few intermediates all sets are tried.

A product of labels with conditions (`accumulus.elimination.emit`) is 0 if one condition fails, even if another label is
infinite. Multiplying edge by edge would give NaN there, so all intermediates on a path through such a label are
eliminated.

Gap: individual edges are neither eliminated nor rerouted, and vertices are not rescaled so that a label becomes 1. The
last two divide by labels, which may be 0.

Time: the greedy search and each move of annealing take about as many dictionary operations as the elimination of the
set.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from accumulus.context import Context
from accumulus.elimination.emit import guarded_labels
from accumulus.graph.degrees import terminal_degrees
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.tape.passes import spread

#: Largest number of edges of graphs that are annealed; moves for each vertex by effort; largest number of moves. Each
#: move eliminates anew on a copy of the graph: more edges or moves cost time in proportion, fewer leave more
#: multiplications.
ANNEALED: Final = 2_000
_MOVES: Final = {"fast": 0, "balanced": 6, "thorough": 60}
_MOST_MOVES: Final = {"fast": 0, "balanced": 400, "thorough": 20_000}
#: Temperatures, in multiplications. A hotter run loses more of the greedy set before it improves, a colder one stays in
#: the nearest local minimum.
_HOT, _COLD = 1.5, 0.2
#: Offset in multiplications in the acceptance test of annealing, so that a move with more edges and equally many
#: multiplications is not always accepted. With a larger one plateaus are crossed less often, with 0 the edges, and so
#: the additions, drift upwards.
_TIE: Final = 0.25
#: Number of intermediates up to which all sets are tried: each further one doubles the time, each one fewer leaves
#: graphs to the greedy search and annealing, which may miss the best set.
_FEW: Final = 8
#: Seconds of work for each copied edge, for each joined pair of neighbours, and for each examined pair. Estimates above
#: the true time end the search early, estimates below exceed its work.
_EDGE: Final = 8e-7
_JOIN: Final = 1.5e-6
_LOOK: Final = 2e-7
#: The greedy search ends when the graph needs `_FILL` times the multiplications of the best graph so far, and more than
#: `_SMALL`. Larger limits spend time in graphs that fill in, smaller ones miss sets behind temporary fill-in.
_FILL: Final = 4
_SMALL: Final = 5_000


def scarce_set(graph: DifferentiationGraph, context: Context) -> frozenset[int]:
    """Return a set of intermediates whose elimination leaves few multiplications.

    Args:
        graph: graph of scalar vertices.
        context: options and deadline; when its work is done, the search returns the best set so far.

    >>> from accumulus.options import Options
    >>> edges = [(f"y{j}", "sum") for j in range(3)] + [("sum", f"x{i}") for i in range(3)] + [("y0", "a"), ("a", "x0")]
    >>> graph = DifferentiationGraph(edges)
    >>> chosen = scarce_set(graph, Context(Options()))
    >>> [graph.vertices[v] for v in sorted(chosen)], multiplications_left(graph, chosen)
    (['a'], 7)
    """
    inner, start = frozenset(graph.live_intermediates.tolist()), Elimination.of(graph, Objective.FMA)
    always = inner & _conditional(graph)
    free = sorted(inner - always)
    if len(free) <= _FEW:
        sets = (always.union(chosen) for size in range(len(free) + 1) for chosen in itertools.combinations(free, size))
        return min(sets, key=lambda chosen: _cost(_without(start, chosen)[0]))
    best, cost = _greedy(_without(start, always)[0], always, free, context)
    if len(graph.sources) <= ANNEALED:
        best, cost = _annealed(start, _EDGE * len(graph.sources), free, best, cost, context)
    whole = int(terminal_degrees(graph)[list(graph.roots)].sum())
    return inner if whole < cost[0] else best


def multiplications_left(graph: DifferentiationGraph, eliminated: Collection[int]) -> int:
    """Return the number of edges whose label is not ±1 after the elimination of these intermediates."""
    return _cost(_without(Elimination.of(graph, Objective.FMA), eliminated)[0])[0]


#: Number of multiplications, and number of edges, which determines the additions.
_Cost = tuple[int, int]


def _cost(left: Elimination) -> _Cost:
    """Return the number of multiplications and of edges that remain in a graph."""
    edges = sum(map(len, left.successors))
    return edges - sum(list(row.values()).count(1) for row in left.successors if row), edges


def _without(whole: Elimination, eliminated: Iterable[int]) -> tuple[Elimination, int]:
    """Return the graph after the elimination of some vertices, and the number of products.

    Vertices with few products are eliminated first, which does not change the result.
    """
    left, joined = whole.copy(), 0
    waiting = [(left.cost(k)[0], k) for k in sorted(eliminated)]
    heapq.heapify(waiting)
    while waiting:
        pairs, k = heapq.heappop(waiting)
        now = left.cost(k)[0]
        if now > pairs and waiting and now > waiting[0][0]:
            heapq.heappush(waiting, (now, k))
        else:
            left.eliminate(k)
            joined += now
    return left, joined


def _added(left: Elimination, k: int) -> _Cost:
    """Return the multiplications and edges that the elimination of a vertex would add in the present state."""
    above, below = left.predecessors[k], left.successors[k]
    edges = -len(above) - len(below)
    multiplications = -sum(level > 1 for level in (*above.values(), *below.values()))
    for j, a in above.items():
        row = left.successors[j]
        for i, b in below.items():
            old = row.get(i, 0)
            edges += not old
            # a sum counts as a multiplication, even of ±1 and ±1
            multiplications += (old == 1) if old else (a > 1 or b > 1)
    return multiplications, edges


def _conditional(graph: DifferentiationGraph) -> frozenset[int]:
    """Return the vertices on a path through a label with conditions."""
    labels = [] if graph.tape is None else list(guarded_labels(graph.tape.copy(), graph.labels))
    if not labels:
        return frozenset()
    sources, targets = graph.edges_in_order
    below, above = np.zeros((2, len(graph.vertices)), bool)
    below[graph.targets[labels]] = True
    above[graph.sources[labels]] = True
    conditional = spread(below, sources[::-1], targets[::-1]) | spread(above, targets, sources)
    return frozenset(np.flatnonzero(conditional).tolist())


def _greedy(
    left: Elimination, always: frozenset[int], free: Sequence[int], context: Context
) -> tuple[frozenset[int], _Cost]:
    """Return the best set of the greedy search, and its cost.

    Args:
        left: graph after the elimination of `always`.
        always: vertices that have to be eliminated.
        free: vertices that may be eliminated.
        context: options and deadline.
    """
    turn = random.Random(context.options.seed)
    scores = {k: _added(left, k) for k in free}
    waiting = [(added, turn.random(), k) for k, added in scores.items()]
    heapq.heapify(waiting)
    gone: list[int] = []
    best, cost = 0, (now_cost := _cost(left))
    while waiting and not context.passed and now_cost[0] <= max(_SMALL, _FILL * cost[0]):
        added, order, k = heapq.heappop(waiting)
        if scores.get(k) != added:
            continue
        now = _added(left, k)
        if now > added:  # fill-in edges that already existed have been removed since
            scores[k] = now
            heapq.heappush(waiting, (now, order, k))
            continue
        del scores[k]
        changed = {*left.predecessors[k], *left.successors[k]}
        left.eliminate(k)
        now_cost = now_cost[0] + now[0], now_cost[1] + now[1]
        gone.append(k)
        if now_cost < cost:
            best, cost = len(gone), now_cost
        for v in changed & scores.keys():
            scores[v] = _added(left, v)
            context.spend(_LOOK * (4 + left.cost(v)[0]))
            heapq.heappush(waiting, (scores[v], turn.random(), v))
    return always.union(gone[:best]), cost


def _annealed(
    whole: Elimination, work: float, free: Sequence[int], best: frozenset[int], cost: _Cost, context: Context
) -> tuple[frozenset[int], _Cost]:
    """Return the best set of eliminated vertices that annealing finds, and its cost.

    Args:
        whole: graph without eliminations.
        work: seconds of work to copy the graph.
        free: vertices that may be eliminated.
        best: best set of eliminated vertices so far.
        cost: its cost.
        context: options and deadline.
    """
    options = context.options
    moves = min(_MOVES[options.effort] * len(free), _MOST_MOVES[options.effort])
    turn = random.Random(options.seed)
    now, now_cost = best, cost
    for move in range(moves):
        if context.passed:
            break
        k = turn.choice(free)
        tried = now ^ {k}
        left, joined = _without(whole, tried)
        tried_cost = _cost(left)
        context.spend(work + _JOIN * joined)
        heat = _HOT * (_COLD / _HOT) ** (move / moves)
        if tried_cost <= now_cost or turn.random() < math.exp((now_cost[0] - tried_cost[0] - _TIE) / heat):
            now, now_cost = tried, tried_cost
            if tried_cost < cost:
                best, cost = tried, tried_cost
    return best, cost
