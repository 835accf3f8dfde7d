"""The target `cuda`: what is launched, with which arguments and grid; results are LLVM's.

Kernels are launched by a stand-in for CuPy, and on a GPU where there is one.
"""

from __future__ import annotations

import pickle
import shutil
import sys

import numpy as np
import pytest
from cuda_shim import MACHINES, cupy_for, fake
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, evaluate, fuse
from looped import assert_same, unrolled
from test_c_loops import FUNCTIONS, program

import accumulus as acc
from accumulus.errors import ArgumentError, CompileError
from accumulus.targets.c import cuda_target
from accumulus.targets.kernel import Segment, Unit

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def field(x, k):
    return np.array([np.sin(x[0] * k) * x[1], x[2] / x[0], 3.0 * x[1]]) * k


def of(function, target, **options):
    return acc.value_and_jacobian(function, (0, 1), target=target, cache=False, effort="fast", **options)


def leaves(results):
    """All arrays of nested tuples and dictionaries."""
    if isinstance(results, dict):
        return [leaf for each in results.values() for leaf in leaves(each)]
    return [leaf for each in results for leaf in leaves(each)] if isinstance(results, tuple) else [results]


X, K = np.random.default_rng(2).uniform(0.5, 1.5, (301, 3)), np.linspace(0.5, 1.5, 301)


@pytest.fixture(params=MACHINES)
def cupy(monkeypatch, request):
    module = cupy_for(request.param)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def launches(cupy):
    """Grids, blocks and arguments of the kernels that were launched on the stand-in; None on a GPU."""
    return getattr(cupy, "launches", None)


def on_host(results, cupy):
    if isinstance(results, tuple):
        return tuple(on_host(each, cupy) for each in results)
    assert isinstance(results, cupy.ndarray)
    return cupy.asnumpy(results)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_numpy(cupy, dtype):
    actual, expected = (of(field, target, dtype=dtype) for target in ("cuda", "llvm"))
    tolerance = 1e-13 if dtype == "float64" else 1e-5

    def check(one, other):
        for a, b in zip((one[0], *one[1]), (other[0], *other[1]), strict=True):
            assert a.dtype == b.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    check(actual(X[0], 1.3), expected(X[0], 1.3))
    check(actual.batch(X, K), expected.batch(X, K))
    check(actual.batch(X, 1.3), expected.batch(X, 1.3))
    check(actual.batch(X.T, K, transposed=True), expected.batch(X.T, K, transposed=True))
    out = [np.empty((301, 3), dtype), np.empty((301, 3, 3), dtype), np.empty((301, 3), dtype)]
    returned = actual.batch(X, K, out=out)
    assert returned[0].base is out[0] or returned[0] is out[0]
    check((out[0], tuple(out[1:])), expected.batch(X, K))


def test_grids_and_distances(monkeypatch):
    cupy = fake()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    actual = of(field, "cuda")
    actual.batch(X, K)
    actual.batch(X, 1.3)
    actual.batch(X.T, K, transposed=True)
    assert [(blocks, threads) for blocks, threads, _ in cupy.launches] == [(3, 128)] * 3
    # points, then of each array its memory, and the distances from point to point and from entry to entry
    strides = [[int(x) for x in args[2:] if isinstance(x, np.int64)] for _, _, args in cupy.launches]
    assert [int(args[0]) for _, _, args in cupy.launches] == [301] * 3
    assert strides == [
        [3, 1, 1, 1, 3, 1, 9, 1, 3, 1],
        [3, 1, 0, 1, 3, 1, 9, 1, 3, 1],
        [1, 301, 1, 301, 1, 301, 1, 301, 1, 301],
    ]


def test_memory_that_is_short_takes_several_launches(monkeypatch):
    cupy = fake(free=50 * 8 * (3 + 1 + 3 + 9 + 3) * cuda_target.MOVED_PART)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert_same(of(field, "cuda").batch(X, K), of(field, "llvm").batch(X, K))
    assert [int(args[0]) for _, _, args in cupy.launches] == [50] * 6 + [1]


