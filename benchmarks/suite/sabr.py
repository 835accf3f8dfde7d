"""Implied volatilities of the SABR model at four strikes: 6 inputs, 4 outputs.

Inputs are the forward, the time to expiry and the model's alpha, beta, rho and nu. Calibration fits these to quotes.

Source: P. S. Hagan, D. Kumar, A. S. Lesniewski, D. E. Woodward, Managing smile risk, Wilmott Magazine, 2002, equation
(2.17).
"""

import numpy as np

STRIKES = np.array([0.02, 0.027, 0.034, 0.045])


def sabr(parameters):
    """Lognormal volatilities at STRIKES; parameters = forward, years, alpha, beta, rho, nu."""
    forward, years, alpha, beta, rho, nu = parameters
    moneyness = np.log(forward / STRIKES)
    backbone = (forward * STRIKES) ** (0.5 * (1.0 - beta))
    z = nu / alpha * backbone * moneyness
    chi = np.log((np.sqrt(1.0 - 2.0 * rho * z + z**2) + z - rho) / (1.0 - rho))
    one_beta = (1.0 - beta) ** 2
    denominator = backbone * (1.0 + one_beta / 24.0 * moneyness**2 + one_beta**2 / 1920.0 * moneyness**4)
    correction = (
        one_beta / 24.0 * alpha**2 / backbone**2
        + 0.25 * rho * beta * nu * alpha / backbone
        + (2.0 - 3.0 * rho**2) / 24.0 * nu**2
    )
    return alpha / denominator * z / chi * (1.0 + correction * years)


def example_point():
    """Interest rates around three per cent, two years."""
    return np.array([0.03, 2.0, 0.04, 0.6, -0.3, 0.45])


def sample(points, seed=0):
    """Random parameters, with the forward between two strikes: array (points, 6)."""
    low, high = np.array([0.0285, 0.5, 0.02, 0.3, -0.6, 0.2]), np.array([0.0325, 5.0, 0.1, 0.9, 0.3, 0.8])
    return np.random.default_rng(seed).uniform(low, high, (points, 6))
