"""Easting and northing on the transverse Mercator projection of the ellipsoid: 2 inputs, 2 outputs.

The Jacobian has the scale of the map and the convergence of its meridians, which surveyors need at every point.

Source: C. F. F. Karney, Transverse Mercator with an accuracy of a few nanometers, Journal of Geodesy 85 (2011) 475-485,
equations (7)-(11), (35), to the third order in the flattening (Krüger's series); WGS 84, scale 0.9996.
"""

import numpy as np

SEMI_MAJOR, FLATTENING, SCALE = 6378137.0, 1.0 / 298.257223563, 0.9996
ECCENTRICITY = np.sqrt(FLATTENING * (2.0 - FLATTENING))
THIRD = FLATTENING / (2.0 - FLATTENING)
RADIUS = SEMI_MAJOR / (1.0 + THIRD) * (1.0 + THIRD**2 / 4.0 + THIRD**4 / 64.0)
SERIES = (
    THIRD / 2.0 - 2.0 * THIRD**2 / 3.0 + 5.0 * THIRD**3 / 16.0,
    13.0 * THIRD**2 / 48.0 - 3.0 * THIRD**3 / 5.0,
    61.0 * THIRD**3 / 240.0,
)


def transverse_mercator(place):
    """Easting, northing in m from central meridian and equator; place = latitude, longitude from it, in rad."""
    latitude, longitude = place
    tangent = np.tan(latitude)
    root = np.sqrt(1.0 + tangent**2)
    sigma = np.sinh(ECCENTRICITY * np.arctanh(ECCENTRICITY * tangent / root))
    conformal = tangent * np.sqrt(1.0 + sigma**2) - sigma * root
    cosine = np.cos(longitude)
    north = np.arctan(conformal / cosine)
    east = np.arcsinh(np.sin(longitude) / np.sqrt(conformal**2 + cosine**2))
    northing = north + sum(c * np.sin(2.0 * k * north) * np.cosh(2.0 * k * east) for k, c in enumerate(SERIES, 1))
    easting = east + sum(c * np.cos(2.0 * k * north) * np.sinh(2.0 * k * east) for k, c in enumerate(SERIES, 1))
    return SCALE * RADIUS * np.array([easting, northing])


def example_point():
    """Three degrees off the meridian, in the middle latitudes."""
    return np.array([0.9, 0.05])


def sample(points, seed=0):
    """Random places: array (points, 2)."""
    return np.random.default_rng(seed).uniform([0.1, -0.1], [1.3, 0.1], (points, 2))
