"""Stress in compressible rubber: the deformation gradient (9) in, the first Piola-Kirchhoff stress (9) out.

The Jacobian is the tangent modulus that a finite-element code asks for at every quadrature point.

Source: J. Bonet, R. D. Wood, Nonlinear Continuum Mechanics for Finite Element Analysis, section 6.4.3: the compressible
neo-Hookean material, P = μ (F - F⁻ᵀ) + λ ln(det F) F⁻ᵀ.
"""

import numpy as np

MU, LAMBDA = 0.4, 1.1


def neo_hookean(deformation):
    """Stress by rows, in MPa."""
    F = deformation.reshape(3, 3)
    cofactor = np.array([np.cross(F[1], F[2]), np.cross(F[2], F[0]), np.cross(F[0], F[1])])
    volume = np.dot(F[0], cofactor[0])
    inverse_transposed = cofactor / volume
    stress = MU * (F - inverse_transposed) + LAMBDA * np.log(volume) * inverse_transposed
    return stress.reshape(9)


def example_point():
    """Stretched and sheared."""
    return np.array([1.2, 0.1, -0.05, 0.2, 0.9, 0.15, 0.0, -0.1, 1.05])


def sample(points, seed=0):
    """Random deformations that keep the orientation: array (points, 9)."""
    return np.eye(3).reshape(9) + np.random.default_rng(seed).uniform(-0.25, 0.25, (points, 9))
