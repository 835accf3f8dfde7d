"""Which operations of a program are the function's own, for programs that leave them as they are written."""

from __future__ import annotations

from collections.abc import Collection

from accumulus.tape.live import needed
from accumulus.tape.tape import Tape

__all__ = ["own_operations", "without_dead"]


def own_operations(tape: Tape, values: int) -> frozenset[int]:
    """References of the operations that the first `values` outputs need: those of the function itself."""
    marks = needed(tape, tape.outputs[:values])
    return frozenset(reference for reference in range(tape.inputs, len(tape)) if marks[reference])


def without_dead(tape: Tape, chosen: Collection[int]) -> tuple[Tape, frozenset[int]]:
    """The operations that the outputs need, none of them rewritten; and those of `chosen` by their new references."""
    marks = needed(tape)
    result = tape.emptied()
    moved = list(range(tape.inputs))
    for reference in range(tape.inputs, len(tape)):
        # builders find nothing to simplify in what other builders left, so that each writes one operation
        new = [moved[a] if a >= 0 else a for a in tape.arguments(reference)] if marks[reference] else []
        moved.append(result.apply_code(tape.codes[reference], new) if marks[reference] else -1)
    result.outputs = [moved[output] if output >= 0 else output for output in tape.outputs]
    return result, frozenset(moved[reference] for reference in chosen if marks[reference])
