"""Formulas for unit quaternions (x, y, z, w) on arrays of NumPy, JAX and traced values.

Near zero, a quotient by an angle is computed as a power series in the square of a fraction of the angle, and the value
at the whole angle follows from it. This avoids cancellation, even in derivatives of order four.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

#: Squared angle up to which functions of rotation vectors are evaluated by series. A larger one needs more terms for
#: the same accuracy, a smaller one loses digits of higher derivatives to cancellation.
NEAR: Final = 4.0
#: Coefficients of cos(x) and sin(x)/x in x² up to 1/16, and of arctan(x)/x in x² up to tan²(π/16). The number of terms
#: suffices for derivatives of order 4.
COSINE: Final = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(8))
SINE: Final = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8))
ARCTANGENT: Final = tuple((-1.0) ** k / (2.0 * k + 1.0) for k in range(13))


def series(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial; coefficients are in ascending order."""
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def series_near(vectors: Any, coefficients: Sequence[float], far: Callable[[Any], Any], xp: Any = np) -> Any:
    """Evaluate a function of the length θ of vectors: a power series in θ² for θ ≤ 1, and ``far(θ)`` beyond."""
    square = xp.sum(vectors * vectors, axis=-1, keepdims=True)
    near = square <= 1.0
    angle = xp.sqrt(xp.where(near, 1.0, square))
    return xp.where(near, series(xp.where(near, square, 0.0), coefficients), far(angle))


def half_angle(vectors: Any, xp: Any = np, order: int | None = None) -> tuple[Any, Any]:
    """Return sin(θ/2)/θ and cos(θ/2), each of shape (..., 1), for rotation vectors of length θ.

    Args:
        vectors: rotation vectors, (..., n).
        xp: module with NumPy's functions.
        order: order in θ, 1 or 2, up to which sine and cosine are expanded; None for exact values.
    """
    if order == 1:
        return 0.5, xp.ones_like(vectors[..., :1])
    square = xp.sum(vectors * vectors, axis=-1, keepdims=True)
    if order == 2:
        return 0.5, 1.0 - 0.125 * square
    near = square <= NEAR
    angle = xp.sqrt(xp.where(near, 1.0, square))
    # series at an eighth of the angle, then two doublings
    reduced = xp.where(near, square, 0.0) / 64.0
    cosine, sine = series(reduced, COSINE), series(reduced, SINE)
    for _ in range(2):
        cosine, sine, reduced = cosine * cosine - reduced * sine * sine, sine * cosine, 4.0 * reduced
    scale = xp.where(near, 0.5 * sine, xp.sin(angle / 2.0) / angle)
    return scale, xp.where(near, cosine, xp.cos(angle / 2.0))


def angle_by_sine(axis: Any, w: Any, xp: Any = np) -> Any:
    """Return the angle of a unit quaternion, at most π, divided by the sine of half the angle."""
    quarter = xp.sqrt(0.5 + 0.5 * w)  # cosine of a quarter of the angle
    eighth = xp.sqrt(0.5 + 0.5 * quarter)
    ratio = 0.25 / (quarter * eighth * (1.0 + eighth))  # tan(angle/16) / sin(angle/2)
    square = xp.sum(axis * axis, axis=-1, keepdims=True) * ratio * ratio
    return 16.0 * ratio * series(square, ARCTANGENT)


def canonical_form(quaternions: Any, xp: Any = np) -> Any:
    """Return quaternions with the sign that makes w positive, or, if w is 0, the first nonzero of x, y and z."""
    x, y, z, w = (quaternions[..., k : k + 1] for k in range(4))
    negative: Any = z < 0.0
    for entry in (y, x, w):
        negative = (entry < 0.0) | ((entry == 0.0) & negative)
    return xp.where(negative, -quaternions, quaternions)


def normalised(vectors: Any, xp: Any = np) -> Any:
    """Return vectors divided by their length."""
    return vectors / xp.sqrt(xp.sum(vectors * vectors, axis=-1, keepdims=True))


def vector_entries(vectors: Any) -> list[Any]:
    """Return the entries along the last axis, each of shape (..., 1)."""
    return [vectors[..., k : k + 1] for k in range(np.shape(vectors)[-1])]


def quaternion_product(p: Any, q: Any, xp: Any = np) -> Any:
    """Return the products p·q of quaternions: the rotation q, followed by p."""
    (px, py, pz, pw), (qx, qy, qz, qw) = vector_entries(p), vector_entries(q)
    components = (
        pw * qx + qw * px + py * qz - pz * qy,
        pw * qy + qw * py + pz * qx - px * qz,
        pw * qz + qw * pz + px * qy - py * qx,
        pw * qw - px * qx - py * qy - pz * qz,
    )
    return xp.concatenate(components, axis=-1)


def conjugate(q: Any, xp: Any = np) -> Any:
    """Return the inverse rotations."""
    return xp.concatenate([-q[..., :3], q[..., 3:]], axis=-1)


