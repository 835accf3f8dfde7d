"""Four stars that attract each other: 12 coordinates in, 12 accelerations out.

Implicit and symplectic integrators, and the variational equations of chaos indicators, need its Jacobian.

Source: Newton's law of gravitation as any textbook has it, in units with G = 1.
"""

import numpy as np

MASSES = np.array([1.0, 0.7, 1.3, 0.4])


def four_body(coordinates):
    """Accelerations of the bodies, one after the other, at their positions."""
    position = coordinates.reshape(4, 3)
    acceleration = [0.0, 0.0, 0.0, 0.0]
    for i in range(4):
        for j in range(i + 1, 4):
            separation = position[j] - position[i]
            pull = separation / np.dot(separation, separation) ** 1.5
            acceleration[i] = acceleration[i] + MASSES[j] * pull
            acceleration[j] = acceleration[j] - MASSES[i] * pull
    return np.concatenate(acceleration)


def example_point():
    """Four bodies well apart."""
    return np.array([1.0, 0.1, 0.0, -0.9, 0.2, 0.3, 0.1, 1.2, -0.4, 0.2, -1.1, 0.6])


def sample(points, seed=0):
    """Random positions around those of the example point: array (points, 12)."""
    return example_point() + np.random.default_rng(seed).uniform(-0.3, 0.3, (points, 12))
