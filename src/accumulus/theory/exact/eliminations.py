"""Proven optima of vertex, edge and face elimination, and lower bounds for plans.

**Proofs.** An `OptimumProof` holds the best bounds and plans of each part of a graph, and runs searches that improve
them.

There are three optima: the costs of the best *vertex*, *edge* and *face* elimination. A vertex order is equivalent to
an edge sequence, and an edge sequence to a face sequence. So the cost of a plan is an upper bound for its own and all
wider classes, and a lower bound for one class holds for all narrower classes. Bounds that hold for every program
(`accumulus.theory.bounds`) hold for all three.

docs/proofs.md proves the bounds. To find the best order is NP-complete (Bentert, Crane, Drange, Mizutani and Sullivan,
2025).

Independent parts of the graph are searched separately. Searches for edges and faces also begin with the eliminations
after which some cheapest program goes on (`accumulus.theory.reductions`): such plans are often found sooner, and are
cheaper. Every search is a generator that yields the best total cost from
time to time, and may be closed at any yield.

**Methods.** Each method starts from the plan of the heuristic method of its class, and then proves it optimal or finds
a better plan, with bounds that hold for every program and with searches of its class. If the method does not finish in
its time or iterations, it returns the best plan so far, with a lower bound below its cost.

The lower bound of `exact-vertex` holds for vertex eliminations, of `exact-edge` for edge eliminations, and of all other
methods for face eliminations, which include vertex and edge eliminations. There are no proofs under objectives that are
counted on the tape, since an emitted tape shares operations independently of the elimination.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final, Literal, NamedTuple

import numpy as np

from accumulus.annealing import Schedule
from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline, OutOfTimeError
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edges_and_faces import (
    EdgeElimination,
    FaceElimination,
    Side,
    edges_of_vertex,
    eliminate_edges,
    eliminate_faces,
    faces_of_edges,
)
from accumulus.elimination.vertex import VertexElimination
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.search.registry import SearchResult, register_method
from accumulus.search.vertex_orders import DEAREST, OrderAnnealing, vertex
from accumulus.theory.bounds import MOST_COLUMNS, Brackets, lower_bound, unmerged
from accumulus.theory.exact.orders import LARGE_BLOCK, MOST_VERTICES, SMALL_BLOCK, OrderSearch
from accumulus.theory.exact.searches import LineSearch
from accumulus.theory.flows import least_costs
from accumulus.theory.methods.edges_and_faces import edge, face, order_through_bridges
from accumulus.theory.reductions import (
    ReducedPart,
    SmallerGraph,
    independent_parts,
    on_its_own,
    reduced_part,
    without_bridges,
)

Level = Literal["vertex", "edge", "face"]
#: From the narrowest to the widest class of eliminations.
LEVELS: Final[tuple[Level, ...]] = ("vertex", "edge", "face")


@dataclass(slots=True)
class _Brackets:
    """Bounds of what the reductions for programs leave of an independent part, by its own independent parts.

    Attributes:
        cost: cost of the eliminations of the reductions.
        state: what they leave.
        parts: vertices of each part of it.
        bounds: bound of each of these parts.
        programs: the bracketing bound of each part, by its form and the largest number of columns.
    """

    cost: int
    state: Elimination
    parts: list[tuple[int, ...]]
    bounds: list[int]
    programs: dict[tuple[object, int], Brackets] = field(default_factory=dict)

    @property
    def bound(self) -> int:
        return self.cost + sum(self.bounds)

    def improve(self, columns: int, work: Callable[[], float]) -> Iterator[int]:
        """Raise the bounds of all parts, from where the last call ended; yield their sum after each program."""
        forms: dict[object, int] = {}
        for k, part in enumerate(self.parts):
            if len(part) > 1:  # the flow bound of a single vertex is its cost
                alone = on_its_own(self.state, part)
                if alone.form not in forms:
                    key = alone.form, columns
                    if key not in self.programs:
                        self.programs[key] = Brackets(alone.state, alone.state.intermediates, columns)
                    for bound in self.programs[key].improve(work):
                        self.bounds[k] = max(self.bounds[k], bound)
                        yield self.bound
                    forms[alone.form] = self.bounds[k]
                self.bounds[k] = max(self.bounds[k], forms[alone.form])
                yield self.bound


@dataclass(slots=True)
class _KnownPart:
    """Bounds and plans of an independent part.

    Attributes:
        order: vertices of the part in the best known order.
        cost: cost of the best known elimination by level; it does not increase from a class to a wider one.
        bound: lower bound by level; it does not increase from a class to a wider one.
        brackets: bounds that hold for every program.
        edges: the best known edge elimination, if it is better than the order.
        faces: search that found a face elimination better than `order` and `edges`.
    """

    order: tuple[int, ...]
    cost: dict[Level, int]
    brackets: _Brackets
    bound: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    edges: list[tuple[int, int, Side]] | None = None
    faces: LineSearch | None = None

    def proven(self, level: Level) -> bool:
        return self.bound[level] >= self.cost[level]

    def improve(self, level: Level, cost: int) -> None:
        for wider in LEVELS[LEVELS.index(level) :]:
            self.cost[wider] = min(self.cost[wider], cost)

    def raise_bound(self, level: Level, bound: int) -> None:
        for narrower in LEVELS[: LEVELS.index(level) + 1]:
            self.bound[narrower] = max(self.bound[narrower], bound)


class OptimumProof:
    """Lower bounds and plans of one graph under one objective.

    Args:
        graph: graph to search.
        objective: objective that is not counted on the tape: "fma" or "multiplications".
        order: best known order of all intermediates.
        deadline: when it passes, the methods raise `OutOfTimeError`; the proof keeps the results so far.
    """

    def __init__(
        self, graph: DifferentiationGraph, objective: Objective, order: Sequence[int], deadline: Deadline = FOREVER
    ) -> None:
        assert not objective.on_tape
        self.graph = graph
        self._state = Elimination.of(graph, objective, deadline)
        self._parts: list[_KnownPart] = []
        position = {v: t for t, v in enumerate(order)}
        costs = np.zeros(len(order), np.int64)
        VertexElimination(graph, objective, deadline=deadline).follow(np.array(order, np.int64), costs=costs)
        prices = dict(zip(order, costs.tolist(), strict=True))
        # with the levels of unmerged parallel edges, bounds hold for every program
        smaller, first = without_bridges(unmerged(graph, objective, deadline))
        least, left = least_costs(smaller), independent_parts(smaller)
        for vertices in independent_parts(self._state):
            cost = sum(prices[v] for v in vertices)
            in_order = tuple(sorted(vertices, key=position.__getitem__))
            inner = set(vertices)
            parts = [part for part in left if part[0] in inner]
            bounds = [sum(least[v] for v in part) for part in parts]
            brackets = _Brackets(sum(first.get(v, 0) for v in vertices), smaller, parts, bounds)
            self._parts.append(_KnownPart(in_order, dict.fromkeys(LEVELS, cost), brackets))
            self._parts[-1].raise_bound("face", brackets.bound)

    def cost(self, level: Level) -> int:
        """Return the cost of the best known elimination."""
        return sum(part.cost[level] for part in self._parts)

    def bound(self, level: Level) -> int:
        """Return the lower bound on the cost of all eliminations of this class."""
        return sum(part.bound[level] for part in self._parts)

    def proven(self, level: Level) -> bool:
        """Return True if the best known elimination of every part is proven optimal."""
        return all(part.proven(level) for part in self._parts)

    def raise_bound(self, level: Level, bound: int) -> None:
        """Raise the bounds of all parts by a lower bound for the whole graph."""
        for part in self._parts:
            # the other parts cost at most their known costs
            part.raise_bound(level, bound - self.cost(level) + part.cost[level])

    def bracket(self, level: Level, work: Callable[[], float], columns: int) -> Iterator[int]:
        """Raise the bounds by the bracketing bounds of each part.

        Args:
            level: class of eliminations whose cost is to be proven.
            work: function that returns the largest number of seconds of work for the next linear program.
            columns: largest number of columns of a linear program.
        """
        for part in self._parts:
            if not part.proven(level):
                for bound in part.brackets.improve(columns, work):
                    part.raise_bound("face", bound)
                    yield self.cost(level)
                    if part.proven(level):
                        break
            if level == "vertex" and not part.proven(level):
                # the reductions for orders leave fewer paths
                smaller = reduced_part(self._state, part.order)
                if smaller.state.intermediates:
                    brackets = Brackets(smaller.state, smaller.state.intermediates, columns)
                    for bound in brackets.improve(work):
                        part.raise_bound("vertex", smaller.cost + bound)
                        yield self.cost(level)

    def take_brackets(self, other: OptimumProof, smaller: SmallerGraph) -> None:
        """Take the bounds that hold for every program from a proof for a graph of which this graph is what is left."""
        known = {
            frozenset(smaller.number[v] for v in vertices): bound
            for part in other._parts
            for vertices, bound in zip(part.brackets.parts, part.brackets.bounds, strict=True)
            if smaller.number.keys() >= {*vertices}
        }
        for part in self._parts:
            part.raise_bound("face", known.get(frozenset(part.order), 0))

    def search_orders(
        self, nodes: int, block: int, most: int = MOST_VERTICES, *, improve: bool = False
    ) -> Iterator[int]:
        """Reduce each part, bound it by blocks, and search its orders from the last vertex.

        Args:
            nodes: largest number of sets of vertices searched for each part.
            block: largest number of vertices of a block.
            most: largest number of vertices of a reduced part that is searched.
            improve: if True, anneal the reduced parts first, then search for better orders at once instead of raising
                the bound step by step, and end before the deadline with the best order so far.
        """
        for part in sorted(self._parts, key=lambda part: len(part.order)):
            if part.proven("vertex"):
                continue
            smaller = reduced_part(self._state, sorted(part.order))  # the blocks do not depend on the known order
            if improve:
                yield from self._anneal(part, smaller)
            if len(smaller.state.intermediates) > most:
                part.raise_bound("vertex", smaller.cost + sum(least_costs(smaller.state).values()))
                continue
            search = OrderSearch(smaller.state, part.cost["vertex"] - smaller.cost, nodes, block)
            try:
                if improve:
                    search.improve_within(0.9 * smaller.state.deadline.left)
                for _ in search.run():
                    part.raise_bound("vertex", smaller.cost + search.lower_bound)
                    yield self.cost("vertex")
            finally:
                if search.order is not None:
                    part.order = smaller.named(search.order)
                part.improve("vertex", smaller.cost + search.cost)
                part.raise_bound("vertex", smaller.cost + search.lower_bound)
            yield self.cost("vertex")

    def _anneal(self, part: _KnownPart, smaller: ReducedPart) -> Iterator[int]:
        """Anneal the orders of a reduced part, of which there are fewer than of the whole part."""
        rank = {v: t for t, v in enumerate(part.order)}
        start = sorted(smaller.state.intermediates, key=lambda k: rank[smaller.members[k][0]])
        if len(start) < 2 or part.cost["vertex"] >= DEAREST:
            return
        annealing = OrderAnnealing(smaller.state, smaller.state.objective, start)
        try:
            for _ in annealing.until_stalled(_REDUCED, 0, math.inf, deadline=smaller.state.deadline):
                yield self.cost("vertex")
        finally:
            (cost, _), order = annealing.best
            if smaller.cost + cost < part.cost["vertex"]:
                part.order = smaller.named(order)
                part.improve("vertex", smaller.cost + cost)

    def search_sequences(
        self, level: Literal["edge", "face"], moves: int, best_cost: int = sys.maxsize
    ) -> Iterator[int]:
        """Search the edge or face eliminations of each part by branch and bound.

        Args:
            level: "edge" or "face".
            moves: largest number of eliminations that are tried for each part.
            best_cost: cost of the best known elimination of the graph in this class, which need not be known by parts.
        """
        for k, part in enumerate(self._parts):
            # the other parts cost at least their bounds, so the known elimination spends at most the rest on this one
            most = min(part.cost[level], best_cost - self.bound(level) + part.bound[level])
            if part.bound[level] >= most:
                continue
            left = sum(not each.proven(level) for each in self._parts[k:])
            share = self._state.deadline.part(1 / max(1, left))
            search = LineSearch(self._state, part.order, most, part.bound[level], edges=level == "edge", moves=moves)
            try:
                for _ in search.run():
                    if search.steps is not None:
                        part.improve(level, search.cost)
                    if share.passed:
                        break
                    yield self.cost(level)
            finally:
                if search.steps is not None:
                    part.improve(level, search.cost)
                part.raise_bound(level, search.lower_bound)
                if search.steps is not None and level == "edge":
                    part.edges = search.named_edges()
                elif search.steps is not None:
                    part.faces = search
            yield self.cost(level)

    def order(self) -> tuple[int, ...]:
        """Return the best known order of all intermediates."""
        return (*(v for part in self._parts for v in part.order), *self._state.dead)

    def accumulation(self, level: Literal["edge", "face"]) -> Accumulation:
        """Return the accumulation of the best known edge or face elimination."""
        if level == "edge":
            return eliminate_edges(self.graph, self._edges(self._parts))
        return eliminate_faces(self.graph, self.faces())

    def faces(self) -> list[tuple[int, int]]:
        """Return the best known face elimination, for `accumulus.elimination.edges_and_faces.eliminate_faces`."""
        elimination = FaceElimination(self.graph)
        # the parts are independent: parts by edges or orders first, then parts with better face sequences
        faces = faces_of_edges(self.graph, self._edges(part for part in self._parts if part.faces is None))
        for each in faces:
            elimination.eliminate(*each)
        for part in self._parts:
            if part.faces is not None:
                assert part.faces.steps is not None
                faces += part.faces.lines.faces(elimination, part.faces.steps)
        return faces

    def _edges(self, parts: Iterable[_KnownPart]) -> list[tuple[int, int, Side]]:
        """Return the best known edge elimination of some parts, from their edge sequences or their orders."""
        elimination, sequence = EdgeElimination(self.graph), list[tuple[int, int, Side]]()
        for part in parts:
            ordered = (each for k in part.order for each in edges_of_vertex(elimination, k))
            for each in ordered if part.edges is None else part.edges:
                elimination.eliminate(*each)
                sequence.append(each)
        return sequence


# Methods -------------------------------------------------------------------------------------------------------------


class Patience(NamedTuple):
    """Limits of a proof: largest numbers of each kind.

    Attributes:
        vertices: vertices of a part whose orders are searched.
        nodes: sets of vertices in a search for orders.
        block: vertices of a block.
        columns: columns of an integer program.
        moves: moves of a search for edges or faces.
    """

    vertices: int = MOST_VERTICES
    nodes: int = sys.maxsize
    block: int = LARGE_BLOCK
    columns: int = MOST_COLUMNS
    moves: int = sys.maxsize


#: Limits of brief proofs, which take some tens of milliseconds. Larger ones delay each plan, smaller ones prove fewer
#: plans.
BRIEF: Final = Patience(vertices=24, nodes=1_000, block=SMALL_BLOCK, columns=1_500, moves=20_000)
#: Largest number of sets of vertices in a search for orders that precedes searches for edges or faces: more take work
#: from these, fewer miss cheap orders that they could start from.
_ON_THE_WAY: Final = 50_000
#: Number of edges beyond which a graph gets only the flow bound. Above, reductions and searches take long and rarely
#: end with a proof; a smaller number gives up proofs.
_LARGEST: Final = 5_000
#: Seconds for each edge to compute the flow bound of such a graph. An estimate above the true time gives up the bound,
#: one below exceeds the time limit.
_BOUND: Final = 5e-5
#: Runs of annealing of reduced parts: longer and more ones cost time in proportion, shorter and fewer ones leave more
#: to the exact search.
_REDUCED: Final = Schedule(50, growth=1.3, stalls=4)
#: Seconds for each edge to reduce a graph. An estimate above the true time gives up proofs under short limits, one
#: below exceeds them.
_REDUCING: Final = 2e-5
#: Fraction of the time for the heuristic method. A larger one finds cheaper plans, which shorten the proof, but leaves
#: less time for it.
_SHARE: Final = 0.4
#: Fraction of the remaining work, and largest number of seconds, for the search for orders before linear programs.
#: Larger ones delay programs whose bound could make the search needless, smaller ones solve programs for graphs whose
#: search would soon end.
_FIRST: Final = 0.25
_FIRST_SECONDS: Final = 3.0
#: Fractions of the remaining work for large linear programs: before better edge or face eliminations are searched, and
#: after it. Larger ones leave less for these and for the exact search if programs prove nothing, smaller ones solve
#: fewer of them.
_BRACKETS: Final = 0.8
_MORE_BRACKETS: Final = 0.8


def _order(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search for an order, and for one of what bridges leave."""
    best = vertex(graph, context)
    if best.interrupted or context.options.objective.on_tape or not context.options.searches or context.passed:
        return best
    try:
        smaller = SmallerGraph(graph, context.options.objective, context)
    except OutOfTimeError:
        return best
    return order_through_bridges(smaller, context, best)[1] if smaller.cost else best


