"""Errors of values and Jacobians in units in the last place of the condition-scaled truth.

    error(k) = |computed r_k - true r_k| / (ε S_k),    S_k = |r_k| + rms |δr_k| / δ,    ε = 2⁻⁵²

r are the function's values and the entries of its Jacobian. The truth has 60 digits. δr_k is by how much a true result
moves when every variable, and every intermediate result of f as it is written, is wrong by a random relative amount of
size δ. So ε S_k is how far the result is determined at all when f is computed in double precision, and an error of 1 is
what f's own rounding brings about, however its derivative is then computed. The movements come from complex steps
through f with perturbed operations, independent of all that is judged. (Scaling by the movements of the variables alone
would blame the derivative for f's own cancellations: by that measure complex steps, CasADi and JAX are 10 to 30 units
off on the flux and the pendulums.)

Where a derivative is zero because the effects of a variable cancel, as that of the density on ρ c² with c² = γ p / ρ,
the movements are zero, too: there every method is a hundred units off, since each adds up the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

import library
from difficult_points import difficult_points
from functions import Example
from groups import Settings
from peers import NotInstalled, casadi_c, complex_step, high_precision, jax_batch
from tables import Goal, Row, Table

POINTS: Final = 200
UNITS: Final = 10.0
#: What the optimiser may make of the plain program's largest error of a result, or of one unit.
FACTOR: Final = 4.0
EPSILON: Final = float(np.finfo(float).eps)
PERTURBATION: Final = 1e-7
#: Where zeros are as near as 1e-8, and must not be crossed.
SMALL_PERTURBATION: Final = 1e-11
PERTURBATIONS: Final = 16
#: Ways to make the program: the options of each.
PROGRAMS: Final = {
    "plain": {"optimise": False},
    library.NAME: {},
    "exact order": {"exact_order": True},
    "thorough": {"effort": "thorough"},
}

Matrices = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """Exact results and their scales.

    Attributes:
        points: where, (points, inputs).
        results: values and Jacobians in mpmath's numbers, (points, outputs, 1 + inputs), values first.
        scales: S of the module's docstring, of the same shape.
    """

    points: Matrices
    results: NDArray[np.object_]
    scales: Matrices

    @classmethod
    def of(
        cls, example: Example, X: Matrices, digits: int = high_precision.DIGITS, perturbation: float = PERTURBATION
    ) -> Truth:
        """At the points X (points, inputs), from so many digits, with movements from perturbations of a size."""
        exact = high_precision.value_and_jacobian(example, digits)
        return cls(X, np.array([exact(x) for x in X]), condition_scales(example, X, perturbation))

    def errors(self, computed: Matrices) -> Matrices:
        """Of the module's formula; exact zeros that are computed as zeros have no error.

        Args:
            computed: values and Jacobians, or Jacobians only.
        """
        columns = slice(self.results.shape[2] - computed.shape[2], None)
        distance = np.abs(computed.astype(object) - self.results[:, :, columns]).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = distance / (EPSILON * self.scales[:, :, columns])
        found: Matrices = np.where(distance == 0.0, 0.0, errors)
        return found


def condition_scales(example: Example, X: Matrices, perturbation: float = PERTURBATION) -> Matrices:
    """S of the module's docstring at the points X, (points, outputs, 1 + inputs), to about a digit."""
    perturbed = complex_step.perturbed(example, perturbation, PERTURBATIONS)
    unperturbed = complex_step.perturbed(example, 0.0, 1)
    scales = []
    for seed, x in enumerate(X):
        (true,) = unperturbed(x, seed)
        movements = perturbed(x, seed) - true
        largest = np.maximum(np.max(np.abs(movements), axis=0), np.finfo(float).tiny)  # whose square may overflow
        scales.append(np.abs(true) + largest * np.sqrt(np.mean((movements / largest) ** 2, axis=0)) / perturbation)
    return np.array(scales)


