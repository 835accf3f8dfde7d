"""Lightness, redness and yellowness of a colour under given light, by CIECAM02: 3 inputs, 3 outputs.

Inputs are tristimulus values. Gamut mapping and the calibration of displays invert this by Newton's method.

Source: N. Moroney, M. D. Fairchild, R. W. G. Hunt, C. Li, M. R. Luo, T. Newman, The CIECAM02 color appearance model,
10th Color and Imaging Conference (2002) 23-27; average surround, daylight D65, adapted completely.
"""

import numpy as np

ADAPTATION = np.array([[0.7328, 0.4296, -0.1624], [-0.7036, 1.6975, 0.0061], [0.0030, 0.0136, 0.9834]])
#: From those to cones, by way of tristimulus values.
CONES = np.array(
    [[0.38971, 0.68898, -0.07868], [-0.22981, 1.18340, 0.04641], [0.0, 0.0, 1.0]],
) @ np.linalg.inv(ADAPTATION)
WHITE = np.array([95.05, 100.0, 108.88])
LUMINANCE, BACKGROUND, SURROUND, CHROMATIC = 0.2731, 0.2, 0.69, 1.0
INDUCTION = 0.725 * (1.0 / BACKGROUND) ** 0.2
EXPONENT = 1.48 + np.sqrt(BACKGROUND)


def responses(tristimulus):
    """Of the cones, after adaptation and compression."""
    adapted = np.dot(ADAPTATION, tristimulus) * (100.0 / np.dot(ADAPTATION, WHITE))
    compressed = (LUMINANCE * np.dot(CONES, adapted) / 100.0) ** 0.42
    return 400.0 * compressed / (compressed + 27.13) + 0.1


def achromatic(red, green, blue):
    """Response to brightness."""
    return (2.0 * red + green + blue / 20.0 - 0.305) * INDUCTION


def color_appearance(tristimulus):
    """J, and M cos h, M sin h."""
    red, green, blue = responses(tristimulus)
    redness = red - 12.0 * green / 11.0 + blue / 11.0
    yellowness = (red + green - 2.0 * blue) / 9.0
    lightness = 100.0 * (achromatic(red, green, blue) / achromatic(*responses(WHITE))) ** (SURROUND * EXPONENT)
    size = np.sqrt(redness**2 + yellowness**2)
    # cos(h + 2) by the sum of angles
    eccentricity = 0.25 * (3.8 + (np.cos(2.0) * redness - np.sin(2.0) * yellowness) / size)
    strength = 50000.0 / 13.0 * CHROMATIC * INDUCTION * eccentricity * size / (red + green + 1.05 * blue)
    chroma = strength**0.9 * np.sqrt(lightness / 100.0) * (1.64 - 0.29**BACKGROUND) ** 0.73
    colorfulness = chroma * LUMINANCE**0.25
    return np.array([lightness, colorfulness * redness / size, colorfulness * yellowness / size])


def example_point():
    """A warm grey."""
    return np.array([40.0, 35.0, 25.0])


def sample(points, seed=0):
    """Random colours that are not grey: array (points, 3)."""
    random = np.random.default_rng(seed)
    bright = random.uniform(15.0, 80.0, (points, 1))
    return bright * random.uniform([1.05, 0.85, 0.5], [1.3, 1.0, 0.8], (points, 3))