@pytest.mark.parametrize("transposed", [False, True])
def test_arrays_on_the_gpu_stay_there(cupy, transposed):
    actual, expected = of(field, "cuda"), of(field, "llvm")
    x = X.T.copy() if transposed else X
    given_x, given_k = cupy.asarray(x), cupy.asarray(K)
    results = actual.batch(given_x, given_k, transposed=transposed)
    assert_same(on_host(results, cupy), expected.batch(x, K, transposed=transposed))
    results = actual.batch(given_x, 0.7, transposed=transposed)
    assert_same(on_host(results, cupy), expected.batch(x, 0.7, transposed=transposed))
    results = actual.batch(cupy.asarray(X.T), given_k, in_axes=(1, 0), transposed=transposed)
    assert_same(on_host(results, cupy), expected.batch(X.T, K, in_axes=(1, 0), transposed=transposed))


def test_arrays_on_the_gpu_of_other_types_and_none(cupy):
    actual, expected = of(field, "cuda"), of(field, "llvm")
    whole = np.arange(1, 13).reshape(4, 3)
    assert_same(on_host(actual.batch(cupy.asarray(whole), 2), cupy), expected.batch(whole, 2))
    before = len(launches(cupy) or ())
    value, _ = actual.batch(cupy.asarray(np.empty((0, 3))), 2.0)
    assert value.shape == (0, 3)
    assert len(launches(cupy) or ()) == before


def test_unsupported_options_for_arrays_on_the_gpu(cupy):
    x = cupy.asarray(X)
    for options, named in (
        ({"target": "llvm"}, "target 'llvm'"),
        ({"sparse": "csr"}, "sparse"),
        ({"check_finite": True}, "check_finite"),
    ):
        made = of(field, **{"target": "cuda"} | options)
        with pytest.raises(ArgumentError, match=named):
            made.batch(x, 1.0)
    made = of(field, "cuda")
    with pytest.raises(ArgumentError, match="out was given"):
        made.batch(x, 1.0, out=[np.empty((301, 3))])
    with pytest.raises(ArgumentError, match="complex128"):
        made.batch(cupy.asarray(X * 1j), 1.0)
    with pytest.raises(ArgumentError, match="different numbers of points"):
        made.batch(x, cupy.asarray(K[:-1]))
    guarded = acc.jacobian(lambda x: x[int(x[0])] ** 2, target="cuda", cache=False)
    with pytest.raises(ArgumentError, match="decides on values"):
        guarded.batch(x)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_of_every_kind(cupy, function):
    x, k = np.random.default_rng(1).uniform(0.1, 1.0, (5, 24)), np.linspace(0.8, 1.2, 5)
    with unrolled(0):
        actual, expected = of(function, "cuda"), of(function, "llvm")
        assert_same(actual(x[0], 1.3), expected(x[0], 1.3))
        assert isinstance(actual.compile(x[0], 1.3).tape, Program)
        assert_same(actual.batch(x, k), expected.batch(x, k))
        assert_same(actual.batch(x, 1.1), expected.batch(x, 1.1))
        assert_same(actual.batch(x.T, k, transposed=True), expected.batch(x.T, k, transposed=True))
        if launches(cupy):
            assert [args[0] for *_, args in cupy.launches] == [1, 5, 5, 5]
        on_gpu = actual.batch(cupy.asarray(x), cupy.asarray(k))
        assert_same(on_host(on_gpu, cupy), expected.batch(x, k))
        on_gpu = actual.batch(cupy.asarray(x.T), 1.1, transposed=True)
        assert_same(on_host(on_gpu, cupy), expected.batch(x.T, 1.1, transposed=True))


