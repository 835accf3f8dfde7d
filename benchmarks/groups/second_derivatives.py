"""Second derivatives, and products with first and second ones: operations and times against CasADi and JAX.

Functions of several results are weighted: w·f(x), w being arguments. CasADi is SX: `hessian`, and `jtimes` of the
function or of its gradient, then `cse` of all results together.
"""

from __future__ import annotations

import statistics

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from peers import Contender, NotInstalled, casadi_second, jax_batch
from tables import Goal, Row, Table
from timing import measure, one_core

MEAN_REACH, NOWHERE_ABOVE = 0.6, 1.0
PRODUCTS_REACH = 0.7
JAX_REACH, CASADI_REACH = 8.0, 4.0
#: Largest ratio of a bound call's time to that of CasADi's C by ctypes.
BOUND_REACH = 1.1
TOLERANCE = 1e-9


def table(settings: Settings) -> Table:
    """Operations of value, gradient and Hessian together."""
    rows, ratios = [], {}
    for example in settings.functions:
        ours = library.hessian_operations(example)
        cells: dict[str, object] = {"function": example.name, "accumulus": ours}
        ratio = None
        try:
            theirs = casadi_second.hessian_operations(example)
        except NotInstalled as missing:
            cells["CasADi"] = str(missing)
        else:
            cells["CasADi"] = theirs
            ratios[example.name] = ratio = ours / theirs
        rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratio)))
    rows += mean(ratios, MEAN_REACH) + worst(ratios, NOWHERE_ABOVE)
    return Table("hessian", "Operations of value, gradient and Hessian, against CasADi", rows)


def products(settings: Settings) -> Table:
    """Operations of products with a direction: of the Jacobian with values, of the Hessian."""
    rows = []
    ratios: dict[str, dict[str, float]] = {"jvp": {}, "hvp": {}}
    for example in settings.functions:
        for kind, known in ratios.items():
            ours = library.product_operations(example, kind)
            cells: dict[str, object] = {"function": example.name, "product": kind, "accumulus": ours}
            ratio = None
            try:
                theirs = casadi_second.product_operations(example, kind)
            except NotInstalled as missing:
                cells["CasADi"] = str(missing)
            else:
                cells["CasADi"] = theirs
                known[example.name] = ratio = ours / theirs
            rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratio)))
    for kind, known in ratios.items():
        rows += mean(known, PRODUCTS_REACH, kind) + worst(known, NOWHERE_ABOVE)
    return Table("products", "Operations of products with directions, against CasADi's jtimes", rows)


def times(settings: Settings) -> Table:
    """Times of gradient and Hessian of the examples: in a batch on one thread, and of a bound call at one point."""
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {}
    bound: list[float] = []
    with one_core():
        for example in settings.examples:
            X = example.sample(settings.points, settings.seed)
            w = library.weights(example)
            ours = library.hessian_contender(example, X, w)
            peers: dict[str, Contender] = {}
            for name, make in (("CasADi C", casadi_second.contender), ("JAX", jax_batch.hessian_contender)):
                try:
                    peers[name] = make(example, X, w)
                except NotInstalled as missing:
                    rows.append(Row({"function": example.name, "peer": name, "theirs": str(missing)}))
            for peer in peers.values():
                _compare(example, ours.dense(), peer.dense())
            taken = measure({ours.name: ours.run} | {name: peer.run for name, peer in peers.items()}, settings.turns)
            own = 1e9 / len(X) * taken.pop(ours.name).median
            for name, timing in taken.items():
                other = 1e9 / len(X) * timing.median
                ratios.setdefault(name, []).append(other / own)
                rows.append(
                    Row({"function": example.name, "peer": name, "ns": own, "peer's ns": other, "×": other / own})
                )
            if "CasADi C" in peers:
                rows.append(_at_one_point(example, X[:1], w, settings))
                bound.append(float(rows[-1].cells["×"]))
    for name, reach in (("CasADi C", CASADI_REACH), ("JAX", JAX_REACH)):
        if name in ratios:
            reached = statistics.geometric_mean(ratios[name])
            rows.append(
                Row({"function": "geometric mean", "peer": name}, Goal(reach, reached, at_most=False, unit="×"))
            )
    if bound:
        mean = Goal(1.0 / BOUND_REACH, statistics.geometric_mean(bound), at_most=False, unit="×")
        rows.append(Row({"function": "geometric mean", "peer": "CasADi C, one point"}, mean))
    title = "Time per point of gradient and Hessian, in a batch and bound at one point, one thread"
    return Table("hessian-time", title, rows)


def _at_one_point(example: Example, x: NDArray[np.float64], w: NDArray[np.float64], settings: Settings) -> Row:
    """A bound call, against CasADi's C called by ctypes with arguments that are converted already."""
    ours, theirs = library.bound_hessian(example, x[0].copy(), w), casadi_second.contender(example, x, w)
    _compare(example, ours.dense(), theirs.dense())
    taken = measure({"ours": ours.run, "theirs": theirs.run}, settings.turns)
    own, other = (1e9 * taken[name].median for name in ("ours", "theirs"))
    cells = {"function": example.name, "peer": "CasADi C, one point", "ns": own, "peer's ns": other, "×": other / own}
    return Row(cells)


def _compare(example: Example, ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> None:
    scale = np.abs(theirs).max(initial=1.0)
    if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
        raise ArithmeticError(f"Hessians of {example.name} differ by {np.abs(ours - theirs).max() / scale:.1e}")
