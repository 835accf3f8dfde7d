"""Batches of arrays on disk, so many points at a time that what is in memory stays small."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.programs.arguments import Arguments
from accumulus.programs.axes import Axes
from accumulus.progress import Progress, ProgressLine
from accumulus.targets import Kernel

__all__ = ["arrays_of_points", "in_parts", "on_disk"]

#: Bytes of the arguments and results of one part, at most, unless one point has more.
PART: Final = 1 << 28


def on_disk(arguments: Sequence[Any], out: Any) -> bool:
    """Whether an argument or a result of a batch is a memory map."""
    results = () if out is None else (out,) if isinstance(out, np.ndarray) else tuple(out)
    return any(isinstance(array, np.memmap) for array in (*arguments, *results))


def in_parts(
    kernel: Kernel,
    arguments: Arguments,
    axes: Axes,
    given: Sequence[Any],
    points: int,
    out: Sequence[NDArray[Any]] | None,
    threads: int,
    progress: Callable[[Progress], object] | bool | None,
) -> Sequence[NDArray[Any]]:
    """The arrays that a kernel writes for a batch, part by part.

    Args:
        arguments: how they are checked and converted.
        given: the arguments, each with its axis of points.
        out: arrays of shape (points, length) to write to.
        progress: told of each part; or whether a line is shown, see `ProgressLine`.
    """
    results = kernel.allocate(points, False) if out is None else out
    entries = sum(segment.length for segment in kernel.segments) + sum(
        math.prod(arguments.shapes[k] or ()) for k in arguments.numeric if axes[k] is not None
    )
    step = max(1, PART // max(entries * kernel.dtype.itemsize, 1))
    moved = [x if axis is None else np.moveaxis(x, axis, 0) for x, axis in zip(given, axes, strict=True)]
    along = tuple(None if axis is None else 0 for axis in axes)
    start = time.perf_counter()
    with ProgressLine("a batch", shown=None if callable(progress) else progress) as line:
        for first in range(0, points, step):
            last = min(first + step, points)
            part = [x if axis is None else x[first:last] for x, axis in zip(moved, axes, strict=True)]
            arrays_of_points(kernel, arguments, along, part, [array[first:last] for array in results], threads)
            line.update(f"{last:,} of {points:,} points")
            if callable(progress):
                progress(Progress("batch", time.perf_counter() - start, points=last))
    return results


def arrays_of_points(
    kernel: Kernel,
    arguments: Arguments,
    axes: Axes,
    given: Sequence[Any],
    out: Sequence[NDArray[Any]] | None = None,
    threads: int = 1,
) -> tuple[NDArray[Any], ...]:
    """The arrays that a kernel writes for a batch, of shape (points, length)."""
    X, _ = arguments.batch(given, axes, False)
    shared = [axes[k] is None for k in arguments.numeric]
    return kernel.batch(*X, shared=shared, out=out, threads=threads)
