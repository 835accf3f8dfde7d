"""Burning hydrogen: 8 concentrations and the temperature in, the rates of change of the 8 concentrations out.

Fourteen reactions with Arrhenius rates k = A Tⁿ exp(-E / (R T)), each in the direction in which the table has it. A
flame or engine code differentiates them in every cell and every implicit step.

Source: table 1 ("new skeletal mechanism") of Verification, validation, and testing of kinetic mechanisms of hydrogen
combustion in fluid-dynamic computations, ISRN Mechanical Engineering 2012, 475607 (mol, cm³, s, K, kcal); third bodies
count as in J. Li et al., Int. J. Chem. Kinet. 36 (2004): H2 2.5 times, H2O 12 times.
"""

import numpy as np

GAS = 1.987204e-3
# prefactor, exponent of the temperature, activation energy
RATES = np.array([
    [1.91e14, 0.0, 16.44],     # H + O2 -> OH + O
    [5.08e4, 2.67, 6.292],     # H2 + O -> H + OH
    [2.16e8, 1.51, 3.43],      # H2 + OH -> H + H2O
    [4.57e19, -1.4, 105.1],    # H2 + M -> H + H + M
    [6.17e15, -0.5, 0.0],      # O + O + M -> O2 + M
    [4.72e18, -1.0, 0.0],      # H + O + M -> OH + M
    [4.5e22, -2.0, 0.0],       # H + OH + M -> H2O + M
    [6.17e19, -1.42, 0.0],     # H + O2 + M -> HO2 + M
    [1.66e13, 0.0, 0.82],      # H + HO2 -> H2 + O2
    [3.68e13, 0.203, 54.46],   # H2 + O2 -> H + HO2
    [1.69e14, 0.0, 0.87],      # H + HO2 -> OH + OH
    [2.89e13, 0.0, -0.5],      # OH + HO2 -> H2O + O2
    [1.2e17, 0.0, 45.5],       # H2O2 + M -> OH + OH + M
    [3.42e12, 0.202, 27.12],   # H2 + HO2 -> H + H2O2
])  # fmt: skip


def hydrogen_combustion(state):
    """Rates of change of H2, O2, H2O, H, O, OH, HO2, H2O2; state = their concentrations (mol/cm³), temperature (K)."""
    h2, o2, h2o, h, o, oh, ho2, h2o2, temperature = state
    prefactor, exponent, energy = RATES.T
    k = prefactor * temperature**exponent * np.exp(-energy / (GAS * temperature))
    m = 2.5 * h2 + o2 + 12.0 * h2o + h + o + oh + ho2 + h2o2

    q1 = k[0] * h * o2
    q2 = k[1] * h2 * o
    q3 = k[2] * h2 * oh
    q4 = k[3] * h2 * m
    q5 = k[4] * o**2 * m
    q6 = k[5] * h * o * m
    q7 = k[6] * h * oh * m
    q8 = k[7] * h * o2 * m
    q9 = k[8] * h * ho2 - k[9] * h2 * o2
    q10 = k[10] * h * ho2
    q11 = k[11] * oh * ho2
    q12 = k[12] * h2o2 * m
    q13 = k[13] * h2 * ho2
    return np.array(
        [
            -q2 - q3 - q4 + q9 - q13,
            -q1 + q5 - q8 + q9 + q11,
            q3 + q7 + q11,
            -q1 + q2 + q3 + 2.0 * q4 - q6 - q7 - q8 - q9 - q10 + q13,
            q1 - q2 - 2.0 * q5 - q6,
            q1 + q2 - q3 + q6 - q7 + 2.0 * q10 - q11 + 2.0 * q12,
            q8 - q9 - q10 - q11 - q13,
            -q12 + q13,
        ]
    )


def example_point():
    """A burning mixture at 1500 K and atmospheric pressure."""
    return np.array([1.5e-6, 8e-7, 1.2e-6, 2e-7, 5e-8, 1e-7, 2e-9, 5e-10, 1500.0])


def sample(points, seed=0):
    """Random mixtures between 900 and 2500 K: array (points, 9)."""
    random = np.random.default_rng(seed)
    concentrations = example_point()[:8] * 10.0 ** random.uniform(-1.0, 0.5, (points, 8))
    return np.hstack([concentrations, random.uniform(900.0, 2500.0, (points, 1))])
