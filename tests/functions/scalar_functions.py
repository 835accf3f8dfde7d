"""The table of scalar functions of NumPy, `math` and `scipy.special`."""

# ruff: noqa: PLW0108 (functions as users write them)

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from derivative_cases import Allowance, Case, Exponents, Point, mp, mpf
from inside import OPERATIONS
from scipy import special

import accumulus as acc

INF: Final = math.inf
ZEROS: Final = (0.0,) * 5


def signed(*points: float) -> tuple[float, ...]:
    """Points with their opposites."""
    return tuple(sorted({*points, *(-x for x in points if x)}))


TINY: Final = (0.0, 1e-300, 1e-160, 1e-8, 1e-3)
ORDINARY: Final = (0.1, 0.3, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0, 2.5, 3.0, 3.7, 7.3)
REAL: Final = signed(*TINY, *ORDINARY, 20.0, 100.25)
HUGE: Final = (1e5, 1e8, 1e16, 1e100, 1e155, 1e200, 1e300)
POSITIVE: Final = (*TINY[1:], *ORDINARY, 20.0, 100.25)
UNIT: Final = signed(*TINY, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0 - 1e-8, 1.0 - 2.0**-52)
PAIRS: Final = tuple(itertools.product((0.3, 1.0, 2.5, 40.0), repeat=2))
SIGNED_PAIRS: Final = tuple(itertools.product((-2.5, -1.0, 0.3, 1.7), repeat=2))


# Exceptions, which docs/numerics.md lists in the same words ---------------------------------------------------------


def _far(least: float, order: int = 1, most: float = INF) -> Callable[[Point, Exponents, str], bool]:
    return lambda p, alpha, _: least < max(map(abs, p)) <= most and sum(alpha) >= order


def _out_of_range(p: Point, alpha: Exponents, _: str) -> bool:
    return sum(alpha) > 0 and any(x and not 1e-38 < abs(x) < 1e38 for x in p)


def _of_order(order: int) -> Callable[[Point, Exponents, str], bool]:
    return lambda p, alpha, _: sum(alpha) >= order


RANGE: Final = Allowance(
    "an argument beyond 1e±38: what is in between leaves the range of numbers", INF, 0, _out_of_range
)
SATURATED: Final = Allowance("x beyond ±3: the last place of the value, which is near ±1", 0, 64, _far(3.0))
EXPONENTIALLY_SCALED: Final = (
    Allowance("derivatives, x from ±1 to ±30: terms of the size of the value cancel", 1e10, 0, _far(1.0, 1, 30.0)),
    Allowance("derivatives, x beyond ±30: the same", INF, 0, _far(30.0)),
)
LOGARITHM_OF_TAIL: Final = (
    Allowance(
        "orders from 3 on, x from -5 on: h = φ/Φ and x cancel",
        256,
        0,
        lambda p, alpha, _: p[0] >= -5 and sum(alpha) > 2,
    ),
    Allowance(
        "orders from 3 on, x from -40 to -5: the same", 2048, 0, lambda p, alpha, _: p[0] < -5 and sum(alpha) > 2
    ),
    Allowance("orders from 3 on, x below -40: the same", 1e10, 0, lambda p, alpha, _: p[0] < -40 and sum(alpha) > 2),
    Allowance(
        "orders from 2 on, x beyond 25: exp(x²) overflows", INF, 0, lambda p, alpha, _: p[0] > 25 and sum(alpha) > 1
    ),
)
SUM_OF_SQUARES: Final = Allowance("orders from 2 on: 1/v and x²/v³ cancel", 0, 128, _of_order(2))
ODD_PARTS: Final = Allowance(
    "what vanishes by symmetry, or is a small part of 1: the last places of 1", 0, 32, _of_order(0)
)
ENDS: Final = Allowance(
    "x = 0 and a whole exponent that varies: NaN", INF, 0, lambda p, alpha, _: p[0] == 0 and sum(alpha) > 0
)
ROUNDED_EXPONENT: Final = Allowance("derivatives: y - 1 is rounded", 24, 0, _of_order(1))
TAILS: Final = Allowance("below 1e-7: exp v² has v² times the error of v", 256, 0, lambda p, alpha, _: p[0] < 1e-7)
PRODUCTS_OF_PSI: Final = Allowance("orders from 2 on: sums of products of ψ cancel", 4096, 0, _of_order(2))
SMALL_BESIDE_LARGE: Final = Allowance(
    "an argument below 0.1: ψ of the others nearly cancel",
    INF, 0, lambda p, alpha, _: min(map(abs, p)) < 0.1 and sum(alpha) > 0,
)  # fmt: skip
OF_LIBRARY: Final = Allowance("orders from 100 on, of the C library and of SciPy", 16384)
TOO_LARGE: Final = Allowance(
    "values or derivatives that overflow: differences of infinities", INF, 0, lambda p, alpha, _: 0 < abs(p[0]) < 1e-30
)
VANISHING: Final = Allowance(
    "mixed derivatives, orders from 3 on, most of which are 0",
    INF, 0, lambda p, alpha, _: sum(alpha) >= 3 and min(alpha) > 0,
)  # fmt: skip
BY_SCIPY: Final = Allowance(
    "target `numpy`, x within ±1e-50: SciPy's underflow", INF, 0,
    lambda p, alpha, target: target == "numpy" and abs(p[0]) < 1e-50,
)  # fmt: skip
LONG_CHAIN: Final = Allowance("orders from 3 on", 128, 0, _of_order(3))
RECURRENCE: Final = Allowance("degree 20: the recurrence", 64)


def _case(name: str, function: Callable[..., Any], exact: Callable[..., Any], points: Any, **more: Any) -> Case:
    at = more.pop("at", {})
    more["allowances"] = [*_ALLOWED.get(name, _ALLOWED.get(name.partition("(")[0], ()))]
    return Case(name, function, exact, tuple(dict.fromkeys(p for p in points if p not in at)), at=at, **more)


