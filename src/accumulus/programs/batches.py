"""Batches of a derivative: which program computes them, and which fast path takes the next; Dask arrays, too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, CaseError
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.programs import device_batches
from accumulus.programs.argnums import static_positions
from accumulus.programs.axes import Axes, InAxes, at_one_point, axes_of_points, mistakable
from accumulus.programs.cases import GrownError
from accumulus.programs.dask_batches import first_point, is_lazy, stand_in

if TYPE_CHECKING:
    from accumulus.programs.derivative import Derivative

__all__ = ["batch_of", "like"]


def batch_of(
    derivative: Derivative, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, threads: int | None, transposed: bool
) -> Any:
    """The slow path of `Derivative.batch`, of which the arguments are, in the form of numbers by position."""
    if any(map(is_lazy, arguments)):
        return _lazy_batch(derivative, arguments, in_axes, out, transposed)
    if any(map(device_batches.is_on_device, arguments)):
        return _batch_on_device(derivative, arguments, in_axes, out, transposed)
    derivative._renew()
    name = derivative._name
    static = static_positions(derivative._static, len(arguments))
    shapes = [None if k in static else shape_of(x, numbered(name, k)) for k, x in enumerate(arguments)]
    known = [cases.argument_shapes for cases in [*derivative._programs.values()]]
    axes = axes_of_points(in_axes, shapes, known, transposed, name)
    point = [_first_point(x, axis) for x, axis in zip(arguments, axes, strict=True)]
    shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
    points = 1 if out is not None else _points_of(arguments, axes)
    make = partial(derivative._further, tuple(point), shared)
    while True:
        cases, program = derivative._compiled(point, "transposed" if transposed else "batch", shared, points)
        kernel = cases.kernel(program, make)
        with suppress(GrownError):  # begun again then: at most as often as there are cases
            result = program.batch_along(
                axes, arguments, out=out, threads=threads, transposed=transposed, kernel=kernel
            )
            break
    if None not in shapes and not isinstance(in_axes, list):
        at_one = [at_one_point(shape or (), axis) for shape, axis in zip(shapes, axes, strict=True)]
        with derivative._lock:
            known = [known.argument_shapes for known in derivative._programs.values()]
            certain = in_axes != "auto" or not mistakable(at_one, known)
            if certain and cases in derivative._programs.values():
                fast = derivative._watched.while_current(cases.fast_batch(axes, transposed, make))
                derivative._fast_batch = in_axes, transposed, fast
    return result


def _lazy_batch(derivative: Derivative, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, transposed: bool) -> Any:
    """The batch of Dask arrays; the first point is computed now, to record the function there."""
    name = derivative._name
    if out is not None or transposed:
        raise ArgumentError(
            f"{'out' if out is not None else 'transposed'} is given for a batch of Dask arrays; expected neither: "
            "the result is a Dask array, which its own store() writes, and transpose() turns"
        )
    given = [stand_in(x, numbered(name, k)) if is_lazy(x) else x for k, x in enumerate(arguments)]
    static = static_positions(derivative._static, len(given))
    shapes = [None if k in static else shape_of(x, numbered(name, k)) for k, x in enumerate(given)]
    known = [cases.argument_shapes for cases in [*derivative._programs.values()]]
    axes = axes_of_points(in_axes, shapes, known, False, name)
    point = [(first_point if is_lazy(x) else _first_point)(x, a) for x, a in zip(arguments, axes, strict=True)]
    shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
    cases, program = derivative._compiled(point, "batch", shared)
    same = [y if axis is None else x for x, y, axis in zip(arguments, point, axes, strict=True)]
    lengths = [segment.length for segment in program.kernel.segments]
    chunks = _Chunks(derivative, tuple(point), shared, lengths) if cases.is_guarded else None
    return program.lazy_batch(axes, same, chunks)


def _batch_on_device(
    derivative: Derivative, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, transposed: bool
) -> Any:
    """The batch of arrays of which some are on the GPU; the first point is fetched, to record the function there."""
    name, on_device = derivative._name, device_batches.is_on_device
    device_batches.check_options(derivative._options, out, name)
    derivative._renew()
    given = [device_batches.on_host(x, numbered(name, k)) if on_device(x) else x for k, x in enumerate(arguments)]
    static = static_positions(derivative._static, len(given))
    shapes = [None if k in static else shape_of(x, numbered(name, k)) for k, x in enumerate(given)]
    known = [cases.argument_shapes for cases in [*derivative._programs.values()]]
    axes = axes_of_points(in_axes, shapes, known, transposed, name)
    point = [
        (device_batches.first_point if on_device(x) else _first_point)(x, axis)
        for x, axis in zip(arguments, axes, strict=True)
    ]
    shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
    _, program = derivative._compiled(point, "transposed" if transposed else "batch", shared)
    return device_batches.batch_on_device(program, axes, arguments, transposed)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """What computes chunks of a batch of Dask arrays where they are, where a function decides on values."""

    derivative: Derivative
    point: tuple[Any, ...]
    shared: tuple[bool, ...]
    #: Of the arrays that are expected.
    lengths: list[int]

    def arrays_along(self, axes: Axes, arguments: Sequence[Any]) -> tuple[NDArray[Any], ...]:
        """The arrays of a chunk, see `Program.arrays_along`."""
        first = [_first_point(x, axis) for x, axis in zip(arguments, axes, strict=True)]
        cases, program = self.derivative._compiled(first, "batch", self.shared)
        if [segment.length for segment in program.kernel.segments] != self.lengths:
            raise self._grown()
        make = partial(self.derivative._further, self.point, self.shared)
        try:
            return program.arrays_along(axes, arguments, cases.kernel(program, make))
        except GrownError:
            raise self._grown() from None

    def _grown(self) -> CaseError:
        return CaseError(
            f"{self.derivative.__name__} has got further structural nonzeros while chunks were computed, in a case "
            "that it had not met; expected a call at a point of each case before the batch"
        )


def like(numbers: NDArray[Any], example: Any) -> Any:
    """Numbers of a batch as the arguments that they were: whole ones stay whole, since they may be used as indices."""
    if isinstance(example, np.ndarray):
        return numbers.astype(example.dtype) if example.dtype.kind in "iu" else numbers
    return type(example)(numbers) if isinstance(example, int | np.integer) else np.float64(numbers)


def _points_of(arguments: Sequence[Any], axes: Sequence[int | None]) -> int:
    """How many points a batch has."""
    return next((np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None), 1)


def _first_point(argument: Any, axis: int | None) -> Any:
    """An argument of a batch as it is at the first point; zeros if there are no points."""
    if axis is None:
        return argument
    points = np.moveaxis(argument, axis, 0)
    return points[0] if len(points) else np.zeros(points.shape[1:])[()]
