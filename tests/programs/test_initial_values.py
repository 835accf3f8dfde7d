"""Solutions of differential equations: states, sensitivities and events, to any order, and what is refused.

References are closed forms, SciPy's integrators at tight tolerances with differences, and `jax.experimental.ode`.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import accumulus as acc
from accumulus.errors import ArgumentError, IntegrationError, OpaqueError, TraceError, UnknownNameError
from accumulus.programs import initial_values

TIMES = np.array([0.5, 1.0, 2.0])


def cooling(t, y, rate):
    return -rate * (y - 20.0) * t


def cooled(t, y0, rate):
    return 20.0 + (y0 - 20.0) * np.exp(-rate * (t**2 - t[0] ** 2) / 2.0)


def decay(t, y, rate):
    return -rate * y


def robertson(t, y, k):
    a, b, c = y
    return np.array([k[1] * b * c - k[0] * a, k[0] * a - k[1] * b * c - k[2] * b**2, k[2] * b**2])


RATES = np.array([0.04, 1e4, 3e7])
START = np.array([1.0, 0.0, 0.0])
STIFF_TIMES = np.array([0.0, 0.4, 40.0])


def close(actual, expected, rtol=1e-6, atol=1e-7):
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=rtol, atol=atol)


# Values and derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["LSODA", "RK45", "DOP853", "Radau", "BDF"])
def test_states_and_sensitivities_are_those_of_the_closed_form(method):
    def solution(t, y0, rate):
        return acc.odeint(cooling, y0, t, rate, method=method)

    close(solution(TIMES, 80.0, 0.5), cooled(TIMES, 80.0, 0.5), 1e-5)
    result = acc.jacobian(solution, argnums=(0, 1, 2))(TIMES, 80.0, 0.5)
    for one, other in zip(result, acc.jacobian(cooled, argnums=(0, 1, 2))(TIMES, 80.0, 0.5), strict=True):
        close(one, other, 1e-4, 1e-5)


def test_what_is_computed_from_arguments_alone_is_a_part_of_the_equations(monkeypatch):
    systems = []
    original = initial_values.Solution.__init__

    def noted(self, system, *further):
        systems.append(system)
        original(self, system, *further)

    monkeypatch.setattr(initial_values.Solution, "__init__", noted)

    def rates(t, y, args, unused):
        factors, name = args["factors"], args["name"]
        assert name == "first"
        terms = [c * args["rate"] for c in (0.5, 0.25, 0.125)]
        return -(terms[0] * factors[0] + terms[1] * factors[1] + terms[2] * factors[2]) * y

    def solution(rate, unused):
        args = {"factors": np.stack([rate, 2.0, 4.0]), "rate": rate, "name": "first"}
        return acc.odeint(rates, 3.0, TIMES, args, np.ones(5) * unused)

    def exact(rate, unused):
        return 3.0 * np.exp(-(0.5 * rate + 0.5 + 0.5) * rate * (TIMES - TIMES[0]))

    close(solution(0.7, 1.0), exact(0.7, 1.0))
    for one, other in zip(
        acc.jacobian(solution, argnums=(0, 1))(0.7, 1.0), acc.jacobian(exact, argnums=(0, 1))(0.7, 1.0), strict=True
    ):
        close(one, other)
    assert {system.parameters for system in systems} == {1, 4}  # the rate; and numbers, which are all arguments


def test_second_derivatives_by_times_states_and_parameters():
    def of(function):
        return acc.hessian(lambda *arguments: np.sum(function(*arguments) ** 2), argnums=(0, 1, 2))

    rows = of(lambda t, y0, rate: acc.odeint(cooling, y0, t, rate))(TIMES, 80.0, 0.5)
    for row, expected in zip(rows, of(cooled)(TIMES, 80.0, 0.5), strict=True):
        for one, other in zip(row, expected, strict=True):
            close(one, other, 1e-5, 1e-3)


def test_third_derivatives():
    def third(solution):
        return acc.jacobian(acc.jacobian(acc.jacobian(solution)))(0.5)

    result = third(lambda rate: acc.odeint(decay, 2.0, TIMES, rate)[-1])
    close(result, -((TIMES[-1] - TIMES[0]) ** 3) * 2.0 * np.exp(-0.5 * (TIMES[-1] - TIMES[0])))


def test_stiff_sensitivities_are_differences_at_tight_tolerances():
    def exact(k):
        run = solve_ivp(robertson, STIFF_TIMES[[0, -1]], START, "Radau", STIFF_TIMES, args=(k,), rtol=1e-11, atol=1e-15)
        return run.y.T

    actual = acc.jacobian(lambda k: acc.odeint(robertson, START, STIFF_TIMES, k))(RATES)
    close(acc.odeint(robertson, START, STIFF_TIMES, RATES), exact(RATES))
    for j, step in enumerate(np.diag(1e-4 * RATES)):
        expected = (exact(RATES + step) - exact(RATES - step)) / (2.0 * step[j])
        close(actual[..., j] * RATES[j], expected * RATES[j], 1e-5, 1e-7)


def test_gradients_are_those_of_jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    ode = pytest.importorskip("jax.experimental.ode")

    def rates(t, y, p, np=np):
        return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    def loss(p, np=np):
        start, times = np.array([1.0, 2.0]), np.linspace(0.0, 3.0, 7)
        if np is jax.numpy:
            states = ode.odeint(lambda y, t: rates(t, y, p, np), start, times, rtol=1e-10, atol=1e-10)
        else:
            states = acc.odeint(rates, start, times, p)
        return np.sum(np.cos(states))

    p = np.array([1.5, 1.0, 0.8, 1.2])
    close(acc.gradient(loss)(p), jax.jit(jax.grad(lambda p: loss(p, jax.numpy)))(p))


def mixed(t, state, p):
    """Four coupled states in a dict, with a dozen parameters; for NumPy and JAX."""
    y, z = state["y"], state["z"]
    rate = (p[:9].reshape(3, 3) * y).sum(axis=1) * z - p[9:] * y * (1.0 + 0.3 * t)
    return {"y": rate, "z": -0.5 * z * y[0]}


@pytest.mark.sampled(3, each="method times")
@pytest.mark.parametrize("method", ["LSODA", "RK23", "DOP853", "Radau", "BDF"])
@pytest.mark.parametrize("times", [[0.0, 0.4, 0.4, 1.0], [1.0, 0.2], [0.5, 0.5]], ids=["up", "down", "at once"])
def test_adjoint_equations_are_the_variational_ones_backward(method, times, monkeypatch):
    """By the initial state, all times, and parameters, of which some have no influence; of one row and of several."""

    def states(p, y0, t):
        actual = acc.odeint(mixed, {"y": y0, "z": p[0]}, t, p[1:], method=method, rtol=1e-8)
        return actual["y"] * np.cos(actual["z"])[:, np.newaxis]

    def loss(p, y0, t):
        return np.sum(np.sin(states(p, y0, t)))

    point = np.linspace(0.2, 0.9, 13), np.array([0.5, 0.7, 1.1]), np.array(times)
    weights = np.random.default_rng(0).normal(size=(2, len(times), 3))
    options = {"effort": "fast", "time_limit": 0.0, "check": False}
    expected = acc.gradient(loss, argnums=(0, 1, 2), **options)(*point)
    pulled = acc.vjp(states, **options)(point, weights)[1]
    calls = []
    computed = initial_values.Adjoint.computed
    monkeypatch.setattr(initial_values, "_VARIATIONAL", 0)
    monkeypatch.setattr(initial_values.Adjoint, "computed", lambda *args: calls.append(1) or computed(*args))
    gradient = acc.gradient(loss, argnums=(0, 1, 2), **options)
    tolerance = {"RK23": 1e-4, "BDF": 1e-4}.get(method, 1e-6)
    for one, other in zip(gradient(*point), expected, strict=True):
        close(one, other, tolerance, tolerance)
    calls.clear()
    gradient(*point)
    assert len(calls) == 1
    for one, other in zip(acc.vjp(states, **options)(point, weights)[1], pulled, strict=True):
        close(one, other, tolerance, tolerance)
    actual = gradient.batch(*(np.stack([value, 1.01 * value]) for value in point))
    for one, other in zip(actual, gradient(*(1.01 * value for value in point)), strict=True):
        close(one[1], other)


def network(t, y, p):
    n = len(y)
    return (p[: n * n].reshape(n, n) * y).sum(axis=1) * 0.3 - 0.5 * y**3 + p[n * n :]


def test_gradients_by_many_parameters_integrate_the_adjoint_equations(monkeypatch):
    """Ten states and 110 parameters, against JAX; second derivatives are those of the variational equations."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    ode = pytest.importorskip("jax.experimental.ode")
    p, y0 = np.random.default_rng(1).normal(size=110) / 3.0, np.linspace(0.2, 0.8, 10)

    def loss(p):
        return np.sum(np.cos(acc.odeint(network, y0, [0.0, 1.5], p)[-1]))

    def reference(p):
        states = ode.odeint(lambda y, t: network(t, y, p), y0, np.array([0.0, 1.5]), rtol=1e-10, atol=1e-10)
        return jax.numpy.sum(jax.numpy.cos(states[-1]))

    expected, calls = np.asarray(jax.jit(jax.grad(reference))(p)), []
    computed = initial_values.Adjoint.computed
    monkeypatch.setattr(initial_values.Adjoint, "computed", lambda *args: calls.append(1) or computed(*args))
    gradient = acc.gradient(loss, check=False)
    close(gradient(p), expected)
    assert calls
    calls.clear()
    actual = acc.hvp(lambda p: loss(np.concatenate([p, np.zeros(110 - 12)])))((p[:12],), (np.ones(12),))[0]
    step = 1e-4
    ends = [gradient(np.concatenate([p[:12] + h, np.zeros(98)]))[:12] for h in (step, -step)]
    close(actual, (ends[0] - ends[1]) / (2.0 * step), 1e-4, 1e-4)


