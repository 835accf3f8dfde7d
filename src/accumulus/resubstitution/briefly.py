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

from accumulus.deadline import Deadline
from accumulus.resubstitution.resubstitute import Resubstitution
from accumulus.rewriting import optimise as rules
from accumulus.rewriting.canonical import canonical
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


def briefly(tape: Tape, seed: int, deadline: Deadline, points: NDArray[np.float64] | None, dtype: str) -> Tape:
    """A tape with the same inputs and outputs, and never more operations, verified; see `accumulus.resubstitution`.

    Args:
        points: real points of the domain, (points, inputs).
        dtype: what the program is computed in.
    """
    rounds = rules.Rounds()
    start = canonical(tape)
    by_value = Resubstitution.of(start, 0, points, seed, dtype, told=TOLD, comparisons=COMPARISONS, few=True)
    if by_value is None:
        return rules.optimise(tape, seed=seed, deadline=deadline, rounds=rounds)

    def finish(found: Tape) -> Tape:
        return rules.tidied(rules.sketch(found, AFTER, seed=seed, deadline=deadline), start)

    rough = rules.sketch(start, BEFORE, seed=seed, deadline=deadline, is_last=False)
    if start.operations <= LARGE or rough.operations <= LEFT * start.operations:
        found = by_value.cheaper(rough, CHOICE * rough.operations, deadline, seed, finish)
        if found is not None and found.operations < start.operations:
            return found
    rest = replace(rounds, moves=rounds.moves - BEFORE)
    return rules.optimise(tape, seed=seed, deadline=deadline, rounds=rest, begin_with=rough)
