"""Interpolators of traced data: splines, `interp1d` and `RegularGridInterpolator`, made inside of the function.

SciPy's constructor is called with numbers in place of the traced data, so that it checks shapes and options. Then the
coefficients are set to traced ones. Slopes of a `CubicSpline` solve a tridiagonal system, those of the monotone and of
Akima's interpolator are formulas. Coefficients of B-splines are linear in the data, with a constant matrix.

Traced knots have to ascend, else values are NaN, where SciPy raises. Ties in the formulas (equal slopes) are decided at
each point.

References:
    C. de Boor, A Practical Guide to Splines, 1978, chapter IV; F. N. Fritsch, J. Butland, A method for constructing
    local monotone piecewise cubic interpolants, 1984; H. Akima, A new method of interpolation, 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.linalg import systems
from accumulus.frontends.numpy.linalg.factorisations import array_of_zeros
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import borrows
from accumulus.frontends.scipy.interpolation import at_traced, with_data
from accumulus.tape.tape import Tape

#: Smallest sum of the two weights of Akima's slope, relative to the largest, that is not a tie, as in SciPy.
TIE = 1e-9


def _numbers(name: str, value: Any) -> Any:
    """Return numbers of the same shape for a traced argument: ascending ones for knots, zeros for others."""
    if not depends(value):
        return concrete(value)
    if isinstance(value, tuple):
        return tuple(_numbers(name, item) for item in value)
    return np.linspace(0.0, 1.0, np.size(value)) if name == "x" else np.zeros(np.shape(value))


def _arguments(name: str, called: Callable[..., Any], constants: str, *arguments: Any, **options: Any) -> Any:
    """Return the bound arguments of a call in `scipy.interpolate`; `constants` names those that may not be traced.

    Raises:
        TraceError: for complex numbers, and for traced arguments that have to be constants.
    """
    bound = signature(called).bind(*arguments, **options)
    bound.apply_defaults()
    if holds_complex([*bound.arguments.values()]):
        raise refuse("Interpolation of traced complex data is not recorded: make one of each part.")
    if depends([bound.arguments[each] for each in constants.split()]):
        raise refuse(
            f"scipy.interpolate.{name}: {', '.join(constants.split())} have to be constants; values may be traced. "
            "CubicSpline, PchipInterpolator and interp1d are recorded with traced knots."
        )
    return bound


def _initialised(name: str, self: Any, *arguments: Any, constants: str = "", **options: Any) -> dict[str, Any]:
    """Call SciPy's constructor with numbers for traced arguments, and return all arguments by name."""
    import scipy.interpolate

    constructor = getattr(scipy.interpolate, name).__init__
    bound = _arguments(name, constructor, constants, self, *arguments, **options)
    given = dict(bound.arguments)
    bound.arguments.update({key: _numbers(key, each) for key, each in given.items() if key != "self"})
    constructor(*bound.args, **bound.kwargs)
    return given


# Piecewise cubics -----------------------------------------------------------------------------------------------------