def test_adjoint_equations_that_end_early(monkeypatch):
    monkeypatch.setattr(initial_values, "_VARIATIONAL", 0)

    def last(p, failure="error"):
        return acc.odeint(lambda t, y, p: p * y**2, 1.0, [0.0, 2.0], p, failure=failure)[-1]

    close(acc.gradient(last)(0.25), 2.0 / (1.0 - 0.5) ** 2)
    with pytest.raises(IntegrationError, match="ended"):
        acc.gradient(last)(0.25 * 3.0)
    result = acc.gradient(lambda p: last(p, "nan")).batch(np.array([0.25, 0.75]))
    close(result[0], 8.0)
    assert np.isnan(result[1])
    assert np.isnan(acc.gradient(last)(np.nan))


def test_products_with_jacobians():
    def solution(rate):
        return acc.odeint(decay, 1.0, TIMES, rate)

    slopes = -(TIMES - 0.5) * np.exp(0.5 - TIMES)
    close(acc.jvp(solution)((1.0,), (2.0,))[1], 2.0 * slopes)
    close(acc.vjp(solution)((1.0,), np.ones(3))[1][0], np.sum(slopes))
    close(acc.hvp(lambda rate: solution(rate)[1])((1.0,), (2.0,))[0], 0.5 * np.exp(-0.5))
    close(acc.taylor(lambda rate: solution(rate)[1])((1.0,), (np.array([1.0, 0.0]),))[1], [slopes[1], np.exp(-0.5) / 8])


