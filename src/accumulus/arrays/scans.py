"""Derivatives through recurrences: forward, or reverse, whichever makes fewer products.

With N the derivatives of a recurrence's results by its own earlier ones, B those by what it takes from outside, and C
those of what depends on it, C (1 - N)⁻¹ B is wanted. Forward X = (1 - N)⁻¹ B is computed first, reverse
Y = C (1 - N)⁻¹. The columns of X, and the rows of Y, are independent of each other: each is a recurrence of as many
steps, from where it is first not zero, and all that are alive in a step are its instances. One body computes all
entries of an instance in a column; columns in which other terms are zero have other bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries, Products
from accumulus.arrays.reached import Lists, Reached, reach
from accumulus.arrays.residues import Residues, at, by_steps, of_numbers, reduced
from accumulus.arrays.sorting import distinct
from accumulus.elimination.guards import guarded
from accumulus.tape.blocks import BlockTape, Column, Range, column, references_in
from accumulus.tape.tape import Tape

__all__ = ["Factor", "Recurrence", "Way", "dependences", "opened_labels"]

Integers = NDArray[np.int64]
#: Operands that take one result, at most, for derivatives to go through a recurrence in reverse.
MOST_USERS: Final = 16
#: Bodies, at most, of the columns of one matrix; where there would be more, all have that of all terms.
MOST_BODIES: Final = 16


@dataclass(frozen=True, slots=True)
class Factor:
    """Local derivatives of one result by one operand, in the program that is made.

    Attributes:
        number: what they all are, if they are constant.
        values: of all instances.
        conditions: under which they count; else they are 0, whatever they are multiplied by.
    """

    number: float | None
    values: Column | None = None
    conditions: tuple[Column, ...] = ()

    def closed(self, products: Products, count: int) -> Column | None:
        """The derivatives as entries have them: None if they are all 1."""
        if self.number is not None:
            return None if self.number == 1.0 else Range(products.tape.constant(self.number), 0, count)
        assert self.values is not None
        return reduce(lambda values, condition: products.guarded(values, condition, True), self.conditions, self.values)

    @property
    def is_free(self) -> bool:
        """Whether a product with it is none."""
        return self.number in (1.0, -1.0)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What a product with it takes."""
        return () if self.values is None else (self.values, *self.conditions)

    def times(self, body: Tape, inputs: Sequence[int], other: int) -> int:
        """The product, on the tape of a body; `inputs` are those of `columns`."""
        if self.number is not None:
            return body.multiply(body.constant(self.number), other)
        product, zero = body.multiply(inputs[0], other), body.constant(0.0)
        for condition in inputs[1:]:  # in memory, truth values are numbers
            product = body.select(body.apply("not_equal", condition, zero), product, zero)
        return product


@dataclass(frozen=True, slots=True)
class _Label:
    """A derivative on the tape of a body: its value, and conditions but for which it is 0."""

    value: int
    number: float | None
    conditions: tuple[int, ...]

    @property
    def references(self) -> tuple[int, ...]:
        """Of what it is made of."""
        return (self.value, *self.conditions) if self.number is None or self.conditions else ()

    def factor(self, made: BlockTape, places: Mapping[int, Column], count: int) -> Factor:
        """The same for all instances, of which `places` are the columns."""
        if self.number is not None and not self.conditions:
            return Factor(self.number)
        one_for_all = None if self.number is None else Range(made.constant(self.number), 0, count)
        conditions = tuple(places[reference] for reference in self.conditions)
        return Factor(None, one_for_all or places[self.value], conditions)


def opened_labels(tape: Tape, places: Sequence[int]) -> tuple[Tape, list[_Label]]:
    """A copy of a body's tape, and some of its outputs, taken apart where they are choices between a value and 0."""
    body, labels = tape.copy(), []
    for output in [tape.outputs[place] for place in places]:
        found = guarded(body, output)
        value, conditions = (found, frozenset[int]()) if isinstance(found, int) else (found.value, found.on)
        labels.append(_Label(value, body.value_of(value) if value < 0 else None, tuple(sorted(conditions))))
    return body, labels


def dependences(body: Tape) -> list[set[int]]:
    """Which inputs each output depends on."""
    found: list[int] = [1 << k for k in range(body.inputs)]
    for reference in range(body.inputs, len(body)):
        found.append(reduce(or_, (found[a] for a in body.arguments(reference) if a >= 0), 0))
    sets = [found[output] if output >= 0 else 0 for output in body.outputs]
    return [{k for k in range(body.inputs) if on >> k & 1} for on in sets]


