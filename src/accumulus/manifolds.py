"""Manifolds of rotations, poses and unit vectors: retractions, local coordinates, and what derivatives `on=` one need.

`acc.jacobian(f, on=SE3)` differentiates f(retract(x, δ)) with respect to the tangent vector δ at δ = 0. Points are
arrays, one or a stack of them: cosine and sine for `SO2`, a unit quaternion (x, y, z, w) or SciPy's ``Rotation`` for
`SO3`, a rotation and then a translation for `SE2` and `SE3`. ``SO3.matrices`` and its like are the same groups, stored
as matrices. Perturbations are on the right, retract(x, δ) = x · Exp(δ), rotation first; Exp is the exponential map of
the group. All conventions are in one table: docs/tasks/manifolds.md.

>>> import numpy as np
>>> x = SO3.exp(np.array([0.0, 0.0, np.pi / 2]))
>>> y = SO3.retract(x, np.array([0.1, 0.0, 0.0]))
>>> SO3.local_coordinates(x, y).round(12)
array([0.1, 0. , 0. ])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.operands import Operand, depends
from accumulus.frontends.quaternions import (
    angle_by_sine,
    canonical_form,
    composed,
    conjugate,
    from_matrix,
    half_angle,
    normalised,
    note_perturbed,
    parts,
    perturbation,
    perturbed_matrix,
    series,
    skew,
)

__all__ = ["SE2", "SE3", "SO2", "SO3", "Euclidean", "Group", "Manifold", "Sphere", "product"]

#: Squares of angles up to which these are series: (θ - sin θ)/θ³ and (1 - θ/2·cot(θ/2))/θ², in θ².
NEAR: Final = 1.0
_CUBIC: Final = tuple((-1.0) ** k / math.factorial(2 * k + 3) for k in range(11))
#: |B₂ₖ|/(2k)! for k = 1, 2, …
_COTANGENT: Final = (
    *(1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600),
    *(3617 / 10670622842880000, 43867 / 5109094217170944000, 174611 / 802857662698291200000),
)


class Manifold:
    """A manifold whose points are stored as arrays.

    Attributes:
        name: of the manifold, for messages.
        shape: of one point.
        dimension: of the tangent space.
    """

    name: str
    shape: tuple[int, ...]
    dimension: int

    def retract(self, x: Any, delta: Any) -> Any:
        """Return the points that tangent vectors lead to.

        Args:
            x: points, of shape (…, *shape): numbers, traced values, or arrays of JAX.
            delta: tangent vectors at `x`, of shape (…, dimension). Leading axes are broadcast.

        Returns:
            Points of shape (…, *shape). They are not normalised: a point keeps its length.

        Raises:
            ArgumentError: for a wrong shape, or for entries that are no real numbers.
        """
        (x, delta), xp = _arrays(self, x=(x, self.shape), delta=(delta, (self.dimension,)))
        return self._retract(x, delta, xp)

    def local_coordinates(self, x: Any, y: Any) -> Any:
        """Return the tangent vectors δ at `x` with retract(x, δ) = `y`: the shortest ones.

        Args:
            x, y: points, of shape (…, *shape). Leading axes are broadcast.

        Returns:
            Tangent vectors of shape (…, dimension).

        Raises:
            ArgumentError: for a wrong shape, or for entries that are no real numbers.
        """
        (x, y), xp = _arrays(self, x=(x, self.shape), y=(y, self.shape))
        return self._local_coordinates(x, y, xp)

    def expansion(self, x: Any, delta: Any, order: int) -> Any:
        """Return a polynomial in `delta` with the derivatives of `retract` at delta = 0, up to order 1 or 2."""
        (x, delta), xp = _arrays(self, x=(x, self.shape), delta=(delta, (self.dimension,)))
        return self._expansion(x, delta, order, xp)

    def differential(self, x: Any, y: Any) -> Any:
        """Return a linear function of `y` with the first derivative of local_coordinates(x, y) at y = x."""
        (x, y), xp = _arrays(self, x=(x, self.shape), y=(y, self.shape))
        return self._differential(x, y, xp)

    def tangent_shape(self, shape: tuple[int, ...], name: str = "x") -> tuple[int, ...]:
        """Return the shape of tangent vectors at points of a shape.

        Raises:
            ArgumentError: if it is no shape of points.
        """
        leading = len(shape) - len(self.shape)
        if leading < 0 or tuple(shape[leading:]) != self.shape:
            raise ArgumentError(
                f"{name} has shape {tuple(shape)}; expected points of {self.name}, of shape {self.shape}, or a stack "
                f"of them, of shape {_stacked(self.shape)}"
            )
        return (*shape[:leading], self.dimension)

    def _retract(self, x: Any, delta: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _local_coordinates(self, x: Any, y: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        raise NotImplementedError

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"accumulus.manifolds.{self.name}"


def _stacked(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['…', *map(str, shape)])})"


def _arrays(manifold: Manifold, **given: tuple[Any, tuple[int, ...]]) -> tuple[list[Any], Any]:
    """Arguments as arrays of one library, their shapes checked, and the module with its functions."""
    values = [value for value, _ in given.values()]
    jax = sys.modules.get("jax")
    xp: Any = np
    if jax is not None and any(isinstance(value, jax.Array) for value in values):
        xp = jax.numpy
        arrays = [xp.asarray(value) for value in values]
    else:
        arrays = [_array(value, name, manifold) for name, value in zip(given, values, strict=True)]
    for array, (name, (_, shape)) in zip(arrays, given.items(), strict=True):
        own, leading = np.shape(array), len(np.shape(array)) - len(shape)
        if leading < 0 or own[leading:] != shape:
            raise ArgumentError(f"{name} has shape {own}; {manifold.name} takes {shape}, or a stack {_stacked(shape)}")
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


class Group(Manifold):
    """A Lie group, perturbed on the right: retract(x, δ) = x · Exp(δ), local_coordinates(x, y) = Log(x⁻¹ · y).

    Its methods take points and tangent vectors as `retract` does.
    """

    #: Rows of a rotation matrix, and whether there is a translation.
    _rows: int
    _moves: bool = False

    @property
    def identity(self) -> Any:
        """The neutral element."""
        return self.exp(np.zeros(self.dimension))

    @property
    def matrices(self) -> Group:
        """The group stored as matrices, of poses homogeneous ones."""
        return _Matrices(self)

    def exp(self, delta: Any) -> Any:
        """Return the exponential map of tangent vectors at the identity, (…, dimension)."""
        (delta,), xp = _arrays(self, delta=(delta, (self.dimension,)))
        return self._exp(delta, xp)

    def log(self, x: Any) -> Any:
        """Return the tangent vectors at the identity whose exponentials are `x`: angles are at most π."""
        (x,), xp = _arrays(self, x=(x, self.shape))
        return self._log(x, xp)

    def compose(self, x: Any, y: Any) -> Any:
        """Return the products x · y: what first applies `y`, then `x`."""
        (x, y), xp = _arrays(self, x=(x, self.shape), y=(y, self.shape))
        return self._compose(x, y, xp)

    def inverse(self, x: Any) -> Any:
        """Return the inverse elements."""
        (x,), xp = _arrays(self, x=(x, self.shape))
        return self._inverse(x, xp)

    def matrix(self, x: Any) -> Any:
        """Return the matrices of `x`, homogeneous ones of poses; for quaternions of length 1."""
        (x,), xp = _arrays(self, x=(x, self.shape))
        return self._matrix(x, xp)

    def apply(self, x: Any, points: Any) -> Any:
        """Rotate, and of poses move, points of shape (…, 2) or (…, 3)."""
        (x, points), xp = _arrays(self, x=(x, self.shape), points=(points, (self._rows,)))
        turned = (self._rotation(x, xp) @ points[..., np.newaxis])[..., 0]
        return turned + self._translation(x) if self._moves else turned

    def _retract(self, x: Any, delta: Any, xp: Any) -> Any:
        return self._compose(x, self._exp(delta, xp), xp)

    def _local_coordinates(self, x: Any, y: Any, xp: Any) -> Any:
        return self._log(self._compose(self._inverse(x, xp), y, xp), xp)

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        return self._compose(x, self._polynomial(delta, order, xp), xp)

    def _matrix(self, x: Any, xp: Any) -> Any:
        rotation = self._rotation(x, xp)
        return _homogeneous(rotation, self._translation(x), xp) if self._moves else rotation

    def _translation(self, x: Any) -> Any:
        return x[..., -self._rows :]

    def _exp(self, delta: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _polynomial(self, delta: Any, order: int, xp: Any) -> Any:
        """Return the exponential map up to an order, 1 or 2."""
        raise NotImplementedError

    def _log(self, x: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _compose(self, x: Any, y: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, x: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _rotation(self, x: Any, xp: Any) -> Any:
        raise NotImplementedError

    def _of_matrix(self, matrix: Any, xp: Any) -> Any:
        """Return the element of an orthogonal matrix, or of a homogeneous one."""
        raise NotImplementedError

    def _generator(self, delta: Any, xp: Any) -> Any:
        """Return the matrix of the Lie algebra."""
        raise NotImplementedError


def _rows_of(rows: Sequence[Sequence[Any]], xp: Any) -> Any:
    """Matrices, (…, m, n), from the arrays of their entries, each of shape (…, 1)."""
    return xp.stack([xp.concatenate(row, axis=-1) for row in rows], axis=-2)


def _homogeneous(rotation: Any, column: Any, xp: Any, corner: float = 1.0) -> Any:
    """Matrices with a column beside and a row of zeros and `corner` below."""
    top = xp.concatenate([rotation, column[..., np.newaxis]], axis=-1)
    zero = xp.zeros_like(rotation[..., :1, :])
    last = xp.full_like(rotation[..., :1, :1], corner)
    return xp.concatenate([top, xp.concatenate([zero, last], axis=-1)], axis=-2)


def _times(matrix: Any, vectors: Any) -> Any:
    return (matrix @ vectors[..., np.newaxis])[..., 0]


def _transposed(matrix: Any, xp: Any) -> Any:
    return xp.swapaxes(matrix, -1, -2)


def _cross(u: Any, v: Any, xp: Any) -> Any:
    (a, b, c), (x, y, z) = parts(u), parts(v)
    return xp.concatenate([b * z - c * y, c * x - a * z, a * y - b * x], axis=-1)


def _series_near(square: Any, coefficients: Sequence[float], far: Any, xp: Any) -> Any:
    """Return a power series of θ² where that is small, else `far`, a function of θ."""
    near = square <= NEAR
    angle = xp.sqrt(xp.where(near, 1.0, square))
    return xp.where(near, series(xp.where(near, square, 0.0), coefficients), far(angle))


def _cotangent(square: Any, xp: Any) -> Any:
    """(1 - θ/2·cot(θ/2))/θ² of squares of angles, up to a full turn."""

    def far(angle: Any) -> Any:
        half = 0.5 * angle
        return (1.0 - half * xp.cos(half) / xp.sin(half)) / (angle * angle)

    return _series_near(square, _COTANGENT, far, xp)


# Rotations ------------------------------------------------------------------------------------------------------------


class _SO2(Group):
    name, shape, dimension = "SO2", (2,), 1
    _rows = 2

    def _exp(self, delta: Any, xp: Any) -> Any:
        return xp.concatenate([xp.cos(delta), xp.sin(delta)], axis=-1)

    def _polynomial(self, delta: Any, order: int, xp: Any) -> Any:
        cosine = xp.ones_like(delta)
        return xp.concatenate([cosine if order < 2 else cosine - 0.5 * delta * delta, delta], axis=-1)

    def _log(self, x: Any, xp: Any) -> Any:
        return xp.arctan2(x[..., 1:], x[..., :1])

    def _compose(self, x: Any, y: Any, xp: Any) -> Any:
        (a, b), (c, d) = parts(x), parts(y)
        return xp.concatenate([a * c - b * d, a * d + b * c], axis=-1)

    def _inverse(self, x: Any, xp: Any) -> Any:
        return xp.concatenate([x[..., :1], -x[..., 1:]], axis=-1)

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        (a, b), (c, d) = parts(x), parts(y)
        return a * d - b * c

    def _rotation(self, x: Any, xp: Any) -> Any:
        a, b = parts(x)
        return _rows_of([[a, -b], [b, a]], xp)

    def _of_matrix(self, matrix: Any, xp: Any) -> Any:
        return matrix[..., :, 0]

    def _generator(self, delta: Any, xp: Any) -> Any:
        zero = xp.zeros_like(delta)
        return _rows_of([[zero, -delta], [delta, zero]], xp)


class _SO3(Group):
    name, shape, dimension = "SO3", (4,), 3
    _rows = 3

    def retract(self, x: Any, delta: Any) -> Any:
        """Return x · Exp(δ), of unit quaternions, or of SciPy's ``Rotation``, one or an array of them.

        >>> import numpy as np
        >>> from scipy.spatial.transform import Rotation
        >>> moved = SO3.retract(Rotation.identity(), np.array([0.0, 0.0, 0.5]))
        >>> moved.as_rotvec()
        array([0. , 0. , 0.5])
        """
        if not is_rotation(x):
            return super().retract(x, delta)
        return rotation_of(super().retract(quaternions_of(x), delta))

    def local_coordinates(self, x: Any, y: Any) -> Any:
        """Return Log(x⁻¹ · y), of quaternions of any length, or of SciPy's ``Rotation``: angles are at most π."""
        return super().local_coordinates(quaternions_of(x), quaternions_of(y))

    def _exp(self, delta: Any, xp: Any) -> Any:
        scale, cosine = half_angle(delta, xp)
        return xp.concatenate([delta * scale, cosine], axis=-1)

    def _polynomial(self, delta: Any, order: int, xp: Any) -> Any:
        cosine = xp.ones_like(delta[..., :1])
        if order > 1:
            cosine = cosine - 0.125 * xp.sum(delta * delta, axis=-1, keepdims=True)
        return xp.concatenate([0.5 * delta, cosine], axis=-1)

    def _log(self, x: Any, xp: Any) -> Any:
        unit = canonical_form(normalised(x, xp), xp)
        return unit[..., :3] * angle_by_sine(unit[..., :3], unit[..., 3:], xp)

    def _compose(self, x: Any, y: Any, xp: Any) -> Any:
        return composed(x, y, xp)

    def _inverse(self, x: Any, xp: Any) -> Any:
        return conjugate(x, xp)

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        return 2.0 * composed(conjugate(x, xp), y, xp)[..., :3]

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        found = super()._expansion(x, delta, order, xp)
        note_perturbed(found, x, delta, order)
        return found

    def _rotation(self, x: Any, xp: Any) -> Any:
        if (known := perturbation(x)) is not None:
            base, delta, order = known
            return perturbed_matrix(self._rotation(base, xp), delta, order)
        a, b, c, w = parts(x)
        x2, y2, z2 = 2.0 * a, 2.0 * b, 2.0 * c
        xx, yy, zz = a * x2, b * y2, c * z2
        xy, xz, yz, wx, wy, wz = a * y2, a * z2, b * z2, w * x2, w * y2, w * z2
        return _rows_of(
            [
                [1.0 - yy - zz, xy - wz, xz + wy],
                [xy + wz, 1.0 - xx - zz, yz - wx],
                [xz - wy, yz + wx, 1.0 - xx - yy],
            ],
            xp,
        )

    def _of_matrix(self, matrix: Any, xp: Any) -> Any:
        return normalised(from_matrix(matrix, xp), xp)

    def _generator(self, delta: Any, xp: Any) -> Any:
        return skew(delta, xp)


