"""Programs called from machine code: by their address, by SciPy, and by Numba."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from scipy import integrate, ndimage

import accumulus as acc
from accumulus.errors import ArgumentError, CompileError, UnknownNameError

QUICK = {"effort": "fast", "time_limit": 0.0}


def pendulum(state, damping):
    return np.array([state[1], -9.81 * np.sin(state[0]) - damping * state[1] ** 3])


@pytest.fixture(scope="module")
def program():
    return acc.value_and_jacobian(pendulum, **QUICK).compile(np.zeros(2), 0.1)


def pointers(*arrays):
    return [array.ctypes.data for array in arrays]


def test_the_address_is_a_function_of_c(program):
    native = program.native
    number = r"const double *x0, const double *x1, double *r0, double *r1, int64_t first, int64_t last, int64_t points"
    assert native.declaration == f"int32_t run({number})"
    assert native.address == ctypes.cast(native.ctypes, ctypes.c_void_p).value
    X, D = np.random.default_rng(0).uniform(size=(9, 2)), np.full(9, 0.2)
    values, jacobians = np.full((9, 2), np.nan), np.full((9, 2, 2), np.nan)
    assert native.ctypes(*pointers(X, D, values, jacobians), 2, 9, 9) == 0
    expected = program.batch(X, 0.2)
    np.testing.assert_array_equal(values[2:], expected[0][2:])
    np.testing.assert_array_equal(jacobians[2:], expected[1][2:])
    assert np.isnan(values[:2]).all()


def test_code_lives_as_long_as_its_function():
    native = acc.gradient(lambda x: x[0] * x[1], **QUICK).compile(np.ones(2)).native
    call = native.ctypes
    del native
    gc.collect()
    x, result = np.array([2.0, 3.0]), np.empty(2)
    assert call(*pointers(x, result), 0, 1, 1) == 0
    assert result.tolist() == [3.0, 2.0]


def test_scipy_integrates_without_python():
    area = acc.compile(lambda x, k: np.exp(-k * x * x), **QUICK).compile(0.0, 1.0).native.low_level_callable()
    expected = integrate.quad(lambda x: np.exp(-2.0 * x * x), 0.0, 1.0)[0]
    assert integrate.quad(area, 0.0, 1.0, args=(2.0,))[0] == pytest.approx(expected, rel=1e-13)
    slopes = acc.jacobian(lambda x: np.array([x[0] * x[1] ** 2, x[0]]), **QUICK).compile(np.ones(2)).native
    # d(x y²)/dy = 2 x y over the unit square
    assert integrate.nquad(slopes.low_level_callable(entry=1), [(0, 1), (0, 1)])[0] == pytest.approx(0.5)
    with pytest.warns(integrate.IntegrationWarning):
        assert np.isnan(integrate.quad(area, 0.0, 1.0)[0])  # of one number, where two are expected


def test_scipy_filters_without_python():
    def roughness(window):
        return np.sqrt(np.sum((window - window[4]) ** 2) + 1.0)

    image = np.random.default_rng(1).uniform(size=(12, 11))
    native = acc.compile(roughness, **QUICK).compile(np.ones(9)).native
    result = ndimage.generic_filter(image, native.low_level_callable("ndimage"), size=3)
    np.testing.assert_allclose(result, ndimage.generic_filter(image, roughness, size=3), rtol=1e-14)


def test_guards_are_returned():
    def decides(x):
        while x < 0.5:
            x = 2.0 * x
        return np.exp(x)

    native = acc.compile(decides, **QUICK).compile(0.9).native
    call = native.low_level_callable()
    assert integrate.quad(call, 0.6, 1.0)[0] == pytest.approx(np.exp(1.0) - np.exp(0.6))
    with pytest.warns(integrate.IntegrationWarning):
        assert np.isnan(integrate.quad(call, 0.0, 1.0)[0])
    x, value, holds = np.array([0.1, 0.9]), np.empty(2), np.empty(2)
    assert native.ctypes(*pointers(x, value, holds), 0, 2, 2) == 0
    assert holds.tolist() == [0.0, 1.0]


def test_numba_calls_it(program):
    numba = pytest.importorskip("numba")
    native = program.native

    @numba.njit
    def step(state, damping):
        value, slopes = native(state, damping)
        return value + slopes[:, 0]

    state = np.array([0.3, 9.0, -0.2])[::2]
    value, slopes = program(state, 0.2)
    np.testing.assert_array_equal(step(state, 0.2), value + slopes[:, 0])
    with pytest.raises(ValueError, match="another shape"):
        step(np.zeros(6)[::2], 0.2)

    many = native.batch

    @numba.njit
    def all_steps(states, dampings):
        return many(states, dampings)

    X, D = np.random.default_rng(0).uniform(size=(9, 2)), np.full(9, 0.2)
    for actual, expected in zip(all_steps(X, D), program.batch(X, D), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_numba_receives_guards():
    numba = pytest.importorskip("numba")

    def decides(x):
        while x[0] < 0.5:
            x = x + 1.0
        return x[0] * x[1]

    native = acc.gradient(decides, **QUICK).compile(np.ones(2)).native

    @numba.njit
    def call(x):
        return native(x)

    assert call(np.array([2.0, 3.0])).tolist() == [3.0, 2.0]
    with pytest.raises(ValueError, match="takes another branch"):
        call(np.array([-2.0, 3.0]))


def test_programs_without_an_address(program):
    with pytest.raises(UnknownNameError, match="quad"):
        program.native.low_level_callable("quadrature")
    with pytest.raises(ArgumentError, match="6 entries"):
        program.native.low_level_callable(entry=6)
    plain = acc.jacobian(lambda x: x * x, target="numpy", **QUICK).compile(np.ones(2))
    with pytest.raises(CompileError, match="target='llvm'"):
        _ = plain.native
    single = acc.gradient(lambda x: x * x, dtype="float32", **QUICK).compile(1.0).native
    assert "const float *x0" in single.declaration
    with pytest.raises(ArgumentError, match="float64"):
        single.low_level_callable()
