"""Recordings that compute something else than their functions are refused; those that only round otherwise are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from looped import unrolled

import accumulus as acc
from accumulus.errors import MismatchError, TraceError
from accumulus.frontends import record

POINT = np.array([0.5, 1.25])


def swallowed(x):
    try:
        return math.sin(x[0]) * x
    except TypeError:
        return x**3


def swallowed_everything(x):
    result = x * x
    with suppress(Exception):
        result = result * float(x[0])
    return result


def swallowed_decision(x):
    try:
        return x if x[0] > 100.0 else -x
    except Exception:
        return x * 2.0


def asked_for_the_type(x):
    return x * 2.0 if type(x) is np.ndarray else x * 3.0


def asked_for_the_type_of_a_number(x):
    return x[0] * 2.0 if type(x[0]) is np.float64 else x[0] * 3.0


def changed_its_form(x):
    return (x, x) if type(x) is np.ndarray else x


def raises_on_numbers(x):
    return x + (x.references.size if hasattr(x, "references") else "text")


def counting(counter=itertools.count()):  # noqa: B008  # the fault is meant
    return lambda x: x * float(next(counter))


def random(generator=np.random.default_rng(3)):  # noqa: B008
    return lambda x: x * generator.normal()


def global_random(x):
    return x + np.random.rand()  # noqa: NPY002


class Remembers:
    def __init__(self):
        self.last = 0.0

    def __call__(self, x):
        self.last += 1.0
        return x * self.last


def never_set(x):
    y = np.empty(3)
    y[0] = x[0]
    return y[[0, 0]] if hasattr(x, "tape") else np.array([x[0], 7.0])


WRONG: list[tuple[Callable[[], Callable[..., Any]], str]] = [
    (lambda: swallowed, r"gives 0\.125 for f\(…\)\[0\].*itself 0\.2397.*caught this error[\s\S]*np\.sin instead"),
    (lambda: swallowed_everything, r"caught this error[\s\S]*float\(\) needs"),
    (lambda: swallowed_decision, r"caught this error[\s\S]*np\.where"),
    (lambda: asked_for_the_type, r"test of types"),
    (lambda: asked_for_the_type_of_a_number, r"test of types"),
    (lambda: changed_its_form, r"returns an array of shape \(2,\), but returns an array of .*, an array of"),
    (lambda: raises_on_numbers, r"raises .* when it is called with argument 0 \(x\) = \[0\.5 , 1\.25\]"),
    (counting, "other values: it draws random numbers"),
    (random, "other values: it draws random numbers"),
    (lambda: global_random, "other values: it draws random numbers"),
    (Remembers, r"called again, it returns other values; it changes self\.last"),
    (lambda: never_set, r"for f\(…\)\[1\], and the function itself 7"),
]


@pytest.mark.parametrize("use", [acc.jacobian, acc.value_and_jacobian])
@pytest.mark.parametrize(("make", "said"), WRONG)
def test_a_recording_that_is_not_its_function_is_refused(use, make, said):
    with pytest.raises(TraceError, match=said):
        use(make(), guards="error")(POINT)
    with pytest.raises(TraceError, match=said):
        use(make(), guards="error").batch(np.stack([POINT, POINT + 1.0]))
    with pytest.raises(TraceError, match=said):
        acc.trace(make(), POINT, guards="error")


@pytest.mark.parametrize("f", [swallowed, swallowed_everything, swallowed_decision])
def test_a_swallowed_error_is_raised_where_nothing_is_checked(f):
    with pytest.raises(TraceError, match="depends on the arguments") as caught:
        acc.jacobian(f, check=False, guards="error")(POINT)
    assert "caught this error while it was recorded" in caught.value.__notes__[0]


def test_a_swallowed_error_is_raised_where_nothing_can_be_compared():
    def f(x):
        with suppress(TypeError):
            math.sin(x[0])
        return np.linalg.solve(np.outer(x, x), x)

    with pytest.raises(TraceError, match=r"math\.sin"):
        acc.trace(f, np.array([np.nan, 1.0]), guards="error")


def test_without_the_check_a_function_is_recorded_as_it_runs_once():
    slopes = acc.jacobian(asked_for_the_type, check=False)(POINT)
    np.testing.assert_array_equal(slopes, 3.0 * np.eye(2))
    assert acc.trace(counting(), POINT, check=False).tape.operations <= 2


@pytest.fixture
def alone(monkeypatch):
    """Record as in a process without other threads, where no variable is looked at between runs."""
    monkeypatch.setattr("accumulus.frontends.captured.switches_of_threads", dict)


@pytest.mark.usefixtures("alone")
def test_the_function_runs_four_times():
    runs = []

    def f(x):
        runs.append(type(x))
        return x * x

    jac = acc.jacobian(f)
    for _ in range(3):
        jac(POINT)
    assert len(runs) == 4
    jac.batch(np.ones((5, 2)))
    assert len(runs) == 4
    acc.jacobian(f, check=False)(POINT)
    assert len(runs) == 5


def test_the_argument_is_the_caller_s():
    def f(x):
        if type(x) is np.ndarray:
            x *= 2.0
            return x
        return x * 2.0

    x = POINT.copy()
    acc.jacobian(f)(x)
    np.testing.assert_array_equal(x, POINT)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (lambda x: 1.0 / x, (0.0,)),
        (lambda x: 1.0 / x, (0,)),
        (lambda x: x**1.5, (-1.0,)),
        (lambda x: np.log(x) / x, (np.zeros(2),)),
        (lambda x: np.linalg.solve(np.diag(x), x), (np.zeros(2),)),
        (lambda x: np.linalg.inv(np.outer(x, x) + 1e-9 * np.eye(2)), (POINT,)),
        (lambda x: 0.0 * np.log(x), (np.zeros(2),)),
        (lambda x: x, (np.array([np.nan, np.inf]),)),
        (np.exp, (np.full(2, 1e4),)),
        (lambda x: x // 1.0, (np.arange(3),)),
        (lambda x: np.float32(0.1) * x, (0.3,)),
        (lambda x: np.array([0.1, 0.2], np.float32) * x, (0.3,)),
        (lambda x: x * 2, (np.float32(0.3),)),
        (lambda x: x - x, (1e300,)),
        (lambda x: np.sum(x) - np.sum(x[::-1]), (np.geomspace(1e-8, 1e8, 100),)),
        (lambda x: np.floor(np.sum(x)), (np.full(10, 0.1),)),
        (lambda x: np.where(np.sum(x) == 1.0, 5.0, x), (np.full(10, 0.1),)),
        (lambda x: np.zeros(0), (POINT,)),
        (lambda: 3.0, ()),
        (lambda x: {"a": [x, (x, x)], "b": x > 0}, (POINT,)),
        # LAPACK rounds small eigenvalues as large ones
        (
            lambda x: np.linalg.eigvalsh(x @ x.T),
            (np.array([[120120.4, 14377.2, 118772.8], [0.7, 0.2, -0.5], [0.0, 0.8, 0.7]]),),
        ),
    ],
)
def test_functions_that_only_round_otherwise_pass(f, arguments):
    acc.trace(f, *arguments)


@pytest.mark.parametrize("other", [np.nan, np.inf])
def test_rounding_beside_an_entry_that_is_not_finite_is_not_a_mismatch(other):
    """A hyperbolic sine as JAX computes it, with a rounded argument of the exponential."""

    def f(x):
        large = np.exp(x - np.log(2.0)) if type(x) is np.ndarray else np.sinh(x)
        return np.stack([large[0], x[0] * other])

    acc.trace(f, np.array([600.0]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("other", [np.nan, np.inf])
@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_mistakes_beside_an_entry_that_is_not_finite_are_found(dtype, other, factor):
    def f(x):
        if type(x) is np.ndarray:
            return np.stack([2.0 * x[0], x[0] * other]).astype(dtype)
        return np.stack([factor * x[0], x[0] * other])

    with pytest.raises(MismatchError):
        acc.trace(f, POINT)


def test_nearby_points_reveal_hidden_differences():
    def f(x):
        try:
            return math.sin(x[0]) * x
        except TypeError:
            return x * x[0]

    with pytest.raises(TraceError, match="caught this error"):
        acc.trace(f, np.zeros(2), guards="error")


def test_a_function_may_refuse_points_around():
    def f(x):
        if type(x) is np.ndarray and not np.array_equal(x, POINT):
            raise ValueError("only there")
        return np.sin(x)

    assert acc.trace(f, POINT).tape.operations == 2


def test_nothing_is_recorded_on_an_outer_tape():
    def outer(x):
        inner = record(lambda y: np.array([y, 1.0]) * np.ones(2), [1.0], check=True)
        return x * len(inner.program.outputs)

    assert acc.trace(outer, 1.0).tape.operations == 1


@pytest.mark.usefixtures("alone")
def test_external_changes_of_a_function_are_named():
    history, state = [], {"calls": 0, "scale": 2.0}

    def logged(x):
        history.append(1.0)
        state["calls"] += 1
        state["last"] = x
        return state["scale"] * x

    derivative = acc.jacobian(logged, effort="fast")
    assert derivative(3.0) == 2.0
    assert len(derivative.report().changed) == 3
    assert "changes of history (0 items, now 4)" in str(derivative.report())
    assert "changes of state['calls'] (0, now 4)" in str(derivative.report())


first_time = True


def switched_over(x):
    global first_time
    factor, first_time = (2.0 if first_time else 3.0), False
    return factor * x


@pytest.mark.usefixtures("alone")
def test_changes_between_recording_and_comparison_are_named():
    for use in (lambda: acc.jacobian(switched_over)(1.0), lambda: acc.trace(switched_over, 1.0)):
        globals()["first_time"] = True
        with pytest.raises(MismatchError, match=r"The likely reason: it changes first_time \(True, now False\) when"):
            use()


def singular(x):
    return np.sum(np.linalg.eigvalsh(np.array([[np.log(x[0]), 0.1], [0.1, x[1]]])))


@pytest.mark.parametrize(
    "make", [acc.gradient, acc.hessian, lambda f, **options: acc.jacobian(acc.gradient(f), **options)]
)
def test_all_undefined_values_are_reported(make):
    x = np.array([-1.0, 2.0])
    with pytest.raises(MismatchError, match="is NaN there and at all other points") as caught:
        make(singular, cache=False)(x)
    assert "Usual reasons" not in str(caught.value)
    assert "raises MismatchError" not in str(caught.value)
    assert "singular" in str(caught.value)
    assert np.isnan(acc.gradient(singular, cache=False, check=False)(x)).any()


GRADED = np.array(
    [
        [473.735849, 9.91803399, 49.2040399],
        [9.96524758e-02, 5.04442719e-01, 5.90659920e-01],
        [-111.709645, 7.04177234, -352.588489],
    ]
)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("most", [0, 10**9])
def test_rounding_of_a_library_in_small_entries_is_not_a_mismatch(stacked, most):
    """A solution with entries of 1 and 4e-6: those of the recording are right to 2e-15, LAPACK's to 2e-14."""

    def solution(A):
        A = np.where(A > 0.5, A, A * A)
        matrix = A + 5.0 * np.eye(3)
        return np.linalg.solve(matrix[None] if stacked else matrix, A)

    with unrolled(most):
        actual = acc.compile(solution, cache=False)(GRADED)
    np.testing.assert_allclose(actual, solution(GRADED), atol=1e-12)


