"""Whole runs of SciPy's optimisers: least squares, roots and minima with our derivatives, with differences, with JAX's.

All systems start at the same point and have to end at the same result; each is prepared before the clock runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize, root

import accumulus as acc
from groups import Settings
from peers import NotInstalled, jax_batch
from tables import Goal, Row, Table
from timing import one_core

TIMES = np.linspace(0.0, 10.0, 200)
MEASURED = 2.0 * np.exp(-0.2 * TIMES) * np.cos(3.0 * TIMES) + 0.01 * np.sin(40.0 * TIMES)
#: Runs of each, of which the shortest counts.
TURNS = 5

#: A function of numbers as its system writes them: `np` is NumPy or JAX's.
Written = Callable[[Any, Any], Any]
#: Value, and derivative or None for differences.
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any] | None]


def oscillation(np: Any, p: Any) -> Any:
    """Residuals of a damped oscillation at 200 times, by three parameters."""
    return p[0] * np.exp(-p[1] * TIMES) * np.cos(p[2] * TIMES) - MEASURED


def chandrasekhar(np: Any, h: Any) -> Any:
    """Chandrasekhar's H-equation on 60 points."""
    n = len(h)
    points = (np.arange(n) + 0.5) / n
    kernel = points[:, None] / (points[:, None] + points[None, :])
    return h * (1.0 - 0.9 / (2 * n) * (kernel @ h)) - 1.0


def rosenbrock(np: Any, x: Any) -> Any:
    """Rosenbrock's function."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _squares(value: Any, slope: Any, start: Any) -> Any:
    return least_squares(value, start, jac="2-point" if slope is None else slope, xtol=1e-12, ftol=1e-12)


def _root(value: Any, slope: Any, start: Any) -> Any:
    return root(value, start, jac=slope)


def _minimum(value: Any, slope: Any, start: Any) -> Any:
    return minimize(value, start, jac=slope, method="BFGS", options={"gtol": 1e-6 if slope else 1e-4, "maxiter": 2000})


PROBLEMS: dict[str, tuple[Written, Any, Any]] = {
    "least_squares, oscillation": (oscillation, _squares, np.array([1.5, 0.1, 2.9])),
    "root, Chandrasekhar": (chandrasekhar, _root, np.ones(60)),
    "minimize BFGS, Rosenbrock": (rosenbrock, _minimum, np.full(20, 0.5)),
}


def table(settings: Settings) -> Table:
    """One row for each problem."""
    title = "Whole runs of SciPy's optimisers, milliseconds: values and derivatives from each system"
    with one_core():
        return Table("fits", title, [_row(name, *PROBLEMS[name]) for name in PROBLEMS], ["The shortest of five runs."])


def _row(name: str, written: Written, solver: Any, start: Any) -> Row:
    cells: dict[str, Any] = {"problem": name, "variables": len(start)}
    results, seconds = {}, {}
    for system, make in SYSTEMS.items():
        try:
            value, slope = make(written, start)
        except NotInstalled as missing:
            cells[system] = str(missing)
            continue
        run = partial(solver, value, slope, start)
        results[system] = run().x
        np.testing.assert_allclose(results[system], results["accumulus"], rtol=1e-3, atol=1e-4)
        seconds[system] = min(_seconds(run) for _ in range(TURNS))
        cells[system] = 1e3 * seconds[system]
    best = min(taken for system, taken in seconds.items() if system != "accumulus")
    return Row(cells, Goal(1.0, seconds["accumulus"] / best))


def _seconds(run: Callable[[], Any]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _ours(written: Written, start: Any) -> Pair:
    f = partial(written, np)
    value, slope = acc.compile(f), (acc.gradient if np.ndim(f(start)) == 0 else acc.jacobian)(f)
    value(start)
    slope(start)
    return value, slope


def _differences(written: Written, start: Any) -> Pair:
    return partial(written, np), None


def _jax(written: Written, start: Any) -> Pair:
    jax = jax_batch.load()
    f = partial(written, jax.numpy)
    derivative = jax.jit((jax.grad if np.ndim(f(start)) == 0 else jax.jacfwd)(f))
    value = jax.jit(f)
    np.asarray(value(start)), np.asarray(derivative(start))
    return lambda x: np.asarray(value(x)), lambda x: np.asarray(derivative(x))


SYSTEMS: dict[str, Callable[[Written, Any], Pair]] = {"accumulus": _ours, "differences": _differences, "JAX": _jax}
