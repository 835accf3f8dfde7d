"""Derivatives of functions that are rewritten first, against differences in 50 digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st

import accumulus as acc
from accumulus import Tape
from accumulus.programs import graphs
from accumulus.programs.graphs import cheapest

INPUTS, RESULTS = 3, 2

#: What is computed of two values; all of it smooth wherever it is evaluated.
OPERATIONS = {
    "sum": lambda a, b, of: a + b,
    "difference": lambda a, b, of: a - 2.0 * b,
    "product": lambda a, b, of: a * b,
    "square": lambda a, b, of: a * a + a * b,
    "quotient": lambda a, b, of: a / (b * b + 2.0),
    "root": lambda a, b, of: of.sqrt(a * a + 1.0) * b,
    "sine": lambda a, b, of: of.sin(a) - of.cos(a) * b,
    "exponential": lambda a, b, of: of.exp(-a * a) + b,
    "power": lambda a, b, of: a**3 + b,
    "half power": lambda a, b, of: (a * a + 0.5) ** 2.5 + (b * b + 0.5) ** 1.5,
    "falling power": lambda a, b, of: (a * a + 0.5) ** -1.5 - b,
    "greater": lambda a, b, of: of.maximum(a, b + 0.25) * a,
}

#: Operations, each of two of the values before it.
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(1, 6), st.integers(1, 6)), min_size=4, max_size=14
)


class OfNumbers:
    sqrt, sin, cos, exp = mpmath.sqrt, mpmath.sin, mpmath.cos, mpmath.exp
    maximum = max


def function(steps, of=np):
    def f(x):
        values = [x[k] for k in range(INPUTS)]
        for name, i, j in steps:
            values.append(OPERATIONS[name](values[-min(i, len(values))], values[-min(j, len(values))], of))
        return np.array([values[-1] + values[-2], values[-1] * values[-3]])

    return f


@pytest.fixture(scope="module")
def all_are_long():
    """Let each Jacobian be long enough for its function to be rewritten first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "LONG", 0)
        yield


@settings(max_examples=3)
@given(steps=STEPS, seed=st.integers(0, 2**31))
def test_products_are_those_of_the_function(steps, seed):
    rng = np.random.default_rng(seed)
    x, v, w = rng.uniform(-1.2, 1.2, INPUTS), rng.uniform(-1, 1, INPUTS), rng.uniform(-1, 1, RESULTS)
    f, weighted = function(steps), lambda x: np.sum(w * function(steps)(x))
    _, pushed = acc.jvp(f, cache=False)((x,), (v,))
    _, (pulled,) = acc.vjp(f, cache=False)((x,), w)
    (curved,) = acc.hvp(weighted, cache=False)((x,), (v,))

    exact = function(steps, OfNumbers)
    with mpmath.workdps(50):
        e = np.array([[mpmath.mpf(float(i == j)) for j in range(INPUTS)] for i in range(INPUTS)])
        along = [mpmath.mpf(each) for each in x]

        def moved(a, s, b, t):
            return [along[k] + s * a[k] + t * b[k] for k in range(INPUTS)]

        def of_weights(s, t, i):
            return sum(wk * value for wk, value in zip(w, exact(moved(v, s, e[i], t)), strict=True))

        expected = [mpmath.diff(lambda t, k=k: exact(moved(v, t, v, 0))[k], 0) for k in range(RESULTS)]
        columns = [mpmath.diff(lambda t, i=i: of_weights(0, t, i), 0) for i in range(INPUTS)]
        second = [mpmath.diff(lambda s, t, i=i: of_weights(s, t, i), (0, 0), (1, 1)) for i in range(INPUTS)]
    for actual, true in ((pushed, expected), (pulled, columns), (curved, second)):
        numbers = np.array(true, float)
        np.testing.assert_allclose(actual, numbers, rtol=1e-9, atol=1e-10 * (1.0 + np.abs(numbers).max()))


def solved(x):
    """Solutions of four equations, whose derivatives are attached."""
    A = np.array([[4.0, 1, 0, 2], [1, 5, 1, 0], [0, 1, 6, 1], [2, 0, 1, 7]]) + np.sum(x) * np.ones((4, 4))
    return np.linalg.solve(A, np.array([x[0], x[1], x[2], 1.0]))[:3]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x**1.5 * (1.0 + x),
        lambda x: x**1.3 + x**2.3,
        lambda x: np.where(x > 0, x**0.5, 0.0) * x,
        solved,
    ],
    ids=["half power", "powers one apart", "choice", "own derivative"],
)
def test_where_rewriting_would_lose_a_derivative_it_waits(f):
    x, v = np.array([0.0, 0.7, 2.0]), np.array([1.0, -0.5, 2.0])
    value, product = acc.jvp(f, cache=False)((x,), (v,))
    jacobian = acc.jacobian(f, optimise=False, cache=False)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(product, jacobian @ v, rtol=1e-12)


