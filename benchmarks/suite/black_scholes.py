"""A European call with its Greeks: 6 inputs, 7 outputs.

Inputs are the price of the share, the strike, the time to expiry, the interest rate, the dividend yield and the
volatility; outputs the values of call and put, and delta, gamma, vega, theta and rho of the call. Hedging asks for the
derivatives of all of them.

Source: F. Black, M. Scholes, J. Polit. Econ. 81 (1973), with R. C. Merton's dividends; the formulas as in J. C. Hull,
Options, Futures, and Other Derivatives, chapters on Black-Scholes-Merton and on the Greek letters.
"""

import numpy as np
from scipy import special


def normal(x):
    """Distribution function of the standard normal distribution."""
    return 0.5 * (1.0 + special.erf(x / np.sqrt(2.0)))


def black_scholes(parameters):
    """Call, put, delta, gamma, vega, theta, rho; parameters = price, strike, years, rate, dividend, volatility."""
    price, strike, years, rate, dividend, volatility = parameters
    root = np.sqrt(years)
    d1 = (np.log(price / strike) + (rate - dividend + 0.5 * volatility**2) * years) / (volatility * root)
    d2 = d1 - volatility * root
    discount, carry = np.exp(-rate * years), np.exp(-dividend * years)
    density = np.exp(-0.5 * d1**2) / np.sqrt(2.0 * np.pi)

    call = price * carry * normal(d1) - strike * discount * normal(d2)
    put = strike * discount * normal(-d2) - price * carry * normal(-d1)
    delta = carry * normal(d1)
    gamma = carry * density / (price * volatility * root)
    vega = price * carry * density * root
    theta = (
        -price * carry * density * volatility / (2.0 * root)
        - rate * strike * discount * normal(d2)
        + dividend * price * carry * normal(d1)
    )
    rho = strike * years * discount * normal(d2)
    return np.array([call, put, delta, gamma, vega, theta, rho])


def example_point():
    """Half a year, slightly out of the money."""
    return np.array([100.0, 105.0, 0.5, 0.03, 0.01, 0.25])


def sample(points, seed=0):
    """Random options: array (points, 6)."""
    low, high = np.array([80.0, 80.0, 0.1, 0.0, 0.0, 0.1]), np.array([120.0, 120.0, 2.0, 0.06, 0.04, 0.6])
    return np.random.default_rng(seed).uniform(low, high, (points, 6))
