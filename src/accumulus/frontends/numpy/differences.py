"""Differences along axes, and what is computed with them: gradients, the trapezoidal rule, phases without jumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.operands import concrete, depends, references_of
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["trapezoid", "widths_of"]


@implements(np.diff)
def diff(tape: Tape, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours, n times over."""
    array = np.moveaxis(as_array(tape, a), axis, -1)
    ends = [None if end is None else _end(tape, end, array.shape[:-1], axis) for end in (prepend, append)]
    array = np.concatenate([part for part in (ends[0], array, ends[1]) if part is not None], axis=-1)
    for _ in range(n):
        array = array[..., 1:] - array[..., :-1]
    return np.moveaxis(array, -1, axis)


@implements(np.ediff1d)
def ediff1d(tape: Tape, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours, whatever the shape, between entries that are given."""
    entries = np.ravel(as_array(tape, ary))
    ends = [None if end is None else np.ravel(as_array(tape, end)) for end in (to_begin, to_end)]
    parts = [ends[0], entries[1:] - entries[:-1], ends[1]]
    return np.concatenate([part for part in parts if part is not None])


def _end(tape: Tape, end: Any, shape: tuple[int, ...], axis: int) -> Any:
    references = references_of(tape, end)
    if not references.ndim:
        return TracedArray(tape, np.broadcast_to(references, (*shape, 1)))
    return TracedArray(tape, np.moveaxis(references, axis, -1))


@implements(np.gradient)
def gradient(tape: Tape, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends, along one axis or several, of any spacing."""
    f = as_array(tape, f)
    axes = range(f.ndim) if axis is None else [k % f.ndim for k in np.atleast_1d(axis).tolist()]
    spacings = list(varargs) if len(varargs) != 1 else list(varargs) * len(axes)
    if spacings and len(spacings) != len(axes):
        raise TypeError("invalid number of arguments: one spacing, or one for each axis")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    results = tuple(
        _slopes(tape, f, k, spacing, edge_order) for k, spacing in zip(axes, spacings or [1.0] * len(axes), strict=True)
    )
    return results if len(results) != 1 else results[0]


def _slopes(tape: Tape, f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    f = np.moveaxis(f, axis, -1)
    if f.shape[-1] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    spacing = as_array(tape, spacing)
    steps = np.diff(spacing) if spacing.ndim else spacing
    slopes = (f[..., 1:] - f[..., :-1]) / steps
    if spacing.ndim:
        before, after = steps[:-1], steps[1:]
        inner = (before * slopes[..., 1:] + after * slopes[..., :-1]) / (before + after)
        shares = before[:1] / (before[:1] + after[:1]), after[-1:] / (before[-1:] + after[-1:])
    else:
        inner = (f[..., 2:] - f[..., :-2]) / (2.0 * spacing)
        shares = 0.5, 0.5
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first = first + (first - slopes[..., 1:2]) * shares[0]
        last = last + (last - slopes[..., -2:-1]) * shares[1]
    return np.moveaxis(np.concatenate([first, inner, last], axis=-1), -1, axis)


@implements(*{getattr(np, name) for name in ("trapezoid", "trapz") if hasattr(np, name)})
def trapezoid(tape: Tape, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The trapezoidal rule along one axis."""
    y = np.moveaxis(as_array(tape, y), axis, -1)
    return np.sum(widths_of(tape, x, dx, axis) * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)


def widths_of(tape: Tape, x: Any, dx: Any, axis: int) -> Any:
    """The distances of neighbours, along the last axis."""
    if x is None:
        return dx
    x = as_array(tape, x)
    return np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))


@implements(np.unwrap)
def unwrap(tape: Tape, p: Any, discont: Any = None, axis: int = -1, *, period: float = 2.0 * np.pi) -> Any:
    """Phases whose jumps by more than half a period are less by whole periods."""
    if depends(period) or depends(discont):
        raise refuse("np.unwrap is recorded for a constant period and discontinuity.")
    half = float(concrete(period)) / 2.0
    lines = np.moveaxis(as_array(tape, p), axis, -1)
    steps = np.diff(lines)
    small = np.mod(steps + half, period) - half
    small = np.where((small == -half) & (steps > 0), half, small)
    least = half if discont is None else max(float(concrete(discont)), half)
    corrections = np.where(np.absolute(steps) < least, 0.0, small - steps)
    whole = np.concatenate([lines[..., :1], lines[..., 1:] + np.cumsum(corrections, axis=-1)], axis=-1)
    return np.moveaxis(whole, -1, axis)
