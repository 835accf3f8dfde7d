"""Rotation of a vector by a quaternion by hand: 7 inputs, 3 outputs, a full Jacobian.

The Jacobian by the vector is the matrix of the rotation, which turns the vector, too; by w it is t = 2 u × v. By u it
is 2 (u·v I + u vᵀ - 2 v uᵀ - w [v]): beside the diagonal, t_k + 2 w v_k with either sign, less a product that t has.

Source of the function: see `functions/quaternion_rotation.py`; of such derivatives: e.g. J. Solà, Quaternion
kinematics for the error-state Kalman filter, arXiv:1711.02508 (2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def value_and_jacobian(parameters: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """The turned vector (3), and the entries of its Jacobian; parameters = quaternion (4), vector (3)."""
    w, x, y, z, v1, v2, v3 = parameters
    w2, x2, y2, z2 = 2.0 * w, 2.0 * x, 2.0 * y, 2.0 * z

    wx, wy, wz = w * x2, w * y2, w * z2
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    r11, r12, r13 = 1.0 - yy - zz, xy - wz, xz + wy
    r21, r22, r23 = xy + wz, 1.0 - xx - zz, yz - wx
    r31, r32, r33 = xz - wy, yz + wx, 1.0 - xx - yy

    x_v1, x_v2, x_v3 = x2 * v1, x2 * v2, x2 * v3
    y_v1, y_v2, y_v3 = y2 * v1, y2 * v2, y2 * v3
    z_v1, z_v2, z_v3 = z2 * v1, z2 * v2, z2 * v3
    t1, t2, t3 = y_v3 - z_v2, z_v1 - x_v3, x_v2 - y_v1
    s1, s2, s3 = t1 + w2 * v1, t2 + w2 * v2, t3 + w2 * v3

    values = [
        r11 * v1 + r12 * v2 + r13 * v3,
        r21 * v1 + r22 * v2 + r23 * v3,
        r31 * v1 + r32 * v2 + r33 * v3,
    ]
    jacobian = {
        (0, 0): t1,
        (0, 1): y_v2 + z_v3,
        (0, 2): s3 - y_v1,
        (0, 3): -s2 - z_v1,
        (0, 4): r11,
        (0, 5): r12,
        (0, 6): r13,
        (1, 0): t2,
        (1, 1): -s3 - x_v2,
        (1, 2): x_v1 + z_v3,
        (1, 3): s1 - z_v2,
        (1, 4): r21,
        (1, 5): r22,
        (1, 6): r23,
        (2, 0): t3,
        (2, 1): s2 - x_v3,
        (2, 2): -s1 - y_v3,
        (2, 3): x_v1 + y_v2,
        (2, 4): r31,
        (2, 5): r32,
        (2, 6): r33,
    }
    return values, jacobian
