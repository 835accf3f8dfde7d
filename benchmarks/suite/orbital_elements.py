"""Position and velocity from the six elements of an orbit around the Earth: 6 inputs, 6 outputs.

Covariances of orbits are carried from elements to coordinates by its Jacobian.

Source: D. A. Vallado, Fundamentals of Astrodynamics and Applications, algorithm COE2RV. Lengths in km, times in s,
angles in radians.
"""

import numpy as np

GM = 398600.4418


def orbital_elements(elements):
    """Position (3) and velocity (3); elements = semi-major axis, eccentricity, inclination, node, perigee, anomaly."""
    axis, eccentricity, inclination, node, perigee, anomaly = elements
    parameter = axis * (1.0 - eccentricity**2)
    cosine, sine = np.cos(anomaly), np.sin(anomaly)
    distance = parameter / (1.0 + eccentricity * cosine)
    speed = np.sqrt(GM / parameter)
    in_plane = np.array([distance * cosine, distance * sine])
    motion = np.array([-speed * sine, speed * (eccentricity + cosine)])

    cn, sn = np.cos(node), np.sin(node)
    cp, sp = np.cos(perigee), np.sin(perigee)
    ci, si = np.cos(inclination), np.sin(inclination)
    rotation = np.array(
        [
            [cn * cp - sn * sp * ci, -cn * sp - sn * cp * ci],
            [sn * cp + cn * sp * ci, -sn * sp + cn * cp * ci],
            [sp * si, cp * si],
        ]
    )
    return np.concatenate([rotation @ in_plane, rotation @ motion])


def example_point():
    """A transfer orbit."""
    return np.array([24400.0, 0.73, 0.12, 1.1, 3.0, 0.8])


def sample(points, seed=0):
    """Random orbits that are ellipses: array (points, 6)."""
    low, high = np.array([7000.0, 0.01, 0.1, 0.0, 0.0, -2.5]), np.array([42000.0, 0.8, 3.0, 6.2, 6.2, 2.5])
    return np.random.default_rng(seed).uniform(low, high, (points, 6))
