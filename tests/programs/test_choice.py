"""Rows, columns, entries and bands of Jacobians and Hessians, against the whole ones of JAX; and where nonzeros are."""

from __future__ import annotations

import pickle
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program
from scipy.integrate import solve_ivp
from scipy.linalg import solve_banded
from scipy.sparse import coo_array, csr_array

import accumulus as acc
from accumulus.errors import ArgumentError, FileError, UnknownNameError
from accumulus.programs import derivation
from accumulus.programs.rewritten import Rewritten

QUICK = {"effort": "fast", "time_limit": 0.0, "cache": False}


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


def swirl(x, y, np=np):
    """Three results, one of which no argument reaches, and two that are equal."""
    products = x[:, None] * np.sin(y)
    return {"a": products, "b": (x[0] / y[1], np.ones(2)), "c": np.array([x[1] * x[2], x[0] / y[1], y[0]])}


X, Y = np.array([0.7, -0.4, 1.9]), np.array([1.3, 0.6])


@cache
def _by_jax():
    return jax.jit(jax.jacobian(lambda x, y: swirl(x, y, jnp), argnums=(1, 0)))


def whole(x, y):
    """The Jacobian by both arguments, the second first, as one matrix, by JAX."""
    result = _by_jax()(x, y)
    pairs = jax.tree.leaves(result, is_leaf=lambda node: isinstance(node, tuple) and hasattr(node[0], "shape"))
    blocks = [[np.reshape(pair[0], (-1, 2)), np.reshape(pair[1], (-1, 3))] for pair in pairs]
    return np.block(blocks)


M, N = 12, 5


def choices(count):
    """Rows or columns, as users may give them."""
    return st.one_of(
        st.just(slice(None)),
        st.lists(st.integers(0, count - 1), unique=True).map(
            lambda positions: [k - count if k % 2 else k for k in positions]
        ),
        st.lists(st.booleans(), min_size=count, max_size=count).map(np.array),
        st.builds(slice, st.integers(0, count), st.integers(0, count), st.sampled_from([None, 1, 2, -1])),
    )


def taken(matrix, rows, columns):
    rows, columns = (
        slice(None) if selection is None else np.array(selection, int) if isinstance(selection, list) else selection
        for selection in (rows, columns)
    )
    return matrix[rows][:, columns]


@settings(max_examples=4)
@given(rows=choices(M), columns=choices(N), sparse=st.sampled_from([None, "csr", "csc", "coo"]))
def test_rows_and_columns(rows, columns, sparse):
    selected = acc.jacobian(swirl, argnums=(1, 0), rows=rows, columns=columns, sparse=sparse, **QUICK)
    expected = taken(whole(X, Y), rows, columns)
    actual = selected(X, Y)
    np.testing.assert_allclose(actual.toarray() if sparse else actual, expected, rtol=1e-13)
    points = selected.batch(np.stack([X, 2.0 * X]), Y, in_axes=(0, None))
    assert (points.toarray() if sparse else points).shape == (2, *expected.shape)
    np.testing.assert_allclose(
        points[1].toarray() if sparse else points[1], taken(whole(2.0 * X, Y), rows, columns), rtol=1e-13
    )


@settings(max_examples=5)
@given(
    positions=st.lists(st.tuples(st.integers(0, M - 1), st.integers(-N, N - 1))),
    target=st.sampled_from(["llvm", "numpy"]),
)
def test_entries_are_in_the_order_of_the_selection(positions, target):
    rows, columns = [i for i, _ in positions], [j for _, j in positions]
    value, actual = acc.value_and_jacobian(swirl, (1, 0), entries=(rows, columns), target=target, **QUICK)(X, Y)
    assert value["b"][1].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(actual, whole(X, Y)[np.array(rows, int), np.array(columns, int)], rtol=1e-13)


