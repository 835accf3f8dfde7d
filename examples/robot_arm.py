"""Pose of the tool of a six-joint robot arm: 6 joint angles in, position and three orientation angles out.

The Jacobian turns joint velocities into tool velocities; a controller needs it some thousand times a second.

Source: forward kinematics of an industrial arm with a spherical wrist (https://dergipark.org.tr/en/download/
article-file/2289226), in the form that is a public benchmark of Jacobian accumulation (RobotArm_6DOF of the graphax
examples). The sign of c1*s4 in the tool offset along y is the benchmark's, so that operation counts compare.
Lengths in millimetres, angles in radians.
"""

import numpy as np

A1, A2, A3 = 175.0, 890.0, 50.0
D1, D4, D6 = 575.0, 1035.0, 185.0


def robot_arm(angles):
    """Position (px, py, pz) and orientation angles of the tool for six joint angles."""
    c1, c2, c3, c4, c5, c6 = np.cos(angles)
    s1, s2, s3, s4, s5, s6 = np.sin(angles)
    c23 = c2 * c3 - s2 * s3
    s23 = c2 * s3 + s2 * c3

    # the tool's axis of approach
    ax = s5 * (c1 * c23 * c4 + s1 * s4) + c1 * s23 * c5
    ay = s5 * (s1 * c23 * c4 - c1 * s4) + s1 * s23 * c5
    az = s23 * c4 * s5 - c23 * c5

    nz = c6 * (c23 * s5 + s23 * c4 * c5) - s23 * s4 * s6
    oz = -s6 * (c23 * s5 + s23 * c4 * c5) - s23 * s4 * c6

    reach = A1 + A2 * c2 + A3 * c23 + D4 * s23
    px = D6 * ax + c1 * reach
    py = D6 * (s5 * (s1 * c23 * c4 + c1 * s4) + s1 * s23 * c5) + s1 * reach
    pz = A2 * s2 + D1 + A3 * s23 - D4 * c23 + D6 * az

    yaw = np.arctan2(ay, ax)
    pitch = np.arctan2(np.sqrt(1.0 - az**2), az)
    roll = np.arctan2(oz, -nz)
    return np.array([px, py, pz, yaw, pitch, roll])


def example_point():
    """A pose away from the wrist's singularity."""
    return np.array([0.3, 0.7, -0.4, 0.5, 0.9, -0.2])


def sample(points, seed=0):
    """Random poses with a bent wrist: array (points, 6)."""
    random = np.random.default_rng(seed)
    angles = random.uniform(-1.2, 1.2, (points, 6))
    angles[:, 4] = random.uniform(0.3, 1.2, points)
    return angles
