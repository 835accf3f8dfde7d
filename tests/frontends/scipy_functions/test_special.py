"""Functions of scipy.special: compiled values and derivatives against SciPy and mpmath, in both targets."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from agreement import assert_agrees
from scipy import special

import accumulus as acc
from accumulus.errors import TraceError

#: Function of SciPy, the same in mpmath, and points.
CASES = {
    "gamma": (special.gamma, mp.gamma, [0.3, 1.7, 4.5, 12.5, -1.3]),
    "gammaln": (special.gammaln, mp.loggamma, [0.3, 1.7, 4.5, 12.5]),
    "psi": (special.psi, mp.digamma, [0.3, 1.7, 4.5, 12.5, -1.3, -0.2]),
    "digamma": (special.digamma, mp.digamma, [0.3, 1.7]),
    "polygamma 1": (lambda x: special.polygamma(1, x), lambda x: mp.polygamma(1, x), [0.3, 4.5, 30.0]),
    "polygamma 3": (lambda x: special.polygamma(3, x), lambda x: mp.polygamma(3, x), [0.3, 4.5, 30.0]),
    "zeta": (lambda q: special.zeta(2.5, q), lambda q: mp.zeta(mp.mpf(2.5), q), [0.3, 4.5]),
    "beta": (lambda x: special.beta(x, 2.5), lambda x: mp.beta(x, 2.5), [0.3, 4.5, 150.0, 250.0]),
    "betaln": (lambda x: special.betaln(2.5, x), lambda x: mp.log(mp.beta(x, 2.5)), [0.3, 4.5, 30.0]),
    "binom": (lambda x: special.binom(x, 2.5), lambda x: mp.binomial(x, 2.5), [4.5, 9.3]),
    "erfinv": (special.erfinv, mp.erfinv, [-0.9, 0.1, 0.999]),
    "erfcinv": (special.erfcinv, lambda y: mp.erfinv(1 - y), [0.1, 1.3]),
    "ndtri": (special.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [1e-5, 0.2, 0.5, 0.93]),
    "log_ndtr": (special.log_ndtr, lambda x: mp.log(mp.ncdf(x)), [-12.0, -0.5, 2.0]),
    "erfcx": (special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), [-1.0, 0.4, 8.0]),
    "j0": (special.j0, mp.j0, [0.4, 3.0, 20.0]),
    "j1": (special.j1, mp.j1, [0.4, 3.0, 20.0]),
    "jn": (lambda x: special.jn(3, x), lambda x: mp.besselj(3, x), [0.4, 3.0, 20.0]),
    "jv": (lambda x: special.jv(-2, x), lambda x: mp.besselj(-2, x), [0.4, 3.0, 20.0]),
    "y0": (special.y0, lambda x: mp.bessely(0, x), [0.4, 3.0, 20.0]),
    "yn": (lambda x: special.yn(2, x), lambda x: mp.bessely(2, x), [0.4, 3.0, 20.0]),
    "yv": (lambda x: special.yv(-3, x), lambda x: mp.bessely(-3, x), [0.4, 3.0, 20.0]),
    "i0": (special.i0, lambda x: mp.besseli(0, x), [-0.4, 0.0, 3.0, 20.0]),
    "i1": (special.i1, lambda x: mp.besseli(1, x), [-0.4, 0.0, 3.0, 20.0]),
    "i0e": (special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [-0.4, 3.0, 20.0]),
    "i1e": (special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), [-0.4, 3.0, 20.0]),
    "iv": (lambda x: special.iv(-1, x), lambda x: mp.besseli(1, x), [0.4, 3.0]),
    "iv 4": (lambda x: special.iv(4, x), lambda x: mp.besseli(4, x), [-2.0, 0.4, 30.0]),
    "ive": (lambda x: special.ive(-3, x), lambda x: mp.exp(-abs(x)) * mp.besseli(3, x), [-2.0, 0.4, 30.0, 600.0]),
    "np.i0": (np.i0, lambda x: mp.besseli(0, x), [-0.4, 3.0, 20.0]),
    "k0": (special.k0, lambda x: mp.besselk(0, x), [0.4, 3.0, 20.0]),
    "kn": (lambda x: special.kn(4, x), lambda x: mp.besselk(4, x), [0.4, 3.0, 20.0]),
    "kve": (lambda x: special.kve(2, x), lambda x: mp.exp(x) * mp.besselk(2, x), [0.4, 3.0, 20.0]),
    "exprel": (special.exprel, lambda x: mp.expm1(x) / x, [-3.0, 1e-9, 0.3, 2.0]),
    "cosm1": (special.cosm1, lambda x: -2 * mp.sin(x / 2) ** 2, [1e-9, 0.4]),
    "boxcox": (lambda x: special.boxcox(x, 0.3), lambda x: (x ** mp.mpf(0.3) - 1) / mp.mpf(0.3), [0.2, 3.0]),
    "boxcox 0": (lambda x: special.boxcox(x, 0.0), mp.log, [0.2, 3.0]),
    "inv_boxcox": (
        lambda y: special.inv_boxcox(y, 0.3),
        lambda y: (y * mp.mpf(0.3) + 1) ** (1 / mp.mpf(0.3)),
        [0.2, 3.0],
    ),
    "legendre": (lambda x: special.eval_legendre(5, x), lambda x: mp.legendre(5, x), [-0.3, 0.0, 0.8]),
    "chebyt": (lambda x: special.eval_chebyt(6, x), lambda x: mp.chebyt(6, x), [-0.3, 0.8]),
    "chebyu": (lambda x: special.eval_chebyu(3, x), lambda x: mp.chebyu(3, x), [-0.3, 0.8]),
    "hermite": (lambda x: special.eval_hermite(5, x), lambda x: mp.hermite(5, x), [-0.3, 2.8]),
    "laguerre": (lambda x: special.eval_laguerre(4, x), lambda x: mp.laguerre(4, 0, x), [-0.3, 2.8]),
    "spherical_jn": (
        lambda x: special.spherical_jn(2, x),
        lambda x: mp.sqrt(mp.pi / 2 / x) * mp.besselj(2.5, x),
        [0.4, 3.0],
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    function, exact, points = CASES[name]
    with mp.workdps(40):
        values = [float(mp.re(exact(mp.mpf(x)))) for x in points]
        slopes = [float(mp.re(mp.diff(exact, mp.mpf(x)))) for x in points]
    for target in ("llvm", "numpy"):
        both = acc.value_and_jacobian(function, target=target, cache=False)
        for x, value, slope in zip(points, values, slopes, strict=True):
            np.testing.assert_allclose(both(x), (value, slope), rtol=2e-12, atol=1e-14, err_msg=f"{target}, {x}")
        batch = both.batch(np.array(points))
        np.testing.assert_allclose(batch[0], values, rtol=2e-12, atol=1e-14)
        np.testing.assert_allclose(batch[1].ravel(), slopes, rtol=2e-12, atol=1e-14)


def test_second_derivatives():
    hessian = acc.jacobian(lambda x: special.psi(x[0]) * special.zeta(3, x[1]), cache=False)
    x = np.array([2.3, 1.7])
    expected = [
        float(mp.polygamma(1, 2.3) * mp.zeta(3, 1.7)),
        float(-3 * mp.digamma(2.3) * mp.zeta(4, mp.mpf(1.7))),
    ]
    np.testing.assert_allclose(hessian(x), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "function",
    [
        special.logsumexp,
        lambda x: special.logsumexp(x, axis=0),
        lambda x: special.logsumexp(x, axis=1, keepdims=True),
        lambda x: special.logsumexp(x, b=np.array([1.0, 0.0, 2.0])),
        special.softmax,
        lambda x: special.softmax(x, axis=1),
        lambda x: special.log_softmax(x, axis=0),
    ],
)
def test_functions_of_axes(function):
    x = np.array([[1.0, -2.0, 700.0], [3.0, 0.5, -800.0]])
    assert_agrees(function, [x / 100], [x])
    jacobian = acc.jacobian(function, cache=False)
    step = 1e-6
    for k in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[k] = step
        difference = (function(x / 100 + moved) - function(x / 100 - moved)) / (2 * step)
        np.testing.assert_allclose(jacobian(x / 100)[(..., *k)], difference, rtol=1e-6, atol=1e-8)


def test_logsumexp_at_infinities():
    function = acc.value_and_jacobian(special.logsumexp, cache=False)
    value, slopes = function(np.array([1.0, -np.inf, 2.0]))
    assert value == pytest.approx(np.logaddexp(1.0, 2.0), rel=1e-15)
    np.testing.assert_allclose(slopes, special.softmax([1.0, -np.inf, 2.0]), rtol=1e-15)
    assert function(np.array([-np.inf, -np.inf]))[0] == -np.inf


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: special.eval_legendre(x, 2.0), r"order of scipy\.special\.eval_legendre depends"),
        (lambda x: special.kn(0.5, x), r"order of scipy\.special\.kn is 0\.5"),
        (lambda x: special.zeta(x, 2.0), r"zeta.*derivative with respect to its first argument"),
        (lambda x: special.polygamma(x, 2.0), r"polygamma.*order"),
        (lambda x: special.smirnov(3, x), r"smirnov.*not recorded"),
    ],
)
def test_refusals(function, message):
    with pytest.raises(TraceError, match=rf"(?s)test_special\.py.*{message}"):
        acc.jacobian(function, cache=False)(1.5)


@pytest.mark.parametrize("name", ["beta", "betaln", "binom"])
def test_signs_and_poles_of_beta_are_those_of_scipy(name):
    numbers = [-12.0, -11.5, -3.0, -2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 5.0, 7.0, 12.0, 40.0]
    points = np.array([(a, b) for a in numbers for b in numbers if a > 0 or b > 0 or name == "binom"])
    function = getattr(special, name)
    compiled = acc.compile(lambda x: function(x[0], x[1]), target="numpy", effort="fast", cache=False)
    expected = function(points[:, 0], points[:, 1])
    np.testing.assert_allclose(compiled.batch(points), expected, rtol=1e-6, atol=1e-12)  # SciPy's own errors
