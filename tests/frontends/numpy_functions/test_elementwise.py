"""Every universal function of the table, against NumPy's and SciPy's own; a new row inherits these tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from agreement import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import accumulus as acc
import accumulus.frontends.scipy  # fills the table
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, SEVERAL, SPECIAL, Elementwise

ROWS = [(getattr(np, name), row) for name, row in ELEMENTWISE.items() if hasattr(np, name)]
ROWS += [(getattr(special, name), row) for name, row in SPECIAL.items()]

#: Composed rows that are NaN at some infinities and zeros where SciPy has a limit, see docs/numerics.md.
LIMITS = {
    "beta",
    "betaln",
    "binom",
    "boxcox",
    "boxcox1p",
    "inv_boxcox",
    "kl_div",
    "pseudo_huber",
    "elliprj",
    "inv_boxcox1p",
}

#: That one recording is run at.
POINTS = 4

each_row = pytest.mark.parametrize(("ufunc", "row"), ROWS, ids=[row.name for _, row in ROWS])


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    low, high = max(low, -20.0), min(high, 20.0)
    grid = st.integers(math.ceil(low * 2), math.floor(high * 2)).map(lambda k: k / 2.0 + 0.0)
    return st.one_of(grid, st.floats(low, high, allow_subnormal=False).map(lambda x: x + 0.0))


@st.composite
def operands(draw: st.DrawFn, row: Elementwise) -> list[np.ndarray]:
    return [np.array([draw(numbers(*interval)) for _ in range(3)]) for interval in row.domain]


def call(ufunc: np.ufunc, row: Elementwise):
    if row.takes_boolean:
        return lambda *arrays: ufunc(*(array > 0.25 for array in arrays))
    return ufunc


@pytest.mark.sampled(4)
@each_row
@settings(max_examples=max(2, settings.default.max_examples // 16))
@given(data=st.data())
def test_arrays_and_scalars_agree_with_numpy(ufunc, row, data):
    points = [data.draw(operands(row)) for _ in range(POINTS)]
    assert_agrees(call(ufunc, row), *points)
    assert_agrees(call(ufunc, row), *([float(array[0]) for array in arrays] for arrays in points))


@each_row
def test_infinities_and_nan(ufunc, row):
    if row.name in LIMITS:
        pytest.skip("limits that are documented")
    extremes = np.array([math.inf, -math.inf, math.nan, 0.0, 1.0])
    assert_agrees(call(ufunc, row), [each.ravel() for each in np.meshgrid(*[extremes] * len(row.domain))])


@pytest.mark.parametrize(
    ("ufunc", "row"), [r for r in ROWS if len(r[1].domain) == 2], ids=lambda r: getattr(r, "name", "")
)
def test_broadcasting_and_constants(ufunc, row):
    x, y = np.array([[0.3], [0.6]]), np.array([0.2, 0.5, 0.9])
    both = call(ufunc, row)
    assert_agrees(both, [x, y])
    assert_agrees(lambda x: (both(x, y), both(y, x)), [x])
    assert_agrees(lambda y: both(x, y), [y])
    assert_agrees(lambda s: (both(x, s), both(s, y)), [0.4])


@pytest.mark.parametrize("name", [name for name in SEVERAL if hasattr(np, name)])
def test_two_results(name):
    ufunc = getattr(np, name)
    points = [np.array([1.3, -2.7, 0.4]), np.array([0.5, 0.7, -1.1])]
    assert_agrees(ufunc, points[: ufunc.nin])


@pytest.mark.parametrize(
    "ufunc", [np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or, np.subtract]
)
def test_methods(ufunc):
    A = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -0.25]])
    if ufunc is not np.subtract:
        assert_agrees(lambda A: (ufunc.reduce(A), ufunc.reduce(A, axis=1), ufunc.reduce(A, axis=None)), [A])
        assert_agrees(lambda A: ufunc.reduce(A, axis=(0, 1), keepdims=True), [A])
        assert_agrees(lambda A: (ufunc.accumulate(A), ufunc.accumulate(A, axis=1)), [A])
    assert_agrees(lambda A: ufunc.outer(A[0], A), [A])


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.maximum])
def test_at_counts_repeated_indices(ufunc):
    def scatter(values):
        total = np.ones(4)
        ufunc.at(total, [0, 2, 0, 3], values)
        ufunc.at(total, 1, values[0])
        return total

    assert_agrees(scatter, [np.array([2.0, 3.0, 5.0, 7.0])])


def test_truth_values_count_in_arithmetic():
    def count(x):
        positive = x > 0
        return positive * 2.0 + x, np.sum(positive), positive.mean(), positive + (x > 1), positive @ x, -1.0 * positive

    assert_agrees(count, [np.array([0.5, -1.0, 2.0])], [np.array([-0.5, 1.5, 0.0])])


def test_masks():
    def masks(x, y):
        inside = (x > 0) & (y < 1) | ~(x < -1) ^ (y == 0)
        return np.where(inside, x, y), inside, np.logical_xor(x > 0, y > 0), np.any(inside), np.all(x > y)

    assert_agrees(masks, [np.array([0.5, -2.0, 2.0]), np.array([0.5, 0.0, 2.0])])


def test_operators_of_scalars():
    def operators(x, y):
        return [
            *(x + y, x - y, x * y, x / y, x**y, -x, +x, abs(x), x + 1, 1 - x, 2 * x, 2 / x, x / 2, x**2, 2**x),
            *(x < y, x <= y, x > y, x >= y, x == y, x != y, x < 1, 1 > x, x // 0.3, 3 % x, divmod(x, 0.7), round(x, 1)),
            *(np.float64(3) * x, x - np.float32(0.5), np.int64(2) ** x, np.sum(x), np.shape(x) == ()),
        ]

    assert_agrees(operators, [0.75, 0.5], [1.25, 1.25])


def test_python_rounding_functions():
    assert_agrees(lambda x: [math.floor(x), math.ceil(x), math.trunc(x), round(x)], [1.5], [-2.5], [0.25])


@pytest.mark.parametrize(
    "function",
    [
        *(
            np.rint,
            np.round,
            np.fix,
            np.trunc,
            np.ceil,
            np.floor,
            round,
            math.floor,
            math.ceil,
            math.trunc,
            np.sign,
            np.abs,
            np.square,
            np.cbrt,
        ),
        *(
            lambda x: np.round(x, 1),
            lambda x: x // 1.0,
            lambda x: np.fmod(x, 0.25),
            lambda x: x % 0.25,
            lambda x: -x % 1,
        ),
        *(lambda x: divmod(x, 0.5)[0], lambda x: divmod(x, 0.5)[1], lambda x: np.modf(x)[1]),
        *(lambda x: np.rint(-x), lambda x: np.floor(-x), lambda x: np.ceil(-x), lambda x: np.trunc(-x)),
    ],
)
def test_roundings_keep_the_sign_of_zeros(function):
    points = [np.float64(s * x) for x in (0.0, 0.02, 0.05, 0.25, 0.3, 0.5, 0.7, 1.0, 1.5) for s in (1.0, -1.0)]
    signs = acc.compile(lambda x: np.arctan2(function(x), -1.0), cache=False, check=False, exact_order=True)
    np.testing.assert_allclose([signs(x) for x in points], [np.arctan2(function(x), -1.0) for x in points], rtol=1e-15)


def test_lists_in_universal_functions():
    assert_agrees(lambda x, y: np.sqrt([x, y]) + np.hypot([x, y], [y, 1.0]), [0.5, 2.0])
