"""Compiled code of a recording that decides on values: whether it holds at the points that it is given.

The kernel of such a program has one array more than it has results: 1 where all guards hold, else 0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CaseError
from accumulus.frontends.points import as_inputs, as_reals
from accumulus.frontends.recorder import Recording
from accumulus.tape.interpreter import outputs_at
from accumulus.targets import Kernel
from accumulus.targets.kernel import aligned

__all__ = ["GuardedKernel", "Points", "Ran", "Settle", "elsewhere", "truths"]


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a batch as a kernel takes them.

    Attributes:
        X: arrays with an axis of points in front, or behind if the batch is transposed; none where an array is shared.
        shared: which arrays are the same at all points.
        transposed: whether points run along the last axis.
        threads: that may share them.
    """

    X: Sequence[NDArray[Any]]
    shared: tuple[bool, ...]
    transposed: bool
    threads: int

    def some(self, which: NDArray[np.intp]) -> Points:
        """Some of the points."""
        X = [
            x if same else np.take(x, which, -1 if self.transposed else 0)
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return Points(X, self.shared, self.transposed, self.threads)

    def in_rows(self) -> Points:
        """The same with points along the first axis."""
        if not self.transposed:
            return self
        X = [
            x if same else np.ascontiguousarray(np.moveaxis(x, -1, 0))
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return Points(X, self.shared, False, self.threads)

    def between(self, first: int, last: int) -> Points:
        """The points from the first to the one before the last, where they run along the first axis."""
        X = [x if same else x[first:last] for x, same in zip(self.X, self.shared, strict=True)]
        return Points(X, self.shared, False, self.threads)

    def one(self, which: int) -> list[NDArray[Any]]:
        """The arrays at one point."""
        return [
            x if same else x[..., which] if self.transposed else x[which]
            for x, same in zip(self.X, self.shared, strict=True)
        ]

    def inputs(self, count: int) -> NDArray[np.float64]:
        """The inputs of the recording, (points, inputs)."""
        columns = [
            np.broadcast_to(x, (count, *x.shape)) if same else np.moveaxis(x, -1, 0) if self.transposed else x
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return np.concatenate([column.reshape(count, -1) for column in columns], axis=1, dtype=np.float64)

    def run(self, kernel: Kernel) -> tuple[NDArray[Any], ...]:
        """The arrays that a kernel makes of the points."""
        return kernel.batch(*self.X, shared=self.shared, threads=self.threads, transposed=self.transposed)


class Ran:
    """How often a program of a function that decides on values ran.

    Attributes:
        calls: at one point, where its guards held.
        points: of batches, which it computed.
    """

    __slots__ = ("calls", "points")

    def __init__(self) -> None:
        self.calls = self.points = 0


#: What is done about the points where guards fail: given the points, the results, and where all guards hold, (points,).
Settle = Callable[[Points, Sequence[NDArray[Any]], NDArray[Any]], None]


class GuardedKernel(Kernel):
    """A kernel that says where guards hold, as one that has results only.

    Args:
        kernel: its last array says so.
        settle: called after each batch.
        skips: whether it is quicker to leave all points to `settle`.
    """

    def __init__(self, kernel: Kernel, settle: Settle, skips: Callable[[], bool] = lambda: False) -> None:
        self._kernel, self._settle, self._skips = kernel, settle, skips
        self.arguments, self.segments, self.dtype = kernel.arguments, kernel.segments[:-1], kernel.dtype

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Results at one point."""
        arrays = self.batch(*(np.asarray(entry)[np.newaxis] for entry in x))
        return tuple(array[0] for array in arrays)

    def threads_for(self, count: int, threads: int) -> int:
        """As many as the kernel takes."""
        return self._kernel.threads_for(count, threads)

    def batch(
        self,
        *X: NDArray[Any],
        shared: Sequence[bool] = (),
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
        transposed: bool = False,
        zeroed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        """As `Kernel.batch`."""
        points = Points(X, tuple(map(bool, shared)) or (False,) * len(X), transposed, threads)
        count = self._points(X, points.shared, transposed)
        arrays = self.allocate(count, transposed) if out is None else tuple(out)
        holds = truths(count, transposed, self.dtype)
        if self._skips():
            holds[:] = 0.0
        else:
            out = [*arrays, holds]
            self._kernel.batch(*X, shared=points.shared, out=out, threads=threads, transposed=transposed, zeroed=zeroed)
        self._settle(points, arrays, holds.reshape(-1))
        return arrays


class _Memory(threading.local):
    """Memory for arrays that say where guards hold: new memory would take longer than they do."""

    entries: NDArray[np.uint8] = np.empty(0, np.uint8)


_MEMORY: Final = _Memory()


def truths(count: int, transposed: bool, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of one number a point, which this thread uses until it asks for another."""
    size = count * dtype.itemsize
    if len(_MEMORY.entries) < size:
        _MEMORY.entries = aligned((size,), np.dtype(np.uint8))
    return _MEMORY.entries[:size].view(dtype).reshape((1, count) if transposed else (count, 1))


def elsewhere(recording: Recording, name: str, arguments: Sequence[Any], where: str = "this point") -> CaseError:
    """The error for a point where a guard fails, which names the first that does.

    Args:
        arguments: at the point.
    """
    shapes = recording.argument_shapes
    inputs = as_inputs(as_reals(arguments, shapes), shapes)
    held = outputs_at(recording.tape, inputs[np.newaxis])[-len(recording.guards) :, 0]
    failed = np.flatnonzero(held == 0)
    first = recording.guards[int(failed[0])] if len(failed) else recording.guards[-1]
    return CaseError(
        f"{name} decides otherwise at {where} than where it was recorded: {first}. A program, and a trace, hold for "
        f"one case; what accumulus.jacobian({name}) returns has one for each that it meets"
    )
