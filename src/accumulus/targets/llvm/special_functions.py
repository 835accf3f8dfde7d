"""Special functions on vectors of doubles that the C library lacks, or has for one lane at a time only.

Each evaluates a few polynomials on pieces of the axis, selects one in each lane, and uses a reflection for the rest.
Coefficients are Chebyshev fits (`special_coefficients`), in a form that keeps the relative accuracy at the zeros of the
function: (x - 1)(x - 2) P(x) for log Γ, (x - x₀) P(x) for ψ. The zeros of log Γ and ψ on the negative axis are the
exception: there the absolute error equals the error of the reflection's terms.

The tests compare them with values of 50 digits; docs/numerics.md has a table of the errors found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.targets.llvm import mathematics
from accumulus.targets.llvm import special_coefficients as fits
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS, Term, VectorFunction, fused, where
from accumulus.targets.llvm.special_coefficients import Fit


def fit_value(fit: Fit, x: Term) -> Term:
    """Return the value of a fit at x."""
    low, high, coefficients = fit
    scale = 2.0 / (high - low)
    t = x if (low, high) == (-1.0, 1.0) else fused(x, scale, -0.5 * (low + high) * scale)
    return mathematics.polynomial(t, coefficients)


# Functions ------------------------------------------------------------------------------------------------------------


_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF: Final = math.sqrt(0.5)
#: B₂ⱼ / (2j)! for the Euler-Maclaurin formula, and the number of terms before it. More terms take time at every point,
#: fewer lose digits for small q.
_BERNOULLI: Final = ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798",
                     "-174611/330", "854513/138", "-236364091/2730")  # fmt: skip
_EULER_MACLAURIN: Final = [float(Fraction(b) / math.factorial(2 * j)) for j, b in enumerate(_BERNOULLI, 1)]
_TERMS_OF_ZETA: Final = 8
#: Largest order of Iₙ: up to it, the upward recurrence loses little from x = 400 on; and start of the fraction below. A
#: larger start takes more steps at every point, a smaller one loses digits of high orders.
LARGEST_ORDER: Final = int(BY_NAME["iv"].largest_order)
_FIRST_OF_FRACTION: Final = 128
#: Highest order n of repeated integrals of erfc; 2n + 3 for the quotient above it; x beyond which that is 1/(2x).
LARGEST_INTEGRAL: Final = int(BY_NAME["ierfcx"].largest_order)
_SQUARE_OF_QUOTIENT: Final = 2.0 * LARGEST_INTEGRAL + 3.0
_FAR: Final = 1e15
_TWO_OVER_SQRT_PI: Final = 2.0 / math.sqrt(math.pi)


def _sine_and_cosine(x: Term) -> tuple[Term, Term, Term]:
    """Return sin πr and cos πr of the distance r of x to the nearest integer, and this integer."""
    nearest = np.rint(x)
    r = x - nearest
    z = r * r
    return r * fit_value(fits.SINPI, z), (0.5 - r) * (0.5 + r) * fit_value(fits.COSPI, z), nearest


def gammaln(x: Term) -> Term:
    """Return log |Γ(x)|: Stirling's series from 8 on, log π/|sin πx| - log Γ(1 - x) for negative x."""
    negative = x < 0.0
    y = where(negative, 1.0 - x, x)
    small = y < 1.0
    above = where(small, y + 1.0, y)
    middle = where(small, y, y - 1.0) * where(small, y - 1.0, y - 2.0) * fit_value(fits.GAMMALN_MIDDLE, above)
    logarithm = np.log(y)
    inverse = 1.0 / y
    tail = (y - 0.5) * (logarithm - 1.0) + (_HALF_LOG_TWO_PI - 0.5)
    tail = tail + inverse * fit_value(fits.GAMMALN_TAIL, inverse * inverse)
    value = where(y < 3.0, middle, where(y < 8.0, (y - 2.0) * fit_value(fits.GAMMALN_UPPER, y), tail))
    value = where(small, value - logarithm, value)
    sine = _sine_and_cosine(x)[0]
    reflected = -np.log(abs(sine) * (1.0 / math.pi)) - value
    return where(x == -math.inf, math.inf, where(negative, reflected, value))


