"""Rotations of SciPy: its values, derivatives by differences, and at the rotation by nothing by what they must be."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from differences import differences, differentiates
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate
from scipy.spatial.transform import Rotation

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record

if not hasattr(Rotation, "from_mrp") or Rotation.__flags__ & (1 << 8):
    pytest.skip("the class Rotation is compiled in this version of SciPy", allow_module_level=True)

KNOWN = Rotation.from_rotvec([0.3, -0.2, 0.5])
POINTS = np.array([[1.0, 2.0, -0.5], [0.0, 1.0, 1.0]])
SEQUENCES = ("xyz", "zxz", "ZYX", "XYX", "yxz", "ZXZ")


def by_vector(x):
    rotation = Rotation.from_rotvec(x)
    return np.concatenate([
        rotation.as_quat(), rotation.as_quat(canonical=True, scalar_first=True), rotation.as_matrix().ravel(),
        rotation.as_rotvec(), rotation.as_mrp(), rotation.apply(POINTS).ravel(), rotation.apply(x, inverse=True),
        (KNOWN * rotation * rotation.inv()).as_quat(), (rotation * KNOWN).as_rotvec(degrees=True), KNOWN.apply(x),
        (rotation**2).as_matrix()[0],
    ])  # fmt: skip


def by_quaternion(x):
    rotation = Rotation.from_quat(x)
    first = Rotation.from_quat(x, scalar_first=True)
    return np.concatenate([rotation.as_rotvec(), rotation.as_quat(), first.as_matrix()[0], [rotation.magnitude()]])


def by_matrix(x):
    matrix = x.reshape(3, 3)
    return np.concatenate(
        [Rotation.from_matrix(matrix).as_quat(canonical=True), Rotation.from_matrix(matrix).as_rotvec()]
    )


VECTOR, QUATERNION, MATRIX = map(differentiates, (by_vector, by_quaternion, by_matrix))


@settings(max_examples=3)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1e-3, 0.1, 1.0, 2.9, 4.0]))
def test_vectors(seed, size):
    x = np.random.default_rng(seed).normal(size=3)
    x *= size / np.linalg.norm(x)
    assert_agrees(by_vector, [x], [1e-3 * x], [1e-9 * x], [0.0 * x], rtol=1e-10)
    VECTOR(x, tolerance=1e-6)


@settings(max_examples=3)
@given(seed=st.integers(0, 10_000))
def test_quaternions(seed):
    x = np.random.default_rng(seed).normal(size=4)
    assert_agrees(by_quaternion, [x], [-x], [np.array([0.0, 0.0, 0.0, 2.0])], [np.array([-1.0, 0.0, 0.0, 0.0])])
    QUATERNION(x)


@settings(max_examples=5)
@given(seed=st.integers(0, 10_000))
def test_matrices(seed):
    generator = np.random.default_rng(seed)
    exact = Rotation.from_rotvec(generator.normal(size=3)).as_matrix()
    x = (exact + 0.1 * generator.normal(size=(3, 3))).ravel()
    assert_agrees(by_matrix, [x], [exact.ravel()], rtol=1e-10)
    MATRIX(x)
    MATRIX(exact.ravel())


@pytest.mark.parametrize("axis", range(4))
def test_matrices_by_whichever_entry_of_the_quaternion_is_greatest(axis):
    quaternion = np.full(4, 0.2)
    quaternion[axis] = 0.9
    x = Rotation.from_quat(quaternion).as_matrix().ravel()
    assert_agrees(by_matrix, [x], [np.diag([1.0, -1.0, -1.0]).ravel()], example=[np.eye(3).ravel()])
    MATRIX(x)
    assert_agrees(lambda x: Rotation.from_matrix(x.reshape(3, 3), assume_valid=True).as_quat(), [x])


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_angles(sequence):
    def f(x):
        rotation = Rotation.from_euler(sequence, x)
        return np.concatenate([rotation.as_quat(), rotation.as_euler(sequence), rotation.as_euler("xyz", degrees=True)])

    x = np.array([0.4, 1.1, -2.0])
    assert_agrees(f, [x], [x[::-1]], [np.array([3.0, -0.4, 0.1])], rtol=1e-10)
    differentiates(f)(x)
    locked = np.array([0.4, 0.0 if sequence[0] == sequence[2] else np.pi / 2.0, 0.3])
    tape = record(lambda x: Rotation.from_euler(sequence, x).as_euler(sequence), [x]).tape
    with pytest.warns(UserWarning, match="Gimbal lock"):
        expected = Rotation.from_euler(sequence, locked).as_euler(sequence)
    np.testing.assert_allclose(evaluate(tape, list(locked)), expected, atol=1e-7)


def test_arrays_of_rotations():
    def f(x):
        rotations = Rotation.from_rotvec(x)
        assert rotations.shape == (2,)
        assert len(rotations) == 2
        assert not rotations.single
        assert isinstance(rotations, Rotation)
        both = Rotation.concatenate([rotations, KNOWN])
        results = (rotations.magnitude(), rotations.apply([1.0, 2.0, 3.0]), rotations[1].as_quat(), both.as_matrix())
        return *results, (rotations * KNOWN).as_rotvec(), Rotation.from_euler("zy", x[:, :2]).as_quat()

    assert_agrees(f, [np.array([[0.1, 0.2, 0.3], [1.0, -2.0, 0.5]])], rtol=1e-10)


def test_derivatives_at_the_rotation_by_nothing():
    zero = np.zeros(3)
    options = {"optimise": False}
    by_entry = acc.jacobian(lambda x: Rotation.from_rotvec(x).as_matrix(), **options)(zero)
    generators = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        generators[k, j, i], generators[j, k, i] = 1.0, -1.0
    np.testing.assert_allclose(by_entry, generators, atol=1e-15)
    for f in (
        lambda x: Rotation.from_rotvec(x).as_rotvec(),
        lambda x: (Rotation.from_rotvec(x) * KNOWN * KNOWN.inv()).as_rotvec(),
        lambda x: 2.0 * Rotation.from_rotvec(x).as_quat()[:3],
        lambda x: 4.0 * Rotation.from_rotvec(x).as_mrp(),
        lambda x: Rotation.from_matrix(Rotation.from_rotvec(x).as_matrix()).as_rotvec(),
    ):
        np.testing.assert_allclose(acc.jacobian(f, **options)(zero), np.eye(3), atol=1e-14)


@pytest.mark.parametrize("angle", [1e-12, 1e-7, 0.99e-3, 1.01e-3, 0.1, 3.0])
def test_small_angles_against_fifty_digits(angle):
    mpmath = pytest.importorskip("mpmath")
    x = angle * np.array([2.0, -1.0, 2.0]) / 3.0

    with mpmath.workdps(50):

        def quaternion(*entries):
            length = mpmath.sqrt(mpmath.fsum(e**2 for e in entries))
            return [e * mpmath.sin(length / 2) / length for e in entries] + [mpmath.cos(length / 2)]

        point = tuple(map(mpmath.mpf, x.tolist()))
        step = mpmath.mpf(10) ** -25
        expected = np.empty((4, 3))
        for k in range(3):
            moved = [[e + s * step * (i == k) for i, e in enumerate(point)] for s in (1, -1)]
            above, below = (quaternion(*each) for each in moved)
            expected[:, k] = [float((a - b) / (2 * step)) for a, b in zip(above, below, strict=True)]
        value = [float(entry) for entry in quaternion(*point)]
    actual, by_entry = acc.value_and_jacobian(lambda x: Rotation.from_rotvec(x).as_quat(), optimise=False)(x)
    np.testing.assert_allclose(actual, value, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(by_entry, expected, rtol=2e-12, atol=1e-15)
    back = acc.jacobian(lambda x: Rotation.from_rotvec(x).as_rotvec(), optimise=False)(x)
    np.testing.assert_allclose(back, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5]])
def test_means(weights):
    def mean(x):
        return Rotation.from_rotvec(x).mean(weights).as_matrix()

    x = np.array([[0.3, -0.5, 0.2], [0.1, 0.7, 0.4], [-0.2, 0.3, 0.9]])
    np.testing.assert_allclose(acc.compile(mean)(x), mean(x), atol=1e-14)
    np.testing.assert_allclose(acc.jacobian(mean)(x), differences(mean, x), atol=1e-9)
    between = acc.compile(lambda x: Rotation.from_rotvec(np.stack([x, -x / 3.0])).mean().as_rotvec())
    np.testing.assert_allclose(between(x[0]), x[0] / 3.0, atol=1e-14)  # halfway on the arc


def test_refusals_give_a_reason():
    with pytest.raises(TraceError, match=r"Rotation\.reduce .* not recorded"):
        record(lambda x: Rotation.from_rotvec(x).reduce(), [np.ones((2, 3))])
    for f in (
        lambda x: Rotation.from_rotvec(x).as_quat(),
        lambda x: Rotation.from_quat(x).as_quat(),
        lambda x: Rotation.from_matrix(x[None]).as_quat(),
        lambda x: KNOWN.apply(x),  # noqa: PLW0108  # found while it is recorded
    ):
        with pytest.raises(ValueError, match="shape"):
            record(f, [np.ones(2)])
    with pytest.raises(ValueError, match="axes to be different"):
        record(lambda x: Rotation.from_euler("xx", x).as_quat(), [np.ones(2)])
