"""Operations of value and Jacobian by theorems, and without them.

Rotations: the image of a point in a camera at w, t, whose rotation by a vector or a quaternion is written in several
ways; and two links of a chain. Systems: solutions, inverses and determinants of positive definite matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

import accumulus as acc
import library
from accumulus.programs import graphs
from accumulus.tape import systems as linear_systems
from groups import Settings
from tables import Row, Table

Array = NDArray[np.float64]
Cases = dict[str, tuple[Callable[..., Any], tuple[Array, ...]]]


def _rodrigues(w: Array, x: Array) -> Array:
    angle = np.sqrt(w @ w)
    axis = w / angle
    turned: Array = np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * (axis @ x) * axis
    return turned


def _matrix(w: Array) -> Array:
    angle = np.sqrt(w @ w)
    x, y, z = w / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    matrix: Array = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)
    return matrix


def _quaternion(w: Array, x: Array) -> Array:
    angle = np.sqrt(w @ w)
    u = np.sin(angle / 2.0) / angle * w
    turn = 2.0 * np.cross(u, x)
    turned: Array = x + np.cos(angle / 2.0) * turn + np.cross(u, turn)
    return turned


def _by_case(w: Array, x: Array) -> Array:
    return _rodrigues(w, x) if w @ w > 1e-16 else x + np.cross(w, x)


def _quaternion_matrix(q: Array) -> Array:
    a, x, y, z = q / np.sqrt(q @ q)
    matrix: Array = np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - a * z), 2.0 * (x * z + a * y)],
            [2.0 * (x * y + a * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - a * x)],
            [2.0 * (x * z - a * y), 2.0 * (y * z + a * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
    return matrix


#: Ways to turn a vector by another one, and by a quaternion of any length.
WAYS: dict[str, Callable[[Array, Array], Array]] = {
    "Rodrigues' formula": _rodrigues,
    "Rodrigues' formula, with a case": _by_case,
    "matrix": lambda w, x: _matrix(w) @ x,
    "transposed matrix": lambda w, x: _matrix(w).T @ x,
    "quaternion": _quaternion,
    "Rotation of SciPy": lambda w, x: Rotation.from_rotvec(w).apply(x),
}
OF_QUATERNIONS: dict[str, Callable[[Array, Array], Array]] = {
    "matrix of a quaternion": lambda q, x: _quaternion_matrix(q) @ x,
    "Rotation of a quaternion": lambda q, x: Rotation.from_quat(q).apply(x),
}


def of_rotations() -> Cases:
    """Functions of rotation vectors and quaternions, with arguments."""
    w, q = np.array([0.3, -0.2, 0.5]), np.array([0.9, -0.3, 0.4, 0.2])
    x, t = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.2, 0.3])

    def camera(turned: Callable[[Array, Array], Array]) -> Callable[..., Any]:
        def image(w: Array, x: Array, t: Array) -> Array:
            seen = turned(w, x) + t
            pixels: Array = seen[:2] / seen[2]
            return pixels

        return image

    def chain(w: Array, v: Array, x: Array, t: Array) -> Array:
        return _rodrigues(w, _rodrigues(v, x) + t)

    cameras = {f"camera: {name}": (camera(turned), (w, x, t)) for name, turned in WAYS.items()}
    cameras |= {f"camera: {name}": (camera(turned), (q, x, t)) for name, turned in OF_QUATERNIONS.items()}
    return {**cameras, "two links: Rodrigues' formula": (chain, (w, t, x, t))}


def _mass_matrix(angles: Array) -> Array:
    link = np.arange(len(angles))
    hanging = len(angles) - np.maximum(link[:, None], link)
    matrix: Array = hanging * np.cos(angles[:, None] - angles)
    return matrix


def _chain_of_pendulums(angles: Array, forces: Array) -> Array:
    acceleration: Array = np.linalg.solve(_mass_matrix(angles), forces)
    return acceleration


def _least_squares(slopes: Array, values: Array) -> Array:
    fitted: Array = np.linalg.solve(slopes.T @ slopes, slopes.T @ values)
    return fitted


def _likelihood(logarithms: Array, times: Array, values: Array) -> Any:
    """Negative logarithm of the likelihood of a Gaussian process: by logarithms of size, rate and noise."""
    size, rate, noise = np.exp(logarithms)
    covariance = size * np.exp(-rate * (times[:, None] - times) ** 2) + noise * np.eye(len(times))
    return 0.5 * (values @ np.linalg.solve(covariance, values) + np.linalg.slogdet(covariance)[1])


def _update(state: Array, spread: Array, measured: Array) -> tuple[Array, Array]:
    """Step of a Kalman filter whose covariance is given by a factor: all entries are measured."""
    before = spread @ spread.T
    gain = before @ np.linalg.inv(before + 0.1 * np.eye(len(state)))
    return state + gain @ (measured - state), before - gain @ before


def of_systems() -> Cases:
    """Functions of positive definite matrices, with arguments."""
    draw = np.random.default_rng(0)
    cases: Cases = {}
    for n in (4, 6):
        cases[f"accelerations of {n} pendulums"] = _chain_of_pendulums, tuple(draw.normal(size=(2, n)))
    cases["least squares, 6 × 4"] = _least_squares, (draw.normal(size=(6, 4)), draw.normal(size=6))
    cases["Kalman update of 4 states"] = _update, (*draw.normal(size=(1, 4)), draw.normal(size=(4, 4)), np.ones(4))
    for n in (5, 10):
        times = np.linspace(0.0, 3.0, n)
        cases[f"likelihood of {n} values"] = _likelihood, (np.array([0.0, 0.5, -2.0]), times, np.sin(times))
    return cases


def _table(name: str, title: str, cases: Cases, place: Any, source: str, instead: Callable[..., Any]) -> Table:
    """Return a row for each function, with a source of theorems, an attribute of `place`, and without it."""
    rows = []
    for function, (f, arguments) in cases.items():
        cells: dict[str, object] = {"function": function}
        for effort, options in (("default", {}), ("thorough", {"effort": "thorough", "time_limit": 6.0})):
            for without, search in (("", getattr(place, source)), (" without", instead)):
                with patch.object(place, source, search):
                    derivative = acc.value_and_jacobian(f, tuple(range(len(arguments))), cache=False, **options)
                    program = derivative.compile(*arguments)
                cells[f"{effort}{without}"] = library.tally(program.tape).operations
        rows.append(Row(cells))
    return Table(name, title, rows)


def rotations(settings: Settings) -> Table:
    """A row for each function of a rotation."""
    del settings
    title = "Operations of value and Jacobian by rotations, points and shifts"
    return _table("rotations", title, of_rotations(), graphs, "with_rotations", lambda *_: [])


def systems(settings: Settings) -> Table:
    """A row for each function of positive definite matrices."""
    del settings
    title = "Operations of value and Jacobian of functions of positive definite matrices"
    return _table("systems", title, of_systems(), linear_systems, "is_semidefinite", lambda *_: False)