def from_matrix(m: Any, xp: Any = np) -> Any:
    """Return quaternions, not normalised, of rotation matrices (..., 3, 3), from the largest of trace and diagonal."""
    diagonal = [m[..., k, k : k + 1] for k in range(3)]
    trace = diagonal[0] + diagonal[1] + diagonal[2]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        components: list[Any] = [None, None, None, m[..., k, j : j + 1] - m[..., j, k : k + 1]]
        components[i] = 1.0 - trace + 2.0 * diagonal[i]
        components[j] = m[..., j, i : i + 1] + m[..., i, j : j + 1]
        components[k] = m[..., k, i : i + 1] + m[..., i, k : k + 1]
        candidates.append(xp.concatenate(components, axis=-1))
    by_trace = [m[..., 2, 1:2] - m[..., 1, 2:3], m[..., 0, 2:3] - m[..., 2, 0:1], m[..., 1, 0:1] - m[..., 0, 1:2]]
    quaternions, greatest = xp.concatenate([*by_trace, 1.0 + trace], axis=-1), trace
    for i in (2, 1, 0):  # ties go to the first
        chosen = diagonal[i] >= greatest
        quaternions = xp.where(chosen, candidates[i], quaternions)
        greatest = xp.maximum(diagonal[i], greatest)
    return quaternions


def matrices_from_entries(rows: Sequence[Sequence[Any]], xp: Any = np) -> Any:
    """Return matrices, (…, m, n), from the arrays of their entries, each of shape (…, 1)."""
    return xp.stack([xp.concatenate(row, axis=-1) for row in rows], axis=-2)


def cross_product(omega: Any, v: Any, xp: Any = np) -> Any:
    """Return cross products ω × v in three dimensions; in the plane, ω is an angular rate."""
    if np.shape(v)[-1] == 2:
        x, y = vector_entries(v)
        return xp.concatenate([-omega * y, omega * x], axis=-1)
    (a, b, c), (x, y, z) = vector_entries(omega), vector_entries(v)
    return xp.concatenate([b * z - c * y, c * x - a * z, a * y - b * x], axis=-1)


# Perturbed quaternions ------------------------------------------------------------------------------------------------
#
# The rotation matrix of q·Exp(δ) is R(q)·Exp([δ]×). Its derivative at δ = 0 consists of the columns of R(q) in another
# order, up to sign. The chain rule through the entries of the quaternion does not find this, since it holds for unit
# quaternions only. While a derivative in a tangent space is recorded, a registry therefore maps perturbed quaternions
# to their base and tangent vector.


class _Perturbed(threading.local):
    #: By tape and references: base quaternions, tangent vectors, and the order up to which they are valid.
    registry: dict[Any, tuple[Any, Any, int]] | None = None


_PERTURBED: Final = _Perturbed()
#: Maximum number of rows of a stack that are also registered individually: more take time and memory for each stack,
#: fewer lose the perturbations of single rows.
_MOST_ROWS: Final = 1_000


@contextmanager
def perturbing() -> Iterator[None]:
    """Register perturbed quaternions within a ``with`` block."""
    before = _PERTURBED.registry
    _PERTURBED.registry = {} if before is None else dict(before)
    try:
        yield
    finally:
        _PERTURBED.registry = before


def note_perturbed(quaternions: Any, base: Any, delta: Any, order: int) -> None:
    """Register traced quaternions as `base` perturbed by `delta`, up to an order."""
    registry = _PERTURBED.registry
    references = getattr(quaternions, "references", None)
    before: Any = getattr(base, "references", None)
    if registry is None or references is None or np.array_equal(references, before):
        return  # an unperturbed quaternion would be its own base
    registry[id(quaternions.tape), references.tobytes()] = base, delta, order
    if references.ndim == 2 and len(references) <= _MOST_ROWS and np.shape(base) == references.shape:
        for k, row in enumerate(references):
            registry[id(quaternions.tape), row.tobytes()] = base[k], delta[k], order


def perturbation(quaternions: Any) -> tuple[Any, Any, int] | None:
    """Return the base, the tangent vectors and the order of registered quaternions; None for others."""
    registry = _PERTURBED.registry
    references = getattr(quaternions, "references", None)
    return (
        None if registry is None or references is None else registry.get((id(quaternions.tape), references.tobytes()))
    )


def perturbed_matrix(matrix: Any, delta: Any, order: int) -> Any:
    """Return rotation matrices (None for the identity) times exponentials of tangent vectors, up to order 1 or 2."""
    zero, entries = np.zeros_like(delta[..., :1]), vector_entries(delta)
    if len(entries) == 1:
        generator = matrices_from_entries([[zero, -delta], [delta, zero]])
    else:
        a, b, c = entries
        generator = matrices_from_entries([[zero, -c, b], [c, zero, -a], [-b, a, zero]])
    one = np.eye(np.shape(generator)[-1]) if matrix is None else matrix
    expansion = one + (generator if matrix is None else matrix @ generator)
    return expansion if order < 2 else expansion + 0.5 * (one @ (generator @ generator))
