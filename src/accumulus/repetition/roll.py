"""Rolling of a repetitive tape into blocks of equal operations: maps, sums and recurrences."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

import numpy as np

from accumulus.native.state import Integers
from accumulus.repetition.compiled.cones_kernel import LITERAL, WIDTH
from accumulus.repetition.cones import Classes, ConeRecurrence, Cones, classes_of, taken_elsewhere
from accumulus.tape.blocks import SUM
from accumulus.tape.columns import Column, Range, are_equal, column, fingerprint, references_in
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.prices import LOOPS, MOST_IN_RECURRENCES, MOST_WRITTEN, WRITTEN
from accumulus.tape.program import Program
from accumulus.tape.tape import TAKES_TRUTH, Tape

#: Reference on a body, or a column of references to a program.
_Value = TypeVar("_Value")


def as_blocks(cones: Cones, classes: Classes) -> Program | None:
    """Return the program as blocks; None if the instances of a recurrence have no common body."""
    writing = _Writing(cones, classes)
    labels = classes.labels
    instances = np.argsort(labels, kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(labels)))
    for label in classes.order.tolist():
        recurrence = classes.recurrences.get(label)
        if recurrence is None:
            writing.add(instances[ends[label] : ends[label + 1]])
        elif not writing.add_recurrence(recurrence):
            return None
    return writing.result()


class _Writing:
    def __init__(self, cones: Cones, classes: Classes) -> None:
        tape = cones.tape
        self._cones = cones
        self._made = Program(tape.inputs, signed_zeros=tape.signed_zeros)
        self._constants = np.array(cones.constants, np.float64)
        #: Reference in the new program of each reference of the tape, except constants.
        self._moved = np.full(cones.length, np.iinfo(np.int64).min)
        self._moved[: tape.inputs] = np.arange(tape.inputs)
        #: True for cones that are outputs or used outside their instance of a recurrence.
        self._is_taken = taken_elsewhere(cones, _instances(cones, classes)) if classes.recurrences else np.ones(0, bool)

    def result(self) -> Program:
        """Return the program."""
        self._made.outputs = self._at(np.array(self._cones.tape.outputs, np.int64))
        return self._made

    def _at(self, references: Integers) -> Integers:
        """Translate references of the tape to references of the new program."""
        constant = references < 0
        moved = np.where(constant, 0, self._moved[np.where(constant, 0, references)])
        if constant.any():
            moved[constant] = self._made.constant_array(self._constants[-1 - references[constant]])
        return moved

    def _column(self, references: Integers) -> Column:
        first = int(references[0])
        if first < 0 and (references == first).all():
            return Range(self._made.constant(self._constants[-1 - first]), 0, len(references))
        return column(self._at(references))

    def _form(self, cone: int) -> list[list[int]]:
        """Return the operations of a cone, each with the sources of its arguments."""
        words, starts = self._cones.words
        return words[starts[cone] : starts[cone + 1]].reshape(-1, WIDTH).tolist()

    # Maps and sums -----------------------------------------------------------------------------------------------

    def add(self, instances: Integers) -> None:
        """Add blocks for cones of one class."""
        leaves, offsets = self._cones.leaves
        form = self._form(int(instances[0]))
        begins, ends = offsets[instances], offsets[instances + 1]
        if form[0][0] == SUM:
            lengths = ends - begins
            where = np.append(0, np.cumsum(lengths))
            terms = leaves[np.arange(where[-1]) + np.repeat(begins - where[:-1], lengths)]
            results = self._made.sums(self._at(terms), where)
        else:
            columns = [self._column(leaves[begins + slot]) for slot in range(int(ends[0] - begins[0]))]
            made, count = self._made, len(instances)
            values = self._written(made.apply_code, form, columns, lambda each: Range(made.constant(each), 0, count))
            results = references_in(values)
        self._moved[self._cones.roots[instances]] = results

    def _written(
        self,
        apply_code: Callable[[int, list[_Value]], _Value],
        form: list[list[int]],
        leaves: list[_Value],
        constant: Callable[[float], _Value],
    ) -> _Value:
        """Write the operations of a form; return the result, which is the first operation's.

        Args:
            apply_code: function that writes an operation onto the program or body.
            form: operations, each with its operands.
            leaves: operands of the form.
            constant: function that writes a number.
        """
        values: list[_Value] = []  # results, from the last operation to the first

        def at(source: int) -> _Value:
            if source >= LITERAL:
                return constant(self._constants[source - LITERAL])
            return values[len(form) - 1 - source] if source >= 0 else leaves[-1 - source]

        for code, *sources in reversed(form):
            values.append(apply_code(code, [at(source) for source in sources[: OPERATIONS[code].arity]]))
        return values[-1]

    # Recurrences -------------------------------------------------------------------------------------------------

    def add_recurrence(self, recurrence: ConeRecurrence) -> bool:
        """Add a block for all instances of a recurrence; return True if they have one body."""
        cones = self._cones
        operands = _Operands(cones, recurrence)
        if not operands.is_regular:
            return False
        signed = bool(cones.sees_zero_signs)
        body = Tape(len(operands.columns), signed_zeros=signed)
        truths: dict[int, int] = {}

        def apply_code(code: int, arguments: list[int]) -> int:
            """Write an operation; columns are numbers, which stand for the truth values that were stored."""
            for k in np.flatnonzero(TAKES_TRUTH[code, : len(arguments)]).tolist():
                if 0 <= arguments[k] < body.inputs:
                    column = arguments[k]
                    if column not in truths:
                        truths[column] = body.apply("not_equal", column, body.constant(0.0))
                    arguments[k] = truths[column]
            return body.apply_code(code, arguments)

        values: list[int] = []
        for position, cone in enumerate(recurrence.cones[0].tolist()):
            sources = [
                values[slot.position]
                if slot.position >= 0
                else body.constant(self._constants[-1 - slot.constant])
                if slot.constant < 0
                else slot.column
                for slot in operands.slots[position]
            ]
            form = self._form(cone)
            is_sum = form[0][0] == SUM
            values.append(body.sum(sources) if is_sum else self._written(apply_code, form, sources, body.constant))
        results = np.flatnonzero(self._is_taken[recurrence.cones].any(axis=0)).tolist()
        body.outputs = [values[position] for position in results]

        def columns(ranges: list[Range]) -> list[Column]:
            for position, produced in zip(results, ranges, strict=True):
                self._moved[cones.roots[recurrence.cones[:, position]]] = produced.references
            return [self._column(references) for references in operands.columns]

        self._made.scan(body, columns, recurrence.steps)
        return True


def _instances(cones: Cones, classes: Classes) -> Integers:
    """Return the instance of a recurrence that each cone is part of, or -1."""
    result = np.full(cones.count, -1)
    first = 0
    for each in classes.recurrences.values():
        result[each.cones] = first + np.arange(len(each.cones))[:, np.newaxis]
        first += len(each.cones)
    return result


class _Slot:
    """Source of an argument in a recurrence: an earlier cone of the same instance, a constant, or a column."""

    def __init__(self, position: int = -1, constant: int = 0, column: int = -1) -> None:
        self.position, self.constant, self.column = position, constant, column


class _Operands:
    """Arguments of the instances of a recurrence.

    Attributes:
        slots: sources of each cone's leaves, by position of the cone in an instance.
        columns: references that instances take from outside, or from each other.
        is_regular: True if all instances have equal internal structure.
    """

    def __init__(self, cones: Cones, recurrence: ConeRecurrence) -> None:
        leaves, offsets = cones.leaves
        instances = np.full(cones.count + 1, -1)
        positions = np.full(cones.count + 1, -1)
        instances[recurrence.cones] = np.arange(len(recurrence.cones))[:, np.newaxis]
        positions[recurrence.cones] = np.arange(recurrence.cones.shape[1])
        indices = np.arange(len(recurrence.cones))
        by_fingerprint: dict[Hashable, list[int]] = {}
        self.columns: list[Integers] = []
        self.slots: list[list[_Slot]] = []
        self.is_regular = True
        for cone in recurrence.cones.T:
            counts = offsets[cone + 1] - offsets[cone]
            self.is_regular &= bool((counts == counts[0]).all())
            if not self.is_regular:
                return
            slots = []
            for slot in range(int(counts[0])):
                taken = leaves[offsets[cone] + slot]
                places = cones.cone_of[np.maximum(taken, -1)]
                inside = instances[places] == indices
                if inside.any():
                    first = int(positions[places[0]])
                    self.is_regular &= bool(inside.all() and (positions[places] == first).all())
                    slots.append(_Slot(position=first))
                elif taken[0] < 0 and (taken == taken[0]).all():
                    slots.append(_Slot(constant=int(taken[0])))
                else:
                    alike = by_fingerprint.setdefault(fingerprint(taken), [])
                    index = next((k for k in alike if are_equal(self.columns[k], taken)), len(self.columns))
                    if index == len(self.columns):
                        alike.append(index)
                        self.columns.append(taken)
                    slots.append(_Slot(column=index))
            self.slots.append(slots)


#: Sizes, in operations, below which a tape stays straight-line code. A recurrence is rolled from a smaller size on:
#: written out, it is one long chain to plan and compile.
FEWEST: Final = MOST_WRITTEN
FEWEST_IN_RECURRENCES: Final = MOST_IN_RECURRENCES
#: Least ratio of simplified to remaining operations from which simplification is suspected to make the steps of a loop
#: differ. A smaller ratio records more functions a second time, without simplification; a larger one leaves loops with
#: different steps as straight-line code.
SIMPLIFIED: Final = 0.01


def are_many(operations: float) -> bool:
    """Return True if a program with this number of operations is searched for repetition."""
    return operations >= min(FEWEST, FEWEST_IN_RECURRENCES)


def most_distinct(operations: int) -> int:
    """Return the largest number of distinct operations of loops that take no longer to prepare than a straight line."""
    return LOOPS.text_within(WRITTEN.cost(operations, operations).prepare)


def is_long_and_simplified(tape: Tape) -> bool:
    """Return True if constants have simplified many operations of a long tape, so that steps of a loop may differ."""
    return are_many(tape.operations) and tape.simplified >= SIMPLIFIED * tape.operations


def rolled(tape: Tape, times: float = 1.0, *, short: bool = False) -> Program | None:
    """Return a program of blocks with the same inputs and outputs; None if too little of the tape repeats.

    Args:
        tape: tape to search for repetition.
        times: number of operations that preparation makes of each recorded one.
        short: if True, tapes of any length are searched.

    >>> tape = Tape(1000)
    >>> for k in range(FEWEST):
    ...     tape.outputs.append(tape.multiply(k % 1000, tape.constant(1.5 + k)))
    >>> [block.count for block in rolled(tape).blocks]
    [33750]
    """
    if not (short or are_many(times * tape.operations)):
        return None
    cones = Cones(tape)
    if not (short or are_many(times * cones.live)):
        return None
    for classes in classes_of(cones, most_distinct(max(cones.live, FEWEST) if short else cones.live)):
        if times * cones.live < FEWEST and not (short or classes.recurrences):
            return None
        program = as_blocks(cones, classes)
        if program is not None:
            return program
    return None
