"""The human heart dipole problem: 8 polynomial equations in 8 unknowns, solved by Newton's method.

The unknowns are two dipoles (moments a, c and b, d; positions t, v and u, w) that explain a measured magnetic field.

Source: problem "human heart dipole" of B. M. Averick, R. G. Carter, J. J. Moré, G.-L. Xue, The MINPACK-2 test problem
collection, Argonne National Laboratory, 1992, section 2.5, with the data of its first experiment.
"""

import numpy as np

SUM_X, SUM_Y = 0.485, -0.0019
SUM_A, SUM_B, SUM_C, SUM_D, SUM_E, SUM_F = -0.0581, 0.015, 0.105, 0.0406, 0.167, -0.399


def human_heart_dipole(x):
    """Residuals of the eight equations."""
    a, b, c, d, t, u, v, w = x
    tv = t**2 - v**2
    uw = u**2 - w**2
    ttv = t * (t**2 - 3.0 * v**2)
    vvt = v * (v**2 - 3.0 * t**2)
    uuw = u * (u**2 - 3.0 * w**2)
    wwu = w * (w**2 - 3.0 * u**2)
    return np.array(
        [
            a + b - SUM_X,
            c + d - SUM_Y,
            t * a + u * b - v * c - w * d - SUM_A,
            v * a + w * b + t * c + u * d - SUM_B,
            a * tv - 2.0 * c * t * v + b * uw - 2.0 * d * u * w - SUM_C,
            c * tv + 2.0 * a * t * v + d * uw + 2.0 * b * u * w - SUM_D,
            a * ttv + c * vvt + b * uuw + d * wwu - SUM_E,
            c * ttv - a * vvt + d * uuw - b * wwu - SUM_F,
        ]
    )


def example_point():
    """The collection's standard starting point."""
    return np.array([0.299, 0.186, -0.0273, 0.0254, -0.474, 0.474, -0.0892, 0.0892])


def sample(points, seed=0):
    """Random points around the start: array (points, 8)."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 8))
