"""Operations of value and Jacobian of functions of rotation vectors, with the left Jacobian of rotations and without.

The image of a point in a camera at w, t, whose rotation is written in several ways; and two links of a chain.
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
from groups import Settings
from tables import Row, Table

Array = NDArray[np.float64]


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


#: Ways to turn a vector.
WAYS: dict[str, Callable[[Array, Array], Array]] = {
    "Rodrigues' formula": _rodrigues,
    "Rodrigues' formula, with a case": _by_case,
    "matrix": lambda w, x: _matrix(w) @ x,
    "transposed matrix": lambda w, x: _matrix(w).T @ x,
    "quaternion": _quaternion,
    "Rotation of SciPy": lambda w, x: Rotation.from_rotvec(w).apply(x),
}


def cases() -> dict[str, tuple[Callable[..., Any], tuple[Array, ...]]]:
    """Functions by name, with arguments."""
    w, x, t = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.2, 0.3])

    def camera(turned: Callable[[Array, Array], Array]) -> Callable[..., Any]:
        def image(w: Array, x: Array, t: Array) -> Array:
            seen = turned(w, x) + t
            pixels: Array = seen[:2] / seen[2]
            return pixels

        return image

    def chain(w: Array, v: Array, x: Array, t: Array) -> Array:
        return _rodrigues(w, _rodrigues(v, x) + t)

    cameras = {f"camera: {name}": (camera(turned), (w, x, t)) for name, turned in WAYS.items()}
    return {**cameras, "two links: Rodrigues' formula": (chain, (w, t, x, t))}


def table(settings: Settings) -> Table:
    """A row for each function."""
    del settings
    rows = []
    for name, (f, arguments) in cases().items():
        cells: dict[str, object] = {"function": name}
        for effort, options in (("default", {}), ("thorough", {"effort": "thorough", "time_limit": 6.0})):
            argnums = tuple(range(len(arguments)))
            for instead in ("", " without"):
                with patch.object(graphs, "with_rotations", (lambda *_: []) if instead else graphs.with_rotations):
                    derivative = acc.value_and_jacobian(f, argnums, cache=False, **options)
                    program = derivative.compile(*arguments)
                cells[f"{effort}{instead}"] = library.tally(program.tape).operations
        rows.append(Row(cells))
    return Table("rotations", "Operations of value and Jacobian by rotation vectors, points and shifts", rows)
