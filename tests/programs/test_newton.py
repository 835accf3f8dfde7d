"""Implicit functions against closed forms and JAX: values, derivatives to several orders, and what has no root."""

import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import accumulus as acc
from accumulus.errors import ArgumentError, ConvergenceError, SizeError, TraceError, UnknownNameError

QUICK = {"effort": "fast", "cache": False}

#: y³ + y = p, and y² = p.
CUBIC = acc.implicit(lambda y, p: y**3 + y - p)
ROOT = acc.implicit(lambda y, p: y * y - p, steps=6)


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def both(y, s, p):
    """Two numbers of the sum s and the product p."""
    return {"sum": y[0] + y[1] - s, "product": [y[0] * y[1] - p]}


PAIR = acc.implicit(both, steps=8)


def weighted(x):
    y = PAIR(np.array([3.0, 0.5]), x[0], x[1])
    return np.sin(y[0]) * y[1] + y[0] ** 2 * x[1]


def weighted_in_closed_form(x):
    half = jnp.sqrt(x[0] ** 2 - 4.0 * x[1]) / 2.0
    y = x[0] / 2.0 + half, x[0] / 2.0 - half
    return jnp.sin(y[0]) * y[1] + y[0] ** 2 * x[1]


def test_numbers_give_a_number_and_its_structure():
    assert math.isclose(CUBIC(1.0, 2.0), 1.0, rel_tol=1e-15)
    solve = acc.implicit(
        lambda y, p: (y["a"][0] + y["a"][1] * p["k"] - 3.0, [y["a"][1] - y["b"], y["b"] * p["k"] - 2.0])
    )
    result = solve({"a": np.ones(2), "b": 1}, {"k": 2.0})
    np.testing.assert_allclose([*result["a"], result["b"]], [1.0, 1.0, 1.0], rtol=1e-14)
    slopes = acc.jacobian(lambda p: solve({"a": np.ones(2), "b": 1.0}, p), **QUICK)({"k": 2.0})
    np.testing.assert_allclose([*slopes["a"]["k"], slopes["b"]["k"]], [0.0, -0.5, -0.5], atol=1e-14)


def test_derivatives_of_every_order_are_those_of_the_closed_form():
    derivative, expected = lambda p: ROOT(1.0, p), math.sqrt(2.0)
    for order in range(1, 5):
        derivative = acc.jacobian(derivative, **QUICK)
        expected *= (1.5 - order) / 2.0
        assert math.isclose(derivative(2.0), expected, rel_tol=1e-13), order


DERIVATIVES = [
    (acc.value_and_gradient(weighted, **QUICK), jax.jit(jax.value_and_grad(weighted_in_closed_form))),
    (acc.hessian(weighted, **QUICK), jax.jit(jax.hessian(weighted_in_closed_form))),
    (
        acc.jacobian(acc.hessian(weighted, **QUICK), target="numpy", optimise=False, **QUICK),
        jax.jit(jax.jacfwd(jax.hessian(weighted_in_closed_form))),
    ),
]


