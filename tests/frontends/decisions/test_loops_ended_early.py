"""Exits from loops on traced values: flags that choose while the loop is short, guards where it is not."""

# the statements are what is tested

from __future__ import annotations

import itertools

import numpy as np
import pytest
from differences import differences
from inside import evaluate

import accumulus as acc
from accumulus.frontends.record import record

KNOTS = (0.0, 0.5, 1.0, 2.0, 4.0)
POINTS = (-1.0, 0.0, 0.25, 0.5, 0.9, 1.3, 2.0, 3.1, 5.0)


def counted(x):
    y = 0.0
    for i in range(3):
        if x > i + 1:
            break
        y += x
    return y * i


def looked_up(x):
    for knot, slope in zip(KNOTS, (1.0, 2.0, -1.0, 3.0, 0.5), strict=True):
        if x < knot:
            return slope * (x - knot)
    return x**2


def with_else(x):
    y = x
    for knot in KNOTS:
        y = y + np.sin(knot * x)
        if y > 2 * knot:
            y = 3 * y
            break
        if y < -3:
            continue
        y = 0.9 * y
    else:
        y = y - 1.0
    return y


def nested(x):
    total = 0.0
    for i in range(3):
        for j in range(4):
            if x * j > i + 1:
                break
            total = total + x * (i + 1)
            if total > 9:
                return total * x
        total = total + 1
    return total


def elif_exits(x):
    values = []
    for k in range(5):
        if x < k - 2:
            values.append(x)
            return sum(values)
        elif x * k > 6:
            break
        values.append(k * x)
    return values[0] + k


def filled(x):
    y = np.zeros(4)
    state = {"last": x}
    for i in range(4):
        if state["last"] > 3:
            break
        y[i] = x * (i + 1)
        state["last"] = state["last"] + y[i]
    return np.sum(y) * state["last"]


def plain_and_traced(x):
    y = x
    for i in range(100):
        if i == 7:
            break
        if y > 20:
            return y - 20
        y = y + abs(x)
    return y * i


def in_a_branch(x):
    y = x
    if x > 0:
        for k in range(3):
            if x > k + 0.5:
                y = y * 2
                break
            y = y + x
    return y


MERGED = [counted, looked_up, with_else, nested, filled, plain_and_traced, in_a_branch]


@pytest.mark.parametrize("function", MERGED, ids=lambda f: f.__name__)
def test_short_loops_are_one_program(function):
    recording = record(function, [1.3], decides=True, check=True)
    assert not recording.guards
    for x in POINTS:
        np.testing.assert_allclose(float(evaluate(recording.program, [x])[0]), function(x), rtol=1e-14)


@pytest.mark.parametrize("function", [with_else, nested, filled], ids=lambda f: f.__name__)
def test_derivatives_are_those_of_the_way_that_ends_there(function):
    derivative = acc.jacobian(function, effort="fast", optimise=False)
    for x in (0.27, 0.9, 1.3, 3.1):
        np.testing.assert_allclose(derivative(x), differences(function, x, step=1e-5), rtol=1e-7)


def newton(x):
    y = 1.0 + x
    for _ in range(100):
        step = (np.exp(y) - x - 3) / np.exp(y)
        y = y - step
        if abs(step) < 1e-12:
            return y
    return y


def endless(x):
    y = x
    for _ in itertools.count():
        y = 2.0 * y
        if y > 50.0:
            break
    return y


def searched(x):
    result = -1.0
    for k in range(500):
        if k * x > 3:
            result = x * k
            break
    return result


def of_a_list(x):
    return sum([0.0, x, 2 * x, 3 * x][: len([k for k in range(3) if k < 2])]) if elif_exits(x) > 0 else x


@pytest.mark.parametrize("function", [newton, endless, searched, of_a_list], ids=lambda f: f.__name__)
def test_long_loops_are_guarded(function):
    recording = record(function, [1.3], decides=True, check=True)
    assert recording.guards
    for x in (1.0, 1.3, 2.1):
        results = [float(value) for value in evaluate(recording.program, [x])]
        if all(results[1:]):
            np.testing.assert_allclose(results[0], function(x), rtol=1e-14)


def test_forty_turns_cost_no_more_than_some_choices_each():
    def function(x):
        y = x
        for k in range(40):
            if y > 3 + k:
                break
            y = y + x
        return y

    recording = record(function, [0.1], decides=True)
    assert not recording.guards
    assert acc.trace(function, 0.1).tape.operations < 40 * 10
    batch = acc.jacobian(function, effort="fast").batch(np.array([0.01, 0.1, 2.9, 7.0]))
    np.testing.assert_allclose(batch, [41.0, 41.0, 2.0, 1.0])


def test_generators_and_exits_in_try_stay_as_they_are():
    def items(x):
        for k in range(4):
            if x > k + 1:
                return
            yield x * k

    def caught(x):
        for k in range(4):
            try:
                if x < k:
                    return x * k
            finally:
                k = 0  # noqa: PLW2901
        return x

    for function in (lambda x: sum(items(x), 0.0), caught):
        recording = record(function, [1.3], decides=True, check=True)
        assert recording.guards
        np.testing.assert_allclose(float(evaluate(recording.program, [1.3])[0]), function(1.3), rtol=1e-15)
