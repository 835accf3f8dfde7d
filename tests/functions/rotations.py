"""The table of `scipy.spatial.transform.Rotation`: rotations by nothing, by small angles and by half a turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation
from structured_cases import Structured, mp, mpf

Numbers = list[Any]


def _unit(q: Numbers) -> Numbers:
    length = mp.sqrt(sum(e * e for e in q))
    return [e / length for e in q]


def _sinc(x: Any) -> Any:
    """sin(x) / x, of complex or real numbers close to 0, too."""
    return mp.sin(x) / x if abs(x) > mpf(10) ** -40 else 1 - x * x / 6 + x**4 / 120 - x**6 / 5040


def _from_rotvec(v: Numbers) -> Numbers:
    square = sum(e * e for e in v)
    angle = mp.sqrt(square)
    return [*(e * _sinc(angle / 2) / 2 for e in v), mp.cos(angle / 2)]


def _as_rotvec(q: Numbers) -> Numbers:
    """By the sine, which is right for angles below half a turn; beyond, the quaternion is turned around."""
    q = [-e for e in q] if q[3] < 0 else list(q)
    length = mp.sqrt(sum(e * e for e in q[:3]))
    scale = mpf(2) if length < mpf(10) ** -60 else 2 * mp.atan2(length, q[3]) / length
    return [e * scale for e in q[:3]]


def _product(p: Numbers, q: Numbers) -> Numbers:
    a, b, c, d = p[3], *p[:3]
    e, f, g, h = q[3], *q[:3]
    return [
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
        a * e - b * f - c * g - d * h,
    ]


def _matrix(q: Numbers) -> Numbers:
    """Columns are the turned axes: q·e·q*."""
    back = [-q[0], -q[1], -q[2], q[3]]
    columns = [_product(_product(q, [mpf(int(i == k)) for i in range(3)] + [mpf(0)]), back)[:3] for k in range(3)]
    return [columns[j][i] for i in range(3) for j in range(3)]


def _about(axis: int, angle: Any) -> Numbers:
    q = [mpf(0)] * 3 + [mp.cos(angle / 2)]
    q[axis] = mp.sin(angle / 2)
    return q


def _euler_zyx(angles: Numbers) -> Numbers:
    """Of capital letters: about axes that turn, the first turn stands on the left."""
    z, y, x = angles
    return _product(_product(_about(2, z), _about(1, y)), _about(0, x))


def _euler_of(q: Numbers) -> Numbers:
    """The angles ZYX by the matrix."""
    m = _matrix(_unit(q))
    return [mp.atan2(m[3], m[0]), mp.asin(-m[6]), mp.atan2(m[7], m[8])]


def _from_matrix(m: Numbers) -> Numbers:
    """By the trace, for rotations by less than half a turn, of the nearest orthogonal matrix by Newton's iteration."""
    u = mp.matrix([m[0:3], m[3:6], m[6:9]])
    for _ in range(40):
        u = (u + mp.inverse(u).T) / 2
    w = mp.sqrt(1 + u[0, 0] + u[1, 1] + u[2, 2]) / 2
    return [(u[2, 1] - u[1, 2]) / (4 * w), (u[0, 2] - u[2, 0]) / (4 * w), (u[1, 0] - u[0, 1]) / (4 * w), w]


def _mrp(v: Numbers) -> Numbers:
    square = sum(e * e for e in v)
    return [*(2 * e / (1 + square) for e in v), (1 - square) / (1 + square)]


def _as_mrp(q: Numbers) -> Numbers:
    q = _unit(q)
    sign = -1 if q[3] < 0 else 1
    return [sign * e / (1 + sign * q[3]) for e in q[:3]]


PI = np.pi
VECTORS = [
    [0.0, 0.0, 0.0],
    [1e-9, -2e-9, 3e-9],
    [3e-4, 2e-4, -4e-4],
    [2e-3, 1e-3, -1e-3],
    [0.05, -0.02, 0.03],
    [0.4, -0.3, 0.5],
    [1.0, 2.0, -0.5],
    [PI, 0.0, 0.0],
    [1.1, 1.5, -0.6],
    [1.2, 1.5, -0.6],
    [3.0, 1.0, 0.0],
]
QUATERNIONS = [
    [0.0, 0.0, 0.0, 1.0],
    [1e-9, 2e-9, -1e-9, 1.0],
    [2e-4, 1e-4, -3e-4, 1.0],
    [1e-3, 2e-3, -1e-3, 1.0],
    [0.03, -0.02, 0.05, 0.9],
    [0.1, -0.5, 0.3, 0.8],
    [0.5, 0.3, -0.6, 1e-3],
    [0.1, 0.7, 0.2, -0.9],
]
#: The direction in which quaternions move; w does not change its sign.
ANGLES = [[0.3, -0.4, 0.8], [0.0, 0.0, 0.0], [1e-8, 1e-3, -1e-5], [2.0, 1.5, -3.0]]


