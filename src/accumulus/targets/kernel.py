"""Kernels of all targets: compiled code that maps points to result arrays, one for each segment.

A kernel reads each argument in place, from its own array. It allocates results or checks given ones, and divides the
points of a batch among threads. A target computes one point, and overrides what it can do faster: a range of points,
points in lanes, calls in turn, functions for fast calls. All this is the same for straight lines and for loops.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.memory import installed
from accumulus.tape.columns import Range, column
from accumulus.tape.interpreter import evaluate
from accumulus.tape.live import time_of
from accumulus.tape.operations import SECONDS

if TYPE_CHECKING:
    from accumulus.tape.fusion import Map

Shape = tuple[int, ...]
T = TypeVar("T")
Floats = NDArray[np.float64]
#: Positions of outputs, or places in an array.
Positions = NDArray[np.intp] | slice

#: How a kernel is called: with one point, a batch of points in C order, or a transposed batch.
Call = Literal["point", "batch", "transposed"]

DTYPES: Final = ("float64", "float32")
#: The points of a thread are a multiple of this number, unless they take long. A larger one leaves threads idle in
#: small batches, a smaller one lets two threads write to one cache line.
FEWEST_POINTS: Final = 64
#: Least seconds of work for another thread: waking it up alone takes up to 80 microseconds. With less, threads cost
#: more than they save; with more, cores stay idle.
MINIMUM_WORK: Final = 2e-4
#: Approximate seconds to load or store an entry of an argument or a result. A larger estimate starts threads for too
#: little work, a smaller one leaves cores idle where results are many and operations few.
MOVING: Final = 1e-10
#: Approximate seconds for which a thread computes points before it checks for an interruption. Longer slices delay
#: Ctrl-C, shorter ones make more calls.
SLICE: Final = 0.1
#: Result arrays start at a multiple of this number of bytes, a cache line, so that no stored vector straddles two.
ALIGNMENT: Final = 64
#: Least number of entries for which the alignment saves more time than it costs: a smaller one adds its cost to calls
#: at single points, a larger one leaves stores that straddle cache lines.
WORTH_ALIGNING: Final = 4096
#: Largest number of entries of a result for which compiled code makes the array, not at a cache line. Batches took 0.3
#: to 0.95 of the time up to here; memory of larger ones is kept, which saves more.
MOST_MADE: Final = 1 << 20
#: Least bytes of a result whose memory is kept; most bytes of all that is kept, a part of the machine's memory; and
#: most pieces. The C library keeps smaller ones; larger ones, and more, would take memory that other programs need.
FEWEST_KEPT, MOST_KEPT, PIECES = 1 << 20, max(1 << 28, (installed() or 0) // 32), 8
#: Largest integer up to which all integers are doubles.
EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Segment:
    """One result array of a kernel, such as the values, or the Jacobian in C order.

    Args:
        length: entries per point.
        outputs: positions in the tape's outputs: a slice, or integers.
        positions: position of each of these in the array's row, likewise; all other entries are structural zeros.
        name: name of the array in emitted source.

    Consecutive positions are stored as a slice, others as an array.

    Raises:
        ArgumentError: if outputs and positions differ in number, or a position is out of range or repeats.
    """

    length: int
    outputs: Positions
    positions: Positions
    name: str = "result"

    def __init__(
        self,
        length: int,
        outputs: Positions | Sequence[int],
        positions: Positions | Sequence[int],
        name: str = "result",
    ) -> None:
        chosen, places = as_slice(outputs), as_slice(positions)
        for attribute, value in (("length", length), ("outputs", chosen), ("positions", places), ("name", name)):
            object.__setattr__(self, attribute, value)
        counts = [each.stop - each.start if isinstance(each, slice) else len(each) for each in (chosen, places)]
        if counts[0] != counts[1]:
            raise ArgumentError(f"a segment has {counts[0]} outputs and {counts[1]} positions; expected as many")
        if not counts[0]:
            return
        if isinstance(places, slice):
            ends = places.start, places.stop - 1
        else:
            ends = int(places.min()), int(places.max())
            if (np.diff(places) <= 0).any() and len(np.unique(places)) < len(places):
                raise ArgumentError("a segment gives two outputs the same position")
        if not 0 <= ends[0] <= ends[1] < length:
            raise ArgumentError(f"a segment of length {length} has a position outside 0 … {length - 1}")

    @property
    def is_filled(self) -> bool:
        """True if outputs are consecutive in the array, without gaps."""
        return isinstance(self.positions, slice) and self.positions == slice(0, self.length)

    @property
    def count(self) -> int:
        """Number of entries that are not structural zeros."""
        return len(indices(self.positions))

    def pairs(self) -> list[tuple[int, int]]:
        """Return each output and its position."""
        return list(zip(indices(self.outputs).tolist(), indices(self.positions).tolist(), strict=True))


def as_slice(positions: Positions | Sequence[int]) -> Positions:
    """Return consecutive positions as a slice; others as an array."""
    if isinstance(positions, slice):
        return positions
    numbers = np.asarray(positions, np.intp)
    compact = column(numbers)
    if isinstance(compact, Range) and (compact.step == 1 or compact.count < 2):
        return slice(compact.start, compact.start + compact.count)
    return numbers


def indices(positions: Positions) -> NDArray[np.intp]:
    """Return positions as an array."""
    return np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions


@dataclass(frozen=True, eq=False)
class Unit:
    """A program as a target compiles it.

    Attributes:
        tape: operations in a straight line, or blocks of them.
        segments: the result arrays, and the position of each output in them.
        dtype: dtype of points and results.
        arguments: shapes of the arrays whose entries are the tape's inputs, in order and in C order; one row of all
            inputs by default.
        exact: references of operations that must be rounded separately.
        cache: if True, machine code is stored in the cache on disk, and loaded from it.
        maps: for blocks, the bodies in order (`accumulus.tape.fusion`).
        compact: if True, C is written for the smallest machine code.
        threads: number of threads that may share the instances of loops at one point.

    Raises:
        ArgumentError: if the arguments do not have as many entries as the tape has inputs.
    """

    tape: Any
    segments: Sequence[Segment]
    dtype: str = "float64"
    arguments: Sequence[Shape] | None = None
    exact: frozenset[int] = frozenset()
    cache: bool = False
    maps: Sequence[Map] | None = None
    compact: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "exact", frozenset(self.exact))
        object.__setattr__(self, "arguments", self.shapes)
        entries = sum(map(math.prod, self.shapes))
        if entries != self.tape.inputs:
            raise ArgumentError(
                f"arguments of shapes {self.shapes} have {entries} entries; the tape has {self.tape.inputs} inputs"
            )

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the arguments at one point."""
        return ((self.tape.inputs,),) if self.arguments is None else tuple(map(tuple, self.arguments))

    @property
    def lengths(self) -> list[int]:
        """Number of entries of each result array at one point."""
        return [segment.length for segment in self.segments]

    @property
    def operations(self) -> int:
        """Number of operations of one call, over all instances of loops."""
        return int(self.tape.operations) if self.maps is None else self._summed(lambda body: body.operations)

    @property
    def time(self) -> int:
        """Time of the operations of one call, in units of an addition."""
        return time_of(self.tape) if self.maps is None else self._summed(time_of)

    def _summed(self, of_body: Callable[[Any], int]) -> int:
        """Return the sum of a number of each body over all instances, and the operations between arrays."""
        assert self.maps is not None
        return sum(
            each.count * of_body(each.body) if each.is_body else self.tape.blocks[each.blocks[0]].operations
            for each in self.maps
        )