def test_only_needed_columns_are_integrated(monkeypatch):
    from accumulus.programs.initial_values import System

    columns, original = [], System.sensitivities

    def noted(self, y0, start, *rest):
        columns.append(len(start))
        return original(self, y0, start, *rest)

    monkeypatch.setattr(System, "sensitivities", noted)
    acc.jacobian(lambda k, y0: acc.odeint(decay, y0, TIMES, k), check=False)(1.0, np.ones(20))
    assert columns == [1]


# What it is given ----------------------------------------------------------------------------------------------------


def test_structures_of_states_and_parameters():
    def solution(p):
        def rates(t, y):
            return {"b": [y["a"][0] * p["k"]], "a": -p["rate"] * y["a"]}  # in another order, from around it

        return acc.odeint(rates, {"a": np.ones(1), "b": [0.0]}, [0, 1], method="LSODA")

    p = {"k": 2.0, "rate": np.array([1.0])}
    result = acc.jacobian(solution)(p)
    close(solution(p)["b"][0], [0.0, 2.0 * (1.0 - np.exp(-1.0))])
    close(result["b"][0]["k"], [0.0, 1.0 - np.exp(-1.0)])
    close(result["a"]["rate"][1].item(), -np.exp(-1.0))


@pytest.mark.parametrize("times", [[0.0, 1.0, 1.0, 2.0], [2.0, 1.0, 1.0, 0.0], [1.0], [1.0, 1.0], [0, 1]], ids=str)
def test_times_of_every_kind(times):
    times = np.array(times)

    def solution(y0, rate, t):
        return acc.odeint(decay, y0, t, rate)

    def exact(y0, rate, t):
        return y0 * np.exp(-rate * (t - t[0]))

    close(solution(2.0, 0.7, times), exact(2.0, 0.7, times))
    arguments = 2.0, 0.7, times.astype(float)
    result = acc.jacobian(solution, argnums=(0, 1, 2))(*arguments)
    for one, other in zip(result, acc.jacobian(exact, argnums=(0, 1, 2))(*arguments), strict=True):
        close(one, other)


