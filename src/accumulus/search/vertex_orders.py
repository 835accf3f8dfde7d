"""Orders of vertex elimination: greedy orders, annealing, windows of large graphs, and choice by programs.

**Greedy orders.** Forward and reverse elimination are forward and reverse mode on sparse derivatives. Markowitz
eliminates the vertex that is cheapest at the moment (Griewank and Reese 1991, after Markowitz 1957 for sparse
factorization). None of them is optimal, or within a constant factor.

Free products and additions also have to be recorded, verified and emitted. So an order with many more products than the
better sweep is abandoned, even if its cost under the objective is lower. The counts of forward and reverse elimination
are known without running them (`accumulus.search.elimination`).

**Programs.** Under objectives that count the operations of a program, the order with the cheapest tape wins.

Fewer products do not always mean fewer operations: labels coincide and share subexpressions with the function. So the
tape of each order is emitted and counted, as time permits, except for orders with far more steps than the best. If the
tape is rewritten afterwards and the effort is thorough, a short run of the rewriter scores each order instead. The
rewriter removes many operations that a poor order adds, so the order of the shortest tape need not win.

**Windows.** In large graphs, local search anneals windows of the order in turn.

The cost of eliminating a set of vertices after another set does not depend on the order within the earlier set, nor on
later vertices. So the vertices of a window, an interval of positions in the order, form a small graph with their
neighbours after the elimination of all earlier vertices. The kernel carries the large graph from window to window,
`OrderAnnealing` orders each window, and the gain of a window is a gain of the whole order.

A window is worth its time if its vertices are neighbours. So the order is first rewritten as a depth-first order of
equal cost (`VertexElimination.arranged`). A round then searches the windows in several passes, the most expensive
windows first. Each round rewrites the order again, which gives other windows, until the rounds gain too little.

The search is deterministic unless the time limit or Ctrl-C ends it. Time: one elimination of the graph for each pass,
and some ten milliseconds for each window. Memory: as for an elimination; to rewrite the order takes another 16 bytes
for each neighbour that a vertex has when it is eliminated.

**The method `vertex`** starts from the best greedy order and anneals its cost until the search stalls. Under objectives
that are counted on the tape, several short runs with other seeds anneal further orders, and `cheapest_program` chooses
among these and the greedy orders, since orders with equally few products make programs of different lengths. The method
returns the best order so far at the time limit, on Ctrl-C, and if there is nothing to search. Under effort "thorough"
it also searches small parts exactly (`accumulus.theory.exact.orders`), or windows, and anneals as long as it helps and
the time limit leaves work, but not under objectives that are counted on the tape. In graphs of more than
`LARGEST` intermediates it anneals windows of the best greedy order (`Windows`), unless the effort is fast.

The result is not proven optimal. It is optimal on all graphs of up to seven intermediates that the tests draw; on the
public graphs of about 100 vertices nearly every seed reaches the best known values at the default effort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final

import numpy as np

from accumulus.annealing import Annealing, Schedule, rounds, seed_of
from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.elimination.emit import emit
from accumulus.elimination.vertex import UNLIMITED, Cost, Limit, Priced, VertexElimination, markowitz_order, price
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import PROOFS
from accumulus.native.machine import kernel, prepare
from accumulus.native.state import Integers, zeros
from accumulus.options import Effort, Objective, Options
from accumulus.rewriting.optimise import preview
from accumulus.search.compiled.order_kernel import SHIFT, TABLE_LENGTH, TABLE_STEP, OrderState
from accumulus.search.elimination import (
    BitRows,
    Elimination,
    Greedy,
    cheapest_sweep,
    forward_order,
    reverse_order,
    sweep_counts,
)
from accumulus.search.registry import SearchResult, register_method
from accumulus.tape.tape import SELECT

#: Number of products up to which no greedy order is abandoned for its number of products. A larger number completes
#: orders that are too expensive, a smaller one saves little and abandons orders with cheap programs.
CHEAP: Final = 10_000
#: An order is abandoned after `MANY` times the products of the better sweep. If the sweeps cannot be counted, the first
#: limit is `FEW` products for each edge; as long as no order stays below the limit, it is multiplied by `MANY`. Larger
#: factors spend time on hopeless orders, smaller ones lose good orders or begin again more often.
FEW: Final = 4
MANY: Final = 8


def greedy_orders(graph: DifferentiationGraph, objective: Objective, deadline: Deadline = FOREVER) -> list[Greedy]:
    """Return the greedy orders, simplest first, without orders that were abandoned or unfinished at the deadline.

    An order is abandoned once it makes `MANY` times the products of the better sweep. If sweeps cannot be counted, the
    limit rises until one of the three orders stays below it. An order is also abandoned once it costs more than a
    completed one, or, under objectives that are counted on the tape, makes twice its products. The costs under these
    objectives are multiplications.
    """
    counted, exact = sweep_counts(graph)
    orders = {"forward": forward_order(graph), "reverse": reverse_order(graph)}
    some_choice = orders["forward"] != orders["reverse"]
    with deadline.paused():
        prepare("elimination.vertex", "elimination.labels")  # compiled in parallel, if they are not yet
    fewest = min((priced.products for priced in counted.values()), default=FEW * len(graph.sources) // MANY)
    most = max(CHEAP, MANY * fewest)
    completed: dict[str, Greedy] = {}

    def limit() -> Limit:
        """Return the limit of the next order."""
        prices = [greedy.priced for greedy in completed.values()]
        if not prices:
            return Limit(products=most)
        if objective.on_tape:
            return Limit(products=min(most, max(CHEAP, 2 * min(priced.products for priced in prices))))
        return Limit(min(priced.cost[0] for priced in prices), most)

    def priced_sweep(name: str) -> Priced | None:
        if not exact:
            return price(graph, orders[name], objective, limit(), deadline)
        sweep, within = counted[name], limit()
        return sweep if sweep.cost[0] <= within.cost and sweep.products <= within.products else None

    try:
        while not completed:
            for name in sorted(orders, key=lambda name: counted[name].products if counted else 0):
                priced = priced_sweep(name)
                if priced is not None:
                    completed[name] = Greedy(name, orders[name], priced)
            # skipped if there is only one order
            markowitz = markowitz_order(graph, objective, limit(), deadline) if some_choice else None
            if markowitz is not None:
                completed["markowitz"] = Greedy("markowitz", markowitz[1], markowitz[0])
            most *= MANY
    except OutOfTimeError:
        if not completed:
            completed["sweep"] = cheapest_sweep(graph)
    return [completed[name] for name in ("forward", "reverse", "markowitz", "sweep") if name in completed]


@register_method("forward", seconds=lambda work: 2e-6 * work.forward)
def forward(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Eliminate vertices from the terminals to the roots."""
    return SearchResult(graph, "forward", forward_order(graph))


