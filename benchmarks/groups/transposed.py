"""Transposed batches against the same tape as C in one `omp simd` loop over structure-of-arrays, on one thread.

Both read columns of variables and write columns of structural nonzeros. Before anything is timed, all results are
compared with complex steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from groups.time_per_point import check_agreement
from peers import Contender, NotInstalled
from peers.simd_c import aligned, contenders
from tables import Goal, Row, Table
from timing import measure, one_core

REACH = 1.0


def table(settings: Settings) -> Table:
    """One row an example, then the geometric mean and the worst."""
    points = settings.points + -settings.points % 8  # whole cache lines, which C is told of
    rows, ratios = [], {}
    with one_core():
        for example in settings.examples:
            cells: dict[str, object] = {"function": example.name}
            X = example.sample(points, settings.seed)
            try:
                peers = contenders(example, X)
            except NotInstalled as missing:
                rows.append(Row(cells | {"C ns": str(missing)}, Goal(REACH, None)))
                continue
            ours = contender(example, X)
            check_agreement(example, X, [ours, *peers])
            timings = measure({each.name: each.run for each in (ours, *peers)}, settings.turns)
            best = min(peers, key=lambda peer: timings[peer.name].median)
            ratio = ratios[example.name] = timings[ours.name].median / timings[best.name].median
            cells |= {"ns": 1e9 / points * timings[ours.name].median, "C ns": 1e9 / points * timings[best.name].median}
            cells |= {"C by": best.name, "by minima": timings[ours.name].minimum / timings[best.name].minimum}
            rows.append(Row(cells, Goal(REACH, ratio, unit="×")))
    rows += mean(ratios, REACH) + worst(ratios, None)
    title = f"Transposed batches, {points:,} points, one thread (ns a point, medians)"
    notes = [
        "C: the statements of our tape, gcc -O3 -march=native -ffast-math -fopenmp-simd; the faster of two widths."
    ]
    return Table("transposed", title, rows, notes)


def contender(example: Example, X: NDArray[np.float64]) -> Contender:
    """Structural nonzeros by columns, written into an array that is there already."""
    jacobian = acc.jacobian(example.function, sparse=True)
    columns = aligned((example.inputs, len(X)))
    columns[:] = X.T
    first = jacobian.batch(columns, transposed=True)
    out = aligned(first.data.shape)

    def dense() -> NDArray[np.float64]:
        return jacobian.batch(columns, transposed=True).toarray()  # type: ignore[no-any-return]

    return Contender("accumulus", lambda: jacobian.batch(columns, out=out, transposed=True), dense)
