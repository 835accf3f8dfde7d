"""Activity coefficients of a ternary mixture by the NRTL equation: 4 inputs, 3 outputs.

Inputs are three amounts of substance and the temperature, outputs the logarithms of the coefficients. Distillation
columns evaluate this and its derivatives on every stage.

Source: H. Renon, J. M. Prausnitz, Local compositions in thermodynamic excess functions for liquid mixtures, AIChE
Journal 14 (1968) 135-144, equation (23); energies of the order of those of acetone, methanol and water.
"""

import numpy as np

ENERGIES = np.array([[0.0, 96.0, 375.0], [117.0, 0.0, -25.0], [260.0, 245.0, 0.0]])
NON_RANDOMNESS = np.array([[0.0, 0.30, 0.53], [0.30, 0.0, 0.30], [0.53, 0.30, 0.0]])


def activity_coefficients(state):
    """Logarithms of the activity coefficients; state = amounts in mol (3), temperature in K."""
    amounts, temperature = state[:3], state[3]
    fractions = amounts / np.sum(amounts)
    tau = ENERGIES / temperature
    local = np.exp(-NON_RANDOMNESS * tau)
    total = np.dot(fractions, local)
    mean = np.dot(fractions, tau * local) / total
    results = []
    for i in range(3):
        weights = [fractions[j] * local[i, j] / total[j] for j in range(3)]
        results.append(mean[i] + sum(weights[j] * (tau[i, j] - mean[j]) for j in range(3)))
    return np.array(results)


def example_point():
    """A mixture near room temperature."""
    return np.array([0.3, 0.5, 0.9, 330.0])


def sample(points, seed=0):
    """Random mixtures: array (points, 4)."""
    low, high = np.array([0.1, 0.1, 0.1, 290.0]), np.array([1.0, 1.0, 1.0, 380.0])
    return np.random.default_rng(seed).uniform(low, high, (points, 4))