#: Exceptions of a case, or of all cases of a function.
_ALLOWED: Final[dict[str, Sequence[Allowance]]] = {
    "np.tanh": [SATURATED],
    **{f"special.{name}": EXPONENTIALLY_SCALED for name in ("i0e", "i1e", "k0e", "k1e")},
    "special.log_ndtr": LOGARITHM_OF_TAIL,
    "special.kve": [*EXPONENTIALLY_SCALED, TOO_LARGE],
    "np.hypot": [SUM_OF_SQUARES, RANGE],
    "math.hypot": [SUM_OF_SQUARES],
    "math.dist": [SUM_OF_SQUARES],
    "np.arctan": [RANGE],
    "np.arctan2": [RANGE],
    "np.power(x, 0.1)": [ROUNDED_EXPONENT],
    "np.power(x, 7.5)": [RANGE],
    "np.power": [ENDS, RANGE],
    "special.logit": [RANGE],
    "special.rel_entr": [VANISHING, RANGE],
    "special.kl_div": [VANISHING, RANGE, ODD_PARTS],
    "special.erfcinv": [TAILS],
    "special.ndtri": [TAILS],
    "special.beta": [PRODUCTS_OF_PSI, SMALL_BESIDE_LARGE],
    "special.betaln": [SMALL_BESIDE_LARGE],
    "special.binom": [LONG_CHAIN, SMALL_BESIDE_LARGE],
    "special.jv": [BY_SCIPY],
    "special.jv(100)": [OF_LIBRARY],
    "special.jv(1000)": [OF_LIBRARY],
    "special.iv": [BY_SCIPY],
    "special.ive": [*EXPONENTIALLY_SCALED, BY_SCIPY],
    **{f"special.{name}": [TOO_LARGE] for name in ("yv", "yn", "kv", "kn")},
    **dict.fromkeys(("special.expit", "special.log_expit", "np.logaddexp", "np.logaddexp2"), (ODD_PARTS,)),
    **{f"special.{name}": [ODD_PARTS] for name in ("logsumexp", "softmax", "log_softmax", "pseudo_huber")},
    **{f"special.{name}": [LONG_CHAIN] for name in ("boxcox", "boxcox1p", "inv_boxcox")},
    "special.eval_laguerre(20)": [RECURRENCE],
}


def _log(x: Any, base: Any = None) -> Any:
    return mp.log(x) if base is None else mp.log(x) / mp.log(base)


# NumPy ----------------------------------------------------------------------------------------------------------------

ARITHMETIC = [
    _case("np.add", np.add, lambda x, y: x + y, SIGNED_PAIRS),
    _case("np.subtract", np.subtract, lambda x, y: x - y, SIGNED_PAIRS),
    _case("np.multiply", np.multiply, lambda x, y: x * y, (*SIGNED_PAIRS, (0.0, 2.0), (0.0, 0.0), (1e200, 1e-200))),
    _case(
        "np.divide",
        np.divide,
        lambda x, y: x / y,
        (*SIGNED_PAIRS, (0.0, 2.0), (1e-200, 1e-150), (3.0, 1e-60), (3.0, 1e60), (1e200, 1e200)),
    ),
    _case("np.negative", np.negative, lambda x: -x, REAL),
    _case("np.positive", np.positive, lambda x: x, REAL),
    _case("np.conjugate", np.conjugate, lambda x: x, REAL),
    _case("np.square", np.square, lambda x: x * x, REAL),
    _case("np.reciprocal", np.reciprocal, lambda x: 1 / x, signed(1e-60, *POSITIVE[3:], 1e60, 1e200)),
    _case("np.deg2rad", np.deg2rad, lambda x: x * mp.pi / 180, REAL),
    _case("np.radians", np.radians, lambda x: x * mp.pi / 180, REAL),
    _case("np.rad2deg", np.rad2deg, lambda x: x * 180 / mp.pi, REAL),
    _case("np.degrees", np.degrees, lambda x: x * 180 / mp.pi, REAL),
    _case("np.absolute", np.absolute, abs, REAL, at={0.0: (0, 1, 0, 0, 0)}),
    _case("np.fabs", np.fabs, abs, REAL, at={0.0: (0, 1, 0, 0, 0)}),
    _case("np.sign", np.sign, mp.sign, REAL, at={0.0: ZEROS}),
]


def _steps(value: Callable[[float], float]) -> dict[float, tuple[float, ...]]:
    return {x: (value(x), 0, 0, 0, 0) for x in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, 3.0)}


def _modulo(x: Any, y: Any) -> Any:
    return x - y * mp.floor(x / y)


def _sawtooth(f: Callable[[float, float], float], n: Callable[[float, float], float]) -> dict[Any, Any]:
    """At jumps of x - n·y, whose slopes are those of the value."""
    pairs = ((6.0, 2.0), (-6.0, 2.0), (1.0, -1.0), (0.0, 3.0))
    return {p: {(0, 0): f(*p), (1, 0): 1.0, (0, 1): -n(*p), (2, 0): 0.0, (1, 1): 0.0, (0, 2): 0.0} for p in pairs}


def _tied(first: float, second: float) -> dict[Any, Any]:
    """Half a unit for each of equal arguments."""
    return {
        (a, a): {(0, 0): a, (1, 0): 0.5, (0, 1): 0.5, (2, 0): 0.0, (1, 1): 0.0, (0, 2): 0.0} for a in (first, second)
    }


