"""Van Leer's split flux for subsonic flow in a plane: 8 inputs, 4 outputs.

The input holds density, two velocities and the pressure left of a face, then the same right of it. Mass, momentum and
energy that move to the right come from the left, those that move to the left from the right.

Source: B. van Leer, Flux-vector splitting for the Euler equations, ICASE report 82-30, 1982, its equations for |M| < 1.
"""

import numpy as np

GAMMA = 1.4


def split_flux(primitive, side):
    """Return the flux of one cell through the face; side is +1 for the left cell and -1 for the right one."""
    density, u, v, pressure = primitive
    sound = np.sqrt(GAMMA * pressure / density)
    mass = side * 0.25 * density * sound * (u / sound + side) ** 2
    normal = ((GAMMA - 1.0) * u + side * 2.0 * sound) / GAMMA
    along = (GAMMA * normal) ** 2 / (2.0 * (GAMMA**2 - 1.0))
    return np.array([mass, mass * normal, mass * v, mass * (along + 0.5 * v**2)])


def van_leer_flux(primitives):
    """Flux of mass, momentum (2) and energy through the face."""
    return split_flux(primitives[:4], 1.0) + split_flux(primitives[4:], -1.0)


def example_point():
    """A weak pressure wave in a subsonic stream."""
    return np.array([1.0, 0.4, 0.1, 1.1, 0.9, 0.3, -0.2, 0.9])


def sample(points, seed=0):
    """Random pairs of subsonic states: array (points, 8)."""
    random = np.random.default_rng(seed)
    density, pressure = random.uniform(0.5, 1.5, (points, 2, 1)), random.uniform(0.7, 2.0, (points, 2, 1))
    return np.concatenate([density, random.uniform(-0.6, 0.6, (points, 2, 2)), pressure], axis=2).reshape(points, 8)
