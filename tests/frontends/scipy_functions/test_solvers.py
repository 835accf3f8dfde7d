"""SciPy's solvers within recorded functions: derivatives are those of closed forms; else the call to write is told.

That values are SciPy's is compared whenever a function is recorded; here derivatives are.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from scipy.integrate import odeint, quad, solve_ivp
from scipy.special import erf

import accumulus as acc
from accumulus.errors import ArgumentError, ConvergenceError, TraceError


def close(actual, expected, rtol=1e-7, atol=1e-9):
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=rtol, atol=atol)


# Integrals -----------------------------------------------------------------------------------------------------------

P = np.array([1.0, 2.0, 1.5])


def bell(p):
    return quad(lambda s: np.exp(-p[0] * s**2) * p[1], 0.0, p[2])[0]


def bell_area(p):
    return p[1] * np.sqrt(np.pi / p[0]) / 2.0 * erf(np.sqrt(p[0]) * p[2])


def test_integrals_by_ends_and_parameters():
    close(acc.gradient(bell)(P), acc.gradient(bell_area)(P))
    close(acc.hessian(bell)(P), acc.hessian(bell_area)(P))
    points = np.linspace(0.5, 1.5, 12).reshape(4, 3)
    close(acc.gradient(bell).batch(points, threads=2), acc.gradient(bell_area).batch(points))


def test_integrals_to_infinity_and_with_arguments():
    close(acc.gradient(lambda a: quad(lambda s: np.exp(-a * s**2), -np.inf, np.inf)[0])(2.0), -np.sqrt(np.pi / 32.0))
    close(acc.gradient(lambda a: quad(lambda s, k: s**k, 0.0, 1.0, (a,))[0])(2.0), -1.0 / 9.0)


def test_solvers_of_constants_are_those_of_scipy():
    close(acc.gradient(lambda a: a * quad(lambda s: s**2, 0.0, 1.0, points=[0.5])[0])(2.0), 1.0 / 3.0)
    close(acc.gradient(lambda a: a * solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], "BDF").y[0, -1])(2.0), 0.368, 1e-2)
    close(acc.gradient(lambda a: a * optimize.minimize(lambda y: (y[0] - 1.0) ** 2, [0.0]).x[0])(2.0), 1.0, 1e-5)


# Roots ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["brentq", "brenth", "bisect", "ridder", "toms748"])
def test_roots_between_two_numbers(solver):
    find = getattr(optimize, solver)

    def root(a):
        return find(lambda y: y**3 + y - a, 0.0, 2.0, xtol=1e-14)

    close(acc.gradient(root)(2.0), 0.25)
    close(acc.hessian(root)(2.0), -6.0 / 64.0)


def pair(y, a):
    return [y[0] ** 2 + y[1] - a[0], y[0] - y[1] * a[1]]


def pair_slopes(y, a):
    return np.array([[2.0 * y[0], 1.0], [1.0, -a[1]]])


A = np.array([3.0, 1.0])
SOLVERS = {
    "fsolve": lambda a: optimize.fsolve(lambda y: pair(y, a), [1.0, 1.0], xtol=1e-13),
    "fsolve with a Jacobian": lambda a: optimize.fsolve(pair, [1.0, 1.0], (a,), fprime=pair_slopes, xtol=1e-13),
    "root": lambda a: optimize.root(pair, np.ones(2), (a,), tol=1e-13).x,
    "root, lm": lambda a: optimize.root(pair, np.ones(2), (a,), "lm", jac=pair_slopes, tol=1e-13).x,
    "root with both": lambda a: (
        optimize.root(lambda y: (np.stack(pair(y, a)), pair_slopes(y, a)), np.ones(2), jac=True, tol=1e-13).x
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_roots_of_systems_are_those_of_implicit(name):
    def expected(a):
        return acc.implicit(lambda y: np.stack(pair(y, a)))(np.ones(2))

    close(acc.jacobian(SOLVERS[name])(A), acc.jacobian(expected)(A))


def test_second_derivatives_and_guesses():
    def of(solution):
        return acc.hessian(lambda a: np.sum(solution(a) ** 2))(A)

    close(of(SOLVERS["fsolve"]), of(lambda a: acc.implicit(lambda y: np.stack(pair(y, a)))(np.ones(2))), 1e-6)
    slopes = acc.jacobian(lambda x0, a: optimize.fsolve(pair, x0, (a,), xtol=1e-13), argnums=(0, 1))(np.ones(2), A)
    assert not slopes[0].any()
    close(slopes[1], acc.jacobian(SOLVERS["fsolve"])(A))


def test_least_squares():
    times = np.linspace(0.0, 1.0, 8)
    tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}

    def fit(data):  # of y = a + b·exp(t), which is linear
        return optimize.least_squares(lambda c: c[0] + c[1] * np.exp(times) - data, [0.0, 0.0], **tight).x

    design = np.stack([np.ones(8), np.exp(times)], axis=1)
    close(acc.jacobian(fit)(np.cos(times)), np.linalg.pinv(design))

    def cost(data):
        result = optimize.least_squares(lambda c: [c[0] - data[0], data[1] * c[0] - 1.0], [0.0], **tight)
        return result.cost + result.success

    def exact(data):
        c = (data[0] + data[1]) / (1.0 + data[1] ** 2)
        return 0.5 * ((c - data[0]) ** 2 + (data[1] * c - 1.0) ** 2) + 1.0

    close(acc.gradient(cost)(A), acc.gradient(exact)(A), 1e-6)


def test_failed_root_searches():
    for solve in (
        lambda a: optimize.brentq(lambda y: y**2 + a, -1.0, 1.0),
        lambda a: optimize.fsolve(lambda y: y**2 + a, 1.0)[0],
        lambda a: optimize.root(lambda y: y**2 + a, np.ones(1)).x[0],
    ):
        with pytest.raises(ConvergenceError, match=r"scipy.optimize.\w+ found no root of <lambda>"):
            acc.gradient(solve, check=False)(1.0)


# Differential equations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_solutions_at_given_times(method):
    times = np.array([0.5, 1.0, 1.5])

    def run(k, y0):
        actual = solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [y0], method, times, rtol=1e-9, atol=1e-11)
        assert actual.success
        return actual.y

    for column, expected in ((0, -3.0 * times * np.exp(-0.5 * times)), (1, np.exp(-0.5 * times))):
        close(acc.jacobian(run, argnums=column)(0.5, 3.0)[0], expected)


@pytest.mark.parametrize(
    ("solve", "says"),
    [
        (lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0]).y, "only with t_eval"),
        (lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], "BDF", [1.0]).y, "acc.odeint.*method='BDF'"),
        (
            lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], t_eval=[1.0], events=lambda t, y: y[0]).y,
            "event=g",
        ),
        (lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], max_step=0.1).y, "max_step"),
        (lambda k: odeint(lambda y, t: -k * y, 1.0, [0.0, 1.0]), "Write acc.odeint"),
        (lambda k: odeint(lambda y, t, k: -k * y, 1.0, [0.0, 1.0], (k,)), r"Write acc.odeint\(f, y0, t, \*args\)"),
        (lambda k: quad(lambda s: s * k, 0.0, 1.0, points=[0.5])[0], "points"),
        (lambda k: quad(lambda s: s * k, 0.0, 1.0, full_output=1)[0], "full_output"),
        (lambda k: optimize.brentq(lambda x: quad(np.sin, 0.0, x)[0] - k, 0.0, 2.0), "called by a solver"),
        (lambda k: optimize.newton(lambda y, k: y**2 - k, 1.0, args=(k,)), "brentq"),
        (lambda k: optimize.minimize(lambda y, k: y[0] ** 2 * k, [1.0], args=(k,)).x, "gradient is zero"),
        (lambda k: optimize.least_squares(lambda y: y - k, [1.0], bounds=(0.0, 2.0)).x, "without bounds"),
        (lambda k: optimize.fsolve(lambda y: np.stack([y[0] - k, y[0]]), 1.0), "2 numbers for 1 unknowns"),
    ],
)
def test_refusals_give_an_alternative(solve, says):
    with pytest.raises((TraceError, ArgumentError), match=says):
        acc.jacobian(solve, check=False)(1.0)