STEPS = [
    _case("np.floor", np.floor, mp.floor, REAL, at=_steps(math.floor)),
    _case("np.ceil", np.ceil, mp.ceil, REAL, at=_steps(math.ceil)),
    _case("np.trunc", np.trunc, lambda x: mp.sign(x) * mp.floor(abs(x)), REAL, at=_steps(math.trunc)),
    _case("np.fix", np.fix, lambda x: mp.sign(x) * mp.floor(abs(x)), REAL, at=_steps(math.trunc)),
    _case("np.rint", np.rint, mp.nint, REAL, at=_steps(round)),
    _case("np.round(1)", lambda x: np.round(x, 1), lambda x: mp.nint(10 * x) / 10, REAL),
    _case(
        "np.fraction",
        lambda x: np.modf(x)[0],
        lambda x: x - mp.sign(x) * mp.floor(abs(x)),
        REAL,
        at={x: (x - math.trunc(x), 1, 0, 0, 0) for x in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)},
    ),
    _case(
        "np.fmod",
        np.fmod,
        lambda x, y: x - y * mp.sign(x / y) * mp.floor(abs(x / y)),
        (*SIGNED_PAIRS, (7.3, 0.1), (1e8, 0.3)),
        at=_sawtooth(math.fmod, lambda x, y: math.trunc(x / y))
        | {
            (a, b): {(0, 0): 0.0, (1, 0): 1.0, (0, 1): -float(round(a / b))}
            for a, b in SIGNED_PAIRS
            if math.fmod(a, b) == 0
        },
    ),
    _case(
        "np.remainder",
        np.remainder,
        _modulo,
        (*SIGNED_PAIRS, (7.3, 0.1), (1e8, 0.3)),
        at=_sawtooth(lambda x, y: x % y, lambda x, y: x // y)
        | {
            (a, b): {(0, 0): 0.0, (1, 0): 1.0, (0, 1): -float(round(a / b))}
            for a, b in SIGNED_PAIRS
            if math.fmod(a, b) == 0
        },
    ),
    _case(
        "np.floor_divide",
        np.floor_divide,
        lambda x, y: mp.floor(x / y),
        (*SIGNED_PAIRS, (7.3, 0.1), (1e8, 0.3)),
        at={
            (a, b): {(0, 0): float(round(a / b)), (1, 0): 0.0, (0, 1): 0.0, (2, 0): 0.0}
            for a, b in (*SIGNED_PAIRS, (6.0, 2.0))
            if math.fmod(a, b) == 0
        },
    ),
    _case(
        "np.maximum",
        np.maximum,
        max,
        SIGNED_PAIRS,
        at={p: v for a in (0.0, -2.5, -1.0, 0.3, 1.7) for p, v in _tied(a, a).items()},
    ),
    _case(
        "np.minimum",
        np.minimum,
        min,
        SIGNED_PAIRS,
        at={p: v for a in (0.0, -2.5, -1.0, 0.3, 1.7) for p, v in _tied(a, a).items()},
    ),
    _case(
        "np.fmax",
        np.fmax,
        max,
        SIGNED_PAIRS,
        at={p: v for a in (0.0, -2.5, -1.0, 0.3, 1.7) for p, v in _tied(a, a).items()},
    ),
    _case(
        "np.fmin",
        np.fmin,
        min,
        SIGNED_PAIRS,
        at={p: v for a in (0.0, -2.5, -1.0, 0.3, 1.7) for p, v in _tied(a, a).items()},
    ),
    _case(
        "np.clip",
        lambda x: np.clip(x, -1.0, 2.0),
        lambda x: min(max(x, mpf(-1)), mpf(2)),
        REAL,
        at={-1.0: (-1, 0.5, 0, 0, 0), 2.0: (2, 0.5, 0, 0, 0)},
    ),
    _case(
        "np.copysign",
        np.copysign,
        lambda x, y: abs(x) * (1 if y > 0 else -1),
        SIGNED_PAIRS,
        at={(0.0, 1.0): {(0, 0): 0, (1, 0): 1, (0, 1): 0, (2, 0): 0}},
    ),
    _case(
        "np.heaviside",
        np.heaviside,
        lambda x, y: mpf(x > 0),
        SIGNED_PAIRS,
        at={(0.0, 0.3): {(0, 0): 0.3, (1, 0): 0, (0, 1): 1, (0, 2): 0}},
    ),
    _case(
        "np.select",
        lambda x, y: np.where(x > y, x * y, y),
        lambda x, y: x * y if x > y else y,
        SIGNED_PAIRS,
        at={(a, a): {(0, 0): a, (1, 0): 0, (0, 1): 1} for a in (-2.5, -1.0, 0.3, 1.7)},
    ),
    _case("np.nan_to_num", np.nan_to_num, lambda x: x, REAL),
]

#: Exponents that are constants, and the base.
_WHOLE: Final = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
_BROKEN: Final = (-1.5, -0.5, 0.1, 0.5, 1.5, 2.5, 7.5)
_BASES: Final = (1e-60, 1e-8, 1e-3, 0.3, 0.5, 1.0, 2.0, 3.7, 100.25, 1e20)


def _power_at_zero(exponent: float) -> tuple[float, ...]:
    found, factor = [], 1.0
    for k in range(5):
        e = exponent - k
        found.append(0.0 if not factor or e > 0 else factor if not e else math.copysign(INF, factor))
        factor *= e
    return tuple(found)


POWERS = [
    *(
        _case(
            f"np.power(x, {e:g})",
            lambda x, e=e: np.power(x, e),
            lambda x, e=e: mp.power(x, e),
            signed(*_BASES) if e in _WHOLE else _BASES,
            at={0.0: _power_at_zero(e)} if e >= 0 else {0.0: (INF if e != -1 and e != -3 else None,)},
        )
        for e in (*_WHOLE, *_BROKEN)
    ),
    _case(
        "np.power",
        np.power,
        mp.power,
        tuple(itertools.product((1e-60, 1e-8, 0.3, 1.0, 2.5, 1e8), (-2.5, -1.0, 0.0, 1e-8, 0.3, 1.0, 2.0, 3.0, 7.5))),
        at={
            (0.0, y): {(k, 0): v for k, v in enumerate(_power_at_zero(y))} | ({(0, 1): 0.0} if y else {})
            for y in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 0.0)
        },
    ),
    _case("np.float_power", np.float_power, mp.power, tuple(itertools.product((0.3, 1.0, 2.5), (-2.5, 0.0, 0.3, 2.0)))),
    _case("special.exp10", special.exp10, lambda x: mp.power(10, x), signed(*TINY, *ORDINARY, 100.25, 300.0)),
    _case(
        "math.pow",
        lambda x, y: math.pow(x, y),
        mp.power,
        tuple(itertools.product((0.3, 1.0, 2.5), (-2.5, 0.0, 0.3, 2.0))),
    ),
]

ROOTS = [
    _case("np.sqrt", np.sqrt, mp.sqrt, (1e-60, *POSITIVE[2:], 1e100, 1e300), at={0.0: (0, INF, -INF, INF, -INF)}),
    _case(
        "np.cbrt",
        np.cbrt,
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        signed(1e-60, *POSITIVE[2:], 1e100, 1e300),
        at={0.0: (0, INF)},
    ),
    _case(
        "np.hypot",
        np.hypot,
        lambda x, y: mp.sqrt(x * x + y * y),
        (
            *SIGNED_PAIRS,
            (0.0, 2.0),
            (2.0, 0.0),
            (1e-8, 1.0),
            (1.0, 1e-8),
            (1e-160, 1.0),
            (1e-60, 1e-60),
            (3e60, 4e60),
            (1e-160, 1e-160),
            (3e-160, 4e-160),
            (1e200, 1e200),
            (1e300, 1e290),
            (1e-200, 1e-100),
        ),
        at={(0.0, 0.0): {(0, 0): 0, (1, 0): 0.5, (0, 1): 0.5}},
    ),
]