def digamma(x: Term) -> Term:
    """Return ψ(x): an asymptotic series from 8 on, ψ(1 - x) - π cot πx for negative x."""
    negative = x < 0.0
    y = where(negative, 1.0 - x, x)
    small = y < 1.0
    above = where(small, y + 1.0, y)
    root, rest = fits.DIGAMMA_ROOT
    middle = ((above - root) - rest) * fit_value(fits.DIGAMMA_MIDDLE, above)
    inverse = 1.0 / y
    square = inverse * inverse
    tail = np.log(y) - 0.5 * inverse - square * fit_value(fits.DIGAMMA_TAIL, square)
    value = where(y < 3.0, middle, where(y < 8.0, fit_value(fits.DIGAMMA_UPPER, y), tail))
    value = where(small, value - inverse, value)
    sine, cosine, _ = _sine_and_cosine(x)
    reflected = where(sine == 0.0, math.nan, value - math.pi * cosine / sine)
    return where(negative, reflected, value)


def gamma(x: Term) -> Term:
    """Return Γ(x): a recurrence from 3 to 8, then Stirling's series, and -π / (x sin πx Γ(-x)) for negative x."""
    negative = x < 0.0
    y = where(negative, -x, x)
    small = y < 1.0
    base, product = where(small, y + 1.0, y), where(small, 1.0 / y, 1.0)
    for _ in range(5):
        large = 3.0 <= base
        base = where(large, base - 1.0, base)
        product = where(large, product * base, product)
    middle = product * fit_value(fits.GAMMA_MIDDLE, base)
    finite = where(200.0 < y, 200.0, y)
    # y^y exp(-y) as a square: it overflows only where Γ does
    root = finite ** (0.5 * finite) * np.exp(-0.5 * finite)
    tail = root * fit_value(fits.GAMMA_TAIL, 1.0 / finite) / np.sqrt(finite) * root
    value = where(y < 8.0, middle, tail)
    sine, _, nearest = _sine_and_cosine(x)
    odd = nearest - 2.0 * np.floor(0.5 * nearest)
    reflected = math.pi / (where(odd == 1.0, sine, -sine) * value * x)
    return where(negative, where(sine == 0.0, math.nan, reflected), value)


def zeta(s: Term, q: Term) -> Term:
    """Return Hurwitz' ζ(s, q) = Σ (q + k)⁻ˢ for s > 1, q ≥ 0: a few terms, then the Euler-Maclaurin formula."""
    total = q ** (-s)
    for k in range(1, _TERMS_OF_ZETA):
        total = total + (q + float(k)) ** (-s)
    a = q + float(_TERMS_OF_ZETA)
    inverse = 1.0 / a
    integral = a ** (1.0 - s)
    square, factor = inverse * inverse, s * inverse
    series = 0.5 + _EULER_MACLAURIN[0] * factor
    for j, coefficient in enumerate(_EULER_MACLAURIN[1:]):
        factor = factor * ((s + float(2 * j + 1)) * (s + float(2 * j + 2)) * square)
        series = series + coefficient * factor
    value = total + (integral / (s - 1.0) + integral * inverse * series)
    return where((s < 1.0) | (q < 0.0), math.nan, where(q == 0.0, math.inf, value))


def _inverse_of_error(w: Term) -> Term:
    """Return erfinv(z) / z, with w = -log(1 - z²) (M. Giles, Approximating the erfinv function, 2010)."""
    root = np.sqrt(w)
    upper = where(root < 9.0, fit_value(fits.ERFINV_UPPER, root), fit_value(fits.ERFINV_TAIL, root))
    upper = where(root < 4.0, fit_value(fits.ERFINV_MIDDLE, root), upper)
    return where(w < 4.0, fit_value(fits.ERFINV_LOWER, w), where(w == math.inf, math.inf, upper))


def erfinv(z: Term) -> Any:
    """Return the inverse of erf at z."""
    return z * _inverse_of_error(-np.log((1.0 - z) * (1.0 + z)))


def erfcinv(y: Term) -> Any:
    """Return the inverse of erfc at y."""
    return (1.0 - y) * _inverse_of_error(-np.log(y * (2.0 - y)))


def _right_erfcx(x: Term) -> Any:
    """Return erfcx for x ≥ 0."""
    return fit_value(fits.ERFCX, 1.0 - 7.5 / (x + 3.75)) / (1.0 + 2.0 * x)


def _twice_exp_of_square(x: Term) -> Any:
    """Return 2 exp(x²) for x ≤ 0, and 2 for positive x."""
    near = where(x < -27.0, -27.0, where(0.0 < x, 0.0, x))
    square = near * near
    power = np.exp(square)
    return 2.0 * where(x < -27.0, math.inf, power + power * fused(near, near, -square))


def erfcx(x: Term) -> Term:
    """Return exp(x²) erfc x; for negative x from its value at -x."""
    right = _right_erfcx(abs(x))
    return where(x < 0.0, _twice_exp_of_square(x) - right, right)


