"""Batches of programs over arrays in lanes: what a point has alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import fuse
from looped import unrolled
from scipy import sparse
from test_c_loops import FUNCTIONS, program

import accumulus as acc
from accumulus.targets.kernel import Segment, Unit
from accumulus.targets.llvm import maps
from accumulus.targets.llvm.maps import LLVMLoops

POINTS = 21


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(LLVMLoops, "_is_to_be_measured", pays)


def pays(loops):
    """Decide for lanes, instead of measuring."""
    loops._pays_in_lanes = loops.fills_lanes
    return False


def loops_of(derivative, *point):
    return derivative.compile(*point).kernel


def steps(x, k):
    def step(state, entry):
        state = state + 0.1 * np.sin(state * k + entry)
        return state, np.sum(state) * entry

    return acc.scan(step, x[:3], x)


def long_sums(x, k):
    return np.sum(np.sin(x) * k), np.sum(np.outer(x, x), axis=1) * (x > 0.4)


@pytest.mark.parametrize("function", [*FUNCTIONS, steps, long_sums])
@pytest.mark.parametrize("sparse", [None, "csr"])
def test_points_in_a_batch_equal_single_points(function, sparse):
    draw = np.random.default_rng(1)
    X, K = draw.uniform(0.1, 1.0, (POINTS, 24)), draw.uniform(0.5, 1.5, POINTS)
    with unrolled(0):
        derivative = acc.value_and_jacobian(function, (0, 1), sparse=sparse, cache=False, effort="fast")
        alone = [arrays(derivative(x, k)) for x, k in zip(X, K, strict=True)]
        for threads in (1, 2):
            together = arrays(derivative.batch(X, K, threads=threads))
            for point, expected in enumerate(alone):
                for one, many in zip(expected, together, strict=True):
                    np.testing.assert_array_equal(one, many[point])
        if sparse is None:
            for one, many in zip(together, arrays(derivative.batch(X.T, K, transposed=True)), strict=True):
                np.testing.assert_array_equal(np.moveaxis(one, 0, -1), many)
        for one, point in zip(arrays(derivative.batch(X, K[0])), arrays(derivative(X[9], K[0])), strict=True):
            np.testing.assert_array_equal(one[9], point)
        assert loops_of(derivative, X[0], K[0])._library is not None


def arrays(tree):
    if isinstance(tree, tuple | list):
        return [array for each in tree for array in arrays(each)]
    if hasattr(tree, "values") and not isinstance(tree, np.ndarray):
        return [tree.values]
    return [tree.data if hasattr(tree, "toarray") else np.asarray(tree)]


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_random_programs(seed):
    tape, point = program(seed, products=False)
    count = len(tape.outputs)
    segments = (Segment(count, np.arange(count), slice(0, count)),)
    kernel = LLVMLoops(Unit(tape, segments, maps=fuse(tape)))
    points = np.asarray(point) * np.random.default_rng(seed).uniform(0.9, 1.1, (POINTS, 1))
    expected = np.array([kernel(each)[0] for each in points])
    np.testing.assert_array_equal(kernel.batch(points)[0], expected)
    assert kernel._library is not None


def test_programs_beyond_the_cache_stay_with_points(monkeypatch):
    with unrolled(0):
        derivative = acc.gradient(lambda x: np.sum(np.sin(x)), cache=False)
        X = np.random.default_rng(0).normal(size=(POINTS, 24))
        monkeypatch.setattr(maps, "MOST_IN_LANES", 100)
        derivative.batch(X)
        assert loops_of(derivative, X[0])._library is None


def test_what_takes_less_time_is_measured_once_others_took_as_long_as_compiling(monkeypatch):
    monkeypatch.undo()
    derivative = acc.gradient(lambda x: np.sum(np.sin(x) * np.roll(x, 1)), cache=False)
    X = np.random.default_rng(0).normal(size=(POINTS, 5_000))
    monkeypatch.setattr(maps, "LANES", 10.0)
    derivative.batch(X)
    loops = loops_of(derivative, X[0])
    assert loops._pays_in_lanes is None
    assert loops._library is None
    assert loops._spent > 0.0
    monkeypatch.setattr(maps, "LANES", 0.0)
    monkeypatch.setattr(maps, "LANES_AN_OPERATION", 0.0)
    expected = derivative.batch(X)
    assert loops._pays_in_lanes is None
    np.testing.assert_array_equal(derivative.batch(X), expected)
    assert loops._pays_in_lanes is not None
    for pays in (True, False):
        monkeypatch.setattr(loops, "_pays_in_lanes", pays)
        np.testing.assert_array_equal(derivative.batch(X), expected)


def test_constants_alone():
    derivative = acc.jacobian(lambda x, k: np.ones(300) * 2.0 + 0.0 * k[:1], 1, cache=False)
    X, K = np.ones((POINTS, 3)), np.ones((POINTS, 2))
    with unrolled(0):
        np.testing.assert_array_equal(derivative.batch(X, K), np.zeros((POINTS, 300, 2)))


@pytest.mark.parametrize("turn", range(5))
def test_threads_compile_for_lanes_at_once(turn):
    def total(x):
        return np.sum(np.sin(x * turn) * np.roll(x, 1))

    X = np.random.default_rng(0).normal(size=(8 * POINTS, 24))
    with unrolled(0):
        derivative = acc.gradient(total, cache=False)
        alone = np.array([derivative(x) for x in X])
        np.testing.assert_array_equal(derivative.batch(X, threads=4), alone)


DRAW = np.random.default_rng(4)
WEIGHTS, INDICES = DRAW.normal(size=(32, 32)), DRAW.integers(0, 32, 90)
SPARSE = sparse.random(24, 32, 0.2, random_state=0, format="csr")
#: Functions of 32 numbers with operations that compute one point at a time.
APART = {
    "a sparse matrix times a column": lambda x: np.sum(np.sin(SPARSE @ x)),
    "a sparse matrix times columns": lambda x: np.sum(np.sin(SPARSE @ np.outer(x, [1.0, 2.0]))),
    "a sparse matrix times a vector of columns and more": lambda x: np.sum(np.sin(SPARSE @ np.outer(x, x[:19]))),
    "rows by indices": lambda x: np.sum(np.cos(x[INDICES]) * x[INDICES[::-1]]),
    "layers": lambda x: np.tanh(WEIGHTS @ np.sin(WEIGHTS.T @ x)),
    "rows": lambda x: np.sum((np.sin(x)[None, :] @ WEIGHTS) ** 2),
    "matrices": lambda x: (np.outer(x, x) @ WEIGHTS) @ np.sin(x),
    "a system": lambda x: np.linalg.solve(WEIGHTS * x + 90.0 * np.eye(32), np.sin(x)),
    "Cholesky": lambda x: np.sum(np.log(np.diag(np.linalg.cholesky(np.outer(x, x) + 60.0 * np.eye(32))))),
    "sums by indices": lambda x: np.bincount(INDICES, np.sin(x[INDICES]), 40),
}


@pytest.mark.sampled(3, each="function")
@pytest.mark.parametrize("function", APART.values(), ids=APART)
@pytest.mark.parametrize("kind", ["compile", "jacobian", "hvp"])
def test_operations_that_compute_one_point_at_a_time(function, kind):
    if kind == "hvp" and np.ndim(function(np.ones(32))):
        kind = "jvp"
    X = np.random.default_rng(1).uniform(0.5, 1.5, (POINTS, 32))
    with unrolled(0):
        derivative = getattr(acc, kind)(function, cache=False)
        if kind in ("hvp", "jvp"):
            together = arrays(derivative.batch((X,), (X[::-1].copy(),)))
            alone = [arrays(derivative((x,), (y,))) for x, y in zip(X, X[::-1], strict=True)]
        else:
            together, alone = arrays(derivative.batch(X)), [arrays(derivative(x)) for x in X]
    for k, expected in enumerate(alone):
        for one, many in zip(expected, together, strict=True):
            np.testing.assert_array_equal(one, many[k])
