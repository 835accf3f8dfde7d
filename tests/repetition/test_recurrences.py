"""Recurrences in Python loops, rolled: the same as written out."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inside import evaluate, record
from looped import PLAIN
from rolling import rolling

import accumulus as acc
from accumulus.repetition import roll
from accumulus.tape.blocks import SCAN

X = np.random.default_rng(1).uniform(0.2, 1.2, 24)
N = 24


def steps_of(function, x=X, **options):
    """Of each recurrence how many instances its steps have."""
    tape = record(function, [x]).tape
    with rolling(levels=3, **options):
        blocks = roll.rolled(tape)
    assert blocks is not None
    scans = [block for block in blocks.blocks if block.code == SCAN]
    return [[1] * block.count if block.steps is None else np.diff(block.steps).tolist() for block in scans]


def assert_rolled_is_written_out(function, x=X, sparse=None):
    with rolling(levels=3):
        jac = acc.value_and_jacobian(function, cache=False, sparse=sparse)
        values, actual = jac(x)
        assert jac.compile(x).code.has_loops
    expected_values, expected = acc.value_and_jacobian(function, **PLAIN)(x)
    actual = actual.toarray() if scipy.sparse.issparse(actual) else actual
    np.testing.assert_allclose(values, expected_values, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-8, atol=1e-9)


def slope(y, p):
    return y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]


def runge_kutta(y, p, h):
    k1 = slope(y, p)
    k2 = slope([y[i] + h / 2 * k1[i] for i in range(2)], p)
    k3 = slope([y[i] + h / 2 * k2[i] for i in range(2)], p)
    k4 = slope([y[i] + h * k3[i] for i in range(2)], p)
    return [y[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i in range(2)]


def pendulum(z):
    y = [z[0], z[1]]
    for _ in range(20):
        y = runge_kutta(y, z[2:4], 0.1)
    return np.array(y)


def fitted_pendulum(z):
    y, loss = z[:2], 0.0
    for k in range(20):
        y = np.array(runge_kutta(y, z[2:4], 0.1))
        loss = loss + (y[0] - np.cos(0.1 * k)) ** 2
    return loss


def running_sums(x):
    total, result = 0.0, []
    for i in range(N):
        total = total + x[i] ** 2
        result.append(total)
    return np.array(result)


def second_order(x):
    values = [x[0], x[1]]
    for i in range(2, N):
        values.append(np.sin(values[-1]) * x[i] - 0.5 * values[-2])
    return np.array(values)


def trajectories(x):
    result = []
    for k in range(6):
        position, speed = x[2 * k], x[2 * k + 1]
        for _ in range(10):
            speed = speed - 0.1 * np.sin(position)
            position = position + 0.1 * speed
        result += [position, speed]
    return np.array(result)


def heat(u):
    u = list(u)
    for _ in range(10):
        u = [u[i] + 0.1 * (u[i - 1] - 2.0 * u[i] + u[(i + 1) % N]) + 0.01 * u[i] * (1.0 - u[i]) for i in range(N)]
    return np.array(u)


def heat_between_walls(u):
    u = list(u[:6])
    for _ in range(12):
        new = [u[0]]
        new += [u[i] + 0.1 * (u[i - 1] - 2.0 * u[i] + u[i + 1]) + 0.01 * u[i] * (1.0 - u[i]) for i in range(1, 5)]
        u = [*new, u[5] + 0.2 * (u[4] - u[5])]
    return np.array(u)


def with_another_beginning(x):
    state = np.exp(-x[0])
    for i in range(1, 4):
        state = state + x[i] * x[i - 1]
    for i in range(4, N):
        state = np.tanh(state * x[i]) + 0.5 * state
    return np.array([state * state, np.cos(state)])


def every_other_step(x):
    state, result = x[0], []
    for i in range(1, N):
        state = state * np.cos(x[i]) if i % 2 else state + x[i] / state
        result.append(state + x[i - 1])
    return np.array(result)


def two_recurrences(x):
    first, second = x[0], x[1]
    for i in range(2, N):
        first = np.sin(first + x[i])
    for i in range(2, N):
        second = second / (1.0 + x[i] * second * first)
    return np.array([first, second])


def used_once(x):
    state, quotient = x[0], x[1]
    for i in range(N):
        state = np.sin(state + x[i])
    for i in range(N):
        quotient = x[i] / (2.0 + quotient)
    return np.array([state, np.exp(quotient)])


def polynomial(x):
    value = 1.0
    for i in range(N):
        value = value * x[2] + np.sqrt(x[i])
    return value * value


def coupled_network(w):
    state = [0.1 * w[i] for i in range(4)]
    for k in range(8):
        state = [np.tanh(0.1 * k + sum(w[(4 * i + j) % N] * state[j] for j in range(4))) for i in range(4)]
    return sum(value * value for value in state)


def logistic(x):
    value, total = x[0], 0.0
    for _ in range(30):
        value = x[1] * value * (1.0 - value)
        total = total + value * x[2]
    return np.array([value, total])


def jumping(x):
    state, result = x[0], []
    for i in range(1, N):
        state = np.where(state > 0.7, state - np.floor(3.0 * x[i]), state * (1.0 + x[i]))
        result.append(state)
    return np.array(result)


def turning(x):
    state, result = x[0], []
    for i in range(1, N):
        state = np.arctan2(x[i] * 0.0 - state * 0.0, state - 1.0) + 0.5 * state * x[i]
        result.append(state)
    return np.array(result)


def variances(x):
    """Return a loop whose steps divide by different numbers."""
    total, variance = 0.0, x[0]
    for k in range(20):
        total = total + np.log(variance) + (0.31 + 0.01 * k) / variance
        variance = x[1] + x[2] * (0.11 + 0.1 * k) + 0.3 * x[3] * variance
    return np.array([total * x[4], variance])


def chosen_from_tables(x):
    state = x[0]
    for k in range(20):
        state = np.where(state > 0.7, 0.2 + 0.03 * k, np.where(state > x[1], 0.9 - 0.01 * k, state * 1.1)) + 0.1 * x[2]
    return state


def thresholds(x):
    """Truth values of data against an argument come from outside of the recurrence, and each step uses them twice."""
    state, total = x[0], 0.0
    for k in range(N):
        is_below = 0.05 * k < x[1]
        state = state * 0.9 + np.where(is_below, 0.1 * x[2], 0.2 * state)
        state = state - np.where(is_below & (x[3] > 0.3), 0.05 * state, 0.0)
        total = total + state
    return total


def flags(x):
    """The same of arrays, one of which holds results of comparisons of comparisons."""
    dry, wet = x > 0.7, ~((x > 0.3) & (x < 0.9))
    state = x[0]
    for k in range(N):
        state = np.where(dry[k], state * 0.5, np.where(wet[k] | dry[k - 1], state + x[k], np.sin(state))) + 0.1 * dry[k]
    return state


def recurrent_network(x):
    """A table of zeros and ones, and two operations on all units, one after the other."""
    table = np.random.default_rng(3).integers(-1, 2, (20, 6)) * 1.0
    hidden, cell, loss = [0.0] * 6, [1.0] * 6, 0.0
    for before, after in pairwise(table):
        gate = [np.tanh(before[k] * x[k] + hidden[k] * x[6 + k] + x[12 + k]) for k in range(6)]
        cell = [cell[k] * gate[k] + np.sin(hidden[k] * x[18 + k]) for k in range(6)]
        hidden = [gate[k] * np.tanh(cell[k]) for k in range(6)]
        loss = loss + sum(after[k] * hidden[k] for k in range(6)) - np.log(sum(map(np.exp, hidden)))
    return loss


FUNCTIONS = [
    pendulum, fitted_pendulum, running_sums, second_order, trajectories, heat, heat_between_walls,
    with_another_beginning, every_other_step, two_recurrences, used_once, polynomial, coupled_network,
    logistic, jumping, turning, variances, chosen_from_tables, thresholds, flags, recurrent_network,
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_recurrences_equal_the_written_out_program(function, sparse):
    assert_rolled_is_written_out(function, sparse=sparse)


# What is found --------------------------------------------------------------------------------------------------------


def test_steps_are_detected():
    assert steps_of(pendulum) == [[1] * 20]
    assert steps_of(second_order) == [[1] * (N - 2)]
    assert [len(steps) >= 28 for steps in steps_of(logistic, terms=99)] == [True, True]


def test_steps_may_take_other_numbers_each():
    assert steps_of(variances) == [[1] * 20]
    assert steps_of(chosen_from_tables) == [[1] * 20]
    with rolling(levels=3):
        loops = record(recurrent_network, [X], arrays=True).program
    assert max(block.count for block in loops.blocks if block.code == SCAN) >= 17
    with rolling(levels=3, fewest=10**6):
        assert record(recurrent_network, [X], arrays=True).program.is_straight


def test_independent_instances_are_one_step():
    assert steps_of(trajectories) == [[6] * 10]
    assert steps_of(heat) == [[N] * 10]


def test_values_used_once_are_cut():
    assert [set(steps) for steps in steps_of(used_once)] == [{1}] * 2
    assert [set(steps) for steps in steps_of(polynomial)] == [{1}]


def test_all_that_repeats_is_one_instance():
    ((first, *rest),) = steps_of(every_other_step)
    assert first == 1
    assert set(rest) == {1}
    assert len(rest) + 1 in (N // 2 - 1, N // 2)
    ((first, *rest),) = steps_of(heat_between_walls)
    assert (first, set(rest)) == (1, {1})
    assert len(rest) + 1 in (11, 12)


def test_operations_before_a_recurrence_are_unchanged():
    ((first, *rest),) = steps_of(with_another_beginning)
    assert (first, set(rest)) == (1, {1})
    assert len(rest) + 1 == N - 4


def test_recurrences_are_distinguished():
    assert all(len(steps) >= N - 4 for steps in steps_of(two_recurrences))
    assert len(steps_of(two_recurrences)) == 2


def test_without_a_period_programs_stay_as_they_are():
    rng = np.random.default_rng(5)
    kinds = rng.integers(0, 3, 400)

    def f(x):
        state = x[0]
        for k in kinds.tolist():
            state = [np.sin(state) * x[1], state + x[2] / state, state * state - x[3]][k]
        return state

    tape = record(f, [X]).tape
    with rolling(levels=3):
        assert roll.rolled(tape) is None


def test_many_steps_are_quick_and_right():
    """Written out, planning and compiling this would take a minute."""
    h, steps = 0.001, 4_000

    def f(z):
        y = [z[0], z[1]]
        for _ in range(steps):
            y = runge_kutta(y, z[2:4], h)
        return np.array(y)

    z = np.array([0.5, 0.0, 9.81, 0.1])
    jac = acc.jacobian(f, cache=False)
    result = jac(z)
    assert jac.compile(z).code.has_loops
    for k in range(4):
        step = 1e-5 * np.eye(4)[k]
        np.testing.assert_allclose(result[:, k], (f(z + step) - f(z - step)) / 2e-5, rtol=1e-6, atol=1e-7)


# Random recurrences ---------------------------------------------------------------------------------------------------

BODIES = [
    lambda a, b, c: a * b + 0.1 * c,
    lambda a, b, c: np.sin(a) - 0.5 * b * c,
    lambda a, b, c: (a + b) / (2.0 + c * c),
    lambda a, b, c: np.where(a > b, 0.5 * a, c * b),
    lambda a, b, c: np.tanh(a + b + c),
    lambda a, b, c: a + 0.1 * np.floor(3.0 * b) - c,
]


@settings(max_examples=13, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(BODIES), *[st.integers(0, 9)] * 3), min_size=1, max_size=4),
    st.integers(0, 2),
    st.integers(10, 16),
    st.sampled_from(["last", "all", "loss"]),
    st.integers(1, 2),
    st.sampled_from([4, 99]),
    st.integers(0, 99),
)
@example(3, [(BODIES[0], 0, 8, 5), (BODIES[4], 6, 0, 9), (BODIES[0], 6, 0, 9)], 2, 15, "last", 1, 4, 43)
def test_any_recurrence(width, updates, special, count, returned, runs, terms, seed):
    generator = np.random.default_rng(seed)
    numbers = generator.uniform(-1.0, 1.0, count)

    def f(x):
        result, loss = [], 0.0
        for run in range(runs):
            state, before = [x[run + k] for k in range(width)], [0.5] * width
            for step in range(count):
                new = list(state)
                for k, (body, a, b, c) in enumerate(updates):
                    pool = [*state, *before, *new, x[step], x[3], numbers[step], 0.25]
                    taken = [pool[m % len(pool)] for m in (a, b, c)]
                    new[k % width] = body(*taken) if step >= special else taken[0] * taken[1] + taken[2]
                before, state = state, new
                result += state if returned == "all" else []
                loss = loss + (state[0] - numbers[step]) ** 2
            result += state if returned == "last" else []
        return np.array(result) if returned != "loss" else loss + 0.0 * x[0]

    x = generator.uniform(-1.0, 1.0, 16)
    tape = record(f, [x]).tape
    expected = np.array(evaluate(tape, list(x)), float)
    with rolling(levels=3, terms=terms):
        blocks = roll.rolled(tape)
        jac = acc.jacobian(f, effort="fast", cache=False)
        actual = jac(x)
    if blocks is not None:
        np.testing.assert_allclose(evaluate(blocks, x), expected, rtol=1e-11, atol=1e-11)
    flat = acc.jacobian(f, effort="fast", cache=False)(x)
    np.testing.assert_allclose(actual, flat, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(flat).max(initial=0.0)))
