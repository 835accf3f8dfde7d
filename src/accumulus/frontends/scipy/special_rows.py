"""Universal functions of `scipy.special` as formulas of operations in the tape's table.

Formulas avoid cancellation and overflow where the function is well-conditioned; docs/numerics.md lists their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.elementwise import (
    OF_ORDER,
    REAL,
    SPECIAL,
    Interval,
    composed,
    is_nan,
    logaddexp,
    near_zero,
    operation,
)
from accumulus.tape.operations import INFINITY

_POSITIVE: Final[Interval] = (0.0, INFINITY)
_UNIT: Final[Interval] = (0.0, 1.0)
_ORDINARY: Final[Interval] = (0.1, 20.0)
#: Largest order of modified Bessel functions; their second derivative needs two higher orders.
_LARGEST_ORDER: Final = 20

_abs, _erfc, _exp, _expm1, _hypot, _log, _log1p, _sin, _select = map(
    operation, ["abs", "erfc", "exp", "expm1", "hypot", "log", "log1p", "sin", "select"]
)
_and, _or, _not = map(operation, ["logical_and", "logical_or", "logical_not"])
_gammaln, _erfcinv, _floor = map(operation, ["gammaln", "erfcinv", "floor"])
_k0, _k1, _k0e, _k1e = map(operation, ["k0", "k1", "k0e", "k1e"])


def _expit(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) without overflow of exp, which would make the derivative NaN."""
    right = x >= 0
    decay = _exp(_select(right, -x, x))
    share = 1.0 / (1.0 + decay)
    return _select(right, share, decay * share)


def _xlogy(x: Any, y: Any, log: Callable[[Any], Any] = _log) -> Any:
    """Return x·log(y); 0 for x = 0 and any y except NaN."""
    zero = _and(x == 0, _or(y <= 0, y == math.inf))
    return x * log(_select(zero, 0.0 if log is _log1p else 1.0, y))


def _stirling(z: Any) -> Any:
    """Return log Γ(z) - (z - ½) log z + z - ½ log 2π for z ≥ 10."""
    inverse = 1.0 / z
    square = inverse * inverse
    series: Any = 0.0
    for coefficient in reversed(_STIRLING):
        series = coefficient + series * square
    return series * inverse


#: B₂ⱼ / (2j (2j - 1)), for j from 1 on.
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def _betaln(a: Any, b: Any) -> Any:
    """Return log Γ(a) + log Γ(b) - log Γ(a + b); by Stirling's series for large arguments, to avoid cancellation."""
    ordered = a < b
    small, large = _select(ordered, a, b), _select(ordered, b, a)
    pole, reflected = _at_pole(small, large)
    small = _select(reflected, 1.0 - small - large, _select(pole, 1.0, small))
    near = _or(large < 10.0, large + small < 10.0)
    far, some = _select(near, 10.0, large), _select(near, large, 1.0)
    difference = _stirling(far) - _stirling(far + small) - (far + small - 0.5) * _log1p(small / far)
    value = _gammaln(small) + _select(
        near, _gammaln(some) - _gammaln(some + small), difference - small * (_log(far) - 1.0)
    )
    return _select(_and(pole, _not(reflected)), math.inf, value)


def _at_pole(small: Any, large: Any) -> tuple[Any, Any]:
    """Return two truth values: Γ(small) is infinite; B is ±B(1 - small - large, large) nonetheless, as in SciPy."""
    pole = _and(small <= 0, _floor(small) == small)
    return pole, _and(_and(pole, _floor(large) == large), _and(large > 0, small + large <= 0))


def _sign_of_gamma(x: Any) -> Any:
    """Return -1 where Γ(x) is negative, else 1."""
    half = 0.5 * _floor(x)
    return _select(_and(x < 0, _floor(half) != half), -1.0, 1.0)


def _beta(a: Any, b: Any) -> Any:
    ordered = a < b
    small, large = _select(ordered, a, b), _select(ordered, b, a)
    pole, reflected = _at_pole(small, large)
    sign = _sign_of_gamma(a) * _sign_of_gamma(b) * _sign_of_gamma(a + b)
    at_pole = _select(_and(reflected, _floor(0.5 * large) != 0.5 * large), -1.0, 1.0)
    return _select(pole, at_pole, sign) * _exp(_betaln(a, b))


