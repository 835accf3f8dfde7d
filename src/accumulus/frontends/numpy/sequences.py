"""Differences and gradients, convolutions and correlations, and polynomials by their coefficients.

Coefficients for ``np.polyval`` begin with the highest power. Coefficients for `numpy.polynomial` begin with the lowest
degree, and may belong to orthogonal polynomials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.frontends.numpy.table import borrows, implements
from accumulus.tape.tape import Tape

# Differences ----------------------------------------------------------------------------------------------------------


@implements(np.ediff1d)
def _ediff1d(tape: Tape, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return differences of neighbouring entries of the flattened array, between optional end entries."""
    entries = np.ravel(as_array(tape, ary))
    ends = [None if end is None else np.ravel(as_array(tape, end)) for end in (to_begin, to_end)]
    parts = [ends[0], entries[1:] - entries[:-1], ends[1]]
    return np.concatenate([piece for piece in parts if piece is not None])


@implements(np.gradient)
def _gradient(tape: Tape, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return central differences, one-sided at the ends, along one or several axes with any spacing."""
    f = as_array(tape, f)
    axes = range(f.ndim) if axis is None else [k % f.ndim for k in np.atleast_1d(axis).tolist()]
    spacings = list(varargs) if len(varargs) != 1 else list(varargs) * len(axes)
    if spacings and len(spacings) != len(axes):
        raise TypeError("invalid number of arguments: one spacing, or one for each axis")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    results = tuple(
        _slopes(tape, f, k, spacing, edge_order) for k, spacing in zip(axes, spacings or [1.0] * len(axes), strict=True)
    )
    return results if len(results) != 1 else results[0]


def _slopes(tape: Tape, f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    f = np.moveaxis(f, axis, -1)
    if f.shape[-1] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    spacing = as_array(tape, spacing)
    steps = np.diff(spacing) if spacing.ndim else spacing
    slopes = (f[..., 1:] - f[..., :-1]) / steps
    if spacing.ndim:
        before, after = steps[:-1], steps[1:]
        inner = (before * slopes[..., 1:] + after * slopes[..., :-1]) / (before + after)
        shares = before[:1] / (before[:1] + after[:1]), after[-1:] / (before[-1:] + after[-1:])
    else:
        inner = (f[..., 2:] - f[..., :-2]) / (2.0 * spacing)
        shares = 0.5, 0.5
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first = first + (first - slopes[..., 1:2]) * shares[0]
        last = last + (last - slopes[..., -2:-1]) * shares[1]
    return np.moveaxis(np.concatenate([first, inner, last], axis=-1), -1, axis)


def widths_of(tape: Tape, x: Any, dx: Any, axis: int) -> Any:
    """Return the distances of neighbouring points along the last axis."""
    if x is None:
        return dx
    x = as_array(tape, x)
    return np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))


# Convolutions ---------------------------------------------------------------------------------------------------------


@implements(np.convolve)
def _convolve(tape: Tape, a: Any, v: Any, mode: str = "full") -> Any:
    """Return the discrete convolution of two vectors."""
    long, short = np.atleast_1d(as_array(tape, a)), np.atleast_1d(as_array(tape, v))
    if long.ndim != 1 or short.ndim != 1:
        raise ValueError(f"convolve: expected vectors; the shapes are {long.shape} and {short.shape}")
    if not long.size or not short.size:
        raise ValueError("convolve: a vector is empty")
    if long.size < short.size:
        long, short = short, long
    return convolution_part(_full(tape, long, short), long.size, short.size, mode)


def _full(tape: Tape, long: Any, short: Any) -> Any:
    result = as_array(tape, np.zeros(long.size + short.size - 1))
    for k in range(short.size):
        result[k : k + long.size] += long * short[k]
    return result


def convolution_part(full: Any, long: int, short: int, mode: str) -> Any:
    """Return the part of a full convolution that `mode` selects."""
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError(f"convolve: mode {mode!r}; expected full, same or valid")
    start = (short - 1) // 2 if mode == "same" else short - 1
    return full[start : start + (long if mode == "same" else long - short + 1)]


@implements(np.correlate)
def _correlate(tape: Tape, a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the correlation of two vectors: the convolution with the reversed second one."""
    a, v = np.atleast_1d(as_array(tape, a)), np.conjugate(np.atleast_1d(as_array(tape, v)))
    if v.size > a.size:  # NumPy swaps and reverses here
        return convolution_part(np.convolve(v, a[::-1]), v.size, a.size, mode)[::-1]
    return convolution_part(np.convolve(a, v[::-1]), a.size, v.size, mode)


# Polynomials ----------------------------------------------------------------------------------------------------------


@implements(np.vander)
def _vander(tape: Tape, x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return a Vandermonde matrix, with powers of the entries in columns."""
    x = as_array(tape, x)
    count = x.size if N is None else N
    columns = [as_array(tape, np.ones(x.shape))]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return np.stack(columns if increasing else columns[::-1], axis=-1)[:, :count]


@implements(np.polymul)
def _polymul(tape: Tape, a1: Any, a2: Any) -> Any:
    """Return the product of two polynomials, without leading constant zeros."""
    return np.convolve(*(_from_highest(np.atleast_1d(as_array(tape, polynomial))) for polynomial in (a1, a2)))


def _from_highest(a: Any) -> Any:
    first = 0
    while first < a.size - 1 and not depends(a[first]) and concrete(a[first]) == 0:
        first += 1
    return a[first:]


@implements(np.polyder)
def _polyder(tape: Tape, p: Any, m: int = 1) -> Any:
    """Return the m-th derivative of a polynomial."""
    p = as_array(tape, p)
    for _ in range(m):
        p = p[:-1] * np.arange(p.size - 1.0, 0.0, -1.0)
    return p


@implements(np.poly)
def _poly(tape: Tape, seq_of_zeros: Any) -> Any:
    """Return the polynomial with these roots."""
    roots = np.atleast_1d(as_array(tape, seq_of_zeros))
    if roots.ndim != 1:
        raise refuse("np.poly of a matrix takes its eigenvalues, which are not recorded here.")
    result: Any = np.ones(1)
    for root in roots:
        result = np.convolve(result, np.stack([1.0, -root]))
    return result


@implements(np.polyfit)
def _polyfit(
    tape: Tape,
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool = False,
) -> Any:
    """Return the least-squares polynomial for `y` at constant positions, which is linear in `y`."""
    if depends(x) or depends(w) or full or cov:
        raise refuse(
            "np.polyfit is recorded for constant points x and weights, without full= and cov=. For points that depend "
            "on the function's arguments, write np.linalg.solve(V.T @ V, V.T @ y) with V = np.vander(x, deg + 1)."
        )
    places = np.asarray(concrete(x), float)
    weights = None if w is None else np.asarray(concrete(w))
    unit = np.eye(places.size)
    return np.polyfit(places, unit, deg, rcond, w=weights) @ as_array(tape, y)


# numpy.polynomial --------------------------------------------------------------------------------------------------


class Family(NamedTuple):
    """A family of polynomials with the recurrence Pₙ = a(n, x)·Pₙ₋₁ - b(n)·Pₙ₋₂, P₀ = 1 and given P₁."""

    first: Callable[[Any], Any]
    a: Callable[[int, Any], Any]
    b: Callable[[int], float]


#: Module of `numpy.polynomial` → its evaluation function, and the family of polynomials.
FAMILIES: Final[dict[str, tuple[str, Family]]] = {
    "polynomial": ("polyval", Family(lambda x: x, lambda n, x: x, lambda n: 0.0)),
    "chebyshev": ("chebval", Family(lambda x: x, lambda n, x: 2.0 * x, lambda n: 1.0)),
    "legendre": ("legval", Family(lambda x: x, lambda n, x: (2 * n - 1) / n * x, lambda n: (n - 1) / n)),
    "hermite": ("hermval", Family(lambda x: 2.0 * x, lambda n, x: 2.0 * x, lambda n: 2.0 * (n - 1))),
    "hermite_e": ("hermeval", Family(lambda x: x, lambda n, x: x, lambda n: n - 1.0)),
    "laguerre": (
        "lagval",
        Family(lambda x: 1.0 - x, lambda n, x: (2 * n - 1 - x) / n, lambda n: (n - 1) / n),
    ),
}


def _sum_of(family: Family, tape: Tape, x: Any, c: Any, tensor: bool = True) -> Any:
    """Return Σ cₙ·Pₙ(x) by Clenshaw's recurrence, lowest coefficient first."""
    x, c = as_array(tape, x), np.atleast_1d(as_array(tape, c))
    if c.ndim != 1:
        raise refuse("numpy.polynomial is recorded for values of one polynomial, whose coefficients are a vector.")
    later: Any = 0.0
    now: Any = c[-1] + 0.0 * x
    for n in range(c.size - 1, 0, -1):
        if n == 1:
            return c[0] + family.first(x) * now - family.b(2) * later
        now, later = c[n - 1] + family.a(n, x) * now - family.b(n + 1) * later, now
    return now


for _module, (_function, _family) in FAMILIES.items():
    borrows(f"numpy.polynomial.{_module}", _function)(partial(_sum_of, _family))
