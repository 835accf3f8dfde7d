"""Pressure and fugacities of a mixture of three gases: temperature, volume and 3 amounts in, 4 values out.

Flash calculations and reservoir simulators solve equations between these with Newton's method.

Source: D.-Y. Peng, D. B. Robinson, A new two-constant equation of state, Ind. Eng. Chem. Fundamen. 15 (1976), equations
for mixtures; methane, ethane and propane with their critical data from the NIST Chemistry WebBook. SI units, amounts
in mol, volume in m³.
"""

import numpy as np

GAS = 8.314462618
CRITICAL_T = np.array([190.56, 305.32, 369.83])
CRITICAL_P = np.array([4.599e6, 4.872e6, 4.248e6])
ACENTRIC = np.array([0.0115, 0.0995, 0.1523])
INTERACTION = np.array([[0.0, 0.0026, 0.014], [0.0026, 0.0, 0.0011], [0.014, 0.0011, 0.0]])
COVOLUME = 0.0778 * GAS * CRITICAL_T / CRITICAL_P
ATTRACTION = 0.45724 * (GAS * CRITICAL_T) ** 2 / CRITICAL_P
KAPPA = 0.37464 + 1.54226 * ACENTRIC - 0.26992 * ACENTRIC**2


def peng_robinson(state):
    """Pressure (Pa) and the logarithms of the three fugacities; state = temperature, volume, amounts (3)."""
    temperature, volume, amounts = state[0], state[1], state[2:5]
    total = np.sum(amounts)
    x = amounts / total
    v = volume / total

    root_a = np.sqrt(ATTRACTION) * (1.0 + KAPPA * (1.0 - np.sqrt(temperature / CRITICAL_T)))
    pairs = (1.0 - INTERACTION) * root_a[:, None] * root_a[None, :]
    partial_a = pairs @ x
    a, b = np.dot(x, partial_a), np.dot(x, COVOLUME)
    RT = GAS * temperature

    pressure = RT / (v - b) - a / (v**2 + 2.0 * b * v - b**2)
    Z = pressure * v / RT
    A, B = a * pressure / RT**2, b * pressure / RT
    two = np.sqrt(2.0)
    logarithm = np.log((Z + (1.0 + two) * B) / (Z + (1.0 - two) * B))
    ratio = COVOLUME / b
    log_phi = ratio * (Z - 1.0) - np.log(Z - B) - A / (2.0 * two * B) * (2.0 * partial_a / a - ratio) * logarithm
    return np.concatenate([np.array([pressure]), np.log(x * pressure) + log_phi])


def example_point():
    """A gas at about forty bar."""
    return np.array([320.0, 5.5e-4, 0.6, 0.3, 0.1])


def sample(points, seed=0):
    """Random gases between 280 and 450 K: array (points, 5)."""
    low, high = np.array([280.0, 6e-4, 0.3, 0.1, 0.05]), np.array([450.0, 3e-3, 0.7, 0.4, 0.2])
    return np.random.default_rng(seed).uniform(low, high, (points, 5))
