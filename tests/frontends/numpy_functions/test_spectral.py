"""Eigenvalues of symmetric matrices, singular values, and their vectors, on matrices of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from differences import differentiates
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import evaluate

import accumulus as acc
from accumulus.errors import MismatchError, TraceError
from accumulus.frontends import record


def rotations(generator, count, n):
    return np.linalg.qr(generator.normal(size=(count, n, n)))[0]


def kinds(generator, n, count=40):
    """Symmetric matrices that are hard for some algorithm or other."""
    square = generator.normal(size=(count, n, n))
    turned = rotations(generator, count, n)

    def with_values(values):
        return (turned * values[:, None]) @ np.swapaxes(turned, 1, 2)

    scales = 10.0 ** generator.uniform(-4, 4, (count, n))
    gram = square @ np.swapaxes(square, 1, 2)
    yield "random", square + np.swapaxes(square, 1, 2)
    yield "of many magnitudes", with_values(10.0 ** generator.uniform(-8, 8, (count, n)))
    yield "close to each other", with_values(1.0 + 1e-9 * generator.normal(size=(count, n)))
    yield (
        "in two clusters",
        with_values(generator.integers(0, 2, (count, n)) + 1e-9 * generator.normal(size=(count, n))),
    )
    yield "equal", with_values(generator.integers(1, 3, (count, n)).astype(float))
    yield "graded", gram * scales[:, :, None] * scales[:, None]
    yield "graded in order", gram * 10.0 ** np.linspace(-6, 6, n)[:, None] * 10.0 ** np.linspace(-6, 6, n)
    yield "diagonal", np.eye(n) * generator.normal(size=(count, 1, n))
    yield "all the same", np.full((1, n, n), 2.0)
    yield "nothing", np.zeros((1, n, n))
    yield "large", 1e100 * (square + np.swapaxes(square, 1, 2))
    yield "small", 1e-100 * (square + np.swapaxes(square, 1, 2))


def evaluated(tape, matrices):
    """Outputs of a tape at many matrices, one row a matrix."""
    results = evaluate(tape, list(matrices.reshape(len(matrices), -1).T))
    return np.stack([np.broadcast_to(x, len(matrices)) for x in results], axis=-1)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8])
def test_eigenvalues_and_vectors_of_matrices_of_all_kinds(n):
    tape = record(lambda a: tuple(np.linalg.eigh(a)), [np.eye(n)]).tape
    for kind, matrices in kinds(np.random.default_rng(n), n):
        results = evaluated(tape, matrices)
        values, vectors = results[:, :n], results[:, n:].reshape(-1, n, n)
        expected = np.linalg.eigvalsh(matrices)
        scale = np.abs(expected).max(axis=-1)[:, None] + 1e-300
        assert np.all(np.diff(values) >= 0.0), kind
        np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=4e-15, err_msg=kind)
        residuals = matrices @ vectors - vectors * values[:, None]
        np.testing.assert_allclose(residuals / scale[:, :, None], 0.0, rtol=0, atol=4e-15, err_msg=kind)
        orthogonal = np.broadcast_to(np.eye(n), vectors.shape)
        np.testing.assert_allclose(np.swapaxes(vectors, 1, 2) @ vectors, orthogonal, rtol=0, atol=1e-14, err_msg=kind)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (5, 3), (4, 4), (3, 8), (6, 6), (8, 8)])
def test_singular_values_and_vectors_of_matrices_of_all_kinds(m, n):
    tape = record(lambda a: tuple(np.linalg.svd(a, full_matrices=False)), [np.eye(m, n)]).tape
    k, size = min(m, n), max(m, n)
    for kind, squares in kinds(np.random.default_rng(n), size):
        matrices = squares[:, :m, :n]
        results = evaluated(tape, matrices)
        u, values = results[:, : m * k].reshape(-1, m, k), results[:, m * k : m * k + k]
        vh = results[:, m * k + k :].reshape(-1, k, n)
        expected = np.linalg.svd(matrices, compute_uv=False)
        scale = expected[:, :1] + 1e-300
        assert np.all(np.diff(values) <= 0.0), kind
        np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=2e-14, err_msg=kind)
        product = (u * values[:, None]) @ vh
        np.testing.assert_allclose((product - matrices) / scale[:, :, None], 0.0, rtol=0, atol=2e-14, err_msg=kind)
        long = u if m >= n else np.swapaxes(vh, 1, 2)  # of this one vectors of 0 are there, too
        identity = np.broadcast_to(np.eye(k), (len(long), k, k))
        np.testing.assert_allclose(np.swapaxes(long, 1, 2) @ long, identity, rtol=0, atol=1e-13, err_msg=kind)


def free_of_signs(a, triangle):
    """A function of a symmetric matrix, and products of entries of its vectors."""
    values, vectors = np.linalg.eigh(a, triangle)
    return np.concatenate([(vectors * np.sin(values)) @ vectors.T, (vectors[0] * vectors[-1])[None]])


def of_singular(a):
    """Return functions that depend neither on signs of singular vectors, nor on rotations of those of zeros."""
    u, s, vh = np.linalg.svd(a)
    k = len(s)
    results = (u[:, :k] * np.sin(s)) @ vh[:k], u[:, k:] @ u[:, k:].T, vh[k:].T @ vh[k:]
    return np.concatenate([array.ravel() for array in results])


def of_reduced(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return (u * np.sin(s)) @ vh


VALUES = {t: differentiates(lambda a, t=t: np.linalg.eigvalsh(a, UPLO=t)) for t in "LU"}
VECTORS = {t: differentiates(lambda a, t=t: free_of_signs(a, t)) for t in "LU"}
SINGULAR = differentiates(np.linalg.svdvals), differentiates(of_singular), differentiates(of_reduced)


@settings(max_examples=4)
@given(n=st.integers(1, 4), seed=st.integers(0, 10_000), triangle=st.sampled_from(["L", "U"]))
def test_derivatives_of_eigenvalues_and_vectors(n, seed, triangle):
    a = np.random.default_rng(seed).normal(size=(n, n))  # of which one triangle counts, as in NumPy
    assume(n == 1 or np.diff(np.linalg.eigvalsh(a, triangle)).min() > 0.2)
    VALUES[triangle](a)
    VECTORS[triangle](a)
    assert_agrees(lambda a: free_of_signs(a, triangle), [a], rtol=1e-9, example=[a])


@settings(max_examples=4)
@given(shape=st.sampled_from([(1, 3), (2, 2), (3, 2), (2, 4), (3, 3)]), seed=st.integers(0, 10_000))
def test_derivatives_of_singular_values_and_vectors(shape, seed):
    a = np.random.default_rng(seed).normal(size=shape)
    assume(np.diff(-np.linalg.svd(a, compute_uv=False), append=0.0).min() > 0.2)
    for compare in SINGULAR:
        compare(a)
    assert_agrees(lambda a: (np.linalg.svd(a, compute_uv=False), of_singular(a)), [a], rtol=1e-9, example=[a])


QUICK = {"effort": "fast", "time_limit": 0.0}


def test_derivatives_are_those_of_jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a = np.random.default_rng(3).normal(size=(4, 4))
    symmetric = a + a.T
    actual = acc.jacobian(lambda a: np.linalg.eigvalsh(a + a.T), **QUICK)(a)
    expected = jax.jit(jax.jacobian(lambda a: jax.numpy.linalg.eigvalsh(a + a.T)))(a)
    np.testing.assert_allclose(actual, expected, atol=1e-12)
    actual = acc.jacobian(lambda a: np.linalg.svd(a, compute_uv=False), **QUICK)(a)
    np.testing.assert_allclose(
        actual, jax.jit(jax.jacobian(lambda a: jax.numpy.linalg.svd(a, compute_uv=False)))(a), atol=1e-12
    )
    # one triangle is read, so that the other has no derivatives; JAX gives half to each
    actual = acc.jacobian(np.linalg.eigvalsh, **QUICK)(symmetric)
    expected = np.asarray(jax.jit(jax.jacobian(jax.numpy.linalg.eigvalsh))(symmetric))
    np.testing.assert_allclose(actual, np.tril(expected) + np.tril(np.swapaxes(expected, 1, 2), -1), atol=1e-12)
    # of equal eigenvalues their sum has a derivative
    actual = acc.jacobian(lambda a: np.sum(np.linalg.eigvalsh(a)[:2]))(np.diag([1.0, 1.0, 4.0]))
    np.testing.assert_allclose(actual, np.diag([1.0, 1.0, 0.0]), atol=1e-15)


def test_vectors_of_close_eigenvalues():
    gap = 1e-7
    a = np.diag([1.0, 1.0 + gap, 3.0])
    derivative = acc.jacobian(lambda a: np.linalg.eigh(a)[1] ** 2)(a + np.array([[0, 0, 0], [gap, 0, 0], [0, 0, 0]]))
    assert np.all(np.isfinite(derivative))
    assert 0.1 / gap < np.abs(derivative).max() < 10.0 / gap
    assert not np.all(np.isfinite(acc.jacobian(lambda a: np.linalg.eigh(a)[1] ** 2, check=False)(np.eye(3))))


def test_zero_singular_values_have_derivative_zero():
    tape_derivative = acc.jacobian(np.linalg.svdvals)
    np.testing.assert_allclose(tape_derivative(np.diag([2.0, 0.0]))[0], [[1.0, 0.0], [0.0, 0.0]])
    assert np.all(tape_derivative(np.diag([2.0, 0.0]))[1] == 0.0)
    assert np.all(tape_derivative(np.zeros((2, 2))) == 0.0)


def test_norms_and_ranks_by_singular_values():
    a = np.random.default_rng(5).normal(size=(2, 3, 4))
    for order in (2, -2, "nuc"):
        assert_agrees(lambda a, order=order: np.linalg.norm(a, order, axis=(1, 2)), [a], rtol=1e-9)
        assert_agrees(lambda a, order=order: np.linalg.norm(a, order, axis=(0, 2), keepdims=True), [a], rtol=1e-9)
        assert_agrees(lambda a, order=order: np.linalg.matrix_norm(a, ord=order), [a], rtol=1e-9)
    for order in (None, 2, -2, 1, np.inf, "fro"):
        assert_agrees(lambda a, order=order: np.linalg.cond(a[:, :, :3], order), [a], rtol=1e-9, example=[a])
    differentiates(lambda a: np.linalg.norm(a, 2) + np.linalg.norm(a, "nuc") + np.linalg.cond(a))(a[0])
    dependent = np.ones((3, 3)) + np.diag([1.0, 0.0, 0.0])
    tape = record(np.linalg.matrix_rank, [np.eye(3)]).tape
    assert [evaluate(tape, list(x.ravel())) for x in (dependent, np.zeros((3, 3)), np.eye(3))] == [[2.0], [0.0], [3.0]]
    assert_agrees(lambda a: np.linalg.matrix_rank(a @ a.T, hermitian=True) * a[0, 0], [a[0]], rtol=1e-9)


def test_structural_zeros_cost_nothing():
    full = record(np.linalg.eigvalsh, [np.eye(4)]).tape.operations
    blocks = record(lambda a: np.linalg.eigvalsh(np.diag(np.diag(a))), [np.eye(4)]).tape.operations
    assert blocks < full / 4


def test_signs_of_vectors_that_are_not_those_of_lapack_are_noticed():
    generator = np.random.default_rng(7)
    drawn = (generator.normal(size=(3, 3)) for _ in range(50))
    negative = next(a for a in drawn if np.any(np.linalg.eigh(a)[1][-1] < -0.3))
    with pytest.raises(MismatchError, match="the sign of an eigenvector"):
        acc.jacobian(lambda a: np.linalg.eigh(a)[1])(negative)

    def with_signs(a):
        vectors = np.linalg.eigh(a)[1]
        return vectors * np.sign(vectors[-1])

    differentiates(with_signs)(negative)


def test_large_matrices_are_refused():
    for f in (np.linalg.eigh, np.linalg.eigvalsh, np.linalg.svd, np.linalg.pinv, lambda a: np.linalg.norm(a, 2)):
        with pytest.raises(TraceError, match="at most 8 rows or 8 columns"):
            record(f, [np.eye(9)])
    assert record(np.linalg.svdvals, [np.ones((40, 2))]).tape.operations < 3_000
    with pytest.raises(TraceError, match="complex"):
        record(np.linalg.eigvals, [np.eye(2)])


def test_batches_and_targets():
    points = np.random.default_rng(6).normal(size=(50, 3, 3))
    derivative = acc.jacobian(lambda a: np.linalg.eigvalsh(a @ a.T))
    expected = np.stack([derivative(point) for point in points])
    np.testing.assert_allclose(derivative.batch(points), expected, atol=1e-12)
    other = acc.jacobian(lambda a: np.linalg.eigvalsh(a @ a.T), target="numpy")
    np.testing.assert_allclose(other.batch(points), expected, atol=1e-11)
