"""Time of one Jacobian by each system, as its users would call it: the chart of the README.

At one point, all are called from Python with an array of NumPy. CasADi's `Function` and JAX's `jit` return their own
arrays. CasADi's buffers are arrays that stay where they are, its quickest call. Forward differences are a loop of NumPy
calls. In a batch, on one thread, CasADi is its generated C compiled by
gcc, and JAX is `jit(vmap(…))`; autograd and differences have no batches, so their points cost what one point costs.
`make tables` draws what `--store` has written.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example
from groups import Settings
from groups.solvers import buffered
from groups.time_per_point import TOLERANCE, Disagreement, check_agreement
from peers import NotInstalled, autograd_numpy, casadi_c, complex_step, jax_batch, require
from peers.casadi_functions import Symbolic
from tables import Row, Table
from timing import measure, one_core

Points = NDArray[np.float64]
#: In the order of the chart.
SYSTEMS = ("accumulus", "CasADi buffers", "CasADi", "JAX", "autograd", "finite differences")
#: Forward differences with this step; sensible for arguments near 1.
STEP = float(np.sqrt(np.finfo(float).eps))


def table(settings: Settings) -> Table:
    """One row a function and way to call, then the geometric means over the functions."""
    rows: list[Row] = []
    means: dict[str, dict[str, list[float]]] = {"one point": {}, "batch": {}}
    with one_core():
        for example in settings.examples:
            for way, times in (("one point", _one_point(example, settings)), ("batch", _batch(example, settings))):
                rows.append(Row({"function": example.name, "call": way} | times))
                for name, seconds in times.items():
                    means[way].setdefault(name, []).append(seconds)
    for way, columns in means.items():
        cells = {name: statistics.geometric_mean(values) for name, values in columns.items()}
        rows.append(Row({"function": "geometric mean", "call": way} | cells))
    title = f"Microseconds per Jacobian: one call from Python, and per point of {settings.points:,} on one thread"
    return Table("overview", title, rows, ["Medians. JAX: the faster of jacfwd and jacrev, compiled beforehand."])


def _one_point(example: Example, settings: Settings) -> dict[str, float]:
    """Microseconds of a call at one point, by system."""
    x = example.point
    runs: dict[str, Callable[[], Any]] = {}
    reference = complex_step.jacobian(example)(x)
    for name, make in (
        ("accumulus", lambda: _calling(library.one_point(example.function, x), x)),
        ("CasADi buffers", lambda: _casadi_buffers(example, x)),
        ("CasADi", lambda: _casadi(example, x)),
        ("JAX jacfwd", lambda: _jax(example, x, "jacfwd")),
        ("JAX jacrev", lambda: _jax(example, x, "jacrev")),
        ("autograd", lambda: _calling(autograd_numpy.jacobian(example), x)),
        ("finite differences", lambda: _calling(_differences(example), x)),
    ):
        try:
            runs[name] = make()
        except NotInstalled:
            continue
        tolerance = 1e-4 if name == "finite differences" else TOLERANCE
        if np.max(np.abs(np.asarray(runs[name]()) - reference)) > tolerance * np.max(np.abs(reference)):
            raise Disagreement(f"{name} differs from complex steps in {example.name}")
    return _microseconds(runs, settings.turns, 1)


def _batch(example: Example, settings: Settings) -> dict[str, float]:
    """Microseconds of a point of a batch, by system."""
    X = example.sample(settings.points, settings.seed)
    contenders = [library.contender(example, X, "dense")]
    for make in (
        lambda: casadi_c.contender(example, X, "dense"),
        lambda: jax_batch.contender(example, X, "jacfwd"),
        lambda: jax_batch.contender(example, X, "jacrev"),
    ):
        try:
            contenders.append(make())
        except NotInstalled:
            continue
    check_agreement(example, X, contenders)
    return _microseconds({contender.name: contender.run for contender in contenders}, settings.turns, len(X))


def _microseconds(runs: dict[str, Callable[[], Any]], turns: int, points: int) -> dict[str, float]:
    """Medians by system, of the faster variant where a system has several."""
    timings = measure(runs, turns)
    return {
        system: min(1e6 * timings[name].median / points for name in variants)
        for system in SYSTEMS
        if (variants := [name for name in timings if _system(name) == system])
    }


def _system(contender: str) -> str:
    """Return the system that a contender is a variant of."""
    return next(system for system in SYSTEMS if contender.startswith(system))


def _calling(jacobian: Callable[[Points], Any], x: Points) -> Callable[[], Any]:
    return lambda: jacobian(x)


def _casadi(example: Example, x: Points) -> Callable[[], Any]:
    ca = require("casadi")
    symbolic = Symbolic.of(example)
    return _calling(ca.Function("jacobian", [symbolic.x], [ca.cse(symbolic.J)]), x)


def _casadi_buffers(example: Example, x: Points) -> Callable[[], Any]:
    ca = require("casadi")
    symbolic = Symbolic.of(example)
    # CasADi writes by columns: the transposed matrix comes out by rows
    function = ca.Function("jacobian", [symbolic.x], [ca.densify(ca.cse(symbolic.J)).T])
    return _calling(buffered(function, (example.outputs, example.inputs)), x)


def _jax(example: Example, x: Points, mode: jax_batch.Mode) -> Callable[[], Any]:
    jax = jax_batch.load()
    compiled = jax.jit(getattr(jax, mode)(jax_batch.function(example)))
    return lambda: compiled(x).block_until_ready()


def _differences(example: Example) -> Callable[[Points], Points]:
    f, steps = example.function, STEP * np.eye(example.inputs)

    def jacobian(x: Points) -> Points:
        value = f(x)
        return np.stack([(f(x + step) - value) / STEP for step in steps], axis=1)

    return jacobian
