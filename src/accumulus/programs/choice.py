"""Loops or straight-line code: which kind of program a recording becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from accumulus.errors import SizeError
from accumulus.frontends.record import Recording
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.results import Wanted
from accumulus.tape.blocks import BlockTape, NotInBlocksError
from accumulus.targets import Call

__all__ = ["program_of"]


def program_of(
    recording: Recording,
    wanted: Wanted,
    argnums: int | tuple[int, ...],
    preparation: Preparation,
    first: Call,
    shared: tuple[bool, ...],
    unrolled: Callable[[], Recording],
) -> Program:
    """Loops where the recording has blocks, else straight-line code; arguments are those of `Program`.

    Args:
        unrolled: records the function once more, entry by entry.

    What was found to repeat in straight-line code stays as it was recorded, if derivatives between arrays are too many.

    Raises:
        SizeError: if they are, and arrays were recorded as such.
    """
    written_out = recording.written_out
    if isinstance(recording.tape, BlockTape):
        from accumulus.programs.array_program import ArrayProgram

        try:
            return ArrayProgram(replace(recording, written_out=None), wanted, argnums, preparation)
        except SizeError:
            if written_out is None:
                raise
        except NotInBlocksError:  # the derivatives need too many blocks
            if written_out is None:
                recording = unrolled()
        if written_out is not None:
            recording = replace(recording, tape=written_out, written_out=None)
    return Program(recording, wanted, argnums, preparation, first=first, shared=shared)
