"""A solar panel's single-diode equation at four measured points: 5 parameters in, 4 residuals out.

Fitting the five parameters to a measured characteristic needs the Jacobian in every iteration, for every panel.

Source: W. De Soto, S. A. Klein, W. A. Beckman, Improvement and validation of a model for photovoltaic array
performance, Solar Energy 80 (2006) 78-88, equation (1); points of a panel of 60 cells.
"""

import numpy as np

VOLTAGES = np.array([0.0, 24.0, 30.5, 37.0])
CURRENTS = np.array([8.6, 8.4, 7.9, 0.4])
CELLS, THERMAL_VOLTAGE = 60, 0.0257


def solar_cell(parameters):
    """Residuals in A; parameters = light current, logarithm of the diode's, series and shunt resistance, ideality."""
    light, log_saturation, series, shunt, ideality = parameters
    junction = VOLTAGES + CURRENTS * series
    exponent = junction / (ideality * CELLS * THERMAL_VOLTAGE)
    diode = np.exp(log_saturation) * (np.exp(exponent) - 1.0)
    return light - diode - junction / shunt - CURRENTS


def example_point():
    """A panel in full sunlight."""
    return np.array([8.65, -21.0, 0.3, 300.0, 1.05])


def sample(points, seed=0):
    """Random parameters: array (points, 5)."""
    low, high = np.array([8.0, -24.0, 0.1, 100.0, 1.0]), np.array([9.0, -20.0, 0.5, 600.0, 1.3])
    return np.random.default_rng(seed).uniform(low, high, (points, 5))
