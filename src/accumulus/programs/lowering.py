"""Lowering of recordings to programs: written out in a straight line, or as loops, whichever costs less.

A recording may have both forms. They are compared by one estimate (`accumulus.programs.estimates`); where derivatives
as loops do not fit into memory, or cannot be had, the other form takes over.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.gradient_graph import is_mirrored
from accumulus.errors import SizeError
from accumulus.frontends.recorder import Recording
from accumulus.graph.linearize import Linearization
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import Derivation, loop_nest, loops_of_sums, straight_line
from accumulus.programs.derived import derived, of_gradient
from accumulus.programs.estimates import Work
from accumulus.programs.expansion import taylor_recording
from accumulus.programs.graphs import (
    AFTER,
    BEFORE,
    MOST,
    Start,
    along_seeds,
    in_directions,
    inputs_of,
    jacobian_starts,
    linearized,
    shorter_recording,
    starts_of,
)
from accumulus.programs.iterated import gradient_by_loops, suits, with_loops, without_repeated
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.progress import PATIENCE
from accumulus.repetition.instances import by_instance
from accumulus.repetition.roll import are_many, rolled
from accumulus.tape.interpreter import outputs_at
from accumulus.tape.prices import LOOPS, MOST_WRITTEN, WRITTEN
from accumulus.tape.program import ManyBlocksError, Program
from accumulus.targets import Call

#: Largest number of operations of loops over numbers that are written out if their derivatives as loops do not fit into
#: memory. More take a minute to prepare, fewer refuse derivatives that can be had.
LAST_RESORT: Final = 100_000


class Recorded(NamedTuple):
    """A recording with the facts from which its program is made."""

    recording: Recording  # recording of the function
    kind: DerivativeKind
    selection: Selection  # differentiated arguments
    preparation: Preparation  # options, and the stages so far
    points: NDArray[np.float64]  # points at which the recording holds, (points, inputs)


def program_of(
    recorded: Recorded, first: Call, shared: tuple[bool, ...], *, loops: bool | None = None
) -> CompiledProgram:
    """Return the compiled derivative of a recording.

    Args:
        recorded: recording with the facts from which its program is made.
        first: as for `CompiledProgram.of`.
        shared: as for `CompiledProgram.of`.
        loops: False for a straight line, True for the loops that were recorded; None for what costs less.

    Raises:
        SizeError: if the derivatives are too many, and the recording is too long to be written out.
    """
    recording, kind, selection, preparation, points = recorded
    preparation.points = np.stack([*points, *preparation.others])
    if kind.first is None and not suits(recording, kind, selection, preparation.options):
        recording = without_repeated(recording)
    if kind.factored:
        return _factored(recording, selection, preparation, first, shared)
    works_on_arrays = _works_on_arrays(recording.program)
    lowered = cheaper_form(recording, kind, selection, preparation, loops)
    if kind.seeds is Seeds.SERIES:
        lowered = recording = taylor_recording(lowered, selection, preparation, points)
        kind, selection = replace(kind, seeds=Seeds.NONE), Selection.of(())
    if not lowered.program.is_straight:
        try:
            return CompiledProgram.of(_as_loops(lowered, kind, selection, preparation), preparation, first, shared)
        except ManyBlocksError:
            pass
        except SizeError:
            if kind.first is None and not _may_be_written(recording.program):
                raise
        with preparation.stage("trace"):
            lowered = recording.written_out()
    derivation = _written_out(lowered, kind, selection, preparation, points, works_on_arrays)
    return CompiledProgram.of(derivation, preparation, first, shared)


def _works_on_arrays(program: Program) -> bool:
    """Return True if many operations of a recorded program are on entries of long arrays."""
    return 0 < program.unrolled and 4 * program.unrolled >= program.operations


# Forms of a recording ------------------------------------------------------------------------------------------------


def cheaper_form(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    loops: bool | None = None,
) -> Recording:
    """Return the recording in the form whose derivatives cost less, or in the demanded one, as for `program_of`."""
    if loops is False:
        return recording.written_out()
    program, seeds = recording.program, selection.seed_count * kind.has_seeds
    if program.has_loops and (loops or not is_quick(program)):
        return _grouped(recording, preparation)
    with preparation.stage("trace"):
        written, has_loops = recording.written_out(), program.has_loops
        # repetition of a straight line was looked for when it was recorded; gradients are longer
        may_roll = kind.first is not None and preparation.options.takes_arrays
        if not (has_loops or (may_roll and are_many(program.operations * program.inputs))):
            return written
        work = Work.of(written.tape, kind, inputs_of(recording, selection.positions), recording.results, seeds)
        if not has_loops:
            rolled_program = _rolled(written, 1.0 + work.products / max(1, 2 * work.operations), preparation)
            if rolled_program is None:
                return written
            program = rolled_program
        straight_line, in_loops = work.costs(kind, program)
    if straight_line.total <= in_loops.total:
        return written
    return _grouped(replace(recording, program=program), preparation)


def is_quick(program: Program) -> bool:
    """Return True if a program with loops can be written out, and may be prepared soon then.

    Loops over few entries at a time are written out to see how many operations constants leave of them.
    """
    most = MOST_WRITTEN if program.is_long else LAST_RESORT
    return program.is_writable and program.operations <= most


def _may_be_written(program: Program) -> bool:
    """Return True if a program with loops can be written out where derivatives as loops do not fit into memory.

    Loops over numbers were found in a straight line, or are no longer than one; those over arrays are written out only
    where that is quick, since their products with each other are as many.
    """
    return is_quick(program) or (not program.unrolled and program.is_writable and program.operations <= LAST_RESORT)


def _grouped(recording: Recording, preparation: Preparation) -> Recording:
    """Return the recording with operations on arrays grouped by instance, where this is a gain."""
    with preparation.stage("trace"):
        return replace(recording, program=by_instance(recording.program, recording.results))


def _rolled(recording: Recording, times: float, preparation: Preparation) -> Program | None:
    """Return straight-line code with its repetition as loops, if its derivatives are so many times its operations."""
    loops = rolled(recording.tape, times)
    if loops is None or preparation.points is None:
        return None
    one, other = (outputs_at(each, preparation.points) for each in (loops, recording.program))
    return loops if np.allclose(one, other, rtol=1e-9, equal_nan=True) else None


# As loops ------------------------------------------------------------------------------------------------------------


def _as_loops(recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation) -> Derivation:
    """Return the derivatives of a recording with loops, as loops.

    Raises:
        SizeError: if the products between arrays are too many for memory, or values have attached derivatives.
    """
    if kind.first is None:
        return _first_as_loops(recording, kind, selection, preparation)
    with suppress(SizeError):
        gradient = gradient_by_loops(recording, kind, kind.first, selection, preparation)
        if gradient is not None:
            return loop_nest(gradient, kind, selection, preparation)
    recording = without_repeated(recording)
    separable = loops_of_sums(recording, kind, selection, preparation)
    if separable is not None:
        return separable
    gradient = derived(recording, kind.first, selection.whole, preparation, in_loops=True)
    return loop_nest(gradient, kind, selection, preparation)


def _first_as_loops(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> Derivation:
    """Return the derivatives of a recording with loops, as loops; long loops over arrays are calls where they can be.

    Raises:
        SizeError: if the products between arrays are too many for memory.
    """
    calling = with_loops(recording, kind, selection, preparation)
    if calling is not None:
        with suppress(SizeError):
            derivation = loop_nest(calling, kind, selection, preparation)
            cut_short = [stage for each in derivation.code.tape.calls if (stage := getattr(each, "cut_short", ""))]
            return replace(derivation, cut_short=derivation.cut_short or next(iter(cut_short), ""))
    return loop_nest(without_repeated(recording), kind, selection, preparation)


# Written out ---------------------------------------------------------------------------------------------------------


def _written_out(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64],
    works_on_arrays: bool,
) -> Derivation:
    """Return the derivatives of a recording without loops, in a straight line: the shortest of all starts."""
    starts: list[Start] = []
    planned = None
    if kind.first is not None and kind.seeds is Seeds.TANGENTS:
        recording, starts = _second_products(recording, kind, kind.first, selection, preparation, points)
    elif kind.first is not None:
        recording, mirrored = second_order(recording, kind, kind.first, selection, preparation, points)
        planned = None if mirrored is None else (mirrored, None)
    if kind.has_seeds and not starts:
        starts = _products(recording, kind, selection, preparation)

    def made_by(preparation: Preparation) -> Derivation:
        chosen = starts
        if not starts and kind.first is None:
            chosen = jacobian_starts(recording, kind, selection, preparation)
        return straight_line(
            recording, kind, selection, preparation, planned=planned, starts=chosen, works_on_arrays=works_on_arrays
        )

    options, made = preparation.options, []
    is_thorough = options.effort == "thorough" and options.counts_rewritten and options.searches
    if is_thorough and kind.derivatives and recording.tape.operations <= MOST:
        # a thorough search may choose another order, whose program need not be shorter than the default one
        made.append(made_by(preparation.by_default()))
    made.insert(0, made_by(preparation))
    return min(made, key=lambda each: each.code.operations)


def _products(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation
) -> list[Start]:
    """Return the starts of products with the Jacobian, for the shortened recording if there is one."""
    short = shorter_recording(recording, preparation, BEFORE[1])
    return starts_of(short or recording, kind, selection, preparation, short is not None)


def _second_products(
    recording: Recording,
    kind: DerivativeKind,
    first: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64],
) -> tuple[Recording, list[Start]]:
    """Return the gradient of a recording, and the starts of products with its Jacobian.

    A gradient graph with a mirror is one more start. It has the gradient's operations in the order of reverse mode,
    which the plan of the other gradient rearranges. Either can give the shorter program.
    """
    short = shorter_recording(recording, preparation, BEFORE[2])
    recorded, is_short = short or recording, short is not None
    mirrored = _with_mirror(recorded, first, selection, preparation)
    gradient = derived(recorded, first, selection.whole, preparation, points)
    shorter = shorter_recording(gradient, preparation, (AFTER if is_short else BEFORE)[2])
    starts = starts_of(shorter or gradient, kind, selection, preparation, is_short or shorter is not None)
    if mirrored is not None:
        starts.append(along_seeds(mirrored, kind, selection, preparation, is_short))
    if is_short:
        mirrored = _with_mirror(recording, first, selection, preparation)
        if mirrored is not None:
            starts.append(along_seeds(mirrored, kind, selection, preparation, False))
    return gradient, starts


def _with_mirror(
    recording: Recording, first: DerivativeKind, selection: Selection, preparation: Preparation
) -> Linearization | None:
    """Return the graph of the gradient along directions if it has a mirror; else None."""
    if not is_mirrored(recording.tape) or not recording.is_number:
        return None
    with preparation.stage("linearize"):
        gradient, linearization = of_gradient(recording, first, selection, preparation.name)
        return in_directions(gradient, selection, linearization)


def _factored(
    recording: Recording, selection: Selection, preparation: Preparation, first: Call, shared: tuple[bool, ...]
) -> CompiledProgram:
    """Return the program of a linear operator: factors as straight-line code, or the sparse Jacobian as loops.

    Long arrays give loops if the Jacobian is sparse or the straight-line code would be too long.

    Raises:
        SizeError: if the Jacobian does not fit into memory and the straight-line code would be too long.
    """
    from accumulus.programs.operators import as_sparse_matrix, factored

    program = recording.program
    if not program.is_straight:
        written = WRITTEN.cost(len(program), 2 * len(program))
        few = written.prepare <= PATIENCE and not program.calls
        if not few or written.total > LOOPS.cost(program.text, program.operations).total:
            try:
                made, nonzeros = as_sparse_matrix(_grouped(recording, preparation), selection, preparation)
                in_loops = LOOPS.cost(program.text, program.operations + 2 * nonzeros)
                if not few or in_loops.total <= written.total:
                    return CompiledProgram.of(made, preparation, first, shared)
            except ManyBlocksError:
                pass
            except SizeError:
                if not few:
                    raise
        with preparation.stage("trace"):
            recording = recording.written_out()
    return CompiledProgram.of(factored(recording, selection, preparation), preparation, first, shared)


def graph_of(recorded: Recorded) -> tuple[Recording, Linearization]:
    """Return the recording that a kind differentiates, written out operation by operation, and its graph."""
    recording, kind, selection, preparation, points = recorded
    recording = recording.written_out()
    linearization = None
    if kind.first is not None:
        recording, linearization = second_order(recording, kind, kind.first, selection, preparation, points)
    if linearization is None:
        with preparation.stage("linearize"):
            linearization = linearized(recording, kind, selection, preparation.name)
    return recording, linearization


def second_order(
    recording: Recording,
    kind: DerivativeKind,
    first: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64],
) -> tuple[Recording, Linearization | None]:
    """Return the recording that a kind differentiates, written out, and its graph if that has a mirror, else None."""
    if kind.symmetric and is_mirrored(recording.tape):
        with preparation.stage("linearize"):
            return of_gradient(recording, kind, selection, preparation.name)
    return derived(recording, first, selection.whole, preparation, points), None
