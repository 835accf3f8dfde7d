"""Drain current of a MOS transistor in all regions, by the EKV model: 4 inputs, 3 outputs.

Inputs are the voltages of gate, drain and source to the bulk and the logarithm of the specific current. Circuit
simulators differentiate every transistor in every Newton step.

Source: C. C. Enz, F. Krummenacher, E. A. Vittoz, An analytical MOS transistor model valid in all regions of operation
and dedicated to low-voltage and low-current applications, Analog Integrated Circuits and Signal Processing 8 (1995)
83-114, equations (19), (23), (34).
"""

import numpy as np

THRESHOLD, BODY, FERMI, THERMAL_VOLTAGE = 0.55, 0.7, 0.6, 0.02585
MODULATION, REDUCTION = 0.06, 0.25


def charge(overdrive):
    """Root of the normalised current of one side."""
    return np.log(1.0 + np.exp(0.5 * overdrive / THERMAL_VOLTAGE))


def transistor_model(voltages):
    """Current, its forward and reverse part, normalised; voltages = gate, drain, source, log of specific current."""
    gate, drain, source, log_specific = voltages
    effective = gate - THRESHOLD + FERMI + BODY * np.sqrt(FERMI)
    pinch_off = effective - FERMI - BODY * (np.sqrt(effective + 0.25 * BODY**2) - 0.5 * BODY)
    slope = 1.0 + BODY / (2.0 * np.sqrt(pinch_off + FERMI + 4.0 * THERMAL_VOLTAGE))
    forward, reverse = charge(pinch_off - source), charge(pinch_off - drain)
    mobility = 1.0 + REDUCTION * THERMAL_VOLTAGE * (forward + reverse)
    current = slope * np.exp(log_specific) * (forward**2 - reverse**2) / mobility
    return np.array([current * (1.0 + MODULATION * (drain - source)), forward**2, reverse**2])


def example_point():
    """Moderate inversion."""
    return np.array([1.0, 0.8, 0.1, -13.0])


def sample(points, seed=0):
    """Random voltages: array (points, 4)."""
    low, high = np.array([0.5, 0.1, 0.0, -14.0]), np.array([1.8, 1.5, 0.3, -12.0])
    return np.random.default_rng(seed).uniform(low, high, (points, 4))
