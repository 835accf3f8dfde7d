"""Loops of Python that are recorded as one body: the same derivatives as written out, iteration by iteration."""

import gc
import importlib.util
import itertools
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from inside import Program
from rolling import in_loops

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.active import ACTIVE, recording_on
from accumulus.frontends.numpy import python_loops
from accumulus.frontends.numpy.scalars import TracedScalar
from accumulus.frontends.record import record
from accumulus.programs.iterated import _Called
from accumulus.repetition import recorded_loops

STEPS = 60
DATA = np.random.default_rng(0).normal(size=STEPS)
RAIN = np.where(DATA > 0.3, DATA, 0.0)
P = np.array([0.4, 0.7, 0.2])


def recurrence(p):
    state = p[0]
    for y in DATA:
        state = 0.9 * state + np.sin(p[1] * y + state)
    return state


def outputs_in_a_list(p):
    state, path = p[0], []
    for y in DATA:
        state = state * p[1] + y
        path.append(state**2)
    return path[::7]


def in_an_array(p):
    y = np.zeros(STEPS)
    y[0], y[1] = p[0], p[1]
    for k in range(2, STEPS):
        y[k] = 0.5 * y[k - 1] - 0.3 * y[k - 2] + np.cos(p[2] * k)
    return y


def in_place(p):
    state = p.copy()
    for y in DATA:
        state += 0.1 * y * np.roll(state, 1)
        state[0] *= 0.5
        state[1:] -= p[2] * state[:-1]
    return state


def matrices(p):
    A, S = np.array([[0.9, p[0]], [-p[0], 0.8]]), np.eye(2)
    total = 0.0
    for _ in range(STEPS):
        S = A @ S @ A.T + np.eye(2) * p[1] ** 2
        total = total + np.log(np.linalg.det(S)) + np.linalg.solve(S + np.eye(2), p[:2])[0]
    return total


def branches_on_values(p):
    state = p[0]
    for y in DATA:
        if state > p[1]:
            state = 0.5 * state + y * p[2]
        else:
            state = state + 0.1
            state = state * 0.9
    return state


def branches_on_data(p):
    snow, soil, total = 0.0, 1.0, 0.0
    for day in range(STEPS):
        if DATA[day] < 0.0:
            snow = snow + RAIN[day - 1] + 0.1
            water = 0.0
        else:
            melt = np.minimum(snow, p[0] * DATA[day])
            snow = snow - melt
            water = RAIN[day] + melt
        soil = soil + water
        if soil > p[1]:
            over, soil = soil - p[1], p[1]
        else:
            over = 0.0
        soil = soil - p[2] * soil
        total = total + (over - 0.1) ** 2
    return total, soil, snow


def branches_of_three(p):
    state = p[0]
    for k in range(STEPS):
        if DATA[k] < -0.5:
            state = state * p[1]
        elif DATA[k] < 0.5:
            state = state + 0.1 * np.sin(state)
        elif k % 2:
            state = state - 0.01 * p[2]
        else:
            state = 0.5 * state
    return state


def conditional_expressions(p):
    state = p[0]
    for k, y in enumerate(DATA):
        state = (state * p[1] if y > 0 else state + 0.2) + (p[2] if k % 3 else 0.0)
    return state


def branches_that_leave_other_types(p):
    state, count, names = p[0], 0, []
    for y in DATA:
        if y > 0.5:
            names.append("up")
            state = state * p[1]
        state = state + 0.1 * np.tanh(state)
        count += 1
    return state * count + len(names)


def data_that_begin_to_vary(p):
    state = p[0]
    for k in range(STEPS):
        state = state * p[1] + RAIN[k] * p[2] + (0.0 if k < 20 else 0.1 * k)
    return state


def values_that_are_one_value_at_first(p):
    store, sum_of_all = p[0], 0.0
    for k in range(STEPS):
        filled = store + RAIN[k]  # the same value as the store while it does not rain
        sum_of_all = sum_of_all + filled * store
        store = filled * p[1]
    return sum_of_all


def zeros_of_either_sign(p):
    state = p[0]
    for k in range(STEPS):
        zero = -0.0 if k == 30 else 0.0
        state = 0.5 * state + np.arctan2(zero, -1.0 - p[1] ** 2 * state**2)
    return state


