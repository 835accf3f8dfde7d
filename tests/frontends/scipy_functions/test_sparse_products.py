"""Products of SciPy's sparse matrices and traced arrays, against the same products of dense ones."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse
from looped import PLAIN, unrolled

import accumulus as acc
from accumulus.errors import TraceError

FORMATS = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")
GENERATOR = np.random.default_rng(3)
VECTOR = GENERATOR.normal(size=9)
SIDES = GENERATOR.normal(size=(9, 3))
LEFT = GENERATOR.normal(size=12)
#: Functions of a vector u and a matrix K, of shape (12, 9).
FUNCTIONS = {
    "vector": lambda u, K: K @ u + u[:1] ** 2,
    "scaled": lambda u, K: K @ SIDES * u[:3],
    "matrix": lambda u, K: K @ np.outer(u, np.sin(u))[:, :2],
    "left": lambda u, K: (u @ K.T, u[np.newaxis] @ K.T),
    "twice": lambda u, K: K.T @ (K @ u),
    "constant on the left": lambda u, K: (LEFT @ K) * u,
    "row": lambda u, K: K[[0]] @ u,
    "column": lambda u, K: K @ u[:, np.newaxis],
    "truths": lambda u, K: K @ (u > 0.0) * u[0],
}


def both(form, kind):
    make = scipy.sparse.random_array if kind == "array" else scipy.sparse.random
    shape = ((12, 9),) if kind == "array" else (12, 9)
    sparse = make(*shape, density=0.25, rng=np.random.default_rng(1)).asformat(form)
    return sparse, sparse.toarray()


@cache
def of_the_dense_matrix(name, kind):
    """Value and Jacobian of one of the functions, of the dense matrix, which is the same in all formats."""
    function, (_, dense) = FUNCTIONS[name], both("csr", kind)
    return acc.value_and_jacobian(lambda u: function(u, dense), **PLAIN)(VECTOR)


@pytest.mark.sampled(2, each="form kind")
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_products_are_those_of_dense_matrices(form, kind):
    sparse, _ = both(form, kind)
    for name, function in FUNCTIONS.items():
        if name == "row" and form in ("coo", "dia", "bsr"):  # which SciPy does not index
            continue
        with unrolled(0):
            actual = acc.value_and_jacobian(lambda u, function=function: function(u, sparse))(VECTOR)
        written = acc.value_and_jacobian(lambda u, function=function: function(u, sparse), effort="fast")(VECTOR)
        expected = of_the_dense_matrix(name, kind)
        for one, other, right in zip(*map(flat, (actual, written, expected)), strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-13, atol=1e-14, err_msg=name)
            np.testing.assert_allclose(other, right, rtol=1e-13, atol=1e-14, err_msg=name)


def flat(results):
    return [array for result in results for array in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("form", FORMATS)
def test_a_star_is_a_product_of_matrices_for_sparse_matrices(form):
    sparse, dense = both(form, "matrix")
    np.testing.assert_allclose(acc.jacobian(lambda u: sparse * u)(VECTOR), dense, rtol=1e-14)
    np.testing.assert_allclose(acc.jacobian(lambda u: u * sparse.T)(VECTOR), dense, rtol=1e-14)


def test_products_cost_one_operation_per_stored_entry():
    n = 30_000
    laplace = scipy.sparse.diags_array([np.ones(n - 1), np.full(n, -2.0), np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    jacobian = acc.jacobian(lambda u: laplace @ u + u**2, sparse="csr")
    u = np.linspace(0.0, 1.0, n)
    expected = laplace + scipy.sparse.diags_array(2.0 * u)
    assert abs(jacobian(u) - expected).max() < 1e-14
    assert jacobian.operations < 8 * n
    pushed = acc.jvp(lambda u: laplace @ u + u**2)((u,), (u + 1.0,))[-1]
    np.testing.assert_allclose(pushed, expected @ (u + 1.0), rtol=1e-12, atol=1e-14)


def test_a_matrix_that_changes_is_seen():
    for form in FORMATS:
        sparse, dense = both(form, "array")
        jacobian = acc.jacobian(lambda u, sparse=sparse: sparse @ u)
        np.testing.assert_allclose(jacobian(VECTOR), dense)
        if form == "dok":
            sparse[0, 0] = 7.0
        else:
            sparse.data[0] = [7.0] * len(sparse.data[0]) if form == "lil" else 7.0
        np.testing.assert_allclose(jacobian(VECTOR), sparse.toarray(), err_msg=form)


@pytest.mark.parametrize(
    "function",
    [lambda u, K: K.multiply(u), lambda u, K: K / u[0], lambda u, K: np.dot(K, u)],
)
def test_unsupported_operations_raise(function):
    sparse, _ = both("csr", "array")
    with pytest.raises(TraceError, match=r"M @ x|toarray|real ones"):
        acc.jacobian(lambda u: function(u, sparse))(VECTOR)


def test_shapes_that_do_not_fit_raise_as_in_scipy():
    sparse, _ = both("csr", "array")
    with pytest.raises(ValueError, match=r"\(12, 9\).*\(4,\)"):
        acc.jacobian(lambda u: sparse @ u[:4])(VECTOR)


def test_sums_between_positions_are_one_block():
    x = np.linspace(-1.0, 2.0, 5_000)
    positions = np.sort(np.random.default_rng(0).choice(5_000, 700, replace=False))
    jagged = np.array([3, 9, 9, 2, 4_000])
    jacobian = acc.jacobian(lambda x: np.add.reduceat(x * x, positions), sparse="csr")
    np.testing.assert_allclose(jacobian(x).sum(axis=0), 2.0 * x * (np.arange(5_000) >= positions[0]), atol=1e-15)
    function = acc.compile(lambda x: (np.add.reduceat(x * x, jagged), np.add.reduceat(x.reshape(50, 100), [3, 60], 1)))
    for one, other in zip(function(x), function.__wrapped__(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_a_star_is_left_to_operands_that_ask_for_it():
    class Asking:
        __array_ufunc__ = None

        def __rmul__(self, other):
            return other + 1.0

    np.testing.assert_array_equal(acc.compile(lambda u: u * Asking())(VECTOR), VECTOR + 1.0)
