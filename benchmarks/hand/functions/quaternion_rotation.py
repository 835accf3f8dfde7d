"""A vector turned by a quaternion: 7 inputs (quaternion w, x, y, z, then the vector), 3 outputs.

The quaternion is taken as one of unit length, as estimators do between two normalisations.

Source: v + 2 w (u × v) + 2 u × (u × v) for q = (w, u); e.g. J. Solà, Quaternion kinematics for the error-state Kalman
filter, arXiv:1711.02508 (2017).
"""

import numpy as np


def quaternion_rotation(parameters):
    """The turned vector (3); parameters = quaternion (4), vector (3)."""
    w, u, v = parameters[0], parameters[1:4], parameters[4:]
    twice = 2.0 * np.cross(u, v)
    return v + w * twice + np.cross(u, twice)


def example_point():
    """A turn of about 80 degrees."""
    return np.array([0.77, 0.32, -0.41, 0.37, 1.2, -0.7, 0.4])


def sample(points, seed=0):
    """Random turns of random vectors: array (points, 7)."""
    parameters = np.random.default_rng(seed).normal(size=(points, 7))
    parameters[:, :4] /= np.linalg.norm(parameters[:, :4], axis=1, keepdims=True)
    return parameters
