"""A tape as blocks of equal operations, where much of it repeats."""

from __future__ import annotations

from typing import Final

from accumulus.repetition.classes import classes_of
from accumulus.repetition.cones import Cones
from accumulus.repetition.writing import as_blocks
from accumulus.tape.blocks import BlockTape
from accumulus.tape.tape import Tape

__all__ = ["rolled"]

#: Operations below which a program is prepared quickly enough as it is, and called more quickly: of loops, results go
#: through memory. Recurrences have more to gain: written out, they are one long chain to plan and to compile.
FEWEST: Final = 40_000
FEWEST_IN_RECURRENCES: Final = 20_000
#: How often operations are repeated on average, at least; and how many different ones there may be.
REPEATED: Final = 16
MOST_DISTINCT: Final = 2_000


def rolled(tape: Tape) -> BlockTape | None:
    """The same program as blocks, with the same inputs and outputs; None where too little of it repeats.

    >>> tape = Tape(1000)
    >>> for k in range(FEWEST):
    ...     tape.outputs.append(tape.multiply(k % 1000, tape.constant(1.5 + k)))
    >>> [block.count for block in rolled(tape).blocks]
    [40000]
    """
    least = min(FEWEST, FEWEST_IN_RECURRENCES)
    if tape.operations < least:
        return None
    cones = Cones(tape)
    if cones.live < least:
        return None
    classes = classes_of(cones, min(cones.live // REPEATED, MOST_DISTINCT))
    if classes is None or (cones.live < FEWEST and not classes.recurrences):
        return None
    return as_blocks(cones, classes)
