"""Acceleration in the Earth's gravity field to degree and order 4: position (3) in, acceleration (3) out.

Orbit determination integrates this together with its Jacobian, the gravity gradient.

Source: O. Montenbruck, E. Gill, Satellite Orbits, section 3.2.4 to 3.2.5 (Cunningham's recurrences for V and W,
unnormalised) and table 3.2 (the coefficients of JGM-3). Lengths in km, times in s.
"""

import numpy as np

GM, RADIUS, DEGREE = 398600.4415, 6378.1363, 4
C = 1e-6 * np.array([
    [1e6, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [-1082.6360, -0.0002414, 1.5745360, 0.0, 0.0],
    [2.5324353, 2.1927988, 0.3090160, 0.1005589, 0.0],
    [1.6193312, -0.5087253, 0.0784122, 0.0592157, -0.0039823],
])  # fmt: skip
S = 1e-6 * np.array([
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0015431, -0.9038680, 0.0, 0.0],
    [0.0, 0.2680119, -0.2114024, 0.1972013, 0.0],
    [0.0, -0.4494599, 0.1481554, -0.0120113, 0.0065256],
])  # fmt: skip


def solid_harmonics(position):
    """V and W of degrees and orders up to DEGREE + 1."""
    r2 = np.dot(position, position)
    x, y, z = RADIUS * position / r2
    rho = RADIUS**2 / r2
    V, W = np.zeros((DEGREE + 2, DEGREE + 2)), np.zeros((DEGREE + 2, DEGREE + 2))
    V[0, 0] = RADIUS / np.sqrt(r2)
    for m in range(DEGREE + 2):
        if m > 0:
            V[m, m] = (2 * m - 1) * (x * V[m - 1, m - 1] - y * W[m - 1, m - 1])
            W[m, m] = (2 * m - 1) * (x * W[m - 1, m - 1] + y * V[m - 1, m - 1])
        for n in range(m + 1, DEGREE + 2):
            V[n, m] = (2 * n - 1) / (n - m) * z * V[n - 1, m]
            W[n, m] = (2 * n - 1) / (n - m) * z * W[n - 1, m]
            if n > m + 1:
                V[n, m] = V[n, m] - (n + m - 1) / (n - m) * rho * V[n - 2, m]
                W[n, m] = W[n, m] - (n + m - 1) / (n - m) * rho * W[n - 2, m]
    return V, W


def gravity_field(position):
    """Acceleration in km/s², in the Earth's rotating frame, at a position in km."""
    V, W = solid_harmonics(position)
    ax, ay, az = 0.0, 0.0, 0.0
    for n in range(DEGREE + 1):
        ax = ax - C[n, 0] * V[n + 1, 1]
        ay = ay - C[n, 0] * W[n + 1, 1]
        az = az - (n + 1) * C[n, 0] * V[n + 1, 0]
        for m in range(1, n + 1):
            factor = 0.5 * (n - m + 2) * (n - m + 1)
            ax = ax + 0.5 * (-C[n, m] * V[n + 1, m + 1] - S[n, m] * W[n + 1, m + 1])
            ax = ax + factor * (C[n, m] * V[n + 1, m - 1] + S[n, m] * W[n + 1, m - 1])
            ay = ay + 0.5 * (-C[n, m] * W[n + 1, m + 1] + S[n, m] * V[n + 1, m + 1])
            ay = ay + factor * (-C[n, m] * W[n + 1, m - 1] + S[n, m] * V[n + 1, m - 1])
            az = az + (n - m + 1) * (-C[n, m] * V[n + 1, m] - S[n, m] * W[n + 1, m])
    return GM / RADIUS**2 * np.array([ax, ay, az])


def example_point():
    """Seven hundred kilometres above the ground."""
    return np.array([4500.0, -3200.0, 4400.0])


def sample(points, seed=0):
    """Random places between 200 and 2000 km above the ground: array (points, 3)."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=(points, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * random.uniform(6580.0, 8380.0, (points, 1))
