"""Functions that fill arrays item by item work as they are, wherever their arrays come from."""

from __future__ import annotations

import borrowed_helpers
import numpy as np
import numpy.typing as npt
import pytest
from agreement import assert_agrees
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy import zeros as made_here

import accumulus as acc
from accumulus.frontends import record
from accumulus.frontends.numpy.arrays import TracedArray

POINT = [np.array([0.5, -1.25, 2.0, 3.5, -0.75])]
TABLE = np.array([1.0, 2.0, 3.0])


def items(y):
    dy = np.zeros(3)
    dy[0] = -0.5 * y[0] + y[1] * y[2]
    dy[1] = np.sin(y[0])
    dy[2] += y[3] / y[4]
    dy[-1] -= 1
    return dy


def slices(y):
    dy = np.empty((2, 5))
    dy[0] = y
    dy[1, 1:-1] = y[2:] - 2 * y[1:-1] + y[:-2]
    dy[1, [0, -1]] = y[[0, -1]]
    return dy


def views(y):
    dy = np.zeros((3, 2))
    row, column, flat = dy[1], dy[:, 0], dy.reshape(-1)
    row[:] = y[:2]
    column += y[2:]
    flat[5] = y[0]
    dy.T[1, 0] = y[1]
    dy.ravel()[2] *= 2
    dy.flat[4] = dy.flat[0]
    return dy, row, column, flat


def lists(y):
    rows = [[y[0], 1.0], [0.0, y[1] * y[2]]]
    return np.array(rows) @ np.asarray([y[3], y[4]]), np.array([y[:2], y[2:4]]), np.array([y[0] > 0, True])


def likes(y):
    a = np.zeros_like(y)
    a[1:] = y[:-1]
    b = np.ones_like(TABLE)
    b[0] = y[0]
    c = np.full(3, 2.0)
    c[1] = y[1]
    d = np.full((2, 2), y[2])
    d[0, 0] = 0.0
    e = np.full_like(y, y[0])
    return a, b, c, d, e


def matrices(y):
    A = np.eye(3)
    A[0, 1] = y[0]
    B = np.identity(2)
    B[1] = y[:2]
    C = np.diag(TABLE)
    C[2, 0] = y[1]
    D = np.array(TABLE)
    D[0] = y[2]
    E = np.copy(TABLE)
    E[1] = y[3]
    F = np.linspace(0.0, 1.0, 4)
    F[3] = y[4]
    G = np.arange(3.0)
    G[::2] = y[:2]
    H = np.tile(TABLE, 2)
    H[0] = y[0]
    return A @ A, B, C, D, E, F, G, H


def updates(y):
    r = np.zeros(4)
    r[1:] += y[:3]
    r[:-1] -= y[1:4]
    r *= 2
    r /= 3.0
    r **= 2
    np.add.at(r, [0, 0, 1], y[:3])
    np.multiply(r, 2.0, out=r)
    np.sin(r, r)
    return r


def overlapping(y):
    a = y.copy()
    a[1:] += a[:-1]
    a[:-1] = a[1:]
    return a


def masked(y):
    a = np.where(y > 0, y, 0.0)
    a[np.array([True, False, True, False, False])] = 7.0
    a[y > 1] = 1.0
    a[a < 0.1] = y[0]
    b = np.ones((5, 2))
    b[y < 0] = -y[0]
    return a, b


def dtypes(y):
    a = np.zeros(2, dtype="float64")
    a[0] = y[0]
    b = np.zeros(2, float)
    b[1] = y[1]
    flags = np.zeros(3, dtype=bool)
    flags[1] = True
    counts = np.zeros(2, dtype=int)
    counts[0] += 3
    objects = np.empty(2, dtype=object)
    objects[:] = [y[0], 2.0]
    return a, b, np.where(flags, 1.0, 2.0), counts[0] * y[0], objects * 2.0


def helpers(y):
    return (
        borrowed_helpers.filled(y, 3),
        borrowed_helpers.from_items(y),
        borrowed_helpers.like(y),
        borrowed_helpers.unset(y),
        made_here(2) + y[0],
    )


def joined(y):
    return np.r_[y[:2], 0.0, y[0] * y[1]], np.c_[y, y * y], np.r_[0:3, y[0]], np.fromiter((a * a for a in y), float)


def in_place_of_copies(y):
    a = y.copy()
    a[0] = 0.0
    b = np.array(y)
    b += 1
    c = y + 0
    c.fill(y[2])
    return a, b, c, y


def chains(y):
    state = [0.0] * 3
    for i in range(3):
        state[i] = state[i - 1] * y[i] + 1.0
    return np.array(state)


