"""Pose of a six-joint arm by hand: 6 joint angles, position and rotation matrix (12), and the geometric Jacobian.

A joint turns all that comes behind it: the derivative of the position p is z × (p - p_joint), that of each column of
the rotation matrix is z × the column, z being the joint's axis. Axes 2, 3 and 4 are parallel, so the angles add up,
and their derivatives of the rotation matrix are the same. In the plane that these three move the arm in, it is
described by r along (cos q1, sin q1, 0), h upwards, and n along the axis (sin q1, -cos q1, 0): z × (r, h) is (-h,
r).

Source of the arm: see `suite/dh_arm.py`; of the Jacobian: e.g. B. Siciliano, L. Sciavicco, L. Villani, G. Oriolo,
Robotics: Modelling, Planning and Control, section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

D1, D4, D5, D6 = 0.089159, 0.10915, 0.09465, 0.0823
A2, A3 = -0.425, -0.39225


def value_and_jacobian(angles: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """Position (3) and rotation matrix by rows (9), and the entries of their Jacobian; angles: 6."""
    q1, q2, q3, q4, q5, q6 = angles
    q23 = q2 + q3
    q234 = q23 + q4
    c1, s1, c5, s5, c6, s6 = np.cos(q1), np.sin(q1), np.cos(q5), np.sin(q5), np.cos(q6), np.sin(q6)
    c234, s234 = np.cos(q234), np.sin(q234)
    minus_c1, minus_s1, minus_s5, minus_s6 = -c1, -s1, -s5, -s6

    # the columns x, y, z of the rotation matrix, and the fifth joint's x, whose opposite is the derivative of z
    x5_r, x5_h = c5 * c234, c5 * s234
    z_r, z_h = minus_s5 * c234, minus_s5 * s234
    x_r, x_n, x_h = c6 * x5_r - s6 * s234, c6 * s5, c6 * x5_h + s6 * c234
    y_r, y_n, y_h = minus_s6 * x5_r - c6 * s234, s6 * minus_s5, c6 * c234 - s6 * x5_h
    x_1, x_2 = x_r * c1 + x_n * s1, x_r * s1 - x_n * c1
    y_1, y_2 = y_r * c1 + y_n * s1, y_r * s1 - y_n * c1
    z_1, z_2 = z_r * c1 + c5 * s1, z_r * s1 - c5 * c1
    minus_x5_1, minus_x5_2, minus_x5_h = x5_r * minus_c1 + minus_s5 * s1, x5_r * minus_s1 + s5 * c1, -x5_h

    # the tool as seen from joints 4, 3 and 2
    r4, h4 = D5 * s234 + D6 * z_r, D6 * z_h - D5 * c234
    r3, h3 = r4 + A3 * np.cos(q23), h4 + A3 * np.sin(q23)
    r2, h2 = r3 + A2 * np.cos(q2), h3 + A2 * np.sin(q2)
    n = D4 + D6 * c5
    p_1, p_2 = r2 * c1 + n * s1, r2 * s1 - n * c1

    minus_x_1, minus_x_2, minus_x_h = -x_1, -x_2, -x_h
    x_14, x_24 = x_h * minus_c1, x_h * minus_s1
    y_14, y_24 = y_h * minus_c1, y_h * minus_s1
    z_14, z_24 = z_h * minus_c1, z_h * minus_s1

    values = [p_1, p_2, h2 + D1, x_1, y_1, z_1, x_2, y_2, z_2, x_h, y_h, z_h]
    jacobian = {
        (0, 0): -p_2,
        (0, 1): h2 * minus_c1,
        (0, 2): h3 * minus_c1,
        (0, 3): h4 * minus_c1,
        (0, 4): D6 * minus_x5_1,
        (1, 0): p_1,
        (1, 1): h2 * minus_s1,
        (1, 2): h3 * minus_s1,
        (1, 3): h4 * minus_s1,
        (1, 4): D6 * minus_x5_2,
        (2, 1): r2,
        (2, 2): r3,
        (2, 3): r4,
        (2, 4): D6 * minus_x5_h,
        (3, 0): minus_x_2,
        (3, 1): x_14,
        (3, 2): x_14,
        (3, 3): x_14,
        (3, 4): c6 * z_1,
        (3, 5): y_1,
        (4, 0): -y_2,
        (4, 1): y_14,
        (4, 2): y_14,
        (4, 3): y_14,
        (4, 4): minus_s6 * z_1,
        (4, 5): minus_x_1,
        (5, 0): -z_2,
        (5, 1): z_14,
        (5, 2): z_14,
        (5, 3): z_14,
        (5, 4): minus_x5_1,
        (6, 0): x_1,
        (6, 1): x_24,
        (6, 2): x_24,
        (6, 3): x_24,
        (6, 4): c6 * z_2,
        (6, 5): y_2,
        (7, 0): y_1,
        (7, 1): y_24,
        (7, 2): y_24,
        (7, 3): y_24,
        (7, 4): minus_s6 * z_2,
        (7, 5): minus_x_2,
        (8, 0): z_1,
        (8, 1): z_24,
        (8, 2): z_24,
        (8, 3): z_24,
        (8, 4): minus_x5_2,
        (9, 1): x_r,
        (9, 2): x_r,
        (9, 3): x_r,
        (9, 4): c6 * z_h,
        (9, 5): y_h,
        (10, 1): y_r,
        (10, 2): y_r,
        (10, 3): y_r,
        (10, 4): minus_s6 * z_h,
        (10, 5): minus_x_h,
        (11, 1): z_r,
        (11, 2): z_r,
        (11, 3): z_r,
        (11, 4): minus_x5_h,
    }
    return values, jacobian
