"""Pose of a six-joint arm from its Denavit-Hartenberg table: 6 joint angles in, position and rotation matrix (12) out.

Source: J. Denavit, R. S. Hartenberg, A kinematic notation for lower-pair mechanisms, J. Appl. Mech. 22 (1955); the
table is that which Universal Robots publish for the UR5. Lengths in m, angles in radians.
"""

import numpy as np

OFFSET = np.array([0.089159, 0.0, 0.0, 0.10915, 0.09465, 0.0823])
LENGTH = np.array([0.0, -0.425, -0.39225, 0.0, 0.0, 0.0])
# the twists are quarter turns: exact cosines and sines
COS_TWIST = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
SIN_TWIST = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 0.0])


def link(angle, d, a, ca, sa):
    """Homogeneous matrix from a joint to the next."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array(
        [
            [c, -s * ca, s * sa, a * c],
            [s, c * ca, -c * sa, a * s],
            [0.0, sa, ca, d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def dh_arm(angles):
    """Position of the tool (3), then its rotation matrix by rows (9)."""
    pose = np.eye(4)
    for k in range(6):
        pose = pose @ link(angles[k], OFFSET[k], LENGTH[k], COS_TWIST[k], SIN_TWIST[k])
    return np.concatenate([pose[:3, 3], pose[:3, :3].reshape(9)])


def example_point():
    """A pose in the middle of the workspace."""
    return np.array([0.3, -1.2, 1.4, -0.6, 0.9, 0.2])


def sample(points, seed=0):
    """Random poses: array (points, 6)."""
    return np.random.default_rng(seed).uniform(-2.5, 2.5, (points, 6))
