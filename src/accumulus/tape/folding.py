"""Exact values of constants that folding has rounded, for tapes that are rewritten.

A rewritten program is compared with the given one as an expression, and 0.1 · 3 is not the double next to it. So a tape
that is rewritten, and all tapes that are made of it, note which fraction each new constant stands for. The constants of
the given program stand for themselves.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fractions import Fraction

#: Largest number of constants among which operands of a folded one are sought, and of these folded at once: the time
#: is in proportion to both. Of longer tapes, constants that folding has rounded count as exact, so that rewriting may
#: be refused.
OPERANDS: Final = 512
FOLDED: Final = 256


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

    def note_folded(self, made: Sequence[float], source: Sequence[float]) -> None:
        """Note the constants of a tape made of another one: reciprocals, products, quotients, sums and differences.

        A constant that is none of these stands for itself.
        """
        known = set(map(abs, source))
        self.given |= known - self.fractions.keys()
        new = {abs(number) for number in made if math.isfinite(number)} - known - self.fractions.keys()
        if not new:
            return
        operands = _Operands(sorted(number for number in known if math.isfinite(number) and number)[:OPERANDS])
        for number in sorted(new)[:FOLDED]:
            found = operands.of(number)
            if found is not None:
                combine, left, right, exponent = found
                exact: Any = combine(self.of(left), self.of(right))
                self.note(number, exact * self.of(2.0) ** exponent)
        self.given |= new - self.fractions.keys()


class _Operands:
    """Constants that others may be folded from, sorted so that of each one the partner is found that makes a number."""

    def __init__(self, operands: Sequence[float]) -> None:
        self._sizes = np.array(operands)
        self._digits, self._exponents = np.frexp(self._sizes)
        self._distinct, self._by_digits = np.unique(self._digits, return_index=True)

    def of(self, number: float) -> tuple[Any, float, float, int] | None:
        """Return an operation, two operands (or 1 and one of them) and a power of two whose product is the number.

        The power of two rounds nothing.
        """
        sizes, digits = self._sizes, self._digits
        if not len(sizes):
            return None
        goal, power = np.frexp(number)
        whole = int(goal * 2.0**53)
        lost = (whole & -whole).bit_length() + 2  # what a difference loses in front is zero behind
        with np.errstate(all="ignore"):
            scaled = np.ldexp(goal, self._exponents[:, None] - np.arange(-1, lost))
            tries = (
                (np.divide, operator.truediv, np.ones(1), self._like(1.0 / np.array([[goal]]))),
                (np.multiply, operator.mul, sizes, self._like(goal / digits[:, None])),
                (np.divide, operator.truediv, sizes, self._like(digits[:, None] / goal)),
                (np.add, operator.add, sizes, self._next_to(scaled[:, :2] - sizes[:, None])),
                (np.subtract, operator.sub, sizes, self._next_to(sizes[:, None] - scaled)),
            )
            for compute, combine, lefts, partners in tries:
                folded, exponents = np.frexp(compute(lefts[:, None], sizes[partners]))
                rows, columns = np.nonzero(folded == goal)
                if len(rows):
                    at = rows[0], columns[0]
                    partner = float(sizes[partners[at]])
                    return combine, float(lefts[at[0]]), partner, int(power - exponents[at])
        return None

    def _like(self, quotients: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return operands whose digits are those of quotients, or next to them, for each row of quotients."""
        found = np.searchsorted(self._distinct, np.frexp(quotients)[0][:, 0])
        around = (found[:, None] + np.arange(-2, 2)) % len(self._distinct)
        return np.take(self._by_digits, around)

    def _next_to(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return operands that are equal to numbers, or next to them, for each row of numbers."""
        found = np.searchsorted(self._sizes, numbers)
        around = (found[..., None] + np.arange(-2, 2)) % len(self._sizes)
        return around.reshape(len(numbers), -1)
