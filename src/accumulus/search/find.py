"""Search for a plan, verify it, and store it in the cache, on request with several processes.

Source of the three kinds of elimination: U. Naumann, Optimal accumulation of Jacobian matrices by elimination methods
on the dual computational graph, Mathematical Programming 99, 2004. The modules of methods name their own sources.

**Parts.** With an executor the search runs in numbered parts. Each part is a complete search from its own seed; the
cheapest plan wins.

Part 0 is the search without an executor. The calling process runs part 0, and the executor runs the other parts. So the
plan is never worse than without an executor, and slow or failing workers do not delay it beyond the time limit. Workers
return plans as plain data, which are checked and verified like a plan file.

**Determinism.** The number of parts, their seeds and their work depend on the options alone. The cheapest plan wins,
and among equals the plan of the part with the lowest number. So the plan depends neither on the number of workers nor
on the distribution of the parts, if no part fails or is cut short by the clock.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from accumulus.annealing import seed_of
from accumulus.context import Context
from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.errors import ArgumentError, ExecutorWarning, OrderError, PlanError, TimeLimitWarning
from accumulus.graph.files import graph_as_data, graph_from_data
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import METHODS, PROOFS
from accumulus.options import EFFORTS, Effort, Objective, Options
from accumulus.progress import Progress
from accumulus.search.plan import Plan, plan_as_data, plan_from_data, plan_key, store_plan, stored_plan
from accumulus.search.registry import SearchResult, get
from accumulus.search.vertex_orders import LARGEST

#: Parts of a search, part 0 included. More parts find cheaper plans with more workers; with few workers they take
#: longer.
PARTS: Final[dict[Effort, int]] = {"fast": 8, "balanced": 32, "thorough": 128}
#: Fraction of the time limit that workers may use. With more, results arrive after the limit and are lost; with less,
#: workers search for a shorter time than they could.
_WORKERS_TIME: Final = 0.9
#: Seconds between two reports of progress while the caller waits: shorter ones wake the caller more often, longer ones
#: let the progress lag.
_REPORTS: Final = 0.1


def options_of_parts(options: Options) -> list[Options]:
    """Return the options of all parts; every second part has the next higher effort.

    Small graphs gain from more starts, large ones from slower cooling.
    """
    higher = EFFORTS[min(EFFORTS.index(options.effort) + 1, len(EFFORTS) - 1)]
    alone = options.alone
    rest = (
        replace(alone, seed=seed_of(int(options.seed), k), effort=higher if k % 2 else options.effort)
        for k in range(1, PARTS[options.effort])
    )
    return [alone, *rest]


class OtherParts:
    """All parts of a search except part 0, submitted to the executor; none without an executor.

    There are no other parts for methods without a search, for graphs with fewer than two intermediates, and for graphs
    of more than `LARGEST` intermediates. For methods that prove optima, the parts run the search that precedes the
    proof.

    Attributes:
        failures: exceptions of parts and of the executor, in the order of their arrival.
        complete: True if no part has failed, was cut short, or was still running at the time limit.
    """

    def __init__(self, graph: DifferentiationGraph, context: Context) -> None:
        options = context.options
        self._graph, self._context, self._options = graph, context, options
        self.failures: list[BaseException] = []
        self.complete = True
        self._executor: Executor | None = None
        self._pending: dict[Future[_Answer | None], int] = {}
        #: Claimed cost, number of the part, and unverified plan as data, for each finished part.
        self._done: list[tuple[int, int, dict[str, Any]]] = []
        method = options.method if METHODS[options.method].module != PROOFS else METHODS[options.method].starts_from[0]
        shared = options.executor is not None and options.searches and get(method).seconds is None
        if shared and 2 <= len(graph.intermediates) <= LARGEST:
            self._submit(method)

    def _submit(self, method: str) -> None:
        # vertex names may be any objects, and workers do not need them
        data = graph_as_data(self._graph) | {"vertices": list(range(len(self._graph.vertices)))}
        executor, seconds = self._options.executor, _WORKERS_TIME * self._context.clock_left
        work = self._context.left
        try:
            if not isinstance(executor, Executor):
                # pure=False: Dask would otherwise return the stored result of an equal call
                executor = executor.get_executor(pure=False)
            self._executor = executor
            for number, member in enumerate(options_of_parts(self._options)[1:], 1):
                self._pending[executor.submit(_search_part, method, data, member, time.time(), seconds, work)] = number
        except Exception as error:
            self._failed(error)

    def best(self, local: Plan, interrupted: bool) -> tuple[Plan, bool]:
        """Return the cheapest plan of all parts, and True if Ctrl-C ended the search.

        Args:
            local: the plan of part 0.
            interrupted: True if Ctrl-C ended part 0; then the method does not wait for the other parts.
        """
        try:
            interrupted |= self._take(0)
            while self._pending and not interrupted and not _is_optimal(local, self._context):
                left = self._context.clock_left
                if left == 0:
                    self.complete = False
                    break
                interrupted = self._take(min(left, _REPORTS))
                self._context.report("plan", min([local.cost, *(cost for cost, *_ in self._done)]))
        except KeyboardInterrupt:
            interrupted = True
        for cost, number, data in sorted(self._done, key=lambda answer: answer[:2]):
            if cost >= local.cost:
                break
            try:
                plan = plan_from_data(data, self._graph)
            except PlanError as error:  # for example from a worker with another version of the library
                self._failed(PlanError(f"part {number}: {error}"))
            else:
                # lower bounds of workers cannot be verified, so the plan gets the bound of part 0
                method = plan.method if self._options.method == "auto" else self._options.method
                bound = None if local.lower_bound is None else min(local.lower_bound, plan.cost)
                won = replace(local, accumulation=plan.accumulation, order=plan.order, cost=plan.cost)
                return replace(won, method=method, lower_bound=bound), interrupted
        return local, interrupted

    def close(self) -> None:
        """Cancel the parts that have not started; if the executor was made for a Dask client, shut it down."""
        for future in self._pending:
            future.cancel()
        if self._executor is not None and self._executor is not self._options.executor:
            try:
                self._executor.shutdown(wait=False)
            except Exception as error:  # the cluster is gone
                self._failed(error)

    def complaint(self) -> str:
        """Return the message about all failures: the first of each kind, and the number of the others.

        If a worker dies, Dask reports KilledWorker for the part that kills it, and other errors for parts whose results
        are lost while they are collected.
        """
        first: dict[type[BaseException], str] = {}
        for error in self.failures:
            name = type(error).__name__
            first.setdefault(type(error), f"{name}: {error}" if str(error) else name)
        further = len(self.failures) - len(first)
        said = [*first.values()] + [f"and {further} more"] * (further > 0)
        return (
            f"{type(self._options.executor).__name__} failed in parts of the search ({', '.join(said)}); the plan is "
            "the best of all other parts. It is not stored in the cache"
        )

    def _take(self, seconds: float) -> bool:
        """Wait up to `seconds` for answers; return True if a worker has received Ctrl-C."""
        done, _ = wait(self._pending, seconds, FIRST_COMPLETED)
        interrupted = False
        # in ascending order of the parts, so that the failure named in the message is reproducible
        for future in sorted(done, key=self._pending.__getitem__):
            number = self._pending.pop(future)
            error = CancelledError("the part was cancelled") if future.cancelled() else future.exception()
            answer = None if error else future.result()
            if isinstance(error, KeyboardInterrupt):
                interrupted = True
            elif error is not None:
                self._failed(error)
            elif answer is None:
                self.complete = False
            else:
                data, whole = answer
                self._done.append((data["cost"], number, data))
                self.complete &= whole
        return interrupted

    def _failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self.complete = False


#: A plan as plain data, and True if the search was neither interrupted nor cut short.
_Answer = tuple[dict[str, Any], bool]


def _search_part(
    method: str, graph_data: dict[str, Any], options: Options, submitted: float, seconds: float, work: float
) -> _Answer | None:
    """Search in a worker; return None if more than `seconds` have passed since `submitted`.

    The time that a part has waited is the difference between the clocks of both machines. If they differ by seconds,
    the part has less time, or its result comes too late.

    Args:
        method: name of the method.
        graph_data: the graph, as `graph_as_data` returns it.
        options: options of the part.
        submitted: time of the submission, in seconds since the epoch.
        seconds: time limit of the part, from the submission on.
        work: amount of work of the search.
    """
    left = seconds - max(0.0, time.time() - submitted)
    if left <= 0:
        return None
    context = Context(options, left, work=work)
    graph = graph_from_data(graph_data)
    result = get(method)(graph, context)
    cost = result.cost(options.objective)
    plan = Plan(graph, result.accumulation, result.method, options.objective, cost, result.order)
    return plan_as_data(plan), not (result.interrupted or context.cut_short)


def _is_optimal(plan: Plan, deadline: Deadline) -> bool:
    """Return True if the plan meets a lower bound, so that no other part can be cheaper."""
    try:
        bound = import_module(PROOFS).lower_bound(plan.graph, plan.objective, deadline=deadline)
    except OutOfTimeError:
        return False
    return bound is not None and plan.cost <= bound


# The search ----------------------------------------------------------------------------------------------------------


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
        time_limit: largest duration of the search in seconds; 0 gives the best greedy plan at once. The search ends
            after a fixed amount of work, which takes an idle core about half of the limit. The plan depends on the
            machine only if the time runs out first; then `Plan.cut_short` is True.
        seed: seed of the search; the same seed gives the same plan, unless the search is cut short.
        effort: "fast", "balanced" (stops when it stalls), or "thorough".
        iterations: largest number of vertices that the search visits, instead of the effort's own limit.
        order: names of all intermediate vertices; the plan eliminates them in this order, without a search.
        progress: function that is called from time to time with a `Progress`, which has the best cost so far. It may
            raise KeyboardInterrupt, which acts as Ctrl-C: the search ends, and the best plan so far is returned.
        cache: if True, load the plan from disk if it was stored for an equal graph and equal arguments, and store a new
            plan.
        executor: any `concurrent.futures.Executor`, or a Dask ``Client``, which runs parts of the search. Each part is
            a search from another seed, and the cheapest plan wins, so it is never worse than without an executor. The
            plan does not depend on the number of workers, unless it is cut short. See ``docs/search.md``.

    Warns:
        CacheWarning: if other users may have written the cache, so that it is not used.
        ExecutorWarning: if the executor fails; the plan of the remaining parts is returned.
        TimeLimitWarning: if the method does not finish within the time limit; the plan of forward or reverse
            elimination is returned.

    Raises:
        ArgumentError: if an argument has a wrong type or is out of range, or if both a method and an order are given.
        UnknownNameError: for an unknown method, objective or effort.
        OrderError: if `order` leaves out an intermediate vertex, repeats one, or names another vertex.

    Source: eliminations as in sections 1 and 3 of ``docs/notes.md``; ``docs/search.md`` describes the search.

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
    return find_plan(graph, Context(options), order)


def find_plan(
    graph: DifferentiationGraph,
    context: Context,
    order: Iterable[Hashable] | None = None,
    *,
    keep_best: bool = True,
    before: Callable[[], object] | None = None,
) -> Plan:
    """Find a plan in a context; see `plan` for warnings and errors.

    Args:
        graph: graph of the derivatives.
        context: options and deadline.
        order: names of the vertices in elimination order, instead of a search.
        keep_best: if True, Ctrl-C ends the search and returns the best plan so far; else it raises KeyboardInterrupt.
        before: function that is called before a search; not called if the plan comes from the cache.
    """
    if not isinstance(graph, DifferentiationGraph):
        raise ArgumentError(
            f"graph is a {type(graph).__name__}; expected a DifferentiationGraph, such as trace(f, ...).linearize(), "
            "or load_graph(path)"
        )
    context = context.having(objective=context.options.objective.counted)
    options = context.options
    with context.paused():
        key = plan_key(graph, context) if options.caches and order is None else None
        stored = stored_plan(key, graph) if key else None
    if stored is not None:
        made, work = stored
        context.recall(work)
        return replace(made, recalled=True, effort=options.effort, time_limit=options.time_limit)
    if before is not None:
        before()
    start, before_search = time.perf_counter(), context.spent
    if order is not None and options.method != "auto":
        raise ArgumentError(f"both method={options.method!r} and an order are given; expected one of them")
    other_parts = OtherParts(graph, context if order is None else context.having(executor=None))
    try:
        result = _search(graph, context) if order is None else SearchResult(graph, "order", _numbered(graph, order))
        with context.paused():
            result.accumulation.verify()
            cost = result.cost(options.objective)
        local = Plan(
            graph,
            result.accumulation,
            result.method,
            options.objective,
            cost,
            result.order,
            # lower bounds hold only if all entries are selected and there is no mirror
            result.lower_bound if graph.wants_all else None,
            seed=options.seed,
            effort=options.effort,
            time_limit=options.time_limit,
        )
        best, interrupted = other_parts.best(local, result.interrupted)
    finally:
        other_parts.close()
    if interrupted and not keep_best:
        raise KeyboardInterrupt
    made = replace(
        best,
        seconds=time.perf_counter() - start,
        cut_short=bool(context.cut_short) or not (other_parts.complete or other_parts.failures),
    )
    if result.unfinished:
        warnings.warn(
            f"{options.method} did not finish within {options.time_limit:g} s; the plan is by {result.method}. Pass a "
            "longer time_limit",
            TimeLimitWarning,
            stacklevel=3,
        )
    if other_parts.failures:
        warnings.warn(other_parts.complaint(), ExecutorWarning, stacklevel=3)
    if key and other_parts.complete and not (interrupted or result.unfinished or made.cut_short):
        store_plan(key, made, context.spent - before_search)
    return made


def _search(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Return the method's result under the method's name; "auto" keeps the name of the method that won."""
    options = context.options
    with context.paused():  # imports its module
        method = get(options.method)
    result = method(graph, context)
    if options.method == "auto" or result.unfinished:
        return result
    return replace(result, method=options.method, _accumulation=result.accumulation)


def _numbered(graph: DifferentiationGraph, order: Iterable[Hashable]) -> tuple[int, ...]:
    """Return the numbers of the named vertices; `eliminate_vertices` checks the order."""
    if isinstance(order, str) or not isinstance(order, Iterable):
        raise ArgumentError(f"order is {order!r}; expected the names of all intermediate vertices in a list")
    number = {name: v for v, name in enumerate(graph.vertices)}
    numbers = []
    for name in order:
        if not isinstance(name, Hashable) or name not in number:
            raise OrderError(f"the order names {name!r}, which is not a vertex of the graph")
        numbers.append(number[name])
    return tuple(numbers)
