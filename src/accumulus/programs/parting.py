"""Which case each point of a batch belongs to: the guards of all recordings, computed together.

Guards of one function share most of what they compute, and where they differ they are few operations beside those of
derivatives. So where points of a batch belong to many cases, they are parted first, and then each program gets its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accumulus.frontends.decisions import holds_of
from accumulus.frontends.recorder import Recording
from accumulus.options import Options
from accumulus.programs.primal import without_dead
from accumulus.tape.blocks import BlockTape
from accumulus.tape.live import signed_zeros
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets import Kernel, Segment, compile_tape

__all__ = ["parting_kernel"]


def parting_kernel(recordings: Sequence[Recording], options: Options, cache: bool) -> Kernel | None:
    """A kernel of one entry a point: the position of the recording that holds there, -1 if none does.

    Args:
        recordings: of one function, for arguments of one shape.
        options: the target and the dtype.
        cache: whether machine code is cached.

    Returns:
        None where arrays were recorded as such.
    """
    if any(isinstance(recording.tape, BlockTape) for recording in recordings):
        return None
    common = Tape(recordings[0].tape.inputs)
    found = common.constant(-1.0)
    for position in reversed(range(len(recordings))):
        holds = _copied(recordings[position], common)
        found = common.select(holds, common.constant(position), found)
    common.outputs = [found]
    shapes = [shape for shape in recordings[0].argument_shapes if shape is not None]
    return compile_tape(
        common,
        [Segment(1, (0,), (0,))],
        target=options.target,
        dtype=options.dtype,
        arguments=shapes,
        cache=cache,
    )


def _copied(recording: Recording, common: Tape) -> int:
    """The truth value that all guards of a recording hold, recorded on another tape."""
    tape = recording.scalars.copy()
    tape.outputs = [holds_of(tape, np.array(tape.outputs[recording.results :]))]
    tape, _ = without_dead(tape, ())
    signed = signed_zeros(tape)
    place = list(range(tape.inputs))
    for reference in range(tape.inputs, len(tape)):
        arguments = [place[a] if a >= 0 else common.constant(tape.value_of(a)) for a in tape.arguments(reference)]
        common.signed_zeros = bool(signed[reference])
        place.append(common.apply_code(tape.codes[reference], arguments))
    common.signed_zeros = False
    output = tape.outputs[0]
    number = place[output] if output >= 0 else common.constant(tape.value_of(output))
    if number >= 0 and OPERATIONS[common.codes[number]].name == "select":
        return common.first[number]
    return common.apply("not_equal", number, common.constant(0.0))
