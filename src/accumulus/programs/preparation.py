"""The stages between a user's call and a compiled program: their times, deadline and progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.deadline import WORK
from accumulus.errors import SizeError
from accumulus.frontends.recorder import Recording
from accumulus.frontends.written_out import INSTEAD, warn
from accumulus.memory import check_fits
from accumulus.options import Options
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.selection import Selection
from accumulus.progress import PATIENCE, ProgressLine
from accumulus.targets import target_of

#: Processor seconds to write out one operation, from its derivatives to the rewritten program; additional seconds for a
#: step that conditions reach; and bytes for each of these. `make bench ARGS=estimates` measures them. Larger ones
#: announce waits that do not come, and refuse programs that fit into memory; smaller ones miss long waits, and programs
#: that do not fit.
WRITING: Final = 7e-6
GUARDED: Final = 4e-5
BYTES: Final = 1000
#: Expected seconds above which a warning is issued besides the progress line: a larger number leaves the user without
#: an explanation, a smaller one warns of preparations that end before the warning is read.
LONG: Final = 15.0
#: The stages that search. The clock of the deadline stops during the others, which no time limit can shorten.
_SEARCHES: Final = ("plan", "optimise")


class Preparation:
    """One preparation, beginning with the user's call.

    Attributes:
        name: name of the function.
        options: options of the call.
        context: these options, with the common deadline of planning and rewriting.
        seconds: time that each stage took, by its name.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options, self.context = options, Context(options)
        self.seconds: dict[str, float] = {}
        #: Points in the function's domain, (points, inputs); None if none are known.
        self.points: NDArray[np.float64] | None = None
        #: What holds of each input of the function in all calls; empty if nothing is assumed.
        self.assumed: tuple[str, ...] = ()
        #: Further points of a batch, (inputs,) each, at which the recording may not hold; rounding is judged there.
        self.others: list[NDArray[np.float64]] = []
        #: The line on the terminal; disabled if a user's function receives the reports.
        self._line = ProgressLine(name, shown=options.shown)
        self._stage, self._is_warned = "", False

    def __enter__(self) -> Preparation:
        self._line.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._line.__exit__(*error)

    def by_default(self) -> Preparation:
        """Return this preparation with the default effort and time limit, within its own limit of work."""
        other = copy(self)
        other.context = self.context.within(WORK * Options().time_limit).having(effort="balanced")
        other.options = other.context.options
        return other

    def expect(self, operations: int, guarded: int = 0, *, writes: bool = True, compiles: bool = True) -> None:
        """Report the expected time to write out and compile a long program, before it begins.

        Args:
            operations: number of operations of the program.
            guarded: number of steps of the accumulation that conditions of branches reach.
            writes: if True, the operations are still to be written out.
            compiles: if True, they are still to be compiled.

        Raises:
            SizeError: if the written-out operations do not fit into memory.
        """
        compiling = target_of(self.options.target).seconds(operations) if compiles else 0.0
        writing = WRITING * operations + GUARDED * guarded if writes else 0.0
        seconds = writing + compiling
        self.context.report(self._stage, expected=seconds if seconds > PATIENCE else None)
        subject = f"{operations:,} operations of {self.name}"
        if writes:
            size = BYTES * (operations + guarded)
            check_fits(size, f"the {subject}, written out one by one,", f"{INSTEAD[0].lower()}{INSTEAD[1:]}")
        if seconds <= PATIENCE:
            return
        quick = target_of("llvm").seconds(operations)
        if compiling > max(writing, 2 * quick):
            advice = f"target='llvm' compiles them in about {max(quick, 1.0):.0f} s"
        elif not self.options.takes_arrays:
            advice = "in float64 and without exact_order=True, operations on long arrays stay loops"
        else:
            advice = INSTEAD
        done = "written out one by one" + " and compiled" * compiles
        message = f"{subject} are {done}, which takes about {seconds:.0f} s. {advice}"
        self._line.expect(seconds, message)
        if seconds > LONG and not self._is_warned and self.options.progress is not False:
            self._is_warned = True
            warn(message)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the time of a block as a stage; convert `MemoryError` to `SizeError`."""
        self._stage = name
        self._line.update(name)
        self.context.enter(name)
        self.context.report(name)
        start = time.perf_counter()
        with nullcontext() if name in _SEARCHES else self.context.paused():
            try:
                yield
            except MemoryError as error:
                if isinstance(error, SizeError):
                    raise
                raise SizeError(
                    f"memory ran out in stage {name!r} of preparing the derivative of {self.name}: {error}; expected "
                    "smaller arrays, or derivatives that are sparse"
                ) from error
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def check_size(
    recording: Recording, kind: DerivativeKind, selection: Selection, points: int, options: Options, name: str
) -> None:
    """Raise an error for dense derivatives, or results of a function's operations, that do not fit into memory.

    Args:
        recording: recording of the function.
        kind: kind of the derivative.
        selection: differentiated arguments, and the selected entries.
        points: number of points whose derivatives are in memory together.
        options: options of the derivative.
        name: name of the function, for messages.

    Raises:
        SizeError: if they do not fit.
    """
    columns = sum(math.prod(recording.argument_shapes[k] or ()) for k in selection.positions)
    rows = columns if kind.symmetric else sum(map(math.prod, recording.result_shapes))
    if selection.places is not None:
        rows, columns = selection.places.matrix
    size = np.dtype(options.dtype).itemsize
    if options.sparse is None and not kind.has_seeds:
        where, disk = (f" at {points:,} points", ", or give out=, arrays on disk") if points > 1 else ("", "")
        check_fits(
            points * rows * columns * size,
            f"the {'Hessian' if kind.symmetric else 'Jacobian'} of {name}, {rows:,} × {columns:,} entries{where},",
            f'ask for its nonzeros only: sparse="csr"{disk}',
        )
    results = len(recording.program)
    check_fits(
        2 * size * results,
        f"the {results:,} results of the operations of {name}",
        "expected smaller arrays, or a call for each part of them",
    )