class TestEntries:
    @pytest.mark.parametrize("sparse", ["csr", "csc", "coo"])
    def test_a_sparse_matrix_has_the_selected_pattern(self, sparse):
        pattern = coo_array((np.ones(4), ([11, 0, 7, 2], [0, 4, 1, 3])), shape=(M, N))
        result = acc.jacobian(swirl, (1, 0), entries=pattern, sparse=sparse, **QUICK)(X, Y)
        assert result.nnz == 4
        assert result.format == sparse
        np.testing.assert_allclose(result.toarray(), np.where(pattern.toarray(), whole(X, Y), 0.0), rtol=1e-13)

    def test_of_a_matrix_they_are_its_data(self):
        matrix = csr_array(whole(X, Y))
        selected = acc.jacobian(swirl, (1, 0), entries=matrix, **QUICK)
        matrix.data[:] = selected(2.0 * X, Y)
        np.testing.assert_allclose(matrix.toarray(), whole(2.0 * X, Y), rtol=1e-13)

    def test_only_their_work_is_done(self):
        def layers(x):
            return np.sin(np.cos(x * np.sum(x)) @ np.arange(1.0, 37.0).reshape(6, 6))

        x = np.linspace(0.1, 0.9, 6)
        full, selected, row = (
            acc.jacobian(layers, **choice, **QUICK) for choice in ({}, {"entries": ([0], [0])}, {"rows": [2]})
        )
        matrix = full(x)
        np.testing.assert_allclose(selected(x), matrix[0, :1], rtol=1e-12)
        np.testing.assert_allclose(row(x), matrix[2:3], rtol=1e-12)
        assert 3 * selected.operations < full.operations
        assert 2 * row.operations < full.operations

    def test_of_decisions_with_one_layout(self):
        def f(x):
            return np.array([x[1] * x[int(x[0])], x[2] * x[0]])

        points = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 3.0]])
        expected = acc.jacobian(f, **QUICK).batch(points)
        for sparse in (None, "csr"):
            selected = acc.jacobian(f, rows=[0], sparse=sparse, **QUICK).batch(points)
            np.testing.assert_array_equal(selected.toarray() if sparse else selected, expected[:, :1])
            stored = acc.jacobian(f, entries=([0, 1], [2, 0]), sparse=sparse, **QUICK).batch(points)
            stored = stored.data if sparse else stored
            np.testing.assert_array_equal(stored, expected[:, [0, 1], [2, 0]])

    def test_within_functions_files_pickles_and_float32(self, tmp_path):
        selected = acc.jacobian(swirl, (1, 0), rows=[0, 11], columns=[0, 2], dtype="float32", **QUICK)
        expected = taken(whole(X, Y), [0, 11], [0, 2])
        actual = selected(X, Y)
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        acc.save(selected, tmp_path / "part")
        for other in (acc.load(tmp_path / "part"), pickle.loads(pickle.dumps(selected))):
            np.testing.assert_array_equal(other(X, Y), actual)
            assert other.batch(np.stack([X, X]), Y, in_axes=(0, None)).shape == (2, 2, 2)
        with pytest.raises(FileError, match="not saved"):
            acc.load(tmp_path / "part").sparsity(X, Y)
        inner = acc.jacobian(lambda x, y: x[0] ** 2 * np.array([y[0], x[1]]), entries=([0, 1], [0, 1]), **QUICK)
        outer = acc.jacobian(inner, argnums=0, **QUICK)(X, Y)
        np.testing.assert_allclose(outer, [[2.0 * Y[0], 0.0, 0.0], [2.0 * X[0], 0.0, 0.0]], rtol=1e-13)


def chain(x, np=np):
    return np.sum(np.sin(x[1:]) * x[:-1] ** 2) + x[0] * x[2] * x[0]


class TestHessians:
    def test_rows_and_columns(self):
        x = np.linspace(0.3, 1.7, 6)
        slope, whole = (
            jax.jit(jax.grad(lambda x: chain(x, jnp)))(x),
            np.array(jax.jit(jax.hessian(lambda x: chain(x, jnp)))(x)),
        )
        for rows, columns in (([3, 0], slice(None)), (slice(None), slice(1, 4)), ([0], [2, 0])):
            choice, expected = {"rows": rows, "columns": columns}, taken(whole, rows, columns)
            np.testing.assert_allclose(acc.hessian(chain, **choice, **QUICK)(x), expected, rtol=1e-13)
            value, gradient, selected = acc.value_gradient_hessian(chain, sparse="csc", **choice, **QUICK)(x)
            np.testing.assert_allclose(selected.toarray(), expected, rtol=1e-13)
            np.testing.assert_allclose(gradient, slope, rtol=1e-13)
            np.testing.assert_allclose(value, chain(x), rtol=1e-13)

    def test_the_lower_triangle_of_a_lagrangian(self):
        x, multipliers = np.linspace(0.3, 1.7, 6), np.array([2.0, -1.0])

        def constraints(x, np=np):
            return np.stack([x[0] * x[5], np.sum(x**3)])

        positions = np.tril_indices(6)
        result = acc.hessian_of_lagrangian(chain, constraints, entries=positions, **QUICK)(x, 0.5, multipliers)
        lagrangian = jax.jit(jax.hessian(lambda x: 0.5 * chain(x, jnp) + multipliers @ constraints(x, jnp)))
        np.testing.assert_allclose(result, lagrangian(x)[positions], rtol=1e-12, atol=1e-14)

    def test_without_a_mirror(self):
        def f(x):  # the derivative of a root is attached
            return np.sum(np.linalg.solve(np.array([[x[0] + 2.0, x[1]], [0.5, x[2] + 1.5]]), x[:2]) ** 2)

        x = np.array([0.3, 0.9, 1.1])
        full = acc.hessian(f, **QUICK)(x)
        np.testing.assert_allclose(
            acc.hessian(f, entries=([0, 2], [1, 0]), **QUICK)(x), full[[0, 2], [1, 0]], rtol=1e-11
        )


