"""A small neural network as the right-hand side of a differential equation: 4 inputs, two layers of 6 units, 4 outputs.

Implicit integrators, sensitivities and controllers of learned models need its Jacobian by the state.

Source: R. T. Q. Chen, Y. Rubanova, J. Bettencourt, D. Duvenaud, Neural ordinary differential equations, NeurIPS 2018
(the idea); weights drawn at random by the rule of Glorot and Bengio, AISTATS 2010, stand for trained ones.
"""

from itertools import pairwise

import numpy as np

SIZES = (4, 6, 6, 4)
_random = np.random.default_rng(2018)
WEIGHTS = [_random.normal(0.0, np.sqrt(2.0 / (m + n)), (n, m)) for m, n in pairwise(SIZES)]
BIASES = [_random.normal(0.0, 0.1, n) for n in SIZES[1:]]


def neural_network(state):
    """Rates of change of the state."""
    hidden = np.tanh(WEIGHTS[0] @ state + BIASES[0])
    hidden = np.tanh(WEIGHTS[1] @ hidden + BIASES[1])
    return WEIGHTS[2] @ hidden + BIASES[2]


def example_point():
    """A state of the size that networks are trained on."""
    return np.array([0.5, -0.8, 1.1, 0.2])


def sample(points, seed=0):
    """Random states: array (points, 4)."""
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (points, 4))