class Batch(NamedTuple):
    """The checked arrays of a batch; a tuple, which takes less time to make than a dataclass.

    Attributes:
        X: the arguments.
        out: the arrays to write to.
        shared: for each argument, True if all points share it, so that it has no axis of points.
        transposed: True if points are on the last axis instead of the first.
        zeroed: True if the structural zeros of `out` are already zero.
    """

    X: Sequence[NDArray[Any]]
    out: Sequence[NDArray[Any]]
    shared: tuple[bool, ...]
    transposed: bool = False
    zeroed: bool = False

    @property
    def points(self) -> int:
        """Number of points."""
        count: int = self.X[self.shared.index(False)].shape[-1 if self.transposed else 0]
        return count

    def at(self, points: int | slice) -> Any:
        """Return the index of points in an array with an axis of points."""
        return (..., points) if self.transposed else points

    def arguments(self, points: int | slice) -> list[NDArray[Any]]:
        """Return the arguments at some points."""
        at = self.at(points)
        return [x if same else x[at] for x, same in zip(self.X, self.shared, strict=True)]

    def store(self, points: slice, columns: Sequence[NDArray[Any]]) -> None:
        """Write results of some points, whose arrays have points on the last axis."""
        for array, result in zip(self.out, columns, strict=True):
            array[self.at(points)] = result if self.transposed else result.T