_BASES: Final = {"vertex": _order, "edge": edge, "face": face}


def _register(level: Level) -> None:
    @register_method(f"exact-{level}")
    def find(graph: DifferentiationGraph, context: Context) -> SearchResult:
        best = _BASES[level](graph, context.part(_SHARE))
        if best.interrupted or context.options.objective.on_tape or not context.options.searches or context.passed:
            return best
        return proven(graph, context, best, level)


for _level in LEVELS:
    _register(_level)


def proven(
    graph: DifferentiationGraph,
    context: Context,
    best: SearchResult,
    level: Level,
    *,
    brief: bool = False,
) -> SearchResult:
    """Return the best plan that the search finds, with a lower bound for its level.

    Args:
        graph: graph to eliminate.
        context: options and deadline.
        best: plan of the graph, whose cost limits the search; the search starts from its order, or from the order that
            it began with.
        level: class of eliminations to search, after all narrower classes.
        brief: if True, stop after some tens of milliseconds.
    """
    options = context.options
    if options.objective.on_tape:
        return best
    if len(graph.sources) > _LARGEST:
        if _BOUND * len(graph.sources) > context.seconds:
            return best
        try:
            lowest = lower_bound(graph, options.objective, deadline=context)
        except OutOfTimeError:
            return best
        return replace(best, lower_bound=None if lowest is None else min(lowest, best.cost(options.objective)))
    order = best.order or best.first_order or vertex(graph, context.having(effort="fast", executor=None)).order
    assert order is not None
    try:
        proof = OptimumProof(graph, options.objective, order, context)
    except OutOfTimeError:
        return best
    run = _Run(proof, level, best, context)
    patience = BRIEF if brief else Patience()
    if options.iterations is not None:
        columns, moves = min(MOST_COLUMNS, 5 * options.iterations), 20 * options.iterations
        patience = Patience(24, moves, SMALL_BLOCK, columns, moves)
    interrupted = False
    try:
        with closing(run.steps(patience)) as steps:
            for _ in steps:
                context.report("plan", min(run.cost, proof.cost(level)))
                if context.passed:
                    break
    except OutOfTimeError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    best = _best_of(proof, level) if proof.cost(level) < run.cost else run.best
    bound = min(proof.bound(level), best.cost(options.objective))
    return replace(best, lower_bound=bound, interrupted=best.interrupted or interrupted)


