"""Every kind of derivative, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import config

import accumulus as acc
from accumulus.errors import ArgumentError

config.update("jax_enable_x64", True)

QUICK = {"effort": "fast", "time_limit": 0.0}


def swirl(x, scale):
    return {"a": x[0] * np.sin(x[1]) * scale, "b": np.array([x[2] / x[0], np.exp(x[0] * x[1])])}


def by_jax(x, scale):
    return {"a": x[0] * jnp.sin(x[1]) * scale, "b": jnp.array([x[2] / x[0], jnp.exp(x[0] * x[1])])}


POINT = np.array([0.7, -0.4, 1.9])


def agree(ours, theirs, tolerance=1e-12):
    """Whether two results have one structure and the same numbers."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), ours, theirs)


def collatz(x):
    """A function that decides on values."""
    steps = 0
    while x > 1.0:
        x = x / 2.0
        steps += 1
    return x * steps


class TestCompiled:
    def test_results_are_those_of_the_function(self):
        agree(acc.compile(swirl, **QUICK)(POINT, 2.0), by_jax(POINT, 2.0))

    def test_batches_with_axes_and_out(self):
        compiled = acc.compile(swirl, **QUICK)
        X = np.stack([POINT, 2.0 * POINT], axis=1)
        expected = jax.vmap(by_jax, in_axes=(1, None))(X, 2.0)
        agree(compiled.batch(X, 2.0, in_axes=(1, None)), expected)
        out = {"a": np.empty(2), "b": np.empty((2, 2))}
        compiled.batch(X, 2.0, in_axes=(1, None), out=out)
        agree(out, expected)

    def test_decisions_are_cases(self):
        compiled = acc.compile(collatz, **QUICK)
        points = np.array([5.0, 3.0, 40.0, 0.5])
        assert compiled.batch(points).tolist() == [collatz(x) for x in points]
        assert len(compiled.report().cases) == 4

    def test_long_arrays_are_loops(self):
        def f(x):
            return np.roll(x, 1) * x + np.sin(x) ** 2

        compiled, x = acc.compile(f, **QUICK), np.linspace(0.0, 3.0, 30_000)
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
        assert "Value of f" in str(compiled.report())

    def test_the_report_tells_of_no_plan(self):
        compiled = acc.compile(swirl, **QUICK)
        compiled(POINT, 2.0)
        page = str(compiled.report())
        assert "Value of swirl" in page
        assert "markowitz" not in page
        assert compiled.operations == sum(compiled.report().by_kind.values())

    def test_sparse_is_refused(self):
        with pytest.raises(ArgumentError, match="whose results are arrays"):
            acc.compile(swirl, sparse=True)

    def test_exact_order_is_bit_for_bit(self):
        def f(x):
            return (x[0] + x[1]) + x[2] * x[0] + x[2] * x[1]

        assert acc.compile(f, exact_order=True)(POINT) == f(POINT)


def test_value_and_gradient():
    def f(x, y):
        return np.sum(x**3) * y

    agree(acc.value_and_gradient(f, (0, 1), **QUICK)(POINT, 2.0), jax.value_and_grad(f, (0, 1))(jnp.array(POINT), 2.0))
    with pytest.raises(ArgumentError, match="value_and_gradient needs a function that returns one number"):
        acc.value_and_gradient(swirl)(POINT, 2.0)
