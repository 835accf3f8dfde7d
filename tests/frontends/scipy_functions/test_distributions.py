"""Distributions of scipy.stats: values against SciPy, derivatives by x, shapes, loc and scale against mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from differences import differences
from scipy import stats
from scipy.stats import norm

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.scipy.special import DISTRIBUTIONS

SHAPES = {"lognorm": (0.7,), "gamma": (2.3,), "chi2": (3.4,), "beta": (2.3, 1.6), "f": (4.3, 5.2), "t": (4.5,)}
#: Distributions whose functions are differentiated by quadrature: at fewer points, in one target.
BY_QUADRATURE = ("gamma", "chi2", "beta", "f", "t")
METHODS = [(name, method) for name, functions in DISTRIBUTIONS.items() for method in {**functions, "pdf": None}]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "method"), METHODS)
@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_values_and_derivatives(name, method, target):
    function = getattr(getattr(stats, name), method)
    quantile = method in ("ppf", "isf")
    few = name in BY_QUADRATURE and method in ("cdf", "sf", "ppf", "isf")
    if few and target == "numpy":
        pytest.skip("the same formulas")
    loc, scale = 0.2, 1.3
    inside = np.array([0.05, 0.4, 0.93]) if quantile else np.array([0.3, 0.6, 1.1])
    inside = inside[1:2] if few else inside
    points = inside if quantile else np.append(inside, -3.0) if few else np.append(inside, [-3.0, 9.0])
    shapes = SHAPES.get(name, ())
    parameters = np.array([*shapes, loc, scale])

    def f(x, p):
        return function(x, *(p[k] for k in range(len(parameters))))

    both = acc.value_and_jacobian(f, argnums=(0, 1), target=target, effort="fast", cache=False)
    values, (by_x, by_parameters) = both(points, parameters)
    np.testing.assert_allclose(values, function(points, *parameters), rtol=1e-12, atol=1e-300)
    by_x = np.diagonal(by_x)
    step = 1e-5
    for k, x in enumerate(inside):
        difference = (function(x + step, *parameters) - function(x - step, *parameters)) / (2 * step)
        assert by_x[k] == pytest.approx(difference, rel=1e-6, abs=1e-8)
        for j in range(len(parameters)):
            moved = step * np.eye(len(parameters))[j]
            difference = (function(x, *(parameters + moved)) - function(x, *(parameters - moved))) / (2 * step)
            assert by_parameters[k, j] == pytest.approx(difference, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("z", [-30.0, -8.0, -1.5, 0.0, 2.5, 8.0])
def test_the_normal_distribution_in_its_tails(z):
    with mp.workdps(50):
        below = mp.erfc(-mp.mpf(z) / mp.sqrt(2)) / 2
        above = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
        density = mp.exp(-(mp.mpf(z) ** 2) / 2) / mp.sqrt(2 * mp.pi)
        expected = {
            "logcdf": (mp.log(below) if z < 0 else mp.log1p(-above), density / below),
            "logsf": (mp.log(above) if z > 0 else mp.log1p(-below), -density / above),
            "cdf": (below, density),
            "sf": (above, -density),
            "pdf": (density, -z * density),
            "logpdf": (mp.log(density), -z),
        }
    for method, pair in expected.items():
        value, slope = acc.value_and_jacobian(getattr(norm, method), cache=False)(z)
        # exp and erfc of squares lose as many units as the square is large
        tolerance = 1e-15 * (10 + z * z)
        np.testing.assert_allclose([value, slope], [float(pair[0]), float(pair[1])], rtol=tolerance, atol=1e-300)


def test_quantiles_in_the_tails():
    both = acc.value_and_jacobian(norm.ppf, cache=False)
    for q in (1e-300, 1e-20, 0.3, 0.5, 0.999):
        value, slope = both(q)
        with mp.workdps(400):
            exact = mp.findroot(lambda x, q=q: mp.log(mp.ncdf(x) / q), norm.ppf(q))
            density = mp.npdf(exact)
        np.testing.assert_allclose([value, slope], [float(exact), float(1 / density)], rtol=1e-12, atol=1e-16)


def test_frozen_distributions_and_batches():
    frozen = norm(loc=1.0, scale=2.0)
    both = acc.value_and_jacobian(lambda x: frozen.logpdf(x) + stats.norm.cdf(x, scale=0.5), cache=False)
    X = np.linspace(-3.0, 3.0, 50)
    values, slopes = both.batch(X)
    np.testing.assert_allclose(values, frozen.logpdf(X) + norm.cdf(X, scale=0.5), rtol=1e-13)
    np.testing.assert_allclose(slopes, -(X - 1.0) / 4.0 + norm.pdf(X, scale=0.5), rtol=1e-12, atol=1e-15)


def test_a_scale_that_is_not_positive_gives_nan():
    both = acc.value_and_jacobian(lambda s: norm.pdf(0.3, scale=s), cache=False)
    assert np.isnan(both.batch(np.array([-1.0, 0.0, 1.0]))[0]).tolist() == [True, True, False]


@pytest.mark.parametrize("cov", [np.array([[2.0, 0.3], [0.3, 0.5]]), np.array([2.0, 0.5]), 1.5])
def test_several_normal_variables(cov):
    mean = np.array([0.5, -1.0])

    def f(x):
        return stats.multivariate_normal.logpdf(x, mean, cov) + stats.multivariate_normal.pdf(x, mean, cov)

    x = np.array([0.1, 0.4])
    value, slopes = acc.value_and_jacobian(f, cache=False)(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    np.testing.assert_allclose(slopes, differences(f, x), rtol=1e-7)


PLACES = np.array([[0.1, 0.4], [1.0, -0.5], [0.3, 0.2]])
OUTSIDE = stats.multivariate_normal([0.1, 0.2], [[2.0, 0.3], [0.3, 1.0]])


def covariance(p):
    return np.array([[p[0], p[1]], [p[1], p[2]]])


@pytest.mark.parametrize(
    "density",
    [
        lambda p: stats.multivariate_normal.logpdf(PLACES, [p[3], 0.1], covariance(p)),
        lambda p: stats.multivariate_normal.pdf(PLACES[0], mean=np.zeros(2), cov=covariance(p)),
        lambda p: stats.multivariate_normal(np.stack([p[3], 0.1]), covariance(p)).logpdf(PLACES),
        lambda p: stats.multivariate_normal(cov=covariance(p)).pdf(PLACES),
        lambda p: stats.multivariate_normal(cov=covariance(p)).logpdf(PLACES[:1]),
        lambda p: OUTSIDE.logpdf(p[:2]) + OUTSIDE.pdf(p[2:]),
        lambda p: stats.multivariate_normal.logpdf(0.4, p[3], p[0]),
        lambda p: stats.multivariate_normal.logpdf(PLACES, [0.0, 0.0], p[0]),
        lambda p: stats.multivariate_normal.logpdf(PLACES, [0.0, 0.0], np.stack([p[0], p[2]])),
    ],
)
def test_normal_variables_with_traced_parameters(density):
    p = np.array([1.2, 0.3, 0.8, -0.2])
    for target in ("llvm", "numpy"):
        np.testing.assert_allclose(acc.jacobian(density, target=target)(p), differences(density, p), atol=1e-9)
    gradient, hessian = (kind(lambda p: np.sum(density(p))) for kind in (acc.gradient, acc.hessian))
    np.testing.assert_allclose(hessian(p), differences(gradient, p), atol=1e-9)


@pytest.mark.filterwarnings("ignore::accumulus.errors.NaNWarning")
def test_a_covariance_that_is_not_positive_definite_gives_nan():
    density = acc.compile(lambda p: stats.multivariate_normal.logpdf([0.1, 0.2], cov=covariance(p)), check=False)
    assert np.isnan(density(np.array([1.0, 2.0, 1.0])))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: stats.invgauss.cdf(x, 2.0),
        lambda x: stats.weibull_min.pdf(x, 2.0),
        lambda x: stats.poisson.pmf(3, x),
        lambda x: stats.multivariate_normal.logpdf([0.1, 0.2], [0.0, 0.0], x * np.eye(2), allow_singular=True),
        lambda x: stats.multivariate_normal.cdf([0.1, 0.2], [0.0, 0.0], x * np.eye(2)),
        lambda x: stats.multivariate_normal([0.0, 0.0], x * np.eye(2)).cdf([0.1, 0.2]),
    ],
)
def test_refusals(function):
    with pytest.raises(TraceError, match=r"test_distributions\.py"):
        acc.jacobian(function, cache=False)(1.5)
