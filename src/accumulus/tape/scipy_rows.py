"""Rows of the table of operations whose values are those of `scipy.special`: names, partial derivatives, domains.

Machine code calls the C functions behind `scipy.special.cython_special`, and NumPy code calls `scipy.special`; no other
language has them. A row that is one of several results of a function names the function and the result.

Partial derivatives are written as in `accumulus.tape.operations`, and may call `MACROS`. `UNKNOWN` marks an argument
for which there is no formula: programs may compute the value, but not that derivative. Sources are sections of the
Digital Library of Mathematical Functions (DLMF) and, for distributions, their definitions.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

#: The partial derivative with respect to an argument for which no closed form is known.
UNKNOWN: Final = "?"

Interval = tuple[float, float]
_REAL: Final = (-30.0, 30.0)
_POSITIVE: Final = (0.0, 30.0)
_UNIT: Final = (0.0, 1.0)
_DEGREE: Final = math.pi / 180.0
#: B₂ⱼ / (2j (2j - 1)) for j from 1 on: log Γ(x) - (x - ½) log x + x - ½ log 2π as a series in 1/x, for x ≥ 10.
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


class Row(NamedTuple):
    """A function of `scipy.special`, or one result of it.

    `function` is its name there if that is not `name`; `result` is the number of the result, or ``"re"`` or ``"im"`` of
    a function of x + iy. `columns` are further columns of the table.
    """

    name: str
    partials: tuple[str | None, ...]
    domain: tuple[Interval, ...]
    function: str = ""
    result: int | str | None = None
    columns: dict[str, Any] = {}  # noqa: RUF012  # never changed


def _row(
    name: str, partials: tuple[str | None, ...], *domain: Interval, of: str = "", result: Any = None, **columns: Any
) -> Row:
    return Row(name, partials, domain or (_REAL,) * len(partials), of or name, result, columns)


def _horner(coefficients: tuple[float, ...], variable: str) -> str:
    text = repr(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        text = f"({coefficient!r} + {variable} * {text})"
    return text


def _kolmogorov_slope() -> str:
    """Return the derivative of Σ 2 (-1)ᵏ⁻¹ exp(-2k²x²), and below 1 of 1 - √(2π)/x Σ exp(-(2k - 1)²π²/8x²)."""
    s = "maximum(x, 0.04)"
    low = " + ".join(
        f"exp({-((2 * k - 1) ** 2) * math.pi**2 / 8!r} / ({s} * {s}))"
        f" * ({(2 * k - 1) ** 2 * math.pi**2 / 4!r} / ({s} * {s}) - 1) / ({s} * {s})"
        for k in (1, 2, 3)
    )
    high = " + ".join(f"{(-1) ** k * 8.0 * k * k!r} * (x * exp({-2.0 * k * k!r} * (x * x)))" for k in (1, 2, 3, 4))
    return f"select(x < 1, -({math.sqrt(2 * math.pi)!r} * ({low})), {high})"


#: Formulas of up to four arguments x, y, z, w that partial derivatives call.
MACROS: Final[dict[str, str]] = {
    "stirling": f"{_horner(_STIRLING, '(1 / (x * x))')} / x",
    # log Γ(x + y) - log Γ(x) without cancellation for x ≥ 10
    "log_gamma_ratio": "select(x < 10, gammaln(x + y) - gammaln(x), y * (log(maximum(x, 10)) - 1)"
    " + (maximum(x, 10) + y - 0.5) * log1p(y / maximum(x, 10)) + stirling(maximum(x, 10) + y) - stirling(maximum(x, 10)))",
    # densities: of the gamma distribution with shape x at y; from 10 on centred, so that large terms do not cancel
    "gamma_density": "select(x < 10, power(minimum(y, 1e30), x - 1) * exp(-minimum(y, 1e30) - gammaln(minimum(x, 10))),"
    " exp((maximum(x, 10) - 1) * log1p((minimum(y, 1e30) - maximum(x, 10)) / maximum(x, 10))"
    " - (minimum(y, 1e30) - maximum(x, 10)) - 0.5 * log(2 * pi * maximum(x, 10)) - stirling(maximum(x, 10))))",
    # of the beta distribution with shapes x and y at z, with w = 1 - z
    "beta_density": "select(minimum(x, y) < 10, power(z, x - 1) * power(w, y - 1)"
    " * exp(log_gamma_ratio(maximum(x, y), minimum(x, y)) - gammaln(minimum(x, y))),"
    " beta_density_centred(maximum(x, 10), maximum(y, 10), z, w))",
    "beta_density_centred": "exp((x - 1) * log1p((z * y - w * x) / x) + (y - 1) * log1p((w * x - z * y) / y)"
    " + 0.5 * log((x + y) / (2 * pi * x) * ((x + y) * (x + y) / y)) + stirling(x + y) - stirling(x) - stirling(y))",
    "f_density": "beta_density(0.5 * x, 0.5 * y, x * z / (y + x * z), y / (y + x * z))"
    " * (x / (y + x * z)) * (y / (y + x * z))",
    "t_density": "exp(log_gamma_ratio(0.5 * minimum(x, 1e20), 0.5) - 0.5 * log(pi * minimum(x, 1e20))"
    " - 0.5 * (minimum(x, 1e20) + 1) * log1p(y * y / minimum(x, 1e20)))",
    "normal_quantile": "-(erfcinv(2 * x) / sqrt_half)",
    "normal_quantile_slope": "2 / sqrt_two_over_pi * exp(0.5 * normal_quantile(x) * normal_quantile(x))",
    # density at x of the noncentral χ² distribution with y degrees of freedom and noncentrality z
    "noncentral_density": "select(z == 0, 0.5 * gamma_density(0.5 * y, 0.5 * x),"
    " 0.5 * exp(-0.5 * (sqrt(x) - sqrt(z)) * (sqrt(x) - sqrt(z))) * power(x / select(z == 0, 1, z), 0.25 * y - 0.5)"
    " * bessel_ie(0.5 * y - 1, sqrt(x * select(z == 0, 1, z))))",
    # of the F distribution and Student's with respect to degrees of freedom
    "f_by_first": "0.5 * betainc_slope(0.5 * x, 0.5 * y, x * z / (y + x * z), y / (y + x * z), 0) + z / x * f_density(x, y, z)",
    "f_by_second": "0.5 * betainc_slope(0.5 * x, 0.5 * y, x * z / (y + x * z), y / (y + x * z), 1) - z / y * f_density(x, y, z)",
    "t_by_df": "-sign(y) * 0.25 * betainc_slope(0.5 * x, 0.5, x / (x + y * y), y * y / (x + y * y), 0) - y / (2 * x) * t_density(x, y)",
    "kolmogorov_slope": _kolmogorov_slope(),
    # sin πx and cos πx by the distance to the nearest whole number, whose parity is the sign
    "sine_pi": "sin(pi * (x - floor(x + 0.5))) * sign_of(floor(x + 0.5))",
    "cosine_pi": "cos(pi * (x - floor(x + 0.5))) * sign_of(floor(x + 0.5))",
    "sign_of": "1 - 2 * (x - 2 * floor(0.5 * x))",
    # derivatives of F(φ, m) and E(φ, m) with respect to m, by the nearest multiple nπ of φ (DLMF 19.25.5, 19.25.9)
    "half_periods": "floor(x / pi + 0.5)",
    "sine_of_rest": "sin(x) * sign_of(half_periods(x))",
    "elliptic_f_by_m": "power(sine_of_rest(x), 3) / 6 * elliprd(cos(x) * cos(x), 1, 1 - y * sin(x) * sin(x))"
    " + select(half_periods(x) == 0, 0, half_periods(x) * elliprd(0, 1, 1 - y) / 3)",
    "elliptic_e_by_m": "-(power(sine_of_rest(x), 3) / 6 * elliprd(cos(x) * cos(x), 1 - y * sin(x) * sin(x), 1)"
    " + select(half_periods(x) == 0, 0, half_periods(x) * elliprd(0, 1 - y, 1) / 3))",
    "amplitude_by_m": "-(ellipj_dn(x, y) * elliptic_f_by_m(ellipj_ph(x, y), y))",
    # w'(x + iy) = 2i/√π - 2zw and w'' = -2(w + zw'), by the asymptotic series where that cancels (DLMF 7.10.2, 7.12.1)
    "is_far": "logical_and(64 < x * x + y * y, 1e-10 < y)",
    "wofz_slope_re": "select(is_far(x, y), two_over_sqrt_pi / 2 * faddeeva_tail(is_far(x, y), x, y, 0, 1),"
    " 2 * (y * wofz_im(x, y) - x * wofz_re(x, y)))",
    "wofz_slope_im": "select(is_far(x, y), -(two_over_sqrt_pi / 2 * faddeeva_tail(is_far(x, y), x, y, 0, 0)),"
    " two_over_sqrt_pi - 2 * (x * wofz_im(x, y) + y * wofz_re(x, y)))",
    "wofz_curve_re": "select(is_far(x, y), -(two_over_sqrt_pi * faddeeva_tail(is_far(x, y), x, y, 1, 1)),"
    " 2 * (y * wofz_slope_im(x, y) - x * wofz_slope_re(x, y) - wofz_re(x, y)))",
    # 2/√π exp(-z²), exp(±z)/z and ω/(1 + ω)
    "gaussian_re": "two_over_sqrt_pi * exp(y * y - x * x) * cos(2 * x * y)",
    "gaussian_im": "-(two_over_sqrt_pi * exp(y * y - x * x) * sin(2 * x * y))",
    "minus_gaussian_re": "-gaussian_re(x, y)",
    "minus_gaussian_im": "-gaussian_im(x, y)",
    "turned_gaussian_re": "gaussian_re(y, x)",
    "turned_gaussian_im": "-gaussian_im(y, x)",
    "exp_over_re": "exp(x) * (x * cos(y) + y * sin(y)) / (x * x + y * y)",
    "exp_over_im": "exp(x) * (x * sin(y) - y * cos(y)) / (x * x + y * y)",
    "minus_exp_over_re": "exp_over_re(-x, -y)",
    "minus_exp_over_im": "exp_over_im(-x, -y)",
    "omega_slope_re": "1 - (1 + wrightomega_re(x, y)) / omega_size(x, y)",
    "omega_slope_im": "wrightomega_im(x, y) / omega_size(x, y)",
    "omega_size": "(1 + wrightomega_re(x, y)) * (1 + wrightomega_re(x, y)) + wrightomega_im(x, y) * wrightomega_im(x, y)",
    "sine_integrand": "quotient('sin(x)/x', x, 2, sin(x))",
    # (z/2)^ν / (√π Γ(ν + 3/2)) (DLMF 11.4.25)
    "struve_term": "power(0.5 * y, x) * rgamma(x + 1.5) * (two_over_sqrt_pi / 2)",
}

_BESSEL = "0.5 * ({0}(x - 1, y) - {0}(x + 1, y))"


def _analytic(function: str, slope: str, *domain: Interval) -> list[Row]:
    """Return the real and the imaginary part of a function of x + iy, by the Cauchy-Riemann equations.

    `slope` is the name of a pair of functions of x and y, ``…_re`` and ``…_im``, empty if there is no formula.
    """
    re, im = (f"{slope}_re(x, y)", f"{slope}_im(x, y)") if slope else (UNKNOWN, UNKNOWN)
    return [
        _row(f"{function}_re", (re, f"-{im}" if slope else UNKNOWN), *domain, of=function, result="re"),
        _row(f"{function}_im", (im, re), *domain, of=function, result="im"),
    ]


# fmt: off
ROWS: Final[tuple[Row, ...]] = (
    # error functions, and functions of complex numbers
    _row("dawsn", ("select(64 < x * x, -0.5 * faddeeva_tail(64 < x * x, x, 0, 0, 0), 1 - 2 * x * v)",), (-1e3, 1e3)),
    _row("erfi", ("two_over_sqrt_pi * exp(x * x)",), (-26.0, 26.0), sympy="erfi"),
    *_analytic("wofz", "wofz_slope", (-30.0, 30.0), (0.0, 30.0)),
    *_analytic("erf", "gaussian", (-3.0, 3.0), (-3.0, 3.0)),
    *_analytic("erfc", "minus_gaussian", (-3.0, 3.0), (-3.0, 3.0)),
    *_analytic("erfi", "turned_gaussian", (-3.0, 3.0), (-3.0, 3.0)),
    *_analytic("exp1", "minus_exp_over", (-9.0, 9.0), (0.0, 9.0)),
    *_analytic("expi", "exp_over", (-9.0, 9.0), (0.0, 9.0)),
    *_analytic("loggamma", "psi", (-9.0, 9.0), (0.0, 9.0)),
    *_analytic("psi", "", (-9.0, 9.0), (0.0, 9.0)),
    *_analytic("wrightomega", "omega_slope", (-9.0, 9.0), (0.0, 3.0)),
    _row("voigt_profile", (
        "wofz_slope_re(x * (sqrt_half / y), z * (sqrt_half / y)) / (2 * sqrt(pi) * y * y)",
        "wofz_curve_re(x * (sqrt_half / y), z * (sqrt_half / y)) / (2 * sqrt(2 * pi) * y * y)",
        "-wofz_slope_im(x * (sqrt_half / y), z * (sqrt_half / y)) / (2 * sqrt(pi) * y * y)"),
        (-30.0, 30.0), (0.1, 5.0), (0.0, 5.0)),
    _row("owens_t", (
        "-(0.25 * sqrt_two_over_pi * exp(-0.5 * x * x) * erf(sqrt_half * x * y))",
        "exp(-0.5 * x * x * (1 + y * y)) / (2 * pi * (1 + y * y))"), (-5.0, 5.0), (-5.0, 5.0)),
    _row("ndtri_exp", ("erfcx(-(sqrt_half * v)) / sqrt_two_over_pi",), (-700.0, 0.0)),
    _row("fresnels", ("sin(0.5 * pi * x * x)",), of="fresnel", result=0, sympy="fresnels"),
    _row("fresnelc", ("cos(0.5 * pi * x * x)",), of="fresnel", result=1, sympy="fresnelc"),
    # exponential, sine and cosine integrals
    _row("expi", ("exp(x) / x",), (-30.0, 700.0), sympy="Ei", jax="special.expi({0})"),
    _row("exp1", ("-(exp(-x) / x)",), (0.0, 700.0), sympy="expint(1, x)", jax="special.exp1({0})"),
    _row("expn", (UNKNOWN, "-select(x == 0, v + v / y, expn(abs(x - 1), y))"), (2.0, 9.0), _POSITIVE, sympy="expint"),
    _row("si", ("sine_integrand(x)",), of="sici", result=0, sympy="Si"),
    _row("ci", ("cos(x) / x",), _POSITIVE, of="sici", result=1, sympy="Ci"),
    _row("shi", ("quotient('sinh(x)/x', x, 2, sinh(x))",), of="shichi", result=0, sympy="Shi"),
    _row("chi", ("cosh(x) / x",), _POSITIVE, of="shichi", result=1, sympy="Chi"),
    _row("spence", ("-(2 / (1 + x) * quotient('atanh(x)/x', (x - 1) / (x + 1), 0.3, 0.5 * log(x)))",), _POSITIVE),
    # gamma functions
    _row("rgamma", (
        "select(x < 0.5, gamma(select(x < 0.5, 1 - x, 1)) * (cosine_pi(x) - sine_pi(x) / pi"
        " * digamma(select(x < 0.5, 1 - x, 1))), -(v * digamma(select(x < 0.5, 1, x))))",), (-9.0, 30.0), sympy="1/gamma(x)"),
    _row("poch", ("v * (digamma(x + y) - digamma(x))", "v * digamma(x + y)"), _POSITIVE, (0.0, 9.0), sympy="gamma(x + y)/gamma(x)"),
    _row("gammasgn", (None,), (0.0, 30.0), bounds=(-1.0, 1.0), kinks=((-1.0,), (0.0,)), zero_signs="seen"),
    _row("gammainc", ("gammainc_slope(x, y)", "gamma_density(x, y)"), _POSITIVE, _POSITIVE, sympy="lowergamma(x, y)/gamma(x)"),
    _row("gammaincc", ("-gammainc_slope(x, y)", "-gamma_density(x, y)"), _POSITIVE, _POSITIVE, sympy="uppergamma(x, y)/gamma(x)"),
    _row("gammaincinv", ("-(gammainc_slope(x, v) / gamma_density(x, v))", "1 / gamma_density(x, v)"), _POSITIVE, _UNIT),
    _row("gammainccinv", ("-(gammainc_slope(x, v) / gamma_density(x, v))", "-(1 / gamma_density(x, v))"), _POSITIVE, _UNIT),
    _row("betainc", ("betainc_slope(x, y, z, 1 - z, 0)", "betainc_slope(x, y, z, 1 - z, 1)", "beta_density(x, y, z, 1 - z)"), _POSITIVE, _POSITIVE, _UNIT),
    _row("betaincc", ("-betainc_slope(x, y, z, 1 - z, 0)", "-betainc_slope(x, y, z, 1 - z, 1)", "-beta_density(x, y, z, 1 - z)"), _POSITIVE, _POSITIVE, _UNIT),
    _row("betaincinv", ("-(betainc_slope(x, y, v, 1 - v, 0) / beta_density(x, y, v, 1 - v))", "-(betainc_slope(x, y, v, 1 - v, 1) / beta_density(x, y, v, 1 - v))", "1 / beta_density(x, y, v, 1 - v)"), _POSITIVE, _POSITIVE, _UNIT),
    _row("betainccinv", ("-(betainc_slope(x, y, v, 1 - v, 0) / beta_density(x, y, v, 1 - v))", "-(betainc_slope(x, y, v, 1 - v, 1) / beta_density(x, y, v, 1 - v))", "-(1 / beta_density(x, y, v, 1 - v))"), _POSITIVE, _POSITIVE, _UNIT),
    # elliptic integrals and functions (DLMF 19.18, 19.25, 22.13)
    _row("ellipk", ("elliprd(0, 1, 1 - x) / 6",), (-9.0, 1.0), sympy="elliptic_k"),
    _row("ellipkm1", ("-(elliprd(0, 1, x) / 6)",), (0.0, 9.0), sympy="elliptic_k(1 - x)"),
    _row("ellipe", ("-(elliprd(0, 1 - x, 1) / 6)",), (-9.0, 1.0), sympy="elliptic_e(x)"),
    _row("ellipkinc", ("1 / sqrt(1 - y * sin(x) * sin(x))", "elliptic_f_by_m(x, y)"), (-9.0, 9.0), (-1.0, 1.0), sympy="elliptic_f"),
    _row("ellipeinc", ("sqrt(1 - y * sin(x) * sin(x))", "elliptic_e_by_m(x, y)"), (-9.0, 9.0), (-1.0, 1.0), sympy="elliptic_e(x, y)"),
    _row("ellipj_sn", ("ellipj_cn(x, y) * ellipj_dn(x, y)", "ellipj_cn(x, y) * amplitude_by_m(x, y)"), (-9.0, 9.0), _UNIT, of="ellipj", result=0),
    _row("ellipj_cn", ("-(ellipj_sn(x, y) * ellipj_dn(x, y))", "-(ellipj_sn(x, y) * amplitude_by_m(x, y))"), (-9.0, 9.0), _UNIT, of="ellipj", result=1),
    _row("ellipj_dn", (
        "-(y * ellipj_sn(x, y) * ellipj_cn(x, y))",
        "-(ellipj_sn(x, y) * (0.5 * ellipj_sn(x, y) + y * ellipj_cn(x, y) * amplitude_by_m(x, y)) / v)"), (-9.0, 9.0), _UNIT, of="ellipj", result=2),
    _row("ellipj_ph", ("ellipj_dn(x, y)", "amplitude_by_m(x, y)"), (-9.0, 9.0), _UNIT, of="ellipj", result=3),
    _row("elliprc", (
        "select(y < 0, 0.5 * (1 / sqrt(x) - v) / (x - y), -(elliprd(y, y, x) / 6))",
        "select(y < 0, 0.5 * (v - sqrt(x) / y) / (x - y), -(elliprd(x, y, y) / 3))"), _POSITIVE, _POSITIVE),
    _row("elliprd", ("elliprd_slope(0)", "elliprd_slope(1)", "elliprd_slope(2)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("elliprf", ("-(elliprd(y, z, x) / 6)", "-(elliprd(z, x, y) / 6)", "-(elliprd(x, y, z) / 6)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("elliprg", (
        "0.25 * (elliprf(x, y, z) - x * elliprd(y, z, x) / 3)", "0.25 * (elliprf(x, y, z) - y * elliprd(z, x, y) / 3)",
        "0.25 * (elliprf(x, y, z) - z * elliprd(x, y, z) / 3)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("agm", (
        "v * v * (2 / (3 * pi)) * abs(x) * elliprd(0, y * y, x * x)",
        "v * v * (2 / (3 * pi)) * abs(y) * elliprd(0, x * x, y * y)"), _POSITIVE, _POSITIVE),
    # Bessel functions of real orders (DLMF 10.6.1, 10.29.1), Struve functions, Kelvin functions, Airy functions
    _row("jv", (UNKNOWN, _BESSEL.format("jv")), (0.0, 9.0), _POSITIVE, sympy="besselj(x, y)"),
    _row("yv", (UNKNOWN, _BESSEL.format("yv")), (0.0, 9.0), _POSITIVE, sympy="bessely(x, y)"),
    _row("bessel_i", (UNKNOWN, "0.5 * (bessel_i(x - 1, y) + bessel_i(x + 1, y))"), (0.0, 9.0), _POSITIVE, of="iv", sympy="besseli(x, y)"),
    _row("bessel_ie", (UNKNOWN, "0.5 * (bessel_ie(x - 1, y) + bessel_ie(x + 1, y)) - sign(y) * v"), (0.0, 9.0), _POSITIVE, of="ive"),
    _row("kv", (UNKNOWN, "-0.5 * (kv(x - 1, y) + kv(x + 1, y))"), (0.0, 9.0), _POSITIVE, sympy="besselk(x, y)"),
    _row("kve", (UNKNOWN, "v - 0.5 * (kve(x - 1, y) + kve(x + 1, y))"), (0.0, 9.0), _POSITIVE),
    _row("struve", (UNKNOWN, "0.5 * (struve(x - 1, y) - struve(x + 1, y) + struve_term(x, y))"), (0.0, 9.0), _POSITIVE),
    _row("modstruve", (UNKNOWN, "0.5 * (modstruve(x - 1, y) + modstruve(x + 1, y) + struve_term(x, y))"), (0.0, 9.0), _POSITIVE),
    _row("ber", ("berp(x)",)),
    _row("bei", ("beip(x)",)),
    _row("ker", ("kerp(x)",), _POSITIVE),
    _row("kei", ("keip(x)",), _POSITIVE),
    _row("berp", ("-(bei(x) + quotient('berp(x)/x³', x * x, 4, x * v, x * x))",)),
    _row("beip", ("ber(x) - quotient('beip(x)/x', x * x, 4, x * v)",)),
    _row("kerp", ("-(kei(x) + v / x)",), _POSITIVE),
    _row("keip", ("ker(x) - v / x",), _POSITIVE),
    _row("ai", ("aip(x)",), (-30.0, 30.0), of="airy", result=0, sympy="airyai"),
    _row("aip", ("x * ai(x)",), (-30.0, 30.0), of="airy", result=1, sympy="airyaiprime"),
    _row("bi", ("bip(x)",), (-30.0, 30.0), of="airy", result=2, sympy="airybi"),
    _row("bip", ("x * bi(x)",), (-30.0, 30.0), of="airy", result=3, sympy="airybiprime"),
    _row("aie", ("aipe(x) + sqrt(x) * v",), _POSITIVE, of="airye", result=0),
    _row("aipe", ("x * aie(x) + sqrt(x) * v",), _POSITIVE, of="airye", result=1),
    _row("bie", ("bipe(x) - sqrt(maximum(x, 0)) * v",), _POSITIVE, of="airye", result=2),
    _row("bipe", ("x * bie(x) - sqrt(maximum(x, 0)) * v",), _POSITIVE, of="airye", result=3),
    # integrals of these
    _row("itj0", ("j0(x)",), _POSITIVE, of="itj0y0", result=0),
    _row("ity0", ("y0(x)",), _POSITIVE, of="itj0y0", result=1),
    _row("iti0", ("i0(x)",), _POSITIVE, of="iti0k0", result=0),
    _row("itk0", ("k0(x)",), _POSITIVE, of="iti0k0", result=1),
    _row("it2j0", ("quotient('(1-j0(x))/x²', x, 2, 1 - j0(x), x)",), _POSITIVE, of="it2j0y0", result=0),
    _row("it2y0", ("-(y0(x) / x)",), _POSITIVE, of="it2j0y0", result=1),
    _row("it2i0", ("quotient('(i0(x)-1)/x²', x, 2, i0(x) - 1, x)",), _POSITIVE, of="it2i0k0", result=0),
    _row("it2k0", ("-(k0(x) / x)",), _POSITIVE, of="it2i0k0", result=1),
    _row("itai", ("ai(x)",), (0.0, 9.0), of="itairy", result=0),
    _row("itbi", ("bi(x)",), (0.0, 9.0), of="itairy", result=1),
    _row("itai_left", ("ai(-x)",), (0.0, 9.0), of="itairy", result=2),
    _row("itbi_left", ("bi(-x)",), (0.0, 9.0), of="itairy", result=3),
    _row("itstruve0", ("struve(0, x)",), _POSITIVE),
    _row("it2struve0", ("-(struve(0, x) / x)",), _POSITIVE),
    _row("itmodstruve0", ("modstruve(0, x)",), _POSITIVE),
    _row("besselpoly", ("besselpoly(x, y + 1, z - 1) - besselpoly(x, y + 1, z + 1)", UNKNOWN, UNKNOWN), _POSITIVE, (0.0, 5.0), (0.0, 5.0)),
    # hypergeometric and related functions (DLMF 13.3, 15.5, 12.2)
    _row("hyp0f1", (UNKNOWN, "hyp0f1(x + 1, y) / x"), _POSITIVE, _REAL),
    _row("hyp1f1", (UNKNOWN, UNKNOWN, "x / y * hyp1f1(x + 1, y + 1, z)"), _POSITIVE, _POSITIVE, _REAL),
    _row("hyperu", (UNKNOWN, UNKNOWN, "-(x * hyperu(x + 1, y + 1, z))"), (0.0, 5.0), (0.0, 5.0), _POSITIVE),
    _row("wright_bessel", (UNKNOWN, UNKNOWN, "wright_bessel(x, x + y, z)"), _UNIT, (0.0, 5.0), _POSITIVE),
    _row("log_wright_bessel", (UNKNOWN, UNKNOWN, "exp(log_wright_bessel(x, x + y, z) - v)"), _UNIT, (0.0, 5.0), _POSITIVE),
    _row("pbdv_d", (UNKNOWN, "pbdv_dp(x, y)"), (-5.0, 5.0), (-9.0, 9.0), of="pbdv", result=0),
    _row("pbdv_dp", (UNKNOWN, "(0.25 * y * y - x - 0.5) * pbdv_d(x, y)"), (-5.0, 5.0), (-9.0, 9.0), of="pbdv", result=1),
    _row("pbvv_v", (UNKNOWN, "pbvv_vp(x, y)"), (-5.0, 5.0), (-9.0, 9.0), of="pbvv", result=0),
    _row("pbvv_vp", (UNKNOWN, "(0.25 * y * y - x - 0.5) * pbvv_v(x, y)"), (-5.0, 5.0), (-9.0, 9.0), of="pbvv", result=1),
    _row("pbwa_w", (UNKNOWN, "pbwa_wp(x, y)"), (-5.0, 5.0), (-5.0, 5.0), of="pbwa", result=0),
    _row("pbwa_wp", (UNKNOWN, "(x - 0.25 * y * y) * pbwa_w(x, y)"), (-5.0, 5.0), (-5.0, 5.0), of="pbwa", result=1),
    _row("lpmv", (UNKNOWN, UNKNOWN, "(y * z * v - (x + y) * lpmv(x, y - 1, z)) / (z * z - 1)"), (2.0, 5.0), (0.0, 5.0), (-1.0, 1.0)),
    # distributions
    _row("stdtr", ("t_by_df(x, y)", "t_density(x, y)"), _POSITIVE, _REAL),
    _row("stdtrit", ("-(t_by_df(x, v) / t_density(x, v))", "1 / t_density(x, v)"), _POSITIVE, _UNIT),
    _row("fdtr", ("f_by_first(x, y, z)", "f_by_second(x, y, z)", "f_density(x, y, z)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("fdtrc", ("-f_by_first(x, y, z)", "-f_by_second(x, y, z)", "-f_density(x, y, z)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("fdtri", ("-(f_by_first(x, y, v) / f_density(x, y, v))", "-(f_by_second(x, y, v) / f_density(x, y, v))", "1 / f_density(x, y, v)"), _POSITIVE, _POSITIVE, _UNIT),
    _row("chdtr", ("0.5 * gammainc_slope(0.5 * x, 0.5 * y)", "0.5 * gamma_density(0.5 * x, 0.5 * y)"), _POSITIVE, _POSITIVE),
    _row("chdtrc", ("-0.5 * gammainc_slope(0.5 * x, 0.5 * y)", "-0.5 * gamma_density(0.5 * x, 0.5 * y)"), _POSITIVE, _POSITIVE),
    _row("chdtri", ("-(gammainc_slope(0.5 * x, 0.5 * v) / gamma_density(0.5 * x, 0.5 * v))", "-2 / gamma_density(0.5 * x, 0.5 * v)"), _POSITIVE, _UNIT),
    _row("chndtr", ("noncentral_density(x, y, z)", UNKNOWN, "-noncentral_density(x, y + 2, z)"), _POSITIVE, _POSITIVE, (0.0, 9.0)),
    _row("chndtrix", ("1 / noncentral_density(v, y, z)", UNKNOWN, "noncentral_density(v, y + 2, z) / noncentral_density(v, y, z)"), _UNIT, _POSITIVE, (0.0, 9.0)),
    _row("gdtr", ("z * gamma_density(y, x * z)", "gammainc_slope(y, x * z)", "x * gamma_density(y, x * z)"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("gdtrc", ("-(z * gamma_density(y, x * z))", "-gammainc_slope(y, x * z)", "-(x * gamma_density(y, x * z))"), _POSITIVE, _POSITIVE, _POSITIVE),
    _row("gdtrix", ("-(v / x)", "-(gammainc_slope(y, x * v) / (x * gamma_density(y, x * v)))", "1 / (x * gamma_density(y, x * v))"), _POSITIVE, _POSITIVE, _UNIT),
    _row("gdtria", ("1 / (z * gamma_density(y, v * z))", "-(gammainc_slope(y, v * z) / (z * gamma_density(y, v * z)))", "-(v / z)"), _UNIT, _POSITIVE, _POSITIVE),
    _row("gdtrib", ("-(z * gamma_density(v, x * z) / gammainc_slope(v, x * z))", "1 / gammainc_slope(v, x * z)",
        "-(x * gamma_density(v, x * z) / gammainc_slope(v, x * z))"), _POSITIVE, _UNIT, _POSITIVE),
    _row("chdtriv", ("2 / gammainc_slope(0.5 * v, 0.5 * y)", "-(gamma_density(0.5 * v, 0.5 * y) / gammainc_slope(0.5 * v, 0.5 * y))"), _UNIT, _POSITIVE),
    _row("pdtr", (UNKNOWN, "-gamma_density(floor(x) + 1, y)"), _POSITIVE, _POSITIVE),
    _row("pdtrc", (UNKNOWN, "gamma_density(floor(x) + 1, y)"), _POSITIVE, _POSITIVE),
    _row("pdtri", (UNKNOWN, "-(1 / gamma_density(floor(x) + 1, v))"), (2.0, 9.0), _UNIT),
    _row("bdtr", (UNKNOWN, UNKNOWN, "-beta_density(floor(x) + 1, y - floor(x), z, 1 - z)"), (2.0, 5.0), (6.0, 9.0), _UNIT),
    _row("bdtrc", (UNKNOWN, UNKNOWN, "beta_density(floor(x) + 1, y - floor(x), z, 1 - z)"), (2.0, 5.0), (6.0, 9.0), _UNIT),
    _row("bdtri", (UNKNOWN, UNKNOWN, "-(1 / beta_density(floor(x) + 1, y - floor(x), v, 1 - v))"), (2.0, 5.0), (6.0, 9.0), _UNIT),
    _row("nbdtr", (UNKNOWN, UNKNOWN, "beta_density(y, x + 1, z, 1 - z)"), (2.0, 5.0), (2.0, 9.0), _UNIT),
    _row("nbdtrc", (UNKNOWN, UNKNOWN, "-beta_density(y, x + 1, z, 1 - z)"), (2.0, 5.0), (2.0, 9.0), _UNIT),
    _row("nbdtri", (UNKNOWN, UNKNOWN, "1 / beta_density(y, x + 1, v, 1 - v)"), (2.0, 5.0), (2.0, 9.0), _UNIT),
    _row("btdtria", ("1 / betainc_slope(v, y, z, 1 - z, 0)", "-(betainc_slope(v, y, z, 1 - z, 1) / betainc_slope(v, y, z, 1 - z, 0))",
        "-(beta_density(v, y, z, 1 - z) / betainc_slope(v, y, z, 1 - z, 0))"), _UNIT, _POSITIVE, _UNIT),
    _row("btdtrib", ("-(betainc_slope(x, v, z, 1 - z, 0) / betainc_slope(x, v, z, 1 - z, 1))", "1 / betainc_slope(x, v, z, 1 - z, 1)",
        "-(beta_density(x, v, z, 1 - z) / betainc_slope(x, v, z, 1 - z, 1))"), _POSITIVE, _UNIT, _UNIT),
    _row("stdtridf", ("1 / t_by_df(v, y)", "-(t_density(v, y) / t_by_df(v, y))"), _UNIT, _POSITIVE),
    _row("fdtridfd", ("-(f_by_first(x, v, z) / f_by_second(x, v, z))", "1 / f_by_second(x, v, z)", "-(f_density(x, v, z) / f_by_second(x, v, z))"), _POSITIVE, _UNIT, _POSITIVE),
    _row("nrdtrimn", ("-(y * normal_quantile_slope(x))", "-normal_quantile(x)", "1"), _UNIT, (0.1, 9.0), (-9.0, 9.0)),
    _row("nrdtrisd", ("-(1 / normal_quantile(y))", "-(v * normal_quantile_slope(y) / normal_quantile(y))", "1 / normal_quantile(y)"), (-9.0, 9.0), _UNIT, (-9.0, 9.0)),
    _row("kolmogorov", ("kolmogorov_slope(x)",), (0.0, 3.0)),
    _row("kolmogi", ("1 / kolmogorov_slope(v)",), _UNIT),
    _row("tklmbda", ("1 / (power(v, y - 1) + power(1 - v, y - 1))", UNKNOWN), (-1.0, 1.0), (0.0, 1.0)),
    # angles in degrees
    _row("sindg", (f"{_DEGREE!r} * cosdg(x)",), (-400.0, 400.0)),
    _row("cosdg", (f"-({_DEGREE!r} * sindg(x))",), (-400.0, 400.0)),
    _row("tandg", (f"{_DEGREE!r} * (1 + v * v)",), (-89.0, 89.0)),
    _row("cotdg", (f"-({_DEGREE!r} * (1 + v * v))",), (1.0, 179.0)),
    _row("powm1", ("y * power(x, y - 1)", "(v + 1) * log(select(x == 0, 1, x))"), (0.0, 9.0), (-9.0, 9.0)),
)
# fmt: on