FILLING = (
    *(items, slices, views, lists, likes, matrices, updates, overlapping, masked, dtypes, helpers, joined),
    *(in_place_of_copies, chains),
)


@pytest.mark.parametrize("function", FILLING, ids=lambda function: function.__name__)
def test_filled_arrays_agree_with_numpy(function):
    assert_agrees(function, POINT, [POINT[0][::-1].copy()])


def test_closures_and_aliases():
    alias, zeros = np.array, np.zeros

    def outer(y):
        def inner(z):
            out = zeros(2)
            out[1] = z
            return out

        return alias([y[0], 1.0]) + inner(y[1])

    assert_agrees(outer, POINT)


def test_methods_and_callable_objects():
    class Model:
        def __init__(self):
            self.rate = 2.0

        def rhs(self, y):
            dy = np.zeros(2)
            dy[0] = self.rate * y[0]
            return dy

        def __call__(self, y):
            return self.rhs(y) + y[1]

    assert_agrees(Model().rhs, POINT)
    assert_agrees(Model(), POINT)


def test_entries_never_set_are_nan():
    recording = record(lambda x: np.empty(2) + 0 * x, [1.0])
    assert all(np.isnan(recording.tape.value_of(output)) for output in recording.tape.outputs)


def test_constants_behave_as_numbers_do():
    def constants(x):
        table, steps = np.array([0.5, 1.5]), np.array([2, 3])
        assert isinstance(table, np.ndarray)
        assert isinstance(table[0], float)
        assert isinstance(steps, np.ndarray)
        assert not isinstance(steps, TracedArray)
        total = x * 0.0 + 1.0 if table[0] > 0 else x
        for i in range(int(table[1] * 2)):
            total = total + i * x
        order = np.argsort(np.array([3.0, 1.0, 2.0]))
        return total + table[steps[0] - 1] + float(table.sum()) + len(table) + np.interp(0.7, table, table) + order[0]

    assert_agrees(constants, [2.0])


def test_isinstance_goes_the_way_that_it_would_go():
    def asking(x, y):
        x = x if isinstance(x, np.ndarray) else np.array([x])
        y = np.array([y]) if isinstance(y, float) else y
        return x, y

    assert_agrees(asking, [np.array([1.0, 2.0]), 3.0])


@st.composite
def programs(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[object, object, str]]]:
    """Assignments between two arrays of one shape through any basic index, with and without an operator."""
    shape = draw(hnp.array_shapes(max_dims=3, max_side=4))
    index = hnp.basic_indices(shape, allow_newaxis=False)
    steps = st.tuples(index, index, st.sampled_from(["=", "+=", "*=", "scalar", "view"]))
    return shape, draw(st.lists(steps, min_size=1, max_size=5))


def run(shape, steps, x: npt.NDArray[np.float64]):
    out = np.zeros(shape)
    out[...] = 0.5
    for target, source, kind in steps:
        value = x[source]
        if kind == "view" and np.ndim(out[target]):
            view = out[target]
            view[...] = view[::-1] + x[tuple([0] * len(shape))]
        elif kind == "scalar":
            out[target] = np.sum(value)
        elif np.shape(value) == np.shape(out[target]):
            if kind == "=":
                out[target] = value
            elif kind == "+=":
                out[target] += value
            elif kind == "*=":
                out[target] *= value
    return out


@given(program=programs(), seed=st.integers(0, 100))
def test_random_assignments(program, seed):
    shape, steps = program
    x = np.random.default_rng(seed).integers(-8, 9, shape) / 4.0
    assert_agrees(lambda x: run(shape, steps, x), [x])


@given(data=st.data(), shape=hnp.array_shapes(max_dims=3, max_side=4))
def test_random_indices(data, shape):
    index = data.draw(st.one_of(hnp.basic_indices(shape, allow_newaxis=True), hnp.integer_array_indices(shape)))
    mask = data.draw(hnp.arrays(bool, shape))
    x = np.arange(float(np.prod(shape))).reshape(shape) + 0.5

    def pick(x):
        changed = x * 2
        changed[mask] = 0.0
        changed[index] += 1.0
        return x[index], x[mask], changed

    assert_agrees(pick, [x])


def test_arrays_with_none_hold_objects():
    def function(x):
        known = np.append(x[:1] * 2.0, np.full(2, None))
        known[1] = x[1] ** 2
        pair = np.concatenate([known, [x[0], None]])
        return np.array([each for each in pair if each is not None], float)

    jacobian = acc.jacobian(function, cache=False)
    np.testing.assert_allclose(jacobian(np.array([1.5, 2.0])), [[2.0, 0.0], [0.0, 4.0], [1.0, 0.0]])
