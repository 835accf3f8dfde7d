"""Latitude, longitude and height of a point in Cartesian coordinates of the Earth: 3 inputs, 3 outputs.

Navigation filters linearise it in every update.

Source: B. R. Bowring, Transformation from spatial to geographical coordinates, Survey Review 23 (1976), one step, which
is exact to far below a millimetre near the Earth; the ellipsoid of WGS 84. Lengths in m, angles in radians.
"""

import numpy as np

A, F = 6378137.0, 1.0 / 298.257223563
B = A * (1.0 - F)
E2 = F * (2.0 - F)
SECOND_E2 = E2 / (1.0 - E2)


def geodetic(position):
    """Latitude, longitude and height above the ellipsoid."""
    x, y, z = position
    p = np.sqrt(x**2 + y**2)
    reduced = np.arctan2(z * A, p * B)
    latitude = np.arctan2(z + SECOND_E2 * B * np.sin(reduced) ** 3, p - E2 * A * np.cos(reduced) ** 3)
    normal = A / np.sqrt(1.0 - E2 * np.sin(latitude) ** 2)
    return np.array([latitude, np.arctan2(y, x), p / np.cos(latitude) - normal])


def example_point():
    """Somewhere in Europe."""
    return np.array([4.0e6, 8.0e5, 4.9e6])


def sample(points, seed=0):
    """Random places up to 20 km high and away from the poles: array (points, 3)."""
    random = np.random.default_rng(seed)
    latitude, longitude = random.uniform(-1.2, 1.2, points), random.uniform(-3.0, 3.0, points)
    height = random.uniform(0.0, 2e4, points)
    normal = A / np.sqrt(1.0 - E2 * np.sin(latitude) ** 2)
    across = (normal + height) * np.cos(latitude)
    along = (normal * (1.0 - E2) + height) * np.sin(latitude)
    return np.stack([across * np.cos(longitude), across * np.sin(longitude), along], axis=1)
