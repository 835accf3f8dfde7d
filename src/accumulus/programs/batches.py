"""Batches of arrays in memory, on disk, on the GPU, and of Dask arrays, which are computed chunk by chunk.

Dask and CuPy are imported at the first call with their arrays. Arrays on disk are read in chunks of points that bound
the memory. Arrays on the GPU need programs of target "cuda"; their results stay on the GPU.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.options import Options
from accumulus.programs.arguments import Arguments, Axes
from accumulus.programs.calls import Compute
from accumulus.progress import Progress, ProgressLine
from accumulus.targets.kernel import aligned

#: Maximum size in bytes of the arguments and results of one part, unless a single point has more. Larger parts copy
#: more into memory at once and report progress later, smaller ones make more calls.
PART: Final = 1 << 28
#: Maximum size in bytes of the results of one chunk, unless a single point has more. Larger chunks take more memory in
#: each worker, smaller ones make more tasks for Dask to schedule.
CHUNK: Final = 1 << 27


def is_lazy(argument: object) -> bool:
    """Return True for a Dask array."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(argument, module.Array)


def is_on_device(argument: object) -> bool:
    """Return True for a CuPy array."""
    module = sys.modules.get("cupy")
    return module is not None and isinstance(argument, module.ndarray)


def stand_in(argument: Any, name: str) -> Any:
    """Return an array with the shape of a Dask or CuPy array that takes no memory; other arguments unchanged.

    Raises:
        ArgumentError: for a Dask array of unknown shape, or an array that is not real.
    """
    if is_lazy(argument):
        if any(np.isnan(length) for length in argument.shape):
            raise ArgumentError(
                f"{name} is a Dask array of unknown shape {argument.shape}; expected one whose chunks are known: call "
                "its compute_chunk_sizes()"
            )
        library, dtype = "Dask", np.dtype(np.float64)
    elif is_on_device(argument):
        library, dtype = "CuPy", argument.dtype
    else:
        return argument
    if argument.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} is a {library} array of {argument.dtype}; expected one of floats or integers")
    return np.broadcast_to(np.zeros((), dtype), argument.shape)


def first_point(argument: Any, axis: int | None) -> Any:
    """Return an argument at the first point, in memory; zeros if there are no points."""
    lazy, on_device = is_lazy(argument), is_on_device(argument)
    if axis is None:
        point = argument
    elif not argument.shape[axis]:
        return np.zeros((*argument.shape[:axis], *argument.shape[axis + 1 :]))[()]
    else:
        point = argument[(slice(None),) * axis + (0,)]
    if lazy:  # compute it: the recording is compared with the function at this point
        return np.asarray(point.compute())[()]
    return sys.modules["cupy"].asnumpy(point)[()] if on_device else point


#: Number of further points of a batch at which rounding is judged: more take time before the first result, fewer miss
#: points that are unlike the first.
SAMPLED: Final = 6


def later_points(arguments: Sequence[Any], axes: Sequence[int | None]) -> list[list[Any]]:
    """Return the arguments at some points of a batch in memory, after the first, evenly distributed."""
    last = max(point_count(arguments, axes) - 1, 0)
    places = np.unique(np.linspace(0, last, SAMPLED + 1).astype(int))[1:]
    return [
        [x if axis is None else x[(slice(None),) * axis + (k,)] for x, axis in zip(arguments, axes, strict=True)]
        for k in places.tolist()
    ]


def like(numbers: NDArray[Any], example: Any) -> Any:
    """Return numbers of a batch in the type of an example: integers stay integers, which may be indices."""
    if isinstance(example, np.ndarray):
        return numbers.astype(example.dtype) if example.dtype.kind in "iu" else numbers
    return type(example)(numbers) if isinstance(example, int | np.integer) else np.float64(numbers)


def point_count(arguments: Sequence[Any], axes: Sequence[int | None]) -> int:
    """Return the number of points of a batch."""
    return next((np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None), 1)


# On disk -------------------------------------------------------------------------------------------------------------


def on_disk(arguments: Sequence[Any], out: Any) -> bool:
    """Return True if an argument or a result of a batch is a memory map."""
    results = () if out is None else (out,) if isinstance(out, np.ndarray) else tuple(out)
    return any(isinstance(array, np.memmap) for array in (*arguments, *results))


