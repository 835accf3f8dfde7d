"""Orders of symmetric elimination, for graphs with a mirror, such as graphs of gradients.

Every value is eliminated together with its adjoint (`accumulus.elimination.gradient_graph`). Edge pushing eliminates
the values from the last operation to the first. `symmetric` compares edge pushing with a greedy order (the value with
the fewest products next), with orders from simulated annealing, and, unless the effort is "fast", with orders of
`vertex`, which may eliminate an adjoint long after its value. Under objectives that are counted on the tape, the
cheapest program wins.

For a graph without a mirror, edge pushing is reverse elimination, and `symmetric` is `vertex`.

Source of edge pushing: R. M. Gower and M. P. Mello, A new framework for the computation of Hessians, Optimization
Methods and Software 27, 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import Annealing, Schedule, seed_of, thresholds
from accumulus.context import Context
from accumulus.deadline import OutOfTimeError
from accumulus.elimination.gradient_graph import SymmetricGraph, eliminate_pairs
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.native.machine import kernel, prepare
from accumulus.native.state import Integers, zeros
from accumulus.options import Objective
from accumulus.search.compiled.pairs_kernel import ABOVE, ANNEAL, BELOW, COST, CROSSING, GREEDY, SETS, PairsState
from accumulus.search.elimination import reverse_order
from accumulus.search.registry import SearchResult, get, register_method
from accumulus.search.vertex_orders import Candidate, cheapest_program

#: Largest number of values that are annealed. The bit rows grow with its square, in memory and in time for each visit;
#: beyond it, `edge-pushing` is the only order of pairs.
LARGEST: Final = 2_000
#: Largest number of positions that a move changes: longer moves take longer, shorter ones need more sweeps to carry a
#: value far.
WINDOW: Final = 24
#: Cost of a product under objectives of products, in units of an addition. With a smaller cost, additions outweigh
#: products; with a larger one, they weigh too little to break ties during annealing.
PRODUCT: Final = 64
#: Length of the kernel's table of acceptance thresholds: a longer one takes more of the cache, a shorter one makes the
#: accepted increases coarser, the rare large ones above all.
THRESHOLDS: Final = 1024
#: Seconds of a slice, after which the caller checks the clock. Longer slices react later to the deadline and Ctrl-C,
#: shorter ones spend more on calls of the kernel.
SLICE: Final = 4e-3
#: Seconds of a visit on a current machine: a constant, and the time for each word of all rows. Estimates above the true
#: time make fewer sweeps than fit, estimates below exceed the time of a run.
VISIT: Final = (6e-6, 0.6e-9)


class PairsAnnealing(Annealing):
    """Annealing of the orders of one graph; a visit tries two moves.

    Args:
        graph: graph with at least two values to eliminate.
        objective: for objectives that are counted on the tape a product costs as much as an addition; for others an
            addition only breaks ties.
    """

    HOT, COLD = 0.5, 0.01
    _state: PairsState

    def __init__(self, graph: SymmetricGraph, objective: Objective) -> None:
        self._values = graph.inner
        count = self.count = len(self._values)
        terminals = [v for v, is_value in enumerate(graph.values) if is_value and v in set(graph.graph.terminals)]
        number = {v: k for k, v in enumerate([*self._values, *terminals])}
        words = -(-len(number) // 64)
        rows = _rows(graph, number, count, words)
        inner = np.zeros((1, 64 * words), np.uint8)
        inner[0, :count] = 1
        weights = (1, 1) if objective.on_tape else (PRODUCT, 1)
        self._number = number
        self._state = PairsState(
            base=rows,
            rows=np.empty_like(rows),
            scratch=np.empty_like(rows),
            inner=_words(inner).ravel(),
            order=np.arange(count)[::-1].copy(),
            **zeros(count, "best_order costs tried"),
            thresholds=thresholds(THRESHOLDS),
            random=np.ones(1, np.int64),
            values=count,
            words=words,
            every=objective.every_product,
            products=weights[0],
            additions=weights[1],
            window=WINDOW,
            best=np.iinfo(np.int64).max,
        )
        self._kernel = kernel("search.pairs")
        self._seconds = VISIT[0] + VISIT[1] * rows.size

    def cost(self, order: Sequence[int]) -> int:
        """Return the cost of an order in the kernel's units."""
        state = self._state
        state.order[:] = [self._number[v] for v in order]
        self._call(COST)
        return state.total

    def greedy(self) -> tuple[int, ...]:
        """Return the greedy order: the value with the fewest products next, and among equals the last operation."""
        self._state.order[:] = np.arange(self.count)[::-1]
        self._call(GREEDY)
        return self._named(self._state.order)

    def sweeps_in(self, seconds: float) -> float:
        """Return the number of sweeps that fit into a time in seconds on a current machine."""
        return seconds / (self._seconds * self.count)

    @property
    def best_cost(self) -> int:
        """Cost of the best order so far in the kernel's units."""
        return self._state.best

    @property
    def best(self) -> tuple[int, tuple[int, ...]]:
        """Cost of the best order of all runs so far, and the order."""
        return self._state.best, self._named(self._state.best_order)

    def forget(self) -> None:
        """Discard the best order so far."""
        self._state.best = np.iinfo(np.int64).max

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.order[:] = [self._number[v] for v in start]
        state.at, state.visits = -1, 0
        self._call(ANNEAL)
        return max(1.0, state.total / self.count)

    def _visit(self, visits: int) -> int:
        self._state.visits = min(visits, max(1, int(self.count * self.sweeps_in(SLICE))))
        self._call(ANNEAL)
        return self._state.visits

    def _call(self, mode: int) -> None:
        self._state.mode = mode
        self._kernel(self._state.address)

    def _named(self, order: Integers) -> tuple[int, ...]:
        return tuple(self._values[k] for k in order.tolist())