def test_rates_that_choose_and_rates_without_parameters():
    def switched(t, y, k):
        return -k * y if t < 1.0 else 0.0 * y

    close(acc.gradient(lambda k: acc.odeint(switched, 1.0, [0.0, 1.0, 3.0], k)[-1])(1.0), -np.exp(-1.0), 1e-5)
    close(acc.gradient(lambda k: k * acc.odeint(lambda t, y: -y, 1.0, [0.0, 1.0])[-1])(1.0), np.exp(-1.0))
    close(acc.gradient(lambda k: acc.odeint(lambda t, y: 1.0, k, [0.0, 1.0])[-1])(1.0), 1.0)


def test_a_band_of_many_states():
    def heat(t, u, k):
        return k * (np.append(u[1:], 0.0) - 2.0 * u + np.append(0.0, u[:-1]))

    n, t = 40, 2.0
    u = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    value = 2.0 - 2.0 * np.cos(np.pi / (n + 1))  # of the matrix, for this vector
    states = acc.jacobian(lambda k: acc.odeint(heat, u, [0.0, t], k)[-1])(100.0)
    close(states, -value * t * np.exp(-100.0 * value * t) * u)


def test_batches_threads_loops_and_maps():
    slope = acc.gradient(lambda k: acc.odeint(decay, 1.0, [0.0, 1.0], k)[-1])
    points = np.linspace(0.0, 2.0, 10)
    close(slope.batch(points, threads=2), -np.exp(-points))

    def each(k):
        return acc.map(lambda k: acc.odeint(decay, 1.0, [0.0, 1.0], k)[-1], k)

    close(acc.jacobian(each)(points[:3]), np.diag(-np.exp(-points[:3])))

    def steps(k):
        return acc.scan(lambda y, _: (acc.odeint(decay, y, [0.0, 1.0], k)[-1], None), 1.0, length=3)[0]

    close(acc.gradient(steps)(0.5), -3.0 * np.exp(-1.5))


# Events --------------------------------------------------------------------------------------------------------------


def fall(t, state, g):
    return np.array([state[1], -g])


def ground(t, state, g):
    return state[0]


ground.direction = -1


def test_events_and_continuation_after_them():
    def second_bounce(h, g):
        time, state = acc.odeint(fall, np.stack([h, 0.0]), [0.0, 10.0], g, event=ground)
        after = np.stack([0.0 * state[0], -0.8 * state[1]])
        return acc.odeint(fall, after, np.stack([time, time + 10.0]), g, event=ground)[0]

    def exact(h, g):
        return 2.6 * np.sqrt(2.0 * h / g)

    close(second_bounce(5.0, 9.81), exact(5.0, 9.81))
    both = (0, 1)
    close(acc.gradient(second_bounce, both)(5.0, 9.81), acc.gradient(exact, both)(5.0, 9.81))
    close(acc.hessian(second_bounce)(5.0, 9.81), acc.hessian(exact)(5.0, 9.81))


def test_events_that_do_not_come_or_are_no_number():
    with pytest.raises(IntegrationError, match="does not become zero"):
        acc.odeint(decay, 1.0, [0.0, 1.0], 1.0, event=lambda t, y, k: y + 1.0)
    with pytest.raises(ArgumentError, match="returns one real number, and two times"):
        acc.odeint(decay, 1.0, [0.0, 1.0], 1.0, event=lambda t, y, k: [y])
    with pytest.raises(ArgumentError, match="and two times"):
        acc.odeint(decay, 1.0, [0.0, 1.0, 2.0], 1.0, event=lambda t, y, k: y)


