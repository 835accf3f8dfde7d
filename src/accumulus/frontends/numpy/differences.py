"""Differences along axes, and what is computed with them: gradients, the trapezoidal rule, phases without jumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["gradient", "widths_of"]


@implements(np.ediff1d)
def ediff1d(tape: Tape, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours, whatever the shape, between entries that are given."""
    entries = np.ravel(as_array(tape, ary))
    ends = [None if end is None else np.ravel(as_array(tape, end)) for end in (to_begin, to_end)]
    parts = [ends[0], entries[1:] - entries[:-1], ends[1]]
    return np.concatenate([part for part in parts if part is not None])


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


def widths_of(tape: Tape, x: Any, dx: Any, axis: int) -> Any:
    """The distances of neighbours, along the last axis."""
    if x is None:
        return dx
    x = as_array(tape, x)
    return np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
