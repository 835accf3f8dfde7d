"""Hessians of sums of loops: planned as one scalar function an instance, and the same as by JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import accumulus as acc
from accumulus.arrays import separable


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


N = 70
RANDOM = np.random.default_rng(0)


def step(np, x, u):
    """Return the state after a step of a pendulum with a state-dependent push."""
    a, s = x
    s = s - 0.1 * np.sin(a) * u + 0.05 * s * a
    return np.stack([a + 0.1 * s, s])


def lagrangian(np, each, z, m):
    """Return cost and weighted gaps of an optimal-control problem; the state after the last step is free."""
    rows = z[: 3 * N].reshape(N, 3)
    states = np.concatenate([rows[:, :2], z[3 * N :].reshape(1, 2)])
    gaps = each(lambda x, u: step(np, x, u), states[:-1], rows[:, 2]) - states[1:]
    return np.sum((states - 0.5) ** 2) + 0.1 * np.sum(rows[:, 2] ** 2) + np.sum(m * np.ravel(gaps))


def energy(np, each, x, k):
    """Return the energy of a chain, in which neighbours share entries, and one of the leaves is twice the same."""
    i = np.arange(N)
    terms = each(lambda a, b, c, k: k * np.exp(a * b) * np.cos(c) + a**3, x[i], x[i + 1], x[i // 2], k)
    return np.sum(terms) + 2.0 * np.sum(np.sin(x[3:] * 2.0) ** 2)


def scaled(np, each, x, k):
    """Return an energy of variables that are scaled first, each in a way of its own."""
    y = k[:1] + x * np.exp(0.01 * np.arange(N + 1.0))
    i = np.arange(N)
    return np.sum(each(lambda a, b, k: k * np.sin(a * b) + b**3, y[i], y[i + 1], k))


def mapped(f, *xs):
    return jax.vmap(f)(*xs)


CASES = {
    "lagrangian": (lagrangian, (RANDOM.normal(size=3 * N + 2), RANDOM.normal(size=2 * N))),
    "energy": (energy, (RANDOM.normal(size=N + 1), RANDOM.normal(size=N))),
    "scaled": (scaled, (RANDOM.normal(size=N + 1), RANDOM.normal(size=N))),
}


@pytest.fixture
def used(monkeypatch):
    """Return what was found to be a sum of loops, as it comes."""
    results = []
    original = separable.separable_hessian

    def noted(*args):
        results.append(original(*args))
        return results[-1]

    monkeypatch.setattr(separable, "separable_hessian", noted)
    return results


@pytest.mark.parametrize("name", CASES)
def test_hessians_are_those_of_jax(name, used):
    f, arguments = CASES[name]
    reference = jax.jit(jax.hessian(lambda *args: f(jnp, mapped, *args)))(*arguments)
    scale = np.abs(reference).max()
    options = {"cache": False, "effort": "fast", "check": False}
    dense = acc.hessian(lambda *args: f(np, acc.map, *args), **options)
    program = dense.compile_loops(*arguments)
    assert used[-1] is not None
    np.testing.assert_allclose(program(*arguments), reference, rtol=0, atol=1e-12 * scale)
    sparse = acc.hessian(lambda *args: f(np, acc.map, *args), sparse="csr", **options).compile_loops(*arguments)
    np.testing.assert_allclose(sparse(*arguments).toarray(), reference, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("target", ["llvm", "numpy", "c"])
def test_values_and_gradients_come_along(target):
    f, arguments = CASES["lagrangian"]
    value, (gradient, hessian) = jax.jit(
        lambda *args: (
            f(jnp, mapped, *args),
            (jax.grad(f, 2)(jnp, mapped, *args), jax.hessian(f, 2)(jnp, mapped, *args)),
        )
    )(*arguments)
    whole = acc.value_gradient_hessian(
        lambda *args: f(np, acc.map, *args), cache=False, effort="fast", check=False, target=target
    ).compile_loops(*arguments)
    for mine, other in zip(whole(*arguments), (value, gradient, hessian), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-11)


def test_programs_that_are_no_sum_of_loops_are_left_alone(used):
    def f(x):
        return np.exp(np.sum(acc.map(lambda a: a**2 * np.sin(a), x)) / N)

    x = RANDOM.normal(size=N)
    result = acc.hessian(f, cache=False, effort="fast", check=False).compile_loops(x)(x)
    assert used == [None]
    reference = jax.jit(jax.hessian(lambda x: jnp.exp(jnp.sum(x**2 * jnp.sin(x)) / N)))(x)
    np.testing.assert_allclose(result, reference, rtol=1e-10, atol=1e-12)


def steps_in_python(z, m):
    """Return the same problem as a loop in Python over the stages."""
    total = 0.0
    for k in range(N):
        x, u, after = z[3 * k : 3 * k + 2], z[3 * k + 2], z[3 * k + 3 : 3 * k + 5]
        total += np.sum((x - 0.5) ** 2) + 0.1 * u**2 + np.sum(m[2 * k : 2 * k + 2] * (step(np, x, u) - after))
    return total + np.sum((z[3 * N :] - 0.5) ** 2)


def test_a_loop_in_python_is_a_loop_over_stages(used):
    f, arguments = CASES["lagrangian"]
    result = acc.hessian(steps_in_python, cache=False, effort="fast", check=False).compile_loops(*arguments)
    assert used[-1] is not None
    assert result.code.compiled_operations < 300
    reference = jax.jit(jax.hessian(lambda *args: f(jnp, mapped, *args)))(*arguments)
    np.testing.assert_allclose(result(*arguments), reference, rtol=0, atol=1e-11)


def test_whole_vectors_are_instances(used):
    def f(z, m):
        rows = z[: 3 * N].reshape(N, 3)
        states = np.concatenate([rows[:, :2], z[3 * N :].reshape(1, 2)])
        gaps = step(np, states[:-1].T, rows[:, 2]).T - states[1:]
        return np.sum((states - 0.5) ** 2) + 0.1 * np.sum(rows[:, 2] ** 2) + np.sum(m * np.ravel(gaps))

    whole, arguments = CASES["lagrangian"]
    result = acc.hessian(f, cache=False, effort="fast", check=False).compile_loops(*arguments)
    assert used[-1] is not None
    reference = jax.jit(jax.hessian(lambda *args: whole(jnp, mapped, *args)))(*arguments)
    np.testing.assert_allclose(result(*arguments), reference, rtol=0, atol=1e-11)


@pytest.mark.parametrize("spoilt", ["_product", "_taken"])
def test_wrong_values_passed_on_by_a_sweep_are_detected(spoilt, used, monkeypatch):
    """Spoil the last entry or adjoint that is handed on, which no plan of a body and no sum of entries is about."""
    f, arguments = CASES["scaled"]
    original = getattr(separable._Sweep, spoilt)

    def wrong(self, *args):
        references = original(self, *args)
        if references is not None and len(references) == N:
            references = references.copy()
            references[-1] = self.made.constant(3.0)
        return references

    monkeypatch.setattr(separable._Sweep, spoilt, wrong)
    options = {"cache": False, "effort": "fast", "check": False}
    hessian = acc.hessian(lambda *args: f(np, acc.map, *args), **options).compile_loops(*arguments)
    assert used == [None]
    reference = jax.jit(jax.hessian(lambda *args: f(jnp, mapped, *args)))(*arguments)
    np.testing.assert_allclose(hessian(*arguments), reference, rtol=0, atol=1e-12 * np.abs(reference).max())