def brusselator(t, y):
    """Reaction and diffusion, two unknowns a cell beside each other: two diagonals on both sides."""
    u, v = y[::2], y[1::2]
    left, right = np.concatenate([[1.0], u[:-1]]), np.concatenate([u[1:], [1.0]])
    below, above = np.concatenate([[3.0], v[:-1]]), np.concatenate([v[1:], [3.0]])
    scale = 2.0 * (len(u) + 1) ** 2
    du = 1.0 + u * u * v - 4.0 * u + scale * (left - 2.0 * u + right)
    dv = 3.0 * u - u * u * v + scale * (below - 2.0 * v + above)
    return np.stack([du, dv], axis=1).ravel()


class TestBands:
    def test_lsoda_takes_them(self):
        y = np.stack([1.0 + np.sin(np.linspace(0.0, 3.0, 10)), np.full(10, 3.0)], axis=1).ravel()
        band = acc.jacobian(brusselator, argnums=1, banded=(2, 2), **QUICK)
        assert band(0.0, y).shape == (5, 20)
        banded, full = (
            solve_ivp(brusselator, (0.0, 1.0), y, "LSODA", rtol=1e-8, atol=1e-10, **how)
            for how in (
                {"jac": band, "lband": 2, "uband": 2},
                {"jac": acc.jacobian(brusselator, argnums=1, **QUICK)},
            )
        )
        assert banded.success
        assert banded.njev > 0
        np.testing.assert_allclose(banded.y[:, -1], full.y[:, -1], rtol=1e-6)

    def test_solve_banded_takes_them(self):
        def f(x):
            return np.array([2.0 * x[0] + x[1] * x[2], x[0] * x[1] + x[3], x[1] - 3.0 * x[2], x[2] * x[3]])

        x, right = np.array([1.0, 2.0, 3.0, 4.0]), np.arange(4.0)
        ab, matrix = acc.jacobian(f, banded=(1, 2), **QUICK)(x), acc.jacobian(f, **QUICK)(x)
        np.testing.assert_allclose(solve_banded((1, 2), ab, right), np.linalg.solve(matrix, right), rtol=1e-12)
        batch = acc.jacobian(f, banded=(1, 2), **QUICK).batch(np.stack([x, 2.0 * x]))
        np.testing.assert_array_equal(batch[0], ab)
        with pytest.raises(ArgumentError, match=r"entry \(0, 2\) .* expected banded=\(1, 2\)"):
            acc.jacobian(f, banded=(3, 1), **QUICK)(x)
        np.testing.assert_array_equal(acc.jacobian(f, banded=(2, 2), **QUICK)(x)[:4], ab)


class TestLongArrays:
    def test_every_choice(self):
        def f(u):
            return np.concatenate([u[:1], u[2:] - 2.0 * u[1:-1] * u[:-2] + np.sin(u[1:-1]), u[-1:]])

        u = np.linspace(0.1, 2.0, 10_000)
        matrix = acc.jacobian(f, sparse="csr", **QUICK)(u)
        assert (acc.jacobian(f, **QUICK).sparsity(u) != (matrix != 0)).nnz == 0
        rows, columns = [5, 9_999, 100], slice(0, 200)
        selected = acc.jacobian(f, rows=rows, columns=columns, **QUICK)(u)
        np.testing.assert_array_equal(selected, matrix[rows][:, columns].toarray())
        selected = acc.jacobian(f, rows=rows, sparse="csc", **QUICK)(u)
        np.testing.assert_array_equal(selected.toarray(), matrix[rows].toarray())
        positions = [5, 3, 7, 5, 0], [5, 2, 900, 5, 0]
        values = acc.jacobian(f, entries=positions, **QUICK).batch(np.stack([u, u]))
        np.testing.assert_array_equal(values[1], np.ravel(matrix[positions]))
        i, j = matrix.nonzero()
        np.testing.assert_array_equal(acc.jacobian(f, banded=(1, 1), **QUICK)(u)[1 + i - j, j], np.ravel(matrix[i, j]))

    def test_hessians(self):
        def f(u):
            return np.sum(u[1:] * np.sin(u[:-1]) * u[:-1])

        u = np.linspace(0.1, 2.0, 10_000)
        matrix = acc.hessian(f, sparse="csr", **QUICK)(u)
        derivative = acc.hessian(f, rows=[3, 9], columns=slice(20), **QUICK)
        assert (derivative.sparsity(u) != (matrix != 0)).nnz == 0
        np.testing.assert_allclose(derivative(u), matrix[[3, 9], :20].toarray(), rtol=1e-14)


