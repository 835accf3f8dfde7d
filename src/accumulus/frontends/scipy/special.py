"""Functions of `scipy.special` with an axis or an order, and distributions of `scipy.stats`.

Universal functions are rows of `accumulus.frontends.numpy.elementwise`. Distributions have densities, distribution
functions and quantiles with traced arguments, each a formula in the standardised variable z = (x - loc) / scale.
Methods that SciPy computes by quadrature or iteration are not recorded. Frozen distributions, as in
``norm(0, 2).logpdf``, call the same methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.elementwise import apply, apply_elementwise, of_special
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import borrows, refuses
from accumulus.frontends.scipy.special_rows import LAMBERT_NEAR_ZERO, SPHERICAL
from accumulus.tape.tape import Tape


@borrows("scipy.special", "logsumexp")
def _logsumexp(
    tape: Tape, a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Return log Σ b exp(a), shifted by the largest a to avoid overflow."""
    if return_sign:
        raise refuse("logsumexp(…, return_sign=True) is not recorded: the sign of the sum depends on values.")
    a = as_array(tape, a)
    if b is not None:
        a, b = np.broadcast_arrays(a, b)
    largest = np.max(a, axis=axis, keepdims=True)
    # any finite shift gives the same result, so it is a constant in derivatives
    shift = _fixed(tape, np.where(np.isfinite(largest), largest, 0.0))
    terms = np.exp(a - shift)
    if b is not None:
        terms = np.where(b == 0, 0.0, b * terms)
    total = np.log(np.sum(terms, axis=axis, keepdims=keepdims))
    return total + (shift if keepdims else np.reshape(shift, np.shape(total)))


@borrows("scipy.special", "softmax")
def _softmax(tape: Tape, x: Any, axis: Any = None) -> Any:
    """Return exp(x) / Σ exp(x), shifted by the largest x to avoid overflow."""
    x = as_array(tape, x)
    terms = np.exp(x - _fixed(tape, np.max(x, axis=axis, keepdims=True)))
    return terms / np.sum(terms, axis=axis, keepdims=True)


@borrows("scipy.special", "log_softmax")
def _log_softmax(tape: Tape, x: Any, axis: Any = None) -> Any:
    """Return log(exp(x) / Σ exp(x)), shifted by the largest x to avoid overflow."""
    x = as_array(tape, x)
    largest = np.max(x, axis=axis, keepdims=True)
    shifted = x - _fixed(tape, np.where(np.isfinite(largest), largest, 0.0))
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@borrows("scipy.special", "zeta")
def _record_zeta(tape: Tape, x: Any, q: Any = None) -> Any:
    """Return Hurwitz' zeta function ζ(x, q) for constant x > 1 and q > 0; only q is differentiated."""
    if depends(x):
        raise refuse(
            "scipy.special.zeta: the derivative with respect to its first argument is unknown, so that argument has "
            "to be a constant."
        )
    return apply_elementwise(tape, "zeta", np.asarray(concrete(x), float), 1.0 if q is None else q)


@borrows("scipy.special", "polygamma")
def _polygamma(tape: Tape, n: Any, x: Any) -> Any:
    """Return derivatives of digamma of constant orders, by ζ(n + 1, x), for x > 0."""
    if depends(n):
        raise refuse("scipy.special.polygamma: the order has to be a constant.")
    orders = np.asarray(concrete(n), float)
    if np.any((orders < 0) | (orders != np.round(orders))):
        raise ValueError(f"polygamma: the order is {n!r}; expected an integer of at least 0")
    factor = np.where(orders % 2, 1.0, -1.0) * np.vectorize(math.gamma)(orders + 1.0)
    higher = (
        factor * apply_elementwise(tape, "zeta", np.where(orders > 0, orders, 1.0) + 1.0, x) if orders.any() else 0.0
    )
    if (orders > 0).all():
        return higher
    return np.where(orders > 0, higher, apply_elementwise(tape, "digamma", x))


def _enter_spherical(kind: str) -> None:
    @borrows("scipy.special", f"spherical_{kind}n")
    def record(tape: Tape, n: Any, z: Any, derivative: bool = False) -> Any:
        return apply(tape, SPHERICAL[kind, bool(derivative)], [n, z])


