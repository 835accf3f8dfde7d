"""Keywords, defaults, methods, partials, static names; lists of numbers in the place of arrays."""

from __future__ import annotations

import functools

import numpy as np
from structure_models import flight, jacobian

import accumulus as acc


def test_arguments_are_differentiated_by_name():
    rates = {"k1": 2.0, "k2": 3.0}
    by_rates = jacobian(flight, argnames="rates")(2.0, rates)
    assert (by_rates["k1"], by_rates["k2"]) == (2.0, 0.0)
    by_drag, by_x = jacobian(flight, argnames=("drag", "x"))(2.0, rates=rates)
    np.testing.assert_allclose((by_drag, by_x), (-4.0, 2.0 - 0.4))
    by_x, by_more = jacobian(flight, argnums=0, argnames="gust")(2.0, rates, gust=4.0, drag=0.5)
    np.testing.assert_allclose((by_x, by_more), (2.0 - 0.5 * 4.0 * 5.0, -2.0))
    value, slope = acc.value_and_jacobian(flight, argnums=1)(2.0, rates, drag=0.0)
    assert (value, slope["k1"]) == (4.0, 2.0)


def test_defaults_are_differentiated_if_named():
    def f(x, k=3.0, shift=1.0):
        return k * x**2 + shift

    assert jacobian(f, argnums=1)(2.0) == 4.0
    assert jacobian(f, argnames=("shift", "k"))(2.0) == (1.0, 4.0)
    assert jacobian(f)(2.0) == 12.0
    f.__defaults__ = (5.0, 1.0)
    assert jacobian(f, argnames="k")(2.0) == 4.0


def test_methods_partials_callables_and_many_arguments():
    class Model:
        def __init__(self, gain):
            self.gain = gain

        def force(self, x, *, rates):
            return self.gain * x * rates[0]

        def __call__(self, x, *rest, scale=1.0):
            return self.gain * x * scale + sum(group["a"] for group in rest)

    model = Model(2.0)
    assert jacobian(model.force, argnames="rates")(3.0, rates=(5.0,)) == (6.0,)
    model.gain = 4.0
    assert jacobian(functools.partial(model.force, rates=(7.0,)))(3.0) == 28.0
    assert jacobian(functools.partial(model.force, rates=(7.0,)), argnames="rates")(3.0) == (12.0,)
    derivative = jacobian(model, argnums=(0, 2), argnames="scale")
    assert derivative(3.0, {"a": 1.0}, {"a": 2.0}, scale=0.5) == (2.0, {"a": 1.0}, 12.0)
    model.gain = 6.0
    assert derivative(3.0, {"a": 1.0}, {"a": 2.0}, scale=0.5) == (3.0, {"a": 1.0}, 18.0)


def test_static_names():
    def power(x, *, n, weights=()):
        return sum(x**k for k in range(n)) * len(weights)

    jac = jacobian(power, static_argnames=("n", "weights"))
    assert jac(2.0, n=3, weights=[1.0]) == 5.0
    assert jac(2.0, n=4, weights=[1.0, 2.0]) == 2 * (1 + 4 + 12)
    assert acc.trace(power, 2.0, n=3, weights=[1.0], static_argnames=("n", "weights")).tape.inputs == 1


# Lists of numbers ------------------------------------------------------------------------------------------------


def test_a_list_of_numbers_is_an_array_in_derivatives():
    def rosenbrock(x):
        return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2

    expected = acc.gradient(rosenbrock)(np.array([1.5, -2.0]))
    np.testing.assert_array_equal(acc.gradient(rosenbrock)([1.5, -2.0]), expected)
    np.testing.assert_array_equal(jacobian(lambda p: rosenbrock(p["x"]))({"x": [1.5, -2]})["x"], expected)
    actual = jacobian(lambda x: np.sin(x) * x)([1.0, 2.0])  # takes arrays only
    np.testing.assert_allclose(actual, np.diag(np.cos([1.0, 2.0]) * [1.0, 2.0] + np.sin([1.0, 2.0])))
    actual = jacobian(lambda m: [m[0][1] * m[1][0], m[0][0]])([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(actual, [[[0.0, 3.0], [2.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])


def test_lists_stay_lists_where_that_makes_a_difference():
    np.testing.assert_array_equal(jacobian(lambda x: x + x)([1.0, 2.0]), [[1, 0], [0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(jacobian(lambda x: np.stack(2 * x))([3.0]), [[1.0], [1.0]])
    assert jacobian(lambda x: np.sum(x) * (2.0 if isinstance(x, list) else 3.0))([1.0, 2.0]).tolist() == [2.0, 2.0]
    np.testing.assert_array_equal(jacobian(lambda x: x)([1.0, 2.0]), np.eye(2))


def test_lists_in_batches():
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    jac = acc.gradient(lambda x: x[0] * x[1])
    np.testing.assert_array_equal(jac.batch(rows), np.array(rows)[:, ::-1])
    np.testing.assert_array_equal(jac.batch([rows[0], rows[1]]), np.array(rows)[:2, ::-1])
