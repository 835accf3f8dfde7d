"""Slots of the block that `accumulus.tape.compiled.passes_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Addresses: the tape's rows, its constants, hash tables of both, properties of operations by code, commands, values.
ROWS, CONSTANTS, TABLE, CONSTANT_TABLE, PROPERTIES, COMMANDS, VALUES = range(7)
#: Integers: what to do; bits of the tables; rows and constants that there are, and that there is room for.
MODE, TABLE_BITS, CONSTANT_BITS, LENGTH, CONSTANT_COUNT, ROW_LIMIT, CONSTANT_LIMIT = range(7, 14)
#: Integers: how many inputs; the next command, the one after the last; how many values are given.
INPUTS, AT, END, GIVEN = range(14, 18)
#: An operation on constants that the caller is to evaluate: code, three arguments; changes of sign that come after
#: it; whether the value is there; and the value.
FOLD_CODE, FOLD_FIRST, FOLD_SECOND, FOLD_THIRD, NEGATIONS, FOLDED, FOLD_VALUE = range(18, 25)
#: Addresses of marks and of the ends of edges, and their number.
MARKS, FROM, TO, COUNT = range(25, 29)
#: Addresses: for each vertex the first of the edges to it, how many it waits for, and vertices in order; how many these
#: are.
FIRST_EDGE, WAITING, ORDER, ORDERED = range(29, 33)
#: Integer: whether zeros keep their sign.
SIGNED_ZEROS = 33
SLOTS: Final = 34

#: What to do: fill the hash tables, run commands, spread marks along edges, order vertices.
INDEX, WRITE, SPREAD, SORT = range(4)
#: How running commands ends: all done, an operation on constants to be evaluated, no room left.
DONE, FOLD, FULL = range(3)
#: Words of a row and of a command: code and three arguments.
WIDTH: Final = 4
#: Commands that are no operation of the table: the argument itself; a quotient as `accumulus.rewriting.plain` writes it
#: down, of which the reciprocal is shared or not.
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
#: Bits of PROPERTIES; below them the number of arguments.
ARITY: Final = 3
COMMUTATIVE, ODD, EVEN, JUMPS = 4, 8, 16, 32
