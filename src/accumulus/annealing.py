"""Simulated annealing of elimination orders, elimination sequences, node definitions, and signs.

Each kernel defines its moves, their costs and their acceptance. This module has the shared loop: the temperature falls
geometrically over a number of visits, in slices of a few milliseconds. The deadline and Ctrl-C are checked between
slices. `Annealing` repeats such runs until they stall.

Runs are deterministic: the result depends on the start, the seed and the number of visits, not on the slices. The
number of runs and their lengths depend on the remaining work, not on the clock.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline

#: Runs of fewer sweeps than this start proportionally cooler; otherwise they would end worse than they began. A larger
#: number keeps medium runs close to their start, a smaller one lets short runs destroy it.
FEW_SWEEPS: Final = 15


class Annealed(Protocol):
    """The memory of a kernel: temperature, its factor for each visit, and the state of its generator, (1,)."""

    temperature: float
    cooling: float

    @property
    def random(self) -> NDArray[np.int64]:
        """State of the generator, (1,)."""
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of runs.

    Attributes:
        sweeps: sweeps of the first run.
        growth: factor of the sweeps from run to run.
        stalls: number of consecutive runs without improvement that end the search; the first run always takes place.
        gives_up: True if a run ends after its first slice, unless that has improved the best cost.
        heats: factors of the starting temperature, which the runs use in turn.
    """

    sweeps: float
    growth: float
    stalls: int
    gives_up: bool = False
    heats: tuple[float, ...] = (1.0,)


class Annealing(ABC):
    """Annealing runs for one problem, each from its own start, and the best solution of all runs."""

    #: Temperatures at the start and at the end of a run.
    HOT: ClassVar[float]
    COLD: ClassVar[float]
    #: Number of visits in a sweep.
    count: int
    _state: Annealed

    @property
    @abstractmethod
    def best_cost(self) -> int:
        """Return the best cost of all runs so far."""

    @property
    @abstractmethod
    def best(self) -> tuple[Any, tuple[int, ...]]:
        """Return the pair (best cost with its tie-breaker, solution of that cost), from which a run can start."""

    @abstractmethod
    def _begin(self, start: Sequence[int]) -> float:
        """Begin a run at a start; return the unit of temperature, a cost."""

    @abstractmethod
    def _visit(self, visits: int) -> int:
        """Make one slice of visits, up to `visits`; return the number made."""

    @abstractmethod
    def sweeps_in(self, seconds: float) -> float:
        """Return the number of sweeps that fit into that time on an idle core."""

    def run(
        self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float = 1.0, deadline: Deadline = FOREVER
    ) -> Iterator[int]:
        """Anneal once, and yield the best cost of all runs after each slice.

        Args:
            start: solution that the run begins with.
            visits: number of moves that the run tries.
            seed: integers that seed the random numbers of the run.
            heat: factor of the starting temperature; a small one keeps most of the start.
            deadline: deadline that all runs share.
        """
        unit = self._begin(start)
        self._state.random[0] = seed_of(*seed)
        price = 1 / (self.count * self.sweeps_in(1.0))
        for _ in slices(self._state, self._visit, visits, self.HOT * heat, self.COLD, unit, deadline, price):
            yield self.best_cost

    def until_stalled(
        self,
        schedule: Schedule,
        seed: int,
        most_sweeps: float,
        iterations: int | None = None,
        anew: Sequence[Sequence[int]] = (),
        deadline: Deadline = FOREVER,
    ) -> Iterator[int]:
        """Run annealing repeatedly, each time from the best solution so far; yield the best cost after each slice.

        Args:
            schedule: lengths of the runs, and the number of stalled runs that ends the search.
            seed: seed of all runs.
            most_sweeps: limit of the sweeps of one run, so that further runs fit before the deadline.
            iterations: total number of visits; replaces the end that the schedule defines.
            anew: solutions that every second run begins with instead, in turn, including the first run.
            deadline: deadline after which no run begins.
        """
        for number in rounds(schedule.stalls if iterations is None else math.inf, lambda: self.best_cost):
            if deadline.passed:
                return
            sweeps = max(1.0, min(schedule.sweeps * schedule.growth**number, most_sweeps))
            visits = int(sweeps * self.count)
            if iterations is not None:
                visits = min(visits, iterations)
                iterations -= visits
            before = self.best_cost
            start = self.best[1] if not anew or number % 2 else anew[number // 2 % len(anew)]
            heat = min(1.0, sweeps / FEW_SWEEPS) * schedule.heats[number % len(schedule.heats)]
            for cost in self.run(start, visits, (seed, number), heat, deadline):
                yield cost
                if schedule.gives_up and self.best_cost == before:
                    break
            if iterations == 0:
                return


def slices(
    state: Annealed,
    visit: Callable[[int], int],
    visits: int,
    hot: float,
    cold: float,
    unit: float = 1.0,
    deadline: Deadline = FOREVER,
    price: float = 0.0,
) -> Iterator[None]:
    """Cool over a number of visits, fewer if the remaining work does not suffice; yield after each slice.

    Args:
        state: memory of the kernel, with its temperature.
        visit: function that makes up to the passed number of visits, at most one slice, and returns their number.
        visits: total number of moves.
        hot: temperature at the start, in units of `unit`.
        cold: temperature at the end, in the same units.
        unit: cost that the temperatures are multiples of.
        deadline: deadline after which no further slice begins.
        price: seconds of work of a visit.
    """
    if price * visits > deadline.left:
        visits = int(deadline.left / price)
    cool(state, visits, hot, cold, unit)
    while visits > 0 and not deadline.passed:
        done = visit(visits)
        deadline.spend(price * done)
        visits -= done
        yield


def cool(state: Annealed, visits: int, hot: float, cold: float, unit: float = 1.0) -> None:
    """Lower the temperature from hot to cold over a number of visits."""
    state.temperature, state.cooling = hot * unit, (cold / hot) ** (1 / max(1, visits))


def rounds(stalls: float, cost: Callable[[], int], gain: float = 0.0) -> Iterator[int]:
    """Yield round numbers from 0 until `stalls` rounds in a row each lower the cost by at most the fraction `gain`."""
    number = misses = 0
    while number == 0 or misses < stalls:
        before = cost()
        yield number
        misses = misses + 1 if before - cost() <= gain * before else 0
        number += 1


def thresholds(count: int) -> NDArray[np.float64]:
    """Return -log(u) for evenly spread u; times the temperature, the increase of cost that is accepted (Metropolis)."""
    table: NDArray[np.float64] = -np.log((np.arange(count) + 0.5) / count)
    return table


def seed_of(*parts: int) -> int:
    """Return a pseudo-random 62-bit number that depends on all parts and is never 0."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2 | 1
