"""Interpolators of traced data against SciPy: values, and derivatives with respect to data, knots and points."""

from __future__ import annotations

import numpy as np
import pytest
from differences import differences
from refusals import reason
from scipy import interpolate
from scipy.interpolate import Akima1DInterpolator, CubicSpline, PchipInterpolator, RegularGridInterpolator, interp1d

import accumulus as acc
from accumulus.errors import TraceError

KNOTS = np.array([0.0, 0.7, 1.5, 2.1, 3.0, 3.8])
VALUES = np.array([0.3, 1.2, 0.9, 2.0, 2.4, 1.1])
INSIDE = np.array([0.2, 0.9, 1.5, 2.6, 3.7])
OUTSIDE = np.array([-0.4, 1.1, 4.3])
TABLE = np.cos(np.arange(24.0)).reshape(6, 4)
PAIRS = np.array([[0.2, 1.1], [1.6, 0.3], [3.5, 2.9]])
GRID = (KNOTS, np.arange(4.0))
ONES = np.ones(6)


def grid(method, **options):
    return lambda y: RegularGridInterpolator(GRID, y, method, **options)(PAIRS)


#: Functions of the data, and the data.
OF_VALUES = {
    **{
        f"CubicSpline, {kind}": (lambda y, kind=kind: CubicSpline(KNOTS, y, bc_type=kind)(INSIDE), VALUES)
        for kind in ("not-a-knot", "natural", "clamped")
    },
    "CubicSpline, pairs": (
        lambda y: CubicSpline(KNOTS, y, bc_type=((1, y[0]), (2, 0.5)))(INSIDE),
        VALUES,
    ),
    "CubicSpline, periodic": (
        lambda y: CubicSpline(KNOTS, np.append(y, y[0]), bc_type="periodic")(np.append(INSIDE, OUTSIDE)),
        VALUES[:5],
    ),
    **{
        f"CubicSpline, {n} knots": (lambda y, n=n: CubicSpline(KNOTS[:n], y)([0.1, 0.5]), VALUES[:n]) for n in (2, 3, 4)
    },
    "CubicSpline, 3 knots, periodic": (
        lambda y: CubicSpline(KNOTS[:3], np.append(y, y[0]), bc_type="periodic")(INSIDE),
        VALUES[:2],
    ),
    "CubicSpline, columns": (lambda y: CubicSpline(KNOTS, y)(INSIDE), TABLE),
    "CubicSpline, rows": (lambda y: CubicSpline(GRID[1], y, axis=1)(INSIDE[:2]), TABLE),
    "derivatives": (
        lambda y: [f(INSIDE) for s in [CubicSpline(KNOTS, y)] for f in (s.derivative(), s.derivative(2))],
        VALUES,
    ),
    "derivatives by nu": (lambda y: [CubicSpline(KNOTS, y)(INSIDE, k) for k in range(5)], VALUES),
    "integrals": (
        lambda y: [CubicSpline(KNOTS, y).integrate(0.2, 3.1), CubicSpline(KNOTS, y).integrate(4.0, -1.0)],
        VALUES,
    ),
    "antiderivative": (lambda y: CubicSpline(KNOTS, y).antiderivative(2)(INSIDE), VALUES),
    "antiderivative, periodic": (
        lambda y: CubicSpline(KNOTS, np.append(y, y[0]), bc_type="periodic").antiderivative()(
            INSIDE, extrapolate=False
        ),
        VALUES[:5],
    ),
    "extrapolation": (lambda y: CubicSpline(KNOTS, y)(OUTSIDE), VALUES),
    "PchipInterpolator": (lambda y: PchipInterpolator(KNOTS, y)(np.append(INSIDE, OUTSIDE)), VALUES),
    "PchipInterpolator, slope": (lambda y: PchipInterpolator(KNOTS, y).derivative()(INSIDE), VALUES),
    "PchipInterpolator, 2 knots": (lambda y: PchipInterpolator(KNOTS[:2], y)(INSIDE), VALUES[:2]),
    "PchipInterpolator, 3 knots": (lambda y: PchipInterpolator(KNOTS[:3], y)(INSIDE), VALUES[:3]),
    "PchipInterpolator, columns": (lambda y: PchipInterpolator(KNOTS, y)(INSIDE), TABLE),
    "Akima1DInterpolator": (lambda y: Akima1DInterpolator(KNOTS, y)(INSIDE), VALUES),
    "makima": (lambda y: Akima1DInterpolator(KNOTS, y, method="makima", extrapolate=True)(OUTSIDE), VALUES),
    "Akima1DInterpolator, 2 knots": (lambda y: Akima1DInterpolator(KNOTS[:2], y)([0.1]), VALUES[:2]),
    "CubicHermiteSpline": (lambda y: interpolate.CubicHermiteSpline(KNOTS, y, y[::-1] ** 2)(INSIDE), VALUES),
    "PPoly": (lambda y: interpolate.PPoly(y[:5].reshape(1, 5) * ONES[:3, np.newaxis], KNOTS)(INSIDE), VALUES),
    "make_interp_spline": (lambda y: interpolate.make_interp_spline(KNOTS, y)(np.append(INSIDE, OUTSIDE)), VALUES),
    "make_interp_spline, natural": (
        lambda y: interpolate.make_interp_spline(KNOTS, y, bc_type="natural")(INSIDE, 1),
        VALUES,
    ),
    "make_interp_spline, rows": (lambda y: interpolate.make_interp_spline(GRID[1], y, k=2, axis=1)([0.4, 2.2]), TABLE),
    "make_lsq_spline": (
        lambda y: interpolate.make_lsq_spline(KNOTS, y, np.repeat([0.0, 3.8], 4))(INSIDE),
        VALUES,
    ),
    "BSpline": (lambda y: interpolate.BSpline(np.arange(10.0), y, 3)([3.2, 5.5], 1), VALUES),
    "splev": (lambda y: interpolate.splev([3.2, 5.5], (np.arange(10.0), y, 3)), VALUES),
    **{
        f"interp1d, {kind}": (lambda y, kind=kind: interp1d(KNOTS, y, kind)(INSIDE), VALUES)
        for kind in ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic")
    },
    "interp1d, filled": (
        lambda y: interp1d(KNOTS, y, bounds_error=False, fill_value=(y[0], y[-1]))(OUTSIDE),
        VALUES,
    ),
    "interp1d, steps": (
        lambda y: [
            interp1d(KNOTS, y, kind, fill_value="extrapolate")([k]) for kind, k in (("previous", 9), ("next", -1))
        ],
        VALUES,
    ),
    "interp1d, extrapolated": (lambda y: interp1d(KNOTS, y, fill_value="extrapolate")(OUTSIDE), VALUES),
    "interp1d, columns at a knot": (lambda y: interp1d(KNOTS, y, axis=0)(INSIDE), TABLE),
    "interp1d, unsorted": (lambda y: interp1d(KNOTS[::-1], y)(INSIDE), VALUES),
    "interp1d, rows": (lambda y: interp1d(GRID[1], y, "cubic")([0.4, 2.2]), TABLE),
    "grid, linear": (grid("linear"), TABLE),
    "grid, nearest": (grid("nearest"), TABLE),
    "grid, outside": (
        lambda y: RegularGridInterpolator(GRID, y, bounds_error=False, fill_value=None)(PAIRS + 1.0),
        TABLE,
    ),
    "grid, descending": (lambda y: RegularGridInterpolator((KNOTS[::-1], GRID[1]), y)(PAIRS), TABLE),
    "grid, vectors": (lambda y: RegularGridInterpolator((KNOTS,), y)(INSIDE), TABLE),
}
#: Functions of knots, or of points.
OF_PLACES = {
    **{
        f"{kind.__name__} by knots": (lambda x, kind=kind: kind(x, VALUES)(INSIDE + 0.01), KNOTS)
        for kind in (CubicSpline, PchipInterpolator, Akima1DInterpolator, interp1d)
    },
    "natural spline by knots": (lambda x: CubicSpline(x, VALUES, bc_type="natural").integrate(x[0], x[-1]), KNOTS),
    "all at once": (lambda x: CubicSpline(x, np.sin(x))(0.5 * x[1:] + 0.5 * x[:-1]), KNOTS),
    "ends of integrals": (lambda x: CubicSpline(KNOTS, VALUES).integrate(x[0], x[4]), INSIDE),
    "cubic grid by points": (RegularGridInterpolator(GRID, TABLE, "cubic"), PAIRS),
    "slope of a cubic grid": (lambda x: RegularGridInterpolator(GRID, TABLE, "cubic")(x, nu=[1, 0]), PAIRS),
    "another method": (lambda x: RegularGridInterpolator(GRID, TABLE)(x, "slinear"), PAIRS),
    "grid by points and values": (lambda x: RegularGridInterpolator(GRID, TABLE * x[0, 0])(x), PAIRS),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*OF_VALUES, *OF_PLACES])
