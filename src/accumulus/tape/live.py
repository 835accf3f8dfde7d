"""What of a tape its outputs need, and what of it has to be rounded as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from accumulus.tape.compiled import passes_slots as slot
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import Integers, extended, moved, rows_of, spread
from accumulus.tape.tape import Tape

__all__ = ["as_written", "needed", "unattached"]

_JUMPS: Final = np.array([operation.jumps for operation in OPERATIONS])
_ATTACH: Final = BY_NAME["attach"].code


def needed(tape: Tape, outputs: Sequence[int] | None = None) -> bytearray:
    """1 for every operation that an output, of all or of some, depends on, else 0; of inputs it says nothing."""
    return _marked(tape, rows_of(tape, tape.inputs), np.array(tape.outputs if outputs is None else outputs, np.int64))


def as_written(tape: Tape, kept_outputs: int = 0) -> bytearray:
    """1 for every operation that has to be done by itself, on its own operands, else 0; of inputs it says nothing.

    They are all that some argument of floor, ceil, sign, fmod or a comparison is computed from: where such an argument
    is rounded otherwise, a quotient that is a whole number, say, the result is off by a whole step.

    Args:
        kept_outputs: that many of the first outputs, and all that they need, are done as written, too.
    """
    roots = np.array(tape.outputs[:kept_outputs], np.int64)
    jumps = _JUMPS[np.frombuffer(tape.codes, np.uint8)[tape.inputs :]]
    if not jumps.any():
        return _marked(tape, rows_of(tape, tape.inputs), roots) if len(roots) else bytearray(len(tape))
    rows = rows_of(tape, tape.inputs)
    jumps &= np.frombuffer(_marked(tape, rows, np.array(tape.outputs, np.int64)), bool)[tape.inputs :]
    return _marked(tape, rows, np.concatenate([roots, rows[jumps, 1], rows[jumps, 2]]))


def _marked(tape: Tape, rows: Integers, roots: Integers) -> bytearray:
    """What roots depend on; `rows` are those of the operations."""
    marks = np.zeros(len(tape), bool)
    marks[roots[roots >= 0]] = True
    # from the last operation to the first; where one takes fewer arguments, a reference of 0 stands for an input
    to = np.ascontiguousarray(rows[::-1, 1:])
    start = np.broadcast_to(np.arange(len(tape) - 1, tape.inputs - 1, -1)[:, np.newaxis], to.shape)
    inside = to >= tape.inputs
    return bytearray(spread(marks, start[inside], to[inside]).tobytes())


def unattached(tape: Tape) -> tuple[Tape, Integers]:
    """The tape after differentiation, ``attach(x, d)`` being x; and the new reference of each old one."""
    if _ATTACH not in tape.codes:
        return tape, np.arange(len(tape))
    rows = rows_of(tape, tape.inputs)
    rows[rows[:, 0] == _ATTACH, 0] = slot.TAKE
    result, values = extended(tape.emptied(), rows)
    result.outputs = moved(tape.outputs, values).tolist()
    return result, values
