"""The ring modulator, an electrical circuit of four diodes: 15 voltages and currents, sparse and very stiff.

Source: E.-H. Horneber, problem RING of the Test Set for Initial Value Problem Solvers (Mazzia and Magherini,
University of Bari), the ordinary differential equation with Cs = 2e-12.
"""

import numpy as np

C, CS, CP = 1.6e-8, 2e-12, 1e-8
LH, LS1, LS2, LS3 = 4.45, 2e-3, 5e-4, 5e-4
R, RP, RI, RC = 25e3, 50.0, 50.0, 600.0
RG1, RG2, RG3 = 36.3, 17.3, 17.3
GAMMA, DELTA = 40.67286402e-9, 17.7493332


def diode_current(voltage):
    """Current through a diode."""
    return GAMMA * (np.exp(DELTA * voltage) - 1.0)


def ring_modulator(y, time=1e-5):
    """Rates of change of seven voltages and eight currents at a time in seconds."""
    u1, u2, u3, u4, u5, u6, u7, i1, i2, i3, i4, i5, i6, i7, i8 = y
    signal = 0.5 * np.sin(2e3 * np.pi * time)
    carrier = 2.0 * np.sin(2e4 * np.pi * time)

    q1 = diode_current(u3 - u5 - u7 - carrier)
    q2 = diode_current(-u4 + u6 - u7 - carrier)
    q3 = diode_current(u4 + u5 + u7 + carrier)
    q4 = diode_current(-u3 - u6 + u7 + carrier)

    return np.array(
        [
            (i1 - 0.5 * i3 + 0.5 * i4 + i7 - u1 / R) / C,
            (i2 - 0.5 * i5 + 0.5 * i6 + i8 - u2 / R) / C,
            (i3 - q1 + q4) / CS,
            (-i4 + q2 - q3) / CS,
            (i5 + q1 - q3) / CS,
            (-i6 - q2 + q4) / CS,
            (-u7 / RP + q1 + q2 - q3 - q4) / CP,
            -u1 / LH,
            -u2 / LH,
            (0.5 * u1 - u3 - RG2 * i3) / LS2,
            (-0.5 * u1 + u4 - RG3 * i4) / LS3,
            (0.5 * u2 - u5 - RG2 * i5) / LS2,
            (-0.5 * u2 + u6 - RG3 * i6) / LS3,
            (-u1 + signal - (RI + RG1) * i7) / LS1,
            (-u2 - (RC + RG1) * i8) / LS1,
        ]
    )


def example_point():
    """The test set's reference solution at its end time, rounded."""
    voltages = [-0.0171, -0.0067, 0.2753, -0.3912, -0.3885, 0.2780, 0.1115]
    currents = [2.979e-7, -3.143e-8, 7.017e-4, 8.521e-4, -7.774e-4, -7.763e-4, 7.844e-5, 2.523e-5]
    return np.array(voltages + currents)


def sample(points, seed=0):
    """Random states of the size of the solution: array (points, 15)."""
    scale = np.array([0.1] * 2 + [0.4] * 5 + [1e-6] * 2 + [1e-3] * 4 + [1e-4] * 2)
    return scale * np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 15))
