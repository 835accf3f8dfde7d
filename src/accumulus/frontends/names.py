"""Names that the user's source gives to computed values, for generated source that people read.

A recording does not contain names: a variable is bound after its value is on the tape. Where names are needed, the
function is recorded again under a trace function (`sys.settrace`), which compares the variables of each user frame
from line to line. Recordings that are only called do none of this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import TraceError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import in_library, is_foreign
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.scalars import TracedScalar
from accumulus.frontends.record import record
from accumulus.frontends.recorder import is_plain
from accumulus.frontends.source.nodes import MARK
from accumulus.tape.interpreter import evaluate
from accumulus.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class NamedValues:
    """A recording with the names of its operations."""

    tape: Tape  # one input per entry; its outputs are unused
    names: Mapping[int, str]  # as ``radius``, ``force[2]``, or ``a in twist`` for a called function
    lines: Mapping[int, tuple[str, int]]  # file and line of each operation

    def described(self, reference: int) -> str:
        """Return the name of an operation, else its file and line; empty if neither is known."""
        if reference in self.names:
            return self.names[reference]
        file, line = self.lines.get(reference, ("", 0))
        return f"{os.path.basename(file)}:{line}" if file else ""


def entry_name(name: str, index: Sequence[int]) -> str:
    """Return the name of an entry of an array, or of a number for an empty index.

    >>> entry_name("A", (0, 2)), entry_name("t", ())
    ('A[0, 2]', 't')
    """
    return f"{name}[{', '.join(map(str, index))}]" if len(index) else name


def named_values(function: Callable[..., Any], arguments: Sequence[object]) -> NamedValues | None:
    """Record a function again and return the names of its values; None for functions that are not plain Python.

    Raises:
        Exception: any exception of `record`, except a `TraceError`, for which None is returned.
    """
    if not is_plain(function):
        return None
    watch = _Watch()
    before = sys.gettrace()
    sys.settrace(watch.entered)
    try:
        record(function, arguments, decides=True)
    except TraceError:
        return None  # the function cannot be recorded under a trace function
    finally:
        sys.settrace(before)
    return watch.most_named()


@dataclass(slots=True)
class _Frame:
    """A user frame, with the references of its variables at the last line."""

    depth: int
    function: str
    seen: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Names:
    """Names of the values on one tape."""

    tape: Tape
    #: Copy of the tape that outlives the recording.
    written: Tape
    #: By reference: depth of the function that names the value, the name, and the number of the value with this name.
    names: dict[int, tuple[int, str, int]] = field(default_factory=dict)
    #: Number of values for each name.
    values: dict[str, int] = field(default_factory=dict)
    lines: dict[int, tuple[str, int]] = field(default_factory=dict)
    length: int = 0


class _Watch:
    """A trace function: assigns new operations to the last line, and names values by the variables that changed."""

    def __init__(self) -> None:
        self._tapes: dict[int, _Names] = {}
        self._frames: dict[FrameType, _Frame] = {}
        self._at: tuple[str, int] | None = None

    def entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Begin to watch a new frame; called by Python's tracing."""
        del event, argument
        if ACTIVE.tape is None or not _is_of_a_file(frame):
            return None
        self._note_lines()
        self._frames[frame] = _Frame(len(self._frames), frame.f_code.co_name)
        self._at = frame.f_code.co_filename, frame.f_lineno
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        del argument
        self._note_lines()
        if event in ("line", "return"):
            self._note_names(frame)
        self._at = frame.f_code.co_filename, frame.f_lineno
        if event == "return":
            self._frames.pop(frame, None)
            around = next(reversed(self._frames), None)
            self._at = None if around is None else (around.f_code.co_filename, around.f_lineno)
        return self._stepped

    def _current(self) -> _Names | None:
        tape = ACTIVE.tape
        if tape is None or isinstance(tape, Tape):
            return None  # the operations of a body are copied to the outer tape
        if id(tape) not in self._tapes:
            self._tapes[id(tape)] = _Names(tape, copy(tape.scalars), length=tape.inputs)
        return self._tapes[id(tape)]

    def _note_lines(self) -> None:
        current = self._current()
        if current is None:
            return
        if self._at is not None:
            current.lines.update(dict.fromkeys(range(current.length, len(current.tape)), self._at))
        current.length = len(current.tape)

    def _note_names(self, frame: FrameType) -> None:
        current, watched = self._current(), self._frames.get(frame)
        if current is None or watched is None:
            return
        for name, value in frame.f_locals.items():
            if not name.isidentifier() or not isinstance(value, TracedScalar | TracedArray):
                continue
            if value.tape is not current.tape:
                continue
            references = np.array(value.references if isinstance(value, TracedArray) else value.reference)
            before = watched.seen.get(name)
            if before is not None and np.array_equal(before, references):
                continue
            watched.seen[name] = references
            for index, reference in _changed(before, references):
                called = entry_name(name, index) + (f" in {watched.function}" if watched.depth else "")
                self._bind(current, reference, watched.depth, called)

    def _bind(self, current: _Names, reference: int, depth: int, name: str) -> None:
        """Name a value, unless a function of the same or a smaller depth has named it already."""
        if reference < current.tape.inputs:
            return
        if reference not in current.names or depth < current.names[reference][0]:
            current.values[name] = value = current.values.get(name, 0) + 1
            current.names[reference] = depth, name, value

    def most_named(self) -> NamedValues | None:
        """Return the names for the tape with the most names; a function that is recorded twice has two tapes."""
        if not self._tapes:
            return None
        best = max(self._tapes.values(), key=lambda each: (len(each.names), len(each.written)))
        names = {
            reference: name if best.values[name] == 1 else f"{name}, value {value}"
            for reference, (_, name, value) in best.names.items()
        }
        return NamedValues(best.written, names, best.lines)


