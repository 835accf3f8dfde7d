"""Manifolds of rotations, poses and unit vectors: retractions, local coordinates, and their expansions for `on=`.

`acc.jacobian(f, on=SE3)` differentiates f(retract(x, δ)) with respect to the tangent vector δ at δ = 0. Points are
arrays, single or stacked: cosine and sine for `SO2`, a unit quaternion (x, y, z, w) or SciPy's ``Rotation`` for `SO3`,
a rotation followed by a translation for `SE2` and `SE3`. ``SO3.matrices`` and its counterparts are the same groups with
matrices as points. Perturbations are on the right, retract(x, δ) = x · Exp(δ), rotation first; Exp is the exponential
map of the group. docs/tasks/manifolds.md has all conventions in one table.

Source of the formulas: J. Solà, J. Deray and D. Atchuthan, A micro Lie theory for state estimation in robotics, 2018.

Derivatives at δ = 0 need less than the retraction. Each formula therefore takes the `order` of a polynomial in δ with
the same derivatives up to that order, or None for the exact map; logarithms take `linear` for their first derivative
alone.

>>> import numpy as np
>>> x = SO3.exp(np.array([0.0, 0.0, np.pi / 2]))
>>> y = SO3.retract(x, np.array([0.1, 0.0, 0.0]))
>>> SO3.local_coordinates(x, y).round(12)
array([0.1, 0. , 0. ])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.operands import Operand, depends
from accumulus.frontends.quaternions import (
    angle_by_sine,
    canonical_form,
    conjugate,
    cross_product,
    from_matrix,
    half_angle,
    matrices_from_entries,
    normalised,
    note_perturbed,
    perturbation,
    perturbed_matrix,
    quaternion_product,
    series_near,
    vector_entries,
)

__all__ = ["SE2", "SE3", "SO2", "SO3", "Euclidean", "Group", "Manifold", "Sphere", "product"]

#: Coefficients of (θ - sin θ)/θ³ and (1 - θ/2·cot(θ/2))/θ² in θ²; the latter are |B₂ₖ|/(2k)! for k = 1, 2, …
_CUBIC: Final = tuple((-1.0) ** k / math.factorial(2 * k + 3) for k in range(11))
_COTANGENT: Final = (
    *(1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600),
    *(3617 / 10670622842880000, 43867 / 5109094217170944000, 174611 / 802857662698291200000),
)


class Manifold:
    """A manifold whose points are stored as arrays.

    Attributes:
        name: name of the manifold, for messages.
        shape: shape of one point.
        dimension: dimension of the tangent space.

    >>> SO3.tangent_shape((10, 4)), Sphere(3).differential([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], linear=False).tolist()
    ((10, 3), [0.0, 1.5707963267948966])
    >>> SO3.expansion(SO3.identity, [0.0, 0.0, 0.5], 1).tolist()
    [0.0, 0.0, 0.25, 1.0]
    """

    name: str
    shape: tuple[int, ...]
    dimension: int
    #: Function of points, tangent vectors, an order (None for the exact map), and the module with array functions.
    _retract: Callable[..., Any]
    #: Function of two points, a flag for first order only, and the module with array functions.
    _local_coordinates: Callable[..., Any]

    def retract(self, x: Any, delta: Any) -> Any:
        """Return the points that tangent vectors lead to.

        Args:
            x: points, of shape (…, *shape): numbers, traced values, or arrays of JAX; for `SO3` also a ``Rotation`` of
                SciPy, single or an array, for which a ``Rotation`` is returned.
            delta: tangent vectors at `x`, of shape (…, dimension). Leading axes are broadcast.

        Returns:
            Points of shape (…, *shape). They are not normalised: a point keeps its norm.

        Raises:
            ArgumentError: for a wrong shape, or for entries that are not real numbers.

        >>> import numpy as np
        >>> from scipy.spatial.transform import Rotation
        >>> moved = SO3.retract(Rotation.identity(), np.array([0.0, 0.0, 0.5]))
        >>> moved.as_rotvec()
        array([0. , 0. , 0.5])
        """
        point = self.expansion(x, delta, None)
        return rotation_of(point) if is_rotation(x) else point

    def local_coordinates(self, x: Any, y: Any) -> Any:
        """Return the shortest tangent vectors δ at `x` with retract(x, δ) = `y`.

        Args:
            x: points at which the coordinates are taken, of shape (…, *shape).
            y: points to which the coordinates lead, of shape (…, *shape). Leading axes are broadcast.

        Returns:
            Tangent vectors of shape (…, dimension).

        Raises:
            ArgumentError: for a wrong shape, or for entries that are not real numbers.
        """
        return self.differential(x, y, linear=False)

    def expansion(self, x: Any, delta: Any, order: int | None) -> Any:
        """Return a polynomial in `delta` with the derivatives of `retract` at `x`, up to `order` 1 or 2.

        Shapes are those of `retract`: (…, *shape) for `x` and the result, (…, dimension) for `delta`.
        """
        (x, delta), xp = _arrays(self, x=(x, self.shape), delta=(delta, (self.dimension,)))
        return self._retract(x, delta, order, xp)

    def differential(self, x: Any, y: Any, *, linear: bool = True) -> Any:
        """Return local_coordinates(x, y); if `linear`, a linear function of `y` that agrees to first order at y = x."""
        (x, y), xp = _arrays(self, x=(x, self.shape), y=(y, self.shape))
        return self._local_coordinates(x, y, linear, xp)

    def tangent_shape(self, shape: tuple[int, ...], name: str = "x") -> tuple[int, ...]:
        """Return the shape of tangent vectors at points of a shape.

        Raises:
            ArgumentError: if points of this manifold cannot have that shape.
        """
        leading = len(shape) - len(self.shape)
        if leading < 0 or tuple(shape[leading:]) != self.shape:
            raise ArgumentError(
                f"{name} has shape {tuple(shape)}; expected points of {self.name}, of shape {self.shape}, or a stack "
                f"of them, of shape {_stacked(self.shape)}"
            )
        return (*shape[:leading], self.dimension)

    def __repr__(self) -> str:
        return f"accumulus.manifolds.{self.name}"


def _stacked(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['…', *map(str, shape)])})"


def _arrays(manifold: Manifold, **arguments: tuple[Any, tuple[int, ...]]) -> tuple[list[Any], Any]:
    """Return arguments as arrays of one library, with their shapes checked, and the module with its functions."""
    values = [quaternions_of(value) if manifold is SO3 else value for value, _ in arguments.values()]
    jax = sys.modules.get("jax")
    xp: Any = np
    if jax is not None and any(isinstance(value, jax.Array) for value in values):
        xp = jax.numpy
        arrays = [xp.asarray(value) for value in values]
    else:
        arrays = [_array(value, name, manifold) for name, value in zip(arguments, values, strict=True)]
    for array, (name, (_, shape)) in zip(arrays, arguments.items(), strict=True):
        array_shape, leading = np.shape(array), len(np.shape(array)) - len(shape)
        if leading < 0 or array_shape[leading:] != shape:
            raise ArgumentError(
                f"{name} has shape {array_shape}; {manifold.name} takes {shape}, or a stack {_stacked(shape)}"
            )
    return arrays, xp


def _array(value: Any, name: str, manifold: Manifold) -> Any:
    if isinstance(value, Operand) or depends(value):
        return as_array(ACTIVE.tape, value)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ArgumentError(
            f"{name} is a {type(value).__name__} of {array.dtype}; {manifold.name} takes arrays of real numbers"
        )
    return array.astype(np.float64, copy=False)


# Rotations ------------------------------------------------------------------------------------------------------------


class _Angles:
    """Rotations of the plane as cosine and sine."""

    rows, shape, dimension = 2, (2,), 1

    def exp(self, delta: Any, order: int | None, xp: Any) -> Any:
        if order is None:
            return xp.concatenate([xp.cos(delta), xp.sin(delta)], axis=-1)
        cosine = xp.ones_like(delta)
        return xp.concatenate([cosine if order < 2 else cosine - 0.5 * delta * delta, delta], axis=-1)

    def log(self, x: Any, linear: bool, xp: Any) -> Any:
        return x[..., 1:] if linear else xp.arctan2(x[..., 1:], x[..., :1])

    def compose(self, x: Any, y: Any, xp: Any) -> Any:
        (a, b), (c, d) = vector_entries(x), vector_entries(y)
        return xp.concatenate([a * c - b * d, a * d + b * c], axis=-1)

    def inverse(self, x: Any, xp: Any) -> Any:
        return xp.concatenate([x[..., :1], -x[..., 1:]], axis=-1)

    def matrix(self, x: Any, xp: Any) -> Any:
        a, b = vector_entries(x)
        return matrices_from_entries([[a, -b], [b, a]], xp)

    def of_matrix(self, matrix: Any, xp: Any) -> Any:
        return matrix[..., :, 0]


class _Quaternions:
    """Rotations of space as unit quaternions."""

    rows, shape, dimension = 3, (4,), 3

    def exp(self, delta: Any, order: int | None, xp: Any) -> Any:
        scale, cosine = half_angle(delta, xp, order)
        return xp.concatenate([delta * scale, cosine], axis=-1)

    def log(self, x: Any, linear: bool, xp: Any) -> Any:
        if linear:
            return 2.0 * x[..., :3]
        unit = canonical_form(normalised(x, xp), xp)
        return unit[..., :3] * angle_by_sine(unit[..., :3], unit[..., 3:], xp)

    def compose(self, x: Any, y: Any, xp: Any) -> Any:
        return quaternion_product(x, y, xp)

    def inverse(self, x: Any, xp: Any) -> Any:
        return conjugate(x, xp)

    def matrix(self, x: Any, xp: Any) -> Any:
        if (perturbed := perturbation(x)) is not None:
            base, delta, order = perturbed
            return perturbed_matrix(self.matrix(base, xp), delta, order)
        a, b, c, w = vector_entries(x)
        x2, y2, z2 = 2.0 * a, 2.0 * b, 2.0 * c
        xx, yy, zz = a * x2, b * y2, c * z2
        xy, xz, yz, wx, wy, wz = a * y2, a * z2, b * z2, w * x2, w * y2, w * z2
        rows = (
            (1.0 - yy - zz, xy - wz, xz + wy),
            (xy + wz, 1.0 - xx - zz, yz - wx),
            (xz - wy, yz + wx, 1.0 - xx - yy),
        )
        return matrices_from_entries(rows, xp)

    def of_matrix(self, matrix: Any, xp: Any) -> Any:
        return normalised(from_matrix(matrix, xp), xp)


class _Orthogonal:
    """Rotations as orthogonal matrices, computed through another representation."""

    def __init__(self, of: _Angles | _Quaternions) -> None:
        self._of, self.rows, self.dimension, self.shape = of, of.rows, of.dimension, (of.rows, of.rows)

    def exp(self, delta: Any, order: int | None, xp: Any) -> Any:
        if order is None:
            return self._of.matrix(self._of.exp(delta, order, xp), xp)
        return perturbed_matrix(None, delta, order)

    def log(self, x: Any, linear: bool, xp: Any) -> Any:
        if not linear:
            return self._of.log(self._of.of_matrix(x, xp), linear, xp)
        places = [(1, 0)] if self.rows == 2 else [(2, 1), (0, 2), (1, 0)]
        return xp.concatenate([x[..., i, j : j + 1] for i, j in places], axis=-1)

    def compose(self, x: Any, y: Any, xp: Any) -> Any:
        return x @ y

    def inverse(self, x: Any, xp: Any) -> Any:
        return xp.swapaxes(x, -1, -2)

    def matrix(self, x: Any, xp: Any) -> Any:
        return x


class Group(Manifold):
    """A Lie group, perturbed on the right: retract(x, δ) = x · Exp(δ), local_coordinates(x, y) = Log(x⁻¹ · y).

    Its methods take points and tangent vectors as `retract` does. The attribute `matrices` is the same group with
    matrices as points, homogeneous ones for poses.

    >>> turn = SO2.exp([0.5])
    >>> SO2.log(SO2.compose(turn, turn)).tolist(), SO2.log(SO2.inverse(turn)).tolist()
    ([1.0], [-0.5])
    >>> SE2.apply(SE2.identity, [3.0, 4.0]).tolist(), SE2.matrix(SE2.identity)[2].tolist()
    ([3.0, 4.0], [0.0, 0.0, 1.0])
    """

    def __init__(self, name: str, turns: _Angles | _Quaternions | _Orthogonal, *, moves: bool) -> None:
        self.name, self._turns, self._moves, self._rows = name, turns, moves, turns.rows
        self._is_matrix, self.dimension = isinstance(turns, _Orthogonal), turns.dimension + moves * turns.rows
        n = turns.rows
        self.shape = (n + moves, n + moves) if self._is_matrix else (turns.shape[0] + moves * n,)
        self.matrices: Group = self
        if not isinstance(turns, _Orthogonal):
            self.matrices = Group(f"{name}.matrices", _Orthogonal(turns), moves=moves)

    def __reduce__(self) -> str:
        return self.name

    @property
    def identity(self) -> Any:
        """The neutral element."""
        return self.exp(np.zeros(self.dimension))

    def exp(self, delta: Any) -> Any:
        """Return the exponential map of tangent vectors at the identity, (…, dimension); angles are in radians."""
        (delta,), xp = _arrays(self, delta=(delta, (self.dimension,)))
        return self._joined(*self._exp(delta, None, xp), xp)

    def log(self, x: Any) -> Any:
        """Return the tangent vectors at the identity whose exponentials are `x`; rotation angles are at most π.

        `x` has shape (…, *shape), the result shape (…, dimension). Angles are in radians.
        """
        (x,), xp = _arrays(self, x=(x, self.shape))
        return self._log(*self._parts(x), False, xp)

    def compose(self, x: Any, y: Any) -> Any:
        """Return the products x · y, which apply `y` first, then `x`, all of shape (…, *shape)."""
        (x, y), xp = _arrays(self, x=(x, self.shape), y=(y, self.shape))
        return self._compose(x, *self._parts(y), None, xp)

    def inverse(self, x: Any) -> Any:
        """Return the inverse elements of `x`, of shape (…, *shape)."""
        (x,), xp = _arrays(self, x=(x, self.shape))
        p, s = self._parts(x)
        back = -_times(xp.swapaxes(self._turns.matrix(p, xp), -1, -2), s) if self._moves else None
        return self._joined(self._turns.inverse(p, xp), back, xp)

    def matrix(self, x: Any) -> Any:
        """Return the matrices of points of shape (…, *shape), homogeneous for poses; quaternions must have norm 1."""
        (x,), xp = _arrays(self, x=(x, self.shape))
        p, s = self._parts(x)
        return self.matrices._joined(self._turns.matrix(p, xp), s, xp)

    def apply(self, x: Any, points: Any) -> Any:
        """Rotate, and for poses translate, points of shape (…, 2) or (…, 3)."""
        (x, points), xp = _arrays(self, x=(x, self.shape), points=(points, (self._rows,)))
        p, s = self._parts(x)
        turned = _times(self._turns.matrix(p, xp), points)
        return turned + s if self._moves else turned

    def _parts(self, x: Any) -> tuple[Any, Any]:
        """Return the rotation and translation of elements; the translation is None for rotations."""
        if not self._moves:
            return x, None
        n = self._rows
        return (x[..., :n, :n], x[..., :n, n]) if self._is_matrix else (x[..., :-n], x[..., -n:])

    def _joined(self, rotation: Any, translation: Any, xp: Any) -> Any:
        """Return elements, or tangent vectors, joined from their parts."""
        if translation is None:
            return rotation
        if not self._is_matrix:
            return xp.concatenate([rotation, translation], axis=-1)
        top = xp.concatenate([rotation, translation[..., np.newaxis]], axis=-1)
        zero, one = xp.zeros_like(rotation[..., :1, :]), xp.ones_like(rotation[..., :1, :1])
        return xp.concatenate([top, xp.concatenate([zero, one], axis=-1)], axis=-2)

    def _exp(self, delta: Any, order: int | None, xp: Any) -> tuple[Any, Any]:
        """Return the exponential map, or its polynomial of an order, as (rotation, translation)."""
        if not self._moves:
            return self._turns.exp(delta, order, xp), None
        omega, v = delta[..., : -self._rows], delta[..., -self._rows :]
        turned = cross_product(omega, v, xp)
        if order is None:
            scale, _ = half_angle(omega, xp)
            cubic = series_near(omega, _CUBIC, lambda angle: (angle - xp.sin(angle)) / angle**3, xp)
            v = v + 2.0 * scale * scale * turned + cubic * cross_product(omega, turned, xp)
        elif order > 1:
            v = v + 0.5 * turned
        return self._turns.exp(omega, order, xp), v

    def _log(self, rotation: Any, translation: Any, linear: bool, xp: Any) -> Any:
        """Return the logarithm of an element in parts, or a function with its first derivative at the identity."""
        omega, v = self._turns.log(rotation, linear, xp), translation
        if not self._moves:
            return omega
        if not linear:

            def cotangent(angle: Any) -> Any:
                half = 0.5 * angle
                return (1.0 - half * xp.cos(half) / xp.sin(half)) / (angle * angle)

            turned = cross_product(omega, v, xp)
            v = v - 0.5 * turned + series_near(omega, _COTANGENT, cotangent, xp) * cross_product(omega, turned, xp)
        return xp.concatenate([omega, v], axis=-1)

    def _compose(self, x: Any, q: Any, t: Any, delta: Any, xp: Any) -> Any:
        """Multiply elements by others in parts; `delta` holds tangent vector and order if these are its polynomials."""
        p, s = self._parts(x)
        turned = self._turns.compose(p, q, xp)
        if delta is not None and isinstance(self._turns, _Quaternions):
            note_perturbed(turned, p, *delta)
        return self._joined(turned, s + _times(self._turns.matrix(p, xp), t) if self._moves else None, xp)

    def _retract(self, x: Any, delta: Any, order: int | None, xp: Any) -> Any:
        noted = None if order is None else (delta[..., : self._turns.dimension], order)
        return self._compose(x, *self._exp(delta, order, xp), noted, xp)

    def _local_coordinates(self, x: Any, y: Any, linear: bool, xp: Any) -> Any:
        (p, s), (q, t) = self._parts(x), self._parts(y)
        back = self._turns.inverse(p, xp)
        moved = _times(self._turns.matrix(back, xp), t - s) if self._moves else None
        return self._log(self._turns.compose(back, q, xp), moved, linear, xp)


def _times(matrix: Any, vectors: Any) -> Any:
    return (matrix @ vectors[..., np.newaxis])[..., 0]


SO2: Final = Group("SO2", _Angles(), moves=False)
SO3: Final = Group("SO3", _Quaternions(), moves=False)
SE2: Final = Group("SE2", _Angles(), moves=True)
SE3: Final = Group("SE3", _Quaternions(), moves=True)


# Vectors --------------------------------------------------------------------------------------------------------------


class Sphere(Manifold):
    """Unit vectors of n entries; geodesics are great circles.

    The tangent space at x is spanned by n - 1 columns B of a Householder reflection that maps the last axis to ±x. B is
    orthonormal, and continuous on each half of the sphere. local_coordinates of antipodal vectors are NaN.

    Args:
        n: entries of a vector, at least 2.

    Raises:
        ArgumentError: for fewer.

    >>> import numpy as np
    >>> Sphere(3).retract(np.array([0.0, 0.0, 1.0]), np.array([np.pi / 2, 0.0])).round(12)
    array([1., 0., 0.])
    """

    def __init__(self, n: int) -> None:
        size = _size(n, 2, "Sphere")
        self.name, self.shape, self.dimension = f"Sphere({size})", (size,), size - 1

    def _retract(self, x: Any, delta: Any, order: int | None, xp: Any) -> Any:
        first, last, sign = _reflected(x, xp)
        along = xp.sum(first * delta, axis=-1, keepdims=True)
        lifted = xp.concatenate([delta - first * (along / (1.0 + sign * last)), -sign * along], axis=-1)  # B·δ
        if order is not None:  # fewer operations than x·cos θ + …
            return x + lifted if order < 2 else x - x * (0.5 * xp.sum(delta * delta, axis=-1, keepdims=True)) + lifted
        scale, cosine = half_angle(2.0 * delta, xp)
        return x * cosine + 2.0 * scale * lifted

    def _local_coordinates(self, x: Any, y: Any, linear: bool, xp: Any) -> Any:
        first, last, sign = _reflected(x, xp)
        along = xp.sum(first * y[..., :-1], axis=-1, keepdims=True)
        projected = y[..., :-1] - first * (along / (1.0 + sign * last) + sign * y[..., -1:])  # Bᵀ·y
        if linear:
            return projected
        # half the angle between x and y is the angle between either of them and their sum
        cosine = xp.sqrt(xp.sum((x + y) * (x + y), axis=-1, keepdims=True))
        return projected * (angle_by_sine((y - x) / 2.0, cosine / 2.0, xp) / cosine)


def _reflected(x: Any, xp: Any) -> tuple[Any, Any, Any]:
    """Return all entries except the last, the last one, and its sign."""
    return x[..., :-1], x[..., -1:], xp.where(x[..., -1:] < 0.0, -1.0, 1.0)


class Euclidean(Manifold):
    """Vectors of n entries, as factors of products.

    Args:
        n: entries of a vector.

    Raises:
        ArgumentError: if n is not an integer, or is negative.
    """

    def __init__(self, n: int) -> None:
        size = _size(n, 0, "Euclidean")
        self.name, self.shape, self.dimension = f"Euclidean({size})", (size,), size

    def _retract(self, x: Any, delta: Any, order: int | None, xp: Any) -> Any:
        return x + delta

    def _local_coordinates(self, x: Any, y: Any, linear: bool, xp: Any) -> Any:
        return y - x


def _size(n: Any, minimum: int, name: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < minimum:
        raise ArgumentError(f"{name}({n!r}): expected a whole number of entries, at least {minimum}")
    return int(n)


class _Product(Manifold):
    def __init__(self, factors: Sequence[Manifold]) -> None:
        self._factors = factors
        self.name = f"product({', '.join(each.name for each in factors)})"
        self.shape = (sum(each.shape[0] for each in factors),)
        self.dimension = sum(each.dimension for each in factors)

    def _retract(self, x: Any, delta: Any, order: int | None, xp: Any) -> Any:
        pieces, start, begin = [], 0, 0
        for each in self._factors:
            stop, end = start + each.shape[0], begin + each.dimension
            pieces.append(each._retract(x[..., start:stop], delta[..., begin:end], order, xp))
            start, begin = stop, end
        return xp.concatenate(pieces, axis=-1)

    def _local_coordinates(self, x: Any, y: Any, linear: bool, xp: Any) -> Any:
        pieces, start = [], 0
        for each in self._factors:
            span = slice(start, start + each.shape[0])
            pieces.append(each._local_coordinates(x[..., span], y[..., span], linear, xp))
            start = span.stop
        return xp.concatenate(pieces, axis=-1)


def product(*factors: Manifold) -> Manifold:
    """Return the product of manifolds whose points are vectors, stored one after the other.

    ``product(SO3, Euclidean(3))`` has the storage of `SE3`, and moves rotation and translation independently, like
    SymForce's ``Pose3``.

    Raises:
        ArgumentError: without factors, or for an argument that is not a manifold of vectors.

    >>> product(SO3, Euclidean(3))
    accumulus.manifolds.product(SO3, Euclidean(3))
    """
    for factor in factors:
        if not isinstance(factor, Manifold) or len(factor.shape) != 1:
            raise ArgumentError(f"product got {factor!r}; expected manifolds whose points are vectors")
    if not factors:
        raise ArgumentError("product got no factors; expected at least one manifold")
    return _Product(factors)


# Rotations of SciPy ---------------------------------------------------------------------------------------------------

_MODULE: Final = "scipy.spatial.transform"


def is_rotation(value: Any) -> bool:
    """Return True for a ``Rotation`` of SciPy, traced or not."""
    module = sys.modules.get(_MODULE)
    return module is not None and isinstance(value, module.Rotation)


def quaternions_of(value: Any) -> Any:
    """Return the quaternions of a ``Rotation``; other values unchanged."""
    if not is_rotation(value):
        return value
    return value.quaternions if isinstance(value, Operand) else value.as_quat()  # type: ignore[attr-defined]


def rotation_of(quaternions: Any) -> Any:
    """Return the ``Rotation`` of unit quaternions, traced or not."""
    if not isinstance(quaternions, Operand):
        return sys.modules[_MODULE].Rotation.from_quat(quaternions)
    from accumulus.frontends.scipy.spatial import TracedRotation

    return TracedRotation(quaternions.tape, quaternions)
