"""Derivatives inside of a pipeline that JAX compiles: ours, which XLA calls, against `jax.jacfwd` or `jax.jacrev`.

At every point of a batch, the Jacobian is scaled by the point's length and summed: what JAX computes around it is the
same in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import accumulus as acc
from functions import Example
from groups import Settings
from peers import NotInstalled, jax_batch
from tables import Goal, Row, Table
from timing import measure, one_core

#: Jacobians by JAX take at least as many times as long.
TIMES = 1.0
CHOSEN = ("roe_flux", "robot_arm", "human_heart_dipole")


def table(settings: Settings) -> Table:
    """One row a function."""
    title = "A pipeline that JAX compiles, with our Jacobian in it and with JAX's"
    try:
        jax_batch.load()
    except NotInstalled:
        return Table("jax", f"{title}: JAX is not installed", [])
    with one_core():
        rows = [_row(example, settings) for example in settings.examples if example.name in CHOSEN]
    return Table("jax", title, rows)


def _row(example: Example, settings: Settings) -> Row:
    jax = jax_batch.load()
    X = jax.numpy.asarray(example.sample(settings.points, settings.seed))
    inside = jax_batch.function(example)
    ways = {"ours": acc.jax.jacobian(example.function), "jacfwd": jax.jacfwd(inside), "jacrev": jax.jacrev(inside)}
    runs = {name: _pipeline(jax, way, X) for name, way in ways.items()}
    sums = [np.asarray(run()) for run in runs.values()]
    for found in sums[1:]:
        np.testing.assert_allclose(found, sums[0], rtol=1e-8)
    median = {name: timing.median for name, timing in measure(runs, settings.turns).items()}
    best = min(median["jacfwd"], median["jacrev"])
    each = {f"{name} ns a point": 1e9 * seconds / settings.points for name, seconds in median.items()}
    return Row({"function": example.name, **each}, Goal(TIMES, best / median["ours"], at_most=False))


def _pipeline(jax: Any, way: Callable[[Any], Any], X: Any) -> Callable[[], Any]:
    jnp = jax.numpy
    compute = jax.jit(lambda points: jnp.sum(jax.vmap(lambda x: jnp.linalg.norm(x) * way(x))(points), axis=0))
    return lambda: compute(X).block_until_ready()
