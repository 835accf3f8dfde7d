"""One search in several processes: numbered parts, each the whole search from a seed of its own; the best one wins.

Part 0 is the search as it is without an executor, and is done here, while the executor does the others. So the result
is never worse, under the same seed and iterations, and it is there in time however slow the others are. Every second
of the others has the next higher effort: what is gained on small graphs by more beginnings is gained on large ones by
cooling slowly.

The graph travels as arrays, by numbers, without its names. What comes back is an order, or the steps of a sequence, and
its cost. Nothing is believed: what wins is verified against the graph here.

**Deterministic.** How many parts there are, and their seeds, depends on the options alone. The least cost wins, the
lowest number among equals. So neither the number of workers, nor which one did what, nor in which order they finished
matters to the result, as long as the time limit is not what ends a part.

**Failures.** A part that raises is lost, and no other. What an executor does not take, and what a worker that dies had
not finished, is done here in the time that is left: many an executor cannot say which part it was that killed a worker,
and gives up all that it has. `accumulus.plan` warns of it.
"""

from __future__ import annotations

import functools
import pickle
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import PROOFS
from accumulus.native.machine import prepare
from accumulus.options import EFFORTS, Effort, Options
from accumulus.search.annealing import LARGEST, seed_of
from accumulus.search.registry import Finder, Found, get
from accumulus.search.workload import Workload
from accumulus.workers import Workers

__all__ = ["PARTS", "in_parts", "members"]

#: Parts of a search, with the one that is done here.
PARTS: Final[dict[Effort, int]] = {"fast": 8, "balanced": 32, "thorough": 128}
#: Part of the time limit that workers may use, so that their results are here before it is over.
_ABROAD: Final = 0.9
#: Seconds for each product to find the greedy orders, and the part of the time limit that they may take: every part
#: begins with them.
_GREEDY: Final = 4e-6
_BEGINNING: Final = 0.2
#: Part of its time after which a part may have been cut short: the length of runs depends on it, too.
_WHOLE: Final = 0.5
#: What says that a worker is gone, and not that the part itself raised.
_GONE: Final = (BrokenExecutor, CancelledError)
_GONE_IN_DASK: Final = ("KilledWorker",)
#: Seconds after which those who wait are told of the best so far.
_TICK: Final = 0.1


