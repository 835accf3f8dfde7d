"""Derivatives through recurrences: forward, or reverse, whichever makes fewer products.

Let N be the derivatives of a recurrence's results with respect to its earlier results, B those with respect to its
outside operands, and C the derivatives of its dependents with respect to its results. The result is C (1 - N)⁻¹ B.
Forward computes X = (1 - N)⁻¹ B first, reverse Y = C (1 - N)⁻¹. The columns of X, and the rows of Y, are independent of
each other. Each is a recurrence over the same steps that begins with its first nonzero; the columns that are nonzero in
a step are the instances of that step. `accumulus.arrays.through` writes the computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.reach_kernel import BITS, ReachState
from accumulus.arrays.entries import Entries, Products, distinct_order, selected
from accumulus.arrays.residues import Residues, at, by_steps, of_numbers, residues_of
from accumulus.elimination.emit import guarded
from accumulus.native.machine import kernel
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.interpreter import Domain, run
from accumulus.tape.operations import Operation
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

Integers = NDArray[np.int64]
#: Largest number of operands that may take one result, for derivatives to go through a recurrence in reverse. Each
#: becomes an input of the reverse body: more make it long, fewer leave only the forward direction, which costs as much
#: as there are inputs.
MOST_USERS: Final = 16


@dataclass(frozen=True, slots=True)
class Direction:
    """Derivatives through a recurrence as another recurrence, with its instances in order.

    The outputs of an instance are the entries of its results; in reverse, then the entries of its operands.

    Attributes:
        source, source_output: (slots, instances), the instance and the output that each operand comes from.
        targets: the output that each operand is a term of; -1 if factors multiply it first (forward).
        wakes, list_wakes: (slots, outputs) and (results, outputs), True if the output depends on the operand or list.
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
    """Direction in which derivatives go through a recurrence, with all entries that it computes."""

    is_reverse: bool  # True from dependents to operands, False from operands to dependents
    products: int  # number of scalar products
    lists: Lists  # entries to begin with; their values are positions among the distinct ones
    # order, first: see `accumulus.arrays.entries.distinct_order`; entries of one position are added
    order: Integers
    first: Integers
    ends: Integers  # references at the other ends, by column
    reached: Reached  # entries that are computed


