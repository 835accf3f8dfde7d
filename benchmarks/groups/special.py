"""Values and derivatives of special functions and splines in a batch, against SciPy's values alone."""

from __future__ import annotations

import numpy as np
from scipy import interpolate, special

import accumulus as acc
from groups import Settings
from tables import Row, Table
from timing import measure, one_core

FUNCTIONS = ("gamma", "gammaln", "psi", "erfinv", "ndtri", "erfcx", "log_ndtr", "i0", "i1", "k0", "k1", "j0", "y0")
KNOTS = (8, 32, 128, 512)


def table(settings: Settings) -> Table:
    """One row a function, then one a number of knots of a cubic spline."""
    points = np.random.default_rng(settings.seed).uniform(0.1, 0.9, settings.points)
    contenders = {name: getattr(special, name) for name in FUNCTIONS}
    for count in KNOTS:
        knots = np.linspace(0.0, 1.0, count)
        contenders[f"CubicSpline, {count} knots"] = interpolate.CubicSpline(knots, np.sin(7.0 * knots))
    rows = []
    with one_core():
        for name, function in contenders.items():
            value, both = acc.jacobian(function), acc.value_and_jacobian(function)
            np.testing.assert_allclose(both.batch(points)[0], function(points), rtol=1e-11)
            runs = {"slope": lambda f=value: f.batch(points), "both": lambda f=both: f.batch(points)}
            timings = measure(runs | {"SciPy": lambda f=function: f(points)}, settings.turns)
            ns = {key: 1e9 / len(points) * timing.median for key, timing in timings.items()}
            cells = {
                "function": name,
                "derivative": ns["slope"],
                "with value": ns["both"],
                "SciPy's value": ns["SciPy"],
            }
            rows.append(Row(cells))
    return Table("special", f"Special functions and splines, {len(points):,} points, one thread (ns a point)", rows)
