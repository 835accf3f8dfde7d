"""Chemical equilibrium of methane's reforming with steam: 7 inputs, 5 residuals out.

Inputs are logarithms of the amounts of CH4, H2O, CO, CO2 and H2, the temperature and the pressure. Newton's method for
reactors and fuel cells takes the Jacobian at every point of the flow.

Source: J. M. Smith, H. C. Van Ness, M. M. Abbott, Introduction to Chemical Engineering Thermodynamics, chapter 13
(balances of atoms, laws of mass action); constants of J. Xu, G. F. Froment, Methane steam reforming, AIChE Journal 35
(1989) 88-96, table 5.
"""

import numpy as np

CARBON, HYDROGEN, OXYGEN = 1.0, 10.0, 3.0


def reforming_equilibrium(state):
    """Residuals of C, H, O, reforming, shift; state = log amounts (5), temperature in K, pressure in bar."""
    methane, steam, monoxide, dioxide, hydrogen = np.exp(state[:5])
    temperature, pressure = state[5], state[6]
    total = methane + steam + monoxide + dioxide + hydrogen
    reforming = np.exp(30.114 - 26830.0 / temperature)
    shift = np.exp(4400.0 / temperature - 4.036)
    return np.array(
        [
            methane + monoxide + dioxide - CARBON,
            4.0 * methane + 2.0 * steam + 2.0 * hydrogen - HYDROGEN,
            steam + monoxide + 2.0 * dioxide - OXYGEN,
            monoxide * hydrogen**3 * (pressure / total) ** 2 / (methane * steam) / reforming - 1.0,
            dioxide * hydrogen / (monoxide * steam) / shift - 1.0,
        ]
    )


def example_point():
    """Near equilibrium at 1000 K."""
    return np.array([np.log(0.2), np.log(1.9), np.log(0.5), np.log(0.3), np.log(2.7), 1000.0, 1.5])


def sample(points, seed=0):
    """Random states: array (points, 7)."""
    random = np.random.default_rng(seed)
    low, high = np.array([0.05, 1.0, 0.1, 0.1, 1.0]), np.array([0.6, 2.6, 0.8, 0.6, 3.2])
    amounts = np.log(random.uniform(low, high, (points, 5)))
    return np.hstack([amounts, random.uniform([850.0, 1.0], [1200.0, 5.0], (points, 2))])
