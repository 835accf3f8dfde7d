"""What of a tape its outputs need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["needed", "unattached"]

_ATTACH: Final = BY_NAME["attach"].code


def needed(tape: Tape, outputs: Sequence[int] | None = None) -> bytearray:
    """1 for every operation that an output, of all or of some, depends on, else 0; of inputs it says nothing."""
    marks = bytearray(len(tape))
    first, second, third = tape.first, tape.second, tape.third
    for output in tape.outputs if outputs is None else outputs:
        if output >= 0:
            marks[output] = 1
    for reference in reversed(range(tape.inputs, len(tape))):
        if marks[reference]:
            a, b, c = first[reference], second[reference], third.get(reference, 0)
            if a >= 0:
                marks[a] = 1
            if b >= 0:
                marks[b] = 1
            if c > 0:
                marks[c] = 1
    return marks


def unattached(tape: Tape) -> tuple[Tape, list[int]]:
    """The tape after differentiation, ``attach(x, d)`` being x; and the new reference of each old one."""
    moved = list(range(len(tape)))
    if _ATTACH not in tape.codes:
        return tape, moved
    result = tape.emptied()
    for r in range(tape.inputs, len(tape)):
        new = [moved[a] if a >= 0 else a for a in tape.arguments(r)]
        moved[r] = new[0] if tape.codes[r] == _ATTACH else result.apply_code(tape.codes[r], new)
    result.outputs = [moved[output] if output >= 0 else output for output in tape.outputs]
    return result, moved
