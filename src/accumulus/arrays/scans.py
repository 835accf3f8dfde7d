"""Derivatives through recurrences: forward, or reverse, whichever makes fewer products.

With N the derivatives of a recurrence's results by its own earlier ones, B those by what it takes from outside, and C
those of what depends on it, C (1 - N)⁻¹ B is wanted. Forward X = (1 - N)⁻¹ B is computed first, reverse
Y = C (1 - N)⁻¹. The columns of X, and the rows of Y, are independent of each other: each is a recurrence of as many
steps, from where it is first not zero, and all that are alive in a step are its instances. What is computed for that is
written by `accumulus.arrays.through`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.entries import Entries
from accumulus.arrays.factors import Factor
from accumulus.arrays.reached import Lists, Reached, reach
from accumulus.arrays.residues import Residues, at, by_steps, of_numbers, reduced
from accumulus.arrays.sorting import distinct
from accumulus.tape.columns import Column, references_in
from accumulus.tape.tape import Tape

Integers = NDArray[np.int64]
#: Operands that take one result, at most, for derivatives to go through a recurrence in reverse.
MOST_USERS: Final = 16


@dataclass(frozen=True, slots=True)
class Direction:
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
    """The way in which derivatives go through a recurrence."""

    is_reverse: bool  # from what depends on it, else from what it depends on
    products: int  # how many this takes
    lists: Lists  # the entries that it begins with, their values by position among all that are given
    # order, first: see `accumulus.arrays.sorting.distinct`: of these, those of one place are added
    order: Integers
    first: Integers
    ends: Integers  # what is at their other ends: references, by column
    reached: Reached  # the entries that are computed


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
        """Columns that local derivatives are made of, in the program that is made."""
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

    def direction(self, is_reverse: bool) -> Direction | None:
        """Derivatives as a recurrence; None where there is none."""
        return self._reverse if is_reverse else self._forward

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
        return Direction(source, source_output, tuple(targets.tolist()), list_wakes[targets], list_wakes, steps)
