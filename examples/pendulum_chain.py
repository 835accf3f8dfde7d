"""A chain of pendulums swinging in a plane: angles and angular velocities in, their rates of change out.

Each link is a unit mass on a massless rod of unit length that hangs from the mass before it. The Lagrange equations
give M(θ) θ'' = b(θ, θ') with a dense mass matrix, which is solved at every evaluation; the chain has as many links as
the state has angles. An optimal-control or implicit solver differentiates all of it.

Source: the textbook multiple pendulum, e.g. Hairer, Nørsett, Wanner, Solving Ordinary Differential Equations I.
"""

import numpy as np

GRAVITY = 9.81
LINKS = 4


def pendulum_chain(state):
    """Rates of change of (angles from the vertical, angular velocities), in rad and s."""
    links = state.size // 2
    angle, velocity = state[:links], state[links:]
    link = np.arange(links)
    # number of masses that hang below both links
    carried = links - np.maximum(link[:, None], link[None, :])
    difference = angle[:, None] - angle[None, :]

    mass = carried * np.cos(difference)
    centrifugal = (carried * np.sin(difference)) @ velocity**2
    weight = GRAVITY * (links - link) * np.sin(angle)
    acceleration = np.linalg.solve(mass, -centrifugal - weight)
    return np.concatenate([velocity, acceleration])


def example_point():
    """A chain in swing."""
    return np.array([0.3, -0.5, 0.8, 1.1, 0.2, -0.7, 1.3, 0.4])


def sample(points, seed=0):
    """Random states: array (points, 2 * LINKS)."""
    random = np.random.default_rng(seed)
    return np.hstack([random.uniform(-1.5, 1.5, (points, LINKS)), random.uniform(-2.0, 2.0, (points, LINKS))])
