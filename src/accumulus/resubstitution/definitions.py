"""Definitions of values: which operation makes each of which others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.resubstitution.compiled.definitions_state import ENTER, WIDTH, DefinitionsState
from accumulus.resubstitution.compiled.reading_state import COPY
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.weights import IN_SEARCH, UNIT

__all__ = ["ADD", "COPY", "DIVIDE", "MULTIPLY", "NEGATIVE", "PRICES", "SUBTRACT", "Definition", "Table", "normal"]

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
#: What an operation costs, by its code; a copy, whose code is -1, nothing.
PRICES: Final = [*(IN_SEARCH.get(row.name, UNIT) for row in OPERATIONS), 0]


class Definition(NamedTuple):
    """An operation that makes a value of others.

    Attributes:
        node: the value.
        code: of the operation; differences are sums, and of a definition that is another value itself it is `COPY`.
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


class Table:
    """Definitions, each once, numbered in the order in which they were found."""

    def __init__(self) -> None:
        self._state = DefinitionsState(rows=np.zeros((0, WIDTH), np.int64))

    def __len__(self) -> int:
        return self._state.count

    def __getitem__(self, number: int) -> Definition:
        node, code, a, b, c, sign = self._state.rows[number].tolist()
        return Definition(node, code, (a, b, c) if c else (a, b) if b else (a,), sign)

    def __iter__(self) -> Iterator[Definition]:
        return map(self.__getitem__, range(len(self)))

    @property
    def rows(self) -> Integers:
        """Node, code, three arguments (0 where there are fewer) and sign of each, (definitions, WIDTH)."""
        return self._state.rows[: len(self)]

    def enter(self, rows: Integers) -> Integers:
        """Add definitions, rows in normal form, that are not there; the number of each."""
        state = self._state
        room, needed = len(state.rows), state.count + len(rows)
        if needed > room:
            grown = np.zeros((2 * needed, WIDTH), np.int64)
            grown[: state.count] = self.rows
            state.rows, state.table_bits, state.indexed = grown, (4 * needed - 1).bit_length(), 0
            state.table = np.zeros(1 << state.table_bits, np.int64)
        state.given, state.given_count = np.ascontiguousarray(rows, np.int64), len(rows)
        state.numbers = np.zeros(len(rows), np.int64)
        state.mode = ENTER
        kernel("resubstitution.definitions")(state.address)
        return state.numbers

    def add(self, definition: Definition) -> int:
        """Add one definition; its number."""
        arguments = [*definition.arguments, 0, 0][:3]
        row = [definition.node, definition.code, *arguments, definition.sign]
        return int(self.enter(np.array([row], np.int64))[0])