def _cubic(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the constructor of a piecewise cubic.

    The decorated function returns the slopes at the knots, from a tape, the distances of knots, the slopes of secants,
    the values with the interpolated axis first, and the constructor's arguments.
    """

    def enter(slopes_of: Callable[..., Any]) -> Callable[..., Any]:
        @borrows("scipy.interpolate", f"{name}.__init__")
        def record(tape: Tape, self: Any, *arguments: Any, **options: Any) -> None:
            given = _initialised(name, self, *arguments, **options)
            x, y = as_array(tape, given["x"]), np.moveaxis(as_array(tape, given["y"]), given["axis"], 0)
            lengths = np.diff(x).reshape((-1,) + (1,) * (y.ndim - 1))
            secants = np.diff(y, axis=0) / lengths
            if given.get("bc_type") == "periodic":  # SciPy raises for other values
                y = np.where(np.all(abs(y[0] - y[-1]) <= 1e-15 * (1.0 + abs(y[-1]))), y, np.nan)
            slopes = slopes_of(tape, lengths, secants, y, given)
            bend = (slopes[:-1] + slopes[1:] - 2.0 * secants) / lengths
            coefficients = np.stack([bend / lengths, (secants - slopes[:-1]) / lengths - bend, slopes[:-1], y[:-1]])
            with_data(self, c=coefficients, x=x if depends(x) else np.asarray(concrete(x), float))

        return slopes_of

    return enter


@_cubic("CubicHermiteSpline")
def _given_slopes(tape: Tape, lengths: Any, secants: Any, y: Any, given: dict[str, Any]) -> Any:
    return np.moveaxis(as_array(tape, given["dydx"]), given["axis"], 0)


@_cubic("CubicSpline")
def _smooth_slopes(tape: Tape, lengths: Any, secants: Any, y: Any, given: dict[str, Any]) -> Any:
    """Return the slopes with continuous second derivatives; the equations are SciPy's."""
    kind, n, dx = given["bc_type"], len(y), lengths.reshape(-1)
    named: dict[Any, Any] = {"clamped": (1, 0.0), "natural": (2, 0.0)}
    if n == 2:
        named |= dict.fromkeys(("not-a-knot", "periodic"), (1, secants[0]))
    ends = [
        named.get(end, end) if isinstance(end, str) else end for end in ([kind] * 2 if isinstance(kind, str) else kind)
    ]
    is_periodic = isinstance(ends[0], str) and ends[0] == "periodic"
    rows = n - 1 if is_periodic else n
    matrix, sides = array_of_zeros(tape, rows, rows), array_of_zeros(tape, rows, *y.shape[1:])
    for i in range(rows) if is_periodic else range(1, n - 1):
        matrix[i, (i - 1) % rows] += dx[i]
        matrix[i, i] += 2.0 * (dx[i - 1] + dx[i])
        matrix[i, (i + 1) % rows] += dx[i - 1]
        sides[i] = 3.0 * (dx[i] * secants[i - 1] + dx[i - 1] * secants[i])
    is_parabola = n == 3 and all(isinstance(end, str) for end in ends)
    for at, beside, sign, end in () if is_periodic else ((0, 1, 1.0, ends[0]), (-1, -2, -1.0, ends[1])):
        if is_parabola:
            matrix[at, at], matrix[at, beside], sides[at] = 1.0, 1.0, 2.0 * secants[at]
        elif isinstance(end, str):  # the third derivative is continuous
            first, second = dx[at], dx[beside]
            reach = first + second
            matrix[at, at], matrix[at, beside] = second, reach
            sides[at] = ((first + 2.0 * reach) * second * secants[at] + first * first * secants[beside]) / reach
        elif int(concrete(end[0])) == 1:
            matrix[at, at], sides[at] = 1.0, end[1]
        else:
            matrix[at, at], matrix[at, beside] = 2.0 * dx[at], dx[at]
            sides[at] = 3.0 * dx[at] * secants[at] - sign * 0.5 * end[1] * dx[at] * dx[at]
    slopes = systems.solve(tape, matrix, sides.reshape((rows, -1)), banded=not is_periodic).reshape(sides.shape)
    return np.concatenate([slopes, slopes[:1]]) if is_periodic else slopes


@_cubic("PchipInterpolator")
def _monotone_slopes(tape: Tape, dx: Any, secants: Any, y: Any, given: dict[str, Any]) -> Any:
    """Return weighted harmonic means of secants, and zero where their signs differ."""
    if len(secants) == 1:
        return np.concatenate([secants, secants])
    left, right = secants[:-1], secants[1:]
    flat = (np.sign(left) != np.sign(right)) | (left == 0.0) | (right == 0.0)
    first, second = 2.0 * dx[1:] + dx[:-1], dx[1:] + 2.0 * dx[:-1]
    means = (first / np.where(flat, 1.0, left) + second / np.where(flat, 1.0, right)) / (first + second)
    inner = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, means))
    ends = [np.stack([_end_slope(dx[i], dx[j], secants[i], secants[j])]) for i, j in ((0, 1), (-1, -2))]
    return np.concatenate([ends[0], inner, ends[1]])


def _end_slope(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """Return the three-point slope at an end, limited to the sign and to three times the first secant."""
    slope = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (abs(slope) > 3.0 * abs(m0))
    return np.where(np.sign(slope) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, slope))


@_cubic("Akima1DInterpolator")
def _weighted_slopes(tape: Tape, lengths: Any, secants: Any, y: Any, given: dict[str, Any]) -> Any:
    """Return means of secants, weighted by their changes."""
    if len(secants) == 1:
        return np.concatenate([secants, secants])
    rows = [*secants]
    for _ in range(2):
        rows = [2.0 * rows[0] - rows[1], *rows, 2.0 * rows[-1] - rows[-2]]
    m = np.stack(rows)
    changes = abs(np.diff(m, axis=0))
    if given["method"] == "makima":
        changes = changes + 0.5 * abs(m[1:] + m[:-1])
    after, before = changes[2:], changes[:-2]
    both = after + before
    tied = both <= TIE * np.max(both)
    share = before / np.where(tied, 1.0, both)
    return np.where(tied, 0.5 * (m[3:] + m[:-3]), m[1:-2] + share * (m[2:-1] - m[1:-2]))


