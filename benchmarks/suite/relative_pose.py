"""Error of a measured step between two poses in space: 14 inputs, 6 outputs.

Each pose is a position and a unit quaternion. The measurement says where the second is as seen from the first.
Simultaneous localisation and mapping minimises thousands of these errors over a graph of poses.

Source: G. Grisetti, R. Kümmerle, C. Stachniss, W. Burgard, A tutorial on graph-based SLAM, IEEE Intelligent
Transportation Systems Magazine 2 (2010), with quaternions as poses in space have them; the error of the rotation is
twice the vector part of the quaternion that is left over.
"""

import numpy as np

MEASURED_STEP = np.array([0.9, 0.2, -0.1])
MEASURED_TURN = np.array([0.98, 0.02, -0.06, 0.188])


def conjugate(q):
    """The inverse of a unit quaternion (scalar first)."""
    return np.array([q[0], -q[1], -q[2], -q[3]])


def product(p, q):
    """Product of two quaternions."""
    return np.array(
        [
            p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
            p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
            p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
            p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
        ]
    )


def turned(q, vector):
    """Vector turned by a unit quaternion: v + 2 (w u × v + u × (u × v))."""
    w, u = q[0], q[1:]
    across = 2.0 * np.cross(u, vector)
    return vector + w * across + np.cross(u, across)


def relative_pose(poses):
    """Error in position (3, in the first pose's frame) and rotation (3); poses = 2 × (position, quaternion)."""
    position_1, turn_1 = poses[0:3], poses[3:7]
    position_2, turn_2 = poses[7:10], poses[10:14]
    back = conjugate(turn_1)
    step = turned(back, position_2 - position_1)
    turn = product(conjugate(MEASURED_TURN), product(back, turn_2))
    return np.concatenate([step - MEASURED_STEP, 2.0 * turn[1:]])


def example_point():
    """Two poses that agree with the measurement to a few per cent."""
    return np.array([1.0, 2.0, 0.5, 0.9, 0.1, 0.2, 0.374, 1.7, 2.7, 0.3, 0.80, 0.11, 0.15, 0.57])


def sample(points, seed=0):
    """Random pairs of poses with unit quaternions: array (points, 14)."""
    random = np.random.default_rng(seed)
    turns = random.normal(size=(points, 2, 4))
    turns /= np.linalg.norm(turns, axis=2, keepdims=True)
    poses = np.concatenate([random.uniform(-5.0, 5.0, (points, 2, 3)), turns], axis=2)
    return poses.reshape(points, 14)
