"""A car as a single track with tyres that slip: 6 states and 2 controls in, the rates of the 6 states out.

Racing-line optimisation and lane-keeping controllers linearise this along the whole horizon.

Source: R. Rajamani, Vehicle Dynamics and Control, chapter 2 (the single-track model), with the lateral tyre force of
H. B. Pacejka, Tyre and Vehicle Dynamics (the magic formula) and load transfer by the acceleration left out; SI units.
"""

import numpy as np

MASS, YAW_INERTIA, FRONT, REAR, GRAVITY = 1500.0, 2600.0, 1.2, 1.4, 9.81
STIFFNESS, SHAPE, FRICTION, CURVATURE = 11.0, 1.4, 0.95, -0.3
DRAG, ROLLING = 0.42, 180.0


def lateral_force(slip, load):
    """Force across a tyre by its slip angle, by the magic formula."""
    stretched = STIFFNESS * slip
    return FRICTION * load * np.sin(SHAPE * np.arctan(stretched - CURVATURE * (stretched - np.arctan(stretched))))


def vehicle(state):
    """Rates of position (2), heading, speeds along and across, yaw rate; state = those, then steering, drive force."""
    heading, along, across, yaw_rate, steering, drive = state[2:8]

    slip_front = steering - np.arctan2(across + FRONT * yaw_rate, along)
    slip_rear = -np.arctan2(across - REAR * yaw_rate, along)
    wheelbase = FRONT + REAR
    force_front = lateral_force(slip_front, MASS * GRAVITY * REAR / wheelbase)
    force_rear = lateral_force(slip_rear, MASS * GRAVITY * FRONT / wheelbase)

    return np.array(
        [
            along * np.cos(heading) - across * np.sin(heading),
            along * np.sin(heading) + across * np.cos(heading),
            yaw_rate,
            (drive - ROLLING - DRAG * along**2 - force_front * np.sin(steering)) / MASS + across * yaw_rate,
            (force_rear + force_front * np.cos(steering)) / MASS - along * yaw_rate,
            (FRONT * force_front * np.cos(steering) - REAR * force_rear) / YAW_INERTIA,
        ]
    )


def example_point():
    """A fast bend."""
    return np.array([10.0, 5.0, 0.4, 20.0, -0.5, 0.3, 0.04, 1200.0])


def sample(points, seed=0):
    """Random states at 8 to 35 m/s: array (points, 8)."""
    centre = np.array([0.0, 0.0, 0.0, 21.5, 0.0, 0.0, 0.0, 0.0])
    spread = np.array([100.0, 100.0, 3.0, 13.5, 2.0, 0.8, 0.2, 4000.0])
    return centre + spread * np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 8))
