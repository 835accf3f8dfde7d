"""Roe's numerical flux between two cells of the one-dimensional Euler equations: 6 inputs, 3 outputs.

An implicit finite-volume code differentiates this flux at every face of its mesh in every Newton step.
The input holds density, momentum and energy left of the face, then the same three right of it.

Source: P. L. Roe, Approximate Riemann solvers, parameter vectors, and difference schemes, J. Comput. Phys. 43
(1981), in the form that is a public benchmark of Jacobian accumulation (RoeFlux_1d of the graphax examples). The
benchmark's constants are kept so that operation counts compare: GAMMA = 0.5, and |u| as the speed of the third
wave. A gas has GAMMA = 1.4 and |u - a|; the number of operations is the same with GAMMA = 1.4.
"""

import numpy as np

GAMMA = 0.5


def pressure(density, momentum, energy):
    """Pressure of an ideal gas."""
    return (GAMMA - 1.0) * (energy - 0.5 * momentum**2 / density)


def euler_flux(momentum, energy, velocity, p):
    """Exact flux of mass, momentum and energy in one cell."""
    return np.array([momentum, p + momentum * velocity, velocity * (p + energy)])


def roe_flux(q):
    """Flux of mass, momentum and energy through a face; q = left and right (density, momentum, energy)."""
    rho_l, m_l, e_l, rho_r, m_r, e_r = q

    v_l = m_l / rho_l
    p_l = pressure(rho_l, m_l, e_l)
    h_l = (e_l + p_l) / rho_l

    v_r = m_r / rho_r
    p_r = pressure(rho_r, m_r, e_r)
    h_r = (e_r + p_r) / rho_r

    # averages weighted with the roots of the densities
    weight_l = np.sqrt(rho_l)
    weight_r = np.sqrt(rho_r)
    weight = weight_l + weight_r
    u = (weight_l * v_l + weight_r * v_r) / weight
    h = (weight_l * h_l + weight_r * h_r) / weight
    rho = np.sqrt(rho_l * rho_r)
    a2 = (GAMMA - 1.0) * (h - 0.5 * u**2)
    a = np.sqrt(a2)

    # strengths of the three waves
    jump_rho = rho_r - rho_l
    jump_v = v_r - v_l
    jump_p = p_r - p_l
    entropy = (jump_rho - jump_p / a2) * np.abs(u)
    right = 0.5 * rho / a * (jump_v + jump_p / (a * rho)) * np.abs(u + a)
    left = 0.5 * rho / a * (jump_v - jump_p / (a * rho)) * np.abs(u)

    dissipation = np.array(
        [
            entropy + right - left,
            entropy * u + right * (u + a) - left * (u - a),
            entropy * 0.5 * u**2 + right * (h + u * a) - left * (h - u * a),
        ]
    )
    return 0.5 * (euler_flux(m_l, e_l, v_l, p_l) + euler_flux(m_r, e_r, v_r, p_r) - dissipation)


def example_point():
    """A point at which the speed of sound is real (with GAMMA below 1: kinetic energy above the total energy)."""
    return np.array([1.0, 2.0, 1.2, 0.8, 1.9, 1.3])


def sample(points, seed=0):
    """Random states with |u| well away from zero: array (points, 6)."""
    random = np.random.default_rng(seed)
    density = random.uniform(0.5, 1.5, (points, 2))
    velocity = random.uniform(1.5, 3.0, (points, 2))
    energy = 0.5 * density * velocity**2 * random.uniform(0.4, 0.7, (points, 2))
    return np.stack([density, density * velocity, energy], axis=2).reshape(points, 6)
