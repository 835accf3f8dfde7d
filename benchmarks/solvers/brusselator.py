"""The Brusselator with diffusion on a line of 20 cells, after Hairer and Wanner: 40 stiff equations."""

import numpy as np

CELLS = 20
ALPHA = (CELLS + 1) ** 2 / 50.0


def brusselator(y):
    """Rates of u and v in each cell; at both ends they are 1 and 3."""
    u = [1.0, *[y[k] for k in range(CELLS)], 1.0]
    v = [3.0, *[y[CELLS + k] for k in range(CELLS)], 3.0]
    rates_u, rates_v = [], []
    for k in range(1, CELLS + 1):
        reaction = u[k] * u[k] * v[k]
        rates_u.append(1.0 + reaction - 4.0 * u[k] + ALPHA * (u[k - 1] - 2.0 * u[k] + u[k + 1]))
        rates_v.append(3.0 * u[k] - reaction + ALPHA * (v[k - 1] - 2.0 * v[k] + v[k + 1]))
    return np.array(rates_u + rates_v)


def example_point():
    """The initial values."""
    x = np.arange(1, CELLS + 1) / (CELLS + 1)
    return np.concatenate([1.0 + np.sin(2.0 * np.pi * x), np.full(CELLS, 3.0)])
