"""Source of the coefficients of `accumulus.targets.llvm.special_coefficients`: interpolation in 60 digits.

``python tests/targets/special_fits.py > src/accumulus/targets/llvm/special_coefficients.py`` writes that module. A fit
is a polynomial in t from -1 to 1, the argument moved and scaled, as powers of t: what is fitted has no singularity
near, so that these decay and lose nothing. Its degree is the least for which the last three coefficients together are
below 2⁻⁶⁰ of the smallest value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[Any], Any]


def fit(function: Function, low: float, high: float, most: int = 60) -> list[float]:
    """Coefficients, lowest first, of powers of t = (2x - low - high) / (high - low)."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    count = most + 10
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    values = [mp.mpf(function(middle + half * t)) for t in nodes]
    smallest = min(map(abs, values))
    chebyshev = [
        2 * mp.fsum(v * mp.cos(mp.pi * n * (2 * k + 1) / (2 * count)) for k, v in enumerate(values)) / count
        for n in range(most + 1)
    ]
    chebyshev[0] /= 2
    degree = next(
        n for n in range(2, most) if mp.fsum(map(abs, chebyshev[n + 1 : n + 4])) < smallest * mp.mpf(2) ** -60
    )
    # powers of t, by the recurrence of the Chebyshev polynomials
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    powers = [mp.mpf(0)] * (degree + 1)
    for n in range(degree + 1):
        for k, c in enumerate(before):
            powers[k] += chebyshev[n] * c
        following = [mp.mpf(0), *(2 * c for c in now)]
        for k, c in enumerate(before):
            following[k] -= c
        before, now = now, following
    return [float(c) for c in powers]


ROOT_OF_DIGAMMA: Final = mp.findroot(mp.digamma, 1.4616)


def _stirling(z: Any) -> Any:
    if z == 0:
        return mp.mpf(1) / 12
    x = 1 / mp.sqrt(z)
    return x * (mp.loggamma(x) - (x - 0.5) * (mp.log(x) - 1) + 0.5 - mp.log(2 * mp.pi) / 2)


def _gamma_correction(u: Any) -> Any:
    x = 1 / u
    return mp.exp(mp.loggamma(x) - (x - 0.5) * mp.log(x) + x)  # √2π and more


def _digamma_tail(z: Any) -> Any:
    x = 1 / mp.sqrt(z)
    return x * x * (mp.log(x) - 1 / (2 * x) - mp.digamma(x))


def _quotient(function: Function, *roots: Any) -> Function:
    def run(x: Any) -> Any:
        if any(abs(x - root) < mp.mpf(10) ** -25 for root in roots):
            x += mp.mpf(10) ** -25
        return function(x) / mp.fprod(x - root for root in roots)

    return run


def _erfcinv(y: Any) -> Any:
    """The x > 0 at which erfc is y, by Newton's iteration for the logarithm."""
    x = mp.sqrt(-mp.log(y)) if y < 0.5 else mp.erfinv(1 - y)
    for _ in range(40):
        value = mp.erfc(x)
        step = mp.log(value / y) * value * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return x


