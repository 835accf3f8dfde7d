"""Independent references in high precision: every row of the table in mpmath, and forward derivatives over it.

`EXACT` is an `arithmetic` for `evaluate`, with which a tape runs in 50 digits. `DUAL` is the same
over pairs (value, tangent), with textbook derivatives, so that nothing of the table's expressions enters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inside import BY_NAME, evaluate
from mpmath.ctx_mp import MPContext

from accumulus import Tape
from accumulus.tape.operations import Operation

#: A context of its own, so that no other test changes its precision.
mp = MPContext()
mp.dps = 50
mpf = mp.mpf

EPSILON = mpf(2) ** -52
SMALLEST = mpf(2) ** -1074
LARGEST = mpf(2) ** 1024 * (1 - mpf(2) ** -53)


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    """NaN outside of the real domain, where mpmath goes on into the complex plane."""

    def run(*arguments: Any) -> Any:
        try:
            value = function(*arguments)
        except (ZeroDivisionError, ValueError):
            return mp.nan
        return value if isinstance(value, mpf) else mp.nan

    return run


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    """NaN if an argument is; Python's minimum and maximum depend on the order then."""
    return lambda *arguments: mp.nan if any(map(mp.isnan, arguments)) else function(arguments)


def _power(x: Any, y: Any) -> Any:
    return mpf(1) if y == 0 else mp.power(x, y)


def _fmod(x: Any, y: Any) -> Any:
    """On whole multiples of a power of two, however many digits the quotient has."""
    if not mp.isfinite(x) or y == 0 or mp.isnan(y):
        return mp.nan
    if mp.isinf(y):
        return x
    (m, p), (n, q) = abs(x).man_exp, abs(y).man_exp
    unit = min(p, q)
    return mp.sign(x) * mp.ldexp((m << p - unit) % (n << q - unit), unit)


def _cut_off(x: Any, y: Any) -> Any:
    """The whole number that fmod takes off the quotient."""
    return mp.nint((x - _fmod(x, y)) / y) if y else mp.nan


def _erfc(x: Any) -> Any:
    # mpmath's own loops for arguments whose result no float64 can hold
    return mp.erfc(x) if abs(x) < 1e3 else mpf(0) if x > 0 else mpf(2)


def _erfcx(x: Any) -> Any:
    if x > 1e3:  # the asymptotic series, where mpmath's loops do not end
        z = 1 / (2 * x * x)
        return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))))) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def _ierfcx(n: Any, x: Any) -> Any:
    """exp(x²) iⁿerfc x, by Tricomi's function (DLMF 7.18.10), and by the recurrence upwards for negative x."""
    if x >= 0:
        return mp.power(2, -n) / mp.sqrt(mp.pi) * mp.hyperu((n + 1) / mpf(2), mpf("0.5"), x * x)
    before, now = 2 / mp.sqrt(mp.pi), _erfcx(x)
    for k in range(1, int(n) + 1):
        before, now = now, (before - 2 * x * now) / (2 * k)
    return now


def _erfcinv(y: Any) -> Any:
    """By Newton's iteration for the logarithm of erfc; of the smaller tail."""
    if not 0 < y < 2:
        return mp.nan
    if y > 1:
        return -_erfcinv(2 - y)
    x = mp.sqrt(-mp.log(y)) if y < 0.5 else mp.erfinv(1 - y)
    for _ in range(12):
        value = mp.erfc(x)
        x += mp.log(value / y) * value * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
    return x