class TestShorter:
    def test_a_product_is_that_of_the_shorter_function(self):
        def f(x):
            return np.array([x[0] * x[i] + x[0] * x[j] * x[i] + x[j] * x[0] for i in range(4) for j in range(i)])

        x = np.linspace(0.5, 2.0, 4)
        actual, plain = acc.jvp(f, cache=False), acc.jvp(f, method="forward", cache=False)
        assert actual.compile((x,), (x,)).operations < plain.compile((x,), (x,)).operations
        np.testing.assert_allclose(actual((x,), (x,))[1], plain((x,), (x,))[1], rtol=1e-12)

    def test_the_jacobian_is_formed_where_its_entries_share_nearly_all(self):
        def f(x):
            shared = np.exp(x[0] * x[1])
            return np.array([shared * k for k in range(1, 5)])

        x = np.array([0.3, 0.7])
        assert acc.jvp(f, cache=False).compile((x,), (x,)).operations <= 12

    @pytest.mark.parametrize("count", [2, 5])
    def test_several_directions_at_once(self, count):
        f = function([("half power", 1, 2), ("product", 1, 2), ("square", 1, 3)])
        x, vs = np.array([0.3, -0.8, 1.1]), np.random.default_rng(1).uniform(-1, 1, (count, 3))
        _, products = acc.jvp(f, cache=False)((x,), (vs,))
        np.testing.assert_allclose(products, vs @ acc.jacobian(f)(x).T, rtol=1e-11)


@pytest.mark.usefixtures("all_are_long")
class TestLongJacobians:
    @settings(max_examples=5)
    @given(steps=STEPS, seed=st.integers(0, 2**31))
    def test_they_are_those_of_the_function(self, steps, seed):
        x = np.random.default_rng(seed).uniform(-1.2, 1.2, INPUTS)
        result = acc.jacobian(function(steps), cache=False)(x)
        exact = function(steps, OfNumbers)
        with mpmath.workdps(50):
            at = [mpmath.mpf(each) for each in x]
            true = [
                [mpmath.diff(lambda t, i=i, k=k: exact([*at[:i], t, *at[i + 1 :]])[k], at[i]) for i in range(INPUTS)]
                for k in range(RESULTS)
            ]
        numbers = np.array(true, float)
        np.testing.assert_allclose(result, numbers, rtol=1e-9, atol=1e-10 * (1.0 + np.abs(numbers).max()))

    @pytest.mark.parametrize("effort", ["balanced", "thorough"])
    def test_their_function_has_fewer_operations(self, effort):
        def f(x):
            return np.array([x[0] * x[i] + x[0] * x[j] * x[i] + x[j] * x[0] for i in range(4) for j in range(i)])

        x = np.linspace(0.5, 2.0, 4)
        result = acc.value_and_jacobian(f, effort=effort, cache=False)
        plain = acc.value_and_jacobian(f, optimise=False, cache=False)
        graph, before = (each.compile(x).facts.linearization.graph for each in (result, plain))
        assert len(graph.sources) < len(before.sources)
        for one, other in zip(result(x), plain(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)

    def test_their_pattern_stays_where_dependences_cancel(self):
        def f(x):
            return np.array([np.sin(x[0]) ** 2 + np.cos(x[0]) ** 2 + x[1] * x[2], x[0] * x[2] + x[0] * x[1]])

        result = acc.jacobian(f, sparse="csr", cache=False)(np.ones(3))
        assert result.nnz == 6
        np.testing.assert_allclose(result.toarray(), [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0]], atol=1e-15)


def test_starts_are_compared_by_their_programs():
    long, short = Tape(3), Tape(3)
    long.outputs = [long.add(long.multiply(0, 1), long.multiply(0, 2)), long.multiply(1, 2)]
    short.outputs = [short.multiply(0, short.add(1, 2)), short.multiply(1, 2)]
    more = Tape(3)
    more.outputs = [more.apply("sin", more.apply("exp", more.multiply(0, 1))), more.multiply(1, 2)]
    assert cheapest([more, short, long], within(math.inf)) == 1
    assert cheapest([long], within(math.inf)) == 0
