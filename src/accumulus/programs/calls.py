"""Points where guards fail, results that are NaN, and calls that are bound to arrays.

The kernel of a recording that decides on values has one array more than there are results: 1 where all guards hold,
else 0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CaseError, NaNWarning
from accumulus.frontends.kinds import as_inputs, as_reals
from accumulus.frontends.location import numbered
from accumulus.frontends.recorder import Recording
from accumulus.frontends.written_out import warn
from accumulus.tape.interpreter import NUMBERS, outputs_at, values
from accumulus.tape.operations import OPERATIONS
from accumulus.targets import Kernel
from accumulus.targets.kernel import aligned

# Points where guards hold, and where they fail ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchPoints:
    """The points of a batch, as a kernel takes them."""

    # arrays with a leading axis of points, or a trailing one if the batch is transposed; shared arrays have no such
    # axis
    X: Sequence[NDArray[Any]]
    shared: tuple[bool, ...]  # for each array, True if all points share it
    transposed: bool  # True if points are on the last axis
    threads: int  # maximum number of threads

    def some(self, which: NDArray[np.intp]) -> BatchPoints:
        """Return the points at some positions."""
        X = [
            x if same else np.take(x, which, -1 if self.transposed else 0)
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return BatchPoints(X, self.shared, self.transposed, self.threads)

    def in_rows(self) -> BatchPoints:
        """Return the points with their axis first."""
        if not self.transposed:
            return self
        X = [
            x if same else np.ascontiguousarray(np.moveaxis(x, -1, 0))
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return BatchPoints(X, self.shared, False, self.threads)

    def between(self, first: int, last: int) -> BatchPoints:
        """Return the points from `first` to `last` (exclusive); their axis has to be the first."""
        X = [x if same else x[first:last] for x, same in zip(self.X, self.shared, strict=True)]
        return BatchPoints(X, self.shared, False, self.threads)

    def one(self, which: int) -> list[NDArray[Any]]:
        """Return the arrays at one point."""
        return [
            x if same else x[..., which] if self.transposed else x[which]
            for x, same in zip(self.X, self.shared, strict=True)
        ]

    def inputs(self, count: int) -> NDArray[np.float64]:
        """Return the inputs of the recording at all points, (points, inputs)."""
        columns = [
            np.broadcast_to(x, (count, *x.shape)) if same else np.moveaxis(x, -1, 0) if self.transposed else x
            for x, same in zip(self.X, self.shared, strict=True)
        ]
        return np.concatenate([column.reshape(count, -1) for column in columns], axis=1, dtype=np.float64)

    def run(self, kernel: Kernel) -> tuple[NDArray[Any], ...]:
        """Return the arrays that a kernel computes for the points."""
        return kernel.batch(*self.X, shared=self.shared, threads=self.threads, transposed=self.transposed)


class Ran:
    """Counts of the runs of a program whose function decides on values.

    Attributes:
        calls: number of calls at one point where its guards held.
        points: number of points of batches that it computed.
    """

    __slots__ = ("calls", "points")

    def __init__(self) -> None:
        self.calls = self.points = 0


#: Function that handles points where guards fail: of the points, the results, and the truth values of guards,
#: (points,).
Settle = Callable[[BatchPoints, Sequence[NDArray[Any]], NDArray[Any]], None]


#: Function that computes a batch, with the arguments and the results of `Kernel.batch`.
Compute = Callable[..., tuple[NDArray[Any], ...]]


def settled(kernel: Kernel, settle: Settle, skips: Callable[[], bool] = lambda: False) -> Compute:
    """Return a function like `kernel.batch`, without the array of guards, that also computes points where they fail.

    Args:
        kernel: kernel whose last array holds the truth values of the guards.
        settle: function that is called after each batch.
        skips: function that returns True if it is faster to leave all points to `settle`.
    """

    def batch(
        *X: NDArray[Any],
        shared: Sequence[bool] = (),
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
        transposed: bool = False,
    ) -> tuple[NDArray[Any], ...]:
        points = BatchPoints(X, tuple(map(bool, shared)) or (False,) * len(X), transposed, threads)
        count = kernel.points_of(X, points.shared, transposed)
        arrays = kernel.allocate(count, transposed)[:-1] if out is None else tuple(out)
        holds = _truths(count, transposed, kernel.dtype)
        if skips():
            holds[:] = 0.0
        else:
            kernel.batch(*X, shared=points.shared, out=[*arrays, holds], threads=threads, transposed=transposed)
        settle(points, arrays, holds.reshape(-1))
        return arrays

    return batch


class _Memory(threading.local):
    """Memory for truth values of guards, kept for each thread: allocating it would take longer than computing them."""

    entries: NDArray[np.uint8] = np.empty(0, np.uint8)


_MEMORY: Final = _Memory()


def _truths(count: int, transposed: bool, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of one number for each point, valid until this thread's next call."""
    size = count * dtype.itemsize
    if len(_MEMORY.entries) < size:
        _MEMORY.entries = aligned((size,), np.dtype(np.uint8))
    return _MEMORY.entries[:size].view(dtype).reshape((1, count) if transposed else (count, 1))


