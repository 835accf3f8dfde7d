"""From arguments as users pass them to those of a kernel: checked, converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

__all__ = ["Arguments"]

#: NumPy kinds of arrays that are converted to the program's dtype: bool, int, unsigned int, float.
REAL_KINDS: Final = "biuf"


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
            x = self._converted(arguments[k], k)
            if x.shape != self.shapes[k]:
                raise ArgumentError(
                    f"argument {k} of {self.name} has shape {x.shape}; this program was compiled for {self.shapes[k]}"
                )
            arrays.append(x)
        return arrays

    def batch(self, arguments: Sequence[Any], transposed: bool) -> tuple[list[NDArray[Any]], tuple[bool, ...], int]:
        """Arguments of the kernel at many points, which of them are the same at all points, and how many these are."""
        self._check_count(arguments)
        arrays: list[NDArray[Any]] = []
        points: int | None = None
        for k in self.numeric:
            x, shape = self._converted(arguments[k], k), self.shapes[k]
            assert shape is not None
            arrays.append(x)
            if x.ndim == 0 and shape == ():
                continue
            if x.ndim == 0 or (x.shape[:-1] if transposed else x.shape[1:]) != shape:
                expected = (*shape, "points") if transposed else ("points", *shape)
                raise ArgumentError(
                    f"argument {k} of {self.name} has shape {x.shape}; a batch takes ({', '.join(map(str, expected))})"
                )
            here = x.shape[-1 if transposed else 0]
            if points is not None and here != points:
                raise ArgumentError(f"argument {k} of {self.name} has {here} points; another argument has {points}")
            points = here
        if points is None:
            raise ArgumentError(f"no argument of {self.name} has an axis of points; a batch takes at least one array")
        return arrays, tuple(x.ndim == 0 for x in arrays), points

    def _check_count(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(self.shapes):
            raise ArgumentError(f"{self.name} takes {len(self.shapes)} arguments here; {len(arguments)} were given")

    def _converted(self, argument: Any, k: int) -> NDArray[Any]:
        x = np.asarray(argument)
        if x.dtype.kind not in REAL_KINDS:
            raise ArgumentError(f"argument {k} of {self.name} has dtype {x.dtype}; expected real numbers")
        x = np.require(x, self.dtype, ["C", "A"])
        if self.check_finite and not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise ArgumentError(f"argument {k} of {self.name} is {x[where]} at index {where}; expected finite numbers")
        return x
