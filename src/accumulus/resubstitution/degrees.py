"""How large the polynomials are that a program computes quotients of: degrees, and bits of the coefficients.

A value is N / (D₁^e₁ D₂^e₂ …), the D being numerators of what was divided by, so that sums need no more of them than
their terms have. Roots and functions are variables of their own; a root has half the size of what it is of.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

from accumulus.resubstitution.residues import LARGEST_POWER
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Size", "largest"]

_CODES: Final = {row.name: row.code for row in OPERATIONS}
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _NEGATIVE = (
    _CODES[name] for name in ("add", "subtract", "multiply", "divide", "negative")
)
_SQRT, _POWER, _SINE, _COSINE, _SELECT, _ATTACH = (
    _CODES[name] for name in ("sqrt", "power", "sin", "cos", "select", "attach")
)
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
    sizes: dict[Hashable, Size] = {_TWO: Size(0, 1)}
    values = [_Quotient(Size(1, 0), {}) for _ in range(tape.inputs)]
    values += [_Quotient(_NOTHING, {})] * tape.operations
    values += [_number(number) for number in reversed(tape.constants)]
    degree = bits = 0
    for r in range(tape.inputs, len(tape)):
        each = values[r] = _operation(tape, r, values, sizes)
        whole = each.above + _product(each.below, sizes)
        degree, bits = max(degree, whole.degree), max(bits, whole.bits)
    return Size(degree, bits)


def _number(number: float) -> _Quotient:
    if not math.isfinite(number):
        return _Quotient(_NOTHING, {})
    numerator, denominator = number.as_integer_ratio()
    return _Quotient(Size(0, numerator.bit_length()), {_TWO: denominator.bit_length() - 1})


def _operation(tape: Tape, r: int, values: list[_Quotient], sizes: dict[Hashable, Size]) -> _Quotient:
    code, arguments = tape.codes[r], [values[a] for a in tape.arguments(r)]
    if code in (_ADD, _SUBTRACT):
        return _sum(arguments, sizes)
    if code == _SELECT:
        return _sum(arguments[1:], sizes)
    if code in (_NEGATIVE, _ATTACH):
        return arguments[0]
    if code == _MULTIPLY:
        x, y = arguments
        return _Quotient(x.above + y.above, _merged(x.below, y.below))
    if code == _DIVIDE:
        x, y = arguments
        return _divided(x, y, tape.arguments(r)[1], sizes)
    if code == _SQRT:  # of N/D it is that of N·D, divided by D
        square = arguments[0].above + _product(arguments[0].below, sizes)
        return _Quotient(Size(-(-square.degree // 2), -(-square.bits // 2)), arguments[0].below)
    if code in (_SINE, _COSINE):
        circle = "circle", tape.first[r]
        sizes[circle] = Size(2, 1)
        return _Quotient(Size(2, 1), {circle: 1})
    if code == _POWER and tape.second[r] < 0 and abs(exponent := tape.value_of(tape.second[r])) <= LARGEST_POWER:
        whole = math.floor(exponent)
        base, times = arguments[0], abs(whole)
        power = _Quotient(base.above.times(times), {key: times * many for key, many in base.below.items()})
        if whole < 0:
            power = _divided(_Quotient(_NOTHING, {}), power, ("power", r), sizes)
        return power._replace(above=power.above + Size(1, 0))
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