class TestSparsity:
    def test_it_is_the_pattern_of_sparse_results(self):
        derivative = acc.jacobian(swirl, (1, 0), **QUICK)
        result = derivative.sparsity(X, Y)
        assert "0 compiled" in repr(derivative)
        sparse = acc.jacobian(swirl, (1, 0), sparse="csr", **QUICK)(X, Y)
        pairs = [*zip(result["a"], sparse["a"], strict=True), *zip(result["c"], sparse["c"], strict=True)]
        pairs += [pair for k in range(2) for pair in zip(result["b"][k], sparse["b"][k], strict=True)]
        assert len(pairs) == 8
        for pattern, matrix in pairs:
            assert pattern.dtype == bool
            np.testing.assert_array_equal(pattern.toarray(), matrix.astype(bool).toarray())

    @pytest.mark.parametrize("n", [3, 30, 100])
    @pytest.mark.parametrize(
        "f",
        [
            lambda x, ends: np.diag(ends) @ x,
            lambda x, ends: (np.diag(ends) * x) @ np.cos(ends),
            lambda x, ends: np.outer(x, ends)[-1],
            lambda x, ends: np.kron(x, [1.0, 0.0]),
            lambda x, ends: np.where(ends > 0, np.sin(x), 1.0) * x[::-1] * ends,
        ],
    )
    def test_zeros_of_constant_arrays(self, f, n):
        x, ends = np.linspace(0.3, 1.7, n), (np.arange(n) % (n - 1) == 0) * 1.0
        pattern = acc.jacobian(lambda x: f(x, ends), **QUICK).sparsity(x)
        sparse = acc.jacobian(lambda x: f(x, ends), sparse="csr", **QUICK)(x)
        np.testing.assert_array_equal(pattern.indices, sparse.indices)
        np.testing.assert_array_equal(pattern.indptr, sparse.indptr)
        assert pattern.nnz == np.count_nonzero(sparse.data)

    @pytest.mark.parametrize("make", [acc.hessian, acc.value_gradient_hessian])
    def test_of_hessians(self, make):
        x = np.linspace(0.3, 1.7, 6)
        expected = np.array(jax.jit(jax.hessian(lambda x: chain(x, jnp)))(x)) != 0.0
        np.testing.assert_array_equal(make(chain, rows=[0], **QUICK).sparsity(x).toarray(), expected)

    def test_of_gradients_and_decisions(self):
        def f(x):
            return x[int(x[0])] ** 2

        derivative = acc.gradient(f, **QUICK)
        assert derivative.sparsity(np.array([1.0, 2.0, 3.0])).toarray().tolist() == [[False, True, False]]
        assert derivative.sparsity(np.array([2.0, 2.0, 3.0])).toarray().tolist() == [[False, False, True]]

    def test_products_have_none(self):
        with pytest.raises(ArgumentError, match="jvp returns arrays without a pattern"):
            acc.jvp(chain).sparsity((X,), (X,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 1}, "rows is 1; expected a sequence of positions"),
        ({"rows": [12]}, "rows of the derivative of swirl have 12; there are 12"),
        ({"columns": [0, -5]}, "columns of the derivative of swirl have a position twice"),
        ({"columns": [True, False]}, "are a mask of 2 entries; expected 5"),
        ({"rows": [0.5]}, r"rows is \[0.5\]; expected a sequence of positions"),
        ({"entries": [1, 2, 3]}, "expected a pair"),
        ({"entries": ([1, 2], [1])}, "expected a pair"),
        ({"entries": ([1], [7])}, "columns have 7; there are 5"),
        ({"entries": coo_array((2, 2))}, r"a matrix of shape \(2, 2\); the derivative of swirl has shape \(12, 5\)"),
        ({"entries": ([1, 1], [2, 2]), "sparse": "csr"}, "names a position twice"),
        ({"entries": ([1], [2]), "rows": [1]}, "and rows or columns"),
        ({"banded": (1, 1), "sparse": True}, "banded was given together with"),
        ({"banded": (1, -1)}, "expected the numbers of diagonals"),
        ({"banded": True}, "expected the numbers of diagonals"),
    ],
)
def test_mistakes_raise_with_the_reason(options, message):
    with pytest.raises(ArgumentError, match=message):
        acc.jacobian(swirl, (1, 0), **options, **QUICK)(X, Y)


