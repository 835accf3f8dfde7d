"""Value and Jacobian against libraries that compile symbols: one call, and batches of any size, on one thread.

The peers run in an environment of their own: `make bench-peers`. All make new arrays for their results. Points are on
the last axis where the peer wants that, for both; results are compared before times are.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

import accumulus as acc
from functions import Example
from groups import Settings
from peers import NotInstalled, complex_step
from peers.elsewhere import CHECKED, PEERS, Measured, measured, named
from tables import Goal, Row, Table
from timing import measure, one_core

#: Functions of many fields, with and without elementary functions.
FUNCTIONS = (
    *("human_heart_dipole", "pendulum_chain", "pollu", "quadrotor", "reprojection", "ring_modulator", "robot_arm"),
    *("roe_flux", "black_scholes", "dh_arm", "four_body", "geodetic", "hydrogen_combustion", "peng_robinson"),
    "van_leer_flux",
)
SIZES = (1, 10, 100, 2_000, 10_000, 100_000)
#: Largest difference of two results, relative to the largest of their row.
TOLERANCE = 1e-9
REACH = 1.0


def table(settings: Settings) -> Table:
    """One row a function and peer, then the geometric means for each peer."""
    rows: list[Row] = []
    calls: dict[str, list[float]] = {}
    batches: dict[str, list[list[float]]] = {}
    asked = {example.name for example in settings.functions}
    with one_core():
        for example in map(named, [name for name in FUNCTIONS if name in asked]):
            for peer in PEERS:
                try:
                    theirs = measured(peer, example, SIZES, settings.seed, settings.turns)
                    check(example, theirs, settings.seed)
                except NotInstalled as reason:
                    rows.append(Row({"function": example.name, "peer": peer, "call ns": str(reason)}))
                    continue
                call, ratios, cells = _compared(example, theirs, settings)
                calls.setdefault(peer, []).append(call)
                batches.setdefault(peer, []).append(ratios)
                rows.append(Row({"function": example.name, "peer": peer, **cells}, Goal(REACH, max(ratios), unit="×")))
    for peer, by_function in batches.items():
        means = [statistics.geometric_mean(of_size) for of_size in zip(*by_function, strict=True)]
        cells: dict[str, Any] = {"function": "geometric mean", "peer": peer}
        cells["call ×"] = statistics.geometric_mean(calls[peer])
        cells |= {f"{size:,}": mean for size, mean in zip(SIZES, means, strict=True)}
        rows.append(Row(cells, Goal(REACH, statistics.geometric_mean(means), unit="×")))
    notes = ["×: time of accumulus / time of the peer, in batches of so many points; the goal is for the largest."]
    return Table("peers", "Value and Jacobian at one point and in batches, against compiled symbols", rows, notes)


def check(example: Example, theirs: Measured, seed: int) -> None:
    """Compare the results of a peer; raise `NotInstalled` with the error if it is too large to be compared with.

    Where they differ, those of accumulus are compared with complex steps.

    Raises:
        AssertionError: if those differ, too.
    """
    X, reference = example.sample(CHECKED, seed), complex_step.jacobian(example)
    values, jacobians = acc.value_and_jacobian(example.function).batch(X)
    error = max(_difference(values, theirs.values), _difference(jacobians, theirs.jacobians))
    if not error <= TOLERANCE:
        own = _difference(jacobians, np.array([reference(x) for x in X]))
        if not own <= TOLERANCE:
            raise AssertionError(f"the Jacobian of {example.name} differs by {own:.1e} from complex steps")
        raise NotInstalled(f"off by {error:.0e}")


def _difference(one: Any, other: Any) -> float:
    """Return the largest difference, relative to the largest entries of rows."""
    scale = np.abs(other).max(axis=-1, keepdims=True)
    return float(np.max(np.abs(one - other) / np.where(scale == 0.0, 1.0, scale)))


def _compared(example: Example, theirs: Measured, settings: Settings) -> tuple[float, list[float], dict[str, Any]]:
    """Return the ratio of calls, of batches, and the cells of a row."""
    solve = acc.value_and_jacobian(example.function)
    runs = {"call": partial(solve, example.point)}
    for size in SIZES:
        X = example.sample(size, settings.seed)
        points = np.ascontiguousarray(X.T) if theirs.transposed else X
        runs[str(size)] = partial(solve.batch, points, transposed=theirs.transposed)
    ours = {key: timing.median for key, timing in measure(runs, settings.turns).items()}
    ratios = {size: ours[str(size)] / theirs.batches[size] for size in SIZES}
    cells: dict[str, Any] = {"call ns": 1e9 * ours["call"], "peer's ns": 1e9 * theirs.call}
    cells["call ×"] = ours["call"] / theirs.call
    cells |= {f"{size:,}": ratio for size, ratio in ratios.items()}
    return cells["call ×"], [*ratios.values()], cells
