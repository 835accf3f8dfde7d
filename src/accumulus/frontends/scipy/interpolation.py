"""Values of interpolators, the trapezoidal and Simpson's rules, and Rosenbrock's function.

Knots and coefficients of splines and other piecewise polynomials are constants from SciPy, or traced values
(`accumulus.frontends.scipy.interpolators`). The recording is a lookup and a polynomial. The *lookup* finds the piece of
a point by bisection. Each step compares with a knot that the previous steps have selected, so that k pieces take log₂ k
comparisons. Each coefficient of the piece is selected by the same truth values, in k - 1 selections. The program has no
branches, so a batch stays one program. The derivative is the polynomial's, with respect to the point and to the
selected coefficients.

A knot belongs to the piece on its right, as in SciPy. Where SciPy raises because a point is out of bounds, the value is
NaN.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array, make
from accumulus.frontends.numpy.operands import (
    Entries,
    Formula,
    concrete,
    depends,
    entries_of,
    holds_complex,
    map_references,
    references_of,
)
from accumulus.frontends.numpy.sequences import widths_of
from accumulus.frontends.numpy.table import CALLING, borrows
from accumulus.tape.tape import Tape

Reals = NDArray[np.float64]


class _PieceSelector:
    """The piece of an axis that contains a point, found by bisection.

    Args:
        x: reference of the point.
        inner: references of knots between pieces, ascending; a knot belongs to the piece on its right.
        holds_left: True if a knot belongs to the piece on its left instead.
    """

    def __init__(self, tape: Tape, x: int, inner: Sequence[int], holds_left: bool = False) -> None:
        self.tape = tape
        self._bits: list[int] = []
        levels = len(inner).bit_length()
        knots = [*inner, *(tape.constant(math.inf),) * (2**levels - 1 - len(inner))]
        for level in range(levels):
            step = 2 ** (levels - 1 - level)
            knot = self._select([knots[k - 1] for k in range(step, 2**levels, 2 * step)])
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


def _table(tape: Tape, *arrays: Any) -> tuple[Callable[[Tape, Sequence[int]], list[int]], list[int]]:
    """Return a function that writes the numbers of arrays, one after the other, and the traced ones, its operands."""
    references = np.concatenate([references_of(tape, each).reshape(-1) for each in arrays])
    is_traced = references >= 0
    operands, which = np.unique(references[is_traced], return_inverse=True)
    numbers = np.zeros(len(references))
    numbers[~is_traced] = tape.values_of(references[~is_traced])

    def filled(tape: Tape, given: Sequence[int]) -> list[int]:
        result = [tape.constant(number) for number in numbers.tolist()]
        for place, k in zip(np.flatnonzero(is_traced).tolist(), which.tolist(), strict=True):
            result[place] = given[k]
        return result

    return filled, operands.tolist()


def univariate(tape: Tape, x: Any, knots: Any, coefficients: Any, holds_left: bool = False) -> Any:
    """Return the values of a piecewise polynomial at each entry of x; further axes of the coefficients come last.

    Args:
        tape: tape to record on.
        x: points of evaluation.
        knots: ends of the pieces, strictly ascending; the first and the last piece are unbounded.
        coefficients: coefficients of shape (degree + 1, pieces, …), highest power of the distance to a piece's left end
            first.
        holds_left: if True, a knot belongs to the piece on its left.
    """
    entries = entries_of(tape, x)[0]
    terms, pieces = coefficients.shape[:2]
    components = coefficients.reshape((terms, pieces, -1))

    def column_of(component: Any) -> Entries:
        filled, operands = _table(tape, knots[:pieces], component)

        def bind(tape: Tape) -> Callable[..., int]:
            def value(point: int, *given: int) -> int:
                numbers = filled(tape, given)
                starts = numbers[:pieces]
                rows = [numbers[pieces * k : pieces * (k + 1)] for k in range(1, terms + 1)]
                piece = _PieceSelector(tape, point, starts[1:], holds_left)
                distance = tape.subtract(point, piece.choose(starts))
                total = piece.choose(rows[0])
                for row in rows[1:]:
                    total = tape.add(tape.multiply(total, distance), piece.choose(row))
                if len(rows) == 1:  # constant, except at NaN
                    return tape.select(tape.apply("equal", point, point), total, point)
                return total

            return value

        return map_references(tape, bind, [entries, *operands])

    columns = [column_of(components[..., j]) for j in range(components.shape[-1])]
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
    if holds_complex(coefficients):
        raise refuse("A spline of complex values is not recorded: make one of the real and one of the imaginary parts.")
    if depends(knots):
        pieces, breakpoints = np.arange(len(knots) - 1), knots
        inner = np.all(knots[1:] > knots[:-1])
        coefficients = np.where(inner, coefficients, np.nan)
    else:
        breakpoints = np.asarray(concrete(knots), float)
        lengths = np.diff(breakpoints)
        if (lengths < 0).any():
            raise refuse("A piecewise polynomial with descending knots is not recorded: reverse it.")
        kept_pieces = lengths > 0.0
        kept_pieces[-1] |= len(coefficients) == 1  # a step function of SciPy may jump at the last knot
        pieces = np.flatnonzero(kept_pieces)
        breakpoints = np.append(breakpoints[pieces], breakpoints[-1])
    point = as_array(tape, x)
    dimensions = point.ndim
    begin, end = period
    inside = (point >= begin) & (point <= end)
    if extrapolate == "periodic":
        point = begin + (point - begin) % (end - begin)
    result = univariate(tape, point, breakpoints, as_array(tape, coefficients)[:, pieces])
    if not extrapolate:
        spread = np.reshape(inside, inside.shape + (1,) * (coefficients.ndim - 2))
        result = np.where(spread, result, result * np.nan)  # the derivative is NaN, too
    return _at_axis(result, dimensions, axis) if axis else result


def _at_axis(result: Any, dimensions: int, axis: int) -> Any:
    """Return an array with its first `dimensions` axes moved to a position among the others."""
    order = list(range(np.ndim(result)))
    behind = order[dimensions:]
    return np.transpose(result, [*behind[:axis], *order[:dimensions], *behind[axis:]])


def _attribute(interpolator: Any, name: str) -> str:
    """Return the name under which an interpolator stores data; newer versions of SciPy have properties that convert."""
    return f"_{name}" if hasattr(interpolator, f"_{name}") else name


def held(interpolator: Any, name: str) -> Any:
    """Return data of an interpolator, which may be traced."""
    return getattr(interpolator, _attribute(interpolator, name))


def with_data(interpolator: Any, **data: Any) -> Any:
    """Return an interpolator after setting its data to traced values."""
    for name, value in data.items():
        setattr(interpolator, _attribute(interpolator, name), value)
    return interpolator


def at_traced(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the recorder of a method for interpolators with traced data, which may be called with constants."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(record)
        def of_any(tape: Tape, self: Any, *arguments: Any, **keywords: Any) -> Any:
            slots = {name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())}
            stored = [getattr(self, name, None) for name in slots - {"__dict__", "__weakref__"}]
            if not depends([*arguments, *keywords.values(), *stored, *getattr(self, "__dict__", {}).values()]):
                return NotImplemented
            return record(tape, self, *arguments, **keywords)

        CALLING.add(of_any)
        return borrows("scipy.interpolate", *names)(of_any)

    return enter


def _of_order(self: Any, nu: int) -> Any:
    """Return the coefficients of a derivative, or for -nu of an integral that is zero at the first knot."""
    c = held(self, "c")
    axes = (1,) * (c.ndim - 2)
    if nu >= len(c):
        return np.zeros((1, *c.shape[1:]))
    if nu > 0:
        return c[:-nu] * np.reshape([math.perm(k, nu) for k in range(len(c) - 1, nu - 1, -1)], (-1, 1, *axes))
    lengths = np.diff(held(self, "x")).reshape((-1, *axes))
    for _ in range(-nu):
        c = c / np.arange(len(c), 0.0, -1.0).reshape((-1, 1, *axes))
        areas: Any = 0.0
        for row in c:
            areas = (areas + row) * lengths
        starts = np.concatenate([np.zeros((1, *c.shape[2:])), np.cumsum(areas, axis=0)[:-1]])
        c = np.concatenate([c, starts[np.newaxis]])
    return c


@at_traced("PPoly.__call__")
def _polynomial(tape: Tape, self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Record piecewise polynomials: CubicSpline, PchipInterpolator, Akima1DInterpolator, CubicHermiteSpline."""
    if nu < 0:
        raise ValueError("Order of derivative cannot be negative")
    knots, chosen = held(self, "x"), self.extrapolate if extrapolate is None else extrapolate
    return spline(tape, x, knots, _of_order(self, int(concrete(nu))), self.axis, chosen, (knots[0], knots[-1]))


