"""Distances of SciPy, and Rosenbrock's function: values are SciPy's, derivatives those of differences."""

from __future__ import annotations

import numpy as np
import pytest
from differences import differences
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from inside import evaluate
from scipy import optimize
from scipy.spatial import distance

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record

V = np.array([0.9, -0.4, 1.7, 0.2])
WEIGHTS = np.array([0.5, 2.0, 0.0, 1.5])
INVERSE = np.array([[2.0, 0.3, 0.0, 0.0], [0.3, 1.0, 0.2, 0.0], [0.0, 0.2, 3.0, 0.1], [0.0, 0.0, 0.1, 1.0]])
DISTANCES = {
    **{
        name: lambda x, name=name: getattr(distance, name)(x[:4], x[4:])
        for name in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra")
    },
    **{
        f"{name}, weighted": lambda x, name=name: getattr(distance, name)(x[:4], x[4:], w=WEIGHTS)
        for name in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra")
    },
    "braycurtis": lambda x: distance.braycurtis(x[:4], x[4:]),
    "braycurtis, weighted": lambda x: distance.braycurtis(x[:4], x[4:], WEIGHTS),
    "minkowski 3": lambda x: distance.minkowski(x[:4], x[4:], 3),
    "minkowski 1.5": lambda x: distance.minkowski(x[:4], x[4:], p=1.5, w=WEIGHTS),
    "minkowski 1": lambda x: distance.minkowski(x[:4], x[4:], 1, WEIGHTS),
    "minkowski inf": lambda x: distance.minkowski(x[:4], x[4:], np.inf, WEIGHTS),
    "seuclidean": lambda x: distance.seuclidean(x[:4], x[4:], [0.5, 2.0, 1.0, 3.0]),
    "mahalanobis": lambda x: distance.mahalanobis(x[:4], x[4:], INVERSE),
    "jensenshannon": lambda x: distance.jensenshannon(np.exp(x[:4]), np.exp(x[4:])),
    "jensenshannon, base 2": lambda x: distance.jensenshannon(np.exp(x).reshape(4, 2), np.ones((4, 2)), 2.0, axis=0),
    "rosen": optimize.rosen,
    "rosen of a matrix": lambda x: optimize.rosen(x.reshape(4, 2)),
    "rosen_der": optimize.rosen_der,
    "rosen_hess": optimize.rosen_hess,
    "rosen_hess_prod": lambda x: optimize.rosen_hess_prod(x[:4], x[4:]),
}


@pytest.fixture(scope="module", params=DISTANCES)
def function(request):
    return DISTANCES[request.param]


@settings(max_examples=4)
@given(x=arrays(float, 8, elements=st.floats(-3.0, 3.0).map(lambda x: round(x, 2) + 0.001)))
def test_values(function, x):
    with np.errstate(all="ignore"):
        expected = np.ravel(function(x))
    actual = evaluate(record(function, [x]).tape, x.tolist())
    np.testing.assert_allclose(np.array(actual, float), expected, rtol=1e-9, atol=1e-9)


def test_derivatives(function):
    x = np.array([0.31, -0.52, 1.13, 0.74, *V])
    actual = acc.jacobian(function, effort="fast", optimise=False)(x)
    expected = differences(function, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-8 * (1.0 + np.abs(expected).max()))


def test_mistakes_are_named_in_the_error():
    with pytest.raises(TraceError, match="p has to be a constant"):
        acc.jacobian(lambda x: distance.minkowski(x, V, x[0]))(V)
    with pytest.raises(ValueError, match="p must be greater than 0"):
        acc.jacobian(lambda x: distance.minkowski(x, V, -1))(V)
    with pytest.raises(ValueError, match="should be 1-D"):
        acc.jacobian(lambda x: distance.cityblock(x, V))(np.ones((2, 2)))
    with pytest.raises(ValueError, match="is differentiated at a vector"):
        acc.jacobian(optimize.rosen_hess)(np.ones((2, 2)))
