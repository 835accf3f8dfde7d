"""Values that no program has, and by which several values of the cheapest one take one operation each.

What a program by value is made of is computed by some program for the same. A helper is not: it is a sum, a difference
or a product of two values of the cheapest program, and with a third it makes two or more others of that. It pays where
these cost more than one operation each now, which the choice of definitions finds out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.machine import kernel
from accumulus.native.state import Integers, Records
from accumulus.resubstitution.compiled.definitions_state import CODE, SECOND
from accumulus.resubstitution.compiled.helpers_state import Helper, HelpersState, Wanted
from accumulus.resubstitution.compiled.pairs_state import DIFFERENCE, PRODUCT
from accumulus.resubstitution.definitions import ADD, DIVIDE, MULTIPLY, SUBTRACT
from accumulus.resubstitution.values import Reading, Values
from accumulus.tape.passes import commands, extended
from accumulus.tape.tape import Tape

__all__ = ["with_helpers"]

#: Helpers that are taken, at most: those that the most values want.
MOST: Final = 200
#: Values that they are looked for among, at random if there are more.
MOST_VALUES: Final = 500
#: What a value wants with one other, at most: sum, difference, product, quotient.
WISHES: Final = 4


def with_helpers(values: Values, program: Reading, seed: int) -> Tape | None:
    """A program whose outputs are helpers for that one; None if there are none.

    Args:
        program: the cheapest.
        seed: of the point at which they are looked for, and of which are taken of those that as many values want.
    """
    random = np.random.default_rng(seed)
    tape, meanings = program.tape, np.array(program.meanings, np.int64)
    numbers = np.fromiter(values.numbers, np.int64)
    # references of values that can be told, one of each
    is_told = np.isin(np.abs(meanings), values.told) & (meanings != 0) & ~np.isin(np.abs(meanings), numbers)
    references = np.flatnonzero(is_told)
    references = references[np.unique(np.abs(meanings[references]), return_index=True)[1]]
    if len(references) > MOST_VALUES:
        references = random.permutation(references)[:MOST_VALUES]
    found = _found(values, np.abs(meanings[references]), seed)
    found = found[np.lexsort([random.random(len(found)), -found[:, 0]])[:MOST]]
    if not len(found):
        return None
    _, way, first, second = found.T
    first, second = references[first - 1], references[second - 1]
    # values, of which a reference may be the negative
    is_turned = np.sign(meanings[first]) != np.sign(meanings[second])
    codes = np.where(way == PRODUCT, MULTIPLY, np.where((way == DIFFERENCE) == is_turned, ADD, SUBTRACT))
    helped, made = extended(tape, commands(len(way), codes, first, second))
    helped.outputs = made[len(tape) :].tolist()
    return helped


def _found(values: Values, nodes: Integers, seed: int) -> Integers:
    """How many of some values want a helper, how it is made, and of which two, counted from 1; (helpers, 4)."""
    count = len(nodes) + 1
    real, imaginary = np.ones(count), np.zeros(count)
    real[1:], imaginary[1:] = values.at_complex_point(nodes, seed)
    rows = values.definitions.rows
    is_open, divides = np.zeros((2, count), np.int64)
    is_open[1:] = ~values.is_given[nodes]
    divides[1:] = np.isin(nodes, np.abs(rows[rows[:, CODE] == DIVIDE, SECOND]))
    bits = (2 * (WISHES + 1) * count * count).bit_length()
    state = HelpersState(
        real=real,
        imaginary=imaginary,
        count=count,
        open=is_open,
        divides=divides,
        wanted=Records.zeros(Wanted, 1 << bits),
        table_bits=bits,
        found=Records.zeros(Helper, 2 * count * count),
        found_limit=2 * count * count,
    )
    kernel("resubstitution.helpers")(state.address)
    found: Integers = state.found.words.reshape(-1, len(Helper.fields))[: state.found_count]
    return found