def bound_of_orders(graph: DifferentiationGraph, objective: Objective, work: float) -> int | None:
    """Return the block bound on the cost of every vertex order; None if it takes more than `work` seconds of work."""
    deadline, total = Deadline(math.inf, work=work), 0
    state = Elimination.of(graph, objective, deadline)
    prepare("theory.blocks")
    try:
        deadline.check(_REDUCING * len(graph.sources))
        for vertices in independent_parts(state):
            smaller = reduced_part(state, vertices)
            search = OrderSearch(smaller.state, (1 << 47) - 1, 0, SMALL_BLOCK)
            if search.vertices and not search.failed:
                for _ in search.partitions():
                    pass
            total += smaller.cost + search.lower_bound
    except OutOfTimeError:
        return None
    return total


def search_small_parts(
    graph: DifferentiationGraph,
    context: Context,
    order: Sequence[int],
    vertices: int,
    share: float,
    keep: Callable[[tuple[int, ...]], None],
) -> Generator[int, None, int]:
    """Search for better orders of all parts, exactly if they are small; return a lower bound on the cost of the whole.

    Args:
        graph: graph to eliminate.
        context: options and deadline.
        order: best known order of the intermediates on paths of selected entries.
        vertices: largest number of intermediates of a reduced part that is searched.
        share: fraction of the remaining work to spend on it.
        keep: function that receives the best order at the end, also after exceptions.
    """
    with context.paused():
        prepare("theory.blocks", "theory.orders")
    until = context.part(share)
    inner = {*order}
    order = (*order, *(v for v in graph.intermediates if v not in inner))
    try:
        proof = OptimumProof(graph, context.options.objective, order, until)
    except OutOfTimeError:
        return 0
    try:
        yield from proof.search_orders(sys.maxsize, SMALL_BLOCK, vertices, improve=True)
    except OutOfTimeError:
        pass
    finally:
        keep(proof.order())
    return proof.bound("vertex")


