"""Short formulas multiplied out, so that those that are equal by sums and products alone are seen to be."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from accumulus.resubstitution.definitions import ADD, COPY, DIVIDE, MULTIPLY, Definition
from accumulus.tape.operations import OPERATIONS

__all__ = ["Expansion", "are_equal", "constant", "expanded", "symbol"]

#: Terms of a sum, at most.
MOST_TERMS: Final = 8
#: By how much numbers may differ that were rounded in different ways, and digits of those within functions.
ROUNDED: Final = 1e-12
DIGITS: Final = 10

#: Coefficients of products; these are powers of symbols and functions, with what they are powers of in order.
Product = tuple[tuple[Hashable, int], ...]
Expansion = dict[Product, float]


def constant(number: float) -> Expansion:
    """A number."""
    return {(): number} if number else {}


def symbol(name: Hashable) -> Expansion:
    """What stands for any number."""
    return {((("symbol", name), 1),): 1.0}


def expanded(definition: Definition, of: Callable[[int], Expansion | None]) -> Expansion | None:
    """An operation on expansions of its arguments; None for more than `MOST_TERMS` terms.

    Args:
        of: expansions of values, which may be negative.
    """
    arguments = []
    for argument in definition.arguments:
        each = of(abs(argument))
        if each is None:
            return None
        arguments.append(each if argument > 0 else _times(each, constant(-1.0)))
    code = definition.code
    if code == COPY:
        found = arguments[0]
    elif code == ADD:
        found = _sum(*arguments)
    elif code == MULTIPLY:
        found = _times(*arguments)
    elif code == DIVIDE:
        found = _times(arguments[0], _inverse(arguments[1]))
    else:
        found = _function(code, arguments)
    if definition.sign < 0:
        found = _times(found, constant(-1.0))
    return found if len(found) <= MOST_TERMS else None


def are_equal(one: Expansion | None, two: Expansion | None) -> bool:
    """Whether both are known, and equal but for rounding."""
    if one is None or two is None:
        return False
    scale = ROUNDED * max(map(abs, [*one.values(), *two.values()]), default=0.0)
    return all(
        abs(one.get(product, 0.0) - two.get(product, 0.0)) <= max(scale * 1e-3, ROUNDED * abs(one.get(product, 0.0)))
        for product in one.keys() | two.keys()
    )


def _function(code: int, arguments: list[Expansion]) -> Expansion:
    names = [_name(each) for each in arguments]
    number = 1.0
    if OPERATIONS[code].parity is not None:
        opposite = _name(_times(arguments[0], constant(-1.0)))
        if repr(opposite) < repr(names[0]):
            names, number = [opposite], -1.0 if OPERATIONS[code].parity == "odd" else 1.0
    elif OPERATIONS[code].commutative:
        names.sort(key=repr)
    return {((("function", code, *names), 1),): number}


def _sum(a: Expansion, b: Expansion) -> Expansion:
    found = dict(a)
    for product, number in b.items():
        total = found.get(product, 0.0) + number
        if abs(total) <= ROUNDED * abs(number):
            found.pop(product, None)
        else:
            found[product] = total
    return found


def _times(a: Expansion, b: Expansion) -> Expansion:
    found: Expansion = {}
    for one, x in a.items():
        for two, y in b.items():
            powers = dict(one)
            for factor, power in two:
                powers[factor] = powers.get(factor, 0) + power
            product = tuple(sorted(((f, n) for f, n in powers.items() if n), key=repr))
            found = _sum(found, {product: x * y})
    return found


def _inverse(a: Expansion) -> Expansion:
    if len(a) == 1:
        ((product, number),) = a.items()
        return {tuple((factor, -power) for factor, power in product): 1.0 / number}
    # of a sum, up to a factor
    lead = a[min(a, key=repr)] if a else 1.0
    return {((("sum", _name(_times(a, constant(1.0 / lead)))), -1),): 1.0 / lead}


def _name(a: Expansion) -> Hashable:
    return tuple(sorted(((product, f"{number:.{DIGITS}e}") for product, number in a.items()), key=repr))
