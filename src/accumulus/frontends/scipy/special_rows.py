"""Universal functions of `scipy.special` as formulas of operations in the tape's table.

Formulas avoid cancellation and overflow where the function is well-conditioned; docs/numerics.md lists their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.elementwise import (
    COMPLEX_RESULTS,
    OF_ORDER,
    REAL,
    SPECIAL,
    Interval,
    composed,
    is_nan,
    logaddexp,
    near_zero,
    operation,
    rint,
)
from accumulus.tape.operations import INFINITY

_POSITIVE: Final[Interval] = (0.0, INFINITY)
_UNIT: Final[Interval] = (0.0, 1.0)
_ORDINARY: Final[Interval] = (0.1, 20.0)
#: Largest order of modified Bessel functions; their second derivative needs two higher orders.
_LARGEST_ORDER: Final = 20
#: Largest degree of polynomials, and largest order of Bessel functions that recurrences compute.
_LARGEST_DEGREE: Final = 1000

_abs, _cos, _erfc, _exp, _expm1, _hypot, _log, _log1p, _sin, _select = map(
    operation, ["abs", "cos", "erfc", "exp", "expm1", "hypot", "log", "log1p", "sin", "select"]
)
_and, _or, _not = map(operation, ["logical_and", "logical_or", "logical_not"])
_gammaln, _erfcinv, _floor = map(operation, ["gammaln", "erfcinv", "floor"])
_k0, _k1, _k0e, _k1e = map(operation, ["k0", "k1", "k0e", "k1e"])
_sqrt, _omega = map(operation, ["sqrt", "wrightomega_re"])


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


def _whole(n: Any) -> int | None:
    """Return a constant whole number; None for any other."""
    value = n.tape.value_of(n.reference) if n.reference < 0 else math.nan
    return int(value) if abs(value) <= _LARGEST_DEGREE and value == round(value) else None


def _degree(n: Any, name: str) -> int:
    """Return the degree of a polynomial or the order of a function, which must be a constant integer.

    Raises:
        TraceError: if it is not.
    """
    degree = _whole(n)
    if degree is None:
        description = (
            "depends on the function's arguments" if n.reference >= 0 else f"is {n.tape.value_of(n.reference)}"
        )
        raise refuse(
            f"The order of scipy.special.{name} {description}. Only constant whole orders are recorded: the "
            "derivative with respect to the order is unknown, and there is no formula for other orders."
        )
    return degree


def _first_or_second_kind(name: str, n: Any, x: Any) -> Any:
    """Return Jₙ or Yₙ; for a negative whole order, (-1)ⁿ times the function of order |n|."""
    order = _whole(n) if name != "yn" else _degree(n, name)
    if order is None:
        return operation(name)(n, x)
    kind = name[0]
    whole = operation(f"{kind}{abs(order)}") if abs(order) < 2 else partial(operation(f"{kind}n"), float(abs(order)))
    value = whole(x)
    return -value if order < 0 and order % 2 else value


def _third_kind(n: Any, x: Any, name: str, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
    """Return Kₙ, for whole orders by its recurrence, in which all terms are positive; K₋ₙ = Kₙ."""
    order = _whole(n) if name != "kn" else _degree(n, name)
    if order is None:
        return operation(name)(n, x)
    before, now = first(x), second(x)
    for k in range(1, abs(order)):
        before, now = now, before + (2.0 * k) / x * now
    return before if order == 0 else now


def _modified(n: Any, x: Any, name: str) -> Any:
    """Return Iₙ; I₋ₙ = Iₙ for whole orders."""
    order = _whole(n)
    if order is None or abs(order) > _LARGEST_ORDER:
        return operation({"iv": "bessel_i", "ive": "bessel_ie"}[name])(n if order is None else float(abs(order)), x)
    order = abs(order)
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


def _inv_boxcox(y: Any, power: Any, exp: Callable[[Any], Any] = _exp) -> Any:
    """Return (λ y + 1)^(1/λ), by log1p(u)/u = 2/(2 + u) · atanh(w)/w with u = λ y and w = u/(2 + u)."""
    u = power * y
    half = 2.0 / (2.0 + u)

    def closed(near: Any) -> Any:
        safe = _select(near, 1.0, u)
        return _log1p(safe) / safe

    return exp(y * near_zero("atanh(x)/x", 0.5 * u * half, closed, 1.0 / 3.0, factor=half))


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


def _polynomial(name: str, n: Any, *operands: Any) -> Any:
    """Return an orthogonal polynomial of parameters and x by its recurrence (DLMF 18.9)."""
    degree, x = _degree(n, name), operands[-1]
    first, step = _POLYNOMIALS[name]
    before: Any = 1.0 + 0.0 * x
    now = first(*operands)
    for k in range(1, degree):
        before, now = now, step(k, now, before, *operands)
    return before if degree <= 0 else now


def _jacobi_step(k: int, p: Any, q: Any, a: Any, b: Any, x: Any) -> Any:
    total = a + b
    slope = (2 * k + 1 + total) * ((2 * k + 2 + total) * (2 * k + total) * x + (a * a - b * b))
    return (slope * p - 2.0 * (k + a) * (k + b) * (2 * k + 2 + total) * q) / (
        (2.0 * (k + 1)) * (k + 1 + total) * (2 * k + total)
    )


#: Name, P₁ and Pₖ₊₁ from Pₖ and Pₖ₋₁.
_POLYNOMIALS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "eval_legendre": (lambda x: x, lambda k, p, q, x: ((2 * k + 1) * x * p - k * q) / (k + 1.0)),
    "eval_chebyt": (lambda x: x, lambda k, p, q, x: 2.0 * x * p - q),
    "eval_chebyu": (lambda x: 2.0 * x, lambda k, p, q, x: 2.0 * x * p - q),
    "eval_hermite": (lambda x: 2.0 * x, lambda k, p, q, x: 2.0 * x * p - 2.0 * k * q),
    "eval_hermitenorm": (lambda x: x, lambda k, p, q, x: x * p - float(k) * q),
    "eval_laguerre": (lambda x: 1.0 - x, lambda k, p, q, x: ((2 * k + 1 - x) * p - k * q) / (k + 1.0)),
    "eval_genlaguerre": (
        lambda a, x: 1.0 + a - x,
        lambda k, p, q, a, x: ((2 * k + 1 + a - x) * p - (k + a) * q) / (k + 1.0),
    ),
    "eval_gegenbauer": (
        lambda a, x: 2.0 * a * x,
        lambda k, p, q, a, x: (2.0 * (k + a) * x * p - (k - 1 + 2.0 * a) * q) / (k + 1.0),
    ),
    "eval_jacobi": (lambda a, b, x: 0.5 * (a - b) + (1.0 + 0.5 * (a + b)) * x, _jacobi_step),
}


def _shifted_jacobi(n: Any, p: Any, q: Any, x: Any) -> Any:
    """Return P of the interval [0, 1] with leading coefficient 1, by the polynomial of [-1, 1]."""
    leading: Any = 1.0 + 0.0 * x
    for j in range(1, _degree(n, "eval_sh_jacobi") + 1):
        leading = leading * ((_degree(n, "eval_sh_jacobi") + j - 1 + p) / float(j))
    return _polynomial("eval_jacobi", n, p - q, q - 1.0, 2.0 * x - 1.0) / leading


def _associated(m: Any, v: Any, x: Any) -> Any:
    """Return Legendre's function of degree v and order m; for whole ones by the recurrence in the degree."""
    order, degree = _whole(m), _whole(v)
    if order is None or degree is None or not 0 <= order <= degree:
        return operation("lpmv")(m, v, x)
    square = 1.0 - x * x
    root = _sqrt(square) if order % 2 else 1.0
    before: Any = 0.0
    now: Any = (-1.0) ** order * math.prod(range(1, 2 * order, 2)) * root * (1.0 + 0.0 * x)
    for _ in range(order // 2):
        now = now * square
    for k in range(order, degree):
        before, now = now, ((2 * k + 1) * x * now - float(k + order) * before) / float(k + 1 - order)
    return now


def _spherical_bessel(kind: str, order: int, x: Any) -> Any:
    """Return a spherical Bessel function (DLMF 10.47); j and i by J and I of order n + ½, and by a series near 0."""
    if kind == "y":
        sine, cosine = _sin(x), _cos(x)
        before, now = -cosine / x, -(cosine / x + sine) / x
    else:
        before = 0.5 * math.pi * _exp(-x) / x
        now = before + before / x
    if kind in "yk":
        for k in range(1, order):
            before, now = now, (2.0 * k + 1.0) / x * now + (before if kind == "k" else -before)
        return before if order == 0 else now
    power: Any = 1.0
    for _ in range(order):
        power = power * x
    bessel = operation({"j": "jv", "i": "bessel_i"}[kind])

    def elementary(near: Any) -> Any:
        safe = _select(near, 1.0, x)
        sine, cosine = _sin(safe), _cos(safe)
        if order == 0:
            return sine / safe
        first = (sine / safe - cosine) / safe
        return first if order == 1 else (3.0 * first - sine) / safe

    if kind == "j" and order <= 2:  # derivatives lose less than those of Jₙ₊½
        return near_zero(_series(kind, order), x, elementary, 2.0 + order, factor=None if order == 0 else power)

    def closed(near: Any) -> Any:
        size = _select(near, 1.0, _abs(x))
        value = _sqrt(0.5 * math.pi / size) * bessel(order + 0.5, size)
        return _select(x < 0, -value, value) if order % 2 else value

    return near_zero(_series(kind, order), x, closed, 1.0, factor=None if order == 0 else power)


@cache
def _series(kind: str, order: int) -> Callable[[int], float]:
    """Return the coefficients of jₙ/xⁿ or iₙ/xⁿ in x²."""
    half = -0.5 if kind == "j" else 0.5
    return lambda k: half**k / (math.factorial(k) * math.prod(range(3, 2 * (k + order) + 2, 2)))


def _spherical(kind: str, n: Any, x: Any, derivative: bool) -> Any:
    """Return a spherical Bessel function of a constant whole order, or its derivative (DLMF 10.51)."""
    order = _degree(n, f"spherical_{kind}n")
    if order < 0:
        return math.nan * x
    if not derivative:
        return _spherical_bessel(kind, order, x)
    below: Any = order * _spherical_bessel(kind, order - 1, x) if order else 0.0
    above = (order + 1) * _spherical_bessel(kind, order + 1, x)
    total = below + above if kind in "ik" else below - above
    return (-total if kind == "k" else total) / (2 * order + 1.0)


def _of_lambert(k: int) -> float:
    """Return a coefficient of W(x)/x (DLMF 4.13.5)."""
    return float(-(k + 1)) ** k / math.factorial(k + 1)


#: W(x) around 0, for |x| < 0.1; 0 elsewhere.
LAMBERT_NEAR_ZERO: Final = composed(
    "lambertw", lambda x: near_zero(_of_lambert, x, lambda near: 0.0 * x, 0.1, even=False, factor=x), (REAL,)
)


def _poch(a: Any, m: Any) -> Any:
    """Return Γ(a + m)/Γ(a), for whole m the product, which has no poles."""
    count = _whole(m)
    if count is None or not 0 <= count <= _LARGEST_ORDER:
        return operation("poch")(a, m)
    value: Any = 1.0 + 0.0 * a
    for k in range(count):
        value = value * (a + k)
    return value


def _elliprj(x: Any, y: Any, z: Any, p: Any) -> Any:
    """Return R_J by duplication (B. C. Carlson; DLMF 19.36(i)), for arguments that are not negative."""
    first = mean = 0.2 * (x + y + z + 2.0 * p)
    at, scale = (x, y, z), 1.0
    delta = (p - x) * (p - y) * (p - z)
    total: Any = 0.0
    for m in range(_DUPLICATIONS):
        a, b, c, d = _sqrt(x), _sqrt(y), _sqrt(z), _sqrt(p)
        shift = a * b + b * c + c * a
        both = (d + a) * (d + b) * (d + c)
        total = total + 6.0 * scale / both * operation("elliprc")(1.0, 1.0 + delta * 64.0**-m / (both * both))
        x, y, z, p, mean = (0.25 * (each + shift) for each in (x, y, z, p, mean))
        scale *= 0.25
    u, v, w = ((first - each) * scale / mean for each in at)
    t = -0.5 * (u + v + w)
    e2 = u * v + u * w + v * w - 3.0 * t * t
    e3 = u * v * w + 2.0 * e2 * t + 4.0 * t * t * t
    e4 = (2.0 * u * v * w + e2 * t + 3.0 * t * t * t) * t
    e5 = u * v * w * t * t
    series = 1.0 - 3 / 14 * e2 + e3 / 6.0 + 9 / 88 * e2 * e2 - 3 / 22 * e4 - 9 / 52 * e2 * e3 + 3 / 26 * e5
    series = series - e2 * e2 * e2 / 16.0 + 3 / 40 * e3 * e3 + 3 / 20 * e2 * e4 + 45 / 272 * e2 * e2 * e3
    series = series - 9 / 68 * (e3 * e4 + e2 * e5)
    return scale * series / (mean * _sqrt(mean)) + total


#: Steps of the duplication for R_J; see `accumulus.tape.special_partials`.
_DUPLICATIONS: Final = 12

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
    "wrightomega": (lambda x: _omega(x, 0.0), (REAL,)),
    "poch": (_poch, (_ORDINARY, _ORDINARY)),
    "elliprj": (_elliprj, (_ORDINARY,) * 4),
    "round": (rint, (REAL,)),
    "radian": (lambda d, m, s: (d + (m + s / 60.0) / 60.0) * (math.pi / 180.0), (REAL,) * 3),
    "inv_boxcox1p": (lambda y, power: _inv_boxcox(y, power, _expm1), (_UNIT, _UNIT)),
    "cosm1": (lambda x: -2.0 * _sin(0.5 * x) * _sin(0.5 * x), (REAL,)),
    "boxcox": (lambda x, power: _boxcox(x, power, _log), (_ORDINARY, _UNIT)),
    "boxcox1p": (lambda x, power: _boxcox(x, power, _log1p), (_ORDINARY, _UNIT)),
    "inv_boxcox": (_inv_boxcox, (_UNIT, _UNIT)),
    "rel_entr": (_rel_entr, (_ORDINARY, _ORDINARY)),
    "kl_div": (_kl_div, (_ORDINARY, _ORDINARY)),
    "huber": (_huber, (_POSITIVE, REAL)),
    "pseudo_huber": (_pseudo_huber, (_POSITIVE, REAL)),
}