def _derived(self: Any, nu: int) -> Any:
    """Return a derivative as a piecewise polynomial, or for -nu a continuous antiderivative."""
    from scipy.interpolate import PPoly

    coefficients = _of_order(self, int(concrete(nu)))
    extrapolate = False if nu < 0 and self.extrapolate == "periodic" else self.extrapolate
    result = PPoly.construct_fast(np.zeros((1, 1)), np.zeros(2), extrapolate, self.axis)
    return with_data(result, c=coefficients, x=held(self, "x"))


at_traced("PPoly.derivative")(lambda tape, self, nu=1: _derived(self, nu))
at_traced("PPoly.antiderivative")(lambda tape, self, nu=1: _derived(self, -nu))


@at_traced("PPoly.integrate")
def _integrate(tape: Tape, self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    """Return the integral from a to b; NaN if one of them is out of bounds and extrapolation is off."""
    chosen = self.extrapolate if extrapolate is None else extrapolate
    if chosen == "periodic":
        raise refuse("The integral of a periodic spline is recorded within one period: pass extrapolate=False.")
    whole = _derived(self, -1)
    return whole(b, extrapolate=chosen) - whole(a, extrapolate=chosen)


@at_traced("BSpline.__call__")
def _b_spline(tape: Tape, self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Record B-splines, also from `make_interp_spline`, as piecewise polynomials from derivatives at the knots."""
    from scipy.interpolate import BSpline

    k, t, c, nu = self.k, np.asarray(self.t, float), held(self, "c"), int(concrete(nu))
    last = len(t) - k - 1
    knots = t[k : last + 1]
    basis = BSpline(t, np.eye(last), k)
    rows = []
    for order in range(k - nu, -1, -1):
        derivatives = basis(knots[:-1], nu=nu + order, extrapolate=True) / math.factorial(order)
        rows.append(np.tensordot(derivatives, c[:last], 1))
    if not rows:
        rows = [np.zeros((len(knots) - 1, *c.shape[1:]))]
    chosen = self.extrapolate if extrapolate is None else extrapolate
    return spline(tape, x, knots, np.stack(rows), self.axis, chosen, (t[k], t[last]))


@borrows("scipy.interpolate", "splev")
def _splev(tape: Tape, x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Record a spline (knots, coefficients, degree); ext 0 extrapolates, 1 is 0 outside, 3 keeps the boundary value."""
    from scipy.interpolate import BSpline

    if hasattr(tck, "t"):
        return tck(x, der, True)
    t, c, k = tck
    if depends([t, k]):
        raise refuse("scipy.interpolate.splev: knots and degree have to be constants; coefficients may be traced.")
    t, k = np.asarray(concrete(t), float), int(concrete(k))
    c = as_array(tape, c)
    begin, end = t[k], t[len(t) - k - 1]
    point = as_array(tape, x)
    if ext == 3:  # SciPy extrapolates derivatives
        point = point if der else np.clip(point, begin, end)
    elif ext not in (0, 1):
        raise refuse(f"splev(…, ext={ext}) is not recorded: ext=0, 1 and 3 are; 2 would raise at some points.")
    result = BSpline(t, c[: len(t) - k - 1], k)(point, der, True)
    return np.where((point >= begin) & (point <= end), result, 0.0) if ext == 1 else result


@at_traced("interp1d.__call__")
def _interp1d(tape: Tape, self: Any, x: Any) -> Any:
    """Record one-dimensional interpolation of any kind; NaN where SciPy would raise."""
    point, knots = as_array(tape, x), as_array(tape, self.x)
    values = np.moveaxis(as_array(tape, self.y), self.axis, 0)
    axes, kind = (1,) * (values.ndim - 1), self._kind
    if kind == "linear":
        slopes = np.diff(values, axis=0) / np.diff(knots).reshape((-1, *axes))
        is_left = values.ndim > 1 or self._extrapolate  # else SciPy calls np.interp, with a knot on the right
        result = univariate(tape, point, knots, np.stack([slopes, values[:-1]]), holds_left=is_left)
    elif kind in ("nearest", "nearest-up", "previous", "next"):
        halves = knots[:-1] + 0.5 * np.diff(knots)
        bounds = halves if kind.startswith("nearest") else knots[:-1] if kind == "next" else knots[1:]
        ends = np.concatenate([knots[:1], bounds, knots[-1:]])
        result = univariate(tape, point, ends, values[np.newaxis], holds_left=kind in ("nearest", "next"))
    else:
        result = np.reshape(self._spline(point, 0, True), point.shape + values.shape[1:])
    spread = np.reshape(point, (*point.shape, *axes))
    if not self._extrapolate:
        below, above = self.fill_value if isinstance(self.fill_value, tuple) else (self.fill_value,) * 2
        if self.bounds_error:
            below = above = np.nan
        result = np.where(spread < knots[0], below, np.where(spread > knots[-1], above, result))
    if depends(knots):
        result = np.where(np.all(knots[1:] > knots[:-1]), result, np.nan)
    return _at_axis(result, point.ndim, self.axis)


#: Methods of `RegularGridInterpolator` by splines.
SPLINES = ("slinear", "cubic", "quintic")


@at_traced("RegularGridInterpolator.__call__")
def _grid(tape: Tape, self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
    """Record interpolation on a grid with any number of axes: linear, nearest, and by splines of constant values."""
    method = self.method if method is None else method
    if method not in ("linear", "nearest", *SPLINES) or (nu is not None and method not in SPLINES):
        raise refuse(
            f"RegularGridInterpolator with method={method!r} is not recorded{' with nu' if nu is not None else ''}: "
            f"linear, nearest, {', '.join(SPLINES)} are. Splines along each axis (CubicSpline, make_interp_spline) are "
            "recorded, too."
        )
    axes = [np.asarray(axis, float) for axis in self.grid]
    values = held(self, "values")
    if holds_complex(values):
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
    components = as_array(tape, values).reshape((*values.shape[: len(axes)], -1))
    if method in SPLINES:
        result = _tensor_product(self, method, coordinates, [0] * len(axes) if nu is None else concrete(nu))
    else:
        entries = [entries_of(tape, coordinate)[0] for coordinate in coordinates]
        write = _multilinear if method == "linear" else _nearest
        columns = []
        for j in range(components.shape[-1]):
            bind, operands = write(tape, axes, components[..., j])
            columns.append(np.asarray(map_references(tape, bind, [*entries, *operands]), np.int64))
        result = make(tape, np.stack(columns, axis=-1))
    result = np.reshape(result, (*points.shape[:-1], *behind))
    if self.bounds_error or self.fill_value is not None:
        outside = np.stack([(c < axis[0]) | (c > axis[-1]) for c, axis in zip(coordinates, axes, strict=True)]).any(
            axis=0
        )
        fill = np.nan if self.bounds_error else self.fill_value
        result = np.where(np.reshape(outside, outside.shape + (1,) * len(behind)), fill, result)
    missing = np.stack([np.isnan(c) for c in coordinates]).any(axis=0)
    return np.where(np.reshape(missing, missing.shape + (1,) * len(behind)), np.nan, result)


def _tensor_product(self: Any, method: str, coordinates: Sequence[Any], orders: Sequence[int]) -> Any:
    """Return the values of SciPy's tensor product of splines, or of its derivatives.

    Raises:
        TraceError: for traced values: SciPy solves for the coefficients by iteration, to six digits.
    """
    from scipy.interpolate import BSpline

    if depends(held(self, "values")):
        raise refuse(
            f"RegularGridInterpolator of traced values is recorded by linear and nearest, not by {method}. Write "
            "CubicSpline or make_interp_spline along each axis."
        )
    found = self._spline if method == self.method else self._construct_spline(method)
    weights = [
        BSpline(t, np.eye(len(t) - k - 1), k)(coordinate.reshape(-1), int(order), True)
        for t, k, coordinate, order in zip(found.t, found.k, coordinates, orders, strict=True)
    ]
    letters = string.ascii_lowercase[: len(weights)]
    product = f"{','.join(f'Z{letter}' for letter in letters)},{letters}Y->ZY"
    coefficients = found.c.reshape((*found.c.shape[: len(weights)], -1))
    return np.einsum(product, *weights, coefficients).reshape((*coordinates[0].shape, -1))


def _multilinear(tape: Tape, axes: Sequence[Reals], values: Any) -> tuple[Formula, list[int]]:
    """Record multilinear interpolation: each cell has a polynomial in the distances to its lower corner."""
    cells = values[np.newaxis]
    for k, axis in enumerate(axes, 1):
        low = np.take(cells, range(len(axis) - 1), axis=k)
        shape = [-1 if j == k else 1 for j in range(cells.ndim)]
        slopes = np.diff(cells, axis=k) / np.diff(axis).reshape(shape)
        cells = np.stack([low, slopes], axis=1).reshape((-1, *low.shape[1:]))
    filled, operands = _table(tape, cells)
    sizes, count = cells.shape[1:], cells[0].size

    def bind(tape: Tape) -> Callable[..., int]:
        knots = [[tape.constant(knot) for knot in axis.tolist()] for axis in axes]

        def value(*given: int) -> int:
            point, numbers = given[: len(axes)], filled(tape, given[len(axes) :])
            places = [_PieceSelector(tape, x, axis[1:-1]) for x, axis in zip(point, knots, strict=True)]
            distances = [
                tape.subtract(x, interval.choose(axis[:-1]))
                for x, interval, axis in zip(point, places, knots, strict=True)
            ]
            terms = [_table_entry(places, sizes, numbers[k : k + count]) for k in range(0, len(numbers), count)]
            for distance in reversed(distances):
                terms = [
                    tape.add(low, tape.multiply(slope, distance))
                    for low, slope in zip(terms[::2], terms[1::2], strict=True)
                ]
            return terms[0]

        return value

    return bind, operands


def _nearest(tape: Tape, axes: Sequence[Reals], values: Any) -> tuple[Formula, list[int]]:
    """Record the value at the nearest point of the grid; ties go to the lower one."""
    filled, operands = _table(tape, values)
    halves = [(axis[:-1] + 0.5 * np.diff(axis)).tolist() for axis in axes]

    def bind(tape: Tape) -> Callable[..., int]:
        bounds = [[tape.constant(half) for half in axis] for axis in halves]

        def value(*given: int) -> int:
            places = [
                _PieceSelector(tape, x, half, holds_left=True)
                for x, half in zip(given[: len(axes)], bounds, strict=True)
            ]
            return _table_entry(places, values.shape, filled(tape, given[len(axes) :]))

        return value

    return bind, operands


def _table_entry(places: Sequence[_PieceSelector], shape: Sequence[int], references: list[int]) -> int:
    """Return the entry of a table at positions along all its axes, selected along the last axis first."""
    for interval, length in zip(reversed(places), reversed(shape), strict=True):
        references = [interval.choose(references[k : k + length]) for k in range(0, len(references), length)]
    return references[0]


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
