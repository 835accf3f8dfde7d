"""Memory that `accumulus.tape.compiled.passes_kernel` works on."""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.state import NOTHING, Floats, Integers, Record, Records, State

#: What to do: fill the hash tables, run commands, spread marks along edges, order vertices.
INDEX, WRITE, SPREAD, SORT = range(4)
#: How running commands ends: all done, an operation on constants to be evaluated, which is in the row behind the last,
#: no room left.
DONE, FOLD, FULL = range(3)
#: Commands that are no operation of the table: the argument itself; a quotient of `accumulus.rewriting.canonical`, of
#: which the reciprocal is shared or not.
TAKE: Final = 0
QUOTIENT: Final = 254
SHARED_QUOTIENT: Final = 255
#: Added to the code of a command in which zeros keep their sign, or of an operation that is written as it is given.
SIGNED: Final = 256
VERBATIM: Final = 512
#: What is left of a command without them.
CODE: Final = 255
#: Rows and constants that one command may need.
ROOM: Final = 8
#: Bits of the properties of an operation; below them the number of arguments.
ARITY: Final = 3
COMMUTATIVE, ODD, EVEN, JUMPS = 4, 8, 16, 32


class Row(Record):
    """An operation of a tape, or a command.

    Attributes:
        code: of the operation.
        first, second, third: its arguments; 0 where it takes fewer.
    """

    code: int
    first: int
    second: int
    third: int


class PassesState(State):
    """A tape that is written, or edges of a graph.

    Attributes:
        mode: what to do.
        inputs: of the tape.
        rows: by reference; those of inputs are not looked at.
        length: rows that there are.
        row_limit: rows that there is room for.
        constants: the constant −1 − k is at k.
        constant_count, constant_limit: how many there are, and how many there is room for.
        table, constant_table: hash tables of operations and of constants: 1 + reference, 1 + place, 0 where nothing is.
        table_bits, constant_bits: a table has 2 ** bits entries.
        properties: of operations, by code.
        commands: to run; their arguments are places among the values, or constants.
        at, end: the next command, and the one after the last.
        values: references: those that are given, then what each command gave.
        given: how many are given.
        signed_zeros: of the command that is run, whether zeros keep their sign, 0 if not.
        negations: changes of sign that come after the operation that the caller is to evaluate.
        answered: 1 if its value is there.
        answer: its value.
        marks: of vertices, each a set of bits.
        start, to: ends of edges; of SORT only the starts, grouped by the vertex that the edge leads to.
        count: edges of SPREAD.
        first_edge: where each vertex's group begins, (vertices + 1,).
        waiting: how many vertices each waits for.
        order, ordered: vertices in order, and how many these are.
    """

    mode: int = 0
    inputs: int = 0
    rows: Records[Row] = Records.zeros(Row, 0)
    length: int = 0
    row_limit: int = 0
    constants: Floats = np.zeros(0)
    constant_count: int = 0
    constant_limit: int = 0
    table: Integers = NOTHING
    table_bits: int = 0
    constant_table: Integers = NOTHING
    constant_bits: int = 0
    properties: Integers = NOTHING
    commands: Records[Row] = Records.zeros(Row, 0)
    at: int = 0
    end: int = 0
    values: Integers = NOTHING
    given: int = 0
    signed_zeros: int = 0
    negations: int = 0
    answered: int = 0
    answer: float = 0.0
    marks: Integers = NOTHING
    start: Integers = NOTHING
    to: Integers = NOTHING
    count: int = 0
    first_edge: Integers = NOTHING
    waiting: Integers = NOTHING
    order: Integers = NOTHING
    ordered: int = 0
