"""Distances and rotations of `scipy.spatial`.

Distances are between two vectors of real numbers. Weights are constants or traced. SciPy requires that weights are not
negative; this is not checked for traced ones.

Rotations by traced values are unit quaternions, with SciPy's order (x, y, z, w) and conventions. Constant rotations are
SciPy's own objects, which may be multiplied by traced ones and applied to traced vectors. Conversions from and to
rotation vectors are differentiable at the zero rotation, too, by power series, see `accumulus.frontends.quaternions`.

In SciPy before 1.17, `Rotation` is a compiled class, whose methods cannot be replaced; there traced values are refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.linalg.factorisations import matrices_of
from accumulus.frontends.numpy.operands import Entries, Operand, concrete, depends
from accumulus.frontends.numpy.table import borrows
from accumulus.frontends.quaternions import (
    angle_by_sine,
    canonical_form,
    from_matrix,
    half_angle,
    normalised,
    note_perturbed,
    perturbation,
    perturbed_matrix,
    quaternion_product,
)
from accumulus.frontends.scipy.linear_algebra import orthogonal_factor
from accumulus.tape.tape import Tape

# Distances ------------------------------------------------------------------------------------------------------------


def _vector(tape: Tape, values: Any) -> Any:
    vector = as_array(tape, values)
    if vector.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    return vector


@borrows("scipy.spatial.distance", "minkowski")
def _minkowski(tape: Tape, u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """Return (Σ w·|u - v|ᵖ)^(1/p) for a constant p."""
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


@borrows("scipy.spatial.distance", "correlation")
def _correlation(tape: Tape, u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """Return 1 - cos of the angle between two vectors, after subtraction of their means if `centered`."""
    u, v = _vector(tape, u), _vector(tape, v)
    weights = np.full(u.shape, 1.0 / max(u.size, 1)) if w is None else _vector(tape, w) / np.sum(_vector(tape, w))
    if centered:
        u, v = u - np.sum(u * weights), v - np.sum(v * weights)
    cosine = np.sum(u * v * weights) / np.sqrt(np.sum(u * u * weights) * np.sum(v * v * weights))
    return np.clip(1.0 - cosine, 0.0, 2.0)


def _mahalanobis(tape: Tape, u: Any, v: Any, VI: Any) -> Any:
    """Return √(dᵀ·V⁻¹·d) for the difference d of two vectors; VI is the inverse covariance matrix."""
    difference = _vector(tape, u) - _vector(tape, v)
    return np.sqrt(difference @ np.atleast_2d(as_array(tape, VI)) @ difference)


for _name, _record in dict[str, Callable[..., Any]](
    euclidean=lambda tape, u, v, w=None: _minkowski(tape, u, v, 2, w),
    seuclidean=lambda tape, u, v, V: _minkowski(tape, u, v, 2, 1.0 / _vector(tape, V)),  # V are variances
    mahalanobis=_mahalanobis,
    cosine=lambda tape, u, v, w=None: _correlation(tape, u, v, w, centered=False),
    chebyshev=lambda tape, u, v, w=None: _minkowski(tape, u, v, np.inf, w),
).items():
    borrows("scipy.spatial.distance", _name)(_record)

#: Distances that are weighted sums of a function of each pair of entries.
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


@borrows("scipy.spatial.distance", "braycurtis")
def _braycurtis(tape: Tape, u: Any, v: Any, w: Any = None) -> Any:
    """Return Σ |u - v| / Σ |u + v|."""
    u, v = _vector(tape, u), _vector(tape, v)
    weights = 1.0 if w is None else _vector(tape, w)
    return np.sum(weights * abs(u - v)) / np.sum(weights * abs(u + v))


@borrows("scipy.spatial.distance", "jensenshannon")
def _jensenshannon(tape: Tape, p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    """Return the square root of the Jensen-Shannon divergence along an axis of arrays normalised to sum 1."""
    from scipy import special  # loaded together with `scipy.spatial.distance`

    p, q = (
        distribution / np.sum(distribution, axis=axis, keepdims=True)
        for distribution in (as_array(tape, p), as_array(tape, q))
    )
    middle = (p + q) / 2.0
    parts = special.rel_entr(p, middle) + special.rel_entr(q, middle)
    total = np.sum(parts, axis=axis, keepdims=keepdims)
    return np.sqrt(total / 2.0 if base is None else total / np.log(base) / 2.0)


# Rotations ------------------------------------------------------------------------------------------------------------

MODULE: Final = "scipy.spatial.transform"
#: Distance of the second Euler angle from 0 or π below which it counts as equal: a larger one sets the third angle to 0
#: where it is still defined, a smaller one leaves angles that rounding decides.
LOCKED: Final = 1e-7


class TracedRotation(Operand):
    """One rotation or an array of them.

    Args:
        tape: tape of the quaternions.
        quaternions: unit quaternions, of shape (..., 4).
    """

    __slots__ = ("_tape", "quaternions")
    boolean = False
    __class__: Any = property(lambda self: sys.modules[MODULE].Rotation)

    def __init__(self, tape: Tape, quaternions: Any) -> None:
        self._tape = tape
        self.quaternions: Any = as_array(tape, quaternions)

    @property
    def tape(self) -> Tape:  # type: ignore[override]
        """Tape to record on: the current one, as inside of a nested derivative, else the tape of the quaternions."""
        return self._tape if ACTIVE.tape is None else ACTIVE.tape

    @property
    def entries(self) -> Entries:
        """References of the quaternions."""
        return self.quaternions.references  # type: ignore[no-any-return]

    @property
    def single(self) -> bool:
        """True for a single rotation."""
        return bool(self.quaternions.ndim == 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of rotations."""
        return tuple(self.quaternions.shape[:-1])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return len(self.quaternions)

    def __getitem__(self, index: Any) -> TracedRotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return self._like(self.quaternions[index])

    def __iter__(self) -> Iterator[TracedRotation]:
        return (self[k] for k in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if hasattr(sys.modules[MODULE].Rotation, name) and not name.startswith("_"):
            raise refuse(
                f"Rotation.{name} of values that depend on the function's arguments is not recorded. from_quat, "
                "from_matrix, from_rotvec, from_euler, from_mrp, the same with as_, apply, products, powers, inv, mean "
                "and magnitude are."
            )
        raise AttributeError(f"TracedRotation has no attribute {name!r}")

    def mean(self, weights: Any = None) -> TracedRotation:
        """Return the mean of all rotations, the last eigenvector of the sum of q·qᵀ, as in SciPy."""
        if self.single:
            raise ValueError("Mean of a single rotation is not defined: pass an array of rotations.")
        rows = self.quaternions.reshape((-1, 4))
        weighted = rows if weights is None else rows * np.reshape(as_array(self.tape, weights), (-1, 1))
        return self._like(np.linalg.eigh(weighted.T @ rows)[1][:, -1])

    def _like(self, quaternions: Any) -> TracedRotation:
        return TracedRotation(self.tape, quaternions)

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """Return the quaternions; with `canonical`, w is positive, or the first nonzero of x, y and z if w is 0."""
        quaternions = canonical_form(self.quaternions) if canonical else self.quaternions.copy()
        return np.roll(quaternions, 1, axis=-1) if scalar_first else quaternions

    def as_matrix(self) -> Any:
        """Return rotation matrices, of shape (..., 3, 3)."""
        if (perturbed := perturbation(self.quaternions)) is not None:
            base, delta, order = perturbed
            return perturbed_matrix(self._like(base).as_matrix(), delta, order)
        x, y, z, w = _components(self.quaternions)
        rows = (
            (x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
            (2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)),
            (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w),
        )
        return np.stack([_joined(self.tape, row) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Return rotation vectors: along the axis of rotation, with the angle as length."""
        quaternions = canonical_form(self.quaternions)
        axis = quaternions[..., :3]
        scale = angle_by_sine(axis, quaternions[..., 3:])
        return axis * (scale * (180.0 / np.pi) if degrees else scale)

    def as_mrp(self) -> Any:
        """Return modified Rodrigues parameters: along the axis, with the tangent of a quarter angle as length."""
        w = self.quaternions[..., 3:]
        sign = np.where(w < 0.0, -1.0, 1.0)
        return sign * self.quaternions[..., :3] / (1.0 + sign * w)

    def as_euler(self, seq: str, degrees: bool = False, *, suppress_warnings: bool = False) -> Any:
        """Return three Euler angles; in gimbal lock, where only a sum or difference is determined, the third is 0."""
        places, extrinsic = _axes(seq, 3)
        i, j, k = places if extrinsic else places[::-1]
        symmetric = i == k
        if symmetric:
            k = 3 - i - j
        sign = float((i - j) * (j - k) * (k - i) // 2)
        q = _components(self.quaternions)
        a, b, c, d = q[3], q[i], q[j], q[k] * sign
        if not symmetric:
            a, b, c, d = a - c, b + d, c + a, d - b
        half_sum, half_difference = np.arctan2(b, a), np.arctan2(d, c)
        middle = 2.0 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
        at_zero, at_pi = abs(middle) <= LOCKED, abs(middle - np.pi) <= LOCKED
        alone = np.where(at_zero, 2.0 * half_sum, (-2.0 if extrinsic else 2.0) * half_difference)
        locked = at_zero | at_pi
        first, third = half_sum - half_difference, half_sum + half_difference
        if extrinsic:
            first, third = np.where(locked, alone, first), np.where(locked, 0.0, third)
        else:
            first, third = np.where(locked, 0.0, first), np.where(locked, alone, third)
        if not symmetric:
            third, middle = third * sign, middle - np.pi / 2.0
        angles = _joined(self.tape, (first, middle, third) if extrinsic else (third, middle, first))
        angles = np.where(angles < -np.pi, angles + 2.0 * np.pi, angles)
        angles = np.where(angles > np.pi, angles - 2.0 * np.pi, angles)
        return angles * (180.0 / np.pi) if degrees else angles

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Return rotated vectors, of shape (..., 3)."""
        points = as_array(self.tape, vectors)
        if points.shape[-1:] != (3,):
            raise ValueError(f"Expected input of shape (..., 3), got {points.shape}.")
        matrix = self.as_matrix()
        return ((matrix.mT if inverse else matrix) @ points[..., np.newaxis])[..., 0]

    def __mul__(self, other: Any) -> Any:
        return _product(self.tape, self, other)

    def __pow__(self, n: Any, modulus: None = None) -> Any:
        return _from_rotvec(self.tape, n * self.as_rotvec())

    def inv(self) -> TracedRotation:
        """Return the inverse rotations."""
        return self._like(np.concatenate([-self.quaternions[..., :3], self.quaternions[..., 3:]], axis=-1))

    def magnitude(self) -> Any:
        """Return the angles of rotation."""
        axis = self.quaternions[..., :3]
        return 2.0 * np.arctan2(np.sqrt(np.sum(axis * axis, axis=-1)), abs(self.quaternions[..., 3]))


def _components(quaternions: Any) -> list[Any]:
    return [quaternions[..., k] for k in range(4)]


def _joined(tape: Tape, components: Sequence[Any]) -> Any:
    """Return broadcast arrays stacked along a new last axis."""
    return np.stack(np.broadcast_arrays(*(as_array(tape, component) for component in components)), axis=-1)


def _normalised(tape: Tape, quaternions: Any) -> TracedRotation:
    if (perturbed := perturbation(quaternions)) is None:
        return TracedRotation(tape, normalised(quaternions))
    base, delta, order = perturbed  # a perturbation preserves the length up to its order
    length = np.sqrt(np.sum(base * base, axis=-1, keepdims=True))
    rotation = TracedRotation(tape, quaternions / length)
    note_perturbed(rotation.quaternions, base / length, delta, order)
    return rotation


def _is_rotation(value: Any) -> bool:
    return isinstance(value, sys.modules[MODULE].Rotation)


def _quaternions(tape: Tape, rotation: Any) -> Any:
    """Return the quaternions of a traced or constant rotation."""
    return rotation.quaternions if type(rotation) is TracedRotation else as_array(tape, rotation.as_quat())


def _axes(seq: str, most: int) -> tuple[list[int], bool]:
    """Return the positions of Euler's axes, and True if they are fixed (lower case), not rotating (upper case)."""
    extrinsic = re.fullmatch("[xyz]{1,3}", seq) is not None
    if not extrinsic and re.fullmatch("[XYZ]{1,3}", seq) is None:
        raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if most == 3 and len(seq) != 3:
        raise ValueError(f"Expected 3 axes, got {seq}.")
    if any(a == b for a, b in pairwise(seq)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(letter) for letter in seq.lower()], extrinsic


@borrows(MODULE, "Rotation.__mul__")
def _product(tape: Tape, self: Any, other: Any) -> Any:
    """Return the composition: rotation by `other`, followed by `self`."""
    if not _is_rotation(other):
        return NotImplemented
    return _normalised(tape, quaternion_product(_quaternions(tape, self), _quaternions(tape, other)))


# constant rotations, applied to traced vectors or raised to traced powers
borrows(MODULE, "Rotation.apply")(
    lambda tape, self, vectors, inverse=False: TracedRotation(tape, self.as_quat()).apply(vectors, inverse)
)
borrows(MODULE, "Rotation.__pow__")(lambda tape, self, n, modulus=None: TracedRotation(tape, self.as_quat()) ** n)


@borrows(MODULE, "Rotation.concatenate")
def _concatenate(tape: Tape, rotations: Any) -> Any:
    """Return an array of several rotations."""
    items = [rotations] if _is_rotation(rotations) else rotations
    return TracedRotation(tape, np.concatenate([np.atleast_2d(_quaternions(tape, each)) for each in items]))


@borrows(MODULE, "Rotation.from_quat")
def _from_quat(tape: Tape, quat: Any, *, scalar_first: bool = False) -> TracedRotation:
    """Return rotations from quaternions of any nonzero length."""
    quaternions = as_array(tape, quat)
    if quaternions.shape[-1:] != (4,):
        raise ValueError(f"Expected `quat` to have shape (..., 4), got {quaternions.shape}.")
    return _normalised(tape, np.roll(quaternions, -1, axis=-1) if scalar_first else quaternions)


@borrows(MODULE, "Rotation.from_rotvec")
def _from_rotvec(tape: Tape, rotvec: Any, degrees: bool = False) -> TracedRotation:
    """Return rotations from rotation vectors, whose length is the angle."""
    vectors = as_array(tape, rotvec)
    if vectors.shape[-1:] != (3,):
        raise ValueError(f"Expected `rot_vec` to have shape (..., 3), got {vectors.shape}")
    if degrees:
        vectors = vectors * (np.pi / 180.0)
    scale, cosine = half_angle(vectors)
    return TracedRotation(tape, np.concatenate([vectors * scale, cosine], axis=-1))


@borrows(MODULE, "Rotation.from_mrp")
def _from_mrp(tape: Tape, mrp: Any) -> TracedRotation:
    """Return rotations from modified Rodrigues parameters."""
    vectors = as_array(tape, mrp)
    above = 1.0 + np.sum(vectors * vectors, axis=-1, keepdims=True)
    return TracedRotation(tape, np.concatenate([2.0 * vectors, 2.0 - above], axis=-1) / above)


@borrows(MODULE, "Rotation.from_euler")
def _from_euler(tape: Tape, seq: str, angles: Any, degrees: bool = False) -> TracedRotation:
    """Return rotations from Euler angles, about fixed axes (lower case) or rotating axes (upper case)."""
    places, extrinsic = _axes(seq, 1)
    turns = np.atleast_1d(as_array(tape, angles))
    if turns.shape[-1] != len(places):
        raise ValueError(
            f"Expected last dimension of `angles` to match number of sequence axes specified, got {turns.shape[-1]}."
        )
    halves = turns * (np.pi / 360.0 if degrees else 0.5)
    result = None
    for k, axis in enumerate(places):
        turn: list[Any] = [np.zeros(turns.shape[:-1])] * 3 + [np.cos(halves[..., k])]
        turn[axis] = np.sin(halves[..., k])
        quaternion = _joined(tape, turn)
        if result is None:
            result = quaternion
        else:
            result = quaternion_product(quaternion, result) if extrinsic else quaternion_product(result, quaternion)
    return TracedRotation(tape, result)


@borrows(MODULE, "Rotation.from_matrix")
def _from_matrix(tape: Tape, matrix: Any, *, assume_valid: bool = False) -> TracedRotation:
    """Return rotations from matrices: from the nearest orthogonal ones, unless `assume_valid`.

    A determinant that is not positive, for which SciPy raises, is not detected.
    """
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, matrix, "Rotation.from_matrix")
        if matrices.shape[1:] != (3, 3):
            raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {np.shape(matrix)}")
        m = matrices if assume_valid else orthogonal_factor(tape, matrices)
        return _normalised(tape, from_matrix(m).reshape(*stack, 4))
