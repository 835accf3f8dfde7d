"""Compile time from 1,000 to 50,000 operations, and whether it is linear.

The program is value and Jacobian of some Euler steps of the Lorenz 96 model (five variables), unrolled; the number of
steps sets its size. The plan is the forward order, so that no search is in the way.

Source of the model: E. N. Lorenz, Predictability: a problem partly solved, ECMWF Seminar, 1996.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import library
from groups import Settings
from tables import Goal, Row, Table
from timing import one_core

SIZES = (1_000, 3_000, 10_000, 30_000, 50_000)
SECONDS_AT_LARGEST = 2.0
LINEAR_WITHIN = 1.5
VARIABLES = 5
REPETITIONS = 3


def table(settings: Settings) -> Table:
    """One row a size, then the linearity."""
    few, many = (library.compile_stages(lorenz_96(steps), _start()).operations for steps in (10, 20))
    per_step = (many - few) / 10
    rows, rates = [], {}
    with one_core():
        for size in SIZES:
            steps = max(1, round((size - few) / per_step) + 10)
            stages = [library.compile_stages(lorenz_96(steps), _start()) for _ in range(REPETITIONS)]
            middle = sorted(stages, key=lambda stage: stage.batch)[REPETITIONS // 2]
            rates[size] = middle.batch / middle.operations
            cells: dict[str, Any] = {
                "operations": middle.operations,
                "trace s": middle.trace,
                "plan s": middle.plan,
                "emit s": middle.emit,
                "compile for one point s": middle.point,
                "for batches s": middle.batch,
                "µs per operation": 1e6 * rates[size],
            }
            goal = Goal(SECONDS_AT_LARGEST, max(middle.point, middle.batch), unit=" s") if size == SIZES[-1] else None
            rows.append(Row(cells, goal))
    growth = rates[SIZES[-1]] / rates[SIZES[-3]]
    cells = {"operations": f"time per operation, {SIZES[-1]:,} to {SIZES[-3]:,}"}
    rows.append(Row(cells, Goal(LINEAR_WITHIN, growth, unit="×")))
    return Table("compile", "Compile time of value and Jacobian (one core)", rows)


def lorenz_96(steps: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """State after some explicit Euler steps."""
    following, before, second_before = (np.roll(np.arange(VARIABLES), shift) for shift in (-1, 1, 2))

    def after(x: NDArray[np.float64]) -> NDArray[np.float64]:
        for _ in range(steps):
            x = x + 0.01 * ((x[following] - x[second_before]) * x[before] - x + 8.0)
        return x

    return after


def _start() -> NDArray[np.float64]:
    return np.linspace(1.0, 2.0, VARIABLES)
