"""`acc.check` passes what is right, fails what is wrong, and says where and why."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse.linalg

import accumulus as acc
from accumulus import Tape
from accumulus.checking.comparisons import FlatProblem, compare_programs, compare_slopes, flat
from accumulus.checking.slopes import central_differences, complex_step
from accumulus.errors import ArgumentError, TraceError, UnknownNameError

X = np.array([0.5, 1.25])


def several(x, k):
    return {"force": np.sin(x) * k, "pair": (x @ x, [k * x[0]])}


def filled(x):
    y = np.zeros(3)
    for k in range(2):
        y[k] = np.exp(x[k]) * x[1 - k]
    return y


def test_a_right_function_passes_all_comparisons():
    report = acc.check(several, X, 2.0)
    assert report.passed
    assert [finding.name for finding in report.findings] == [
        "recording, function",
        "compiled code, its tape in NumPy",
        "batch, one by one",
        "target numpy, compiled code",
        "sparse, dense",
        "Jacobian, complex step",
        "Jacobian, differences",
    ]
    assert report.points == 24
    assert not report.skipped
    # four values, and eleven derivatives by x and k each
    assert report.findings[0].compared == 24 * 4
    assert report.findings[1].compared == 24 * (4 + 4 * 3)
    assert all(finding.compared and not finding.where for finding in report.findings)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("f", "arguments", "options"),
    [
        (filled, (X,), {}),
        (lambda x: np.abs(x) * np.maximum(x[0], 0.0), (np.array([0.0, 1.0]),), {}),
        (lambda x: np.floor(3.0 * x) * x, (X,), {}),
        (lambda x: (x - 1e8) ** 2, (X,), {}),
        (lambda x: np.sqrt(x), (np.zeros(2),), {}),  # noqa: PLW0108
        (lambda x: np.where(x > 0, np.log(x), -x), (np.array([-1.0, 1.0]),), {}),
        (lambda x: np.linalg.solve(np.outer(x, x) + np.eye(2), x), (X,), {}),
        (lambda x, n: x**n, (2.0, 3), {"static_argnums": 1}),
        (lambda x, kind: x if kind == "same" else -x, (X, "same"), {}),
        (lambda x, y: x * y, (X, 3.0), {"argnums": 1}),
        (lambda x: np.sin(x), (X,), {"dtype": "float32"}),  # noqa: PLW0108
        (lambda x, p: x * p, (X, 0.1), {"dtype": "float32"}),  # whose derivatives are arguments, rounded
        # at constants that are others in single precision, on the other side of the point
        (lambda x: np.where(x <= 0.1, x, 2.0 * x), (0.1,), {"dtype": "float32"}),
        (lambda x: x if x <= 0.1 else 2.0 * x, (0.1,), {"dtype": "float32"}),
        (lambda x: np.sign(x - 0.1) * x + np.maximum(x, 0.1) * x, (0.1,), {"dtype": "float32"}),
        (lambda x: np.floor(x / 0.1), (0.3,), {"dtype": "float32"}),
        (lambda x: np.where(x < 16777217.0, 1.0, x), (16777216.0,), {"dtype": "float32"}),
        (lambda x: np.sin(x), (X,), {"target": "numpy", "optimise": False, "points": 2}),  # noqa: PLW0108
        (lambda x: np.zeros(0), (X,), {}),
        (lambda x: 3.0, (X,), {}),
        (np.sum, (np.ones((2, 3)),), {}),
        (lambda: 3.0, (), {}),
    ],
)
def test_functions_with_kinks_cancellation_and_odd_forms_pass(f, arguments, options):
    report = acc.check(f, *arguments, **options)
    assert report.passed, str(report)


def swallowed(x):
    try:
        return math.sin(x[0]) * x
    except TypeError:
        return x**3


def other_type(x):
    return x * 2.0 if type(x) is np.ndarray else x * 3.0


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.calls


@pytest.mark.parametrize(("make", "why"), [
    (lambda: swallowed, "np.sin instead"), (lambda: other_type, "test of types"), (Counter, "returns other values"),
])  # fmt: skip
def test_a_recording_that_is_wrong_at_once_is_the_only_finding(make, why):
    report = acc.check(make(), X, guards="error")
    assert not report.passed
    assert len(report.findings) == 1
    assert why in report.findings[0].reason.replace("\n", " ")
    assert "FAILED" in str(report)


def test_a_recording_that_is_wrong_far_away_is_detected():
    def f(x):
        return x * 7.0 if type(x) is np.ndarray and x[0] > 4.0 else x * 2.0

    report = acc.check(f, X)
    assert not report.passed
    failed = {finding.name: finding for finding in report.findings if not finding.passed}
    assert set(failed) >= {"recording, function", "Jacobian, differences"}
    assert "f(…)[0] at [ 5. , 12.5]: 10 and 35" in failed["recording, function"].where
    assert failed["Jacobian, differences"].failed == 2
    assert "derivative of f(…)[1] by argument 0 (x)[1]" in failed["Jacobian, differences"].where


@pytest.fixture
def problem():
    trace = acc.trace(filled, X)
    plan = acc.plan(trace.linearize(), time_limit=0.1)
    return FlatProblem(filled, trace.recording, trace.compile(plan, values=True), (0,)), trace.compile(
        plan, values=True
    )


def test_wrong_derivatives_fail(problem):
    checked, _ = problem
    good = list(compare_slopes(checked, [[X]]))
    assert all(finding.passed for finding in good)
    jacobian = checked.jacobian
    checked.jacobian = lambda entries: jacobian(entries) * (1.0 + 1e-5)
    for finding in compare_slopes(checked, [[X]]):
        assert finding.failed == 4
        assert "derivative is wrong" in finding.reason


def test_programs_that_differ_fail(problem):
    checked, other = problem
    values = [filled(X)]

    def wrong(point):
        value, slopes = other(point)
        slopes[0, 0] += 1e-12
        return value, slopes

    findings = {f.name: f for f in compare_programs(checked, [[X]], values, {"other": wrong})}
    assert findings["batch, one by one"].passed
    assert findings["other"].failed == 1
    assert "derivative of f(…)[0] by argument 0 (x)[0]" in findings["other"].where


def test_programs_of_loops_are_compared_if_they_run():
    matrix = scipy.sparse.diags_array([np.full(39, -1.0), np.full(40, 4.0)], offsets=[-1, 0]).tocsc()
    for f in (
        lambda x: scipy.sparse.linalg.spsolve(matrix, x**2),
        lambda x: np.linalg.solve(np.outer(x, x) + np.eye(40), x),
    ):
        report = acc.check(f, np.linspace(0.5, 1.0, 40), points=2)
        assert report.passed
        assert {"sparse, dense", "Jacobian, differences"} <= {finding.name for finding in report.findings}


def test_points_where_the_function_raises_are_counted():
    def f(x):
        if type(x) is np.ndarray and x[0] < 0:
            raise ValueError("positive numbers only")
        return x * x

    report = acc.check(f, X)
    assert report.passed
    assert report.skipped == 1
    assert "of which 1 gave no real numbers" in str(report)


def test_reports_are_data():
    report = acc.check(filled, X, points=1)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["passed"]
    assert data["findings"][0]["name"] == "recording, function"
    assert not replace(report, findings=(replace(report.findings[0], failed=1),)).passed


def test_bad_input_is_a_typed_error():
    with pytest.raises(TraceError, match=r"np\.where"):
        acc.check(lambda x: x if x[0] > 0 else -x, X, guards="error")
    with pytest.raises(UnknownNameError, match="speed"):
        acc.check(filled, X, speed=1)
    with pytest.raises(ArgumentError, match="points is -1"):
        acc.check(filled, X, points=-1)
    with pytest.raises(ArgumentError, match="argnums"):
        acc.check(filled, X, argnums=3)


@pytest.mark.parametrize(
    ("f", "slope"), [(np.sin, np.cos), (np.exp, np.exp), (lambda x: x**5, lambda x: 5 * x**4), (np.tanh, None)]
)
@pytest.mark.parametrize("x", [0.3, -1.7, 2.0, 11.0])
def test_differences_and_complex_steps(f, slope, x):
    exact = slope(x) if slope else 1.0 / np.cosh(x) ** 2
    slopes = central_differences(lambda y: np.array([f(y)]), x, abs(x))
    assert abs(slopes.central[0] - exact) <= 16 * slopes.error[0]
    assert slopes.error[0] <= 1e-4 * max(abs(exact), 1.0)
    assert not slopes.kinks[0]
    np.testing.assert_allclose(complex_step(lambda z: np.array([f(z)]), x), [exact], rtol=1e-13)


def test_kinks_are_distinguished_from_curvature():
    slopes = central_differences(lambda x: np.array([abs(x), x * abs(x), max(x, 0.0), np.floor(x + 0.5)]), 0.0, 1.0)
    assert slopes.kinks[[0, 2]].all()
    assert not slopes.kinks[1]
    assert (slopes.left[2], slopes.right[2]) == (0.0, 1.0)


def test_entries_have_names(problem):
    checked, _ = problem
    assert [checked.name(k) for k in (0, 2, 3, 4)] == [
        "f(…)[0]",
        "f(…)[2]",
        "derivative of f(…)[0] by argument 0 (x)[0]",
        "derivative of f(…)[0] by argument 0 (x)[1]",
    ]
    assert flat((np.eye(2), 3.0)).tolist() == [1.0, 0.0, 0.0, 1.0, 3.0]
    assert isinstance(checked.program.tape, Tape)


def test_cases_and_their_borders_are_checked():
    def switched(x):
        y = x[0]
        while y > 1.0:
            y = y * 0.5
        return np.array([y * x[1], x[1] ** 2])

    report = acc.check(switched, np.array([2.5, 1.5]), points=6)
    assert report.passed, report
    assert report.cases > 2
    assert f"in {report.cases} cases" in str(report)
    compared = {finding.name: finding.compared for finding in report.findings}
    assert compared["Jacobian, differences"] > 4 * 8


def test_a_wrongly_recorded_case_is_detected():
    def random_in_one_case(x):
        scale = 1.0
        while x[0] * scale < 0:
            scale = -scale * np.random.default_rng().uniform(1.0, 2.0)
        return x * scale

    report = acc.check(random_in_one_case, np.array([2.5, 1.5]), points=3)
    assert not report.passed
    assert any("draws random numbers" in finding.reason for finding in report.findings)