def where_guards_settle(
    compute: Callable[..., Any], settle: Settle, ran: Ran, shared: tuple[bool, ...], transposed: bool, dtype: Any
) -> Callable[..., Any]:
    """Return a function of a batch's arguments and results that also computes points where guards fail.

    Args:
        compute: compiled function of the arguments, the results, and the truth values of guards.
        settle: function that handles points where guards fail.
        ran: counter of points where all guards hold.
        shared: for each numeric argument, True if all points share it.
        transposed: if True, points are on the last axis.
        dtype: dtype of the truth values.
    """
    expected, leading = len(shared), shared.index(False)

    def call(*arrays: Any) -> Any:
        points = arrays[leading]
        count = points.shape[-1 if transposed else 0]
        holds = _truths(count, transposed, dtype)
        answer = compute(*arrays, holds)
        if answer is NotImplemented:
            return NotImplemented
        if not count or holds.min() > 0:
            ran.points += count
            return answer
        X = [np.asarray(x, dtype) for x in arrays[:expected]]
        results = [array.reshape((-1, count) if transposed else (count, -1)) for array in arrays[expected:]]
        settle(BatchPoints(X, shared, transposed, 1), results, holds.reshape(-1))
        return answer

    return call


def elsewhere(recording: Recording, name: str, arguments: Sequence[Any], where: str = "this point") -> CaseError:
    """Return the error for a point where a guard fails; it names the first failing guard.

    Args:
        recording: recording whose guard fails.
        name: name of the function, for messages.
        arguments: arguments at the point.
        where: description of the point, for the message.
    """
    shapes = recording.argument_shapes
    inputs = as_inputs(as_reals(arguments, shapes), shapes)
    held = outputs_at(recording.program, inputs[np.newaxis])[-len(recording.guards) :, 0]
    failed = np.flatnonzero(held == 0)
    first = recording.guards[int(failed[0])] if len(failed) else recording.guards[-1]
    return CaseError(
        f"{name} takes another branch at {where} than where it was recorded: {first}. A program or a trace holds for "
        f"one case; accumulus.jacobian({name}) compiles a program for each case that it meets"
    )


# Results that are NaN -------------------------------------------------------------------------------------------------


def warn_of_nan(program: Any, arrays: Sequence[NDArray[Any]], arguments: Sequence[Any], where: str) -> None:
    """Issue a `NaNWarning` if a whole array of results is NaN, except for zeros.

    Looking takes one pass over the arrays, so it is done once for each program, in its first call. There is no warning
    if the program calls a solver that returns NaN where it fails, since the user has asked for that.

    Args:
        program: the `CompiledProgram`.
        arrays: its results at one point, with a flat array for each segment.
        arguments: arguments of the program at that point.
        where: description of the call, for the message.
    """
    if any(getattr(each, "returns_nan", False) for each in getattr(program.tape, "calls", ())):
        return
    names = [
        name
        for name, array in zip(program.array_names, arrays, strict=False)
        if array.size and np.isnan(array.min()) and (np.isnan(array) | (array == 0.0)).all()
    ]
    if names:
        listed = " and ".join(names)
        is_or_are = "is" if len(names) == 1 else "are"
        warn(f"the {listed} of {program.name} {is_or_are} NaN {where}: {_origin(program, arguments)}", NaNWarning)


