"""%, //, divmod and fmod: NumPy's values bit for bit, zeros with their signs, and the derivatives that go with them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accumulus as acc

FUNCTIONS = {
    "fmod": np.fmod,
    "remainder": lambda x, y: x % y,
    "floor_divide": lambda x, y: x // y,
    "divmod": lambda x, y: np.divmod(x, y)[0],
    "modulus": lambda x, y: np.divmod(x, y)[1],
}
OPTIONS = [
    {},
    {"optimise": False},
    {"exact_order": True},
    {"target": "numpy"},
    {"dtype": "float32"},
    {"dtype": "float32", "target": "numpy"},
]
EDGES = [0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 7.5, 1e-3, 2.0**53, 1e16, 1e30, 2.0**-126, 2.0**-149, 1e38, np.inf, np.nan]
NUMBERS = np.array([sign * x for x in EDGES for sign in (1.0, -1.0)])
#: Numbers of single and of double precision, of every size, and multiples of numbers that are none of a power of two.
anything = st.one_of(
    st.sampled_from(NUMBERS.tolist()),
    st.floats(-50.0, 50.0),
    st.integers(-200, 200).map(lambda k: k * 0.1),
    st.floats(),
)
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
each_function = pytest.mark.parametrize("name", FUNCTIONS)


@cache
def compiled(name, options):
    f = FUNCTIONS[name]
    return acc.value_and_jacobian(lambda x: np.array([f(x[0], x[1])]), **dict(options))


def wanted(name, points):
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](points[:, 0], points[:, 1])


def assert_same_bits(actual, expected):
    """NaN is NaN, whatever its bits; zeros have signs."""
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@every_option
@each_function
def test_edges(name, options):
    dtype = options.get("dtype", "float64")
    points = np.stack(np.meshgrid(NUMBERS, NUMBERS), axis=-1).reshape(-1, 2).astype(dtype)
    derivative = compiled(name, tuple(options.items()))
    expected = wanted(name, points)
    assert_same_bits(derivative.batch(points)[0][:, 0], expected)
    few = slice(None, None, 17)
    assert_same_bits(np.array([derivative(x)[0][0] for x in points[few]]), expected[few])


@every_option
@each_function
@settings(max_examples=max(15, settings.default.max_examples // 3))
@given(pairs=st.lists(st.tuples(anything, anything), min_size=1, max_size=20))
def test_values_are_numpys_to_the_last_bit(name, options, pairs):
    with np.errstate(over="ignore"):
        points = np.array(pairs).astype(options.get("dtype", "float64"))
    derivative = compiled(name, tuple(options.items()))
    expected = wanted(name, points)
    assert_same_bits(derivative.batch(points)[0][:, 0], expected)
    assert_same_bits(derivative(points[0])[0], expected[:1])


@every_option
@each_function
def test_numbers_as_operands(name, options):
    """Constants are simplified while recording, without a change of the result."""
    f, points = FUNCTIONS[name], NUMBERS.astype(options.get("dtype", "float64"))
    numbers = (0.1, -0.1, 3.0, -2.0, np.inf, 0.0, 360.0)
    with np.errstate(all="ignore"):
        derivative = acc.value_and_jacobian(lambda x: np.array([(f(x, n), f(n, x)) for n in numbers]), **options)
        result = derivative.batch(points)[0]
        for k, number in enumerate(numbers):
            assert_same_bits(result[:, k, 0], f(points, points.dtype.type(number)))
            if number:  # a literal zero is taken to be divided by something else than zero
                assert_same_bits(result[:, k, 1], f(points.dtype.type(number), points))


@given(x=st.floats(-1e6, 1e6), y=st.floats(0.01, 100.0), negative=st.booleans())
def test_derivatives_have_the_whole_number_of_the_value(x, y, negative):
    point = np.array([x, -y if negative else y])
    for name, whole in (("fmod", lambda x, y: (x - np.fmod(x, y)) / y), ("remainder", lambda x, y: x // y)):
        slopes = compiled(name, ()).batch(point[None])[1][0, 0]
        np.testing.assert_array_equal(slopes, [1.0, -np.rint(whole(*point))])
    assert not compiled("floor_divide", ()).batch(point[None])[1].any()


@given(x=st.floats(-1e3, 1e3), y=st.floats(0.5, 100.0), negative=st.booleans())
def test_derivatives_are_those_of_jax(x, y, negative):
    jax = pytest.importorskip("jax")
    point = np.array([x, -y if negative else y])
    quotient = x / y
    if abs(quotient - np.rint(quotient)) < 1e-9:
        return  # JAX rounds the quotient
    with jax.enable_x64(True):
        for name, function in (("fmod", jax.numpy.fmod), ("remainder", jax.numpy.remainder)):
            expected = jax.grad(function, argnums=(0, 1))(*point.tolist())
            np.testing.assert_array_equal(compiled(name, ())(point)[1][0], np.array(expected, float))
