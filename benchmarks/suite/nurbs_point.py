"""A point on a rational cubic spline by de Boor's algorithm: 17 inputs, 3 outputs.

Inputs are the parameter in its span of the knots, the four control points that matter there, and their weights.
Fitting a curve to measured points differentiates by all of them.

Source: L. Piegl, W. Tiller, The NURBS Book, chapters 2 to 4 (homogeneous coordinates); C. de Boor, On calculating with
B-splines, J. Approx. Theory 6 (1972).
"""

import numpy as np

DEGREE = 3
#: around the span [2, 3.5]
KNOTS = np.array([0.0, 1.0, 2.0, 3.5, 4.0, 5.5])


def nurbs_point(parameters):
    """Point of the curve; parameters = t, four control points (x, y, z), four weights."""
    t, points, weights = parameters[0], parameters[1:13].reshape(4, 3), parameters[13:17]
    homogeneous = [np.concatenate([weights[i] * points[i], weights[i : i + 1]]) for i in range(DEGREE + 1)]
    for level in range(1, DEGREE + 1):
        for i in range(DEGREE, level - 1, -1):
            low, high = KNOTS[i - 1], KNOTS[i + DEGREE - level]
            share = (t - low) / (high - low)
            homogeneous[i] = (1.0 - share) * homogeneous[i - 1] + share * homogeneous[i]
    end = homogeneous[DEGREE]
    return end[:3] / end[3]


def example_point():
    """A gentle bend with unequal weights."""
    points = [0.0, 0.0, 0.1, 1.0, 0.8, 0.3, 2.1, 1.0, -0.2, 3.0, 0.1, 0.4]
    return np.array([2.7, *points, 1.0, 1.5, 0.8, 1.2])


def sample(points, seed=0):
    """Random control points, positive weights and parameters in the span: array (points, 17)."""
    random = np.random.default_rng(seed)
    t, weights = random.uniform(2.0, 3.5, (points, 1)), random.uniform(0.5, 2.0, (points, 4))
    return np.hstack([t, random.uniform(-2.0, 2.0, (points, 12)), weights])
