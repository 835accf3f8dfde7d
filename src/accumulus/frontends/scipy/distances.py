"""Distances between two vectors: `scipy.spatial.distance`, of real numbers.

Weights are constants or traced; that they are not negative is SciPy's own affair, and not asked of traced ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.operands import concrete, depends
from accumulus.tape.tape import Tape

__all__ = ["correlation", "minkowski"]


def _vector(tape: Tape, values: Any) -> Any:
    found = as_array(tape, values)
    if found.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    return found


@borrows("scipy.spatial.distance", "minkowski")
def minkowski(tape: Tape, u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """(Σ w·|u - v|ᵖ)^(1/p) for a constant p."""
    if depends(p):
        raise refuse("scipy.spatial.distance.minkowski: p has to be a constant.")
    order = float(concrete(p))
    if order <= 0:
        raise ValueError("p must be greater than 0")
    difference = _vector(tape, u) - _vector(tape, v)
    if order == np.inf:
        return np.max(abs(difference) if w is None else np.where(_vector(tape, w) != 0, abs(difference), 0.0))
    powers = difference * difference if order == 2 else abs(difference) ** order
    total = np.sum(powers if w is None else _vector(tape, w) * powers)
    return total if order == 1 else np.sqrt(total) if order == 2 else total ** (1.0 / order)


@borrows("scipy.spatial.distance", "euclidean")
def euclidean(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
    """√Σ w·(u - v)²."""
    return minkowski(tape, u, v, 2, w)


@borrows("scipy.spatial.distance", "seuclidean")
def seuclidean(tape: Tape, u: Any, v: Any, V: Any) -> Any:
    """√Σ (u - v)²/V for variances V."""
    return minkowski(tape, u, v, 2, 1.0 / _vector(tape, V))


@borrows("scipy.spatial.distance", "mahalanobis")
def mahalanobis(tape: Tape, u: Any, v: Any, VI: Any) -> Any:
    """√(dᵀ·V⁻¹·d) for the difference d and the inverse of a covariance matrix."""
    difference = _vector(tape, u) - _vector(tape, v)
    return np.sqrt(difference @ np.atleast_2d(as_array(tape, VI)) @ difference)


@borrows("scipy.spatial.distance", "correlation")
def correlation(tape: Tape, u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """1 - cos of the angle between the vectors less their means."""
    u, v = _vector(tape, u), _vector(tape, v)
    weights = np.full(u.shape, 1.0 / max(u.size, 1)) if w is None else _vector(tape, w) / np.sum(_vector(tape, w))
    if centered:
        u, v = u - np.sum(u * weights), v - np.sum(v * weights)
    cosine = np.sum(u * v * weights) / np.sqrt(np.sum(u * u * weights) * np.sum(v * v * weights))
    return np.clip(1.0 - cosine, 0.0, 2.0)


@borrows("scipy.spatial.distance", "cosine")
def cosine(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
    """1 - cos of the angle between the vectors."""
    return correlation(tape, u, v, w, centered=False)


#: Sums of a function of each pair of entries, weighted.
_SUMS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sqeuclidean": lambda u, v: (u - v) ** 2,
    "cityblock": lambda u, v: abs(u - v),
    "canberra": lambda u, v: abs(u - v) / np.where((u == 0) & (v == 0), 1.0, abs(u) + abs(v)),
}


def _enter(name: str, each: Callable[[Any, Any], Any]) -> None:
    @borrows("scipy.spatial.distance", name)
    def record(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
        parts = each(_vector(tape, u), _vector(tape, v))
        return np.sum(parts if w is None else _vector(tape, w) * parts)


for _name, _each in _SUMS.items():
    _enter(_name, _each)


@borrows("scipy.spatial.distance", "chebyshev")
def chebyshev(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
    """The greatest |u - v|, of those of weights above zero."""
    return minkowski(tape, u, v, np.inf, w)


@borrows("scipy.spatial.distance", "braycurtis")
def braycurtis(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
    """Σ |u - v| / Σ |u + v|."""
    u, v = _vector(tape, u), _vector(tape, v)
    weights = 1.0 if w is None else _vector(tape, w)
    return np.sum(weights * abs(u - v)) / np.sum(weights * abs(u + v))


@borrows("scipy.spatial.distance", "jensenshannon")
def jensenshannon(tape: Tape, p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    """The root of the Jensen-Shannon divergence of distributions along an axis, which are divided by their sums."""
    from scipy import special  # which is loaded, as `scipy.spatial.distance` is

    p, q = (part / np.sum(part, axis=axis, keepdims=True) for part in (as_array(tape, p), as_array(tape, q)))
    middle = (p + q) / 2.0
    parts = special.rel_entr(p, middle) + special.rel_entr(q, middle)
    total = np.sum(parts, axis=axis, keepdims=keepdims)
    return np.sqrt(total / 2.0 if base is None else total / np.log(base) / 2.0)
