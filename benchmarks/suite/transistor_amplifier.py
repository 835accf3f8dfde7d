"""A two-stage transistor amplifier: 8 node voltages in, the currents into the 8 nodes out.

Circuit simulators differentiate this in every Newton step of every time step.

Source: problem TRANSAMP of the Test Set for Initial Value Problem Solvers (Mazzia and Magherini, University of Bari),
after P. Rentrop, M. Roche, G. Steinebach; two bipolar transistors of the exponential kind. The voltage of the signal
is that at a fixed time.
"""

import numpy as np

SUPPLY, THERMAL, GAIN, SATURATION = 6.0, 0.026, 0.99, 1e-6
R0, R = 1000.0, 9000.0


def emitter_current(voltage):
    """Current through a transistor by the voltage between base and emitter."""
    return SATURATION * (np.exp(voltage / THERMAL) - 1.0)


def transistor_amplifier(y, time=0.002):
    """Currents of the eight nodes (the right-hand side of M y' = f(t, y)), in A; voltages in V, time in s."""
    signal = 0.1 * np.sin(200.0 * np.pi * time)
    y1, y2, y3, y4, y5, y6, y7, y8 = y
    first = emitter_current(y2 - y3)
    second = emitter_current(y5 - y6)
    return np.array(
        [
            -signal / R0 + y1 / R0,
            -SUPPLY / R + y2 * 2.0 / R - (GAIN - 1.0) * first,
            -first + y3 / R,
            -SUPPLY / R + y4 / R + GAIN * first,
            -SUPPLY / R + y5 * 2.0 / R - (GAIN - 1.0) * second,
            -second + y6 / R,
            -SUPPLY / R + y7 / R + GAIN * second,
            y8 / R,
        ]
    )


def example_point():
    """The test set's initial voltages."""
    return np.array([0.0, 3.0, 2.9, 6.0, 3.0, 2.9, 6.0, 0.1])


def sample(points, seed=0):
    """Random voltages with both transistors forward biased by up to 0.15 V: array (points, 8)."""
    random = np.random.default_rng(seed)
    y = random.uniform(0.0, 6.0, (points, 8))
    y[:, [2, 5]] = y[:, [1, 4]] - random.uniform(-0.05, 0.15, (points, 2))
    return y
