"""POLLU by hand: 20 species, 25 reactions; the entries of the Jacobian that are not zero by structure.

A reaction r = k·y_a·y_b takes three products for itself and both derivatives. The right-hand sides are sums of terms
linear in each variable, so whole groups of terms are products of a variable with an entry of the Jacobian that is
there already: y_3 ∂f_3/∂y_3 is what leaves species 3. Of derivatives that are needed with one sign only, that one is
computed.

Source of the model: see `examples/pollu.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

K = (
    *(0.35, 0.266e2, 0.123e5, 0.86e-3, 0.82e-3, 0.15e5, 0.13e-3, 0.24e5, 0.165e5, 0.9e4, 0.22e-1, 0.12e5, 0.188e1),
    *(0.163e5, 0.48e7, 0.35e-3, 0.175e-1, 0.1e9, 0.444e12, 0.124e4, 0.21e1, 0.578e1, 0.474e-1, 0.178e4, 0.312e1),
)


def value_and_jacobian(y: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """Rates of change (20), and the entries of their Jacobian; y: 20 concentrations."""
    y0, y1, y2, y3, y4, y5, y6, _, y8, y9, y10, _, y12, y13, _, y15, y16, _, y18, y19 = y

    # derivatives of the reactions with two partners: d_reaction_variable, with a minus where only that is needed
    minus_d1_1, minus_d1_3 = -K[1] * y3, -K[1] * y1
    d2_1, d2_4 = K[2] * y4, K[2] * y1
    minus_d5_6, d5_5 = -K[5] * y5, K[5] * y6
    d7_8, d7_5 = K[7] * y5, K[7] * y8
    d8_10, d8_1 = K[8] * y1, K[8] * y10
    d9_10, d9_0 = K[9] * y0, K[9] * y10
    d11_9, d11_1 = K[11] * y1, K[11] * y9
    d13_0, d13_5 = K[13] * y5, K[13] * y0
    d19_16, d19_5 = K[19] * y5, K[19] * y16
    minus_d22_0, d22_3 = -K[22] * y3, K[22] * y0
    d23_18, d23_0 = K[23] * y0, K[23] * y18

    minus_d2_1, minus_d2_4 = -d2_1, -d2_4
    minus_d5_5, minus_d7_8, minus_d7_5 = -d5_5, -d7_8, -d7_5
    minus_d8_10, minus_d8_1, minus_d9_0, minus_d11_9 = -d8_10, -d8_1, -d9_0, -d11_9
    minus_d13_0, minus_d13_5, minus_d19_16, minus_d19_5 = -d13_0, -d13_5, -d19_16, -d19_5

    j0_0 = minus_d9_0 - K[0] - d13_0 + minus_d22_0 - d23_0
    j1_1 = minus_d1_1 - d2_1 - d8_1 - d11_1
    j0_1 = -j1_1
    j3_3 = minus_d1_3 - (K[15] + K[16]) - d22_3
    j4_5 = d5_5 + d19_5
    j4_6 = 2.0 * K[3] - minus_d5_6
    j5_5 = minus_d13_5 - d7_5 - j4_5
    j6_6 = minus_d5_6 - (K[3] + K[4])
    j8_8 = minus_d7_8 - K[6]
    j18_18 = -(K[20] + K[21]) - d23_18

    r0, r2, r6, r7 = K[0] * y0, d2_4 * y4, K[6] * y8, d7_8 * y8
    r8, r9, r10, r11 = d8_10 * y10, d9_10 * y10, K[10] * y12, d11_9 * y9
    r12, r13, r14, r15 = K[12] * y13, d13_5 * y5, K[14] * y2, K[15] * y3
    r16, r18, r19 = K[16] * y3, K[18] * y15, d19_5 * y5
    r20, r21, r22, r23, r24 = K[20] * y18, K[21] * y18, d22_3 * y3, d23_18 * y18, K[24] * y19
    taken_by_1 = j0_1 * y1
    minus_from_6 = j6_6 * y6
    f12 = r9 - r10

    values = [
        taken_by_1 + j0_0 * y0 + r10 + r21 + r24,
        r0 + r20 - taken_by_1,
        r0 + r16 + r18 + r21 - r14,
        r14 + j3_3 * y3,
        j4_6 * y6 + r6 + r12 + r19 - r2,
        j5_5 * y5 + r2 + 2.0 * K[17] * y15,
        r12 + minus_from_6,
        r6 - minus_from_6,
        j8_8 * y8,
        r6 + r8 - r11,
        r7 - r8 - f12,
        r8,
        f12,
        r11 - r12,
        r13,
        r15 - (K[17] + K[18]) * y15,
        -r19,
        r19,
        j18_18 * y18 + r22 + r24,
        r23 - r24,
    ]
    jacobian = {
        (0, 0): j0_0,
        (0, 1): j0_1,
        (0, 3): -(minus_d1_3 + d22_3),
        (0, 4): d2_4,
        (0, 5): minus_d13_5,
        (0, 9): d11_9,
        (0, 10): d8_10 - d9_10,
        (0, 12): K[10],
        (0, 18): K[21] - d23_18,
        (0, 19): K[24],
        (1, 0): K[0],
        (1, 1): j1_1,
        (1, 3): minus_d1_3,
        (1, 4): minus_d2_4,
        (1, 9): minus_d11_9,
        (1, 10): minus_d8_10,
        (1, 18): K[20],
        (2, 0): K[0],
        (2, 2): -K[14],
        (2, 3): K[16],
        (2, 15): K[18],
        (2, 18): K[21],
        (3, 0): minus_d22_0,
        (3, 1): minus_d1_1,
        (3, 2): K[14],
        (3, 3): j3_3,
        (4, 1): minus_d2_1,
        (4, 4): minus_d2_4,
        (4, 5): j4_5,
        (4, 6): j4_6,
        (4, 8): K[6],
        (4, 13): K[12],
        (4, 16): d19_16,
        (5, 0): minus_d13_0,
        (5, 1): d2_1,
        (5, 4): d2_4,
        (5, 5): j5_5,
        (5, 6): minus_d5_6,
        (5, 8): minus_d7_8,
        (5, 15): 2.0 * K[17],
        (5, 16): minus_d19_16,
        (6, 5): minus_d5_5,
        (6, 6): j6_6,
        (6, 13): K[12],
        (7, 5): d5_5,
        (7, 6): -j6_6,
        (7, 8): K[6],
        (8, 5): minus_d7_5,
        (8, 8): j8_8,
        (9, 1): d8_1 - d11_1,
        (9, 8): K[6],
        (9, 9): minus_d11_9,
        (9, 10): d8_10,
        (10, 0): minus_d9_0,
        (10, 1): minus_d8_1,
        (10, 5): d7_5,
        (10, 8): d7_8,
        (10, 10): minus_d8_10 - d9_10,
        (10, 12): K[10],
        (11, 1): d8_1,
        (11, 10): d8_10,
        (12, 0): d9_0,
        (12, 10): d9_10,
        (12, 12): -K[10],
        (13, 1): d11_1,
        (13, 9): d11_9,
        (13, 13): -K[12],
        (14, 0): d13_0,
        (14, 5): d13_5,
        (15, 3): K[15],
        (15, 15): -(K[17] + K[18]),
        (16, 5): minus_d19_5,
        (16, 16): minus_d19_16,
        (17, 5): d19_5,
        (17, 16): d19_16,
        (18, 0): -(minus_d22_0 + d23_0),
        (18, 3): d22_3,
        (18, 18): j18_18,
        (18, 19): K[24],
        (19, 0): d23_0,
        (19, 18): d23_18,
        (19, 19): -K[24],
    }
    return values, jacobian
