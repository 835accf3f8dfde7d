"""What `scipy.integrate` has for given values: the trapezoidal rule, running as well, and Simpson's."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.differences import widths_of
from accumulus.tape.tape import Tape

__all__ = ["cumulative_trapezoid", "simpson"]


@borrows("scipy.integrate", "trapezoid")
def trapezoid(tape: Tape, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate by the trapezoidal rule."""
    return np.trapezoid(y, x, dx, axis)


@borrows("scipy.integrate", "cumulative_trapezoid")
def cumulative_trapezoid(tape: Tape, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """The running trapezoidal rule."""
    y = np.moveaxis(as_array(tape, y), axis, -1)
    areas = np.cumsum(widths_of(tape, x, dx, axis) * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        areas = np.concatenate([np.broadcast_to(initial, (*areas.shape[:-1], 1)), areas], axis=-1)
    return np.moveaxis(areas, -1, axis)


@borrows("scipy.integrate", "simpson")
def simpson(tape: Tape, y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Simpson's rule; of an even number of points, with Cartwright's correction for the last interval."""
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
