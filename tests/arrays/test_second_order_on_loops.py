"""Reductions, scans and maps as users write them stay loops in derivatives of every kind, which are those of JAX."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
from looped import unrolled

import accumulus as acc
from accumulus.repetition import roll
from accumulus.tape import prices

jax = pytest.importorskip("jax", reason="the reference is JAX, which is not installed")

N = 12
WEIGHTS = np.linspace(1.0, 2.0, N)


def scanned(np, special, x):
    def step(state, e):
        return (state[0] * np.cos(x[1]) + e, np.tanh(state[1]) + state[0] * x[0]), state[0] * e

    scan = acc.scan if np.__name__ == "numpy" else jax.lax.scan
    (_, last), terms = scan(step, (0.1, 0.2), x)
    return last + np.sum(terms)


def mapped(f):
    def over_rows(np, special, x):
        several = acc.map if np.__name__ == "numpy" else jax.lax.map
        return np.sum(several(lambda row: f(np, special, row), x.reshape(-1, 4)))

    return over_rows


#: By what they are: functions of NumPy's words or JAX's, and of a vector.
FUNCTIONS = {
    "max": lambda np, special, x: np.max(np.sin(x)),
    "logsumexp": lambda np, special, x: special.logsumexp(x),
    "logsumexp of rows": lambda np, special, x: np.sum(special.logsumexp(x.reshape(-1, 4) ** 2, axis=1)),
    "softmax": lambda np, special, x: np.sum(special.softmax(x) ** 2),
    "norm": lambda np, special, x: np.linalg.norm(x),
    "cumsum": lambda np, special, x: np.sum(np.cumsum(x) ** 3),
    "sort": lambda np, special, x: np.sort(x) ** 3 @ WEIGHTS,
    "dot": lambda np, special, x: (x @ x) ** 2,
    "scan": scanned,
    "map of logsumexp": mapped(lambda np, special, row: special.logsumexp(row) ** 2),
}
IN_JAX = SimpleNamespace(logsumexp=jax.scipy.special.logsumexp, softmax=jax.nn.softmax, log_softmax=jax.nn.log_softmax)
X, V = 1.3 * np.cos(1.7 * np.arange(N)), np.sin(np.arange(N) + 1.0)


#: By what is returned: derivatives, and their arguments.
KINDS = {
    "sparse hessian": lambda f, **options: (acc.hessian(f, sparse="csr", **options), (X,)),
    "hvp": lambda f, **options: (acc.hvp(f, **options), ((X,), (V,))),
    "gradient of v·H·v": lambda f, **options: (acc.gradient(lambda x: acc.hvp(f)((x,), (V,))[0] @ V, **options), (X,)),
}


def references(f):
    """Return the same derivatives by JAX."""
    slope = jax.grad(f)

    def product(x):
        return jax.jvp(slope, (x,), (V,))[1]

    result = jax.jit(lambda x: (jax.hessian(f)(x), product(x), jax.grad(lambda x: product(x) @ V)(x)))(X)
    return dict(zip(KINDS, map(np.asarray, result), strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_stay_loops_and_are_those_of_jax(name):
    write = FUNCTIONS[name]

    def f(x):
        return write(np, scipy.special, x)

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        expected = references(lambda x: write(jax.numpy, IN_JAX, x))
    with unrolled(0):
        for kind, make in KINDS.items():
            derivative, arguments = make(f, target="numpy", effort="fast", cache=False, check=False)
            actual = derivative(*arguments)
            actual = actual.toarray() if kind == "sparse hessian" else actual[0] if kind == "hvp" else actual
            np.testing.assert_allclose(actual, expected[kind], rtol=1e-8, atol=1e-9, err_msg=f"{kind} of {name}")
            assert derivative.compile(*arguments).code.has_loops, f"{kind} of {name} is written out"


@pytest.mark.parametrize(("most", "has_loops"), [(100, True), (10_000, False)])
def test_short_loops_in_python_become_recurrences_in_second_derivatives(monkeypatch, most, has_loops):
    monkeypatch.setattr(roll, "FEWEST_IN_RECURRENCES", most)
    monkeypatch.setattr(roll, "most_distinct", lambda operations: operations // 16)
    monkeypatch.setattr(prices, "POINTS", 1)

    def f(x):
        state = x[0]
        for k in range(40):
            state = 0.9 * np.sin(state) * state + x[1] * (0.1 + 0.01 * k)
        return state

    x, v = np.array([0.3, 0.7]), np.array([1.0, -0.5])
    hvp = acc.hvp(f, effort="fast", cache=False)
    (result,) = hvp((x,), (v,))
    slope, h = acc.gradient(f, effort="fast", cache=False), 1e-5
    np.testing.assert_allclose(result, (slope(x + h * v) - slope(x - h * v)) / (2 * h), rtol=1e-6)
    assert hvp.compile((x,), (v,)).code.has_loops == has_loops
