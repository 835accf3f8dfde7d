"""A tape as blocks of equal operations, where much of it repeats."""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.native.state import Integers
from accumulus.repetition.classes import Classes, classes_of
from accumulus.repetition.compiled.cones_state import LITERAL, WIDTH
from accumulus.repetition.cones import Cones
from accumulus.tape.blocks import SUM, BlockTape, Column, Range, column
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["rolled"]

#: Operations below which a program is prepared quickly enough as it is, and called more quickly: of loops, results go
#: through memory.
FEWEST: Final = 40_000
#: How often operations are repeated on average, at least; and how many different ones there may be.
REPEATED: Final = 16
MOST_DISTINCT: Final = 2_000


def rolled(tape: Tape) -> BlockTape | None:
    """The same program as blocks, with the same inputs and outputs; None where too little of it repeats.

    >>> tape = Tape(1000)
    >>> for k in range(FEWEST):
    ...     tape.outputs.append(tape.multiply(k % 1000, tape.constant(1.5 + k)))
    >>> [block.count for block in rolled(tape).blocks]
    [40000]
    """
    if tape.operations < FEWEST:
        return None
    cones = Cones(tape)
    if cones.live < FEWEST:
        return None
    classes = classes_of(cones, min(cones.live // REPEATED, MOST_DISTINCT))
    return None if classes is None else _Writing(cones, classes).result()


class _Writing:
    """Blocks for the classes of a program."""

    def __init__(self, cones: Cones, classes: Classes) -> None:
        tape = cones.tape
        self._cones, self._classes = cones, classes
        self._made = BlockTape(tape.inputs, signed_zeros=tape.signed_zeros)
        self._constants = np.array(cones.constants, np.float64)
        #: Reference in the program that is made of each in the given one, constants apart.
        self._moved = np.full(cones.length, np.iinfo(np.int64).min)
        self._moved[: tape.inputs] = np.arange(tape.inputs)

    def result(self) -> BlockTape:
        labels, made = self._classes.labels, self._made
        instances = np.argsort(labels, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(labels)))
        for label in self._classes.order.tolist():
            self._write(instances[ends[label] : ends[label + 1]])
        made.outputs = self._at(np.array(self._cones.tape.outputs, np.int64))
        return made

    def _at(self, references: Integers) -> Integers:
        """References to the program that is made."""
        constant = references < 0
        found = np.where(constant, 0, self._moved[references])
        if constant.any():
            found[constant] = self._made.constant_array(self._constants[-1 - references[constant]])
        return found

    def _column(self, references: Integers) -> Column:
        first = int(references[0])
        if first < 0 and (references == first).all():
            return Range(self._made.constant(self._constants[-1 - first]), 0, len(references))
        return column(self._at(references))

    def _write(self, instances: Integers) -> None:
        """Blocks for one class: the cones at these places."""
        (words, starts), (leaves, offsets) = self._cones.words, self._cones.leaves
        one = int(instances[0])
        form = words[starts[one] : starts[one + 1]].reshape(-1, WIDTH).tolist()
        begins, ends = offsets[instances], offsets[instances + 1]
        if form[0][0] == SUM:
            lengths = ends - begins
            where = np.append(0, np.cumsum(lengths))
            terms = leaves[np.arange(where[-1]) + np.repeat(begins - where[:-1], lengths)]
            results = self._made.sums(self._at(terms), where)
        else:
            columns = [self._column(leaves[begins + slot]) for slot in range(int(ends[0] - begins[0]))]
            results = self._compute(form, columns, len(instances)).references
        self._moved[self._cones.roots[instances]] = results

    def _compute(self, form: list[list[int]], leaves: list[Column], count: int) -> Range:
        """A block for each operation of a form; the results of the first, which comes last."""
        made = self._made
        values: list[Range] = [Range(0, 0, 0)] * len(form)

        def at(source: int) -> Column:
            if source >= LITERAL:
                return Range(made.constant(self._constants[source - LITERAL]), 0, count)
            return values[source] if source >= 0 else leaves[-1 - source]

        for position in reversed(range(len(form))):
            code, *sources = form[position]
            values[position] = made.apply_code(code, [at(source) for source in sources[: OPERATIONS[code].arity]])
        return values[0]
