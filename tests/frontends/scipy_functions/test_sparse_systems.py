"""Systems with sparse matrices and matrices with traced entries, against the same ones of dense matrices."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from looped import PLAIN
from scipy.sparse.linalg import factorized, splu

import accumulus as acc
from accumulus.errors import OpaqueError, SizeError, TraceError
from accumulus.tape.sparse_systems import SparseSystem

N = 70  # more than are written out
GENERATOR = np.random.default_rng(5)
U = GENERATOR.normal(size=N)
SIDES = GENERATOR.normal(size=(N, 2))
BESIDE = np.where(GENERATOR.random((N, N)) < 0.05, GENERATOR.normal(size=(N, N)), 0.0)
DENSE = 5.0 * np.eye(N) + np.diag(np.ones(N - 1), 1) + BESIDE
MATRIX = sp.csc_array(DENSE)
ROWS, COLUMNS = MATRIX.tocoo().coords
FACTORS, SOLVE = splu(MATRIX), factorized(MATRIX)


def traced(u):
    """The matrix with entries that depend on u, dense."""
    return DENSE * (1.0 + 0.1 * u**2)


def stored(u):
    data = MATRIX.data * (1.0 + 0.1 * u[COLUMNS] ** 2)
    return sp.csc_array((data, MATRIX.indices, MATRIX.indptr))


def by_place(u):
    return sp.csr_matrix((MATRIX.data * (1.0 + 0.1 * u[COLUMNS] ** 2), (ROWS, COLUMNS)), shape=(N, N))


def by_row(u):
    rows = MATRIX.tocsr()
    return sp.csr_array((rows.data * (1.0 + 0.1 * u[rows.indices] ** 2), rows.indices, rows.indptr), shape=(N, N))


def twice(u):
    return np.linalg.solve(DENSE, np.linalg.solve(DENSE, u))


#: By name, a function of u by sparse matrices and the same by dense ones.
FUNCTIONS = {
    "constant": (lambda u: spla.spsolve(MATRIX, u**2), lambda u: np.linalg.solve(DENSE, u**2)),
    "sides": (lambda u: spla.spsolve(MATRIX, SIDES * u[:2]), lambda u: np.linalg.solve(DENSE, SIDES * u[:2])),
    "column": (lambda u: spla.spsolve(MATRIX, u[:, np.newaxis]), lambda u: np.linalg.solve(DENSE, u)),
    "factors": (lambda u: FACTORS.solve(np.sin(u)), lambda u: np.linalg.solve(DENSE, np.sin(u))),
    "transposed": (lambda u: FACTORS.solve(u, "T") * u, lambda u: np.linalg.solve(DENSE.T, u) * u),
    "function": (lambda u: SOLVE(u * u[0]), lambda u: np.linalg.solve(DENSE, u * u[0])),
    "factorised inside": (lambda u: factorized(MATRIX)(spla.splu(MATRIX).solve(u)), twice),
    "traced": (lambda u: spla.spsolve(stored(u), np.cos(u)), lambda u: np.linalg.solve(traced(u), np.cos(u))),
    "traced rows": (lambda u: spla.spsolve(by_row(u), SIDES), lambda u: np.linalg.solve(traced(u), SIDES)),
    "traced factors": (
        lambda u: spla.splu(stored(u)).solve(u, trans="T"),
        lambda u: np.linalg.solve(traced(u).T, u),
    ),
    "diagonals": (
        lambda u: spla.spsolve((MATRIX - 0.1 * sp.diags_array([u, u[1:]], offsets=[0, 1])).tocsc(), SIDES[:, 0]),
        lambda u: np.linalg.solve(DENSE - 0.1 * (np.diag(u) + np.diag(u[1:], 1)), SIDES[:, 0]),
    ),
    "products": (
        lambda u: sp.coo_array(by_place(u)) @ u + u @ (by_place(u) * u[0]).T,
        lambda u: traced(u) @ u + u @ (traced(u) * u[0]).T,
    ),
    "products of matrices": (lambda u: (by_row(u).T / u[1]) @ SIDES, lambda u: (traced(u).T / u[1]) @ SIDES),
    "constants scaled": (
        lambda u: (MATRIX * u[0]).multiply(u) @ u + (sp.csr_matrix(MATRIX) * u[1]) @ u - (u[2] * MATRIX).sum(axis=1),
        lambda u: DENSE * u[0] * u @ u + (DENSE * u[1]) @ u - u[2] * DENSE.sum(axis=1),
    ),
    "dense again": (lambda u: (MATRIX + stored(u)).toarray() @ u, lambda u: (DENSE + traced(u)) @ u),
}


def close(one, other, tolerance=1e-11):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1.0, np.abs(other).max()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_those_of_dense_systems(name):
    sparse, dense = FUNCTIONS[name]
    value, jacobian = acc.value_and_jacobian(sparse)(U)
    expected, right = acc.value_and_jacobian(dense, **PLAIN)(U)
    close(value, expected)
    close(jacobian, right)
    along = np.cos(np.arange(N))
    close(acc.jvp(sparse)((U,), (along,))[1], right @ along)
    weights = np.sin(np.arange(value.size)).reshape(value.shape)
    close(gradient(sparse, weights), np.tensordot(weights, right, value.ndim))


def gradient(function, weights):
    return acc.gradient(lambda u: np.sum(weights * function(u)))(U)


@pytest.mark.parametrize("name", ["constant", "transposed", "traced", "traced rows", "products"])
def test_second_derivatives_and_coefficients(name):
    sparse, dense = FUNCTIONS[name]
    along = np.cos(np.arange(N))
    one, other = (acc.hvp(lambda u, f=f: np.sum(f(u) ** 2))((U,), (along,)) for f in (sparse, dense))
    close(one[-1], other[-1], 1e-10)
    series = np.stack([along, 0.5 * along, np.zeros(N)])
    one, other = (acc.taylor(f)((U,), (series,)) for f in (sparse, dense))
    close(one[-1], other[-1], 1e-10)


@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_batches(target):
    points = np.stack([U, 0.5 * U, -U])
    for name in ("constant", "traced"):
        sparse, dense = FUNCTIONS[name]
        one, other = (acc.gradient(lambda u, f=f: np.sum(f(u)), target=target).batch(points) for f in (sparse, dense))
        close(one, other)


def test_a_constant_matrix_is_factorised_once(monkeypatch):
    made, factorised = [], SparseSystem._factorised
    monkeypatch.setattr(SparseSystem, "_factorised", lambda *args: made.append(1) or factorised(*args))
    shifted = MATRIX + 0.125 * sp.eye_array(N)
    function = acc.value_and_gradient(lambda u: np.sum(spla.spsolve(shifted, np.sin(spla.spsolve(shifted, u))) ** 2))
    for scale in (1.0, 2.0, 3.0):
        function(scale * U)
    assert len(made) == 1


def test_large_systems_have_products_and_no_jacobian():
    n = 40_000
    laplace = sp.diags_array([np.ones(n - 1), np.full(n, -2.5), np.ones(n - 1)], offsets=[-1, 0, 1]).tocsc()
    u, ones = np.linspace(0.0, 1.0, n), np.ones(n)
    result = acc.gradient(lambda u: np.sum(spla.spsolve(laplace, u**2)))(u)
    close(result, 2.0 * u * spla.spsolve(laplace, ones))
    close(acc.jvp(lambda u: spla.spsolve(laplace, u**2))((u,), (ones,))[1], spla.spsolve(laplace, 2.0 * u))
    with pytest.raises(SizeError, match=r"40,000 equations.*acc\.jvp"):
        acc.jacobian(lambda u: spla.spsolve(laplace, u**2))(u)


def test_singular_matrices_are_nan_or_raise_as_in_scipy():
    broken = MATRIX.copy()
    broken.data[broken.indices == 3] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", spla.MatrixRankWarning)
        assert np.isnan(acc.compile(lambda u: spla.spsolve(broken, u))(U)).all()
        assert np.isnan(acc.gradient(lambda u: np.sum(spla.spsolve(broken, u)))(U)).all()
        function = acc.compile(lambda u: spla.spsolve(sp.diags_array(u).tocsc(), u**2))
        close(function(U), U)
        assert np.isnan(function(np.where(np.arange(N) == 7, 0.0, U))).all()
    with pytest.raises(RuntimeError, match="singular"):
        acc.compile(lambda u: spla.splu(broken).solve(u))(U)
    factors = acc.compile(lambda u: spla.splu(sp.diags_array(u).tocsc()).solve(u**2))
    factors(U)
    with pytest.raises(RuntimeError, match="singular"):
        factors(np.where(np.arange(N) == 7, 0.0, U))


def of_constant(u):
    return np.sum(spla.spsolve(MATRIX, u) ** 2)


def test_pickled_derivatives_factorise_again():
    gradient = acc.gradient(of_constant)
    close(pickle.loads(pickle.dumps(gradient))(U), gradient(U))  # before and after there is a program
    close(pickle.loads(pickle.dumps(gradient))(U), gradient(U))


def test_small_systems_are_written_out():
    small = MATRIX[:5, :5].tocsc()
    function = acc.gradient(lambda u: np.sum(spla.spsolve(small, u**2)), exact_order=True, target="c")
    close(function(U[:5]), 2.0 * U[:5] * np.linalg.solve(small.toarray().T, np.ones(5)))


def test_targets_without_scipy_raise(tmp_path):
    function = FUNCTIONS["constant"][0]
    for options in ({"exact_order": True}, {"dtype": "float32"}, {"target": "c"}):
        with pytest.raises(OpaqueError, match="spsolve"):
            acc.compile(function, **options)(U)
    compiled = acc.compile(function)
    compiled(U)
    with pytest.raises(OpaqueError, match="a file cannot call"):
        acc.save(compiled, tmp_path / "function.accumulus")


@pytest.mark.parametrize(
    "function",
    [
        lambda u: stored(u) @ stored(u),
        lambda u: stored(u)[0] @ u,
        lambda u: sp.kronsum(sp.diags_array(u), sp.eye_array(2)) @ np.ones(2 * N),
        lambda u: np.sin(stored(u)).toarray(),
        lambda u: sp.csr_array((U, u, u)) @ u,
        lambda u: spla.spsolve(MATRIX * 1j, u),
        lambda u: spla.spsolve(MATRIX, MATRIX * u[0]),
        lambda u: spla.spilu(stored(u)).solve(u),
    ],
)
def test_unsupported_operations_raise(function):
    with pytest.raises(TraceError, match=r"test_sparse_systems\.py"):
        acc.compile(function)(U)


def test_shapes_that_do_not_fit_raise_as_in_scipy():
    with pytest.raises(ValueError, match=r"70 equations.*\(4,\)"):
        acc.compile(lambda u: spla.spsolve(MATRIX, u[:4]))(U)
    with pytest.raises(ValueError, match="square"):
        acc.compile(lambda u: spla.spsolve(MATRIX[:4], u[:4]))(U)


def test_classes_are_unchanged_while_a_function_is_recorded():
    def function(u):
        matrix = stored(u)
        assert isinstance(matrix, sp.csc_array)
        assert sp.issparse(matrix)
        assert isinstance(MATRIX, sp.csc_array)
        assert not isinstance(MATRIX, sp.csr_array)
        assert matrix.shape == (N, N)
        assert matrix.nnz == MATRIX.nnz
        return matrix @ u

    close(acc.compile(function)(U), traced(U) @ U)
    assert isinstance(sp.csc_array, type)
    assert type(FACTORS).__name__ == "SuperLU"
