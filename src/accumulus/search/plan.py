"""Plans: an accumulation, how it was found, and what it costs. Every plan is verified before it is handed out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from accumulus.accumulate.accumulation import Accumulation
from accumulus.deadline import Deadline
from accumulus.errors import ArgumentError, ExecutorWarning, OrderError, TimeLimitWarning, VerificationError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Effort, Options
from accumulus.progress import Progress
from accumulus.search.joint import cheapest_program
from accumulus.search.kept.store import is_on, key_of, recall, remember
from accumulus.search.methods import get
from accumulus.search.passes import cost_of, verify
from accumulus.search.registry import Found
from accumulus.search.workers import Workers
from accumulus.text import printable

if TYPE_CHECKING:
    from accumulus.algebra.sets import ExpressionSet

__all__ = ["Plan", "find_plan", "plan"]

#: Part of the time in which orders are searched, where they are then scored by what the tape's optimiser makes of them.
_ORDERS: Final = 0.7


@dataclass(frozen=True)
class Plan:
    """A verified accumulation of a graph's Jacobian, and how it was found.

    Attributes:
        graph: the differentiation graph.
        accumulation: the products and sums.
        method: what found it; for "auto" the method that won, "order" for an order that was given.
        objective: what was minimised.
        cost: under the objective.
        order: intermediate vertices by number, if the plan is a vertex elimination.
        lower_bound: no elimination of the plan's `scope` can cost less; None if nothing is known.
        seconds: that the search took, when the plan was found.
        seed: of the search.
        effort, time_limit: of the search; what is compiled by this plan takes them, too, unless it is told otherwise.
        recalled: whether it was not searched for but kept from before, see `accumulus.search.kept.store`.
    """

    graph: DifferentiationGraph
    accumulation: Accumulation
    method: str
    objective: Objective
    cost: int
    order: tuple[int, ...] | None = None
    lower_bound: int | None = None
    seconds: float = field(default=0.0, compare=False)
    seed: int = 0
    effort: Effort = field(default="balanced", compare=False)
    time_limit: float = field(default=1.0, compare=False)
    recalled: bool = field(default=False, compare=False)

    @cached_property
    def costs(self) -> dict[Objective, int]:
        """Cost under every objective."""
        return {
            objective: self.cost if objective == self.objective else cost_of(self.accumulation, objective)
            for objective in Objective
        }

    @property
    def scope(self) -> str:
        """What `lower_bound` speaks of: "vertex", "edge" or "face" eliminations.

        Each is a part of the next, and a bound for face eliminations one for all. Methods that share and factor in ways
        that are no elimination could in principle be cheaper than the best face elimination; none is known to be.
        """
        return {"exact-vertex": "vertex", "exact-edge": "edge"}.get(self.method, "face")

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no elimination of the plan's `scope` is cheaper.

        >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
        >>> plan(graph, "exact-vertex").is_optimal
        True
        """
        return self.lower_bound is not None and self.cost <= self.lower_bound

    @property
    def gap(self) -> float | None:
        """Part of the cost that a better elimination of the plan's `scope` might save at most: (cost − bound) / cost.

        0 if the plan is optimal, None if no lower bound is known.
        """
        if self.lower_bound is None:
            return None
        return (self.cost - self.lower_bound) / self.cost if self.cost else 0.0

    def verify(self) -> None:
        """Check against the graph that this plan computes its Jacobian, and is what it says of itself.

        What it computes is checked as `Accumulation.verify` says; its cost is counted again, unless it is that of an
        emitted program, which differs from machine to machine.

        Raises:
            VerificationError: if it does not, or is not.
        """
        verify(self.accumulation)
        if self.accumulation.graph is not self.graph:
            raise VerificationError("the plan's accumulation is for another graph than the plan; make the plan again")
        if self.order is not None and sorted(self.order) != list(self.graph.intermediates):
            raise VerificationError(f"the plan's order is {self.order!r:.60}; expected every intermediate vertex once")
        counted = self.cost if self.objective.on_tape else cost_of(self.accumulation, self.objective)
        if counted != self.cost or (self.lower_bound is not None and self.lower_bound > self.cost):
            raise VerificationError(
                f"the plan claims to cost {self.cost} {self.objective}, and that none costs less than "
                f"{self.lower_bound}; it costs {counted}"
            )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan and its graph to a JSON file that `accumulus.load_plan` reads.

        The form is described in ``docs/plans.md``.

        Raises:
            OSError: if the file cannot be written.
        """
        from accumulus.search.kept.files import save_plan

        save_plan(self, path)

    def expressions(self) -> ExpressionSet:
        """The plan as mathematics: an expression for every nonzero, references for what is computed once.

        >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
        >>> print(plan(graph, order=["b", "a"]).expressions())
        s1 = e3*e4
        ∂y/∂x = e1*s1
        ∂z/∂x = e2*s1
        """
        from accumulus.algebra.sets import ExpressionSet

        return ExpressionSet.from_accumulation(self.accumulation)

    def __str__(self) -> str:
        name = f" of {self.graph.name}" if self.graph.name else ""
        return printable(f"plan{name} by {self.method}: {self.cost} {self.objective}")

    def __repr__(self) -> str:
        return f"<{self}>"


def plan(
    graph: DifferentiationGraph,
    method: str = "auto",
    objective: str = "multiplications",
    time_limit: float = 1.0,
    seed: int = 0,
    *,
    effort: Effort = "balanced",
    iterations: int | None = None,
    order: Iterable[Hashable] | None = None,
    progress: Callable[[Progress], object] | None = None,
    cache: bool = True,
    executor: Any = None,
) -> Plan:
    """Find a cheap way to accumulate the Jacobian of a graph, and verify it.

    Args:
        graph: a differentiation graph.
        method: one of `accumulus.methods()`.
        objective: "multiplications" (products with ±1 are free), "fma" (every product counts), "operations" (of the
            tape that the plan emits), or "time" (that these take on this machine, by measured weights).
        time_limit: seconds for the search at most; 0 gives the best greedy plan at once.
        seed: same seed, same plan, unless the time limit ends the search.
        effort: "fast", "balanced" (stops when it stalls), or "thorough".
        iterations: vertices visited by the search, at most, instead of the effort's own end; for results that do not
            depend on the machine's speed.
        order: names of all intermediate vertices: the plan of exactly this elimination order, without a search.
        progress: called now and then with a `Progress`, which has the best cost so far. May raise KeyboardInterrupt,
            as Ctrl-C does: the search ends, and the best plan so far is returned.
        cache: whether a plan that was found before for an equal graph and equal arguments is taken from disk, and a new
            one kept there.
        executor: what shares in the search: any `concurrent.futures.Executor`, or a Dask ``Client``. The search is then
            many of them, from other seeds; the best wins, never worse than without. The plan does not depend on how
            many workers there are, unless the time limit ends the search. See ``docs/search.md``.

    Warns:
        CacheWarning: if the cache could have been written by others, so that it is not used.
        ExecutorWarning: if the executor fails; the plan is there all the same.
        TimeLimitWarning: if the method does not finish within the time limit; the plan is that of forward or reverse.

    Raises:
        ArgumentError: if an argument has a wrong type or is out of range.
        UnknownNameError: for an unknown method, objective or effort.
        OrderError: if the order leaves a vertex out, names one twice, or an unknown one.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "w"), ("b", "x")])
    >>> plan(graph)
    <plan by reverse: 3 multiplications>
    >>> plan(graph, order=["b", "a"]).cost
    4
    """
    options = Options(
        method=method,
        objective=Objective.of(objective),
        time_limit=time_limit,
        seed=seed,
        effort=effort,
        iterations=iterations,
        progress=progress,
        cache=cache,
        executor=executor,
    )
    return find_plan(graph, options, order)


def find_plan(
    graph: DifferentiationGraph,
    options: Options,
    order: Iterable[Hashable] | None = None,
    deadline: Deadline | None = None,
    *,
    keep_best: bool = True,
    before: Callable[[], object] | None = None,
) -> Plan:
    """`plan`, with its options in one object.

    Args:
        deadline: of the search, if not after the time limit.
        keep_best: whether Ctrl-C only ends the search; else it is an interrupt for the caller, too.
        before: is called if the plan is not kept and has to be found.
    """
    if not isinstance(graph, DifferentiationGraph):
        raise ArgumentError(
            f"graph is a {type(graph).__name__}; expected a DifferentiationGraph, such as trace(f, ...).linearize(), "
            "or load_graph(path)"
        )
    until = Deadline(options.time_limit) if deadline is None else deadline
    with until.paused():
        key = key_of(graph, options) if options.cache and order is None and is_on() else None
        known = recall(key, graph) if key else None
    if known is not None:
        return replace(known, recalled=True, effort=options.effort, time_limit=options.time_limit)
    if before is not None:
        before()
    start = time.perf_counter()
    workers = None if options.executor is None else Workers(options.executor)
    if order is None:
        found = _search(graph, replace(options, executor=workers), until)
    elif options.method == "auto":
        found = Found(graph, "order", _numbered(graph, order))
    else:
        raise ArgumentError(f"both method={options.method!r} and an order are given; expected one of them")
    if found.interrupted and not keep_best:
        raise KeyboardInterrupt
    with until.paused():
        verify(found.accumulation)
        cost = found.cost(options.objective)
    made = Plan(
        graph,
        found.accumulation,
        found.method,
        options.objective,
        cost,
        found.order,
        found.lower_bound,
        time.perf_counter() - start,
        options.seed,
        effort=options.effort,
        time_limit=options.time_limit,
    )
    if found.unfinished:
        warnings.warn(
            f"{options.method} did not finish within {options.time_limit:g} s; the plan is that of {found.method}. "
            "Give it a longer time_limit",
            TimeLimitWarning,
            stacklevel=3,
        )
    if workers is not None and workers.failures:
        warnings.warn(workers.complaint(), ExecutorWarning, stacklevel=3)
    if key and not (found.interrupted or found.unfinished) and (workers is None or workers.complete):
        remember(key, made)
    return made


def _search(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
    """What the method finds, under its own name unless it is "auto"."""
    jointly = options.method == "auto" and options.effort == "thorough" and options.objective.on_tape
    found = get(options.method)(graph, options, deadline.part(_ORDERS) if jointly else deadline)
    if jointly and options.searches and not found.interrupted:
        return cheapest_program(graph, options, deadline, found)
    if options.method == "auto" or found.unfinished:
        return found
    return replace(found, method=options.method, _accumulation=found.accumulation)


def _numbered(graph: DifferentiationGraph, order: Iterable[Hashable]) -> tuple[int, ...]:
    """Numbers of the named vertices; which of them belong into an order is for `eliminate_vertices` to say."""
    if isinstance(order, str) or not isinstance(order, Iterable):
        raise ArgumentError(f"order is {order!r}; expected the names of all intermediate vertices in a list")
    number = {name: v for v, name in enumerate(graph.vertices)}
    numbers = []
    for name in order:
        if not isinstance(name, Hashable) or name not in number:
            raise OrderError(f"the order names {name!r}, which is not a vertex of the graph")
        numbers.append(number[name])
    return tuple(numbers)
