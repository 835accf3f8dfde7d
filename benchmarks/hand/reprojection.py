"""Bundle adjustment's residual by hand: 12 inputs, 2 outputs, a full Jacobian.

With θ the length of the rotation vector w, s = sin θ / θ and c = (1 - cos θ) / θ², the rotation matrix is
R = cos θ I + c w wᵀ + s [w]. Both rows of the Jacobian by the point are g R, where g is the row by the point as the
camera sees it, which is the row by the translation, too. A turned point R x moves with w as -[R x] L, L being the left
Jacobian of rotations, L = s I + (1 - s)/θ² w wᵀ + c [w]; so the row by w is (R x × g) L. The image p = -(X, Y) / Z
enters as [I | p] / -Z, and the distortion as a symmetric matrix that has p as an eigenvector.

Source of the model: see `examples/reprojection.py`; of the left Jacobian: e.g. J. Solà, J. Deray, D. Atchuthan, A micro
Lie theory for state estimation in robotics, 2018, equation (145).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

OBSERVED = (-332.65, 262.09)


def value_and_jacobian(parameters: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """Residual (2), and the entries of its Jacobian; parameters as those of the example."""
    w1, w2, w3, t1, t2, t3, focal, k1, k2, x1, x2, x3 = parameters

    w11, w22, w33 = w1 * w1, w2 * w2, w3 * w3
    square = w11 + w22 + w33
    angle = np.sqrt(square)
    cosine = np.cos(angle)
    versine = 1.0 - cosine
    s = np.sin(angle) / angle
    c = versine / square

    # c w wᵀ, c w and s w make the rotation matrix; in the left Jacobian the first is multiplied by a number
    cw1, cw2, cw3 = c * w1, c * w2, c * w3
    sw1, sw2, sw3 = s * w1, s * w2, s * w3
    p11, p22, p33 = c * w11, c * w22, c * w33
    p12, p13, p23 = cw1 * w2, cw1 * w3, cw2 * w3
    r11, r12, r13 = cosine + p11, p12 - sw3, p13 + sw2
    r21, r22, r23 = p12 + sw3, cosine + p22, p23 - sw1
    r31, r32, r33 = p13 - sw2, p23 + sw1, cosine + p33
    factor = (1.0 - s) / versine
    q12, q13, q23 = factor * p12, factor * p13, factor * p23
    l11, l12, l13 = s + factor * p11, q12 - cw3, q13 + cw2
    l21, l22, l23 = q12 + cw3, s + factor * p22, q23 - cw1
    l31, l32, l33 = q13 - cw2, q23 + cw1, s + factor * p33

    turned1 = r11 * x1 + r12 * x2 + r13 * x3
    turned2 = r21 * x1 + r22 * x2 + r23 * x3
    turned3 = r31 * x1 + r32 * x2 + r33 * x3
    inverse = -1.0 / (turned3 + t3)
    px, py = (turned1 + t1) * inverse, (turned2 + t2) * inverse

    pxx, pyy = px * px, py * py
    radius2 = pxx + pyy
    k2_radius2 = k2 * radius2
    inner = k1 + k2_radius2
    distortion = 1.0 + radius2 * inner
    by_focal_x, by_focal_y = distortion * px, distortion * py
    focal_radius2 = focal * radius2
    by_k1_x, by_k1_y = focal_radius2 * px, focal_radius2 * py

    # the rows by the translation: (gxx, gxy, gxz), (gxy, gyy, gyz)
    scale = focal * inverse
    straight = scale * distortion
    slope = inner + k2_radius2
    bent = scale * (slope + slope)
    bent_x, bent_yy = bent * px, bent * pyy
    gxx, gxy, gyy = straight + bent_x * px, bent_x * py, straight + bent_yy
    along = gxx + bent_yy
    gxz, gyz = along * px, along * py

    # R x × g
    zx1 = turned2 * gxz - turned3 * gxy
    zx2 = turned3 * gxx - turned1 * gxz
    zx3 = turned1 * gxy - turned2 * gxx
    zy1 = turned2 * gyz - turned3 * gyy
    zy2 = turned3 * gxy - turned1 * gyz
    zy3 = turned1 * gyy - turned2 * gxy

    values = [focal * by_focal_x - OBSERVED[0], focal * by_focal_y - OBSERVED[1]]
    jacobian = {
        (0, 0): zx1 * l11 + zx2 * l21 + zx3 * l31,
        (0, 1): zx1 * l12 + zx2 * l22 + zx3 * l32,
        (0, 2): zx1 * l13 + zx2 * l23 + zx3 * l33,
        (0, 3): gxx,
        (0, 4): gxy,
        (0, 5): gxz,
        (0, 6): by_focal_x,
        (0, 7): by_k1_x,
        (0, 8): radius2 * by_k1_x,
        (0, 9): gxx * r11 + gxy * r21 + gxz * r31,
        (0, 10): gxx * r12 + gxy * r22 + gxz * r32,
        (0, 11): gxx * r13 + gxy * r23 + gxz * r33,
        (1, 0): zy1 * l11 + zy2 * l21 + zy3 * l31,
        (1, 1): zy1 * l12 + zy2 * l22 + zy3 * l32,
        (1, 2): zy1 * l13 + zy2 * l23 + zy3 * l33,
        (1, 3): gxy,
        (1, 4): gyy,
        (1, 5): gyz,
        (1, 6): by_focal_y,
        (1, 7): by_k1_y,
        (1, 8): radius2 * by_k1_y,
        (1, 9): gxy * r11 + gyy * r21 + gyz * r31,
        (1, 10): gxy * r12 + gyy * r22 + gyz * r32,
        (1, 11): gxy * r13 + gyy * r23 + gyz * r33,
    }
    return values, jacobian
