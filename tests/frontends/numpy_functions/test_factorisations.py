"""Cholesky, QR, determinants and least squares: values of NumPy, derivatives of the functions themselves."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees
from differences import differentiates
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import evaluate

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record

SHAPES = [(1, 1), (1, 3), (3, 1), (2, 2), (3, 2), (2, 4), (4, 4), (5, 3)]


def entries(*arrays):
    return np.concatenate([np.ravel(array) for array in arrays])


CHOLESKY = differentiates(np.linalg.cholesky)
REDUCED, COMPLETE = (
    differentiates(lambda a, mode=mode: entries(*np.linalg.qr(a, mode))) for mode in ("reduced", "complete")
)
SOLUTION = differentiates(lambda x: np.linalg.lstsq(x[:, :-2], x[:, -2])[0])
RESIDUALS = differentiates(lambda x: np.linalg.lstsq(x[:, :-2], x[:, -2:])[1])
LOGARITHM = acc.jacobian(lambda a: np.linalg.slogdet(a)[1], optimise=False, effort="fast", time_limit=0.0)
PSEUDOINVERSE = differentiates(np.linalg.pinv)


def drawn(seed, *shape, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def positive(seed, n, *stack):
    root = drawn(seed, *stack, n, n)
    return root @ np.swapaxes(root, -1, -2) + 0.3 * np.eye(n)


@settings(max_examples=5)
@given(n=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_cholesky(n, seed):
    a = positive(seed, n)
    lower = np.tril(a) + np.triu(np.full((n, n), 7.0), 1)  # the other triangle is not read
    assert_agrees(lambda a: (np.linalg.cholesky(a), np.linalg.cholesky(a.T, upper=True)), [lower], rtol=1e-10)
    CHOLESKY(lower)


@settings(max_examples=5)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10_000))
def test_qr(shape, seed):
    a = drawn(seed, *shape)
    assume(np.linalg.cond(a[:, : min(shape)]) < 1e3)
    for mode, compare in (("reduced", REDUCED), ("complete", COMPLETE)):
        assert_agrees(lambda a, mode=mode: np.linalg.qr(a, mode), [a], rtol=1e-10)
        compare(a)
    assert_agrees(lambda a: np.linalg.qr(a, mode="r"), [a], rtol=1e-10)


def test_qr_of_a_triangular_matrix_is_not_reflected():
    a = np.triu(np.arange(1.0, 10.0).reshape(3, 3))
    assert_agrees(np.linalg.qr, [a], [-a])
    # the derivatives are those of matrices beside it, with these signs
    q, r = np.linalg.qr(a)
    change = drawn(1, 3, 3)
    jq, jr = acc.jacobian(lambda a: tuple(np.linalg.qr(a)))(a)
    dq, dr = (np.tensordot(j, change, 2) for j in (jq, jr))
    np.testing.assert_allclose(dq @ r + q @ dr, change, atol=1e-14)
    np.testing.assert_allclose(dq.T @ q + q.T @ dq, np.zeros((3, 3)), atol=1e-14)
    assert np.all(np.tril(dr, -1) == 0.0)


@settings(max_examples=5)
@given(n=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_slogdet(n, seed):
    a = drawn(seed, n, n)
    assume(np.linalg.cond(a) < 1e4)
    assert_agrees(np.linalg.slogdet, [a], [1e200 * a], rtol=1e-9)
    np.testing.assert_allclose(LOGARITHM(a), np.linalg.inv(a).T, rtol=1e-8, atol=1e-9)


def test_slogdet_of_singular_matrices():
    tape = record(np.linalg.slogdet, [np.eye(4)]).tape
    assert evaluate(tape, list(np.zeros(16))) == [0.0, -np.inf]


@settings(max_examples=5)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10_000))
def test_least_squares(shape, seed):
    m, n = shape
    a, b = drawn(seed, m, n), drawn(seed + 1, m, 2)
    assume(np.linalg.cond(a) < 1e3)
    assert_agrees(np.linalg.lstsq, [a, b], rtol=1e-9, example=[a, b])
    SOLUTION(np.column_stack([a, b]))
    if m > n:
        RESIDUALS(np.column_stack([a, b]))


def test_least_squares_of_many_columns_have_singular_values_where_lapack_may_be_called():
    a, b = drawn(1, 14, 10), drawn(2, 14)
    derivative = acc.jacobian(lambda a, b: np.linalg.lstsq(a, b)[0], argnums=1)
    np.testing.assert_allclose(derivative(a, b), np.linalg.pinv(a), atol=1e-12)
    values = acc.compile(lambda a: np.linalg.lstsq(a, b)[3])(a)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    with pytest.raises(TraceError, match=r"nan for f\(…\)\[0\]|NaN|nan"):
        acc.jacobian(lambda a: np.linalg.lstsq(a, b)[3], exact_order=True)(a)


def test_least_squares_of_dependent_columns_are_nan():
    a = np.ones((4, 2))
    tape = record(lambda a: np.linalg.lstsq(a, np.arange(4.0))[0], [drawn(0, 4, 2)]).tape
    assert np.isnan(evaluate(tape, list(a.ravel()))).all()


@settings(max_examples=5)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10_000))
def test_pseudoinverse(shape, seed):
    a = drawn(seed, *shape)
    assume(np.linalg.cond(a) < 1e3)
    assert_agrees(np.linalg.pinv, [a], rtol=1e-9, example=[a])
    PSEUDOINVERSE(a)


def test_pseudoinverse_of_matrices_of_lower_rank():
    def f(x):
        return np.linalg.pinv(np.outer(x[:3], x[3:6]) + np.outer(np.sin(x[:3]), x[2:5]), rcond=1e-10)

    x = np.array([0.3, -0.7, 1.1, 0.9, 0.4, -0.2])
    assert_agrees(f, [x], rtol=1e-9, example=[x])
    differentiates(f)(x)
    differentiates(lambda x: np.linalg.pinv(np.diag([x[0], 0.0, x[1]]), hermitian=True))(x[:2])


def test_stacks_of_factorisations():
    a = positive(3, 3, 2, 2)
    assert_agrees(np.linalg.cholesky, [a], rtol=1e-10)
    assert_agrees(np.linalg.slogdet, [a], rtol=1e-10)
    assert_agrees(lambda a: tuple(np.linalg.qr(a)), [a[0]], rtol=1e-10)
    assert_agrees(np.linalg.pinv, [a[..., :2]], rtol=1e-9)
    points = positive(5, 3, 20)
    derivative = acc.jacobian(lambda a: np.linalg.cholesky(a) + np.linalg.qr(a)[1])
    np.testing.assert_allclose(derivative.batch(points)[7], derivative(points[7]), rtol=1e-9, atol=1e-12)


def test_tensor_equations():
    a = drawn(2, 2, 3, 6)
    assert_agrees(lambda a: np.linalg.tensorinv(a, ind=2), [a], rtol=1e-10, example=[a])
    assert_agrees(lambda a: np.linalg.tensorsolve(a, np.arange(6.0).reshape(2, 3)), [a], rtol=1e-10, example=[a])


def test_targets():
    a = drawn(4, 4, 3)
    f = lambda a: np.linalg.pinv(a) @ np.linalg.qr(a)[0]  # noqa: E731
    by_default = acc.jacobian(f)(a)
    np.testing.assert_allclose(acc.jacobian(f, target="numpy")(a), by_default, rtol=1e-10, atol=1e-12)


def test_refusals_give_a_reason():
    with pytest.raises(TraceError, match="'reduced', 'complete' and 'r'"):
        record(lambda a: np.linalg.qr(a, mode="raw"), [np.eye(2)])
    with pytest.raises(np.linalg.LinAlgError, match="equal length"):
        record(np.linalg.cholesky, [np.ones((2, 3))])
    with pytest.raises(np.linalg.LinAlgError, match="at least two axes"):
        record(np.linalg.cholesky, [np.ones(3)])