def test_results_that_are_no_matrix_have_no_rows():
    for make in (acc.gradient, acc.value_and_gradient, acc.compile):
        with pytest.raises(UnknownNameError, match="rows"):
            make(chain, rows=[1])


class TestProductsOfLongArrays:
    """Products with directions and weights are loops where these cost less."""

    @staticmethod
    def waves(u):
        return np.sin(u) * np.roll(u, 1) + np.exp(-u)

    @pytest.mark.parametrize(("count", "several", "loops"), [(100, None, False), (2100, None, True), (1100, 3, True)])
    def test_of_about_as_many_operations(self, count, several, loops):
        x = np.linspace(0.1, 1.0, count)
        seeds = np.random.default_rng(3).normal(size=(count,) if several is None else (several, count))
        slope = np.cos(x) * np.roll(x, 1) - np.exp(-x)
        pushed = acc.jvp(self.waves, **QUICK)
        value, actual = pushed((x,), (seeds,))
        np.testing.assert_allclose(value, self.waves(x), rtol=1e-14)
        np.testing.assert_allclose(
            actual, slope * seeds + np.sin(x) * np.roll(seeds, 1, axis=-1), rtol=1e-12, atol=1e-12
        )
        pulled = acc.vjp(self.waves, **QUICK)
        value, (actual,) = pulled((x,), seeds)
        np.testing.assert_allclose(value, self.waves(x), rtol=1e-14)
        back = np.roll(seeds * np.sin(x), -1, axis=-1)
        np.testing.assert_allclose(actual, slope * seeds + back, rtol=1e-12, atol=1e-12)
        for made in (pushed, pulled):
            tape = made.compile(*((x,), (seeds,)) if made is pushed else ((x,), seeds)).tape
            assert isinstance(tape, Program) == loops

    @pytest.mark.parametrize(("count", "several", "loops"), [(100, None, False), (2900, None, True), (1500, 3, True)])
    def test_of_hessians(self, count, several, loops):
        x = np.linspace(-1.0, 1.0, count)
        seeds = np.random.default_rng(3).normal(size=(count,) if several is None else (several, count))
        product = acc.hvp(lambda x: np.log(np.sum(np.exp(x))), **QUICK)
        share = np.exp(x) / np.sum(np.exp(x))
        expected = share * seeds - share * (seeds @ share)[..., None]
        (actual,) = product((x,), (seeds,))
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-13)
        assert isinstance(product.compile((x,), (seeds,)).tape, Program) == loops

    def test_the_order_of_the_function_is_kept_with_exact_order(self):
        x = np.linspace(0.1, 1.0, 3000)
        pushed = acc.jvp(self.waves, exact_order=True, **QUICK)
        assert not isinstance(pushed.compile((x,), (x,)).tape, Program)


def test_thorough_programs_are_never_longer_than_default_ones(monkeypatch):
    def f(x):
        return np.array([np.sin(x[0]) * np.cos(x[1]) + x[0] * x[1], np.sin(x[0]) * x[1] + np.cos(x[1]) / x[0]])

    point, rewritten = np.array([0.3, 0.7]), derivation.rewritten
    default = acc.value_and_jacobian(f, cache=False).compile(point).operations

    def unless_thorough(tape, context, *arguments):
        return Rewritten(tape, False) if context.options.effort == "thorough" else rewritten(tape, context, *arguments)

    monkeypatch.setattr(derivation, "rewritten", unless_thorough)
    thorough = acc.value_and_jacobian(f, effort="thorough", time_limit=0.5, cache=False)
    assert thorough.compile(point).operations == default
    value, jacobian = thorough(point)
    np.testing.assert_allclose(value, f(point), rtol=1e-14)
    np.testing.assert_allclose(jacobian, acc.jacobian(f, method="forward")(point), rtol=1e-12)