#: The rows of the table in mpmath.
EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": _real(lambda x, y: x / y),
    "negative": lambda x: -x,
    "power": _real(_power),
    "sqrt": _real(mp.sqrt),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "hypot": mp.hypot,
    "exp": mp.exp,
    "expm1": mp.expm1,
    "exp2": lambda x: mp.power(2, x),
    "log": _real(mp.log),
    "log1p": _real(mp.log1p),
    "log2": _real(lambda x: mp.log(x) / mp.ln2),
    "log10": _real(lambda x: mp.log(x) / mp.ln10),
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": _real(mp.asin),
    "acos": _real(mp.acos),
    "atan": mp.atan,
    "atan2": _real(mp.atan2),
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": _real(mp.acosh),
    "atanh": _real(mp.atanh),
    "erf": lambda x: 1 - _erfc(x) if abs(x) > 6 else mp.erf(x),
    "erfc": _erfc,
    "erfinv": _real(mp.erfinv),
    "erfcinv": _erfcinv,
    "erfcx": _erfcx,
    "log_ndtr": lambda x: (
        mp.log1p(-_erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2
    ),
    "i1erfcx": lambda x: _ierfcx(1, x),
    "ierfcx": _ierfcx,
    "gamma": _real(mp.gamma),
    "gammaln": lambda x: mp.re(mp.loggamma(x)),
    "digamma": _real(mp.digamma),
    "zeta": _real(mp.zeta),
    "j0": lambda x: mp.besselj(0, x),
    "j1": lambda x: mp.besselj(1, x),
    "y0": _real(lambda x: mp.bessely(0, x)),
    "y1": _real(lambda x: mp.bessely(1, x)),
    "jn": lambda n, x: mp.besselj(int(n), x),
    "yn": _real(lambda n, x: mp.bessely(int(n), x)),
    "iv": lambda n, x: mp.besseli(int(n), x),
    "ive": lambda n, x: mp.exp(-abs(x)) * mp.besseli(int(n), x),
    "i0": lambda x: mp.besseli(0, x),
    "i1": lambda x: mp.besseli(1, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "k0": _real(lambda x: mp.besselk(0, x)),
    "k1": _real(lambda x: mp.besselk(1, x)),
    "k0e": _real(lambda x: mp.exp(x) * mp.besselk(0, x)),
    "k1e": _real(lambda x: mp.exp(x) * mp.besselk(1, x)),
    "abs": abs,
    "sign": mp.sign,
    "floor": mp.floor,
    "ceil": mp.ceil,
    "fmod": _fmod,
    "minimum": _extreme(min),
    "maximum": _extreme(max),
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_not": lambda x: not x,
    "attach": lambda x, _: x,
    "select": lambda condition, x, y: x if condition else y,
}


def _first(x: Any, y: Any) -> Any:
    """1 if x comes first, 0 if y does, a half for ties."""
    return mpf("0.5") if x == y else mpf(x < y)


#: Textbook derivatives, with the table's convention for abs and at ties; `tests/test_exact.py` compares them with
#: numerical differentiation. Only attach is what it is by definition.
PARTIALS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda x, y: mpf(1), lambda x, y: mpf(1)),
    "subtract": (lambda x, y: mpf(1), lambda x, y: mpf(-1)),
    "multiply": (lambda x, y: y, lambda x, y: x),
    "divide": (_real(lambda x, y: 1 / y), _real(lambda x, y: -x / y**2)),
    "negative": (lambda x: mpf(-1),),
    "power": (_real(lambda x, y: y * _power(x, y - 1)), _real(lambda x, y: _power(x, y) * mp.log(x))),
    "sqrt": (_real(lambda x: 1 / (2 * mp.sqrt(x))),),
    "cbrt": (_real(lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2)),),
    "hypot": (_real(lambda x, y: x / mp.hypot(x, y)), _real(lambda x, y: y / mp.hypot(x, y))),
    "exp": (mp.exp,),
    "expm1": (mp.exp,),
    "exp2": (lambda x: mp.ln2 * mp.power(2, x),),
    "log": (_real(lambda x: 1 / x),),
    "log1p": (_real(lambda x: 1 / (1 + x)),),
    "log2": (_real(lambda x: 1 / (x * mp.ln2)),),
    "log10": (_real(lambda x: 1 / (x * mp.ln10)),),
    "sin": (mp.cos,),
    "cos": (lambda x: -mp.sin(x),),
    "tan": (lambda x: 1 / mp.cos(x) ** 2,),
    "asin": (_real(lambda x: 1 / mp.sqrt(1 - x * x)),),
    "acos": (_real(lambda x: -1 / mp.sqrt(1 - x * x)),),
    "atan": (lambda x: 1 / (1 + x * x),),
    "atan2": (_real(lambda y, x: x / (x * x + y * y)), _real(lambda y, x: -y / (x * x + y * y))),
    "sinh": (mp.cosh,),
    "cosh": (mp.sinh,),
    "tanh": (lambda x: 1 / mp.cosh(x) ** 2,),
    "asinh": (lambda x: 1 / mp.sqrt(1 + x * x),),
    "acosh": (_real(lambda x: 1 / mp.sqrt(x * x - 1)),),
    "atanh": (_real(lambda x: 1 / (1 - x * x)),),
    "erf": (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),),
    "erfc": (lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),),
    "erfinv": (_real(lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2)),),
    "erfcinv": (lambda x: -mp.sqrt(mp.pi) / 2 * mp.exp(_erfcinv(x) ** 2),),
    "erfcx": (lambda x: 2 * x * _erfcx(x) - 2 / mp.sqrt(mp.pi),),
    "log_ndtr": (lambda x: mp.sqrt(2 / mp.pi) / _erfcx(-x / mp.sqrt(2)),),
    "i1erfcx": (lambda x: -4 * _ierfcx(2, x),),
    "ierfcx": (lambda n, x: mpf(0), lambda n, x: -2 * (n + 1) * _ierfcx(n + 1, x)),
    "gamma": (_real(lambda x: mp.gamma(x) * mp.digamma(x)),),
    "gammaln": (_real(mp.digamma),),
    "digamma": (_real(lambda x: mp.polygamma(1, x)),),
    "zeta": (lambda s, x: mpf(0), _real(lambda s, x: -s * mp.zeta(s + 1, x))),
    "j0": (lambda x: -mp.besselj(1, x),),
    "j1": (lambda x: (mp.besselj(0, x) - mp.besselj(2, x)) / 2,),
    "y0": (_real(lambda x: -mp.bessely(1, x)),),
    "y1": (_real(lambda x: mp.bessely(0, x) - mp.bessely(1, x) / x),),
    "jn": (lambda n, x: mpf(0), lambda n, x: (mp.besselj(n - 1, x) - mp.besselj(n + 1, x)) / 2),
    "yn": (lambda n, x: mpf(0), _real(lambda n, x: (mp.bessely(n - 1, x) - mp.bessely(n + 1, x)) / 2)),
    "iv": (lambda n, x: mpf(0), lambda n, x: (mp.besseli(n - 1, x) + mp.besseli(n + 1, x)) / 2),
    "ive": (
        lambda n, x: mpf(0),
        lambda n, x: (
            mp.exp(-abs(x)) * ((mp.besseli(n - 1, x) + mp.besseli(n + 1, x)) / 2 - mp.sign(x) * mp.besseli(int(n), x))
        ),
    ),
    "i0": (lambda x: mp.besseli(1, x),),
    "i1": (lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2,),
    "i0e": (lambda x: mp.exp(-abs(x)) * (mp.besseli(1, x) - mp.sign(x) * mp.besseli(0, x)),),
    "i1e": (lambda x: mp.exp(-abs(x)) * ((mp.besseli(0, x) + mp.besseli(2, x)) / 2 - mp.sign(x) * mp.besseli(1, x)),),
    "k0": (_real(lambda x: -mp.besselk(1, x)),),
    "k1": (_real(lambda x: -mp.besselk(0, x) - mp.besselk(1, x) / x),),
    "k0e": (_real(lambda x: mp.exp(x) * (mp.besselk(0, x) - mp.besselk(1, x))),),
    "k1e": (_real(lambda x: mp.exp(x) * (mp.besselk(1, x) - mp.besselk(0, x) - mp.besselk(1, x) / x)),),
    "abs": (lambda x: mpf(1 if x >= 0 else -1),),
    "sign": (lambda x: mpf(0),),
    "floor": (lambda x: mpf(0),),
    "ceil": (lambda x: mpf(0),),
    "fmod": (lambda x, y: mpf(1), lambda x, y: -_cut_off(x, y)),
    "minimum": (_first, lambda x, y: _first(y, x)),
    "maximum": (lambda x, y: _first(y, x), _first),
    "attach": (lambda x, y: mpf(0), lambda x, y: mpf(1)),
    "select": (lambda c, x, y: mpf(0), lambda c, x, y: mpf(bool(c)), lambda c, x, y: mpf(not c)),
}


