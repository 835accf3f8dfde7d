"""The kernel of a program over arrays: loops of any target, called point by point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.targets.kernel import Kernel, Segment, Shape

__all__ = ["BlockKernel", "LongSegment"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LongSegment(Segment):
    """A result array of so many entries that they are told by arrays; arguments as for `Segment`, not checked."""

    outputs: NDArray[np.intp]  # type: ignore[assignment]
    positions: NDArray[np.intp]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        pass

    def reader(self) -> Callable[[Floats], Floats]:
        """From the values of all outputs to the array of one point, which may be a view of them."""
        chosen, places, length = _as_slice(self.outputs), _as_slice(self.positions), self.length
        if isinstance(places, slice) and places == slice(0, length):
            return lambda values: values[chosen]

        def read(values: Floats) -> Floats:
            result = np.zeros(length)
            result[places] = values[chosen]
            return result

        return read


def _as_slice(positions: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Positions that follow each other as a slice."""
    count = len(positions)
    first = int(positions[0]) if count else 0
    if not count or (positions[-1] - first == count - 1 and (np.diff(positions) == 1).all()):
        return slice(first, first + count)
    return positions


class BlockKernel(Kernel):
    """Loops over the instances of bodies.

    Args:
        loops: from a program's inputs to its outputs.
        segments: which outputs go where.
        arguments: shapes of the arrays that the inputs are the entries of.
        seconds: that compiling took.
    """

    def __init__(
        self,
        loops: Callable[[Floats], Floats],
        segments: Sequence[LongSegment],
        arguments: Sequence[Shape],
        seconds: float,
    ) -> None:
        self._loops = loops
        self.segments, self.arguments = tuple(segments), tuple(arguments)
        self._read = [segment.reader() for segment in segments]
        self.dtype = np.dtype(float)
        self.seconds = {"emit": 0.0, "compile": seconds}

    def threads_for(self, count: int, threads: int) -> int:
        """One thread for each point, as far as there are any: points are large."""
        return max(1, min(count, threads))

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point."""
        inputs = np.concatenate([entry.reshape(-1) for entry in self._point(x)])
        values = self._loops(inputs)
        return tuple(read(values) for read in self._read)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockKernel, (self._loops, self.segments, self.arguments, self.seconds["compile"])
