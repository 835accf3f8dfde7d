"""`acc.check` finds wrong derivatives, and passes right ones of functions that are hard for differences."""

from __future__ import annotations

import numpy as np
import pytest
from checked_functions import ALL_MISTAKES, DIFFICULT, LITERATURE, SUMS, with_wrong_derivative

import accumulus as acc
from accumulus.checking.slopes import complex_slopes, settled_differences

pytestmark = pytest.mark.filterwarnings("ignore::accumulus.errors.NaNWarning")

#: Wrong derivatives that differences do not find: an error of 1/1000 where they alias, and a zero that values rounded
#: inside of an opaque function have, too, since the smallest steps do not change them.
NOT_FOUND = {("fast oscillation", "one entry"), ("cancellation", "missing term")}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "first", "rest", "point"), SUMS, ids=[name for name, *_ in SUMS])
def test_wrong_derivatives_are_found(name, first, rest, point):
    missed = []
    for mistake in ALL_MISTAKES:
        wrong = with_wrong_derivative(first, rest, point, mistake)
        report = acc.check(wrong, np.array(point), points=3, time_limit=0.0, target="numpy")
        if report.passed:
            missed.append((name, mistake))
        else:
            failed = {finding.name for finding in report.findings if not finding.passed}
            assert failed <= {"Jacobian, complex step", "Jacobian, differences"}
    assert set(missed) <= NOT_FOUND


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LITERATURE)
def test_benchmark_functions_pass(name):
    f, point = LITERATURE[name]
    report = acc.check(f, np.array(point, float), points=4, time_limit=0.0, target="numpy")
    assert report.passed, str(report)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_functions_pass(name):
    f, x = DIFFICULT[name]
    report = acc.check(f, x, points=4, time_limit=0.0, target="numpy")
    assert report.passed, str(report)


def test_undecided_derivatives_are_counted():
    report = acc.check(lambda x: np.sin(1e12 * x), 0.8, points=3)
    assert report.passed
    assert report.undecided
    assert report.to_dict()["undecided"] == report.undecided == sum(each.undecided for each in report.findings)
    assert "undecided" in str(report)
    assert "undecided" not in str(acc.check(lambda x: x**2, 3.0, points=3))


@pytest.mark.parametrize("f", [abs, np.real, np.conj, np.sign, lambda z: abs(z) ** 2 + 1.0, lambda z: abs(z - 1e-9)])
@pytest.mark.parametrize("x", [0.7, 1e-5, -30.0])
def test_complex_steps_bound_what_they_miss(f, x):
    values = np.array([f(x)]).real
    slopes, missed = complex_slopes(lambda z: np.array([f(z)], complex), x, abs(x), values)
    true = (f(x + 1e-4 * abs(x)) - f(x - 1e-4 * abs(x))) / (2e-4 * abs(x))
    assert abs(slopes[0] - true) <= missed[0] + 1e-7 * abs(true)


@pytest.mark.parametrize(("f", "slope"), [
    (lambda x: np.sin(1e5 * x), lambda x: 1e5 * np.cos(1e5 * x)),
    (lambda x: x + 1e-6 * np.sin(1e7 * x), lambda x: 1.0 + 10.0 * np.cos(1e7 * x)),
    (lambda x: 1e9 + x**2, lambda x: 2.0 * x),
    (lambda x: 1.0 / x, lambda x: -1.0 / x**2),
])  # fmt: skip
@pytest.mark.parametrize("x", [0.3, -1.7, 11.0])
def test_settled_differences_have_honest_errors(f, slope, x):
    slopes = settled_differences(lambda y: np.array([f(y)]), x, abs(x), np.zeros(1))
    assert abs(slopes.central[0] - slope(x)) <= 16.0 * slopes.error[0]
    assert 16.0 * slopes.error[0] < 0.01 * abs(slope(x))
    assert not slopes.kinks[0]
