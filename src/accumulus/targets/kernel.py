"""What every target makes: a kernel, which maps points to result arrays, one for each segment.

A kernel allocates results, checks those that it is given, and shares the points of a batch among threads; how a range
of points is computed is the target's.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.tape import Tape

__all__ = ["DTYPES", "Call", "Kernel", "Segment", "check_segments"]

#: What a kernel is called with: one point, or a batch of them in C order.
Call = Literal["point", "batch"]

DTYPES: Final = ("float64", "float32")
#: A thread is not woken up for fewer points than this.
FEWEST_POINTS: Final = 64
#: Result arrays start at a multiple of this: a cache line, so that no vector that is stored straddles two.
ALIGNMENT: Final = 64
#: For fewer entries that costs more time than it saves.
WORTH_ALIGNING: Final = 4096


@dataclass(frozen=True, slots=True)
class Segment:
    """One result array of a kernel, such as the values, or the Jacobian in C order.

    Args:
        length: entries a point.
        outputs: positions in the tape's outputs.
        positions: where in the array's row each of them goes; all other entries are structural zeros.
        name: of the array in emitted source.

    Raises:
        ArgumentError: if a position is out of range or given twice.
    """

    length: int
    outputs: tuple[int, ...]
    positions: tuple[int, ...]
    name: str = "result"

    def __post_init__(self) -> None:
        if len(self.outputs) != len(self.positions):
            raise ArgumentError(
                f"a segment has {len(self.outputs)} outputs and {len(self.positions)} positions; expected as many"
            )
        if len(set(self.positions)) != len(self.positions):
            raise ArgumentError("a segment gives two outputs the same position")
        if any(not 0 <= position < self.length for position in self.positions):
            raise ArgumentError(f"a segment of length {self.length} has a position outside 0 … {self.length - 1}")


def check_segments(tape: Tape, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments, or `ArgumentError` if one names an output that the tape does not have."""
    for segment in segments:
        for output in segment.outputs:
            if not 0 <= output < len(tape.outputs):
                raise ArgumentError(f"a segment names output {output}; the tape has {len(tape.outputs)}")
    return tuple(segments)


