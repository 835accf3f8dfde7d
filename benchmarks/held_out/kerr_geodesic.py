"""Motion around a rotating black hole: 7 inputs, the 6 rates of position and momentum out.

Inputs are radius, polar angle, their momenta, energy, angular momentum and the spin. Rays are traced by the thousands,
with sensitivities where images are fitted.

Source: J. M. Bardeen, W. H. Press, S. A. Teukolsky, Rotating black holes, Astrophysical Journal 178 (1972) 347-369,
equations (2.9), (2.10), with M = 1; rates of momenta by Hamilton's equations for light, on H = 0.
"""

import numpy as np


def kerr_geodesic(state):
    """Rates of t, r, theta, phi and their momenta p_r, p_theta.

    state = r, theta, p_r, p_theta, energy, momentum about the axis, spin.
    """
    r, theta, p_r, p_theta, energy, momentum, spin = state
    sine, cosine = np.sin(theta), np.cos(theta)
    square = r**2 + spin**2
    sigma, delta = r**2 + spin**2 * cosine**2, square - 2.0 * r
    along = square * energy - spin * momentum
    across = momentum / sine - spin * energy * sine

    time_rate = (square * along / delta + spin * sine * across) / sigma
    angle_rate = (spin * along / delta + across / sine) / sigma
    # Σ H = (Δ p_r² + p_θ² + across² - along²/Δ) / 2 is zero, so that the slope of Σ does not matter
    slope_r = (r - 1.0) * p_r**2 - 2.0 * r * energy * along / delta + (r - 1.0) * along**2 / delta**2
    slope_theta = -across * (momentum * cosine / sine**2 + spin * energy * cosine)
    return np.array(
        [time_rate, delta * p_r / sigma, p_theta / sigma, angle_rate, -slope_r / sigma, -slope_theta / sigma]
    )


def example_point():
    """Light that passes near the hole."""
    return np.array([6.0, 1.3, -0.4, 0.7, 1.0, 3.5, 0.8])


def sample(points, seed=0):
    """Random rays outside of the horizon: array (points, 7)."""
    low = np.array([3.0, 0.5, -1.0, -2.0, 0.8, -4.0, 0.1])
    high = np.array([12.0, 2.6, 1.0, 2.0, 1.2, 4.0, 0.95])
    return np.random.default_rng(seed).uniform(low, high, (points, 7))
