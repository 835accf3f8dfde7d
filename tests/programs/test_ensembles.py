"""Many initial value problems at once: results, sensitivities, independence, failures, and factors of matrices.

References are closed forms, SciPy's integrators at tight tolerances, NumPy's solver, and each problem alone.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import accumulus as acc
from accumulus.errors import ArgumentError, IntegrationError, SizeError
from accumulus.programs import ensembles
from accumulus.tape.interpreter import NUMBERS, values
from accumulus.tape.systems import Diagonal
from accumulus.tape.tape import Tape

FEWEST = 64  # problems of short systems that are integrated together
MANY = 128  # problems of all systems here
METHODS = ["LSODA", "RK23", "RK45", "DOP853", "Radau", "BDF", "Rodas5P"]
TIMES = np.array([0.5, 1.0, 1.0, 2.0])


def cooling(t, y, rate):
    return -rate * (y - 20.0) * t


def cooled(t, y0, rate):
    return 20.0 + (y0 - 20.0) * np.exp(-rate * (t**2 - t[0] ** 2) / 2.0)


def robertson(t, y, k):
    a, b, c = k[0] * y[0], k[1] * y[1] * y[1], k[2] * y[1] * y[2]
    return np.array([c - a, a - c - b, b])


def van_der_pol(t, y, stiffness):
    return np.stack([y[1], np.sum(stiffness) * (1.0 - y[0] ** 2) * y[1] - y[0]])


def forced(t, y, p):  # depends on the time, has a full Jacobian and parameters in two places
    return np.array([p[0] * np.sin(t) - y[0] * y[1], y[0] - p[1] * y[1] * y[2], np.cos(p[0] * t) - y[2] ** 2 * y[0]])


PROBLEMS = {
    "stiff": (robertson, np.array([1.0, 0.0, 0.0]), np.array([0.04, 3e7, 1e4]), np.array([0.0, 0.4, 40.0, 4e3])),
    "oscillating": (van_der_pol, np.array([2.0, 0.0]), np.array([1.0]), np.linspace(0.0, 6.0, 5)),
    "forced": (forced, np.array([1.0, 0.5, 0.2]), np.array([0.7, 1.3]), np.array([3.0, 2.0, 0.5, -1.0])),
}


def drawn(parameters, count=MANY, seed=0):
    return parameters * np.random.default_rng(seed).uniform(0.8, 1.2, (count, len(parameters)))


def tight(f, y0, t, p, method="Radau"):
    solution = solve_ivp(f, (t[0], t[-1]), y0, method, t, args=(p,), rtol=1e-11, atol=1e-13)
    return solution.y.T


def close(actual, expected, rtol=1e-6, atol=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


@pytest.fixture
def steps(monkeypatch):
    """Methods that integrated together, and numbers of problems."""
    made = []
    run = ensembles.Lanes.run

    def counted(self, problems, which, *further, **keywords):
        made.append((self.method.name, len(which)))
        return run(self, problems, which, *further, **keywords)

    monkeypatch.setattr(ensembles.Lanes, "run", counted)
    return made


# Values and derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_states_and_all_first_derivatives_are_those_of_the_closed_form(method, steps):
    def solution(t, y0, rate):
        return acc.odeint(cooling, y0, t, rate, method=method)

    rng = np.random.default_rng(1)
    y0, rate = rng.uniform(60.0, 90.0, MANY), rng.uniform(0.3, 0.7, MANY)
    times = TIMES + rng.uniform(0.0, 0.1, (MANY, 1))  # each problem has its own
    rtol = 1e-4 if method == "RK23" else 1e-5
    close(acc.compile(solution).batch(times, y0, rate), acc.compile(cooled).batch(times, y0, rate), rtol)
    assert steps[-1] == ({"LSODA": "DOP853", "Radau": "Rodas5P", "BDF": "Rodas5P"}.get(method, method), MANY)
    ours, expected = (acc.jacobian(f, argnums=(0, 1, 2)).batch(times, y0, rate) for f in (solution, cooled))
    for one, other in zip(ours, expected, strict=True):
        close(one, other, 10.0 * rtol, 1e-5)
    assert steps[-1][1] == MANY


@pytest.mark.parametrize("method", ["LSODA", "Rodas5P"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_states_are_those_of_tight_tolerances(problem, method):
    f, y0, parameters, t = PROBLEMS[problem]
    p = drawn(parameters)
    states = acc.compile(lambda p: acc.odeint(f, y0, t, p, method=method)).batch(p)
    for k in (0, 1, MANY - 1):
        close(states[k], tight(f, y0, t, p[k]), 1e-6, 1e-9)


@pytest.mark.parametrize("method", ["LSODA", "Rodas5P"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_sensitivities_are_differences_of_tight_solutions(problem, method):
    f, y0, parameters, t = PROBLEMS[problem]
    p = drawn(parameters)
    values_, jacobians = acc.value_and_jacobian(lambda p: acc.odeint(f, y0, t, p, method=method)).batch(p)
    for k in (0, MANY - 1):
        close(values_[k], tight(f, y0, t, p[k]), 1e-6, 1e-9)
        for j, size in enumerate(p[k]):
            h = 1e-4 * size * (np.arange(len(p[k])) == j)
            difference = (tight(f, y0, t, p[k] + h) - tight(f, y0, t, p[k] - h)) / (2.0 * h[j])
            scale = np.abs(jacobians[k, :, :, j]).max()
            close(jacobians[k, :, :, j], difference, 1e-5, 1e-5 * scale)


def test_second_derivatives_are_those_of_the_closed_form(steps):
    def of(function):
        return acc.hessian(lambda y0, rate: np.sum(function(TIMES, y0, rate) ** 2), argnums=(0, 1))

    rng = np.random.default_rng(2)
    y0, rate = rng.uniform(60.0, 90.0, MANY), rng.uniform(0.3, 0.7, MANY)
    rows = of(lambda t, y0, rate: acc.odeint(cooling, y0, t, rate)).batch(y0, rate)
    assert steps
    for row, expected in zip(rows, of(cooled).batch(y0, rate), strict=True):
        for one, other in zip(row, expected, strict=True):
            close(one, other, 1e-5, 1e-3)


def test_states_in_containers_constants_and_computed_arguments():
    def solution(p):
        start = {"x": p[0] ** 2, "v": np.array([p[1], 1.0])}

        def rates(t, y, k):
            return {"x": y["v"][0] * k, "v": np.array([-y["x"], -y["v"][1] * p[1]])}

        end = acc.odeint(rates, start, np.array([0.0, 1.0]), 2.0, method="DOP853")
        return np.stack([end["x"][-1], *end["v"][-1]]) * p[0]

    p = drawn(np.array([1.0, 0.5]))
    f, jacobian = acc.compile(solution), acc.jacobian(solution)
    for k in (0, 70):
        close(f.batch(p)[k], f(p[k]), 1e-6)
        close(jacobian.batch(p)[k], jacobian(p[k]), 1e-5, 1e-7)


@pytest.mark.parametrize("size", [1, 0])
def test_one_time_equal_times_and_no_parameters(size):
    f = acc.compile(lambda y0: acc.odeint(lambda t, y: -y, y0, np.full(1 + size, 2.0)))
    y0 = np.random.default_rng(0).uniform(size=(MANY, 2))
    np.testing.assert_array_equal(f.batch(y0), np.repeat(y0[:, np.newaxis], 1 + size, axis=1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["LSODA", "Rodas5P"])
def test_rates_that_are_zero(method):
    f = acc.compile(lambda y0: acc.odeint(lambda t, y: 0.0 * y, y0, np.array([0.0, 1.0]), method=method))
    y0 = np.random.default_rng(0).uniform(size=(FEWEST, 2))
    np.testing.assert_array_equal(f.batch(y0)[:, -1], y0)


# Independence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("derivative", "problem"), [(acc.compile, "stiff"), (acc.jacobian, "oscillating")])
def test_each_problem_has_the_bits_that_it_has_among_others(derivative, problem):
    f, y0, parameters, t = PROBLEMS[problem]
    p = drawn(parameters, 3 * MANY + 5)
    compiled = derivative(lambda p: acc.odeint(f, y0, t, p))
    whole = compiled.batch(p)
    order = np.random.default_rng(0).permutation(len(p))
    np.testing.assert_array_equal(compiled.batch(p[order]), whole[order])
    np.testing.assert_array_equal(compiled.batch(p[:MANY]), whole[:MANY])
    np.testing.assert_array_equal(compiled.batch(p, threads=2), whole)
    transposed = compiled.batch(np.ascontiguousarray(p.T), transposed=True)
    np.testing.assert_array_equal(np.moveaxis(transposed, -1, 0), whole)


def test_rodas5p_has_the_same_bits_alone_and_together():
    f, y0, parameters, t = PROBLEMS["forced"]
    p = drawn(parameters, 9)
    compiled = acc.value_and_jacobian(lambda p: acc.odeint(f, y0, t, p, method="Rodas5P"))
    for one, other in zip(compiled.batch(p), zip(*map(compiled, p), strict=True), strict=True):
        np.testing.assert_array_equal(one, np.stack(other))


def test_programs_travel_after_they_have_integrated_together():
    f, y0, parameters, t = PROBLEMS["oscillating"]
    p = drawn(parameters)
    program = acc.value_and_jacobian(lambda p: acc.odeint(f, y0, t, p)).compile(p[0])
    expected = program.batch(p)
    for one, other in zip(pickle.loads(pickle.dumps(program)).batch(p), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_problems_are_integrated_as_one_is(steps):
    f, y0, parameters, t = PROBLEMS["oscillating"]
    p = drawn(parameters, FEWEST - 1)
    compiled = acc.compile(lambda p: acc.odeint(f, y0, t, p))
    np.testing.assert_array_equal(compiled.batch(p), np.stack([*map(compiled, p)]))
    assert not steps


def test_problems_with_long_steps_are_integrated_one_after_the_other(steps):
    n = 70  # a full Jacobian, whose factors take many products
    weights = np.random.default_rng(0).normal(size=(n, n)) / n

    def solution(scale):
        return acc.odeint(lambda t, y: np.tanh(weights @ y) * scale - y, np.ones(n), np.array([0.0, 0.1]))[-1, 0]

    scales, compiled = np.linspace(0.5, 1.0, FEWEST), acc.compile(solution)
    np.testing.assert_array_equal(compiled.batch(scales), [*map(compiled, scales)])
    assert not steps
    with pytest.raises(SizeError, match=r"operations.*Radau"):
        acc.odeint(lambda t, y: np.tanh(weights @ y) - y, np.ones(n), np.array([0.0, 0.1]), method="Rodas5P")


# Methods -------------------------------------------------------------------------------------------------------------


def test_stiff_problems_leave_the_explicit_method_and_others_do_not(steps):
    t = np.array([0.0, 2.0])
    compiled = acc.compile(lambda mu: acc.odeint(van_der_pol, np.array([2.0, 0.0]), t, mu))
    compiled.batch(np.concatenate([np.full(FEWEST, 1.0), np.full(3, 1e5)]))
    assert steps == [("DOP853", FEWEST + 3), ("Rodas5P", 3)]


def test_explicit_methods_that_the_caller_names_integrate_stiff_problems():
    t, mu = np.array([0.0, 20.0]), np.linspace(30.0, 50.0, FEWEST)
    f = acc.compile(lambda mu: acc.odeint(van_der_pol, np.array([2.0, 0.0]), t, mu, method="DOP853"))
    close(f.batch(mu)[0], tight(van_der_pol, np.array([2.0, 0.0]), t, 30.0), 1e-6, 1e-8)


@pytest.mark.parametrize(("method", "order"), [("RK23", 3), ("RK45", 5), ("DOP853", 8), ("Rodas5P", 5)])
def test_errors_of_steps_have_the_order_of_the_method(method, order):
    f, y0, parameters, _ = PROBLEMS["forced"]
    lanes = system_of(f, y0, parameters).lanes(method, (-1,))
    _, advance = lanes._compiled
    sizes = np.array({"RK23": [0.02, 0.01], "DOP853": [0.4, 0.2]}.get(method, [0.1, 0.05]))
    state = np.zeros((ensembles.HEADER + lanes.method.kept(3), 2))
    state[ensembles.STEP], state[ensembles.LONGEST] = sizes, 1.0
    rates = f(0.0, y0, parameters)
    state[ensembles.HEADER :] = np.concatenate([y0, rates])[: len(state) - ensembles.HEADER, np.newaxis]
    made, p = np.empty_like(state), np.tile(parameters[:, np.newaxis], 2)
    advance(state, sizes, p, np.ones(3), 1.0, 10.0, np.inf, made)
    assert (made[ensembles.EVENT] == ensembles.REACHED).all()
    errors = [
        np.abs(made[ensembles.HEADER : ensembles.HEADER + 3, k] - exact(f, y0, h, parameters)).max()
        for k, h in enumerate(sizes.tolist())
    ]
    assert np.log2(errors[0] / errors[1]) > order + 0.5  # the error of one step has one order more


def exact(f, y0, h, p):
    return solve_ivp(f, (0.0, h), y0, "DOP853", args=(p,), rtol=1e-13, atol=1e-16, max_step=h / 20).y[:, -1]


def system_of(f, y0, p):
    from accumulus.frontends.record import record
    from accumulus.programs.initial_values import System

    return System(record(f, [0.0, y0, p]).tape, len(y0), f.__name__)


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_factors_solve_sparse_systems(n, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.4)
    matrix[np.arange(n), np.arange(n)] = 1.0 + np.abs(matrix).sum(axis=1)
    side = rng.normal(size=n)
    tape = Tape(n * n + n)
    rows = [[n * i + j if matrix[i, j] else tape.constant(0.0) for j in range(n)] for i in range(n)]
    tape.outputs = Diagonal(tape, rows).solve(tape, range(n * n, n * n + n))
    computed = values(tape, NUMBERS, np.concatenate([matrix.reshape(-1), side]))
    close([computed[r] for r in tape.outputs], np.linalg.solve(matrix, side), 1e-10, 1e-12)


# Failures ------------------------------------------------------------------------------------------------------------


def exploding(t, y, start):
    return y * y


@pytest.mark.parametrize("method", METHODS)
def test_a_problem_that_fails_raises_an_error_or_is_nan_alone(method):
    starts = np.full(FEWEST + 2, 0.5)
    starts[7] = 2.0  # its solution ends at t = 0.5

    def solution(failure, **further):
        return acc.compile(
            lambda y0: acc.odeint(
                exploding, y0, np.array([0.0, 0.2, 1.0]), 1.0, method=method, failure=failure, **further
            )
        )

    with pytest.raises(IntegrationError, match=r"exploding.* by .* ended at t = 0\.[45]") as caught:
        solution("error").batch(starts)
    assert "Rodas5P" not in str(caught.value) or method == "Rodas5P"
    states = solution("nan").batch(starts)
    assert np.isnan(states[7]).all()
    close(np.delete(states, 7, axis=0), np.tile([0.5, 0.5 / 0.9, 1.0], (FEWEST + 1, 1)), 1e-4)
    with pytest.raises(IntegrationError, match="too many steps"):
        solution("error", max_steps=1).batch(np.full(FEWEST, 0.5))


def test_rates_that_are_not_finite_and_arguments_that_are_not():
    f = acc.compile(lambda y0: acc.odeint(lambda t, y: np.sqrt(y - 0.5 + t), y0, np.array([0.0, 1.0])))
    with pytest.raises(IntegrationError, match="not finite"):
        f.batch(np.linspace(0.4, 1.0, FEWEST))
    y0 = np.linspace(0.6, 1.0, FEWEST)
    y0[3] = np.nan
    states = f.batch(y0)
    assert np.isnan(states[3]).all()
    assert np.isfinite(np.delete(states, 3, axis=0)).all()


def test_times_that_are_not_in_order():
    f = acc.compile(lambda t: acc.odeint(lambda t, y: -y, 1.0, t))
    times = np.tile([0.0, 1.0, 2.0], (FEWEST, 1))
    times[5] = 0.0, 2.0, 1.0
    with pytest.raises(ArgumentError, match=r"\[0\. 2\. 1\.\]; expected times in order"):
        f.batch(times)


def test_problems_of_the_branch_that_is_not_taken_are_not_integrated(steps):
    def f(y0):
        if y0 > 1.0:
            return y0
        return acc.odeint(exploding, y0, np.array([0.0, 0.9]), 1.0)[-1]

    starts = np.concatenate([np.full(FEWEST, 0.5), np.full(FEWEST, 2.0)])
    result = acc.compile(f).batch(starts)
    close(result[:FEWEST], 0.5 / (1.0 - 0.45), 1e-6)
    np.testing.assert_array_equal(result[FEWEST:], 2.0)


def test_problems_of_a_batch_stay_together():
    """The unknown time of a solver is no reason to divide a batch for Ctrl-C: problems take less time together."""

    def decay(p):
        return acc.odeint(lambda y, t, p: -p * y, np.ones(2), np.linspace(0.0, 1.0, 3), p)

    solve = acc.compile(decay, cache=False, effort="fast")
    solve(np.ones(2))
    assert solve.compile(np.ones(2)).kernel.most_points > 4_000