def _rows(graph: SymmetricGraph, number: dict[int, int], count: int, words: int) -> Integers:
    """Return the bit sets of each value to eliminate, (count, SETS, words)."""
    kinds = graph.graph.kinds
    bits = np.zeros((SETS, count, 64 * words), np.uint8)
    for v, k in number.items():
        for i, e in graph.arguments[v].items():
            varies = kinds[e] not in (Kind.ONE, Kind.MINUS_ONE)
            bits[BELOW : BELOW + 2, k, number[i]] = 1, varies
            if number[i] < count:
                bits[ABOVE : ABOVE + 2, number[i], k] = 1, varies
        if k < count:
            for m in graph.crossing[v]:
                bits[CROSSING, k, number[m]] = 1
    return np.ascontiguousarray(_words(bits).transpose(1, 0, 2))


def _words(bits: NDArray[np.uint8]) -> Integers:
    """Return an array of bits packed into 64-bit words along the last axis."""
    packed = np.packbits(bits, axis=-1, bitorder="little")
    words: Integers = packed.view(np.dtype(np.int64).newbyteorder("<")).astype(np.int64)
    return words


# Methods -------------------------------------------------------------------------------------------------------------


#: Number of annealing runs by effort, and the schedule of each run. More and longer runs cost time in proportion, fewer
#: and shorter ones leave more products; more runs also mean more programs to emit and count.
_ORDERS: Final = {"fast": 1, "balanced": 3, "thorough": 12}
_SCHEDULE: Final = {
    "fast": Schedule(10, growth=1.0, stalls=0),
    "balanced": Schedule(30, growth=1.0, stalls=0),
    "thorough": Schedule(100, growth=1.5, stalls=2),
}
#: Orders that cost more than this multiple of the cheapest order are not counted on the tape. Counting more of them
#: takes time, counting fewer misses orders whose program is shorter than their steps suggest.
_MORE: Final = 1.3
#: Fraction of the time for orders of pairs; the rest is for `vertex`. A larger one shortens the search for orders that
#: separate pairs, a smaller one the search for orders of pairs.
_OWN: Final = 0.6
#: Seconds of one run on a current machine, which determine the number of sweeps. Longer runs delay the first result on
#: large graphs, shorter ones anneal these less.
_RUN: Final = {"fast": 0.02, "balanced": 0.06, "thorough": math.inf}