EXPONENTIALS = [
    _case("np.exp", np.exp, mp.exp, (*REAL, -700.0, -745.0, 700.0, -1e5)),
    _case("np.expm1", np.expm1, mp.expm1, (*REAL, -30.0, -40.0, -700.0, 700.0, -1e5)),
    _case("np.exp2", np.exp2, lambda x: mp.power(2, x), (*REAL, -1020.0, 1000.0)),
    _case(
        "np.log", np.log, mp.log, (1e-60, *POSITIVE, 1.0 - 1e-8, 1.0 + 1e-8, 1e8, 1e300), at={0.0: (-INF, INF, -INF)}
    ),
    _case(
        "np.log1p",
        np.log1p,
        mp.log1p,
        (*signed(*TINY, 0.1, 0.3, 0.5, 0.7), *ORDINARY, 1e8, 1e300, -1.0 + 1e-8),
        singular=(-1.0,),
        at={-1.0: (-INF, INF, -INF)},
    ),
    _case(
        "np.log2", np.log2, lambda x: mp.log(x) / mp.log(2), (1e-60, *POSITIVE, 1e8, 1e300), at={0.0: (-INF, INF, -INF)}
    ),
    _case(
        "np.log10",
        np.log10,
        lambda x: mp.log(x) / mp.log(10),
        (1e-60, *POSITIVE, 1e8, 1e300),
        at={0.0: (-INF, INF, -INF)},
    ),
    _case(
        "np.logaddexp",
        np.logaddexp,
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
        (
            *SIGNED_PAIRS,
            (0.0, 0.0),
            (1.0, 1.0 + 1e-8),
            (700.0, -700.0),
            (-800.0, -800.0),
            (1e5, 3.0),
            (30.0, 0.0),
            (40.0, 0.0),
        ),
    ),
    _case(
        "np.logaddexp2",
        np.logaddexp2,
        lambda x, y: max(x, y) + mp.log1p(mp.power(2, -abs(x - y))) / mp.log(2),
        (*SIGNED_PAIRS, (0.0, 0.0), (1.0, 1.0 + 1e-8), (700.0, -700.0), (-800.0, -800.0), (1e5, 3.0)),
    ),
]


def _acosh(x: Any) -> Any:
    return mp.log(x + mp.sqrt((x - 1) * (x + 1)))


TRIGONOMETRY = [
    _case("np.sin", np.sin, mp.sin, (*REAL, math.pi, math.pi / 2, 1e5)),
    _case("np.cos", np.cos, mp.cos, (*REAL, math.pi, math.pi / 2, 1e5)),
    _case("np.tan", np.tan, mp.tan, (*REAL, math.pi, math.pi / 2, math.pi / 4, 1e5)),
    _case(
        "np.arcsin",
        np.arcsin,
        mp.asin,
        UNIT,
        singular=(1.0, -1.0),
        at={1.0: (math.pi / 2, INF, INF), -1.0: (-math.pi / 2, INF, -INF)},
    ),
    _case(
        "np.arccos",
        np.arccos,
        mp.acos,
        UNIT,
        singular=(1.0, -1.0),
        at={1.0: (0, -INF, -INF), -1.0: (math.pi, -INF, INF)},
    ),
    _case("np.arctan", np.arctan, mp.atan, (*REAL, *signed(*HUGE))),
    _case(
        "np.arctan2",
        np.arctan2,
        mp.atan2,
        (
            *SIGNED_PAIRS,
            (0.0, 2.0),
            (2.0, 0.0),
            (-2.0, 0.0),
            (1e-8, 1.0),
            (1.0, 1e-8),
            (1e-160, 1.0),
            (1.0, 1e-160),
            (1e-60, 1e-60),
            (3e60, -4e60),
            (1e-160, 1e-160),
            (3e-160, 4e-160),
            (1e200, 1e200),
            (1e300, 1e290),
            (1e-200, -1e-100),
        ),
    ),
    _case("np.sinh", np.sinh, mp.sinh, (*REAL, -700.0, 700.0)),
    _case("np.cosh", np.cosh, mp.cosh, (*REAL, -700.0, 700.0)),
    _case("np.tanh", np.tanh, mp.tanh, (*REAL, *signed(5.0, 10.0, 18.0, 19.5, 25.0, 300.0))),
    _case(
        "np.arcsinh", np.arcsinh, lambda x: mp.sign(x) * mp.log(abs(x) + mp.sqrt(1 + x * x)), (*REAL, *signed(*HUGE))
    ),
    _case(
        "np.arccosh",
        np.arccosh,
        _acosh,
        (1.0 + 1e-8, 1.0 + 2.0**-52, *(x for x in ORDINARY if x > 1), 20.0, *HUGE),
        singular=(1.0,),
        at={1.0: (0, INF)},
    ),
    _case(
        "np.arctanh",
        np.arctanh,
        lambda x: (mp.log1p(x) - mp.log1p(-x)) / 2,
        UNIT,
        singular=(1.0, -1.0),
        at={1.0: (INF, INF, INF), -1.0: (-INF, INF, -INF)},
    ),
    _case("np.sinc", np.sinc, lambda x: mp.sin(mp.pi * x) / (mp.pi * x) if x else mpf(1), (*REAL, 0.15, 0.16, 0.17)),
    _case("np.angle", np.angle, lambda x: mpf(0) if x > 0 else +mp.pi, signed(0.3, 2.0)),
    _case("np.i0", np.i0, lambda x: mp.besseli(0, x), REAL),
]