def test_small_mistakes_beside_linear_algebra_are_found():
    def wrong(A):
        x = np.linalg.solve(A, np.ones(3))
        return x, (1.0 + 1e-9 * (type(A) is np.ndarray)) * A[0]

    with pytest.raises(MismatchError):
        acc.compile(wrong, cache=False)(GRADED)


# Refusals that a library wraps ----------------------------------------------------------------------------------------

HELD = np.zeros(2)


def set_values(target, values, chains, kind):
    try:
        target[:] = values
    except Exception as error:
        if chains:
            raise kind("values cannot be set") from error
        raise kind("values cannot be set") from None


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, TypeError, type("LibraryError", (Exception,), {})])
@pytest.mark.parametrize("chains", [True, False])
def test_refusals_that_are_wrapped_are_refusals(kind, chains):
    def f(x):
        set_values(HELD, x, chains, kind)
        return np.sum(HELD) * x[0]

    with pytest.raises(TraceError, match="stored in an array of plain numbers") as caught:
        acc.gradient(f)(np.array([1.0, 2.0]))
    assert isinstance(caught.value.__cause__, kind)
    assert f"raised {kind.__name__}: values cannot be set" in caught.value.__notes__[0]


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_errors_of_the_function_itself_stay_what_they_are(kind):
    def f(x):
        with suppress(Exception):
            float(x[0] + 1.0)
        if len(x) == 2:
            raise kind("two numbers")
        return x

    with pytest.raises(kind, match="two numbers"):
        acc.jacobian(f)(np.array([1.0, 2.0]))