def _binom(n: Any, k: Any) -> Any:
    """Return n! / (k! (n - k)!) for real n and k; NaN for negative integers n."""
    a, b, above = n - k + 1.0, k + 1.0, n + 1.0
    sign = _sign_of_gamma(a) * _sign_of_gamma(b) * _sign_of_gamma(above)
    size = _select(n > -0.5, _log1p(n), _log(_abs(above)))
    value = sign * _exp(-_betaln(a, b) - size)
    return _select(_and(n < 0, _floor(n) == n), math.nan, value)


def _order(n: Any, name: str) -> int:
    """Return the order of a function, which must be a constant integer.

    Raises:
        TraceError: if it is not.
    """
    order = n.tape.value_of(n.reference) if n.reference < 0 else None
    if order is None or order != round(order) or abs(order) > 1000:
        description = "depends on the function's arguments" if order is None else f"is {order}"
        raise refuse(
            f"The order of scipy.special.{name} {description}. Only constant integer orders are recorded: the "
            "derivative with respect to the order is unknown, and other orders are not implemented."
        )
    return int(order)


def _first_or_second_kind(name: str, n: Any, x: Any) -> Any:
    """Return Jₙ or Yₙ of a constant integer order; for a negative order, (-1)ⁿ times the function of order |n|."""
    order = _order(n, f"{name}v")
    whole = operation(f"{name}{abs(order)}") if abs(order) < 2 else partial(operation(f"{name}n"), float(abs(order)))
    value = whole(x)
    return -value if order < 0 and order % 2 else value


def _third_kind(n: Any, x: Any, name: str, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
    """Return Kₙ by its recurrence, in which all terms are positive; K₋ₙ = Kₙ."""
    order = abs(_order(n, name))
    before, now = first(x), second(x)
    for k in range(1, order):
        before, now = now, before + (2.0 * k) / x * now
    return before if order == 0 else now


def _modified(n: Any, x: Any, name: str) -> Any:
    """Return Iₙ; I₋ₙ = Iₙ."""
    order = abs(_order(n, name))
    if order > _LARGEST_ORDER:
        raise refuse(f"scipy.special.{name} is recorded for orders up to {_LARGEST_ORDER}; this order is {order}.")
    return operation(name.replace("v", str(order)))(x) if order < 2 else operation(name)(float(order), x)


def _exprel(x: Any) -> Any:
    """Return (exp x - 1) / x."""

    def closed(near: Any) -> Any:
        safe = _select(near, 1.0, x)
        return _select(x == math.inf, x, _expm1(safe) / safe)

    return near_zero("expm1(x)/x", x, closed, 2.0, even=False)


def _boxcox(x: Any, power: Any, log: Callable[[Any], Any]) -> Any:
    logarithm = log(x)
    return logarithm * _exprel(power * logarithm)


def _inv_boxcox(y: Any, power: Any) -> Any:
    """Return (λ y + 1)^(1/λ), by log1p(u)/u = 2/(2 + u) · atanh(w)/w with u = λ y and w = u/(2 + u)."""
    u = power * y
    half = 2.0 / (2.0 + u)

    def closed(near: Any) -> Any:
        safe = _select(near, 1.0, u)
        return _log1p(safe) / safe

    return _exp(y * near_zero("atanh(x)/x", 0.5 * u * half, closed, 1.0 / 3.0, factor=half))


def _rel_entr(x: Any, y: Any) -> Any:
    """Return x log(x / y) for positive x and y; 0 for x = 0 and y ≥ 0; else infinity."""
    inside = _and(0 < x, 0 < y)
    safe_x, safe_y = _select(inside, x, 1.0), _select(inside, y, 1.0)
    ratio = safe_x / safe_y
    near = _and(1e-300 < ratio, ratio < 1e300)
    value = x * _select(near, _log(_select(near, ratio, 1.0)), _log(safe_x) - _log(safe_y))
    missing = _or(is_nan(x), is_nan(y))
    return _select(
        _or(inside, missing), value + _select(missing, x + y, 0.0), _select(_and(x == 0, y >= 0), 0.0, math.inf)
    )


def _kl_div(x: Any, y: Any) -> Any:
    difference = _select(_and(0 < x, 0 < y), y - x, _select(x == 0, y, 0.0))
    return _rel_entr(x, y) + difference


def _huber(delta: Any, r: Any) -> Any:
    size = _abs(r)
    value = _select(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return _select(delta < 0, math.inf, value)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    """Return δ² (√(1 + (r/δ)²) - 1) without cancellation."""
    size = _select(_and(delta == 0, r == 0), 1.0, _hypot(delta, r) + delta)
    return _select(delta < 0, math.inf, delta * r * (r / size))


def _polynomial(name: str, n: Any, x: Any) -> Any:
    """Return an orthogonal polynomial by its recurrence."""
    order = _order(n, name)
    first, step = _POLYNOMIALS[name]
    before: Any = 1.0 + 0.0 * x
    now = first(x)
    for k in range(1, order):
        before, now = now, step(k, x, now, before)
    return before if order <= 0 else now


#: Name, P₁ and Pₖ₊₁ from Pₖ and Pₖ₋₁.
_POLYNOMIALS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[int, Any, Any, Any], Any]]]] = {
    "eval_legendre": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1.0)),
    "eval_chebyt": (lambda x: x, lambda k, x, p, q: 2.0 * x * p - q),
    "eval_chebyu": (lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * x * p - q),
    "eval_hermite": (lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * x * p - 2.0 * k * q),
    "eval_hermitenorm": (lambda x: x, lambda k, x, p, q: x * p - float(k) * q),
    "eval_laguerre": (lambda x: 1.0 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1.0)),
}

