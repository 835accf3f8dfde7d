"""Interpolation of constant data, the trapezoidal and Simpson's rules, and Rosenbrock's function.

Splines and other piecewise polynomials are constants with coefficients from SciPy; the points of evaluation depend on
the function's arguments. The recording is a lookup and a polynomial. The *lookup* finds the piece of a point by
bisection. Each step compares with a knot that the previous steps have selected, so that k pieces take log₂ k
comparisons. Each coefficient of the piece is selected by the same truth values, in k - 1 selections. The program has no
branches, so a batch stays one program. The derivative is the polynomial's, since the selected coefficients are
constants.

A knot belongs to the piece on its right, as in SciPy. Where SciPy raises because a point is out of bounds, the value is
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array, make
from accumulus.frontends.numpy.operands import concrete, depends, entries_of, map_references
from accumulus.frontends.numpy.sequences import widths_of
from accumulus.frontends.numpy.table import borrows
from accumulus.tape.tape import Tape

Reals = NDArray[np.float64]


class _PieceSelector:
    """The piece of an axis that contains a point, found by bisection.

    Args:
        x: reference of the point.
        inner: knots between pieces, ascending; a knot belongs to the piece on its right.
        holds_left: True if a knot belongs to the piece on its left instead.
    """

    def __init__(self, tape: Tape, x: int, inner: Sequence[float], holds_left: bool = False) -> None:
        self.tape = tape
        self._bits: list[int] = []
        levels = len(inner).bit_length()
        knots = [*inner, *(math.inf,) * (2**levels - 1 - len(inner))]
        for level in range(levels):
            step = 2 ** (levels - 1 - level)
            knot = self._select([tape.constant(knots[k - 1]) for k in range(step, 2**levels, 2 * step)])
            self._bits.append(tape.apply("less", knot, x) if holds_left else tape.apply("less_equal", knot, x))

    def choose(self, values: Sequence[int]) -> int:
        """Return the value of the piece that contains the point, given references of one value for each piece."""
        return self._select([*values, *(values[-1],) * (2 ** len(self._bits) - len(values))])

    def _select(self, values: Sequence[int]) -> int:
        bits = self._bits[: len(values).bit_length() - 1]
        for bit in reversed(bits):
            values = [
                low if low == high else self.tape.select(bit, high, low)
                for low, high in zip(values[::2], values[1::2], strict=True)
            ]
        return values[0]


def univariate(tape: Tape, x: Any, knots: Reals, coefficients: Reals, holds_left: bool = False) -> Any:
    """Return the values of a piecewise polynomial at each entry of x; further axes of the coefficients come last.

    Args:
        tape: tape to record on.
        x: points of evaluation, traced.
        knots: ends of the pieces, strictly ascending; the first and the last piece are unbounded.
        coefficients: coefficients of shape (degree + 1, pieces, …), highest power of the distance to a piece's left end
            first.
        holds_left: if True, a knot belongs to the piece on its left.
    """
    entries = entries_of(tape, x)[0]
    components = coefficients.reshape(*coefficients.shape[:2], -1)
    inner, starts = knots[1:-1].tolist(), knots[:-1].tolist()

    def formula(component: Reals) -> Callable[[Tape], Callable[[int], int]]:
        def bind(tape: Tape) -> Callable[[int], int]:
            rows = [[tape.constant(c) for c in row] for row in component.tolist()]

            def value(point: int) -> int:
                piece = _PieceSelector(tape, point, inner, holds_left)
                distance = tape.subtract(point, piece.choose([tape.constant(start) for start in starts]))
                total = piece.choose(rows[0])
                for row in rows[1:]:
                    total = tape.add(tape.multiply(total, distance), piece.choose(row))
                if len(rows) == 1:  # constant, except at NaN
                    return tape.select(tape.apply("equal", point, point), total, point)
                return total

            return value

        return bind

    columns = [map_references(tape, formula(components[..., j]), [entries]) for j in range(components.shape[-1])]
    shape = np.shape(entries) + coefficients.shape[2:]
    if not shape:
        return make(tape, int(columns[0]))
    return make(tape, np.stack([np.asarray(column, np.int64) for column in columns], axis=-1).reshape(shape))


def spline(
    tape: Tape, x: Any, knots: Any, coefficients: Any, axis: int, extrapolate: Any, period: tuple[float, float]
) -> Any:
    """Return the values of a SciPy spline at x: extrapolated, periodic, or NaN outside of its interval.

    Args:
        tape: tape to record on.
        x: points of evaluation, traced.
        knots: ends of the pieces.
        coefficients: coefficients of the pieces, (degree + 1, pieces, …).
        axis: position of the axes of x in SciPy's result.
        extrapolate: SciPy's option: True, False or "periodic".
        period: ends of the interval on which the spline is defined.
    """
    knots, coefficients = np.asarray(knots, float), np.asarray(coefficients)
    if np.iscomplexobj(coefficients):
        raise refuse("A spline of complex values is not recorded: make one of the real and one of the imaginary parts.")
    lengths = np.diff(knots)
    if (lengths < 0).any():
        raise refuse("A piecewise polynomial with descending knots is not recorded: reverse it.")
    point = as_array(tape, x)
    dimensions = point.ndim
    begin, end = period
    inside = (point >= begin) & (point <= end)
    if extrapolate == "periodic":
        point = begin + (point - begin) % (end - begin)
    kept_pieces = lengths > 0.0
    kept_pieces[-1] |= len(coefficients) == 1  # a step function of SciPy may jump at the last knot
    pieces = np.flatnonzero(kept_pieces)
    breakpoints = np.append(knots[pieces], knots[-1])
    result = univariate(tape, point, breakpoints, np.asarray(coefficients[:, pieces], float))
    if not extrapolate:
        spread = np.reshape(inside, inside.shape + (1,) * (coefficients.ndim - 2))
        result = np.where(spread, result, result * np.nan)  # the derivative is NaN, too
    return _at_axis(result, dimensions, axis) if axis else result


def _at_axis(result: Any, dimensions: int, axis: int) -> Any:
    """Return an array with its first `dimensions` axes moved to a position among the others."""
    order = list(range(np.ndim(result)))
    behind = order[dimensions:]
    return np.transpose(result, [*behind[:axis], *order[:dimensions], *behind[axis:]])


@borrows("scipy.interpolate", "PPoly.__call__")
def _polynomial(tape: Tape, self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Record piecewise polynomials: CubicSpline, PchipInterpolator, Akima1DInterpolator, CubicHermiteSpline."""
    if nu < 0:
        raise ValueError("Order of derivative cannot be negative")
    of = self.derivative(concrete(nu)) if nu else self
    chosen = self.extrapolate if extrapolate is None else extrapolate
    return spline(tape, x, of.x, of.c, of.axis, chosen, (of.x[0], of.x[-1]))