#: Functions whose first argument is an order, constant in most.
_COMPOSED_OF_ORDER: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_first_or_second_kind, name) for name in ("jv", "yv", "yn")},
    "jve": partial(_first_or_second_kind, "jv"),
    "yve": partial(_first_or_second_kind, "yv"),
    "kv": lambda n, x: _third_kind(n, x, "kv", _k0, _k1),
    "kn": lambda n, x: _third_kind(n, x, "kn", _k0, _k1),
    "kve": lambda n, x: _third_kind(n, x, "kve", _k0e, _k1e),
    "iv": lambda n, x: _modified(n, x, "iv"),
    "ive": lambda n, x: _modified(n, x, "ive"),
    "lpmv": _associated,
    **{name: partial(_polynomial, name) for name in _POLYNOMIALS},
    "eval_chebyc": lambda n, x: 2.0 * _polynomial("eval_chebyt", n, 0.5 * x),
    "eval_chebys": lambda n, x: _polynomial("eval_chebyu", n, 0.5 * x),
    "eval_sh_chebyt": lambda n, x: _polynomial("eval_chebyt", n, 2.0 * x - 1.0),
    "eval_sh_chebyu": lambda n, x: _polynomial("eval_chebyu", n, 2.0 * x - 1.0),
    "eval_sh_legendre": lambda n, x: _polynomial("eval_legendre", n, 2.0 * x - 1.0),
    "eval_sh_jacobi": _shifted_jacobi,
}
#: Spherical Bessel functions by their kind, and their derivatives.
SPHERICAL: Final = {
    (kind, derivative): composed(
        f"spherical_{kind}n", partial(_spherical, kind, derivative=derivative), (_POSITIVE, REAL)
    )
    for kind in "jyik"
    for derivative in (False, True)
}

