"""Deadline of all searches: made when a user's call begins, and passed down from there.

A search is limited by its *work*, so that the same call finds the same program on a busy machine, too. Work is counted
where it is done, in units that do not depend on the clock: visits of vertices, moves, products, each converted to the
seconds that it takes an idle core (`Deadline.spend`). Searches decide by the remaining work (`left`, `passed`), never
by the time.

The clock has one use: it ends searches that exceed the time limit. Then `cut_short` names the stage, the result depends
on the machine, the report says so, and the result is not stored in a cache.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

#: Maximum seconds of work between two checks of the deadline; calls of kernels take about half as long. More react
#: later to it and to Ctrl-C, fewer spend more on checks and calls.
LOOK: Final = 0.02
#: Seconds of work for each second of the time limit. The rest is for uncounted work, and for machines that are busy or
#: slower than those on which the work was measured. With more, the clock ends searches there, so that results depend on
#: it; with less, time is left unused.
WORK: Final = 0.5
#: Units of work in a second. Integers add up to the same sum in any order, so work that is recalled from a cache counts
#: exactly as much as the work that found the result.
_UNITS: Final = 1e9


class OutOfTimeError(Exception):
    """A deadline has passed; searches that already have a plan catch it."""


class _Account:
    """Work so far, and the clock, which all deadlines of one call share.

    The clock can be stopped for work that is due in any case, such as compiling a kernel.

    Attributes:
        spent: work so far, in units.
        stage: name of the current stage.
        cut_short: first stage in which the clock ended a search; empty if it did not.
    """

    __slots__ = ("_began", "_read", "_stopped", "_waited", "cut_short", "spent", "stage")

    def __init__(self, read: Callable[[], float]) -> None:
        self.spent, self.stage, self.cut_short = 0, "search", ""
        self._read = read
        self._waited = 0.0
        self._stopped: float | None = None
        self._began = read()

    def elapsed(self) -> float:
        return self._read() - self._began

    def now(self) -> float:
        return (self._read() if self._stopped is None else self._stopped) - self._waited

    @contextmanager
    def stopped(self) -> Iterator[None]:
        if self._stopped is not None:
            yield
            return
        self._stopped = self._read()
        try:
            yield
        finally:
            since, self._stopped = self._stopped, None
            self._waited += self._read() - since

    @contextmanager
    def running(self) -> Iterator[None]:
        if self._stopped is None:
            yield
            return
        since, self._stopped = self._stopped, None
        self._waited += self._read() - since
        try:
            yield
        finally:
            self._stopped = self._read()


class Deadline:
    """Limit of the work of a search, and the time at which the clock cuts the search short.

    Deadlines derived from one another share their work and their clock: work spent on one of them, and its pauses,
    count for all.

    Args:
        seconds: time from now until the clock runs out; infinite for a search that ends by itself.
        clock: function that returns monotonic seconds; by default `time.monotonic`.
        work: seconds of work; by default `WORK` times `seconds`.

    >>> Deadline(0.0).passed
    True
    >>> deadline = Deadline(60.0, work=36.0)
    >>> deadline.spend(6.0)
    >>> deadline.left, deadline.part(0.5).left
    (30.0, 15.0)
    """

    __slots__ = ("_account", "_most", "_until", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] | None = None, work: float | None = None) -> None:
        #: Work allowed for the search, in total.
        self.seconds = WORK * seconds if work is None else work
        self._account = _Account(clock or time.monotonic)
        self._until = self._account.now() + seconds
        self._most = _units(self.seconds)

    @property
    def left(self) -> float:
        """Seconds of remaining work, at least 0; the same in every run."""
        return max(0.0, (self._most - self._account.spent) / _UNITS)

    @property
    def passed(self) -> bool:
        """Return True if no work is left, or if the clock has run out, which cuts the search short."""
        if self._account.spent >= self._most:
            return True
        if self._account.now() < self._until:
            return False
        self.cut()
        return True

    @property
    def clock_left(self) -> float:
        """Seconds until the clock runs out, at least 0; for waiting on other threads and processes."""
        return max(0.0, self._until - self._account.now())

    @property
    def elapsed(self) -> float:
        """Seconds since the first deadline of the call was made, including those while the clock was stopped."""
        return self._account.elapsed()

    @property
    def cut_short(self) -> str:
        """The first stage in which the clock ended a search of this call; empty if none."""
        return self._account.cut_short

    @property
    def spent(self) -> int:
        """Units of work of this call so far; the argument of `recall`."""
        return self._account.spent

    def spend(self, seconds: float) -> None:
        """Count work that was done, as the seconds that it takes an idle core."""
        self._account.spent += round(_UNITS * seconds)

    def recall(self, units: int) -> None:
        """Count work whose result comes from a cache: later stages have as much left as after the search."""
        self._account.spent += units

    def cut(self) -> None:
        """Record that the clock has ended a search in the current stage."""
        self._account.cut_short = self._account.cut_short or self._account.stage

    def enter(self, stage: str) -> None:
        """Set the name of the stage that begins."""
        self._account.stage = stage

    def check(self, seconds: float = 0.0) -> None:
        """Count work; raise `OutOfTimeError` if the deadline has passed."""
        self._account.spent += round(_UNITS * seconds)
        if self.passed:
            raise OutOfTimeError

    def part(self, share: float) -> Self:
        """Return a deadline with a share of the remaining work; its clock reserves some time for the rest."""
        until = self._account.now() + (1 + share) / 2 * self.clock_left
        return self._other(until, min(self._most, self._units_from_now(share * self.left)), share * self.seconds)

    def within(self, seconds: float) -> Self:
        """Return a deadline after `seconds` of work, or at this one's end if that is earlier."""
        return self._other(self._until, min(self._most, self._units_from_now(seconds)), min(seconds, self.seconds))

    def at_least(self, seconds: float) -> Self:
        """Return a deadline that shares this one's work and ends at least `seconds` from now."""
        work = WORK * seconds
        until = max(self._until, self._account.now() + seconds)
        return self._other(until, max(self._most, self._units_from_now(work)), max(work, self.seconds))

    def _units_from_now(self, seconds: float) -> float:
        return self._account.spent + _units(seconds)

    def _other(self, until: float, most: float, seconds: float) -> Self:
        other = type(self).__new__(type(self))
        other._account, other._until, other._most, other.seconds = self._account, until, most, seconds
        return other

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock during work that every call has to do, such as compiling."""
        with self._account.stopped():
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clock run during a search within work that every call has to do."""
        with self._account.running():
            yield