def in_parts(find: Finder) -> Finder:
    """Decorator of a registered search, named as its function: shared in parts, if there is an executor."""

    @functools.wraps(find)
    def search(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> Found:
        alone = replace(options, executor=None)
        if options.executor is None or not _is_worth_sharing(graph, options, deadline):
            return find(graph, alone, deadline)
        return _Shared(find, graph, alone, deadline, options.executor).run()

    return search


def _is_worth_sharing(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> bool:
    """Whether parts would search, and not only find greedy orders again and again."""
    if not options.searches or not 2 <= len(graph.intermediates) <= LARGEST:
        return False
    return _GREEDY * Workload.of(graph).fewest <= _BEGINNING * deadline.seconds


def members(options: Options) -> list[Options]:
    """The options of all parts, without progress and executor but for the first, which is as it was given."""
    higher = EFFORTS[min(EFFORTS.index(options.effort) + 1, len(EFFORTS) - 1)]
    others = (
        replace(
            options,
            seed=seed_of(int(options.seed), number),
            effort=higher if number % 2 else options.effort,
            progress=None,
            executor=None,
        )
        for number in range(1, PARTS[options.effort])
    )
    return [replace(options, executor=None), *others]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a worker found: an order, or steps and entries; and whether the time limit may have cut it short."""

    cost: int
    method: str
    order: tuple[int, ...] | None
    steps: Steps | None
    entries: Mapping[tuple[int, int], int] | None
    cut: bool

    @classmethod
    def of(cls, found: Found, cost: int, cut: bool) -> _Answer:
        if found.order is not None:
            return cls(cost, found.method, tuple(map(int, found.order)), None, None, cut)
        accumulation = found.accumulation
        return cls(cost, found.method, None, accumulation.steps, accumulation.entries, cut)

    def found(self, graph: DifferentiationGraph) -> Found:
        if self.order is not None:
            return Found(graph, self.method, self.order)
        assert self.steps is not None
        assert self.entries is not None
        return Found(graph, self.method, _accumulation=Accumulation(graph, self.steps, self.entries))


class _Shared:
    """One search that is shared with workers."""

    def __init__(
        self, find: Finder, graph: DifferentiationGraph, options: Options, deadline: Deadline, workers: Workers
    ) -> None:
        self._deadline = deadline
        self._find, self._graph, self._options, self._workers = find, graph, options, workers
        self._members = members(options)
        #: Parts done by number, with what they cost; a `Found` if it was found here.
        self._done: dict[int, tuple[int, Found | _Answer]] = {}
        self._pending: dict[Future[_Answer | None], int] = {}
        #: Parts that the executor did not take or finish, to be done here.
        self._here: list[int] = []
        self._interrupted = False
        # what every worker would have to compile for itself; the first use on a machine is not the search's time
        with deadline.paused():
            prepare(
                "search.order",
                *["theory.mixed"] * (find.__name__ != "vertex"),
            )

    def run(self) -> Found:
        """Do the first part, then collect the others until the time is over."""
        try:
            self._submit()
            self._do(0)
            self._collect()
        except KeyboardInterrupt:
            if not self._done:
                raise
            self._interrupted = True
        finally:
            self._take_what_is_done(0)
            for future in self._pending:
                future.cancel()
            self._workers.release()
        best = self._best()
        return replace(best, interrupted=True) if self._interrupted else best

    def _submit(self) -> None:
        written = _written(self._graph)
        for number, member in enumerate(self._members[1:], 1):
            future = self._workers.submit(
                _search, self._find.__name__, written, member, time.time(), _ABROAD * self._deadline.left
            )
            if future is None:  # nor will it take what follows
                self._here.extend(range(number, len(self._members)))
                return
            self._pending[future] = number

    def _do(self, number: int) -> None:
        """Do a part here."""
        left = self._deadline.left
        progress = None if self._options.progress is None else lambda told: self._report(told.cost)
        found = self._find(self._graph, replace(self._members[number], progress=progress), self._deadline)
        self._done[number] = found.cost(self._options.objective), found
        self._interrupted |= found.interrupted
        self._workers.complete &= self._deadline.left >= (1 - _WHOLE) * left

    def _collect(self) -> None:
        """Take what comes in, and do meanwhile what nobody else will."""
        if self._interrupted or self._is_least():
            return
        while (self._pending or self._here) and not self._interrupted:
            left = self._deadline.left
            if left == 0:
                self._workers.complete = False
                return
            if self._here:
                self._do(self._here.pop(0))
            self._take_what_is_done(0 if self._here else min(left, _TICK))
            self._report()

    def _take_what_is_done(self, seconds: float) -> None:
        """Wait for so long, at most, until an answer is there."""
        done, _ = wait(self._pending, seconds, FIRST_COMPLETED)
        # in the order of their numbers: so are the failures, of which the first is named
        for future in sorted(done, key=self._pending.__getitem__):
            self._take(self._pending.pop(future), future)

    def _take(self, number: int, future: Future[_Answer | None]) -> None:
        error = CancelledError("the part was cancelled") if future.cancelled() else future.exception()
        if isinstance(error, KeyboardInterrupt):  # a terminal's Ctrl-C reaches workers, too
            self._interrupted = True
        elif error is None:
            answer = future.result()
            self._workers.complete &= answer is not None and not answer.cut
            if answer is not None:
                self._done[number] = answer.cost, answer
        else:
            self._workers.failed(error)
            if isinstance(error, _GONE) or type(error).__name__ in _GONE_IN_DASK:
                self._here.append(number)

    def _report(self, cost: int | None = None) -> None:
        """Say what the best costs so far."""
        costs = [known for known, _ in self._done.values()]
        self._options.tell(self._deadline, "plan", min(costs if cost is None else [*costs, cost]))

    def _is_least(self) -> bool:
        """Whether no elimination costs less than the first part, so that the others need not be waited for."""
        try:
            bound = import_module(PROOFS).lower_bound(self._graph, self._options.objective, deadline=self._deadline)
        except OutOfTimeError:
            return False
        return bound is not None and self._done[0][0] <= bound

    def _best(self) -> Found:
        """The cheapest of the parts, that of the lowest number among equals, if it is what it claims to be."""
        for number, (cost, what) in sorted(self._done.items(), key=lambda part: (part[1][0], part[0])):
            if isinstance(what, Found):
                return what
            try:
                found = what.found(self._graph)
                found.accumulation.verify()
                if found.cost(self._options.objective) != cost:
                    raise VerificationError(f"part {number} costs {found.cost(self._options.objective)}, not {cost}")
            except Exception as error:  # whatever a worker with another version of the library may have sent
                self._workers.failed(error)
            else:
                return found
        raise AssertionError("the first part is done here")


def _search(method: str, graph: bytes, options: Options, submitted: float, seconds: float) -> _Answer | None:
    """What a worker does: search in what is left of so many seconds since it was asked; None if nothing is left.

    Clocks of different machines tell how long a part has waited. Where they disagree by seconds, it has less time, or
    is not waited for, and that is all.
    """
    left = seconds - max(0.0, time.time() - submitted)
    if left <= 0:
        return None
    deadline = Deadline(left)
    found = get(method)(_read(graph), options, deadline)
    cost = found.cost(options.objective)
    cut = found.interrupted or deadline.left < (1 - _WHOLE) * left
    return _Answer.of(found, cost, cut)


def _written(graph: DifferentiationGraph) -> bytes:
    """The graph by numbers: names may be anything, and need not travel."""
    arrays: dict[str, Any] = {
        "sources": graph.sources,
        "targets": graph.targets,
        "kinds": graph.kinds,
        "vertices": range(len(graph.vertices)),
        "roots": graph.roots,
        "terminals": graph.terminals,
        "constants": dict(graph.constants),
        "symbols": graph.symbols,
        "sizes": graph.sizes,
    }
    return pickle.dumps((arrays, graph.tape, graph.labels), pickle.HIGHEST_PROTOCOL)


def _read(data: bytes) -> DifferentiationGraph:
    arrays, tape, labels = pickle.loads(data)
    graph = DifferentiationGraph.from_arrays(**arrays)
    graph.tape, graph.labels = tape, labels
    return graph
