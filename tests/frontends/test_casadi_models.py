"""CasADi's functions as they are: values and Jacobians against CasADi's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.errors import ArgumentError, MismatchError, TraceError

ca = pytest.importorskip("casadi")

from accumulus.frontends import casadi as front_end  # noqa: E402

FAST = {"target": "numpy", "time_limit": 0.0, "cache": False, "optimise": False}
x, y, p = ca.SX.sym("x"), ca.SX.sym("y"), ca.SX.sym("p", 3)


def check(expressions, symbols, point, rtol=1e-13):
    """Value and Jacobian of a vector of expressions, against CasADi's derivatives."""
    vector, variables = ca.vertcat(*expressions), ca.vertcat(*symbols)
    f = ca.Function("f", [variables], [vector])
    value, jacobian = acc.value_and_jacobian(f, **FAST)(np.array(point, float))
    np.testing.assert_allclose(value, np.array(f(point))[:, 0], rtol=rtol)
    expected = ca.Function("J", [variables], [ca.densify(ca.jacobian(vector, variables))])(point)
    np.testing.assert_allclose(jacobian, np.array(expected), rtol=rtol, atol=1e-15)


UNARY = ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "exp", "log", "sqrt"]
UNARY += ["expm1", "log1p", "erf", "fabs", "floor", "ceil", "sign"]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("at", [0.3, 0.8])
def test_functions_of_one_argument(name, at):
    check([getattr(ca, name)(x * y), getattr(ca, name)(y * 0.5)], [x, y], [at, 1.1])


@pytest.mark.parametrize(
    "expression",
    [
        *(x + y, x - y, x * y, x / y, -x, x**y, x**3, 2 * x, 1 / x, ca.acosh(x + y), ca.atan2(x, y), ca.hypot(x, y)),
        *(ca.fmin(x, y), ca.fmax(x, y), ca.fmod(x + 3, y), ca.copysign(x, -y), ca.remainder(x + 3, y)),
        *(ca.if_else(x < y, x * y, x + y), ca.if_else(x >= y, ca.sin(x), y), x * (x <= y), y * ca.logic_not(x < y)),
        *(ca.if_else(ca.logic_and(x < y, x > 0), x, 2 * y), ca.if_else(ca.logic_or(x > y, x == 0.4), x, 2 * y)),
        *(
            ca.if_else(x != y, x, y**2),
            ca.conditional(ca.floor(x + y), [x, y], x * y),
            x + ca.SX(3),
            ca.pw_const(x, [0.5], [1, 2]) * y,
        ),
    ],
    ids=str,
)
def test_expressions(expression):
    check([expression, expression * x], [x, y], [0.4, 1.7])


def test_names_of_operations_are_all_written_or_refused():
    scalars = set(front_end._ROWS) | set(front_end._FORMULAS) | set(front_end._SAME)
    scalars |= {ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST, ca.OP_IF_ELSE_ZERO, ca.OP_NOT, ca.OP_AND, ca.OP_OR}
    assert all(isinstance(code, int) for code in scalars)
    assert ca.OP_PARAMETER not in scalars  # a free variable


# Arguments and results -------------------------------------------------------------------------------------------


def test_arguments_and_results_are_dense_arrays_in_the_shapes_of_numpy():
    A = ca.SX.sym("A", 2, 3)
    f = ca.Function(
        "f", [A, p, x], [ca.mtimes(A, p) * x, ca.dot(p, p), A.T, p.T], ["A", "p", "x"], ["y", "n", "At", "row"]
    )
    at = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0]), 2.0
    value, (by_A, by_p, by_x) = _swapped(acc.value_and_jacobian(f, argnums=(0, 1, 2), **FAST)(*at))
    np.testing.assert_array_equal(value[0], at[0] @ at[1] * 2.0)
    assert [v.shape for v in value[:4]] == [(2,), (), (3, 2), (1, 3)]
    np.testing.assert_array_equal(value[2], at[0].T)
    np.testing.assert_array_equal(by_p[0], 2.0 * at[0])
    np.testing.assert_array_equal(by_p[1], 2.0 * at[1])
    np.testing.assert_array_equal(by_x[0], at[0] @ at[1])
    np.testing.assert_array_equal(by_A[0][1], 2.0 * np.array([[0, 0, 0], at[1]]))
    assert by_A[2].shape == (3, 2, 2, 3)


def _swapped(both):
    value, jacobians = both
    return value, list(zip(*jacobians, strict=True))


def test_structural_zeros_are_no_entries_of_sparse_jacobians():
    n = 30
    v = ca.SX.sym("v", n)
    f = ca.Function("f", [v], [ca.vertcat(v[1:] * v[:-1], ca.sin(v[0]))])
    jac = acc.jacobian(f, sparse="csc")
    point = np.linspace(0.1, 2.0, n)
    expected = ca.Function("J", [v], [ca.jacobian(f(v), v)])(point)
    actual = jac(point)
    assert actual.nnz == expected.nnz() == 2 * (n - 1) + 1
    np.testing.assert_allclose(actual.toarray(), np.array(expected), rtol=1e-15)


def test_sparse_arguments_and_results():
    pattern = ca.Sparsity.lower(3)
    L = ca.SX.sym("L", pattern)
    f = ca.Function("f", [L, p], [ca.mtimes(L, p), L * 2])
    at = np.arange(1.0, 10.0).reshape(3, 3)
    value, jacobians = acc.value_and_jacobian(f, **FAST)(at, np.ones(3))
    np.testing.assert_array_equal(value[0], np.tril(at).sum(axis=1))
    np.testing.assert_array_equal(value[1], 2.0 * np.tril(at))
    np.testing.assert_array_equal(np.flatnonzero(jacobians[1].sum(axis=(0, 1))), np.flatnonzero(np.tril(at)))


