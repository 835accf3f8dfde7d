"""How to search: the options that every method takes, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from accumulus.accumulate.cost import Objective, check_objective
from accumulus.errors import ArgumentError, unknown_name
from accumulus.search.workers import Workers

__all__ = ["EFFORTS", "Effort", "Options", "check_cache"]

Effort = Literal["fast", "balanced", "thorough"]
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a search, the same for every method.

    Args:
        objective: the cost to minimise: "fma", "multiplications", "operations" or "time".
        time_limit: seconds at most; 0 gives the best greedy plan at once. Procedures that do not search take what they
            take.
        seed: of all random choices. Same seed, same plan, as long as the time limit is not what ends the search.
        effort: "fast" anneals once and briefly, "balanced" until it stalls, "thorough" until it stalls for long.
        iterations: vertices visited, at most, in place of the end that the effort has; of edge and face sequences, how
            many moves or repairs are tried. Reproducible on any machine.
        progress: called now and then with the best cost so far. May raise KeyboardInterrupt to end the search.
        executor: what shares in a search, see `accumulus.search.parallel`: an executor, or a Dask client.

    Raises:
        UnknownNameError: for an unknown objective or effort.
        ArgumentError: for a value of a wrong type or out of range.
    """

    objective: Objective = "multiplications"
    time_limit: float = 1.0
    seed: int = 0
    effort: Effort = "balanced"
    iterations: int | None = None
    progress: Callable[[int], object] | None = None
    executor: Workers | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.effort not in EFFORTS:
            raise unknown_name("effort", self.effort, EFFORTS)
        limit = self.time_limit
        if isinstance(limit, bool) or not isinstance(limit, (int, float, np.integer, np.floating)):
            raise ArgumentError(f"time_limit is {limit!r}; expected a number of seconds")
        if math.isnan(limit) or limit < 0:
            raise ArgumentError(f"time_limit is {limit!r}; expected at least 0 seconds (0: the best greedy plan)")
        _check_whole("seed", self.seed)
        if self.iterations is not None:
            _check_whole("iterations", self.iterations)
            if self.iterations < 0:
                raise ArgumentError(f"iterations is {self.iterations!r}; expected at least 0, or None for no limit")
        if self.progress is not None and not callable(self.progress):
            raise ArgumentError(f"progress is {self.progress!r}; expected a function of the best cost so far, or None")
        if self.executor is not None and not isinstance(self.executor, Workers):
            object.__setattr__(self, "executor", Workers(self.executor))


def check_cache(cache: object) -> None:
    """Refuse anything but True and False for whether plans are kept."""
    if not isinstance(cache, bool):
        raise ArgumentError(f"cache is {cache!r}; expected True or False (the folder is named by ACCUMULUS_CACHE)")


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} is {value!r}; expected a whole number")
