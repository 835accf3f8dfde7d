"""Numbers that rounding has left beside short ones.

Constants that are multiplied and added when a program is rewritten are rounded: √½·√½ is 0.5000000000000001, and
0.17·312.5 is 53.12500000000001. The short number is as near to what is meant, equal to others that are written in
another way, and what a person would write.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from accumulus.tape.live import seeing_zero_signs
from accumulus.tape.tape import Tape

__all__ = ["with_short_constants"]

#: Digits of what is short: one number in 300,000 has such a neighbour by chance.
DIGITS: Final = 10
#: How far away that is, at most, in units in the last place.
UNITS: Final = 2.0


def with_short_constants(tape: Tape, given: Iterable[float]) -> Tape:
    """The tape with short numbers in the place of constants that are next to them; the tape itself if it has none.

    Args:
        given: constants that somebody has written, which stay.

    >>> tape = Tape(1)
    >>> tape.outputs = [tape.multiply(tape.constant(0.1 * 3.0), 0)]
    >>> print(with_short_constants(tape, [0.1, 3.0]))
    t1 = multiply(0.3, x0)
    return t1
    """
    stay = {abs(number) for number in given}
    constants = [number if abs(number) in stay else _short(number) for number in tape.constants]
    if all(short == number or math.isnan(number) for short, number in zip(constants, tape.constants, strict=True)):
        return tape
    shorter = tape.copy()
    shorter.constants = constants
    if len({*map(abs, constants)}) == len({*map(abs, tape.constants)}) or len(seeing_zero_signs(tape)):
        return shorter
    # numbers that have become equal may make operations equal
    return min(shorter, _written_again(shorter), key=lambda each: each.operations)


def _written_again(tape: Tape) -> Tape:
    written = Tape(tape.inputs)
    moved = list(range(tape.inputs))

    def place(reference: int) -> int:
        return moved[reference] if reference >= 0 else written.constant(tape.value_of(reference))

    for reference in range(tape.inputs, len(tape)):
        moved.append(written.apply_code(tape.codes[reference], [place(a) for a in tape.arguments(reference)]))
    written.outputs = [place(output) for output in tape.outputs]
    return written


def _short(number: float) -> float:
    if not math.isfinite(number):
        return number
    short = float(f"{number:.{DIGITS}g}")
    return short if 0.0 < abs(short - number) <= UNITS * math.ulp(number) else number
