"""The cyclic 6-roots problem: 6 polynomial equations in 6 unknowns.

Equation k says that the sum of all products of k neighbours in the circle is zero, the last that the product of all is
one. Newton's method and homotopy continuation differentiate it.

Source: G. Björck, Functions of modulus one on Zn whose Fourier transforms have constant modulus, 1989; a standard test
of solvers of polynomial systems.
"""

import numpy as np


def cyclic(x):
    """Residuals of the equations."""
    n = x.size
    equations = [np.sum(x)]
    for k in range(2, n):
        products = [np.prod(np.array([x[(i + j) % n] for j in range(k)])) for i in range(n)]
        equations.append(np.sum(np.array(products)))
    equations.append(np.prod(x) - 1.0)
    return np.array(equations)


def example_point():
    """A point near the unit circle's real part."""
    return np.array([0.9, -1.1, 0.6, 1.3, -0.7, 0.8])


def sample(points, seed=0):
    """Random points: array (points, 6)."""
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (points, 6))
