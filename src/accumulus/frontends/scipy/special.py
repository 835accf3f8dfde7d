"""Functions of `scipy.special` that are not universal functions: those that take an axis, or an order.

Universal functions are rows of `accumulus.frontends.numpy.elementwise`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array, make
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.elementwise import apply, composed, near_zero, operation
from accumulus.frontends.numpy.operands import concrete, depends, entries_of, map_references
from accumulus.tape.tape import Tape

__all__ = ["log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax", "spherical_jn", "zeta"]


@borrows("scipy.special", "logsumexp")
def logsumexp(
    tape: Tape, a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log Σ b exp(a), from the largest term on."""
    if return_sign:
        raise refuse("logsumexp(…, return_sign=True) is not recorded: the sign of the sum depends on values.")
    a = as_array(tape, a)
    if b is not None:
        a, b = np.broadcast_arrays(a, b)
    largest = np.max(a, axis=axis, keepdims=True)
    # the largest term may be anything finite, and is a constant to derivatives
    shift = _fixed(tape, np.where(np.isfinite(largest), largest, 0.0))
    terms = np.exp(a - shift)
    if b is not None:
        terms = np.where(b == 0, 0.0, b * terms)
    total = np.log(np.sum(terms, axis=axis, keepdims=keepdims))
    return total + (shift if keepdims else np.reshape(shift, np.shape(total)))


@borrows("scipy.special", "softmax")
def softmax(tape: Tape, x: Any, axis: Any = None) -> Any:
    """exp(x) / Σ exp(x), from the largest term on."""
    x = as_array(tape, x)
    terms = np.exp(x - _fixed(tape, np.max(x, axis=axis, keepdims=True)))
    return terms / np.sum(terms, axis=axis, keepdims=True)


@borrows("scipy.special", "log_softmax")
def log_softmax(tape: Tape, x: Any, axis: Any = None) -> Any:
    """log(exp(x) / Σ exp(x)), from the largest term on."""
    x = as_array(tape, x)
    largest = np.max(x, axis=axis, keepdims=True)
    shifted = x - _fixed(tape, np.where(np.isfinite(largest), largest, 0.0))
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@borrows("scipy.special", "zeta")
def zeta(tape: Tape, x: Any, q: Any = None) -> Any:
    """Hurwitz' zeta function ζ(x, q) for a constant x > 1 and q > 0, by q."""
    if depends(x):
        raise refuse("scipy.special.zeta: its derivative by its first argument is not known; it has to be a constant.")
    return _zeta(tape, np.asarray(concrete(x), float), 1.0 if q is None else q)


@borrows("scipy.special", "polygamma")
def polygamma(tape: Tape, n: Any, x: Any) -> Any:
    """The derivatives of digamma, by ζ(n + 1, x): of constant orders, for x > 0."""
    if depends(n):
        raise refuse("scipy.special.polygamma: the order has to be a constant.")
    orders = np.asarray(concrete(n), float)
    if np.any((orders < 0) | (orders != np.round(orders))):
        raise ValueError(f"polygamma: orders are whole numbers from 0 on, {n!r} was given")
    factor = np.where(orders % 2, 1.0, -1.0) * np.vectorize(math.gamma)(orders + 1.0)
    higher = factor * _zeta(tape, np.where(orders > 0, orders, 1.0) + 1.0, x) if orders.any() else 0.0
    if (orders > 0).all():
        return higher
    lowest = make(tape, map_references(tape, _applied("digamma"), [entries_of(tape, x)[0]]))
    return np.where(orders > 0, higher, lowest)


@borrows("scipy.special", "spherical_jn")
def spherical_jn(tape: Tape, n: Any, z: Any, derivative: bool = False) -> Any:
    """Spherical Bessel functions of orders 0, 1 and 2."""
    if depends(n) or concrete(n) not in (0, 1, 2) or derivative:
        raise refuse(
            "scipy.special.spherical_jn is recorded for the constant orders 0, 1 and 2, without derivative=True."
        )
    return apply(tape, _SPHERICAL[int(concrete(n))], [z])


def _spherical(order: int, z: Any) -> Any:
    def closed(near: Any) -> Any:
        safe = _select(near, 1.0, z)
        sine, cosine = _sin(safe), _cos(safe)
        if order == 0:
            return sine / safe
        first = (sine / safe - cosine) / safe
        return first if order == 1 else (3.0 * first - sine) / safe

    name = ("sin(x)/x", "spherical_jn(1, x)/x", "spherical_jn(2, x)/x²")[order]
    return near_zero(name, z, closed, 2.0 + order, factor=(None, z, z * z)[order])


_sin, _cos, _select = map(operation, ["sin", "cos", "select"])
_SPHERICAL: Final = [
    composed(f"spherical_jn({order})", functools.partial(_spherical, order), ((-np.inf, np.inf),)) for order in range(3)
]


@borrows("scipy.special", "multigammaln")
def multigammaln(tape: Tape, a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function of a constant dimension d, for a > (d - 1)/2."""
    if depends(d):
        raise refuse("scipy.special.multigammaln: the dimension has to be a constant.")
    dimension = int(concrete(d))
    if dimension != concrete(d) or dimension < 1:
        raise ValueError(f"multigammaln: the dimension is a whole number from 1 on, {d!r} was given")
    a = as_array(tape, a)
    total: Any = 0.25 * dimension * (dimension - 1) * math.log(math.pi)
    for j in range(dimension):
        total = total + make(tape, map_references(tape, _applied("gammaln"), [entries_of(tape, a - 0.5 * j)[0]]))
    return np.where(a > 0.5 * (dimension - 1), total, np.nan)


def _zeta(tape: Tape, s: Any, q: Any) -> Any:
    operands = [entries_of(tape, s)[0], entries_of(tape, q)[0]]
    return make(tape, map_references(tape, _applied("zeta"), operands))


def _applied(name: str) -> Callable[[Tape], Callable[..., int]]:
    return lambda tape: functools.partial(tape.apply, name)


def _fixed(tape: Tape, value: Any) -> Any:
    """The same values, which are constants to derivatives."""

    def attach(tape: Tape) -> Any:
        return lambda reference: tape.apply("attach", reference, tape.constant(0.0))

    return make(tape, map_references(tape, attach, [entries_of(tape, value)[0]]))