def _is_of_a_file(frame: FrameType) -> bool:
    """Return True if a frame runs user code as written, not a named tuple or a separately recorded branch."""
    code = frame.f_code
    if code.co_filename == "<string>" or MARK in code.co_varnames or in_library(frame):
        return False
    return not is_foreign(str(frame.f_globals.get("__name__", "")))


def _changed(before: Any, now: Any) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the index and reference of each entry that has changed."""
    same = before is not None and before.shape == now.shape
    for index in np.ndindex(now.shape):
        if not same or before[index] != now[index]:
            yield index, int(now[index])


# Values recognised ---------------------------------------------------------------------------------------------------


#: Number of points at which values are compared, and the number of these at which both must be finite. More points take
#: time for each value; fewer give names to values that are equal by chance.
POINTS: Final = 12
FINITE: Final = 4
#: Number of further points that are drawn from each of two ranges for a function with a small domain: more take time,
#: fewer leave such functions without names.
DRAWN: Final = 200
#: Relative tolerance for rounding differences between equal values: a larger one names values that differ, a smaller
#: one leaves out values that were rewritten.
TOLERANCE: Final = 1e-9


def recognised(tape: Tape, names: NamedValues) -> dict[int, int]:
    """Match each operation of a program to the operation of the function that computes the same value.

    Values are compared at random points. If several operations of the function match, one with a name is returned.
    """
    points = _points(names.tape, tape.inputs)
    function_values, program_values = _values(names.tape, points[: names.tape.inputs]), _values(tape, points)
    candidates = np.array(list(function_values), np.intp)
    table = np.array(list(function_values.values())).reshape(-1, POINTS)
    column = int(np.argmax(np.isfinite(table).sum(axis=0)))
    order = np.argsort(table[:, column])
    candidates, table = candidates[order], table[order]
    matches = {}
    for reference, numbers in program_values.items():
        at, margin = numbers[column], TOLERANCE * abs(numbers[column])
        first = np.searchsorted(table[:, column], at - margin, "left")
        last = np.searchsorted(table[:, column], at + margin, "right")
        same = candidates[first:last][_are_same(table[first:last], numbers)].tolist()
        if same:
            matches[reference] = min(same, key=lambda r: (r not in names.names, r))
    return matches


def _points(tape: Tape, inputs: int) -> NDArray[np.float64]:
    """Return random points of inputs, (inputs, POINTS); of a function that few are in the domain of, such as are."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.2, 1.8, (inputs, POINTS))
    points[:, POINTS // 2 :] *= rng.choice([-1.0, 1.0], (inputs, POINTS - POINTS // 2))

    def finite_operations(points: NDArray[np.float64]) -> NDArray[np.intp]:
        whole = tape.copy()
        whole.outputs = list(range(tape.inputs, len(tape)))
        rows = [np.broadcast_to(row, points.shape[1:]) for row in evaluate(whole, list(points[: tape.inputs]))]
        finite: NDArray[np.intp] = np.isfinite(np.array(rows, float).reshape(len(rows), points.shape[1])).sum(axis=0)
        return finite

    if np.count_nonzero(finite_operations(points) == tape.operations) >= FINITE:
        return points
    more = np.concatenate([rng.uniform(0.2, 1.8, (inputs, DRAWN)), rng.uniform(0.8, 1.2, (inputs, DRAWN))], axis=1)
    points = np.concatenate([points, more], axis=1)
    return points[:, np.argsort(-finite_operations(points), kind="stable")[:POINTS]]


def _are_same(rows: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    finite = np.isfinite(rows) & np.isfinite(numbers)
    with np.errstate(invalid="ignore"):
        close = np.abs(rows - numbers) <= TOLERANCE * np.abs(numbers)
    same: NDArray[np.bool_] = (close | ~finite).all(axis=1) & (finite.sum(axis=1) >= FINITE)
    return same


def _values(tape: Tape, points: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Return the values at all points of real operations that differ between points."""
    whole = tape.copy()
    whole.outputs = [reference for reference in range(tape.inputs, len(tape)) if not tape.is_boolean(reference)]
    rows = (np.broadcast_to(row, POINTS) for row in evaluate(whole, list(points)))
    return {reference: row for reference, row in zip(whole.outputs, rows, strict=True) if len(set(row.tolist())) > 1}