@register_method("edge-pushing", seconds=lambda work: 4e-6 * work.reverse)
def edge_pushing(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Eliminate the values from the last operation to the first, each with its adjoint."""
    if graph.mirror is None:
        return SearchResult(graph, "edge-pushing", reverse_order(graph))
    return _eliminated(graph, "edge-pushing", SymmetricGraph(graph).inner[::-1])


@register_method("symmetric")
def symmetric(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search for the best order of values, each eliminated with its adjoint."""
    options = context.options
    if graph.mirror is None:
        return get("vertex").find(graph, context)
    candidates: list[SearchResult] = []
    interrupted = False
    try:
        for name, order in _orders(SymmetricGraph(graph), context.part(_OWN)):
            candidates.append(_eliminated(graph, name, order))
        if options.effort != "fast" and not (options.searches and context.passed):
            other = get("vertex").find(graph, context)
            candidates.append(other)
            interrupted = other.interrupted
    except KeyboardInterrupt:
        interrupted = True
        candidates = candidates or [edge_pushing(graph, context)]
    cheapest = _cheapest(candidates, context)
    if callable(options.progress) and not interrupted:
        try:
            context.report("plan", cheapest.cost(options.objective))
        except KeyboardInterrupt:
            interrupted = True
    return replace(cheapest, interrupted=True) if interrupted else cheapest


def _orders(pairs: SymmetricGraph, context: Context) -> list[tuple[str, tuple[int, ...]]]:
    """Return named candidates: edge pushing, forward and greedy orders, and annealed ones as time allows."""
    options = context.options
    pushing = pairs.inner[::-1]
    if not 2 <= len(pairs.inner) <= LARGEST:
        return [("edge-pushing", pushing)]
    with context.paused():
        prepare("search.pairs")
    annealing = PairsAnnealing(pairs, options.objective)
    greedy = annealing.greedy()
    costs = {order: annealing.cost(order) for order in (greedy, pairs.inner, pushing)}
    start = min(costs, key=lambda order: costs[order])
    orders = _ORDERS[options.effort] if options.searches else 0
    iterations = None if options.iterations is None else -(-options.iterations // max(1, orders))
    for number in range(orders):
        if context.passed:
            break
        annealing.forget()
        sweeps = annealing.sweeps_in(min(context.seconds, _RUN[options.effort]))
        seed = seed_of(options.seed, number) if number else options.seed
        with suppress(OutOfTimeError):
            for _ in annealing.until_stalled(_SCHEDULE[options.effort], seed, sweeps, iterations, [start], context):
                pass
        cost, order = annealing.best
        costs[order] = cost
    # with effort "fast" only the best order, since every candidate has to be eliminated and its program counted
    limit = min(costs.values()) * (1.0 if options.effort == "fast" else _MORE)
    candidates = [order for order, cost in costs.items() if cost <= limit]
    names = {pushing: "edge-pushing"}
    return [
        (names.get(order, "symmetric"), order)
        for order in (candidates[-1:] if options.effort == "fast" else candidates)
    ]


def _eliminated(graph: DifferentiationGraph, method: str, order: tuple[int, ...]) -> SearchResult:
    return SearchResult(graph, method, _accumulation=eliminate_pairs(graph, order))


def _cheapest(results: list[SearchResult], context: Context) -> SearchResult:
    """Return the cheapest result under the objective, and the first among equals."""
    options = context.options
    if not options.objective.on_tape:
        return min(results, key=lambda result: result.cost(options.objective))
    candidates = [
        Candidate(result, (result.cost(Objective.MULTIPLICATIONS), result.cost(Objective.FMA))) for result in results
    ]
    return cheapest_program(candidates, context.unless_searched())
