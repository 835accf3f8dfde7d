"""What a call from Python at one point costs above the arithmetic.

The arithmetic is what a point takes in a batch. That is vectorised, so it is an underestimate for a single point and
the overhead an overestimate.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example
from groups import Settings
from peers import NotInstalled, jax_batch
from tables import Goal, Row, Table
from timing import measure, one_core

MICROSECONDS = 3.0
SMALL = ("roe_flux", "robot_arm", "human_heart_dipole")


def table(settings: Settings) -> Table:
    """One row a small function."""
    rows = []
    with one_core():
        for example in settings.examples:
            if example.name not in SMALL:
                continue
            X = example.sample(settings.points, settings.seed)
            runs: dict[str, Callable[[], Any]] = {
                "call": functools.partial(library.one_point(example.function, example.point), example.point),
                "batch": library.contender(example, X, "dense").run,
                "NumPy": functools.partial(example.function, example.point),
            }
            with contextlib.suppress(NotInstalled):
                runs["JAX"] = _jax(example, example.point)
            median = {name: timing.median for name, timing in measure(runs, settings.turns).items()}
            overhead = 1e6 * (median["call"] - median["batch"] / settings.points)
            cells = {
                "function": example.name,
                "call µs": 1e6 * median["call"],
                "arithmetic µs": 1e6 * median["batch"] / settings.points,
                "f in NumPy µs": 1e6 * median["NumPy"],
                "JAX µs": 1e6 * median["JAX"] if "JAX" in median else "not installed",
            }
            rows.append(Row(cells, Goal(MICROSECONDS, overhead, unit=" µs more")))
    return Table("call", "One Jacobian at one point, called from Python", rows)


def _jax(example: Example, x: NDArray[np.float64]) -> Callable[[], Any]:
    jax = jax_batch.load()
    compiled = jax.jit(jax.jacfwd(jax_batch.function(example)))
    point = jax.device_put(x)
    return lambda: compiled(point).block_until_ready()
