"""Residual of bundle adjustment: predicted minus observed image of a point; 12 inputs, 2 outputs.

The camera has a rotation vector, a translation, a focal length and two coefficients of radial distortion; the point
has three coordinates. A reconstruction from photographs differentiates this at millions of (camera, point) pairs.

Source: S. Agarwal, N. Snavely, S. M. Seitz, R. Szeliski, Bundle adjustment in the large, ECCV 2010 (camera model),
with Rodrigues' formula for the rotation. The rotation vector must not be zero.
"""

import numpy as np

OBSERVED = np.array([-332.65, 262.09])


def rotate(rotation, point):
    """Point turned about the rotation vector by its length, by Rodrigues' formula."""
    angle = np.sqrt(np.sum(rotation**2))
    axis = rotation / angle
    cosine, sine = np.cos(angle), np.sin(angle)
    return cosine * point + sine * np.cross(axis, point) + (1.0 - cosine) * np.dot(axis, point) * axis


def reprojection(parameters):
    """Residual in pixels; parameters = rotation (3), translation (3), focal length, k1, k2, point (3)."""
    rotation, translation = parameters[0:3], parameters[3:6]
    focal_length, k1, k2 = parameters[6], parameters[7], parameters[8]
    point = parameters[9:12]

    seen = rotate(rotation, point) + translation
    image = -seen[:2] / seen[2]
    radius2 = np.dot(image, image)
    distortion = 1.0 + radius2 * (k1 + k2 * radius2)
    return focal_length * distortion * image - OBSERVED


def example_point():
    """A point four metres in front of a slightly turned camera."""
    return np.array([0.02, -0.15, 0.1, 0.1, -0.2, 0.3, 500.0, -1e-2, 1e-3, 0.8, -0.6, -4.0])


def sample(points, seed=0):
    """Random cameras and points in front of them: array (points, 12)."""
    random = np.random.default_rng(seed)
    centre = np.array([0.1, -0.2, 0.15, 0.1, -0.2, 0.3, 500.0, -1e-2, 1e-3, 0.8, -0.6, -4.0])
    spread = np.array([0.08, 0.15, 0.1, 0.3, 0.3, 0.3, 100.0, 5e-3, 5e-4, 1.0, 1.0, 1.0])
    return centre + spread * random.uniform(-1.0, 1.0, (points, 12))