SPECIAL.pop("poch")
for _name, _row in _COMPOSED.items():
    SPECIAL.setdefault(_name, composed(_name, *_row))  # operations in the tape's table take precedence
OF_ORDER.update({name: composed(name, row, (_POSITIVE, REAL)) for name, row in _COMPOSED_OF_ORDER.items()})


def _hankel(n: Any, x: Any, sign: float, *, scaled: bool = False) -> tuple[Any, ...]:
    """Return J ± iY, times exp(∓ix) if it is scaled."""
    first, second = _first_or_second_kind("jv", n, x), _first_or_second_kind("yv", n, x)
    if scaled:
        sine, cosine = _sin(x), _cos(x)
        first, second = first * cosine + second * sine, second * cosine - first * sine
    return first, sign * second


#: Functions of real numbers with complex results → real and imaginary parts of all results.
_COMPLEX: Final[dict[str, tuple[int, Callable[..., tuple[Any, ...]]]]] = {
    "wofz": (2, lambda x: (operation("wofz_re")(x, 0.0), operation("wofz_im")(x, 0.0))),
    "hankel1": (2, lambda n, x: _hankel(n, x, 1.0)),
    "hankel2": (2, lambda n, x: _hankel(n, x, -1.0)),
    "hankel1e": (2, lambda n, x: _hankel(n, x, 1.0, scaled=True)),
    "hankel2e": (2, lambda n, x: _hankel(n, x, -1.0, scaled=True)),
    "kelvin": (
        8,
        lambda x: tuple(operation(name)(x) for name in ["ber", "bei", "ker", "kei", "berp", "beip", "kerp", "keip"]),
    ),
}
COMPLEX_RESULTS.update(
    {
        name: tuple(composed(name, lambda *x, k=k, f=formula: f(*x)[k], (REAL,)) for k in range(count))
        for name, (count, formula) in _COMPLEX.items()
    }
)
