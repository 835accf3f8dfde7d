"""Cases of the scalar functions as functions of JAX and expressions of SymPy: the same points and reference numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import sympy as sp
from derivative_cases import Case
from scalar_functions import CASES as SCALAR
from sympy.codegen import cfunctions

from accumulus.frontends.sympy.model import Model

#: Functions that other cases of JAX do not reach, with reasons.
WITHOUT_CASE: Final = {
    "betaln": "second derivatives where both arguments are equal are those of a formula with minimum and maximum",
    "i0, i1": "are written with exp and the scaled functions, whose derivatives cancel near 0: up to 2e4 units",
    "gamma, beta": "move bits, which is refused",
    "ndtri": "a rational function, 25 units off at order 4",
}
_SAME: Final = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil cos cosh exp exp2 expm1 floor "
    "fmod hypot log log10 log1p log2 logaddexp logaddexp2 maximum minimum multiply divide negative reciprocal "
    "remainder rint sign sin sinc sinh sqrt square subtract tan tanh"
)
#: Name of a case → (primitive that the function is of, function).
JAX: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    **{f"np.{name}": ("", getattr(jnp, name)) for name in _SAME.split()},
    "special.erf": ("erf", jax.scipy.special.erf),
    "special.erfc": ("erfc", jax.scipy.special.erfc),
    "special.erfinv": ("erf_inv", jax.scipy.special.erfinv),
    "special.gammaln": ("lgamma", jax.lax.lgamma),
    "special.psi": ("digamma", jax.lax.digamma),
    "special.expit": ("logistic", jax.nn.sigmoid),
    "special.log_expit": ("", jax.nn.log_sigmoid),
    "special.log_ndtr": ("", jax.scipy.special.log_ndtr),
    "special.ndtr": ("", jax.scipy.special.ndtr),
    "special.logit": ("", jax.scipy.special.logit),
    **{f"special.{name}": ("", getattr(jax.scipy.special, name)) for name in ("xlogy", "xlog1py")},
    **{f"special.{name}": ("", getattr(jax.scipy.special, name)) for name in ("entr", "rel_entr", "kl_div")},
    "special.zeta(3)": ("zeta", lambda x: jax.lax.zeta(3.0, x)),
    "special.polygamma(2)": ("polygamma", lambda x: jax.lax.polygamma(2.0, x)),
    "special.i0e": ("bessel_i0e", jax.lax.bessel_i0e),
    "special.i1e": ("bessel_i1e", jax.lax.bessel_i1e),
}
#: Name of a case → SymPy's class.
SYMPY: Final[dict[str, Any]] = {
    **{f"np.{name}": getattr(sp, name) for name in "sin cos tan sinh cosh tanh exp log sign floor sinc".split()},  # noqa: SIM905
    **{
        f"np.arc{name}": getattr(sp, f"a{name}")
        for name in "sin cos tan tan2 sinh cosh tanh".split()  # noqa: SIM905
    },
    **{f"np.{name}": getattr(cfunctions, name) for name in "expm1 log1p exp2 log2 log10 hypot".split()},  # noqa: SIM905
    "np.cbrt": cfunctions.Cbrt,
    "np.sqrt": cfunctions.Sqrt,
    "np.absolute": sp.Abs,
    "np.ceil": sp.ceiling,
    "np.remainder": sp.Mod,
    "special.erf": sp.erf,
    "special.erfc": sp.erfc,
    "special.erfinv": sp.erfinv,
    "special.gamma": sp.gamma,
    "special.gammaln": sp.loggamma,
    "special.beta": sp.beta,
}
SYMPY["np.sinc"] = lambda x: sp.sinc(sp.pi * x)


def jax_cases() -> list[Case]:
    """Return the cases with functions of JAX."""
    return [replace(case, vector=_of_jax(JAX[case.name][1], case.arity)) for case in SCALAR if case.name in JAX]


def _of_jax(function: Callable[..., Any], arity: int) -> Callable[[Any], Any]:
    return jax.jit(lambda x: function(*(x[k] for k in range(arity))))


def sympy_cases() -> list[Case]:
    """Return the cases with models of one expression."""
    cases = []
    for case in SCALAR:
        if case.name in SYMPY:
            symbols = sp.symbols(f"x0:{case.arity}", real=True)
            cases.append(replace(case, vector=Model([list(symbols)], SYMPY[case.name](*symbols))))
    return cases
