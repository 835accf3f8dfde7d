"""SciPy's solvers within recorded functions: derivatives are those of closed forms; else the call to write is told.

That values are SciPy's is compared whenever a function is recorded; here derivatives are.
"""

from __future__ import annotations

import numpy as np
import pytest
from refusals import reason
from scipy import optimize
from scipy.integrate import dblquad, odeint, quad, solve_ivp
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


def cubic(y, a):
    return y**3 + y - a


SLOPE, CURVATURE = (lambda y, a: 3.0 * y**2 + 1.0), (lambda y, a: 6.0 * y)
#: Functions of a number whose value is the root of y³ + y - a.
OF_ONE = {
    "newton": lambda a: optimize.newton(cubic, 1.0, args=(a,)),
    "newton of a closure": lambda a: optimize.newton(lambda y: cubic(y, a), 1.0, x1=0.6 * a),
    "newton, slope": lambda a: optimize.newton(cubic, 1.0, SLOPE, (a,)),
    "newton, Halley": lambda a: optimize.newton(cubic, 1.0, SLOPE, (a,), fprime2=CURVATURE),
    "newton, array": lambda a: optimize.newton(lambda y: cubic(y, a * np.array([1.0, 2.0])), np.ones(2))[0],
    "newton, array and slope": lambda a: optimize.newton(cubic, np.ones(2), SLOPE, (a,))[1],
    "root_scalar": lambda a: optimize.root_scalar(cubic, (a,), bracket=(0.0, a)).root,
    "root_scalar, toms748": lambda a: optimize.root_scalar(cubic, (a,), "toms748", bracket=[0.0, 3.0]).root,
    "root_scalar, secant": lambda a: optimize.root_scalar(cubic, (a,), x0=1.0, x1=1.5, xtol=1e-12).root,
    "root_scalar, slope": lambda a: (
        optimize.root_scalar(lambda y: (cubic(y, a), SLOPE(y, a)), x0=1.0, fprime=True, method="newton").root
    ),
    "root_scalar, Halley": lambda a: (
        optimize.root_scalar(
            lambda y: (cubic(y, a), SLOPE(y, a), CURVATURE(y, a)), x0=1.0, fprime=True, fprime2=True
        ).root
    ),
    "fixed_point": lambda a: optimize.fixed_point(lambda y: (a + y) / (y**2 + 2.0), 1.0, xtol=1e-13),
    "fixed_point, array": lambda a: optimize.fixed_point(
        lambda y: (a + y) / (y**2 + 2.0), np.array([1.0, 0.9]), xtol=1e-13
    )[1],
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda y: y**4 / 4.0 + y**2 / 2.0 - a * y).x,
    "minimize_scalar, bounds": lambda a: (
        optimize.minimize_scalar(
            lambda y, a: y**4 / 4.0 + y**2 / 2.0 - a * y, bounds=(0.0, a), args=(a,), options={"xatol": 1e-9}
        ).x
    ),
    "minimize_scalar, golden": lambda a: (
        optimize.minimize_scalar(lambda y: y**4 / 4.0 + y**2 / 2.0 - a * y, bracket=(0.0, a), method="golden").x
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OF_ONE)
def test_roots_and_minima_of_functions_of_one_number(name):
    close(acc.gradient(OF_ONE[name])(2.0), 0.25, 1e-6)
    close(acc.hessian(OF_ONE[name])(2.0), -6.0 / 64.0, 1e-6)
    points = np.array([2.0, 10.0])
    close(acc.gradient(OF_ONE[name], target="numpy").batch(points), [0.25, 1.0 / 13.0], 1e-6)


def test_minima_have_the_derivative_of_the_objective():
    def least(a):
        result = optimize.minimize_scalar(lambda y: np.exp(y) - a * y)
        return result.fun + 0.0 * result.success

    close(acc.gradient(least)(2.0), -np.log(2.0))
    close(acc.hessian(least)(2.0), -0.5)


@pytest.mark.parametrize(
    ("solve", "says"),
    [
        (lambda a: optimize.minimize_scalar(lambda y: y**2 - a * y, bounds=(1.0, 3.0)).x, "no minimum.*a bound"),
        (lambda a: optimize.minimize_scalar(lambda y: abs(y - a)).x, "or a kink"),
        (lambda a: optimize.newton(lambda y: y**2 + a, 1.0), "Failed to converge"),
        (lambda a: optimize.newton(lambda y: y**2 + a, np.ones(2))[0], "failed to converge"),
        (lambda a: optimize.root_scalar(lambda y: y**2 + a, x0=1.0, x1=2.0).root, "convergence error"),
        (lambda a: optimize.root_scalar(lambda y: y**2 + a, bracket=(0.0, 1.0)).root, "different signs"),
        (lambda a: optimize.fixed_point(lambda y: y + a, 1.0), "no root"),
    ],
)
def test_failed_searches_of_functions_of_one_number(solve, says):
    with pytest.raises(ConvergenceError, match=reason(says)):
        acc.gradient(solve, check=False)(1.0)


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
        (lambda k: optimize.newton(lambda y, k: y**2 - k, 1.0, args=(k,), full_output=True), "full_output"),
        (lambda k: optimize.newton(lambda y: y**2 - k, np.ones(2), CURVATURE, fprime2=CURVATURE), "of numbers only"),
        (lambda k: optimize.broyden1(lambda y: y**2 - k, [1.0]), "acc.implicit"),
        (lambda k: optimize.curve_fit(lambda t, p: p * t, np.ones(3), np.ones(3) * k)[0], "gradient is zero"),
        (lambda k: optimize.linprog([1.0], A_ub=[[-1.0]], b_ub=np.stack([k])).x, "gradient is zero"),
        (lambda k: optimize.approx_fprime([1.0], lambda y: y[0] ** 2 * k, 1e-8), "acc.jacobian"),
        (lambda k: dblquad(lambda x, y: x * k, 0.0, 1.0, 0.0, 1.0)[0], "one within the other"),
        (lambda k: optimize.minimize(lambda y, k: y[0] ** 2 * k, [1.0], args=(k,)).x, "gradient is zero"),
        (lambda k: optimize.least_squares(lambda y: y - k, [1.0], bounds=(0.0, 2.0)).x, "without bounds"),
        (lambda k: optimize.fsolve(lambda y: np.stack([y[0] - k, y[0]]), 1.0), "2 numbers for 1 unknowns"),
    ],
)
def test_refusals_give_an_alternative(solve, says):
    with pytest.raises((TraceError, ArgumentError), match=reason(says)):
        acc.jacobian(solve, check=False)(1.0)