@dataclass(frozen=True, slots=True, eq=False)
class CallRows:
    """Rows of an array that consecutive calls read or write.

    Attributes:
        array: C-contiguous array, (rows, numbers of a row), or (rows, numbers of a row, points in lanes).
        first: row of the first call.
        step: distance to the row of the next call; 0 if all calls have the same row.
        adds: True if results are added to those in the row.
        zeroed: True if the structural zeros of results are zero before.
    """

    array: Floats
    first: int = 0
    step: int = 1
    adds: bool = False
    zeroed: bool = False

    @property
    def points(self) -> Shape:
        """Number of points in lanes, as a shape; () for a single point."""
        return self.array.shape[2:]

    def at(self, call: int) -> Floats:
        """Return the row of a call."""
        row: Floats = self.array[self.first + self.step * call]
        return row


class Made(NamedTuple):
    """Results for which arrays are made, or taken from the caller, in a call.

    Attributes:
        shapes: their shapes at one point.
        as_numbers: if True, results of shape () are returned as numbers.
        in_tuple: if True, a single result is returned in a tuple, as several are.
        guarded: if True, there is a last one, which is not returned: 0 where the others are invalid.
        points: 0 at one point; 1 for a batch with points on the first axis, 2 for the last one.
    """

    shapes: Sequence[Shape]
    as_numbers: bool = False
    in_tuple: bool = False
    guarded: bool = False
    points: int = 0


class UsualCall(NamedTuple):
    """The calls of a batch that compiled code takes.

    Attributes:
        leading: position of an argument with an axis of points.
        axes: number of its axes.
        most: number of points that are too many for new results.
        most_given: number of points that are too many for results that the caller passes.
        in_axes: the very object that the caller passes.
        transposed: likewise.
        alone: True if one thread is used by default.
    """

    leading: int
    axes: int
    most: int
    most_given: int
    in_axes: object
    transposed: bool
    alone: bool


