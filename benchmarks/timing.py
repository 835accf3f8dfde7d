"""Measuring times fairly: contenders take turns in one process on one core, and medians are compared.

Turns matter more than repetitions: a machine's speed drifts by tens of per cent within a second (clock, neighbours),
and what runs in the same few milliseconds drifts alike.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, one entry a turn."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median over the turns; what tables report."""
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        """The fastest turn."""
        return min(self.seconds)


def measure(
    runs: Mapping[str, Callable[[], Any]], turns: int = 21, seconds_per_turn: float = 2e-3
) -> dict[str, Timing]:
    """Seconds that one call of each takes.

    Args:
        runs: what to time, by name; each is called twice before it counts.
        turns: how often each has its turn; they alternate.
        seconds_per_turn: a turn repeats the call until it lasts about this long, so that the clock's grain is
            negligible.
    """
    calls = {name: _calls_that_last(run, seconds_per_turn) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            samples[name].append(_seconds(run, calls[name]) / calls[name])
    return {name: Timing(tuple(seconds)) for name, seconds in samples.items()}


def once(run: Callable[[], Any]) -> float:
    """Seconds of a single call."""
    return _seconds(run, 1)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and every thread and process that it starts meanwhile, on one core (where the system can)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _calls_that_last(run: Callable[[], Any], seconds: float) -> int:
    run()
    run()
    calls = 1
    while (taken := _seconds(run, calls)) < seconds / 2:
        calls = max(2 * calls, min(100 * calls, round(calls * seconds / max(taken, 1e-9))))
    return calls


def _seconds(run: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - start
