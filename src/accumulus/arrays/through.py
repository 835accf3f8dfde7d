"""Derivatives through recurrences, written onto a program: tangents of all columns, or adjoints of all rows.

The first nonzeros of a column are incoming entries, or products of them; a recurrence computes all later ones. One body
computes all entries that an instance has in a column. Columns with different zero terms have different bodies, unless
the bodies compute the same from their nonzero terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries, Products
from accumulus.arrays.scans import Recurrence, Way
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape, to_bytes

Integers = NDArray[np.int64]
#: Largest number of bodies for the columns of one matrix; beyond it, all columns share the body with all terms. More
#: bodies take longer to compile, fewer compute products with zeros.
MOST_BODIES: Final = 512


def through(recurrence: Recurrence, way: Way, entries: Sequence[Entries], products: Products) -> Entries:
    """Return the derivatives of a recurrence's results; in reverse, the derivatives with respect to its results.

    Args:
        recurrence: recurrence that is differentiated.
        way: direction of the differentiation, with its order of entries.
        entries: derivatives that enter it.
        products: builder of the products.
    """
    values = np.concatenate([references_in(products.values(each)) for each in entries])
    writer = _Writer(recurrence, way, products.grouped(values[way.order], way.first), products.tape)
    writer.write()
    reached = way.reached
    instances = recurrence.count - 1 - reached.instances if way.is_reverse else reached.instances
    at_results, ends, combined = [], [], []
    for k, output in enumerate(recurrence.outputs.tolist()):
        alive = reached.has(k)
        at_results.append(recurrence.start + output * recurrence.count + instances[alive])
        ends.append(way.ends[reached.columns[alive]])
        combined.append(writer.references[k, alive])
    results, at_ends = column(np.concatenate(at_results)), column(np.concatenate(ends))
    references = np.concatenate(combined)
    one = products.tape.constant(1.0)
    factor = None if (references == one).all() else column(references)
    return Entries(at_ends, results, factor) if way.is_reverse else Entries(results, at_ends, factor)


@dataclass(frozen=True, slots=True)
class _Group:
    """Pairs of an instance and a column with the same nonzero terms."""

    pairs: Integers  # in the order of their instances
    slots: list[int]  # operands that contribute terms
    body: _Body  # computes the pairs
    # inputs of the body besides operands: incoming entries, and local derivatives
    from_lists: list[Column]
    factors: list[Column]


def _split(pairs: Integers, kinds: Integers) -> list[Integers]:
    """Split pairs by their kinds; keep them together if there are too many kinds."""
    order = np.argsort(kinds, kind="stable")
    parts = np.split(pairs[order], np.flatnonzero(np.diff(kinds[order])) + 1)
    return parts if len(parts) <= MOST_BODIES else [pairs]


def _joined(parts: Sequence[Column]) -> Column:
    """Concatenate columns."""
    if len(parts) == 1:
        return parts[0]
    starts = {piece.start if isinstance(piece, Range) and not piece.step else None for piece in parts}
    if len(starts) == 1 and (start := starts.pop()) is not None:
        return Range(start, 0, sum(map(len, parts)))
    return column(np.concatenate([references_in(piece) for piece in parts]))


class _Writer:
    """Writer of the entries that a `Way` computes, as operations of a program.

    Attributes:
        references: (outputs, pairs), references of the entries.
    """

    def __init__(self, recurrence: Recurrence, way: Way, values: Integers, made: Program) -> None:
        direction = recurrence.direction(way.is_reverse)
        assert direction is not None
        self.recurrence, self.way, self.direction, self.made = recurrence, way, direction, made
        self.reached, self.values = way.reached, values
        self.zero = made.constant(0.0)
        self.references = np.full((direction.wakes.shape[1], len(way.reached)), self.zero)
        self.results = len(recurrence.outputs)
        instances = self.reached.instances
        #: Instances as the recurrence itself numbers them; the columns of the factors have this order.
        self.instances = recurrence.count - 1 - instances if way.is_reverse else instances

    def write(self) -> None:
        operands = self.reached.operands >= 0
        first_nonzeros: NDArray[np.bool_] = np.logical_not(operands.any(axis=1))
        for groups in self._grouped(self._alike(np.flatnonzero(first_nonzeros))):
            self._write_first(groups)
        for groups in self._grouped(self._columns_alike(np.flatnonzero(~first_nonzeros))):
            self._write_rest(groups)

    def _alike(self, pairs: Integers) -> Iterator[Integers]:
        """Yield pairs grouped by the lists that their terms come from."""
        if not len(pairs):
            return
        continuing = self.reached.lists[pairs] >= 0
        if continuing.shape[1] > 62:
            yield pairs
            return
        _, kinds = np.unique(continuing @ (1 << np.arange(continuing.shape[1])), return_inverse=True)
        yield from _split(pairs, kinds)

    def _columns_alike(self, pairs: Integers) -> Iterator[Integers]:
        """Yield pairs grouped by column, columns with the same kinds of terms together."""
        if not len(pairs):
            return
        columns = self.reached.columns[pairs]
        flags = np.zeros((len(self.way.ends), self.reached.operands.shape[1] + self.reached.lists.shape[1]), bool)
        for index, taken in enumerate([*self.reached.operands.T, *self.reached.lists.T]):
            flags[columns[taken[pairs] >= 0], index] = True
        _, kinds = np.unique(flags, axis=0, return_inverse=True)
        yield from _split(pairs, kinds.reshape(-1)[columns])

    def _grouped(self, parts: Iterable[Integers]) -> list[list[_Group]]:
        """Return pairs with their bodies; pairs with equal bodies are together, even if their terms differ."""
        groups: dict[object, list[_Group]] = {}
        for pairs in parts:
            slots, lists = (
                np.flatnonzero((table[pairs] >= 0).any(axis=0)).tolist()
                for table in (self.reached.operands, self.reached.lists)
            )
            body = _Body(self, slots, lists)
            list_columns = self._list_columns(pairs, lists)
            group = _Group(pairs, slots, body, list_columns, self._factor_columns(pairs, body))
            groups.setdefault((to_bytes(body.tape), len(slots), len(lists)), []).append(group)
        return list(groups.values())

    def _write_first(self, groups: Sequence[_Group]) -> None:
        """Write the first nonzeros of columns, which take no earlier entries."""
        computed = len(groups[0].body.computed)
        if computed:
            columns = [_joined(parts) for parts in zip(*([*g.from_lists, *g.factors] for g in groups), strict=True)]
            results = self.made.extend(groups[0].body.tape, columns)
            self._keep(groups, [references_in(each) for each in results])
        self._follow(groups)

    def _write_rest(self, groups: Sequence[_Group]) -> None:
        """Write all later nonzeros as a recurrence, in which each pair takes earlier pairs of its column."""
        step = self.direction.step_of[self.reached.instances[np.concatenate([group.pairs for group in groups])]]
        order = np.argsort(step, kind="stable") if len(groups) > 1 else np.arange(len(step))
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))

        def operands(results: list[Range]) -> list[Column]:
            self._keep(groups, [result.references[inverse] for result in results])
            self._follow(groups)
            parts = zip(*([*self._taken(g), *g.from_lists, *g.factors] for g in groups), strict=True)
            joined = map(_joined, parts)
            if len(groups) == 1:
                return list(joined)
            return [
                each if isinstance(each, Range) and not each.step else column(references_in(each)[order])
                for each in joined
            ]

        body = groups[0].body
        if not body.computed:
            self._follow(groups)
            return
        offsets = np.concatenate([[0], np.flatnonzero(np.diff(step[order])) + 1, [len(order)]])
        results = self.made.scan(body.tape, operands, offsets)
        if self.references[body.computed[0], groups[0].pairs[0]] != results[0].start + inverse[0]:
            operands(results)  # `scan` returned an equal, earlier recurrence

    def _keep(self, groups: Sequence[_Group], results: Sequence[Integers]) -> None:
        """Record the references of the bodies' results for the pairs of all groups."""
        first = 0
        for group in groups:
            for output, references in zip(group.body.computed, results, strict=True):
                self.references[output, group.pairs] = references[first : first + len(group.pairs)]
            first += len(group.pairs)

    def _taken(self, group: _Group) -> list[Column]:
        """Return the columns of entries that pairs take from earlier pairs."""
        instances, taken = self.reached.instances[group.pairs], []
        for slot in group.slots:
            earlier = self.reached.operands[group.pairs, slot]
            output = self.direction.source_output[slot, instances]
            taken.append(column(np.where(earlier >= 0, self.references[output, earlier], self.zero)))
        return taken

    def _follow(self, groups: Sequence[_Group]) -> None:
        """Resolve outputs that are copies of operands to the entry that was first computed."""
        count = len(self.reached)
        to: Integers | None = None
        for group in groups:
            pairs = group.pairs
            for output, copy in group.body.copies.items():
                if copy >= len(group.slots):
                    self.references[output, pairs] = references_in(group.from_lists[copy - len(group.slots)])
                    continue
                if to is None:
                    to = np.full(self.references.size, -1)
                slot = group.slots[copy]
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
        columns: list[Column] = []
        for factor in body.factors:
            for each in factor.columns:
                if isinstance(each, Range) and each.step == 0:
                    columns.append(Range(each.start, 0, len(pairs)))
                else:
                    columns.append(column(references_in(each)[instances]))
        return columns


class _Body:
    """The body that computes the outputs of an instance from some of its operands and lists.

    Attributes:
        tape: its inputs are the operands, the entries of the lists, then the columns of the factors; its outputs are
            those listed in `computed`.
        factors: factors that the body uses.
        computed: outputs that the body computes.
        copies: input that each other nonzero output equals, by output.
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
        index_of = {slot: k for k, slot in enumerate(slots)}
        if is_reverse:
            for slot in slots:
                terms[direction.targets[slot]].append(index_of[slot])
        else:
            for (k, slot), factor in used.items():
                terms[k].append(factor.times(tape, inputs[k, slot], index_of[slot]))
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