@register_method("reverse", seconds=lambda work: 2e-6 * work.reverse)
def reverse(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Eliminate vertices from the roots to the terminals."""
    return SearchResult(graph, "reverse", reverse_order(graph))


@register_method("markowitz", seconds=lambda work: 20e-6 * work.fewest)
def markowitz(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Eliminate the vertex that is cheapest under the objective next."""
    priced_order = markowitz_order(graph, context.options.objective, UNLIMITED, context)
    assert priced_order is not None
    return SearchResult(graph, "markowitz", priced_order[1])


# Programs ------------------------------------------------------------------------------------------------------------


#: Candidates with more than this multiple of the fewest steps are not counted. Counting more of them takes time,
#: counting fewer misses orders whose program is shorter than their steps suggest.
_MORE_STEPS: Final = 1.3
#: The same multiple, with the same costs, if the rewriter scores candidates, since it evens out larger differences, or
#: if labels have conditions, since the number of steps then says little: the sum of two branches is one select.
_MANY_MORE_STEPS: Final = 2.5
#: If labels have conditions, the rewriter sweeps programs of up to this multiple of the shortest program's operations
#: before the choice: it shortens products of selects with the same condition. Sweeping more programs takes time,
#: sweeping fewer misses those that the rewriter shortens most.
_CLOSE: Final = 1.1
#: Number of steps beyond which the rewriter scores no candidates: a short run is not a useful score of such programs. A
#: larger number spends time on these runs, a smaller one ranks more programs without rewriting.
_SCORED: Final = 50_000
#: Seconds of work to emit a program: a constant, and the time for each step. Estimates above the true time count fewer
#: candidates, estimates below exceed the work.
_EMIT: Final = (5e-4, 2e-6)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order that may be the best.

    Attributes:
        result: result with the order.
        cost: cost under the objective of eliminations, and under the objective that breaks ties.
        additions: number of additions of labels; None to count them when they are needed.
    """

    result: SearchResult
    cost: Cost
    additions: int | None = None

    @property
    def steps(self) -> int:
        """Number of products that are not free, plus number of additions."""
        if self.additions is None:
            return self.cost[0] + self.result.accumulation.steps.is_product.count(0)
        return self.cost[0] + self.additions


def cheapest_program(candidates: Sequence[Candidate], context: Context) -> SearchResult:
    """Return the candidate with the cheapest of the programs counted before the deadline."""
    options = context.options
    steps = [candidate.steps for candidate in candidates]
    fewest = min(steps)
    rewritten = options.counts_rewritten and options.effort == "thorough" and fewest <= _SCORED
    tape = candidates[0].result.graph.tape
    conditional = tape is not None and SELECT in tape.codes
    limit = (_MANY_MORE_STEPS if rewritten or conditional else _MORE_STEPS) * fewest
    worth = {
        # candidates with equal counts are taken to be the same order; the first one is kept
        (count, candidate.cost): candidate.result
        for count, candidate in zip(reversed(steps), reversed(candidates), strict=True)
        if count <= limit
    }
    # fewest steps first, since the remaining work may suffice for one program only
    likeliest = [worth[key] for key in sorted(worth)]
    if len(likeliest) == 1:
        return likeliest[0]

    def program_cost(result: SearchResult) -> int:
        return result.cost(options.objective)

    def rewritten_cost(result: SearchResult) -> int:
        return preview(emit(result.accumulation), context)

    def swept_cost(result: SearchResult) -> int:
        return preview(emit(result.accumulation), context, 0)

    counted = _counted(likeliest, rewritten_cost if rewritten else program_cost, context)
    lowest = min(cost for cost, _ in counted)
    if conditional and options.counts_rewritten and not rewritten and lowest <= _SCORED:
        counted.sort(key=lambda pair: pair[0])
        close = [result for cost, result in counted if cost <= _CLOSE * lowest]
        # the shortest program stays if there is no time to sweep another one
        if len(close) > 1 and len(swept := _counted(close, swept_cost, context)) > 1:
            counted = swept
    return min(counted, key=lambda pair: pair[0])[1]


def _counted(
    candidates: Sequence[SearchResult], cost_of: Callable[[SearchResult], int], deadline: Deadline
) -> list[tuple[int, SearchResult]]:
    """Return the candidates that are counted before the deadline, at least one, with their costs."""
    counted = []
    for candidate in candidates:
        before = deadline.left
        counted.append((cost_of(candidate), candidate))
        deadline.spend(_EMIT[0] + _EMIT[1] * len(candidate.accumulation.steps))
        # the next count takes about as long, and the deadline must not pass before its end
        if deadline.passed or 2 * (before - deadline.left) > deadline.left:
            break
    return counted


# Annealing -----------------------------------------------------------------------------------------------------------


#: Largest number of intermediates that are annealed whole. The bit rows grow with its square, in memory and in time for
#: each step; larger graphs are annealed in windows, which see less of the order.
LARGEST: Final = 4_000
#: Largest cost for which both numbers of a cost fit one integer. A larger one overflows for worse orders on the way, a
#: smaller one leaves more expensive graphs to greedy orders.
DEAREST: Final = 1 << 27
#: Largest number of positions that a move shifts a vertex: a longer shift costs steps in proportion, a shorter one
#: needs more sweeps to carry a vertex far.
WINDOW: Final = 128
#: Weight of the tie-breaking cost, which gives the search a slope on plateaus of the first cost. A larger one trades
#: the first cost for the second, a smaller one leaves the search to wander on plateaus.
TIE: Final = 0.125
#: Seconds of a slice, after which the caller checks the clock. Longer slices react later to the deadline and Ctrl-C,
#: shorter ones spend more on calls of the kernel.
SLICE: Final = 4e-3
#: Seconds of a step on a current machine: a constant, and the time for each word of a row. Estimates above the true
#: time make fewer sweeps than fit, estimates below exceed the time of a run.
STEP: Final = (25e-9, 6e-9)


class OrderAnnealing(Annealing):
    """Annealing of the orders of one graph; a visit twice removes a vertex and reinserts it elsewhere.

    Args:
        state: graph before any elimination, with at least two intermediates.
        objective: objective; multiplications are annealed for objectives that are counted on the tape.
        start: initial order; vertices outside ``state.intermediates`` are ignored, here and in runs.
    """

    HOT, COLD = 2.0, 0.05
    _state: OrderState

    def __init__(self, state: Elimination, objective: Objective, start: Sequence[int]) -> None:
        bits = BitRows.of(state)
        rows, sizes = bits.rows, bits.sizes
        self._vertices, self._number = state.intermediates, bits.number
        count = self.count = len(self._vertices)
        words = rows.shape[2]
        first, tie = 1 << SHIFT, 1
        products, multiplications = objective.ranked(first, tie)
        self._state = OrderState(
            base=rows,
            mask=np.zeros(words, np.int64),
            sizes=sizes,
            vertices=count,
            words=words,
            scalar=bool(objective.on_tape or (sizes == 1).all()),  # on a tape, a vector's label is one value
            products=products,
            multiplications=multiplications,
            rows=np.empty_like(rows),
            scratch=np.empty_like(rows),
            **zeros(count, "order best_order"),
            **zeros(count + 1, "costs costs_of_x changed stack waiting spare"),
            sums=np.zeros(count + 1),
            table=np.exp(-np.arange(TABLE_LENGTH) / TABLE_STEP),
            random=np.ones(1, np.int64),
            window=WINDOW,
            best=np.iinfo(np.int64).max,
        )
        self._run = kernel("search.order")
        self._sweep_steps = 2 * count * min(WINDOW, count // 2 + 1)
        self._words: int = words
        self._begin(start)

    def sweeps_in(self, seconds: float) -> float:
        """Return the number of sweeps that fit into a time in seconds on a current machine."""
        return seconds / (self._sweep_steps * (STEP[0] + STEP[1] * self._words))

    @property
    def best_cost(self) -> int:
        """Cost of the best order so far, under the objective."""
        return _costs(self._state.best)[0]

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """Cost of the best order of all runs so far, and the order."""
        return _costs(self._state.best), tuple(self._vertices[k] for k in self._state.best_order.tolist())

    def start_from(self, order: Sequence[int]) -> None:
        """Take note of an order, which becomes the best one if it is."""
        self._begin(order)

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.order[:] = [self._number[v] for v in start if v in self._number]
        state.at, state.visits, state.sweeps = -1, 0, 0
        self._run(state.address)
        scale = max(1.0, _costs(state.total)[0] / self.count / 4)
        state.primary, state.secondary = 1 / scale, TIE / scale
        return 1.0  # the weights of the two costs already include the unit

    def _visit(self, visits: int) -> int:
        state = self._state
        state.visits = min(visits, max(1, int(self.count * self.sweeps_in(SLICE))))
        self._run(state.address)
        return state.visits


def _costs(total: int) -> Cost:
    first = (total + (1 << (SHIFT - 1))) >> SHIFT
    return first, total - (first << SHIFT)


# Windows -------------------------------------------------------------------------------------------------------------


#: Numbers of vertices of a window, which the rounds use in turn. Small windows gain most for their time; larger ones
#: find exchanges that small ones cannot, and take longer.
WINDOWS: Final = (64, 128, 48)
#: Largest number of vertices of a window with its neighbours, and of their edges; larger windows are skipped. Larger
#: limits take memory and time for each such window, smaller ones leave the dense parts of an order as they are.
MOST_VERTICES: Final = 1_024
MOST_EDGES: Final = 50_000
#: Sweeps of annealing in a window: more cost time in proportion, fewer start cooler (`FEW_SWEEPS`) and improve less.
SWEEPS: Final = 15
#: Fraction of the windows that have been searched after each pass of a round, the most expensive windows first. More
#: passes gain earlier under short limits, but each follows the whole order again.
PASSES: Final = (1 / 16, 1 / 4, 1.0)
#: Smallest gain of a useful round, as a fraction of the cost, and the number of consecutive other rounds that end the
#: search. A smaller gain and more rounds cost time, a larger gain and fewer rounds leave products.
_GAIN: Final = {"fast": 1.0, "balanced": 0.005, "thorough": 0.0}
_STALLS: Final = {"fast": 1, "balanced": 2, "thorough": 9}


class Windows:
    """Search in windows of the order of one graph.

    Args:
        graph: graph to eliminate.
        objective: objective of the costs.
        order: initial order of all intermediates.
        cost: cost of the initial order.
        deadline: when it passes, `run` raises `OutOfTimeError`; `order` and `cost` keep the best result so far.

    Attributes:
        cost: cost of the best order so far, under the objective and under the objective that breaks ties.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        objective: Objective,
        order: Sequence[int],
        cost: Cost,
        deadline: Deadline = FOREVER,
    ) -> None:
        self._graph, self._deadline = graph, deadline
        # for objectives counted on the tape `OrderAnnealing` ignores sizes, but the given cost includes them
        self._objective = objective.of_eliminations
        state = self._whole()
        matters = np.zeros(len(graph.vertices), bool)
        matters[state.intermediates] = True
        numbers = np.array(order, np.int64)
        self._order, self._dead = numbers[matters[numbers]], state.dead
        self._sizes: list[int] = graph.sizes.tolist()
        self.cost = cost

    @property
    def order(self) -> tuple[int, ...]:
        """Best order so far."""
        return (*self._order.tolist(), *self._dead.tolist())

    def run(self, effort: Effort, seed: int, iterations: int | None = None) -> Iterator[int]:
        """Search until rounds gain too little; yield the best cost after each window.

        Args:
            effort: effort of the search, which determines when it stops.
            seed: seed of the random windows.
            iterations: largest number of visited vertices; None for no limit.
        """
        left = math.inf if iterations is None else iterations
        for round_ in rounds(_STALLS[effort], lambda: self.cost[0], _GAIN[effort]):
            size = WINDOWS[round_ % len(WINDOWS)]
            rng = np.random.Generator(np.random.PCG64([seed, round_]))
            costs = self._arrange(rng if round_ else None)
            yield self.cost[0]
            first = int(rng.integers(size)) if round_ else 0
            bounds = np.array([0, *range(first or size, len(self._order), size), len(self._order)])
            cost_of = np.add.reduceat(costs, bounds[:-1])
            dear = np.argsort(-cost_of, kind="stable")
            # a window with at most one product for each vertex cannot gain, and costs above `DEAREST` do not fit the
            # kernel
            dear = dear[((cost_of > np.diff(bounds)) & (cost_of < DEAREST))[dear]]
            done = 0
            for share in PASSES:
                until = math.ceil(share * len(dear))
                chosen, done = np.sort(dear[done:until]).tolist(), until
                for visits, cost in self._sweep(bounds.tolist(), chosen, (seed, round_)):
                    yield cost
                    left -= visits
                    if left <= 0:
                        return

    def _whole(self) -> VertexElimination:
        """Return the state before any elimination."""
        return VertexElimination(self._graph, self._objective, deadline=self._deadline)

    def _arrange(self, rng: np.random.Generator | None) -> Integers:
        """Rewrite the order as a depth-first order of equal cost; return the cost of each vertex."""
        state = self._whole()
        ends = self._order[::-1].copy()
        if rng is not None:
            rng.shuffle(ends)
        order, cost = state.arranged(self._order, ends)
        del state
        costs = np.zeros(len(order), np.int64)
        again = self._whole()
        again.follow(order, costs=costs)
        assert again.cost == cost, "an order that was to cost the same does not"
        self._order = order
        return costs

    def _sweep(self, bounds: Sequence[int], chosen: Sequence[int], seed: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Search in the chosen windows in order; yield the number of visited vertices and the best cost."""
        state = self._whole()
        at = 0
        for number in chosen:
            start, end = bounds[number], bounds[number + 1]
            state.follow(self._order[at:start])
            visits = self._anneal(state, start, end, (*seed, number))
            state.follow(self._order[start:end])
            at = end
            yield visits, self.cost[0]

    def _anneal(self, state: VertexElimination, start: int, end: int, seed: tuple[int, ...]) -> int:
        """Reorder the vertices of a window if that is cheaper; return the number of visited vertices."""
        window = self._order[start:end]
        edges = state.edges_at(window, MOST_EDGES)
        if edges is None or end - start < 2:
            return 0
        number = {v: k for k, v in enumerate(window.tolist())}
        local = [(number.setdefault(j, len(number)), number.setdefault(i, len(number)), level) for j, i, level in edges]
        if len(number) > MOST_VERTICES:
            return 0
        sizes = [self._sizes[v] for v in number]
        inside = Elimination(local, sizes, range(end - start), self._objective)
        annealing = OrderAnnealing(inside, self._objective, range(end - start))
        before, _ = annealing.best
        visits = SWEEPS * (end - start)
        for _ in annealing.run(range(end - start), visits, seed, deadline=self._deadline):
            self._deadline.check()
        after, order = annealing.best
        if after < before:
            self._order[start:end] = window[list(order)]
            self.cost = self.cost[0] - before[0] + after[0], self.cost[1] - before[1] + after[1]
        return visits


# The method `vertex` -------------------------------------------------------------------------------------------------


#: Runs of annealing by effort: longer and more ones cost time in proportion, shorter and fewer ones leave more
#: products.
_ANNEALING: Final = {
    "fast": Schedule(20, growth=1.0, stalls=0),
    "balanced": Schedule(25, growth=1.3, stalls=2),
    "thorough": Schedule(100, growth=1.5, stalls=10, heats=(0.03, 1.0)),
}
#: Largest number of intermediates of a part whose orders are searched exactly under effort "thorough", and the fraction
#: of the remaining work for that. Larger limits take work from annealing for searches that may not finish, smaller ones
#: lose optimal orders and their proofs.
_EXACT: Final = 64
_EXACT_WORK: Final = 0.6
#: Number of intermediates beyond which windows are annealed before the whole, and nothing is searched exactly. A larger
#: number leaves medium graphs to slow moves over the whole order, a smaller one gives up exact parts.
_WHOLE: Final = 512
#: Number of annealing runs by effort, and their schedule, under objectives that are counted on the tape. More runs give
#: more candidates, each of which has to be emitted and counted; longer schedules gain nothing.
_ORDERS: Final = {"fast": 1, "balanced": 4, "thorough": 16}
_BRIEF: Final = Schedule(6, growth=1.0, stalls=0, gives_up=True)
#: Seconds of one run on a current machine, which determine a number of sweeps, so that results do not depend on the
#: clock. They keep the time to the first result to a fraction of a second, also on graphs of some hundreds of vertices;
#: longer runs would delay it, shorter ones leave more products.
_RUN: Final = {"fast": 0.02, "balanced": 0.04, "thorough": math.inf}


@register_method("vertex")
def vertex(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search for the best vertex elimination order."""
    options = context.options
    # with a time limit of 0 the greedy orders still finish
    until = context.unless_searched()
    candidates = [
        Candidate(SearchResult(graph, greedy.name, greedy.order), greedy.priced.cost, greedy.priced.additions)
        for greedy in greedy_orders(graph, options.objective, until)
    ]
    interrupted = False
    if _searchable(graph, candidates, options) and not until.passed:
        try:
            with context.paused():
                prepare("search.order")
            with closing(_search(graph, context, candidates)) as search:
                for cost in search:
                    context.report("plan", cost)
                    if context.passed:
                        break
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            interrupted = True
    if options.objective.on_tape:
        result = cheapest_program(candidates, until)
        if callable(options.progress) and not interrupted:
            try:
                context.report("plan", result.cost(options.objective))
            except KeyboardInterrupt:
                interrupted = True
    else:
        result = _cheapest(candidates).result
    return replace(result, interrupted=True) if interrupted else result


def _searchable(graph: DifferentiationGraph, candidates: list[Candidate], options: Options) -> bool:
    if not options.searches:
        return False
    lowest, _ = _cheapest(candidates).cost
    live = len(graph.live_intermediates)
    if live > LARGEST:
        return options.effort != "fast" and lowest > 0
    return live >= 2 and 0 < lowest < DEAREST


def _search(graph: DifferentiationGraph, context: Context, candidates: list[Candidate]) -> Generator[int]:
    """Yield the best cost from time to time; on exit, add better orders to the candidates, also after exceptions."""
    options = context.options
    start = _cheapest(candidates)
    assert start.result.order is not None
    if len(graph.live_intermediates) > LARGEST:
        windows = Windows(graph, options.objective, start.result.order, start.cost, context)
        try:
            yield from windows.run(options.effort, options.seed, options.iterations)
        finally:
            if windows.cost < start.cost:
                candidates.append(Candidate(SearchResult(graph, "vertex", windows.order), windows.cost))
        return
    on_tape = options.objective.on_tape
    # the cost on the tape of the initial order: annealing knows only products, whose number is not the objective's cost
    report = start.result.cost(options.objective) if on_tape and callable(options.progress) else None
    orders, schedule = (_ORDERS[options.effort], _BRIEF) if on_tape else (1, _ANNEALING[options.effort])
    iterations = None if options.iterations is None else -(-options.iterations // orders)
    state = Elimination.of(graph, options.objective)
    if options.effort == "thorough" and not on_tape and iterations is None:
        yield from _thorough(graph, context, state, candidates)
        return
    for number in range(orders):
        annealing = OrderAnnealing(state, options.objective, start.result.order)
        sweeps = annealing.sweeps_in(min(context.seconds, _RUN[options.effort]))
        seed = seed_of(options.seed, number) if number else options.seed
        try:
            for best in annealing.until_stalled(schedule, seed, sweeps, iterations, deadline=context):
                yield best if report is None else report
        finally:
            cost, order = annealing.best
            if cost < start.cost:
                candidates.append(Candidate(SearchResult(graph, "vertex", (*order, *state.dead)), cost))


def _thorough(
    graph: DifferentiationGraph, context: Context, state: Elimination, candidates: list[Candidate]
) -> Generator[int]:
    """Anneal as with less effort, then windows of large graphs, or small parts exactly, then the whole with the rest.

    So the plan is never worse than with less effort. Runs that begin cold improve the best order, also of graphs for
    which runs that begin hot would take too long.
    """
    options, start = context.options, _cheapest(candidates)
    assert start.result.order is not None
    annealing, bound = OrderAnnealing(state, options.objective, start.result.order), 0

    def annealed(effort: Effort, most: float) -> Iterator[int]:
        sweeps = annealing.sweeps_in(min(most, _RUN[effort]))
        return annealing.until_stalled(_ANNEALING[effort], options.seed, sweeps, deadline=context)

    try:
        yield from annealed("balanced", context.seconds)
        if annealing.count > _WHOLE:
            cost, order = annealing.best
            windows = Windows(graph, options.objective, order, cost, context)
            try:
                yield from windows.run("thorough", options.seed)
            finally:
                annealing.start_from(windows.order)
        else:
            proofs = import_module(PROOFS)  # part of the theory, which no search of less effort imports
            bound = yield from proofs.search_small_parts(
                graph, context, annealing.best[1], _EXACT, _EXACT_WORK, annealing.start_from
            )
        if bound < annealing.best_cost:
            yield from annealed("thorough", math.inf)
    finally:
        cost, order = annealing.best
        if cost < start.cost:
            candidates.append(Candidate(SearchResult(graph, "vertex", (*order, *state.dead)), cost))


def _cheapest(candidates: list[Candidate]) -> Candidate:
    """Return the cheapest candidate, and the first among equals."""
    return min(candidates, key=lambda candidate: candidate.cost)
