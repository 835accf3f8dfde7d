"""The primal operations of a program, those of the function itself, for programs that leave them as they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from accumulus.tape.live import needed, signed_rows
from accumulus.tape.passes import Integers, extended, moved
from accumulus.tape.tape import Tape

__all__ = ["primal_operations", "without_dead"]


def primal_operations(tape: Tape, values: int) -> frozenset[int]:
    """References of the operations that the first `values` outputs need: those of the function itself."""
    return frozenset(_operations(tape, tape.outputs[:values]).tolist())


def without_dead(tape: Tape, chosen: Collection[int]) -> tuple[Tape, frozenset[int]]:
    """The operations that the outputs need, none of them rewritten; and those of `chosen` by their new references."""
    live = _operations(tape, tape.outputs)
    place = np.full(len(tape), -1)
    place[: tape.inputs] = np.arange(tape.inputs)
    place[live] = tape.inputs + np.arange(len(live))
    rows = signed_rows(tape)[live]
    rows[:, 1:] = moved(rows[:, 1:], place)
    # builders find nothing to simplify in what other builders left, so that each row writes one operation
    result, values = extended(tape.emptied(), rows)
    result.outputs = moved(moved(tape.outputs, place), values).tolist()
    kept = place[sorted(chosen)]
    return result, frozenset(values[kept[kept >= 0]].tolist())


def _operations(tape: Tape, outputs: Sequence[int]) -> Integers:
    return np.flatnonzero(np.frombuffer(needed(tape, outputs), bool)[tape.inputs :]) + tape.inputs