def in_parts(
    compute: Compute,
    lengths: Sequence[int],
    arguments: Arguments,
    axes: Axes,
    operands: Sequence[Any],
    points: int,
    out: Sequence[NDArray[Any]] | None,
    threads: int,
    progress: Callable[[Progress], object] | bool | None,
) -> Sequence[NDArray[Any]]:
    """Return the arrays of a batch, computed part by part.

    Args:
        compute: function that computes a batch, see `Kernel.batch`.
        lengths: number of entries of each result at one point.
        arguments: checks and conversion of the arguments.
        axes: axis of points of each argument; None if it is shared.
        operands: arguments, each with its axis of points.
        points: number of points.
        out: arrays of shape (points, length) to write to.
        threads: number of threads.
        progress: function that is called after each part; or the argument `shown` of `ProgressLine`.
    """
    results = [aligned((points, length), arguments.dtype) for length in lengths] if out is None else out
    entries = sum(lengths) + sum(math.prod(arguments.shapes[k] or ()) for k in arguments.numeric if axes[k] is not None)
    step = max(1, PART // max(entries * arguments.dtype.itemsize, 1))
    moved = [x if axis is None else np.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    along = tuple(None if axis is None else 0 for axis in axes)
    start = time.perf_counter()
    with ProgressLine("a batch", shown=None if callable(progress) else progress) as line:
        for first in range(0, points, step):
            last = min(first + step, points)
            chunk = [x if axis is None else x[first:last] for x, axis in zip(moved, axes, strict=True)]
            arrays_of_points(compute, arguments, along, chunk, [array[first:last] for array in results], threads)
            line.update(f"{last:,} of {points:,} points")
            if callable(progress):
                progress(Progress("batch", time.perf_counter() - start, points=last))
    return results


def arrays_of_points(
    compute: Compute,
    arguments: Arguments,
    axes: Axes,
    operands: Sequence[Any],
    out: Sequence[NDArray[Any]] | None = None,
    threads: int = 1,
) -> tuple[NDArray[Any], ...]:
    """Return the arrays of a batch, of shape (points, length); `compute` as for `in_parts`."""
    X, _ = arguments.batch(operands, axes, False)
    shared = [axes[k] is None for k in arguments.numeric]
    return compute(*X, shared=shared, out=out, threads=threads)


# Dask ----------------------------------------------------------------------------------------------------------------


def lazy_batch(
    travels: Any, lengths: Sequence[int], dtype: np.dtype[Any], axes: Axes, arguments: Sequence[Any]
) -> list[Any]:
    """Return a Dask array of shape (points, length) for each of the lengths, chunked along points.

    Args:
        travels: program or similar object that is sent to workers; its `arrays_along` computes a chunk.
        lengths: number of entries of each result at one point.
        dtype: dtype of the results.
        axes: axis of points of each argument; None if it is shared.
        arguments: all arguments; those with an axis of points are Dask arrays, or are converted to Dask arrays.
    """
    import dask.array
    from dask.delayed import delayed

    library: Any = dask.array
    most = max(1, CHUNK // max(sum(lengths) * dtype.itemsize, 1))
    chunks: tuple[int, ...] | None = None
    moved: list[Any] = []
    for argument, axis in zip(arguments, axes, strict=True):
        if axis is None:
            moved.append(argument)
            continue
        lazy = argument if is_lazy(argument) else library.from_array(np.asarray(argument))
        lazy = library.moveaxis(lazy, axis, 0)
        if chunks is None:
            chunks = tuple(size for whole in lazy.chunks[0] for size in _divided(whole, most))
        moved.append(lazy.rechunk({0: chunks, **dict.fromkeys(range(1, lazy.ndim), -1)}))
    assert chunks is not None
    compute = delayed(_compute, pure=True)
    travelling = delayed(travels, traverse=False)
    blocks = [
        each if axis is None else each.to_delayed().ravel().tolist() for each, axis in zip(moved, axes, strict=True)
    ]
    columns: list[list[Any]] = [[] for _ in lengths]
    for position, points in enumerate(chunks):
        operands = [block if axis is None else block[position] for block, axis in zip(blocks, axes, strict=True)]
        along = tuple(None if axis is None else 0 for axis in axes)
        results = compute(travelling, along, *operands)
        for k, length in enumerate(lengths):
            columns[k].append(library.from_delayed(results[k], (points, length), dtype))
    return [library.concatenate(parts, axis=0) for parts in columns]


def _divided(whole: int, most: int) -> list[int]:
    """Return sizes of at most `most` that are as even as possible and sum to `whole`."""
    parts = max(1, -(-whole // most))
    return [whole // parts + (k < whole % parts) for k in range(parts)]


def _compute(program: Any, axes: Axes, *arguments: Any) -> tuple[NDArray[Any], ...]:
    """Return the arrays of one chunk of points, on one thread, since other threads compute other chunks."""
    arrays: tuple[NDArray[Any], ...] = program.arrays_along(axes, arguments)
    return arrays


# On the GPU ----------------------------------------------------------------------------------------------------------


def check_options(options: Options, out: Any, name: str) -> None:
    """Raise an error for options that arrays on the GPU do not support."""
    if options.target != "cuda":
        raise ArgumentError(
            f"an argument of {name} is a CuPy array, and it is compiled for target {options.target!r}; expected "
            "target='cuda', or a NumPy array, as cupy.asnumpy returns it"
        )
    if out is not None or options.sparse is not None or options.check_finite:
        option = "out" if out is not None else "sparse" if options.sparse is not None else "check_finite"
        raise ArgumentError(f"{option} was given for a batch of CuPy arrays; leave it out, it is for NumPy arrays")


def moved_to_device(
    arguments: Sequence[Any], numeric: Sequence[int], axes: Axes, *, transposed: bool
) -> tuple[list[Any], int]:
    """Return the numeric arguments on the GPU, with points first (last if transposed), and the number of points."""
    cupy = sys.modules["cupy"]
    arrays, points = [], 0
    for k in numeric:
        x, axis = cupy.asarray(arguments[k]), axes[k]
        if axis is not None:
            points = x.shape[axis]
            if axis % x.ndim != (x.ndim - 1 if transposed else 0):
                x = cupy.moveaxis(x, axis, -1 if transposed else 0)
        arrays.append(x)
    return arrays, points
