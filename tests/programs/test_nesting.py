"""Derivatives within functions that are recorded, against JAX, and against 50 digits."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import assert_same, both, unrolled

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError
from accumulus.programs import derived, nesting

#: Recordings are not compared with their functions: results are, and where derivatives are nested each comparison
#: prepares all of the inner ones anew.
QUICK = {"effort": "fast", "time_limit": 0.0, "optimise": False, "check": False}
X = np.array([0.3, -0.7, 1.2])


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


def energy(np):
    return lambda x: np.sum(np.sin(x) * x**2) + x[0] * x[1] ** 3 * x[2]


def close(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), one, other)


def test_third_derivatives():
    ours = acc.jacobian(acc.jacobian(acc.gradient(energy(np), **QUICK), **QUICK), **QUICK)
    theirs = jax.jit(jax.jacobian(jax.jacobian(jax.grad(energy(jnp)))))
    close(ours(X), theirs(X))
    close(ours.batch(np.stack([X, 2.0 * X])), np.stack([theirs(X), theirs(2.0 * X)]))


def test_within_and_around():
    def made(np, gradient, jacobian):
        return gradient(lambda x: jacobian(lambda y: np.sin(y) * x[0] * y[::-1])(x).sum() * x[1])

    close(made(np, acc.gradient, acc.jacobian)(X), jax.jit(made(jnp, jax.grad, jax.jacobian))(X))


def test_turns_of_a_loop_take_one_derivative(monkeypatch):
    made = []
    monkeypatch.setattr(nesting, "_KEPT", {})
    monkeypatch.setattr(nesting, "derived", lambda *args, of=nesting.derived: made.append(args) or of(*args))

    def path(np, gradient):
        def f(x):
            for k in range(6):
                c = 1.0 if k < 3 else 1.1  # the second half has another derivative
                x = x - 0.1 * gradient(lambda y, c=c, x=x: c * np.sum(np.cos(y) * y) + x[0] * y[1])(x)
            return x

        return f

    close(acc.jacobian(path(np, acc.gradient), cache=False)(X), jax.jit(jax.jacobian(path(jnp, jax.grad)))(X))
    assert 2 <= len(made) <= 4  # of numbers before values are traced, and of traced values


@pytest.mark.parametrize(
    "make",
    [
        lambda grad: lambda x: x * grad(lambda y: x + y)(1.0),
        lambda grad: lambda x: x * grad(lambda y: x * y)(x),
        lambda grad: lambda x: grad(lambda y: y * grad(lambda z: x * y * z**3)(y) * x)(x),
        lambda grad: lambda x: grad(lambda y: x * grad(lambda z: y * z)(x * y))(2.0),
    ],
)
def test_perturbations_are_not_confused(make):
    ours, theirs = make(acc.gradient), make(jax.grad)
    close(acc.jacobian(ours, **QUICK)(3.0), jax.jit(jax.jacobian(theirs))(3.0))
    close(acc.compile(ours, **QUICK)(3.0), jax.jit(theirs)(3.0))


class TestDecisions:
    def test_merged_and_guarded_ones_are_those_of_the_recording(self):
        def merged(x):
            return x**3 if x > 1.0 else x * np.sin(x)

        def guarded(x):
            n = 1
            while x > 1.0:
                x, n = x * x / 2.5, n + 1
            return x**3 * n

        second = acc.jacobian(acc.gradient(merged))
        close(second.batch(np.array([2.0, 0.5])), np.array([12.0, 2.0 * np.cos(0.5) - 0.5 * np.sin(0.5)]))
        second = acc.jacobian(acc.gradient(guarded))
        close(second.batch(np.array([0.5, 1.5])), np.array([3.0, 2 * 30 * 1.5**4 / 2.5**3]))
        assert len(second.report().cases) == 2

    def test_on_values_from_around(self):
        def f(x):
            return acc.gradient(lambda y: y**2 if x[0] > 0.0 else y**3)(x[1])

        close(acc.jacobian(f, **QUICK)(X), [0.0, 2.0, 0.0])
        close(acc.jacobian(f, **QUICK)(-X), [0.0, 6.0 * 0.7, 0.0])

    def test_order_and_indices(self):
        def f(x):
            return np.sort(x)[0] ** 3 * x[int(abs(x[1]))]

        close(acc.jacobian(acc.gradient(f), **QUICK)(X), acc.hessian(f, **QUICK)(X))
        assert acc.hessian(f, **QUICK)(X)[1, 1] == pytest.approx(6.0 * -0.7 * 0.3)


class TestRepeated:
    def test_inside(self):
        def f(x):
            end, _ = acc.scan(lambda c, u: (c * np.sin(u) + u, c), x[0], np.arange(1.0, 4.0))
            return end * x[1] + np.sum(acc.map(lambda u: np.sin(u) * u * x[0], x))

        def by_jax(x):
            end, _ = jax.lax.scan(lambda c, u: (c * jnp.sin(u) + u, c), x[0], jnp.arange(1.0, 4.0))
            return end * x[1] + jnp.sum(jnp.sin(x) * x * x[0])

        close(acc.jacobian(acc.gradient(f), **QUICK)(X), jax.jit(jax.hessian(by_jax))(X))

    def test_around(self):
        def f(x):
            return acc.map(acc.gradient(lambda v: v**3 * x[0]), x)

        close(acc.jacobian(f, **QUICK)(X), jax.jit(jax.jacobian(lambda x: 3.0 * x**2 * x[0]))(X))


class TestOfLongArrays:
    """They stay operations on arrays: against what is written out entry by entry, which the others hold to be right."""

    X = np.linspace(0.4, 1.6, 5)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x * acc.gradient(lambda y: np.sum((x + y) ** 3))(x),
            lambda x: acc.gradient(lambda y: np.sum(y * acc.gradient(lambda z: np.sum(x * y * z**3))(y) * x))(x),
            lambda x: acc.gradient(lambda y: acc.gradient(lambda z: np.sum(z**2 * y))(x)[1])(x**2) + x,
            lambda x: acc.gradient(lambda y: np.sum(np.where(x > 1.0, y**2 * x, y**3)))(x * x),
            lambda x: acc.jvp(lambda y: y[1:] * np.sin(y[:-1]))((x,), (x**2,))[1] * x[1:],
            lambda x: acc.taylor(lambda y: y[1:] * np.sin(y[:-1]))((x,), (np.stack([x**2, x]),))[1][1],
            lambda x: acc.hvp(lambda y, a: a * np.sum(y[1:] ** 2 * y[:-1]))((x, x[0]), (x**2, 1.0))[0],
            lambda x: acc.hessian(lambda y: np.sum(y[1:] ** 2 * y[:-1] * x[0]))(np.sqrt(x)) @ x,
            lambda x: acc.gradient(lambda y: acc.scan(lambda c, u: (c * u + x[0], c), y[0], y**2)[0])(x),
            lambda x: acc.compile(lambda y: {"a": np.cumsum(y), "b": y[::-1] ** 2})(x * x)["b"],
            lambda x: acc.jacobian(lambda y: acc.map(acc.gradient(lambda u: u**3 * x[0]), y))(x) @ x,
        ],
    )
    def test_within_and_around(self, function):
        looped, actual, expected = both(function, self.X)
        assert looped._program().code.has_loops
        assert_same(actual, expected)

    def test_hessians_of_lagrangians(self):
        def energy(x, k):
            return k * np.sum(np.sin(x[1:]) * x[:-1] ** 2)

        def constraints(x, k):
            return x[1:] * x[:-1] ** 3 / k

        arguments = self.X, 0.7, np.arange(1.0, 5.0), 1.3
        with unrolled(0):
            looped = acc.hessian_of_lagrangian(energy, constraints, sparse="csr", **QUICK)
            result = looped(*arguments)
        assert looped._program().code.has_loops
        weighted = lambda x: 0.7 * energy(x, 1.3) + np.sum(arguments[2] * constraints(x, 1.3))  # noqa: E731
        assert_same(result, acc.hessian(weighted, sparse="csr", **QUICK)(self.X))

    def test_decisions(self):
        def f(x):
            return acc.gradient(lambda y: np.sum(y**3) if y[0] * x[1] > 0.0 else np.sum(y**2))(x)

        with unrolled(0):
            second = acc.jacobian(f, cache=False)
            close(second(self.X), np.diag(6.0 * self.X))
            close(second(self.X * np.array([-1.0, 1, 1, 1, 1])), 2.0 * np.eye(5))

    def test_many_of_them_are_written_out(self, monkeypatch):
        monkeypatch.setattr(nesting, "MOST_COPIES", 2)

        def root(x):
            for _ in range(3):
                x = x - 0.1 * acc.gradient(lambda y: np.sum(y**2))(x)
            return x

        looped, actual, expected = both(root, self.X)
        assert looped._program().code.has_loops
        assert_same(actual, expected)


def test_newton_with_a_separate_derivative():
    def root(a):
        y = 1.0
        for _ in range(6):
            residual = lambda y: y**3 + y - a  # noqa: E731  # of the a around it
            y = y - residual(y) / acc.gradient(residual)(y)
        return y

    assert acc.jacobian(root, **QUICK)(2.0) == pytest.approx(0.25, rel=1e-12)


def test_structures_and_keywords():
    def f(p, scale=1.0):
        return p["a"] * p["b"][0] ** 2 * scale

    def around(x):
        return acc.gradient(f, argnames="scale")({"a": x[0], "b": [x[1], 1.0]}, scale=x[2])

    close(acc.jacobian(around, **QUICK)(X), [0.49, 2.0 * 0.3 * -0.7, 0.0])


def test_functions_of_jax():
    close(acc.jacobian(acc.gradient(energy(jnp), **QUICK), **QUICK)(X), jax.jit(jax.hessian(energy(jnp)))(X))


STRENGTH = 3.0


def test_captured_variables_are_watched(monkeypatch):
    def f(x):
        return np.sum(x**3) * STRENGTH

    inner = acc.gradient(f, **QUICK)
    second = [acc.jacobian(inner, **QUICK), acc.jacobian(lambda x: 1.0 * inner(x), **QUICK), acc.hessian(f, **QUICK)]
    assert [float(each(X)[2, 2]) for each in second] == pytest.approx([6.0 * 1.2 * 3.0] * 3)
    monkeypatch.setitem(globals(), "STRENGTH", 5.0)
    assert [float(each(X)[2, 2]) for each in second] == pytest.approx([6.0 * 1.2 * 5.0] * 3)


def test_linear_systems_and_extremes_have_second_derivatives():
    def matrix(x):
        return [[4.0, x[0], 1.0, 0.0], [x[1], 3.0, 0.0, 0.5], [0.1, 0.2, 5.0, x[2]], [x[0], 0.3, 0.1, 6.0]]

    def f(x):
        solved = np.linalg.solve(np.array(matrix(x)), np.array([1.0, 2.0, 3.0, x[0]]))
        return np.sum(solved**2) + np.max(x**3) ** 2

    def by_mpmath(*x):
        solved = mpmath.lu_solve(mpmath.matrix(matrix(x)), mpmath.matrix([1.0, 2.0, 3.0, x[0]]))
        return sum(each**2 for each in solved) + x[2] ** 6

    actual = acc.hessian(f, **QUICK)(X)
    with mpmath.workdps(50):
        for i, j, orders in ((0, 0, (2, 0, 0)), (1, 0, (1, 1, 0)), (2, 2, (0, 0, 2))):
            expected = mpmath.diff(by_mpmath, tuple(map(mpmath.mpf, X.tolist())), orders)
            assert actual[i, j] == actual[j, i] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("x", [np.zeros(3), np.array([1.0, 1.0, 0.0, 1.0])])
def test_second_derivatives_where_several_are_greatest(x):
    def of(np):
        return lambda x: np.max(x) + np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x) ** 2

    with jax.enable_x64(True):
        expected = jax.jit(jax.hessian(of(jnp)))(x)
    np.testing.assert_allclose(acc.hessian(of(np), **QUICK)(x), expected, atol=1e-15)
    product = acc.hvp(of(np), **QUICK)((x,), (np.arange(len(x)) + 1.0,))
    np.testing.assert_allclose(product[0], expected @ (np.arange(len(x)) + 1.0), atol=1e-14)
    coefficients = acc.taylor(of(np), **QUICK)((x,), (np.stack([np.ones(len(x)), 0.0 * x]),))[1]
    np.testing.assert_allclose(coefficients, [1.0 + 2.0 * np.max(x), 1.0], atol=1e-14)


def test_second_derivatives_where_a_remainder_is_zero():
    x = np.array([2.0, -2.0])
    expected = [[2.0, 1.0], [1.0, 0.0]]  # of x² + x·y, which x·(x % y) is from there on
    np.testing.assert_array_equal(acc.hessian(lambda x: (x[0] % x[1]) * x[0], **QUICK)(x), expected)


def test_rules_other_than_the_derivatives_of_the_operations_are_differentiated():
    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda primals, tangents: (square(*primals), 3 * primals[0] * tangents[0]))
    np.testing.assert_allclose(acc.hessian(lambda x: jnp.sum(square(x)), **QUICK)(X), 3 * np.eye(len(X)), rtol=1e-12)


def test_gradients_that_are_stopped():
    def f(x):
        return jnp.sum(jnp.sin(x) * jax.lax.stop_gradient(x) ** 2)

    np.testing.assert_allclose(acc.hessian(f, **QUICK)(X), jax.jit(jax.hessian(f))(X), rtol=1e-12, atol=1e-14)


def test_derivatives_that_cannot_be_nested_raise():
    with pytest.raises(ArgumentError, match="sparse is 'csr' for a derivative of"):
        acc.jacobian(acc.jacobian(lambda y: y**2, sparse=True))(X)
    with pytest.raises((ArgumentError, TraceError), match="is a traced value of another recording"):
        acc.jacobian(lambda x: acc.jacobian(lambda y: y**2).batch(x))(X)


NAMES = ("sin", "exp", "tanh", "sqrt_of_square", "reciprocal")


def program(choices, library):
    """A function of three numbers as a chain of smooth operations."""

    def f(x, y, z):
        values = [x, y, z]
        for name, i, j in choices:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(
                {
                    "sin": lambda a, b: library.sin(a) * b,
                    "exp": lambda a, b: library.exp(-a * a) + b,
                    "tanh": lambda a, b: library.tanh(a - b),
                    "sqrt_of_square": lambda a, b: library.sqrt(1.0 + a * a * b * b),
                    "reciprocal": lambda a, b: a / (2.0 + b * b),
                }[name](a, b)
            )
        return values[-1] * values[-2]

    return f


@settings(max_examples=4, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_random_programs_against_fifty_digits(choices):
    actual = acc.jacobian(acc.gradient(program(choices, np), (0, 1, 2), **QUICK), (0, 1, 2), **QUICK)(*X)
    with mpmath.workdps(50):
        for i in range(3):
            for j in range(3):
                orders = tuple((i == k) + (j == k) for k in range(3))
                expected = mpmath.diff(program(choices, mpmath), tuple(map(mpmath.mpf, X.tolist())), orders)
                assert float(actual[i][j]) == pytest.approx(float(expected), rel=1e-10, abs=1e-11)


def pose(np):
    """A point after a pose, which is turned and moved by small numbers, as its camera sees it."""

    def seen(d, p):
        u = np.concatenate([p[:1] * 0.0 + 1.0, d[:3] / 2]) / np.sqrt(1.0 + d[:3] @ d[:3] / 4)
        t = 2.0 * np.cross(u[1:], p)
        x = p + u[0] * t + np.cross(u[1:], t) + d[3:]
        return x[:2] / x[2] * (1.0 + x[:2] @ x[:2])

    return seen


#: Functions of d and p, of which derivatives by d are taken where d are numbers.
AT_NUMBERS = {
    "products": lambda np: lambda d, p: d[0] * d[1] * d[2] * np.sin(p[0]) + np.exp(d[1] * p[1]) + d @ p,
    "quotients": lambda np: lambda d, p: d[0] * p[0] / (d[1] + p[1]) + p[0] / (1.0 + d[2]) + d[1] ** 2 / p[2],
    "powers": lambda np: lambda d, p: (d[0] + p[0]) ** 3 * d[1] ** 2 + d[2] * p[1] * np.cos(d[0]),
    "choices": lambda np: lambda d, p: np.where(d[0] > p[0], d[1] * p[0], d[1] ** 2 * p[1]) + np.maximum(d[2], p[2]),
    "kinks": lambda np: lambda d, p: np.sqrt(1e-3 + d @ d) * p[0] + np.abs(d[0] - 3.0) * p[1],
}


def results_at(library, f, gradient, hessian, at, p):
    return library.concatenate([gradient(f)(at, p), hessian(f)(at, p).ravel(), p * gradient(f)(at, p)])


@cache
def references_at_numbers(name):
    """Return a function of d and p: the results, their Jacobian, and that of a derivative along X; compiled once."""
    f = AT_NUMBERS[name](jnp)

    def references(at, p):
        results = partial(results_at, jnp, f, jax.grad, jax.hessian, at)
        along = jax.jacobian(lambda p: jax.jvp(lambda d: f(d, p), (at,), (X,))[1])
        return results(p), jax.jacobian(results)(p), along(p)

    return jax.jit(references)


@pytest.mark.parametrize("at", [np.zeros(3), np.array([1.0, 0.0, -2.0])], ids=str)
@pytest.mark.parametrize("name", AT_NUMBERS)
def test_derivatives_at_numbers(name, at):
    f = AT_NUMBERS[name](np)
    expected, jacobian, expected_along = references_at_numbers(name)(at, X + 1.0)
    inside = acc.value_and_jacobian(lambda p: results_at(np, f, acc.gradient, acc.hessian, at, p), **QUICK)
    close(inside(X + 1.0), (expected, jacobian))
    along = acc.jacobian(lambda p: acc.jvp(f)((at, p), (X, None))[1], **QUICK)(X + 1.0)
    close(along, expected_along)


def test_zeros_are_folded_before_planning(monkeypatch):
    sizes, original = [], nesting.derived

    def noted(recording, kind, selection, preparation, points=None, constants=None):
        def planned(linearization, context):
            sizes.append(len(linearization.graph.labels))
            return plan_of(linearization, context)

        with monkeypatch.context() as patched:
            patched.setattr(derived, "plan_of", planned)
            original(recording, kind, selection, preparation, points, None)
            return original(recording, kind, selection, preparation, points, constants)

    plan_of = derived.plan_of
    monkeypatch.setattr(nesting, "derived", noted)
    p = np.array([0.3, -0.7, 2.2])
    result = acc.compile(lambda p: acc.jacobian(pose(np))(np.zeros(6), p), **QUICK, cache=False)(p)
    plain, folded = sizes
    assert folded < 0.8 * plain
    close(result, jax.jit(jax.jacobian(pose(jnp)))(np.zeros(6), p))


@pytest.mark.parametrize("at", [np.zeros(3), np.array([0.0, 0.0, 1.0])], ids=str)
def test_a_zero_times_infinity_is_not_folded(at):
    """|d| has no derivative at 0, though d @ d is flat there."""

    def f(d, p):
        return np.hypot(d[0], d[1]) * p[0] + np.sqrt(d[0] * d[1]) * p[1] + np.log(p[2] + d[2])

    within = acc.compile(lambda p: acc.gradient(f, **QUICK)(at, p), **QUICK)(X)
    np.testing.assert_allclose(within, acc.gradient(f, **QUICK)(at, X), rtol=1e-14)
    assert np.isnan(within[:2]).all()
    assert np.isfinite(within[2])


def test_functions_undefined_at_the_first_point_are_defined_elsewhere():
    def f(d, p):
        return np.sqrt(d[0] ** 2) * p[0] + d[1] * np.sqrt(p[1])

    within = acc.compile(lambda p: acc.gradient(f, **QUICK)(np.zeros(2), p), **QUICK)
    assert np.isnan(within(np.array([1.0, -4.0])))[1]
    np.testing.assert_array_equal(within(np.array([1.0, 4.0])), [np.nan, 2.0])
