"""Operations of geometry and factors with tangent-space Jacobians, against SymForce's generated C++.

The functions are those that SymForce publishes as generated code, written in NumPy with its formulas, its ε near zero
included. Its numbers are the "Total ops" of each function in `gen/cpp/sym/` of github.com/symforce-org/symforce, commit
b78c11dc of May 2026: sums, products, divisions, powers, functions and changes of sign of all results after common
subexpressions are shared. Poses move by rotation and translation separately, as its `Pose3` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import accumulus as acc
import library
from accumulus.manifolds import SO3, Euclidean, product
from groups import Settings
from groups.ratios import mean, worst
from tables import Goal, Row, Table

#: What the default comes to at most anywhere, and in the mean; and the mean under "thorough".
NOWHERE_ABOVE, MEAN_REACH, THOROUGH_REACH = 1.0, 0.9, 0.85
#: SymForce's ε in double precision.
EPSILON = 2.2e-15

POSE = product(SO3, Euclidean(3))


def exponential(v: Any) -> Any:
    """Unit quaternion x, y, z, w of a rotation vector."""
    angle = np.sqrt(EPSILON**2 + v @ v)
    return np.concatenate([np.sin(angle / 2) / angle * v, [np.cos(angle / 2)]])


def logarithm(q: Any) -> Any:
    """Rotation vector of a unit quaternion."""
    w = np.minimum(np.abs(q[3]), 1 - EPSILON)
    return 2 * np.arccos(w) / np.sqrt(1 - w * w) * np.copysign(1.0, q[3]) * q[:3]


def retract(q: Any, v: Any) -> Any:
    """Rotation q · Exp(v)."""
    return SO3.compose(q, exponential(v))


def difference(a: Any, b: Any) -> Any:
    """Rotation vector from a to b."""
    return logarithm(between(a, b))


def between(a: Any, b: Any) -> Any:
    """Rotation a⁻¹ · b."""
    return SO3.compose(SO3.inverse(a), b)


def inverse_pose(a: Any) -> Any:
    """Inverse of a pose, quaternion and translation."""
    turn = SO3.inverse(a[:4])
    return np.concatenate([turn, -SO3.apply(turn, a[4:])])


def compose_poses(a: Any, b: Any) -> Any:
    """Pose a · b."""
    return np.concatenate([SO3.compose(a[:4], b[:4]), a[4:] + SO3.apply(a[:4], b[4:])])


def between_poses(a: Any, b: Any) -> Any:
    """Pose a⁻¹ · b."""
    turn = SO3.inverse(a[:4])
    return np.concatenate([SO3.compose(turn, b[:4]), SO3.apply(turn, b[4:] - a[4:])])


def reprojection(source: Any, lens: Any, target: Any, other: Any, inverse_range: Any, pixel: Any, seen: Any) -> Any:
    """Pixels between the projection of a landmark of one camera into another one, and where that sees it."""
    ray = np.array([(pixel[0] - lens[2]) / lens[0], (pixel[1] - lens[3]) / lens[1], 1.0])
    ray = ray / np.sqrt(ray @ ray + EPSILON)
    turned = SO3.apply(source[:4], ray) + inverse_range * (source[4:] - target[4:])
    x, y, z = SO3.apply(SO3.inverse(target[:4]), turned)
    return np.array([other[0] * x / z + other[2] - seen[0], other[1] * y / z + other[3] - seen[1]])


def factor(residual: Callable[..., Any], poses: int, on: Any) -> Callable[..., Any]:
    """Residual, Jacobian, JᵀJ (one triangle) and Jᵀr, as a function of `poses` variables and a weight matrix."""
    both = acc.value_and_jacobian(
        lambda *arguments: arguments[-1] @ residual(*arguments[:-1]), argnums=tuple(range(poses)), on=on
    )

    def linearized(*arguments: Any) -> Any:
        r, parts = both(*arguments)
        J = np.concatenate(parts, axis=1)
        return r, J, (J.T @ J)[np.tril_indices(J.shape[1])], J.T @ r

    return linearized


def pose_residual(a: Any, b: Any, measured: Any) -> Any:
    """Difference between a relative pose and its measurement."""
    pose = between_poses(a, b)
    return np.concatenate([difference(measured[:4], pose[:4]), pose[4:] - measured[4:]])


def cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]]:
    """By name: the function that is compiled with options, its arguments, and SymForce's operations."""
    random = np.random.default_rng(0)
    q, p, r = (SO3.exp(random.normal(size=3)) for _ in range(3))
    a, b, c = (np.concatenate([each, random.normal(size=3)]) for each in (q, p, r))
    lens, pixel, three, six = np.array([500.0, 510.0, 320.0, 240.0]), np.array([300.0, 200.0]), np.eye(3), np.eye(6)

    def values(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **options: acc.compile(f, **options)

    def jacobians(f: Callable[..., Any], on: Any, arguments: int) -> Callable[..., Any]:
        argnums = tuple(range(arguments)) if arguments > 1 else 0
        return lambda **options: acc.value_and_jacobian(f, argnums=argnums, on=on, into=on, **options)

    prior = factor(difference, 1, SO3)
    of_rotations = factor(lambda a, b, measured: difference(measured, between(a, b)), 2, SO3)
    of_positions = factor(lambda a, b, measured: between_poses(a, b)[4:] - measured, 2, POSE)
    return {
        "Rot3, retract": (values(retract), (q, a[4:]), 45),
        "Rot3, local coordinates": (values(difference), (q, p), 42),
        "Rot3, inverse with Jacobian": (jacobians(SO3.inverse, SO3, 1), (q,), 34),
        "Rot3, compose with Jacobians": (jacobians(SO3.compose, SO3, 2), (q, p), 224),
        "Rot3, between with Jacobians": (jacobians(between, SO3, 2), (q, p), 161),
        "Pose3, inverse with Jacobian": (jacobians(inverse_pose, POSE, 1), (a,), 115),
        "Pose3, compose with Jacobians": (jacobians(compose_poses, POSE, 2), (a, b), 330),
        "Pose3, between with Jacobians": (jacobians(between_poses, POSE, 2), (a, b), 306),
        "linear reprojection": (values(reprojection), (a, lens, b, lens, 0.4, pixel, pixel), 123),
        "prior factor, Rot3": (values(prior), (q, p, three), 342),
        "between factor, Rot3": (values(of_rotations), (q, p, r, three), 746),
        "between factor, Pose3 position": (values(of_positions), (a, b, c[4:], three), 553),
        "between factor, Pose3": (values(factor(pose_residual, 2, POSE)), (a, b, c, six), 2390),
    }


@library.processor_clock()
def table(settings: Settings) -> Table:
    """One row a function, then the means and the worst."""
    rows, ratios, patient = [], {}, {}
    for name, (prepare, arguments, theirs) in cases().items():
        ours, thorough = (
            library.tally(prepare(**options).compile(*arguments).tape).operations
            for options in ({}, {"effort": "thorough", "time_limit": library.PATIENCE})
        )
        ratios[name], patient[name] = ours / theirs, thorough / theirs
        cells = {"function": name, "accumulus": ours, "thorough": thorough, "SymForce": theirs}
        rows.append(Row(cells, Goal(NOWHERE_ABOVE, ratios[name])))
    rows += mean(ratios, MEAN_REACH) + mean(patient, THOROUGH_REACH, "thorough") + worst(ratios, NOWHERE_ABOVE)
    notes = ["Factors: residual, Jacobian, JᵀJ (one triangle) and Jᵀr. The reprojection is the value alone."]
    return Table("symforce", "Operations of geometry and factors, against SymForce's generated C++", rows, notes)