class Recurrence:
    """Recurrence that is differentiated.

    Args:
        start, count, steps: first result, number of instances, and offsets of steps, in the given program.
        outputs: outputs of the block's body that depend on inputs to differentiate with respect to.
        operands: columns of the operands that may be results of the recurrence.
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
        #: Result that each operand of each instance is, as output · instances + instance; -1 for anything else.
        self._taken = np.full((len(operands), count), -1)
        for row, references in zip(self._taken, map(references_in, operands), strict=True):
            is_result = (references >= start) & (references < start + (self.outputs[-1] + 1) * count)
            row[is_result] = self._nodes(references[is_result])

    def _nodes(self, references: Integers) -> Integers:
        """Return results as output · instances + instance, counting outputs with derivatives; -1 for others."""
        output, instance = np.divmod(references - self.start, self.count)
        row = np.searchsorted(self.outputs, output)
        is_listed = self.outputs[np.minimum(row, len(self.outputs) - 1)] == output
        return np.where(is_listed, row * self.count + instance, -1)

    @property
    def columns(self) -> list[Column]:
        """Columns that the local derivatives consist of, in the derivative program."""
        return [each for factor in self.factors.values() for each in factor.columns]

    def tangents(self, outside: Residues, values: Residues) -> Residues:
        """Return the residues of the tangents of all results.

        Args:
            outside: residues of each result's tangent through operands from outside the recurrence.
            values: residues of the derivative program.
        """
        slots, results = len(self._taken), len(self.outputs)
        body = Tape(slots + results + len(self.factors))
        totals = list(range(slots, slots + results))
        for factor_slot, (output, slot) in enumerate(self.factors, slots + results):
            totals[output] = body.add(totals[output], body.multiply(factor_slot, slot))
        body.outputs = totals
        from_outside = outside.reshape(-1, self.count)[self.outputs]

        def inputs(instances: slice) -> tuple[Integers, Integers]:
            width = instances.stop - instances.start
            source = np.full((body.inputs, width), -1)
            source[:slots] = self._taken[:, instances]
            numbers = np.zeros((body.inputs, width), np.int64)
            numbers[slots : slots + results] = from_outside[:, instances]
            for row, factor in zip(numbers[slots + results :], self.factors.values(), strict=True):
                row[:] = 1 if factor.number is None else int(of_numbers(np.array([factor.number]))[0])
                for each in factor.columns:
                    row[:] = residues_of(row * at(values, selected(each, Range(instances.start, 1, width))))
            return numbers, source

        rows = np.zeros((len(outside) // self.count, self.count), np.int32)
        rows[self.outputs] = by_steps(body, self.count, inputs)
        return rows.reshape(-1)

    def direction(self, is_reverse: bool) -> Direction | None:
        """Return derivatives as a recurrence; None if one result has too many users in reverse."""
        return self._reverse if is_reverse else self._forward

    # Which way --------------------------------------------------------------------------------------------------

    def cheapest(self, above: Sequence[Entries], below: Sequence[Entries], most: int) -> Way | None:
        """Return the direction with fewer products; None if both exceed `most`.

        Args:
            above: derivatives of the values that depend on the recurrence.
            below: derivatives of its results with respect to outside operands.
            most: largest number of products.
        """
        limit = min(4 * (self.count + sum(map(len, above)) + sum(map(len, below))) + 1000, most)
        while True:
            best: Way | None = None
            for is_reverse in (False, True):
                way = self._way(above, below, is_reverse, limit)
                if way is not None and (best is None or way.products < best.products):
                    best = way
            if best is not None or limit == most:
                return best
            limit = min(8 * limit, most)

    def _way(self, above: Sequence[Entries], below: Sequence[Entries], is_reverse: bool, limit: int) -> Way | None:
        direction = self.direction(is_reverse)
        if direction is None:
            return None
        followed, joined = (above, below) if is_reverse else (below, above)
        nodes = [self._nodes(references_in(each.tails if is_reverse else each.heads)) for each in followed]
        ends = np.concatenate([references_in(each.heads if is_reverse else each.tails) for each in followed])
        rows = np.concatenate(nodes)
        if is_reverse:
            rows = self._turned(rows)
        different, columns = np.unique(ends, return_inverse=True)
        order, first = distinct_order(rows, columns)
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
        for factor_place, factor in self.factors.items():
            costly[factor_place] = not factor.is_free
        if is_reverse:
            products = int(alive.sum(axis=1) @ costly.sum(axis=1))
            alive = alive[:, ::-1]
        else:
            products = int(np.count_nonzero(reached.operands >= 0, axis=0) @ costly.sum(axis=0))
        for each in joined:
            nodes_of = self._nodes(references_in(each.heads if is_reverse else each.tails))
            products += int(alive.reshape(-1)[nodes_of].sum())
        return None if products > limit else Way(is_reverse, products, lists, order, first, different, reached)

    def _turned(self, nodes: Integers) -> Integers:
        """Return results with their instances counted from the last."""
        output, instance = np.divmod(nodes, self.count)
        return output * self.count + self.count - 1 - instance

    @cached_property
    def _step_of(self) -> Integers:
        return np.repeat(np.arange(len(self.steps) - 1), np.diff(self.steps))

    @cached_property
    def _forward(self) -> Direction:
        slots, results = len(self._taken), len(self.outputs)
        wakes = np.zeros((slots, results), bool)
        for k, s in self.factors:
            wakes[s, k] = True
        output, instance = np.divmod(self._taken, self.count)
        source = np.where(self._taken >= 0, instance, -1)
        return Direction(source, output, (-1,) * slots, wakes, np.eye(results, dtype=bool), self._step_of)

    @cached_property
    def _reverse(self) -> Direction | None:
        """Make the operands that take a result its operands; None if there are too many."""
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
        position, turned = firsts[nodes // count] + rank, count - 1 - nodes % count
        source[position, turned] = count - 1 - instance
        source_output[position, turned] = results + slot
        list_wakes = np.zeros((results, results + len(self._taken)), bool)
        list_wakes[:, :results] = np.eye(results)
        for k, s in self.factors:
            list_wakes[k, results + s] = True
        steps = self._step_of[-1:] - self._step_of[::-1]
        return Direction(source, source_output, tuple(targets.tolist()), list_wakes[targets], list_wakes, steps)


# Local derivatives ---------------------------------------------------------------------------------------------------
#
# Local derivatives inside recurrences: numbers or columns, with the conditions outside which they are 0.


@dataclass(frozen=True, slots=True)
class Factor:
    """Local derivatives of one result with respect to one operand, in the derivative program."""

    number: float | None  # their common value, if they are constant
    values: Column | None = None  # of all instances
    conditions: tuple[Column, ...] = ()  # where one fails, products are exactly 0, even with NaN

    def closed(self, products: Products, count: int) -> Column | None:
        """Return the derivatives as the values of `Entries`: None if they are all 1."""
        if self.number is not None:
            return None if self.number == 1.0 else Range(products.tape.constant(self.number), 0, count)
        assert self.values is not None
        return reduce(lambda values, condition: products.guarded(values, condition, True), self.conditions, self.values)

    @property
    def is_free(self) -> bool:
        """Return True if multiplying by it needs no multiplication."""
        return self.number in (1.0, -1.0)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that a product with these derivatives takes as operands."""
        return () if self.values is None else (self.values, *self.conditions)

    def times(self, body: Tape, inputs: Sequence[int], other: int) -> int:
        """Return the product with `other` on the tape of a body; `inputs` are the body's inputs for `columns`."""
        if self.number is not None:
            return body.multiply(body.constant(self.number), other)
        product, zero = body.multiply(inputs[0], other), body.constant(0.0)
        for condition in inputs[1:]:  # truth values are stored as floats
            product = body.select(body.apply("not_equal", condition, zero), product, zero)
        return product


