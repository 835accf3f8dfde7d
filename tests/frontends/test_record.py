"""Recordings: arguments, results and their structure."""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from functools import partial

import numpy as np
import pytest
from agreement import assert_agrees
from hypothesis import given
from hypothesis import strategies as st
from inside import evaluate

from accumulus.errors import ArgumentError
from accumulus.frontends import record
from accumulus.frontends.trees import flatten, unflatten

Pair = namedtuple("Pair", "first second")

TREES = st.recursive(
    st.integers(0, 99),
    lambda tree: st.one_of(
        st.lists(tree, max_size=3),
        st.lists(tree, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), tree, max_size=3),
        st.tuples(tree, tree).map(lambda pair: Pair(*pair)),
    ),
    max_leaves=8,
)


@given(tree=TREES)
def test_structures_round_trip(tree):
    structure, leaves = flatten(tree)
    again = unflatten(structure, [leaf for _, leaf in leaves])
    assert again == tree
    assert type(again) is type(tree)
    for path, leaf in leaves:
        assert eval(f"tree{path}", {"tree": tree}) == leaf
    with pytest.raises(ArgumentError, match="leaves"):
        unflatten(structure, [*leaves, None])


def test_arguments_of_every_kind():
    def f(a, b, c, d, e, flag, name, nothing, call, choice):
        assert flag is True
        assert name == "text"
        assert nothing is None
        assert call is len
        np.testing.assert_array_equal(choice, [True, False])
        return a + b + c + d.sum() + e * d[0, 1]

    static = [True, "text", None, len, np.array([True, False])]
    recording = record(f, [1, 2.5, np.float32(2), np.arange(6).reshape(2, 3), np.array(3.0), *static])
    assert recording.argument_shapes == ((), (), (), (2, 3), (), None, None, None, None, None)
    assert recording.argument_slices[:5] == (slice(0, 1), slice(1, 2), slice(2, 3), slice(3, 9), slice(9, 10))
    assert all(extent.start == extent.stop for extent in recording.argument_slices[5:])
    assert recording.program.inputs == 10
    values = evaluate(recording.program, [1.0, 2.5, 2.0, *range(6), 3.0])
    assert values == [1 + 2.5 + 2 + 15 + 3]


def test_static_numbers_and_keywords_are_constants():
    def f(x, n, table, *, power):
        return sum(x**power for _ in range(n)) + table[1]

    recording = record(partial(f, power=2), [2.0, 3, [1.0, 5.0]], static=frozenset({1, 2}))
    assert recording.argument_shapes == ((), None, None)
    assert evaluate(recording.program, [3.0]) == [32.0]


def test_results_of_every_kind():
    def f(x):
        return {"pair": Pair(x[0], x), "list": [x.sum(), 2, np.ones((1, 2)), True], "tuple": (x > 1, np.arange(2))}

    assert_agrees(f, [np.array([0.5, 2.0])])
    recording = record(f, [np.ones(2)])
    assert recording.result_shapes == ((), (2,), (), (), (1, 2), (), (2,), (2,))
    tree = recording.unflatten(list("abcdefgh"))
    assert tree == {"pair": Pair("a", "b"), "list": ["c", "d", "e", "f"], "tuple": ("g", "h")}


def test_odd_results():
    assert_agrees(lambda x: x, [np.array([1.0, 2.0])])
    assert_agrees(lambda x: (x, x, x[::-1], 0 * x), [np.array([1.0, 2.0])])
    assert_agrees(lambda x: 1.0, [2.0])
    assert_agrees(lambda x: [], [2.0])
    assert_agrees(lambda x: x[:0], [np.ones(2)])
    assert_agrees(lambda x, y: y, [np.ones((0, 3)), 1.0])
    assert_agrees(lambda x: OrderedDict(b=x, a=2 * x), [1.0], [3.0])


def test_callables_of_every_kind():
    class Scale:
        factor = 3.0

        def __call__(self, x):
            return self.factor * x

        def method(self, x):
            return self(x) + 1

        @staticmethod
        def still(x):
            return -x

    @functools.wraps(Scale.still)
    def wrapped(x):
        return Scale.still(x) * 2

    for f in (Scale(), Scale().method, Scale.still, wrapped, functools.partial(np.multiply, 2.0), np.sin, np.sum):
        assert_agrees(f, [np.array([1.0, 2.0])])


def test_random_numbers_and_globals_are_recorded_as_they_ran():
    generator = np.random.default_rng(7)
    recording = record(lambda x: x * generator.normal(), [1.0])
    assert evaluate(recording.program, [2.0]) == [2.0 * np.random.default_rng(7).normal()]


def test_same_operations_are_recorded_once():
    recording = record(lambda x, y: (np.sin(x) * y, y * np.sin(x)), [1.0, 2.0])
    assert recording.program.operations == 2
    assert recording.program.outputs[0] == recording.program.outputs[1]


def test_recordings_nest():
    inner = []

    def outer(x):
        a = np.zeros(2)
        inner.append(record(lambda y: np.array([y, 1.0]) * np.ones(2), [1.0]))
        a[0] = x
        return a

    recording = record(outer, [1.0])
    assert recording.program.operations == 0
    assert inner[0].result_shapes == ((2,),)
