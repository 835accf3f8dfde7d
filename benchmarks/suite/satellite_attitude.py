"""Attitude of a satellite with reaction wheels in a circular orbit: 9 states and 3 torques in, 9 rates out.

Attitude is given by modified Rodrigues parameters; three wheels turn about the body's axes; the gravity gradient pulls
at the satellite. Attitude filters and pointing controllers linearise this at every step.

Source: H. Schaub, J. L. Junkins, Analytical Mechanics of Space Systems, chapters 3 (modified Rodrigues parameters) and
4 (gyroscopes, gravity gradient); SI units.
"""

import numpy as np

INERTIA = np.array([[120.0, -3.5, 1.2], [-3.5, 95.0, 2.8], [1.2, 2.8, 140.0]])
INVERSE = np.linalg.inv(INERTIA)
WHEEL_INERTIA = 0.16
ORBITAL_RATE = 1.1e-3


def satellite_attitude(state):
    """Rates of attitude (3), angular velocity (3) and wheel speeds (3); state = those, then wheel torques (3)."""
    attitude, spin, wheels, torque = state[0:3], state[3:6], state[6:9], state[9:12]

    size = np.dot(attitude, attitude)
    attitude_rate = 0.25 * (
        (1.0 - size) * spin + 2.0 * np.cross(attitude, spin) + 2.0 * np.dot(attitude, spin) * attitude
    )

    # direction to the Earth's centre in the body's frame: third column of the rotation matrix
    s1, s2, s3 = attitude
    down = (
        np.array(
            [
                8.0 * s1 * s3 - 4.0 * s2 * (1.0 - size),
                8.0 * s2 * s3 + 4.0 * s1 * (1.0 - size),
                4.0 * (s3**2 - s1**2 - s2**2) + (1.0 - size) ** 2,
            ]
        )
        / (1.0 + size) ** 2
    )
    gravity = 3.0 * ORBITAL_RATE**2 * np.cross(down, INERTIA @ down)

    momentum = INERTIA @ spin + WHEEL_INERTIA * (spin + wheels)
    spin_rate = INVERSE @ (gravity - torque - np.cross(spin, momentum))
    return np.concatenate([attitude_rate, spin_rate, torque / WHEEL_INERTIA - spin_rate])


def example_point():
    """A slow slew with turning wheels."""
    return np.array([0.1, -0.2, 0.15, 0.01, -0.02, 0.015, 50.0, -80.0, 120.0, 0.05, -0.02, 0.01])


def sample(points, seed=0):
    """Random attitudes, spins, wheel speeds and torques: array (points, 12)."""
    scale = np.repeat([0.5, 0.05, 200.0, 0.1], 3)
    return scale * np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 12))