MATH = [
    _case("math.log", lambda x: math.log(x), _log, (0.3, 1.0, 2.5)),
    _case(
        "math.log(base)",
        lambda x, y: math.log(x, y),
        _log,
        ((0.3, 2.0), (8.0, 2.0), (3.0, 0.5), (1.0, 10.0)),
        singular=(1.0,),
    ),
    _case(
        "math.hypot",
        lambda x, y: math.hypot(x, y, 1.0),
        lambda x, y: mp.sqrt(x * x + y * y + 1),
        (*SIGNED_PAIRS, (0.0, 0.0)),
    ),
    _case(
        "math.dist",
        lambda x, y: math.dist([x, y], [3.0, 0.5]),
        lambda x, y: mp.hypot(x - 3, y - mpf(0.5)),
        SIGNED_PAIRS,
        singular=(3.0, 0.5),
    ),
    _case(
        "math.remainder",
        lambda x, y: math.remainder(x, y),
        lambda x, y: x - y * mp.nint(x / y),
        (*SIGNED_PAIRS, (7.3, 0.11)),
        at={(a, b): {} for a, b in SIGNED_PAIRS if math.fmod(2 * a / b, 1) == 0 and (2 * a / b) % 2 == 1},
    ),
    _case("math.modf", lambda x: math.modf(x)[0], lambda x: x - mp.sign(x) * mp.floor(abs(x)), signed(0.3, 2.5)),
    _case("math.prod", lambda x, y: math.prod([x, y, 3.0]), lambda x, y: 3 * x * y, SIGNED_PAIRS),
    _case("math.fsum", lambda x, y: math.fsum([x, y, 3.0]), lambda x, y: x + y + 3, SIGNED_PAIRS),
]

# scipy.special --------------------------------------------------------------------------------------------------------


def _erfcx(x: Any) -> Any:
    if x > 200:
        z, total, term = 1 / (2 * x * x), mpf(0), mpf(1)
        for k in range(1, 2000):  # asymptotic, as far as the terms decrease below the precision
            total += term
            term *= -(2 * k - 1) * z
            if abs(term) < mp.eps:
                break
        return total / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def _log_ndtr(x: Any) -> Any:
    if x < -200:
        return mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 5 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)


def _erfcinv(y: Any) -> Any:
    """By Newton's iteration for the logarithm of erfc, in the smaller tail."""
    if y > 1:
        return -_erfcinv(2 - y)
    x = mpf(float(special.erfcinv(float(y)))) if y > mpf(2) ** -1000 else mp.sqrt(-mp.log(y))
    for _ in range(60):
        value = mp.erfc(x)
        step = mp.log(value / y) * value * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step
        if abs(step) <= abs(x) * mp.sqrt(mp.eps) * mpf(10) ** -5:
            return x
    return x


def _entr(x: Any) -> Any:
    return -x * mp.log(x) if x else mpf(0)


def _expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


ERRORS = [
    _case("special.erf", special.erf, mp.erf, (*REAL[3:-3], 10.0, -10.0, 30.0)),
    _case("special.erfc", special.erfc, mp.erfc, (*REAL[3:-3], 10.0, -10.0, 26.0)),
    _case("special.erfcx", special.erfcx, _erfcx, (*(x for x in REAL if x > -25), -26.0, 50.0, 1e5, 1e10)),
    _case(
        "special.erfinv",
        special.erfinv,
        mp.erfinv,
        UNIT[1:-1],
        singular=(1.0, -1.0),
        at={1.0: (INF, INF, INF), -1.0: (-INF, INF, -INF)},
    ),
    _case(
        "special.erfcinv",
        special.erfcinv,
        _erfcinv,
        (1e-300, 1e-160, 1e-8, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0, 1.3, 1.9, 2.0 - 1e-8),
        singular=(1.0, 2.0),
        at={0.0: (INF, -INF, INF)},
    ),
    _case("special.ndtr", special.ndtr, mp.ncdf, (*(x for x in REAL if abs(x) < 30), -37.0)),
    _case(
        "special.ndtri",
        special.ndtri,
        lambda p: -mp.sqrt(2) * _erfcinv(2 * p),
        (1e-300, 1e-160, 1e-8, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0 - 1e-8),
        singular=(0.5, 1.0),
        at={0.0: (-INF, INF, -INF), 1.0: (INF, INF, INF)},
    ),
    _case(
        "special.log_ndtr",
        special.log_ndtr,
        _log_ndtr,
        (*(x for x in REAL if abs(x) < 30), -37.0, -100.25, -1e5, 37.0, 30.0),
    ),
    _case("math.erf", lambda x: math.erf(x), mp.erf, (0.3, -2.5)),
    _case("math.erfc", lambda x: math.erfc(x), mp.erfc, (0.3, 2.5)),
]


def _beta(a: Any, b: Any) -> Any:
    return mp.exp(_betaln(a, b))