for _kind in "jyik":
    _enter_spherical(_kind)


@borrows("scipy.special", "lambertw")
def _lambertw(tape: Tape, z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """Return W of a constant branch, Wright's ω(log z + 2πik); of real numbers near 0 by its power series.

    Branches of ω end at odd multiples of π, where SciPy's takes either: the imaginary part is rounded into that of W.
    """
    if depends(k):
        raise refuse("scipy.special.lambertw: the branch has to be a constant.")
    branch, real = np.asarray(concrete(k), float), not holds_complex(z)
    logarithm = np.log(as_array(tape, z) + 0j)
    period = np.where(branch < 0, np.nextafter(2.0 * math.pi, 7.0), 2.0 * math.pi)
    near = (abs(as_array(tape, z)) < 0.1) & (branch == 0) if real else False
    re, im = (
        np.where(near, 0.0, logarithm.real),
        (1.0 - 2.0**-52) * np.where(near, 0.0, logarithm.imag) + period * branch,
    )
    parts = [apply_elementwise(tape, f"wrightomega_{part}", re, im) for part in ("re", "im")]
    if real:
        is_real = (as_array(tape, z) >= -math.exp(-1.0)) & ((branch == 0) | ((branch == -1) & (as_array(tape, z) < 0)))
        parts = [np.where(near, apply(tape, LAMBERT_NEAR_ZERO, [z]), parts[0]), np.where(is_real, 0.0, parts[1])]
    return parts[0] + 1j * parts[1]


@borrows("scipy.special", "comb")
def _comb(tape: Tape, N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return N! / (k! (N - k)!), of real numbers; 0 for k > N and for negative numbers."""
    if exact:
        raise refuse("scipy.special.comb(…, exact=True) counts whole numbers, which have no derivative.")
    N, k = as_array(tape, N), as_array(tape, k)
    if repetition:
        N = N + k - 1.0
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, _binom(np.where(inside, N, 1.0), np.where(inside, k, 1.0)), 0.0)


@borrows("scipy.special", "multigammaln")
def _multigammaln(tape: Tape, a: Any, d: Any) -> Any:
    """Return the logarithm of the multivariate gamma function of constant dimension d, for a > (d - 1)/2."""
    if depends(d):
        raise refuse("scipy.special.multigammaln: the dimension has to be a constant.")
    dimension = int(concrete(d))
    if dimension != concrete(d) or dimension < 1:
        raise ValueError(f"multigammaln: the dimension is {d!r}; expected an integer of at least 1")
    a = as_array(tape, a)
    total: Any = 0.25 * dimension * (dimension - 1) * math.log(math.pi)
    for j in range(dimension):
        total = total + apply_elementwise(tape, "gammaln", a - 0.5 * j)
    return np.where(a > 0.5 * (dimension - 1), total, np.nan)


def _fixed(tape: Tape, value: Any) -> Any:
    """Return the same values with zero derivatives of all orders."""
    return apply_elementwise(tape, "attach", value, 1.0)


# Distributions --------------------------------------------------------------------------------------------------------

_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
#: Functions of z and of the shape parameters, in SciPy's order, by method.
Functions = dict[str, Callable[..., Any]]
_gammainc, _gammaincc, _gammaincinv, _gammainccinv, _chdtr, _chdtrc, _chdtri = map(
    of_special, ["gammainc", "gammaincc", "gammaincinv", "gammainccinv", "chdtr", "chdtrc", "chdtri"]
)
_betainc, _betaincc, _betaincinv, _betainccinv, _fdtr, _fdtrc, _fdtri, _stdtr, _stdtrit = map(
    of_special,
    ["betainc", "betaincc", "betaincinv", "betainccinv", "fdtr", "fdtrc", "fdtri", "stdtr", "stdtrit"],
)
_binom, _ndtr, _log_ndtr, _ndtri, _gammaln, _betaln, _expit, _xlogy, _xlog1py = map(
    of_special, ["binom", "ndtr", "log_ndtr", "ndtri", "gammaln", "betaln", "expit", "xlogy", "xlog1py"]
)


def _from(low: float, value: Any, z: Any, below: float) -> Any:
    """Return `value` for z ≥ `low`, the constant `below` for smaller z, and NaN for NaN."""
    return np.where(z >= low, value, np.where(z < low, below, z))


def _positive(z: Any) -> Any:
    """Return z, and 1 where it is not positive, so that logarithms in the unused branch have finite derivatives."""
    return np.where(z > 0, z, 1.0)


def _between(z: Any, inside: Any, below: float, above: float) -> Any:
    return np.where(z < 0, below, np.where(z > 1, above, inside))


def _on(low: float, high: float, function: Callable[..., Any], below: float, above: float) -> Callable[..., Any]:
    """Return a function of the shapes and z as one of z and the shapes, constant below and above an interval."""

    def call(z: Any, *shapes: Any) -> Any:
        inside = (z > low) & (z < high)
        value = function(*shapes, np.where(inside, z, min(low + 1.0, 0.5 * (low + high))))
        return np.where(inside, value, np.where(z <= low, below, np.where(z >= high, above, z)))

    return call


def _of_quantile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the shapes and q as one of q and the shapes."""

    def call(q: Any, *shapes: Any) -> Any:
        return function(*shapes, q)

    return call


def _f_logpdf(z: Any, dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    inside = m * np.log(dfn) + n * np.log(dfd) - _betaln(m, n) + _xlogy(m - 1.0, np.where(z >= 0, z, 1.0))
    return _from(0.0, inside - (m + n) * np.log(dfd + dfn * np.where(z >= 0, z, 1.0)), z, -math.inf)


#: Distributions by their names in `scipy.stats`. Without "pdf", the density is the exponential of "logpdf".
DISTRIBUTIONS: Final[dict[str, Functions]] = {
    "norm": {
        "logpdf": lambda z: -0.5 * z * z - _HALF_LOG_TWO_PI,
        "cdf": _ndtr,
        "sf": lambda z: _ndtr(-z),
        "logcdf": _log_ndtr,
        "logsf": lambda z: _log_ndtr(-z),
        "ppf": _ndtri,
        "isf": lambda q: -_ndtri(q),
    },
    "expon": {
        "logpdf": lambda z: _from(0.0, -z, z, -math.inf),
        "cdf": lambda z: -np.expm1(-np.where(z < 0, 0.0 * z, z)),
        "sf": lambda z: np.exp(-np.where(z < 0, 0.0 * z, z)),
        "logsf": lambda z: -np.where(z < 0, 0.0 * z, z),
        "ppf": lambda q: -np.log1p(-q),
        "isf": lambda q: -np.log(q),
    },
    "uniform": {
        "pdf": lambda z: _between(z, 1.0, 0.0, 0.0),
        "cdf": lambda z: _between(z, z, 0.0, 1.0),
        "sf": lambda z: _between(z, 1.0 - z, 1.0, 0.0),
        "ppf": lambda q: _between(q, q, math.nan, math.nan),
    },
    "logistic": {
        "logpdf": lambda z: -abs(z) - 2.0 * np.log1p(np.exp(-abs(z))),
        "cdf": _expit,
        "sf": lambda z: _expit(-z),
        "logcdf": lambda z: -np.logaddexp(0.0, -z),
        "logsf": lambda z: -np.logaddexp(0.0, z),
        "ppf": lambda q: np.log(q / (1.0 - q)),
        "isf": lambda q: -np.log(q / (1.0 - q)),
    },
    "lognorm": {
        "logpdf": lambda z, s: np.where(
            z > 0,
            -0.5 * (np.log(_positive(z)) / s) ** 2 - np.log(_positive(z)) - np.log(s) - _HALF_LOG_TWO_PI,
            np.where(z <= 0, -math.inf, z),
        ),
        "cdf": lambda z, s: np.where(z > 0, _ndtr(np.log(_positive(z)) / s), np.where(z <= 0, 0.0, z)),
        "sf": lambda z, s: np.where(z > 0, _ndtr(-np.log(_positive(z)) / s), np.where(z <= 0, 1.0, z)),
        "ppf": lambda q, s: np.exp(s * _ndtri(q)),
        "isf": lambda q, s: np.exp(-s * _ndtri(q)),
    },
    "gamma": {
        "logpdf": lambda z, a: np.where(
            z > 0, (a - 1.0) * np.log(_positive(z)) - z - _gammaln(a), np.where(z <= 0, -math.inf, z)
        ),
        "cdf": _on(0.0, math.inf, _gammainc, 0.0, 1.0),
        "sf": _on(0.0, math.inf, _gammaincc, 1.0, 0.0),
        "ppf": _of_quantile(_gammaincinv),
        "isf": _of_quantile(_gammainccinv),
    },
    "chi2": {
        "logpdf": lambda z, df: np.where(
            z > 0,
            (0.5 * df - 1.0) * np.log(_positive(z)) - 0.5 * z - _gammaln(0.5 * df) - 0.5 * math.log(2.0) * df,
            np.where(z <= 0, -math.inf, z),
        ),
        "cdf": _on(0.0, math.inf, _chdtr, 0.0, 1.0),
        "sf": _on(0.0, math.inf, _chdtrc, 1.0, 0.0),
        "ppf": lambda q, df: 2.0 * _gammaincinv(0.5 * df, q),
        "isf": _of_quantile(_chdtri),
    },
    "beta": {
        "logpdf": lambda z, a, b: _between(
            z, _xlog1py(b - 1.0, -z) + _xlogy(a - 1.0, z) - _betaln(a, b), -math.inf, -math.inf
        ),
        "cdf": _on(0.0, 1.0, _betainc, 0.0, 1.0),
        "sf": _on(0.0, 1.0, _betaincc, 1.0, 0.0),
        "ppf": _of_quantile(_betaincinv),
        "isf": _of_quantile(_betainccinv),
    },
    "f": {
        "logpdf": _f_logpdf,
        "cdf": _on(0.0, math.inf, _fdtr, 0.0, 1.0),
        "sf": _on(0.0, math.inf, _fdtrc, 1.0, 0.0),
        "ppf": _of_quantile(_fdtri),
    },
    "t": {
        "logpdf": lambda z, df: (
            _gammaln(0.5 * (df + 1.0))
            - _gammaln(0.5 * df)
            - 0.5 * np.log(df * math.pi)
            - 0.5 * (df + 1.0) * (np.log(df + z * z) - np.log(df))
        ),
        "cdf": lambda z, df: _stdtr(df, z),
        "sf": lambda z, df: _stdtr(df, -z),
        "ppf": _of_quantile(_stdtrit),
        "isf": lambda q, df: -_stdtrit(df, q),
    },
    "cauchy": {"logpdf": lambda z: -math.log(math.pi) - np.log1p(z * z), "cdf": lambda z: 0.5 + np.arctan(z) / math.pi},
    "laplace": {"logpdf": lambda z: -abs(z) - math.log(2.0)},
}
#: Names of the shape parameters of each distribution.
_SHAPES: Final = {
    "lognorm": ("s",),
    "gamma": ("a",),
    "chi2": ("df",),
    "beta": ("a", "b"),
    "f": ("dfn", "dfd"),
    "t": ("df",),
}
_QUANTILES: Final = ("ppf", "isf")


def _enter(name: str, method: str, standard: Callable[..., Any]) -> None:
    shapes = _SHAPES.get(name, ())
    names = (*shapes, "loc", "scale")

    @borrows("scipy.stats", f"{name}.{method}")
    def record(tape: Tape, self: Any, x: Any, *arguments: Any, **keywords: Any) -> Any:
        unknown = keywords.keys() - {*names}
        if unknown or len(arguments) > len(names):
            raise refuse(f"scipy.stats.{name}.{method} takes x, {', '.join(names)}.")
        by_name = {"loc": 0.0, "scale": 1.0, **dict(zip(names, arguments, strict=False)), **keywords}
        loc, scale = as_array(tape, by_name["loc"]), as_array(tape, by_name["scale"])
        parameters = [as_array(tape, by_name[shape]) for shape in shapes]
        if method in _QUANTILES:
            value = loc + scale * standard(as_array(tape, x), *parameters)
        else:
            value = standard((as_array(tape, x) - loc) / scale, *parameters)
            if method == "logpdf":
                value = value - np.log(scale)
            elif method == "pdf":
                value = value / scale
        return value if not depends(scale) and np.all(concrete(scale) > 0) else np.where(scale > 0, value, np.nan)


for _name, _functions in DISTRIBUTIONS.items():
    for _method, _function in _functions.items():
        _enter(_name, _method, _function)
    if "pdf" not in _functions:
        _enter(_name, "pdf", lambda *arguments, log=_functions["logpdf"]: np.exp(log(*arguments)))


def _refuse(base: str, method: str) -> None:
    @borrows("scipy.stats", f"{base}.{method}")
    def record(tape: Tape, self: Any, *arguments: Any, **keywords: Any) -> Any:
        methods = ", ".join(DISTRIBUTIONS.get(self.name, ()))
        raise refuse(
            f"scipy.stats.{self.name}.{method} is not recorded: there is no formula for it yet. "
            + (f"Recorded for {self.name}: {methods}, pdf. " if methods else "")
            + f"Distributions with recorded methods: {', '.join(DISTRIBUTIONS)}, multivariate_normal."
        )


for _method in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"):
    _refuse("rv_continuous", _method)
for _method in ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"):
    _refuse("rv_discrete", _method)


def _log_density_of_many(
    tape: Tape, self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False
) -> Any:
    """Return the logarithm of a multivariate normal density, for a covariance of full rank.

    NaN for a traced covariance that is not positive definite, of which the lower triangle is read.
    """
    if allow_singular:
        raise refuse(
            "scipy.stats.multivariate_normal(…, allow_singular=True) is not recorded: the rank depends on values. Add "
            "a small multiple of the identity to the covariance."
        )
    cov = getattr(cov, "covariance", cov)
    x = as_array(tape, x)
    mean = as_array(tape, 0.0 if mean is None else mean)
    size = max(mean.shape[-1] if mean.ndim else 1, np.shape(cov)[-1] if np.ndim(cov) else 1)
    if size == 1 and (not x.ndim or x.shape[-1] != 1):
        x = x[..., np.newaxis]
    matrix = as_array(tape, cov) if depends(cov) else np.asarray(concrete(cov), float)
    matrix = matrix * np.eye(size) if matrix.ndim == 0 else np.diag(matrix) if matrix.ndim == 1 else matrix
    factor = np.linalg.cholesky(matrix)
    white = (x - mean) @ np.linalg.inv(factor).T
    log_determinant = 2.0 * np.sum(np.log(np.diagonal(factor)))
    density = -0.5 * (np.sum(white * white, axis=-1) + log_determinant) - size * _HALF_LOG_TWO_PI
    return np.squeeze(density)  # as in SciPy


@borrows("scipy.stats", "multivariate_normal.__call__")
def _frozen(
    tape: Tape, self: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False, seed: Any = None
) -> Any:
    """Return a stand-in for SciPy's distribution with traced parameters, whose methods are those of `self`."""
    options = {"allow_singular": True} if allow_singular else {}
    methods = {
        name: lambda *x, name=name: getattr(self, name)(*x, mean, cov, **options)
        for name in ("pdf", "logpdf", "cdf", "logcdf", "rvs", "entropy")
    }
    return SimpleNamespace(mean=mean, cov=cov, **methods)


borrows("scipy.stats", "multivariate_normal.logpdf")(_log_density_of_many)
borrows("scipy.stats", "multivariate_normal.pdf")(
    lambda tape, self, *arguments, **options: np.exp(_log_density_of_many(tape, self, *arguments, **options))
)
for _name in ("pdf", "logpdf"):  # of constant parameters
    borrows("scipy.stats._multivariate", f"multivariate_normal_frozen.{_name}")(
        lambda tape, self, x, name=_name: getattr(self._dist, name)(x, self.mean, self.cov)
    )
refuses(
    "scipy.stats",
    "logpdf and pdf are.",
    *(f"multivariate_normal.{name}" for name in ("cdf", "logcdf", "rvs", "entropy")),
)
