"""Loops or straight-line code: which kind of program a recording becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.gradient_graph import is_mirrored
from accumulus.errors import SizeError
from accumulus.frontends.record import Recording
from accumulus.programs.argnums import Selection
from accumulus.programs.derived import derived, of_gradient
from accumulus.programs.kinds import Kind
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.seeds import linearize_arguments
from accumulus.search.sweeps import sweep_counts
from accumulus.tape.blocks import BlockTape, NotInBlocksError
from accumulus.tape.tape import Tape
from accumulus.targets import Call

__all__ = ["program_of"]

#: Products of a derivative that is written out, at most, where arrays can be recorded as such: more take seconds to be
#: compiled, and hardly less time a call than loops.
MOST_PRODUCTS: Final = 60_000


def program_of(
    recording: Recording,
    kind: Kind,
    selection: Selection,
    preparation: Preparation,
    first: Call,
    shared: tuple[bool, ...],
    again: Callable[..., Recording],
    points: NDArray[np.float64],
) -> Program:
    """Loops where the recording has blocks, else straight-line code; arguments are those of `Program`.

    Args:
        again: records the function once more, with ``arrays`` and ``at_once`` as `record` has them.
        points: at which the recording holds, (points, inputs).

    Operations on long arrays that were few enough to be written out are recorded as such, if their derivatives are not.
    What was found to repeat in straight-line code stays as it was recorded, if derivatives between arrays are too many.

    Raises:
        SizeError: if they are, and arrays were recorded as such.
    """
    given = None
    if kind.first is not None:
        if isinstance(recording.tape, BlockTape):
            found = _of_blocks(recording, kind, kind.first, selection, preparation)
            if found is not None:
                return found
            recording = (
                again(arrays=False)
                if recording.written_out is None
                else replace(recording, tape=recording.written_out, written_out=None)
            )
        if kind.symmetric and is_mirrored(recording.scalars):
            with preparation.stage("linearize"):
                recording, linearization = of_gradient(recording, kind, selection, preparation.name)
            given = linearization, None
        else:
            recording = derived(recording, kind.first, selection, preparation, points)
    elif not kind.has_seeds and kind.derivatives and preparation.options.takes_arrays and _may_be_long(recording):
        with preparation.stage("linearize"):
            linearization = linearize_arguments(recording, selection.positions, preparation.name)
            counted, _ = sweep_counts(linearization.graph)
        if not counted or min(priced.products for priced in counted.values()) > MOST_PRODUCTS:
            with preparation.stage("trace"):
                recording = again(at_once=True)
        else:
            given = linearization, None
    written_out = recording.written_out
    if isinstance(recording.tape, BlockTape):
        from accumulus.programs.array_program import ArrayProgram

        try:
            return ArrayProgram(replace(recording, written_out=None), kind, selection, preparation)
        except SizeError:
            if written_out is None:
                raise
        except NotInBlocksError:  # the derivatives need too many blocks
            if written_out is None:
                recording = again(arrays=False)
        if written_out is not None:
            recording = replace(recording, tape=written_out, written_out=None)
    return Program(recording, kind, selection, preparation, given=given, first=first, shared=shared)


def _of_blocks(
    recording: Recording, kind: Kind, first: Kind, selection: Selection, preparation: Preparation
) -> Program | None:
    """Loops for the derivatives of a gradient; None if they are too many, or values have derivatives of their own."""
    from accumulus.programs.array_program import ArrayProgram
    from accumulus.programs.derived_blocks import recording_of_blocks

    try:
        gradient = recording_of_blocks(recording, first, selection, preparation)
        return None if gradient is None else ArrayProgram(gradient, kind, selection, preparation)
    except (SizeError, NotInBlocksError):
        return None


def _may_be_long(recording: Recording) -> bool:
    """Whether many operations are on entries of long arrays, and their derivatives may take too many products."""
    tape = recording.tape
    if not isinstance(tape, Tape) or 4 * recording.unrolled < tape.operations or not recording.unrolled:
        return False
    return 3 * tape.operations * min(tape.inputs, len(tape.outputs)) > MOST_PRODUCTS
