"""One deadline for everything that searches: made when a user's call begins, and handed down from there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["FOREVER", "LOOK", "Deadline", "OutOfTimeError"]

#: Seconds of work between two looks of a search at its deadline, at most; calls of kernels take about half as long.
LOOK: Final = 0.02


class OutOfTimeError(Exception):
    """A deadline has passed; whoever knows a plan by then catches it."""


class _Clock:
    """A clock that can be stopped: for what has to be done anyway, such as compiling a kernel."""

    __slots__ = ("_began", "_read", "_stopped", "_waited")

    def __init__(self, read: Callable[[], float]) -> None:
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


class Deadline:
    """The moment at which a search has to end.

    Deadlines made from one another share a clock, so that stopping it for one stops it for all.

    Args:
        seconds: from now on; infinite for a search that ends by itself.
        clock: returns seconds that never go back.

    >>> Deadline(0.0).passed
    True
    >>> Deadline(60.0).part(0.5).left <= 30.0
    True
    """

    __slots__ = ("_clock", "_until", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        #: Given for the search, whatever was used of it: what depends on this alone is the same on every machine.
        self.seconds = seconds
        self._clock = _Clock(clock)
        self._until = self._clock.now() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, never less than none."""
        return max(0.0, self._until - self._clock.now())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self._clock.now() >= self._until

    @property
    def elapsed(self) -> float:
        """Seconds since it, or the deadline that it comes from, was made; also those while the clock was stopped."""
        return self._clock.elapsed()

    def check(self) -> None:
        """Raise `OutOfTimeError` if no time is left."""
        if self.passed:
            raise OutOfTimeError

    def part(self, share: float) -> Deadline:
        """A deadline after that share of what is left now."""
        return self._sooner(share * self.left, share * self.seconds)

    def within(self, seconds: float) -> Deadline:
        """A deadline so many seconds from now, or this one if it is earlier."""
        return self._sooner(seconds, min(seconds, self.seconds))

    def at_least(self, seconds: float) -> Deadline:
        """This one, or one so many seconds from now if that is later."""
        return self._other(max(self._until, self._clock.now() + seconds), max(seconds, self.seconds))

    def _sooner(self, left: float, given: float) -> Deadline:
        return self._other(min(self._until, self._clock.now() + left), given)

    def _other(self, until: float, given: float) -> Deadline:
        other = Deadline.__new__(Deadline)
        other.seconds, other._until, other._clock = given, until, self._clock
        return other

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock meanwhile: what is done has to be done anyway, and is no search."""
        with self._clock.stopped():
            yield


#: Never passes.
FOREVER: Final = Deadline(math.inf)
