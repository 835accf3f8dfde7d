"""The table of distributions of `scipy.stats`: every method that is recorded, in the middle, in tails, at ends."""

from __future__ import annotations

import numpy as np
from derivative_cases import Allowance, Case, mp
from scipy import stats

inf = float("inf")
LOG = mp.log


def _ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _ndtri(q):
    """By Newton's iteration on the logarithm of the nearer tail, from doubles."""
    if q > mp.mpf(1) / 2:
        return -_ndtri(1 - q)
    x = mp.mpf(float(stats.norm.ppf(float(q))))
    for _ in range(12 + int(mp.log(mp.dps, 2))):
        x -= (LOG(_ndtr(x)) - LOG(q)) * _ndtr(x) / (mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
    return x


#: Exceptions, which docs/numerics.md lists.
OF_LOG_NDTR = Allowance(
    "orders from 3 on: those of `log_ndtr`", 2048, applies=lambda point, exponents, target: sum(exponents) > 2
)
NEAR_MODE = Allowance("near the mode, where terms of both signs are small", 128.0)
LARGE_DF = Allowance("differences of `gammaln`", 1e5)
HALF = {0.0: (0.5, 0.25, 0.0, -0.125)}
MINUS_HALF = {0.0: (0.5, -0.25, 0.0, 0.125)}


def _norm_logpdf(x):
    return -x * x / 2 - LOG(2 * mp.pi) / 2


def _logistic_logpdf(x):
    return -abs(x) - 2 * mp.log1p(mp.exp(-abs(x)))


MIDDLE = (0.0, 0.5, -1.0, 3.0, -8.0, 20.0)
POSITIVE = (0.5, 1.0, 1e-3, 8.0, 40.0)
QUANTILES = (0.5, 0.1, 0.9, 1e-10, 0.999)
LOGNORM = ((0.5, 1.0), (1.0, 0.5), (8.0, 2.0), (1e-3, 0.7))
QUANTILE_SHAPES = ((0.5, 1.0), (0.1, 0.5), (0.99, 2.0))


def _lognorm(f):
    return lambda x, s: f(LOG(x) / s)


def _t_logpdf(x, df):
    return mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - LOG(df * mp.pi) / 2 - (df + 1) / 2 * mp.log1p(x * x / df)


def _gamma_logpdf(x, a):
    return (a - 1) * LOG(x) - x - mp.loggamma(a)


def _beta_logpdf(x, b):
    a = mp.mpf(5) / 2
    return (b - 1) * mp.log1p(-x) + (a - 1) * LOG(x) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)


def _of(name, method, *shapes):
    """The method of x, with shapes before or behind x."""
    return lambda *x: getattr(getattr(stats, name), method)(x[0], *shapes, *x[1:])


def _both(name, logpdf, points, **options):
    """A density and its logarithm."""
    return [
        Case(f"stats.{name}.logpdf", _of(name, "logpdf"), logpdf, points, **options),
        Case(f"stats.{name}.pdf", _of(name, "pdf"), lambda *x: mp.exp(logpdf(*x)), points, **options),
    ]