def test_functions_of_matrices_are_expanded():
    v, w = ca.MX.sym("v", 3), ca.MX.sym("w", 3, 3)
    step = ca.Function("step", [v], [ca.sin(v) + ca.cross(v, ca.DM([1, 2, 3]))])
    f = ca.Function("f", [v, w], [ca.mtimes(w, step.mapaccum("many", 4)(v)[:, -1]) + ca.solve(w, v, "symbolicqr")])
    at = np.array([0.1, 0.2, 0.3]), np.eye(3) * 2 + 0.1
    value, (by_v, by_w) = acc.value_and_jacobian(f, argnums=(0, 1), **FAST)(*at)
    np.testing.assert_allclose(value, np.array(f(*at))[:, 0], rtol=1e-14)
    expected = f.jacobian()(*at, 0)
    np.testing.assert_allclose(by_v, np.array(expected[0]), rtol=1e-12)
    by_columns = by_w.transpose(0, 2, 1).reshape(3, 9)
    np.testing.assert_allclose(by_columns, np.array(expected[1]), rtol=1e-12)


def test_batches_and_checks():
    f = ca.Function("f", [p, x], [ca.sin(p) * x])
    P = np.random.default_rng(0).normal(size=(7, 3))
    result = acc.jacobian(f).batch(P, 2.0)
    np.testing.assert_allclose(result, 2.0 * np.cos(P)[:, :, None] * np.eye(3), rtol=1e-15)
    assert acc.check(f, P[0], 2.0).passed


def test_long_functions():
    v = ca.SX.sym("v", 2)
    state = v
    for _ in range(4_000):
        state = ca.vertcat(ca.sin(state[0]) + 0.2 * state[1], ca.cos(state[1]) * 0.9 + 0.1 * state[0])
    f = ca.Function("f", [v], [state])
    value, jacobian = acc.value_and_jacobian(f, cache=False)(np.array([0.3, 0.7]))
    np.testing.assert_allclose(value, np.array(f([0.3, 0.7]))[:, 0], rtol=1e-12)
    np.testing.assert_allclose(jacobian, np.array(f.jacobian()([0.3, 0.7], 0)), atol=1e-12)


# What cannot be recorded -----------------------------------------------------------------------------------------


def test_free_variables_are_named():
    f = ca.Function("f", [x], [x * y], {"allow_free": True})
    with pytest.raises(TraceError, match=r"function f has free variables: y\. Make"):
        acc.jacobian(f)(1.0)


def test_operations_without_a_row_are_named():
    with pytest.raises(TraceError, match="CasADi's operation OP_ERFINV cannot be recorded"):
        acc.jacobian(ca.Function("f", [x], [ca.erfinv(x)]))(0.5)


def test_functions_that_cannot_be_expanded_raise():
    t = ca.MX.sym("t")
    root = ca.rootfinder("r", "newton", {"x": t, "g": t**2 - 2})
    with pytest.raises(TraceError, match="function f calls another that has no scalar operations"):
        acc.jacobian(ca.Function("f", [t], [root(x0=t)["x"]]))(1.0)
    A = ca.MX.sym("A", 2, 2)
    with pytest.raises(TraceError, match="function f cannot be expanded to scalar operations"):
        acc.jacobian(ca.Function("f", [A], [ca.solve(A, ca.DM([1, 2]))]))(np.eye(2))


def test_arguments_of_another_number_or_shape():
    f = ca.Function("f", [p, x], [p * x], ["position", "scale"], ["y"])
    with pytest.raises(ArgumentError, match="1 arguments are given; f has 2: position, scale"):
        acc.jacobian(f)(np.ones(3))
    with pytest.raises(ArgumentError, match=r"argument 0 \(position\) of f has shape \(4,\); expected \(3,\)"):
        acc.jacobian(f)(np.ones(4), 1.0)


def test_a_wrong_table_is_detected(monkeypatch):
    monkeypatch.setitem(front_end._ROWS, ca.OP_SIN, "cos")
    with pytest.raises(MismatchError, match="gives"):
        acc.jacobian(ca.Function("f", [x], [ca.sin(x)]), **FAST)(0.5)


# Any function ----------------------------------------------------------------------------------------------------

ONE = [ca.sin, ca.exp, ca.tanh, ca.atan, ca.fabs, lambda a: a**2, lambda a: 1 / (2 + a**2)]
TWO = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    ca.fmax,
    ca.atan2,
    lambda a, b: ca.if_else(a < b, a, b * 2),
]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25))
def test_random_programs(steps):
    values = [x, y, ca.SX(0.7)]
    for code, first, second in steps:
        a, b = values[first % len(values)], values[second % len(values)]
        values.append(ONE[code](a) if code < len(ONE) else TWO[code - len(ONE)](a, b))
    point = [0.371, 0.823]
    f = ca.Function("f", [x, y], [ca.vertcat(*values[-3:])])
    outcome = np.array(f(*point))
    if not (np.isfinite(outcome).all() and np.abs(outcome).max() < 1e6):
        return
    value, (by_x, by_y) = acc.value_and_jacobian(f, argnums=(0, 1), **FAST)(*point)
    np.testing.assert_allclose(value, outcome[:, 0], rtol=1e-11, atol=1e-12)
    expected = np.array(ca.Function("J", [x, y], [ca.densify(ca.jacobian(f(x, y), ca.vertcat(x, y)))])(*point))
    scale = max(1.0, float(np.abs(expected).max())) if np.isfinite(expected).all() else math.nan
    if not math.isnan(scale):
        np.testing.assert_allclose(np.stack([by_x, by_y], axis=1), expected, rtol=1e-9, atol=1e-9 * scale)
