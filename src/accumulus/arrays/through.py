"""Writes derivatives through recurrences onto a program: tangents of all columns, or adjoints of all rows.

Where a column begins, entries are those that it is given, or products of them; all others are recurrences. One body
computes all entries of an instance in a column; columns in which other terms are zero have other bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries, Products
from accumulus.arrays.scans import Recurrence, Way
from accumulus.tape.blocks import BlockTape, Column, Range, column, references_in
from accumulus.tape.tape import Tape

__all__ = ["through"]

Integers = NDArray[np.int64]
#: Bodies, at most, of the columns of one matrix; where there would be more, all have that of all terms.
MOST_BODIES: Final = 16


def through(recurrence: Recurrence, way: Way, given: Sequence[Entries], products: Products) -> Entries:
    """What goes through the recurrence: derivatives of its results, or in reverse, by its results.

    Args:
        given: the entries that the way begins with.
    """
    values = np.concatenate([references_in(products.values(each)) for each in given])
    writer = _Writer(recurrence, way, products.grouped(values[way.order], way.first), products.tape)
    writer.write()
    reached = way.reached
    instances = recurrence.count - 1 - reached.instances if way.is_reverse else reached.instances
    own, ends, found = [], [], []
    for k, output in enumerate(recurrence.outputs.tolist()):
        alive = reached.has(k)
        own.append(recurrence.start + output * recurrence.count + instances[alive])
        ends.append(way.ends[reached.columns[alive]])
        found.append(writer.references[k, alive])
    results, others = column(np.concatenate(own)), column(np.concatenate(ends))
    references = np.concatenate(found)
    one = products.tape.constant(1.0)
    known = None if (references == one).all() else column(references)
    return Entries(others, results, known) if way.is_reverse else Entries(results, others, known)


class _Writer:
    """Writes the entries of a way onto a program.

    Attributes:
        references: (outputs, pairs), of what is computed.
    """

    def __init__(self, recurrence: Recurrence, way: Way, values: Integers, made: BlockTape) -> None:
        direction = recurrence.direction(way.is_reverse)
        assert direction is not None
        self.recurrence, self.way, self.direction, self.made = recurrence, way, direction, made
        self.reached, self.values = way.reached, values
        self.zero = made.constant(0.0)
        self.references = np.full((direction.wakes.shape[1], len(way.reached)), self.zero)
        self.results = len(recurrence.outputs)
        instances = self.reached.instances
        #: In the order of the recurrence itself, in which the factors are.
        self.instances = recurrence.count - 1 - instances if way.is_reverse else instances

    def write(self) -> None:
        operands = self.reached.operands >= 0
        births: NDArray[np.bool_] = np.logical_not(operands.any(axis=1))
        for pairs in self._alike(np.flatnonzero(births)):
            lists = np.flatnonzero((self.reached.lists[pairs] >= 0).any(axis=0)).tolist()
            self._write_first(pairs, lists)
        for pairs in self._columns_alike(~births):
            slots = np.flatnonzero(operands[pairs].any(axis=0)).tolist()
            lists = np.flatnonzero((self.reached.lists[pairs] >= 0).any(axis=0)).tolist()
            self._write_rest(pairs, slots, lists)

    def _alike(self, pairs: Integers) -> Iterator[Integers]:
        """Pairs whose terms are from the same lists."""
        if not len(pairs):
            return
        kept = self.reached.lists[pairs] >= 0
        if kept.shape[1] > 62:
            yield pairs
            return
        marks = kept @ (1 << np.arange(kept.shape[1]))
        different = np.unique(marks)
        if len(different) > MOST_BODIES:
            yield pairs
            return
        for mark in different:
            yield pairs[marks == mark]

    def _columns_alike(self, chosen: NDArray[np.bool_]) -> Iterator[Integers]:
        """Pairs of columns that have the same terms, somewhere in each."""
        if not chosen.any():
            return
        columns = self.reached.columns
        present = np.concatenate([self.reached.operands >= 0, self.reached.lists >= 0], axis=1)
        flags = np.zeros((len(self.way.ends), present.shape[1]), bool)
        for place in range(present.shape[1]):
            flags[columns[chosen & present[:, place]], place] = True
        different, kinds = np.unique(flags, axis=0, return_inverse=True)
        if len(different) > MOST_BODIES:
            yield np.flatnonzero(chosen)
            return
        kind_of = kinds.reshape(-1)[columns]
        for kind in range(len(different)):
            pairs = np.flatnonzero(chosen & (kind_of == kind))
            if len(pairs):
                yield pairs

    def _write_first(self, pairs: Integers, lists: list[int]) -> None:
        """Where something is first not zero: no operand is."""
        body = _Body(self, [], lists)
        columns = [*self._list_columns(pairs, lists), *self._factor_columns(pairs, body)]
        if body.computed:
            found = self.made.extend(body.tape, columns)
            for output, references in zip(body.computed, found, strict=True):
                self.references[output, pairs] = references_in(references)
        for output, place in body.copies.items():
            self.references[output, pairs] = references_in(columns[place])

    def _write_rest(self, pairs: Integers, slots: list[int], lists: list[int]) -> None:
        """A recurrence, in which each pair takes earlier ones of its column."""
        body = _Body(self, slots, lists)
        from_lists = self._list_columns(pairs, lists)
        factors = self._factor_columns(pairs, body)
        instances = self.reached.instances[pairs]

        def columns() -> list[Column]:
            self._follow(body, pairs, slots, from_lists)
            taken = []
            for slot in slots:
                earlier = self.reached.operands[pairs, slot]
                output = self.direction.source_output[slot, instances]
                taken.append(column(np.where(earlier >= 0, self.references[output, earlier], self.zero)))
            return [*taken, *from_lists, *factors]

        if not body.computed:
            columns()
            return

        def operands(results: list[Range]) -> list[Column]:
            for output, own in zip(body.computed, results, strict=True):
                self.references[output, pairs] = own.references
            return columns()

        step = self.direction.step_of[instances]
        offsets = np.concatenate([[0], np.flatnonzero(np.diff(step)) + 1, [len(pairs)]])
        results = self.made.scan(body.tape, operands, offsets)
        if results[0].start != self.references[body.computed[0], pairs[0]]:  # an equal one was there before
            operands(results)

    def _follow(self, body: _Body, pairs: Integers, slots: list[int], from_lists: list[Column]) -> None:
        """References of outputs that are copies of operands: where the first of them was computed."""
        count = len(self.reached)
        to: Integers | None = None
        for output, place in body.copies.items():
            if place >= len(slots):
                self.references[output, pairs] = references_in(from_lists[place - len(slots)])
                continue
            if to is None:
                to = np.full(self.references.size, -1)
            slot = slots[place]
            earlier = self.reached.operands[pairs, slot]
            source = self.direction.source_output[slot, self.reached.instances[pairs]] * count + earlier
            to[output * count + pairs[earlier >= 0]] = source[earlier >= 0]
        if to is None:
            return
        copied = np.flatnonzero(to >= 0)
        ends = to[copied]
        while True:
            further = to[ends]
            if (further < 0).all():
                break
            ends = np.where(further >= 0, further, ends)
            to[copied] = ends
        flat = self.references.reshape(-1)
        flat[copied] = flat[ends]

    def _list_columns(self, pairs: Integers, lists: list[int]) -> list[Column]:
        taken = [self.reached.lists[pairs, k] for k in lists]
        return [column(np.where(each >= 0, self.values[each], self.zero)) for each in taken]

    def _factor_columns(self, pairs: Integers, body: _Body) -> list[Column]:
        instances = self.instances[pairs]
        found: list[Column] = []
        for factor in body.factors:
            for each in factor.columns:
                if isinstance(each, Range) and each.step == 0:
                    found.append(Range(each.start, 0, len(pairs)))
                else:
                    found.append(column(references_in(each)[instances]))
        return found


class _Body:
    """The body that computes the outputs of an instance from some of its operands and lists.

    Attributes:
        tape: its inputs are the operands, the entries of the lists, then the columns of the factors; its outputs are
            those that are `computed`.
        factors: those that are used.
        computed: which outputs are computed.
        copies: of outputs that are inputs, which.
    """

    def __init__(self, writer: _Writer, slots: list[int], lists: list[int]) -> None:
        recurrence, direction = writer.recurrence, writer.direction
        is_reverse, results = writer.way.is_reverse, writer.results
        if is_reverse:
            alive = {direction.targets[slot] for slot in slots} | set(lists)
            used = {key: factor for key, factor in recurrence.factors.items() if key[0] in alive}
        else:
            used = {key: factor for key, factor in recurrence.factors.items() if key[1] in set(slots)}
        self.factors = list(used.values())
        begin, inputs = len(slots) + len(lists), {}
        for key, factor in used.items():
            inputs[key] = range(begin, begin + len(factor.columns))
            begin += len(factor.columns)
        tape = self.tape = Tape(begin)
        terms: list[list[int]] = [[] for _ in range(direction.wakes.shape[1])]
        place = {slot: k for k, slot in enumerate(slots)}
        if is_reverse:
            for slot in slots:
                terms[direction.targets[slot]].append(place[slot])
        else:
            for (k, slot), factor in used.items():
                terms[k].append(factor.times(tape, inputs[k, slot], place[slot]))
        for position, k in enumerate(lists, len(slots)):
            terms[k].append(position)
        totals = {k: reduce(tape.add, terms[k]) for k in range(results) if terms[k]}
        if is_reverse:
            for (k, slot), factor in used.items():
                terms[results + slot].append(factor.times(tape, inputs[k, slot], totals[k]))
            for output in range(results, len(terms)):
                if terms[output]:
                    totals[output] = reduce(tape.add, terms[output])
        self.copies = {output: total for output, total in totals.items() if 0 <= total < tape.inputs}
        self.computed = [output for output in totals if output not in self.copies]
        tape.outputs = [totals[output] for output in self.computed]
