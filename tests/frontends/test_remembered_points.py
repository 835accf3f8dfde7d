"""Functions that remember their last arguments: derivatives are of what they compute, not of what they remember."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import accumulus as acc

X = np.array([-0.3, 1.4])


def expensive(x):
    return np.exp(x) * x[0] + x[1] ** 2


class Remembering:
    """Computes again only if `is_last` says that the arguments are others."""

    def __init__(self, is_last, kind=float):
        self.is_last, self.kind = is_last, kind
        self.x = self.result = None

    def __call__(self, x):
        if self.x is None or not self.is_last(x, self.x):
            self.x = np.asarray(x) + (0j if self.kind is complex else 0.0)
            self.result = expensive(self.x)
        return np.real(self.result) * x[1]


class Decomposed(Remembering):
    def __call__(self, x):
        z = x + (0j if self.kind is complex else 0.0)
        if self.x is not None and self.is_last(z, self.x):
            return np.real(self.result) * x[1]
        self.x = z.copy()
        self.result = expensive(z)
        return np.real(self.result) * x[1]


def in_a_closure():
    last = [None, None]

    def f(x):
        if last[0] is None or np.any(x != last[0]):
            last[0], last[1] = x + 0.0, expensive(x)
        return last[1] * x[1]

    return f


def in_variables():
    x_last = result = None

    def f(x):
        nonlocal x_last, result
        if x_last is None or not np.array_equal(x, x_last):
            x_last, result = x.copy(), expensive(x)
        return result * x[1]

    return f


def in_a_dict():
    memory = {}

    def f(x):
        if "x" not in memory or (abs(memory["x"] - x) > 1e-9).any():
            memory["x"], memory["result"] = x.copy(), expensive(x)
        return memory["result"] * x[1]

    return f


class OfBoth:
    """Value and gradient are computed at once, as for an optimiser, and asked for one after the other."""

    def __init__(self):
        self.x, self.value, self.slope = None, None, None

    def compute(self, x):
        if not np.all(x == self.x) or self.value is None:
            self.x = np.asarray(x).copy()
            self.value, self.slope = np.sum(expensive(x)), 2.0 * x

    def __call__(self, x):
        self.compute(x)
        return self.value * x[1] * np.ones(2)


FUNCTIONS = {
    "equal": lambda: Remembering(lambda x, y: np.all(x == y)),
    "array_equal": lambda: Remembering(np.array_equal),
    "allclose": lambda: Remembering(np.allclose),
    "isclose": lambda: Remembering(lambda x, y: np.isclose(x, y, rtol=1e-8).all()),
    "a norm": lambda: Remembering(lambda x, y: np.linalg.norm(x - y) < 1e-12),
    "complex": lambda: Remembering(np.allclose, complex),
    "returned early": lambda: Decomposed(np.array_equal),
    "complex, returned early": lambda: Decomposed(np.allclose, complex),
    "entries": lambda: Decomposed(lambda x, y: x[0] == y[0] and x[1] == y[1]),
    "closure": in_a_closure,
    "variables": in_variables,
    "dict": in_a_dict,
    "of both": OfBoth,
}


def slopes(x):
    """Jacobian of what all of them compute."""
    e = np.exp(x)
    inner = np.diag(e * x[0]) + np.array([e, [2.0 * x[1]] * 2]).T
    value = e * x[0] + x[1] ** 2 if isinstance(x, np.ndarray) else None
    return inner * x[1] + np.outer(value, [0.0, 1.0])


def expected(name, x):
    if name != "of both":
        return expensive(x) * x[1], slopes(x)
    inner = slopes(x) - np.outer(expensive(x), [0.0, 1.0])
    total = np.sum(expensive(x))
    return total * x[1] * np.ones(2), np.tile(inner.sum(axis=0) + total * np.array([0.0, 1.0]), (2, 1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("before", ["here", "elsewhere", "never", "twice"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_of_what_is_computed(name, before):
    f = FUNCTIONS[name]()
    for x in {"here": [X], "elsewhere": [X + 1.0], "never": [], "twice": [X, X]}[before]:
        f(x)
    derivative = acc.value_and_jacobian(f, cache=False)
    for x in (X, X, X + 0.5, X * (1.0 + 1e-7), X):
        value, jacobian = derivative(x)
        np.testing.assert_allclose(value, expected(name, x)[0], rtol=1e-12)
        np.testing.assert_allclose(jacobian, expected(name, x)[1], rtol=1e-12)
        f(x)  # the user's own calls go on
        np.testing.assert_allclose(f(x), expected(name, x)[0], rtol=1e-6)  # it remembers points nearby


def test_long_arrays():
    f = Remembering(np.array_equal)
    x = np.linspace(0.5, 1.5, 3000)
    f(x)
    gradient = acc.gradient(lambda x: np.sum(f(x)), cache=False)
    e = np.exp(x)
    value, total = np.sum(e * x[0] + x[1] ** 2), e * x[0] * x[1]
    total[0] += np.sum(e) * x[1]
    total[1] += value + 2.0 * x[1] * len(x) * x[1]
    np.testing.assert_allclose(gradient(x), total, rtol=1e-10)


def test_a_value_beside_an_optimiser():
    f = OfBoth()
    result = minimize(lambda x: np.sum((f(x) - 1.0) ** 2), X, jac=acc.gradient(lambda x: np.sum((f(x) - 1.0) ** 2)))
    assert result.fun < 1e-10


def test_cases_at_single_points_stay_cases():
    """A value that is given at one point alone is no memory: nothing else is computed there."""

    def sinc(x):
        if x == 0.0:
            return 1.0 + 0.0 * x
        return np.sin(x) / x

    derivative = acc.value_and_gradient(sinc, cache=False)
    assert derivative(0.0) == (1.0, 0.0)
    assert derivative(0.3)[1] == pytest.approx((0.3 * math.cos(0.3) - math.sin(0.3)) / 0.09)
    assert derivative(0.0) == (1.0, 0.0)


def test_what_is_stored_while_it_is_recorded_is_put_back():
    class Model:
        def __init__(self):
            self.last, self.log = 1.0, [0.0]

        def __call__(self, x):
            self.last = 2.0 * x
            self.log[0] = x
            return x * x

    model = Model()
    acc.gradient(model, cache=False)(3.0)
    assert isinstance(model.last, float)
    assert isinstance(model.log[0], float)
    with pytest.raises(acc.errors.TraceError):
        acc.gradient(lambda x: model(x) * float(np.asarray(x).item()), guards="error", cache=False)(3.0)
    assert isinstance(model.last, float)


def test_lists_that_get_traced_values_stay():
    class Logged:
        def __init__(self):
            self.log, self.pair = [], [0.0, 0.0]

        def __call__(self, x):
            self.log.append(x)
            self.pair = [x[0], x[1]]
            return np.sum(x**2)

    f = Logged()
    np.testing.assert_array_equal(acc.gradient(f, cache=False)(X), 2.0 * X)
    f(X)
    assert any(each is X for each in f.log)
    assert all(isinstance(each, float) for each in f.pair)


def test_values_of_a_recording_around_another_stay():
    state = {}

    def f(x):
        state["y"] = x[0] * 2.0

        def inner(u):
            state["z"] = u * 3.0
            return u * u * state["y"]

        return acc.gradient(inner)(x[1]) * state["y"]

    x = np.array([0.7, 1.3])
    np.testing.assert_allclose(acc.gradient(f, cache=False)(x), [16.0 * x[0] * x[1], 8.0 * x[0] ** 2], rtol=1e-14)
    assert all(isinstance(each, float) for each in state.values())
