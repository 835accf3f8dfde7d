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
from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.linalg import systems
from accumulus.frontends.numpy.linalg.factorisations import array_of_zeros
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import CALLING, borrows
from accumulus.frontends.scipy.interpolation import DEGREES, holds_traced, with_data
from accumulus.tape.tape import Tape

#: Smallest sum of the two weights of Akima's slope, relative to the largest, that is not a tie, as in SciPy.
TIE = 1e-9


def _data(tape: Tape, x: Any, y: Any, axis: int = 0) -> tuple[Any, Any]:
    """Return knots, and values with the interpolated axis first.

    Raises:
        TraceError: for complex data.
    """
    if holds_complex([x, y]):
        raise refuse("Interpolation of traced complex data is not recorded: make one of each part.")
    return as_array(tape, x), np.moveaxis(as_array(tape, y), axis, 0)


def _numbers(*values: Any) -> list[Any]:
    """Return numbers of the same shapes for traced values: ascending ones for the first, zeros for the others."""
    return [
        concrete(value)
        if not depends(value)
        else (np.linspace(0.0, 1.0, np.size(value)) if k == 0 else np.zeros(np.shape(value)))
        for k, value in enumerate(values)
    ]


def _initialised(self: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """Call SciPy's constructor with numbers."""
    import scipy.interpolate

    getattr(scipy.interpolate, name).__init__(self, *arguments, **options)
    return self


def _hermite(tape: Tape, self: Any, x: Any, y: Any, slopes: Any) -> None:
    """Set the coefficients of a piecewise cubic with given values and slopes at the knots."""
    lengths = np.diff(x).reshape((-1,) + (1,) * (y.ndim - 1))
    secants = np.diff(y, axis=0) / lengths
    bend = (slopes[:-1] + slopes[1:] - 2.0 * secants) / lengths
    coefficients = np.stack([bend / lengths, (secants - slopes[:-1]) / lengths - bend, slopes[:-1], y[:-1]])
    with_data(self, c=coefficients, x=x if depends(x) else np.asarray(concrete(x), float))


@borrows("scipy.interpolate", "CubicHermiteSpline.__init__")
def _cubic_hermite(tape: Tape, self: Any, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
    _initialised(self, "CubicHermiteSpline", *_numbers(x, y, dydx), axis=axis, extrapolate=extrapolate)
    knots, values = _data(tape, x, y, axis)
    _hermite(tape, self, knots, values, _data(tape, x, dydx, axis)[1])


@borrows("scipy.interpolate", "CubicSpline.__init__")
def _cubic_spline(
    tape: Tape, self: Any, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
) -> None:
    """Set the coefficients of a cubic spline, by the slopes at the knots."""
    plain = (
        bc_type
        if isinstance(bc_type, str)
        else tuple(end if isinstance(end, str) else (end[0], np.zeros(np.shape(end[1]))) for end in bc_type)
    )
    _initialised(self, "CubicSpline", *_numbers(x, y), axis=axis, bc_type=plain, extrapolate=extrapolate)
    knots, values = _data(tape, x, y, axis)
    ends = [bc_type] * 2 if isinstance(bc_type, str) else list(bc_type)
    if bc_type == "periodic":  # SciPy raises for other values
        values = np.where(np.all(abs(values[0] - values[-1]) <= 1e-15 * (1.0 + abs(values[-1]))), values, np.nan)
    _hermite(tape, self, knots, values, _slopes(tape, knots, values, ends))


def _slopes(tape: Tape, x: Any, y: Any, ends: list[Any]) -> Any:
    """Return the slopes of a cubic spline at its knots; the equations are SciPy's."""
    n = len(x)
    dx = np.diff(x)
    along = dx.reshape((-1,) + (1,) * (y.ndim - 1))
    secants = np.diff(y, axis=0) / along
    named: dict[Any, Any] = {"clamped": (1, 0.0), "natural": (2, 0.0)}
    if n == 2:
        named |= dict.fromkeys(("not-a-knot", "periodic"), (1, secants[0]))
    begin, end = (named.get(each, each) if isinstance(each, str) else each for each in ends)
    is_periodic = begin == "periodic" if isinstance(begin, str) else False
    rows = n - 1 if is_periodic else n
    matrix, sides = array_of_zeros(tape, rows, rows), array_of_zeros(tape, rows, *y.shape[1:])
    for i in range(0 if is_periodic else 1, rows if is_periodic else rows - 1):
        matrix[i, (i - 1) % rows] += dx[i]
        matrix[i, i] += 2.0 * (dx[i - 1] + dx[i])
        matrix[i, (i + 1) % rows] += dx[i - 1]
        sides[i] = 3.0 * (dx[i] * secants[i - 1] + dx[i - 1] * secants[i])
    if not is_periodic:
        parabola = n == 3 and isinstance(begin, str) and isinstance(end, str)
        for at, sign, kind in ((0, 1.0, begin), (-1, -1.0, end)):
            beside, second = (1, 1) if at == 0 else (-2, -2)
            if parabola:
                matrix[at, at], matrix[at, beside], sides[at] = 1.0, 1.0, 2.0 * secants[at]
            elif isinstance(kind, str):
                reach = dx[at] + dx[second]
                matrix[at, at], matrix[at, beside] = dx[second], reach
                sides[at] = (
                    (dx[at] + 2.0 * reach) * dx[second] * secants[at] + dx[at] * dx[at] * secants[second]
                ) / reach
            elif int(concrete(kind[0])) == 1:
                matrix[at, at], sides[at] = 1.0, kind[1]
            else:
                matrix[at, at], matrix[at, beside] = 2.0 * dx[at], dx[at]
                sides[at] = 3.0 * dx[at] * secants[at] - sign * 0.5 * kind[1] * dx[at] * dx[at]
    columns = sides.reshape((rows, -1))
    slopes = systems.solve(tape, matrix, columns, banded=not is_periodic).reshape(sides.shape)
    return np.concatenate([slopes, slopes[:1]]) if is_periodic else slopes


@borrows("scipy.interpolate", "PchipInterpolator.__init__")
def _pchip(tape: Tape, self: Any, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
    """Set the coefficients of the monotone interpolator: slopes are weighted harmonic means of secants."""
    _initialised(self, "PchipInterpolator", *_numbers(x, y), axis=axis, extrapolate=extrapolate)
    knots, values = _data(tape, x, y, axis)
    dx = np.diff(knots).reshape((-1,) + (1,) * (values.ndim - 1))
    secants = np.diff(values, axis=0) / dx
    if len(knots) == 2:
        _hermite(tape, self, knots, values, np.concatenate([secants, secants]))
        return
    left, right = secants[:-1], secants[1:]
    flat = (np.sign(left) != np.sign(right)) | (left == 0.0) | (right == 0.0)
    first, second = 2.0 * dx[1:] + dx[:-1], dx[1:] + 2.0 * dx[:-1]
    means = (first / np.where(flat, 1.0, left) + second / np.where(flat, 1.0, right)) / (first + second)
    inner = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, means))
    ends = [np.stack([_end_slope(dx[i], dx[j], secants[i], secants[j])]) for i, j in ((0, 1), (-1, -2))]
    _hermite(tape, self, knots, values, np.concatenate([ends[0], inner, ends[1]]))


def _end_slope(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """Return the three-point slope at an end, limited to the sign and to three times the first secant."""
    slope = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (abs(slope) > 3.0 * abs(m0))
    return np.where(np.sign(slope) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, slope))


@borrows("scipy.interpolate", "Akima1DInterpolator.__init__")
def _akima(
    tape: Tape, self: Any, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
) -> None:
    """Set the coefficients of Akima's interpolator: slopes are means of secants, weighted by their changes."""
    _initialised(self, "Akima1DInterpolator", *_numbers(x, y), axis=axis, method=method, extrapolate=extrapolate)
    knots, values = _data(tape, x, y, axis)
    secants = np.diff(values, axis=0) / np.diff(knots).reshape((-1,) + (1,) * (values.ndim - 1))
    if len(knots) == 2:
        _hermite(tape, self, knots, values, np.concatenate([secants, secants]))
        return
    rows = [secants[k] for k in range(len(secants))]
    for _ in range(2):
        rows = [2.0 * rows[0] - rows[1], *rows, 2.0 * rows[-1] - rows[-2]]
    m = np.stack(rows)
    changes = abs(np.diff(m, axis=0))
    if method == "makima":
        changes = changes + 0.5 * abs(m[1:] + m[:-1])
    after, before = changes[2:], changes[:-2]
    both = after + before
    tied = both <= TIE * np.max(both)
    share = before / np.where(tied, 1.0, both)
    slopes = np.where(tied, 0.5 * (m[3:] + m[:-3]), m[1:-2] + share * (m[2:-1] - m[1:-2]))
    _hermite(tape, self, knots, values, slopes)


@borrows("scipy.interpolate", "PPoly.__init__")
def _ppoly(tape: Tape, self: Any, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
    if depends(x):
        raise refuse("scipy.interpolate.PPoly: knots have to be constants; coefficients may be traced.")
    _initialised(self, "PPoly", np.zeros(np.shape(c)), concrete(x), extrapolate, axis)
    coefficients = as_array(tape, c)
    if self.axis:
        coefficients = np.moveaxis(np.moveaxis(coefficients, self.axis + 1, 0), self.axis + 1, 0)
    with_data(self, c=coefficients)


# B-splines ------------------------------------------------------------------------------------------------------------


@borrows("scipy.interpolate", "BSpline.__init__")
def _b_spline(tape: Tape, self: Any, t: Any, c: Any, k: Any, extrapolate: Any = True, axis: int = 0) -> None:
    if depends([t, k]):
        raise refuse("scipy.interpolate.BSpline: knots and degree have to be constants; coefficients may be traced.")
    _initialised(self, "BSpline", concrete(t), np.zeros(np.shape(c)), concrete(k), extrapolate, axis)
    with_data(self, c=np.moveaxis(as_array(tape, c), self.axis, 0))


def _of_units(name: str, y: Any, tape: Tape, axis: int, make: Callable[[Any], Any], *constants: Any) -> Any:
    """Return the B-spline of traced values, whose coefficients are linear in them: those of unit vectors are constant.

    Raises:
        TraceError: if anything but the values is traced.
    """
    from scipy.interpolate import BSpline

    if depends(constants):
        raise refuse(f"scipy.interpolate.{name}: knots and options have to be constants; values may be traced.")
    _, values = _data(tape, 0.0, y, axis)
    basis = make(np.eye(len(values)))
    spline: Any = BSpline.construct_fast(basis.t, np.zeros(np.shape(basis.c)), basis.k, basis.extrapolate, axis)
    return with_data(spline, c=np.tensordot(basis.c, values, 1))


@borrows("scipy.interpolate", "make_interp_spline")
def _make_interp_spline(
    tape: Tape, x: Any, y: Any, k: Any = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> Any:
    """Return the interpolating B-spline of traced values."""
    from scipy.interpolate import make_interp_spline

    if bc_type is not None and any(
        not isinstance(end, str | None) for end in ([bc_type] if isinstance(bc_type, str) else bc_type)
    ):
        raise refuse(
            "make_interp_spline of traced values is recorded with boundary conditions by name. Write CubicSpline."
        )
    options = {"k": concrete(k), "t": concrete(t), "bc_type": bc_type}
    return _of_units(
        "make_interp_spline", y, tape, axis, lambda unit: make_interp_spline(concrete(x), unit, **options), x, k, t
    )


@borrows("scipy.interpolate", "make_lsq_spline")
def _make_lsq_spline(
    tape: Tape,
    x: Any,
    y: Any,
    t: Any,
    k: int = 3,
    w: Any = None,
    axis: int = 0,
    check_finite: bool = True,
    *,
    method: str = "qr",
) -> Any:
    """Return the B-spline of least squares of traced values."""
    from scipy.interpolate import make_lsq_spline

    options: Any = {"k": concrete(k), "w": concrete(w), "method": method}
    return _of_units(
        "make_lsq_spline",
        y,
        tape,
        axis,
        lambda unit: make_lsq_spline(concrete(x), unit, concrete(t), **options),
        x,
        t,
        k,
        w,
    )


# Tables ---------------------------------------------------------------------------------------------------------------


@borrows("scipy.interpolate", "interp1d.__init__")
def _interp1d(
    tape: Tape,
    self: Any,
    x: Any,
    y: Any,
    kind: Any = "linear",
    axis: int = -1,
    copy: bool = True,
    bounds_error: Any = None,
    fill_value: Any = np.nan,
    assume_sorted: bool = False,
) -> None:
    """Set the data of a one-dimensional interpolator."""
    plain = np.nan if depends(fill_value) else concrete(fill_value)
    numbers, _ = _numbers(x, y)
    options = {"bounds_error": bounds_error, "fill_value": plain, "assume_sorted": assume_sorted}
    _initialised(self, "interp1d", numbers, np.zeros(np.shape(y)), kind, axis, copy, **options)
    knots, values = _data(tape, x, y, self.axis)
    if not depends(x):
        order = np.arange(len(numbers)) if assume_sorted else np.argsort(numbers, kind="mergesort")
        knots, values = np.asarray(numbers, float)[order], values[order]
    if self._kind == "spline":
        if depends(x):
            raise refuse("interp1d by splines is recorded of traced values at constant knots. Write CubicSpline(x, y).")
        flat = values.reshape((len(values), -1))
        self._spline = _of_units("interp1d", flat, tape, 0, lambda unit: _spline_of(knots, unit, self._spline.k))
    self.x, self.y = knots, np.moveaxis(values, 0, self.axis)
    if depends(fill_value):
        self._fill_value_orig = fill_value
    elif isinstance(fill_value, str) and kind in ("previous", "next"):
        self._fill_value_orig = (np.nan, values[-1]) if kind == "previous" else (values[0], np.nan)


def _spline_of(knots: Any, unit: Any, k: int) -> Any:
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(knots, unit, k=k)


@borrows("scipy.interpolate", "RegularGridInterpolator.__init__")
def _grid(
    tape: Tape,
    self: Any,
    points: Any,
    values: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
    *,
    solver: Any = None,
    solver_args: Any = None,
) -> None:
    """Set the values of an interpolator on a constant grid."""
    if depends([points, fill_value]):
        raise refuse(
            "RegularGridInterpolator: the grid and fill_value have to be constants; values on it may be traced."
        )
    if method in DEGREES and getattr(solver, "__name__", "") != "spsolve":
        raise refuse(
            "RegularGridInterpolator solves by iteration for the splines through traced values, to six digits. Pass "
            "solver=scipy.sparse.linalg.spsolve, which is exact."
        )
    table = as_array(tape, values)
    _initialised(
        self, "RegularGridInterpolator", concrete(points), np.zeros(table.shape), "linear", bounds_error, fill_value
    )
    self.method = method
    descending = tuple(k for k, axis in enumerate(concrete(points)) if np.size(axis) > 1 and axis[1] < axis[0])
    with_data(self, values=np.flip(table, descending) if descending else table)


def _refused_methods() -> None:
    reason = "is not recorded for traced data. Write the values of the spline itself, or use CubicSpline, whose "
    for name in (
        "PPoly.roots",
        "PPoly.solve",
        "PPoly.extend",
        "BSpline.derivative",
        "BSpline.antiderivative",
        "BSpline.integrate",
    ):

        def record(tape: Tape, self: Any, *arguments: Any, name: str = name, **keywords: Any) -> Any:
            if not (depends([*arguments, *keywords.values()]) or holds_traced(self)):
                return NotImplemented
            raise refuse(f"scipy.interpolate.{name} {reason}derivatives and integrals are.")

        CALLING.add(record)
        borrows("scipy.interpolate", name)(record)


_refused_methods()
