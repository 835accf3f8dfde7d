"""The branches of a tape, and comparisons by which one after the other is taken.

A select is reached if what takes its value is: it is an output, an argument of what is reached, or the branch that is
taken of a select that is reached. Its conditions are joined by and, or and not out of comparisons.
"""

from __future__ import annotations

import random
from typing import Final

from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["Branches"]

_SELECT: Final = BY_NAME["select"].code
_AND, _OR, _NOT = (BY_NAME[name].code for name in ("logical_and", "logical_or", "logical_not"))


class Branches:
    """Which branches of a tape have been taken."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        live = needed(tape)
        self._live = [r for r in range(tape.inputs, len(tape)) if live[r]]
        self._missing = {(r, side) for r in self._live if tape.codes[r] == _SELECT for side in (True, False)}

    @property
    def all_taken(self) -> bool:
        """Whether every branch has been taken, or cannot be."""
        return not self._missing

    def choose(self, rng: random.Random) -> dict[int, bool]:
        """Comparisons by reference, and whether they have to hold so that more branches are taken."""
        tape, missing = self._tape, self._missing
        leads = bytearray(len(tape))  # to a branch that has not been taken
        for r in self._live:
            own = tape.codes[r] == _SELECT and ((r, True) in missing or (r, False) in missing)
            leads[r] = own or any(a >= 0 and leads[a] for a in tape.arguments(r))
        reached = bytearray(len(tape))
        for output in tape.outputs:
            if output >= 0:
                reached[output] = 1
        chosen: dict[int, bool] = {}
        before = len(missing)
        for r in reversed(self._live):
            if not reached[r]:
                continue
            arguments = tape.arguments(r)
            if tape.codes[r] == _SELECT:
                condition, *sides = arguments
                wanted = [
                    (r, side) in missing or (a >= 0 and leads[a] == 1)
                    for side, a in zip((True, False), sides, strict=True)
                ]
                side = wanted[0] if wanted[0] != wanted[1] else rng.random() < 0.5
                side = self._force(condition, side, chosen)
                missing.discard((r, side))
                taken = sides[0 if side else 1]
                arguments = (condition, taken)
            for a in arguments:
                if a >= 0:
                    reached[a] = 1
        if len(missing) == before:
            missing.clear()  # what is left is out of reach
        return chosen

    def _force(self, condition: int, wanted: bool, chosen: dict[int, bool]) -> bool:
        """Choose comparisons that make a condition hold, or not, as far as they are free; what it is then."""
        tape = self._tape
        if condition < 0:
            return bool(tape.value_of(condition))
        code = tape.codes[condition]
        if code == _NOT:
            return not self._force(tape.first[condition], not wanted, chosen)
        if code in (_AND, _OR):
            both = wanted == (code == _AND)
            one = self._force(tape.first[condition], wanted, chosen)
            if not both and one == wanted:
                return wanted
            two = self._force(tape.second[condition], wanted, chosen)
            return (one and two) if code == _AND else (one or two)
        if code == _SELECT:  # a choice between truth values
            return wanted
        return chosen.setdefault(condition, wanted)
