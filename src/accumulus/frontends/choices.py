"""The conditions that decide a number which is made of constants by choices alone.

Where code merges ``low = middle`` under a condition, `low` becomes a choice between two constants, and what is computed
of it takes finitely many values. If the function then asks for its truth, or uses it as an index, those conditions are
what has to stay as it is: they are fewer than what was computed of the number, which then need not be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accumulus.tape.operations import BY_NAME, INPUT
from accumulus.tape.tape import Tape

__all__ = ["Choices"]

#: Conditions of one number, at most: of more, the number itself is as good a guard.
MOST_CONDITIONS: Final = 64

_SELECT: Final = BY_NAME["select"].code


class Choices:
    """The conditions of numbers on a tape, which are found once each.

    Args:
        tape: that is recorded on.
        is_true: whether a truth value on it is true at the given point.
    """

    def __init__(self, tape: Tape, is_true: Callable[[int], bool]) -> None:
        self._tape, self._is_true = tape, is_true
        #: By reference: the conditions, in the order in which they are met; None of what depends on the inputs otherwise.
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
        """What has to be known before this number is; None once it is known."""
        found, tape = self._found, self._tape
        if reference < 0 or reference in found:
            return None
        code = tape.codes[reference]
        operands = () if code == INPUT else tape.arguments(reference)
        if code == _SELECT:
            condition = operands[0]
            if condition >= 0 and condition not in found:
                return condition
            operands = (condition, operands[1 if self._truth(condition) else 2])
        conditions: dict[int, None] = {}
        known = code != INPUT
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
        found[reference] = tuple(conditions) if known and len(conditions) <= MOST_CONDITIONS else None
        return None

    def _truth(self, condition: int) -> bool:
        return bool(self._tape.value_of(condition)) if condition < 0 else self._is_true(condition)