# Poses ----------------------------------------------------------------------------------------------------------------


class _Poses(Group):
    """Poses of the plane or of space: a rotation, then a translation."""

    _moves = True
    _of: Group

    def __init__(self, name: str, of: Group) -> None:
        self.name, self._of, self._rows = name, of, of._rows
        self.shape, self.dimension = (of.shape[0] + of._rows,), of.dimension + of._rows

    def _parts(self, x: Any, tangent: bool = False) -> tuple[Any, Any]:
        split = self._of.dimension if tangent else self._of.shape[0]
        return x[..., :split], x[..., split:]

    def _turned(self, omega: Any, v: Any, xp: Any) -> Any:
        """ω × v."""
        if self._rows == 3:
            return _cross(omega, v, xp)
        x, y = parts(v)
        return xp.concatenate([-omega * y, omega * x], axis=-1)

    def _exp(self, delta: Any, xp: Any) -> Any:
        omega, v = self._parts(delta, tangent=True)
        scale, _ = half_angle(omega, xp)
        once = self._turned(omega, v, xp)
        square = xp.sum(omega * omega, axis=-1, keepdims=True)
        cubic = _series_near(square, _CUBIC, lambda angle: (angle - xp.sin(angle)) / angle**3, xp)
        moved = v + 2.0 * scale * scale * once + cubic * self._turned(omega, once, xp)
        return xp.concatenate([self._of._exp(omega, xp), moved], axis=-1)

    def _polynomial(self, delta: Any, order: int, xp: Any) -> Any:
        omega, v = self._parts(delta, tangent=True)
        moved = v if order < 2 else v + 0.5 * self._turned(omega, v, xp)
        return xp.concatenate([self._of._polynomial(omega, order, xp), moved], axis=-1)

    def _log(self, x: Any, xp: Any) -> Any:
        rotation, t = self._parts(x)
        omega = self._of._log(rotation, xp)
        once = self._turned(omega, t, xp)
        square = xp.sum(omega * omega, axis=-1, keepdims=True)
        v = t - 0.5 * once + _cotangent(square, xp) * self._turned(omega, once, xp)
        return xp.concatenate([omega, v], axis=-1)

    def _compose(self, x: Any, y: Any, xp: Any) -> Any:
        (p, s), (q, t) = self._parts(x), self._parts(y)
        return xp.concatenate([self._of._compose(p, q, xp), s + _times(self._of._rotation(p, xp), t)], axis=-1)

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        (q, t), (omega, _) = self._parts(x), self._parts(delta, tangent=True)
        moved = self._parts(self._polynomial(delta, order, xp))[1]
        turned = self._of._expansion(q, omega, order, xp)
        return xp.concatenate([turned, t + _times(self._of._rotation(q, xp), moved)], axis=-1)

    def _inverse(self, x: Any, xp: Any) -> Any:
        q, t = self._parts(x)
        back = _transposed(self._of._rotation(q, xp), xp)
        return xp.concatenate([self._of._inverse(q, xp), -_times(back, t)], axis=-1)

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        (p, _), (q, t) = self._parts(x), self._parts(y)
        back = self._of._rotation(self._of._inverse(p, xp), xp)
        return xp.concatenate([self._of._differential(p, q, xp), _times(back, t)], axis=-1)

    def _rotation(self, x: Any, xp: Any) -> Any:
        return self._of._rotation(self._parts(x)[0], xp)

    def _of_matrix(self, matrix: Any, xp: Any) -> Any:
        n = self._rows
        return xp.concatenate([self._of._of_matrix(matrix[..., :n, :n], xp), matrix[..., :n, n]], axis=-1)

    def _generator(self, delta: Any, xp: Any) -> Any:
        omega, v = self._parts(delta, tangent=True)
        return _homogeneous(self._of._generator(omega, xp), v, xp, 0.0)