@pytest.mark.parametrize("argument", range(3), ids=["gradient", "hessian", "third"])
@settings(max_examples=5, deadline=None)
@given(s=st.floats(2.6, 4.5), p=st.floats(0.2, 1.4))
def test_systems_agree_with_closed_forms(argument, s, p):
    derivative, reference = DERIVATIVES[argument]
    for actual, expected in zip(
        jax.tree.leaves(derivative(np.array([s, p]))), jax.tree.leaves(reference(jnp.array([s, p]))), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_products_with_directions_go_through_the_same_rule():
    x, v = np.array([3.5, 1.0]), np.array([0.3, -1.0])
    (result,) = acc.hvp(weighted, **QUICK)((x,), (v,))
    np.testing.assert_allclose(result, DERIVATIVES[1][1](x) @ v, rtol=1e-11)


def test_unknowns_that_are_the_same_expression_are_one_solution():
    solve = acc.implicit(lambda y, p: y * y + 0.1 * y[::-1] - p, steps=6)
    second = acc.hessian(lambda p: np.sum(solve(np.ones(2), p)), **QUICK)(2.0)
    assert math.isclose(second, -4.0 * (0.01 + 8.0) ** -1.5, rel_tol=1e-13)


MATRIX = np.array([[4.0, 1.0, 0.2, 0.3], [1.0, 5.0, 0.4, 0.1], [0.2, 0.7, 6.0, 1.0], [0.5, 0.1, 0.3, 4.0]])


def of_large(y, p):
    return MATRIX @ y + 0.1 * np.sin(y) * p - np.array([p, 1.0, p * p, 2.0])


def of_within(y, p):
    return y - 0.3 * np.linalg.solve(MATRIX + y * np.eye(4), np.array([p, 1.0, 2.0, p * p]))[0] - p


def exact_large(p):
    """The sum of the cubes of the root, by Newton's method in many digits."""
    matrix, y = mpmath.matrix(MATRIX.tolist()), mpmath.zeros(4, 1)
    for _ in range(7):
        r = matrix * y + 0.1 * p * y.apply(mpmath.sin) - mpmath.matrix([p, 1.0, p * p, 2.0])
        y -= mpmath.lu_solve(matrix + 0.1 * p * mpmath.diag(y.apply(mpmath.cos)), r)
    return sum(entry**3 for entry in y)


def exact_within(p):
    matrix = mpmath.matrix(MATRIX.tolist())
    sides = mpmath.matrix([p, 1.0, 2.0, p * p])
    return mpmath.findroot(lambda y: y - 0.3 * mpmath.lu_solve(matrix + y * mpmath.eye(4), sides)[0] - p, 1.0)


@pytest.mark.parametrize(
    ("residual", "exact"),
    [
        (lambda p: np.sum(acc.implicit(of_large, steps=4)(np.zeros(4), p) ** 3), exact_large),
        (lambda p: acc.implicit(of_within, steps=4)(1.0, p), exact_within),
    ],
)
def test_second_derivatives_of_systems_with_exchanges_of_rows_and_with_linear_systems_within(residual, exact):
    with mpmath.workdps(50):
        expected = float(mpmath.diff(exact, 1.3, 2))
    actual = acc.hessian(residual, target="numpy", optimise=False, check=False, **QUICK)(1.3)
    assert math.isclose(actual, expected, rel_tol=1e-10)


def test_an_implicit_function_within_the_residual_of_another():
    # y = √(p + y²/10), which is √(p / 0.9)
    outer = acc.implicit(lambda y, p: y - ROOT(1.4, p + y * y / 10.0), steps=3)
    second = acc.hessian(lambda p: outer(1.49, p), **QUICK, optimise=False)
    assert math.isclose(second(2.0), -0.25 * 2.0**-1.5 / math.sqrt(0.9), rel_tol=1e-12)
    third = acc.jacobian(second, **QUICK, optimise=False)
    assert math.isclose(third(2.0), 0.375 * 2.0**-2.5 / math.sqrt(0.9), rel_tol=1e-11)


def test_residuals_may_be_written_in_jax():
    residuals = lambda y, p: y - p * np.sin(y) - 1.0, lambda y, p: y - p * jnp.sin(y) - 1.0
    one, other = (acc.hessian(acc.implicit(each, steps=5), 1, **QUICK)(1.0, 0.1) for each in residuals)
    assert math.isclose(one, other, rel_tol=1e-12)
    with pytest.raises(TraceError, match="JAX"):
        acc.gradient(lambda p: jnp.sin(ROOT(1.0, p)), **QUICK)(2.0)
    with pytest.raises(TraceError, match=r"acc.compile\(jax.jit\(g\)\)"):
        acc.gradient(lambda p: vars(jnp)["sin"](p) + p, **QUICK)(2.0)  # which nobody sees


def test_residuals_in_jax_follow_their_rules():
    @jax.custom_jvp
    def inner(x):
        return jnp.sin(x)

    inner.defjvp(lambda x, t: (jnp.sin(x[0]), 3.0 * t[0] * x[0]))
    of_parameter = acc.implicit(jax.jit(lambda y, p: y**3 + y - inner(p)))
    y = of_parameter(0.5, 0.7)
    np.testing.assert_allclose(acc.jacobian(lambda p: of_parameter(0.5, p))(0.7), 2.1 / (3 * y**2 + 1), rtol=1e-13)
    of_unknown = acc.implicit(jax.jit(lambda y, p: inner(y) + y**3 - p))
    y = of_unknown(0.5, 0.7)
    slope = 1 / (3 * y + 3 * y**2)
    first = acc.jacobian(lambda p: of_unknown(0.5, p))
    np.testing.assert_allclose(first(0.7), slope, rtol=1e-13)
    np.testing.assert_allclose(acc.jacobian(first)(0.7), -(3 + 6 * y) * slope**3, rtol=1e-12)


def test_residuals_may_work_on_long_constants():
    table = 2.0 + np.sin(np.arange(5_100.0))  # more entries than the body of a loop may have
    solve = acc.implicit(lambda y, p: np.sum(table * y) - p, steps=3)
    slope = 1.0 / np.sum(table)
    actual, derivative = acc.value_and_gradient(lambda p: solve(0.0, p), **QUICK)(1.5)
    np.testing.assert_allclose([actual, derivative], [1.5 * slope, slope], rtol=1e-10)


def test_steps_that_would_be_too_many_operations_are_refused():
    matrix = np.cos(np.arange(10_000.0)).reshape(100, 100)
    solve = acc.implicit(lambda y, p: y + np.sin(matrix @ y) * p - 1.0)
    with pytest.raises(SizeError, match=r"each of the 10 steps of implicit\(<lambda>\) would be [1-9][\d,]+ op"):
        acc.jacobian(lambda p: solve(np.zeros(100), p), **QUICK)(0.1)


def test_parameters_may_come_from_around_the_residual():
    def f(p):
        return acc.implicit(lambda y: y**3 + y - p)(1.0) * p

    y = brentq(lambda y: y**3 + y - 3.0, 0.0, 3.0, xtol=1e-15)
    assert math.isclose(acc.gradient(f, **QUICK)(3.0), y + 3.0 / (3.0 * y * y + 1.0), rel_tol=1e-13)


@pytest.mark.parametrize("target", ["llvm", "numpy", "c"])
def test_batches_are_nan_where_there_is_no_root(target):
    p = np.array([4.0, -1.0, 2.0, 0.0, 1e4])
    values, slopes = acc.value_and_gradient(lambda p: ROOT(1.0, p), target=target, **QUICK).batch(p)
    expected = np.where(p > 0.0, np.sqrt(np.abs(p)), np.nan)
    expected[-1] = np.nan  # six steps from 1 are not enough
    np.testing.assert_allclose(values, expected, rtol=1e-14)
    np.testing.assert_allclose(slopes, 0.5 / expected, rtol=1e-14)


def test_float32_and_maps():
    slopes = acc.jacobian(lambda p: acc.map(lambda one: CUBIC(1.0, one), p), sparse="csr", **QUICK)
    p = np.linspace(1.0, 4.0, 3_000)
    y = np.array([CUBIC(1.0, one) for one in p[::1000]])
    np.testing.assert_allclose(slopes(p).data[::1000], 1.0 / (3.0 * y * y + 1.0), rtol=1e-13)
    value, slope = acc.value_and_gradient(lambda p: CUBIC(1.0, p), dtype="float32", **QUICK)(2.0)
    np.testing.assert_allclose([value, slope], [1.0, 0.25], rtol=1e-6)


def test_an_external_root_is_the_guess():
    at = acc.implicit(lambda y, p: y**3 + y - p, steps=1)
    y = brentq(lambda y: y**3 + y - 3.0, 0.0, 3.0)
    slope = acc.jacobian(at, argnums=(0, 1), **QUICK)
    by_guess, by_p = slope(y, 3.0)
    assert by_guess == 0.0
    assert math.isclose(by_p, 1.0 / (3.0 * y * y + 1.0), rel_tol=1e-13)
    second = acc.hessian(lambda p, y: at(y, p), **QUICK)(3.0, y)
    assert math.isclose(second, -6.0 * y / (3.0 * y * y + 1.0) ** 3, rel_tol=1e-12)
    assert math.isnan(slope(y + 0.1, 3.0)[1])
    with pytest.raises(ConvergenceError, match="1 step"):
        at(y + 0.1, 3.0)


@pytest.mark.parametrize("p", [-1.0, 0.0])
def test_on_numbers_no_root_and_a_double_root_are_errors(p):
    with pytest.raises(ConvergenceError, match="better guess"):
        ROOT(1.0, p)
    assert math.isnan(ROOT(1.0, math.nan))


def kinked(y, p):
    if y > 0.0:
        return 2.0 * y - p
    return y - p


def test_residuals_choose_but_do_not_decide():
    solve = acc.implicit(kinked)
    assert (solve(1.0, 3.0), solve(1.0, -3.0)) == (1.5, -3.0)
    np.testing.assert_allclose(acc.gradient(lambda p: solve(1.0, p), **QUICK).batch(np.array([3.0, -3.0])), [0.5, 1.0])

    def turned(y, p):
        while y > 1.0:
            y = y / 2.0
        return y - p

    with pytest.raises(TraceError, match=r"acc\.implicit"):
        acc.implicit(turned)(1.0, 0.5)


@pytest.mark.parametrize(
    ("residual", "guess", "match"),
    [
        (lambda y, p: np.array([y, p]), 1.0, "2 entries for 1 unknowns"),
        (lambda y, p: y - p, "a", "expected real numbers"),
        (lambda y, p: y - p, 1j, "real"),
        (lambda y, p: y - p, None, "expected real numbers"),
        (lambda y, p: np.array([y[0] - p, 2.0 * y[0]]), np.ones(2), "unknown 1 .* is in no residual"),
        (lambda y, p: np.array([y[0] - y[1], p]), np.ones(2), "residual 1 .* depends on no unknown"),
        (lambda y, p: y > p, 1.0, "real number for each"),
    ],
)
def test_bad_equations_are_refused(residual, guess, match):
    with pytest.raises(ArgumentError, match=match):
        acc.implicit(residual)(guess, 1.0)


@pytest.mark.parametrize(
    "options",
    [{"steps": 0}, {"steps": 2.5}, {"steps": True}, {"rtol": 0.0}, {"atol": -1.0}, {"rtol": "a"}, {"atol": math.nan}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ArgumentError, match="expected a"):
        acc.implicit(lambda y, p: y - p, **options)
    with pytest.raises(ArgumentError, match="expected a function"):
        acc.implicit(3.0)


KEPLER = acc.implicit(lambda E, M, e: E - e * np.sin(E) - M)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: KEPLER(1.0, 1.0, e=0.1), r"keywords e; .*\(guess, M, e\)"),
        (lambda: KEPLER(guess=1.0, M=1.0, e=0.1), "keywords M, e"),
        (KEPLER, "no arguments"),
        (lambda: KEPLER(1.0, 1.0), r"a guess and 1 parameters; expected \(guess, M, e\)"),
        (lambda: KEPLER(1.0, 1.0, 0.1, 3.0), "3 parameters"),
        (lambda: acc.gradient(lambda M: KEPLER(1.0, M), cache=False)(1.0), r"\(guess, M, e\)"),
        (lambda: acc.gradient(lambda M: KEPLER(1.0, M, e=0.1), cache=False)(1.0), "keywords e"),
        (lambda: acc.implicit(lambda y: y, tol=1.0), "unknown option of implicit 'tol'; did you mean 'rtol'"),
    ],
)
def test_mismatching_calls_raise(call, said):
    with pytest.raises((ArgumentError, UnknownNameError), match=said):
        call()