#: Formulas and the domains of their arguments.
_COMPOSED: Final[dict[str, tuple[Callable[..., Any], tuple[Interval, ...]]]] = {
    "expit": (_expit, (REAL,)),
    "logit": (lambda x: _log(x) - _log1p(-x), (_UNIT,)),
    "log_expit": (lambda x: -logaddexp(x * 0.0, -x, _exp, 1.0), (REAL,)),
    "ndtr": (lambda x: 0.5 * _erfc(x * -math.sqrt(0.5)), (REAL,)),
    "exp10": (lambda x: 10.0**x, (REAL,)),
    "xlogy": (_xlogy, (_POSITIVE, _POSITIVE)),
    "xlog1py": (lambda x, y: _xlogy(x, y, _log1p), (_POSITIVE, _POSITIVE)),
    "entr": (lambda x: _select(x < 0, -math.inf, -_xlogy(x, x)), (_POSITIVE,)),
    "loggamma": (lambda x: _select(x < 0, math.nan, _gammaln(x)), (_POSITIVE,)),
    "ndtri": (lambda x: -math.sqrt(2.0) * _erfcinv(2.0 * x), (_UNIT,)),
    "beta": (_beta, (_ORDINARY, _ORDINARY)),
    "betaln": (_betaln, (_ORDINARY, _ORDINARY)),
    "binom": (_binom, ((10.0, 20.0), (1.0, 9.0))),
    "exprel": (_exprel, (REAL,)),
    "cosm1": (lambda x: -2.0 * _sin(0.5 * x) * _sin(0.5 * x), (REAL,)),
    "boxcox": (lambda x, power: _boxcox(x, power, _log), (_ORDINARY, _UNIT)),
    "boxcox1p": (lambda x, power: _boxcox(x, power, _log1p), (_ORDINARY, _UNIT)),
    "inv_boxcox": (_inv_boxcox, (_UNIT, _UNIT)),
    "rel_entr": (_rel_entr, (_ORDINARY, _ORDINARY)),
    "kl_div": (_kl_div, (_ORDINARY, _ORDINARY)),
    "huber": (_huber, (_POSITIVE, REAL)),
    "pseudo_huber": (_pseudo_huber, (_POSITIVE, REAL)),
}

#: Functions whose first argument is a constant order.
_COMPOSED_OF_ORDER: Final[dict[str, Callable[..., Any]]] = {
    "jv": partial(_first_or_second_kind, "j"),
    "yv": partial(_first_or_second_kind, "y"),
    "yn": partial(_first_or_second_kind, "y"),
    "kv": lambda n, x: _third_kind(n, x, "kv", _k0, _k1),
    "kn": lambda n, x: _third_kind(n, x, "kn", _k0, _k1),
    "kve": lambda n, x: _third_kind(n, x, "kve", _k0e, _k1e),
    "iv": lambda n, x: _modified(n, x, "iv"),
    "ive": lambda n, x: _modified(n, x, "ive"),
    **{name: partial(_polynomial, name) for name in _POLYNOMIALS},
}

for _name, _row in _COMPOSED.items():
    SPECIAL.setdefault(_name, composed(_name, *_row))  # operations in the tape's table take precedence
OF_ORDER.update({name: composed(name, row, (_POSITIVE, REAL)) for name, row in _COMPOSED_OF_ORDER.items()})