@dataclass(frozen=True, slots=True)
class BodyLabel:
    """A derivative on the tape of a body: its value, and conditions outside which it is 0."""

    value: int
    number: float | None
    conditions: tuple[int, ...]

    @property
    def references(self) -> tuple[int, ...]:
        """Return the references that it consists of; none if it is a constant."""
        return (self.value, *self.conditions) if self.number is None or self.conditions else ()

    def factor(self, made: Program, places: Mapping[int, Column], count: int) -> Factor:
        """Return the factor for all instances; `places` maps references of the body to their columns."""
        if self.number is not None and not self.conditions:
            return Factor(self.number)
        one_for_all = None if self.number is None else Range(made.constant(self.number), 0, count)
        conditions = tuple(places[reference] for reference in self.conditions)
        return Factor(None, one_for_all or places[self.value], conditions)


def opened_labels(tape: Tape, places: Sequence[int]) -> tuple[Tape, list[BodyLabel]]:
    """Return a copy of a body's tape, and labels of some outputs, with choices between a value and 0 taken apart."""
    body, labels = tape.copy(), []
    for output in [tape.outputs[position] for position in places]:
        label = guarded(body, output)
        value, conditions = (label, frozenset[int]()) if isinstance(label, int) else (label.value, label.on)
        labels.append(BodyLabel(value, body.value_of(value) if value < 0 else None, tuple(sorted(conditions))))
    return body, labels


class _Dependences(Domain):
    """Domain of input sets: the inputs that values depend on, as bits."""

    def number(self, number: float) -> int:
        return 0

    def function(self, row: Operation, *operands: int) -> int:
        return reduce(or_, operands)


def dependences(body: Tape) -> list[set[int]]:
    """Return, for each output, the set of inputs that it depends on."""
    depending = run(body, _Dependences(), [1 << k for k in range(body.inputs)])
    return [{k for k in range(body.inputs) if on >> k & 1} for on in depending]


