"""From arguments as users pass them to those of a kernel: checked, converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.programs.axes import Axes

__all__ = ["Arguments"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a program was recorded with.

    Args:
        name: of the function, for messages.
        shapes: of every argument; None for those that are passed to the function as they are.
        dtype: of the kernel.
        check_finite: whether NaN and infinity are errors.
    """

    name: str
    shapes: tuple[tuple[int, ...] | None, ...]
    dtype: np.dtype[Any]
    check_finite: bool

    @property
    def numeric(self) -> list[int]:
        """Positions of the arguments that the kernel takes."""
        return [k for k, shape in enumerate(self.shapes) if shape is not None]

    @property
    def numeric_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of these."""
        return [shape for shape in self.shapes if shape is not None]

    def point(self, arguments: Sequence[Any]) -> list[NDArray[Any]]:
        """Arguments of the kernel at one point."""
        self._check_count(arguments)
        arrays = []
        for k in self.numeric:
            x = self._numbers(arguments[k], k)
            if x.shape != self.shapes[k]:
                raise ArgumentError(
                    f"{numbered(self.name, k)} has shape {x.shape}; this program was compiled for {self.shapes[k]}"
                )
            arrays.append(self._converted(x, k))
        return arrays

    def batch(self, arguments: Sequence[Any], axes: Axes, transposed: bool) -> tuple[list[NDArray[Any]], int]:
        """Arguments of the kernel at many points, and how many points these are."""
        arrays: list[NDArray[Any]] = []
        points = 0
        for k in self.numeric:
            x, axis = self._numbers(arguments[k], k), axes[k]
            if axis is not None:
                points = x.shape[axis]
                x = np.moveaxis(x, axis, -1 if transposed else 0)
            shape = x.shape if axis is None else x.shape[:-1] if transposed else x.shape[1:]
            if shape != self.shapes[k]:
                what = "" if axis is None else " at one point"
                raise ArgumentError(
                    f"{numbered(self.name, k)} has shape {shape}{what}; this program was compiled for "
                    f"{self.shapes[k]}. in_axes says which arguments of a batch have an axis of points, and where"
                )
            arrays.append(self._converted(x, k))
        return arrays, points

    def shapes_given(self, arguments: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Shapes of the arguments as they were given, checked for their kinds; None for those that are not numeric."""
        self._check_count(arguments)
        return [
            None if shape is None else self._shape(argument, k)
            for k, (argument, shape) in enumerate(zip(arguments, self.shapes, strict=True))
        ]

    def _check_count(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(self.shapes):
            raise ArgumentError(f"{self.name} takes {len(self.shapes)} arguments here; {len(arguments)} were given")

    def _shape(self, argument: Any, k: int) -> tuple[int, ...]:
        shape = shape_of(argument, numbered(self.name, k))
        if shape is None:
            raise ArgumentError(
                f"{numbered(self.name, k)} is a {type(argument).__name__}; expected a number or a NumPy array"
            )
        return shape

    def _numbers(self, argument: Any, k: int) -> NDArray[Any]:
        """An argument as an array of its own dtype."""
        self._shape(argument, k)
        # whole numbers beyond 64 bits would be objects to NumPy
        return np.array(float(argument)) if isinstance(argument, int) else np.asarray(argument)

    def _converted(self, x: NDArray[Any], k: int) -> NDArray[Any]:
        with np.errstate(over="ignore"):  # what leaves the range of a narrow dtype is infinite
            x = np.require(x, self.dtype, ["C", "A"])
        if self.check_finite and not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise ArgumentError(f"{numbered(self.name, k)} is {x[where]} at index {where}; expected finite numbers")
        return x
