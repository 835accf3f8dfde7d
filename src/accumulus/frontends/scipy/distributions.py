"""Distributions of `scipy.stats`: densities, distribution functions and quantiles with traced arguments.

A distribution is a few functions of the standardised variable z = (x - loc) / scale; those that SciPy computes by
quadrature or iteration are left out. Frozen distributions, ``norm(0, 2).logpdf``, call these methods, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.tape.tape import Tape

__all__ = ["DISTRIBUTIONS"]

_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
#: Functions of z and of the shapes, in SciPy's order.
Functions = dict[str, Callable[..., Any]]


def _special(name: str) -> Callable[..., Any]:
    """A function of `scipy.special`, which is loaded when a distribution is used."""

    def call(*arguments: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*arguments)

    return call


_ndtr, _log_ndtr, _ndtri, _gammaln, _betaln, _expit, _xlogy, _xlog1py = map(
    _special, ["ndtr", "log_ndtr", "ndtri", "gammaln", "betaln", "expit", "xlogy", "xlog1py"]
)


def _from(low: float, value: Any, z: Any, below: float) -> Any:
    """The value from `low` on, `below` it a constant."""
    return np.where(z >= low, value, np.where(z < low, below, z))


def _positive(z: Any) -> Any:
    """z, and 1 where it is not positive, so that no logarithm spoils a derivative there."""
    return np.where(z > 0, z, 1.0)


def _between(z: Any, inside: Any, below: float, above: float) -> Any:
    return np.where(z < 0, below, np.where(z > 1, above, inside))


#: By name in `scipy.stats`; the density is the exponential of its logarithm where it is not given.
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
    },
    "beta": {
        "logpdf": lambda z, a, b: _between(
            z, _xlog1py(b - 1.0, -z) + _xlogy(a - 1.0, z) - _betaln(a, b), -math.inf, -math.inf
        ),
    },
    "t": {
        "logpdf": lambda z, df: (
            _gammaln(0.5 * (df + 1.0))
            - _gammaln(0.5 * df)
            - 0.5 * np.log(df * math.pi)
            - 0.5 * (df + 1.0) * (np.log(df + z * z) - np.log(df))
        ),
    },
    "cauchy": {"logpdf": lambda z: -math.log(math.pi) - np.log1p(z * z), "cdf": lambda z: 0.5 + np.arctan(z) / math.pi},
    "laplace": {"logpdf": lambda z: -abs(z) - math.log(2.0)},
}
#: Shapes by name, as keywords.
_SHAPES: Final = {"lognorm": ("s",), "gamma": ("a",), "beta": ("a", "b"), "t": ("df",)}
_QUANTILES: Final = ("ppf", "isf")


def _enter(name: str, method: str, standard: Callable[..., Any]) -> None:
    shapes = _SHAPES.get(name, ())
    names = (*shapes, "loc", "scale")

    @borrows("scipy.stats", f"{name}.{method}")
    def record(tape: Tape, self: Any, x: Any, *arguments: Any, **keywords: Any) -> Any:
        unknown = keywords.keys() - {*names}
        if unknown or len(arguments) > len(names):
            raise refuse(f"scipy.stats.{name}.{method} takes x, {', '.join(names)}.")
        given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, arguments, strict=False)), **keywords}
        loc, scale = as_array(tape, given["loc"]), as_array(tape, given["scale"])
        parameters = [as_array(tape, given[shape]) for shape in shapes]
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
            + (f"Of {self.name} recorded are {methods}, pdf. " if methods else "")
            + f"Distributions with recorded methods: {', '.join(DISTRIBUTIONS)}, multivariate_normal."
        )


for _method in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"):
    _refuse("rv_continuous", _method)
for _method in ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"):
    _refuse("rv_discrete", _method)


def _log_density_of_many(tape: Tape, x: Any, mean: Any, cov: Any) -> Any:
    if depends(cov):
        raise refuse(
            "scipy.stats.multivariate_normal with a covariance that depends on the function's arguments is not "
            "recorded: write it with np.linalg.slogdet and np.linalg.solve."
        )
    x = as_array(tape, x)
    mean = as_array(tape, 0.0 if mean is None else mean)
    size = max(mean.shape[-1] if mean.ndim else 1, np.shape(cov)[-1] if np.ndim(cov) else 1)
    matrix = np.asarray(concrete(cov), float)
    matrix = matrix * np.eye(size) if matrix.ndim == 0 else np.diag(matrix) if matrix.ndim == 1 else matrix
    if size == 1 and (not x.ndim or x.shape[-1] != 1):
        x = x[..., np.newaxis]
    factor = np.linalg.inv(np.linalg.cholesky(matrix))
    white = (x - mean) @ factor.T
    log_determinant = -2.0 * float(np.sum(np.log(np.diag(factor))))
    return -0.5 * (np.sum(white * white, axis=-1) + log_determinant) - size * _HALF_LOG_TWO_PI


@borrows("scipy.stats", "multivariate_normal.logpdf")
def multivariate_logpdf(tape: Tape, self: Any, x: Any, mean: Any = None, cov: Any = 1) -> Any:
    """The logarithm of the density, for a constant covariance of full rank."""
    return _log_density_of_many(tape, x, mean, cov)


@borrows("scipy.stats", "multivariate_normal.pdf")
def multivariate_pdf(tape: Tape, self: Any, x: Any, mean: Any = None, cov: Any = 1) -> Any:
    """The density, for a constant covariance of full rank."""
    return np.exp(_log_density_of_many(tape, x, mean, cov))
