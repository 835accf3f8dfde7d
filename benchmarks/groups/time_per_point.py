"""Time per point of a batch on one thread, against CasADi's generated C and JAX.

All write the same result: the structural nonzeros of each point against the nonzeros, whole matrices against whole
matrices. Before anything is timed, all results are compared with each other and with complex steps.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example
from groups import Settings
from peers import Contender, Layout, NotInstalled, casadi_c, complex_step, jax_batch, simd_c
from tables import Goal, Row, Table
from timing import measure, one_core

LAYOUTS: tuple[Layout, ...] = ("sparse", "dense")
TOLERANCE = 1e-9
MEAN_REACH = 4.0
NOWHERE_SLOWER = 1.0

#: the peer whose points are columns
COLUMNS = "simd C"

#: what a peer can do, by layout: one contender a variant, the fastest of which counts
PEERS: dict[Layout, dict[str, Callable[[Example, NDArray[np.float64]], list[Contender]]]] = {
    "sparse": {
        "CasADi C": lambda example, X: [casadi_c.contender(example, X, "sparse")],
        COLUMNS: simd_c.contenders,
    },
    "dense": {
        "CasADi C": lambda example, X: [casadi_c.contender(example, X, "dense")],
        "JAX": lambda example, X: [jax_batch.contender(example, X, mode) for mode in jax_batch.MODES],
    },
}


class Disagreement(Exception):
    """Two ways to the same Jacobian differ."""


def table(settings: Settings) -> Table:
    """One row an example, layout and peer, then the geometric means over the examples."""
    rows: list[Row] = []
    ratios: dict[tuple[Layout, str], list[float]] = {}
    with one_core():
        for example in settings.examples:
            for layout in LAYOUTS:
                for peer, row in _compare(example, layout, settings).items():
                    rows.append(row)
                    if row.goal is not None and row.goal.reached is not None:
                        ratios.setdefault((layout, peer), []).append(row.goal.reached)
    for (output, peer), values in ratios.items():
        mean = statistics.geometric_mean(values)
        cells = {"example": "geometric mean", "output": output, "peer": peer}
        rows.append(Row(cells, Goal(MEAN_REACH, mean, at_most=False, unit="×")))
    title = f"Time per point, {settings.points:,} points × variables in C order, one thread (ns, medians)"
    notes = ["×: how many times faster accumulus is. By minima: the same ratio from each one's fastest turn."]
    return Table("time", title, rows, notes)


def check_agreement(
    example: Example, X: NDArray[np.float64], contenders: Iterable[Contender], checked: int = 50
) -> None:
    """Compare results at some of the points with complex steps, each row relative to its largest entry.

    Raises:
        Disagreement: naming the example and the contender.
    """
    reference = complex_step.jacobian(example)
    chosen = np.linspace(0, len(X) - 1, min(checked, len(X))).astype(int)
    truth = np.array([reference(X[k]) for k in chosen])
    scale = np.abs(truth).max(axis=2, keepdims=True)
    scale[scale == 0.0] = 1.0
    for contender in contenders:
        error = float(np.max(np.abs(contender.dense()[chosen] - truth) / scale))
        if not error <= TOLERANCE:
            raise Disagreement(f"{contender.name} differs from complex steps by {error:.1e} in {example.name}")


def _compare(example: Example, layout: Layout, settings: Settings) -> dict[str, Row]:
    """One row a peer, all timed in turns with accumulus."""
    X = example.sample(settings.points, settings.seed)
    ours = library.contender(example, X, layout)
    variants: dict[str, list[Contender]] = {}
    missing: dict[str, str] = {}
    for peer, contenders in PEERS[layout].items():
        try:
            variants[peer] = contenders(example, X)
        except NotInstalled as absent:
            missing[peer] = str(absent)

    taking_part = [ours, *(contender for group in variants.values() for contender in group)]
    check_agreement(example, X, taking_part)
    timings = measure({contender.name: contender.run for contender in taking_part}, settings.turns)

    nanoseconds = 1e9 / settings.points
    mine = timings[ours.name]
    rows = {}
    for peer in PEERS[layout]:
        cells = {"example": example.name, "output": layout, "peer": peer, "ns": nanoseconds * mine.median}
        least = MEAN_REACH if peer == "JAX" else NOWHERE_SLOWER
        if peer in missing:
            goal = None if peer == COLUMNS else Goal(least, None, at_most=False, unit="×")
            rows[peer] = Row(cells | {"peer's ns": missing[peer]}, goal)
            continue
        best = min(variants[peer], key=lambda contender: timings[contender.name].median)
        theirs = timings[best.name]
        cells |= {"peer": best.name, "peer's ns": nanoseconds * theirs.median}
        cells["by minima"] = theirs.minimum / mine.minimum
        ratio = theirs.median / mine.median
        if peer == COLUMNS:
            rows[peer] = Row(cells | {"peer's ×": ratio})
        else:
            rows[peer] = Row(cells, Goal(least, ratio, at_most=False, unit="×"))
    return rows
