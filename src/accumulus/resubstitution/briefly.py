"""Rules, values, rules: what the default effort does, in about the time that rules alone take.

What rules find in a few of their moves is read for values, beside the program as it was, and what is chosen of these is
rewritten by rules again: after a choice they win more than they could before it. Values are told at few points, and the
choice is short; what comes of it has to pass all tests that programs by value have to pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.resubstitution.resubstitute import Resubstitution
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.optimise import Rounds, by_rules, sketch, tidied
from accumulus.tape.tape import Tape

__all__ = ["briefly"]

#: Moves of rules before and after, and those of the choice, for each operation.
BEFORE: Final = 70
AFTER: Final = 200
CHOICE: Final = 40
#: Complex points at which values are told, at least: as many as there are distances of points from 0.
TOLD: Final = 3
#: Comparisons of a program, at most: each of them doubles the points.
COMPARISONS: Final = 2
#: Pairs of values take time with the square of their number: programs of more operations have to be such that rules
#: leave no more than that part of them.
LARGE: Final = 600
LEFT: Final = 0.95


def briefly(tape: Tape, context: Context, points: NDArray[np.float64] | None) -> Tape:
    """Return a tape with the same inputs and outputs, and never more operations, verified.

    Args:
        points: real points of the domain, (points, inputs).
    """
    rounds, options = Rounds(), context.options
    start = canonical(tape)
    by_value = Resubstitution.of(
        start, 0, points, options.seed, options.dtype, told=TOLD, comparisons=COMPARISONS, few=True
    )
    if by_value is None:
        return by_rules(tape, context, rounds=rounds)

    def finish(found: Tape) -> Tape:
        return tidied(sketch(found, AFTER, context), start)

    rough = sketch(start, BEFORE, context, is_last=False)
    if start.operations <= LARGE or rough.operations <= LEFT * start.operations:
        found = by_value.cheaper(rough, CHOICE * rough.operations, context, options.seed, finish)
        if found is not None and found.operations < start.operations:
            return found
    rest = replace(rounds, moves=rounds.moves - BEFORE)
    return by_rules(tape, context, rounds=rest, begin_with=rough)
