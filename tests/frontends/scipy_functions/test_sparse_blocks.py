"""Products with large constant sparse matrices, which are blocks of the program, against JAX on dense ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse
from looped import unrolled

import accumulus as acc
from accumulus.tape.blocks import SPARSE_PRODUCT

jax = pytest.importorskip("jax", reason="the reference is JAX, which is not installed")
jnp = jax.numpy
GENERATOR = np.random.default_rng(5)
N = 40
U, V, W = GENERATOR.normal(size=(3, N))


def drawn(seed, shape=(N, N)):
    """A matrix with empty rows and columns, entries out of order, places that come twice, and stored zeros."""
    generator = np.random.default_rng(seed)
    rows, columns = generator.integers(1, shape[0] - 1, 130), generator.integers(2, shape[1], 130)
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(shape[0] + 1))
    entries = generator.normal(size=130)
    entries[::17] = 0.0
    return scipy.sparse.csr_array((entries, columns[order], starts), shape=shape)


K, M = drawn(0), drawn(1)
B = drawn(2, (N, N + 2))
CASES = {
    "K u + u²": lambda np, K, M, B: lambda u: K @ u + u**2,
    "on the left": lambda np, K, M, B: lambda u: np.sin(u) @ K,
    "two matrices": lambda np, K, M, B: lambda u: (K @ u) * (M @ np.exp(0.1 * u)),
    "one after the other": lambda np, K, M, B: lambda u: np.sin(K @ (M @ u)) + K @ u,
    "the same again": lambda np, K, M, B: lambda u: K @ (K @ (K @ u)) * 0.1,
    "with ends": lambda np, K, M, B: lambda u: B @ np.concatenate([np.ones(1), u, u[:1]]),
    "columns": lambda np, K, M, B: lambda u: (K @ np.stack([u, u**2, np.cos(u)], axis=1))[:, ::2],
    "rows": lambda np, K, M, B: lambda u: np.stack([u, u**2]) @ M,
    "many columns": lambda np, K, M, B: lambda u: K @ np.outer(u, W[:19]) + np.outer(M @ u, V[:19]),
    "some rows": lambda np, K, M, B: lambda u: (K @ u)[3:7] ** 2,
    "a choice": lambda np, K, M, B: lambda u: np.where(u > 0.0, K @ u, M @ u),
    "backwards": lambda np, K, M, B: lambda u: K @ u[::-1] + (M @ u)[::-1],
    "chosen twice": lambda np, K, M, B: lambda u: K @ u[np.arange(N) // 2],
    "a dense one": lambda np, K, M, B: lambda u: np.outer(np.cos(W), W) @ (K @ (np.outer(V, W) @ u)),
}
ENERGIES = {
    "quadratic": lambda np, K, M, B: lambda u: u @ (K @ u) + np.sum(u**3),
    "of a row": lambda np, K, M, B: lambda u: np.sum(np.sin(K @ u) * (M @ u)) + (u @ K)[5] ** 2,
}


@functools.cache
def expected(name):
    """Value, Jacobian, and first and second derivatives along V, at U."""
    dense = [jnp.asarray(each.toarray()) for each in (K, M, B)]
    function = (CASES | ENERGIES)[name](jnp, *dense)

    def along(u):
        return jax.jvp(function, (u,), (jnp.asarray(V),))[1]

    def every(u):
        return function(u), jax.jacobian(function)(u), *jax.jvp(along, (u,), (jnp.asarray(V),)), jax.jacobian(along)(u)

    return jax.jit(every)(jnp.asarray(U))


def close(actual, expected, name):
    actual = actual.toarray() if scipy.sparse.issparse(actual) else actual
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.fixture(autouse=True)
def in_blocks():
    with unrolled(0), jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@pytest.mark.parametrize("target", ["llvm", "c", "numpy"])
def test_first_derivatives(target):
    options = {"target": target, "cache": False, "effort": "fast"}
    for name in CASES if target == "llvm" else ("K u + u²", "with ends", "columns", "rows", "many columns"):
        function = CASES[name](np, K, M, B)
        value, jacobian, along, *_ = expected(name)
        weights = np.cos(np.arange(value.size)).reshape(value.shape)
        pushed = acc.jvp(function, **options)
        for one, other in zip(pushed((U,), (V,)), (value, along), strict=True):
            close(one, other, name)
        close(pushed.batch((np.stack([W, U]),), (np.stack([V, V]),))[1][1], along, name)
        close(acc.vjp(function, **options)((U,), weights)[1][0], np.tensordot(weights, jacobian, value.ndim), name)
        if value.ndim == 1:
            close(acc.jacobian(function, sparse="csr", **options)(U), jacobian, name)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_second_derivatives(target):
    options = {"target": target, "cache": False}
    for name, case in ENERGIES.items():
        function = case(np, K, M, B)
        _, gradient, _, _, product = expected(name)
        close(acc.gradient(function, **options)(U), gradient, name)
        close(acc.hvp(function, **options)((U,), (V,))[0], product, name)
        close(acc.hessian(function, sparse="csr", **options)(U) @ V, product, name)
        close(acc.jvp(acc.gradient(function), **options)((U,), (V,))[1], product, name)


def test_taylor_coefficients():
    for name, case in CASES.items():
        value, _, first, second, _ = expected(name)
        actual = acc.taylor(case(np, K, M, B))((U,), (np.stack([V, 0.0 * V]),))
        for one, other in zip((actual[0], *actual[1]), (value, first, 0.5 * second), strict=True):
            close(one, other, name)


def test_source_of_jax():
    for name in ("K u + u²", "columns"):
        scope = {}
        exec(acc.jvp(CASES[name](np, K, M, B)).compile((U,), (V,)).source("jax"), scope)
        for one, other in zip(jax.jit(scope["f"])(U, V), expected(name)[::2], strict=False):
            close(np.reshape(one, np.shape(other)), other, name)


def test_values_are_those_of_scipy_to_the_last_bit():
    for matrix in (K, K.tocsc(), K.todok(), scipy.sparse.csr_array(K.astype(np.float32)), K.astype(bool)):
        function = acc.compile(lambda u, matrix=matrix: matrix @ u, cache=False)
        np.testing.assert_array_equal(function(U), matrix @ U)
    holes = K.copy()
    holes.data[[4, 40]] = np.nan, np.inf
    u = U.copy()
    u[holes.indices[17 * 3]] = np.inf  # times a stored zero
    np.testing.assert_array_equal(acc.compile(lambda u: holes @ u, cache=False)(u), holes @ u)
    result = acc.jacobian(lambda u: holes @ u, sparse="csr", cache=False)(U).toarray()
    np.testing.assert_array_equal(result, acc.jacobian(lambda u: holes @ u, cache=False)(U))
    np.testing.assert_allclose(result, holes.toarray(), rtol=1e-15)


def test_infinite_entries_stay_out_of_branches_that_are_not_taken():
    infinite = K.copy()
    infinite.data[:] = np.inf
    function = acc.gradient(lambda u: np.sum(np.where(u < 100.0, u**2, infinite @ u)), cache=False)
    np.testing.assert_allclose(function(U), 2.0 * U)


def test_blocks_are_shared_and_saved(tmp_path):
    derivative = acc.jvp(lambda u: K @ u + u**2, cache=False)
    derivative((U,), (V,))
    path = tmp_path / "product.accumulus"
    acc.save(derivative, path)
    for one, other in zip(acc.load(path)((U,), (V,)), derivative((U,), (V,)), strict=True):
        np.testing.assert_array_equal(one, other)
    recording = derivative.compile((U,), (V,)).recording
    blocks = [block for block in recording.program.blocks if block.code == SPARSE_PRODUCT]
    assert len({id(block.opaque) for block in blocks}) == 1


def test_exact_order_writes_out_products():
    function = acc.value_and_jacobian(lambda u: K @ u + u**2, exact_order=True, cache=False)
    value, jacobian = function(U)
    np.testing.assert_allclose(value, K @ U + U**2, rtol=1e-14)
    np.testing.assert_allclose(jacobian, K.toarray() + np.diag(2.0 * U), rtol=1e-14)
