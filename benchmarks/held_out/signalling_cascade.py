"""A cascade of kinases with negative feedback: 8 concentrations in, their 8 rates out.

Cells' signals travel by such cascades; their oscillations are found by continuation, which needs the Jacobian.

Source: B. N. Kholodenko, Negative feedback and ultrasensitivity can bring about oscillations in the mitogen-activated
protein kinase cascades, European Journal of Biochemistry 267 (2000) 1583-1588, table 2; nM and s.
"""

import numpy as np


def saturated(rate, amount, half):
    """A rate by Michaelis and Menten."""
    return rate * amount / (half + amount)


def signalling_cascade(amounts):
    """Rates; amounts = MKKK, MKKK-P, MKK, MKK-P, MKK-PP, MAPK, MAPK-P, MAPK-PP."""
    mkkk, mkkk_p, mkk, mkk_p, mkk_pp, mapk, mapk_p, mapk_pp = amounts
    v1 = 2.5 * mkkk / ((1.0 + mapk_pp / 9.0) * (10.0 + mkkk))
    v2 = saturated(0.25, mkkk_p, 8.0)
    v3, v4 = saturated(0.025 * mkkk_p, mkk, 15.0), saturated(0.025 * mkkk_p, mkk_p, 15.0)
    v5, v6 = saturated(0.75, mkk_pp, 15.0), saturated(0.75, mkk_p, 15.0)
    v7, v8 = saturated(0.025 * mkk_pp, mapk, 15.0), saturated(0.025 * mkk_pp, mapk_p, 15.0)
    v9, v10 = saturated(0.5, mapk_pp, 15.0), saturated(0.5, mapk_p, 15.0)
    return np.array([v2 - v1, v1 - v2, v6 - v3, v3 + v5 - v4 - v6, v4 - v5, v10 - v7, v7 + v9 - v8 - v10, v8 - v9])


def example_point():
    """In the middle of an oscillation."""
    return np.array([60.0, 40.0, 150.0, 80.0, 70.0, 120.0, 90.0, 90.0])


def sample(points, seed=0):
    """Random concentrations: array (points, 8)."""
    return np.random.default_rng(seed).uniform(5.0, 200.0, (points, 8))
