"""A calibrated camera with lens distortion: where a point in the world appears in the image; 19 inputs, 2 outputs.

The camera has an orientation (a quaternion of any length), a translation, two focal lengths, a principal point, three
coefficients of radial and two of tangential distortion. Camera calibration differentiates by all of them.

Source: D. C. Brown, Close-range camera calibration, Photogrammetric Engineering 37 (1971), in the form that OpenCV's
documentation of camera calibration gives; the rotation by a quaternion is the textbook's.
"""

import numpy as np


def rotation_matrix(quaternion):
    """Rotation matrix of a quaternion (scalar first) of any length but zero."""
    w, x, y, z = quaternion / np.sqrt(np.sum(quaternion**2))
    return np.array(
        [
            [1.0 - 2.0 * (y**2 + z**2), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x**2 + z**2), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x**2 + y**2)],
        ]
    )


def brown_camera(parameters):
    """Pixel of a point; parameters = quaternion, translation, fx, fy, cx, cy, k1, k2, k3, p1, p2, point."""
    translation, point = parameters[4:7], parameters[16:19]
    fx, fy, cx, cy, k1, k2, k3, p1, p2 = parameters[7:16]

    seen = rotation_matrix(parameters[:4]) @ point + translation
    x = seen[0] / seen[2]
    y = seen[1] / seen[2]
    r2 = x**2 + y**2
    radial = 1.0 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    distorted_x = x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x**2)
    distorted_y = y * radial + p1 * (r2 + 2.0 * y**2) + 2.0 * p2 * x * y
    return np.array([fx * distorted_x + cx, fy * distorted_y + cy])


def example_point():
    """A point four metres in front of a slightly turned camera with a wide lens."""
    pose = [0.98, 0.05, -0.1, 0.08, 0.1, -0.2, 0.3]
    lens = [800.0, 805.0, 640.0, 360.0, -0.28, 0.07, -0.01, 1e-3, -5e-4]
    return np.array(pose + lens + [0.8, -0.6, 4.0])


def sample(points, seed=0):
    """Random cameras and points in front of them: array (points, 19)."""
    spread = np.array([0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 100.0, 100.0, 20.0, 20.0])
    spread = np.concatenate([spread, [0.1, 0.03, 0.005, 5e-4, 5e-4, 1.0, 1.0, 1.0]])
    return example_point() + spread * np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 19))
