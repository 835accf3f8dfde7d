"""Interpolation of constant data: values against SciPy, derivatives against SciPy's derivatives and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import interpolate

import accumulus as acc
from accumulus.errors import TraceError

KNOTS = np.array([0.0, 0.4, 1.0, 1.3, 2.0, 3.0, 3.5, 4.25])
VALUES = np.array([1.0, -0.5, 0.25, 2.0, 1.5, -1.0, 0.0, 1.0])
TABLE = np.stack([VALUES, np.cos(VALUES), VALUES[::-1]], axis=1)
#: Points inside, at knots, outside.
POINTS = np.array([0.1, 0.4, 0.7, 1.3, 1.9, 2.0, 3.2, 3.5, 4.0, 4.25, 0.0, -0.3, 5.1])
INSIDE = POINTS[:11]


def splines():
    periodic = np.append(VALUES[:-1], VALUES[0])
    return {
        "CubicSpline": interpolate.CubicSpline(KNOTS, VALUES),
        "natural": interpolate.CubicSpline(KNOTS, VALUES, bc_type="natural", extrapolate=False),
        "periodic": interpolate.CubicSpline(KNOTS, periodic, bc_type="periodic"),
        "vector": interpolate.CubicSpline(KNOTS, TABLE),
        "axis": interpolate.CubicSpline(KNOTS, TABLE.T, axis=1),
        "two knots": interpolate.CubicSpline(KNOTS[:2], VALUES[:2]),
        "Pchip": interpolate.PchipInterpolator(KNOTS, VALUES),
        "Akima": interpolate.Akima1DInterpolator(KNOTS, VALUES),
        "Hermite": interpolate.CubicHermiteSpline(KNOTS, VALUES, VALUES),
        "PPoly": interpolate.PPoly(np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([0.0, 2.0, 4.0])),
        "derivative": interpolate.CubicSpline(KNOTS, VALUES).derivative(),
        "antiderivative": interpolate.CubicSpline(KNOTS, VALUES).antiderivative(),
        "linear B-spline": interpolate.make_interp_spline(KNOTS, VALUES, k=1),
        "cubic B-spline": interpolate.make_interp_spline(KNOTS, VALUES),
        "quintic B-spline": interpolate.make_interp_spline(KNOTS, VALUES, k=5),
        "B-spline of vectors": interpolate.make_interp_spline(KNOTS, TABLE),
        "free B-spline": interpolate.BSpline(np.arange(-3.0, 8.0), np.arange(7.0) ** 2 % 5, 3),
        "periodic B-spline": interpolate.make_interp_spline(KNOTS, periodic, bc_type="periodic"),
    }


SPLINES = splines()


def slopes(function, points, step=1e-6):
    """Differences from the right: at a knot the piece on its right counts."""
    return (-3 * function(points) + 4 * function(points + step) - function(points + 2 * step)) / (2 * step)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SPLINES)
@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_splines(name, target):
    spline = SPLINES[name]
    both = acc.value_and_jacobian(spline, target=target, cache=False)
    value, jacobian = both(POINTS)
    np.testing.assert_allclose(value, spline(POINTS), rtol=1e-12, atol=1e-12)
    derivative = spline(POINTS, 1)
    at = getattr(spline, "axis", 0)
    diagonal = np.moveaxis(np.diagonal(jacobian, axis1=at, axis2=-1), -1, at)
    np.testing.assert_allclose(diagonal, derivative, rtol=1e-11, atol=1e-10)
    if not np.isnan(jacobian).any():
        assert np.count_nonzero(jacobian) == np.count_nonzero(diagonal)


@pytest.mark.parametrize("name", ["CubicSpline", "vector", "cubic B-spline"])
def test_batches_and_single_points(name):
    spline = SPLINES[name]
    both = acc.value_and_jacobian(lambda x: spline(2.0 * x), cache=False)
    X = np.random.default_rng(0).uniform(-0.5, 2.5, 1000)
    values, derivatives = both.batch(X)
    np.testing.assert_allclose(values, spline(2.0 * X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(derivatives, 2.0 * spline(2.0 * X, 1), rtol=1e-10, atol=1e-10)
    single, slope = both(float(X[3]))
    np.testing.assert_array_equal(single, values[3])
    np.testing.assert_array_equal(slope, derivatives[3])


@pytest.mark.parametrize("nu", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["CubicSpline", "cubic B-spline"])
def test_derivatives_of_splines_as_functions(name, nu):
    spline = SPLINES[name]
    both = acc.value_and_jacobian(lambda x: spline(x, nu), cache=False)
    for x in (0.2, 1.3, 3.9, 5.0):
        value, slope = both(x)
        np.testing.assert_allclose(value, spline(x, nu), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(slope, spline(x, nu + 1), rtol=1e-11, atol=1e-11)


def test_splines_within_functions():
    outside = SPLINES["CubicSpline"]

    class Model:
        def __init__(self):
            self.tables = {"lift": SPLINES["Pchip"]}

        def rhs(self, x):
            xs = np.linspace(0.0, 4.0, 9)
            inside = interpolate.CubicSpline(xs, np.sin(xs))
            matrix = np.array([[x[0], x[1]], [x[1], 1.0]])
            return outside(x[0]) * self.tables["lift"](x[1]) + inside(x).sum() + outside(matrix)[0, 1]

    model = Model()
    x = np.array([0.7, 2.1])
    both = acc.value_and_jacobian(model.rhs, cache=False)
    value, jacobian = both(x)
    assert value == pytest.approx(model.rhs(x), rel=1e-13)
    steps = np.eye(2) * 1e-6
    expected = [(model.rhs(x + step) - model.rhs(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(jacobian, expected, rtol=1e-7)


@pytest.mark.parametrize("spline", ["CubicSpline", "natural"])
def test_extrapolation_is_set_by_the_call(spline):
    for extrapolate in (True, False, "periodic"):
        function = acc.value_and_jacobian(lambda x, e=extrapolate: SPLINES[spline](x, extrapolate=e), cache=False)
        expected = SPLINES[spline](POINTS, extrapolate=extrapolate)
        np.testing.assert_allclose(function(POINTS)[0], expected, rtol=1e-11, atol=1e-11)


def test_nan_stays_nan():
    for spline in (SPLINES["CubicSpline"], interpolate.interp1d(KNOTS, VALUES, kind="previous")):
        value, _ = acc.value_and_jacobian(lambda x, s=spline: s(x), cache=False)(np.array([np.nan, 0.5]))
        assert np.isnan(value[0])
        assert value[1] == pytest.approx(spline(0.5))


@pytest.mark.parametrize(
    "kind", ["linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic"]
)
def test_interp1d(kind):
    halves = np.append(INSIDE, 0.5 * (KNOTS[1:] + KNOTS[:-1]))
    for values, axis in ((VALUES, 0), (TABLE, 0), (TABLE.T, 1)):
        function = interpolate.interp1d(KNOTS, values, kind=kind, axis=axis)
        if values is not VALUES:
            got = acc.compile(lambda x, f=function: f(x), cache=False)(halves[::3])
            np.testing.assert_allclose(got, function(halves[::3]), rtol=1e-12, atol=1e-12)
        else:
            got, jacobian = acc.value_and_jacobian(lambda x, f=function: f(x), cache=False)(halves)
            np.testing.assert_allclose(got, function(halves), rtol=1e-12, atol=1e-12)
            middle = np.flatnonzero(~np.isin(halves, [*KNOTS, *(0.5 * (KNOTS[1:] + KNOTS[:-1]))]))
            expected = slopes(function, halves[middle])
            np.testing.assert_allclose(np.diagonal(jacobian)[middle], expected, rtol=1e-6, atol=1e-6)
    for fill in ("extrapolate", (-1.0, 7.0), 3.0):
        if kind == "nearest-up" and fill == "extrapolate":
            continue
        function = interpolate.interp1d(KNOTS, VALUES, kind=kind, fill_value=fill, bounds_error=False)
        got = acc.compile(lambda x, f=function: f(x), cache=False)(POINTS)
        np.testing.assert_allclose(got, function(POINTS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_regular_grids(method):
    axes = (np.array([0.0, 1.0, 1.5, 3.0]), np.array([-1.0, 0.0, 2.0]), np.linspace(0.0, 1.0, 5))
    rng = np.random.default_rng(0)
    inside = rng.uniform([0.0, -1.0, 0.0], [3.0, 2.0, 1.0], (8, 3))
    outside = rng.uniform([-1.0, -2.0, -0.5], [4.0, 3.0, 1.5], (8, 3))
    for count in (1, 2, 3):
        values = rng.normal(size=[len(axis) for axis in axes[:count]])
        for fill, points in ((np.nan, inside), (None, outside), (5.0, outside)):
            function = interpolate.RegularGridInterpolator(
                axes[:count], values, method=method, bounds_error=False, fill_value=fill
            )
            coordinates = points[:, :count]
            value, jacobian = acc.value_and_jacobian(lambda x, f=function: f(x), cache=False)(coordinates)
            np.testing.assert_allclose(value, function(coordinates), rtol=1e-12, atol=1e-13)
            for k in range(count):
                step = 1e-7 * np.eye(count)[k]
                expected = (function(coordinates + step) - function(coordinates - step)) / 2e-7
                np.testing.assert_allclose(jacobian[range(8), range(8), k], expected, rtol=1e-5, atol=1e-5)
    function = interpolate.RegularGridInterpolator(axes, rng.normal(size=(4, 3, 5, 2)), method=method)
    value = acc.value_and_jacobian(lambda x, y: function((x, y, 0.3)), cache=False)(0.7, 1.2)[0]
    np.testing.assert_allclose(value, function((0.7, 1.2, 0.3)), rtol=1e-13)


def test_many_knots():
    xs = np.linspace(0.0, 10.0, 300)
    spline = interpolate.CubicSpline(xs, np.sin(xs))
    recorded = acc.trace(spline, 1.0).tape
    assert recorded.operations < 6.5 * 300
    both = acc.value_and_jacobian(spline, cache=False)
    X = np.random.default_rng(0).uniform(0.0, 10.0, 500)
    values, derivatives = both.batch(X)
    np.testing.assert_allclose(values, spline(X), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(derivatives, spline(X, 1), rtol=1e-11, atol=1e-11)


def test_splev():
    tck = interpolate.splrep(KNOTS, VALUES)
    for der in (0, 1):
        for ext in (0, 1, 3):
            function = acc.value_and_jacobian(
                lambda x, d=der, e=ext: interpolate.splev(x, tck, der=d, ext=e), cache=False
            )
            expected = interpolate.splev(POINTS, tck, der=der, ext=ext)
            np.testing.assert_allclose(function(POINTS)[0], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda y: interpolate.make_interp_spline(y, VALUES)(0.5), "x, k, t have to be constants"),
        (lambda y: interpolate.BSpline(y, VALUES[:4], 3)(0.5), "t, k have to be constants"),
        (lambda y: interpolate.RegularGridInterpolator((y,), VALUES)([[0.5]]), "points, fill_value have to be"),
        (
            lambda y: interpolate.RegularGridInterpolator((KNOTS,), VALUES, method="pchip")(y[:, np.newaxis]),
            "method='pchip' is not recorded",
        ),
        (lambda y: interpolate.CubicSpline(KNOTS, y).roots(), "derivatives and integrals are"),
        (lambda y: interpolate.make_interp_spline(KNOTS, y).integrate(0.0, 1.0), "derivatives and integrals are"),
    ],
)
def test_refusals(function, message):
    with pytest.raises(TraceError, match=rf"(?s)test_interpolation\.py.*{message}"):
        acc.jacobian(function, cache=False)(VALUES)


ENDS, HEIGHTS = np.linspace(0.0, 2.0, 5), np.array([2.0, 0.0, 1.0, 3.0, 2.5])
MANY = np.linspace(0.0, 2.0, 200)
INTERPOLATED = {
    "np.interp": lambda x: np.interp(x, ENDS, HEIGHTS),
    "np.interp with ends": lambda x: np.interp(x, ENDS, HEIGHTS, left=-7.0, right=9.0),
    "np.interp among many knots": lambda x: np.interp(x, MANY, np.sin(3.0 * MANY), right=9.0),
    "np.interp among traced knots": lambda x: np.interp(x, ENDS * (1.0 + 0.0 * x), HEIGHTS),
    "CubicSpline": interpolate.CubicSpline(ENDS, HEIGHTS),
    "PchipInterpolator": interpolate.PchipInterpolator(ENDS, HEIGHTS),
    "Akima1DInterpolator": interpolate.Akima1DInterpolator(ENDS, HEIGHTS),
    "interp1d": interpolate.interp1d(ENDS, HEIGHTS),
    "make_interp_spline": interpolate.make_interp_spline(ENDS, HEIGHTS),
    "splev": lambda x: interpolate.splev(x, interpolate.splrep(ENDS, HEIGHTS)),
    "RegularGridInterpolator": lambda x: interpolate.RegularGridInterpolator((ENDS,), HEIGHTS)(np.array([x]))[0],
}


@pytest.mark.parametrize("name", INTERPOLATED)
@pytest.mark.parametrize(("knot", "step"), [(0.0, 1e-6), (1.0, 1e-6), (2.0, -1e-6)])
def test_knots_have_the_slope_of_a_piece_at_both_ends(name, knot, step):
    f = INTERPOLATED[name]
    slope = acc.gradient(f, cache=False)(knot)
    assert slope == pytest.approx((float(f(knot + step)) - float(f(knot))) / step, abs=1e-3)
    assert acc.compile(f, cache=False)(knot) == pytest.approx(float(f(knot)), abs=1e-14)