CASES = [
    *_both("norm", _norm_logpdf, (0.0, 0.5, -1.0, 3.0)),
    Case(
        "stats.norm.logpdf(loc, scale)",
        _of("norm", "logpdf"),
        lambda x, m, s: _norm_logpdf((x - m) / s) - LOG(s),
        ((0.5, 1.0, 2.0), (0.5, 0.5, 0.1)),
    ),
    Case("stats.norm.cdf", _of("norm", "cdf"), _ndtr, MIDDLE),
    Case("stats.norm.sf", _of("norm", "sf"), lambda x: _ndtr(-x), MIDDLE),
    Case(
        "stats.norm.logcdf",
        _of("norm", "logcdf"),
        lambda x: LOG(_ndtr(x)),
        (0.0, 0.5, -1.0, 3.0, -8.0, -40.0),
        allowances=(OF_LOG_NDTR,),
    ),
    Case(
        "stats.norm.logsf",
        _of("norm", "logsf"),
        lambda x: LOG(_ndtr(-x)),
        (0.0, 0.5, 1.0, -3.0, 8.0, 40.0),
        allowances=(OF_LOG_NDTR,),
    ),
    Case("stats.norm.ppf", _of("norm", "ppf"), _ndtri, QUANTILES, singular=(1.0,)),
    Case("stats.norm.isf", _of("norm", "isf"), lambda q: -_ndtri(q), QUANTILES, singular=(1.0,)),
    *_both("expon", lambda x: -x, POSITIVE),
    Case(
        "stats.expon.cdf",
        _of("expon", "cdf"),
        lambda x: -mp.expm1(-x),
        POSITIVE,
        at={-1.0: (0, 0, 0, 0, 0)},
    ),
    Case("stats.expon.sf", _of("expon", "sf"), lambda x: mp.exp(-x), POSITIVE, at={-1.0: (1, 0, 0, 0, 0)}),
    Case("stats.expon.logsf", _of("expon", "logsf"), lambda x: -x, POSITIVE, at={-1.0: (0, 0, 0, 0, 0)}),
    Case("stats.expon.ppf", _of("expon", "ppf"), lambda q: -mp.log1p(-q), QUANTILES, singular=(1.0,)),
    Case("stats.expon.isf", _of("expon", "isf"), lambda q: -LOG(q), QUANTILES),
    Case(
        "stats.uniform.pdf", _of("uniform", "pdf"), lambda x: x * 0 + 1, (0.5, 0.25), at={-1.0: (0,) * 5, 2.0: (0,) * 5}
    ),
    Case(
        "stats.uniform.cdf", _of("uniform", "cdf"), lambda x: x, (0.5, 0.25), at={-1.0: (0,) * 5, 2.0: (1, 0, 0, 0, 0)}
    ),
    Case(
        "stats.uniform.sf",
        _of("uniform", "sf"),
        lambda x: 1 - x,
        (0.5, 0.25),
        at={-1.0: (1, 0, 0, 0, 0), 2.0: (0,) * 5},
    ),
    Case("stats.uniform.ppf", _of("uniform", "ppf"), lambda q: q, (0.5, 0.25)),
    *_both("logistic", _logistic_logpdf, (0.5, -1.0, 3.0, -8.0, 20.0, 0.01), allowances=(NEAR_MODE,)),
    Case("stats.logistic.cdf", _of("logistic", "cdf"), lambda x: 1 / (1 + mp.exp(-x)), MIDDLE, at=HALF),
    Case("stats.logistic.sf", _of("logistic", "sf"), lambda x: 1 / (1 + mp.exp(x)), MIDDLE, at=MINUS_HALF),
    Case("stats.logistic.logcdf", _of("logistic", "logcdf"), lambda x: -mp.log1p(mp.exp(-x)), MIDDLE),
    Case("stats.logistic.logsf", _of("logistic", "logsf"), lambda x: -mp.log1p(mp.exp(x)), MIDDLE),
    Case("stats.logistic.ppf", _of("logistic", "ppf"), lambda q: LOG(q / (1 - q)), QUANTILES, singular=(1.0,)),
    Case("stats.logistic.isf", _of("logistic", "isf"), lambda q: -LOG(q / (1 - q)), QUANTILES, singular=(1.0,)),
    *_both("lognorm", lambda x, s: _norm_logpdf(LOG(x) / s) - LOG(x) - LOG(s), LOGNORM),
    Case("stats.lognorm.cdf", _of("lognorm", "cdf"), _lognorm(_ndtr), LOGNORM),
    Case("stats.lognorm.sf", _of("lognorm", "sf"), _lognorm(lambda x: _ndtr(-x)), LOGNORM),
    Case(
        "stats.lognorm.ppf", _of("lognorm", "ppf"), lambda q, s: mp.exp(s * _ndtri(q)), QUANTILE_SHAPES, singular=(1.0,)
    ),
    Case(
        "stats.lognorm.isf",
        _of("lognorm", "isf"),
        lambda q, s: mp.exp(-s * _ndtri(q)),
        QUANTILE_SHAPES,
        singular=(1.0,),
    ),
    *_both("gamma", _gamma_logpdf, ((0.5, 2.0), (3.0, 0.5), (1e-3, 4.5), (20.0, 30.0))),
    *[
        Case(
            f"stats.beta.{method}",
            lambda x, b, method=method: getattr(stats.beta, method)(x, 2.5, b),
            exact,
            ((0.5, 2.0), (0.1, 0.5), (0.99, 3.5)),
            singular=(1.0,),
            allowances=(NEAR_MODE,),
        )
        for method, exact in (("logpdf", _beta_logpdf), ("pdf", lambda x, b: mp.exp(_beta_logpdf(x, b))))
    ],
    *_both("t", _t_logpdf, ((0.0, 3.0), (0.5, 1.0), (-8.0, 2.5), (1e3, 5.0), (2.0, 200.0)), allowances=(LARGE_DF,)),
    *_both("cauchy", lambda x: -LOG(mp.pi) - mp.log1p(x * x), MIDDLE),
    Case("stats.cauchy.cdf", _of("cauchy", "cdf"), lambda x: mp.mpf(1) / 2 + mp.atan(x) / mp.pi, MIDDLE),
    *_both("laplace", lambda x: -abs(x) - LOG(mp.mpf(2)), (0.5, -1.0, 3.0, -8.0, 20.0)),
    Case(
        "stats.multivariate_normal.logpdf",
        lambda x, y: stats.multivariate_normal.logpdf(np.stack([x, y]), [0.5, 0.0], [[2.0, 0.5], [0.5, 1.0]]),
        lambda x, y: (
            -((x - mp.mpf(1) / 2) ** 2 - (x - mp.mpf(1) / 2) * y + 2 * y * y) / mp.mpf("3.5")
            - LOG(2 * mp.pi)
            - LOG(mp.mpf("1.75")) / 2
        ),
        ((0.3, 0.7), (0.5, 0.0)),
    ),
    Case(
        "stats.multivariate_normal.pdf",
        lambda x, y: stats.multivariate_normal.pdf(np.stack([x, y]), [0.5, 0.0], [[2.0, 0.5], [0.5, 1.0]]),
        lambda x, y: (
            mp.exp(-((x - mp.mpf(1) / 2) ** 2 - (x - mp.mpf(1) / 2) * y + 2 * y * y) / mp.mpf("3.5"))
            / (2 * mp.pi * mp.sqrt(mp.mpf("1.75")))
        ),
        ((0.3, 0.7), (0.5, 0.0)),
    ),
]