def test_values_and_derivatives(name):
    function, point = {**OF_VALUES, **OF_PLACES}[name]
    stacked = lambda x: np.stack(result) if isinstance(result := function(x), list) else result  # noqa: E731
    expected = differences(stacked, point, 1e-3 if name in OF_VALUES else 1e-4)
    jacobian = acc.jacobian(stacked, target="numpy", optimise=False)
    np.testing.assert_allclose(jacobian(point), expected, atol=1e-8 * (1.0 + abs(expected).max()))
    np.testing.assert_array_equal(jacobian.batch(np.stack([point, point]))[1], jacobian(point))


@pytest.mark.parametrize(("kind", "n"), [(CubicSpline, 4), (PchipInterpolator, 3)])
def test_second_derivatives_in_compiled_code(kind, n):
    def misfit(p):
        spline = kind(p[:n], p[n:])
        return (spline(0.9) - 1.0) ** 2 + (spline.integrate(0.5, 1.9) if n == 3 else spline(0.1, 1))

    gradient, hessian = acc.gradient(misfit), acc.hessian(misfit)
    point = np.append(KNOTS[:n], VALUES[:n])
    expected = differences(gradient, point)
    np.testing.assert_allclose(hessian(point), expected, atol=1e-8 * abs(expected).max())


def test_long_arrays_of_points():
    """Points in a loop, at which traced coefficients are looked up."""
    points = np.linspace(0.0, 3.8, 20_000)
    gradient = acc.gradient(lambda y: np.sum(interp1d(KNOTS, y)(points) ** 2))
    basis = interp1d(KNOTS, np.eye(6), axis=0)(points)
    np.testing.assert_allclose(gradient(VALUES), 2.0 * basis.T @ (basis @ VALUES), rtol=1e-12)