def i1erfcx(x: Term) -> Term:
    """Return exp(x²) i¹erfc x, on which derivatives of erfcx depend; for negative x it adds -2x exp(x²)."""
    a = abs(x)
    inverse = 1.0 / (1.0 + 2.0 * a)
    right = fit_value(fits.I1ERFCX, 1.0 - 7.5 / (a + 3.75)) * inverse * inverse
    return where(x < 0.0, a * _twice_exp_of_square(x) + right, right)


def ierfcx(order: Term, x: Term) -> Term:
    """Return yₙ = exp(x²) iⁿerfc x for integer n from 0 to `LARGEST_INTEGRAL`, y₋₁ = 2/√π (DLMF 7.18).

    For x ≥ 0, the terms of the recurrence yₙ₋₂ = 2x yₙ₋₁ + 2n yₙ are positive downwards, from the quotient of the
    highest orders to y₋₁. It computes multiples of yₙ/sⁿ, with s close to that quotient, so that they keep their size.
    For x < 0 its terms are positive upwards.
    """
    a = abs(x)
    far = _FAR < a
    near = where(far, _FAR, a)
    root = np.sqrt(near * near + _SQUARE_OF_QUOTIENT)
    step = 1.0 / (near + root)
    slope, square = (near + near) * step, step * step
    scale = where(far, 0.5 / a, step)
    after = fit_value(fits.IERFCX, near / root)
    # value of the highest order, scaled: 1 for every x
    now = where(a < 0.0, 0.0, 1.0)
    right = now
    for k in range(LARGEST_INTEGRAL + 1, 0, -1):
        after, now = now, fused(slope, now, (2.0 * k) * square * after)
        if k > 1:
            right = where(order < float(k - 1), now, right * scale)
            first = now
    factor = _TWO_OVER_SQRT_PI * scale / now
    right = right * factor
    left = upper = _twice_exp_of_square(x) - first * factor
    twice = -2.0 * where(x < -27.0, -27.0, where(0.0 < x, 0.0, x))
    before: Term | float = _TWO_OVER_SQRT_PI
    for k in range(1, LARGEST_INTEGRAL + 1):
        before, upper = upper, (before + twice * upper) * (0.5 / k)
        left = where(order < float(k), left, upper)
    return where(x < 0.0, left, right)


def log_ndtr(x: Term) -> Term:
    """Return the normal log-CDF: log(erfcx(-x/√2)/2) - x²/2 for negative x, else log1p(-erfc(x/√2)/2)."""
    half = 0.5 * _right_erfcx(abs(x) * _SQRT_HALF)
    left = np.log(half) - 0.5 * (x * x)
    near = where(39.0 < x, 39.0, where(x < 0.0, 0.0, x))
    square = 0.5 * (near * near)
    power = np.exp(-square)
    power = power - power * fused(0.5 * near, near, -square)
    complement = half * power
    below_one = 1.0 - complement
    right = np.log(below_one) - (complement - (1.0 - below_one)) / below_one
    return where(x < 0.0, left, right)


def i0e(x: Term) -> Term:
    """Return exp(-|x|) I₀(x)."""
    a = abs(x)
    return where(a < 8.0, fit_value(fits.I0E_LOWER, a), fit_value(fits.I0E_UPPER, 8.0 / a) / np.sqrt(a))


def i1e(x: Term) -> Term:
    """Return exp(-|x|) I₁(x)."""
    a = abs(x)
    upper = fit_value(fits.I1E_UPPER, 8.0 / a) / np.sqrt(a)
    return where(a < 8.0, x / (1.0 + a) * fit_value(fits.I1E_LOWER, a), where(x < 0.0, -upper, upper))


def _root_of_exp(x: Term) -> Any:
    """Return exp(|x|/2), which does not overflow where I₀ does not; |x| is clipped where I₀ is infinite."""
    return np.exp(0.5 * where(800.0 < abs(x), 800.0, abs(x)))


def i0(x: Term) -> Term:
    """Return I₀(x)."""
    root = _root_of_exp(x)
    return where(abs(x) == math.inf, math.inf, i0e(x) * root * root)


def i1(x: Term) -> Term:
    """Return I₁(x)."""
    root = _root_of_exp(x)
    return where(abs(x) == math.inf, x, i1e(x) * root * root)