def _betaln(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


_NEGATIVE: Final = (-0.5, -0.3, -1.3, -1.5, -2.7, -10.5, -1e-3, -1e-8)
_BETAS: Final = (
    *PAIRS,
    (100.25, 60.0),
    (100.0, 80.0),
    (1e-3, 1e-3),
    (1e-8, 3.0),
    (1e3, 1e3),
    (1e5, 0.5),
    (1e5, 30.0),
    (1e8, 1e-3),
)
_POLES: Final = (0.0, -1.0, -2.0, -3.0, -11.0)


def _polygamma(n: int) -> Callable[[Any], Any]:
    return lambda x: mp.psi(n, x)


GAMMAS = [
    _case(
        "special.gamma",
        special.gamma,
        mp.gamma,
        (1e-60, *POSITIVE[2:], 150.25, 170.0, *_NEGATIVE, -100.5),
        singular=_POLES,
        at={0.0: (INF,)},
    ),
    _case(
        "special.gammaln",
        special.gammaln,
        lambda x: mp.re(mp.loggamma(x)),
        (1e-60, *POSITIVE, 1.0 + 1e-8, 2.0 - 1e-8, 1e5, 1e100, *_NEGATIVE),
        singular=_POLES,
        at={0.0: (INF, -INF, INF)},
    ),
    _case("special.loggamma", special.loggamma, mp.loggamma, (1e-60, *POSITIVE, 1e5, 1e100)),
    _case(
        "special.psi",
        special.psi,
        mp.digamma,
        (1e-60, *POSITIVE[2:], 1.4616321449683622, 1e5, 1e100, *_NEGATIVE, -100.5),
        singular=_POLES,
        at={0.0: (-INF, INF)},
    ),
    *(
        _case(
            f"special.polygamma({n})",
            lambda x, n=n: special.polygamma(n, x),
            _polygamma(n),
            (1e-8, 1e-3, *ORDINARY, 20.0, 100.25, 1e5),
        )
        for n in (0, 1, 2, 3, 5, 10, 50)
    ),
    *(
        _case(
            f"special.zeta({s:g})",
            lambda q, s=s: special.zeta(s, q),
            lambda q, s=s: mp.zeta(mpf(s), q),
            (1e-8, 1e-3, *ORDINARY, 20.0, 100.25, 1e5),
        )
        for s in (1.5, 2.0, 3.0, 9.5, 30.0)
    ),
    _case("special.beta", special.beta, _beta, _BETAS),
    _case("special.betaln", special.betaln, _betaln, _BETAS),
    _case(
        "special.binom",
        special.binom,
        lambda n, k: 1 / ((n + 1) * _beta(n - k + 1, k + 1)),
        (
            (4.5, 2.5),
            (9.3, 2.0),
            (10.0, 3.0),
            (10.0, 10.0),
            (10.0, 0.0),
            (5.5, 0.3),
            (150.0, 75.0),
            (300.0, 20.0),
            (1000.0, 500.0),
            (2.5, 1e-8),
        ),
    ),
    _case(
        "special.multigammaln(3)",
        lambda a: special.multigammaln(a, 3),
        lambda a: 1.5 * mp.log(mp.pi) + sum(mp.loggamma(a - mpf(j) / 2) for j in range(3)),
        (1.001, 1.3, 2.0, 2.5, 7.3, 100.25, 1e5),
        singular=(1.0,),
    ),
    _case("special.multigammaln(1)", lambda a: special.multigammaln(a, 1), mp.loggamma, (1e-3, 0.5, 1.0, 7.3)),
    _case("math.gamma", lambda x: math.gamma(x), mp.gamma, (0.3, 2.5)),
    _case("math.lgamma", lambda x: math.lgamma(x), mp.loggamma, (0.3, 2.5)),
]


def _spherical(n: int, x: Any) -> Any:
    if not x:
        return mpf(n == 0)
    return mp.sign(x) ** n * mp.sqrt(mp.pi / 2 / abs(x)) * mp.besselj(n + mpf(1) / 2, abs(x))


def _second_kind(n: int, x: Any, modified: bool) -> Any:
    """Yₙ or Kₙ by their series, in as many more digits as the terms cancel."""
    n, opposite = abs(n), (n < 0 and n % 2 and not modified)
    before = mp.prec
    try:
        mp.prec = before + 20 + int(4 * abs(x) + 2 * n * abs(mp.log(abs(x) + n + 1)))
        half, sign = mpf(x) / 2, 1 if modified else -1
        square, logarithm = half * half, mp.log(mpf(x) / 2)
        low = mp.fsum((-sign) ** k * mp.factorial(n - k - 1) / mp.factorial(k) * half ** (2 * k - n) for k in range(n))
        term, total = half**n / mp.factorial(n), mpf(0)
        digammas = -2 * mp.euler + mp.fsum(mpf(1) / k for k in range(1, n + 1))
        k = 0
        while True:
            added = term * (2 * logarithm - digammas)
            total += added
            if k > half and abs(added) < abs(total) * mp.eps:
                break
            k += 1
            term *= sign * square / (k * (k + n))
            digammas += mpf(1) / k + mpf(1) / (k + n)
        value = (low + (-1) ** (n + 1) * total) / 2 if modified else (total - low) / mp.pi
    finally:
        mp.prec = before
    return -value if opposite else +value


def _bessely(n: int, x: Any) -> Any:
    return _second_kind(n, x, False)


def _besselk(n: int, x: Any) -> Any:
    return _second_kind(n, x, True)


_BESSEL: Final = (*REAL, *signed(1e-60, 1e-5, 2.4048255576957727, 3.8317059702075125, 50.0))
_OUTWARD: Final = (1e-60, 1e-8, 1e-3, *ORDINARY, 20.0, 100.25)
_MODIFIED: Final = (*REAL, *signed(1e-60, 1e-5, 50.0, 399.0, 401.0, 690.0))
#: Orders of Bessel functions; the highest that is accepted is the last.
_ORDERS: Final = (0, 1, 2, 3, 4, 5, 10, 20)

BESSEL = [
    _case("special.j0", special.j0, lambda x: mp.besselj(0, x), _BESSEL),
    _case("special.j1", special.j1, lambda x: mp.besselj(1, x), _BESSEL),
    *(
        _case(f"special.jv({n})", lambda x, n=n: special.jv(n, x), partial(mp.besselj, n), _BESSEL)
        for n in (-3, -2, -1, *_ORDERS)
    ),
    _case("special.jv(100)", lambda x: special.jv(100, x), partial(mp.besselj, 100), (0.0, 1.0, 50.0, 100.0, -120.0)),
    _case("special.jv(1000)", lambda x: special.jv(1000, x), partial(mp.besselj, 1000), (0.0, 700.0, 1000.0, 1100.0)),
    _case("special.y0", special.y0, lambda x: _bessely(0, x), _OUTWARD),
    _case("special.y1", special.y1, lambda x: _bessely(1, x), _OUTWARD),
    *(
        _case(f"special.yv({n})", lambda x, n=n: special.yv(n, x), partial(_bessely, n), _OUTWARD)
        for n in (-2, -1, *_ORDERS)
    ),
    _case("special.yn(2)", lambda x: special.yn(2, x), partial(_bessely, 2), _OUTWARD),
    _case("special.i0", special.i0, lambda x: mp.besseli(0, x), _MODIFIED),
    _case("special.i1", special.i1, lambda x: mp.besseli(1, x), _MODIFIED),
    _case("special.i0e", special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), _MODIFIED, at={0.0: (1, 0)}),
    _case("special.i1e", special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), _MODIFIED, at={0.0: (0, 0.5)}),
    *(
        _case(f"special.iv({n})", lambda x, n=n: special.iv(n, x), partial(mp.besseli, abs(n)), _MODIFIED)
        for n in (-3, *_ORDERS)
    ),
    *(
        _case(
            f"special.ive({n})",
            lambda x, n=n: special.ive(n, x),
            lambda x, n=n: mp.exp(-abs(x)) * mp.besseli(abs(n), x),
            _MODIFIED,
            at={0.0: (float(n == 0), 0.5 * (n == 1))},
        )
        for n in (-3, *_ORDERS)
    ),
    _case("special.k0", special.k0, lambda x: _besselk(0, x), (*_OUTWARD, 600.0)),
    _case("special.k1", special.k1, lambda x: _besselk(1, x), (*_OUTWARD, 600.0)),
    _case("special.k0e", special.k0e, lambda x: mp.exp(x) * _besselk(0, x), (*_OUTWARD, 600.0)),
    _case("special.k1e", special.k1e, lambda x: mp.exp(x) * _besselk(1, x), (*_OUTWARD, 600.0)),
    *(
        _case(f"special.kv({n})", lambda x, n=n: special.kv(n, x), partial(_besselk, n), (*_OUTWARD, 600.0))
        for n in (-2, *_ORDERS)
    ),
    _case("special.kn(4)", lambda x: special.kn(4, x), partial(_besselk, 4), _OUTWARD),
    *(
        _case(
            f"special.kve({n})",
            lambda x, n=n: special.kve(n, x),
            lambda x, n=n: mp.exp(x) * _besselk(n, x),
            (*_OUTWARD, 600.0),
        )
        for n in (0, 1, 2, 5, 20)
    ),
    *(
        _case(
            f"special.spherical_jn({n})",
            lambda x, n=n: special.spherical_jn(n, x),
            partial(_spherical, n),
            (*REAL, 0.999, 1.001),
        )
        for n in (0, 1, 2)
    ),
]


