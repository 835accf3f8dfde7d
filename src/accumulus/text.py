"""Text from elsewhere, where people and programs read it: names in files, paths, messages.

A name may hold anything: sequences that a terminal obeys, marks that turn the direction of writing, line breaks, half
of a surrogate pair. Wherever one is printed, or becomes part of other text, it goes through here.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Final

#: Marks behind a name that is there already; beyond, a number is shorter.
_PRIMES: Final = 3


def printable(text: str, keep: str = "") -> str:
    r"""The text with everything that cannot be seen spelled out, as `repr` spells it.

    Args:
        keep: characters that stay as they are all the same.

    >>> print(printable("\x1b[31mred, \u202eturned, \ud800"), printable("two\nlines", keep="\n"))
    \x1b[31mred, \u202eturned, \ud800 two
    lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def fresh(name: str, taken: Container[object], begun: dict[str, int]) -> str:
    """The name with primes behind it, so that it is not taken; with one prime and a number, once that is shorter.

    Args:
        begun: where the search for a number goes on, by name; so that many of one name take linear time.

    >>> [fresh("y", taken, {}) for taken in ({"y"}, {"y", "y′"}, {"y", "y′", "y′′", "y′′′"})]
    ['y′', 'y′′', 'y′4']
    """
    if name not in taken:
        return name
    for primes in range(1, _PRIMES + 1):
        if (primed := name + "′" * primes) not in taken:
            return primed
    for number in count(begun.get(name, _PRIMES + 1)):
        if (numbered := f"{name}′{number}") not in taken:
            begun[name] = number + 1
            return numbered
    raise AssertionError
