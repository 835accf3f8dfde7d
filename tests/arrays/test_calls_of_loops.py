"""Calls of programs over arrays: where results go, threads that share one point, several calls at once."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from looped import unrolled

import accumulus as acc
from accumulus.targets.kernel import CallRows, Kernel
from accumulus.targets.llvm import maps, steps
from accumulus.targets.nests import Nest

X = np.random.default_rng(5).uniform(0.1, 1.0, 300)


@pytest.fixture(autouse=True)
def in_loops():
    with unrolled(0):
        yield


def stencil(u):
    du = np.zeros_like(u)
    du[1:-1] = u[2:] * u[:-2] - np.sin(u[1:-1])
    return du


def sums(u):
    table = u[:280].reshape(7, 40)
    return np.concatenate([np.sum(table * table[::-1], axis=1), np.exp(u), [np.sum(u)]])


def in_order(u):
    """Results that are returned where they are computed, and taken by others, too."""
    squares = u * u
    return {"taken": squares, "twice": [squares[::-1] * u, np.cos(u)], "again": squares, "none": u[:0]}


def few(u):
    """A dense Jacobian of nearly nothing but zeros."""
    return u * np.roll(u, 3)


def constants(u):
    return np.concatenate([u, 2.0 * u[::-1], np.ones(9)])


def short_sums(u):
    """Sums of two, three and seven, of one length or of several, returned and taken by others."""
    pairs, threes = np.sum(u.reshape(150, 2), axis=1), np.sum(u[::-1].reshape(100, 3) ** 2, axis=1)
    several = np.zeros(90)
    np.add.at(several, np.arange(240) * 7 % 90 * (np.arange(240) % 3 > 0), np.sin(u[:240]))
    return {"returned": threes, "taken": np.sqrt(pairs), "several": several, "both": (several, several[::-1] * u[:90])}


FUNCTIONS = [stencil, sums, in_order, few, constants, short_sums]


def leaves(results):
    if isinstance(results, dict):
        return [leaf for value in results.values() for leaf in leaves(value)]
    if isinstance(results, list | tuple):
        return [leaf for value in results for leaf in leaves(value)]
    return [results.toarray() if hasattr(results, "toarray") else results]


def assert_equal(actual, expected):
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.sampled(3, each="function sparse")
@pytest.mark.parametrize("sparse", [None, "csr", "csc"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_where_they_belong(function, sparse):
    looped = acc.value_and_jacobian(function, sparse=sparse, cache=False)
    assert looped.compile(X).code.has_loops
    in_numpy = acc.value_and_jacobian(function, sparse=sparse, cache=False, target="numpy")
    for one, other in zip(leaves(looped(X)), leaves(in_numpy(X)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(3, each="function sparse")
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_threads_share_one_point(function, sparse, monkeypatch):
    expected = acc.value_and_jacobian(function, sparse=sparse, cache=False)(X)
    monkeypatch.setattr(steps, "MINIMUM_WORK", 1e-30)
    monkeypatch.setattr(steps, "FEWEST_POINTS", 8)
    for threads in (2, 3, 100):
        shared = acc.value_and_jacobian(function, sparse=sparse, cache=False, threads=threads)
        assert_equal(shared(X), expected)
        assert_equal(pickle.loads(pickle.dumps(shared))(X), expected)


@pytest.mark.parametrize("count", [*range(40), 1000])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_parts_are_all_instances_and_no_part_is_too_short(count, threads, monkeypatch):
    monkeypatch.setattr(steps, "FEWEST_POINTS", 8)
    step = steps.Step("map0", Nest(count, ()), 1.0)
    result = step.shares(threads).tolist()
    assert [begin for begin, _ in result] == [0, *(end for _, end in result[:-1])]
    assert result[-1][1] == count
    assert len(result) <= threads
    assert len(result) == 1 or all(end - begin >= 8 for begin, end in result)


@pytest.mark.sampled(3, each="function sparse")
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_several_threads_call_at_once(function, sparse):
    jac = acc.value_and_jacobian(function, sparse=sparse, cache=False, threads=2)
    points = [X * (1.0 + 0.01 * k) for k in range(40)]
    expected = [jac(point) for point in points]
    with ThreadPoolExecutor(4) as callers:
        for one, other in zip(callers.map(jac, points), expected, strict=True):
            assert_equal(one, other)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_never_share_memory(function):
    jac = acc.value_and_jacobian(function, cache=False)
    first, second = leaves(jac(X)), leaves(jac(X))
    before = [array.copy() for array in second]
    for k, array in enumerate(first):
        assert not any(np.shares_memory(array, other) for other in (*first[:k], *second, X))
        array[...] = -1.0
    for array, expected in zip(second, before, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_batches_are_stored_where_they_are_returned(transposed, threads):
    jac = acc.jacobian(few, cache=False)
    X5 = np.stack([X * (1.0 + 0.1 * k) for k in range(5)])
    expected = np.stack([jac(point) for point in X5])
    batch, axis = (np.ascontiguousarray(X5.T), -1) if transposed else (X5, 0)
    out = np.full((300, 300, 5) if transposed else (5, 300, 300), np.nan)  # zeros are written, too
    actual = jac.batch(batch, out=out, threads=threads, transposed=transposed)
    np.testing.assert_array_equal(np.moveaxis(actual, axis, 0), expected)
    np.testing.assert_array_equal(np.moveaxis(jac.batch(batch, transposed=transposed), axis, 0), expected)


def test_fast_calls_take_the_arguments_of_slow_calls():
    jac = acc.jacobian(stencil, sparse="csr", cache=False)
    expected = jac(X).toarray()
    read_only, strided = X.copy(), np.repeat(X, 2)[::2]
    read_only.flags.writeable = False
    for argument in (X, read_only, strided, X.astype(np.longdouble)):
        np.testing.assert_array_equal(jac(argument).toarray(), expected)
    with pytest.raises(acc.errors.ArgumentError):
        jac.compile(X)(X[:-1])


@pytest.mark.parametrize("number", [0.5, np.float64(-0.25), 3, 2**60, np.float32(0.5), np.int64(2)])
def test_numbers_are_taken_as_the_slow_path_takes_them(number):
    made = acc.compile(lambda u, k: u * k, cache=False, effort="fast")
    np.testing.assert_array_equal(made(X, number), X * float(number))
    program = made.compile(X, number)
    assert program.code.has_loops
    out = np.empty(300)
    assert program.kernel.point()(X, number, out) is None
    np.testing.assert_array_equal(out, X * float(number))
    assert program.kernel.point()(X[:-1], number, out) is NotImplemented
    assert program.kernel.point()(number, number, out) is NotImplemented


@pytest.mark.parametrize("copied", [0, 32, 10**9])
def test_calls_in_turn_read_and_write_the_rows_of_arrays(copied, monkeypatch):
    """Rows are copied, or addresses follow them: the results are those of calls one by one."""
    monkeypatch.setattr(maps, "COPIED", copied)

    def f(state, row, common):
        moved = state * np.exp(0.1 * row[::-1]) + common[:300] * np.roll(state, 5)
        return np.tanh(moved), np.append(np.sum(moved * row), state[:7]), common * moved[3]

    draw, turns = np.random.default_rng(3), 9
    kernel = acc.compile(f, cache=False).compile(X, X, np.append(X, X)).kernel
    arrays = [draw.normal(size=(rows, size)) for rows, size in ((turns + 1, 300), (2 * turns, 300), (1, 600))]
    used, total = np.zeros((turns, 8)), np.zeros((1, 600))

    def rows(arrays, used, total):
        state, data, common = arrays
        arguments = [CallRows(state), CallRows(data, 2 * turns - 1, -2), CallRows(common, step=0)]
        return arguments, [CallRows(state, 1), CallRows(used, turns - 1, -1), CallRows(total, step=0, adds=True)]

    expected = [array.copy() for array in (*arrays, used, total)]
    Kernel.repeat(kernel, turns, *rows(expected[:3], *expected[3:]))
    for _ in range(2):  # the second time in the same memory
        found = [array.copy() for array in (*arrays, used, total)]
        kernel.repeat(turns, *rows(found[:3], *found[3:]))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    once = [np.empty(segment.length) for segment in kernel.segments]
    kernel.compute([arrays[0][0], arrays[1][0], arrays[2][0]], once)
    np.testing.assert_allclose(once[0], f(arrays[0][0], arrays[1][0], arrays[2][0])[0], rtol=1e-13)


def test_fast_calls_convert_arrays_of_integers_and_arrays_with_gaps(monkeypatch):
    def f(x, indices):
        return np.sum(np.sin(x[indices]) * np.arange(90.0))

    x, indices = np.random.default_rng(0).normal(size=200), np.arange(90) * 7 % 200
    gradient = acc.gradient(f, cache=False)
    expected = gradient(x, indices)
    gradient(x, indices)
    monkeypatch.setattr(type(gradient), "_call", lambda *given: pytest.fail("the call took the slow path"))
    for at in (x, np.repeat(x, 2)[::2], np.asfortranarray(x)):
        for chosen in (indices, indices.astype(np.int32), indices.astype(float), np.repeat(indices, 3)[::3]):
            np.testing.assert_array_equal(gradient(at, chosen), expected)
