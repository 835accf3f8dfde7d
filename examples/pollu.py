"""POLLU, the chemistry of air pollution: 20 species, 25 reactions, a stiff system with a sparse Jacobian.

Every implicit integrator asks for this Jacobian in every step and every grid cell.

Source: J. G. Verwer, Gauss-Seidel iteration for stiff ODEs from chemical kinetics, SIAM J. Sci. Comput. 15 (1994);
problem POLLU of the Test Set for Initial Value Problem Solvers (Mazzia and Magherini, University of Bari).
"""

import numpy as np

RATES = np.array([
    0.35, 0.266e2, 0.123e5, 0.86e-3, 0.82e-3,
    0.15e5, 0.13e-3, 0.24e5, 0.165e5, 0.9e4,
    0.22e-1, 0.12e5, 0.188e1, 0.163e5, 0.48e7,
    0.35e-3, 0.175e-1, 0.1e9, 0.444e12, 0.124e4,
    0.21e1, 0.578e1, 0.474e-1, 0.178e4, 0.312e1,
])  # fmt: skip


def reaction_speeds(y):
    """Speed of each of the 25 reactions, by the law of mass action."""
    r = np.empty(25)
    r[0] = y[0]
    r[1] = y[1] * y[3]
    r[2] = y[4] * y[1]
    r[3] = y[6]
    r[4] = y[6]
    r[5] = y[6] * y[5]
    r[6] = y[8]
    r[7] = y[8] * y[5]
    r[8] = y[10] * y[1]
    r[9] = y[10] * y[0]
    r[10] = y[12]
    r[11] = y[9] * y[1]
    r[12] = y[13]
    r[13] = y[0] * y[5]
    r[14] = y[2]
    r[15] = y[3]
    r[16] = y[3]
    r[17] = y[15]
    r[18] = y[15]
    r[19] = y[16] * y[5]
    r[20] = y[18]
    r[21] = y[18]
    r[22] = y[0] * y[3]
    r[23] = y[18] * y[0]
    r[24] = y[19]
    return RATES * r


def pollu(y):
    """Rates of change of the 20 concentrations (ppm per minute)."""
    r = reaction_speeds(y)
    dy = np.zeros(20)
    dy[0] = -r[0] - r[9] - r[13] - r[22] - r[23] + r[1] + r[2] + r[8] + r[10] + r[11] + r[21] + r[24]
    dy[1] = -r[1] - r[2] - r[8] - r[11] + r[0] + r[20]
    dy[2] = -r[14] + r[0] + r[16] + r[18] + r[21]
    dy[3] = -r[1] - r[15] - r[16] - r[22] + r[14]
    dy[4] = -r[2] + 2.0 * r[3] + r[5] + r[6] + r[12] + r[19]
    dy[5] = -r[5] - r[7] - r[13] - r[19] + r[2] + 2.0 * r[17]
    dy[6] = -r[3] - r[4] - r[5] + r[12]
    dy[7] = r[3] + r[4] + r[5] + r[6]
    dy[8] = -r[6] - r[7]
    dy[9] = -r[11] + r[6] + r[8]
    dy[10] = -r[8] - r[9] + r[7] + r[10]
    dy[11] = r[8]
    dy[12] = -r[10] + r[9]
    dy[13] = -r[12] + r[11]
    dy[14] = r[13]
    dy[15] = -r[17] - r[18] + r[15]
    dy[16] = -r[19]
    dy[17] = r[19]
    dy[18] = -r[20] - r[21] - r[23] + r[22] + r[24]
    dy[19] = -r[24] + r[23]
    return dy


def example_point():
    """The test set's initial concentrations, with a trace of every other species."""
    y = np.full(20, 1e-4)
    y[[1, 3, 6, 7, 8, 16]] = [0.2, 0.04, 0.1, 0.3, 0.01, 0.007]
    return y


def sample(points, seed=0):
    """Random concentrations within a factor of ten of the example point: array (points, 20)."""
    random = np.random.default_rng(seed)
    return example_point() * 10.0 ** random.uniform(-1.0, 1.0, (points, 20))
