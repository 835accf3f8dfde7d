"""Effects of the optimiser on rounding, NaN and infinity: no more than docs/numerics.md says.

Errors are measured as `benchmarks/groups/accuracy.py` does for all functions, against many digits and in units of what
f's own rounding does to a result; here at fewer points, of some functions and of small ones that are easily spoilt.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from hypothesis import given
from hypothesis import strategies as st
from inside import canonical, emit, evaluate, linearize

import accumulus as acc
from accumulus import Tape, plan

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from functions import all_examples, suite
from groups.accuracy import EPSILON, FACTOR, PROGRAMS, Truth, factors

FUNCTIONS = {function.name: function for function in (*all_examples(), *suite())}
POINTS = 16
DIGITS = 300  # terms of 1e70 and 1e-70 in one sum
every_program = pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "plain"])


@dataclass(frozen=True, eq=False)
class Small:
    """A function in the form of the benchmarks' examples; `draw(random, shape)` gives its points."""

    function: Callable[..., Any]
    inputs: int
    draw: Callable[[Any, tuple[int, int]], Any]

    @property
    def name(self):
        return self.function.__name__

    def sample(self, points, seed=0):
        return np.ascontiguousarray(self.draw(np.random.default_rng(seed), (points, self.inputs)))

    def running_on(self, namespace):
        return FunctionType(self.function.__code__, {**self.function.__globals__, "np": namespace})


def differences(x):
    a, b, c = x
    return np.array([(a + b) - a, a * b - b * c, (a - b) * (a + b), a * a - b * b, a / c - b / c, (a - b) / (a - c)])


def close_together(random, shape):
    return random.uniform(1.0, 2.0, (shape[0], 1)) * (1.0 + 1e-8 * random.normal(size=shape))


def magnitudes(x):
    a, b, c = x
    return np.array([a / b * c, a * (1.0 / b), a / b + c / b, (a + c) / b - 1.0, a * c / (b + 1.0)])


def large_and_small(random, shape):
    return 10.0 ** random.choice([-70.0, 0.0, 70.0], shape) * random.uniform(1.0, 9.0, shape)


def tiny_divisor(x):
    a, b, c = x
    return np.array([a / b, a / b - c / b, a * c / b, np.sqrt(a / b)])


def with_tiny_b(random, shape):
    return random.uniform(0.5, 2.0, shape) * np.array([1.0, 1e-140, 1.0])


def saturated(x):
    a, b = np.tanh(x[0]), np.exp(-x[1])
    return np.array([a * x[1], 1.0 - a * a, 1.0 / (1.0 + b), b / (1.0 + b), np.log1p(b) * a])


def far_out(random, shape):
    return random.uniform(3.0, 17.0, shape)


def roots_near_zero(x):
    a = np.sqrt(x[0])
    return np.array([a, a * x[1], x[0] / a, a * a * a, np.sqrt(x[0] + x[1] * x[1]) - x[1], 1.0 / (a + x[1])])


def near_zero(random, shape):
    return random.uniform(0.5, 2.0, shape) * np.array([1e-12, 1.0])


def angles(x):
    s, c = np.sin(x[0]), np.cos(x[0])
    return np.array([1.0 - s**2, np.sqrt(1.0 - s * s) * x[1], s * s + c * c, x[1] * c * c + s * s * x[1], s / c])


def near_a_right_angle(random, shape):
    return np.array([np.pi / 2, 1.0]) + 1e-4 * random.uniform(1.0, 9.0, shape)


def quadratic(x):
    b, c = x
    q = -0.5 * (b + np.sqrt(b * b - 4.0 * c))
    return np.array([q, c / q, q * q + b * q])


def far_apart(random, shape):
    return random.uniform(1.0, 2.0, shape) * np.array([1e4, 1e-4])


def interpolated(x):
    """Repeated linear interpolation, close to the end of the interval."""
    t, a, b, c = x
    low, high = (t - 1.0) / 1.5, (t - 2.0) / 0.5
    first, second = (1.0 - low) * a + low * b, (1.0 - low) * b + low * c
    return np.array([(1.0 - high) * first + high * second, (1.0 - low) * (1.0 - high) * a])


def close_to_the_end(random, shape):
    return np.array([2.5, 0.0, 0.0, 0.0]) + random.uniform(-1.0, 1.0, shape) * np.array([1e-4, 2.0, 2.0, 2.0])