def _origin(program: Any, arguments: Sequence[Any]) -> str:
    """Return the cause of results that are NaN: an argument, the function itself, or its derivative at this point."""
    recording = program.recording
    shapes = recording.argument_shapes
    for k, (argument, shape) in enumerate(zip(as_reals(arguments, shapes), shapes, strict=True)):
        if shape is not None and len(where := np.argwhere(~np.isfinite(argument))):
            index = f" at index [{', '.join(map(str, where[0]))}]" if len(where[0]) else ""
            return f"{numbered(program.name, k)} is {np.asarray(argument)[tuple(where[0])]:g}{index}"
    inputs = as_inputs(as_reals(arguments, shapes), shapes)
    with np.errstate(all="ignore"):
        value = outputs_at(recording.program, inputs[np.newaxis])[: recording.results, 0]
        is_finite = not len(value) or bool(np.isfinite(value).all())
        first = _first_not_finite(program.tape.scalars if is_finite else recording.program.scalars, inputs)
    if not len(value):  # a recording from a file, without the function
        return f"it is undefined there{first}. Check the arguments"
    if is_finite:
        return (
            f"the function is finite there, but its derivative is undefined{first}, as that of a root or a norm is at "
            "0. Call it at another point, or add a small constant under the root"
        )
    return f"the function itself is not finite there{first}. Check the arguments, and where it divides or takes roots"


def _first_not_finite(tape: Any, inputs: NDArray[np.float64]) -> str:
    """Return the first operation of straight-line code that is not finite though its operands are, in parentheses."""
    if tape is None:
        return ""
    computed = values(tape, NUMBERS, inputs)
    for reference in range(tape.inputs, len(tape)):
        operands = [float(computed[each]) for each in tape.arguments(reference)]
        if not np.isfinite(computed[reference]) and np.isfinite(operands).all():
            listed = ", ".join(f"{each:g}" for each in operands)
            return f" ({OPERATIONS[tape.codes[reference]].name}({listed}) is {float(computed[reference]):g})"
    return ""


# Bound calls ----------------------------------------------------------------------------------------------------------


class BoundCall:
    """A call at one point that reads the caller's arrays, and writes to them, each time; from `bind`.

    Everything was checked when it was made, and nothing is allocated: write into the arguments, call, and read the
    results. They hold the results of the last call. Several threads may call at the same time if each has a bound call
    of its own; those of one program share its code.

    Attributes:
        arguments: arguments of the function, in order; numbers are arrays of shape (), to write into.
        out: the results in their structure, an array for each; sparse ones are arrays of the nonzeros. Calls return it.

    >>> import accumulus as acc
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> call = acc.value_and_gradient(lambda x, scale: scale * x @ x).bind(x, 2.0)
    >>> value, gradient = call()
    >>> x[0], call.arguments[1][()] = 5.0, 0.5
    >>> call() is call.out, value.item(), gradient.tolist()
    (True, 19.0, [5.0, 2.0, 3.0])
    """

    __slots__ = ("_arrays", "_compute", "_holds", "_otherwise", "arguments", "out")

    def __init__(
        self,
        compute: Callable[..., Any] | None,
        arguments: Sequence[Any],
        numeric: Sequence[int],
        arrays: Sequence[NDArray[Any]],
        out: Any,
        otherwise: Callable[[Sequence[Any], Sequence[NDArray[Any]]], Any],
        holds: NDArray[Any] | None,
    ) -> None:
        """Make a bound call.

        Args:
            compute: compiled function of the numeric arguments and the results; None if there is none.
            arguments: all arguments.
            numeric: positions of the numeric ones.
            arrays: arrays of the results, in order.
            out: the same arrays in the structure of the results.
            otherwise: function of arguments and arrays that computes where the compiled function cannot.
            holds: array of a further result, which is 1 if the others are valid; None if there is none.
        """
        self.arguments, self.out = tuple(arguments), out
        self._compute = (lambda *_: NotImplemented) if compute is None else compute
        self._holds: Any = True if holds is None else holds
        self._arrays = (*(arguments[k] for k in numeric), *arrays, *([] if holds is None else [holds]))
        self._otherwise = partial(otherwise, self.arguments, arrays)

    def __call__(self) -> Any:
        """Compute the results from what the arguments hold now, and return `out`.

        Raises:
            CaseError: if the function takes another branch there, of a `CompiledProgram`, or of a derivative that was
                loaded without it; what `out` holds then means nothing.
        """
        if self._compute(*self._arrays) is not None or not self._holds:
            self._otherwise()
        return self.out
