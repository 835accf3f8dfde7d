"""What every target makes: a kernel, which maps points to result arrays, one for each segment.

A kernel takes each argument as an array of its own, which is read where it lies. It allocates results, checks those
that it is given, and divides the points of a batch among threads; how a range of points is computed is the target's.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.tape.live import time_of
from accumulus.tape.operations import SECONDS
from accumulus.tape.tape import Tape

__all__ = ["DTYPES", "Call", "Kernel", "Segment", "Shape", "aligned", "check_arguments", "check_segments", "pool"]

Shape = tuple[int, ...]

#: What a kernel is called with: one point, a batch of them in C order, or a transposed batch.
Call = Literal["point", "batch", "transposed"]

DTYPES: Final = ("float64", "float32")
#: Threads take whole multiples of so many points.
FEWEST_POINTS: Final = 64
#: Seconds of work for which another thread is worth it: waking it up takes up to 80 microseconds by itself.
MINIMUM_WORK: Final = 2e-4
#: Seconds to load or store an entry of an argument or a result, roughly.
MOVING: Final = 1e-10
#: Seconds that a thread computes points without a look at whether it was interrupted, roughly.
SLICE: Final = 0.1
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


def check_arguments(tape: Tape, arguments: Sequence[Shape] | None) -> tuple[Shape, ...]:
    """Shapes of the arguments that the tape's inputs are, in order and in C order; by default one row of them all.

    Raises:
        ArgumentError: if they do not hold as many entries as the tape has inputs.
    """
    shapes = ((tape.inputs,),) if arguments is None else tuple(map(tuple, arguments))
    entries = sum(map(math.prod, shapes))
    if entries != tape.inputs:
        raise ArgumentError(f"arguments of shapes {shapes} have {entries} entries; the tape has {tape.inputs} inputs")
    return shapes


class Kernel(ABC):
    """Compiled program: the arguments of a point → one row in each result array.

    In a batch, arguments have an axis of points in front, or behind all others if the batch is transposed. Those that
    are the same at all points, the *shared* ones, have none.

    Attributes:
        arguments: shape of each argument at one point.
        segments: the result arrays.
        dtype: of points and results.
        source: the emitted program, in the target's language.
        seconds: time that emitting the source took ("emit"), compiling it ("compile"), and, for targets that cache
            code, taking it from there ("load").
        lanes: how many points of a batch one vector instruction takes, if the target knows.
    """

    arguments: tuple[Shape, ...]
    segments: tuple[Segment, ...]
    dtype: np.dtype[Any]
    source: str
    seconds: dict[str, float]
    lanes: int | None = None
    _tape: Tape

    @property
    def from_cache(self) -> bool:
        """Whether its code so far was taken from the cache."""
        return self.seconds.get("load", 0.0) > 0 and not self.seconds["compile"]

    @cached_property
    def point_seconds(self) -> float:
        """How long a point of a batch takes, by typical times of operations and entries; right within a few times."""
        entries = self._tape.inputs + sum(segment.length for segment in self.segments)
        return SECONDS * time_of(self._tape) + MOVING * entries

    @cached_property
    def most_points(self) -> int:
        """How many points are computed at a time, so that Ctrl-C is heard in between; whole cache lines of them."""
        return max(1, int(SLICE / FEWEST_POINTS / max(self.point_seconds, MOVING))) * FEWEST_POINTS

    def threads_for(self, count: int, threads: int) -> int:
        """How many threads a batch of so many points is worth, of those that there are."""
        if threads == 1:
            return 1
        return max(1, min(threads, -(-count // FEWEST_POINTS), int(count * self.point_seconds / MINIMUM_WORK)))

    def prepare(self, call: Call, shared: Sequence[bool] = ()) -> None:
        """Compile now the code that the first call of this kind would compile."""
        return

    def point(self) -> Callable[..., Any] | None:
        """A compiled function of arguments and result arrays, for quick calls at one point; None if there is none.

        It takes arrays, and numbers for arguments of shape (). It returns None, or NotImplemented if the
        arguments have to be checked or converted in Python; then nothing was stored.
        """
        return None

    @abstractmethod
    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point: an array of its shape for each argument → one of shape (length,) for each segment."""

    def _point(self, x: Sequence[Any]) -> list[NDArray[Any]]:
        """The arguments of one point as arrays of the kernel's dtype, or `ArgumentError` for a wrong shape."""
        given = [np.require(entry, self.dtype, ["C", "A", "E"]) for entry in x]
        if tuple(entry.shape for entry in given) != self.arguments:
            shapes = ", ".join(str(entry.shape) for entry in given)
            expected = ", ".join(map(str, self.arguments))
            raise ArgumentError(f"a point of arguments of shapes {shapes} was given; expected {expected}")
        return given

    def many(self, shared: tuple[bool, ...], transposed: bool) -> Callable[..., Any] | None:
        """A compiled function of arguments and result arrays, for quick batches on one thread; None if there is none.

        It takes arrays whose first axis are the points, or the last one if `transposed`, and numbers for arguments of
        shape () that are shared. It returns None, or NotImplemented if the arguments have to be checked or
        converted in Python; then nothing was stored.
        """
        return None

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
        """Compute points first … last-1 of a batch, here one after the other; the arrays have been checked.

        Args:
            shared: as for `batch`; none if empty.
        """
        del zeroed  # every point is written as a whole
        alike = shared or (False,) * len(X)
        for point in range(first, last):
            at = (..., point) if transposed else point
            results = self(*(x if same else x[at] for x, same in zip(X, alike, strict=True)))
            for array, result in zip(out, results, strict=True):
                array[at] = result

    def batch(
        self,
        *X: NDArray[Any],
        shared: Sequence[bool] = (),
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
        transposed: bool = False,
        zeroed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        """Results at many points, the GIL released where the target allows it.

        Args:
            X: arguments, of shape (points, *shape at one point), or (*shape, points) if `transposed`; C-contiguous, of
                the kernel's dtype.
            shared: which arguments are the same at all points, and have no axis of them; by default none.
            out: arrays to write to, (points, length) or (length, points) for each segment; none may overlap
                another, or an argument.
            threads: how many threads share the points.
            transposed: points run along the last axis.
            zeroed: the structural zeros of `out` hold zeros already and are not written again.

        Returns:
            One array for each segment: `out` if given.

        Raises:
            ArgumentError: for an array of the wrong shape, dtype or memory order.
        """
        alike = tuple(map(bool, shared)) or (False,) * len(self.arguments)
        count = self._points(X, alike, transposed)
        if out is None:
            arrays, zeroed = self.allocate(count, transposed), False
        else:
            arrays = self._check_out(X, tuple(out), count, transposed)
        if count:
            self._divide(X, arrays, count, threads, transposed, zeroed, alike)
        return arrays

    def _points(self, X: Sequence[NDArray[Any]], shared: tuple[bool, ...], transposed: bool) -> int:
        """How many points a batch has."""
        if not len(X) == len(shared) == len(self.arguments):
            raise ArgumentError(
                f"{len(X)} arguments were given, {len(shared)} of them marked as shared or not; the kernel takes "
                f"{len(self.arguments)}"
            )
        count: int | None = None
        for k, (x, shape, is_shared) in enumerate(zip(X, self.arguments, shared, strict=True)):
            what = f"argument {k} of the kernel"
            _check(x, self.dtype, what, writable=False)
            if is_shared:
                expected = shape
            else:
                if count is None and x.ndim:
                    count = x.shape[-1 if transposed else 0]
                points = 0 if count is None else count
                expected = (*shape, points) if transposed else (points, *shape)
            if x.shape != expected:
                raise ArgumentError(f"{what} has shape {x.shape}; expected {expected}")
        if count is None:
            raise ArgumentError("all arguments are shared; expected at least one that has an axis of points")
        return count

    def allocate(self, count: int, transposed: bool) -> tuple[NDArray[Any], ...]:
        """Uninitialised result arrays for a batch of `count` points."""
        return tuple(
            aligned((segment.length, count) if transposed else (count, segment.length), self.dtype)
            for segment in self.segments
        )

    def _check_out(
        self, X: Sequence[NDArray[Any]], out: tuple[NDArray[Any], ...], count: int, transposed: bool
    ) -> tuple[NDArray[Any], ...]:
        if len(out) != len(self.segments):
            raise ArgumentError(f"{len(out)} arrays to write to were given, the kernel has {len(self.segments)}")
        for array, segment in zip(out, self.segments, strict=True):
            _check(array, self.dtype, "an array to write to", writable=True)
            shape = (segment.length, count) if transposed else (count, segment.length)
            if array.shape != shape:
                raise ArgumentError(f"an array to write to has shape {array.shape}; expected {shape}")
        if any(np.may_share_memory(a, b) for a, b in (*product(X, out), *combinations(out, 2))):
            raise ArgumentError("an array to write to overlaps another one, or the points; expected memory of its own")
        return out

    def _divide(
        self,
        X: Sequence[NDArray[Any]],
        out: tuple[NDArray[Any], ...],
        count: int,
        threads: int,
        transposed: bool,
        zeroed: bool,
        shared: tuple[bool, ...],
    ) -> None:
        """Compute all points of a batch, divided among threads."""

        most = self.most_points
        interrupted = threading.Event()

        def run(first: int, last: int) -> None:
            for start in range(first, last, most):
                if not interrupted.is_set():
                    self.run(X, out, start, min(start + most, last), transposed, zeroed, shared)

        parts = self.threads_for(count, threads)
        # whole cache lines of points each, so that two threads never write to the same one
        step = -(-count // parts)
        step += -step % FEWEST_POINTS
        waiting = [pool().submit(run, start, min(start + step, count)) for start in range(step, count, step)]
        try:
            run(0, min(step, count))
            for future in waiting:
                future.result()
        except BaseException:  # nothing is written to the arrays any more when the call is over
            interrupted.set()
            wait(waiting)
            raise


def _check(array: Any, dtype: np.dtype[Any], what: str, *, writable: bool) -> None:
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{what}: {type(array).__name__} given, expected a numpy.ndarray")
    if array.dtype != dtype:
        raise ArgumentError(f"{what}: {array.dtype} given, expected {dtype}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned and (flags.writeable or not writable)):
        raise ArgumentError(f"{what}: expected C-contiguous{' and writable' if writable else ''} memory")


def aligned(shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Uninitialised array that starts at a cache line if it is large; NumPy's own start 16 bytes after one."""
    entries = math.prod(shape)
    if entries < WORTH_ALIGNING:
        return np.empty(shape, dtype)
    spare = ALIGNMENT // dtype.itemsize
    memory = np.empty(entries + spare, dtype)
    start = -(memory.__array_interface__["data"][0] // dtype.itemsize) % spare
    return memory[start : start + entries].reshape(shape)


_POOL: list[ThreadPoolExecutor] = []


def pool() -> ThreadPoolExecutor:
    """Threads that share points, or parts of one; what they are given waits for nothing else in it."""
    if not _POOL:
        _POOL.append(ThreadPoolExecutor(os.cpu_count() or 1, "accumulus"))
    return _POOL[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.clear)  # threads do not survive a fork
