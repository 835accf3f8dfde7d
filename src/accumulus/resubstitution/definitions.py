"""Definitions of values: which operation makes each of which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from accumulus.tape.operations import BY_NAME

__all__ = ["ADD", "COPY", "DIVIDE", "MULTIPLY", "NEGATIVE", "SUBTRACT", "Definition", "normal"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
#: The code of a definition that is another value itself.
COPY: Final = -1


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
