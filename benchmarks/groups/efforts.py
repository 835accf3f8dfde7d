"""Time per point of value and sparse Jacobian under "thorough": by rules alone, and by value as well.

Both are timed in turns on one thread: what programs by value save in operations is to be saved in time.
"""

from __future__ import annotations

import statistics

import numpy as np

import library
from groups import Settings
from groups.ratios import mean, worst
from tables import Goal, Row, Table
from timing import measure, one_core

TOLERANCE = 1e-9
MEAN_REACH, NOWHERE_ABOVE = 0.9, 1.0
TITLE = "Time per point of value and sparse Jacobian, thorough, by rules alone and by value (ns, medians)"


def table(settings: Settings) -> Table:
    """One row a function: no more time anywhere, and a tenth less in the mean."""
    rows, ratios = [], {}
    nanoseconds = 1e9 / settings.points
    for example in settings.functions:
        X = example.sample(settings.points, settings.seed)
        with library.by_rules_alone():
            before = library.both(example, X, effort="thorough", time_limit=library.PATIENCE, cache=False)
        after = library.both(example, X, effort="thorough", time_limit=library.PATIENCE)
        for one, other in zip(before.results(), after.results(), strict=True):
            scale = np.maximum(np.abs(one).max(axis=-1, keepdims=True), 1e-300)
            if not np.all(np.abs(one - other) <= TOLERANCE * scale):
                raise AssertionError(f"the thorough program of {example.name} by value differs from that by rules")
        with one_core():  # searches, which are bounded by time, are done before
            timings = measure({"rules": before.run, "values": after.run}, settings.turns)
        # of the two that ran one after the other: the machine's speed may drift between turns
        turns = zip(timings["values"].seconds, timings["rules"].seconds, strict=True)
        ratios[example.name] = ratio = statistics.median(later / earlier for later, earlier in turns)
        cells = {
            "function": example.name,
            "by rules": before.operations,
            "by value": after.operations,
            "ns by rules": nanoseconds * timings["rules"].median,
            "ns by value": nanoseconds * timings["values"].median,
            "by minima": timings["values"].minimum / timings["rules"].minimum,
        }
        rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratio)))
    rows += mean(ratios, MEAN_REACH) + worst(ratios, NOWHERE_ABOVE)
    return Table("efforts", TITLE, rows)
