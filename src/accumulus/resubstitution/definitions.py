"""Definitions of values: which operation makes each of which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.weights import IN_SEARCH, UNIT

__all__ = ["ADD", "COPY", "DIVIDE", "MULTIPLY", "NEGATIVE", "PRICES", "SUBTRACT", "Definition", "normal"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
#: The code of a definition that is another value itself.
COPY: Final = -1
#: What an operation costs, by its code; a copy, whose code is -1, nothing.
PRICES: Final = [*(IN_SEARCH.get(row.name, UNIT) for row in OPERATIONS), 0]


class Definition(NamedTuple):
    """An operation that makes a value of others.

    Attributes:
        node: the value.
        code: of the operation; differences are sums.
        arguments: values, their negatives where these are meant.
        sign: what the operation's result is multiplied by.
    """

    node: int
    code: int
    arguments: tuple[int, ...]
    sign: int


def normal(node: int, code: int, arguments: Sequence[int], sign: int) -> Definition:
    """A definition, written in one way: signs of products outside, the first term of sums positive, numbers sorted."""
    if code in (ADD, MULTIPLY):
        arguments = sorted(arguments, key=abs)
    if code in (MULTIPLY, DIVIDE):
        for argument in arguments:
            sign = sign if argument > 0 else -sign
        arguments = [abs(argument) for argument in arguments]
    elif code == ADD and arguments[0] < 0:
        sign, arguments = -sign, [-argument for argument in arguments]
    return Definition(node, code, tuple(arguments), sign)
