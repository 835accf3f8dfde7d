"""First calls whose results are NaN are a warning that names the cause."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

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
