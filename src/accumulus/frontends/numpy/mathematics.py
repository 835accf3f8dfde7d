"""Formulas for functions of `math` and `statistics`, which accept plain numbers only, on traced values.

With ``guards="error"`` the originals are called instead, and their request for a plain number is refused.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.elementwise import of_special
from accumulus.frontends.numpy.table import CALLED, borrows
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

#: Functions of `math` → functions of NumPy: from the table of operations, and some more.
MATH: Final[dict[str, Callable[..., Any]]] = {
    **{row.c: getattr(np, row.ufunc) for row in OPERATIONS if hasattr(math, row.c) and hasattr(np, row.ufunc)},
    **{name: getattr(np, name) for name in ("copysign", "degrees", "fabs", "isfinite", "isinf", "isnan", "radians")},
    "floor": lambda x: np.floor(x) + 0.0,  # `math` returns integers, which have no negative zero
    "ceil": lambda x: np.ceil(x) + 0.0,
    "trunc": lambda x: np.trunc(x) + 0.0,
}
#: Functions of `math` → functions of `scipy.special`, which is imported when one is called.
SPECIAL: Final = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}

#: Functions of `math` that never raise, and functions that may raise an `OverflowError`.
_NEVER_RAISE: Final = frozenset({"isfinite", "isinf", "isnan", "isclose", "dist", "prod", "fsum", "fabs", "copysign"})
_OVERFLOW: Final = frozenset({"cosh", "exp", "exp2", "expm1", "sinh", "pow", "gamma", "lgamma", "hypot"})


def _enter(module: str, name: str, record: Callable[..., Any]) -> None:
    @borrows(module, name)
    def recorded(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        if ACTIVE.decisions is None:
            return getattr(sys.modules[module], name)(*arguments, **keywords)
        result = record(*arguments, **keywords)
        if ACTIVE.trying and module == "math" and name not in _NEVER_RAISE:
            _raise_as_python_does(name, arguments, result)
        return result


def _raise_as_python_does(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    """Raise the exception of `math` for results outside of a function's domain, where the user's code may catch it.

    Raises:
        ValueError, OverflowError: as in `math`.
    """
    numbers = [x for x in arguments if np.ndim(x) == 0]
    from_nan: Any = functools.reduce(operator.or_, map(np.isnan, numbers), np.bool_(False))
    finite: Any = functools.reduce(operator.and_, map(np.isfinite, numbers), np.bool_(True))
    for value in result if isinstance(result, tuple) else (result,):
        if np.isnan(value) & ~from_nan:
            raise ValueError("math domain error")
        if np.isinf(value) & finite:
            raise OverflowError("math range error") if name in _OVERFLOW else ValueError("math domain error")


def _hypot(*coordinates: Any) -> Any:
    if len(coordinates) == 2:
        return np.hypot(*coordinates)
    return np.sqrt(sum(c * c for c in coordinates))


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    return (a == b) | (abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol))


def _mean(data: Any, weights: Any = None) -> Any:
    values = list(data)
    if weights is None:
        return sum(values) / len(values)
    factors = list(weights)
    return sum(w * x for w, x in zip(factors, values, strict=True)) / sum(factors)


def _squares(data: Any, center: Any, less: int) -> Any:
    values = list(data)
    center = _mean(values) if center is None else center
    return sum((x - center) ** 2 for x in values) / (len(values) - less)


def _median(data: Any) -> Any:
    values = CALLED[0](sorted)(data)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


#: Formulas for all functions of `math`, and for functions of `statistics`.
_MATH: Final[dict[str, Callable[..., Any]]] = {
    **MATH,
    **{name: of_special(other) for name, other in SPECIAL.items()},
    "log": lambda x, base=None: np.log(x) if base is None else np.log(x) / np.log(base),
    "hypot": _hypot,
    "dist": lambda p, q: _hypot(*(a - b for a, b in zip(p, q, strict=True))),
    "prod": lambda iterable, *, start=1: functools.reduce(operator.mul, iterable, start),
    "fsum": sum,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "modf": lambda x: (x - np.trunc(x), np.trunc(x)),
    "isclose": _isclose,
}
_STATISTICS: Final[dict[str, Callable[..., Any]]] = {
    **{"mean": _mean, "fmean": _mean, "median": _median},
    "variance": lambda data, xbar=None: _squares(data, xbar, 1),
    "pvariance": lambda data, mu=None: _squares(data, mu, 0),
    "stdev": lambda data, xbar=None: np.sqrt(_squares(data, xbar, 1)),
    "pstdev": lambda data, mu=None: np.sqrt(_squares(data, mu, 0)),
    "geometric_mean": lambda data: np.exp(_mean([np.log(x) for x in data])),
    "harmonic_mean": lambda data, weights=None: 1.0 / _mean([1.0 / x for x in data], weights),
}
for _module, _table in {"math": _MATH, "statistics": _STATISTICS}.items():
    for _name, _function in _table.items():
        _enter(_module, _name, _function)