# What fails ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["LSODA", "RK45", "BDF"])
@pytest.mark.parametrize("rates", [lambda t, y, k: k * y**2, lambda t, y, k: np.log(y - k * t)], ids=["blow-up", "NaN"])
def test_solutions_that_end_early(method, rates, capfd, recwarn):
    def last(k, failure="error"):
        return acc.odeint(rates, 1.0, [0.0, 2.0], k, method=method, failure=failure)[-1]

    with pytest.raises(IntegrationError, match="between t = 0 and 2"):
        last(1.0)
    with pytest.raises(IntegrationError, match="ended at t ="):
        acc.gradient(last, check=False)(1.0)
    result = acc.gradient(lambda k: last(k, "nan"), check=False).batch(np.array([1.0, 0.01]))
    assert np.isnan(result).tolist() == [True, False]
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_too_many_steps():
    def fast(t, y):
        return np.sin(1e4 * t) * y

    for method in ("LSODA", "DOP853"):
        with pytest.raises(IntegrationError, match="max_steps > 50"):
            acc.odeint(fast, 1.0, [0.0, 100.0], max_steps=50, method=method)


def test_nan_arguments_are_nan():
    assert np.isnan(acc.odeint(decay, 1.0, TIMES, np.nan)).all()


def raising(t, y):
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((3, 1.0, TIMES), {}, ArgumentError, "f is 3"),
        ((decay, "a", TIMES, 1.0), {}, ArgumentError, "y0 .* expected real numbers"),
        ((decay, True, TIMES, 1.0), {}, ArgumentError, "y0 .* expected real numbers"),
        ((decay, 1.0, [], 1.0), {}, ArgumentError, "t .* one time or more"),
        ((decay, 1.0, 2.0, 1.0), {}, ArgumentError, "t .* one time or more"),
        ((decay, 1.0, [0.0, 2.0, 1.0], 1.0), {}, ArgumentError, "times in order"),
        ((decay, 1.0, [0.0, np.inf], 1.0), {}, ArgumentError, "finite times"),
        ((lambda t, y: [y[0]], np.ones(2), TIMES), {}, ArgumentError, "structure of y0"),
        ((lambda t, y: y > 0, np.ones(2), TIMES), {}, ArgumentError, "structure of y0"),
        ((lambda t, y: "a", 1.0, TIMES), {}, ArgumentError, "expected real numbers"),
        ((decay, 1.0, TIMES), {}, TypeError, "rate"),
        ((raising, 1.0, TIMES), {}, KeyError, "mine"),
        ((decay, 1.0, TIMES, 1.0), {"method": "lsoda"}, UnknownNameError, "LSODA"),
        ((decay, 1.0, TIMES, 1.0), {"tol": 1.0}, UnknownNameError, "rtol"),
        ((decay, 1.0, TIMES, 1.0), {"rtol": 0.0}, ArgumentError, "rtol"),
        ((decay, 1.0, TIMES, 1.0), {"atol": -1.0}, ArgumentError, "atol"),
        ((decay, 1.0, TIMES, 1.0), {"atol": [1.0, 1.0]}, ArgumentError, "atol"),
        ((decay, 1.0, TIMES, 1.0), {"max_steps": 0}, ArgumentError, "max_steps"),
        ((decay, 1.0, TIMES, 1.0), {"failure": "zero"}, UnknownNameError, "nan"),
        ((decay, 1.0, TIMES, 1.0), {"event": 1}, ArgumentError, "event is 1"),
    ],
)
def test_bad_input(arguments, options, error, says):
    with pytest.raises(error, match=says):
        acc.odeint(*arguments, **options)


@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"exact_order": True}, {"target": "c"}], ids=str)
def test_targets_that_cannot_call_it(options):
    with pytest.raises(OpaqueError, match="decay"):
        acc.gradient(lambda k: acc.odeint(decay, 1.0, TIMES, k)[-1], **options)(1.0)


def test_within_equations_it_is_refused():
    def nested(t, y, k):
        return acc.odeint(decay, y, TIMES, k)[-1]

    for solve in (
        lambda k: acc.odeint(nested, 1.0, TIMES, k)[-1],
        lambda k: acc.implicit(lambda y, k: nested(0.0, y, k) - k)(1.0, k),
    ):
        with pytest.raises(TraceError, match=r"odeint\(decay\)"):
            acc.gradient(solve)(1.0)


def last_decay(k):
    return acc.odeint(decay, 1.0, [0.0, 1.0], k)[-1]


def test_derivatives_travel():
    for kind in (acc.gradient, acc.hessian):
        derivative = kind(last_decay)
        close(pickle.loads(pickle.dumps(derivative))(1.0), derivative(1.0))
