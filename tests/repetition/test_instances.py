"""Operations on arrays by instances: the same numbers, whatever belongs together and wherever it lies."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inside import evaluate, fuse, record
from looped import PLAIN, assert_same, both, unrolled

import accumulus as acc
from accumulus.repetition import instances
from accumulus.repetition.instances import by_instance

N, M = 5, 3
TURN = np.array([[0.8, -0.6, 0.1], [0.6, 0.8, -0.3], [0.2, 0.1, 1.1]])
X = np.random.default_rng(7).uniform(0.2, 1.5, (N, M))


@contextmanager
def instances_of_all():
    """Let programs be by instances however short they are, and whether they save anything or not."""
    with (
        mock.patch.object(instances, "LONG", 2),
        mock.patch.object(instances, "SAVED", -np.inf),
        mock.patch.object(instances, "REPEATED", 1e-3),
    ):
        yield


def _slope(x):
    return np.multiply.outer(2.0 * x, np.ones(x.shape)) * np.eye(x.size).reshape(x.shape * 2)


def _curvature(x):
    unit_vectors = np.eye(x.size).reshape(x.shape * 2)
    return 2.0 * unit_vectors[..., np.newaxis, np.newaxis] * unit_vectors[:, :, np.newaxis, np.newaxis]


OPAQUE = acc.custom(lambda x: x**2, acc.custom(_slope, _curvature))

#: Steps from one (N, M) array, and one that was there before, to the next.
STEPS = {
    "product": lambda x, y: x * y,
    "by rows": lambda x, y: x / np.sqrt(np.sum(y**2, axis=1))[:, np.newaxis],
    "by columns": lambda x, y: x - np.sum(np.sin(y), axis=0),
    "turned": lambda x, y: np.stack([np.sum(TURN[k] * x, axis=1) for k in range(M)], axis=1) + y,
    "einsum": lambda x, y: np.einsum("ij,kj->ki", TURN, x) * y[:, :1],
    "matrix product": lambda x, y: x @ TURN + y,
    "across": lambda x, y: x[::-1] * np.cos(y),
    "gathered": lambda x, y: x[[1, 0, 1, 4, 2]] + y,
    "shared": lambda x, y: x * y[2],
    "cross": np.cross,
    "columns last": lambda x, y: np.transpose(np.exp(-x.T) * y.T),
    "parts": lambda x, y: np.concatenate([x[:, 1:] * y[:, :-1], y[:, :1]], axis=1),
    "chosen": lambda x, y: np.where(x > 0.6, x * x, y),
    "greatest": lambda x, y: x - np.max(y, axis=1, keepdims=True),
    "total": lambda x, y: x / (2.0 + np.sum(y * y)),
    "along": lambda x, y: np.cumsum(x, axis=1) * y,
    "one by one": lambda x, y: acc.map(lambda row: np.sin(row) * row[0], x) + y,
    "step by step": lambda x, y: acc.scan(lambda c, row: (c + row, c * row), y[0], x)[1],
    "called": lambda x, y: OPAQUE(x) * y,
}
ENDS = {
    "all": lambda x: x,
    "rows": lambda x: np.sum(x * x, axis=1),
    "total": lambda x: np.sum(x * x),
}


def function_of(names, end):
    def f(x):
        values = [x, np.cos(x)]
        for name in names:
            values.append(STEPS[name](values[-1], values[-2]))
        return ENDS[end](values[-1])

    return f


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.sampled_from(sorted(ENDS)))
@example(list(STEPS), "rows")
def test_numbers_are_the_same(names, end):
    with unrolled(0), instances_of_all():
        program = record(function_of(names, end), [X], arrays=True, at_once=True).program
        made = by_instance(program)
    # but for sums of segments, which NumPy adds in another order
    assert_same(evaluate(made, X.ravel()), evaluate(program, X.ravel()))


@settings(deadline=None, max_examples=6)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4), st.sampled_from(sorted(ENDS)))
def test_derivatives_are_the_same(names, end):
    f = function_of(names, end)
    with instances_of_all():
        _, actual, expected = both(f, X, effort="fast", optimise=False)
    assert_same(actual, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STEPS)
def test_second_derivatives_are_the_same(name):
    f = function_of([name, "by rows"], "total")
    with instances_of_all(), unrolled(0):
        result = acc.hessian(f, effort="fast", cache=False)(X)
    with unrolled(10**9):
        assert_same(result, acc.hessian(f, **PLAIN)(X))


def program_of(f, *shapes):
    return record(f, [np.ones(shape) for shape in shapes], arrays=True, at_once=True).program


def sizes(program):
    return [each.count for each in fuse(program)]


def test_connected_operations_are_one_body():
    def f(x):
        along = x / np.sqrt(np.sum(x**2, axis=1, keepdims=True))
        return np.sum(np.cross(along, x) ** 2, axis=1)

    program = program_of(f, (100, 3))
    assert len(sizes(program)) > 4
    assert sizes(by_instance(program)) == [100]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_wherever_the_instances_lie(axis):
    def f(x):
        return np.sum(x**2, axis=tuple({0, 1, 2} - {axis})) * 2.0

    shape = [3, 3, 3]
    shape[axis] = 80
    assert sizes(by_instance(program_of(f, tuple(shape)))) == [80]


def test_values_of_arguments_alone_join_the_body_that_uses_them():
    corners = np.random.default_rng(2).integers(0, 40, (800, 4))

    def f(x):
        edges = x[corners[:, 1:]] - x[corners[:, :1]]
        return np.sum(np.log(np.linalg.det(edges) ** 2))

    assert sizes(by_instance(program_of(f, (40, 3)))) == [800, 1]


def test_guards_of_indices_do_not_count():
    generator = np.random.default_rng(4)
    pairs = generator.integers(0, 40, (500, 2))

    def f(x, pairs):
        apart = x[pairs[:, 0]] - x[pairs[:, 1]]
        return np.sum((np.sqrt(np.sum(apart**2, axis=1)) - 1.0) ** 2)

    recording = record(f, [np.ones((40, 3)), pairs], arrays=True, at_once=True, decides=True)
    result = sizes(by_instance(recording.program, recording.results))
    assert len(recording.guards) == 2
    assert 1500 not in result
    assert 1500 in sizes(recording.program)


def as_written(f, shape):
    program = program_of(f, shape)
    return by_instance(program) is program


def test_rolling_without_gain_is_skipped():
    assert as_written(lambda x: np.sum(np.sin(x) * x), (100, 3))
    assert as_written(lambda x: np.tanh(x @ np.ones((30, 40))) @ np.ones((40, 2)), (100, 30))
    assert as_written(lambda x: np.sum(np.exp(x), axis=1), (100, 50))  # bodies would be long
    assert as_written(lambda x: np.cos(x) / np.sum(x), (100, 3))