def _units(seconds: float) -> float:
    """Return seconds in units of work; infinite for no limit."""
    return round(_UNITS * seconds) if math.isfinite(seconds) else seconds


#: A deadline that never passes.
FOREVER: Final = Deadline(math.inf)


# Interrupts ----------------------------------------------------------------------------------------------------------
#
# Calls of other libraries that run no Python and cannot be cut into slices, but have to end at Ctrl-C.
#
# Python raises KeyboardInterrupt in its main thread, between two bytecode instructions. Kernels of this package run
# for a few milliseconds at a time, LLVM receives long programs in parts, and a compiler is a process that can be
# killed. All other calls run in a separate thread while the main thread waits.

T = TypeVar("T")

#: Seconds between two checks on systems where Ctrl-C does not interrupt waiting, as on Windows: more delay it, fewer
#: wake the thread more often.
_LOOK: Final = 0.1


def interruptible(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """Call a function that releases the GIL and return its result; raise KeyboardInterrupt on Ctrl-C.

    The hand-over to another thread takes a tenth of a millisecond. After an interrupt, the call continues and its
    result is discarded; therefore it must hold no lock, and must end.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives Ctrl-C
        return function(*arguments, **keywords)
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function(*arguments, **keywords))
        except BaseException as error:
            result.set_exception(error)

    # a daemon thread, so that an interrupted call does not keep the process alive
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not result.done():
        thread.join(_LOOK)
    return result.result()
