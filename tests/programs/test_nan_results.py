"""First calls whose results are NaN are a warning that names the cause."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import all_examples

import accumulus as acc
from accumulus.errors import NaNWarning

QUICK = {"time_limit": 0.0, "cache": False}


def shifted(x, shift=2.0):
    return np.log(x - shift) * x


def length(x):
    return np.sqrt(x @ x)


def messages(compute):
    """Return the texts of all warnings of a computation."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    assert all(each.category is NaNWarning and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def test_a_function_that_is_not_finite_is_named_with_its_operation():
    both = acc.value_and_jacobian(shifted, **QUICK)
    (message,) = messages(lambda: both(np.array([1.0, 1.5]), 2.0))
    assert message.startswith("the value and jacobian of shifted are NaN in its first call")
    assert "the function itself is not finite there (log(-1) is nan)" in message
    assert not messages(lambda: both(np.array([1.0, 1.5]), 2.0))


def test_a_point_without_a_derivative_is_named():
    gradient = acc.gradient(length, **QUICK)
    (message,) = messages(lambda: gradient(np.zeros(3)))
    assert "the function is finite there, but its derivative is undefined" in message


def test_an_argument_that_is_nan_is_named():
    (message,) = messages(lambda: acc.gradient(length, **QUICK)(np.array([1.0, np.nan])))
    assert message == "the gradient of length is NaN in its first call: argument 0 of length is nan at index [1]"


@pytest.mark.parametrize("options", [{}, {"sparse": "csr"}, {"target": "numpy"}])
def test_batches_look_at_their_first_point(options):
    jacobian = acc.jacobian(shifted, **QUICK, **options)
    (message,) = messages(lambda: jacobian.batch(np.full((5, 2), 1.0), 2.0))
    assert "at the first point of its first batch" in message
    assert not messages(lambda: jacobian.batch(np.full((5, 2), 1.0), 2.0))
    assert not messages(lambda: acc.jacobian(shifted, **QUICK, **options).batch(np.full((5, 2), 3.0), 2.0))


def test_loops_and_cases_are_examined():
    roots = acc.jacobian(lambda x: acc.map(lambda a: np.sqrt(a - 1.0), x), sparse="csr", **QUICK)
    assert len(messages(lambda: roots(np.zeros(2000)))) == 1
    cases = acc.gradient(lambda x: np.log(x[1]) * x[1] * int(x[0]), **QUICK)
    assert not messages(lambda: cases(np.array([1.0, 2.0])))
    assert len(messages(lambda: cases(np.array([2.0, -2.0])))) == 1


def test_it_can_be_silenced_and_healthy_results_are_not_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        acc.jacobian(shifted, **QUICK)(np.array([3.0, 1.0]), 2.0)  # one of two rows is finite
        acc.jacobian(lambda x: 0.0 * x, **QUICK)(np.ones(2))
        warnings.simplefilter("ignore", NaNWarning)
        acc.gradient(length, **QUICK)(np.zeros(3))


# First points at which results are NaN --------------------------------------------------------------------------------


def logarithms(x):
    """Rounding has to be judged where it is defined: differences of logarithms, roots and squares."""
    a, b, c = np.log(x[0]) + np.sqrt(x[1]), np.log(x[1]) - np.sqrt(x[2]), x[0] * x[2]
    return np.array([a * b + a * c, (a + b) ** 2 - (a - b) ** 2, np.exp(-c) * a * b, np.sqrt(x[0] * x[0] + x[1]) * c])


def in_cases(x):
    return logarithms(x) if np.sum(x) > -100.0 else -x


UNDEFINED, GOOD = np.array([-1.0, 2.0, 0.5]), np.array([0.7, 1.3, 2.0])
(ROE,) = [example for example in all_examples() if example.name == "roe_flux"]
#: Functions, each with a point where results are NaN and one where they are not.
FIRST = {
    "logarithms": (logarithms, UNDEFINED, GOOD),
    "in cases": (in_cases, UNDEFINED, GOOD),
    "roe_flux": (ROE.function, np.where(np.arange(len(ROE.point)) == 0, -1.0, ROE.point), ROE.point),
}


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("kind", [acc.jacobian, acc.value_and_jacobian, acc.compile])
@pytest.mark.parametrize("way", ["calls", "batches", "a batch after calls", "calls after a batch"])
def test_a_first_point_where_it_is_nan_decides_nothing(name, kind, way):
    f, undefined, good = FIRST[name]
    good_first, nan_first = kind(f, cache=False), kind(f, cache=False)
    at_once, batches = way in ("calls", "calls after a batch"), way in ("batches", "calls after a batch")
    nan_first.batch(undefined[np.newaxis]) if batches else nan_first(undefined)
    for each in (good_first, nan_first):
        for _ in range(3):
            each(good) if at_once else each.batch(np.stack([good, 1.1 * good]))
    one, other = (each.compile(good) for each in (good_first, nan_first))
    assert str(one.tape) == str(other.tape)
    np.testing.assert_array_equal(np.ravel(nan_first(good)[0]), np.ravel(good_first(good)[0]))


def test_points_that_stay_undefined_are_made_once():
    derivative = acc.jacobian(logarithms, cache=False)
    programs = {id(derivative.compile(UNDEFINED)) for _ in range(3) if np.isnan(derivative(UNDEFINED)).any()}
    assert len(programs) == 1
