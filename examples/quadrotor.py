"""Rigid-body dynamics of a quadrotor: 13 states and 4 rotor thrusts in, the rates of the 13 states out.

Position, velocity, attitude as a unit quaternion and angular velocity of a drone with air drag. Trajectory
optimisation and model-predictive control linearise it at every node of the horizon.

Source: the standard model, e.g. D. Mellinger, V. Kumar, Minimum snap trajectory generation and control for
quadrotors, ICRA 2011; SI units, z upwards.
"""

import numpy as np

MASS, GRAVITY, DRAG = 0.8, np.array([0.0, 0.0, -9.81]), 0.05
INERTIA = np.array([3.2e-3, 3.4e-3, 5.5e-3])
ARM, TORQUE_PER_THRUST = 0.17, 0.016


def rotation_matrix(quaternion):
    """Matrix that turns body coordinates into world coordinates."""
    w, x, y, z = quaternion
    return np.array(
        [
            [1.0 - 2.0 * (y**2 + z**2), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x**2 + z**2), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x**2 + y**2)],
        ]
    )


def quaternion_rate(quaternion, spin):
    """Rate of change of the attitude for an angular velocity in body coordinates."""
    w, vector = quaternion[0], quaternion[1:]
    return 0.5 * np.hstack([-np.dot(vector, spin), w * spin + np.cross(vector, spin)])


def quadrotor(state_and_thrusts):
    """Rates of change of position, velocity, attitude quaternion and angular velocity."""
    velocity = state_and_thrusts[3:6]
    quaternion = state_and_thrusts[6:10]
    spin = state_and_thrusts[10:13]
    thrust = state_and_thrusts[13:17]

    lift = rotation_matrix(quaternion) @ np.array([0.0, 0.0, np.sum(thrust)])
    drag = -DRAG * np.linalg.norm(velocity) * velocity
    acceleration = (lift + drag) / MASS + GRAVITY

    torque = np.array(
        [
            ARM * (thrust[1] - thrust[3]),
            ARM * (thrust[2] - thrust[0]),
            TORQUE_PER_THRUST * (thrust[0] - thrust[1] + thrust[2] - thrust[3]),
        ]
    )
    angular_acceleration = (torque - np.cross(spin, INERTIA * spin)) / INERTIA
    return np.concatenate([velocity, acceleration, quaternion_rate(quaternion, spin), angular_acceleration])


def example_point():
    """Forward flight in a slight bank."""
    position, velocity = [0.0, 1.0, 2.0], [3.0, -0.5, 0.2]
    quaternion, spin = [0.98, 0.1, 0.15, 0.08], [0.3, -0.2, 0.5]
    return np.array(position + velocity + quaternion + spin + [2.1, 1.9, 2.0, 1.8])


def sample(points, seed=0):
    """Random states in flight with unit quaternions: array (points, 17)."""
    random = np.random.default_rng(seed)
    quaternion = random.normal(size=(points, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return np.hstack(
        [
            random.uniform(-5.0, 5.0, (points, 6)),
            quaternion,
            random.uniform(-2.0, 2.0, (points, 3)),
            random.uniform(1.0, 3.0, (points, 4)),
        ]
    )