class Kernel(ABC):
    """Compiled program: inputs of a point → one row in each result array.

    Attributes:
        inputs: numbers a point.
        segments: the result arrays.
        dtype: of points and results.
        source: what was compiled, in the target's language.
        seconds: time that writing the source took, and compiling it.
    """

    inputs: int
    segments: tuple[Segment, ...]
    dtype: np.dtype[Any]
    source: str
    seconds: dict[str, float]

    def prepare(self, call: Call) -> None:
        """Do now what the first call of this kind would do: targets compile when they have to."""
        return

    @abstractmethod
    def __call__(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: array of shape (inputs,) → one array of shape (length,) for each segment."""

    def attempt(self, X: NDArray[Any], out: NDArray[Any]) -> bool:
        """Compute a batch in C order on this thread, if there is one segment, and nothing to be checked in Python.

        Args:
            X, out: arrays whose first axis are the points.

        Returns:
            Whether the results are there; if not, nothing was written.
        """
        return False

    @abstractmethod
    def run(
        self,
        X: NDArray[Any],
        out: tuple[NDArray[Any], ...],
        first: int,
        last: int,
        transposed: bool,
        zeroed: bool,
    ) -> None:
        """Compute points first … last-1 of a batch; the arrays have been checked."""

    def batch(
        self,
        X: NDArray[Any],
        out: tuple[NDArray[Any], ...] | None = None,
        threads: int = 1,
        transposed: bool = False,
        zeroed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        """Results at many points, the GIL released where the target allows it.

        Args:
            X: points, of shape (points, inputs), or (inputs, points) if `transposed`; C-contiguous, of the kernel's
                dtype.
            out: arrays to write to, (points, length) or (length, points) for each segment; none may overlap
                another, or X.
            threads: how many threads share the points.
            transposed: points run along the last axis.
            zeroed: the structural zeros of `out` hold zeros already and are not written again.

        Returns:
            One array for each segment: `out` if given.

        Raises:
            ArgumentError: for an array of the wrong shape, dtype or memory order.
        """
        _check(X, 2, self.dtype, "the points", writable=False)
        count, inputs = X.shape[::-1] if transposed else X.shape
        if inputs != self.inputs:
            raise ArgumentError(f"points of shape {X.shape} hold {inputs} numbers each; the kernel takes {self.inputs}")
        if out is None:
            out, zeroed = self.allocate(count, transposed), False
        else:
            self._check_out(X, out, count, transposed)
        if count:
            self._share(X, out, count, threads, transposed, zeroed)
        return out

    def allocate(self, count: int, transposed: bool) -> tuple[NDArray[Any], ...]:
        """Uninitialised result arrays for a batch of `count` points."""
        return tuple(
            _aligned((segment.length, count) if transposed else (count, segment.length), self.dtype)
            for segment in self.segments
        )

    def _check_out(self, X: NDArray[Any], out: tuple[NDArray[Any], ...], count: int, transposed: bool) -> None:
        if len(out) != len(self.segments):
            raise ArgumentError(f"{len(out)} arrays to write to were given, the kernel has {len(self.segments)}")
        for array, segment in zip(out, self.segments, strict=True):
            _check(array, 2, self.dtype, "an array to write to", writable=True)
            shape = (segment.length, count) if transposed else (count, segment.length)
            if array.shape != shape:
                raise ArgumentError(f"an array to write to has shape {array.shape}; expected {shape}")
        if any(np.may_share_memory(a, b) for a, b in combinations((X, *out), 2)):
            raise ArgumentError("an array to write to overlaps another one, or the points; expected memory of its own")

    def _share(
        self,
        X: NDArray[Any],
        out: tuple[NDArray[Any], ...],
        count: int,
        threads: int,
        transposed: bool,
        zeroed: bool,
    ) -> None:
        parts = min(threads, -(-count // FEWEST_POINTS))
        if parts <= 1:
            self.run(X, out, 0, count, transposed, zeroed)
            return
        # whole cache lines of points each, so that two threads never write to the same one
        step = -(-count // parts)
        step += -step % FEWEST_POINTS
        starts = range(step, count, step)
        waiting = [
            _pool().submit(self.run, X, out, start, min(start + step, count), transposed, zeroed) for start in starts
        ]
        self.run(X, out, 0, min(step, count), transposed, zeroed)
        for future in waiting:
            future.result()


def _check(array: Any, axes: int, dtype: np.dtype[Any], what: str, *, writable: bool) -> None:
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{what}: {type(array).__name__} given, expected a numpy.ndarray")
    if array.dtype != dtype or array.ndim != axes:
        raise ArgumentError(f"{what}: {array.ndim} axes of {array.dtype} given, expected {axes} axes of {dtype}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned and (flags.writeable or not writable)):
        raise ArgumentError(f"{what}: expected C-contiguous{' and writable' if writable else ''} memory")


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Uninitialised array that starts at a cache line if it is large; NumPy's own start 16 bytes after one."""
    entries = shape[0] * shape[1]
    if entries < WORTH_ALIGNING:
        return np.empty(shape, dtype)
    spare = ALIGNMENT // dtype.itemsize
    memory = np.empty(entries + spare, dtype)
    start = -(memory.__array_interface__["data"][0] // dtype.itemsize) % spare
    return memory[start : start + entries].reshape(shape)


_POOL: list[ThreadPoolExecutor] = []


def _pool() -> ThreadPoolExecutor:
    if not _POOL:
        _POOL.append(ThreadPoolExecutor(os.cpu_count() or 1, "accumulus"))
    return _POOL[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.clear)  # threads do not survive a fork
