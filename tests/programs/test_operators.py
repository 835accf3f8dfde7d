"""Linear operators of Jacobians: against 50 digits, JAX, matrices, and in SciPy's solvers."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import exact_jacobian
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import NUMPY, programs
from scipy.sparse.linalg import LinearOperator, cg, gmres, lsqr, svds

import accumulus as acc
from accumulus.errors import ArgumentError, SizeError, UnknownNameError
from accumulus.programs import lowering

QUICK = {"effort": "fast", "cache": False}
POINT = np.linspace(0.2, 1.1, 12)
WEIGHTS = np.linspace(1.0, 2.0, 12)


def coupled(x):
    """A matrix of rank one beside a diagonal: 144 nonzeros in the Jacobian, not 40 edges."""
    return 4.0 * x + 0.1 * np.sin(x) + 0.1 * WEIGHTS * np.tanh(WEIGHTS @ x)


def matrices(operator):
    """The Jacobian, column by column and row by row."""
    rows, columns = operator.shape
    return operator.matmat(np.eye(columns)), operator.rmatmat(np.eye(rows)).T


SMOOTH = ("add", "subtract", "multiply", "divide", "sin", "cos", "exp", "tanh", "sqrt", "log", "less", "select")


@given(program=programs(SMOOTH, steps=12), point=st.tuples(*[st.floats(0.2, 3.0)] * 3))
@settings(max_examples=4)
def test_products_are_those_of_fifty_digits(program, point):
    def f(x):
        return np.stack(program.run(list(x), NUMPY, np.float64))

    with np.errstate(all="ignore"):
        expected = np.array(exact_jacobian(program.tape(), point), float)
        operator = acc.linear_operator(f, check=False, **QUICK)(np.array(point))
        forward, back = matrices(operator)
    assert operator.multiplications <= operator.nonzeros
    finite = np.isfinite(expected) & (np.abs(expected) < 1e100)
    scale = 1.0 + np.abs(expected[finite]).max(initial=0.0)
    np.testing.assert_allclose(forward[finite], expected[finite], rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_allclose(back[finite], forward[finite], rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize(
    ("target", "dtype", "tolerance"),
    [("llvm", "float64", 1e-13), ("numpy", "float64", 1e-13), ("llvm", "float32", 1e-5)],
)
def test_all_products_are_those_of_jax(target, dtype, tolerance):
    with jax.enable_x64(True):
        expected = np.array(
            jax.jit(jax.jacobian(lambda x: 4.0 * x + 0.1 * jnp.sin(x) + 0.1 * WEIGHTS * jnp.tanh(WEIGHTS @ x)))(POINT)
        )
    operator = acc.linear_operator(coupled, target=target, dtype=dtype, **QUICK)(POINT)
    assert isinstance(operator, LinearOperator)
    assert operator.dtype == dtype
    np.testing.assert_allclose(operator.value, coupled(POINT), rtol=tolerance)
    v, V = WEIGHTS - 1.4, np.stack([WEIGHTS, POINT, POINT**2], axis=1)
    complex_ones = v + 1j * POINT
    for actual, product in [
        (operator @ v, expected @ v),
        (operator.matvec(v[:, None]), expected @ v[:, None]),
        (operator.T @ v, expected.T @ v),
        (operator.rmatvec(v), expected.T @ v),
        (operator @ V, expected @ V),
        (operator.rmatmat(V[:, ::-1]), expected.T @ V[:, ::-1]),
        (operator @ complex_ones, expected @ complex_ones),
        ((operator.H @ operator + 2.0 * operator) @ v, (expected.T @ expected + 2.0 * expected) @ v),
    ]:
        np.testing.assert_allclose(actual, product, rtol=tolerance, atol=10 * tolerance)


def test_solvers_of_scipy_take_it():
    operator = acc.linear_operator(coupled, **QUICK)(POINT)
    matrix = acc.jacobian(coupled, **QUICK)(POINT)
    assert (operator.multiplications, operator.nonzeros) == (35, 144)
    expected = np.linalg.solve(matrix, WEIGHTS)
    np.testing.assert_allclose(gmres(operator, WEIGHTS, rtol=1e-12)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(cg(operator, WEIGHTS, rtol=1e-13)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(lsqr(operator, WEIGHTS, atol=1e-14, btol=1e-14)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(svds(operator, k=2)[1], np.linalg.svd(matrix)[1][1::-1], rtol=1e-9)


def test_hessians_are_jacobians_of_gradients():
    def f(x):
        return np.log(np.sum(np.exp(WEIGHTS * x))) + 2.0 * np.sum(x**4)

    hessian = acc.linear_operator(acc.gradient(f, **QUICK), **QUICK)(POINT)
    with jax.enable_x64(True):
        expected = jax.jit(jax.hessian(lambda x: jnp.log(jnp.sum(jnp.exp(WEIGHTS * x))) + 2.0 * jnp.sum(x**4)))(POINT)
    np.testing.assert_allclose(hessian @ np.eye(12), expected, rtol=1e-11, atol=1e-12)
    assert hessian.multiplications < hessian.nonzeros / 2
    np.testing.assert_allclose(cg(hessian, hessian.value, rtol=1e-12)[0], np.linalg.solve(expected, hessian.value))


def test_operators_of_several_points_live_beside_one_another():
    operators = acc.linear_operator(coupled, **QUICK)
    one, other = operators(POINT), operators(-2.0 * POINT)
    jac = acc.jacobian(coupled, **QUICK)
    np.testing.assert_allclose(one @ WEIGHTS, jac(POINT) @ WEIGHTS)
    np.testing.assert_allclose(other @ WEIGHTS, jac(-2.0 * POINT) @ WEIGHTS)
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        np.testing.assert_array_equal(again @ WEIGHTS, one @ WEIGHTS)


def test_arguments_and_results_are_one_after_the_other():
    def f(state, rate, steps):
        return {"a": state["x"] * rate, "b": state["y"] ** steps * state["x"][0]}

    state = {"x": np.array([2.0, 3.0]), "y": 5.0}
    operator = acc.linear_operator(f, (0, 1), static_argnums=2, **QUICK)(state, 7.0, 2)
    expected = np.array([[7.0, 0.0, 0.0, 2.0], [0.0, 7.0, 0.0, 3.0], [25.0, 0.0, 20.0, 0.0]])
    for actual in matrices(operator):
        np.testing.assert_allclose(actual, expected)
    np.testing.assert_allclose(operator.value["a"], [14.0, 21.0])
    operator = acc.linear_operator(f, argnames="rate", **QUICK)(state, steps=2, rate=7.0)
    np.testing.assert_allclose(operator @ np.ones(1), [2.0, 3.0, 0.0])


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: 2.0 * x + 1.0, 2.0 * np.eye(3)),
        (lambda x: x, np.eye(3)),
        (lambda x: np.ones(2), np.zeros((2, 3))),
        (lambda x: np.stack([x[0] * x[1], x[0] * x[1], x[0] - x[0]]), np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 0]])),
        (lambda x: np.sum(x**2), 2.0 * np.ones((1, 3))),
        (lambda x: x[:0], np.zeros((0, 3))),
    ],
)
def test_constants_equal_results_and_numbers(f, expected):
    operator = acc.linear_operator(f, **QUICK)(np.ones(3))
    for actual in matrices(operator):
        np.testing.assert_array_equal(actual, expected)


def test_branches_that_are_off_stay_off():
    def f(x):
        return np.exp(np.sqrt(np.where(x > 0.0, x, 0.0))) + np.where(x > 0.0, np.sqrt(x), 0.0) * np.sin(np.sum(x))

    x = np.array([0.0, 1.0, 4.0])
    for result in matrices(acc.linear_operator(f, **QUICK)(x)):
        np.testing.assert_allclose(result, acc.jacobian(f, **QUICK)(x), rtol=1e-13)


def test_decisions_have_an_operator_each():
    def f(x):
        while np.sum(x) > 2.0:
            x = x / 2.0
        return np.sin(x) * x[0] if x[0] > 0.0 else x[1] * x

    operators = acc.linear_operator(f, **QUICK)
    for point in ([0.5, 0.2], [3.0, 4.0], [-1.0, 2.0], [0.4, 0.3]):
        expected = acc.jacobian(f, **QUICK)(np.array(point))
        np.testing.assert_allclose(matrices(operators(np.array(point)))[0], expected, rtol=1e-14)


def test_long_arrays_are_sparse_matrices():
    def f(u, rate):
        return rate * (u[2:] - 2.0 * u[1:-1] + u[:-2]), u * u

    u = np.linspace(0.0, 1.0, 5_000)
    operator = acc.linear_operator(f, (0, 1), **QUICK)(u, 3.0)
    blocks = acc.jacobian(f, (0, 1), sparse="csr", **QUICK)(u, 3.0)
    v = np.sin(np.arange(5_001.0))
    expected = np.concatenate([first @ v[:-1] + second @ v[-1:] for first, second in blocks])
    np.testing.assert_allclose(operator @ v, expected, rtol=1e-12)
    w = np.cos(np.arange(9_998.0))
    np.testing.assert_allclose(operator.rmatvec(w)[-1], blocks[0][1].T @ w[:4_998], rtol=1e-10)
    assert operator.multiplications == operator.nonzeros == 3 * 4_998 + 4_998 + 5_000
    np.testing.assert_allclose(operator.value[1], u * u)


def test_long_arrays_of_dense_jacobians_are_written_out(monkeypatch):
    def f(x):
        return x * np.sum(x * x)

    x = np.linspace(0.0, 1.0, 600)
    operator = acc.linear_operator(f, **QUICK)(x)
    assert operator.multiplications <= 3 * 600
    np.testing.assert_allclose(operator @ np.ones(600), np.full(600, x @ x) + 2.0 * x * np.sum(x), rtol=1e-12)
    monkeypatch.setattr(lowering, "PATIENCE", 0.0)
    with pytest.raises(SizeError, match="products of derivatives between arrays"):
        acc.linear_operator(f, **QUICK)(np.ones(200_000))


def test_bad_input_is_refused():
    operators = acc.linear_operator(coupled, **QUICK)
    with pytest.raises(ArgumentError, match=r"sparse is 'csr'.*leave sparse out"):
        acc.linear_operator(coupled, sparse="csr")
    with pytest.raises(UnknownNameError, match="efort"):
        acc.linear_operator(coupled, efort="fast")
    with pytest.raises(ArgumentError, match="with traced values"):
        acc.jacobian(lambda x: operators(x) @ x, **QUICK)(POINT)
    with pytest.raises(ArgumentError, match="argnums is 3"):
        acc.linear_operator(coupled, 3)(POINT)
    with pytest.raises(ArgumentError, match=r"of shape \(12, 12\) was multiplied by float64 of shape \(3,\)"):
        operators(POINT) @ np.ones(3)


class TestWrongOperands:
    """Products with what does not fit say what was given, and what was expected."""

    A = acc.linear_operator(lambda x: np.array([x[0] * x[1], x[1] * x[2]]), cache=False)(np.array([2.0, 3.0, 5.0]))

    @pytest.mark.parametrize(
        ("product", "said"),
        [
            (lambda A: A @ np.ones(4), r"shape \(2, 3\) was multiplied by float64 of shape \(4,\).*\(3,\) or \(3, k\)"),
            (lambda A: A @ np.ones(2), r"A\.T, takes this many"),
            (lambda A: A.T @ np.ones(3), r"shape \(3, 2\).*of shape \(3,\).*\(2,\) or \(2, k\)"),
            (lambda A: A.H @ [1.0], r"shape \(3, 2\)"),
            (lambda A: np.ones(3) @ A, r"shape \(3, 2\)"),
            (lambda A: A.matvec(np.ones((3, 2))), r"\(3,\) or \(3, 1\)"),
            (lambda A: A.rmatvec(np.ones(3)), r"\(2,\) or \(2, 1\)"),
            (lambda A: A.matmat(np.ones(3)), r"\(3, k\)"),
            (lambda A: A.rmatmat(np.ones((3, 2))), r"\(2, k\)"),
            (lambda A: A.dot(np.ones((3, 1, 1))), r"\(3, 1, 1\)"),
            (lambda A: A @ np.array(["a", "b", "c"]), "<U1"),
            (lambda A: A @ np.array([1.0, None, 2.0]), "ndarray; expected real or complex numbers"),
            (lambda A: A @ [[1.0], [1.0, 2.0], [3.0]], "list"),
            (lambda A: A @ None, "NoneType"),
        ],
    )
    def test_raise_with_the_reason(self, product, said):
        with pytest.raises(ArgumentError, match=said):
            product(self.A)

    def test_matching_arguments_are_accepted_as_before(self):
        matrix = np.array([[3.0, 2.0, 0.0], [0.0, 5.0, 3.0]])
        v, w, V = np.arange(1.0, 4.0), np.array([1.0, -1.0]), np.arange(6.0).reshape(3, 2)
        np.testing.assert_array_equal(self.A @ v, matrix @ v)
        np.testing.assert_array_equal(self.A @ [1, 2, 3], matrix @ v)
        np.testing.assert_array_equal(self.A.matvec(v[:, None]), matrix @ v[:, None])
        np.testing.assert_array_equal(self.A @ V, matrix @ V)
        np.testing.assert_array_equal(self.A @ (v + 1j * v), matrix @ (v + 1j * v))
        np.testing.assert_array_equal(self.A.T @ w, w @ matrix)
        np.testing.assert_array_equal(self.A.H.H @ v, matrix @ v)
        np.testing.assert_array_equal(w @ self.A, w @ matrix)
        np.testing.assert_array_equal(self.A.T.matmat(np.eye(2)), matrix.T)
        np.testing.assert_array_equal((2.0 * self.A) @ v, 2.0 * (matrix @ v))
        np.testing.assert_array_equal((self.A @ self.A.T) @ w, matrix @ (matrix.T @ w))
        assert self.A.T.shape == (3, 2)
        assert self.A.T.nonzeros == self.A.nonzeros