def one_iteration_differs(p):
    state = p[0]
    for k in range(STEPS):
        state = np.tanh(state + p[1] * DATA[k]) + p[2]
        if k == 33:
            state = 2.0 * state * np.exp(state)
    return state


def left_early(p):
    state = p[0]
    for k in range(10 * STEPS):
        state = state * p[1] + np.sin(state)
        if k > STEPS:
            break
    else:
        state = state * 100.0
    return state * p[2]


def one_after_the_other(p):
    state = p[0]
    for y in DATA:
        state = state * p[1] + 0.1 * y
    for y in DATA:
        state = np.sin(state) + p[2] * y
    for _ in DATA:
        state = np.cos(state)
    return state


def in_each_other(p):
    state = p[0]
    for i in range(30):
        for j in range(20):
            state = state + 0.01 * np.sin(p[1] * i + p[2] * j + state)
    return state


def controls(u):
    state, cost = 0.0, 0.0
    for k in range(STEPS):
        state = state + 0.1 * np.sin(state) + u[k]
        cost = cost + state * state + 0.1 * u[k] ** 2 + np.cos(state * DATA[k])
    return cost


def complex_numbers(p):
    z = p[0] + 0.2j
    for y in DATA:
        z = z * np.exp(1j * p[1] * y) + 0.01 * z * z
    return abs(z) ** 2, z.real


def history(p):
    state, past = p[0], [p[0]] * 5
    for _ in range(STEPS):
        new = 0.3 * past[-1] + 0.2 * past[-5] + np.sin(state)
        state = 0.9 * state + 0.1 * new * p[1]
        past = [*past[1:], new]
    return state + sum(past)


class Body:
    def __init__(self, p):
        self.x, self.v = p[0], p[1]
        self.steps = {"count": 0}

    def step(self, force):
        self.x = self.x + 0.1 * self.v * force
        self.v = self.v - 0.1 * self.x * np.cos(force)
        self.steps["count"] += 1


def objects(p):
    body = Body(p)
    for y in DATA:
        body.step(y)
    return body.x * body.steps["count"]


def a_while_loop(p):
    time, state = 0.0, p[0]
    while time < 6.0:
        state = state + 0.01 * np.sin(state * p[1] + time)
        time += 0.1
    return state


def until_a_break(p):
    state, k = p[0], 0
    while True:
        state = 0.99 * state + 0.01 * np.sin(state * p[1])
        k += 1
        if k > STEPS:
            break
    return state


def root_of(p, start):
    x = start
    while True:
        x = x - 0.2 * (x + np.sin(x * p[0]) - p[1])
        if x != start:
            start = start + 0.01
        if start > 0.7:
            return x


def returned_from_a_loop(p):
    state, end = p[0], 0.0
    for k in range(STEPS):
        if k % 7 == 3:
            end = end + root_of(p, 0.1)
        state = state * p[2] + np.sin(end + DATA[k])
    return root_of(p, 0.1) + state


def sums(p):
    squares, likelihood, count = p[2], 0.0, 0.0
    for a, b in zip(DATA[:-1], RAIN[1:], strict=True):
        residual = b - p[0] * np.tanh(a * p[1])
        squares += residual * residual
        likelihood = np.log(p[1]) + likelihood
        count = count + 1.0
    return squares, likelihood + count


def sums_that_are_read(p):
    total, weighted = 0.0, 0.0
    for y in DATA:
        total = total + np.exp(p[0] * y)
        weighted = weighted + y * np.log(total + p[1] ** 2)
    return total, weighted


def a_generator(p):
    def steps():
        for k in range(STEPS):
            yield k * p[1]

    state = p[0]
    for shift in steps():
        state = 0.5 * state + np.sin(shift)
    return state


def caught_errors(p):
    state = p[0]
    for k in range(STEPS):
        try:
            state = state * p[1] + 1.0 / k
        except ZeroDivisionError:
            state = state + p[2]
    return state


def running_maximum(p):
    state, best = p[0], p[0]
    for k in range(STEPS):
        state = 0.99 * state + 0.3 * np.sin(k * p[1])
        best = max(best, state)
    return best + state


