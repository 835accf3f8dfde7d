"""Derivatives as functions of JAX's arrays, called by JAX's compiled code."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import accumulus as acc  # noqa: E402
from accumulus.errors import ArgumentError, TraceError, UnknownNameError  # noqa: E402

FAST = {"cache": False, "time_limit": 0, "optimise": False}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def f(x, k):
    return {"a": np.array([x[0] * x[1] * k, np.sin(x[0]), x[1] / x[0]]), "b": x[1] * k}


def same(x, k):
    return {"a": jnp.array([x[0] * x[1] * k, jnp.sin(x[0]), x[1] / x[0]]), "b": x[1] * k}


X = np.array([0.3, 0.7])


def close(got, expected, rtol=1e-12):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert isinstance(one, jax.Array)
        np.testing.assert_allclose(one, other, rtol, 1e-13)


def test_inside_of_compiled_functions():
    derivative = acc.jax.jacobian(f, argnums=(0, 1), **FAST)

    @jax.jit
    def around(x, k):
        return jax.tree.map(lambda leaf: 2.0 * leaf, derivative(x + 0.1, k))

    expected = jax.jit(jax.jacfwd(same, argnums=(0, 1)))(jnp.asarray(X) + 0.1, 2.0)
    close(around(X, 2.0), jax.tree.map(lambda leaf: 2.0 * leaf, expected))
    close(derivative(X, 2.0), jax.jit(jax.jacfwd(same, argnums=(0, 1)))(jnp.asarray(X), 2.0))
    assert "accumulus_2_4_0" in around.lower(X, 2.0).as_text()  # XLA calls the machine code itself


def test_mapped_over_points_on_any_axes():
    points = np.random.default_rng(0).uniform(0.5, 1.5, (7, 2))
    derivative = acc.jax.value_and_jacobian(f, **FAST)
    expected = acc.value_and_jacobian(f, **FAST).batch(points, 2.0, in_axes=(0, None))
    close(jax.jit(jax.vmap(derivative, in_axes=(0, None)))(points, 2.0), expected)
    close(jax.vmap(derivative, in_axes=(1, None))(points.T, 2.0), expected)
    both = jax.vmap(jax.vmap(derivative, in_axes=(0, None)), in_axes=(None, 0))(points, jnp.arange(1.0, 4.0))
    close(jax.tree.map(lambda leaf: leaf[1], both), expected)
    assert jax.vmap(derivative, in_axes=(0, None))(points[:0], 2.0)[0]["a"].shape == (0, 3)


def test_in_loops_of_jax():
    slope = acc.jax.gradient(lambda x: np.sum(x**4) + x[0] * x[1], **FAST)
    end = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: x - 0.05 * slope(x), x))(X)
    expected = X.copy()
    for _ in range(50):
        expected -= 0.05 * (4 * expected**3 + expected[::-1])
    np.testing.assert_allclose(end, expected, rtol=1e-12)


def test_jax_differentiates_them_once_more():
    derivative = acc.jax.jacobian(f, **FAST)
    expected = jax.jit(jax.jacfwd(jax.jacfwd(same)))(jnp.asarray(X), 2.0)
    close(jax.jit(jax.jacfwd(derivative))(jnp.asarray(X), 2.0), expected)
    total = jax.grad(lambda x: derivative(x, 2.0)["a"].sum())(jnp.asarray(X))
    np.testing.assert_allclose(total, expected["a"].sum((0, 1)), rtol=1e-12)


def test_functions_of_jax_and_structures_of_arguments():
    def loss(parameters, x):
        return jnp.sum(jnp.tanh(parameters["w"] @ x + parameters["b"][0]) * parameters["b"][1])

    parameters = {"w": np.arange(6.0).reshape(2, 3) / 5.0, "b": (np.array([0.1, -0.2]), 0.5)}
    got = jax.jit(acc.jax.gradient(loss, **FAST))(parameters, jnp.ones(3))
    close(got, jax.jit(jax.grad(loss))(jax.tree.map(jnp.asarray, parameters), jnp.ones(3)))
    listed = acc.jax.jacobian(lambda x: x[0] * np.sin(x[1]), **FAST)([2.0, jnp.float64(0.5)])
    np.testing.assert_allclose(jnp.stack([jnp.asarray(x) for x in jax.tree.leaves(listed)]).ravel(),
                               [np.sin(0.5), 2.0 * np.cos(0.5)])  # fmt: skip


def test_static_arguments_and_keywords():
    derivative = acc.jax.jacobian(lambda x, n, *, k=1.0: k * x**n, static_argnums=1, **FAST)
    np.testing.assert_allclose(jax.jit(lambda x: derivative(x, 3, k=2.0))(jnp.array([1.0, 2.0])), np.diag([6.0, 24.0]))


def test_single_precision_where_arguments_are():
    with jax.enable_x64(False):
        derivative = jax.jit(acc.jax.jacobian(f, **FAST))
        result = derivative(jnp.asarray(X), 2.0)
        assert result["a"].dtype == np.float32
        np.testing.assert_allclose(
            result["a"], jax.jit(jax.jacfwd(same))(jnp.asarray(X), 2.0)["a"], rtol=1e-6, atol=1e-6
        )


def test_long_arrays_are_computed_without_copies():
    def energy(x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2)

    x = np.linspace(-1.0, 1.0, 30_000)
    slope = acc.jax.gradient(energy, cache=False, time_limit=0)
    result = jax.jit(slope)(x)
    np.testing.assert_allclose(result, acc.gradient(energy, cache=False, time_limit=0)(x), rtol=1e-12)
    rows = jax.vmap(slope)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(rows[1], slope(2 * x), rtol=1e-12)
    with pytest.raises(ArgumentError, match="works on long arrays"):
        jax.jvp(slope, (jnp.asarray(x),), (jnp.asarray(x),))


def test_a_program_in_the_operations_of_jax(monkeypatch):
    derivative = acc.jax.value_and_jacobian(lambda x: np.where(x > 0.5, np.hypot(x, 1.0), np.cbrt(x)) * x[0], **FAST)
    by_code = derivative(X)
    monkeypatch.setattr(jax, "default_backend", lambda: "another")
    in_words = jax.jit(derivative).lower(X).compile()
    close(in_words(X), by_code)


class TestOtherKinds:
    """Each kind within `jit` and `vmap`, against JAX's own."""

    parameters = {"w": np.arange(1.0, 5.0).reshape(2, 2) / 5.0, "b": np.array([0.1, -0.2])}  # noqa: RUF012
    points = np.array([[0.3, 0.7], [1.1, -0.4], [0.2, 0.9]])

    @staticmethod
    def energy(x, p):
        return jnp.sum(jnp.tanh(p["w"] @ x + p["b"]) * x) + x[0] ** 2 * x[1]

    def test_values_and_gradients(self):
        def both(make):
            return jax.jit(jax.vmap(make, in_axes=(0, None)))(self.points, self.parameters)

        close(both(acc.jax.value_and_gradient(self.energy, (0, 1), **FAST)),
              both(jax.value_and_grad(self.energy, (0, 1))))  # fmt: skip
        close(both(acc.jax.compile(self.energy, **FAST)), both(self.energy))

    def test_hessians(self):
        def mapped(make):
            return jax.jit(jax.vmap(make, in_axes=(0, None)))(self.points, self.parameters)

        expected = mapped(jax.hessian(self.energy))
        close(mapped(acc.jax.hessian(self.energy, **FAST)), expected)
        value, slope, curvature = mapped(acc.jax.value_gradient_hessian(self.energy, rows=[1], **FAST))
        close((value, slope), mapped(jax.value_and_grad(self.energy)))
        close(curvature, expected[:, 1:])
        entries = acc.jax.hessian(self.energy, entries=([1, 0], [0, 0]), **FAST)
        close(jax.jit(entries)(self.points[1], self.parameters), expected[1][jnp.array([1, 0]), jnp.array([0, 0])])

    def test_a_lagrangian(self):
        curvature = acc.jax.hessian_of_lagrangian(lambda x: x[0] ** 2 * x[1], lambda x: x**3, **FAST)
        actual = jax.jit(curvature)(X, 3.0, jnp.array([0.5, -2.0]))
        expected = 3.0 * np.array([[2.0 * X[1], 2.0 * X[0]], [2.0 * X[0], 0.0]]) + np.diag([3.0 * X[0], -12.0 * X[1]])
        close(actual, jnp.asarray(expected))

    def test_products(self):
        def f(x, p):
            return np.sum(x**3) * p + x[0] * x[1]

        x, v = jnp.asarray(X), jnp.array([0.5, -1.5])
        slope = 3.0 * X**2 * 2.0 + X[::-1]
        pushed = jax.jit(lambda x, v: acc.jax.jvp(f, **FAST)((x, 2.0), (v, None)))(x, v)
        close(pushed, (jnp.asarray(f(X, 2.0)), jnp.asarray(slope @ v)))
        value, (by_x, by_p) = jax.jit(acc.jax.vjp(f, **FAST))((x, 2.0), 0.5)
        close((value, by_x, by_p), tuple(map(jnp.asarray, (f(X, 2.0), 0.5 * slope, 0.5 * np.sum(X**3)))))
        curvature = jnp.asarray([[12.0 * X[0], 1.0], [1.0, 12.0 * X[1]]])
        product = acc.jax.hvp(f, **FAST)
        close(jax.jit(jax.vmap(lambda v: product((x, 2.0), (v, None))[0]))(jnp.eye(2)), curvature)
        close(jax.jit(product)((x, 2.0), (jnp.eye(2), None))[0], curvature)

    def test_they_are_differentiated_once_more(self):
        product = acc.jax.hvp(lambda x: np.sum(x**4) * x[0], **FAST)
        slope = jax.jit(jax.grad(lambda x: product((x,), (jnp.ones(2),))[0][1]))(jnp.asarray(X))
        close(slope, jnp.asarray([12.0 * X[1] ** 2, 24.0 * X[0] * X[1] + 12.0 * X[1] ** 2]))

    def test_names_of_static_arguments(self):
        compiled = acc.jax.compile(lambda x, n=2, *, sign=1: sign * x**n, static_argnames=("n", "sign"), **FAST)
        close(jax.jit(lambda x: compiled(x, n=3, sign=-1))(jnp.asarray(X)), jnp.asarray(-(X**3)))
        close(jax.jit(lambda x: compiled(x, 3))(jnp.asarray(X)), jnp.asarray(X**3))
        by_name = acc.jax.gradient(lambda x, y: x * y**2, argnames="y", **FAST)
        close(by_name(2.0, 3.0), jnp.float64(12.0))

    def test_signatures_name_existing_parameters(self):
        shown = {make: inspect.signature(getattr(acc.jax, make)).parameters for make in acc.jax.__all__}
        assert all("dtype" not in each and "effort" in each for each in shown.values())
        assert all(("rows" in shown[make]) == ("rows" in inspect.signature(getattr(acc, make)).parameters)
                   for make in shown)  # fmt: skip
        with pytest.raises(ArgumentError, match="needs a function that returns one number"):
            jax.jit(acc.jax.hessian(f, **FAST))(X, 2.0)
        with pytest.raises(UnknownNameError, match="unknown option 'rows'"):
            acc.jax.gradient(self.energy, rows=[1])


def test_unsupported_programs():
    with pytest.raises(ArgumentError, match="sparse was given"):
        acc.jax.jacobian(f, sparse=True)
    with pytest.raises(ArgumentError, match="without numbers"):
        acc.jax.jacobian(f)("text")
    with pytest.raises(TraceError, match="test_inside_jax"):
        jax.jit(acc.jax.jacobian(lambda x: x if x[0] > 0 else -x, **FAST))(X)


@pytest.mark.parametrize("name", acc.jax.__all__)
def test_a_missing_function_raises_python_s_error(name):
    with pytest.raises(TypeError, match="missing"):
        getattr(acc.jax, name)()
