"""Derivatives, traces, plans and programs are copied, pickled, and sent to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, VerificationError

X = np.array([[1.0, 2.0, 0.5], [3.0, 0.1, -1.0]])


def f(x, k=2.0):
    return {"a": k * x, "b": np.sin(x[0]) * x[1]}


def single(x):
    return np.array([x[0] * x[1], np.exp(x[2]), 1.0])


def call(derivative, x):
    return derivative(x)


def batch(derivative, X):
    return derivative.batch(X)


WAYS = {
    "pickle": lambda given: pickle.loads(pickle.dumps(given)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
OPTIONS = [{}, {"sparse": "csr"}, {"target": "numpy"}, {"dtype": "float32"}, {"exact_order": True}, {"threads": 2}]


def assert_same(actual, expected):
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, tuple):
        for a, b in zip(actual, expected, strict=True):
            assert_same(a, b)
    elif hasattr(expected, "toarray"):
        np.testing.assert_array_equal(actual.toarray(), expected.toarray())
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("called", [False, True], ids=["fresh", "called"])
def test_copies_of_a_derivative_give_the_same(way, options, called):
    derivative = acc.value_and_jacobian(f, **options)
    expected = derivative(X[0], 2.0), derivative.batch(X, 2.0)
    if not called:
        derivative = acc.value_and_jacobian(f, **options)
    copied = way(derivative)
    assert copied is not derivative
    assert_same((copied(X[0], 2.0), copied.batch(X, 2.0)), expected)
    assert_same((derivative(X[0], 2.0), derivative.batch(X, 2.0)), expected)


def test_a_pickled_derivative_takes_its_programs_along(monkeypatch):
    derivative = acc.jacobian(single)
    expected = derivative(X[0])
    copied = pickle.loads(pickle.dumps(derivative))
    monkeypatch.setattr("accumulus.programs.graphs.find_plan", None)  # no plan is made again
    np.testing.assert_array_equal(copied(X[0]), expected)
    assert copied.operations == derivative.operations
    assert str(copied.report())


@dataclass(eq=False)
class Gain:
    k: float

    def __eq__(self, other):
        return isinstance(other, Gain)

    def __hash__(self):
        return 1


def by_gain(x, gain):
    return gain.k * x


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_objects_among_the_arguments_are_watched_in_copies_too(way):
    gain = Gain(2.0)
    derivative = acc.jacobian(by_gain)
    assert derivative(1.0, gain) == 2.0
    copied, gain = way((derivative, gain)) if way is not copy.copy else (copy.copy(derivative), gain)
    assert copied(1.0, gain) == 2.0
    gain.k = 3.0
    assert copied(1.0, gain) == 3.0


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_executor_stays_behind(way):
    with ThreadPoolExecutor(1) as executor:
        derivative = acc.jacobian(single, executor=executor)
        expected = derivative(X[0])
        np.testing.assert_array_equal(way(derivative)(X[0]), expected)


@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.parametrize("called", [False, True], ids=["fresh", "called"])
def test_derivatives_go_to_worker_processes(start, called):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this system")
    derivative = acc.jacobian(single, sparse="csr")
    expected = acc.jacobian(single)(X[0])
    if called:
        derivative(X[0])
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(start)) as pool:
        np.testing.assert_array_equal(pool.submit(call, derivative, X[0]).result(120).toarray(), expected)
        np.testing.assert_array_equal(pool.submit(batch, derivative, X).result(120).toarray()[0], expected)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_traces_and_plans_find_each_other_again(way):
    trace = acc.trace(single, X[0])
    plan = acc.plan(trace.linearize())
    expected = trace.compile(plan)(X[0])
    together = way((trace, plan)) if way is not copy.copy else (copy.copy(trace), copy.copy(plan))
    np.testing.assert_array_equal(together[0].compile(together[1])(X[0]), expected)
    np.testing.assert_array_equal(way(trace).compile(plan)(X[0]), expected)
    np.testing.assert_array_equal(trace.compile(way(plan))(X[0]), expected)
    np.testing.assert_array_equal(way(trace.compile(plan))(X[0]), expected)
    assert way(plan).cost == plan.cost
    way(plan).verify()


def test_a_plan_for_another_function_is_refused():
    trace = acc.trace(single, X[0])
    trace.linearize()
    other = acc.trace(lambda x: x * x[0], X[0])
    with pytest.raises(ArgumentError, match="another graph"):
        trace.compile(acc.plan(other.linearize()))


def swapped(accumulation):
    (first, a), (second, b), *rest = accumulation.entries.items()
    return replace(accumulation, entries={first: b, second: a, **dict(rest)})


def without_last(accumulation):
    return replace(accumulation, entries=dict(list(accumulation.entries.items())[:-1]))


@pytest.mark.parametrize("wrong", [swapped, without_last])
def test_a_plan_that_was_changed_is_not_compiled(wrong):
    trace = acc.trace(single, X[0])
    plan = acc.plan(trace.linearize())
    with pytest.raises(VerificationError):
        trace.compile(replace(plan, accumulation=wrong(plan.accumulation)))
