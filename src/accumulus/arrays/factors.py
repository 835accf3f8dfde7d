"""Local derivatives inside of recurrences: numbers or columns, with the conditions but for which they are 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from accumulus.arrays.entries import Products
from accumulus.elimination.emit import guarded
from accumulus.tape.blocks import BlockTape
from accumulus.tape.columns import Column, Range
from accumulus.tape.interpreter import Domain, run
from accumulus.tape.operations import Operation
from accumulus.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class Factor:
    """Local derivatives of one result by one operand, in the program that is made."""

    number: float | None  # what they all are, if they are constant
    values: Column | None = None  # of all instances
    conditions: tuple[Column, ...] = ()  # under which they count; else they are 0, whatever they are multiplied by

    def closed(self, products: Products, count: int) -> Column | None:
        """The derivatives as entries have them: None if they are all 1."""
        if self.number is not None:
            return None if self.number == 1.0 else Range(products.tape.constant(self.number), 0, count)
        assert self.values is not None
        return reduce(lambda values, condition: products.guarded(values, condition, True), self.conditions, self.values)

    @property
    def is_free(self) -> bool:
        """Return True if a product with it is none."""
        return self.number in (1.0, -1.0)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what a product with it takes."""
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
class BodyLabel:
    """A derivative on the tape of a body: its value, and conditions but for which it is 0."""

    value: int
    number: float | None
    conditions: tuple[int, ...]

    @property
    def references(self) -> tuple[int, ...]:
        """Of what it is made of."""
        return (self.value, *self.conditions) if self.number is None or self.conditions else ()

    def factor(self, made: BlockTape, places: Mapping[int, Column], count: int) -> Factor:
        """Factors of all instances, of which `places` are the columns."""
        if self.number is not None and not self.conditions:
            return Factor(self.number)
        one_for_all = None if self.number is None else Range(made.constant(self.number), 0, count)
        conditions = tuple(places[reference] for reference in self.conditions)
        return Factor(None, one_for_all or places[self.value], conditions)


def opened_labels(tape: Tape, places: Sequence[int]) -> tuple[Tape, list[BodyLabel]]:
    """A copy of a body's tape, and some of its outputs, taken apart where they are choices between a value and 0."""
    body, labels = tape.copy(), []
    for output in [tape.outputs[place] for place in places]:
        found = guarded(body, output)
        value, conditions = (found, frozenset[int]()) if isinstance(found, int) else (found.value, found.on)
        labels.append(BodyLabel(value, body.value_of(value) if value < 0 else None, tuple(sorted(conditions))))
    return body, labels


class _Dependences(Domain):
    """Inputs that values depend on, a bit for each."""

    def number(self, number: float) -> int:
        return 0

    def function(self, row: Operation, *operands: int) -> int:
        return reduce(or_, operands)


def dependences(body: Tape) -> list[set[int]]:
    """Return which inputs each output depends on."""
    found = run(body, _Dependences(), [1 << k for k in range(body.inputs)])
    return [{k for k in range(body.inputs) if on >> k & 1} for on in found]
