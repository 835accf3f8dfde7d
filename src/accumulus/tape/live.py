"""What of a tape its outputs need, and what of it has to be rounded as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["as_written", "needed", "unattached"]

_JUMPS: Final = bytes(operation.jumps for operation in OPERATIONS)
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


def as_written(tape: Tape, kept_outputs: int = 0) -> bytes | bytearray:
    """1 for every operation that has to be done by itself, on its own operands, else 0; of inputs it says nothing.

    They are all that some argument of floor, ceil, sign or a comparison is computed from: where such an argument is
    rounded otherwise, a quotient that is a whole number, say, the result is off by a whole step.

    Args:
        kept_outputs: that many of the first outputs, and all that they need, are done as written, too.
    """
    jumping = {code for code in set(tape.codes) if _JUMPS[code]}
    roots = tape.outputs[:kept_outputs]
    if jumping:
        marks = needed(tape)
        jumps = (r for r in range(tape.inputs, len(tape)) if marks[r] and tape.codes[r] in jumping)
        roots = [*roots, *(argument for r in jumps for argument in tape.arguments(r))]
    return needed(tape, roots) if roots else bytes(len(tape))


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