SMALL = [
    Small(differences, 3, close_together),
    Small(magnitudes, 3, large_and_small),
    Small(tiny_divisor, 3, with_tiny_b),
    Small(saturated, 2, far_out),
    Small(roots_near_zero, 2, near_zero),
    Small(angles, 2, near_a_right_angle),
    Small(quadratic, 2, far_apart),
    Small(interpolated, 4, close_to_the_end),
]


def both(function, X, **options):
    """Values and Jacobians, (points, outputs, 1 + inputs)."""
    values, jacobians = acc.value_and_jacobian(function.function, cache=False, **options).batch(X)
    return np.concatenate([values[:, :, None], jacobians], axis=2)


def largest_factor(function, options):
    truth = Truth.of(function, function.sample(POINTS, 3), DIGITS)
    before = truth.errors(both(function, truth.points, **PROGRAMS["plain"]))
    after = truth.errors(both(function, truth.points, **options))
    return np.max(factors(before, after))


@pytest.mark.sampled(2)
@every_program
@pytest.mark.parametrize("function", SMALL, ids=lambda function: function.name)
def test_small_functions_stay_as_accurate_as_the_plain_program(function, program):
    assert largest_factor(function, PROGRAMS[program]) <= FACTOR


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", ["hodgkin_huxley", "nurbs_point", "reprojection", "robot_arm", "roe_flux", "sabr"])
def test_functions_stay_as_accurate_as_the_plain_program(name, seed):
    assert largest_factor(FUNCTIONS[name], {"seed": seed}) <= FACTOR


def test_errors_are_in_units_of_the_condition_scaled_truth():
    function = Small(lambda x: np.array([x[0] * x[1], x[0] - x[1]]), 2, close_together)
    truth = Truth.of(function, function.sample(5, 1))
    exact = truth.results.astype(float)
    assert np.max(truth.errors(exact)) <= 0.5
    product, difference = exact[:, 0, 0], exact[:, 1, 0]
    wrong = exact.copy()
    wrong[:, 0, 0] = product * (1.0 + 64.0 * EPSILON)
    result = truth.errors(wrong)
    # a product of two variables is determined to three roundings, about 1 + √3 units; a difference by its terms
    assert np.all((result[:, 0, 0] > 64.0 / 5.0) & (result[:, 0, 0] < 64.0 / 1.5))
    wrong[:, 1, 0] = difference + 64.0 * EPSILON
    result = truth.errors(wrong)
    assert np.all((result[:, 1, 0] > 64.0 / 8.0) & (result[:, 1, 0] < 64.0 / 0.7))
    assert np.all(result[:, :, 1:] < 1e-20)  # the factors, 1 and -1


# NaN and infinity -----------------------------------------------------------------------------------------------------

NAN, INFINITY = np.nan, np.inf
#: A function, a point, what the plain program makes of it, and the rewritten one.
OUT_OF_RANGE = [
    (lambda x: x[0] / x[0], [0.0], NAN, 1.0),
    (lambda x: x[0] / x[0], [INFINITY], NAN, 1.0),
    (lambda x: x[0] * x[1] / x[1], [2.0, 0.0], NAN, 2.0),
    (lambda x: x[0] * x[1] / x[1], [1e200, 1e200], INFINITY, 1e200),
    (lambda x: np.sqrt(x[0]) * np.sqrt(x[0]), [-1.0], NAN, -1.0),
    (lambda x: x[0] / np.sqrt(x[0]), [0.0], NAN, 0.0),
    (lambda x: np.sin(x[0]) ** 2 + np.cos(x[0]) ** 2, [INFINITY], NAN, 1.0),
    (lambda x: x[0] * x[1] + x[0] * x[2], [0.0, 1e308, 1e308], 0.0, 0.0),  # a number at the first call stays one
]


@pytest.mark.parametrize(("f", "point", "before", "after"), OUT_OF_RANGE)
def test_values_out_of_the_range_of_numbers_change_as_documented(f, point, before, after):
    def value(**options):
        return acc.value_and_jacobian(lambda x: np.array([f(x)]), cache=False, **options)(np.array(point))[0][0]

    np.testing.assert_equal(value(optimise=False), before)
    np.testing.assert_equal(value(exact_order=True), before)
    np.testing.assert_equal(value(), after)


def test_derivatives_out_of_the_range_of_numbers_change_as_documented():
    plain_one, rewritten = (acc.jacobian(lambda x: 1.0 / (1.0 / x), optimise=on, cache=False) for on in (False, True))
    for x in (0.0, INFINITY):
        assert np.isnan(plain_one(x))
        assert rewritten(x) == 1.0