@borrows("scipy.interpolate", "BSpline.__call__")
def _b_spline(tape: Tape, self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Record B-splines, also from `make_interp_spline`, as piecewise polynomials from derivatives at the knots."""
    k, t = self.k, np.asarray(self.t, float)
    last = len(t) - k - 1
    knots = t[k : last + 1]
    starts = knots[:-1]
    rows = []
    for order in range(k - concrete(nu), -1, -1):
        derivatives = np.moveaxis(np.asarray(self(starts, nu=concrete(nu) + order, extrapolate=True)), self.axis, 0)
        rows.append(derivatives / math.factorial(order))
    if not rows:
        rows = [np.zeros((len(starts), *self.c.shape[1:]))]
    chosen = self.extrapolate if extrapolate is None else extrapolate
    return spline(tape, x, knots, np.stack(rows), self.axis, chosen, (t[k], t[last]))


@borrows("scipy.interpolate", "splev")
def _splev(tape: Tape, x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Record a spline (knots, coefficients, degree); ext 0 extrapolates, 1 is 0 outside, 3 keeps the boundary value."""
    from scipy.interpolate import BSpline

    if depends(tck):
        raise refuse(_DATA)
    if hasattr(tck, "t"):
        return _b_spline(tape, tck, x, der, True)
    t, c, k = concrete(tck)
    t, c = np.asarray(t, float), np.asarray(c, float)
    begin, end = t[k], t[len(t) - k - 1]
    point = as_array(tape, x)
    if ext == 3:  # SciPy extrapolates derivatives
        point = point if der else np.clip(point, begin, end)
    elif ext not in (0, 1):
        raise refuse(f"splev(…, ext={ext}) is not recorded: ext=0, 1 and 3 are; 2 would raise at some points.")
    result = _b_spline(tape, BSpline(t, c[: len(t) - k - 1], k), point, der, True)
    return np.where((point >= begin) & (point <= end), result, 0.0) if ext == 1 else result


@borrows("scipy.interpolate", "interp1d.__call__")
def _interp1d(tape: Tape, self: Any, x: Any) -> Any:
    """Record one-dimensional interpolation of any kind; NaN where SciPy would raise."""
    point = as_array(tape, x)
    knots = np.asarray(self.x, float)
    values = np.moveaxis(np.asarray(self.y, float), self.axis, 0)
    kind = self._kind
    if kind == "linear":
        shape = (len(knots) - 1,) + (1,) * (values.ndim - 1)
        slopes = np.diff(values, axis=0) / np.diff(knots).reshape(shape)
        result = univariate(tape, point, knots, np.stack([slopes, values[:-1]]))
    elif kind in ("nearest", "nearest-up", "previous", "next"):
        halves = knots[:-1] + 0.5 * np.diff(knots)
        bounds = halves if kind.startswith("nearest") else knots[:-1] if kind == "next" else knots[1:]
        ends = np.concatenate([knots[:1], bounds, knots[-1:]])
        result = univariate(tape, point, ends, values[np.newaxis], holds_left=kind in ("nearest", "next"))
    else:
        result = np.reshape(_b_spline(tape, self._spline, point, 0, True), point.shape + values.shape[1:])
    if not self._extrapolate:
        below, above = self.fill_value if isinstance(self.fill_value, tuple) else (self.fill_value,) * 2
        if self.bounds_error:
            below = above = np.nan
        spread = np.reshape(point, point.shape + (1,) * (values.ndim - 1))
        result = np.where(spread < knots[0], below, np.where(spread > knots[-1], above, result))
    return _at_axis(result, point.ndim, self.axis)


@borrows("scipy.interpolate", "RegularGridInterpolator.__call__")
def _grid(tape: Tape, self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
    """Record linear and nearest interpolation on a grid with any number of axes."""
    method = self.method if method is None else method
    if method not in ("linear", "nearest") or nu is not None:
        raise refuse(
            f"RegularGridInterpolator with method={method!r} is not recorded: 'linear' and 'nearest' are. "
            "Splines along each axis (CubicSpline, make_interp_spline) are recorded, too."
        )
    axes = [np.asarray(axis, float) for axis in self.grid]
    values = np.asarray(self.values)
    if np.iscomplexobj(values):
        raise refuse("A grid of complex values is not recorded: make one of the real and one of the imaginary parts.")
    if isinstance(xi, tuple):
        points = np.stack(np.broadcast_arrays(*(as_array(tape, x) for x in xi)), axis=-1)
    else:
        points = as_array(tape, xi)
        if points.ndim == 1:
            points = points.reshape(-1, len(axes))
    if points.shape[-1:] != (len(axes),):
        raise ValueError(f"points of shape {points.shape} for a grid of {len(axes)} axes")
    coordinates = [points[..., k] for k in range(len(axes))]
    behind = values.shape[len(axes) :]
    components = values.reshape(*values.shape[: len(axes)], -1).astype(float)
    entries = [entries_of(tape, coordinate)[0] for coordinate in coordinates]
    write = _multilinear if method == "linear" else _nearest
    columns = [
        np.asarray(map_references(tape, write(axes, components[..., j]), entries), np.int64)
        for j in range(components.shape[-1])
    ]
    shape = np.shape(entries[0]) + behind
    result = make(tape, np.stack(columns, axis=-1).reshape(shape))
    if self.bounds_error or self.fill_value is not None:
        outside = np.stack([(c < axis[0]) | (c > axis[-1]) for c, axis in zip(coordinates, axes, strict=True)]).any(
            axis=0
        )
        fill = np.nan if self.bounds_error else self.fill_value
        result = np.where(np.reshape(outside, outside.shape + (1,) * len(behind)), fill, result)
    missing = np.stack([np.isnan(c) for c in coordinates]).any(axis=0)
    return np.where(np.reshape(missing, missing.shape + (1,) * len(behind)), np.nan, result)


def _multilinear(axes: Sequence[Reals], values: Reals) -> Callable[[Tape], Callable[..., int]]:
    """Record multilinear interpolation: each cell has a polynomial in the distances to its lower corner."""
    cells = values[np.newaxis]
    for k, axis in enumerate(axes, 1):
        low = np.take(cells, range(len(axis) - 1), axis=k)
        shape = [-1 if j == k else 1 for j in range(cells.ndim)]
        slopes = np.diff(cells, axis=k) / np.diff(axis).reshape(shape)
        cells = np.stack([low, slopes], axis=1).reshape(-1, *low.shape[1:])

    def bind(tape: Tape) -> Callable[..., int]:
        def value(*point: int) -> int:
            places = [_PieceSelector(tape, x, axis[1:-1].tolist()) for x, axis in zip(point, axes, strict=True)]
            distances = [
                tape.subtract(x, interval.choose([tape.constant(start) for start in axis[:-1].tolist()]))
                for x, interval, axis in zip(point, places, axes, strict=True)
            ]
            terms = [_table_entry(tape, places, cell) for cell in cells]
            for distance in reversed(distances):
                terms = [
                    tape.add(low, tape.multiply(slope, distance))
                    for low, slope in zip(terms[::2], terms[1::2], strict=True)
                ]
            return terms[0]

        return value

    return bind


def _nearest(axes: Sequence[Reals], values: Reals) -> Callable[[Tape], Callable[..., int]]:
    """Record the value at the nearest point of the grid; ties go to the lower one."""

    def bind(tape: Tape) -> Callable[..., int]:
        def value(*point: int) -> int:
            halves = [(axis[:-1] + 0.5 * np.diff(axis)).tolist() for axis in axes]
            places = [_PieceSelector(tape, x, half, holds_left=True) for x, half in zip(point, halves, strict=True)]
            return _table_entry(tape, places, values)

        return value

    return bind


def _table_entry(tape: Tape, places: Sequence[_PieceSelector], table: Reals) -> int:
    """Return the entry of a table at positions along all its axes, selected along the last axis first."""
    references = [tape.constant(value) for value in table.ravel().tolist()]
    for interval, length in zip(reversed(places), reversed(table.shape), strict=True):
        references = [interval.choose(references[k : k + length]) for k in range(0, len(references), length)]
    return references[0]


_DATA = (
    "The data of this interpolation depend on the arguments of the function. Only interpolation of constant data is "
    "recorded, at points that depend on the arguments; in np.interp, values at the knots may depend on them, too."
)


@borrows(
    "scipy.interpolate",
    *(
        f"{name}.__init__"
        for name in (
            *("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "CubicHermiteSpline", "PPoly", "BSpline"),
            *("interp1d", "RegularGridInterpolator"),
        )
    ),
    *("make_interp_spline", "make_lsq_spline", "splrep"),
)
def _refuse_data(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
    """Refuse interpolation of data that depend on the arguments."""
    raise refuse(_DATA)


# Integrals of samples -------------------------------------------------------------------------------------------------


borrows("scipy.integrate", "trapezoid")(lambda tape, y, x=None, dx=1.0, axis=-1: np.trapezoid(y, x, dx, axis))


@borrows("scipy.integrate", "cumulative_trapezoid")
def _cumulative_trapezoid(tape: Tape, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Return cumulative integrals by the trapezoidal rule."""
    y = np.moveaxis(as_array(tape, y), axis, -1)
    areas = np.cumsum(widths_of(tape, x, dx, axis) * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        areas = np.concatenate([np.broadcast_to(initial, (*areas.shape[:-1], 1)), areas], axis=-1)
    return np.moveaxis(areas, -1, axis)


@borrows("scipy.integrate", "simpson")
def _simpson(tape: Tape, y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return an integral by Simpson's rule; for an even number of points, with Cartwright's correction at the end."""
    y = np.moveaxis(as_array(tape, y), axis, -1)
    n = y.shape[-1]
    widths = widths_of(tape, x, dx, axis)
    widths = np.broadcast_to(widths, (n - 1,)) if not np.ndim(widths) else widths
    if n < 3:
        return np.sum(widths * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    odd = n if n % 2 else n - 1
    first, second = widths[..., 0 : odd - 1 : 2], widths[..., 1 : odd - 1 : 2]
    begin, middle, end = y[..., 0 : odd - 2 : 2], y[..., 1 : odd - 1 : 2], y[..., 2:odd:2]
    both = first + second
    parts = begin * (2.0 - second / first) + middle * (both * both / (first * second)) + end * (2.0 - first / second)
    total = np.sum(both / 6.0 * parts, axis=-1)
    if odd == n:
        return total
    before, last = widths[..., -2], widths[..., -1]
    alpha = (2.0 * last * last + 3.0 * before * last) / (6.0 * (before + last))
    beta = (last * last + 3.0 * before * last) / (6.0 * before)
    eta = last * last * last / (6.0 * before * (before + last))
    return total + alpha * y[..., -1] + beta * y[..., -2] - eta * y[..., -3]


# Rosenbrock's function ------------------------------------------------------------------------------------------------


@borrows("scipy.optimize", "rosen")
def _rosen(tape: Tape, x: Any) -> Any:
    """Return Σ 100·(xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)² along the first axis."""
    x = as_array(tape, x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2, axis=0)


@borrows("scipy.optimize", "rosen_der")
def _rosen_der(tape: Tape, x: Any) -> Any:
    """Return the gradient of Rosenbrock's function, with the shape of x."""
    x = as_array(tape, x)
    residuals = x[1:] - x[:-1] ** 2
    result = as_array(tape, np.zeros(x.shape))
    result[1:] = 200.0 * residuals
    result[:-1] -= 400.0 * x[:-1] * residuals + 2.0 * (1.0 - x[:-1])
    return result


@borrows("scipy.optimize", "rosen_hess")
def _rosen_hess(tape: Tape, x: Any) -> Any:
    """Return the tridiagonal Hessian of Rosenbrock's function at a vector x."""
    diagonal, beside = _bands(tape, x)
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


@borrows("scipy.optimize", "rosen_hess_prod")
def _rosen_hess_prod(tape: Tape, x: Any, p: Any) -> Any:
    """Return the product of the Hessian at x and a vector p."""
    diagonal, beside = _bands(tape, x)
    p = as_array(tape, p)
    result = diagonal * p
    result[:-1] += beside * p[1:]
    result[1:] += beside * p[:-1]
    return result


def _bands(tape: Tape, x: Any) -> tuple[Any, Any]:
    """Return the diagonal and the superdiagonal of the Hessian."""
    x = np.atleast_1d(as_array(tape, x))
    if x.ndim != 1:
        raise ValueError(f"Rosenbrock's function is differentiated at a vector; x has shape {x.shape}")
    diagonal = as_array(tape, np.zeros(x.shape))
    diagonal[1:] = 200.0
    diagonal[:-1] += 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    return diagonal, -400.0 * x[:-1]
