"""Quotients that are 0/0 at a point: a polynomial around it, the closed form elsewhere.

Each derivative of a quotient such as sin(x)/x loses digits like k!/xᵏ, so that the closed form is right from a radius
of about 2 on only. Within that, the function is the polynomial of its power series, and derivatives are those of the
polynomial; it has as many terms as its first six derivatives need at the radius. Nothing is chosen by x = 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from math import factorial, prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape

__all__ = ["SERIES", "removable", "terms"]

#: What the terms that are left out may be, relative to the first, in a derivative of this order.
_RELATIVE: Final = 2.0**-56
_ORDER: Final = 6

#: Coefficients of power series: of x², but for expm1(x)/x.
SERIES: Final[dict[str, Callable[[int], float]]] = {
    "sin(x)/x": lambda k: (-1.0) ** k / factorial(2 * k + 1),
    "expm1(x)/x": lambda k: 1.0 / factorial(k + 1),
    "atanh(x)/x": lambda k: 1.0 / (2 * k + 1),
    "j1(x)/x": lambda k: 0.5 * (-0.25) ** k / (factorial(k) * factorial(k + 1)),
    "i1(x)/x": lambda k: 0.5 * 0.25**k / (factorial(k) * factorial(k + 1)),
    "spherical_jn(1, x)/x": lambda k: (-0.5) ** k / (factorial(k) * prod(range(3, 2 * k + 4, 2))),
    "spherical_jn(2, x)/x²": lambda k: (-0.5) ** k / (factorial(k) * prod(range(3, 2 * k + 6, 2))),
}


def removable(
    tape: Tape,
    x: int,
    coefficient: Callable[[int], float],
    closed: Callable[[int], int],
    radius: float,
    *,
    even: bool = False,
    factor: int | None = None,
) -> int:
    """Write a function that is a power series near 0 and a closed form elsewhere; its reference.

    Args:
        tape: where.
        x: reference of the argument.
        coefficient: that of xᵏ, or of x²ᵏ of an even function.
        closed: writes the closed form, given the truth value of |x| < radius, where it may be any number.
        radius: where the closed form begins.
        even: whether the series is one of x².
        factor: reference of what the series is multiplied by.
    """
    variable = tape.multiply(x, x) if even else x
    size = variable if even else tape.apply("abs", x)
    near = tape.apply("less", size, tape.constant(radius**2 if even else radius))
    inside = tape.select(near, variable, tape.constant(0.0))
    first, *others = reversed(terms(coefficient, radius**2 if even else radius))
    total = tape.constant(first)
    for each in others:
        total = tape.add(tape.multiply(total, inside), tape.constant(each))
    if factor is not None:
        total = tape.multiply(factor, total)
    return tape.select(near, total, closed(near))


@cache
def terms(coefficient: Callable[[int], float], variable: float) -> tuple[float, ...]:
    """Coefficients up to the last that matters where the variable is largest."""
    found = []
    for k in itertools.count():
        found.append(coefficient(k))
        if k > _ORDER and abs(found[-1]) * variable**k * k**_ORDER < _RELATIVE * abs(found[0]):
            return tuple(found)
    raise AssertionError
