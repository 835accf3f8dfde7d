"""Bundle adjustment's residual by hand, by the chain rule alone: 12 inputs, 2 outputs, a full Jacobian.

With θ the length of the rotation vector w, s = sin θ / θ and c = (1 - cos θ) / θ², Rodrigues' formula is

    R x = cos θ x + s w × x + c (w·x) w,    ∂/∂w (cos θ, s, c) = (-s, (cos θ - s) / θ², (s - 2 c) / θ²) wᵀ,

so ∂(R x)/∂w = V wᵀ - s [x] + c (w xᵀ + (w·x) I), where V collects what w moves through its length.

Source of the model: see `examples/reprojection.py`.
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

    # c w wᵀ and s w make the rotation matrix
    cw1, cw2, cw3 = c * w1, c * w2, c * w3
    sw1, sw2, sw3 = s * w1, s * w2, s * w3
    p11, p22, p33 = c * w11, c * w22, c * w33
    p12, p13, p23 = cw1 * w2, cw1 * w3, cw2 * w3
    r11, r12, r13 = cosine + p11, p12 - sw3, p13 + sw2
    r21, r22, r23 = p12 + sw3, cosine + p22, p23 - sw1
    r31, r32, r33 = p13 - sw2, p23 + sw1, cosine + p33
    # ∂(R x)/∂w
    across1, across2, across3 = w2 * x3 - w3 * x2, w3 * x1 - w1 * x3, w1 * x2 - w2 * x1
    inner_product = w1 * x1 + w2 * x2 + w3 * x3
    by_sine, by_versine = (cosine - s) / square, (s - (c + c)) / square * inner_product
    sx1, sx2, sx3 = s * x1, s * x2, s * x3
    v1 = by_sine * across1 + by_versine * w1 - sx1
    v2 = by_sine * across2 + by_versine * w2 - sx2
    v3 = by_sine * across3 + by_versine * w3 - sx3
    diagonal = c * inner_product
    m11, m12, m13 = v1 * w1 + cw1 * x1 + diagonal, v1 * w2 + cw1 * x2 + sx3, v1 * w3 + cw1 * x3 - sx2
    m21, m22, m23 = v2 * w1 + cw2 * x1 - sx3, v2 * w2 + cw2 * x2 + diagonal, v2 * w3 + cw2 * x3 + sx1
    m31, m32, m33 = v3 * w1 + cw3 * x1 + sx2, v3 * w2 + cw3 * x2 - sx1, v3 * w3 + cw3 * x3 + diagonal

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

    values = [focal * by_focal_x - OBSERVED[0], focal * by_focal_y - OBSERVED[1]]
    jacobian = {
        (0, 0): gxx * m11 + gxy * m21 + gxz * m31,
        (0, 1): gxx * m12 + gxy * m22 + gxz * m32,
        (0, 2): gxx * m13 + gxy * m23 + gxz * m33,
        (0, 3): gxx,
        (0, 4): gxy,
        (0, 5): gxz,
        (0, 6): by_focal_x,
        (0, 7): by_k1_x,
        (0, 8): radius2 * by_k1_x,
        (0, 9): gxx * r11 + gxy * r21 + gxz * r31,
        (0, 10): gxx * r12 + gxy * r22 + gxz * r32,
        (0, 11): gxx * r13 + gxy * r23 + gxz * r33,
        (1, 0): gxy * m11 + gyy * m21 + gyz * m31,
        (1, 1): gxy * m12 + gyy * m22 + gyz * m32,
        (1, 2): gxy * m13 + gyy * m23 + gyz * m33,
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
