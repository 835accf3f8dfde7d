"""Polynomials of numpy.polynomial, by value; products; quantiles of what is not missing."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from numpy import polynomial as families

import accumulus as acc
from accumulus.errors import TraceError

X = np.array([[0.3, -0.7, 1.9], [0.0, 1.0, -1.2]])
MODULES = {
    "polyval": families.polynomial,
    "chebval": families.chebyshev,
    "legval": families.legendre,
    "hermval": families.hermite,
    "hermeval": families.hermite_e,
    "lagval": families.laguerre,
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_values(name, degree):
    module, coefficients = MODULES[name], np.linspace(0.5, -1.5, degree + 1)
    assert_agrees(lambda x: getattr(module, name)(x, coefficients), [X], rtol=1e-12)
    assert_agrees(getattr(module, name), [X, coefficients], [-X, coefficients + 0.5], rtol=1e-12)


def test_several_polynomials_at_once_are_refused():
    with pytest.raises(TraceError, match="of one polynomial"):
        acc.jacobian(lambda x: families.polynomial.polyval(x, np.ones((2, 2))))(X[0])


def test_products_have_no_leading_zeros():
    assert_agrees(lambda a: np.polymul([0.0, 0.0, 2.0, 1.0], a), [np.array([3.0, 4.0, 5.0])])
    assert_agrees(lambda a: np.polymul(a, [0.0]), [np.array([3.0, 4.0, 5.0])])


def test_quantiles_skip_missing_numbers():
    def function(x):
        y = np.where(x > 1.0, np.nan, x)
        return np.nanmedian(y), np.nanmedian(y, axis=1), np.nanpercentile(y, [10.0, 90.0], axis=0)

    points = [np.array([[0.3, 2.0, -1.0], [0.5, 0.1, 0.9]]), np.array([[2.0, -3.0, 2.0], [0.5, 1.5, 0.9]])]
    assert_agrees(function, *([point] for point in points))


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("columns", [0, 1, 2, None, 5])
def test_vander_has_the_requested_number_of_columns(columns, increasing):
    def powers(x):
        return np.vander(x, columns, increasing)

    x = np.array([0.5, -2.0, 3.0])
    value, jacobian = acc.value_and_jacobian(powers, cache=False)(x)
    np.testing.assert_allclose(value, powers(x), rtol=1e-14)
    assert jacobian.shape == (*powers(x).shape, 3)