def test_differences_that_cancel_stay():
    f = acc.value_and_jacobian(lambda x: np.array([x[0] - x[0] + x[1]]), cache=False)
    assert np.isnan(f(np.array([INFINITY, 1.0]))[0][0])


@pytest.mark.parametrize("options", [{}, {"effort": "thorough"}], ids=str)
def test_scaling_survives_exact_order_and_hypot_anything(options):
    def scaled(x):
        largest = np.maximum(abs(x[0]), abs(x[1]))
        return np.array([largest * np.sqrt((x[0] / largest) ** 2 + (x[1] / largest) ** 2)])

    X = np.array([[3e200, 4e200], [3e-200, 4e-200], [3.0, 4.0]])
    expected = np.array([[5e200], [5e-200], [5.0]])
    exact = acc.value_and_jacobian(scaled, exact_order=True, cache=False, **options)
    np.testing.assert_allclose(exact.batch(X)[0], expected, rtol=1e-15)
    hypot = acc.value_and_jacobian(lambda x: np.array([np.hypot(x[0], x[1])]), cache=False, **options)
    np.testing.assert_allclose(hypot.batch(X)[0], expected, rtol=1e-15)
    np.testing.assert_allclose(hypot.batch(X)[1], np.tile([0.6, 0.8], (3, 1, 1)), rtol=1e-15)


def branching(rng: random.Random) -> Tape:
    """A program of choices x > 0 ? g(x) : h, where g or its derivative is infinite or NaN for other x."""
    tape = Tape(3)
    zero, one = tape.constant(0.0), tape.constant(1.0)

    def singular(i: int, j: int) -> int:
        return rng.choice(
            [
                lambda: tape.multiply(tape.apply("sqrt", i), j),
                lambda: tape.divide(j, i),
                lambda: tape.multiply(tape.apply("log", i), j),
                lambda: tape.multiply(tape.apply("log", i), i),
                lambda: tape.divide(tape.apply("sin", i), i),
                lambda: tape.power(i, tape.constant(rng.choice([-2.0, -1.0, 0.3, 1.5]))),
            ]
        )()

    values = [0, 1, 2]
    for _ in range(rng.randint(1, 5)):
        i = rng.randrange(3)
        taken = singular(i, rng.choice(values))
        if rng.random() < 0.4:
            taken = tape.add(taken, singular(i, rng.choice(values)))
        other = rng.choice([zero, one, rng.choice(values)])
        condition = tape.apply("less", zero, i)
        if rng.random() < 0.8:
            values.append(tape.select(condition, taken, other))
        else:
            values.append(tape.select(tape.logical_not(condition), other, taken))
        if rng.random() < 0.6:
            a, b = rng.choice(values), rng.choice(values)
            values.append(tape.apply(rng.choice(["add", "subtract", "multiply"]), a, b))
    tape.outputs = values[-2:]
    return tape


@given(
    rng=st.randoms(use_true_random=False),
    points=st.lists(st.tuples(*[st.sampled_from([0.0, -1.0, 0.7, 2.0])] * 3), min_size=4, max_size=4),
    method=st.sampled_from(["forward", "reverse", "markowitz"]),
)
def test_branches_that_are_not_taken_stay_off(rng, points, method):
    linearization = linearize(branching(rng))
    jacobian = emit(plan(linearization.graph, method).accumulation)
    before, after = canonical(jacobian), optimise(jacobian)
    for point in points:
        expected, actual = (np.array(evaluate(tape, [np.float64(x) for x in point]), float) for tape in (before, after))
        assert np.isfinite(expected).all()  # what is off is 0, in the plain program, too
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"optimise": False}, {"exact_order": True}, {"effort": "thorough"}], ids=str)
def test_derivatives_of_a_branch_that_is_off_are_zero(options):
    def f(x):
        entropy = np.where(x[0] > 0.0, x[0] * np.log(x[0]), 0.0)
        root = np.where(x[0] > 0.0, np.sqrt(x[0]) * x[1], x[1])
        return np.array([entropy * x[1], root * root, np.where(x[0] == 0.0, 1.0, np.sin(x[0]) / x[0])])

    jacobian = acc.jacobian(f, cache=False, **options)
    np.testing.assert_array_equal(jacobian(np.array([0.0, 3.0])), [[0.0, 0.0], [0.0, 6.0], [0.0, 0.0]])