def test_threads_of_loops_take_points_in_turns(monkeypatch):
    monkeypatch.setattr(cuda_target, "WORKING", cuda_target.BLOCK)
    monkeypatch.setattr(cuda_target, "LOCAL", 0)
    cupy = fake()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = np.random.default_rng(1).uniform(0.1, 1.0, (300, 24))
    with unrolled(0):
        actual, expected = of(FUNCTIONS[3], "cuda"), of(FUNCTIONS[3], "llvm")
        assert_same(actual.batch(x, 1.1), expected.batch(x, 1.1))
    assert cupy.launches[-1][:2] == (1, 128)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_work_spaces_that_are_passed(monkeypatch, cupy, function):
    monkeypatch.setattr(cuda_target, "LOCAL", 0)
    x = np.random.default_rng(1).uniform(0.1, 1.0, (5, 24))
    with unrolled(0):
        assert_same(of(function, "cuda").batch(x, 1.1), of(function, "llvm").batch(x, 1.1))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("points", [1, 31, 129])
def test_tiles_of_wide_arrays(cupy, dtype, points):
    def wide(x, y, k):
        # tiles that are full, have zeros, or are empty, with zeros before, between and after
        first = np.concatenate([np.zeros(40), x[:3] * k, np.zeros(90), x * x[::-1], np.zeros(17)])
        return {"rows": first, "tile": y[3:5] * y[60], "none": np.zeros(5), "x_point": x[1] * y[70:]}

    x = np.random.default_rng(3).uniform(0.5, 1.5, (points, 20)).astype(dtype)
    y = np.random.default_rng(4).uniform(0.5, 1.5, (points, 80)).astype(dtype)
    k = np.linspace(0.5, 1.5, points).astype(dtype)

    def made(target):
        return acc.value_and_jacobian(wide, (0, 1), target=target, dtype=dtype, cache=False, effort="fast")

    def check(actual, expected):
        for a, b in zip(leaves(actual), leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13 if dtype == "float64" else 1e-5)

    actual, expected = made("cuda"), made("llvm")
    check(actual.batch(x, y, k), expected.batch(x, y, k))
    axes = (0, None, None)
    check(actual.batch(x, y[0], 1.5, in_axes=axes), expected.batch(x, y[0], 1.5, in_axes=axes))
    transposed = actual.batch(x.T, y.T, k, transposed=True)
    check(transposed, expected.batch(x.T, y.T, k, transposed=True))


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_programs_of_loops(seed):
    tape, point = program(seed)
    count = len(tape.outputs)
    positions = np.random.default_rng(seed).permutation(count + 5)[:count]
    segment = Segment(count + 5, slice(0, count), positions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", fake())
        loops = cuda_target.CudaKernel(Unit(tape, [segment], arguments=((7,),), maps=fuse(tape)))
        actual = np.full(count + 5, 7.25)
        loops.compute([point], [actual])
    expected = np.zeros(count + 5)
    expected[positions] = evaluate(tape, point)
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


def test_kernels_travel(cupy):
    program = of(field, "cuda").compile(X[0], 1.0)
    again = pickle.loads(pickle.dumps(program))
    assert_same(again(X[1], 0.9), program(X[1], 0.9))


@pytest.mark.parametrize(
    ("module", "said"),
    [(None, "pip install cupy-cuda12x"), (fake(0), "finds none"), (fake(None), "cudaErrorInsufficientDriver")],
)
def test_without_cupy_or_a_gpu_an_error_gives_advice(monkeypatch, module, said):
    monkeypatch.setitem(sys.modules, "cupy", module)
    made = of(field, "cuda")
    with pytest.raises(CompileError, match=said) as caught:
        made(X[0], 1.0)
    assert "target='llvm'" in str(caught.value)


def test_kernels_that_are_too_long(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake(longest=10))
    with pytest.raises(CompileError, match="too much local data") as caught:
        of(field, "cuda")(X[0], 1.0)
    assert "acc.scan" in str(caught.value)
