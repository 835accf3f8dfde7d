"""The conditions that decide a number which is made of constants by choices alone.

Where code merges ``low = middle`` under a condition, `low` becomes a choice between two constants, and what is computed
of it takes finitely many values. If the function then asks for its truth, or uses it as an index, those conditions are
what has to stay as it is: they are fewer than what was computed of the number, which then need not be computed. And
where conditions stay as they are, choices by them are no choices any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from accumulus.native.state import Integers
from accumulus.tape.blocks import BlockTape
from accumulus.tape.compiled.passes_state import SIGNED
from accumulus.tape.live import seeing_zero_signs
from accumulus.tape.operations import BY_NAME, INPUT
from accumulus.tape.passes import extended, rows_of
from accumulus.tape.tape import Tape

#: Conditions of one number, at most: of more, the number itself is as good a guard.
MOST_CONDITIONS: Final = 64

_SELECT: Final = BY_NAME["select"].code
_AND: Final = BY_NAME["logical_and"].code
_NOT: Final = BY_NAME["logical_not"].code


class Choices:
    """The conditions of numbers on a tape, which are found once each.

    Args:
        tape: that is recorded on.
        is_true: whether a truth value on it is true at the given point.
    """

    def __init__(self, tape: Tape | BlockTape, is_true: Callable[[int], bool]) -> None:
        self._tape, self._is_true = tape, is_true
        #: By reference: conditions, in the order in which they are met; None of what depends on inputs otherwise.
        self._found: dict[int, tuple[int, ...] | None] = {}

    def conditions(self, reference: int) -> tuple[int, ...] | None:
        """References of the truth values that make the number what it is at the given point; None of other numbers."""
        found, waiting = self._found, [reference]
        while waiting:
            following = self._next(waiting[-1])
            if following is None:
                waiting.pop()
            else:
                waiting.append(following)
        return () if reference < 0 else found[reference]

    def _next(self, reference: int) -> int | None:
        """Return what has to be known before this number is; None once it is known."""
        found, tape = self._found, self._tape
        if reference < 0 or reference in found:
            return None
        code, operands = tape.operation(reference).code, tape.arguments(reference)
        if not operands:
            code = INPUT  # of what is inside of a loop nothing is known
        if code == _SELECT:
            condition = operands[0]
            if condition >= 0 and condition not in found:
                return condition
            operands = (condition, operands[1 if self._truth(condition) else 2])
        conditions: dict[int, None] = {}
        known, longest = code != INPUT, 0
        for operand in operands:
            if operand < 0:
                continue
            if operand not in found:
                return operand
            own = found[operand]
            if own is None and code == _SELECT and operand == operands[0]:
                own = (operand,)
            if own is None:
                known = False
                break
            conditions.update(dict.fromkeys(own))
            longest = max(longest, len(own))
        # a count of what holds is the same number in many ways: there the number is the better guard
        known &= code == _SELECT or len(conditions) == longest
        found[reference] = tuple(conditions) if known and len(conditions) <= MOST_CONDITIONS else None
        return None

    def _truth(self, condition: int) -> bool:
        return bool(self._tape.value_of(condition)) if condition < 0 else self._is_true(condition)


def decided(tape: Tape, holds: Collection[int]) -> tuple[Tape, Integers] | None:
    """A tape without the choices that guards have decided; None if there are none.

    Args:
        tape: as it was recorded.
        holds: references of truth values that are true wherever the recording is used.

    Returns:
        The tape, without outputs, and where each reference of the old one is.
    """
    known: dict[int, bool] = {}
    waiting = list(holds)
    while waiting:
        condition = waiting.pop()
        if condition < 0 or condition in known:
            continue
        known[condition] = True
        if tape.codes[condition] == _AND:
            waiting += tape.arguments(condition)
        elif tape.codes[condition] == _NOT:
            known[tape.first[condition]] = False
    rows = rows_of(tape, tape.inputs)
    chosen = np.flatnonzero((rows[:, 0] == _SELECT) & np.isin(rows[:, 1], np.fromiter(known, np.int64)))
    if not len(chosen):
        return None
    rows[chosen, 1] = [tape.constant(float(known[condition])) for condition in rows[chosen, 1].tolist()]
    if tape.signed_zeros:
        rows[:, 0] += SIGNED
    result, values = extended(tape.emptied(), rows)
    result.signed_zeros = tape.signed_zeros
    # what sees the sign of a zero that has become a constant may have been folded
    result.folded_zero_signs = tape.folded_zero_signs or bool(len(seeing_zero_signs(tape)))
    return result, values
