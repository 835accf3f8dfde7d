"""Rusanov's numerical flux for the Euler equations in space: 10 inputs, 5 outputs.

The input holds density, momentum (3) and energy left of a face with unit normal N, then the same right of it. The
dissipation is that of the fastest wave of the two.

Source: V. V. Rusanov, Calculation of interaction of non-steady shock waves with obstacles, 1961, also known as the
local Lax-Friedrichs flux; e.g. E. F. Toro, Riemann Solvers and Numerical Methods for Fluid Dynamics, section 10.5.
"""

import numpy as np

GAMMA = 1.4
N = np.array([0.48, 0.6, 0.64])


def normal_flux(state):
    """Flux through the face in one cell, and the speed of its fastest wave."""
    density, momentum, energy = state[0], state[1:4], state[4]
    velocity = momentum / density
    speed = np.dot(velocity, N)
    pressure = (GAMMA - 1.0) * (energy - 0.5 * np.dot(momentum, velocity))
    flux = np.concatenate(
        [np.array([density * speed]), momentum * speed + pressure * N, np.array([(energy + pressure) * speed])]
    )
    return flux, np.abs(speed) + np.sqrt(GAMMA * pressure / density)


def rusanov_flux(states):
    """Flux of mass, momentum and energy through the face."""
    left, right = states[:5], states[5:]
    flux_l, wave_l = normal_flux(left)
    flux_r, wave_r = normal_flux(right)
    return 0.5 * (flux_l + flux_r) - 0.5 * np.maximum(wave_l, wave_r) * (right - left)


def example_point():
    """A weak pressure wave in a subsonic stream."""
    return np.array([1.0, 0.5, 0.2, -0.1, 2.6, 0.8, 0.3, 0.25, 0.1, 2.0])


def sample(points, seed=0):
    """Random pairs of states with positive pressure: array (points, 10)."""
    random = np.random.default_rng(seed)
    density = random.uniform(0.5, 1.5, (points, 2, 1))
    velocity = random.uniform(-1.0, 1.0, (points, 2, 3))
    pressure = random.uniform(0.5, 2.0, (points, 2, 1))
    energy = pressure / (GAMMA - 1.0) + 0.5 * density * np.sum(velocity**2, axis=2, keepdims=True)
    return np.concatenate([density, density * velocity, energy], axis=2).reshape(points, 10)
