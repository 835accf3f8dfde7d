"""Exact values of constants that folding has rounded, for tapes that are rewritten.

A rewritten program is compared with the given one as an expression, and 0.1 · 3 is not the double next to it. So a tape
that is rewritten, and all tapes that are made of it, note which fraction each new constant stands for. The constants of
the given program stand for themselves.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fractions import Fraction

    from accumulus.tape.tape import Tape

#: Largest number of constants among which operands of a folded one are sought, and of these folded at once: the time
#: grows with the square of the first, and in proportion to the second. Of longer tapes, constants that folding has
#: rounded count as exact, so that rewriting may be refused.
OPERANDS: Final = 512
FOLDED: Final = 256
_WAYS: Final = (
    (np.multiply, operator.mul),
    (np.divide, operator.truediv),
    (np.add, operator.add),
    (np.subtract, operator.sub),
)


class Folding:
    """Fractions that constants stand for.

    Attributes:
        fractions: fractions that are no doubles, by the magnitude of the double next to them.
        given: magnitudes of doubles that stand for themselves.

    >>> from fractions import Fraction
    >>> folding = Folding([0.1, 3.0])
    >>> folding.of(-0.1) == -Fraction(0.1), folding.rounded(Fraction(1, 3)), folding.of(1 / 3)
    (True, 0.3333333333333333, Fraction(1, 3))
    >>> folding.rounded(Fraction(1, 10))  # the double next to it stands for another number
    0.10000000000000002
    """

    def __init__(self, given: Any = ()) -> None:
        self.fractions: dict[float, Fraction] = {}
        self.given = {0.0, 1.0, 2.0, *map(abs, given)}  # rules make 2 a of a + a

    def of(self, number: float) -> Fraction | float:
        """Return the fraction that a constant stands for; the constant itself if it is not finite."""
        from fractions import Fraction  # few processes need it

        if not math.isfinite(number):
            return number
        if abs(number) not in self.fractions:
            return Fraction(number)
        return self.fractions[abs(number)] if number > 0.0 else -self.fractions[abs(number)]

    def rounded(self, number: Fraction | float) -> float:
        """Return the double next to a number, or the one after it if another number has been rounded to that.

        It is infinite for numbers beyond the largest double.
        """
        size: Any = abs(number)
        double = math.inf if size > sys.float_info.max else float(size)
        if not math.isfinite(double):
            return double if number >= 0 else -double
        while double != size and (double in self.given or self.fractions.get(double, size) != size):
            double = math.nextafter(double, math.inf)
        while double == size and double in self.fractions:
            double = math.nextafter(double, math.inf)
        if double == size:
            self.given.add(double)  # no other number is rounded to it later
        elif math.isfinite(double):
            self.fractions[double] = size
        return double if number >= 0 else -double

    def note(self, number: float, fraction: Fraction) -> None:
        """Note that a constant stands for a fraction, if it does not stand for another number."""
        if number != fraction and number not in self.given:
            self.fractions.setdefault(number, fraction)

    def note_folded(self, made: Tape, source: Tape) -> None:
        """Note the constants of a tape made of another one: reciprocals, products, quotients, sums and differences.

        A constant that is none of these stands for itself.
        """
        known = set(map(abs, source.constants))
        self.given |= known - self.fractions.keys()
        new = {abs(number) for number in made.constants if math.isfinite(number)} - known - self.fractions.keys()
        if not new:
            return
        operands = np.array(sorted(number for number in known if math.isfinite(number) and number)[:OPERANDS])
        for number in sorted(new)[:FOLDED] if len(operands) else ():
            fraction = self._folded(number, operands)
            if fraction is not None:
                self.note(number, fraction)
        self.given |= new - self.fractions.keys()

    def _folded(self, number: float, operands: NDArray[np.float64]) -> Fraction | None:
        """Return the exact value of a number that two of the operands are folded to, or 1 and one of them.

        It may also be such a number times a power of two, which rounds nothing.
        """
        digits, exponent = np.frexp(number)
        with np.errstate(all="ignore"):
            for ones, of_all, combine in ((np.ones(1), *_WAYS[1]), *((operands, *way) for way in _WAYS)):
                folded, exponents = np.frexp(of_all.outer(ones, operands))
                rows, columns = np.nonzero(folded == digits)
                if len(rows):
                    at = rows[0], columns[0]
                    exact: Any = combine(self.of(float(ones[at[0]])), self.of(float(operands[at[1]])))
                    scaled: Fraction = exact * self.of(2.0) ** int(exponent - exponents[at])
                    return scaled
        return None


def with_folding(tape: Tape) -> Tape:
    """Return the tape, or a copy of it, so that tapes made of it note what folded constants stand for."""
    if tape.folding is None:
        tape = tape.copy()
        tape.folding = Folding(tape.constants)
    return tape


def with_noted_folding(made: Tape, source: Tape) -> Tape:
    """Return a tape made of another one, which notes what the constants stand for that are new in it."""
    made.folding = source.folding
    if made.folding is not None:
        made.folding.note_folded(made, source)
    return made
