"""Branches, loops and rules of JAX's functions."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax_oracle import FAST, agree  # noqa: E402

import accumulus as acc  # noqa: E402

X = np.array([0.3, -0.7, 1.2])


def test_branches():
    def f(x):
        return {
            "cond": lax.cond(x[0] > 0, lambda v: v**2, jnp.exp, x),
            "constant": lax.cond(True, jnp.sin, jnp.cos, x),
            "switch": lax.switch((x[2] * 2).astype(int), [jnp.sin, jnp.cos, jnp.exp], x),
            "far": lax.switch((x[2] * 9).astype(int), [jnp.sin, jnp.cos, jnp.exp], x),
            "off": lax.cond(x[1] > 0, jnp.sqrt, lambda v: v, x[1]),
            "each": jax.vmap(lambda v: lax.cond(v > 0, jnp.sin, jnp.cos, v))(x),
        }

    agree(f, X, points=2)


def test_loops():
    table = jnp.array([0.5, -1.0, 2.0])

    def f(x):
        def cell(c, y):
            return jnp.tanh(c + y), c * y

        def two(c, row):
            (y, z), k = c, row["k"]
            return (y * z, z + k), {"sum": y + z}

        return {
            "fori": lax.fori_loop(0, 5, lambda i, c: c * 0.5 + jnp.sin(c) * i, x),
            "entries": lax.fori_loop(0, 3, lambda i, c: c + jnp.sin(x[i] * c) * table[i], 0.1),
            "set": lax.fori_loop(1, 3, lambda i, c: c.at[i].set(c[i - 1] * x[i]), x),
            "scan": lax.scan(cell, x[0], x),
            "reverse": lax.scan(cell, x[0], x, reverse=True),
            "counted": lax.scan(lambda c, _: (c * x[1], c + x[2]), x[0], None, length=3, reverse=True),
            "backwards": lax.scan(lambda c, i: (c + x[i], c * x[i]), 0.0, jnp.arange(3), reverse=True),
            "tree": lax.scan(two, (x[0], x[1]), {"k": x}),
            "while": lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1],
            "nested": lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(0, i + 2, lambda j, d: d * x + j, c), x),
            "map": lax.map(lambda y: y * jnp.sin(y) + x[0], x),
            "steps": lax.scan(lambda c, y: (c, y * y), (), x)[1],
            "truth": lax.scan(lambda c, y: ((y > 0, c[1] + y * c[0]), None), (True, 0.0), x)[0][1],
            "none": lax.fori_loop(0, 0, lambda i, c: c + 1.0, x),
            "associative": lax.associative_scan(jnp.multiply, x),
            "fibonacci": lax.fori_loop(0, 6, lambda i, c: (c[1], c[0] + c[1], c[2] * c[0]), (1, 2, x))[2],
        }

    agree(f, X)


def test_decisions_at_a_point_become_a_case():
    def root(x):
        return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-10, lambda s: s - (s * s - x) / (2 * s), x)

    derivative = acc.value_and_jacobian(root, **FAST)
    points = np.array([2.0, 3.0, 50.0, 200.0])
    value, slope = derivative.batch(points)
    np.testing.assert_allclose(value, np.sqrt(points), rtol=1e-9)
    np.testing.assert_allclose(slope, 0.5 / np.sqrt(points), rtol=1e-4)
    table = acc.jacobian(lambda x: jnp.arange(200.0)[(x * 100).astype(int)] * x, **FAST)
    np.testing.assert_array_equal(table.batch(np.array([0.555, 0.205, 1.505])), [55.0, 20.0, 150.0])
    x = np.random.default_rng(0).permutation(40) / 40.0
    order = acc.jacobian(lambda x: jnp.sort(x) + 0.0, **FAST)(x)
    np.testing.assert_array_equal(order, np.eye(40)[np.argsort(x)])


def test_long_loops_stay_loops():
    def oscillator(y):
        def step(i, y):
            return y + 0.001 * jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

        return lax.fori_loop(0, 1000, step, y)

    derivative = agree(oscillator, np.array([1.0, 0.5]), rtol=1e-8)
    loops = derivative._program().recording.program
    assert loops is not None
    assert len(loops.blocks) < 20


def test_long_arrays_stay_arrays():
    def energy(x):
        return jnp.sum((x[1:] - x[:-1] ** 2) ** 2) + jnp.sum(jax.nn.softplus(x))

    x = np.linspace(-1.0, 1.0, 5000)
    gradient = acc.gradient(energy, **FAST)
    with jax.enable_x64(True):
        np.testing.assert_allclose(gradient(x), jax.jit(jax.grad(energy))(jnp.asarray(x)), rtol=1e-11, atol=1e-12)
    assert not gradient._program().recording.program.is_straight


def test_rules_of_functions_count():
    @jax.custom_jvp
    def straight(x):
        return jnp.round(x)

    straight.defjvp(lambda x, t: (straight(x[0]), t[0]))

    @jax.custom_jvp
    def pair(x, y):
        return x * y, jnp.sum(x)

    pair.defjvps(lambda t, answer, x, y: (3.0 * t * y, jnp.sum(t)), lambda t, answer, x, y: (t * x, 0.0 * jnp.sum(t)))
    agree(lambda x: {"straight": straight(x * x), "pair": pair(x, x[::-1]), "kept": straight(2.0) * x}, X)

    @jax.custom_vjp
    def tripled(x):
        return jnp.sin(x), x[0]

    tripled.defvjp(lambda x: (tripled(x), x), lambda x, g: (3.0 * g[0] * jnp.cos(x) + g[1],))
    got = acc.jacobian(lambda x: tripled(2.0 * x), **FAST)(X)
    with jax.enable_x64(True):
        expected = jax.jit(jax.jacrev(lambda x: tripled(2.0 * x)))(jnp.asarray(X))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_rules_are_smooth_where_branches_of_the_function_meet():
    at = np.zeros(2)
    agree(lambda x: {"softplus": jax.nn.softplus(x), "log": jnp.logaddexp(x, x[0]), "sinc": jnp.sinc(x)}, at)
    derivative = acc.jacobian(jax.nn.relu, **FAST)
    np.testing.assert_array_equal(derivative(at), np.zeros((2, 2)))
    assert derivative.operations <= 4  # the rule, and nothing of what it is multiplied with


def test_functions_of_jax_have_all_derivatives_where_their_branches_meet():
    at = np.full(2, 0.5)
    functions = {
        np.logaddexp: jnp.logaddexp,
        np.logaddexp2: jnp.logaddexp2,
        np.hypot: jnp.hypot,
    }
    for expected, function in functions.items():
        third = acc.jacobian(acc.hessian(jax.jit(lambda x, f=function: f(x[0], x[1])), **FAST), **FAST)(at)
        reference = acc.jacobian(acc.hessian(lambda x, f=expected: f(x[0], x[1]), **FAST), **FAST)(at)
        np.testing.assert_allclose(third, reference, rtol=1e-14)
    np.testing.assert_allclose(acc.hessian(lambda x: jax.nn.softplus(x[0]), **FAST)(np.zeros(1)), [[0.25]])


def test_rules_of_users_count_whatever_the_function_is_called():
    @jax.custom_jvp
    def hypot(x, y):
        return jnp.sqrt(x * x + y * y)

    hypot.defjvp(lambda x, t: (hypot(*x), 2.0 * t[0] + 3.0 * t[1]))
    np.testing.assert_array_equal(acc.gradient(lambda x: hypot(x[0], x[1]), **FAST)(np.ones(2)), [2.0, 3.0])


def test_transformed_functions():
    def loss(x):
        return jnp.sum(jnp.tanh(x) ** 2 * x[0]) + jax.nn.logsumexp(x)

    with_jit = jax.jit(jax.checkpoint(loss))
    agree(jax.grad(with_jit), X, points=2)
    agree(jax.hessian(loss), X)
    agree(lambda x: jax.jvp(loss, (x,), (jnp.cos(x),))[1], X)
    agree(jax.vmap(jax.grad(lambda x: jnp.sin(x) * x)), X)