@dataclass(frozen=True, slots=True)
class _Direction:
    """Derivatives through a recurrence as a recurrence of their own, its instances in their order.

    The outputs of an instance are the entries of its results; in reverse, then those of its operands.

    Attributes:
        source, source_output: (slots, instances), the instance that each operand is a result of, and which output.
        targets: the output that each operand is a term of; forward, where it is multiplied by factors before: -1.
        wakes, list_wakes: (slots, outputs) and (results, outputs), which outputs depend on what.
        step_of: step of each instance.
    """

    source: Integers
    source_output: Integers
    targets: tuple[int, ...]
    wakes: NDArray[np.bool_]
    list_wakes: NDArray[np.bool_]
    step_of: Integers


@dataclass(frozen=True, slots=True)
class Way:
    """How derivatives go through a recurrence.

    Attributes:
        is_reverse: from what depends on it, else from what it depends on.
        products: how many this takes.
        lists: the entries that it begins with, their values by position among all that are given.
        order, first: see `accumulus.arrays.sorting.distinct`: of these, those of one place are added.
        ends: what is at their other ends: references, by column.
        reached: the entries that are computed.
    """

    is_reverse: bool
    products: int
    lists: Lists
    order: Integers
    first: Integers
    ends: Integers
    reached: Reached


class Recurrence:
    """A recurrence whose derivatives are wanted.

    Args:
        start, count, steps: first result, instances and steps, in the program that is differentiated.
        outputs: of the block's body, those that depend on what derivatives are taken by.
        operands: columns of the operands that may be results of its own.
        factors: local derivatives, by position among the outputs and among the operands.
    """

    def __init__(
        self,
        start: int,
        count: int,
        steps: Integers,
        outputs: Sequence[int],
        operands: Sequence[Column],
        factors: dict[tuple[int, int], Factor],
    ) -> None:
        self.start, self.count, self.steps = start, count, steps
        self.outputs, self.factors = np.array(outputs, np.int64), factors
        #: For each operand and instance the result that it is, output · instances + instance; -1 for anything else.
        self._taken = np.full((len(operands), count), -1)
        for row, references in zip(self._taken, map(references_in, operands), strict=True):
            own = (references >= start) & (references < start + (self.outputs[-1] + 1) * count)
            row[own] = self._nodes(references[own])

    def _nodes(self, references: Integers) -> Integers:
        """Results as output · instances + instance, outputs counted among those with derivatives; -1 for others."""
        output, instance = np.divmod(references - self.start, self.count)
        place = np.searchsorted(self.outputs, output)
        known = self.outputs[np.minimum(place, len(self.outputs) - 1)] == output
        return np.where(known, place * self.count + instance, -1)

    @property
    def columns(self) -> list[Column]:
        """What local derivatives are made of, in the program that is made."""
        return [each for factor in self.factors.values() for each in factor.columns]

    def tangents(self, outside: Residues, values: Residues) -> Residues:
        """Residues of the tangents of all results, given what comes from outside of it.

        Args:
            values: residues of the program that is made.
        """
        slots, results = len(self._taken), len(self.outputs)
        body = Tape(slots + results + len(self.factors))
        totals = list(range(slots, slots + results))
        for place, (output, slot) in enumerate(self.factors, slots + results):
            totals[output] = body.add(totals[output], body.multiply(place, slot))
        body.outputs = totals
        given = outside.reshape(-1, self.count)[self.outputs]

        def inputs(part: slice) -> tuple[Integers, Integers]:
            width = part.stop - part.start
            source = np.full((body.inputs, width), -1)
            source[:slots] = self._taken[:, part]
            numbers = np.zeros((body.inputs, width), np.int64)
            numbers[slots : slots + results] = given[:, part]
            for row, factor in zip(numbers[slots + results :], self.factors.values(), strict=True):
                row[:] = 1 if factor.number is None else int(of_numbers(np.array([factor.number]))[0])
                for each in factor.columns:
                    row[:] = reduced(row.astype(np.uint64) * at(values, each, part))
            return numbers, source

        found = np.zeros((len(outside) // self.count, self.count), np.uint32)
        found[self.outputs] = by_steps(body, self.count, inputs)
        return found.reshape(-1)

    # Which way --------------------------------------------------------------------------------------------------

    def cheapest(self, above: Sequence[Entries], below: Sequence[Entries], most: int) -> Way | None:
        """The way of fewer products.

        Args:
            above: derivatives of what depends on it.
            below: derivatives of its results by what they take from outside.
            most: products, at most.
        """
        limit = min(4 * (self.count + sum(map(len, above)) + sum(map(len, below))) + 1000, most)
        while True:
            found = [self._way(above, below, is_reverse, limit) for is_reverse in (False, True)]
            ways = [way for way in found if way is not None]
            if ways or limit == most:
                return min(ways, key=lambda way: way.products, default=None)
            limit = min(8 * limit, most)

    def _way(self, above: Sequence[Entries], below: Sequence[Entries], is_reverse: bool, limit: int) -> Way | None:
        direction = self._reverse if is_reverse else self._forward
        if direction is None:
            return None
        given, others = (above, below) if is_reverse else (below, above)
        nodes = [self._nodes(references_in(each.tails if is_reverse else each.heads)) for each in given]
        ends = np.concatenate([references_in(each.heads if is_reverse else each.tails) for each in given])
        rows = np.concatenate(nodes)
        if is_reverse:
            rows = self._turned(rows)
        different, columns = np.unique(ends, return_inverse=True)
        order, first = distinct(rows, columns)
        results = len(self.outputs)
        places = order[first]
        begins = np.concatenate([[0], np.cumsum(np.bincount(rows[places], minlength=results * self.count))])
        lists = Lists(begins, columns[places], np.arange(len(places)))
        width = len(direction.source) + results + 2
        reached = reach(
            direction.source, direction.source_output, lists, direction.wakes, direction.list_wakes,
            limit // width + 1,
        )  # fmt: skip
        if reached is None:
            return None
        alive = np.stack([np.bincount(reached.instances[reached.has(k)], minlength=self.count) for k in range(results)])
        costly = np.zeros((results, len(self._taken)), np.int64)
        for place, factor in self.factors.items():
            costly[place] = not factor.is_free
        if is_reverse:
            products = int(alive.sum(axis=1) @ costly.sum(axis=1))
            alive = alive[:, ::-1]
        else:
            products = int(np.count_nonzero(reached.operands >= 0, axis=0) @ costly.sum(axis=0))
        for each in others:
            nodes_of = self._nodes(references_in(each.heads if is_reverse else each.tails))
            products += int(alive.reshape(-1)[nodes_of].sum())
        return None if products > limit else Way(is_reverse, products, lists, order, first, different, reached)

    def _turned(self, nodes: Integers) -> Integers:
        """Results, instances being counted from the last."""
        output, instance = np.divmod(nodes, self.count)
        return output * self.count + self.count - 1 - instance

    @cached_property
    def _step_of(self) -> Integers:
        return np.repeat(np.arange(len(self.steps) - 1), np.diff(self.steps))

    @cached_property
    def _forward(self) -> _Direction:
        slots, results = len(self._taken), len(self.outputs)
        wakes = np.zeros((slots, results), bool)
        for k, s in self.factors:
            wakes[s, k] = True
        output, instance = np.divmod(self._taken, self.count)
        source = np.where(self._taken >= 0, instance, -1)
        return _Direction(source, output, (-1,) * slots, wakes, np.eye(results, dtype=bool), self._step_of)

    @cached_property
    def _reverse(self) -> _Direction | None:
        """Each result has the operands that take it as operands; None if they are too many."""
        results, count = len(self.outputs), self.count
        slot, instance = np.nonzero(self._taken >= 0)
        nodes = self._taken[slot, instance]
        order = np.argsort(nodes, kind="stable")
        slot, instance, nodes = slot[order], instance[order], nodes[order]
        new = np.ones(len(nodes), bool)
        new[1:] = nodes[1:] != nodes[:-1]
        begins = np.flatnonzero(new)
        rank = np.arange(len(nodes)) - np.repeat(begins, np.diff(np.append(begins, len(nodes))))
        if len(rank) and rank.max() >= MOST_USERS:
            return None
        users = np.zeros(results, np.int64)
        np.maximum.at(users, nodes // count, rank + 1)
        firsts = np.concatenate([[0], np.cumsum(users)])
        targets = np.repeat(np.arange(results), users)
        source, source_output = np.full((2, len(targets), count), -1)
        place, turned = firsts[nodes // count] + rank, count - 1 - nodes % count
        source[place, turned] = count - 1 - instance
        source_output[place, turned] = results + slot
        list_wakes = np.zeros((results, results + len(self._taken)), bool)
        list_wakes[:, :results] = np.eye(results)
        for k, s in self.factors:
            list_wakes[k, results + s] = True
        steps = self._step_of[-1:] - self._step_of[::-1]
        return _Direction(source, source_output, tuple(targets.tolist()), list_wakes[targets], list_wakes, steps)

    # The entries -------------------------------------------------------------------------------------------------

    def entries(self, way: Way, given: Sequence[Entries], products: Products) -> Entries:
        """What goes through the recurrence: derivatives of its results, or in reverse, by its results.

        Args:
            given: the entries that the way begins with.
        """
        values = np.concatenate([references_in(products.values(each)) for each in given])
        writer = _Writer(self, way, products.grouped(values[way.order], way.first), products.tape)
        writer.write()
        reached = way.reached
        instances = self.count - 1 - reached.instances if way.is_reverse else reached.instances
        own, ends, found = [], [], []
        for k, output in enumerate(self.outputs.tolist()):
            alive = reached.has(k)
            own.append(self.start + output * self.count + instances[alive])
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
        direction = recurrence._reverse if way.is_reverse else recurrence._forward
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