def _exprel(x: Any) -> Any:
    return mp.expm1(x) / x if x else mpf(1)


def _boxcox(x: Any, power: Any) -> Any:
    return mp.expm1(power * mp.log(x)) / power if power else mp.log(x)


def _inv_boxcox(y: Any, power: Any) -> Any:
    return mp.exp(mp.log1p(power * y) / power) if power else mp.exp(y)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    return delta * delta * (mp.sqrt(1 + (r / delta) ** 2) - 1)


def _huber(delta: Any, r: Any) -> Any:
    return r * r / 2 if abs(r) <= delta else delta * (abs(r) - delta / 2)


_LAMBDAS: Final = (0.0, 1e-300, 1e-160, 1e-8, -1e-8, 1e-3, 0.3, -0.7, 1.0, 2.5)

FORMULAS = [
    _case("special.expit", special.expit, _expit, (*REAL, -37.0, 37.0, -700.0, 700.0)),
    _case(
        "special.logit",
        special.logit,
        lambda x: mp.log(x) - mp.log1p(-x),
        (1e-60, *(x for x in UNIT if x > 1e-200), 1e-100),
        singular=(0.5, 1.0),
        at={0.0: (-INF, INF), 1.0: (INF, INF)},
    ),
    _case("special.log_expit", special.log_expit, lambda x: -mp.log1p(mp.exp(-x)), (*REAL, -37.0, 37.0, -700.0, 700.0)),
    _case(
        "special.xlogy",
        special.xlogy,
        lambda x, y: x * mp.log(y),
        ((0.3, 0.7), (2.5, 1.0), (1.0, 1e-60), (1e-300, 2.5), (-1.3, 2.0), (0.0, 2.0), (0.0, 0.5)),
        at={(0.0, 0.0): {(0, 0): 0}},
    ),
    _case(
        "special.xlog1py",
        special.xlog1py,
        lambda x, y: x * mp.log1p(y),
        ((0.3, 0.7), (2.5, 0.0), (1.0, 1e-8), (1.0, -0.5), (-1.3, 2.0), (0.0, 2.0), (1.0, -1.0 + 1e-8)),
        singular=(-1.0,),
        at={(0.0, -1.0): {(0, 0): 0}},
    ),
    _case("special.entr", special.entr, _entr, (1e-60, *POSITIVE[2:], 1.0 - 1e-8), at={0.0: (0, 0)}),
    _case(
        "special.rel_entr",
        special.rel_entr,
        lambda x, y: x * (mp.log(x) - mp.log(y)),
        (*PAIRS, (1e-8, 2.0), (2.0, 1e-8), (1.0, 1.0 + 1e-8), (1e-300, 1.0), (1.0, 1e-60), (1e200, 1e-60)),
        at={(0.0, 2.0): {(0, 0): 0, (0, 1): 0}},
    ),
    _case(
        "special.kl_div",
        special.kl_div,
        lambda x, y: x * (mp.log(x) - mp.log(y)) - x + y,
        (*PAIRS, (1e-8, 2.0), (2.0, 1e-8), (1.0, 1.0 + 1e-8), (1.0, 1.25), (1e-300, 1.0), (1.0, 1e-60)),
        at={(0.0, 2.0): {(0, 0): 2, (0, 1): 1}},
    ),
    _case(
        "special.huber",
        special.huber,
        _huber,
        ((1.0, 0.3), (1.0, -0.3), (1.0, 2.5), (1.0, -2.5), (2.0, 0.0), (1e-8, 1.0), (1e3, 1e-8), (1.0, 1.0 + 1e-8)),
        singular=(1.0,),
        at={(1.0, 1.0): {(0, 0): 0.5, (0, 1): 1, (1, 0): 0}, (1.0, -1.0): {(0, 0): 0.5, (0, 1): -1, (1, 0): 0}},
    ),
    _case(
        "special.pseudo_huber",
        special.pseudo_huber,
        _pseudo_huber,
        (
            (1.0, 0.0),
            (2.5, 0.0),
            (1.0, 1e-300),
            (1.0, 1e-160),
            (1.0, 1e-8),
            (1.0, 1e-3),
            (0.7, 0.3),
            (0.7, -0.3),
            (1.0, 1.0),
            (2.5, -7.3),
            (1e-8, 1.0),
            (1e3, 1e-3),
            (1.0, 1e8),
        ),
        at={(0.0, 2.0): {(0, 0): 0}, (0.0, 0.0): {(0, 0): 0}},
    ),
    _case("special.exprel", special.exprel, _exprel, (*REAL, 0.499, 0.501, -0.499, -0.501, 700.0, -700.0)),
    _case("special.cosm1", special.cosm1, lambda x: -2 * mp.sin(x / 2) ** 2, (*REAL, 2 * math.pi, math.pi)),
    _case(
        "special.boxcox",
        special.boxcox,
        _boxcox,
        tuple(itertools.product((0.2, 1.0, 1.0 + 1e-8, 3.7), _LAMBDAS)),
        singular=(1.0,),
    ),
    _case(
        "special.boxcox1p",
        special.boxcox1p,
        lambda x, power: _boxcox(1 + x, power),
        tuple(itertools.product((-0.3, 0.0, 1e-8, 3.7), _LAMBDAS)),
        singular=(-1.0,),
    ),
    _case(
        "special.inv_boxcox",
        special.inv_boxcox,
        _inv_boxcox,
        tuple(itertools.product((-0.5, 0.0, 1e-8, 0.7, 1.0, 3.7), (*_LAMBDAS[:7], 1.0))),
    ),
    _case(
        "special.logsumexp",
        lambda x, y: special.logsumexp(np.array([x, y, 0.0])),
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y) + 1),
        (*SIGNED_PAIRS, (0.0, 0.0), (30.0, 0.0), (-700.0, -700.0)),
    ),
    _case(
        "special.softmax",
        lambda x, y: special.softmax(np.array([x, y, 0.0]))[0],
        lambda x, y: mp.exp(x) / (mp.exp(x) + mp.exp(y) + 1),
        (*SIGNED_PAIRS, (0.0, 0.0), (30.0, 0.0), (-300.0, -30.0)),
    ),
    _case(
        "special.log_softmax",
        lambda x, y: special.log_softmax(np.array([x, y, 0.0]))[0],
        lambda x, y: x - mp.log(mp.exp(x) + mp.exp(y) + 1),
        (*SIGNED_PAIRS, (0.0, 0.0), (30.0, 0.0), (-300.0, -30.0)),
    ),
]


