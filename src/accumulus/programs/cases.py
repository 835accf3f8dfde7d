"""The programs of a function for arguments of one shape: one for each way in which it decides on values.

A function that does not decide on values has a single program. Otherwise each program computes, besides its results,
the truth value that all guards of its recording hold, 1 or 0. At one point, programs are tried in turn, beginning with
that of the last call. In a batch, one program computes all points, and each other program the points that remain. If no
program holds at a point, the function is recorded again at that point.

Compiled code and NumPy may round differently (elementary functions, float32). At a point on the border of two cases,
the compiled guards of both may therefore fail. The point then belongs to the case that NumPy's numbers give, which is
recorded there if no program has it. So no point is recorded more than once, and no batch more often than it has points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CaseError, TooManyCasesError
from accumulus.forks import Lock
from accumulus.frontends.agreement import where_it_holds
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.kinds import as_inputs, as_reals
from accumulus.frontends.recorder import Recording
from accumulus.options import Options
from accumulus.programs.arguments import Axes, InAxes
from accumulus.programs.batches import first_point
from accumulus.programs.calls import BatchPoints, Compute, Settle, settled
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.fast_paths import FastPath, no_fast_path
from accumulus.programs.rewritten import without_dead
from accumulus.tape.interpreter import copied
from accumulus.tape.live import signed_zeros
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets import Kernel, Segment, compile_tape

#: Maximum size in bytes of results that a further program computes at once, unless a single point has more. Larger
#: parts take memory beside the results, smaller ones make more calls.
PART: Final = 1 << 26
#: Number of lines that an error for too many cases names.
NAMED: Final = 3
#: Points are partitioned by case if there are more programs than `FEW` and more points than `MANY`. With smaller
#: numbers the partition costs more than it saves, with larger ones programs compute points of other cases in vain.
FEW: Final = 2
MANY: Final = 500
#: Fraction of a batch's points that have to belong to one case for its program to compute all points first. A larger
#: one partitions batches that one program nearly computes, a smaller one computes more points twice.
MOSTLY: Final = 0.7


#: Attributes of programs that hold fast paths for one point.
PathName = Literal["fast", "fast_nonzeros", "fast_into"]


class GrownError(Exception):
    """Sparse results have gained structural nonzeros: the call has to start again."""


class Cases:
    """Programs for arguments of one shape.

    Attributes:
        programs: programs in the order in which they were recorded.
        recent: the same programs, in the order in which they are tried.
    """

    def __init__(self, program: CompiledProgram) -> None:
        self.programs: tuple[CompiledProgram, ...] = (program,)
        self.recent: tuple[CompiledProgram, ...] = (program,)
        #: True if the last batch had points of many cases; batches are then partitioned by case before programs run.
        self.is_partitioned = False
        #: Kernel that partitions points by case, and the programs that it distinguishes.
        self._partition: tuple[tuple[CompiledProgram, ...], Kernel | None] | None = None
        self._lock = Lock()

    @property
    def is_guarded(self) -> bool:
        """Return True if the function decides on values."""
        return self.programs[0].is_guarded

    @property
    def argument_shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """Shapes of the arguments; None for constant ones."""
        return self.programs[0].recording.argument_shapes

    def at(self, arguments: Sequence[Any]) -> CompiledProgram | None:
        """Return the program that holds at a point; None if there is none."""
        for program in self.recent:
            if not program.is_guarded or program.holds(arguments, keeps=True):
                self.prefer(program)
                return program
        # at the border of two cases, compiled guards of both may fail: the point belongs to that of NumPy's numbers
        shapes = self.argument_shapes
        inputs = as_inputs(as_reals(arguments, shapes), shapes)[np.newaxis]
        return next((program for program in self.recent if where_it_holds(program.recording, inputs)[0]), None)

    def prefer(self, program: CompiledProgram) -> None:
        """Make a program the first one to be tried."""
        if self.recent[0] is program:
            return
        with self._lock:
            if any(program is member for member in self.programs):  # else another thread has changed its layout
                self.recent = (program, *(other for other in self.recent if other is not program))

    def add(self, program: CompiledProgram, most: int) -> CompiledProgram:
        """Add a program that was recorded at a point where no other holds.

        Args:
            program: program of a new case.
            most: largest allowed number of programs.

        Returns:
            The program; or an existing one with the same decisions.

        Raises:
            TooManyCasesError: if there are `most` programs already.
        """
        with self._lock:
            if program in self.programs:  # guards from a file may be equal: it has less of them than a recording
                return program
            for existing in self.programs:
                if existing.recording.guards == program.recording.guards:
                    return existing
            if len(self.programs) >= most:
                raise self._too_many(program, most)
            programs = _laid_out_alike([*self.programs, program])
            renewed = {id(old): new for old, new in zip(self.programs, programs, strict=False)}
            self.recent = (programs[-1], *(renewed[id(old)] for old in self.recent))
            self.programs = tuple(programs)
        return programs[-1]

    def _too_many(self, program: CompiledProgram, most: int) -> TooManyCasesError:
        """Return the error that names the lines with the most different answers."""
        answers: dict[tuple[str, int, str], set[object]] = {}
        for each in (*self.programs, program):
            by_line: dict[tuple[str, int, str], list[str]] = {}
            for guard in each.recording.guards:
                by_line.setdefault((guard.file, guard.line, guard.source), []).append(guard.answer)
            for line, line_answers in by_line.items():
                answers.setdefault(line, set()).add(tuple(line_answers))
        counts = Counter({line: len(ways) for line, ways in answers.items() if len(ways) > 1})
        lines = "\n".join(
            f"  {file}, line {line}: answered in {count} ways\n    {source}"
            for (file, line, source), count in counts.most_common(NAMED)
        )
        return TooManyCasesError(
            f"{program.name} has more than {most} cases for arguments of one shape, and each has a program of its "
            f"own. These decisions multiply them:\n{lines}\nWrite np.where(condition, a, b), np.maximum or np.minimum "
            "there, which record both branches; or allow more cases by most_cases."
        )

    def compute(self, lead: CompiledProgram, make: Callable[[BatchPoints], CompiledProgram]) -> Compute:
        """Return the function for batches, which runs each point's own program; arguments as for `_settled`."""
        if not self.is_guarded:
            return lead.kernel.batch
        return settled(lead.kernel, _settled(self, lead, make), lambda: self.is_partitioned)

    def parted(self, points: BatchPoints) -> NDArray[Any] | None:
        """Return the position of the program for each point, -1 where there is none; None if not computable."""
        if self._partition is None or self._partition[0] is not self.programs:
            first, programs = self.programs[0], self.programs
            cache = first.options.caches
            kernel = _partition_kernel([program.recording for program in programs], first.options, cache)
            self._partition = programs, kernel
        programs, kernel = self._partition
        return None if kernel is None or programs is not self.programs else points.run(kernel)[0].reshape(-1)

    def fast_batch(
        self, in_axes: InAxes, axes: Axes, transposed: bool, make: Callable[[BatchPoints], CompiledProgram]
    ) -> FastPath:
        """Return the fast path for batches, see `CompiledProgram.fast_batch`; `make` as for `_settled`."""
        first = self.programs[0]
        if not self.is_guarded:
            return first.fast_batch(in_axes, axes, transposed)
        cached: dict[int, tuple[CompiledProgram, FastPath]] = {}

        def call(*arguments: Any) -> Any:
            if self.is_partitioned:
                return NotImplemented
            lead = self.recent[0]
            if id(lead) not in cached:  # the entry keeps the program alive, so that its id stays unique
                cached[id(lead)] = lead, lead.fast_batch(in_axes, axes, transposed, _settled(self, lead, make))
            try:
                return cached[id(lead)][1](*arguments)
            except (CaseError, GrownError):  # another program has to lead, or the layout of results has changed
                return NotImplemented

        return call

    def fast(self, name: PathName = "fast") -> FastPath:
        """Return the fast path of this name for one point, which tries the programs in turn."""
        first: FastPath = getattr(self.programs[0], name)
        if not self.is_guarded or first is no_fast_path:
            return first

        #: The last fast path, and the programs at that time: their layout may have changed since.
        last: list[tuple[tuple[CompiledProgram, ...], FastPath]] = [(self.programs, first)]

        def call(*arguments: Any) -> Any:
            previous, fast = last[0]
            programs = self.programs
            if previous is programs:
                result = fast(*arguments)
                if result is not NotImplemented:
                    return result
            for program in self.recent:
                fast = getattr(program, name)
                result = fast(*arguments)
                if result is not NotImplemented:
                    self.prefer(program)
                    last[0] = programs, fast
                    return result
            return NotImplemented

        return call


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of a batch of Dask arrays, computed by the workers, for a function that decides on values."""

    name: str  # of the derivative
    shared: tuple[bool, ...]
    lengths: list[int]  # of the expected arrays
    # functions that return all programs and the one for a point, and a program for points where guards fail
    compiled: Callable[..., tuple[Cases, CompiledProgram]]
    further: Callable[[BatchPoints], CompiledProgram]

    def arrays_along(self, axes: Axes, arguments: Sequence[Any]) -> tuple[NDArray[Any], ...]:
        """Return the arrays of a chunk, see `CompiledProgram.arrays_along`."""
        first = [*map(first_point, arguments, axes)]
        cases, program = self.compiled(first, "batch", self.shared)
        if [segment.length for segment in program.kernel.segments] != self.lengths:
            raise self._grown()
        try:
            return program.arrays_along(axes, arguments, cases.compute(program, self.further))
        except GrownError:
            raise self._grown() from None

    def _grown(self) -> CaseError:
        return CaseError(
            f"{self.name} met a new case while chunks were computed, with structural nonzeros that the "
            "earlier ones do not have; call it at a point of each case before the batch"
        )


def _laid_out_alike(programs: list[CompiledProgram]) -> list[CompiledProgram]:
    """Return the programs with one sparsity pattern, the union of theirs, for all whose results have one form."""
    last = programs[-1]
    if last.options.sparse is None:
        return programs
    alike = [program.returns_like(last) for program in programs]
    union = last.union_of_patterns([program for program, same in zip(programs, alike, strict=True) if same])
    return [program.laid_out(union) if same else program for program, same in zip(programs, alike, strict=True)]


def _settled(cases: Cases, lead: CompiledProgram, make: Callable[[BatchPoints], CompiledProgram]) -> Settle:
    """Return a function that passes points where the guards of a program fail to the other programs.

    Args:
        cases: all programs.
        lead: program that computes all points first; the others have to return results of the same shapes.
        make: function that returns the program for the first of some points, recorded there if none holds.

    Raises:
        CaseError: by the returned function, if results have different shapes at the points.
        GrownError: by the returned function, if sparse results have gained nonzeros.
    """

    def settle(points: BatchPoints, arrays: Sequence[NDArray[Any]], holds: NDArray[Any]) -> None:
        if not len(holds) or holds.min() > 0:
            lead.ran.points += len(holds)
            return
        left = np.flatnonzero(holds == 0)
        before = {id(program): program.ran.points for program in cases.programs}
        lead.ran.points += len(holds) - len(left)
        alike = [program for program in cases.recent if program.returns_like(lead)]
        positions = None
        if len(alike) > FEW and len(left) > MANY:
            positions = cases.parted(points if len(left) == len(holds) else points.some(left))
        if positions is not None:
            left = _by_case(cases, alike, points, arrays, left, positions)
        for program in alike:
            if len(left) and (program is not lead or positions is not None):
                left = _computed(program, points, arrays, left, np.zeros(len(left), bool))
        tried = set(map(id, cases.programs))
        while len(left):
            program = make(points.some(left[:1]))
            if not program.returns_like(lead):
                raise _other_shapes(lead, program)
            if all(lead is not member for member in cases.programs):
                raise GrownError
            forced = np.zeros(len(left), bool)
            if id(program) in tried:  # points on the border belong to the case that NumPy's numbers give
                forced = where_it_holds(program.recording, points.some(left).inputs(len(left)))
            forced[0] = True
            tried.add(id(program))
            left = _computed(program, points, arrays, left, forced)
        taken = {program: program.ran.points - before.get(id(program), 0) for program in cases.programs}
        most = max(taken, key=lambda program: taken[program])
        cases.is_partitioned = positions is not None and taken[most] < MOSTLY * len(holds)
        cases.prefer(most)

    return settle


def _by_case(
    cases: Cases,
    alike: Sequence[CompiledProgram],
    points: BatchPoints,
    arrays: Sequence[NDArray[Any]],
    left: NDArray[np.intp],
    positions: NDArray[Any],
) -> NDArray[np.intp]:
    """Store the results of each program at the points of its case; return the positions of the remaining points.

    Args:
        cases: all programs.
        alike: programs whose results fit into the arrays.
        points: points of the batch.
        arrays: results of all points.
        left: positions of the points that are still to be computed.
        positions: position of the program for each point in `left`.
    """
    lead = alike[0]
    entries = sum(segment.length for segment in lead.kernel.segments)
    step = max(1, PART // max(entries * lead.kernel.dtype.itemsize, 1))
    remaining = []
    for first in range(0, len(left), step):
        chunk = left[first : first + step]
        case_positions = positions[first : first + step].astype(np.int16)
        turn = np.argsort(case_positions, kind="stable")
        sorted_points = points.some(chunk[turn]).in_rows()
        results = lead.kernel.allocate(len(chunk), False)
        results[-1][:] = 0.0
        bounds = np.searchsorted(case_positions[turn], np.arange(len(cases.programs) + 1))
        for program, (begin, end) in zip(cases.programs, pairwise(bounds.tolist()), strict=True):
            if begin < end and program in alike:
                program.kernel.batch(
                    *sorted_points.between(begin, end).X,
                    shared=points.shared,
                    out=[result[begin:end] for result in results],
                    threads=points.threads,
                )
                program.ran.points += int(np.count_nonzero(results[-1][begin:end]))
        back = np.empty(len(turn), np.intp)
        back[turn] = np.arange(len(turn))
        for array, result in zip(arrays, results, strict=False):
            if points.transposed:
                array[:, chunk] = np.take(result, back, 0).T
            elif len(chunk) == len(array):
                np.take(result, back, 0, out=array, mode="clip")
            else:
                array[chunk] = np.take(result, back, 0)
        remaining.append(chunk[results[-1][back, 0] == 0])
    return np.concatenate(remaining)


def _computed(
    program: CompiledProgram,
    points: BatchPoints,
    arrays: Sequence[NDArray[Any]],
    left: NDArray[np.intp],
    forced: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Store the results of a program at those points in `left` where it holds.

    Args:
        program: program to run.
        points: points of the batch.
        arrays: results of all points.
        left: positions of the points that are still to be computed.
        forced: for each point in `left`, True if the program applies there even if its guards fail.

    Returns:
        Positions of the points that remain to be computed.
    """
    entries = sum(segment.length for segment in program.kernel.segments)
    step = max(1, PART // max(entries * program.kernel.dtype.itemsize, 1))
    remaining: list[NDArray[np.intp]] = []
    for first in range(0, len(left), step):
        chunk = left[first : first + step]
        *results, holds = points.some(chunk).run(program.kernel)
        held = (holds.reshape(-1) > 0) | forced[first : first + step]
        where = chunk[held]
        for array, result in zip(arrays, results, strict=True):
            if points.transposed:
                array[:, where] = result[:, held]
            else:
                array[where] = result[held]
        program.ran.points += len(where)
        remaining.append(chunk[~held])
    return np.concatenate(remaining)


def _other_shapes(lead: CompiledProgram, program: CompiledProgram) -> CaseError:
    one, other = (each.recording.result_shapes for each in (lead, program))
    return CaseError(
        f"{program.name} returns {_form(one)} at some points of this batch and {_form(other)} at others, since it "
        "decides on values; expected one shape at all points, or one call for each"
    )


def _form(shapes: Sequence[tuple[int, ...]]) -> str:
    return "shapes " + ", ".join(map(str, shapes)) if len(shapes) > 1 else f"shape {shapes[0] if shapes else ()}"


# Partition of a batch by case -----------------------------------------------------------------------------------------
#
# The guards of one function share most of their operations, and the others are few compared with the operations of
# derivatives. If the points of a batch belong to many cases, they are therefore partitioned first, and each program
# then computes its own points.


def _partition_kernel(recordings: Sequence[Recording], options: Options, cache: bool) -> Kernel | None:
    """Return a kernel with one entry for each point: the position of the recording that holds there, -1 if none does.

    Args:
        recordings: recordings of one function, for arguments of one shape.
        options: options with the target and the dtype.
        cache: True if machine code is cached.

    Returns:
        None if a recording has loops.
    """
    if any(not recording.program.is_straight for recording in recordings):
        return None
    common = Tape(recordings[0].program.inputs)
    selected = common.constant(-1.0)
    for position in reversed(range(len(recordings))):
        holds = _guards_on(recordings[position], common)
        selected = common.select(holds, common.constant(position), selected)
    common.outputs = [selected]
    shapes = [shape for shape in recordings[0].argument_shapes if shape is not None]
    return compile_tape(
        common, [Segment(1, (0,), (0,))], target=options.target, dtype=options.dtype, arguments=shapes, cache=cache
    )


def _guards_on(recording: Recording, common: Tape) -> int:
    """Return the truth value that all guards of a recording hold, recorded on the tape `common`."""
    tape = recording.tape.copy()
    tape.outputs = [holds_of(tape, np.array(tape.outputs[recording.results :]))]
    tape, _ = without_dead(tape, ())
    (number,) = copied(tape, common, range(tape.inputs), signed=signed_zeros(tape))
    if number >= 0 and OPERATIONS[common.codes[number]].name == "select":
        return common.first[number]
    return common.apply("not_equal", number, common.constant(0.0))