class Kernel(ABC):
    """Compiled program that maps the arguments of a point to one row in each result array.

    In a batch, arguments have an axis of points in front, or behind all others if the batch is transposed. *Shared*
    arguments are the same at all points, and have no such axis.

    Attributes:
        arguments: shape of each argument at one point.
        segments: the result arrays.
        dtype: dtype of points and results.
        source: the emitted program, in the target's language.
        seconds: time to emit the source ("emit"), to compile it ("compile"), and, for targets that cache code, to load
            it from the cache ("load").
        lanes: number of points of a batch in one vector instruction, if the target knows.
        fills_lanes: True if `in_lanes` computes several points together.
        fewest_points: the points of a thread are a multiple of this number, except in the last thread.
        most_threads: largest number of threads among which points may be divided; None for no limit.
    """

    arguments: tuple[Shape, ...]
    segments: tuple[Segment, ...]
    dtype: np.dtype[Any]
    source: str
    seconds: dict[str, float]
    lanes: int | None = None
    fills_lanes: bool = False
    fewest_points: int = FEWEST_POINTS
    most_threads: int | None = None

    def __init__(self, unit: Unit) -> None:
        self._unit, self._tape = unit, unit.tape
        self.arguments, self.segments, self.dtype = unit.shapes, tuple(unit.segments), np.dtype(unit.dtype)
        self.seconds = {"emit": 0.0, "compile": 0.0}

    def __reduce__(self) -> tuple[Any, ...]:
        # machine code is not pickled: the receiving machine compiles it
        return type(self), (self._unit,)

    @property
    def from_cache(self) -> bool:
        """True if its code so far was loaded from the cache."""
        return self.seconds.get("load", 0.0) > 0 and not self.seconds["compile"]

    @cached_property
    def point_seconds(self) -> float:
        """Approximate seconds per point of a batch, from typical times of operations and entries."""
        entries = self._tape.inputs + sum(segment.length for segment in self.segments)
        return float(SECONDS * self._unit.time + MOVING * entries)

    @cached_property
    def most_points(self) -> int:
        """Number of points computed between two checks for Ctrl-C: a multiple of `fewest_points`."""
        return max(1, int(SLICE / self.fewest_points / max(self.point_seconds, MOVING))) * self.fewest_points

    def threads_for(self, count: int, threads: int) -> int:
        """Return the number of threads that pay for a batch of `count` points, at most `threads`."""
        if threads == 1:
            return 1
        most = min(threads, self.most_threads or threads, -(-count // self.fewest_points))
        return max(1, min(most, int(count * self.point_seconds / MINIMUM_WORK)))

    def prepare(self, call: Call, shared: Sequence[bool] = ()) -> None:
        """Compile in advance the code that the first call of this kind needs."""
        return

    @abstractmethod
    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point.

        Args:
            arguments: arrays of the kernel's dtype, C-contiguous, of the shapes of its arguments.
            results: an array of shape (length,) for each segment; all entries are written.
        """

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Compute the results at one point: an array (length,) for each segment, from an array for each argument."""
        results = tuple(aligned((segment.length,), self.dtype) for segment in self.segments)
        self.compute(self._point(x), results)
        return results

    def _point(self, x: Sequence[Any]) -> list[NDArray[Any]]:
        """Return the arguments of a point as arrays of the kernel's dtype; raise `ArgumentError` for a wrong shape."""
        arrays = [np.require(entry, self.dtype, ["C", "A", "E"]) for entry in x]
        if tuple(entry.shape for entry in arrays) != self.arguments:
            shapes = ", ".join(str(entry.shape) for entry in arrays)
            expected = ", ".join(map(str, self.arguments))
            raise ArgumentError(f"a point of arguments of shapes {shapes} was given; expected {expected}")
        return arrays

    def point(self) -> Callable[..., Any]:
        """Return a function of arguments and result arrays for calls at one point.

        The function takes arrays, and numbers for arguments of shape (). It returns None, or NotImplemented if the
        arguments have to be checked or converted in Python; then it has stored nothing. It checks that results overlap
        neither an argument nor each other if None follows them; the caller has to know it otherwise.
        """
        shapes, lengths, fits = self.arguments, self._unit.lengths, self._fits
        count = len(shapes)

        def compute(*arrays: Any) -> Any:
            results = arrays[count:]
            if len(results) == len(lengths) + 1 and results[-1] is None:
                results = results[:-1]
                if not all(map(fits, results)) or share_memory(arrays[:count], results):
                    return NotImplemented
            if len(results) != len(lengths) or [getattr(each, "size", -1) for each in results] != lengths:
                return NotImplemented
            given = []
            for array, shape in zip(arrays[:count], shapes, strict=True):
                x = self._narrowed(array) if _is_number(array) else array
                if type(x) is not np.ndarray or x.shape != shape:
                    return NotImplemented
                if not fits(x, writable=False):
                    if x.dtype.kind not in "iuf":
                        return NotImplemented
                    x = self._narrowed(x)  # indices, for example
                given.append(x)
            self.compute(given, [result.reshape(-1) for result in results])
            return None

        return compute

    def _narrowed(self, x: Any) -> NDArray[Any]:
        """Return an array of the kernel's dtype; values beyond its range become infinite, as on the slow path."""
        with np.errstate(over="ignore"):
            return np.require(x, self.dtype, ["C", "A"])

    def _fits(self, array: Any, *, writable: bool = True) -> bool:
        """Return True for an array that compiled code can read, and write to."""
        if type(array) is not np.ndarray or array.dtype != self.dtype:
            return False
        flags = array.flags
        return flags.c_contiguous and flags.aligned and (flags.writeable or not writable)

    def many(self, shared: tuple[bool, ...], transposed: bool) -> Callable[..., Any] | None:
        """Return a function of arguments and result arrays for batches on one thread; None if there is none.

        The function takes arrays with points on the first axis, or on the last one if `transposed`, and numbers for
        shared arguments of shape (). It returns None, or NotImplemented if the arguments have to be checked or
        converted in Python; then it has stored nothing. If it returns Ellipsis, the caller passes the results to
        the function of `misaligned`.
        """
        if transposed:
            return None
        shapes, lengths, fits, leading = self.arguments, self._unit.lengths, self._fits, shared.index(False)

        def compute(*arrays: Any) -> Any:
            given = [self._narrowed(x) if _is_number(x) else x for x in arrays[: len(shapes)]]
            results = arrays[len(shapes) :]
            if len(results) != len(lengths) or not all(map(fits, results)):
                return NotImplemented
            if not all(fits(x, writable=False) for x in given):
                return NotImplemented
            count = len(given[leading]) if given[leading].ndim else -1
            for x, shape, same in zip(given, shapes, shared, strict=True):
                if x.shape != (shape if same else (count, *shape)):
                    return NotImplemented
            for array, length in zip(results, lengths, strict=True):
                if not array.ndim or len(array) != count or array.size != count * length:
                    return NotImplemented
            if share_memory(given, results):
                return NotImplemented
            if count:
                out = [array.reshape(count, length) for array, length in zip(results, lengths, strict=True)]
                batch = Batch(given, out, shared)
                if count > self.most_points:  # a longer call could not be interrupted
                    self._divide(batch, count, 1)
                else:
                    self.run(batch, 0, count)
            return None

        return compute

    def making(self, compute: Callable[..., Any], made: Made) -> Callable[..., Any] | None:
        """Return a compiled function that makes arrays for the results and computes them; None if there is none.

        It takes the arguments, in a batch after the number of points. It returns the result, a tuple of several, or
        NotImplemented as `compute` does.

        Args:
            compute: the function of `point` or `many`, or one that calls it.
            made: the results.
        """
        return None

    def taking(
        self, compute: Callable[..., Any], made: Made, otherwise: Callable[..., Any], usual: UsualCall | None = None
    ) -> Callable[..., Any]:
        """Return a function of a tuple of arguments and `out`, compiled if possible, that returns as that of `making`.

        At one point `out` has the arrays for the results. In a batch it may be None, and `threads`, `in_axes` and
        `transposed` follow it.

        Args:
            compute: as for `making`.
            made: the results.
            otherwise: function that takes the same, and is called for everything that compiled code does not take.
            usual: for a batch, the calls that compiled code takes.
        """
        return otherwise

    def misaligned(self, shared: tuple[bool, ...], transposed: bool) -> Callable[[Sequence[NDArray[Any]]], None]:
        """Return a function of results that `many` has stored across vector boundaries; arguments as for `many`."""
        return lambda out: None

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch; by default, one after the other.

        Structural zeros may be written again even if the batch is `zeroed`.
        """
        rows = [np.empty(length, self.dtype) for length in self._unit.lengths] if batch.transposed else []
        for point in range(first, last):
            results = rows or [array[point] for array in batch.out]
            self.compute([*map(np.ascontiguousarray, batch.arguments(point))], results)
            for array, row in zip(batch.out, rows, strict=False):
                array[:, point] = row

    def in_lanes(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute points in lanes, on the last axis of arguments and results, if they fill lanes."""
        raise NotImplementedError

    def repeat(self, count: int, arguments: Sequence[CallRows], results: Sequence[CallRows]) -> None:
        """Make `count` calls in turn, each with its rows; a call may read what earlier calls have written.

        Args:
            count: number of calls.
            arguments: rows of each argument.
            results: rows for each segment.
        """
        made = [np.zeros(rows.array.shape[1:]) for rows in results]
        compute = self.in_lanes if arguments[0].points else self.compute
        for call in range(count):
            compute([rows.at(call) for rows in arguments], made)
            for rows, result in zip(results, made, strict=True):
                row = rows.at(call)
                row[:] = row + result if rows.adds else result

    def batch(
        self,
        *X: NDArray[Any],
        shared: Sequence[bool] = (),
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
        transposed: bool = False,
        zeroed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        """Compute the results at many points, without the GIL if the target allows it.

        Args:
            X: arguments, of shape (points, *shape at one point), or (*shape, points) if `transposed`; C-contiguous, of
                the kernel's dtype.
            shared: for each argument, True if all points share it, so that it has no axis of points; by default none.
            out: arrays to write to, (points, length) or (length, points) for each segment; none may overlap
                another, or an argument.
            threads: number of threads that share the points.
            transposed: if True, points are on the last axis.
            zeroed: if True, the structural zeros of `out` are already zero and are not written again.

        Returns:
            One array for each segment: `out` if given.

        Raises:
            ArgumentError: for an array of the wrong shape, dtype or memory order.
        """
        alike = tuple(map(bool, shared)) or (False,) * len(self.arguments)
        count = self.points_of(X, alike, transposed)
        if out is None:
            arrays, zeroed = self.allocate(count, transposed), False
        else:
            arrays = self._check_out(X, tuple(out), count, transposed)
        if count:
            self._divide(Batch(X, arrays, alike, transposed, zeroed), count, threads)
        return arrays

    def points_of(self, X: Sequence[NDArray[Any]], shared: tuple[bool, ...], transposed: bool) -> int:
        """Return the number of points of a batch; raise `ArgumentError` for arguments that it cannot take."""
        if not len(X) == len(shared) == len(self.arguments):
            raise ArgumentError(
                f"{len(X)} arguments were given, and {len(shared)} marks for shared ones; the kernel takes "
                f"{len(self.arguments)}"
            )
        count: int | None = None
        for k, (x, shape, is_shared) in enumerate(zip(X, self.arguments, shared, strict=True)):
            subject = f"argument {k} of the kernel"
            _check(x, self.dtype, subject, writable=False)
            if is_shared:
                expected = shape
            else:
                if count is None and x.ndim:
                    count = x.shape[-1 if transposed else 0]
                points = 0 if count is None else count
                expected = (*shape, points) if transposed else (points, *shape)
            if x.shape != expected:
                raise ArgumentError(f"{subject} has shape {x.shape}; expected {expected}")
        if count is None:
            raise ArgumentError("all arguments are shared; expected at least one that has an axis of points")
        return count

    def allocate(self, count: int, transposed: bool) -> tuple[NDArray[Any], ...]:
        """Return uninitialised result arrays for a batch of `count` points."""
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

    def _divide(self, batch: Batch, count: int, threads: int) -> None:
        """Compute all points of a batch, divided among threads."""

        most = self.most_points
        interrupted = threading.Event()

        def run(first: int, last: int) -> None:
            for start in range(first, last, most):
                if not interrupted.is_set():
                    self.run(batch, start, min(start + most, last))

        parts = self.threads_for(count, threads)
        # whole cache lines of points of straight lines, so that no two threads write to the same line
        step = -(-count // parts)
        step += -step % self.fewest_points
        waiting = [pool().submit(run, start, min(start + step, count)) for start in range(step, count, step)]
        try:
            run(0, min(step, count))
            for future in waiting:
                future.result()
        except BaseException:  # threads must not write to the arrays after the call has ended
            interrupted.set()
            wait(waiting)
            raise


class SourceKernel(Kernel):
    """Kernel of a target that writes source and then compiles it."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        start = time.perf_counter()
        self.source = self._emit()
        emitted = time.perf_counter()
        self._compile()
        self.seconds = {"emit": emitted - start, "compile": time.perf_counter() - emitted}

    @abstractmethod
    def _emit(self) -> str:
        """Return the source."""

    @abstractmethod
    def _compile(self) -> None:
        """Compile the source to the function that calls use."""


class InterpretedKernel(Kernel):
    """Kernel of loops for targets that have none: NumPy evaluates them block by block."""

    fewest_points = 1

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point; see `Kernel.compute`."""
        values = evaluate(self._tape, np.concatenate([entry.reshape(-1) for entry in arguments]))
        for segment, result in zip(self.segments, results, strict=True):
            if not segment.is_filled:
                result[:] = 0.0
            result[segment.positions] = values[segment.outputs]


def _is_number(x: object) -> bool:
    """Return True for a Python or NumPy float, and for an integer that is a double."""
    return type(x) in (float, np.float64) or (type(x) is int and -EXACT <= x <= EXACT)


def _check(array: Any, dtype: np.dtype[Any], subject: str, *, writable: bool) -> None:
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{subject}: {type(array).__name__} given, expected a numpy.ndarray")
    if array.dtype != dtype:
        raise ArgumentError(f"{subject}: {array.dtype} given, expected {dtype}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned and (flags.writeable or not writable)):
        raise ArgumentError(f"{subject}: expected C-contiguous{' and writable' if writable else ''} memory")


def share_memory(arguments: Sequence[Any], arrays: Sequence[NDArray[Any]]) -> bool:
    """Return True if an array to write to may overlap an argument or another such array."""
    others = [x for x in arguments if isinstance(x, np.ndarray)]
    for array in arrays:
        owns = array.base is None
        for x in others:
            if x is array or (not (owns and x.base is None) and np.may_share_memory(x, array)):
                return True  # arrays that own their memory do not overlap
        others.append(array)
    return False


def aligned(shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialised array that, if large, starts at a cache line; NumPy's own start 16 bytes after one."""
    entries = math.prod(shape)
    if entries < WORTH_ALIGNING:
        return np.empty(shape, dtype)
    size = entries * dtype.itemsize
    memory = _block(size + ALIGNMENT) if FEWEST_KEPT <= size <= MOST_KEPT else np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


#: Memory of large results, the last used last. What no array uses any more serves the next results: the system would
#: clear fresh pages first, which takes up to four times as long as computing them.
_BLOCKS: list[NDArray[np.uint8]] = []


def _taken(blocks: list[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], int]:
    """Remove the first block; return it, and its number of references."""
    block = blocks.pop(0)
    return block, sys.getrefcount(block)


#: Number of references to a block that no array uses.
_ALONE: Final = _taken([np.empty(0, np.uint8)])[1]


def _block(size: int) -> NDArray[np.uint8]:
    """Return memory of at least `size` bytes that no array uses; no other thread gets it as long as one does."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # numbers of references say less then
        return np.empty(size, np.uint8)
    block = None
    with suppress(IndexError):  # another thread may take the last one
        for _ in range(len(_BLOCKS)):
            kept, references = _taken(_BLOCKS)
            if references == _ALONE and size <= len(kept) <= 2 * size:
                block = kept
                break
            _BLOCKS.append(kept)
    block = np.empty(size, np.uint8) if block is None else block
    _BLOCKS.append(block)
    with suppress(IndexError):
        while len(_BLOCKS) > PIECES or sum(map(len, _BLOCKS)) > MOST_KEPT:
            _BLOCKS.pop(0)
    return block


def reused(unused: list[T], make: Callable[[], T]) -> T:
    """Return an object that no thread uses, or a new one if there is none."""
    try:
        return unused.pop()
    except IndexError:
        return make()


_POOL: list[ThreadPoolExecutor] = []


def pool() -> ThreadPoolExecutor:
    """Return the threads that share points, or parts of one; no task in the pool waits for another."""
    if not _POOL:
        _POOL.append(ThreadPoolExecutor(os.cpu_count() or 1, "accumulus"))
    return _POOL[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.clear)  # threads do not survive a fork
