"""Batches whose results no cache holds, on one thread, against what memory or arithmetic takes.

Memory's time is that of `memset` over the results, which writes whole lines without reading them, and of a sum over the
points; arithmetic's is that of small batches. Seconds of the processor are measured, the least of all turns, so that
other processes on the machine count little. A fresh array also costs its pages: the system clears them when they are
first written.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import library
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from tables import Goal, Row, Table
from timing import measure, one_core

POINTS: Final = 1_000_000
TURNS: Final = 7
#: Most time into a given array, relative to memory's or arithmetic's; and most of that time into a fresh one.
GIVEN, FRESH = 1 / 0.8, 1.3


def table(settings: Settings) -> Table:
    """One row an example, then the geometric means and the worst."""
    rows, given, fresh = [], {}, {}
    with one_core():
        for example in settings.examples:
            cells, given[example.name], fresh[example.name] = _row(example, settings)
            rows.append(Row(cells, Goal(GIVEN, given[example.name], unit="×")))
    for ratios, reach, of in ((given, GIVEN, "given"), (fresh, FRESH, "fresh")):
        rows += mean(ratios, reach, of) + worst(ratios, None, of)
    title = f"Nonzeros at {POINTS:,} points × variables, one thread (ns of the processor a point, least of {TURNS})"
    notes = ["Reached: time into a given array against memory's or a small batch's, whichever is longer."]
    return Table("beyond", title, rows, notes)


def _row(example: Example, settings: Settings) -> tuple[dict[str, object], float, float]:
    small = library.contender(example, example.sample(settings.points, settings.seed), "sparse")
    # turns short enough to run undisturbed
    cached = measure({small.name: small.run}, 10 * settings.turns, 1e-4)[small.name].minimum
    X = example.sample(POINTS, settings.seed)
    batch, out = library.nonzeros(example, X)

    def memory() -> None:
        ctypes.memset(out.ctypes.data, 0, out.nbytes)
        X.sum()

    runs: dict[str, Callable[[], Any]] = {
        "memory": memory,
        "given": lambda: batch(X, out=out),
        "fresh": lambda: batch(X),
    }
    least = dict.fromkeys(runs, np.inf)
    for _ in range(TURNS):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            least[name] = min(least[name], 1e9 * (time.thread_time() - start) / POINTS)
    cells: dict[str, object] = {"function": example.name, "bytes": (X.nbytes + out.nbytes) // POINTS}
    cells |= {"in caches": 1e9 * cached / settings.points, **least}
    fresh = least["fresh"] / least["given"]
    return cells | {"fresh ×": fresh}, least["given"] / max(least["memory"], 1e9 * cached / settings.points), fresh
