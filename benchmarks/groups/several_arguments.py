"""Cost of a number beside the state in a batch: points of (state, number) against points of (state) alone.

Both functions compute the same from as many numbers, f(y) times a factor: the one is given the factor, a number a point
or one for all points, the other has it as a constant.
"""

from __future__ import annotations

import numpy as np

import accumulus as acc
from functions import Example
from groups import Settings
from groups.ratios import mean
from tables import Goal, Row, Table
from timing import measure, one_core

REACH = 1.3
FACTOR = 1.5


def table(settings: Settings) -> Table:
    """One row an example, then the means."""
    rows = []
    ratios: dict[str, dict[str, float]] = {"a number a point": {}, "one number": {}}
    with one_core():
        for example in settings.examples:
            nanoseconds = _compare(example, settings)
            alone = nanoseconds["state"]
            cells: dict[str, object] = {"function": example.name}
            cells |= {f"{name} ns": taken for name, taken in nanoseconds.items()}
            for name, of in ratios.items():
                of[example.name] = nanoseconds[name] / alone
            cells["one number ×"] = ratios["one number"][example.name]
            rows.append(Row(cells, Goal(REACH, ratios["a number a point"][example.name], unit="×")))
    for name, of in ratios.items():
        rows += mean(of, REACH, name)
    title = f"Batches of (state, number) against (state), {settings.points:,} points, one thread (ns a point, medians)"
    return Table("arguments", title, rows)


def _compare(example: Example, settings: Settings) -> dict[str, float]:
    f = example.function
    X = example.sample(settings.points, settings.seed)
    factors = np.full(len(X), FACTOR)
    state = acc.jacobian(lambda y: f(y) * FACTOR)
    both = acc.jacobian(lambda y, factor: f(y) * factor)
    out = state.batch(X)
    np.testing.assert_allclose(both.batch(X, factors), out, rtol=1e-9, atol=1e-9 * np.abs(out).max())
    runs = {
        "state": lambda: state.batch(X, out=out),
        "a number a point": lambda: both.batch(X, factors, out=out),
        "one number": lambda: both.batch(X, FACTOR, out=out),
    }
    return {name: 1e9 / len(X) * timing.median for name, timing in measure(runs, settings.turns).items()}
