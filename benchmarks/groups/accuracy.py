"""Errors of the Jacobian's entries in units in the last place of the condition-scaled truth.

    error(i, j) = |computed J_ij - true J_ij| / (ε S_ij),    S_ij = |J_ij| + rms |δJ_ij| / δ,    ε = 2⁻⁵²

The truth has 60 digits. δJ_ij is by how much the true entry moves when every variable, and every intermediate result
of f as it is written, is wrong by a random relative amount of size δ. So ε S_ij is how far the entry is determined at
all when f is computed in double precision, and an error of 1 is what f's own rounding brings about, however its
derivative is then computed. The movements come from complex steps through f with perturbed operations, independent of
all that is judged. (Scaling by the movements of the variables alone would blame the derivative for f's own
cancellations: by that measure complex steps, CasADi and JAX are 10 to 30 units off on the flux and the pendulums.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example
from groups import Settings
from peers import NotInstalled, casadi_c, complex_step, high_precision, jax_batch
from tables import Goal, Row, Table

POINTS = 5
UNITS = 10.0
EPSILON = float(np.finfo(float).eps)
PERTURBATION = 1e-7
PERTURBATIONS = 16

Matrices = NDArray[np.float64]


def table(settings: Settings) -> Table:
    """One row an example: the largest error over random points and entries, of everyone who takes part."""
    rows = [_row(example, settings.seed + 1) for example in settings.examples]
    return Table("accuracy", f"Largest error over {POINTS} random points, in condition-scaled ulp", rows)


def _row(example: Example, seed: int) -> Row:
    X = example.sample(POINTS, seed)
    try:
        truth = high_precision.jacobian(example)
    except NotInstalled as missing:
        return Row({"example": example.name, library.NAME: str(missing)}, Goal(UNITS, None, unit=" ulp"))
    true = [truth(x) for x in X]
    scales = [condition_scale(example, x) for x in X]
    step = complex_step.jacobian(example)
    computed: dict[str, Callable[[], Matrices]] = {
        library.NAME: lambda: library.contender(example, X, "dense").dense(),
        "CasADi C": lambda: casadi_c.contender(example, X, "dense").dense(),
        "JAX": lambda: jax_batch.contender(example, X, "jacfwd").dense(),
        "complex step": lambda: np.array([step(x) for x in X]),
    }
    errors: dict[str, float | str] = {}
    for name, run in computed.items():
        try:
            errors[name] = max(map(largest_error, run(), true, scales))
        except NotInstalled as missing:
            errors[name] = str(missing)
    return Row({"example": example.name} | errors, Goal(UNITS, float(errors[library.NAME]), unit=" ulp"))


def condition_scale(example: Example, x: Matrices) -> Matrices:
    """S of the module's docstring, (outputs, inputs), to about a digit."""
    perturbed = complex_step.perturbed_jacobian(example, PERTURBATION)
    true = complex_step.jacobian(example)(x)
    movements = np.array([perturbed(x, seed) - true for seed in range(PERTURBATIONS)])
    scale: Matrices = np.abs(true) + np.sqrt(np.mean(movements**2, axis=0)) / PERTURBATION
    return scale


def largest_error(computed: Matrices, true: NDArray[np.object_], scale: Matrices) -> float:
    """Largest entry of the module's formula; exact zeros that are computed as zeros have no error."""
    distance = np.abs(computed.astype(object) - true).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = distance / (EPSILON * scale)
    return float(np.max(np.where(distance == 0.0, 0.0, errors)))