@cache
def truth(example: Example, seed: int) -> Truth:
    """At the random points that both tables take."""
    return Truth.of(example, example.sample(POINTS, seed))


@cache
def truth_at_edges(example: Example, seed: int) -> Truth:
    """At points that are difficult."""
    return Truth.of(example, difficult_points(example, POINTS, seed), perturbation=SMALL_PERTURBATION)


@cache
def errors(example: Example, seed: int, program: str) -> tuple[Matrices, Matrices]:
    """Of a program of this package, by its name in `PROGRAMS`, that is made from the random points.

    Returns:
        at these, and at difficult points that it has not seen: (points, outputs, 1 + inputs).
    """
    inside, edges = truth(example, seed), truth_at_edges(example, seed)
    computed = library.values_and_jacobians(example, inside.points, edges.points, **PROGRAMS[program])
    return inside.errors(computed[0]), edges.errors(computed[1])


def factors(before: Matrices, after: Matrices) -> Matrices:
    """For each result, by how much its largest error over the points grew; of errors below one unit, to what.

    Args:
        before, after: errors, (points, outputs, 1 + inputs).
    """
    found: Matrices = np.max(after, axis=0) / np.maximum(1.0, np.max(before, axis=0))
    return found


def table(settings: Settings) -> Table:
    """One row a function: the largest error over random points and results, of everyone who takes part."""
    rows = [_row(function, settings.seed + 1) for function in settings.functions]
    title = f"Largest error over {POINTS} random points, in condition-scaled ulp"
    notes = [f"to reach: {UNITS:g} units; where no peer reaches them, what all of them do"]
    return Table("accuracy", title, rows, notes)


def rounding(settings: Settings) -> Table:
    """One row a function: by how much the optimiser makes the worst result of all worse than the plain program's."""
    seed, rows = settings.seed + 1, []
    for function in settings.functions:
        try:
            plain = errors(function, seed, "plain")
        except NotInstalled as missing:
            rows.append(Row({"function": function.name, library.NAME: str(missing)}, Goal(FACTOR, None)))
            continue
        cells = {}
        for name in list(PROGRAMS)[1:]:
            inside, edges = map(factors, plain, errors(function, seed, name))
            cells |= {name: float(np.max(inside)), f"{name}, edges": float(np.max(edges))}
        largest = max(cell for name, cell in cells.items() if not name.startswith("exact"))
        rows.append(Row({"function": function.name} | cells, Goal(FACTOR, largest)))
    title = "Largest error of each result over points, by that of the plain program or one unit"
    notes = [
        "the largest ratio over all results: values and entries of the Jacobian",
        f"{POINTS} random points; edges: {POINTS} difficult points of the domain, near zeros of what the plain program "
        "computes or where that is extreme, by the program that was made from the random points",
    ]
    return Table("rounding", title, rows, notes)


def _row(function: Example, seed: int) -> Row:
    try:
        known = truth(function, seed)
    except NotInstalled as missing:
        return Row({"function": function.name, library.NAME: str(missing)}, Goal(UNITS, None, unit=" ulp"))
    own = {name: float(np.max(errors(function, seed, name)[0])) for name in PROGRAMS}
    X = known.points
    step = complex_step.jacobian(function)
    runs: dict[str, Callable[[], Matrices]] = {
        "CasADi C": lambda: casadi_c.contender(function, X, "dense").dense(),
        "JAX": lambda: jax_batch.contender(function, X, "jacfwd").dense(),
        "complex step": lambda: np.array([step(x) for x in X]),
    }
    peers: dict[str, float | str] = {}
    for name, run in runs.items():
        try:
            peers[name] = float(np.max(known.errors(run())))
        except NotInstalled as missing:
            peers[name] = str(missing)
    others = [error for error in peers.values() if isinstance(error, float)]
    reach = UNITS if min(others) <= UNITS else max(others)
    return Row({"function": function.name} | own | peers, Goal(reach, own[library.NAME], unit=" ulp"))