def _polynomial(kind: int, n: int, x: Any) -> Any:
    """Chebyshev's polynomials, whose recurrences are exact enough in many digits."""
    before, now = mpf(1), kind * x
    for _ in range(n):
        before, now = now, 2 * x * now - before
    return before


_POLYNOMIALS: Final[dict[str, Callable[..., Any]]] = {
    "eval_legendre": mp.legendre,
    "eval_chebyt": partial(_polynomial, 1),
    "eval_chebyu": partial(_polynomial, 2),
    "eval_hermite": mp.hermite,
    "eval_hermitenorm": lambda n, x: mp.power(2, -mpf(n) / 2) * mp.hermite(n, x / mp.sqrt(2)),
    "eval_laguerre": lambda n, x: mp.fsum(mp.binomial(n, k) * (-x) ** k / mp.factorial(k) for k in range(n + 1)),
}
POLYNOMIALS = [
    _case(
        f"special.{name}({n})",
        lambda x, name=name, n=n: getattr(special, name)(n, x),
        partial(exact, n),
        signed(*TINY, 0.3, 0.5, 0.99, 1.0, 1.3),
    )
    for name, exact in _POLYNOMIALS.items()
    for n in (0, 1, 2, 3, 5, 20)
]

CASES = [
    *ARITHMETIC,
    *STEPS,
    *POWERS,
    *ROOTS,
    *EXPONENTIALS,
    *TRIGONOMETRY,
    *MATH,
    *ERRORS,
    *GAMMAS,
    *BESSEL,
    *FORMULAS,
    *POLYNOMIALS,
]


def differentiated(function: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return a nested derivative."""
    for _ in range(times):
        function = acc.jacobian(function, effort="fast", cache=False, check=False)
    return function


#: Functions of an order that is out of reach, with a point and what the error says.
REFUSED: Final[list[tuple[str, Callable[..., Any], str]]] = [
    ("kn(1001)", lambda x: special.kn(1001, x), "order of scipy.special.kn is 1001"),
    ("yn(0.5)", lambda x: special.yn(0.5, x), "order of scipy.special.yn is 0.5"),
    (
        "iv(20), 5th",
        differentiated(lambda x: special.iv(20, x), 4),
        "needs iv of order 25, and the highest order is 24",
    ),
    ("ive(20), 5th", differentiated(lambda x: special.ive(20, x), 4), "needs ive of order 25, and the highest order"),
    ("erfcx, 13th", differentiated(special.erfcx, 12), "needs ierfcx of order 13, and the highest order is 12"),
    ("spherical_jn(0.5)", lambda x: special.spherical_jn(0.5, x), "order of scipy.special.spherical_jn is 0.5"),
    ("zeta(x, 2)", lambda x: special.zeta(x, 2.0), "derivative with respect to its first argument is unknown"),
    ("polygamma(x, 2)", lambda x: special.polygamma(x, 2.0), "order has to be a constant"),
    ("multigammaln(2.5, x)", lambda x: special.multigammaln(2.5, x), "dimension has to be a constant"),
    ("eval_legendre(1001)", lambda x: special.eval_legendre(1001, x), "order of scipy.special.eval_legendre is 1001"),
]
_OF_TRUTH: Final = (
    "less less_equal equal not_equal logical_and logical_or logical_not np.less np.less_equal np.equal np.not_equal "
    "np.greater np.greater_equal np.isnan np.isinf np.isfinite np.logical_and np.logical_or np.logical_not "
    "np.logical_xor np.bitwise_and np.bitwise_or np.bitwise_xor np.invert math.isclose math.isfinite math.isinf "
    "math.isnan"
)
_OF_MATH: Final = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh degrees exp exp2 expm1 fabs floor fmod log10 "
    "log1p log2 radians sin sinh sqrt tan tanh trunc"
)
#: Functions of SciPy whose values are SciPy's, or formulas of these.
_BY_WALK: Final = (
    *(row.ufunc for row in OPERATIONS if row.is_scipys),
    *[
        "wrightomega",
        "elliprj",
        "round",
        "radian",
        "nrdtrimn",
        "nrdtrisd",
        "inv_boxcox1p",
        "jve",
        "yve",
        "lambertw",
        "comb",
    ],
    *["eval_gegenbauer", "eval_genlaguerre", "eval_jacobi", "eval_chebyc", "eval_chebys"],
    *["eval_sh_chebyt", "eval_sh_chebyu", "eval_sh_legendre", "eval_sh_jacobi"],
    *["spherical_yn", "spherical_in", "spherical_kn"],
)
#: Operations and functions without a case, each with a reason.
WITHOUT_CASE: Final[dict[str, str]] = {
    **dict.fromkeys(("input", "attach", "np.attach"), "no function of NumPy or SciPy"),
    **dict.fromkeys(("i1erfcx", "ierfcx"), "derivatives of special.erfcx"),
    **dict.fromkeys(
        (row.name for row in OPERATIONS if row.is_scipys), "SciPy's, with its errors: tests/tape/test_scipy_rows.py"
    ),
    **dict.fromkeys((f"special.{name}" for name in _BY_WALK), "tests/frontends/scipy_functions/test_every_special.py"),
    **dict.fromkeys(_OF_TRUTH.split(), "has truth values, no derivative"),
    **dict.fromkeys((f"special.{name}" for name in ("cbrt", "exp2", "expm1", "log1p")), "NumPy's function"),
    **dict.fromkeys((f"math.{name}" for name in _OF_MATH.split()), "NumPy's function by another name"),
}