def _of(method: str, *arguments: Any) -> Any:
    return lambda q: np.ravel(getattr(Rotation.from_quat(q), method)(*arguments))


CASES = [
    Structured(
        "from_rotvec", lambda v: Rotation.from_rotvec(v).as_quat(), _from_rotvec, VECTORS, allowances=[(None, 4, 64.0)]
    ),
    Structured(
        "from_rotvec matrix",
        lambda v: np.ravel(Rotation.from_rotvec(v).as_matrix()),
        lambda v: _matrix(_from_rotvec(v)),
        VECTORS,
        normwise=True,
        nested=False,
    ),
    Structured("from_quat", lambda q: Rotation.from_quat(q).as_quat(), _unit, QUATERNIONS, normwise=True),
    Structured(
        "as_quat",
        lambda q: Rotation.from_quat(q).as_quat(canonical=True, scalar_first=True),
        lambda q: [e * (-1 if q[3] < 0 else 1) for e in [_unit(q)[3], *_unit(q)[:3]]],
        QUATERNIONS,
        normwise=True,
    ),
    Structured("as_rotvec", _of("as_rotvec"), _as_rotvec, QUATERNIONS, nested=False),
    Structured("as_matrix", _of("as_matrix"), lambda q: _matrix(_unit(q)), QUATERNIONS, normwise=True, nested=False),
    Structured("as_mrp", _of("as_mrp"), _as_mrp, QUATERNIONS),
    Structured(
        "from_mrp", lambda v: Rotation.from_mrp(v).as_quat(), _mrp, [[0.0] * 3, [0.1, -0.2, 0.3], [1.0, 0.5, -2.0]]
    ),
    Structured("as_euler", _of("as_euler", "ZYX"), _euler_of, QUATERNIONS[4:6], normwise=True, nested=False),
    Structured("from_euler", lambda a: Rotation.from_euler("ZYX", a).as_quat(), _euler_zyx, ANGLES),
    Structured(
        "from_euler small",
        lambda a: Rotation.from_euler("xy", a).as_quat(),
        lambda a: _product(_about(1, a[1]), _about(0, a[0])),
        [[0.3, 0.7], [0.0, 0.0]],
    ),
    Structured(
        "from_matrix",
        lambda m: Rotation.from_matrix(m.reshape(3, 3)).as_quat(),
        _from_matrix,
        [np.eye(3), [[0.8, -0.6, 0.1], [0.6, 0.8, 0.0], [0.0, -0.1, 1.0]]],
        normwise=True,
        nested=False,
    ),
    Structured(
        "apply",
        lambda x: Rotation.from_rotvec(x[:3]).apply(x[3:]),
        lambda x: [
            sum(m * e for m, e in zip(_matrix(_from_rotvec(x[:3]))[3 * i : 3 * i + 3], x[3:], strict=True))
            for i in range(3)
        ],
        [[*v, 1.0, -2.0, 0.5] for v in VECTORS[:6]],
        normwise=True,
        nested=False,
    ),
    Structured(
        "__mul__",
        lambda x: (Rotation.from_rotvec(x[:3]) * Rotation.from_rotvec(x[3:])).as_quat(),
        lambda x: _unit(_product(_from_rotvec(x[:3]), _from_rotvec(x[3:]))),
        [[0.0] * 6, [0.3, -0.4, 0.1, 1.0, 0.2, -0.6]],
        normwise=True,
        nested=False,
    ),
    Structured(
        "__pow__",
        lambda x: (Rotation.from_rotvec(x) ** 0.5).as_quat(),
        lambda x: _from_rotvec([e / 2 for e in x]),
        [VECTORS[k] for k in (0, 2, 4, 5)],
        nested=False,
        allowances=[(None, 3, 64.0)],
    ),
    Structured(
        "inv",
        lambda q: Rotation.from_quat(q).inv().as_quat(),
        lambda q: [-e if k < 3 else e for k, e in enumerate(_unit(q))],
        QUATERNIONS[4:6],
    ),
    Structured(
        "magnitude",
        lambda q: np.reshape(Rotation.from_quat(q).magnitude(), 1),
        lambda q: [2 * mp.atan2(mp.sqrt(sum(e * e for e in q[:3])), abs(q[3]))],
        QUATERNIONS[1:],
        nested=False,
        allowances=[(0, 3, 1024.0)],
    ),
    Structured(
        "concatenate",
        lambda x: np.ravel(Rotation.concatenate([Rotation.from_rotvec(x), Rotation.from_rotvec(2.0 * x)]).as_quat()),
        lambda x: _from_rotvec(x) + _from_rotvec([2 * e for e in x]),
        [VECTORS[5], VECTORS[0]],
    ),
]