def _inverse_of_error(w: Any) -> Any:
    """erfinv(z)/z with w = -log(1 - z²)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    e = mp.exp(-w)
    y = e / (1 + mp.sqrt(1 - e))
    return _erfcinv(y) / (1 - y)


ERFCX_SCALE: Final = 3.75


def _erfcx(t: Any) -> Any:
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = ERFCX_SCALE * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _i1erfcx(t: Any) -> Any:
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = ERFCX_SCALE * (1 + t) / (1 - t)
    return (1 + 2 * x) ** 2 * mp.hyperu(1, mp.mpf(1) / 2, x * x) / (2 * mp.sqrt(mp.pi))


#: The highest order of exp(x²) iⁿerfc x that is computed, and 2n + 1 of the quotient above it.
LARGEST_ORDER: Final = 12
IERFCX_SQUARE: Final = 27.0


def _ierfcx(u: Any) -> Any:
    """(x + w) i¹³erfc(x) / i¹²erfc(x) of x/w = u, with w = √(x² + 27): near 1, since that is almost 1/(x + w)."""
    if u == 1:
        return mp.mpf(1)
    x = mp.sqrt(IERFCX_SQUARE) * u / mp.sqrt(1 - u * u)
    first, half = mp.mpf(LARGEST_ORDER + 1), mp.mpf(1) / 2
    ratio = mp.hyperu((first + 1) / 2, half, x * x) / (2 * mp.hyperu(first / 2, half, x * x))
    return (x + mp.sqrt(x * x + IERFCX_SQUARE)) * ratio


def _over_z(function: Function) -> Function:
    """An even function of r as one of z = r², 0 < z."""
    return lambda z: function(mp.sqrt(z))


FITS: Final[dict[str, tuple[Function, float, float]]] = {
    "SINPI": (_over_z(lambda r: mp.sin(mp.pi * r) / r), 0.0, 0.25),
    "COSPI": (_over_z(lambda r: mp.cos(mp.pi * r) / (0.25 - r * r)), 0.0, 0.25 - 1e-30),
    "GAMMALN_MIDDLE": (_quotient(mp.loggamma, 1, 2), 1.0, 3.0),
    "GAMMALN_UPPER": (_quotient(mp.loggamma, 2), 3.0, 8.0),
    "GAMMALN_TAIL": (_stirling, 0.0, 1 / 64),
    "GAMMA_MIDDLE": (mp.gamma, 1.0, 3.0),
    "GAMMA_TAIL": (_gamma_correction, 0.0, 0.125),
    "DIGAMMA_MIDDLE": (_quotient(mp.digamma, ROOT_OF_DIGAMMA), 1.0, 3.0),
    "DIGAMMA_UPPER": (mp.digamma, 3.0, 8.0),
    "DIGAMMA_TAIL": (_digamma_tail, 0.0, 1 / 64),
    "ERFINV_LOWER": (_inverse_of_error, 0.0, 4.0),
    "ERFINV_MIDDLE": (lambda s: _inverse_of_error(s * s), 2.0, 4.0),
    "ERFINV_UPPER": (lambda s: _inverse_of_error(s * s), 4.0, 9.0),
    "ERFINV_TAIL": (lambda s: _inverse_of_error(s * s), 9.0, 28.0),
    "ERFCX": (_erfcx, -1.0, 1.0),
    "I1ERFCX": (_i1erfcx, -1.0, 1.0),
    "IERFCX": (_ierfcx, 1e-20, 1.0),
    "I0E_LOWER": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0.0, 8.0),
    "I0E_UPPER": (lambda u: mp.sqrt(8 / u) * mp.exp(-8 / u) * mp.besseli(0, 8 / u), 1e-6, 1.0),
    "I1E_LOWER": (lambda x: (1 + x) * mp.exp(-x) * mp.besseli(1, x) / x if x else mp.mpf(0.5), 0.0, 8.0),
    "I1E_UPPER": (lambda u: mp.sqrt(8 / u) * mp.exp(-8 / u) * mp.besseli(1, 8 / u), 1e-6, 1.0),
    "K0_LOWER": (_over_z(lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)), 1e-40, 4.0),
    "K0E_UPPER": (lambda u: mp.sqrt(2 / u) * mp.exp(2 / u) * mp.besselk(0, 2 / u), 1e-6, 1.0),
    "K1_LOWER": (_over_z(lambda x: x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))), 1e-40, 4.0),
    "K1E_UPPER": (lambda u: mp.sqrt(2 / u) * mp.exp(2 / u) * mp.besselk(1, 2 / u), 1e-6, 1.0),
    "I0_LOW": (_over_z(lambda x: mp.besseli(0, x)), 0.0, 4.0),
    "I1_LOW": (_over_z(lambda x: mp.besseli(1, x) / x if x else mp.mpf(0.5)), 0.0, 4.0),
}


def module() -> str:
    """The module with all coefficients, formatted."""
    lines = [
        '"""Coefficients of special functions, made by tests/targets/special_fits.py, which says of what.',
        "",
        "Each is a polynomial: lower and upper end of its argument, coefficients of powers of t from -1 to 1.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "#: Ends of the argument, and coefficients, lowest first.",
        "Fit = tuple[float, float, tuple[float, ...]]",
        "",
        "# fmt: off",
    ]
    for name, (function, low, high) in FITS.items():
        text = f"{name}: Final[Fit] = ({low!r}, {high!r}, ("
        for coefficient in fit(function, low, high):
            piece = f"{coefficient!r}, "
            if len(text) + len(piece) > 118:
                lines.append(text.rstrip())
                text = "    "
            text += piece
        lines.append(f"{text.rstrip()}))")
    root = float(ROOT_OF_DIGAMMA)
    pair = (root, float(ROOT_OF_DIGAMMA - root))
    root_lines = ["#: The zero of the digamma function, as a sum of two doubles.", f"DIGAMMA_ROOT: Final = {pair!r}"]
    return "\n".join([*lines, "# fmt: on", *root_lines, ""])


if __name__ == "__main__":
    sys.stdout.write(module())
