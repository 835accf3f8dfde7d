"""Products with Jacobians and Hessians of long arrays, and parts of them, as loops, against JAX."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, column
from looped import assert_same, unrolled

import accumulus as acc
from accumulus.arrays.entries import Entries
from accumulus.arrays.verification import verify_derivatives
from accumulus.errors import VerificationError

QUICK = {"effort": "fast", "time_limit": 0.0, "optimise": False, "check": False}
N = 4
X, V = np.array([0.3, -0.7, 1.2, 0.9]), np.array([1.0, 0.5, -0.25, 2.0])
MIXING = np.cos(np.arange(N * N).reshape(N, N))
OURS = SimpleNamespace(np=np, scan=acc.scan)
THEIRS = SimpleNamespace(np=jnp, scan=jax.lax.scan)


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


STEPS = {
    "wave": lambda lib, x, y: lib.np.sin(x) * y,
    "shifted": lambda lib, x, y: lib.np.concatenate([x[1:] * y[:-1], y[:1]]),
    "mixed": lambda lib, x, y: lib.np.tanh(MIXING @ x + y),
    "total": lambda lib, x, y: x * lib.np.sum(y) / (1.0 + lib.np.sum(x * x)),
    "chosen": lambda lib, x, y: lib.np.where(x > 0.1, lib.np.exp(-x * y), y),
    "steps": lambda lib, x, y: lib.scan(lambda c, u: (0.5 * c * u + lib.np.cos(u), c), y[0], x)[1],
    "linear": lambda lib, x, y: 2.0 * x[::-1] - y,
}


def program(choices, lib):
    """A function of a vector as a chain of operations on vectors, and its square."""

    def f(x):
        values = [x]
        for name, i, j in choices:
            values.append(STEPS[name](lib, values[i % len(values)], values[j % len(values)]))
        return values[-1]

    return f, lambda x: lib.np.sum(f(x) ** 2)


@settings(max_examples=4, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4)
)
def test_random_programs(choices):
    (f, square), (by_jax, its_square) = program(choices, OURS), program(choices, THEIRS)
    directions = np.stack([V, V[::-1] * X, X])
    with unrolled(0):
        pushed = acc.jvp(f, **QUICK)
        result = pushed((X,), (V,))
        assert pushed._program().code.has_loops
        several = pushed((X,), (directions,))[1]
        curved = acc.hvp(square, **QUICK)((X,), (V,))[0]
        pulled = acc.vjp(f, **QUICK)((X,), V)[1][0]
        selected = acc.value_and_jacobian(f, rows=[3, 0], columns=[1, 2], **QUICK)(X)
        entries = acc.hessian(square, entries=([0, 2, 3], [1, 2, 0]), **QUICK)(X)
        along = acc.taylor(f, **QUICK)
        series = along((X,), (directions,))
        assert along._program().code.has_loops
    with unrolled(10**9):
        assert_same(series, acc.taylor(f, **QUICK)((X,), (directions,)))
    value, jacobian, hessian = map(
        np.asarray, jax.jit(lambda x: (by_jax(x), jax.jacobian(by_jax)(x), jax.hessian(its_square)(x)))(X)
    )
    assert_same(selected, (value, jacobian[[3, 0]][:, [1, 2]]))
    assert_same(entries, hessian[[0, 2, 3], [1, 2, 0]])
    assert_same(result, (value, jacobian @ V))
    assert_same(several, directions @ jacobian.T)
    assert_same(curved, hessian @ V)
    assert_same(pulled, V @ jacobian)


def test_directions_go_through_recurrences_without_a_jacobian():
    def swing(push):
        def step(state, u):
            angle, speed = state
            speed = speed - 0.01 * np.sin(angle) + u
            return (angle + 0.01 * speed, speed), angle

        return acc.scan(step, (0.5, 0.0), push)[1]

    push, direction = np.linspace(0.0, 1e-3, 3_000), np.cos(np.arange(3_000.0))
    pushed = acc.jvp(swing, **QUICK)
    _, actual = pushed((push,), (direction,))
    ahead, behind = (acc.compile(swing, **QUICK)(push + h * direction) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(actual, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6 * np.abs(actual).max())
    assert pushed.operations < 20 * len(push)


def test_loops_run_for_the_selection_only():
    n = 30_000
    x = np.linspace(0.1, 1.0, n)

    def layers(x):
        y = np.tanh(np.roll(x, 1) * x)
        ends = acc.scan(lambda c, u: (0.5 * c + u, c * u), 1.0, y)[1]
        return ends + 0.5 * np.add.reduceat(y, np.arange(n)) + (y.reshape(-1, 30) @ np.full((30, 30), 0.1)).ravel()

    rows = acc.jacobian(layers, rows=[7, 3], sparse="csr", **QUICK)
    result = rows(x)
    assert rows.operations < 10_000
    transposed = acc.vjp(layers, **QUICK)
    weights = np.zeros(n)
    weights[7] = 1.0
    np.testing.assert_allclose(result.toarray()[0], transposed((x,), weights)[1][0], rtol=1e-10, atol=1e-13)
    column = acc.jacobian(layers, entries=([20, 7], [19, 0]), **QUICK)
    np.testing.assert_allclose(column(x)[1], result.toarray()[0, 0], rtol=1e-10)


def test_arguments_without_directions_and_results_without_derivatives():
    with unrolled(0):
        pushed = acc.jvp(lambda x, a: {"x": a * x**2, "a": a * np.ones(N)}, **QUICK)
        _, actual = pushed((X, 3.0), (V, None))
    assert_same(actual, {"x": 6.0 * X * V, "a": np.zeros(N)})


def test_wrong_products_with_directions_are_refused():
    tape = Program(4)  # x0, x1 and a direction; the result is x0 * x1
    made = tape.apply("add", tape.apply("multiply", 0, 3), tape.apply("multiply", 1, 2))
    wrong = tape.apply("add", tape.apply("multiply", 0, 2), tape.apply("multiply", 1, 3))
    directions = [Entries(column(np.arange(2)), column(np.zeros(2, np.int64)), column(np.array([2, 3])))]
    local = Entries(column(np.full(2, 9)), column(np.arange(2)), column(np.array([1, 0])))
    zero = np.zeros(1, np.int64)

    def check(entry):
        verify_derivatives(tape, 1, [(9, 1, [local], None)], (zero, zero, np.array([entry])), {}, 0, directions)

    check(made)
    with pytest.raises(VerificationError):
        check(wrong)
