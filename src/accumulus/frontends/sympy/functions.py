"""The table of SymPy's functions: from a class to what is emitted to the tape.

Most are rows of the tape's table; the others are formulas of NumPy's and SciPy's functions, which are recorded as they
are in Python functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions

from accumulus.tape.operations import OPERATIONS

#: Class → row of the tape's table, on the same arguments; SymPy has some under C's names, too.
ROWS: Final[dict[Any, str]] = {
    kind: row.name
    for row in OPERATIONS
    for kind in (
        getattr(sp, row.sympy, None),
        getattr(cfunctions, row.name, None),
        getattr(cfunctions, row.name.capitalize(), None),
    )
    if isinstance(kind, type) and kind not in (sp.Min, sp.Max, sp.And, sp.Or, sp.Not)
}


def _special(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        from scipy import special  # where it is needed

        return getattr(special, name)(*arguments)

    return call


def _sinc(x: Any) -> Any:
    from accumulus.frontends.numpy.various import sine_by_argument  # while something is recorded

    return sine_by_argument(x)


#: Class → formula on what stands for its arguments.
FORMULAS: Final[dict[Any, Callable[..., Any]]] = {
    sp.sec: lambda x: 1.0 / np.cos(x),
    sp.csc: lambda x: 1.0 / np.sin(x),
    sp.cot: lambda x: np.cos(x) / np.sin(x),
    sp.asec: lambda x: np.arccos(1.0 / x),
    sp.acsc: lambda x: np.arcsin(1.0 / x),
    # SymPy's, between -π/2 and π/2: it jumps at zero
    sp.acot: lambda x: np.where(x == 0, 0.5 * math.pi, np.arctan(1.0 / np.where(x == 0, 1.0, x))),
    sp.sech: lambda x: 1.0 / np.cosh(x),
    sp.csch: lambda x: 1.0 / np.sinh(x),
    sp.coth: lambda x: 1.0 / np.tanh(x),
    sp.asech: lambda x: np.arccosh(1.0 / x),
    sp.acsch: lambda x: np.arcsinh(1.0 / x),
    sp.acoth: lambda x: np.arctanh(1.0 / x),
    sp.sinc: _sinc,
    sp.Heaviside: np.heaviside,
    sp.Mod: np.remainder,
    sp.frac: lambda x: x - np.floor(x),
    sp.re: lambda x: x,
    sp.conjugate: lambda x: x,
    sp.im: lambda x: 0.0,
    sp.erf2: lambda x, y: _special("erf")(y) - _special("erf")(x),
    sp.erfinv: _special("erfinv"),
    sp.gamma: _special("gamma"),
    sp.loggamma: _special("gammaln"),
    sp.polygamma: lambda order, x: _special("digamma")(x) if order == 0 else _special("polygamma")(order, x),
    sp.beta: _special("beta"),
    sp.besselj: _special("jv"),
    sp.bessely: _special("yv"),
    sp.besseli: _special("iv"),
    sp.besselk: _special("kv"),
    cfunctions.fma: lambda x, y, z: x * y + z,
    sp.UnevaluatedExpr: lambda x: x,
}