class _Matrices(Group):
    """A group whose elements are stored as matrices."""

    def __init__(self, of: Group) -> None:
        self._of, self._rows, self._moves = of, of._rows, of._moves
        size = of._rows + of._moves
        self.name, self.shape, self.dimension = f"{of.name}.matrices", (size, size), of.dimension

    @property
    def matrices(self) -> Group:
        """Itself."""
        return self

    def _exp(self, delta: Any, xp: Any) -> Any:
        return self._of._matrix(self._of._exp(delta, xp), xp)

    def _polynomial(self, delta: Any, order: int, xp: Any) -> Any:
        generator = self._of._generator(delta, xp)
        found = np.eye(self.shape[0]) + generator
        return found if order < 2 else found + 0.5 * (generator @ generator)

    def _log(self, x: Any, xp: Any) -> Any:
        return self._of._log(self._of._of_matrix(x, xp), xp)

    def _compose(self, x: Any, y: Any, xp: Any) -> Any:
        return x @ y

    def _inverse(self, x: Any, xp: Any) -> Any:
        back = _transposed(self._rotation(x, xp), xp)
        return _homogeneous(back, -_times(back, self._translation(x)), xp) if self._moves else back

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        back = _transposed(self._rotation(x, xp), xp)
        m = back @ self._rotation(y, xp)
        places = [(1, 0)] if self._rows == 2 else [(2, 1), (0, 2), (1, 0)]
        found = [m[..., i, j : j + 1] for i, j in places]
        return xp.concatenate([*found, _times(back, self._translation(y))] if self._moves else found, axis=-1)

    def _matrix(self, x: Any, xp: Any) -> Any:
        return x

    def _rotation(self, x: Any, xp: Any) -> Any:
        return x[..., : self._rows, : self._rows]

    def _translation(self, x: Any) -> Any:
        return x[..., : self._rows, self._rows]


