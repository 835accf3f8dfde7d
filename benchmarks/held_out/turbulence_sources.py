"""Sources of a two-equation turbulence model at one cell: 10 inputs, 3 outputs.

Inputs are k, ω, the gradients of velocity (4), of k (2) and of ω (2); outputs are both sources and the eddy viscosity.
Implicit solvers linearise this in every cell and step.

Source: F. R. Menter, M. Kuntz, R. Langtry, Ten years of industrial experience with the SST turbulence model,
Turbulence, Heat and Mass Transfer 4 (2003) 625-632, equations (1)-(8), at a given distance from the wall.
"""

import numpy as np

DENSITY, VISCOSITY, DISTANCE = 1.2, 1.8e-5, 0.01
BETA_STAR, SPEED = 0.09, 0.31
#: Near the wall, and far from it.
GAMMA, BETA, DIFFUSION = (5.0 / 9.0, 0.44), (0.075, 0.0828), (0.5, 0.856)


def turbulence_sources(state):
    """Sources of k and ω, eddy viscosity; state = k, ω, ∂u/∂x, ∂u/∂y, ∂v/∂x, ∂v/∂y, ∂k/∂x, ∂k/∂y, ∂ω/∂x, ∂ω/∂y."""
    k, omega, ux, uy, vx, vy, kx, ky, ox, oy = state
    cross = 2.0 * DENSITY * DIFFUSION[1] / omega * (kx * ox + ky * oy)
    limited = np.maximum(cross, 1e-10)
    root = np.sqrt(k)
    turbulent, viscous = root / (BETA_STAR * omega * DISTANCE), 500.0 * VISCOSITY / (DENSITY * DISTANCE**2 * omega)
    first = np.minimum(np.maximum(turbulent, viscous), 4.0 * DENSITY * DIFFUSION[1] * k / (limited * DISTANCE**2))
    near = np.tanh(first**4)
    strain = np.sqrt(2.0 * ux**2 + 2.0 * vy**2 + (uy + vx) ** 2)
    second = np.tanh(np.maximum(2.0 * turbulent, viscous) ** 2)
    eddy = DENSITY * SPEED * k / np.maximum(SPEED * omega, strain * second)

    gamma, beta = (near * pair[0] + (1.0 - near) * pair[1] for pair in (GAMMA, BETA))
    destroyed = BETA_STAR * DENSITY * k * omega
    produced = np.minimum(eddy * strain**2, 10.0 * destroyed)
    return np.array(
        [
            produced - destroyed,
            gamma * DENSITY / eddy * produced - beta * DENSITY * omega**2 + (1.0 - near) * cross,
            eddy,
        ]
    )


def example_point():
    """Inside of a boundary layer."""
    return np.array([0.8, 900.0, 20.0, 700.0, -15.0, -18.0, 6.0, 40.0, -800.0, 3000.0])


def sample(points, seed=0):
    """Random cells: array (points, 10)."""
    random = np.random.default_rng(seed)
    low = np.array([0.3, 300.0, -50.0, 200.0, -50.0, -50.0, -20.0, 10.0, -2000.0, 1000.0])
    high = np.array([2.0, 2000.0, 50.0, 1500.0, 50.0, 50.0, 20.0, 80.0, 2000.0, 9000.0])
    return random.uniform(low, high, (points, 10))
