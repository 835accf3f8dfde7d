"""Operations as formulas in words, with as few brackets as that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from accumulus.resubstitution.definitions import ADD, COPY, DIVIDE, MULTIPLY, Definition
from accumulus.tape.operations import OPERATIONS

__all__ = ["Text", "formula", "letters"]


class Text(NamedTuple):
    """A formula in words.

    Attributes:
        sign: of it; the text is without.
        text: it.
        level: 0 for sums, 1 for products and quotients, 2 for what needs no brackets.
        parts: factors, of a product.
        opposite: its negative, where that is written without brackets.
    """

    sign: int
    text: str
    level: int
    parts: tuple[str, ...] = ()
    opposite: str = ""

    def __str__(self) -> str:
        return self.text if self.sign > 0 else self.opposite or f"-{self.bracketed(1)}"

    @property
    def factors(self) -> tuple[str, ...]:
        """Those of a product, or all of it."""
        return self.parts or (self.bracketed(1),)

    def bracketed(self, least: int) -> str:
        """The text without its sign, as a part of what has that level."""
        return self.text if self.level >= least else f"({self.text})"

    def times(self, sign: int) -> Text:
        """It, or its negative."""
        return self._replace(sign=self.sign * sign)


def formula(definition: Definition, of: Callable[[int], Text]) -> Text:
    """An operation on texts of its arguments."""
    code, sign = definition.code, definition.sign
    arguments = [of(a) for a in definition.arguments]
    if code == COPY:
        return arguments[0].times(sign)
    if code == ADD:
        first, second = sorted((each.times(sign) for each in arguments), key=lambda each: -each.sign)
        text = f"{first} {'+' if second.sign > 0 else '-'} {second.bracketed(1)}"
        if first.sign > 0:
            return Text(1, text, 0)
        # of two negatives, so that the negative of that has no sign left
        return Text(-1, f"{first.times(-1)} + {second.bracketed(1)}", 0, opposite=text)
    if code == MULTIPLY:
        first, second = arguments
        factors = Counter([*first.factors, *second.factors])
        text = "·".join(f"{factor}{_power(times)}" for factor, times in factors.items())
        return Text(sign * first.sign * second.sign, text, 1, tuple(factors.elements()))
    if code == DIVIDE:
        first, second = arguments
        return Text(sign * first.sign * second.sign, f"{first.bracketed(1)}/{second.bracketed(2)}", 1)
    return Text(sign, f"{OPERATIONS[code].name}({', '.join(map(str, arguments))})", 2)


def _power(times: int) -> str:
    return "" if times == 1 else "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(times))


def letters() -> Iterator[str]:
    """Names for what has none: a, b, …, a1, b1, …, without those of inputs and operations."""
    turn = 0
    while True:
        yield from (letter + (str(turn) if turn else "") for letter in "abcdefghklmnpqrsuvw")
        turn += 1
