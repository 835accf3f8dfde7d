"""Functions that decide on values: what comes out on points that cross all cases, and what the decisions cost.

Each is compared with the same function without its decisions, at points that all go one way; the circuit with the same
written with np.where, at points that go all ways. Derivatives are compared with central differences of the function
itself, away from where it jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import accumulus as acc
from decisions import (
    circuit,
    circuit_by_hand,
    controller,
    controller_in_one_case,
    controllers,
    dosed,
    dosed_in_one_case,
    hours,
    orbits,
    true_anomaly,
    true_anomaly_in_one_case,
    voltages,
)
from groups import Settings
from tables import Goal, Row, Table
from timing import measure, one_core

POINTS: Final = 100_000
#: Points at which derivatives are compared with differences.
COMPARED: Final = 300


class Case(NamedTuple):
    """A function that decides, the same without decisions, and how long it may take beside it."""

    name: str
    function: Callable[..., Any]
    #: The same at the points of `alike`, without a decision; by hand for all points, of the circuit.
    plain: Callable[..., Any]
    #: Points that cross all cases, and points that go one way.
    all_ways: Sequence[np.ndarray]
    alike: Sequence[np.ndarray]
    reach: float
    sparse: bool = False


def cases() -> list[Case]:
    """Return the cases to measure."""
    everywhere = voltages(POINTS)
    return [
        Case("circuit", circuit, circuit_by_hand, (everywhere,), (everywhere,), 1.5, sparse=True),
        Case(
            "controller", controller, controller_in_one_case, controllers(POINTS), controllers(POINTS, alike=True), 1.1
        ),
        Case("doses at hours", dosed, dosed_in_one_case, hours(POINTS), hours(POINTS, alike=True), 1.1),
        Case("root by while", true_anomaly, true_anomaly_in_one_case, orbits(POINTS), orbits(POINTS, alike=True), 1.1),
    ]


def table(settings: Settings) -> Table:
    """One row a case."""
    with one_core():
        rows = [_row(case, settings) for case in cases()]
    notes = [
        "programs: that the batch of all points runs; wrong: of 300 points away from borders, against differences.",
        "decides, plain: at points that go one way, with and without the decision; the circuit at all points, by if "
        "and by np.where. reached is their ratio.",
    ]
    return Table("decisions", f"Functions that decide on values, {POINTS:,} points, one thread (medians)", rows, notes)


def _row(case: Case, settings: Settings) -> Row:
    sparse = "csr" if case.sparse else None
    jac = acc.jacobian(case.function, sparse=sparse)
    crossing = jac.batch(*case.all_ways)
    programs = max(1, len(jac.report().cases))
    dense = crossing.toarray() if case.sparse else crossing
    wrong = _wrong(case, dense)
    decided, plain = acc.jacobian(case.function, sparse=sparse), acc.jacobian(case.plain, sparse=sparse)
    one, other = decided.batch(*case.alike), plain.batch(*case.alike)
    if not case.sparse:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
    runs = {
        "all ways": lambda: jac.batch(*case.all_ways),
        "decides": lambda: decided.batch(*case.alike),
        "plain": lambda: plain.batch(*case.alike),
    }
    taken = {name: 1e9 / POINTS * timing.median for name, timing in measure(runs, settings.turns).items()}
    cells: dict[str, Any] = {"function": case.name, "programs": programs, "wrong": wrong}
    cells |= {f"{name} (ns)": nanoseconds for name, nanoseconds in taken.items()}
    missed = f"{wrong} wrong" if wrong else ""
    return Row(cells, Goal(case.reach, taken["decides"] / taken["plain"], unit="×", missed=missed))


def _wrong(case: Case, derivatives: np.ndarray) -> int:
    """Return the number of points with another derivative than differences that agree from both sides."""
    wrong = 0
    for k in range(COMPARED):
        point = [x[k] for x in case.all_ways]
        x = np.asarray(point[0])
        for j in range(x.size):
            slopes = []
            for step in (-1e-6, 1e-6):
                moved = x.copy()
                moved[j] += step
                slopes.append((_value(case, moved, point) - _value(case, x, point)) / step)
            left, right = slopes
            scale = 1.0 + np.abs(left) + np.abs(right)
            smooth = np.abs(left - right) < 1e-3 * scale
            apart = np.abs(derivatives[k, ..., j] - (left + right) / 2.0)
            wrong += bool(np.any(apart[smooth] > 1e-4 * scale[smooth]))
    return wrong


def _value(case: Case, x: np.ndarray, point: Sequence[Any]) -> np.ndarray:
    return np.asarray(case.function(x, *point[1:]), float)
