"""The giant axon of the squid: 4 states in, their 4 rates of change out.

Voltage and the three gates of the channels of sodium and potassium. Networks of neurons solve it implicitly.

Source: A. L. Hodgkin, A. F. Huxley, A quantitative description of membrane current and its application to conduction
and excitation in nerve, J. Physiol. 117 (1952), with the voltage counted as today: resting at -65 mV. mV, ms, µA/cm².
"""

import numpy as np

CAPACITY, CURRENT = 1.0, 10.0
SODIUM, POTASSIUM, LEAK = 120.0, 36.0, 0.3
E_SODIUM, E_POTASSIUM, E_LEAK = 50.0, -77.0, -54.387


def hodgkin_huxley(state):
    """Rates of change of voltage, m, h and n."""
    voltage, m, h, n = state
    alpha_m = 0.1 * (voltage + 40.0) / (1.0 - np.exp(-(voltage + 40.0) / 10.0))
    beta_m = 4.0 * np.exp(-(voltage + 65.0) / 18.0)
    alpha_h = 0.07 * np.exp(-(voltage + 65.0) / 20.0)
    beta_h = 1.0 / (1.0 + np.exp(-(voltage + 35.0) / 10.0))
    alpha_n = 0.01 * (voltage + 55.0) / (1.0 - np.exp(-(voltage + 55.0) / 10.0))
    beta_n = 0.125 * np.exp(-(voltage + 65.0) / 80.0)
    ions = (
        SODIUM * m**3 * h * (voltage - E_SODIUM)
        + POTASSIUM * n**4 * (voltage - E_POTASSIUM)
        + LEAK * (voltage - E_LEAK)
    )
    return np.array(
        [
            (CURRENT - ions) / CAPACITY,
            alpha_m * (1.0 - m) - beta_m * m,
            alpha_h * (1.0 - h) - beta_h * h,
            alpha_n * (1.0 - n) - beta_n * n,
        ]
    )


def example_point():
    """On the rising flank of a spike."""
    return np.array([-42.0, 0.3, 0.5, 0.4])


def sample(points, seed=0):
    """Random states away from the two voltages where a rate is 0/0: array (points, 4)."""
    random = np.random.default_rng(seed)
    voltage = random.choice([-80.0, -54.0, -39.0], (points, 1)) + random.uniform(0.0, 13.0, (points, 1))
    return np.hstack([voltage, random.uniform(0.05, 0.95, (points, 3))])
