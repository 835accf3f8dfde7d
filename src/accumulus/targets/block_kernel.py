"""The kernel of a program over arrays: loops of any target, called point by point."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape, Range, column
from accumulus.tape.interpreter import evaluate
from accumulus.targets.kernel import Kernel, Segment, Shape, aligned

__all__ = ["BlockKernel", "Interpreted", "LongSegment", "Loops", "LoopsOverPoints", "as_slice"]

Floats = NDArray[np.float64]
#: Whole numbers up to here are doubles.
EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True, eq=False)
class LongSegment(Segment):
    """A result array of so many entries that they are told by arrays; arguments as for `Segment`, not checked."""

    outputs: NDArray[np.intp] | slice  # type: ignore[assignment]
    positions: NDArray[np.intp] | slice  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", as_slice(self.outputs))
        object.__setattr__(self, "positions", as_slice(self.positions))

    @property
    def is_filled(self) -> bool:
        """Whether outputs follow each other in the array, and nothing is between them."""
        return isinstance(self.positions, slice) and self.positions == slice(0, self.length)


def _is_number(x: object) -> bool:
    """Whether an argument is a number that every float type takes as it is, or rounds."""
    return type(x) in (float, np.float64) or (type(x) is int and -EXACT <= x <= EXACT)


def as_slice(positions: NDArray[np.intp] | slice) -> slice | NDArray[np.intp]:
    """Positions that follow each other as a slice."""
    if isinstance(positions, slice):
        return positions
    found = column(positions)
    if isinstance(found, Range) and (found.step == 1 or found.count < 2):
        return slice(found.start, found.start + found.count)
    return positions


class Loops(Protocol):
    """What a target makes of a program over arrays."""

    #: Which result arrays have to hold zeros before.
    cleared: list[bool]

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int) -> None:
        """Compute one point.

        Args:
            arguments: the program's inputs, in their order.
            results: an array of shape (length,) for each segment, in C order; all are written.
            threads: that may share the work.
        """


@runtime_checkable
class LoopsOverPoints(Loops, Protocol):
    """Loops that compute many points at a time."""

    def run(
        self,
        X: Sequence[Floats],
        out: Sequence[Floats],
        first: int,
        last: int,
        transposed: bool,
        shared: Sequence[bool],
    ) -> None:
        """Compute points first … last-1 of a batch, see `Kernel.run`; all entries of results are written."""


class Interpreted:
    """Loops of targets that have none of their own: NumPy's, block by block."""

    def __init__(self, tape: BlockTape, segments: Sequence[LongSegment]) -> None:
        self._tape, self._segments = tape, segments
        self.cleared = [not segment.is_filled for segment in segments]

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int) -> None:
        """One point, on one thread."""
        values = evaluate(self._tape, np.concatenate([entry.reshape(-1) for entry in arguments]))
        for segment, result in zip(self._segments, results, strict=True):
            result[segment.positions] = values[segment.outputs]


class BlockKernel(Kernel):
    """Loops over the instances of bodies.

    Args:
        loops: from a program's inputs to its results.
        segments: which outputs go where.
        arguments: shapes of the arrays that the inputs are the entries of.
        threads: that may share the instances of one point.
        seconds: that compiling took.
    """

    def __init__(
        self,
        loops: Loops,
        segments: Sequence[LongSegment],
        arguments: Sequence[Shape],
        threads: int,
        seconds: float,
    ) -> None:
        self._loops, self._threads = loops, threads
        self.segments, self.arguments = tuple(segments), tuple(map(tuple, arguments))
        self.dtype = np.dtype(float)
        self.seconds = {"emit": 0.0, "compile": seconds}

    @property
    def most_points(self) -> int:
        """All: points are computed one by one."""
        return sys.maxsize

    def threads_for(self, count: int, threads: int) -> int:
        """One thread for each point, as far as there are any: points are large."""
        if isinstance(self._loops, LoopsOverPoints):
            return 1
        return max(1, min(count, threads))

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point."""
        point = self._point(x)
        results = tuple(
            np.zeros(segment.length) if cleared else aligned((segment.length,), self.dtype)
            for segment, cleared in zip(self.segments, self._loops.cleared, strict=True)
        )
        self._loops(point, results, self._threads)
        return results

    def point(self) -> Callable[..., Any] | None:
        """For quick calls at one point; None where results are cleared before, which new arrays are more cheaply."""
        loops, shapes, dtype, threads = self._loops, self.arguments, self.dtype, self._threads
        if any(loops.cleared):
            return None
        count = len(shapes)

        def compute(*given: Any) -> Any:
            if len(given) < count:
                return NotImplemented
            if any(map(_is_number, given)):
                given = tuple([np.array(x, dtype) if _is_number(x) else x for x in given])
            for x, shape in zip(given, shapes, strict=False):
                if (
                    type(x) is not np.ndarray
                    or x.shape != shape
                    or x.dtype != dtype
                    or not (x.flags.c_contiguous and x.flags.aligned)
                ):
                    return NotImplemented
            loops(given[:count], [result.reshape(-1) for result in given[count:]], threads)
            return None

        return compute

    def run(
        self,
        X: Sequence[NDArray[Any]],
        out: Sequence[NDArray[Any]],
        first: int,
        last: int,
        transposed: bool = False,
        zeroed: bool = False,
        shared: tuple[bool, ...] = (),
    ) -> None:
        """Points one after the other, each where it is returned; where points are columns, by way of one row."""
        alike = shared or (False,) * len(X)
        if isinstance(self._loops, LoopsOverPoints):
            self._loops.run(X, out, first, last, transposed, alike)
            return
        rows = [np.zeros(segment.length) for segment in self.segments] if transposed else []
        for point in range(first, last):
            at = (..., point) if transposed else point
            results = rows or [array[point] for array in out]
            if not zeroed and not transposed:
                for result, cleared in zip(results, self._loops.cleared, strict=True):
                    if cleared:
                        result[:] = 0.0
            given = [x if same else np.ascontiguousarray(x[at]) for x, same in zip(X, alike, strict=True)]
            self._loops(given, results, 1)
            for array, row in zip(out, rows, strict=False):
                array[:, point] = row

    def __reduce__(self) -> tuple[Any, ...]:
        given = self._loops, self.segments, self.arguments, self._threads, self.seconds["compile"]
        return BlockKernel, given
