"""Polynomials by their coefficients: values, sums, products, derivatives, integrals, fits.

Those of ``np.polyval`` have the highest coefficient first, those of `numpy.polynomial` the lowest, and are sums of
orthogonal polynomials there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["polyfit", "polyval", "vander"]


@implements(np.polyval)
def polyval(tape: Tape, p: Any, x: Any) -> Any:
    """Evaluate a polynomial by Horner's rule, highest coefficient first."""
    x = as_array(tape, x)
    result: Any = np.zeros(x.shape)
    for coefficient in p:
        result = result * x + coefficient
    return result


@implements(np.vander)
def vander(tape: Tape, x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of the entries in columns."""
    x = as_array(tape, x)
    columns = [as_array(tape, np.ones(x.shape))]
    for _ in range((x.size if N is None else N) - 1):
        columns.append(columns[-1] * x)
    return np.stack(columns if increasing else columns[::-1], axis=-1)


@implements(np.polymul)
def polymul(tape: Tape, a1: Any, a2: Any) -> Any:
    """The product, without leading zeros that are constants."""
    return np.convolve(*(_from_highest(np.atleast_1d(as_array(tape, part))) for part in (a1, a2)))


def _from_highest(a: Any) -> Any:
    first = 0
    while first < a.size - 1 and not depends(a[first]) and concrete(a[first]) == 0:
        first += 1
    return a[first:]


@implements(np.polyder)
def polyder(tape: Tape, p: Any, m: int = 1) -> Any:
    """The derivative, m times over."""
    p = as_array(tape, p)
    for _ in range(m):
        p = p[:-1] * np.arange(p.size - 1.0, 0.0, -1.0)
    return p


@implements(np.poly)
def poly(tape: Tape, seq_of_zeros: Any) -> Any:
    """The polynomial with these roots."""
    roots = np.atleast_1d(as_array(tape, seq_of_zeros))
    if roots.ndim != 1:
        raise refuse("np.poly of a matrix takes its eigenvalues, which are not recorded here.")
    result: Any = np.ones(1)
    for root in roots:
        result = np.convolve(result, np.stack([1.0, -root]))
    return result


@implements(np.polyfit)
def polyfit(
    tape: Tape,
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool = False,
) -> Any:
    """The polynomial that is nearest to `y` at constant places: linear in `y`."""
    if depends(x) or depends(w) or full or cov:
        raise refuse(
            "np.polyfit is recorded for constant places x and weights, without full= and cov=. Of places that depend "
            "on the function's arguments, write np.linalg.solve(V.T @ V, V.T @ y) with V = np.vander(x, deg + 1)."
        )
    places = np.asarray(concrete(x), float)
    weights = None if w is None else np.asarray(concrete(w))
    unit = np.eye(places.size)
    return np.polyfit(places, unit, deg, rcond, w=weights) @ as_array(tape, y)


# numpy.polynomial --------------------------------------------------------------------------------------------------


class Family(NamedTuple):
    """Polynomials by their recurrence: Pₙ = a(n, x)·Pₙ₋₁ - b(n)·Pₙ₋₂, with P₀ = 1 and P₁."""

    first: Callable[[Any], Any]
    a: Callable[[int, Any], Any]
    b: Callable[[int], float]


#: Module of `numpy.polynomial` → its function, and its polynomials.
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


def _sum_of(tape: Tape, family: Family, x: Any, c: Any) -> Any:
    """Σ cₙ·Pₙ(x) by Clenshaw's recurrence, lowest coefficient first."""
    x, c = as_array(tape, x), np.atleast_1d(as_array(tape, c))
    if c.ndim != 1:
        raise refuse("Values of numpy.polynomial are recorded for one polynomial: coefficients in a vector.")
    later: Any = 0.0
    now: Any = c[-1] + 0.0 * x
    for n in range(c.size - 1, 0, -1):
        if n == 1:
            return c[0] + family.first(x) * now - family.b(2) * later
        now, later = c[n - 1] + family.a(n, x) * now - family.b(n + 1) * later, now
    return now


def _enter(module: str, function: str, family: Family) -> None:
    @borrows(f"numpy.polynomial.{module}", function)
    def value(tape: Tape, x: Any, c: Any, tensor: bool = True) -> Any:
        return _sum_of(tape, family, x, c)


for _module, (_function, _family) in FAMILIES.items():
    _enter(_module, _function, _family)
