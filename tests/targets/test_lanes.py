"""Batches of programs over arrays in lanes: what a point has alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import fuse
from looped import unrolled
from test_c_loops import FUNCTIONS, program

import accumulus as acc
from accumulus.targets.kernel import LongSegment, LoopKernel, Unit
from accumulus.targets.llvm import maps
from accumulus.targets.llvm.maps import LLVMLoops

POINTS = 21


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(maps, "LANES", 0.0)
    monkeypatch.setattr(maps, "LANES_AN_OPERATION", 0.0)


def loops_of(derivative, *point):
    return derivative.compile(*point).kernel._loops


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
        has_products = bool(loops_of(derivative, X[0], K[0])._products)
        assert (loops_of(derivative, X[0], K[0])._library is None) == has_products


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
    segments = (LongSegment(count, np.arange(count), slice(0, count)),)
    kernel = LoopKernel(Unit(tape, segments, maps=fuse(tape)), LLVMLoops, 1)
    points = np.asarray(point) * np.random.default_rng(seed).uniform(0.9, 1.1, (POINTS, 1))
    expected = np.array([kernel(each)[0] for each in points])
    np.testing.assert_array_equal(kernel.batch(points)[0], expected)
    assert kernel._loops._library is not None


def test_programs_beyond_the_cache_and_short_batches_stay_with_points(monkeypatch):
    with unrolled(0):
        derivative = acc.gradient(lambda x: np.sum(np.sin(x)), cache=False)
        X = np.random.default_rng(0).normal(size=(POINTS, 24))
        monkeypatch.setattr(maps, "MOST_IN_LANES", 100)
        derivative.batch(X)
        assert loops_of(derivative, X[0])._library is None
        monkeypatch.setattr(maps, "LANES", 10.0)
        other = acc.gradient(lambda x: np.sum(np.cos(x)), cache=False)
        other.batch(X)
        assert loops_of(other, X[0])._library is None
