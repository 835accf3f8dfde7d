"""The search for a plan: it is taken from the cache, or found, verified and stored there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

from accumulus.deadline import Deadline
from accumulus.errors import ArgumentError, ExecutorWarning, OrderError, TimeLimitWarning
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Effort, Options
from accumulus.progress import Progress
from accumulus.search.parallel import OtherParts
from accumulus.search.plans.plan import Plan
from accumulus.search.plans.plan_cache import is_enabled, key_of, load, store
from accumulus.search.registry import SearchResult, get

__all__ = ["find_plan", "plan"]


def plan(
    graph: DifferentiationGraph,
    method: str = "auto",
    objective: str = "multiplications",
    time_limit: float = 2.0,
    seed: int = 0,
    *,
    effort: Effort = "balanced",
    iterations: int | None = None,
    order: Iterable[Hashable] | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
    cache: bool = True,
    executor: Any = None,
) -> Plan:
    """Find a cheap way to accumulate the Jacobian of a graph, and verify it.

    Args:
        graph: a differentiation graph.
        method: one of `accumulus.methods()`.
        objective: "multiplications" (products with ±1 are free), "fma" (every product counts), or
            "operations" (of the tape that the plan emits).
        time_limit: seconds for the search at most; 0 gives the best greedy plan at once. The search ends after the
            work that takes an idle core about half of them; only where the clock runs out before that, which
            `Plan.cut_short` tells, does the plan depend on the machine.
        seed: same seed, same plan, unless that is cut short.
        effort: "fast", "balanced" (stops when it stalls), or "thorough".
        iterations: vertices visited by the search, at most, instead of the effort's own end.
        order: names of all intermediate vertices: the plan of exactly this elimination order, without a search.
        progress: called now and then with a `Progress`, which has the best cost so far. May raise KeyboardInterrupt,
            as Ctrl-C does: the search ends, and the best plan so far is returned.
        cache: whether a plan that was found before for an equal graph and equal arguments is loaded from disk, and a
            new one stored there.
        executor: runs parts of the search: any `concurrent.futures.Executor`, or a Dask ``Client``. Each part is
            a search from another seed; the cheapest plan wins, never worse than without. The plan does not depend on
            the number of workers, unless it is cut short. See ``docs/search.md``.

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
        optimise=False,
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
        deadline: of the search; by default the time limit from now on.
        keep_best: whether Ctrl-C ends the search and returns the best plan so far; else KeyboardInterrupt is raised.
        before: called before a search, not if the plan is loaded from the cache.
    """
    if not isinstance(graph, DifferentiationGraph):
        raise ArgumentError(
            f"graph is a {type(graph).__name__}; expected a DifferentiationGraph, such as trace(f, ...).linearize(), "
            "or load_graph(path)"
        )
    until = Deadline(options.time_limit) if deadline is None else deadline
    with until.paused():
        key = key_of(graph, options, until.left) if options.cache and order is None and is_enabled() else None
        known = load(key, graph) if key else None
    if known is not None:
        made, work = known
        until.recall(work)
        return replace(made, recalled=True, effort=options.effort, time_limit=options.time_limit)
    if before is not None:
        before()
    start, before_search = time.perf_counter(), until.spent
    if order is not None and options.method != "auto":
        raise ArgumentError(f"both method={options.method!r} and an order are given; expected one of them")
    others = OtherParts(graph, replace(options, executor=None) if order is not None else options, until)
    try:
        found = (
            _search(graph, options, until) if order is None else SearchResult(graph, "order", _numbered(graph, order))
        )
        with until.paused():
            found.accumulation.verify()
            cost = found.cost(options.objective)
        own = Plan(
            graph,
            found.accumulation,
            found.method,
            options.objective,
            cost,
            found.order,
            # bounds are for whole Jacobians, whose products are told apart
            found.lower_bound if graph.wants_all else None,
            seed=options.seed,
            effort=options.effort,
            time_limit=options.time_limit,
        )
        best, interrupted = others.best(own, found.interrupted)
    finally:
        others.close()
    if interrupted and not keep_best:
        raise KeyboardInterrupt
    made = replace(
        best,
        seconds=time.perf_counter() - start,
        cut_short=bool(until.cut_short) or not (others.complete or others.failures),
    )
    if found.unfinished:
        warnings.warn(
            f"{options.method} did not finish within {options.time_limit:g} s; the plan is that of {found.method}. "
            "Give it a longer time_limit",
            TimeLimitWarning,
            stacklevel=3,
        )
    if others.failures:
        warnings.warn(others.complaint(), ExecutorWarning, stacklevel=3)
    if key and others.complete and not (interrupted or found.unfinished or made.cut_short):
        store(key, made, until.spent - before_search)
    return made


def _search(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """The result of the method, named after it; under "auto" after the method that found the result."""
    with deadline.paused():  # imports its module
        method = get(options.method)
    found = method(graph, options, deadline)
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