@borrows("scipy.interpolate", "PPoly.__init__")
def _ppoly(tape: Tape, self: Any, *arguments: Any, **options: Any) -> None:
    given = _initialised("PPoly", self, *arguments, constants="x", **options)
    coefficients = as_array(tape, given["c"])
    for _ in range(2 if self.axis else 0):
        coefficients = np.moveaxis(coefficients, self.axis + 1, 0)
    with_data(self, c=coefficients)


# B-splines ------------------------------------------------------------------------------------------------------------


@borrows("scipy.interpolate", "BSpline.__init__")
def _b_spline(tape: Tape, self: Any, *arguments: Any, **options: Any) -> None:
    given = _initialised("BSpline", self, *arguments, constants="t k", **options)
    with_data(self, c=np.moveaxis(as_array(tape, given["c"]), self.axis, 0))


def _of_units(values: Any, axis: int, make: Callable[[Any], Any]) -> Any:
    """Return the B-spline of traced values: its coefficients are linear in them, and constant for unit vectors."""
    from scipy.interpolate import BSpline

    basis = make(np.eye(len(values)))
    spline: Any = BSpline.construct_fast(basis.t, np.zeros(np.shape(basis.c)), basis.k, basis.extrapolate, axis)
    return with_data(spline, c=np.tensordot(basis.c, values, 1))


def _enter_b_spline(name: str, constants: str) -> None:
    @borrows("scipy.interpolate", name)
    def record(tape: Tape, *arguments: Any, **options: Any) -> Any:
        import scipy.interpolate

        called = getattr(scipy.interpolate, name)
        given = _arguments(name, called, constants, *arguments, **options).arguments
        ends = given.get("bc_type")
        if any(not isinstance(end, str | None) for end in ([ends] if isinstance(ends, str | None) else ends)):
            raise refuse(f"{name} of traced values is recorded with boundary conditions by name. Write CubicSpline.")
        axis = given.pop("axis")
        values = np.moveaxis(as_array(tape, given.pop("y")), axis, 0)
        return _of_units(values, axis, lambda units: called(y=units, **concrete(dict(given))))


_enter_b_spline("make_interp_spline", "x k t")
_enter_b_spline("make_lsq_spline", "x t k w")


# Tables ---------------------------------------------------------------------------------------------------------------


@borrows("scipy.interpolate", "interp1d.__init__")
def _interp1d(tape: Tape, self: Any, *arguments: Any, **options: Any) -> None:
    """Set the data of a one-dimensional interpolator."""
    given = _initialised("interp1d", self, *arguments, **options)
    x, kind, fill_value = given["x"], given["kind"], given["fill_value"]
    knots, values = as_array(tape, x), np.moveaxis(as_array(tape, given["y"]), self.axis, 0)
    if not depends(x):
        numbers = np.asarray(concrete(x), float)
        order = np.arange(len(numbers)) if given["assume_sorted"] else np.argsort(numbers, kind="mergesort")
        knots, values = numbers[order], values[order]
    if self._kind == "spline":
        from scipy.interpolate import make_interp_spline

        if depends(x):
            raise refuse("interp1d by splines is recorded of traced values at constant knots. Write CubicSpline(x, y).")
        flat, degree = values.reshape((len(values), -1)), self._spline.k
        self._spline = _of_units(flat, 0, lambda units: make_interp_spline(knots, units, k=degree))
    self.x, self.y = knots, np.moveaxis(values, 0, self.axis)
    if depends(fill_value):
        self._fill_value_orig = fill_value
    elif isinstance(fill_value, str) and kind in ("previous", "next"):
        self._fill_value_orig = (np.nan, values[-1]) if kind == "previous" else (values[0], np.nan)


@borrows("scipy.interpolate", "RegularGridInterpolator.__init__")
def _grid(tape: Tape, self: Any, *arguments: Any, **options: Any) -> None:
    """Set the values of an interpolator on a constant grid."""
    given = _initialised("RegularGridInterpolator", self, *arguments, constants="points fill_value", **options)
    descending = tuple(k for k, x in enumerate(concrete(given["points"])) if np.size(x) > 1 and x[1] < x[0])
    table = as_array(tape, given["values"])
    with_data(self, values=np.flip(table, descending) if descending else table)


def _refuse_method(name: str, tape: Tape, self: Any, *arguments: Any, **keywords: Any) -> Any:
    raise refuse(
        f"scipy.interpolate.{name} is not recorded for traced data. Write the values of the spline itself, or use "
        "CubicSpline, whose derivatives and integrals are."
    )


for _name in (
    *("PPoly.roots", "PPoly.solve", "PPoly.extend"),
    *("BSpline.derivative", "BSpline.antiderivative", "BSpline.integrate"),
):
    at_traced(_name)(partial(_refuse_method, _name))
