"""Runs of annealing, one after the other, until they find nothing better.

Each run starts from the best order so far with other random numbers, and is hot enough at first to leave it. A
search that stalls is over, not one that has used up its time: how many runs there are does not depend on the
clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

__all__ = ["Annealer", "Schedule", "until_stalled"]

#: Runs of fewer sweeps than this start less hot, in proportion; else they would end worse than they began.
FEW_SWEEPS: Final = 15


class Annealer(Protocol):
    """What anneals vertex orders of one graph."""

    #: Vertices to be ordered.
    count: int

    @property
    def least(self) -> int:
        """Cost of the best order of all runs."""

    @property
    def best(self) -> tuple[Any, tuple[int, ...]]:
        """The same with what breaks ties, and the order itself."""

    def run(self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float) -> Iterator[int]:
        """Anneal once from an order; yields the best cost of all runs from time to time."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sweeps of the first run, their factor from run to run, and how many runs without improvement are put up
    with; whether a run is given up after a slice if it has won nothing by then."""

    sweeps: float
    growth: float
    patience: int
    gives_up: bool = False


def until_stalled(
    annealer: Annealer,
    schedule: Schedule,
    seed: int,
    most_sweeps: float,
    iterations: int | None = None,
    anew: tuple[int, ...] | None = None,
) -> Iterator[int]:
    """Run after run, the first from the best order that the annealer knows; yields the best cost from time to time.

    Args:
        most_sweeps: of a run, so that it ends within the time limit.
        iterations: visits of all runs, instead of the end that the schedule has.
        anew: what every second run begins with instead, the first one included.
    """
    misses = 0
    for run in count():
        sweeps = max(1.0, min(schedule.sweeps * schedule.growth**run, most_sweeps))
        visits = int(sweeps * annealer.count)
        if iterations is not None:
            visits = min(visits, iterations)
            iterations -= visits
        before, (_, start) = annealer.least, annealer.best
        if anew is not None and run % 2 == 0:
            start = anew
        for least in annealer.run(start, visits, (seed, run), min(1.0, sweeps / FEW_SWEEPS)):
            yield least
            if schedule.gives_up and annealer.least == before:
                break
        misses = misses + 1 if annealer.least == before else 0
        if iterations == 0 or (iterations is None and misses > schedule.patience):
            return
