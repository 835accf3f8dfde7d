"""From arguments as users pass them to the inputs of a kernel: checked, converted, side by side."""

from __future__ import annotations

import math
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

    def pack(self, arguments: Sequence[Any]) -> NDArray[Any]:
        """Inputs of the kernel at one point, in one row."""
        self._check_count(arguments)
        parts = [np.empty(0, self.dtype)]
        for k in self.numeric:
            x = self._converted(arguments[k], k)
            if x.shape != self.shapes[k]:
                raise ArgumentError(
                    f"argument {k} of {self.name} has shape {x.shape}; this program was compiled for {self.shapes[k]}"
                )
            parts.append(x.reshape(-1))
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def pack_batch(self, arguments: Sequence[Any], transposed: bool) -> tuple[NDArray[Any], int]:
        """Inputs at many points, (points, inputs) or transposed, and the number of points."""
        self._check_count(arguments)
        blocks: list[NDArray[Any]] = []
        points: int | None = None
        for k in self.numeric:
            x, shape = self._converted(arguments[k], k), self.shapes[k]
            assert shape is not None
            if x.ndim == 0 and shape == ():
                blocks.append(x.reshape(1, 1))
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
            size = math.prod(shape)
            blocks.append(x.reshape(size, here) if transposed else x.reshape(here, size))
        if points is None:
            raise ArgumentError(f"no argument of {self.name} has an axis of points; a batch takes at least one array")
        if len(blocks) == 1:
            return np.ascontiguousarray(blocks[0]), points
        if transposed:
            return np.concatenate([np.broadcast_to(b, (b.shape[0], points)) for b in blocks], axis=0), points
        return np.concatenate([np.broadcast_to(b, (points, b.shape[1])) for b in blocks], axis=1), points

    def _check_count(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(self.shapes):
            raise ArgumentError(f"{self.name} takes {len(self.shapes)} arguments here; {len(arguments)} were given")

    def _converted(self, argument: Any, k: int) -> NDArray[Any]:
        x = np.asarray(argument)
        if x.dtype.kind not in REAL_KINDS:
            raise ArgumentError(f"argument {k} of {self.name} has dtype {x.dtype}; expected real numbers")
        x = x.astype(self.dtype, order="C", copy=False)
        if self.check_finite and not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise ArgumentError(f"argument {k} of {self.name} is {x[where]} at index {where}; expected finite numbers")
        return x
