"""Time per point of value and sparse Jacobian, before the optimiser of tapes and after, in turns on one thread.

The sparse form, since it stores least: what is optimised is arithmetic.
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


def table(settings: Settings) -> Table:
    """One row a function; faster everywhere is what is to be reached."""
    rows, ratios = [], {}
    if not library.CAN_SKIP_OPTIMISER:
        note = "this version has no value_and_jacobian(f, optimise=False)"
        return Table("optimised", TITLE, [Row({"function": "all"}, Goal(1.0, None))], [note])
    nanoseconds = 1e9 / settings.points
    with one_core():
        for example in settings.functions:
            X = example.sample(settings.points, settings.seed)
            plain, optimised = (library.both(example, X, optimise=on) for on in (False, True))
            for one, other in zip(plain.results(), optimised.results(), strict=True):
                scale = np.maximum(np.abs(one).max(axis=-1, keepdims=True), 1e-300)
                if not np.all(np.abs(one - other) <= TOLERANCE * scale):
                    raise AssertionError(f"the optimised program of {example.name} differs from the plain one")
            timings = measure({"plain": plain.run, "optimised": optimised.run}, settings.turns)
            # of the two that ran one after the other: the machine's speed may drift between turns
            turns = zip(timings["optimised"].seconds, timings["plain"].seconds, strict=True)
            ratios[example.name] = ratio = statistics.median(after / before for after, before in turns)
            cells = {
                "function": example.name,
                "operations before": plain.operations,
                "after": optimised.operations,
                "ns before": nanoseconds * timings["plain"].median,
                "ns after": nanoseconds * timings["optimised"].median,
                "by minima": timings["optimised"].minimum / timings["plain"].minimum,
            }
            rows.append(Row(cells, Goal(1.0, ratio)))
    rows += mean(ratios, None) + worst(ratios, 1.0)
    return Table("optimised", TITLE, rows)


TITLE = "Time per point of value and sparse Jacobian, before the optimiser and after"