class _Run:
    """Sequence of bounds and searches that ends when the best known plan is proven optimal."""

    def __init__(self, proof: OptimumProof, level: Level, best: SearchResult, context: Context) -> None:
        self.proof, self.level, self._context = proof, level, context
        self.best, self.cost = best, best.cost(context.options.objective)

    def done(self) -> bool:
        return self.proof.bound(self.level) >= min(self.cost, self.proof.cost(self.level))

    def steps(self, patience: Patience) -> Generator[None]:
        """Run the searches within the limits, until the best known plan is proven optimal."""
        first = Patience(*map(min, BRIEF, patience))
        searches = [self._searches(first), self._searches(patience)]
        more = patience.columns > first.columns
        brackets = [
            self._brackets(first, 1.0),
            *(self._brackets(patience, share) if more else () for share in (_BRACKETS, _MORE_BRACKETS)),
        ]
        if self.level == "vertex":
            # a search either ends soon or takes all the time, and the bound of a linear program can make it needless
            until = self._context.left - min(_FIRST * self._context.left, _FIRST_SECONDS)
            soon = takewhile(lambda _: self._context.left > until, searches[1])
            in_turn = [searches[0], soon, *brackets[:2], searches[1]]
        else:
            in_turn = [brackets[0], searches[0], brackets[1], self._smaller(patience), brackets[2], searches[1]]
        for steps in in_turn:
            if not self.done():
                yield from steps

    def _brackets(self, patience: Patience, share: float) -> Generator[None]:
        rest = (1 - share) * self._context.left
        for _ in self.proof.bracket(self.level, lambda: self._context.left - rest, patience.columns):
            yield

    def _searches(self, patience: Patience) -> Generator[None]:
        for level in LEVELS[: LEVELS.index(self.level) + 1]:
            if self.done():
                return
            if level == "vertex":
                self._prepare("theory.blocks", "theory.orders")
                nodes = patience.nodes if level == self.level else min(patience.nodes, _ON_THE_WAY)
                search = self.proof.search_orders(nodes, patience.block, patience.vertices)
            else:
                self._prepare("theory.faces")
                moves = patience.moves if level == self.level else min(patience.moves, BRIEF.moves)
                best_cost = self.cost if level == self.level else self.proof.cost(level)
                search = self.proof.search_sequences(level, moves, best_cost)
            for _ in search:
                yield

    def _smaller(self, patience: Patience) -> Generator[None]:
        """Search what the reductions for programs leave, where better plans are found sooner; first by annealing."""
        if patience != Patience():
            return
        graph, options = self.best.graph, self._context.options
        annealed = _BASES[self.level](graph, self._context.having(effort="thorough").part(_SHARE))
        self._keep(annealed)
        if annealed.interrupted:
            raise KeyboardInterrupt
        yield
        smaller = SmallerGraph(graph, options.objective, self._context)
        if self.done() or not smaller.cost:
            return
        until = self._context.part(_SHARE)
        first = vertex(smaller.graph, until.having(effort="fast", executor=None, progress=None))
        if first.interrupted:
            raise KeyboardInterrupt
        order = first.order
        assert order is not None
        self._prepare("theory.faces")
        assert self.level != "vertex"
        inner = OptimumProof(smaller.graph, options.objective, order, until)
        inner.take_brackets(self.proof, smaller)
        try:
            for _ in inner.search_sequences(self.level, patience.moves, self.cost - smaller.cost):
                if until.passed:
                    break
                yield
        finally:
            if smaller.cost + inner.cost(self.level) < self.cost:
                accumulation = smaller.extended(inner.accumulation(self.level))
                self._keep(SearchResult(graph, f"exact-{self.level}", _accumulation=accumulation))

    def _keep(self, result: SearchResult) -> None:
        """Keep a result of the whole graph if it is the best one."""
        cost = result.cost(self._context.options.objective)
        if cost < self.cost:
            self.best, self.cost = result, cost

    def _prepare(self, *kernels: str) -> None:
        """Prepare the kernels with the clock paused: their first use on a machine compiles them."""
        with self._context.paused():
            prepare(*kernels)


def _best_of(proof: OptimumProof, level: Level) -> SearchResult:
    """Return the best plan of the level, from the narrowest class with a plan of equal cost."""
    narrowest = next(each for each in LEVELS if proof.cost(each) == proof.cost(level))
    if narrowest == "vertex":
        return SearchResult(proof.graph, "exact-vertex", proof.order())
    return SearchResult(proof.graph, f"exact-{narrowest}", _accumulation=proof.accumulation(narrowest))
