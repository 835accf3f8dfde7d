"""Taylor coefficients of functions against JAX's jet and closed forms: paths, batches, cases, equations, nesting."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet

import accumulus as acc
from accumulus.errors import ArgumentError

QUICK = {"effort": "fast", "cache": False}
ORDER = 4


def waves(x, a):
    return {"waves": np.sin(x * a) * np.exp(-(x[::-1] ** 2)) / (1.0 + x**2), "sum": np.sum(np.log(2.0 + x))}


def waves_of_jax(x, a):
    return {"waves": jnp.sin(x * a) * jnp.exp(-(x[::-1] ** 2)) / (1.0 + x**2), "sum": jnp.sum(jnp.log(2.0 + x))}


EXPANDED = acc.taylor(waves, **QUICK)
RNG = np.random.default_rng(1)
X, OF_X, OF_A = RNG.uniform(-1.0, 1.0, 3), RNG.uniform(-1.0, 1.0, (ORDER, 3)), RNG.uniform(-1.0, 1.0, ORDER)


def test_coefficients_are_those_of_jet():
    factorials = [math.factorial(k) for k in range(1, ORDER + 1)]
    with jax.enable_x64(True):
        series = [[row * factor for row, factor in zip(each, factorials, strict=True)] for each in (OF_X, OF_A)]
        value, derivatives = jet(waves_of_jax, (X, 1.3), series)
    actual, coefficients = EXPANDED((X, 1.3), (OF_X, OF_A))
    for name in ("waves", "sum"):
        expected = np.stack([np.asarray(d) / factor for d, factor in zip(derivatives[name], factorials, strict=True)])
        np.testing.assert_allclose(actual[name], value[name], rtol=1e-14)
        np.testing.assert_allclose(coefficients[name], expected, rtol=1e-12, atol=1e-13)


def test_the_first_coefficient_is_the_product_with_a_direction():
    _, expected = acc.jvp(waves, **QUICK)((X, 1.3), (OF_X[0], None))
    for series in (OF_X[0], OF_X[:1]):
        _, actual = EXPANDED((X, 1.3), (series, None))
        np.testing.assert_allclose(np.ravel(actual["waves"]), expected["waves"], rtol=1e-13)


@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_batches_are_points_one_by_one(target):
    points, paths = RNG.uniform(-1.0, 1.0, (7, 3)), RNG.uniform(-1.0, 1.0, (7, ORDER, 3))
    _, actual = acc.taylor(waves, target=target, **QUICK).batch((points, 1.3), (paths, None))
    for k in range(7):
        _, expected = EXPANDED((points[k], 1.3), (paths[k], None))
        np.testing.assert_allclose(actual["waves"][k], expected["waves"], rtol=1e-13, atol=1e-15)
    assert actual["sum"].shape == (7, ORDER)


def deciding(x):
    turns = 0.0
    while x > 1.0:
        x, turns = x / 2.0, turns + 1.0
    return (np.sin(x) if x > 0.7 else x * x) + turns


def test_functions_that_decide_have_a_case_each():
    x = np.array([3.0, 0.5, 1.9])
    values, actual = acc.taylor(deciding, **QUICK).batch((x,), (np.tile([1.0, 0.0], (3, 1)),))
    np.testing.assert_allclose(values, [2.0 + math.sin(0.75), 0.25, 1.0 + math.sin(0.95)])
    sines = [[math.cos(y) / scale, -math.sin(y) / 2.0 / scale**2] for y, scale in ((0.75, 4.0), (0.95, 2.0))]
    np.testing.assert_allclose(actual, [sines[0], [1.0, 1.0], sines[1]], rtol=1e-13)


ROOT = acc.implicit(lambda y, p: y * y - p, steps=6)
MATRIX = np.array([[4.0, 1.0, 0.2, 0.3], [1.0, 5.0, 0.4, 0.1], [0.2, 0.7, 6.0, 1.0], [0.5, 0.1, 0.3, 4.0]])


def test_solutions_of_equations():
    _, actual = acc.taylor(lambda p: ROOT(1.0, p), **QUICK)((2.0,), (np.eye(1, 4)[0],))
    expected = [math.sqrt(2.0) * factor for factor in (1 / 4, -1 / 32, 1 / 128, -5 / 2048)]
    np.testing.assert_allclose(actual, expected, rtol=1e-12)

    def solved(p):
        return np.linalg.solve(MATRIX + p * np.eye(4), np.ones(4))

    _, actual = acc.taylor(solved, target="numpy", optimise=False, **QUICK)((0.2,), (np.eye(1, 2)[0],))
    inverse = np.linalg.inv(MATRIX + 0.2 * np.eye(4))
    np.testing.assert_allclose(
        actual, [-(inverse @ inverse @ np.ones(4)), inverse @ inverse @ inverse @ np.ones(4)], rtol=1e-12
    )


def test_coefficients_within_functions_have_derivatives():
    def third(x):
        return acc.taylor(np.sin)((x,), (np.array([1.0, 0.0, 0.0]),))[1][2] * 6.0

    assert math.isclose(acc.gradient(third, **QUICK)(0.3), math.sin(0.3), rel_tol=1e-13)
    slope = acc.gradient(lambda p: acc.taylor(lambda q: ROOT(1.0, q))((p,), (np.eye(1, 2)[0],))[1][1], **QUICK)
    assert math.isclose(slope(2.0), 0.1875 * 2.0**-2.5, rel_tol=1e-12)


def test_long_arrays():
    x = np.linspace(0.0, 1.0, 300)
    _, actual = acc.taylor(lambda x: np.sum(np.exp(x)), **QUICK)((x,), (np.stack([np.ones(300), np.zeros(300)]),))
    np.testing.assert_allclose(actual, [np.exp(x).sum(), np.exp(x).sum() / 2.0], rtol=1e-13)


@pytest.mark.parametrize(
    ("series", "match"),
    [
        (((OF_X[:, :2]), None), r"series.*shape \(4, 2\).*the coefficients of t"),
        ((OF_X, OF_A[:3]), "series .* first axes of different lengths"),
        ((None, None), "all series .* None"),
        ((np.ones((0, 3)), None), "no series"),
        ((OF_X,), "expected the same structure"),
    ],
)
def test_series_that_fit_no_path_are_refused(series, match):
    with pytest.raises(ArgumentError, match=match):
        EXPANDED((X, 1.3), series)


def test_bad_calls_are_refused():
    with pytest.raises(ArgumentError, match="expected primals and series"):
        EXPANDED((X, 1.3))
    with pytest.raises(ArgumentError, match="sparse"):
        acc.taylor(waves, sparse="csr")