def test_monotone_data_with_equal_neighbours():
    data = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 2.0])
    for kind in (PchipInterpolator, Akima1DInterpolator):
        compiled = acc.compile(lambda y, kind=kind: kind(KNOTS, y)(INSIDE))
        np.testing.assert_allclose(compiled(data), kind(KNOTS, data)(INSIDE), rtol=1e-13, atol=1e-15)


@pytest.mark.filterwarnings("ignore::accumulus.errors.NaNWarning")
def test_traced_knots_that_do_not_ascend_are_nan():
    for kind in (CubicSpline, interp1d):
        function = acc.compile(lambda x, kind=kind: kind(x, VALUES)(INSIDE), check=False)
        assert np.isfinite(function(KNOTS)).all()
        assert np.isnan(function(KNOTS[[0, 2, 1, 3, 4, 5]])).all()
    periodic = acc.compile(lambda y: CubicSpline(KNOTS, y, bc_type="periodic")(INSIDE), check=False)
    assert np.isnan(periodic(VALUES)).all()
    closed = np.append(VALUES[:5], VALUES[0])
    assert np.isfinite(periodic(closed)).all()
    integral = acc.compile(
        lambda y: CubicSpline(KNOTS, y, bc_type="periodic").antiderivative()([1.0, 9.0]), check=False
    )
    expected = CubicSpline(KNOTS, closed, bc_type="periodic").antiderivative()([1.0, 9.0])
    np.testing.assert_allclose(integral(closed), expected, rtol=1e-13)  # NaN outside of the period


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda y: interp1d(y, VALUES, "cubic")(0.5), "constant knots"),
        (lambda y: RegularGridInterpolator((KNOTS,), y, "cubic")([0.5]), "not by cubic. Write CubicSpline"),
        (lambda y: CubicSpline(KNOTS, y + 1j)(0.5).real, "complex"),
        (lambda y: interpolate.make_interp_spline(KNOTS, y, bc_type=([(1, 0.0)], [(1, 0.0)]))(0.5), "by name"),
        (lambda y: interpolate.PPoly(TABLE[:, :2], y[:5])(0.5), "x have to be constants"),
        (
            lambda y: CubicSpline(KNOTS, np.append(y[1:], y[1]), bc_type="periodic").integrate(0.0, 9.0),
            "within one period",
        ),
    ],
)
def test_refusals(function, says):
    with pytest.raises(TraceError, match=reason(says)):
        acc.jacobian(function)(VALUES)


def test_wrong_shapes_raise_as_in_scipy():
    with pytest.raises(ValueError, match="doesn't match the length"):
        acc.jacobian(lambda y: CubicSpline(KNOTS, y)(0.5))(VALUES[:3])
