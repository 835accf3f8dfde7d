"""Reflectance and phase of three thin films on glass at normal incidence: 7 inputs, 2 outputs.

Inputs are the films' thicknesses and refractive indices, and the wavelength. Designs of coatings are optimised over
hundreds of wavelengths.

Source: H. A. Macleod, Thin-Film Optical Filters, chapter 2 (characteristic matrices); films without absorption, so that
diagonals are real and the rest is imaginary.
"""

import numpy as np

OUTSIDE, GLASS = 1.0, 1.52


def thin_films(design):
    """Reflectance, tangent of half of the phase; design = thicknesses in nm (3), indices (3), wavelength in nm."""
    wavelength = design[6]
    a, b, c, d = 1.0, 0.0, 0.0, 1.0  # [[a, i b], [i c, d]]
    for thickness, index in zip(design[0:3], design[3:6], strict=True):
        phase = 2.0 * np.pi * index * thickness / wavelength
        cosine, sine = np.cos(phase), np.sin(phase)
        a, b, c, d = (
            a * cosine - b * index * sine,
            a * sine / index + b * cosine,
            c * cosine + d * index * sine,
            d * cosine - c * sine / index,
        )
    # field and its slope at the front, each real and imaginary
    field, field_imaginary, slope, slope_imaginary = a, b * GLASS, d * GLASS, c
    real, imaginary = OUTSIDE * field - slope, OUTSIDE * field_imaginary - slope_imaginary
    real_below, imaginary_below = OUTSIDE * field + slope, OUTSIDE * field_imaginary + slope_imaginary
    below = real_below**2 + imaginary_below**2
    size = (real**2 + imaginary**2) / below
    real_part = (real * real_below + imaginary * imaginary_below) / below
    imaginary_part = (imaginary * real_below - real * imaginary_below) / below
    return np.array([size, imaginary_part / (np.sqrt(size) + real_part + 1e-3)])


def example_point():
    """An antireflection coating."""
    return np.array([90.0, 120.0, 95.0, 1.7, 2.1, 1.38, 550.0])


def sample(points, seed=0):
    """Random coatings: array (points, 7)."""
    low = np.array([60.0, 80.0, 60.0, 1.6, 2.0, 1.35, 420.0])
    high = np.array([120.0, 160.0, 120.0, 1.8, 2.3, 1.45, 680.0])
    return np.random.default_rng(seed).uniform(low, high, (points, 7))