def ive(order: Term, x: Term) -> Term:
    """Return exp(-|x|) Iₙ(x) for integer n from 0 to `LARGEST_ORDER`.

    Below 400, a continued fraction gives the quotients Iₖ/Iₖ₋₁, from 128 down, starting from D. E. Amos' bound
    (Computation of modified Bessel functions and their ratios, 1974); beyond, the upward recurrence is stable.
    """
    a = abs(x)
    last = float(_FIRST_OF_FRACTION + 1)
    ratio = a / ((last - 0.5) + np.sqrt((last + 0.5) * (last + 0.5) + a * a))
    before, now = i0e(x), abs(i1e(x))
    near, far = before, where(order < 1.0, before, now)
    for k in range(_FIRST_OF_FRACTION, 0, -1):
        ratio = a / (2.0 * k + a * ratio)
        if k <= LARGEST_ORDER:
            near = where(order < float(k), near, near * ratio)
    for k in range(1, LARGEST_ORDER):
        before, now = now, before - (2.0 * k) / a * now
        far = where(order < k + 1.0, far, now)
    value = where(a < 400.0, near, far)
    odd = order - 2.0 * np.floor(0.5 * order)
    return where(x < 0.0, where(odd == 1.0, -value, value), value)


def iv(order: Term, x: Term) -> Any:
    """Return Iₙ(x) for integer n from 0 to `LARGEST_ORDER`."""
    root = _root_of_exp(x)
    return ive(order, x) * root * root


def _k0_near_zero(x: Term) -> Any:
    square = x * x
    return fit_value(fits.K0_LOWER, square) - np.log(0.5 * x) * fit_value(fits.I0_LOW, square)


def _k1_near_zero(x: Term) -> Any:
    square = x * x
    logarithm = where(x == 0.0, 0.0, np.log(0.5 * x))
    return fit_value(fits.K1_LOWER, square) / x + logarithm * (x * fit_value(fits.I1_LOW, square))


def _k_far(fit: fits.Fit, x: Term) -> Any:
    return fit_value(fit, 2.0 / x) / np.sqrt(x)


def _at_most_two(x: Term) -> Term:
    return where(2.0 < x, 2.0, x)


def k0(x: Term) -> Term:
    """Return K₀(x)."""
    return where(x < 2.0, _k0_near_zero(x), _k_far(fits.K0E_UPPER, x) * np.exp(-x))


def k1(x: Term) -> Term:
    """Return K₁(x)."""
    return where(x < 2.0, _k1_near_zero(x), _k_far(fits.K1E_UPPER, x) * np.exp(-x))


def k0e(x: Term) -> Term:
    """Return exp(x) K₀(x)."""
    return where(x < 2.0, _k0_near_zero(x) * np.exp(_at_most_two(x)), _k_far(fits.K0E_UPPER, x))


def k1e(x: Term) -> Term:
    """Return exp(x) K₁(x)."""
    return where(x < 2.0, _k1_near_zero(x) * np.exp(_at_most_two(x)), _k_far(fits.K1E_UPPER, x))


def _row(name: str, formula: Callable[..., Term], arity: int, *calls: str) -> VectorFunction:
    return VectorFunction(f"accumulus_{name}", arity, (name,), formula, tuple(VECTOR_FUNCTIONS[c][0] for c in calls))


#: Special functions, by name in the table of operations, with the functions of `mathematics` that each calls.
SPECIAL_FUNCTIONS: Final[dict[str, VectorFunction]] = {
    name: _row(name, formula, arity, *calls.split())
    for name, formula, arity, calls in (
        ("gamma", gamma, 1, "pow exp"),
        ("gammaln", gammaln, 1, "log"),
        ("digamma", digamma, 1, "log"),
        ("zeta", zeta, 2, "pow"),
        ("erfinv", erfinv, 1, "log"),
        ("erfcinv", erfcinv, 1, "log"),
        ("erfcx", erfcx, 1, "exp"),
        ("i1erfcx", i1erfcx, 1, "exp"),
        ("ierfcx", ierfcx, 2, "exp"),
        ("log_ndtr", log_ndtr, 1, "exp log"),
        ("iv", iv, 2, "exp"),
        ("ive", ive, 2, ""),
        ("i0", i0, 1, "exp"),
        ("i1", i1, 1, "exp"),
        ("i0e", i0e, 1, ""),
        ("i1e", i1e, 1, ""),
        ("k0", k0, 1, "exp log"),
        ("k1", k1, 1, "exp log"),
        ("k0e", k0e, 1, "exp log"),
        ("k1e", k1e, 1, "exp log"),
    )
}
#: Special functions of the table that POSIX has, and the ones among them with an integer as first argument.
OF_POSIX: Final = (
    frozenset(row.name for row in OPERATIONS if row.special and not row.is_scipys) - SPECIAL_FUNCTIONS.keys()
)
OF_ORDER: Final = frozenset(name for name in OF_POSIX if "order" in BY_NAME[name].arguments)
