"""One search in several processes: numbered parts, each the whole search from a seed of its own; the best one wins.

Part 0 is the search as it is without an executor; the calling process does it, while the executor does the others. So
the plan is never worse, and slow or failing workers do not delay it beyond the time limit. Workers return plans as
plain data, as in plan files, which is checked and verified as these are.

**Deterministic.** The number of parts, their seeds and their work depend on the options alone. The cheapest plan wins,
the lowest number among equals. So the plan depends neither on the number of workers nor on which one did which part, as
long as none fails and the clock cuts none short.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from accumulus.annealing import seed_of
from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.errors import PlanError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.json_files import graph_as_data, graph_from_data
from accumulus.methods import METHODS, PROOFS
from accumulus.options import EFFORTS, Effort, Options
from accumulus.search.orders import LARGEST
from accumulus.search.plans.plan import Plan
from accumulus.search.plans.plan_files import plan_as_data, plan_from_data
from accumulus.search.registry import get

__all__ = ["PARTS", "OtherParts", "members"]

#: Parts of a search, part 0 included.
PARTS: Final[dict[Effort, int]] = {"fast": 8, "balanced": 32, "thorough": 128}
#: Part of the time limit that workers may use, so that their results are here before it is over.
_WORKERS_TIME: Final = 0.9
#: Seconds between two reports of progress while the caller waits.
_REPORTS: Final = 0.1


def members(options: Options) -> list[Options]:
    """The options of all parts; every second has the next higher effort: small graphs gain from more starts,
    large ones from slower cooling."""
    higher = EFFORTS[min(EFFORTS.index(options.effort) + 1, len(EFFORTS) - 1)]
    alone = options.alone
    others = (
        replace(alone, seed=seed_of(int(options.seed), k), effort=higher if k % 2 else options.effort)
        for k in range(1, PARTS[options.effort])
    )
    return [alone, *others]


class OtherParts:
    """All parts of a search but the first, submitted to the executor; no parts without one.

    Methods without a search, and graphs without a choice or too large to be annealed whole, have no other parts. For
    methods that prove optima, the parts run the search that these begin with.

    Attributes:
        failures: exceptions of parts and of the executor, in the order in which they came.
        complete: whether all parts have answered, and none was cut short by the time limit.
    """

    def __init__(self, graph: DifferentiationGraph, options: Options, deadline: Deadline) -> None:
        self._graph, self._options, self._deadline = graph, options, deadline
        self.failures: list[BaseException] = []
        self.complete = True
        self._executor: Executor | None = None
        self._pending: dict[Future[_Answer | None], int] = {}
        #: Of the parts that are done: claimed cost, number, and the plan as data, not verified yet.
        self._done: list[tuple[int, int, dict[str, Any]]] = []
        method = options.method if METHODS[options.method].module != PROOFS else METHODS[options.method].starts_from[0]
        shared = options.executor is not None and options.searches and get(method).seconds is None
        if shared and 2 <= len(graph.intermediates) <= LARGEST:
            self._submit(method)

    def _submit(self, method: str) -> None:
        # names may be any objects, and are not needed there
        data = graph_as_data(self._graph) | {"vertices": list(range(len(self._graph.vertices)))}
        executor, seconds = self._options.executor, _WORKERS_TIME * self._deadline.clock_left
        work = self._deadline.left
        try:
            if not isinstance(executor, Executor):
                # not pure: Dask would return the result of an equal call from its memory
                executor = executor.get_executor(pure=False)
            self._executor = executor
            for number, member in enumerate(members(self._options)[1:], 1):
                self._pending[executor.submit(_search, method, data, member, time.time(), seconds, work)] = number
        except Exception as error:
            self._failed(error)

    def best(self, own: Plan, interrupted: bool) -> tuple[Plan, bool]:
        """The cheapest plan of all parts, and whether Ctrl-C ended the search.

        Args:
            own: the plan of part 0.
            interrupted: whether Ctrl-C ended part 0, so that the others are not waited for.
        """
        try:
            interrupted |= self._take(0)
            while self._pending and not interrupted and not _is_optimal(own, self._deadline):
                left = self._deadline.clock_left
                if left == 0:
                    self.complete = False
                    break
                interrupted = self._take(min(left, _REPORTS))
                self._options.tell(self._deadline, "plan", min([own.cost, *(cost for cost, *_ in self._done)]))
        except KeyboardInterrupt:
            interrupted = True
        for cost, number, data in sorted(self._done, key=lambda part: part[:2]):
            if cost >= own.cost:
                break
            try:
                plan = plan_from_data(data, self._graph)
            except PlanError as error:  # such as from a worker with another version of the library
                self._failed(PlanError(f"part {number}: {error}"))
            else:
                # lower bounds of workers are not verified, so only this process's own counts
                method = plan.method if self._options.method == "auto" else self._options.method
                bound = None if own.lower_bound is None else min(own.lower_bound, plan.cost)
                won = replace(own, accumulation=plan.accumulation, order=plan.order, cost=plan.cost)
                return replace(won, method=method, lower_bound=bound), interrupted
        return own, interrupted

    def close(self) -> None:
        """Cancel the parts that have not started, and shut down the executor that was made for a Dask client."""
        for future in self._pending:
            future.cancel()
        if self._executor is not None and self._executor is not self._options.executor:
            try:
                self._executor.shutdown(wait=False)
            except Exception as error:  # the cluster is gone
                self._failed(error)

    def complaint(self) -> str:
        """The message about all failures."""
        first = self.failures[0]
        said = f"{type(first).__name__}: {first}" if str(first) else type(first).__name__
        others = len(self.failures) - 1
        more = f", and {others} more" if others else ""
        return (
            f"{type(self._options.executor).__name__} failed in parts of the search ({said}{more}); the plan is there "
            "all the same, the best of all other parts. It is not stored in the cache"
        )

    def _take(self, seconds: float) -> bool:
        """Wait for so long, at most, until an answer is there; whether a worker has heard Ctrl-C."""
        done, _ = wait(self._pending, seconds, FIRST_COMPLETED)
        interrupted = False
        # in the order of their numbers: so are the failures, of which the first is named
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


#: A plan as plain data, and whether nothing cut the search short.
_Answer = tuple[dict[str, Any], bool]


def _search(
    method: str, graph_data: dict[str, Any], options: Options, submitted: float, seconds: float, work: float
) -> _Answer | None:
    """What a worker does: search for so much work, until `seconds` after `submitted`; None if that has passed.

    The time that a part has waited is found by the clocks of both machines. Where they disagree by seconds, the part
    has less time, or comes too late.
    """
    left = seconds - max(0.0, time.time() - submitted)
    if left <= 0:
        return None
    deadline = Deadline(left, work=work)
    graph = graph_from_data(graph_data)
    found = get(method)(graph, options, deadline)
    cost = found.cost(options.objective)
    plan = Plan(graph, found.accumulation, found.method, options.objective, cost, found.order)
    return plan_as_data(plan), not (found.interrupted or deadline.cut_short)


def _is_optimal(plan: Plan, deadline: Deadline) -> bool:
    """Whether the plan meets a lower bound, so that the other parts need not be waited for."""
    try:
        bound = import_module(PROOFS).lower_bound(plan.graph, plan.objective, deadline=deadline)
    except OutOfTimeError:
        return False
    return bound is not None and plan.cost <= bound
