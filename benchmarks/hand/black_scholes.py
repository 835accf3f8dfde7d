"""A European call with its Greeks by hand: 6 inputs, 7 outputs, a full Jacobian.

S e^(-qT) φ(d1) = K e^(-rT) φ(d2) =: ψ leaves no derivative of the distribution function in those of the price.
Greeks are derivatives of the price, so their own derivatives are symmetric: vega by the share is delta by the
volatility, rho by time is minus theta by the rate, … With M = S e^(-qT) N(d1) and P = K e^(-rT) N(d2), the price is
M - P, and theta, rho and all derivatives by rate, yield and time are products of these and their derivatives by
time. Prices are homogeneous in share and strike, which gives the derivatives by the strike. N(x) is half the
complementary error function of -x/√2. The put follows from parity: M - S e^(-qT) and K e^(-rT) - P lose no digit
that the formula 1 + erf of it would have.

Source: see `suite/black_scholes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

ROOT_OF_HALF = 0.7071067811865476
#: 1 / √(2π)
DENSITY = 0.3989422804014327


def value_and_jacobian(parameters: Sequence[Any]) -> tuple[Sequence[Any], Mapping[tuple[int, int], Any]]:
    """Call, put and Greeks (7), and the entries of their Jacobian; parameters as those of the function."""
    price, strike, years, rate, dividend, volatility = parameters
    root = np.sqrt(years)
    deviation = volatility * root
    half = 0.5 * deviation
    per_volatility, per_strike, minus_per_price, minus_per_year = (
        1.0 / volatility,
        1.0 / strike,
        -1.0 / price,
        -1.0 / years,
    )
    k = root * per_volatility
    minus_per_deviation = k * minus_per_year
    drift = (rate - dividend) * k
    minus_d1 = np.log(price * per_strike) * minus_per_deviation - drift - half
    minus_d2 = minus_d1 + deviation
    half_d1 = -0.5 * minus_d1
    # by how much d1 and d2 grow with time, times the time
    n2 = drift - half_d1
    n1 = n2 + half

    minus_years = -years
    discount, carry = np.exp(rate * minus_years), np.exp(dividend * minus_years)
    bond, share = strike * discount, price * carry
    w = carry * (DENSITY * np.exp(half_d1 * minus_d1))
    delta = carry * (0.5 * special.erfc(ROOT_OF_HALF * minus_d1))
    minus_x = discount * (-0.5 * special.erfc(ROOT_OF_HALF * minus_d2))
    m, minus_p = price * delta, strike * minus_x
    share_left, bond_left = m - share, bond + minus_p

    psi = price * w
    vega = psi * root
    delta_rate = w * k
    minus_c = w * minus_per_deviation
    gamma = minus_c * minus_per_price
    minus_psi_per_year = psi * minus_per_year
    decay, of_share, of_bond = minus_psi_per_year * half, dividend * m, rate * minus_p
    theta = of_share + of_bond + decay
    rho = minus_years * minus_p
    minus_theta = -theta

    # time: minus the derivative of M, and that of P
    minus_m_years = of_share + minus_psi_per_year * n1
    p_years = of_bond - minus_psi_per_year * n2
    growth = (0.5 - minus_d1 * n1) * minus_per_year - dividend
    delta_years = minus_m_years * minus_per_price
    vega_years = vega * (growth - minus_per_year)
    theta_rate = minus_p + minus_years * p_years

    d2_per_volatility = minus_d2 * per_volatility
    vanna = w * d2_per_volatility
    d1_d2 = minus_d1 * d2_per_volatility
    d1_per_deviation = minus_d1 * minus_per_deviation
    d1_per_strike = d1_per_deviation * per_strike
    minus_d1_k = minus_d1 * k
    gamma_rate, vega_rate = gamma * minus_d1_k, vega * minus_d1_k
    excess = price * delta_rate
    left = rho - excess

    values = [minus_p + m, share_left + bond_left, delta, gamma, vega, theta, rho]
    jacobian = {
        (0, 0): delta,
        (0, 1): minus_x,
        (0, 2): minus_theta,
        (0, 3): rho,
        (0, 4): minus_years * m,
        (0, 5): vega,
        (1, 0): delta - carry,
        (1, 1): discount + minus_x,
        (1, 2): minus_theta - rate * bond + dividend * share,
        (1, 3): minus_years * bond_left,
        (1, 4): minus_years * share_left,
        (1, 5): vega,
        (2, 0): gamma,
        (2, 1): minus_c * per_strike,
        (2, 2): delta_years,
        (2, 3): delta_rate,
        (2, 4): minus_years * delta - delta_rate,
        (2, 5): vanna,
        (3, 0): gamma * (1.0 + d1_per_deviation) * minus_per_price,
        (3, 1): gamma * d1_per_strike,
        (3, 2): gamma * growth,
        (3, 3): gamma_rate,
        (3, 4): minus_years * gamma - gamma_rate,
        (3, 5): gamma * (d1_d2 - per_volatility),
        (4, 0): vanna,
        (4, 1): vega * d1_per_strike,
        (4, 2): vega_years,
        (4, 3): vega_rate,
        (4, 4): minus_years * vega - vega_rate,
        (4, 5): vega * d1_d2,
        (5, 0): -delta_years,
        (5, 1): p_years * per_strike,
        (5, 2): decay * growth - dividend * minus_m_years - rate * p_years,
        (5, 3): theta_rate,
        (5, 4): m + minus_years * minus_m_years,
        (5, 5): -vega_years,
        (6, 0): delta_rate,
        (6, 1): left * per_strike,
        (6, 2): -theta_rate,
        (6, 3): minus_years * left,
        (6, 4): minus_years * excess,
        (6, 5): vega_rate,
    }
    return values, jacobian
