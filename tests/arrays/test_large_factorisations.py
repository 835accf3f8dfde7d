"""Factorisations of large matrices as equations of a program: in every target, against JAX's and differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from inside import evaluate, evaluate_with_bounds, record

import accumulus as acc
from accumulus.errors import ArgumentError, OpaqueError, TraceError

M, N = 31, 24
RNG = np.random.default_rng(2)
SQUARE, TURNED, WEIGHTS = RNG.normal(size=(3, N, N))
TALL, LONG, BESIDE = RNG.normal(size=(3, M, N))
SIDE, SHORT = RNG.normal(size=M), RNG.normal(size=N)
FALLING = np.cos(np.arange(N))
X = np.array([0.3, 0.7])
QUICK = {"effort": "fast", "cache": False}


def square(x):
    return SQUARE + x[0] * TURNED * (1.0 + x[1] ** 2 * SQUARE)


def symmetric(x):
    return square(x) + square(x).T


def tall(x):
    return TALL + x[0] * LONG * (1.0 + x[1] ** 2 * TALL)


def functions(linalg, expm):
    """By name, functions of two numbers by NumPy's or JAX's modules, the same whatever signs vectors have."""

    def composed(components):
        u, _, v = components
        return (u * FALLING) @ v

    def projected(vectors):
        return (vectors * FALLING) @ vectors.T

    return {
        "det": lambda x: linalg.det(square(x) / 5.0),
        "eigvalsh": lambda x: linalg.eigvalsh(symmetric(x)) @ FALLING,
        "eigh": lambda x: (projected(linalg.eigh(symmetric(x))[1]) * WEIGHTS).sum(),
        "qr": lambda x: (linalg.qr(tall(x))[0] * BESIDE).sum() + linalg.qr(tall(x))[1][2:5].sum(),
        "wide qr": lambda x: (linalg.qr(tall(x).T)[1] * BESIDE.T).sum(),
        "lstsq": lambda x: linalg.lstsq(tall(x), SIDE * x[1])[0] @ FALLING,
        "wide lstsq": lambda x: linalg.lstsq(tall(x).T, SHORT * x[1])[0] @ SIDE,
        "svdvals": lambda x: linalg.svd(tall(x), compute_uv=False) @ FALLING,
        "svd": lambda x: (composed(linalg.svd(tall(x), full_matrices=False)) * BESIDE).sum(),
        "wide svd": lambda x: (composed(linalg.svd(tall(x).T, full_matrices=False)) * BESIDE.T).sum(),
        "square svd": lambda x: (composed(linalg.svd(square(x))) * WEIGHTS).sum(),
        "norm": lambda x: linalg.norm(tall(x), "nuc") + linalg.norm(tall(x), 2),
        "expm": lambda x: (expm(square(x) / 5.0) * WEIGHTS).sum(),
    }


OURS, THEIRS = functions(np.linalg, scipy.linalg.expm), functions(jnp.linalg, jax.scipy.linalg.expm)
NAMES = list(OURS)


def close(one, other, tolerance=1e-9):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1.0, np.abs(other).max()))


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives_are_those_of_jax(name):
    value, gradient = acc.value_and_gradient(OURS[name], **QUICK)(X)
    expected, slopes = map(np.asarray, jax.jit(jax.value_and_grad(THEIRS[name]))(X))
    close(value, expected)
    close(gradient, slopes)
    close(acc.jvp(OURS[name], **QUICK)((X,), (np.array([1.0, 2.0]),))[1], slopes @ [1.0, 2.0])


@pytest.mark.parametrize("name", ["det", "eigh", "qr", "wide lstsq", "svd", "square svd"])
def test_second_derivatives_are_those_of_differences(name):
    slopes, h = acc.gradient(OURS[name], **QUICK), 1e-5
    actual = acc.hessian(OURS[name], **QUICK)(X)
    expected = [(slopes(X + h * e) - slopes(X - h * e)) / (2.0 * h) for e in np.eye(2)]
    close(actual, expected, 1e-6)


@pytest.mark.parametrize("name", ["det", "eigh", "qr", "svd"])
def test_every_way_to_compute_them(name):
    program = record(OURS[name], [X], arrays=True).program
    expected = acc.gradient(OURS[name], **QUICK)(X)
    close(acc.gradient(OURS[name], target="numpy", **QUICK)(X), expected)
    close(acc.gradient(OURS[name], **QUICK).batch(np.stack([X, X]))[1], expected)
    values, bounds = evaluate_with_bounds(program, list(X[:, np.newaxis]))
    close(values[0, 0], evaluate(program, X)[0])
    assert name == "det" or bounds[0, 0] < 1e-4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["det", "eigh", "qr", "svd"])
def test_files_and_text(name, tmp_path):
    compiled = acc.gradient(OURS[name], **QUICK)
    expected = compiled(X)
    acc.save(compiled, tmp_path / "gradient.accumulus")
    close(acc.load(tmp_path / "gradient.accumulus")(X), expected)
    scope: dict = {}
    exec(compiled.compile(X).source("jax", "slopes"), scope)
    close(np.ravel(jax.tree.leaves(jax.jit(scope["slopes"])(X))[-1]), expected)


def test_factorisations_in_c_and_refusals():
    for name in ("det", "qr"):
        close(acc.gradient(OURS[name], target="c", **QUICK)(X), acc.gradient(OURS[name], **QUICK)(X))
    for name in ("eigh", "svd"):
        with pytest.raises(OpaqueError, match="C or CUDA cannot call LAPACK"):
            acc.gradient(OURS[name], target="c", **QUICK)(X)
    with pytest.raises(TraceError, match="at most 8 rows or 8 columns"):
        acc.gradient(OURS["eigh"], exact_order=True)(X)
    with pytest.raises(TraceError, match="full_matrices=False"):
        acc.gradient(lambda x: np.linalg.svd(tall(x))[0][0, 0])(X)
    with pytest.raises(ArgumentError, match="Taylor coefficients of eigenvectors"):
        acc.taylor(OURS["eigh"])((X,), (np.ones((2, 2)),))


def test_stacks_and_signs():
    def both(x):
        values, vectors = np.linalg.eigh(np.stack([symmetric(x), symmetric(2.0 * x)]), UPLO="U")
        return values, vectors * np.sign(vectors[:, -1:])

    for actual, expected in zip(acc.compile(both)(X), both(X), strict=True):
        close(actual, expected)
    signed = acc.compile(lambda x: np.linalg.eigh(symmetric(x))[1], check=False)(X)
    assert (signed[-1] >= 0.0).all()
    u, _, v = acc.compile(lambda x: np.linalg.svd(tall(x), full_matrices=False), check=False)(X)
    assert (v[:, -1] >= 0.0).all()
    close((u * np.linalg.svd(tall(X))[1]) @ v, tall(X))


def test_equal_eigenvalues_have_slopes_and_their_vectors_none():
    def values(x):
        return np.linalg.eigvalsh(np.eye(N) * x[0] + x[1] * np.diag(np.arange(N) // 2 * 1.0))

    jacobian = acc.jacobian(values)(X)
    close(jacobian, np.stack([np.ones(N), np.arange(N) // 2], axis=1))
    slopes = acc.gradient(lambda x: np.sum(np.linalg.eigh(np.eye(N) * x[0] + 0.0 * symmetric(x))[1][0]))(X)
    assert not np.isfinite(slopes).all()


def test_singular_and_dependent_matrices():
    shifts = np.diag(np.arange(N) * 1.0)
    value = acc.compile(lambda x: np.linalg.det(shifts * x[0]))
    assert value(X) == 0.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        acc.gradient(lambda x: np.linalg.det(shifts * x[0]))(X)
    dependent = np.concatenate([TALL[:, :-1], TALL[:, :1]], axis=1)
    result = acc.compile(lambda x: np.linalg.lstsq(dependent * x[0], SIDE)[0], check=False)(X)
    assert np.isnan(result).all()
    slopes = acc.gradient(lambda x: np.linalg.norm(dependent * x[0], "nuc"))(X)
    close(slopes, [np.linalg.norm(dependent, "nuc"), 0.0])
