"""Batches of Dask arrays: chunks of points become chunks of results, when they are asked for.

Dask is not imported here before its arrays are given. A program travels to where chunks are, and is compiled there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

if TYPE_CHECKING:
    from accumulus.programs.axes import Axes
    from accumulus.programs.program import Program

__all__ = ["first_point", "is_lazy", "lazy_batch", "stand_in"]

#: Bytes of the results of one chunk, at most, unless one point has more.
CHUNK: Final = 1 << 27


def is_lazy(argument: object) -> bool:
    """Whether an argument is a Dask array."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(argument, module.Array)


def stand_in(argument: Any, name: str) -> NDArray[np.float64]:
    """An array of the shape of a Dask array that takes no memory.

    Raises:
        ArgumentError: if its shape is not known before it is computed, or it is not real.
    """
    if any(np.isnan(length) for length in argument.shape):
        raise ArgumentError(
            f"{name} is a Dask array of unknown shape {argument.shape}; expected one whose chunks are known: call its "
            "compute_chunk_sizes()"
        )
    if argument.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} is a Dask array of {argument.dtype}; expected one of floats or integers")
    return np.broadcast_to(np.float64(0.0), argument.shape)


def first_point(argument: Any, axis: int | None) -> Any:
    """A Dask array at the first point, computed: the recording is compared with the function there."""
    if axis is not None and not argument.shape[axis]:
        return np.zeros((*argument.shape[:axis], *argument.shape[axis + 1 :]))[()]
    found = argument if axis is None else argument[(slice(None),) * axis + (0,)]
    return np.asarray(found.compute())[()]


def lazy_batch(program: Program, travels: Any, axes: Axes, arguments: Sequence[Any]) -> list[Any]:
    """A Dask array of shape (points, length) for each array that the program writes, chunked along points.

    Args:
        travels: what computes chunks where they are, by its `arrays_along`.
        arguments: all of them; those with an axis of points are Dask arrays, or become some.
    """
    import dask.array
    from dask.delayed import delayed

    library: Any = dask.array
    lengths = [segment.length for segment in program.kernel.segments][: -1 if program.is_guarded else None]
    dtype = program.kernel.dtype
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
        given = [block if axis is None else block[position] for block, axis in zip(blocks, axes, strict=True)]
        along = tuple(None if axis is None else 0 for axis in axes)
        results = compute(travelling, along, *given)
        for k, length in enumerate(lengths):
            columns[k].append(library.from_delayed(results[k], (points, length), dtype))
    return [library.concatenate(parts, axis=0) for parts in columns]


def _divided(whole: int, most: int) -> list[int]:
    """Sizes of at most so much, as even as they can be."""
    parts = max(1, -(-whole // most))
    return [whole // parts + (k < whole % parts) for k in range(parts)]


def _compute(program: Any, axes: Axes, *arguments: Any) -> tuple[NDArray[Any], ...]:
    """The arrays of one chunk of points; other chunks have the other threads."""
    found: tuple[NDArray[Any], ...] = program.arrays_along(axes, arguments)
    return found