# Vectors --------------------------------------------------------------------------------------------------------------


class Sphere(Manifold):
    """Unit vectors of n entries; geodesics are great circles.

    The tangent space at x is spanned by n - 1 columns B of a Householder reflection that takes the last axis to ±x:
    B is orthonormal, and continuous on each half of the sphere. local_coordinates of opposite vectors are NaN.

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

    def _lifted(self, x: Any, delta: Any, xp: Any) -> Any:
        """B·δ, tangent vectors in the space around."""
        first, last = x[..., :-1], x[..., -1:]
        sign = xp.where(last < 0.0, -1.0, 1.0)
        along = xp.sum(first * delta, axis=-1, keepdims=True)
        return xp.concatenate([delta - first * (along / (1.0 + sign * last)), -sign * along], axis=-1)

    def _projected(self, x: Any, y: Any, xp: Any) -> Any:
        """Bᵀ·y."""
        first, last = x[..., :-1], x[..., -1:]
        sign = xp.where(last < 0.0, -1.0, 1.0)
        along = xp.sum(first * y[..., :-1], axis=-1, keepdims=True)
        return y[..., :-1] - first * (along / (1.0 + sign * last) + sign * y[..., -1:])

    def _retract(self, x: Any, delta: Any, xp: Any) -> Any:
        scale, cosine = half_angle(2.0 * delta, xp)
        return x * cosine + 2.0 * scale * self._lifted(x, delta, xp)

    def _local_coordinates(self, x: Any, y: Any, xp: Any) -> Any:
        # half the angle between x and y is that between one of them and their sum
        cosine = xp.sqrt(xp.sum((x + y) * (x + y), axis=-1, keepdims=True))
        chord = (y - x) / 2.0
        return self._projected(x, y, xp) * (angle_by_sine(chord, cosine / 2.0, xp) / cosine)

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        lifted = self._lifted(x, delta, xp)
        if order < 2:
            return x + lifted
        return x - x * (0.5 * xp.sum(delta * delta, axis=-1, keepdims=True)) + lifted

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        return self._projected(x, y, xp)


class Euclidean(Manifold):
    """Vectors of n entries, for products.

    Args:
        n: entries of a vector.

    Raises:
        ArgumentError: if it is no whole number, or negative.
    """

    def __init__(self, n: int) -> None:
        size = _size(n, 0, "Euclidean")
        self.name, self.shape, self.dimension = f"Euclidean({size})", (size,), size

    def _retract(self, x: Any, delta: Any, xp: Any) -> Any:
        return x + delta

    def _local_coordinates(self, x: Any, y: Any, xp: Any) -> Any:
        return y - x

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        return x + delta

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        return y


def _size(n: Any, least: int, name: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise ArgumentError(f"{name}({n!r}): expected a whole number of entries, at least {least}")
    return int(n)


class _Product(Manifold):
    def __init__(self, factors: tuple[Manifold, ...]) -> None:
        self._factors = factors
        self.name = f"product({', '.join(each.name for each in factors)})"
        self.shape = (sum(each.shape[0] for each in factors),)
        self.dimension = sum(each.dimension for each in factors)

    def _by_factor(self, method: str, x: Any, other: Any, tangent: bool, xp: Any, *rest: Any) -> Any:
        found, start, begin = [], 0, 0
        for each in self._factors:
            stop, end = start + each.shape[0], begin + (each.dimension if tangent else each.shape[0])
            found.append(getattr(each, method)(x[..., start:stop], other[..., begin:end], *rest, xp))
            start, begin = stop, end
        return xp.concatenate(found, axis=-1)

    def _retract(self, x: Any, delta: Any, xp: Any) -> Any:
        return self._by_factor("_retract", x, delta, True, xp)

    def _local_coordinates(self, x: Any, y: Any, xp: Any) -> Any:
        return self._by_factor("_local_coordinates", x, y, False, xp)

    def _expansion(self, x: Any, delta: Any, order: int, xp: Any) -> Any:
        return self._by_factor("_expansion", x, delta, True, xp, order)

    def _differential(self, x: Any, y: Any, xp: Any) -> Any:
        return self._by_factor("_differential", x, y, False, xp)


def product(*factors: Manifold) -> Manifold:
    """Return the product of manifolds whose points are vectors, stored one after the other.

    ``product(SO3, Euclidean(3))`` has the storage of `SE3`, and moves rotation and translation apart from each other,
    as SymForce's ``Pose3`` does.

    Raises:
        ArgumentError: without factors, or for one that is no manifold of vectors.

    >>> product(SO3, Euclidean(3))
    accumulus.manifolds.product(SO3, Euclidean(3))
    """
    for factor in factors:
        if not isinstance(factor, Manifold) or len(factor.shape) != 1:
            raise ArgumentError(f"product got {factor!r}; expected manifolds whose points are vectors")
    if not factors:
        raise ArgumentError("product got no factors; expected at least one manifold")
    return _Product(factors)


SO2: Final[Group] = _SO2()
SO3: Final[Group] = _SO3()
SE2: Final[Group] = _Poses("SE2", SO2)
SE3: Final[Group] = _Poses("SE3", SO3)


# Rotations of SciPy ---------------------------------------------------------------------------------------------------

_MODULE: Final = "scipy.spatial.transform"


def is_rotation(value: Any) -> bool:
    """Return True for a ``Rotation`` of SciPy, traced or not."""
    module = sys.modules.get(_MODULE)
    return module is not None and isinstance(value, module.Rotation)


def quaternions_of(value: Any) -> Any:
    """Return the quaternions of a ``Rotation``; anything else as it is."""
    if not is_rotation(value):
        return value
    return value.quaternions if isinstance(value, Operand) else value.as_quat()  # type: ignore[attr-defined]


def rotation_of(quaternions: Any) -> Any:
    """Return the ``Rotation`` of unit quaternions, traced or not."""
    if not isinstance(quaternions, Operand):
        return sys.modules[_MODULE].Rotation.from_quat(quaternions)
    from accumulus.frontends.scipy.spatial import TracedRotation

    return TracedRotation(quaternions.tape, quaternions)