def test_calls_that_fit_are_taken():
    root = acc.implicit(lambda y, p=4.0: y**2 - p)
    assert root(1.0) == root(guess=1.0) == pytest.approx(2.0)
    assert root(1.0, 9.0) == pytest.approx(3.0)
    several = acc.implicit(lambda y, *p: y - sum(p))
    assert several(0.0, 1.0, 2.0, 3.0) == pytest.approx(6.0)
    assert acc.gradient(several, 2, cache=False)(0.0, 1.0, 2.0) == pytest.approx(1.0)


def mistyped(y, p):
    return y.frobnicate(p)


def of_decimals(y, p):
    return y**3 - p + Decimal(1) * y


def of_a_missing_key(y, p):
    return {}["missing"] * y - p


def its_own(y, p):
    raise TypeError("mine")


@pytest.mark.parametrize(
    ("residual", "kind", "said"),
    [
        (mistyped, AttributeError, "frobnicate"),
        (of_decimals, TypeError, "unsupported operand"),
        (of_a_missing_key, KeyError, "missing"),
        (its_own, TypeError, "mine"),
    ],
)
def test_errors_of_residuals_are_those_of_numbers(residual, kind, said):
    """Whether numbers raise them, too, is told by the residual, not by solving it again, without end."""
    root = acc.implicit(residual)
    for call in (
        lambda p: root(0.5, p),
        acc.gradient(lambda p: root(0.5, p) * p),
        lambda p: acc.jacobian(root, 1)(0.5, p),
        acc.gradient(lambda p: acc.gradient(lambda q: root(q, p) * q)(0.5)),
    ):
        with pytest.raises(kind, match=said):
            call(2.0)