# Structure of the entries -------------------------------------------------------------------------------------------
#
# Which entries sparse derivatives through a recurrence have, before any of them is computed.

#: Number of instances in one call of the kernel; Ctrl-C is handled between calls: more delay it, fewer make more calls.
CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of entries, one for each place and instance."""

    begins: Integers  # (places * instances + 1,), first entry of each list, then the number of entries
    columns: Integers  # column of each entry, increasing in each list
    values: Integers  # value of each entry


@dataclass(frozen=True, slots=True)
class Reached:
    """Pairs of an instance and a column in which it has nonzeros, sorted by instance, then column."""

    # instances, columns: of each pair
    instances: Integers
    columns: Integers
    operands: NDArray[np.int32]  # (pairs, slots), the earlier pair that each operand is a result of, -1 where it is 0
    lists: NDArray[np.int32]  # (pairs, places), the entry of each list, -1 where it is 0
    marks: Integers  # (pairs, words), bits of the outputs that are not 0

    def __len__(self) -> int:
        return len(self.columns)

    def has(self, output: int) -> NDArray[np.bool_]:
        """Return the mask of the pairs in which an output is not 0."""
        bits: NDArray[np.bool_] = (self.marks[:, output // BITS] >> (output % BITS)) & 1 != 0
        return bits


def reach(
    source: Integers,
    source_output: Integers,
    lists: Lists,
    wakes: NDArray[np.bool_],
    list_wakes: NDArray[np.bool_],
    most: int,
) -> Reached | None:
    """Return the pairs of a recurrence; None if there are more than `most`.

    Args:
        source: (slots, instances), the instance whose result an operand is; negative if it is none.
        source_output: (slots, instances), the output of that instance.
        lists: lists of operands from outside.
        wakes: (slots, outputs), True if an output depends on an operand.
        list_wakes: (places, outputs), True if an output depends on an entry of a list.
        most: largest number of pairs.
    """
    slots, count = source.shape
    directs, words = len(list_wakes), -(-wakes.shape[1] // BITS)
    state = ReachState(
        count=count,
        slots=slots,
        directs=directs,
        words=words,
        source=np.ascontiguousarray(source).reshape(-1),
        source_output=np.ascontiguousarray(source_output).reshape(-1),
        direct_begins=lists.begins,
        direct_columns=lists.columns,
        wakes=_marks(wakes, words),
        direct_wakes=_marks(list_wakes, words),
        begins=np.zeros(count + 1, np.int64),
        heads=np.zeros(slots + directs, np.int64),
        ends=np.zeros(slots + directs, np.int64),
    )
    _make_room(state, 2 * (count + len(lists.columns)) + 64)
    while state.at < count:
        state.end = min(state.at + CHUNK, count)
        needed = kernel("arrays.reach")(state.address)
        if needed > most or state.column_count > most:
            return None
        if needed:
            _make_room(state, min(2 * needed, most + 1))
    pairs = state.column_count
    tables = ((state.operands, slots), (state.lists, directs))
    operands, list_table = (table[: pairs * width].reshape(pairs, width).astype(np.int32) for table, width in tables)
    return Reached(
        np.repeat(np.arange(count), np.diff(state.begins)),
        state.columns[:pairs].copy(),
        operands,
        list_table,
        state.marks[: pairs * words].reshape(pairs, words).copy(),
    )


def _marks(matrix: NDArray[np.bool_], words: int) -> Integers:
    """Return the rows of a matrix as words of bits."""
    bits = np.zeros((len(matrix), words * BITS), np.int64)
    bits[:, : matrix.shape[1]] = matrix
    marks: Integers = (bits.reshape(-1, words, BITS) << np.arange(BITS)).sum(axis=2)
    return marks.reshape(-1)


def _make_room(state: ReachState, capacity: int) -> None:
    for name, width in (("columns", 1), ("operands", state.slots), ("lists", state.directs), ("marks", state.words)):
        grown = np.empty(capacity * width, np.int64)
        filled = state.column_count * width
        grown[:filled] = getattr(state, name)[:filled]
        setattr(state, name, grown)
    state.room = capacity
