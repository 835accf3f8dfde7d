"""Elementwise primitives: one row each, from JAX's name to a NumPy or SciPy function or a formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy import special

from accumulus.frontends.active import refuse
from accumulus.frontends.jax.equations import PRIMITIVES, Equation, is_constant, records
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, apply
from accumulus.frontends.numpy.table import BORROWED
from accumulus.tape.operations import OPERATIONS


@records("polygamma", "zeta")
def _of_order(call: Equation, order: Any, x: Any) -> Any:
    import accumulus.frontends.scipy.special  # noqa: F401  # fills the table, while something is recorded

    return BORROWED["scipy.special"][call.equation.primitive.name](call.tape, order, x)


@records(
    *("copy", "copy_p", "device_put", "layout_constraint", "name", "optimization_barrier", "pvary"),
    *("reduce_precision", "reshard", "sharding_constraint"),
)
def _same(call: Equation, *operands: Any) -> Any:
    """Return operands unchanged: primitives about devices, layout and scheduling do not change values."""
    return list(operands)


@records("div")
def _divide(call: Equation, x: Any, y: Any) -> Any:
    """Return a quotient; quotients of integers are truncated towards zero."""
    return np.divide(x, y) if call.kinds[0] == "f" else (x - np.fmod(x, y)) / y


@records("integer_pow")
def _integer_power(call: Equation, x: Any, **_: Any) -> Any:
    exponent = call.params["y"]
    return np.power(x, exponent if call.kinds[0] in "iu" else float(exponent))


@records("round")
def _round(call: Equation, x: Any) -> Any:
    """Return the nearest integer; halves are rounded to even, or away from zero."""
    if int(call.params["rounding_method"]) == 1:
        return np.rint(x)
    return np.where(x < 0, -np.floor(0.5 - x), np.floor(x + 0.5))


@records("select_n")
def _select(call: Equation, which: Any, *cases: Any) -> Any:
    """Return, entry by entry, the case that `which` selects."""
    result = cases[0]
    for number, case in enumerate(cases[1:], 1):
        chosen = which if call.operands[0] == "b" else np.equal(which, number)
        result = np.where(chosen, case, result)
    return result


@records("convert_element_type")
def _convert(call: Equation, x: Any) -> Any:
    """Convert values to another kind: reals are truncated to integers, truth values become 0 and 1.

    Values are not rounded to narrower types of the same kind.
    """
    kind, target = call.operands[0], call.kinds[0]
    if is_constant(x):
        return x
    if target == "u" and kind in "fi":
        bits = 8 * call.equation.params["new_dtype"].itemsize
        if bits > 32:
            raise refuse(
                "A value that depends on the function's arguments is converted to an unsigned integer of 64 bits, "
                "which is not recorded."
            )
        whole = np.trunc(x) if kind == "f" else x
        return np.where(whole < 0, whole + 2.0**bits, whole)
    if target == kind or (kind in "iu" and target in "if"):
        return x
    if target == "b":
        return np.not_equal(x, 0.0)
    return np.where(x, 1.0, 0.0) if kind == "b" else np.trunc(x)


@records("stop_gradient")
def _stop_gradient(call: Equation, x: Any) -> Any:
    """Return a value whose derivatives of all orders are zero."""
    return x if is_constant(x) or x.boolean else apply(call.tape, ELEMENTWISE["attach"], [x, 1.0])


def _clamp(low: Any, x: Any, high: Any) -> Any:
    """Return x within bounds; at a bound, all derivatives are 0, as in JAX."""
    if is_constant(low) and is_constant(high):
        return np.where(x <= low, low, np.where(x >= high, high, x))
    within = np.minimum(np.maximum(low, x), high)
    still = apply(within.tape, ELEMENTWISE["attach"], [within, 1.0])
    outside = np.where((x < low) & (low < high), low, np.where(x > high, high, still))
    return np.where((x > low) & (x < high), x, outside)


#: Name of each primitive → the NumPy or SciPy function, or a formula, that equals it.
UFUNCS: Final[dict[str, Callable[..., Any]]] = {
    **{row.short: getattr(np, row.ufunc) for row in OPERATIONS if isinstance(getattr(np, row.ufunc, None), np.ufunc)},
    "add_any": np.add,
    "and": np.bitwise_and,
    "bessel_i0e": special.i0e,
    "bessel_i1e": special.i1e,
    "clamp": _clamp,
    "digamma": special.psi,
    "eq_to": np.equal,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "exp2": lambda x: np.exp(np.log(2.0) * x),  # XLA's formula, with the same error for large x
    "ge": np.greater_equal,
    "gt": np.greater,
    "igamma": special.gammainc,
    "igammac": special.gammaincc,
    "is_finite": np.isfinite,
    "le_to": np.less_equal,
    "lgamma": special.gammaln,
    "logistic": special.expit,
    "lt_to": np.less,
    "nextafter": np.nextafter,
    "not": np.invert,
    "or": np.bitwise_or,
    "pow": np.power,
    "regularized_incomplete_beta": special.betainc,
    "rem": np.fmod,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "square": np.square,
    "xor": np.bitwise_xor,
}


@records(*(UFUNCS.keys() - PRIMITIVES.keys()))
def _apply(call: Equation, *operands: Any) -> Any:
    return UFUNCS[call.name](*operands)