def values_from_long_before(p):
    path = [p[0], p[1]]
    for k in range(STEPS):
        path.append(0.5 * path[k // 2] + np.sin(path[-1]))
    return path[-1]


def term(p, y):
    return p[0] * np.exp(-p[1] * y**2) + np.sin(p[2] * y)


def a_list(p):
    return np.sum(np.array([term(p, y) for y in DATA]) ** 2)


def a_generator_expression(p):
    return sum(term(p, y) ** 2 for y in DATA)


def chosen_data(p):
    return sum([(term(p, y) - k) ** 2 for k, y in enumerate(np.repeat(DATA, 2)) if y > 0.0])


def a_dictionary(p):
    terms = {k: term(p, y) if y > 0.1 else p[1] * y for k, y in enumerate(DATA)}
    return sum(value**2 for value in terms.values())


def lists_in_lists(p):
    return sum(sum([np.sin(p[0] * a) * np.cos(p[1] * b) for a in DATA[:20]]) for b in DATA[:20])


def two_generators(p):
    first, second = (term(p, y) for y in DATA), (p[0] * y for y in DATA)
    return sum(a * b for a, b in zip(first, second, strict=True))


def truth_values(p):
    state = p[0]
    for k in range(STEPS):
        state = 0.9 * state + (DATA[k] > 0.2) * p[1] - ~(DATA[k] > 0.0) * p[2]
        state = np.where(DATA[k] < 0.5, state, np.sin(state))
    return state


def arrays_of_truth_values(p):
    state, masks = p, np.stack([DATA > 0.0, DATA > 0.4, DATA < 0.1], axis=1)
    for k in range(STEPS):
        state = np.where(masks[k], 0.9 * state + 0.1 * p, np.sin(state)) + 0.01 * masks[k] * p
    return state


def added_to_nothing(p):
    total, product = 0.0, 1
    for k in range(STEPS):
        product = product * (1.0 + 0.01 * p[1] * DATA[k])
        total = total + np.sin(p[0] * DATA[k]) * product
    return total


def states_of_numbers_and_values(p):
    y = np.array([1.0 - p[0], 0.0, p[0], -0.0])
    for k in range(STEPS):
        flow = p[1] * y[0] * y[2]
        y = y + 0.01 * np.array([-flow, flow - p[2] * y[1], p[2] * y[1] - y[2] * DATA[k], 0.1 * (y[0] - y[3])])
    return y


def another_number_at_first(p):
    state, factor = p[0], 5.0
    for k in range(STEPS):
        state, factor = 0.1 * state * factor + p[1] * DATA[k], 3.0
    return state


def another_value_at_first(p):
    state, factor = p[0], p[2]
    for k in range(STEPS):
        state, factor = 0.4 * state * factor + p[1] * DATA[k], p[0]
    return state


def another_result_at_first(p):
    state, last = p[0], p[1]
    for k in range(STEPS):
        state, last = np.sin(state + last) + DATA[k], 0.5 * state if k else state * p[2]
    return state + last


def edges_at_first(p):
    values = [p[0]] * (STEPS + 1)
    for k in range(STEPS):
        left = values[k - 1] * p[1] if k > 0 else 0.5 * p[2]
        values[k] = np.sin(left + DATA[k]) * p[0] - values[k + 1] ** 2
    return values


def another_function_at_first(p):
    state, states = p[0], []
    for k in range(STEPS):
        state = (np.sin if k == 0 else np.cos)(state * p[1] + DATA[k]) * p[2]
        states.append(state)
    return states


def another_shape_at_first(p):
    state = p
    for k in range(STEPS):
        state = np.sum(state[:, None] * np.ones((3, 3)), axis=0 if k else 1, keepdims=False) * 0.3 * p + DATA[k]
    return state


FUNCTIONS = [
    *(edges_at_first, another_function_at_first, another_shape_at_first),
    *(added_to_nothing, states_of_numbers_and_values, another_number_at_first, another_value_at_first),
    another_result_at_first,
    *(recurrence, outputs_in_a_list, in_an_array, in_place, matrices, branches_on_values, branches_on_data),
    *(branches_of_three, conditional_expressions, branches_that_leave_other_types, data_that_begin_to_vary),
    *(values_that_are_one_value_at_first, zeros_of_either_sign, one_iteration_differs, left_early),
    *(
        one_after_the_other,
        in_each_other,
        returned_from_a_loop,
        complex_numbers,
        history,
        objects,
        a_while_loop,
        until_a_break,
        sums,
    ),
    *(sums_that_are_read, a_generator, caught_errors, running_maximum, values_from_long_before, controls),
    *(a_list, a_generator_expression, chosen_data, a_dictionary, lists_in_lists, two_generators),
    *(truth_values, arrays_of_truth_values),
]


def point_of(function):
    return np.full(STEPS, 0.02) if function is controls else P


@pytest.fixture
def short_loops(monkeypatch):
    """Record loops of few operations as such, too."""
    monkeypatch.setattr(python_loops, "FEWEST_OPERATIONS", 1)
    monkeypatch.setattr(python_loops, "FEWEST_WITHOUT_END", 1)
    with in_loops():
        yield


def test_loops_of_medium_length_are_written_out_unless_that_takes_long():
    """A gradient of the same loop is straight-line code where its Hessian is not, and both are right."""

    def medium(p):
        state = p[0]
        for k in range(240):
            state = 0.9 * state + np.sin(p[1] * DATA[k % STEPS] + state) * p[2]
        return state

    gradient, hessian = (kind(medium, cache=False) for kind in (acc.gradient, acc.hessian))
    np.testing.assert_allclose(gradient(P), written_out(medium, P), rtol=1e-10)
    slope = acc.gradient(medium, cache=False, effort="fast")
    steps = 1e-6 * np.eye(3)
    differences = [(slope(P + step) - slope(P - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(hessian(P), differences, rtol=1e-6, atol=1e-8)
    codes = [each._last[1].code for each in (gradient, hessian)]
    assert [code.has_loops for code in codes] == [False, True]


def written_out(function, point):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST", 10**9)
        patch.setattr(python_loops, "FEWEST_WITHOUT_END", 10**9)
        return flat(acc.jacobian(function, cache=False)(point))


def flat(results):
    return np.concatenate([np.ravel(each) for each in (results if isinstance(results, list | tuple) else [results])])


def iterations_of(function, point):
    """Return the numbers of iterations of the loops that are recorded."""
    program = record(function, [point], check=True, arrays=True, decides=True).program
    blocks = [] if program.is_straight else program.blocks
    return sorted(block.count for block in blocks if block.count > 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_are_those_of_what_is_written_out(function, short_loops):
    point = point_of(function)
    expected = written_out(function, point)
    found = flat(acc.jacobian(function, cache=False)(point))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("function", "least"),
    [
        *((each, STEPS - 8) for each in (recurrence, in_an_array, in_place, matrices, branches_on_values)),
        *((each, STEPS - 8) for each in (branches_on_data, branches_of_three, conditional_expressions, history)),
        *((each, STEPS - 8) for each in (values_that_are_one_value_at_first, complex_numbers, objects, a_while_loop)),
        *((each, STEPS - 8) for each in (until_a_break, left_early, a_generator, running_maximum, controls)),
        *((each, STEPS - 8) for each in (outputs_in_a_list, sums, sums_that_are_read, data_that_begin_to_vary)),
        *((each, STEPS - 8) for each in (a_list, a_generator_expression, a_dictionary)),
        *((each, STEPS - 8) for each in (truth_values, arrays_of_truth_values)),
        *((each, STEPS // 2 - 8) for each in (one_iteration_differs, chosen_data)),
    ],
)
def test_nearly_all_iterations_are_one_body(function, least, short_loops):
    assert max(iterations_of(function, point_of(function)), default=0) >= least


@pytest.mark.parametrize(
    "function", [added_to_nothing, states_of_numbers_and_values, recurrence, another_value_at_first]
)
def test_the_first_iteration_is_part_of_the_loop(function, short_loops):
    """Also where it begins with numbers, and all others with values."""
    loops = []
    with pytest.MonkeyPatch.context() as patch:
        made = recorded_loops.RecordedLoop
        patch.setattr(python_loops, "RecordedLoop", lambda *facts: loops.append(made(*facts)) or loops[-1])
        record(function, [P], check=True, arrays=True, decides=True)
    assert loops[-1].count == STEPS


def test_iterations_that_only_add_are_independent(short_loops):
    program = record(sums, [P], check=True, arrays=True, decides=True).program
    (loop,) = (block for block in program.blocks if block.body is not None and block.count > 1)
    assert loop.steps.tolist() == [0, loop.count]


def test_decisions_of_the_first_iteration_alone_are_not_merged(short_loops):
    loops = []
    with pytest.MonkeyPatch.context() as patch:
        made = recorded_loops.RecordedLoop
        patch.setattr(python_loops, "RecordedLoop", lambda *facts: loops.append(made(*facts)) or loops[-1])
        record(edges_at_first, [P], check=True, arrays=True, decides=True)
    assert loops[-1].count >= STEPS - 1
    assert loops[-1].body.operations <= 7  # of one branch


def test_sums_over_iterations_are_one_block(called_loops):
    """Also of an array; derivatives take time for each block."""

    def of_arrays(p):
        total, grid = 0.0, np.linspace(0.0, 1.0, 200)
        for k in range(STEPS):
            total = total + np.sin(p[0] * grid + DATA[k]) * p[1]
        return total

    program = record(of_arrays, [P], check=True, arrays=True, decides=True).program
    assert len(program.blocks) <= 20
    assert max(block.count for block in program.blocks if block.offsets is not None) == 200


def test_loops_of_few_operations_are_written_out():
    for function in (recurrence, a_generator, a_while_loop):
        assert record(function, [P], check=True, arrays=True, decides=True).program.is_straight


def test_long_loops_whose_length_is_unknown_are_found():
    def of_a_generator(p):
        state = p[0]
        for k in (k for k in range(3_000)):
            state = 0.5 * state + np.sin(k * p[1] + state)
        return state

    assert iterations_of(of_a_generator, P)[-1] > 2_500


def test_second_derivatives(short_loops):
    for function in (recurrence, branches_on_data, matrices, sums):

        def first(p, function=function):
            result = function(p)
            return result[0] if isinstance(result, tuple) else result

        hessian = acc.hessian(first, cache=False)(P)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(python_loops, "FEWEST", 10**9)
            expected = acc.hessian(first, cache=False)(P)
        np.testing.assert_allclose(hessian, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())


# Errors, and what the function changes --------------------------------------------------------------------------------


def test_errors_name_the_line(short_loops):
    def broken(p):
        state = p[0]
        for k in range(STEPS):
            state = state * p[1]
            if k == 40:
                hash(state)
        return state

    with pytest.raises(TraceError, match=r"line \d+, in broken"):
        acc.gradient(broken, cache=False)(P)


def test_generators_that_outlive_their_recording_end_quietly(short_loops):
    """As those do in frames of a recording that has begun anew, until Python collects them."""
    program = Program(1, scalar=True)
    with recording_on(program):
        turns = python_loops.iterations(("file", 1, 0), range(STEPS))
        state = TracedScalar(program, 0)
        for _, k in zip(range(STEPS // 2), turns, strict=False):
            state = state * 0.5 + float(k)
        assert ACTIVE.loop is not None
    with recording_on(other := Program(1, scalar=True)):
        ACTIVE.loop = here = object()
        del turns
        gc.collect()
        assert ACTIVE.loop is here
        ACTIVE.loop = None
    assert len(other) == 1


def test_exceptions_of_the_function_pass_through(short_loops):
    def broken(p):
        state = p[0]
        for k in range(STEPS):
            state = state * p[1]
            if k == 40:
                raise KeyError("forty")
        return state

    with pytest.raises(KeyError, match="forty"):
        acc.gradient(broken, cache=False)(P)


def test_values_of_an_iteration_may_be_decided_on(short_loops):
    def decided(p):
        state = p[0]
        for k in range(STEPS):
            state = state * 0.9 + p[1] * DATA[k]
            assert state < 100.0
        return state * int(state * 0 + 2)

    np.testing.assert_allclose(acc.gradient(decided, cache=False)(P), written_out(decided, P), rtol=1e-12)


def test_what_the_function_has_changed_is_put_back_before_it_is_recorded_anew(short_loops):
    calls = []

    def counting(p):
        calls.append(0)
        state, seen = p[0], []
        for k in range(STEPS):
            state = state * 0.9 + p[1] * RAIN[k]
            seen.append(k)
        return state * len(seen)

    np.testing.assert_allclose(acc.gradient(counting, cache=False)(P), written_out(counting, P), rtol=1e-12)


def test_functions_among_the_arguments_of_a_call(short_loops):
    """A function may have no module, and compute something else in each iteration."""
    step = [0.0]

    def scaled(x):
        return x * step[0]

    scaled.__module__ = None

    def calling(p):
        state = p
        for k in range(STEPS):
            step[0] = 0.01 * k
            state = 0.5 * np.apply_along_axis(scaled, 0, state) + p[1]
        return state

    np.testing.assert_allclose(flat(acc.jacobian(calling, cache=False)(P)), written_out(calling, P), rtol=1e-12)


def test_a_loop_that_sees_the_signs_of_zeros_runs_once_in_full(short_loops):
    """It begins anew as soon as one of its operations depends on them."""
    runs = []

    def winding(p):
        state = p[0] + 0j
        runs.append(0)
        for k in range(STEPS):
            state = np.sqrt(state * (p[1] + 1j * p[2]) - DATA[k])
            runs[-1] = k + 1
        return np.abs(state)

    recording = record(winding, [P], arrays=True, decides=True)
    assert recording.program.sees_zero_signs
    assert runs.count(STEPS) == 1
    np.testing.assert_allclose(acc.gradient(winding, cache=False)(P), written_out(winding, P), rtol=1e-12)


def test_loops_may_change_what_others_read(short_loops):
    """Arguments that are changed in place after the call have their values of the time of the call."""

    def changing(p):
        state, weights = p, np.zeros(3)
        for k in range(STEPS):
            weights[k % 3] = 0.1 * k
            state = 0.5 * state + weights * p[1]
        return state

    np.testing.assert_allclose(flat(acc.jacobian(changing, cache=False)(P)), written_out(changing, P), rtol=1e-12)


# Loops over arrays ----------------------------------------------------------------------------------------------------

CELLS = 70
NODES = np.linspace(0.1, 2.0, CELLS)


def rod(p):
    u, total = p[0] * NODES, 0.0
    for k in range(STEPS):
        u = u + 0.07 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) - 0.01 * p[1] * u**3
        u[0] = 0.1 * DATA[k]
        total = total + u[3] * np.sum(u)
    return np.append(u[:5], total)


def forward_algorithm(p):
    transitions = np.outer(np.arange(12.0), p[0] * np.arange(12.0)) * 0.01
    alpha = p[1] * np.arange(12.0)
    for y in DATA:
        alpha = scipy.special.logsumexp(alpha[:, None] + transitions, axis=0) - 0.5 * (y - p[2] * np.arange(12.0)) ** 2
    return scipy.special.logsumexp(alpha)


def independent_options(p):
    total = 0.0
    for k in range(STEPS):
        phi = np.exp(-p[0] * NODES * (1.0 + RAIN[k]) + 1j * NODES * p[1])
        value = np.sum(np.real(phi / (1.0 + 1j * NODES)) * np.cos(p[2] * NODES))
        total = total + (value - DATA[k]) ** 2
    return total


def rows_in_a_list(p):
    rows = []
    for k in range(STEPS):
        rows.append(np.tanh(p[0] * NODES * k) * np.sum(p[1] * NODES))
    return np.sum(np.array(rows) ** 2), rows[3][5]


def sums_that_are_read_among_arrays(p):
    total, read = 0.0, 0.0
    for k in range(STEPS):
        total = total + np.sum(np.tanh(p[0] * NODES * k))
        read = read + np.sin(total) * p[1]
    return total * read


def values_from_two_steps_before(p):
    first, second = p[0] * NODES, p[1] * NODES
    for k in range(STEPS):
        first, second = second, 0.5 * np.sin(second) - 0.3 * first + 0.01 * DATA[k]
    return np.sum(second * first)


NOISE = np.random.default_rng(1).normal(size=(STEPS, 300))


def driven_by_rows_of_data(p):
    price, total = np.full(300, 1.0) * p[0], np.zeros(300)  # one number, many times
    for row in NOISE:
        price = price * np.exp(0.1 * p[1] * row - 0.01 * p[2])
        total = total + price * NOISE[0]
    return np.mean(np.maximum(total / STEPS - 0.1, 0.0)) + price[:2]


def large_matrices(p):
    A = p[0] * np.eye(9) + np.outer(NODES[:9], NODES[:9])
    x = p[1] * NODES[:9]
    for k in range(20):
        x = np.linalg.solve(A + p[2] * np.diag(x), NODES[:9]) + 0.01 * DATA[k] * (A @ x)
    return x


def one_array_differs(p):
    u = p[0] * NODES
    for k in range(STEPS):
        u = np.sin(u) * p[1] + 0.1
        if k == 30:
            u = u[::-1] * np.cos(u)
    return np.sum(u)


ARRAYS = [
    *(rod, forward_algorithm, independent_options, rows_in_a_list, sums_that_are_read_among_arrays),
    *(values_from_two_steps_before, driven_by_rows_of_data),
]


@pytest.fixture
def called_loops(short_loops, monkeypatch):
    """Call loops over arrays of few blocks, too."""
    monkeypatch.setattr(recorded_loops, "FEWEST_BLOCKS", 1)
    monkeypatch.setattr(recorded_loops, "FEWEST_WITH_CALLS", 1)


def test_data_are_no_arguments_of_loops(called_loops):
    """They would be copied in every call, forward and backward."""
    made = acc.gradient(lambda p: np.sum(driven_by_rows_of_data(p)), cache=False).compile(P)
    calls = [block for block in made.code.tape.blocks if isinstance(block.opaque, _Called)]
    assert len(calls) == 2
    assert max(block.shape[1] for block in calls) < 2 * 300 + 1_000
    with ThreadPoolExecutor(2) as pool:
        points = [P * (1.0 + 0.01 * k) for k in range(16)]
        found = list(pool.map(lambda p: made(p).copy(), points))
    for p, gradient in zip(points, found, strict=True):
        np.testing.assert_allclose(gradient, written_out(lambda p: np.sum(driven_by_rows_of_data(p)), p), rtol=1e-9)


@pytest.mark.parametrize("function", [*ARRAYS, one_array_differs])
@pytest.mark.parametrize("fewest", [1, 10**9])
def test_loops_over_arrays(function, fewest, short_loops, monkeypatch):
    monkeypatch.setattr(recorded_loops, "FEWEST_BLOCKS", fewest)
    monkeypatch.setattr(recorded_loops, "FEWEST_WITH_CALLS", fewest)
    expected = written_out(function, P)
    found = flat(acc.jacobian(function, cache=False)(P))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())


def test_iterations_of_arrays_are_one_call(called_loops):
    for function, steps in ((rod, STEPS), (forward_algorithm, STEPS), (large_matrices, 20)):
        program = record(function, [P], check=True, arrays=True, decides=True).program
        assert [each.count for each in program.calls] == [steps]


def test_loops_over_systems_of_equations(called_loops):
    def number(p):
        return np.sum(large_matrices(p))

    step = 1e-5 * np.eye(3)
    differences = [(number(P + each) - number(P - each)) / 2e-5 for each in step]
    np.testing.assert_allclose(acc.gradient(number, cache=False)(P), differences, rtol=1e-6, atol=1e-9)


def test_independent_iterations_of_arrays_are_instances(called_loops):
    for function in (independent_options, rows_in_a_list):
        program = record(function, [P], check=True, arrays=True, decides=True).program
        assert not program.calls
        assert max(block.count for block in program.blocks) >= (STEPS - 2) * CELLS


def test_loops_over_arrays_without_constants(called_loops):
    table = np.linspace(0.1, 1.0, STEPS * CELLS).reshape(STEPS, CELLS)

    def products(p):
        scaled = p[0] * NODES
        return np.array([np.sum(scaled * row) for row in table])

    np.testing.assert_allclose(
        flat(acc.jacobian(products, cache=False)(P)), written_out(products, P), rtol=1e-12, atol=1e-12
    )


def test_every_kind_of_derivative_of_loops_over_arrays(called_loops):
    def number(p):
        return rod(p)[-1]

    jacobian, ones = written_out(rod, P).reshape(6, 3), np.ones(3)
    found = [
        (acc.compile(rod, cache=False)(P), rod(P)),
        (acc.gradient(number, cache=False)(P), jacobian[-1]),
        (acc.jvp(rod, cache=False)((P,), (ones,))[1], jacobian @ ones),
        (acc.vjp(rod, cache=False)((P,), np.ones(6))[1][0], np.ones(6) @ jacobian),
        (acc.jacobian(rod, sparse="csr", cache=False)(P).toarray(), jacobian),
        (acc.gradient(number, target="numpy", cache=False)(P), jacobian[-1]),
        (acc.gradient(number, cache=False).batch(np.stack([P, P]))[1], jacobian[-1]),
        (acc.linear_operator(rod, cache=False)(P) @ ones, jacobian @ ones),
        (acc.hvp(number, cache=False)((P,), (ones,))[0], acc.hessian(number, cache=False)(P) @ ones),
    ]
    for one, other in found:
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * np.abs(other).max())


# Programs of random statements ----------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
EXPRESSIONS = st.recursive(
    st.sampled_from([*NAMES, "p[0]", "p[1]", "0.5", "DATA[k]", "RAIN[k]", "0.1 * k", "v[0]", "v[1]"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda each: f"({' '.join(each)})"),
        inner.map(lambda x: f"np.sin({x})"),
        inner.map(lambda x: f"np.tanh({x})"),
        st.tuples(inner, inner).map(lambda pair: f"np.maximum({pair[0]}, {pair[1]})"),
    ),
    max_leaves=4,
)
CONDITIONS = st.one_of(
    st.tuples(EXPRESSIONS, EXPRESSIONS).map(lambda pair: f"{pair[0]} < {pair[1]}"),
    st.sampled_from(["k % 3", "DATA[k] > 0", "RAIN[k]", "k == 25", "k < 20"]),
)
ASSIGNMENTS = st.one_of(
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map(lambda pair: [f"{pair[0]} = np.tanh({pair[1]})"]),
    EXPRESSIONS.map(lambda x: [f"v = 0.5 * v + np.array([{x}, 0.1])"]),
    st.tuples(st.sampled_from("01"), EXPRESSIONS).map(lambda pair: [f"v[{pair[0]}] = np.sin({pair[1]})"]),
    st.sampled_from([["path.append(a)"], ["v += a"], ["a, b = b, a"], ["b = path[-1]"], ["v = v[::-1]"]]),
)
STATEMENTS = st.recursive(
    ASSIGNMENTS,
    lambda inner: st.one_of(
        st.tuples(CONDITIONS, inner, inner).map(
            lambda three: [
                *(f"if {three[0]}:", *("    " + line for line in three[1])),
                *("else:", *("    " + line for line in three[2])),
            ]
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: [*itertools.chain(*parts)]),
    ),
    max_leaves=6,
)


def module_of(lines, folder):
    """Return the function of a loop with these lines, imported from a file."""
    body = textwrap.indent("\n".join(lines), 8 * " ")
    text = (
        "import numpy as np\n"
        f"STEPS = {STEPS}\n"
        "DATA = np.random.default_rng(0).normal(size=STEPS)\n"
        "RAIN = np.where(DATA > 0.3, DATA, 0.0)\n"
        "def f(p):\n"
        "    a, b, c = p[0], p[1], 0.3\n"
        "    v, path = p * 0.5, [p[0]]\n"
        "    for k in range(STEPS):\n"
        f"{body}\n"
        "    return a + b * 0.5 + c * 0.25 + v[0] - v[1] + sum(path) * 0.1\n"
    )
    name = f"loop_{abs(hash(text))}"
    path = folder / f"{name}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module.f


@given(st.lists(STATEMENTS, min_size=1, max_size=3).map(lambda parts: [*itertools.chain(*parts)]))
def test_random_loops(tmp_path_factory, lines):
    function, point = module_of(lines, tmp_path_factory.mktemp("loops")), np.array([0.3, 0.6])
    expected = written_out(function, point)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "FEWEST_OPERATIONS", 1)
        with in_loops():
            found = flat(acc.gradient(function, cache=False)(point))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * (1.0 + np.abs(expected).max()))
