"""How large the polynomials are that a program computes quotients of: degrees, and bits of the coefficients.

A value is N / (D₁^e₁ D₂^e₂ …), the D being numerators of what was divided by, so that sums need no more of them than
their terms have. Roots and functions are variables of their own; a root has half the size of what it is of.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from accumulus.resubstitution.residues import LARGEST_POWER
from accumulus.tape.interpreter import Domain, values
from accumulus.tape.tape import Tape

__all__ = ["Size", "largest"]

_TWO: Final = "two"


class Size(NamedTuple):
    """Of a polynomial: its degree, and the logarithm to base 2 of the sum of its coefficients' magnitudes, at most."""

    degree: int
    bits: int

    def __add__(self, other: Size) -> Size:  # type: ignore[override]  # of the product of two polynomials
        return Size(self.degree + other.degree, self.bits + other.bits)

    def times(self, exponent: int) -> Size:
        """Of a power."""
        return Size(self.degree * exponent, self.bits * exponent)


_NOTHING: Final = Size(0, 0)


class _Quotient(NamedTuple):
    """The size of a numerator, and the exponents of what is divided by."""

    above: Size
    below: Mapping[Hashable, int]


def largest(tape: Tape) -> Size:
    """Of any value of a tape: numerator and denominator together; the most of each number."""
    domain = _Sizes()
    found = values(tape, domain, [_Quotient(Size(1, 0), {})] * tape.inputs)[tape.inputs : len(tape)]
    wholes = [each.above + _product(each.below, domain.sizes) for each in found]
    return Size(max((each.degree for each in wholes), default=0), max((each.bits for each in wholes), default=0))


class _Sizes(Domain):
    """Sizes of values, and of what is divided by."""

    located = frozenset(("divide", "sin", "cos", "power"))

    def __init__(self) -> None:
        self.sizes: dict[Hashable, Size] = {_TWO: Size(0, 1)}

    def number(self, number: float) -> _Quotient:
        if not math.isfinite(number):
            return _Quotient(_NOTHING, {})
        numerator, denominator = number.as_integer_ratio()
        return _Quotient(Size(0, numerator.bit_length()), {_TWO: denominator.bit_length() - 1})

    def add(self, x: _Quotient, y: _Quotient) -> _Quotient:
        return _sum([x, y], self.sizes)

    subtract = add

    def select(self, _: _Quotient, x: _Quotient, y: _Quotient) -> _Quotient:
        return _sum([x, y], self.sizes)

    def negative(self, x: _Quotient, *_: _Quotient) -> _Quotient:
        return x

    attach = negative

    def multiply(self, x: _Quotient, y: _Quotient) -> _Quotient:
        return _Quotient(x.above + y.above, _merged(x.below, y.below))

    def divide(self, tape: Tape, r: int, x: _Quotient, y: _Quotient) -> _Quotient:
        return _divided(x, y, tape.second[r], self.sizes)

    def sqrt(self, x: _Quotient) -> _Quotient:  # of N/D it is that of N·D, divided by D
        square = x.above + _product(x.below, self.sizes)
        return _Quotient(Size(-(-square.degree // 2), -(-square.bits // 2)), x.below)

    def sin(self, tape: Tape, r: int, _: _Quotient) -> _Quotient:
        circle = "circle", tape.first[r]
        self.sizes[circle] = Size(2, 1)
        return _Quotient(Size(2, 1), {circle: 1})

    cos = sin

    def power(self, tape: Tape, r: int, base: _Quotient, _: _Quotient) -> _Quotient:
        if tape.second[r] >= 0 or not abs(exponent := tape.value_of(tape.second[r])) <= LARGEST_POWER:
            return self.function()
        whole = math.floor(exponent)
        times = abs(whole)
        power = _Quotient(base.above.times(times), {key: times * many for key, many in base.below.items()})
        if whole < 0:
            power = _divided(_Quotient(_NOTHING, {}), power, ("power", r), self.sizes)
        return power._replace(above=power.above + Size(1, 0))

    def function(self, *_: Any) -> _Quotient:
        return _Quotient(Size(1, 0), {})


def _sum(terms: list[_Quotient], sizes: Mapping[Hashable, Size]) -> _Quotient:
    below: dict[Hashable, int] = {}
    for term in terms:
        for key, many in term.below.items():
            below[key] = max(many, below.get(key, 0))
    above = [
        term.above + _product({key: many - term.below.get(key, 0) for key, many in below.items()}, sizes)
        for term in terms
    ]
    return _Quotient(Size(max(each.degree for each in above), 1 + max(each.bits for each in above)), below)


def _divided(x: _Quotient, y: _Quotient, name: Hashable, sizes: dict[Hashable, Size]) -> _Quotient:
    sizes[name] = y.above
    left = _merged(x.below, {name: 1})
    for key, many in y.below.items():
        left[key] = left.get(key, 0) - many
    above = x.above + _product({key: -many for key, many in left.items() if many < 0}, sizes)
    return _Quotient(above, {key: many for key, many in left.items() if many > 0})


def _merged(a: Mapping[Hashable, int], b: Mapping[Hashable, int]) -> dict[Hashable, int]:
    found = dict(a)
    for key, many in b.items():
        found[key] = found.get(key, 0) + many
    return found


def _product(powers: Mapping[Hashable, int], sizes: Mapping[Hashable, Size]) -> Size:
    total = _NOTHING
    for key, many in powers.items():
        if many:
            total += sizes[key].times(many)
    return total