def dual(operation: Operation) -> Callable[..., tuple[Any, Any]]:
    """The operation over pairs (value, tangent)."""

    def run(*pairs: tuple[Any, Any]) -> tuple[Any, Any]:
        point = [value for value, _ in pairs]
        tangent = mpf(0)
        if operation.result == "real":
            for slope, (_, direction) in zip(PARTIALS[operation.name], pairs, strict=True):
                tangent += slope(*point) * direction
        return EXACT[operation.name](*point), tangent

    return run


DUAL = {name: dual(row) for name, row in BY_NAME.items() if name != "input"}


def exact_values(tape: Tape, point: Sequence[float]) -> list[Any]:
    """Outputs of the tape in high precision."""
    return evaluate(tape, [mpf(x) for x in point], EXACT, mpf)


def exact_jacobian(tape: Tape, point: Sequence[float]) -> list[list[Any]]:
    """Rows ∂output/∂inputs of the tape in high precision."""
    columns = []
    for column in range(tape.inputs):
        pairs = [(mpf(x), mpf(k == column)) for k, x in enumerate(point)]
        columns.append([tangent for _, tangent in evaluate(tape, pairs, DUAL, lambda c: (mpf(c), mpf(0)))])
    return [list(row) for row in zip(*columns, strict=True)]
